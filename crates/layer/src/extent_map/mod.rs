//! The exception map: host extents outside their native location, with their current location.
//!
//! A B+-tree over leaves of packed extents (11 bytes each). A full leaf first moves entries to a neighbour
//! and is split only if both are full, so that leaves stay about 80 % full under random writes: including
//! inner nodes, less than 16 bytes per extent. When an extent is split, its parts keep the locations of their
//! sectors.
//!
//! A map of millions of extents is far larger than the processor's caches, so the cost of a write is the
//! number of cache lines that it accesses and how early they are prefetched. [`ExtentMap::hint`] announces an
//! address: it prefetches the parent of the leaf, some hints later the part of the leaf that is searched, and
//! then slots. An insertion that neither overlaps nor adjoins an entry, the common case, needs only that
//! part.
//!
//! Invariants: extents do not overlap; adjacent extents that are contiguous in both address spaces are one
//! entry, up to 65,535 sectors; a look-up returns the location that was last inserted for a sector, unless it
//! was removed.
//! Source: the exception map of Skylight, section 2; the structure is a textbook B+-tree.

use std::cell::Cell;
use std::ops::Range;

use skylight_disk::{Lba, LbaExtent, Pba, SPLITMIX64_STEP, Sectors};

pub use self::inner_nodes::prefetch;
use self::inner_nodes::{Inners, MAX_HEIGHT, Parent, granule, granule_start};
pub(crate) use self::leaves::ENTRY_MAX_SECTORS;
pub use self::leaves::Mapped;
use self::leaves::{LEAF_ENTRIES, Leaf, Leaves, NO_LEAF};
use crate::plan::CacheUse;

mod inner_nodes;
mod leaves;

/// A position between entries: a leaf and an index in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cursor {
    leaf: u32,
    index: usize,
}

/// See the module documentation.
pub struct ExtentMap {
    inners: Inners,
    leaves: Leaves,
    entries: u64,
    sectors: u64,
    /// An upper bound on the length of the entries, in sectors.
    longest: u64,
    /// A direct-mapped cache of leaves by start.
    hinted: [Cell<Hinted>; HINTS],
    /// The latest search of [`ExtentMap::first_ending_after`], with its result; `None` after a change.
    /// Cleaning searches for the same start several times in a row.
    latest_search: Cell<Option<(Lba, Cursor)>>,
    /// The last hints, in a ring.
    ring: [Hint; HINT_RING],
    hints: usize,
}

/// Hints that are processed together; a power of two.
const HINT_BATCH: usize = 8;
/// Hints in the ring: several batches; a power of two, so that the counter of hints may wrap around.
const HINT_RING: usize = 4 * HINT_BATCH;

/// A hint, with the results of its steps so far.
#[derive(Clone, Copy)]
struct Hint {
    start: u64,
    parent: Parent,
    leaf: u32,
}

/// Upper bound of the media addresses that an entry can contain.
pub const MAX_ADDRESS: Pba = Pba(1 << leaves::ADDRESS_BITS);

/// Log2 of the size of the cache of leaves: many times the number of hints that are outstanding for host
/// commands and for cleaning, so that few are evicted before they are used.
const HINT_BITS: u32 = 9;
const HINTS: usize = 1 << HINT_BITS;

/// A start that was hinted or searched for, and its leaf, which later look-ups need not search again.
#[derive(Clone, Copy)]
struct Hinted {
    start: u64,
    leaf: u32,
}

const NO_HINT: Hinted = Hinted { start: u64::MAX, leaf: NO_LEAF };

