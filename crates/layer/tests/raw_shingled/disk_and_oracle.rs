//! A raw shingled disk and its oracle, driven by a random host: what reads give in every mode, what the disk
//! says of its sectors, its counters and its records, after each command.

use skylight_disk::{Direction, Lba, LbaExtent, PbaExtent, Sectors, Time};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode, SectorState, Snapshot, Stamp};
use skylight_layer::{
    Command, CommandId, Failure, Layer, Medium, Op, Outcome, Overwriting, Plan, Purpose, Queue, Step, Swd,
};

use super::common::host::Stream;
use super::disks::{Disk, PATTERN, sectors};
use super::oracle::Surface;

/// Places where a host goes on, by turns.
const LOGS: usize = 3;

/// What a read gave for a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Given {
    value: u64,
    failed: bool,
}

/// A byte of a pattern as a value that no write has.
fn patterned(pattern: u8) -> u64 {
    u64::MAX - u64::from(pattern)
}

/// What a disk that only reads and writes has of each sector: the data last written to it.
type Backing = Vec<u64>;

pub struct Pair<'a> {
    disk: &'a Disk,
    layer: Swd,
    surface: Surface,
    backing: Backing,
    stream: Stream,
    plan: Plan,
    mode: ReadMode,
    /// Where each of a few logs goes on, and the one that is written now.
    next: [u64; LOGS],
    log: usize,
    /// A host that reads so seldom leaves many writes for later.
    reads_once_in: u64,
    value: u64,
    now: u64,
    writes: u64,
    /// Writes that destroyed a sector, reads that met an overwritten one, and how many of them.
    counted: [u64; 3],
}

impl<'a> Pair<'a> {
    pub fn new(disk: &'a Disk, layer: Swd, surface: Surface, seed: u64) -> Self {
        let (backing, mode) = (vec![0; surface.sectors() as usize], layer.mode());
        let plan = Plan::default();
        let ([value, now, writes], next, log) = ([0; 3], [0; LOGS], 0);
        let mut stream = Stream(seed ^ 0x5eed);
        let reads_once_in = if stream.once_in(3) { 12 } else { 4 };
        let counted = [0; 3];
        Self {
            disk,
            layer,
            surface,
            backing,
            stream,
            plan,
            mode,
            next,
            log,
            reads_once_in,
            value,
            now,
            writes,
            counted,
        }
    }

    /// So many commands, each checked.
    pub fn run(&mut self, commands: u64) {
        for _ in 0..commands {
            self.step();
        }
        self.check_all();
    }

    fn step(&mut self) {
        if self.stream.once_in(20) {
            let data = match self.stream.below(2) {
                0 => ReadData::Overwriting,
                _ => ReadData::Pattern,
            };
            self.mode = ReadMode { data, fail: self.stream.once_in(2) };
            self.layer.set_mode(self.mode);
        }
        if self.stream.once_in(60) {
            self.restart();
        }
        if self.stream.once_in(8) {
            self.refused();
        }
        self.now += self.stream.below(3);
        self.layer.clock(Time(self.now));
        let mut extent = self.disk.extent(&mut self.stream);
        let write = !self.stream.once_in(self.reads_once_in);
        let all = self.disk.places.len() as u64;
        self.log = self.stream.below(LOGS as u64) as usize;
        let next = self.next[self.log];
        if write && !self.stream.once_in(3) && next < all {
            extent = LbaExtent::new(Lba(next), extent.len.min(Sectors(all - next)));
        }
        match write {
            true => self.write(extent),
            false => self.read(extent),
        }
        if self.stream.once_in(2 * self.reads_once_in) {
            let extent = self.disk.extent(&mut self.stream);
            self.check_state(extent);
        }
    }

    /// The disk goes on from a snapshot: a new layer that was told what the old one knew.
    fn restart(&mut self) {
        self.layer.recorded();
        let snapshot: Snapshot = self.layer.snapshot();
        assert!(self.layer.restore_snapshot(&snapshot), "it is one of this disk");
        assert_eq!(self.layer.snapshot(), snapshot, "a snapshot is all there is to know");
    }

    /// A write that is refused before it is on record: taken back, or forgotten with the power.
    fn refused(&mut self) {
        let extent = self.disk.extent(&mut self.stream);
        self.layer.clock(Time(self.now + 1));
        self.take(Op::Write, extent);
        let stamp = Stamp { write: self.writes + 1, at: Time(self.now + 1) };
        assert_eq!(self.layer.unrecorded(), Some((extent, stamp)));
        if self.stream.once_in(2) {
            let snapshot = self.layer.snapshot();
            assert_eq!(snapshot.writes, self.writes, "a snapshot has what is on record");
            assert!(self.layer.restore_snapshot(&snapshot), "it is one of this disk");
        } else {
            self.layer.take_back();
        }
        assert_eq!(self.layer.unrecorded(), None);
    }

