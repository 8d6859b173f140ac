//! The reading half of a store with checksums ([`super::checksummed`]): what is read is compared with its entries.
//!
//! Invariants: no byte of the media that was not compared leaves a read; what seems wrong beside a write is read again
//! while nobody writes.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::Reads;
use super::dirty_regions::Unsure;
use crate::format::sums::{ENTRIES, ENTRY, Intent, SPOILED, sum_of};
use crate::format::superblock::Part;
use crate::format::{BLOCK, u32_at};
use crate::mismatch::Mismatch;

pub(super) const SECTOR: u64 = BLOCK as u64;
/// Sectors that are compared at a time: their bytes are still in the processor's cache when they are.
pub(super) const TOGETHER: usize = 256;

/// What readers and the writer share.
pub(super) struct Shared {
    pub sums: Part,
    pub media: Part,
    pub shift: u32,
    pub unsure: Arc<Unsure>,
    /// Held by who writes. An operation whose entries may not all be there: after a kill, or after an error.
    pub gate: Mutex<Option<Intent>>,
    pub mismatches: AtomicU64,
    pub accepted: AtomicU64,
    pub mended: AtomicU64,
}

pub(super) type ReadAt<'a> = &'a dyn Fn(u64, &mut [u8]) -> io::Result<()>;

/// The entry at an index of the bytes of some.
pub(super) fn entry_at(entries: &[u8], index: usize) -> u32 {
    u32_at(entries, index * ENTRY)
}

impl Shared {
    // What is behind the gate is whole between any two statements that can panic.
    pub fn gate(&self) -> MutexGuard<'_, Option<Intent>> {
        self.gate.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The number of the sector of the media at a byte of the store.
    pub fn sector(&self, offset: u64) -> u64 {
        (offset - self.media.start) / SECTOR
    }

    /// Where the entry of a sector lies.
    pub fn entry(&self, sector: u64) -> u64 {
        self.sums.start + ENTRIES + sector * ENTRY as u64
    }

    /// A part of a sector has no entry, so nothing is done with it.
    pub fn check_whole(&self, offset: u64, len: usize) -> io::Result<()> {
        let end = offset + len as u64;
        if end <= self.media.start || (offset.max(self.media.start) | end).is_multiple_of(SECTOR) {
            return Ok(());
        }
        let message = format!("{len} bytes at {offset} are no whole sectors");
        Err(io::Error::new(io::ErrorKind::InvalidInput, message))
    }

    /// How much of a read is before the media.
    pub fn plain(&self, offset: u64, len: usize) -> usize {
        self.media.start.saturating_sub(offset).min(len as u64) as usize
    }

    /// Reads and compares; runs of wrong sectors go to `bad`, as ranges of the buffer, until that says that it is enough.
    pub fn read(
        &self,
        inner: ReadAt<'_>,
        offset: u64,
        buffer: &mut [u8],
        bad: &mut dyn FnMut(Range<usize>) -> bool,
    ) -> io::Result<()> {
        let plain = self.plain(offset, buffer.len());
        let (plain, media) = buffer.split_at_mut(plain);
        if !plain.is_empty() {
            inner(offset, plain)?;
        }
        let mut at = plain.len();
        for part in media.chunks_mut(TOGETHER * BLOCK) {
            let mut more = true;
            let here = offset + at as u64;
            inner(here, part)?;
            if !self.matches(inner, here, part)? {
                self.doubt(inner, here, part, &mut |run| more &= bad(at + run.start..at + run.end))?;
            }
            if !more {
                return Ok(());
            }
            at += part.len();
        }
        Ok(())
    }

    /// Whether every sector has its entry.
    fn matches(&self, inner: ReadAt<'_>, offset: u64, part: &[u8]) -> io::Result<bool> {
        let mut room = [0; TOGETHER * ENTRY];
        let entries = &mut room[..part.len() / BLOCK * ENTRY];
        inner(self.entry(self.sector(offset)), entries)?;
        let mut pairs = part.chunks_exact(BLOCK).zip(entries.chunks_exact(ENTRY));
        Ok(pairs.all(|(sector, entry)| sum_of(sector) == u32_at(entry, 0)))
    }

    /// Looks again at a part in which something seemed wrong, while nobody writes.
    fn doubt(
        &self,
        inner: ReadAt<'_>,
        offset: u64,
        part: &mut [u8],
        bad: &mut dyn FnMut(Range<usize>),
    ) -> io::Result<()> {
        let gate = self.gate();
        let mut room = [0; TOGETHER * ENTRY];
        let entries = &mut room[..part.len() / BLOCK * ENTRY];
        inner(offset, part)?;
        inner(self.entry(self.sector(offset)), entries)?;
        let mut run: Option<Range<usize>> = None;
        for (index, bytes) in part.chunks_exact(BLOCK).enumerate() {
            let sector = self.sector(offset) + index as u64;
            if self.counts(gate.as_ref(), sector, sum_of(bytes), entry_at(entries, index)) {
                continue;
            }
            let (from, to) = (index * BLOCK, (index + 1) * BLOCK);
            match &mut run {
                Some(run) if run.end == from => run.end = to,
                _ => run.replace(from..to).into_iter().for_each(&mut *bad),
            }
        }
        run.into_iter().for_each(bad);
        Ok(())
    }

    /// Whether a sector is to be believed: it has its entry, or the one that an operation half done was to make, or
    /// lies where a power cut may have taken either.
    fn counts(&self, half_done: Option<&Intent>, sector: u64, sum: u32, entry: u32) -> bool {
        if sum == entry || entry == SPOILED {
            return sum == entry;
        }
        if half_done.and_then(|intent| intended(intent, sector)) == Some(sum) {
            return true;
        }
        let unsure = self.unsure.holds(((sector * SECTOR) >> self.shift) as usize);
        self.accepted.fetch_add(u64::from(unsure), Ordering::Relaxed);
        unsure
    }

    /// As [`Shared::read`], with an error for the first run of wrong sectors.
    pub fn read_right(&self, inner: ReadAt<'_>, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let mut first: Option<Range<usize>> = None;
        self.read(inner, offset, buffer, &mut |run| {
            first.get_or_insert(run);
            false
        })?;
        let Some(run) = first else { return Ok(()) };
        self.mismatches.fetch_add(1, Ordering::Relaxed);
        let found = Mismatch { at: offset + run.start as u64, len: run.len() as u64 };
        Err(io::Error::new(io::ErrorKind::InvalidData, found))
    }
}

/// The entry that an operation makes for a sector, if it is about that.
pub(super) fn intended(intent: &Intent, sector: u64) -> Option<u32> {
    match intent {
        Intent::Write(first, sums) => sums.get(sector.checked_sub(*first)? as usize).copied(),
        Intent::Zeros(first, count) => (sector.checked_sub(*first)? < *count).then_some(0),
    }
}

/// The reading half.
pub(super) struct SummedReads {
    pub inner: Arc<dyn Reads>,
    pub shared: Arc<Shared>,
}

// Its bytes lie in no file for others to send: they would not be compared.
impl Reads for SummedReads {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.shared.check_whole(offset, buffer.len())?;
        self.shared.read_right(&|at, part| self.inner.read_at(at, part), offset, buffer)
    }
}
