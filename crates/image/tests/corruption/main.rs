//! Corruption: an image of which one place has changed is refused, or serves every sector right whose own bytes did not.
//!
//! `SKYLIGHT_MUTATIONS` is how many mutations there are in all (1,000 if it is not set), `PROPTEST_RNG_SEED` the seed (1).

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "the power-cut tests use the rest of it")]
mod common;
#[path = "../power_cuts/drives.rs"]
mod drives;
#[path = "../media/mod.rs"]
mod media;
mod mutate;
#[path = "../power_cuts/oracle.rs"]
mod oracle;
#[path = "../common/pending_flush.rs"]
mod pending_flush;
#[path = "../power_cuts/run.rs"]
mod run;

use common::number;
use drives::{DRIVES, Drive, SECTORS};
use mutate::{Subject, Tally, corrupt};
use run::{Lies, Life};
use skylight_image::planted_bugs::Planted;

impl Subject for Life {
    fn judge(&self, found: &Vec<u8>, changed: &[bool], healthy: &Vec<u8>) -> Result<(), String> {
        let mut bytes = found.clone();
        for (sector, _) in changed.iter().enumerate().filter(|(_, changed)| **changed) {
            let range = sector * 512..(sector + 1) * 512;
            bytes[range.clone()].copy_from_slice(&healthy[range]);
        }
        self.current().check_cut(&bytes)
    }

    fn sectors(&self) -> u64 {
        SECTORS
    }
}

/// Every drive, with the write cache on and off, in one file and in several.
fn lives(
    drives: &[Drive],
    mutations: u64,
    planted: Option<Planted>,
    tally: &mut Tally,
) -> Result<(), String> {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let ways = [
        (Lies::Planned, false, false),
        (Lies::Planned, true, false),
        (Lies::Planned, false, true),
        (Lies::Planned, true, true),
        (Lies::InPlace, true, false),
        (Lies::InPlace, false, true),
        (Lies::Both, true, false),
    ];
    let each = mutations.div_ceil((ways.len() * drives.len()) as u64);
    for &drive in drives {
        for (lies, write_cache, in_parts) in ways {
            let life = Life::new(drive, (write_cache, false), seed, planted).lying(lies);
            let mut life = if in_parts { life.in_parts() } else { life };
            life.marks_at_once = true;
            corrupt(&mut life, each, tally).map_err(|why| {
                format!(
                    "{}, {lies:?}, write cache {write_cache}, in parts {in_parts}, seed {seed}, {why}",
                    drive.name
                )
            })?;
        }
    }
    Ok(())
}

#[test]
fn nothing_but_changed_data_reads_wrong() {
    let mut tally = Tally::default();
    let lived = lives(&DRIVES, number("SKYLIGHT_MUTATIONS", 1000), None, &mut tally);
    println!("{tally:?}");
    lived.unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn planted_faults_are_noticed() {
    for planted in [Planted::NoMark, Planted::NoPartGeneration, Planted::LostIgnored] {
        // The first two have no tags to lose.
        let why = lives(&DRIVES[2..], 8_000, Some(planted), &mut Tally::default()).err();
        println!("{planted:?}: {}", why.unwrap_or_else(|| panic!("{planted:?} went unnoticed")));
    }
}
