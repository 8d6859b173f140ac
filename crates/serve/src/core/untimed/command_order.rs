//! Ordering of commands that several threads execute: those whose order matters take effect in order of arrival.
//!
//! A command whose order with an older outstanding one matters ([`Order`]) waits here, unless the same thread
//! executes both in order ([`Lane`]).
//!
//! Invariants: a command waits only for older ones, so the oldest never waits; a waiting command is
//! dispatched once the last command that it waits for has completed; every command is dispatched once.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skylight_layer::{Order, ZoneLayout};

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
    /// The zones of the drive: writes to one zone are ordered.
    zones: Option<ZoneLayout>,
    dispatch: Dispatch,
}

/// Whether a command must wait for any of the older ones.
fn must_wait(zones: Option<&ZoneLayout>, command: &Command, older: &[Entry]) -> bool {
    let same_thread = |entry: &Entry| {
        let lane = Lane::of(command);
        lane == Lane::Writes && lane == Lane::of(&entry.command) && matches!(entry.state, State::Dispatched)
    };
    let order = Order::of(zones, command);
    older.iter().any(|entry| order.matters_to(&entry.command) && !same_thread(entry))
}

impl Entries {
    /// The oldest waiting command that may execute now.
    fn take_ready(&mut self, zones: Option<&ZoneLayout>) -> Option<(u64, Job)> {
        let free = |index: usize| {
            let entry = &self.all[index];
            matches!(entry.state, State::Waiting(_)) && !must_wait(zones, &entry.command, &self.all[..index])
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
    pub(crate) fn new(
        zones: Option<ZoneLayout>,
        dispatch: impl Fn(Lane, Job) + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self { entries: Mutex::default(), zones, dispatch: Box::new(dispatch) })
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
            let Some((number, job)) = self.entries().take_ready(self.zones.as_ref()) else {
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

    use skylight_disk::Sectors;
    use skylight_layer::ZoneModel;

    use super::*;

    #[test]
    fn only_conflicting_commands_wait() {
        let (dispatched, lanes) = channel();
        let dispatch = move |lane, job| dispatched.send((lane, job)).expect("the receiver exists");
        let order = CommandOrder::new(None, dispatch);
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
    #[test]
    fn writes_to_one_zone_keep_their_order() {
        let (dispatched, lanes) = channel();
        let zones = ZoneLayout::new(ZoneModel::HostManaged, Sectors(1024), Sectors(64));
        let dispatch = move |_, job| dispatched.send(job).expect("the receiver exists");
        let order = CommandOrder::new(Some(zones), dispatch);
        let submit = |op, start: u64, len: u64| {
            let command = Command::of_bytes(op, start * 512, len * 512);
            order.submit(Job::new(command, Vec::new(), Box::new(|_| {})));
        };
        let next = || lanes.try_recv().ok().map(|job: Job| (job.command.extent.start.get(), job));
        submit(Op::Read, 0, 4);
        submit(Op::Write, 0, 8);
        submit(Op::Write, 8, 8);
        submit(Op::WriteZeroes, 16, 8);
        submit(Op::Write, 64, 8);
        let (_, read) = next().expect("the read");
        let (at, other) = next().expect("the write to another zone");
        assert_eq!(at, 64);
        assert!(next().is_none(), "no write overtakes the one that waits for the read");
        read.finish(Ok(()));
        let (_, first) = next().expect("the write behind the read");
        let (at, second) = next().expect("the write behind it, in the same lane");
        assert_eq!(at, 8);
        assert!(next().is_none(), "the zeroes go to another lane");
        [first, second].into_iter().for_each(|job| job.finish(Ok(())));
        let (at, zeroes) = next().expect("the zeroes");
        assert_eq!(at, 16);
        [zeroes, other].into_iter().for_each(|job| job.finish(Ok(())));
        assert!(order.entries().all.is_empty());
    }
}
