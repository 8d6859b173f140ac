//! Moving what is live at the tail of the log to its head, so that a full cache gets free slots without cleaning all the zones
//! that its oldest entries hold writes of.
//!
//! A log frees space only at its tail. An entry holds the writes that left the volatile cache together, which may be to
//! hundreds of zones, each of which takes seconds to minutes to clean; no host waits that long for one command. As in any
//! log-structured store, the cleaner reads the oldest entries, packs what is live of them into as few new ones as hold it,
//! and writes these at the head: that frees the slots of what is obsolete, and those that small writes had to themselves.
//!
//! What moves in one go is limited to the size of a zone: cleaning one costs more than that, and frees more for good.
//!
//! Invariants: what moves has the newest version of its sectors, as the map points to it; its new entry is on the medium
//! before its old one is written over; an entry that moves never needs a slot that is in use.
//!
//! Source: Rosenblum and Ousterhout, The Design and Implementation of a Log-Structured File System (SOSP '91), section 3.
//! That a host-aware drive does so is an assumption: the recorded one was never driven so far (`docs/zoned.md`).

use skylight_disk::{PbaExtent, Sectors};

use super::Aware;
use crate::extent_map::Mapped;
use crate::journaled::journal::{JournalRecord, live_parts};
use crate::plan::{MapChange, Medium, Plan, Purpose, Step};

/// Records at the tail that one entry takes in.
#[derive(Clone, Debug, Default)]
struct Pack {
    /// Their number, with obsolete ones.
    records: usize,
    /// What is live of them, in the order of the log.
    live: Vec<Mapped>,
    data: Sectors,
}

impl Aware {
    /// Moves the oldest live data, at most so much, if that frees `slots` slots; otherwise does nothing.
    pub(super) fn make_room(&mut self, slots: u64, most: Sectors, plan: &mut Plan) {
        for pack in self.packs(slots, most).unwrap_or_default() {
            self.read_entries(&pack, plan);
            let location = self.append(self.spec.journal.quanta(pack.data), Purpose::CleanStage, plan);
            let mut pba = location.data.start;
            for Mapped { lba, .. } in pack.live {
                self.map.insert(lba, pba);
                self.journal.record(JournalRecord { lba, pba, slot: location.slot });
                plan.push(Step::Commit(MapChange::Relocated { lba, pba: pba.into() }));
                pba += lba.len;
            }
            self.journal.drop_oldest(pack.records);
        }
    }

    /// How the fewest of the oldest entries are packed so that it frees `slots` slots; `None` if at most `most` of data does
    /// not.
    fn packs(&self, slots: u64, most: Sectors) -> Option<Vec<Pack>> {
        let spec = self.spec.journal;
        let first = self.journal.records().next()?.slot;
        let head = first + self.journal.slots_used();
        // The slots of entries that are written, the first slot in use while the last of them is, and all data.
        let (mut taken, mut tail, mut total) = (0, first, Sectors(0));
        let (mut done, mut pack, mut before) = (Vec::new(), Pack::default(), first);
        for record in self.journal.records() {
            let open = if pack.live.is_empty() { 0 } else { spec.quanta(pack.data) };
            // All before this record has moved once the open pack is written.
            if record.slot != before && record.slot - first >= slots + taken + open {
                if open > 0 {
                    done.push(pack);
                }
                return (head + taken + open - tail <= spec.slots).then_some(done);
            }
            before = record.slot;
            let live: Vec<Mapped> = live_parts(&self.map, record).collect();
            let data = Sectors(live.iter().map(|part| part.lba.len.get()).sum());
            if open > 0 && pack.data + data > spec.entry_max {
                taken += open;
                if head + taken - tail > spec.slots {
                    return None;
                }
                tail = record.slot;
                done.push(std::mem::take(&mut pack));
            }
            total += data;
            if total > most {
                return None;
            }
            pack.records += 1;
            pack.data += data;
            pack.live.extend(live);
        }
        None
    }

    /// Reads what moves, in the order of the log.
    fn read_entries(&self, pack: &Pack, plan: &mut Plan) {
        let gap = self.spec.journal.quantum;
        let mut reads: Vec<PbaExtent> = Vec::new();
        for part in &pack.live {
            match reads.last_mut() {
                // Passing over less than a quantum takes no longer than to wait for the next sector.
                Some(read) if read.end() <= part.pba && part.pba - read.end() < gap => {
                    read.len = part.pba + part.lba.len - read.start;
                }
                _ => reads.push(PbaExtent::new(part.pba, part.lba.len)),
            }
        }
        reads.into_iter().for_each(|read| plan.read(Medium::Platter, read, Purpose::CleanRead));
    }
}
