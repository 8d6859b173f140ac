//! Bands that have something in the cache, for the cleaning orders that look at bands and not at the journal.
//!
//! *Greedy*: next is the band of which most sectors lie in the cache, of those the first. *Random*: a band
//! draws a lot when it becomes dirty, and the highest lot is next; lots come from the seed and a counter, so a
//! drive has no randomness of its own.
//!
//! Both are the band of the highest *rank*, which a tree finds: a node has a bound, which no rank among its sixteen
//! children passes, and the first child that reaches it is on the way to the band. A rank that rises lifts the
//! bounds above it; one that falls leaves them, but for the highest of all when its band is cleaned, and a
//! search that meets a bound which no child reaches lowers it and goes on. What bands have is in pages that are taken
//! when a band of theirs becomes dirty.
//!
//! Who cleans by the age of writes never asks, and should pay little: changes are noted, and done in their order when
//! many are there or someone asks, so that memory is waited for once for all of them.
//!
//! Invariants: a band has a rank if and only if the map finds a sector of it in the cache; no rank or bound is
//! higher than the bound above it.
//! Source: the orders are those of DESIGN's table of random drives; Skylight's drives are FIFO.

use skylight_disk::{Sectors, lot};

use super::cleaning::CleaningOrder;
use crate::inner::prefetch;

#[derive(Clone, Copy, Debug)]
enum Rule {
    Greedy,
    Random { seed: u64 },
}

impl Rule {
    /// The rank of a band; 0 is none.
    #[inline]
    fn rank(self, standing: Standing) -> u64 {
        match self {
            _ if standing.sectors == 0 => 0,
            Self::Greedy => standing.sectors.into(),
            Self::Random { seed } => lot(seed, standing.lot.into()).max(1),
        }
    }
}

/// Children of a node.
const CHILDREN: usize = 16;
/// Bands in a page: two levels of the tree.
const PAGE: usize = CHILDREN * CHILDREN;

/// What a band has in the cache, and the number of its lot.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    sectors: u32,
    lot: u32,
}

/// The bands of a page, and the lowest nodes; aligned so that what a search looks at lies in few lines of memory.
#[derive(Clone, Debug)]
#[repr(align(64))]
struct Page {
    bands: [Standing; PAGE],
    nodes: [u64; CHILDREN],
}

/// What happened to a band in the cache.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// So many sectors more lie there.
    Added(u32),
    /// So many less.
    Removed(u32),
    /// None any more.
    Cleaned,
}

/// Changes that are done together, at most.
const NOTED: usize = 64;

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    rule: Rule,
    /// Changes of bands that are not done yet, in order.
    noted: Vec<(u64, Change)>,
    /// Pages of which no band was ever dirty are not there.
    pages: Vec<Option<Box<Page>>>,
    /// The nodes above the pages, a level at a time, from one for each page up to the root.
    levels: Vec<Vec<u64>>,
    /// How many lots were drawn.
    lots: u32,
    /// The band that was found to be next last.
    found: Option<u64>,
}

impl Dirty {
    /// An empty drive's of so many bands, for the orders that need it.
    pub fn new(order: CleaningOrder, bands: u64) -> Option<Self> {
        let rule = match order {
            CleaningOrder::Fifo | CleaningOrder::Lifo => return None,
            CleaningOrder::Greedy => Rule::Greedy,
            CleaningOrder::Random { seed } => Rule::Random { seed },
        };
        let pages = (bands as usize).div_ceil(PAGE).max(1);
        let mut levels = vec![vec![0; pages]];
        while let Some(below) = levels.last().map(Vec::len).filter(|&nodes| nodes > 1) {
            levels.push(vec![0; below.div_ceil(CHILDREN)]);
        }
        let noted = Vec::with_capacity(NOTED);
        Some(Self { rule, noted, pages: vec![None; pages], levels, lots: 0, found: None })
    }

    /// More of a band lies in the cache.
    #[inline]
    pub fn add(&mut self, band: u64, sectors: Sectors) {
        self.note(band, Change::Added(sectors.get() as u32));
    }

