//! The outstanding commands of the host, as the drive sees them.
//!
//! Commands are stored in columns, oldest first. Removing a completed command moves the older ones into its
//! position, so completion in order of arrival moves nothing; the unused entries at the front are reclaimed
//! from time to time.
//!
//! Conflicting commands (they share sectors, and one of them changes these) take effect in the order of
//! submission. A command that conflicts with an older one is *blocked* until that completes. A blocked
//! command is not offered to the scheduler or the layer, and the volatile cache does not take it. Commands
//! that are offered conflict with nothing, so any order is allowed. Older commands never wait for younger
//! ones, and the oldest is never blocked. On a drive with zones, writes and appends to one zone with a write pointer
//! are ordered too, whatever sectors they write, and what is not a plain write waits until the volatile cache has
//! nothing of the zone that it writes to.
//!
//! Invariants: the columns have equal lengths; how a command is served depends on the current contents of the
//! volatile cache; commands beyond the queue depth have not been queued yet; a command is blocked exactly
//! while an older, conflicting one is outstanding.

use std::ops::Range;

use skylight_command::{Command, CommandId, Op};
use skylight_disk::{AccessStart, LbaExtent, Nanos, Pba, Time};
use skylight_layer::{Layer, Order, Plan, ZoneLayout};

use crate::conflict_filter::Footprint;
use crate::media_timing::Media;
use crate::planted_bugs::{Planted, Plants};
use crate::schedule::{SptfQueue, Target};
use crate::write_cache::WriteCache;

/// How a command is served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    /// By the volatile cache, on arrival: a write, or a read of cached data.
    OnArrival,
    /// By the media.
    Media,
    /// By the media, after cached writes to its extent have been destaged.
    Destaged,
    /// When all writes with a lower number are on the media: those that completed before the flush was
    /// submitted.
    Flush(u32),
}

/// When a command arrived, and how it is served.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Arrival {
    /// When the host submitted it.
    pub(crate) submitted_at: Time,
    /// When it entered the drive's queue.
    pub(crate) queued_at: Time,
    /// How it is served now.
    pub(crate) served: Served,
    /// It conflicts with an older outstanding command.
    pub(crate) blocked: bool,
}

/// What the commands in the drive's queue wait for, with the volatile cache on.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outlook {
    /// The next command that the volatile cache takes, and the earliest time.
    pub(crate) arrival: Option<(Time, usize)>,
    /// When the first write without cache space was queued; later writes do not overtake it.
    pub(crate) full: Option<Time>,
    /// When the first command that needs the media was queued.
    pub(crate) media: Option<Time>,
}

/// Minimum number of unused entries at the front before they are reclaimed.
const SPARE: usize = 32;

/// See the module documentation.
pub(crate) struct Pending {
    /// The columns; the entries before `first` are unused.
    commands: Vec<Command>,
    arrivals: Vec<Arrival>,
    targets: Vec<Target>,
    first: usize,
    sptf: SptfQueue,
    /// The latest choice, counted from the oldest command; it is usually the next to complete.
    chosen: usize,
    queue_depth: usize,
    /// Time from a completion until the command that takes its position in the queue has arrived.
    turnaround: Nanos,
    /// When the latest of all commands was queued, or a completed one.
    last_queued_at: Time,
    /// Commands other than plain writes: only these depend on the contents of the cache.
    dependents: usize,
    /// Number of blocked commands.
    blocked: usize,
    /// All outstanding commands, but for one that has been alone since it came.
    footprint: Footprint,
    /// Whether there is such a command: at depth 1 nothing conflicts, and the footprint costs a tenth of a command.
    lone: bool,
    /// The zones of the drive: writes to one zone are ordered.
    zones: Option<ZoneLayout>,
    pub(crate) plants: Plants<Planted>,
}

impl Pending {
    pub(crate) fn new(queue_depth: usize, zones: Option<ZoneLayout>) -> Self {
        let (commands, arrivals, targets) = (Vec::new(), Vec::new(), Vec::new());
        let sptf = SptfQueue::default();
        Self {
            commands,
            arrivals,
            targets,
            first: 0,
            sptf,
            chosen: 0,
            queue_depth,
            turnaround: Nanos(0),
            last_queued_at: Time(0),
            dependents: 0,
            blocked: 0,
            footprint: Footprint::new(zones),
            lone: false,
            zones,
            plants: Plants::default(),
        }
    }

