//! A drive with zones that keeps sectors, and may lose power: an independent, small one, with the rules that a buffer relies on.
//!
//! A write to a host-managed zone has to begin at its write pointer, and a read has to end before it. What was not flushed
//! is in doubt: of each zone a cut leaves the first of its writes and resets since, the last of these perhaps in
//! part, or with a sector amiss where nothing was before; where there is no write pointer, any sectors of them. A flush takes all out of doubt.
//!
//! A host-aware drive has a persistent cache: a write out of order marks its zone, and moves the write pointer at once or when
//! the drive cleans the zone, which is at any time ([`Media::clean_some`]).

use std::ops::Range;
use std::rc::Rc;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::Failure;
use skylight_layer::capabilities::zoned::{ZoneCondition, ZoneDescriptor, ZoneKind, ZoneLayout, ZoneModel};
use skylight_layer::hbuffer::device::ZonedDevice;
use skylight_layer::hbuffer::format::Header;

use super::common::host::Stream;

const SECTOR: usize = SECTOR_BYTES as usize;

/// What a sector holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Sector {
    /// One number all over: of a host's write, or 0.
    Stamp(u64),
    /// Anything else.
    Bytes(Rc<[u8]>),
}

impl Sector {
    pub fn of(bytes: &[u8]) -> Self {
        let (stamp, rest) = bytes.split_at(8);
        // All eights of bytes are the same if each is the one before it.
        if bytes[..SECTOR - 8] == *rest {
            Self::Stamp(u64::from_le_bytes(stamp.try_into().expect("eight bytes")))
        } else {
            Self::Bytes(bytes.into())
        }
    }

    pub fn copy_to(&self, bytes: &mut [u8]) {
        match self {
            Self::Stamp(stamp) => fill(bytes, *stamp),
            Self::Bytes(all) => bytes.copy_from_slice(all),
        }
    }
}

/// Fills sectors with a number.
pub fn fill(bytes: &mut [u8], stamp: u64) {
    for eight in bytes.chunks_exact_mut(8) {
        eight.copy_from_slice(&stamp.to_le_bytes());
    }
}

/// What happened to a zone since the last flush.
#[derive(Clone)]
enum Doubt {
    Reset,
    Cleaned,
    Write(u64, Vec<Sector>),
}

/// A zone.
#[derive(Clone, Default)]
struct Zone {
    sectors: Vec<Sector>,
    pointer: u64,
    non_sequential: bool,
}

impl Zone {
    fn write(&mut self, offset: u64, sectors: &[Sector], at_once: bool) {
        let end = offset as usize + sectors.len();
        if self.sectors.len() < end {
            self.sectors.resize(end, Sector::Stamp(0));
        }
        self.sectors[offset as usize..end].clone_from_slice(sectors);
        if offset == self.pointer || at_once {
            self.non_sequential |= offset != self.pointer;
            self.pointer = self.pointer.max(end as u64);
        } else {
            self.non_sequential = true;
        }
    }

    /// The drive's cache has nothing of it any more.
    fn clean(&mut self) {
        (self.non_sequential, self.pointer) = (false, self.sectors.len() as u64);
    }

    /// A part of a write: its first sectors, or at the write pointer any of them.
    fn tear(&mut self, offset: u64, sectors: &[Sector], at_once: bool, stream: &mut Stream) {
        let torn = stream.below(sectors.len() as u64) as usize;
        let mut left = sectors.to_vec();
        if offset == self.pointer && stream.once_in(2) {
            left[torn] = Sector::Stamp(0);
        } else {
            left.truncate(torn);
        }
        if !left.is_empty() {
            self.write(offset, &left, at_once);
        }
    }
}

/// A zone at the last flush, and what came then.
type InDoubt = (Zone, Vec<Doubt>);

/// A command that changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    Write(Lba),
    Reset(u32),
    Flush,
}

/// See the module page.
pub struct Media {
    layout: ZoneLayout,
    /// Whether a write out of order moves the write pointer.
    at_once: bool,
    zones: Vec<Zone>,
    /// By zone what is in doubt; not where the power stays.
    doubts: Option<Vec<Option<InDoubt>>>,
    in_doubt: Vec<usize>,
    /// Commands until the power goes; `None` if it stays.
    pub left: Option<u64>,
    /// A flush failed.
    pub flush_failed: bool,
    /// Sectors that cannot be read until they are written.
    pub unreadable: Vec<Lba>,
    /// The next command that changes this fails, in part done; then none.
    pub fails: Option<fn(Change) -> bool>,
    /// Reads until one fails that would work again at once; then none.
    pub read_fails: Option<u64>,
    /// The latest read, and the sectors of all.
    pub latest_read: LbaExtent,
    pub read_sectors: u64,
    /// Checksums of entries are those of what lies behind their headers, so a torn entry seems whole: a planted bug.
    pub lenient: bool,
}

