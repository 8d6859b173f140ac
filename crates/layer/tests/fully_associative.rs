//! The fully-associative layer against a shadow that knows, for every sector, its last write and where it lies.
//!
//! The shadow learns from plans only. It keeps an image of the platters in which a sector's content is the
//! number of the write and the address it was for, follows the steps one by one, and asks at each whether a
//! drive that did just this would still have all its data: nothing live is overwritten, nor anything behind a
//! write in its physical band (shingling); a merged band is made of what its cleaning read, as it was when it
//! was read; and what a commit says is where the image has it.

use std::collections::BTreeMap;

use proptest::prelude::*;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::{
    Command, CommandId, FullyAssociative, FullyAssociativeSpec, HostOp, Idle, Layer, MapChange, Medium,
    Piece, Plan, Purpose, Queue, Step,
};

/// No host address.
const NOBODY: u32 = u32::MAX;
/// What a place holds of which nothing is known.
const GARBAGE: u64 = u64::MAX;

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

/// What the cleaning of a zone has read, by place, and a merged band that it wrote of that.
#[derive(Default)]
struct Merge {
    read: BTreeMap<u64, u64>,
    written: Option<(PbaExtent, BTreeMap<u64, u64>)>,
}

struct Shadow {
    spec: FullyAssociativeSpec,
    /// Sectors from one zone to the next on the platters.
    pitch: u64,
    /// By place: number of the write in the high half, host address in the low one.
    content: Vec<u64>,
    /// By place: the host address that is to be found there.
    owner: Vec<u32>,
    /// By host sector: content of its last write, where commits put it, and where it is without exceptions.
    last: Vec<u64>,
    at: Vec<u64>,
    native: Vec<u64>,
    merges: Vec<Merge>,
    cached: u64,
    writes: u64,
}

impl Shadow {
    fn new(layer: &FullyAssociative, spec: FullyAssociativeSpec) -> Self {
        let bands = spec.zone.get().div_ceil(spec.band.get()) + u64::from(spec.free_bands);
        let sectors = (spec.start.get() + spec.platter_sectors().get()) as usize;
        let mut shadow = Self {
            spec,
            pitch: bands * spec.band.get(),
            content: vec![GARBAGE; sectors],
            owner: vec![NOBODY; sectors],
            last: Vec::new(),
            at: Vec::new(),
            native: Vec::new(),
            merges: Vec::new(),
            cached: 0,
            writes: 0,
        };
        shadow.erase(layer);
        shadow
    }

    /// A new drive: every sector where the layer says, which rises with its address.
    fn erase(&mut self, layer: &FullyAssociative) {
        let mut pieces = Vec::new();
        layer.locate(LbaExtent::new(Lba(0), self.spec.capacity), &mut pieces);
        let places = |piece: &Piece| piece.extent.start.get()..piece.extent.end().get();
        self.native = pieces.iter().flat_map(places).collect();
        assert_eq!(self.native.len() as u64, self.spec.capacity.get());
        assert!(self.native.is_sorted_by(|a, b| a < b), "a new drive is in order");
        self.content.fill(GARBAGE);
        self.owner.fill(NOBODY);
        self.at.clone_from(&self.native);
        self.last = (0..self.spec.capacity.get()).collect();
        for (lba, &pba) in self.native.iter().enumerate() {
            (self.content[pba as usize], self.owner[pba as usize]) = (lba as u64, lba as u32);
        }
        self.merges = (0..layer.zones()).map(|_| Merge::default()).collect();
        self.cached = 0;
    }

    fn zone_of(&self, pba: u64) -> usize {
        ((pba - self.spec.start.get()) / self.pitch) as usize
    }

