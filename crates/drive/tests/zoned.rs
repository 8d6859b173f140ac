//! A drive with zones behind its queue and its volatile cache: writes to a zone take effect in the order in which they were
//! submitted, the media are written in order within each zone, and what fails is visible.
//!
//! A failure names the seed.

use rand_core::Rng;
use skylight_command::code::Code;
use skylight_command::{Command, CommandId, Failure, Op, Outcome, ZoneAction};
use skylight_disk::{Direction, Lba, Nanos, Time};
use skylight_drive::jitter::substream;
use skylight_drive::online::{Answered, ExecutionResult, Origin, PlanExecutor};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive, Online};
use skylight_layer::{Layer, Plan, Step, ZoneCondition, ZoneDescriptor, ZoneFilter};

const MIB: u64 = 1 << 20;
/// Zones of the drive: 64 of 16 MiB, the first four conventional.
const ZONE: u64 = 16 * MIB;
const CONVENTIONAL: u64 = 4;

/// A drive with zones, with these further keys of its layer, and with its volatile cache on or off.
fn drive(keys: &str, cache_on: bool) -> Drive {
    drive_of(&text(keys, cache_on))
}

fn drive_of(text: &str) -> Drive {
    let profile = Profile::from_toml(text, "zones.toml").unwrap_or_else(|error| panic!("{error}"));
    Drive::new(&profile, 1).unwrap_or_else(|error| panic!("{error}"))
}

fn text(keys: &str, cache_on: bool) -> String {
    format!(
        r#"
schema = 1
name = "zones"
capacity = "1 GiB"
[mechanics]
rpm = 7200
head_switch = "0.6 ms"
seek = {{ points = [[1, "1 ms"], [1000, "10 ms"]] }}
[geometry]
surfaces = 2
layout = "cylinder"
track_skew = "1 ms"
head_skew = "1 ms"
zone = [{{ tracks = 600, sectors_per_track = 2000 }}]
[interface]
queue_depth = 32
schedule = "shortest-positioning-first"
command_overhead = "0.1 ms"
write_cache = "8 MiB"
write_cache_on = {cache_on}
[layer]
kind = "zoned"
zone_size = "16 MiB"
conventional_zones = 4
{keys}
"#
    )
}

const MANAGED: &str = "model = \"host-managed\"";
const AWARE: &str = "model = \"host-aware\"";

fn run(drive: &mut Drive, depth: usize, commands: &[(Code, u64, u32)]) -> Vec<(usize, Outcome)> {
    times(drive, depth, commands);
    drive.results().iter().map(|result| (result.row, result.outcome)).collect()
}

/// When each command was submitted and complete, ns.
fn times(drive: &mut Drive, depth: usize, commands: &[(Code, u64, u32)]) -> (Vec<u64>, Vec<u64>) {
    let op: Vec<Code> = commands.iter().map(|command| command.0).collect();
    let offset: Vec<u64> = commands.iter().map(|command| command.1).collect();
    let size: Vec<u32> = commands.iter().map(|command| command.2).collect();
    let (mut submit, mut complete) = (vec![0; op.len()], vec![0; op.len()]);
    let batch = Batch { op: &op, offset: &offset, size: &size };
    drive.run(&batch, depth, &mut submit, &mut complete).unwrap_or_else(|error| panic!("{error}"));
    (submit, complete)
}

fn zones(drive: &mut Drive) -> Vec<ZoneDescriptor> {
    let mut zones = Vec::new();
    let zoned = drive.layer_mut().zoned().expect("a drive with zones");
    zoned.report(Lba(0), ZoneFilter::All, usize::MAX, &mut zones).expect("its first sector is there");
    zones
}

/// Writes of 64 KiB to several zones at once, each zone in order.
fn interleaved(seed: u64, count: usize) -> Vec<(Code, u64, u32)> {
    let mut stream = substream(seed, "zoned");
    let mut next = [0_u64; 64];
    let mut commands = Vec::new();
    while commands.len() < count {
        let zone = CONVENTIONAL + stream.next_u64() % 8;
        let offset = &mut next[zone as usize];
        let fua = stream.next_u64().is_multiple_of(8);
        let code = if fua { Code::WriteFua } else { Code::Write };
        if *offset < ZONE {
            commands.push((code, zone * ZONE + *offset, 1 << 16));
            *offset += 1 << 16;
        }
    }
    commands
}

