//! The fully-associative layer: the variant of S-blocks that Skylight emulates (FAST'15, section 3.1).
//!
//! The disk consists of large zones that are managed independently. A zone has more physical than logical
//! bands: the additional ones are its free bands, spread evenly over it. A write to any band of the zone is
//! appended to the zone's log, a free band that all dirty bands of the zone share (`docs/figures.md`,
//! "Drives": with one free band per dirty band, 21 random writes would use up 21 free bands), and is recorded
//! in the exception map. Cleaning merges a band with its exceptions into another free band and remaps it
//! (`cleaning`).
//!
//! A write at the first sector of a band starts a stream: it goes to a free band of its own, and writes that
//! continue it exactly follow (`writing`). With the last sector the band is remapped there, so that no data
//! is written twice. If the stream breaks, its data are exceptions in a log like any other.
//!
//! A zone takes memory from its first write on, and its band map from the first remapping on.
//!
//! Invariants: the latest data of every sector is in a log, where the map finds it, or in the slot of its
//! band; a slot that is being written contains no data visible to reads at or after its write position; see
//! also `zone`.
//! Source: Skylight (FAST'15), sections 3.1 and 4.8; Cassuto et al. (MSST'10) and Hall (US 8,687,303) as
//! cited there.

#[cfg(feature = "audit")]
#[path = "../../tests/fully_associative/audit.rs"]
mod audit;
mod cleaning;
mod layout;
mod restore;
mod slots;
mod writing;

use skylight_command::{Command, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use crate::extent_map::ExtentMap;
use crate::plan::{CacheUse, Idle, Layer, MapChange, Medium, Piece, Plan, Queue, Step};
use crate::restore::{MediaUse, Misplaced, Recovered};
#[cfg(feature = "audit")]
pub use audit::ZoneUse;
use cleaning::Cleaning;
use layout::{BandAt, Layout};
use slots::Zone;

/// The sizes and rules of a fully-associative drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullyAssociativeSpec {
    /// Host sectors; the last zone may be short.
    pub capacity: Sectors,
    /// Sectors in a band, logical and physical.
    pub band: Sectors,
    /// Host sectors in a zone; its last band may be short.
    pub zone: Sectors,
    /// Physical bands of a zone in addition to its logical ones; more than `clean_threshold`.
    pub free_bands: u32,
    /// Free bands that writes leave unused: if a zone has no more than these, a write that needs one waits
    /// for cleaning. At least 1, the destination of a merge. A merge frees as many bands as it takes, so more
    /// are never needed, and each reduces the cache: with 1 of 21, writes can use 95 % of the free space, as
    /// measured in Skylight, table 2; with 2, only 90 %.
    pub clean_threshold: u32,
    /// Idle time before the drive cleans (aggressive); `None` if it cleans only full zones (lazy).
    pub idle_after: Option<Nanos>,
    /// The first sector of the first zone on the platters.
    pub start: Pba,
}

impl FullyAssociativeSpec {
    /// Sectors on the platters, free bands included.
    pub fn platter_sectors(&self) -> Sectors {
        Sectors(Layout::new(self).platter_sectors())
    }

    /// Why the sizes are invalid, if they are.
    fn fault(&self) -> Option<&'static str> {
        let zone = self.zone.get().max(1).next_multiple_of(self.band.get().max(1));
        let physical = u128::from(zone) + u128::from(self.free_bands) * u128::from(self.band.get());
        if self.capacity.get() == 0 || self.band.get() == 0 || self.zone.get() == 0 {
            Some("capacity, band and zone must be at least one sector")
        } else if self.clean_threshold == 0 || self.free_bands <= self.clean_threshold {
            Some("clean_threshold must be at least 1 and free_bands more than that")
        } else if physical > u32::MAX.into() {
            Some("a zone with its free bands must be below 2^32 sectors (2 TiB)")
        } else {
            None
        }
    }
}

