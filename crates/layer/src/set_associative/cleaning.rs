//! Cleaning of the set-associative layer: empties a cache band in steps, between which commands may run.
//!
//! The first step reads the cache band sequentially. Then each data band with exceptions takes two steps: a
//! read, and a write in place that removes its exceptions. A full cache band is emptied in one go, or in as many as its
//! data bands need. In idle time, each step is a separate unit of work, and the cache band with the oldest first write comes first. A
//! write to the cache band, the cleaning of another full cache band, and any trim make cleaning start over
//! with the remaining exceptions.
//!
//! Invariant: a data band is written from data that was read after the last change in its cache band.
//! Source: Skylight (FAST'15), section 3.1; the order in idle time is ours, since the paper's layer is lazy.

use skylight_disk::{Lba, LbaExtent, PbaExtent, Sectors};

use crate::plan::{MapChange, Medium, Plan, Purpose, Source, Step};

use super::SetAssociative;

/// The next step of cleaning a cache band.
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
    /// Empties a cache band as far as one write waits for it; returns whether it is empty.
    pub(super) fn clean(&mut self, cache_band: u64, plan: &mut Plan) -> bool {
        // The drive has memory for one cache band, so the data of another one is discarded.
        let started = self.cleaning.take().filter(|cleaning| cleaning.cache_band == cache_band);
        let mut cleaning = started.or_else(|| self.start(cache_band));
        let mut bands = 0;
        while let Some(step) = cleaning.filter(|_| bands < self.spec.bands_for_one_write) {
            bands += u64::from(matches!(step.phase, Phase::Write(_)));
            cleaning = self.clean_step(step, plan);
        }
        self.cleaning = cleaning;
        cleaning.is_none()
    }

    /// Writes host data to its native location, with the rest of its data band, while its cache band is being emptied.
    pub(super) fn write_home(&mut self, band: u64, lba: LbaExtent, plan: &mut Plan) {
        let all = self.band_extent(band);
        plan.read(Medium::Platter, self.band_location(band), Purpose::CleanRead);
        let before = LbaExtent::new(all.start, lba.start - all.start);
        let after = LbaExtent::new(lba.end(), all.end() - lba.end());
        self.write_merged(before, plan);
        let (location, beyond) = self.native(lba);
        debug_assert!(beyond.is_empty(), "the cache starts between two bands");
        plan.write(Medium::Platter, location, Purpose::Host, Source::Host(lba.start.into()));
        self.write_merged(after, plan);
        self.exceptions.remove(all);
        plan.push(Step::Commit(MapChange::Native { lba: all }));
        self.skip_clean_band();
    }

    /// Writes a part of a data band with what reads return of it.
    fn write_merged(&self, lba: LbaExtent, plan: &mut Plan) {
        if !lba.is_empty() {
            let (location, _) = self.native(lba);
            plan.write(Medium::Platter, location, Purpose::CleanWrite, Source::Merged(lba.start.into()));
        }
    }

    /// Goes on to the next data band if the one that cleaning would read has no exceptions any more.
    fn skip_clean_band(&mut self) {
        let Some(Cleaning { cache_band, phase: Phase::Read(next) }) = self.cleaning else {
            return;
        };
        let phase = self.next_dirty_band(cache_band, next).map(Phase::Read);
        self.cleaning = phase.map(|phase| Cleaning { cache_band, phase });
        if phase.is_none() {
            self.mark_empty(cache_band);
        }
    }

    /// One step of cleaning in idle time; `false` if there is nothing to clean.
    pub(super) fn clean_idle(&mut self, plan: &mut Plan) -> bool {
        let mut cleaning = self.cleaning.take();
        while cleaning.is_none() {
            let Some((_, &cache_band)) = self.filling.first_key_value() else {
                return false;
            };
            cleaning = self.start(cache_band);
        }
        self.cleaning = cleaning.and_then(|step| self.clean_step(step, plan));
        true
    }

    /// Cancels the cleaning of a cache band that changes: the data that was read is stale.
    pub(super) fn cancel_cleaning_of(&mut self, cache_band: u64) {
        self.cleaning.take_if(|cleaning| cleaning.cache_band == cache_band);
    }

    /// Starts to empty a cache band; one without live data is empty at once.
    fn start(&mut self, cache_band: u64) -> Option<Cleaning> {
        if self.next_dirty_band(cache_band, cache_band).is_none() {
            self.mark_empty(cache_band);
            return None;
        }
        Some(Cleaning { cache_band, phase: Phase::Cache })
    }

    fn mark_empty(&mut self, cache_band: u64) {
        let in_use = &mut self.cache_bands[cache_band as usize];
        in_use.written = 0;
        self.filling.remove(&in_use.first_write);
    }

    /// Performs one step and returns the rest of the cleaning.
    fn clean_step(&mut self, Cleaning { cache_band, phase }: Cleaning, plan: &mut Plan) -> Option<Cleaning> {
        let next = match phase {
            Phase::Cache => {
                let used = Sectors(self.cache_bands[cache_band as usize].written.into());
                let cached = PbaExtent::new(self.cache_band_start(cache_band), used);
                plan.read(self.spec.cache_medium, cached, Purpose::CleanRead);
                self.next_dirty_band(cache_band, cache_band).map(Phase::Read)
            }
            Phase::Read(band) => {
                plan.read(Medium::Platter, self.band_location(band), Purpose::CleanRead);
                Some(Phase::Write(band))
            }
            Phase::Write(band) => {
                let (lba, location) = (self.band_extent(band), self.band_location(band));
                plan.write(Medium::Platter, location, Purpose::CleanWrite, Source::Merged(lba.start.into()));
                self.exceptions.remove(lba);
                plan.push(Step::Commit(MapChange::Native { lba }));
                self.next_dirty_band(cache_band, band + self.spec.cache_bands).map(Phase::Read)
            }
        };
        if next.is_none() {
            self.mark_empty(cache_band);
        }
        next.map(|phase| Cleaning { cache_band, phase })
    }

    /// The location of a data band.
    fn band_location(&self, band: u64) -> PbaExtent {
        let (location, beyond) = self.native(self.band_extent(band));
        debug_assert!(beyond.is_empty(), "the cache starts between two bands");
        location
    }

    /// The first data band with an exception among those of a cache band, from its data band `band` on.
    fn next_dirty_band(&self, cache_band: u64, mut band: u64) -> Option<u64> {
        debug_assert_eq!(self.cache_band_of(band), cache_band);
        // Goes from exception to exception, so that the work grows with their number, not with the drive.
        loop {
            let dirty = self.next_with_exceptions(band)?;
            let ahead = (dirty - band).next_multiple_of(self.spec.cache_bands);
            if ahead == 0 {
                return Some(band);
            }
            band += ahead;
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
