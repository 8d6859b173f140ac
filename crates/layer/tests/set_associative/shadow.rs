//! A shadow that knows, for every sector, its last write and where it lies.
//!
//! It learns from plans only. It keeps an image of the media in which a sector's content is the
//! number of the write and the address it was for, follows the steps one by one, and asks at each whether a
//! drive that did just this would still have all its data: nothing live is overwritten, a band is written
//! back from sectors that were read before, and what a commit says is where the image has it.

use skylight_disk::{Direction, Lba, LbaExtent, Pba, PbaExtent};
use skylight_layer::{
    Command, CommandId, MapChange, Medium, Op, Piece, Plan, Purpose, Queue, SetAssociative,
    SetAssociativeSpec, Step,
};

use crate::common::layer_and_shadow::Shadow;
use crate::common::truth::{Spot, Truth, written};

/// See the module page.
pub struct Cached {
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
    pub fn new(spec: SetAssociativeSpec) -> Self {
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
