//! A drive with zones that keeps sectors, and may lose power: an independent, small one, with the rules that a buffer relies on.
//!
//! A write to a host-managed zone has to begin at its write pointer, and a read has to end before it. What was not flushed
//! is in doubt: of each zone a cut leaves the first of its writes and resets since, the last of these perhaps in
//! part, or with a sector amiss where nothing was before; where there is no write pointer, any sectors of them. A flush takes all out of doubt.

use std::rc::Rc;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::Failure;
use skylight_layer::ZoneRecord;
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneModel};
use skylight_layer::hbuffer::format::{HEADER, Header};
use skylight_layer::hbuffer::recovery::DriveReader;

use super::common::host::Stream;

/// What a sector holds.
#[derive(Clone, Debug, PartialEq)]
pub enum Sector {
    Zeros,
    /// Of a host's write.
    Host(u64),
    /// A header, with the data that follows it.
    Header(Rc<(Header, Vec<u64>)>),
    /// A sector of something longer.
    Bytes(Rc<Vec<u8>>, usize),
}

impl Sector {
    /// The number of a host's write; 0 for zeros.
    pub fn stamp(&self) -> Option<u64> {
        match self {
            Self::Zeros => Some(0),
            Self::Host(stamp) => Some(*stamp),
            Self::Header(_) | Self::Bytes(..) => None,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Zeros => expand(0),
            Self::Host(stamp) => expand(*stamp),
            Self::Header(entry) => {
                let data: Vec<u8> = entry.1.iter().flat_map(|&stamp| expand(stamp)).collect();
                entry.0.encode(crc32c::crc32c(&data))
            }
            Self::Bytes(bytes, index) => {
                let from = index * SECTOR_BYTES as usize;
                bytes[from..from + SECTOR_BYTES as usize].to_vec()
            }
        }
    }
}

fn expand(stamp: u64) -> Vec<u8> {
    stamp.to_le_bytes().repeat(SECTOR_BYTES as usize / 8)
}

/// What happened to a zone since the last flush.
#[derive(Clone)]
enum Doubt {
    Reset,
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
    fn write(&mut self, offset: u64, sectors: &[Sector]) {
        let end = offset as usize + sectors.len();
        if self.sectors.len() < end {
            self.sectors.resize(end, Sector::Zeros);
        }
        self.sectors[offset as usize..end].clone_from_slice(sectors);
        self.non_sequential |= offset != self.pointer;
        self.pointer = self.pointer.max(end as u64);
    }

    /// A part of a write: its first sectors, or at the write pointer any of them.
    fn tear(&mut self, offset: u64, sectors: &[Sector], stream: &mut Stream) {
        let torn = stream.below(sectors.len() as u64) as usize;
        let mut left = sectors.to_vec();
        if offset == self.pointer && stream.once_in(2) {
            left[torn] = Sector::Zeros;
        } else {
            left.truncate(torn);
        }
        if !left.is_empty() {
            self.write(offset, &left);
        }
    }
}

/// A zone at the last flush, and what came then.
type InDoubt = (Zone, Vec<Doubt>);

/// See the module page.
pub struct Media {
    layout: ZoneLayout,
    zones: Vec<Zone>,
    /// By zone what is in doubt; not where the power stays.
    doubts: Option<Vec<Option<InDoubt>>>,
    in_doubt: Vec<usize>,
    /// Checksums of entries are those of what lies behind their headers, so a torn entry seems whole: a planted bug.
    lenient: bool,
}

