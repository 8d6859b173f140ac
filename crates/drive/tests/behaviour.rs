//! Background behaviour of a drive: the volatile write cache, look-ahead, idle time, TRIM, FUA.

use proptest::prelude::*;
use skylight_command::code::Code;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Sectors};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};
use skylight_layer::{Medium, Op, Purpose};

const CAPACITY: u64 = 64 << 20;
const BLOCK: u32 = 4096;
const OVERHEAD_NS: u64 = 100_000;
const REVOLUTION_NS: u64 = 10_000_000;
/// Bytes of the volatile write cache.
const CACHE: u64 = 1 << 20;
/// Idle time before the journaled drive cleans.
const IDLE_NS: u64 = 50_000_000;

const CONVENTIONAL: &str = "kind = \"conventional\"";
const SET_ASSOCIATIVE: &str = "kind = \"set-associative\"\nband = \"512 KiB\"\ncache = \"2 MiB\"\n\
                               cache_medium = \"disk\"\ncache_location = \"id\"";
const JOURNALED: &str = "kind = \"journaled\"\ncache_medium = \"disk\"\ncache_location = \"od\"\n\
                         quantum = \"32 KiB\"\nout_of_band = \"16 KiB\"\nentry_gap = \"4 KiB\"\n\
                         entry_max = \"128 KiB\"\nplaces = 200\nmap_merge_every = 50\nmap_merge = \"64 KiB\"\n\
                         cleaning = \"aggressive\"\nidle = \"50 ms\"\n[[layer.bands]]\nband = \"1 MiB\"";
const LAYERS: [&str; 3] = [CONVENTIONAL, SET_ASSOCIATIVE, JOURNALED];
const SPTF: &str = "schedule = \"shortest-positioning-first\"";
const CACHED: &str = "write_cache = \"1 MiB\"\nwrite_cache_on = true";
const AHEAD: &str = "read_buffer = \"512 KiB\"\nlook_ahead = true";

/// A small drive of two surfaces; `interface` adds to its section beyond queue and overhead.
fn drive(interface: &str, layer: &str) -> Drive {
    let text = format!(
        "schema = 1\nname = \"small\"\ncapacity = \"64 MiB\"\n\
         [mechanics]\nrotation = \"10 ms\"\nhead_switch = \"0.6 ms\"\nwrite_settle = \"0.1 ms\"\n\
         seek = {{ fitted = {{ constant = \"0.8 ms\", root = \"0.02 ms\", linear = \"0.001 ms\" }} }}\n\
         [geometry]\nsurfaces = 2\nlayout = \"cylinder-serpentine\"\n\
         track_skew = \"1 ms\"\nhead_skew = \"0.8 ms\"\n\
         [[geometry.zone]]\ntracks = 500\nsectors_per_track = 200\n\
         [interface]\nqueue_depth = 31\ncommand_overhead = \"0.1 ms\"\n{interface}\n[layer]\n{layer}\n"
    );
    let profile = Profile::from_toml(&text, "small.toml").unwrap_or_else(|error| panic!("{error}\n{text}"));
    Drive::new(&profile, 1).unwrap_or_else(|error| panic!("{error}"))
}

type Command = (Code, u64, u32);

/// Submit and complete times.
type Times = Vec<(u64, u64)>;

fn run(drive: &mut Drive, commands: &[Command], depth: usize) -> Times {
    let op: Vec<Code> = commands.iter().map(|c| c.0).collect();
    let offset: Vec<u64> = commands.iter().map(|c| c.1).collect();
    let size: Vec<u32> = commands.iter().map(|c| c.2).collect();
    let (mut submit, mut complete) = (vec![0; op.len()], vec![0; op.len()]);
    let batch = Batch { op: &op, offset: &offset, size: &size };
    drive.run(&batch, depth, &mut submit, &mut complete).expect("a batch of this drive");
    submit.into_iter().zip(complete).collect()
}

/// The duration of a single command.
fn time(drive: &mut Drive, command: Command) -> u64 {
    let times = run(drive, &[command], 1);
    times[0].1 - times[0].0
}

