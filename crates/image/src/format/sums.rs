//! The sums part: a checksum for each sector of the media, and what tells after a crash which of them count.
//!
//! * *Entries*: 4 bytes for each sector of platters and flash, by its place ([`sum_of`]). A sector of zeros has the
//!   entry 0, so a hole in the entries stands for a hole in the media.
//! * *Marks*: which regions of the media were written since all of them was durable ([`Marks`]). After a power cut
//!   their entries and their data may be of different writes.
//! * *Intent*: the operation under way, with the entries that it is about to make ([`Intent`]). After a kill it alone
//!   may be half done.
//!
//! Invariants: a block of marks is one sector, so it is written whole or not at all; no entry of a sector that was
//! written is [`SPOILED`]; no bytes make a reader panic.

use super::{BLOCK, checksum, put_u32, put_u64, u32_at, u64_at};

/// Where the intent lies in the part.
pub const INTENT: u64 = 4096;
/// Where the entries begin in the part.
pub const ENTRIES: u64 = 16 << 10;
/// Bytes of an entry.
pub const ENTRY: usize = 4;
/// The entry of a sector that is known to be wrong, and stays so until it is written anew: whatever lies there.
pub const SPOILED: u32 = u32::MAX;
/// The most sectors whose entries an intent holds: what is written at a time.
pub const INTENT_SECTORS: usize = 2048;
/// Regions of one block of marks.
pub const REGIONS: usize = MARK_BYTES * 8;
/// Blocks of marks.
pub const MARK_BLOCKS: usize = 2;
/// The least bytes of a region: chosen, because reading as much again after a power cut takes a fraction of a second.
const REGION_LEAST: u64 = 16 << 20;

const MARKS_MAGIC: u32 = u32::from_le_bytes(*b"SKYR");
const INTENT_MAGIC: u32 = u32::from_le_bytes(*b"SKYI");
const BOOT: usize = 8;
const INDEX: usize = 24;
const REGION_SHIFT: usize = 28;
const DIRTY: usize = 32;
const MARK_BYTES: usize = 240;
const UNSURE: usize = DIRTY + MARK_BYTES;
const FIRST: usize = 24;
const COUNT: usize = 32;
const KIND: usize = 40;
/// Where the entries of an intent begin.
pub const INTENT_HEAD: usize = 64;
const WRITES: u32 = 1;
const ZEROS: u32 = 2;

/// A number that the system draws whenever it starts.
pub type BootId = [u8; 16];

/// The CRC32C of a sector of zeros.
const ZERO_SECTOR: u32 = {
    let (mut crc, mut bit) = (u32::MAX, 0);
    while bit < BLOCK * 8 {
        crc = if crc & 1 == 1 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 };
        bit += 1;
    }
    !crc
};

/// The entry of a sector that holds these bytes.
#[inline]
pub fn sum_of(sector: &[u8]) -> u32 {
    (crc32c::crc32c(sector) ^ ZERO_SECTOR).min(SPOILED - 1)
}

/// Bytes of the part for media of so many.
pub fn part_bytes(media_bytes: u64) -> u64 {
    ENTRIES + media_bytes / BLOCK as u64 * ENTRY as u64
}

/// Powers of two: bytes of a region of media of so many.
pub fn region_shift(media_bytes: u64) -> u32 {
    let most = (REGIONS * MARK_BLOCKS) as u64;
    media_bytes.div_ceil(most).max(REGION_LEAST).next_power_of_two().trailing_zeros()
}

/// One block of marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marks {
    /// Of the system that wrote it.
    pub boot: BootId,
    /// Which of the blocks it is.
    pub index: u32,
    /// Power of two: bytes of a region.
    pub region_shift: u32,
    /// By region, the first in the lowest bit of the first byte: written since all of it was durable.
    pub dirty: [u8; MARK_BYTES],
    /// By region: was dirty when the power failed.
    pub unsure: [u8; MARK_BYTES],
}

impl Marks {
    /// One that marks nothing.
    pub fn new(boot: BootId, index: u32, region_shift: u32) -> Self {
        Self { boot, index, region_shift, dirty: [0; MARK_BYTES], unsure: [0; MARK_BYTES] }
    }

