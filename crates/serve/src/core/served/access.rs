//! Access to the image behind a served drive: who may read it, change it and sync it, and in which order.
//!
//! Reads go on beside each other: where one goes is found out under the lock of the image, its bytes are read without it.
//! What changes the image waits until no read is under way, and reads wait until it is done. The sync of a flush holds up
//! nobody but those who wait for a flush.
//!
//! Where the file system under the image is full, writes fail and reads go on. After a write that found no space those
//! that follow at once are refused without a try.
//!
//! Invariants: what fails is reported to the client by an [`Errno`], and in `last_error` of the status in words. `still` is
//! taken before `image`; a thread that reads under `still` sees an image that does not change.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use skylight_disk::Sectors;
use skylight_image::{Image, ImageError, Reader, Write};
use skylight_layer::Idle;

use super::activity::{Activity, Ending};
use super::fair_lock::FairLock;
use crate::core::checksum_errors::{ChecksumErrors, wrong_byte};
use crate::core::shingled::{Shingles, losses};
use crate::core::{Command, Errno, Failure, Job, Op, Shape};

/// After a write that found no space, which has cost the time to take the layer up anew, writes are refused without a try
/// for so many times that: it takes at most this part of the time from reads.
const REFUSED_SHARE: u32 = 8;
/// The longest that they are.
const REFUSED_MOST: Duration = Duration::from_secs(1);

/// Idle work that found no space is tried again so much later: space comes when a person makes it.
const IDLE_REFUSED: Duration = Duration::from_secs(5);

/// How an image is read without its lock.
pub(super) struct ReadPath {
    /// None for an image whose reads change it: a raw shingled disk counts them.
    reader: Option<Reader>,
    /// Every sector has one place for good, and nothing to compare it with, so that its bytes may be lent.
    lends: bool,
    /// Its data has checksums.
    checksums: bool,
}

impl ReadPath {
    /// Of an image.
    fn of(image: &Image) -> Self {
        let checksums = image.has_checksums();
        Self { reader: image.reader(), lends: image.may_lend() && !checksums, checksums }
    }
}

/// See the module page.
pub(super) struct Access {
    pub(super) shape: Shape,
    /// What the status calls the timing.
    pub(super) timing: &'static str,
    /// Held to read by reads, to write by what changes the image.
    still: RwLock<()>,
    /// None once it is closed.
    image: Mutex<Option<Image>>,
    reads: ReadPath,
    pub(super) activity: Activity,
    /// Of long commands.
    pub(super) long_lock: FairLock,
    /// Held during a flush: those who come meanwhile find all durable, or little to do.
    flushing: Mutex<()>,
    pub(super) idle_units: AtomicU64,
    /// Until when writes are refused without a try, us of the activity's clock; 0 if the last one was not.
    refused_until_us: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// For a raw shingled disk.
    pub(super) shingles: Option<Arc<Shingles>>,
    pub(super) checksum_errors: ChecksumErrors,
    pub(super) ending: Ending,
}

