//! A drive with zones that keeps what a host buffer writes, and loses power.
//!
//! Headers and checkpoints are kept. Of data is kept which host sectors of which write a place has; its bytes are zeros.
//! What was not flushed is in doubt: a cut leaves of each zone the first of its changes since, and the next one in part.
//!
//! Invariants: no two runs of data overlap; a zone's runs and structures lie before its write pointer.

use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

use skylight_command::{CommandId, Failure, Outcome};
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors, Time};
use skylight_layer::capabilities::zoned::{ZoneCondition, ZoneDescriptor};
use skylight_layer::hbuffer::device::{Action, Data, Executor, ZonedDevice};
use skylight_layer::hbuffer::format::{HEADER, Header, Kind};
use skylight_layer::{ZoneLayout, ZoneRecord};

/// Host sectors from one on, as the write with a number left them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Sectors.
    pub len: Sectors,
    /// The first host sector.
    pub host: Lba,
    /// The write.
    pub write: u64,
}

impl Run {
    /// A part of it, from some sectors on.
    fn part(&self, from: Sectors, len: Sectors) -> Self {
        Self { len, host: self.host + from, write: self.write }
    }
}

/// What a buffer writes for itself.
#[derive(Clone)]
enum Structure {
    /// Of an entry, whose data are zeros.
    Header(Rc<Header>),
    /// Of a checkpoint, or what a cut left of one.
    Bytes(Rc<[u8]>),
}

impl Structure {
    fn bytes(&self) -> Rc<[u8]> {
        match self {
            Self::Header(header) => {
                let data = vec![0; header.data().bytes() as usize];
                header.encode(crc32c::crc32c(&data)).into()
            }
            Self::Bytes(bytes) => Rc::clone(bytes),
        }
    }

    /// What a cut leaves of the sectors of a write, over what was there.
    fn torn(&self, len: Sectors, old: Option<&Self>) -> Self {
        let Self::Bytes(new) = self else { return self.clone() };
        let len = new.len().min(len.bytes() as usize);
        let old = old.map(Self::bytes);
        let rest = old.as_ref().and_then(|old| old.get(len..)).unwrap_or(&[]);
        Self::Bytes([&new[..len], rest].concat().into())
    }
}

/// A command that changes a zone.
#[derive(Clone)]
enum Change {
    Reset,
    Write { extent: LbaExtent, structure: Option<Structure>, runs: Vec<(Lba, Run)> },
}

/// What the sectors of a drive have.
#[derive(Clone)]
struct State {
    layout: ZoneLayout,
    written: Vec<Sectors>,
    structures: BTreeMap<Lba, Structure>,
    runs: BTreeMap<Lba, Run>,
}

/// Removes what a map has in an extent.
fn remove<T>(map: &mut BTreeMap<Lba, T>, extent: LbaExtent) {
    let mut behind = map.split_off(&extent.start);
    map.append(&mut behind.split_off(&extent.end()));
}

impl State {
    fn apply(&mut self, zone: u32, change: Change) {
        match change {
            Change::Reset => {
                let extent = self.layout.extent_of(zone);
                self.written[zone as usize] = Sectors(0);
                remove(&mut self.structures, extent);
                remove(&mut self.runs, extent);
            }
            Change::Write { extent, structure, runs } => {
                let written = &mut self.written[zone as usize];
                *written = (*written).max(extent.end() - self.layout.start_of(zone));
                self.structures.extend(structure.map(|structure| (extent.start, structure)));
                self.runs.extend(runs);
            }
        }
    }

    /// The first sectors of a write; where a structure is written over another, the rest of that stays.
    fn tear(&mut self, zone: u32, change: Change, sectors: impl FnOnce(Sectors) -> Sectors) {
        let Change::Write { extent, structure, runs } = change else { return };
        let extent = LbaExtent::new(extent.start, sectors(extent.len));
        if extent.is_empty() {
            return;
        }
        let old = self.structures.get(&extent.start);
        let structure = structure.map(|new| new.torn(extent.len, old));
        let cut = |(at, run): (Lba, Run)| {
            (at < extent.end()).then(|| (at, run.part(Sectors(0), run.len.min(extent.end() - at))))
        };
        self.apply(
            zone,
            Change::Write { extent, structure, runs: runs.into_iter().filter_map(cut).collect() },
        );
    }

