//! A fair lock: the thread that waits longest is next.
//!
//! A lock of the system goes to whoever is awake, which is mostly the thread that gave it up just now; between
//! commands that are done in many pieces that would starve all but one.
//!
//! Invariant: the lock is taken in the order in which it was asked for.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// See the module page.
#[derive(Debug, Default)]
pub struct FairLock(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// The first of them has the lock.
    waiting: VecDeque<(u64, Thread)>,
}

/// The lock, released when this is dropped.
#[derive(Debug)]
pub struct FairGuard<'a>(&'a FairLock);

impl FairLock {
    // The list is whole between any two statements that can panic.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the lock.
    pub fn take(&self) -> FairGuard<'_> {
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back((number, std::thread::current()));
        while queue.waiting.front().is_some_and(|(first, _)| *first != number) {
            drop(queue);
            std::thread::park();
            queue = self.queue();
        }
        FairGuard(self)
    }
}

impl Drop for FairGuard<'_> {
    fn drop(&mut self) {
        let mut queue = self.0.queue();
        queue.waiting.pop_front();
        if let Some((_, next)) = queue.waiting.front() {
            next.unpark();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn threads_take_turns_in_the_order_in_which_they_came() {
        let lock = FairLock::default();
        let (took, taken) = channel();
        std::thread::scope(|scope| {
            let first = lock.take();
            for thread in 0..3 {
                let (lock, took) = (&lock, took.clone());
                scope.spawn(move || {
                    for _ in 0..20 {
                        let _guard = lock.take();
                        took.send(thread).expect("somebody counts");
                    }
                });
                while lock.queue().waiting.len() < thread + 2 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        let order: Vec<usize> = taken.try_iter().collect();
        assert_eq!(order.len(), 60);
        assert_eq!(order[..3], [0, 1, 2], "in the order in which they came");
    }
}
