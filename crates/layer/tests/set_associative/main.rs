//! The set-associative layer: random commands against a shadow ([`shadow`]), and its plans one by one.

#[path = "../common/mod.rs"]
mod common;
mod shadow;

use common::bugs::{self, Bug};
use common::host::Sizes;
use common::layer_and_shadow::Pair;
use common::operation_count::{LONG, cases, half_share};
use common::plan_builders::{self, access, command, idle};
use proptest::prelude::*;
use shadow::Cached;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, Sectors};
use skylight_layer::{
    CommandId, Idle, Layer, MapChange, Medium, Op, Plan, Purpose, SetAssociative, SetAssociativeSpec, Step,
};

fn pair(spec: SetAssociativeSpec, seed: u64, deepest: u64) -> Pair<Cached> {
    let (capacity, band) = (spec.capacity.get(), spec.band.get());
    let starts = (0..capacity).step_by(band as usize);
    let bands = starts.map(|start| LbaExtent::new(Lba(start), Sectors(band.min(capacity - start))));
    let sizes = Sizes { capacity, bands: bands.collect(), unit: band };
    Pair::new(SetAssociative::new(spec), Cached::new(spec), sizes, seed, deepest)
}

/// Small drives of every kind: cache at the OD, MD and ID and on flash, one cache band or many, a short band,
/// lazy or not, any watermark, patient or not.
fn any_spec() -> impl Strategy<Value = SetAssociativeSpec> {
    let sizes = (1u64..24, 1u64..40, 0.0..1.0f64, 1u64..8);
    let patience = prop_oneof![Just(u64::MAX), 1..4u64];
    let place = prop_oneof![Just("od"), Just("md"), Just("id"), Just("id after a gap"), Just("flash")];
    let watermark = prop_oneof![Just(1.0), 0.1..1.0f64];
    let cleaning = (any::<bool>(), patience);
    (sizes, place, watermark, cleaning).prop_map(|(sizes, place, watermark, (lazy, bands_for_one_write))| {
        let (band_blocks, bands, last, cache_bands) = sizes;
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
            usable: Sectors((band as f64 * watermark) as u64),
            bands_for_one_write,
            idle_after: (!lazy).then_some(Nanos(1)),
        }
    })
}

proptest! {
    #![proptest_config(cases(400))]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(
        spec in any_spec(),
        seed in any::<u64>(),
        deepest in 1u64..8,
        operations in 1u64..3_000,
    ) {
        pair(spec, seed, deepest).run(operations);
    }
}

#[test]
fn lone_commands_keep_every_write() {
    half_share("set_associative", "lone commands", &(any_spec(), any::<u64>()), |(spec, seed)| {
        pair(spec, seed, 1).run(LONG)
    });
}

#[test]
fn deep_queues_keep_every_write() {
    half_share("set_associative", "deep queues", &(any_spec(), any::<u64>()), |(spec, seed)| {
        pair(spec, seed, 40).run(LONG)
    });
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
            usable: Sectors(1024),
            bands_for_one_write: u64::MAX,
            idle_after: (cache_start == 0).then_some(Nanos(1)),
        };
        pair(spec, 7 + cache_start, 4).run(60_000);
    }
}

#[test]
fn planted_bugs_are_seen() {
    let bugs = [
        Bug::OffByOneBand(Direction::Write, Purpose::Cache),
        Bug::OffByOneBand(Direction::Write, Purpose::CleanWrite),
        Bug::OffByOneBand(Direction::Read, Purpose::CleanRead),
        Bug::OffByOneBand(Direction::Read, Purpose::Cache),
        Bug::OffByOneBand(Direction::Write, Purpose::Host),
        Bug::LostException,
        Bug::DroppedStage(Direction::Read, Purpose::CleanRead),
        Bug::DroppedStage(Direction::Write, Purpose::CleanWrite),
        Bug::DroppedStage(Direction::Write, Purpose::Cache),
        Bug::DroppedStage(Direction::Write, Purpose::Host),
        Bug::DroppedCommit,
        Bug::CommitOffByABlock,
        Bug::AnsweredOnly,
    ];
    bugs::all_are_seen(&bugs, 64, |seed| {
        let lazy = seed % 2 == 0;
        let bands_for_one_write = if seed % 3 == 0 { u64::MAX } else { 1 };
        let idle_after = (!lazy).then_some(Nanos(1));
        let spec = SetAssociativeSpec { idle_after, bands_for_one_write, ..small() };
        pair(spec, seed, 1 + seed % 32)
    });
}

fn small() -> SetAssociativeSpec {
    SetAssociativeSpec {
        capacity: Sectors(6 * 64),
        band: Sectors(64),
        cache_bands: 2,
        cache_medium: Medium::Platter,
        cache_start: Pba(6 * 64),
        usable: Sectors(64),
        bands_for_one_write: u64::MAX,
        idle_after: None,
    }
}

fn take(layer: &mut SetAssociative, op: Op, start: u64, len: u64) -> Vec<Step> {
    plan_builders::take(layer, &[command(3, op, start, len)], 0)
}

/// The plan of a cleaning, step by step: bands 1 and 5 share cache band 1, band 3 has nothing in it.
#[test]
fn a_cleaning_reads_the_cache_band_once_and_writes_back_each_band_that_is_in_it() {
    let mut layer = SetAssociative::new(small());
    take(&mut layer, Op::Write, 64, 40);
    take(&mut layer, Op::Write, 5 * 64 + 8, 24);
    let steps = take(&mut layer, Op::Write, 64 + 3, 2);
    let cache = 7 * 64;
    let native = |band: u64| MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) };
    let cached = MapChange::Cached { lba: LbaExtent::new(Lba(64 + 3), Sectors(2)), pba: Pba(cache).into() };
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
        Step::done(CommandId(3)),
    ];
    assert_eq!(steps, expected);
}

