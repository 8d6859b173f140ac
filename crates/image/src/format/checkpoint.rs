//! Checkpoints: all that lies elsewhere than on a new drive, at one point of the tag log.
//!
//! A checkpoint is a block of 512 bytes, the same block again, and its entries. The entries are durable before
//! the blocks are written, so a block that is whole over entries that are not is damage and no power cut.

use skylight_disk::shingling::Destroyed;
use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors, Time};
use skylight_layer::capabilities::overwriting::Stamp;
use skylight_layer::capabilities::zoned::ZoneRecord;
use skylight_layer::{CachedExtent, MediaUse};

use super::tag_log::{zone_flags, zone_record};
use super::{BLOCK, checksum, put_u32, put_u64, u32_at, u64_at};

const MAGIC: u32 = u32::from_le_bytes(*b"SKYC");
/// Where entries begin, from the start of the area.
pub const ENTRIES: u64 = 4096;
/// Bytes of an entry for an extent in the cache.
pub const CACHED: usize = 40;
/// Bytes of an entry for a band that was moved.
pub const MOVED: usize = 24;

/// Bytes of an entry for an overwritten fragment.
pub const FRAGMENT: usize = 24;
/// Bytes of an entry for who wrote what lies on such fragments.
pub const WRITER: usize = 32;
/// Bytes of an entry for a zone.
pub const ZONE: usize = 16;

/// The most bytes that a checkpoint takes on a drive of this room: a band may be moved for the layer and in the image, and
/// each of the sectors that can be overwritten may be a fragment, with data of a write of its own.
pub fn most_bytes(room: &MediaUse) -> u64 {
    let overwritten = room.overwritable.get() * (FRAGMENT + WRITER) as u64;
    let bands = 2 * room.movable * MOVED as u64;
    ENTRIES + room.cached.get() * CACHED as u64 + bands + overwritten + room.zones * ZONE as u64
}

/// The head of a checkpoint.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Checkpoints that came before.
    pub generation: u32,
    /// Whether nothing was written after it when it was made: the drive was switched off.
    pub clean: bool,
    /// The position of the first block of the log that is not in it.
    pub log_position: u64,
    /// The highest sequence number that was given away.
    pub sequence: u64,
    /// Entries for cached extents.
    pub cached: u64,
    /// Entries for moved bands, behind those.
    pub moved: u64,
    /// Of the entries.
    pub entries_crc: u32,
    /// Entries for overwritten fragments, behind those.
    pub fragments: u64,
    /// Entries for who wrote what lies on them, behind those.
    pub writers: u64,
    /// Writes so far of a drive whose sectors can be overwritten.
    pub writes: u64,
    /// The highest sequence number before the log position: what later tags changed may be in the entries or not. 0 in
    /// images of version 1.
    pub covered: u64,
    /// Whether the bytes of the image lie in place: the entries are then what the layer has.
    pub in_place: bool,
    /// Entries for bands whose bytes lie elsewhere than on a new drive in an image in place, behind those.
    pub fixed: u64,
    /// Entries for zones that are not as on a new drive, behind all others.
    pub zones: u64,
}

impl Head {
    /// The block.
    pub fn encode(&self, salt: u32) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, MAGIC);
        put_u32(&mut block, 8, self.generation);
        put_u32(&mut block, 12, self.clean.into());
        put_u64(&mut block, 16, self.log_position);
        put_u64(&mut block, 24, self.sequence);
        put_u64(&mut block, 32, self.cached);
        put_u64(&mut block, 40, self.moved);
        put_u32(&mut block, 48, self.entries_crc);
        put_u64(&mut block, 56, self.fragments);
        put_u64(&mut block, 64, self.writers);
        put_u64(&mut block, 72, self.writes);
        put_u64(&mut block, 80, self.covered);
        put_u32(&mut block, 88, self.in_place.into());
        put_u64(&mut block, 96, self.fixed);
        put_u64(&mut block, 104, self.zones);
        let crc = checksum(salt, &block[8..]);
        put_u32(&mut block, 4, crc);
        block
    }

    /// The head in these bytes, if there is one.
    pub fn decode(block: &[u8; BLOCK], salt: u32) -> Option<Self> {
        if u32_at(block, 0) != MAGIC || checksum(salt, &block[8..]) != u32_at(block, 4) {
            return None;
        }
        Some(Self {
            generation: u32_at(block, 8),
            clean: u32_at(block, 12) != 0,
            log_position: u64_at(block, 16),
            sequence: u64_at(block, 24),
            cached: u64_at(block, 32),
            moved: u64_at(block, 40),
            entries_crc: u32_at(block, 48),
            fragments: u64_at(block, 56),
            writers: u64_at(block, 64),
            writes: u64_at(block, 72),
            covered: u64_at(block, 80),
            in_place: u32_at(block, 88) != 0,
            fixed: u64_at(block, 96),
            zones: u64_at(block, 104),
        })
    }

    /// Bytes of the entries; none if that is more than any medium has.
    pub fn entries_bytes(&self) -> Option<u64> {
        let of = |count: u64, bytes: usize| count.checked_mul(bytes as u64);
        let layer = of(self.cached, CACHED)?.checked_add(of(self.moved, MOVED)?)?;
        let layer = layer.checked_add(of(self.fixed, MOVED)?)?.checked_add(of(self.zones, ZONE)?)?;
        layer.checked_add(of(self.fragments, FRAGMENT)?)?.checked_add(of(self.writers, WRITER)?)
    }
}

