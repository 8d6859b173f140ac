//! The journaled layer against a shadow that follows its plans, and its plans one by one.

#[path = "../common/mod.rs"]
mod common;
mod shadow;
mod shape;

use common::bugs::{self, Bug};
use common::host::Sizes;
use common::layer_and_shadow::Pair;
use common::operation_count::{LONG, cases, half_share};
use common::plan_builders::{access, command, idle, take};
use proptest::prelude::*;
use shadow::Journal;
use shape::Shape;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, CommandId, Journaled, JournaledSpec, Layer, MapChange, Medium, Op, Purpose, Step, StretchSpec,
};

fn pair(shape: &Shape, seed: u64, deepest: u64) -> Pair<Journal> {
    let shadow = Journal::new(shape.clone());
    let sizes = Sizes {
        capacity: shape.spec.bands.capacity().get(),
        bands: shadow.bands().iter().map(|band| band.lba).collect(),
        unit: shape.spec.journal.entry_max.get(),
    };
    Pair::new(Journaled::new(shape.spec.clone()), shadow, sizes, seed, deepest)
}

fn any_shape() -> impl Strategy<Value = Shape> {
    any::<u64>().prop_map(Shape::random)
}

proptest! {
    #![proptest_config(cases(600))]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(
        shape in any_shape(),
        seed in any::<u64>(),
        deepest in 1u64..41,
        operations in 1u64..3_000,
    ) {
        pair(&shape, seed, deepest).run(operations);
    }
}

#[test]
fn lone_commands_keep_every_write() {
    half_share("journaled", "lone commands", &(any_shape(), any::<u64>()), |(shape, seed)| {
        pair(&shape, seed, 1).run(LONG)
    });
}

#[test]
fn deep_queues_keep_every_write() {
    half_share("journaled", "deep queues", &(any_shape(), any::<u64>()), |(shape, seed)| {
        pair(&shape, seed, 40).run(LONG)
    });
}

#[test]
fn planted_bugs_are_seen() {
    let bugs = [
        Bug::OffByOneBand(Direction::Write, Purpose::Cache),
        Bug::OffByOneBand(Direction::Write, Purpose::CleanStage),
        Bug::OffByOneBand(Direction::Write, Purpose::CleanWrite),
        Bug::OffByOneBand(Direction::Read, Purpose::CleanRead),
        Bug::OffByOneBand(Direction::Read, Purpose::Cache),
        Bug::LostException,
        Bug::DroppedStage(Direction::Read, Purpose::CleanRead),
        Bug::DroppedStage(Direction::Write, Purpose::CleanStage),
        Bug::DroppedStage(Direction::Write, Purpose::CleanWrite),
        Bug::DroppedStage(Direction::Write, Purpose::MapUpdate),
        Bug::DroppedStage(Direction::Write, Purpose::MapMerge),
        Bug::DroppedStage(Direction::Write, Purpose::OutOfBand),
        Bug::DroppedStage(Direction::Write, Purpose::Cache),
        Bug::DroppedCommit,
        Bug::CommitOffByABlock,
        Bug::AnsweredOnly,
    ];
    let orders =
        [CleaningOrder::Fifo, CleaningOrder::Lifo, CleaningOrder::Greedy, CleaningOrder::Random { seed: 9 }];
    bugs::all_are_seen(&bugs, 48, |seed| {
        let mut shape = Shape::of(small(), vec![small_stretch()], 2_000);
        shape.spec.cleaning.order = orders[seed as usize % 4];
        pair(&shape, seed, 1 + seed % 32)
    });
}

/// Bands of 40 sectors with a guard of 8 behind each.
fn small_stretch() -> StretchSpec {
    StretchSpec { sectors: Sectors(400), band: Sectors(40), guard: Sectors(8), start: Pba(1000) }
}

