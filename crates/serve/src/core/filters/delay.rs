//! Adds latency to commands: one delay for reads, one for all others.
//!
//! Invariants: commands execute at once and their completions are delayed; delays run in parallel;
//! completions happen in the order in which they are due.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::core::{Backend, Completion, Job, OnComplete, Op, Setting};

/// Added latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delays {
    /// Of reads.
    pub read: Duration,
    /// Of everything else.
    pub write: Duration,
}

fn ns_of(delay: Duration) -> u64 {
    u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX)
}

fn ms_of(delay: Duration) -> f64 {
    delay.as_secs_f64() * 1000.0
}

impl Delays {
    fn of(&self, op: Op) -> Duration {
        if op == Op::Read { self.read } else { self.write }
    }
}

/// A delayed completion.
struct Delayed {
    due: Instant,
    number: u64,
    run: Box<dyn FnOnce() + Send>,
}

impl PartialEq for Delayed {
    fn eq(&self, other: &Self) -> bool {
        (self.due, self.number) == (other.due, other.number)
    }
}

impl Eq for Delayed {}

impl PartialOrd for Delayed {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delayed {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.due, self.number).cmp(&(other.due, other.number))
    }
}

#[derive(Default)]
struct Queue {
    pending: BinaryHeap<Reverse<Delayed>>,
    next: u64,
    closed: bool,
}

#[derive(Default)]
struct DelayQueue {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl DelayQueue {
    // No statement leaves the heap inconsistent.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn schedule(&self, due: Instant, completion: Completion, complete: OnComplete) {
        let mut queue = self.queue();
        let number = queue.next;
        queue.next += 1;
        queue.pending.push(Reverse(Delayed { due, number, run: Box::new(move || complete(completion)) }));
        self.changed.notify_all();
    }

    /// Completes commands when they are due; at the end, the rest at once.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            let next = queue.pending.peek().map(|Reverse(pending)| pending.due);
            match next {
                Some(due) if due <= now || queue.closed => {
                    let pending = queue.pending.pop();
                    drop(queue);
                    if let Some(Reverse(pending)) = pending {
                        (pending.run)();
                    }
                    queue = self.queue();
                }
                None if queue.closed => return,
                Some(due) => {
                    let waited = self.changed.wait_timeout(queue, due - now);
                    queue = waited.unwrap_or_else(PoisonError::into_inner).0;
                }
                None => queue = self.changed.wait(queue).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

/// See the module page.
pub struct Delay {
    inner: Arc<dyn Backend>,
    /// Delays of reads and of all other commands, ns.
    delays_ns: [AtomicU64; 2],
    timer: Arc<DelayQueue>,
    thread: Option<JoinHandle<()>>,
}

impl Delay {
    /// Adds latency to completions.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(inner: Arc<dyn Backend>, delays: Delays) -> std::io::Result<Self> {
        let timer = Arc::new(DelayQueue::default());
        let running = timer.clone();
        let thread = std::thread::Builder::new().name("delay".to_owned()).spawn(move || running.run())?;
        let delays_ns = [delays.read, delays.write].map(|delay| AtomicU64::new(ns_of(delay)));
        Ok(Self { inner, delays_ns, timer, thread: Some(thread) })
    }

    fn delays(&self) -> Delays {
        let [read, write] = &self.delays_ns;
        Delays {
            read: Duration::from_nanos(read.load(Relaxed)),
            write: Duration::from_nanos(write.load(Relaxed)),
        }
    }
}

impl Drop for Delay {
    fn drop(&mut self) {
        self.timer.queue().closed = true;
        self.timer.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If the thread panicked, dropping the commands has completed them.
            let _ = thread.join();
        }
    }
}

impl super::Filter for Delay {
    fn inner(&self) -> &dyn Backend {
        self.inner.as_ref()
    }

    fn is_async(&self) -> bool {
        true
    }

    fn set(&self, setting: &Setting) -> Option<String> {
        let (delay_ns, name, delay) = match setting {
            Setting::ReadDelay(delay) => (&self.delays_ns[0], "delay-read", delay),
            Setting::WriteDelay(delay) => (&self.delays_ns[1], "delay-write", delay),
            Setting::ReadMode(_) | Setting::Faults(_) => return None,
        };
        delay_ns.store(ns_of(*delay), Relaxed);
        Some(format!("{name} {} ms", ms_of(*delay)))
    }

    fn status(&self) -> Option<(&'static str, Value)> {
        let Delays { read, write } = self.delays();
        Some(("delays_ms", json!({ "read": ms_of(read), "write": ms_of(write) })))
    }

    fn submit(&self, job: Job) {
        let (timer, since, delay) = (self.timer.clone(), Instant::now(), self.delays().of(job.command.op));
        self.inner.submit(job.intercept(move |completion, complete| {
            timer.schedule(since + delay, completion, complete);
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::core::Command;
    use crate::core::plain::Memory;

    #[test]
    fn delays_run_in_parallel() {
        let delays = Delays { read: Duration::from_millis(60), write: Duration::from_millis(20) };
        let delay = Delay::new(Arc::new(Memory::new(1 << 20)), delays).unwrap();
        let (sender, receiver) = channel();
        let began = Instant::now();
        for index in 0..20 {
            let sender = sender.clone();
            let op = if index % 2 == 0 { Op::Read } else { Op::Write };
            let complete: OnComplete =
                Box::new(move |completion| sender.send((op, completion.result, began.elapsed())).unwrap());
            delay.submit(Job::new(Command::of_bytes(op, 0, 512), vec![0; 512], complete));
        }
        let completions: Vec<_> = (0..20).map(|_| receiver.recv().unwrap()).collect();
        assert!(completions[..10].iter().all(|&(op, result, _)| op == Op::Write && result.is_ok()));
        for (op, _, took) in completions {
            assert!(took >= delays.of(op), "{op:?} after {took:?}");
        }
        // In sequence they would take 800 ms.
        assert!(began.elapsed() < Duration::from_millis(400));
    }

    #[test]
    fn a_delay_can_be_changed_at_run_time() {
        let delay = Delay::new(Arc::new(Memory::new(1 << 20)), Delays::default()).unwrap();
        assert_eq!(
            delay.set(&Setting::ReadDelay(Duration::from_millis(30))),
            Ok("delay-read 30 ms".to_owned())
        );
        let (sender, receiver) = channel();
        let began = Instant::now();
        let complete: OnComplete = Box::new(move |completion| sender.send(completion.result).unwrap());
        delay.submit(Job::new(Command::of_bytes(Op::Read, 0, 512), vec![0; 512], complete));
        assert_eq!(receiver.recv(), Ok(Ok(())));
        assert!(began.elapsed() >= Duration::from_millis(30));
        assert_eq!(Backend::status(&delay), Value::Null, "memory has no status to add to");
    }

    #[test]
    fn delayed_commands_complete_at_the_end() {
        let delays = Delays { read: Duration::from_secs(3600), write: Duration::from_secs(3600) };
        let delay = Delay::new(Arc::new(Memory::new(1 << 20)), delays).unwrap();
        let (sender, receiver) = channel();
        let complete: OnComplete = Box::new(move |completion| sender.send(completion.result).unwrap());
        delay.submit(Job::new(Command::FLUSH, Vec::new(), complete));
        drop(delay);
        assert_eq!(receiver.recv(), Ok(Ok(())));
    }
}
