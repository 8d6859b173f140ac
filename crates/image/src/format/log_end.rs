//! Marks of the log's end: how far the tag log was durable, outside of the log.
//!
//! A log cannot show that its last blocks are missing. A mark can: it names the newest checkpoint and the last tag that
//! a completed sync has made durable. There are two slots, written in turn, so a mark that is being written leaves the
//! one before it whole.
//!
//! Invariant: a mark speaks only of what a completed sync has made durable before the mark was written. So any mark that
//! is found, the newest or an older one, is true, and a power cut cannot make one that is not.

use super::{BLOCK, checksum, put_u32, put_u64, u32_at, u64_at};

const MAGIC: u32 = u32::from_le_bytes(*b"SKYM");
/// Bytes from one slot to the other: no medium has larger physical sectors, so one torn write harms one slot.
pub const SLOT_BYTES: u64 = 4096;
/// Slots of the part.
pub const SLOTS: u64 = 2;

/// See the module page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Mark {
    /// The newest checkpoint whose heads were durable.
    pub generation: u32,
    /// Every tag up to this sequence number was durable, in the log or in a checkpoint.
    pub durable: u64,
    /// Position of the block behind the last one that was durable.
    pub log_end: u64,
}

impl Mark {
    /// The block.
    pub fn encode(&self, salt: u32) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        put_u32(&mut block, 0, MAGIC);
        put_u32(&mut block, 8, self.generation);
        put_u64(&mut block, 16, self.log_end);
        put_u64(&mut block, 24, self.durable);
        let crc = checksum(salt, &block[8..]);
        put_u32(&mut block, 4, crc);
        block
    }

    /// The mark in these bytes, if there is one.
    pub fn decode(block: &[u8; BLOCK], salt: u32) -> Option<Self> {
        let whole = u32_at(block, 0) == MAGIC && checksum(salt, &block[8..]) == u32_at(block, 4);
        whole.then(|| Self {
            generation: u32_at(block, 8),
            log_end: u64_at(block, 16),
            durable: u64_at(block, 24),
        })
    }
}
