//! The set-associative layer against a shadow that knows, for every sector, its last write and where it lies,
//! and its plans one by one.
//!
//! The shadow learns from plans only. It keeps an image of the media in which a sector's content is the
//! number of the write and the address it was for, follows the steps one by one, and asks at each whether a
//! drive that did just this would still have all its data: nothing live is overwritten, a band is written
//! back from sectors that were read before, and what a commit says is where the image has it.

mod common;

use common::bugs::{self, Bug};
use common::host::Sizes;
use common::layer_and_shadow::{Pair, Shadow};
use common::operation_count::{LONG, cases, half_share};
use common::plan_builders::{self, access, command, idle};
use common::truth::{Spot, Truth, written};
use proptest::prelude::*;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::{
    Command, CommandId, Idle, Layer, MapChange, Medium, Op, Piece, Plan, Purpose, Queue, SetAssociative,
    SetAssociativeSpec, Step,
};

struct Cached {
    spec: SetAssociativeSpec,
    truth: Truth,
    /// By medium and sector: the cleaning that last read it, and what it read.
    read_by: [Vec<u32>; 2],
    read: [Vec<u64>; 2],
    writes: u64,
    cleanings: u32,
    /// The cache band that is cleaned, as far as it is known.
    cleaned: u64,
    /// By cache band: sectors that are live in it.
    live: Vec<u64>,
    /// By cache band: sectors in use; and those in use, the one that began to fill first before the others.
    in_use: Vec<u64>,
    filling: Vec<u64>,
    /// How far the band that is written back is written.
    rewritten_to: u64,
}

impl Cached {
    fn new(spec: SetAssociativeSpec) -> Self {
        let cache = spec.cache_bands * spec.band.get();
        let sectors = spec.capacity.get() + 2 * cache + spec.cache_start.get();
        // The cache on the platters pushes what lies behind it back.
        let native = |lba: u64| {
            let behind = spec.cache_medium == Medium::Platter && lba >= spec.cache_start.get();
            lba + if behind { cache } else { 0 }
        };
        let numbers = || vec![0; sectors as usize];
        Self {
            spec,
            truth: Truth::new((0..spec.capacity.get()).map(native).collect(), sectors),
            read_by: [vec![0; sectors as usize], vec![0; sectors as usize]],
            read: [numbers(), numbers()],
            writes: 0,
            cleanings: 0,
            cleaned: 0,
            live: vec![0; spec.cache_bands as usize],
            in_use: vec![0; spec.cache_bands as usize],
            filling: Vec::new(),
            rewritten_to: 0,
        }
    }

    /// The host sector that is native to a place on the platters.
    fn native_of(&self, pba: u64) -> Option<u64> {
        let cache = self.spec.cache_bands * self.spec.band.get();
        [Some(pba), pba.checked_sub(cache)]
            .into_iter()
            .flatten()
            .find(|&lba| lba < self.spec.capacity.get() && self.truth.native(lba).pba == pba)
    }

    /// The cache band at a place, if there is one.
    fn cache_band_at(&self, medium: Medium, pba: Pba) -> Option<u64> {
        let into = pba.get().checked_sub(self.spec.cache_start.get())? / self.spec.band.get();
        (medium == self.spec.cache_medium && into < self.spec.cache_bands).then_some(into)
    }

    /// Whether anything that is cached in a cache band is live.
    fn holds(&self, cache_band: u64) -> bool {
        self.live[cache_band as usize] > 0
    }

    /// What is live of an extent in the cache is about to be dead.
    fn uncount(&mut self, lba: LbaExtent) {
        for sector in lba.start.get()..lba.end().get() {
            if self.truth.at(sector) != self.truth.native(sector) {
                self.live[(sector / self.spec.band.get() % self.spec.cache_bands) as usize] -= 1;
            }
        }
    }

