//! Zones in the order in which they were written last.
//!
//! The entries of the list lie together, apart from the states of the zones: the drive's limit of open zones is that of the list as a
//! rule, so a few cache lines have it all, wherever the zones are.
//!
//! Invariants: the list links each of its zones once; every other entry is free.

/// The entry of a zone that is not in the list, and the end of it.
pub(super) const NOT_LISTED: u32 = u32::MAX;

/// A zone in the list, or a free entry, whose `next` is the next free one.
#[derive(Clone, Copy, Debug)]
struct Entry {
    zone: u32,
    previous: u32,
    next: u32,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct RecentlyWritten {
    entries: Vec<Entry>,
    oldest: u32,
    newest: u32,
    free: u32,
}

impl Default for RecentlyWritten {
    fn default() -> Self {
        Self { entries: Vec::new(), oldest: NOT_LISTED, newest: NOT_LISTED, free: NOT_LISTED }
    }
}

impl RecentlyWritten {
    /// The zone that was written least recently.
    #[inline]
    pub(super) fn oldest(&self) -> Option<u32> {
        self.entries.get(self.oldest as usize).map(|entry| entry.zone)
    }

    /// Adds a zone that is written now; returns its entry.
    pub(super) fn push(&mut self, zone: u32) -> u32 {
        let at = if self.free == NOT_LISTED {
            self.entries.push(Entry { zone, previous: NOT_LISTED, next: NOT_LISTED });
            self.entries.len() as u32 - 1
        } else {
            let at = self.free;
            let entry = &mut self.entries[at as usize];
            self.free = entry.next;
            entry.zone = zone;
            at
        };
        self.link(at);
        at
    }

    /// Removes the zone of an entry.
    pub(super) fn remove(&mut self, at: u32) {
        self.unlink(at);
        self.entries[at as usize].next = std::mem::replace(&mut self.free, at);
    }

    /// The zone of an entry is written again.
    #[inline]
    pub(super) fn move_to_back(&mut self, at: u32) {
        if self.newest != at {
            self.unlink(at);
            self.link(at);
        }
    }

    fn link(&mut self, at: u32) {
        let newest = std::mem::replace(&mut self.newest, at);
        match self.entries.get_mut(newest as usize) {
            Some(newest) => newest.next = at,
            None => self.oldest = at,
        }
        let entry = &mut self.entries[at as usize];
        (entry.previous, entry.next) = (newest, NOT_LISTED);
    }

    fn unlink(&mut self, at: u32) {
        let Entry { previous, next, .. } = self.entries[at as usize];
        match self.entries.get_mut(previous as usize) {
            Some(previous) => previous.next = next,
            None => self.oldest = next,
        }
        match self.entries.get_mut(next as usize) {
            Some(next) => next.previous = previous,
            None => self.newest = previous,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_keeps_the_order_of_the_last_writes(changes in prop::collection::vec((0u32..20, 0..3), 0..200)) {
            let mut list = RecentlyWritten::default();
            let mut entry_of = [NOT_LISTED; 20];
            let mut expected: Vec<u32> = Vec::new();
            for (zone, change) in changes {
                let entry = &mut entry_of[zone as usize];
                let listed = *entry != NOT_LISTED;
                expected.retain(|&other| other != zone);
                match change {
                    0 if listed => list.remove(std::mem::replace(entry, NOT_LISTED)),
                    0 => {}
                    _ if listed => list.move_to_back(*entry),
                    _ => *entry = list.push(zone),
                }
                if change > 0 {
                    expected.push(zone);
                }
                prop_assert_eq!(list.oldest(), expected.first().copied());
            }
            for zone in expected {
                prop_assert_eq!(list.oldest(), Some(zone));
                list.remove(entry_of[zone as usize]);
            }
            prop_assert!(list.entries.len() <= 20, "free entries serve again");
        }
    }
}