/// Distinct blocks all over the drive.
fn scattered(op: Code, count: u64) -> Vec<Command> {
    let blocks = CAPACITY / u64::from(BLOCK);
    (0..count).map(|k| (op, k * 6_151 % blocks * u64::from(BLOCK), BLOCK)).collect()
}

fn sequential(op: Code, count: u64, size: u32) -> Vec<Command> {
    (0..count).map(|k| (op, k * u64::from(size), size)).collect()
}

fn on_media(drive: &Drive) -> u64 {
    drive.counters().media_bytes(Direction::Write)
}

#[test]
fn cached_writes_complete_on_arrival_until_the_cache_is_full_and_then_at_media_speed() {
    let mut drive = drive(CACHED, CONVENTIONAL);
    let room = CACHE / u64::from(BLOCK);
    let times = run(&mut drive, &scattered(Code::Write, 3 * room), 1);
    let latency: Vec<u64> = times.iter().map(|(submit, complete)| complete - submit).collect();
    assert_eq!(latency[..room as usize], vec![OVERHEAD_NS; room as usize], "there was room");
    let full = &latency[2 * room as usize..];
    let mean = full.iter().sum::<u64>() as f64 / full.len() as f64;
    let mut through = self::drive("", CONVENTIONAL);
    let times = run(&mut through, &scattered(Code::Write, 3 * room), 1);
    let uncached = times.iter().map(|(submit, complete)| complete - submit).sum::<u64>() as f64;
    let uncached = uncached / times.len() as f64;
    // The media take the same time except for the overhead, which overlaps here.
    assert!((0.8..1.0).contains(&(mean / uncached)), "{mean} ns a write, uncached {uncached} ns");
}

#[test]
fn a_write_completes_on_the_media_with_the_cache_off_or_with_fua() {
    for layer in LAYERS {
        for (interface, op) in [("", Code::Write), (CACHED, Code::WriteFua)] {
            let mut drive = drive(interface, layer);
            for (number, &command) in scattered(op, 40).iter().enumerate() {
                let took = time(&mut drive, command);
                assert!(took > OVERHEAD_NS, "{took} ns is no time for the media: {layer}");
                assert!(on_media(&drive) >= (number as u64 + 1) * u64::from(BLOCK), "{layer}");
            }
        }
    }
}

/// At every depth, behind queued reads, with either schedule.
#[test]
fn a_flush_waits_for_all_completed_writes() {
    for layer in LAYERS {
        for (schedule, depth) in [("", 1), (SPTF, 1), ("", 4), (SPTF, 4), (SPTF, 31)] {
            let mut drive = drive(&format!("{CACHED}\n{schedule}"), layer);
            let writes = scattered(Code::Write, 100);
            run(&mut drive, &writes, depth);
            let before = on_media(&drive);
            assert!(before < 100 * u64::from(BLOCK), "some of it is in the cache alone: {layer}");
            let reads: Vec<Command> =
                (0..depth as u64 - 1).map(|k| (Code::Read, 4096 * (50 * k + 1), 512)).collect();
            let commands = [reads, vec![(Code::Flush, 0, 0)]].concat();
            run(&mut drive, &commands, depth);
            let written = on_media(&drive) - before;
            assert!(written > 0, "the flush left the cache as it was: {layer}, depth {depth}, {schedule}");
            let after = time(&mut drive, (Code::Flush, 0, 0));
            assert_eq!(after, OVERHEAD_NS, "nothing was left to flush: {layer}, depth {depth}, {schedule}");
            assert_eq!(on_media(&drive) - before, written);
        }
    }
}

