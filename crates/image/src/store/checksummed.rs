//! A store over a store that knows what every sector of the media was written as: a byte that changed by itself, or
//! that a file system gives from elsewhere, is an error and never data.
//!
//! Beside the media lies an entry for each sector, a CRC32C. A write makes both; a read compares them. What is before
//! the media (superblocks, log, checkpoints) has checksums of its own and passes through.
//!
//! A write is two writes, so a crash may come between them. When only the process ends, its writes are in the system's
//! cache in their order, and at most the last operation is half done: an *intent* written before says what entries it
//! makes, so each of its sectors is as before or as intended, and anything else is an error. When the power fails, any
//! write that was not synced may be lost: then only *regions* tell (`dirty_regions`). In one that was not written
//! since it was durable every difference is an error. In one that was, it may be the cut's: the data counts, and the
//! entry is mended. Which of the two it was, the system's boot id tells.
//!
//! Invariants: no byte of the media that was not compared leaves a read; opening writes nothing; a sector that is known
//! to be wrong stays an error, wherever cleaning moves it and whatever fails, until it is written anew. Readers may read
//! beside a write: what seems wrong is read again while nobody writes.
//! Source: the bitmap mode of Linux dm-integrity (kernel documentation, device-mapper/dm-integrity) for the regions.

use std::io;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use super::checksummed_reads::{SECTOR, Shared, SummedReads, TOGETHER, entry_at, intended};
use super::dirty_regions::Regions;
use super::{HEAD_BYTES, PartInfo, Reads, Store, Syncs, check_range};
use crate::format::sums::{
    BootId, ENTRY, INTENT, INTENT_HEAD, INTENT_SECTORS, Intent, MARK_BLOCKS, Marks, SPOILED, open_intent,
    region_shift, seal_intent, sum_of,
};
use crate::format::superblock::Superblock;
use crate::format::{BLOCK, drawn, put_u32, u32_at};
pub use crate::mismatch::{Mismatch, mismatch_of};
use crate::planted_bugs::{Planted, Plants};

/// How long marks of regions stay at least, so that a region that is written now and then is not marked each time:
/// as long as dm-integrity waits.
const CLEARS_AFTER: Duration = Duration::from_secs(10);
/// Bytes that are made zeros as one operation: as many are looked at after a kill, at most.
const ZEROS_TOGETHER: u64 = 1 << 30;
/// Bytes of an unsure region that are looked at as one unit of idle work: a few milliseconds of a disk.
const UNIT: u64 = 1 << 20;

/// How checksums are kept; not what of an image, but of this run.
#[derive(Clone, Debug, Default)]
pub struct SumOptions {
    /// What the system is taken to have drawn when it started.
    pub boot_id: Option<BootId>,
    /// Bytes of a region, a power of two; the same for all the life of an image.
    pub region_bytes: Option<u64>,
    /// How long marks stay at least.
    pub clears_after: Option<Duration>,
    /// For tests of the tests.
    pub plants: Plants,
}

/// What was found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SumState {
    /// Reads that met a wrong sector, since the image was opened.
    pub mismatches: u64,
    /// Sectors of unsure regions whose data counted though their entries differed.
    pub accepted: u64,
    /// Of those, entries that were mended.
    pub mended: u64,
    /// Regions that a power cut has left unsure.
    pub unsure_regions: u64,
    /// Bytes of a region.
    pub region_bytes: u64,
}

/// The number that the system drew when it started; one of our own where it does not tell, which is as good as a power
/// cut each time.
fn boot_id() -> BootId {
    let told = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let digits: String = told.chars().filter(char::is_ascii_hexdigit).collect();
    let told = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok()).flatten();
    told.unwrap_or_else(|| u128::from(drawn()) << 64 | u128::from(drawn())).to_be_bytes()
}

/// See the module page.
pub struct SummedStore {
    inner: Box<dyn Store>,
    shared: Arc<Shared>,
    salt: u32,
    boot: BootId,
    regions: Regions,
    /// The intent as it is written, entries and all.
    slot: Vec<u8>,
    clears_after: Duration,
    cleared: Instant,
    /// How far an unsure region was looked at: which, and the next byte of the media.
    resumming: (usize, u64),
    /// Regions that count again with the next sync.
    resummed: Vec<usize>,
    /// Whether anything was written to the media since the last sync.
    unsynced: bool,
    buffer: Vec<u8>,
    plants: Plants,
}

