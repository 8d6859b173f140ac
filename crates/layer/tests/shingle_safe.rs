//! Every drive-managed layer on a medium that destroys: each write of a plan is made to a raw shingled disk,
//! each read has to find what it reads native. One read of an overwritten sector fails (UCSC-SSRC-12-05,
//! development-centric mode).
//!
//! Layers name places; where these lie on the tracks is the layout's business. Here it is a safe one: every
//! band, cache band and reserved region begins on a track of its own stroke and has `k - 1` tracks behind it.
//! What is tested is that a layer writes each of them from its start on, and reads nothing of what was before.
//! Without the guards each layer must fail, or the test would be worth nothing.

#[path = "common/mod.rs"]
mod common;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::host::{Host, Sizes};
use skylight_disk::layout::{HorizontalZone, RecordingZone, Skews, Walk, horizontal_segments};
use skylight_disk::{
    Angle, BLOCK_SECTORS, Direction, Geometry, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors, Shingling,
    Time,
};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, Command, CommandId, FullyAssociative, FullyAssociativeSpec, Idle, Journaled, JournaledSpec, Layer,
    Medium, Op, Plan, Queue, SetAssociative, SetAssociativeSpec, Step, StretchSpec, Swd, SwdSpec,
};

/// Sectors of a band; no whole number of tracks anywhere.
const BAND: u64 = 512;

/// A part of a layer's platters that is written from its start on: where it lies there, and where on the disk.
#[derive(Clone, Copy, Debug)]
struct Unit {
    named: PbaExtent,
    place: Pba,
}

/// A raw shingled disk under a layer.
struct Checked {
    disk: Swd,
    units: Vec<Unit>,
    plan: Plan,
    reads: u64,
    writes: u64,
}

/// Strokes inward and outward on two surfaces, tracks of four sizes.
fn geometry() -> Geometry {
    let zone = |sectors_per_track, walk| HorizontalZone {
        zone: RecordingZone { tracks: 1_500, sectors_per_track },
        walk,
    };
    let zones =
        [zone(88, Walk::Inward), zone(80, Walk::Inward), zone(72, Walk::Outward), zone(61, Walk::Outward)];
    let skews = Skews {
        track: Angle::from_revolutions(0.137),
        head: Angle::from_revolutions(0.2),
        ..Skews::default()
    };
    Geometry::new(&horizontal_segments(&zones, &[], 2, skews)).expect("a disk")
}

impl Checked {
    /// A disk for units of these sizes, one behind the other in the layer's eyes.
    fn new(sizes: &[u64], width_tracks: u32, guard_tracks: u64) -> Self {
        let geometry = geometry();
        let (mut units, mut named, mut next) = (Vec::new(), 0, Pba(0));
        for &size in sizes {
            let (place, behind) = place(&geometry, next, size, guard_tracks);
            units.push(Unit { named: PbaExtent::new(Pba(named), Sectors(size)), place });
            named += size;
            next = behind;
        }
        let disk = Swd::new(SwdSpec {
            capacity: geometry.capacity(),
            geometry,
            shingling: Shingling::new(width_tracks).expect("a width"),
            bands: None,
            mode: ReadMode { data: ReadData::Overwriting, fail: true },
            pattern: 0,
        });
        Self { disk, units, plan: Plan::default(), reads: 0, writes: 0 }
    }

    /// Makes the accesses of a plan in their order.
    fn follow(&mut self, plan: &Plan) {
        for step in plan.steps() {
            let Step::Access { medium: Medium::Platter, direction, extent, purpose, .. } = *step else {
                continue;
            };
            let mut rest = extent;
            while !rest.is_empty() {
                let index = self.units.partition_point(|unit| unit.named.end() <= rest.start);
                let unit = self.units[index];
                let here = rest.len.min(unit.named.end() - rest.start);
                let place = unit.place + (rest.start - unit.named.start);
                self.access(direction, LbaExtent::new(Lba(place.get()), here));
                let lost = self.plan.steps().iter().find(|step| matches!(step, Step::Fail { .. }));
                assert!(lost.is_none(), "{purpose:?} {direction:?} of {rest:?} in {unit:?}: {lost:?}");
                rest = PbaExtent::new(rest.start + here, rest.len - here);
            }
        }
    }

