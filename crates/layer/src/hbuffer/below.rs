//! The drive below a host buffer: its zoned layer, asked command by command.
//!
//! What the zoned layer plans for a command in sectors of the drive becomes steps in sectors of the host. The same commands are
//! kept as [`Action`]s for those who execute them with bytes, on a drive that knows nothing of plans.
//!
//! Invariant: a command that fails leaves neither steps nor an action.

use skylight_command::{Command, CommandId, Failure, Op, Outcome};
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use super::format::{HEADER, Header};
use crate::capabilities::zoned::{ZoneDescriptor, ZoneLayout, Zoned};
use crate::plan::{Idle, Layer, MapChange, Plan, Purpose, Queue, Source, Step};
use crate::zoned::ZonedLayer;

/// No home zone, for a zone of the drive.
const NONE: u32 = u32::MAX;

/// A command to the drive. Sectors are those of the drive unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Reads for the host, to this sector of its.
    Read {
        /// What.
        from: LbaExtent,
        /// The first host sector.
        to: Lba,
    },
    /// These host sectors are zeros.
    Zeros(LbaExtent),
    /// Writes from a sector on.
    Write {
        /// Where.
        at: Lba,
        /// What.
        data: Data,
    },
    /// Empties a zone.
    Reset {
        /// Its number.
        zone: u32,
    },
    /// Makes durable what was written before, and that zones were emptied.
    Flush,
}

/// The data of a write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// The host's, of these host sectors.
    Host(LbaExtent),
    /// A header and the host's data that it announces.
    Entry(Header),
    /// What lies at these places: the start of sectors of the drive, or `None` for zeros, and how many.
    Moved(Vec<(Option<Lba>, Sectors)>),
    /// These bytes.
    Bytes(Vec<u8>),
}

/// What a write to the drive is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Aim {
    /// Host data at home, from this host sector on.
    Home(Lba),
    /// A header and host data in the log.
    Entry,
    /// A home zone is cleaned, from this host sector on.
    Clean(Lba),
    /// A checkpoint.
    Checkpoint,
}

/// What a read of the drive is for.
#[derive(Clone, Copy, Debug)]
pub(super) enum ReadAim {
    /// A host's read, from this host sector on; whether from the log.
    Host(CommandId, Lba, bool),
    /// Cleaning.
    Clean,
}

/// See the module documentation.
pub(super) struct Below {
    layer: ZonedLayer,
    layout: ZoneLayout,
    /// Sectors of a home zone.
    home: Sectors,
    /// The home zone that each zone of the drive has, or [`NONE`].
    owners: Vec<u32>,
    actions: Option<Vec<Action>>,
    scratch: Plan,
}

impl Below {
    pub fn new(layer: ZonedLayer, home: Sectors) -> Self {
        let layout = *layer.layout();
        let owners = vec![NONE; layout.zones as usize];
        Self { layer, layout, home, owners, actions: None, scratch: Plan::default() }
    }

    pub fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    pub fn layer(&self) -> &ZonedLayer {
        &self.layer
    }

    pub fn layer_mut(&mut self) -> &mut ZonedLayer {
        &mut self.layer
    }

    pub fn zone(&self, zone: u32) -> ZoneDescriptor {
        self.layer.descriptor(zone)
    }

    /// Sectors of a zone before its write pointer; all where it has none.
    pub fn written(&self, zone: u32) -> Sectors {
        let ZoneDescriptor { start, capacity, write_pointer, .. } = self.zone(zone);
        write_pointer.map_or(capacity, |pointer| (pointer - start).min(capacity))
    }

    /// Where on the medium a sector lies.
    pub fn place(&self, lba: Lba) -> Pba {
        self.layer.locate_first(LbaExtent::new(lba, Sectors(1)), false).1
    }

    /// From now on a zone has a home zone, or none.
    pub fn set_owner(&mut self, zone: u32, home: Option<u32>) {
        self.owners[zone as usize] = home.unwrap_or(NONE);
    }

    /// Keeps the actions from now on.
    pub fn keep_actions(&mut self) {
        self.actions = Some(Vec::new());
    }

    /// The actions since they were last taken.
    pub fn take_actions(&mut self) -> Vec<Action> {
        self.actions.as_mut().map(std::mem::take).unwrap_or_default()
    }

    pub fn act(&mut self, action: impl FnOnce() -> Action) {
        if let Some(actions) = &mut self.actions {
            actions.push(action());
        }
    }

    pub fn flush(&mut self) {
        self.act(|| Action::Flush);
    }

    /// Asks the zoned layer; its steps are in `scratch`.
    fn ask(&mut self, op: Op, extent: LbaExtent) -> Result<(), Failure> {
        self.scratch.clear();
        let command = Command::new(CommandId(0), op, extent);
        self.layer.take(Queue { waiting: &[command], next: 0 }, &mut self.scratch);
        let failed = self.scratch.completions().find_map(|(_, outcome)| match outcome {
            Outcome::Failed(failure) => Some(failure),
            Outcome::Done | Outcome::Appended(_) => None,
        });
        failed.map_or(Ok(()), Err)
    }

