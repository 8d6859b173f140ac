//! The commands that the host has outstanding, as the drive sees them.
//!
//! Commands lie in columns, oldest first. One that is answered leaves its room to those before it, so that what
//! is answered in the order in which it came moves nothing, and the room at the front is given back now and then.
//!
//! Commands that conflict (they share sectors, and one of them changes these) are served in the order in which they
//! were submitted: one that conflicts with an older command is *blocked* until that is answered, and a blocked one is
//! neither offered to the scheduler, nor to the layer, nor taken by the volatile cache. What is offered conflicts with
//! nothing, so it may be done in any order. Older commands never wait for younger ones, and the oldest is never blocked.
//!
//! Invariants: columns are of one length; how a command is served follows what the volatile
//! cache holds now; what lies beyond the drive's queue has not come yet; a command is blocked exactly while an older
//! one that conflicts with it is outstanding.

use std::ops::Range;

use skylight_disk::{Beginning, LbaExtent, Nanos, Pba, Time};
use skylight_layer::{Command, CommandId, HostOp, Layer, Plan};

use crate::footprint::Footprint;
use crate::media::Media;
use crate::planted::{Planted, Plants};
use crate::schedule::{Sweep, Target};
use crate::write_cache::WriteCache;

/// How a command is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// By the volatile cache, when it arrives: a write, or a read of what the cache holds.
    OnArrival,
    /// By the media.
    Media,
    /// By the media, when what the cache holds there has left it.
    Destaged,
    /// When the writes that were answered before it came, those numbered below, are on the media.
    Flush(u32),
}

/// When a command came, and how it is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When the host submitted it.
    pub(crate) at: Time,
    /// When it found room in the drive's queue.
    pub(crate) came: Time,
    /// How it is served now.
    pub(crate) served: Served,
    /// Answered only when durable, whatever the cache (FUA).
    through: bool,
    /// An older outstanding command conflicts with it.
    pub(crate) blocked: bool,
}

/// What the commands in the drive's queue wait for, with the volatile cache on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlook {
    /// Which command the volatile cache takes next, and from when on.
    pub(crate) arrival: Option<(Time, usize)>,
    /// When the first write came that finds no room; those behind it do not overtake it.
    pub(crate) full: Option<Time>,
    /// When the first command came that needs the media.
    pub(crate) media: Option<Time>,
}

/// Answered commands whose room is kept at the front of the columns, at least.
const SPARE: usize = 32;

/// See the module page.
pub(crate) struct Pending {
    /// The columns; what lies before `first` was answered.
    commands: Vec<Command>,
    arrivals: Vec<Arrival>,
    targets: Vec<Target>,
    first: usize,
    sweep: Sweep,
    /// The latest choice, counted from the oldest command: the next to be answered, as a rule.
    chosen: usize,
    queue_depth: usize,
    /// When the last of them all came, or one that is answered.
    last_came: Time,
    /// Commands that are not plain writes: only these depend on what the cache holds.
    dependents: usize,
    /// Commands that are blocked.
    blocked: usize,
    footprint: Footprint,
    pub(crate) plants: Plants,
}

impl Pending {
    pub(crate) fn new(queue_depth: usize) -> Self {
        let (commands, arrivals, targets) = (Vec::new(), Vec::new(), Vec::new());
        let sweep = Sweep::default();
        Self {
            commands,
            arrivals,
            targets,
            first: 0,
            sweep,
            chosen: 0,
            queue_depth,
            last_came: Time(0),
            dependents: 0,
            blocked: 0,
            footprint: Footprint::new(),
            plants: Plants::default(),
        }
    }

    #[inline]
    pub(crate) fn commands(&self) -> &[Command] {
        &self.commands[self.first..]
    }