/// See the module documentation.
pub struct FullyAssociative {
    spec: FullyAssociativeSpec,
    layout: Layout,
    /// The zones that were written.
    zones: Vec<Option<Box<Zone>>>,
    exceptions: ExtentMap,
    cleaning: Option<Cleaning>,
    /// Number of logs opened so far.
    opened: u64,
    /// When and in which zone logs were opened that idle cleaning empties next, the oldest last (`cleaning`).
    by_age: Vec<(u64, usize)>,
}

impl FullyAssociative {
    /// An empty drive.
    ///
    /// # Panics
    /// If a size is zero, `clean_threshold` is not from 1 to below `free_bands`, or a zone with its free
    /// bands has 2^32 sectors or more: the profile check rejects such numbers.
    pub fn new(spec: FullyAssociativeSpec) -> Self {
        assert!(spec.fault().is_none(), "{}", spec.fault().unwrap_or_default());
        let layout = Layout::new(&spec);
        let zones = std::iter::repeat_with(|| None).take(layout.zones()).collect();
        let (exceptions, by_age) = (ExtentMap::new(), Vec::new());
        Self { spec, layout, zones, exceptions, cleaning: None, opened: 0, by_age }
    }

    /// The slot of a logical band.
    #[inline]
    fn slot(&self, at: BandAt) -> u32 {
        let remapped = self.zones[at.zone].as_ref().and_then(|zone| zone.remapped(at.band));
        remapped.unwrap_or_else(|| self.layout.native(at.zone, at.band))
    }

    /// The location of a sector without an exception.
    #[inline]
    fn native(&self, at: BandAt, lba: Lba) -> Pba {
        self.layout.slot_start(at.zone, self.slot(at)) + (lba - at.lba.start)
    }

    /// Visits the pieces of an extent in order, band by band: exceptions, and native locations between them.
    fn visit_bands(&self, extent: LbaExtent, mut visit: impl FnMut(PbaExtent, bool)) {
        let mut at = extent.start;
        while at < extent.end() {
            let band = self.layout.of(at);
            let end = band.lba.end().min(extent.end());
            for mapped in self.exceptions.overlapping(LbaExtent::new(at, end - at)) {
                if at < mapped.lba.start {
                    visit(PbaExtent::new(self.native(band, at), mapped.lba.start - at), false);
                }
                visit(PbaExtent::new(mapped.pba, mapped.lba.len), true);
                at = mapped.lba.end();
            }
            if at < end {
                visit(PbaExtent::new(self.native(band, at), end - at), false);
            }
            at = end;
        }
    }

    /// The same, with contiguous pieces merged.
    #[inline]
    fn visit_pieces(&self, extent: LbaExtent, mut visit: impl FnMut(Piece)) {
        let piece = |extent, cached| Piece { medium: Medium::Platter, extent, cached };
        let mut pending: Option<(PbaExtent, bool)> = None;
        self.visit_bands(extent, |next, cached| match &mut pending {
            Some((before, same)) if *same == cached && before.end() == next.start => before.len += next.len,
            _ => {
                if let Some((before, same)) = pending.replace((next, cached)) {
                    visit(piece(before, same));
                }
            }
        });
        if let Some((last, cached)) = pending {
            visit(piece(last, cached));
        }
    }

    /// Releases the exceptions of an extent of one zone from their logs. Returns whether a log has become
    /// empty.
    fn release(&mut self, zone: usize, extent: LbaExtent) -> bool {
        let (layout, band) = (&self.layout, self.spec.band);
        let Some(logs) = &mut self.zones[zone] else {
            return false;
        };
        let mut emptied = false;
        for mapped in self.exceptions.overlapping(extent) {
            let mut rest = PbaExtent::new(mapped.pba, mapped.lba.len);
            // An entry of the map may extend from one log into the next slot.
            while !rest.is_empty() {
                let (slot, into) = layout.slot_of(zone, rest.start);
                let here = rest.len.min(band - into);
                emptied |= logs.release(slot, here.get());
                rest = PbaExtent::new(rest.start + here, rest.len - here);
            }
        }
        emptied
    }

    /// Frees the logs of a zone that have no live sector.
    fn free_empty_logs(&mut self, zone: usize) {
        if let Some(zone) = &mut self.zones[zone] {
            zone.free_empty_logs();
        }
    }

