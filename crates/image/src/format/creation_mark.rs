//! The first block of a file while an image is being made in it: so that what is left of one that was interrupted is
//! recognised, and nobody else's file is taken for it.
//!
//! Invariant: it is durable before the file is made longer than this block, and goes with the superblock, or the head
//! of a part, which is written in its place last.

use super::{BLOCK, checksum, put_u32, u32_at};

const MAGIC: [u8; 8] = *b"SKYBEGUN";
/// The version of this block.
const VERSION: u32 = 2;
const CRC_AT: usize = BLOCK - 4;
const UNSALTED: u32 = 0;

/// See the module page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// The number that the image is to have, as in its superblock; 0 as long as that is not drawn.
    pub identity: u128,
}

impl Begun {
    /// The block.
    pub fn encode(self) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, VERSION);
        block[16..32].copy_from_slice(&self.identity.to_le_bytes());
        let crc = checksum(UNSALTED, &block[..CRC_AT]);
        put_u32(&mut block, CRC_AT, crc);
        block
    }

    /// The mark in these bytes, if there is one.
    pub fn decode(block: &[u8; BLOCK]) -> Option<Self> {
        let whole = checksum(UNSALTED, &block[..CRC_AT]) == u32_at(block, CRC_AT);
        let mut identity = [0; 16];
        identity.copy_from_slice(&block[16..32]);
        (whole && block[..8] == MAGIC).then(|| Self { identity: u128::from_le_bytes(identity) })
    }
}