/// The same for a host that waits for one data band: the next write goes home with its own, the one after that empties the rest.
#[test]
fn a_write_that_finds_no_room_soon_goes_home_with_its_data_band() {
    let mut layer = SetAssociative::new(SetAssociativeSpec { bands_for_one_write: 1, ..small() });
    take(&mut layer, Op::Write, 64, 24);
    take(&mut layer, Op::Write, 3 * 64, 24);
    take(&mut layer, Op::Write, 5 * 64, 16);
    let native =
        |band: u64| Step::Commit(MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) });
    let read = |band: u64| access(Direction::Read, band * 64, 64, Purpose::CleanRead);
    let write = |start: u64, len: u64, purpose| access(Direction::Write, start, len, purpose);
    let expected = [
        access(Direction::Read, 7 * 64, 64, Purpose::CleanRead),
        read(1),
        write(64, 64, Purpose::CleanWrite),
        native(1),
        read(3),
        write(3 * 64, 8, Purpose::CleanWrite),
        write(3 * 64 + 8, 8, Purpose::Host),
        write(3 * 64 + 16, 48, Purpose::CleanWrite),
        native(3),
        Step::done(CommandId(3)),
    ];
    assert_eq!(take(&mut layer, Op::Write, 3 * 64 + 8, 8), expected);
    let cached = MapChange::Cached { lba: LbaExtent::new(Lba(64), Sectors(8)), pba: Pba(7 * 64).into() };
    let expected = [
        read(5),
        write(5 * 64, 64, Purpose::CleanWrite),
        native(5),
        write(7 * 64, 8, Purpose::Cache),
        Step::Commit(cached),
        Step::done(CommandId(3)),
    ];
    assert_eq!(take(&mut layer, Op::Write, 64, 8), expected);
}

/// The next write to a full cache band begins with its cleaning, not behind its end.
#[test]
fn a_scheduler_is_told_where_a_write_begins() {
    let mut layer = SetAssociative::new(small());
    let block = LbaExtent::new(Lba(64), Sectors(8));
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64)));
    take(&mut layer, Op::Write, 64, 56);
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64 + 56)));
    take(&mut layer, Op::Write, 64, 8);
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64)));
}

#[test]
fn an_erased_drive_appends_from_the_start_of_its_cache() {
    let mut layer = SetAssociative::new(small());
    take(&mut layer, Op::Write, 64, 40);
    layer.erase();
    assert_eq!(layer.cache_use().live_sectors, 0);
    let steps = take(&mut layer, Op::Write, 64, 8);
    assert_eq!(steps[0], access(Direction::Write, 7 * 64, 8, Purpose::Cache));
}

#[test]
fn a_flush_moves_nothing_and_a_drive_left_alone_does_nothing() {
    let mut layer = SetAssociative::new(small());
    assert_eq!(take(&mut layer, Op::Flush, 0, 0), [Step::done(CommandId(3))]);
    take(&mut layer, Op::Write, 64, 40);
    let mut plan = Plan::default();
    assert_eq!(layer.idle(&mut plan), Idle::Nothing);
    assert!(plan.steps().is_empty(), "cleaning is lazy");
}

/// In idle time, step by step: the cache band that began to fill first; a write to it has it begin anew.
#[test]
fn an_aggressive_drive_empties_its_cache_bands_in_idle_time() {
    let mut layer = SetAssociative::new(SetAssociativeSpec { idle_after: Some(Nanos(1)), ..small() });
    take(&mut layer, Op::Write, 64, 8);
    take(&mut layer, Op::Write, 0, 8);
    take(&mut layer, Op::Write, 3 * 64, 8);
    let native =
        |band: u64| Step::Commit(MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) });
    let rewrite = |band: u64| {
        let write = access(Direction::Write, band * 64, 64, Purpose::CleanWrite);
        [vec![access(Direction::Read, band * 64, 64, Purpose::CleanRead)], vec![write, native(band)]]
    };
    assert_eq!(idle(&mut layer), [access(Direction::Read, 7 * 64, 16, Purpose::CleanRead)]);
    assert_eq!(idle(&mut layer), rewrite(1)[0]);
    take(&mut layer, Op::Write, 5 * 64, 8);
    assert_eq!(idle(&mut layer), [access(Direction::Read, 7 * 64, 24, Purpose::CleanRead)], "begun anew");
    for steps in [rewrite(1), rewrite(3), rewrite(5)].concat() {
        assert_eq!(idle(&mut layer), steps);
    }
    assert_eq!(idle(&mut layer), [access(Direction::Read, 6 * 64, 8, Purpose::CleanRead)], "the other one");
    for steps in rewrite(0) {
        assert_eq!(idle(&mut layer), steps);
    }
    assert_eq!((idle(&mut layer), layer.cache_use().live_sectors), (vec![], 0));
}

/// A watermark of three quarters: six blocks of eight, or one longer write.
#[test]
fn a_write_beyond_the_watermark_waits_for_cleaning() {
    let mut layer = SetAssociative::new(SetAssociativeSpec { usable: Sectors(48), ..small() });
    assert_eq!(take(&mut layer, Op::Write, 64, 60).len(), 3, "an empty cache band takes it");
    let cleans = |steps: &[Step]| steps[0] == access(Direction::Read, 7 * 64, 64, Purpose::CleanRead);
    assert!(cleans(&take(&mut layer, Op::Write, 64, 8)));
    for _ in 1..6 {
        assert_eq!(take(&mut layer, Op::Write, 64, 8).len(), 3);
    }
    assert_eq!(
        take(&mut layer, Op::Write, 64, 8)[0],
        access(Direction::Read, 7 * 64, 48, Purpose::CleanRead)
    );
}
