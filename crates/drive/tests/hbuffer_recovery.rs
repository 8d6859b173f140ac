//! What the recovery of a host buffer costs a drive: the reads that it makes, timed on the drive of the paper's model.
//!
//! A log of 100 zones (the paper's case study) is filled until it goes round; its recovery may take 2 s of the drive's time for a
//! GiB of log. The buffer's sectors are not kept but made again when they are read: headers, checkpoints, and zeros for data.

use std::collections::BTreeMap;
use std::rc::Rc;

use skylight_command::{Command, CommandId, Failure, Op, code};
use skylight_disk::{Lba, LbaExtent, Pba, SECTOR_BYTES, Sectors, splitmix64};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};
use skylight_layer::capabilities::zoned::Zoned;
use skylight_layer::hbuffer::HBuffer;
use skylight_layer::hbuffer::below::{Action, Data};
use skylight_layer::hbuffer::format::Header;
use skylight_layer::hbuffer::policy::{Path, Static};
use skylight_layer::hbuffer::recovery::{DriveReader, Found};
use skylight_layer::hbuffer::spec::HBufferSpec;
use skylight_layer::{Layer, Plan, Queue, ZoneLayout, ZoneModel, ZoneRecord, ZonedLayer, ZonedSpec};

/// Zones of the log.
const ZONES: u32 = 100;
/// Most time of the drive for a GiB of log.
const MOST_S_PER_GIB: f64 = 2.0;
/// A host splits a long read into commands of so many bytes, and has so many of them outstanding.
const READ_BYTES: u64 = 1 << 20;
const DEPTH: usize = 8;

/// The zones of `st8000as0022`.
fn zones() -> ZonedLayer {
    let mut layout =
        ZoneLayout::new(ZoneModel::HostAware, Sectors(15_628_053_168), Sectors((256 << 20) / SECTOR_BYTES));
    layout.conventional = 64;
    ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None })
}

fn spec() -> HBufferSpec {
    HBufferSpec {
        zones: ZONES,
        spare_zones: 2,
        entry_max: Sectors(2_048),
        chunk: Sectors(16_384),
        idle_after: None,
    }
}

/// A drive that can make its sectors again.
#[derive(Default)]
struct Made {
    headers: BTreeMap<Lba, Header>,
    checkpoints: BTreeMap<Lba, Rc<Vec<u8>>>,
    reads: Vec<LbaExtent>,
}

impl Made {
    fn execute(&mut self, buffer: &mut HBuffer) {
        for action in buffer.take_actions() {
            match action {
                Action::Write { at, data: Data::Entry(header) } => {
                    self.headers.insert(at, header);
                }
                Action::Write { at, data: Data::Bytes(bytes) } => {
                    self.checkpoints.insert(at, Rc::new(bytes));
                }
                Action::Reset { zone } => {
                    let extent = buffer.layout().extent_of(zone);
                    let gone: Vec<Lba> =
                        self.headers.range(extent.start..extent.end()).map(|(&at, _)| at).collect();
                    gone.iter().for_each(|at| {
                        self.headers.remove(at);
                    });
                }
                _ => {}
            }
        }
    }
}

impl DriveReader for Made {
    fn read(&mut self, extent: LbaExtent, bytes: &mut [u8]) -> Result<(), Failure> {
        self.reads.push(extent);
        bytes.fill(0);
        for (at, header) in self.headers.range(extent.start..extent.end()) {
            let data = vec![0; header.data().bytes() as usize];
            let from = (*at - extent.start).bytes() as usize;
            bytes[from..from + SECTOR_BYTES as usize].copy_from_slice(&header.encode(crc32c::crc32c(&data)));
        }
        if let Some((&at, checkpoint)) = self.checkpoints.range(..=extent.start).next_back() {
            let from = (extent.start - at).bytes() as usize;
            let rest = checkpoint.get(from..).unwrap_or(&[]);
            let len = rest.len().min(bytes.len());
            bytes[..len].copy_from_slice(&rest[..len]);
        }
        Ok(())
    }
}

