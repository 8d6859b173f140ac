//! A shadow of a journaled drive: it learns from plans only, and says at each step whether a drive that did
//! just this would still have all its data, and did it by the rules of its journal and its bands.
//!
//! Host commands are known by the number of their id, so content in the image says which write it is of.

mod cleaning;

use std::collections::VecDeque;

use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent, Sectors};
use skylight_layer::{
    Command, CommandId, Journaled, MapChange, Medium, Op, Piece, Plan, Purpose, Queue, Step, StretchSpec,
};

use crate::common::layer_and_shadow::Shadow;
use crate::common::truth::{JUNK, Spot, Truth, written};
use crate::shape::Shape;
use cleaning::Cleaning;

/// A host write in the log, while something of it may be live.
#[derive(Clone, Copy, Debug)]
struct Record {
    lba: LbaExtent,
    pba: Pba,
    slot: u64,
}

/// A band of the drive, from the sizes of the stretches alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NativeBand {
    pub lba: LbaExtent,
    pub native: PbaExtent,
}

/// The bands of stretches, in order.
pub fn bands_of(stretches: &[StretchSpec]) -> Vec<NativeBand> {
    let (mut bands, mut first) = (Vec::new(), 0);
    for stretch in stretches {
        let (mut left, mut pba) = (stretch.sectors.get(), stretch.start);
        while left > 0 {
            let len = Sectors(stretch.band.get().min(left));
            bands.push(NativeBand { lba: LbaExtent::new(Lba(first), len), native: PbaExtent::new(pba, len) });
            first += len.get();
            left -= len.get();
            pba = pba + stretch.band + stretch.guard;
        }
    }
    bands
}

/// What a plan was made for, and how far its steps have come.
///
/// More than 15 fields: each kind of step leaves one behind.
#[derive(Default)]
struct Taken {
    /// The command to serve, or none for idle work.
    next: Option<Command>,
    /// The writes that the plan completes, in order; how many of them have all their sectors in place, and
    /// the sectors placed of the one after.
    writes: Vec<Command>,
    placed: usize,
    placed_sectors: u64,
    /// Pieces that a read named.
    pieces: usize,
    read_to: u64,
    /// Accesses left of a group in any order.
    unordered: u32,
    out_of_band: Option<PbaExtent>,
    merged_map: bool,
    entries: usize,
    bypassed: Option<usize>,
    trimmed: bool,
    /// The oldest writes that wait and fit one entry, and the bands that may be cleaned for them.
    group: Vec<Command>,
    patience: u64,
    /// Bands cleaned, and whether a write went home with one.
    cleaned: u64,
    went_home: bool,
}

pub struct Journal {
    shape: Shape,
    pub truth: Truth,
    bands: Vec<NativeBand>,
    band_of: Vec<u32>,
    records: VecDeque<Record>,
    /// Places ever used, entries ever written, and where the next one begins if it fits.
    head: u64,
    entries: u64,
    log_at: u64,
    cleaning: Option<Cleaning>,
    /// By medium and sector: the cleaning that read it last, and what it read.
    read_by: [Vec<u64>; 2],
    read: [Vec<u64>; 2],
    cleanings: u64,
    /// The last entry began with an empty map: it may have more writes than the map has entries.
    began_empty: bool,
}

impl Journal {
    pub fn new(shape: Shape) -> Self {
        let bands = bands_of(&shape.stretches);
        let sectors = |band: &NativeBand| band.native.start.get()..band.native.end().get();
        let native = bands.iter().flat_map(sectors).collect();
        let lengths = bands.iter().enumerate();
        let band_of = lengths.flat_map(|(k, band)| (0..band.lba.len.get()).map(move |_| k as u32)).collect();
        let numbers = || vec![0; shape.media_sectors as usize];
        Self {
            truth: Truth::new(native, shape.media_sectors),
            read_by: [numbers(), numbers()],
            read: [numbers(), numbers()],
            bands,
            band_of,
            records: VecDeque::new(),
            head: 0,
            entries: 0,
            log_at: 0,
            cleaning: None,
            cleanings: 0,
            began_empty: true,
            shape,
        }
    }