    /// Follows the plan of the commands that it completes, which it returns.
    fn follow(&mut self, waiting: &[Command], plan: &Plan) -> Vec<CommandId> {
        let complete = |step: &Step| if let Step::Complete(id) = step { Some(*id) } else { None };
        let completed: Vec<CommandId> = plan.steps().iter().filter_map(complete).collect();
        let named = |id: &CommandId| *waiting.iter().find(|c| c.id == *id).expect("a waiting command");
        let commands: Vec<Command> = completed.iter().map(named).collect();
        let op = commands.first().map(|command| command.op);
        self.writes += 1;
        let first = commands.first().map_or(0, |command| command.extent.start.get());
        let mut next = first;
        let mut any_order = 0;
        for step in plan.steps() {
            match *step {
                Step::Access { medium, direction, extent, purpose } => {
                    assert_eq!(medium, Medium::Platter);
                    match (purpose, direction) {
                        (Purpose::Host | Purpose::Cache, Direction::Read) if op == Some(HostOp::Read) => {
                            next = self.read(extent, next);
                        }
                        (Purpose::Host | Purpose::Cache, Direction::Write) if op == Some(HostOp::Write) => {
                            next = self.write(extent, next);
                        }
                        (Purpose::CleanRead, Direction::Read) => self.clean_read(extent, any_order == 0),
                        (Purpose::CleanWrite, Direction::Write) => self.clean_write(extent),
                        other => panic!("{other:?} makes no sense in a plan of {op:?}"),
                    }
                    any_order = u32::saturating_sub(any_order, 1);
                }
                Step::AnyOrder { accesses } => any_order = accesses,
                Step::Commit(change) => self.commit(change, next),
                Step::Complete(_) => {}
            }
        }
        if matches!(op, Some(HostOp::Read | HostOp::Write)) {
            for command in &commands {
                assert_eq!(command.op, op.expect("there are commands"));
                self.check_done(*command);
            }
            let end = commands.last().map_or(0, |command| command.extent.end().get());
            assert_eq!(next, end, "the accesses of {commands:?} cover them: {:?}", plan.steps());
        } else {
            assert!(commands.len() <= 1);
        }
        completed
    }

    /// All that a write wrote was committed.
    fn check_done(&self, command: Command) {
        if command.op == HostOp::Write {
            for lba in command.extent.start.get()..command.extent.end().get() {
                assert_eq!(self.last[lba as usize] >> 32, self.writes, "sector {lba} was not committed");
            }
        }
    }

    fn read(&self, extent: PbaExtent, first: u64) -> u64 {
        for k in 0..extent.len.get() {
            let (pba, lba) = (extent.start.get() + k, (first + k) as usize);
            assert_eq!(self.at[lba], pba, "sector {lba} is read where it lies");
            assert_eq!(self.content[pba as usize], self.last[lba], "sector {lba} is as it was written");
        }
        first + extent.len.get()
    }

    /// Nothing that is still wanted lies in the extent or behind it in its physical band.
    fn check_room(&self, extent: PbaExtent) {
        let (start, band) = (extent.start.get(), self.spec.band.get());
        let slot = (start - self.spec.start.get()) / band;
        let end = self.spec.start.get() + (slot + 1) * band;
        assert!(extent.end().get() <= end, "{extent:?} is in one physical band");
        for pba in start..end {
            assert_eq!(self.owner[pba as usize], NOBODY, "the write of {extent:?} destroys {pba}");
        }
    }

    fn write(&mut self, extent: PbaExtent, first: u64) -> u64 {
        self.check_room(extent);
        let zone = self.zone_of(extent.start.get());
        let overlaps = |other: PbaExtent| other.start < extent.end() && extent.start < other.end();
        self.merges[zone].written.take_if(|(merged, _)| overlaps(*merged));
        for k in 0..extent.len.get() {
            self.content[(extent.start.get() + k) as usize] = self.writes << 32 | (first + k);
        }
        first + extent.len.get()
    }

    /// What is not any of the exceptions is the band itself, with which a merge begins.
    fn clean_read(&mut self, extent: PbaExtent, begins: bool) {
        let zone = self.zone_of(extent.start.get());
        let merge = &mut self.merges[zone];
        if begins {
            merge.read.clear();
        }
        for pba in extent.start.get()..extent.end().get() {
            merge.read.insert(pba, self.content[pba as usize]);
        }
    }

    fn clean_write(&mut self, extent: PbaExtent) {
        self.check_room(extent);
        self.content[extent.start.get() as usize..extent.end().get() as usize].fill(GARBAGE);
        let zone = self.zone_of(extent.start.get());
        let merge = &mut self.merges[zone];
        merge.written = Some((extent, std::mem::take(&mut merge.read)));
    }

