//! A leaf of the extent map: up to [`LEAF_ENTRIES`] extents in 11 bytes each.
//!
//! What a search reads lies together in few lines of memory: for each extent, in the order of their starts, its
//! distance from the leaf's base as a 16-bit number, so that the compiler compares many at once, and the *slot*
//! that holds the rest of it. Slots are taken and given back in any order: an extent that is added moves three
//! bytes of each that comes behind it and writes one slot. Distances count in units, the finest in which the
//! leaf reaches all its starts; where in its unit an extent starts is in the slot.
//!
//! Invariants: starts rise; extents do not overlap; the leaf reaches every start; a slot is in the order once or
//! is free; no extent is longer than `longest`.

use std::ops::Range;

use skylight_disk::{Lba, LbaExtent, Pba, Sectors};

use crate::inner::{granule, granule_start, prefetch};

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
    pub(crate) fn clipped(self, start: Lba, end: Lba) -> Self {
        let from = start.max(self.lba.start);
        let until = end.min(self.lba.end());
        let skipped = from - self.lba.start;
        Self { lba: LbaExtent::new(from, until - from), pba: self.pba + skipped }
    }

    /// Whether `next` continues this one in both address spaces.
    pub(crate) fn continued_by(self, next: Self) -> bool {
        self.lba.end() == next.lba.start
            && self.pba + self.lba.len == next.pba
            && self.lba.len.get() + next.lba.len.get() <= ENTRY_MAX_SECTORS
    }
}

/// Extents in a leaf.
pub(crate) const LEAF_ENTRIES: usize = 64;
/// The longest extent of one entry; longer ones take several.
pub(crate) const ENTRY_MAX_SECTORS: u64 = u16::MAX as u64;
/// Starts lie less than this far from the base, in sectors, in the coarsest unit.
const REACH: u64 = UNITS << MAX_SHIFT;
/// Distances that can be told from the unused one.
const UNITS: u64 = u16::MAX as u64;
/// Bits of a start that its slot has room for.
const MAX_SHIFT: u32 = 8;
/// Where they are.
const INTO_SHIFT: u32 = ADDRESS_BITS + 16;
/// The distance of an unused entry: past every other.
const UNUSED: i16 = i16::MAX;
/// Bits of an address: media of up to 2^40 sectors, 562 TB. Builders of layers keep them below.
pub(crate) const ADDRESS_BITS: u32 = 40;
/// No leaf.
pub(crate) const NO_LEAF: u32 = u32::MAX;
/// Bytes at the front of a leaf that a search and most insertions read.
const SEARCHED_BYTES: usize = std::mem::offset_of!(Leaf, slots) + LEAF_ENTRIES;

/// A distance below [`UNITS`] as a signed number in the same order: processors compare those faster.
#[inline]
fn signed(distance: u64) -> i16 {
    (distance as u16 ^ 0x8000).cast_signed()
}

/// See the module page.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Leaf {
    /// The first sector of a granule, at or before the first start.
    base: u64,
    /// Slots that hold nothing.
    free: u64,
    pub(crate) previous: u32,
    pub(crate) next: u32,
    /// At least as many sectors as any extent has that it holds.
    longest: u16,
    len: u8,
    /// Distances are counted in units of two to the power of this many sectors.
    shift: u8,
    distances: [i16; LEAF_ENTRIES],
    /// Slots, in the order of the starts.
    order: [u8; LEAF_ENTRIES],
    /// Address, length, and where in its unit an extent starts, from the lowest bit on.
    slots: [u64; LEAF_ENTRIES],
}

impl Leaf {
    pub(crate) fn new(base: u64) -> Self {
        Self {
            base,
            free: u64::MAX,
            previous: NO_LEAF,
            next: NO_LEAF,
            longest: 0,
            len: 0,
            shift: 0,
            distances: [UNUSED; LEAF_ENTRIES],
            order: [0; LEAF_ENTRIES],
            slots: [0; LEAF_ENTRIES],
        }
    }

