//! The raw shingled disk against a surface that is written sector by sector (`docs/figures.md`, row W1),
//! and planted faults.
//!
//! `SKYLIGHT_OPERATIONS` has no part here: a disk is small and a thousand are looked at; `PROPTEST_CASES` asks
//! for more, `PROPTEST_RNG_SEED` for others.

#[path = "../common/mod.rs"]
mod common;
mod disk_and_oracle;
mod disks;
mod oracle;

use std::panic::{AssertUnwindSafe, catch_unwind};

use common::operation_count::cases;
use disk_and_oracle::Pair;
use disks::Disk;
use oracle::{Surface, under_head};
use proptest::prelude::*;
use skylight_disk::{Angle, SegmentSpec};

proptest! {
    #![proptest_config(cases(1_000))]

    /// The number of commands shrinks to the first that goes wrong.
    #[test]
    fn a_disk_gives_what_lies_on_its_surface(seed in any::<u64>(), commands in 1_u64..200) {
        let disk = Disk::random(seed);
        let surface = Surface::new(under_head(&disk.specs, &disk.geometry(), disk.width_tracks));
        Pair::new(&disk, disk.layer(&disk.specs, disk.width_tracks), surface, seed).run(commands);
    }
}

/// What the thousand disks are: nothing that the rules speak of is missing among them.
#[test]
fn random_disks_have_what_the_rules_speak_of() {
    let disks: Vec<Disk> = (0..1_000).map(Disk::random).collect();
    let count = |what: &str, is: &dyn Fn(&Disk) -> bool| {
        let found = disks.iter().filter(|disk| is(disk)).count();
        println!("{what}: {found} of {}", disks.len());
        assert!(found >= 50, "{what}: {found} disks only");
    };
    count("several tracks under the head", &|disk| disk.width_tracks > 1);
    count("more than ten tracks under the head", &|disk| disk.width_tracks > 10);
    count("several surfaces", &|disk| disk.specs.iter().any(|zone| zone.surfaces > 1));
    count("several recording zones", &|disk| disk.specs.len() > 2);
    count("zones of both directions", &|disk| {
        disk.specs.iter().any(|zone| zone.inward) && disk.specs.iter().any(|zone| !zone.inward)
    });
    count("a skew of whole sectors", &|disk| {
        disk.specs.iter().any(|zone| {
            let sectors = zone.track_skew.as_revolutions() * f64::from(zone.sectors_per_track);
            zone.track_skew.get() > 0 && (sectors - sectors.round()).abs() < 1e-9
        })
    });
    count("bands", &|disk| disk.stretches.is_some());
    count("spare sectors", &|disk| disk.specs.iter().any(|zone| zone.first_sector > 0));
}

/// A fault in what a layer believes of its disk.
#[derive(Clone, Copy, Debug)]
enum Bug {
    /// All tracks begin at one angle.
    SkewIgnored,
    /// A write at the edge of a recording zone does no harm in the next one.
    ZoneEdgeIgnored,
    /// The head is a track wider.
    OneTrackMore,
    /// The head is a track narrower.
    OneTrackLess,
    /// A track begins a sector late.
    OneSectorLate,
}

impl Bug {
    /// The tracks and the width that the layer believes in; none where the fault makes no sense.
    fn believed(self, disk: &Disk) -> Option<(Vec<SegmentSpec>, u32)> {
        let mut specs = disk.specs.clone();
        let mut width = disk.width_tracks;
        let mut apart = 0;
        for (number, spec) in specs.iter_mut().enumerate() {
            match self {
                Self::SkewIgnored => {
                    (spec.track_skew, spec.head_skew, spec.group_skew) = (Angle(0), Angle(0), Angle(0));
                    spec.start_angle = Some(Angle(0));
                }
                Self::ZoneEdgeIgnored => {
                    let shared = number > 0 && disk.specs[number - 1].first_track == spec.first_track;
                    apart += if shared { 0 } else { 20 };
                    spec.first_track += apart;
                }
                Self::OneSectorLate => {
                    let sector = Angle(u64::MAX / u64::from(spec.sectors_per_track));
                    spec.track_skew = spec.track_skew.advanced(sector);
                }
                Self::OneTrackMore | Self::OneTrackLess => {}
            }
        }
        match self {
            Self::OneTrackMore => width += 1,
            Self::OneTrackLess => width -= 1,
            _ => {}
        }
        (1..=16).contains(&width).then_some((specs, width))
    }
}

/// Each fault in many disks: where it makes a difference to any sector it must be seen.
#[test]
fn planted_faults_are_seen() {
    const DISKS: u64 = 60;
    let bugs =
        [Bug::SkewIgnored, Bug::ZoneEdgeIgnored, Bug::OneTrackMore, Bug::OneTrackLess, Bug::OneSectorLate];
    for bug in bugs {
        let (mut planted, mut unseen) = (0, Vec::new());
        for seed in 0..DISKS {
            let disk = Disk::random(seed);
            let Some((specs, width)) = bug.believed(&disk) else { continue };
            let truth = under_head(&disk.specs, &disk.geometry(), disk.width_tracks);
            let believed = under_head(&specs, &disks::geometry(&specs), width);
            if disk.places.iter().all(|&pba| disk.seen(&truth, pba) == disk.seen(&believed, pba)) {
                continue;
            }
            planted += 1;
            let mut pair = Pair::new(&disk, disk.layer(&specs, width), Surface::new(truth), seed);
            if catch_unwind(AssertUnwindSafe(|| pair.run(1_500))).is_ok() {
                unseen.push(seed);
            }
        }
        println!("{bug:?}: makes a difference to {planted} of {DISKS} disks, unseen in {unseen:?}");
        assert!(planted * 5 > DISKS, "{bug:?} found a place in {planted} of {DISKS} disks only");
        assert!(unseen.is_empty(), "{bug:?} is not seen with seeds {unseen:?}");
    }
}