#[test]
fn writes_in_order_succeed_at_every_depth_with_and_without_a_volatile_cache() {
    for keys in [MANAGED, AWARE] {
        let mut expected = None;
        for (depth, cache_on) in [(1, false), (32, false), (1, true), (32, true)] {
            let mut drive = drive(keys, cache_on);
            let commands = interleaved(7, 600);
            assert_eq!(run(&mut drive, depth, &commands), [], "{keys}, depth {depth}, cache {cache_on}");
            run(&mut drive, 1, &[(Code::Flush, 0, 0)]);
            let zones = zones(&mut drive);
            assert!(zones.iter().all(|zone| !zone.non_sequential));
            let written: Vec<_> = zones.iter().map(|zone| zone.write_pointer).collect();
            assert_eq!(*expected.get_or_insert(written.clone()), written, "{keys}, depth {depth}");
        }
    }
}

/// Notes that the platters are written in order within each zone that has a write pointer.
struct InOrder {
    next: Vec<u64>,
    seed: u64,
}

impl PlanExecutor for InOrder {
    fn executed(&mut self, _origin: Origin, plan: &Plan, _layer: &mut dyn Layer) -> ExecutionResult {
        for step in plan.steps() {
            let Step::Access { direction: Direction::Write, extent, .. } = step else { continue };
            let (zone, offset) = (extent.start.get() * 512 / ZONE, extent.start.get() * 512 % ZONE);
            if zone >= CONVENTIONAL {
                let next = &mut self.next[zone as usize];
                assert_eq!(offset, *next % ZONE, "seed {}: zone {zone} is written in order", self.seed);
                *next = offset + extent.len.bytes();
            }
        }
        ExecutionResult::Done
    }
}

#[test]
fn the_media_are_written_in_order_within_each_zone() {
    for (seed, cache_on) in [(1, true), (2, true), (3, false)] {
        let mut online = Online::new(drive(MANAGED, cache_on));
        let mut executor = InOrder { next: vec![0; 64], seed };
        let mut answers = Vec::new();
        let commands = interleaved(seed, 800);
        for (id, &(op, offset, size)) in (0..).zip(&commands) {
            let (op, flags) = op.operation();
            let command = Command { id: CommandId(id), flags, ..Command::of_bytes(op, offset, size.into()) };
            online.submit(command, online.clock() + Nanos(200_000), &mut executor);
        }
        let end = online.clock() + Nanos(60_000_000_000);
        online.advance(end, &mut executor, &mut answers);
        assert_eq!(answers.len(), commands.len());
        assert!(answers.iter().all(|answer: &Answered| answer.outcome == Outcome::Done), "seed {seed}");
    }
}

#[test]
fn appends_at_once_get_places_of_their_own() {
    for cache_on in [false, true] {
        let mut drive = drive(MANAGED, cache_on);
        let start = CONVENTIONAL * ZONE;
        let mut commands = vec![(Code::Write, start, 1 << 16)];
        commands.extend([(Code::Append, start, 1 << 16); 40]);
        let results = run(&mut drive, 32, &commands);
        let mut places: Vec<u64> = results
            .iter()
            .map(|(_, outcome)| match outcome {
                Outcome::Appended(at) => at.get() * 512 - start,
                outcome => panic!("{outcome:?}"),
            })
            .collect();
        places.sort_unstable();
        assert_eq!(places, (1..=40).map(|place| place << 16).collect::<Vec<u64>>(), "behind the write");
    }
}

#[test]
fn a_write_that_the_volatile_cache_cannot_place_fails_at_once_and_is_lost() {
    let mut drive = drive(MANAGED, true);
    let start = CONVENTIONAL * ZONE;
    let results = run(
        &mut drive,
        1,
        &[
            (Code::Write, start, 4096),
            (Code::Write, start + 8192, 4096),
            (Code::Write, start + 4096, 4096),
            (Code::Write, start + 4096, 4096),
        ],
    );
    let unaligned = Outcome::Failed(Failure::UnalignedWrite);
    assert_eq!(results, [(1, unaligned), (3, unaligned)]);
    run(&mut drive, 1, &[(Code::Flush, 0, 0)]);
    assert_eq!(drive.counters().media_bytes(Direction::Write), 8192);
}

