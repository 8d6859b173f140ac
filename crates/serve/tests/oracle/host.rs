//! A host that asks for the same few sectors again and again: overlaps, unaligned sizes, several commands at a time,
//! from several connections for all that a drive can know.

use std::sync::mpsc::{Receiver, Sender, channel};

use crate::media::fault::{FaultStore, Random};
use skylight_serve::core::{Command, Completion, Failure, Job, Op as ServedOp};

use crate::drives::SECTORS;
use crate::shadow::{Op, SECTOR, Shadow, bytes_of};

/// What a host asks of, in one of the timing modes.
pub trait Target {
    /// Takes a command.
    fn submit(&mut self, job: Job);
    /// Lets some time pass.
    fn pass(&mut self, random: &mut Random);
}

type Answered = (u64, Result<(), Failure>, Vec<u8>);

/// What the host saw, for who cuts the power later: after how many effects on the medium.
pub enum Seen {
    Asked(u64, Op),
    Answered(u64, Op),
}

/// See the module page.
pub struct Host {
    pub shadow: Shadow,
    next_id: u64,
    answers: (Sender<Answered>, Receiver<Answered>),
    ops: std::collections::HashMap<u64, Op>,
    /// Where events are noted, and the events.
    pub notes: Option<(FaultStore, Vec<(usize, Seen)>)>,
    pub reads: u64,
    /// The medium may be full: what changes bytes, and a flush, may be refused.
    pub may_be_full: bool,
    pub refused: u64,
}

/// How a stretch of commands is.
#[derive(Clone, Copy, Debug)]
pub struct Mood {
    /// Most commands outstanding.
    pub depth: usize,
    /// Quarters of the drive that are not used, as a power of two: writes meet again.
    pub hot: u64,
}

impl Mood {
    pub fn draw(random: &mut Random) -> Self {
        let depth = [1, 1, 2, 4, 16, 40][random.below(6) as usize];
        Self { depth, hot: random.below(4) }
    }
}

impl Host {
    pub fn new(shadow: Shadow) -> Self {
        let (answers, ops) = (channel(), std::collections::HashMap::new());
        Self { shadow, next_id: 0, answers, ops, notes: None, reads: 0, may_be_full: false, refused: 0 }
    }

    fn draw_extent(random: &mut Random, hot: u64) -> (u64, u64) {
        let len = match random.below(16) {
            0..=5 => 8,
            6..=8 => 1 + random.below(16),
            9..=12 => 8 * (1 + random.below(8)),
            13 | 14 => [96, 64, 64, 128][random.below(4) as usize],
            _ => 1 + random.below(512),
        };
        let most = if hot == 0 { SECTORS } else { (SECTORS / (1 << (2 * hot))).max(64) };
        let start = match random.below(4) {
            0 => random.below(most.div_ceil(96)) * 96,
            1 => SECTORS / 2 + random.below(most.div_ceil(128)) * 64,
            _ => random.below(most / 8) * 8 + if random.below(4) == 0 { random.below(8) } else { 0 },
        };
        let start = start.min(SECTORS - 1);
        (start, (start + len).min(SECTORS))
    }

    fn draw(&mut self, random: &mut Random, hot: u64) -> Op {
        let (from, to) = Self::draw_extent(random, hot);
        match random.below(32) {
            0..=15 => {
                let (number, fua) = (self.shadow.number(from, to), random.below(12) == 0);
                Op::Write { from, to, number, fua }
            }
            16..=25 => Op::Read { from, to },
            26 | 27 => Op::Trim { from, to },
            28 | 29 => Op::Zero { from, to, fua: random.below(4) == 0 },
            _ => Op::Flush,
        }
    }

    /// Asks for so many things; what is wrong with an answer.
    pub fn work(
        &mut self,
        target: &mut impl Target,
        random: &mut Random,
        count: u64,
        mood: Mood,
    ) -> Result<(), String> {
        for _ in 0..count {
            let op = self.draw(random, mood.hot);
            while self.shadow.outstanding() >= mood.depth {
                target.pass(random);
                self.listen()?;
            }
            self.ask(target, op);
            if random.below(4) == 0 {
                target.pass(random);
            }
            self.listen()?;
        }
        self.settle(target, random)
    }

    /// Waits until everything is answered.
    pub fn settle(&mut self, target: &mut impl Target, random: &mut Random) -> Result<(), String> {
        while self.shadow.outstanding() > 0 {
            target.pass(random);
            self.listen()?;
        }
        self.shadow.settled()
    }

    /// Reads everything and compares it.
    pub fn look_at_all(&mut self, target: &mut impl Target, random: &mut Random) -> Result<(), String> {
        self.ask(target, Op::Read { from: 0, to: SECTORS });
        self.settle(target, random)
    }

    pub fn ask(&mut self, target: &mut impl Target, op: Op) {
        let id = self.next_id;
        self.next_id += 1;
        if let Some((store, seen)) = &mut self.notes {
            seen.push((store.effects(), Seen::Asked(id, op)));
        }
        self.shadow.ask(id, op);
        self.ops.insert(id, op);
        let (from, to) = op.range();
        let (offset, len) = (from * SECTOR as u64, (to - from) * SECTOR as u64);
        let (command, data) = match op {
            Op::Read { .. } => (Command::of_bytes(ServedOp::Read, offset, len), vec![0; len as usize]),
            Op::Write { number, fua, .. } => {
                (Command::of_bytes(ServedOp::Write, offset, len).with_fua(fua), bytes_of(from, to, number))
            }
            Op::Zero { fua, .. } => {
                (Command::of_bytes(ServedOp::WriteZeroes, offset, len).with_fua(fua), Vec::new())
            }
            Op::Trim { .. } => (Command::of_bytes(ServedOp::Trim, offset, len), Vec::new()),
            Op::Flush => (Command::FLUSH, Vec::new()),
        };
        let answers = self.answers.0.clone();
        let answer = move |Completion { outcome, data, .. }| {
            // A test that has failed already hears no more.
            let _ = answers.send((id, outcome.status(), data));
        };
        target.submit(Job::new(command, data, Box::new(answer)));
    }

    /// Takes the answers that have come.
    pub fn listen(&mut self) -> Result<(), String> {
        while let Ok((id, result, data)) = self.answers.1.try_recv() {
            let op = self.ops.remove(&id).ok_or_else(|| format!("command {id} was answered twice"))?;
            if let Some((store, seen)) = &mut self.notes {
                seen.push((store.effects(), Seen::Answered(id, op)));
            }
            let is_read = matches!(op, Op::Read { .. });
            if result == Err(Failure::NoSpace) && self.may_be_full && !is_read {
                self.refused += 1;
                self.shadow.refuse(id);
                continue;
            }
            result.map_err(|failure| format!("{op:?}: {failure}"))?;
            self.reads += u64::from(is_read);
            self.shadow.answer(id, &data).map_err(|why| format!("{op:?}, command {id}: {why}"))?;
        }
        Ok(())
    }
}
