//! A leaf of the extent map: up to [`LEAF_ENTRIES`] extents in 11 bytes each.
//!
//! Starts are kept as 31-bit distances from the leaf's base, lengths in 16 and addresses in 40 bits, each in
//! a column of its own so that a search reads little memory and the compiler can compare many at once.
//!
//! Invariants: starts rise; extents do not overlap; every start lies within 2^31 sectors of the base.

use skylight_disk::{Lba, LbaExtent, Pba, Sectors};

use crate::extent_map::Mapped;
use crate::inner::granule_start;

/// Extents in a leaf.
pub(crate) const LEAF_ENTRIES: usize = 64;
/// The longest extent of one entry; longer ones take several.
pub(crate) const ENTRY_MAX_SECTORS: u64 = u16::MAX as u64;
/// Starts reach less than this far from the base: signed numbers, since processors compare those faster.
pub(crate) const REACH: u64 = UNUSED as u64;
/// The start of an unused entry: past every other.
const UNUSED: i32 = i32::MAX;
/// Bits of an address: media of up to 2^40 sectors, 562 TB. Builders of layers keep them below.
pub(crate) const ADDRESS_BITS: u32 = 40;
/// No leaf.
pub(crate) const NO_LEAF: u32 = u32::MAX;

/// See the module page.
#[derive(Clone)]
pub(crate) struct Leaf {
    base: u64,
    pub(crate) previous: u32,
    pub(crate) next: u32,
    len: u16,
    starts: [i32; LEAF_ENTRIES],
    addresses_low: [u32; LEAF_ENTRIES],
    lengths: [u16; LEAF_ENTRIES],
    addresses_high: [u8; LEAF_ENTRIES],
}

impl Leaf {
    pub(crate) fn new(base: u64) -> Self {
        Self {
            base,
            previous: NO_LEAF,
            next: NO_LEAF,
            len: 0,
            starts: [UNUSED; LEAF_ENTRIES],
            addresses_low: [0; LEAF_ENTRIES],
            lengths: [0; LEAF_ENTRIES],
            addresses_high: [0; LEAF_ENTRIES],
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len.into()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.len() == LEAF_ENTRIES
    }

    /// Whether it could take entries of a full neighbour, and enough of them to be worth it.
    pub(crate) fn has_room_to_share(&self) -> bool {
        self.len > 0 && self.len() + LEAF_ENTRIES / 8 <= LEAF_ENTRIES
    }

    /// Whether a start can be kept as a distance from the base.
    #[inline]
    pub(crate) fn reaches(&self, start: u64) -> bool {
        start >= self.base && start - self.base < REACH
    }

    #[inline]
    pub(crate) fn get(&self, index: usize) -> Mapped {
        let lba = Lba(self.base + self.starts[index] as u64);
        let pba = u64::from(self.addresses_high[index]) << 32 | u64::from(self.addresses_low[index]);
        Mapped { lba: LbaExtent::new(lba, Sectors(self.lengths[index].into())), pba: Pba(pba) }
    }

    /// Replaces an entry by one that keeps the order.
    pub(crate) fn put(&mut self, index: usize, entry: Mapped) {
        debug_assert!(entry.pba.get() >> ADDRESS_BITS == 0, "an address has {ADDRESS_BITS} bits");
        self.starts[index] = (entry.lba.start.get() - self.base) as i32;
        self.lengths[index] = entry.lba.len.get() as u16;
        self.addresses_low[index] = entry.pba.get() as u32;
        self.addresses_high[index] = (entry.pba.get() >> 32) as u8;
    }

    /// How many entries start at or before `at`: unused starts are the largest number, so the whole column
    /// is compared without a branch.
    #[inline]
    pub(crate) fn rank(&self, at: u64) -> usize {
        if at < self.base {
            return 0;
        }
        let distance = (at - self.base).min(REACH - 1) as i32;
        self.starts.iter().map(|&start| u32::from(start <= distance)).sum::<u32>() as usize
    }

    /// Puts an entry before the one at `index`.
    #[inline]
    pub(crate) fn insert(&mut self, index: usize, entry: Mapped) {
        let len = self.len();
        self.starts.copy_within(index..len, index + 1);
        self.lengths.copy_within(index..len, index + 1);
        self.addresses_low.copy_within(index..len, index + 1);
        self.addresses_high.copy_within(index..len, index + 1);
        self.len += 1;
        self.put(index, entry);
    }

    pub(crate) fn remove(&mut self, index: usize) {
        let len = self.len();
        self.starts.copy_within(index + 1..len, index);
        self.lengths.copy_within(index + 1..len, index);
        self.addresses_low.copy_within(index + 1..len, index);
        self.addresses_high.copy_within(index + 1..len, index);
        self.len -= 1;
        self.starts[len - 1] = UNUSED;
    }

    /// Whether extents from the first to the last of these starts fit one leaf's distances.
    pub(crate) fn spans(entries: &[Mapped]) -> bool {
        let (Some(first), Some(last)) = (entries.first(), entries.last()) else {
            return true;
        };
        last.lba.start.get() - granule_start(first.lba.start.get()) < REACH
    }

    /// Holds just these entries, with the start of the first one's granule as the new base.
    pub(crate) fn refill(&mut self, entries: &[Mapped]) {
        let base = entries.first().map_or(0, |e| granule_start(e.lba.start.get()));
        self.refill_from(base, entries);
    }

    /// Holds just these entries, with a base at or below the first start.
    pub(crate) fn refill_from(&mut self, base: u64, entries: &[Mapped]) {
        self.base = base;
        self.len = entries.len() as u16;
        self.starts[entries.len()..].fill(UNUSED);
        for (index, &entry) in entries.iter().enumerate() {
            self.put(index, entry);
        }
    }

    /// Copies the entries to the front of `buffer`; returns how many.
    pub(crate) fn copy_to(&self, buffer: &mut [Mapped]) -> usize {
        for (index, slot) in buffer.iter_mut().enumerate().take(self.len()) {
            *slot = self.get(index);
        }
        self.len()
    }
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
