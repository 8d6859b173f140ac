//! A drive in virtual time: the host's queue in front of a layer and its media.
//!
//! The host keeps a number of commands outstanding; the drive sees those that have arrived, up to its queue
//! depth, lets the layer take some, and gives every step of the plan its duration. Command overhead runs
//! beside the media where commands queue, and delays them where they come one by one: that is why a
//! synchronous write to the next block of a log waits a whole turn (Skylight, section 4.3). With the volatile
//! write cache on, writes are answered on arrival and reach the media behind the host's back; with look-ahead
//! on, a sequential read finds the head already where it needs it. Left alone long enough, the layer works.
//!
//! Invariants: time never goes back; a command completes after it was submitted; the same commands from the
//! same start give the same times to the nanosecond; one at a time, also when they are cut into batches (with
//! more outstanding, the queue drains where a batch ends).

use skylight_disk::{Direction, Disk, Lba, Nanos, Place, Sectors, Time};
use skylight_layer::{CacheUse, Command, CommandId, HostOp, Idle, Layer, Plan, Queue, Step};

use crate::batch::{Batch, BatchError};
use crate::jitter::Jitter;
use crate::ledger::Ledger;
use crate::media::{FlashSpeed, Media};
use crate::profile::Schedule;
use crate::stop::{Stop, StopWatch};
use crate::trace::HeadTrace;
use crate::write_cache::WriteCache;

/// How many commands ahead the layer is told of: enough for memory to answer meanwhile.
const HINT_COMMANDS: usize = 6;

/// The drive as the host meets it.
#[derive(Clone, Copy, Debug)]
pub struct HostInterface {
    /// Most commands the drive holds.
    pub queue_depth: usize,
    /// In which order it serves them.
    pub schedule: Schedule,
    /// Accesses among which the nearest is taken where the order is the drive's own.
    pub positioning_window: usize,
    /// From the arrival of a command until the heads may move for it.
    pub command_overhead: Nanos,
    /// From a completion until the host submits the next command.
    pub host_gap: Nanos,
    /// Size of the volatile write cache; none for a drive without one.
    pub write_cache: Sectors,
    /// Whether it is on when the drive is switched on.
    pub write_cache_on: bool,
    /// How much a read goes on reading into the drive's buffer.
    pub read_buffer: Sectors,
    /// Whether it does when the drive is switched on.
    pub look_ahead: bool,
    /// Whether the heads are parked when the drive has been left alone and has nothing to do.
    pub park_when_idle: bool,
}

/// A read that goes on into the buffer in the order of the host's addresses: where, and since when.
#[derive(Clone, Copy, Debug)]
struct ReadAhead {
    next: Lba,
    since: Time,
}

/// How a command came, and what the drive's scheduling knows of it.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    at: Time,
    /// When it found room in the drive's queue.
    came: Time,
    /// Where the heads have to be for it, found once until the map changes.
    place: Found,
    /// Answered only when durable, whatever the write cache (FUA).
    through: bool,
}

/// Where a command's first sector lies, when that has been looked up.
#[derive(Clone, Copy, Debug)]
enum Found {
    NotYet,
    /// On flash, or nowhere: the heads need not move.
    NoMove,
    Platter(Place),
}

/// See the module page.
pub struct Drive {
    media: Media,
    layer: Box<dyn Layer>,
    interface: HostInterface,
    jitter: Option<Jitter>,
    /// Until when the media are busy.
    busy_until: Time,
    /// The host's clock: when it would submit the next command, or when its pause ended.
    host_time: Time,
    /// Since when there is nothing to do.
    quiet_since: Time,
    /// Until when the interface is busy with writes that go to the cache.
    accepting: Time,
    /// Outstanding commands, oldest first, and beside them how each came.
    waiting: Vec<Command>,
    submitted: Vec<Submitted>,
    cache: WriteCache,
    ahead: Option<ReadAhead>,
    /// How long a read may go on before the buffer is full.
    buffer_time: Nanos,
    plan: Plan,
    answered: Vec<(CommandId, Time)>,
}

