//! The journal: the persistent cache of a journaled drive as a circular log of entries.
//!
//! An entry is out-of-band data followed by the data of one or more host writes, in quanta: an isolated block
//! takes a whole quantum (Skylight, section 4.3.1). A short gap follows each entry, so that the next one can
//! start without losing a revolution. The cache is limited in *slots*, one per quantum, not in the length of
//! the log on the medium (`docs/figures.md`, "Worth knowing").
//!
//! Invariants: the map points only to records in the slots from the oldest record to `head`; a record is live
//! while the map points to one of its sectors; the region on the medium has space for every slot in use with
//! the out-of-band data before it.

use std::collections::VecDeque;

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

use crate::extent_map::{ExtentMap, Mapped};
use crate::restore::{CachedExtent, Misplaced};

/// Number of the oldest records whose map entries are prefetched before they are cleaned.
const PREFETCHED: usize = 32;

/// The sizes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSpec {
    /// The region on the medium.
    pub region: PbaExtent,
    /// Sectors of data in a quantum.
    pub quantum: Sectors,
    /// Sectors of out-of-band data before the quanta of an entry.
    pub out_of_band: Sectors,
    /// Unused sectors after an entry.
    pub gap: Sectors,
    /// Maximum data in an entry.
    pub entry_max: Sectors,
    /// Maximum number of host writes in an entry: the depth of the drive's queue, also for writes from the
    /// volatile cache, with which results "are similar to those for a queue depth of 31" (Skylight, footnote
    /// 2).
    pub entry_writes: usize,
    /// Slots that may be in use before a write has to wait for cleaning.
    pub slots: u64,
}

impl JournalSpec {
    /// Sectors of the medium that an entry of `quanta` quanta occupies.
    pub fn entry_sectors(&self, quanta: u64) -> u64 {
        self.out_of_band.get() + quanta * self.quantum.get() + self.gap.get()
    }

    /// Number of quanta for `data`.
    pub fn quanta(&self, data: Sectors) -> u64 {
        data.get().div_ceil(self.quantum.get()).max(1)
    }

    /// Sectors of the medium that suffice for every use of the slots: each slot in an entry of its own, and
    /// two entries of the largest size, one of which does not fit at the end of the region.
    pub fn region_sectors(&self) -> u64 {
        self.slots * self.entry_sectors(1) + 2 * self.entry_sectors(self.quanta(self.entry_max))
    }
}

/// A host write in the log.
#[derive(Clone, Copy, Debug)]
pub struct JournalRecord {
    /// The host extent.
    pub lba: LbaExtent,
    /// The location of its first sector.
    pub pba: Pba,
    /// The first slot of its entry.
    pub slot: u64,
}

/// The location of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLocation {
    /// Its out-of-band data.
    pub out_of_band: PbaExtent,
    /// All its quanta.
    pub data: PbaExtent,
    /// Its first slot.
    pub slot: u64,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct Journal {
    spec: JournalSpec,
    /// Number of slots allocated so far.
    head: u64,
    /// Offset of the next entry in the region.
    at: u64,
    records: VecDeque<JournalRecord>,
    /// Number of the oldest records that [`Journal::next_to_prefetch`] has returned.
    prefetched: usize,
}

impl Journal {
    /// An empty journal.
    pub fn new(spec: JournalSpec) -> Self {
        Self { spec, head: 0, at: 0, records: VecDeque::new(), prefetched: 0 }
    }

    /// The sizes.
    pub fn spec(&self) -> &JournalSpec {
        &self.spec
    }

    /// Slots in use, including those of obsolete records that are not dropped yet.
    pub fn slots_used(&self) -> u64 {
        self.head - self.records.front().map_or(self.head, |oldest| oldest.slot)
    }

    /// The start of the next entry if it has `data`.
    pub fn next_start(&self, data: Sectors) -> Pba {
        let needed = self.spec.entry_sectors(self.spec.quanta(data));
        self.spec.region.start + Sectors(self.offset_for(needed))
    }

    /// Offset of the next entry of `needed` sectors: after the last one, or at the start of the region.
    fn offset_for(&self, needed: u64) -> u64 {
        if self.at + needed > self.spec.region.len.get() { 0 } else { self.at }
    }

