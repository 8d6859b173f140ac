//! Chooses a random dirty band: a list of the dirty bands, and the position of each in it.
//!
//! Random numbers come from the seed and a counter, so that the layer is deterministic.
//!
//! Invariant: a band is in the list, exactly once, if and only if its count of sectors is not zero.

use skylight_disk::splitmix64;

use crate::extent_map::prefetch;

/// Bands in a page; a page is allocated when one of its bands becomes dirty.
const PAGE: usize = 256;

/// A band's sectors in the cache, and its position in the list.
#[derive(Clone, Copy, Debug, Default)]
struct BandEntry {
    sectors: u32,
    position: u32,
}

/// A sequence of random numbers.
#[derive(Clone, Debug)]
pub(super) struct RandomNumbers {
    seed: u64,
    /// How many were drawn.
    drawn: u64,
}

impl RandomNumbers {
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `count`, uniform to within one in 2^32.
    fn below(&mut self, count: usize) -> usize {
        let drawn = splitmix64(self.seed, self.drawn);
        self.drawn += 1;
        ((u128::from(drawn) * count as u128) >> 64) as usize
    }
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct RandomChoice {
    list: Vec<u32>,
    pages: Vec<Option<Box<[BandEntry; PAGE]>>>,
}

impl RandomChoice {
    /// No dirty bands among `bands`.
    pub fn new(bands: u64) -> Self {
        Self { list: Vec::new(), pages: vec![None; (bands as usize).div_ceil(PAGE)] }
    }

    /// The number of dirty bands.
    pub fn dirty(&self) -> usize {
        self.list.len()
    }

    /// Prefetches the memory that a change of a band accesses.
    #[inline]
    pub fn prefetch(&self, band: u64) {
        if let Some(page) = &self.pages[band as usize / PAGE] {
            prefetch(&page[band as usize % PAGE], size_of::<BandEntry>());
        }
    }

    #[inline]
    pub fn add(&mut self, band: u64, sectors: u32) {
        let position = self.list.len() as u32;
        let entry = self.entry(band);
        let new = entry.sectors == 0;
        if new {
            entry.position = position;
        }
        entry.sectors += sectors;
        if new {
            self.list.push(band as u32);
        }
    }

    #[inline]
    pub fn remove(&mut self, band: u64, sectors: u32) {
        let entry = self.entry(band);
        entry.sectors -= sectors;
        if entry.sectors == 0 {
            let position = entry.position;
            self.remove_from_list(position);
        }
    }

    #[inline]
    pub fn clean(&mut self, band: u64) {
        let entry = self.entry(band);
        if entry.sectors > 0 {
            entry.sectors = 0;
            let position = entry.position;
            self.remove_from_list(position);
        }
    }

    /// Chooses a random dirty band.
    #[inline]
    pub fn next(&mut self, random: &mut RandomNumbers) -> Option<u64> {
        let count = self.list.len();
        let drawn = self.list.get(random.below(count))?;
        Some((*drawn).into())
    }

    /// Removes a band from the list; the last one moves to its position.
    fn remove_from_list(&mut self, position: u32) {
        self.list.swap_remove(position as usize);
        if let Some(&moved) = self.list.get(position as usize) {
            self.entry(moved.into()).position = position;
        }
    }

    #[inline]
    fn entry(&mut self, band: u64) -> &mut BandEntry {
        let page = &mut self.pages[band as usize / PAGE];
        &mut page.get_or_insert_with(|| Box::new([BandEntry::default(); PAGE]))[band as usize % PAGE]
    }
}
