//! What each sector of a shingled disk may be after a cut.
//!
//! A write gives each sector that it touches a state: native, or overwritten from a sector by the write of a number.
//! What is durable is one state; of those that came since, any may be the last that is known. The bytes at a place
//! are those of its last durable write, or of any since. In the write that is under way where writes are durable when
//! answered, bytes that are there say that what it destroyed is known.

use std::collections::BTreeMap;

const SECTOR: usize = 512;

/// What a sector is: native, or the data of another one, which a write put there.
pub type State = Option<(u64, u64)>;

/// A write of sectors from..to: its number among all writes, and what its bytes say; 0 for zeros.
#[derive(Clone, Copy, Debug)]
pub struct Write {
    pub from: u64,
    pub to: u64,
    pub number: u64,
    pub value: u64,
}

/// What is found on a disk: the state of each sector, and all its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub states: Vec<State>,
    pub bytes: Vec<u8>,
}

/// See the module page.
#[derive(Clone, Debug)]
pub struct Oracle {
    under_head: Vec<Vec<u64>>,
    /// For each sector what it may be, the durable one first.
    states: Vec<Vec<State>>,
    /// For each place what its bytes may say: what was durable.
    values: Vec<Vec<u64>>,
    /// For each place the writes of it since all was durable.
    since: Vec<Vec<u64>>,
    /// Writes that are not durable yet, with the states that they gave.
    under_way: Vec<(Write, BTreeMap<u64, State>)>,
    /// Host sectors by place; none in a guard.
    pub places: Vec<u64>,
    /// Whether bytes that are there must be known for what they destroyed.
    pub strict: bool,
}

impl Oracle {
    pub fn new(under_head: Vec<Vec<u64>>, places: Vec<u64>, strict: bool) -> Self {
        let all = under_head.len();
        Self {
            under_head,
            states: vec![vec![None]; all],
            values: vec![vec![0]; all],
            since: vec![Vec::new(); all],
            under_way: Vec::new(),
            places,
            strict,
        }
    }

    /// A write begins.
    pub fn begin(&mut self, write: Write) {
        let mut touched = BTreeMap::new();
        for sector in write.from..write.to {
            let place = self.places[sector as usize];
            touched.insert(place, None);
            for &behind in &self.under_head[place as usize] {
                touched.insert(behind, Some((place, write.number)));
            }
            self.since[place as usize].push(write.value);
        }
        for (&place, &state) in &touched {
            self.states[place as usize].push(state);
        }
        self.under_way.push((write, touched));
    }

    /// All that was written is durable.
    pub fn durable(&mut self) {
        self.states.iter_mut().for_each(|states| drop(states.drain(..states.len() - 1)));
        for (values, since) in self.values.iter_mut().zip(&mut self.since) {
            if let Some(last) = since.pop() {
                *values = vec![last];
                since.clear();
            }
        }
        self.under_way.clear();
    }

    /// A start has found this: it stays.
    pub fn found(&mut self, found: &Found) {
        // What lies at a place that nothing shows may be any of what it was.
        for (values, since) in self.values.iter_mut().zip(&mut self.since) {
            values.append(since);
        }
        for (sector, &place) in self.places.iter().enumerate() {
            let state = found.states[sector];
            self.states[place as usize] = vec![state];
            let source = state.map_or(place, |(source, _)| source);
            self.values[source as usize] = vec![value_of(found, sector)];
        }
        self.under_way.clear();
    }

    /// Whether a drive that was started again may be so.
    pub fn check_cut(&self, found: &Found) -> Result<(), String> {
        let newest = |place: u64| self.states[place as usize].clone();
        let all =
            |place: u64| [self.values[place as usize].clone(), self.since[place as usize].clone()].concat();
        self.check(found, newest, all)?;
        if self.strict { self.check_strictly(found) } else { Ok(()) }
    }

    /// Whether a drive that goes on may be so.
    pub fn check_now(&self, found: &Found) -> Result<(), String> {
        let newest = |place: u64| self.states[place as usize].last().copied().into_iter().collect();
        let last = |place: u64| match self.since[place as usize].last() {
            Some(&last) => vec![last],
            None => self.values[place as usize].clone(),
        };
        self.check(found, newest, last)
    }

    fn check(
        &self,
        found: &Found,
        states: impl Fn(u64) -> Vec<State>,
        values: impl Fn(u64) -> Vec<u64>,
    ) -> Result<(), String> {
        for (sector, &place) in self.places.iter().enumerate() {
            let state = found.states[sector];
            if !states(place).contains(&state) {
                return Err(format!("sector {sector} is {state:?} and may be {:?}", states(place)));
            }
            let (source, value) = (state.map_or(place, |(source, _)| source), value_of(found, sector));
            if !values(source).contains(&value) {
                return Err(format!(
                    "sector {sector}, {state:?}, reads as write {value}; may be {:?}",
                    values(source)
                ));
            }
            let said = address_of(found, sector);
            if value != 0 && said != source {
                return Err(format!("sector {sector}, {state:?}, has the bytes of place {said}"));
            }
        }
        Ok(())
    }

    /// Bytes of a write that are there: then it is known what they destroyed.
    fn check_strictly(&self, found: &Found) -> Result<(), String> {
        for (index, (write, touched)) in self.under_way.iter().enumerate() {
            let there = write.value != 0
                && (write.from..write.to).any(|sector| value_of(found, sector as usize) == write.value);
            if !there {
                continue;
            }
            for (sector, &place) in self.places.iter().enumerate() {
                let Some(&state) = touched.get(&place) else { continue };
                let later = self.under_way[index..].iter().filter_map(|(_, touched)| touched.get(&place));
                if !later.clone().any(|&state| state == found.states[sector]) {
                    return Err(format!(
                        "bytes of write {} are there, and sector {sector}, which it made {state:?}, is {:?}",
                        write.number, found.states[sector]
                    ));
                }
            }
        }
        Ok(())
    }
}

/// The bytes of a write: each sector says its place and the write, over and over.
pub fn bytes_of(places: &[u64], write: Write) -> Vec<u8> {
    let mut bytes = Vec::new();
    for &place in &places[write.from as usize..write.to as usize] {
        let pair = if write.value == 0 { [0; 2] } else { [write.value, place] };
        (0..SECTOR / 16).for_each(|_| pair.iter().for_each(|word| bytes.extend(word.to_le_bytes())));
    }
    bytes
}

fn word(found: &Found, sector: usize, at: usize) -> u64 {
    let from = sector * SECTOR + at;
    u64::from_le_bytes(found.bytes[from..from + 8].try_into().expect("8 bytes"))
}

fn value_of(found: &Found, sector: usize) -> u64 {
    word(found, sector, 0)
}

fn address_of(found: &Found, sector: usize) -> u64 {
    word(found, sector, 8)
}