    fn commit(&mut self, change: MapChange, next: u64) {
        match change {
            MapChange::Cached { lba, pba } => {
                assert_eq!(lba.end().get(), next, "a commit is of what was just written");
                for k in 0..lba.len.get() {
                    let sector = lba.start.get() + k;
                    self.last[sector as usize] = self.writes << 32 | sector;
                    self.move_to(sector, pba.get() + k);
                }
            }
            MapChange::Native { lba } => {
                for sector in lba.start.get()..lba.end().get() {
                    // What was trimmed may be anything: it is what its place holds.
                    let native = self.native[sector as usize];
                    self.last[sector as usize] = self.content[native as usize];
                    self.move_to(sector, native);
                }
            }
            MapChange::Remapped { lba, pba } => self.remap(lba, pba),
        }
    }

    fn remap(&mut self, lba: LbaExtent, pba: Pba) {
        let zone = self.zone_of(pba.get());
        assert_eq!(lba.start.get() / self.spec.zone.get(), zone as u64, "a band stays in its zone");
        let merged = self.merges[zone].written.take_if(|(extent, _)| extent.start == pba);
        for k in 0..lba.len.get() {
            let (sector, place) = (lba.start.get() + k, pba.get() + k);
            if let Some((extent, read)) = &merged {
                assert_eq!(extent.len, lba.len);
                let from = self.at[sector as usize];
                let content = read.get(&from).unwrap_or_else(|| panic!("{sector} at {from} was not read"));
                self.content[place as usize] = *content;
            } else if self.content[place as usize] == self.writes << 32 | sector {
                self.last[sector as usize] = self.content[place as usize];
            }
            self.cached -= u64::from(self.at[sector as usize] != self.native[sector as usize]);
            self.native[sector as usize] = place;
            self.cached += u64::from(self.at[sector as usize] != place);
            self.move_to(sector, place);
        }
    }

    fn move_to(&mut self, sector: u64, pba: u64) {
        let native = self.native[sector as usize];
        let from = std::mem::replace(&mut self.at[sector as usize], pba);
        self.cached += u64::from(pba != native);
        self.cached -= u64::from(from != native);
        if self.owner[from as usize] == sector as u32 {
            self.owner[from as usize] = NOBODY;
        }
        assert_eq!(self.owner[pba as usize], NOBODY, "two sectors live at {pba}");
        self.owner[pba as usize] = sector as u32;
        assert_eq!(self.content[pba as usize], self.last[sector as usize], "sector {sector} is at {pba}");
    }

    /// What the layer says of an extent is where commits have put it, in order and without a gap.
    fn check_pieces(&self, layer: &FullyAssociative, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.clear();
        layer.locate(extent, pieces);
        let mut next = extent.start.get();
        for piece in &*pieces {
            assert!(!piece.extent.is_empty(), "an empty piece of {extent:?}: {pieces:?}");
            for pba in piece.extent.start.get()..piece.extent.end().get() {
                assert_eq!(self.at[next as usize], pba, "sector {next} is located");
                let cached = pba != self.native[next as usize];
                assert_eq!(piece.cached, cached, "sector {next} is cached or not");
                next += 1;
            }
        }
        assert_eq!(next, extent.end().get(), "pieces of {extent:?} cover it: {pieces:?}");
        let (medium, first) = layer.locate_first(extent, false);
        assert_eq!((medium, first.get()), (Medium::Platter, self.at[extent.start.get() as usize]));
    }

    /// Each physical band is the place of one logical band, or holds exceptions, or nothing.
    fn check_bands(&self, layer: &FullyAssociative) {
        let band = self.spec.band.get();
        let mut holds: BTreeMap<u64, (Option<(u64, u64)>, u64)> = BTreeMap::new();
        for (sector, (&at, &native)) in self.at.iter().zip(&self.native).enumerate() {
            let in_zone = sector as u64 % self.spec.zone.get();
            let logical = (sector as u64 / self.spec.zone.get(), in_zone / band);
            let slot = |pba: u64| (pba - self.spec.start.get()) / band;
            let owner = holds.entry(slot(native)).or_insert((Some(logical), sector as u64));
            assert_eq!(owner.0, Some(logical), "{sector} and {} share a physical band", owner.1);
            if at != native {
                let owner = holds.entry(slot(at)).or_insert((None, sector as u64));
                assert_eq!(owner.0, None, "exception {sector} and {} share a physical band", owner.1);
            }
        }
        for zone in 0..layer.zones() {
            let place = layer.zone_use(zone);
            assert_eq!(place.free + place.logs + place.held, self.spec.free_bands, "zone {zone}: {place:?}");
        }
        layer.audit().expect("the layer's own view");
    }
}

