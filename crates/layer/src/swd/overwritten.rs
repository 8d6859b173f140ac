//! The overwritten map: which sectors hold data that was written to another track, and to which sector.
//!
//! A fragment is a run of such sectors on one track whose sources lie on one other track and rise as the
//! geometry says ([`Sources`]). Fragments that continue each other are one, so the map's size is that of what
//! is torn, not of what was written; a look-up is a search in a tree.
//!
//! Invariants: fragments do not overlap; a fragment lies on one track and its sources on one; a source is the
//! written sector itself, never one that it was destroyed by later: what the head left on a track behind stays
//! what it was when the written track is overwritten in turn.
//! Source: the table of (original, mapped) addresses of "Shingled Write Disk Emulator" (UCSC-SSRC-12-05),
//! section 3.2.2, which has an entry a sector.

use std::collections::BTreeMap;

use skylight_disk::shingling::{Destroyed, Sources, natural_source};
use skylight_disk::{Geometry, Pba, PbaExtent, Sectors};

/// A fragment without its start.
#[derive(Clone, Copy, Debug)]
struct Entry {
    len: u32,
    /// Sources from the first to the last, less one.
    sources: u32,
    first_source: u64,
}

impl Entry {
    fn of(fragment: Destroyed) -> Self {
        Self {
            len: fragment.extent.len.get() as u32,
            sources: (fragment.last_source - fragment.first_source).get() as u32,
            first_source: fragment.first_source.get(),
        }
    }

    fn from(self, start: u64) -> Destroyed {
        Destroyed {
            extent: PbaExtent::new(Pba(start), Sectors(self.len.into())),
            first_source: Pba(self.first_source),
            last_source: Pba(self.first_source + u64::from(self.sources)),
        }
    }
}

