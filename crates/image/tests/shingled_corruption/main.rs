//! Corruption of the image of a raw shingled disk: refused, or what each sector is and reads as is right, but for
//! sectors whose own bytes have changed.
//!
//! `SKYLIGHT_MUTATIONS` is how many mutations there are in all (1,000 if it is not set, of which this test takes a
//! fifth), `PROPTEST_RNG_SEED` the seed (1).

#[path = "../common/mod.rs"]
#[expect(dead_code, reason = "the power-cut tests use the rest of it")]
mod common;
#[path = "../media/mod.rs"]
mod media;
#[path = "../corruption/mutate.rs"]
mod mutate;
#[path = "../shingled_cuts/oracle.rs"]
mod oracle;
#[path = "../shingled_cuts/run.rs"]
mod run;
#[path = "../../../layer/tests/raw_shingled/oracle.rs"]
#[expect(dead_code, reason = "the layer's own tests use the rest of it")]
mod surface;

use std::collections::BTreeMap;

use common::number;
use mutate::{Subject, Tally, corrupt};
use oracle::Found;
use run::Life;
use skylight_image::planted_bugs::Planted;

impl Subject for Life {
    fn judge(&self, found: &Found, changed: &[bool], healthy: &Found) -> Result<(), String> {
        let places = &self.current().places;
        let by_place: BTreeMap<u64, usize> =
            places.iter().enumerate().map(|(sector, &place)| (place, sector)).collect();
        let mut judged = found.clone();
        for sector in 0..places.len() {
            let state = found.states[sector];
            // The bytes of an overwritten sector are those of the one that lies on it.
            let source = state.map_or(sector, |(source, _)| by_place[&source]);
            if changed[source] && state == healthy.states[sector] {
                let range = sector * 512..(sector + 1) * 512;
                judged.bytes[range.clone()].copy_from_slice(&healthy.bytes[range]);
            }
        }
        self.current().check_cut(&judged)
    }

    fn sectors(&self) -> u64 {
        self.current().places.len() as u64
    }
}

fn lives(mutations: u64, planted: Option<Planted>, tally: &mut Tally) -> Result<(), String> {
    let seed = number("PROPTEST_RNG_SEED", 1);
    for (banded, write_cache) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut life = Life::new(banded, (write_cache, false), seed, planted);
        corrupt(&mut life, mutations.div_ceil(4), tally)
            .map_err(|why| format!("banded {banded}, write cache {write_cache}, seed {seed}, {why}"))?;
    }
    Ok(())
}

#[test]
fn nothing_but_changed_data_reads_wrong() {
    let mut tally = Tally::default();
    let lived = lives(number("SKYLIGHT_MUTATIONS", 1000) / 5, None, &mut tally);
    println!("{tally:?}");
    lived.unwrap_or_else(|why| panic!("{why}"));
}

#[test]
fn planted_faults_are_noticed() {
    for planted in [Planted::NoMark, Planted::LostIgnored] {
        let why = lives(4_000, Some(planted), &mut Tally::default()).err();
        println!("{planted:?}: {}", why.unwrap_or_else(|| panic!("{planted:?} went unnoticed")));
    }
}
