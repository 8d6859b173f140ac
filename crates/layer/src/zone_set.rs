//! A set of zones by their numbers.
//!
//! A bit for each zone, in words; a bit for each word that is not empty, in words again, up to one word. So a zone comes and goes in
//! one word as a rule, three at most for 120,000 zones, and the next zone of the set is found in as few, however far away it is.
//! 120,000 zones take 15 KiB.
//!
//! Invariant: a bit of a level is set exactly if its word of the level below is not empty.

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct ZoneSet {
    /// The zones.
    zones: Vec<u64>,
    /// The words of the level below that are not empty; the last level is one word.
    upper: Vec<Vec<u64>>,
}

const BITS: usize = u64::BITS as usize;

impl ZoneSet {
    /// An empty set of a drive with `zones` zones.
    pub fn new(zones: u32) -> Self {
        let mut words = (zones as usize).div_ceil(BITS);
        let (zones, mut upper) = (vec![0; words], Vec::new());
        while words > 1 {
            words = words.div_ceil(BITS);
            upper.push(vec![0; words]);
        }
        Self { zones, upper }
    }

    /// Adds a zone.
    #[inline]
    pub fn insert(&mut self, zone: u32) {
        let at = zone as usize;
        let before = self.zones[at / BITS];
        self.zones[at / BITS] = before | 1 << (at % BITS);
        if before == 0 {
            self.note_filled(at / BITS);
        }
    }

    /// A word of the zones is not empty any more.
    fn note_filled(&mut self, mut at: usize) {
        for words in &mut self.upper {
            let before = words[at / BITS];
            words[at / BITS] |= 1 << (at % BITS);
            if before != 0 {
                return;
            }
            at /= BITS;
        }
    }

    /// Removes a zone.
    #[inline]
    pub fn remove(&mut self, zone: u32) {
        let at = zone as usize;
        self.zones[at / BITS] &= !(1 << (at % BITS));
        if self.zones[at / BITS] == 0 {
            self.note_emptied(at / BITS);
        }
    }

    /// A word of the zones is empty.
    fn note_emptied(&mut self, mut at: usize) {
        for words in &mut self.upper {
            words[at / BITS] &= !(1 << (at % BITS));
            if words[at / BITS] != 0 {
                return;
            }
            at /= BITS;
        }
    }

    /// The words of a level, from the zones up.
    fn level(&self, level: usize) -> &[u64] {
        if level == 0 { &self.zones } else { &self.upper[level - 1] }
    }

    /// The first zone of the set that is not before this one.
    pub fn first_from(&self, zone: u32) -> Option<u32> {
        let mut at = zone as usize;
        for level in 0..=self.upper.len() {
            let word = self.level(level).get(at / BITS)? & (u64::MAX << (at % BITS));
            if word != 0 {
                let found = at / BITS * BITS + word.trailing_zeros() as usize;
                let down = |at: usize, level| at * BITS + self.level(level)[at].trailing_zeros() as usize;
                return Some((0..level).rev().fold(found, down) as u32);
            }
            at = at / BITS + 1;
        }
        None
    }

    /// All zones of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = u32> {
        std::iter::successors(self.first_from(0), |&zone| self.first_from(zone + 1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(
            zones in prop::sample::select(vec![1u32, 2, 63, 64, 65, 4096, 4097, 300_000]),
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<bool>()), 0..200),
        ) {
            let mut set = ZoneSet::new(zones);
            let mut expected = BTreeSet::new();
            for (zone, comes) in changes {
                let zone = zone.index(zones as usize) as u32;
                if comes {
                    set.insert(zone);
                    expected.insert(zone);
                } else {
                    set.remove(zone);
                    expected.remove(&zone);
                }
                prop_assert_eq!(set.first_from(zone), expected.range(zone..).next().copied());
            }
            prop_assert!(set.iter().eq(expected.iter().copied()));
            expected.iter().for_each(|&zone| set.remove(zone));
            prop_assert_eq!(set.first_from(0), None);
            prop_assert!(set.upper.iter().flatten().chain(&set.zones).all(|&word| word == 0));
        }
    }
}
