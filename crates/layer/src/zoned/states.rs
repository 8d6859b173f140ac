//! The states of all zones: their conditions, each condition with its zones in a list, flags, and what changed.
//!
//! Zones that are open, closed or full are linked, a list each, in the order in which they came to that condition. So whatever
//! concerns all zones of a condition visits no other.
//!
//! Invariants: a zone is in the list of its condition, if that has one, and in no other; counts are those of the zones.

use crate::capabilities::zoned::{ZoneCondition, ZoneLayout};
use crate::extent_map::prefetch;

/// After how many more hints the state of a hinted zone is in the processor's cache. Chosen: a third of those that a drive
/// gives ahead, some microseconds.
const HINTS: usize = 8;

/// No zone, at the end of a list.
const NONE: u32 = u32::MAX;

/// Full before it was written to its capacity.
pub(super) const FINISHED: u8 = 1;
/// Written out of order.
pub(super) const NON_SEQUENTIAL: u8 = 2;
/// The drive recommends a reset.
pub(super) const RESET_RECOMMENDED: u8 = 4;
/// Its record changed since it was last asked for.
const CHANGED: u8 = 8;

/// The state of one zone.
#[derive(Clone, Copy, Debug)]
pub(super) struct Zone {
    /// The write pointer, sectors from the start of the zone.
    pub(super) pointer: u32,
    /// How far executed plans have written it.
    pub(super) written: u32,
    /// Neighbours in the list of its condition.
    previous: u32,
    next: u32,
    pub(super) condition: ZoneCondition,
    flags: u8,
}

// 120,000 zones take 2.4 MB.
const _: () = assert!(size_of::<Zone>() == 20);