/// A drive of some shape, its shadow and the buffers to drive them.
struct Pair {
    layer: FullyAssociative,
    shadow: Shadow,
    stream: Stream,
    plan: Plan,
    pieces: Vec<Piece>,
    waiting: Vec<Command>,
    depth: usize,
    sequential: u64,
    hot: u64,
    submitted: u32,
    full_checks_every: u64,
}

impl Pair {
    fn new(spec: FullyAssociativeSpec, seed: u64, depth: usize) -> Self {
        let layer = FullyAssociative::new(spec);
        Self {
            shadow: Shadow::new(&layer, spec),
            layer,
            stream: Stream(seed),
            plan: Plan::default(),
            pieces: Vec::new(),
            waiting: Vec::new(),
            depth,
            sequential: 0,
            hot: 0,
            submitted: 0,
            full_checks_every: 50,
        }
    }

    /// An extent anywhere, near a few hot places, from the start of a band on, or where the last one ended;
    /// short or longer than a band.
    fn extent(&mut self) -> LbaExtent {
        let spec = self.shadow.spec;
        let (capacity, band) = (spec.capacity.get(), spec.band.get());
        let kind = self.stream.below(100);
        let start = match kind % 10 {
            0..=2 => self.stream.below(capacity),
            3 => self.stream.below(capacity) / 8 * 8,
            4 => (self.hot + self.stream.below(40)) % capacity,
            5 => {
                let zone = self.stream.below(self.layer.zones() as u64) * spec.zone.get();
                (zone + self.stream.below(spec.zone.get()) / band * band) % capacity
            }
            _ => self.sequential % capacity,
        };
        let len = match kind / 10 {
            0..=3 => 8,
            4 | 5 => 1 + self.stream.below(24),
            6 => 8 * (1 + self.stream.below(8)),
            7 => 1 + self.stream.below(5),
            8 => 1 + self.stream.below(band),
            _ if self.stream.below(10) == 0 => 1 + self.stream.below(3 * band),
            _ => band,
        };
        let extent = LbaExtent::new(Lba(start), Sectors(len.min(capacity - start)));
        if self.stream.below(500) == 0 {
            self.hot = self.stream.below(capacity);
        }
        extent
    }

    fn submit(&mut self) {
        let extent = self.extent();
        let op = match self.stream.below(1000) {
            0..=699 => HostOp::Write,
            700..=929 => HostOp::Read,
            930..=979 => HostOp::Trim,
            _ => HostOp::Flush,
        };
        if op == HostOp::Write {
            self.sequential = extent.end().get();
        }
        self.submitted += 1;
        self.waiting.push(Command { id: CommandId(self.submitted), op, extent });
    }

    /// One random operation, followed and checked.
    fn step(&mut self) {
        if self.stream.below(2_000) == 0 {
            self.waiting.clear();
            self.layer.erase();
            self.shadow.erase(&self.layer);
        }
        if self.stream.below(10) == 0 {
            for _ in 0..self.stream.below(8) {
                self.idle();
            }
        }
        while self.waiting.len() < self.depth {
            self.submit();
        }
        let next = if self.stream.below(2) == 0 { 0 } else { self.stream.below(self.depth as u64) as usize };
        let Command { op, extent, .. } = self.waiting[next];
        if self.stream.below(2) == 0 {
            self.layer.hint(extent.start);
            self.layer.hint(Lba(self.stream.below(self.shadow.spec.capacity.get())));
        }
        let announced = self.layer.locate_first(extent, op == HostOp::Write);
        // A write may take the free band of a cleaning that it ends, which a scheduler is not told.
        let held = (0..self.layer.zones()).any(|zone| self.layer.zone_use(zone).held > 0);
        self.plan.clear();
        self.layer.take(Queue { waiting: &self.waiting, next }, &mut self.plan);
        if let (1, Some(Step::Access { medium, extent, purpose, .. })) =
            (self.depth, self.plan.steps().first())
            && !matches!(purpose, Purpose::CleanRead | Purpose::CleanWrite)
            && !held
        {
            assert_eq!(announced, (*medium, extent.start), "what a scheduler is told of {op:?}");
        }
        let completed = self.shadow.follow(&self.waiting, &self.plan);
        assert!(!completed.is_empty(), "a command is taken");
        self.waiting.retain(|command| !completed.contains(&command.id));
        self.check(extent);
    }

