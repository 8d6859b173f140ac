//! What an image does when the file system under it is full.
//!
//! A write that finds no space is *refused*: it fails, and the drive goes on. What the interpreter has done of a plan is
//! a prefix of its steps, which is also what a power cut may leave, so the interpreter's own state is right. The layer
//! has changed its state for the whole plan; it takes up the interpreter's state again, as at a start, and forgets
//! the cleanings that it had begun. Reads, and the next writes, find layer and media in agreement.
//!
//! What a flush and a checkpoint write is allocated before it is needed: the tag log up to some way ahead of its last
//! block, and in both checkpoint areas the bytes of a checkpoint of the present map, and a margin. A change that needs
//! more than the file system has is refused before its first step. So a full file system takes no durable write
//! away, a flush of what was written before succeeds, and an image starts on it. Where the store cannot allocate ahead,
//! a flush or a checkpoint may be refused as well, and is retried by the next one.
//!
//! A drive whose writes destroy sectors of other tracks has what it knows of them in the layer alone. All that a write of
//! it needs (blocks of the log, a checkpoint, its own sectors) is allocated before it goes on record, and it is on record
//! before its first byte is written. What is refused before that is taken back in the layer
//! ([`skylight_layer::Overwriting::take_back`]), and destroys nothing; a checkpoint meanwhile does not have it. What fails
//! after that, by an error that no allocation rules out, stays on record: some bytes may be there, so its neighbours
//! are reported as overwritten and never read as if nothing had happened.
//!
//! Other errors:
//! * of a write or a discard: the drive takes no more changes, since nobody knows what the medium does next. Reads go on:
//!   they need only what was committed, and a commit follows the successful writes of its data.
//! * of a sync: reads fail too. A system may drop what it could not write, and then gives older bytes without an error.
//!
//! Invariants: after a refusal every sector reads as before the plan, or as one of its writes has it; nothing that was
//! flushed changes.
//!
//! Imports both ways with `interpreter`: this is a part of `Interpreter`, all of whose changes go through it.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use skylight_disk::{Direction, SECTOR_BYTES, Sectors};
use skylight_layer::{Layer, Plan, Purpose, Step};

use crate::cleaning_reads::Held;
use crate::error::ImageError;
use crate::format::BLOCK;
use crate::format::checkpoint::{CACHED, ENTRIES, FRAGMENT, MOVED, WRITER};
use crate::format::superblock::Superblock;
use crate::interpreter::Interpreter;
use crate::planted::Planted;
use crate::store::Store;

/// Bytes that are allocated ahead of need, of the log and of each checkpoint area, so that few changes have to allocate.
/// Chosen: 512 flushes or 6,500 entries, and an empty image stays small.
pub(crate) const AHEAD_BYTES: u64 = 256 << 10;
/// Blocks that a flush and a checkpoint leave open, however small the plan before them was.
const LOG_BLOCKS_MARGIN: u64 = 16;
/// Entries that one step of a plan adds at most: an extent, the rest of one that it cuts in two, and an access.
const ENTRIES_PER_STEP: u64 = 3;

/// What is allocated ahead of need, bytes from the start of each.
#[derive(Debug)]
pub(crate) struct Reserved {
    checkpoints: u64,
    log: u64,
    /// How much ahead.
    pub ahead: u64,
}

impl Default for Reserved {
    fn default() -> Self {
        Self { checkpoints: 0, log: 0, ahead: AHEAD_BYTES }
    }
}

/// What errors have left possible.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Why it takes no more changes.
    stopped: Option<String>,
    /// Whether a sync failed: what was written before it may be lost, and reads not notice.
    pub unsafe_reads: bool,
    /// Whether what a recovery found is in no checkpoint yet: that comes before any change.
    pub unrecorded: bool,
    /// How long the layer took to take up its state after the last refusal.
    pub refused_in: Duration,
}

