//! The host: keeps a number of commands outstanding and submits the next one when one completes.
//!
//! Invariants: commands are submitted in the order of the batch and of time; after the stop condition holds,
//! none is submitted. The condition looks at completions in order of completion time.

use std::collections::VecDeque;

use skylight_command::{CommandId, Failure, Outcome, code};
use skylight_disk::{Lba, Nanos, Time};
use skylight_layer::{Layer, Plan};

use crate::batch::Batch;
use crate::conditions::Link;
use crate::stop_condition::StopWatch;

/// Whose commands a plan completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host's.
    Host,
    /// Writes from the volatile cache, by the numbers that the cache assigned.
    Cache,
    /// None: background work of the drive.
    Idle,
}

/// Result of moving the bytes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecutionResult {
    /// All bytes are on the media.
    Done,
    /// The plan is done, but its commands fail.
    Failed(Failure),
    /// Some could not be written: the backing storage has no space. The layer reflects what is there, and the
    /// commands of the plan fail.
    Refused(Failure),
}

/// A completed command.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Answered {
    /// When it completes.
    pub at: Time,
    /// The number it was submitted with.
    pub id: CommandId,
    /// How it ended.
    pub outcome: Outcome,
}

/// Moves the bytes of the executed plans. What is not overridden is right for a drive without bytes.
pub trait PlanExecutor {
    /// A plan is executed; `layer` is in the state after the plan. Nothing happens on the drive before this
    /// returns. If the backing storage has no space, the callee must restore the layer to what is on the
    /// media. Writes then stay in the volatile cache, and the drive retries later; commands of the host
    /// complete regardless.
    #[inline]
    fn executed(&mut self, _origin: Origin, _plan: &Plan, _layer: &mut dyn Layer) -> ExecutionResult {
        ExecutionResult::Done
    }

    /// The volatile cache accepted the write `host`; a plan of [`Origin::Cache`] completes it as `cache`.
    #[inline]
    fn cached(&mut self, _host: CommandId, _cache: CommandId) {}

    /// The completion of a command is decided. A read returns the data as of now; a flush covers all writes
    /// that have completed. Returns how it ends: `outcome` is how it does for the drive, which knows no bytes.
    #[inline]
    fn decided(&mut self, _id: CommandId, outcome: Outcome, _layer: &mut dyn Layer) -> Outcome {
        outcome
    }
}

/// Callbacks for the events of a drive.
pub(crate) trait Observer: PlanExecutor {
    /// A command completes at a time as the host sees it; the host can submit its next command at `free`.
    fn answered(&mut self, answer: Answered, free: Time);
}

/// No host is connected.
pub(crate) struct NoHost;

impl PlanExecutor for NoHost {}

impl Observer for NoHost {
    fn answered(&mut self, _answer: Answered, _free: Time) {
        debug_assert!(false, "no command is outstanding");
    }
}

/// A command of a batch that was not just done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchResult {
    /// Its row.
    pub row: usize,
    /// How it ended.
    pub outcome: Outcome,
}

impl BatchResult {
    /// The number in the column `result` of a log.
    pub fn code(&self) -> u64 {
        code::result(self.outcome)
    }
}

/// A position in the host's queue, free or becoming free.
#[derive(Clone, Copy, Debug)]
struct Slot {
    free: Time,
    /// Latency of the command that had this slot, by the host's clock; `None` before the first.
    latency: Option<Nanos>,
}

/// A batch, its progress, and the columns for its times.
pub(crate) struct Host<'a> {
    pub(crate) batch: &'a Batch<'a>,
    submit_ns: &'a mut [u64],
    complete_ns: &'a mut [u64],
    /// Slots that are or will be free, in order of time.
    slots: VecDeque<Slot>,
    next: usize,
    watch: StopWatch,
    link: Link,
    results: Vec<BatchResult>,
}

impl<'a> Host<'a> {
    /// A host at the end of `link` with up to `depth` outstanding commands from `start` on.
    pub(crate) fn new(
        batch: &'a Batch<'a>,
        (depth, start, link): (usize, Time, Link),
        watch: StopWatch,
        submit_ns: &'a mut [u64],
        complete_ns: &'a mut [u64],
    ) -> Self {
        let slots = std::iter::repeat_n(Slot { free: start, latency: None }, depth.min(batch.len()));
        let slots = slots.collect();
        Self { batch, submit_ns, complete_ns, slots, next: 0, watch, link, results: Vec::new() }
    }

    /// Number of submitted commands, and those that were not just done, in order.
    pub(crate) fn finish(mut self) -> (usize, Vec<BatchResult>) {
        self.results.sort_unstable_by_key(|result| result.row);
        (self.next, self.results)
    }

    /// When the drive will have the next command, if known.
    #[inline]
    pub(crate) fn submits_at(&self) -> Option<Time> {
        let slot = self.slots.front().filter(|_| self.next < self.batch.len() && !self.watch.reached())?;
        Some(slot.free + self.link.out)
    }

    /// Submits the next command and returns its index; `None` if the completion before it met the stop
    /// condition.
    #[inline]
    pub(crate) fn submit(&mut self) -> Option<usize> {
        let slot = self.slots.pop_front()?;
        if let Some(latency) = slot.latency {
            self.watch.completed(latency);
            if self.watch.reached() {
                return None;
            }
        }
        let index = self.next;
        self.submit_ns[index] = self.link.read_clock(slot.free);
        self.next += 1;
        Some(index)
    }

    /// Where the command `commands` positions after `index` begins.
    #[inline]
    pub(crate) fn ahead_of(&self, index: usize, commands: usize) -> Option<Lba> {
        self.batch.start(index + commands)
    }
}

impl PlanExecutor for Host<'_> {}

impl Observer for Host<'_> {
    /// The slot becomes free again at `free`.
    #[inline]
    fn answered(&mut self, answer: Answered, free: Time) {
        let index = answer.id.0 as usize;
        let complete_ns = self.link.read_clock(answer.at);
        self.complete_ns[index] = complete_ns;
        if answer.outcome != Outcome::Done {
            self.results.push(BatchResult { row: index, outcome: answer.outcome });
        }
        let latency = Nanos(complete_ns - self.submit_ns[index]);
        let behind = self.slots.iter().rev().take_while(|slot| slot.free > free).count();
        let slot = Slot { free, latency: Some(latency) };
        match behind {
            0 => self.slots.push_back(slot),
            _ => self.slots.insert(self.slots.len() - behind, slot),
        }
    }
}
