//! The exception map: which host extents lie elsewhere than at their native location, and where.
//!
//! A B+-tree over leaves of packed extents (11 bytes each). A full leaf first shares with a neighbour and
//! splits only when both are full, so that leaves stay about 80 % full under random writes: with the inner
//! nodes, less than 16 bytes an extent. Values shift when an extent is cut: the rest of a cut extent still
//! points at its own sectors.
//!
//! A map of millions of extents is far larger than the processor's caches, so what counts is how many lines of
//! memory a write touches and how early they are asked for. Who knows the addresses that come says so with
//! [`ExtentMap::hint`]; a hint fetches the node above the leaf, some hints later the part of the leaf that is
//! searched, and then slots of it. A write that overlaps and touches nothing, most of them, is put in with that part alone.
//!
//! Invariants: extents do not overlap; neighbours that continue each other in both address spaces are one
//! extent up to 65,535 sectors; every sector last inserted and not removed is found at its address.
//! Source: the exception map of Skylight, section 2; the structure is a textbook B+-tree.

use std::cell::Cell;
use std::ops::Range;

use skylight_disk::{Lba, LbaExtent, Pba, SPLITMIX64_STEP, Sectors};

use crate::inner::{Approach, Inners, MAX_HEIGHT, granule, granule_start};
use crate::leaf::{ENTRY_MAX_SECTORS, LEAF_ENTRIES, Leaf, Leaves, NO_LEAF};

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
    /// At least as many sectors as any entry has.
    longest: u64,
    /// By some bits of the start.
    hinted: [Cell<Hinted>; HINTS],
    /// Where the first entry is that ends after the latest start for which that was found; none once it may have
    /// moved. Cleaning asks for the same start several times in a row.
    latest: Cell<Option<(Lba, Cursor)>>,
    /// The last starts that were hinted, in a ring.
    ahead: [Ahead; HINTS_AHEAD],
    hints: usize,
}

/// Hints that are followed up together; a power of two.
const HINT_BATCH: usize = 8;
/// The ring holds some batches; a power of two, so that it goes on where the counter begins anew.
const HINTS_AHEAD: usize = 4 * HINT_BATCH;

/// A start that was hinted, and how far the way to it was gone.
#[derive(Clone, Copy)]
struct Ahead {
    start: u64,
    approach: Approach,
    leaf: u32,
}

/// Media addresses that an entry can hold lie below this.
pub const MAX_ADDRESS: Pba = Pba(1 << crate::leaf::ADDRESS_BITS);

/// How many hints are remembered, as a power of two: many times as many as are ahead at once, of host commands
/// and of cleaning, so that few are lost to others before they are asked for.
const HINT_BITS: u32 = 9;
const HINTS: usize = 1 << HINT_BITS;

/// A start that will be asked for or was asked for lately, and the leaf that holds it: found once for the hint
/// and the look-ups.
#[derive(Clone, Copy)]
struct Hinted {
    start: u64,
    leaf: u32,
}

const NO_HINT: Hinted = Hinted { start: u64::MAX, leaf: NO_LEAF };

