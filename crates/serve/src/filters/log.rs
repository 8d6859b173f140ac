//! Says what was asked and how it went: one line a command.
//!
//! `time_us op offset len flags result latency_us model_us`: when it came, since the filter was made, how long its
//! answer took, and how long the model says that it takes (`-` where there is none). The line is written when the answer
//! is on its way, so that a slow log makes no answer late.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Errno, Job, ModelTime, Request};

/// How a command went, and what the model says that it takes, ns.
type End = (Result<(), Errno>, Option<u64>);

/// Takes lines.
pub type Sink = Box<dyn FnMut(&str) + Send>;

struct Lines {
    sink: Mutex<Sink>,
    began: Instant,
}

impl Lines {
    fn say(&self, request: &Request, since: Instant, took: Duration, end: End) {
        let Request { op, offset, len, fua, .. } = *request;
        let at = since.duration_since(self.began).as_micros();
        let (took, (result, model_ns)) = (took.as_micros(), end);
        let flags = if fua { "fua" } else { "-" };
        let how = result.map_or_else(|errno| errno.to_string(), |()| "ok".to_owned());
        let model = model_ns.map_or_else(|| "-".to_owned(), |ns| format!("{}.{:03}", ns / 1000, ns % 1000));
        let line = format!("{at} {} {offset} {len} {flags} {how} {took} {model}", op.name());
        (self.sink.lock().unwrap_or_else(PoisonError::into_inner))(&line);
    }
}

/// See the module page.
pub struct Log {
    inner: Arc<dyn Backend>,
    lines: Arc<Lines>,
}

impl Log {
    /// Says it to `sink`.
    pub fn new(inner: Arc<dyn Backend>, sink: Sink) -> Self {
        Self { inner, lines: Arc::new(Lines { sink: Mutex::new(sink), began: Instant::now() }) }
    }
}

impl super::Filter for Log {
    fn inner(&self) -> &dyn Backend {
        self.inner.as_ref()
    }

    fn execute(&self, request: &Request, data: &mut [u8]) -> Result<(), Errno> {
        let since = Instant::now();
        let result = self.inner.execute(request, data);
        self.lines.say(request, since, since.elapsed(), (result, None));
        result
    }

    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        let (since, before) = (Instant::now(), results.len());
        self.inner.execute_writes(writes, results);
        let took = since.elapsed();
        for ((request, _), &result) in writes.iter().zip(&results[before..]) {
            self.lines.say(request, since, took, (result, None));
        }
    }

    fn submit(&self, job: Job) {
        let (lines, since, request) = (self.lines.clone(), Instant::now(), job.request);
        let model_time = ModelTime::default();
        let job = job.timed(model_time.clone());
        self.inner.submit(job.intercept(move |result, data, answer| {
            let took = since.elapsed();
            answer(result, data);
            lines.say(&request, since, took, (result, model_time.get_ns()));
        }));
    }
}