    fn idle(&mut self) {
        self.plan.clear();
        let before = self.layer.cache_use().live_sectors;
        let worked = self.layer.idle(&mut self.plan);
        let lazy = self.shadow.spec.idle_after.is_none();
        assert_eq!(worked == Idle::Nothing, lazy || before == 0, "idle with {before} sectors in the cache");
        let completed = self.shadow.follow(&[], &self.plan);
        assert!(completed.is_empty());
    }

    fn check(&mut self, extent: LbaExtent) {
        self.shadow.check_pieces(&self.layer, extent, &mut self.pieces);
        let other = self.extent();
        self.shadow.check_pieces(&self.layer, other, &mut self.pieces);
        assert_eq!(self.layer.cache_use().live_sectors, self.shadow.cached);
        if self.stream.below(self.full_checks_every) == 0 {
            self.check_all();
        }
    }

    fn check_all(&mut self) {
        let all = LbaExtent::new(Lba(0), self.shadow.spec.capacity);
        self.shadow.check_pieces(&self.layer, all, &mut self.pieces);
        self.shadow.check_bands(&self.layer);
    }

    fn run(&mut self, operations: u32) {
        for _ in 0..operations {
            self.step();
        }
        self.check_all();
    }
}

/// Small drives of every kind: bands of whole blocks or not, zones of whole bands or not, short last ones, one
/// log a zone or many.
fn any_spec() -> impl Strategy<Value = FullyAssociativeSpec> {
    let sizes = (1u64..150, 1u64..16, 1u64..5, 0.0..1.0f64, any::<bool>(), any::<bool>());
    let free = (2u32..8).prop_flat_map(|free| (Just(free), 1..free));
    (sizes, free, any::<bool>(), 0u64..50).prop_map(|(sizes, (free_bands, clean_threshold), idle, start)| {
        let (band, bands, zones, cut, blocks, whole) = sizes;
        let band = if blocks { band.next_multiple_of(8) } else { band };
        let part = |all: u64| (all as f64 * cut) as u64;
        let zone = bands * band - if whole { 0 } else { part(band) };
        FullyAssociativeSpec {
            capacity: Sectors((zones * zone - part(zone)).max(1)),
            band: Sectors(band),
            zone: Sectors(zone),
            free_bands,
            clean_threshold,
            idle_after: idle.then_some(Nanos(1)),
            start: Pba(start),
        }
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, failure_persistence: None, ..ProptestConfig::default() })]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(
        spec in any_spec(),
        seed in any::<u64>(),
        depth in 1usize..8,
        operations in 1u32..1_500,
    ) {
        Pair::new(spec, seed, depth).run(operations);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn long_runs_keep_every_write(spec in any_spec(), seed in any::<u64>(), depth in 1usize..4) {
        Pair::new(spec, seed, depth).run(30_000);
    }
}

/// Many small exceptions: their map has inner nodes, and cleaning empties it from the middle.
#[test]
fn large_zones_keep_every_write() {
    for (seed, depth) in [(1, 1), (2, 1), (3, 4)] {
        let spec = FullyAssociativeSpec {
            capacity: Sectors(2 * 150 * 1024 - 5),
            band: Sectors(1024),
            zone: Sectors(150 * 1024),
            free_bands: 100,
            clean_threshold: 1,
            idle_after: if seed == 2 { Some(Nanos(1)) } else { None },
            start: Pba(77),
        };
        let mut pair = Pair::new(spec, seed, depth);
        pair.full_checks_every = 2_000;
        pair.run(60_000);
    }
}

const MIB: u64 = 2048;

/// The drive of Skylight, table 1.
fn emulated_smr_3() -> FullyAssociativeSpec {
    FullyAssociativeSpec {
        capacity: Sectors(3_900_000_000_000 / 4096 * 8),
        band: Sectors(20 * MIB),
        zone: Sectors(40 * 1024 * MIB),
        free_bands: 21,
        clean_threshold: 1,
        idle_after: Some(Nanos(1_000_000_000)),
        start: Pba(0),
    }
}

