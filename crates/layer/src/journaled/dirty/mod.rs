//! Dirty bands, for the cleaning orders that choose by band and not by the age of writes.
//!
//! *Greedy* chooses the band with the most sectors in the cache, of equal ones the first (`fullest`). *Random*
//! chooses any (`random_choice`).
//!
//! Bands are counted only while they are chosen from. A drive that cleans in FIFO order, as every journaled
//! one does while slots are short, pays nothing. The first choice counts the sectors in the exception map.
//! After more changes than there are dirty bands without another choice, the counts are dropped: keeping them
//! would have cost more than counting again. Changes are collected and applied in order, once there are
//! enough of them or a band is chosen, so that their memory accesses overlap.
//!
//! Invariant: a band is a candidate if and only if the exception map has a sector of it in the cache.
//! Source: the orders are those of random drives (`docs/random-drives.md`); Skylight's drives are FIFO.

mod fullest;
mod random_choice;

use skylight_disk::Sectors;

use super::cleaning::CleaningOrder;
use fullest::Fullest;
use random_choice::{RandomChoice, RandomNumbers};

/// A change of a band's sectors in the cache.
#[derive(Clone, Copy, Debug)]
enum Change {
    /// This number of sectors was added.
    Added(u32),
    /// This number of sectors was removed.
    Removed(u32),
    /// All sectors were removed.
    Cleaned,
}

/// The dirty bands, in the structure for the order.
#[derive(Clone, Debug)]
enum Count {
    Fullest(Fullest),
    Random(RandomChoice),
}

impl Count {
    fn change(&mut self, band: u64, change: Change) {
        match (self, change) {
            (Self::Fullest(bands), Change::Added(sectors)) => bands.add(band, sectors),
            (Self::Fullest(bands), Change::Removed(sectors)) => bands.remove(band, sectors),
            (Self::Fullest(bands), Change::Cleaned) => bands.clean(band),
            (Self::Random(bands), Change::Added(sectors)) => bands.add(band, sectors),
            (Self::Random(bands), Change::Removed(sectors)) => bands.remove(band, sectors),
            (Self::Random(bands), Change::Cleaned) => bands.clean(band),
        }
    }

    fn prefetch(&self, band: u64) {
        match self {
            Self::Fullest(bands) => bands.prefetch(band),
            Self::Random(bands) => bands.prefetch(band),
        }
    }

    /// The number of dirty bands.
    fn bands(&self) -> usize {
        match self {
            Self::Fullest(bands) => bands.dirty(),
            Self::Random(bands) => bands.dirty(),
        }
    }
}

/// Maximum number of changes that are applied together.
const BATCH: usize = 64;
/// Minimum number of changes without a choice before the counts are dropped: few counts cost little.
const PATIENCE: usize = 1024;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Dirty {
    /// The number of bands.
    bands: u64,
    /// For the random order.
    random: Option<RandomNumbers>,
    count: Option<Count>,
    /// Changes that are not applied yet, in order.
    changes: Vec<(u64, Change)>,
    /// Number of changes without a choice after which the counts are dropped.
    patience: usize,
}

impl Dirty {
    /// No dirty bands among `bands`; `None` for the orders that choose by age.
    pub fn new(order: CleaningOrder, bands: u64) -> Option<Self> {
        let random = match order {
            CleaningOrder::Fifo | CleaningOrder::Lifo => return None,
            CleaningOrder::Greedy => None,
            CleaningOrder::Random { seed } => Some(RandomNumbers::new(seed)),
        };
        Some(Self { bands, random, count: None, changes: Vec::with_capacity(BATCH), patience: 0 })
    }

    /// Adds sectors of a band.
    #[inline]
    pub fn add(&mut self, band: u64, sectors: Sectors) {
        self.note(band, Change::Added(sectors.get() as u32));
    }

    /// Removes sectors of a band.
    #[inline]
    pub fn remove(&mut self, band: u64, sectors: Sectors) {
        self.note(band, Change::Removed(sectors.get() as u32));
    }

    /// Removes all sectors of a band.
    #[inline]
    pub fn clean(&mut self, band: u64) {
        self.note(band, Change::Cleaned);
    }

    /// Whether changes have to be reported.
    #[inline]
    pub fn counts(&self) -> bool {
        self.count.is_some()
    }

    #[inline]
    fn note(&mut self, band: u64, change: Change) {
        if self.counts() {
            self.changes.push((band, change));
            if self.changes.len() == BATCH {
                self.end_batch();
            }
        }
    }

    /// Applies a full batch, or drops counts that are no longer used.
    fn end_batch(&mut self) {
        match self.patience.checked_sub(BATCH) {
            Some(left) => {
                self.patience = left;
                self.apply_changes();
            }
            None => {
                self.count = None;
                self.changes.clear();
            }
        }
    }

