//! A drive's life in sessions, and a cut after every effect of each.
//!
//! A session starts a drive, works with it, and often switches it off; its effects on the medium are kept. Then
//! the power is cut after none of them, after the first, after the second, and so on: each time the medium keeps
//! some of what was not synced, a drive is started from that (sometimes it is cut again in the middle of its
//! start), and every sector is compared with what the oracle allows; then it has to work on. The next session
//! starts from one of the cuts.

use std::time::Duration;

use crate::media::fault::{FaultStore, Medium, Random};
use crate::media::ram::RamStore;
use skylight_image::format::sums::{Marks, REGIONS};
use skylight_image::format::superblock::Superblock;
use skylight_image::planted_bugs::{Planted, Plants};
use skylight_image::store::checksummed::SumOptions;
use skylight_image::{Image, Options, Store, Write};
use skylight_layer::{Idle, Layer};

use crate::common::{Event, Lives, Session};
use crate::drives::{Drive, SECTORS};
use crate::oracle::{Op, Oracle, bytes_of};
use crate::pending_flush::PendingFlush;

/// Commands of a session.
const SESSION: u64 = 60;
/// Bytes of a region, so that each drive has some twenty.
const REGION: u64 = 64 << 10;

/// Where the bytes of a drive's image lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lies {
    /// Where plans put them.
    Planned,
    /// Each at one place for good.
    InPlace,
    /// By turns: some sessions are over a disk that sets the time.
    Both,
}

/// A life: which drive, how, and how many cuts of it there were.
pub struct Life {
    drive: Drive,
    boundaries: Vec<u64>,
    lies: Lies,
    /// Whether marks never wait for the next flush.
    pub marks_at_once: bool,
    options: Options,
    random: Random,
    oracle: Oracle,
    next_number: u64,
    flush: PendingFlush,
    /// Whether this session flushes all the time.
    flushes: bool,
    pub cuts: u64,
    /// What came up, to be sure that it did.
    pub seen: Seen,
}

/// How often something came up.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub refused_tags: u64,
    pub checkpoints: u64,
    /// Pieces of checkpoints that were written behind commands.
    pub pieces: u64,
    /// Sessions that did every access, as a raw disk underneath does.
    pub every_access: u64,
    pub cuts_in_recovery: u64,
    pub clean_starts: u64,
    pub idle_work: u64,
    /// Flushes with commands between their beginning and their end.
    pub flushes_beside: u64,
    /// Sectors of unsure regions that counted though their checksums differed.
    pub accepted: u64,
    /// Bytes that were flipped after a cut, and were errors.
    pub flips_noticed: u64,
    /// Bytes that were flipped where a cut may have taken what was written.
    pub flips_unsure: u64,
}

impl Life {
    pub fn new(
        drive: Drive,
        (write_cache, checksums): (bool, bool),
        seed: u64,
        planted: Option<Planted>,
    ) -> Self {
        // Small ones, so that checkpoints take several commands and many a cut meets one half done.
        let (log_bytes, piece) = (Some(8192), Some(3));
        let sums = SumOptions {
            boot_id: Some([0; 16]),
            region_bytes: Some(REGION),
            clears_after: Some(Duration::ZERO),
            plants: Plants::NONE,
        };
        let plants = planted.into();
        let options =
            Options { write_cache, plants, log_bytes, piece, checksums, sums, ..Options::default() };
        let options = Options { planned: true, ..options };
        Self {
            drive,
            boundaries: Vec::new(),
            lies: Lies::Planned,
            marks_at_once: false,
            options,
            random: Random(seed),
            oracle: Oracle::new(SECTORS, write_cache),
            next_number: 1,
            flush: PendingFlush::None,
            flushes: false,
            cuts: 0,
            seen: Seen::default(),
        }
    }

    /// What sectors may be.
    #[allow(dead_code, reason = "another test looks at it")]
    pub fn current(&self) -> &Oracle {
        &self.oracle
    }

