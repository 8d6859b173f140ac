//! The journaled layer: the translation layer of the two Seagate drives that Skylight took apart.
//!
//! Host writes go to a journal at one place of the disk ([`journal`]): all that wait and fit become one entry
//! and complete together. An extent map finds them; every so many entries the map is merged to its home at
//! the MD. Bands have a static native location. Cleaning takes the oldest write in the journal, gathers all
//! that the journal has of its band, and reads, stages, writes the band and updates the map
//! ([`cleaning`]): in idle time a step at a time, and before a write when places or map entries run out.
//!
//! Invariants: every sector last written and not cleaned is found by the map in the journal; a band's
//! exceptions are dropped only when the band was rewritten with them; entries in the journal are never
//! overwritten while the map points into them.
//! Source: Skylight (FAST'15), sections 4.3.1, 4.5, 4.5.1 (Algorithm 1), 4.6; FACTS, "Worth knowing".

pub mod cleaning;
pub mod journal;

use skylight_disk::{Direction, LbaExtent, Nanos, Pba, PbaExtent, Sectors};

use crate::bands::Bands;
use crate::extent_map::ExtentMap;
use crate::plan::{
    CacheUse, Command, HostOp, Idle, Layer, MapChange, Medium, Piece, Plan, Purpose, Queue, Step,
};
use cleaning::Cleaning;
pub use cleaning::{CleaningOrder, CleaningSpec};
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
}

impl Journaled {
    /// An empty drive.
    pub fn new(spec: JournaledSpec) -> Self {
        let journal = Journal::new(spec.journal);
        Self { spec, journal, map: ExtentMap::new(), entries: 0, cleaning: None }
    }

    /// Takes the waiting writes, oldest first, that one entry can hold: at least the first of them.
    fn write(&mut self, waiting: &[Command], plan: &mut Plan) {
        let mut data = Sectors(0);
        let mut taken = 0;
        let mut writes = 0;
        for command in waiting {
            if command.op == HostOp::Write {
                let more = command.extent.len;
                if writes > 0 && (data + more).get() > self.spec.journal.entry_max.get() {
                    break;
                }
                data += more;
                writes += 1;
            }
            taken += 1;
        }
        let writes = || waiting[..taken].iter().filter(|command| command.op == HostOp::Write);
        if data.get() <= self.spec.journal.entry_max.get() {
            self.entry(writes().map(|command| command.extent), data, plan);
        } else {
            writes().for_each(|command| self.write_in_parts(command.extent, plan));
        }
        for command in writes() {
            plan.push(Step::Complete(command.id));
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
        self.make_room(self.spec.journal.quanta(data), extents.clone().count() as u64, plan);
        self.entries += 1;
        if self.spec.map_merge_every.is_some_and(|every| self.entries.is_multiple_of(every)) {
            plan.access(Medium::Platter, Direction::Write, self.spec.map_merge, Purpose::MapMerge);
        }
        let place = self.journal.begin(data);
        if !place.out_of_band.is_empty() {
            plan.access(self.spec.cache_medium, Direction::Write, place.out_of_band, Purpose::OutOfBand);
        }
        plan.access(self.spec.cache_medium, Direction::Write, place.data, Purpose::Cache);
        let mut pba = place.data.start;
        for lba in extents {
            self.cancel_cleaning_of(lba);
            self.map.insert(lba, pba);
            self.journal.record(Record { lba, pba, place: place.place });
            plan.push(Step::Commit(MapChange::Cached { lba, pba }));
            pba += lba.len;
        }
    }

    /// Cleans bands until the entry has places and map entries: blocking cleaning. Only the oldest writes give
    /// places back, so it follows them where places are short, whatever the order in idle time.
    fn make_room(&mut self, quanta: u64, writes: u64, plan: &mut Plan) {
        loop {
            self.journal.oldest(&self.map);
            let places = self.journal.places_used() + quanta <= self.spec.journal.places;
            let entries = self.spec.map_limit.is_none_or(|limit| self.map.entries() + writes <= limit);
            let order = if places { self.spec.cleaning.order } else { CleaningOrder::Fifo };
            if (places && entries) || !self.clean_band(order, plan) {
                return;
            }
        }
    }

    /// Writes that wait and cover a whole band, in order: straight to its native location.
    fn bypass(&mut self, waiting: &[Command], plan: &mut Plan) -> bool {
        let Some(first) = waiting.iter().position(|command| command.op == HostOp::Write) else {
            return false;
        };
        let band = self.spec.bands.of(waiting[first].extent.start);
        let mut end = band.lba.start;
        let run = waiting[first..].iter().take_while(|command| {
            let continues = command.op == HostOp::Write
                && command.extent.start == end
                && command.extent.end() <= band.lba.end();
            if continues {
                end = command.extent.end();
            }
            continues
        });
        let commands = run.count();
        if commands == 0 || end != band.lba.end() {
            return false;
        }
        self.cancel_cleaning_of(band.lba);
        plan.access(Medium::Platter, Direction::Write, band.native, Purpose::Host);
        self.map.remove(band.lba);
        plan.push(Step::Commit(MapChange::Native { lba: band.lba }));
        for command in &waiting[first..first + commands] {
            plan.push(Step::Complete(command.id));
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

impl Layer for Journaled {
    fn capacity(&self) -> Sectors {
        self.spec.bands.capacity()
    }

    fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let Command { id, op, extent } = queue.next_command();
        match op {
            HostOp::Write if self.spec.whole_bands_bypass && self.bypass(queue.waiting, plan) => return,
            HostOp::Write => return self.write(queue.waiting, plan),
            HostOp::Read => self.visit_pieces(extent, |piece| {
                let purpose = if piece.cached { Purpose::Cache } else { Purpose::Host };
                plan.access(piece.medium, Direction::Read, piece.extent, purpose);
            }),
            HostOp::Trim => {
                self.cancel_cleaning_of(extent);
                self.map.remove(extent);
                plan.push(Step::Commit(MapChange::Native { lba: extent }));
            }
            HostOp::Flush => {}
        }
        plan.push(Step::Complete(id));
    }

    fn idle_after(&self) -> Option<Nanos> {
        self.spec.cleaning.idle_after
    }

    fn idle(&mut self, plan: &mut Plan) -> Idle {
        if self.clean_step(self.spec.cleaning.order, plan) { Idle::Worked } else { Idle::Nothing }
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

    fn hint(&mut self, address: skylight_disk::Lba) {
        self.map.hint(address);
    }

    fn erase(&mut self) {
        self.journal = Journal::new(self.spec.journal);
        self.map = ExtentMap::new();
        self.entries = 0;
        self.cleaning = None;
    }

    fn cache_use(&self) -> CacheUse {
        CacheUse {
            live_sectors: self.map.sectors(),
            map_entries: self.map.entries(),
            map_bytes: self.map.bytes(),
        }
    }
}