    fn clean_read(&mut self, taken: &Taken, medium: Medium, extent: PbaExtent) {
        if let Some(cache_band) = self.cache_band_at(medium, extent.start) {
            assert_eq!(extent.len.get(), self.in_use[cache_band as usize], "all of a cache band is read");
            self.check_wanted(taken, cache_band);
            self.cleanings += 1;
            self.cleaned = cache_band;
        }
        for pba in extent.start.get()..extent.end().get() {
            self.read_by[medium as usize][pba as usize] = self.cleanings;
            self.read[medium as usize][pba as usize] = self.truth.content(Spot { medium, pba });
        }
    }

    /// A cache band is cleaned for want of room, or in idle time as the one that has been in use longest.
    fn check_wanted(&self, taken: &Taken, cache_band: u64) {
        let Some(command) = taken.command else {
            let mut held = self.filling.iter().copied().filter(|&cache_band| self.holds(cache_band));
            assert_eq!(
                Some(cache_band),
                held.next(),
                "the one that began to fill first of {:?}",
                self.filling
            );
            return;
        };
        assert_eq!(command.op, Op::Write, "cleaning in the way of {command:?}");
        let (band, usable) = (self.spec.band.get(), self.spec.usable.get());
        assert_eq!(taken.next / band % self.spec.cache_bands, cache_band, "the cache band of what is next");
        let here = (command.extent.end().get() - taken.next).min(band - taken.next % band);
        let in_use = self.in_use[cache_band as usize];
        assert!(in_use > 0 && in_use + here.next_multiple_of(8) > usable, "{here} sectors have room");
    }

    /// A band is written back from what this cleaning has read, sector by sector from where it lies.
    fn clean_write(&mut self, medium: Medium, extent: PbaExtent) {
        assert_eq!(medium, Medium::Platter, "bands are on the platters");
        let first = self.native_of(extent.start.get()).expect("a band has host sectors");
        self.rewrite_on(first, extent.len.get());
        for pba in extent.start.get()..extent.end().get() {
            let lba = self.native_of(pba).unwrap_or_else(|| panic!("{pba} is no native place"));
            let source = self.truth.at(lba);
            let (medium, pba) = (source.medium as usize, source.pba as usize);
            assert_eq!(
                self.read_by[medium][pba], self.cleanings,
                "cleaning has not read {lba} at {source:?}"
            );
            let content = self.read[medium][pba];
            assert_eq!(content, self.truth.last(lba), "sector {lba} is rewritten with old data");
            self.truth.rewrite(lba, content);
        }
    }

    /// A band is written back in order, from its begin.
    fn rewrite_on(&mut self, first: u64, len: u64) {
        assert!(
            first.is_multiple_of(self.spec.band.get()) || first == self.rewritten_to,
            "amid a band: {first}"
        );
        self.rewritten_to = first + len;
    }

    /// The host's next sectors go home with their band, since there is no room and cleaning has done its share.
    fn write_home(&mut self, taken: &mut Taken, medium: Medium, extent: PbaExtent) {
        assert_eq!(medium, Medium::Platter, "bands are on the platters");
        assert_eq!(taken.cleaned, self.spec.bands_for_one_write, "data bands cleaned before");
        let part = taken.next / self.spec.band.get() % self.spec.cache_bands;
        let needed = extent.len.get().next_multiple_of(8);
        assert!(self.in_use[part as usize] + needed > self.spec.usable.get(), "{needed} sectors have room");
        self.rewrite_on(taken.next, extent.len.get());
        for k in 0..extent.len.get() {
            let lba = taken.next + k;
            assert_eq!(self.native_of(extent.start.get() + k), Some(lba), "the host's data go home");
            self.truth.rewrite(lba, written(self.writes, lba));
        }
        taken.home = LbaExtent::new(Lba(taken.next), extent.len);
        taken.next += extent.len.get();
    }

    /// The host's next sectors are written where nothing is that is still wanted.
    fn write(&mut self, taken: &mut Taken, medium: Medium, extent: PbaExtent) {
        for k in 0..extent.len.get() {
            let spot = Spot { medium, pba: extent.start.get() + k };
            self.truth.write(spot, written(self.writes, taken.next + k));
        }
        taken.next += extent.len.get();
    }

