//! A command in flight: its data, and the callback that completes it.
//!
//! Invariant: a [`Job`] completes exactly once; dropping it completes it with [`Failure::Aborted`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;

use super::{Command, Failure, Op, Outcome};

/// How a command ended: its status, and its data.
#[derive(Debug)]
pub struct Completion {
    /// The status, with its payload.
    pub outcome: Outcome,
    /// The buffer of the command, with the data of a read.
    pub data: Vec<u8>,
    /// The first byte that a read could not return, if known.
    pub failed_at: Option<u64>,
    /// Latency according to the model, from arrival to completion, ns.
    pub model_ns: Option<u64>,
}

impl Completion {
    /// Of a command that failed before any data moved.
    pub fn failed(failure: Failure) -> Self {
        Self { outcome: Outcome::Failed(failure), data: Vec::new(), failed_at: None, model_ns: None }
    }
}

/// Completes a [`Job`].
pub type OnComplete = Box<dyn FnOnce(Completion) + Send>;

/// A command in flight, with its data.
pub struct Job {
    /// The command.
    pub command: Command,
    /// The buffer of a read or the data of a write; [`Command::data_bytes`] bytes.
    pub data: Vec<u8>,
    /// As [`Completion::failed_at`]; set it before completing the command.
    pub failed_at: Option<u64>,
    /// As [`Completion::model_ns`]; set it before completing the command.
    pub model_ns: Option<u64>,
    on_complete: Option<OnComplete>,
    /// Set once the client has disconnected.
    cancel: Option<Arc<AtomicBool>>,
}

impl Job {
    /// A command that completes through `on_complete`.
    pub fn new(command: Command, data: Vec<u8>, on_complete: OnComplete) -> Self {
        let on_complete = Some(on_complete);
        Self { command, data, on_complete, model_ns: None, failed_at: None, cancel: None }
    }

    /// Completes the command.
    pub fn finish(mut self, outcome: impl Into<Outcome>) {
        self.complete(outcome.into());
    }

    fn complete(&mut self, outcome: Outcome) {
        if let Some(on_complete) = self.on_complete.take() {
            let (failed_at, model_ns) = (self.failed_at, self.model_ns);
            let data = std::mem::take(&mut self.data);
            on_complete(Completion { outcome, data, failed_at, model_ns });
        }
    }

    /// Executes the command on this thread. `refused_at` looks up the byte at which a read failed.
    pub fn execute_with(
        mut self,
        execute: impl FnOnce(&Command, &mut [u8], &dyn Fn() -> bool) -> Result<(), Failure>,
        refused_at: impl FnOnce(u64, u64) -> Option<u64>,
    ) {
        let cancel = self.cancel.clone();
        let keep_going = || cancel.as_ref().is_none_or(|cancel| !cancel.load(Ordering::Relaxed));
        let result = match keep_going() {
            true => execute(&self.command, &mut self.data, &keep_going),
            false => Err(Failure::Aborted),
        };
        if result.is_err() && self.command.op == Op::Read {
            let (offset, len) = (self.command.offset_bytes(), self.command.len_bytes());
            self.failed_at = refused_at(offset, len);
        }
        self.finish(result);
    }

    /// Lets the backend drop the command once `cancel` is set.
    pub fn cancelled_by(mut self, cancel: Option<Arc<AtomicBool>>) -> Self {
        self.cancel = cancel;
        self
    }

    /// Whether the client has disconnected.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.as_ref().is_some_and(|cancel| cancel.load(Ordering::Relaxed))
    }

    /// Runs `between` in place of the completion callback, which it receives as its last argument.
    pub fn intercept(mut self, between: impl FnOnce(Completion, OnComplete) + Send + 'static) -> Self {
        if let Some(inner) = self.on_complete.take() {
            self.on_complete = Some(Box::new(move |completion| between(completion, inner)));
        }
        self
    }
}

/// Executes a command on this thread by a backend that completes commands later: [`Backend::execute`](super::Backend::execute)
/// of such a one.
///
/// # Errors
/// As the command fails.
pub fn execute_by(submit: impl FnOnce(Job), command: &Command, data: &mut [u8]) -> Result<(), Failure> {
    let (sender, receiver) = channel();
    let answer: OnComplete = Box::new(move |completion| {
        // It is received below.
        let _ = sender.send(completion);
    });
    submit(Job::new(*command, data.to_vec(), answer));
    let Completion { outcome, data: bytes, .. } = receiver.recv().map_err(|_| Failure::Aborted)?;
    if command.op == Op::Read && bytes.len() == data.len() {
        data.copy_from_slice(&bytes);
    }
    outcome.status()
}

impl Drop for Job {
    fn drop(&mut self) {
        self.complete(Outcome::Failed(Failure::Aborted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_job_completes() {
        let (sender, receiver) = channel();
        let on_complete: OnComplete = Box::new(move |completion| sender.send(completion.outcome).unwrap());
        drop(Job::new(Command::FLUSH, Vec::new(), on_complete));
        assert_eq!(receiver.recv(), Ok(Outcome::Failed(Failure::Aborted)));
    }
}
