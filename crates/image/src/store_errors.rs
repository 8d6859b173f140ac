//! Handling of errors of the store, in particular of a full file system.
//!
//! A write without space (ENOSPC) is *refused*: it fails, and the drive continues. The interpreter has executed a prefix of
//! the plan, which a power cut may leave too, so its own state is valid. The layer has changed its state for the whole
//! plan; it is restored from the interpreter's state, as at a start, and abandons the cleanings that it had begun. After
//! that, layer and media agree.
//!
//! Space for flushes and checkpoints is allocated ahead of need: the tag log to some distance after its last block, and
//! both checkpoint areas for a checkpoint of the current map with a margin. A change that needs more space than the file
//! system has is refused before its first step. So on a full file system no durable write is lost, a flush of earlier
//! writes succeeds, and an image can be opened. Where the store cannot allocate ahead, a flush or a checkpoint may be
//! refused too, and is retried by the next one.
//!
//! In a drive whose writes overwrite sectors of other tracks, only the layer knows which. Everything that a write needs
//! (blocks of the log, a checkpoint, its own sectors) is allocated before the write is recorded, and it is recorded before
//! its first byte is written. A write that is refused earlier is undone in the layer
//! ([`skylight_layer::Overwriting::take_back`]) and overwrites nothing; a checkpoint in between does not contain it. A
//! write that fails later, by an error that allocation cannot prevent, stays recorded: some of its bytes may be on the
//! medium, so its neighbours are reported as overwritten.
//!
//! Other errors:
//! * of a write or a discard: the drive accepts no more changes, because the state of the medium is unknown. Reads
//!   continue: they use only committed data, and a commit follows the successful writes of its data.
//! * of a sync: reads fail too. The system may drop data that it could not write, and then return older data without an
//!   error.
//!
//! Invariants: after a refusal every sector reads as before the plan, or as after one of its writes; flushed data does
//! not change.
//!
//! Imports both ways with `interpreter`: this is a part of `Interpreter`, all of whose changes go through it.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use skylight_disk::{Direction, SECTOR_BYTES, Sectors};
use skylight_layer::{Layer, Plan, Purpose, Step};

use crate::cleaning_buffers::Held;
use crate::error::ImageError;
use crate::format::BLOCK;
use crate::format::checkpoint::{CACHED, ENTRIES, FRAGMENT, MOVED, WRITER, ZONE};
use crate::format::superblock::Superblock;
use crate::interpreter::Interpreter;
use crate::planted_bugs::Planted;
use crate::store::Store;

/// Space allocated ahead of need in the log and in each checkpoint area, bytes, so that few changes have to allocate.
/// Chosen: 512 flushes or 6,500 entries, and an empty image stays small.
pub(crate) const AHEAD_BYTES: u64 = 256 << 10;
/// Blocks that a flush and a checkpoint leave open, whatever the size of the plan before them.
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

/// What the errors so far still allow.
#[derive(Debug, Default)]
pub(crate) struct Health {
    /// Why it accepts no more changes.
    stopped: Option<String>,
    /// Whether a sync failed: earlier writes may be lost without an error of the reads.
    pub unsafe_reads: bool,
    /// Whether the recovered state still needs a checkpoint, before any change.
    pub unrecorded: bool,
    /// How long the layer took to take up its state after the last refusal.
    pub refused_in: Duration,
}

impl Health {
    /// Nothing is to be trusted any more, and why.
    pub fn stop(&mut self, why: String) {
        self.unsafe_reads = true;
        self.stopped.get_or_insert(why);
    }
}

/// Whether a plan changes the map or the media.
pub(crate) fn changes(plan: &Plan) -> bool {
    plan.steps().iter().any(|step| match step {
        Step::Access { direction, .. } => *direction == Direction::Write,
        Step::Commit(_) => true,
        _ => false,
    })
}

/// Allocates the space that a new image needs to be flushed and opened again.
pub(crate) fn reserve_new(store: &mut dyn Store, superblock: &Superblock, ahead: u64) -> io::Result<()> {
    store.reserve(superblock.log.start, superblock.log.len.min(ahead))?;
    superblock
        .checkpoints
        .iter()
        .try_for_each(|area| store.reserve(area.start, area.len.min(ENTRIES + ahead)))
}

