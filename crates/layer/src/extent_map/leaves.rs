//! A leaf of the extent map: up to [`LEAF_ENTRIES`] extents in 11 bytes each.
//!
//! The data for a search shares few cache lines: for each extent, in the order of their starts, its distance
//! from the leaf's base as a 16-bit number, so that SIMD instructions compare many at once, and the index of
//! the *slot* with the rest of the extent. Slots are in no order, so an insertion moves three bytes of each
//! later extent and writes one slot. Distances are in a unit, the finest in which the leaf can represent all
//! its starts; the slot contains the remainder of the start.
//!
//! Invariants: starts increase; extents do not overlap; the leaf can represent every start; a slot occurs in
//! the order exactly once or is free; no extent is longer than `longest`.

use std::ops::Range;

use skylight_disk::{Lba, LbaExtent, Pba, Sectors};

use super::inner_nodes::{granule, granule_start, prefetch};

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
/// The maximum length of an entry; longer extents take several entries.
pub(crate) const ENTRY_MAX_SECTORS: u64 = u16::MAX as u64;
/// Starts are less than this number of sectors from the base, in the coarsest unit.
const MAX_SPAN: u64 = UNITS << MAX_SHIFT;
/// Distances below this are distinct from that of an unused entry.
const UNITS: u64 = u16::MAX as u64;
/// Bits of the remainder of a start in its slot.
const MAX_SHIFT: u32 = 8;
/// The position of these bits in the slot.
const INTO_SHIFT: u32 = ADDRESS_BITS + 16;
/// The distance of an unused entry: above all others.
const UNUSED: i16 = i16::MAX;
/// Bits of a media address: up to 2^40 sectors, 562 TB. The builder of a drive checks this limit.
pub(crate) const ADDRESS_BITS: u32 = 40;
/// The number of no leaf.
pub(crate) const NO_LEAF: u32 = u32::MAX;
/// Bytes at the start of a leaf that a search and most insertions read.
const SEARCHED_BYTES: usize = std::mem::offset_of!(Leaf, slots) + LEAF_ENTRIES;

/// A distance below [`UNITS`] as a signed number in the same order, since signed SIMD comparisons are faster.
#[inline]
fn signed(distance: u64) -> i16 {
    (distance as u16 ^ 0x8000).cast_signed()
}

/// See the module documentation.
#[derive(Clone)]
#[repr(C)]
pub(crate) struct Leaf {
    /// The first sector of a granule; not after the first start.
    base: u64,
    /// Mask of the unused slots.
    free: u64,
    pub(crate) previous: u32,
    pub(crate) next: u32,
    /// An upper bound on the length of the extents, in sectors.
    longest: u16,
    len: u8,
    /// Log2 of the unit of distances in sectors.
    shift: u8,
    distances: [i16; LEAF_ENTRIES],
    /// Indices of slots, in the order of the starts.
    order: [u8; LEAF_ENTRIES],
    /// From the lowest bit: address, length, and the remainder of the start.
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

    /// Prefetches the data that a search and most insertions read.
    #[inline]
    pub(crate) fn prefetch_searched(&self) {
        prefetch(self, SEARCHED_BYTES);
    }

    /// Prefetches the slots that an access to `start` is likely to need: that of the entry at or before it,
    /// and that of the next insertion.
    #[inline]
    pub(crate) fn prefetch_slots(&self, start: u64) {
        let before = self.unit_rank(self.split(start.max(self.base)).0).saturating_sub(1);
        for slot in [u32::from(self.order[before]), self.free.trailing_zeros()] {
            prefetch(&self.slots[slot as usize % LEAF_ENTRIES], size_of::<u64>());
        }
    }

    /// Prefetches the whole leaf.
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

    /// Whether the leaf can take enough entries of a full neighbour: moving few is not worthwhile, since it
    /// costs more than an insertion and the space is soon used up.
    pub(crate) fn has_space_to_share(&self) -> bool {
        self.len > 0 && self.len() + LEAF_ENTRIES / 4 <= LEAF_ENTRIES
    }

