//! Storage of an image: bytes that can be read, written, synced and discarded.
//!
//! * [`mod@file`]: a sparse file, in parts where the file system allows no larger one.
//! * [`device`]: a raw block device.
//! * [`concatenated`]: several stores one behind the other, or one store with a gap.
//! * [`checksummed`]: a store over a store, with checksums of the data; `checksummed_reads`: its reads; `dirty_regions`: where
//!   a power cut may have taken data or checksums.
//!
//! Invariants: a read returns the last written data, synced or not; bytes that were never written are zeros; after
//! [`Store::sync`] everything written before it is durable. Offsets and lengths are whole sectors of 512 bytes; a power cut
//! keeps or loses each unsynced sector independently, but never tears one.

pub mod checksummed;
mod checksummed_reads;
pub mod concatenated;
pub mod device;
mod dirty_regions;
pub mod file;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::format::part_head::HEAD_BYTES;

/// The error for a part without a head.
pub(crate) fn no_head() -> io::Error {
    io::Error::other("this part has no head")
}

/// Reads of a store, by any number of threads, concurrent with the owner of the store.
pub trait Reads: Send + Sync {
    /// As [`Store::read_at`].
    ///
    /// # Errors
    /// The error of the system; a read beyond the end is one.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The file that holds a range in one piece, and the offset in it, so that the range can be sent from the page cache.
    /// `None` if there is no such file, or its data bypasses the page cache.
    fn file_of(&self, _offset: u64, _len: u64) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}

/// Syncs of a store, concurrent with its owner.
pub trait Syncs: Send + Sync {
    /// As [`Store::sync`], for what was written before it began.
    ///
    /// # Errors
    /// The error of the system; it is then unknown which of the unsynced data is durable.
    fn sync(&self) -> io::Result<()>;
}

/// The purpose for which a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads and writes, by one process at a time.
    Use,
    /// Reads only, by any number of processes; the file or device may be write-protected.
    Look,
}

/// One of the files or devices of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// The name in errors.
    pub name: String,
    /// Bytes of the store on it.
    pub len: u64,
    /// Whether it begins with a head of its own, which is not part of the data of the store.
    pub headed: bool,
}

/// See the module documentation.
pub trait Store: Send {
    /// The name in errors.
    fn name(&self) -> String;

    /// The files or devices of the store, in the order of their data.
    fn parts(&self) -> Vec<PartInfo> {
        vec![PartInfo { name: self.name(), len: self.len_bytes(), headed: false }]
    }

    /// Reads the head of a part that has one, by its number.
    ///
    /// # Errors
    /// The error of the system, or that the part has no head.
    fn read_head(&self, _part: usize, _head: &mut [u8; HEAD_BYTES]) -> io::Result<()> {
        Err(no_head())
    }

    /// Writes the head of a part that has one, by its number.
    ///
    /// # Errors
    /// The error of the system, or that the part has no head.
    fn write_head(&mut self, _part: usize, _head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        Err(no_head())
    }

    /// Whether even a single small write is expensive, as on a disk that has to seek.
    fn is_write_dear(&self) -> bool {
        false
    }

    /// Size, bytes.
    fn len_bytes(&self) -> u64;

    /// Reads from `offset` on.
    ///
    /// # Errors
    /// The error of the system; a read beyond the end is one.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// Concurrent reads of the store; `None` if it does not support them.
    fn reader(&self) -> Option<Arc<dyn Reads>> {
        None
    }

    /// Writes from `offset` on.
    ///
    /// # Errors
    /// The error of the system; a write beyond the end is one.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes sectors that are durable when the call returns, independently of other writes.
    ///
    /// # Errors
    /// The error of the system; a write beyond the end is one.
    fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)?;
        self.sync()
    }

    /// Reads data that is to be moved. Sectors with a checksum mismatch are no error: their ranges in the buffer are
    /// appended to `bad`, for [`Store::spoil`] at their new location.
    ///
    /// # Errors
    /// As [`Store::read_at`] for any other reason.
    fn read_to_move(&self, offset: u64, buffer: &mut [u8], _bad: &mut Vec<Range<usize>>) -> io::Result<()> {
        self.read_at(offset, buffer)
    }

    /// Makes reads of a range fail until it is written again, because the data moved there had a mismatch.
    ///
    /// # Errors
    /// The error of the system.
    fn spoil(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Performs one unit of background work; returns whether there was any.
    ///
    /// # Errors
    /// The error of the system.
    fn rest(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Closes the store in order, after a sync.
    ///
    /// # Errors
    /// The error of the system.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The state of its checksums, if it has any.
    fn sums(&self) -> Option<checksummed::SumState> {
        None
    }

    /// Makes all writes and discards durable.
    ///
    /// # Errors
    /// The error of the system; it is then unknown which of the unsynced data is durable.
    fn sync(&mut self) -> io::Result<()>;

    /// Concurrent syncs of the store; `None` if it does not support them.
    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        None
    }

    /// Starts writing a range back, so that the next sync has less to do.
    fn begin_sync(&mut self, _offset: u64, _len: u64) {}

    /// Makes a range zeros, and frees its space where the store can.
    ///
    /// # Errors
    /// The error of the system.
    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Allocates a range, so that writing it needs no more space, without changing its data. A store that cannot
    /// preallocate does nothing.
    ///
    /// # Errors
    /// The error of the system: there is no space.
    fn reserve(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether a discard is cheap at any length; otherwise it writes zeros.
    fn can_discard(&self) -> bool {
        true
    }

    /// Bytes allocated on the file system or device.
    ///
    /// # Errors
    /// The error of the system.
    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(self.len_bytes())
    }

    /// Whether there may be data other than zeros at `offset`, and for how many of `len` bytes that holds.
    ///
    /// # Errors
    /// The error of the system.
    fn is_data(&self, _offset: u64, len: u64) -> io::Result<(bool, u64)> {
        Ok((true, len))
    }
}

/// Checks that a range ends within the store.
///
/// # Errors
/// When it does not.
pub fn check_range(store: &(impl Store + ?Sized), offset: u64, len: u64) -> io::Result<()> {
    check_within(store.len_bytes(), offset, len)
}

/// Checks that a range ends at or before `end`.
pub(crate) fn check_within(end: u64, offset: u64, len: u64) -> io::Result<()> {
    if offset.checked_add(len).is_some_and(|last| last <= end) {
        return Ok(());
    }
    let message = format!("{len} bytes at {offset} lie beyond its end at {end}");
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
}

/// Zeros to write, a chunk of them.
pub(crate) static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Writes zeros, for stores that cannot discard.
pub(crate) fn write_zeros(store: &mut (impl Store + ?Sized), offset: u64, len: u64) -> io::Result<()> {
    let mut at = 0;
    while at < len {
        let here = (len - at).min(ZEROS.len() as u64);
        store.write_at(offset + at, &ZEROS[..here as usize])?;
        at += here;
    }
    Ok(())
}
