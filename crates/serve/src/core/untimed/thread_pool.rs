//! A thread pool that executes commands in parallel, for a drive whose timing comes from a disk underneath:
//! while one thread waits for the disk, others submit further commands.
//!
//! Invariants: commands are dequeued in order of submission; threads are created on demand, up to a maximum,
//! and stay; shutdown executes the queued commands, and later ones complete with ESHUTDOWN.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use crate::core::Job;

/// Executes a batch of commands that one thread dequeued.
type Work = Box<dyn Fn(Vec<Job>) + Send + Sync>;

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    /// Threads waiting for commands.
    idle: usize,
    threads: Vec<JoinHandle<()>>,
    closed: bool,
}

struct Shared {
    queue: Mutex<Queue>,
    queued: Condvar,
    name: &'static str,
    /// Maximum batch size of one thread.
    max_batch: usize,
    /// Maximum number of threads.
    max_threads: usize,
    work: Work,
}

/// See the module page.
pub struct ThreadPool(Arc<Shared>);

impl Shared {
    // No statement that can panic leaves the queue inconsistent.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Executes commands until shutdown.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            let count = queue.jobs.len().min(self.max_batch);
            let jobs: Vec<Job> = queue.jobs.drain(..count).collect();
            if !jobs.is_empty() {
                drop(queue);
                // Dropping a cancelled command completes it.
                (self.work)(jobs.into_iter().filter(|job| !job.is_cancelled()).collect());
                queue = self.queue();
            } else if queue.closed {
                return;
            } else {
                queue.idle += 1;
                queue = self.queued.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
            }
        }
    }
}

impl ThreadPool {
    /// A pool of up to `max_threads` threads, each of which passes batches of up to `max_batch` commands to
    /// `work`.
    pub fn new(
        name: &'static str,
        max_threads: usize,
        max_batch: usize,
        work: impl Fn(Vec<Job>) + Send + Sync + 'static,
    ) -> Self {
        let (queue, work) = (Mutex::default(), Box::new(work));
        Self(Arc::new(Shared { queue, queued: Condvar::new(), name, max_batch, max_threads, work }))
    }

    /// Queues a command.
    pub fn submit(&self, job: Job) {
        let mut queue = self.0.queue();
        if queue.closed {
            // Dropping the command completes it.
            return;
        }
        queue.jobs.push_back(job);
        if queue.jobs.len() > queue.idle && queue.threads.len() < self.0.max_threads {
            let shared = self.0.clone();
            let thread = std::thread::Builder::new().name(self.0.name.to_owned());
            match thread.spawn(move || shared.run()) {
                Ok(handle) => queue.threads.push(handle),
                Err(_) if queue.threads.is_empty() => {
                    let jobs = queue.jobs.drain(..).collect();
                    drop(queue);
                    return (self.0.work)(jobs);
                }
                // The existing threads will execute it.
                Err(_) => {}
            }
        }
        drop(queue);
        self.0.queued.notify_one();
    }

    /// Executes the queued commands and joins the threads.
    pub fn shut_down(&self) {
        let mut queue = self.0.queue();
        queue.closed = true;
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        self.0.queued.notify_all();
        for thread in threads {
            // A thread that panicked has printed its message, and dropping its commands has completed them.
            let _ = thread.join();
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.shut_down();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::core::{Command, Failure, OnComplete, Outcome};

    fn job(number: u64, completions: &std::sync::mpsc::Sender<(u64, Outcome)>) -> Job {
        let completions = completions.clone();
        let on_complete: OnComplete =
            Box::new(move |completion| completions.send((number, completion.outcome)).unwrap());
        Job::new(Command::FLUSH, Vec::new(), on_complete)
    }

    #[test]
    fn one_thread_keeps_the_order_and_dequeues_batches() {
        let (completions, completed) = channel();
        let (open, gate) = channel::<()>();
        let (sizes, batches) = channel();
        let gate = Mutex::new(gate);
        let pool = ThreadPool::new("pool", 1, 4, move |jobs: Vec<Job>| {
            gate.lock().unwrap().recv().unwrap();
            sizes.send(jobs.len()).unwrap();
            jobs.into_iter().for_each(|job| job.finish(Outcome::Done));
        });
        for number in 0..10 {
            pool.submit(job(number, &completions));
        }
        (0..10).for_each(|_| open.send(()).unwrap());
        pool.shut_down();
        let order: Vec<u64> = completed.try_iter().map(|(number, _)| number).collect();
        assert_eq!(order, (0..10).collect::<Vec<_>>());
        let sizes: Vec<usize> = batches.try_iter().collect();
        assert!(sizes.iter().sum::<usize>() == 10 && sizes.iter().all(|&size| size <= 4) && sizes.len() <= 4);
        pool.submit(job(10, &completions));
        assert_eq!(completed.recv().unwrap(), (10, Outcome::Failed(Failure::Aborted)));
    }
}
