//! An image behind a drive in model time (`--timing model`): the right bytes at the right moment.
//!
//! Virtual time runs with the wall clock. Commands are fed to the drive (`drive/online.rs`) as they come, and
//! answered when the model says so; each plan that the drive executes moves its bytes at that moment, so one
//! layer gives the time and the bytes. Writes in the drive's volatile cache are held in memory here, and are lost
//! with the process, as they would be with the power.
//!
//! Invariants: an answer leaves ahead of its time by no more than its [`Way`] to a client takes, and nothing that
//! comes meanwhile is taken as if it had come before that time; how late answers leave goes into a histogram; an
//! answer that promises durability is given when it is so; what fails, fails the commands whose bytes it was about.

use std::num::NonZeroU64;
use std::sync::mpsc::channel as handover;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skylight_disk::{Lba, LbaExtent, Nanos, SECTOR_BYTES, Sectors, Time};
use skylight_drive::online::{Answered, Mover, Origin};
use skylight_drive::{Drive, Online};
use skylight_image::{HostWrite, ImageError, Interpreter, Place};
use skylight_layer::{Command, CommandId, HostOp, Layer, Plan, Step};

use crate::backend::{Answer, Backend, Context, Errno, Extent, Job, Lateness, Op, Request, Shape};
use crate::served::{errno_of, push_places};
use crate::shingled::{Shingles, push_overwritten};
use crate::way::Way;
use crate::wrong::{WrongSectors, wrong_byte};

/// Zeroes that the drive is asked to write in one command.
const ZEROES: u64 = 1 << 20;

fn extent_of(request: &Request) -> LbaExtent {
    LbaExtent::new(Lba(request.offset / SECTOR_BYTES), Sectors(request.len / SECTOR_BYTES))
}

/// What is left of an extent without another one.
fn without(part: LbaExtent, other: LbaExtent) -> impl Iterator<Item = LbaExtent> {
    let before = LbaExtent::new(part.start, other.start.clamp(part.start, part.end()) - part.start);
    let from = other.end().clamp(part.start, part.end()).max(before.end());
    let behind = LbaExtent::new(from, part.end() - from);
    [before, behind].into_iter().filter(|part| !part.is_empty())
}

/// By how much an answer leaves ahead of its time: its client has slept since it asked, or was told of another.
fn ahead(way: &Way, bytes: &Bytes, told: Time, answer: Answered) -> Nanos {
    let asked = bytes.flying(CommandId(answer.id)).map_or(answer.at, |flying| flying.came);
    let asleep = Nanos(answer.at.get().saturating_sub(asked.max(told).get()));
    let ahead = way.ahead(Duration::from_nanos(asleep.get()));
    Nanos(ahead.as_nanos() as u64).min(asleep)
}

/// Reads the media. A sector of them that is wrong is no error where the volatile cache holds a newer one.
fn read_media(
    interpreter: &Interpreter,
    cached: &[Cached],
    extent: LbaExtent,
    buffer: &mut [u8],
    layer: &dyn Layer,
) -> Result<(), ImageError> {
    let whole = interpreter.read(extent, buffer, layer);
    let Err(ImageError::Checksum { .. }) = whole else {
        return whole;
    };
    let mut rest = vec![extent];
    for write in cached {
        rest = rest.into_iter().flat_map(|part| without(part, write.extent)).collect();
    }
    rest.into_iter().try_for_each(|part| {
        let from = (part.start - extent.start).bytes() as usize;
        interpreter.read(part, &mut buffer[from..from + part.len.bytes() as usize], layer)
    })
}

/// A command between its arrival and its answer.
struct Flying {
    job: Job,
    came: Time,
    result: Result<(), Errno>,
    /// Of a raw shingled disk: what its layer's plan has read, and which parts of it are errors.
    planned: Option<Vec<LbaExtent>>,
}

/// A write that the volatile cache holds.
struct Cached {
    id: CommandId,
    extent: LbaExtent,
    data: Vec<u8>,
}

/// The bytes: what is on the media, in the volatile cache, and on its way.
struct Bytes {
    interpreter: Interpreter,
    flying: Vec<Option<Flying>>,
    free: Vec<u32>,
    /// In the order in which they came.
    cached: Vec<Cached>,
    /// Whether writes that are not answered from the volatile cache are durable when answered.
    write_cache: bool,
    last_error: Option<String>,
    /// For a raw shingled disk.
    shingles: Option<Arc<Shingles>>,
    wrong: Arc<WrongSectors>,
}