    /// Whether the leaf can represent a start as a distance from the base.
    #[inline]
    pub(crate) fn can_represent(&self, start: u64) -> bool {
        start.wrapping_sub(self.base) >> self.shift < UNITS
    }

    /// The distance and the remainder of a start that the leaf can represent.
    #[inline]
    fn split(&self, start: u64) -> (i16, u64) {
        let offset = start - self.base;
        (signed(offset >> self.shift), offset & ((1 << self.shift) - 1))
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

    /// Replaces an entry by one that preserves the order.
    pub(crate) fn put(&mut self, index: usize, entry: Mapped) {
        debug_assert!(entry.pba.get() >> ADDRESS_BITS == 0, "an address has {ADDRESS_BITS} bits");
        let (distance, into) = self.split(entry.lba.start.get());
        let slot = usize::from(self.order[index]) % LEAF_ENTRIES;
        self.distances[index] = distance;
        self.slots[slot] = entry.pba.get() | entry.lba.len.get() << ADDRESS_BITS | into << INTO_SHIFT;
        self.longest = self.longest.max(entry.lba.len.get() as u16);
    }

    /// The number of entries whose distance is at most `distance`. Unused entries are above all others, so
    /// the whole array is compared without branches.
    #[inline]
    fn unit_rank(&self, distance: i16) -> usize {
        self.distances.iter().map(|&other| u16::from(other <= distance)).sum::<u16>().into()
    }

    /// The number of entries that start at or before `at`.
    #[inline]
    pub(crate) fn rank(&self, at: u64) -> usize {
        if at < self.base {
            return 0;
        }
        if !self.can_represent(at) {
            return self.len();
        }
        let (distance, into) = self.split(at);
        let mut rank = self.unit_rank(distance);
        while rank > 0 && self.distances[rank - 1] == distance && self.slot(rank - 1) >> INTO_SHIFT > into {
            rank -= 1;
        }
        rank
    }

    /// The index for an extent between two entries of this leaf if, judging by distances alone, it neither
    /// overlaps nor adjoins them. `None` also if the leaf is full.
    #[inline]
    pub(crate) fn clear_index(&self, extent: LbaExtent) -> Option<usize> {
        if self.is_full() || !self.can_represent(extent.start.get()) {
            return None;
        }
        let offset = extent.start.get() - self.base;
        let rank = self.unit_rank(signed(offset >> self.shift));
        if rank == 0 || rank == self.len() {
            return None;
        }
        let before = ((self.distance_at(rank - 1) + 1) << self.shift) - 1 + u64::from(self.longest);
        let clear = before < offset && offset + extent.len.get() < self.distance_at(rank) << self.shift;
        clear.then_some(rank)
    }

    /// Inserts an entry at `index`.
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

    /// Moves entries at the start or the end of the leaf to the start of `buffer`.
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

    /// Inserts entries at `index`; the leaf has space for them.
    pub(crate) fn splice(&mut self, index: usize, entries: &[Mapped]) {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return;
        };
        self.extend_range(first.lba.start.get(), last.lba.start.get());
        self.fill(index, entries);
    }

    /// Inserts entries that the leaf can represent at `index`.
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

    /// Whether the leaf can represent starts from `first` to `last` and its own, in some unit.
    pub(crate) fn can_extend_to(&self, first: u64, last: u64) -> bool {
        match self.len() {
            0 => true,
            len => self.start(len - 1).max(last) - granule_start(self.start(0).min(first)) < MAX_SPAN,
        }
    }

    /// Changes base and unit so that the leaf can represent starts from `first` to `last`; see
    /// [`Leaf::can_extend_to`].
    pub(crate) fn extend_range(&mut self, first: u64, last: u64) {
        if self.len() == 0 {
            self.base = granule_start(first);
            self.shift = shift_for(last - self.base);
        } else if first < self.base || !self.can_represent(last) {
            let own_last = self.start(self.len() - 1);
            if !(last <= own_last && self.lower_base(granule_start(first))) {
                self.rebase(first, last);
            }
        }
    }

