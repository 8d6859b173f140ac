//! A memory budget for received requests and unsent replies, shared by all connections.
//!
//! Each connection has small buffers of its own. It reserves what it needs beyond them here and releases it
//! once it is idle and less than half of the budget is free. A connection that finds too little free waits;
//! meanwhile clients that stall are disconnected (`nbd/server.rs`).
//!
//! Invariants: reservations never exceed the budget; a wait ends when its caller asks for that.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often a waiting thread checks whether to keep waiting.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// See the module page.
#[derive(Debug)]
pub struct MemoryBudget {
    total: usize,
    free: Mutex<usize>,
    freed: Condvar,
    waiters: AtomicUsize,
}

impl MemoryBudget {
    /// A budget of `total` bytes.
    pub fn new(total: usize) -> Self {
        Self { total, free: Mutex::new(total), freed: Condvar::new(), waiters: AtomicUsize::new(0) }
    }

    // A number has no intermediate states.
    fn free(&self) -> MutexGuard<'_, usize> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves bytes, capped at the whole budget, and waits for them while `keep_waiting` returns true.
    /// Returns whether it succeeded.
    pub fn reserve(&self, bytes: usize, keep_waiting: impl Fn() -> bool) -> bool {
        let bytes = bytes.min(self.total);
        let mut free = self.free();
        if *free < bytes {
            self.waiters.fetch_add(1, Ordering::Relaxed);
            while *free < bytes && keep_waiting() {
                free = self.freed.wait_timeout(free, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0;
            }
            self.waiters.fetch_sub(1, Ordering::Relaxed);
        }
        let reserved = *free >= bytes;
        if reserved {
            *free -= bytes;
        }
        reserved
    }

    /// Releases the bytes of one reservation.
    pub fn release(&self, bytes: usize) {
        if bytes > 0 {
            *self.free() += bytes.min(self.total);
            self.freed.notify_all();
        }
    }

    /// Whether less than half of the budget is free.
    pub fn is_low(&self) -> bool {
        *self.free() < self.total / 2
    }

    /// Whether any connection waits for memory.
    pub fn has_waiters(&self) -> bool {
        self.waiters.load(Ordering::Relaxed) > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reservations_never_exceed_the_budget() {
        let budget = MemoryBudget::new(100);
        assert!(budget.reserve(60, || false) && budget.is_low());
        assert!(!budget.reserve(60, || false), "nothing is released");
        budget.release(60);
        assert!(budget.reserve(1000, || false), "a reservation is capped at the whole budget");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| budget.reserve(10, || true));
            while !budget.has_waiters() {
                std::thread::yield_now();
            }
            budget.release(1000);
            assert!(waiter.join().expect("no panic"));
        });
        assert_eq!(*budget.free(), 90);
    }
}
