//! Recovery: the newest checkpoint, and the log from where it ends.
//!
//! The drive has to know its write pointers, as after power-on. What a checkpoint says is durable; the log is read up to the first
//! entry that is not whole: none behind that was durable, and none is in another zone, since the log goes on there after a flush.
//! So where a later entry is found all the same, something changed what was durable, and that is an error. A checkpoint
//! that cannot be read or is not whole is done without, if the log has all since the one before.
//! The next thing that is written is a checkpoint, from which the log goes on at the write pointer, behind what a cut left.
//!
//! Invariant: only sectors before write pointers are read.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};

use super::HBuffer;
use super::device::ZonedDevice;
use super::format::{Checkpoint, HEADER, Header, Kind, UNREADABLE};
use super::layout::{LEAST_LOG_ZONES, Places, Sizes, SpecError, Tuning};
use super::policy::Policy;
use super::view::ZoneView;
use crate::capabilities::zoned::ZoneLayout;

/// Sectors of the log that are read at a time, 8 MiB: an entry that ends behind a window is read again with the next, which is
/// little beside that many.
const WINDOW: Sectors = Sectors(16_384);

/// Why there is no buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecoveryError {
    /// The drive cannot have this buffer.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// There is no checkpoint: it was never begun.
    #[error("the drive has no host buffer: no checkpoint of one is whole")]
    NoCheckpoint,
    /// There is no whole checkpoint, and there are traces of a buffer with data, such as this sector.
    #[error(
        "the host buffer is damaged: the drive has data, sector {0} is of a host buffer, and no checkpoint of it is whole"
    )]
    NoneWhole(Lba),
    /// What a checkpoint or an entry says cannot be.
    #[error("the host buffer is damaged: what sector {0} of the drive says cannot be")]
    Damaged(Lba),
    /// An entry of the log is not what was written, and later ones are.
    #[error(
        "the host buffer is damaged: sector {0} of the drive does not have the entry of the log that was there"
    )]
    Changed(Lba),
    /// The drive cannot be read.
    #[error("the drive's sector {0} cannot be read: {1}")]
    Read(Lba, Failure),
    /// The drive does not report its zones.
    #[error("the drive does not report its zones: {0}")]
    Report(Failure),
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

/// The drive as it is read, a window at a time.
struct Scan<'a> {
    device: &'a mut dyn ZonedDevice,
    buffer: Vec<u8>,
    window: LbaExtent,
    read: Sectors,
}

impl<'a> Scan<'a> {
    fn new(device: &'a mut dyn ZonedDevice) -> Self {
        let window = LbaExtent::new(Lba(0), Sectors(0));
        Self { device, buffer: Vec::new(), window, read: Sectors(0) }
    }

    /// These sectors; up to `end` there are more.
    fn get(&mut self, extent: LbaExtent, end: Lba) -> Result<&[u8], RecoveryError> {
        if extent.start < self.window.start || extent.end() > self.window.end() {
            let len = extent.len.max(WINDOW).min(end - extent.start).max(extent.len);
            let window = LbaExtent::new(extent.start, len);
            // A window that was not read is none.
            self.window.len = Sectors(0);
            self.buffer.resize(len.bytes() as usize, 0);
            if let Err(failure) = self.device.read(window, &mut self.buffer) {
                return Err(RecoveryError::Read(self.unreadable(window), failure));
            }
            (self.window, self.read) = (window, self.read + len);
        }
        let from = (extent.start - self.window.start).bytes() as usize;
        Ok(&self.buffer[from..from + extent.len.bytes() as usize])
    }

    /// The first sector of an extent that cannot be read, if there is one and not a failure that went away.
    fn unreadable(&mut self, mut extent: LbaExtent) -> Lba {
        while extent.len > Sectors(1) {
            let half = LbaExtent::new(extent.start, Sectors(extent.len.get() / 2));
            let is_there = self.device.read(half, &mut self.buffer[..half.len.bytes() as usize]).is_err();
            extent = match is_there {
                true => half,
                false => LbaExtent::new(half.end(), extent.len - half.len),
            };
        }
        extent.start
    }

    /// The header at a sector, if one is there, with the checksum of its data.
    fn header(&mut self, at: Lba, end: Lba) -> Result<Option<(Header, u32)>, RecoveryError> {
        Ok(Header::decode(self.get(LbaExtent::new(at, HEADER), end)?))
    }
}

/// The checkpoint at a place, up to `end`, if it is whole.
fn checkpoint_at(
    place: LbaExtent,
    end: Lba,
    scan: &mut Scan<'_>,
) -> Result<Option<Checkpoint>, RecoveryError> {
    if end < place.start + HEADER {
        return Ok(None);
    }
    let first = scan.get(LbaExtent::new(place.start, HEADER), place.start + HEADER)?;
    let Some(len) = Checkpoint::len_of(first).filter(|&len| place.start + len <= end) else {
        return Ok(None);
    };
    Ok(Checkpoint::decode(scan.get(LbaExtent::new(place.start, len), place.start + len)?))
}

