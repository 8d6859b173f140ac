//! A run: writes that continue each other, and what they overwrite.
//!
//! A sequential write overwrites what it writes next. Only what the run leaves overwritten at its end matters, and that
//! follows from its start and end: a run is stored as one extent, with the stamp of each of its writes. It is settled when
//! another command touches its tracks, when anything is read, or when the stamps take too much memory (`open_runs`).
//!
//! Invariant: settling gives the same map as applying every write on its own: sectors of the run are native unless a track
//! before them was written after theirs; behind the run, the last write determines the source.

use skylight_disk::shingling::{self, Destroyed, Pair, Sources};
use skylight_disk::{Geometry, Pba, PbaExtent, Sectors, Track};

use super::Swd;
use crate::capabilities::overwriting::Stamp;

/// Writes in a page of memory; pages never move.
const PAGE: usize = 64;

/// The start and the stamp of each write.
pub(super) type Page = Vec<(Pba, Stamp)>;

/// See the module page.
#[derive(Clone, Debug, Default)]
pub(super) struct Run {
    extent: PbaExtent,
    pages: Vec<Page>,
    writes: usize,
}

impl Run {
    /// Its end.
    pub(super) fn end(&self) -> Pba {
        self.extent.end()
    }

    /// The extent that it wrote.
    pub(super) fn extent(&self) -> PbaExtent {
        self.extent
    }

    /// The number of its writes.
    pub(super) fn writes(&self) -> usize {
        self.writes
    }

    /// Adds a write that continues the run, or the first.
    #[inline]
    pub(super) fn push(&mut self, place: PbaExtent, stamp: Stamp, spare: &mut Vec<Page>) {
        if self.writes == 0 {
            self.extent = place;
        } else {
            self.extent.len += place.len;
        }
        let page = self.writes / PAGE;
        if page == self.pages.len() {
            self.pages.push(spare.pop().unwrap_or_else(|| Vec::with_capacity(PAGE)));
        }
        self.pages[page].push((place.start, stamp));
        self.writes += 1;
    }

    /// Returns its pages for reuse.
    pub(super) fn give_back(&mut self, spare: &mut Vec<Page>) {
        self.pages.iter_mut().for_each(Vec::clear);
        spare.append(&mut self.pages);
    }

    fn write(&self, index: usize) -> (Pba, Stamp) {
        self.pages[index / PAGE][index % PAGE]
    }

    /// The number of writes that begin at or before an address.
    fn begun_at(&self, address: Pba) -> usize {
        let page =
            self.pages.partition_point(|page| page.first().is_some_and(|&(start, _)| start <= address));
        let Some(page) = page.checked_sub(1) else { return 0 };
        page * PAGE + self.pages[page].partition_point(|&(start, _)| start <= address)
    }

    /// The writes that wrote a part of the run, with what each wrote of it.
    fn visit_writes(&self, part: PbaExtent, visit: &mut impl FnMut(PbaExtent, Stamp)) {
        for index in self.begun_at(part.start).saturating_sub(1)..self.writes {
            let (start, stamp) = self.write(index);
            let end = if index + 1 < self.writes { self.write(index + 1).0 } else { self.extent.end() };
            let (start, end) = (start.max(part.start), end.min(part.end()));
            if start >= end {
                return;
            }
            visit(PbaExtent::new(start, end - start), stamp);
        }
    }
}

/// The parts of what was destroyed that the run does not write later: before and behind `later`.
fn outside(geometry: &Geometry, destroyed: Destroyed, later: PbaExtent, visit: &mut impl FnMut(Destroyed)) {
    let Destroyed { extent, first_source, last_source } = destroyed;
    if later.is_empty() || extent.end() <= later.start || later.end() <= extent.start {
        return visit(destroyed);
    }
    let sources = Sources::new(geometry, extent.start, first_source, last_source);
    let mut part = |start: Pba, end: Pba| {
        if start < end {
            visit(Destroyed {
                extent: PbaExtent::new(start, end - start),
                first_source: sources.at((start - extent.start).get()),
                last_source: sources.at((end - extent.start).get() - 1),
            });
        }
    };
    part(extent.start, later.start);
    part(later.end(), extent.end());
}

