//! Flushes, either at once or with syncs that run concurrently with other commands.
//!
//! A sync of the store may take seconds, and does not need the interpreter. So a flush has three parts:
//! [`Interpreter::begin_flush`] writes the open block of the log and notes what the sync will make durable, the caller syncs
//! ([`PendingSync::sync`]) while other commands continue, and [`Interpreter::finish_sync`] records the result. Tags of bands
//! that wait for their data need two syncs: one for the data, one for the tags.
//!
//! Invariants:
//! * A sync makes durable what was written before it began. Changes during the sync do not count as durable: the ranges
//!   that they free stay reserved, and their tags are in another block of the log.
//! * The log records a tag as durable only if that tag, and every earlier one by number, was in a block that was written
//!   before the sync began. Tags that still wait for their data are in no block.
//! * A flush at once includes everything that a pending sync was begun for; the pending one then has no effect.
//!
//! Imports both ways with `interpreter`: this is a part of `Interpreter`, which has the flush that is under way as a field.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use skylight_disk::PbaExtent;

use crate::error::ImageError;
use crate::format::tag_log::Tag;
use crate::interpreter::Interpreter;
use crate::planted_bugs::Planted;
use crate::protected_ranges::Freed;
use crate::store::Syncs;

/// What a pending sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Data, for which tags wait.
    Data,
    /// The log up to this tag and this position, and all data that was written before.
    Tags(u64, u64),
}

/// What was done and may not be durable.
#[derive(Debug, Default)]
pub(crate) struct Unsynced {
    /// What changes of the map gave back: a recovery may still need it.
    pub freed: Freed,
    /// The same at native locations, which resets of zones gave up.
    pub given_up: Freed,
    /// On a drive with zones, locations of data that a tag of a zone or of the cache vouches for with a checksum.
    pub vouched: Freed,
    /// Tags of bands, which wait for their data.
    pub waiting: VecDeque<Tag>,
    /// Whether data was written for which no tag vouches with a checksum.
    pub untagged: bool,
    /// Whether any data was written.
    pub dirty: bool,
    /// Whether anything at all was.
    pub any: bool,
}

/// A flush whose sync is under way.
#[derive(Debug)]
struct PendingFlush {
    stage: Stage,
    /// What it is to make durable; tags are in the log once the stage is [`Stage::Tags`].
    of: Unsynced,
}

/// What is not durable, and the flush that is under way.
#[derive(Debug, Default)]
pub(crate) struct FlushState {
    /// Since the last sync began.
    pub since: Unsynced,
    pending: Option<PendingFlush>,
    /// [`Unsynced::vouched`] of the last flush that is done: those tags are durable, but not yet what says so.
    vouched_before: Freed,
    /// The number of the last flush that had a sync beside other commands.
    number: u64,
}

impl FlushState {
    fn both(&self) -> impl Iterator<Item = &Unsynced> {
        self.pending.iter().map(|flush| &flush.of).chain([&self.since])
    }

    /// Whether data may not be durable yet for which no tag vouches with a checksum.
    pub fn is_untagged(&self) -> bool {
        self.both().any(|unsynced| unsynced.untagged)
    }

    /// Whether any data may not be durable yet.
    pub fn is_dirty(&self) -> bool {
        self.both().any(|unsynced| unsynced.dirty)
    }

    /// Tags that are not in the log yet.
    pub fn waiting_tags(&self) -> u64 {
        self.both().map(|unsynced| unsynced.waiting.len() as u64).sum()
    }

    /// Whether what lies in any of the sets of ranges that a recovery may still need matches.
    pub fn any_freed(&self, matches: impl Fn(&Freed) -> bool) -> bool {
        self.both().any(|unsynced| matches(&unsynced.freed))
    }

    /// Whether a recovery may still need what lies at a native location of a zone that was reset.
    pub fn is_given_up(&self, extent: PbaExtent) -> bool {
        self.both().any(|unsynced| unsynced.given_up.touches(extent))
    }