impl Media {
    pub fn new(layout: ZoneLayout, at_once: bool, cuts: bool) -> Self {
        let zones = vec![Zone::default(); layout.zones as usize];
        let doubts = cuts.then(|| vec![None; layout.zones as usize]);
        Self {
            layout,
            at_once,
            zones,
            doubts,
            in_doubt: Vec::new(),
            left: None,
            flush_failed: false,
            unreadable: Vec::new(),
            fails: None,
            read_fails: None,
            latest_read: LbaExtent::default(),
            read_sectors: 0,
            lenient: false,
        }
    }

    /// Whether the power is gone.
    pub fn is_off(&self) -> bool {
        self.left == Some(0)
    }

    fn is_sequential(&self, zone: usize) -> bool {
        !self.layout.is_conventional(zone as u32)
    }

    fn doubt(&mut self, zone: usize, doubt: impl FnOnce() -> Doubt) {
        if let Some(doubts) = &mut self.doubts {
            let zones = &self.zones;
            let entry = doubts[zone].get_or_insert_with(|| (zones[zone].clone(), Vec::new()));
            if entry.1.is_empty() {
                self.in_doubt.push(zone);
            }
            entry.1.push(doubt());
        }
    }

    /// One command more, which may be the last, or one that fails.
    fn command(&mut self, change: Option<Change>) -> Result<(), Failure> {
        if self.is_off() {
            return Err(Failure::Medium);
        }
        self.left = self.left.map(|left| left - 1);
        match change {
            Some(change) if self.fails.is_some_and(|fails| fails(change)) => {
                self.fails = None;
                Err(Failure::Medium)
            }
            _ => Ok(()),
        }
    }

    fn put(&mut self, zone: usize, offset: u64, sectors: &[Sector]) {
        let at = self.layout.start_of(zone as u32) + Sectors(offset);
        let extent = LbaExtent::new(at, Sectors(sectors.len() as u64));
        self.unreadable.retain(|&lba| lba < extent.start || lba >= extent.end());
        self.doubt(zone, || Doubt::Write(offset, sectors.to_vec()));
        self.zones[zone].write(offset, sectors, self.at_once);
    }

    fn sector(&self, lba: Lba) -> Sector {
        let (zone, offset) = self.layout.place_of(lba);
        let zone_state = &self.zones[zone as usize];
        if self.is_sequential(zone as usize) && self.layout.model == ZoneModel::HostManaged {
            assert!(offset.get() < zone_state.pointer, "a read behind the write pointer of zone {zone}");
        }
        zone_state.sectors.get(offset.get() as usize).cloned().unwrap_or(Sector::Stamp(0))
    }

    /// Puts something else where a sector was written.
    pub fn spoil(&mut self, lba: Lba) {
        let (zone, offset) = self.layout.place_of(lba);
        let sector = &mut self.zones[zone as usize].sectors[offset.get() as usize];
        *sector = Sector::Stamp(!0);
    }

    /// Zeros where a sector was written.
    pub fn empty(&mut self, lba: Lba) {
        let (zone, offset) = self.layout.place_of(lba);
        self.zones[zone as usize].sectors[offset.get() as usize] = Sector::Stamp(0);
    }

    /// One sector's data over another's.
    pub fn copy(&mut self, from: Lba, to: Lba) {
        let (zone, offset) = self.layout.place_of(to);
        self.zones[zone as usize].sectors[offset.get() as usize] = self.sector(from);
    }

    /// The drive cleans some of its zones by itself.
    pub fn clean_some(&mut self, stream: &mut Stream) {
        for zone in 0..self.zones.len() {
            if self.zones[zone].non_sequential && stream.once_in(2) {
                self.doubt(zone, || Doubt::Cleaned);
                self.zones[zone].clean();
            }
        }
    }

    /// The power is gone, and back.
    pub fn cut(&mut self, stream: &mut Stream) {
        self.left = None;
        for zone in std::mem::take(&mut self.in_doubt) {
            let (sequential, at_once) = (self.is_sequential(zone), self.at_once);
            let Some((mut left, doubts)) = self.doubts.as_mut().and_then(|doubts| doubts[zone].take()) else {
                continue;
            };
            let whole =
                if sequential { stream.below(doubts.len() as u64 + 1) as usize } else { doubts.len() };
            for doubt in &doubts[..whole] {
                match doubt {
                    Doubt::Reset => left = Zone::default(),
                    Doubt::Cleaned => left.clean(),
                    Doubt::Write(offset, sectors) if sequential => left.write(*offset, sectors, at_once),
                    Doubt::Write(offset, sectors) => {
                        for (at, sector) in (*offset..).zip(sectors) {
                            if stream.once_in(2) {
                                left.write(at, std::slice::from_ref(sector), at_once);
                            }
                        }
                    }
                }
            }
            if let Some(Doubt::Write(offset, sectors)) = doubts.get(whole) {
                left.tear(*offset, sectors, at_once, stream);
            }
            self.zones[zone] = left;
        }
    }

