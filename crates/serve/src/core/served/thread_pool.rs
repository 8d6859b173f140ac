//! A pool of threads that do commands in parallel, for a drive whose time a disk underneath sets: while one waits for
//! the disk, others are on their way to it.
//!
//! Invariants: commands are taken in the order in which they came; threads are made as they are needed, up to a most,
//! and stay; at the end what was taken is done, and what comes after is answered by ESHUTDOWN.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::core::Job;

/// Does commands that one thread took together.
type Work = Box<dyn Fn(Vec<Job>) + Send + Sync>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads that wait for commands.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    over: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    came: Condvar,
    name: &'static str,
    /// Commands that one thread takes at a time.
    together: usize,
    /// Threads.
    most: usize,
    work: Work,
}

/// See the module page.
pub struct ThreadPool(Arc<Shared>);

impl Shared {
    // The queue is whole between any two statements that can panic.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Works until the end.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            let count = queue.jobs.len().min(self.together);
            let jobs: Vec<Job> = queue.jobs.drain(..count).collect();
            if !jobs.is_empty() {
                drop(queue);
                // Nobody waits for those whose client is gone: dropped, they are answered.
                (self.work)(jobs.into_iter().filter(|job| !job.is_abandoned()).collect());
                queue = self.queue();
            } else if queue.over {
                return;
            } else {
                queue.idle += 1;
                queue = self.came.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

impl ThreadPool {
    /// Up to `most` threads, each of which takes up to `together` commands at a time and does `work` with them.
    pub fn new(
        name: &'static str,
        most: usize,
        together: usize,
        work: impl Fn(Vec<Job>) + Send + Sync + 'static,
    ) -> Self {
        let (queue, work) = (Mutex::default(), Box::new(work));
        Self(Arc::new(Shared { queue, came: Condvar::new(), name, together, most, work }))
    }

    /// Takes a command.
    pub fn submit(&self, job: Job) {
        let mut queue = self.0.queue();
        if queue.over {
            // Dropped, it is answered.
            return;
        }
        queue.jobs.push_back(job);
        if queue.jobs.len() > queue.idle && queue.threads.len() < self.0.most {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name(self.0.name.to_owned());
            match thread.spawn(move || shared.run()) {
                Ok(handle) => queue.threads.push(handle),
                Err(_) if queue.threads.is_empty() => {
                    let jobs = queue.jobs.drain(..).collect();
                    drop(queue);
                    return (self.0.work)(jobs);
                }
                // Those that there are do it.
                Err(_) => {}
            }
        }
        drop(queue);
        self.0.came.notify_one();
    }

    /// Does what was taken, and ends the threads.
    pub fn end(&self) {
        let mut queue = self.0.queue();
        queue.over = true;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.0.came.notify_all();
        for thread in threads {
            // One that panicked has said so, and its command was answered.
            let _ = thread.join();
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::core::{Answer, Command, Errno};

    fn job(number: u64, said: &std::sync::mpsc::Sender<(u64, Result<(), Errno>)>) -> Job {
        let said = said.clone();
        let answer: Answer = Box::new(move |completion| said.send((number, completion.result)).unwrap());
        Job::new(Command::FLUSH, Vec::new(), answer)
    }

    #[test]
    fn one_thread_keeps_the_order_and_takes_what_waits_together() {
        let (said, heard) = channel();
        let (open, gate) = channel::<()>();
        let (sizes, told) = channel();
        let gate = Mutex::new(gate);
        let pool = ThreadPool::new("pool", 1, 4, move |jobs: Vec<Job>| {
            gate.lock().unwrap().recv().unwrap();
            sizes.send(jobs.len()).unwrap();
            jobs.into_iter().for_each(|job| job.finish(Ok(())));
        });
        for number in 0..10 {
            pool.submit(job(number, &said));
        }
        (0..10).for_each(|_| open.send(()).unwrap());
        pool.end();
        let order: Vec<u64> = heard.try_iter().map(|(number, _)| number).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        let sizes: Vec<usize> = told.try_iter().collect();
        assert!(sizes.iter().sum::<usize>() == 10 && sizes.iter().all(|&size| size <= 4) && sizes.len() <= 4);
        pool.submit(job(10, &said));
        assert_eq!(heard.recv().unwrap(), (10, Err(Errno::Shutdown)));
    }
}
