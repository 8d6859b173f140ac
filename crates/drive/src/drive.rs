//! A drive in virtual time: the host's queue in front of a layer and its media.
//!
//! The next event is always the earliest of four: the host submits a command (`submitter.rs`), the volatile cache
//! completes one, destaged writes reach the media, the media start new work. The media either serve commands
//! in the drive's queue (`pending.rs`, `schedule.rs`) or destage cached writes: the layer takes some of them,
//! and every step of its plan gets its duration. Command overhead overlaps with media work while commands are
//! queued, and delays the media when commands come one at a time. This is why a synchronous write to the next
//! block of a log waits a whole revolution (Skylight, section 4.3). With the volatile write cache on, writes
//! complete on arrival and reach the media later; with look-ahead on, a sequential read finds the head
//! already at its data. After enough idle time, the layer does its background work.
//!
//! Conflicting commands take effect in the order of submission: `pending.rs` describes how for commands that
//! wait for the media or the volatile cache, `write_cache.rs` for cached writes.
//!
//! Invariants: events occur in order of time, so the host submits in the order of its log; a command
//! completes after its submission; the same commands from the same state give the same times to the
//! nanosecond. At queue depth 1 this also holds if the commands are split into batches; at higher depths the
//! queue drains at the end of a batch.

mod background;
mod destage_passes;
mod interface;
#[cfg(test)]
mod outcome_tests;
mod single_command;
mod zone_admission;

use skylight_command::{Command, CommandId, Failure, Op, Outcome};
use skylight_disk::{Disk, Lba, LbaExtent, Nanos, Sectors, Time};
use skylight_layer::{CacheUse, Layer, Plan, Queue};

use self::destage_passes::Pass;
use crate::batch::{Batch, BatchError};
use crate::conditions::Environment;
use crate::drive_counters::DriveCounters;
use crate::events::{Answered, ExecutionResult, NoHost, Observer, Origin};
use crate::jitter::Jitter;
use crate::media_timing::{FlashSpeed, Media};
use crate::owed_cleaning::OwedCleaning;
use crate::pending::{Arrival, Pending, Served};
#[doc(hidden)]
pub use crate::planted_bugs::Planted;
use crate::planted_bugs::Plants;
use crate::profile::Schedule;
use crate::stop_condition::{Stop, StopWatch};
pub use crate::submitter::BatchResult;
use crate::submitter::Host;
use crate::trace::HeadTrace;
use crate::write_cache::WriteCache;
pub use interface::HostInterface;

/// How many commands ahead the layer gets a hint: far enough to hide the memory latency.
const HINT_COMMANDS: usize = 24;

/// On a drive with zones, how many cached writes ahead of those among which the next one to leave is chosen it gets a hint.
const HINT_WRITES: usize = 8;

/// A read that continues into the buffer: its next host address, and since when it has been reading.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReadAhead {
    next: Lba,
    since: Time,
}

/// The kinds of events inside the drive.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// Destaged writes have reached the media.
    Destaged,
    /// The volatile cache completes the command with this index in the queue.
    CacheCompletion(usize),
    /// The media start new work.
    Media,
}

