//! What lies under an image: bytes that can be read, written, made durable and given back.
//!
//! * [`ram`]: memory, sparse; a copy costs little. For tests, and for drives that need not last.
//! * [`file`]: a sparse file, in parts where the file system allows no larger one.
//! * [`device`]: a raw block device.
//! * [`without_gap`]: a store without a stretch that nothing lies in.
//! * [`parts`]: several stores, one behind the other.
//! * [`checksummed`]: a store that knows what was written, by checksums; `checksummed_reads`: its reads; `regions`: where a power cut
//!   may have taken it.
//! * [`fault`]: a medium that loses, tears and reorders what was not synced, and fails on demand.
//!
//! Invariants: what a read gives is what was written last, synced or not; bytes that were never written are
//! zeros; after [`Store::sync`] all that was written before is durable. Offsets and lengths are whole sectors of
//! 512 bytes, and a store may lose or keep each of them by itself, but never tears one.

pub mod checksummed;
mod checksummed_reads;
pub mod device;
pub mod fault;
pub mod file;
pub mod parts;
pub mod ram;
mod regions;
pub mod without_gap;

use std::io;
use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use crate::format::part::HEAD_BYTES;

/// The error of a part that has no head.
pub(crate) fn no_head() -> io::Error {
    io::Error::other("this part has no head")
}

/// The reading half of a store, for any number of threads at a time, and beside whoever has the store itself.
pub trait Reads: Send + Sync {
    /// As [`Store::read_at`].
    ///
    /// # Errors
    /// What the system says; a read beyond the end is one.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// The file in which a range lies in one piece, and at which of its bytes that begins: for who sends bytes on from
    /// the system's cache. None if there is no such file, or its bytes do not go through the cache.
    fn file_of(&self, _offset: u64, _len: u64) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}

/// The half of a store that makes durable, beside whoever has the store itself.
pub trait Syncs: Send + Sync {
    /// As [`Store::sync`], for what was written before it began.
    ///
    /// # Errors
    /// What the system says; then nothing is known of what was not durable before.
    fn sync(&self) -> io::Result<()>;
}

/// What a store is opened for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// To read and write, by one process at a time.
    Use,
    /// To read alone: the file or device may be write-protected, and any number of processes may.
    Look,
}

/// One of the files or devices that a store lies on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartInfo {
    /// How errors call it.
    pub name: String,
    /// Bytes of the store that lie on it.
    pub len: u64,
    /// Whether it begins with a head of its own, which is no part of what the store holds.
    pub headed: bool,
}

/// See the module page.
pub trait Store: Send {
    /// How errors call it.
    fn name(&self) -> String;

    /// The files or devices that it lies on, in the order of what they hold.
    fn parts(&self) -> Vec<PartInfo> {
        vec![PartInfo { name: self.name(), len: self.len_bytes(), headed: false }]
    }

    /// Reads the head of a part that has one, by its number.
    ///
    /// # Errors
    /// What the system says; a part without a head is one.
    fn read_head(&self, _part: usize, _head: &mut [u8; HEAD_BYTES]) -> io::Result<()> {
        Err(no_head())
    }

    /// Writes the head of a part that has one, by its number.
    ///
    /// # Errors
    /// What the system says; a part without a head is one.
    fn write_head(&mut self, _part: usize, _head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        Err(no_head())
    }

    /// Whether a small write costs much however little else there is to do, as on a disk that has to seek.
    fn is_write_dear(&self) -> bool {
        false
    }

    /// Bytes that it holds.
    fn len_bytes(&self) -> u64;

    /// Reads from `offset` on.
    ///
    /// # Errors
    /// What the system says; a read beyond the end is one.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()>;

    /// What reads beside whoever has the store; none if only one can read at a time.
    fn reader(&self) -> Option<Arc<dyn Reads>> {
        None
    }

    /// Writes from `offset` on.
    ///
    /// # Errors
    /// What the system says; a write beyond the end is one.
    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Writes some sectors that are durable when this is over, whatever else is.
    ///
    /// # Errors
    /// What the system says; a write beyond the end is one.
    fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(offset, data)?;
        self.sync()
    }

    /// Reads what is to be moved, sectors too that the store knows to be wrong: these go to `bad`, as ranges of the
    /// buffer, for [`Store::spoil`] where they are moved to.
    ///
    /// # Errors
    /// As [`Store::read_at`] for any other reason.
    fn read_to_move(&self, offset: u64, buffer: &mut [u8], _bad: &mut Vec<Range<usize>>) -> io::Result<()> {
        self.read_at(offset, buffer)
    }

    /// Has reads fail until something else is written there: what was moved there was wrong.
    ///
    /// # Errors
    /// What the system says.
    fn spoil(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// One unit of what the store has to do when nobody asks anything; whether there was any.
    ///
    /// # Errors
    /// What the system says.
    fn rest(&mut self) -> io::Result<bool> {
        Ok(false)
    }

    /// Is over in order: all was made durable before.
    ///
    /// # Errors
    /// What the system says.
    fn close(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What its checksums have found, if it has any.
    fn sums(&self) -> Option<checksummed::SumState> {
        None
    }

    /// Makes durable all that was written and discarded.
    ///
    /// # Errors
    /// What the system says; then nothing is known of what was not durable before.
    fn sync(&mut self) -> io::Result<()>;

    /// What syncs beside whoever has the store; none if only that one can.
    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        None
    }

    /// Says that bytes are to be durable soon, so that the sync which makes them so has less to do.
    fn begin_sync(&mut self, _offset: u64, _len: u64) {}

    /// Makes bytes zeros, and gives their room back where the store can.
    ///
    /// # Errors
    /// What the system says.
    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()>;

    /// Allocates bytes, so that writing them needs no more space. They read as before. A store that cannot allocate ahead
    /// does nothing.
    ///
    /// # Errors
    /// What the system says: that there is no space.
    fn reserve(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
        Ok(())
    }

    /// Whether a discard costs little, however long it is: where not, zeros are written.
    fn can_discard(&self) -> bool {
        true
    }

    /// Bytes that it takes where it lies.
    ///
    /// # Errors
    /// What the system says.
    fn stored_bytes(&self) -> io::Result<u64> {
        Ok(self.len_bytes())
    }

    /// Whether there may be anything but zeros at `offset`, and for how many bytes of the `len` asked that is so.
    ///
    /// # Errors
    /// What the system says.
    fn is_data(&self, _offset: u64, len: u64) -> io::Result<(bool, u64)> {
        Ok((true, len))
    }
}

/// The refusal of what lies beyond the end.
pub(crate) fn check_range(store: &(impl Store + ?Sized), offset: u64, len: u64) -> io::Result<()> {
    check_within(store.len_bytes(), offset, len)
}

/// The same for what ends at a byte.
pub(crate) fn check_within(end: u64, offset: u64, len: u64) -> io::Result<()> {
    if offset.checked_add(len).is_some_and(|last| last <= end) {
        return Ok(());
    }
    let message = format!("{len} bytes at {offset} lie beyond its end at {end}");
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, message))
}

/// Zeros, as many bytes as are ever written at a time.
pub(crate) static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

/// Writes zeros where a store has no better way.
pub(crate) fn write_zeros(store: &mut (impl Store + ?Sized), offset: u64, len: u64) -> io::Result<()> {
    let mut at = 0;
    while at < len {
        let here = (len - at).min(ZEROS.len() as u64);
        store.write_at(offset + at, &ZEROS[..here as usize])?;
        at += here;
    }
    Ok(())
}
