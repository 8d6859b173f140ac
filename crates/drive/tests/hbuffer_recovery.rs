//! What the recovery of a host buffer costs a drive: the reads that it makes, timed on the drive of the paper's model.
//!
//! A log of 100 zones (the paper's case study) is filled until it goes round; its recovery may take 2 s of the drive's time for a
//! GiB of log. The buffer's sectors are not kept but made again when they are read: headers, checkpoints, and zeros for data.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use skylight_command::{Command, CommandId, Failure, Op, Outcome, code};
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors, Time, splitmix64};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};
use skylight_layer::capabilities::zoned::{ZoneCondition, ZoneDescriptor};
use skylight_layer::hbuffer::HBuffer;
use skylight_layer::hbuffer::device::{Action, Data, Executor, ZonedDevice};
use skylight_layer::hbuffer::format::{Header, Identity};
use skylight_layer::hbuffer::policy::{Path, Static};
use skylight_layer::hbuffer::recovery::Found;
use skylight_layer::hbuffer::spec::{Sizes, Tuning};
use skylight_layer::{Queue, ZoneLayout, ZoneModel, ZoneRecord};

/// Zones of the log.
const ZONES: u32 = 100;
/// Most time of the drive for a GiB of log.
const MOST_S_PER_GIB: f64 = 2.0;
/// A host splits a long read into commands of so many bytes, and has so many of them outstanding.
const READ_BYTES: u64 = 1 << 20;
const DEPTH: usize = 8;

/// The zones of `st8000as0022`.
fn layout() -> ZoneLayout {
    let mut layout =
        ZoneLayout::new(ZoneModel::HostAware, Sectors(15_628_053_168), Sectors((256 << 20) / SECTOR_BYTES));
    layout.conventional = 64;
    layout
}

/// A drive that can make its sectors again.
struct Made {
    layout: ZoneLayout,
    written: Vec<Sectors>,
    headers: BTreeMap<Lba, Header>,
    checkpoints: BTreeMap<Lba, Rc<Vec<u8>>>,
    reads: Vec<LbaExtent>,
}

impl Made {
    fn new() -> Self {
        let layout = layout();
        Self {
            layout,
            written: vec![Sectors(0); layout.zones as usize],
            headers: BTreeMap::new(),
            checkpoints: BTreeMap::new(),
            reads: Vec::new(),
        }
    }

    fn records(&self) -> Vec<ZoneRecord> {
        let zones = self.layout.conventional..self.layout.zones;
        zones
            .map(|zone| ZoneRecord { written: self.written[zone as usize], ..ZoneRecord::empty(zone) })
            .collect()
    }

    fn visit(&self, zones: Range<u32>, visit: &mut dyn FnMut(u32, ZoneDescriptor)) {
        for zone in zones {
            let LbaExtent { start, len } = self.layout.extent_of(zone);
            let written = self.written[zone as usize];
            let sequential = !self.layout.is_conventional(zone);
            let condition = match written {
                _ if !sequential => ZoneCondition::NotWritePointer,
                Sectors(0) => ZoneCondition::Empty,
                _ => ZoneCondition::Closed,
            };
            visit(
                zone,
                ZoneDescriptor {
                    start,
                    len,
                    capacity: len,
                    write_pointer: sequential.then(|| start + written),
                    kind: self.layout.kind_of(zone),
                    condition,
                    reset_recommended: false,
                    non_sequential: false,
                },
            );
        }
    }
}

impl Executor for Made {
    fn execute(&mut self, action: &Action) -> Result<(), Failure> {
        match action {
            Action::Write { extent, data } => {
                let (zone, offset) = self.layout.place_of(extent.start);
                self.written[zone as usize] = offset + extent.len;
                match data {
                    Data::Entry(header, _) => {
                        self.headers.insert(extent.start, header.clone());
                    }
                    Data::Bytes(bytes) => {
                        self.checkpoints.insert(extent.start, Rc::new(bytes.clone()));
                    }
                    _ => {}
                }
            }
            Action::Reset { zone } => {
                let extent = self.layout.extent_of(*zone);
                self.written[*zone as usize] = Sectors(0);
                let gone: Vec<Lba> =
                    self.headers.range(extent.start..extent.end()).map(|(&at, _)| at).collect();
                gone.iter().for_each(|at| {
                    self.headers.remove(at);
                });
            }
            _ => {}
        }
        Ok(())
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        self.visit(zones, visit);
        Ok(())
    }

    fn complete(&mut self, _: CommandId, outcome: Outcome) {
        assert_eq!(outcome, Outcome::Done);
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

impl ZonedDevice for Made {
    fn layout(&self) -> ZoneLayout {
        self.layout
    }

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

    fn write(&mut self, _: Lba, _: &[u8]) -> Result<(), Failure> {
        Err(Failure::NotPermitted)
    }

    fn reset(&mut self, _: u32) -> Result<(), Failure> {
        Err(Failure::NotPermitted)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        Err(Failure::NotPermitted)
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        self.visit(zones, visit);
        Ok(())
    }
}

/// Fills the log with random writes of so many sectors, over extents enough that it takes little from itself, and then until as
/// much was written since the last checkpoint as between the two before; what a recovery then finds and reads, and the zones.
fn recovery(write: u64) -> (Found, Vec<LbaExtent>, Vec<ZoneRecord>) {
    let mut made = Made::new();
    let tuning = Tuning { idle_after: None, ..Tuning::default() };
    let spec = (Sizes { zones: ZONES, spare_zones: 2 }, tuning, Identity([7; 16]));
    let policy = || Box::new(Static(Path::Buffer));
    let mut buffer = HBuffer::new(spec, layout(), &mut made, policy()).expect("the drive is large");
    let log = u64::from(ZONES - 2) * buffer.layout().zone.get();
    let conventional = 62 * buffer.layout().zone.get();
    let mut number = 0;
    let (mut written, mut checkpoints, mut longest) = (0, 1, Sectors(0));
    while written < log || buffer.since_checkpoint() < longest {
        let start = conventional + splitmix64(number, 1) % (100_000_000 / write) * write * 8;
        let extent = LbaExtent::new(Lba(start), Sectors(write));
        number += 1;
        let since = buffer.since_checkpoint();
        let command = Command::new(CommandId(1), Op::Write, extent);
        buffer.take(Queue { waiting: &[command], next: 0 }, &mut made);
        if buffer.counters().checkpoints > checkpoints {
            (checkpoints, longest) = (buffer.counters().checkpoints, since);
        }
        written += write + 1;
    }
    let (found_buffer, found) =
        HBuffer::recover(None, tuning, &mut made, policy()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(found_buffer.fill(), buffer.fill(), "what is recovered is what there was");
    let records = made.records();
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