    /// The runs in an extent, with the places where they begin.
    fn runs_in(&self, extent: LbaExtent) -> impl Iterator<Item = (Lba, Run)> + '_ {
        let before = self.runs.range(..extent.start).next_back();
        before.into_iter().chain(self.runs.range(extent.start..extent.end())).filter_map(move |(&at, run)| {
            let start = at.max(extent.start);
            let end = (at + run.len).min(extent.end());
            (start < end).then(|| (start, run.part(start - at, end - start)))
        })
    }
}

/// See the module page.
pub struct Kept {
    live: State,
    /// As of the last flush.
    durable: State,
    /// Since then, by zone.
    doubts: Vec<(u32, Change)>,
    /// Commands until the power goes; `None` if it stays.
    pub left: Option<u64>,
    /// The number of the host's write.
    pub write: u64,
    /// What was read.
    pub reads: Vec<LbaExtent>,
    /// The answer to the host's last command.
    pub failed: Option<Failure>,
    /// Flushes make nothing durable: a bug, to see that it is noticed.
    #[cfg(test)]
    pub forgetful: bool,
}

impl Kept {
    /// An empty drive.
    pub fn new(layout: ZoneLayout) -> Self {
        let written = vec![Sectors(0); layout.zones as usize];
        let live = State { layout, written, structures: BTreeMap::new(), runs: BTreeMap::new() };
        Self {
            durable: live.clone(),
            live,
            doubts: Vec::new(),
            left: None,
            write: 0,
            reads: Vec::new(),
            failed: None,
            #[cfg(test)]
            forgetful: false,
        }
    }

    /// Whether the power is gone.
    pub fn is_off(&self) -> bool {
        self.left == Some(0)
    }

    /// The power is gone, and back; `draw` gives a number below another.
    pub fn cut(&mut self, mut draw: impl FnMut(u64) -> u64) {
        self.left = None;
        let mut by_zone: BTreeMap<u32, Vec<Change>> = BTreeMap::new();
        for (zone, change) in self.doubts.drain(..) {
            by_zone.entry(zone).or_default().push(change);
        }
        for (zone, changes) in by_zone {
            let whole = draw(changes.len() as u64 + 1) as usize;
            for (index, change) in changes.into_iter().enumerate().take(whole + 1) {
                match index < whole {
                    true => self.durable.apply(zone, change),
                    false => self.durable.tear(zone, change, |len| Sectors(draw(len.get()))),
                }
            }
        }
        self.live = self.durable.clone();
    }

