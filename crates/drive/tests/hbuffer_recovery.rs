//! What the recovery of a host buffer finds and costs, on the drive of the paper's model, with a log of the 100 zones of its case study:
//! all that was durable, and at most 2 s of the drive's time for a GiB of log.

use skylight_disk::Sectors;
use skylight_drive::hbuffer_power_cuts::{self, Cuts, Plan};
use skylight_drive::profile::Profile;

/// Zones of the log.
const ZONES: u32 = 100;
/// Most time of the drive for a GiB of log.
const MOST_S_PER_GIB: f64 = 2.0;
/// Cuts at random commands.
const CUTS: u32 = 6;
const SEED: u64 = 1;

fn check(write: u64, cuts: u32) {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/skylight/profiles/st8000as0022.toml");
    let text = std::fs::read_to_string(path).expect("the profile is there");
    let profile = Profile::from_toml(&text, path).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan { zones: ZONES, write: Sectors(write), rounds: 1, cuts, seed: SEED };
    let made = hbuffer_power_cuts::run(&profile, plan).unwrap_or_else(|error| panic!("seed {SEED}: {error}"));
    let Cuts { found, longest, recoveries, looked_up, cleaned_zones, .. } = made;
    let (seconds, gib) = (longest.get() as f64 / 1e9, made.log.bytes() as f64 / (1_u64 << 30) as f64);
    println!(
        "writes of {} KiB: {recoveries} recoveries, {looked_up} extents, {cleaned_zones} zones cleaned; the longest: \
         checkpoint {} MiB, {} MiB of log, {} entries, {seconds:.2} s, {:.3} s for a GiB of log",
        write / 2,
        found.checkpoint.bytes() >> 20,
        found.scanned.bytes() >> 20,
        found.entries,
        seconds / gib,
    );
    assert_eq!(made.wrong, 0, "seed {SEED}");
    assert!(seconds < MOST_S_PER_GIB * gib, "{seconds} s");
}

#[test]
fn a_recovery_is_exact_and_takes_less_than_two_seconds_for_a_gib_of_log() {
    check(128, CUTS);
    check(1_024, CUTS);
}

#[test]
#[ignore = "has millions of entries in memory"]
fn a_recovery_of_small_writes_is_exact_and_takes_less_than_two_seconds_for_a_gib_of_log() {
    check(8, 1);
}
