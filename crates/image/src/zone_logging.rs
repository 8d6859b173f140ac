//! What an image keeps of a drive with zones, beside its data: how far each zone is written.
//!
//! The layer alone knows the conditions of zones ([`skylight_layer::Zoned`]). After each plan it says which records have
//! changed, and the image logs a tag for each: the record, how far the zone was written before, and the checksum of the
//! data that the plan wrote in the zone. Of tags that a power cut may have left without their data, or without those before them, a
//! recovery takes only those that continue what it has ([`crate::replay`]); so a zone is never found written beyond its
//! data. The record of a zone comes before a change of the map that takes data of the zone out of the persistent cache, which does
//! not count without it: what is not in the cache is at home before the end of data. What a volatile cache alone has is in no
//! record.
//!
//! Zones that are open are found closed, as after power-on (ZBC, 4.4.3.5).
//!
//! Invariants:
//! * Sectors of a zone before its end of data are what was written there or, where a write left them out, zeros, which are
//!   made before the tag is logged. Sectors behind it are not read.
//! * What a reset gives up is written over only after a sync that made the reset durable, so a zone that is found as it was
//!   before the reset has its data.
//! * A plan that is refused leaves the records as they were.

use std::collections::BTreeSet;

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::capabilities::zoned::{ZoneLayout, ZoneRecord};
use skylight_layer::{Layer, MapChange, Plan, Purpose, Source, Step};

use crate::error::ImageError;
use crate::format::tag_log::{Kind, TAGS};
use crate::host_write_data::{HostData, HostWrite};
use crate::in_place_image::Place;
use crate::interpreter::Interpreter;
use crate::non_native_locations::State;
use crate::planted_bugs::Planted;
use crate::store_errors::changes;

/// Bytes of zeros that are written at a time where the store cannot discard.
const ZEROS_BYTES: u64 = 1 << 20;

impl State {
    /// Brings the zones of a layer into the state of their records.
    pub fn restore_zones(&self, layer: &mut dyn Layer) -> Result<(), String> {
        let Some(zoned) = layer.zoned() else {
            return match self.zones.count() {
                0 => Ok(()),
                _ => Err("it has records of zones, and its drive has none".to_owned()),
            };
        };
        let wrong = self.zones.iter().find(|record| !zoned.restore_zone(**record));
        zoned.take_changed(&mut |_| {});
        wrong.map_or(Ok(()), |record| Err(format!("zone {} cannot be as its record says", record.zone)))
    }
}

impl State {
    /// Brings the records of zones and the persistent cache together, where a power cut has left a write in the cache without
    /// the record that came with it: what the cache has of zones that are empty is forgotten, and what it has of others was
    /// written out of order.
    pub fn reconcile_zones(&mut self, zones: &ZoneLayout) {
        let all = LbaExtent::new(Lba(0), zones.sectors);
        let in_cache = self.map.overlapping(all).map(|mapped| zones.zone_of(mapped.lba.start));
        let cached: BTreeSet<u32> = in_cache.filter(|&zone| !zones.is_conventional(zone)).collect();
        for zone in cached {
            match self.zones.of(zone) {
                record if record == ZoneRecord::empty(zone) => self.map.remove(zones.extent_of(zone)),
                record => self.zones.set(ZoneRecord { non_sequential: true, ..record }),
            }
        }
    }
}

/// A part of a host write that lies in one zone.
struct Run<'a> {
    extent: LbaExtent,
    data: &'a [u8],
}

impl Interpreter {
    /// Notes which zones a plan of `layer` changes; whether there is anything to be done for the plan at all.
    pub(crate) fn note_zones(&mut self, plan: &Plan, layer: &mut dyn Layer) -> bool {
        if let Some(zoned) = layer.zoned() {
            zoned.take_changed(&mut |record| self.zone_changes.push(record));
        }
        !self.zone_changes.is_empty() || changes(plan)
    }

