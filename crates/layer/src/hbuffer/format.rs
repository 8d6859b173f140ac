//! The bytes of a host buffer on its drive: entries and records of the log, and checkpoints (`docs/hbuffer.md`).
//!
//! All numbers are little-endian. A *header* is one sector. An entry is a header and its data; a record is a header alone.
//! Each has the number that follows that of the one before it, so that what a zone had before its reset does not count, and the
//! identity of its buffer, so that what an earlier buffer of the drive left does not count either.
//!
//! Invariant: what decodes is what was encoded; anything else gives `None`.

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};

/// Sectors of a header.
pub const HEADER: Sectors = Sectors(1);
/// Most extents of a header: as many as fit a sector.
pub const EXTENTS: usize = 45;

const SECTOR: usize = SECTOR_BYTES as usize;
const HEADER_MAGIC: &[u8; 8] = b"SKYHBUFE";
const CHECKPOINT_MAGIC: &[u8; 8] = b"SKYHBUFC";
/// What a header's checksum is of begins behind it.
const SUMMED_FROM: usize = 12;
/// Where the identity begins, in a header and in a checkpoint.
const IDENTITY_AT: usize = 40;
const CHECKPOINT_IDENTITY_AT: usize = 64;
/// Where the extents of a header begin, and the bytes of each: 6 of the first sector, 4 of the number of sectors.
const EXTENTS_AT: usize = 56;
const EXTENT_BYTES: usize = 10;
/// Bytes of a home zone in a checkpoint: the number of the zone that has it.
const HOME_BYTES: usize = 4;
/// Bytes of an entry of the map in a checkpoint: 6 of the host sector, 4 of the length, 6 of the drive's sector.
const MAPPED_BYTES: usize = 16;
/// What a checkpoint says of host sectors that cannot be read, in the place of the drive's sector: no drive has it.
pub const UNREADABLE: Lba = Lba((1 << 48) - 1);
/// Fewest entries of a checkpoint with which a buffer is any use. Chosen: those of two full headers, since not all are the map's.
const LEAST_MAP: u64 = 2 * EXTENTS as u64;

const _: () = assert!(EXTENTS_AT + EXTENTS * EXTENT_BYTES <= SECTOR);

/// Sixteen random bytes by which a buffer knows its own structures.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Identity(pub [u8; 16]);

/// What a drive is divided into. Checkpoints have it, since it cannot change while there is data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sizes {
    /// Zones of the circular log; at least three. The paper's case study has 100.
    pub zones: u32,
    /// Zones without data into which a home zone is rewritten; at least one. With two, a zone is rewritten while the old place of
    /// the one before waits for a flush.
    pub spare_zones: u32,
}

/// A place in the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// The zone, as a number in the log.
    pub zone: u32,
    /// Sectors from its start.
    pub at: Sectors,
}

/// What an entry or a record says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Data of these host extents follows, in order.
    Data(Vec<LbaExtent>),
    /// All that the log has of a home zone before a place in it is in this zone of the drive, which holds the home zone from now
    /// on.
    Home {
        /// The home zone.
        home: u32,
        /// The zone of the drive.
        zone: u32,
        /// The place.
        before: Position,
    },
    /// What earlier entries have of this host extent is of no use any more.
    Trimmed(LbaExtent),
    /// What is at home of these host extents, of which the log has nothing, could not be read.
    Unreadable(Vec<LbaExtent>),
}

/// The header of an entry, or a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// Whose it is.
    pub identity: Identity,
    /// Its number.
    pub sequence: u64,
    /// What it says.
    pub kind: Kind,
}

impl Header {
    /// Sectors of data behind it.
    pub fn data(&self) -> Sectors {
        match &self.kind {
            Kind::Data(extents) => Sectors(extents.iter().map(|extent| extent.len.get()).sum()),
            Kind::Home { .. } | Kind::Trimmed(_) | Kind::Unreadable(_) => Sectors(0),
        }
    }

    /// Its sector; `data_crc` is the CRC-32C of its data, 0 without any.
    pub fn encode(&self, data_crc: u32) -> Vec<u8> {
        let mut sector = vec![0; SECTOR];
        sector[..8].copy_from_slice(HEADER_MAGIC);
        put(&mut sector, 16, self.sequence, 8);
        put(&mut sector, 28, data_crc.into(), 4);
        sector[IDENTITY_AT..EXTENTS_AT].copy_from_slice(&self.identity.0);
        let (kind, extents): (u64, &[LbaExtent]) = match &self.kind {
            Kind::Data(extents) => (1, extents),
            Kind::Home { home, zone, before } => {
                put(&mut sector, 32, (*home).into(), 4);
                put(&mut sector, 36, (*zone).into(), 4);
                put(&mut sector, EXTENTS_AT, before.zone.into(), 4);
                put(&mut sector, EXTENTS_AT + 4, before.at.get(), 8);
                (2, &[])
            }
            Kind::Trimmed(extent) => {
                put(&mut sector, EXTENTS_AT, extent.start.get(), 8);
                put(&mut sector, EXTENTS_AT + 8, extent.len.get(), 8);
                (3, &[])
            }
            Kind::Unreadable(extents) => (4, extents),
        };
        put(&mut sector, 24, kind, 2);
        put(&mut sector, 26, extents.len() as u64, 2);
        for (extent, at) in extents.iter().zip((EXTENTS_AT..).step_by(EXTENT_BYTES)) {
            put(&mut sector, at, extent.start.get(), 6);
            put(&mut sector, at + 6, extent.len.get(), 4);
        }
        let crc = crc32c::crc32c(&sector[SUMMED_FROM..]);
        put(&mut sector, 8, crc.into(), 4);
        sector
    }

