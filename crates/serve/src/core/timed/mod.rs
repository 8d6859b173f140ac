//! A backend that serves an image behind a drive in model time (`--timing model`).
//!
//! Virtual time runs with the wall clock. Commands are submitted to the drive (`drive/online.rs`) as they arrive, and
//! complete when the model says so; each plan that the drive executes moves its data at that moment, so a single layer
//! determines time and data. Writes in the drive's volatile cache are kept in memory here, and are lost with the process,
//! as they would be in a power cut.
//!
//! The parts: `model.rs` is the drive without a clock; `pacer.rs` advances its time with the wall clock; `in_flight.rs` is
//! the table of commands in flight; `drive_data.rs` moves the data, of which `volatile_data.rs` has that of the volatile
//! cache; `wake_latency.rs` and `lateness.rs` measure how late completions reach clients.
//!
//! Invariants: a completion is sent ahead of its model time by at most the [`WakeLatency`] of its client, and commands that
//! arrive in between count as arriving at that time; lateness goes into a histogram; a completion that promises durability
//! is sent when the data is durable; an error fails the commands whose data it concerns.

mod drive_data;
mod in_flight;
mod lateness;
pub mod model;
mod pacer;
mod volatile_data;
pub mod wake_latency;

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use skylight_disk::Nanos;
use skylight_drive::Drive;
use skylight_image::overwrite_records::wall_clock;
use skylight_image::{Interpreter, Place};

use self::lateness::Lateness;
use self::model::ModelDrive;
use self::pacer::{Shared, State};
use self::wake_latency::WakeLatency;
use super::image_errors::ImageErrors;
use super::read_modes::{Shingles, push_overwritten};
use super::untimed::{push_places, status_json};
use super::zone_reports::counts_json;
use super::{
    Backend, Command, Extent, Failure, Job, Op, Outcome, Setting, Shape, StatusQuery, ZonePage, execute_by,
};

/// The read mode and refused reads of a drive, if its sectors can be overwritten.
fn shingles_of(drive: &mut Drive) -> Option<Arc<Shingles>> {
    drive.layer_mut().overwriting().map(|disk| Arc::new(Shingles::of(disk)))
}

/// See the module page.
pub struct TimedDrive {
    shape: Shape,
    shared: Arc<Shared>,
    pacer: Mutex<Option<JoinHandle<()>>>,
    /// For a drive whose sectors can be overwritten.
    shingles: Option<Arc<Shingles>>,
    image_errors: Arc<ImageErrors>,
}

impl TimedDrive {
    /// Serves a drive whose layer is that of the image behind `interpreter`; time runs from here on. `shape`
    /// tells what it is called.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(mut drive: Drive, interpreter: Interpreter, shape: Shape) -> std::io::Result<Self> {
        let (size, base) = (drive.capacity().bytes(), drive.now());
        drive.set_epoch(Nanos(wall_clock().get().saturating_sub(base.get())));
        let model = ModelDrive::new(drive, interpreter, WakeLatency::measured()?);
        let shingles = model.bytes.shingles.clone();
        let image_errors = model.bytes.image_errors.clone();
        let shape = Shape { size, places: true, shingled: shingles.is_some(), ..shape };
        let state = State { model, lateness: Lateness::default() };
        let shared = Arc::new(Shared {
            submissions: Mutex::default(),
            arrived: Condvar::new(),
            state: Mutex::new(state),
            origin: Instant::now(),
            base,
        });
        let paces = shared.clone();
        let pacer = std::thread::Builder::new().name("pacer".to_owned()).spawn(move || paces.pace())?;
        Ok(Self { shape, shared, pacer: Mutex::new(Some(pacer)), shingles, image_errors })
    }

    /// Reads that were refused for their checksums.
    pub fn image_errors(&self) -> &ImageErrors {
        &self.image_errors
    }

    /// The read mode and refused reads of a drive whose sectors can be overwritten.
    pub fn shingles(&self) -> Option<Arc<Shingles>> {
        self.shingles.clone()
    }

    fn end(&self) {
        self.shared.submissions().closed = true;
        self.shared.arrived.notify_all();
        if let Some(pacer) = self.pacer.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // If it panicked, the state says so itself.
            let _ = pacer.join();
        }
    }

    fn push(&self, job: Job) {
        let came = Instant::now();
        let mut submissions = self.shared.submissions();
        if submissions.closed || self.shared.state.is_poisoned() {
            drop(submissions);
            return job.finish(Outcome::Failed(Failure::Aborted));
        }
        submissions.jobs.push((job, came));
        self.shared.arrived.notify_one();
    }
}

