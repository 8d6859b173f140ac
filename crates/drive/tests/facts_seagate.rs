//! The rows of FACTS that are about the real drive ST5000AS0011, as raw behaviour of its profile.
//!
//! Each test names its row, prints what the paper says, what the model does and the band of the row, and
//! asserts the band. Tests run on the profile that people use; nothing is set to suit a row. Volatile cache and
//! look-ahead are off, as in the paper (Skylight, section 4.2).

use std::path::Path;

use skylight_disk::{Direction, Nanos};
use skylight_drive::batch::op;
use skylight_drive::profile::{Layer, Profile};
use skylight_drive::{Batch, Drive, TraceRow};
use skylight_layer::{Medium, Purpose};

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;
const GIB: u64 = 1024 * MIB;
const SECOND: u64 = 1_000_000_000;

fn profile(name: &str) -> Profile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles");
    let path = folder.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Profile::from_toml(&text, name).unwrap_or_else(|error| panic!("{error}"))
}

/// A new drive, heads parked, volatile cache and look-ahead off.
fn drive(name: &str) -> Drive {
    let mut drive = Drive::new(&profile(name), 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(!drive.set_write_cache(false) && !drive.set_look_ahead(false));
    drive
}

fn st5000() -> Drive {
    drive("st5000as0011")
}

/// Random numbers from a seed (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Different offsets of blocks of `size` bytes below `end`.
    fn offsets(&mut self, count: usize, size: u64, end: u64) -> Vec<u64> {
        let mut offsets: Vec<u64> = (0..count * 5 / 4).map(|_| self.below(end / size) * size).collect();
        offsets.sort_unstable();
        offsets.dedup();
        for index in (1..offsets.len()).rev() {
            offsets.swap(index, self.below(index as u64 + 1) as usize);
        }
        offsets.truncate(count);
        assert_eq!(offsets.len(), count, "the region has room for so many");
        offsets
    }
}

/// Submit and complete times of commands of one kind and size.
struct Log {
    submit_ns: Vec<u64>,
    complete_ns: Vec<u64>,
}

impl Log {
    fn latencies_ms(&self) -> Vec<f64> {
        self.submit_ns.iter().zip(&self.complete_ns).map(|(s, c)| (c - s) as f64 / 1e6).collect()
    }

    /// From the first submission to the last completion.
    fn took_ms(&self) -> f64 {
        let first = self.submit_ns.iter().min().expect("commands were run");
        let last = self.complete_ns.iter().max().expect("commands were run");
        (last - first) as f64 / 1e6
    }
}

fn run(drive: &mut Drive, kind: u8, offsets: &[u64], size: u64, depth: usize) -> Log {
    let count = offsets.len();
    let (kinds, sizes) = (vec![kind; count], vec![size as u32; count]);
    let batch = Batch { op: &kinds, offset: offsets, size: &sizes };
    let mut log = Log { submit_ns: vec![0; count], complete_ns: vec![0; count] };
    drive.run(&batch, depth, &mut log.submit_ns, &mut log.complete_ns).expect("commands of this drive");
    log
}

fn writes(drive: &mut Drive, offsets: &[u64], size: u64, depth: usize) -> Log {
    run(drive, op::WRITE, offsets, size, depth)
}

