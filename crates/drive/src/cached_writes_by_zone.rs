//! The cached writes of each zone, so that whatever concerns a zone visits no write of another.
//!
//! A write over several zones is one of each. The newest write of a zone is known with its run, which what continues it
//! joins ([`crate::write_cache`]); when it has left, nothing continues the zone.
//!
//! Zones lie in a table, in half a cache line each: a host that writes anywhere meets another zone with each command, and
//! the cost is that of the memory. 120,000 zones take 3.7 MiB, from the first cached write on.
//!
//! Invariants: a zone has an oldest write exactly while a write of it is cached; its writes are in the order of acceptance.

use std::collections::{VecDeque, vec_deque};
use std::iter::{Chain, Copied};
use std::option;

use skylight_command::{Command, CommandId, Op};
use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::ZoneLayout;
use skylight_layer::extent_map::prefetch;

/// The cached writes of one zone.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct OfZone {
    /// The oldest one; empty if there is none. Apart from the others: most zones that are written to anywhere have no other,
    /// and then nothing else is looked at.
    oldest: LbaExtent,
    oldest_id: CommandId,
    /// The queue of the others, or [`NONE`].
    younger: u32,
    /// Where the newest one ends, in sectors from the start of the zone, and its run: while it is cached and ends in the
    /// zone, else 0.
    end: u32,
    run: u32,
}

const _: () = assert!(size_of::<OfZone>() == 32);

/// After how many more hints what a hint prefetched is in the processor's cache. Chosen: a sixth of the time that a drive
/// gives them ahead, some microseconds.
const HINTS: usize = 8;

/// No queue.
const NONE: u32 = u32::MAX;

/// A zone without cached writes.
const EMPTY: OfZone = OfZone {
    oldest: LbaExtent::new(Lba(0), Sectors(0)),
    oldest_id: CommandId(0),
    younger: NONE,
    end: 0,
    run: 0,
};

impl OfZone {
    #[inline]
    fn is_empty(&self) -> bool {
        self.oldest.is_empty()
    }

    /// The oldest write.
    #[inline]
    fn oldest(&self) -> Command {
        Command::new(self.oldest_id, Op::Write, self.oldest)
    }
}

/// The writes of a zone, oldest first.
pub(crate) type Writes<'a> = Chain<option::IntoIter<Command>, Copied<vec_deque::Iter<'a, Command>>>;

/// None.
pub(crate) fn no_writes<'a>() -> Writes<'a> {
    None.into_iter().chain(vec_deque::Iter::default().copied())
}

/// See the module documentation.
pub(crate) struct ZoneWrites {
    layout: ZoneLayout,
    /// All zones, from the first write on.
    zones: Vec<OfZone>,
    /// A bit for each zone: whether it has writes.
    occupied: Vec<u64>,
    /// Queues of the writes behind the oldest one of their zone, in the order of acceptance.
    queues: Vec<VecDeque<Command>>,
    /// Queues without a zone, so that their memory serves again.
    unused: Vec<u32>,
    /// The last zones that were hinted, as a ring.
    hinted: [u32; 2 * HINTS],
    hint: usize,
}

impl ZoneWrites {
    pub(crate) fn new(layout: ZoneLayout) -> Self {
        let (zones, occupied, queues, unused) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { layout, zones, occupied, queues, unused, hinted: [0; 2 * HINTS], hint: 0 }
    }

    pub(crate) fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    /// Prefetches what is known of a zone in which a write is accepted or leaves soon. A zone's queue is found in the zone,
    /// and its writes in the queue: so these are prefetched later, some hints after the zone's own.
    #[inline]
    pub(crate) fn prefetch(&mut self, lba: Lba) {
        let zone = self.layout.zone_of(lba);
        let Some(of_zone) = self.zones.get(zone as usize) else {
            return;
        };
        prefetch(of_zone, size_of::<OfZone>());
        let oldest = std::mem::replace(&mut self.hinted[self.hint], zone);
        let middle = self.hinted[(self.hint + HINTS) % (2 * HINTS)];
        self.hint = (self.hint + 1) % (2 * HINTS);
        let queue_of = |zone: u32| self.queues.get(self.zones[zone as usize].younger as usize);
        if let Some(queue) = queue_of(middle) {
            prefetch(queue, size_of_val(queue));
        }
        let ends = queue_of(oldest).map(|queue| [queue.front(), queue.back()]);
        for end in ends.into_iter().flatten().flatten() {
            prefetch(end, size_of::<Command>());
        }
    }

    /// A zone with cached writes.
    #[inline]
    fn get(&self, zone: u32) -> Option<&OfZone> {
        self.zones.get(zone as usize).filter(|of_zone| !of_zone.is_empty())
    }

