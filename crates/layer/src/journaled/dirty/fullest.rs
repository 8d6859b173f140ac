//! Dirty bands of which the fullest is wanted, of equal ones the first.
//!
//! A tree finds it: a node has a bound, which none of the sectors that its sixteen children have in the cache
//! passes, and the first child that reaches it is on the way to the band. A band that gets more lifts the bounds above
//! it; one that gets less leaves them, but for the highest of all when its band is cleaned, and a search that
//! meets a bound which no child reaches lowers it and goes on. What bands have is in pages that are taken when a band
//! of theirs becomes dirty.
//!
//! Invariant: no band has more sectors than the bound above it, and no bound is higher than the one above it.

use crate::inner::prefetch;

/// Children of a node.
const CHILDREN: usize = 16;
/// Bands in a page: two levels of the tree.
const PAGE: usize = CHILDREN * CHILDREN;

/// The sectors of the bands of a page, and the lowest nodes; a node's children lie in one line of memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Page {
    bands: [u32; PAGE],
    nodes: [u32; CHILDREN],
}

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Fullest {
    /// Pages of which no band was ever dirty are not there.
    pages: Vec<Option<Box<Page>>>,
    /// The nodes above the pages, a level at a time, from one for each page up to the root.
    levels: Vec<Vec<u32>>,
    /// Bands that have something.
    dirty: usize,
    /// The band that was found to be next last.
    found: Option<u64>,
}

impl Fullest {
    /// None of so many bands is dirty.
    pub fn new(bands: u64) -> Self {
        let pages = (bands as usize).div_ceil(PAGE).max(1);
        let mut levels = vec![vec![0; pages]];
        while let Some(below) = levels.last().map(Vec::len).filter(|&nodes| nodes > 1) {
            levels.push(vec![0; below.div_ceil(CHILDREN)]);
        }
        Self { pages: vec![None; pages], levels, dirty: 0, found: None }
    }

    /// How many bands are dirty.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// Has fetched into the processor's cache what a change of a band looks at: itself and its node.
    #[inline]
    pub fn prefetch(&self, band: u64) {
        if let Some(page) = &self.pages[band as usize / PAGE] {
            let band = band as usize % PAGE;
            prefetch(&page.nodes[band / CHILDREN], size_of::<u32>());
            prefetch(&page.bands[band], size_of::<u32>());
        }
    }

    #[inline]
    pub fn add(&mut self, band: u64, more: u32) {
        let sectors = self.sectors(band);
        let new = *sectors == 0;
        *sectors += more;
        let sectors = *sectors;
        self.dirty += usize::from(new);
        self.lift(band, sectors);
    }

    #[inline]
    pub fn remove(&mut self, band: u64, less: u32) {
        let sectors = self.sectors(band);
        *sectors -= less;
        let last = *sectors == 0 && less > 0;
        self.dirty -= usize::from(last);
    }

    #[inline]
    pub fn clean(&mut self, band: u64) {
        let had = std::mem::take(self.sectors(band));
        self.dirty -= usize::from(had > 0);
        if self.found == Some(band) {
            // It was the highest, and what is beside it is at hand.
            self.lower(band);
        }
    }

    /// The fullest band.
    pub fn next(&mut self) -> Option<u64> {
        loop {
            let highest = *self.levels.last()?.first().filter(|&&bound| bound > 0)?;
            let mut at = 0;
            for level in self.levels.iter().rev().skip(1) {
                // Bounds of inner nodes are lowered together with those below them.
                at = at * CHILDREN + level[at * CHILDREN..].iter().position(|&bound| bound == highest)?;
            }
            let page = self.pages[at].as_ref()?;
            let node = page.nodes.iter().position(|&bound| bound == highest)?;
            let bands = &page.bands[node * CHILDREN..][..CHILDREN];
            let first = (at * PAGE + node * CHILDREN) as u64;
            if let Some(band) = bands.iter().position(|&sectors| sectors == highest) {
                self.found = Some(first + band as u64);
                return self.found;
            }
            self.lower(first);
        }
    }

    /// Lowers the bounds above a band as far as they fall.
    fn lower(&mut self, band: u64) {
        let Self { pages, levels, .. } = self;
        let number = band as usize / PAGE;
        let Some(page) = &mut pages[number] else {
            return;
        };
        let node = band as usize % PAGE / CHILDREN;
        let bands = &page.bands[node * CHILDREN..][..CHILDREN];
        if !replace(&mut page.nodes[node], highest(bands))
            || !replace(&mut levels[0][number], highest(&page.nodes))
        {
            return;
        }
        let mut at = number;
        for level in 1..levels.len() {
            let (below, above) = levels.split_at_mut(level);
            at /= CHILDREN;
            let children = &below[level - 1][at * CHILDREN..];
            if !replace(&mut above[0][at], highest(&children[..children.len().min(CHILDREN)])) {
                return;
            }
        }
    }

    #[inline]
    fn page(&mut self, band: u64) -> &mut Page {
        let page = &mut self.pages[band as usize / PAGE];
        page.get_or_insert_with(|| Box::new(Page { bands: [0; PAGE], nodes: [0; CHILDREN] }))
    }

    #[inline]
    fn sectors(&mut self, band: u64) -> &mut u32 {
        &mut self.page(band).bands[band as usize % PAGE]
    }

    /// No bound above a band is lower than what it has.
    #[inline]
    fn lift(&mut self, band: u64, sectors: u32) {
        let node = &mut self.page(band).nodes[band as usize % PAGE / CHILDREN];
        if *node >= sectors {
            return;
        }
        *node = sectors;
        let mut at = band as usize / PAGE;
        for level in &mut self.levels {
            if level[at] >= sectors {
                return;
            }
            level[at] = sectors;
            at /= CHILDREN;
        }
    }
}

#[inline]
fn highest(of: &[u32]) -> u32 {
    of.iter().copied().fold(0, u32::max)
}

/// Replaces a bound; whether it was another.
#[inline]
fn replace(bound: &mut u32, by: u32) -> bool {
    std::mem::replace(bound, by) != by
}
