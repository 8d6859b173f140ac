//! Reads that go on beside each other: where a read goes is found out by whoever has the image, the bytes are read by
//! anybody.
//!
//! Invariant: a [`Route`] is right until the image is changed, by a write, a trim, or cleaning; who reads along it
//! holds changes off until the bytes are there. Reading changes nothing, so any number of threads may.

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use skylight_disk::SECTOR_BYTES;

use crate::error::ImageError;
use crate::store::{Reads, Store};

/// Where a read goes: pieces of the store, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Route {
    pieces: Vec<(u64, u64)>,
    /// The first sector, as the host counts: for errors.
    first: u64,
}

impl Route {
    /// Of a read from a host sector on.
    pub(crate) fn from(first: u64) -> Self {
        Self { pieces: Vec::new(), first }
    }

    /// The next piece: the first byte, and how many.
    pub(crate) fn push(&mut self, offset: u64, len: u64) {
        match self.pieces.last_mut() {
            Some((start, before)) if *start + *before == offset => *before += len,
            _ if len > 0 => self.pieces.push((offset, len)),
            _ => {}
        }
    }
}

/// What reads along routes.
#[derive(Clone)]
pub struct Reader {
    reads: Arc<dyn Reads>,
    place: String,
}

impl Reader {
    pub(crate) fn of(store: &dyn Store) -> Option<Self> {
        Some(Self { reads: store.reader()?, place: store.name() })
    }

    /// Fills a buffer as long as the range that the route is of.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read(&self, route: &Route, buffer: &mut [u8]) -> Result<(), ImageError> {
        let (mut rest, mut sector) = (buffer, route.first);
        for &(offset, len) in &route.pieces {
            let (here, behind) = rest.split_at_mut(rest.len().min(len as usize));
            let read = self.reads.read_at(offset, here);
            read.map_err(|source| {
                ImageError::of_store(self.place.clone(), "read", source, Some((offset, sector)))
            })?;
            sector += len / SECTOR_BYTES;
            rest = behind;
        }
        Ok(())
    }

    /// The file in which all of a route lies in one piece, and at which of its bytes, if there is one.
    pub fn file_of(&self, route: &Route) -> Option<(BorrowedFd<'_>, u64)> {
        match route.pieces.as_slice() {
            &[(offset, len)] => self.reads.file_of(offset, len),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_that_continue_each_other_are_one() {
        let mut route = Route::default();
        for (offset, len) in [(4096, 512), (4608, 1024), (0, 0), (0, 512), (8192, 512)] {
            route.push(offset, len);
        }
        assert_eq!(route.pieces, [(4096, 1536), (0, 512), (8192, 512)]);
    }
}