    pub fn bands(&self) -> &[NativeBand] {
        &self.bands
    }

    /// The commands that a plan completes, those of them that write in `taken`.
    fn completed(taken: &mut Taken, waiting: &[Command], plan: &Plan) -> Vec<CommandId> {
        let completed = |step: &Step| match *step {
            Step::Complete { command: id, .. } => Some(id),
            _ => None,
        };
        let ids: Vec<CommandId> = plan.steps().iter().filter_map(completed).collect();
        for &id in &ids {
            let done = *waiting
                .iter()
                .find(|command| command.id == id)
                .unwrap_or_else(|| panic!("{id:?} completes and does not wait"));
            match done.op {
                Op::Write => taken.writes.push(done),
                _ => assert!(ids.len() == 1 && Some(done) == taken.next, "{done:?} completes beside others"),
            }
        }
        let mut sorted = ids.clone();
        sorted.sort_unstable_by_key(|id| id.0);
        sorted.dedup();
        assert_eq!(sorted.len(), ids.len(), "a command completes twice");
        ids
    }

    /// The oldest writes that wait share an entry as far as they fit; one that does not fit alone has several.
    fn check_packing(&self, taken: &Taken, waiting: &[Command]) {
        let max = self.shape.spec.journal.entry_max.get();
        let sectors = |commands: &[Command]| commands.iter().map(|c| c.extent.len.get()).sum::<u64>();
        if taken.bypassed.is_some() {
            assert_eq!(taken.entries, 0, "writes that bypass the cache leave it alone");
            assert_eq!(waiting[..taken.writes.len()], taken.writes, "writes leave the queue oldest first");
            return;
        }
        assert_eq!(waiting[..taken.writes.len()], taken.writes, "writes leave the queue oldest first");
        let data = sectors(&taken.writes);
        if taken.went_home {
            assert_eq!(taken.writes.len(), 1, "a write goes home alone");
            return;
        }
        if data > max {
            assert_eq!((taken.writes.len(), taken.entries as u64), (1, data.div_ceil(max)), "a long write");
            return;
        }
        assert_eq!(taken.entries, 1, "writes that fit share an entry");
        let most = self.shape.spec.journal.entry_writes;
        assert!(taken.writes.len() <= most, "{} writes in an entry", taken.writes.len());
        if let Some(more) = waiting.get(taken.writes.len()) {
            let bypasses =
                self.shape.spec.whole_bands_bypass && self.covers_band(&waiting[taken.writes.len()..]);
            let full = taken.writes.len() == most || data + more.extent.len.get() > max;
            assert!(bypasses || full, "{more:?} would have fitted");
        }
    }

    /// The oldest writes that wait and share an entry, if it finds a place.
    fn group(&self, waiting: &[Command]) -> Vec<Command> {
        let journal = &self.shape.spec.journal;
        let (mut group, mut data) = (Vec::new(), 0);
        for (index, &write) in waiting.iter().enumerate().filter(|(_, command)| command.op == Op::Write) {
            data += write.extent.len.get();
            let run = waiting[index..].iter().take_while(|command| command.op == Op::Write).count();
            let bypasses = self.shape.spec.whole_bands_bypass && self.covers_band(&waiting[index..][..run]);
            let full = group.len() == journal.entry_writes || data > journal.entry_max.get();
            if !group.is_empty() && (full || bypasses) {
                break;
            }
            group.push(write);
        }
        group
    }

    /// Whether writes begin with all of a band, in order.
    fn covers_band(&self, writes: &[Command]) -> bool {
        let band = self.bands[self.band_of[writes[0].extent.start.get() as usize] as usize].lba;
        let mut at = band.start;
        for write in writes {
            if write.extent.start != at || at == band.end() {
                break;
            }
            at = write.extent.end();
        }
        at == band.end()
    }

