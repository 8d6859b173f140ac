//! The exception map: which host extents lie elsewhere than at their native location, and where.
//!
//! A B+-tree over leaves of packed extents (11 bytes each). A full leaf first shares with a neighbour and
//! splits only when both are full, so that leaves stay about 85 % full under random writes: with the inner
//! nodes, less than 16 bytes an extent. Values shift when an extent is cut: the rest of a cut extent still
//! points at its own sectors.
//!
//! Invariants: extents do not overlap; neighbours that continue each other in both address spaces are one
//! extent up to 65,535 sectors; every sector last inserted and not removed is found at its address.
//! Source: the exception map of Skylight, section 2; the structure is a textbook B+-tree.

use std::cell::Cell;

use skylight_disk::{BLOCK_SECTORS, Lba, LbaExtent, Pba, Sectors};

use crate::inner::{Inners, MAX_HEIGHT, granule, granule_start, prefetch};
use crate::leaf::{ENTRY_MAX_SECTORS, LEAF_ENTRIES, Leaf, Leaves, NO_LEAF, REACH};

/// A host extent and where it lies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mapped {
    /// The extent.
    pub lba: LbaExtent,
    /// Where its first sector lies; the others follow.
    pub pba: Pba,
}

impl Mapped {
    /// The part from `start` (inside it) up to `end` (not before `start`).
    #[inline]
    fn clipped(self, start: Lba, end: Lba) -> Self {
        let from = start.max(self.lba.start);
        let until = end.min(self.lba.end());
        let skipped = from - self.lba.start;
        Self { lba: LbaExtent::new(from, until - from), pba: self.pba + skipped }
    }

    /// Whether `next` continues this one in both address spaces.
    fn continued_by(self, next: Self) -> bool {
        self.lba.end() == next.lba.start
            && self.pba + self.lba.len == next.pba
            && self.lba.len.get() + next.lba.len.get() <= ENTRY_MAX_SECTORS
    }
}

/// A place between entries: a leaf and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    leaf: u32,
    index: usize,
}

/// See the module page.
pub struct ExtentMap {
    inners: Inners,
    leaves: Leaves,
    entries: u64,
    sectors: u64,
    /// By some bits of the start.
    hinted: [Cell<Hinted>; HINTS],
}

/// Media addresses that an entry can hold lie below this.
pub const MAX_ADDRESS: Pba = Pba(1 << crate::leaf::ADDRESS_BITS);

/// How many hints are remembered; a power of two.
const HINTS: usize = 64;

/// A start that will be asked for or was asked for lately, and the leaf that holds it: found once for the hint
/// and the look-ups.
#[derive(Clone, Copy)]
struct Hinted {
    start: u64,
    leaf: u32,
}

const NO_HINT: Hinted = Hinted { start: u64::MAX, leaf: NO_LEAF };

/// Where a start is remembered: most differ by whole blocks.
#[inline]
fn hint_slot(start: u64) -> usize {
    (start / BLOCK_SECTORS) as usize % HINTS
}

impl Default for ExtentMap {
    fn default() -> Self {
        Self::new()
    }
}

impl ExtentMap {
    /// A map without extents.
    pub fn new() -> Self {
        let mut leaves = Leaves::default();
        let first = leaves.add(0);
        Self {
            inners: Inners::new(first),
            leaves,
            entries: 0,
            sectors: 0,
            hinted: [const { Cell::new(NO_HINT) }; HINTS],
        }
    }

