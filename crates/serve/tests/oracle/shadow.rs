//! What each sector may read as: now, and after a power cut.
//!
//! It knows what was asked, in which order, and what was answered; nothing of how a drive works. Commands that share
//! sectors take effect in the order in which they were asked, so a read gives what was asked before it. After a cut a
//! sector may have what was durable last, or anything that was asked since.
//!
//! A sector holds the number of the write that wrote it, over and over, with its own address: one that is torn
//! shows two. Number 0 is zeros.

use std::collections::HashMap;

pub const SECTOR: usize = 512;
/// Of a sector that was trimmed: it may have anything that it ever held.
const ANY: u32 = u32::MAX;

/// What the host asks, of sectors from..to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    Read {
        from: u64,
        to: u64,
    },
    /// With the number that is written.
    Write {
        from: u64,
        to: u64,
        number: u32,
        fua: bool,
    },
    Zero {
        from: u64,
        to: u64,
        fua: bool,
    },
    Trim {
        from: u64,
        to: u64,
    },
    Flush,
}

impl Op {
    pub fn range(self) -> (u64, u64) {
        match self {
            Self::Read { from, to }
            | Self::Write { from, to, .. }
            | Self::Zero { from, to, .. }
            | Self::Trim { from, to } => (from, to),
            Self::Flush => (0, 0),
        }
    }
}

/// Something that a sector may hold.
#[derive(Clone, Copy, Debug)]
struct Value {
    number: u32,
    /// The command that gave it.
    id: u64,
    /// When that was answered, if it was.
    answered: Option<u64>,
    /// It was refused: the sector may hold it, or what it held before.
    refused: bool,
}

/// A command that is not answered.
#[derive(Clone, Debug)]
struct Asked {
    op: Op,
    at: u64,
    /// What a read is to give.
    expected: Vec<u32>,
    /// What it may give as well, by the sector: these were there before writes that were refused.
    or: Vec<(u64, u32)>,
}

impl Asked {
    fn is_read(&self) -> bool {
        matches!(self.op, Op::Read { .. })
    }

    fn changes_any_of(&self, from: u64, to: u64) -> bool {
        let (own_from, own_to) = self.op.range();
        !self.is_read() && own_from < to && from < own_to
    }
}

/// See the module page.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// For each sector what it may hold after a cut, in the order in which it was asked; the first is durable.
    sectors: Vec<Vec<Value>>,
    /// The sectors of each write, by its number.
    writes: Vec<(u32, u32)>,
    asked: HashMap<u64, Asked>,
    /// Reads that were answered and are right only if an older command is refused, with what they gave.
    early: HashMap<u64, (Asked, Vec<u8>)>,
    /// Things that happened so far.
    now: u64,
    write_cache: bool,
}

impl Shadow {
    pub fn new(sectors: u64, write_cache: bool) -> Self {
        let blank = Value { number: 0, id: u64::MAX, answered: Some(0), refused: false };
        Self {
            sectors: vec![vec![blank]; sectors as usize],
            writes: vec![(0, 0)],
            asked: HashMap::new(),
            early: HashMap::new(),
            now: 0,
            write_cache,
        }
    }

    /// The number of the next write, of these sectors.
    pub fn number(&mut self, from: u64, to: u64) -> u32 {
        self.writes.push((from as u32, to as u32));
        self.writes.len() as u32 - 1
    }

    /// Takes over which numbers there are, of one that has seen more.
    pub fn learn_numbers(&mut self, other: &Self) {
        self.writes.clone_from(&other.writes);
    }

    pub fn outstanding(&self) -> usize {
        self.asked.len()
    }

