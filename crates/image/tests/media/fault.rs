//! A medium that fails: at a cut it keeps, loses or tears each write that was not synced, in any order; it fails
//! or corrupts reads on demand; it runs out of space; and it remembers every effect, so that a test can cut after each of
//! them.
//!
//! Invariants: what was synced stays; a sector of 512 bytes is one of the values that were written to it; the same
//! number gives the same cut.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use skylight_disk::{SPLITMIX64_STEP, splitmix64};

use skylight_image::store::{Store, Syncs, check_range};

use super::ram::RamStore;

const SECTOR: u64 = 512;

/// Something that changes a medium.
#[derive(Clone, Debug)]
pub enum Effect {
    /// Bytes from an offset on.
    Write(u64, Arc<[u8]>),
    /// The same for whole sectors, durable at once; what came before is as it was.
    WriteDurably(u64, Arc<[u8]>),
    /// Zeros: offset and length.
    Discard(u64, u64),
    /// What came before is durable.
    Sync,
    /// What came before is durable as far as it lies in a range: one of several files.
    SyncWithin(Range<u64>),
}

/// Numbers from a seed.
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number below `bound`, which is at least 1.
    pub fn below(&mut self, bound: u64) -> u64 {
        let drawn = splitmix64(self.0, 0);
        self.0 = self.0.wrapping_add(SPLITMIX64_STEP);
        drawn % bound
    }
}

/// A medium with a volatile buffer.
#[derive(Clone)]
pub struct Medium {
    durable: RamStore,
    unsynced: Vec<Effect>,
}

impl Medium {
    /// One that holds what the store holds, all of it durable.
    pub fn new(durable: RamStore) -> Self {
        Self { durable, unsynced: Vec::new() }
    }

    /// An effect reaches the buffer, or the medium.
    pub fn take(&mut self, effect: &Effect) {
        match effect {
            Effect::Sync => {
                for effect in std::mem::take(&mut self.unsynced) {
                    reach(&mut self.durable, &effect, &mut |_| true);
                }
            }
            Effect::SyncWithin(range) => {
                let within =
                    |effect: &Effect| place(effect).is_some_and(|(offset, _)| range.contains(&offset));
                let (synced, rest) = std::mem::take(&mut self.unsynced).into_iter().partition(within);
                self.unsynced = rest;
                let synced: Vec<Effect> = synced;
                synced.iter().for_each(|effect| reach(&mut self.durable, effect, &mut |_| true));
            }
            Effect::WriteDurably(offset, data) => {
                self.settle(*offset, data.len() as u64);
                reach(&mut self.durable, effect, &mut |_| true);
            }
            other => self.unsynced.push(other.clone()),
        }
    }

    /// What waits for these bytes is superseded.
    fn settle(&mut self, offset: u64, len: u64) {
        let end = offset + len;
        let mut kept = Vec::with_capacity(self.unsynced.len());
        for effect in self.unsynced.drain(..) {
            let Some((from, len)) = place(&effect) else { continue };
            let to = from + len;
            if to <= offset || end <= from {
                kept.push(effect);
                continue;
            }
            for (first, last) in [(from, offset.max(from)), (end.min(to), to)] {
                kept.extend((first < last).then(|| part_of(&effect, from, first..last)));
            }
        }
        self.unsynced = kept;
    }

    /// What is left after a power cut.
    pub fn cut(&self, random: &mut Random) -> RamStore {
        let mut left = self.durable.clone();
        let mut effects = self.unsynced.clone();
        let count = effects.len() as u64;
        // Cuts of different kinds, since what is rare in one is common in another.
        let kind = random.below(7);
        if kind >= 4 {
            shuffle(&mut effects, random);
        }
        let (alone, share) = (random.below(count.max(1)), 1 + random.below(7));
        for (index, effect) in effects.iter().enumerate() {
            let whole = match kind {
                0 => Some(false),
                1 => Some(true),
                2 => Some(index as u64 == alone),
                3 => Some(index as u64 != alone),
                4 => Some(random.below(8) < share),
                _ => None,
            };
            match whole {
                Some(true) => reach(&mut left, effect, &mut |_| true),
                Some(false) => {}
                None => {
                    // Kept, lost, or torn between any two sectors.
                    let fate = random.below(4);
                    reach(&mut left, effect, &mut |_| match fate {
                        0 => true,
                        1 => false,
                        _ => random.below(8) < share,
                    });
                }
            }
        }
        left
    }
}