impl Bytes {
    fn start(&mut self, job: Job, came: Time) -> u32 {
        let flying = Some(Flying { job, came, result: Ok(()), planned: None });
        match self.free.pop() {
            Some(id) => {
                self.flying[id as usize] = flying;
                id
            }
            None => {
                self.flying.push(flying);
                self.flying.len() as u32 - 1
            }
        }
    }

    fn flying(&self, id: CommandId) -> Option<&Flying> {
        self.flying.get(id.0 as usize)?.as_ref()
    }

    fn flying_mut(&mut self, id: CommandId) -> Option<&mut Flying> {
        self.flying.get_mut(id.0 as usize)?.as_mut()
    }

    fn note(&mut self, error: &ImageError) -> Errno {
        self.last_error = Some(error.to_string());
        self.wrong.note(error);
        errno_of(error)
    }

    fn fail(&mut self, ids: &[CommandId], error: &ImageError) {
        let errno = self.note(error);
        for &id in ids {
            if let Some(flying) = self.flying_mut(id) {
                flying.result = Err(errno);
            }
        }
    }

    /// Moves the bytes of a plan of the host's commands.
    fn host_plan(&mut self, plan: &Plan, layer: &dyn Layer, ids: &[CommandId]) -> Result<(), ImageError> {
        let (mut writes, mut trim, mut durable) = (Vec::new(), None, false);
        let Self { interpreter, flying, write_cache, .. } = self;
        for &id in ids {
            let Some(Some(Flying { job, .. })) = flying.get(id.0 as usize) else {
                continue;
            };
            let extent = extent_of(&job.request);
            match job.request.op {
                Op::Write => {
                    writes.push(HostWrite { id, extent, data: &job.data });
                    durable |= job.request.fua || !*write_cache;
                }
                Op::Trim => {
                    trim = Some(extent);
                    durable |= job.request.fua;
                }
                _ => {}
            }
        }
        match trim {
            Some(extent) => interpreter.apply_trim(plan, layer, extent)?,
            None => interpreter.apply(plan, layer, &writes)?,
        }
        if durable { interpreter.flush() } else { Ok(()) }
    }

    /// Moves the bytes of a plan of the volatile cache's writes.
    fn cache_plan(&mut self, plan: &Plan, layer: &dyn Layer, ids: &[CommandId]) -> Result<(), ImageError> {
        let writes: Vec<HostWrite<'_>> = self
            .cached
            .iter()
            .filter(|cached| ids.contains(&cached.id))
            .map(|cached| HostWrite { id: cached.id, extent: cached.extent, data: &cached.data })
            .collect();
        self.interpreter.apply(plan, layer, &writes)?;
        self.cached.retain(|cached| !ids.contains(&cached.id));
        Ok(())
    }

    /// What a read gets now: the media, and over it what the volatile cache holds.
    fn read(&mut self, id: CommandId, layer: &dyn Layer) {
        let Some(flying) = self.flying.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let extent = extent_of(&flying.job.request);
        let result = match flying.planned {
            Some(_) => Ok(()),
            None => read_media(&self.interpreter, &self.cached, extent, &mut flying.job.data, layer),
        };
        for cached in &self.cached {
            let (start, end) = (extent.start.max(cached.extent.start), extent.end().min(cached.extent.end()));
            if start < end {
                let len = (end - start).bytes() as usize;
                let (to, from) =
                    ((start - extent.start).bytes() as usize, (start - cached.extent.start).bytes() as usize);
                flying.job.data[to..to + len].copy_from_slice(&cached.data[from..from + len]);
            }
        }
        let refused = flying.planned.take().unwrap_or_default();
        if let Err(error) = result {
            wrong_byte(&error).into_iter().for_each(|at| flying.job.fails_at(at));
            self.fail(&[id], &error);
        }
        self.refuse(id, &refused);
    }