    /// The drive is asked.
    pub fn ask(&mut self, id: u64, op: Op) {
        self.now += 1;
        let (from, to) = op.range();
        let range = from as usize..to as usize;
        let (mut expected, mut or) = (Vec::new(), Vec::new());
        if matches!(op, Op::Read { .. }) {
            expected.extend(self.sectors[range.clone()].iter().map(|values| newest(values)));
            let below = |at: u64| before(&self.sectors[at as usize]).map(move |number| (at, number));
            or.extend((from..to).flat_map(below));
        }
        if let Some(number) = match op {
            Op::Write { number, .. } => Some(number),
            Op::Zero { .. } => Some(0),
            Op::Trim { .. } => Some(ANY),
            _ => None,
        } {
            for values in &mut self.sectors[range] {
                values.push(Value { number, id, answered: None, refused: false });
            }
        }
        self.asked.insert(id, Asked { op, at: self.now, expected, or });
    }

    /// The drive has answered; of a read the bytes.
    pub fn answer(&mut self, id: u64, data: &[u8]) -> Result<(), String> {
        self.now += 1;
        let Some(Asked { op, at, expected, or }) = self.asked.remove(&id) else {
            return Err(format!("command {id} was answered and is not outstanding"));
        };
        let (from, to) = op.range();
        match op {
            Op::Read { .. } => {
                let read = Asked { op, at, expected, or };
                let wrong = self.check_read(&read, data);
                let waits = |older: &Asked| older.at < at && older.changes_any_of(from, to);
                if wrong.is_err() && self.asked.values().any(waits) {
                    self.early.insert(id, (read, data.to_vec()));
                    return Ok(());
                }
                return wrong;
            }
            Op::Flush => self.sectors.iter_mut().for_each(|values| durable_by(values, at)),
            Op::Write { fua, .. } | Op::Zero { fua, .. } => {
                let (now, durable) = (self.now, fua || !self.write_cache);
                for values in &mut self.sectors[from as usize..to as usize] {
                    // One that is not there is older than what is durable already.
                    if let Some(own) = values.iter().position(|value| value.id == id) {
                        values[own].answered = Some(now);
                        values.drain(..if durable { own } else { 0 });
                    }
                }
            }
            Op::Trim { .. } => {
                let now = self.now;
                for values in &mut self.sectors[from as usize..to as usize] {
                    values
                        .iter_mut()
                        .filter(|value| value.id == id)
                        .for_each(|value| value.answered = Some(now));
                }
            }
        }
        Ok(())
    }

    /// Nothing is outstanding.
    pub fn settled(&mut self) -> Result<(), String> {
        let reads = std::mem::take(&mut self.early);
        let wrong = |(id, (read, data)): (u64, (Asked, Vec<u8>))| {
            self.check_read(&read, &data).map_err(|why| format!("{:?}, command {id}: {why}", read.op))
        };
        reads.into_iter().try_for_each(wrong)
    }

    /// Compares what a read gave with what it may give.
    fn check_read(&self, read: &Asked, data: &[u8]) -> Result<(), String> {
        let (from, _) = read.op.range();
        let others = |at| read.or.iter().filter(move |other| other.0 == at).map(|other| other.1);
        let may = |index| std::iter::once(read.expected[index]).chain(others(from + index as u64));
        self.check(from, data, |index, _| may(index).collect())
    }

    /// The drive has refused a command for want of space: it may have done any part of it.
    pub fn refuse(&mut self, id: u64) {
        self.now += 1;
        let Some(Asked { op, .. }) = self.asked.remove(&id) else {
            return;
        };
        let (from, to) = op.range();
        for at in from..to {
            let values = &mut self.sectors[at as usize];
            let Some(own) = values.iter().position(|value| value.id == id) else {
                continue;
            };
            values[own].refused = true;
            let (number, below): (_, Vec<_>) = (values[own].number, before(&values[..=own]).collect());
            let early = self.early.values_mut().map(|(read, _)| read);
            for read in self.asked.values_mut().filter(|asked| asked.is_read()).chain(early) {
                let (start, end) = read.op.range();
                let waits = (start..end).contains(&at)
                    && (read.expected[(at - start) as usize] == number || read.or.contains(&(at, number)));
                read.or.extend(below.iter().filter(|_| waits).map(|&number| (at, number)));
            }
        }
    }

