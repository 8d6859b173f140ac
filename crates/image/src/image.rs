//! One drive that keeps its data: a layer, the store under it, and the interpreter between them.
//!
//! Semantics are those of a disk. With the write cache off a write is answered when it is durable; with it on,
//! only a flush and a write with FUA make durable what came before. Reads see what was written last.
//!
//! Invariants: one process has an image at a time; a command that lies beyond the drive, or not on whole sectors,
//! changes nothing; an image that was not closed is recovered when it is opened.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_drive::profile::Profile;
use skylight_layer::{CacheUse, Command, CommandId, Failure, Idle, Layer, Op, Plan, Queue, Room, Swd};

use crate::checkpoints::write_part_heads;
use crate::error::ImageError;
use crate::flush::PendingSync;
use crate::format::checkpoint::Head;
use crate::format::mark::Mark;
use crate::format::superblock::{COPY, Superblock, TEXT};
use crate::format::{BLOCK, checksum};
use crate::in_place;
use crate::interpreter::{Counters, HostWrite, Interpreter, Planted};
use crate::place;
use crate::reader::{Reader, Route};
use crate::recovery::{
    Accept, Judgement, Reader as ImageReader, Recovered, Recovery, bad_superblock, check_room,
    mend_superblock, recover,
};
use crate::room::{AHEAD_BYTES, reserve_new};
use crate::shingled::{Loss, ShingledCounters};
use crate::store::device::is_block_device;
use crate::store::summed::{SumOptions, SumState, SummedStore};
use crate::store::{Access, Store};

/// How an image is made and opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether writes are answered before they are durable.
    pub write_cache: bool,
    /// Whether what is there already may be lost, when an image is made.
    pub overwrite: bool,
    /// Where the flash lies, if not with the rest.
    pub cache_on: Option<PathBuf>,
    /// The drive that it must be, when an image is opened.
    pub profile: Option<Profile>,
    /// Bytes of the tag log, if not what the cache suggests.
    pub log_bytes: Option<u64>,
    /// Whether what a drive writes and reads that has no bytes here (out-of-band data, map merges, staged bands) is
    /// written and read all the same: where a raw disk underneath sets the time.
    pub every_access: bool,
    /// Whether bytes lie where plans put them, also where no disk underneath sets the time: for tests.
    #[doc(hidden)]
    pub planned: bool,
    /// Entries of a checkpoint that are written behind a command, if not as many as suit a large drive: for tests.
    #[doc(hidden)]
    pub piece: Option<u64>,
    /// Bytes of each file of a new image, if not as many as the file system takes: for tests.
    #[doc(hidden)]
    pub part_bytes: Option<u64>,
    /// Bytes that are allocated ahead of need, if not as many as suit a large drive: for tests.
    #[doc(hidden)]
    pub ahead: Option<u64>,
    /// Whether an image gets checksums of its data when it is made.
    pub checksums: bool,
    /// How checksums are kept, if not as suits a large drive: for tests.
    #[doc(hidden)]
    pub sums: SumOptions,
    /// For tests of the tests.
    #[doc(hidden)]
    pub planted: Option<Planted>,
}

/// A write of the host.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The first byte.
    pub offset: u64,
    /// Whole sectors.
    pub data: &'a [u8],
    /// Whether it must be durable when it is answered.
    pub fua: bool,
}

/// Where a stretch of the drive lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The first byte, as the host counts.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
    /// In the persistent cache, not at its native location.
    pub cached: bool,
    /// Whether there may be anything but zeros.
    pub allocated: bool,
}

/// How an image is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The layer's use of its cache.
    pub cache: CacheUse,
    /// Bytes moved since it was opened.
    pub counters: Counters,
    /// The newest checkpoint.
    pub generation: u32,
    /// How it was found when it was opened.
    pub recovery: Recovery,
    /// What checksums have found, if it has any.
    pub sums: Option<SumState>,
}

