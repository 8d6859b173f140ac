//! A drive in virtual time: the host's queue in front of a layer and its media.
//!
//! What happens next is always the earliest of four things: the host submits a command (`host.rs`), the volatile
//! cache answers one, destaged writes reach the media, the media begin something. The media serve commands that
//! have come, up to the drive's queue depth (`pending.rs`, `schedule.rs`), or they destage: the layer takes some,
//! and every step of its plan gets its duration. Command overhead runs beside the media where commands queue,
//! and delays them where they come one by one: that is why a synchronous write to the next block of a log waits
//! a whole turn (Skylight, section 4.3). With the volatile write cache on, writes are answered on arrival and
//! reach the media behind the host's back; with look-ahead on, a sequential read finds the head already where it
//! needs it. Left alone long enough, the layer works.
//!
//! Commands that conflict are served in the order in which they were submitted: those that wait for the media or for
//! the volatile cache by `pending.rs`, writes that the cache holds by `write_cache.rs`, which both say how.
//!
//! Invariants: things happen in the order of time, so that the host submits in the order of its log; a command
//! completes after it was submitted; the same commands from the same start give the same times to the
//! nanosecond; one at a time, also when they are cut into batches (with more outstanding, the queue drains where
//! a batch ends).

use skylight_disk::{Disk, Lba, LbaExtent, Nanos, Sectors, Time};
use skylight_layer::{CacheUse, Command, CommandId, HostOp, Idle, Layer, Plan, Queue};

use crate::batch::{Batch, BatchError};
use crate::host::{Alone, Host, Moved, Origin, Outside};
use crate::jitter::Jitter;
use crate::ledger::Ledger;
use crate::media::{FlashSpeed, Media};
use crate::pending::{Arrival, Pending, Served};
#[doc(hidden)]
pub use crate::planted::Planted;
use crate::planted::Plants;
use crate::profile::Schedule;
use crate::stop::{Stop, StopWatch};
use crate::trace::HeadTrace;
use crate::write_cache::WriteCache;

/// How many commands ahead the layer is told of: enough for memory to answer meanwhile.
const HINT_COMMANDS: usize = 24;

/// After the media had no space for what the drive does by itself, it tries again so much later: a try costs as much as
/// taking up the layer, a tenth of a second for a large cache, and space comes when a person makes it.
const RETRY: Nanos = Nanos(1_000_000_000);

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
    /// Most runs of writes that it holds; no limit but its size if none.
    pub write_cache_runs: Option<usize>,
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