    /// Remaps a whole band to another slot and frees its former one.
    fn remap(&mut self, at: BandAt, slot: u32, plan: &mut Plan) {
        let before = self.slot(at);
        self.release(at.zone, at.lba);
        self.exceptions.remove(at.lba);
        let bands = self.layout.bands(at.zone);
        if let Some(zone) = &mut self.zones[at.zone] {
            zone.close(slot);
            zone.remap(at.band, bands, slot);
            zone.free.push(before);
            zone.free_empty_logs();
        }
        let pba = self.layout.slot_start(at.zone, slot);
        plan.push(Step::Commit(MapChange::Remapped { lba: at.lba, pba: pba.into() }));
    }

    fn trim(&mut self, extent: LbaExtent, plan: &mut Plan) {
        self.cancel_cleaning_of(extent);
        let last = self.layout.zone_of(Lba(extent.end().get() - 1));
        for number in self.layout.zone_of(extent.start)..=last {
            let inside = self.layout.zone_extent(number);
            let start = extent.start.max(inside.start);
            let part = LbaExtent::new(start, extent.end().min(inside.end()) - start);
            let (first, last) = (self.layout.of(start).band, self.layout.of(Lba(part.end().get() - 1)).band);
            let Some(zone) = &mut self.zones[number] else {
                continue;
            };
            while let Some(stream) = zone.streams.iter().find(|s| (first..=last).contains(&s.band)) {
                zone.break_stream(stream.band);
            }
            self.release(number, part);
            self.free_empty_logs(number);
        }
        self.exceptions.remove(extent);
        plan.push(Step::Commit(MapChange::Native { lba: extent }));
    }
}

impl Layer for FullyAssociative {
    fn capacity(&self) -> Sectors {
        self.spec.capacity
    }

    #[inline]
    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let Command { id, op, extent, .. } = queue.next_command();
        match op {
            Op::Read => self.visit_pieces(extent, |piece| plan.read_piece(piece)),
            Op::Write => return self.take_write(queue, plan),
            Op::Trim => self.trim(extent, plan),
            Op::Flush => {}
            Op::WriteZeroes | Op::Cache | Op::Append | Op::Zone(_) => {
                return plan.fail(id, Failure::Unsupported);
            }
        }
        plan.complete(id);
    }

    fn idle_after(&self) -> Option<Nanos> {
        self.spec.idle_after
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        if self.spec.idle_after.is_some() && self.clean_idle(plan) { Idle::Worked } else { Idle::Nothing }
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.visit_pieces(extent, |piece| pieces.push(piece));
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        let at = self.layout.of(extent.start);
        if write {
            return (Medium::Platter, self.write_location(at, extent));
        }
        match self.exceptions.overlapping(LbaExtent::new(extent.start, Sectors(1))).next() {
            Some(mapped) => (Medium::Platter, mapped.pba),
            None => (Medium::Platter, self.native(at, extent.start)),
        }
    }

    fn location_group(&self, address: Lba) -> u32 {
        self.layout.zone_of(address) as u32
    }

    #[inline]
    fn hint(&mut self, address: Lba) {
        self.exceptions.hint(address);
    }

    fn erase(&mut self) {
        self.zones.fill_with(|| None);
        self.exceptions = ExtentMap::new();
        self.cleaning = None;
        self.opened = 0;
        self.by_age.clear();
    }

    fn media_use(&self) -> MediaUse {
        self.media_used()
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.visit_initial(extent, visit);
    }

    fn starts_slot(&self, pba: Pba) -> bool {
        self.layout.starts_slot(pba)
    }

    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        self.recover(found)
    }

    fn cache_use(&self) -> CacheUse {
        let logs = || self.zones.iter().flatten().flat_map(|zone| &zone.logs);
        let usable_bands = u64::from(self.spec.free_bands - self.spec.clean_threshold);
        CacheUse {
            filled_sectors: logs().map(|log| u64::from(log.written)).sum(),
            usable_sectors: self.layout.zones() as u64 * usable_bands * self.spec.band.get(),
            cleaning: self.cleaning.is_some(),
            ..self.exceptions.cache_use()
        }
    }
}
