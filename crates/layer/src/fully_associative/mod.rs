//! The fully-associative layer: the variant of S-blocks that Skylight emulates (FAST'15, section 3.1).
//!
//! The disk is large zones, each managed on its own. A zone has some more physical bands than logical ones:
//! its free bands, spread evenly over it. A write to any band of the zone is appended to the zone's log, a
//! free band that the zone's dirty bands share (`docs/figures.md`, "Drives": were it one free band for each dirty band,
//! random writes would use up 21 free bands with 21 writes). The exception map finds it there. Cleaning merges
//! a band with its exceptions into another free band and remaps it (`cleaning`).
//!
//! A write from the first sector of a band on begins a stream: a free band of its own, which the writes that
//! follow exactly continue (`writing`). When the last sector arrives the band is remapped there, and nothing
//! was written twice. When the stream breaks, what was written is exceptions in a log like any other.
//!
//! The memory of a zone is taken when it is first written, that of its band map when a band is first remapped.
//!
//! Invariants: every sector last written is found by the map in a log, or lies in the slot of its band; a slot
//! that is written holds nothing that reads see behind the place where writing goes on; see also `zone`.
//! Source: Skylight (FAST'15), sections 3.1 and 4.8; Cassuto et al. (MSST'10) and Hall (US 8,687,303) as cited
//! there.

mod audit;
mod cleaning;
mod layout;
mod restore;
mod writing;
mod zone;

use skylight_command::{Command, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use crate::extent_map::ExtentMap;
use crate::plan::{CacheUse, Idle, Layer, MapChange, Medium, Piece, Plan, Queue, Step};
use crate::restore::{Misplaced, Recovered, Room};
use cleaning::Cleaning;
use layout::{BandAt, Layout};
use zone::Zone;

/// The sizes and rules of a fully-associative drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FullyAssociativeSpec {
    /// Sectors that the host sees; the last zone may be short.
    pub capacity: Sectors,
    /// Sectors in a band, logical and physical.
    pub band: Sectors,
    /// Host sectors in a zone; its last band may be short.
    pub zone: Sectors,
    /// Physical bands that a zone has beyond its logical ones, more than `clean_threshold`.
    pub free_bands: u32,
    /// Free bands that writes leave: when a zone has no more than these, a write that needs one cleans first.
    /// At least 1, the band that cleaning merges into; a merge gives back as many bands as it takes, so more
    /// are never needed, and each is cache that the host cannot use: with 1 of 21, 95 % of the free space
    /// take writes, as measured in Skylight, table 2; with 2, it were 90 %.
    pub clean_threshold: u32,
    /// How long the drive is left alone before it cleans (aggressive); `None` if only a full zone does (lazy).
    pub idle_after: Option<Nanos>,
    /// Where the first zone begins on the platters.
    pub start: Pba,
}

impl FullyAssociativeSpec {
    /// Sectors on the platters, free bands included.
    pub fn platter_sectors(&self) -> Sectors {
        Sectors(Layout::new(self).platter_sectors())
    }

    /// What is wrong with the sizes, if anything.
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

/// The bands of a zone beyond its logical ones, by what they hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneUse {
    /// Nothing.
    pub free: u32,
    /// Exceptions.
    pub logs: u32,
    /// A merged band that is not committed yet.
    pub held: u32,
}

/// See the module page.
pub struct FullyAssociative {
    spec: FullyAssociativeSpec,
    layout: Layout,
    /// Those that were written.
    zones: Vec<Option<Box<Zone>>>,
    exceptions: ExtentMap,
    cleaning: Option<Cleaning>,
    /// Logs ever opened.
    opened: u64,
}

impl FullyAssociative {
    /// An empty drive.
    ///
    /// # Panics
    /// When a size is zero, `clean_threshold` is not from 1 to below `free_bands`, or a zone with its free
    /// bands has 2^32 sectors or more: a profile with such numbers is to be refused before.
    pub fn new(spec: FullyAssociativeSpec) -> Self {
        assert!(spec.fault().is_none(), "{}", spec.fault().unwrap_or_default());
        let layout = Layout::new(&spec);
        let zones = std::iter::repeat_with(|| None).take(layout.zones()).collect();
        Self { spec, layout, zones, exceptions: ExtentMap::new(), cleaning: None, opened: 0 }
    }

