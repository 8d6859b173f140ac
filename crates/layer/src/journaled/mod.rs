//! The journaled layer: the translation layer of the two Seagate drives that Skylight took apart.
//!
//! Host writes go to a journal at one place of the disk ([`journal`]): all that wait and fit become one entry
//! and complete together. An extent map finds them; every so many entries the map is merged to its home at
//! the MD. Bands have a static native location. Cleaning takes a band, that of the oldest write in the journal
//! or another one as the profile says, gathers all that the journal has of it, and reads, stages, writes the
//! band and updates the map ([`cleaning`]): in idle time a step at a time, and before a command when places or
//! map entries run out.
//!
//! Writes that wait and cover a whole band go to its native location at once, and the entry before them ends
//! where they begin. A sequential stream of which
//! less waits does not: bands are shingled and of static place, so a band that is written from its start on
//! has lost what lay behind that if the rest does not come. It is why "achieving full sequential throughput
//! requires enabling volatile cache" (section 6).
//!
//! Invariants: every sector last written and not cleaned is found by the map in the journal; a band's
//! exceptions are dropped only when the band was rewritten with them; entries in the journal are never
//! overwritten while the map points into them; the map has no more extents than its limit.
//! Source: Skylight (FAST'15), sections 4.3.1, 4.5, 4.5.1 (Algorithm 1), 4.6; `docs/figures.md`, "Worth
//! knowing".

pub mod cleaning;
mod dirty;
pub mod journal;
mod restore;