    /// The same with its image in parts: the flash apart, or else the platters in three.
    pub fn in_parts(mut self) -> Self {
        let layer = (self.drive.layer)();
        let Superblock { platter, flash, .. } = Superblock::with_log(
            0,
            SECTORS * 512,
            &layer.media_use(),
            "",
            self.options.log_bytes.unwrap_or(0),
        );
        let third = platter.len / 3 / 4096 * 4096;
        self.boundaries = match flash.len {
            0 => vec![platter.start + third, platter.start + 2 * third],
            _ => vec![flash.start],
        };
        self
    }

    /// The same with bytes that lie elsewhere than in a planned image.
    pub fn lying(mut self, lies: Lies) -> Self {
        self.lies = lies;
        self.options.planned = lies == Lies::Planned;
        self
    }

    /// Plants a fault in what keeps checksums.
    #[allow(dead_code, reason = "another test has none")]
    pub fn plant(&mut self, bug: Planted) {
        self.options.sums.plants = Some(bug).into();
    }

    fn draw_extent(&mut self, hot: u64) -> (u64, u64) {
        let random = &mut self.random;
        let len = match random.below(16) {
            0..=5 => 8,
            6..=8 => 1 + random.below(16),
            9..=12 => 8 * (1 + random.below(8)),
            13 | 14 => [96, 64, 64, 128][random.below(4) as usize],
            _ => 1 + random.below(512),
        };
        // Some sessions keep to a part of the drive, so that writes meet again.
        let most = if hot == 0 { SECTORS } else { (SECTORS / (1 << (2 * hot))).max(128) };
        let start = match random.below(4) {
            0 => random.below(most / 96) * 96,
            1 => SECTORS / 2 + random.below(most / 2 / 64) * 64,
            _ => random.below(most / 8) * 8 + if random.below(4) == 0 { random.below(8) } else { 0 },
        };
        let start = start.min(SECTORS - 1);
        (start, (start + len).min(SECTORS))
    }

    fn draw(&mut self, hot: u64) -> Op {
        // One that was begun goes on soon, so that there are many.
        if !matches!(self.flush, PendingFlush::None) && self.random.below(4) == 0 {
            return match self.flush {
                PendingFlush::Begun(_) => Op::Sync,
                _ => Op::EndFlush,
            };
        }
        if self.flushes && matches!(self.flush, PendingFlush::None) && self.random.below(4) == 0 {
            return Op::BeginFlush;
        }
        match self.random.below(32) {
            0..=17 => {
                let several = self.random.below(4) == 0;
                let count = if several { 2 + self.random.below(8) } else { 1 };
                let mut writes: Vec<(u64, u64, u64)> = Vec::new();
                let in_order = self.random.below(3) == 0;
                for _ in 0..count {
                    let (mut from, mut to) = self.draw_extent(hot);
                    // Runs that continue each other become streams and whole bands.
                    if let Some(&(_, last, _)) = writes.last().filter(|_| in_order) {
                        let len = to - from;
                        from = last % SECTORS;
                        to = (from + len).min(SECTORS);
                    }
                    writes.push((from, to, self.next_number));
                    self.next_number += 1;
                }
                Op::Write(writes, self.random.below(8) == 0)
            }
            18 | 19 => Op::Flush,
            20 | 21 if matches!(self.flush, PendingFlush::None) => Op::BeginFlush,
            22 => {
                let (from, to) = self.draw_extent(hot);
                Op::Trim(from, to)
            }
            23 => {
                let (from, to) = self.draw_extent(hot);
                Op::Zero(from, to, self.random.below(2) == 0)
            }
            _ => Op::Idle,
        }
    }

    fn ask(&mut self, image: &mut Image, op: &Op) -> Result<(), String> {
        let range = |from: u64, to: u64| (from * 512, (to - from) * 512);
        let done = match op {
            Op::Write(writes, fua) => {
                let data: Vec<_> =
                    writes.iter().map(|&(from, to, number)| bytes_of(from, to, number)).collect();
                let writes: Vec<_> = writes
                    .iter()
                    .zip(&data)
                    .map(|(&(from, ..), data)| Write { offset: from * 512, data, fua: *fua })
                    .collect();
                image.write_many(&writes)
            }
            Op::Flush => image.flush(),
            Op::BeginFlush => {
                self.flush.begin(image).map(|beside| self.seen.flushes_beside += u64::from(beside))
            }
            Op::Sync => return self.flush.sync(),
            Op::EndFlush => self.flush.end(image),
            Op::Trim(from, to) => image.trim(range(*from, *to).0, range(*from, *to).1),
            Op::Zero(from, to, fua) => image.write_zeroes(range(*from, *to).0, range(*from, *to).1, *fua),
            Op::Idle => image.idle().map(|idle| self.seen.idle_work += u64::from(idle == Idle::Worked)),
            Op::Open | Op::Close => Ok(()),
        };
        done.map_err(|error| error.to_string())
    }

