//! The host: it keeps a number of commands outstanding and submits the next one when one is answered.
//!
//! Invariants: commands are submitted in the order of the batch and of time; none after the stop holds, which
//! looks at completions in the order of their times.

use std::collections::VecDeque;

use skylight_disk::{LbaExtent, Nanos, Time};
use skylight_layer::{CommandId, Layer, Plan};

use crate::batch::Batch;
use crate::stop::StopWatch;

/// Whose commands a plan completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The host's.
    Host,
    /// Writes of the volatile cache, by the numbers that it gave them.
    Cache,
    /// Nobody's: work of the drive's own.
    Idle,
}

/// What became of the bytes of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moved {
    /// They are on the media.
    Done,
    /// Not all of them: the medium under them has no space. The layer has taken up what is there.
    Refused,
}

/// Who is told what the drive does.
pub(crate) trait Outside {
    /// A command is answered at `at`, `latency` after it was submitted; the host would go on at `free`.
    fn answered(&mut self, id: CommandId, at: Time, latency: Nanos, free: Time);

    /// The volatile cache took a write of the host, and knows it by another number from now on.
    #[inline]
    fn cached(&mut self, _host: CommandId, _cache: CommandId) {}

    /// A command is about to be answered; nothing happens before it is.
    #[inline]
    fn decided(&mut self, _id: CommandId, _layer: &dyn Layer) {}

    /// A plan is executed; its layer is as it is after it, and on return as the media are.
    #[inline]
    fn executed(&mut self, _origin: Origin, _plan: &Plan, _layer: &mut dyn Layer) -> Moved {
        Moved::Done
    }

    /// A command is about to be answered that needs what the media refused.
    #[inline]
    fn refused(&mut self, _id: CommandId) {}
}

/// Nobody is there.
pub(crate) struct Alone;

impl Outside for Alone {
    fn answered(&mut self, _id: CommandId, _at: Time, _latency: Nanos, _free: Time) {
        debug_assert!(false, "no command is outstanding");
    }
}

/// Room for another outstanding command.
#[derive(Clone, Copy, Debug)]
struct Slot {
    free: Time,
    /// How long the command took that had it; none when there was none yet.
    latency: Option<Nanos>,
}

/// A batch, how far it has come, and where its times go.
pub(crate) struct Host<'a> {
    pub(crate) batch: &'a Batch<'a>,
    submit_ns: &'a mut [u64],
    complete_ns: &'a mut [u64],
    /// Those that are free or will be, in the order of time.
    slots: VecDeque<Slot>,
    next: usize,
    watch: StopWatch,
}

impl<'a> Host<'a> {
    /// A host that may have `depth` commands outstanding from `start` on.
    pub(crate) fn new(
        batch: &'a Batch<'a>,
        (depth, start): (usize, Time),
        watch: StopWatch,
        submit_ns: &'a mut [u64],
        complete_ns: &'a mut [u64],
    ) -> Self {
        let slots = std::iter::repeat_n(Slot { free: start, latency: None }, depth.min(batch.len()));
        Self { batch, submit_ns, complete_ns, slots: slots.collect(), next: 0, watch }
    }

    /// Commands submitted.
    pub(crate) fn submitted(&self) -> usize {
        self.next
    }

    /// When the next command will be submitted, if that is known.
    #[inline]
    pub(crate) fn submits_at(&self) -> Option<Time> {
        let slot = self.slots.front().filter(|_| self.next < self.batch.len() && !self.watch.reached())?;
        Some(slot.free)
    }

    /// Submits the next command, whose number this gives; none if the completion before it was the stop.
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
        self.submit_ns[index] = slot.free.get();
        self.next += 1;
        Some(index)
    }

    /// What will be asked for some commands after one.
    #[inline]
    pub(crate) fn ahead_of(&self, index: usize, commands: usize) -> Option<LbaExtent> {
        self.batch.extent(index + commands)
    }
}

impl Outside for Host<'_> {
    /// The slot is free again at `free`.
    #[inline]
    fn answered(&mut self, id: CommandId, at: Time, latency: Nanos, free: Time) {
        self.complete_ns[id.0 as usize] = at.get();
        let behind = self.slots.iter().rev().take_while(|slot| slot.free > free).count();
        let slot = Slot { free, latency: Some(latency) };
        match behind {
            0 => self.slots.push_back(slot),
            _ => self.slots.insert(self.slots.len() - behind, slot),
        }
    }
}
