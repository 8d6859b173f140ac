//! A summary of the extents that outstanding commands touch. Nearly always it rules out that a new command
//! conflicts with any of them, without comparing it with each.
//!
//! Extents are counted by granule, a zone on a drive with zones, and a hash maps granules to [`COUNTERS`] counters. If a counter is zero,
//! no outstanding command touches a granule with this hash; otherwise the commands are compared. A change
//! that may touch more than two granules is counted as *wide*; while one is outstanding, every new command
//! is compared.
//!
//! Reads share a single counter: reads do not conflict with each other, and while one is outstanding every
//! write and trim is compared.
//!
//! Invariant: every command that is added is counted until it is removed: as a read, once for each of its granules, or as
//! wide.

use skylight_command::Command;
use skylight_disk::Lba;
use skylight_layer::ZoneLayout;

/// Log2 of the sectors in a granule: 1 MiB, longer than most commands, so that few commands touch two.
const GRANULE_BITS: u32 = 11;
/// Chosen, because with 32 random commands outstanding only one in 32 is compared needlessly, and 4 KiB stay
/// in the L1 cache.
const COUNTERS: usize = 1024;
/// 2^64 divided by the golden ratio: spreads adjacent granules (Knuth, "Sorting and Searching", section 6.4).
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

/// See the module documentation.
pub(crate) struct Footprint {
    counters: Box<[u32; COUNTERS]>,
    wide: u32,
    reads: u32,
    zones: Option<ZoneLayout>,
}

/// The counters of what a command may touch.
#[derive(Clone, Copy)]
enum Granules {
    One(usize),
    Two(usize, usize),
    Wide,
}

impl Granules {
    #[inline]
    fn of(command: &Command, zones: Option<&ZoneLayout>) -> Self {
        let first = command.extent.start.get();
        let last = command.reach().get().max(first + 1) - 1;
        let granule = |sector: u64| match zones {
            None => sector >> GRANULE_BITS,
            Some(zones) => zones.zone_of(Lba(sector.min(zones.sectors.get()))).into(),
        };
        let (first, last) = (granule(first), granule(last));
        let counter = |granule: u64| (granule.wrapping_mul(SPREAD) >> (64 - COUNTERS.ilog2())) as usize;
        match last - first {
            0 => Self::One(counter(first)),
            1 => Self::Two(counter(first), counter(last)),
            _ => Self::Wide,
        }
    }
}

impl Footprint {
    /// An empty summary.
    pub(crate) fn new(zones: Option<ZoneLayout>) -> Self {
        Self { counters: Box::new([0; COUNTERS]), wide: 0, reads: 0, zones }
    }

    /// Adds a command on submission; returns whether one that was outstanding may conflict with it. By value: see
    /// [`crate::pending::Pending::submit`].
    #[inline]
    pub(crate) fn add(&mut self, command: Command) -> bool {
        let granules = Granules::of(&command, self.zones.as_ref());
        let is_ordered = command.op.is_ordered();
        let touched = match granules {
            Granules::One(one) => self.counters[one] > 0,
            Granules::Two(one, other) => self.counters[one] | self.counters[other] > 0,
            Granules::Wide => true,
        };
        let conflicts = touched || self.wide > 0 || is_ordered && self.reads > 0;
        self.count(granules, is_ordered, |counter| *counter += 1);
        conflicts
    }

    /// Removes a command on completion.
    #[inline]
    pub(crate) fn remove(&mut self, command: &Command) {
        let is_ordered = command.op.is_ordered();
        self.count(Granules::of(command, self.zones.as_ref()), is_ordered, |counter| *counter -= 1);
    }

    /// Counts a command where it belongs.
    #[inline]
    fn count(&mut self, granules: Granules, is_ordered: bool, mut count: impl FnMut(&mut u32)) {
        match granules {
            _ if !is_ordered => count(&mut self.reads),
            Granules::One(one) => count(&mut self.counters[one]),
            Granules::Two(one, other) => {
                count(&mut self.counters[one]);
                count(&mut self.counters[other]);
            }
            Granules::Wide => count(&mut self.wide),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skylight_command::{CommandId, Op};
    use skylight_disk::{Lba, LbaExtent, Sectors};

    fn command(op: Op, start: u64, len: u64) -> Command {
        Command::new(CommandId(0), op, LbaExtent::new(Lba(start), Sectors(len)))
    }

    #[test]
    fn a_conflict_is_reported_until_the_command_completes() {
        use Op::{Append, Read, Trim, Write};
        for (outstanding, asked) in [
            (command(Write, 2047, 1), command(Read, 2040, 8)),
            (command(Trim, 2047, 2), command(Write, 2048, 1)),
            (command(Write, 0, 100_000), command(Read, 99_999, 1)),
            (command(Write, 5000, 8), command(Write, 0, 100_000)),
            (command(Read, 5000, 8), command(Write, 5007, 1)),
            (command(Append, 0, 8), command(Read, 1 << 30, 8)),
            (command(Write, 1 << 30, 8), command(Append, 0, 8)),
        ] {
            let mut footprint = Footprint::new(None);
            footprint.add(outstanding);
            assert!(footprint.add(asked), "{outstanding:?} and {asked:?}");
            footprint.remove(&outstanding);
            footprint.remove(&asked);
            assert!(footprint.counters.iter().all(|&counter| counter == 0));
            assert_eq!((footprint.wide, footprint.reads), (0, 0));
        }
    }

    #[test]
    fn distant_extents_and_concurrent_reads_do_not_conflict() {
        let mut footprint = Footprint::new(None);
        footprint.add(command(Op::Write, 0, 8));
        assert!(!footprint.add(command(Op::Write, 2048, 8)), "another granule");
        assert!(!footprint.add(command(Op::Read, 4096, 8)), "another granule");
        assert!(!footprint.add(command(Op::Read, 4096, 8)), "both are reads");
    }
}
