//! What an interpreter does about sectors that its store knows to be wrong, and has the store do about them.
//!
//! Invariant: a wrong sector stops no cleaning; where it is moved to it is as wrong as it was.

use std::ops::Range;

use skylight_disk::{Pba, SECTOR_BYTES};
use skylight_layer::Medium;

use crate::error::ImageError;
use crate::interpreter::Interpreter;
use crate::store::Store;
use crate::store::checksummed::SumState;

impl Interpreter {
    /// Reads what is to be moved, sectors too that are known to be wrong: these are not what stops a cleaning, and are
    /// wrong where they are moved to.
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

    /// Sectors that were wrong where they were moved from; ranges of what was written from an address on.
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

    /// The store, and the byte of it at which an address of a medium lies.
    pub(crate) fn at(&self, medium: Medium, pba: Pba) -> (&dyn Store, u64) {
        (self.store.as_ref(), self.part(medium).start + pba.get() * SECTOR_BYTES)
    }

    /// One unit of what the store has to do when nobody asks anything; whether there was any.
    ///
    /// # Errors
    /// When the store fails, or it was stopped.
    pub fn rest(&mut self) -> Result<bool, ImageError> {
        self.check_running()?;
        self.store.rest().map_err(|error| self.failed("look at", error))
    }

    /// What checksums have found, if the image has any.
    pub fn sums(&self) -> Option<SumState> {
        self.store.sums()
    }
}
