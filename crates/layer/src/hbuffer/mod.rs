//! H-Buffer: a host makes an ordinary block device of a drive with zones.
//!
//! A [`policy`] decides for each write which way it goes: directly to its home zone, to the persistent cache of a host-aware
//! drive, or to a circular log in some zones of the drive. A map in memory says what is in the log. Cleaning takes a home zone out
//! of it, in idle time, when the policy says so, and when the log needs space. The format on the drive, the life of a write and what
//! is durable when are in `docs/hbuffer.md`.
//!
//! * [`device`]: what the buffer asks of the drive, and who does it.
//! * [`policy`]: what a policy sees and answers; the static ones. [`streams`]: the sequential streams that it sees.
//! * [`policies`]: the others, by name.
//! * [`layout`]: the sizes, and which zones of the drive are for what.
//! * [`mod@format`]: the log's entries and the checkpoints of the map, as bytes.
//! * `writing`, `reading`, `cleaning`, `space`: what happens to writes and reads, to home zones, and to the zones of the log.
//!   `pass_plan`: what is cleaned together. `unreadable_sectors`: how cleaning goes on where something cannot be read.
//! * `contents`, `log`, `view`: the map with what each zone has, where the log is, and what is known of the drive's zones.
//! * [`recovery`]: the state of a buffer from what is on its drive.
//! * `status`: what a server asks: where something lies, whether zones are being cleaned.
//!
//! Invariants, each of which a recovery needs, behind a cut at any command to the drive:
//! * A zone is emptied only when all that says so that nothing in it is needed is durable.
//! * A home zone goes to another place, or out of the log, by a record that is written when its data is durable there.
//! * What a checkpoint says is durable before it, and it is durable before anything relies on it.
//! * A write goes home only where the log has nothing of its extent, so no older data can come back over it.
//! * After a write to the log that failed, which may be there all the same, nothing is written before a checkpoint from which
//!   the log goes on behind it.
//!
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), sections 4 and 5.

mod cleaning;
mod contents;
pub mod device;
pub mod format;
pub mod layout;
mod log;
mod pass_plan;
pub mod policies;
pub mod policy;
mod reading;
pub mod recovery;
mod space;
mod status;
pub mod streams;
mod unreadable_sectors;
mod view;
mod writing;

use std::collections::VecDeque;
use std::ops::Range;

use skylight_command::{Command, Failure, Op, Outcome};
use skylight_disk::{Lba, LbaExtent, Nanos, Sectors, Time};

use crate::capabilities::zoned::ZoneLayout;
use crate::plan::{Idle, Queue};
use cleaning::Pass;
use contents::Contents;
use device::{Action, Data, Executor};
use format::{Identity, Kind};
use layout::{Places, Sizes, SpecError, Tuning};
use log::Log;
use policy::{Fill, Occasion, Policy, State};
use streams::Streams;
use view::ZoneView;

/// When a policy is asked again that had nothing to clean. Chosen: a host is not woken often, and zones wait for seconds.
const LOOK_AGAIN: Nanos = Nanos(1_000_000_000);

/// What a buffer has done since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Host sectors that went home in order.
    pub direct: u64,
    /// Host sectors that went home out of order, to the drive's cache.
    pub drive_cache: u64,
    /// Host sectors that went to the log.
    pub buffered: u64,
    /// Sectors of headers and records.
    pub headers: u64,
    /// Home zones that were cleaned by writing on behind what they had.
    pub appended_zones: u64,
    /// Home zones that were rewritten to another zone.
    pub rewritten_zones: u64,
    /// Sectors that cleaning wrote.
    pub cleaned: u64,
    /// Checkpoints.
    pub checkpoints: u64,
    /// Sectors of checkpoints.
    pub checkpointed: u64,
}

/// Why there is no new buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NewError {
    /// The drive cannot have this buffer.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The drive refuses what a new buffer takes.
    #[error("the drive cannot be prepared for a host buffer: {0}")]
    Drive(#[from] Failure),
}

/// Zones without data into which home zones are rewritten.
#[derive(Clone, Debug, Default)]
struct Spares {
    /// They can be emptied and written.
    free: VecDeque<u32>,
    /// They will be free when the records that took their data away are durable.
    given_up: Vec<u32>,
}

