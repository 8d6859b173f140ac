//! The overwritten map: the sectors that contain data written to another track, and the source of each.
//!
//! A fragment is a run of such sectors on one track whose sources lie on one other track, in the order that the geometry
//! gives them ([`Sources`]). Fragments that continue each other are merged, so the size of the map grows with what is
//! overwritten, not with what was written; a look-up is a search in a tree.
//!
//! Invariants: fragments do not overlap; a fragment lies on one track and its sources on one; a source is the written
//! sector itself, never one that overwrote it later: the data that a write left on a track behind stays when the written
//! track is overwritten in turn.
//! Source: the table of (original, mapped) addresses of "Shingled Write Disk Emulator" (UCSC-SSRC-12-05),
//! section 3.2.2, which has an entry a sector.

use skylight_disk::shingling::{Destroyed, Pair, Sources};
use skylight_disk::{Geometry, Pba, PbaExtent, Sectors};

use super::extent_tree::{Change, Extents, Held, Item};

/// A fragment without its start.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Entry {
    len: u32,
    /// Sources from the first to the last, less one; and whether the tracks are of unlike sizes.
    sources: u32,
    first_source: u64,
}

impl Entry {
    const UNLIKE: u32 = 1 << 31;

    /// What a write of the first track of a pair destroyed of the second.
    #[inline]
    pub(super) fn of(pair: &Pair, fragment: Destroyed) -> Self {
        let unlike = if pair.is_alike() { 0 } else { Self::UNLIKE };
        Self {
            len: fragment.extent.len.get() as u32,
            sources: (fragment.last_source - fragment.first_source).get() as u32 | unlike,
            first_source: fragment.first_source.get(),
        }
    }

    /// An extent without sources.
    #[inline]
    pub(super) fn written(len: Sectors) -> Self {
        Self { len: len.get() as u32, ..Self::default() }
    }

    fn from(self, start: u64) -> Destroyed {
        Destroyed {
            extent: PbaExtent::new(Pba(start), Sectors(self.len.into())),
            first_source: Pba(self.first_source),
            last_source: Pba(self.last_source()),
        }
    }

    fn last_source(self) -> u64 {
        self.first_source + u64::from(self.sources & !Self::UNLIKE)
    }

    /// The part of a fragment from one address in it to another.
    #[inline]
    fn part(self, geometry: &Geometry, start: u64, from: u64, to: u64) -> Self {
        let (skip, len) = ((from - start) as u32, (to - from) as u32);
        if len == self.len {
            return self;
        }
        if self.sources & Self::UNLIKE > 0 {
            return self.unlike_part(geometry, start, from, to);
        }
        // Sources rise with the sectors up to the last one (`Sources`).
        let skip = skip.min(self.sources);
        let first_source = self.first_source + u64::from(skip);
        Self { len, sources: (self.sources - skip).min(len - 1), first_source }
    }

    #[cold]
    fn unlike_part(self, geometry: &Geometry, start: u64, from: u64, to: u64) -> Self {
        let Destroyed { extent, first_source, last_source } =
            part(geometry, self.from(start), PbaExtent::new(Pba(from), Sectors(to - from)));
        Self {
            len: extent.len.get() as u32,
            sources: (last_source - first_source).get() as u32 | Self::UNLIKE,
            first_source: first_source.get(),
        }
    }
}

impl Held for Entry {
    fn sectors(&self) -> u64 {
        self.len.into()
    }
}