impl Zone {
    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The zones of one condition, the one that came first in front.
#[derive(Clone, Copy, Debug)]
struct List {
    first: u32,
    last: u32,
}

/// The number of conditions that have a list.
const LISTS: usize = 4;

/// The list of a condition.
const fn list_of(condition: ZoneCondition) -> Option<usize> {
    match condition {
        ZoneCondition::ImplicitOpen => Some(0),
        ZoneCondition::ExplicitOpen => Some(1),
        ZoneCondition::Closed => Some(2),
        ZoneCondition::Full => Some(3),
        _ => None,
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct States {
    zones: Vec<Zone>,
    lists: [List; LISTS],
    /// Zones by the number of their condition.
    counts: [u32; ZoneCondition::Offline as usize + 1],
    /// Zones that were written out of order, and whose reset is recommended.
    pub(super) non_sequential: u32,
    pub(super) reset_recommended: u32,
    /// Zones with [`CHANGED`].
    changed: Vec<u32>,
    /// The last zones that were hinted, as a ring.
    hinted: [u32; HINTS],
    hint: usize,
}

impl States {
    /// Zones of a new drive: empty, or conventional.
    pub(super) fn new(layout: &ZoneLayout) -> Self {
        let zone = |zone| Zone {
            pointer: 0,
            written: 0,
            previous: NONE,
            next: NONE,
            condition: match layout.is_conventional(zone) {
                true => ZoneCondition::NotWritePointer,
                false => ZoneCondition::Empty,
            },
            flags: 0,
        };
        let mut counts = [0; ZoneCondition::Offline as usize + 1];
        counts[ZoneCondition::NotWritePointer as usize] = layout.conventional;
        counts[ZoneCondition::Empty as usize] = layout.zones - layout.conventional;
        Self {
            zones: (0..layout.zones).map(zone).collect(),
            lists: [List { first: NONE, last: NONE }; LISTS],
            counts,
            non_sequential: 0,
            reset_recommended: 0,
            changed: Vec::new(),
            hinted: [0; HINTS],
            hint: 0,
        }
    }

    /// Prefetches the state of a zone, and the neighbours of the zone that was hinted some hints ago, whose state is there
    /// by now: they are written when it changes lists.
    #[inline]
    pub(super) fn hint(&mut self, zone: u32) {
        let before = std::mem::replace(&mut self.hinted[self.hint], zone);
        self.hint = (self.hint + 1) % HINTS;
        let Zone { previous, next, .. } = self.zones[before as usize];
        for zone in [zone, previous, next] {
            if let Some(state) = self.zones.get(zone as usize) {
                prefetch(state, size_of::<Zone>());
            }
        }
    }

    /// The state of a zone.
    #[inline]
    pub(super) fn of(&self, zone: u32) -> &Zone {
        &self.zones[zone as usize]
    }

    /// The same, to move its pointers.
    #[inline]
    pub(super) fn of_mut(&mut self, zone: u32) -> &mut Zone {
        &mut self.zones[zone as usize]
    }

    /// A zone came to its condition now: it is the last one of its list.
    #[inline]
    pub(super) fn move_to_back(&mut self, zone: u32) {
        if let Some(list) = list_of(self.of(zone).condition).filter(|&list| self.lists[list].last != zone) {
            self.unlink(zone, list);
            self.link(zone, list);
        }
    }

    /// Zones in a condition.
    #[inline]
    pub(super) fn count(&self, condition: ZoneCondition) -> u32 {
        self.counts[condition as usize]
    }

    /// Open zones.
    pub(super) fn open(&self) -> u32 {
        self.count(ZoneCondition::ImplicitOpen) + self.count(ZoneCondition::ExplicitOpen)
    }

    /// The zone of a condition that came to it first.
    pub(super) fn first(&self, condition: ZoneCondition) -> Option<u32> {
        let first = list_of(condition).map_or(NONE, |list| self.lists[list].first);
        (first != NONE).then_some(first)
    }

    fn unlink(&mut self, zone: u32, list: usize) {
        let Zone { previous, next, .. } = self.zones[zone as usize];
        match previous {
            NONE => self.lists[list].first = next,
            previous => self.zones[previous as usize].next = next,
        }
        match next {
            NONE => self.lists[list].last = previous,
            next => self.zones[next as usize].previous = previous,
        }
    }

    fn link(&mut self, zone: u32, list: usize) {
        let last = std::mem::replace(&mut self.lists[list].last, zone);
        match last {
            NONE => self.lists[list].first = zone,
            last => self.zones[last as usize].next = zone,
        }
        let entry = &mut self.zones[zone as usize];
        (entry.previous, entry.next) = (last, NONE);
    }

    pub(super) fn set_condition(&mut self, zone: u32, condition: ZoneCondition) {
        let old = std::mem::replace(&mut self.zones[zone as usize].condition, condition);
        self.counts[old as usize] -= 1;
        self.counts[condition as usize] += 1;
        if let Some(list) = list_of(old) {
            self.unlink(zone, list);
        }
        if let Some(list) = list_of(condition) {
            self.link(zone, list);
        }
    }

    /// Sets or clears a flag.
    pub(super) fn set_flag(&mut self, zone: u32, flag: u8, on: bool) {
        let flags = &mut self.zones[zone as usize].flags;
        let was = *flags & flag != 0;
        *flags = if on { *flags | flag } else { *flags & !flag };
        let count = match flag {
            NON_SEQUENTIAL => &mut self.non_sequential,
            RESET_RECOMMENDED => &mut self.reset_recommended,
            _ => return,
        };
        match (was, on) {
            (false, true) => *count += 1,
            (true, false) => *count -= 1,
            _ => {}
        }
    }

    /// Notes that the record of a zone is another one.
    #[inline]
    pub(super) fn note_change(&mut self, zone: u32) {
        let entry = &mut self.zones[zone as usize];
        if !entry.has(CHANGED) {
            entry.flags |= CHANGED;
            self.changed.push(zone);
        }
    }

    /// The zones whose record changed since the last call.
    pub(super) fn take_changed(&mut self) -> Vec<u32> {
        let changed = std::mem::take(&mut self.changed);
        for &zone in &changed {
            self.zones[zone as usize].flags &= !CHANGED;
        }
        changed
    }
}
