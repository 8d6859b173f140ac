//! A shadow of a fully-associative drive: for every sector, its last write and where it lies.
//!
//! The shadow learns from plans only. It keeps an image of the platters in which a sector's content is the
//! number of the write and the address it was for, follows the steps one by one, and asks at each whether a
//! drive that did just this would still have all its data: nothing live is overwritten, nor anything behind a
//! write in its physical band (shingling); a merged band is made of what its cleaning read, as it was when it
//! was read; and what a commit says is where the image has it.

use std::collections::BTreeMap;

use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent};
use skylight_layer::{
    Command, CommandId, FullyAssociative, FullyAssociativeSpec, Layer, MapChange, Medium, Op, Piece, Plan,
    Purpose, Queue, Step,
};

use crate::common::layer_and_shadow::Shadow;
use crate::common::truth::{JUNK, NOBODY};

/// What the cleaning of a zone has read, by place, and where it wrote a merged band of that.
#[derive(Default)]
struct Merge {
    read: BTreeMap<u64, u64>,
    /// The parts of it that were written.
    written: Vec<PbaExtent>,
}

pub struct Logs {
    spec: FullyAssociativeSpec,
    /// Sectors from one zone to the next on the platters.
    pitch: u64,
    /// By place: number of the write in the high half, host address in the low one.
    content: Vec<u64>,
    /// By place: the host address that is to be found there.
    owner: Vec<u32>,
    /// By host sector: content of its last write, where commits put it, and where it is without exceptions.
    last: Vec<u64>,
    at: Vec<u64>,
    native: Vec<u64>,
    merges: Vec<Merge>,
    cached: u64,
    writes: u64,
    /// A cleaning that has begun keeps a free band.
    merged: bool,
}

impl Logs {
    pub fn new(layer: &FullyAssociative, spec: FullyAssociativeSpec) -> Self {
        let bands = spec.zone.get().div_ceil(spec.band.get()) + u64::from(spec.free_bands);
        let sectors = (spec.start.get() + spec.platter_sectors().get()) as usize;
        let mut shadow = Self {
            spec,
            pitch: bands * spec.band.get(),
            content: vec![JUNK; sectors],
            owner: vec![NOBODY; sectors],
            last: Vec::new(),
            at: Vec::new(),
            native: Vec::new(),
            merges: Vec::new(),
            cached: 0,
            writes: 0,
            merged: false,
        };
        shadow.begin(layer);
        shadow
    }

    /// A new drive: every sector where the layer says, which rises with its address.
    fn begin(&mut self, layer: &FullyAssociative) {
        let mut pieces = Vec::new();
        layer.locate(LbaExtent::new(Lba(0), self.spec.capacity), &mut pieces);
        let places = |piece: &Piece| piece.extent.start.get()..piece.extent.end().get();
        self.native = pieces.iter().flat_map(places).collect();
        assert_eq!(self.native.len() as u64, self.spec.capacity.get());
        assert!(self.native.is_sorted_by(|a, b| a < b), "a new drive is in order");
        self.content.fill(JUNK);
        self.owner.fill(NOBODY);
        self.at.clone_from(&self.native);
        self.last = (0..self.spec.capacity.get()).collect();
        for (lba, &pba) in self.native.iter().enumerate() {
            (self.content[pba as usize], self.owner[pba as usize]) = (lba as u64, lba as u32);
        }
        self.merges = (0..layer.zones()).map(|_| Merge::default()).collect();
        self.cached = 0;
    }

    fn zone_of(&self, pba: u64) -> usize {
        ((pba - self.spec.start.get()) / self.pitch) as usize
    }