/// See the module documentation.
///
/// More than 15 fields: the clocks of the event loop are read together on every event.
pub struct Drive {
    pub(crate) media: Media,
    layer: Box<dyn Layer>,
    interface: HostInterface,
    jitter: Option<Jitter>,
    /// The media are busy until then.
    pub(crate) busy_until: Time,
    /// When the host submits its next command, or when its pause ended.
    pub(crate) host_time: Time,
    /// The drive has had nothing to do since then.
    pub(crate) idle_since: Time,
    /// The cache interface is busy with earlier writes until then.
    cache_busy_until: Time,
    /// No destaging until then: the media had no space.
    refused_until: Time,
    /// Why the media refused.
    refused_by: Failure,
    /// No background work of the layer until then, for the same reason.
    idle_refused_until: Time,
    /// All events up to this time have occurred.
    clock: Time,
    /// The layer's time when virtual time began.
    epoch: Nanos,
    /// Outstanding commands.
    pending: Pending,
    cache: WriteCache,
    pub(crate) ahead: Option<ReadAhead>,
    /// How long a read can continue until the buffer is full.
    buffer_time: Nanos,
    plan: Plan,
    answered: Vec<Answered>,
    /// The commands of the last batch that were not just done.
    results: Vec<BatchResult>,
    destaged: Vec<LbaExtent>,
    /// The runs of cached writes that were chosen with the last one.
    pass: Pass,
    /// Random numbers used so far.
    draws: u64,
    plants: Plants<Planted>,
    /// What the host meets besides the drive; `None` under ideal conditions.
    pub(crate) environment: Option<Box<Environment>>,
}

impl Drive {
    pub(crate) fn assemble(
        disk: Disk,
        flash: Option<FlashSpeed>,
        mut layer: Box<dyn Layer>,
        interface: HostInterface,
        jitter: Option<Jitter>,
    ) -> Self {
        let (zones, owed) = (zone_admission::of(layer.as_mut()), OwedCleaning::of(layer.as_ref()));
        let media = Media::new(disk, flash, interface.positioning_window);
        Self {
            buffer_time: media.outer_transfer_time(interface.read_buffer),
            media,
            layer,
            interface,
            jitter,
            busy_until: Time(0),
            host_time: Time(0),
            idle_since: Time(0),
            cache_busy_until: Time(0),
            refused_until: Time(0),
            refused_by: Failure::NoSpace,
            idle_refused_until: Time(0),
            clock: Time(0),
            epoch: Nanos(0),
            pending: Pending::new(interface.queue_depth, zones),
            cache: WriteCache::new(
                interface.write_cache,
                interface.write_cache_runs,
                interface.write_cache_on,
                zones,
            )
            .with_owed_cleaning(owed),
            ahead: None,
            plan: Plan::default(),
            answered: Vec::new(),
            results: Vec::new(),
            destaged: Vec::new(),
            pass: Pass::default(),
            draws: 0,
            plants: Plants::default(),
            environment: None,
        }
    }

