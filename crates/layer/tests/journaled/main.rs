//! The journaled layer against a shadow that follows its plans, and its plans one by one.

#[path = "../common/mod.rs"]
mod common;
mod shadow;
mod shape;

use common::{Stream, cases};
use proptest::prelude::*;
use shadow::Shadow;
use shape::Shape;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, Command, CommandId, HostOp, Idle, Journaled, JournaledSpec, Layer, MapChange, Medium, Piece, Plan,
    Purpose, Queue, Step, StretchSpec,
};

/// A drive of some shape, its shadow, its host's queue and the buffers to drive them.
struct Pair {
    layer: Journaled,
    shadow: Shadow,
    shape: Shape,
    stream: Stream,
    waiting: Vec<Command>,
    depth: u64,
    issued: u32,
    plan: Plan,
    pieces: Vec<Piece>,
    sequential: u64,
    hot: u64,
}

impl Pair {
    fn new(shape: &Shape, seed: u64) -> Self {
        Self {
            layer: Journaled::new(shape.spec.clone()),
            shadow: Shadow::new(shape.clone()),
            shape: shape.clone(),
            stream: Stream(seed),
            waiting: Vec::new(),
            depth: 1,
            issued: 0,
            plan: Plan::default(),
            pieces: Vec::new(),
            sequential: 0,
            hot: 0,
        }
    }

    fn capacity(&self) -> u64 {
        self.shape.spec.bands.capacity().get()
    }