/// Four bands of 64 sectors in a zone, two zones.
fn small() -> FullyAssociativeSpec {
    FullyAssociativeSpec {
        capacity: Sectors(8 * 64),
        band: Sectors(64),
        zone: Sectors(4 * 64),
        free_bands: 4,
        clean_threshold: 1,
        idle_after: Some(Nanos(1)),
        start: Pba(0),
    }
}

fn write(number: u32, start: u64, len: u64) -> Command {
    let extent = LbaExtent::new(Lba(start), Sectors(len));
    Command { id: CommandId(number), op: HostOp::Write, extent }
}

fn take(layer: &mut FullyAssociative, waiting: &[Command], next: usize) -> Vec<Step> {
    let mut plan = Plan::default();
    layer.take(Queue { waiting, next }, &mut plan);
    plan.steps().to_vec()
}

fn idle(layer: &mut FullyAssociative) -> Vec<Step> {
    let mut plan = Plan::default();
    layer.idle(&mut plan);
    plan.steps().to_vec()
}

fn access(direction: Direction, start: u64, len: u64, purpose: Purpose) -> Step {
    let extent = PbaExtent::new(Pba(start), Sectors(len));
    Step::Access { medium: Medium::Platter, direction, extent, purpose }
}

fn remapped(start: u64, pba: u64) -> Step {
    let lba = LbaExtent::new(Lba(start), Sectors(64));
    Step::Commit(MapChange::Remapped { lba, pba: Pba(pba) })
}

/// FACTS S8b: random blocks on the drive of table 1 until a write has to clean first; 95 % in the paper.
#[test]
fn random_writes_fill_the_free_bands_before_one_has_to_clean() {
    let spec = emulated_smr_3();
    let mut layer = FullyAssociative::new(spec);
    let mut stream = Stream(1);
    let mut ahead = [0u64; 8].map(|_| stream.below(spec.capacity.get() / 8) * 8);
    let mut plan = Plan::default();
    let mut writes = 0u64;
    loop {
        let slot = (writes % 8) as usize;
        let next = std::mem::replace(&mut ahead[slot], stream.below(spec.capacity.get() / 8) * 8);
        layer.hint(Lba(ahead[slot]));
        plan.clear();
        layer.take(Queue { waiting: &[write(0, next, 8)], next: 0 }, &mut plan);
        let cleaning = |step: &Step| matches!(step, Step::Access { purpose: Purpose::CleanRead, .. });
        if plan.steps().iter().any(cleaning) {
            break;
        }
        writes += 1;
    }
    let configured = layer.zones() as u64 * u64::from(spec.free_bands) * spec.band.get() / 8;
    let part = writes as f64 / configured as f64;
    println!("{writes} writes, {:.2} % of {configured} blocks", 100.0 * part);
    assert!((0.92..0.98).contains(&part), "{writes} writes are {part} of the free space");
    assert!(layer.cache_use().map_bytes < 16 * writes, "{:?} after {writes}", layer.cache_use());
}

/// "Streaming writes with zero overhead": each band is written once, to a free one.
#[test]
fn a_stream_is_written_once() {
    let spec = emulated_smr_3();
    let mut layer = FullyAssociative::new(spec);
    let mut remapped = 0;
    for number in 0..3 * 40 * 1024u64 {
        let steps = take(&mut layer, &[write(7, number * MIB, MIB)], 0);
        let mut written = 0;
        for step in &steps {
            match step {
                Step::Access { direction: Direction::Write, extent, purpose: Purpose::Host, .. } => {
                    written += extent.len.get();
                }
                Step::Commit(MapChange::Remapped { .. }) => remapped += 1,
                Step::Commit(MapChange::Cached { .. }) | Step::Complete(CommandId(7)) => {}
                other => panic!("{other:?} in the plan of a stream"),
            }
        }
        assert_eq!(written, MIB);
    }
    assert_eq!(remapped, 3 * 2048);
    assert_eq!(layer.cache_use().live_sectors, 0);
    layer.audit().expect("the layer's own view");
}

