//! A drive that takes one command at a time, from a caller that lets its time pass.
//!
//! The drive and its events are those of [`crate::drive`], but the host is not a batch. Commands arrive at
//! any time ([`Online::submit`]), the caller advances the time ([`Online::advance`]), and the drive reports
//! every plan as it executes it ([`Mover`]), so that the code that moves the bytes follows the same layer as
//! the clock.
//!
//! Invariants: commands submitted at the times that [`Drive::run`] assigns complete at the times that it
//! assigns, regardless of how the caller divides the time between; completions are reported in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use skylight_disk::{Nanos, Time};
use skylight_layer::{Command, CommandId, Idle, Layer, Plan};

use crate::drive::Drive;
use crate::host::Observer;

pub use crate::host::{Moved, Origin};

/// Moves the bytes of the executed plans.
pub trait Mover {
    /// A plan is executed; `layer` is in the state after the plan. Nothing happens on the drive before this
    /// returns. If the backing storage has no space, the callee must restore the layer to what is on the
    /// media. Writes then stay in the volatile cache, and the drive retries later; commands of the host
    /// complete regardless.
    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &mut dyn Layer) -> Moved;

    /// A command is about to complete that needs cached writes on the media, where there is no space for
    /// them.
    fn refused(&mut self, id: CommandId);

    /// The volatile cache accepted the write `host`; a plan of [`Origin::Cache`] completes it as `cache`.
    fn cached(&mut self, host: CommandId, cache: CommandId);

    /// The completion of a command is decided. A read returns the data as of now; a flush covers all writes
    /// that have completed.
    fn decided(&mut self, id: CommandId, layer: &dyn Layer);
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// When it completes.
    pub at: Time,
    /// The number it was submitted with.
    pub id: u32,
}

/// Collects the completions and passes the other events on.
struct Reporter<'a, M: Mover> {
    mover: &'a mut M,
    due: &'a mut BinaryHeap<Reverse<Answered>>,
}

impl<M: Mover> Observer for Reporter<'_, M> {
    fn answered(&mut self, id: CommandId, at: Time, _free: Time) {
        self.due.push(Reverse(Answered { at, id: id.0 }));
    }

    fn decided(&mut self, id: CommandId, layer: &dyn Layer) {
        self.mover.decided(id, layer);
    }

    fn cached(&mut self, host: CommandId, cache: CommandId) {
        self.mover.cached(host, cache);
    }

    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &mut dyn Layer) -> Moved {
        self.mover.executed(origin, plan, layer)
    }

    fn refused(&mut self, id: CommandId) {
        self.mover.refused(id);
    }
}

/// See the module documentation.
pub struct Online {
    drive: Drive,
    /// Completions that are decided but not yet reported.
    due: BinaryHeap<Reverse<Answered>>,
    /// No background work is left until another event occurs.
    is_quiescent: bool,
    /// All events up to this time have occurred.
    clock: Time,
}

impl Online {
    /// Takes a drive without outstanding commands.
    pub fn new(drive: Drive) -> Self {
        let clock = drive.now();
        Self { drive, due: BinaryHeap::new(), is_quiescent: false, clock }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The drive, to change settings and to inspect; not to run.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    /// All events up to this time have occurred.
    pub fn clock(&self) -> Time {
        self.clock
    }

    /// Submits a command at `at`, or now if that is past. Its number must differ from those of all incomplete
    /// commands. `fua` marks a write that completes when durable.
    pub fn submit(&mut self, command: Command, fua: bool, at: Time, mover: &mut impl Mover) {
        let at = at.max(self.clock);
        self.run_until(at, mover);
        self.is_quiescent = false;
        self.drive.take(command, fua, at);
    }

    /// Advances the time: all events before `until` occur. Reports the commands that complete by then.
    pub fn advance(&mut self, until: Time, mover: &mut impl Mover, answers: &mut Vec<Answered>) {
        let until = until.max(self.clock);
        self.run_until(until, mover);
        self.report_due(|answer| answer.at <= until, answers);
    }

    /// Reports the commands that complete by `until`, each earlier by `ahead`, unless another event is due
    /// before: a completion need not wait for work that the drive starts at the same moment. A decided
    /// completion cannot change any more, so reporting it early is safe.
    pub fn settled(&mut self, until: Time, ahead: impl Fn(Answered) -> Nanos, answers: &mut Vec<Answered>) {
        let event = self.drive.next_event().map_or(until, |(time, _)| time.min(until));
        self.report_due(
            |answer| answer.at.min(until) <= event && answer.at <= until + ahead(answer),
            answers,
        );
    }

    fn report_due(&mut self, due: impl Fn(Answered) -> bool, answers: &mut Vec<Answered>) {
        while let Some(Reverse(answer)) = self.due.peek().filter(|Reverse(answer)| due(*answer)) {
            answers.push(*answer);
            self.due.pop();
        }
    }

    fn run_until(&mut self, until: Time, mover: &mut impl Mover) {
        let mut reporter = Reporter { mover, due: &mut self.due };
        while let Some((time, event)) = self.drive.next_event().filter(|&(time, _)| time < until) {
            self.drive.process(time, event, &mut reporter);
            self.is_quiescent = false;
        }
        if !self.is_quiescent && self.drive.is_idle_before(until) {
            self.is_quiescent = self.drive.idle_until(until, &mut reporter) == Idle::Nothing;
        }
        self.clock = self.clock.max(until);
    }

    /// Time of the next event if no command arrives; `None` if there is none. Completions are reported
    /// earlier by `ahead`.
    pub fn next(&self, ahead: impl Fn(Answered) -> Nanos) -> Option<Time> {
        let event = self.drive.next_event().map(|(time, _)| time);
        let answer =
            self.due.peek().map(|Reverse(answer)| Time(answer.at.get().saturating_sub(ahead(*answer).get())));
        let idle = if self.is_quiescent { None } else { self.drive.idle_begins() };
        [event, answer, idle].into_iter().flatten().min()
    }
}
