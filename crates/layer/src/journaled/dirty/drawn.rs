//! Dirty bands from which any may be drawn: a list of them, and where each stands in it.
//!
//! Draws come from the seed and a counter, so that a drive has no randomness of its own.
//!
//! Invariant: a band is in the list, once, if and only if sectors of it were added that were not taken away.

use skylight_disk::splitmix64;

use crate::inner::prefetch;

/// Bands in a page: pages are taken when a band of theirs becomes dirty.
const PAGE: usize = 256;

/// What a band has in the cache, and where it stands in the list.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    sectors: u32,
    place: u32,
}

/// Where draws come from.
#[derive(Clone, Debug)]
pub(super) struct Draws {
    seed: u64,
    /// How many there were.
    drawn: u64,
}

impl Draws {
    pub fn new(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `count`, each as likely as any other to within one in 2^32.
    fn below(&mut self, count: usize) -> usize {
        let drawn = splitmix64(self.seed, self.drawn);
        self.drawn += 1;
        ((u128::from(drawn) * count as u128) >> 64) as usize
    }
}

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    list: Vec<u32>,
    pages: Vec<Option<Box<[Standing; PAGE]>>>,
}

impl Drawn {
    /// None of so many bands is dirty.
    pub fn new(bands: u64) -> Self {
        Self { list: Vec::new(), pages: vec![None; (bands as usize).div_ceil(PAGE)] }
    }

    /// How many bands are dirty.
    pub fn dirty(&self) -> usize {
        self.list.len()
    }

    /// Has fetched into the processor's cache what a change of a band looks at.
    #[inline]
    pub fn prefetch(&self, band: u64) {
        if let Some(page) = &self.pages[band as usize / PAGE] {
            prefetch(&page[band as usize % PAGE], size_of::<Standing>());
        }
    }

    #[inline]
    pub fn add(&mut self, band: u64, sectors: u32) {
        let place = self.list.len() as u32;
        let standing = self.standing(band);
        let new = standing.sectors == 0;
        if new {
            standing.place = place;
        }
        standing.sectors += sectors;
        if new {
            self.list.push(band as u32);
        }
    }

    #[inline]
    pub fn remove(&mut self, band: u64, sectors: u32) {
        let standing = self.standing(band);
        standing.sectors -= sectors;
        if standing.sectors == 0 {
            let place = standing.place;
            self.strike(place);
        }
    }

    #[inline]
    pub fn clean(&mut self, band: u64) {
        let standing = self.standing(band);
        if standing.sectors > 0 {
            standing.sectors = 0;
            let place = standing.place;
            self.strike(place);
        }
    }

    /// Any band that is dirty.
    #[inline]
    pub fn next(&mut self, draws: &mut Draws) -> Option<u64> {
        let count = self.list.len();
        let drawn = self.list.get(draws.below(count))?;
        Some((*drawn).into())
    }

    /// Takes a band off the list; the last one takes its place.
    fn strike(&mut self, place: u32) {
        self.list.swap_remove(place as usize);
        if let Some(&moved) = self.list.get(place as usize) {
            self.standing(moved.into()).place = place;
        }
    }

    #[inline]
    fn standing(&mut self, band: u64) -> &mut Standing {
        let page = &mut self.pages[band as usize / PAGE];
        &mut page.get_or_insert_with(|| Box::new([Standing::default(); PAGE]))[band as usize % PAGE]
    }
}