/// The part of a fragment that lies in `within`, which touches it.
#[inline]
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

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(super) struct Overwritten {
    fragments: Extents<Entry>,
    /// The stretch without fragments around the last look-up that found none: most next reads are in it too.
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
            let inside = part(geometry, fragment, extent);
            if at < inside.extent.start {
                visit(PbaExtent::new(at, inside.extent.start - at), None);
            }
            visit(inside.extent, Some(inside));
            at = inside.extent.end();
        }
        if at < extent.end() {
            visit(PbaExtent::new(at, extent.end() - at), None);
        }
    }

    /// Makes an extent native: it was written.
    pub(super) fn clear(&mut self, geometry: &Geometry, extent: PbaExtent) {
        self.fragments.change(Effect { geometry, extent, by: None });
    }

    /// Adds what a write of the first track of a pair overwrote of the second.
    pub(super) fn set(&mut self, geometry: &Geometry, pair: &Pair, destroyed: Destroyed) {
        let by = Some((pair, Entry::of(pair, destroyed)));
        self.note(&[Effect { geometry, extent: destroyed.extent, by }], |&effect| effect);
    }

    /// Applies effects of writes, in order of addresses and without overlaps.
    #[inline]
    pub(super) fn note<'a, T>(&mut self, effects: &[T], effect: impl Fn(&T) -> Effect<'a>) {
        self.intact = PbaExtent::default();
        self.fragments.change_all(effects, effect);
    }

    /// Makes all sectors native.
    pub(super) fn erase(&mut self) {
        *self = Self::default();
    }
}

/// The effect of a write on an extent: it is written, or overwritten by a write of the first track of a pair, with these
/// sources.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effect<'a> {
    geometry: &'a Geometry,
    extent: PbaExtent,
    by: Option<(&'a Pair, Entry)>,
}

impl<'a> Effect<'a> {
    /// What is left of an effect, which began at `start`, where no later one is.
    #[inline]
    pub(super) fn left(
        geometry: &'a Geometry,
        extent: PbaExtent,
        start: Pba,
        by: Option<(&'a Pair, Entry)>,
    ) -> Self {
        let (from, to) = (extent.start.get(), extent.end().get());
        let by = by.map(|(pair, entry)| (pair, entry.part(geometry, start.get(), from, to)));
        Self { geometry, extent, by }
    }
}

impl Change<Entry> for Effect<'_> {
    #[inline]
    fn extent(&self) -> (u64, u64) {
        (self.extent.start.get(), self.extent.end().get())
    }

    #[inline]
    fn holds(&self) -> Option<Entry> {
        self.by.map(|(_, entry)| entry)
    }

    #[inline]
    fn joins(&self) -> bool {
        self.by.is_some()
    }

    #[inline]
    fn before(&self, (start, entry): Item<Entry>, end: u64) -> Entry {
        entry.part(self.geometry, start, start, end)
    }

    #[inline]
    fn behind(&self, (start, entry): Item<Entry>, from: u64) -> Entry {
        entry.part(self.geometry, start, from, start + entry.sectors())
    }

    /// Two fragments are one if both lie on the second track of the pair and have their sources on the first, as one
    /// of them is known to, and the sources of the second follow from where those of the first end.
    #[inline]
    fn joined(&self, (_, first): Item<Entry>, (edge, second): Item<Entry>) -> Option<Entry> {
        let (Pair { on, behind, .. }, _) = self.by?;
        let (ends, goes_on) = (first.last_source(), second.first_source);
        let may_be = ends <= goes_on
            && on.start.get() <= first.first_source
            && second.last_source() < on.end().get()
            && (behind.start.get() < edge && edge < behind.end().get());
        if !may_be || !self.follows(edge, ends, goes_on) {
            return None;
        }
        let sources = (second.last_source() - first.first_source) as u32 | (first.sources & Entry::UNLIKE);
        Some(Entry { len: first.len + second.len, sources, first_source: first.first_source })
    }
}

impl Effect<'_> {
    /// Whether these are the natural sources of the sectors before and behind an edge.
    fn follows(&self, edge: u64, ends: u64, goes_on: u64) -> bool {
        self.by.is_some_and(|(pair, _)| {
            pair.natural_source(Pba(edge - 1)).get() == ends
                && pair.natural_source(Pba(edge)).get() == goes_on
        })
    }
}
