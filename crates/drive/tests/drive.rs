//! A drive as seen by its host: times, queue, flushes, counters, trace, jitter, and rejected batches.

use skylight_command::code::{Code, UnknownCode};
use skylight_disk::{Direction, Nanos};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, BatchError, Drive, DriveCounters};
use skylight_layer::{Medium, Op, Purpose};

/// Host-visible bytes.
const CAPACITY: u64 = 64 << 20;
const OVERHEAD_NS: u64 = 100_000;

/// The sections of a small drive; tests can replace each of them.
#[derive(Clone, Copy)]
struct Parts {
    interface: &'static str,
    layer: &'static str,
    rest: &'static str,
}

const FIFO: &str = "queue_depth = 31\ncommand_overhead = \"0.1 ms\"";
const SPTF: &str =
    "queue_depth = 31\ncommand_overhead = \"0.1 ms\"\nschedule = \"shortest-positioning-first\"";
const CONVENTIONAL: &str = "kind = \"conventional\"";
const FLASH: &str = "[flash]\nread = \"0.09 ms\"\nwrite = \"0.2 ms\"\nbandwidth = \"400 MB\"";
const PLAIN: Parts = Parts { interface: FIFO, layer: CONVENTIONAL, rest: "" };

/// Set-associative layers with the cache at each location on the platters and on flash.
const CACHES: [(&str, &str); 4] = [
    ("cache_medium = \"disk\"\ncache_location = \"od\"", ""),
    ("cache_medium = \"disk\"\ncache_location = \"md\"", ""),
    ("cache_medium = \"disk\"\ncache_location = \"id\"", ""),
    ("cache_medium = \"flash\"", FLASH),
];

fn profile(parts: Parts, layer: &str) -> Profile {
    let Parts { interface, rest, .. } = parts;
    // 153,600 sectors on the platters: the drive uses 131,072 of them and a cache 4,096.
    let text = format!(
        "schema = 1\nname = \"small\"\ncapacity = \"64 MiB\"\n\
         [mechanics]\nrotation = \"8.3 ms\"\nhead_switch = \"0.6 ms\"\nwrite_settle = \"0.1 ms\"\n\
         seek = {{ fitted = {{ constant = \"0.8 ms\", root = \"0.02 ms\", linear = \"0.001 ms\" }} }}\n\
         [geometry]\nsurfaces = 2\nlayout = \"cylinder-serpentine\"\n\
         track_skew = \"1 ms\"\nhead_skew = \"0.8 ms\"\n\
         [[geometry.zone]]\ntracks = 300\nsectors_per_track = 176\n\
         [[geometry.zone]]\ntracks = 240\nsectors_per_track = 100\n\
         [interface]\n{interface}\n[layer]\n{layer}\n{rest}\n"
    );
    Profile::from_toml(&text, "small.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn drive(parts: Parts, seed: u64) -> Drive {
    Drive::new(&profile(parts, parts.layer), seed).unwrap_or_else(|error| panic!("{error}"))
}

fn cached(interface: &'static str, (place, flash): (&str, &'static str)) -> Drive {
    let layer = format!("kind = \"set-associative\"\nband = \"512 KiB\"\ncache = \"2 MiB\"\n{place}");
    let profile = profile(Parts { interface, layer: "", rest: flash }, &layer);
    Drive::new(&profile, 1).unwrap_or_else(|error| panic!("{error}"))
}

/// Commands as columns.
#[derive(Clone, Default)]
struct Commands {
    op: Vec<Code>,
    offset: Vec<u64>,
    size: Vec<u32>,
}

impl Commands {
    fn push(&mut self, op: Code, offset: u64, size: u32) {
        self.op.push(op);
        self.offset.push(offset);
        self.size.push(size);
    }

