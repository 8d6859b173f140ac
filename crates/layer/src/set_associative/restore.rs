//! Recovery of a set-associative cache: the fill level of each cache band and the order of their first
//! writes.
//!
//! A cache band is filled up to the end of its last recovered extent; anything after that was obsolete.
//! Source: as in the parent module.

use skylight_disk::{BLOCK_SECTORS, Pba, PbaExtent, Sectors};

use super::SetAssociative;
use crate::plan::Medium;
use crate::restore::{MediaUse, Misplaced, Recovered};

impl SetAssociative {
    /// The space used on the media.
    pub(super) fn media_used(&self) -> MediaUse {
        let cache = Sectors(self.spec.cache_bands * self.spec.band.get());
        let capacity = self.spec.capacity;
        match self.spec.cache_medium {
            // Native data lies on both sides of the cache, or the cache starts after the end of native data.
            Medium::Platter => {
                let platter = (capacity + cache).max(Sectors(self.spec.cache_start.get()) + cache);
                // In the latter case, the platters between the two are unused.
                let gap = Sectors(self.spec.cache_start.get().saturating_sub(capacity.get()));
                let gap = PbaExtent::new(Pba(capacity.get()), gap);
                MediaUse { platter, gap, cached: cache, ..MediaUse::default() }
            }
            Medium::Flash => {
                let flash = Sectors(self.spec.cache_start.get()) + cache;
                MediaUse { platter: capacity, flash, cached: cache, ..MediaUse::default() }
            }
        }
    }

    /// Restores the map and the cache bands.
    pub(super) fn recover(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        *self = Self::new(self.spec);
        for cached in found.cached {
            let (band, _) = self.band_divisor.div_rem(cached.lba.start.get());
            let number = self.cache_band_of(band);
            let start = self.cache_band_start(number);
            let inside = cached.lba.end() <= self.band_extent(band).end()
                && start <= cached.pba
                && cached.pba + cached.lba.len <= start + self.spec.band;
            if !inside {
                return Err(Misplaced(cached.lba.start));
            }
            let end = (cached.pba - start).get() + cached.lba.len.get();
            let end = end.next_multiple_of(BLOCK_SECTORS) as u32;
            let in_use = self.filling_band(number);
            in_use.written = in_use.written.max(end);
            self.exceptions.insert(cached.lba, cached.pba);
        }
        Ok(())
    }
}