/// Where an effect changes bytes: offset and length.
fn place(effect: &Effect) -> Option<(u64, u64)> {
    match effect {
        Effect::Write(offset, data) | Effect::WriteDurably(offset, data) => {
            Some((*offset, data.len() as u64))
        }
        Effect::Discard(offset, len) => Some((*offset, *len)),
        Effect::Sync | Effect::SyncWithin(_) => None,
    }
}

/// What an effect from a byte on does to some of its bytes.
fn part_of(effect: &Effect, from: u64, part: Range<u64>) -> Effect {
    match effect {
        Effect::Write(_, data) | Effect::WriteDurably(_, data) => {
            let inside = (part.start - from) as usize..(part.end - from) as usize;
            Effect::Write(part.start, data[inside].into())
        }
        _ => Effect::Discard(part.start, part.end - part.start),
    }
}

/// The sectors of an effect that `keep` says, by number, come to lie in a store.
fn reach(store: &mut RamStore, effect: &Effect, keep: &mut dyn FnMut(u64) -> bool) {
    let Some((offset, len)) = place(effect) else { return };
    let mut at = 0;
    while at < len {
        let here = (SECTOR - (offset + at) % SECTOR).min(len - at);
        if keep(at / SECTOR) {
            // What was accepted lies within the store.
            let written = match effect {
                Effect::Write(_, data) | Effect::WriteDurably(_, data) => {
                    store.write_at(offset + at, &data[at as usize..(at + here) as usize])
                }
                _ => store.discard(offset + at, here),
            };
            debug_assert!(written.is_ok(), "{written:?}");
        }
        at += here;
    }
}

fn shuffle<T>(items: &mut [T], random: &mut Random) {
    for index in (1..items.len()).rev() {
        items.swap(index, random.below(index as u64 + 1) as usize);
    }
}

/// What a medium without space refuses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// Writes where nothing was written or reserved before, as a file system does that writes in place.
    Holes,
    /// All writes and discards, as one may do that never writes in place. Syncs succeed.
    Writes,
}

#[derive(Default)]
struct Faults {
    failing: Vec<Range<u64>>,
    corrupt: Vec<Range<u64>>,
    /// Effects that still succeed, and the number of the system's error for those that do not.
    effects_left: Option<(u64, Option<i32>)>,
    /// Effects that still succeed, and what is refused after them.
    space_left: Option<(u64, Full)>,
}

/// No space left on device.
const ENOSPC: i32 = 28;

struct Inner {
    now: RamStore,
    effects: Vec<Effect>,
    dear: bool,
    faults: Faults,
}

/// A store over a medium that fails. A clone is another handle of the same one.
#[derive(Clone)]
pub struct FaultStore {
    len: u64,
    inner: Arc<Mutex<Inner>>,
}

