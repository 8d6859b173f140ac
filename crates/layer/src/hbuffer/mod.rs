//! H-Buffer: a host makes an ordinary block device of a drive with zones.
//!
//! A [`policy`] decides for each write which way it goes: directly to its home zone, to the persistent cache of a host-aware
//! drive, or to a circular log in some zones of the drive. A map in memory says what is in the log. Cleaning takes a home zone out
//! of it, in idle time, when the policy says so, and when the log needs space. The format on the drive, the life of a write and what
//! is durable when are in `docs/hbuffer.md`.
//!
//! * [`policy`]: what a policy sees and answers; the static ones. [`streams`]: the sequential streams that it sees.
//! * [`policies`]: the others, by name.
//! * [`spec`]: the sizes, and which zones of the drive are for what.
//! * [`format`]: the log's entries and the checkpoints of the map, as bytes.
//! * [`below`]: the drive's zoned layer; its plans in terms of the host, and the same as commands to a real drive.
//! * `writing`, `cleaning`, `space`: what happens to writes, to home zones, and to the zones of the log.
//! * `contents`, `log`, `view`: the map with what each zone has, where the log is, and what a policy sees of these.
//! * [`recovery`]: the state of a buffer from what is on its drive.
//!
//! Invariants, each of which a recovery needs, behind a cut at any command to the drive:
//! * A zone is emptied only when all that says so that nothing in it is needed is durable.
//! * A home zone goes to another place, or out of the log, by a record that is written when its data is durable there.
//! * What a checkpoint says is durable before it, and it is durable before anything relies on it.
//! * A write goes home only where the log has nothing of its extent, so no older data can come back over it.
//!
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), sections 4 and 5.

pub mod below;
pub mod device;
mod cleaning;
mod contents;
pub mod format;
mod log;
pub mod policies;
pub mod policy;
pub mod recovery;
mod space;
pub mod spec;
pub mod streams;
mod view;
mod writing;

use std::collections::VecDeque;

use skylight_command::{Command, CommandId, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors, Time};

use crate::capabilities::zoned::{ZoneCondition, ZoneLayout, ZoneModel, Zoned};
use crate::plan::{CacheUse, Idle, Layer, MapChange, Medium, Piece, Plan, Queue, Step};
use crate::restore::{MediaUse, Misplaced, Recovered};
use crate::zoned::ZonedLayer;
use below::{Action, Below, ReadAim};
use cleaning::Cleaning;
use contents::Contents;
use format::Kind;
use log::Log;
use policy::{Fill, Occasion, Policy, State};
use spec::{HBufferSpec, Places, SpecError};
use streams::Streams;

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

/// Zones without data into which home zones are rewritten.
#[derive(Clone, Debug, Default)]
struct Spares {
    /// They can be emptied and written.
    free: VecDeque<u32>,
    /// They will be free when the records that took their data away are durable.
    given_up: Vec<u32>,
}

impl Spares {
    /// All records are durable.
    fn settle(&mut self) {
        self.free.extend(self.given_up.drain(..));
    }
}

/// See the module documentation.
pub struct HBuffer {
    spec: HBufferSpec,
    below: Below,
    policy: Box<dyn Policy>,
    contents: Contents,
    log: Log,
    spares: Spares,
    cleaning: Option<Cleaning>,
    streams: Streams,
    now: Option<Time>,
    last_command: Option<Time>,
    counters: Counters,
    /// Nothing was written since it was made or recovered: it begins with a checkpoint.
    unstarted: bool,
}

impl HBuffer {
    /// A new buffer on an empty drive.
    ///
    /// # Errors
    /// When the drive cannot have this buffer, or is not empty.
    pub fn new(spec: HBufferSpec, drive: ZonedLayer, policy: Box<dyn Policy>) -> Result<Self, SpecError> {
        let layout = *drive.layout();
        let written = layout.zones - drive.counts().of(ZoneCondition::Empty) - layout.conventional;
        if written > 0 {
            return Err(SpecError::Written(written));
        }
        Self::over(spec, drive, policy)
    }

    /// A buffer with nothing in it, over a drive of which it knows nothing.
    fn over(spec: HBufferSpec, drive: ZonedLayer, policy: Box<dyn Policy>) -> Result<Self, SpecError> {
        let layout = *drive.layout();
        let places = Places::new(&layout, &spec)?;
        let contents = Contents::new(places, layout, spec.zones);
        let mut buffer = Self {
            below: Below::new(drive, places.home),
            log: Log::new(spec.zones, places.log, places.home),
            contents,
            policy,
            spec,
            spares: Spares::default(),
            cleaning: None,
            streams: Streams::default(),
            now: None,
            last_command: None,
            counters: Counters::default(),
            unstarted: true,
        };
        buffer.own_zones();
        Ok(buffer)
    }