    /// An extent anywhere, near a few hot places, or where the last one ended; short or longer than an entry.
    fn extent(&mut self) -> LbaExtent {
        let (capacity, entry) = (self.capacity(), self.shape.spec.journal.entry_max.get());
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
            7 => 1 + self.stream.below(3),
            8 => 1 + self.stream.below(entry),
            _ if self.stream.below(4) == 0 => 1 + self.stream.below(4 * entry),
            _ => 1 + self.stream.below(64),
        };
        let extent = LbaExtent::new(Lba(start), Sectors(len.min(capacity - start)));
        self.sequential = extent.end().get();
        if self.stream.below(300) == 0 {
            self.hot = self.stream.below(capacity);
        }
        extent
    }

    fn submit(&mut self, op: HostOp, extent: LbaExtent) {
        self.issued += 1;
        self.waiting.push(Command { id: CommandId(self.issued), op, extent });
    }

    /// A band from its start to its end or nearly so, in one write or several.
    fn submit_band(&mut self) {
        let bands = self.shadow.bands();
        let band = bands[self.stream.below(bands.len() as u64) as usize].lba;
        let end = band.end().get() - u64::from(self.stream.below(8) == 0);
        let mut start = band.start.get() + u64::from(self.stream.below(8) == 0);
        let parts = 1 + self.stream.below(4);
        while start < end {
            let len = ((end - start) / parts).max(1 + self.stream.below(4)).min(end - start);
            self.submit(HostOp::Write, LbaExtent::new(Lba(start), Sectors(len)));
            start += len;
        }
    }

    fn submit_some(&mut self) {
        if self.waiting.is_empty() && self.stream.below(50) == 0 {
            self.depth = [1, 1, 2, 4, 8, 31, 40][self.stream.below(7) as usize];
        }
        while (self.waiting.len() as u64) < self.depth {
            let extent = self.extent();
            match self.stream.below(100) {
                0..=64 => self.submit(HostOp::Write, extent),
                65..=69 => self.submit_band(),
                70..=92 => self.submit(HostOp::Read, extent),
                93..=97 => self.submit(HostOp::Trim, extent),
                _ => self.submit(HostOp::Flush, LbaExtent::default()),
            }
            // Now and then the host stops before its queue is full.
            if !self.waiting.is_empty() && self.stream.below(10) == 0 {
                break;
            }
        }
    }

    /// Lets the layer take from its queue; follows and checks the plan.
    fn step(&mut self) {
        self.submit_some();
        if self.stream.below(10_000) == 0 {
            self.layer.erase();
            self.shadow.erase();
        }
        if self.stream.below(8) == 0 {
            self.idle();
        }
        let arrived = match self.stream.below(4) {
            0 => 1 + self.stream.below(self.waiting.len() as u64) as usize,
            _ => self.waiting.len(),
        };
        let next = match self.stream.below(2) {
            0 => 0,
            _ => self.stream.below(arrived as u64) as usize,
        };
        let command = self.waiting[next];
        if command.op != HostOp::Flush && self.stream.below(2) == 0 {
            self.layer.hint(command.extent.start);
        }
        self.pieces.clear();
        if command.op == HostOp::Read {
            self.layer.locate(command.extent, &mut self.pieces);
        }
        let announced = self.layer.locate_first(command.extent, command.op == HostOp::Write);
        self.plan.clear();
        self.layer.take(Queue { waiting: &self.waiting[..arrived], next }, &mut self.plan);
        self.check_announced(arrived, command, announced);
        self.shadow.follow_take(&mut self.waiting, arrived, next, &self.plan, &self.pieces);
        self.check();
    }

    /// What a scheduler was told of a command is where its data goes, if it does not share an entry and does
    /// not bypass the journal. Cleaning and a merge of the map may come before.
    fn check_announced(&self, arrived: usize, command: Command, announced: (Medium, Pba)) {
        let reads = command.op == HostOp::Read;
        let writes = self.waiting[..arrived].iter().filter(|waiting| waiting.op == HostOp::Write);
        let alone = command.op == HostOp::Write && writes.count() == 1;
        let found = self.plan.steps().iter().find_map(|step| match *step {
            Step::Access { medium, extent, purpose, .. } => match purpose {
                Purpose::Host | Purpose::Cache if reads => Some((medium, extent.start)),
                Purpose::OutOfBand | Purpose::Cache if alone => Some((medium, extent.start)),
                _ => None,
            },
            _ => None,
        });
        if let Some(found) = found {
            assert_eq!(found, announced, "what a scheduler is told of {command:?}");
        }
    }

    /// Leaves the drive alone for a few steps of cleaning, which may end anywhere in a band.
    fn idle(&mut self) {
        if self.layer.idle_after().is_none() {
            return;
        }
        for _ in 0..self.stream.below(12) {
            self.plan.clear();
            let clean = self.shadow.truth.extents() == 0;
            let expected = if clean { Idle::Nothing } else { Idle::Worked };
            assert_eq!(self.layer.idle(&mut self.plan), expected, "work to do or none");
            assert_eq!(self.plan.steps().is_empty(), clean, "an idle step is work");
            self.shadow.follow_idle(&self.plan);
            self.check();
        }
    }

    fn check(&mut self) {
        self.shadow.truth.check_cache_use(&self.layer);
        let other = self.extent();
        self.shadow.truth.check_pieces(&self.layer, other, &mut self.pieces);
    }

    fn run(&mut self, operations: u32) {
        while self.issued < operations {
            self.step();
        }
        let all = LbaExtent::new(Lba(0), Sectors(self.capacity()));
        self.shadow.truth.check_pieces(&self.layer, all, &mut self.pieces);
    }
}

fn any_shape() -> impl Strategy<Value = Shape> {
    any::<u64>().prop_map(Shape::random)
}

proptest! {
    #![proptest_config(cases(600))]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(shape in any_shape(), seed in any::<u64>(), operations in 1u32..3_000) {
        Pair::new(&shape, seed).run(operations);
    }
}

proptest! {
    #![proptest_config(cases(64))]

    #[test]
    fn long_runs_keep_every_write(shape in any_shape(), seed in any::<u64>()) {
        Pair::new(&shape, seed).run(40_000);
    }
}

