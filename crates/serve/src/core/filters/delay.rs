//! Adds latency to commands: one delay for reads, one for all others.
//!
//! Invariants: commands execute at once and their completions are delayed; delays run in parallel;
//! completions happen in the order in which they are due.

use std::collections::BTreeMap;
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

#[derive(Default)]
struct Queue {
    /// Completions by when they are due, in the order in which they were scheduled.
    pending: BTreeMap<(Instant, u64), Box<dyn FnOnce() + Send>>,
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
        queue.pending.insert((due, number), Box::new(move || complete(completion)));
        self.changed.notify_all();
    }

    /// Completes commands when they are due; at the end, the rest at once.
    fn run(&self) {
        let mut queue = self.queue();
        loop {
            let now = Instant::now();
            let next = queue.pending.first_key_value().map(|(&(due, _), _)| due);
            match next {
                Some(due) if due <= now || queue.closed => {
                    let pending = queue.pending.pop_first();
                    drop(queue);
                    if let Some((_, complete)) = pending {
                        complete();
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
            Setting::ReadMode(_) | Setting::Faults(_) | Setting::Zone(_) => return None,
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
