//! An image as a backend, as fast as it goes (`--timing none`, and `native`, where the medium sets the time).
//!
//! Reads go on beside each other: where one goes is found out under the lock of the image, its bytes are read without
//! it. What changes the image waits until no read is under way, and reads wait until it is done. Where a disk underneath
//! sets the time, the commands of one client are done beside each other too ([`ServedImage::beside`]): reads by as many
//! threads as ask, writes by one thread in the order in which they came, those that wait together, trims, zeroes and
//! flushes by some. Commands that conflict keep their order (`order.rs`).
//!
//! A command that may take long (trims and zeroes of many MiB) is done in pieces of about [`PIECE_TIME`]; between two
//! of them others have their turn, and it ends early when its client is gone or the server ends. Such commands take turns
//! with each other, one piece each, and rest while short ones come. The sync of a flush holds up nobody but those who
//! wait for a flush.
//!
//! Left alone for as long as the layer's own patience, it does the layer's idle work, one unit at a time, so that
//! a command waits for at most one.
//!
//! Where the file system under the image is full, writes fail and reads go on. After a write that found no space those
//! that follow at once are refused without a try, and idle work waits longer.
//!
//! Invariants: what fails is told to the client by the error of the protocol, and in `last_error` of the status
//! in words. `still` is taken before `image`; who holds `still` to read sees an image that does not change.

use std::os::fd::BorrowedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skylight_disk::Sectors;
use skylight_image::{Image, ImageError, Place, Reader, Status, Write};
use skylight_layer::Idle;

use crate::backend::{
    Backend, Context, Errno, Extent, HOLE_AND_ZERO, IN_CACHE, Job, Op, Request, Shape, push_extent,
};
use crate::crew::Crew;
use crate::order::{Lane, Order};
use crate::shingled::{Shingles, push_overwritten};
use crate::turns::Turns;
use crate::wrong::{WrongSectors, sums_json, wrong_byte};

/// After a write that found no space, which has cost the time to take the layer up anew, writes are refused without a try
/// for so many times that: it takes at most this part of the time from reads.
const REFUSED_SHARE: u32 = 8;
/// The longest that they are.
const REFUSED_MOST: Duration = Duration::from_secs(1);
/// Idle work that found no space is tried again so much later: space comes when a person makes it.
const IDLE_REFUSED: Duration = Duration::from_secs(5);
/// What is looked at in one go for block status, bytes: a millisecond where every block lies elsewhere.
const STATUS_STEP: u64 = 1 << 20;
/// Trims and zeroes from this length on are done in pieces, bytes.
const LONG_LEAST: u64 = 256 << 10;
/// The first piece of them, and the smallest and largest ones, bytes.
const PIECES: [u64; 3] = [256 << 10, 64 << 10, 1 << 30];
/// The largest piece where zeroes are written, bytes.
const ZEROES: u64 = 1 << 20;
/// How long a piece should take: about what a short command does, which may have to wait for it.
const PIECE_TIME: Duration = Duration::from_micros(200);
/// Short commands that came so lately have others behind them.
const LATELY: Duration = Duration::from_millis(20);
/// How long a long command rests between two pieces while short ones come: as a multiple of the piece, and at most.
const REST: (u32, Duration) = (2, Duration::from_millis(10));
/// Threads that read at a time: as many commands as a disk with a queue of its own takes.
const READERS: usize = 32;
/// Threads for commands that take long at a time: they take turns, and each flush has one sync to wait for.
const LONG_COMMANDS: usize = 8;
/// How long the last lines may take at the end.
const LINES_TIME: Duration = Duration::from_millis(500);
/// How long a drive that does nothing when left alone is left alone before its checksums are looked after: longer than
/// file systems wait between two flushes of what they wrote.
const SUMS_PATIENCE: Duration = Duration::from_secs(6);
/// Changes that are taken together.
const CHANGES: usize = 256;

