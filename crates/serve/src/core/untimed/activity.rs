//! Tracks when commands arrive, for work that waits until none do, and whether the drive is shutting down.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A short command this recent suggests that more follow.
const RECENT: Duration = Duration::from_millis(20);

/// When the last commands arrived.
pub(super) struct Activity {
    started: Instant,
    /// When the last short command arrived, and when the last piece of a long one started, us since
    /// `started`.
    short_at_us: AtomicU64,
    long_at_us: AtomicU64,
}

impl Activity {
    /// Starts the clock.
    pub(super) fn new() -> Self {
        Self { started: Instant::now(), short_at_us: AtomicU64::new(0), long_at_us: AtomicU64::new(0) }
    }

    /// The time since the start, us.
    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Records the arrival of a short command.
    pub(super) fn note_short_command(&self) {
        self.short_at_us.store(self.now_us(), Ordering::Relaxed);
    }

    /// Records the start of a piece of a long command.
    pub(super) fn note_long_piece(&self) {
        self.long_at_us.store(self.now_us(), Ordering::Relaxed);
    }

    /// Whether a short command arrived recently.
    pub(super) fn has_recent_short_command(&self) -> bool {
        let last = Duration::from_micros(self.short_at_us.load(Ordering::Relaxed));
        last > Duration::ZERO && self.started.elapsed().saturating_sub(last) < RECENT
    }

    /// How long no command has arrived.
    pub(super) fn idle_time(&self) -> Duration {
        let last = self.short_at_us.load(Ordering::Relaxed).max(self.long_at_us.load(Ordering::Relaxed));
        self.started.elapsed().saturating_sub(Duration::from_micros(last))
    }
}

/// Signals that the drive is being closed.
#[derive(Default)]
pub(super) struct ShutdownSignal {
    started: Mutex<bool>,
    changed: Condvar,
}

impl ShutdownSignal {
    /// Starts the shutdown.
    pub(super) fn begin(&self) {
        *self.started.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.changed.notify_all();
    }

    /// Waits for `timeout` or for the shutdown; returns whether it has started.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_timeout_while(started, timeout, |started| !*started);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
