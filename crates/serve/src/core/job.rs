//! A command in flight: its data, and the callback that completes it.
//!
//! Invariant: a [`Job`] completes exactly once; dropping it completes it with `ESHUTDOWN`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Errno, Op, Request};

/// Completes a [`Job`]: receives the result, and the buffer with the data of a read.
pub type OnComplete = Box<dyn FnOnce(Result<(), Errno>, Vec<u8>) + Send>;

/// Optional completion metadata: a number that the backend sets before it completes the command.
#[derive(Clone, Debug)]
pub struct Metadata(Arc<AtomicU64>);

impl Default for Metadata {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Metadata {
    /// The number, once the backend has set one.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != u64::MAX)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// A command in flight, with its data.
pub struct Job {
    /// The command.
    pub request: Request,
    /// The buffer of a read or the data of a write; [`Request::data_len`] bytes.
    pub data: Vec<u8>,
    on_complete: Option<OnComplete>,
    /// Latency according to the model, from arrival to completion, ns.
    model_ns: Option<Metadata>,
    /// The first byte that a read could not return.
    failed_at: Option<Metadata>,
    /// Set once the client has disconnected.
    cancel: Option<Arc<AtomicBool>>,
}

impl Job {
    /// A command that completes through `on_complete`.
    pub fn new(request: Request, data: Vec<u8>, on_complete: OnComplete) -> Self {
        Self { request, data, on_complete: Some(on_complete), model_ns: None, failed_at: None, cancel: None }
    }

    /// Completes the command.
    pub fn finish(mut self, result: Result<(), Errno>) {
        if let Some(on_complete) = self.on_complete.take() {
            on_complete(result, std::mem::take(&mut self.data));
        }
    }

    /// Executes the command on this thread. `refused_at` looks up the byte at which a read failed.
    pub fn execute_with(
        mut self,
        execute: impl FnOnce(&Request, &mut [u8], &dyn Fn() -> bool) -> Result<(), Errno>,
        refused_at: impl FnOnce(u64, u64) -> Option<u64>,
    ) {
        let cancel = self.cancel.clone();
        let keep_going = || cancel.as_ref().is_none_or(|cancel| !cancel.load(Ordering::Relaxed));
        let result = match keep_going() {
            true => execute(&self.request, &mut self.data, &keep_going),
            false => Err(Errno::Shutdown),
        };
        let Request { op, offset, len, .. } = self.request;
        if result.is_err() && op == Op::Read {
            refused_at(offset, len).into_iter().for_each(|at| self.set_failed_at(at));
        }
        self.finish(result);
    }

    /// Stores the latency according to the model in `model_ns`.
    pub fn with_model_ns(mut self, model_ns: Metadata) -> Self {
        self.model_ns = Some(model_ns);
        self
    }

    /// Stores the offset at which a read failed in `failed_at`.
    pub fn with_failed_at(mut self, failed_at: Metadata) -> Self {
        self.failed_at = Some(failed_at);
        self
    }

    /// Lets the backend drop the command once `cancel` is set.
    pub fn cancelled_by(mut self, cancel: Option<Arc<AtomicBool>>) -> Self {
        self.cancel = cancel;
        self
    }

    /// The cancellation flag, for commands that are parts of this one.
    pub fn cancellation(&self) -> Option<Arc<AtomicBool>> {
        self.cancel.clone()
    }

    /// Whether the client has disconnected.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Sets the offset at which the command failed; call it before completing the command.
    pub fn set_failed_at(&self, offset: u64) {
        if let Some(failed_at) = &self.failed_at {
            failed_at.set(offset);
        }
    }

    /// Sets the latency according to the model; call it before completing the command.
    pub fn set_model_ns(&self, time_ns: u64) {
        if let Some(model_ns) = &self.model_ns {
            model_ns.set(time_ns);
        }
    }

    /// Runs `between` in place of the completion callback, which it receives as its last argument.
    pub fn intercept(
        mut self,
        between: impl FnOnce(Result<(), Errno>, Vec<u8>, OnComplete) + Send + 'static,
    ) -> Self {
        if let Some(inner) = self.on_complete.take() {
            self.on_complete = Some(Box::new(move |result, data| between(result, data, inner)));
        }
        self
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(on_complete) = self.on_complete.take() {
            on_complete(Err(Errno::Shutdown), std::mem::take(&mut self.data));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_dropped_job_completes() {
        let (sender, receiver) = channel();
        let on_complete: OnComplete = Box::new(move |result, _| sender.send(result).unwrap());
        drop(Job::new(Request::new(Op::Flush, 0, 0), Vec::new(), on_complete));
        assert_eq!(receiver.recv(), Ok(Err(Errno::Shutdown)));
    }
}