/// The newest checkpoint that is whole.
fn newest_checkpoint(view: &ZoneView, scan: &mut Scan<'_>) -> Result<Checkpoint, RecoveryError> {
    let mut unreadable = RecoveryError::NoCheckpoint;
    let mut newest: Option<Checkpoint> = None;
    for place in Places::checkpoints(&view.layout).0 {
        let zone = view.layout.zone_of(place.start);
        let written = view.layout.start_of(zone) + view.written(zone);
        match checkpoint_at(place, place.end().min(written), scan) {
            Ok(None) => {}
            Ok(Some(found)) => match &newest {
                Some(other) if other.identity != found.identity => {
                    return Err(RecoveryError::Damaged(place.start));
                }
                Some(other) if other.generation > found.generation => {}
                _ => newest = Some(found),
            },
            Err(error) => unreadable = error,
        }
    }
    match newest {
        Some(newest) => Ok(newest),
        None if unreadable == RecoveryError::NoCheckpoint => {
            Err(trace(view, scan)?.map_or(unreadable, RecoveryError::NoneWhole))
        }
        None => Err(unreadable),
    }
}

/// A sector that only a buffer with data leaves; a new one whose making a cut ended has written nothing but checkpoints.
fn trace(view: &ZoneView, scan: &mut Scan<'_>) -> Result<Option<Lba>, RecoveryError> {
    let layout = &view.layout;
    let (places, checkpoint_zones) = Places::checkpoints(layout);
    let log = layout.conventional.max(checkpoint_zones);
    let mut written = (log..layout.zones).filter(|&zone| !view.of(zone).is_empty()).peekable();
    if written.peek().is_none() {
        return Ok(None);
    }
    let in_log = written.take_while(|&zone| zone < log + LEAST_LOG_ZONES).map(|zone| layout.start_of(zone));
    for start in in_log {
        if scan.header(start, start + HEADER)?.is_some() {
            return Ok(Some(start));
        }
    }
    for place in places {
        let is_readable = layout.is_conventional(layout.zone_of(place.start))
            || !view.of(layout.zone_of(place.start)).is_empty();
        let first = LbaExtent::new(place.start, HEADER);
        if is_readable && Checkpoint::len_of(scan.get(first, first.end())?).is_some() {
            return Ok(Some(place.start));
        }
    }
    Ok(None)
}

/// What a drive reports of its zones.
fn reported(layout: ZoneLayout, device: &mut dyn ZonedDevice) -> Result<ZoneView, RecoveryError> {
    let mut view = ZoneView::new(layout);
    let report = device.report(0..layout.zones, &mut |zone, descriptor| view.reported(zone, &descriptor));
    report.map_err(RecoveryError::Report)?;
    Ok(view)
}

impl HBuffer {
    /// The buffer that a drive has, with the sizes that it has; others are refused if they are named. Nothing is written.
    ///
    /// # Errors
    /// When there is none, or it cannot be read.
    pub fn recover(
        sizes: Option<Sizes>,
        tuning: Tuning,
        device: &mut dyn ZonedDevice,
        policy: Box<dyn Policy>,
    ) -> Result<(Self, Found), RecoveryError> {
        let layout = device.layout();
        let view = reported(layout, device)?;
        let mut scan = Scan::new(device);
        let checkpoint = newest_checkpoint(&view, &mut scan)?;
        let found = checkpoint.sizes;
        if let Some(asked) = sizes.filter(|&asked| asked != found) {
            return Err(SpecError::Sizes { found, asked }.into());
        }
        let read = std::mem::take(&mut scan.read);
        let mut buffer = Self::over((found, tuning, checkpoint.identity), layout, policy)?;
        buffer.view = view;
        buffer.take_up(&checkpoint)?;
        let entries = buffer.replay(&mut scan)?;
        buffer.check_places()?;
        buffer.find_spares();
        Ok((buffer, Found { checkpoint: read, scanned: scan.read, entries }))
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
        // What a checkpoint speaks of was durable before it.
        if self.view.written(zone) < at {
            return Err(RecoveryError::Changed(self.view.layout.start_of(zone) + self.view.written(zone)));
        }
        if checkpoint.homes.len() as u32 != places.homes - places.conventional {
            return Err(damaged);
        }
        for (home, &zone) in (places.conventional..).zip(&checkpoint.homes) {
            self.move_home(home, zone).ok_or(damaged)?;
        }
        for &(extent, place) in &checkpoint.map {
            let found =
                if place == UNREADABLE { self.lose_found(extent) } else { self.map_found(extent, place) };
            found.ok_or(damaged)?;
        }
        Ok(())
    }

