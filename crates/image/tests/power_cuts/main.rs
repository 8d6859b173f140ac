//! Power cuts: nothing that was acknowledged as durable is ever lost, wherever the power fails.
//!
//! `SKYLIGHT_CUTS` is how many cuts there are in all (20,000 if it is not set), `PROPTEST_RNG_SEED` the seed (1).

#[path = "../common/mod.rs"]
mod common;
mod concurrent_flush;
mod drives;
#[path = "../media/mod.rs"]
mod media;
mod oracle;
#[path = "../common/pending_flush.rs"]
mod pending_flush;
mod run;

use common::{Lives, number};
use drives::{DRIVES, Drive};
use run::{Lies, Life};
use skylight_image::planted_bugs::Planted;

fn lives(drive: Drive) {
    let (cuts, seed) = (number("SKYLIGHT_CUTS", 20_000), number("PROPTEST_RNG_SEED", 1));
    let ways = [
        (Lies::Planned, false, false, false),
        (Lies::Planned, true, false, false),
        (Lies::Planned, true, false, true),
        (Lies::Planned, false, true, false),
        (Lies::Planned, true, true, false),
        (Lies::InPlace, false, false, false),
        (Lies::InPlace, true, false, false),
        (Lies::InPlace, true, false, true),
        (Lies::InPlace, true, true, false),
        (Lies::Both, false, false, false),
        (Lies::Both, true, true, false),
    ];
    let each = cuts / (ways.len() * DRIVES.len()) as u64 + 1;
    for (lies, write_cache, checksums, in_parts) in ways {
        let life = Life::new(drive, (write_cache, checksums), seed, None).lying(lies);
        let mut life = if in_parts { life.in_parts() } else { life };
        let lived = life.live(each);
        let how = format!(
            "{lies:?}, write cache {write_cache}, checksums {checksums}, in parts {in_parts}, seed {seed}"
        );
        println!("{}, {how}: {} cuts, {:?}", drive.name, life.cuts, life.seen);
        if let Err(why) = lived {
            panic!("{}, {how}, cut {}: {why}", drive.name, life.cuts);
        }
        assert!(life.cuts >= each);
    }
}

macro_rules! drive {
    ($name:ident, $index:expr) => {
        #[test]
        fn $name() {
            lives(DRIVES[$index]);
        }
    };
}

drive!(conventional, 0);
drive!(ssd, 1);
drive!(set_associative_lazy, 2);
drive!(set_associative_aggressive, 3);
drive!(set_associative_flash, 4);
drive!(journaled_fifo, 5);
drive!(journaled_lifo_flash, 6);
drive!(journaled_greedy, 7);
drive!(fully_associative_lazy, 8);
drive!(fully_associative_aggressive, 9);

/// Cuts until a planted fault is noticed on some drive; none if it is not.
fn noticed(planted: Planted, lies: Lies, write_cache: bool) -> Option<String> {
    let seed = number("PROPTEST_RNG_SEED", 1);
    [3, 5, 6, 9].into_iter().find_map(|index| {
        let mut life = Life::new(DRIVES[index], (write_cache, false), seed, Some(planted)).lying(lies);
        let why = life.live(3000).err()?;
        Some(format!("{}, cut {}: {why}", DRIVES[index].name, life.cuts))
    })
}

#[test]
fn planted_faults_are_noticed() {
    let all = [
        (Planted::NoSync, Lies::Planned),
        (Planted::TagWithoutData, Lies::Planned),
        (Planted::BandTagFirst, Lies::Planned),
        (Planted::NoSequence, Lies::Planned),
        (Planted::ReuseAtOnce, Lies::Planned),
        (Planted::MarkFirst, Lies::Planned),
        (Planted::NoSync, Lies::InPlace),
        (Planted::MarkFirst, Lies::InPlace),
        (Planted::GapIgnored, Lies::InPlace),
        (Planted::PlacesFollow, Lies::InPlace),
    ];
    for (planted, lies) in all {
        let found = noticed(planted, lies, true).or_else(|| noticed(planted, lies, false));
        let found = found.unwrap_or_else(|| panic!("{planted:?} of {lies:?} went unnoticed"));
        println!("{planted:?}, {lies:?}: {found}");
    }
}

#[test]
fn planted_faults_in_checksums_are_noticed() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    for planted in [Planted::RegionMarkLater, Planted::RegionClearedBeforeSync] {
        let found = [0, 3, 5, 9].into_iter().find_map(|index| {
            let mut life = Life::new(DRIVES[index], (true, true), seed, None);
            life.plant(planted);
            let why = life.live(3000).err()?;
            Some(format!("{}, cut {}: {why}", DRIVES[index].name, life.cuts))
        });
        let found = found.unwrap_or_else(|| panic!("{planted:?} went unnoticed"));
        println!("{planted:?}: {found}");
    }
}