    /// Fails a read some parts of which are errors, unless the volatile cache has these.
    fn refuse(&mut self, id: CommandId, parts: &[LbaExtent]) {
        let mut losses = Vec::new();
        for &part in parts {
            let mut rest = vec![part];
            for cached in &self.cached {
                rest = rest.into_iter().flat_map(|part| without(part, cached.extent)).collect();
            }
            rest.into_iter().for_each(|part| losses.extend(self.interpreter.losses(part)));
        }
        if let (Some(loss), Some(shingles)) = (losses.first(), &self.shingles) {
            shingles.tell(&losses);
            let error = skylight_image::image::unreadable(loss.lba);
            self.fail(&[id], &error);
            if let Some(flying) = self.flying_mut(id) {
                flying.job.fails_at(Sectors(loss.lba.start.get()).bytes());
            }
        }
    }

    /// Reads what the plan of a read of a raw shingled disk says.
    fn planned_read(&mut self, plan: &Plan, ids: &[CommandId]) -> Result<(), ImageError> {
        for &id in ids {
            let Some(Some(Flying { job, planned, .. })) = self.flying.get_mut(id.0 as usize) else {
                continue;
            };
            if job.request.op == Op::Read {
                let extent = extent_of(&job.request);
                *planned = Some(self.interpreter.read_plan(plan, id, extent, &mut job.data)?);
            }
        }
        Ok(())
    }
}

impl Mover for Bytes {
    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &dyn Layer) {
        let completes = plan.steps().iter().filter_map(|step| match step {
            Step::Complete(id) => Some(*id),
            _ => None,
        });
        let ids: Vec<CommandId> = completes.collect();
        let moved = match origin {
            Origin::Host if self.shingles.is_some() => {
                self.planned_read(plan, &ids).and_then(|()| self.host_plan(plan, layer, &ids))
            }
            Origin::Host => self.host_plan(plan, layer, &ids),
            Origin::Cache => self.cache_plan(plan, layer, &ids),
            Origin::Idle => self.interpreter.apply(plan, layer, &[]),
        };
        match moved {
            Err(error) if origin == Origin::Host => self.fail(&ids, &error),
            // These were answered long ago: the next flush tells, for the image has stopped.
            Err(error) => drop(self.note(&error)),
            Ok(()) => {}
        }
    }

    fn cached(&mut self, host: CommandId, cache: CommandId) {
        if let Some(flying) = self.flying_mut(host) {
            let data = std::mem::take(&mut flying.job.data);
            let extent = extent_of(&flying.job.request);
            self.cached.push(Cached { id: cache, extent, data });
        }
    }

    fn decided(&mut self, id: CommandId, layer: &dyn Layer) {
        match self.flying(id).map(|flying| flying.job.request.op) {
            Some(Op::Read) => self.read(id, layer),
            Some(Op::Flush) => {
                if let Err(error) = self.interpreter.flush() {
                    self.fail(&[id], &error);
                } else if let Err(error) = self.interpreter.rest() {
                    // Behind a flush is a good time for what checksums have to do; the flush is none the worse.
                    self.note(&error);
                }
            }
            _ => {}
        }
    }
}

/// What came and was not fed yet.
#[derive(Default)]
struct Inbox {
    jobs: Vec<(Job, Instant)>,
    over: bool,
}

struct State {
    online: Online,
    bytes: Bytes,
    lateness: Lateness,
    /// The most commands that were outstanding.
    deepest: usize,
    outstanding: usize,
    /// The latest time of the answers that were told.
    told: Time,
    way: Way,
}

struct Shared {
    inbox: Mutex<Inbox>,
    came: Condvar,
    state: Mutex<State>,
    /// When virtual time was `base`.
    origin: Instant,
    base: Time,
}

/// See the module page.
pub struct TimedDrive {
    shape: Shape,
    shared: Arc<Shared>,
    pacer: Mutex<Option<JoinHandle<()>>>,
    /// For a raw shingled disk.
    shingles: Option<Arc<Shingles>>,
    wrong: Arc<WrongSectors>,
}

/// How much longer than asked for this machine lets a thread sleep: measured, for it is 5 us on one machine and 100
/// on the next. So long before something is due, the clock is watched and no more slept.
struct Sleep {
    overshoot: Duration,
}

/// What nothing is known of yet, and what is watched at most: a sleep on a machine that is overloaded ends when it ends.
const OVERSHOOT: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(200)];

impl Default for Sleep {
    fn default() -> Self {
        Self { overshoot: OVERSHOOT[0] }
    }
}

