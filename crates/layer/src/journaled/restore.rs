//! Recovery of a journal: the live records with their slots, and the position of the next entry.
//!
//! The access of an entry consists of all its quanta. So the sectors allocated before it are a whole number
//! of quanta, which is its first slot. The next entry follows the newest one with live data; later entries,
//! and the slots before the oldest, are free.
//!
//! Source: as in the parent module.

use skylight_disk::Sectors;

use super::Journaled;
use super::journal::JournalRecord;
use crate::plan::Medium;
use crate::restore::{CachedExtent, MediaUse, Misplaced, Recovered};

impl Journaled {
    /// The space used on the media.
    pub(super) fn media_used(&self) -> MediaUse {
        let (journal, cleaning) = (self.spec.journal.region, self.spec.cleaning);
        let cache = journal.end().max(cleaning.staging.end());
        let native = self.spec.bands.platter_end();
        let native = native.max(self.spec.map_merge.end()).max(cleaning.map_update.end());
        let used = MediaUse { cached: journal.len, ..MediaUse::default() };
        match self.spec.cache_medium {
            Medium::Platter => MediaUse { platter: Sectors(native.max(cache).get()), ..used },
            Medium::Flash => MediaUse { platter: Sectors(native.get()), flash: Sectors(cache.get()), ..used },
        }
    }

    /// Restores the map and the journal.
    pub(super) fn recover(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        *self = Self::new(self.spec.clone());
        let (region, quantum) = (self.spec.journal.region, self.spec.journal.quantum.get());
        for &CachedExtent { lba, pba, access, taken } in found.cached {
            let inside = region.start <= access.start && access.end() <= region.end();
            let whole = access.len.get().is_multiple_of(quantum) && taken.is_multiple_of(quantum);
            if !inside || !whole {
                return Err(Misplaced(lba.start));
            }
            let slot = taken / quantum;
            self.cache(lba, pba);
            self.journal.record(JournalRecord { lba, pba, slot });
        }
        if let Some(newest) = found.cached.last() {
            self.journal.continue_after(newest.access, newest.taken);
        }
        Ok(())
    }
}
