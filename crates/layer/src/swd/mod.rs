//! The raw shingled disk: no translation, and a write destroys the tracks behind the one it is made to.
//!
//! What is written lies where its address puts it, in place, as on a conventional drive; what was on the next
//! `k - 1` tracks at those angles is gone ([`skylight_disk::shingling`]). A file system or a layer above that
//! writes where it may not finds out when it reads. What a read gives for an overwritten sector is the read
//! mode's ([`ReadMode`]): the data that lies there now, a pattern, and in either case an error if errors are
//! wanted, with a record of the write that did it. The address space may be cut into bands with guards behind
//! them ([`SwdSpec::bands`]), between which writes do no harm.
//!
//! `overwritten` is the map of what was destroyed, `stamps` says by which write, `run` and `runs` hold
//! back what sequential writes destroy until somebody asks: most of it is written a moment later, and then nothing
//! was destroyed; `batch` takes the others many at a time. So a write that continues the last one costs the same whatever `k` is.
//!
//! Invariants: what is overwritten depends on which sectors were written in which order, not on how they were
//! put into commands, nor on when anyone looked; a sector that is written is native until a track before it is
//! written; a source holds its own data, so no source is ever looked up again.
//!
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), chapter 3; error, banding and geometry
//! for upper layers: its conclusion.

mod batch;
mod extents;
mod keep;
mod lost;
mod overwritten;
mod run;
mod runs;
mod stamps;

use skylight_command::{CommandId, Failure, Op};
use skylight_disk::shingling::{Destroyed, Pair, Sources};
use skylight_disk::{Geometry, Lba, LbaExtent, Pba, PbaExtent, Sectors, Shingling, Time};

use crate::bands::Bands;
use crate::plan::{Idle, Layer, Medium, Piece, Plan, Purpose, Queue, Source, Step};
use crate::restore::Room;
use batch::Batch;
pub use keep::Snapshot;
pub use lost::{Log, LostRead};
use overwritten::Overwritten;
use runs::Runs;
pub use stamps::Stamp;
use stamps::Stamps;

/// What a read gives for an overwritten sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadData {
    /// The data that overwrote it: data-centric. One read becomes several.
    Overwriting,
    /// This byte: performance-centric. The read is one, and what is known to be destroyed is not looked for.
    Pattern(u8),
}

/// The read mode: the data of an overwritten sector, and whether it is an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadMode {
    /// What a read gives.
    pub data: ReadData,
    /// Whether it is an error for just those sectors as well: development-centric.
    pub fail: bool,
}

/// A raw shingled disk.
#[derive(Clone, Debug)]
pub struct SwdSpec {
    /// Its tracks.
    pub geometry: Geometry,
    /// How many tracks a write covers.
    pub shingling: Shingling,
    /// Sectors that the host sees; with bands, what these hold.
    pub capacity: Sectors,
    /// Bands with guards; without, addresses are those of the disk.
    pub bands: Option<Bands>,
    /// What reads give.
    pub mode: ReadMode,
}

/// Counters since the disk was switched on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SwdCounters {
    /// Sectors that are overwritten now.
    pub overwritten_sectors: u64,
    /// Writes that destroyed sectors, whether anything was in them or not.
    pub overwriting_writes: u64,
    /// Reads that met an overwritten sector.
    pub overwritten_reads: u64,
    /// Overwritten sectors that they met.
    pub overwritten_sectors_read: u64,
}

/// A part of the host's address space: native, or overwritten by a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SectorState {
    /// What was written there last is there.
    Native,
    /// The data of other sectors is there: that of the first one on the medium, and who wrote it.
    Overwritten {
        /// Where the data comes from; it goes on from there.
        source: Pba,
        /// The write that did it.
        by: Stamp,
    },
}

/// See the module page.
pub struct Swd {
    spec: SwdSpec,
    map: Overwritten,
    stamps: Stamps,
    runs: Runs,
    log: Log,
    counters: SwdCounters,
    /// Write commands so far, and what the clock says.
    writes: u64,
    now: Time,
    /// The last write that counts among the overwriting ones.
    counted: u64,
    /// What a read found overwritten, while it is being planned.
    torn: Vec<(Lba, Destroyed)>,
    /// The tracks behind one that was written, while they are being looked at.
    behind: Vec<Pair>,
    /// Lone writes while they are being settled.
    batch: Batch,
    /// Where the pieces of a write lie, while it is being noted.
    places: Vec<PbaExtent>,
}

