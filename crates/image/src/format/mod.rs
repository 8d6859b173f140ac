//! The on-media formats, byte by byte as `docs/formats.md` has them.
//!
//! * [`superblock`]: what the image is, and where its parts lie.
//! * [`creation_mark`]: that an image is being made.
//! * [`part_head_v1`]: whose a flash is that lies on another device, in images of version 1.
//! * [`tag_log`]: blocks of the tag log; a tag says where an extent lies from a sequence number on.
//! * [`checkpoint`]: where everything lies, at one point of the log.
//! * [`log_end`]: how far the log was durable.
//! * [`part_head`]: the head of each further file or device of an image: whose it is, and of when.
//! * [`sums`]: a checksum for each sector of the media, where an image has them.
//!
//! Invariants: little-endian; every block of 512 bytes carries a CRC32C, salted with the image's own number, so
//! that blocks of an older image on the same medium are no blocks; no bytes make a reader panic.

pub mod checkpoint;
pub mod creation_mark;
pub mod log_end;
pub mod part_head;
pub mod part_head_v1;
pub mod sums;
pub mod superblock;
pub mod tag_log;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// The version of the formats.
pub const VERSION: u32 = 3;
/// Bytes of a block: the sector that is written whole or not at all.
pub const BLOCK: usize = 512;

/// The checksum of bytes of this image.
pub(crate) fn checksum(salt: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(salt, bytes)
}

/// A field of 8 bytes.
pub(crate) fn u64_at(block: &[u8], at: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&block[at..at + 8]);
    u64::from_le_bytes(bytes)
}

/// A field of 4 bytes.
pub(crate) fn u32_at(block: &[u8], at: usize) -> u32 {
    let mut bytes = [0; 4];
    bytes.copy_from_slice(&block[at..at + 4]);
    u32::from_le_bytes(bytes)
}

pub(crate) fn put_u64(block: &mut [u8], at: usize, value: u64) {
    block[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_u32(block: &mut [u8], at: usize, value: u32) {
    block[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

/// A number that no other image has, from the keys that the system gives every process.
pub(crate) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}