    /// A command is answered, and that is all there is to know of it.
    pub fn forget(&mut self, id: u64) {
        self.now += 1;
        self.asked.remove(&id);
    }

    /// A start has found this: it stays, and nothing is outstanding.
    pub fn found(&mut self, bytes: &[u8]) {
        self.asked.clear();
        for (values, bytes) in self.sectors.iter_mut().zip(bytes.chunks_exact(SECTOR)) {
            let number = number_of(bytes).unwrap_or_default();
            *values = vec![Value { number, id: u64::MAX, answered: Some(0), refused: false }];
        }
    }

    /// The drive was switched off in order, with nothing outstanding.
    pub fn closed(&mut self) {
        for values in &mut self.sectors {
            let older = values.len() - 1 - before(values).count();
            values.drain(..older);
        }
    }

    /// Whether a drive that was started again may have these bytes.
    pub fn check_cut(&self, bytes: &[u8]) -> Result<(), String> {
        self.check(0, bytes, |_, values| values.iter().map(|value| value.number).collect())
    }

    /// Compares bytes from a sector on with what each may hold.
    fn check(
        &self,
        from: u64,
        bytes: &[u8],
        allowed: impl Fn(usize, &[Value]) -> Vec<u32>,
    ) -> Result<(), String> {
        for (index, bytes) in bytes.chunks_exact(SECTOR).enumerate() {
            let at = from + index as u64;
            let number =
                number_of(bytes).ok_or_else(|| format!("sector {at} is torn: {:?}", &bytes[..16]))?;
            if number != 0 && address_of(bytes) != at {
                return Err(format!("sector {at} holds write {number} of sector {}", address_of(bytes)));
            }
            let allowed = allowed(index, &self.sectors[at as usize]);
            let right = |&may: &u32| may == number || may == ANY && self.was_held(number, at);
            if !allowed.iter().any(right) {
                return Err(format!("sector {at} holds write {number}, and may hold {allowed:?}"));
            }
        }
        Ok(())
    }

    fn was_held(&self, number: u32, sector: u64) -> bool {
        let written = self.writes.get(number as usize);
        number == 0 || written.is_some_and(|&(from, to)| (u64::from(from)..u64::from(to)).contains(&sector))
    }
}

fn newest(values: &[Value]) -> u32 {
    values.last().map_or(0, |value| value.number)
}

/// What else it may be, if the newest were refused.
fn before(values: &[Value]) -> impl Iterator<Item = u32> {
    let pairs = values.iter().rev().zip(values.iter().rev().skip(1));
    pairs.take_while(|(newer, _)| newer.refused).map(|(_, older)| older.number)
}

/// What was answered by a time is durable.
fn durable_by(values: &mut Vec<Value>, at: u64) {
    let answered = |value: &Value| value.answered.is_some_and(|answered| answered <= at);
    if let Some(last) = values.iter().rposition(answered) {
        values.drain(..last);
    }
}

/// The bytes of a write.
pub fn bytes_of(from: u64, to: u64, number: u32) -> Vec<u8> {
    let mut bytes = vec![0; (to - from) as usize * SECTOR];
    for (at, sector) in (from..to).zip(bytes.chunks_exact_mut(SECTOR)) {
        for pair in sector.chunks_exact_mut(16) {
            pair[..8].copy_from_slice(&u64::from(number).to_le_bytes());
            pair[8..].copy_from_slice(&at.to_le_bytes());
        }
    }
    bytes
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("8 bytes"))
}

fn address_of(bytes: &[u8]) -> u64 {
    word(bytes, 8)
}

/// The number of the write in a sector; none if it is torn.
fn number_of(bytes: &[u8]) -> Option<u32> {
    let whole = bytes.chunks_exact(16).all(|pair| pair == &bytes[..16]);
    u32::try_from(word(bytes, 0)).ok().filter(|_| whole)
}