    /// Less of a band lies in the cache.
    pub fn remove(&mut self, band: u64, sectors: Sectors) {
        self.note(band, Change::Removed(sectors.get() as u32));
    }

    /// Nothing of a band lies in the cache any more.
    #[inline]
    pub fn clean(&mut self, band: u64) {
        self.note(band, Change::Cleaned);
    }

    #[inline]
    fn note(&mut self, band: u64, change: Change) {
        self.noted.push((band, change));
        if self.noted.len() == NOTED {
            self.do_noted();
        }
    }

    /// Does the changes that were noted.
    fn do_noted(&mut self) {
        for &(band, _) in &self.noted {
            self.prefetch(band);
        }
        for index in 0..self.noted.len() {
            let (band, change) = self.noted[index];
            match change {
                Change::Added(sectors) => self.do_add(band, sectors),
                Change::Removed(sectors) => self.standing(band).sectors -= sectors,
                Change::Cleaned => self.do_clean(band),
            }
        }
        self.noted.clear();
    }

    /// Has fetched into the processor's cache what a change of a band looks at: itself and its node.
    #[inline]
    fn prefetch(&self, band: u64) {
        if let Some(page) = &self.pages[band as usize / PAGE] {
            let band = band as usize % PAGE;
            prefetch(&page.nodes[band / CHILDREN], size_of::<u64>());
            prefetch(&page.bands[band], size_of::<Standing>());
        }
    }

    /// The number of the band that is next.
    pub fn next(&mut self) -> Option<u64> {
        self.do_noted();
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
            if let Some(band) = bands.iter().position(|&standing| self.rule.rank(standing) == highest) {
                self.found = Some(first + band as u64);
                return self.found;
            }
            self.lower(first);
        }
    }

    /// Lowers the bounds above a band as far as they fall.
    fn lower(&mut self, band: u64) {
        let Self { rule, pages, levels, .. } = self;
        let number = band as usize / PAGE;
        let Some(page) = &mut pages[number] else {
            return;
        };
        let node = band as usize % PAGE / CHILDREN;
        let ranks = page.bands[node * CHILDREN..][..CHILDREN].iter().map(|&standing| rule.rank(standing));
        if !replace(&mut page.nodes[node], ranks.fold(0, u64::max))
            || !replace(&mut levels[0][number], page.nodes.iter().copied().fold(0, u64::max))
        {
            return;
        }
        let mut at = number;
        for level in 1..levels.len() {
            let (below, above) = levels.split_at_mut(level);
            at /= CHILDREN;
            let children = below[level - 1][at * CHILDREN..].iter().take(CHILDREN);
            if !replace(&mut above[0][at], children.copied().fold(0, u64::max)) {
                return;
            }
        }
    }

    #[inline]
    fn do_add(&mut self, band: u64, sectors: u32) {
        let lots = self.lots;
        let standing = self.standing(band);
        let drawn = standing.sectors == 0;
        if drawn {
            standing.lot = lots;
        }
        standing.sectors += sectors;
        let standing = *standing;
        self.lots = lots.wrapping_add(drawn.into());
        if drawn || matches!(self.rule, Rule::Greedy) {
            self.lift(band, self.rule.rank(standing));
        }
    }

    #[inline]
    fn do_clean(&mut self, band: u64) {
        self.standing(band).sectors = 0;
        if self.found == Some(band) {
            // It was the highest, and what is beside it is at hand.
            self.lower(band);
        }
    }

    #[inline]
    fn page(&mut self, band: u64) -> &mut Page {
        self.pages[band as usize / PAGE].get_or_insert_with(|| {
            Box::new(Page { bands: [Standing::default(); PAGE], nodes: [0; CHILDREN] })
        })
    }

    #[inline]
    fn standing(&mut self, band: u64) -> &mut Standing {
        &mut self.page(band).bands[band as usize % PAGE]
    }

    /// No bound above a band is lower than its rank.
    #[inline]
    fn lift(&mut self, band: u64, rank: u64) {
        let node = &mut self.page(band).nodes[band as usize % PAGE / CHILDREN];
        if *node >= rank {
            return;
        }
        *node = rank;
        let mut at = band as usize / PAGE;
        for level in &mut self.levels {
            if level[at] >= rank {
                return;
            }
            level[at] = rank;
            at /= CHILDREN;
        }
    }
}

