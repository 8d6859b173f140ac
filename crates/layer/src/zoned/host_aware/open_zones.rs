//! The resources of open zones: for each zone that is written in order, what the drive keeps of it in memory.
//!
//! A write in order needs the resource of its zone, so that the write pointer survives a power cut. There are only so
//! many; when all are taken, others have to give up theirs ("when
//! all of them have been allocated, opening a new zone will deallocate the open zone resource of an old open zone",
//! Evaluating Host Aware SMR Drives, section 2). `open_zone_allocation` says which, and this file who holds one and how one is drawn. A
//! drive that took the one written least recently would lose every write of a round over one zone more than it has
//! resources, and a real drive loses a quarter of them (`docs/zoned.md`).
//!
//! Invariants: no more zones hold a resource than there are; taking and giving back cost the same for any number of
//! zones.

use skylight_disk::splitmix64;

/// A zone without a resource.
const NONE: u16 = u16::MAX;

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct OpenZones {
    most: usize,
    /// The zones that hold a resource.
    holders: Vec<u32>,
    /// The index of each zone among the holders.
    index: Vec<u16>,
    seed: u64,
    draws: u64,
}

impl OpenZones {
    /// `most` resources, 1 to 65,535, for a drive of `zones` zones; `seed` is of the random choices.
    pub fn new(most: usize, zones: u32, seed: u64) -> Self {
        let most = most.clamp(1, NONE.into());
        Self { most, holders: Vec::new(), index: vec![NONE; zones as usize], seed, draws: 0 }
    }

    /// The zones that hold a resource.
    pub fn holders(&self) -> &[u32] {
        &self.holders
    }

    /// Whether a zone holds a resource.
    pub fn holds(&self, zone: u32) -> bool {
        self.index[zone as usize] != NONE
    }

    /// Whether a resource is free.
    pub fn has_free(&self) -> bool {
        self.holders.len() < self.most
    }

    /// The zone that gives up its resource if one is needed, drawn anew each time among those that `is_clean` says have
    /// nothing to write first, or among all; `None` while some are free.
    pub fn victim(&mut self, is_clean: impl Fn(u32) -> bool) -> Option<u32> {
        if self.has_free() {
            return None;
        }
        let drawn = (splitmix64(self.seed, self.draws) % self.holders.len() as u64) as usize;
        self.draws += 1;
        let (before, from) = self.holders.split_at(drawn);
        from.iter().chain(before).copied().find(|&zone| is_clean(zone)).or(from.first().copied())
    }

    /// Gives a zone that has none a resource, one of which is free.
    pub fn take(&mut self, zone: u32) {
        debug_assert!(self.has_free() && !self.holds(zone), "each zone takes one that is free");
        self.index[zone as usize] = self.holders.len() as u16;
        self.holders.push(zone);
    }

    /// Frees the resource of a zone, if it holds one.
    pub fn give_back(&mut self, zone: u32) {
        let at = std::mem::replace(&mut self.index[zone as usize], NONE);
        if at == NONE {
            return;
        }
        self.holders.swap_remove(at.into());
        if let Some(&moved) = self.holders.get(usize::from(at)) {
            self.index[moved as usize] = at;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Misses of the last of `rounds` rounds over `zones` zones with 128 resources.
    fn misses(zones: u32, rounds: u32) -> usize {
        let mut open = OpenZones::new(128, zones, 1);
        let mut miss = |zone: u32| {
            if open.holds(zone) {
                return false;
            }
            let victim = open.victim(|_| true);
            victim.into_iter().for_each(|victim| open.give_back(victim));
            open.take(zone);
            victim.is_some()
        };
        let mut round = || (0..zones).filter(|&zone| miss(zone)).count();
        (0..rounds).map(|_| round()).last().unwrap_or(0)
    }

    #[test]
    fn rounds_over_no_more_zones_than_resources_never_take_one_away() {
        assert_eq!(misses(128, 10), 0);
    }

    #[test]
    fn a_round_over_a_few_more_zones_keeps_most_of_the_resources() {
        // For `m` misses a round, a zone keeps its resource with (1 - 1/128)^m: m is about 23 of 140 and 91 of 180.
        assert!((12..40).contains(&misses(140, 20)), "{}", misses(140, 20));
        assert!((70..112).contains(&misses(180, 20)), "{}", misses(180, 20));
    }

    #[test]
    fn what_is_given_back_is_free_again() {
        let mut open = OpenZones::new(2, 4, 1);
        (0..2).for_each(|zone| open.take(zone));
        assert!(!open.has_free());
        open.give_back(0);
        open.give_back(3);
        assert_eq!((open.holds(0), open.holders()), (false, &[1][..]));
        assert_eq!(open.victim(|_| true), None, "one is free");
        open.take(2);
        assert_eq!([1, 2, 1].map(|clean| open.victim(|zone| zone == clean)), [Some(1), Some(2), Some(1)]);
        let victim = open.victim(|zone| zone == 3);
        assert!(matches!(victim, Some(1 | 2)), "none is clean: of {victim:?}");
    }
}