    /// Follows the plan of the commands that it completes, which it returns.
    fn follow(&mut self, waiting: &[Command], plan: &Plan) -> Vec<CommandId> {
        let complete =
            |step: &Step| if let Step::Complete { command, .. } = step { Some(*command) } else { None };
        let completed: Vec<CommandId> = plan.steps().iter().filter_map(complete).collect();
        let named = |id: &CommandId| *waiting.iter().find(|c| c.id == *id).expect("a waiting command");
        let commands: Vec<Command> = completed.iter().map(named).collect();
        let op = commands.first().map(|command| command.op);
        self.writes += 1;
        let first = commands.first().map_or(0, |command| command.extent.start.get());
        let mut next = first;
        let mut any_order = 0;
        for step in plan.steps() {
            match *step {
                Step::Access { medium, direction, extent, purpose, .. } => {
                    assert_eq!(medium, Medium::Platter);
                    match (purpose, direction) {
                        (Purpose::Host | Purpose::Cache, Direction::Read) if op == Some(Op::Read) => {
                            next = self.read(extent, next);
                        }
                        (Purpose::Host | Purpose::Cache, Direction::Write) if op == Some(Op::Write) => {
                            next = self.write(extent, next);
                        }
                        (Purpose::CleanRead, Direction::Read) => self.clean_read(extent, any_order == 0),
                        (Purpose::CleanWrite, Direction::Write) => self.clean_write(extent),
                        other => panic!("{other:?} makes no sense in a plan of {op:?}"),
                    }
                    any_order = u32::saturating_sub(any_order, 1);
                }
                Step::AnyOrder { accesses } => {
                    assert!(accesses > 0, "a band without exceptions is not cleaned");
                    any_order = accesses;
                }
                Step::Commit(change) => self.commit(change, next),
                Step::Fill { .. } | Step::Fail { .. } => panic!("{step:?} is none of a drive's own"),
                Step::Complete { .. } => {}
            }
        }
        if matches!(op, Some(Op::Read | Op::Write)) {
            for command in &commands {
                assert_eq!(command.op, op.expect("there are commands"));
                self.check_done(*command);
            }
            let end = commands.last().map_or(0, |command| command.extent.end().get());
            assert_eq!(next, end, "the accesses of {commands:?} cover them: {:?}", plan.steps());
        } else {
            assert!(commands.len() <= 1);
        }
        completed
    }

    /// All that a write wrote was committed.
    fn check_done(&self, command: Command) {
        if command.op == Op::Write {
            for lba in command.extent.start.get()..command.extent.end().get() {
                assert_eq!(self.last[lba as usize] >> 32, self.writes, "sector {lba} was not committed");
            }
        }
    }

    fn read(&self, extent: PbaExtent, first: u64) -> u64 {
        for k in 0..extent.len.get() {
            let (pba, lba) = (extent.start.get() + k, (first + k) as usize);
            assert_eq!(self.at[lba], pba, "sector {lba} is read where it lies");
            assert_eq!(self.content[pba as usize], self.last[lba], "sector {lba} is as it was written");
        }
        first + extent.len.get()
    }

    /// Nothing that is still wanted lies in the extent or behind it in its physical band.
    fn check_room(&self, extent: PbaExtent) {
        let (start, band) = (extent.start.get(), self.spec.band.get());
        let slot = (start - self.spec.start.get()) / band;
        let end = self.spec.start.get() + (slot + 1) * band;
        assert!(extent.end().get() <= end, "{extent:?} is in one physical band");
        for pba in start..end {
            assert_eq!(self.owner[pba as usize], NOBODY, "the write of {extent:?} destroys {pba}");
        }
    }

    fn write(&mut self, extent: PbaExtent, first: u64) -> u64 {
        self.check_room(extent);
        let zone = self.zone_of(extent.start.get());
        let overlaps = |other: &PbaExtent| other.start < extent.end() && extent.start < other.end();
        self.merges[zone].written.retain(|merged| !overlaps(merged));
        for k in 0..extent.len.get() {
            self.content[(extent.start.get() + k) as usize] = self.writes << 32 | (first + k);
        }
        first + extent.len.get()
    }

    /// What is not any of the exceptions is the band itself, with which a merge begins.
    fn clean_read(&mut self, extent: PbaExtent, begins: bool) {
        let zone = self.zone_of(extent.start.get());
        let merge = &mut self.merges[zone];
        if begins {
            *merge = Merge::default();
        }
        for pba in extent.start.get()..extent.end().get() {
            merge.read.insert(pba, self.content[pba as usize]);
        }
    }

