//! The set-associative layer against a shadow that knows, for every sector, its last write and where it lies.
//!
//! The shadow learns from plans only. It keeps an image of the media in which a sector's content is the
//! number of the write and the address it was for, follows the steps one by one, and asks at each whether a
//! drive that did just this would still have all its data: nothing live is overwritten, a band is written
//! back from sectors that were read before, and what a commit says is where the image has it.

use proptest::prelude::*;
use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{
    Command, CommandId, HostOp, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, SetAssociative,
    SetAssociativeSpec, Step,
};

/// No host address.
const NOBODY: u32 = u32::MAX;

/// SplitMix64: a stream of operations from one number.
struct Stream(u64);

impl Stream {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// One sector of one medium.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Spot {
    medium: Medium,
    pba: u64,
}

/// What lies on a medium, by sector.
struct Image {
    /// Number of the write in the high half, host address in the low one.
    content: Vec<u64>,
    /// The host address that is to be found here.
    owner: Vec<u32>,
    /// The cleaning that last read it.
    read_by: Vec<u32>,
}

struct Shadow {
    spec: SetAssociativeSpec,
    media: [Image; 2],
    /// By host sector: content of its last write, and where commits put it.
    last: Vec<u64>,
    at: Vec<Spot>,
    cached: u64,
    writes: u64,
    cleanings: u32,
}

impl Shadow {
    fn new(spec: SetAssociativeSpec) -> Self {
        let cache = spec.cache_bands * spec.band.get();
        let sectors = (spec.capacity.get() + 2 * cache + spec.cache_start.get()) as usize;
        let image = || Image {
            content: vec![u64::MAX; sectors],
            owner: vec![NOBODY; sectors],
            read_by: vec![0; sectors],
        };
        let mut shadow = Self {
            spec,
            media: [image(), image()],
            last: Vec::new(),
            at: Vec::new(),
            cached: 0,
            writes: 0,
            cleanings: 0,
        };
        shadow.erase();
        shadow
    }

    /// A new drive: every sector at its native place.
    fn erase(&mut self) {
        for image in &mut self.media {
            image.owner.fill(NOBODY);
        }
        let capacity = self.spec.capacity.get();
        self.last = (0..capacity).collect();
        self.at = (0..capacity).map(|lba| self.native(lba)).collect();
        self.cached = 0;
        for lba in 0..capacity {
            let image = &mut self.media[Medium::Platter as usize];
            let native = self.at[lba as usize].pba as usize;
            (image.content[native], image.owner[native]) = (lba, lba as u32);
        }
    }

    /// The native place of a sector: the cache on the platters pushes what lies behind it back.
    fn native(&self, lba: u64) -> Spot {
        let spec = &self.spec;
        let behind = spec.cache_medium == Medium::Platter && lba >= spec.cache_start.get();
        let pushed = if behind { spec.cache_bands * spec.band.get() } else { 0 };
        Spot { medium: Medium::Platter, pba: lba + pushed }
    }

    /// The host sector that is native to a place on the platters.
    fn native_of(&self, pba: u64) -> Option<u64> {
        let cache = self.spec.cache_bands * self.spec.band.get();
        [Some(pba), pba.checked_sub(cache)]
            .into_iter()
            .flatten()
            .find(|&lba| lba < self.spec.capacity.get() && self.native(lba).pba == pba)
    }

    fn image(&mut self, medium: Medium) -> &mut Image {
        &mut self.media[medium as usize]
    }

