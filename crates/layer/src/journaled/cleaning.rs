//! Cleaning of the journaled layer: one band at a time, in steps that commands may come between.
//!
//! The steps of a band are read, gather, stage, write, commit (Skylight, figure 11): the band is read; what
//! the journal has of it is gathered, in whatever order the heads reach it; the merged band is staged in the
//! cache, so that a power cut while it is rewritten loses nothing; the band is rewritten in place; the map is
//! updated at its home. Only the last step changes what reads see, so a command between two steps meets the
//! drive as if cleaning had not begun (Skylight, section 4.5), and a write to the band starts it over.
//!
//! Invariant: a band is committed only if nothing in it changed since it was gathered.

use skylight_disk::{Lba, LbaExtent, Nanos, PbaExtent};

use crate::bands::Band;
use crate::plan::{MapChange, Medium, Plan, Purpose, Source, Step};

use super::Journaled;

/// Which band is cleaned next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CleaningOrder {
    /// That of the oldest write in the journal (Skylight, Algorithm 1).
    Fifo,
    /// That of the newest.
    Lifo,
    /// The one of which most sectors lie in the cache; of those, the first.
    Greedy,
    /// Any that has something in the cache.
    Random {
        /// Of the lots that bands draw: another seed, another order.
        seed: u64,
    },
}

/// How bands are cleaned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleaningSpec {
    /// Which is next.
    pub order: CleaningOrder,
    /// How long the drive is left alone before it cleans (aggressive); `None` if only a full cache does
    /// (lazy).
    pub idle_after: Option<Nanos>,
    /// Where a merged band is staged; as large as the largest band.
    pub staging: PbaExtent,
    /// What a commit writes at the home of the map.
    pub map_update: PbaExtent,
}

/// What is left to do for a band.
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
    /// A sector of it for which the map was asked when it was chosen.
    known: Lba,
    phase: Phase,
}

impl Journaled {
    /// One step of cleaning; `false` when there is nothing to clean.
    pub(super) fn clean_step(&mut self, order: CleaningOrder, plan: &mut Plan) -> bool {
        let Some(cleaning) = self.begun().or_else(|| self.next_band(order)) else {
            return false;
        };
        let next = self.step(&cleaning, plan);
        self.cleaning = next.map(|phase| Cleaning { phase, ..cleaning });
        true
    }

    /// All steps of one band: of the one that was begun, else of that of the journal's oldest sector if the
    /// caller has just found that, else of the next in this order. `false` when there is nothing to clean.
    pub(super) fn clean_band(&mut self, order: CleaningOrder, oldest: Option<Lba>, plan: &mut Plan) -> bool {
        let chosen = self.begun().or_else(|| oldest.map(|sector| self.cleaning_for(sector)));
        let Some(mut cleaning) = chosen.or_else(|| self.next_band(order)) else {
            return false;
        };
        while let Some(phase) = self.step(&cleaning, plan) {
            cleaning.phase = phase;
        }
        self.cleaning = None;
        true
    }

    /// The band that is being cleaned, if it can go on.
    fn begun(&self) -> Option<Cleaning> {
        self.cleaning.filter(|cleaning| self.splitting_without_room(cleaning.band).is_none())
    }

    /// Does a step; what is left to do after it.
    #[inline]
    fn step(&mut self, cleaning: &Cleaning, plan: &mut Plan) -> Option<Phase> {
        let Cleaning { ref band, known, phase } = *cleaning;
        let platter = Medium::Platter;
        match phase {
            Phase::Read => {
                plan.read(platter, band.native, Purpose::CleanRead);
                Some(Phase::Gather)
            }
            Phase::Gather => {
                self.gather(band.lba, known, plan);
                Some(Phase::Stage)
            }
            Phase::Stage => {
                let staged = PbaExtent::new(self.spec.cleaning.staging.start, band.native.len);
                plan.write(self.spec.cache_medium, staged, Purpose::CleanStage, Source::Internal);
                Some(Phase::Write)
            }
            Phase::Write => {
                plan.write(platter, band.native, Purpose::CleanWrite, Source::Merged(band.lba.start.into()));
                Some(Phase::Commit)
            }
            Phase::Commit => {
                plan.write(platter, self.spec.cleaning.map_update, Purpose::MapUpdate, Source::Internal);
                self.forget_band(band);
                self.journal.drop_oldest_in(band.lba);
                plan.push(Step::Commit(MapChange::Native { lba: band.lba }));
                None
            }
        }
    }

    /// A change in a band that is being cleaned: what was gathered is old.
    pub(super) fn cancel_cleaning_of(&mut self, extent: LbaExtent) {
        let touched = |band: Band| extent.start < band.lba.end() && band.lba.start < extent.end();
        if self.cleaning.is_some_and(|cleaning| touched(cleaning.band)) {
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
                let next = dirty.as_mut()?.next(|held| {
                    for found in map.overlapping(all) {
                        spec.bands.visit_bands(found.lba, |band, part| held(band.number, part.len));
                    }
                })?;
                spec.bands.first_of(next)
            }
        };
        Some(self.cleaning_for(first))
    }

    /// Cleaning that begins with the band of a sector that lies in the cache.
    // Inlined always: else it goes through memory and is copied in other widths than it was written, for which
    // processors wait until all stores before are done.
    #[inline(always)]
    fn cleaning_for(&self, sector: Lba) -> Cleaning {
        let band = self.spec.bands.of(sector);
        let (band, known) = match self.splitting_without_room(band) {
            Some(around) => (self.spec.bands.of(around.start), around.start),
            None => (band, sector),
        };
        Cleaning { band, known, phase: Phase::Read }
    }

    /// Without its middle an extent is two. Where the map has no room for that, the extent whose middle a band
    /// is: its first band goes before.
    fn splitting_without_room(&self, band: Band) -> Option<LbaExtent> {
        if self.lacks_entries(1) { self.extent_around(band.lba) } else { None }
    }

    /// Reads what the journal has of a band, of which the map was asked for a sector before.
    fn gather(&self, band: LbaExtent, known: Lba, plan: &mut Plan) {
        let pieces =
            self.map.overlapping_around(band, known).map(|mapped| PbaExtent::new(mapped.pba, mapped.lba.len));
        plan.read_in_any_order((self.spec.cache_medium, Purpose::CleanRead), pieces);
    }
}