impl Sleep {
    /// The most of late, that fades: the next sleep should not be too long either.
    fn learn(&mut self, over: Duration) {
        let faded = self.overshoot - self.overshoot / 128;
        self.overshoot = faded.max(over + over / 4).min(OVERSHOOT[1]);
    }
}

impl Shared {
    // A panic while bytes move leaves a state that nobody should use; the pacer is gone then, and what it held
    // was answered as it was dropped.
    fn state(&self) -> Result<MutexGuard<'_, State>, Errno> {
        self.state.lock().map_err(|_| Errno::Io)
    }

    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn virtual_at(&self, instant: Instant) -> Time {
        let passed = instant.saturating_duration_since(self.origin).as_nanos();
        self.base + Nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn wall_at(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos((time - self.base).get())
    }

    /// Waits until a command comes or something is due; the commands that came, none at the end.
    fn wait(&self, due: Option<Instant>, sleep: &mut Sleep) -> Option<Vec<(Job, Instant)>> {
        let mut inbox = self.inbox();
        loop {
            if !inbox.jobs.is_empty() {
                return Some(std::mem::take(&mut inbox.jobs));
            }
            if inbox.over {
                return None;
            }
            let Some(due) = due else {
                inbox = self.came.wait(inbox).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            let left = due.saturating_duration_since(now);
            inbox = if left.is_zero() {
                return Some(Vec::new());
            } else if left <= sleep.overshoot {
                drop(inbox);
                std::hint::spin_loop();
                self.inbox()
            } else {
                let nap = left - sleep.overshoot;
                let (inbox, end) = self.came.wait_timeout(inbox, nap).unwrap_or_else(PoisonError::into_inner);
                if end.timed_out() {
                    sleep.learn(now.elapsed().saturating_sub(nap));
                }
                inbox
            };
        }
    }

    fn pace(&self) {
        // The kernel wakes a thread up to 50 us late unless asked not to; it is as well without.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (mut answers, mut sleep) = (Vec::new(), Sleep::default());
        let mut due = self.state().ok().and_then(|state| state.next());
        while let Some(jobs) = self.wait(due.map(|time| self.wall_at(time)), &mut sleep) {
            let Ok(mut state) = self.state() else {
                return;
            };
            for (job, came) in jobs {
                state.submit(job, self.virtual_at(came));
            }
            state.pass(self.virtual_at(Instant::now()), &mut answers);
            due = state.next().map(|time| time + Nanos(1));
            let done = state.collect(&mut answers, |time| self.wall_at(time));
            drop(state);
            for Flying { job, result, .. } in done {
                job.finish(result);
            }
        }
    }
}

impl State {
    /// What there is to say of a raw shingled disk.
    fn shingled(&mut self) -> Option<Value> {
        let shingles = self.bytes.shingles.as_ref()?;
        let mode = self.online.drive_mut().raw_shingled()?.mode();
        Some(shingles.status(mode, self.bytes.interpreter.shingled_counters()?))
    }

    /// When there is something to do if no command comes.
    fn next(&self) -> Option<Time> {
        self.online.next(|answer| ahead(&self.way, &self.bytes, self.told, answer))
    }

    /// Takes out the answers that leave now; if there are none, lets time pass until then.
    fn pass(&mut self, now: Time, answers: &mut Vec<Answered>) {
        let Self { online, bytes, told, way, .. } = self;
        online.settled(now, |answer| ahead(way, bytes, *told, answer), answers);
        if answers.is_empty() {
            online.advance(now, bytes, answers);
        }
    }

    fn submit(&mut self, job: Job, at: Time) {
        // Whoever was told of an answer ahead of its time asks again after that time.
        let at = at.max(self.told);
        let op = match job.request.op {
            Op::Read => HostOp::Read,
            Op::Write | Op::WriteZeroes => HostOp::Write,
            Op::Trim => HostOp::Trim,
            Op::Flush | Op::Cache => HostOp::Flush,
        };
        let (extent, through) = (extent_of(&job.request), op == HostOp::Write && job.request.fua);
        let id = CommandId(self.bytes.start(job, at));
        self.outstanding += 1;
        self.deepest = self.deepest.max(self.outstanding);
        self.online.submit(Command { id, op, extent }, through, at, &mut self.bytes);
    }

    /// Takes out what is answered, and counts how late that is.
    fn collect(&mut self, answers: &mut Vec<Answered>, wall_at: impl Fn(Time) -> Instant) -> Vec<Flying> {
        let now = Instant::now();
        let (mut done, told) = (Vec::with_capacity(answers.len()), self.told);
        for answer in answers.drain(..) {
            let ahead = ahead(&self.way, &self.bytes, told, answer);
            let due = wall_at(answer.at) - Duration::from_nanos(ahead.get());
            self.told = self.told.max(answer.at);
            if let Some(flying) = self.bytes.flying[answer.id as usize].take() {
                self.bytes.free.push(answer.id);
                self.outstanding -= 1;
                self.lateness.count(now.saturating_duration_since(due));
                flying.job.takes_ns((answer.at - flying.came).get());
                done.push(flying);
            }
        }
        done
    }
}

impl TimedDrive {
    /// Serves a drive whose layer is that of the image behind `interpreter`; time runs from here on. `shape`
    /// tells what it is called.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(mut drive: Drive, interpreter: Interpreter, shape: Shape) -> std::io::Result<Self> {
        let size = drive.capacity().bytes();
        let shingles = drive.raw_shingled().map(|disk| Arc::new(Shingles::of(disk)));
        let shape = Shape { size, places: true, shingled: shingles.is_some(), ..shape };
        let (base, write_cache, wrong) =
            (drive.now(), drive.write_cache(), Arc::new(WrongSectors::default()));
        let bytes = Bytes {
            interpreter,
            flying: Vec::new(),
            free: Vec::new(),
            cached: Vec::new(),
            write_cache,
            last_error: None,
            shingles: shingles.clone(),
            wrong: wrong.clone(),
        };
        let online = Online::new(drive);
        let state = State {
            online,
            bytes,
            lateness: Lateness::default(),
            deepest: 0,
            outstanding: 0,
            told: base,
            way: Way::measured()?,
        };
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            came: Condvar::new(),
            state: Mutex::new(state),
            origin: Instant::now(),
            base,
        });
        let paces = shared.clone();
        let pacer = std::thread::Builder::new().name("pacer".to_owned()).spawn(move || paces.pace())?;
        Ok(Self { shape, shared, pacer: Mutex::new(Some(pacer)), shingles, wrong })
    }

    /// What is told of data that is not what was written.
    pub fn wrong_sectors(&self) -> &WrongSectors {
        &self.wrong
    }

    /// What is told of a raw shingled disk.
    pub fn shingles(&self) -> Option<Arc<Shingles>> {
        self.shingles.clone()
    }

    fn end(&self) {
        self.shared.inbox().over = true;
        self.shared.came.notify_all();
        if let Some(pacer) = self.pacer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // If it panicked, the state says so itself.
            let _ = pacer.join();
        }
    }

    fn push(&self, job: Job) {
        let came = Instant::now();
        let mut inbox = self.shared.inbox();
        if inbox.over || self.shared.state.is_poisoned() {
            drop(inbox);
            return job.finish(Err(Errno::Shutdown));
        }
        inbox.jobs.push((job, came));
        self.shared.came.notify_one();
    }
}