#[test]
fn zone_actions_wait_for_what_the_volatile_cache_has_of_the_zone() {
    let mut drive = drive(MANAGED, true);
    let start = CONVENTIONAL * ZONE;
    let zone = (ZONE as u32, start);
    let results = run(
        &mut drive,
        32,
        &[
            (Code::Write, start, 1 << 20),
            (Code::ResetZone, start, zone.0),
            (Code::Write, start, 4096),
            (Code::FinishZone, start, zone.0),
            (Code::Write, start + 4096, 4096),
            (Code::ResetZone, 0, 0),
            (Code::Write, start, 4096),
            (Code::Read, start, 4096),
        ],
    );
    assert_eq!(results, [(4, Outcome::Failed(Failure::InvalidField))]);
    let zones = zones(&mut drive);
    assert_eq!(zones[CONVENTIONAL as usize].condition, ZoneCondition::ImplicitOpen);
    assert_eq!(drive.counters().host_commands(Op::Zone(ZoneAction::Reset)), 2);
}

#[test]
fn what_a_batch_says_about_zones_is_checked() {
    let mut drive = drive(MANAGED, false);
    let conventional = run(&mut drive, 1, &[(Code::ResetZone, 0, ZONE as u32), (Code::Append, 0, 4096)]);
    let invalid = Outcome::Failed(Failure::InvalidField);
    assert_eq!(conventional, [(0, invalid), (1, invalid)]);
    let past = [(Code::OpenZone, 1 << 30, 0)];
    let batch = Batch { op: &[past[0].0], offset: &[past[0].1], size: &[past[0].2] };
    let refused = drive.run(&batch, 1, &mut [0], &mut [0]).map_err(|error| error.to_string());
    let line = "command 0: offset 1073741824 and size 0 pass the end of the drive at 1073741824";
    assert_eq!(refused, Err(line.to_owned()));
}

#[test]
fn a_drive_without_zones_refuses_zone_actions() {
    let text = include_str!("../../../python/skylight/profiles/st4000nc001.toml");
    let profile = Profile::from_toml(text, "st4000nc001.toml").unwrap_or_else(|error| panic!("{error}"));
    let mut drive = Drive::new(&profile, 1).unwrap_or_else(|error| panic!("{error}"));
    let results = run(&mut drive, 1, &[(Code::OpenZone, 0, 0), (Code::Append, 0, 4096)]);
    let unsupported = Outcome::Failed(Failure::Unsupported);
    assert_eq!(results, [(0, unsupported), (1, unsupported)]);
    assert!(drive.layer_mut().zoned().is_none());
    assert!(drive.now() > Time(0));
}

/// Closed zones after one write of 4 KiB to each of `writes` zones, and how long each write took.
fn closed_after(keys: &str, writes: u64) -> (usize, Vec<u64>) {
    let aware =
        "[layer.host_aware]\nquantum = \"64 KiB\"\nentry_max = \"1 MiB\"\nplaces = 100\ncleaning = \"lazy\"";
    // The media rest as long as the volatile cache has space.
    let text = text(&format!("{AWARE}\n{aware}\nopen_zones = 4\n{keys}"), true)
        .replace("queue_depth", "write_back_after = \"10 s\"\nqueue_depth");
    let mut drive = drive_of(&text);
    let writes: Vec<_> = (0..writes).map(|zone| (Code::Write, (CONVENTIONAL + zone) * ZONE, 4096)).collect();
    let (submit, complete) = times(&mut drive, 1, &writes);
    let closed = zones(&mut drive).iter().filter(|zone| zone.condition == ZoneCondition::Closed).count();
    (closed, complete.iter().zip(&submit).map(|(complete, submit)| complete - submit).collect())
}

const REVOLUTION: u64 = 60_000_000_000 / 7200;

