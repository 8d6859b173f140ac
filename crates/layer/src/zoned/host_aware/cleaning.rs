//! Cleaning of a host-aware drive: one zone at a time, by read-modify-write through a staging area.
//!
//! A zone is larger than the drive's memory, so it is merged in chunks. *Merge*: read what the chunk has in the cache, in
//! the order of the journal, and what of it is valid at home, and write both to the staging area, so that a
//! power cut during the rewrite loses nothing. *Rewrite*: read each chunk from the staging area and write it home.
//! *Commit*: synchronize the metadata of the zone and drop its extents from the cache.
//!
//! What is merged begins with the first sector in the cache, or with the write pointer if that comes before, and ends with
//! the last valid sector. So in an empty zone "the drive has to write some synthesized data to the unwritten areas
//! before the write pointer", and in a full one it has "to read and rewrite valid zone data after the updated LBAs"
//! (Evaluating Host Aware SMR Drives, section 3.4): what is before in a track that is shingled stays, what is
//! behind is destroyed and written again. "Once the cleaning is done for this zone, the write pointer will point to
//! the next LBA of the last valid data block, and the zone state is changed back" (section 2).
//!
//! Only the commit changes what reads return, so a command between two steps finds the drive as if cleaning had not
//! started, and a write to the zone makes cleaning start over.
//!
//! Invariant: a zone is committed only if nothing in it has changed since its first chunk was merged.

use skylight_disk::{Lba, LbaExtent, PbaExtent, Sectors};

use super::Aware;
use crate::plan::{MapChange, Medium, Plan, Purpose, Source, Step};
use crate::zoned::rules::ZoneTable;

/// What happens next to the zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// Merges the chunk from here on.
    Merge(Lba),
    /// Rewrites the chunk from here on.
    Rewrite(Lba),
    Commit,
}

/// A zone that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    zone: u32,
    /// What is merged.
    merged: LbaExtent,
    /// The first sector that was never written at home.
    unwritten: Lba,
    phase: Phase,
}

impl Aware {
    /// One step of cleaning; `false` if there is nothing to clean.
    pub(super) fn clean_step(&mut self, table: &mut ZoneTable, plan: &mut Plan) -> bool {
        let Some(cleaning) = self.cleaning.or_else(|| self.oldest_zone(table)) else {
            return false;
        };
        let Cleaning { merged, phase, .. } = cleaning;
        let next = match phase {
            Phase::Merge(at) => {
                let chunk = self.chunk(&merged, at);
                self.merge(&cleaning, chunk, table, plan);
                let last = chunk.end() == merged.end();
                Some(if last { Phase::Rewrite(merged.start) } else { Phase::Merge(chunk.end()) })
            }
            Phase::Rewrite(at) => {
                let chunk = self.chunk(&merged, at);
                plan.read(Medium::Platter, self.staged(&merged, chunk), Purpose::CleanRead);
                let home = PbaExtent::new(self.places.of(table.layout(), at), chunk.len);
                plan.write(Medium::Platter, home, Purpose::CleanWrite, Source::Merged(at.into()));
                Some(if chunk.end() < merged.end() { Phase::Rewrite(chunk.end()) } else { Phase::Commit })
            }
            Phase::Commit => {
                self.commit(&cleaning, table, plan);
                None
            }
        };
        self.cleaning = next.map(|phase| Cleaning { phase, ..cleaning });
        true
    }

    /// The chunk of a zone that begins at `at`.
    fn chunk(&self, merged: &LbaExtent, at: Lba) -> LbaExtent {
        LbaExtent::new(at, self.spec.chunk.min(merged.end() - at))
    }

    /// The location of a chunk in the staging area.
    fn staged(&self, merged: &LbaExtent, chunk: LbaExtent) -> PbaExtent {
        PbaExtent::new(self.spec.staging.start + (chunk.start - merged.start), chunk.len)
    }

    /// The zone of the oldest write in the cache.
    fn oldest_zone(&mut self, table: &ZoneTable) -> Option<Cleaning> {
        let oldest = self.journal.oldest(&self.map)?;
        let layout = table.layout();
        let zone = layout.zone_of(oldest.start);
        let extent = layout.extent_of(zone);
        let unwritten = extent.start + table.written(zone);
        let (mut start, mut end) = (oldest.start.min(unwritten), oldest.end().max(unwritten));
        for mapped in self.map.overlapping(extent) {
            start = start.min(mapped.lba.start.max(extent.start));
            end = end.max(mapped.lba.end().min(extent.end()));
        }
        let merged = LbaExtent::new(start, end.min(extent.end()) - start);
        Some(Cleaning { zone, merged, unwritten, phase: Phase::Merge(start) })
    }

    /// Reads the valid data of a chunk and writes it to the staging area.
    fn merge(&self, cleaning: &Cleaning, chunk: LbaExtent, table: &ZoneTable, plan: &mut Plan) {
        let mut cached = Sectors(0);
        let mut pieces = Vec::new();
        for mapped in self.map.overlapping(chunk) {
            cached += mapped.lba.len;
            pieces.push(PbaExtent::new(mapped.pba, mapped.lba.len));
        }
        let valid =
            LbaExtent::new(chunk.start, cleaning.unwritten.min(chunk.end()).max(chunk.start) - chunk.start);
        if !valid.is_empty() && cached < chunk.len {
            let home = PbaExtent::new(self.places.of(table.layout(), valid.start), valid.len);
            plan.read(Medium::Platter, home, Purpose::CleanRead);
        }
        pieces.sort_unstable_by_key(|piece| piece.start);
        pieces.into_iter().for_each(|piece| plan.read(Medium::Platter, piece, Purpose::CleanRead));
        let staged = self.staged(&cleaning.merged, chunk);
        plan.write(Medium::Platter, staged, Purpose::CleanStage, Source::Internal);
    }

    /// Makes the rewritten zone the one that is valid.
    fn commit(&mut self, cleaning: &Cleaning, table: &mut ZoneTable, plan: &mut Plan) {
        let extent = table.layout().extent_of(cleaning.zone);
        self.write_metadata(cleaning.zone, None, table, plan);
        self.map.remove(extent);
        self.journal.drop_oldest_in(extent);
        table.cleaned(cleaning.zone, cleaning.merged.end() - extent.start);
        plan.push(Step::Commit(MapChange::Native { lba: cleaning.merged }));
        self.throttle.cleaned += 1;
    }

    /// Cancels the cleaning of a zone that changes: what was merged is stale.
    pub(super) fn cancel_cleaning_of(&mut self, zone: u32) {
        if self.cleaning.is_some_and(|cleaning| cleaning.zone == zone) {
            self.cleaning = None;
        }
    }
}