    fn commit(&mut self, taken: &mut Taken, change: MapChange) {
        match change {
            MapChange::Cached { lba, pba } => {
                let pba = Pba::from(pba);
                assert_eq!(lba.end().get(), taken.next, "a commit is of what was just written");
                taken.cleaned = 0;
                self.uncount(lba);
                self.append(lba, pba);
                for k in 0..lba.len.get() {
                    let sector = lba.start.get() + k;
                    let spot = Spot { medium: self.spec.cache_medium, pba: pba.get() + k };
                    self.truth.commit_write(sector, written(self.writes, sector), spot);
                }
            }
            MapChange::Native { lba } => {
                let len = self.spec.band.get().min(self.spec.capacity.get() - lba.start.get());
                assert!(lba.start.get().is_multiple_of(self.spec.band.get()), "{lba:?} begins amid a band");
                assert_eq!(
                    (lba.len.get(), lba.end().get()),
                    (len, self.rewritten_to),
                    "a band is written whole"
                );
                self.uncount(lba);
                let home = std::mem::take(&mut taken.home);
                taken.cleaned = if home.is_empty() { taken.cleaned + 1 } else { 0 };
                assert!(taken.cleaned <= self.spec.bands_for_one_write, "{} cleaned", taken.cleaned);
                for sector in lba.start.get()..lba.end().get() {
                    let native = self.truth.native(sector);
                    match (home.start..home.end()).contains(&Lba(sector)) {
                        true => self.truth.commit_write(sector, written(self.writes, sector), native),
                        false => self.truth.move_to(sector, native),
                    }
                }
                let cache_band = lba.start.get() / self.spec.band.get() % self.spec.cache_bands;
                self.empty(cache_band);
            }
            MapChange::Remapped { lba, .. } | MapChange::Relocated { lba, .. } => {
                panic!("{lba:?} has one native location, and leaves the cache only for that")
            }
        }
    }

    /// Data band `a` is cached in cache band `a mod n` and nowhere else, behind what that has.
    fn append(&mut self, lba: LbaExtent, pba: Pba) {
        let band = self.spec.band.get();
        for (lba, pba) in [(lba.start.get(), pba.get()), (lba.end().get() - 1, (pba + lba.len).get() - 1)] {
            let cache_band = (pba - self.spec.cache_start.get()) / band;
            assert_eq!(cache_band, lba / band % self.spec.cache_bands, "cache band of sector {lba}");
        }
        let cache_band = self.cache_band_at(self.spec.cache_medium, pba).expect("in the cache");
        let offset = (pba.get() - self.spec.cache_start.get()) % band;
        if offset == 0 {
            // It was empty, or nothing of it was live any more.
            self.empty(cache_band);
        }
        let in_use = &mut self.in_use[cache_band as usize];
        assert_eq!(offset, *in_use, "a write goes on where the one before ended");
        if *in_use == 0 {
            self.filling.push(cache_band);
        }
        *in_use += lba.len.get().next_multiple_of(8);
        self.live[cache_band as usize] += lba.len.get();
        // What was read of it is old.
        self.cleanings += u32::from(cache_band == self.cleaned);
    }

    /// A cache band of which nothing is live can be written from its start on.
    fn empty(&mut self, cache_band: u64) {
        if !self.holds(cache_band) {
            self.in_use[cache_band as usize] = 0;
            self.filling.retain(|&other| other != cache_band);
        }
    }
}

/// What a plan was made for, and the sector that is to be moved next.
struct Taken {
    command: Option<Command>,
    next: u64,
    /// Data bands that were cleaned for what is next.
    cleaned: u64,
    /// What went home of the data band that is written back.
    home: LbaExtent,
}

impl Taken {
    fn new(command: Option<Command>) -> Self {
        let next = command.map_or(0, |command| command.extent.start.get());
        Self { command, next, cleaned: 0, home: LbaExtent::default() }
    }
}