    /// A merged band is written in one piece, or around what the host gives of it.
    fn clean_write(&mut self, extent: PbaExtent) {
        self.check_room(extent);
        self.content[extent.start.get() as usize..extent.end().get() as usize].fill(JUNK);
        let zone = self.zone_of(extent.start.get());
        self.merges[zone].written.push(extent);
    }

    fn commit(&mut self, change: MapChange, next: u64) {
        match change {
            MapChange::Cached { lba, pba } => {
                let pba = Pba::from(pba);
                assert_eq!(lba.end().get(), next, "a commit is of what was just written");
                for k in 0..lba.len.get() {
                    let sector = lba.start.get() + k;
                    self.last[sector as usize] = self.writes << 32 | sector;
                    self.move_to(sector, pba.get() + k);
                }
            }
            MapChange::Native { lba } => {
                for sector in lba.start.get()..lba.end().get() {
                    // What was trimmed may be anything: it is what its place holds.
                    let native = self.native[sector as usize];
                    self.last[sector as usize] = self.content[native as usize];
                    self.move_to(sector, native);
                }
            }
            MapChange::Remapped { lba, pba } => self.remap(lba, pba.into()),
            MapChange::Relocated { lba, .. } => panic!("{lba:?} moves only with its band"),
        }
    }

    fn remap(&mut self, lba: LbaExtent, pba: Pba) {
        let zone = self.zone_of(pba.get());
        assert_eq!(lba.start.get() / self.spec.zone.get(), zone as u64, "a band stays in its zone");
        let place = PbaExtent::new(pba, lba.len);
        let here = |part: &PbaExtent| place.start <= part.start && part.end() <= place.end();
        // A band that the host wrote whole leaves a cleaning of another one alone.
        let merge = match self.merges[zone].written.iter().any(here) {
            true => std::mem::take(&mut self.merges[zone]),
            false => Merge::default(),
        };
        for k in 0..lba.len.get() {
            let (sector, place) = (lba.start.get() + k, pba.get() + k);
            if merge.written.iter().any(|part| part.start.get() <= place && place < part.end().get()) {
                let from = self.at[sector as usize];
                let content =
                    merge.read.get(&from).unwrap_or_else(|| panic!("{sector} at {from} was not read"));
                self.content[place as usize] = *content;
            } else if self.content[place as usize] == self.writes << 32 | sector {
                self.last[sector as usize] = self.content[place as usize];
            }
            self.cached -= u64::from(self.at[sector as usize] != self.native[sector as usize]);
            self.native[sector as usize] = place;
            self.cached += u64::from(self.at[sector as usize] != place);
            self.move_to(sector, place);
        }
    }

    fn move_to(&mut self, sector: u64, pba: u64) {
        let native = self.native[sector as usize];
        let from = std::mem::replace(&mut self.at[sector as usize], pba);
        self.cached += u64::from(pba != native);
        self.cached -= u64::from(from != native);
        if self.owner[from as usize] == sector as u32 {
            self.owner[from as usize] = NOBODY;
        }
        assert_eq!(self.owner[pba as usize], NOBODY, "two sectors live at {pba}");
        self.owner[pba as usize] = sector as u32;
        assert_eq!(self.content[pba as usize], self.last[sector as usize], "sector {sector} is at {pba}");
    }

    /// What the layer says of an extent is where commits have put it, in order and without a gap.
    fn check_pieces(&self, layer: &FullyAssociative, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        pieces.clear();
        layer.locate(extent, pieces);
        let mut next = extent.start.get();
        for piece in &*pieces {
            assert!(!piece.extent.is_empty(), "an empty piece of {extent:?}: {pieces:?}");
            for pba in piece.extent.start.get()..piece.extent.end().get() {
                assert_eq!(self.at[next as usize], pba, "sector {next} is located");
                let cached = pba != self.native[next as usize];
                assert_eq!(piece.cached, cached, "sector {next} is cached or not");
                next += 1;
            }
        }
        assert_eq!(next, extent.end().get(), "pieces of {extent:?} cover it: {pieces:?}");
        let (medium, first) = layer.locate_first(extent, false);
        assert_eq!((medium, first.get()), (Medium::Platter, self.at[extent.start.get() as usize]));
    }

