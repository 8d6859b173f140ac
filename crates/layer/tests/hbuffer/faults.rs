//! What a recovery makes of a drive that is not as a buffer left it, and a buffer of a drive that fails, one fault at a time.

use std::cell::OnceCell;

use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::capabilities::zoned::ZoneModel;
use skylight_layer::hbuffer::HBuffer;
use skylight_layer::hbuffer::device::ZonedDevice as _;
use skylight_layer::hbuffer::layout::{Sizes, SpecError};
use skylight_layer::hbuffer::policy::{Path, Static};
use skylight_layer::hbuffer::recovery::RecoveryError;
use skylight_layer::{Command, CommandId, Failure, Op, Outcome, Queue};

use super::common::host::Stream;
use super::media::{Change, Media, Sector};
use super::session::Faulty;
use super::shape::Shape;

/// The first zone of the log: behind two places of checkpoints.
pub const LOG: u64 = 2;
pub const ZONE: u64 = 64;

fn shape(conventional: u32) -> Shape {
    Shape {
        model: ZoneModel::HostManaged,
        at_once: true,
        zones: 16,
        zone: ZONE,
        capacity: ZONE,
        last: ZONE,
        conventional,
        log: 4,
        spares: 1,
        entry: 8,
        chunk: 16,
        memory: 100,
    }
}

/// A drive with a buffer that has one path for all writes.
pub struct Rig {
    pub drive: Faulty,
    pub buffer: HBuffer,
}

impl Rig {
    pub fn new(conventional: u32, path: Path) -> Self {
        let shape = shape(conventional);
        let mut drive = Faulty::new(Media::new(shape.layout(), true, true), None);
        let buffer = HBuffer::new(shape.spec(1), shape.layout(), &mut drive, Box::new(Static(path)))
            .expect("the drive is empty");
        Self { drive, buffer }
    }

    pub fn take(&mut self, op: Op, start: u64, len: u64, number: u64) -> Outcome {
        let command = Command::new(CommandId(1), op, LbaExtent::new(Lba(start), Sectors(len)));
        let host = &mut self.drive.bytes.host;
        host.writes.insert(command.id, (command.extent, number, OnceCell::new()));
        host.read = vec![0xff; command.extent.len.bytes() as usize];
        self.buffer.take(Queue { waiting: &[command], next: 0 }, &mut self.drive);
        std::mem::take(&mut self.drive.bytes.host.answers)[0].1
    }

    /// Writes of four sectors with the numbers of their places in the list, and a flush.
    pub fn write(&mut self, starts: &[u64]) {
        for (number, &start) in (1..).zip(starts) {
            assert_eq!(self.take(Op::Write, start, 4, number), Outcome::Done);
        }
        assert_eq!(self.take(Op::Flush, 0, 0, 0), Outcome::Done);
    }

    /// The number of the write that a sector is of, 0 for zeros.
    pub fn number(&mut self, lba: u64) -> u64 {
        assert_eq!(self.take(Op::Read, lba, 1, 0), Outcome::Done);
        match Sector::of(&self.drive.bytes.host.read) {
            Sector::Stamp(stamp) => stamp >> 24,
            Sector::Bytes(_) => panic!("sector {lba} is not the host's"),
        }
    }

    pub fn recover(&mut self, sizes: Option<Sizes>) -> Result<(), RecoveryError> {
        let tuning = shape(0).spec(1).1;
        let policy = Box::new(Static(Path::Buffer));
        self.buffer = HBuffer::recover(sizes, tuning, &mut self.drive.bytes.device, policy)?.0;
        Ok(())
    }
}

#[test]
fn a_new_buffer_has_nothing_of_an_earlier_one() {
    for conventional in [1, 2, 3] {
        for commands in 0..12 {
            let mut rig = Rig::new(conventional, Path::Buffer);
            rig.write(&[70, 80, 70, 90]);
            let shape = shape(conventional);
            for zone in shape.conventional..16 {
                rig.drive.bytes.device.reset(zone).expect("it can be emptied");
            }
            rig.drive.bytes.device.flush().expect("the drive works");
            rig.drive.bytes.device.left = (commands > 0).then_some(commands);
            let policy = Box::new(Static(Path::Buffer));
            let made = HBuffer::new(shape.spec(2), shape.layout(), &mut rig.drive, policy);
            // Two places, a flush, and a checkpoint between flushes.
            assert_eq!(made.is_ok(), commands == 0 || commands >= 6, "cut after {commands}");
            rig.drive.bytes.device.cut(&mut Stream(commands));
            match rig.recover(None) {
                Ok(()) => assert_eq!(rig.buffer.fill().live, Sectors(0), "cut after {commands}"),
                // The earlier one's first place is still whole after the first command.
                Err(RecoveryError::NoCheckpoint) => assert!(made.is_err(), "cut after {commands}"),
                Err(error) => panic!("cut after {commands}: {error}"),
            }
        }
    }
}

