//! The same drive, seed and commands give the same nanoseconds, regardless of how the host splits them into
//! batches, of other drives running concurrently, and of tracing.

use std::thread;

use proptest::prelude::*;
use skylight_command::code::Code;
use skylight_disk::Nanos;
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};

const CAPACITY: u64 = 64 << 20;

/// A small drive with everything that could depend on randomness or on the past.
fn profile(layer: &str, schedule: &str, host_gap: &str) -> Profile {
    let flash = "[flash]\nread = \"0.09 ms\"\nwrite = \"0.2 ms\"\nbandwidth = \"400 MB\"";
    let layer = match layer {
        "conventional" => "kind = \"conventional\"".to_owned(),
        "flash" => format!(
            "kind = \"set-associative\"\nband = \"512 KiB\"\ncache = \"2 MiB\"\n\
             cache_medium = \"flash\"\n{flash}"
        ),
        place => format!(
            "kind = \"set-associative\"\nband = \"512 KiB\"\ncache = \"2 MiB\"\n\
             cache_medium = \"disk\"\ncache_location = \"{place}\""
        ),
    };
    let text = format!(
        "schema = 1\nname = \"small\"\ncapacity = \"64 MiB\"\n\
         [mechanics]\nrpm = 7200\nhead_switch = \"0.6 ms\"\nwrite_settle = \"0.1 ms\"\n\
         seek = {{ fitted = {{ constant = \"0.8 ms\", root = \"0.02 ms\", linear = \"0.001 ms\" }} }}\n\
         [geometry]\nsurfaces = 3\nlayout = \"hybrid-serpentine\"\ngroup_tracks = 17\n\
         track_skew = \"1 ms\"\nhead_skew = \"0.8 ms\"\n\
         [geometry.taper]\nzones = 5\ntracks = 540\n\
         outer_sectors_per_track = 150\ninner_sectors_per_track = 90\n\
         [interface]\nqueue_depth = 31\ncommand_overhead = \"0.1 ms\"\nhost_gap = \"{host_gap}\"\n\
         schedule = \"{schedule}\"\n[layer]\n{layer}\n\
         [jitter]\nrelative = 0.01\nabsolute = \"0.05 ms\"\noutlier_rate = 0.01\noutlier = \"20 ms\"\n"
    );
    Profile::from_toml(&text, "small.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn drive(profile: &Profile, seed: u64) -> Drive {
    Drive::new(profile, seed).unwrap_or_else(|error| panic!("{error}"))
}

type Command = (Code, u64, u32);

/// Fails at the first command whose times differ.
fn same(times: &[(u64, u64)], expected: &[(u64, u64)]) -> Result<(), TestCaseError> {
    let other = times.iter().zip(expected).enumerate().find(|(_, (a, b))| a != b);
    prop_assert_eq!(other, None, "the first difference, with the number of its command");
    prop_assert_eq!(times.len(), expected.len());
    Ok(())
}

/// Submit and complete times of commands, in batches of the given lengths (the rest in one).
fn run(drive: &mut Drive, commands: &[Command], depth: usize, cuts: &[usize]) -> Vec<(u64, u64)> {
    let (mut rest, mut times) = (commands, Vec::new());
    let mut cuts = cuts.iter();
    while !rest.is_empty() {
        let (now, later) = rest.split_at((*cuts.next().unwrap_or(&rest.len())).min(rest.len()));
        rest = later;
        let op: Vec<Code> = now.iter().map(|c| c.0).collect();
        let offset: Vec<u64> = now.iter().map(|c| c.1).collect();
        let size: Vec<u32> = now.iter().map(|c| c.2).collect();
        let (mut submit, mut complete) = (vec![0; now.len()], vec![0; now.len()]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        drive.run(&batch, depth, &mut submit, &mut complete).expect("a batch of this drive");
        times.extend(submit.into_iter().zip(complete));
    }
    times
}

fn any_commands() -> impl Strategy<Value = Vec<Command>> {
    let sectors = prop_oneof![3 => Just(8u64), 1 => 1u64..300];
    let place = prop_oneof![3 => 0u64..1 << 17, 1 => 0u64..2_000];
    let command = (0u8..10, place, sectors).prop_map(|(op, at, sectors)| {
        let op = match op {
            0..3 => Code::Read,
            3..9 => Code::Write,
            _ => Code::Flush,
        };
        (op, at.min(CAPACITY / 512 - sectors) * 512, (sectors * 512) as u32)
    });
    prop::collection::vec(command, 1..1_500)
}

fn any_layer() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("conventional"), Just("od"), Just("md"), Just("id"), Just("flash")]
}