    fn apply_changes(&mut self) {
        if let Some(count) = &mut self.count {
            self.changes.iter().for_each(|&(band, _)| count.prefetch(band));
            self.changes.iter().for_each(|&(band, change)| count.change(band, change));
        }
        self.changes.clear();
    }

    /// Chooses the next band. `visit_cached` visits the band and the length of each piece of the exception
    /// map; it is called if the bands are not counted.
    pub fn next(&mut self, visit_cached: impl FnOnce(&mut dyn FnMut(u64, Sectors))) -> Option<u64> {
        self.apply_changes();
        let Self { bands, random, count, .. } = self;
        let count = count.get_or_insert_with(|| {
            let mut count = match random {
                Some(_) => Count::Random(RandomChoice::new(*bands)),
                None => Count::Fullest(Fullest::new(*bands)),
            };
            visit_cached(&mut |band, sectors| count.change(band, Change::Added(sectors.get() as u32)));
            count
        });
        self.patience = PATIENCE + count.bands();
        match count {
            Count::Fullest(bands) => bands.next(),
            Count::Random(bands) => bands.next(random.as_mut()?),
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
        Dirty::new(order, 100).unwrap_or_else(|| panic!("{order:?} chooses by band"))
    }

    /// The next band, with these sectors in the map.
    fn next_of(dirty: &mut Dirty, cached: &BTreeMap<u64, u32>) -> Option<u64> {
        dirty.next(|count| cached.iter().for_each(|(&band, &sectors)| count(band, Sectors(sectors.into()))))
    }

    fn cleaned(order: CleaningOrder, writes: &[(u64, u32)]) -> Vec<u64> {
        let (mut dirty, mut cached) = (new(order), BTreeMap::new());
        for &(band, sectors) in writes {
            *cached.entry(band).or_default() += sectors;
        }
        std::iter::from_fn(|| {
            let next = next_of(&mut dirty, &cached)?;
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
    fn a_band_that_loses_sectors_falls_back() {
        let mut dirty = new(CleaningOrder::Greedy);
        let cached = BTreeMap::from([(1, 9), (2, 8)]);
        assert_eq!(next_of(&mut dirty, &cached), Some(1));
        dirty.remove(1, Sectors(2));
        assert_eq!(next_of(&mut dirty, &cached), Some(2));
        dirty.remove(2, Sectors(8));
        assert_eq!(next_of(&mut dirty, &cached), Some(1));
        dirty.remove(1, Sectors(7));
        assert_eq!(next_of(&mut dirty, &cached), None);
    }

    /// Without choices nothing is counted, and the next choice counts again.
    #[test]
    fn unused_counts_are_dropped() {
        let mut dirty = new(CleaningOrder::Greedy);
        assert!(!dirty.counts());
        let mut cached = BTreeMap::from([(1, 9)]);
        assert_eq!(next_of(&mut dirty, &cached), Some(1));
        assert!(dirty.counts());
        for _ in 0..2 * PATIENCE {
            dirty.add(2, Sectors(1));
        }
        assert!(!dirty.counts());
        cached.insert(2, 2 * PATIENCE as u32);
        assert_eq!(next_of(&mut dirty, &cached), Some(2));
    }

    proptest! {
        /// Agrees with a plain map, in trees of one page to three levels above the pages. Bands are chosen
        /// after some changes only, so that bounds are out of date, and counts are dropped now and then.
        #[test]
        fn next_follows_the_order(
            random in any::<bool>(),
            bands in prop_oneof![1u64..40, 200u64..600, 60_000u64..80_000],
            changes in prop::collection::vec((any::<prop::sample::Index>(), 0u32..4, 0u8..20), 1..300),
        ) {
            let order = if random { CleaningOrder::Random { seed: 5 } } else { CleaningOrder::Greedy };
            let mut dirty = Dirty::new(order, bands).expect("both choose by band");
            let mut cached: BTreeMap<u64, u32> = BTreeMap::new();
            for (index, more, then) in changes {
                let band = index.index(bands as usize) as u64;
                let sectors = cached.entry(band).or_default();
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
                cached.retain(|_, sectors| *sectors > 0);
                if then == 0 {
                    dirty.patience = 0;
                }
                if then < 10 {
                    continue;
                }
                let next = next_of(&mut dirty, &cached);
                if random {
                    prop_assert!(next.map_or(cached.is_empty(), |band| cached.contains_key(&band)));
                } else {
                    let first = cached.iter().max_by_key(|&(&band, &sectors)| (sectors, Reverse(band)));
                    prop_assert_eq!(next, first.map(|(&band, _)| band));
                }
            }
        }
    }

    /// Over many seeds, each of five bands comes first equally often: 2,000 times of 10,000, within four
    /// standard deviations of 40.
    #[test]
    fn a_random_order_is_uniform_and_depends_only_on_its_seed() {
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
