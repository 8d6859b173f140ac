//! Concurrent access to the image behind a served drive: locking of reads, writes and syncs.
//!
//! Reads proceed in parallel: each looks up its location under the lock of the image and reads the bytes
//! without it. Changes of the image exclude reads, which wait until the change is complete. The sync of a
//! flush blocks only other flushes.
//!
//! When the host file system is full, writes fail and reads continue. After a write that failed with ENOSPC,
//! the next writes are refused for a while without being attempted.
//!
//! Invariants: a failure goes to the client with the reason that the image has for it, and into `last_error` of the status in
//! words. `read_lock` is taken before `image`; a thread that reads under `read_lock` sees an image that does
//! not change.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};
use std::time::Duration;

use skylight_disk::Sectors;
use skylight_image::{Image, ImageError, Reader, Write};
use skylight_layer::{Idle, ZoneLayout};

use super::activity::{Activity, ShutdownSignal};
use super::fair_lock::FairLock;
use crate::core::image_errors::{ImageErrors, first_mismatch};
use crate::core::read_modes::{Shingles, losses};
use crate::core::{Command, Failure, Job, Op, Shape, ZoneAction};

/// After a write has failed with ENOSPC, which costs the time to reload the layer, writes are refused without
/// an attempt for this multiple of that time. So failing writes take at most this fraction of the time from
/// reads.
const BACKOFF_FACTOR: u32 = 8;
/// Upper bound of that backoff.
const MAX_BACKOFF: Duration = Duration::from_secs(1);

/// Delay after idle work failed for lack of space, which only an operator can free.
const IDLE_RETRY_DELAY: Duration = Duration::from_secs(5);

/// How an image is read without its lock.
pub(super) struct ReadPath {
    /// `None` for an image that reads modify: a drive whose sectors can be overwritten counts them.
    reader: Option<Reader>,
    /// Whether every sector has a fixed location and no checksum, so that its bytes can be spliced.
    lends: bool,
    /// Whether its data has checksums.
    checksums: bool,
}

impl ReadPath {
    /// The read path of an image.
    fn of(image: &Image) -> Self {
        let checksums = image.has_checksums();
        Self { reader: image.reader(), lends: image.may_lend() && !checksums, checksums }
    }
}

/// See the module page.
pub(super) struct Access {
    pub(super) shape: Shape,
    /// The timing, as the status reports it.
    pub(super) timing: &'static str,
    /// Held shared by reads and exclusively by changes of the image.
    read_lock: RwLock<()>,
    /// `None` once the image is closed.
    image: Mutex<Option<Image>>,
    reads: ReadPath,
    pub(super) activity: Activity,
    /// Serialises the pieces of long commands.
    pub(super) long_lock: FairLock,
    /// Held during a flush: flushes that wait for it find everything or nearly everything durable.
    flushing: Mutex<()>,
    pub(super) idle_units: AtomicU64,
    /// Until when writes are refused without an attempt, us on the clock of the activity; 0 if the last write
    /// succeeded.
    no_space_until_us: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// Of a drive whose sectors can be overwritten.
    pub(super) shingles: Option<Arc<Shingles>>,
    /// The zones of the drive, if it has any.
    pub(super) zones: Option<ZoneLayout>,
    pub(super) image_errors: ImageErrors,
    pub(super) shutdown: ShutdownSignal,
}

