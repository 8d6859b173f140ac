//! What each zone of a drive may be after a cut.
//!
//! A zone has a history: its state when all was durable last, and the state behind each command since. A drive that was
//! started again has each zone in one of these states. Where writes go to the write pointer alone, that is all of it, end
//! and data; where they go anywhere, data that was overwritten in place may be old or new, sector by sector, as on any disk.
//!
//! A drive that cleans moves the write pointer of a zone that was written out of order when it likes, to behind the last
//! valid sector at most; what was not written since a reset reads as zeros on either side of it.

const SECTOR: usize = 512;

/// What can still be done with a zone; the numbers of the conditions.
pub const READ_ONLY: u8 = 0xd;
pub const OFFLINE: u8 = 0xf;

/// What a drive says of a zone, and what an oracle has of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Said {
    /// Sectors from the start of the zone to the write pointer; 0 where there is none.
    pub end: u64,
    /// Full, read-only or offline, by the number of the condition; 0 for the others.
    pub condition: u8,
    pub non_sequential: bool,
}

/// A zone at one time.
#[derive(Clone, Debug)]
pub struct ZoneState {
    pub said: Said,
    /// Sectors that were written, or left out by a write behind them.
    pub written: u64,
    /// The number of the write in each sector.
    values: Vec<u64>,
}

#[derive(Clone, Debug)]
struct Zone {
    /// From the durable state on.
    history: Vec<ZoneState>,
    /// States that are over when the flush that is under way ends.
    superseded: usize,
}

/// What is found on a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    pub zones: Vec<Said>,
    /// What all sectors read as.
    pub bytes: Vec<u8>,
}

/// The zones of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub zones: u64,
    pub zone_sectors: u64,
    pub capacity: u64,
    pub conventional: u64,
    pub host_aware: bool,
    /// Whether it has a persistent cache for writes out of order, and cleans.
    pub cleans: bool,
    /// Whether it cleans only when that is full.
    pub is_lazy: bool,
}

/// What the host asks.
#[derive(Clone, Debug)]
pub enum Op {
    /// Writes of zone, first sector, sectors and number; and whether they are FUA.
    Write(Vec<(u64, u64, u64, u64)>, bool),
    Reset(Option<u64>),
    Finish(Option<u64>),
    /// An action that changes nothing that is kept: opening, closing.
    Touch(u64, bool),
    /// A zone fails.
    Fail(u64, u8),
    Flush,
    BeginFlush,
    Sync,
    EndFlush,
    Idle,
    Close,
}

/// See the module page.
#[derive(Clone, Debug)]
pub struct Oracle {
    pub shape: Shape,
    zones: Vec<Zone>,
    write_cache: bool,
}

impl Oracle {
    pub fn new(shape: Shape, write_cache: bool) -> Self {
        let zone = |number| {
            let written = if number < shape.conventional { shape.zone_sectors } else { 0 };
            let values = vec![0; shape.zone_sectors as usize];
            Zone { history: vec![ZoneState { said: Said::default(), written, values }], superseded: 0 }
        };
        Self { shape, zones: (0..shape.zones).map(zone).collect(), write_cache }
    }

    /// A zone as it is now.
    pub fn now(&self, zone: u64) -> &ZoneState {
        self.zones[zone as usize].history.last().expect("a zone has a state")
    }

    pub fn is_conventional(&self, zone: u64) -> bool {
        zone < self.shape.conventional
    }

    fn change(&mut self, zone: u64, change: impl FnOnce(&mut ZoneState)) {
        let mut state = self.now(zone).clone();
        change(&mut state);
        self.zones[zone as usize].history.push(state);
    }

    fn write(&mut self, zone: u64, from: u64, len: u64, number: u64) {
        let (conventional, Shape { capacity, cleans, .. }) = (self.is_conventional(zone), self.shape);
        self.change(zone, |state| {
            let to = from + len;
            if from > state.written {
                state.values[state.written as usize..from as usize].fill(0);
            }
            state.values[from as usize..to as usize].fill(number);
            if conventional {
                return;
            }
            state.said.non_sequential |= from != state.said.end || state.said.condition != 0;
            state.written = state.written.max(to);
            if state.said.condition == 0 && !(cleans && state.said.non_sequential) {
                state.said.end = state.said.end.max(to);
            }
            if state.said.end == capacity {
                state.said = Said { condition: FULL, end: 0, ..state.said };
            }
        });
    }

