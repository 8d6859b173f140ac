//! The head of a part: the first bytes of each file or device of an image but the first.
//!
//! The head names the image, the number of the part and the checkpoint that the part goes with. So a part that was
//! exchanged, replaced, or rolled back by itself is refused.
//!
//! Invariants: the head is written twice; before the heads of a checkpoint are written, each part has durably announced
//! its generation; after they are durable, each part confirms it. So a part never confirms a generation that the
//! image does not have, and the image never has a generation that a part has not announced.

use super::{BLOCK, checksum, put_u32, put_u64, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"SKYPART\0";
/// The version of heads: they have not changed since.
const VERSION: u32 = 2;
const CRC_AT: usize = BLOCK - 4;
/// As with superblocks: a head is read before it is known which image it is of.
const UNSALTED: u32 = 0;
/// Copies of a head, one behind the other.
const COPIES: usize = 2;

/// Where the data of a part begins.
pub const START: u64 = 4096;
/// Bytes of a head with its copy.
pub const HEAD_BYTES: usize = COPIES * BLOCK;

/// See the module page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartHead {
    /// The number of the image, as in its superblock.
    pub identity: u128,
    /// Which part: the first file of the image, which has no head, is 0.
    pub number: u32,
    /// Bytes of the part behind [`START`].
    pub len: u64,
    /// The newest checkpoint that the part knows of.
    pub generation: u32,
    /// Whether the heads of that checkpoint were durable when this was written.
    pub confirmed: bool,
}

impl PartHead {
    /// The head and its copy.
    pub fn encode(&self) -> [u8; HEAD_BYTES] {
        let mut block = [0; BLOCK];
        block[..8].copy_from_slice(&MAGIC);
        put_u32(&mut block, 8, VERSION);
        put_u32(&mut block, 12, self.number);
        block[16..32].copy_from_slice(&self.identity.to_le_bytes());
        put_u64(&mut block, 32, self.len);
        put_u32(&mut block, 40, self.generation);
        put_u32(&mut block, 44, self.confirmed.into());
        let crc = checksum(UNSALTED, &block[..CRC_AT]);
        put_u32(&mut block, CRC_AT, crc);
        let mut both = [0; HEAD_BYTES];
        both.chunks_exact_mut(BLOCK).for_each(|copy| copy.copy_from_slice(&block));
        both
    }

    /// The newest of the copies in these bytes, if any adds up.
    pub fn decode(both: &[u8; HEAD_BYTES]) -> Option<Self> {
        let copies = both.chunks_exact(BLOCK).filter_map(|copy| Self::decode_copy(copy.try_into().ok()?));
        copies.max_by_key(|head| (head.generation, head.confirmed))
    }

    fn decode_copy(block: &[u8; BLOCK]) -> Option<Self> {
        let whole = checksum(UNSALTED, &block[..CRC_AT]) == u32_at(block, CRC_AT);
        let known = block[..8] == MAGIC && u32_at(block, 8) == VERSION;
        let mut identity = [0; 16];
        identity.copy_from_slice(&block[16..32]);
        (whole && known).then(|| Self {
            identity: u128::from_le_bytes(identity),
            number: u32_at(block, 12),
            len: u64_at(block, 32),
            generation: u32_at(block, 40),
            confirmed: u32_at(block, 44) != 0,
        })
    }

    /// Whether a part with this head goes with an image whose newest checkpoint is of this generation.
    pub fn goes_with(&self, generation: u32) -> bool {
        self.generation == generation || !self.confirmed && self.generation == generation.wrapping_add(1)
    }
}
