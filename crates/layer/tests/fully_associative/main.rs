//! The fully-associative layer: random commands against a shadow ([`shadow`]), and the plans of known ones
//! ([`plans`]).

mod plans;
mod shadow;

use proptest::prelude::*;
use shadow::Shadow;
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, Sectors};
use skylight_layer::{
    Command, CommandId, FullyAssociative, FullyAssociativeSpec, HostOp, Idle, Layer, Piece, Plan, Purpose,
    Queue, Step,
};

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
