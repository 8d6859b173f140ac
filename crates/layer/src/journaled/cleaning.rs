//! Cleaning of the journaled layer: one band at a time, in steps between which commands may run.
//!
//! The steps are read, gather, stage, write, commit (Skylight, figure 11). *Read* reads the band; *gather*
//! reads its extents from the journal, in the order in which the heads reach them; *stage* writes the merged
//! band to the cache, so that a power cut during the rewrite loses nothing; *write* rewrites the band in
//! place; *commit* updates the map at its home location. Only the commit changes what reads return, so a
//! command between two steps finds the drive as if cleaning had not started (Skylight, section 4.5), and a
//! write to the band makes cleaning start over.
//!
//! Invariant: a band is committed only if nothing in it has changed since the gather step.

use skylight_disk::{Lba, LbaExtent, Nanos, PbaExtent};

use crate::bands::Band;
use crate::plan::{MapChange, Medium, Plan, Purpose, Source, Step};

use super::Journaled;

/// The order in which bands are cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningOrder {
    /// The band of the oldest write in the journal first (Skylight, Algorithm 1).
    Fifo,
    /// The band of the newest write in the journal first.
    Lifo,
    /// The band with the most sectors in the cache first; of equal ones, that with the lowest number.
    Greedy,
    /// A random dirty band first.
    Random {
        /// The seed of the random choices.
        seed: u64,
    },
}

/// How bands are cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningSpec {
    /// The order of the bands.
    pub order: CleaningOrder,
    /// Idle time before the drive cleans (aggressive); `None` if it cleans only when the cache is full
    /// (lazy).
    pub idle_after: Option<Nanos>,
    /// The staging area for merged bands; as large as the largest band.
    pub staging: PbaExtent,
    /// The extent that a commit writes at the home location of the map.
    pub map_update: PbaExtent,
}

/// The next step for a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    Gather,
    Stage,
    Write,
    Commit,
}

/// A band that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub struct Cleaning {
    band: Band,
    /// The sector of the band for which the map was searched when the band was chosen.
    searched: Lba,
    phase: Phase,
}

impl Journaled {
    /// One step of cleaning; `false` if there is nothing to clean.
    pub(super) fn clean_step(&mut self, order: CleaningOrder, plan: &mut Plan) -> bool {
        let Some(cleaning) = self.continued().or_else(|| self.next_band(order)) else {
            return false;
        };
        let next = self.step(&cleaning, plan);
        self.cleaning = next.map(|phase| Cleaning { phase, ..cleaning });
        true
    }

    /// All steps of one band: the one already started, otherwise that of `oldest`, the journal's oldest live
    /// sector, if given, otherwise the next in this order. `false` if there is nothing to clean.
    pub(super) fn clean_band(&mut self, order: CleaningOrder, oldest: Option<Lba>, plan: &mut Plan) -> bool {
        let chosen = self.continued().or_else(|| oldest.map(|sector| self.cleaning_for(sector)));
        let Some(mut cleaning) = chosen.or_else(|| self.next_band(order)) else {
            return false;
        };
        while let Some(phase) = self.step(&cleaning, plan) {
            cleaning.phase = phase;
        }
        self.cleaning = None;
        true
    }

    /// Writes host data to its native location, with the rest of its bands.
    pub(super) fn write_home(&mut self, extent: LbaExtent, plan: &mut Plan) {
        let mut rest = extent;
        while !rest.is_empty() {
            let band = self.spec.bands.of(rest.start);
            let end = rest.end().min(band.lba.end());
            self.write_band_with(&band, LbaExtent::new(rest.start, end - rest.start), plan);
            rest = LbaExtent::new(end, rest.end() - end);
        }
    }

    /// Cleans a band with host data for a part of it, in one go. The drive stages one band at a time, so another one that is
    /// half done starts over.
    fn write_band_with(&mut self, band: &Band, host: LbaExtent, plan: &mut Plan) {
        self.clean_for_unmap(band.lba, plan);
        self.cleaning = None;
        let at = |lba: Lba| band.native.start + (lba - band.lba.start);
        let merged = |from: Lba, to: Lba, plan: &mut Plan| {
            if from < to {
                let part = PbaExtent::new(at(from), to - from);
                plan.write(Medium::Platter, part, Purpose::CleanWrite, Source::Merged(from.into()));
            }
        };
        plan.read(Medium::Platter, band.native, Purpose::CleanRead);
        self.gather(band.lba, band.lba.start, plan);
        self.stage(band, plan);
        merged(band.lba.start, host.start, plan);
        let part = PbaExtent::new(at(host.start), host.len);
        plan.write(Medium::Platter, part, Purpose::Host, Source::Host(host.start.into()));
        merged(host.end(), band.lba.end(), plan);
        self.commit(band, plan);
    }