    /// How many zones there are.
    pub fn zones(&self) -> usize {
        self.zones.len()
    }

    /// What the bands of a zone beyond its logical ones hold.
    pub fn zone_use(&self, zone: usize) -> ZoneUse {
        let held = self.cleaning.filter(|cleaning| cleaning.at.zone == zone).and_then(|c| c.held());
        let held = u32::from(held.is_some());
        match &self.zones[zone] {
            Some(zone) => ZoneUse { free: zone.free.len() as u32, logs: zone.logs.len() as u32, held },
            None => ZoneUse { free: self.spec.free_bands, logs: 0, held },
        }
    }

    /// The slot of a logical band.
    #[inline]
    fn slot(&self, at: BandAt) -> u32 {
        let moved = self.zones[at.zone].as_ref().and_then(|zone| zone.moved(at.band));
        moved.unwrap_or_else(|| self.layout.native(at.zone, at.band))
    }

    /// Where a sector lies if the map has no exception for it.
    #[inline]
    fn native(&self, at: BandAt, lba: Lba) -> Pba {
        self.layout.place(at.zone, self.slot(at)) + (lba - at.lba.start)
    }

    /// The pieces of an extent in order, exceptions and the rest between them, band by band.
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

    /// The same, joined where one continues the other.
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

    /// The logs do not hold an extent of one zone any more; whether one of them is empty now.
    fn release(&mut self, zone: usize, extent: LbaExtent) -> bool {
        let (layout, band) = (&self.layout, self.spec.band);
        let Some(held) = &mut self.zones[zone] else {
            return false;
        };
        let mut emptied = false;
        for mapped in self.exceptions.overlapping(extent) {
            let mut rest = PbaExtent::new(mapped.pba, mapped.lba.len);
            // An entry of the map may go on from one log into the slot behind it.
            while !rest.is_empty() {
                let (slot, into) = layout.slot_of(zone, rest.start);
                let here = rest.len.min(band - into);
                emptied |= held.release(slot, here.get());
                rest = PbaExtent::new(rest.start + here, rest.len - here);
            }
        }
        emptied
    }

    /// Logs of a zone without a live sector are free bands again.
    fn reap(&mut self, zone: usize) {
        if let Some(zone) = &mut self.zones[zone] {
            zone.reap();
        }
    }

    /// A band is found in another slot from now on, all of it: the slot it had is free.
    fn remap(&mut self, at: BandAt, slot: u32, plan: &mut Plan) {
        let before = self.slot(at);
        self.release(at.zone, at.lba);
        self.exceptions.remove(at.lba);
        let bands = self.layout.bands(at.zone);
        if let Some(zone) = &mut self.zones[at.zone] {
            zone.close(slot);
            zone.move_band(at.band, bands, slot);
            zone.free.push(before);
            zone.reap();
        }
        let pba = self.layout.place(at.zone, slot);
        plan.push(Step::Commit(MapChange::Remapped { lba: at.lba, pba }));
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
            self.reap(number);
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
            Op::WriteZeroes | Op::Cache | Op::Append => return plan.fail(id, Failure::Unsupported),
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
            return (Medium::Platter, self.write_place(at, extent));
        }
        match self.exceptions.overlapping(LbaExtent::new(extent.start, Sectors(1))).next() {
            Some(mapped) => (Medium::Platter, mapped.pba),
            None => (Medium::Platter, self.native(at, extent.start)),
        }
    }

    fn place_group(&self, address: Lba) -> u32 {
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
    }

    fn room(&self) -> Room {
        self.room_used()
    }

    fn home(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.visit_home(extent, visit);
    }

    fn begins_part(&self, pba: Pba) -> bool {
        self.layout.begins_slot(pba)
    }

    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        self.take_up(found)
    }

    fn cache_use(&self) -> CacheUse {
        CacheUse {
            live_sectors: self.exceptions.sectors(),
            map_entries: self.exceptions.entries(),
            map_bytes: self.exceptions.bytes(),
        }
    }
}
