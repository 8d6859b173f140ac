//! Bands that have something in the cache, for the cleaning orders that look at bands and not at the journal.
//!
//! *Greedy*: next is the band of which most sectors lie in the cache, of those the first (`fullest`). *Random*: any
//! (`drawn`).
//!
//! They are counted only while someone asks. A drive that cleans by the age of its writes, as every journaled one
//! does whose places are short, never does and pays nothing; the first question counts what the exception map
//! holds. After more changes than bands are dirty without another one the count is dropped: it would have cost
//! more to keep than to make anew. Changes are noted, and done in their order when many are there or someone
//! asks, so that memory is waited for once for all of them.
//!
//! Invariant: a band is found if and only if the exception map finds a sector of it in the cache.
//! Source: the orders are those that random drives draw (`docs/random-drives.md`); Skylight's drives are FIFO.

mod drawn;
mod fullest;

use skylight_disk::Sectors;

use super::cleaning::CleaningOrder;
use drawn::{Drawn, Draws};
use fullest::Fullest;

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

/// The bands, as an order wants them.
#[derive(Clone, Debug)]
enum Count {
    Fullest(Fullest),
    Drawn(Drawn),
}

impl Count {
    fn change(&mut self, band: u64, change: Change) {
        match (self, change) {
            (Self::Fullest(bands), Change::Added(sectors)) => bands.add(band, sectors),
            (Self::Fullest(bands), Change::Removed(sectors)) => bands.remove(band, sectors),
            (Self::Fullest(bands), Change::Cleaned) => bands.clean(band),
            (Self::Drawn(bands), Change::Added(sectors)) => bands.add(band, sectors),
            (Self::Drawn(bands), Change::Removed(sectors)) => bands.remove(band, sectors),
            (Self::Drawn(bands), Change::Cleaned) => bands.clean(band),
        }
    }

    fn prefetch(&self, band: u64) {
        match self {
            Self::Fullest(bands) => bands.prefetch(band),
            Self::Drawn(bands) => bands.prefetch(band),
        }
    }

    /// How many bands are dirty.
    fn bands(&self) -> usize {
        match self {
            Self::Fullest(bands) => bands.dirty(),
            Self::Drawn(bands) => bands.dirty(),
        }
    }
}

/// Changes that are done together, at most.
const NOTED: usize = 64;
/// Changes without a question after which a count may be dropped: those of few bands are not worth a thought.
const PATIENCE: usize = 1024;

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    /// How many bands there are.
    bands: u64,
    /// For the random order.
    draws: Option<Draws>,
    count: Option<Count>,
    /// Changes of bands that are not done yet, in order.
    noted: Vec<(u64, Change)>,
    /// Changes after which the count is dropped if nobody asks.
    patience: usize,
}

impl Dirty {
    /// An empty drive's of so many bands, for the orders that need it.
    pub fn new(order: CleaningOrder, bands: u64) -> Option<Self> {
        let draws = match order {
            CleaningOrder::Fifo | CleaningOrder::Lifo => return None,
            CleaningOrder::Greedy => None,
            CleaningOrder::Random { seed } => Some(Draws::new(seed)),
        };
        Some(Self { bands, draws, count: None, noted: Vec::with_capacity(NOTED), patience: 0 })
    }

    /// More of a band lies in the cache.
    #[inline]
    pub fn add(&mut self, band: u64, sectors: Sectors) {
        self.note(band, Change::Added(sectors.get() as u32));
    }

    /// Less of a band lies in the cache.
    #[inline]
    pub fn remove(&mut self, band: u64, sectors: Sectors) {
        self.note(band, Change::Removed(sectors.get() as u32));
    }

    /// Nothing of a band lies in the cache any more.
    #[inline]
    pub fn clean(&mut self, band: u64) {
        self.note(band, Change::Cleaned);
    }

    /// Whether changes have to be told.
    #[inline]
    pub fn counts(&self) -> bool {
        self.count.is_some()
    }

    #[inline]
    fn note(&mut self, band: u64, change: Change) {
        if self.counts() {
            self.noted.push((band, change));
            if self.noted.len() == NOTED {
                self.many_noted();
            }
        }
    }

    /// Does what was noted, or drops the count that nobody asks for.
    fn many_noted(&mut self) {
        match self.patience.checked_sub(NOTED) {
            Some(left) => {
                self.patience = left;
                self.do_noted();
            }
            None => {
                self.count = None;
                self.noted.clear();
            }
        }
    }

    fn do_noted(&mut self) {
        if let Some(count) = &mut self.count {
            self.noted.iter().for_each(|&(band, _)| count.prefetch(band));
            self.noted.iter().for_each(|&(band, change)| count.change(band, change));
        }
        self.noted.clear();
    }