    /// The drive was asked.
    pub fn begin(&mut self, op: &Op) {
        let zones = |of: Option<u64>| of.map_or(0..self.shape.zones, |zone| zone..zone + 1);
        match op {
            Op::Write(writes, _) => {
                for &(zone, from, len, number) in writes {
                    self.write(zone, from, len, number);
                }
            }
            Op::Reset(of) => {
                for zone in zones(*of).filter(|&zone| !self.is_conventional(zone)).collect::<Vec<_>>() {
                    if !self.has_failed(zone) {
                        let cleans = self.shape.cleans;
                        self.change(zone, |state| {
                            (state.said, state.written) = (Said::default(), 0);
                            if cleans {
                                state.values.fill(0);
                            }
                        });
                    }
                }
            }
            Op::Finish(of) => {
                for zone in zones(*of).filter(|&zone| !self.is_conventional(zone)).collect::<Vec<_>>() {
                    let Said { end, condition, non_sequential } = self.now(zone).said;
                    if condition == 0 && (of.is_some() || end > 0 || non_sequential) {
                        self.change(zone, |state| {
                            state.said = Said { end: 0, condition: FULL, ..state.said }
                        });
                    }
                }
            }
            Op::Fail(zone, condition) => {
                self.change(*zone, |state| state.said = Said { end: 0, condition: *condition, ..state.said });
            }
            Op::BeginFlush => {
                self.zones.iter_mut().for_each(|zone| zone.superseded = zone.history.len() - 1);
            }
            _ => {}
        }
    }

    /// Whether a zone takes no more writes, for good.
    pub fn has_failed(&self, zone: u64) -> bool {
        matches!(self.now(zone).said.condition, READ_ONLY | OFFLINE)
    }

    /// The drive has answered.
    pub fn end(&mut self, op: &Op) {
        match op {
            Op::Flush | Op::Close => self.durable(),
            Op::Write(_, true) => self.durable(),
            Op::Write(..) | Op::Reset(_) | Op::Finish(_) if !self.write_cache => self.durable(),
            Op::EndFlush => {
                for zone in &mut self.zones {
                    zone.history.drain(..std::mem::take(&mut zone.superseded));
                }
            }
            _ => {}
        }
    }

    fn durable(&mut self) {
        for zone in &mut self.zones {
            zone.history.drain(..zone.history.len() - 1);
            zone.superseded = 0;
        }
    }

    /// A start has found this: it stays.
    pub fn found(&mut self, found: &Found) {
        for number in 0..self.shape.zones {
            let values: Vec<u64> = (0..self.shape.zone_sectors)
                .map(|sector| self.value(found, number, sector).unwrap_or_default())
                .collect();
            let said = found.zones[number as usize];
            // How far a zone is written that says so no more: as far as in a state that it may be in.
            let states = &self.zones[number as usize].history;
            let written = match self.state_of(number, states, said, &values) {
                _ if self.shape.cleans && !self.is_conventional(number) => end_of(&values).max(said.end),
                state => state.map_or(said.end, |state| state.written),
            };
            let zone = &mut self.zones[number as usize];
            zone.history = vec![ZoneState { said, written, values }];
            zone.superseded = 0;
        }
    }

    /// Whether a drive that was started again may be so.
    pub fn check_cut(&self, found: &Found) -> Result<(), String> {
        self.check(found, 0)
    }

    /// Whether a drive that goes on may be so.
    pub fn check_now(&self, found: &Found) -> Result<(), String> {
        self.check(found, usize::MAX)
    }

    /// Whether each zone is in one of its states, from one of them on or in the last.
    fn check(&self, found: &Found, first: usize) -> Result<(), String> {
        for number in 0..self.shape.zones {
            let zone = &self.zones[number as usize];
            let states = &zone.history[first.min(zone.history.len() - 1)..];
            let said = found.zones[number as usize];
            let values: Result<Vec<u64>, String> =
                (0..self.shape.zone_sectors).map(|sector| self.value(found, number, sector)).collect();
            let values = values?;
            if self.state_of(number, states, said, &values).is_none() {
                let may: Vec<_> = states
                    .iter()
                    .map(|state| (state.said, &state.values[..state.written as usize]))
                    .collect();
                return Err(format!("zone {number} says {said:?} and reads as {values:?}; may be {may:?}"));
            }
        }
        Ok(())
    }

