//! What a host-aware drive does besides the standard, as a real one was measured to do it (`docs/zoned.md`).
//!
//! * [`open_zones`]: writes in order need a resource; one more zone than there are costs a write of metadata.
//! * `open_zone_allocation`: which zones are closed for it, what a write waits for then, and where the metadata go.
//! * This file: writes out of order go to a persistent cache, a journal at a fixed place, that has an extent map.
//! * `cleaning`: zones leave the cache by read-modify-write, in idle time and when the cache is full.
//! * [`throttle`]: how long a write waits for cleaning when the cache is full.
//! * `log_compaction`: how the reserve of a full cache gets free slots again, when the oldest entries hold writes to many zones.
//!
//! The journal is that of the drive-managed drives of the same maker (`journaled/journal.rs`): each entry takes whole slots, so a
//! write that is flushed alone takes a slot whatever its size. The rules of zones stay with the zone table, which cleaning
//! tells of its work (`ZoneTable::cleaned`).
//!
//! Invariants: the map points to the journal for every sector that was written out of order since its zone was cleaned or
//! reset; entries are not overwritten while the map points to them; what the map does not have is at home below
//! `ZoneTable::written`, and was never written behind it.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), sections 2 and 3.

mod cleaning;
mod log_compaction;
mod open_zone_allocation;
pub mod open_zones;
#[cfg(test)]
mod tests;
pub mod throttle;

use std::collections::VecDeque;

use skylight_command::CommandId;
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors, Time};

use super::rules::{Placed, PointerMoves, ZoneTable};
use super::{Places, UNWRITTEN};
use crate::capabilities::zoned::ZoneLayout;
use crate::extent_map::ENTRY_MAX_SECTORS;
use crate::extent_map::ExtentMap;
use crate::journaled::JournalSpec;
use crate::journaled::journal::{EntryLocation, Journal, JournalRecord};
use crate::plan::{CacheUse, Idle, MapChange, Medium, Piece, Plan, Purpose, Room, Source, Step};
use crate::restore::{CachedExtent, MediaUse, Misplaced, Recovered};
use cleaning::Cleaning;
use open_zones::OpenZones;
use throttle::{Estimate, Throttle, ThrottleSpec};

/// Entries of the map that a write of ordinary size may add: its own, and one where it splits an extent.
const WRITE_MAP_ENTRIES: u64 = 2;

/// What the controller of a host-aware drive needs for its bookkeeping of open zones, besides the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bookkeeping {
    /// Time to give a zone a resource.
    pub open: Nanos,
    /// After the metadata of a zone was written, the controller works on it for so long ...
    pub settle: Nanos,
    /// ... in which it takes this much longer for each write.
    pub settle_per_write: Nanos,
    /// So often it goes through all open zones ...
    pub scan_every: Nanos,
    /// ... which takes so long for each, and during which it takes no write.
    pub scan_per_zone: Nanos,
}

/// Where the metadata of zones are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneLog {
    /// All at one place.
    At(PbaExtent),
    /// Before the zones, where so much space is left.
    BeforeZones {
        /// The space of each zone.
        each: Sectors,
        /// For how many neighbours it is together, before the first of them.
        together: u32,
    },
}