impl Status {
    /// Bytes written to the media for each that the host wrote, since the image was opened; none before the
    /// first.
    pub fn write_amplification(&self) -> Option<f64> {
        let Counters { host_bytes, media_bytes, .. } = self.counters;
        (host_bytes > 0).then(|| media_bytes as f64 / host_bytes as f64)
    }
}

/// Most writes that the layer is shown at a time.
const WAITING_MAX: usize = 256;
/// The most of a trim that is one command, in bytes: a drive's own limit is a few times that.
const TRIM_MAX: u64 = 1 << 40;
/// Zeros that are written at a time.
const ZEROES: u64 = 1 << 20;

/// The error of a read of overwritten sectors.
pub fn unreadable(part: LbaExtent) -> ImageError {
    let (first, last) = (part.start.get(), part.end().get() - 1);
    ImageError::Unreadable { first, last, reason: Failure::Overwritten }
}

/// Fails when the layer refused a command of a plan.
fn check_done(plan: &Plan) -> Result<(), ImageError> {
    plan.completions().try_for_each(|(_, outcome)| outcome.status()).map_err(ImageError::Refused)
}

/// See the module page.
pub struct Image {
    pub(crate) layer: Box<dyn Layer>,
    pub(crate) interpreter: Interpreter,
    capacity: u64,
    write_cache: bool,
    recovery: Recovery,
    mended: Vec<String>,
    plan: Plan,
    waiting: Vec<Command>,
}

impl Image {
    /// Makes the image of a drive in a file, or on a block device, and opens it.
    ///
    /// # Errors
    /// When the drive cannot be built, when something is there already, when the system says no.
    pub fn create(path: &Path, profile: &Profile, options: &Options) -> Result<Self, ImageError> {
        Self::create_at(path, skylight_drive::build::layer(profile)?, profile.text(), options)
    }

    /// The same for a drive with this layer; `text` is its profile.
    ///
    /// # Errors
    /// As [`Image::create`].
    pub fn create_at(
        path: &Path,
        layer: Box<dyn Layer>,
        text: &str,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let mut superblock = superblock(layer.as_ref(), text, options);
        let store = place::make(path, &mut superblock, layer.room().gap, options)?;
        Self::format(store, superblock, layer, options)
    }