use skylight_command::{Command, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use crate::bands::{Band, Bands};
use crate::extent_map::ExtentMap;
use crate::leaf::ENTRY_MAX_SECTORS;
use crate::plan::{CacheUse, Idle, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, Source, Step};
use crate::restore::{Misplaced, Recovered, Room};
use cleaning::Cleaning;
pub use cleaning::{CleaningOrder, CleaningSpec};
use dirty::Dirty;
pub use journal::JournalSpec;
use journal::{Journal, Record};

/// The sizes and rules of a journaled drive.
#[derive(Clone, Debug)]
pub struct JournaledSpec {
    /// Where data lies natively.
    pub bands: Bands,
    /// The persistent cache.
    pub journal: JournalSpec,
    /// The medium of the persistent cache.
    pub cache_medium: Medium,
    /// Map entries that may be in use before cleaning has to make room.
    pub map_limit: Option<u64>,
    /// Entries from one map merge to the next.
    pub map_merge_every: Option<u64>,
    /// What a map merge writes.
    pub map_merge: PbaExtent,
    /// How bands are cleaned.
    pub cleaning: CleaningSpec,
    /// Whether waiting writes that cover a whole band go straight to its native location.
    pub whole_bands_bypass: bool,
}

/// See the module page.
pub struct Journaled {
    spec: JournaledSpec,
    journal: Journal,
    map: ExtentMap,
    entries: u64,
    cleaning: Option<Cleaning>,
    /// For the orders that need it.
    dirty: Option<Dirty>,
}

impl Journaled {
    /// An empty drive.
    pub fn new(spec: JournaledSpec) -> Self {
        let journal = Journal::new(spec.journal);
        let dirty = Dirty::new(spec.cleaning.order, spec.bands.count());
        Self { spec, journal, map: ExtentMap::new(), entries: 0, cleaning: None, dirty }
    }

    /// Takes the waiting writes, oldest first, that one entry can hold: at least the first of them, and none of
    /// those that bypass the journal next, if they can be enough for that.
    fn write(&mut self, waiting: &[Command], enough: bool, plan: &mut Plan) {
        let mut data = Sectors(0);
        let mut taken = 0;
        let mut writes = 0;
        for command in waiting {
            if command.op == Op::Write {
                let more = command.extent.len;
                let full = writes == self.spec.journal.entry_writes
                    || (data + more).get() > self.spec.journal.entry_max.get();
                if writes > 0 && (full || enough && self.covered_band(&waiting[taken..]).is_some()) {
                    break;
                }
                data += more;
                writes += 1;
            }
            taken += 1;
        }
        let writes = || waiting[..taken].iter().filter(|command| command.op == Op::Write);
        if data.get() <= self.spec.journal.entry_max.get() {
            self.entry(writes().map(|command| command.extent), data, plan);
        } else {
            writes().for_each(|command| self.write_in_parts(command.extent, plan));
        }
        for command in writes() {
            plan.complete(command.id);
        }
    }

    /// A single write longer than an entry: as many entries as it takes.
    fn write_in_parts(&mut self, extent: LbaExtent, plan: &mut Plan) {
        let mut rest = extent;
        while !rest.is_empty() {
            let here = rest.len.min(self.spec.journal.entry_max);
            self.entry(std::iter::once(LbaExtent::new(rest.start, here)), here, plan);
            rest = LbaExtent::new(rest.start + here, rest.len - here);
        }
    }

    /// Writes one journal entry with these extents, after making room for it.
    fn entry(&mut self, extents: impl Iterator<Item = LbaExtent> + Clone, data: Sectors, plan: &mut Plan) {
        let quanta = self.spec.journal.quanta(data);
        self.make_room(quanta, extents.clone(), plan);
        self.entries += 1;
        if self.spec.map_merge_every.is_some_and(|every| self.entries.is_multiple_of(every)) {
            plan.write(Medium::Platter, self.spec.map_merge, Purpose::MapMerge, Source::Internal);
        }
        // Cleaning will ask for the oldest writes, of which the host says nothing.
        while let Some(start) = self.journal.coming() {
            self.map.hint(start);
        }
        let place = self.journal.begin(quanta);
        if !place.out_of_band.is_empty() {
            plan.write(self.spec.cache_medium, place.out_of_band, Purpose::OutOfBand, Source::Internal);
        }
        plan.write(self.spec.cache_medium, place.data, Purpose::Cache, Source::HostToCache);
        let mut pba = place.data.start;
        for lba in extents {
            self.cancel_cleaning_of(lba);
            self.cache(lba, pba);
            self.journal.record(Record { lba, pba, place: place.place });
            plan.push(Step::Commit(MapChange::Cached { lba, pba }));
            pba += lba.len;
        }
    }

    /// Cleans bands until the entry has places and map entries: blocking cleaning. Only the oldest writes give
    /// places back, so it follows them where places are short, whatever the order in idle time.
    fn make_room(&mut self, quanta: u64, extents: impl Iterator<Item = LbaExtent> + Clone, plan: &mut Plan) {
        let least = extents.clone().map(entries_of).sum::<u64>();
        loop {
            let has_places = |journal: &Journal| journal.places_used() + quanta <= self.spec.journal.places;
            let mut places = has_places(&self.journal);
            let mut oldest = None;
            if !places {
                oldest = self.journal.oldest(&self.map).map(|live| live.start);
                places = has_places(&self.journal);
            }
            // What they need at most lies between `least` and its double: it is worked out only where it decides.
            let entries = !self.lacks_entries(2 * least)
                || !self.lacks_entries(least) && !self.lacks_entries(self.most_entries(extents.clone()));
            let order = if places { self.spec.cleaning.order } else { CleaningOrder::Fifo };
            if (places && entries) || !self.clean_band(order, oldest.filter(|_| !places), plan) {
                return;
            }
        }
    }

    /// Whether the map has no room for so many more entries.
    fn lacks_entries(&self, more: u64) -> bool {
        self.spec.map_limit.is_some_and(|limit| self.map.entries() + more > limit)
    }

    /// The most entries by which these writes can make the map longer: one each, and one more for each that
    /// cuts an extent in two, be it one of the map or one of theirs. Only a longer one can be cut so.
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

    /// The extent of the map that goes on beyond both ends of this one.
    fn extent_around(&self, extent: LbaExtent) -> Option<LbaExtent> {
        if self.map.longest() <= extent.len {
            return None;
        }
        let found = self.map.holding(extent.start)?.lba;
        (found.start < extent.start && extent.end() < found.end()).then_some(found)
    }

    /// The map finds an extent in the journal from now on.
    fn cache(&mut self, lba: LbaExtent, pba: Pba) {
        if !self.map.insert_if_clear(lba, pba) {
            self.uncount(lba);
            self.map.insert(lba, pba);
        }
        if let Some(dirty) = self.dirty.as_mut().filter(|dirty| dirty.counts()) {
            self.spec.bands.visit_bands(lba, |band, part| dirty.add(band.number, part.len));
        }
    }

    /// The map finds an extent natively from now on.
    fn forget(&mut self, lba: LbaExtent) {
        self.uncount(lba);
        self.map.remove(lba);
    }

    /// The map finds a band natively from now on, all of it.
    fn forget_band(&mut self, band: &Band) {
        if let Some(dirty) = &mut self.dirty {
            dirty.clean(band.number);
        }
        self.map.remove(band.lba);
    }

    /// What the journal has of an extent is about to be dead.
    fn uncount(&mut self, lba: LbaExtent) {
        if let Some(dirty) = self.dirty.as_mut().filter(|dirty| dirty.counts()) {
            for found in self.map.overlapping(lba) {
                let bands = &self.spec.bands;
                bands.visit_bands(found.lba, |band, part| dirty.remove(band.number, part.len));
            }
        }
    }

    /// Cleans bands until the map has room to forget an extent: one in the middle of another leaves two.
    fn make_room_to_forget(&mut self, extent: LbaExtent, plan: &mut Plan) {
        while self.lacks_entries(1)
            && self.extent_around(extent).is_some()
            && self.clean_band(self.spec.cleaning.order, None, plan)
        {}
    }

    fn trim(&mut self, extent: LbaExtent, plan: &mut Plan) {
        self.make_room_to_forget(extent, plan);
        self.cancel_cleaning_of(extent);
        self.forget(extent);
        plan.push(Step::Commit(MapChange::Native { lba: extent }));
    }

    /// Whether these are enough to cover a band; most queues are not, and need not be looked at closely.
    fn could_cover_a_band(&self, waiting: &[Command]) -> bool {
        let sectors: u64 = waiting.iter().map(|command| command.extent.len.get()).sum();
        self.spec.whole_bands_bypass && sectors >= self.spec.bands.smallest().get()
    }

    /// The band that the writes at the head of these cover from its start to its end, in order, and how many
    /// they are; none where the journal takes all.
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

    /// The oldest writes go straight to the native location of the band that they cover, if they do.
    fn bypass(&mut self, waiting: &[Command], plan: &mut Plan) -> bool {
        let first = waiting.iter().position(|command| command.op == Op::Write);
        let waiting = &waiting[first.unwrap_or(waiting.len())..];
        let Some((band, commands)) = self.covered_band(waiting) else {
            return false;
        };
        self.make_room_to_forget(band.lba, plan);
        self.cancel_cleaning_of(band.lba);
        plan.write(Medium::Platter, band.native, Purpose::Host, Source::Host(band.lba.start));
        self.forget_band(&band);
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

/// Entries of the map that a write takes if it cuts none in two.
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
                let enough = self.could_cover_a_band(queue.waiting);
                if !enough || !self.bypass(queue.waiting, plan) {
                    self.write(queue.waiting, enough, plan);
                }
                return;
            }
            Op::Read => self.visit_pieces(extent, |piece| plan.read_piece(piece)),
            Op::Trim => self.trim(extent, plan),
            Op::Flush => {}
            Op::WriteZeroes | Op::Cache | Op::Append => return plan.fail(id, Failure::Unsupported),
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

    fn hint(&mut self, address: Lba) {
        self.map.hint(address);
    }

    fn erase(&mut self) {
        *self = Self::new(self.spec.clone());
    }

    fn room(&self) -> Room {
        self.room_used()
    }

    fn home(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
        self.spec.bands.visit_native(extent, &mut |piece| visit(piece));
    }

    fn restore(&mut self, found: &Recovered<'_>) -> Result<(), Misplaced> {
        self.take_up(found)
    }

    fn cache_use(&self) -> CacheUse {
        CacheUse {
            live_sectors: self.map.sectors(),
            map_entries: self.map.entries(),
            map_bytes: self.map.bytes(),
        }
    }
}