#[test]
fn an_entry_that_a_medium_changed_is_an_error_where_later_ones_show_it() {
    // Thirteen entries of five sectors, of which twelve fit in the first zone of the log.
    let starts: Vec<u64> = (0..13).map(|index| index * 20).collect();
    for (entry, lost) in [(0, true), (5, true), (11, true), (12, false)] {
        for sector in [0, 2] {
            let mut rig = Rig::new(2, Path::Buffer);
            rig.write(&starts);
            let place = if entry < 12 { LOG * ZONE + entry * 5 } else { (LOG + 1) * ZONE };
            rig.drive.bytes.device.spoil(Lba(place + sector));
            let recovered = rig.recover(None);
            if lost {
                assert_eq!(recovered, Err(RecoveryError::Changed(Lba(place))), "entry {entry}");
            } else {
                // The last one cannot be told from one that a cut tore.
                assert_eq!(recovered, Ok(()));
                assert_eq!((rig.number(starts[11]), rig.number(starts[12])), (12, 0));
            }
        }
    }
}

#[test]
fn a_checkpoint_that_cannot_be_read_is_done_without_where_the_log_has_all() {
    for place in [0, 1] {
        for spoilt in [true, false] {
            let mut rig = Rig::new(2, Path::Buffer);
            rig.write(&[70, 80, 70]);
            // A second checkpoint, by a recovery.
            rig.recover(None).expect("it is whole");
            rig.write(&[100, 110]);
            let device = &mut rig.drive.bytes.device;
            match spoilt {
                true => device.spoil(Lba(place * ZONE)),
                false => device.unreadable.push(Lba(place * ZONE)),
            }
            rig.recover(None).expect("the other is whole");
            assert_eq!([70, 80, 100, 110].map(|lba| rig.number(lba)), [3, 2, 1, 2]);
        }
    }
}

#[test]
fn without_the_checkpoint_behind_what_a_failed_write_left_the_log_is_not_believed() {
    for (op, by_cut) in [(Op::Write, false), (Op::Trim, false), (Op::Write, true)] {
        let mut rig = Rig::new(2, Path::Buffer);
        rig.write(&[70, 80]);
        // What is left of the entry is half of it, and of the record all.
        rig.drive.bytes.device.fails = Some(|change| matches!(change, Change::Write(_)));
        assert_eq!(rig.take(op, 70, 4, 9), Outcome::Failed(Failure::Medium));
        if by_cut {
            rig.recover(None).expect("it is whole");
        }
        let checkpoints = if by_cut { 0 } else { rig.buffer.counters().checkpoints };
        rig.write(&[100]);
        assert_eq!(rig.buffer.counters().checkpoints, checkpoints + 1);
        // The newest is the second of all.
        rig.drive.bytes.device.unreadable.push(Lba(0));
        assert!(matches!(rig.recover(None), Err(RecoveryError::Changed(_))), "{op:?}, by a cut: {by_cut}");
    }
}

#[test]
fn a_buffer_without_a_whole_checkpoint_is_damaged_if_it_has_data_and_none_otherwise() {
    for (conventional, path) in [(0, Path::Buffer), (2, Path::Buffer), (2, Path::Direct)] {
        for has_data in [false, true] {
            let mut rig = Rig::new(conventional, path);
            rig.recover(None).expect("it is whole");
            if has_data {
                rig.write(&[0]);
            }
            // The first checkpoint is in the second place; a second one comes before the first write.
            for place in if has_data { vec![0, 1] } else { vec![1] } {
                rig.drive.bytes.device.spoil(Lba(place * ZONE + 1));
            }
            let found = rig.recover(None);
            match has_data {
                false => assert_eq!(found, Err(RecoveryError::NoCheckpoint)),
                true => assert!(matches!(found, Err(RecoveryError::NoneWhole(_))), "{found:?}"),
            }
        }
    }
}