#[test]
fn a_read_of_cached_data_is_fast_and_a_partly_cached_one_waits_for_destaging() {
    for layer in LAYERS {
        let mut drive = drive(CACHED, layer);
        // The first of them leave the cache meanwhile, the last do not.
        run(&mut drive, &scattered(Code::Write, 150), 1);
        let held = 50 << 20;
        run(&mut drive, &[(Code::Write, held, 8192)], 1);
        assert_eq!(time(&mut drive, (Code::Read, held, 4096)), OVERHEAD_NS, "{layer}");
        assert_eq!(time(&mut drive, (Code::Read, held + 4096, 512)), OVERHEAD_NS, "{layer}");
        let before = on_media(&drive);
        let took = time(&mut drive, (Code::Read, held - 4096, 8192));
        assert!(took > OVERHEAD_NS && on_media(&drive) >= before + 8192, "half of it is held: {layer}");
    }
}

/// On a drive with a queue: a write queued after a read also completes on arrival, and cached data is never
/// read from the media before it is destaged.
#[test]
fn the_cache_completes_commands_queued_after_a_waiting_read() {
    for (layer, schedule) in LAYERS.into_iter().flat_map(|layer| [(layer, ""), (layer, SPTF)]) {
        let mut drive = drive(&format!("{CACHED}\n{schedule}"), layer);
        let held = (Code::Write, 30 << 20, BLOCK);
        run(&mut drive, &scattered(Code::Write, 150), 1);
        run(&mut drive, &[held], 1);
        let commands =
            [(Code::Read, 1 << 20, BLOCK), (Code::Write, 2 << 20, BLOCK), (Code::Read, held.1, BLOCK)];
        let times = run(&mut drive, &commands, 3);
        let latency = |index: usize| times[index].1 - times[index].0;
        assert!(latency(1) <= 3 * OVERHEAD_NS, "a write behind a read takes {} ns: {layer}", latency(1));
        assert!(latency(2) <= 3 * OVERHEAD_NS, "a held block takes {} ns: {layer}", latency(2));
        assert!(latency(0) > 3 * OVERHEAD_NS, "the read goes to the media");
    }
}

/// Also with the cache full and more outstanding commands than the queue depth: cache space is assigned in
/// order of time, and the host submits on each completion.
#[test]
fn the_host_submits_in_order_when_the_cache_is_full() {
    for (layer, schedule) in LAYERS.into_iter().flat_map(|layer| [(layer, ""), (layer, SPTF)]) {
        for depth in [8, 31, 64] {
            let mut drive = drive(&format!("{CACHED}\n{schedule}"), layer);
            let mut commands = scattered(Code::Write, 1_200);
            for index in (5..commands.len()).step_by(7) {
                // Cached, not cached, and a mix of both.
                commands[index] = match index % 3 {
                    0 => (Code::Read, commands[index - 5].1, BLOCK),
                    1 => (Code::Read, commands[index].1, BLOCK),
                    _ => (Code::Read, commands[index - 3].1.saturating_sub(4096), 3 * BLOCK),
                };
            }
            commands.retain(|&(_, offset, size)| offset + u64::from(size) <= CAPACITY);
            let times = run(&mut drive, &commands, depth);
            let late = times.windows(2).position(|pair| pair[1].0 < pair[0].0);
            assert_eq!(late, None, "a command submitted before the one before it: {layer}, depth {depth}");
        }
    }
}

/// A FUA write destages only itself and older writes that it overlaps.
#[test]
fn a_fua_write_leaves_other_writes_in_the_cache() {
    for (layer, schedule) in LAYERS.into_iter().flat_map(|layer| [(layer, ""), (layer, SPTF)]) {
        let mut drive = drive(&format!("{CACHED}\n{schedule}"), layer);
        run(&mut drive, &scattered(Code::Write, 200), 1);
        let took = time(&mut drive, (Code::WriteFua, 50 << 20, BLOCK));
        // At most the work in progress, and the write itself.
        assert!((OVERHEAD_NS + 1..6 * REVOLUTION_NS).contains(&took), "{took} ns: {layer}, {schedule}");
        let flush = time(&mut drive, (Code::Flush, 0, 0));
        assert!(flush > 2 * REVOLUTION_NS, "the others were left to flush: {flush} ns, {layer}, {schedule}");
    }
    let sectors = |start: u64, len: u64| (start * 512, (len * 512) as u32);
    let mut drive = drive(CACHED, SET_ASSOCIATIVE);
    let ((old, old_size), (new, new_size)) = (sectors(4_096, 64), sectors(4_096, 8));
    run(&mut drive, &scattered(Code::Write, 30), 1);
    run(&mut drive, &[(Code::Write, old, old_size), (Code::WriteFua, new, new_size), (Code::Flush, 0, 0)], 1);
    let mut pieces = Vec::new();
    drive.layer().locate(LbaExtent::new(Lba(4_096), Sectors(64)), &mut pieces);
    assert_eq!(pieces.len(), 2, "8 sectors of the new write and 56 of the old: {pieces:?}");
}