    /// A byte that changes after a cut is an error, or nothing that anybody reads, wherever the cut can have taken
    /// nothing.
    fn flip(&mut self, mut left: RamStore, found: &[u8]) -> Result<(), String> {
        let superblock = superblock_of(&left);
        let media = superblock.media();
        let byte = self.random.below(media.len);
        if is_unsure(&left, &superblock, byte) {
            self.seen.flips_unsure += 1;
            return Ok(());
        }
        let in_entry = self.random.below(4) == 0;
        let entry = superblock.sums.start + skylight_image::format::sums::ENTRIES + byte / 512 * 4 + byte % 4;
        flip_byte(&mut left, if in_entry { entry } else { media.start + byte });
        let mut image = self.open(&FaultStore::new(left))?;
        let mut sector = [0; 512];
        for (at, right) in found.chunks_exact(512).enumerate() {
            match image.read(at as u64 * 512, &mut sector) {
                Err(_) => self.seen.flips_noticed += 1,
                Ok(()) if sector == right => {}
                Ok(()) => return Err(format!("byte {byte} of the media flipped: sector {at} is served")),
            }
        }
        Ok(())
    }

    /// The drive that was cut goes on, and keeps what it flushes.
    fn work_on(&mut self, mut image: Image, store: FaultStore, found: &[u8]) -> Result<(), String> {
        image.audit()?;
        let mut oracle = self.oracle.clone();
        oracle.found(found);
        self.flush = PendingFlush::None;
        for _ in 0..self.random.below(6) {
            let op = self.draw(0);
            oracle.begin(&op);
            self.ask(&mut image, &op)?;
            oracle.end(&op);
            image.audit().map_err(|why| format!("working on, {op:?}: {why}"))?;
        }
        let now = self.look_at(&mut image)?;
        oracle.check_now(&now).map_err(|why| format!("working on: {why}"))?;
        image.flush().map_err(|error| error.to_string())?;
        oracle.end(&Op::Flush);
        // What is not durable is still there after a kill.
        for _ in 0..self.random.below(3) {
            let op = self.draw(1);
            oracle.begin(&op);
            self.ask(&mut image, &op)?;
        }
        drop(image);
        let mut image = self.open(&store).map_err(|why| format!("after a kill: {why}"))?;
        oracle.check_cut(&self.look_at(&mut image)?).map_err(|why| format!("after a kill: {why}"))
    }
}

impl Lives for Life {
    type Op = Op;
    type Found = Vec<u8>;
    type Oracle = Oracle;

