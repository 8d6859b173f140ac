//! Power cuts of drives with zones: no write pointer is before durable data or beyond what was written, no durable data is
//! lost, and no data from before a reset comes back behind it.
//!
//! A drive lives in sessions; the power is cut after every effect of each on the medium. Each zone, its write pointer
//! and its data, is compared with an oracle. `SKYLIGHT_CUTS` is how many cuts there are (20,000 if it is not set),
//! `PROPTEST_RNG_SEED` the seed (1).

#[path = "../common/mod.rs"]
mod common;
#[path = "../media/mod.rs"]
mod media;
mod oracle;
#[path = "../common/pending_flush.rs"]
mod pending_flush;
mod run;

use common::{Lives, number};
use run::{DRIVES, Drive, Life};
use skylight_image::planted_bugs::Planted;

/// Cuts of one life, at most: zones fail for good, so a drive that lives long has none left.
const LIFE: u64 = 2_000;

/// Ways of a drive's life: whether it has a write cache, and checksums.
const WAYS: [(bool, bool); 4] = [(false, false), (true, false), (false, true), (true, true)];

fn lives(drive: Drive) {
    let (cuts, seed) = (number("SKYLIGHT_CUTS", 20_000), number("PROPTEST_RNG_SEED", 1));
    let each = cuts / (WAYS.len() * DRIVES.len()) as u64 + 1;
    for (write_cache, checksums) in WAYS {
        let mut cuts = 0;
        for seed in seed.. {
            let mut life = Life::new(drive, (write_cache, checksums), seed, None);
            let lived = life.live(LIFE.min(each - cuts));
            let how =
                format!("{}, write cache {write_cache}, checksums {checksums}, seed {seed}", drive.name);
            println!("{how}: {:?}", life.seen);
            lived.unwrap_or_else(|why| panic!("{how}, cut {}: {why}", life.seen.cuts));
            assert!(life.seen.cuts < 1_000 || life.seen.checkpoints > 0 && life.seen.resets > 0);
            cuts += life.seen.cuts;
            if cuts >= each {
                break;
            }
        }
    }
}

#[test]
fn host_managed_zones_survive_cuts() {
    lives(DRIVES[0]);
}

#[test]
fn zones_of_short_capacity_survive_cuts() {
    lives(DRIVES[1]);
}

#[test]
fn host_aware_zones_survive_cuts() {
    lives(DRIVES[2]);
}

#[test]
fn zones_with_a_persistent_cache_survive_cuts() {
    lives(DRIVES[3]);
}

#[test]
fn zones_with_a_full_cache_survive_cuts() {
    lives(DRIVES[4]);
}

#[test]
fn planted_faults_are_noticed() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    for planted in [
        Planted::NoSync,
        Planted::ResetForgets,
        Planted::MoveWithoutData,
        Planted::ZoneWithoutData,
        Planted::ZoneAlone,
    ] {
        let noticed = DRIVES.into_iter().find_map(|drive| {
            let mut life = Life::new(drive, (true, false), seed, Some(planted));
            let why = life.live(5_000).err()?;
            Some(format!("{}, cut {}: {why}", drive.name, life.seen.cuts))
        });
        println!("{planted:?}: {}", noticed.unwrap_or_else(|| panic!("{planted:?} went unnoticed")));
    }
}
