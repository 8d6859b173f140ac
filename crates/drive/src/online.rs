//! A drive that is fed one command at a time, by somebody who waits for its time to pass.
//!
//! The same drive and the same events as in `drive.rs`, only that the host is not a batch: commands come when
//! they come ([`Online::submit`]), time passes when somebody says so ([`Online::advance`]), and every plan that
//! the drive executes is handed out as it is executed ([`Mover`]), so that what moves the bytes follows the same
//! layer as the clock.
//!
//! Invariants: commands submitted at the times that [`Drive::run`] gives them complete at the times that it
//! gives them, however the time between is cut; answers come in the order of their times.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use skylight_disk::{Nanos, Time};
use skylight_layer::{Command, CommandId, Idle, Layer, Plan};

use crate::drive::Drive;
use crate::host::Outside;

pub use crate::host::{Moved, Origin};

/// Who moves the bytes.
pub trait Mover {
    /// A plan is executed; its layer is as it is after it. Nothing happens on the drive before this returns. Where the bytes
    /// find no space, the layer is to be as the media are: writes of the volatile cache stay there, and the drive tries again
    /// later; the host's commands are answered all the same.
    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &mut dyn Layer) -> Moved;

    /// A command is about to be answered that needs what the volatile cache holds on the media, where it finds no space.
    fn refused(&mut self, id: CommandId);

    /// The volatile cache took a write: a plan of [`Origin::Cache`] completes it by the second number.
    fn cached(&mut self, host: CommandId, cache: CommandId);

    /// A command is decided: it will be answered. A read has the bytes of this moment; a flush has all that was
    /// answered before.
    fn decided(&mut self, id: CommandId, layer: &dyn Layer);
}

/// A command that is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// When.
    pub at: Time,
    /// Which one, by the number that it was submitted with.
    pub id: u32,
}

/// The outside of a drive that is fed online.
struct Feed<'a, M: Mover> {
    mover: &'a mut M,
    due: &'a mut BinaryHeap<Reverse<Answered>>,
}

impl<M: Mover> Outside for Feed<'_, M> {
    fn answered(&mut self, id: CommandId, at: Time, _latency: Nanos, _free: Time) {
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

/// See the module page.
pub struct Online {
    drive: Drive,
    /// Commands that are decided and not handed out yet.
    due: BinaryHeap<Reverse<Answered>>,
    /// Nothing is left to do on its own until something else happens.
    rests: bool,
    /// Until when everything has happened.
    clock: Time,
}

impl Online {
    /// Feeds a drive that has nothing outstanding.
    pub fn new(drive: Drive) -> Self {
        let clock = drive.now();
        Self { drive, due: BinaryHeap::new(), rests: false, clock }
    }

    /// The drive.
    pub fn drive(&self) -> &Drive {
        &self.drive
    }

    /// The drive, to switch and to look into; not to run.
    pub fn drive_mut(&mut self) -> &mut Drive {
        &mut self.drive
    }

    /// Until when everything has happened.
    pub fn clock(&self) -> Time {
        self.clock
    }

    /// Takes a command at `at`, or now if that is past; its number is nobody else's that is not answered yet.
    /// `through` is a write that is answered when durable.
    pub fn submit(&mut self, command: Command, through: bool, at: Time, mover: &mut impl Mover) {
        let at = at.max(self.clock);
        self.pass(at, mover);
        self.rests = false;
        self.drive.take(command, through, at);
    }

    /// Lets time pass: everything before `until` happens. Gives the commands that are answered until then.
    pub fn advance(&mut self, until: Time, mover: &mut impl Mover, answers: &mut Vec<Answered>) {
        let until = until.max(self.clock);
        self.pass(until, mover);
        self.hand_out(|answer| answer.at <= until, answers);
    }

    /// Gives the commands that are answered until then, each by so much earlier as `ahead` says, as far as nothing
    /// else has to happen by now: who waits for an answer should not wait for what the drive begins at the same
    /// moment. What is decided is answered at its time whatever comes, so it may be told before.
    pub fn settled(&mut self, until: Time, ahead: impl Fn(Answered) -> Nanos, answers: &mut Vec<Answered>) {
        let event = self.drive.next_event().map_or(until, |(time, _)| time.min(until));
        self.hand_out(|answer| answer.at.min(until) <= event && answer.at <= until + ahead(answer), answers);
    }

    fn hand_out(&mut self, due: impl Fn(Answered) -> bool, answers: &mut Vec<Answered>) {
        while let Some(Reverse(answer)) = self.due.peek().filter(|Reverse(answer)| due(*answer)) {
            answers.push(*answer);
            self.due.pop();
        }
    }

    fn pass(&mut self, until: Time, mover: &mut impl Mover) {
        let mut feed = Feed { mover, due: &mut self.due };
        while let Some((time, event)) = self.drive.next_event().filter(|&(time, _)| time < until) {
            self.drive.happen(time, event, &mut feed);
            self.rests = false;
        }
        if !self.rests && self.drive.is_idle_before(until) {
            self.rests = self.drive.idle_until(until, &mut feed) == Idle::Nothing;
        }
        self.clock = self.clock.max(until);
    }

    /// When something happens next if no command comes; none when nothing will. Answers are told by so much
    /// earlier as `ahead` says.
    pub fn next(&self, ahead: impl Fn(Answered) -> Nanos) -> Option<Time> {
        let event = self.drive.next_event().map(|(time, _)| time);
        let answer =
            self.due.peek().map(|Reverse(answer)| Time(answer.at.get().saturating_sub(ahead(*answer).get())));
        let idle = if self.rests { None } else { self.drive.idle_begins() };
        [event, answer, idle].into_iter().flatten().min()
    }
}
