//! What a buffer knows of the drive's zones, and what a policy sees of it.
//!
//! A [`ZoneView`] follows the buffer's own actions: nobody else writes to the drive. It is reported anew at a start, where an
//! action failed, and for zones that the drive itself brings back into order. A drive also closes zones by itself, which
//! only a report would show.
//!
//! Invariant: where a zone is in order, what is written is what the drive has, or the next action there fails and the zone is
//! reported anew.

use std::collections::BTreeSet;

use skylight_disk::{Lba, LbaExtent, Sectors};

use super::contents::Contents;
use super::log::Log;
use super::policy::{Fill, HomeZone, HomeZones};
use crate::capabilities::zoned::{ZoneCondition, ZoneCounts, ZoneDescriptor, ZoneLayout};

/// A zone of the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Known {
    /// Sectors before the write pointer; all where it has none.
    pub written: Sectors,
    pub condition: ZoneCondition,
    /// The drive's persistent cache has data of it.
    pub non_sequential: bool,
}

impl Known {
    /// Whether it has a write pointer.
    pub fn is_writable(&self) -> bool {
        !matches!(
            self.condition,
            ZoneCondition::NotWritePointer | ZoneCondition::ReadOnly | ZoneCondition::Offline
        )
    }

    /// Whether a reset would change nothing.
    pub fn is_empty(&self) -> bool {
        self.condition == ZoneCondition::Empty && !self.non_sequential
    }
}

/// See the module page.
pub(super) struct ZoneView {
    pub layout: ZoneLayout,
    zones: Vec<Known>,
    pub counts: ZoneCounts,
    /// Those that were written out of order.
    pub non_sequential: BTreeSet<u32>,
}

fn index(condition: ZoneCondition) -> usize {
    ZoneCondition::ALL.iter().position(|&other| other == condition).unwrap_or(0)
}

impl ZoneView {
    /// Nothing is reported yet, and everything empty.
    pub fn new(layout: ZoneLayout) -> Self {
        let known = |zone| match layout.is_conventional(zone) {
            true => Known {
                written: layout.capacity_of(zone),
                condition: ZoneCondition::NotWritePointer,
                non_sequential: false,
            },
            false => Known { written: Sectors(0), condition: ZoneCondition::Empty, non_sequential: false },
        };
        let mut counts = ZoneCounts::default();
        counts.by_condition[index(ZoneCondition::NotWritePointer)] = layout.conventional;
        counts.by_condition[index(ZoneCondition::Empty)] = layout.zones - layout.conventional;
        let zones = (0..layout.zones).map(known).collect();
        Self { layout, zones, counts, non_sequential: BTreeSet::new() }
    }

    /// One zone.
    pub fn of(&self, zone: u32) -> &Known {
        &self.zones[zone as usize]
    }

    /// Sectors of a zone before its write pointer; all where it has none.
    pub fn written(&self, zone: u32) -> Sectors {
        self.of(zone).written
    }

    fn set(&mut self, zone: u32, known: Known) {
        let old = std::mem::replace(&mut self.zones[zone as usize], known);
        self.counts.by_condition[index(old.condition)] -= 1;
        self.counts.by_condition[index(known.condition)] += 1;
        if known.non_sequential {
            self.non_sequential.insert(zone);
        } else {
            self.non_sequential.remove(&zone);
        }
        self.counts.non_sequential = self.non_sequential.len() as u32;
    }

    /// What the drive reports of a zone.
    pub fn reported(&mut self, zone: u32, descriptor: &ZoneDescriptor) {
        let ZoneDescriptor { start, capacity, write_pointer, condition, non_sequential, .. } = *descriptor;
        let written = write_pointer.map_or(capacity, |pointer| (pointer - start).min(capacity));
        self.set(zone, Known { written, condition, non_sequential });
    }

    /// A write was done.
    pub fn wrote(&mut self, extent: LbaExtent) {
        let (zone, offset) = self.layout.place_of(extent.start);
        let known = *self.of(zone);
        if !known.is_writable() {
            return;
        }
        let in_order = known.written == offset;
        let written = if in_order { offset + extent.len } else { known.written };
        let full = written == self.layout.capacity_of(zone);
        let condition = match known.condition {
            _ if full => ZoneCondition::Full,
            ZoneCondition::ExplicitOpen => ZoneCondition::ExplicitOpen,
            _ => ZoneCondition::ImplicitOpen,
        };
        self.set(zone, Known { written, condition, non_sequential: known.non_sequential || !in_order });
    }

    /// A zone was emptied.
    pub fn emptied(&mut self, zone: u32) {
        let (written, condition) = (Sectors(0), ZoneCondition::Empty);
        self.set(zone, Known { written, condition, non_sequential: false });
    }
}

/// The home zones.
pub(super) struct Homes<'a> {
    pub contents: &'a Contents,
    pub view: &'a ZoneView,
    pub log: &'a Log,
    /// Those that are being cleaned.
    pub cleaning: &'a dyn Fn(u32) -> bool,
}

impl HomeZones for Homes<'_> {
    fn count(&self) -> u32 {
        self.contents.places.homes
    }

    fn zone(&self, zone: u32) -> HomeZone {
        let home = self.contents.homes[zone as usize];
        let Known { written, condition, non_sequential } = *self.view.of(home.zone);
        HomeZone {
            extent: self.contents.extent_of(zone),
            condition,
            written,
            non_sequential,
            buffered: Sectors(home.buffered),
            cleaning: (self.cleaning)(zone),
        }
    }

    fn zone_of(&self, lba: Lba) -> u32 {
        self.contents.place_of(lba).0
    }

    fn next_dirty(&self, from: u32) -> Option<u32> {
        self.contents.dirty.range(from..).next().copied()
    }

    fn oldest(&self) -> Option<u32> {
        self.contents.oldest_from(self.log.next())
    }
}

/// How full a buffer is.
pub(super) fn fill(contents: &Contents, log: &Log) -> Fill {
    // The log is a ring: what is live lies between its oldest live zone and the one being written.
    let zones = contents.zones.len() as u32;
    let behind = (0..zones - 1).map(|step| (log.next() + step) % zones);
    let free_zones = behind.take_while(|&zone| contents.zones[zone as usize].live == 0).count() as u32;
    Fill {
        zones,
        free_zones,
        space_in_zone: log.space(),
        live: Sectors(contents.map.sectors()),
        dirty_zones: contents.dirty.len() as u32,
        map_entries: contents.map.entries(),
        map_space: contents.map_space(),
    }
}
