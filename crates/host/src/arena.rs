//! Page-aligned I/O buffers, and the pattern that writes carry.
//!
//! Invariants: reads and writes have separate arenas, so that a write never carries data of an earlier read;
//! every 512-byte sector of a write starts with [`MAGIC`] and its own byte offset, and the rest is
//! pseudo-random, so that a drive can neither compress nor deduplicate it.
//!
//! Large I/Os get huge pages where the kernel has them. A command may consist of at most `queue/max_segments`
//! separate pieces of memory (168 behind AHCI, 128 of a loop device), and without huge pages each piece is one
//! page, so the kernel would split a write of 864 KiB into two commands.

use std::io;
use std::ptr::NonNull;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mmap_anonymous, munmap};

/// The first eight bytes of every sector that is written.
pub const MAGIC: [u8; 8] = *b"SKYLIGHT";

const SECTOR_BYTES: usize = 512;
const PAGE_BYTES: usize = 4096;
const HUGE_BYTES: usize = 2 << 20;
/// I/Os above this get huge pages: chosen, a quarter of what fits in 126 pages, the fewest segments of the drivers
/// of disks (virtio).
const LARGE_BYTES: usize = 128 << 10;

/// Equal, page-aligned slots in one anonymous mapping.
#[derive(Debug)]
pub struct Arena {
    /// The mapping, and its size in bytes.
    mapped: Option<(NonNull<u8>, usize)>,
    start: Option<NonNull<u8>>,
    slot_bytes: usize,
    total_bytes: usize,
}

// SAFETY: this value owns the mapping, which is not tied to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Maps `slots` slots of at least `bytes` bytes each; no mapping at all when either is zero.
    pub fn new(slots: usize, bytes: usize) -> io::Result<Self> {
        let slot_bytes = bytes.next_multiple_of(PAGE_BYTES);
        let total_bytes = slots.saturating_mul(slot_bytes);
        if total_bytes == 0 {
            return Ok(Self { mapped: None, start: None, slot_bytes, total_bytes });
        }
        let is_large = slot_bytes > LARGE_BYTES;
        let whole_bytes = if is_large {
            total_bytes.saturating_add(2 * HUGE_BYTES - 1) / HUGE_BYTES * HUGE_BYTES
        } else {
            total_bytes
        };
        // SAFETY: a new anonymous mapping at an address that the kernel chooses overlaps no other.
        let raw = unsafe {
            mmap_anonymous(
                std::ptr::null_mut(),
                whole_bytes,
                ProtFlags::READ | ProtFlags::WRITE,
                MapFlags::PRIVATE,
            )?
        };
        let Some(base) = NonNull::new(raw.cast::<u8>()) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        let mut start = base;
        if is_large {
            // SAFETY: the mapping is longer than the slots by enough for the next multiple of a huge page; the
            // advice is for this mapping. Without huge pages it fails, and the I/O may be cut.
            unsafe {
                start = base.add(base.align_offset(HUGE_BYTES));
                let _ = madvise(raw, whole_bytes, Advice::LinuxHugepage);
            }
        }
        Ok(Self { mapped: Some((base, whole_bytes)), start: Some(start), slot_bytes, total_bytes })
    }

    /// Size of a slot, bytes.
    pub fn slot_bytes(&self) -> usize {
        self.slot_bytes
    }

    /// Total size, bytes.
    pub fn total_bytes(&self) -> usize {
        self.total_bytes
    }

    /// The start of a slot, which must exist.
    pub fn slot(&self, slot: usize) -> *mut u8 {
        let offset = slot * self.slot_bytes;
        assert!(offset + self.slot_bytes <= self.total_bytes, "slot exists");
        match self.start {
            // SAFETY: the assertion keeps the offset inside the mapping.
            Some(start) => unsafe { start.as_ptr().add(offset) },
            None => std::ptr::null_mut(),
        }
    }

    /// The bytes of a slot. No I/O may be in flight on it.
    pub fn bytes_mut(&mut self, slot: usize) -> &mut [u8] {
        let start = self.slot(slot);
        if start.is_null() {
            return &mut [];
        }
        // SAFETY: the slot lies inside the mapping, which lives as long as `self`; the exclusive borrow
        // excludes all other safe accesses.
        unsafe { std::slice::from_raw_parts_mut(start, self.slot_bytes) }
    }

    /// Fills every slot with pseudo-random words that are never zero.
    pub fn fill(&mut self) {
        let mut state = 0x5359_4c49_4748_5421_u64;
        for slot in 0..self.total_bytes.checked_div(self.slot_bytes).unwrap_or(0) {
            for word in self.bytes_mut(slot).chunks_exact_mut(8) {
                state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
                word.copy_from_slice(&(mix(state) | 1).to_le_bytes());
            }
        }
    }

    /// Writes the magic and the byte offset of every sector into a slot, ready to go to `offset`.
    pub fn stamp(&mut self, slot: usize, offset: u64, size: usize) {
        let bytes = &mut self.bytes_mut(slot)[..size];
        let mut sector_offset = offset;
        for sector in bytes.chunks_exact_mut(SECTOR_BYTES) {
            sector[..8].copy_from_slice(&MAGIC);
            sector[8..16].copy_from_slice(&sector_offset.to_le_bytes());
            sector_offset += SECTOR_BYTES as u64;
        }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        if let Some((base, bytes)) = self.mapped {
            // SAFETY: this is the mapping that `new` made, and no borrow of it exists any more. An error
            // would only leak the mapping.
            let _ = unsafe { munmap(base.as_ptr().cast(), bytes) };
        }
    }
}

/// The finalizer of SplitMix64 (Steele, Lea, Flood, "Fast splittable pseudorandom number generators").
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_sector_holds_its_offset_and_no_zero_word() -> io::Result<()> {
        let mut arena = Arena::new(3, 6000)?;
        assert_eq!(arena.slot_bytes(), 8192);
        assert_eq!(arena.slot(2).align_offset(PAGE_BYTES), 0);
        arena.fill();
        arena.stamp(1, 1 << 40, 8192);
        for (i, sector) in arena.bytes_mut(1).chunks_exact(512).enumerate() {
            let offset = (1_u64 << 40) + 512 * i as u64;
            assert_eq!(sector[..8], MAGIC);
            assert_eq!(sector[8..16], offset.to_le_bytes());
            assert_ne!(sector[510..], [0x55, 0xaa], "must not resemble a boot sector");
            assert!(sector[16..].chunks_exact(8).all(|word| word != [0; 8]));
        }
        Ok(())
    }

    #[test]
    fn large_slots_begin_at_a_huge_page() -> io::Result<()> {
        for (slots, bytes) in [(1, 864 << 10), (31, 1 << 20), (3, LARGE_BYTES + 1)] {
            let mut arena = Arena::new(slots, bytes)?;
            assert_eq!(arena.slot(0).align_offset(HUGE_BYTES), 0);
            arena.fill();
            assert_eq!(arena.total_bytes(), slots * bytes.next_multiple_of(PAGE_BYTES));
        }
        Ok(())
    }

    #[test]
    fn an_empty_arena_has_no_mapping() -> io::Result<()> {
        let mut arena = Arena::new(4, 0)?;
        arena.fill();
        assert_eq!(arena.total_bytes(), 0);
        Ok(())
    }
}
