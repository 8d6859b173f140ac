//! A command in flight: its bytes, and the callback that completes it.
//!
//! Invariant: a [`Job`] is answered exactly once, also when it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Command, Errno, Op};

/// How a command ended: its status, and its payload.
#[derive(Debug)]
pub struct Completion {
    /// Done, or why not.
    pub result: Result<(), Errno>,
    /// The buffer of the command, with what was read.
    pub data: Vec<u8>,
    /// The first byte of a read that could not be had, where that is known.
    pub failed_at: Option<u64>,
    /// The time from the arrival to the answer in the model, ns.
    pub model_ns: Option<u64>,
}

impl Completion {
    /// Of a command that failed before any data moved.
    pub fn failed(errno: Errno) -> Self {
        Self { result: Err(errno), data: Vec::new(), failed_at: None, model_ns: None }
    }
}

/// What answers a [`Job`].
pub type Answer = Box<dyn FnOnce(Completion) + Send>;

/// A command in flight, with its bytes.
pub struct Job {
    /// The command.
    pub command: Command,
    /// The buffer of a read, or what is written; [`Command::data_bytes`] bytes.
    pub data: Vec<u8>,
    /// As in [`Completion::failed_at`], set before it is answered.
    pub failed_at: Option<u64>,
    /// As in [`Completion::model_ns`], set before it is answered.
    pub model_ns: Option<u64>,
    answer: Option<Answer>,
    /// Set when the client is gone.
    gone: Option<Arc<AtomicBool>>,
}

impl Job {
    /// A command that is answered through `answer`.
    pub fn new(command: Command, data: Vec<u8>, answer: Answer) -> Self {
        Self { command, data, answer: Some(answer), model_ns: None, failed_at: None, gone: None }
    }

    /// Answers it.
    pub fn finish(mut self, result: Result<(), Errno>) {
        self.complete(result);
    }

    fn complete(&mut self, result: Result<(), Errno>) {
        if let Some(answer) = self.answer.take() {
            let (failed_at, model_ns) = (self.failed_at, self.model_ns);
            answer(Completion { result, data: std::mem::take(&mut self.data), failed_at, model_ns });
        }
    }

    /// Has it done here and now, by what executes commands and by what knows the byte at which a read is refused.
    pub fn done_by(
        mut self,
        execute: impl FnOnce(&Command, &mut [u8], &dyn Fn() -> bool) -> Result<(), Errno>,
        refused_at: impl FnOnce(u64, u64) -> Option<u64>,
    ) {
        let gone = self.gone.clone();
        let goes_on = || gone.as_ref().is_none_or(|gone| !gone.load(Ordering::Relaxed));
        let result = match goes_on() {
            true => execute(&self.command, &mut self.data, &goes_on),
            false => Err(Errno::Shutdown),
        };
        if result.is_err() && self.command.op == Op::Read {
            let (offset, len) = (self.command.offset_bytes(), self.command.len_bytes());
            self.failed_at = refused_at(offset, len);
        }
        self.finish(result);
    }

    /// Need not be done once the client is gone.
    pub fn unless_gone(mut self, gone: Option<Arc<AtomicBool>>) -> Self {
        self.gone = gone;
        self
    }

    /// Set when the client is gone, for commands that are parts of this one.
    pub fn gone(&self) -> Option<Arc<AtomicBool>> {
        self.gone.clone()
    }

    /// Whether nobody waits for it any more.
    pub fn is_abandoned(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.load(Ordering::Relaxed))
    }

    /// Puts something between the command and its answer.
    pub fn intercept(mut self, between: impl FnOnce(Completion, Answer) + Send + 'static) -> Self {
        if let Some(answer) = self.answer.take() {
            self.answer = Some(Box::new(move |completion| between(completion, answer)));
        }
        self
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.complete(Err(Errno::Shutdown));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_job_that_is_dropped_is_answered() {
        let (sender, receiver) = channel();
        let answer: Answer = Box::new(move |completion| sender.send(completion.result).unwrap());
        drop(Job::new(Command::FLUSH, Vec::new(), answer));
        assert_eq!(receiver.recv(), Ok(Err(Errno::Shutdown)));
    }
}