    /// Allocates an entry of `quanta` quanta.
    pub fn allocate(&mut self, quanta: u64) -> EntryLocation {
        let needed = self.spec.entry_sectors(quanta);
        self.at = self.offset_for(needed);
        let start = self.spec.region.start + Sectors(self.at);
        let out_of_band = PbaExtent::new(start, self.spec.out_of_band);
        let data = PbaExtent::new(out_of_band.end(), Sectors(quanta * self.spec.quantum.get()));
        let slot = self.head;
        self.at += needed;
        self.head += quanta;
        EntryLocation { out_of_band, data, slot }
    }

    /// Records a host write in the last entry.
    pub fn record(&mut self, record: JournalRecord) {
        self.records.push_back(record);
    }

    /// Takes up the live records that were found in an empty journal, in the order of their writes. The access of an entry
    /// consists of all its quanta. So the sectors allocated before it are a whole number of quanta, which is its first
    /// slot. The next entry follows the newest one with live data; later entries, and the slots before the oldest,
    /// are free.
    ///
    /// # Errors
    /// When one was found at a location where a journal never writes it.
    pub fn restore(&mut self, found: &[CachedExtent]) -> Result<(), Misplaced> {
        let (region, quantum) = (self.spec.region, self.spec.quantum.get());
        for &CachedExtent { lba, pba, access, taken } in found {
            let inside = region.start <= access.start && access.end() <= region.end();
            let whole = access.len.get().is_multiple_of(quantum) && taken.is_multiple_of(quantum);
            if !inside || !whole {
                return Err(Misplaced(lba.start));
            }
            self.record(JournalRecord { lba, pba, slot: taken / quantum });
        }
        if let Some(newest) = found.last() {
            self.continue_after(newest.access, newest.taken);
        }
        Ok(())
    }

    /// Places the next entry after the one with these quanta, before which `taken` sectors of quanta were
    /// allocated.
    fn continue_after(&mut self, quanta: PbaExtent, taken: u64) {
        self.head = (taken + quanta.len.get()) / self.spec.quantum.get();
        self.at = (quanta.end() - self.spec.region.start).get() + self.spec.gap.get();
    }

    /// The start of the next record that cleaning will soon reach; returns each record once.
    #[inline]
    pub fn next_to_prefetch(&mut self) -> Option<Lba> {
        let record = self.records.get(self.prefetched).filter(|_| self.prefetched < PREFETCHED)?;
        self.prefetched += 1;
        Some(record.lba.start)
    }

    /// The first live extent of the oldest live record. Drops the obsolete records before it, which frees
    /// their slots.
    pub fn oldest(&mut self, map: &ExtentMap) -> Option<LbaExtent> {
        while let Some(record) = self.records.front() {
            let live = live_part(map, record);
            if live.is_some() {
                return live;
            }
            self.records.pop_front();
            self.prefetched = self.prefetched.saturating_sub(1);
        }
        None
    }

    /// Drops the oldest records that lie in an extent without live data, which frees their slots.
    pub fn drop_oldest_in(&mut self, extent: LbaExtent) {
        let inside = |lba: LbaExtent| extent.start <= lba.start && lba.end() <= extent.end();
        while self.records.front().is_some_and(|record| inside(record.lba)) {
            self.records.pop_front();
            self.prefetched = self.prefetched.saturating_sub(1);
        }
    }

    /// The records, the oldest first, including obsolete ones that are not dropped yet.
    pub fn records(&self) -> impl Iterator<Item = &JournalRecord> {
        self.records.iter()
    }

    /// Drops so many of the oldest records, which must be obsolete: that frees their slots.
    pub fn drop_oldest(&mut self, records: usize) {
        self.records.drain(..records);
        self.prefetched = self.prefetched.saturating_sub(records);
    }

    /// The first live extent of the newest live record. Drops the obsolete records after it.
    pub fn newest(&mut self, map: &ExtentMap) -> Option<LbaExtent> {
        while let Some(record) = self.records.back() {
            let live = live_part(map, record);
            if live.is_some() {
                return live;
            }
            self.records.pop_back();
        }
        None
    }
}

/// The first part of a record to which the map still points.
fn live_part(map: &ExtentMap, record: &JournalRecord) -> Option<LbaExtent> {
    live_parts(map, record).next().map(|found| found.lba)
}

/// The parts of a record to which the map still points, in the order of their addresses.
pub fn live_parts<'a>(
    map: &'a ExtentMap,
    record: &'a JournalRecord,
) -> impl Iterator<Item = Mapped> + use<'a> {
    let is_live = |found: &Mapped| found.pba == record.pba + (found.lba.start - record.lba.start);
    map.overlapping(record.lba).filter(is_live)
}