    /// Random commands of whole sectors with operations from `ops`.
    fn random(count: usize, seed: u64, ops: &[Code], sectors: u64) -> Self {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = move |bound: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state % bound
        };
        let mut commands = Self::default();
        for _ in 0..count {
            let size = 512 * (1 + below(sectors));
            let offset = below((CAPACITY - size) / 512 + 1) * 512;
            commands.push(ops[below(ops.len() as u64) as usize], offset, size as u32);
        }
        commands
    }

    fn blocks(count: usize, seed: u64, op: Code) -> Self {
        let mut commands = Self::random(count, seed, &[op], 1);
        for (offset, size) in commands.offset.iter_mut().zip(&mut commands.size) {
            (*offset, *size) = (*offset / 4096 * 4096, 4096);
        }
        commands
    }

    fn batch(&self) -> Batch<'_> {
        Batch { op: &self.op, offset: &self.offset, size: &self.size }
    }

    /// Runs all commands; returns submit and complete times.
    fn run(&self, drive: &mut Drive, depth: usize) -> (Vec<u64>, Vec<u64>) {
        let (mut submit, mut complete) = (vec![0; self.op.len()], vec![0; self.op.len()]);
        drive.run(&self.batch(), depth, &mut submit, &mut complete).expect("a batch of this drive");
        (submit, complete)
    }

    fn bytes(&self, op: Code) -> u64 {
        self.op.iter().zip(&self.size).filter(|(o, _)| **o == op).map(|(_, &size)| u64::from(size)).sum()
    }
}

/// Maximum number of outstanding commands, derived only from the times.
fn most_outstanding(submit: &[u64], complete: &[u64]) -> i64 {
    // At the same instant, completions precede submissions, since the host reacts to them.
    let submits = submit.iter().map(|&at| (at, 1));
    let completes = complete.iter().map(|&at| (at, -1));
    let mut events: Vec<(u64, i64)> = submits.chain(completes).collect();
    events.sort_unstable();
    let outstanding = events.iter().scan(0, |count, (_, change)| {
        *count += change;
        Some(*count)
    });
    outstanding.max().unwrap_or(0)
}

#[test]
fn a_command_takes_at_least_its_overhead_and_at_most_depth_are_outstanding() {
    for depth in [1, 2, 7, 31, 200] {
        for interface in [FIFO, SPTF] {
            let commands = Commands::random(
                2_000,
                depth as u64,
                &[Code::Read, Code::Write, Code::Read, Code::Write, Code::Flush],
                64,
            );
            let (submit, complete) = commands.run(&mut cached(interface, CACHES[2]), depth);
            assert!(submit.iter().zip(&complete).all(|(s, c)| *c >= s + OVERHEAD_NS), "depth {depth}");
            assert!(submit.is_sorted(), "the host submits in order, depth {depth}");
            assert_eq!(most_outstanding(&submit, &complete), depth as i64, "{interface}");
        }
    }
}

#[test]
fn fifo_completes_in_order_and_sptf_does_not() {
    let commands = Commands::blocks(3_000, 5, Code::Read);
    let (_, complete) = commands.run(&mut drive(PLAIN, 1), 16);
    assert!(complete.is_sorted_by(|a, b| a < b));
    let (_, complete) = commands.run(&mut drive(Parts { interface: SPTF, ..PLAIN }, 1), 16);
    assert!(!complete.is_sorted());
}

#[test]
fn a_deep_queue_gains_from_sptf() {
    for seed in 1..6 {
        let commands = Commands::blocks(2_000, seed, Code::Read);
        let took = |interface, depth| {
            let mut drive = drive(Parts { interface, ..PLAIN }, 1);
            commands.run(&mut drive, depth);
            drive.now().get() as f64
        };
        let (fifo, sptf) = (took(FIFO, 31), took(SPTF, 31));
        assert!(sptf < 0.6 * fifo, "seed {seed}: {sptf} ns against {fifo} ns");
        assert!(fifo < took(FIFO, 1), "in a queue the overhead runs beside the media");
        assert_eq!(took(SPTF, 1), took(FIFO, 1), "one command leaves no choice");
    }
}