    /// What a place has.
    pub fn runs_in(&self, place: LbaExtent) -> impl Iterator<Item = (Lba, Run)> + '_ {
        self.live.runs_in(place)
    }

    /// The zones with a write pointer.
    pub fn records(&self) -> Vec<ZoneRecord> {
        let layout = &self.live.layout;
        let written = |zone| self.live.written[zone as usize];
        let zones = layout.conventional..layout.zones;
        zones.map(|zone| ZoneRecord { written: written(zone), ..ZoneRecord::empty(zone) }).collect()
    }

    fn command(&mut self) -> Result<(), Failure> {
        if self.is_off() {
            return Err(Failure::Medium);
        }
        self.left = self.left.map(|left| left - 1);
        Ok(())
    }

    fn change(&mut self, zone: u32, change: Change) {
        self.live.apply(zone, change.clone());
        self.doubts.push((zone, change));
    }

    fn make_durable(&mut self) {
        #[cfg(test)]
        if self.forgetful {
            return;
        }
        for (zone, change) in self.doubts.drain(..) {
            self.durable.apply(zone, change);
        }
    }

    /// What a write leaves.
    fn written(&self, extent: LbaExtent, data: &Data) -> Result<Change, Failure> {
        let (structure, runs) = match data {
            Data::Bytes(bytes) => (Some(Structure::Bytes(bytes.as_slice().into())), Vec::new()),
            Data::Entry(header, _) => {
                (Some(Structure::Header(Rc::new(header.clone()))), self.entry_runs(extent, header))
            }
            Data::Merged { native, pieces } => (None, self.merged_runs(extent.start, *native, pieces)),
            // The policy sends all to the log.
            Data::Host(_) => return Err(Failure::Unsupported),
        };
        Ok(Change::Write { extent, structure, runs })
    }

    fn entry_runs(&self, extent: LbaExtent, header: &Header) -> Vec<(Lba, Run)> {
        let Kind::Data(extents) = &header.kind else { return Vec::new() };
        let mut at = extent.start + HEADER;
        let mut runs = Vec::with_capacity(extents.len());
        for extent in extents {
            runs.push((at, Run { len: extent.len, host: extent.start, write: self.write }));
            at += extent.len;
        }
        runs
    }

    /// Runs of a home zone with pieces over them, which are in order.
    fn merged_runs(&self, to: Lba, native: LbaExtent, pieces: &[(Sectors, LbaExtent)]) -> Vec<(Lba, Run)> {
        let mut runs = Vec::new();
        let mut copy = |from: LbaExtent, to: Lba| {
            runs.extend(self.live.runs_in(from).map(|(at, run)| (to + (at - from.start), run)));
        };
        let mut done = Sectors(0);
        for &(offset, piece) in pieces {
            let end = offset.min(native.len).max(done);
            copy(LbaExtent::new(native.start + done, end - done), to + done);
            copy(piece, to + offset);
            done = (offset + piece.len).min(native.len).max(end);
        }
        copy(LbaExtent::new(native.start + done, native.len - done), to + done);
        runs
    }

    fn visit(&self, zones: Range<u32>, visit: &mut dyn FnMut(u32, ZoneDescriptor)) {
        let layout = &self.live.layout;
        for zone in zones {
            let LbaExtent { start, len } = layout.extent_of(zone);
            let written = self.live.written[zone as usize];
            let is_sequential = !layout.is_conventional(zone);
            let condition = match written {
                _ if !is_sequential => ZoneCondition::NotWritePointer,
                Sectors(0) => ZoneCondition::Empty,
                _ => ZoneCondition::Closed,
            };
            let write_pointer = is_sequential.then(|| start + written);
            let kind = layout.kind_of(zone);
            let (reset_recommended, non_sequential, capacity) = (false, false, layout.capacity_of(zone));
            visit(
                zone,
                ZoneDescriptor {
                    start,
                    len,
                    capacity,
                    write_pointer,
                    kind,
                    condition,
                    reset_recommended,
                    non_sequential,
                },
            );
        }
    }
}

impl Executor for Kept {
    fn execute(&mut self, action: &Action) -> Result<(), Failure> {
        self.command()?;
        match action {
            Action::Write { extent, data } => {
                let change = self.written(*extent, data)?;
                self.change(self.live.layout.zone_of(extent.start), change);
            }
            Action::Reset { zone } => self.change(*zone, Change::Reset),
            Action::Flush => self.make_durable(),
            Action::Read { .. } | Action::Gather { .. } | Action::Zeros { .. } | Action::Forget => {}
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
        self.failed = outcome.status().err();
    }

    fn now(&self) -> Option<Time> {
        None
    }
}

/// For a recovery, which only reads.
impl ZonedDevice for Kept {
    fn layout(&self) -> ZoneLayout {
        self.live.layout
    }

    fn read(&mut self, extent: LbaExtent, bytes: &mut [u8]) -> Result<(), Failure> {
        self.reads.push(extent);
        bytes.fill(0);
        let before = self.live.structures.range(..extent.start).next_back();
        for (&at, structure) in
            before.into_iter().chain(self.live.structures.range(extent.start..extent.end()))
        {
            // It may begin before the extent, and end behind it.
            let skip = (extent.start.get().saturating_sub(at.get()) * SECTOR_BYTES) as usize;
            let to = (at.get().saturating_sub(extent.start.get()) * SECTOR_BYTES) as usize;
            let structure = structure.bytes();
            let found = structure.get(skip..).unwrap_or(&[]);
            let len = found.len().min(bytes.len() - to);
            bytes[to..to + len].copy_from_slice(&found[..len]);
        }
        Ok(())
    }

    fn write(&mut self, _: Lba, _: &[u8]) -> Result<(), Failure> {
        Err(Failure::Unsupported)
    }

    fn reset(&mut self, _: u32) -> Result<(), Failure> {
        Err(Failure::Unsupported)
    }

    fn flush(&mut self) -> Result<(), Failure> {
        Err(Failure::Unsupported)
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