/// The entry of an extent in the cache.
pub fn encode_cached(found: &CachedExtent, bytes: &mut Vec<u8>) {
    bytes.extend(found.lba.start.get().to_le_bytes());
    bytes.extend(found.pba.get().to_le_bytes());
    bytes.extend(found.access.start.get().to_le_bytes());
    bytes.extend(found.taken.to_le_bytes());
    bytes.extend((found.lba.len.get() as u32).to_le_bytes());
    bytes.extend((found.access.len.get() as u32).to_le_bytes());
}

/// What [`encode_cached`] wrote.
pub fn decode_cached(bytes: &[u8]) -> CachedExtent {
    let sectors = |at| Sectors(u32_at(bytes, at).into());
    CachedExtent {
        lba: LbaExtent::new(Lba(u64_at(bytes, 0)), sectors(32)),
        pba: Pba(u64_at(bytes, 8)),
        access: PbaExtent::new(Pba(u64_at(bytes, 16)), sectors(36)),
        taken: u64_at(bytes, 24),
    }
}

/// The entry of a band that was moved.
pub fn encode_moved(lba: LbaExtent, pba: Pba, bytes: &mut Vec<u8>) {
    bytes.extend(lba.start.get().to_le_bytes());
    bytes.extend(lba.len.get().to_le_bytes());
    bytes.extend(pba.get().to_le_bytes());
}

/// What [`encode_moved`] wrote.
pub fn decode_moved(bytes: &[u8]) -> (LbaExtent, Pba) {
    (LbaExtent::new(Lba(u64_at(bytes, 0)), Sectors(u64_at(bytes, 8))), Pba(u64_at(bytes, 16)))
}

/// The entry of an overwritten fragment.
pub fn encode_fragment(fragment: &Destroyed, bytes: &mut Vec<u8>) {
    bytes.extend(fragment.extent.start.get().to_le_bytes());
    bytes.extend(fragment.first_source.get().to_le_bytes());
    bytes.extend((fragment.extent.len.get() as u32).to_le_bytes());
    bytes.extend(((fragment.last_source - fragment.first_source).get() as u32).to_le_bytes());
}

/// What [`encode_fragment`] wrote.
pub fn decode_fragment(bytes: &[u8]) -> Destroyed {
    let first_source = u64_at(bytes, 8);
    Destroyed {
        extent: PbaExtent::new(Pba(u64_at(bytes, 0)), Sectors(u32_at(bytes, 16).into())),
        first_source: Pba(first_source),
        last_source: Pba(first_source.saturating_add(u32_at(bytes, 20).into())),
    }
}

/// The entry of who wrote an extent.
pub fn encode_writer(extent: PbaExtent, by: Stamp, bytes: &mut Vec<u8>) {
    for value in [extent.start.get(), extent.len.get(), by.write, by.at.get()] {
        bytes.extend(value.to_le_bytes());
    }
}

/// What [`encode_writer`] wrote.
pub fn decode_writer(bytes: &[u8]) -> (PbaExtent, Stamp) {
    let extent = PbaExtent::new(Pba(u64_at(bytes, 0)), Sectors(u64_at(bytes, 8)));
    (extent, Stamp { write: u64_at(bytes, 16), at: Time(u64_at(bytes, 24)) })
}

/// The entry of a zone.
pub fn encode_zone(record: &ZoneRecord, bytes: &mut Vec<u8>) {
    bytes.extend(record.written.get().to_le_bytes());
    bytes.extend(record.zone.to_le_bytes());
    bytes.extend(zone_flags(record).to_le_bytes());
}

/// What [`encode_zone`] wrote; none if no zone can be so.
pub fn decode_zone(bytes: &[u8]) -> Option<ZoneRecord> {
    zone_record(u32_at(bytes, 8), u64_at(bytes, 0), u32_at(bytes, 12))
}