/// A queue hides the overhead, so that a sequential read runs without gaps.
#[test]
fn a_queued_sequential_read_runs_at_media_speed() {
    let mut commands = Commands::default();
    (0..2_200u64).for_each(|block| commands.push(Code::Read, block * 4096, 4096));
    for interface in [FIFO, SPTF] {
        let mut drive = drive(Parts { interface, ..PLAIN }, 1);
        let (_, complete) = commands.run(&mut drive, 31);
        // 100 tracks of 176 sectors, with 49 steps to the next track and 50 head switches. A block takes
        // 377,272.7 ns: rounding errors must not add up until a block is missed.
        let (revolution_ms, tracks) = (8.3, 49.0 * 1.0 + 50.0 * 0.8);
        let expected_ms = (17_600.0 - 8.0) / 176.0 * revolution_ms + tracks;
        let (first, last) = (complete.iter().min(), complete.iter().max());
        let took_ms = (last.unwrap_or(&0) - first.unwrap_or(&0)) as f64 / 1e6;
        // The other schedule may start in the middle of its queue, and returns once for the blocks it passed.
        let (less_ms, more_ms) =
            if interface == FIFO { (0.01, 0.01) } else { (revolution_ms, 2.0 * revolution_ms) };
        let range = expected_ms - less_ms..expected_ms + more_ms;
        assert!(range.contains(&took_ms), "{took_ms} ms, not {range:?} ms: {interface}");
    }
}

#[test]
fn a_flush_takes_its_overhead_and_moves_no_data() {
    let mut drive = drive(PLAIN, 1);
    let mut commands = Commands::default();
    commands.push(Code::Flush, 0, 0);
    // The extent of a flush has no meaning.
    commands.push(Code::Flush, u64::MAX, 5);
    let (submit, complete) = commands.run(&mut drive, 1);
    assert_eq!((submit, complete), (vec![0, OVERHEAD_NS], vec![OVERHEAD_NS, 2 * OVERHEAD_NS]));
    assert_eq!(drive.counters().host_commands(Op::Flush), 2);
    let moved = |way| drive.counters().media_bytes(way) + drive.counters().host_bytes(way);
    assert_eq!(moved(Direction::Read) + moved(Direction::Write), 0);
}

#[test]
fn a_pause_only_advances_the_time() {
    let mut drive = drive(PLAIN, 1);
    drive.pause(Nanos(5_000_000));
    assert_eq!((drive.now().get(), drive.counters()), (5_000_000, &DriveCounters::default()));
    let (submit, _) = Commands::blocks(1, 1, Code::Read).run(&mut drive, 1);
    assert_eq!(submit, [5_000_000]);
}

#[test]
fn the_counters_of_a_conventional_drive_match_the_host_commands() {
    let mut drive = drive(PLAIN, 1);
    let commands = Commands::random(3_000, 8, &[Code::Read, Code::Write, Code::Flush], 700);
    commands.run(&mut drive, 9);
    let counters = drive.counters();
    for (op, way, host) in
        [(Code::Read, Direction::Read, Op::Read), (Code::Write, Direction::Write, Op::Write)]
    {
        assert_eq!(counters.host_bytes(way), commands.bytes(op));
        assert_eq!(counters.media_bytes(way), commands.bytes(op));
        let account = counters.account(Purpose::Host, way, Medium::Platter);
        assert_eq!(account.sectors * 512, commands.bytes(op));
        let count = commands.op.iter().filter(|&&o| o == op).count() as u64;
        assert_eq!((account.accesses, counters.host_commands(host)), (count, count));
    }
    assert_eq!(
        counters.host_commands(Op::Flush),
        commands.op.iter().filter(|&&o| o == Code::Flush).count() as u64
    );
}