    /// Makes zeros of what the zones of a plan get before their end of data without anybody having written it; whether there was
    /// anything.
    pub(crate) fn fill_zones(
        &mut self,
        plan: &Plan,
        layer: &dyn Layer,
        writes: &[HostWrite<'_>],
    ) -> Result<bool, ImageError> {
        let mut any = false;
        for index in 0..self.zone_changes.len() {
            let record = self.zone_changes[index];
            let before = self.state.zones.of(record.zone).written;
            let Some(zones) = self.zones.filter(|_| record.written > before) else { continue };
            let zone = zones.extent_of(record.zone);
            let written: Vec<LbaExtent> = runs_in(zone, plan, writes).iter().map(|run| run.extent).collect();
            let gap = LbaExtent::new(zone.start + before, record.written - before);
            any |= self.fill_gaps(gap, written, layer)?;
        }
        Ok(any)
    }

    /// Logs the records of zones in an extent that a plan has changed; `zeros` if the plan made zeros, which have no checksum.
    pub(crate) fn record_zones(
        &mut self,
        (plan, zeros): (&Plan, bool),
        of: LbaExtent,
        layer: &mut dyn Layer,
        writes: &[HostWrite<'_>],
    ) -> Result<(), ImageError> {
        let mut next = 0;
        while let (Some(&record), Some(zones)) = (self.zone_changes.get(next), self.zones) {
            let zone = zones.extent_of(record.zone);
            if zone.start >= of.end() || of.start >= zone.end() {
                next += 1;
                continue;
            }
            let before = self.state.zones.of(record.zone).written;
            let runs = if record.written > before { runs_in(zone, plan, writes) } else { Vec::new() };
            if record.written < before {
                self.give_up(LbaExtent::new(zone.start, before), layer);
            }
            // Data that no checksum is of: zeros, and what cleaning has put there.
            let vouched: u64 = runs.iter().map(|run| run.extent.len.get()).sum();
            let more = record.written.get().saturating_sub(before.get());
            let waits = zeros || vouched < more && self.flush.is_untagged();
            self.log_record(record, &runs, waits, layer)?;
            self.zone_changes.swap_remove(next);
            if record == ZoneRecord::empty(record.zone) && self.state.map.overlapping(zone).next().is_some() {
                // A reset gives up what the persistent cache has of the zone, too.
                self.commit(MapChange::Native { lba: zone }, layer, &mut HostData::of(plan, &[]))?;
            }
        }
        Ok(())
    }

    /// Logs one record, with a tag for each run of data but the last before it.
    fn log_record(
        &mut self,
        record: ZoneRecord,
        runs: &[Run<'_>],
        waits: bool,
        layer: &mut dyn Layer,
    ) -> Result<(), ImageError> {
        let old = self.state.zones.of(record.zone);
        let mut sums: Vec<(LbaExtent, u32)> =
            runs.iter().map(|run| (run.extent, crc32c::crc32c(run.data))).collect();
        if sums.is_empty() {
            sums.push((LbaExtent::new(Lba(0), Sectors(0)), 0));
        }
        let last = sums.len() - 1;
        for (index, (extent, data_crc)) in sums.into_iter().enumerate() {
            if self.log.room() <= self.flush.waiting_tags() + 2 * TAGS as u64 {
                self.checkpoint_now(false, layer)?;
            }
            self.begin_tag()?;
            let record = if index == last { record } else { old };
            let kind = Kind::Zone { data_crc, record, before: old.written, follows: self.follows() };
            let tag = self.tag(extent, Pba(0), kind);
            let Self { state, flush, .. } = self;
            state.visit_home(layer, extent, &mut |piece| flush.since.vouched.add(piece));
            self.band_tag(tag, waits);
        }
        Ok(())
    }

    /// Tags of the plan that is executed, so far: on a drive with zones, a later one makes no sense without them.
    pub(crate) fn follows(&self) -> u32 {
        let tags = self.sequence - self.plan_began;
        if self.zones.is_some() { tags as u32 } else { 0 }
    }

    /// Makes zeros of the parts of an extent that are neither written now nor in the persistent cache; whether there were any.
    fn fill_gaps(
        &mut self,
        extent: LbaExtent,
        mut covered: Vec<LbaExtent>,
        layer: &dyn Layer,
    ) -> Result<bool, ImageError> {
        covered.extend(self.state.map.overlapping(extent).map(|mapped| mapped.lba));
        covered.push(LbaExtent::new(extent.end(), Sectors(0)));
        covered.sort_by_key(|covered| covered.start);
        let (mut at, mut any) = (extent.start, false);
        for covered in covered {
            let gap_end = covered.start.min(extent.end());
            if at < gap_end {
                self.make_zeros(LbaExtent::new(at, gap_end - at), layer)?;
                any = true;
            }
            at = at.max(covered.end());
        }
        Ok(any)
    }

    /// Makes zeros where a host extent lies without the cache.
    fn make_zeros(&mut self, extent: LbaExtent, layer: &dyn Layer) -> Result<(), ImageError> {
        let (mut pieces, home) = (Vec::new(), self.home_medium());
        self.state.visit_home(layer, extent, &mut |piece| pieces.push(piece));
        for &piece in &pieces {
            self.claim(home, piece, layer)?;
        }
        if self.store.can_discard() {
            return self.discard(extent, layer);
        }
        for piece in pieces {
            let mut done = Sectors(0);
            while done < piece.len {
                let here = (piece.len - done).min(Sectors(ZEROS_BYTES / SECTOR_BYTES));
                self.write((home, piece.start + done), &vec![0; here.bytes() as usize], layer)?;
                done += here;
            }
        }
        self.flush.since.untagged = true;
        Ok(())
    }

    /// What lies in an extent is dead: a recovery may need it until the tag that says so is durable.
    fn give_up(&mut self, extent: LbaExtent, layer: &dyn Layer) {
        if self.plants.has(Planted::ResetForgets) {
            return;
        }
        let Self { state, flush, .. } = self;
        let mut add = |piece: PbaExtent| flush.since.given_up.add(piece);
        state.visit_home(layer, extent, &mut add);
    }

    /// Reads what the plan of a read says: data, or the pattern of what was not written.
    ///
    /// # Errors
    /// When the store fails.
    pub fn read_zones(
        &self,
        plan: &Plan,
        extent: LbaExtent,
        buffer: &mut [u8],
        layer: &dyn Layer,
    ) -> Result<(), ImageError> {
        let mut at = 0;
        for step in plan.steps() {
            match *step {
                Step::Access { purpose: Purpose::Host | Purpose::Cache, extent: piece, .. } => {
                    let len = piece.len.bytes() as usize;
                    let lba = LbaExtent::new(extent.start + Sectors(at as u64 / SECTOR_BYTES), piece.len);
                    self.read(lba, &mut buffer[at..at + len], layer)?;
                    at += len;
                }
                Step::Fill { extent: part, pattern, .. } => {
                    let len = part.len.bytes() as usize;
                    buffer[at..at + len].fill(pattern);
                    at += len;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Visits what a zone has behind its capacity, if `at` is there and before `end`: no place; where it ends.
    pub(crate) fn visit_gap(&self, at: Lba, end: Lba, visit: &mut dyn FnMut(Place)) -> Lba {
        let Some(zones) = self.zones.filter(|zones| zones.capacity < zones.zone && at < end) else {
            return at;
        };
        let zone = zones.zone_of(at);
        if at < zones.start_of(zone) + zones.capacity_of(zone) {
            return at;
        }
        let until = zones.extent_of(zone).end().min(end);
        let offset = Sectors(at.get()).bytes();
        visit(Place { offset, len: (until - at).bytes(), cached: false, allocated: false });
        self.visit_gap(until, end, visit)
    }

    /// The zones that a refused plan changed are as their records say.
    pub(crate) fn take_back_zones(&mut self, layer: &mut dyn Layer) {
        let Some(zoned) = layer.zoned() else { return };
        zoned.take_changed(&mut |record| self.zone_changes.push(record));
        for record in self.zone_changes.drain(..) {
            let record = self.state.zones.of(record.zone);
            if !zoned.restore_zone(record) {
                // A fault of this program: it was the record of this zone.
                self.health.stop(format!("zone {} cannot be as it was", record.zone));
            }
        }
        zoned.take_changed(&mut |_| {});
    }
}

/// What a plan writes of host writes in a zone at native locations, by address.
fn runs_in<'a>(zone: LbaExtent, plan: &Plan, writes: &[HostWrite<'a>]) -> Vec<Run<'a>> {
    let done = |write: &&HostWrite<'a>| {
        plan.completions().any(|(id, outcome)| id == write.id && outcome.status().is_ok())
    };
    let taken: Vec<&HostWrite<'a>> = writes.iter().filter(done).collect();
    let mut runs: Vec<Run<'a>> = Vec::new();
    for step in plan.steps() {
        let Step::Access { extent, source: Source::Host(start), .. } = step else { continue };
        let start = Lba::from(*start);
        let (start, end) = (start.max(zone.start), (start + extent.len).min(zone.end()));
        for write in &taken {
            let (from, to) = (start.max(write.extent.start), end.min(write.extent.end()));
            if from < to {
                let byte = |at: Lba| (at - write.extent.start).bytes() as usize;
                let data = &write.data[byte(from)..byte(to)];
                runs.push(Run { extent: LbaExtent::new(from, to - from), data });
            }
        }
    }
    runs.sort_by_key(|run| run.extent.start);
    runs
}
