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

use skylight_disk::shingling::{Destroyed, Sources, natural_source};
use skylight_disk::{Geometry, Pba, PbaExtent, Sectors, Track};

use super::extents::{Extents, Held, Item};

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

    fn item(fragment: Destroyed) -> Item<Self> {
        (fragment.extent.start.get(), Self::of(fragment))
    }

    fn from(self, start: u64) -> Destroyed {
        Destroyed {
            extent: PbaExtent::new(Pba(start), Sectors(self.len.into())),
            first_source: Pba(self.first_source),
            last_source: Pba(self.first_source + u64::from(self.sources)),
        }
    }
}

impl Held for Entry {
    fn sectors(&self) -> u64 {
        self.len.into()
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
    fragments: Extents<Entry>,
    /// A stretch without fragments, where the last look-up found none: the next read is mostly there as well.
    intact: PbaExtent,
}

impl Overwritten {
    /// Sectors that are overwritten.
    pub(super) fn sectors(&self) -> u64 {
        self.fragments.sectors()
    }

    /// Fragments of the map.
    pub(super) fn len(&self) -> usize {
        self.fragments.len()
    }

    /// All fragments by address.
    pub(super) fn iter(&self) -> impl Iterator<Item = Destroyed> + '_ {
        self.fragments.iter().map(|(start, entry)| entry.from(start))
    }

    /// Whether any sector of an extent is overwritten.
    #[inline]
    pub(super) fn touches(&mut self, extent: PbaExtent) -> bool {
        let known = self.intact.start <= extent.start && extent.end() <= self.intact.end();
        !known && self.finds(extent)
    }

    fn finds(&mut self, extent: PbaExtent) -> bool {
        let (start, end) = (extent.start.get(), extent.end().get());
        let before = self.fragments.last_before(end).map_or(0, |(at, entry)| at + entry.sectors());
        if before > start {
            return true;
        }
        let behind = self.fragments.from(end).next().map_or(u64::MAX, |(at, _)| at);
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
        for (start, entry) in self.fragments.touching(extent.start.get(), extent.end().get()) {
            let fragment = entry.from(start);
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

    /// A place will be looked for soon.
    #[inline]
    pub(super) fn hint(&self, place: Pba) {
        self.fragments.hint(place.get());
    }

    /// Forgets an extent: it was written.
    pub(super) fn clear(&mut self, geometry: &Geometry, extent: PbaExtent) {
        self.fragments.replace(extent.start.get(), extent.end().get(), |gone| {
            let [left, right] = remainders(geometry, extent, gone.first, gone.last);
            [left.map(Entry::item), right.map(Entry::item), None]
        });
    }

    /// Notes what a write of the track `on` destroyed of the track `behind`.
    pub(super) fn set(&mut self, geometry: &Geometry, on: &Track, behind: &Track, destroyed: Destroyed) {
        self.intact = PbaExtent::default();
        let extent = destroyed.extent;
        // What ends where it begins, or begins where it ends, may be one with it.
        let (from, to) = (extent.start.get().saturating_sub(1), extent.end().get() + 1);
        self.fragments.replace(from, to, |gone| {
            let [mut left, mut right] = remainders(geometry, extent, gone.first, gone.last);
            let mut joined = destroyed;
            if let Some(before) = left.filter(|before| continues(on, behind, before, &joined)) {
                joined = join(before, joined);
                left = None;
            }
            if let Some(next) = right.filter(|next| continues(on, behind, &joined, next)) {
                joined = join(joined, next);
                right = None;
            }
            [left.map(Entry::item), Some(Entry::item(joined)), right.map(Entry::item)]
        });
    }

    /// Nothing is overwritten.
    pub(super) fn erase(&mut self) {
        *self = Self::default();
    }
}

/// What is left, before and behind an extent, of the first and the last fragment that touch it or lie beside it.
fn remainders(
    geometry: &Geometry,
    extent: PbaExtent,
    first: Option<Item<Entry>>,
    last: Option<Item<Entry>>,
) -> [Option<Destroyed>; 2] {
    let whole = |(start, entry): Item<Entry>| entry.from(start);
    let before = |fragment: Destroyed| {
        let start = fragment.extent.start;
        part(geometry, fragment, PbaExtent::new(start, extent.start - start))
    };
    let behind = |fragment: Destroyed| {
        part(geometry, fragment, PbaExtent::new(extent.end(), fragment.extent.end() - extent.end()))
    };
    [
        first.map(whole).filter(|fragment| fragment.extent.start < extent.start).map(before),
        last.map(whole).filter(|fragment| extent.end() < fragment.extent.end()).map(behind),
    ]
}

fn join(before: Destroyed, behind: Destroyed) -> Destroyed {
    Destroyed {
        extent: PbaExtent::new(before.extent.start, before.extent.len + behind.extent.len),
        last_source: behind.last_source,
        ..before
    }
}

/// Whether two fragments are one: both lie on the track `behind` and have their sources on the track `on`, as one of
/// them is known to, and the sources of the second follow from where those of the first end.
fn continues(on: &Track, behind: &Track, first: &Destroyed, second: &Destroyed) -> bool {
    let edge = second.extent.start;
    first.extent.end() == edge
        && (behind.start < edge && edge < behind.end())
        && (on.start <= first.first_source && second.last_source < on.end())
        && first.last_source <= second.first_source
        && natural_source(behind, Pba(edge.get() - 1), on) == first.last_source
        && natural_source(behind, edge, on) == second.first_source
}