fn write_of<'a>(command: &Command, data: &'a [u8]) -> Write<'a> {
    Write { offset: command.offset_bytes(), data, fua: command.flags.fua }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Access {
    /// Takes exclusive ownership of an image.
    pub(super) fn new(mut image: Image, shape: Shape, timing: &'static str) -> Self {
        let shingles = image.overwriting().map(|disk| Arc::new(Shingles::of(disk)));
        let zones = image.zoned().map(|zoned| *zoned.layout());
        let shape =
            Shape { size: image.capacity_bytes(), places: true, shingled: shingles.is_some(), ..shape };
        Self {
            shape,
            timing,
            read_lock: RwLock::new(()),
            reads: ReadPath::of(&image),
            image: Mutex::new(Some(image)),
            activity: Activity::new(),
            long_lock: FairLock::default(),
            flushing: Mutex::new(()),
            idle_units: AtomicU64::new(0),
            no_space_until_us: AtomicU64::new(0),
            last_error: Mutex::new(None),
            shingles,
            zones,
            image_errors: ImageErrors::default(),
            shutdown: ShutdownSignal::default(),
        }
    }

    /// Accesses the image under its lock, without changing data.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut Image) -> Result<T, ImageError>,
    ) -> Result<T, Failure> {
        // A panic during a change leaves the image in an unknown state, so the lock stays poisoned.
        let mut image = self.image.lock().map_err(|_| Failure::Internal)?;
        let image = image.as_mut().ok_or(Failure::Aborted)?;
        work(image).map_err(|error| self.record_error(&error))
    }

    /// Changes the image while no thread reads.
    pub(super) fn change<T>(
        &self,
        work: impl FnOnce(&mut Image) -> Result<T, ImageError>,
    ) -> Result<T, Failure> {
        let _guard = self.read_lock.write().unwrap_or_else(PoisonError::into_inner);
        self.with(work)
    }

    /// Writes, unless writes are being refused for lack of space.
    pub(super) fn write_unless_full<T>(
        &self,
        work: impl FnOnce(&mut Image) -> Result<T, ImageError>,
    ) -> Result<T, Failure> {
        let until = self.no_space_until_us.load(Ordering::Relaxed);
        if until > 0 && self.activity.now_us() < until {
            return Err(Failure::NoSpace);
        }
        let mut backoff = Duration::ZERO;
        let written = self.change(|image| {
            work(image).inspect_err(|_| backoff = (image.refused_in() * BACKOFF_FACTOR).min(MAX_BACKOFF))
        });
        let refused = matches!(written, Err(Failure::NoSpace));
        if refused || until > 0 {
            let until = if refused { self.activity.now_us() + backoff.as_micros() as u64 } else { 0 };
            self.no_space_until_us.store(until, Ordering::Relaxed);
        }
        written
    }

    fn record_error(&self, error: &ImageError) -> Failure {
        *lock(&self.last_error) = Some(error.to_string());
        self.image_errors.note(error);
        Failure::from(error)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Failure> {
        let Some(reader) = &self.reads.reader else {
            // A drive whose sectors can be overwritten counts its reads and reports the sectors that it refuses.
            return self.change(|image| {
                image.read(offset, data).inspect_err(|error| {
                    if let (ImageError::Unreadable { .. }, Some(shingles)) = (error, &self.shingles) {
                        shingles.tell(&losses(image.overwriting(), offset, data.len() as u64));
                    }
                })
            });
        };
        let _guard = self.read_lock.read().unwrap_or_else(PoisonError::into_inner);
        let route = self.with(|image| image.route(offset, data.len() as u64))?;
        reader.read(&route, data).map_err(|error| self.record_error(&error))
    }

    /// Makes all completed writes durable; other commands proceed meanwhile.
    pub(super) fn flush(&self) -> Result<(), Failure> {
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
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        let Command { op, flags, .. } = *command;
        if op == Op::WriteZeroes && flags.no_hole && flags.fast_zero {
            return Err(Failure::Unsupported);
        }
        if !matches!(op, Op::Trim | Op::WriteZeroes) {
            self.activity.note_short_command();
        }
        match op {
            Op::Trim | Op::WriteZeroes => self.execute_long(command, keep_going),
            Op::Read => self.read(command.offset_bytes(), data),
            Op::Write => self.write(&[write_of(command, data)]),
            Op::Flush => self.flush(),
            Op::Append | Op::Zone(_) => Err(Failure::Unsupported),
            Op::Cache => Ok(()),
        }
    }

    fn write(&self, writes: &[Write<'_>]) -> Result<(), Failure> {
        let must_flush = self.write_unless_full(|image| image.take_writes(writes))?;
        if must_flush { self.flush() } else { Ok(()) }
    }

    pub(super) fn execute_writes(
        &self,
        writes: &mut [(Command, &mut [u8])],
        results: &mut Vec<Result<(), Failure>>,
    ) {
        self.activity.note_short_command();
        let result = match &*writes {
            // What a zone refuses, it refuses alone.
            several if several.len() > 1 && self.zones.is_some() => {
                let each = several.iter().map(|(command, data)| self.write(&[write_of(command, data)]));
                return results.extend(each);
            }
            [(command, data)] => self.write(&[write_of(command, data)]),
            several => {
                let batch: Vec<Write<'_>> =
                    several.iter().map(|(command, data)| write_of(command, data)).collect();
                self.write(&batch)
            }
        };
        results.extend(std::iter::repeat_n(result, writes.len()));
    }

    /// Executes commands in order, adjacent writes together.
    pub(super) fn execute_in_order(&self, jobs: Vec<Job>) {
        let mut results = Vec::new();
        let mut jobs = jobs.into_iter().peekable();
        while let Some(job) = jobs.next() {
            if job.command.op != Op::Write {
                self.execute_job(job);
                continue;
            }
            let mut run = vec![job];
            while let Some(job) = jobs.next_if(|job| job.command.op == Op::Write) {
                run.push(job);
            }
            let mut writes: Vec<_> =
                run.iter_mut().map(|job| (job.command, job.data.as_mut_slice())).collect();
            results.clear();
            self.execute_writes(&mut writes, &mut results);
            run.into_iter().zip(&results).for_each(|(job, &result)| job.finish(result));
        }
    }

    /// The first byte of an extent that cannot be read: overwritten, or with a checksum mismatch.
    pub(super) fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.overwritten_at(offset, len).or_else(|| self.mismatch_at(offset, len))
    }

    /// The first byte with a checksum mismatch. The extent is read again, because failed reads are rare.
    fn mismatch_at(&self, offset: u64, len: u64) -> Option<u64> {
        let reader = self.reads.reader.as_ref().filter(|_| self.reads.checksums)?;
        let _guard = self.read_lock.read().unwrap_or_else(PoisonError::into_inner);
        let route = self.with(|image| image.route(offset, len)).ok()?;
        reader.read(&route, &mut vec![0; len as usize]).err().as_ref().and_then(first_mismatch)
    }

    fn overwritten_at(&self, offset: u64, len: u64) -> Option<u64> {
        let mut refused = None;
        // If this look-up fails, the read fails without an offset.
        let _ = self.with(|image| {
            let disk = image.overwriting().filter(|disk| disk.mode().fail);
            refused = losses(disk, offset, len).first().map(|loss| Sectors(loss.lba.start.get()).bytes());
            Ok(())
        });
        refused
    }

    /// Acts on a zone, or on all.
    fn act_on_zones(&self, action: ZoneAction, command: &Command) -> Result<(), Failure> {
        self.activity.note_short_command();
        let (offset, len) = (command.offset_bytes(), command.len_bytes());
        let must_flush = self.change(|image| image.take_zone_action(action, offset, len))?;
        if must_flush { self.flush() } else { Ok(()) }
    }

    pub(super) fn execute_job(&self, job: Job) {
        if let Op::Zone(action) = job.command.op {
            let acted = self.act_on_zones(action, &job.command);
            return job.finish(acted);
        }
        job.execute_with(
            |command, data, keep_going| self.execute(command, data, keep_going),
            |offset, len| self.refused_at(offset, len),
        );
    }

    /// The last error, as text.
    pub(super) fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// Calls `visit` with the file that holds an extent at a fixed location, and the offset in it, while
    /// the image does not change; returns whether there is one.
    pub(super) fn file_at(&self, offset: u64, len: u64, visit: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        let Some(reader) = self.reads.reader.as_ref().filter(|_| self.reads.lends) else {
            return false;
        };
        self.activity.note_short_command();
        let _guard = self.read_lock.read().unwrap_or_else(PoisonError::into_inner);
        // A failure is ignored here: the regular read that follows reports it.
        let route = self.with(|image| image.route(offset, len));
        match route.ok().as_ref().and_then(|route| reader.file_of(route)) {
            Some((file, at)) => {
                visit(file, at);
                true
            }
            None => false,
        }
    }

    /// Waits until no command has arrived for `idle_after`, then runs the idle work of the layer until one arrives,
    /// one unit at a time, so that a command waits for one unit at most; ends at shutdown.
    pub(super) fn run_idle_work(&self, idle_after: Duration) {
        loop {
            let idle = self.activity.idle_time();
            let unit = if idle >= idle_after { self.change(Image::idle) } else { Ok(Idle::Nothing) };
            let pause = match unit {
                Ok(Idle::Worked) => Duration::ZERO,
                // With nothing to do, check again after the idle time.
                Ok(Idle::Nothing) => idle_after.saturating_sub(idle).max(idle_after / 4),
                Err(_) => IDLE_RETRY_DELAY,
            };
            self.idle_units.fetch_add(u64::from(unit == Ok(Idle::Worked)), Ordering::Relaxed);
            if self.shutdown.wait(pause) {
                return;
            }
        }
    }

    /// Closes the image, so that the next start does not replay the log.
    pub(super) fn close(&self) -> Result<(), String> {
        let _guard = self.read_lock.write().unwrap_or_else(PoisonError::into_inner);
        let image =
            self.image.lock().map_err(|_| "the image has failed; restart the server".to_owned())?.take();
        image.map_or(Ok(()), |image| image.close().map_err(|error| error.to_string()))
    }
}
