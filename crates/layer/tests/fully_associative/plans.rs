//! What the layer plans for commands chosen to show one rule each.

use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::{
    Command, CommandId, FullyAssociative, FullyAssociativeSpec, Layer, MapChange, Op, Plan, Purpose, Queue,
    Step,
};

use crate::common::host::Stream;
use crate::common::plan_builders::{access, command, idle, take};

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
pub fn small() -> FullyAssociativeSpec {
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
    command(number, Op::Write, start, len)
}

fn remapped(start: u64, pba: u64) -> Step {
    let lba = LbaExtent::new(Lba(start), Sectors(64));
    Step::Commit(MapChange::Remapped { lba, pba: Pba(pba).into() })
}

/// Row S8b of `docs/figures.md`: random blocks on the drive of table 1 until a write has to clean first; 95 % in the paper.
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
                Step::Commit(MapChange::Cached { .. }) | Step::Complete { command: CommandId(7), .. } => {}
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
    assert_eq!(steps.iter().filter(|step| matches!(step, Step::Complete { .. })).count(), 3);
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
    assert_eq!(take(&mut layer, &waiting, 1).last(), Some(&Step::done(CommandId(2))));
    assert_eq!(take(&mut layer, &waiting[1..], 0).last(), Some(&Step::done(CommandId(3))));
    let waiting = [write(4, 100, 8), write(5, 88, 8)];
    assert_eq!(take(&mut layer, &waiting, 0).last(), Some(&Step::done(CommandId(4))));
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
    assert_eq!(steps[2], Step::Commit(MapChange::Remapped { lba, pba: first.into() }));
    assert_eq!(steps[3..], [2, 3].map(|id| Step::done(CommandId(id))));
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
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 2, logs: 1, merged: 1 });
    take(&mut layer, &[write(2, 64 + 9, 1)], 0);
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 3, logs: 1, merged: 0 });
    assert_eq!(idle(&mut layer), [read], "from the start");
    idle(&mut layer);
    idle(&mut layer);
    assert_eq!(idle(&mut layer), [remapped(64, extent.start.get())]);
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 3, logs: 1, merged: 0 });
    for _ in 0..4 {
        idle(&mut layer);
    }
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 4, logs: 0, merged: 0 });
    assert_eq!(idle(&mut layer), []);
}

/// The bands that are merged until the drive has nothing to clean, in order.
fn cleaned(layer: &mut FullyAssociative) -> Vec<u64> {
    let mut order = Vec::new();
    loop {
        let steps = idle(layer);
        if steps.is_empty() {
            return order;
        }
        order.extend(merges(&steps));
    }
}

fn merges(steps: &[Step]) -> Vec<u64> {
    let merged = |step: &Step| match step {
        Step::Commit(MapChange::Remapped { lba, .. }) => Some(lba.start.get()),
        _ => None,
    };
    steps.iter().filter_map(merged).collect()
}

