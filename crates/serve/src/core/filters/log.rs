//! Says what was asked and how it went: one line a command.
//!
//! `time_us op offset len flags result latency_us model_us`: when it came, since the filter was made, how long its
//! answer took, and how long the model says that it takes (`-` where there is none). Lines are written by a thread of
//! their own some milliseconds later, and when the drive is closed: whoever answers has a client to make room for.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::core::{Backend, Command, Errno, Job};

/// How a command went, and what the model says that it takes, ns.
type End = (Result<(), Errno>, Option<u64>);

/// Takes lines.
pub type Sink = Box<dyn FnMut(&str) + Send>;

/// How long lines wait at most.
const PAUSE: Duration = Duration::from_millis(20);

struct Lines {
    sink: Mutex<Sink>,
    /// Those that are not written yet.
    waiting: Mutex<Vec<String>>,
    began: Instant,
}

impl Lines {
    fn write(&self) {
        // Held while lines are taken out, so that they are written in their order.
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.waiting.lock().unwrap_or_else(PoisonError::into_inner));
        lines.iter().for_each(|line| sink(line));
    }

    /// Writes until `ends` is closed.
    fn write_all(&self, ends: &Receiver<()>) {
        while ends.recv_timeout(PAUSE) == Err(RecvTimeoutError::Timeout) {
            self.write();
        }
        self.write();
    }

    fn say(&self, command: &Command, since: Instant, took: Duration, end: End) {
        let (offset, len) = (command.offset_bytes(), command.len_bytes());
        let at = since.duration_since(self.began).as_micros();
        let (took, (result, model_ns)) = (took.as_micros(), end);
        let flags = if command.flags.fua { "fua" } else { "-" };
        let how = result.map_or_else(|errno| errno.to_string(), |()| "ok".to_owned());
        let model = model_ns.map_or_else(|| "-".to_owned(), |ns| format!("{}.{:03}", ns / 1000, ns % 1000));
        let line = format!("{at} {} {offset} {len} {flags} {how} {took} {model}", command.op);
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// See the module page.
pub struct Log {
    inner: Arc<dyn Backend>,
    lines: Arc<Lines>,
    /// Closed when the log is dropped.
    _over: Sender<()>,
}

impl Log {
    /// Says it to `sink`.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(inner: Arc<dyn Backend>, sink: Sink) -> io::Result<Self> {
        let (sink, waiting) = (Mutex::new(sink), Mutex::default());
        let lines = Arc::new(Lines { sink, waiting, began: Instant::now() });
        let (over, ends) = channel();
        let writes = lines.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writes.write_all(&ends))?;
        Ok(Self { inner, lines, _over: over })
    }
}

impl super::Filter for Log {
    fn inner(&self) -> &dyn Backend {
        self.inner.as_ref()
    }

    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        let since = Instant::now();
        let result = self.inner.execute_while(command, data, goes_on);
        self.lines.say(command, since, since.elapsed(), (result, None));
        result
    }

    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        let (since, before) = (Instant::now(), results.len());
        self.inner.execute_writes(writes, results);
        let took = since.elapsed();
        for ((command, _), &result) in writes.iter().zip(&results[before..]) {
            self.lines.say(command, since, took, (result, None));
        }
    }

    fn closed(&self) {
        self.lines.write();
    }

    fn submit(&self, job: Job) {
        let (lines, since, command) = (self.lines.clone(), Instant::now(), job.command);
        self.inner.submit(job.intercept(move |completion, answer| {
            let (took, end) = (since.elapsed(), (completion.result, completion.model_ns));
            answer(completion);
            lines.say(&command, since, took, end);
        }));
    }
}