    /// Tells the drive's side which zones have which home zones; the others of the pool are spares.
    fn own_zones(&mut self) {
        let Self { below, contents, spares, .. } = self;
        let Places { pool, pool_zones, .. } = contents.places;
        let mut is_spare = vec![true; pool_zones as usize];
        for zone in 0..below.layout().zones {
            below.set_owner(zone, None);
        }
        for (home, zone) in contents.homes.iter().map(|home| home.zone).enumerate() {
            below.set_owner(zone, Some(home as u32));
            if zone >= pool {
                is_spare[(zone - pool) as usize] = false;
            }
        }
        let zones = is_spare.iter().zip(pool..).filter_map(|(&is_spare, zone)| is_spare.then_some(zone));
        *spares = Spares { free: zones.collect(), given_up: Vec::new() };
    }

    /// What it has done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// The drive's zones, for those who execute its commands.
    pub fn layout(&self) -> &ZoneLayout {
        self.below.layout()
    }

    /// The drive below.
    pub fn drive(&self) -> &ZonedLayer {
        self.below.layer()
    }

    /// The drive below, for what an interpreter tells it.
    pub fn drive_mut(&mut self) -> &mut ZonedLayer {
        self.below.layer_mut()
    }

    /// Keeps the commands to the drive from now on, for [`HBuffer::take_actions`].
    pub fn keep_actions(&mut self) {
        self.below.keep_actions();
    }