/// Writes that wait and cover a band become one access, whichever of them the scheduler chose; the slots of
/// the small drive are band 0, free, band 1, free and so on.
#[test]
fn waiting_writes_that_cover_a_band_go_to_a_free_one_together() {
    let mut layer = FullyAssociative::new(small());
    let waiting = [write(1, 300, 8), write(2, 64, 24), write(3, 88, 24), write(4, 112, 20), write(5, 0, 8)];
    let steps = take(&mut layer, &waiting, 2);
    let first = layer.locate_first(LbaExtent::new(Lba(64), Sectors(1)), false).1.get();
    let expected = [
        access(Direction::Write, first, 64, Purpose::Host),
        remapped(64, first),
        access(Direction::Write, 0, 4, Purpose::Host),
    ];
    assert_eq!(steps[..2], expected[..2]);
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Complete(_))).count(), 3);
    let covered = |step: &&Step| matches!(step, Step::Access { .. });
    assert_eq!(steps.iter().filter(covered).count(), 2, "what is left of the last one begins a stream");
    assert_eq!(layer.cache_use().live_sectors, 4);
}

/// The one that a stream waits for goes first if it is the older one, and never if it is not.
#[test]
fn a_stream_is_continued_in_order() {
    let mut layer = FullyAssociative::new(small());
    take(&mut layer, &[write(1, 64, 8)], 0);
    let waiting = [write(2, 72, 8), write(3, 80, 8)];
    assert_eq!(take(&mut layer, &waiting, 1).last(), Some(&Step::Complete(CommandId(2))));
    assert_eq!(take(&mut layer, &waiting[1..], 0).last(), Some(&Step::Complete(CommandId(3))));
    let waiting = [write(4, 100, 8), write(5, 88, 8)];
    assert_eq!(take(&mut layer, &waiting, 0).last(), Some(&Step::Complete(CommandId(4))));
}

/// A short last band is remapped when its own last sector arrives; writes that wait for that go together.
#[test]
fn a_stream_ends_with_its_band() {
    let mut layer = FullyAssociative::new(FullyAssociativeSpec { capacity: Sectors(200), ..small() });
    take(&mut layer, &[write(1, 192, 2)], 0);
    let steps = take(&mut layer, &[write(2, 194, 3), write(3, 197, 3)], 0);
    let first = layer.locate_first(LbaExtent::new(Lba(192), Sectors(1)), false).1;
    let lba = LbaExtent::new(Lba(192), Sectors(8));
    assert_eq!(steps[0], access(Direction::Write, first.get() + 2, 6, Purpose::Host));
    assert_eq!(steps[2], Step::Commit(MapChange::Remapped { lba, pba: first }));
    assert_eq!(steps[3..], [2, 3].map(|id| Step::Complete(CommandId(id))));
}

