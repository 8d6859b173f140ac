//! The order of commands that several threads do: those that conflict take effect in the order in which they came.
//!
//! A command that conflicts ([`Command::conflicts_with`]) with an older one that is not answered waits here, unless one thread does both in the order in which it gets them ([`Lane`]).
//!
//! Invariants: a command waits only for older ones, so the oldest never waits; one that waits is dispatched when the last
//! that it waits for is answered; every command is dispatched once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::core::{Command, Job, Op};

/// Who does a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Threads beside each other.
    Reads,
    /// One thread, in the order in which it gets them.
    Writes,
    /// Threads beside each other: what others should not wait for.
    Long,
}

impl Lane {
    /// The lane of a command.
    pub(crate) fn of(command: &Command) -> Self {
        match command.op {
            Op::Read => Self::Reads,
            Op::Write => Self::Writes,
            Op::Flush | Op::Trim | Op::WriteZeroes | Op::Cache | Op::Append => Self::Long,
        }
    }
}

/// Where a command is.
enum State {
    /// Here, until none that it waits for is left.
    Waits(Job),
    /// On its way to its lane.
    Leaving,
    /// In its lane, behind those that came there before.
    Dispatched,
}

/// A command that is not answered.
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

/// Takes a command that may be done now.
type Dispatch = Box<dyn Fn(Lane, Job) + Send + Sync>;

/// See the module page.
pub(crate) struct CommandOrder {
    entries: Mutex<Entries>,
    dispatch: Dispatch,
}

/// Whether a command has to wait for any of those before it.
fn must_wait(command: &Command, older: &[Entry]) -> bool {
    let together = |entry: &Entry| {
        let lane = Lane::of(command);
        lane == Lane::Writes && lane == Lane::of(&entry.command) && matches!(entry.state, State::Dispatched)
    };
    older.iter().any(|entry| command.conflicts_with(&entry.command) && !together(entry))
}

impl Entries {
    /// The oldest command that waits and need not any more.
    fn next_to_leave(&mut self) -> Option<(u64, Job)> {
        let free = |index: usize| {
            let entry = &self.all[index];
            matches!(entry.state, State::Waits(_)) && !must_wait(&entry.command, &self.all[..index])
        };
        let index = (0..self.all.len()).find(|&index| free(index))?;
        let entry = &mut self.all[index];
        match std::mem::replace(&mut entry.state, State::Leaving) {
            State::Waits(job) => Some((entry.number, job)),
            State::Leaving | State::Dispatched => None,
        }
    }
}

impl CommandOrder {
    /// Gives commands to `dispatch` when they may be done.
    pub(crate) fn new(dispatch: impl Fn(Lane, Job) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), dispatch: Box::new(dispatch) })
    }

    // The list is whole between any two statements that can panic.
    fn entries(&self) -> MutexGuard<'_, Entries> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes a command.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) {
        let mut entries = self.entries();
        let (number, command, order) = (entries.next, job.command, self.clone());
        entries.next += 1;
        let job = job.intercept(move |completion, answer| {
            answer(completion);
            order.answered(number);
        });
        entries.all.push(Entry { number, command, state: State::Waits(job) });
        drop(entries);
        self.dispatch_ready();
    }

    /// Dispatches what may be done. Not under the lock: a lane that has ended answers at once.
    fn dispatch_ready(&self) {
        loop {
            let Some((number, job)) = self.entries().next_to_leave() else {
                return;
            };
            (self.dispatch)(Lane::of(&job.command), job);
            let mut entries = self.entries();
            if let Some(entry) = entries.all.iter_mut().find(|entry| entry.number == number) {
                entry.state = State::Dispatched;
            }
        }
    }

    /// A command is answered: those that waited for it alone go on.
    fn answered(&self, number: u64) {
        self.entries().all.retain(|entry| entry.number != number);
        self.dispatch_ready();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn what_conflicts_waits_and_the_rest_does_not() {
        let (handed, lanes) = channel();
        let order = CommandOrder::new(move |lane, job| handed.send((lane, job)).expect("the test listens"));
        let ask = |op, offset: u64, len: u64| {
            order.submit(Job::new(
                Command::of_bytes(op, offset * 512, len * 512),
                Vec::new(),
                Box::new(|_| {}),
            ));
        };
        let next = || {
            lanes.try_recv().ok().map(|(lane, job): (Lane, Job)| (lane, job.command.extent.start.get(), job))
        };
        ask(Op::Read, 0, 8);
        ask(Op::Write, 4, 8);
        ask(Op::Write, 8, 8);
        ask(Op::Write, 100, 8);
        ask(Op::Trim, 104, 8);
        ask(Op::Flush, 0, 0);
        let (lane, _, read) = next().expect("the first");
        assert_eq!(lane, Lane::Reads);
        let (lane, at, write) = next().expect("one that is alone");
        assert_eq!((lane, at), (Lane::Writes, 100));
        assert_eq!(next().map(|(lane, ..)| lane), Some(Lane::Long), "the flush");
        assert!(next().is_none());
        read.finish(Ok(()));
        let (_, at, first) = next().expect("behind the read");
        let (_, other, second) = next().expect("behind the write, by the same thread");
        assert_eq!((at, other), (4, 8));
        write.finish(Ok(()));
        let (lane, at, trim) = next().expect("behind another thread's write");
        assert_eq!((lane, at), (Lane::Long, 104));
        [first, second, trim].into_iter().for_each(|job| job.finish(Ok(())));
        assert!(order.entries().all.is_empty());
    }
}