/// Bands of 40 sectors with a guard of 8 behind each; a journal of 10 places of 16 sectors, 4 of them out of
/// band, 2 of gap.
fn small() -> JournaledSpec {
    let extent = |start, len| PbaExtent::new(Pba(start), Sectors(len));
    let stretch =
        StretchSpec { sectors: Sectors(400), band: Sectors(40), guard: Sectors(8), start: Pba(1000) };
    JournaledSpec {
        bands: Bands::new(&[stretch]),
        journal: JournalSpec {
            region: extent(0, 400),
            quantum: Sectors(16),
            out_of_band: Sectors(4),
            gap: Sectors(2),
            entry_max: Sectors(48),
            places: 10,
        },
        cache_medium: Medium::Platter,
        map_limit: None,
        map_merge_every: Some(3),
        map_merge: extent(900, 20),
        cleaning: CleaningSpec {
            order: CleaningOrder::Fifo,
            idle_after: Some(Nanos(1)),
            staging: extent(500, 40),
            map_update: extent(920, 1),
        },
        whole_bands_bypass: true,
    }
}

fn command(id: u32, op: HostOp, start: u64, len: u64) -> Command {
    Command { id: CommandId(id), op, extent: LbaExtent::new(Lba(start), Sectors(len)) }
}

fn take(layer: &mut Journaled, waiting: &[Command], next: usize) -> Vec<Step> {
    let mut plan = Plan::default();
    layer.take(Queue { waiting, next }, &mut plan);
    plan.steps().to_vec()
}

fn idle(layer: &mut Journaled) -> Vec<Step> {
    let mut plan = Plan::default();
    layer.idle(&mut plan);
    plan.steps().to_vec()
}

fn access(direction: Direction, start: u64, len: u64, purpose: Purpose) -> Step {
    let extent = PbaExtent::new(Pba(start), Sectors(len));
    Step::Access { medium: Medium::Platter, direction, extent, purpose }
}

fn cached(start: u64, len: u64, pba: u64) -> Step {
    Step::Commit(MapChange::Cached { lba: LbaExtent::new(Lba(start), Sectors(len)), pba: Pba(pba) })
}

fn done(id: u32) -> Step {
    Step::Complete(CommandId(id))
}

const WRITE: HostOp = HostOp::Write;

/// The oldest writes share an entry and complete together; reads between them wait; the next entry follows
/// the gap.
#[test]
fn waiting_writes_share_an_entry_as_far_as_they_fit() {
    let mut layer = Journaled::new(small());
    let read = command(2, HostOp::Read, 0, 8);
    let waiting = [command(1, WRITE, 100, 8), read, command(3, WRITE, 8, 9), command(4, WRITE, 0, 32)];
    let expected = [
        access(Direction::Write, 0, 4, Purpose::OutOfBand),
        access(Direction::Write, 4, 32, Purpose::Cache),
        cached(100, 8, 4),
        cached(8, 9, 12),
        done(1),
        done(3),
    ];
    assert_eq!(take(&mut layer, &waiting, 3), expected);
    let expected = [
        access(Direction::Write, 38, 4, Purpose::OutOfBand),
        access(Direction::Write, 42, 32, Purpose::Cache),
        cached(0, 32, 42),
        done(4),
    ];
    assert_eq!(take(&mut layer, &[read, waiting[3]], 1), expected);
    // The third entry is preceded by a merge of the map.
    let steps = take(&mut layer, &[command(5, WRITE, 0, 1)], 0);
    assert_eq!(steps[0], access(Direction::Write, 900, 20, Purpose::MapMerge));
    assert_eq!(steps[2], access(Direction::Write, 80, 16, Purpose::Cache));
}