    /// All writes of a zone, oldest first.
    #[inline]
    fn writes(&self, of_zone: Option<&OfZone>) -> Writes<'_> {
        let younger = of_zone.and_then(|of_zone| self.queues.get(of_zone.younger as usize));
        let younger = younger.map(VecDeque::iter).unwrap_or_default();
        of_zone.map(OfZone::oldest).into_iter().chain(younger.copied())
    }

    /// The run of the newest write of a zone, if a write continues that.
    #[inline]
    pub(crate) fn continued_run(&self, extent: LbaExtent) -> Option<u32> {
        let (zone, offset) = self.layout.place_of(extent.start);
        let of_zone = self.zones.get(zone as usize)?;
        (of_zone.end != 0 && u64::from(of_zone.end) == offset.get()).then_some(of_zone.run)
    }

    /// The zones of a write, which is not empty.
    #[inline]
    fn zones_of(&self, extent: LbaExtent) -> std::ops::RangeInclusive<u32> {
        self.layout.zone_of(extent.start)..=self.layout.zone_of(Lba(extent.end().get() - 1))
    }

    /// Where a write ends that begins in a zone, in sectors from its start; 0 if beyond it.
    #[inline]
    fn end_in(&self, zone: u32, extent: LbaExtent) -> u32 {
        let end = extent.end() - self.layout.start_of(zone);
        if end < self.layout.zone { end.get() as u32 } else { 0 }
    }

    /// A write was accepted that belongs to a run.
    #[inline]
    pub(crate) fn accept(&mut self, write: Command, run: u32) {
        if self.zones.is_empty() {
            self.zones = vec![EMPTY; self.layout.zones as usize];
            self.occupied = vec![0; self.layout.zones.div_ceil(u64::BITS) as usize];
        }
        let zones = self.zones_of(write.extent);
        let first = *zones.start();
        let end = self.end_in(first, write.extent);
        for zone in zones {
            let of_zone = &mut self.zones[zone as usize];
            if zone == first {
                (of_zone.end, of_zone.run) = (end, run);
            }
            if of_zone.is_empty() {
                (of_zone.oldest, of_zone.oldest_id) = (write.extent, write.id);
                self.occupied[(zone / u64::BITS) as usize] |= 1 << (zone % u64::BITS);
                continue;
            }
            if of_zone.younger == NONE {
                of_zone.younger = self.unused.pop().unwrap_or_else(|| {
                    self.queues.push(VecDeque::new());
                    self.queues.len() as u32 - 1
                });
            }
            self.queues[of_zone.younger as usize].push_back(write);
        }
    }

    /// A write that belongs to a run has left.
    #[inline]
    pub(crate) fn remove(&mut self, write: Command, run: u32) {
        let zones = self.zones_of(write.extent);
        let first = *zones.start();
        let end = self.end_in(first, write.extent);
        for zone in zones {
            let Some(of_zone) = self.zones.get_mut(zone as usize).filter(|of_zone| !of_zone.is_empty())
            else {
                continue;
            };
            if zone == first && (of_zone.end, of_zone.run) == (end, run) {
                of_zone.end = 0;
            }
            let queue = self.queues.get_mut(of_zone.younger as usize);
            if of_zone.oldest_id != write.id {
                if let Some(queue) = queue
                    && let Some(index) = queue.iter().position(|other| other.id == write.id)
                {
                    queue.remove(index);
                }
            } else if let Some(next) = queue.and_then(VecDeque::pop_front) {
                (of_zone.oldest, of_zone.oldest_id) = (next.extent, next.id);
            } else {
                if of_zone.younger != NONE {
                    self.unused.push(of_zone.younger);
                }
                *of_zone = EMPTY;
                self.occupied[(zone / u64::BITS) as usize] &= !(1 << (zone % u64::BITS));
            }
        }
    }

    /// The cached writes of the zone of a sector, oldest first.
    #[inline]
    pub(crate) fn of_zone(&self, lba: Lba) -> Writes<'_> {
        self.writes(self.get(self.layout.zone_of(lba)))
    }

    /// The oldest cached write that is older than this one and has to leave before it: one to the same zone with a write
    /// pointer, or one that overlaps it.
    #[inline]
    pub(crate) fn oldest_before(&self, write: Command) -> Option<CommandId> {
        let age = |other: &Command| write.id.0.wrapping_sub(other.id.0);
        let zones = self.zones_of(write.extent).filter_map(|zone| self.get(zone));
        let with_older = zones.filter(|of_zone| of_zone.oldest_id != write.id);
        let older = with_older.filter_map(|of_zone| {
            let touched = self.layout.touched(&write);
            let mut older = self.writes(Some(of_zone)).take_while(|other| other.id != write.id);
            older.find(|other| touched.overlaps(other.extent))
        });
        older.max_by_key(age).map(|other| other.id)
    }

    /// The oldest cached write that begins in each zone, in the order of zones.
    pub(crate) fn oldest_of_each(&self) -> impl Iterator<Item = (u32, Command)> {
        let zones = (0..).zip(&self.occupied).flat_map(|(word, &occupied)| {
            let mut left = occupied;
            std::iter::from_fn(move || {
                let bit = (left != 0).then(|| left.trailing_zeros())?;
                left &= left - 1;
                Some(word * u64::BITS + bit)
            })
        });
        zones.filter_map(|zone| Some((zone, self.oldest_in(zone)?)))
    }

    /// The oldest cached write that begins in a zone.
    pub(crate) fn oldest_in(&self, zone: u32) -> Option<Command> {
        let start = self.layout.start_of(zone);
        self.writes(self.get(zone)).find(|write| write.extent.start >= start)
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