/// A journal of 10 slots of 16 sectors, with 4 out of band and 2 of gap.
fn small() -> JournaledSpec {
    let extent = |start, len| PbaExtent::new(Pba(start), Sectors(len));
    JournaledSpec {
        bands: Bands::new(&[small_stretch()]),
        journal: JournalSpec {
            region: extent(0, 400),
            quantum: Sectors(16),
            out_of_band: Sectors(4),
            gap: Sectors(2),
            entry_max: Sectors(48),
            entry_writes: 31,
            slots: 10,
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
        bands_for_one_command: 100,
    }
}

fn cached(start: u64, len: u64, pba: u64) -> Step {
    Step::Commit(MapChange::Cached { lba: LbaExtent::new(Lba(start), Sectors(len)), pba: Pba(pba).into() })
}

fn done(id: u32) -> Step {
    Step::done(CommandId(id))
}

const WRITE: Op = Op::Write;

/// The oldest writes share an entry and complete together; reads between them wait; the next entry follows
/// the gap.
#[test]
fn waiting_writes_share_an_entry_as_far_as_they_fit() {
    let mut layer = Journaled::new(small());
    let read = command(2, Op::Read, 0, 8);
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

/// A band goes to its native location when writes cover it, and only then.
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

/// An entry ends where a band begins of which all waits, so that a stream comes to bypass the journal.
#[test]
fn an_entry_leaves_a_band_that_is_covered_behind_it_alone() {
    let mut layer = Journaled::new(small());
    let waiting = [command(1, WRITE, 70, 10), command(2, WRITE, 80, 20), command(3, WRITE, 100, 20)];
    assert_eq!(take(&mut layer, &waiting, 0).last(), Some(&done(1)));
    let steps = take(&mut layer, &waiting[1..], 0);
    assert_eq!(steps[0], access(Direction::Write, 1096, 40, Purpose::Host));
    let short = [command(4, WRITE, 70, 10), command(5, WRITE, 80, 20), command(6, WRITE, 100, 18)];
    assert!(take(&mut layer, &short, 0).ends_with(&[done(4), done(5), done(6)]));
}

/// Ten lone blocks fill ten slots; the eleventh waits for the oldest block's band.
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

/// The first sectors of the bands that are cleaned until there is nothing to clean, in order.
fn cleaned(layer: &mut Journaled) -> Vec<u64> {
    let mut order = Vec::new();
    loop {
        let steps = idle(layer);
        if steps.is_empty() {
            return order;
        }
        order.extend(steps.iter().filter_map(|step| match step {
            Step::Commit(MapChange::Native { lba }) => Some(lba.start.get()),
            _ => None,
        }));
    }
}

fn ordered(order: CleaningOrder) -> Journaled {
    let mut spec = small();
    spec.cleaning.order = order;
    spec.journal.slots = 40;
    spec.journal.region.len = Sectors(spec.journal.region_sectors());
    // Behind all bands.
    spec.journal.region.start = Pba(2_000);
    Journaled::new(spec)
}

/// One order each for the same writes: bands 0 and 80 of 12 sectors, 160 of 20, 240 of 8 and last.
#[test]
fn bands_are_cleaned_in_the_order_of_the_profile() {
    let order_of = |order| {
        let mut layer = ordered(order);
        for (start, len) in [(160, 20), (80, 12), (0, 8), (10, 4), (240, 4), (244, 4)] {
            take(&mut layer, &[command(1, WRITE, start, len)], 0);
        }
        cleaned(&mut layer)
    };
    assert_eq!(order_of(CleaningOrder::Fifo), [160, 80, 0, 240]);
    assert_eq!(order_of(CleaningOrder::Lifo), [240, 0, 80, 160]);
    assert_eq!(order_of(CleaningOrder::Greedy), [160, 0, 80, 240]);
    let orders: Vec<Vec<u64>> = (0..40).map(|seed| order_of(CleaningOrder::Random { seed })).collect();
    for first in [0, 80, 160, 240] {
        assert!(orders.iter().any(|order| order[0] == first), "{first} is never the first of {orders:?}");
    }
    assert_eq!(orders[7], order_of(CleaningOrder::Random { seed: 7 }), "a seed is an order");
}

/// What is overwritten, trimmed and written past the cache counts no more for its band.
#[test]
fn greedy_counts_what_is_live() {
    let mut layer = ordered(CleaningOrder::Greedy);
    for (start, len) in [(0, 30), (0, 30), (40, 20), (60, 12), (80, 10), (120, 35)] {
        take(&mut layer, &[command(1, WRITE, start, len)], 0);
    }
    take(&mut layer, &[command(2, Op::Trim, 0, 25)], 0);
    take(&mut layer, &[command(3, WRITE, 120, 40)], 0);
    assert_eq!(cleaned(&mut layer), [40, 80, 0]);
}

/// An extent over three bands is one entry of the map; to trim amid it takes another, and to clean its middle.
#[test]
fn the_map_keeps_its_limit_when_an_extent_is_cut() {
    let mut spec = small();
    spec.journal.entry_max = Sectors(120);
    spec.journal.slots = 40;
    spec.journal.region = PbaExtent::new(Pba(2_000), Sectors(spec.journal.region_sectors()));
    spec.map_limit = Some(2);
    let mut layer = Journaled::new(spec.clone());
    take(&mut layer, &[command(1, WRITE, 5, 110)], 0);
    take(&mut layer, &[command(2, WRITE, 200, 8)], 0);
    let steps = take(&mut layer, &[command(3, Op::Trim, 50, 8)], 0);
    assert_eq!(steps[0], access(Direction::Read, 1000, 40, Purpose::CleanRead), "room is made: band 0");
    assert_eq!(layer.cache_use().map_entries, 2);

    spec.cleaning.order = CleaningOrder::Greedy;
    let mut layer = Journaled::new(spec);
    take(&mut layer, &[command(1, WRITE, 5, 110)], 0);
    take(&mut layer, &[command(2, WRITE, 200, 8)], 0);
    // Band 40 has the most, and is the middle of an extent.
    assert_eq!(idle(&mut layer), [access(Direction::Read, 1000, 40, Purpose::CleanRead)], "band 0 before it");
    let mut most = 0;
    while !idle(&mut layer).is_empty() {
        most = most.max(layer.cache_use().map_entries);
    }
    assert_eq!(most, 2);
}
