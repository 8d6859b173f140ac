//! What is in the log: the map from host extents to sectors of the drive, and what each zone of the log and each home zone has.
//!
//! It also has the host sectors that could not be read at home when that was rewritten: reads of them fail until they are written
//! or trimmed.
//!
//! Invariants: the live sectors of all zones of the log, those that all home zones have in the log, and those of the map are the
//! same number; a home zone with data in a zone of the log is in the list of that zone; a home zone is dirty while the log
//! has data of it.

use std::collections::BTreeSet;

use skylight_disk::{Divisor, Lba, LbaExtent, Pba, Sectors};

use super::format::Position;
use super::layout::Places;
use super::log::Log;
use crate::capabilities::zoned::ZoneLayout;
use crate::extent_map::ExtentMap;

/// What cannot be read has at most one in so many entries of a checkpoint. Chosen: cleaning cannot take these away, and the map needs
/// the others.
const UNREADABLE_SHARE: u64 = 8;

/// A home zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Home {
    /// The zone of the drive that has it.
    pub zone: u32,
    /// Sectors of it in the log.
    pub buffered: u64,
}

/// A zone of the log.
#[derive(Clone, Debug, Default)]
pub(super) struct LogZone {
    /// Sectors to which the map points.
    pub live: u64,
    /// The home zones that have data here, and some that have it in other zones by now.
    pub homes: BTreeSet<u32>,
}

/// See the module documentation.
pub(super) struct Contents {
    pub places: Places,
    layout: ZoneLayout,
    by_home: Divisor,
    pub map: ExtentMap,
    /// Host sectors that cannot be read; where the map has one too, the map is right.
    unreadable: ExtentMap,
    pub homes: Vec<Home>,
    pub dirty: BTreeSet<u32>,
    pub zones: Vec<LogZone>,
    /// The mappings that a change replaces.
    replaced: Vec<(LbaExtent, Pba)>,
}

impl Contents {
    /// Nothing in the log, and every home zone in the zone of its number.
    pub fn new(places: Places, layout: ZoneLayout, log_zones: u32) -> Self {
        let zone_of = |home| match home < places.conventional {
            true => places.conventional_from + home,
            false => places.pool + home - places.conventional,
        };
        Self {
            layout,
            by_home: Divisor::new(places.home.get()),
            map: ExtentMap::new(),
            unreadable: ExtentMap::new(),
            homes: (0..places.homes).map(|home| Home { zone: zone_of(home), buffered: 0 }).collect(),
            dirty: BTreeSet::new(),
            zones: vec![LogZone::default(); log_zones as usize],
            replaced: Vec::new(),
            places,
        }
    }

    /// The home zone of a host sector, and how far into it that lies.
    pub fn place_of(&self, lba: Lba) -> (u32, Sectors) {
        let (home, offset) = self.by_home.div_rem(lba.get());
        (home as u32, Sectors(offset))
    }

    /// The host sectors of a home zone.
    pub fn extent_of(&self, home: u32) -> LbaExtent {
        LbaExtent::new(Lba(u64::from(home) * self.places.home.get()), self.places.home)
    }

    /// Whether a home zone has no write pointer.
    pub fn is_conventional(&self, home: u32) -> bool {
        home < self.places.conventional
    }

    /// Where on the drive the home of a host sector is.
    pub fn home_place(&self, lba: Lba) -> Lba {
        let (home, offset) = self.place_of(lba);
        self.layout.start_of(self.homes[home as usize].zone) + offset
    }

    /// Visits the parts of an extent by home zone.
    pub fn visit_homes(&self, extent: LbaExtent, mut visit: impl FnMut(u32, LbaExtent)) {
        let mut start = extent.start;
        while start < extent.end() {
            let (home, _) = self.place_of(start);
            let end = extent.end().min(self.extent_of(home).end());
            visit(home, LbaExtent::new(start, end - start));
            start = end;
        }
    }

    /// Visits the pieces of an extent in order: where in the log each is, or `None`.
    pub fn visit_pieces(&self, extent: LbaExtent, mut visit: impl FnMut(LbaExtent, Option<Lba>)) {
        let mut at = extent.start;
        for mapped in self.map.overlapping(extent) {
            if at < mapped.lba.start {
                visit(LbaExtent::new(at, mapped.lba.start - at), None);
            }
            visit(mapped.lba, Some(Lba(mapped.pba.get())));
            at = mapped.lba.end();
        }
        if at < extent.end() {
            visit(LbaExtent::new(at, extent.end() - at), None);
        }
    }

    /// Whether the log has anything of an extent, if only that it cannot be read.
    pub fn has(&self, extent: LbaExtent) -> bool {
        self.map.overlapping(extent).next().is_some() || self.is_unreadable(extent)
    }

    /// Most entries of what cannot be read.
    pub fn unreadable_limit(&self) -> u64 {
        self.places.map_limit / UNREADABLE_SHARE
    }