/// Every cache location, both schedules, through many cleanings: full cache bands must not confuse a
/// scheduler.
#[test]
fn the_counters_of_a_cached_drive_balance_across_cleanings() {
    for (cache, interface) in CACHES.into_iter().flat_map(|cache| [(cache, FIFO), (cache, SPTF)]) {
        for commands in [
            Commands::blocks(6_000, 3, Code::Write),
            Commands::random(4_000, 4, &[Code::Read, Code::Write, Code::Write, Code::Write], 100),
        ] {
            let mut drive = cached(interface, cache);
            commands.run(&mut drive, 31);
            let counters = drive.counters();
            assert_eq!(counters.host_bytes(Direction::Write), commands.bytes(Code::Write), "{cache:?}");
            assert_eq!(counters.host_bytes(Direction::Read), commands.bytes(Code::Read), "{cache:?}");
            let medium = if cache.1.is_empty() { Medium::Platter } else { Medium::Flash };
            let sectors = |purpose, way, medium| counters.account(purpose, way, medium).sectors;
            let cache_writes = sectors(Purpose::Cache, Direction::Write, medium);
            assert_eq!(cache_writes * 512, commands.bytes(Code::Write), "each write goes to the cache once");
            let reads = sectors(Purpose::Cache, Direction::Read, medium)
                + sectors(Purpose::Host, Direction::Read, Medium::Platter);
            assert_eq!(reads * 512, commands.bytes(Code::Read), "each read comes from one place");
            let rewritten = sectors(Purpose::CleanWrite, Direction::Write, Medium::Platter);
            assert!(rewritten > 0 && rewritten.is_multiple_of(1024), "whole bands: {rewritten}");
            assert_eq!(counters.media_bytes(Direction::Write), (cache_writes + rewritten) * 512);
            let live = drive.cache_use().live_sectors;
            assert!(live > 0 && live <= 4 * 1024, "{live} sectors fit the cache");
        }
    }
}

#[test]
fn an_erased_drive_has_an_empty_cache() {
    let mut drive = cached(FIFO, CACHES[0]);
    let mut commands = Commands::default();
    (0..300u64).for_each(|block| commands.push(Code::Write, block * 40_960, 4096));
    commands.run(&mut drive, 1);
    assert_eq!(drive.cache_use().live_sectors, 300 * 8);
    let before = drive.now();
    drive.erase();
    assert_eq!((drive.cache_use().live_sectors, drive.now()), (0, before));
}

#[test]
fn trace_rows_are_in_order_and_cover_all_platter_time() {
    for cache in CACHES {
        let mut drive = cached(SPTF, cache);
        let commands = Commands::random(3_000, 11, &[Code::Read, Code::Write], 200);
        drive.start_trace(1_000_000);
        commands.run(&mut drive, 31);
        let counters = drive.counters().clone();
        let trace = drive.take_trace().expect("a trace was started");
        assert!(drive.take_trace().is_none());
        assert_eq!(trace.lost(), 0);
        let mut free = 0;
        for row in trace.rows() {
            assert!(free <= row.start.get(), "{row:?} overlaps the row before");
            assert!(row.start <= row.arrived && row.arrived <= row.transfer_start, "{row:?}");
            assert!(row.transfer_start < row.end, "{row:?}");
            assert!(row.track < 540 && row.end_track < 540 && row.surface < 2, "{row:?}");
            free = row.end.get();
        }
        for purpose in Purpose::ALL {
            let rows = || trace.rows().iter().filter(|row| row.purpose == purpose);
            let accounts =
                [Direction::Read, Direction::Write].map(|w| counters.account(purpose, w, Medium::Platter));
            assert_eq!(rows().count() as u64, accounts.iter().map(|a| a.accesses).sum::<u64>());
            let spent: u64 = rows().map(|row| (row.end - row.start).get()).sum();
            assert_eq!(spent, accounts.iter().map(|a| a.time.get()).sum::<u64>());
        }
    }
}

#[test]
fn a_full_trace_counts_lost_rows() {
    let mut drive = drive(PLAIN, 1);
    drive.start_trace(10);
    Commands::blocks(25, 1, Code::Read).run(&mut drive, 1);
    let trace = drive.take_trace().expect("a trace was started");
    assert_eq!((trace.rows().len(), trace.lost()), (10, 15));
    let untraced = Commands::blocks(5, 1, Code::Read).run(&mut drive, 1).1;
    assert_eq!(untraced.len(), 5, "the drive goes on without one");
}