/// The index of a start in the cache of leaves. The starts of blocks and bands have many equal bits, so it is
/// hashed.
#[inline]
fn hint_index(start: u64) -> usize {
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
            ring: [Hint { start: 0, parent: inners.find_parent(0), leaf: first }; HINT_RING],
            hints: 0,
            inners,
            leaves,
            entries: 0,
            sectors: 0,
            longest: 0,
            hinted: [const { Cell::new(NO_HINT) }; HINTS],
            latest_search: Cell::new(None),
        }
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// The number of mapped sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// An upper bound on the length of all entries: that of the longest so far.
    pub fn longest(&self) -> Sectors {
        Sectors(self.longest)
    }

    /// Allocated memory.
    pub fn bytes(&self) -> u64 {
        self.leaves.bytes() + self.inners.bytes()
    }

    /// The use of the persistent cache that this map describes.
    pub fn cache_use(&self) -> CacheUse {
        CacheUse {
            live_sectors: self.sectors,
            map_entries: self.entries,
            map_bytes: self.bytes(),
            ..CacheUse::default()
        }
    }

    /// Prefetches the data for a look-up of an address that will follow soon, best 24 look-ups later: hints
    /// are processed in batches of eight, in three steps.
    #[inline]
    pub fn hint(&mut self, address: Lba) {
        self.ring[self.hints % HINT_RING].start = address.get();
        self.hints = self.hints.wrapping_add(1);
        if self.hints.is_multiple_of(HINT_BATCH) {
            self.process_hints();
        }
    }

    /// Performs the next step for each of the last batches of hints. The cache misses of a batch overlap.
    fn process_hints(&mut self) {
        let batch = |back: usize| {
            let first = self.hints.wrapping_sub(back * HINT_BATCH) % HINT_RING;
            first..first + HINT_BATCH
        };
        let (newest, second, third) = (batch(1), batch(2), batch(3));
        for hint in &mut self.ring[newest] {
            hint.parent = self.inners.find_parent(hint.start);
        }
        for hint in &mut self.ring[second.clone()] {
            hint.leaf = self.inners.find_from(hint.start, hint.parent);
        }
        for hint in &self.ring[second] {
            self.leaves.get(hint.leaf).prefetch_searched();
            self.hinted[hint_index(hint.start)].set(Hinted { start: hint.start, leaf: hint.leaf });
        }
        for hint in &self.ring[third] {
            let leaf = self.leaves.get(hint.leaf);
            leaf.prefetch_slots(hint.start);
            if leaf.is_full() && leaf.next != NO_LEAF {
                // An insertion will move entries to the next leaf.
                leaf.prefetch_whole();
                self.leaves.get(leaf.next).prefetch_whole();
            }
        }
    }

    /// Drops hints for a leaf whose range of starts changes.
    fn forget_hints(&mut self, leaf: u32) {
        for hinted in &mut self.hinted {
            if hinted.get().leaf == leaf {
                hinted.set(NO_HINT);
            }
        }
    }

    /// Maps an extent to `pba`, replacing previous mappings within it. Host addresses must be below 2^38
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
    /// assert_eq!(found[2].pba, Pba(5004)); // the rest keeps its own location
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

    /// Maps an extent if a quick test shows that nothing within or adjacent to it is mapped. Returns whether
    /// it did. This is the common case; for others, the caller has to handle what the extent replaces.
    #[inline]
    pub fn insert_if_clear(&mut self, extent: LbaExtent, pba: Pba) -> bool {
        if extent.is_empty() || extent.len.get() > ENTRY_MAX_SECTORS {
            return false;
        }
        let number = self.leaf_for(extent.start);
        let leaf = self.leaves.get_mut(number);
        let Some(index) = leaf.clear_index(extent) else {
            return false;
        };
        let entry = Mapped { lba: extent, pba };
        leaf.insert(index, entry);
        self.count(entry);
        true
    }

    /// Removes all mappings within an extent.
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

    /// The mappings within an extent, in order, clipped to it.
    pub fn overlapping(&self, extent: LbaExtent) -> impl Iterator<Item = Mapped> + '_ {
        self.overlapping_from(self.first_ending_after(extent.start), extent)
    }

    /// As [`ExtentMap::overlapping`], but starts at `searched`, a sector of the extent that was recently
    /// looked up, and goes back from there. This saves a search of the tree, if few entries precede that
    /// sector.
    pub fn overlapping_around(&self, extent: LbaExtent, searched: Lba) -> impl Iterator<Item = Mapped> + '_ {
        let mut at = self.first_ending_after(searched);
        while let Some(before) = self.before(at)
            && self.leaves.get(before.leaf).get(before.index).lba.end() > extent.start
        {
            at = before;
        }
        if at.index > 0 && self.entry(at).is_none_or(|first| first.lba.start >= extent.start) {
            // The leaf has entries on both sides of the extent's start, so it is also the leaf for that.
            let hinted = Hinted { start: extent.start.get(), leaf: at.leaf };
            self.hinted[hint_index(hinted.start)].set(hinted);
        }
        self.latest_search.set(Some((extent.start, at)));
        self.overlapping_from(at, extent)
    }

    /// The mappings within an extent whose first entry is at `at`, clipped to it.
    fn overlapping_from(&self, mut at: Cursor, extent: LbaExtent) -> impl Iterator<Item = Mapped> + '_ {
        std::iter::from_fn(move || {
            let entry = self.entry(at).filter(|e| e.lba.start < extent.end())?;
            at = self.after(at);
            Some(entry.clipped(extent.start, extent.end()))
        })
    }

    /// The whole entry that contains a sector.
    pub fn entry_at(&self, sector: Lba) -> Option<Mapped> {
        let found = self.first_overlap(LbaExtent::new(sector, Sectors(1)));
        found.map(|(_, entry)| entry)
    }

    /// The position of the first entry that starts after `at`.
    #[inline]
    fn position_after(&self, at: Lba) -> Cursor {
        let leaf = self.leaf_for(at);
        Cursor { leaf, index: self.leaves.get(leaf).rank(at.get()) }
    }

    /// The leaf whose range contains a start.
    #[inline]
    fn leaf_for(&self, at: Lba) -> u32 {
        let hinted = &self.hinted[hint_index(at.get())];
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

    /// The position after an entry.
    fn after(&self, at: Cursor) -> Cursor {
        self.normalized(Cursor { index: at.index + 1, ..at })
    }

    /// Moves a position at the end of a leaf to the start of the next leaf with entries.
    fn normalized(&self, mut at: Cursor) -> Cursor {
        loop {
            let leaf = self.leaves.get(at.leaf);
            if at.index < leaf.len() || leaf.next == NO_LEAF {
                return at;
            }
            at = Cursor { leaf: leaf.next, index: 0 };
        }
    }

    /// The position of the previous entry, if there is one.
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

    /// The position of the first entry that ends after `start`.
    fn first_ending_after(&self, start: Lba) -> Cursor {
        if let Some((latest, at)) = self.latest_search.get()
            && latest == start
        {
            return at;
        }
        let at = self.position_after(start);
        let found = match self.before(at) {
            Some(before) if self.leaves.get(before.leaf).get(before.index).lba.end() > start => before,
            _ => self.normalized(at),
        };
        self.latest_search.set(Some((start, found)));
        found
    }

    fn first_overlap(&self, extent: LbaExtent) -> Option<(Cursor, Mapped)> {
        let at = self.first_ending_after(extent.start);
        let entry = self.entry(at)?;
        (entry.lba.start < extent.end()).then_some((at, entry))
    }

    /// Maps an extent of one entry: replaces an entry in place, merges with a neighbour, or adds an entry.
    fn insert_entry(&mut self, entry: Mapped) {
        if self.insert_if_clear(entry.lba, entry.pba) {
            return;
        }
        let number = self.leaf_for(entry.lba.start);
        let leaf = self.leaves.get(number);
        let at = Cursor { leaf: number, index: leaf.rank(entry.lba.start.get()) };
        let before = self.before(at).map(|b| (b, self.leaves.get(b.leaf).get(b.index)));
        if let Some((position, found)) = before
            && found.lba == entry.lba
        {
            if self.stands_alone(position, entry) {
                self.leaves.get_mut(position.leaf).put(position.index, entry);
            } else {
                self.delete(position, found);
                self.insert_entry(entry);
            }
            return;
        }
        let after = self.normalized(at);
        let next = self.entry(after);
        let overlaps = before.is_some_and(|(_, b)| b.lba.end() > entry.lba.start)
            || next.is_some_and(|n| n.lba.start < entry.lba.end());
        if overlaps {
            self.remove(entry.lba);
            self.insert_entry(entry);
            return;
        }
        match (before, next) {
            (Some((position, found)), _) if found.continued_by(entry) => {
                let lba = LbaExtent::new(found.lba.start, found.lba.len + entry.lba.len);
                self.delete(position, found);
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

    /// Whether an entry at `position` would merge with neither neighbour.
    fn stands_alone(&self, position: Cursor, entry: Mapped) -> bool {
        let joins = |pair: [Option<Mapped>; 2]| matches!(pair, [Some(a), Some(b)] if a.continued_by(b));
        let before = self.before(position).and_then(|at| self.entry(at));
        !joins([before, Some(entry)]) && !joins([Some(entry), self.entry(self.after(position))])
    }

    fn add(&mut self, entry: Mapped) {
        let at = self.position_after(entry.lba.start);
        self.add_at(at, entry);
    }

    /// Adds an entry at the position that [`ExtentMap::position_after`] returned.
    fn add_at(&mut self, at: Cursor, entry: Mapped) {
        let leaf = self.leaves.get(at.leaf);
        if leaf.is_full() || !leaf.can_represent(entry.lba.start.get()) {
            self.make_space(at.leaf, entry);
            return self.add(entry);
        }
        self.leaves.get_mut(at.leaf).insert(at.index, entry);
        self.count(entry);
    }

    /// Updates the totals for a new entry.
    #[inline]
    fn count(&mut self, entry: Mapped) {
        self.latest_search.set(None);
        self.entries += 1;
        self.sectors += entry.lba.len.get();
        self.longest = self.longest.max(entry.lba.len.get());
    }

    fn delete(&mut self, at: Cursor, entry: Mapped) {
        self.latest_search.set(None);
        let leaf = self.leaves.get_mut(at.leaf);
        leaf.remove(at.index);
        let empty = leaf.len() == 0;
        self.entries -= 1;
        self.sectors -= entry.lba.len.get();
        if empty {
            self.remove_leaf(at.leaf, entry.lba.start.get());
        }
    }

    /// Removes an empty leaf from the tree, unless it is the last one.
    fn remove_leaf(&mut self, number: u32, start: u64) {
        let (previous, next) = (self.leaves.get(number).previous, self.leaves.get(number).next);
        if previous == NO_LEAF && next == NO_LEAF {
            *self.leaves.get_mut(number) = Leaf::new(0);
            return;
        }
        // A neighbour takes over its range.
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

    /// Changes the tree so that the leaf for the entry can take it.
    fn make_space(&mut self, number: u32, entry: Mapped) {
        self.latest_search.set(None);
        let start = entry.lba.start.get();
        let leaf = self.leaves.get_mut(number);
        if !leaf.can_represent(start) {
            if leaf.can_extend_to(start, start) {
                leaf.extend_range(start, start);
            } else if start > leaf.start(0) {
                self.split_off(number, start);
            } else {
                self.split_all_off(number, start);
            }
        } else if !self.share_with_next(number) && !self.share_with_previous(number) {
            self.split_in_half(number, start);
        }
    }

    /// Splits a full leaf at the border between granules nearest to its middle.
    fn split_in_half(&mut self, number: u32, start: u64) {
        let leaf = self.leaves.get(number);
        match leaf.border_near(leaf.len() / 2) {
            Some(middle) => {
                let border = leaf.start(middle);
                let added = self.split_off(number, border);
                self.shift_entries(number, middle..LEAF_ENTRIES, added);
                self.leaves.get_mut(number).refine();
            }
            // All entries are in one granule, and the new one is in another.
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
        if next == NO_LEAF || !self.leaves.get(next).has_space_to_share() {
            return false;
        }
        let other = self.leaves.get(next);
        let Some(middle) = leaf.border_near((leaf.len() + other.len()) / 2) else {
            return false;
        };
        let (border, old) = (leaf.start(middle), granule(other.start(0)));
        let fits = other.len() + leaf.len() - middle < LEAF_ENTRIES && other.can_extend_to(border, border);
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
        if previous == NO_LEAF || !self.leaves.get(previous).has_space_to_share() {
            return false;
        }
        let other = self.leaves.get(previous);
        let Some(middle) = leaf.border_near((leaf.len() - other.len()) / 2) else {
            return false;
        };
        let (border, old, last) = (leaf.start(middle), granule(leaf.start(0)), leaf.start(middle - 1));
        let fits = other.len() + middle < LEAF_ENTRIES && other.can_extend_to(last, last);
        if !fits || !self.inners.move_border(old, number, granule(border)) {
            return false;
        }
        self.forget_hints(number);
        self.shift_entries(number, 0..middle, previous);
        true
    }

    /// Adds an empty leaf after another one, which covers addresses from the granule of `start` on.
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

    /// Moves all entries of a leaf to a new one after it, so that it can take a start too far below them.
    fn split_all_off(&mut self, number: u32, start: u64) {
        let leaf = self.leaves.get(number);
        let len = leaf.len();
        let added = self.split_off(number, leaf.start(0));
        self.shift_entries(number, 0..len, added);
        self.leaves.get_mut(number).extend_range(start, start);
    }
}