#[test]
fn zones_closed_together_make_one_write_wait_and_the_next_ones_for_their_metadata_alone() {
    let keys = "close_together = 3\nzone_metadata_location = \"zone\"\nzone_metadata_copies = 2";
    let closed: Vec<usize> = (3..=8).map(|writes| closed_after(keys, writes).0).collect();
    assert_eq!(closed, [0, 0, 3, 3, 3, 6]);
    assert_eq!(closed_after("", 8).0, 4, "one at a time");
    let took = closed_after(keys, 8).1;
    let waits: Vec<bool> = took.iter().map(|&took| took > REVOLUTION).collect();
    assert_eq!(waits, [false, false, false, true, true, true, true, true], "{took:?}");
    let rest = took[3].max(took[5]).max(took[6]);
    assert!(took[4].min(took[7]) > rest, "three zones are written first: {took:?}");
}

/// What is written for zones that are closed together are their own writes: one out of order to another zone stays in the volatile
/// cache, however often the drive draws it.
#[test]
fn what_is_out_of_order_does_not_leave_the_cache_in_place_of_zones_that_are_closed() {
    let aware =
        "[layer.host_aware]\nquantum = \"64 KiB\"\nentry_max = \"1 MiB\"\nplaces = 100\ncleaning = \"lazy\"";
    let keys = "close_together = 3\nzone_metadata_location = \"zone\"";
    let text = text(&format!("{AWARE}\n{aware}\nopen_zones = 4\n{keys}"), true).replace(
        "queue_depth",
        "write_back_after = \"10 s\"\nwrite_back = \"any\"\npositioning_window = 2\nwrite_back_pass = 2\nqueue_depth",
    );
    let mut drive = drive_of(&text);
    let at = |zone: u64, offset: u64| (Code::Write, (CONVENTIONAL + zone) * ZONE + offset, 4096);
    let in_order = (0..5).map(|zone| at(zone, 0));
    let others = (0..20).map(|index| at(8 + index % 4, MIB + index * 8192));
    let writes: Vec<_> = others.chain(in_order).collect();
    times(&mut drive, 1, &writes);
    let closed = zones(&mut drive).iter().filter(|zone| zone.condition == ZoneCondition::Closed).count();
    assert_eq!(closed, 3);
    assert_eq!(drive.cache_use().filled_sectors, 0, "the persistent cache has nothing yet");
}

/// What needs no medium waits for no heads: of commands that are there at once, a read of a zone that was never written and,
/// where order is required, a write off the write pointer complete before the reads that need the heads, though they came last.
#[test]
fn what_fails_or_was_never_written_overtakes_what_needs_the_heads() {
    for (keys, last, failed) in [
        (MANAGED, (Code::Read, 30 * ZONE, 4096), Some(Failure::ReadInvalidData)),
        (AWARE, (Code::Read, 30 * ZONE, 4096), None),
        (MANAGED, (Code::Write, 30 * ZONE + MIB, 4096), Some(Failure::UnalignedWrite)),
    ] {
        let mut drive = drive(keys, false);
        let reads = (0..CONVENTIONAL).map(|zone| (Code::Read, zone * ZONE + 5 * MIB, 4096_u32));
        let commands: Vec<(Code, u64, u32)> = reads.chain([last]).collect();
        let (submit, complete) = times(&mut drive, 32, &commands);
        assert!(submit.iter().all(|&at| at == submit[0]), "all are there at once");
        assert!(complete[..4].iter().all(|&at| complete[4] < at), "{keys}: {complete:?}");
        let outcomes: Vec<_> = drive.results().iter().map(|result| result.outcome).collect();
        assert_eq!(outcomes, failed.map(Outcome::Failed).into_iter().collect::<Vec<_>>());
    }
}