impl Drop for TimedDrive {
    fn drop(&mut self) {
        self.end();
    }
}

impl Backend for TimedDrive {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        execute_by(|job| self.submit(job), command, data)
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        let extent = Command::of_bytes(Op::Read, offset, len).extent;
        let state = &mut self.shared.state()?.model;
        if query == StatusQuery::Overwritten {
            let layer = state.online.drive_mut().layer_mut();
            push_overwritten(layer.overwriting(), (offset, len), extents);
            return Ok(());
        }
        let layer = state.online.drive().layer();
        let unwritten = !state.bytes.cached.is_empty();
        let found = state.bytes.interpreter.visit_places(extent, layer, most, &mut |place| {
            let allocated = place.allocated || unwritten;
            push_places(&[Place { allocated, ..place }], query, extents);
        });
        found.map_err(|error| Failure::from(&error))
    }

    fn zones(&self, first: u32, most: usize) -> Result<Option<ZonePage>, Failure> {
        let state = &mut self.shared.state()?.model;
        let zoned = state.online.drive_mut().layer_mut().zoned();
        Ok(zoned.map(|zoned| ZonePage::of(zoned, first, most)))
    }

    fn is_async(&self) -> bool {
        true
    }

    fn submit(&self, mut job: Job) {
        match job.command.op {
            // Nothing that the model knows of.
            Op::Cache => job.finish(Outcome::Done),
            Op::WriteZeroes if job.command.flags.fast_zero => {
                job.finish(Outcome::Failed(Failure::Unsupported))
            }
            _ => {
                job.data.resize(job.command.data_bytes() as usize, 0);
                self.push(job);
            }
        }
    }

    fn status(&self) -> Value {
        let Ok(mut guard) = self.shared.state() else {
            return json!({ "timing": "model", "last_error": "the drive failed; start it again" });
        };
        let State { model: state, lateness } = &mut *guard;
        let (counters, cache) = (state.bytes.interpreter.counters(), state.online.drive().cache_use());
        let sums = state.bytes.interpreter.sums();
        let status = skylight_image::Status { cache, counters, sums, ..skylight_image::Status::default() };
        let shingled = state.shingled();
        let us = |time: Duration| time.as_micros() as u64;
        let ahead = state
            .wake_latency
            .table()
            .map(|(asleep, lead)| json!([us(asleep), us(lead)]))
            .collect::<Vec<_>>();
        json!({
            "timing": "model",
            "image": status_json(&status),
            "queue": { "now": state.outstanding, "most": state.deepest },
            "volatile_writes": state.bytes.cached.len(),
            "shingled": shingled,
            "zones": state.online.drive_mut().layer_mut().zoned().map(|zoned| counts_json(zoned)),
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

    fn set(&self, setting: &Setting) -> Result<String, String> {
        let failed = |failure| format!("cannot be set: {failure}");
        let state = &mut self.shared.state().map_err(failed)?.model;
        if let Setting::Zone(change) = *setting {
            return state.change_zone(change).unwrap_or_else(|| Err(setting.unavailable()));
        }
        match (&self.shingles, state.online.drive_mut().layer_mut().overwriting()) {
            (Some(shingles), Some(disk)) => shingles.set(disk, setting),
            _ => Err(setting.unavailable()),
        }
    }

    /// Writes that the volatile cache holds reach the media, as when a drive is switched off in order. Nobody waits for
    /// the time that this takes a disk.
    fn close(&self) -> Result<(), String> {
        self.end();
        if let Some(shingles) = &self.shingles {
            shingles.drain();
        }
        let mut state = self.shared.state().map_err(|_| "the drive failed before".to_owned())?;
        // There may be space again since the last try.
        state.model.online.drive_mut().retry();
        let flushed = state.model.run_out();
        let ModelDrive { online, bytes, .. } = &mut state.model;
        let layer = online.drive_mut().layer_mut();
        let closed = bytes.interpreter.close(layer).map_err(|error| error.to_string());
        match bytes.cached.bytes() {
            0 => closed.and_then(|()| flushed.map_err(|failure| format!("cannot flush: {failure}"))),
            lost => {
                let why = closed.err().or(bytes.last_error.take());
                let why = why.unwrap_or_else(|| "the drive failed".to_owned());
                Err(format!(
                    "{lost} bytes that were not flushed are lost with the volatile write cache: {why}"
                ))
            }
        }
    }
}
