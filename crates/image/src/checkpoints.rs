//! Writing of checkpoints: at once, or one piece after each command, so that no command waits for the whole checkpoint.
//!
//! A checkpoint in pieces begins with a flush, and covers the log up to that flush. Its pieces are the entries of the map
//! by address, each as it is when the piece is written; together they need not be a consistent map. Changes since the
//! flush are in the log, and a recovery applies all their tags in order: each sector gets the state of its last tag, or,
//! without one, that of its entry, which has not changed since. The head is written after a flush, so that no entry
//! depends on a lost tag.
//!
//! Invariants: the size of a piece is bounded; all pieces are written before the log is full, otherwise the checkpoint is
//! written anew at once; a checkpoint is not used until its heads are written. The further parts of an image announce a
//! checkpoint before its heads are written, and confirm it afterwards.
//!
//! Imports both ways with `interpreter`: this is a part of `Interpreter`, which has the checkpoint that is being written as a field.

use std::collections::BTreeMap;
use std::io;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::Layer;

use crate::error::ImageError;
use crate::format::checkpoint::{
    CACHED, ENTRIES, Head, MOVED, ZONE, encode_cached, encode_fragment, encode_moved, encode_writer,
    encode_zone,
};
use crate::format::part_head::PartHead;
use crate::interpreter::Interpreter;
use crate::store::Store;

/// Size of a write, bytes.
const CHUNK: usize = 1 << 20;
/// Pieces are written in whole physical blocks.
const ALIGNMENT: usize = 4096;
/// Entries per piece: about a millisecond.
const PIECE: u64 = 4096;

/// Checkpoints in pieces.
pub(crate) struct CheckpointState {
    /// The checkpoint in progress.
    begun: Option<Checkpoint>,
    /// Entries per piece.
    pub piece: u64,
}

impl Default for CheckpointState {
    fn default() -> Self {
        Self { begun: None, piece: PIECE }
    }
}

/// A checkpoint in progress.
struct Checkpoint {
    head: Head,
    out: Out,
    /// The first sector whose entry is not written yet.
    next: Lba,
    /// Maximum number of entries for cached extents.
    most: u64,
}

impl Interpreter {
    /// Writes a checkpoint if the log is half full, at once if it is short; continues one in progress.
    pub(crate) fn checkpoint_if_due(&mut self, layer: &mut dyn Layer) -> Result<(), ImageError> {
        let mut checkpoint = match self.checkpoint.begun.take() {
            Some(begun) => begun,
            None if !self.log.is_half_full() => return Ok(()),
            None if self.state.map.entries() <= self.checkpoint.piece => {
                return self.checkpoint_now(false, layer);
            }
            None => {
                self.flush_now()?;
                self.begin_checkpoint()
            }
        };
        // As much of it as the log has grown, of three quarters of what is left of that.
        let (used, left) = (self.log.end() - checkpoint.head.log_position, self.log.blocks() * 3 / 8);
        let due = u128::from(self.state.map.entries()) * u128::from(used) / u128::from(left.max(1));
        let piece = (due as u64).saturating_sub(checkpoint.head.cached).max(self.checkpoint.piece);
        self.counters.pieces += 1;
        match self.write_entries(&mut checkpoint, piece) {
            Ok(false) => {
                self.checkpoint.begun = Some(checkpoint);
                return Ok(());
            }
            Ok(true) => {}
            // Entries that came up twice went beyond what is allocated: in one go each comes up once.
            Err(error) if error.is_no_space() => return self.checkpoint_now(false, layer),
            Err(error) => return Err(error),
        }
        if checkpoint.head.cached > checkpoint.most {
            // Sectors that went from one place to another while it was written have come up too often.
            return self.checkpoint_now(false, layer);
        }
        self.flush_now()?;
        self.finish_checkpoint(checkpoint, false, layer)
    }

    /// Flushes, and writes a whole checkpoint.
    pub(crate) fn checkpoint_now(&mut self, clean: bool, layer: &mut dyn Layer) -> Result<(), ImageError> {
        self.checkpoint.begun = None;
        self.flush_now()?;
        let mut checkpoint = self.begin_checkpoint();
        self.write_entries(&mut checkpoint, u64::MAX)?;
        self.finish_checkpoint(checkpoint, clean, layer)
    }

    fn begin_checkpoint(&self) -> Checkpoint {
        let generation = self.log.generation().wrapping_add(1);
        let area = self.superblock.checkpoints[generation as usize % 2];
        let fixed = self.state.fixed.as_ref().map_or(0, BTreeMap::len);
        let bands = (self.state.moved.len() + fixed) as u64 * MOVED as u64;
        let behind = bands + self.state.zones.count() * ZONE as u64;
        let salt = self.superblock.salt;
        let head = Head {
            generation,
            log_position: self.log.end(),
            entries_crc: salt,
            covered: self.sequence,
            in_place: self.is_in_place(),
            ..Head::default()
        };
        let out = Out { at: area.start + ENTRIES, crc: salt, bytes: Vec::with_capacity(CHUNK + CACHED) };
        let most = area.len.saturating_sub(ENTRIES + behind) / CACHED as u64;
        Checkpoint { head, out, next: Lba(0), most }
    }

