//! Ranges of a medium: those that a recovery may still need, and which access wrote what lies where.
//!
//! Invariants: ranges of one set do not overlap, and neighbours are one; rooms do not overlap, and a room that
//! is cut keeps its place in the order of writes; `newest` is one of the rooms.

use std::collections::BTreeMap;

use skylight_disk::{Pba, PbaExtent, Sectors};

/// Sectors of a medium that hold what may be the durable value of something, though nothing reads it now.
#[derive(Clone, Debug, Default)]
pub struct Freed {
    by_start: BTreeMap<u64, u64>,
}

impl Freed {
    /// Adds a range.
    pub fn add(&mut self, extent: PbaExtent) {
        let (mut start, mut end) = (extent.start.get(), extent.end().get());
        if start == end {
            return;
        }
        while let Some((&from, &to)) = self.by_start.range(..=end).next_back()
            && to >= start
        {
            (start, end) = (start.min(from), end.max(to));
            self.by_start.remove(&from);
        }
        self.by_start.insert(start, end);
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.by_start.is_empty()
    }

    /// Whether any sector of a range is in it.
    pub fn touches(&self, extent: PbaExtent) -> bool {
        let before = self.by_start.range(..extent.end().get()).next_back();
        before.is_some_and(|(_, &end)| end > extent.start.get()) && !extent.is_empty()
    }

    /// Adds all of another set.
    pub fn join(&mut self, other: Self) {
        other.by_start.into_iter().for_each(|(start, end)| {
            self.add(PbaExtent::new(Pba(start), Sectors(end - start)));
        });
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.by_start.clear();
    }
}

/// An access to the cache: what it took, and what accesses before it had.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Room {
    /// The extent of the medium.
    pub access: PbaExtent,
    /// Sectors that accesses had taken before.
    pub taken: u64,
}

impl Room {
    /// The part from one sector to before another.
    fn part(self, start: Pba, end: Pba) -> Self {
        let taken = self.taken + (start - self.access.start).get();
        Self { access: PbaExtent::new(start, end - start), taken }
    }
}

/// Which access wrote what lies where.
#[derive(Clone, Debug, Default)]
pub struct Rooms {
    by_start: BTreeMap<u64, (u64, u64)>,
    /// The room that was added last, which commits ask for next.
    newest: Option<Room>,
}

impl Rooms {
    /// An access that may be known already from another extent of it.
    pub fn add_known(&mut self, access: PbaExtent, taken: u64) {
        let known = self.of(access.start).is_some_and(|room| room.access == access && room.taken == taken);
        if !known {
            self.add(Room { access, taken });
        }
    }

    /// The room that holds a sector.
    pub fn of(&self, pba: Pba) -> Option<Room> {
        if let Some(room) = self.newest.filter(|room| room.access.start <= pba && pba < room.access.end()) {
            return Some(room);
        }
        let (&start, &(len, taken)) = self.by_start.range(..=pba.get()).next_back()?;
        let room = Room { access: PbaExtent::new(Pba(start), Sectors(len)), taken };
        (pba < room.access.end()).then_some(room)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.by_start.len() as u64
    }

    /// An access took its room; what was there before is over.
    pub fn add(&mut self, room: Room) {
        let (start, end) = (room.access.start, room.access.end());
        while let Some((&from, &(len, taken))) = self.by_start.range(..end.get()).next_back()
            && from + len > start.get()
        {
            let old = Room { access: PbaExtent::new(Pba(from), Sectors(len)), taken };
            self.by_start.remove(&from);
            if old.access.start < start {
                self.put(old.part(old.access.start, start));
            }
            if end < old.access.end() {
                self.put(old.part(end, old.access.end()));
            }
            if old.access.start < start {
                break;
            }
        }
        self.put(room);
        self.newest = Some(room);
    }

    fn put(&mut self, room: Room) {
        self.by_start.insert(room.access.start.get(), (room.access.len.get(), room.taken));
    }

    /// Forgets rooms of which nothing is live: `live` are the first sectors of those that stay.
    pub fn keep(&mut self, live: &std::collections::BTreeSet<u64>) {
        self.by_start.retain(|start, _| live.contains(start));
        self.newest = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(start: u64, len: u64) -> PbaExtent {
        PbaExtent::new(Pba(start), Sectors(len))
    }

    #[test]
    fn freed_ranges_join_and_are_found() {
        let mut freed = Freed::default();
        for (start, len) in [(10, 5), (30, 5), (15, 15), (50, 1), (0, 0)] {
            freed.add(extent(start, len));
        }
        assert_eq!(freed.by_start, BTreeMap::from([(10, 35), (50, 51)]));
        let touched =
            [(0, 10), (9, 2), (34, 1), (35, 15), (40, 30)].map(|(s, l)| freed.touches(extent(s, l)));
        assert_eq!(touched, [false, true, true, false, true]);
        let mut other = Freed::default();
        [(60, 5), (44, 7)].into_iter().for_each(|(start, len)| other.add(extent(start, len)));
        freed.join(other);
        assert_eq!(freed.by_start, BTreeMap::from([(10, 35), (44, 51), (60, 65)]));
        freed.add(extent(0, 100));
        assert_eq!(freed.by_start, BTreeMap::from([(0, 100)]));
    }

    #[test]
    fn a_room_that_is_cut_keeps_its_order() {
        let mut rooms = Rooms::default();
        rooms.add(Room { access: extent(100, 50), taken: 7 });
        rooms.add(Room { access: extent(120, 10), taken: 90 });
        let found = [99, 100, 119, 120, 130, 149, 150].map(|at| rooms.of(Pba(at)).map(|room| room.taken));
        assert_eq!(found, [None, Some(7), Some(7), Some(90), Some(37), Some(37), None]);
        rooms.add(Room { access: extent(90, 60), taken: 100 });
        assert_eq!(rooms.by_start.len(), 1);
    }
}