    /// Opens the image of a drive, or makes it where there is none, or only a half made one in a file; whether it was
    /// made. What is no image of the drive is overwritten only if the options say so: on a block device whatever it is, in a file only what is no
    /// image at all.
    ///
    /// # Errors
    /// As [`Image::open`] and [`Image::create`].
    pub fn open_or_create(
        path: &Path,
        profile: &Profile,
        options: &Options,
    ) -> Result<(Self, bool), ImageError> {
        let empty = || std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0);
        if path.try_exists().is_ok_and(|there| !there) || empty() {
            return Ok((Self::create(path, profile, options)?, true));
        }
        let options = Options { profile: Some(profile.clone()), ..options.clone() };
        let error = match Self::open(path, &options) {
            Ok(image) => return Ok((image, false)),
            Err(error) => error,
        };
        let device = is_block_device(path);
        let replaced = match &error {
            // In a file, what was made of it is ours: on a device consent is for each time.
            ImageError::HalfMade(_) if !device => return Ok((Self::create(path, profile, &options)?, true)),
            ImageError::Foreign(_) | ImageError::HalfMade(_) => true,
            ImageError::OtherProfile { .. } | ImageError::Newer { .. } | ImageError::Damaged { .. } => device,
            _ => false,
        };
        match (replaced, options.overwrite) {
            (true, true) => Ok((Self::create(path, profile, &options)?, true)),
            (true, false) if device && matches!(error, ImageError::Foreign(_) | ImageError::HalfMade(_)) => {
                Err(ImageError::NoConsent(path.to_owned()))
            }
            _ => Err(error),
        }
    }

    /// Makes the image of a drive with this layer on a store, and opens it; `text` is its profile.
    ///
    /// # Errors
    /// When the store is too small or says no.
    pub fn create_on(
        store: Box<dyn Store>,
        layer: Box<dyn Layer>,
        text: &str,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let mut superblock = superblock(layer.as_ref(), text, options);
        place::note_parts(store.as_ref(), &mut superblock);
        Self::format(store, superblock, layer, options)
    }

    /// Bytes of a store for the image of a drive with this layer.
    pub fn bytes_needed(layer: &dyn Layer, options: &Options) -> u64 {
        superblock(layer, "", options).len_bytes()
    }

    fn format(
        mut store: Box<dyn Store>,
        superblock: Superblock,
        layer: Box<dyn Layer>,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let (found_bytes, needed_bytes) = (store.len_bytes(), superblock.len_bytes());
        if found_bytes < needed_bytes {
            return Err(ImageError::TooSmall { place: store.name(), found_bytes, needed_bytes });
        }
        let place = store.name();
        let failed = |source| ImageError::Io { place: place.clone(), action: "format it", source };
        // The superblocks last: what is cut short is no image, and known for what it is.
        place::erase(store.as_mut(), superblock.identity)?;
        if superblock.sums.len > 0 {
            // No checksum stands for zeros.
            let from = superblock.sums.start;
            store.discard(from, superblock.len_bytes() - from).map_err(failed)?;
        }
        let reserved = reserve_new(store.as_mut(), &superblock, options.ahead.unwrap_or(AHEAD_BYTES));
        reserved.map_err(|source| ImageError::Io {
            place: place.clone(),
            action: "allocate its log",
            source,
        })?;
        let salt = superblock.salt;
        let in_place = in_place::is_wanted(&superblock, &layer.room(), options);
        let head = Head { entries_crc: checksum(salt, &[]), clean: true, in_place, ..Head::default() };
        for copy in [0, BLOCK as u64] {
            let at = superblock.checkpoints[0].start + copy;
            store.write_at(at, &head.encode(salt)).map_err(failed)?;
        }
        for slot in superblock.mark_slots().into_iter().flatten() {
            store.write_at(slot, &Mark::default().encode(salt)).map_err(failed)?;
        }
        write_part_heads(store.as_mut(), superblock.identity, head.generation, true).map_err(failed)?;
        let mut text = superblock.text.clone().into_bytes();
        text.resize(text.len().next_multiple_of(BLOCK), 0);
        for at in [0, COPY] {
            store.write_at(at + TEXT, &text).map_err(failed)?;
        }
        store.sync().map_err(failed)?;
        // The first one in place of the mark that the image is half made: where it is, all else is too.
        for at in [COPY, 0] {
            store.write_at(at, &superblock.encode()).map_err(failed)?;
            store.sync().map_err(failed)?;
        }
        Self::start(store, (superblock, None), layer, options, Accept::Nothing)
    }

    /// Opens an image, takes its lock and recovers what it holds.
    ///
    /// # Errors
    /// When another process has it; when it is no image, of a later version, damaged, or another drive's; when
    /// the system says no.
    pub fn open(path: &Path, options: &Options) -> Result<Self, ImageError> {
        Self::open_judged(path, options, Accept::Nothing)
    }

    /// The same, and also of an image that lost what was durable, if that is accepted, as far as it can be read.
    pub(crate) fn open_judged(path: &Path, options: &Options, accept: Accept) -> Result<Self, ImageError> {
        let store = place::reach(path, options, Access::Use)?;
        let found = ImageReader(store.as_ref()).superblock()?;
        let place = store.name();
        let profile = Profile::from_toml(&found.0.text, &place)?;
        if let Some(asked) = options.profile.as_ref().filter(|asked| asked.to_json() != profile.to_json()) {
            let (found, asked) = (profile.name.clone(), asked.name.clone());
            return Err(ImageError::OtherProfile { place, found, asked });
        }
        let layer = skylight_drive::build::layer(&profile)?;
        Self::start(store, found, layer, options, accept)
    }

    /// Opens an image for a drive with this layer, whatever its profile says, and recovers what it holds.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_at(path: &Path, layer: Box<dyn Layer>, options: &Options) -> Result<Self, ImageError> {
        Self::open_on(place::reach(path, options, Access::Use)?, layer, options)
    }

    /// Opens an image on a store, for a drive with this layer, and recovers what it holds.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_on(
        store: Box<dyn Store>,
        layer: Box<dyn Layer>,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let found = ImageReader(store.as_ref()).superblock()?;
        Self::start(store, found, layer, options, Accept::Nothing)
    }

    /// Recovers what a store holds; `bad` is where a copy of the superblock is damaged.
    fn start(
        store: Box<dyn Store>,
        (superblock, bad): (Superblock, Option<u64>),
        mut layer: Box<dyn Layer>,
        options: &Options,
        accept: Accept,
    ) -> Result<Self, ImageError> {
        check_room(store.name(), &superblock, layer.capacity(), &layer.room())?;
        let store = summed(store, &superblock, options)?;
        let capacity = superblock.capacity;
        let judgement = Judgement { accept, planted: options.planted };
        let Recovered { mut interpreter, recovery, mut mended } =
            recover(store, superblock, layer.as_mut(), (judgement, options))?;
        if let Some(bad) = bad {
            mend_superblock(interpreter.store.as_mut(), &interpreter.superblock, bad)?;
            mended.push(bad_superblock(bad));
        }
        interpreter.every_access = options.every_access;
        interpreter.piece = options.piece.unwrap_or(interpreter.piece);
        interpreter.record_first(!options.write_cache);
        Ok(Self {
            layer,
            interpreter,
            capacity,
            write_cache: options.write_cache,
            recovery,
            mended,
            plan: Plan::default(),
            waiting: Vec::new(),
        })
    }

    /// What was damaged when it was opened and was there twice, and is whole now: a line each.
    pub fn mended(&self) -> &[String] {
        &self.mended
    }

    /// Bytes that the host sees.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// Whether writes are answered before they are durable.
    pub fn write_cache(&self) -> bool {
        self.write_cache
    }

    /// Switches the write cache; what was written is durable first.
    ///
    /// # Errors
    /// When the store fails.
    pub fn set_write_cache(&mut self, on: bool) -> Result<(), ImageError> {
        self.flush()?;
        self.interpreter.record_first(!on);
        self.write_cache = on;
        Ok(())
    }

    /// Whether its data has checksums.
    pub fn has_checksums(&self) -> bool {
        self.interpreter.superblock.sums.len > 0
    }

    /// The profile of the drive, as TOML.
    pub fn profile_text(&self) -> &str {
        &self.interpreter.superblock.text
    }

    fn extent(&self, offset: u64, length: u64) -> Result<LbaExtent, ImageError> {
        let aligned = offset.is_multiple_of(SECTOR_BYTES) && length.is_multiple_of(SECTOR_BYTES);
        let inside = offset.checked_add(length).is_some_and(|end| end <= self.capacity);
        if !aligned || !inside {
            return Err(ImageError::OutOfRange { offset, length, capacity_bytes: self.capacity });
        }
        Ok(LbaExtent::new(Lba(offset / SECTOR_BYTES), Sectors(length / SECTOR_BYTES)))
    }

    /// Reads what was written last.
    ///
    /// # Errors
    /// When the range is none of the drive, or the store fails.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ImageError> {
        let extent = self.extent(offset, buffer.len() as u64)?;
        if extent.is_empty() || !self.interpreter.is_shingled() {
            return self.interpreter.read(extent, buffer, self.layer.as_ref());
        }
        // Where the data of overwritten sectors is, and whether it is given, only the layer knows.
        let read = Command::new(CommandId(0), Op::Read, extent);
        self.plan.clear();
        self.layer.take(Queue { waiting: &[read], next: 0 }, &mut self.plan);
        match self.interpreter.read_plan(&self.plan, read.id, extent, buffer)?.first() {
            Some(part) => Err(unreadable(*part)),
            None => Ok(()),
        }
    }

    /// What reads beside whoever has the image, along a [`Route`]; none where only one can read at a time, or where
    /// the layer must be asked for each read: a raw shingled disk.
    pub fn reader(&self) -> Option<Reader> {
        match self.interpreter.is_shingled() {
            true => None,
            false => Reader::of(self.interpreter.store.as_ref()),
        }
    }

    /// Where a read goes. It is right until the image is changed in any way, and whoever takes it sees to that.
    ///
    /// # Errors
    /// When the range is none of the drive, or the store failed before.
    pub fn route(&self, offset: u64, len: u64) -> Result<Route, ImageError> {
        let extent = self.extent(offset, len)?;
        self.interpreter.route(extent, self.layer.as_ref())
    }

    /// Whether every sector has one place for good on the drive itself, so that its bytes may be lent while others write.
    /// An image in place of another drive keeps what its reads promise: a block is never part old and part new.
    pub fn is_in_place(&self) -> bool {
        let Room { cached, movable, overwritable, .. } = self.layer.room();
        cached.get() == 0 && movable == 0 && overwritable.get() == 0
    }

    /// Writes.
    ///
    /// # Errors
    /// When the range is none of the drive, or the store fails.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), ImageError> {
        self.write_many(&[Write { offset, data, fua }])
    }

    /// Writes that wait together, oldest first: the layer packs them as it packs a deep queue.
    ///
    /// # Errors
    /// When a range is none of the drive, in which case nothing is written, or the store fails.
    pub fn write_many(&mut self, writes: &[Write<'_>]) -> Result<(), ImageError> {
        if self.take_writes(writes)? { self.flush() } else { Ok(()) }
    }

    /// The same without making anything durable; whether a flush is due before they are answered.
    ///
    /// # Errors
    /// As [`Image::write_many`].
    pub fn take_writes(&mut self, writes: &[Write<'_>]) -> Result<bool, ImageError> {
        let mut all = Vec::with_capacity(writes.len());
        for (index, write) in writes.iter().enumerate() {
            let extent = self.extent(write.offset, write.data.len() as u64)?;
            if !extent.is_empty() {
                all.push(HostWrite { id: CommandId(index as u32), extent, data: write.data });
            }
        }
        // A layer that plans has changed: where nothing can be done it is not asked.
        self.interpreter.check_running()?;
        let mut rest = all.as_slice();
        self.waiting.clear();
        loop {
            let more = rest.len().min(WAITING_MAX - self.waiting.len());
            let commands = rest[..more].iter().map(|write| Command::new(write.id, Op::Write, write.extent));
            self.waiting.extend(commands);
            rest = &rest[more..];
            if self.waiting.is_empty() {
                break;
            }
            self.take(&all)?;
        }
        Ok(!self.write_cache || writes.iter().any(|write| write.fua))
    }

    /// Has the layer take some of the waiting commands, and does what it says.
    fn take(&mut self, writes: &[HostWrite<'_>]) -> Result<(), ImageError> {
        self.plan.clear();
        self.layer.take(Queue { waiting: &self.waiting, next: 0 }, &mut self.plan);
        self.interpreter.apply(&self.plan, self.layer.as_mut(), writes)?;
        for (id, _) in self.plan.completions() {
            self.waiting.retain(|command| command.id != id);
        }
        check_done(&self.plan)
    }

    /// Makes zeros of a range, durable as a write is.
    ///
    /// # Errors
    /// When the range is none of the drive, or the store fails.
    pub fn write_zeroes(&mut self, offset: u64, len: u64, fua: bool) -> Result<(), ImageError> {
        let due = self.take_zeroes(offset, len)?;
        if due || fua { self.flush() } else { Ok(()) }
    }

    /// The same without making anything durable; whether a flush is due before it is answered.
    ///
    /// # Errors
    /// As [`Image::write_zeroes`].
    pub fn take_zeroes(&mut self, offset: u64, len: u64) -> Result<bool, ImageError> {
        match self.interpreter.is_shingled() {
            true => self.take_zeroes_in_place(offset, len)?,
            false => self.forget(offset, len, true)?,
        }
        Ok(!self.write_cache)
    }

    /// A raw shingled disk has no zeros but those that are written, over what they destroy.
    fn take_zeroes_in_place(&mut self, offset: u64, len: u64) -> Result<(), ImageError> {
        self.extent(offset, len)?;
        let zeroes = vec![0; len.min(ZEROES) as usize];
        for at in (offset..offset + len).step_by(ZEROES as usize) {
            let here = (offset + len - at).min(ZEROES) as usize;
            self.take_writes(&[Write { offset: at, data: &zeroes[..here], fua: false }])?;
        }
        Ok(())
    }

    /// Which writes destroyed what of a range of a raw shingled disk.
    ///
    /// # Errors
    /// When the range is none of the drive.
    pub fn losses(&mut self, offset: u64, len: u64) -> Result<Vec<Loss>, ImageError> {
        let extent = self.extent(offset, len)?;
        Ok(self.interpreter.losses(extent))
    }

    /// Which parts of a range are overwritten, in order: bytes, and whether they are.
    ///
    /// # Errors
    /// When the range is none of the drive.
    pub fn overwritten(&mut self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, ImageError> {
        let (extent, mut parts) = (self.extent(offset, len)?, Vec::new());
        self.interpreter.visit_overwritten(extent, &mut |part, torn| parts.push((part.len.bytes(), torn)));
        Ok(parts)
    }

    /// The counters of a raw shingled disk.
    pub fn shingled_counters(&mut self) -> Option<ShingledCounters> {
        self.interpreter.shingled_counters()
    }

    /// The layer as a raw shingled disk, if it is one: its tracks, bands and read mode.
    pub fn raw_shingled(&mut self) -> Option<&mut Swd> {
        self.layer.raw_shingled()
    }

    /// Forgets a range: it reads as zeros where the store can discard, and else, or when the power fails before a
    /// flush, as something that it ever held.
    ///
    /// # Errors
    /// When the range is none of the drive, or the store fails.
    pub fn trim(&mut self, offset: u64, len: u64) -> Result<(), ImageError> {
        self.forget(offset, len, false)
    }

    fn forget(&mut self, offset: u64, len: u64, zeros: bool) -> Result<(), ImageError> {
        self.extent(offset, len)?;
        self.interpreter.check_running()?;
        let mut done = 0;
        while done < len {
            let here = (len - done).min(TRIM_MAX);
            let extent = self.extent(offset + done, here)?;
            let trim = Command::new(CommandId(0), Op::Trim, extent);
            self.plan.clear();
            self.layer.take(Queue { waiting: &[trim], next: 0 }, &mut self.plan);
            check_done(&self.plan)?;
            let layer = self.layer.as_mut();
            match zeros {
                true => self.interpreter.apply_zeroes(&self.plan, layer, extent)?,
                false => self.interpreter.apply_trim(&self.plan, layer, extent)?,
            }
            done += here;
        }
        Ok(())
    }

    /// Makes durable all that was answered.
    ///
    /// # Errors
    /// When the store fails.
    pub fn flush(&mut self) -> Result<(), ImageError> {
        self.interpreter.flush()
    }

    /// Begins a flush: the sync that it needs, to be done beside other commands; none if all is durable.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_flush(&mut self) -> Result<Option<PendingSync>, ImageError> {
        self.interpreter.begin_flush()
    }

    /// Goes on with a flush whose sync was done; the next sync that it needs, if it is not at its end.
    ///
    /// # Errors
    /// When the sync or the store failed.
    pub fn finish_sync(
        &mut self,
        sync: &PendingSync,
        synced: io::Result<()>,
    ) -> Result<Option<PendingSync>, ImageError> {
        self.interpreter.finish_sync(sync, synced)
    }

    /// One unit of what the drive does when it is left alone.
    ///
    /// # Errors
    /// When the store fails.
    pub fn idle(&mut self) -> Result<Idle, ImageError> {
        self.interpreter.check_running()?;
        self.plan.clear();
        let idle = self.layer.idle(&mut self.plan);
        self.interpreter.apply(&self.plan, self.layer.as_mut(), &[])?;
        if idle != Idle::Worked && self.interpreter.rest()? {
            return Ok(Idle::Worked);
        }
        Ok(idle)
    }

    /// Where a range lies, in order.
    ///
    /// # Errors
    /// When the range is none of the drive, or the store fails.
    pub fn locate(&self, offset: u64, len: u64) -> Result<Vec<Place>, ImageError> {
        let extent = self.extent(offset, len)?;
        let mut places: Vec<Place> = Vec::new();
        self.interpreter.visit_places(extent, self.layer.as_ref(), usize::MAX, &mut |next| match places
            .last_mut()
        {
            Some(last) if (last.cached, last.allocated) == (next.cached, next.allocated) => {
                last.len += next.len;
            }
            _ => places.push(next),
        })?;
        Ok(places)
    }

    /// Gives back the room of all that nothing reads any more; bytes that this was.
    ///
    /// # Errors
    /// When the store fails.
    pub fn discard_dead(&mut self) -> Result<u64, ImageError> {
        self.interpreter.checkpoint(false)?;
        let all = LbaExtent::new(Lba(0), self.layer.capacity());
        let mut pieces = Vec::new();
        self.interpreter.pieces(all, self.layer.as_ref(), &mut |medium, piece| pieces.push((medium, piece)));
        self.interpreter.discard_but(&mut pieces)
    }

    /// Bytes that the image takes where it lies, and bytes that it would take if nothing of it were holes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn stored_bytes(&self) -> Result<(u64, u64), ImageError> {
        self.interpreter.stored_bytes()
    }

    /// How it is.
    pub fn status(&self) -> Status {
        Status {
            cache: self.layer.cache_use(),
            counters: self.interpreter.counters,
            generation: self.interpreter.log.generation(),
            recovery: self.recovery,
            sums: self.interpreter.sums(),
        }
    }

    /// What the last change that was refused for want of space has cost: the layer had to be taken up anew.
    pub fn refused_in(&self) -> Duration {
        self.interpreter.refused_in
    }

    /// The layer, to look at.
    pub fn layer(&self) -> &dyn Layer {
        self.layer.as_ref()
    }

    /// The layer and the interpreter, for whoever drives the one and hands its plans to the other. The layer has
    /// taken up what was found.
    pub fn into_parts(self) -> (Box<dyn Layer>, Interpreter) {
        (self.layer, self.interpreter)
    }

    /// Switches the drive off in order: all is durable, and the next start reads no log.
    ///
    /// # Errors
    /// When the store fails.
    pub fn close(mut self) -> Result<(), ImageError> {
        self.interpreter.close()
    }
}

/// What a new image is.
fn superblock(layer: &dyn Layer, text: &str, options: &Options) -> Superblock {
    let salt = drawn() as u32;
    let (capacity, room) = (layer.capacity().bytes(), layer.room());
    let mut superblock = match options.log_bytes {
        Some(bytes) => Superblock::with_log(salt, capacity, &room, text, bytes),
        None => Superblock::new(salt, capacity, &room, text),
    };
    superblock.identity = u128::from(drawn()) << 64 | u128::from(drawn());
    if options.checksums {
        superblock.add_sums();
    }
    superblock
}

/// A number that no other image has, from the keys that the system gives every process.
pub(crate) fn drawn() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// The store of an image, under its checksums if it has any.
pub(crate) fn summed(
    store: Box<dyn Store>,
    superblock: &Superblock,
    options: &Options,
) -> Result<Box<dyn Store>, ImageError> {
    if superblock.sums.len == 0 {
        return Ok(store);
    }
    let place = store.name();
    let over = SummedStore::new(store, superblock, &options.sums);
    Ok(Box::new(over.map_err(|source| ImageError::Io { place, action: "read its checksums", source })?))
}