impl SummedStore {
    /// Over the store of an image that has checksums. Nothing is written before something else is.
    ///
    /// # Errors
    /// When the store fails.
    pub fn new(inner: Box<dyn Store>, superblock: &Superblock, options: &SumOptions) -> io::Result<Self> {
        let (sums, media, salt) = (superblock.sums, superblock.media(), superblock.salt);
        let boot = options.boot_id.unwrap_or_else(boot_id);
        let shift = options.region_bytes.map_or_else(|| region_shift(media.len), u64::trailing_zeros);
        let mut blocks = [None; MARK_BLOCKS];
        for (index, marks) in blocks.iter_mut().enumerate() {
            let mut block = [0; BLOCK];
            inner.read_at(sums.start + index as u64 * SECTOR, &mut block)?;
            *marks = Marks::decode(&block, salt);
        }
        let regions = Regions::new(media.len, shift, boot, &blocks);
        let mut slot = vec![0; INTENT_HEAD + INTENT_SECTORS * ENTRY];
        inner.read_at(sums.start + INTENT, &mut slot)?;
        let half_done = open_intent(&slot, salt, &boot);
        let shared = Shared {
            sums,
            media,
            shift,
            unsure: regions.unsure().clone(),
            gate: Mutex::new(half_done),
            mismatches: AtomicU64::new(0),
            accepted: AtomicU64::new(0),
            mended: AtomicU64::new(0),
        };
        Ok(Self {
            inner,
            shared: Arc::new(shared),
            salt,
            boot,
            regions,
            slot,
            clears_after: options.clears_after.unwrap_or(CLEARS_AFTER),
            cleared: Instant::now(),
            resumming: (0, 0),
            resummed: Vec::new(),
            unsynced: true,
            buffer: Vec::new(),
            plants: options.plants,
        })
    }

    fn write_marks(&mut self, of: &[usize], durably: bool) -> io::Result<()> {
        for block in 0..MARK_BLOCKS {
            if !of.iter().any(|&region| Regions::block_of(region) == block) {
                continue;
            }
            let bytes = self.regions.marks(block).encode(self.salt);
            let at = self.shared.sums.start + block as u64 * SECTOR;
            match durably {
                true => self.inner.write_durably(at, &bytes)?,
                false => self.inner.write_at(at, &bytes)?,
            }
        }
        Ok(())
    }

    /// Before a write to the media.
    fn mark(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.unsynced = true;
        let Some(regions) = self.regions.touch(offset - self.shared.media.start, len) else { return Ok(()) };
        let durably = !self.plants.has(Planted::RegionMarkLater);
        self.write_marks(&regions, durably).inspect_err(|_| self.regions.unmark(&regions))
    }

    /// Writes sectors and their entries.
    fn put(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let Self { inner, shared, slot, salt, boot, .. } = self;
        let mut gate = shared.gate();
        settle(inner.as_mut(), shared, &mut gate)?;
        let first = shared.sector(offset);
        slot.truncate(INTENT_HEAD);
        for bytes in data.chunks_exact(BLOCK) {
            slot.extend_from_slice(&sum_of(bytes).to_le_bytes());
        }
        if !self.plants.has(Planted::NoIntent) {
            seal_intent(slot, *salt, boot, (first, data.len() as u64 / SECTOR), false);
            inner.write_at(shared.sums.start + INTENT, slot)?;
        }
        let entries = &slot[INTENT_HEAD..];
        let written = inner.write_at(offset, data);
        let written = written.and_then(|()| inner.write_at(shared.entry(first), entries));
        if written.is_err() {
            // Any of it may be there.
            let sums = (0..entries.len() / ENTRY).map(|index| entry_at(entries, index));
            *gate = Some(Intent::Write(first, sums.collect()));
        }
        written
    }

