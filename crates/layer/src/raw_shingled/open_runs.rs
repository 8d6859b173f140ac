//! Open runs: sequences of writes that continue each other, one for each place where the host appends, such as a log in
//! each of many bands.
//!
//! The effects of a run (`sequential_run`) are delayed until they are needed. Several runs can be open because they are independent:
//! the *hull* of a run is all addresses between the first and the last of its tracks and of those behind them, and hulls
//! of open runs do not overlap. A write into the hull of a run settles the run first. The end of a write that continues no
//! run is remembered. One write that continues it may be chance; the second opens a run.
//!
//! *Lone* writes, which continue nothing, are delayed too, and applied in a batch (`batch`): before a run opens or grows
//! over more tracks, and when there are many. Logs so close together that each settles the run of the other too early are
//! treated as lone writes: after one such run no other opens until the lone writes have been applied.
//!
//! Invariants: settling the open runs in any order gives the same map as their writes in order, because no two runs affect
//! the same sector; no delayed lone write touches the hull of an open run.

use skylight_disk::shingling;
use skylight_disk::{Pba, PbaExtent, Sectors, Track};

use super::Swd;
use super::sequential_run::{Page, Run};
use crate::capabilities::overwriting::Stamp;

/// Maximum number of open runs: each costs a page of memory.
const MOST_RUNS: usize = 128;
/// Remembered ends of writes, and slots for them: many more, so that few logs evict each other's.
const MOST_ENDS: u64 = 128;
const END_PLACES: usize = 1024;
/// Maximum number of writes in all open runs, 24 bytes each: they share the cost of settling.
const MOST_WRITES: usize = 32 * 1024;

/// Maximum number of delayed lone writes: applying them takes about a millisecond, for which a write waits. The more
/// there are, the more share a track and a leaf of the map, which are then looked up once.
const MOST_LONE: usize = 2048;

/// Minimum number of writes that makes a run worth opening.
const FEW_WRITES: usize = 4;

/// An empty extent.
const NOTHING: PbaExtent = PbaExtent::new(Pba(0), Sectors(0));

/// A range of addresses, `to` excluded.
#[derive(Clone, Copy, Debug)]
pub(super) struct Hull {
    from: Pba,
    to: Pba,
}

impl Hull {
    fn touches(self, other: Self) -> bool {
        self.from < other.to && other.from < self.to
    }

    fn with(self, other: Self) -> Self {
        Self { from: self.from.min(other.from), to: self.to.max(other.to) }
    }
}

/// An open run.
#[derive(Clone, Debug)]
struct Open {
    run: Run,
    hull: Hull,
    /// The end of the last track that is in the hull together with all tracks behind it.
    known_to: Pba,
}

/// The end of a write.
#[derive(Clone, Copy, Debug)]
struct End {
    at: Pba,
    /// Whether the write continued another.
    goes_on: bool,
    /// The number of ends before it.
    number: u64,
}

/// Where writes ended that no open run goes on from: looked for at every write that continues none of these. Each has
/// one place, by its address, and is forgotten when another comes there, or when [`MOST_ENDS`] came anywhere.
#[derive(Clone, Debug)]
struct Ends {
    ends: Box<[End]>,
    number: u64,
}

impl Default for Ends {
    fn default() -> Self {
        let none = End { at: Pba(u64::MAX), goes_on: false, number: 0 };
        Self { ends: vec![none; END_PLACES].into_boxed_slice(), number: 0 }
    }
}

impl Ends {
    /// Addresses a block, a track or a band apart are to have different places: the golden section does that.
    fn place(at: Pba) -> usize {
        (at.get().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) as usize % END_PLACES
    }

    fn push(&mut self, at: Pba, goes_on: bool) {
        self.ends[Self::place(at)] = End { at, goes_on, number: self.number };
        self.number += 1;
    }