    fn follow(&mut self, taken: &mut Taken, plan: &Plan, pieces: &[Piece]) {
        let mut completed = 0;
        for (index, step) in plan.steps().iter().enumerate() {
            let later = &plan.steps()[index + 1..];
            match *step {
                Step::Access { medium, direction, extent, purpose, .. } => {
                    let gathers = (purpose, direction) == (Purpose::CleanRead, Direction::Read);
                    assert!(taken.unordered == 0 || gathers, "{step:?} amid a group in any order");
                    match (purpose, direction) {
                        (Purpose::Host | Purpose::Cache, Direction::Read) => {
                            let cached = purpose == Purpose::Cache;
                            let piece = Piece { medium, extent, cached };
                            assert_eq!(pieces.get(taken.pieces), Some(&piece), "a read is as located");
                            taken.pieces += 1;
                            taken.read_to = self.truth.read(medium, extent, taken.read_to);
                        }
                        (_, Direction::Read) => self.clean_read(taken, medium, extent, later),
                        (_, Direction::Write) => self.write(taken, medium, extent, purpose, later),
                    }
                }
                Step::AnyOrder { accesses } => {
                    assert_eq!(taken.unordered, 0, "a group within a group");
                    taken.unordered = accesses;
                }
                Step::Commit(change) => self.commit(taken, change),
                Step::Fill { .. } | Step::Fail { .. } => panic!("{step:?} is none of a drive's own"),
                Step::Complete { .. } => {
                    completed += 1;
                    assert!(completed <= taken.placed.max(1), "a write completes before it is placed");
                }
            }
        }
        assert_eq!(taken.unordered, 0, "a group is as long as it says");
        assert!(taken.out_of_band.is_none(), "out-of-band data without an entry");
    }

    fn write(
        &mut self,
        taken: &mut Taken,
        medium: Medium,
        extent: PbaExtent,
        purpose: Purpose,
        later: &[Step],
    ) {
        let spec = &self.shape.spec;
        let cache = spec.cache_medium;
        match purpose {
            Purpose::Host if self.cleaning.as_ref().is_some_and(Cleaning::goes_home) => {
                self.host_part(taken, medium, extent);
            }
            Purpose::Host => self.bypass(taken, medium, extent),
            Purpose::Cache => self.entry(taken, medium, extent, later),
            Purpose::OutOfBand => {
                assert_eq!((medium, extent.len), (cache, spec.journal.out_of_band), "out-of-band data");
                self.junk(medium, extent);
                taken.out_of_band = Some(extent);
            }
            Purpose::MapMerge => {
                assert_eq!((medium, extent), (Medium::Platter, spec.map_merge), "a merge of the map");
                self.junk(medium, extent);
                taken.merged_map = true;
            }
            Purpose::CleanStage => self.clean_stage(medium, extent),
            Purpose::CleanWrite => self.clean_write(taken, medium, extent, later),
            Purpose::MapUpdate => {
                assert_eq!((medium, extent), (Medium::Platter, spec.cleaning.map_update), "an update");
                self.junk(medium, extent);
                let cleaning = self.cleaning.as_mut().expect("an update of the map for a band");
                assert!(cleaning.is_written(), "the map is updated before the band is rewritten");
                cleaning.updated = true;
            }
            Purpose::CleanRead => panic!("cleaning writes {extent:?} as if it read"),
        }
    }

    /// Data that is no host's, where nothing lives.
    fn junk(&mut self, medium: Medium, extent: PbaExtent) {
        for pba in extent.start.get()..extent.end().get() {
            self.truth.write(Spot { medium, pba }, JUNK);
        }
    }

