//! Flushes: what was done becomes durable, in one go, or by syncs that run beside other commands.
//!
//! A sync of the store may take seconds, and needs nothing of the interpreter. So a flush has three parts:
//! [`Interpreter::begin_flush`] writes the open block of the log and notes what the sync will make durable, the
//! caller syncs ([`PendingSync::sync`]) while others go on, and [`Interpreter::finish_sync`] draws the conclusions.
//! Tags of bands that wait for their data take two syncs: one for the data, one for the tags.
//!
//! Invariants:
//! * A sync makes durable what was written before it began. What is done meanwhile counts as not durable: the ranges
//!   that it gives back stay reserved, its data is not vouched for, and its tags lie in another block of the log.
//! * The log says of a tag that it is durable only if that tag, and every one before it by number, was in a block that
//!   was written before the sync began. Tags that still wait for their data are in none.
//! * A flush in one go does all that a pending sync was begun for; the pending one then has nothing to conclude.
//!
//! Imports both ways with `interpreter`: this is a part of `Interpreter`, which has the flush that is under way as a field.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;

use crate::error::ImageError;
use crate::format::tag::Tag;
use crate::interpreter::{Interpreter, Planted};
use crate::ranges::Freed;
use crate::store::Syncs;

/// What a pending sync makes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Data, for which tags wait.
    Data,
    /// The log up to this tag and this position, and all data that was written before.
    Tags(u64, u64),
}

/// A flush whose sync is under way, and what was not durable when it began.
#[derive(Debug)]
pub(crate) struct PendingFlush {
    number: u64,
    stage: Stage,
    freed: Freed,
    /// Tags of bands; in the log once the stage is [`Stage::Tags`].
    waiting: VecDeque<Tag>,
    untagged: bool,
    dirty: bool,
}

/// A sync that is to be done, by anybody, beside whoever has the image.
pub struct PendingSync {
    number: u64,
    /// None where a planted fault leaves the sync out.
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
            let pending = this.pending.is_some();
            let Some(syncs) = this.store.syncer().filter(|_| !pending) else {
                this.flush_now()?;
                return Ok(None);
            };
            if !this.unsynced {
                return Ok(None);
            }
            this.flushes += 1;
            let (untagged, dirty) = (this.untagged, this.dirty);
            (this.untagged, this.dirty, this.unsynced) = (false, false, false);
            let (freed, waiting) = (std::mem::take(&mut this.freed), std::mem::take(&mut this.waiting));
            let stage = Stage::Data;
            let first = PendingFlush { number: this.flushes, stage, freed, waiting, untagged, dirty };
            this.pending = Some(first);
            if this.pending.as_ref().is_some_and(|flush| flush.waiting.is_empty()) {
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
            let Some(flush) = this.pending.as_ref().filter(|flush| flush.number == sync.number) else {
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
        self.pending = None;
        match self.planted {
            Some(Planted::DurableTooSoon) => self.log.says_durable(self.sequence, self.log.end()),
            _ => self.log.says_durable(durable, log_end),
        }
        if self.planted == Some(Planted::FreedTooSoon) {
            self.freed.clear();
        }
    }

    /// The tags of a pending flush go to the log, which is written; what comes later goes into another block.
    fn write_tags(&mut self) -> Result<(), ImageError> {
        self.append_tags(|this| this.pending.as_mut().map(|flush| &mut flush.waiting))?;
        if self.store.is_write_dear() {
            self.write_mark()?;
        }
        let log_end = self.log.seal();
        // Those that wait now come after, though the numbers of some are lower than those of tags that are there.
        let durable = self.waiting.front().map_or(self.sequence, |tag| tag.sequence - 1);
        if let Some(flush) = &mut self.pending {
            flush.stage = Stage::Tags(durable, log_end);
        }
        Ok(())
    }

    fn pending_sync(&mut self, syncs: Arc<dyn Syncs>) -> PendingSync {
        self.counters.syncs += 1;
        let syncs = (self.planted != Some(Planted::NoSync)).then_some(syncs);
        PendingSync { number: self.flushes, syncs }
    }

    /// Appends tags that waited, and writes the log; those that were not appended when that fails wait on.
    fn append_tags(
        &mut self,
        waiting: impl Fn(&mut Self) -> Option<&mut VecDeque<Tag>>,
    ) -> Result<(), ImageError> {
        while waiting(self).is_some_and(|tags| !tags.is_empty()) {
            self.begin_tag()?;
            if let Some(tag) = waiting(self).and_then(VecDeque::pop_front) {
                self.log.append(tag);
            }
        }
        self.log.write(self.store.as_mut()).map_err(|error| self.failed("write its tag log", error))
    }

    pub(crate) fn flush_now(&mut self) -> Result<(), ImageError> {
        self.take_back();
        if !self.unsynced {
            return Ok(());
        }
        if !self.waiting.is_empty() {
            self.sync()?;
        }
        self.append_tags(|this| Some(&mut this.waiting))?;
        if self.planted == Some(Planted::MarkFirst) {
            self.log.synced(self.sequence);
            self.write_mark()?;
        }
        let late = self.store.is_write_dear();
        if late {
            self.write_mark()?;
        }
        self.sync()?;
        self.log.synced(self.sequence);
        self.freed.clear();
        (self.untagged, self.dirty, self.unsynced) = (false, false, false);
        if late { Ok(()) } else { self.write_mark() }
    }

    /// Writes a mark of what completed syncs have made durable. Nothing waits for the mark to be durable itself.
    pub(crate) fn write_mark(&mut self) -> Result<(), ImageError> {
        let written = self.log.write_mark(self.store.as_mut());
        written.map_err(|error| self.failed("write the mark of its log", error))
    }

    /// What a pending flush was begun for is to be made durable anew.
    fn take_back(&mut self) {
        let Some(flush) = self.pending.take() else { return };
        self.freed.join(flush.freed);
        let mut waiting = flush.waiting;
        waiting.append(&mut self.waiting);
        self.waiting = waiting;
        self.untagged |= flush.untagged;
        self.dirty |= flush.dirty;
        self.unsynced = true;
    }

    pub(crate) fn sync(&mut self) -> Result<(), ImageError> {
        self.counters.syncs += 1;
        if self.planted == Some(Planted::NoSync) {
            return Ok(());
        }
        self.store.sync().map_err(|error| self.sync_failed(error))
    }

    /// A system may drop what it could not write, and then gives older bytes without an error.
    fn sync_failed(&mut self, error: io::Error) -> ImageError {
        self.unsafe_reads = true;
        self.failed("sync", error)
    }

    /// Whether data may not be durable yet for which no tag vouches with a checksum.
    pub(crate) fn is_untagged(&self) -> bool {
        self.untagged || self.pending.as_ref().is_some_and(|flush| flush.untagged)
    }

    /// Whether any data may not be durable yet.
    pub(crate) fn is_dirty(&self) -> bool {
        self.dirty || self.pending.as_ref().is_some_and(|flush| flush.dirty)
    }

    /// Tags that are not in the log yet.
    pub(crate) fn waiting_tags(&self) -> u64 {
        let pending = self.pending.as_ref().map_or(0, |flush| flush.waiting.len());
        (self.waiting.len() + pending) as u64
    }

    /// Whether what lies in any of the sets of ranges that a recovery may still need matches.
    pub(crate) fn any_freed(&self, matches: impl Fn(&Freed) -> bool) -> bool {
        matches(&self.freed) || self.pending.as_ref().is_some_and(|flush| matches(&flush.freed))
    }
}
