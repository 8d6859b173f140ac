//! One session: an image works, its file system fills up, it works on, there is space again or not, the power fails.

use crate::media::fault::{Effect, FaultStore, Full, Medium, Random};
use crate::media::ram::RamStore;
use skylight_image::planted_bugs::Planted;
use skylight_image::{Image, ImageError, Options, Write};

use crate::drives::{Drive, SECTORS};
use crate::model::{Model, bytes_of};

/// Commands before it is full, at most; while it is; and after there is space again.
const COMMANDS: [u64; 3] = [80, 30, 30];

/// What came up, to be sure that it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// Commands that failed for want of space.
    pub refused: u64,
    /// Commands that succeeded on a full file system.
    pub done_full: u64,
    /// Sessions that went on when there was space again.
    pub mended: u64,
    /// Starts where all was full.
    pub started_full: u64,
    pub cuts: u64,
    /// Idle work that was refused.
    pub idle_refused: u64,
    pub checkpoints: u64,
}

enum Op {
    Write(Vec<(u64, u64, u64)>, bool),
    Flush,
    Trim(u64, u64),
    Zero(u64, u64),
    Idle,
}

/// See the module page.
pub struct Session {
    drive: Drive,
    options: Options,
    random: Random,
    model: Model,
    next_number: u64,
    store: FaultStore,
    medium: Medium,
    /// What its file system refuses by now.
    full: Option<Full>,
}

impl Session {
    pub fn new(drive: Drive, seed: u64, planted: Option<Planted>) -> Self {
        let mut random = Random(seed);
        let write_cache = random.below(2) == 0;
        let every_access = random.below(2) == 0;
        let options = Options {
            write_cache,
            every_access,
            plants: planted.into(),
            // Short ones wrap, and bring checkpoints; long ones are allocated as they grow.
            log_bytes: Some([8192, 65_536][random.below(2) as usize]),
            piece: Some(3),
            ahead: Some(0),
            ..Options::default()
        };
        let store = RamStore::new(Image::bytes_needed((drive.layer)().as_ref(), &options));
        let (store, medium) = (FaultStore::new(store.clone()), Medium::new(store));
        Self { drive, options, random, model: Model::new(SECTORS), next_number: 1, store, medium, full: None }
    }

    pub fn run(mut self, seen: &mut Seen) -> Result<(), String> {
        let made = Image::create_on(Box::new(self.store.clone()), (self.drive.layer)(), "", &self.options);
        let mut image = made.map_err(|error| error.to_string())?;
        let [before, during, after] = COMMANDS.map(|most| 1 + self.random.below(most));
        for _ in 0..before {
            self.ask(&mut image, seen)?.map_err(|error| error.to_string())?;
        }
        let full = if self.random.below(3) == 0 { Full::Writes } else { Full::Holes };
        // Within the next commands, after any of their effects.
        self.store.full_after(self.random.below(40), full);
        self.full = Some(full);
        for _ in 0..during {
            match self.ask(&mut image, seen)? {
                Ok(()) => seen.done_full += 1,
                Err(error) if error.is_no_space() => seen.refused += 1,
                Err(error) => return Err(format!("not for want of space: {error}")),
            }
        }
        if self.random.below(2) == 0 {
            self.store.mend();
            self.full = None;
            seen.mended += 1;
            for _ in 0..after {
                let done = self.ask(&mut image, seen)?;
                done.map_err(|error| format!("there is space again, and yet: {error}"))?;
            }
        }
        seen.checkpoints += image.status().counters.checkpoints;
        match self.random.below(3) {
            0 => self.cut(seen),
            // Killed: all that was written is there, and it may still be full.
            1 => {
                drop(image);
                self.start(seen, full)
            }
            _ => self.close(image, seen),
        }
    }

    fn draw_extent(&mut self) -> (u64, u64) {
        let random = &mut self.random;
        let len = [8, 8, 8, 1 + random.below(16), 8 * (1 + random.below(8)), 64, 96, 1 + random.below(300)];
        let len = len[random.below(8) as usize];
        let most = [256, SECTORS][random.below(2) as usize];
        let start = match random.below(3) {
            0 => random.below(most / 96) * 96,
            _ => random.below(most / 8) * 8,
        };
        (start, (start + len).min(SECTORS))
    }

    fn draw(&mut self) -> Op {
        match self.random.below(32) {
            0..=18 => {
                let count = if self.random.below(4) == 0 { 2 + self.random.below(8) } else { 1 };
                let writes = (0..count).map(|_| {
                    let (from, to) = self.draw_extent();
                    self.next_number += 1;
                    (from, to, self.next_number)
                });
                let writes = writes.collect();
                Op::Write(writes, self.random.below(8) == 0)
            }
            19 | 20 => Op::Flush,
            21 => {
                let (from, to) = self.draw_extent();
                Op::Trim(from, to)
            }
            22 | 23 => {
                let (from, to) = self.draw_extent();
                Op::Zero(from, to)
            }
            _ => Op::Idle,
        }
    }