    /// The number of the band that is next. `held` says for each piece of the exception map of which band it
    /// is and how much; it is asked where the bands are not counted.
    pub fn next(&mut self, held: impl FnOnce(&mut dyn FnMut(u64, Sectors))) -> Option<u64> {
        self.do_noted();
        let Self { bands, draws, count, .. } = self;
        let count = count.get_or_insert_with(|| {
            let mut made = match draws {
                Some(_) => Count::Drawn(Drawn::new(*bands)),
                None => Count::Fullest(Fullest::new(*bands)),
            };
            held(&mut |band, sectors| made.change(band, Change::Added(sectors.get() as u32)));
            made
        });
        self.patience = PATIENCE + count.bands();
        match count {
            Count::Fullest(bands) => bands.next(),
            Count::Drawn(bands) => bands.next(draws.as_mut()?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn new(order: CleaningOrder) -> Dirty {
        Dirty::new(order, 100).unwrap_or_else(|| panic!("{order:?} looks at bands"))
    }

    /// The next band of what the map is said to hold.
    fn next_of(dirty: &mut Dirty, held: &BTreeMap<u64, u32>) -> Option<u64> {
        dirty.next(|count| held.iter().for_each(|(&band, &sectors)| count(band, Sectors(sectors.into()))))
    }

    fn cleaned(order: CleaningOrder, writes: &[(u64, u32)]) -> Vec<u64> {
        let (mut dirty, mut held) = (new(order), BTreeMap::new());
        for &(band, sectors) in writes {
            *held.entry(band).or_default() += sectors;
        }
        std::iter::from_fn(|| {
            let next = next_of(&mut dirty, &held)?;
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
        let held = BTreeMap::from([(1, 9), (2, 8)]);
        assert_eq!(next_of(&mut dirty, &held), Some(1));
        dirty.remove(1, Sectors(2));
        assert_eq!(next_of(&mut dirty, &held), Some(2));
        dirty.remove(2, Sectors(8));
        assert_eq!(next_of(&mut dirty, &held), Some(1));
        dirty.remove(1, Sectors(7));
        assert_eq!(next_of(&mut dirty, &held), None);
    }

    /// Nobody asks: nothing is counted, and the next question counts again.
    #[test]
    fn a_count_that_nobody_asks_for_is_dropped() {
        let mut dirty = new(CleaningOrder::Greedy);
        assert!(!dirty.counts());
        let mut held = BTreeMap::from([(1, 9)]);
        assert_eq!(next_of(&mut dirty, &held), Some(1));
        assert!(dirty.counts());
        for _ in 0..2 * PATIENCE {
            dirty.add(2, Sectors(1));
        }
        assert!(!dirty.counts());
        held.insert(2, 2 * PATIENCE as u32);
        assert_eq!(next_of(&mut dirty, &held), Some(2));
    }

    proptest! {
        /// Against a plain map, in trees of one page to three levels above the pages; asked after some changes only,
        /// so that bounds are out of date, and dropped now and then.
        #[test]
        fn next_is_what_the_order_says(
            random in any::<bool>(),
            bands in prop_oneof![1u64..40, 200u64..600, 60_000u64..80_000],
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..4, 0u8..20), 1..300),
        ) {
            let order = if random { CleaningOrder::Random { seed: 5 } } else { CleaningOrder::Greedy };
            let mut dirty = Dirty::new(order, bands).expect("both look at bands");
            let mut held: BTreeMap<u64, u32> = BTreeMap::new();
            for (index, more, then) in changes {
                let band = index.index(bands as usize) as u64;
                let sectors = held.entry(band).or_default();
                match more {
                    0 if *sectors > 0 => {
                        dirty.remove(band, Sectors(1));
                        *sectors -= 1;
                    }
                    0 | 1 => {
                        dirty.clean(band);
                        *sectors = 0;
                    }
                    _ => {
                        dirty.add(band, Sectors(more.into()));
                        *sectors += more;
                    }
                }
                held.retain(|_, sectors| *sectors > 0);
                if then == 0 {
                    dirty.patience = 0;
                }
                if then < 10 {
                    continue;
                }
                let next = next_of(&mut dirty, &held);
                if random {
                    prop_assert!(next.map_or(held.is_empty(), |band| held.contains_key(&band)));
                } else {
                    let first = held.iter().max_by_key(|&(&band, &sectors)| (sectors, Reverse(band)));
                    prop_assert_eq!(next, first.map(|(&band, _)| band));
                }
            }
        }
    }

    /// Over many seeds, each of five bands comes first as often as any other: 2,000 of 10,000, give or take
    /// four deviations of 40.
    #[test]
    fn a_random_order_has_no_favourite_and_follows_from_its_seed() {
        let writes: Vec<(u64, u32)> = (0..5).map(|band| (band, 1 + band as u32)).collect();
        let mut first = [0u32; 5];
        for seed in 0..10_000 {
            let order = cleaned(CleaningOrder::Random { seed }, &writes);
            first[order[0] as usize] += 1;
            assert_eq!(order, cleaned(CleaningOrder::Random { seed }, &writes));
        }
        assert!(first.iter().all(|count| count.abs_diff(2_000) < 160), "{first:?}");
    }
}
