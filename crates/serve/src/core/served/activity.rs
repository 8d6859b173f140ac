//! When commands came, and the work that an image does when none come.
//!
//! Left alone for as long as the layer's own patience, an image does the layer's idle work, one unit at a time, so that a
//! command waits for at most one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use skylight_image::Image;
use skylight_layer::Idle;

use super::access::Access;

/// Idle work that found no space is tried again so much later: space comes when a person makes it.
const IDLE_REFUSED: Duration = Duration::from_secs(5);
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
    fn quiet(&self) -> Duration {
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
    fn wait(&self, pause: Duration) -> bool {
        let over = self.over.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.ends.wait_timeout_while(over, pause, |over| !*over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

impl Access {
    /// Until the end: waits until no command came for `patience`, then works until one does.
    pub(super) fn idle(&self, patience: Duration) {
        loop {
            let quiet = self.activity.quiet();
            let unit = if quiet >= patience { self.change(Image::idle) } else { Ok(Idle::Nothing) };
            let pause = match unit {
                Ok(Idle::Worked) => Duration::ZERO,
                // With nothing to do it looks again after as long as it was patient.
                Ok(Idle::Nothing) => patience.saturating_sub(quiet).max(patience / 4),
                Err(_) => IDLE_REFUSED,
            };
            self.idle_units.fetch_add(u64::from(unit == Ok(Idle::Worked)), Ordering::Relaxed);
            if self.ending.wait(pause) {
                return;
            }
        }
    }
}
