//! The first block of a flash that lies on another file or device than the rest, in an image of version 1: whose it is.
//! Later images have a [`PartHead`](super::part::PartHead) there.
//!
//! Invariant: it is written before the superblock that names it, and never again.

use super::{BLOCK, checksum, put_u32, put_u64, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"SKYFLASH";
/// The only version that had such heads.
const VERSION: u32 = 1;
const CRC_AT: usize = BLOCK - 4;
/// As with superblocks: they say what the salt of everything else is.
const UNSALTED: u32 = 0;

/// Where the flash itself begins.
pub const START: u64 = 4096;

/// See the module page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlashHead {
    /// The salt of the image.
    pub salt: u32,
    /// Bytes of the flash.
    pub len: u64,
}

impl FlashHead {
    /// The block.
    pub fn encode(&self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, VERSION);
        put_u32(&mut block, 12, self.salt);
        put_u64(&mut block, 16, self.len);
        let crc = checksum(UNSALTED, &block[..CRC_AT]);
        put_u32(&mut block, CRC_AT, crc);
        block
    }

    /// The head in these bytes, if there is one of a version that is known.
    pub fn decode(block: &[u8; BLOCK]) -> Option<Self> {
        let whole = checksum(UNSALTED, &block[..CRC_AT]) == u32_at(block, CRC_AT);
        let known = block[..8] == MAGIC && u32_at(block, 8) == VERSION;
        (whole && known).then(|| Self { salt: u32_at(block, 12), len: u64_at(block, 16) })
    }
}