impl Cached {
    fn follow(&mut self, taken: &mut Taken, steps: &[Step]) {
        let op = taken.command.map(|command| command.op);
        for step in steps {
            match *step {
                Step::Access { medium, direction, extent, purpose, .. } => match (purpose, direction) {
                    (Purpose::Host | Purpose::Cache, Direction::Read) => {
                        assert_eq!(op, Some(Op::Read));
                        taken.next = self.truth.read(medium, extent, taken.next);
                    }
                    (Purpose::Cache, Direction::Write) => {
                        assert_eq!(op, Some(Op::Write));
                        self.write(taken, medium, extent);
                    }
                    (Purpose::Host, Direction::Write) => {
                        assert_eq!(op, Some(Op::Write));
                        self.write_home(taken, medium, extent);
                    }
                    (Purpose::CleanRead, Direction::Read) => self.clean_read(taken, medium, extent),
                    (Purpose::CleanWrite, Direction::Write) => self.clean_write(medium, extent),
                    other => panic!("{other:?} makes no sense"),
                },
                Step::Commit(MapChange::Native { lba }) if op == Some(Op::Trim) => {
                    self.uncount(lba);
                    self.truth.trim(lba);
                    taken.next += lba.len.get();
                    // What cleaning read is old.
                    self.cleanings += 1;
                }
                Step::Commit(change) => self.commit(taken, change),
                // The order that they stand in is one of those allowed.
                Step::AnyOrder { .. } => {}
                Step::Fill { .. } | Step::Fail { .. } => panic!("{step:?} is none of a drive's own"),
                Step::Complete { command: id, .. } => panic!("{id:?} completes before the end"),
            }
        }
    }
}

impl Shadow for Cached {
    type Layer = SetAssociative;

    fn erase(&mut self, _layer: &SetAssociative) {
        self.truth.erase();
        self.live.fill(0);
        self.in_use.fill(0);
        self.filling.clear();
        self.cleanings += 1;
    }

    fn take(&mut self, queue: Queue<'_>, plan: &Plan, _pieces: &[Piece]) -> Vec<CommandId> {
        let command = queue.next_command();
        self.writes += u64::from(command.op == Op::Write);
        let (complete, steps) = plan.steps().split_last().expect("a plan has steps");
        assert_eq!(*complete, Step::done(command.id));
        let mut taken = Taken::new(Some(command));
        self.follow(&mut taken, steps);
        assert_eq!(taken.next, command.extent.end().get(), "what the host named was moved");
        vec![command.id]
    }

    fn idle(&mut self, plan: &Plan) {
        self.follow(&mut Taken::new(None), plan.steps());
    }

    fn can_clean(&self, _layer: &SetAssociative) -> bool {
        self.truth.extents() > 0
    }

    fn check_announced(&self, queue: Queue<'_>, announced: (Medium, Pba), plan: &Plan) {
        let host = |step: &Step| match *step {
            Step::Access { medium, direction, extent, purpose, .. } => match purpose {
                Purpose::Host | Purpose::Cache => Some((medium, extent.start, (direction, purpose))),
                _ => None,
            },
            _ => None,
        };
        let Some((medium, start, what)) = plan.steps().iter().find_map(host) else {
            return;
        };
        // What goes home is announced where the cleaning before it begins.
        let home = what == (Direction::Write, Purpose::Host);
        assert!(home || (medium, start) == announced, "what a scheduler is told of {queue:?}");
    }

    fn check(&self, layer: &SetAssociative, extent: LbaExtent, pieces: &mut Vec<Piece>) {
        self.truth.check_pieces(layer, extent, pieces);
        self.truth.check_cache_use(layer);
    }
}

fn pair(spec: SetAssociativeSpec, seed: u64, deepest: u64) -> Pair<Cached> {
    let (capacity, band) = (spec.capacity.get(), spec.band.get());
    let starts = (0..capacity).step_by(band as usize);
    let bands = starts.map(|start| LbaExtent::new(Lba(start), Sectors(band.min(capacity - start))));
    let sizes = Sizes { capacity, bands: bands.collect(), unit: band };
    Pair::new(SetAssociative::new(spec), Cached::new(spec), sizes, seed, deepest)
}