    /// Whether a write ended here, and if so, whether it went on from another.
    #[inline]
    fn find(&self, at: Pba) -> Option<bool> {
        let end = self.ends[Self::place(at)];
        (end.at == at && self.number - end.number <= MOST_ENDS).then_some(end.goes_on)
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub(super) struct Runs {
    open: Vec<Open>,
    /// Where each of them ends: looked for at every write.
    ends: Vec<Pba>,
    /// Their hulls by address: looked at by every write that continues nothing.
    hulls: Vec<Hull>,
    /// The one that was continued last.
    last: usize,
    settled: Ends,
    /// Writes that continue nothing and wait to be noted, in their order.
    lone: Vec<(PbaExtent, Stamp)>,
    /// A run was settled that was not worth opening: no other opens until the lone writes have been noted.
    crowded: bool,
    writes: usize,
    spare: Vec<Page>,
}

impl Runs {
    /// The run that a write at this address continues.
    #[inline]
    fn continued_at(&mut self, start: Pba) -> Option<usize> {
        if self.ends.get(self.last) != Some(&start) {
            self.last = self.ends.iter().position(|&end| end == start)?;
        }
        Some(self.last)
    }

    /// How many hulls end at an address or before it.
    fn hulls_before(&self, address: Pba) -> usize {
        self.hulls.partition_point(|hull| hull.to <= address)
    }

    /// Whether the hull of an open run touches a hull.
    fn touches(&self, hull: Hull) -> bool {
        self.hulls.get(self.hulls_before(hull.from)).is_some_and(|next| next.touches(hull))
    }

    fn push(&mut self, open: Open) {
        self.last = self.open.len();
        self.ends.push(open.run.end());
        self.hulls.insert(self.hulls_before(open.hull.from), open.hull);
        self.open.push(open);
    }

    fn remove(&mut self, index: usize) -> Open {
        self.ends.swap_remove(index);
        let open = self.open.swap_remove(index);
        self.hulls.remove(self.hulls_before(open.hull.from));
        open
    }
}

impl Swd {
    /// Notes what a write of a place on the disk does.
    #[inline]
    pub(super) fn wrote(&mut self, place: PbaExtent, stamp: Stamp) {
        let Some(index) = self.runs.continued_at(place.start) else {
            return self.wrote_elsewhere(place, stamp);
        };
        if self.runs.writes >= MOST_WRITES {
            self.settle();
            return self.open_run(place, stamp);
        }
        let Runs { open, ends, spare, writes, .. } = &mut self.runs;
        let end = place.end();
        if end > open[index].known_to {
            return self.goes_on(index, place, stamp);
        }
        open[index].run.push(place, stamp, spare);
        ends[index] = end;
        *writes += 1;
    }

    /// The pieces of a write of a banded disk, which counts once.
    pub(super) fn wrote_pieces(&mut self, places: &[PbaExtent], stamp: Stamp) {
        if let [place] = places {
            return self.wrote(*place, stamp);
        }
        self.settle();
        places.iter().for_each(|&place| self.wrote_alone(place, stamp, false));
    }

    fn wrote_elsewhere(&mut self, place: PbaExtent, stamp: Stamp) {
        let goes_on = self.runs.settled.find(place.start);
        if goes_on == Some(true) && !self.runs.crowded {
            return self.open_run(place, stamp);
        }
        self.wrote_alone(place, stamp, goes_on.is_some());
    }

    /// A write that continues nothing waits with others; open runs that it meets are settled first.
    fn wrote_alone(&mut self, place: PbaExtent, stamp: Stamp, goes_on: bool) {
        if !self.runs.open.is_empty() {
            let (hull, _) = self.hull(place, NOTHING);
            self.settle_touching(hull);
        }
        self.runs.settled.push(place.end(), goes_on);
        self.runs.lone.push((place, stamp));
        if self.runs.lone.len() >= MOST_LONE {
            self.settle_lone();
            // Most of these were opened by chance; every lone write would have to be held against them.
            self.settle_runs(|open| open.run.writes() < FEW_WRITES);
        }
    }

    /// Notes the lone writes that wait.
    fn settle_lone(&mut self) {
        self.runs.crowded = false;
        if self.runs.lone.is_empty() {
            return;
        }
        let mut lone = std::mem::take(&mut self.runs.lone);
        self.settle_batch(&lone);
        lone.clear();
        self.runs.lone = lone;
    }

    /// A run goes on where its hull ends.
    fn goes_on(&mut self, index: usize, place: PbaExtent, stamp: Stamp) {
        self.settle_lone();
        let mut open = self.runs.remove(index);
        let (hull, known_to) = self.hull(place, open.run.extent());
        open.hull = open.hull.with(hull);
        open.known_to = known_to;
        self.settle_touching(open.hull);
        open.run.push(place, stamp, &mut self.runs.spare);
        self.runs.writes += 1;
        self.runs.push(open);
    }

    fn open_run(&mut self, place: PbaExtent, stamp: Stamp) {
        self.settle_lone();
        let (hull, known_to) = self.hull(place, NOTHING);
        self.settle_touching(hull);
        if self.runs.open.len() == MOST_RUNS {
            let oldest = self.runs.remove(0);
            self.settle_run(oldest.run);
        }
        let mut run = Run::default();
        run.push(place, stamp, &mut self.runs.spare);
        self.runs.writes += 1;
        self.runs.push(Open { run, hull, known_to });
    }

    /// All tracks that a write of a place touches and those behind them, without what the hull of `known` has if
    /// that is not empty; and the end of the last of the first.
    fn hull(&self, place: PbaExtent, known: PbaExtent) -> (Hull, Pba) {
        let geometry = &self.spec.geometry;
        let mut hull = Hull { from: place.start, to: place.end() };
        let (mut rest, mut known_to) = (place, place.end());
        while !rest.is_empty() {
            let (on, _, beyond) = shingling::split_at_track(geometry, rest);
            known_to = on.end();
            hull = hull.with(Hull { from: on.start, to: on.end() });
            let widen = &mut |track: Track| hull = hull.with(Hull { from: track.start, to: track.end() });
            if self.follows(&on, known) {
                self.spec.shingling.visit_last_behind(geometry, &on, widen);
            } else {
                self.spec.shingling.visit_behind(geometry, &on, widen);
            }
            rest = beyond;
        }
        (hull, known_to)
    }

    /// Whether a part of the track before this one on its surface, walked the same way, is in `known`: then the
    /// hull of that has all tracks behind this one but the last. So going on costs the same whatever `k` is.
    fn follows(&self, on: &Track, known: PbaExtent) -> bool {
        if known.is_empty() || self.spec.shingling.width_tracks() <= 2 {
            return false;
        }
        let before = if on.inward { on.track.checked_sub(1) } else { on.track.checked_add(1) };
        let mut follows = false;
        if let Some(before) = before {
            self.spec.geometry.visit_track(on.surface, before, &mut |piece| {
                let touches = piece.start < known.end() && known.start < piece.end();
                follows |= piece.inward == on.inward && touches;
            });
        }
        follows
    }

    /// Brings the map up to date with the runs whose hulls a hull touches.
    fn settle_touching(&mut self, hull: Hull) {
        if self.runs.touches(hull) {
            let few = |open: &Open| open.hull.touches(hull) && open.run.writes() < FEW_WRITES;
            self.runs.crowded |= self.runs.open.iter().any(few);
            self.settle_runs(|open| open.hull.touches(hull));
        }
    }

    /// Brings the map up to date with some of the open runs.
    fn settle_runs(&mut self, which: impl Fn(&Open) -> bool) {
        let mut index = 0;
        while index < self.runs.open.len() {
            if which(&self.runs.open[index]) {
                let open = self.runs.remove(index);
                self.settle_run(open.run);
            } else {
                index += 1;
            }
        }
    }

    /// Brings the map up to date with all that was written.
    pub(super) fn settle(&mut self) {
        self.settle_lone();
        self.runs.ends.clear();
        self.runs.hulls.clear();
        while let Some(open) = self.runs.open.pop() {
            self.settle_run(open.run);
        }
    }

    fn settle_run(&mut self, mut run: Run) {
        self.settle_writes(&run);
        self.runs.writes -= run.writes();
        self.runs.settled.push(run.end(), true);
        run.give_back(&mut self.runs.spare);
    }
}