    /// A header with the checksum of what is behind it, zeros where nothing is.
    fn as_if_whole(&self, lba: Lba, bytes: &mut [u8]) {
        let Some((header, _)) = Header::decode(bytes) else { return };
        let (zone, offset) = self.layout.place_of(lba);
        let behind = self.zones[zone as usize].sectors.iter().skip(offset.get() as usize + 1);
        let mut data = vec![0; header.data().bytes() as usize];
        behind.zip(data.chunks_mut(SECTOR)).for_each(|(sector, bytes)| sector.copy_to(bytes));
        bytes.copy_from_slice(&header.encode(crc32c::crc32c(&data)));
    }

    /// The zones with a write pointer that are in order, with what is written of each.
    pub fn in_order(&self) -> impl Iterator<Item = (u32, Sectors)> + '_ {
        let sequential = (self.layout.conventional as usize)..self.zones.len();
        let in_order = sequential.filter(|&zone| !self.zones[zone].non_sequential);
        in_order.map(|zone| (zone as u32, Sectors(self.zones[zone].pointer)))
    }

    fn descriptor(&self, zone: u32) -> ZoneDescriptor {
        let LbaExtent { start, len } = self.layout.extent_of(zone);
        let capacity = self.layout.capacity_of(zone);
        let Zone { pointer, non_sequential, .. } = self.zones[zone as usize];
        let sequential = self.is_sequential(zone as usize);
        let condition = match pointer {
            _ if !sequential => ZoneCondition::NotWritePointer,
            0 if !non_sequential => ZoneCondition::Empty,
            pointer if pointer == capacity.get() => ZoneCondition::Full,
            _ => ZoneCondition::Closed,
        };
        let kind = if sequential { self.layout.model.sequential() } else { ZoneKind::Conventional };
        let write_pointer = sequential.then(|| start + Sectors(pointer));
        let reset_recommended = false;
        ZoneDescriptor {
            start,
            len,
            capacity,
            write_pointer,
            kind,
            condition,
            reset_recommended,
            non_sequential: sequential && non_sequential,
        }
    }
}

impl ZonedDevice for Media {
    fn layout(&self) -> ZoneLayout {
        self.layout
    }

    fn read(&mut self, extent: LbaExtent, buffer: &mut [u8]) -> Result<(), Failure> {
        self.command(None)?;
        self.latest_read = extent;
        self.read_sectors += extent.len.get();
        let left = self.read_fails.take();
        self.read_fails = left.and_then(|left| left.checked_sub(1));
        if left == Some(0) {
            return Err(Failure::Medium);
        }
        for (at, bytes) in (extent.start.get()..extent.end().get()).zip(buffer.chunks_mut(SECTOR)) {
            if self.unreadable.contains(&Lba(at)) {
                return Err(Failure::Medium);
            }
            self.sector(Lba(at)).copy_to(bytes);
            if self.lenient {
                self.as_if_whole(Lba(at), bytes);
            }
        }
        Ok(())
    }

    fn write(&mut self, at: Lba, data: &[u8]) -> Result<(), Failure> {
        let (zone, offset) = self.layout.place_of(at);
        let (zone, offset) = (zone as usize, offset.get());
        let sectors: Vec<Sector> = data.chunks(SECTOR).map(Sector::of).collect();
        let end = offset + sectors.len() as u64;
        assert!(end <= self.layout.capacity_of(zone as u32).get(), "a write beyond the end of zone {zone}");
        if self.is_sequential(zone) && self.layout.model == ZoneModel::HostManaged && !self.is_off() {
            assert_eq!(
                offset, self.zones[zone].pointer,
                "a write away from the write pointer of zone {zone}"
            );
        }
        if let Err(failure) = self.command(Some(Change::Write(at))) {
            if !self.is_off() {
                // Half of it is there, and of a record all.
                self.put(zone, offset, &sectors[..sectors.len().div_ceil(2)]);
            }
            return Err(failure);
        }
        self.put(zone, offset, &sectors);
        Ok(())
    }

    fn reset(&mut self, zone: u32) -> Result<(), Failure> {
        assert!(self.is_sequential(zone as usize), "a reset of a conventional zone");
        self.command(Some(Change::Reset(zone)))?;
        self.doubt(zone as usize, || Doubt::Reset);
        let extent = self.layout.extent_of(zone);
        self.unreadable.retain(|&lba| lba < extent.start || lba >= extent.end());
        self.zones[zone as usize] = Zone::default();
        Ok(())
    }

    fn flush(&mut self) -> Result<(), Failure> {
        let is_off = self.is_off();
        let done = self.command(Some(Change::Flush));
        self.flush_failed |= done.is_err() && !is_off;
        done?;
        for zone in self.in_doubt.drain(..) {
            if let Some(doubts) = &mut self.doubts {
                doubts[zone] = None;
            }
        }
        Ok(())
    }

    fn report(
        &mut self,
        zones: Range<u32>,
        visit: &mut dyn FnMut(u32, ZoneDescriptor),
    ) -> Result<(), Failure> {
        if self.is_off() {
            return Err(Failure::Medium);
        }
        zones.for_each(|zone| visit(zone, self.descriptor(zone)));
        Ok(())
    }
}
