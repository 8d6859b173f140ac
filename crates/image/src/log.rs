//! The writer of the tag log: a ring of blocks, of which the last is open.
//!
//! A full block is written before the next tag, or by a flush; a failed write leaves the log unchanged and is retried. Where
//! no tag is needed to read data (`in_place.rs`), several full blocks are gathered and written at once, since each write
//! is a system call: a process that is killed then loses more tags, as a power cut may. Next to the ring
//! are two slots for [`Mark`]s, which record how far the log was durable after the last sync.
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
    /// Encoded full blocks right before the open one, which are not written yet; they do not span the end of the ring.
    gathered: Vec<u8>,
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
        Self {
            salt,
            ring,
            start: position,
            open,
            gathered: Vec::new(),
            unwritten: false,
            durable,
            marks,
            has_gaps,
        }
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

    /// If the open block is full, writes it with those that were gathered, or adds it to these up to `at_once` blocks;
    /// opens the next.
    pub fn make_way(&mut self, store: &mut dyn Store, at_once: usize) -> io::Result<()> {
        if self.open.tags.len() < TAGS {
            return Ok(());
        }
        let is_last = (self.open.position + 1).is_multiple_of(self.blocks());
        if !self.unwritten || is_last || self.gathered.len() / BLOCK + 1 >= at_once {
            self.write(store)?;
        } else {
            self.gathered.extend_from_slice(&self.open.encode(self.salt));
            self.unwritten = false;
        }
        self.next_block();
        Ok(())
    }

    /// Appends a tag, for which [`TagLog::make_way`] was called.
    pub fn append(&mut self, tag: Tag) {
        debug_assert!(self.room() > 0 && self.open.tags.len() < TAGS, "the log is full");
        self.open.tags.push(tag);
        self.unwritten = true;
    }

    /// Writes the gathered blocks and the open one, as far as they have new tags.
    pub fn write(&mut self, store: &mut dyn Store) -> io::Result<()> {
        let before = self.gathered.len();
        if self.unwritten {
            self.gathered.extend_from_slice(&self.open.encode(self.salt));
        }
        if self.gathered.is_empty() {
            return Ok(());
        }
        let slot = (self.open.position - (before / BLOCK) as u64) % self.blocks();
        let written = store.write_at(self.ring.start + slot * BLOCK as u64, &self.gathered);
        match written {
            Ok(()) => {
                self.gathered.clear();
                self.unwritten = false;
            }
            // The open block may get further tags before it is tried again.
            Err(_) => self.gathered.truncate(before),
        }
        written
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

#[cfg(test)]
mod tests {
    use skylight_disk::{Lba, LbaExtent, Pba, Sectors};

    use super::*;
    use crate::format::tag_log::Kind;

    const BLOCKS: u64 = 10;
    const AT_ONCE: usize = 4;

    /// Memory that counts its writes, and fails them if asked to.
    struct Memory {
        bytes: Vec<u8>,
        writes: usize,
        fails: bool,
    }

    impl Store for Memory {
        fn name(&self) -> String {
            "memory".to_owned()
        }

        fn len_bytes(&self) -> u64 {
            self.bytes.len() as u64
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
            buffer.copy_from_slice(&self.bytes[offset as usize..][..buffer.len()]);
            Ok(())
        }

        fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
            if self.fails {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.writes += 1;
            self.bytes[offset as usize..][..data.len()].copy_from_slice(data);
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            Ok(())
        }

        fn discard(&mut self, _offset: u64, _len: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn new() -> (TagLog, Memory) {
        let ring = Part { start: 0, len: BLOCKS * BLOCK as u64 };
        let open = TagBlock { position: 0, durable: 0, generation: 1, tags: Vec::new() };
        let (durable, marks) = (Mark::default(), Marks::default());
        let gathered = Vec::new();
        let log = TagLog {
            salt: 7,
            ring,
            start: 0,
            open,
            gathered,
            unwritten: false,
            durable,
            marks,
            has_gaps: false,
        };
        (log, Memory { bytes: vec![0; ring.len as usize], writes: 0, fails: false })
    }

    fn append(log: &mut TagLog, store: &mut Memory, sequence: u64, at_once: usize) -> io::Result<()> {
        log.make_way(store, at_once)?;
        let lba = LbaExtent::new(Lba(sequence), Sectors(1));
        log.append(Tag { sequence, lba, pba: Pba(0), kind: Kind::Moved });
        Ok(())
    }

    /// The numbers of the tags in the blocks from one position to before another, as a recovery finds them.
    fn found(store: &Memory, from: u64, to: u64) -> Vec<u64> {
        let block = |position: u64| {
            let at = (position % BLOCKS) as usize * BLOCK;
            let bytes = store.bytes[at..at + BLOCK].try_into().expect("a block");
            TagBlock::decode(bytes, 7).filter(|block| block.position == position).expect("a valid block")
        };
        (from..to).flat_map(|position| block(position).tags).map(|tag| tag.sequence).collect()
    }

    #[test]
    fn full_blocks_are_written_together() {
        for (at_once, writes) in [(1, 8), (AT_ONCE, 2)] {
            let (mut log, mut store) = new();
            (1..=8 * TAGS as u64 + 1).for_each(|n| append(&mut log, &mut store, n, at_once).expect("space"));
            assert_eq!(store.writes, writes, "{at_once} at once");
            log.write(&mut store).expect("space");
            assert_eq!(found(&store, 0, log.end()), (1..=8 * TAGS as u64 + 1).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_flush_writes_all_tags_wherever_in_the_ring_it_comes() {
        let (mut log, mut store) = new();
        let mut last = 0;
        for count in 0..60 {
            let first = last + 1;
            for _ in 0..count {
                last += 1;
                append(&mut log, &mut store, last, AT_ONCE).expect("space");
            }
            let before = log.start;
            log.write(&mut store).expect("space");
            assert_eq!(found(&store, before, log.end()), (first..=last).collect::<Vec<_>>());
            log.synced(last);
            log.behind_checkpoint(1, log.end());
        }
    }

    #[test]
    fn what_a_full_store_refused_is_written_later() {
        let (mut log, mut store) = new();
        let (mut last, mut refused) = (0, 0);
        for attempt in 0..9 * TAGS as u64 {
            store.fails = attempt % 3 != 0;
            match append(&mut log, &mut store, last + 1, AT_ONCE) {
                Ok(()) => last += 1,
                Err(_) => refused += 1,
            }
            refused += u64::from(attempt % 5 == 0 && log.write(&mut store).is_err());
        }
        store.fails = false;
        log.write(&mut store).expect("space");
        assert!(refused > 5, "{refused} refused");
        assert_eq!(found(&store, 0, log.end()), (1..=last).collect::<Vec<_>>());
    }
}
