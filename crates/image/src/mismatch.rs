//! How a store with checksums says that data is not what was written: as the reason of an error of the system.

use std::io;

/// The error of a read: sectors that are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("checksum mismatch in {len} bytes at byte {at}")]
pub struct Mismatch {
    /// The first byte, as the store counts.
    pub at: u64,
    /// Bytes.
    pub len: u64,
}

/// The mismatch that an error is, if it is one.
pub fn mismatch_of(error: &io::Error) -> Option<Mismatch> {
    error.get_ref()?.downcast_ref().copied()
}
