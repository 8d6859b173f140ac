//! Stamps: the last write of each sector that is the source of an overwritten one.
//!
//! Invariants: extents do not overlap; every source of an overwritten sector has a stamp. Other sectors may have one until
//! [`Stamps::keep`] removes it.

use skylight_disk::{Pba, PbaExtent, Sectors};

use super::extent_tree::{Change, Extents, Held, Item};
use crate::capabilities::overwriting::Stamp;

/// The length of an extent, and the write that wrote it.
#[derive(Clone, Copy, Debug, Default)]
struct Written {
    len: u64,
    stamp: Stamp,
}

impl Held for Written {
    fn sectors(&self) -> u64 {
        self.len
    }
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Stamps {
    extents: Extents<Written>,
    /// Their number after the last call of [`Stamps::keep`].
    kept: usize,
}

/// Useless stamps that are tolerated before they are searched for.
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

    /// Sets the stamp of an extent.
    pub(super) fn set(&mut self, extent: PbaExtent, stamp: Stamp) {
        self.extents.change(Write { extent, stamp });
    }

    /// The same for many extents, in order of addresses and without overlaps.
    #[inline]
    pub(super) fn set_all<T>(&mut self, writes: &[T], write: impl Fn(&T) -> (PbaExtent, Stamp)) {
        self.extents.change_all(writes, |one| {
            let (extent, stamp) = write(one);
            Write { extent, stamp }
        });
    }

    /// Whether it is worth searching for useless stamps: there are many more than after the last time, and than
    /// fragments that need them.
    pub(super) fn is_crowded(&self, fragments: usize) -> bool {
        self.extents.len() > fragments.max(2 * self.kept) + SLACK
    }

    /// Removes all stamps that do not overlap these extents.
    pub(super) fn keep(&mut self, extents: impl Iterator<Item = PbaExtent>) {
        let mut used: Vec<(u64, u64)> =
            extents.map(|extent| (extent.start.get(), extent.end().get())).collect();
        used.sort_unstable();
        let mut used = used.into_iter().peekable();
        // The highest end of those that begin before the end of what is asked for.
        let mut reach = 0;
        self.extents.retain(|&(start, written)| {
            while let Some((_, end)) = used.next_if(|&(from, _)| from < start + written.len) {
                reach = reach.max(end);
            }
            reach > start
        });
        self.kept = self.extents.len();
    }

    /// Removes all stamps.
    pub(super) fn erase(&mut self) {
        *self = Self::default();
    }
}

/// An extent that is written.
#[derive(Clone, Copy)]
struct Write {
    extent: PbaExtent,
    stamp: Stamp,
}

impl Change<Written> for Write {
    #[inline]
    fn extent(&self) -> (u64, u64) {
        (self.extent.start.get(), self.extent.end().get())
    }

    #[inline]
    fn holds(&self) -> Option<Written> {
        Some(Written { len: self.extent.len.get(), stamp: self.stamp })
    }

    #[inline]
    fn joins(&self) -> bool {
        false
    }

    #[inline]
    fn before(&self, (start, written): Item<Written>, end: u64) -> Written {
        Written { len: end - start, ..written }
    }

    #[inline]
    fn behind(&self, (start, written): Item<Written>, from: u64) -> Written {
        Written { len: start + written.len - from, ..written }
    }

    #[inline]
    fn joined(&self, _: Item<Written>, _: Item<Written>) -> Option<Written> {
        None
    }
}