/// The sizes and rules of a host-aware drive.
///
/// More than 15 fields: one for each part and rule of the drive that was measured apart.
#[derive(Clone, Debug)]
pub struct AwareSpec {
    /// Zones that can be written in order without giving up the resource of another one.
    pub open_zones: usize,
    /// Zones that give up their resources at a time.
    pub close_together: usize,
    /// The seed of the choice among them.
    pub seed: u64,
    /// What open zones cost the controller.
    pub bookkeeping: Bookkeeping,
    /// Where the metadata of a zone are written.
    pub zone_log: ZoneLog,
    /// So many times, one after another.
    pub zone_log_copies: u32,
    /// The last of these is of the zone whose resource was taken, if it was taken from one.
    pub zone_log_of_closed: bool,
    /// The persistent cache, with all slots.
    pub journal: JournalSpec,
    /// Slots that may be in use before writes wait for cleaning; the others are the reserve.
    pub watermark: u64,
    /// Map entries that may be in use before writes wait for cleaning.
    pub map_limit: Option<u64>,
    /// Journal entries between two map merges.
    pub map_merge_every: Option<u64>,
    /// How many copies of the map a merge writes, each before an entry of its own.
    pub map_copies: u64,
    /// The extent that a map merge writes.
    pub map_merge: PbaExtent,
    /// The staging area for merged zones, as large as a zone.
    pub staging: PbaExtent,
    /// How much of a zone is merged or rewritten at a time.
    pub chunk: Sectors,
    /// Idle time before the drive cleans; `None` if it cleans only when the cache is full.
    pub idle_after: Option<Nanos>,
    /// How a full cache holds back its host.
    pub throttle: ThrottleSpec,
    /// What the drive takes the steps of cleaning to cost.
    pub estimate: Estimate,
    /// How many zones are cleaned while a host has patience: as many writes may wait once the reserve is gone.
    pub zones_for_one_command: u64,
}

impl AwareSpec {
    /// Slots that may be in use with the host's writes: all but those of the two largest entries that moving needs, one for
    /// what moves and one of which a part has moved already; where the reserve is smaller than that, no reserve.
    pub fn host_slots(&self) -> u64 {
        host_slots(self.journal.slots, self.watermark, self.journal.quanta(self.journal.entry_max))
    }
}

/// See [`AwareSpec::host_slots`]: of so many slots, a watermark, and the slots of the largest entry.
pub fn host_slots(slots: u64, watermark: u64, entry: u64) -> u64 {
    slots.saturating_sub(2 * entry).max(watermark)
}

/// See the module documentation.
pub(super) struct Aware {
    spec: AwareSpec,
    places: Places,
    open: OpenZones,
    journal: Journal,
    map: ExtentMap,
    entries: u64,
    cleaning: Option<Cleaning>,
    throttle: Throttle,
    /// The zone that will lose its resource once its writes are on the media.
    leaving: Option<u32>,
    /// Zones were to be destaged so that several can be closed together.
    destaged: bool,
    /// The zones that gave up the resources that no zone has taken yet.
    given_up: VecDeque<u32>,
    /// Metadata was written; and until when the controller works on it.
    synced: bool,
    settled_at: Time,
    /// Scratch space: the parts of one journal entry.
    entry_parts: Vec<LbaExtent>,
}

impl Aware {
    /// A drive of so many zones with an empty cache.
    pub(super) fn new(spec: AwareSpec, places: Places, zones: u32) -> Self {
        Self {
            open: OpenZones::new(spec.open_zones, zones, spec.seed),
            journal: Journal::new(spec.journal),
            map: ExtentMap::new(),
            entries: 0,
            cleaning: None,
            throttle: Throttle::new(spec.throttle),
            leaving: None,
            destaged: false,
            given_up: VecDeque::new(),
            synced: false,
            settled_at: Time(0),
            entry_parts: Vec::new(),
            places,
            spec,
        }
    }

    /// Where a write pointer goes after a write out of order: "the write pointer will point to the next LBA of the last
    /// valid data block" once its zone is clean (section 2).
    pub(super) fn pointer_moves(&self) -> PointerMoves {
        PointerMoves::AtCleaning
    }

    /// Places a part of a write that continues its zone, whose place on the platters is `place`.
    pub(super) fn write_in_order(
        &mut self,
        (placed, place): (Placed, PbaExtent),
        table: &mut ZoneTable,
        plan: &mut Plan,
    ) {
        let Placed { zone, extent, .. } = placed;
        self.cancel_cleaning_of(zone);
        if !table.layout().is_conventional(zone) && !self.open.holds(zone) {
            self.make_room_for(zone, table);
            self.open_zone(zone, table, plan);
        }
        plan.write(Medium::Platter, place, Purpose::Host, Source::Host(extent.start.into()));
        if self.map.overlapping(extent).next().is_some() {
            self.map.remove(extent);
            plan.push(Step::Commit(MapChange::Native { lba: extent }));
            let whole = table.layout().extent_of(zone);
            if self.map.overlapping(whole).next().is_none() {
                table.cleaned(zone, table.written(zone));
            }
        }
        if table.written(zone) == table.layout().capacity_of(zone) {
            self.open.give_back(zone);
        }
    }

