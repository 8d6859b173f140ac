//! Turns: who waits longest is next.
//!
//! A lock of the system goes to whoever is awake, which is mostly the thread that gave it up just now; between
//! commands that are done in many pieces that would starve all but one.
//!
//! Invariant: turns are taken in the order in which they were asked for, one at a time.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Thread;

/// See the module page.
#[derive(Debug, Default)]
pub struct Turns(Mutex<Queue>);

#[derive(Debug, Default)]
struct Queue {
    next: u64,
    /// The first of them has its turn.
    waiting: VecDeque<(u64, Thread)>,
}

/// A turn, over when it is dropped.
#[derive(Debug)]
pub struct Turn<'a>(&'a Turns);

impl Turns {
    // The list is whole between any two statements that can panic.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for a turn.
    pub fn take(&self) -> Turn<'_> {
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.waiting.push_back((number, std::thread::current()));
        while queue.waiting.front().is_some_and(|(first, _)| *first != number) {
            drop(queue);
            std::thread::park();
            queue = self.queue();
        }
        Turn(self)
    }
}

impl Drop for Turn<'_> {
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
    fn turns_go_round() {
        let turns = Turns::default();
        let (took, taken) = channel();
        std::thread::scope(|scope| {
            let first = turns.take();
            for thread in 0..3 {
                let (turns, took) = (&turns, took.clone());
                scope.spawn(move || {
                    for _ in 0..20 {
                        let _turn = turns.take();
                        took.send(thread).expect("somebody counts");
                    }
                });
                while turns.queue().waiting.len() < thread + 2 {
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