/// Replaces a bound; whether it was another.
#[inline]
fn replace(bound: &mut u64, by: u64) -> bool {
    std::mem::replace(bound, by) != by
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn new(order: CleaningOrder) -> Dirty {
        Dirty::new(order, 100).unwrap_or_else(|| panic!("{order:?} keeps bands"))
    }

    fn cleaned(order: CleaningOrder, writes: &[(u64, u64)]) -> Vec<u64> {
        let mut dirty = new(order);
        for &(number, sectors) in writes {
            dirty.add(number, Sectors(sectors));
        }
        std::iter::from_fn(|| {
            let next = dirty.next()?;
            dirty.clean(next);
            Some(next)
        })
        .collect()
    }

    #[test]
    fn greedy_takes_the_fullest_band_and_of_equal_ones_the_first() {
        let writes = [(10, 8), (40, 8), (30, 24), (20, 8), (40, 32), (30, 16)];
        assert_eq!(cleaned(CleaningOrder::Greedy, &writes), [30, 40, 10, 20]);
    }

    #[test]
    fn a_band_that_lost_sectors_falls_back() {
        let mut dirty = new(CleaningOrder::Greedy);
        dirty.add(1, Sectors(9));
        dirty.add(2, Sectors(8));
        dirty.remove(1, Sectors(2));
        assert_eq!(dirty.next(), Some(2));
        dirty.remove(2, Sectors(8));
        assert_eq!(dirty.next(), Some(1));
        dirty.remove(1, Sectors(7));
        assert_eq!(dirty.next(), None);
    }

    proptest! {
        /// Against a scan of all bands, in trees of one page to three levels above the pages; asked after some
        /// changes only, so that bounds are out of date.
        #[test]
        fn next_is_the_first_of_the_highest_rank(
            random in any::<bool>(),
            bands in prop_oneof![1u64..40, 200u64..600, 60_000u64..80_000],
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..4, any::<bool>()), 1..300),
        ) {
            let order = if random { CleaningOrder::Random { seed: 5 } } else { CleaningOrder::Greedy };
            let mut dirty = Dirty::new(order, bands).expect("both keep bands");
            let mut had: BTreeMap<u64, Standing> = BTreeMap::new();
            let mut lots = 0;
            for (index, more, asks) in changes {
                let band = index.index(bands as usize) as u64;
                let standing = had.entry(band).or_default();
                match more {
                    0 if standing.sectors > 0 => {
                        dirty.remove(band, Sectors(1));
                        standing.sectors -= 1;
                    }
                    0 | 1 => {
                        dirty.clean(band);
                        standing.sectors = 0;
                    }
                    _ => {
                        dirty.add(band, Sectors(more.into()));
                        if standing.sectors == 0 {
                            standing.lot = lots;
                            lots += 1;
                        }
                        standing.sectors += more;
                    }
                }
                if !asks {
                    continue;
                }
                let held = had.iter().filter(|(_, standing)| standing.sectors > 0);
                let first = held.max_by_key(|&(&band, &standing)| (dirty.rule.rank(standing), Reverse(band)));
                prop_assert_eq!(dirty.next(), first.map(|(&band, _)| band));
            }
        }
    }

    /// Over many seeds, each of five bands comes first as often as any other: 2,000 of 10,000, give or take
    /// four deviations of 40.
    #[test]
    fn a_random_order_has_no_favourite_and_follows_from_its_seed() {
        let writes: Vec<(u64, u64)> = (0..5).map(|band| (band, 1 + band)).collect();
        let mut first = [0u32; 5];
        for seed in 0..10_000 {
            let order = cleaned(CleaningOrder::Random { seed }, &writes);
            first[order[0] as usize] += 1;
            assert_eq!(order, cleaned(CleaningOrder::Random { seed }, &writes));
        }
        assert!(first.iter().all(|count| count.abs_diff(2_000) < 160), "{first:?}");
    }
}
