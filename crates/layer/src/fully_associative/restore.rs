//! Recovery of the zones of a fully-associative drive: which slots are bands, logs, or free.
//!
//! A slot with recovered exceptions is a log, filled up to the end of the last one; logs with space are the
//! next to append to. A stream that a power cut interrupted becomes a log like any other. All slots that are
//! neither a log nor the location of a band are free.
//!
//! Source: as in the parent module.

use std::collections::BTreeSet;

use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};

use super::FullyAssociative;
use super::slots::LogRecord;
use crate::restore::{CachedExtent, MediaUse, Misplaced, Recovered};

impl FullyAssociative {
    /// The space used on the media.
    pub(super) fn media_used(&self) -> MediaUse {
        let zones = self.layout.zones();
        MediaUse {
            platter: Sectors(self.spec.start.get()) + self.spec.platter_sectors(),
            cached: Sectors(zones as u64 * u64::from(self.spec.free_bands) * self.spec.band.get()),
            movable: (0..zones).map(|zone| u64::from(self.layout.bands(zone))).sum(),
            ..MediaUse::default()
        }
    }

    /// Visits the locations of an extent on a new drive.
    pub(super) fn visit_initial(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        let mut at = extent.start;
        while at < extent.end() {
            let band = self.layout.of(at);
            let end = band.lba.end().min(extent.end());
            let start = self.layout.slot_start(band.zone, self.layout.native(band.zone, band.band));
            visit(PbaExtent::new(start + (at - band.lba.start), end - at));
            at = end;
        }
    }

    /// Restores the maps and the zones.
    pub(super) fn recover(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        *self = Self::new(self.spec);
        for &(lba, pba) in found.moved {
            let at = self.layout.of(lba.start);
            let slot = self.slot_in(at.zone, pba, lba.len).filter(|&(_, into)| into == 0 && at.lba == lba);
            let (slot, _) = slot.ok_or(Misplaced(lba.start))?;
            let bands = self.layout.bands(at.zone);
            self.zone_mut(at.zone).remap(at.band, bands, slot);
        }
        for cached in found.cached {
            self.recover_record(cached)?;
        }
        (0..self.zones.len()).try_for_each(|number| self.finish_zone(number))
    }

    /// The slot of a zone that contains an extent of the platters, and the offset of the extent in it.
    fn slot_in(&self, number: usize, pba: Pba, len: Sectors) -> Option<(u32, u32)> {
        let end = self.layout.slot_start(number, self.layout.slots(number));
        if pba < self.layout.slot_start(number, 0) || pba + len > end {
            return None;
        }
        let (slot, into) = self.layout.slot_of(number, pba);
        (into + len <= self.spec.band).then_some((slot, into.get() as u32))
    }

    /// Adds an exception to its log. An access lies in one slot, and so does its data.
    fn recover_record(&mut self, &CachedExtent { lba, pba, .. }: &CachedExtent) -> Result<(), Misplaced> {
        let number = self.layout.zone_of(lba.start);
        let zone = self.layout.zone_extent(number);
        let found = self.slot_in(number, pba, lba.len).filter(|_| lba.end() <= zone.end());
        let (slot, offset) = found.ok_or(Misplaced(lba.start))?;
        let opened = self.opened;
        let logs = self.zone_mut(number);
        if logs.log(slot).is_none() {
            logs.open(slot, opened);
            self.opened += 1;
        }
        let start = (lba.start - zone.start).get() as u32;
        let record = LogRecord { lba: start, offset, len: lba.len.get() as u32 };
        self.zone_mut(number).recover_record(slot, record);
        self.exceptions.insert(lba, pba);
        Ok(())
    }

    /// Finds the free slots of a zone and the logs with space. One slot must be free for the next merge.
    fn finish_zone(&mut self, number: usize) -> Result<(), Misplaced> {
        let (layout, slots) = (&self.layout, self.layout.slots(number));
        let first = layout.zone_extent(number).start;
        let Some(zone) = &mut self.zones[number] else {
            return Ok(());
        };
        let logs = zone.logs.iter().map(|log| log.slot);
        let native = |band| zone.remapped(band).unwrap_or_else(|| layout.native(number, band));
        let mut used = BTreeSet::new();
        if !logs.chain((0..layout.bands(number)).map(native)).all(|slot| used.insert(slot)) {
            return Err(Misplaced(first));
        }
        zone.free = (0..slots).filter(|slot| !used.contains(slot)).collect();
        zone.spares = zone.logs.iter().map(|log| log.slot).filter(|&slot| zone.has_space(slot)).collect();
        if zone.free.is_empty() { Err(Misplaced(first)) } else { Ok(()) }
    }
}