/// Whether anything is different after a plan.
pub(crate) fn changes(plan: &Plan) -> bool {
    plan.steps().iter().any(|step| match step {
        Step::Access { direction, .. } => *direction == Direction::Write,
        Step::Commit(_) => true,
        _ => false,
    })
}

/// Allocates what a new image needs to be flushed and to be started again.
pub(crate) fn reserve_new(store: &mut dyn Store, superblock: &Superblock, ahead: u64) -> io::Result<()> {
    store.reserve(superblock.log.start, superblock.log.len.min(ahead))?;
    superblock
        .checkpoints
        .iter()
        .try_for_each(|area| store.reserve(area.start, area.len.min(ENTRIES + ahead)))
}

impl Interpreter {
    /// Allocates what an image that exists needs to be flushed and to be started again. An older one, or one that was
    /// copied, may have holes there: what cannot be had now is asked for again when it is needed.
    pub(crate) fn reserve_what_can_be(&mut self, layer: &mut dyn Layer) {
        let _ = self.reserve_log(0);
        let _ = self.reserve_checkpoints(0, layer);
    }

    /// Sees to it that the log has space for the tags of so many steps, each in a block of its own, as flushes make it.
    fn reserve_log(&mut self, steps: u64) -> Result<(), ImageError> {
        let ring = self.superblock.log;
        let blocks = self.log.end() + self.flush.waiting_tags() + steps + LOG_BLOCKS_MARGIN;
        let needed = blocks.saturating_mul(BLOCK as u64).min(ring.len);
        if needed <= self.reserved.log {
            return Ok(());
        }
        let ahead = (needed + self.reserved.ahead).min(ring.len);
        let mut reserved = self.store.reserve(ring.start, ahead).map(|()| ahead);
        if reserved.is_err() {
            reserved = self.store.reserve(ring.start, needed).map(|()| needed);
        }
        self.reserved.log = reserved.map_err(|error| self.failed("allocate its log", error))?;
        Ok(())
    }

    /// Bytes of a checkpoint of the present map, at most.
    fn checkpoint_bytes(&self, layer: &mut dyn Layer) -> u64 {
        // An extent of the map is one entry for each access that wrote a part of it.
        let cached = self.state.map.entries() + self.state.rooms.count();
        let bands = self.state.moved.len() + self.state.fixed.as_ref().map_or(0, BTreeMap::len);
        let (fragments, writers) = layer.overwriting().map_or((0, 0), |of| of.snapshot_entries());
        let overwritten = fragments as u64 * FRAGMENT as u64 + writers as u64 * WRITER as u64;
        ENTRIES + cached * CACHED as u64 + bands as u64 * MOVED as u64 + overwritten
    }

    /// Sees to it that both checkpoint areas have space for a checkpoint of the map as it is after so many steps.
    fn reserve_checkpoints(&mut self, steps: u64, layer: &mut dyn Layer) -> Result<(), ImageError> {
        let needed = self.checkpoint_bytes(layer) + steps * ENTRIES_PER_STEP * CACHED as u64;
        if needed <= self.reserved.checkpoints {
            return Ok(());
        }
        let [least, most] =
            [needed, needed + needed / 4 + self.reserved.ahead].map(|bytes| bytes.next_multiple_of(ENTRIES));
        let mut reserved = self.reserve_areas(most);
        if reserved.is_err() {
            reserved = self.reserve_areas(least);
        }
        self.reserved.checkpoints =
            reserved.map_err(|error| self.failed("allocate its next checkpoint", error))?;
        Ok(())
    }

    fn reserve_areas(&mut self, bytes: u64) -> io::Result<u64> {
        for area in self.superblock.checkpoints {
            self.store.reserve(area.start, bytes.min(area.len))?;
        }
        Ok(bytes)
    }

