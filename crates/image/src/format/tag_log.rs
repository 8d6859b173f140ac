//! The tag log: blocks of tags, each of which says where an extent lies from its sequence number on.
//!
//! Invariants: a block is written once, or again with more tags before the next sync; its place in the ring
//! follows from its position; tags of any subset of the blocks since the last sync make sense by themselves.

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::capabilities::zoned::{ZoneAccess, ZoneRecord};

use super::{BLOCK, checksum, put_u32, put_u64, u32_at, u64_at};

/// Tags in a block.
pub const TAGS: usize = 8;
const HEAD: usize = 32;
const TAG: usize = 60;
const MAGIC: u32 = u32::from_le_bytes(*b"SKYT");

/// What a tag says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The extent is in the persistent cache, at the tag's place, if its data has this checksum.
    Cached {
        /// Of the data of the extent.
        data_crc: u32,
        /// The access that wrote it.
        access: PbaExtent,
        /// Sectors that accesses to the cache had taken before.
        taken: u64,
    },
    /// The extent is where its band is; nothing of it is in the cache.
    Home {
        /// How many tags before this one are of the same plan, on a drive with zones: without them it does not count.
        follows: u32,
    },
    /// The extent, a whole band, is at the tag's place; nothing of it is in the cache.
    Moved,
    /// The extent was written in place, on a drive where that destroys what it destroys.
    Written {
        /// Its number among all writes of the disk, from 1 on.
        number: u64,
        /// When, in nanoseconds of the UNIX clock.
        at_ns: u64,
    },
    /// A zone has this record, if the extent, which may be empty, has data with this checksum.
    Zone {
        /// Of the data of the extent.
        data_crc: u32,
        /// The record.
        record: ZoneRecord,
        /// How far the zone was written before.
        before: Sectors,
        /// How many tags before this one are of the same plan: without them it does not count.
        follows: u32,
    },
}

/// See the module page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// Of two tags for a sector the one with the higher number is true.
    pub sequence: u64,
    /// What the host calls the extent.
    pub lba: LbaExtent,
    /// Where it lies; 0 for [`Kind::Home`], [`Kind::Written`] and [`Kind::Zone`].
    pub pba: Pba,
    /// What it says.
    pub kind: Kind,
}

/// A block of tags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TagBlock {
    /// How many blocks came before it; its place in the ring is the remainder by the ring's length.
    pub position: u64,
    /// All tags up to this number were durable before the block was written.
    pub durable: u64,
    /// The checkpoint that it goes on from.
    pub generation: u32,
    /// At most [`TAGS`].
    pub tags: Vec<Tag>,
}

impl TagBlock {
    /// The bytes.
    pub fn encode(&self, salt: u32) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, MAGIC);
        put_u64(&mut block, 8, self.position);
        put_u64(&mut block, 16, self.durable);
        put_u32(&mut block, 24, self.generation);
        put_u32(&mut block, 28, self.tags.len() as u32);
        for (tag, bytes) in self.tags.iter().zip(block[HEAD..].chunks_exact_mut(TAG)) {
            encode_tag(tag, bytes);
        }
        let crc = checksum(salt, &block[8..]);
        put_u32(&mut block, 4, crc);
        block
    }

    /// The block in these bytes, if there is one.
    pub fn decode(block: &[u8; BLOCK], salt: u32) -> Option<Self> {
        let count = u32_at(block, 28) as usize;
        if u32_at(block, 0) != MAGIC || count > TAGS || checksum(salt, &block[8..]) != u32_at(block, 4) {
            return None;
        }
        let tags: Option<Vec<Tag>> = block[HEAD..].chunks_exact(TAG).take(count).map(decode_tag).collect();
        Some(Self {
            position: u64_at(block, 8),
            durable: u64_at(block, 16),
            generation: u32_at(block, 24),
            tags: tags?,
        })
    }
}

