//! A host buffer before a drive with zones: together they are an ordinary block device (`docs/hbuffer.md`).
//!
//! The drive below is a backend like any other, so what its commands cost stays with it: in model time the buffer's own commands take
//! the time that its model gives them. One thread has the buffer (`worker.rs`) and does its actions on the drive (`device.rs`)
//! with the data of the commands that wait (`waiting.rs`). `opening.rs` finds the buffer that a drive has, or begins one.
//!
//! Invariants: the thread alone asks the drive, but for reports; conflicting commands take effect in the order in which they came;
//! a flush is answered when the drive has flushed.

mod device;
mod opening;
mod waiting;
mod worker;

use std::sync::mpsc::{Sender, channel as handover};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};
use skylight_disk::{Lba, SECTOR_BYTES};
use skylight_layer::hbuffer::Counters;
use skylight_layer::hbuffer::policy::Fill;

pub use opening::{HBufferError, HBufferPlan};

use self::worker::{Message, Worker};
use super::{
    Backend, BlockState, Command, Extent, Failure, Job, Op, Outcome, Setting, Shape, StatusQuery, ZonePage,
    execute_by, push_extent, reported_bytes,
};

/// What the status says of a buffer; its thread keeps it up to date.
#[derive(Clone, Copy, Debug, Default)]
struct Seen {
    counters: Counters,
    fill: Fill,
    /// A home zone is being cleaned.
    is_cleaning: bool,
    /// Commands that wait for the buffer.
    waiting: usize,
    /// Why the last action failed that did.
    last_error: Option<Failure>,
}

/// See the module page.
pub struct HBuffered {
    shape: Shape,
    drive: Arc<dyn Backend>,
    /// Where the drive's conventional zones end: what lies in these never moves.
    conventional_end: Lba,
    policy: &'static str,
    messages: Sender<Message>,
    seen: Arc<Mutex<Seen>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl HBuffered {
    /// Puts the buffer of a drive before it. In model time this takes as long as the drive takes to read that.
    ///
    /// # Errors
    /// See [`HBufferError`].
    pub fn new(drive: Arc<dyn Backend>, plan: &HBufferPlan) -> Result<Self, HBufferError> {
        let (buffer, work) = opening::open(drive.clone(), plan)?;
        let (shape, policy) = (drive.shape(), buffer.policy_name());
        let layout = buffer.layout();
        let conventional_end = layout.start_of(layout.conventional);
        let shape = Shape {
            size: buffer.capacity().bytes(),
            description: format!("{}; a host buffer makes it an ordinary disk", shape.description),
            // What the drive has cached is not the host's to see.
            places: false,
            ..shape.clone()
        };
        let (messages, received) = handover();
        let seen = Arc::<Mutex<Seen>>::default();
        let worker = Worker::new(buffer, work, seen.clone());
        let run = move || worker.run(&received);
        let thread = std::thread::Builder::new().name("hbuffer".to_owned()).spawn(run)?;
        let thread = Mutex::new(Some(thread));
        Ok(Self { shape, drive, conventional_end, policy, messages, seen, thread })
    }

    fn seen(&self) -> Seen {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the thread, and waits for the answer.
    fn ask<T>(&self, message: impl FnOnce(Sender<T>) -> Message) -> Result<T, Failure> {
        let (sender, receiver) = handover();
        // A thread that is gone drops the message, and so the sender.
        let _ = self.messages.send(message(sender));
        receiver.recv().map_err(|_| Failure::Aborted)
    }

    /// Ends the thread; the result of its last flush.
    fn end(&self) -> Result<(), Failure> {
        let flushed = self.ask(Message::Close).and_then(|flushed| flushed);
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // If it panicked, it gave no answer.
            let _ = thread.join();
        }
        flushed
    }
}

impl Drop for HBuffered {
    fn drop(&mut self) {
        // Who wants to know whether all is durable closes it.
        let _ = self.end();
    }
}

/// What the status says, bytes.
fn status_json(seen: &Seen, policy: &str) -> Value {
    let Seen { counters, fill, is_cleaning, waiting, last_error } = seen;
    let bytes = |sectors: u64| sectors * SECTOR_BYTES;
    json!({
        "policy": policy,
        "waiting": waiting,
        "paths": {
            "direct_bytes": bytes(counters.direct),
            "drive_cache_bytes": bytes(counters.drive_cache),
            "buffer_bytes": bytes(counters.buffered),
        },
        "fill": {
            "zones": fill.zones,
            "free_zones": fill.free_zones,
            "live_bytes": bytes(fill.live.get()),
            "dirty_zones": fill.dirty_zones,
            "map_entries": fill.map_entries,
        },
        "cleaning": {
            "now": is_cleaning,
            "appended_zones": counters.appended_zones,
            "rewritten_zones": counters.rewritten_zones,
            "written_bytes": bytes(counters.cleaned),
        },
        "overhead": {
            "header_bytes": bytes(counters.headers),
            "checkpoints": counters.checkpoints,
            "checkpoint_bytes": bytes(counters.checkpointed),
        },
        "last_error": last_error.map(|failure| failure.to_string()),
    })
}

impl Backend for HBuffered {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        execute_by(|job| self.submit(job), command, data)
    }