    fn content(&self, spot: Spot) -> u64 {
        self.media[spot.medium as usize].content[spot.pba as usize]
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
                        next = self.read(medium, extent, next);
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
                    self.trim(lba);
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

    /// The host gets the sectors of its extent in order, each as it was last written.
    fn read(&self, medium: Medium, extent: PbaExtent, first: u64) -> u64 {
        for k in 0..extent.len.get() {
            let spot = Spot { medium, pba: extent.start.get() + k };
            let lba = (first + k) as usize;
            assert_eq!(self.at[lba], spot, "sector {lba} is read where it lies");
            assert_eq!(self.content(spot), self.last[lba], "sector {lba} is as it was written");
        }
        first + extent.len.get()
    }

    /// The host's next sectors are written where nothing is that is still wanted.
    fn write(&mut self, medium: Medium, extent: PbaExtent, first: u64) -> u64 {
        self.cleanings += 1;
        let number = self.writes;
        for k in 0..extent.len.get() {
            let (pba, lba) = ((extent.start.get() + k) as usize, first + k);
            let image = self.image(medium);
            assert_eq!(image.owner[pba], NOBODY, "the write of {lba} destroys a sector at {medium:?} {pba}");
            image.content[pba] = number << 32 | lba;
        }
        first + extent.len.get()
    }

    fn clean_read(&mut self, medium: Medium, extent: PbaExtent) {
        let cleaning = self.cleanings;
        let (start, end) = (extent.start.get() as usize, extent.end().get() as usize);
        self.image(medium).read_by[start..end].fill(cleaning);
    }

    /// A band is written back from what this cleaning has read, sector by sector from where it lies.
    fn clean_write(&mut self, medium: Medium, extent: PbaExtent) {
        assert_eq!(medium, Medium::Platter, "bands are on the platters");
        for pba in extent.start.get()..extent.end().get() {
            let lba = self.native_of(pba).unwrap_or_else(|| panic!("{pba} is no native place")) as usize;
            let source = self.at[lba];
            let image = &self.media[source.medium as usize];
            let read_by = image.read_by[source.pba as usize];
            assert_eq!(read_by, self.cleanings, "cleaning has not read sector {lba} at {source:?}");
            let content = self.content(source);
            let image = self.image(Medium::Platter);
            let owner = image.owner[pba as usize];
            assert!(owner == NOBODY || owner as usize == lba, "cleaning of {lba} destroys {owner}");
            image.content[pba as usize] = content;
        }
    }

    fn commit(&mut self, change: MapChange, next: u64) {
        match change {
            MapChange::Cached { lba, pba } => {
                assert_eq!(lba.end().get(), next, "a commit is of what was just written");
                self.check_cache_band(lba, pba);
                for k in 0..lba.len.get() {
                    let sector = lba.start.get() + k;
                    self.last[sector as usize] = self.writes << 32 | sector;
                    self.move_to(sector, Spot { medium: self.spec.cache_medium, pba: pba.get() + k });
                }
            }
            MapChange::Native { lba } => {
                for sector in lba.start.get()..lba.end().get() {
                    self.move_to(sector, self.native(sector));
                }
            }
            MapChange::Remapped { lba, .. } => panic!("{lba:?} has one native location"),
        }
    }

    /// What was trimmed may be anything: it is what its native place holds.
    fn trim(&mut self, extent: LbaExtent) {
        for sector in extent.start.get()..extent.end().get() {
            let native = self.native(sector);
            self.last[sector as usize] = self.content(native);
            self.move_to(sector, native);
        }
    }

    fn move_to(&mut self, sector: u64, spot: Spot) {
        let native = self.native(sector);
        let from = std::mem::replace(&mut self.at[sector as usize], spot);
        self.cached += u64::from(spot != native);
        self.cached -= u64::from(from != native);
        self.image(from.medium).owner[from.pba as usize] = NOBODY;
        let image = self.image(spot.medium);
        assert_eq!(image.owner[spot.pba as usize], NOBODY, "two sectors live at {spot:?}");
        image.owner[spot.pba as usize] = sector as u32;
        assert_eq!(self.content(spot), self.last[sector as usize], "sector {sector} is at {spot:?}");
    }

    /// Data band `a` is cached in cache band `a mod n` and nowhere else.
    fn check_cache_band(&self, lba: LbaExtent, pba: Pba) {
        let band = self.spec.band.get();
        for (lba, pba) in [(lba.start.get(), pba.get()), (lba.end().get() - 1, (pba + lba.len).get() - 1)] {
            let cache_band = (pba - self.spec.cache_start.get()) / band;
            assert_eq!(cache_band, lba / band % self.spec.cache_bands, "cache band of sector {lba}");
        }
    }

    /// What the layer says of an extent is where commits have put it, in order and without a gap.
    fn check_pieces(&self, layer: &SetAssociative, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.clear();
        layer.locate(extent, pieces);
        let mut next = extent.start.get();
        for piece in &*pieces {
            assert!(!piece.extent.is_empty(), "an empty piece of {extent:?}: {pieces:?}");
            for k in 0..piece.extent.len.get() {
                let spot = Spot { medium: piece.medium, pba: piece.extent.start.get() + k };
                assert_eq!(self.at[next as usize], spot, "sector {next} is located");
                assert_eq!(piece.cached, spot != self.native(next), "sector {next} is cached or not");
                next += 1;
            }
        }
        assert_eq!(next, extent.end().get(), "pieces of {extent:?} cover it: {pieces:?}");
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
            self.shadow.erase();
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
        self.shadow.check_pieces(&self.layer, extent, &mut self.pieces);
        let other = self.extent();
        self.shadow.check_pieces(&self.layer, other, &mut self.pieces);
        assert_eq!(self.layer.cache_use().live_sectors, self.shadow.cached);
    }

    fn run(&mut self, operations: u32) {
        for number in 0..operations {
            self.step(number);
        }
        let all = LbaExtent::new(Lba(0), self.shadow.spec.capacity);
        self.shadow.check_pieces(&self.layer, all, &mut self.pieces);
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
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(spec in any_spec(), seed in any::<u64>(), operations in 1u32..3_000) {
        Pair::new(spec, seed).run(operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

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
