//! A fair lock: FIFO order among waiting threads.
//!
//! A mutex of the system usually goes to the thread that released it last, because that thread is running.
//! Between commands that execute in many pieces, all but one would starve.
//!
//! Invariant: the lock is acquired in the order of the requests.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// See the module page.
#[derive(Debug, Default)]
pub struct FairLock(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// The first entry holds the lock.
    waiting: VecDeque<(u64, Thread)>,
}

/// Releases the lock on drop.
#[derive(Debug)]
pub struct FairGuard<'a>(&'a FairLock);

impl FairLock {
    // No statement that can panic leaves the list inconsistent.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acquires the lock.
    pub fn lock(&self) -> FairGuard<'_> {
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
    fn threads_acquire_the_lock_in_fifo_order() {
        let lock = FairLock::default();
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            let first = lock.lock();
            for thread in 0..3 {
                let (lock, sender) = (&lock, sender.clone());
                scope.spawn(move || {
                    for _ in 0..20 {
                        let _guard = lock.lock();
                        sender.send(thread).expect("the receiver exists");
                    }
                });
                while lock.queue().waiting.len() < thread + 2 {
                    std::thread::yield_now();
                }
            }
            drop(first);
        });
        let order: Vec<usize> = receiver.try_iter().collect();
        assert_eq!(order.len(), 60);
        assert_eq!(order[..3], [0, 1, 2], "in order of arrival");
    }
}