/// Fills the log with random writes of so many sectors, over extents enough that it takes little from itself, and then until as
/// much was written since the last checkpoint as between the two before; what a recovery then finds and reads, and the zones.
fn recovery(write: u64) -> (Found, Vec<LbaExtent>, Vec<ZoneRecord>) {
    let mut buffer =
        HBuffer::new(spec(), zones(), Box::new(Static(Path::Buffer))).expect("the drive is large");
    buffer.keep_actions();
    let (mut made, mut plan) = (Made::default(), Plan::default());
    let log = u64::from(ZONES - 2) * buffer.layout().zone.get();
    let conventional = 62 * buffer.layout().zone.get();
    let mut number = 0;
    let (mut written, mut checkpoints, mut longest) = (0, 0, Sectors(0));
    while written < log || buffer.since_checkpoint() < longest {
        let start = conventional + splitmix64(number, 1) % (100_000_000 / write) * write * 8;
        let extent = LbaExtent::new(Lba(start), Sectors(write));
        number += 1;
        plan.clear();
        let since = buffer.since_checkpoint();
        buffer.take(Queue { waiting: &[Command::new(CommandId(1), Op::Write, extent)], next: 0 }, &mut plan);
        if buffer.counters().checkpoints > checkpoints {
            (checkpoints, longest) = (buffer.counters().checkpoints, since);
        }
        written += write + 1;
        made.execute(&mut buffer);
    }
    let records: Vec<ZoneRecord> =
        (64..buffer.layout().zones).map(|zone| buffer.drive().record(zone)).collect();
    let mut drive = zones();
    assert!(records.iter().all(|&record| drive.restore_zone(record)));
    let policy = Box::new(Static(Path::Buffer));
    let (found_buffer, found) =
        HBuffer::recover(spec(), drive, policy, &mut made).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found_buffer.fill(), buffer.fill(), "what is recovered is what there was");
    (found, made.reads, records)
}

/// How long the drive takes for these reads, s, with its zones written as they were.
fn drive_time_s(reads: &[LbaExtent], records: &[ZoneRecord]) -> f64 {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../python/skylight/profiles/st8000as0022.toml");
    let text = std::fs::read_to_string(path).expect("the profile is there");
    let profile = Profile::from_toml(&text, path).unwrap_or_else(|error| panic!("{error}"));
    let mut drive = Drive::new(&profile, 1).unwrap_or_else(|error| panic!("{error}"));
    let zoned = drive.layer_mut().zoned().expect("it has zones");
    assert!(records.iter().all(|&record| zoned.restore_zone(record)));
    let (mut offset, mut size) = (Vec::new(), Vec::new());
    for read in reads {
        let mut at = read.start;
        while at < read.end() {
            let len = (read.end() - at).min(Sectors(READ_BYTES / SECTOR_BYTES));
            offset.push(Sectors(at.get()).bytes());
            size.push(len.bytes() as u32);
            at += len;
        }
    }
    let op = vec![code::READ; offset.len()];
    let (mut submit, mut complete) = (vec![0; op.len()], vec![0; op.len()]);
    let batch = Batch { op: &op, offset: &offset, size: &size };
    drive.run(&batch, DEPTH, &mut submit, &mut complete).unwrap_or_else(|error| panic!("{error}"));
    (complete[op.len() - 1] - submit[0]) as f64 / 1e9
}

fn check(write: u64) {
    let (found, reads, records) = recovery(write);
    let seconds = drive_time_s(&reads, &records);
    let gib = f64::from(ZONES) * 0.25;
    println!(
        "writes of {} KiB: checkpoint {} MiB, {} MiB of log, {} entries: {seconds:.2} s, {:.3} s for a GiB of log",
        write / 2,
        found.checkpoint.bytes() >> 20,
        found.scanned.bytes() >> 20,
        found.entries,
        seconds / gib,
    );
    assert!(seconds < MOST_S_PER_GIB * gib, "{seconds} s");
}

#[test]
fn a_recovery_takes_less_than_two_seconds_for_a_gib_of_log() {
    check(128);
    check(1_024);
}

#[test]
#[ignore = "has millions of entries in memory"]
fn a_recovery_of_small_writes_takes_less_than_two_seconds_for_a_gib_of_log() {
    check(8);
}
