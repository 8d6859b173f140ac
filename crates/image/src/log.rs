//! The tag log as it is written: a ring of blocks, the last of them open.
//!
//! A block that is full is written before the next tag, or by a flush: a write that fails leaves the log as it was, and
//! is retried. Beside the ring lie two slots for [`Mark`]s, which say how far the log was durable after the last sync.
//!
//! Invariants: blocks from `start` to `position` are those that a recovery reads; a block that was synced is
//! never written again before it is behind a checkpoint; a mark is written after the sync that it speaks of.

use std::io;

use crate::format::BLOCK;
use crate::format::mark::Mark;
use crate::format::superblock::{Part, Superblock};
use crate::format::tag::{TAGS, Tag, TagBlock};
use crate::store::Store;

/// See the module page.
#[derive(Debug)]
pub struct TagLog {
    salt: u32,
    ring: Part,
    /// Position of the first block that is not in the checkpoint.
    start: u64,
    open: TagBlock,
    /// Whether the open block holds tags that were not written yet.
    unwritten: bool,
    /// What completed syncs have made durable.
    durable: Mark,
    marks: Marks,
    /// Whether tags before `start` may be missing: until a checkpoint is durable that was made without them, no mark may
    /// say that tags behind them are durable.
    has_gaps: bool,
}

/// Where marks go.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// None in images of version 1.
    pub slots: Option<[u64; 2]>,
    /// The newest mark that is on the medium, if any adds up.
    pub newest: Option<Mark>,
    /// The slot that is written next: not that of the newest.
    pub next: usize,
    /// Slots that hold no mark: damage, since a cut leaves each as it was or as it is to be.
    pub bad: usize,
}

impl TagLog {
    /// A log that goes on at `position`, from a checkpoint on, with the marks that were found; `has_gaps` if tags were
    /// found behind the checkpoint, of which a cut may have left any.
    pub fn new(
        superblock: &Superblock,
        position: u64,
        generation: u32,
        marks: Marks,
        has_gaps: bool,
    ) -> Self {
        let open = TagBlock { position, durable: 0, generation, tags: Vec::with_capacity(TAGS) };
        let (salt, ring) = (superblock.salt, superblock.log);
        // What else is there may not be durable before the next sync: it may be what a killed process left.
        let durable = marks.newest.unwrap_or_default();
        Self { salt, ring, start: position, open, unwritten: false, durable, marks, has_gaps }
    }

    /// Blocks of the ring.
    pub fn blocks(&self) -> u64 {
        self.ring.len / BLOCK as u64
    }

    /// Tags for which there is room.
    pub fn room(&self) -> u64 {
        let left = self.blocks() - (self.open.position - self.start);
        (left * TAGS as u64).saturating_sub(self.open.tags.len() as u64)
    }

    /// Whether less than half of the ring is left.
    pub fn is_half_full(&self) -> bool {
        (self.open.position - self.start) * 2 > self.blocks()
    }

    /// Position of the first block behind all that were written.
    pub fn end(&self) -> u64 {
        self.open.position + u64::from(!self.open.tags.is_empty())
    }

    /// The checkpoint that it goes on from.
    pub fn generation(&self) -> u32 {
        self.open.generation
    }

    /// Writes the open block if it is full, and goes on in the next.
    pub fn make_way(&mut self, store: &mut dyn Store) -> io::Result<()> {
        if self.open.tags.len() == TAGS {
            self.write(store)?;
            self.next_block();
        }
        Ok(())
    }

    /// Appends a tag, for which [`TagLog::make_way`] was called.
    pub fn append(&mut self, tag: Tag) {
        debug_assert!(self.room() > 0 && self.open.tags.len() < TAGS, "the log is full");
        self.open.tags.push(tag);
        self.unwritten = true;
    }

    /// Writes the open block, if there is anything new in it.
    pub fn write(&mut self, store: &mut dyn Store) -> io::Result<()> {
        if self.unwritten {
            let slot = self.open.position % self.blocks();
            store.write_at(self.ring.start + slot * BLOCK as u64, &self.open.encode(self.salt))?;
            self.unwritten = false;
        }
        Ok(())
    }

    fn next_block(&mut self) {
        self.open.position += 1;
        self.open.tags.clear();
    }

    /// All that was appended is durable: it goes on in another block, which says so.
    pub fn synced(&mut self, durable: u64) {
        let log_end = self.seal();
        self.says_durable(durable, log_end);
    }

    /// What was written is to be durable by a sync that begins now: it goes on in another block, at this position.
    pub fn seal(&mut self) -> u64 {
        if !self.open.tags.is_empty() {
            self.next_block();
        }
        self.open.position
    }

    /// The tags up to this one are durable, in the blocks before a position: what is written from now on says so.
    pub fn says_durable(&mut self, durable: u64, log_end: u64) {
        self.open.durable = durable;
        self.durable = Mark { generation: self.open.generation, durable, log_end };
    }

    /// All that was appended before a position is in a checkpoint, which is durable.
    pub fn behind_checkpoint(&mut self, generation: u32, position: u64) {
        self.start = position;
        self.open.generation = generation;
        self.durable.generation = generation;
        self.has_gaps = false;
    }

    /// Writes a mark of what completed syncs have made durable, if the last one says less.
    pub fn write_mark(&mut self, store: &mut dyn Store) -> io::Result<()> {
        let said = self.has_gaps || self.marks.newest == Some(self.durable);
        let Some(slots) = self.marks.slots.filter(|_| !said) else {
            return Ok(());
        };
        store.write_at(slots[self.marks.next], &self.durable.encode(self.salt))?;
        self.marks.newest = Some(self.durable);
        self.marks.next = 1 - self.marks.next;
        Ok(())
    }
}