    /// The number in the log of a zone of the drive.
    fn log_zone(&self, zone: u32) -> Option<u32> {
        let first = self.contents.places.log;
        (first..first + self.sizes.zones).contains(&zone).then(|| zone - first)
    }

    /// A home zone is in a zone of the pool.
    fn move_home(&mut self, home: u32, zone: u32) -> Option<()> {
        let places = self.contents.places;
        let there = (places.conventional..places.homes).contains(&home)
            && (places.pool..places.pool + places.pool_zones).contains(&zone);
        there.then(|| self.contents.homes[home as usize].zone = zone)
    }

    /// A host extent, if the address space has it.
    fn within(&self, extent: LbaExtent) -> Option<LbaExtent> {
        let end = extent.start.get().checked_add(extent.len.get())?;
        (end <= self.capacity().get()).then_some(extent)
    }

    /// A host extent could not be read at home.
    fn lose_found(&mut self, extent: LbaExtent) -> Option<()> {
        self.within(extent).filter(|extent| !extent.is_empty()).map(|extent| self.contents.lose(extent))
    }

    /// A host extent is in the log.
    fn map_found(&mut self, extent: LbaExtent, place: Lba) -> Option<()> {
        let (zone, at) = self.view.layout.place_of(place);
        let in_zone = at + extent.len <= self.contents.places.home;
        self.log_zone(zone).filter(|_| in_zone && !extent.is_empty())?;
        self.within(extent)?;
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
        self.nothing_follows(scan)?;
        let entries = self.log.sequence - first;
        // What a cut left behind the last entry stays there. It may be a part of the entry with the next number, so another gets that.
        let written = self.view.written(self.log.zone_of(self.log.head)).min(self.contents.places.home);
        self.log.sequence += u64::from(written > self.log.at);
        self.log.at = written;
        Ok(entries)
    }

    /// The next entry, if there is one at the head of the log and it is whole.
    fn next_entry(&self, scan: &mut Scan<'_>) -> Result<Option<(Header, Lba)>, RecoveryError> {
        let zone = self.log.zone_of(self.log.head);
        let end = self.view.layout.start_of(zone) + self.view.written(zone);
        let place = self.log.place(&self.view.layout);
        if end < place + HEADER {
            return Ok(None);
        }
        let Some((header, data_crc)) = scan.header(place, end)? else { return Ok(None) };
        let expected = header.sequence == self.log.sequence && header.identity == self.identity;
        let extent = LbaExtent::new(place, HEADER + header.data());
        if !expected || extent.end() > end {
            return Ok(None);
        }
        let data = &scan.get(extent, end)?[SECTOR_BYTES as usize..];
        Ok((crc32c::crc32c(data) == data_crc).then_some((header, place)))
    }

    /// Makes sure that what the map has was written.
    fn check_places(&self) -> Result<(), RecoveryError> {
        let all = LbaExtent::new(Lba(0), self.capacity());
        let lost = self.contents.map.overlapping(all).find_map(|mapped| {
            let place = Lba(mapped.pba.get());
            let (zone, at) = self.view.layout.place_of(place);
            (at + mapped.lba.len > self.view.written(zone)).then_some(place)
        });
        lost.map_or(Ok(()), |place| Err(RecoveryError::Changed(place)))
    }

    /// Makes sure that no entry that was written later is behind the end of the log, or at the start of another zone.
    fn nothing_follows(&self, scan: &mut Scan<'_>) -> Result<(), RecoveryError> {
        let end = self.log.place(&self.view.layout);
        let is_later = |found: Option<(Header, u32)>| {
            found.is_some_and(|(header, _)| {
                header.identity == self.identity && header.sequence > self.log.sequence
            })
        };
        for zone in 0..self.sizes.zones {
            let start = self.view.layout.start_of(self.log.zone_of(zone));
            let written = start + self.view.written(self.log.zone_of(zone)).min(self.contents.places.home);
            // Behind the end all that a cut left, and of the other zones the first sector.
            let (mut at, until) = match zone == self.log.head {
                true => (end, written),
                false => (start, written.min(start + HEADER)),
            };
            while at < until {
                if is_later(scan.header(at, until)?) {
                    return Err(RecoveryError::Changed(end));
                }
                at += HEADER;
            }
        }
        Ok(())
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
            Kind::Home { home, zone, before } => {
                self.move_home(*home, *zone)?;
                (before.zone < self.sizes.zones).then(|| {
                    self.contents.remove_older(*home, *before, &self.log);
                })?;
            }
            Kind::Trimmed(extent) => {
                self.within(*extent).map(|extent| self.contents.remove(extent))?;
            }
            Kind::Unreadable(extents) => extents.iter().try_for_each(|&extent| self.lose_found(extent))?,
        }
        Some(())
    }
}