/// The error of the protocol for what went wrong with an image.
pub(crate) fn errno_of(error: &ImageError) -> Errno {
    match error {
        ImageError::Io { source, .. } => Errno::from(source),
        ImageError::OutOfRange { .. } => Errno::Invalid,
        _ => Errno::Io,
    }
}

/// The status of an image as JSON.
pub(crate) fn status_json(status: &Status) -> Value {
    json!({
        "cache_live_bytes": status.cache.live_sectors * skylight_disk::SECTOR_BYTES,
        "cache_map_entries": status.cache.map_entries,
        "host_bytes": status.counters.host_bytes,
        "media_bytes": status.counters.media_bytes,
        "syncs": status.counters.syncs,
        "write_amplification": status.write_amplification(),
        "generation": status.generation,
        "checksums": sums_json(status.sums.as_ref()),
    })
}

/// Runs of blocks from where stretches of a drive lie.
pub(crate) fn push_places(places: &[Place], context: Context, extents: &mut Vec<Extent>) {
    for place in places {
        let flags = match context {
            Context::Allocation if !place.allocated => HOLE_AND_ZERO,
            Context::Place if place.cached => IN_CACHE,
            _ => 0,
        };
        push_extent(extents, place.len, flags);
    }
}

/// What there is to say of an image of a raw shingled disk.
fn image_shingles(image: &mut Image, shingles: &Shingles) -> Option<Value> {
    let mode = image.raw_shingled()?.mode();
    Some(shingles.status(mode, image.shingled_counters()?))
}

struct Inner {
    shape: Shape,
    /// What the status calls the timing.
    timing: &'static str,
    /// Held to read by reads, to write by what changes the image.
    still: RwLock<()>,
    /// None once it is closed.
    image: Mutex<Option<Image>>,
    /// What reads without the image, where that can be.
    reader: Option<Reader>,
    /// Every sector has one place for good, and nothing to compare it with, so that its bytes may be lent.
    in_place: bool,
    /// Its data has checksums.
    summed: bool,
    began: Instant,
    /// When the last short command came, and the last piece of a long one, us since it began.
    asked_at: AtomicU64,
    long_at: AtomicU64,
    /// Of long commands.
    turns: Turns,
    /// Held by whoever flushes: those who come meanwhile find all durable, or little to do.
    flushing: Mutex<()>,
    idle_units: AtomicU64,
    /// Until when writes are refused without a try, us since it began; 0 if the last one was not.
    refused_until: AtomicU64,
    last_error: Mutex<Option<String>>,
    /// For a raw shingled disk.
    shingles: Option<Arc<Shingles>>,
    wrong: WrongSectors,
    over: Mutex<bool>,
    ends: Condvar,
}

/// See the module page.
pub struct ServedImage {
    inner: Arc<Inner>,
    idles: Option<JoinHandle<()>>,
    crews: Option<(Arc<Crews>, Arc<Order>)>,
}

/// Who does commands beside each other.
struct Crews {
    reads: Crew,
    changes: Crew,
    /// What others should not wait for: trims, zeroes and flushes.
    long: Crew,
}

impl Crews {
    /// Does what was taken, and ends the threads: here, for the last command may be what holds the crews last.
    fn end(&self) {
        self.reads.end();
        self.changes.end();
        self.long.end();
    }
}

fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Inner {
    /// Looks at the image, or does what one alone may do at a time, but changes nothing.
    fn with<T>(&self, work: impl FnOnce(&mut Image) -> Result<T, ImageError>) -> Result<T, Errno> {
        // A panic in the middle of a change leaves an image that nobody should use: its lock stays poisoned.
        let mut image = self.image.lock().map_err(|_| Errno::Io)?;
        let image = image.as_mut().ok_or(Errno::Shutdown)?;
        work(image).map_err(|error| self.failed(&error))
    }

    /// Changes the image, while nobody reads.
    fn change<T>(&self, work: impl FnOnce(&mut Image) -> Result<T, ImageError>) -> Result<T, Errno> {
        let _still = self.still.write().unwrap_or_else(PoisonError::into_inner);
        self.with(work)
    }

    /// Writes, unless the last write found no space just now.
    fn refusable<T>(&self, work: impl FnOnce(&mut Image) -> Result<T, ImageError>) -> Result<T, Errno> {
        let until = self.refused_until.load(Ordering::Relaxed);
        if until > 0 && self.since_us() < until {
            return Err(Errno::NoSpace);
        }
        let mut pause = Duration::ZERO;
        let written = self.change(|image| {
            work(image).inspect_err(|_| pause = (image.refused_in() * REFUSED_SHARE).min(REFUSED_MOST))
        });
        let refused = matches!(written, Err(Errno::NoSpace));
        if refused || until > 0 {
            let until = if refused { self.since_us() + pause.as_micros() as u64 } else { 0 };
            self.refused_until.store(until, Ordering::Relaxed);
        }
        written
    }

    fn since_us(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    fn failed(&self, error: &ImageError) -> Errno {
        *held(&self.last_error) = Some(error.to_string());
        self.wrong.note(error);
        errno_of(error)
    }

    fn read(&self, offset: u64, data: &mut [u8]) -> Result<(), Errno> {
        let Some(reader) = &self.reader else {
            // A raw shingled disk counts its reads, and says which sectors it refused.
            return self.change(|image| {
                image.read(offset, data).inspect_err(|error| {
                    if let (ImageError::Unreadable { .. }, Some(shingles)) = (error, &self.shingles) {
                        shingles.tell(&image.losses(offset, data.len() as u64).unwrap_or_default());
                    }
                })
            });
        };
        let _still = self.still.read().unwrap_or_else(PoisonError::into_inner);
        let route = self.with(|image| image.route(offset, data.len() as u64))?;
        reader.read(&route, data).map_err(|error| self.failed(&error))
    }

    /// Makes durable all that was answered; others go on meanwhile.
    fn flush(&self) -> Result<(), Errno> {
        let _flushing = held(&self.flushing);
        let mut pending = self.with(Image::begin_flush)?;
        while let Some(sync) = pending {
            let synced = sync.sync();
            pending = self.with(|image| image.finish_sync(&sync, synced))?;
        }
        Ok(())
    }

    fn execute(&self, request: &Request, data: &mut [u8], goes_on: &dyn Fn() -> bool) -> Result<(), Errno> {
        let Request { op, offset, fua, .. } = *request;
        if op == Op::WriteZeroes && request.no_hole && request.fast {
            return Err(Errno::NotSupported);
        }
        match op {
            Op::Trim | Op::WriteZeroes => return self.execute_long(request, goes_on),
            _ => self.asked(),
        }
        match op {
            Op::Read => self.read(offset, data),
            Op::Write => self.write(&[Write { offset, data, fua }]),
            Op::Flush => self.flush(),
            Op::Trim | Op::WriteZeroes | Op::Cache => Ok(()),
        }
    }

    fn write(&self, writes: &[Write<'_>]) -> Result<(), Errno> {
        let due = self.refusable(|image| image.take_writes(writes))?;
        if due { self.flush() } else { Ok(()) }
    }

    /// A trim or zeroes, in pieces if it is long.
    fn execute_long(&self, request: &Request, goes_on: &dyn Fn() -> bool) -> Result<(), Errno> {
        let Request { offset, len, no_hole, .. } = *request;
        let (mut at, end) = (offset, offset + len);
        let [first, least, largest] = PIECES;
        let (mut piece, most) = (first, if no_hole { ZEROES } else { largest });
        let zeroes = if no_hole { vec![0; len.min(most) as usize] } else { Vec::new() };
        let mut due = request.fua;
        while at < end {
            let here = if len < LONG_LEAST { len } else { end.min((at / piece + 1) * piece) - at };
            let turn = (len >= LONG_LEAST).then(|| self.turns.take());
            if !goes_on() {
                return Err(Errno::Shutdown);
            }
            self.came(if turn.is_some() { &self.long_at } else { &self.asked_at });
            let began = Instant::now();
            due |= self.refusable(|image| match request.op {
                Op::Trim => image.trim(at, here).map(|()| false),
                _ if no_hole => {
                    let data = &zeroes[..here as usize];
                    image.take_writes(&[Write { offset: at, data, fua: false }])
                }
                _ => image.take_zeroes(at, here),
            })?;
            at += here;
            if turn.is_some() {
                let took = began.elapsed();
                piece = match took {
                    short if short < PIECE_TIME / 2 => (piece * 2).min(most),
                    long if long > PIECE_TIME * 2 => (piece / 2).max(least),
                    _ => piece,
                };
                self.rest(took);
            }
        }
        if due { self.flush() } else { Ok(()) }
    }

    /// Lets short commands go first, if any came lately.
    fn rest(&self, took: Duration) {
        let asked = Duration::from_micros(self.asked_at.load(Ordering::Relaxed));
        if asked > Duration::ZERO && self.began.elapsed().saturating_sub(asked) < LATELY {
            std::thread::sleep((took * REST.0).min(REST.1));
        }
    }

    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        self.asked();
        let result = match &*writes {
            [(request, data)] => self.write(&[Write { offset: request.offset, data, fua: request.fua }]),
            several => {
                let waiting: Vec<Write<'_>> = several
                    .iter()
                    .map(|(request, data)| Write { offset: request.offset, data, fua: request.fua })
                    .collect();
                self.write(&waiting)
            }
        };
        results.extend(std::iter::repeat_n(result, writes.len()));
    }

    /// Does commands in their order, writes that follow each other together.
    fn do_in_order(&self, jobs: Vec<Job>) {
        let mut results = Vec::new();
        let mut rest = jobs.into_iter().peekable();
        while let Some(job) = rest.next() {
            if job.request.op != Op::Write {
                self.do_one(job);
                continue;
            }
            let mut run = vec![job];
            while let Some(job) = rest.next_if(|job| job.request.op == Op::Write) {
                run.push(job);
            }
            let mut writes: Vec<_> =
                run.iter_mut().map(|job| (job.request, job.data.as_mut_slice())).collect();
            results.clear();
            self.execute_writes(&mut writes, &mut results);
            run.into_iter().zip(&results).for_each(|(job, &result)| job.finish(result));
        }
    }

    /// The first byte of an extent that a read refuses: of a raw shingled disk, or one with a wrong checksum.
    fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.overwritten_at(offset, len).or_else(|| self.wrong_at(offset, len))
    }

    /// Where an extent is wrong: it is read again, for few reads fail.
    fn wrong_at(&self, offset: u64, len: u64) -> Option<u64> {
        let reader = self.reader.as_ref().filter(|_| self.summed)?;
        let _still = self.still.read().unwrap_or_else(PoisonError::into_inner);
        let route = self.with(|image| image.route(offset, len)).ok()?;
        reader.read(&route, &mut vec![0; len as usize]).err().as_ref().and_then(wrong_byte)
    }

    fn overwritten_at(&self, offset: u64, len: u64) -> Option<u64> {
        let mut refused = None;
        // A failure of this look-up leaves the read an error without a place.
        let _ = self.with(|image| {
            if image.raw_shingled().is_some_and(|disk| disk.mode().fail) {
                let losses = image.losses(offset, len)?;
                refused = losses.first().map(|loss| Sectors(loss.lba.start.get()).bytes());
            }
            Ok(())
        });
        refused
    }

    fn do_one(&self, job: Job) {
        job.done_by(
            |request, data, goes_on| self.execute(request, data, goes_on),
            |offset, len| self.refused_at(offset, len),
        );
    }

    fn asked(&self) {
        self.came(&self.asked_at);
    }

    fn came(&self, at: &AtomicU64) {
        at.store(self.since_us(), Ordering::Relaxed);
    }

    /// Until the end: waits until nothing was asked for `patience`, then works until something is.
    fn idle(&self, patience: Duration) {
        loop {
            let asked = self.asked_at.load(Ordering::Relaxed).max(self.long_at.load(Ordering::Relaxed));
            let asked = Duration::from_micros(asked);
            let quiet = self.began.elapsed().saturating_sub(asked);
            let unit = if quiet >= patience { self.change(Image::idle) } else { Ok(Idle::Nothing) };
            let pause = match unit {
                Ok(Idle::Worked) => Duration::ZERO,
                // With nothing to do it looks again after as long as it was patient.
                Ok(Idle::Nothing) => patience.saturating_sub(quiet).max(patience / 4),
                Err(_) => IDLE_REFUSED,
            };
            self.idle_units.fetch_add(u64::from(unit == Ok(Idle::Worked)), Ordering::Relaxed);
            let waited = self.ends.wait_timeout_while(held(&self.over), pause, |over| !*over);
            if *waited.unwrap_or_else(PoisonError::into_inner).0 {
                return;
            }
        }
    }
}