/// Destaging starts only when the media have nothing else to do: a read that arrives at the same time goes
/// first.
#[test]
fn a_command_that_arrives_when_destaging_would_start_goes_first() {
    let mut drive = drive(CACHED, CONVENTIONAL);
    let times = run(&mut drive, &[(Code::Write, 0, BLOCK), (Code::Read, 40 << 20, BLOCK)], 1);
    assert_eq!(times[0].1, times[1].0, "the host reads when its write is answered");
    assert_eq!(on_media(&drive), 0, "the read went first");
    drive.pause(Nanos(1));
    assert_eq!(on_media(&drive), u64::from(BLOCK), "and the write after it");
}

/// Of two overlapping writes, the later one is on the media in the end.
#[test]
fn overlapping_writes_leave_the_cache_in_order() {
    let bytes = |sectors: u64| sectors * 512;
    let ahead = |k: u64| (Code::Read, bytes(k * 7_919 % 120_000), 512);
    for k in 0..600u64 {
        let mut drive = drive(&format!("{CACHED}\n{SPTF}"), SET_ASSOCIATIVE);
        // One write starts in a band, the other at its end, so their logs are far apart.
        let edge = (1 + k % 40) * 1024;
        let (old, new) = match k % 2 {
            0 => ((edge - 8, 72), (edge, 8)),
            _ => ((edge, 64), (edge - 8, 16)),
        };
        run(&mut drive, &[ahead(k)], 1);
        let commands = [old, new].map(|(start, len)| (Code::Write, bytes(start), bytes(len) as u32));
        run(&mut drive, &commands, 2);
        run(&mut drive, &[(Code::Flush, 0, 0)], 1);
        let mut pieces = Vec::new();
        drive.layer().locate(LbaExtent::new(Lba(edge), Sectors(64)), &mut pieces);
        assert_eq!(pieces.len(), 2, "8 sectors of the new write and 56 of the old: {pieces:?}, {k}");
    }
}

#[test]
fn switching_the_cache_destages_it_and_an_erase_discards_it() {
    let mut drive = drive(CACHED, CONVENTIONAL);
    assert!(drive.write_cache());
    run(&mut drive, &scattered(Code::Write, 20), 1);
    let before = drive.now();
    assert!(!drive.set_write_cache(false));
    assert_eq!(on_media(&drive), 20 * u64::from(BLOCK));
    assert!(drive.now() > before, "emptying it takes time");
    assert!(time(&mut drive, (Code::Write, 0, BLOCK)) > OVERHEAD_NS);
    assert!(drive.set_write_cache(true));
    assert_eq!(time(&mut drive, (Code::Write, 1 << 20, BLOCK)), OVERHEAD_NS);
    let written = on_media(&drive);
    drive.erase();
    assert_eq!(time(&mut drive, (Code::Flush, 0, 0)), OVERHEAD_NS);
    assert_eq!(on_media(&drive), written, "what was erased is not written");
    let mut without = self::drive("", CONVENTIONAL);
    assert!(!without.set_write_cache(true), "a drive without a cache stays off");
    assert!(!self::drive("read_buffer = \"0 B\"", CONVENTIONAL).set_look_ahead(true));
}

#[test]
fn an_idle_drive_destages() {
    let mut drive = drive(CACHED, CONVENTIONAL);
    run(&mut drive, &scattered(Code::Write, 50), 1);
    drive.pause(Nanos(50 * 4 * REVOLUTION_NS));
    assert_eq!(on_media(&drive), 50 * u64::from(BLOCK));
    assert_eq!(time(&mut drive, (Code::Flush, 0, 0)), OVERHEAD_NS);
}

