//! Home zones that cannot be cleaned as others are: sectors that cannot be read, and writes that fail.

use skylight_disk::{Lba, Sectors};
use skylight_layer::hbuffer::policy::Path;
use skylight_layer::{Failure, Idle, Op, Outcome};

use super::faults::{LOG, Rig, ZONE};
use super::media::Change;

/// The zone of the drive that the first home zone begins in, and how many there are.
const POOL: u64 = 6;
const HOMES: u64 = 9;
/// Writes have so many sectors.
const WRITE: u64 = 4;

/// The first home zones are full at home, each write with the number of its place in its zone; then the log has newer data of sectors
/// 20 to 23 of each, with the number of the zone, from 1 on.
fn rig(homes: u64) -> Rig {
    let mut rig = Rig::new(2, Path::Direct);
    for home in 0..homes {
        let starts: Vec<u64> = (0..ZONE / WRITE).map(|index| home * ZONE + index * WRITE).collect();
        rig.write(&starts);
    }
    let newer: Vec<u64> = (0..homes).map(|home| home * ZONE + 20).collect();
    rig.write(&newer);
    assert_eq!(u64::from(rig.buffer.fill().dirty_zones), homes);
    rig
}

/// Idle time until there is nothing to do, or a pass fails.
fn clean(rig: &mut Rig) -> Result<(), Failure> {
    while rig.buffer.idle(&mut rig.drive)? == Idle::Worked {}
    Ok(())
}

/// The drive loses a host sector at home, none of which has moved.
fn lose(rig: &mut Rig, lba: u64) {
    rig.drive.bytes.device.unreadable.push(Lba(POOL * ZONE + lba));
}

fn is_lost(rig: &mut Rig, lba: u64) -> bool {
    rig.take(Op::Read, lba, 1, 0) == Outcome::Failed(Failure::Medium)
}

#[test]
fn a_zone_is_cleaned_around_sectors_that_cannot_be_read() {
    let mut rig = rig(3);
    // The log has newer data of the last.
    for lba in [ZONE + 9, ZONE + 10, ZONE + 21] {
        lose(&mut rig, lba);
    }
    assert_eq!(clean(&mut rig), Ok(()));
    let (fill, counters) = (rig.buffer.fill(), *rig.buffer.counters());
    assert_eq!((fill.dirty_zones, fill.live.get(), counters.rewritten_zones), (0, 0, 3));
    for again in [false, true] {
        if again {
            rig.recover(None).expect("it is whole");
        }
        for lba in 0..3 * ZONE {
            let (home, at) = (lba / ZONE, lba % ZONE);
            let lost = home == 1 && [9, 10].contains(&at);
            assert_eq!(is_lost(&mut rig, lba), lost, "sector {lba}");
            let number = if (20..24).contains(&at) { home + 1 } else { 1 + at / WRITE };
            assert!(lost || rig.number(lba) == number, "sector {lba}");
        }
    }
    assert_eq!(rig.take(Op::Read, ZONE, 20, 0), Outcome::Failed(Failure::Medium));
    // What is written can be read again, and what is trimmed is zeros.
    assert_eq!(rig.take(Op::Write, ZONE + 9, 1, 7), Outcome::Done);
    assert_eq!(rig.take(Op::Trim, ZONE + 10, 1, 0), Outcome::Done);
    assert_eq!(rig.take(Op::Flush, 0, 0, 0), Outcome::Done);
    for cleaned in [false, true] {
        if cleaned {
            assert_eq!(clean(&mut rig), Ok(()));
            assert_eq!(rig.take(Op::Flush, 0, 0, 0), Outcome::Done);
        }
        assert_eq!([9, 10].map(|at| rig.number(ZONE + at)), [7, 0]);
        rig.recover(None).expect("it is whole");
        assert_eq!([9, 10].map(|at| rig.number(ZONE + at)), [7, 0]);
    }
}

/// Where the log has the first sector of the newer data of a home zone of [`rig`]: entries of a header and four sectors, in order.
fn in_log(home: u64) -> Lba {
    Lba(LOG * ZONE + home * (1 + WRITE) + 1)
}