/// The part of a fragment that lies in `within`, which touches it.
pub(super) fn part(geometry: &Geometry, fragment: Destroyed, within: PbaExtent) -> Destroyed {
    let start = fragment.extent.start.max(within.start);
    let end = fragment.extent.end().min(within.end());
    if (start, end) == (fragment.extent.start, fragment.extent.end()) {
        return fragment;
    }
    let sources = Sources::new(geometry, fragment.extent.start, fragment.first_source, fragment.last_source);
    let source = |sector: Pba| sources.at((sector - fragment.extent.start).get());
    Destroyed {
        extent: PbaExtent::new(start, end - start),
        first_source: source(start),
        last_source: source(Pba(end.get() - 1)),
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub(super) struct Overwritten {
    fragments: BTreeMap<u64, Entry>,
    sectors: u64,
    /// A stretch without fragments, where the last look-up found none: the next read is mostly there as well.
    intact: PbaExtent,
}

impl Overwritten {
    /// Sectors that are overwritten.
    pub(super) fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Fragments of the map.
    pub(super) fn len(&self) -> usize {
        self.fragments.len()
    }

    /// All fragments by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = Destroyed> + '_ {
        self.fragments.iter().map(|(&start, entry)| entry.from(start))
    }

    /// The fragments that an extent touches, whole, by address.
    fn touching(&self, extent: PbaExtent) -> impl Iterator<Item = Destroyed> + '_ {
        let (start, end) = (extent.start.get(), extent.end().get());
        let before = self
            .fragments
            .range(..start)
            .next_back()
            .filter(move |(at, entry)| **at + u64::from(entry.len) > start);
        before.into_iter().chain(self.fragments.range(start..end)).map(|(&at, entry)| entry.from(at))
    }

    /// The last of them.
    fn last_touching(&self, extent: PbaExtent) -> Option<Destroyed> {
        let (&at, entry) = self.fragments.range(..extent.end().get()).next_back()?;
        (at + u64::from(entry.len) > extent.start.get()).then(|| entry.from(at))
    }

    /// Whether any sector of an extent is overwritten.
    #[inline]
    pub(super) fn touches(&mut self, extent: PbaExtent) -> bool {
        let known = self.intact.start <= extent.start && extent.end() <= self.intact.end();
        !known && self.finds(extent)
    }

    fn finds(&mut self, extent: PbaExtent) -> bool {
        let (start, end) = (extent.start.get(), extent.end().get());
        let before =
            self.fragments.range(..end).next_back().map_or(0, |(&at, entry)| at + u64::from(entry.len));
        if before > start {
            return true;
        }
        let behind = self.fragments.range(end..).next().map_or(u64::MAX, |(&at, _)| at);
        self.intact = PbaExtent::new(Pba(before), Sectors(behind - before));
        false
    }

    /// The pieces of an extent in order: native, or with the sources that overwrote it.
    pub(super) fn visit(
        &self,
        geometry: &Geometry,
        extent: PbaExtent,
        visit: &mut impl FnMut(PbaExtent, Option<Destroyed>),
    ) {
        let mut at = extent.start;
        for fragment in self.touching(extent) {
            let torn = part(geometry, fragment, extent);
            if at < torn.extent.start {
                visit(PbaExtent::new(at, torn.extent.start - at), None);
            }
            visit(torn.extent, Some(torn));
            at = torn.extent.end();
        }
        if at < extent.end() {
            visit(PbaExtent::new(at, extent.end() - at), None);
        }
    }

    /// Forgets an extent: it was written.
    pub(super) fn clear(&mut self, geometry: &Geometry, extent: PbaExtent) {
        while let Some(fragment) = self.last_touching(extent) {
            let start = fragment.extent.start;
            self.remove(start);
            if start < extent.start {
                let left = PbaExtent::new(start, extent.start - start);
                self.insert(part(geometry, fragment, left));
            }
            if extent.end() < fragment.extent.end() {
                let right = PbaExtent::new(extent.end(), fragment.extent.end() - extent.end());
                self.insert(part(geometry, fragment, right));
            }
        }
    }

    /// Notes what a write destroyed.
    pub(super) fn set(&mut self, geometry: &Geometry, destroyed: Destroyed) {
        let (start, end) = (destroyed.extent.start, destroyed.extent.end());
        // A random write mostly destroys what has no fragment on it or beside it: one look tells.
        let nearest = self.fragments.range(..=end.get()).next_back();
        if nearest.is_none_or(|(&at, entry)| at + u64::from(entry.len) < start.get()) {
            return self.insert(destroyed);
        }
        self.clear(geometry, destroyed.extent);
        let mut joined = destroyed;
        let before = self.fragments.range(..start.get()).next_back().map(|(&at, entry)| entry.from(at));
        if let Some(before) = before.filter(|before| continues(geometry, before, &joined)) {
            self.remove(before.extent.start);
            joined = join(before, joined);
        }
        let behind = self.fragments.get(&end.get()).map(|entry| entry.from(end.get()));
        if let Some(behind) = behind.filter(|behind| continues(geometry, &joined, behind)) {
            self.remove(behind.extent.start);
            joined = join(joined, behind);
        }
        self.insert(joined);
    }

    /// Nothing is overwritten.
    pub(super) fn erase(&mut self) {
        self.fragments.clear();
        self.sectors = 0;
    }

    fn insert(&mut self, fragment: Destroyed) {
        self.sectors += fragment.extent.len.get();
        self.intact = PbaExtent::default();
        self.fragments.insert(fragment.extent.start.get(), Entry::of(fragment));
    }

    fn remove(&mut self, start: Pba) {
        let entry = self.fragments.remove(&start.get());
        self.sectors -= entry.map_or(0, |entry| entry.len.into());
    }
}

fn join(before: Destroyed, behind: Destroyed) -> Destroyed {
    Destroyed {
        extent: PbaExtent::new(before.extent.start, before.extent.len + behind.extent.len),
        last_source: behind.last_source,
        ..before
    }
}

/// Whether two fragments are one: the sources of the second follow from where those of the first end.
fn continues(geometry: &Geometry, before: &Destroyed, behind: &Destroyed) -> bool {
    let edge = behind.extent.start;
    if before.extent.end() != edge || behind.first_source < before.last_source {
        return false;
    }
    let on = geometry.track_of(before.first_source);
    let last = Pba(edge.get() - 1);
    on.end() > behind.first_source
        && geometry.track_of(before.extent.start).end() > edge
        && natural_source(geometry, last, &on) == before.last_source
        && natural_source(geometry, edge, &on) == behind.first_source
}