/// The time of a command beyond its overhead and media time is jitter, with the mean of its specification.
#[test]
fn jitter_has_the_mean_of_its_profile() {
    let specs = [
        ("[jitter]\nabsolute = \"0.1 ms\"", 0.0, 50_000.0),
        ("[jitter]\noutlier_rate = 0.1\noutlier = \"20 ms\"", 0.0, 1_000_000.0),
        // Only delays: the mean absolute value of a normal draw.
        ("[jitter]\nrelative = 0.02", 0.02 * 0.797_885, 0.0),
    ];
    let count = 40_000;
    for (rest, of_media, fixed_ns) in specs {
        let mut drive = drive(Parts { rest, ..PLAIN }, 12);
        let (submit, complete) = Commands::blocks(count, 6, Code::Read).run(&mut drive, 1);
        let media = drive.counters().account(Purpose::Host, Direction::Read, Medium::Platter).time.get();
        let total: u64 = submit.iter().zip(&complete).map(|(s, c)| c - s).sum();
        let extra = (total - media - count as u64 * OVERHEAD_NS) as f64 / count as f64;
        let expected = of_media * media as f64 / count as f64 + fixed_ns;
        assert!((extra / expected - 1.0).abs() < 0.05, "{rest}: {extra} ns a command, not {expected} ns");
    }
}

#[test]
fn an_invalid_batch_is_rejected_in_one_line_and_has_no_effect() {
    let mut drive = drive(PLAIN, 1);
    let good = Commands::blocks(3, 1, Code::Write);
    let mut rejected = |commands: &Commands, depth: usize, expected: BatchError, text: &str| {
        let (mut submit, mut complete) = (vec![0; 4], vec![0; 4]);
        let error = drive.run(&commands.batch(), depth, &mut submit, &mut complete).expect_err(text);
        assert_eq!((error.to_string().as_str(), &error), (text, &expected));
        assert_eq!((drive.now().get(), drive.counters()), (0, &DriveCounters::default()));
        assert_eq!((submit, complete), (vec![0; 4], vec![0; 4]));
    };
    let text = "the columns are not of one length: op 3, offset 3, size 3, submit 4, complete 4";
    rejected(&good, 1, BatchError::Lengths(3, 3, 3, 4, 4), text);
    let with = |op: Code, offset: u64, size: u32| {
        let mut commands = good.clone();
        commands.push(op, offset, size);
        commands
    };
    let fine = with(Code::Flush, 0, 0);
    for depth in [0, 65_537] {
        let text = format!("depth {depth} is out of range 1 to 65,536");
        rejected(&fine, depth, BatchError::Depth(depth), &text);
    }
    rejected(&with(Code::Write, 512, 0), 1, BatchError::Empty(3), "command 3: size is 0");
    for (offset, size) in [(100, 512), (512, 100), (511, 513)] {
        let text = format!("command 3: offset {offset} and size {size} are not whole sectors of 512 bytes");
        rejected(&with(Code::Read, offset, size), 1, BatchError::Alignment(3, offset, size), &text);
    }
    let top = u64::MAX / 512 * 512;
    for (offset, size) in [(CAPACITY, 512), (CAPACITY - 512, 1024), (top, 4096), (0, u32::MAX - 511)] {
        let text =
            format!("command 3: offset {offset} and size {size} pass the end of the drive at {CAPACITY}");
        rejected(&with(Code::Write, offset, size), 1, BatchError::Range(3, offset, size, CAPACITY), &text);
    }
}

#[test]
fn a_column_with_an_unknown_operation_is_rejected_in_one_line() {
    let unknown = Code::column(&[0, 1, 2, 99]).expect_err("a number of no operation");
    let text = "command 3: operation 99 is not known; use 0 read, 1 write, 2 flush, 3 trim, 4 write \
                with FUA, 5 open zone, 6 close zone, 7 finish zone, 8 reset zone, 9 append";
    assert_eq!(unknown, UnknownCode { row: 3, code: 99 });
    assert_eq!(BatchError::from(unknown).to_string(), text);
}

#[test]
fn the_first_and_last_sectors_are_accessible_and_an_empty_batch_is_valid() {
    let mut drive = drive(PLAIN, 1);
    Commands::default().run(&mut drive, 1);
    assert_eq!(drive.now().get(), 0);
    let mut ends = Commands::default();
    ends.push(Code::Write, 0, 512);
    ends.push(Code::Read, CAPACITY - 512, 512);
    ends.push(Code::Read, 0, CAPACITY as u32);
    ends.run(&mut drive, 1);
    assert_eq!(drive.counters().host_bytes(Direction::Read), CAPACITY + 512);
}