    /// The cleaning already started, if it can continue.
    fn continued(&self) -> Option<Cleaning> {
        self.cleaning.filter(|cleaning| self.unsplittable_extent(cleaning.band).is_none())
    }

    /// Performs the next step and returns the one after it.
    #[inline]
    fn step(&mut self, cleaning: &Cleaning, plan: &mut Plan) -> Option<Phase> {
        let Cleaning { ref band, searched, phase } = *cleaning;
        let platter = Medium::Platter;
        match phase {
            Phase::Read => {
                plan.read(platter, band.native, Purpose::CleanRead);
                Some(Phase::Gather)
            }
            Phase::Gather => {
                self.gather(band.lba, searched, plan);
                Some(Phase::Stage)
            }
            Phase::Stage => {
                self.stage(band, plan);
                Some(Phase::Write)
            }
            Phase::Write => {
                plan.write(platter, band.native, Purpose::CleanWrite, Source::Merged(band.lba.start.into()));
                Some(Phase::Commit)
            }
            Phase::Commit => {
                self.commit(band, plan);
                None
            }
        }
    }

    /// Writes the merged band to the cache.
    fn stage(&self, band: &Band, plan: &mut Plan) {
        let staged = PbaExtent::new(self.spec.cleaning.staging.start, band.native.len);
        plan.write(self.spec.cache_medium, staged, Purpose::CleanStage, Source::Internal);
    }

    /// Updates the map: the band is at its native location.
    fn commit(&mut self, band: &Band, plan: &mut Plan) {
        plan.write(Medium::Platter, self.spec.cleaning.map_update, Purpose::MapUpdate, Source::Internal);
        self.unmap_band(band);
        self.journal.drop_oldest_in(band.lba);
        plan.push(Step::Commit(MapChange::Native { lba: band.lba }));
    }

    /// Cancels the cleaning of a band that changes: the data that was read is stale.
    pub(super) fn cancel_cleaning_of(&mut self, extent: LbaExtent) {
        if self.cleaning.is_some_and(|cleaning| cleaning.band.lba.overlaps(extent)) {
            self.cleaning = None;
        }
    }

    fn next_band(&mut self, order: CleaningOrder) -> Option<Cleaning> {
        let first = match order {
            CleaningOrder::Fifo => self.journal.oldest(&self.map)?.start,
            CleaningOrder::Lifo => self.journal.newest(&self.map)?.start,
            CleaningOrder::Greedy | CleaningOrder::Random { .. } => {
                let Self { spec, map, dirty, .. } = self;
                let all = LbaExtent::new(Lba(0), spec.bands.capacity());
                let next = dirty.as_mut()?.next(|add| {
                    for found in map.overlapping(all) {
                        spec.bands.visit_bands(found.lba, |band, part| add(band.number, part.len));
                    }
                })?;
                spec.bands.first_of(next)
            }
        };
        Some(self.cleaning_for(first))
    }

    /// The cleaning to start for the band of a sector in the cache.
    // Always inlined: otherwise the result is stored and reloaded with different widths, which defeats
    // store-to-load forwarding.
    #[inline(always)]
    fn cleaning_for(&self, sector: Lba) -> Cleaning {
        let band = self.spec.bands.of(sector);
        let (band, searched) = match self.unsplittable_extent(band) {
            Some(around) => (self.spec.bands.of(around.start), around.start),
            None => (band, sector),
        };
        Cleaning { band, searched, phase: Phase::Read }
    }

    /// The extent that unmapping a band would split in two, if the map has no entry left for that. The first
    /// band of the extent is cleaned instead.
    fn unsplittable_extent(&self, band: Band) -> Option<LbaExtent> {
        if self.lacks_entries(1) { self.extent_around(band.lba) } else { None }
    }

    /// Reads the extents of a band from the journal; `from` is a sector of it that was looked up before.
    fn gather(&self, band: LbaExtent, from: Lba, plan: &mut Plan) {
        let pieces =
            self.map.overlapping_around(band, from).map(|mapped| PbaExtent::new(mapped.pba, mapped.lba.len));
        plan.read_in_any_order((self.spec.cache_medium, Purpose::CleanRead), pieces);
    }
}
