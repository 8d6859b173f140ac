//! The journaled layer: the translation layer of the two Seagate drives that Skylight dissects.
//!
//! Host writes go to a journal in one region of the disk ([`journal`]): all waiting writes that fit form one
//! entry and complete together. An extent map records their locations; after a fixed number of entries the
//! map is merged to its home location at the MD. Bands are statically mapped. Cleaning ([`cleaning`]) reads a
//! band, gathers its extents from the journal, stages the merged band, writes it and updates the map: in idle
//! time one step at a time, and before a command if slots or map entries run out. The profile gives the order
//! of bands.
//!
//! Waiting writes that cover a whole band go directly to its native location, and the journal entry before
//! them ends where they start. A sequential stream of which less waits goes to the journal: bands are
//! shingled and statically mapped, so that a write from the start of a band destroys the data after it, which
//! is lost if the rest does not follow. This is why "achieving full sequential throughput requires enabling
//! volatile cache" (section 6).
//!
//! Invariants: the map points to the journal for every sector written since its band was cleaned; the
//! exceptions of a band are dropped only after the band was rewritten with them; journal entries are never
//! overwritten while the map points to them; the map has no more extents than its limit.
//! Source: Skylight (FAST'15), sections 4.3.1, 4.5, 4.5.1 (Algorithm 1), 4.6; `docs/figures.md`, "Worth
//! knowing".

pub mod cleaning;
mod dirty;
pub mod journal;
mod restore;

use skylight_command::{Command, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use crate::bands::{Band, Bands};
use crate::extent_map::ENTRY_MAX_SECTORS;
use crate::extent_map::ExtentMap;
use crate::plan::{
    CacheUse, Idle, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, Room, Source, Step,
    are_writes_of_one_length,
};
use crate::restore::{MediaUse, Misplaced, Recovered};
use cleaning::Cleaning;
pub use cleaning::{CleaningOrder, CleaningSpec};
use dirty::Dirty;
pub use journal::JournalSpec;
use journal::{Journal, JournalRecord};

/// The sizes and rules of a journaled drive.
#[derive(Clone, Debug)]
pub struct JournaledSpec {
    /// The bands and their native locations.
    pub bands: Bands,
    /// The persistent cache.
    pub journal: JournalSpec,
    /// The medium of the persistent cache.
    pub cache_medium: Medium,
    /// Map entries that may be in use before a write has to wait for cleaning.
    pub map_limit: Option<u64>,
    /// Journal entries between two map merges.
    pub map_merge_every: Option<u64>,
    /// The extent that a map merge writes.
    pub map_merge: PbaExtent,
    /// How bands are cleaned.
    pub cleaning: CleaningSpec,
    /// Whether waiting writes that cover a whole band go directly to its native location.
    pub whole_bands_bypass: bool,
    /// How many bands it cleans before a write, with others that wait its part of them; if that frees no place, the write
    /// goes home with its own band.
    pub bands_for_one_command: u64,
}

/// How long the host waits for what is written next: its commands were sent together, so those that it leaves waiting wait
/// for it too.
struct Patience<'a> {
    waiting: &'a [Command],
    /// How many of these writes are answered together.
    served: usize,
    /// Bands cleaned for them.
    cleaned: u64,
}

impl Patience<'_> {
    /// Their part of the bands that are cleaned while the host waits for one command.
    fn bands(&self, for_one_command: u64) -> u64 {
        let writes = self.waiting.iter().filter(|command| command.op == Op::Write).count();
        for_one_command.saturating_mul(self.served as u64) / (writes as u64).max(1)
    }
}

/// See the module documentation.
pub struct Journaled {
    spec: JournaledSpec,
    journal: Journal,
    map: ExtentMap,
    entries: u64,
    cleaning: Option<Cleaning>,
    /// For the cleaning orders that need it.
    dirty: Option<Dirty>,
}

impl Journaled {
    /// An empty drive.
    pub fn new(spec: JournaledSpec) -> Self {
        let journal = Journal::new(spec.journal);
        let dirty = Dirty::new(spec.cleaning.order, spec.bands.count());
        Self { spec, journal, map: ExtentMap::new(), entries: 0, cleaning: None, dirty }
    }

