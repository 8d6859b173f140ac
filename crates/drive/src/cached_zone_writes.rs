//! The cached writes of each zone, so that whatever concerns a zone visits no write of another.
//!
//! A write over several zones is one of each. The newest write of a zone is known with its run, which what continues it
//! joins ([`crate::write_cache`]); when it has left, nothing continues the zone.
//!
//! Zones are found by a hash without a random key, and nothing depends on the order in which they are visited.
//!
//! Invariants: a zone is here exactly while a write of it is cached; its writes are in the order of acceptance.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;
use skylight_command::{Command, CommandId};
use skylight_disk::{Lba, LbaExtent};
use skylight_layer::ZoneLayout;

/// The cached writes of one zone.
struct OfZone {
    /// Apart from the others: most zones that are written to anywhere have no other, and then nothing else is looked at.
    oldest: Command,
    /// In the order of acceptance.
    younger: VecDeque<Command>,
    /// The end of the newest write and its run, while it is cached.
    newest: Option<(Lba, u32)>,
}

impl OfZone {
    /// All of them, oldest first.
    #[inline]
    fn writes(&self) -> impl Iterator<Item = &Command> {
        std::iter::once(&self.oldest).chain(&self.younger)
    }

    /// The oldest that begins at a sector or behind it.
    fn oldest_from(&self, start: Lba) -> Option<Command> {
        self.writes().find(|write| write.extent.start >= start).copied()
    }
}

/// See the module documentation.
pub(crate) struct ZoneWrites {
    layout: ZoneLayout,
    zones: FxHashMap<u32, OfZone>,
    /// Unused queues, so that their memory serves again.
    spare: Vec<VecDeque<Command>>,
}

impl ZoneWrites {
    pub(crate) fn new(layout: ZoneLayout) -> Self {
        Self { layout, zones: FxHashMap::default(), spare: Vec::new() }
    }

    pub(crate) fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    /// The run of the newest write of a zone, if a write continues that.
    #[inline]
    pub(crate) fn continued_run(&self, extent: LbaExtent) -> Option<u32> {
        let (end, run) = self.zones.get(&self.layout.zone_of(extent.start))?.newest?;
        (end == extent.start).then_some(run)
    }

    /// The zones of a write, which is not empty.
    #[inline]
    fn zones_of(&self, extent: LbaExtent) -> std::ops::RangeInclusive<u32> {
        self.layout.zone_of(extent.start)..=self.layout.zone_of(Lba(extent.end().get() - 1))
    }

    /// A write was accepted that belongs to a run.
    #[inline]
    pub(crate) fn accept(&mut self, write: Command, run: u32) {
        let zones = self.zones_of(write.extent);
        let first = *zones.start();
        for zone in zones {
            let newest = (zone == first).then_some((write.extent.end(), run));
            let Some(of_zone) = self.zones.get_mut(&zone) else {
                self.zones.insert(zone, OfZone { oldest: write, younger: VecDeque::new(), newest });
                continue;
            };
            if of_zone.younger.capacity() == 0 {
                of_zone.younger = self.spare.pop().unwrap_or_default();
            }
            of_zone.younger.push_back(write);
            of_zone.newest = newest.or(of_zone.newest);
        }
    }

    /// A write that belongs to a run has left.
    #[inline]
    pub(crate) fn remove(&mut self, write: Command, run: u32) {
        let zones = self.zones_of(write.extent);
        let first = *zones.start();
        for zone in zones {
            let Some(of_zone) = self.zones.get_mut(&zone) else {
                continue;
            };
            if zone == first && of_zone.newest == Some((write.extent.end(), run)) {
                of_zone.newest = None;
            }
            if of_zone.oldest.id != write.id {
                if let Some(index) = of_zone.younger.iter().position(|other| other.id == write.id) {
                    of_zone.younger.remove(index);
                }
            } else if let Some(next) = of_zone.younger.pop_front() {
                of_zone.oldest = next;
            } else if let Some(OfZone { younger, .. }) = self.zones.remove(&zone)
                && younger.capacity() > 0
            {
                self.spare.push(younger);
            }
        }
    }