    /// The write that the next placed sectors are of.
    fn place(&mut self, taken: &mut Taken, lba: LbaExtent) -> u64 {
        let command = taken.writes.get(taken.placed).expect("a write for what is placed");
        let start = command.extent.start + Sectors(taken.placed_sectors);
        assert_eq!(lba.start, start, "sectors are placed in the order of the writes");
        assert!(lba.end() <= command.extent.end(), "{lba:?} is not of {command:?} alone");
        taken.placed_sectors += lba.len.get();
        if lba.end() == command.extent.end() {
            taken.placed += 1;
            taken.placed_sectors = 0;
        }
        u64::from(command.id.0)
    }

    /// An entry of the journal: where the log goes on, in whole quanta, after its out-of-band data.
    fn entry(&mut self, taken: &mut Taken, medium: Medium, extent: PbaExtent, later: &[Step]) {
        let journal = self.shape.spec.journal;
        let parts = parts_of_entry(later);
        let data = parts.iter().map(|(lba, _)| lba.len.get()).sum::<u64>();
        let quanta = data.div_ceil(journal.quantum.get());
        assert!(data > 0 && data <= journal.entry_max.get(), "{data} sectors in an entry");
        assert_eq!(extent.len.get(), quanta * journal.quantum.get(), "an entry is whole quanta");
        let needed = journal.out_of_band.get() + extent.len.get() + journal.gap.get();
        if self.log_at + needed > journal.region.len.get() {
            self.log_at = 0;
        }
        let begin = journal.region.start + Sectors(self.log_at);
        let out_of_band = PbaExtent::new(begin, journal.out_of_band);
        let expected = (!out_of_band.is_empty()).then_some(out_of_band);
        assert_eq!(taken.out_of_band.take(), expected, "out-of-band data of an entry");
        assert_eq!((medium, extent.start), (self.shape.spec.cache_medium, out_of_band.end()), "entry");
        assert!((begin + Sectors(needed)) <= journal.region.end(), "an entry ends behind the region");
        self.log_at += needed;
        self.entries += 1;
        taken.entries += 1;
        let every = self.shape.spec.map_merge_every;
        let merges = every.is_some_and(|every| self.entries.is_multiple_of(every));
        assert_eq!(std::mem::take(&mut taken.merged_map), merges, "a merge before entry {}", self.entries);
        // Asked for always: it forgets dead records before their medium is written again.
        let slots = self.slots_used();
        let extents = self.truth.extents();
        assert!(extents == 0 || !self.lacks_slots(quanta), "{quanta} quanta find {slots} slots in use");
        self.began_empty = extents == 0;
        self.junk(medium, extent);
        let mut pba = extent.start;
        for (lba, at) in parts {
            assert_eq!(at, pba, "the data of an entry is packed");
            let number = self.place(taken, lba);
            for k in 0..lba.len.get() {
                let spot = Spot { medium, pba: pba.get() + k };
                self.truth.write(spot, written(number, lba.start.get() + k));
            }
            self.records.push_back(Record { lba, pba, slot: self.head });
            pba += lba.len;
        }
        self.head += quanta;
    }

    /// Places in use: from the oldest entry that holds live data to the newest.
    fn slots_used(&mut self) -> u64 {
        self.oldest().map_or(0, |oldest| self.head - oldest.slot)
    }

    fn lacks_slots(&mut self, quanta: u64) -> bool {
        self.slots_used() + quanta > self.shape.spec.journal.slots
    }

    /// Whether the map may have no room for so many more entries.
    fn lacks_entries(&self, more: u64) -> bool {
        self.shape.spec.map_limit.is_some_and(|limit| self.truth.extents() + more > limit)
    }

    /// A change of the map leaves it within its limit, or no longer than it was.
    fn check_limit(&self, before: u64, grows: bool) {
        let after = self.truth.extents();
        let within = self.shape.spec.map_limit.is_none_or(|limit| after <= limit);
        assert!(within || after <= before || grows && self.began_empty, "{before} extents, then {after}");
    }

    fn is_live(&self, record: &Record) -> bool {
        self.live_part(record, |_| true)
    }

