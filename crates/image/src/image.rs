//! One drive that keeps its data: a layer, the store under it, and the interpreter between them.
//!
//! Semantics are those of a disk. With the write cache off a write completes when it is durable; with it on, only a flush
//! and a write with FUA make earlier writes durable. Reads return the last written data.
//!
//! Invariants: one process uses an image at a time; a command past the end of the drive, or not of whole sectors, changes
//! nothing; an image that was not closed is recovered when it is opened.

use std::io;
use std::time::Duration;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{
    CacheUse, Command, CommandId, Failure, Idle, Layer, MediaUse, Op, Overwriting, Plan, Queue, ZoneAction,
    Zoned,
};

use crate::error::ImageError;
use crate::flush::PendingSync;
use crate::in_place_image::Place;
use crate::interpreter::{Counters, HostWrite, Interpreter};
use crate::overwrite_records::wall_clock;
use crate::reader::{Reader, Route};
use crate::recovery::Recovery;
use crate::store::checksummed::SumState;

/// A write of the host.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// The first byte.
    pub offset: u64,
    /// Whole sectors.
    pub data: &'a [u8],
    /// Whether it must be durable when it completes.
    pub fua: bool,
}

/// The status of an image.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    /// The layer's use of its cache.
    pub cache: CacheUse,
    /// Counters since it was opened.
    pub counters: Counters,
    /// The generation of the newest checkpoint.
    pub generation: u32,
    /// The result of the recovery at opening.
    pub recovery: Recovery,
    /// The state of its checksums, if it has any.
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

/// The maximum number of waiting writes passed to the layer.
const WAITING_MAX: usize = 256;
/// The longest trim command, bytes: a few times less than a drive's own limit.
const TRIM_MAX: u64 = 1 << 40;
/// The longest write of zeros, bytes.
const ZEROES: u64 = 1 << 20;

/// The error of a read of overwritten sectors.
pub fn unreadable(part: LbaExtent) -> ImageError {
    let (first, last) = (part.start.get(), part.end().get() - 1);
    ImageError::Unreadable { first, last, reason: Failure::Overwritten }
}

/// Fails if the layer refused a command of the plan.
fn check_done(plan: &Plan) -> Result<(), ImageError> {
    plan.completions().try_for_each(|(_, outcome)| outcome.status()).map_err(ImageError::Refused)
}

/// See the module documentation.
pub struct Image {
    pub(crate) layer: Box<dyn Layer>,
    pub(crate) interpreter: Interpreter,
    pub(crate) capacity: u64,
    /// Whether the layer has to plan each read, and needs the time of each write ([`Overwriting`]).
    pub(crate) overwrites: bool,
    /// Whether the layer has to plan each read because zones may refuse it ([`Zoned`]).
    pub(crate) zoned: bool,
    pub(crate) write_cache: bool,
    pub(crate) recovery: Recovery,
    pub(crate) mended: Vec<String>,
    pub(crate) plan: Plan,
    pub(crate) waiting: Vec<Command>,
}

impl Image {
    /// Redundant structures that were damaged when it was opened and have been repaired, a line each.
    pub fn mended(&self) -> &[String] {
        &self.mended
    }