    /// The cached writes of the zone of a sector, oldest first.
    pub(crate) fn of_zone(&self, lba: Lba) -> impl Iterator<Item = Command> {
        self.zones.get(&self.layout.zone_of(lba)).into_iter().flat_map(OfZone::writes).copied()
    }

    /// The oldest cached write that is older than this one and has to leave before it: one to the same zone with a write
    /// pointer, or one that overlaps it.
    #[inline]
    pub(crate) fn oldest_before(&self, write: Command) -> Option<CommandId> {
        let age = |other: &Command| write.id.0.wrapping_sub(other.id.0);
        let zones = self.zones_of(write.extent).filter_map(|zone| self.zones.get(&zone));
        let with_older = zones.filter(|of_zone| of_zone.oldest.id != write.id);
        let older = with_older.filter_map(|of_zone| {
            let touched = self.layout.touched(&write);
            let mut older = of_zone.writes().take_while(|other| other.id != write.id);
            older.find(|other| touched.overlaps(other.extent))
        });
        older.max_by_key(|other| age(other)).map(|other| other.id)
    }

    /// The oldest cached write that begins in each zone, in no order.
    pub(crate) fn oldest_of_each(&self) -> impl Iterator<Item = (u32, Command)> {
        let zones = self.zones.iter();
        zones.filter_map(|(&zone, of_zone)| Some((zone, of_zone.oldest_from(self.layout.start_of(zone))?)))
    }

    /// The oldest cached write that begins in a zone.
    pub(crate) fn oldest_in(&self, zone: u32) -> Option<Command> {
        self.zones.get(&zone)?.oldest_from(self.layout.start_of(zone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use skylight_command::Op;
    use skylight_disk::Sectors;
    use skylight_layer::ZoneModel;

    const ZONE: u64 = 80;

    /// The same of a list of all cached writes.
    fn oldest_before(layout: &ZoneLayout, cached: &[(Command, u32)], write: &Command) -> Option<CommandId> {
        let older = cached.iter().map(|(other, _)| other).take_while(|other| other.id != write.id);
        let mut ordered = older.filter(|other| layout.touched(other).overlaps(layout.touched(write)));
        ordered.next().map(|other| other.id)
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_all_cached_writes_finds(
            writes in prop::collection::vec((0u64..720, 1u64..200, 0u32..4, any::<prop::sample::Index>()), 1..60),
            leaves in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut layout = ZoneLayout::new(ZoneModel::HostAware, Sectors(10 * ZONE), Sectors(ZONE));
            layout.conventional = 3;
            let mut zones = ZoneWrites::new(layout);
            let mut cached: Vec<(Command, u32)> = Vec::new();
            // Write numbers wrap around.
            let ids = (0..).map(|id: u32| CommandId(id.wrapping_sub(7)));
            for ((id, &(start, len, run, index)), &leaves) in ids.zip(&writes).zip(&leaves) {
                let extent = LbaExtent::new(Lba(start), Sectors(len.min(10 * ZONE - start)));
                let write = Command::new(id, Op::Write, extent);
                zones.accept(write, run);
                cached.push((write, run));
                if leaves {
                    let (gone, run) = cached.remove(index.index(cached.len()));
                    zones.remove(gone, run);
                }
                for (write, _) in &cached {
                    prop_assert_eq!(zones.oldest_before(*write), oldest_before(&layout, &cached, write));
                }
                let mut each: Vec<_> = zones.oldest_of_each().collect();
                each.sort_unstable_by_key(|&(zone, _)| zone);
                let expected = (0..10).filter_map(|zone| {
                    let begins = |write: &&Command| layout.zone_of(write.extent.start) == zone;
                    Some((zone, *cached.iter().map(|(write, _)| write).find(begins)?))
                });
                prop_assert_eq!(each, expected.collect::<Vec<_>>());
                for zone in 0..10 {
                    let start = layout.start_of(zone);
                    let in_zone = |write: &Command| write.extent.overlaps(layout.extent_of(zone));
                    let expected: Vec<_> = cached.iter().map(|&(write, _)| write).filter(in_zone).collect();
                    prop_assert_eq!(zones.of_zone(start).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