    fn access(&mut self, direction: Direction, extent: LbaExtent) {
        let op = match direction {
            Direction::Read => Op::Read,
            Direction::Write => Op::Write,
        };
        self.reads += u64::from(op == Op::Read);
        self.writes += u64::from(op == Op::Write);
        let waiting = [Command::new(CommandId(0), op, extent)];
        self.plan.clear();
        self.disk.clock(Time(self.writes));
        self.disk.take(Queue { waiting: &waiting, next: 0 }, &mut self.plan);
    }
}

/// Whole tracks for so many sectors, in one stroke, from `from` on; where they begin and what lies behind the
/// tracks and those that guard them.
fn place(geometry: &Geometry, from: Pba, size: u64, guard_tracks: u64) -> (Pba, Pba) {
    let mut start = geometry.track_of(from);
    loop {
        let track = u64::from(start.sectors_per_track);
        let tracks = size.div_ceil(track) + guard_tracks;
        let last = geometry.track_of(Pba(start.start.get() + (tracks - 1) * track));
        if (last.surface, last.sectors_per_track) == (start.surface, start.sectors_per_track) {
            return (start.start, last.end());
        }
        // The first track of the next stroke.
        start = last;
        while let Some(before) = start.start.get().checked_sub(1).map(|pba| geometry.track_of(Pba(pba))) {
            if (before.surface, before.sectors_per_track) != (start.surface, start.sectors_per_track) {
                break;
            }
            start = before;
        }
    }
}

/// A layer and the sizes of what it writes from the start on.
struct Drive {
    layer: Box<dyn Layer>,
    units: Vec<u64>,
    bands: Vec<LbaExtent>,
    unit: u64,
}

fn bands_of(capacity: u64) -> Vec<LbaExtent> {
    let band = |start| LbaExtent::new(Lba(start), Sectors(BAND.min(capacity - start)));
    (0..capacity).step_by(BAND as usize).map(band).collect()
}

fn set_associative(aggressive: bool) -> Drive {
    let (capacity, cache_bands, before) = (40 * BAND, 6, 20);
    let spec = SetAssociativeSpec {
        capacity: Sectors(capacity),
        band: Sectors(BAND),
        cache_bands,
        cache_medium: Medium::Platter,
        cache_start: Pba(before * BAND),
        usable: Sectors(BAND),
        bands_for_one_write: 1,
        idle_after: aggressive.then_some(Nanos(1)),
    };
    let units = vec![BAND; 46];
    Drive { layer: Box::new(SetAssociative::new(spec)), units, bands: bands_of(capacity), unit: 64 }
}

fn fully_associative() -> Drive {
    let spec = FullyAssociativeSpec {
        capacity: Sectors(40 * BAND),
        band: Sectors(BAND),
        zone: Sectors(10 * BAND),
        free_bands: 4,
        clean_threshold: 1,
        idle_after: Some(Nanos(1)),
        start: Pba(0),
    };
    let units = vec![BAND; (spec.platter_sectors().get() / BAND) as usize];
    Drive { layer: Box::new(FullyAssociative::new(spec)), units, bands: bands_of(40 * BAND), unit: 64 }
}

/// A journal in no more medium than its places can take.
fn journaled(order: CleaningOrder) -> Drive {
    let capacity = 40 * BAND;
    let mut journal = JournalSpec {
        region: PbaExtent::default(),
        quantum: Sectors(32),
        out_of_band: Sectors(40),
        gap: Sectors(8),
        entry_max: Sectors(160),
        entry_writes: 8,
        slots: 60,
    };
    journal.region = PbaExtent::new(Pba(capacity), Sectors(journal.region_sectors()));
    let staging = PbaExtent::new(journal.region.end(), Sectors(BAND));
    let map = PbaExtent::new(staging.end(), Sectors(128));
    let units = vec![BAND; 40].into_iter().chain([journal.region.len.get(), BAND, 128]).collect();
    let stretch =
        StretchSpec { sectors: Sectors(capacity), band: Sectors(BAND), guard: Sectors(0), start: Pba(0) };
    let spec = JournaledSpec {
        bands: Bands::new(&[stretch]),
        journal,
        cache_medium: Medium::Platter,
        map_limit: Some(400),
        map_merge_every: Some(7),
        map_merge: map,
        cleaning: CleaningSpec {
            order,
            idle_after: Some(Nanos(1)),
            staging,
            map_update: PbaExtent::new(map.start, Sectors(8)),
        },
        whole_bands_bypass: true,
        bands_for_one_command: 2,
    };
    Drive { layer: Box::new(Journaled::new(spec)), units, bands: bands_of(capacity), unit: 160 }
}

