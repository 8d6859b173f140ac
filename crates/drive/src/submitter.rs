//! The host: keeps a number of commands outstanding and submits the next one when one completes.
//!
//! Invariants: commands are submitted in the order of the batch and of time; after the stop condition holds,
//! none is submitted. The condition looks at completions in order of completion time.

use std::collections::VecDeque;

use skylight_command::{Outcome, code};
use skylight_disk::{Lba, Nanos, Time};

use crate::batch::Batch;
use crate::events::{Answered, Observer, PlanExecutor};
use crate::link::Link;
use crate::stop_condition::StopWatch;

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