    /// Whether a recovery of a drive with zones may still compare what lies in a location with a checksum.
    pub fn is_vouched(&self, extent: PbaExtent) -> bool {
        self.vouched_before.touches(extent) || self.both().any(|unsynced| unsynced.vouched.touches(extent))
    }

    /// What a pending flush was begun for is to be made durable anew.
    fn take_back(&mut self) {
        let Some(PendingFlush { of: mut older, .. }) = self.pending.take() else { return };
        let since = &mut self.since;
        since.freed.join(older.freed);
        since.given_up.join(older.given_up);
        since.vouched.join(older.vouched);
        older.waiting.append(&mut since.waiting);
        since.waiting = older.waiting;
        since.untagged |= older.untagged;
        since.dirty |= older.dirty;
        since.any = true;
    }
}

/// A sync that is to be done, by anybody, beside whoever has the image.
pub struct PendingSync {
    number: u64,
    /// None where a planted bug leaves the sync out.
    syncs: Option<Arc<dyn Syncs>>,
}

impl PendingSync {
    /// Makes durable what was written before it was handed out.
    ///
    /// # Errors
    /// What the system says; [`Interpreter::finish_sync`] is to be told.
    pub fn sync(&self) -> io::Result<()> {
        self.syncs.as_ref().map_or(Ok(()), |syncs| syncs.sync())
    }
}

impl Interpreter {
    /// Makes durable all that was done.
    ///
    /// # Errors
    /// When the store fails: where space was lacking the next one may succeed, else it takes no more changes.
    pub fn flush(&mut self) -> Result<(), ImageError> {
        self.run(Self::flush_now)
    }

    /// Begins to make durable all that was done; none if it is already, or now is, for a store that cannot sync beside
    /// other commands is synced here.
    ///
    /// # Errors
    /// When the store fails: then it is stopped.
    pub fn begin_flush(&mut self) -> Result<Option<PendingSync>, ImageError> {
        self.run(|this| {
            let pending = this.flush.pending.is_some();
            let Some(syncs) = this.store.syncer().filter(|_| !pending) else {
                this.flush_now()?;
                return Ok(None);
            };
            if !this.flush.since.any {
                return Ok(None);
            }
            this.flush.number += 1;
            let of = std::mem::take(&mut this.flush.since);
            let no_band = of.waiting.is_empty();
            this.flush.pending = Some(PendingFlush { stage: Stage::Data, of });
            if no_band {
                this.write_tags()?;
            }
            Ok(Some(this.pending_sync(syncs)))
        })
    }

    /// Draws the conclusions of a sync; the next one that the flush needs, if it is not done.
    ///
    /// # Errors
    /// When the sync or the store failed: then it is stopped.
    pub fn finish_sync(
        &mut self,
        sync: &PendingSync,
        synced: io::Result<()>,
    ) -> Result<Option<PendingSync>, ImageError> {
        self.run(|this| {
            synced.map_err(|error| this.sync_failed(error))?;
            let current = this.flush.number == sync.number;
            let Some(flush) = this.flush.pending.as_ref().filter(|_| current) else {
                // A flush in one go came meanwhile, and did all of it.
                return Ok(None);
            };
            match (flush.stage, this.store.syncer()) {
                (Stage::Data, Some(syncs)) => {
                    this.write_tags()?;
                    Ok(Some(this.pending_sync(syncs)))
                }
                (Stage::Data, None) => this.flush_now().map(|()| None),
                (Stage::Tags(durable, log_end), _) => {
                    this.conclude(durable, log_end);
                    if this.store.is_write_dear() { Ok(()) } else { this.write_mark() }?;
                    Ok(None)
                }
            }
        })
    }