    /// The header in a sector, with the checksum of its data.
    pub fn decode(sector: &[u8]) -> Option<(Self, u32)> {
        let summed = crc32c::crc32c(sector.get(SUMMED_FROM..SECTOR)?);
        if sector[..8] != *HEADER_MAGIC || get(sector, 8, 4) != u64::from(summed) {
            return None;
        }
        let extents = || -> Option<Vec<LbaExtent>> {
            let count = get(sector, 26, 2) as usize;
            let places = (EXTENTS_AT..).step_by(EXTENT_BYTES).take(count);
            (count <= EXTENTS).then(|| {
                places
                    .map(|at| LbaExtent::new(Lba(get(sector, at, 6)), Sectors(get(sector, at + 6, 4))))
                    .collect()
            })
        };
        let kind = match get(sector, 24, 2) {
            1 => Kind::Data(extents()?),
            2 => Kind::Home {
                home: get(sector, 32, 4) as u32,
                zone: get(sector, 36, 4) as u32,
                before: Position {
                    zone: get(sector, EXTENTS_AT, 4) as u32,
                    at: Sectors(get(sector, EXTENTS_AT + 4, 8)),
                },
            },
            3 => {
                let [start, len] = [0, 8].map(|at| get(sector, EXTENTS_AT + at, 8));
                Kind::Trimmed(LbaExtent::new(Lba(start), Sectors(len)))
            }
            4 => Kind::Unreadable(extents()?),
            _ => return None,
        };
        let identity = identity(sector, IDENTITY_AT);
        let header = Self { identity, sequence: get(sector, 16, 8), kind };
        Some((header, get(sector, 28, 4) as u32))
    }
}

/// A checkpoint: all that the log says before a place in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// Whose it is.
    pub identity: Identity,
    /// Zones of the log, and spare ones.
    pub sizes: Sizes,
    /// Its number: of two, the higher one counts.
    pub generation: u64,
    /// The number of the first entry that follows.
    pub sequence: u64,
    /// The zone of the drive where that begins, and behind how many of its sectors: all of them if it is full.
    pub head: (u32, Sectors),
    /// The zone of the drive that holds each home zone of the pool.
    pub homes: Vec<u32>,
    /// What is in the log: host extents and where on the drive each begins; or [`UNREADABLE`].
    pub map: Vec<(LbaExtent, Lba)>,
}

impl Checkpoint {
    /// Its sectors.
    pub fn sectors(homes: usize, mapped: u64) -> Sectors {
        let bytes = SECTOR as u64 + (homes * HOME_BYTES) as u64 + mapped * MAPPED_BYTES as u64;
        Sectors(bytes.div_ceil(SECTOR_BYTES))
    }

    /// Its bytes, whole sectors.
    pub fn encode(&self) -> Vec<u8> {
        let len = Self::sectors(self.homes.len(), self.map.len() as u64).bytes() as usize;
        let mut bytes = vec![0; len];
        bytes[..8].copy_from_slice(CHECKPOINT_MAGIC);
        put(&mut bytes, 16, self.generation, 8);
        put(&mut bytes, 24, self.sequence, 8);
        put(&mut bytes, 32, self.head.1.get(), 8);
        put(&mut bytes, 56, self.head.0.into(), 4);
        bytes[CHECKPOINT_IDENTITY_AT..CHECKPOINT_IDENTITY_AT + 16].copy_from_slice(&self.identity.0);
        put(&mut bytes, 80, self.sizes.zones.into(), 4);
        put(&mut bytes, 84, self.sizes.spare_zones.into(), 4);
        put(&mut bytes, 40, self.homes.len() as u64, 8);
        put(&mut bytes, 48, self.map.len() as u64, 8);
        for (&zone, at) in self.homes.iter().zip((SECTOR..).step_by(HOME_BYTES)) {
            put(&mut bytes, at, zone.into(), HOME_BYTES);
        }
        let map_at = SECTOR + self.homes.len() * HOME_BYTES;
        for ((extent, place), at) in self.map.iter().zip((map_at..).step_by(MAPPED_BYTES)) {
            put(&mut bytes, at, extent.start.get(), 6);
            put(&mut bytes, at + 6, extent.len.get(), 4);
            put(&mut bytes, at + 10, place.get(), 6);
        }
        let crc = crc32c::crc32c(&bytes[SUMMED_FROM..]);
        put(&mut bytes, 8, crc.into(), 4);
        bytes
    }

