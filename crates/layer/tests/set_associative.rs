//! The set-associative layer against a shadow that knows, for every sector, its last write and where it lies.
//!
//! The shadow learns from plans only. It keeps an image of the media in which a sector's content is the
//! number of the write and the address it was for, follows the steps one by one, and asks at each whether a
//! drive that did just this would still have all its data: nothing live is overwritten, a band is written
//! back from sectors that were read before, and what a commit says is where the image has it.

mod common;

use common::{Spot, Stream, Truth, cases, written};
use proptest::prelude::*;
use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{
    Command, CommandId, HostOp, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, SetAssociative,
    SetAssociativeSpec, Step,
};

struct Shadow {
    spec: SetAssociativeSpec,
    truth: Truth,
    /// By medium and sector: the cleaning that last read it.
    read_by: [Vec<u32>; 2],
    writes: u64,
    cleanings: u32,
}

impl Shadow {
    fn new(spec: SetAssociativeSpec) -> Self {
        let cache = spec.cache_bands * spec.band.get();
        let sectors = spec.capacity.get() + 2 * cache + spec.cache_start.get();
        // The cache on the platters pushes what lies behind it back.
        let native = |lba: u64| {
            let behind = spec.cache_medium == Medium::Platter && lba >= spec.cache_start.get();
            lba + if behind { cache } else { 0 }
        };
        Self {
            spec,
            truth: Truth::new((0..spec.capacity.get()).map(native).collect(), sectors),
            read_by: [vec![0; sectors as usize], vec![0; sectors as usize]],
            writes: 0,
            cleanings: 0,
        }
    }

    /// The host sector that is native to a place on the platters.
    fn native_of(&self, pba: u64) -> Option<u64> {
        let cache = self.spec.cache_bands * self.spec.band.get();
        [Some(pba), pba.checked_sub(cache)]
            .into_iter()
            .flatten()
            .find(|&lba| lba < self.spec.capacity.get() && self.truth.native(lba).pba == pba)
    }

    /// Follows the plan of one command, which must be complete at its end.
    fn follow(&mut self, command: Command, plan: &Plan) {
        let mut next = command.extent.start.get();
        if command.op == HostOp::Write {
            self.writes += 1;
        }
        self.cleanings += 1;
        let (complete, steps) = plan.steps().split_last().expect("a plan has steps");
        assert_eq!(*complete, Step::Complete(command.id));
        for step in steps {
            match *step {
                Step::Access { medium, direction, extent, purpose } => match (purpose, direction) {
                    (Purpose::Host | Purpose::Cache, Direction::Read) => {
                        assert_eq!(command.op, HostOp::Read);
                        next = self.truth.read(medium, extent, next);
                    }
                    (Purpose::Host | Purpose::Cache, Direction::Write) => {
                        assert_eq!(command.op, HostOp::Write);
                        next = self.write(medium, extent, next);
                    }
                    (Purpose::CleanRead, Direction::Read) => self.clean_read(medium, extent),
                    (Purpose::CleanWrite, Direction::Write) => self.clean_write(medium, extent),
                    other => panic!("{other:?} makes no sense"),
                },
                Step::Commit(MapChange::Native { lba }) if command.op == HostOp::Trim => {
                    self.truth.trim(lba);
                    next += lba.len.get();
                }
                Step::Commit(change) => self.commit(change, next),
                // The order that they stand in is one of those allowed.
                Step::AnyOrder { .. } => {}
                Step::Complete(id) => panic!("{id:?} completes before the end"),
            }
        }
        let all = if command.op == HostOp::Flush { Sectors(0) } else { command.extent.len };
        assert_eq!(next, (command.extent.start + all).get(), "what the host named was moved");
    }