    fn put_zeros(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let Self { inner, shared, slot, salt, boot, .. } = self;
        let mut gate = shared.gate();
        settle(inner.as_mut(), shared, &mut gate)?;
        let (first, count) = (shared.sector(offset), len / SECTOR);
        slot.truncate(INTENT_HEAD);
        if !self.plants.has(Planted::NoIntent) {
            seal_intent(slot, *salt, boot, (first, count), true);
            inner.write_at(shared.sums.start + INTENT, slot)?;
        }
        let discarded = inner.discard(offset, len);
        let discarded = discarded.and_then(|()| inner.discard(shared.entry(first), count * ENTRY as u64));
        if discarded.is_err() {
            *gate = Some(Intent::Zeros(first, count));
        }
        discarded
    }

    /// Looks at a stretch of an unsure region: entries that differ from their data are computed anew.
    fn resum(&mut self, region: usize) -> io::Result<()> {
        let (start, end) = (region as u64 * self.regions.bytes(), (region as u64 + 1) * self.regions.bytes());
        let end = end.min(self.shared.media.len);
        let from = if self.resumming.0 == region { self.resumming.1.max(start) } else { start };
        let len = (end - from).min(UNIT);
        let offset = self.shared.media.start + from;
        let (is_data, here) = self.is_data(offset, end - from)?;
        self.resumming = (region, from + if is_data { len } else { here });
        if is_data {
            let Self { inner, shared, buffer, .. } = self;
            let _gate = shared.gate();
            buffer.resize(len as usize, 0);
            inner.read_at(offset, buffer)?;
            let first = shared.sector(offset);
            for (part, bytes) in buffer.chunks(TOGETHER * BLOCK).enumerate() {
                let first = first + (part * TOGETHER) as u64;
                let mended = change_entries(inner.as_mut(), shared, first, bytes, |_, _| true)?;
                shared.mended.fetch_add(mended, Ordering::Relaxed);
            }
        }
        if self.resumming.1 >= end {
            self.resummed.push(region);
            self.resumming = (region + 1, end);
        }
        Ok(())
    }

    /// After a sync: marks of regions that it made durable go.
    fn clear(&mut self, all: bool) -> io::Result<()> {
        let cleared = self.regions.clear(all);
        self.cleared = Instant::now();
        self.write_marks(&cleared, false)
    }

    /// After a sync: regions whose entries were computed anew count again.
    fn believe_resummed(&mut self) -> io::Result<()> {
        let resummed = std::mem::take(&mut self.resummed);
        resummed.iter().for_each(|&region| self.regions.make_sure(region));
        self.write_marks(&resummed, false)
    }

    fn settled(&mut self) -> io::Result<()> {
        let mut gate = self.shared.gate();
        settle(self.inner.as_mut(), &self.shared, &mut gate)
    }
}

/// Ends an operation that is half done: sectors that hold what was to be there get its entries. Others are as before.
fn settle(inner: &mut dyn Store, shared: &Shared, gate: &mut Option<Intent>) -> io::Result<()> {
    let Some(intent) = &*gate else { return Ok(()) };
    let (first, count) = match intent {
        Intent::Write(first, sums) => (*first, sums.len() as u64),
        Intent::Zeros(first, count) => (*first, *count),
    };
    let sectors = shared.media.len / SECTOR;
    let (mut at, end) = (first.min(sectors), first.saturating_add(count).min(sectors));
    let mut buffer = vec![0; TOGETHER * BLOCK];
    while at < end {
        // Where there are no entries, there are none to change for zeros.
        let entries_len = (end - at) * ENTRY as u64;
        let (is_data, len) = inner.is_data(shared.entry(at), entries_len)?;
        if !is_data && matches!(intent, Intent::Zeros(..)) {
            at += len.div_ceil(ENTRY as u64);
            continue;
        }
        let here = (end - at).min(TOGETHER as u64);
        let bytes = &mut buffer[..here as usize * BLOCK];
        inner.read_at(shared.media.start + at * SECTOR, bytes)?;
        change_entries(inner, shared, at, bytes, |sector, sum| intended(intent, sector) == Some(sum))?;
        at += here;
    }
    *gate = None;
    Ok(())
}