impl Drop for TimedDrive {
    fn drop(&mut self) {
        self.end();
    }
}

/// The parts of a long write of zeroes, one after the other: a drive has no command for it.
fn zero_on(shared: &Arc<Shared>, request: Request, answer: Answer) {
    let here = request.len.min(ZEROES);
    let rest = Request { offset: request.offset + here, len: request.len - here, ..request };
    let part = Request { op: Op::Write, len: here, ..request };
    let again = shared.clone();
    let next: Answer = Box::new(move |result, _| match result {
        Ok(()) if rest.len > 0 => zero_on(&again, rest, answer),
        result => answer(result, Vec::new()),
    });
    let job = Job::new(part, vec![0; here as usize], next);
    let mut inbox = shared.inbox();
    if inbox.over {
        drop(inbox);
        return job.finish(Err(Errno::Shutdown));
    }
    inbox.jobs.push((job, Instant::now()));
    shared.came.notify_one();
}

impl Backend for TimedDrive {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn execute(&self, request: &Request, data: &mut [u8]) -> Result<(), Errno> {
        let (sender, receiver) = handover();
        let answer: Answer = Box::new(move |result, data| {
            // Whoever asked waits below.
            let _ = sender.send((result, data));
        });
        self.submit(Job::new(*request, data.to_vec(), answer));
        let (result, bytes) = receiver.recv().map_err(|_| Errno::Shutdown)?;
        if request.op == Op::Read && bytes.len() == data.len() {
            data.copy_from_slice(&bytes);
        }
        result
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        context: Context,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        let mut state = self.shared.state()?;
        if context == Context::Overwritten {
            let (extent, mut parts) = (extent_of(&Request::new(Op::Read, offset, len)), Vec::new());
            let interpreter = &mut state.bytes.interpreter;
            interpreter.visit_overwritten(extent, &mut |part, torn| parts.push((part.len.bytes(), torn)));
            push_overwritten(&parts, extents);
            return Ok(());
        }
        let layer = state.online.drive().layer();
        let mut pieces = Vec::new();
        layer.locate(extent_of(&Request::new(Op::Read, offset, len)), &mut pieces);
        for piece in pieces {
            let (mut done, whole) = (0, piece.extent.len.bytes());
            while done < whole && extents.len() <= most {
                let found = state.bytes.interpreter.allocated(piece.medium, piece.extent, done);
                let (allocated, len) = found.map_err(|error| errno_of(&error))?;
                let place = Place {
                    offset,
                    len,
                    cached: piece.cached,
                    allocated: allocated || !state.bytes.cached.is_empty(),
                };
                push_places(&[place], context, extents);
                done += len;
            }
        }
        Ok(())
    }