    /// The host's next sectors are written where nothing is that is still wanted.
    fn write(&mut self, medium: Medium, extent: PbaExtent, first: u64) -> u64 {
        self.cleanings += 1;
        for k in 0..extent.len.get() {
            let spot = Spot { medium, pba: extent.start.get() + k };
            self.truth.write(spot, written(self.writes, first + k));
        }
        first + extent.len.get()
    }

    fn clean_read(&mut self, medium: Medium, extent: PbaExtent) {
        let (start, end) = (extent.start.get() as usize, extent.end().get() as usize);
        self.read_by[medium as usize][start..end].fill(self.cleanings);
    }

    /// A band is written back from what this cleaning has read, sector by sector from where it lies.
    fn clean_write(&mut self, medium: Medium, extent: PbaExtent) {
        assert_eq!(medium, Medium::Platter, "bands are on the platters");
        for pba in extent.start.get()..extent.end().get() {
            let lba = self.native_of(pba).unwrap_or_else(|| panic!("{pba} is no native place"));
            let source = self.truth.at(lba);
            let read_by = self.read_by[source.medium as usize][source.pba as usize];
            assert_eq!(read_by, self.cleanings, "cleaning has not read sector {lba} at {source:?}");
            self.truth.rewrite(lba, self.truth.content(source));
        }
    }

    fn commit(&mut self, change: MapChange, next: u64) {
        match change {
            MapChange::Cached { lba, pba } => {
                assert_eq!(lba.end().get(), next, "a commit is of what was just written");
                self.check_cache_band(lba, pba);
                for k in 0..lba.len.get() {
                    let sector = lba.start.get() + k;
                    let spot = Spot { medium: self.spec.cache_medium, pba: pba.get() + k };
                    self.truth.commit_write(sector, written(self.writes, sector), spot);
                }
            }
            MapChange::Native { lba } => {
                for sector in lba.start.get()..lba.end().get() {
                    self.truth.move_to(sector, self.truth.native(sector));
                }
            }
            MapChange::Remapped { lba, .. } => panic!("{lba:?} has one native location"),
        }
    }

    /// Data band `a` is cached in cache band `a mod n` and nowhere else.
    fn check_cache_band(&self, lba: LbaExtent, pba: Pba) {
        let band = self.spec.band.get();
        for (lba, pba) in [(lba.start.get(), pba.get()), (lba.end().get() - 1, (pba + lba.len).get() - 1)] {
            let cache_band = (pba - self.spec.cache_start.get()) / band;
            assert_eq!(cache_band, lba / band % self.spec.cache_bands, "cache band of sector {lba}");
        }
    }
}

/// A drive of some shape, its shadow and the buffers to drive them.
struct Pair {
    layer: SetAssociative,
    shadow: Shadow,
    stream: Stream,
    plan: Plan,
    pieces: Vec<Piece>,
    sequential: u64,
    hot: u64,
}

impl Pair {
    fn new(spec: SetAssociativeSpec, seed: u64) -> Self {
        Self {
            layer: SetAssociative::new(spec),
            shadow: Shadow::new(spec),
            stream: Stream(seed),
            plan: Plan::default(),
            pieces: Vec::new(),
            sequential: 0,
            hot: 0,
        }
    }

    /// An extent anywhere, near a few hot places, or where the last one ended; short or longer than a band.
    fn extent(&mut self) -> LbaExtent {
        let (capacity, band) = (self.shadow.spec.capacity.get(), self.shadow.spec.band.get());
        let kind = self.stream.below(100);
        let start = match kind % 10 {
            0..=4 => self.stream.below(capacity),
            5 | 6 => self.stream.below(capacity) / 8 * 8,
            7 | 8 => (self.hot + self.stream.below(40)) % capacity,
            _ => self.sequential % capacity,
        };
        let len = match kind / 10 {
            0..=4 => 8,
            5 | 6 => 1 + self.stream.below(24),
            7 => 8 * (1 + self.stream.below(8)),
            8 => 1 + self.stream.below(5),
            _ if self.stream.below(10) == 0 => 1 + self.stream.below(3 * band),
            _ => 1 + self.stream.below(band / 2 + 1),
        };
        let extent = LbaExtent::new(Lba(start), Sectors(len.min(capacity - start)));
        self.sequential = extent.end().get();
        if self.stream.below(500) == 0 {
            self.hot = self.stream.below(capacity);
        }
        extent
    }

