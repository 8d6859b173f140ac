//! What a buffer reads from its drive: once, and no more than it has to.

use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::hbuffer::policy::Path;
use skylight_layer::{Idle, Op, Outcome};

use super::faults::{LOG, Rig, ZONE};

/// Writes have so many sectors, and an entry of the log one more.
const WRITE: u64 = 4;
const ENTRY: u64 = WRITE + 1;

fn at(entry: u64, sectors: u64) -> LbaExtent {
    LbaExtent::new(Lba(LOG * ZONE + entry * ENTRY + 1), Sectors(sectors))
}

/// Three entries behind each other, of host sectors that are too.
fn rig() -> Rig {
    let mut rig = Rig::new(2, Path::Buffer);
    rig.write(&[0, WRITE, 2 * WRITE]);
    rig
}

#[test]
fn entries_behind_each_other_are_one_read() {
    let mut rig = rig();
    assert_eq!(rig.take(Op::Read, 1, 10, 0), Outcome::Done);
    let expected = LbaExtent::new(at(0, 0).start + Sectors(1), Sectors(12));
    assert_eq!(rig.drive.bytes.device.latest_read, expected);
    assert_eq!((0..12).map(|lba| rig.number(lba)).collect::<Vec<_>>(), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
}

#[test]
fn a_read_goes_on_where_the_last_one_ended() {
    let mut rig = rig();
    assert_eq!(rig.take(Op::Read, 0, WRITE, 0), Outcome::Done);
    assert_eq!(rig.drive.bytes.device.latest_read, at(0, WRITE));
    assert_eq!(rig.take(Op::Read, WRITE, WRITE, 0), Outcome::Done);
    assert_eq!(rig.drive.bytes.device.latest_read, LbaExtent::new(at(0, WRITE).end(), Sectors(ENTRY)));
    assert_eq!(rig.take(Op::Read, 0, WRITE, 0), Outcome::Done);
    assert_eq!(rig.drive.bytes.device.latest_read, at(0, WRITE), "it lies before");
}

#[test]
fn a_sector_that_is_only_read_along_fails_no_read() {
    let mut rig = rig();
    rig.drive.bytes.device.unreadable.push(Lba(at(1, 0).start.get() - 1));
    for (lba, len) in [(0, 12), (0, WRITE), (WRITE, WRITE)] {
        assert_eq!(rig.take(Op::Read, lba, len, 0), Outcome::Done, "{len} sectors from {lba} on");
    }
    assert_eq!((0..12).map(|lba| rig.number(lba)).collect::<Vec<_>>(), [1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3]);
    rig.drive.bytes.device.unreadable.push(at(2, 0).start);
    assert_ne!(rig.take(Op::Read, 0, 12, 0), Outcome::Done, "this one is the host's");
}

#[test]
fn streams_that_the_memory_does_not_hold_are_read_from_the_log_once() {
    // The memory holds all data of the first four, and that of the others lies between.
    let streams = [0, 4, 1, 5, 2, 3];
    let starts: Vec<u64> = (0..6).flat_map(|round| streams.map(|home| home * ZONE + round * WRITE)).collect();
    let mut rig = Rig::new(2, Path::Buffer);
    rig.write(&starts);
    let before = rig.drive.bytes.device.read_sectors;
    while rig.buffer.idle(&mut rig.drive).expect("the drive works") == Idle::Worked {}
    let read = rig.drive.bytes.device.read_sectors - before;
    assert!(read <= starts.len() as u64 * ENTRY, "{read} sectors");
    assert_eq!((rig.buffer.fill().live, rig.buffer.counters().rewritten_zones), (Sectors(0), 0));
    for again in [false, true] {
        if again {
            rig.recover(None).expect("it is whole");
        }
        for (number, &start) in (1..).zip(&starts) {
            assert_eq!(rig.number(start), number, "sector {start}, recovered: {again}");
        }
    }
}