impl Swd {
    /// A disk that was never written.
    pub fn new(spec: SwdSpec) -> Self {
        Self {
            spec,
            map: Overwritten::default(),
            stamps: Stamps::default(),
            runs: Runs::default(),
            log: Log::default(),
            counters: SwdCounters::default(),
            writes: 0,
            now: Time(0),
            counted: 0,
            torn: Vec::new(),
            behind: Vec::new(),
            batch: Batch::default(),
            places: Vec::new(),
        }
    }

    /// What reads give now.
    pub fn mode(&self) -> ReadMode {
        self.spec.mode
    }

    /// Changes what reads give from the next one on.
    pub fn set_mode(&mut self, mode: ReadMode) {
        self.spec.mode = mode;
    }

    /// Tracks that a write covers.
    pub fn shingling(&self) -> Shingling {
        self.spec.shingling
    }

    /// The disk's tracks, for those above who lay out data by them.
    pub fn geometry(&self) -> &Geometry {
        &self.spec.geometry
    }

    /// The bands, if the disk is banded.
    pub fn bands(&self) -> Option<&Bands> {
        self.spec.bands.as_ref()
    }

    /// Counters.
    pub fn counters(&mut self) -> SwdCounters {
        self.settle();
        SwdCounters { overwritten_sectors: self.map.sectors(), ..self.counters }
    }

    /// Reads that were errors, newest last.
    pub fn log(&mut self) -> &mut Log {
        &mut self.log
    }

    /// Fragments of the overwritten map, and extents whose writer is remembered.
    pub fn map_entries(&mut self) -> (usize, usize) {
        self.settle();
        (self.map.len(), self.stamps.len())
    }

    /// Which parts of a host extent are native and which overwritten, in order.
    pub fn visit_state(&mut self, extent: LbaExtent, visit: &mut impl FnMut(LbaExtent, SectorState)) {
        self.settle();
        let Self { spec, map, stamps, .. } = self;
        visit_places(spec.bands.as_ref(), extent, &mut |lba, place| {
            map.visit(&spec.geometry, place, &mut |piece, torn| {
                let at = lba + (piece.start - place.start);
                match torn {
                    None => visit(LbaExtent::new(at, piece.len), SectorState::Native),
                    Some(torn) => {
                        visit_writers(&spec.geometry, stamps, torn, &mut |offset, len, source, by| {
                            let extent = LbaExtent::new(at + Sectors(offset), Sectors(len));
                            visit(extent, SectorState::Overwritten { source, by });
                        })
                    }
                }
            });
        });
    }

    fn read(&mut self, id: CommandId, extent: LbaExtent, plan: &mut Plan) {
        self.settle();
        self.torn.clear();
        let Self { spec, map, torn, .. } = self;
        visit_places(spec.bands.as_ref(), extent, &mut |lba, place| {
            if !map.touches(place) {
                return plan.read(Medium::Platter, place, Purpose::Host);
            }
            let overwriting = spec.mode.data == ReadData::Overwriting;
            if !overwriting {
                plan.read(Medium::Platter, place, Purpose::Host);
            }
            map.visit(&spec.geometry, place, &mut |piece, fragment| {
                match fragment {
                    None if overwriting => plan.read(Medium::Platter, piece, Purpose::Host),
                    Some(fragment) if overwriting => read_sources(&spec.geometry, fragment, plan),
                    _ => {}
                }
                torn.extend(fragment.map(|fragment| (lba + (piece.start - place.start), fragment)));
            });
        });
        if !self.torn.is_empty() {
            self.tell(id, plan);
            if self.spec.mode.fail {
                return plan.fail(id, Failure::Overwritten);
            }
        }
        plan.complete(id);
    }

    /// What a read that met overwritten sectors says of them.
    fn tell(&mut self, command: CommandId, plan: &mut Plan) {
        let torn = std::mem::take(&mut self.torn);
        self.counters.overwritten_reads += 1;
        for &(lba, fragment) in &torn {
            self.counters.overwritten_sectors_read += fragment.extent.len.get();
            let extent = LbaExtent::new(lba, fragment.extent.len);
            if let ReadData::Pattern(pattern) = self.spec.mode.data {
                plan.push(Step::Fill { command, extent, pattern });
            }
            if self.spec.mode.fail {
                plan.push(Step::Fail { command, extent, reason: Failure::Overwritten });
                self.note(lba, fragment);
            }
        }
        self.torn = torn;
    }

    /// Keeps a record of a read that was an error: one for each write that had a part in it.
    fn note(&mut self, lba: Lba, fragment: Destroyed) {
        let Self { spec, stamps, log, now, .. } = self;
        visit_writers(&spec.geometry, stamps, fragment, &mut |offset, len, source, by| {
            log.push(LostRead {
                read_at: *now,
                lba: LbaExtent::new(lba + Sectors(offset), Sectors(len)),
                place: fragment.extent.start + Sectors(offset),
                source,
                by,
            });
        });
    }
}

