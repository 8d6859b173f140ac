//! When commands came, for what waits until none do, and whether the drive is being closed.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Short commands that came so lately have others behind them.
const LATELY: Duration = Duration::from_millis(20);

/// When commands came last.
pub(super) struct Activity {
    began: Instant,
    /// When the last short command came, and the last piece of a long one, us since it began.
    short_at_us: AtomicU64,
    long_at_us: AtomicU64,
}

impl Activity {
    /// From now on.
    pub(super) fn new() -> Self {
        Self { began: Instant::now(), short_at_us: AtomicU64::new(0), long_at_us: AtomicU64::new(0) }
    }

    /// The time since this began, us.
    pub(super) fn now_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// A short command came.
    pub(super) fn short_came(&self) {
        self.short_at_us.store(self.now_us(), Ordering::Relaxed);
    }

    /// A piece of a long command begins.
    pub(super) fn long_came(&self) {
        self.long_at_us.store(self.now_us(), Ordering::Relaxed);
    }

    /// Whether short commands come.
    pub(super) fn has_short(&self) -> bool {
        let came = Duration::from_micros(self.short_at_us.load(Ordering::Relaxed));
        came > Duration::ZERO && self.began.elapsed().saturating_sub(came) < LATELY
    }

    /// For how long no command came.
    pub(super) fn quiet(&self) -> Duration {
        let came = self.short_at_us.load(Ordering::Relaxed).max(self.long_at_us.load(Ordering::Relaxed));
        self.began.elapsed().saturating_sub(Duration::from_micros(came))
    }
}

/// Whether a drive is being closed.
#[derive(Default)]
pub(super) struct Ending {
    over: Mutex<bool>,
    ends: Condvar,
}

impl Ending {
    /// The end begins.
    pub(super) fn begin(&self) {
        *self.over.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.ends.notify_all();
    }

    /// Waits for a time or for the end; whether that has begun.
    pub(super) fn wait(&self, pause: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ends.wait_timeout_while(over, pause, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}
