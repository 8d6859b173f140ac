//! Recovery: the newest checkpoint, and the log from where it ends.
//!
//! The drive has to know its write pointers, as after power-on. What a checkpoint says is durable; the log is read up to the first
//! entry that is not whole: none behind that was durable, and none is in another zone, since the log goes on there after a flush.
//! The next thing that is written is a checkpoint, from which the log goes on at the write pointer, behind what a cut left.
//!
//! Invariant: only [`DriveReader`] is asked for bytes, and only for sectors before write pointers.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};

use super::HBuffer;
use super::format::{Checkpoint, HEADER, Header, Kind};
use super::policy::Policy;
use super::spec::{HBufferSpec, SpecError};
use crate::zoned::ZonedLayer;

/// Sectors of the log that are read at a time, 8 MiB: an entry that ends behind a window is read again with the next, which is
/// little beside that many.
const WINDOW: Sectors = Sectors(16_384);

/// Reads a drive.
pub trait DriveReader {
    /// Reads sectors of the drive before a write pointer; the buffer is as long as they are.
    ///
    /// # Errors
    /// When the drive refuses to, or cannot.
    fn read(&mut self, extent: LbaExtent, buffer: &mut [u8]) -> Result<(), Failure>;
}

/// Why there is no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The drive cannot have this buffer.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no checkpoint: it was never begun, or with other zones.
    #[error("the drive has no host buffer with these zones: no checkpoint of one is whole")]
    NoCheckpoint,
    /// What a checkpoint or an entry says cannot be.
    #[error("the host buffer is damaged: what it says of sector {0} of the drive cannot be")]
    Damaged(Lba),
    /// The drive cannot be read.
    #[error("the drive's sector {0} cannot be read: {1}")]
    Read(Lba, Failure),
}

/// What a recovery found, and what it read for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Sectors of checkpoints that were read.
    pub checkpoint: Sectors,
    /// Sectors of the log that were read.
    pub scanned: Sectors,
    /// Entries and records behind the checkpoint.
    pub entries: u64,
}

/// The log of a zone as it is read, a window at a time.
struct Scan<'a> {
    reader: &'a mut dyn DriveReader,
    buffer: Vec<u8>,
    window: LbaExtent,
    read: Sectors,
}

impl<'a> Scan<'a> {
    fn new(reader: &'a mut dyn DriveReader) -> Self {
        let window = LbaExtent::new(Lba(0), Sectors(0));
        Self { reader, buffer: Vec::new(), window, read: Sectors(0) }
    }

    /// These sectors; up to `end` there are more.
    fn get(&mut self, extent: LbaExtent, end: Lba) -> Result<&[u8], RecoveryError> {
        if extent.start < self.window.start || extent.end() > self.window.end() {
            let len = extent.len.max(WINDOW).min(end - extent.start).max(extent.len);
            self.window = LbaExtent::new(extent.start, len);
            self.buffer.resize(len.bytes() as usize, 0);
            let read = self.reader.read(self.window, &mut self.buffer);
            read.map_err(|why| RecoveryError::Read(extent.start, why))?;
            self.read += len;
        }
        let from = (extent.start - self.window.start).bytes() as usize;
        Ok(&self.buffer[from..from + extent.len.bytes() as usize])
    }
}

