//! Taking up a journal: the records that are live, with their slots, and where the next entry goes.
//!
//! The access of an entry is its quanta, all of them, so what the cache had taken before it is a whole number
//! of quanta: its first slot. The next entry goes behind the newest that has something live; entries behind
//! that, and slots before the oldest, are free.
//!
//! Source: as the module above.

use skylight_disk::Sectors;

use super::Journaled;
use super::journal::Record;
use crate::plan::Medium;
use crate::restore::{CachedExtent, MediaUse, Misplaced, Recovered};

impl Journaled {
    /// The room on the media.
    pub(super) fn media_used(&self) -> MediaUse {
        let (journal, cleaning) = (self.spec.journal.region, self.spec.cleaning);
        let cache = journal.end().max(cleaning.staging.end());
        let native = self.spec.bands.platter_end();
        let native = native.max(self.spec.map_merge.end()).max(cleaning.map_update.end());
        let room = MediaUse { cached: journal.len, ..MediaUse::default() };
        match self.spec.cache_medium {
            Medium::Platter => MediaUse { platter: Sectors(native.max(cache).get()), ..room },
            Medium::Flash => MediaUse { platter: Sectors(native.get()), flash: Sectors(cache.get()), ..room },
        }
    }

    /// Takes up what was found.
    pub(super) fn take_up(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
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
            self.journal.record(Record { lba, pba, slot });
        }
        if let Some(newest) = found.cached.last() {
            self.journal.go_on_behind(newest.access, newest.taken);
        }
        Ok(())
    }
}
