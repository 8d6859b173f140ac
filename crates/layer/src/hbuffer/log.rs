//! Where the log is: a ring of zones, each written from its start.
//!
//! Invariant: between the zone in which the scan of a recovery begins and the one being written, no zone is emptied.

use skylight_disk::{Lba, LbaExtent, Sectors};

use super::format::{Header, Identity, Kind, Position};
use crate::capabilities::zoned::ZoneLayout;

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Log {
    /// Number of zones.
    zones: u32,
    /// The first zone of the drive that is of the log.
    first: u32,
    /// Sectors of a zone.
    zone: Sectors,
    /// The zone being written, as a number in the log.
    pub head: u32,
    /// Sectors written there.
    pub at: Sectors,
    /// The number of the next entry.
    pub sequence: u64,
    /// The number of the last checkpoint, and the zone where it has the log go on.
    pub generation: u64,
    pub scan_from: u32,
    /// Sectors written since.
    pub since_checkpoint: Sectors,
}

impl Log {
    pub fn new(zones: u32, first: u32, zone: Sectors) -> Self {
        let (at, since_checkpoint) = (Sectors(0), Sectors(0));
        Self { zones, first, zone, head: 0, at, sequence: 0, generation: 0, scan_from: 0, since_checkpoint }
    }

    /// The zone after the one being written.
    pub fn next(&self) -> u32 {
        (self.head + 1) % self.zones
    }

    /// The zone of the drive of a zone of the log.
    pub fn zone_of(&self, zone: u32) -> u32 {
        self.first + zone
    }

    /// Where the next entry goes.
    pub fn place(&self, layout: &ZoneLayout) -> Lba {
        layout.start_of(self.zone_of(self.head)) + self.at
    }

    /// Sectors left in the zone.
    pub fn space(&self) -> Sectors {
        self.zone - self.at
    }

    /// Whether so many sectors fit in the zone and leave space for so many records: those of the home zones that have to be cleaned
    /// before the next one can be written, and of those that are being cleaned. Without these, each would take a checkpoint;
    /// so they are kept as far as they are a quarter of the zone.
    pub fn fits(&self, sectors: Sectors, records: usize) -> bool {
        let reserve = if self.at == Sectors(0) { 0 } else { (records as u64).min(self.zone.get() / 4) };
        sectors.get() + reserve <= self.space().get()
    }

    /// The place of the next entry.
    pub fn position(&self) -> Position {
        Position { zone: self.head, at: self.at }
    }

    /// Whether a place in a zone of the log comes before another; neither may have been written again since.
    pub fn is_before(&self, place: Position, other: Position) -> bool {
        let zones_back = |zone: u32| (self.head + self.zones - zone) % self.zones;
        let (place_back, other_back) = (zones_back(place.zone), zones_back(other.zone));
        place_back > other_back || (place_back == other_back && place.at < other.at)
    }

    /// The header of the next entry.
    pub fn header(&self, identity: Identity, kind: Kind) -> Header {
        Header { identity, sequence: self.sequence, kind }
    }

    /// The place of an entry that is written next.
    pub fn entry(&self, layout: &ZoneLayout, header: &Header) -> LbaExtent {
        LbaExtent::new(self.place(layout), super::format::HEADER + header.data())
    }

    /// An entry was written.
    pub fn advance(&mut self, sectors: Sectors) {
        self.at += sectors;
        self.since_checkpoint += sectors;
        self.sequence += 1;
    }
}