/// A command of whole blocks, the drive's own sectors: what lies behind less than a block in a cache band was
/// never written, and cleaning reads it with the rest.
fn whole_blocks(command: Command, capacity: u64) -> Command {
    if command.extent.is_empty() {
        return command;
    }
    let start = command.extent.start.get() / BLOCK_SECTORS * BLOCK_SECTORS;
    let end = command.extent.end().get().next_multiple_of(BLOCK_SECTORS).min(capacity);
    Command { extent: LbaExtent::new(Lba(start), Sectors(end - start)), ..command }
}

/// Random commands, idle time in between; at the end all is read.
fn run(mut drive: Drive, width_tracks: u32, guard_tracks: u64, seed: u64, operations: u64) -> (u64, u64) {
    let mut checked = Checked::new(&drive.units, width_tracks, guard_tracks);
    let capacity = drive.layer.capacity().get();
    let sizes = Sizes { capacity, bands: drive.bands.clone(), unit: drive.unit };
    let mut host = Host::new(sizes, seed, 1 + seed % 8);
    let mut plan = Plan::default();
    while host.issued() < operations {
        host.submit_some();
        for _ in 0..if host.stream.once_in(30) { host.stream.below(20) } else { 0 } {
            plan.clear();
            if drive.layer.idle_after().is_some() && drive.layer.idle(&mut plan) == Idle::Worked {
                checked.follow(&plan);
            }
        }
        let chosen = host.choose();
        plan.clear();
        let Queue { waiting, next } = host.queue(chosen);
        let waiting: Vec<Command> = waiting.iter().map(|command| whole_blocks(*command, capacity)).collect();
        drive.layer.take(Queue { waiting: &waiting, next }, &mut plan);
        checked.follow(&plan);
        let completed: Vec<CommandId> = plan.completions().map(|(id, _)| id).collect();
        host.completed(&completed);
    }
    let all = Command::new(CommandId(u32::MAX), Op::Read, LbaExtent::new(Lba(0), Sectors(capacity)));
    plan.clear();
    drive.layer.take(Queue { waiting: &[all], next: 0 }, &mut plan);
    checked.follow(&plan);
    (checked.reads, checked.writes)
}

/// Makes a drive.
type Make = fn() -> Drive;

fn drives() -> Vec<(&'static str, Make)> {
    vec![
        ("set-associative, lazy", || set_associative(false)),
        ("set-associative, aggressive", || set_associative(true)),
        ("fully-associative", fully_associative),
        ("journaled, fifo", || journaled(CleaningOrder::Fifo)),
        ("journaled, lifo", || journaled(CleaningOrder::Lifo)),
        ("journaled, greedy", || journaled(CleaningOrder::Greedy)),
        ("journaled, random", || journaled(CleaningOrder::Random { seed: 7 })),
    ]
}

#[test]
fn no_layer_reads_what_it_destroyed() {
    for (name, drive) in drives() {
        for (seed, width_tracks) in [(1, 2), (2, 3), (3, 4), (4, 8)] {
            let (reads, writes) = run(drive(), width_tracks, u64::from(width_tracks - 1), seed, 3_000);
            println!("{name}, k = {width_tracks}: {reads} reads and {writes} writes of the medium");
        }
    }
}

#[test]
fn without_guards_every_layer_is_caught() {
    for (name, drive) in drives() {
        let caught = (1..=4)
            .filter(|&seed| catch_unwind(AssertUnwindSafe(|| run(drive(), 3, 1, seed, 3_000))).is_err());
        assert_eq!(caught.count(), 4, "{name}: a guard of one track is too little for k = 3");
    }
}