impl Swd {
    /// Brings the map up to date with a run.
    pub(super) fn settle_writes(&mut self, run: &Run) {
        self.map.clear(&self.spec.geometry, run.extent);
        let mut rest = run.extent;
        while !rest.is_empty() {
            rest = self.settle_track(run, rest);
        }
        if self.stamps.is_crowded(self.map.len()) {
            self.forget_idle_stamps();
        }
    }

    /// What the run does on the track where `rest`, which is left of it, begins; what is left then.
    fn settle_track(&mut self, run: &Run, rest: PbaExtent) -> PbaExtent {
        let (on, written, beyond) = shingling::split_at_track(&self.spec.geometry, rest);
        // Where the run writes all of the next track, that track's write covers whatever this one's did.
        let next_track = Sectors(on.sectors_per_track.into());
        if on.tracks_ahead > 0 && on.end() + next_track <= beyond.end() {
            if self.spec.shingling.width_tracks() > 1 {
                self.count_all(run, written);
            }
            return beyond;
        }
        let mut behind = std::mem::take(&mut self.behind);
        behind.clear();
        self.spec.shingling.visit_behind(&self.spec.geometry, &on, &mut |track| {
            behind.push(Pair::new(&on, &track));
        });
        if let Some(used) = self.destroy(written, &behind, beyond) {
            run.visit_writes(used, &mut |part, stamp| self.stamps.set(part, stamp));
        }
        let whole = |track: &Track| track.first_sector == 0 && track.end_sector == track.sectors_per_track;
        if behind.iter().any(|pair| whole(&pair.behind)) {
            self.count_all(run, written);
        } else {
            self.count(run, written, |part| {
                let mut destroys = false;
                for pair in &behind {
                    pair.destroyed(part, &mut |_| destroys = true);
                }
                destroys
            });
        }
        self.behind = behind;
        beyond
    }

    /// Notes what a written part of a track destroys behind it and `later` does not write; the sources, from the
    /// first to the last.
    fn destroy(&mut self, written: PbaExtent, behind: &[Pair], later: PbaExtent) -> Option<PbaExtent> {
        let Self { spec, map, .. } = self;
        let mut sources = None::<(Pba, Pba)>;
        let covered = |track: &Track| later.start <= track.start && track.end() <= later.end();
        for pair in behind.iter().filter(|pair| !covered(&pair.behind)) {
            pair.destroyed(written, &mut |destroyed| {
                outside(&spec.geometry, destroyed, later, &mut |part| {
                    map.set(&spec.geometry, pair, part);
                    let (first, last) = sources.unwrap_or((part.first_source, part.last_source));
                    sources = Some((first.min(part.first_source), last.max(part.last_source)));
                });
            });
        }
        sources.map(|(first, last)| PbaExtent::new(first, last - first + Sectors(1)))
    }

    /// Counts the writes of a part of the run, all of which destroy something: no look at each is needed.
    fn count_all(&mut self, run: &Run, part: PbaExtent) {
        let (first, end) =
            (run.begun_at(part.start).saturating_sub(1), run.begun_at(Pba(part.end().get() - 1)));
        let (first_write, last_write) = (run.write(first).1.write, run.write(end - 1).1.write);
        self.counters.overwriting_writes += (end - first) as u64 - u64::from(first_write == self.counted);
        self.counted = last_write;
    }

    /// Counts the writes of a part of the run that destroy something.
    fn count(&mut self, run: &Run, part: PbaExtent, destroys: impl Fn(PbaExtent) -> bool) {
        run.visit_writes(part, &mut |part, stamp| {
            if stamp.write != self.counted && destroys(part) {
                self.counted = stamp.write;
                self.counters.overwriting_writes += 1;
            }
        });
    }
}
