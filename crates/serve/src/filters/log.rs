//! Says what was asked and how it went: one line a command.
//!
//! `time_us op offset len flags result latency_us`, times since the filter was made.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::backend::{Backend, Errno, Job, Request};

/// Takes lines.
pub type Sink = Box<dyn FnMut(&str) + Send>;

struct Lines {
    sink: Mutex<Sink>,
    began: Instant,
}

impl Lines {
    fn say(&self, request: &Request, since: Instant, result: Result<(), Errno>) {
        let Request { op, offset, len, fua, .. } = *request;
        let at = since.duration_since(self.began).as_micros();
        let took = since.elapsed().as_micros();
        let flags = if fua { "fua" } else { "-" };
        let how = result.map_or_else(|errno| errno.to_string(), |()| "ok".to_owned());
        let line = format!("{at} {} {offset} {len} {flags} {how} {took}", op.name());
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
        self.lines.say(request, since, result);
        result
    }

    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        let (since, before) = (Instant::now(), results.len());
        self.inner.execute_writes(writes, results);
        for ((request, _), &result) in writes.iter().zip(&results[before..]) {
            self.lines.say(request, since, result);
        }
    }

    fn submit(&self, job: Job) {
        let (lines, since, request) = (self.lines.clone(), Instant::now(), job.request);
        self.inner.submit(job.intercept(move |result, data, answer| {
            lines.say(&request, since, result);
            answer(result, data);
        }));
    }
}
