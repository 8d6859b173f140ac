//! The tag log as it is written: a ring of blocks, the last of them open.
//!
//! Invariants: blocks from `start` to `position` are those that a recovery reads; a block that was synced is
//! never written again before it is behind a checkpoint.

use std::io;

use crate::format::BLOCK;
use crate::format::superblock::Part;
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
}

impl TagLog {
    /// A log that goes on at `position`, from a checkpoint on.
    pub fn new(salt: u32, ring: Part, position: u64, generation: u32) -> Self {
        let open = TagBlock { position, durable: 0, generation, tags: Vec::with_capacity(TAGS) };
        Self { salt, ring, start: position, open, unwritten: false }
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

    /// Appends a tag; a block that is full is written.
    pub fn append(&mut self, store: &mut dyn Store, tag: Tag) -> io::Result<()> {
        debug_assert!(self.room() > 0, "the log is full");
        self.open.tags.push(tag);
        self.unwritten = true;
        if self.open.tags.len() == TAGS {
            self.write(store)?;
            self.next_block();
        }
        Ok(())
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
        self.seal();
        self.says_durable(durable);
    }

    /// What was written is to be durable by a sync that begins now: it goes on in another block.
    pub fn seal(&mut self) {
        if !self.open.tags.is_empty() {
            self.next_block();
        }
    }

    /// The blocks that are written from now on say that the tags up to this one are durable.
    pub fn says_durable(&mut self, durable: u64) {
        self.open.durable = durable;
    }

    /// All that was appended before a position is in a checkpoint.
    pub fn behind_checkpoint(&mut self, generation: u32, position: u64) {
        self.start = position;
        self.open.generation = generation;
    }
}