#[test]
fn a_trim_removes_data_from_both_caches() {
    for (interface, layer) in LAYERS.into_iter().flat_map(|layer| [("", layer), (CACHED, layer)]) {
        let mut drive = drive(interface, layer);
        let blocks = scattered(Code::Write, 30);
        run(&mut drive, &blocks, 1);
        let trims: Vec<Command> = blocks.iter().map(|c| (Code::Trim, c.1, c.2)).collect();
        run(&mut drive, &trims, 1);
        assert_eq!(drive.cache_use().live_sectors, 0, "{layer}");
        assert_eq!(drive.counters().host_commands(Op::Trim), 30);
        let reads = run(&mut drive, &[(Code::Read, blocks[0].1, BLOCK)], 1);
        assert!(reads[0].1 > reads[0].0 + OVERHEAD_NS, "it is not in the volatile cache: {layer}");
    }
}

#[test]
fn the_offset_and_size_of_a_flush_mean_nothing() {
    for layer in LAYERS {
        let times = [(0, 0), (50 << 20, 4096)].map(|(offset, size)| {
            let mut commands = scattered(Code::Write, 20);
            commands.extend([(Code::Write, 50 << 20, BLOCK), (Code::Flush, offset, size)]);
            run(&mut drive(SPTF, layer), &commands, 22)
        });
        assert_eq!(times[0], times[1], "{layer}");
    }
}

/// Sequential reads one at a time run at media speed, without losing a revolution.
#[test]
fn look_ahead_streams_sequential_reads_and_does_not_change_random_reads() {
    for size in [BLOCK, 65_536] {
        let count = (8 << 20) / u64::from(size);
        let took = |interface: &str| {
            let mut drive = drive(interface, CONVENTIONAL);
            run(&mut drive, &sequential(Code::Read, count, size), 1);
            drive.now().get() as f64
        };
        // 82 tracks of 200 sectors: one revolution each, and a head switch or a step to the next track.
        let tracks = (8u64 << 20) as f64 / (200.0 * 512.0);
        let media = tracks * (REVOLUTION_NS as f64 + (0.8e6 + 1.0e6) / 2.0);
        let (ahead, without) = (took(AHEAD), took(""));
        // Initial seek and rotational delay, and the overhead of the last command.
        let slack = 3.0 * REVOLUTION_NS as f64;
        assert!(
            (media - REVOLUTION_NS as f64..media + slack).contains(&ahead),
            "{ahead} ns, not {media}: {size}"
        );
        assert!(without > count as f64 * REVOLUTION_NS as f64 * 0.9, "{without} ns: each waits for a turn");
        assert_eq!(took("read_buffer = \"512 KiB\""), without, "a buffer that is not used");
    }
    let random = |interface: &str| run(&mut drive(interface, CONVENTIONAL), &scattered(Code::Read, 500), 1);
    assert_eq!(random(AHEAD), random(""));
}

/// Data written or trimmed since is not read from the buffer, and the buffer has a limited size.
#[test]
fn look_ahead_ends_with_other_commands_and_with_a_full_buffer() {
    let next = (Code::Read, u64::from(BLOCK), BLOCK);
    let continued = |between: &dyn Fn(&mut Drive)| {
        let mut drive = drive(AHEAD, CONVENTIONAL);
        run(&mut drive, &[(Code::Read, 0, BLOCK)], 1);
        between(&mut drive);
        time(&mut drive, next)
    };
    assert!(continued(&|_| {}) < 1_000_000, "the heads have gone on reading");
    let fast = continued(&|drive| drive.pause(Nanos(5_000_000)));
    assert_eq!(fast, OVERHEAD_NS, "it is in the buffer by then");
    let slow = continued(&|drive| drop(run(drive, &[(Code::Write, 32 << 20, BLOCK)], 1)));
    assert!(slow > 1_000_000, "{slow} ns: the heads have been elsewhere");
    let off = continued(&|drive| assert!(!drive.set_look_ahead(false)));
    assert!(off > 8_000_000, "{off} ns: a turn is lost");
}