impl Media {
    pub fn new(layout: ZoneLayout, cuts: bool, lenient: bool) -> Self {
        let zones = vec![Zone::default(); layout.zones as usize];
        let doubts = cuts.then(|| vec![None; layout.zones as usize]);
        Self { layout, zones, doubts, in_doubt: Vec::new(), lenient }
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

    pub fn write(&mut self, at: Lba, sectors: &[Sector]) {
        let (zone, offset) = self.layout.place_of(at);
        let (zone, offset) = (zone as usize, offset.get());
        let end = offset + sectors.len() as u64;
        assert!(end <= self.layout.capacity_of(zone as u32).get(), "a write beyond the end of zone {zone}");
        if self.is_sequential(zone) && self.layout.model == ZoneModel::HostManaged {
            assert_eq!(
                offset, self.zones[zone].pointer,
                "a write away from the write pointer of zone {zone}"
            );
        }
        self.doubt(zone, || Doubt::Write(offset, sectors.to_vec()));
        self.zones[zone].write(offset, sectors);
    }

    pub fn reset(&mut self, zone: u32) {
        assert!(self.is_sequential(zone as usize), "a reset of a conventional zone");
        self.doubt(zone as usize, || Doubt::Reset);
        self.zones[zone as usize] = Zone::default();
    }

    pub fn flush(&mut self) {
        for zone in self.in_doubt.drain(..) {
            if let Some(doubts) = &mut self.doubts {
                doubts[zone] = None;
            }
        }
    }

    pub fn sector(&self, lba: Lba) -> Sector {
        let (zone, offset) = self.layout.place_of(lba);
        let zone_state = &self.zones[zone as usize];
        if self.is_sequential(zone as usize) && self.layout.model == ZoneModel::HostManaged {
            assert!(offset.get() < zone_state.pointer, "a read behind the write pointer of zone {zone}");
        }
        zone_state.sectors.get(offset.get() as usize).cloned().unwrap_or(Sector::Zeros)
    }

    /// The power is gone, and back.
    pub fn cut(&mut self, stream: &mut Stream) {
        for zone in std::mem::take(&mut self.in_doubt) {
            let sequential = self.is_sequential(zone);
            let Some((mut left, doubts)) = self.doubts.as_mut().and_then(|doubts| doubts[zone].take()) else {
                continue;
            };
            let whole =
                if sequential { stream.below(doubts.len() as u64 + 1) as usize } else { doubts.len() };
            for doubt in &doubts[..whole] {
                match doubt {
                    Doubt::Reset => left = Zone::default(),
                    Doubt::Write(offset, sectors) if sequential => left.write(*offset, sectors),
                    Doubt::Write(offset, sectors) => {
                        for (at, sector) in (*offset..).zip(sectors) {
                            if stream.once_in(2) {
                                left.write(at, std::slice::from_ref(sector));
                            }
                        }
                    }
                }
            }
            if let Some(Doubt::Write(offset, sectors)) = doubts.get(whole) {
                left.tear(*offset, sectors, stream);
            }
            self.zones[zone] = left;
        }
    }

    /// A header with the checksum of what is behind it, zeros where nothing is.
    fn as_if_whole(&self, lba: Lba, header: &Header) -> Sector {
        let (zone, offset) = self.layout.place_of(lba);
        let behind = self.zones[zone as usize].sectors.iter().skip(offset.get() as usize + 1);
        let behind = behind.map(|sector| sector.stamp().unwrap_or_default()).chain(std::iter::repeat(0));
        let stamps = behind.take(header.data().get() as usize).collect();
        Sector::Header(Rc::new((header.clone(), stamps)))
    }

    /// What the drive says of its zones after power-on.
    pub fn records(&self) -> impl Iterator<Item = ZoneRecord> + '_ {
        let sequential = (self.layout.conventional as usize)..self.zones.len();
        sequential.map(|zone| ZoneRecord {
            written: Sectors(self.zones[zone].pointer),
            non_sequential: self.zones[zone].non_sequential,
            ..ZoneRecord::empty(zone as u32)
        })
    }
}

impl DriveReader for &Media {
    fn read(&mut self, extent: LbaExtent, buffer: &mut [u8]) -> Result<(), Failure> {
        let lbas = (extent.start.get()..extent.end().get()).map(Lba);
        for (lba, bytes) in lbas.zip(buffer.chunks_mut(HEADER.bytes() as usize)) {
            let sector = match self.sector(lba) {
                Sector::Header(entry) if self.lenient => self.as_if_whole(lba, &entry.0),
                sector => sector,
            };
            bytes.copy_from_slice(&sector.bytes());
        }
        Ok(())
    }
}