impl HBuffer {
    /// The buffer that a drive has. Nothing is written.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn recover(
        spec: HBufferSpec,
        drive: ZonedLayer,
        policy: Box<dyn Policy>,
        reader: &mut dyn DriveReader,
    ) -> Result<(Self, Found), RecoveryError> {
        let mut buffer = Self::over(spec, drive, policy)?;
        let mut scan = Scan::new(reader);
        let checkpoint = buffer.newest_checkpoint(&mut scan)?;
        let read = std::mem::take(&mut scan.read);
        buffer.take_up(&checkpoint)?;
        let entries = buffer.replay(&mut scan)?;
        buffer.own_zones();
        Ok((buffer, Found { checkpoint: read, scanned: scan.read, entries }))
    }

    /// The newest checkpoint that is whole.
    fn newest_checkpoint(&self, scan: &mut Scan<'_>) -> Result<Checkpoint, RecoveryError> {
        let places = self.contents.places;
        let homes = (places.homes - places.conventional) as usize;
        let mut newest: Option<Checkpoint> = None;
        for place in places.checkpoints {
            let zone = self.below.layout().zone_of(place.start);
            let end = match places.checkpoints_in_order {
                true => place.start + self.below.written(zone),
                false => place.end(),
            };
            if end < place.start + HEADER {
                continue;
            }
            let first = scan.get(LbaExtent::new(place.start, HEADER), place.start + HEADER)?;
            let Some(len) = Checkpoint::len_of(first, homes).filter(|&len| place.start + len <= end) else {
                continue;
            };
            let found = Checkpoint::decode(scan.get(LbaExtent::new(place.start, len), place.start + len)?);
            let is_newer = |found: &Checkpoint| {
                newest.as_ref().is_none_or(|newest| newest.generation < found.generation)
            };
            newest = found.filter(is_newer).or(newest);
        }
        newest.ok_or(RecoveryError::NoCheckpoint)
    }

    /// The state that a checkpoint has.
    fn take_up(&mut self, checkpoint: &Checkpoint) -> Result<(), RecoveryError> {
        let places = self.contents.places;
        let (zone, at) = checkpoint.head;
        let head = self.log_zone(zone).filter(|_| at <= places.home);
        let damaged = RecoveryError::Damaged(places.checkpoints[(checkpoint.generation % 2) as usize].start);
        self.log.head = head.ok_or(damaged)?;
        (self.log.at, self.log.scan_from) = (at, self.log.head);
        (self.log.sequence, self.log.generation) = (checkpoint.sequence, checkpoint.generation);
        for (home, &zone) in (places.conventional..).zip(&checkpoint.homes) {
            self.move_home(home, zone).ok_or(damaged)?;
        }
        for &(extent, place) in &checkpoint.map {
            self.map_found(extent, place).ok_or(RecoveryError::Damaged(place))?;
        }
        Ok(())
    }

    /// The number in the log of a zone of the drive.
    fn log_zone(&self, zone: u32) -> Option<u32> {
        let first = self.contents.places.log;
        (first..first + self.spec.zones).contains(&zone).then(|| zone - first)
    }

    /// A home zone is in a zone of the pool.
    fn move_home(&mut self, home: u32, zone: u32) -> Option<()> {
        let places = self.contents.places;
        let there = (places.conventional..places.homes).contains(&home)
            && (places.pool..places.pool + places.pool_zones).contains(&zone);
        there.then(|| self.contents.homes[home as usize].zone = zone)
    }

    /// A host extent is in the log.
    fn map_found(&mut self, extent: LbaExtent, place: Lba) -> Option<()> {
        let capacity = u64::from(self.contents.places.homes) * self.contents.places.home.get();
        let end = extent.start.get().checked_add(extent.len.get())?;
        let (zone, at) = self.below.layout().place_of(place);
        let in_zone = at + extent.len <= self.contents.places.home;
        self.log_zone(zone).filter(|_| end <= capacity && in_zone && !extent.is_empty())?;
        // An entry of the map may go on from one home zone to the next.
        let mut parts = Vec::with_capacity(1);
        self.contents.visit_homes(extent, |_, part| parts.push(part));
        for part in parts {
            self.contents.insert(part, place + (part.start - extent.start));
        }
        Some(())
    }

    /// Reads the log from where the checkpoint has it go on, to its end; the number of entries and records.
    fn replay(&mut self, scan: &mut Scan<'_>) -> Result<u64, RecoveryError> {
        let first = self.log.sequence;
        loop {
            while let Some((header, place)) = self.next_entry(scan)? {
                self.log.advance(HEADER + header.data());
                self.apply(&header.kind, place + HEADER).ok_or(RecoveryError::Damaged(place))?;
            }
            // An entry that does not fit in the rest of a zone is in the next one.
            let next = self.log.next();
            let (head, at) = (self.log.head, self.log.at);
            if next == self.log.scan_from {
                break;
            }
            (self.log.head, self.log.at) = (next, Sectors(0));
            if self.next_entry(scan)?.is_none() {
                (self.log.head, self.log.at) = (head, at);
                break;
            }
        }
        // What a cut left behind the last entry stays there.
        self.log.at = self.below.written(self.log.zone_of(self.log.head)).min(self.contents.places.home);
        Ok(self.log.sequence - first)
    }

    /// The next entry, if there is one at the head of the log and it is whole.
    fn next_entry(&self, scan: &mut Scan<'_>) -> Result<Option<(Header, Lba)>, RecoveryError> {
        let zone = self.log.zone_of(self.log.head);
        let end = self.below.layout().start_of(zone) + self.below.written(zone);
        let place = self.log.place(self.below.layout());
        if end < place + HEADER {
            return Ok(None);
        }
        let sector = scan.get(LbaExtent::new(place, HEADER), end)?;
        let Some((header, data_crc)) = Header::decode(sector) else { return Ok(None) };
        let expected = header.sequence == self.log.sequence;
        let extent = LbaExtent::new(place, HEADER + header.data());
        if !expected || extent.end() > end {
            return Ok(None);
        }
        let data = &scan.get(extent, end)?[SECTOR_BYTES as usize..];
        Ok((crc32c::crc32c(data) == data_crc).then_some((header, place)))
    }

    /// Does what an entry says; its data is at `data`.
    fn apply(&mut self, kind: &Kind, data: Lba) -> Option<()> {
        match kind {
            Kind::Data(extents) => {
                let mut place = data;
                for &extent in extents {
                    self.map_found(extent, place)?;
                    place += extent.len;
                }
            }
            Kind::Home { home, zone } => {
                self.move_home(*home, *zone)?;
                let extent = self.contents.extent_of(*home);
                self.contents.remove(extent);
            }
            Kind::Trimmed(extent) => {
                let capacity = u64::from(self.contents.places.homes) * self.contents.places.home.get();
                let end = extent.start.get().checked_add(extent.len.get())?;
                (end <= capacity).then(|| self.contents.remove(*extent))?;
            }
        }
        Some(())
    }
}