/// What happens next inside the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Destaged writes are on the media.
    Settled,
    /// The volatile cache has taken or given what a command asks for; its place in the queue.
    Arrival(usize),
    /// The media begin something.
    Media,
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
    /// Until when nothing is destaged: the media had no space.
    refused_until: Time,
    /// Until when the layer does nothing by itself, for the same reason.
    idle_refused_until: Time,
    /// Until when everything that could happen has happened.
    clock: Time,
    /// Outstanding commands.
    pending: Pending,
    cache: WriteCache,
    ahead: Option<ReadAhead>,
    /// How long a read may go on before the buffer is full.
    buffer_time: Nanos,
    plan: Plan,
    answered: Vec<(CommandId, Time)>,
    settled: Vec<LbaExtent>,
    plants: Plants,
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
            refused_until: Time(0),
            idle_refused_until: Time(0),
            clock: Time(0),
            pending: Pending::new(interface.queue_depth),
            cache: WriteCache::new(
                interface.write_cache,
                interface.write_cache_runs,
                interface.write_cache_on,
            ),
            ahead: None,
            plan: Plan::default(),
            answered: Vec::new(),
            settled: Vec::new(),
            plants: Plants::default(),
        }
    }

    /// Plants a bug, for tests of the tests; does nothing without the feature `planted`.
    #[doc(hidden)]
    pub fn plant(&mut self, bug: Planted) {
        self.plants = Plants::only(bug);
        self.cache.plants = self.plants;
        self.pending.plants = self.plants;
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

    /// The translation layer as a raw shingled disk, if it is one: to set its read mode.
    pub fn raw_shingled(&mut self) -> Option<&mut skylight_layer::Swd> {
        self.layer.raw_shingled()
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
        self.work_until(self.host_time, &mut Alone);
        self.busy_until = self.busy_until.max(self.host_time);
    }

    /// What the drive does on its own until a command comes; a unit that has begun then ends.
    fn work_until(&mut self, until: Time, outside: &mut impl Outside) {
        while let Some((_, event)) = self.next_event().filter(|&(time, _)| time < until) {
            match event {
                Event::Settled => self.settle(),
                Event::Media => self.destage(self.cache.dirty().len(), outside),
                Event::Arrival(_) => debug_assert!(false, "no command is outstanding"),
            }
        }
        self.idle_until(until, outside);
    }

    /// What the layer does on its own until a command comes.
    pub(crate) fn idle_until(&mut self, until: Time, outside: &mut impl Outside) -> Idle {
        let Some(after) = self.layer.idle_after() else {
            return Idle::Nothing;
        };
        let begin = self.busy_until.max(self.quiet_since + after).max(self.idle_refused_until);
        if begin >= until {
            return Idle::Worked;
        }
        self.busy_until = begin;
        while self.busy_until < until {
            self.ahead = None;
            self.plan.clear();
            if self.layer.idle(&mut self.plan) == Idle::Nothing {
                if self.interface.park_when_idle {
                    self.media.park();
                }
                return Idle::Nothing;
            }
            if outside.executed(Origin::Idle, &self.plan, self.layer.as_mut()) == Moved::Refused {
                self.idle_refused_until = self.busy_until + RETRY;
                self.forget_all_places();
                return Idle::Worked;
            }
            self.answered.clear();
            self.busy_until = self.media.execute(&self.plan, self.busy_until, &mut self.answered);
        }
        Idle::Worked
    }

    /// Writes some of the `oldest` writes that the volatile cache holds to the media.
    fn destage(&mut self, oldest: usize, outside: &mut impl Outside) {
        let window = match self.interface.schedule {
            Schedule::Fifo => 1,
            Schedule::ShortestPositioningFirst => oldest.min(self.interface.queue_depth),
        };
        let start = self.busy_until.max(self.cache.held_since());
        let next = self.cache.next_of(window, (self.layer.as_ref(), &self.media), start);
        self.destage_from(next, false, outside);
    }

    /// Destages a write that the volatile cache holds: alone, or with what the layer takes beside it.
    fn destage_from(&mut self, next: usize, alone: bool, outside: &mut impl Outside) {
        let start = self.busy_until.max(self.cache.held_since());
        let dirty = self.cache.dirty();
        let queue = match alone {
            true => Queue { waiting: &dirty[next..=next], next: 0 },
            false => Queue { waiting: dirty, next },
        };
        let reversed: Vec<Command>;
        let queue = if self.plants.has(Planted::NewestFirst) {
            reversed = queue.waiting.iter().rev().copied().collect();
            Queue { waiting: &reversed, next: queue.waiting.len() - 1 - queue.next }
        } else {
            queue
        };
        self.ahead = None;
        self.plan.clear();
        self.layer.clock(start);
        self.layer.take(queue, &mut self.plan);
        debug_assert!(
            queue.is_kept_by(&self.plan),
            "writes that overlap leave in the order in which they came"
        );
        if outside.executed(Origin::Cache, &self.plan, self.layer.as_mut()) == Moved::Refused {
            self.refused_until = start + RETRY;
            self.idle_refused_until = self.refused_until;
            return self.forget_all_places();
        }
        self.answered.clear();
        self.busy_until = self.media.execute(&self.plan, start, &mut self.answered);
        self.quiet_since = self.quiet_since.max(self.busy_until);
        self.cache.leave(self.answered.iter().map(|&(id, _)| id), self.busy_until);
        self.forget_places(false);
    }

    /// The layer was taken up anew.
    fn forget_all_places(&mut self) {
        self.ahead = None;
        self.pending.forget_all_places();
        self.cache.forget_all_places();
    }

    /// Tries at once what the media had no space for.
    pub fn retry(&mut self) {
        self.refused_until = Time(0);
        self.idle_refused_until = Time(0);
    }

    /// What was on its way to the media is there.
    fn settle(&mut self) {
        let Self { cache, pending, settled, .. } = self;
        cache.settle(|extent| settled.push(extent));
        for extent in settled.drain(..) {
            pending.reconsider(extent, cache);
        }
    }

    fn destage_all(&mut self) {
        self.settle();
        while !self.cache.is_empty() {
            self.destage(self.cache.dirty().len(), &mut Alone);
            self.settle();
        }
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
        let watch = StopWatch::new(stop);
        let mut host = Host::new(batch, (depth, self.host_time), watch, submit_ns, complete_ns);
        loop {
            let event = self.next_event();
            let submits_at = host.submits_at();
            match (submits_at, event) {
                (Some(at), event) if event.is_none_or(|(time, _)| at <= time) => self.submit(&mut host, at),
                (None, _) if self.pending.commands().is_empty() => return Ok(host.submitted()),
                (_, Some((time, event))) => self.happen(time, event, &mut host),
                (_, None) => debug_assert!(false, "an outstanding command waits for something"),
            }
        }
    }

    /// The next command of the host comes.
    #[inline]
    fn submit(&mut self, host: &mut Host<'_>, at: Time) {
        let Some(index) = host.submit() else {
            return;
        };
        if let Some(ahead) = host.ahead_of(index, HINT_COMMANDS) {
            self.layer.hint(ahead.start);
        }
        if self.is_idle_before(at) {
            self.idle_until(at, host);
        }
        let through = host.batch.is_through(index);
        self.pending.submit(host.batch.command(index), through, at, &mut self.cache);
    }

    /// Whether nothing is outstanding and the media are free before `at`.
    #[inline]
    pub(crate) fn is_idle_before(&self, at: Time) -> bool {
        self.busy_until < at && self.pending.commands().is_empty()
    }

    /// When the layer would work on its own next, if nothing happens before; none if it never does.
    pub(crate) fn idle_begins(&self) -> Option<Time> {
        let after = self.layer.idle_after().filter(|_| self.pending.commands().is_empty())?;
        Some(self.busy_until.max(self.quiet_since + after).max(self.idle_refused_until))
    }

    /// A command that comes at `at`, when everything before has happened.
    pub(crate) fn take(&mut self, command: Command, through: bool, at: Time) {
        self.pending.submit(command, through, at, &mut self.cache);
    }

    /// What happens next inside the drive, and when, if nothing is submitted before.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<(Time, Event)> {
        if self.cache.is_on() {
            return self.next_event_with_cache();
        }
        let oldest = self.pending.arrivals().first()?;
        Some((self.busy_until.max(oldest.came), Event::Media))
    }

    fn next_event_with_cache(&self) -> Option<(Time, Event)> {
        let outlook = self.pending.outlook(self.accepting, &self.cache);
        let mut next = None;
        // Of those that come at once the first.
        let mut comes = |time: Time, event| {
            if next.is_none_or(|(earlier, _)| time < earlier) {
                next = Some((time, event));
            }
        };
        if let Some(at) = self.cache.leaving_at() {
            comes(at, Event::Settled);
        }
        if let Some((begin, index)) = outlook.arrival {
            comes((begin + self.interface.command_overhead).max(self.clock), Event::Arrival(index));
        }
        let held = (!self.cache.is_empty()).then(|| self.cache.held_since().max(self.refused_until));
        let never = Time(u64::MAX);
        let full_or_media = outlook.full.unwrap_or(never).min(outlook.media.unwrap_or(never));
        let since = full_or_media.min(held.unwrap_or(never));
        if since < never {
            comes(self.busy_until.max(since).max(self.clock), Event::Media);
        }
        next
    }

    #[inline]
    pub(crate) fn happen(&mut self, time: Time, event: Event, host: &mut impl Outside) {
        self.clock = time;
        match event {
            Event::Settled => self.settle(),
            Event::Arrival(index) => self.arrive(index, time, host),
            Event::Media => {
                self.busy_until = self.busy_until.max(time);
                if self.cache.is_on() {
                    return self.begin_with_cache(time, host);
                }
                self.serve(0, self.pending.come_by(time), host);
            }
        }
    }

    /// The volatile cache answers a command.
    fn arrive(&mut self, index: usize, time: Time, host: &mut impl Outside) {
        let Command { id, op, extent } = self.pending.commands()[index];
        let came = self.pending.arrivals()[index].came;
        if op == HostOp::Write {
            self.accepting = time;
            host.cached(id, self.cache.accept(extent, time));
            self.pending.reconsider(extent, &mut self.cache);
        }
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(time - came));
        self.answer(id, time + extra, host);
    }

    /// What the media begin with the volatile cache on: to make room for a write that waits for it, else the
    /// first command that needs them, else what the cache holds.
    fn begin_with_cache(&mut self, time: Time, host: &mut impl Outside) {
        let dirty = self.cache.dirty().len();
        let outlook = self.pending.outlook(self.accepting, &self.cache);
        let refused = time < self.refused_until;
        if outlook.full.is_some_and(|came| came <= time) {
            return match self.pending.without_room(&self.cache).filter(|_| refused) {
                Some(index) => self.refuse(index, time, host),
                None => self.destage(dirty, host),
            };
        }
        let queued = &self.pending.arrivals()[..self.pending.queued()];
        let waits = |arrival: &Arrival| arrival.served != Served::OnArrival && !arrival.blocked;
        let Some(first) = queued.iter().position(waits).filter(|&first| queued[first].came <= time) else {
            return self.destage(dirty, host);
        };
        let Command { id, op, extent } = self.pending.commands()[first];
        match queued[first].served {
            Served::Flush(number) => match self.cache.older_than(number) {
                0 => self.answer_flush(id, queued[first].came, time, host),
                _ if refused => self.refuse(first, time, host),
                older => self.destage(older, host),
            },
            // What the cache has of a read need not leave it: the bytes come from both.
            Served::Destaged if refused && op == HostOp::Read => self.serve(first, 1, host),
            Served::Destaged if refused => self.refuse(first, time, host),
            Served::Destaged => {
                let first = self.cache.first_to_leave(extent).unwrap_or(0);
                self.destage_from(first, true, host);
            }
            Served::OnArrival | Served::Media => {
                let come = |arrival: &&Arrival| {
                    arrival.served == Served::Media && arrival.came <= time && !arrival.blocked
                };
                let run = queued[first..].iter().take_while(come).count();
                self.serve(first, run, host);
            }
        }
    }

    /// Answers a command that waits for the media to take what the cache holds, while they have no space for it.
    fn refuse(&mut self, index: usize, time: Time, host: &mut impl Outside) {
        let (id, came) = (self.pending.commands()[index].id, self.pending.arrivals()[index].came);
        host.refused(id);
        self.answer(id, (came + self.interface.command_overhead).max(time), host);
    }

    /// All that came before a flush is on the media.
    fn answer_flush(&mut self, id: CommandId, came: Time, time: Time, host: &mut impl Outside) {
        let done = (self.accepting.max(came) + self.interface.command_overhead).max(time);
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(done - came));
        self.answer(id, done + extra, host);
    }

    /// Lets the layer take from a run of commands that have come, and executes its plan.
    #[inline]
    fn serve(&mut self, first: usize, run: usize, host: &mut impl Outside) {
        let next = self.choose(first, run);
        let command = self.pending.commands()[first + next];
        let ready = self.pending.arrivals()[first + next].at + self.interface.command_overhead;
        let free = self.busy_until;
        let start = self.reads_ahead_since(&command, ready).unwrap_or(free.max(ready));
        self.plan.clear();
        let waiting = &self.pending.commands()[first..first + run];
        self.layer.clock(start);
        self.layer.take(Queue { waiting, next }, &mut self.plan);
        let moved = host.executed(Origin::Host, &self.plan, self.layer.as_mut());
        self.answered.clear();
        let end = self.media.execute(&self.plan, start, &mut self.answered);
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(end.max(ready) - start));
        self.busy_until = free.max(end + extra);
        for index in 0..self.answered.len() {
            let (id, at) = self.answered[index];
            // What was read ahead is not answered before what the drive was still busy with.
            self.answer(id, at.max(ready).max(free) + extra, host);
        }
        match moved {
            Moved::Done => self.forget_places(command.op == HostOp::Trim),
            Moved::Refused => self.forget_all_places(),
        }
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

    /// The command of a run to serve next, by the drive's schedule.
    #[inline]
    fn choose(&mut self, first: usize, run: usize) -> usize {
        if run == 1 || self.interface.schedule == Schedule::Fifo {
            return 0;
        }
        let parts = (self.layer.as_ref(), &self.media);
        let overhead = self.interface.command_overhead;
        let (nearest, begins) = self.pending.nearest(parts, first..first + run, self.busy_until, overhead);
        self.media.next = begins;
        nearest
    }

    /// After a plan that changed the map, places may have to be looked up again.
    #[inline]
    fn forget_places(&mut self, trim: bool) {
        self.pending.forget_places(self.layer.as_ref(), &self.plan, trim);
        if self.cache.is_on() {
            self.cache.forget_places(self.layer.as_ref(), &self.plan, trim);
        }
    }

    /// Answers the host.
    #[inline]
    fn answer(&mut self, id: CommandId, at: Time, host: &mut impl Outside) {
        let (command, arrival) = self.pending.answer(id, at);
        let free = at + self.interface.host_gap;
        host.decided(id, self.layer.as_ref());
        host.answered(id, at, at - arrival.at, free);
        self.media.ledger.complete(command.op, command.extent.len);
        self.host_time = self.host_time.max(free);
        self.quiet_since = self.quiet_since.max(at);
    }
}