    /// What the buffer knows to be unwritten is a hole, and what it has written elsewhere than in a conventional zone is data. The
    /// drive is not asked of that: by then the buffer may have moved it and emptied its zone.
    fn block_status(
        &self,
        offset: u64,
        len: u64,
        _query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        let extent = Command::of_bytes(Op::Read, offset, len).extent;
        let places = self.ask(|answer| Message::Locate { extent, limit, answer })?;
        for (len, place) in places {
            match place {
                None => push_extent(extents, len.bytes(), BlockState::Hole),
                Some(start) if start < self.conventional_end => {
                    let (offset, before) = (start.get() * SECTOR_BYTES, reported_bytes(extents));
                    self.drive.block_status(offset, len.bytes(), StatusQuery::Allocation, limit, extents)?;
                    // What follows has to follow on.
                    if reported_bytes(extents) - before < len.bytes() {
                        return Ok(());
                    }
                }
                Some(_) => push_extent(extents, len.bytes(), BlockState::Ordinary),
            }
        }
        Ok(())
    }

    /// Those of the drive: they can be looked at.
    fn zones(&self, first: u32, most: usize) -> Result<Option<ZonePage>, Failure> {
        self.drive.zones(first, most)
    }

    fn is_async(&self) -> bool {
        true
    }

    fn submit(&self, mut job: Job) {
        match job.command.op {
            // Nothing that the buffer does better when it is told ahead.
            Op::Cache => job.finish(Outcome::Done),
            Op::WriteZeroes if job.command.flags.fast_zero => {
                job.finish(Outcome::Failed(Failure::Unsupported))
            }
            // The zones are the buffer's.
            Op::Zone(_) => job.finish(Outcome::Failed(Failure::NotPermitted)),
            _ => {
                job.data.resize(job.command.data_bytes() as usize, 0);
                // A thread that is gone drops the job, which completes it.
                let _ = self.messages.send(Message::Job(job));
            }
        }
    }

    fn status(&self) -> Value {
        let mut status = self.drive.status();
        if let Value::Object(entries) = &mut status {
            entries.insert("hbuffer".to_owned(), status_json(&self.seen(), self.policy));
        }
        status
    }

    fn set(&self, setting: &Setting) -> Result<String, String> {
        self.drive.set(setting)
    }

    fn close(&self) -> Result<(), String> {
        let flushed = self.end();
        let closed = self.drive.close();
        closed.and_then(|()| flushed.map_err(|failure| format!("the host buffer cannot flush: {failure}")))
    }
}