/// Small drives of every kind: cache at the OD, MD and ID and on flash, one cache band or many, a short band,
/// lazy or not, any watermark, patient or not.
fn any_spec() -> impl Strategy<Value = SetAssociativeSpec> {
    let sizes = (1u64..24, 1u64..40, 0.0..1.0f64, 1u64..8);
    let patience = prop_oneof![Just(u64::MAX), 1..4u64];
    let place = prop_oneof![Just("od"), Just("md"), Just("id"), Just("id after a gap"), Just("flash")];
    let watermark = prop_oneof![Just(1.0), 0.1..1.0f64];
    let cleaning = (any::<bool>(), patience);
    (sizes, place, watermark, cleaning).prop_map(|(sizes, place, watermark, (lazy, bands_for_one_write))| {
        let (band_blocks, bands, last, cache_bands) = sizes;
        let band = 8 * band_blocks;
        let short = 1 + ((band - 1) as f64 * last) as u64;
        let capacity = (bands - 1) * band + short;
        let cache_start = match place {
            "od" | "flash" => 0,
            "md" => capacity / 2 / band * band,
            "id" => capacity,
            _ => capacity + 13,
        };
        SetAssociativeSpec {
            capacity: Sectors(capacity),
            band: Sectors(band),
            cache_bands,
            cache_medium: if place == "flash" { Medium::Flash } else { Medium::Platter },
            cache_start: Pba(cache_start),
            usable: Sectors((band as f64 * watermark) as u64),
            bands_for_one_write,
            idle_after: (!lazy).then_some(Nanos(1)),
        }
    })
}

proptest! {
    #![proptest_config(cases(400))]

    /// The number of operations shrinks to the first that goes wrong.
    #[test]
    fn short_runs_keep_every_write(
        spec in any_spec(),
        seed in any::<u64>(),
        deepest in 1u64..8,
        operations in 1u64..3_000,
    ) {
        pair(spec, seed, deepest).run(operations);
    }
}

#[test]
fn lone_commands_keep_every_write() {
    half_share("set_associative", "lone commands", &(any_spec(), any::<u64>()), |(spec, seed)| {
        pair(spec, seed, 1).run(LONG)
    });
}

#[test]
fn deep_queues_keep_every_write() {
    half_share("set_associative", "deep queues", &(any_spec(), any::<u64>()), |(spec, seed)| {
        pair(spec, seed, 40).run(LONG)
    });
}

/// A cache of many small exceptions: its map has inner nodes, and a cleaning empties it from the middle.
#[test]
fn a_large_cache_keeps_every_write() {
    for (cache_medium, cache_start) in [
        (Medium::Platter, 0),
        (Medium::Platter, 61 * 1024),
        (Medium::Platter, 200 * 1024),
        (Medium::Flash, 0),
    ] {
        let spec = SetAssociativeSpec {
            capacity: Sectors(200 * 1024 - 5),
            band: Sectors(1024),
            cache_bands: 16,
            cache_medium,
            cache_start: Pba(cache_start),
            usable: Sectors(1024),
            bands_for_one_write: u64::MAX,
            idle_after: (cache_start == 0).then_some(Nanos(1)),
        };
        pair(spec, 7 + cache_start, 4).run(60_000);
    }
}

#[test]
fn planted_bugs_are_seen() {
    let bugs = [
        Bug::OffByOneBand(Direction::Write, Purpose::Cache),
        Bug::OffByOneBand(Direction::Write, Purpose::CleanWrite),
        Bug::OffByOneBand(Direction::Read, Purpose::CleanRead),
        Bug::OffByOneBand(Direction::Read, Purpose::Cache),
        Bug::OffByOneBand(Direction::Write, Purpose::Host),
        Bug::LostException,
        Bug::DroppedStage(Direction::Read, Purpose::CleanRead),
        Bug::DroppedStage(Direction::Write, Purpose::CleanWrite),
        Bug::DroppedStage(Direction::Write, Purpose::Cache),
        Bug::DroppedStage(Direction::Write, Purpose::Host),
        Bug::DroppedCommit,
        Bug::CommitOffByABlock,
        Bug::AnsweredOnly,
    ];
    bugs::all_are_seen(&bugs, 64, |seed| {
        let lazy = seed % 2 == 0;
        let bands_for_one_write = if seed % 3 == 0 { u64::MAX } else { 1 };
        let idle_after = (!lazy).then_some(Nanos(1));
        let spec = SetAssociativeSpec { idle_after, bands_for_one_write, ..small() };
        pair(spec, seed, 1 + seed % 32)
    });
}