/// Where a start is remembered: those of blocks and of bands, which share many bits, shall not meet too often.
#[inline]
fn hint_slot(start: u64) -> usize {
    (start.wrapping_mul(SPLITMIX64_STEP) >> (u64::BITS - HINT_BITS)) as usize
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
        let inners = Inners::new(first);
        Self {
            ahead: [Ahead { start: 0, approach: inners.approach(0), leaf: first }; HINTS_AHEAD],
            hints: 0,
            inners,
            leaves,
            entries: 0,
            sectors: 0,
            longest: 0,
            hinted: [const { Cell::new(NO_HINT) }; HINTS],
            latest: Cell::new(None),
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

    /// No entry is longer: the longest that the map ever held.
    pub fn longest(&self) -> Sectors {
        Sectors(self.longest)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> u64 {
        self.leaves.bytes() + self.inners.bytes()
    }

    /// Has what finds an address that will be asked for soon fetched into the processor's cache. Best 24
    /// look-ups ahead: hints are followed up in batches of eight, each in three steps.
    #[inline]
    pub fn hint(&mut self, address: Lba) {
        self.ahead[self.hints % HINTS_AHEAD].start = address.get();
        self.hints = self.hints.wrapping_add(1);
        if self.hints.is_multiple_of(HINT_BATCH) {
            self.follow_hints();
        }
    }

    /// Goes a step further with each of the last batches of hints. Those of a batch are done in a row, since
    /// processors then wait for all of them at once.
    fn follow_hints(&mut self) {
        let batch = |back: usize| {
            let first = self.hints.wrapping_sub(back * HINT_BATCH) % HINTS_AHEAD;
            first..first + HINT_BATCH
        };
        let (found, searched, filled) = (batch(1), batch(2), batch(3));
        for ahead in &mut self.ahead[found] {
            ahead.approach = self.inners.approach(ahead.start);
        }
        for ahead in &mut self.ahead[searched.clone()] {
            ahead.leaf = self.inners.arrive(ahead.start, ahead.approach);
        }
        for ahead in &self.ahead[searched] {
            self.leaves.get(ahead.leaf).prefetch_searched();
            self.hinted[hint_slot(ahead.start)].set(Hinted { start: ahead.start, leaf: ahead.leaf });
        }
        for ahead in &self.ahead[filled] {
            let leaf = self.leaves.get(ahead.leaf);
            leaf.prefetch_slots(ahead.start);
            if leaf.is_full() && leaf.next != NO_LEAF {
                // To take another entry, it shares with the next one.
                leaf.prefetch_whole();
                self.leaves.get(leaf.next).prefetch_whole();
            }
        }
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

    /// Maps an extent if it is plain at a glance that nothing in it or beside it is mapped; whether it did. Most
    /// writes are such, and need not be asked what they replace.
    #[inline]
    pub fn insert_if_clear(&mut self, extent: LbaExtent, pba: Pba) -> bool {
        if extent.is_empty() || extent.len.get() > ENTRY_MAX_SECTORS {
            return false;
        }
        let number = self.leaf_for(extent.start);
        let leaf = self.leaves.get_mut(number);
        let Some(index) = leaf.clear_place(extent) else {
            return false;
        };
        let entry = Mapped { lba: extent, pba };
        leaf.insert(index, entry);
        self.count(entry);
        true
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
        self.overlapping_from(self.first_ending_after(extent.start), extent)
    }

    /// As [`ExtentMap::overlapping`], from a sector of the extent on which the map was asked for lately: one way
    /// down the tree does for both, where little lies before that sector.
    pub fn overlapping_around(&self, extent: LbaExtent, asked: Lba) -> impl Iterator<Item = Mapped> + '_ {
        let mut at = self.first_ending_after(asked);
        while let Some(before) = self.before(at)
            && self.leaves.get(before.leaf).get(before.index).lba.end() > extent.start
        {
            at = before;
        }
        if at.index > 0 && self.entry(at).is_none_or(|first| first.lba.start >= extent.start) {
            // The leaf has the entries on both sides of the extent's start, so it is the one for that too.
            let hinted = Hinted { start: extent.start.get(), leaf: at.leaf };
            self.hinted[hint_slot(hinted.start)].set(hinted);
        }
        self.latest.set(Some((extent.start, at)));
        self.overlapping_from(at, extent)
    }

    /// What is mapped in an extent, whose first entry is at a place, cut to it.
    fn overlapping_from(&self, mut at: Cursor, extent: LbaExtent) -> impl Iterator<Item = Mapped> + '_ {
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
        let leaf = self.leaf_for(at);
        Cursor { leaf, index: self.leaves.get(leaf).rank(at.get()) }
    }

    /// The leaf that holds a start, or would.
    #[inline]
    fn leaf_for(&self, at: Lba) -> u32 {
        let hinted = &self.hinted[hint_slot(at.get())];
        let leaf = match hinted.get() {
            Hinted { start, leaf } if start == at.get() => leaf,
            _ => self.inners.find(at.get()),
        };
        hinted.set(Hinted { start: at.get(), leaf });
        leaf
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
        if let Some((latest, at)) = self.latest.get()
            && latest == start
        {
            return at;
        }
        let at = self.descend(start);
        let found = match self.before(at) {
            Some(before) if self.leaves.get(before.leaf).get(before.index).lba.end() > start => before,
            _ => self.settled(at),
        };
        self.latest.set(Some((start, found)));
        found
    }

    fn first_overlap(&self, extent: LbaExtent) -> Option<(Cursor, Mapped)> {
        let at = self.first_ending_after(extent.start);
        let entry = self.entry(at)?;
        (entry.lba.start < extent.end()).then_some((at, entry))
    }

    /// Maps an extent of one entry: replaced in place, joined to a neighbour, or added.
    fn insert_entry(&mut self, entry: Mapped) {
        if self.insert_if_clear(entry.lba, entry.pba) {
            return;
        }
        let number = self.leaf_for(entry.lba.start);
        let leaf = self.leaves.get(number);
        let at = Cursor { leaf: number, index: leaf.rank(entry.lba.start.get()) };
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
        self.count(entry);
    }

    /// An entry more.
    #[inline]
    fn count(&mut self, entry: Mapped) {
        self.latest.set(None);
        self.entries += 1;
        self.sectors += entry.lba.len.get();
        self.longest = self.longest.max(entry.lba.len.get());
    }

    fn delete(&mut self, at: Cursor, entry: Mapped) {
        self.latest.set(None);
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
        self.latest.set(None);
        let start = entry.lba.start.get();
        let leaf = self.leaves.get_mut(number);
        if !leaf.reaches(start) {
            if leaf.could_reach(start, start) {
                leaf.extend_reach(start, start);
            } else if start > leaf.start(0) {
                self.split_off(number, start);
            } else {
                self.split_all_off(number, start);
            }
        } else if !self.share_with_next(number) && !self.share_with_previous(number) {
            self.divide(number, start);
        }
    }

    /// Divides a full leaf at the border between granules that is nearest to its middle.
    fn divide(&mut self, number: u32, start: u64) {
        let leaf = self.leaves.get(number);
        match leaf.border_near(leaf.len() / 2) {
            Some(middle) => {
                let border = leaf.start(middle);
                let added = self.split_off(number, border);
                self.shift_entries(number, middle..LEAF_ENTRIES, added);
                self.leaves.get_mut(number).refine();
            }
            // All of one granule, which the new entry is then not of.
            None if start > leaf.start(0) => _ = self.split_off(number, start),
            None => self.split_all_off(number, start),
        }
    }

    /// Moves entries from one end of a leaf to the neighbour at that end.
    fn shift_entries(&mut self, from: u32, range: Range<usize>, to: u32) {
        let mut buffer = [Mapped::default(); LEAF_ENTRIES];
        let moved = range.len();
        let to_next = range.end == self.leaves.get(from).len();
        self.leaves.get_mut(from).cut(range, &mut buffer);
        let to = self.leaves.get_mut(to);
        let at = if to_next { 0 } else { to.len() };
        to.splice(at, &buffer[..moved]);
    }

    fn share_with_next(&mut self, number: u32) -> bool {
        let leaf = self.leaves.get(number);
        let next = leaf.next;
        if next == NO_LEAF || !self.leaves.get(next).has_room_to_share() {
            return false;
        }
        let other = self.leaves.get(next);
        let Some(middle) = leaf.border_near((leaf.len() + other.len()) / 2) else {
            return false;
        };
        let (border, old) = (leaf.start(middle), granule(other.start(0)));
        let fits = other.len() + leaf.len() - middle < LEAF_ENTRIES && other.could_reach(border, border);
        if !fits || !self.inners.move_border(old, next, granule(border)) {
            return false;
        }
        self.forget_hints(number);
        self.shift_entries(number, middle..LEAF_ENTRIES, next);
        true
    }

    fn share_with_previous(&mut self, number: u32) -> bool {
        let leaf = self.leaves.get(number);
        let previous = leaf.previous;
        if previous == NO_LEAF || !self.leaves.get(previous).has_room_to_share() {
            return false;
        }
        let other = self.leaves.get(previous);
        let Some(middle) = leaf.border_near((leaf.len() - other.len()) / 2) else {
            return false;
        };
        let (border, old, last) = (leaf.start(middle), granule(leaf.start(0)), leaf.start(middle - 1));
        let fits = other.len() + middle < LEAF_ENTRIES && other.could_reach(last, last);
        if !fits || !self.inners.move_border(old, number, granule(border)) {
            return false;
        }
        self.forget_hints(number);
        self.shift_entries(number, 0..middle, previous);
        true
    }

    /// Adds an empty leaf behind another one, responsible from the granule of `start` on.
    fn split_off(&mut self, number: u32, start: u64) -> u32 {
        self.forget_hints(number);
        let added = self.leaves.add(granule_start(start));
        let next = self.leaves.get(number).next;
        self.leaves.get_mut(added).previous = number;
        self.leaves.get_mut(added).next = next;
        self.leaves.get_mut(number).next = added;
        if next != NO_LEAF {
            self.leaves.get_mut(next).previous = added;
        }
        self.inners.insert(granule(start), added);
        debug_assert!(self.inners.height() < MAX_HEIGHT);
        added
    }

    /// Moves all entries of a leaf to one behind it, so that it can take a lower start that it does not reach.
    fn split_all_off(&mut self, number: u32, start: u64) {
        let leaf = self.leaves.get(number);
        let len = leaf.len();
        let added = self.split_off(number, leaf.start(0));
        self.shift_entries(number, 0..len, added);
        self.leaves.get_mut(number).extend_reach(start, start);
    }
}