/// A journaled drive with 100 blocks in its journal.
fn dirty() -> Drive {
    let mut drive = drive("", JOURNALED);
    run(&mut drive, &scattered(Code::Write, 100), 1);
    assert_eq!(drive.cache_use().live_sectors, 800);
    drive
}

fn cleaned(drive: &Drive) -> u64 {
    let reads = drive.counters().account(Purpose::CleanRead, Direction::Read, Medium::Platter).accesses;
    reads + drive.counters().account(Purpose::CleanWrite, Direction::Write, Medium::Platter).accesses
}

#[test]
fn cleaning_starts_after_the_idle_time() {
    let mut drive = dirty();
    drive.pause(Nanos(IDLE_NS));
    assert_eq!(cleaned(&drive), 0, "not before");
    run(&mut drive, &[(Code::Read, 0, BLOCK)], 1);
    drive.pause(Nanos(IDLE_NS - 1));
    assert_eq!(cleaned(&drive), 0, "a command begins the wait anew");
    drive.pause(Nanos(2));
    assert!(cleaned(&drive) > 0, "two pauses are one");
    drive.pause(Nanos(1_000_000_000_000));
    assert_eq!(drive.cache_use().live_sectors, 0, "it goes on to the end");
}

/// At any time, a read waits for the step in progress, and no step takes longer than the longest.
#[test]
fn a_command_during_cleaning_waits_for_at_most_one_step() {
    let mut whole = dirty();
    whole.start_trace(1_000_000);
    whole.pause(Nanos(1_000_000_000_000));
    let trace = whole.take_trace().expect("a trace was started");
    let longest = |purpose| {
        let rows = trace.rows().iter().filter(|row| row.purpose == purpose);
        rows.map(|row| (row.end - row.start).get()).max().unwrap_or(0)
    };
    let longest = Purpose::ALL.map(longest).into_iter().max().unwrap_or(0);
    // 1 MiB is ten and a half tracks; a gather is a few blocks.
    assert!((9 * REVOLUTION_NS..15 * REVOLUTION_NS).contains(&longest), "{longest} ns for a band");
    let mut waited = 0;
    for k in 0..400 {
        let mut drive = dirty();
        drive.pause(Nanos(IDLE_NS + k * 7_654_321));
        let took = time(&mut drive, (Code::Read, 50 << 20, BLOCK));
        assert!(took <= longest + 4 * REVOLUTION_NS, "{took} ns after {k} steps");
        waited += u64::from(took > 4 * REVOLUTION_NS);
        // The drive is free for the next command.
        let took = time(&mut drive, (Code::Read, 20 << 20, BLOCK));
        assert!(took <= 4 * REVOLUTION_NS, "{took} ns for the next, {k}");
    }
    assert!(waited > 100, "{waited} of 400 met a unit");
}

fn any_commands() -> impl Strategy<Value = Vec<Command>> {
    let sectors = prop_oneof![3 => Just(8u64), 1 => 1u64..300];
    let place = prop_oneof![2 => 0u64..1 << 17, 1 => 0u64..2_000];
    let command = (0u8..20, place, sectors).prop_map(|(kind, at, sectors)| {
        let op = match kind {
            0..=7 => Code::Read,
            8..=15 => Code::Write,
            16 => Code::Flush,
            17 | 18 => Code::Trim,
            _ => Code::WriteFua,
        };
        (op, at.min(CAPACITY / 512 - sectors) * 512, (sectors * 512) as u32)
    });
    // Including sequential runs of reads.
    let run = (0u64..1 << 16, 1u64..20).prop_map(|(at, count)| {
        (0..count).map(|k| (Code::Read, (at + 8 * k) * 512, BLOCK)).collect::<Vec<_>>()
    });
    let some = prop_oneof![4 => command.prop_map(|command| vec![command]), 1 => run];
    prop::collection::vec(some, 1..600).prop_map(|commands| commands.concat())
}