fn small() -> SetAssociativeSpec {
    SetAssociativeSpec {
        capacity: Sectors(6 * 64),
        band: Sectors(64),
        cache_bands: 2,
        cache_medium: Medium::Platter,
        cache_start: Pba(6 * 64),
        usable: Sectors(64),
        bands_for_one_write: u64::MAX,
        idle_after: None,
    }
}

fn take(layer: &mut SetAssociative, op: Op, start: u64, len: u64) -> Vec<Step> {
    plan_builders::take(layer, &[command(3, op, start, len)], 0)
}

/// The plan of a cleaning, step by step: bands 1 and 5 share cache band 1, band 3 has nothing in it.
#[test]
fn a_cleaning_reads_the_cache_band_once_and_writes_back_each_band_that_is_in_it() {
    let mut layer = SetAssociative::new(small());
    take(&mut layer, Op::Write, 64, 40);
    take(&mut layer, Op::Write, 5 * 64 + 8, 24);
    let steps = take(&mut layer, Op::Write, 64 + 3, 2);
    let cache = 7 * 64;
    let native = |band: u64| MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) };
    let cached = MapChange::Cached { lba: LbaExtent::new(Lba(64 + 3), Sectors(2)), pba: Pba(cache).into() };
    let expected = [
        access(Direction::Read, cache, 64, Purpose::CleanRead),
        access(Direction::Read, 64, 64, Purpose::CleanRead),
        access(Direction::Write, 64, 64, Purpose::CleanWrite),
        Step::Commit(native(1)),
        access(Direction::Read, 5 * 64, 64, Purpose::CleanRead),
        access(Direction::Write, 5 * 64, 64, Purpose::CleanWrite),
        Step::Commit(native(5)),
        access(Direction::Write, cache, 2, Purpose::Cache),
        Step::Commit(cached),
        Step::done(CommandId(3)),
    ];
    assert_eq!(steps, expected);
}

/// The same for a host that waits for one data band: the next write goes home with its own, the one after that empties the rest.
#[test]
fn a_write_that_finds_no_room_soon_goes_home_with_its_data_band() {
    let mut layer = SetAssociative::new(SetAssociativeSpec { bands_for_one_write: 1, ..small() });
    take(&mut layer, Op::Write, 64, 24);
    take(&mut layer, Op::Write, 3 * 64, 24);
    take(&mut layer, Op::Write, 5 * 64, 16);
    let native =
        |band: u64| Step::Commit(MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) });
    let read = |band: u64| access(Direction::Read, band * 64, 64, Purpose::CleanRead);
    let write = |start: u64, len: u64, purpose| access(Direction::Write, start, len, purpose);
    let expected = [
        access(Direction::Read, 7 * 64, 64, Purpose::CleanRead),
        read(1),
        write(64, 64, Purpose::CleanWrite),
        native(1),
        read(3),
        write(3 * 64, 8, Purpose::CleanWrite),
        write(3 * 64 + 8, 8, Purpose::Host),
        write(3 * 64 + 16, 48, Purpose::CleanWrite),
        native(3),
        Step::done(CommandId(3)),
    ];
    assert_eq!(take(&mut layer, Op::Write, 3 * 64 + 8, 8), expected);
    let cached = MapChange::Cached { lba: LbaExtent::new(Lba(64), Sectors(8)), pba: Pba(7 * 64).into() };
    let expected = [
        read(5),
        write(5 * 64, 64, Purpose::CleanWrite),
        native(5),
        write(7 * 64, 8, Purpose::Cache),
        Step::Commit(cached),
        Step::done(CommandId(3)),
    ];
    assert_eq!(take(&mut layer, Op::Write, 64, 8), expected);
}