    /// How long a checkpoint is whose first sector this is, if it is one.
    pub fn len_of(sector: &[u8]) -> Option<Sectors> {
        let is_one = sector.len() >= SECTOR && sector[..8] == *CHECKPOINT_MAGIC;
        let (homes, mapped) = (get(sector.get(..SECTOR)?, 40, 8), get(sector, 48, 8));
        // No drive has as many zones, and no place holds as many entries.
        (is_one && homes <= u64::from(u32::MAX) && mapped < 1 << 40)
            .then(|| Self::sectors(homes as usize, mapped))
    }

    /// The checkpoint in so many bytes as [`Checkpoint::len_of`] says.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        if get(bytes, 8, 4) != u64::from(crc32c::crc32c(bytes.get(SUMMED_FROM..)?)) {
            return None;
        }
        let (homes, mapped) = (get(bytes, 40, 8) as usize, get(bytes, 48, 8) as usize);
        let map_at = SECTOR + homes * HOME_BYTES;
        let zone = |at| get(bytes, at, HOME_BYTES) as u32;
        let entry = |at| {
            let extent = LbaExtent::new(Lba(get(bytes, at, 6)), Sectors(get(bytes, at + 6, 4)));
            (extent, Lba(get(bytes, at + 10, 6)))
        };
        Some(Self {
            identity: identity(bytes, CHECKPOINT_IDENTITY_AT),
            sizes: Sizes { zones: get(bytes, 80, 4) as u32, spare_zones: get(bytes, 84, 4) as u32 },
            generation: get(bytes, 16, 8),
            sequence: get(bytes, 24, 8),
            head: (get(bytes, 56, 4) as u32, Sectors(get(bytes, 32, 8))),
            homes: (SECTOR..).step_by(HOME_BYTES).take(homes).map(zone).collect(),
            map: (map_at..).step_by(MAPPED_BYTES).take(mapped).map(entry).collect(),
        })
    }
}

/// Most entries of the map with which a checkpoint of so many home zones fits into so many sectors; `None` if those are too few.
pub fn map_limit(place: Sectors, homes: u32) -> Option<u64> {
    let rest = place.bytes().checked_sub(SECTOR_BYTES + u64::from(homes) * HOME_BYTES as u64)?;
    Some(rest / MAPPED_BYTES as u64).filter(|&limit| limit >= LEAST_MAP)
}

fn identity(bytes: &[u8], at: usize) -> Identity {
    let mut identity = [0; 16];
    identity.copy_from_slice(&bytes[at..at + 16]);
    Identity(identity)
}

fn put(bytes: &mut [u8], at: usize, value: u64, len: usize) {
    bytes[at..at + len].copy_from_slice(&value.to_le_bytes()[..len]);
}

fn get(bytes: &[u8], at: usize, len: usize) -> u64 {
    let mut value = [0; 8];
    value[..len].copy_from_slice(&bytes[at..at + len]);
    u64::from_le_bytes(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u64) -> LbaExtent {
        LbaExtent::new(Lba(start), Sectors(len))
    }

    #[test]
    fn headers_and_checkpoints_come_back_and_no_bit_may_change() {
        let extents: Vec<_> = (0..EXTENTS as u64).map(|index| extent((1 << 47) + index, 1 << 31)).collect();
        let identity = Identity(std::array::from_fn(|index| index as u8));
        let before = Position { zone: 3, at: Sectors(1 << 33) };
        let home = Kind::Home { home: 7, zone: 9, before };
        let unreadable = Kind::Unreadable(extents.clone());
        for kind in [Kind::Data(extents), home, Kind::Trimmed(extent(1, 1 << 34)), unreadable] {
            let header = Header { identity, sequence: u64::MAX - 1, kind };
            let mut sector = header.encode(77);
            assert_eq!(Header::decode(&sector), Some((header, 77)));
            for bit in 0..sector.len() * 8 {
                sector[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(Header::decode(&sector), None, "bit {bit}");
                sector[bit / 8] ^= 1 << (bit % 8);
            }
        }
        let checkpoint = Checkpoint {
            identity,
            sizes: Sizes { zones: 100, spare_zones: 2 },
            generation: 5,
            sequence: 99,
            head: (70_000, Sectors(1 << 40)),
            homes: (0..300).collect(),
            map: (0..100).map(|index| (extent(index * 8, 3), Lba(index << 30))).collect(),
        };
        let mut bytes = checkpoint.encode();
        assert_eq!(Checkpoint::len_of(&bytes).map(Sectors::bytes), Some(bytes.len() as u64));
        assert_eq!(Checkpoint::decode(&bytes), Some(checkpoint));
        bytes[2_000] ^= 1;
        assert_eq!(Checkpoint::decode(&bytes), None);
    }
}