    /// Each physical band is the place of one logical band, or holds exceptions, or nothing.
    fn check_bands(&self, layer: &FullyAssociative) {
        let band = self.spec.band.get();
        let mut holds: BTreeMap<u64, (Option<(u64, u64)>, u64)> = BTreeMap::new();
        for (sector, (&at, &native)) in self.at.iter().zip(&self.native).enumerate() {
            let in_zone = sector as u64 % self.spec.zone.get();
            let logical = (sector as u64 / self.spec.zone.get(), in_zone / band);
            let slot = |pba: u64| (pba - self.spec.start.get()) / band;
            let owner = holds.entry(slot(native)).or_insert((Some(logical), sector as u64));
            assert_eq!(owner.0, Some(logical), "{sector} and {} share a physical band", owner.1);
            if at != native {
                let owner = holds.entry(slot(at)).or_insert((None, sector as u64));
                assert_eq!(owner.0, None, "exception {sector} and {} share a physical band", owner.1);
            }
        }
        for zone in 0..layer.zones() {
            let bands = layer.zone_use(zone);
            assert_eq!(
                bands.free + bands.logs + bands.merged,
                self.spec.free_bands,
                "zone {zone}: {bands:?}"
            );
        }
        layer.audit().expect("the layer's own view");
    }
}

impl Shadow for Logs {
    type Layer = FullyAssociative;

    fn erase(&mut self, layer: &FullyAssociative) {
        self.begin(layer);
    }

    fn before(&mut self, layer: &FullyAssociative) {
        self.merged = (0..layer.zones()).any(|zone| layer.zone_use(zone).merged > 0);
    }

    fn take(&mut self, queue: Queue<'_>, plan: &Plan, _pieces: &[Piece]) -> Vec<CommandId> {
        let merges = |step: &&Step| {
            matches!(
                step,
                Step::Access { purpose: Purpose::CleanWrite, .. } | Step::Commit(MapChange::Remapped { .. })
            )
        };
        let completed = self.follow(queue.waiting, plan);
        let merged = plan.steps().iter().filter(merges).count() as u64;
        // The layer may take another write than the one that is next.
        let taken = queue.waiting.iter().filter(|command| completed.contains(&command.id));
        let band = self.spec.band.get().min(self.spec.zone.get());
        let touched: u64 = taken.map(|command| command.extent.len.get() / band + 2).sum();
        // Each of two merges in a band is a commit and up to two writes.
        assert!(merged <= 6 * touched, "{merged} steps of merges for {touched} bands");
        completed
    }

    fn idle(&mut self, plan: &Plan) {
        assert!(self.follow(&[], plan).is_empty(), "no command waits");
    }

    fn can_clean(&self, _layer: &FullyAssociative) -> bool {
        self.cached > 0
    }

    fn check_announced(&self, queue: Queue<'_>, announced: (Medium, Pba), plan: &Plan) {
        // Others may be written before it, and a write may take the free band of a cleaning that it ends, which
        // a scheduler is not told.
        let cleans = |purpose| matches!(purpose, Purpose::CleanRead | Purpose::CleanWrite);
        let first = match plan.steps().first() {
            Some(Step::Access { medium, extent, purpose, .. }) if !cleans(*purpose) => {
                (*medium, extent.start)
            }
            _ => return,
        };
        if queue.waiting.len() == 1 && !self.merged {
            assert_eq!(announced, first, "what a scheduler is told of {queue:?}");
        }
    }

    fn check(&self, layer: &FullyAssociative, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.check_pieces(layer, extent, pieces);
        assert_eq!(layer.cache_use().live_sectors, self.cached, "live sectors in the cache");
    }

    fn check_all(&self, layer: &FullyAssociative) {
        self.check_bands(layer);
    }
}
