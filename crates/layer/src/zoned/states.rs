//! The states of all zones: their conditions, the zones of each condition, flags, and what changed.
//!
//! The zones that are explicitly open, closed or full are a set each ([`ZoneSet`]), and the implicitly open ones a list in the order in
//! which they were written (`recently_written`). So whatever concerns all zones of a condition visits no other, and a zone that
//! comes to another condition touches no other zone: a host that writes anywhere meets another zone with each command, whose state
//! has to come from the memory.
//!
//! Invariants: a zone is in the set or the list of its condition, if that has one, and in no other; counts are those of the zones.

use super::recently_written::{NOT_LISTED, RecentlyWritten};
use crate::capabilities::zoned::{ZoneCondition, ZoneLayout};
use crate::extent_map::prefetch;
use crate::zone_set::ZoneSet;

/// Full before it was written to its capacity.
pub(super) const FINISHED: u8 = 1;
/// Written out of order.
pub(super) const NON_SEQUENTIAL: u8 = 2;
/// The drive recommends a reset.
pub(super) const RESET_RECOMMENDED: u8 = 4;
/// Its record changed since it was last asked for.
const CHANGED: u8 = 8;

/// The state of one zone, in a quarter of a cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(16))]
pub(super) struct Zone {
    /// The write pointer, sectors from the start of the zone.
    pub(super) pointer: u32,
    /// How far executed plans have written it.
    pub(super) written: u32,
    /// Its entry in the list of the implicitly open zones.
    entry: u32,
    pub(super) condition: ZoneCondition,
    flags: u8,
}

// 120,000 zones take 1.9 MB.
const _: () = assert!(size_of::<Zone>() == 16);

impl Zone {
    #[inline]
    pub(super) fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// The number of conditions that have a set.
const SETS: usize = 3;

/// The set of a condition.
#[inline]
const fn set_of(condition: ZoneCondition) -> Option<usize> {
    match condition {
        ZoneCondition::ExplicitOpen => Some(0),
        ZoneCondition::Closed => Some(1),
        ZoneCondition::Full => Some(2),
        _ => None,
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct States {
    zones: Vec<Zone>,
    /// The implicitly open zones.
    implicitly_open: RecentlyWritten,
    /// The zones of each condition that has a set.
    sets: [ZoneSet; SETS],
    /// Zones by the number of their condition.
    counts: [u32; ZoneCondition::Offline as usize + 1],
    /// Zones that were written out of order, and whose reset is recommended.
    pub(super) non_sequential: u32,
    pub(super) reset_recommended: u32,
    /// Zones with [`CHANGED`].
    changed: Vec<u32>,
}

impl States {
    /// Zones of a new drive: empty, or conventional.
    pub(super) fn new(layout: &ZoneLayout) -> Self {
        let zone = |zone| Zone {
            pointer: 0,
            written: 0,
            entry: NOT_LISTED,
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
            implicitly_open: RecentlyWritten::default(),
            sets: std::array::from_fn(|_| ZoneSet::new(layout.zones)),
            counts,
            non_sequential: 0,
            reset_recommended: 0,
            changed: Vec::new(),
        }
    }

    /// Prefetches the state of a zone.
    #[inline]
    pub(super) fn hint(&self, zone: u32) {
        if let Some(state) = self.zones.get(zone as usize) {
            prefetch(state, size_of::<Zone>());
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

    /// An implicitly open zone is written again.
    #[inline]
    pub(super) fn note_written(&mut self, zone: u32) {
        self.implicitly_open.move_to_back(self.zones[zone as usize].entry);
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

    /// The first zone of a condition: of the implicitly open ones the one that was written least recently, of others the one
    /// with the lowest number.
    pub(super) fn first(&self, condition: ZoneCondition) -> Option<u32> {
        match set_of(condition) {
            Some(set) => self.sets[set].first_from(0),
            None if condition == ZoneCondition::ImplicitOpen => self.implicitly_open.oldest(),
            None => None,
        }
    }

    /// The zones that are closed, in order.
    pub(super) fn closed(&self) -> impl Iterator<Item = u32> {
        set_of(ZoneCondition::Closed).into_iter().flat_map(|set| self.sets[set].iter())
    }

    pub(super) fn set_condition(&mut self, zone: u32, condition: ZoneCondition) {
        let state = &mut self.zones[zone as usize];
        let old = std::mem::replace(&mut state.condition, condition);
        self.counts[old as usize] -= 1;
        self.counts[condition as usize] += 1;
        if old == ZoneCondition::ImplicitOpen {
            self.implicitly_open.remove(state.entry);
        } else if let Some(set) = set_of(old) {
            self.sets[set].remove(zone);
        }
        if condition == ZoneCondition::ImplicitOpen {
            state.entry = self.implicitly_open.push(zone);
        } else if let Some(set) = set_of(condition) {
            self.sets[set].insert(zone);
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