/// Where the completions of a batch go.
struct Completions<'a> {
    complete_ns: &'a mut [u64],
    /// When the slots that completed become free, in order.
    freed: &'a mut Vec<Time>,
    watch: StopWatch,
}

impl Drive {
    pub(crate) fn assemble(
        disk: Disk,
        flash: Option<FlashSpeed>,
        layer: Box<dyn Layer>,
        interface: HostInterface,
        jitter: Option<Jitter>,
    ) -> Self {
        let media = Media::new(disk, flash, interface.positioning_window);
        Self {
            buffer_time: media.outer_transfer_time(interface.read_buffer),
            media,
            layer,
            interface,
            jitter,
            busy_until: Time(0),
            host_time: Time(0),
            quiet_since: Time(0),
            accepting: Time(0),
            waiting: Vec::new(),
            submitted: Vec::new(),
            cache: WriteCache::new(interface.write_cache, interface.write_cache_on),
            ahead: None,
            plan: Plan::default(),
            answered: Vec::new(),
        }
    }

    /// Sectors that the host sees.
    pub fn capacity(&self) -> Sectors {
        self.layer.capacity()
    }

    /// Virtual time: when the host would submit the next command.
    pub fn now(&self) -> Time {
        self.host_time
    }

    /// Counters since the start.
    pub fn ledger(&self) -> &Ledger {
        &self.media.ledger
    }

    /// How full the persistent cache is.
    pub fn cache_use(&self) -> CacheUse {
        self.layer.cache_use()
    }

    /// The platters and the arm.
    pub fn disk(&self) -> &Disk {
        &self.media.disk
    }

    /// The translation layer, for the oracle and for pictures.
    pub fn layer(&self) -> &dyn Layer {
        self.layer.as_ref()
    }

    /// Keeps the next accesses of the platters, up to `rows`.
    pub fn start_trace(&mut self, rows: usize) {
        self.media.trace = Some(HeadTrace::new(rows));
    }

    /// Ends the trace and hands it out.
    pub fn take_trace(&mut self) -> Option<HeadTrace> {
        self.media.trace.take()
    }

    /// Whether the volatile write cache is on.
    pub fn write_cache(&self) -> bool {
        self.cache.is_on()
    }

    /// Switches the volatile write cache; what it holds is destaged first. Returns what it is then: a drive
    /// without one stays off.
    pub fn set_write_cache(&mut self, on: bool) -> bool {
        self.destage_all();
        self.host_time = self.host_time.max(self.busy_until);
        self.cache.switch(on);
        self.cache.is_on()
    }

    /// Whether reads go on into the buffer.
    pub fn look_ahead(&self) -> bool {
        self.interface.look_ahead
    }

    /// Switches look-ahead; returns what it is then: a drive without a buffer stays off.
    pub fn set_look_ahead(&mut self, on: bool) -> bool {
        self.interface.look_ahead = on && self.interface.read_buffer.get() > 0;
        self.ahead = None;
        self.interface.look_ahead
    }

    /// Secure erase: what was written is forgotten. It takes no time and moves no head.
    pub fn erase(&mut self) {
        self.cache.clear();
        self.ahead = None;
        self.layer.erase();
    }

    /// Leaves the drive alone for a time, in which it destages, and the layer may work.
    pub fn pause(&mut self, duration: Nanos) {
        self.host_time += duration;
        self.work_until(self.host_time);
        self.busy_until = self.busy_until.max(self.host_time);
    }