    /// One random operation, followed and checked.
    fn step(&mut self, number: u32) {
        let kind = self.stream.below(1000);
        let extent = self.extent();
        let op = match kind {
            0..=699 => HostOp::Write,
            700..=949 => HostOp::Read,
            950..=979 => HostOp::Trim,
            _ => HostOp::Flush,
        };
        if kind == 999 && self.stream.below(20) == 0 {
            self.layer.erase();
            self.shadow.truth.erase();
        }
        if kind.is_multiple_of(2) {
            self.layer.hint(extent.start);
            self.layer.hint(Lba(self.stream.below(self.shadow.spec.capacity.get())));
        }
        let command = Command { id: CommandId(number), op, extent };
        let announced = self.layer.locate_first(extent, op == HostOp::Write);
        self.plan.clear();
        self.layer.take(Queue { waiting: &[command], next: 0 }, &mut self.plan);
        if let Some(Step::Access { medium, extent, .. }) = self.plan.steps().first() {
            assert_eq!(announced, (*medium, extent.start), "what a scheduler is told of {command:?}");
        }
        self.shadow.follow(command, &self.plan);
        self.shadow.truth.check_pieces(&self.layer, extent, &mut self.pieces);
        let other = self.extent();
        self.shadow.truth.check_pieces(&self.layer, other, &mut self.pieces);
        self.shadow.truth.check_cache_use(&self.layer);
    }

    fn run(&mut self, operations: u32) {
        for number in 0..operations {
            self.step(number);
        }
        let all = LbaExtent::new(Lba(0), self.shadow.spec.capacity);
        self.shadow.truth.check_pieces(&self.layer, all, &mut self.pieces);
    }
}

/// Small drives of every kind: cache at the OD, MD and ID and on flash, one cache band or many, a short band.
fn any_spec() -> impl Strategy<Value = SetAssociativeSpec> {
    let sizes = (1u64..24, 1u64..40, 0.0..1.0f64, 1u64..8);
    let place = prop_oneof![Just("od"), Just("md"), Just("id"), Just("id after a gap"), Just("flash")];
    (sizes, place).prop_map(|((band_blocks, bands, last, cache_bands), place)| {
        let band = 8 * band_blocks;
        let short = 1 + ((band - 1) as f64 * last) as u64;
        let capacity = (bands - 1) * band + short;
        let cache_start = match place {
            "od" | "flash" => 0,
            "md" => capacity / 2 / band * band,
            "id" => capacity,
            _ => capacity + 13,
        };
        SetAssociativeSpec {
            capacity: Sectors(capacity),
            band: Sectors(band),
            cache_bands,
            cache_medium: if place == "flash" { Medium::Flash } else { Medium::Platter },
            cache_start: Pba(cache_start),
        }
    })
}

proptest! {
    #![proptest_config(cases(400))]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(spec in any_spec(), seed in any::<u64>(), operations in 1u32..3_000) {
        Pair::new(spec, seed).run(operations);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn long_runs_keep_every_write(spec in any_spec(), seed in any::<u64>()) {
        Pair::new(spec, seed).run(100_000);
    }
}

/// A cache of many small exceptions: its map has inner nodes, and a cleaning empties it from the middle.
#[test]
fn a_large_cache_keeps_every_write() {
    for (cache_medium, cache_start) in [
        (Medium::Platter, 0),
        (Medium::Platter, 61 * 1024),
        (Medium::Platter, 200 * 1024),
        (Medium::Flash, 0),
    ] {
        let spec = SetAssociativeSpec {
            capacity: Sectors(200 * 1024 - 5),
            band: Sectors(1024),
            cache_bands: 16,
            cache_medium,
            cache_start: Pba(cache_start),
        };
        Pair::new(spec, 7 + cache_start).run(60_000);
    }
}