/// The next write to a full cache band begins with its cleaning, not behind its end.
#[test]
fn a_scheduler_is_told_where_a_write_begins() {
    let mut layer = SetAssociative::new(small());
    let block = LbaExtent::new(Lba(64), Sectors(8));
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64)));
    take(&mut layer, Op::Write, 64, 56);
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64 + 56)));
    take(&mut layer, Op::Write, 64, 8);
    assert_eq!(layer.locate_first(block, true), (Medium::Platter, Pba(7 * 64)));
}

#[test]
fn an_erased_drive_appends_from_the_start_of_its_cache() {
    let mut layer = SetAssociative::new(small());
    take(&mut layer, Op::Write, 64, 40);
    layer.erase();
    assert_eq!(layer.cache_use().live_sectors, 0);
    let steps = take(&mut layer, Op::Write, 64, 8);
    assert_eq!(steps[0], access(Direction::Write, 7 * 64, 8, Purpose::Cache));
}

#[test]
fn a_flush_moves_nothing_and_a_drive_left_alone_does_nothing() {
    let mut layer = SetAssociative::new(small());
    assert_eq!(take(&mut layer, Op::Flush, 0, 0), [Step::done(CommandId(3))]);
    take(&mut layer, Op::Write, 64, 40);
    let mut plan = Plan::default();
    assert_eq!(layer.idle(&mut plan), Idle::Nothing);
    assert!(plan.steps().is_empty(), "cleaning is lazy");
}

/// In idle time, step by step: the cache band that began to fill first; a write to it has it begin anew.
#[test]
fn an_aggressive_drive_empties_its_cache_bands_in_idle_time() {
    let mut layer = SetAssociative::new(SetAssociativeSpec { idle_after: Some(Nanos(1)), ..small() });
    take(&mut layer, Op::Write, 64, 8);
    take(&mut layer, Op::Write, 0, 8);
    take(&mut layer, Op::Write, 3 * 64, 8);
    let native =
        |band: u64| Step::Commit(MapChange::Native { lba: LbaExtent::new(Lba(band * 64), Sectors(64)) });
    let rewrite = |band: u64| {
        let write = access(Direction::Write, band * 64, 64, Purpose::CleanWrite);
        [vec![access(Direction::Read, band * 64, 64, Purpose::CleanRead)], vec![write, native(band)]]
    };
    assert_eq!(idle(&mut layer), [access(Direction::Read, 7 * 64, 16, Purpose::CleanRead)]);
    assert_eq!(idle(&mut layer), rewrite(1)[0]);
    take(&mut layer, Op::Write, 5 * 64, 8);
    assert_eq!(idle(&mut layer), [access(Direction::Read, 7 * 64, 24, Purpose::CleanRead)], "begun anew");
    for steps in [rewrite(1), rewrite(3), rewrite(5)].concat() {
        assert_eq!(idle(&mut layer), steps);
    }
    assert_eq!(idle(&mut layer), [access(Direction::Read, 6 * 64, 8, Purpose::CleanRead)], "the other one");
    for steps in rewrite(0) {
        assert_eq!(idle(&mut layer), steps);
    }
    assert_eq!((idle(&mut layer), layer.cache_use().live_sectors), (vec![], 0));
}

/// A watermark of three quarters: six blocks of eight, or one longer write.
#[test]
fn a_write_beyond_the_watermark_waits_for_cleaning() {
    let mut layer = SetAssociative::new(SetAssociativeSpec { usable: Sectors(48), ..small() });
    assert_eq!(take(&mut layer, Op::Write, 64, 60).len(), 3, "an empty cache band takes it");
    let cleans = |steps: &[Step]| steps[0] == access(Direction::Read, 7 * 64, 64, Purpose::CleanRead);
    assert!(cleans(&take(&mut layer, Op::Write, 64, 8)));
    for _ in 1..6 {
        assert_eq!(take(&mut layer, Op::Write, 64, 8).len(), 3);
    }
    assert_eq!(
        take(&mut layer, Op::Write, 64, 8)[0],
        access(Direction::Read, 7 * 64, 48, Purpose::CleanRead)
    );
}