#[test]
fn a_flush_that_failed_is_told_to_the_host_once_whoever_asked_for_it() {
    for asks in [Op::Write, Op::Flush] {
        let mut rig = Rig::new(2, Path::Buffer);
        rig.write(&[70]);
        let device = &mut rig.drive.bytes.device;
        device.fails = Some(|change| change == Change::Flush);
        // Entries until one needs the next zone, before which the buffer flushes.
        let mut writes = 0;
        while asks == Op::Write && rig.drive.bytes.device.fails.is_some() {
            rig.take(Op::Write, 20 * (writes % 10), 4, 2);
            writes += 1;
        }
        if asks == Op::Flush {
            assert_eq!(rig.take(Op::Flush, 0, 0, 0), Outcome::Failed(Failure::Medium));
        } else {
            let command = Command::new(CommandId(1), Op::Write, LbaExtent::new(Lba(0), Sectors(4)));
            rig.drive.bytes.host.writes.insert(command.id, (command.extent, 3, OnceCell::new()));
            let waiting = [command.with_fua(true)];
            rig.buffer.take(Queue { waiting: &waiting, next: 0 }, &mut rig.drive);
            let answers = std::mem::take(&mut rig.drive.bytes.host.answers);
            assert_eq!(answers[0].1, Outcome::Failed(Failure::Medium), "what is durable may rest on it");
            assert_eq!(rig.take(Op::Flush, 0, 0, 0), Outcome::Failed(Failure::Medium));
        }
        assert_eq!(rig.take(Op::Flush, 0, 0, 0), Outcome::Done);
        let checkpoints = rig.buffer.counters().checkpoints;
        rig.write(&[80]);
        let more = rig.buffer.counters().checkpoints - checkpoints;
        assert_eq!(more, u64::from(asks == Op::Flush), "the log goes on from a checkpoint");
    }
}

#[test]
fn a_log_without_one_of_its_zones_is_not_believed() {
    let mut refused = 0;
    for (writes, zone) in (100..130).flat_map(|writes| (0..4).map(move |zone| (writes, zone))) {
        for without_newest in [false, true] {
            let mut rig = Rig::new(2, Path::Buffer);
            let starts: Vec<u64> = (0..writes).map(|index| index * 28 % 300).collect();
            rig.write(&starts);
            let newest = rig.buffer.counters().checkpoints % 2;
            if without_newest {
                rig.drive.bytes.device.unreadable.push(Lba(newest * ZONE));
            }
            // The zone that is being written cannot be told from one that a cut took.
            let head = Sectors(ZONE) - rig.buffer.fill().space_in_zone;
            if rig.buffer.written_of(LOG as u32 + zone) == head {
                continue;
            }
            rig.drive.bytes.device.reset(LOG as u32 + zone).expect("it can be emptied");
            match rig.recover(None) {
                Ok(()) => {
                    for (number, start) in (1..).zip(starts).skip(writes as usize - 70) {
                        assert_eq!(rig.number(start), number, "{writes} writes, without zone {zone}");
                    }
                }
                Err(RecoveryError::Changed(_) | RecoveryError::Damaged(_)) => refused += 1,
                Err(error) => panic!("{writes} writes, without zone {zone}: {error}"),
            }
        }
    }
    assert!(refused > 100, "{refused} are refused");
    let mut rig = Rig::new(2, Path::Buffer);
    rig.drive.bytes.device.unreadable = vec![Lba(0), Lba(ZONE)];
    assert_eq!(rig.recover(None), Err(RecoveryError::Read(Lba(ZONE), Failure::Medium)));
}

#[test]
fn a_sector_of_the_log_that_cannot_be_read_is_named() {
    for sector in [0, 3, 7, 13] {
        let mut rig = Rig::new(2, Path::Buffer);
        rig.write(&[70, 80, 70]);
        let place = Lba(LOG * ZONE + sector);
        rig.drive.bytes.device.unreadable.push(place);
        assert_eq!(rig.recover(None), Err(RecoveryError::Read(place, Failure::Medium)));
    }
}

#[test]
fn sizes_are_those_of_the_drive_and_others_are_refused() {
    let mut rig = Rig::new(2, Path::Buffer);
    rig.write(&[70]);
    let found = rig.buffer.sizes();
    for asked in [Sizes { zones: 5, ..found }, Sizes { spare_zones: 2, ..found }] {
        let error = rig.recover(Some(asked));
        assert_eq!(error, Err(SpecError::Sizes { found, asked }.into()));
        println!("{}", error.expect_err("it is one"));
    }
    for sizes in [None, Some(found)] {
        rig.recover(sizes).expect("they are the same");
        assert_eq!((rig.buffer.sizes(), rig.number(70)), (found, 1));
    }
}

#[test]
fn a_write_that_fails_fails_its_command_and_the_next_one_goes_on_behind_it() {
    for path in [Path::Direct, Path::Buffer] {
        let mut rig = Rig::new(2, path);
        rig.write(&[0, 4]);
        rig.drive.bytes.device.fails = Some(|change| matches!(change, Change::Write(_)));
        assert_eq!(rig.take(Op::Write, 8, 4, 9), Outcome::Failed(Failure::Medium));
        rig.write(&[20, 0]);
        for (zone, written) in rig.drive.bytes.device.in_order() {
            assert_eq!(rig.buffer.written_of(zone), written, "zone {zone}");
        }
        rig.recover(None).expect("it is whole");
        assert_eq!([0, 4, 20].map(|lba| rig.number(lba)), [2, 2, 1]);
        assert!([0, 9].contains(&rig.number(8)), "half of it may be there");
    }
}
