//! The circular log of a buffering host: where entries go, and which are still needed.
//!
//! Positions count sectors since the log began and never repeat; a position modulo the log's length is its place. An entry is a
//! header of a block and the data of one write, and lies within one zone.
//!
//! Invariants: the log never grows into a zone that still has live data; the zones from the oldest live record to the head
//! are the only ones in use.

use std::collections::VecDeque;

use skylight_disk::{BLOCK_SECTORS, LbaExtent, Pba, Sectors};
use skylight_layer::ExtentMap;

/// What an entry says of itself: a block, so that the data behind it stays aligned.
pub const HEADER: Sectors = Sectors(BLOCK_SECTORS);

/// The data of one entry.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// Host sectors.
    pub lba: LbaExtent,
    /// The position of its first.
    pub at: Pba,
}

/// See the module page.
#[derive(Debug)]
pub struct Log {
    zones: u64,
    zone: u64,
    /// Where the next entry goes.
    head: u64,
    /// The number of the oldest zone in use, counted from the log's beginning.
    tail_zone: u64,
    records: VecDeque<Record>,
}

impl Log {
    /// An empty log over so many zones.
    pub fn new(zones: u32, zone: Sectors) -> Self {
        Self { zones: zones.into(), zone: zone.get(), head: 0, tail_zone: 0, records: VecDeque::new() }
    }

    /// Where the next entry goes.
    pub fn head(&self) -> Pba {
        Pba(self.head)
    }

    /// The zone of the log, from 0 on, and the sector in it of a position.
    pub fn place(&self, at: Pba) -> (u32, Sectors) {
        ((at.get() / self.zone % self.zones) as u32, Sectors(at.get() % self.zone))
    }

    /// Zones that an entry can begin, without the one that the head is in.
    pub fn free_zones(&self) -> u32 {
        (self.zones - (self.head.div_ceil(self.zone) - self.tail_zone)) as u32
    }

    /// Sectors left in the zone that the head is in.
    pub fn space_in_zone(&self) -> Sectors {
        Sectors(self.head.next_multiple_of(self.zone) - self.head)
    }

    /// Places an entry for a write: the position of its header. `None` when the log is full.
    pub fn append(&mut self, lba: LbaExtent) -> Option<Pba> {
        let entry = (HEADER + lba.len).get();
        if entry > self.space_in_zone().get() {
            if self.free_zones() == 0 {
                return None;
            }
            self.head = self.head.next_multiple_of(self.zone);
        }
        let at = self.head;
        self.head += entry;
        self.records.push_back(Record { lba, at: Pba(at) + HEADER });
        Some(Pba(at))
    }

    /// Drops the records at the tail that the map no longer points to. Gives the zones of the log, from 0 on, that are
    /// free by that.
    pub fn release(&mut self, map: &ExtentMap) -> impl Iterator<Item = u32> + use<> {
        while self.records.front().is_some_and(|record| !is_live(record, map)) {
            self.records.pop_front();
        }
        let before = self.tail_zone;
        // The zone of the head stays in use, unless it is full.
        self.tail_zone = self.records.front().map_or(self.head, |record| record.at.get()) / self.zone;
        let zones = self.zones;
        (before..self.tail_zone).map(move |zone| (zone % zones) as u32)
    }

    /// The records, oldest first; some may no longer be needed.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter()
    }

    /// The oldest record.
    pub fn oldest(&self) -> Option<&Record> {
        self.records.front()
    }
}

/// Whether the map still points to a record.
pub fn is_live(record: &Record, map: &ExtentMap) -> bool {
    let end = record.at + record.lba.len;
    map.overlapping(record.lba).any(|mapped| record.at <= mapped.pba && mapped.pba < end)
}

#[cfg(test)]
mod tests {
    use skylight_disk::Lba;

    use super::*;

    #[test]
    fn the_log_is_full_until_its_oldest_zone_is_dead() {
        let (mut log, mut map) = (Log::new(3, Sectors(100)), ExtentMap::new());
        let mut write = |log: &mut Log, lba: u64| {
            let lba = LbaExtent::new(Lba(lba), Sectors(42));
            let at = log.append(lba)?;
            map.insert(lba, at + HEADER);
            Some((at.get(), log.release(&map).collect::<Vec<_>>()))
        };
        let places: Vec<_> = (0..7).map(|i| write(&mut log, i * 1000).map(|(at, _)| at)).collect();
        assert_eq!(places, [Some(0), Some(50), Some(100), Some(150), Some(200), Some(250), None]);
        map.remove(LbaExtent::new(Lba(0), Sectors(42)));
        assert_eq!(log.release(&map).count(), 0, "the second entry of the zone is live");
        map.remove(LbaExtent::new(Lba(1000), Sectors(42)));
        assert_eq!(log.release(&map).collect::<Vec<_>>(), [0]);
        assert_eq!(log.append(LbaExtent::new(Lba(9000), Sectors(42))), Some(Pba(300)));
        assert_eq!(log.place(Pba(300)), (0, Sectors(0)));
    }
}