    /// Takes the oldest waiting writes that fit in one entry: at least the first, and none that will bypass
    /// the journal next, which only happens if they `may_cover` a band.
    fn write(&mut self, waiting: &[Command], may_cover: bool, plan: &mut Plan) {
        let mut data = Sectors(0);
        let mut taken = 0;
        let mut writes = 0;
        for command in waiting {
            if command.op == Op::Write {
                let more = command.extent.len;
                let full = writes == self.spec.journal.entry_writes
                    || (data + more).get() > self.spec.journal.entry_max.get();
                if writes > 0 && (full || may_cover && self.covered_band(&waiting[taken..]).is_some()) {
                    break;
                }
                data += more;
                writes += 1;
            }
            taken += 1;
        }
        let mut patience = Patience { waiting, served: writes, cleaned: 0 };
        let writes = || waiting[..taken].iter().filter(|command| command.op == Op::Write);
        if data.get() > self.spec.journal.entry_max.get() {
            writes().for_each(|command| self.write_in_parts(command.extent, &mut patience, plan));
        } else if !self.entry(writes().map(|command| command.extent), data, &mut patience, plan) {
            // The others wait, so that each makes a host wait for its own band only.
            if let Some(first) = writes().next() {
                self.write_home(first.extent, plan);
                plan.complete(first.id);
            }
            return;
        }
        for command in writes() {
            plan.complete(command.id);
        }
    }

    /// Splits a write that is longer than an entry.
    fn write_in_parts(&mut self, extent: LbaExtent, patience: &mut Patience<'_>, plan: &mut Plan) {
        let mut rest = extent;
        while !rest.is_empty() {
            let len = rest.len.min(self.spec.journal.entry_max);
            let here = LbaExtent::new(rest.start, len);
            if !self.entry(std::iter::once(here), len, patience, plan) {
                // The rest too, in one go: no band is written twice.
                return self.write_home(rest, plan);
            }
            rest = LbaExtent::new(rest.start + len, rest.len - len);
        }
    }

    /// Writes one journal entry with these extents, after cleaning as many bands as there is `patience` for; `false` if it
    /// finds no place by then.
    fn entry(
        &mut self,
        extents: impl Iterator<Item = LbaExtent> + Clone,
        data: Sectors,
        patience: &mut Patience<'_>,
        plan: &mut Plan,
    ) -> bool {
        let quanta = self.spec.journal.quanta(data);
        if !self.clean_for(quanta, extents.clone(), patience, plan) {
            return false;
        }
        self.entries += 1;
        if self.spec.map_merge_every.is_some_and(|every| self.entries.is_multiple_of(every)) {
            plan.write(Medium::Platter, self.spec.map_merge, Purpose::MapMerge, Source::Internal);
        }
        // Prefetches the map entries of the next cleaning candidates.
        while let Some(start) = self.journal.next_to_prefetch() {
            self.map.hint(start);
        }
        let location = self.journal.allocate(quanta);
        if !location.out_of_band.is_empty() {
            plan.write(self.spec.cache_medium, location.out_of_band, Purpose::OutOfBand, Source::Internal);
        }
        plan.write(self.spec.cache_medium, location.data, Purpose::Cache, Source::ToCache);
        let mut pba = location.data.start;
        for lba in extents {
            self.cancel_cleaning_of(lba);
            self.cache(lba, pba);
            self.journal.record(JournalRecord { lba, pba, slot: location.slot });
            plan.push(Step::Commit(MapChange::Cached { lba, pba: pba.into() }));
            pba += lba.len;
        }
        true
    }

    /// Blocking cleaning: cleans bands, as far as there is `patience`, until the entry has slots and map entries; whether it
    /// has. Only the oldest writes free slots, so if slots are short the order is FIFO, whatever the order in idle time.
    fn clean_for(
        &mut self,
        quanta: u64,
        extents: impl Iterator<Item = LbaExtent> + Clone,
        patience: &mut Patience<'_>,
        plan: &mut Plan,
    ) -> bool {
        let least = extents.clone().map(entries_of).sum::<u64>();
        loop {
            let has_slots = |journal: &Journal| journal.slots_used() + quanta <= self.spec.journal.slots;
            let mut slots = has_slots(&self.journal);
            let mut oldest = None;
            if !slots {
                oldest = self.journal.oldest(&self.map).map(|live| live.start);
                slots = has_slots(&self.journal);
            }
            // The writes need between `least` and twice as many entries; the exact number is computed only if
            // it matters.
            let entries = !self.lacks_entries(2 * least)
                || !self.lacks_entries(least) && !self.lacks_entries(self.most_entries(extents.clone()));
            if slots && entries {
                return true;
            }
            if patience.cleaned >= patience.bands(self.spec.bands_for_one_command) {
                return false;
            }
            let order = if slots { self.spec.cleaning.order } else { CleaningOrder::Fifo };
            if !self.clean_band(order, oldest.filter(|_| !slots), plan) {
                return true;
            }
            patience.cleaned += 1;
        }
    }

    /// Whether the map cannot take `more` entries.
    fn lacks_entries(&self, more: u64) -> bool {
        self.spec.map_limit.is_some_and(|limit| self.map.entries() + more > limit)
    }

