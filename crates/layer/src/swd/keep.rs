//! What a raw shingled disk keeps over a restart: the map of what was overwritten, and by which writes.
//!
//! An image keeps a [`Snapshot`] and the writes since ([`Swd::redo`]). What is overwritten follows from which
//! sectors were written in which order, so both together are the disk as it was.

use skylight_disk::shingling::{Destroyed, Pair};
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};

use super::stamps::Stamp;
use super::{Swd, visit_places};
use crate::plan::Layer;

/// What a snapshot of the map keeps: see [`Swd::snapshot`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// What is overwritten, by address.
    pub fragments: Vec<Destroyed>,
    /// Who wrote the sources, by address.
    pub stamps: Vec<(PbaExtent, Stamp)>,
    /// Writes so far.
    pub writes: u64,
}

impl Swd {
    /// All that is needed to go on elsewhere.
    pub fn snapshot(&mut self) -> Snapshot {
        self.settle();
        self.forget_idle_stamps();
        Snapshot {
            fragments: self.map.iter().collect(),
            stamps: self.stamps.iter().collect(),
            writes: self.writes,
        }
    }

    /// Whether a fragment may be one of this disk's: it and its sources lie on one track each, and as many
    /// sectors are their sources at most.
    pub fn may_hold(&self, fragment: &Destroyed) -> bool {
        let geometry = &self.spec.geometry;
        let on_track = |first: Pba, last: Pba| {
            last.get() < geometry.capacity().get() && first <= last && last < geometry.track_of(first).end()
        };
        let Destroyed { extent, first_source, last_source } = *fragment;
        let end = extent.start.get().checked_add(extent.len.get()).filter(|_| !extent.is_empty());
        end.is_some_and(|end| on_track(extent.start, Pba(end - 1)))
            && on_track(first_source, last_source)
            && geometry.track_of(extent.start).start != geometry.track_of(first_source).start
    }

    /// Goes on from a snapshot of a disk of the same geometry.
    pub fn restore(&mut self, snapshot: &Snapshot) {
        self.erase();
        for &fragment in &snapshot.fragments {
            let geometry = &self.spec.geometry;
            let (on, behind) =
                (geometry.track_of(fragment.first_source), geometry.track_of(fragment.extent.start));
            self.map.set(geometry, &Pair::new(&on, &behind), fragment);
        }
        for &(extent, stamp) in &snapshot.stamps {
            self.stamps.set(extent, stamp);
        }
        self.writes = snapshot.writes;
        self.counted = snapshot.writes;
    }

    /// A disk of the same kind that was never written.
    pub fn blank(&self) -> Self {
        Self::new(self.spec.clone())
    }

    /// Writes so far.
    pub fn writes(&self) -> u64 {
        self.writes
    }

    /// Does a write again that was made before, with its own number and time; numbers rise, and some may be
    /// missing.
    pub fn redo(&mut self, extent: LbaExtent, stamp: Stamp) {
        self.writes = stamp.write;
        let mut places = Vec::new();
        visit_places(self.spec.bands.as_ref(), extent, &mut |_, place| places.push(place));
        self.wrote_pieces(&places, stamp);
    }

    pub(super) fn forget_idle_stamps(&mut self) {
        let sources = self.map.iter().map(|fragment| {
            let len = fragment.last_source - fragment.first_source;
            PbaExtent::new(fragment.first_source, len + Sectors(1))
        });
        self.stamps.keep(sources);
    }
}
