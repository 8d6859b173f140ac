//! Conditions: each does what it says, beside a control without it; none of them changes a drive under ideal ones.

use skylight_command::code::Code;
use skylight_drive::profile::{
    BackgroundScan, Bytes, Conditions, Duration, LookAhead, Profile, Rest, VolatileCache,
};
use skylight_drive::{Batch, Drive, Stop};

const MS: f64 = 1e6;

fn profile(name: &str) -> Profile {
    let path = format!("{}/../../python/skylight/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
    Profile::from_toml(&std::fs::read_to_string(path).expect("packaged"), name).expect("valid")
}

fn drive(conditions: &Conditions) -> Drive {
    Drive::in_conditions(&profile("st4000nc001"), conditions, 7).expect("builds")
}

/// Submission and completion times of commands of 4 KiB, with `depth` of them outstanding.
fn times(drive: &mut Drive, codes: &[Code], offset: &[u64], depth: usize) -> (Vec<u64>, Vec<u64>) {
    let count = codes.len();
    let size: Vec<u32> = codes.iter().map(|&code| if code == Code::Flush { 0 } else { 4096 }).collect();
    let (mut submit, mut complete) = (vec![0; count], vec![0; count]);
    let batch = Batch { op: codes, offset, size: &size };
    drive.run(&batch, depth, &mut submit, &mut complete).expect("valid");
    (submit, complete)
}

fn random_offsets(count: u64) -> Vec<u64> {
    (0..count).map(|n| (n * 7_919) % 900_000 * 4096 * 900).collect()
}

fn reads(drive: &mut Drive, count: u64, depth: usize) -> (Vec<u64>, Vec<u64>) {
    times(drive, &vec![Code::Read; count as usize], &random_offsets(count), depth)
}

fn latencies((submit, complete): &(Vec<u64>, Vec<u64>)) -> Vec<u64> {
    complete.iter().zip(submit).map(|(complete, submit)| complete - submit).collect()
}

fn mean_ms(latencies: &[u64]) -> f64 {
    latencies.iter().sum::<u64>() as f64 / latencies.len() as f64 / MS
}

fn gaps((submit, complete): &(Vec<u64>, Vec<u64>)) -> Vec<u64> {
    submit[1..].iter().zip(complete).map(|(submit, complete)| submit - complete).collect()
}

#[test]
fn ideal_conditions_change_nothing() {
    for name in ["st4000nc001", "st5000as0011", "emulated-smr-1"] {
        let profile = profile(name);
        let mut plain = Drive::new(&profile, 3).expect("builds");
        let mut ideal = Drive::in_conditions(&profile, &Conditions::default(), 3).expect("builds");
        for depth in [1, 31] {
            let codes: Vec<Code> = (0..500).map(|n| [Code::Read, Code::Write, Code::Flush][n % 3]).collect();
            let offset = random_offsets(500);
            assert_eq!(times(&mut plain, &codes, &offset, depth), times(&mut ideal, &codes, &offset, depth));
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_times_and_another_does_not() {
    let conditions = skylight_drive::random::random_conditions(11);
    let profile = profile("st4000nc001");
    let run = |seed| reads(&mut Drive::in_conditions(&profile, &conditions, seed).expect("builds"), 300, 4);
    assert_eq!(run(1), run(1));
    assert_ne!(run(1), run(2));
}

#[test]
fn the_host_gap_lies_between_completion_and_submission() {
    let own = profile("st4000nc001").interface.host_gap.nanos().get();
    let gap =
        Conditions { host_gap: Duration::from_ns(0.2 * MS), host_gap_jitter: 0.5, ..Conditions::default() };
    assert!(gaps(&reads(&mut drive(&Conditions::default()), 200, 1)).iter().all(|&gap| gap == own));
    let found = gaps(&reads(&mut drive(&gap), 2000, 1));
    let (least, most) = (found.iter().min().expect("some"), found.iter().max().expect("some"));
    assert!((100_000..110_000).contains(&(least - own)), "{least}");
    assert!((290_000..=300_000).contains(&(most - own)), "{most}");
    assert!((mean_ms(&found) - 0.2 - own as f64 / MS).abs() < 0.005);
}

#[test]
fn the_clock_is_coarse_and_stops_see_it() {
    let clock = Conditions { clock: Duration::from_ns(MS), ..Conditions::default() };
    let exact = reads(&mut drive(&Conditions::default()), 200, 1);
    let coarse = reads(&mut drive(&clock), 200, 1);
    let down = |times: &[u64]| times.iter().map(|time| time - time % 1_000_000).collect::<Vec<_>>();
    assert_eq!((down(&exact.0), down(&exact.1)), coarse);
    // A stop at a latency that only the coarse clock shows.
    let shown = *latencies(&coarse).iter().max().expect("some");
    let (codes, offset, size) = (vec![Code::Read; 200], random_offsets(200), vec![4096; 200]);
    let batch = Batch { op: &codes, offset: &offset, size: &size };
    let (mut submit, mut complete) = (vec![0; 200], vec![0; 200]);
    let stop = Stop { latency: skylight_disk::Nanos(shown), count: 1, within: 1, alone: None };
    let done = drive(&clock).run_until(&batch, 1, Some(stop), &mut submit, &mut complete).expect("valid");
    assert_eq!(complete[done - 1] - submit[done - 1], shown);
}

#[test]
fn the_link_adds_its_time_to_each_command() {
    // Cached writes do not depend on the rotation.
    let cached = Conditions { volatile_cache: VolatileCache::On, ..Conditions::default() };
    let slow = Conditions { transport: Duration::from_ns(2.0 * MS), ..cached.clone() };
    let writes =
        |conditions| latencies(&times(&mut drive(conditions), &[Code::Write; 50], &random_offsets(50), 1));
    let (near, far) = (writes(&cached), writes(&slow));
    assert!(near.iter().zip(&far).all(|(near, far)| far - near == 2_000_000), "{near:?} {far:?}");
}

#[test]
fn commands_beyond_the_depth_wait_their_turn() {
    let one = Conditions { queue_depth: 1, ..Conditions::default() };
    let random = |conditions: &Conditions, depth| {
        let (submit, complete) = reads(&mut drive(conditions), 400, depth);
        (complete.iter().max().expect("some") - submit[0]) as f64 / 400.0
    };
    let (queued, alone) = (random(&Conditions::default(), 31), random(&Conditions::default(), 1));
    let limited = random(&one, 31);
    assert!(queued < 0.7 * alone, "a queue is reordered: {queued} {alone}");
    assert!((limited / alone - 1.0).abs() < 0.05, "a queue of one is not: {limited} {alone}");
    let (_, complete) = reads(&mut drive(&one), 400, 31);
    assert!(complete.is_sorted(), "in order");
    // The link is idle between two commands.
    let far = Conditions { transport: Duration::from_ns(2.0 * MS), ..one };
    assert!(random(&far, 31) > limited + 1.0 * MS);
}

#[test]
fn look_ahead_stays_on() {
    let fixed = Conditions { look_ahead: LookAhead::StaysOn, ..Conditions::default() };
    let sequential: Vec<u64> = (0..400).map(|n| n * 4096).collect();
    let read = |conditions: &Conditions| {
        let mut drive = drive(conditions);
        let state = drive.set_look_ahead(false);
        (state, mean_ms(&latencies(&times(&mut drive, &[Code::Read; 400], &sequential, 1))[1..]))
    };
    let (off, waits) = read(&Conditions::default());
    let (on, ahead) = read(&fixed);
    assert!(!off && on && waits > 5.0 && ahead < 1.0, "{waits} {ahead}");
}

#[test]
fn volatile_caches_stay_as_they_are() {
    let ask = |volatile_cache, on| {
        let mut drive = drive(&Conditions { volatile_cache, ..Conditions::default() });
        let state = drive.set_write_cache(on);
        let codes = [Code::Write, Code::Flush].repeat(30);
        let offset: Vec<u64> = random_offsets(30).into_iter().flat_map(|at| [at, 0]).collect();
        let took = latencies(&times(&mut drive, &codes, &offset, 1));
        let of = |first: usize| mean_ms(&took.iter().skip(first).step_by(2).copied().collect::<Vec<_>>());
        (state, of(0), of(1))
    };
    let (state, write, _) = ask(VolatileCache::Obeys, false);
    assert!(!state && write > 3.0, "the control: {write}");
    assert!(!ask(VolatileCache::Off, true).0);
    for stays_on in [VolatileCache::On, VolatileCache::SaidOff] {
        let (state, write, flush) = ask(stays_on, false);
        assert!(state && write < 1.0 && flush > 3.0, "{stays_on:?}: {write} {flush}");
    }
    let (state, write, flush) = ask(VolatileCache::IgnoresFlush, false);
    assert!(state && write < 1.0 && flush < 1.0, "{write} {flush}");
}

/// Latency of a read after so much idle time, ms.
fn read_after(conditions: &Conditions, idle_s: f64) -> f64 {
    let mut drive = drive(conditions);
    reads(&mut drive, 20, 1);
    drive.pause(Duration::from_ns(idle_s * 1e9).nanos());
    mean_ms(&latencies(&times(&mut drive, &[Code::Read], &[4096 << 20], 1)))
}

#[test]
fn drives_at_rest_take_time_to_wake() {
    let rest = |after_s: f64, wake_s: f64| {
        Some(Rest { after: Duration::from_ns(after_s * 1e9), wake: Duration::from_ns(wake_s * 1e9) })
    };
    let conditions =
        Conditions { spin_down: rest(60.0, 8.0), head_unload: rest(5.0, 0.5), ..Conditions::default() };
    assert!(read_after(&Conditions::default(), 3600.0) < 40.0);
    assert!(read_after(&conditions, 4.0) < 40.0);
    assert!((500.0..540.0).contains(&read_after(&conditions, 6.0)));
    assert!((8000.0..8040.0).contains(&read_after(&conditions, 61.0)));
}

#[test]
fn background_scans_move_the_arm_and_keep_the_media_busy() {
    let scan = BackgroundScan {
        after: Duration::from_ns(1e9),
        every: Duration::from_ns(100.0 * MS),
        size: Bytes(8 << 20),
    };
    let conditions = Conditions { background_scan: Some(scan), ..Conditions::default() };
    // Idle times of all phases of the scan: some fall into a read, which takes half of the time.
    let after = |conditions: &Conditions, idle_s: f64| {
        (0..20).map(|n| read_after(conditions, idle_s + 0.005 * f64::from(n))).fold(0.0, f64::max)
    };
    assert!(after(&conditions, 0.5) < 40.0, "not yet");
    assert!(after(&Conditions::default(), 2.0) < 40.0, "the control");
    assert!(after(&conditions, 2.0) > 45.0);
}

#[test]
fn other_clients_make_their_share_wait() {
    let busy = Conditions { busy_share: 0.1, ..Conditions::default() };
    let slow = |conditions: &Conditions| {
        latencies(&reads(&mut drive(conditions), 2000, 1)).iter().filter(|&&ns| ns > 32_000_000).count()
    };
    let (few, many) = (slow(&Conditions::default()), slow(&busy));
    assert!(few < 20, "{few} of 2,000");
    assert!((100..=220).contains(&many), "{many} of 2,000");
}
