//! A drive that takes one command at a time, from a caller that lets its time pass.
//!
//! The drive and its events are those of [`crate::drive`], but the host is not a batch. Commands arrive at
//! any time ([`Online::submit`]), the caller advances the time ([`Online::advance`]), and the drive reports
//! every plan as it executes it ([`PlanExecutor`]), so that the code that moves the bytes follows the same layer as
//! the clock.
//!
//! Invariants: commands submitted at the times that [`Drive::run`] assigns complete at the times that it
//! assigns, regardless of how the caller divides the time between; completions are reported in order of time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use skylight_command::{Command, CommandId, Outcome};
use skylight_disk::{Nanos, Time};
use skylight_layer::{Idle, Layer, Plan};

use crate::drive::Drive;
use crate::events::Observer;

pub use crate::events::{Answered, ExecutionResult, Origin, PlanExecutor};

/// Collects the completions and passes the other events on.
struct Reporter<'a, M: PlanExecutor> {
    executor: &'a mut M,
    due: &'a mut BinaryHeap<Reverse<Answered>>,
}

impl<M: PlanExecutor> Observer for Reporter<'_, M> {
    fn answered(&mut self, answer: Answered, _free: Time) {
        self.due.push(Reverse(answer));
    }
}

impl<M: PlanExecutor> PlanExecutor for Reporter<'_, M> {
    fn decided(&mut self, id: CommandId, outcome: Outcome, layer: &mut dyn Layer) -> Outcome {
        self.executor.decided(id, outcome, layer)
    }

    fn cached(&mut self, host: CommandId, cache: CommandId) {
        self.executor.cached(host, cache);
    }

    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &mut dyn Layer) -> ExecutionResult {
        self.executor.executed(origin, plan, layer)
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
    /// commands.
    pub fn submit(&mut self, command: Command, at: Time, executor: &mut impl PlanExecutor) {
        let at = at.max(self.clock);
        self.run_until(at, executor);
        self.is_quiescent = false;
        self.drive.take(command, at);
    }

    /// Advances the time: all events before `until` occur. Reports the commands that complete by then.
    pub fn advance(&mut self, until: Time, executor: &mut impl PlanExecutor, answers: &mut Vec<Answered>) {
        let until = until.max(self.clock);
        self.run_until(until, executor);
        self.report_due(|answer| answer.at <= until, answers);
    }

    /// Reports the commands that complete by `until`, each earlier by `ahead`, unless another event is due
    /// before: a completion need not wait for work that the drive starts at the same moment. A decided
    /// completion cannot change any more, so reporting it early is safe.
    pub fn report_early(
        &mut self,
        until: Time,
        ahead: impl Fn(Answered) -> Nanos,
        answers: &mut Vec<Answered>,
    ) {
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

    fn run_until(&mut self, until: Time, executor: &mut impl PlanExecutor) {
        let mut reporter = Reporter { executor, due: &mut self.due };
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
