//! Sectors with a checksum mismatch: how the interpreter moves them, and what the store does about them.
//!
//! Invariant: a wrong sector does not stop a cleaning, and stays wrong at its new address.

use std::ops::Range;

use skylight_disk::{Pba, SECTOR_BYTES};
use skylight_layer::Medium;

use crate::error::ImageError;
use crate::interpreter::Interpreter;
use crate::store::Store;
use crate::store::checksummed::SumState;

impl Interpreter {
    /// Reads data to be moved, including wrong sectors, which it returns: they do not stop a cleaning, and stay wrong at
    /// their new address.
    pub(crate) fn read_to_move(
        &self,
        medium: Medium,
        pba: Pba,
        buffer: &mut [u8],
    ) -> Result<Vec<Range<usize>>, ImageError> {
        let offset = self.part(medium).start + pba.get() * SECTOR_BYTES;
        let mut bad = Vec::new();
        let read = self.store.read_to_move(offset, buffer, &mut bad);
        read.map_err(|error| self.failed("read", error)).map(|()| bad)
    }

    /// Marks moved sectors as wrong: `bad` are ranges of the bytes written at the address.
    pub(crate) fn spoil(
        &mut self,
        medium: Medium,
        start: Pba,
        bad: &[Range<usize>],
    ) -> Result<(), ImageError> {
        let offset = self.part(medium).start + start.get() * SECTOR_BYTES;
        let mut spoils = bad.iter();
        let spoilt = spoils.try_for_each(|run| self.store.spoil(offset + run.start as u64, run.len() as u64));
        spoilt.map_err(|error| self.failed("write", error))
    }

    /// The store, and the byte offset in it of an address of a medium.
    pub(crate) fn at(&self, medium: Medium, pba: Pba) -> (&dyn Store, u64) {
        (self.store.as_ref(), self.part(medium).start + pba.get() * SECTOR_BYTES)
    }

    /// Executes one unit of the store's idle work; returns whether there was any.
    ///
    /// # Errors
    /// When the store fails, or the interpreter has stopped.
    pub fn rest(&mut self) -> Result<bool, ImageError> {
        self.check_running()?;
        self.store.rest().map_err(|error| self.failed("look at", error))
    }

    /// The state of the checksums, if the image has them.
    pub fn sums(&self) -> Option<SumState> {
        self.store.sums()
    }
}