    #[inline]
    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals[self.first..]
    }

    /// Of a run of commands the one that the heads reach first, and where on the platters it begins.
    pub(crate) fn nearest(
        &mut self,
        parts: (&dyn Layer, &Media),
        run: Range<usize>,
        now: Time,
        overhead: Nanos,
    ) -> (usize, Option<(Pba, Beginning)>) {
        let (start, run) = (run.start, self.first + run.start..self.first + run.end);
        let arrivals = &self.arrivals[run.clone()];
        let choice = (&self.commands[run.clone()], &mut self.targets[run]);
        let nearest = self.sweep.nearest(parts, now, choice, |index| arrivals[index].at + overhead);
        self.chosen = start + nearest;
        (nearest, self.sweep.begins(self.targets[self.first + self.chosen]))
    }

    /// After a plan that changed the map, places may have to be looked up again.
    #[inline]
    pub(crate) fn forget_places(&mut self, layer: &dyn Layer, plan: &Plan, trim: bool) {
        if !self.commands.is_empty() {
            self.sweep.forget(layer, plan, trim, &mut self.targets[self.first..]);
        }
    }

    /// After the layer was taken up anew, every place has to be looked up again.
    pub(crate) fn forget_all_places(&mut self) {
        self.sweep.forget_all(&mut self.targets[self.first..]);
    }

    /// The first write that finds no room in the volatile cache, counted from the oldest command.
    pub(crate) fn without_room(&self, cache: &WriteCache) -> Option<usize> {
        let finds_none = |index: &usize| {
            let (command, arrival) = (&self.commands()[*index], &self.arrivals()[*index]);
            let arrives = command.op == HostOp::Write && arrival.served == Served::OnArrival;
            arrives && !arrival.blocked && !cache.has_room(command.extent)
        };
        (0..self.queued()).find(finds_none)
    }

    /// What has come, all of it in the drive's queue.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        self.commands().len().min(self.queue_depth)
    }

    /// How many of the oldest, all in the drive's queue, have come by `time` and may be served in any order.
    #[inline]
    pub(crate) fn come_by(&self, time: Time) -> usize {
        let queued = self.queued();
        if self.last_came <= time && self.blocked == 0 {
            return queued;
        }
        let served = |arrival: &&Arrival| arrival.came <= time && !arrival.blocked;
        self.arrivals()[..queued].iter().take_while(served).count()
    }

    /// Takes a command that the host submits at `at`.
    #[inline]
    pub(crate) fn submit(&mut self, command: Command, through: bool, at: Time, cache: &mut WriteCache) {
        let served = served(&command, through, cache);
        self.dependents += usize::from(is_dependent(&command, through));
        self.last_came = self.last_came.max(at);
        let blocked = self.footprint.may_conflict(&command)
            && conflicts_with_any(&command, self.commands())
            && !self.plants.has(Planted::NoConflicts);
        self.footprint.add(&command);
        self.blocked += usize::from(blocked);
        self.commands.push(command);
        self.arrivals.push(Arrival { at, came: at, served, through, blocked });
        self.targets.push(self.sweep.admit());
    }

    /// Takes out a command that is answered at `at`: another one finds its room.
    #[inline]
    pub(crate) fn answer(&mut self, id: CommandId, at: Time) -> (Command, Arrival) {
        let index = self.first + self.index_of(id);
        let (command, arrival) = (self.commands[index], self.arrivals[index]);
        debug_assert!(!arrival.blocked, "an older command that conflicts is outstanding");
        self.sweep.remove(self.targets[index]);
        self.footprint.remove(&command);
        self.close_gap(index);
        if self.blocked > 0 {
            self.unblock(&command);
        }
        self.dependents -= usize::from(is_dependent(&command, arrival.through));
        if let Some(comes) = self.arrivals.get_mut(self.first + self.queue_depth - 1) {
            comes.came = comes.came.max(at);
            self.last_came = self.last_came.max(at);
        }
        (command, arrival)
    }

    /// A command was answered: those that were blocked by it alone are free.
    fn unblock(&mut self, answered: &Command) {
        let (commands, arrivals) = (&self.commands[self.first..], &mut self.arrivals[self.first..]);
        for (index, arrival) in arrivals.iter_mut().enumerate().filter(|(_, arrival)| arrival.blocked) {
            let command = &commands[index];
            if command.conflicts_with(answered) && !conflicts_with_any(command, &commands[..index]) {
                arrival.blocked = false;
                self.blocked -= 1;
            }
        }
    }

    /// Where a command is, counted from the oldest: that, the latest choice, or wherever.
    #[inline]
    fn index_of(&self, id: CommandId) -> usize {
        let commands = self.commands();
        let is_it = |index: &usize| commands.get(*index).is_some_and(|command| command.id == id);
        let guess = [0, self.chosen].into_iter().find(is_it);
        guess.or_else(|| commands.iter().position(|command| command.id == id)).unwrap_or(0)
    }

    /// Of those before and those behind a command that is taken out, the fewer move.
    #[inline]
    fn close_gap(&mut self, index: usize) {
        let (first, len) = (self.first, self.commands.len());
        if index - first >= len - index {
            self.commands.remove(index);
            self.arrivals.remove(index);
            self.targets.remove(index);
            return;
        }
        self.first += 1;
        if index > first {
            self.commands.copy_within(first..index, first + 1);
            self.arrivals.copy_within(first..index, first + 1);
            self.targets.copy_within(first..index, first + 1);
        }
        if self.first == len || (self.first >= SPARE && 2 * self.first > len) {
            self.commands.drain(..self.first);
            self.arrivals.drain(..self.first);
            self.targets.drain(..self.first);
            self.first = 0;
        }
    }

    /// What the commands in the queue wait for; the cache is busy with an earlier one until `accepting`.
    pub(crate) fn outlook(&self, accepting: Time, cache: &WriteCache) -> Outlook {
        let mut outlook = Outlook::default();
        for (index, arrival) in self.arrivals()[..self.queued()].iter().enumerate() {
            if arrival.blocked {
                continue;
            }
            if arrival.served != Served::OnArrival {
                outlook.media.get_or_insert(arrival.came);
                continue;
            }
            let command = &self.commands()[index];
            if command.op == HostOp::Write {
                if outlook.full.is_none() && !cache.has_room(command.extent) {
                    outlook.full = Some(arrival.came);
                }
                if outlook.full.is_some() {
                    if self.dependents == 0 {
                        return outlook;
                    }
                    continue;
                }
            }
            let begin = accepting.max(arrival.came);
            if outlook.arrival.is_none_or(|(earlier, _)| begin < earlier) {
                outlook.arrival = Some((begin, index));
                if self.dependents == 0 {
                    // Plain writes come one after the other.
                    return outlook;
                }
            }
        }
        outlook
    }

    /// The cache holds something else in an extent from now on.
    #[inline]
    pub(crate) fn reconsider(&mut self, extent: LbaExtent, cache: &mut WriteCache) {
        if self.dependents == 0 {
            return;
        }
        for (command, arrival) in self.commands[self.first..].iter().zip(&mut self.arrivals[self.first..]) {
            let touched = command.extent.start < extent.end() && extent.start < command.extent.end();
            if touched && is_dependent(command, arrival.through) {
                arrival.served = served(command, arrival.through, cache);
            }
        }
    }
}

/// Whether a command conflicts with any of these.
#[inline]
fn conflicts_with_any(command: &Command, others: &[Command]) -> bool {
    others.iter().any(|other| command.conflicts_with(other))
}

fn is_dependent(command: &Command, through: bool) -> bool {
    through || command.op != HostOp::Write
}

#[inline]
fn served(command: &Command, through: bool, cache: &mut WriteCache) -> Served {
    match command.op {
        _ if !cache.is_on() => Served::Media,
        HostOp::Flush => Served::Flush(cache.next_number()),
        HostOp::Write if !through => Served::OnArrival,
        op => match cache.overlap(command.extent) {
            None => Served::Media,
            Some(true) if op == HostOp::Read => Served::OnArrival,
            Some(_) => Served::Destaged,
        },
    }
}
