//! The layout of a fully-associative drive: zones, bands and free bands.
//!
//! A zone is a run of physical bands of one size, its *slots*: one for each logical band, and the free bands,
//! spread evenly among them so that one is near every logical band: "multiple disk caches evenly spread out
//! on a disk to avoid long seeks during cleaning" (Skylight, section 3.1).
//!
//! Invariants: zones and slots do not overlap; each slot of a zone is either the native slot of exactly one
//! logical band or initially free.

use skylight_disk::{Divisor, Lba, LbaExtent, Pba, Sectors};

use super::FullyAssociativeSpec;

/// A logical band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BandAt {
    /// The zone that contains it.
    pub zone: usize,
    /// Its number in the zone.
    pub band: u32,
    /// Its host sectors. The last band of a zone may be short.
    pub lba: LbaExtent,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Layout {
    capacity: u64,
    zone: u64,
    band: u64,
    free: u64,
    start: u64,
    /// Sectors from one zone to the next on the platters.
    pitch: u64,
    band_divisor: Divisor,
    /// `None` if the drive is too large for an exact one.
    zone_divisor: Option<Divisor>,
}

impl Layout {
    pub fn new(spec: &FullyAssociativeSpec) -> Self {
        let (zone, band) = (spec.zone.get(), spec.band.get());
        Self {
            capacity: spec.capacity.get(),
            zone,
            band,
            free: spec.free_bands.into(),
            start: spec.start.get(),
            pitch: (zone.div_ceil(band) + u64::from(spec.free_bands)) * band,
            band_divisor: Divisor::new(band),
            zone_divisor: spec.capacity.get().checked_mul(zone).map(|_| Divisor::new(zone)),
        }
    }

    /// The number of zones.
    pub fn zones(&self) -> usize {
        self.capacity.div_ceil(self.zone) as usize
    }

    /// The zone that contains a host sector.
    #[inline]
    pub fn zone_of(&self, lba: Lba) -> usize {
        let zone = match self.zone_divisor {
            Some(divisor) => divisor.div_rem(lba.get()).0,
            None => lba.get() / self.zone,
        };
        zone as usize
    }

    /// The host sectors of a zone.
    #[inline]
    pub fn zone_extent(&self, zone: usize) -> LbaExtent {
        let start = zone as u64 * self.zone;
        LbaExtent::new(Lba(start), Sectors(self.zone.min(self.capacity - start)))
    }

    /// The number of logical bands of a zone.
    pub fn bands(&self, zone: usize) -> u32 {
        self.zone_extent(zone).len.get().div_ceil(self.band) as u32
    }

    /// The number of slots of a zone.
    pub fn slots(&self, zone: usize) -> u32 {
        self.bands(zone) + self.free as u32
    }

    /// Sectors from the first to the last slot of the drive.
    pub fn platter_sectors(&self) -> u64 {
        let last = self.zones() - 1;
        last as u64 * self.pitch + u64::from(self.slots(last)) * self.band
    }

    /// The logical band that contains a host sector.
    #[inline]
    pub fn of(&self, lba: Lba) -> BandAt {
        let zone = self.zone_of(lba);
        let extent = self.zone_extent(zone);
        let (band, into) = self.band_divisor.div_rem((lba - extent.start).get());
        let start = lba.get() - into;
        let len = Sectors(self.band.min(extent.end().get() - start));
        BandAt { zone, band: band as u32, lba: LbaExtent::new(Lba(start), len) }
    }

    /// The number of initially free slots before the native slot of a logical band.
    #[inline]
    fn free_before(&self, zone: usize, band: u32) -> u64 {
        let bands = u64::from(self.bands(zone));
        (2 * u64::from(band) * self.free + bands) / (2 * bands)
    }

    /// The native slot of a logical band.
    #[inline]
    pub fn native(&self, zone: usize, band: u32) -> u32 {
        band + self.free_before(zone, band) as u32
    }