    /// Whether a live sector of a record lies where asked.
    fn live_part(&self, record: &Record, asked: impl Fn(u64) -> bool) -> bool {
        let medium = self.shape.spec.cache_medium;
        (0..record.lba.len.get()).any(|k| {
            let lba = record.lba.start.get() + k;
            self.truth.at(lba) == Spot { medium, pba: record.pba.get() + k } && asked(lba)
        })
    }

    fn oldest(&mut self) -> Option<Record> {
        while let Some(&record) = self.records.front() {
            if self.is_live(&record) {
                return Some(record);
            }
            self.records.pop_front();
        }
        None
    }

    fn newest(&mut self) -> Option<Record> {
        while let Some(&record) = self.records.back() {
            if self.is_live(&record) {
                return Some(record);
            }
            self.records.pop_back();
        }
        None
    }

    /// The band whose native location this is.
    fn band_at(&self, extent: PbaExtent) -> usize {
        let found = self.bands.iter().position(|band| band.native == extent);
        found.unwrap_or_else(|| panic!("{extent:?} is no band"))
    }

    /// Writes that cover a band go to its native location at once.
    fn bypass(&mut self, taken: &mut Taken, medium: Medium, extent: PbaExtent) {
        assert!(self.shape.spec.whole_bands_bypass, "a host write in place");
        assert_eq!(medium, Medium::Platter, "bands are on the platters");
        let band = self.band_at(extent);
        let lba = self.bands[band].lba;
        let mut at = lba.start;
        while at < lba.end() {
            let command = *taken.writes.get(taken.placed).expect("a write for each sector of the band");
            assert_eq!(command.extent.start, at, "writes that cover a band");
            let number = self.place(taken, command.extent);
            at = command.extent.end();
            for sector in command.extent.start.get()..at.get() {
                self.truth.rewrite(sector, written(number, sector));
            }
        }
        assert_eq!(at, lba.end(), "no write goes beyond the band");
        taken.bypassed = Some(band);
    }

    fn commit(&mut self, taken: &mut Taken, change: MapChange) {
        let before = self.truth.extents();
        self.change(taken, change);
        self.check_limit(before, matches!(change, MapChange::Cached { .. }));
    }

    fn change(&mut self, taken: &mut Taken, change: MapChange) {
        match change {
            MapChange::Cached { lba, pba } => {
                let pba = Pba::from(pba);
                self.touch(lba);
                for k in 0..lba.len.get() {
                    let sector = lba.start.get() + k;
                    let spot = Spot { medium: self.shape.spec.cache_medium, pba: pba.get() + k };
                    self.truth.commit_write(sector, self.truth.content(spot), spot);
                }
            }
            MapChange::Native { lba } => self.commit_native(taken, lba),
            MapChange::Remapped { lba, .. } | MapChange::Relocated { lba, .. } => {
                panic!("{lba:?} has one native location, and leaves the cache only for that")
            }
        }
    }

    fn commit_native(&mut self, taken: &mut Taken, lba: LbaExtent) {
        if let Some(cleaning) = self.cleaning.take_if(|cleaning| cleaning.updated) {
            assert_eq!(lba, self.bands[cleaning.band].lba, "the band that was rewritten");
            taken.cleaned += u64::from(!cleaning.goes_home());
            for sector in lba.start.get()..lba.end().get() {
                let native = self.truth.native(sector);
                if cleaning.is_of_host(Lba(sector)) {
                    self.truth.commit_write(sector, self.truth.content(native), native);
                } else {
                    self.truth.move_to(sector, native);
                }
            }
            return;
        }
        self.touch(lba);
        if let Some(band) = taken.bypassed {
            assert_eq!(lba, self.bands[band].lba, "the band that was written");
            for sector in lba.start.get()..lba.end().get() {
                let native = self.truth.native(sector);
                self.truth.commit_write(sector, self.truth.content(native), native);
            }
            return;
        }
        let trims = |command: Command| command.op == Op::Trim && command.extent == lba;
        assert!(taken.next.is_some_and(trims), "{lba:?} was not rewritten and not trimmed");
        self.truth.trim(lba);
        taken.trimmed = true;
    }