impl Interpreter {
    /// Allocates the space that an existing image needs to be flushed and opened again. An older or copied image may have
    /// holes there: space that is not available now is requested again when it is needed.
    pub(crate) fn reserve_what_can_be(&mut self, layer: &mut dyn Layer) {
        let _ = self.reserve_log(0);
        let _ = self.reserve_checkpoints(0, layer);
    }

    /// Ensures that the log has space for the tags of `steps` steps, each in its own block, as with a flush after each.
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

    /// Maximum size of a checkpoint of the current map, bytes.
    fn checkpoint_bytes(&self, layer: &mut dyn Layer) -> u64 {
        // An extent of the map is one entry for each access that wrote a part of it.
        let cached = self.state.map.entries() + self.state.rooms.count();
        let bands = self.state.moved.len() + self.state.fixed.as_ref().map_or(0, BTreeMap::len);
        let (fragments, writers) = layer.overwriting().map_or((0, 0), |of| of.snapshot_entries());
        let overwritten = fragments as u64 * FRAGMENT as u64 + writers as u64 * WRITER as u64;
        let zones = (self.state.zones.count() + self.zone_changes.len() as u64) * ZONE as u64;
        ENTRIES + cached * CACHED as u64 + bands as u64 * MOVED as u64 + overwritten + zones
    }

    /// Ensures that both checkpoint areas have space for a checkpoint of the map after `steps` more steps.
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

    /// Executes a change that `layer` has planned, and then a piece of a checkpoint if one is due.
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

    /// Checks that reads are reliable.
    pub(crate) fn check_readable(&self) -> Result<(), ImageError> {
        if self.health.unsafe_reads { self.check_running() } else { Ok(()) }
    }

    /// Checks that changes are accepted.
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

    /// Ensures before the first change of a plan that it can be completed.
    pub(crate) fn prepare(&mut self, plan: &Plan, layer: &mut dyn Layer) -> Result<(), ImageError> {
        if self.health.unrecorded {
            self.checkpoint_now(false, layer)?;
        }
        // A zone that a plan writes has a tag for each of its writes.
        self.reserve_log((plan.steps().len() + self.zone_changes.len()) as u64)?;
        self.reserve_checkpoints(plan.steps().len() as u64, layer)?;
        if layer.overwriting().is_some() { self.reserve_places(plan) } else { Ok(()) }
    }

    /// A write that overwrites sectors of other tracks is recorded before its bytes are written, and its space is allocated
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

    /// The checkpoint after a recovery, before any change. Without space for it, reads use the recovered state, and the
    /// first change tries again.
    pub(crate) fn record_recovery(&mut self, layer: &mut dyn Layer) -> Result<(), ImageError> {
        self.health.unrecorded = true;
        match self.checkpoint_all(layer) {
            Err(error) if error.is_no_space() && !self.health.unsafe_reads => Ok(()),
            other => other,
        }
    }

    /// Handles an error during a plan of `layer`.
    pub(crate) fn refuse(&mut self, error: &ImageError, layer: &mut dyn Layer) {
        self.note_error(error);
        if self.plants.has(Planted::LayerKept) {
            return;
        }
        let began = Instant::now();
        if let Some(overwriting) = layer.overwriting() {
            overwriting.take_back();
        }
        self.take_back_zones(layer);
        self.held = self.held.is_some().then(Held::default);
        self.state.settle(Sectors(self.superblock.capacity / SECTOR_BYTES));
        if let Err(what) = self.state.restore(layer) {
            // A fault of this program: a layer takes up every prefix of its plans.
            self.health.stop(what);
        }
        self.health.refused_in = began.elapsed();
    }

    /// Stops the operations that are unsafe after an error.
    pub(crate) fn note_error(&mut self, error: &ImageError) {
        if self.health.unsafe_reads || !error.is_no_space() {
            self.health.stopped.get_or_insert_with(|| error.to_string());
        }
    }
}