/// How long each write took in `rounds` rounds of one write of 128 KiB to each of 60 zones, the whole drive, all of which can be
/// open, behind a volatile cache that is full after 40 writes.
fn scattered_rounds(keys: &str, rounds: u64) -> Vec<u64> {
    const ZONES: u64 = 60;
    const SIZE: u32 = 128 << 10;
    let aware =
        "[layer.host_aware]\nquantum = \"64 KiB\"\nentry_max = \"1 MiB\"\nplaces = 100\ncleaning = \"lazy\"";
    let text = text(&format!("{AWARE}\n{aware}\nopen_zones = 60"), true).replace(
        "queue_depth",
        &format!(
            "write_back = \"any\"\nwrite_back_after = \"10 s\"\npositioning_window = 12\n{keys}\nqueue_depth"
        ),
    );
    let mut drive = drive_of(&text.replace("write_cache = \"8 MiB\"", "write_cache = \"5 MiB\""));
    let place = |round, zone| (CONVENTIONAL + zone) * ZONE + round * u64::from(SIZE);
    let places = (0..rounds).flat_map(|round| (0..ZONES).map(move |zone| (round, zone)));
    let writes: Vec<_> = places.map(|(round, zone)| (Code::Write, place(round, zone), SIZE)).collect();
    let (submit, complete) = times(&mut drive, 1, &writes);
    complete.iter().zip(&submit).map(|(complete, submit)| complete - submit).collect()
}

/// The correlation of the waits of consecutive writes, of those that waited at all.
fn correlation_of_neighbours(took: &[u64]) -> f64 {
    let waits: Vec<f64> = took.iter().filter(|&&took| took > 1_000_000).map(|&took| took as f64).collect();
    let mean = waits.iter().sum::<f64>() / waits.len() as f64;
    let of_pair = |pair: &[f64]| (pair[0] - mean) * (pair[1] - mean);
    waits.windows(2).map(of_pair).sum::<f64>() / waits.iter().map(|wait| (wait - mean).powi(2)).sum::<f64>()
}

#[test]
fn in_a_pass_of_two_runs_a_short_wait_is_followed_by_a_long_one() {
    const PASS: &str = "write_back_pass = 2\nwrite_back_pause = \"4 ms\"\nwrite_back_hand_over = \"2 ms\"";
    let [alone, in_pass] = ["", PASS].map(|keys| scattered_rounds(keys, 7));
    let [alone, in_pass] = [&alone, &in_pass].map(|took| correlation_of_neighbours(took));
    assert!(in_pass < -0.2 && alone > in_pass + 0.15, "alone {alone}, in a pass {in_pass}");
}

/// How long writes of 4 KiB out of order took, and the FLUSHes behind each if there are some, of a drive whose volatile cache has
/// space for 50 of them, which leave in one entry.
fn small_writes_ns(keys: &str, flushed: bool) -> u64 {
    let aware =
        "[layer.host_aware]\nquantum = \"512 KiB\"\nentry_max = \"1 MiB\"\nplaces = 200\ncleaning = \"lazy\"";
    let interface = format!("write_back = \"any\"\nwrite_cache_runs = 50\n{keys}\nqueue_depth");
    let text = text(&format!("{AWARE}\n{aware}"), true).replace("queue_depth", &interface);
    let mut drive = drive_of(&text);
    let place = |number: u64| (CONVENTIONAL + number % 8) * ZONE + MIB + number / 8 * (16 << 10);
    let mut commands = Vec::new();
    for number in 0..170 {
        commands.push((Code::Write, place(number), 4096_u32));
        if flushed {
            commands.push((Code::Flush, 0, 0));
        }
    }
    let (submit, complete) = times(&mut drive, 1, &commands);
    complete.iter().zip(&submit).map(|(complete, submit)| complete - submit).sum()
}

#[test]
fn an_entry_of_many_writes_takes_time_to_be_put_together_and_one_of_a_single_write_none() {
    let gather = "write_back_gather = \"1 ms\"";
    let (at_once, later) = (small_writes_ns("", false), small_writes_ns(gather, false));
    assert!(later > at_once + 3 * 40_000_000, "three entries of 50: at once {at_once} ns, later {later} ns");
    assert_eq!(small_writes_ns("", true), small_writes_ns(gather, true));
}

#[test]
fn a_pause_between_the_runs_of_a_pass_makes_waits_longer() {
    let total = |pause: &str| {
        let keys = format!("write_back_pass = 2\nwrite_back_pause = \"{pause}\"");
        scattered_rounds(&keys, 7).iter().sum::<u64>()
    };
    let (at_once, later) = (total("0 ms"), total("20 ms"));
    assert!(later > at_once + at_once / 5, "at once {at_once} ns, later {later} ns");
}
