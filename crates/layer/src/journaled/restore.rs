//! Recovery of a journaled layer: its map, and its journal ([`super::journal::Journal::restore`]).
//!
//! Source: as in the parent module.

use skylight_disk::Sectors;

use super::Journaled;
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
        self.journal.restore(found.cached)?;
        for &CachedExtent { lba, pba, .. } in found.cached {
            self.cache(lba, pba);
        }
        Ok(())
    }
}
