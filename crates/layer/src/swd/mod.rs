//! The raw shingled disk: no translation, and a write destroys the tracks behind the one it is made to.
//!
//! What is written lies where its address puts it, in place, as on a conventional drive; what was on the next
//! `k - 1` tracks at those angles is gone ([`skylight_disk::shingling`]). A file system or a layer above that
//! writes where it may not finds out when it reads. What a read gives for an overwritten sector is the read
//! mode's ([`ReadMode`]): the data that lies there now, a pattern, and in either case an error if errors are
//! wanted. The address space may be cut into bands with guards behind
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
mod capability;
mod extents;
mod overwritten;
mod run;
mod runs;
mod stamps;

use skylight_command::{CommandId, Failure, Op};
use skylight_disk::shingling::{Destroyed, Pair, Sources};
use skylight_disk::{Geometry, Lba, LbaExtent, Pba, PbaExtent, Sectors, Shingling, Time};

use crate::bands::Bands;
use crate::capabilities::overwriting::{Overwriting, OverwritingCounters, ReadData, ReadMode, Stamp};
use crate::plan::{Idle, Layer, Medium, Piece, Plan, Purpose, Queue, Source, Step};
use crate::restore::MediaUse;
use batch::Batch;
use overwritten::Overwritten;
use runs::Runs;
use stamps::Stamps;

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

/// See the module page.
pub struct Swd {
    spec: SwdSpec,
    map: Overwritten,
    stamps: Stamps,
    runs: Runs,
    counters: OverwritingCounters,
    /// What the clock says.
    now: Time,
    /// The last write, if it is not on record yet: then the map does not have it.
    unrecorded: Option<(LbaExtent, Stamp)>,
    /// The last write that counts among the overwriting ones.
    counted: u64,
    /// What a read found overwritten, while it is being planned.
    torn: Vec<(Lba, Destroyed)>,
    /// The tracks behind one that was written, while they are being looked at.
    behind: Vec<Pair>,
    /// Lone writes while they are being settled.
    batch: Batch,
    /// Where the pieces of the last write lie.
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
            counters: OverwritingCounters::default(),
            now: Time(0),
            unrecorded: None,
            counted: 0,
            torn: Vec::new(),
            behind: Vec::new(),
            batch: Batch::default(),
            places: Vec::new(),
        }
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
            }
        }
        self.torn = torn;
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
        self.recorded();
        let command = queue.next_command();
        match command.op {
            Op::Read => return self.read(command.id, command.extent, plan),
            Op::Write => {
                let Self { spec, places, .. } = self;
                places.clear();
                visit_places(spec.bands.as_ref(), command.extent, &mut |lba, place| {
                    plan.write(Medium::Platter, place, Purpose::Host, Source::Host(lba.into()));
                    places.push(place);
                });
                self.counters.writes += 1;
                self.unrecorded = Some((command.extent, Stamp { write: self.counters.writes, at: self.now }));
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

    fn overwriting(&mut self) -> Option<&mut dyn Overwriting> {
        Some(self)
    }

    fn erase(&mut self) {
        self.unrecorded = None;
        self.map.erase();
        self.stamps.erase();
        self.runs = Runs::default();
    }

    fn media_use(&self) -> MediaUse {
        let end = |bands: &Bands| bands.native(Lba(self.spec.capacity.get() - 1)).get() + 1;
        let platter = Sectors(self.spec.bands.as_ref().map_or(self.spec.capacity.get(), end));
        MediaUse { platter, overwritable: platter, ..MediaUse::default() }
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        visit_places(self.spec.bands.as_ref(), extent, &mut |_, place| visit(place));
    }
}
