//! A host buffer against a shadow of what a host may expect, with and without power cuts.
//!
//! `SKYLIGHT_OPERATIONS` random commands (2,000,000 if it is not set) without cuts, and `SKYLIGHT_CUTS` cuts (20,000) between any two
//! commands to the drive; `PROPTEST_RNG_SEED` is their seed. A failure names the drive and the seed.

mod cleaning_errors;
#[path = "../common/mod.rs"]
mod common;
mod faults;
mod media;
mod random_policy;
mod reads;
mod session;
mod shadow;
mod shape;

use common::operation_count::{LONG, half};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use session::{Bug, Session};
use shape::any_shape;

/// Operations if `SKYLIGHT_OPERATIONS` is not set: 12 us each.
const OPERATIONS: u64 = 2_000_000;
/// Cuts if `SKYLIGHT_CUTS` is not set.
const CUTS: u64 = 20_000;
/// Operations of a session with cuts.
const SHORT: u64 = 3_000;
/// Drives in which a bug has to be seen: in one of them.
const DRIVES: u64 = 200;

fn follow(queues: &str, deepest: u64) {
    half(OPERATIONS, "hbuffer", queues, &(any_shape(), any::<u64>()), |(shape, seed)| {
        let mut session = Session::new(shape.clone(), seed, deepest, false, None);
        session.run(LONG).unwrap_or_else(|why| panic!("{shape:?}, seed {seed}: {why}"))
    });
}

#[test]
fn lone_commands_find_what_was_written() {
    follow("lone commands", 1);
}

#[test]
fn deep_queues_find_what_was_written() {
    follow("deep queues", 40);
}

fn cuts() -> u64 {
    let asked = std::env::var("SKYLIGHT_CUTS").ok().map(|asked| asked.replace('_', ""));
    asked.map_or(CUTS, |asked| asked.parse().expect("SKYLIGHT_CUTS is a number"))
}

/// Sessions with cuts until there were so many, and with failing commands if asked for.
fn cut(most: u64, failures: bool) -> session::Made {
    let mut runner = TestRunner::new(common::operation_count::cases(1));
    let (mut made, mut seed) = (session::Made::default(), runner.rng().next_u64());
    while made.cuts < most {
        let shape = any_shape().new_tree(&mut runner).expect("a shape").current();
        seed = seed.wrapping_add(1);
        let mut session = Session::new(shape.clone(), seed, 8, true, None);
        session.failures = failures;
        session.run(SHORT).unwrap_or_else(|why| panic!("{shape:?}, seed {seed}: {why}"));
        made.add(&session.made);
    }
    println!("{made:?}");
    made
}

#[test]
fn nothing_durable_is_lost_by_a_cut() {
    let made = cut(cuts(), false);
    // Cuts are worth what lies before them.
    assert!(made.entries > made.cuts && made.rewritten > made.cuts / 2, "{made:?}");
    // Few: nearly always some older data of the zone is behind the write pointer by then. Seed 1 makes 1.3 in 100 cuts, and single
    // drives differ much from each other, so half of that is asked for.
    assert!(made.appended > made.cuts / 200, "{made:?}");
    // Sectors at home, and reads that failed for these: seed 1 makes 18 and 4.8 in 100 cuts, and less than half is asked for.
    assert!(made.lost > made.cuts / 12 && made.unread > made.cuts / 50, "{made:?}");
}

#[test]
fn commands_that_the_drive_fails_take_no_other_data_with_them() {
    let made = cut(cuts() / 4, true);
    assert!(made.failures > made.cuts / 4 && made.settled > made.cuts / 8, "{made:?}");
}

const BUGS: [(Bug, bool); 15] = [
    (Bug::ShortEntry, false),
    (Bug::MovedBeside, false),
    (Bug::MovedStale, false),
    (Bug::ReadBeside, false),
    (Bug::LostWrite, false),
    (Bug::NoReset, false),
    (Bug::MadeUp, false),
    (Bug::NoFlushBeforeRecord, true),
    (Bug::NoFlushBeforeReset, true),
    (Bug::NoFlushBeforeCheckpoint, true),
    (Bug::NoFlushBehindCheckpoint, true),
    (Bug::NoHostFlush, true),
    (Bug::NoRecord, true),
    (Bug::NoLossRecord, true),
    (Bug::NoChecksum, true),
];

#[test]
fn every_planted_bug_is_seen() {
    let mut unseen = Vec::new();
    for (bug, cuts) in BUGS {
        let mut runner = TestRunner::deterministic();
        let seen = (0..DRIVES).find_map(|seed| {
            let shape = any_shape().new_tree(&mut runner).expect("a shape").current();
            let run = std::panic::catch_unwind(|| Session::new(shape, seed, 8, cuts, Some(bug)).run(SHORT));
            run.map_or_else(|_| Some("a rule of zones is broken".to_owned()), Result::err)
        });
        match seen {
            Some(why) => println!("{bug:?}: {why}"),
            None => unseen.push(bug),
        }
    }
    assert!(unseen.is_empty(), "{unseen:?} go unseen");
}
