//! What a policy sees of a buffer.
//!
//! Invariant: nothing here changes anything.

use skylight_disk::{Lba, Sectors};

use super::below::Below;
use super::contents::Contents;
use super::log::Log;
use super::policy::{Fill, HomeZone, HomeZones};

/// The home zones.
pub(super) struct Homes<'a> {
    pub contents: &'a Contents,
    pub below: &'a Below,
    pub log: &'a Log,
    /// The one that is being cleaned.
    pub cleaning: Option<u32>,
}

impl HomeZones for Homes<'_> {
    fn count(&self) -> u32 {
        self.contents.places.homes
    }

    fn zone(&self, zone: u32) -> HomeZone {
        let home = self.contents.homes[zone as usize];
        let descriptor = self.below.zone(home.zone);
        HomeZone {
            extent: self.contents.extent_of(zone),
            condition: descriptor.condition,
            written: self.below.written(home.zone),
            non_sequential: descriptor.non_sequential,
            buffered: Sectors(home.buffered),
            cleaning: self.cleaning == Some(zone),
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
    }
}