fn encode_tag(tag: &Tag, bytes: &mut [u8]) {
    let number = match tag.kind {
        Kind::Cached { .. } => 1,
        Kind::Home { .. } => 2,
        Kind::Moved => 3,
        Kind::Written { .. } => 4,
        Kind::Zone { .. } => 5,
    };
    put_u32(bytes, 0, number);
    put_u64(bytes, 8, tag.sequence);
    put_u64(bytes, 16, tag.lba.start.get());
    put_u64(bytes, 24, tag.lba.len.get());
    put_u64(bytes, 32, tag.pba.get());
    if let Kind::Cached { data_crc, access, taken } = tag.kind {
        put_u32(bytes, 4, data_crc);
        put_u64(bytes, 40, taken);
        put_u64(bytes, 48, access.start.get());
        put_u32(bytes, 56, access.len.get() as u32);
    }
    if let Kind::Home { follows } = tag.kind {
        put_u32(bytes, 52, follows);
    }
    if let Kind::Written { number, at_ns } = tag.kind {
        put_u64(bytes, 40, at_ns);
        put_u64(bytes, 48, number);
    }
    if let Kind::Zone { data_crc, record, before, follows } = tag.kind {
        put_u32(bytes, 4, data_crc);
        put_u64(bytes, 32, record.written.get());
        put_u64(bytes, 40, before.get());
        put_u32(bytes, 48, record.zone);
        put_u32(bytes, 52, follows);
        put_u32(bytes, 56, zone_flags(&record));
    }
}

/// The zone was finished.
const FINISHED: u32 = 1;
/// The zone was written out of order.
const NON_SEQUENTIAL: u32 = 2;
/// The zone is read-only.
const READ_ONLY: u32 = 4;
/// The zone is offline.
const OFFLINE: u32 = 8;

/// What a record says beside a length.
pub(super) fn zone_flags(record: &ZoneRecord) -> u32 {
    let access = match record.access {
        ZoneAccess::Writable => 0,
        ZoneAccess::ReadOnly => READ_ONLY,
        ZoneAccess::Offline => OFFLINE,
    };
    let finished = if record.finished { FINISHED } else { 0 };
    let non_sequential = if record.non_sequential { NON_SEQUENTIAL } else { 0 };
    finished | non_sequential | access
}

/// The record of a zone with these flags; none if there are none such.
pub(super) fn zone_record(zone: u32, written: u64, flags: u32) -> Option<ZoneRecord> {
    let access = match flags & !(FINISHED | NON_SEQUENTIAL) {
        0 => ZoneAccess::Writable,
        READ_ONLY => ZoneAccess::ReadOnly,
        OFFLINE => ZoneAccess::Offline,
        _ => return None,
    };
    let (finished, non_sequential) = (flags & FINISHED != 0, flags & NON_SEQUENTIAL != 0);
    Some(ZoneRecord { zone, written: Sectors(written), finished, non_sequential, access })
}

fn decode_tag(bytes: &[u8]) -> Option<Tag> {
    let kind = match u32_at(bytes, 0) {
        1 => Kind::Cached {
            data_crc: u32_at(bytes, 4),
            access: PbaExtent::new(Pba(u64_at(bytes, 48)), Sectors(u32_at(bytes, 56).into())),
            taken: u64_at(bytes, 40),
        },
        2 => Kind::Home { follows: u32_at(bytes, 52) },
        3 => Kind::Moved,
        4 => Kind::Written { number: u64_at(bytes, 48), at_ns: u64_at(bytes, 40) },
        5 => Kind::Zone {
            data_crc: u32_at(bytes, 4),
            record: zone_record(u32_at(bytes, 48), u64_at(bytes, 32), u32_at(bytes, 56))?,
            before: Sectors(u64_at(bytes, 40)),
            follows: u32_at(bytes, 52),
        },
        _ => return None,
    };
    // A zone has its length where others have a place.
    let pba = if let Kind::Zone { .. } = kind { Pba(0) } else { Pba(u64_at(bytes, 32)) };
    Some(Tag {
        sequence: u64_at(bytes, 8),
        lba: LbaExtent::new(Lba(u64_at(bytes, 16)), Sectors(u64_at(bytes, 24))),
        pba,
        kind,
    })
}
