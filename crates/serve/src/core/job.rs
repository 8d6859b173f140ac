//! A command in flight: its bytes, and the callback that completes it.
//!
//! Invariant: a [`Job`] is answered exactly once, also when it is dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{Command, Errno, Op};

/// What answers a [`Job`]: the result, and the buffer with what was read.
pub type Answer = Box<dyn FnOnce(Result<(), Errno>, Vec<u8>) + Send>;

/// Optional completion metadata: a number that the component that answers a command sets before it answers.
#[derive(Clone, Debug)]
pub struct Metadata(Arc<AtomicU64>);

impl Default for Metadata {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Metadata {
    /// The number; none before the answer, and where there is none to say.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != u64::MAX)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// A command in flight, with its bytes.
pub struct Job {
    /// The command.
    pub command: Command,
    /// The buffer of a read, or what is written; [`Command::data_bytes`] bytes.
    pub data: Vec<u8>,
    answer: Option<Answer>,
    /// What the model says it takes, from the arrival to the answer, ns.
    model_ns: Option<Metadata>,
    /// The first byte of a read that could not be had.
    failed_at: Option<Metadata>,
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
        if let Some(answer) = self.answer.take() {
            answer(result, std::mem::take(&mut self.data));
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
            refused_at(offset, len).into_iter().for_each(|at| self.fails_at(at));
        }
        self.finish(result);
    }

    /// Wants to know what the model says it takes.
    pub fn timed(mut self, model_ns: Metadata) -> Self {
        self.model_ns = Some(model_ns);
        self
    }

    /// Wants to know where it failed, if it does.
    pub fn located(mut self, failed_at: Metadata) -> Self {
        self.failed_at = Some(failed_at);
        self
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

    /// Says where it failed, before it is answered.
    pub fn fails_at(&self, offset: u64) {
        if let Some(failed_at) = &self.failed_at {
            failed_at.set(offset);
        }
    }

    /// Says what the model says it takes, before it is answered.
    pub fn takes_ns(&self, time_ns: u64) {
        if let Some(model_ns) = &self.model_ns {
            model_ns.set(time_ns);
        }
    }

    /// Puts something between the command and its answer.
    pub fn intercept(
        mut self,
        between: impl FnOnce(Result<(), Errno>, Vec<u8>, Answer) + Send + 'static,
    ) -> Self {
        if let Some(answer) = self.answer.take() {
            self.answer = Some(Box::new(move |result, data| between(result, data, answer)));
        }
        self
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Err(Errno::Shutdown), std::mem::take(&mut self.data));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_job_that_is_dropped_is_answered() {
        let (sender, receiver) = channel();
        let answer: Answer = Box::new(move |result, _| sender.send(result).unwrap());
        drop(Job::new(Command::flush(), Vec::new(), answer));
        assert_eq!(receiver.recv(), Ok(Err(Errno::Shutdown)));
    }
}