/// Bands in the order of their oldest exceptions, and the zone whose log was opened first.
#[test]
fn cleaning_begins_with_the_oldest() {
    let mut layer = FullyAssociative::new(small());
    for start in [256 + 72, 200, 72, 208, 256 + 136, 136, 72] {
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    let order = [256 + 64, 256 + 128, 192, 128, 64];
    assert_eq!(cleaned(&mut layer), order, "72 was written again, so it is the youngest");
}

/// The oldest log of a zone is emptied first.
#[test]
fn cleaning_goes_from_log_to_log() {
    let mut layer = FullyAssociative::new(small());
    for start in [136, 72, 80, 88, 96, 104, 112, 120, 200, 208] {
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    assert_eq!(layer.zone_use(0).logs, 2);
    assert_eq!(cleaned(&mut layer), [128, 64, 192]);
}

/// The order of the logs holds while they come and go: one that is opened again is younger than those that
/// stayed, and after an erase none is left.
#[test]
fn cleaning_goes_from_zone_to_zone_by_the_age_of_their_logs() {
    let mut layer = FullyAssociative::new(FullyAssociativeSpec { capacity: Sectors(12 * 64), ..small() });
    for start in [72, 256 + 72, 512 + 72] {
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    let first: Vec<_> = (0..4).flat_map(|_| merges(&idle(&mut layer))).collect();
    assert_eq!(first, [64]);
    take(&mut layer, &[write(1, 136, 8)], 0);
    take(&mut layer, &[command(1, Op::Trim, 256, 256)], 0);
    take(&mut layer, &[write(1, 256 + 136, 8)], 0);
    assert_eq!(cleaned(&mut layer), [512 + 64, 128, 256 + 128]);
    for start in [512 + 72, 256 + 72, 72] {
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    (0..4).for_each(|_| drop(idle(&mut layer)));
    layer.erase();
    for start in [256 + 72, 72] {
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    assert_eq!(cleaned(&mut layer), [256 + 64, 64]);
}

/// A write that has to wait for its zone does not wait for another one.
#[test]
fn cleaning_of_a_full_zone_leaves_that_of_another_alone() {
    let mut layer = FullyAssociative::new(small());
    take(&mut layer, &[write(1, 256 + 72, 8)], 0);
    let begun = idle(&mut layer);
    assert!(matches!(begun[..], [Step::Access { purpose: Purpose::CleanRead, .. }]));
    for block in 0..24 {
        let start = 64 * (block % 3) + 8 * (1 + block / 3 % 7);
        take(&mut layer, &[write(1, start, 8)], 0);
    }
    let steps = take(&mut layer, &[write(1, 200, 8)], 0);
    assert_eq!(merges(&steps), [0, 192]);
}

/// A lazy drive does nothing on its own; a write that finds the zone full waits for one merge, and if that
/// empties no log it is merged with its own band.
#[test]
fn a_full_zone_is_cleaned_before_a_write() {
    let mut layer = FullyAssociative::new(FullyAssociativeSpec { idle_after: None, ..small() });
    for block in 0..24 {
        let start = 64 * (block % 3) + 8 * (1 + block / 3 % 7);
        let steps = take(&mut layer, &[write(1, start, 8)], 0);
        assert_eq!(steps.len(), 3, "block {block} of 3 logs of 8 blocks");
    }
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 1, logs: 3, merged: 0 });
    assert_eq!(layer.zone_use(1), skylight_layer::ZoneUse { free: 4, logs: 0, merged: 0 });
    assert_eq!(idle(&mut layer), []);
    let steps = take(&mut layer, &[write(1, 200, 8)], 0);
    assert_eq!(merges(&steps), [0, 192], "{steps:?}");
    let written = |step: &Step| match *step {
        Step::Access { direction: Direction::Write, extent, purpose, .. } => Some((extent, purpose)),
        _ => None,
    };
    let written: Vec<_> = steps.iter().filter_map(written).collect();
    let at = written[1].0.start.get();
    let part = |start, len| PbaExtent::new(Pba(at + start), Sectors(len));
    let expected =
        [(part(0, 8), Purpose::CleanWrite), (part(8, 8), Purpose::Host), (part(16, 48), Purpose::CleanWrite)];
    assert_eq!(written[1..], expected, "in the order of the band");
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 1, logs: 3, merged: 0 });
    let steps = take(&mut layer, &[write(1, 208, 8)], 0);
    assert_eq!(merges(&steps), [64, 192], "{steps:?}");
    // The last band with exceptions: all logs are free.
    let steps = take(&mut layer, &[write(1, 216, 8)], 0);
    assert_eq!(merges(&steps), [128], "{steps:?}");
    assert_eq!(layer.zone_use(0), skylight_layer::ZoneUse { free: 3, logs: 1, merged: 0 });
    layer.audit().expect("the layer's own view");
}

/// A host that writes blocks at random for ever waits for two merges at most with each, and for few of them.
#[test]
fn no_write_waits_for_more_than_two_merges() {
    let spec = FullyAssociativeSpec {
        capacity: Sectors(500 * 1024),
        band: Sectors(1024),
        zone: Sectors(500 * 1024),
        free_bands: 10,
        clean_threshold: 1,
        idle_after: None,
        start: Pba(0),
    };
    let (mut layer, mut stream, mut plan) = (FullyAssociative::new(spec), Stream(1), Plan::default());
    let (mut most, mut merged, mut waited) = (0, 0, 0);
    const WRITES: u64 = 40_000;
    for _ in 0..WRITES {
        let block = stream.below(spec.capacity.get() / 8) * 8;
        plan.clear();
        layer.take(Queue { waiting: &[write(0, block, 8)], next: 0 }, &mut plan);
        let here = merges(plan.steps()).len() as u64;
        (most, merged, waited) = (most.max(here), merged + here, waited + u64::from(here > 0));
    }
    let blocks = spec.free_bands as u64 * spec.band.get() / 8;
    println!(
        "{WRITES} writes, {blocks} blocks of cache: {waited} waited for {merged} merges, {most} at most"
    );
    assert_eq!(most, 2);
    // Merging all at once, as often as the cache fills, is 500 merges each time; in small steps it is more.
    let fills = WRITES / blocks;
    assert!(merged < 3 * 500 * fills, "{merged} merges in {fills} fills");
    layer.audit().expect("the layer's own view");
}