    /// Writes.
    ///
    /// # Errors
    /// When the drive refuses to.
    pub fn write(
        &mut self,
        extent: LbaExtent,
        (aim, data): (Aim, impl FnOnce() -> Data),
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        self.ask(Op::Write, extent)?;
        self.act(|| Action::Write { at: extent.start, data: data() });
        for &step in self.scratch.steps() {
            let Step::Access { medium, extent: place, source: Source::Host(from), .. } = step else {
                self.drive_step(step, plan);
                continue;
            };
            let offset = Lba::from(from) - extent.start;
            let mut write = |place, purpose, source| plan.write(medium, place, purpose, source);
            match aim {
                Aim::Home(host) => write(place, Purpose::Host, Source::Host((host + offset).into())),
                Aim::Clean(host) => write(place, Purpose::CleanWrite, Source::Merged((host + offset).into())),
                Aim::Checkpoint => write(place, Purpose::MapMerge, Source::Internal),
                Aim::Entry => {
                    write(PbaExtent::new(place.start, HEADER), Purpose::OutOfBand, Source::Internal);
                    let data = PbaExtent::new(place.start + HEADER, place.len - HEADER);
                    if !data.is_empty() {
                        write(data, Purpose::Cache, Source::HostToCache);
                    }
                }
            }
        }
        Ok(())
    }

    /// Reads.
    ///
    /// # Errors
    /// When the drive refuses to.
    pub fn read(&mut self, from: LbaExtent, aim: ReadAim, plan: &mut Plan) -> Result<(), Failure> {
        self.ask(Op::Read, from)?;
        if let ReadAim::Host(_, to, _) = aim {
            self.act(|| Action::Read { from, to });
        }
        for &step in self.scratch.steps() {
            match (step, aim) {
                (Step::Access { medium, direction: Direction::Read, extent, purpose, .. }, aim) => {
                    let purpose = match aim {
                        ReadAim::Host(_, _, true) => Purpose::Cache,
                        ReadAim::Host(..) => purpose,
                        ReadAim::Clean => Purpose::CleanRead,
                    };
                    plan.read(medium, extent, purpose);
                }
                (Step::Fill { extent, pattern, .. }, ReadAim::Host(command, to, _)) => {
                    let extent = LbaExtent::new(to + (extent.start - from.start), extent.len);
                    plan.push(Step::Fill { command, extent, pattern });
                }
                (Step::Fill { .. }, ReadAim::Clean) => {}
                (step, _) => self.drive_step(step, plan),
            }
        }
        Ok(())
    }

    /// Empties a zone, if there is anything in it.
    ///
    /// # Errors
    /// When the drive refuses to.
    pub fn reset(&mut self, zone: u32, plan: &mut Plan) -> Result<(), Failure> {
        let ZoneDescriptor { start, write_pointer, non_sequential, .. } = self.zone(zone);
        if write_pointer == Some(start) && !non_sequential {
            return Ok(());
        }
        self.ask(Op::ResetZone, self.layout.extent_of(zone))?;
        self.act(|| Action::Reset { zone });
        for &step in self.scratch.steps() {
            self.drive_step(step, plan);
        }
        Ok(())
    }

    /// What the drive does by itself.
    pub fn idle(&mut self, plan: &mut Plan) -> Idle {
        self.scratch.clear();
        let worked = self.layer.idle(&mut self.scratch);
        for &step in self.scratch.steps() {
            self.drive_step(step, plan);
        }
        worked
    }

    pub fn idle_after(&self) -> Option<Nanos> {
        self.layer.idle_after()
    }

    /// A step of the drive for itself. What concerns a home zone is told in host sectors, and what concerns no home zone changes
    /// nothing that the host reads.
    fn drive_step(&self, step: Step, plan: &mut Plan) {
        match step {
            Step::Access { medium, direction, extent, purpose, source: Source::Merged(lba) } => {
                let host = self.host_of(lba.into());
                let source = host.map_or(Source::Internal, |host| Source::Merged(host.into()));
                plan.push(Step::Access { medium, direction, extent, purpose, source });
            }
            Step::Commit(change) => {
                let LbaExtent { start, len } = change.extent();
                let Some(host) = self.host_of(start) else { return };
                let lba = LbaExtent::new(host, len);
                plan.push(Step::Commit(match change {
                    MapChange::Cached { pba, .. } => MapChange::Cached { lba, pba },
                    MapChange::Native { .. } => MapChange::Native { lba },
                    MapChange::Remapped { pba, .. } => MapChange::Remapped { lba, pba },
                }));
            }
            Step::Complete { .. } | Step::Fill { .. } | Step::Fail { .. } => {}
            Step::Access { .. } | Step::AnyOrder { .. } => plan.push(step),
        }
    }

    /// The host sector that a sector of the drive is home of.
    fn host_of(&self, lba: Lba) -> Option<Lba> {
        let (zone, offset) = self.layout.place_of(lba);
        let home = self.owners[zone as usize];
        (home != NONE && offset < self.home).then(|| Lba(u64::from(home) * self.home.get()) + offset)
    }
}
