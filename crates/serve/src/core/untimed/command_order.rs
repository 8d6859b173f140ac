//! Ordering of commands that several threads execute: conflicting commands take effect in order of arrival.
//!
//! A command that conflicts ([`Command::conflicts_with`]) with an older outstanding one waits here, unless the
//! same thread executes both in order ([`Lane`]).
//!
//! Invariants: a command waits only for older ones, so the oldest never waits; a waiting command is
//! dispatched once the last command that it waits for has completed; every command is dispatched once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::{Command, Job, Op};

/// The thread pool that executes a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Several threads in parallel.
    Reads,
    /// One thread, in order of dispatch.
    Writes,
    /// Several threads in parallel, for commands that would delay others.
    Long,
}

impl Lane {
    /// The lane for a command.
    pub(crate) fn of(command: &Command) -> Self {
        match command.op {
            Op::Read => Self::Reads,
            Op::Write => Self::Writes,
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Cache | Op::Append => Self::Long,
            Op::Zone(_) => Self::Long,
        }
    }
}

/// The progress of a command.
enum State {
    /// Waiting for older commands.
    Waiting(Job),
    /// Being handed to its lane.
    Dispatching,
    /// In its lane, behind those dispatched before.
    Dispatched,
}

/// An outstanding command.
struct Entry {
    number: u64,
    command: Command,
    state: State,
}

#[derive(Default)]
struct Entries {
    /// Oldest first.
    all: Vec<Entry>,
    next: u64,
}

/// Receives a command that may execute now.
type Dispatch = Box<dyn Fn(Lane, Job) + Send + Sync>;

/// See the module page.
pub(crate) struct CommandOrder {
    entries: Mutex<Entries>,
    dispatch: Dispatch,
}

/// Whether a command must wait for any of the older ones.
fn must_wait(command: &Command, older: &[Entry]) -> bool {
    let same_thread = |entry: &Entry| {
        let lane = Lane::of(command);
        lane == Lane::Writes && lane == Lane::of(&entry.command) && matches!(entry.state, State::Dispatched)
    };
    older.iter().any(|entry| command.conflicts_with(&entry.command) && !same_thread(entry))
}

impl Entries {
    /// The oldest waiting command that may execute now.
    fn take_ready(&mut self) -> Option<(u64, Job)> {
        let free = |index: usize| {
            let entry = &self.all[index];
            matches!(entry.state, State::Waiting(_)) && !must_wait(&entry.command, &self.all[..index])
        };
        let index = (0..self.all.len()).find(|&index| free(index))?;
        let entry = &mut self.all[index];
        match std::mem::replace(&mut entry.state, State::Dispatching) {
            State::Waiting(job) => Some((entry.number, job)),
            State::Dispatching | State::Dispatched => None,
        }
    }
}

impl CommandOrder {
    /// Passes commands to `dispatch` once they may execute.
    pub(crate) fn new(dispatch: impl Fn(Lane, Job) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), dispatch: Box::new(dispatch) })
    }

    // No statement that can panic leaves the list inconsistent.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Submits a command.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) {
        let mut entries = self.entries();
        let (number, command, order) = (entries.next, job.command, self.clone());
        entries.next += 1;
        let job = job.intercept(move |completion, on_complete| {
            on_complete(completion);
            order.completed(number);
        });
        entries.all.push(Entry { number, command, state: State::Waiting(job) });
        drop(entries);
        self.dispatch_ready();
    }

    /// Dispatches the commands that may execute. The lock is not held meanwhile, because a lane that has shut
    /// down completes commands at once.
    fn dispatch_ready(&self) {
        loop {
            let Some((number, job)) = self.entries().take_ready() else {
                return;
            };
            (self.dispatch)(Lane::of(&job.command), job);
            let mut entries = self.entries();
            if let Some(entry) = entries.all.iter_mut().find(|entry| entry.number == number) {
                entry.state = State::Dispatched;
            }
        }
    }

    /// Removes a completed command and dispatches those that waited only for it.
    fn completed(&self, number: u64) {
        self.entries().all.retain(|entry| entry.number != number);
        self.dispatch_ready();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn only_conflicting_commands_wait() {
        let (dispatched, lanes) = channel();
        let order =
            CommandOrder::new(move |lane, job| dispatched.send((lane, job)).expect("the receiver exists"));
        let submit = |op, offset: u64, len: u64| {
            let command = Command::of_bytes(op, offset * 512, len * 512);
            order.submit(Job::new(command, Vec::new(), Box::new(|_| {})));
        };
        let next = || {
            lanes.try_recv().ok().map(|(lane, job): (Lane, Job)| (lane, job.command.extent.start.get(), job))
        };
        submit(Op::Read, 0, 8);
        submit(Op::Write, 4, 8);
        submit(Op::Write, 8, 8);
        submit(Op::Write, 100, 8);
        submit(Op::Trim, 104, 8);
        submit(Op::Flush, 0, 0);
        let (lane, _, read) = next().expect("the first read");
        assert_eq!(lane, Lane::Reads);
        let (lane, at, write) = next().expect("a write without conflicts");
        assert_eq!((lane, at), (Lane::Writes, 100));
        assert_eq!(next().map(|(lane, ..)| lane), Some(Lane::Long), "the flush");
        assert!(next().is_none());
        read.finish(Ok(()));
        let (_, at, first) = next().expect("the write behind the read");
        let (_, other, second) = next().expect("the write behind it, in the same lane");
        assert_eq!((at, other), (4, 8));
        write.finish(Ok(()));
        let (lane, at, trim) = next().expect("the trim behind a write of another lane");
        assert_eq!((lane, at), (Lane::Long, 104));
        [first, second, trim].into_iter().for_each(|job| job.finish(Ok(())));
        assert!(order.entries().all.is_empty());
    }
}