    /// The initially free slot number `index` of a zone.
    pub fn free_slot(&self, zone: usize, index: u64) -> u32 {
        let bands = u64::from(self.bands(zone));
        let before = (bands * (2 * index + 1)).div_ceil(2 * self.free);
        (before + index) as u32
    }

    /// The initially free slots of a zone.
    pub fn free_slots(&self, zone: usize) -> impl Iterator<Item = u32> + '_ {
        (0..self.free).map(move |index| self.free_slot(zone, index))
    }

    /// The initially free slot nearest to the native slot of a logical band.
    pub fn nearest_free_slot(&self, zone: usize, band: u32) -> u32 {
        let near = self.native(zone, band);
        let next = self.free_before(zone, band);
        let candidates = next.saturating_sub(1)..=next.min(self.free - 1);
        let slots = candidates.map(|index| self.free_slot(zone, index));
        slots.min_by_key(|&slot| (slot.abs_diff(near), slot)).unwrap_or(near)
    }

    /// The first sector of a slot.
    #[inline]
    pub fn slot_start(&self, zone: usize, slot: u32) -> Pba {
        Pba(self.start + zone as u64 * self.pitch + u64::from(slot) * self.band)
    }

    /// Whether a sector is the first of a slot.
    pub fn starts_slot(&self, pba: Pba) -> bool {
        let from = pba.get().checked_sub(self.start);
        from.is_some_and(|from| (from % self.pitch).is_multiple_of(self.band))
    }

    /// The slot of a zone that contains a sector, and the offset of the sector in it.
    #[inline]
    pub fn slot_of(&self, zone: usize, pba: Pba) -> (u32, Sectors) {
        let (slot, into) = self.band_divisor.div_rem((pba - self.slot_start(zone, 0)).get());
        (slot as u32, Sectors(into))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn layout(capacity: u64, zone: u64, band: u64, free_bands: u32) -> Layout {
        Layout::new(&FullyAssociativeSpec {
            capacity: Sectors(capacity),
            band: Sectors(band),
            zone: Sectors(zone),
            free_bands,
            clean_threshold: 1,
            idle_after: None,
            start: Pba(100),
        })
    }

    proptest! {
        #[test]
        fn every_slot_is_native_to_one_band_or_initially_free(
            bands in 1u32..200,
            free in 2u32..60,
            cut in 0u64..8,
        ) {
            let layout = layout(u64::from(bands) * 8 - cut, 8 * 200, 8, free);
            prop_assert_eq!(layout.bands(0), bands);
            let native = (0..bands).map(|band| layout.native(0, band));
            let mut slots: Vec<u32> = native.chain(layout.free_slots(0)).collect();
            slots.sort_unstable();
            prop_assert_eq!(slots, (0..bands + free).collect::<Vec<_>>());
            for band in 0..bands {
                let near = layout.native(0, band);
                let nearest = layout.free_slots(0).map(|slot| slot.abs_diff(near)).min();
                prop_assert_eq!(nearest, Some(layout.nearest_free_slot(0, band).abs_diff(near)));
            }
        }
    }

    #[test]
    fn free_bands_are_spread_over_the_zone() {
        let layout = layout(2048 * 8, 2048 * 8, 8, 21);
        let far = (0..2048).map(|b| layout.native(0, b).abs_diff(layout.nearest_free_slot(0, b)));
        assert_eq!(far.max(), Some(49), "half the distance between two free bands");
    }

    #[test]
    fn a_zone_starts_after_the_slots_of_the_one_before() {
        let layout = layout(100, 40, 16, 2);
        assert_eq!((layout.zones(), layout.slots(0), layout.slots(2)), (3, 5, 4));
        assert_eq!(layout.slot_start(2, 0), Pba(100 + 2 * 5 * 16));
        assert_eq!(layout.platter_sectors(), 2 * 80 + 64);
        assert_eq!(layout.of(Lba(79)).lba, LbaExtent::new(Lba(72), Sectors(8)));
        assert_eq!(layout.slot_of(2, Pba(260 + 17)), (1, Sectors(1)));
    }
}