impl FaultStore {
    /// One that holds what the store holds.
    pub fn new(now: RamStore) -> Self {
        let len = now.len_bytes();
        let inner = Inner { now, effects: Vec::new(), dear: false, faults: Faults::default() };
        Self { len, inner: Arc::new(Mutex::new(inner)) }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Says of itself whether small writes are dear, as a disk does that has to seek.
    pub fn set_write_dear(&self, dear: bool) {
        self.inner().dear = dear;
    }

    /// Makes durable what was written to a range, which no write crosses the ends of.
    ///
    /// # Errors
    /// The planted one.
    pub fn sync_within(&self, range: Range<u64>) -> io::Result<()> {
        self.effect(Effect::SyncWithin(range))
    }

    /// How many effects there were.
    pub fn effects(&self) -> usize {
        self.inner().effects.len()
    }

    /// Hands out the effects there were, and forgets them.
    pub fn take_effects(&self) -> Vec<Effect> {
        std::mem::take(&mut self.inner().effects)
    }

    /// Reads of these bytes fail from now on.
    pub fn fail_reads(&self, bytes: Range<u64>) {
        self.inner().faults.failing.push(bytes);
    }

    /// Reads of these bytes give others from now on.
    pub fn corrupt_reads(&self, bytes: Range<u64>) {
        self.inner().faults.corrupt.push(bytes);
    }

    /// So many effects succeed, and none after them.
    pub fn fail_after(&self, effects: u64) {
        self.inner().faults.effects_left = Some((effects, None));
    }

    /// The same with an error of the system's, by its number.
    pub fn fail_after_with(&self, effects: u64, errno: i32) {
        self.inner().faults.effects_left = Some((effects, Some(errno)));
    }

    /// There is space for so many effects.
    pub fn full_after(&self, effects: u64, full: Full) {
        self.inner().faults.space_left = Some((effects, full));
    }

    /// Reads and effects succeed from now on.
    pub fn mend(&self) {
        self.inner().faults = Faults::default();
    }

    fn effect(&self, effect: Effect) -> io::Result<()> {
        let mut inner = self.inner();
        if let Some((left, errno)) = &mut inner.faults.effects_left {
            let failed = || {
                let planted = || io::Error::other("a planted fault");
                errno.map_or_else(planted, io::Error::from_raw_os_error)
            };
            *left = left.checked_sub(1).ok_or_else(failed)?;
        }
        if let Some((0, full)) = inner.faults.space_left {
            let refused = match &effect {
                Effect::Sync | Effect::SyncWithin(_) => false,
                Effect::Discard(..) => full == Full::Writes,
                Effect::Write(offset, data) | Effect::WriteDurably(offset, data) => {
                    full == Full::Writes || !inner.now.is_whole(*offset, data.len() as u64)?
                }
            };
            if refused {
                return Err(io::Error::from_raw_os_error(ENOSPC));
            }
        } else if let Some((left, _)) = &mut inner.faults.space_left {
            *left -= 1;
        }
        reach(&mut inner.now, &effect, &mut |_| true);
        inner.effects.push(effect);
        Ok(())
    }
}

impl Syncs for FaultStore {
    fn sync(&self) -> io::Result<()> {
        self.effect(Effect::Sync)
    }
}

impl Store for FaultStore {
    fn name(&self) -> String {
        "a medium that fails".to_owned()
    }

    fn len_bytes(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        let inner = self.inner();
        let asked = offset..offset + buffer.len() as u64;
        let touches = |range: &Range<u64>| range.start < asked.end && asked.start < range.end;
        if inner.faults.failing.iter().any(touches) {
            return Err(io::Error::other("a planted fault"));
        }
        inner.now.read_at(offset, buffer)?;
        for range in inner.faults.corrupt.iter().filter(|range| touches(range)) {
            let (from, to) = (range.start.max(asked.start), range.end.min(asked.end));
            buffer[(from - offset) as usize..(to - offset) as usize]
                .iter_mut()
                .for_each(|byte| *byte ^= 0x5a);
        }
        Ok(())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        self.effect(Effect::Write(offset, data.into()))
    }

    fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        self.effect(Effect::WriteDurably(offset, data.into()))
    }

    fn sync(&mut self) -> io::Result<()> {
        self.effect(Effect::Sync)
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        Some(Arc::new(self.clone()))
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        self.effect(Effect::Discard(offset, len))
    }

    fn is_write_dear(&self) -> bool {
        self.inner().dear
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        let mut inner = self.inner();
        match inner.faults.space_left {
            Some((0, Full::Holes)) if !inner.now.is_whole(offset, len)? => {
                Err(io::Error::from_raw_os_error(ENOSPC))
            }
            // One that never writes in place has nothing to reserve.
            Some((0, Full::Writes)) => Ok(()),
            _ => inner.now.reserve(offset, len),
        }
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        self.inner().now.is_data(offset, len)
    }
}