fn small() -> SetAssociativeSpec {
    SetAssociativeSpec {
        capacity: Sectors(6 * 64),
        band: Sectors(64),
        cache_bands: 2,
        cache_medium: Medium::Platter,
        cache_start: Pba(6 * 64),
    }
}

fn take(layer: &mut SetAssociative, op: HostOp, start: u64, len: u64) -> Vec<Step> {
    let command = Command { id: CommandId(3), op, extent: LbaExtent::new(Lba(start), Sectors(len)) };
    let mut plan = Plan::default();
    layer.take(Queue { waiting: &[command], next: 0 }, &mut plan);
    plan.steps().to_vec()
}

fn access(direction: Direction, start: u64, len: u64, purpose: Purpose) -> Step {
    let extent = PbaExtent::new(Pba(start), Sectors(len));
    Step::Access { medium: Medium::Platter, direction, extent, purpose }
}

/// The plan of a cleaning, step by step: bands 1 and 5 share cache band 1, band 3 has nothing in it.
#[test]
fn a_cleaning_reads_the_cache_band_once_and_writes_back_each_band_that_is_in_it() {
    let mut layer = SetAssociative::new(small());
    take(&mut layer, HostOp::Write, 64, 40);
    take(&mut layer, HostOp::Write, 5 * 64 + 8, 24);
    let steps = take(&mut layer, HostOp::Write, 64 + 3, 2);
    let cache = 7 * 64;
    let native = |band: u64| MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) };
    let cached = MapChange::Cached { lba: LbaExtent::new(Lba(64 + 3), Sectors(2)), pba: Pba(cache) };
    let expected = [
        access(Direction::Read, cache, 64, Purpose::CleanRead),
        access(Direction::Read, 64, 64, Purpose::CleanRead),
        access(Direction::Write, 64, 64, Purpose::CleanWrite),
        Step::Commit(native(1)),
        access(Direction::Read, 5 * 64, 64, Purpose::CleanRead),
        access(Direction::Write, 5 * 64, 64, Purpose::CleanWrite),
        Step::Commit(native(5)),
        access(Direction::Write, cache, 2, Purpose::Cache),
        Step::Commit(cached),
        Step::Complete(CommandId(3)),
    ];
    assert_eq!(steps, expected);
}

/// The next write to a full cache band begins with its cleaning, not behind its end.
#[test]
fn a_scheduler_is_told_where_a_write_begins() {
    let mut layer = SetAssociative::new(small());
    let block = LbaExtent::new(Lba(64), Sectors(8));
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64)));
    take(&mut layer, HostOp::Write, 64, 56);
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64 + 56)));
    take(&mut layer, HostOp::Write, 64, 8);
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64)));
}

#[test]
fn an_erased_drive_appends_from_the_start_of_its_cache() {
    let mut layer = SetAssociative::new(small());
    take(&mut layer, HostOp::Write, 64, 40);
    layer.erase();
    assert_eq!(layer.cache_use().live_sectors, 0);
    let steps = take(&mut layer, HostOp::Write, 64, 8);
    assert_eq!(steps[0], access(Direction::Write, 7 * 64, 8, Purpose::Cache));
}

#[test]
fn a_flush_moves_nothing_and_a_drive_left_alone_does_nothing() {
    let mut layer = SetAssociative::new(small());
    assert_eq!(take(&mut layer, HostOp::Flush, 0, 0), [Step::Complete(CommandId(3))]);
    take(&mut layer, HostOp::Write, 64, 40);
    let mut plan = Plan::default();
    assert_eq!(layer.idle(&mut plan), skylight_layer::Idle::Nothing);
    assert!(plan.steps().is_empty(), "cleaning is lazy");
}
