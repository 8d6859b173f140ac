//! How a zone gets the resource that a write in order needs.
//!
//! While some are free a zone just takes one. When none is, zones are closed: their cached writes go to the media, and their
//! resources are free. The metadata of each zone that takes such a resource are written before the write counts.
//!
//! * One zone at a time is drawn at random among those that have nothing in the volatile cache, or among all.
//! * Several are those nearest to the zone that is opened, of those that have nothing in the cache; if these are too few,
//!   the media first take the writes to as many more zones as are missing, in passes as at any other time. A write that waits
//!   for this waits long, and the next ones that open a zone only for metadata: a real drive was seen to do so
//!   (`docs/zoned.md`). These may be of both zones, the one that is opened and the one whose resource it takes.
//!
//! Invariants: no zone loses its resource before its cached writes are on the media; metadata are written once for each
//! resource that was given up and taken again, and for the last one where several are given up at a time.

use skylight_disk::{Lba, LbaExtent, Nanos, PbaExtent, Time};

use super::{Aware, Bookkeeping, ZoneLog};
use crate::capabilities::zoned::Preparation;
use crate::plan::{Medium, Plan, Purpose, Source};
use crate::zoned::rules::ZoneTable;

impl Aware {
    /// Prepares for a write that a volatile cache is about to take at `now`: opens its zones, if it continues them.
    pub(in crate::zoned) fn prepare(
        &mut self,
        extent: LbaExtent,
        now: Time,
        table: &mut ZoneTable,
        plan: &mut Plan,
    ) -> Preparation {
        if std::mem::take(&mut self.synced) {
            self.settled_at = now + self.spec.bookkeeping.settle;
        }
        let layout = table.layout();
        let (first, last) = (layout.zone_of(extent.start), layout.zone_of(Lba(extent.end().get() - 1)));
        let mut opened = Nanos(0);
        for zone in first..=last.min(layout.zones - 1) {
            let pointer = table.descriptor(zone).write_pointer;
            if !pointer.is_some_and(|pointer| extent.start <= pointer && pointer < extent.end())
                || self.open.holds(zone)
            {
                continue;
            }
            if let Some(first) = self.before_closing(zone, table) {
                return first;
            }
            self.open_zone(zone, table, plan);
            opened += self.spec.bookkeeping.open;
        }
        Preparation::Time(opened + self.bookkeeping(now))
    }

    /// Whether a zone may be closed to open another one.
    pub(in crate::zoned) fn may_close(&self, zone: u32) -> bool {
        self.open.holds(zone)
    }

    /// Closes zones so that one can be opened, unless resources are free; returns what has to be on the media before that.
    fn before_closing(&mut self, zone: u32, table: &mut ZoneTable) -> Option<Preparation> {
        let together = self.spec.close_together;
        if together > 1 && !self.open.has_free() && !std::mem::take(&mut self.destaged) {
            let clean = self.open.holders().iter().filter(|&&one| !table.has_admitted(one)).count();
            if clean < together {
                self.destaged = true;
                return Some(Preparation::DestageZones(together - clean));
            }
        }
        if together > 1 && self.close_clean(zone, table) {
            return None;
        }
        let leaving = self.leaving.take().filter(|&zone| self.open.holds(zone));
        let victim = leaving.or_else(|| self.open.victim(|zone| !table.has_admitted(zone)))?;
        if table.has_admitted(victim) {
            self.leaving = Some(victim);
            return Some(Preparation::Destage(table.layout().extent_of(victim)));
        }
        self.close_zone(victim, table);
        None
    }

    /// Closes zones so that one can be opened, unless resources are free, for a write that goes to the media at once.
    pub(super) fn make_room_for(&mut self, zone: u32, table: &mut ZoneTable) {
        if self.spec.close_together > 1 && self.close_clean(zone, table) {
            return;
        }
        if let Some(victim) = self.open.victim(|zone| !table.has_admitted(zone)) {
            self.close_zone(victim, table);
        }
    }

    /// Closes the nearest of the zones that have nothing in the volatile cache, as many as are closed together; whether
    /// resources are free now.
    fn close_clean(&mut self, zone: u32, table: &mut ZoneTable) -> bool {
        if !self.open.has_free() {
            let mut clean: Vec<u32> =
                self.open.holders().iter().copied().filter(|&one| !table.has_admitted(one)).collect();
            clean.sort_unstable_by_key(|&one| (one.abs_diff(zone), one));
            clean.truncate(self.spec.close_together);
            clean.into_iter().for_each(|one| self.close_zone(one, table));
        }
        self.open.has_free()
    }

    /// A zone gives up its resource.
    fn close_zone(&mut self, zone: u32, table: &mut ZoneTable) {
        // Closing a zone that can be written does not fail, and others hold no resource.
        let _ = table.close_zone(zone);
        self.open.give_back(zone);
        self.given_up.push_back(zone);
    }

    /// Gives a zone a free resource. One that another zone gave up costs a write of metadata, and so does the last one where
    /// several are given up at a time.
    pub(super) fn open_zone(&mut self, zone: u32, table: &ZoneTable, plan: &mut Plan) {
        self.open.take(zone);
        let is_last = self.spec.close_together > 1 && !self.open.has_free();
        let closed = self.given_up.pop_front();
        if closed.is_some() || is_last {
            let last = closed.filter(|_| self.spec.zone_log_of_closed);
            self.write_metadata(zone, last, table, plan);
            self.synced = true;
        }
    }

    /// Writes the metadata of a zone; the last copy instead of another one, if it is given.
    pub(super) fn write_metadata(&self, zone: u32, last: Option<u32>, table: &ZoneTable, plan: &mut Plan) {
        for copy in 1..=self.spec.zone_log_copies {
            let of = last.filter(|_| copy == self.spec.zone_log_copies).unwrap_or(zone);
            let at = self.metadata_of(of, table);
            plan.write(Medium::Platter, at, Purpose::MapUpdate, Source::Internal);
        }
    }

    fn metadata_of(&self, zone: u32, table: &ZoneTable) -> PbaExtent {
        match self.spec.zone_log {
            ZoneLog::At(extent) => extent,
            ZoneLog::BeforeZones { .. } => self.places.before(table.layout(), zone),
        }
    }

    /// The time that the controller is busy with its open zones when a write comes.
    fn bookkeeping(&mut self, now: Time) -> Nanos {
        let Bookkeeping { scan_every, scan_per_zone, settle_per_write, .. } = self.spec.bookkeeping;
        let mut busy = if now < self.settled_at { settle_per_write } else { Nanos(0) };
        if scan_every.get() > 0 {
            let scan = scan_per_zone.get() * self.open.holders().len() as u64;
            busy += Nanos(scan.saturating_sub(now.0 % scan_every.get()));
        }
        busy
    }
}
