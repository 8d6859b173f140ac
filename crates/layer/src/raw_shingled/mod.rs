//! The raw shingled disk: no translation, and a write overwrites the tracks behind its own.
//!
//! Every sector has a fixed location, as on a conventional drive. A write destroys the data at its angles on the next
//! `k - 1` tracks ([`skylight_disk::shingling`]). A file system or layer above that writes where it must not finds out when
//! it reads. The read mode ([`ReadMode`]) determines what a read returns for an overwritten sector: the data that is there
//! now, or a pattern, and in either case an error if that is enabled. The address space may consist of bands with guards
//! ([`SwdSpec::bands`]); writes to one band do not affect another.
//!
//! `overwritten` is the map of overwritten sectors, `stamps` records by which write. Most of what a sequential write
//! overwrites is itself written next, so `sequential_run` and `open_runs` delay its effects until they are needed; `batch` applies those of
//! other writes in batches. So a write that continues the last one costs the same for any `k`.
//!
//! Invariants: what is overwritten depends only on which sectors were written in which order, not on the division into
//! commands or on the times of look-ups; a written sector is native until a track before it is written; a source contains
//! its own data, so a look-up never follows several sources.
//!
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), chapter 3; error, banding and geometry
//! for upper layers: its conclusion.

mod batch;
mod capability;
mod extent_tree;
mod open_runs;
mod overwritten;
mod sequential_run;
mod stamps;

use skylight_command::{CommandId, Failure, Op};
use skylight_disk::shingling::{Destroyed, Pair, Sources};
use skylight_disk::{Geometry, Lba, LbaExtent, Pba, PbaExtent, Sectors, Shingling, Time};

use crate::bands::Bands;
use crate::capabilities::overwriting::{Overwriting, OverwritingCounters, ReadData, ReadMode, Stamp};
use crate::plan::{Layer, Medium, Piece, Plan, Purpose, Queue, Source, Step};
use crate::restore::MediaUse;
use batch::Batch;
use open_runs::Runs;
use overwritten::Overwritten;
use stamps::Stamps;

/// A raw shingled disk.
#[derive(Clone, Debug)]
pub struct SwdSpec {
    /// The geometry.
    pub geometry: Geometry,
    /// The width of a write in tracks.
    pub shingling: Shingling,
    /// Host sectors; with bands, those of all bands.
    pub capacity: Sectors,
    /// Bands with guards; without bands, host and media addresses are equal.
    pub bands: Option<Bands>,
    /// What reads of overwritten sectors return.
    pub mode: ReadMode,
    /// The byte that they return where the mode gives a pattern.
    pub pattern: u8,
}

/// See the module documentation.
pub struct Swd {
    spec: SwdSpec,
    map: Overwritten,
    stamps: Stamps,
    runs: Runs,
    counters: OverwritingCounters,
    /// The time of the clock.
    now: Time,
    /// The last write, while it is not on record: it is not in the map.
    unrecorded: Option<(LbaExtent, Stamp)>,
    /// The last write that was counted as overwriting.
    counted: u64,
    /// The overwritten fragments of the read that is being planned.
    overwritten: Vec<(Lba, Destroyed)>,
    /// Buffer: a written track paired with each track behind it.
    behind: Vec<Pair>,
    /// Buffer: the batch that is being settled.
    batch: Batch,
    /// The locations of the pieces of the last write.
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
            overwritten: Vec::new(),
            behind: Vec::new(),
            batch: Batch::default(),
            places: Vec::new(),
        }
    }

    fn read(&mut self, id: CommandId, extent: LbaExtent, plan: &mut Plan) {
        self.settle();
        self.overwritten.clear();
        let Self { spec, map, overwritten, .. } = self;
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
                overwritten.extend(fragment.map(|fragment| (lba + (piece.start - place.start), fragment)));
            });
        });
        if !self.overwritten.is_empty() {
            self.plan_overwritten(id, plan);
            if self.spec.mode.fail {
                return plan.fail(id, Failure::Overwritten);
            }
        }
        plan.complete(id);
    }

    /// Counts and plans the overwritten fragments of a read.
    fn plan_overwritten(&mut self, command: CommandId, plan: &mut Plan) {
        let overwritten = std::mem::take(&mut self.overwritten);
        self.counters.overwritten_reads += 1;
        for &(lba, fragment) in &overwritten {
            self.counters.overwritten_sectors_read += fragment.extent.len.get();
            let extent = LbaExtent::new(lba, fragment.extent.len);
            if self.spec.mode.data == ReadData::Pattern {
                let pattern = self.spec.pattern;
                plan.push(Step::Fill { command, extent, pattern });
            }
            if self.spec.mode.fail {
                plan.push(Step::Fail { command, extent, reason: Failure::Overwritten });
            }
        }
        self.overwritten = overwritten;
    }
}

/// Reads the sources of an overwritten fragment, run by run.
fn read_sources(geometry: &Geometry, fragment: Destroyed, plan: &mut Plan) {
    let Destroyed { extent, first_source, last_source } = fragment;
    let sources = Sources::new(geometry, extent.start, first_source, last_source);
    sources.visit_runs(extent.len.get(), &mut |_, len, source| {
        plan.read(Medium::Platter, PbaExtent::new(source, Sectors(len)), Purpose::Host);
    });
}

/// Visits an overwritten fragment by the writes that overwrote it: offset, length, source of the first sector, write.
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

/// Visits the locations of the pieces of a host extent, in order, with their host addresses.
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
            Op::WriteZeroes | Op::Cache | Op::Append | Op::Zone(_) => {
                return plan.fail(command.id, Failure::Unsupported);
            }
        }
        plan.complete(command.id);
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
