//! Taking up a set-associative cache: how full each cache band is, and which began to fill first.
//!
//! A cache band is filled up to the end of the last extent that was found in it: what lay behind was dead.
//! Source: as the module above.

use skylight_disk::{BLOCK_SECTORS, Pba, PbaExtent, Sectors};

use super::SetAssociative;
use crate::plan::Medium;
use crate::restore::{MediaUse, Misplaced, Recovered};

impl SetAssociative {
    /// The room on the media.
    pub(super) fn media_used(&self) -> MediaUse {
        let cache = Sectors(self.spec.cache_bands * self.spec.band.get());
        let capacity = self.spec.capacity;
        match self.spec.cache_medium {
            // Native data lies around the cache, which may begin behind the end of it.
            Medium::Platter => {
                let platter = (capacity + cache).max(Sectors(self.spec.cache_start.get()) + cache);
                // What lies around the cache ends with it, or where all data would if the cache were not there.
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

    /// Takes up what was found.
    pub(super) fn take_up(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
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
            let in_use = &mut self.cache_bands[number as usize];
            if in_use.written == 0 {
                in_use.begun = self.begun;
                self.filling.insert(self.begun, number);
                self.begun += 1;
            }
            in_use.written = in_use.written.max(end);
            self.exceptions.insert(cached.lba, cached.pba);
        }
        Ok(())
    }
}
