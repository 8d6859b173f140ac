//! Cleaning of the set-associative layer: a cache band is emptied, in steps that commands may come between.
//!
//! The steps are one sequential read of the cache band, and then for each data band that it holds a read and
//! a write in place, with which the data band's exceptions are gone. A full cache band is emptied by all of
//! them in a row. In idle time each is a step of its own; next is the cache band that began to fill first. A
//! write to the cache band, the cleaning of another one for want of room, and any trim have it begin anew with
//! what is left.
//!
//! Invariant: a data band is written from what was read since anything in its cache band changed.
//! Source: Skylight (FAST'15), section 3.1; the order in idle time is ours, the paper's layer is lazy.

use skylight_disk::{Lba, LbaExtent, PbaExtent, Sectors};

use crate::plan::{MapChange, Medium, Plan, Purpose, Source, Step};

use super::SetAssociative;

/// What is next of a cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Read the cache band.
    Cache,
    /// Read this data band.
    Read(u64),
    /// Write it.
    Write(u64),
}

/// A cache band that is being emptied.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    cache_band: u64,
    phase: Phase,
}

impl SetAssociative {
    /// Empties a cache band.
    pub(super) fn clean(&mut self, cache_band: u64, plan: &mut Plan) {
        // What was read of another one is lost: a drive has memory for one.
        let begun = self.cleaning.take().filter(|cleaning| cleaning.cache_band == cache_band);
        let mut cleaning = begun.or_else(|| self.begin(cache_band));
        while let Some(step) = cleaning {
            cleaning = self.clean_step(step, plan);
        }
    }

    /// One step of cleaning in idle time; `false` when there is nothing to clean.
    pub(super) fn clean_idle(&mut self, plan: &mut Plan) -> bool {
        let mut cleaning = self.cleaning.take();
        while cleaning.is_none() {
            let Some((_, &cache_band)) = self.filling.first_key_value() else {
                return false;
            };
            cleaning = self.begin(cache_band);
        }
        self.cleaning = cleaning.and_then(|step| self.clean_step(step, plan));
        true
    }

    /// The cache band changes: what was read of it is old.
    pub(super) fn cancel_cleaning_of(&mut self, cache_band: u64) {
        self.cleaning.take_if(|cleaning| cleaning.cache_band == cache_band);
    }

    /// Begins to empty a cache band; one of which nothing is live is empty at once.
    fn begin(&mut self, cache_band: u64) -> Option<Cleaning> {
        if self.next_held(cache_band, cache_band).is_none() {
            self.emptied(cache_band);
            return None;
        }
        Some(Cleaning { cache_band, phase: Phase::Cache })
    }

    fn emptied(&mut self, cache_band: u64) {
        let in_use = &mut self.cache_bands[cache_band as usize];
        in_use.written = 0;
        self.filling.remove(&in_use.begun);
    }

    /// One step of cleaning; what is left of it.
    fn clean_step(&mut self, Cleaning { cache_band, phase }: Cleaning, plan: &mut Plan) -> Option<Cleaning> {
        let next = match phase {
            Phase::Cache => {
                let used = Sectors(self.cache_bands[cache_band as usize].written.into());
                let cached = PbaExtent::new(self.cache_band_start(cache_band), used);
                plan.read(self.spec.cache_medium, cached, Purpose::CleanRead);
                self.next_held(cache_band, cache_band).map(Phase::Read)
            }
            Phase::Read(band) => {
                let place = self.band_place(band);
                plan.read(Medium::Platter, place, Purpose::CleanRead);
                Some(Phase::Write(band))
            }
            Phase::Write(band) => {
                let (lba, place) = (self.band_extent(band), self.band_place(band));
                plan.write(Medium::Platter, place, Purpose::CleanWrite, Source::Merged(lba.start.into()));
                self.exceptions.remove(lba);
                plan.push(Step::Commit(MapChange::Native { lba }));
                self.next_held(cache_band, band + self.spec.cache_bands).map(Phase::Read)
            }
        };
        if next.is_none() {
            self.emptied(cache_band);
        }
        next.map(|phase| Cleaning { cache_band, phase })
    }

    /// Where a data band lies.
    fn band_place(&self, band: u64) -> PbaExtent {
        let (place, beyond) = self.native(self.band_extent(band));
        debug_assert!(beyond.is_empty(), "the cache begins between two bands");
        place
    }

    /// The first data band of a cache band, from `band` on, which is one of them, that has an exception.
    fn next_held(&self, cache_band: u64, mut band: u64) -> Option<u64> {
        debug_assert_eq!(self.cache_band_of(band), cache_band);
        // From exception to exception, so that the work grows with them and not with the drive.
        loop {
            let held = self.next_with_exceptions(band)?;
            let behind = (held - band).next_multiple_of(self.spec.cache_bands);
            if behind == 0 {
                return Some(band);
            }
            band += behind;
        }
    }

    /// The first data band from `band` on that has an exception.
    fn next_with_exceptions(&self, band: u64) -> Option<u64> {
        let start = Lba((band * self.spec.band.get()).min(self.spec.capacity.get()));
        let rest = LbaExtent::new(start, Sectors(self.spec.capacity.get() - start.get()));
        let first = self.exceptions.overlapping(rest).next()?;
        Some(self.band_divisor.div_rem(first.lba.start.get()).0)
    }
}
