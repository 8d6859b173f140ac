//! A fault in each place where commands wait is seen.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::media::fault::Random;
use skylight_drive::drive::Planted as InDrive;
use skylight_serve::core::planted_bugs::Planted;

use crate::Timing;
use crate::common::number;
use crate::drives::{DRIVES, SECTORS};
use crate::host::{Host, Mood};
use crate::shadow::Shadow;
use crate::targets::Served;
use crate::without_power_cuts::{image, live};

/// Drives of one kind of layer each.
const ONE_EACH: [usize; 4] = [0, 3, 5, 9];

#[test]
fn in_model_time() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let places = [
        Planted::ZeroesAnyTime,
        Planted::OldestOnTop,
        Planted::Drive(InDrive::LeavesBeforeOlder),
        Planted::Drive(InDrive::NearestLeaves),
        Planted::Drive(InDrive::NewestFirst),
        Planted::Drive(InDrive::NoConflicts),
    ];
    for planted in places {
        let seen =
            (0..20).flat_map(|life| ONE_EACH.map(|index| (life, DRIVES[index]))).find_map(|(life, drive)| {
                let seed = seed.wrapping_add(life);
                // Some end in an assertion of the drive's own.
                let lived = catch_unwind(AssertUnwindSafe(|| {
                    live(drive, Timing::Model, true, seed, 2_000, |target| target.drive().plant(planted))
                        .err()
                }));
                lived.unwrap_or_else(|_| Some(format!("{}: an assertion", drive.name)))
            });
        println!("{planted:?}: {}", seen.unwrap_or_else(|| panic!("{planted:?} went unnoticed")));
    }
}

#[test]
fn over_a_disk_that_sets_the_time() {
    let seed = number("PROPTEST_RNG_SEED", 1);
    let mood = Mood { depth: 40, hot: 2 };
    let seen = (0..200).find_map(|life| {
        let mut random = Random(seed.wrapping_add(life));
        let mut host = Host::new(Shadow::new(SECTORS, true));
        let image = image(DRIVES[0], true, false, false);
        let mut target = Served::planted(image, Planted::BatchNewestFirst);
        let lived = host.work(&mut target, &mut random, 400, mood);
        lived.and_then(|()| host.look_at_all(&mut target, &mut random)).err()
    });
    println!("{}", seen.expect("changes newest first went unnoticed"));
}
