//! The capability of the raw shingled disk: the state of its sectors, and the snapshot that an image stores.
//!
//! The last write is kept apart from the map until it is on record, or until the next command, so that it can be taken back
//! without a second map.

use skylight_disk::shingling::{Destroyed, Pair};
use skylight_disk::{Geometry, LbaExtent, Pba, PbaExtent, Sectors, Shingling};

use super::{Swd, visit_places, visit_writers};
use crate::bands::Bands;
use crate::capabilities::overwriting::{
    Overwriting, OverwritingCounters, ReadMode, SectorState, Snapshot, Stamp,
};
use crate::plan::Layer;

impl Overwriting for Swd {
    fn geometry(&self) -> &Geometry {
        &self.spec.geometry
    }

    fn shingling(&self) -> Shingling {
        self.spec.shingling
    }

    fn bands(&self) -> Option<&Bands> {
        self.spec.bands.as_ref()
    }

    fn mode(&self) -> ReadMode {
        self.spec.mode
    }

    fn set_mode(&mut self, mode: ReadMode) {
        self.spec.mode = mode;
    }

    fn visit_state(&mut self, extent: LbaExtent, visit: &mut dyn FnMut(LbaExtent, SectorState)) {
        self.recorded();
        self.settle();
        let Self { spec, map, stamps, .. } = self;
        visit_places(spec.bands.as_ref(), extent, &mut |lba, place| {
            map.visit(&spec.geometry, place, &mut |piece, fragment| {
                let at = lba + (piece.start - place.start);
                match fragment {
                    None => visit(LbaExtent::new(at, piece.len), SectorState::Native),
                    Some(fragment) => {
                        visit_writers(&spec.geometry, stamps, fragment, &mut |offset, len, source, by| {
                            let extent = LbaExtent::new(at + Sectors(offset), Sectors(len));
                            visit(extent, SectorState::Overwritten { source, by });
                        })
                    }
                }
            });
        });
    }

    fn counters(&mut self) -> OverwritingCounters {
        self.recorded();
        self.settle();
        let (overwritten_sectors, fragments) = (self.map.sectors(), self.map.len() as u64);
        OverwritingCounters { overwritten_sectors, fragments, ..self.counters }
    }

    fn unrecorded(&self) -> Option<(LbaExtent, Stamp)> {
        self.unrecorded
    }

    #[inline]
    fn recorded(&mut self) {
        if let Some((_, stamp)) = self.unrecorded.take() {
            let places = std::mem::take(&mut self.places);
            self.wrote_pieces(&places, stamp);
            self.places = places;
        }
    }

    fn take_back(&mut self) {
        if let Some((_, stamp)) = self.unrecorded.take() {
            self.counters.writes = stamp.write - 1;
        }
    }

    fn redo(&mut self, extent: LbaExtent, stamp: Stamp) {
        self.recorded();
        let Self { spec, places, .. } = self;
        places.clear();
        visit_places(spec.bands.as_ref(), extent, &mut |_, place| places.push(place));
        self.counters.writes = stamp.write;
        self.unrecorded = Some((extent, stamp));
        self.recorded();
    }

    fn snapshot(&mut self) -> Snapshot {
        self.settle();
        self.forget_idle_stamps();
        Snapshot {
            fragments: self.map.iter().collect(),
            stamps: self.stamps.iter().collect(),
            writes: self.counters.writes - u64::from(self.unrecorded.is_some()),
        }
    }

    fn snapshot_entries(&mut self) -> (usize, usize) {
        self.settle();
        (self.map.len(), self.stamps.len())
    }

    fn restore_snapshot(&mut self, snapshot: &Snapshot) -> bool {
        if !self.fits(snapshot) {
            return false;
        }
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
        self.counters.writes = snapshot.writes;
        self.counted = snapshot.writes;
        true
    }
}

impl Swd {
    /// Whether a snapshot may be one of this disk's: its extents are on the disk, by address and apart.
    fn fits(&self, Snapshot { fragments, stamps, .. }: &Snapshot) -> bool {
        let on_disk = |extent: &PbaExtent| {
            let end = extent.start.get().checked_add(extent.len.get());
            !extent.is_empty() && end.is_some_and(|end| end <= self.spec.geometry.capacity().get())
        };
        fragments.iter().all(|fragment| self.may_hold(fragment))
            && fragments.windows(2).all(|pair| pair[0].extent.end() <= pair[1].extent.start)
            && stamps.iter().all(|(extent, _)| on_disk(extent))
            && stamps.windows(2).all(|pair| pair[0].0.end() <= pair[1].0.start)
    }

    /// Whether a fragment may be one of this disk's: it and its sources lie on one track each, and as many
    /// sectors are their sources at most.
    fn may_hold(&self, fragment: &Destroyed) -> bool {
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

    pub(super) fn forget_idle_stamps(&mut self) {
        let sources = self.map.iter().map(|fragment| {
            let len = fragment.last_source - fragment.first_source;
            PbaExtent::new(fragment.first_source, len + Sectors(1))
        });
        self.stamps.keep(sources);
    }
}
