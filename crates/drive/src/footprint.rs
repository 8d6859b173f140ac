//! Which parts of the drive outstanding commands touch: enough to know, nearly always, that a command conflicts with
//! none of them, without comparing it with each.
//!
//! Addresses are counted in [`COUNTERS`] counters by a hash of their granule. A counter that is zero says that no
//! outstanding command touches any granule with this hash; one that is not says nothing, and the commands are
//! compared. A command of more than two granules is counted as *wide*, and while one is outstanding all are compared.
//!
//! Invariant: every outstanding command is counted, once for each of its granules or as wide.

use skylight_disk::LbaExtent;

/// Sectors of a granule, as a power of two: 1 MiB, longer than most commands, so that few touch two.
const GRANULE_BITS: u32 = 11;
/// Chosen, because with 32 random commands outstanding one in 32 is compared for nothing, and 4 KiB stay in the
/// processor's nearest cache.
const COUNTERS: usize = 1024;
/// 2^64 over the golden ratio: neighbours lie far apart (Knuth, "Sorting and Searching", section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module page.
pub(crate) struct Footprint {
    counters: Box<[u32; COUNTERS]>,
    wide: usize,
}

/// The counters of an extent.
#[derive(Clone, Copy)]
enum Granules {
    One(usize),
    Two(usize, usize),
    Wide,
}

impl Granules {
    #[inline]
    fn of(extent: LbaExtent) -> Self {
        let first = extent.start.get() >> GRANULE_BITS;
        let last = (extent.end().get().max(extent.start.get() + 1) - 1) >> GRANULE_BITS;
        let counter = |granule: u64| (granule.wrapping_mul(SPREAD) >> (64 - COUNTERS.ilog2())) as usize;
        match last - first {
            0 => Self::One(counter(first)),
            1 => Self::Two(counter(first), counter(last)),
            _ => Self::Wide,
        }
    }
}

impl Footprint {
    /// Nothing is outstanding.
    pub(crate) fn new() -> Self {
        Self { counters: Box::new([0; COUNTERS]), wide: 0 }
    }

    /// Whether an outstanding command may share sectors with this extent.
    #[inline]
    pub(crate) fn may_touch(&self, extent: LbaExtent) -> bool {
        self.wide > 0
            || match Granules::of(extent) {
                Granules::One(one) => self.counters[one] > 0,
                Granules::Two(one, other) => self.counters[one] | self.counters[other] > 0,
                Granules::Wide => true,
            }
    }

    /// A command comes.
    #[inline]
    pub(crate) fn add(&mut self, extent: LbaExtent) {
        self.count(extent, |counter| *counter += 1, |wide| *wide += 1);
    }

    /// A command is answered.
    #[inline]
    pub(crate) fn remove(&mut self, extent: LbaExtent) {
        self.count(extent, |counter| *counter -= 1, |wide| *wide -= 1);
    }

    #[inline]
    fn count(&mut self, extent: LbaExtent, mut narrow: impl FnMut(&mut u32), wide: impl FnOnce(&mut usize)) {
        match Granules::of(extent) {
            Granules::One(one) => narrow(&mut self.counters[one]),
            Granules::Two(one, other) => {
                narrow(&mut self.counters[one]);
                narrow(&mut self.counters[other]);
            }
            Granules::Wide => wide(&mut self.wide),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skylight_disk::{Lba, Sectors};

    #[test]
    fn what_shares_sectors_may_touch_and_what_is_gone_does_not() {
        let extent = |start, len| LbaExtent::new(Lba(start), Sectors(len));
        let mut footprint = Footprint::new();
        for (outstanding, asked) in [
            (extent(2047, 1), extent(2040, 8)),
            (extent(2047, 2), extent(2048, 1)),
            (extent(0, 100_000), extent(99_999, 1)),
            (extent(5000, 8), extent(0, 100_000)),
        ] {
            footprint.add(outstanding);
            assert!(footprint.may_touch(asked), "{outstanding:?} and {asked:?}");
            footprint.remove(outstanding);
            assert!(footprint.counters.iter().all(|&counter| counter == 0) && footprint.wide == 0);
        }
        footprint.add(extent(0, 8));
        assert!(!footprint.may_touch(extent(2048, 8)), "another granule");
    }
}
