//! The journal: the persistent cache of a journaled drive as a circular log of entries.
//!
//! An entry is a stretch of out-of-band data and then the data of one or more host writes, in quanta: a lone
//! block takes a whole quantum (Skylight, section 4.3.1). Entries follow each other with a short gap, so that
//! the next one can begin without missing its slot. The cache counts in *slots*, one a quantum; how far
//! the log runs on the medium is not what limits it (`docs/figures.md`, "Worth knowing").
//!
//! Invariants: slots from `tail` to `head` hold records that the map may point to; a record is live while
//! the map finds one of its sectors where the record put it; the media region has room for every slot in
//! use with the out-of-band data before it.

use std::collections::VecDeque;

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

use crate::extent_map::{ExtentMap, Mapped};

/// How many of the oldest records are handed out before cleaning comes to them.
const ANNOUNCED: usize = 32;

/// The sizes of a journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalSpec {
    /// The region on the medium.
    pub region: PbaExtent,
    /// Data in a quantum.
    pub quantum: Sectors,
    /// Out-of-band data before the quanta of an entry.
    pub out_of_band: Sectors,
    /// Unused medium behind an entry.
    pub gap: Sectors,
    /// Most data in an entry.
    pub entry_max: Sectors,
    /// Most host writes in an entry: as many as the drive's queue holds, also where they come from the volatile
    /// cache, with which results "are similar to those for a queue depth of 31" (Skylight, footnote 2).
    pub entry_writes: usize,
    /// Places that may be in use before cleaning has to make room.
    pub slots: u64,
}

impl JournalSpec {
    /// Medium that an entry takes.
    pub fn entry_sectors(&self, quanta: u64) -> u64 {
        self.out_of_band.get() + quanta * self.quantum.get() + self.gap.get()
    }

    /// Quanta for so much data.
    pub fn quanta(&self, data: Sectors) -> u64 {
        data.get().div_ceil(self.quantum.get()).max(1)
    }

    /// Medium that the worst use of all slots takes: each slot an entry of its own, and one more entry of
    /// the largest size that does not fit at the end of the region.
    pub fn region_sectors(&self) -> u64 {
        self.slots * self.entry_sectors(1) + 2 * self.entry_sectors(self.quanta(self.entry_max))
    }
}

/// A host write in the log.
#[derive(Clone, Copy, Debug)]
pub struct Record {
    /// What was written.
    pub lba: LbaExtent,
    /// Where its first sector lies.
    pub pba: Pba,
    /// The first slot of its entry.
    pub slot: u64,
}

/// Where an entry goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryLocation {
    /// Its out-of-band data.
    pub out_of_band: PbaExtent,
    /// Its quanta, all of them.
    pub data: PbaExtent,
    /// Its first slot.
    pub slot: u64,
}

/// See the module page.
#[derive(Clone, Debug)]
pub struct Journal {
    spec: JournalSpec,
    /// Places ever used.
    head: u64,
    /// Offset of the next entry in the region.
    at: u64,
    records: VecDeque<Record>,
    /// Of the oldest records, how many were handed out as coming.
    announced: usize,
}

impl Journal {
    /// An empty journal.
    pub fn new(spec: JournalSpec) -> Self {
        Self { spec, head: 0, at: 0, records: VecDeque::new(), announced: 0 }
    }

    /// The sizes.
    pub fn spec(&self) -> &JournalSpec {
        &self.spec
    }

    /// Places in use, and those of the oldest records that are dead and not dropped yet.
    pub fn slots_used(&self) -> u64 {
        self.head - self.records.front().map_or(self.head, |oldest| oldest.slot)
    }

    /// Where an entry of so much data would begin now.
    pub fn next_start(&self, data: Sectors) -> Pba {
        let needed = self.spec.entry_sectors(self.spec.quanta(data));
        self.spec.region.start + Sectors(self.offset_for(needed))
    }

    /// Offset of an entry that takes so much medium: behind the last one, or the start of the region.
    fn offset_for(&self, needed: u64) -> u64 {
        if self.at + needed > self.spec.region.len.get() { 0 } else { self.at }
    }

    /// Takes room for an entry of so many quanta.
    pub fn begin(&mut self, quanta: u64) -> EntryLocation {
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

    /// Notes a host write that the last entry holds.
    pub fn record(&mut self, record: Record) {
        self.records.push_back(record);
    }

    /// The next entry goes behind the one of these quanta, before which so many sectors of quanta were taken.
    pub fn go_on_behind(&mut self, quanta: PbaExtent, taken: u64) {
        self.head = (taken + quanta.len.get()) / self.spec.quantum.get();
        self.at = (quanta.end() - self.spec.region.start).get() + self.spec.gap.get();
    }

    /// The next of the oldest records that cleaning comes to soon, each once.
    #[inline]
    pub fn coming(&mut self) -> Option<Lba> {
        let record = self.records.get(self.announced).filter(|_| self.announced < ANNOUNCED)?;
        self.announced += 1;
        Some(record.lba.start)
    }

    /// What is live of the oldest record that is; dead ones before it give their slots back.
    pub fn oldest(&mut self, map: &ExtentMap) -> Option<LbaExtent> {
        while let Some(record) = self.records.front() {
            let live = live_part(map, record);
            if live.is_some() {
                return live;
            }
            self.records.pop_front();
            self.announced = self.announced.saturating_sub(1);
        }
        None
    }

    /// Nothing in an extent is live any more: the oldest records that lie in it give their slots back.
    pub fn drop_oldest_in(&mut self, extent: LbaExtent) {
        let inside = |lba: LbaExtent| extent.start <= lba.start && lba.end() <= extent.end();
        while self.records.front().is_some_and(|record| inside(record.lba)) {
            self.records.pop_front();
            self.announced = self.announced.saturating_sub(1);
        }
    }

    /// What is live of the newest record that is; dead ones behind it are forgotten.
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

/// The first part of a record that the map finds where the record put it.
fn live_part(map: &ExtentMap, record: &Record) -> Option<LbaExtent> {
    let stayed = |found: &Mapped| found.pba == record.pba + (found.lba.start - record.lba.start);
    map.overlapping(record.lba).find(stayed).map(|found| found.lba)
}