fn any_drive() -> impl Strategy<Value = (String, &'static str)> {
    let interface = (any::<bool>(), any::<bool>(), any::<bool>()).prop_map(|(cached, ahead, sptf)| {
        let of = |on: bool, text: &'static str| if on { text } else { "" };
        format!("{}\n{}\n{}\npark_when_idle = true", of(cached, CACHED), of(ahead, AHEAD), of(sptf, SPTF))
    });
    (interface, (0..LAYERS.len()).prop_map(|index| LAYERS[index]))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, failure_persistence: None, ..ProptestConfig::default() })]

    /// One at a time with pauses, in one batch or in many.
    #[test]
    fn splitting_a_batch_changes_nothing(
        (interface, layer) in any_drive(), commands in any_commands(),
        pauses in prop::collection::vec((0usize..40, 0u64..100_000_000), 0..20),
        cuts in prop::collection::vec(1usize..40, 0..200),
    ) {
        let times = |cuts: &[usize]| {
            let mut drive = drive(&interface, layer);
            let (mut rest, mut times, mut cuts) = (&commands[..], Times::new(), cuts.iter());
            for &(count, pause) in &pauses {
                let (mut now, later) = rest.split_at(count.min(rest.len()));
                rest = later;
                while !now.is_empty() {
                    let cut = (*cuts.next().unwrap_or(&now.len())).min(now.len());
                    times.extend(run(&mut drive, &now[..cut], 1));
                    now = &now[cut..];
                }
                drive.pause(Nanos(pause));
            }
            times.extend(run(&mut drive, rest, 1));
            (times, drive.counters().clone())
        };
        prop_assert_eq!(times(&cuts), times(&[]));
    }

    /// At any depth: time never goes back, at most `depth` commands are outstanding, the heads do one thing
    /// at a time, and after a flush all written data is on the media.
    #[test]
    fn times_are_ordered_at_any_depth(
        (interface, layer) in any_drive(), commands in any_commands(), depth in 1usize..64, pause in 0u64..200_000_000,
    ) {
        let mut drive = drive(&interface, layer);
        drive.start_trace(10_000_000);
        let half = commands.len() / 2;
        let mut times = run(&mut drive, &commands[..half], depth);
        let between = drive.now();
        prop_assert!(times.iter().all(|(_, complete)| *complete <= between.get()));
        drive.pause(Nanos(pause));
        times.extend(run(&mut drive, &commands[half..], depth));
        prop_assert!(times[half..].iter().all(|(submit, _)| *submit >= between.get() + pause));
        prop_assert!(times.iter().all(|(submit, complete)| submit + OVERHEAD_NS <= *complete));
        prop_assert!(times.is_sorted_by_key(|(submit, _)| *submit), "the host submits in order");
        let mut events: Vec<(u64, i32)> = times.iter().flat_map(|&(s, c)| [(s, 1), (c, -1)]).collect();
        events.sort_unstable();
        let outstanding = events.iter().scan(0, |count, (_, change)| { *count += change; Some(*count) });
        prop_assert!(outstanding.max().unwrap_or(0) <= depth as i32);
        run(&mut drive, &[(Code::Flush, 0, 0)], 1);
        let trace = drive.take_trace().expect("a trace was started");
        let in_turn = trace.rows().windows(2).all(|pair| pair[0].end <= pair[1].start);
        prop_assert!(in_turn, "the heads do one thing at a time");
        let bytes = |writes: bool| commands.iter().filter(|c| match c.0 {
            Code::Write | Code::WriteFua => writes,
            Code::Read => !writes,
            _ => false,
        }).map(|c| u64::from(c.2)).sum::<u64>();
        prop_assert_eq!(drive.counters().host_bytes(Direction::Write), bytes(true));
        prop_assert_eq!(drive.counters().host_bytes(Direction::Read), bytes(false));
        prop_assert!(on_media(&drive) >= bytes(true), "all of it is on the media");
    }
}
