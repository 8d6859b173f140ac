//! Tests 6 to 8: how much a drive accepts before it must clean (Skylight, section 4.6, Table 2).

use skylight_disk::Direction;
use skylight_drive::Drive;
use skylight_layer::{Medium, Purpose};

use crate::paper_tools::{BLOCK, GIB, KIB, MIB, Random, drive, st5000, writes};
use crate::table::Figure;

/// A write that takes longer waits for cleaning: a map merge takes a third of a second, and the cleaning of a
/// band more than half a second.
const CLEANING_MS: f64 = 500.0;

/// Writes random blocks of a size until one waits for cleaning; returns how many preceded it.
pub fn until_cleaning(drive: &mut Drive, size: u64, depth: usize) -> usize {
    let end = drive.capacity().bytes();
    let mut random = Random(size + depth as u64);
    let most = 2 * 37 * GIB / BLOCK;
    let mut done = 0;
    while done < most as usize {
        let offsets: Vec<u64> = (0..31 * 32).map(|_| random.below(end / size) * size).collect();
        let ms = writes(drive, &offsets, size, depth).latencies_ms();
        if let Some(at) = ms.iter().position(|ms| *ms > CLEANING_MS) {
            return done + at;
        }
        done += offsets.len();
    }
    panic!("no cleaning within {most} writes");
}

fn written_gib(drive: &Drive, purposes: &[Purpose]) -> f64 {
    let sectors = |purpose| drive.counters().account(purpose, Direction::Write, Medium::Platter).sectors;
    purposes.iter().map(|&purpose| sectors(purpose) * 512).sum::<u64>() as f64 / GIB as f64
}

pub fn s6a() -> Vec<Figure> {
    let count = until_cleaning(&mut st5000(), BLOCK, 1);
    let mut drive = st5000();
    let offsets: Vec<u64> = (0..count as u64).map(|at| at * 200 * MIB).collect();
    writes(&mut drive, &offsets, BLOCK, 1);
    let gib = written_gib(&drive, &[Purpose::Cache, Purpose::OutOfBand, Purpose::MapMerge]);
    vec![("writes of 4 KiB at depth 1", count as f64), ("media bytes of them, GiB", gib)]
}

fn deep(size: u64) -> f64 {
    until_cleaning(&mut st5000(), size, 31) as f64
}

pub fn s7a() -> Vec<Figure> {
    vec![("writes of 4 KiB at depth 31", deep(4 * KIB)), ("writes of 64 KiB at depth 31", deep(64 * KIB))]
}

pub fn s8a() -> Vec<Figure> {
    vec![
        ("writes of 128 KiB at depth 31", deep(128 * KIB)),
        ("writes of 256 KiB at depth 31", deep(256 * KIB)),
    ]
}

/// "Running test 6 on emulated drives produces all three answers" (section 4.6).
pub fn s8b() -> Vec<Figure> {
    let share = |name: &str, gib: f64| {
        let writes = until_cleaning(&mut drive(name), BLOCK, 1);
        (writes as u64 * BLOCK) as f64 / GIB as f64 / gib
    };
    // Each drive writes millions of blocks.
    std::thread::scope(|scope| {
        let first = scope.spawn(|| share("emulated-smr-1", 37.2));
        let second = scope.spawn(|| share("emulated-smr-2", 9.98));
        let third = scope.spawn(|| share("emulated-smr-3", 37.2));
        vec![
            ("em-1, share of 37.2 GiB", first.join().expect("it cleans")),
            ("em-2, share of 9.98 GiB", second.join().expect("it cleans")),
            ("em-3, share of 37.2 GiB", third.join().expect("it cleans")),
        ]
    })
}

/// Footnote 2: "results with the volatile cache enabled [...] are similar to those for a queue depth of 31".
pub fn s16() -> Vec<Figure> {
    let ratio = |kib: u64| {
        let mut drive = st5000();
        assert!(drive.set_write_cache(true));
        let count = until_cleaning(&mut drive, kib * KIB, 1) as f64;
        println!("S16 | {kib} KiB, volatile cache on, depth 1: {count} writes");
        count / deep(kib * KIB)
    };
    vec![
        ("writes of 4 KiB over those at depth 31", ratio(4)),
        ("writes of 64 KiB over those at depth 31", ratio(64)),
        ("writes of 128 KiB over those at depth 31", ratio(128)),
        ("writes of 256 KiB over those at depth 31", ratio(256)),
    ]
}