    /// The host changes something: a cleaning of it has to begin anew.
    fn touch(&mut self, lba: LbaExtent) {
        let bands = [lba.start.get(), lba.end().get() - 1].map(|lba| self.band_of[lba as usize] as usize);
        self.cleaning.take_if(|cleaning| (bands[0]..=bands[1]).contains(&cleaning.band));
    }
}

impl Shadow for Journal {
    type Layer = Journaled;

    fn erase(&mut self, _layer: &Journaled) {
        self.truth.erase();
        self.records.clear();
        (self.head, self.entries, self.log_at, self.cleaning) = (0, 0, 0, None);
    }

    fn take(&mut self, queue: Queue<'_>, plan: &Plan, pieces: &[Piece]) -> Vec<CommandId> {
        let command = queue.next_command();
        let mut taken = Taken { next: Some(command), ..Taken::default() };
        taken.read_to = command.extent.start.get();
        let ids = Self::completed(&mut taken, queue.waiting, plan);
        assert!(!ids.is_empty(), "a plan completes a command at least");
        taken.group = self.group(queue.waiting);
        let writes = queue.waiting.iter().filter(|command| command.op == Op::Write).count();
        let bands = self.shape.spec.bands_for_one_command * taken.group.len() as u64;
        taken.patience = bands / writes.max(1) as u64;
        self.follow(&mut taken, plan, pieces);
        assert_eq!((taken.placed, taken.placed_sectors), (taken.writes.len(), 0), "all of a write is placed");
        match command.op {
            Op::Write => {
                let writes = queue.waiting.iter().filter(|command| command.op == Op::Write);
                self.check_packing(&taken, &writes.copied().collect::<Vec<_>>());
            }
            Op::Read => {
                assert_eq!(taken.pieces, pieces.len(), "a read moves all its pieces");
                assert_eq!(taken.read_to, command.extent.end().get(), "a read moves its extent");
            }
            Op::Trim => assert!(taken.trimmed, "a trim changes the map"),
            Op::Flush => assert_eq!(plan.steps(), [Step::done(command.id)]),
            Op::WriteZeroes | Op::Cache | Op::Append | Op::Zone(_) => {
                panic!("{command:?} is none that the host sends")
            }
        }
        ids
    }

    fn idle(&mut self, plan: &Plan) {
        self.follow(&mut Taken::default(), plan, &[]);
    }

    fn can_clean(&self, _layer: &Journaled) -> bool {
        self.truth.extents() > 0
    }

    /// What a scheduler was told of a command is where its data goes, if it does not share an entry and does
    /// not bypass the journal. Cleaning and a merge of the map may come before.
    fn check_announced(&self, queue: Queue<'_>, announced: (Medium, Pba), plan: &Plan) {
        let command = queue.next_command();
        let reads = command.op == Op::Read;
        let writes = queue.waiting.iter().filter(|waiting| waiting.op == Op::Write);
        let alone = command.op == Op::Write && writes.count() == 1;
        let found = plan.steps().iter().find_map(|step| match *step {
            Step::Access { medium, extent, purpose, .. } => match purpose {
                Purpose::Host | Purpose::Cache if reads => Some((medium, extent.start)),
                Purpose::OutOfBand | Purpose::Cache if alone => Some((medium, extent.start)),
                _ => None,
            },
            _ => None,
        });
        assert!(found.is_none_or(|found| found == announced), "what a scheduler is told of {command:?}");
    }

    fn check(&self, layer: &Journaled, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.truth.check_pieces(layer, extent, pieces);
        self.truth.check_cache_use(layer);
    }
}

/// What the commits behind an entry say of its parts.
fn parts_of_entry(later: &[Step]) -> Vec<(LbaExtent, Pba)> {
    let cached = |step: &Step| match *step {
        Step::Commit(MapChange::Cached { lba, pba }) => Some((lba, pba.into())),
        _ => None,
    };
    later.iter().map_while(cached).collect()
}