    /// Has what a search and most insertions read fetched into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_searched(&self) {
        prefetch(self, SEARCHED_BYTES);
    }

    /// Has the slots fetched that a start is likely to need: that of the entry at it or before it, and the one
    /// that the next entry takes.
    #[inline]
    pub(crate) fn prefetch_slots(&self, start: u64) {
        let before = self.unit_rank(self.split(start.max(self.base)).0).saturating_sub(1);
        for slot in [u32::from(self.order[before]), self.free.trailing_zeros()] {
            prefetch(&self.slots[slot as usize % LEAF_ENTRIES], size_of::<u64>());
        }
    }

    /// Has the whole leaf fetched.
    pub(crate) fn prefetch_whole(&self) {
        prefetch(self, size_of::<Self>());
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len() == LEAF_ENTRIES
    }

    /// Whether it could take entries of a full neighbour, and enough of them to be worth it: a little room is filled
    /// again soon, and each time costs more than an insertion.
    pub(crate) fn has_room_to_share(&self) -> bool {
        self.len > 0 && self.len() + LEAF_ENTRIES / 4 <= LEAF_ENTRIES
    }

    /// Whether a start can be kept as a distance from the base.
    #[inline]
    pub(crate) fn reaches(&self, start: u64) -> bool {
        start.wrapping_sub(self.base) >> self.shift < UNITS
    }

    /// A start that the leaf reaches as a distance from the base, and what its slot holds of it.
    #[inline]
    fn split(&self, start: u64) -> (i16, u64) {
        let into = start - self.base;
        (signed(into >> self.shift), into & ((1 << self.shift) - 1))
    }

    #[inline]
    fn distance_at(&self, index: usize) -> u64 {
        u64::from(self.distances[index].cast_unsigned() ^ 0x8000)
    }

    #[inline]
    fn slot(&self, index: usize) -> u64 {
        self.slots[usize::from(self.order[index]) % LEAF_ENTRIES]
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Mapped {
        let slot = self.slot(index);
        let lba = Lba(self.start(index));
        let len = Sectors(slot >> ADDRESS_BITS & ENTRY_MAX_SECTORS);
        Mapped { lba: LbaExtent::new(lba, len), pba: Pba(slot & ((1 << ADDRESS_BITS) - 1)) }
    }

    /// The first sector of an entry.
    #[inline]
    pub(crate) fn start(&self, index: usize) -> u64 {
        self.base + (self.distance_at(index) << self.shift) + (self.slot(index) >> INTO_SHIFT)
    }

    /// Replaces an entry by one that keeps the order.
    pub(crate) fn put(&mut self, index: usize, entry: Mapped) {
        debug_assert!(entry.pba.get() >> ADDRESS_BITS == 0, "an address has {ADDRESS_BITS} bits");
        let (distance, into) = self.split(entry.lba.start.get());
        let slot = usize::from(self.order[index]) % LEAF_ENTRIES;
        self.distances[index] = distance;
        self.slots[slot] = entry.pba.get() | entry.lba.len.get() << ADDRESS_BITS | into << INTO_SHIFT;
        self.longest = self.longest.max(entry.lba.len.get() as u16);
    }

    /// How many entries start within the unit of a distance or before: unused entries are past all, so the whole
    /// column is compared without a branch.
    #[inline]
    fn unit_rank(&self, distance: i16) -> usize {
        self.distances.iter().map(|&other| u16::from(other <= distance)).sum::<u16>().into()
    }

    /// How many entries start at or before `at`.
    #[inline]
    pub(crate) fn rank(&self, at: u64) -> usize {
        if at < self.base {
            return 0;
        }
        if !self.reaches(at) {
            return self.len();
        }
        let (distance, into) = self.split(at);
        let mut rank = self.unit_rank(distance);
        while rank > 0 && self.distances[rank - 1] == distance && self.slot(rank - 1) >> INTO_SHIFT > into {
            rank -= 1;
        }
        rank
    }

    /// Where an extent goes that has entries of this leaf on both sides and that none of them overlaps or
    /// touches, as far as distances tell; `None` also where there is no room.
    #[inline]
    pub(crate) fn clear_place(&self, extent: LbaExtent) -> Option<usize> {
        if self.is_full() || !self.reaches(extent.start.get()) {
            return None;
        }
        let into = extent.start.get() - self.base;
        let rank = self.unit_rank(signed(into >> self.shift));
        if rank == 0 || rank == self.len() {
            return None;
        }
        let before = ((self.distance_at(rank - 1) + 1) << self.shift) - 1 + u64::from(self.longest);
        let clear = before < into && into + extent.len.get() < self.distance_at(rank) << self.shift;
        clear.then_some(rank)
    }

    /// Puts an entry before the one at `index`.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, entry: Mapped) {
        let len = self.len();
        self.distances.copy_within(index..len, index + 1);
        self.order.copy_within(index..len, index + 1);
        self.order[index] = self.take_slot();
        self.len += 1;
        self.put(index, entry);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let len = self.len();
        self.free |= 1 << self.order[index];
        self.distances.copy_within(index + 1..len, index);
        self.order.copy_within(index + 1..len, index);
        self.len -= 1;
        self.distances[len - 1] = UNUSED;
    }

    /// Takes a range of entries out, which ends where the leaf ends if it does not begin where the leaf begins;
    /// they are the first of `buffer` then.
    pub(crate) fn cut(&mut self, range: Range<usize>, buffer: &mut [Mapped]) {
        let (len, cut) = (self.len(), range.len());
        for (index, slot) in range.clone().zip(buffer) {
            *slot = self.get(index);
            self.free |= 1 << self.order[index];
        }
        self.distances.copy_within(range.end..len, range.start);
        self.order.copy_within(range.end..len, range.start);
        self.distances[len - cut..len].fill(UNUSED);
        self.len -= cut as u8;
        if cut == len {
            self.longest = 0;
        }
    }

    /// Puts entries before the one at `index`; there is room for them.
    pub(crate) fn splice(&mut self, index: usize, entries: &[Mapped]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return;
        };
        self.extend_reach(first.lba.start.get(), last.lba.start.get());
        self.fill(index, entries);
    }

    /// Puts entries that it reaches before the one at `index`.
    fn fill(&mut self, index: usize, entries: &[Mapped]) {
        let (len, added) = (self.len(), entries.len());
        self.distances.copy_within(index..len, index + added);
        self.order.copy_within(index..len, index + added);
        self.len += added as u8;
        for (index, &entry) in (index..).zip(entries) {
            self.order[index] = self.take_slot();
            self.put(index, entry);
        }
    }

    #[inline]
    fn take_slot(&mut self) -> u8 {
        let slot = self.free.trailing_zeros();
        self.free &= self.free - 1;
        slot as u8
    }

    /// Whether it can reach from one start to another and all that it holds, however it counts distances.
    pub(crate) fn could_reach(&self, first: u64, last: u64) -> bool {
        match self.len() {
            0 => true,
            len => self.start(len - 1).max(last) - granule_start(self.start(0).min(first)) < REACH,
        }
    }

    /// Has it reach from one start to another, which it could.
    pub(crate) fn extend_reach(&mut self, first: u64, last: u64) {
        if self.len() == 0 {
            self.base = granule_start(first);
            self.shift = shift_for(last - self.base);
        } else if first < self.base || !self.reaches(last) {
            let behind = self.start(self.len() - 1);
            if !(last <= behind && self.lower_base(granule_start(first))) {
                self.count_anew(first, last);
            }
        }
    }

    /// Lowers the base if all distances stay distances; whether they do.
    fn lower_base(&mut self, base: u64) -> bool {
        let more = (self.base - base) >> self.shift;
        let len = self.len();
        if more << self.shift != self.base - base || self.distance_at(len - 1) + more >= UNITS {
            return false;
        }
        self.base = base;
        for distance in &mut self.distances[..len] {
            *distance = distance.wrapping_add(more as i16);
        }
        true
    }

    /// Counts the distances from the first start on, be it its own or this, and so that it reaches this last one.
    pub(crate) fn count_anew(&mut self, first: u64, last: u64) {
        let mut buffer = [Mapped::default(); LEAF_ENTRIES];
        let len = self.len();
        self.cut(0..len, &mut buffer);
        let held = &buffer[..len];
        let first = held.first().map_or(first, |entry| first.min(entry.lba.start.get()));
        let last = held.last().map_or(last, |entry| last.max(entry.lba.start.get()));
        self.base = granule_start(first);
        self.shift = shift_for(last - self.base);
        self.fill(0, held);
    }

    /// Counts distances more finely where that is possible now.
    pub(crate) fn refine(&mut self) {
        let (first, last) = (self.start(0), self.start(self.len() - 1));
        if shift_for(last - granule_start(first)) < self.shift {
            self.count_anew(first, last);
        }
    }

    /// The index nearest to `middle`, but neither end, where a granule begins; `None` when all are of one.
    pub(crate) fn border_near(&self, middle: usize) -> Option<usize> {
        let begins = |index: &usize| granule(self.start(index - 1)) != granule(self.start(*index));
        let above = (middle.max(1)..self.len()).find(begins);
        let below = (1..middle).rev().find(begins);
        match (below, above) {
            (Some(below), Some(above)) if middle - below < above - middle => Some(below),
            (below, above) => above.or(below),
        }
    }
}

