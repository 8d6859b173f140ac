//! Chooses the fullest dirty band, of equal ones the first.
//!
//! A tree of upper bounds: a node has sixteen children, and its bound is at least the largest of theirs. The
//! search goes to the first child that reaches the bound. Adding sectors raises the bounds above the band.
//! Removing sectors leaves them too high, except when the chosen band is cleaned; a search that finds a bound
//! that no child reaches lowers it and starts again. The counts of bands are in pages, which are allocated
//! when one of their bands becomes dirty.
//!
//! Invariant: no band has more sectors than the bound above it, and no bound exceeds the one above it.

use crate::extent_map::prefetch;

/// Children of a node.
const CHILDREN: usize = 16;
/// Bands in a page: two levels of the tree.
const PAGE: usize = CHILDREN * CHILDREN;

/// The sectors of the bands of a page, and the lowest nodes; the children of a node share a cache line.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Page {
    bands: [u32; PAGE],
    nodes: [u32; CHILDREN],
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Fullest {
    /// `None` for a page whose bands were never dirty.
    pages: Vec<Option<Box<Page>>>,
    /// The nodes above the pages, level by level, from one for each page up to the root.
    levels: Vec<Vec<u32>>,
    /// The number of dirty bands.
    dirty: usize,
    /// The band that was chosen last.
    chosen: Option<u64>,
}

impl Fullest {
    /// No dirty bands among `bands`.
    pub fn new(bands: u64) -> Self {
        let pages = (bands as usize).div_ceil(PAGE).max(1);
        let mut levels = vec![vec![0; pages]];
        while let Some(below) = levels.last().map(Vec::len).filter(|&nodes| nodes > 1) {
            levels.push(vec![0; below.div_ceil(CHILDREN)]);
        }
        Self { pages: vec![None; pages], levels, dirty: 0, chosen: None }
    }

    /// The number of dirty bands.
    pub fn dirty(&self) -> usize {
        self.dirty
    }

    /// Prefetches the memory that a change of a band accesses: its count and its node.
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
        self.raise(band, sectors);
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
        if self.chosen == Some(band) {
            // It had the highest bound, and its siblings are in the processor's cache.
            self.lower(band);
        }
    }

    /// Chooses the fullest band.
    pub fn next(&mut self) -> Option<u64> {
        loop {
            let highest = *self.levels.last()?.first().filter(|&&bound| bound > 0)?;
            let mut at = 0;
            for level in self.levels.iter().rev().skip(1) {
                // Inner nodes are lowered together with their children, so a child reaches the bound.
                at = at * CHILDREN + level[at * CHILDREN..].iter().position(|&bound| bound == highest)?;
            }
            let page = self.pages[at].as_ref()?;
            let node = page.nodes.iter().position(|&bound| bound == highest)?;
            let bands = &page.bands[node * CHILDREN..][..CHILDREN];
            let first = (at * PAGE + node * CHILDREN) as u64;
            if let Some(band) = bands.iter().position(|&sectors| sectors == highest) {
                self.chosen = Some(first + band as u64);
                return self.chosen;
            }
            self.lower(first);
        }
    }

    /// Lowers the bounds above a band to the maxima of their children.
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

    /// Raises the bounds above a band to at least `sectors`.
    #[inline]
    fn raise(&mut self, band: u64, sectors: u32) {
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

/// Replaces a bound. Returns whether it changed.
#[inline]
fn replace(bound: &mut u32, by: u32) -> bool {
    std::mem::replace(bound, by) != by
}
