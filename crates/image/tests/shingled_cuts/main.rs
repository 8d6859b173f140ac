//! Power cuts of a raw shingled disk: what a write destroyed before a durable one never reads as good again.
//!
//! A disk lives in sessions; the power is cut after every effect of each on the medium. What is then said of each
//! sector (native, or overwritten from where by which write) and what it reads as is compared with an oracle that
//! knows the disk sector by sector. `SKYLIGHT_CUTS` is how many cuts there are in all (20,000 if it is not set, of
//! which this test takes a tenth), `PROPTEST_RNG_SEED` the seed (1).

#[path = "../common/mod.rs"]
mod common;
#[path = "../media/mod.rs"]
mod media;
mod oracle;
mod run;
#[path = "../../../layer/tests/raw_shingled/oracle.rs"]
#[expect(dead_code, reason = "the layer's own tests use the rest of it")]
mod surface;

use common::{Lives, number};
use run::Life;
use skylight_image::planted_bugs::Planted;

const MOST_MORE_LIVES: u64 = 20;

/// A life of so many cuts; how often it started after the disk was switched off in order.
fn lives(banded: bool, write_cache: bool, seed: u64, cuts: u64) -> u64 {
    // Half of the lives have checksums: which, the seed says.
    let checksums = (seed.wrapping_add(u64::from(banded) + u64::from(write_cache))).is_multiple_of(2);
    let mut life = Life::new(banded, (write_cache, checksums), seed, None);
    let lived = life.live(cuts);
    let how = format!("banded {banded}, write cache {write_cache}, checksums {checksums}, seed {seed}");
    println!("{how}: {:?}", life.seen);
    lived.unwrap_or_else(|why| panic!("{how}, cut {}: {why}", life.seen.cuts));
    assert!(life.seen.checkpoints > 0 && life.seen.overwritten > 0);
    life.seen.clean_starts - 1 // the first start of all is one
}

#[test]
fn a_cut_makes_nothing_whole_that_a_durable_write_destroyed() {
    // Fewer would not see all that must come up.
    let cuts = (number("SKYLIGHT_CUTS", 20_000) / 10).max(2_000) / 4;
    let seed = number("PROPTEST_RNG_SEED", 1);
    let mut clean_starts = 0;
    for banded in [false, true] {
        for write_cache in [false, true] {
            clean_starts += lives(banded, write_cache, seed, cuts);
        }
    }
    // With some seeds no disk of so few lives is switched off in order: then there are more.
    for more in 1..=MOST_MORE_LIVES {
        if clean_starts == 0 {
            clean_starts = lives(false, true, seed.wrapping_add(more), cuts);
        }
    }
    assert!(clean_starts > 0, "no start after a disk was switched off in order");
}

#[test]
fn planted_faults_are_noticed() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    for planted in [Planted::NoRecord, Planted::RecordWithData, Planted::NoSync] {
        let noticed = [false, true].into_iter().find_map(|write_cache| {
            let mut life = Life::new(false, (write_cache, false), seed, Some(planted));
            let why = life.live(2000).err()?;
            Some(format!("cut {}: {why}", life.seen.cuts))
        });
        println!("{planted:?}: {}", noticed.unwrap_or_else(|| panic!("{planted:?} went unnoticed")));
    }
}
