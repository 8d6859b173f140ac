//! The writer of the tag log: a ring of blocks, of which the last is open.
//!
//! A full block is written before the next tag, or by a flush; a failed write leaves the log unchanged and is retried. Next
//! to the ring are two slots for [`Mark`]s, which record how far the log was durable after the last sync.
//!
//! Invariants: a recovery reads the blocks from `start` to `position`; a synced block is not written again until a
//! checkpoint covers it; a mark is written after the sync that it records.

use std::io;

use crate::format::BLOCK;
use crate::format::log_end::Mark;
use crate::format::superblock::{Part, Superblock};
use crate::format::tag_log::{TAGS, Tag, TagBlock};
use crate::store::Store;

/// See the module page.
#[derive(Debug)]
pub struct TagLog {
    salt: u32,
    ring: Part,
    /// Position of the first block that the checkpoint does not cover.
    start: u64,
    open: TagBlock,
    /// Whether the open block has tags that are not written yet.
    unwritten: bool,
    /// The mark of what completed syncs have made durable.
    durable: Mark,
    marks: Marks,
    /// Whether tags before `start` may be missing: until a checkpoint without them is durable, no mark may record later
    /// tags as durable.
    has_gaps: bool,
}

/// The slots of the marks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Marks {
    /// None in images of version 1.
    pub slots: Option<[u64; 2]>,
    /// The newest valid mark on the medium.
    pub newest: Option<Mark>,
    /// The slot to write next: not that of the newest mark.
    pub next: usize,
    /// Slots without a valid mark: damage, because a power cut leaves either the old or the new mark.
    pub bad: usize,
}

impl TagLog {
    /// A log that continues at `position`, after a checkpoint, with the marks that were found; `has_gaps` if there are
    /// tags after the checkpoint, of which a power cut may have taken any.
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

    /// Free space, tags.
    pub fn room(&self) -> u64 {
        let left = self.blocks() - (self.open.position - self.start);
        (left * TAGS as u64).saturating_sub(self.open.tags.len() as u64)
    }

    /// Whether less than half of the ring is free.
    pub fn is_half_full(&self) -> bool {
        (self.open.position - self.start) * 2 > self.blocks()
    }

    /// Position after the last written block.
    pub fn end(&self) -> u64 {
        self.open.position + u64::from(!self.open.tags.is_empty())
    }

    /// The generation of the checkpoint before it.
    pub fn generation(&self) -> u32 {
        self.open.generation
    }

    /// Writes the open block if it is full, and opens the next.
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

    /// Writes the open block, if it has new tags.
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

    /// All appended tags are durable: opens another block, which records that.
    pub fn synced(&mut self, durable: u64) {
        let log_end = self.seal();
        self.says_durable(durable, log_end);
    }

    /// A sync that makes the written blocks durable begins now: opens another block, and returns its position.
    pub fn seal(&mut self) -> u64 {
        if !self.open.tags.is_empty() {
            self.next_block();
        }
        self.open.position
    }

    /// The tags up to this one are durable, in the blocks before a position: later blocks and marks record that.
    pub fn says_durable(&mut self, durable: u64, log_end: u64) {
        self.open.durable = durable;
        self.durable = Mark { generation: self.open.generation, durable, log_end };
    }

    /// A durable checkpoint covers all tags before a position.
    pub fn behind_checkpoint(&mut self, generation: u32, position: u64) {
        self.start = position;
        self.open.generation = generation;
        self.durable.generation = generation;
        self.has_gaps = false;
    }

    /// Writes a mark of what completed syncs have made durable, if the last mark records less.
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