    fn waits(&self) -> bool {
        true
    }

    fn submit(&self, mut job: Job) {
        match job.request.op {
            // Nothing that the model knows of.
            Op::Cache => job.finish(Ok(())),
            Op::WriteZeroes if job.request.fast => job.finish(Err(Errno::NotSupported)),
            Op::WriteZeroes => {
                let request = job.request;
                // The job is answered by the last part.
                let answer: Answer = Box::new(move |result, _| job.finish(result));
                zero_on(&self.shared, request, answer);
            }
            _ => {
                job.data.resize(job.request.data_len() as usize, 0);
                self.push(job);
            }
        }
    }

    fn status(&self) -> Value {
        let Ok(mut state) = self.shared.state() else {
            return json!({ "timing": "model", "last_error": "the drive failed; start it again" });
        };
        let (counters, cache) = (state.bytes.interpreter.counters(), state.online.drive().cache_use());
        let sums = state.bytes.interpreter.sums();
        let status = skylight_image::Status { cache, counters, sums, ..skylight_image::Status::default() };
        let shingled = state.shingled();
        let lateness = &state.lateness;
        let us = |time: Duration| time.as_micros() as u64;
        let ahead =
            state.way.table().map(|(asleep, ahead)| json!([us(asleep), us(ahead)])).collect::<Vec<_>>();
        json!({
            "timing": "model",
            "image": crate::served::status_json(&status),
            "queue": { "now": state.outstanding, "most": state.deepest },
            "volatile_writes": state.bytes.cached.len(),
            "shingled": shingled,
            "virtual_s": state.online.clock().get() / 1_000_000_000,
            "lateness": {
                "answers": lateness.answers(),
                "p50_us": lateness.quantile_us(0.5),
                "p99_us": lateness.quantile_us(0.99),
                "worst_us": lateness.worst.as_micros() as u64,
                "log2_us": lateness.buckets.to_vec(),
            },
            "ahead_us": ahead,
            "last_error": state.bytes.last_error,
        })
    }

    fn control(&self, key: &str, value: &str) -> Result<String, String> {
        let failed = |errno| format!("{key}: cannot be set: {errno}");
        let mut state = self.shared.state().map_err(failed)?;
        match (&self.shingles, state.online.drive_mut().raw_shingled()) {
            (Some(shingles), Some(disk)) => shingles.control(disk, key, value),
            _ => Err(format!("{key}: {} has nothing of that name to set", self.shape.name)),
        }
    }

    /// Writes that the volatile cache holds reach the media, as when a drive is switched off in order.
    fn close(&self) -> Result<(), String> {
        let flushed = self.execute(&Request::new(Op::Flush, 0, 0), &mut []);
        self.end();
        let mut state = self.shared.state().map_err(|_| "the drive failed before".to_owned())?;
        let closed = state.bytes.interpreter.close().map_err(|error| error.to_string());
        closed.and_then(|()| flushed.map_err(|errno| format!("cannot flush: {errno}")))
    }
}