fn any_schedule() -> impl Strategy<Value = &'static str> {
    prop_oneof![Just("fifo"), Just("shortest-positioning-first")]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn splitting_a_batch_changes_nothing(
        layer in any_layer(), schedule in any_schedule(), commands in any_commands(), seed in any::<u64>(),
        cuts in prop::collection::vec(1usize..50, 0..200),
    ) {
        let profile = profile(layer, schedule, "0 ms");
        let whole = run(&mut drive(&profile, seed), &commands, 1, &[]);
        same(&run(&mut drive(&profile, seed), &commands, 1, &cuts), &whole)?;
    }

    /// The host also leaves its gap between two commands where a batch ends.
    #[test]
    fn splitting_a_batch_keeps_the_host_gap(
        layer in any_layer(), commands in any_commands(), cuts in prop::collection::vec(1usize..50, 0..200),
    ) {
        let profile = profile(layer, "fifo", "0.007 ms");
        let whole = run(&mut drive(&profile, 1), &commands, 1, &[]);
        prop_assert!(whole.windows(2).all(|pair| pair[1].0 == pair[0].1 + 7_000));
        same(&run(&mut drive(&profile, 1), &commands, 1, &cuts), &whole)?;
    }

    #[test]
    fn drives_of_one_seed_agree_sequentially_and_concurrently(
        layer in any_layer(), schedule in any_schedule(), commands in any_commands(), seed in any::<u64>(),
        depth in 1usize..64,
    ) {
        let profile = profile(layer, schedule, "0.007 ms");
        let alone = run(&mut drive(&profile, seed), &commands, depth, &[]);
        same(&run(&mut drive(&profile, seed), &commands, depth, &[]), &alone)?;
        let together = thread::scope(|scope| {
            let start = || scope.spawn(|| run(&mut drive(&profile, seed), &commands, depth, &[]));
            let threads = [start(), start()];
            threads.map(|thread| thread.join().expect("a drive that runs"))
        });
        for times in &together {
            same(times, &alone)?;
        }
        let mut traced = drive(&profile, seed);
        traced.start_trace(100);
        same(&run(&mut traced, &commands, depth, &[]), &alone)?;
    }

    /// Without jitter the seed has no effect, and a pause shifts time but does not change the order of
    /// events.
    #[test]
    fn a_pause_between_batches_only_shifts_time(
        layer in any_layer(), commands in any_commands(), periods in 1u64..1_000,
    ) {
        let mut profile = profile(layer, "fifo", "0 ms");
        profile.jitter = Default::default();
        // Whole revolutions, so that the rotational position is the same: at 7,200 rpm, three take 25 ms.
        let pause = 25_000_000 * periods;
        let half = commands.len() / 2;
        let (mut plain, mut paused) = (drive(&profile, 1), drive(&profile, 2));
        run(&mut plain, &commands[..half], 1, &[]);
        run(&mut paused, &commands[..half], 1, &[]);
        paused.pause(Nanos(pause));
        let expected = run(&mut plain, &commands[half..], 1, &[]);
        let later = run(&mut paused, &commands[half..], 1, &[]);
        for (number, (early, late)) in expected.iter().zip(&later).enumerate() {
            let off = (late.1 as i64 - pause as i64).abs_diff(early.1 as i64);
            prop_assert!(off < 8, "command {number} ends {off} ns off");
        }
    }
}

#[test]
fn a_different_seed_gives_a_different_run() {
    let profile = profile("id", "fifo", "0 ms");
    let commands: Vec<Command> = (0..100).map(|k| (Code::Write, k * 40_960, 4096)).collect();
    let times = |seed| run(&mut drive(&profile, seed), &commands, 1, &[]);
    assert_ne!(times(1), times(2));
}