    /// Writes parts of writes out of order to the journal; as many entries as they need.
    pub(super) fn write_out_of_order(&mut self, parts: &[LbaExtent], table: &mut ZoneTable, plan: &mut Plan) {
        let most = self.spec.journal.entry_max;
        let mut entry = std::mem::take(&mut self.entry_parts);
        entry.clear();
        let mut data = Sectors(0);
        for &part in parts {
            let mut rest = part;
            while !rest.is_empty() {
                if !entry.is_empty() && (data + rest.len).get() > most.get() {
                    self.entry(&entry, data, table, plan);
                    entry.clear();
                    data = Sectors(0);
                }
                let here = rest.len.min(most);
                entry.push(LbaExtent::new(rest.start, here));
                data += here;
                rest = LbaExtent::new(rest.start + here, rest.len - here);
            }
        }
        if !entry.is_empty() {
            self.entry(&entry, data, table, plan);
        }
        self.entry_parts = entry;
    }

    /// A command to a sector comes soon.
    #[inline]
    pub(super) fn hint(&mut self, address: Lba) {
        if self.map.entries() > 0 {
            self.map.hint(address);
        }
    }

    /// How many sectors and writes the next journal entry holds at most: no more writes than the map has entries for. With a
    /// full cache each write waits for itself.
    pub(super) fn entry_limits(&mut self) -> (Sectors, usize) {
        let JournalSpec { entry_max, entry_writes, .. } = self.spec.journal;
        self.journal.oldest(&self.map);
        let is_full = self.journal.slots_used() >= self.spec.watermark;
        let in_map = self.spec.map_limit.map_or(usize::MAX, |limit| {
            let free = limit.saturating_sub(self.map.entries());
            usize::try_from(free / WRITE_MAP_ENTRIES).unwrap_or(usize::MAX)
        });
        (entry_max, if is_full { 1 } else { entry_writes.min(in_map).max(1) })
    }

    /// What writes out of order may take before a host loses patience: what is free, the reserve, for which a write waits no
    /// longer than the throttle says, and what is freed by as many zones as it bears. A write that waits has an entry of its own
    /// ([`Aware::entry_limits`]), which takes a slot of the reserve at least, and needs one entry of the map or two.
    pub(super) fn room(&self) -> Room {
        let AwareSpec { journal, watermark, map_limit, .. } = &self.spec;
        let used = self.journal.slots_used();
        let free = watermark.saturating_sub(used);
        let reserve = self.spec.host_slots().saturating_sub(used.max(*watermark));
        let zones = self.spec.zones_for_one_command;
        let in_map =
            map_limit.map_or(u64::MAX, |limit| limit.saturating_sub(self.map.entries()) / WRITE_MAP_ENTRIES);
        let in_slots = free.saturating_mul(journal.entry_writes as u64).saturating_add(reserve);
        let writes = in_slots.min(in_map).saturating_add(zones);
        let largest = journal.quanta(journal.entry_max);
        let quanta = free.saturating_add(reserve).saturating_add(zones.saturating_mul(largest));
        Room { sectors: Sectors(quanta.saturating_mul(journal.quantum.get())), writes }
    }

    /// Writes one journal entry of the host's data, after cleaning if that is necessary.
    fn entry(&mut self, extents: &[LbaExtent], data: Sectors, table: &mut ZoneTable, plan: &mut Plan) {
        let quanta = self.spec.journal.quanta(data);
        // An extent that is written splits at most one of the map.
        let map_entries = extents.iter().map(|extent| extent.len.get().div_ceil(ENTRY_MAX_SECTORS) + 1).sum();
        self.clean_for(quanta, map_entries, table, plan);
        let location = self.append(quanta, Purpose::Cache, plan);
        let mut pba = location.data.start;
        for &lba in extents {
            // Cleaning for this entry may have begun with this zone, or have finished it.
            let zone = table.layout().zone_of(lba.start);
            self.cancel_cleaning_of(zone);
            table.note_out_of_order(zone);
            self.map.insert(lba, pba);
            self.journal.record(JournalRecord { lba, pba, slot: location.slot });
            plan.push(Step::Commit(MapChange::Cached { lba, pba: pba.into() }));
            pba += lba.len;
        }
    }