    /// Entries that the map may still get; those that what cannot be read may get are kept for it.
    pub fn map_space(&self) -> u64 {
        let unreadable = self.unreadable.entries().max(self.unreadable_limit());
        self.places.map_limit.saturating_sub(self.map.entries() + unreadable)
    }

    /// Entries of the map and of what cannot be read: those of a checkpoint.
    pub fn entries(&self) -> u64 {
        self.map.entries() + self.unreadable.entries()
    }

    /// What cannot be read.
    pub fn unreadable(&self) -> &ExtentMap {
        &self.unreadable
    }

    /// Whether any sector of an extent of which the log has no data cannot be read.
    pub fn is_unreadable(&self, extent: LbaExtent) -> bool {
        self.unreadable.overlapping(extent).next().is_some()
    }

    /// What is at home of an extent cannot be read.
    pub fn lose(&mut self, extent: LbaExtent) {
        // Where it was matters to nobody.
        self.unreadable.insert(extent, Pba(extent.start.get()));
    }

    /// What was at home of an extent matters no more.
    fn forget_unreadable(&mut self, extent: LbaExtent) {
        if self.unreadable.entries() > 0 {
            self.unreadable.remove(extent);
        }
    }

    /// The number in the log of a zone of the drive that has a sector.
    fn log_zone(&self, place: Lba) -> usize {
        (self.layout.zone_of(place) - self.places.log) as usize
    }

    /// Where in the log a sector of the drive is.
    pub fn position_of(&self, place: Lba) -> Position {
        let (zone, at) = self.layout.place_of(place);
        Position { zone: zone - self.places.log, at }
    }

    /// What the log has of a host extent before a place in it, with the sectors of the drive.
    pub fn older(&self, extent: LbaExtent, before: Position, log: &Log) -> Vec<(LbaExtent, LbaExtent)> {
        let mapped = self.map.overlapping(extent);
        let placed = mapped.map(|mapped| (mapped.lba, LbaExtent::new(Lba(mapped.pba.get()), mapped.lba.len)));
        placed.filter(|&(_, place)| log.is_before(self.position_of(place.start), before)).collect()
    }

    /// What the log has of a home zone before a place in it is of no use any more.
    pub fn remove_older(&mut self, home: u32, before: Position, log: &Log) {
        for (lba, _) in self.older(self.extent_of(home), before, log) {
            self.remove(lba);
        }
        for zone in 0..self.zones.len() {
            let end = Position { zone: zone as u32, at: self.places.home };
            if self.homes[home as usize].buffered > 0 && log.is_before(end, before) {
                self.zones[zone].homes.remove(&home);
            }
        }
    }

    /// The log has an extent, which lies in one home zone, from a sector of the drive on.
    pub fn insert(&mut self, extent: LbaExtent, place: Lba) {
        let pba = Pba(place.get());
        self.forget_unreadable(extent);
        if !self.map.insert_if_clear(extent, pba) {
            self.uncount(extent);
            self.map.insert(extent, pba);
        }
        let (home, _) = self.place_of(extent.start);
        let zone = self.log_zone(place);
        self.zones[zone].live += extent.len.get();
        self.zones[zone].homes.insert(home);
        self.homes[home as usize].buffered += extent.len.get();
        self.dirty.insert(home);
    }

    /// The log has nothing of an extent.
    pub fn remove(&mut self, extent: LbaExtent) {
        self.forget_unreadable(extent);
        self.uncount(extent);
        self.map.remove(extent);
        for index in 0..self.replaced.len() {
            let (part, _) = self.replaced[index];
            let (first, last) = (self.place_of(part.start).0, self.place_of(Lba(part.end().get() - 1)).0);
            (first..=last).for_each(|home| self.note_clean(home));
        }
    }

    /// A home zone without data in the log is on no list.
    fn note_clean(&mut self, home: u32) {
        if self.homes[home as usize].buffered == 0 && self.dirty.remove(&home) {
            self.zones.iter_mut().for_each(|zone| {
                zone.homes.remove(&home);
            });
        }
    }

    /// What the map has of an extent is not live any more.
    fn uncount(&mut self, extent: LbaExtent) {
        let mut replaced = std::mem::take(&mut self.replaced);
        replaced.clear();
        replaced.extend(self.map.overlapping(extent).map(|mapped| (mapped.lba, mapped.pba)));
        for &(part, pba) in &replaced {
            let zone = self.log_zone(Lba(pba.get()));
            self.zones[zone].live -= part.len.get();
            let mut start = part.start;
            while start < part.end() {
                let (home, _) = self.place_of(start);
                let end = part.end().min(self.extent_of(home).end());
                self.homes[home as usize].buffered -= (end - start).get();
                start = end;
            }
        }
        self.replaced = replaced;
    }

    /// A home zone of which the log has data in this zone of it or, if not there, in one behind it.
    pub fn oldest_from(&self, zone: u32) -> Option<u32> {
        let count = self.zones.len() as u32;
        let zones = (0..count).map(|step| &self.zones[((zone + step) % count) as usize]);
        zones.filter(|zone| zone.live > 0).find_map(|zone| zone.homes.first().copied())
    }
}