    /// Lowers the base if all distances remain valid in the same unit. Returns whether it did.
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

    /// Chooses base and unit anew for its entries and starts from `first` to `last`.
    pub(crate) fn rebase(&mut self, first: u64, last: u64) {
        let mut buffer = [Mapped::default(); LEAF_ENTRIES];
        let len = self.len();
        self.cut(0..len, &mut buffer);
        let entries = &buffer[..len];
        let first = entries.first().map_or(first, |entry| first.min(entry.lba.start.get()));
        let last = entries.last().map_or(last, |entry| last.max(entry.lba.start.get()));
        self.base = granule_start(first);
        self.shift = shift_for(last - self.base);
        self.fill(0, entries);
    }

    /// Chooses a finer unit if possible.
    pub(crate) fn refine(&mut self) {
        let (first, last) = (self.start(0), self.start(self.len() - 1));
        if shift_for(last - granule_start(first)) < self.shift {
            self.rebase(first, last);
        }
    }

    /// The index nearest to `middle`, except 0, at which a new granule starts; `None` if all entries are in
    /// one.
    pub(crate) fn border_near(&self, middle: usize) -> Option<usize> {
        let starts_granule = |index: &usize| granule(self.start(index - 1)) != granule(self.start(*index));
        let above = (middle.max(1)..self.len()).find(starts_granule);
        let below = (1..middle).rev().find(starts_granule);
        match (below, above) {
            (Some(below), Some(above)) if middle - below < above - middle => Some(below),
            (below, above) => above.or(below),
        }
    }
}

/// Log2 of the finest unit in which distances up to twice `span` can be represented.
fn shift_for(span: u64) -> u8 {
    let bits = u64::BITS - (2 * span).leading_zeros();
    bits.saturating_sub(16).min(MAX_SHIFT) as u8
}

/// Leaves by number, in chunks, so that growth copies nothing and wastes little memory.
#[derive(Default)]
pub(crate) struct Leaves {
    chunks: Vec<Box<Chunk>>,
    allocated: u32,
    free: Vec<u32>,
}

/// Leaves in a chunk.
const CHUNK: u32 = 256;

/// Of a fixed length, so that a look-up has one bound to check.
type Chunk = [Leaf; CHUNK as usize];

impl Leaves {
    #[inline]
    pub(crate) fn get(&self, number: u32) -> &Leaf {
        &self.chunks[(number / CHUNK) as usize][(number % CHUNK) as usize]
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, number: u32) -> &mut Leaf {
        &mut self.chunks[(number / CHUNK) as usize][(number % CHUNK) as usize]
    }

    /// Adds a leaf without entries or neighbours.
    pub(crate) fn add(&mut self, base: u64) -> u32 {
        if let Some(number) = self.free.pop() {
            *self.get_mut(number) = Leaf::new(base);
            return number;
        }
        if self.allocated.is_multiple_of(CHUNK) {
            // Through a slice, because an array would be built on the stack.
            let chunk: Result<Box<Chunk>, _> =
                vec![Leaf::new(0); CHUNK as usize].into_boxed_slice().try_into();
            self.chunks.extend(chunk);
        }
        let number = self.allocated;
        self.allocated += 1;
        *self.get_mut(number) = Leaf::new(base);
        number
    }

    /// Frees a leaf to which nothing refers any more.
    pub(crate) fn free(&mut self, number: u32) {
        self.free.push(number);
    }

    /// Allocated memory.
    pub(crate) fn bytes(&self) -> u64 {
        let chunk_bytes = size_of::<Leaf>() * CHUNK as usize;
        (self.chunks.len() * chunk_bytes + self.free.capacity() * size_of::<u32>()) as u64
    }
}