/// Gives sectors the entries of the bytes that they hold, where these differ and `believes` says so; how many. What is
/// known to be wrong stays so.
fn change_entries(
    inner: &mut dyn Store,
    shared: &Shared,
    first: u64,
    bytes: &[u8],
    believes: impl Fn(u64, u32) -> bool,
) -> io::Result<u64> {
    let mut room = [0; TOGETHER * ENTRY];
    let entries = &mut room[..bytes.len() / BLOCK * ENTRY];
    inner.read_at(shared.entry(first), entries)?;
    let mut changed = 0;
    for (index, bytes) in bytes.chunks_exact(BLOCK).enumerate() {
        let (sum, entry) = (sum_of(bytes), entry_at(entries, index));
        if sum != entry && entry != SPOILED && believes(first + index as u64, sum) {
            put_u32(entries, index * ENTRY, sum);
            changed += 1;
        }
    }
    if changed > 0 {
        inner.write_at(shared.entry(first), entries)?;
    }
    Ok(changed)
}

impl Store for SummedStore {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn parts(&self) -> Vec<PartInfo> {
        self.inner.parts()
    }

    fn read_head(&self, part: usize, head: &mut [u8; HEAD_BYTES]) -> io::Result<()> {
        self.inner.read_head(part, head)
    }

    fn write_head(&mut self, part: usize, head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        self.inner.write_head(part, head)
    }

    fn is_write_dear(&self) -> bool {
        self.inner.is_write_dear()
    }