    /// Plants a bug, for tests of the tests.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    pub fn plant(&mut self, bug: Planted) {
        self.plants = Some(bug).into();
        self.cache.plants = self.plants;
        self.pending.plants = self.plants;
    }

    /// Host-visible capacity.
    pub fn capacity(&self) -> Sectors {
        self.layer.capacity()
    }

    /// Virtual time: when the host submits its next command.
    pub fn now(&self) -> Time {
        self.host_time
    }

    /// Counters since power-on.
    pub fn counters(&self) -> &DriveCounters {
        &self.media.counters
    }

    /// Fill level of the persistent cache.
    pub fn cache_use(&self) -> CacheUse {
        self.layer.cache_use()
    }

    /// The platters and the arm.
    pub fn disk(&self) -> &Disk {
        &self.media.disk
    }

    /// The translation layer, for the oracle and for figures.
    pub fn layer(&self) -> &dyn Layer {
        self.layer.as_ref()
    }

    /// The same, for what it offers ([`skylight_layer::capabilities`]) and to close its image.
    pub fn layer_mut(&mut self) -> &mut dyn Layer {
        self.layer.as_mut()
    }

    /// Has the layer count its time from so much before virtual time began: behind a drive that keeps data, since the start of
    /// the UNIX epoch.
    pub fn set_epoch(&mut self, before: Nanos) {
        self.epoch = before;
    }

    /// Records the next platter accesses, up to `rows`.
    pub fn start_trace(&mut self, rows: usize) {
        self.media.trace = Some(HeadTrace::new(rows));
    }

    /// Ends the trace and returns it.
    pub fn take_trace(&mut self) -> Option<HeadTrace> {
        self.media.trace.take()
    }

    /// Whether the volatile write cache is on.
    pub fn write_cache(&self) -> bool {
        self.cache.is_on()
    }

    /// Switches the volatile write cache, after destaging its contents. Returns the resulting state: a drive
    /// without a cache stays off.
    pub fn set_write_cache(&mut self, on: bool) -> bool {
        if let Some(fixed) = self.fixed_write_cache() {
            return fixed;
        }
        self.destage_all();
        self.host_time = self.host_time.max(self.busy_until);
        self.cache.switch(on);
        self.cache.is_on()
    }

    /// Replaces the volatile cache by one that is on, of `size` if the drive has none, or switches it off.
    pub(crate) fn fix_write_cache(&mut self, on: bool, size: Sectors) {
        self.set_write_cache(on);
        if on && !self.cache.is_on() {
            let zones = zone_admission::of(self.layer.as_mut());
            self.cache = WriteCache::new(size, self.interface.write_cache_runs, true, zones)
                .with_owed_cleaning(OwedCleaning::of(self.layer.as_ref()));
            self.cache.plants = self.plants;
        }
    }

    /// Maximum number of commands in the drive's queue.
    pub(crate) fn queue_depth(&self) -> usize {
        self.interface.queue_depth
    }

    /// Limits the drive's queue to `depth`; a command that the host holds back takes `turnaround` to arrive.
    pub(crate) fn limit_queue(&mut self, depth: usize, turnaround: Nanos) {
        self.pending.limit(depth, turnaround);
    }

    /// Whether look-ahead is on.
    pub fn look_ahead(&self) -> bool {
        self.interface.look_ahead
    }

    /// Switches look-ahead. Returns the resulting state: a drive without a buffer stays off.
    pub fn set_look_ahead(&mut self, on: bool) -> bool {
        if self.look_ahead_is_fixed() {
            return self.interface.look_ahead;
        }
        self.interface.look_ahead = on && self.interface.read_buffer.get() > 0;
        self.ahead = None;
        self.interface.look_ahead
    }

    /// Secure erase: discards all data. It takes no time and moves no head.
    pub fn erase(&mut self) {
        self.cache.clear();
        self.ahead = None;
        self.layer.erase();
    }

    /// Leaves the drive idle for `duration`, in which it destages and does background work.
    pub fn pause(&mut self, duration: Nanos) {
        self.host_time += duration;
        self.work_until(self.host_time, &mut NoHost);
        self.busy_until = self.busy_until.max(self.host_time);
    }

    /// Runs a batch with `depth` outstanding commands. Each completion lets the host submit the next command.
    /// `submit_ns` and `complete_ns` are as long as the batch and receive the times of each command.
    ///
    /// # Errors
    /// If a command is invalid for this drive; then no command has run.
    pub fn run(
        &mut self,
        batch: &Batch<'_>,
        depth: usize,
        submit_ns: &mut [u64],
        complete_ns: &mut [u64],
    ) -> Result<(), BatchError> {
        self.run_until(batch, depth, None, submit_ns, complete_ns).map(|_| ())
    }

    /// As [`Drive::run`], but the host stops submitting once `stop` holds. Returns the number of commands
    /// that ran, the first ones of the batch.
    ///
    /// # Errors
    /// If a command or the stop condition is invalid for this drive; then no command has run.
    pub fn run_until(
        &mut self,
        batch: &Batch<'_>,
        depth: usize,
        stop: Option<Stop>,
        submit_ns: &mut [u64],
        complete_ns: &mut [u64],
    ) -> Result<usize, BatchError> {
        batch.check(self.capacity(), depth, submit_ns.len(), complete_ns.len())?;
        if let Some(invalid) = stop.filter(|stop| !stop.is_valid()) {
            return Err(BatchError::Stop(invalid.count, invalid.within));
        }
        let watch = StopWatch::new(stop);
        let begin = (depth, self.host_time, self.link());
        let mut host = Host::new(batch, begin, watch, submit_ns, complete_ns);
        loop {
            let event = self.next_event();
            let submits_at = host.submits_at();
            match (submits_at, event) {
                (Some(at), event) if event.is_none_or(|(time, _)| at <= time) => self.submit(&mut host, at),
                (None, _) if self.pending.is_empty() => return Ok(self.finish(host)),
                (_, Some((time, event))) => self.process(time, event, &mut host),
                (_, None) => debug_assert!(false, "an outstanding command waits for an event"),
            }
        }
    }

    /// Submits the host's next command.
    #[inline]
    fn submit(&mut self, host: &mut Host<'_>, at: Time) {
        let Some(index) = host.submit() else {
            return;
        };
        if let Some(ahead) = host.ahead_of(index, HINT_COMMANDS) {
            self.layer.hint(ahead);
            self.cache.hint(ahead);
        }
        if self.is_idle_before(at) {
            self.idle_until(at, host);
        }
        if self.pending.is_empty() {
            self.wake(at);
        }
        let command = host.batch.command(index, || self.capacity());
        let served = match self.swallows(command.op) {
            true => Served::OnArrival,
            false => self.pending.served(&command, &mut self.cache),
        };
        self.pending.submit(served, command, at);
    }

    /// Whether no command is outstanding and the media are free before `at`.
    #[inline]
    pub(crate) fn is_idle_before(&self, at: Time) -> bool {
        self.busy_until < at && self.pending.is_empty()
    }

    /// When background work starts if nothing else happens; `None` if the layer has none.
    pub(crate) fn idle_begins(&self) -> Option<Time> {
        let after = self.layer.idle_after().filter(|_| self.pending.is_empty())?;
        Some(self.busy_until.max(self.idle_since + after).max(self.idle_refused_until))
    }

    /// Takes a command at time `at`; all events before have occurred.
    pub(crate) fn take(&mut self, command: Command, at: Time) {
        let served = self.pending.served(&command, &mut self.cache);
        self.pending.submit(served, command, at);
    }

    /// The next event inside the drive and its time, provided that no command is submitted before.
    #[inline]
    pub(crate) fn next_event(&self) -> Option<(Time, Event)> {
        if self.cache.is_on() {
            return self.next_event_with_cache();
        }
        let oldest = self.pending.oldest()?;
        Some((self.busy_until.max(oldest.queued_at), Event::Media))
    }

    fn next_event_with_cache(&self) -> Option<(Time, Event)> {
        let outlook = self.pending.outlook(self.cache_busy_until, &self.cache);
        let mut next = None;
        // Of simultaneous events, the first wins.
        let mut propose = |time: Time, event| {
            if next.is_none_or(|(earlier, _)| time < earlier) {
                next = Some((time, event));
            }
        };
        if let Some(at) = self.cache.destaged_at() {
            propose(at, Event::Destaged);
        }
        if let Some((begin, index)) = outlook.arrival {
            let ready = begin + self.interface.overhead(self.pending.command(index));
            propose(ready.max(self.clock), Event::CacheCompletion(index));
        }
        let rest = self.interface.write_back_after.map_or(Time(0), |after| self.cache_busy_until + after);
        let destage =
            (!self.cache.is_empty()).then(|| self.cache.nonempty_since().max(self.refused_until).max(rest));
        let never = Time(u64::MAX);
        let full_or_media = outlook.full.unwrap_or(never).min(outlook.media.unwrap_or(never));
        let since = full_or_media.min(destage.unwrap_or(never));
        if since < never {
            propose(self.busy_until.max(since).max(self.clock), Event::Media);
        }
        next
    }

    #[inline]
    pub(crate) fn process(&mut self, time: Time, event: Event, host: &mut impl Observer) {
        self.clock = time;
        match event {
            Event::Destaged => self.finish_destaging(),
            Event::CacheCompletion(index) => self.complete_from_cache(index, time, host),
            Event::Media => {
                self.busy_until = self.busy_until.max(time);
                if self.cache.is_on() {
                    return self.begin_with_cache(time, host);
                }
                self.serve(0, self.pending.queued_by(time), host);
            }
        }
    }

    /// The volatile cache completes a command.
    fn complete_from_cache(&mut self, index: usize, time: Time, host: &mut impl Observer) {
        let command = *self.pending.command(index);
        let Command { id, op, extent, .. } = command;
        let came = self.pending.arrival(index).queued_at;
        let takes_room = op == Op::Write && self.cache.takes_room(extent, self.layer.as_ref());
        let (time, admitted) = self.admit(&command, time, host);
        if op == Op::Write && admitted.is_ok() {
            self.cache_busy_until = time;
            host.cached(id, self.cache.accept(extent, time));
            self.cache.note_accepted(extent, takes_room, self.layer.as_ref());
            self.pending.reconsider(extent, &mut self.cache);
        }
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(time - came));
        let outcome = admitted.map_or_else(Outcome::Failed, |()| Outcome::Done);
        self.complete(id, time + extra, outcome, host);
    }

    /// Chooses the next media work with the volatile cache on. A write that waits for cache space comes
    /// first, then the first command that needs the media, then destaging.
    fn begin_with_cache(&mut self, time: Time, host: &mut impl Observer) {
        let dirty = self.cache.dirty().len();
        let outlook = self.pending.outlook(self.cache_busy_until, &self.cache);
        let refused = time < self.refused_until;
        if outlook.full.is_some_and(|came| came <= time) {
            return match self.pending.first_without_space(&self.cache).filter(|_| refused) {
                Some(index) => self.refuse(index, time, host),
                None => self.destage(dirty, host),
            };
        }
        let queued = &self.pending.arrivals()[..self.pending.queued()];
        let waits = |arrival: &Arrival| arrival.served != Served::OnArrival && !arrival.blocked;
        let Some(first) = queued.iter().position(waits).filter(|&first| queued[first].queued_at <= time)
        else {
            return self.destage(dirty, host);
        };
        let Command { id, op, .. } = *self.pending.command(first);
        match queued[first].served {
            Served::Flush(number) => match self.cache.older_than(number) {
                0 => self.complete_flush(id, queued[first].queued_at, time, host),
                _ if refused => self.refuse(first, time, host),
                older => self.destage(older, host),
            },
            // A read need not destage what the cache has of it: its bytes come from both.
            Served::Destaged if refused && op == Op::Read => self.serve(first, 1, host),
            Served::Destaged if refused => self.refuse(first, time, host),
            Served::Destaged => {
                let touched = self.pending.touched(self.pending.command(first));
                let first = self.cache.first_to_destage(touched).unwrap_or(0);
                self.destage_from(first, true, host);
            }
            Served::OnArrival | Served::Media => {
                let come = |arrival: &&Arrival| {
                    arrival.served == Served::Media && arrival.queued_at <= time && !arrival.blocked
                };
                let run = queued[first..].iter().take_while(come).count();
                self.serve(first, run, host);
            }
        }
    }

    /// Completes a command that waits for destaging while the media have no space for it.
    fn refuse(&mut self, index: usize, time: Time, host: &mut impl Observer) {
        let (id, came) = (self.pending.command(index).id, self.pending.arrival(index).queued_at);
        let at = (came + self.interface.command_overhead).max(time);
        self.complete(id, at, Outcome::Failed(self.refused_by), host);
    }

    /// Completes a flush: all writes that completed before it are on the media.
    fn complete_flush(&mut self, id: CommandId, came: Time, time: Time, host: &mut impl Observer) {
        let done = (self.cache_busy_until.max(came) + self.interface.command_overhead).max(time);
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(done - came));
        self.complete(id, done + extra, Outcome::Done, host);
    }

    /// Lets the layer take commands from a run in the queue, and executes its plan.
    #[inline]
    fn serve(&mut self, first: usize, run: usize, host: &mut impl Observer) {
        let next = self.choose(first, run);
        let command = *self.pending.command(first + next);
        let arrival = *self.pending.arrival(first + next);
        // A command that the link held back has not been decoded meanwhile.
        let arrived = if self.environment.is_some() { arrival.queued_at } else { arrival.submitted_at };
        let ready = arrived + self.interface.overhead(&command);
        self.give_way(self.busy_until.max(ready));
        let free = self.busy_until;
        let start = self.reading_ahead_since(&command, ready).unwrap_or(free.max(ready));
        self.plan.clear();
        let waiting = &self.pending.commands()[first..first + run];
        self.layer.clock(start + self.epoch);
        self.layer.take(Queue { waiting, next }, &mut self.plan);
        let moved = host.executed(Origin::Host, &self.plan, self.layer.as_mut());
        self.answered.clear();
        let end = self.media.execute(&self.plan, start, &mut self.answered);
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(end.max(ready) - start));
        self.busy_until = free.max(end + extra);
        for index in 0..self.answered.len() {
            let Answered { at, id, outcome } = self.answered[index];
            let outcome = match moved {
                ExecutionResult::Done => outcome,
                ExecutionResult::Failed(failure) | ExecutionResult::Refused(failure) => {
                    Outcome::Failed(failure)
                }
            };
            // Data read ahead does not complete a command before the media finish their earlier work.
            self.complete(id, at.max(ready).max(free) + extra, outcome, host);
        }
        match moved {
            ExecutionResult::Done | ExecutionResult::Failed(_) => {
                self.invalidate_locations(command.op == Op::Trim)
            }
            ExecutionResult::Refused(_) => self.invalidate_all_locations(),
        }
        let continues = self.interface.look_ahead && command.op == Op::Read;
        self.ahead = continues.then(|| ReadAhead { next: command.extent.end(), since: end });
    }

    /// Since when the heads have been reading the data of a command, if it continues the last read and the
    /// buffer is not full yet.
    #[inline]
    fn reading_ahead_since(&self, command: &Command, ready: Time) -> Option<Time> {
        let ahead = self.ahead?;
        let follows = command.op == Op::Read && command.extent.start == ahead.next;
        (follows && ready <= ahead.since + self.buffer_time).then_some(ahead.since)
    }

    /// Index in a run of the command to serve next, by the drive's schedule.
    #[inline]
    fn choose(&mut self, first: usize, run: usize) -> usize {
        if run == 1 || self.interface.schedule == Schedule::Fifo {
            return 0;
        }
        let parts = (self.layer.as_ref(), &self.media);
        let overhead = self.interface.command_overhead;
        let nearest = self.pending.nearest(parts, first..first + run, self.busy_until, overhead);
        self.media.next = *self.pending.start_of_chosen();
        nearest
    }

    /// Invalidates the locations that a plan may have changed.
    #[inline]
    fn invalidate_locations(&mut self, trim: bool) {
        self.pending.invalidate_locations(self.layer.as_ref(), &self.plan, trim);
        if self.cache.is_on() {
            self.cache.invalidate_locations(self.layer.as_ref(), &self.plan, trim);
        }
    }

    /// Completes a command towards the host.
    ///
    /// Its parts come one by one: a structure would be read in wider words than it has just been written in, for which a
    /// processor waits until the writes have left its store buffer (a tenth of a command).
    #[inline]
    fn complete(&mut self, id: CommandId, at: Time, outcome: Outcome, host: &mut impl Observer) {
        let command = self.pending.complete(id, at);
        let (seen, free) = self.seen_by_host(at, self.interface.host_gap);
        let outcome = host.decided(id, outcome, self.layer.as_mut());
        host.answered(Answered { id, at: seen, outcome }, free);
        self.media.counters.complete(command.op, command.extent.len);
        self.host_time = self.host_time.max(free);
        self.idle_since = self.idle_since.max(at);
    }
}