    /// Limits the queue; a command that was held back takes `turnaround` to arrive.
    pub(crate) fn limit(&mut self, queue_depth: usize, turnaround: Nanos) {
        debug_assert!(self.is_empty(), "no command is outstanding");
        self.queue_depth = self.queue_depth.min(queue_depth.max(1));
        self.turnaround = turnaround;
    }

    #[inline]
    pub(crate) fn commands(&self) -> &[Command] {
        &self.commands[self.first..]
    }

    #[inline]
    pub(crate) fn arrivals(&self) -> &[Arrival] {
        &self.arrivals[self.first..]
    }

    /// A command, counted from the oldest.
    #[inline]
    pub(crate) fn command(&self, index: usize) -> &Command {
        &self.commands[self.first + index]
    }

    /// How a command came, counted from the oldest.
    #[inline]
    pub(crate) fn arrival(&self, index: usize) -> &Arrival {
        &self.arrivals[self.first + index]
    }

    /// How the oldest command came.
    #[inline]
    pub(crate) fn oldest(&self) -> Option<&Arrival> {
        self.arrivals.get(self.first)
    }

    /// Whether no command is outstanding.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.first == self.commands.len()
    }

    /// Index in a run of the command that the heads reach first.
    pub(crate) fn nearest(
        &mut self,
        parts: (&dyn Layer, &Media),
        run: Range<usize>,
        now: Time,
        overhead: Nanos,
    ) -> usize {
        let (start, run) = (run.start, self.first + run.start..self.first + run.end);
        let arrivals = &self.arrivals[run.clone()];
        let choice = (&self.commands[run.clone()], &mut self.targets[run]);
        let nearest = self.sptf.nearest(parts, now, choice, |index| arrivals[index].submitted_at + overhead);
        self.chosen = start + nearest;
        nearest
    }

    /// Start of the latest choice's access on the platters, if it has one. By reference, so that it is copied once.
    #[inline]
    pub(crate) fn start_of_chosen(&self) -> &Option<(Pba, AccessStart)> {
        self.sptf.start_of(self.targets[self.first + self.chosen])
    }

    /// Invalidates the locations that a plan may have changed.
    #[inline]
    pub(crate) fn invalidate_locations(&mut self, layer: &dyn Layer, plan: &Plan, trim: bool) {
        if !self.commands.is_empty() {
            self.sptf.invalidate(layer, plan, trim, &mut self.targets[self.first..]);
        }
    }

    /// Invalidates all locations, after the layer was restored.
    pub(crate) fn invalidate_all_locations(&mut self) {
        self.sptf.invalidate_all(&mut self.targets[self.first..]);
    }

    /// Index of the first write without space in the volatile cache, counted from the oldest command.
    pub(crate) fn first_without_space(&self, cache: &WriteCache) -> Option<usize> {
        let lacks_space = |index: &usize| {
            let (command, arrival) = (self.command(*index), self.arrival(*index));
            let arrives = command.op == Op::Write && arrival.served == Served::OnArrival;
            arrives && !arrival.blocked && !cache.has_space(command.extent)
        };
        (0..self.queued()).find(lacks_space)
    }

    /// Number of commands in the drive's queue.
    #[inline]
    pub(crate) fn queued(&self) -> usize {
        (self.commands.len() - self.first).min(self.queue_depth)
    }

    /// How many of the oldest queued commands are queued by `time` and can be served in any order.
    #[inline]
    pub(crate) fn queued_by(&self, time: Time) -> usize {
        let queued = self.queued();
        if self.last_queued_at <= time && self.blocked == 0 {
            return queued;
        }
        let served = |arrival: &&Arrival| arrival.queued_at <= time && !arrival.blocked;
        self.arrivals()[..queued].iter().take_while(served).count()
    }

    /// How a command is served that comes now.
    #[inline]
    pub(crate) fn served(&self, command: &Command, cache: &mut WriteCache) -> Served {
        match cache.is_on() {
            true => served(command, self.touched(command), cache),
            false => Served::Media,
        }
    }

    /// Takes a command that the host submits at `at`. Always inlined, and what it calls takes the command by value: one in
    /// memory would be read in wider words than it was just written in, which takes a processor longer than all else here.
    #[inline(always)]
    pub(crate) fn submit(&mut self, served: Served, command: Command, at: Time) {
        self.dependents += usize::from(is_dependent(&command));
        self.last_queued_at = self.last_queued_at.max(at);
        let blocked = self.conflicts(command);
        self.blocked += usize::from(blocked);
        self.commands.push(command);
        self.arrivals.push(Arrival { submitted_at: at, queued_at: at, served, blocked });
        self.targets.push(self.sptf.admit());
    }

    /// Whether a command that comes now conflicts with an outstanding one; counts it as outstanding.
    #[inline]
    fn conflicts(&mut self, command: Command) -> bool {
        if self.is_empty() {
            self.lone = true;
            return false;
        }
        if std::mem::take(&mut self.lone) {
            self.footprint.add(self.commands[self.first]);
        }
        self.footprint.add(command)
            && self.conflicts_with_any(command)
            && !self.plants.has(Planted::NoConflicts)
    }

    /// The same by comparing it with each; out of line and by value, see [`Pending::submit`].
    #[inline(never)]
    fn conflicts_with_any(&self, command: Command) -> bool {
        Order::of(self.zones.as_ref(), &command).matters_to_any(self.commands())
    }

    /// Removes a command that completes at `at`, which lets another one into the queue.
    #[inline]
    pub(crate) fn complete(&mut self, id: CommandId, at: Time) -> Command {
        if std::mem::take(&mut self.lone) {
            return self.complete_lone();
        }
        let index = self.first + self.index_of(id);
        let command = self.commands[index];
        debug_assert!(!self.arrivals[index].blocked, "an older command that conflicts is outstanding");
        self.sptf.remove(self.targets[index]);
        self.footprint.remove(&command);
        self.close_gap(index);
        if self.blocked > 0 {
            self.unblock(&command);
        }
        self.dependents -= usize::from(is_dependent(&command));
        if let Some(entry) = self.arrivals.get_mut(self.first + self.queue_depth - 1) {
            let arrives = at + self.turnaround;
            entry.queued_at = entry.queued_at.max(arrives);
            self.last_queued_at = self.last_queued_at.max(arrives);
        }
        command
    }

    /// Removes the command that has been alone since it came: it blocked none, and none waits for its place.
    #[inline]
    fn complete_lone(&mut self) -> Command {
        let (command, target) = (self.commands[self.first], self.targets[self.first]);
        debug_assert!(self.commands().len() == 1 && self.blocked == 0, "one command is outstanding");
        self.sptf.remove(target);
        self.clear();
        self.dependents = 0;
        command
    }

    /// Forgets the unused entries when there are no others; cheaper than to drain them.
    #[inline]
    fn clear(&mut self) {
        self.commands.clear();
        self.arrivals.clear();
        self.targets.clear();
        self.first = 0;
    }

    /// Unblocks the commands that only `answered` blocked.
    fn unblock(&mut self, answered: &Command) {
        let zones = self.zones.as_ref();
        let (commands, arrivals) = (&self.commands[self.first..], &mut self.arrivals[self.first..]);
        let order = Order::of(zones, answered);
        // Those that are blocked are among the youngest.
        let youngest_first = arrivals.iter_mut().enumerate().rev();
        for (index, arrival) in youngest_first.filter(|(_, arrival)| arrival.blocked).take(self.blocked) {
            let command = &commands[index];
            if order.matters_to(command) && !Order::of(zones, command).matters_to_any(&commands[..index]) {
                arrival.blocked = false;
                self.blocked -= 1;
            }
        }
    }

    /// Index of a command, counted from the oldest. The oldest and the latest choice are tried first.
    #[inline]
    fn index_of(&self, id: CommandId) -> usize {
        let commands = self.commands();
        let matches = |index: &usize| commands.get(*index).is_some_and(|command| command.id == id);
        let guess = [0, self.chosen].into_iter().find(matches);
        guess.or_else(|| commands.iter().position(|command| command.id == id)).unwrap_or(0)
    }

    /// Closes the gap of a removed command by moving its predecessors or its successors, whichever are fewer. They are so
    /// few that one loop over the columns is faster than a `memmove` of each, whose way for each length a processor cannot
    /// foresee.
    #[inline]
    fn close_gap(&mut self, index: usize) {
        let (first, len) = (self.first, self.commands.len());
        let commands = &mut self.commands[..len];
        let arrivals = &mut self.arrivals[..len];
        let targets = &mut self.targets[..len];
        if index - first >= len - index {
            for at in index + 1..len {
                commands[at - 1] = commands[at];
                arrivals[at - 1] = arrivals[at];
                targets[at - 1] = targets[at];
            }
            self.commands.pop();
            self.arrivals.pop();
            self.targets.pop();
            return;
        }
        for at in (first..index).rev() {
            commands[at + 1] = commands[at];
            arrivals[at + 1] = arrivals[at];
            targets[at + 1] = targets[at];
        }
        self.first += 1;
        if self.first == len {
            self.clear();
        } else if self.first >= SPARE && 2 * self.first > len {
            self.commands.drain(..self.first);
            self.arrivals.drain(..self.first);
            self.targets.drain(..self.first);
            self.first = 0;
        }
    }

    /// The sectors whose cached data a command has to do with.
    #[inline]
    pub(crate) fn touched(&self, command: &Command) -> LbaExtent {
        touched(self.zones.as_ref(), command)
    }

    /// What the queued commands wait for; the cache is busy with an earlier one until `cache_busy_until`.
    #[inline]
    pub(crate) fn outlook(&self, cache_busy_until: Time, cache: &WriteCache) -> Outlook {
        match self.oldest() {
            None => Outlook::default(),
            // Plain writes are taken in order.
            Some(oldest) if self.dependents == 0 && self.blocked == 0 => {
                match cache.has_space(self.command(0).extent) {
                    true => Outlook {
                        arrival: Some((cache_busy_until.max(oldest.queued_at), 0)),
                        ..Outlook::default()
                    },
                    false => Outlook { full: Some(oldest.queued_at), ..Outlook::default() },
                }
            }
            Some(_) => self.outlook_of_each(cache_busy_until, cache),
        }
    }

    /// The same, whatever is queued.
    fn outlook_of_each(&self, cache_busy_until: Time, cache: &WriteCache) -> Outlook {
        let mut outlook = Outlook::default();
        for (index, arrival) in self.arrivals()[..self.queued()].iter().enumerate() {
            if arrival.blocked {
                continue;
            }
            if arrival.served != Served::OnArrival {
                outlook.media.get_or_insert(arrival.queued_at);
                continue;
            }
            let command = self.command(index);
            if command.op == Op::Write {
                if outlook.full.is_none() && !cache.has_space(command.extent) {
                    outlook.full = Some(arrival.queued_at);
                }
                if outlook.full.is_some() {
                    if self.dependents == 0 {
                        return outlook;
                    }
                    continue;
                }
            }
            let begin = cache_busy_until.max(arrival.queued_at);
            if outlook.arrival.is_none_or(|(earlier, _)| begin < earlier) {
                outlook.arrival = Some((begin, index));
                if self.dependents == 0 {
                    // Plain writes are taken in order.
                    return outlook;
                }
            }
        }
        outlook
    }

    /// Re-evaluates the commands in an extent whose cached data changed.
    #[inline]
    pub(crate) fn reconsider(&mut self, extent: LbaExtent, cache: &mut WriteCache) {
        if self.dependents == 0 {
            return;
        }
        for (command, arrival) in self.commands[self.first..].iter().zip(&mut self.arrivals[self.first..]) {
            if !is_dependent(command) {
                continue;
            }
            let touched = touched(self.zones.as_ref(), command);
            if touched.overlaps(extent) {
                arrival.served = served(command, touched, cache);
            }
        }
    }
}

#[inline]
fn touched(zones: Option<&ZoneLayout>, command: &Command) -> LbaExtent {
    zones.map_or(command.extent, |zones| zones.touched(command))
}

fn is_dependent(command: &Command) -> bool {
    command.flags.fua || command.op != Op::Write
}

/// How the volatile cache, which is on, has a command served.
fn served(command: &Command, touched: LbaExtent, cache: &mut WriteCache) -> Served {
    match command.op {
        Op::Flush => Served::Flush(cache.next_number()),
        Op::Write if !command.flags.fua => Served::OnArrival,
        op => match cache.overlap(touched) {
            None => Served::Media,
            Some(true) if op == Op::Read => Served::OnArrival,
            Some(_) => Served::Destaged,
        },
    }
}