impl ServedImage {
    /// Serves an image under this shape; its size is the image's. `timing` is what the status calls it.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(mut image: Image, shape: Shape, timing: &'static str) -> std::io::Result<Self> {
        let patience = image.layer().idle_after().map(|after| Duration::from_nanos(after.get()));
        let patience = patience.or(image.has_checksums().then_some(SUMS_PATIENCE));
        let shingles = image.raw_shingled().map(|disk| Arc::new(Shingles::of(disk)));
        let shingled = shingles.is_some();
        let shape = Shape { size: image.capacity_bytes(), places: true, shingled, ..shape };
        let inner = Arc::new(Inner {
            shape,
            timing,
            still: RwLock::new(()),
            reader: image.reader(),
            in_place: image.is_in_place() && !image.has_checksums(),
            summed: image.has_checksums(),
            image: Mutex::new(Some(image)),
            began: Instant::now(),
            asked_at: AtomicU64::new(0),
            long_at: AtomicU64::new(0),
            turns: Turns::default(),
            flushing: Mutex::new(()),
            idle_units: AtomicU64::new(0),
            refused_until: AtomicU64::new(0),
            last_error: Mutex::new(None),
            shingles,
            wrong: WrongSectors::default(),
            over: Mutex::new(false),
            ends: Condvar::new(),
        });
        let idles = match patience {
            None => None,
            Some(patience) => {
                let inner = inner.clone();
                let thread = std::thread::Builder::new().name("image-idle".to_owned());
                Some(thread.spawn(move || inner.idle(patience))?)
            }
        };
        Ok(Self { inner, idles, crews: None })
    }

    /// Does the commands of each client beside each other, as a disk underneath likes it best: reads by up to
    /// [`READERS`] threads.
    pub fn beside(self) -> Self {
        self.beside_arranged(|_| {})
    }

    /// The same with changes that are taken together put into another order: for tests of the tests.
    #[doc(hidden)]
    pub fn beside_arranged(mut self, arrange: fn(&mut Vec<Job>)) -> Self {
        let (reads, changes, long) = (self.inner.clone(), self.inner.clone(), self.inner.clone());
        let crews = Arc::new(Crews {
            reads: Crew::new("image-read", READERS, 1, move |jobs| {
                jobs.into_iter().for_each(|job| reads.do_one(job));
            }),
            changes: Crew::new("image-change", 1, CHANGES, move |mut jobs| {
                arrange(&mut jobs);
                changes.do_in_order(jobs);
            }),
            long: Crew::new("image-long", LONG_COMMANDS, 1, move |jobs| {
                jobs.into_iter().for_each(|job| long.do_one(job));
            }),
        });
        let lanes = crews.clone();
        let order = Order::new(move |lane, job| match lane {
            Lane::Reads => lanes.reads.hand(job),
            Lane::Writes => lanes.changes.hand(job),
            Lane::Long => lanes.long.hand(job),
        });
        self.crews = Some((crews, order));
        self
    }

    /// What is told of a raw shingled disk.
    pub fn shingles(&self) -> Option<Arc<Shingles>> {
        self.inner.shingles.clone()
    }

    /// What is told of data that is not what was written.
    pub fn wrong_sectors(&self) -> &WrongSectors {
        &self.inner.wrong
    }

    fn end(&mut self) {
        *held(&self.inner.over) = true;
        self.inner.ends.notify_all();
        if let Some((crews, _)) = &self.crews {
            crews.end();
        }
        if let Some(thread) = self.idles.take() {
            // If it panicked, the image says so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for ServedImage {
    fn drop(&mut self) {
        self.end();
    }
}

impl Backend for ServedImage {
    fn shape(&self) -> &Shape {
        &self.inner.shape
    }

    fn execute(&self, request: &Request, data: &mut [u8]) -> Result<(), Errno> {
        self.inner.execute(request, data, &|| true)
    }

    fn execute_while(
        &self,
        request: &Request,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.inner.execute(request, data, goes_on)
    }

    fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.inner.refused_at(offset, len)
    }

    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        self.inner.execute_writes(writes, results);
    }

    fn lend(&self, offset: u64, len: u64, take: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        let Some(reader) = self.inner.reader.as_ref().filter(|_| self.inner.in_place) else {
            return false;
        };
        self.inner.asked();
        let _still = self.inner.still.read().unwrap_or_else(PoisonError::into_inner);
        // What fails here is tried again by a read, which says why.
        let route = self.inner.with(|image| image.route(offset, len));
        match route.ok().as_ref().and_then(|route| reader.file_of(route)) {
            Some((file, at)) => {
                take(file, at);
                true
            }
            None => false,
        }
    }

    fn waits(&self) -> bool {
        self.crews.is_some()
    }

    fn submit(&self, job: Job) {
        match &self.crews {
            None => self.inner.do_one(job),
            Some((_, order)) => order.submit(job),
        }
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        context: Context,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset + len);
        while at < end && extents.len() <= most {
            let here = (end - at).min(STATUS_STEP);
            if context == Context::Overwritten {
                push_overwritten(&self.inner.with(|image| image.overwritten(at, here))?, extents);
                at += here;
                continue;
            }
            let places = self.inner.with(|image| image.locate(at, here))?;
            push_places(&places, context, extents);
            at += here;
        }
        Ok(())
    }

    fn status(&self) -> Value {
        let status = self.inner.with(|image| Ok(status_json(&image.status()))).unwrap_or(Value::Null);
        let shingled =
            self.inner.shingles.as_ref().and_then(|shingles| {
                self.inner.with(|image| Ok(image_shingles(image, shingles))).ok().flatten()
            });
        json!({
            "timing": self.inner.timing,
            "image": status,
            "shingled": shingled,
            "idle_units": self.inner.idle_units.load(Ordering::Relaxed),
            "last_error": *held(&self.inner.last_error),
        })
    }

    fn control(&self, key: &str, value: &str) -> Result<String, String> {
        let set = |image: &mut Image| {
            Ok(match (&self.inner.shingles, image.raw_shingled()) {
                (Some(shingles), Some(disk)) => shingles.control(disk, key, value),
                _ => Err(format!("{key}: {} has nothing of that name to set", self.inner.shape.name)),
            })
        };
        self.inner.change(set).map_err(|errno| format!("{key}: cannot be set: {errno}"))?
    }

    /// The next start reads no log.
    fn close(&self) -> Result<(), String> {
        *held(&self.inner.over) = true;
        self.inner.ends.notify_all();
        if let Some((crews, _)) = &self.crews {
            crews.end();
        }
        if let Some(shingles) = &self.inner.shingles {
            shingles.drain(LINES_TIME);
        }
        let _still = self.inner.still.write().unwrap_or_else(PoisonError::into_inner);
        let image = self.inner.image.lock().map_err(|_| "the image failed before".to_owned())?.take();
        image.map_or(Ok(()), |image| image.close().map_err(|error| error.to_string()))
    }
}