/// The five units of a band, each a step of its own, and what a write to the band does to them.
#[test]
fn a_cleaning_goes_step_by_step_and_begins_anew_when_the_band_is_written() {
    let mut layer = Journaled::new(small());
    take(&mut layer, &[command(1, WRITE, 90, 8)], 0);
    take(&mut layer, &[command(2, WRITE, 4, 8)], 0);
    take(&mut layer, &[command(3, WRITE, 100, 4)], 0);
    let read = [access(Direction::Read, 1096, 40, Purpose::CleanRead)];
    let gather = [
        Step::AnyOrder { accesses: 2 },
        access(Direction::Read, 4, 8, Purpose::CleanRead),
        access(Direction::Read, 48, 4, Purpose::CleanRead),
    ];
    let stage = [access(Direction::Write, 500, 40, Purpose::CleanStage)];
    let write = [access(Direction::Write, 1096, 40, Purpose::CleanWrite)];
    let native = MapChange::Native { lba: LbaExtent::new(Lba(80), Sectors(40)) };
    let commit = [access(Direction::Write, 920, 1, Purpose::MapUpdate), Step::Commit(native)];
    for expected in [&read[..], &gather, &stage, &write] {
        assert_eq!(idle(&mut layer), expected);
    }
    // Another band is written: nothing changes for this one. This band: what was gathered is old.
    take(&mut layer, &[command(4, WRITE, 0, 8)], 0);
    take(&mut layer, &[command(5, WRITE, 90, 8)], 0);
    assert_eq!(idle(&mut layer)[0], access(Direction::Read, 1000, 40, Purpose::CleanRead), "the oldest now");
    for _ in 0..4 {
        idle(&mut layer);
    }
    for expected in [&read[..], &[], &stage, &write, &commit] {
        let steps = idle(&mut layer);
        assert!(expected.is_empty() || steps == expected, "{steps:?}");
    }
    assert_eq!((idle(&mut layer), layer.cache_use().live_sectors), (vec![], 0));
}

/// A band goes to its native place when writes cover it, and only then.
#[test]
fn writes_that_cover_a_band_bypass_the_journal() {
    let mut layer = Journaled::new(small());
    take(&mut layer, &[command(1, WRITE, 90, 8)], 0);
    let waiting = [command(2, WRITE, 80, 10), command(3, WRITE, 90, 30), command(4, WRITE, 120, 8)];
    let expected = [
        access(Direction::Write, 1096, 40, Purpose::Host),
        Step::Commit(MapChange::Native { lba: LbaExtent::new(Lba(80), Sectors(40)) }),
        done(2),
        done(3),
    ];
    assert_eq!(take(&mut layer, &waiting, 0), expected);
    assert_eq!(layer.cache_use().live_sectors, 0);
    let one_short = [command(5, WRITE, 80, 10), command(6, WRITE, 90, 29)];
    assert_eq!(take(&mut layer, &one_short, 0).last(), Some(&done(6)));
    assert_eq!(layer.cache_use().live_sectors, 39);
}

/// Ten lone blocks fill ten places; the eleventh waits for the oldest block's band.
#[test]
fn a_full_journal_cleans_the_oldest_band_before_it_takes_more() {
    let mut layer = Journaled::new(small());
    for id in 0..10 {
        let steps = take(&mut layer, &[command(id, WRITE, 399 - u64::from(id) * 40, 1)], 0);
        assert!(!steps.contains(&access(Direction::Read, 1432, 40, Purpose::CleanRead)));
    }
    let steps = take(&mut layer, &[command(10, WRITE, 0, 1)], 0);
    assert_eq!(steps[0], access(Direction::Read, 1432, 40, Purpose::CleanRead), "the band of sector 399");
    assert_eq!(layer.cache_use().live_sectors, 10);
    layer.erase();
    let steps = take(&mut layer, &[command(11, WRITE, 0, 1)], 0);
    assert_eq!(steps[0], access(Direction::Write, 0, 4, Purpose::OutOfBand), "an erased log starts anew");
}

/// The oldest write is not the newest write to the same sectors.
#[test]
fn the_band_of_the_oldest_live_block_is_cleaned_first() {
    let mut layer = Journaled::new(small());
    take(&mut layer, &[command(1, WRITE, 36, 8)], 0);
    take(&mut layer, &[command(2, WRITE, 200, 8)], 0);
    take(&mut layer, &[command(3, WRITE, 36, 4)], 0);
    assert_eq!(idle(&mut layer), [access(Direction::Read, 1048, 40, Purpose::CleanRead)], "band 1");
}