fn reads(drive: &mut Drive, offsets: &[u64], size: u64) -> Log {
    run(drive, op::READ, offsets, size, 1)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

/// Prints a figure beside its band, and asserts that it lies there.
fn check(row: &str, what: &str, paper: &str, ours: f64, band: std::ops::RangeInclusive<f64>) {
    println!("{row} | {what} | paper {paper} | ours {ours:.2} | band {} to {}", band.start(), band.end());
    assert!(band.contains(&ours), "{row}, {what}: {ours:.3} is not in {band:?}");
}

#[test]
fn s1e_lone_writes_take_two_and_a_half_turns_and_a_map_merge_every_240th() {
    let mut first = Vec::new();
    for phase in 0..40 {
        let mut drive = st5000();
        drive.pause(Nanos(phase * 253_000));
        first.push(writes(&mut drive, &[GIB], 4 * KIB, 1).latencies_ms()[0]);
    }
    let ends = first.iter().fold((f64::MAX, 0.0_f64), |(low, high), &ms| (low.min(ms), high.max(ms)));
    check("S1e", "first write at best, ms", "41", ends.0, 38.0..=55.0);
    check("S1e", "first write at worst, ms", "52", ends.1, 38.0..=55.0);

    let mut drive = st5000();
    drive.start_trace(10_000);
    let offsets = Random(1).offsets(2_400, 4 * KIB, GIB);
    let ms = writes(&mut drive, &offsets, 4 * KIB, 1).latencies_ms();
    let (merges, others): (Vec<_>, Vec<_>) =
        ms.iter().enumerate().skip(1).partition(|(at, _)| (at + 1) % 240 == 0);
    for (at, ms) in merges {
        check("S1e", &format!("write {}, ms", at + 1), "325", *ms, 310.0..=340.0);
    }
    let others: Vec<f64> = others.into_iter().map(|(_, ms)| *ms).collect();
    check("S1e", "the others, median ms", "25", median(&others), 23.8..=26.0);
    let inside = others.iter().filter(|ms| (23.8..=26.0).contains(*ms)).count() as f64 / others.len() as f64;
    check("S1e", "the others within the band", "all", inside, 0.99..=1.0);
    let trace = drive.take_trace().expect("a trace was started");
    let at_md = |row: &&TraceRow| row.purpose == Purpose::MapMerge;
    let stays: Vec<f64> =
        trace.rows().iter().filter(at_md).map(|row| (row.end - row.arrived).get() as f64 / 1e6).collect();
    assert_eq!(stays.len(), 10);
    println!("S1e | time at the MD, ms | paper 285 | ours {:.1} | no band", median(&stays));
}

#[test]
fn s1f_a_deep_queue_packs_writes_into_few_entries() {
    for (depth, paper_ms) in [(1, 6_539.0), (31, 216.0)] {
        let mut drive = st5000();
        let offsets = Random(2).offsets(257, 4 * KIB, GIB);
        writes(&mut drive, &offsets[..1], 4 * KIB, 1);
        let took = writes(&mut drive, &offsets[1..], 4 * KIB, depth).took_ms();
        let what = format!("256 writes at depth {depth}, ms");
        check("S1f", &what, &paper_ms.to_string(), took, 0.9 * paper_ms..=1.1 * paper_ms);
    }
}

#[test]
fn s1g_reads_in_written_order_show_how_blocks_were_packed() {
    for (depth, paper, band) in [(1, "5", 4.2..=5.6), (31, "10", 9.6..=10.7)] {
        let mut drive = st5000();
        let offsets = Random(3).offsets(200, 4 * KIB, GIB);
        writes(&mut drive, &offsets, 4 * KIB, depth);
        let ms = reads(&mut drive, &offsets, 4 * KIB).latencies_ms();
        check("S1g", &format!("after depth {depth}, median ms"), paper, median(&ms), band);
    }
}

#[test]
fn s1h_latency_steps_where_a_burst_needs_another_quantum() {
    let burst_ms = |size: u64| {
        let mut drive = st5000();
        let offsets = Random(size).offsets(1 + 31 * 7, 256 * KIB, 100 * GIB);
        writes(&mut drive, &offsets[..1], 4 * KIB, 1);
        let bursts = offsets[1..].chunks(31).map(|burst| writes(&mut drive, burst, size, 31).latencies_ms());
        bursts.flatten().collect::<Vec<f64>>()
    };
    let sizes: Vec<u64> = (2..=55).map(|two_kib| two_kib * 2).collect();
    let medians: Vec<f64> = sizes.iter().map(|size| median(&burst_ms(size * KIB))).collect();
    let steps = medians.windows(2).map(|pair| pair[1] - pair[0]);
    let edges: Vec<u64> =
        steps.zip(&sizes[1..]).filter(|(step, _)| *step > 2.0).map(|(_, size)| *size).collect();
    println!("S1h | edges, KiB | paper [28, 56, 84] | ours {edges:?} | exact");
    assert_eq!(&edges[..3], [28, 56, 84]);
    for (size, ms) in sizes.iter().zip(&medians) {
        let steps = edges.iter().filter(|edge| *edge <= size).count() as f64;
        let flat = ms - 4.5 * steps;
        assert!((23.8..=26.0).contains(&flat), "S1h: {size} KiB takes {ms:.2} ms");
    }
    check("S1h", "4 to 26 KiB, ms", "25", medians[0], 23.8..=26.0);
    let mixed = burst_ms(256 * KIB);
    let spread = mixed.iter().copied().fold(0.0, f64::max) - mixed.iter().copied().fold(f64::MAX, f64::min);
    println!("S1h | spread at 256 KiB, ms | paper: varying | ours {spread:.1}");
    assert!(spread > 20.0, "S1h: entries of less than a burst make latencies vary");
}

/// Writes until one waits for cleaning, which takes longer than anything else: how many went before.
fn writes_until_cleaning(drive: &mut Drive, size: u64, depth: usize, most: usize) -> usize {
    let end = drive.capacity().bytes();
    let mut random = Random(size + depth as u64);
    let mut done = 0;
    while done < most {
        let offsets: Vec<u64> = (0..31 * 32).map(|_| random.below(end / size) * size).collect();
        let ms = writes(drive, &offsets, size, depth).latencies_ms();
        if let Some(at) = ms.iter().position(|ms| *ms > 500.0) {
            return done + at;
        }
        done += offsets.len();
    }
    panic!("no cleaning within {most} writes");
}

fn written_gib(drive: &Drive, purposes: &[Purpose]) -> f64 {
    let sectors = |purpose| drive.ledger().account(purpose, Direction::Write, Medium::Platter).sectors;
    purposes.iter().map(|&purpose| sectors(purpose) * 512).sum::<u64>() as f64 / GIB as f64
}

#[test]
fn s6a_lone_writes_fill_the_places() {
    let mut drive = st5000();
    let count = writes_until_cleaning(&mut drive, 4 * KIB, 1, 40_000);
    check("S6a", "writes of 4 KiB at depth 1", "22,800", count as f64, 22_344.0..=23_256.0);
    let mut drive = st5000();
    let offsets: Vec<u64> = (0..count as u64).map(|at| at * 200 * MIB).collect();
    writes(&mut drive, &offsets, 4 * KIB, 1);
    let gib = written_gib(&drive, &[Purpose::Cache, Purpose::OutOfBand, Purpose::MapMerge]);
    check("S6a", "media bytes of them, GiB", "100", gib, 90.0..=112.0);
}

#[test]
fn s7a_small_writes_in_a_deep_queue_fill_the_map() {
    for (size, paper) in [(4, 182_270.0), (64, 182_231.0)] {
        let count = writes_until_cleaning(&mut st5000(), size * KIB, 31, 250_000) as f64;
        let what = format!("writes of {size} KiB at depth 31");
        check("S7a", &what, &paper.to_string(), count, 0.99 * paper..=1.01 * paper);
    }
}

#[test]
fn s8a_large_writes_in_a_deep_queue_fill_the_cache() {
    for (size, paper) in [(128, 137_496.0), (256, 67_830.0)] {
        let count = writes_until_cleaning(&mut st5000(), size * KIB, 31, 250_000) as f64;
        let what = format!("writes of {size} KiB at depth 31");
        check("S8a", &what, &paper.to_string(), count, 0.98 * paper..=1.02 * paper);
    }
}

/// Where the band that holds a byte of the drive begins.
fn band_start(offset: u64) -> u64 {
    let profile = profile("st5000as0011");
    let Layer::Journaled(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
    let mut start = 0;
    for run in &keys.bands {
        if run.until.is_none_or(|until| offset < until.get()) {
            return start + (offset - start) / run.band.get() * run.band.get();
        }
        start = run.until.map_or(start, |until| until.get());
    }
    start
}

/// When a row's access ended, in ms since `since`.
fn until_ms(row: &TraceRow, since: u64) -> f64 {
    (row.end.get() - since) as f64 / 1e6
}

#[test]
fn s3b_one_cleaning_as_the_head_shows_it() {
    let mut drive = st5000();
    let offset = band_start(2_500_000_000_000);
    let offsets: Vec<u64> = (0..512).map(|block| offset + block * 8 * KIB).collect();
    writes(&mut drive, &offsets, 4 * KIB, 1);
    let last = drive.now().get();
    drive.start_trace(10_000);
    drive.pause(Nanos(5 * SECOND));
    let trace = drive.take_trace().expect("a trace was started");
    let rows = trace.rows();
    let is = |purpose| move |row: &&TraceRow| row.purpose == purpose;
    let first = |purpose| *rows.iter().find(is(purpose)).expect("cleaning has this step");
    let (band_read, written, update) =
        (first(Purpose::CleanRead), first(Purpose::CleanWrite), first(Purpose::MapUpdate));
    let staged = first(Purpose::CleanStage);
    check(
        "S3b",
        "start after the last write, s",
        "1.242",
        (band_read.start.get() - last) as f64 / 1e9,
        1.1..=1.4,
    );
    let stay = |row: &TraceRow| (row.end - row.arrived).get() as f64 / 1e6;
    check("S3b", "band read, ms", "180", stay(&band_read), 144.0..=216.0);
    let at_od = until_ms(&staged, rows[1].arrived.get());
    check("S3b", "at the OD, ms", "1,210", at_od, 968.0..=1_452.0);
    check("S3b", "band written, ms", "227", stay(&written), 181.6..=272.4);
    assert!(update.track.abs_diff(written.track) < 20_000, "the map is at the MD");
    check("S3b", "in all, s", "1.6", until_ms(&update, band_read.start.get()) / 1e3, 1.4..=1.8);
}

#[test]
fn s4a_bands_with_one_dirty_block_are_cleaned_in_the_order_of_their_writes() {
    let mut drive = st5000();
    let end = drive.capacity().bytes();
    let offsets = Random(4).offsets(4_096, 4 * KIB, end);
    writes(&mut drive, &offsets, 4 * KIB, 1);
    let cached = |drive: &Drive| drive.cache_use().live_sectors / 8;
    drive.start_trace(100_000);
    let mut pause = |minutes: u64| {
        drive.pause(Nanos(minutes * 60 * SECOND));
        (4_096 - cached(&drive)) as f64
    };
    check("S4a", "blocks cleaned in 10 minutes", "800", pause(10), 700.0..=1_100.0);
    check("S4a", "blocks cleaned in 30 minutes", "3,000", pause(20), 2_600.0..=3_200.0);
    let trace = drive.take_trace().expect("a trace was started");
    let updates: Vec<u64> = trace
        .rows()
        .iter()
        .filter(|row| row.purpose == Purpose::MapUpdate)
        .map(|row| row.end.get())
        .collect();
    let bands: Vec<f64> = updates.windows(2).map(|pair| (pair[1] - pair[0]) as f64 / 1e9).collect();
    check("S4a", "a band with one dirty block, s", "0.6", median(&bands), 0.55..=0.65);
}