#[test]
fn a_sector_of_the_log_that_cannot_be_read_costs_its_data_alone() {
    let mut rig = rig(3);
    let lost = |lba| [20, ZONE + 21, ZONE + 22].contains(&lba);
    for (home, at) in [(0, 0), (1, 1), (1, 2)] {
        rig.drive.bytes.device.unreadable.push(in_log(home) + Sectors(at));
    }
    let checkpoints = rig.buffer.counters().checkpoints;
    assert_eq!(clean(&mut rig), Ok(()));
    let (fill, counters) = (rig.buffer.fill(), *rig.buffer.counters());
    assert_eq!((fill.dirty_zones, fill.live.get(), counters.rewritten_zones), (0, 0, 3));
    assert!(counters.checkpoints > checkpoints, "a recovery does not read the log there");
    for again in [false, true] {
        if again {
            rig.recover(None).expect("nothing that it needs is lost");
        }
        for lba in 0..3 * ZONE {
            let (home, at) = (lba / ZONE, lba % ZONE);
            // Not what the zone had there before.
            assert_eq!(is_lost(&mut rig, lba), lost(lba), "sector {lba}");
            let number = if (20..24).contains(&at) { home + 1 } else { 1 + at / WRITE };
            assert!(lost(lba) || rig.number(lba) == number, "sector {lba}");
        }
    }
    assert_eq!(rig.take(Op::Write, 20, 1, 7), Outcome::Done);
    assert_eq!(clean(&mut rig), Ok(()));
    assert_eq!(rig.number(20), 7);
}

#[test]
fn a_gap_of_the_log_that_cannot_be_read_costs_nothing() {
    let mut rig = rig(3);
    // The header of the second entry.
    rig.drive.bytes.device.unreadable.push(Lba(in_log(1).get() - 1));
    assert_eq!(clean(&mut rig), Ok(()));
    assert_eq!((rig.buffer.fill().dirty_zones, rig.buffer.counters().rewritten_zones), (0, 3));
    for home in 0..3 {
        assert_eq!([20, 23, 24].map(|at| rig.number(home * ZONE + at)), [home + 1, home + 1, 7]);
    }
}

#[test]
fn a_read_that_fails_once_loses_nothing() {
    // More reads than cleaning takes.
    for read in 0..100 {
        let mut rig = rig(2);
        lose(&mut rig, 9);
        rig.drive.bytes.device.read_fails = Some(read);
        // What a failed read ends is done again.
        let _ = clean(&mut rig);
        assert_eq!(clean(&mut rig), Ok(()), "read {read}");
        assert_eq!(rig.buffer.counters().rewritten_zones, 2);
        rig.drive.bytes.device.read_fails = None;
        for lba in 0..2 * ZONE {
            assert_eq!(is_lost(&mut rig, lba), lba == 9, "sector {lba} after read {read}");
        }
    }
}

#[test]
fn a_zone_of_which_too_little_can_be_read_stays_and_the_others_are_cleaned() {
    let mut rig = rig(HOMES);
    // Together more runs than an eighth of a checkpoint has space for, 251.
    let odd = |lba: &u64| lba % 2 == 1 && !(20..24).contains(&(lba % ZONE));
    for lba in (0..HOMES * ZONE).filter(odd) {
        lose(&mut rig, lba);
    }
    assert_eq!(clean(&mut rig), Err(Failure::Medium));
    assert_eq!(rig.buffer.fill().dirty_zones, 1);
    assert_eq!(clean(&mut rig), Err(Failure::Medium), "as often as it is tried");
    for again in [false, true] {
        if again {
            rig.recover(None).expect("it is whole");
        }
        for lba in 0..HOMES * ZONE {
            assert_eq!(is_lost(&mut rig, lba), odd(&lba), "sector {lba}");
        }
        for home in 0..HOMES {
            assert_eq!((rig.number(home * ZONE + 20), rig.number(home * ZONE)), (home + 1, 1));
        }
    }
}

#[test]
fn a_zone_that_cannot_be_written_waits_and_the_others_are_cleaned() {
    let mut rig = rig(3);
    rig.drive.bytes.device.fails = Some(|change| matches!(change, Change::Write(_)));
    assert_eq!(clean(&mut rig), Err(Failure::Medium));
    assert_eq!((rig.buffer.fill().dirty_zones, rig.buffer.counters().rewritten_zones), (1, 2));
    assert_eq!(clean(&mut rig), Ok(()));
    assert_eq!(rig.buffer.fill().dirty_zones, 0);
    rig.recover(None).expect("it is whole");
    assert_eq!([0, 1, 2].map(|home| rig.number(home * ZONE + 20)), [1, 2, 3]);
}