/// Of more streams than a zone keeps, the one that was not continued for longest is given up.
#[test]
fn the_stream_that_rested_longest_is_given_up() {
    let spec =
        FullyAssociativeSpec { capacity: Sectors(8 * 64), zone: Sectors(8 * 64), free_bands: 9, ..small() };
    let mut layer = FullyAssociative::new(spec);
    for band in [0, 1, 2, 3] {
        take(&mut layer, &[write(1, 64 * band, 8)], 0);
    }
    take(&mut layer, &[write(1, 8, 8)], 0);
    take(&mut layer, &[write(1, 64 * 4, 8)], 0);
    let purpose = |steps: Vec<Step>| match steps[0] {
        Step::Access { purpose, .. } => purpose,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(purpose(take(&mut layer, &[write(1, 16, 8)], 0)), Purpose::Host);
    assert_eq!(purpose(take(&mut layer, &[write(1, 64 + 8, 8)], 0)), Purpose::Cache);
}

/// What a broken stream left is read where it is, and the room behind it is used before a free band.
#[test]
fn a_broken_stream_is_a_log() {
    let mut layer = FullyAssociative::new(small());
    take(&mut layer, &[write(1, 64, 20)], 0);
    let before = layer.zone_use(0);
    let log = layer.locate_first(LbaExtent::new(Lba(64), Sectors(1)), false).1.get();
    let steps = take(&mut layer, &[write(2, 128 + 8, 8)], 0);
    assert_eq!(layer.zone_use(0).free, before.free - 1, "a stream that goes on keeps its band");
    let other = access(Direction::Write, 64 * 3, 8, Purpose::Cache);
    assert_eq!(steps[0], other);
    let steps = take(&mut layer, &[write(3, 64 + 40, 8)], 0);
    assert_eq!(steps[0], access(Direction::Write, 64 * 3 + 8, 8, Purpose::Cache));
    take(&mut layer, &[write(4, 136, 48)], 0);
    let steps = take(&mut layer, &[write(5, 136, 8)], 0);
    assert_eq!(steps[0], access(Direction::Write, log + 24, 8, Purpose::Cache), "behind 20 sectors");
}

/// The steps of a cleaning, one at a time; a change in the band between two starts it over.
#[test]
fn a_band_is_merged_into_a_free_one() {
    let mut layer = FullyAssociative::new(small());
    take(&mut layer, &[write(1, 64 + 8, 8)], 0);
    take(&mut layer, &[write(1, 128 + 16, 8)], 0);
    take(&mut layer, &[write(1, 64 + 32, 8)], 0);
    let places = |lba| layer.locate_first(LbaExtent::new(Lba(lba), Sectors(1)), false).1.get();
    let (band, log) = (places(64), places(64 + 8));
    let read = access(Direction::Read, band, 64, Purpose::CleanRead);
    let gather = [
        Step::AnyOrder { accesses: 2 },
        access(Direction::Read, log, 8, Purpose::CleanRead),
        access(Direction::Read, log + 16, 8, Purpose::CleanRead),
    ];
    assert_eq!(idle(&mut layer), [read]);
    assert_eq!(idle(&mut layer), gather);
    let steps = idle(&mut layer);
    let [Step::Access { extent, direction: Direction::Write, purpose: Purpose::CleanWrite, .. }] = steps[..]
    else {
        panic!("{steps:?}");
    };
    assert_ne!(extent.start.get(), band);
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 2, logs: 1, held: 1 });
    take(&mut layer, &[write(2, 64 + 9, 1)], 0);
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 3, logs: 1, held: 0 });
    assert_eq!(idle(&mut layer), [read], "from the start");
    idle(&mut layer);
    idle(&mut layer);
    assert_eq!(idle(&mut layer), [remapped(64, extent.start.get())]);
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 3, logs: 1, held: 0 });
    for _ in 0..4 {
        idle(&mut layer);
    }
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 4, logs: 0, held: 0 });
    assert_eq!(idle(&mut layer), []);
}

/// Bands in the order of their oldest exceptions, and the zone whose log was opened first.
#[test]
fn cleaning_begins_with_the_oldest() {
    let mut layer = FullyAssociative::new(small());
    for start in [256 + 72, 200, 72, 208, 256 + 136, 136, 72] {
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    let mut order = Vec::new();
    loop {
        let steps = idle(&mut layer);
        if steps.is_empty() {
            break;
        }
        for step in steps {
            if let Step::Commit(MapChange::Remapped { lba, .. }) = step {
                order.push(lba.start.get());
            }
        }
    }
    assert_eq!(order, [256 + 64, 256 + 128, 192, 128, 64], "72 was written again, so it is the youngest");
}

/// A lazy drive does nothing on its own; a write that finds the zone full merges until a log is empty.
#[test]
fn a_full_zone_is_cleaned_before_a_write() {
    let mut layer = FullyAssociative::new(FullyAssociativeSpec { idle_after: None, ..small() });
    for block in 0..24 {
        let start = 64 * (block % 3) + 8 * (1 + block / 3 % 7);
        let steps = take(&mut layer, &[write(1, start, 8)], 0);
        assert_eq!(steps.len(), 3, "block {block} of 3 logs of 8 blocks");
    }
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 1, logs: 3, held: 0 });
    assert_eq!(layer.zone_use(1), skylight_layer::ZoneUse { free: 4, logs: 0, held: 0 });
    assert_eq!(idle(&mut layer), []);
    let steps = take(&mut layer, &[write(1, 200, 8)], 0);
    let merges = steps.iter().filter(|s| matches!(s, Step::Commit(MapChange::Remapped { .. }))).count();
    assert_eq!(merges, 3, "{steps:?}");
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 3, logs: 1, held: 0 });
    layer.audit().expect("the layer's own view");
}