    /// The block.
    pub fn encode(&self, salt: u32) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, MARKS_MAGIC);
        block[BOOT..INDEX].copy_from_slice(&self.boot);
        put_u32(&mut block, INDEX, self.index);
        put_u32(&mut block, REGION_SHIFT, self.region_shift);
        block[DIRTY..UNSURE].copy_from_slice(&self.dirty);
        block[UNSURE..].copy_from_slice(&self.unsure);
        let crc = checksum(salt, &block[8..]);
        put_u32(&mut block, 4, crc);
        block
    }

    /// The marks in these bytes, if there are any.
    pub fn decode(block: &[u8; BLOCK], salt: u32) -> Option<Self> {
        if u32_at(block, 0) != MARKS_MAGIC || checksum(salt, &block[8..]) != u32_at(block, 4) {
            return None;
        }
        let mut marks = Self::new([0; 16], u32_at(block, INDEX), u32_at(block, REGION_SHIFT));
        marks.boot.copy_from_slice(&block[BOOT..INDEX]);
        marks.dirty.copy_from_slice(&block[DIRTY..UNSURE]);
        marks.unsure.copy_from_slice(&block[UNSURE..]);
        Some(marks)
    }
}

/// An operation that may be half done: sectors counted from the start of the media.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Intent {
    /// A write: the first sector, and the entries that it leaves.
    Write(u64, Vec<u32>),
    /// Zeros: the first sector, and how many.
    Zeros(u64, u64),
}

/// Fills in the head of an intent before its entries, which lie from [`INTENT_HEAD`] on; none for zeros.
pub fn seal_intent(bytes: &mut [u8], salt: u32, boot: &BootId, (first, count): (u64, u64), zeros: bool) {
    put_u32(bytes, 0, INTENT_MAGIC);
    bytes[BOOT..FIRST].copy_from_slice(boot);
    put_u64(bytes, FIRST, first);
    put_u64(bytes, COUNT, count);
    put_u32(bytes, KIND, if zeros { ZEROS } else { WRITES });
    let crc = checksum(salt, &bytes[8..]);
    put_u32(bytes, 4, crc);
}

/// The intent in these bytes, if the system that wrote it is the one of `boot`.
pub fn open_intent(bytes: &[u8], salt: u32, boot: &BootId) -> Option<Intent> {
    let (first, count, kind) = (u64_at(bytes, FIRST), u64_at(bytes, COUNT), u32_at(bytes, KIND));
    let entries = match kind {
        WRITES if count <= INTENT_SECTORS as u64 => count as usize * ENTRY,
        ZEROS => 0,
        _ => return None,
    };
    let bytes = bytes.get(..INTENT_HEAD + entries)?;
    let whole = u32_at(bytes, 0) == INTENT_MAGIC && checksum(salt, &bytes[8..]) == u32_at(bytes, 4);
    if !whole || bytes[BOOT..FIRST] != boot[..] {
        return None;
    }
    Some(match kind {
        ZEROS => Intent::Zeros(first, count),
        _ => {
            Intent::Write(first, bytes[INTENT_HEAD..].chunks_exact(ENTRY).map(|sum| u32_at(sum, 0)).collect())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_have_the_entry_of_a_hole() {
        assert_eq!(ZERO_SECTOR, crc32c::crc32c(&[0; BLOCK]));
        assert_eq!(sum_of(&[0; BLOCK]), 0);
        assert_ne!(sum_of(&[1; BLOCK]), 0);
    }

    #[test]
    fn regions_fit_their_blocks() {
        for media_bytes in [512, 1 << 30, 160_000_000_000, 5_000_981_078_016, 24_000_000_000_000] {
            let shift = region_shift(media_bytes);
            assert!(shift >= 24 && media_bytes.div_ceil(1 << shift) <= (REGIONS * MARK_BLOCKS) as u64);
        }
    }

    #[test]
    fn marks_and_intents_come_back_and_no_flipped_ones() {
        let boot = [7; 16];
        let mut marks = Marks::new(boot, 1, 24);
        (marks.dirty[3], marks.unsure[239]) = (0x81, 1);
        let mut block = marks.encode(5);
        assert_eq!(Marks::decode(&block, 5), Some(marks));
        assert_eq!(Marks::decode(&block, 6), None);
        block[100] ^= 4;
        assert_eq!(Marks::decode(&block, 5), None);

        let mut bytes = vec![0; INTENT_HEAD + 2 * ENTRY];
        put_u32(&mut bytes, INTENT_HEAD + ENTRY, 99);
        seal_intent(&mut bytes, 5, &boot, (17, 2), false);
        assert_eq!(open_intent(&bytes, 5, &boot), Some(Intent::Write(17, vec![0, 99])));
        assert_eq!(open_intent(&bytes, 5, &[8; 16]), None, "another start of the system");
        for at in 0..bytes.len() {
            bytes[at] ^= 0x10;
            assert_eq!(open_intent(&bytes, 5, &boot), None, "byte {at}");
            bytes[at] ^= 0x10;
        }
        seal_intent(&mut bytes[..INTENT_HEAD], 5, &boot, (17, 1 << 40), true);
        assert_eq!(open_intent(&bytes[..INTENT_HEAD], 5, &boot), Some(Intent::Zeros(17, 1 << 40)));
    }
}