    /// The commands to the drive since this was last called, in order: those of the plans since then.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.below.take_actions()
    }

    /// How full it is.
    pub fn fill(&self) -> Fill {
        view::fill(&self.contents, &self.log)
    }

    /// What a recovery would scan: sectors of the log behind the last checkpoint.
    pub fn since_checkpoint(&self) -> Sectors {
        self.log.since_checkpoint
    }

    /// Asks the policy something.
    fn ask<T>(&mut self, question: impl FnOnce(&mut dyn Policy, &State<'_>) -> T) -> T {
        let Self { policy, below, contents, log, cleaning, streams, now, last_command, .. } = self;
        let homes =
            view::Homes { contents, below, log, cleaning: cleaning.as_ref().map(|cleaning| cleaning.home) };
        let idle = match (*now, *last_command) {
            (Some(now), Some(last)) => now - last,
            _ => Nanos(0),
        };
        let state = State {
            now: *now,
            idle,
            layout: below.layout(),
            counts: below.layer().counts(),
            fill: view::fill(contents, log),
            streams,
            homes: &homes,
        };
        question(policy.as_mut(), &state)
    }

    /// Sectors of a home zone before the write pointer.
    fn written(&self, home: u32) -> Sectors {
        self.below.written(self.contents.homes[home as usize].zone)
    }

    /// Everything that was written is durable.
    fn flush(&mut self) {
        self.below.flush();
        self.spares.settle();
    }

    /// A new or recovered buffer begins with a checkpoint.
    fn start(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        if self.unstarted {
            self.checkpoint(plan)?;
            self.unstarted = false;
        }
        Ok(())
    }

    fn read(&mut self, id: CommandId, extent: LbaExtent, plan: &mut Plan) -> Result<(), Failure> {
        let mut pieces = Vec::new();
        self.contents.visit_pieces(extent, |piece, place| pieces.push((piece, place)));
        for (piece, place) in pieces {
            match place {
                Some(place) => {
                    let from = LbaExtent::new(place, piece.len);
                    self.below.read(from, ReadAim::Host(id, piece.start, true), plan)?;
                }
                None => {
                    let mut parts = Vec::new();
                    self.contents.visit_homes(piece, |home, part| parts.push((home, part)));
                    for (home, part) in parts {
                        self.read_home(id, home, part, plan)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads a part of a home zone where that is. A host-managed drive may refuse to read what was not written.
    fn read_home(
        &mut self,
        id: CommandId,
        home: u32,
        part: LbaExtent,
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        let start = self.contents.home_place(part.start);
        let len = match self.below.layout().model {
            ZoneModel::HostAware => part.len,
            ZoneModel::HostManaged => {
                let written = self.written(home);
                let (_, offset) = self.contents.place_of(part.start);
                Sectors(written.get().saturating_sub(offset.get())).min(part.len)
            }
        };
        if len > Sectors(0) {
            self.below.read(LbaExtent::new(start, len), ReadAim::Host(id, part.start, false), plan)?;
        }
        if len < part.len {
            let extent = LbaExtent::new(part.start + len, part.len - len);
            self.below.act(|| Action::Zeros(extent));
            plan.push(Step::Fill { command: id, extent, pattern: 0 });
        }
        Ok(())
    }

    /// What the log has of an extent is of no use any more, nor is a home zone that lies in it as a whole.
    fn trim(&mut self, extent: LbaExtent, plan: &mut Plan) -> Result<(), Failure> {
        let mut homes = Vec::new();
        self.contents.visit_homes(extent, |home, part| homes.push((home, part)));
        homes.iter().for_each(|&(home, _)| self.cancel_cleaning_of(home));
        // An extent that loses its middle is two.
        self.make_space(format::HEADER, 1, plan)?;
        if self.contents.has(extent) {
            self.record(Kind::Trimmed(extent), |buffer| buffer.contents.remove(extent), plan)?;
        }
        for (home, part) in homes {
            if part.len == self.contents.places.home && !self.contents.is_conventional(home) {
                self.below.reset(self.contents.homes[home as usize].zone, plan)?;
            }
        }
        plan.push(Step::Commit(MapChange::Native { lba: extent }));
        Ok(())
    }

    fn take_other(&mut self, command: &Command, plan: &mut Plan) -> Result<(), Failure> {
        match command.op {
            Op::Read => self.read(command.id, command.extent, plan),
            Op::Trim => self.start(plan).and_then(|()| self.trim(command.extent, plan)),
            Op::Flush => self.start(plan).map(|()| self.flush()),
            _ => Err(Failure::Unsupported),
        }
    }
}

impl Layer for HBuffer {
    fn capacity(&self) -> Sectors {
        Sectors(u64::from(self.contents.places.homes) * self.contents.places.home.get())
    }

    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let command = queue.next_command();
        if command.op == Op::Write {
            self.take_writes(queue, plan);
        } else {
            match self.take_other(&command, plan) {
                Ok(()) => plan.complete(command.id),
                Err(failure) => plan.fail(command.id, failure),
            }
        }
        self.last_command = self.now;
    }

    fn idle_after(&self) -> Option<Nanos> {
        let (host, drive) = (self.spec.idle_after, self.below.idle_after());
        host.into_iter().chain(drive).min()
    }

    /// A step of the zone that is being cleaned, or of one that the policy names; else what the drive does by itself.
    fn idle(&mut self, plan: &mut Plan) -> Idle {
        if self.cleaning.is_none()
            && self.spec.idle_after.is_some()
            && let Some(home) = self.ask(|policy, state| policy.clean(Occasion::Idle, state))
        {
            // A drive that refuses has said so to a host command, or will.
            let _ = self.start(plan).and_then(|()| self.begin_cleaning(home, plan));
        }
        if self.cleaning.is_some() && self.clean_step(plan).is_ok() {
            return Idle::Worked;
        }
        self.below.idle(plan)
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.contents.visit_pieces(extent, |piece, place| match place {
            Some(place) => {
                let extent = PbaExtent::new(self.below.place(place), piece.len);
                pieces.push(Piece { medium: Medium::Platter, extent, cached: true });
            }
            None => self.contents.visit_homes(piece, |_, part| {
                let native = LbaExtent::new(self.contents.home_place(part.start), part.len);
                self.below.layer().locate(native, pieces);
            }),
        });
    }

    /// A write that continues its zone may go there, and all others to the log.
    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        let (home, offset) = self.contents.place_of(extent.start);
        let mapped = self.contents.map.entry_at(extent.start);
        let lba = match mapped {
            Some(found) if !write => Lba(found.pba.get()) + (extent.start - found.lba.start),
            None if !write || self.contents.is_conventional(home) || self.written(home) == offset => {
                self.contents.home_place(extent.start)
            }
            _ => self.log.place(self.below.layout()),
        };
        (Medium::Platter, self.below.place(lba))
    }

    fn clock(&mut self, now: Time) {
        self.now = Some(now);
        self.below.layer_mut().clock(now);
    }

    fn erase(&mut self) {
        self.below.layer_mut().erase();
        let (spec, places, layout) = (self.spec, self.contents.places, *self.below.layout());
        self.contents = Contents::new(places, layout, spec.zones);
        self.log = Log::new(spec.zones, places.log, places.home);
        (self.cleaning, self.streams, self.unstarted) = (None, Streams::default(), true);
        self.own_zones();
    }

    fn media_use(&self) -> MediaUse {
        let used = self.below.layer().media_use();
        let log = Sectors(u64::from(self.spec.zones) * self.contents.places.home.get());
        let homes = u64::from(self.contents.places.homes);
        MediaUse { cached: used.cached + log, movable: homes, zones: 0, ..used }
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        let new = Contents::new(self.contents.places, *self.below.layout(), self.spec.zones);
        new.visit_homes(extent, |_, part| {
            let native = LbaExtent::new(new.home_place(part.start), part.len);
            self.below.layer().initial_locations(native, visit);
        });
    }

    /// A buffer restores itself from its drive ([`HBuffer::recover`]), and not from what an image keeps of a cache.
    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        let first =
            found.cached.first().map(|cached| cached.lba).or(found.moved.first().map(|moved| moved.0));
        first.map_or(Ok(()), |lba| Err(Misplaced(lba.start)))
    }

    fn cache_use(&self) -> CacheUse {
        self.contents.map.cache_use()
    }
}