    /// What the drive does on its own until a command comes; a unit that has begun then ends.
    fn work_until(&mut self, until: Time) {
        while self.busy_until < until && self.destage_unit() {}
        let Some(after) = self.layer.idle_after() else {
            return;
        };
        let begin = self.busy_until.max(self.quiet_since + after);
        if begin >= until {
            return;
        }
        self.busy_until = begin;
        while self.busy_until < until {
            self.ahead = None;
            self.plan.clear();
            if self.layer.idle(&mut self.plan) == Idle::Nothing {
                if self.interface.park_when_idle {
                    self.media.park();
                }
                return;
            }
            self.answered.clear();
            self.busy_until = self.media.execute(&self.plan, self.busy_until, &mut self.answered);
        }
    }

    /// Writes some of what the volatile cache holds to the media; `false` when it holds nothing.
    fn destage_unit(&mut self) -> bool {
        let dirty = self.cache.dirty();
        if dirty.is_empty() {
            return false;
        }
        let start = self.busy_until.max(self.cache.held_since());
        let window = match self.interface.schedule {
            Schedule::Fifo => 1,
            Schedule::ShortestPositioningFirst => dirty.len().min(self.interface.queue_depth),
        };
        let cost = |index: usize| {
            let place = self.first_place(&dirty[index]);
            self.media.positioning(place.as_ref(), Direction::Write, start)
        };
        let nearest = (0..window).min_by_key(|&index| cost(index)).unwrap_or(0);
        let next = self.cache.oldest_below(nearest);
        self.ahead = None;
        self.plan.clear();
        self.layer.take(Queue { waiting: dirty, next }, &mut self.plan);
        self.answered.clear();
        self.busy_until = self.media.execute(&self.plan, start, &mut self.answered);
        self.quiet_since = self.quiet_since.max(self.busy_until);
        self.cache.destaged(self.answered.iter().map(|&(id, _)| id));
        true
    }

    fn destage_all(&mut self) {
        while self.destage_unit() {}
    }

    /// Runs a batch with `depth` commands outstanding. `submit_ns` and `complete_ns` are as long as the batch
    /// and take the times of each command; the host submits the next one when one completes.
    ///
    /// # Errors
    /// When a command is not of this drive; then nothing was done.
    pub fn run(
        &mut self,
        batch: &Batch<'_>,
        depth: usize,
        submit_ns: &mut [u64],
        complete_ns: &mut [u64],
    ) -> Result<(), BatchError> {
        self.run_until(batch, depth, None, submit_ns, complete_ns).map(|_| ())
    }

    /// [`Drive::run`], but the host submits nothing more once `stop` holds; gives the number of commands that
    /// were done, the first of the batch.
    ///
    /// # Errors
    /// When a command or the stop is not one for this drive; then nothing was done.
    pub fn run_until(
        &mut self,
        batch: &Batch<'_>,
        depth: usize,
        stop: Option<Stop>,
        submit_ns: &mut [u64],
        complete_ns: &mut [u64],
    ) -> Result<usize, BatchError> {
        batch.check(self.capacity(), depth, submit_ns.len(), complete_ns.len())?;
        if let Some(unsound) = stop.filter(|stop| !stop.is_sound()) {
            return Err(BatchError::Stop(unsound.count, unsound.within));
        }
        let depth = depth.min(batch.len());
        let mut freed: Vec<Time> = Vec::with_capacity(depth);
        freed.resize(depth, self.host_time);
        let mut watch = StopWatch::new(stop);
        self.waiting.reserve(depth);
        self.submitted.reserve(depth);
        let mut next = 0;
        loop {
            let end = if watch.reached() { next } else { batch.len() };
            let mut due = self.due(&mut freed);
            while due > 0 && next < end {
                for at in freed.drain(..due).take(end - next) {
                    self.submit(batch, next, at);
                    submit_ns[next] = at.get();
                    next += 1;
                }
                due = self.due(&mut freed);
            }
            if self.waiting.is_empty() {
                return Ok(next);
            }
            let mut completions = Completions { complete_ns, freed: &mut freed, watch };
            self.serve(&mut completions);
            watch = completions.watch;
        }
    }