/// See the module documentation.
///
/// More than 15 fields: the parts of the buffer, each with a type of its own, and what one command leaves for the next.
pub struct HBuffer {
    sizes: Sizes,
    tuning: Tuning,
    identity: Identity,
    view: ZoneView,
    policy: Box<dyn Policy>,
    contents: Contents,
    log: Log,
    spares: Spares,
    pass: Option<Pass>,
    /// Home zones that are to be cleaned ahead of need by now.
    owed: f64,
    streams: Streams,
    last_command: Option<Time>,
    /// Where on the drive the host's last read ended.
    read_to: Lba,
    counters: Counters,
    /// What the log says has to go on from a checkpoint before anything else is written.
    needs_checkpoint: bool,
    /// A flush that failed, of which the host does not know yet.
    failed_flush: Option<Failure>,
    /// Why the drive refused, or could not do, the last action that failed.
    last_error: Option<Failure>,
}

impl HBuffer {
    /// A new buffer on a drive whose zones with a write pointer are empty. It is on the drive when this returns. The identity has to
    /// be random.
    ///
    /// # Errors
    /// When the drive cannot have this buffer, is not empty, or fails.
    pub fn new(
        (sizes, tuning, identity): (Sizes, Tuning, Identity),
        layout: ZoneLayout,
        drive: &mut dyn Executor,
        policy: Box<dyn Policy>,
    ) -> Result<Self, NewError> {
        let mut buffer = Self::over((sizes, tuning, identity), layout, policy)?;
        buffer.refresh(0..layout.zones, drive)?;
        let written = (layout.conventional..layout.zones).filter(|&zone| !buffer.view.of(zone).is_empty());
        let written = written.count() as u32;
        if written > 0 {
            return Err(SpecError::Written(written).into());
        }
        if layout.conventional > 0 {
            // No reset empties these, so an earlier buffer's checkpoints may be there.
            for place in buffer.contents.places.checkpoints {
                let data = Data::Bytes(vec![0; format::HEADER.bytes() as usize]);
                buffer.act(
                    &Action::Write { extent: LbaExtent::new(place.start, format::HEADER), data },
                    drive,
                )?;
            }
            buffer.flush(drive)?;
        }
        buffer.checkpoint(drive)?;
        Ok(buffer)
    }

    /// A buffer with nothing in it, over a drive of which it knows nothing.
    fn over(
        (sizes, tuning, identity): (Sizes, Tuning, Identity),
        layout: ZoneLayout,
        policy: Box<dyn Policy>,
    ) -> Result<Self, SpecError> {
        let places = Places::new(&layout, sizes, tuning.entry_max)?;
        let mut buffer = Self {
            view: ZoneView::new(layout),
            log: Log::new(sizes.zones, places.log, places.home),
            contents: Contents::new(places, layout, sizes.zones),
            policy,
            sizes,
            tuning,
            identity,
            spares: Spares::default(),
            pass: None,
            owed: 0.0,
            streams: Streams::default(),
            last_command: None,
            read_to: Lba(0),
            counters: Counters::default(),
            needs_checkpoint: true,
            failed_flush: None,
            last_error: None,
        };
        buffer.find_spares();
        Ok(buffer)
    }

    /// The zones of the pool that have no home zone are spares.
    fn find_spares(&mut self) {
        let Places { pool, pool_zones, .. } = self.contents.places;
        let mut is_spare = vec![true; pool_zones as usize];
        for home in self.contents.homes.iter().filter(|home| home.zone >= pool) {
            is_spare[(home.zone - pool) as usize] = false;
        }
        let zones = is_spare.iter().zip(pool..).filter_map(|(&is_spare, zone)| is_spare.then_some(zone));
        self.spares = Spares { free: zones.collect(), given_up: Vec::new() };
    }