    fn take(&mut self, op: Op, extent: LbaExtent) {
        self.plan.clear();
        let waiting = [Command::new(CommandId(7), op, extent)];
        self.layer.take(Queue { waiting: &waiting, next: 0 }, &mut self.plan);
        let fails = self.plan.steps().iter().any(|step| matches!(step, Step::Fail { .. }));
        let outcome = if fails { Outcome::Failed(Failure::Overwritten) } else { Outcome::Done };
        assert_eq!(self.plan.steps().last(), Some(&Step::Complete { command: CommandId(7), outcome }));
    }

    fn write(&mut self, extent: LbaExtent) {
        self.take(Op::Write, extent);
        self.writes += 1;
        self.next[self.log] = extent.end().get();
        let by = Stamp { write: self.writes, at: Time(self.now) };
        let mut places = self.disk.places(extent).iter();
        let (last, steps) = self.plan.steps().split_last().expect("a plan has steps");
        assert_eq!(*last, Step::done(CommandId(7)));
        for step in steps {
            for pba in accessed(step, Direction::Write) {
                assert_eq!(places.next(), Some(&pba), "sectors are written where they belong, in order");
                self.value += 1;
                self.backing[pba as usize] = self.value;
                self.surface.write(pba, self.value, by);
            }
        }
        assert_eq!(places.next(), None, "all of {extent:?} is written");
        let destroys = self.disk.places(extent).iter().any(|&pba| self.surface.destroys(pba));
        self.counted[0] += u64::from(destroys);
    }

    /// What the plan gives for each sector of a read.
    fn given(&self, extent: LbaExtent) -> Vec<Given> {
        let mut given = Vec::new();
        for step in self.plan.steps() {
            if let Step::Access { .. } = step {
                let data = accessed(step, Direction::Read).map(|pba| self.backing[pba as usize]);
                given.extend(data.map(|value| Given { value, failed: false }));
            }
        }
        assert_eq!(given.len() as u64, extent.len.get(), "as many sectors are read as were asked for");
        for step in self.plan.steps() {
            let (Step::Fill { command, extent: part, .. } | Step::Fail { command, extent: part, .. }) = *step
            else {
                continue;
            };
            assert_eq!(command, CommandId(7));
            let from = (part.start - extent.start).get() as usize;
            for given in &mut given[from..from + part.len.get() as usize] {
                match *step {
                    Step::Fill { pattern, .. } => given.value = patterned(pattern),
                    Step::Fail { reason, .. } => {
                        assert_eq!(reason, Failure::Overwritten);
                        assert!(!given.failed, "an error for each sector once");
                        given.failed = true;
                    }
                    _ => {}
                }
            }
        }
        given
    }

    fn read(&mut self, extent: LbaExtent) {
        self.take(Op::Read, extent);
        let given = self.given(extent);
        let mut met = 0;
        for (&pba, given) in self.disk.places(extent).iter().zip(given) {
            let (content, torn) = (self.surface.at(pba), self.surface.is_overwritten(pba));
            let value = match self.mode.data {
                ReadData::Pattern if torn => patterned(PATTERN),
                _ => content.value,
            };
            assert_eq!(given, Given { value, failed: torn && self.mode.fail }, "sector {pba}: {content:?}");
            met += u64::from(torn);
        }
        self.counted[1] += u64::from(met > 0);
        self.counted[2] += met;
    }

    /// What the disk says of an extent.
    fn check_state(&mut self, extent: LbaExtent) {
        let mut next = extent.start;
        let (disk, surface) = (self.disk, &self.surface);
        self.layer.visit_state(extent, &mut |part, state| {
            assert_eq!(part.start, next, "parts follow each other");
            next = part.end();
            let places = disk.places(part);
            match state {
                SectorState::Native => assert!(!places.iter().any(|&pba| surface.is_overwritten(pba))),
                SectorState::Overwritten { source, by } => {
                    assert_eq!(surface.at(places[0]).origin, source.get());
                    for &pba in places {
                        assert!(surface.is_overwritten(pba), "sector {pba} is native");
                        assert_eq!(surface.at(pba).by, by, "who destroyed sector {pba}");
                    }
                }
            }
        });
        assert_eq!(next, extent.end(), "parts cover the extent");
    }

    fn check_all(&mut self) {
        self.check_state(LbaExtent::new(Lba(0), Sectors(self.disk.places.len() as u64)));
        let counters = self.layer.counters();
        assert_eq!(counters.overwritten_sectors, self.surface.overwritten());
        assert_eq!([counters.overwritten_reads, counters.overwritten_sectors_read], self.counted[1..]);
        assert_eq!(counters.overwriting_writes, self.counted[0]);
    }
}

/// The sectors that a step reads or writes.
fn accessed(step: &Step, way: Direction) -> impl Iterator<Item = u64> + use<> {
    let Step::Access { medium, direction, extent, purpose, .. } = *step else {
        panic!("{step:?} is no access");
    };
    assert_eq!((medium, direction, purpose), (Medium::Platter, way, Purpose::Host));
    assert!(!extent.is_empty(), "an empty access");
    sectors(PbaExtent::new(extent.start, extent.len))
}