    /// How many of the free slots the host fills before the drive does anything more: all of them, or with
    /// the volatile cache on the first, unless the cache answers a command before. Puts them in order of time.
    #[inline]
    fn due(&self, freed: &mut [Time]) -> usize {
        if !self.cache.is_on() || freed.len() + self.waiting.len() <= 1 {
            return freed.len();
        }
        freed.sort_unstable();
        let ready = self
            .answered_by_cache()
            .map(|index| self.accepting.max(self.submitted[index].came) + self.interface.command_overhead);
        usize::from(freed.first().is_some_and(|&at| ready.is_none_or(|ready| at < ready)))
    }

    #[inline]
    fn submit(&mut self, batch: &Batch<'_>, index: usize, at: Time) {
        if let Some(ahead) = batch.extent(index + HINT_COMMANDS) {
            self.layer.hint(ahead.start);
        }
        self.waiting.push(batch.command(index));
        self.submitted.push(Submitted {
            at,
            came: at,
            place: Found::NotYet,
            through: batch.is_through(index),
        });
    }

    /// Answers at least one of the waiting commands.
    #[inline]
    fn serve(&mut self, completions: &mut Completions<'_>) {
        let oldest = self.submitted[0].at;
        if self.busy_until < oldest {
            self.work_until(oldest);
            self.busy_until = self.busy_until.max(oldest);
        }
        if !self.cache.is_on() {
            return self.serve_from_media(self.waiting.len(), completions);
        }
        if let Some(index) = self.answered_by_cache() {
            return self.serve_from_cache(index, completions);
        }
        let misses =
            |command: &Command| command.op == HostOp::Read && self.cache.overlap(command.extent).is_none();
        // Only reads of what the cache does not hold may pass each other.
        let reads = self.waiting.iter().take_while(|command| misses(command)).count();
        if reads > 0 {
            return self.serve_from_media(reads, completions);
        }
        self.destage_all();
        if self.waiting[0].op == HostOp::Flush {
            return self.serve_from_cache(0, completions);
        }
        self.serve_from_media(1, completions);
    }

    /// The first command that has come and that the volatile cache answers: a write, or a read of what it
    /// holds.
    #[inline]
    fn answered_by_cache(&self) -> Option<usize> {
        let now = self.submitted.first()?.came.max(self.busy_until);
        let answers = |(command, submitted): &(&Command, &Submitted)| {
            submitted.came <= now
                && match command.op {
                    HostOp::Write => !submitted.through,
                    HostOp::Read => self.cache.overlap(command.extent) == Some(true),
                    HostOp::Flush | HostOp::Trim => false,
                }
        };
        self.waiting.iter().zip(&self.submitted).take(self.interface.queue_depth).position(|c| answers(&c))
    }