    /// One command; what it ended with. The drive is right after it, whatever that was.
    fn ask(&mut self, image: &mut Image, seen: &mut Seen) -> Result<Result<(), ImageError>, String> {
        let op = self.draw();
        let cached = self.options.write_cache;
        let done = match &op {
            Op::Write(writes, fua) => {
                let data: Vec<_> =
                    writes.iter().map(|&(from, to, number)| bytes_of(from, to, number)).collect();
                let all: Vec<_> = writes
                    .iter()
                    .zip(&data)
                    .map(|(&(from, ..), data)| Write { offset: from * 512, data, fua: *fua })
                    .collect();
                let done = image.write_many(&all);
                for &(from, to, number) in writes {
                    self.model.wrote(from, to, number, done.is_ok());
                }
                done.map(|()| *fua || !cached)
            }
            // Where what is allocated can be written, it was allocated ahead.
            Op::Flush if self.full == Some(Full::Holes) => {
                image.flush().map_err(|error| format!("a flush needs space: {error}"))?;
                Ok(true)
            }
            Op::Flush => image.flush().map(|()| true),
            &Op::Trim(from, to) => {
                let done = image.trim(from * 512, (to - from) * 512);
                self.model.trimmed(from, to);
                done.map(|()| false)
            }
            &Op::Zero(from, to) => {
                let done = image.write_zeroes(from * 512, (to - from) * 512, false);
                self.model.wrote(from, to, 0, done.is_ok());
                done.map(|()| !cached)
            }
            Op::Idle => image.idle().map(|_| false).inspect_err(|_| seen.idle_refused += 1),
        };
        image.audit()?;
        self.look(image)?;
        if let Ok(true) = done {
            // With the cache off every write before this one was durable too.
            self.model.flushed();
        }
        Ok(done.map(|_| ()))
    }

    fn look(&mut self, image: &mut Image) -> Result<(), String> {
        self.model.read(&bytes_in(image)?)
    }

    /// The power fails.
    fn cut(mut self, seen: &mut Seen) -> Result<(), String> {
        self.store.take_effects().iter().for_each(|effect: &Effect| self.medium.take(effect));
        let left = FaultStore::new(self.medium.cut(&mut self.random));
        let mut image = self.open(&left)?;
        seen.cuts += 1;
        image.audit()?;
        self.model.left(&bytes_in(&mut image)?).map_err(|why| format!("after a cut: {why}"))
    }

    /// Somebody starts it again where it may be full, and finds what was read last.
    fn start(mut self, seen: &mut Seen, full: Full) -> Result<(), String> {
        self.store.full_after(0, full);
        self.full = Some(full);
        let store = self.store.clone();
        let mut image = self.open(&store).map_err(|why| format!("where all is full: {why}"))?;
        seen.started_full += 1;
        image.audit()?;
        self.look_left(&mut image)?;
        for _ in 0..5 {
            if let Err(error) = self.ask(&mut image, seen)?
                && !error.is_no_space()
            {
                return Err(format!("started where all is full, and then: {error}"));
            }
        }
        self.store.mend();
        self.full = None;
        let done = self.ask(&mut image, seen)?;
        done.map_err(|error| format!("started where all was full, there is space, and yet: {error}"))?;
        image.flush().map_err(|error| error.to_string())?;
        drop(image);
        let mut image = self.open(&store)?;
        self.look(&mut image)
    }

    /// What was not flushed may be gone with the process: tags wait in memory.
    fn look_left(&mut self, image: &mut Image) -> Result<(), String> {
        let bytes = bytes_in(image)?;
        self.model.left(&bytes).map_err(|why| format!("after a kill: {why}"))?;
        self.model.found(&bytes);
        Ok(())
    }

    /// It is switched off: where that succeeds nothing is lost.
    fn close(mut self, image: Image, seen: &mut Seen) -> Result<(), String> {
        match image.close() {
            Ok(()) => self.model.flushed(),
            Err(error) if error.is_no_space() && self.full == Some(Full::Writes) => {}
            Err(error) => return Err(format!("at the end: {error}")),
        }
        self.store.mend();
        self.cut(seen)
    }

    fn open(&self, store: &FaultStore) -> Result<Image, String> {
        let opened = Image::open_on(Box::new(store.clone()), (self.drive.layer)(), &self.options);
        opened.map_err(|error| format!("does not open: {error}"))
    }
}

fn bytes_in(image: &mut Image) -> Result<Vec<u8>, String> {
    let mut bytes = vec![0xee; (SECTORS * 512) as usize];
    image.read(0, &mut bytes).map_err(|error| format!("a read: {error}"))?;
    Ok(bytes)
}