    /// What the last sync of a pending flush made durable is so.
    fn conclude(&mut self, durable: u64, log_end: u64) {
        let done = self.flush.pending.take();
        self.flush.vouched_before = done.map(|flush| flush.of.vouched).unwrap_or_default();
        match self.plants.has(Planted::DurableTooSoon) {
            true => self.log.says_durable(self.sequence, self.log.end()),
            false => self.log.says_durable(durable, log_end),
        }
        if self.plants.has(Planted::FreedTooSoon) {
            self.flush.since.freed.clear();
        }
    }

    /// The tags of a pending flush go to the log, which is written; what comes later goes into another block.
    fn write_tags(&mut self) -> Result<(), ImageError> {
        self.append_tags(|flush| flush.pending.as_mut().map(|pending| &mut pending.of.waiting))?;
        if self.store.is_write_dear() {
            self.write_mark()?;
        }
        let log_end = self.log.seal();
        // Those that wait now come after, though the numbers of some are lower than those of tags that are there.
        let durable = self.flush.since.waiting.front().map_or(self.sequence, |tag| tag.sequence - 1);
        if let Some(flush) = &mut self.flush.pending {
            flush.stage = Stage::Tags(durable, log_end);
        }
        Ok(())
    }

    fn pending_sync(&mut self, syncs: Arc<dyn Syncs>) -> PendingSync {
        self.counters.syncs += 1;
        let syncs = (!self.plants.has(Planted::NoSync)).then_some(syncs);
        PendingSync { number: self.flush.number, syncs }
    }

    /// Appends tags that waited, and writes the log; those that were not appended when that fails wait on.
    fn append_tags(
        &mut self,
        waiting: impl Fn(&mut FlushState) -> Option<&mut VecDeque<Tag>>,
    ) -> Result<(), ImageError> {
        while waiting(&mut self.flush).is_some_and(|tags| !tags.is_empty()) {
            self.begin_tag()?;
            if let Some(tag) = waiting(&mut self.flush).and_then(VecDeque::pop_front) {
                self.log.append(tag);
            }
        }
        self.log.write(self.store.as_mut()).map_err(|error| self.failed("write its tag log", error))
    }

    pub(crate) fn flush_now(&mut self) -> Result<(), ImageError> {
        self.flush.take_back();
        if !self.flush.since.any {
            return Ok(());
        }
        if !self.flush.since.waiting.is_empty() {
            self.sync()?;
        }
        self.append_tags(|flush| Some(&mut flush.since.waiting))?;
        if self.plants.has(Planted::MarkFirst) {
            self.log.synced(self.sequence);
            self.write_mark()?;
        }
        let late = self.store.is_write_dear();
        if late {
            self.write_mark()?;
        }
        self.sync()?;
        self.log.synced(self.sequence);
        self.flush.vouched_before = std::mem::take(&mut self.flush.since).vouched;
        if late { Ok(()) } else { self.write_mark() }
    }

    /// Makes durable all that was done, and then what says so: no recovery compares any data with a checksum.
    pub(crate) fn flush_and_say_so(&mut self) -> Result<(), ImageError> {
        self.flush_now()?;
        self.flush.since.any = true;
        self.flush_now()
    }

    /// Writes a mark of what completed syncs have made durable. Nothing waits for the mark to be durable itself.
    pub(crate) fn write_mark(&mut self) -> Result<(), ImageError> {
        let written = self.log.write_mark(self.store.as_mut());
        written.map_err(|error| self.failed("write the mark of its log", error))
    }

    pub(crate) fn sync(&mut self) -> Result<(), ImageError> {
        self.counters.syncs += 1;
        if self.plants.has(Planted::NoSync) {
            return Ok(());
        }
        self.store.sync().map_err(|error| self.sync_failed(error))
    }

    /// A system may drop what it could not write, and then gives older bytes without an error.
    fn sync_failed(&mut self, error: io::Error) -> ImageError {
        self.health.unsafe_reads = true;
        self.failed("sync", error)
    }
}