    /// Answers a command from the volatile cache.
    fn serve_from_cache(&mut self, index: usize, completions: &mut Completions<'_>) {
        let Command { id, op, extent } = self.waiting[index];
        let at = self.submitted[index].came;
        let ready = self.accepting.max(at) + self.interface.command_overhead;
        let done = match op {
            HostOp::Write => {
                let mut room = at;
                while !self.cache.has_room(extent) && self.destage_unit() {
                    room = self.busy_until;
                }
                self.accepting = ready;
                let done = ready.max(room);
                self.cache.accept(extent, done);
                done
            }
            HostOp::Flush => ready.max(self.busy_until),
            HostOp::Read | HostOp::Trim => ready,
        };
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(done - at));
        self.answer(id, done + extra, completions);
    }

    /// Lets the layer take from the first commands that have arrived, and executes its plan.
    #[inline]
    fn serve_from_media(&mut self, first: usize, completions: &mut Completions<'_>) {
        let window = first.min(self.interface.queue_depth);
        let arrived = match window {
            1 => 1,
            _ => self.submitted[..window]
                .iter()
                .take_while(|submitted| submitted.at <= self.busy_until)
                .count()
                .max(1),
        };
        let next = self.choose(arrived);
        let command = self.waiting[next];
        let ready = self.submitted[next].at + self.interface.command_overhead;
        let start = self.reads_ahead_since(&command, ready).unwrap_or(self.busy_until.max(ready));
        self.plan.clear();
        self.layer.take(Queue { waiting: &self.waiting[..arrived], next }, &mut self.plan);
        self.answered.clear();
        let end = self.media.execute(&self.plan, start, &mut self.answered);
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(end.max(ready) - start));
        self.busy_until = self.busy_until.max(end + extra);
        for index in 0..self.answered.len() {
            let (id, at) = self.answered[index];
            self.answer(id, at.max(ready) + extra, completions);
        }
        self.forget_places();
        let goes_on = self.interface.look_ahead && command.op == HostOp::Read;
        self.ahead = goes_on.then(|| ReadAhead { next: command.extent.end(), since: end });
    }

    /// Since when the heads have been reading what a command asks for, if it continues the last read and the
    /// buffer is not full yet.
    #[inline]
    fn reads_ahead_since(&self, command: &Command, ready: Time) -> Option<Time> {
        let ahead = self.ahead?;
        let follows = command.op == HostOp::Read && command.extent.start == ahead.next;
        (follows && ready <= ahead.since + self.buffer_time).then_some(ahead.since)
    }

    /// The command to serve next, by the drive's schedule.
    #[inline]
    fn choose(&mut self, arrived: usize) -> usize {
        if arrived == 1 || self.interface.schedule == Schedule::Fifo {
            return 0;
        }
        for index in 0..arrived {
            if matches!(self.submitted[index].place, Found::NotYet) {
                let place = self.first_place(&self.waiting[index]);
                self.submitted[index].place = place.map_or(Found::NoMove, Found::Platter);
            }
        }
        let cost = |index: usize| {
            let ready = self.busy_until.max(self.submitted[index].at + self.interface.command_overhead);
            let place = match &self.submitted[index].place {
                Found::Platter(place) => Some(place),
                Found::NotYet | Found::NoMove => None,
            };
            (ready - self.busy_until) + self.media.positioning(place, way_of(&self.waiting[index]), ready)
        };
        (0..arrived).min_by_key(|&index| cost(index)).unwrap_or(0)
    }

    /// Where the heads have to be for a command.
    fn first_place(&self, command: &Command) -> Option<Place> {
        let write = match command.op {
            HostOp::Read => false,
            HostOp::Write => true,
            HostOp::Flush | HostOp::Trim => return None,
        };
        let (medium, first) = self.layer.locate_first(command.extent, write);
        self.media.place(medium, first)
    }

    /// After a plan that changed the map, places have to be looked up again.
    #[inline]
    fn forget_places(&mut self) {
        let changed = |step: &Step| matches!(step, Step::Commit(_));
        if self.submitted.len() > 1 && self.plan.steps().iter().any(changed) {
            for submitted in &mut self.submitted {
                submitted.place = Found::NotYet;
            }
        }
    }

    /// Answers the host.
    #[inline]
    fn answer(&mut self, id: CommandId, at: Time, completions: &mut Completions<'_>) {
        completions.complete_ns[id.0 as usize] = at.get();
        completions.freed.push(at + self.interface.host_gap);
        let index = match self.waiting.as_slice() {
            [_] => 0,
            several => several.iter().position(|command| command.id == id).unwrap_or(0),
        };
        let command = self.waiting.remove(index);
        let Submitted { at: since, .. } = self.submitted.remove(index);
        completions.watch.completed(at - since);
        if let Some(comes) = self.submitted.get_mut(self.interface.queue_depth - 1) {
            comes.came = comes.came.max(at);
        }
        self.media.ledger.complete(command.op, command.extent.len);
        self.host_time = self.host_time.max(at + self.interface.host_gap);
        self.quiet_since = self.quiet_since.max(at);
    }
}

fn way_of(command: &Command) -> Direction {
    if command.op == HostOp::Write { Direction::Write } else { Direction::Read }
}