    /// The maximum number of entries that these writes can add to the map: those of each, and one more for
    /// each that splits an extent of the map or of another of these writes. Only a longer extent can be
    /// split.
    fn most_entries(&self, extents: impl Iterator<Item = LbaExtent> + Clone) -> u64 {
        let lengths = || extents.clone().map(|extent| extent.len);
        let longest = lengths().fold(self.map.longest(), Sectors::max);
        if lengths().all(|len| len >= longest) {
            return extents.map(entries_of).sum();
        }
        let mut sorted: Vec<LbaExtent> = extents.collect();
        sorted.sort_unstable_by_key(|extent| extent.start);
        let (mut most, mut farthest, mut first) = (0, Lba(0), true);
        for &extent in &sorted {
            let inside = !first && extent.end() < farthest;
            most += entries_of(extent) + u64::from(inside || self.extent_around(extent).is_some());
            farthest = farthest.max(extent.end());
            first = false;
        }
        most
    }

    /// The extent of the map that extends beyond both ends of this one.
    fn extent_around(&self, extent: LbaExtent) -> Option<LbaExtent> {
        if self.map.longest() <= extent.len {
            return None;
        }
        let found = self.map.entry_at(extent.start)?.lba;
        (found.start < extent.start && extent.end() < found.end()).then_some(found)
    }

    /// Maps an extent to the journal.
    fn cache(&mut self, lba: LbaExtent, pba: Pba) {
        if !self.map.insert_if_clear(lba, pba) {
            self.uncount(lba);
            self.map.insert(lba, pba);
        }
        if let Some(dirty) = self.dirty.as_mut().filter(|dirty| dirty.counts()) {
            self.spec.bands.visit_bands(lba, |band, part| dirty.add(band.number, part.len));
        }
    }

    /// Removes an extent from the map, so that it is at its native location.
    fn unmap(&mut self, lba: LbaExtent) {
        self.uncount(lba);
        self.map.remove(lba);
    }

    /// The same for a whole band.
    fn unmap_band(&mut self, band: &Band) {
        if let Some(dirty) = &mut self.dirty {
            dirty.clean(band.number);
        }
        self.map.remove(band.lba);
    }

    /// Counts the extents of the journal within `lba` as obsolete.
    fn uncount(&mut self, lba: LbaExtent) {
        if let Some(dirty) = self.dirty.as_mut().filter(|dirty| dirty.counts()) {
            for found in self.map.overlapping(lba) {
                let bands = &self.spec.bands;
                bands.visit_bands(found.lba, |band, part| dirty.remove(band.number, part.len));
            }
        }
    }

    /// Cleans bands until an extent can be unmapped: unmapping the middle of an extent of the map adds an
    /// entry.
    fn clean_for_unmap(&mut self, extent: LbaExtent, plan: &mut Plan) {
        while self.lacks_entries(1)
            && self.extent_around(extent).is_some()
            && self.clean_band(self.spec.cleaning.order, None, plan)
        {}
    }

    fn trim(&mut self, extent: LbaExtent, plan: &mut Plan) {
        self.clean_for_unmap(extent, plan);
        self.cancel_cleaning_of(extent);
        self.unmap(extent);
        plan.push(Step::Commit(MapChange::Native { lba: extent }));
    }

    /// Whether waiting commands are long enough to cover a band: a cheap test that few queues pass.
    fn may_cover_a_band(&self, waiting: &[Command]) -> bool {
        let sectors: u64 = waiting.iter().map(|command| command.extent.len.get()).sum();
        self.spec.whole_bands_bypass && sectors >= self.spec.bands.smallest().get()
    }

    /// The band that the first of these commands cover from its start to its end, in order, and their number;
    /// `None` if all go to the journal.
    fn covered_band(&self, waiting: &[Command]) -> Option<(Band, usize)> {
        let first = waiting.first().filter(|_| self.spec.whole_bands_bypass)?;
        let band = self.spec.bands.of(first.extent.start);
        let mut end = band.lba.start;
        let run = waiting.iter().take_while(|command| {
            let continues = command.op == Op::Write
                && command.extent.start == end
                && command.extent.end() <= band.lba.end();
            if continues {
                end = command.extent.end();
            }
            continues
        });
        let commands = run.count();
        (commands > 0 && end == band.lba.end()).then_some((band, commands))
    }