/// The finest unit in which distances up to this many sectors can be counted, with as much room behind.
fn shift_for(span: u64) -> u8 {
    let bits = u64::BITS - (2 * span).leading_zeros();
    bits.saturating_sub(16).min(MAX_SHIFT) as u8
}

/// Leaves by number, kept in chunks so that growing moves nothing and wastes little.
#[derive(Default)]
pub(crate) struct Leaves {
    chunks: Vec<Box<[Leaf]>>,
    made: u32,
    free: Vec<u32>,
}

/// Leaves in a chunk.
const CHUNK: u32 = 256;

impl Leaves {
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Leaf {
        &self.chunks[(number / CHUNK) as usize][(number % CHUNK) as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Leaf {
        &mut self.chunks[(number / CHUNK) as usize][(number % CHUNK) as usize]
    }

    /// A leaf with no entries and no neighbours.
    pub(crate) fn add(&mut self, base: u64) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.get_mut(number) = Leaf::new(base);
            return number;
        }
        if self.made.is_multiple_of(CHUNK) {
            self.chunks.push(vec![Leaf::new(0); CHUNK as usize].into_boxed_slice());
        }
        let number = self.made;
        self.made += 1;
        *self.get_mut(number) = Leaf::new(base);
        number
    }

    /// Gives a leaf back, which nothing may name any more.
    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Memory taken.
    pub(crate) fn bytes(&self) -> u64 {
        let chunk_bytes = size_of::<Leaf>() * CHUNK as usize;
        (self.chunks.len() * chunk_bytes + self.free.capacity() * size_of::<u32>()) as u64
    }
}