    /// The newest of some states of a zone in which it says this and reads so.
    fn state_of<'a>(
        &self,
        number: u64,
        states: &'a [ZoneState],
        said: Said,
        values: &[u64],
    ) -> Option<&'a ZoneState> {
        if self.shape.cleans && !self.is_conventional(number) {
            let values_are = |state: &ZoneState| {
                let mut sectors = values.iter().enumerate();
                // What a command before has put there, or nothing.
                state.said.condition == OFFLINE
                    || sectors
                        .all(|(sector, value)| states.iter().any(|state| state.values[sector] == *value))
            };
            let capacity = self.shape.capacity;
            let may_say = |state: &ZoneState| {
                // What the cache had of the zone before a reset that is not durable may be found in it.
                let flagged = said.non_sequential && !state.said.non_sequential;
                let may_be = !flagged || states.iter().any(|state| state.said.non_sequential);
                may_be
                    && state
                        .may_say(Said { non_sequential: said.non_sequential && !flagged, ..said }, capacity)
            };
            return states.iter().rev().find(|state| may_say(state) && values_are(state));
        }
        let exact = !self.shape.host_aware && !self.is_conventional(number);
        let reads_as = |state: &&ZoneState| match said.condition {
            // Nothing can be read of it.
            OFFLINE => true,
            _ if exact => state.reads_as(values),
            _ => values.iter().enumerate().all(|(sector, &value)| may_read(states, state, sector, value)),
        };
        states.iter().rev().filter(|state| state.said == said).find(reads_as)
    }

    /// The number of the write that a sector reads as.
    fn value(&self, found: &Found, zone: u64, sector: u64) -> Result<u64, String> {
        let at = zone * self.shape.zone_sectors + sector;
        let bytes = &found.bytes[at as usize * SECTOR..][..SECTOR];
        let word = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().expect("8 bytes"));
        if !bytes.chunks_exact(16).all(|pair| pair == &bytes[..16]) {
            return Err(format!("sector {at} is torn: {:?}", &bytes[..16]));
        }
        if word(0) != 0 && word(8) != at {
            return Err(format!("sector {at} holds write {} of sector {}", word(0), word(8)));
        }
        Ok(word(0))
    }
}

/// The condition of a full zone.
pub const FULL: u8 = 0xe;

/// The end of what is not zero.
fn end_of(values: &[u64]) -> u64 {
    values.iter().rposition(|&value| value != 0).map_or(0, |last| last as u64 + 1)
}

impl ZoneState {
    /// Whether a drive that cleans may say this of a zone in this state.
    fn may_say(&self, said: Said, capacity: u64) -> bool {
        if !self.said.non_sequential || matches!(self.said.condition, READ_ONLY | OFFLINE) {
            return Said { non_sequential: said.non_sequential, ..self.said } == said
                && (!said.non_sequential || self.said.non_sequential);
        }
        match said.condition {
            0 => self.said.condition == 0 && (self.said.end..=self.written).contains(&said.end),
            FULL => self.said.condition == FULL || self.written == capacity,
            _ => false,
        }
    }

    /// Whether all sectors read as in this state: zeros where nothing was written.
    fn reads_as(&self, values: &[u64]) -> bool {
        let (written, rest) = values.split_at(self.written as usize);
        written == &self.values[..written.len()] && rest.iter().all(|&value| value == 0)
    }
}

/// Whether a sector of a zone in one of some states may read as a write.
fn may_read(states: &[ZoneState], state: &ZoneState, sector: usize, value: u64) -> bool {
    let holds = |state: &ZoneState| (sector as u64) < state.written && state.values[sector] == value;
    if sector as u64 >= state.written { value == 0 } else { states.iter().any(holds) }
}

/// The bytes of a write from a sector on.
pub fn bytes_of(first: u64, sectors: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    for at in first..first + sectors {
        (0..SECTOR / 16).for_each(|_| [number, at].iter().for_each(|word| bytes.extend(word.to_le_bytes())));
    }
    bytes
}