    /// Does a change that `layer` has planned, and after it a part of a checkpoint if that is due.
    pub(crate) fn change(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        act: impl FnOnce(&mut Self, &mut dyn Layer) -> Result<(), ImageError>,
    ) -> Result<(), ImageError> {
        let done = self.check_running().and_then(|()| self.prepare(plan, layer)).and_then(|()| {
            act(self, layer)?;
            match self.checkpoint_if_due(layer) {
                // The log has space for more than a plan: the next change tries again.
                Err(error) if error.is_no_space() && !self.health.unsafe_reads => Ok(()),
                other => other,
            }
        });
        if let Err(error) = &done {
            self.refuse(error, layer);
        }
        done
    }

    /// Whether reads are right.
    pub(crate) fn check_readable(&self) -> Result<(), ImageError> {
        if self.health.unsafe_reads { self.check_running() } else { Ok(()) }
    }

    /// Whether it takes changes.
    pub(crate) fn check_running(&self) -> Result<(), ImageError> {
        match &self.health.stopped {
            Some(why) => Err(ImageError::Stopped(why.clone())),
            None => Ok(()),
        }
    }

    /// Runs what changes the media and not the map: a flush or a checkpoint.
    pub(crate) fn run<T>(
        &mut self,
        act: impl FnOnce(&mut Self) -> Result<T, ImageError>,
    ) -> Result<T, ImageError> {
        self.check_running()?;
        let done = act(self);
        if let Err(error) = &done {
            self.note_error(error);
        }
        done
    }

    /// What has to be possible before a plan changes anything.
    pub(crate) fn prepare(&mut self, plan: &Plan, layer: &mut dyn Layer) -> Result<(), ImageError> {
        if self.health.unrecorded {
            self.checkpoint_now(false, layer)?;
        }
        self.reserve_log(plan.steps().len() as u64)?;
        self.reserve_checkpoints(plan.steps().len() as u64, layer)?;
        if layer.overwriting().is_some() { self.reserve_places(plan) } else { Ok(()) }
    }

    /// A write that destroys sectors of other tracks goes on record before its bytes are written: they are allocated
    /// before that.
    fn reserve_places(&mut self, plan: &Plan) -> Result<(), ImageError> {
        for step in plan.steps() {
            let &Step::Access { medium, direction: Direction::Write, extent, purpose: Purpose::Host, .. } =
                step
            else {
                continue;
            };
            let at = self.part(medium).start + extent.start.get() * SECTOR_BYTES;
            let reserved = self.store.reserve(at, extent.len.bytes());
            reserved.map_err(|error| self.failed("write", error))?;
        }
        Ok(())
    }

    /// A checkpoint after a recovery, before which nothing may change. Where there is no space for it, reads go on from
    /// what was found, and the first change tries again.
    pub(crate) fn record_recovery(&mut self, layer: &mut dyn Layer) -> Result<(), ImageError> {
        self.health.unrecorded = true;
        match self.checkpoint_all(layer) {
            Err(error) if error.is_no_space() && !self.health.unsafe_reads => Ok(()),
            other => other,
        }
    }

    /// Goes on after an error in a plan that `layer` had made.
    pub(crate) fn refuse(&mut self, error: &ImageError, layer: &mut dyn Layer) {
        self.note_error(error);
        if self.plants.has(Planted::LayerKept) {
            return;
        }
        let began = Instant::now();
        if let Some(overwriting) = layer.overwriting() {
            overwriting.take_back();
        }
        self.held = self.held.is_some().then(Held::default);
        self.state.settle(Sectors(self.superblock.capacity / SECTOR_BYTES));
        if let Err(what) = self.state.restore(layer) {
            // A fault of this program: a layer takes up every prefix of its plans.
            self.health.unsafe_reads = true;
            self.health.stopped.get_or_insert(what);
        }
        self.health.refused_in = began.elapsed();
    }

    /// Stops what an error does not leave safe to go on with.
    pub(crate) fn note_error(&mut self, error: &ImageError) {
        if self.health.unsafe_reads || !error.is_no_space() {
            self.health.stopped.get_or_insert_with(|| error.to_string());
        }
    }
}