    /// Writes entries for cached extents up to a limit; returns whether these were the last, or exceed the area.
    fn write_entries(&mut self, checkpoint: &mut Checkpoint, count: u64) -> Result<bool, ImageError> {
        let Checkpoint { head, out, next, most } = checkpoint;
        let capacity = Sectors(self.superblock.capacity / SECTOR_BYTES);
        let rest = LbaExtent::new(*next, Lba(capacity.get()) - *next);
        let store = self.store.as_mut();
        let (mut left, mut over, mut wrote) = (count, true, Ok(()));
        for found in self.state.found(rest) {
            over = head.cached == *most;
            if left == 0 || over {
                over |= left > 0;
                break;
            }
            over = true;
            encode_cached(&found, &mut out.bytes);
            (*next, left) = (found.lba.end(), left - 1);
            head.cached += 1;
            wrote = wrote.and_then(|()| out.spill(store, CHUNK));
        }
        wrote.and_then(|()| out.spill(store, ALIGNMENT)).map_err(|error| self.failed(WRITE, error))?;
        Ok(over)
    }

    fn finish_checkpoint(
        &mut self,
        checkpoint: Checkpoint,
        clean: bool,
        layer: &mut dyn Layer,
    ) -> Result<(), ImageError> {
        let Checkpoint { mut head, mut out, .. } = checkpoint;
        (head.clean, head.sequence) = (clean, self.sequence);
        let store = self.store.as_mut();
        let mut wrote = Ok(());
        for (&start, &(len, pba)) in &self.state.moved {
            encode_moved(LbaExtent::new(Lba(start), len), pba, &mut out.bytes);
            head.moved += 1;
            wrote = wrote.and_then(|()| out.spill(store, CHUNK));
        }
        if let Some(overwriting) = layer.overwriting() {
            let kept = overwriting.snapshot();
            (head.fragments, head.writers) = (kept.fragments.len() as u64, kept.stamps.len() as u64);
            head.writes = kept.writes;
            for fragment in &kept.fragments {
                encode_fragment(fragment, &mut out.bytes);
                wrote = wrote.and_then(|()| out.spill(store, CHUNK));
            }
            for &(extent, by) in &kept.stamps {
                encode_writer(extent, by, &mut out.bytes);
                wrote = wrote.and_then(|()| out.spill(store, CHUNK));
            }
        }
        for (&start, &(len, pba)) in self.state.fixed.iter().flatten() {
            encode_moved(LbaExtent::new(Lba(start), len), pba, &mut out.bytes);
            head.fixed += 1;
            wrote = wrote.and_then(|()| out.spill(store, CHUNK));
        }
        for record in self.state.zones.iter() {
            encode_zone(record, &mut out.bytes);
            head.zones += 1;
            wrote = wrote.and_then(|()| out.spill(store, CHUNK));
        }
        wrote.and_then(|()| out.end(store)).map_err(|error| self.failed(WRITE, error))?;
        head.entries_crc = out.crc;
        self.stamp_parts(head.generation, false)?;
        self.sync()?;
        let area = self.superblock.checkpoints[head.generation as usize % 2];
        // Both copies at once: either is there or none is, as far as space goes, so that what is refused here can be done
        // again over entries that no head names.
        let heads = [head.encode(self.superblock.salt); 2];
        let written = self.store.write_at(area.start, heads.as_flattened());
        written.map_err(|error| self.failed(WRITE, error))?;
        self.sync()?;
        self.health.unrecorded = false;
        self.log.behind_checkpoint(head.generation, head.log_position);
        self.counters.checkpoints += 1;
        self.write_mark()?;
        self.stamp_parts(head.generation, true)?;
        // No sync follows that would make these two durable.
        if clean { self.sync() } else { Ok(()) }
    }

    /// Writes the heads of all parts but the first: announces a checkpoint, or confirms that it is durable.
    fn stamp_parts(&mut self, generation: u32, confirmed: bool) -> Result<(), ImageError> {
        let identity = self.superblock.identity;
        let stamped = write_part_heads(self.store.as_mut(), identity, generation, confirmed);
        stamped.map_err(|error| self.failed("write the head of a part", error))
    }
}

/// Writes the heads of all parts of a store but the first.
pub(crate) fn write_part_heads(
    store: &mut dyn Store,
    identity: u128,
    generation: u32,
    confirmed: bool,
) -> io::Result<()> {
    for (number, part) in store.parts().iter().enumerate().skip(1).filter(|(_, part)| part.headed) {
        let head = PartHead { identity, number: number as u32, len: part.len, generation, confirmed };
        store.write_head(number, &head.encode())?;
    }
    Ok(())
}

const WRITE: &str = "write a checkpoint";

/// A buffer of entries.
struct Out {
    at: u64,
    crc: u32,
    bytes: Vec<u8>,
}

impl Out {
    /// Writes the whole blocks in the buffer, if it is full.
    fn spill(&mut self, store: &mut dyn Store, least: usize) -> io::Result<()> {
        if self.bytes.len() < least {
            return Ok(());
        }
        let len = self.bytes.len() / ALIGNMENT * ALIGNMENT;
        store.write_at(self.at, &self.bytes[..len])?;
        store.begin_sync(self.at, len as u64);
        self.crc = crc32c::crc32c_append(self.crc, &self.bytes[..len]);
        self.at += len as u64;
        self.bytes.drain(..len);
        Ok(())
    }

    /// Writes the rest.
    fn end(&mut self, store: &mut dyn Store) -> io::Result<()> {
        self.spill(store, ALIGNMENT)?;
        self.crc = crc32c::crc32c_append(self.crc, &self.bytes);
        if self.bytes.is_empty() { Ok(()) } else { store.write_at(self.at, &self.bytes) }
    }
}
