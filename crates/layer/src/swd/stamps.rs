//! Which write a sector was last written by, as far as overwritten sectors have their data from it.
//!
//! Invariants: extents do not overlap; a source of an overwritten sector always has a stamp. Others may have
//! one until [`Stamps::keep`] is asked to forget them.

use std::collections::BTreeMap;

use skylight_disk::{Pba, PbaExtent, Sectors, Time};

/// A write: its number, counted from 1, and when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the write command among all that the layer took.
    pub write: u64,
    /// What the caller's clock said when it took it.
    pub at: Time,
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    by_start: BTreeMap<u64, (u64, Stamp)>,
    /// How many there were after the last clearing out.
    kept: usize,
}

/// So many may be of no use before it is worth looking.
const SLACK: usize = 1024;

impl Stamps {
    /// Extents with a stamp.
    pub(super) fn len(&self) -> usize {
        self.by_start.len()
    }

    /// All by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PbaExtent, Stamp)> + '_ {
        self.by_start.iter().map(|(&start, &(len, stamp))| (PbaExtent::new(Pba(start), Sectors(len)), stamp))
    }

    /// The extents that `extent` touches, whole.
    fn touching(&self, extent: PbaExtent) -> impl Iterator<Item = (u64, u64, Stamp)> + '_ {
        let (start, end) = (extent.start.get(), extent.end().get());
        let before =
            self.by_start.range(..start).next_back().filter(move |(at, (len, _))| **at + len > start);
        before.into_iter().chain(self.by_start.range(start..end)).map(|(&at, &(len, stamp))| (at, len, stamp))
    }

    /// The last of them.
    fn last_touching(&self, extent: PbaExtent) -> Option<(u64, u64, Stamp)> {
        let (&at, &(len, stamp)) = self.by_start.range(..extent.end().get()).next_back()?;
        (at + len > extent.start.get()).then_some((at, len, stamp))
    }

    /// The pieces of an extent that have a stamp, in order.
    pub(super) fn visit(&self, extent: PbaExtent, visit: &mut impl FnMut(PbaExtent, Stamp)) {
        for (at, len, stamp) in self.touching(extent) {
            let (start, end) = (at.max(extent.start.get()), (at + len).min(extent.end().get()));
            visit(PbaExtent::new(Pba(start), Sectors(end - start)), stamp);
        }
    }

    /// Notes who wrote an extent that has no stamp.
    pub(super) fn record(&mut self, extent: PbaExtent, stamp: Stamp) {
        self.by_start.insert(extent.start.get(), (extent.len.get(), stamp));
    }

    /// Forgets who wrote an extent.
    pub(super) fn forget(&mut self, extent: PbaExtent) {
        let (start, end) = (extent.start.get(), extent.end().get());
        while let Some((at, len, old)) = self.last_touching(extent) {
            self.by_start.remove(&at);
            if at < start {
                self.by_start.insert(at, (start - at, old));
            }
            if end < at + len {
                self.by_start.insert(end, (at + len - end, old));
            }
        }
    }

    /// Whether it is worth finding out which stamps are still of use.
    pub(super) fn is_crowded(&self) -> bool {
        self.by_start.len() > 2 * self.kept + SLACK
    }

    /// Forgets all but what touches these extents.
    pub(super) fn keep(&mut self, extents: impl Iterator<Item = PbaExtent>) {
        let mut used: Vec<(u64, u64)> =
            extents.map(|extent| (extent.start.get(), extent.end().get())).collect();
        used.sort_unstable();
        // The extent with the highest end among those that begin before is the one to ask.
        let mut reach = 0;
        for (_, end) in &mut used {
            reach = reach.max(*end);
            *end = reach;
        }
        self.by_start.retain(|&start, &mut (len, _)| {
            let before = used.partition_point(|&(from, _)| from < start + len);
            before > 0 && used[before - 1].1 > start
        });
        self.kept = self.by_start.len();
    }

    /// Forgets all.
    pub(super) fn erase(&mut self) {
        self.by_start.clear();
        self.kept = 0;
    }
}