    /// Sectors of the host's address space.
    pub fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.contents.places.homes) * self.contents.places.home.get())
    }

    /// Sectors of a home zone, and how many home zones at the start of the address space have no write pointer.
    pub fn home_zones(&self) -> (Sectors, u32) {
        (self.contents.places.home, self.contents.places.conventional)
    }

    /// What the drive is divided into.
    pub fn sizes(&self) -> Sizes {
        self.sizes
    }

    /// What it has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The drive's zones.
    pub fn layout(&self) -> &ZoneLayout {
        &self.view.layout
    }

    /// Sectors of a zone of the drive before its write pointer, as far as the buffer knows; all where it has none.
    pub fn written_of(&self, zone: u32) -> Sectors {
        self.view.written(zone)
    }

    /// Whether the drive's cache has data of a zone, as far as the buffer knows.
    pub fn is_non_sequential(&self, zone: u32) -> bool {
        self.view.of(zone).non_sequential
    }

    /// How full it is.
    pub fn fill(&self) -> Fill {
        view::fill(&self.contents, &self.log)
    }

    /// What a recovery would scan: sectors of the log behind the last checkpoint.
    pub fn since_checkpoint(&self) -> Sectors {
        self.log.since_checkpoint
    }

    /// The name of its policy.
    pub fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// Another policy from now on, which has seen nothing; the streams that were seen are forgotten too.
    pub fn set_policy(&mut self, policy: Box<dyn Policy>) {
        self.policy = policy;
        self.streams = Streams::default();
    }

    /// Asks the policy something.
    fn ask<T>(&mut self, now: Option<Time>, question: impl FnOnce(&mut dyn Policy, &State<'_>) -> T) -> T {
        let Self { policy, view, contents, log, pass, streams, last_command, .. } = self;
        let cleaning = |home| pass.as_ref().is_some_and(|pass| pass.has(home));
        let homes = view::Homes { contents, view, log, cleaning: &cleaning };
        let idle = match (now, *last_command) {
            (Some(now), Some(last)) => now - last,
            _ => Nanos(0),
        };
        let state = State {
            now,
            idle,
            layout: &view.layout,
            counts: view.counts,
            fill: view::fill(contents, log),
            streams,
            homes: &homes,
        };
        question(policy.as_mut(), &state)
    }

    /// Does an action; one that fails may have changed its zone.
    fn act(&mut self, action: &Action, drive: &mut dyn Executor) -> Result<(), Failure> {
        let done = drive.execute(action);
        self.last_error = done.err().or(self.last_error);
        let zone = match action {
            Action::Write { extent, .. } => {
                if done.is_ok() {
                    self.view.wrote(*extent);
                }
                self.view.layout.zone_of(extent.start)
            }
            Action::Reset { zone } => {
                if done.is_ok() {
                    self.view.emptied(*zone);
                }
                *zone
            }
            _ => return done,
        };
        if done.is_err() {
            // A drive that does not report either will fail what comes next.
            let _ = self.refresh(zone..zone + 1, drive);
        }
        done
    }

    /// Has zones reported.
    fn refresh(&mut self, zones: Range<u32>, drive: &mut dyn Executor) -> Result<(), Failure> {
        drive.report(zones, &mut |zone, descriptor| self.view.reported(zone, &descriptor))
    }

    /// Has those zones reported that are out of order in the drive: it may have cleaned them.
    fn refresh_non_sequential(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let zones: Vec<u32> = self.view.non_sequential.iter().copied().collect();
        zones.into_iter().try_for_each(|zone| self.refresh(zone..zone + 1, drive))
    }

    /// Empties a zone, if there is anything in it.
    fn reset(&mut self, zone: u32, drive: &mut dyn Executor) -> Result<(), Failure> {
        if self.view.of(zone).is_empty() { Ok(()) } else { self.act(&Action::Reset { zone }, drive) }
    }

    /// Everything that was written is durable.
    fn flush(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        self.flush_drive(drive)?;
        // What a checkpoint has to say that was not written is not durable.
        if !self.needs_checkpoint {
            self.spares.free.extend(self.spares.given_up.drain(..));
        }
        Ok(())
    }

    /// Has the drive flush. What one that fails was for may be lost, though the next one succeeds: the log goes on from a checkpoint
    /// then, what is being cleaned begins anew, and the host's next flush fails.
    fn flush_drive(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let done = self.act(&Action::Flush, drive);
        if let Err(failure) = done {
            self.failed_flush = Some(failure);
            self.needs_checkpoint = true;
            self.cancel_pass(drive);
        }
        done
    }

    /// A flush for a write or trim of the host with FUA: what it promises may rest on what an earlier one that failed has lost.
    fn flush_fua(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        self.flush(drive)?;
        self.failed_flush.map_or(Ok(()), Err)
    }

    /// A flush of the host: it fails once for those that failed before it.
    fn flush_host(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let done = self.flush(drive);
        self.failed_flush.take().map_or(done, Err)
    }

    /// Writes the checkpoint that has to come first, if one has.
    fn start(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        if self.needs_checkpoint { self.checkpoint(drive) } else { Ok(()) }
    }

    /// How much of a part of a home zone, from its start on, was ever written at home.
    fn written_home(&self, home: u32, part: LbaExtent) -> Sectors {
        let known = self.view.of(self.contents.homes[home as usize].zone);
        // Where a host-aware drive's cache has data of a zone, its write pointer does not say where data ends.
        if known.non_sequential {
            return part.len;
        }
        let (_, offset) = self.contents.place_of(part.start);
        Sectors(known.written.get().saturating_sub(offset.get())).min(part.len)
    }

    /// What the log has of an extent is of no use any more, nor is a home zone that lies in it as a whole.
    fn trim(&mut self, extent: LbaExtent, drive: &mut dyn Executor) -> Result<(), Failure> {
        let mut homes = Vec::new();
        self.contents.visit_homes(extent, |home, part| homes.push((home, part)));
        homes.iter().for_each(|&(home, _)| self.cancel_cleaning_of(home));
        // An extent that loses its middle is two.
        self.make_space(format::HEADER, 1, drive)?;
        if self.contents.has(extent) {
            let change = |buffer: &mut Self| buffer.contents.remove(extent);
            self.record(Kind::Trimmed(extent), change, drive)?;
        }
        for (home, part) in homes {
            if part.len == self.contents.places.home && !self.contents.is_conventional(home) {
                self.reset(self.contents.homes[home as usize].zone, drive)?;
            }
        }
        Ok(())
    }

    fn take_other(&mut self, command: &Command, drive: &mut dyn Executor) -> Result<(), Failure> {
        match command.op {
            Op::Read => self.read(command, drive),
            Op::Trim => {
                let trimmed = self.trim(command.extent, drive);
                if command.flags.fua { trimmed.and_then(|()| self.flush_fua(drive)) } else { trimmed }
            }
            Op::Flush => self.flush_host(drive),
            _ => Err(Failure::Unsupported),
        }
    }

    /// Takes the next of the commands that wait, and writes that can go along; answers those.
    pub fn take(&mut self, queue: Queue<'_>, drive: &mut dyn Executor) {
        let command = queue.next_command();
        if command.op == Op::Write {
            self.take_writes(queue, drive);
        } else {
            let done = self.take_other(&command, drive);
            drive.complete(command.id, done.map_or_else(Outcome::Failed, |()| Outcome::Done));
        }
        self.last_command = drive.now();
    }

    /// How long after the last command [`HBuffer::idle`] has something to do; `None` for never.
    pub fn idle_after(&self) -> Option<Nanos> {
        self.tuning.idle_after
    }

    /// After [`Idle::Nothing`]: when to ask again for what the policy left for later, if no command comes; `None` where nothing is left.
    pub fn idle_again_after(&self) -> Option<Nanos> {
        (self.tuning.idle_after.is_some() && self.fill().dirty_zones > 0).then_some(LOOK_AGAIN)
    }

    /// A step of the home zones that are being cleaned, or of those that the policy names.
    ///
    /// # Errors
    /// When the drive fails: the zones stay as they were.
    pub fn idle(&mut self, drive: &mut dyn Executor) -> Result<Idle, Failure> {
        if self.tuning.idle_after.is_none() {
            return Ok(Idle::Nothing);
        }
        self.leave_out_overwritten(drive);
        if self.pass.is_none() {
            let now = drive.now();
            let named = self.ask(now, |policy, state| policy.clean(Occasion::Idle, state));
            // While zones wait, the policy is asked again and again: nothing has to be reported for that.
            if named.is_some() || self.fill().dirty_zones == 0 {
                self.refresh_non_sequential(drive)?;
            }
            let Some(home) = named else {
                return Ok(Idle::Nothing);
            };
            let mut others = self.oldest_homes();
            self.ask(now, |policy, state| others.retain(|&home| policy.may_go(home, state)));
            self.begin_pass(home, others, drive)?;
        }
        self.idle_step(drive)
    }

    /// As [`HBuffer::idle`], whatever the policy would leave for later: until it returns [`Idle::Nothing`], when nothing is left
    /// that can be moved home.
    ///
    /// # Errors
    /// As [`HBuffer::idle`].
    pub fn drain(&mut self, drive: &mut dyn Executor) -> Result<Idle, Failure> {
        self.leave_out_overwritten(drive);
        if self.pass.is_none() {
            self.refresh_non_sequential(drive)?;
            let Some(home) = self.ask(drive.now(), |_, state| state.homes.oldest()) else {
                return Ok(Idle::Nothing);
            };
            self.begin_pass(home, self.oldest_homes(), drive)?;
        }
        self.idle_step(drive)
    }

    fn idle_step(&mut self, drive: &mut dyn Executor) -> Result<Idle, Failure> {
        let worked = self.pass.is_some();
        self.clean_step(drive)?;
        Ok(if worked { Idle::Worked } else { Idle::Nothing })
    }
}