fn write_of<'a>(command: &Command, data: &'a [u8]) -> Write<'a> {
    Write { offset: command.offset_bytes(), data, fua: command.flags.fua }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Access {
    /// To an image that nobody else has.
    pub(super) fn new(mut image: Image, shape: Shape, timing: &'static str) -> Self {
        let shingles = image.overwriting().map(|disk| Arc::new(Shingles::of(disk)));
        let shingled = shingles.is_some();
        let shape = Shape { size: image.capacity_bytes(), places: true, shingled, ..shape };
        Self {
            shape,
            timing,
            still: RwLock::new(()),
            reads: ReadPath::of(&image),
            image: Mutex::new(Some(image)),
            activity: Activity::new(),
            long_lock: FairLock::default(),
            flushing: Mutex::new(()),
            idle_units: AtomicU64::new(0),
            refused_until_us: AtomicU64::new(0),
            last_error: Mutex::new(None),
            shingles,
            checksum_errors: ChecksumErrors::default(),
            ending: Ending::default(),
        }
    }

    /// Looks at the image, or does what one alone may do at a time, but changes nothing.
    pub(super) fn with<T>(&self, work: impl FnOnce(&mut Image) -> Result<T, ImageError>) -> Result<T, Errno> {
        // A panic in the middle of a change leaves an image that nobody should use: its lock stays poisoned.
        let mut image = self.image.lock().map_err(|_| Errno::Io)?;
        let image = image.as_mut().ok_or(Errno::Shutdown)?;
        work(image).map_err(|error| self.failed(&error))
    }

    /// Changes the image, while nobody reads.
    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&mut Image) -> Result<T, ImageError>,
    ) -> Result<T, Errno> {
        let _still = self.still.write().unwrap_or_else(PoisonError::into_inner);
        self.with(work)
    }

    /// Writes, unless the last write found no space just now.
    pub(super) fn refusable<T>(
        &self,
        work: impl FnOnce(&mut Image) -> Result<T, ImageError>,
    ) -> Result<T, Errno> {
        let until = self.refused_until_us.load(Ordering::Relaxed);
        if until > 0 && self.activity.now_us() < until {
            return Err(Errno::NoSpace);
        }
        let mut pause = Duration::ZERO;
        let written = self.change(|image| {
            work(image).inspect_err(|_| pause = (image.refused_in() * REFUSED_SHARE).min(REFUSED_MOST))
        });
        let refused = matches!(written, Err(Errno::NoSpace));
        if refused || until > 0 {
            let until = if refused { self.activity.now_us() + pause.as_micros() as u64 } else { 0 };
            self.refused_until_us.store(until, Ordering::Relaxed);
        }
        written
    }

    fn failed(&self, error: &ImageError) -> Errno {
        *lock(&self.last_error) = Some(error.to_string());
        self.checksum_errors.note(error);
        Failure::from(error).into()
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let Some(reader) = &self.reads.reader else {
            // A raw shingled disk counts its reads, and says which sectors it refused.
            return self.change(|image| {
                image.read(offset, data).inspect_err(|error| {
                    if let (ImageError::Unreadable { .. }, Some(shingles)) = (error, &self.shingles) {
                        shingles.tell(&losses(image.overwriting(), offset, data.len() as u64));
                    }
                })
            });
        };
        let _still = self.still.read().unwrap_or_else(PoisonError::into_inner);
        let route = self.with(|image| image.route(offset, data.len() as u64))?;
        reader.read(&route, data).map_err(|error| self.failed(&error))
    }

    /// Makes durable all that was answered; others go on meanwhile.
    pub(super) fn flush(&self) -> Result<(), Errno> {
        let _flushing = lock(&self.flushing);
        let mut pending = self.with(Image::begin_flush)?;
        while let Some(sync) = pending {
            let synced = sync.sync();
            pending = self.with(|image| image.finish_sync(&sync, synced))?;
        }
        Ok(())
    }

    pub(super) fn execute(
        &self,
        command: &Command,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        let Command { op, flags, .. } = *command;
        if op == Op::WriteZeroes && flags.no_hole && flags.fast_zero {
            return Err(Errno::NotSupported);
        }
        if !matches!(op, Op::Trim | Op::WriteZeroes) {
            self.activity.short_came();
        }
        match op {
            Op::Trim | Op::WriteZeroes => self.execute_long(command, goes_on),
            Op::Read => self.read(command.offset_bytes(), data),
            Op::Write => self.write(&[write_of(command, data)]),
            Op::Flush => self.flush(),
            Op::Append => Err(Errno::NotSupported),
            Op::Cache => Ok(()),
        }
    }

    fn write(&self, writes: &[Write<'_>]) -> Result<(), Errno> {
        let due = self.refusable(|image| image.take_writes(writes))?;
        if due { self.flush() } else { Ok(()) }
    }

    pub(super) fn execute_writes(
        &self,
        writes: &mut [(Command, &mut [u8])],
        results: &mut Vec<Result<(), Errno>>,
    ) {
        self.activity.short_came();
        let result = match &*writes {
            [(command, data)] => self.write(&[write_of(command, data)]),
            several => {
                let waiting: Vec<Write<'_>> =
                    several.iter().map(|(command, data)| write_of(command, data)).collect();
                self.write(&waiting)
            }
        };
        results.extend(std::iter::repeat_n(result, writes.len()));
    }

    /// Does commands in their order, writes that follow each other together.
    pub(super) fn do_in_order(&self, jobs: Vec<Job>) {
        let mut results = Vec::new();
        let mut rest = jobs.into_iter().peekable();
        while let Some(job) = rest.next() {
            if job.command.op != Op::Write {
                self.do_one(job);
                continue;
            }
            let mut run = vec![job];
            while let Some(job) = rest.next_if(|job| job.command.op == Op::Write) {
                run.push(job);
            }
            let mut writes: Vec<_> =
                run.iter_mut().map(|job| (job.command, job.data.as_mut_slice())).collect();
            results.clear();
            self.execute_writes(&mut writes, &mut results);
            run.into_iter().zip(&results).for_each(|(job, &result)| job.finish(result));
        }
    }

    /// The first byte of an extent that a read refuses: of a raw shingled disk, or one with a wrong checksum.
    pub(super) fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.overwritten_at(offset, len).or_else(|| self.wrong_at(offset, len))
    }

    /// Where an extent is wrong: it is read again, for few reads fail.
    fn wrong_at(&self, offset: u64, len: u64) -> Option<u64> {
        let reader = self.reads.reader.as_ref().filter(|_| self.reads.checksums)?;
        let _still = self.still.read().unwrap_or_else(PoisonError::into_inner);
        let route = self.with(|image| image.route(offset, len)).ok()?;
        reader.read(&route, &mut vec![0; len as usize]).err().as_ref().and_then(wrong_byte)
    }

    fn overwritten_at(&self, offset: u64, len: u64) -> Option<u64> {
        let mut refused = None;
        // A failure of this look-up leaves the read an error without a place.
        let _ = self.with(|image| {
            let disk = image.overwriting().filter(|disk| disk.mode().fail);
            refused = losses(disk, offset, len).first().map(|loss| Sectors(loss.lba.start.get()).bytes());
            Ok(())
        });
        refused
    }

    pub(super) fn do_one(&self, job: Job) {
        job.done_by(
            |command, data, goes_on| self.execute(command, data, goes_on),
            |offset, len| self.refused_at(offset, len),
        );
    }

    /// The last error, in words.
    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// Gives `take` the file in which a stretch lies for good, and where in it, while nothing is being changed; whether it
    /// did.
    pub(super) fn lend(&self, offset: u64, len: u64, take: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        let Some(reader) = self.reads.reader.as_ref().filter(|_| self.reads.lends) else {
            return false;
        };
        self.activity.short_came();
        let _still = self.still.read().unwrap_or_else(PoisonError::into_inner);
        // What fails here is tried again by a read, which says why.
        let route = self.with(|image| image.route(offset, len));
        match route.ok().as_ref().and_then(|route| reader.file_of(route)) {
            Some((file, at)) => {
                take(file, at);
                true
            }
            None => false,
        }
    }

    /// Until the end: waits until no command came for `patience`, then does the layer's idle work until one does, one unit
    /// at a time, so that a command waits for at most one.
    pub(super) fn idle(&self, patience: Duration) {
        loop {
            let quiet = self.activity.quiet();
            let unit = if quiet >= patience { self.change(Image::idle) } else { Ok(Idle::Nothing) };
            let pause = match unit {
                Ok(Idle::Worked) => Duration::ZERO,
                // With nothing to do it looks again after as long as it was patient.
                Ok(Idle::Nothing) => patience.saturating_sub(quiet).max(patience / 4),
                Err(_) => IDLE_REFUSED,
            };
            self.idle_units.fetch_add(u64::from(unit == Ok(Idle::Worked)), Ordering::Relaxed);
            if self.ending.wait(pause) {
                return;
            }
        }
    }

    /// Closes the image: the next start reads no log.
    pub(super) fn close(&self) -> Result<(), String> {
        let _still = self.still.write().unwrap_or_else(PoisonError::into_inner);
        let image = self.image.lock().map_err(|_| "the image failed before".to_owned())?.take();
        image.map_or(Ok(()), |image| image.close().map_err(|error| error.to_string()))
    }
}