    /// Writes the band that the oldest writes cover, if they do, directly to its native location.
    fn bypass(&mut self, waiting: &[Command], plan: &mut Plan) -> bool {
        let first = waiting.iter().position(|command| command.op == Op::Write);
        let waiting = &waiting[first.unwrap_or(waiting.len())..];
        let Some((band, commands)) = self.covered_band(waiting) else {
            return false;
        };
        self.clean_for_unmap(band.lba, plan);
        self.cancel_cleaning_of(band.lba);
        plan.write(Medium::Platter, band.native, Purpose::Host, Source::Host(band.lba.start.into()));
        self.unmap_band(&band);
        plan.push(Step::Commit(MapChange::Native { lba: band.lba }));
        for command in &waiting[..commands] {
            plan.complete(command.id);
        }
        true
    }

    fn visit_pieces(&self, extent: LbaExtent, mut visit: impl FnMut(Piece)) {
        let mut at = extent.start;
        let native = |from, len, visit: &mut dyn FnMut(Piece)| {
            self.spec.bands.visit_native(LbaExtent::new(from, len), &mut |extent| {
                visit(Piece { medium: Medium::Platter, extent, cached: false });
            });
        };
        for mapped in self.map.overlapping(extent) {
            native(at, mapped.lba.start - at, &mut visit);
            let extent = PbaExtent::new(mapped.pba, mapped.lba.len);
            visit(Piece { medium: self.spec.cache_medium, extent, cached: true });
            at = mapped.lba.end();
        }
        native(at, extent.end() - at, &mut visit);
    }
}

/// Map entries of a write that splits no extent.
fn entries_of(extent: LbaExtent) -> u64 {
    extent.len.get().div_ceil(ENTRY_MAX_SECTORS)
}

impl Layer for Journaled {
    fn capacity(&self) -> Sectors {
        self.spec.bands.capacity()
    }

    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let Command { id, op, extent, .. } = queue.next_command();
        match op {
            Op::Write => {
                let may_cover = self.may_cover_a_band(queue.waiting);
                if !may_cover || !self.bypass(queue.waiting, plan) {
                    self.write(queue.waiting, may_cover, plan);
                }
                return;
            }
            Op::Read => self.visit_pieces(extent, |piece| plan.read_piece(piece)),
            Op::Trim => self.trim(extent, plan),
            Op::Flush => {}
            Op::WriteZeroes | Op::Cache | Op::Append | Op::Zone(_) => {
                return plan.fail(id, Failure::Unsupported);
            }
        }
        plan.complete(id);
    }

    fn idle_after(&self) -> Option<Nanos> {
        self.spec.cleaning.idle_after
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        let CleaningSpec { order, idle_after, .. } = self.spec.cleaning;
        if idle_after.is_some() && self.clean_step(order, plan) { Idle::Worked } else { Idle::Nothing }
    }

    fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.visit_pieces(extent, |piece| pieces.push(piece));
    }

    fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
        if write {
            let data = extent.len.min(self.spec.journal.entry_max);
            return (self.spec.cache_medium, self.journal.next_start(data));
        }
        match self.map.overlapping(extent).next() {
            Some(mapped) if mapped.lba.start == extent.start => (self.spec.cache_medium, mapped.pba),
            _ => (Medium::Platter, self.spec.bands.native(extent.start)),
        }
    }

    /// What is free, and what is freed within the patience of a host: a band frees a map entry or more, and a slot has the
    /// writes of as many bands as fit an entry. Writes use up slots by their number too, as an entry has so many at most.
    fn room(&self, _address: Lba) -> Option<Room> {
        let Self { spec, journal, map, .. } = self;
        let (bands, each) = (spec.bands_for_one_command, spec.journal.entry_writes.max(1) as u64);
        let slots = spec.journal.slots.saturating_sub(journal.slots_used()).saturating_add(bands / each);
        let entries = |limit: u64| limit.saturating_sub(map.entries()).saturating_add(bands);
        let writes = slots.saturating_mul(each).min(spec.map_limit.map_or(u64::MAX, entries));
        Some(Room { sectors: Sectors(slots.saturating_mul(spec.journal.quantum.get())), writes })
    }

    fn all_go_to_log(&self, commands: &[Command]) -> bool {
        are_writes_of_one_length(commands)
    }

    fn hint(&mut self, address: Lba) {
        self.map.hint(address);
    }

    fn erase(&mut self) {
        *self = Self::new(self.spec.clone());
    }

    fn media_use(&self) -> MediaUse {
        self.media_used()
    }

    fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.spec.bands.visit_native(extent, &mut |piece| visit(piece));
    }

    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        self.recover(found)
    }

    fn cache_use(&self) -> CacheUse {
        let quantum = self.spec.journal.quantum.get();
        CacheUse {
            filled_sectors: self.journal.slots_used() * quantum,
            usable_sectors: self.spec.journal.slots * quantum,
            map_limit: self.spec.map_limit,
            cleaning: self.cleaning.is_some(),
            ..self.map.cache_use()
        }
    }
}