    fn layer(&self) -> Box<dyn Layer> {
        (self.drive.layer)()
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn boundaries(&self) -> Vec<u64> {
        self.boundaries.clone()
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn oracle(&mut self) -> &mut Oracle {
        &mut self.oracle
    }

    fn cuts(&mut self) -> &mut u64 {
        &mut self.cuts
    }

    fn session(&mut self, store: RamStore) -> Result<Session<Op, Vec<u8>>, String> {
        self.options.every_access = self.random.below(2) == 0 && self.lies != Lies::InPlace;
        self.seen.every_access += u64::from(self.options.every_access);
        self.power_is_back();
        let start = Medium::new(store.clone());
        let store = FaultStore::new(store);
        // On some media a mark waits for the next flush.
        store.set_write_dear(!self.marks_at_once && self.random.below(2) == 0);
        let mut events = vec![(0, Event::Begin(Op::Open))];
        (self.flush, self.flushes) = (PendingFlush::None, self.random.below(2) == 0);
        let mut now = self.oracle.clone();
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        now.check_cut(&found)?;
        now.found(&found);
        image.audit().map_err(|why| format!("session start: {why}"))?;
        events.push((store.effects(), Event::Found(found)));
        self.seen.refused_tags += image.status().recovery.refused;
        self.seen.clean_starts += u64::from(image.status().recovery.clean);
        let commands = 1 + self.random.below(SESSION);
        let hot = self.random.below(4);
        for _ in 0..commands {
            let op = self.draw(hot);
            events.push((store.effects(), Event::Begin(op.clone())));
            now.begin(&op);
            self.ask(&mut image, &op)?;
            events.push((store.effects(), Event::End(op.clone())));
            now.end(&op);
            image.audit().map_err(|why| format!("in a session, {op:?}: {why}"))?;
            if self.random.below(8) == 0 {
                now.check_now(&self.look_at(&mut image)?)?;
            }
        }
        now.check_now(&self.look_at(&mut image)?)?;
        self.seen.checkpoints += image.status().counters.checkpoints;
        self.seen.pieces += image.status().counters.pieces;
        if self.random.below(3) == 0 {
            events.push((store.effects(), Event::Begin(Op::Close)));
            image.close().map_err(|error| error.to_string())?;
            events.push((store.effects(), Event::End(Op::Close)));
        }
        Ok(Session { start, effects: store.take_effects(), events })
    }

    fn power_is_back(&mut self) {
        self.options.sums.boot_id = Some((u128::from(self.random.below(u64::MAX)) + 1).to_le_bytes());
    }

    fn happen(&mut self, event: Event<Op, Vec<u8>>) {
        match event {
            Event::Begin(op) => self.oracle.begin(&op),
            Event::End(op) => self.oracle.end(&op),
            Event::Found(bytes) => self.oracle.found(&bytes),
        }
    }

    fn cut(&mut self, medium: &Medium) -> Result<(), String> {
        let left = medium.cut(&mut self.random);
        self.power_is_back();
        let store = FaultStore::new(left.clone());
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        self.oracle.check_cut(&found)?;
        self.seen.accepted += image.status().sums.map_or(0, |sums| sums.accepted);
        if self.options.checksums && self.random.below(4) == 0 {
            self.flip(left.clone(), &found)?;
        }
        let effects = store.take_effects();
        if !effects.is_empty() && self.random.below(2) == 0 {
            self.cut_in_recovery(left, &effects, &found)?;
            self.seen.cuts_in_recovery += 1;
        }
        if self.random.below(3) == 0 {
            self.work_on(image, store, &found)?;
        }
        Ok(())
    }

    /// All of a drive, as it reads; where its layer and its image say that it lies is one place.
    fn look_at(&mut self, image: &mut Image) -> Result<Vec<u8>, String> {
        let mut bytes = vec![0; (SECTORS * 512) as usize];
        image.read(0, &mut bytes).map_err(|error| error.to_string())?;
        Ok(bytes)
    }
}

fn superblock_of(store: &RamStore) -> Superblock {
    let mut block = [0; 512];
    store.read_at(0, &mut block).expect("a superblock");
    Superblock::decode(&block, |_, _| Ok(())).expect("a superblock")
}

/// Whether the marks on the medium say that a byte of the media was not durable when the power failed.
fn is_unsure(store: &RamStore, superblock: &Superblock, byte: u64) -> bool {
    let (block, region) = ((byte / REGION) as usize / REGIONS, (byte / REGION) as usize % REGIONS);
    let mut bytes = [0; 512];
    store.read_at(superblock.sums.start + block as u64 * 512, &mut bytes).expect("a block of marks");
    let marks = Marks::decode(&bytes, superblock.salt);
    marks.is_some_and(|marks| (marks.dirty[region / 8] | marks.unsure[region / 8]) >> (region % 8) & 1 == 1)
}

fn flip_byte(store: &mut RamStore, at: u64) {
    let mut byte = [0];
    store.read_at(at, &mut byte).expect("it is there");
    store.write_at(at, &[byte[0] ^ 0x40]).expect("it is there");
}