/// The sources of an overwritten fragment: reads of runs of them.
fn read_sources(geometry: &Geometry, fragment: Destroyed, plan: &mut Plan) {
    let Destroyed { extent, first_source, last_source } = fragment;
    let sources = Sources::new(geometry, extent.start, first_source, last_source);
    sources.visit_runs(extent.len.get(), &mut |_, len, source| {
        plan.read(Medium::Platter, PbaExtent::new(source, Sectors(len)), Purpose::Host);
    });
}

/// An overwritten fragment by the writes that did it: offset, length, source of the first sector, write.
fn visit_writers(
    geometry: &Geometry,
    stamps: &Stamps,
    fragment: Destroyed,
    visit: &mut impl FnMut(u64, u64, Pba, Stamp),
) {
    let Destroyed { extent, first_source, last_source } = fragment;
    let sources = Sources::new(geometry, extent.start, first_source, last_source);
    sources.visit_runs(extent.len.get(), &mut |offset, len, source| {
        stamps.visit(PbaExtent::new(source, Sectors(len)), &mut |part, by| {
            visit(offset + (part.start - source).get(), part.len.get(), part.start, by);
        });
    });
}

/// Where the pieces of a host extent lie on the disk, in order, with their host addresses.
fn visit_places(bands: Option<&Bands>, extent: LbaExtent, visit: &mut impl FnMut(Lba, PbaExtent)) {
    let Some(bands) = bands else {
        return visit(extent.start, PbaExtent::new(Pba(extent.start.get()), extent.len));
    };
    let mut lba = extent.start;
    bands.visit_native(extent, &mut |place| {
        visit(lba, place);
        lba += place.len;
    });
}

impl Layer for Swd {
    fn capacity(&self) -> Sectors {
        self.spec.capacity
    }

    #[inline]
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let command = queue.next_command();
        match command.op {
            Op::Read => return self.read(command.id, command.extent, plan),
            Op::Write => {
                self.writes += 1;
                let stamp = Stamp { write: self.writes, at: self.now };
                if self.spec.bands.is_none() {
                    let place = PbaExtent::new(Pba(command.extent.start.get()), command.extent.len);
                    plan.write(Medium::Platter, place, Purpose::Host, Source::Host(command.extent.start));
                    self.wrote(place, stamp);
                } else {
                    let from = plan.steps().len();
                    visit_places(self.spec.bands.as_ref(), command.extent, &mut |lba, place| {
                        plan.write(Medium::Platter, place, Purpose::Host, Source::Host(lba));
                    });
                    let mut places = std::mem::take(&mut self.places);
                    places.clear();
                    places.extend(plan.steps()[from..].iter().filter_map(|step| match *step {
                        Step::Access { extent, .. } => Some(extent),
                        _ => None,
                    }));
                    self.wrote_pieces(&places, stamp);
                    self.places = places;
                }
            }
            Op::Flush | Op::Trim => {}
            Op::WriteZeroes | Op::Cache | Op::Append => return plan.fail(command.id, Failure::Unsupported),
        }
        plan.complete(command.id);
    }

    fn idle(&mut self, _plan: &mut Plan) -> Idle {
        Idle::Nothing
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        visit_places(self.spec.bands.as_ref(), extent, &mut |_, place| {
            pieces.push(Piece { medium: Medium::Platter, extent: place, cached: false });
        });
    }

    fn locate_first(&self, extent: LbaExtent, _write: bool) -> (Medium, Pba) {
        let start = extent.start;
        (Medium::Platter, self.spec.bands.as_ref().map_or(Pba(start.get()), |bands| bands.native(start)))
    }

    fn clock(&mut self, now: Time) {
        self.now = now;
    }

    fn raw_shingled(&mut self) -> Option<&mut Swd> {
        Some(self)
    }

    fn erase(&mut self) {
        self.map.erase();
        self.stamps.erase();
        self.runs = Runs::default();
    }

    fn room(&self) -> Room {
        let end = |bands: &Bands| bands.native(Lba(self.spec.capacity.get() - 1)).get() + 1;
        let platter = Sectors(self.spec.bands.as_ref().map_or(self.spec.capacity.get(), end));
        Room { platter, overwritable: platter, ..Room::default() }
    }

    fn home(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        visit_places(self.spec.bands.as_ref(), extent, &mut |_, place| visit(place));
    }
}