    /// Appends an entry to the journal, whose commits the caller plans; from time to time the map is merged before it.
    fn append(&mut self, quanta: u64, purpose: Purpose, plan: &mut Plan) -> EntryLocation {
        self.entries += 1;
        let since_merge = self.spec.map_merge_every.map(|every| self.entries % every);
        if self.entries > self.spec.map_copies
            && since_merge.is_some_and(|since| since < self.spec.map_copies)
        {
            plan.write(Medium::Platter, self.spec.map_merge, Purpose::MapMerge, Source::Internal);
        }
        let location = self.journal.allocate(quanta);
        plan.write(Medium::Platter, location.data, purpose, Source::ToCache);
        location
    }

    /// Cleans before an entry: until there is space for it, or for as long as a write has to wait while the reserve can
    /// take it. Where the reserve is gone, one zone is cleaned, and then what is oldest moves out of the way; if that is not
    /// worth its time, one more zone. It ends, as what is cleaned is live no more, and an empty log has space.
    fn clean_for(&mut self, quanta: u64, map_entries: u64, table: &mut ZoneTable, plan: &mut Plan) {
        let (mut waited, mut cleaned) = (Nanos(0), self.throttle.cleaned);
        let most = self.spec.host_slots();
        loop {
            // Drops what is obsolete at the tail.
            self.journal.oldest(&self.map);
            let slots = self.journal.slots_used() + quanta;
            let in_map = self.spec.map_limit.is_none_or(|limit| self.map.entries() + map_entries <= limit);
            if in_map && slots <= self.spec.watermark {
                if waited == Nanos(0) {
                    self.throttle.found_space();
                }
                return;
            }
            if in_map && slots <= most && waited >= self.throttle.now() {
                return self.throttle.waited(table.counts().non_sequential);
            }
            let steps = plan.steps().len();
            if in_map && slots > most && self.throttle.cleaned != cleaned {
                cleaned = self.throttle.cleaned;
                self.make_room(slots - most, table.layout().capacity, plan);
            } else if !self.clean_step(table, plan) {
                return;
            }
            waited += self.spec.estimate.of(&plan.steps()[steps..]);
        }
    }

    /// Plans a part of a read in one zone, whose place on the platters is `place`; what was never written is filled.
    pub(super) fn read(
        &self,
        command: CommandId,
        (zone, part): (u32, LbaExtent),
        table: &ZoneTable,
        plan: &mut Plan,
    ) {
        self.visit(zone, part, table, |piece| match piece {
            Ok(piece) => plan.read_piece(piece),
            Err(extent) => plan.push(Step::Fill { command, extent, pattern: UNWRITTEN }),
        });
    }

    /// Appends the locations of a part of an extent in one zone.
    pub(super) fn locate(&self, (zone, part): (u32, LbaExtent), table: &ZoneTable, pieces: &mut Vec<Piece>) {
        self.visit(zone, part, table, |piece| {
            pieces.push(piece.unwrap_or_else(|LbaExtent { start, len }| Piece {
                medium: Medium::Platter,
                extent: PbaExtent::new(self.places.of(table.layout(), start), len),
                cached: false,
            }));
        });
    }

    /// Visits the pieces of a part of a zone in order: where it is, or what was never written.
    fn visit(
        &self,
        zone: u32,
        part: LbaExtent,
        table: &ZoneTable,
        mut visit: impl FnMut(Result<Piece, LbaExtent>),
    ) {
        let layout = table.layout();
        let written = match layout.is_conventional(zone) {
            true => part.end(),
            false => layout.start_of(zone) + table.written(zone),
        };
        let home = |from: Lba, to: Lba, visit: &mut dyn FnMut(Result<Piece, LbaExtent>)| {
            let there = written.clamp(from, to);
            if from < there {
                let extent = PbaExtent::new(self.places.of(layout, from), there - from);
                visit(Ok(Piece { medium: Medium::Platter, extent, cached: false }));
            }
            if there < to {
                visit(Err(LbaExtent::new(there, to - there)));
            }
        };
        let mut at = part.start;
        for mapped in self.map.overlapping(part) {
            home(at, mapped.lba.start, &mut visit);
            let extent = PbaExtent::new(mapped.pba, mapped.lba.len);
            visit(Ok(Piece { medium: Medium::Platter, extent, cached: true }));
            at = mapped.lba.end();
        }
        home(at, part.end(), &mut visit);
    }