    /// Host capacity, bytes.
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity
    }

    /// Whether writes complete before they are durable.
    pub fn write_cache(&self) -> bool {
        self.write_cache
    }

    /// Switches the write cache, after a flush.
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
    /// When the range is invalid for the drive, or the store fails.
    pub fn read(&mut self, offset: u64, buffer: &mut [u8]) -> Result<(), ImageError> {
        let extent = self.extent(offset, buffer.len() as u64)?;
        if extent.is_empty() || !self.overwrites && !self.zoned {
            return self.interpreter.read(extent, buffer, self.layer.as_ref());
        }
        // Only the layer knows the location of overwritten sectors and the ends of zones, and whether a read returns them.
        let read = Command::new(CommandId(0), Op::Read, extent);
        self.plan.clear();
        self.layer.take(Queue { waiting: &[read], next: 0 }, &mut self.plan);
        if self.zoned {
            check_done(&self.plan)?;
            return self.interpreter.read_zones(&self.plan, extent, buffer, self.layer.as_ref());
        }
        match self.interpreter.read_plan(&self.plan, read.id, extent, buffer)?.first() {
            Some(part) => Err(unreadable(*part)),
            None => Ok(()),
        }
    }

    /// Reads concurrent with the owner of the image, along a [`Route`]; `None` if the store does not support them, or
    /// if the layer has to plan each read.
    pub fn reader(&self) -> Option<Reader> {
        match self.overwrites || self.zoned {
            true => None,
            false => Reader::of(self.interpreter.store.as_ref()),
        }
    }

    /// The route of a read: valid until the image changes, which the caller must prevent.
    ///
    /// # Errors
    /// When the range is invalid for the drive, or reads are not safe after an error.
    pub fn route(&self, offset: u64, len: u64) -> Result<Route, ImageError> {
        let extent = self.extent(offset, len)?;
        self.interpreter.route(extent, self.layer.as_ref())
    }

    /// Whether every sector has a fixed location on the drive itself, so that its data may be spliced while others write.
    /// Of other drives, even if their image is in place, a read never returns a block that is part old and part new.
    pub fn may_lend(&self) -> bool {
        let MediaUse { cached, movable, overwritable, zones, .. } = self.layer.media_use();
        cached.get() == 0 && movable == 0 && overwritable.get() == 0 && zones == 0
    }

    /// Writes.
    ///
    /// # Errors
    /// When the range is invalid for the drive, or the store fails.
    pub fn write(&mut self, offset: u64, data: &[u8], fua: bool) -> Result<(), ImageError> {
        self.write_many(&[Write { offset, data, fua }])
    }

    /// Pending writes, oldest first: the layer packs them as it packs a deep queue.
    ///
    /// # Errors
    /// When a range is invalid for the drive, in which case nothing is written, or the store fails.
    pub fn write_many(&mut self, writes: &[Write<'_>]) -> Result<(), ImageError> {
        if self.take_writes(writes)? { self.flush() } else { Ok(()) }
    }

    /// The same without a flush; returns whether one is due before they complete.
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
        // Planning changes the layer, so it must not plan what cannot be executed.
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

    /// Lets the layer take some of the waiting commands, and executes its plan.
    fn take(&mut self, writes: &[HostWrite<'_>]) -> Result<(), ImageError> {
        self.plan.clear();
        if self.overwrites {
            self.layer.clock(wall_clock());
        }
        self.layer.take(Queue { waiting: &self.waiting, next: 0 }, &mut self.plan);
        self.interpreter.apply(&self.plan, self.layer.as_mut(), writes)?;
        for (id, _) in self.plan.completions() {
            self.waiting.retain(|command| command.id != id);
        }
        check_done(&self.plan)
    }

    /// Writes zeros; durable as a write is.
    ///
    /// # Errors
    /// When the range is invalid for the drive, or the store fails.
    pub fn write_zeroes(&mut self, offset: u64, len: u64, fua: bool) -> Result<(), ImageError> {
        let due = self.take_zeroes(offset, len)?;
        if due || fua { self.flush() } else { Ok(()) }
    }

    /// The same without a flush; returns whether one is due before it completes.
    ///
    /// # Errors
    /// As [`Image::write_zeroes`].
    pub fn take_zeroes(&mut self, offset: u64, len: u64) -> Result<bool, ImageError> {
        match self.overwrites || self.zoned {
            true => self.take_zeroes_in_place(offset, len)?,
            false => self.forget(offset, len, true)?,
        }
        Ok(!self.write_cache)
    }

    /// A drive whose writes overwrite others, or move write pointers, has to write zeros like other data.
    fn take_zeroes_in_place(&mut self, offset: u64, len: u64) -> Result<(), ImageError> {
        self.extent(offset, len)?;
        let zeroes = vec![0; len.min(ZEROES) as usize];
        for at in (offset..offset + len).step_by(ZEROES as usize) {
            let here = (offset + len - at).min(ZEROES) as usize;
            self.take_writes(&[Write { offset: at, data: &zeroes[..here], fua: false }])?;
        }
        Ok(())
    }

    /// The overwritten sectors of the drive, if its writes overwrite others.
    pub fn overwriting(&mut self) -> Option<&mut dyn Overwriting> {
        self.layer.overwriting()
    }

    /// The zones of the drive, if it has any.
    pub fn zoned(&mut self) -> Option<&mut dyn Zoned> {
        self.layer.zoned()
    }

    /// Changes zones as no command does, durably; what `change` returns, or `None` if the drive has no zones.
    ///
    /// # Errors
    /// When the store fails.
    pub fn change_zones<T>(
        &mut self,
        change: impl FnOnce(&mut dyn Zoned) -> T,
    ) -> Result<Option<T>, ImageError> {
        self.interpreter.check_running()?;
        let Some(done) = self.layer.zoned().map(change) else { return Ok(None) };
        self.plan.clear();
        self.interpreter.apply(&self.plan, self.layer.as_mut(), &[])?;
        self.flush()?;
        Ok(Some(done))
    }

    /// Opens, closes, finishes or resets the zone of this range, or all zones if it is the whole drive; durable as a write is.
    ///
    /// # Errors
    /// When the drive refuses, in which case nothing is changed, or the store fails.
    pub fn act_on_zones(&mut self, action: ZoneAction, offset: u64, len: u64) -> Result<(), ImageError> {
        if self.take_zone_action(action, offset, len)? { self.flush() } else { Ok(()) }
    }

    /// The same without a flush; returns whether one is due before it completes.
    ///
    /// # Errors
    /// As [`Image::act_on_zones`].
    pub fn take_zone_action(
        &mut self,
        action: ZoneAction,
        offset: u64,
        len: u64,
    ) -> Result<bool, ImageError> {
        let extent = self.extent(offset, len)?;
        self.interpreter.check_running()?;
        self.waiting.clear();
        self.waiting.push(Command::new(CommandId(0), Op::Zone(action), extent));
        self.take(&[])?;
        Ok(!self.write_cache)
    }

    /// Discards a range. It reads as zeros if the store can discard; otherwise, or after a power cut before a flush, as
    /// any data that it has ever held.
    ///
    /// # Errors
    /// When the range is invalid for the drive, or the store fails.
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
            self.interpreter.apply_trim(&self.plan, self.layer.as_mut(), extent, zeros)?;
            done += here;
        }
        Ok(())
    }

    /// Makes all completed writes durable.
    ///
    /// # Errors
    /// When the store fails.
    pub fn flush(&mut self) -> Result<(), ImageError> {
        self.interpreter.flush()
    }

    /// Starts a flush: returns the sync that it needs, to be executed concurrently; `None` if everything is durable.
    ///
    /// # Errors
    /// When the store fails.
    pub fn begin_flush(&mut self) -> Result<Option<PendingSync>, ImageError> {
        self.interpreter.begin_flush()
    }

    /// Continues a flush after its sync; returns the next sync that it needs, or `None` at its end.
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

    /// Performs one unit of background work.
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

    /// The locations of a range, in order.
    ///
    /// # Errors
    /// When the range is invalid for the drive, or the store fails.
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

    /// Discards all dead data; returns its size, bytes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn discard_dead(&mut self) -> Result<u64, ImageError> {
        self.interpreter.checkpoint(false, self.layer.as_mut())?;
        let all = LbaExtent::new(Lba(0), self.layer.capacity());
        let mut pieces = Vec::new();
        self.interpreter.pieces(all, self.layer.as_ref(), &mut |medium, piece| pieces.push((medium, piece)));
        self.interpreter.discard_but(&mut pieces)
    }

    /// Allocated bytes, and the size with holes, bytes.
    ///
    /// # Errors
    /// When the store fails.
    pub fn stored_bytes(&self) -> Result<(u64, u64), ImageError> {
        self.interpreter.stored_bytes()
    }

    /// The status.
    pub fn status(&self) -> Status {
        Status {
            cache: self.layer.cache_use(),
            counters: self.interpreter.counters,
            generation: self.interpreter.log.generation(),
            recovery: self.recovery,
            sums: self.interpreter.sums(),
        }
    }

    /// Time to reload the layer after the last change that was refused for lack of space.
    pub fn refused_in(&self) -> Duration {
        self.interpreter.health.refused_in
    }

    /// The layer.
    pub fn layer(&self) -> &dyn Layer {
        self.layer.as_ref()
    }

    /// The layer, in its recovered state, and the interpreter, for a drive that calls the layer and passes its plans to the
    /// interpreter.
    pub fn into_parts(self) -> (Box<dyn Layer>, Interpreter) {
        (self.layer, self.interpreter)
    }

    /// Closes the image in order: everything is durable, and the next start replays no log.
    ///
    /// # Errors
    /// When the store fails.
    pub fn close(mut self) -> Result<(), ImageError> {
        self.interpreter.close(self.layer.as_mut())
    }
}
