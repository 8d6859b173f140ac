//! Memory for requests that come and replies that wait, of all connections together.
//!
//! Each connection has a little of its own; what it needs beyond that is lent from here, and given back once it is idle
//! and less than half is left. Who finds too little waits; clients that owe something meanwhile are dropped
//! (`nbd/server.rs`).
//!
//! Invariant: what is lent is never more than there is; a wait ends when the one that waits is told to.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often who waits looks whether to go on waiting.
const LOOK_UP: Duration = Duration::from_millis(50);

/// See the module page.
#[derive(Debug)]
pub struct Budget {
    all: usize,
    left: Mutex<usize>,
    freed: Condvar,
    waiting: AtomicUsize,
}

impl Budget {
    /// So many bytes.
    pub fn new(all: usize) -> Self {
        Self { all, left: Mutex::new(all), freed: Condvar::new(), waiting: AtomicUsize::new(0) }
    }

    // A number is whole at any time.
    fn left(&self) -> MutexGuard<'_, usize> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lends bytes, at most all there are; waits for them while `waits` says so. Whether it did.
    pub fn take(&self, bytes: usize, waits: impl Fn() -> bool) -> bool {
        let bytes = bytes.min(self.all);
        let mut left = self.left();
        if *left < bytes {
            self.waiting.fetch_add(1, Ordering::Relaxed);
            while *left < bytes && waits() {
                left = self.freed.wait_timeout(left, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
            }
            self.waiting.fetch_sub(1, Ordering::Relaxed);
        }
        let lends = *left >= bytes;
        if lends {
            *left -= bytes;
        }
        lends
    }

    /// Takes back bytes that were lent in one go.
    pub fn give(&self, bytes: usize) {
        if bytes > 0 {
            *self.left() += bytes.min(self.all);
            self.freed.notify_all();
        }
    }

    /// Whether less than half is left.
    pub fn is_short(&self) -> bool {
        *self.left() < self.all / 2
    }

    /// Whether anybody waits.
    pub fn is_waited_for(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_lent_is_never_more_than_there_is() {
        let budget = Budget::new(100);
        assert!(budget.take(60, || false) && budget.is_short());
        assert!(!budget.take(60, || false), "nobody gives any back");
        budget.give(60);
        assert!(budget.take(1000, || false), "more than all is all");
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| budget.take(10, || true));
            while !budget.is_waited_for() {
                std::thread::yield_now();
            }
            budget.give(1000);
            assert!(waits.join().expect("it waits"));
        });
        assert_eq!(*budget.left(), 90);
    }
}
