//! The first block of a flash that lies on another file or device than the rest, in an image of version 1: whose it is.
//! Later images have a [`PartHead`](super::part_head::PartHead) there.
//!
//! Invariant: it is written before the superblock that names it, and never again.

use super::{BLOCK, checksum, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"SKYFLASH";
/// The only version that had such heads.
const VERSION: u32 = 1;
const CRC_AT: usize = BLOCK - 4;
/// As with superblocks: they say what the salt of everything else is.
const UNSALTED: u32 = 0;

/// Whether a block is the head of the flash of an image: the image's salt, and bytes of the flash.
pub fn is_head(block: &[u8; BLOCK], salt: u32, len: u64) -> bool {
    checksum(UNSALTED, &block[..CRC_AT]) == u32_at(block, CRC_AT)
        && block[..8] == MAGIC
        && (u32_at(block, 8), u32_at(block, 12), u64_at(block, 16)) == (VERSION, salt, len)
}