    /// A zone was reset: what is kept of it in the cache is gone.
    pub(super) fn reset(&mut self, zone: u32, layout: &ZoneLayout) {
        self.cancel_cleaning_of(zone);
        self.close(zone);
        self.map.remove(layout.extent_of(zone));
        // Drops what is obsolete at the tail: what was reset fills the cache no longer.
        self.journal.oldest(&self.map);
    }

    /// Frees the resource of a zone that is no longer open.
    pub(super) fn close(&mut self, zone: u32) {
        self.open.give_back(zone);
    }

    /// Frees all resources.
    pub(super) fn close_all(&mut self) {
        while let Some(&zone) = self.open.holders().last() {
            self.open.give_back(zone);
        }
    }

    /// Whether any of an extent is in the persistent cache.
    pub(super) fn is_mapped(&self, extent: LbaExtent) -> bool {
        self.map.overlapping(extent).next().is_some()
    }

    /// Where the heads go for the first sector of an extent.
    pub(super) fn locate_first(&self, extent: LbaExtent, write: bool, table: &ZoneTable) -> Pba {
        let layout = table.layout();
        let home = || self.places.of(layout, extent.start);
        if !write {
            let first = self.map.overlapping(extent).next();
            return first
                .filter(|mapped| mapped.lba.start == extent.start)
                .map_or_else(home, |mapped| mapped.pba);
        }
        if table.is_in_order(extent.start) {
            return home();
        }
        self.journal.next_start(extent.len.min(self.spec.journal.entry_max))
    }

    /// The idle time before [`Aware::idle`]; `None` without background work.
    pub(super) fn idle_after(&self) -> Option<Nanos> {
        self.spec.idle_after
    }

    /// Appends one unit of background work, if there is any.
    pub(super) fn idle(&mut self, table: &mut ZoneTable, plan: &mut Plan) -> Idle {
        if self.spec.idle_after.is_some() && self.clean_step(table, plan) {
            Idle::Worked
        } else {
            Idle::Nothing
        }
    }

    /// The space on the media with what this adds to that of the zones.
    pub(super) fn media_use(&self, zones: MediaUse) -> MediaUse {
        let AwareSpec { journal, staging, zone_log, map_merge, .. } = &self.spec;
        let zone_log = match *zone_log {
            ZoneLog::At(extent) => extent,
            ZoneLog::BeforeZones { .. } => PbaExtent::default(),
        };
        let ends = [journal.region, *staging, zone_log, *map_merge].map(|extent| extent.end().get());
        let platter = ends.into_iter().fold(zones.platter.get(), u64::max);
        MediaUse { platter: Sectors(platter), cached: journal.region.len, ..zones }
    }

    /// Takes up what was found in the persistent cache.
    ///
    /// # Errors
    /// When something was found where this drive never writes it.
    pub(super) fn restore(&mut self, found: &Recovered<'_>, zones: u32) -> Result<(), Misplaced> {
        *self = Self::new(self.spec.clone(), self.places, zones);
        self.journal.restore(found.cached)?;
        for &CachedExtent { lba, pba, .. } in found.cached {
            self.map.insert(lba, pba);
        }
        Ok(())
    }

    /// The use of the persistent cache.
    pub(super) fn cache_use(&self) -> CacheUse {
        let quantum = self.spec.journal.quantum.get();
        CacheUse {
            filled_sectors: self.journal.slots_used() * quantum,
            usable_sectors: self.spec.watermark * quantum,
            map_limit: self.spec.map_limit,
            cleaning: self.cleaning.is_some(),
            ..self.map.cache_use()
        }
    }
}
