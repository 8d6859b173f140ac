//! Which write a sector was last written by, as far as overwritten sectors have their data from it.
//!
//! Invariants: extents do not overlap; a source of an overwritten sector always has a stamp. Others may have
//! one until [`Stamps::keep`] is asked to forget them.

use skylight_disk::{Pba, PbaExtent, Sectors, Time};

use super::extents::{Extents, Held, Item};

/// A write: its number, counted from 1, and when it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// The number of the write command among all that the layer took.
    pub write: u64,
    /// What the caller's clock said when it took it.
    pub at: Time,
}

/// How long an extent is, and who wrote it.
#[derive(Clone, Copy, Debug)]
struct Written {
    len: u64,
    stamp: Stamp,
}

impl Held for Written {
    fn sectors(&self) -> u64 {
        self.len
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    extents: Extents<Written>,
    /// How many there were after the last clearing out.
    kept: usize,
}

/// So many may be of no use before it is worth looking.
const SLACK: usize = 1024;

impl Stamps {
    /// Extents with a stamp.
    pub(super) fn len(&self) -> usize {
        self.extents.len()
    }

    /// All by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PbaExtent, Stamp)> + '_ {
        self.extents
            .iter()
            .map(|(start, written)| (PbaExtent::new(Pba(start), Sectors(written.len)), written.stamp))
    }

    /// The pieces of an extent that have a stamp, in order.
    pub(super) fn visit(&self, extent: PbaExtent, visit: &mut impl FnMut(PbaExtent, Stamp)) {
        let (from, to) = (extent.start.get(), extent.end().get());
        for (at, Written { len, stamp }) in self.extents.touching(from, to) {
            let (start, end) = (at.max(from), (at + len).min(to));
            visit(PbaExtent::new(Pba(start), Sectors(end - start)), stamp);
        }
    }

    /// A place will be looked for soon.
    #[inline]
    pub(super) fn hint(&self, place: Pba) {
        self.extents.hint(place.get());
    }

    /// Notes who wrote an extent, whoever did before.
    pub(super) fn set(&mut self, extent: PbaExtent, stamp: Stamp) {
        let (from, to) = (extent.start.get(), extent.end().get());
        self.extents.replace(from, to, |gone| {
            let left = gone.first.filter(|&(start, _)| start < from);
            let right = gone.last.filter(|&(start, written)| to < start + written.len);
            [
                left.map(|(start, written)| part(written, start, from)),
                Some(part(Written { len: 0, stamp }, from, to)),
                right.map(|(start, written)| part(written, to, start + written.len)),
            ]
        });
    }

    /// Whether it is worth finding out which stamps are still of use: there are many more than the last time, and
    /// than the fragments that need them.
    pub(super) fn is_crowded(&self, fragments: usize) -> bool {
        self.extents.len() > fragments.max(2 * self.kept) + SLACK
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
        self.extents.retain(|&(start, written)| {
            let before = used.partition_point(|&(from, _)| from < start + written.len);
            before > 0 && used[before - 1].1 > start
        });
        self.kept = self.extents.len();
    }

    /// Forgets all.
    pub(super) fn erase(&mut self) {
        *self = Self::default();
    }
}

/// A part of a written extent.
fn part(written: Written, start: u64, end: u64) -> Item<Written> {
    (start, Written { len: end - start, ..written })
}
