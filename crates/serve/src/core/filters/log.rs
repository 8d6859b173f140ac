//! Logs commands and their results, one line per command.
//!
//! `time_us op offset len flags result latency_us model_us`: the arrival time since the filter was created,
//! the measured latency, and the latency according to the model (`-` if there is none). A thread writes the
//! lines some milliseconds later, and closing the drive flushes them, so that logging does not delay
//! completions.

use std::io;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::core::{Backend, Command, Errno, Failure, Job};
use crate::diagnostics::Writer;

/// The status of a command, and its latency according to the model, ns.
type Answer = (Result<(), Failure>, Option<u64>);

/// Longest delay before lines are written.
const WRITE_INTERVAL: Duration = Duration::from_millis(20);

struct LogBuffer {
    sink: Mutex<Writer>,
    /// Lines not written yet.
    pending: Mutex<Vec<String>>,
    began: Instant,
}

impl LogBuffer {
    fn write(&self) {
        // Held while lines are taken from the buffer, so that they are written in order.
        let mut sink = self.sink.lock().unwrap_or_else(PoisonError::into_inner);
        let lines = std::mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner));
        lines.iter().for_each(|line| sink(line));
    }

    /// Writes lines at intervals until `stop` is closed.
    fn write_all(&self, stop: &Receiver<()>) {
        while stop.recv_timeout(WRITE_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            self.write();
        }
        self.write();
    }

    fn record(&self, command: &Command, since: Instant, latency: Duration, answer: Answer) {
        let (offset, len) = (command.offset_bytes(), command.len_bytes());
        let at = since.duration_since(self.began).as_micros();
        let (latency, (result, model_ns)) = (latency.as_micros(), answer);
        let flags = if command.flags.fua { "fua" } else { "-" };
        let status = result.map_or_else(|failure| Errno::from(failure).to_string(), |()| "ok".to_owned());
        let model = model_ns.map_or_else(|| "-".to_owned(), |ns| format!("{}.{:03}", ns / 1000, ns % 1000));
        let line = format!("{at} {} {offset} {len} {flags} {status} {latency} {model}", command.op);
        self.pending.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// See the module page.
pub struct Log {
    inner: Arc<dyn Backend>,
    lines: Arc<LogBuffer>,
    /// Dropping it stops the thread.
    _stop: Sender<()>,
}

impl Log {
    /// Logs commands to `sink`.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(inner: Arc<dyn Backend>, sink: Writer) -> io::Result<Self> {
        let (sink, pending) = (Mutex::new(sink), Mutex::default());
        let lines = Arc::new(LogBuffer { sink, pending, began: Instant::now() });
        let (sender, stop) = channel();
        let writing = lines.clone();
        std::thread::Builder::new().name("log".to_owned()).spawn(move || writing.write_all(&stop))?;
        Ok(Self { inner, lines, _stop: sender })
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
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let since = Instant::now();
        let result = self.inner.execute_while(command, data, keep_going);
        self.lines.record(command, since, since.elapsed(), (result, None));
        result
    }

    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Failure>>) {
        let (since, before) = (Instant::now(), results.len());
        self.inner.execute_writes(writes, results);
        let latency = since.elapsed();
        for ((command, _), &result) in writes.iter().zip(&results[before..]) {
            self.lines.record(command, since, latency, (result, None));
        }
    }

    fn closed(&self) {
        self.lines.write();
    }

    fn submit(&self, job: Job) {
        let (lines, since, command) = (self.lines.clone(), Instant::now(), job.command);
        self.inner.submit(job.intercept(move |completion, on_complete| {
            let (latency, answer) = (since.elapsed(), (completion.outcome.status(), completion.model_ns));
            on_complete(completion);
            lines.record(&command, since, latency, answer);
        }));
    }
}