    /// How many entries the map holds.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// How many sectors it finds.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.leaves.bytes() + self.inners.bytes()
    }

    /// Finds the leaf of an address that will be asked for soon, and has it fetched into the processor's cache.
    /// Best about eight look-ups ahead.
    #[inline]
    pub fn hint(&mut self, address: Lba) {
        let leaf = self.inners.find(address.get());
        prefetch(self.leaves.get(leaf));
        self.hinted[hint_slot(address.get())].set(Hinted { start: address.get(), leaf });
    }

    /// Forgets hints of a leaf whose range of starts changes.
    fn forget_hints(&mut self, leaf: u32) {
        for hinted in &mut self.hinted {
            if hinted.get().leaf == leaf {
                hinted.set(NO_HINT);
            }
        }
    }

    /// Maps an extent to `pba`; what was mapped in it before is forgotten. Host addresses must lie below 2^38
    /// sectors and media addresses below [`MAX_ADDRESS`].
    ///
    /// ```
    /// use skylight_disk::{Lba, LbaExtent, Pba, Sectors};
    /// use skylight_layer::ExtentMap;
    /// let mut map = ExtentMap::new();
    /// map.insert(LbaExtent::new(Lba(100), Sectors(8)), Pba(5000));
    /// map.insert(LbaExtent::new(Lba(102), Sectors(2)), Pba(9000));
    /// let found: Vec<_> = map.overlapping(LbaExtent::new(Lba(0), Sectors(200))).collect();
    /// assert_eq!(found.len(), 3);
    /// assert_eq!(found[2].pba, Pba(5004)); // the value shifted with the cut
    /// ```
    pub fn insert(&mut self, extent: LbaExtent, pba: Pba) {
        let mut rest = Mapped { lba: extent, pba };
        while !rest.lba.is_empty() {
            let here = Sectors(rest.lba.len.get().min(ENTRY_MAX_SECTORS));
            let entry = Mapped { lba: LbaExtent::new(rest.lba.start, here), pba: rest.pba };
            self.insert_entry(entry);
            rest = rest.clipped(entry.lba.end(), rest.lba.end());
        }
    }

    /// Forgets all that is mapped in an extent.
    pub fn remove(&mut self, extent: LbaExtent) {
        let mut more = true;
        while more && let Some((at, entry)) = self.first_overlap(extent) {
            more = self.entry(self.after(at)).is_some_and(|next| next.lba.start < extent.end());
            self.delete(at, entry);
            if entry.lba.start < extent.start {
                self.add(entry.clipped(entry.lba.start, extent.start));
            }
            if entry.lba.end() > extent.end() {
                self.add(entry.clipped(extent.end(), entry.lba.end()));
            }
        }
    }

    /// What is mapped in an extent, in order, cut to it.
    pub fn overlapping(&self, extent: LbaExtent) -> impl Iterator<Item = Mapped> + '_ {
        let mut at = self.first_ending_after(extent.start);
        std::iter::from_fn(move || {
            let entry = self.entry(at).filter(|e| e.lba.start < extent.end())?;
            at = self.after(at);
            Some(entry.clipped(extent.start, extent.end()))
        })
    }

    /// The entry that finds a sector, all of it.
    pub fn holding(&self, sector: Lba) -> Option<Mapped> {
        let found = self.first_overlap(LbaExtent::new(sector, Sectors(1)));
        found.map(|(_, entry)| entry)
    }

    /// The place of the first entry that starts after `at`, with the way to its leaf.
    #[inline]
    fn descend(&self, at: Lba) -> Cursor {
        let hinted = &self.hinted[hint_slot(at.get())];
        let leaf = match hinted.get() {
            Hinted { start, leaf } if start == at.get() => leaf,
            _ => self.inners.find(at.get()),
        };
        hinted.set(Hinted { start: at.get(), leaf });
        Cursor { leaf, index: self.leaves.get(leaf).rank(at.get()) }
    }

    fn entry(&self, at: Cursor) -> Option<Mapped> {
        let leaf = self.leaves.get(at.leaf);
        (at.index < leaf.len()).then(|| leaf.get(at.index))
    }

    /// The place after an entry; leaves without entries are passed over.
    fn after(&self, at: Cursor) -> Cursor {
        self.settled(Cursor { index: at.index + 1, ..at })
    }

    /// A place at the end of a leaf is the same as the start of the next one.
    fn settled(&self, mut at: Cursor) -> Cursor {
        loop {
            let leaf = self.leaves.get(at.leaf);
            if at.index < leaf.len() || leaf.next == NO_LEAF {
                return at;
            }
            at = Cursor { leaf: leaf.next, index: 0 };
        }
    }

    /// The place before, if there is an entry there.
    fn before(&self, mut at: Cursor) -> Option<Cursor> {
        while at.index == 0 {
            let previous = self.leaves.get(at.leaf).previous;
            if previous == NO_LEAF {
                return None;
            }
            at = Cursor { leaf: previous, index: self.leaves.get(previous).len() };
        }
        Some(Cursor { index: at.index - 1, ..at })
    }

    /// The first entry that holds a sector at or after `start`.
    fn first_ending_after(&self, start: Lba) -> Cursor {
        let at = self.descend(start);
        match self.before(at) {
            Some(before) if self.leaves.get(before.leaf).get(before.index).lba.end() > start => before,
            _ => self.settled(at),
        }
    }

    fn first_overlap(&self, extent: LbaExtent) -> Option<(Cursor, Mapped)> {
        let at = self.first_ending_after(extent.start);
        let entry = self.entry(at)?;
        (entry.lba.start < extent.end()).then_some((at, entry))
    }

    /// Maps an extent of one entry: replaced in place, joined to a neighbour, or added.
    fn insert_entry(&mut self, entry: Mapped) {
        let at = self.descend(entry.lba.start);
        let before = self.before(at).map(|b| (b, self.leaves.get(b.leaf).get(b.index)));
        if let Some((place, found)) = before
            && found.lba == entry.lba
        {
            if self.stands_alone(place, entry) {
                self.leaves.get_mut(place.leaf).put(place.index, entry);
            } else {
                self.delete(place, found);
                self.insert_entry(entry);
            }
            return;
        }
        let after = self.settled(at);
        let next = self.entry(after);
        let covered = before.is_some_and(|(_, b)| b.lba.end() > entry.lba.start)
            || next.is_some_and(|n| n.lba.start < entry.lba.end());
        if covered {
            self.remove(entry.lba);
            self.insert_entry(entry);
            return;
        }
        match (before, next) {
            (Some((place, found)), _) if found.continued_by(entry) => {
                let lba = LbaExtent::new(found.lba.start, found.lba.len + entry.lba.len);
                self.delete(place, found);
                self.insert_entry(Mapped { lba, pba: found.pba });
            }
            (_, Some(found)) if entry.continued_by(found) => {
                let lba = LbaExtent::new(entry.lba.start, entry.lba.len + found.lba.len);
                self.delete(after, found);
                self.insert_entry(Mapped { lba, pba: entry.pba });
            }
            _ => self.add_at(at, entry),
        }
    }

    /// Whether neither neighbour of a place would become one with this entry.
    fn stands_alone(&self, place: Cursor, entry: Mapped) -> bool {
        let joins = |pair: [Option<Mapped>; 2]| matches!(pair, [Some(a), Some(b)] if a.continued_by(b));
        let before = self.before(place).and_then(|at| self.entry(at));
        !joins([before, Some(entry)]) && !joins([Some(entry), self.entry(self.after(place))])
    }

    fn add(&mut self, entry: Mapped) {
        let at = self.descend(entry.lba.start);
        self.add_at(at, entry);
    }

    /// Adds an entry at the place where [`ExtentMap::descend`] led.
    fn add_at(&mut self, at: Cursor, entry: Mapped) {
        let leaf = self.leaves.get(at.leaf);
        if leaf.is_full() || !leaf.reaches(entry.lba.start.get()) {
            self.make_room(at.leaf, entry);
            return self.add(entry);
        }
        self.leaves.get_mut(at.leaf).insert(at.index, entry);
        self.entries += 1;
        self.sectors += entry.lba.len.get();
    }

    fn delete(&mut self, at: Cursor, entry: Mapped) {
        let leaf = self.leaves.get_mut(at.leaf);
        leaf.remove(at.index);
        let empty = leaf.len() == 0;
        self.entries -= 1;
        self.sectors -= entry.lba.len.get();
        if empty {
            self.drop_leaf(at.leaf, entry.lba.start.get());
        }
    }

    /// Takes an empty leaf out of the tree, unless it is the last one.
    fn drop_leaf(&mut self, number: u32, start: u64) {
        let (previous, next) = (self.leaves.get(number).previous, self.leaves.get(number).next);
        if previous == NO_LEAF && next == NO_LEAF {
            *self.leaves.get_mut(number) = Leaf::new(0);
            return;
        }
        // The neighbours take over its range.
        self.hinted.iter_mut().for_each(|hinted| hinted.set(NO_HINT));
        self.inners.remove(granule(start), number);
        if previous != NO_LEAF {
            self.leaves.get_mut(previous).next = next;
        }
        if next != NO_LEAF {
            self.leaves.get_mut(next).previous = previous;
        }
        self.leaves.free(number);
    }

    /// Changes the tree so that the entry has a leaf that can take it.
    fn make_room(&mut self, number: u32, entry: Mapped) {
        let start = entry.lba.start.get();
        let leaf = self.leaves.get(number);
        if leaf.len() == 0 {
            self.leaves.get_mut(number).refill_from(granule_start(start), &[]);
            return;
        }
        let mut buffer = [Mapped::default(); LEAF_ENTRIES];
        let held = leaf.copy_to(&mut buffer);
        let held = &buffer[..held];
        if leaf.reaches(start) {
            if !self.share_with_next(number) && !self.share_with_previous(number) {
                self.divide(number, held, start);
            }
        } else if start > first_start(held) {
            self.split_off(number, start, &[]);
        } else if last_start(held) - granule_start(start) < REACH {
            self.leaves.get_mut(number).refill_from(granule_start(start), held);
        } else {
            self.split_off(number, first_start(held), held);
            self.leaves.get_mut(number).refill_from(granule_start(start), &[]);
        }
    }

    /// Divides a full leaf at the border between granules that is nearest to its middle.
    fn divide(&mut self, number: u32, held: &[Mapped], start: u64) {
        match border_near_middle(held) {
            Some(middle) => {
                let (low, high) = held.split_at(middle);
                self.split_off(number, first_start(high), high);
                self.leaves.get_mut(number).refill(low);
            }
            // All of one granule, which the new entry is then not of.
            None if start > first_start(held) => self.split_off(number, start, &[]),
            None => {
                self.split_off(number, first_start(held), held);
                self.leaves.get_mut(number).refill_from(granule_start(start), &[]);
            }
        }
    }

    fn share_with_next(&mut self, number: u32) -> bool {
        let next = self.leaves.get(number).next;
        next != NO_LEAF && self.leaves.get(next).has_room_to_share() && self.even_out(number, next)
    }

    fn share_with_previous(&mut self, number: u32) -> bool {
        let previous = self.leaves.get(number).previous;
        previous != NO_LEAF
            && self.leaves.get(previous).has_room_to_share()
            && self.even_out(previous, number)
    }

    /// Gives two neighbouring leaves of one node about the same number of entries; `false` if they are not
    /// such, or cannot.
    fn even_out(&mut self, left: u32, right: u32) -> bool {
        let mut buffer = [Mapped::default(); 2 * LEAF_ENTRIES];
        let held = self.leaves.get(left).copy_to(&mut buffer);
        let more = self.leaves.get(right).copy_to(&mut buffer[held..]);
        let old = granule(first_start(&buffer[held..]));
        let Some(middle) = border_near_middle(&buffer[..held + more]) else {
            return false;
        };
        let (low, high) = buffer[..held + more].split_at(middle);
        let fits = low.len() < LEAF_ENTRIES && high.len() < LEAF_ENTRIES;
        let spans = Leaf::spans(low) && Leaf::spans(high);
        if !fits || !spans || !self.inners.move_border(old, right, granule(first_start(high))) {
            return false;
        }
        self.forget_hints(left);
        self.forget_hints(right);
        self.leaves.get_mut(left).refill(low);
        self.leaves.get_mut(right).refill(high);
        true
    }

    /// Adds a leaf with these entries behind another one, responsible from the granule of `start` on.
    fn split_off(&mut self, number: u32, start: u64, entries: &[Mapped]) {
        self.forget_hints(number);
        let added = self.leaves.add(granule_start(start));
        if !entries.is_empty() {
            self.leaves.get_mut(added).refill(entries);
        }
        let next = self.leaves.get(number).next;
        self.leaves.get_mut(added).previous = number;
        self.leaves.get_mut(added).next = next;
        self.leaves.get_mut(number).next = added;
        if next != NO_LEAF {
            self.leaves.get_mut(next).previous = added;
        }
        self.inners.insert(granule(start), added);
        debug_assert!(self.inners.height() < MAX_HEIGHT);
    }
}

fn first_start(entries: &[Mapped]) -> u64 {
    entries[0].lba.start.get()
}

fn last_start(entries: &[Mapped]) -> u64 {
    entries[entries.len() - 1].lba.start.get()
}

/// The index nearest to the middle where a granule begins, or `None` when all are of one.
fn border_near_middle(entries: &[Mapped]) -> Option<usize> {
    let begins = |index: usize| {
        let [before, here] = [index - 1, index].map(|k| granule(entries[k].lba.start.get()));
        before != here
    };
    let middle = entries.len() / 2;
    let above = (middle..entries.len()).find(|&index| begins(index));
    let below = (1..middle).rev().find(|&index| begins(index));
    match (below, above) {
        (Some(below), Some(above)) if middle - below < above - middle => Some(below),
        (below, above) => above.or(below),
    }
}