    /// A sync beside other commands leaves all marks as they are, which is always right. So that they go at last, the
    /// sync that may take them away is done in one go.
    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        let clears = self.cleared.elapsed() >= self.clears_after && !self.regions.is_clean();
        if clears || !self.resummed.is_empty() { None } else { self.inner.syncer() }
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.inner.reserve(offset, len)?;
        let (plain, end) = (self.shared.plain(offset, len as usize) as u64, offset + len);
        if plain == len {
            return Ok(());
        }
        let (first, last) = (self.shared.sector(offset + plain), self.shared.sector(end));
        self.inner.reserve(self.shared.entry(first), (last - first) * ENTRY as u64)
    }

    fn len_bytes(&self) -> u64 {
        self.inner.len_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_range(self, offset, buffer.len() as u64)?;
        self.shared.check_whole(offset, buffer.len())?;
        self.shared.read_right(&|at, part| self.inner.read_at(at, part), offset, buffer)
    }

    fn read_to_move(&self, offset: u64, buffer: &mut [u8], bad: &mut Vec<Range<usize>>) -> io::Result<()> {
        check_range(self, offset, buffer.len() as u64)?;
        self.shared.check_whole(offset, buffer.len())?;
        let before = bad.len();
        self.shared.read(&|at, part| self.inner.read_at(at, part), offset, buffer, &mut |run| {
            bad.push(run);
            true
        })?;
        self.shared.mismatches.fetch_add((bad.len() - before) as u64, Ordering::Relaxed);
        Ok(())
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        Some(Arc::new(SummedReads { inner: self.inner.reader()?, shared: self.shared.clone() }))
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        self.shared.check_whole(offset, data.len())?;
        let (plain, media) = data.split_at(self.shared.plain(offset, data.len()));
        if !plain.is_empty() {
            self.inner.write_at(offset, plain)?;
        }
        if media.is_empty() {
            return Ok(());
        }
        let mut at = offset + plain.len() as u64;
        self.mark(at, media.len() as u64)?;
        for part in media.chunks(INTENT_SECTORS * BLOCK) {
            self.put(at, part)?;
            at += part.len() as u64;
        }
        Ok(())
    }

    fn spoil(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.mark(offset, len)?;
        let (mut first, end) = (self.shared.sector(offset), self.shared.sector(offset + len));
        while first < end {
            let count = (end - first).min(INTENT_SECTORS as u64);
            let Self { inner, shared, slot, .. } = self;
            let mut gate = shared.gate();
            settle(inner.as_mut(), shared, &mut gate)?;
            slot.truncate(INTENT_HEAD);
            slot.resize(INTENT_HEAD + count as usize * ENTRY, SPOILED as u8);
            // What is half done from now on is this, not what was written there before.
            seal_intent(slot, self.salt, &self.boot, (first, count), false);
            inner.write_at(shared.sums.start + INTENT, slot)?;
            inner.write_at(shared.entry(first), &slot[INTENT_HEAD..])?;
            first += count;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        // What could not be settled was reported when it failed; the marks stay until it can be.
        let clears = self.cleared.elapsed() >= self.clears_after && self.settled().is_ok();
        if self.plants.has(Planted::RegionClearedBeforeSync) {
            self.clear(true)?;
        }
        self.inner.sync()?;
        self.unsynced = false;
        self.believe_resummed()?;
        if clears { self.clear(false) } else { Ok(()) }
    }

    fn begin_sync(&mut self, offset: u64, len: u64) {
        self.inner.begin_sync(offset, len);
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        check_range(self, offset, len)?;
        self.shared.check_whole(offset, len as usize)?;
        let plain = self.shared.media.start.saturating_sub(offset).min(len);
        if plain > 0 {
            self.inner.discard(offset, plain)?;
        }
        if plain == len {
            return Ok(());
        }
        let (mut at, end) = (offset + plain, offset + len);
        self.mark(at, end - at)?;
        while at < end {
            let here = (end - at).min(ZEROS_TOGETHER);
            self.put_zeros(at, here)?;
            at += here;
        }
        Ok(())
    }

    fn can_discard(&self) -> bool {
        self.inner.can_discard()
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.inner.stored_bytes()
    }

    /// A hole in the media with entries is no hole: what was there is gone.
    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        if offset < self.shared.media.start {
            return self.inner.is_data(offset, len.min(self.shared.media.start - offset));
        }
        let (data, data_len) = self.inner.is_data(offset, len)?;
        if data {
            return Ok((true, data_len));
        }
        let (first, count) = (self.shared.sector(offset), data_len.div_ceil(SECTOR));
        let at = self.shared.entry(first);
        let (entries, entries_len) = self.inner.is_data(at, count * ENTRY as u64)?;
        if !entries {
            return Ok((false, data_len.min(entries_len.div_ceil(ENTRY as u64) * SECTOR)));
        }
        // Entries of many sectors lie together: those of holes beside data are zeros.
        let mut room = [0; TOGETHER * ENTRY];
        let some = &mut room[..count.min(TOGETHER as u64) as usize * ENTRY];
        self.inner.read_at(at, some)?;
        let is_hole = |entry: &[u8]| u32_at(entry, 0) == 0;
        let hole = is_hole(&some[..ENTRY]);
        let alike = some.chunks_exact(ENTRY).take_while(|entry| is_hole(entry) == hole).count();
        Ok((!hole, data_len.min(alike as u64 * SECTOR)))
    }

    /// A stretch of an unsure region; when there is none left, marks go. A sync that would wait for what the host wrote
    /// is left to the host.
    fn rest(&mut self) -> io::Result<bool> {
        if let Some(region) = self.regions.unsure_from(self.resumming.0) {
            self.resum(region)?;
            return Ok(true);
        }
        if self.resummed.is_empty() {
            self.resumming = (0, 0);
        } else if !self.unsynced {
            self.inner.sync()?;
            self.believe_resummed()?;
            return Ok(true);
        }
        if self.unsynced || self.regions.is_clean() {
            return Ok(false);
        }
        self.clear(true)?;
        Ok(true)
    }

    fn close(&mut self) -> io::Result<()> {
        // With an operation half done the next start has its intent.
        if self.settled().is_err() || self.regions.is_clean() && self.resummed.is_empty() {
            return self.inner.close();
        }
        self.inner.sync()?;
        self.believe_resummed()?;
        self.clear(true)?;
        self.inner.sync()?;
        self.inner.close()
    }

    fn sums(&self) -> Option<SumState> {
        let shared = &self.shared;
        Some(SumState {
            mismatches: shared.mismatches.load(Ordering::Relaxed),
            accepted: shared.accepted.load(Ordering::Relaxed),
            mended: shared.mended.load(Ordering::Relaxed),
            unsure_regions: shared.unsure.count(),
            region_bytes: self.regions.bytes(),
        })
    }
}
