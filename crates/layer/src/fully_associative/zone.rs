//! A zone of a fully-associative drive: which slot holds what.
//!
//! Invariants: a slot is the place of one logical band, or a log, or free, or the destination of the cleaning
//! that goes on, and only one of these; a log has a live sector between two commands; `current`, `streams` and
//! `spares` name different logs; a log is written from its start on and never over what it holds.

use std::collections::VecDeque;

use skylight_disk::BLOCK_SECTORS;

use super::layout::Layout;

/// A host write in a log; memory for it is taken once a write, so it is small.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    /// Its first sector, counted from the start of the zone.
    pub lba: u32,
    /// Where that lies in the log.
    pub offset: u32,
    /// Sectors.
    pub len: u32,
}

/// A free band that serves as a log.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// The slot.
    pub slot: u32,
    /// Its number among all logs that the drive ever opened.
    pub opened: u64,
    /// Sectors written.
    pub written: u32,
    /// Sectors that the map finds in it.
    pub live: u32,
    /// What was written, in order.
    pub records: Vec<Record>,
    /// The records before this one hold nothing live.
    pub first: usize,
}

/// A log that so far holds a logical band from its start on, in order, and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// The logical band.
    pub band: u32,
    /// The slot of the log.
    pub slot: u32,
}

/// As many bands of a zone may be streamed at a time.
const STREAMS: usize = 4;

/// See the module page.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// Sectors of a slot.
    band: u32,
    /// By logical band: its slot plus one, or 0 for its native one. Empty until a band was remapped.
    moved: Vec<u32>,
    /// By slot: the index of its log plus one, or 0 for none.
    log_of: Vec<u32>,
    /// Slots that hold nothing.
    pub free: Vec<u32>,
    /// Oldest first.
    pub logs: VecDeque<Log>,
    /// The slot of the log that writes are appended to, and the index of that log.
    current: Option<(u32, usize)>,
    /// Least recently continued first.
    pub streams: Vec<Stream>,
    /// Logs with room whose stream was broken, oldest first: the next to be appended to.
    pub spares: VecDeque<u32>,
}

impl Zone {
    pub fn new(layout: &Layout, zone: usize, band: u32) -> Self {
        Self {
            band,
            moved: Vec::new(),
            log_of: vec![0; layout.slots(zone) as usize],
            free: layout.free_slots(zone).collect(),
            logs: VecDeque::new(),
            current: None,
            streams: Vec::new(),
            spares: VecDeque::new(),
        }
    }

    /// The slot of a logical band that was remapped.
    #[inline]
    pub fn moved(&self, band: u32) -> Option<u32> {
        self.moved.get(band as usize)?.checked_sub(1)
    }

    /// Remaps a logical band of `bands`.
    pub fn move_band(&mut self, band: u32, bands: u32, slot: u32) {
        if self.moved.is_empty() {
            self.moved = vec![0; bands as usize];
        }
        self.moved[band as usize] = slot + 1;
    }

    /// The free slot nearest to another slot.
    pub fn nearest_free(&self, near: u32) -> Option<u32> {
        self.free.iter().copied().min_by_key(|&slot| (slot.abs_diff(near), slot))
    }

    /// Takes the free slot nearest to another slot.
    pub fn take_free(&mut self, near: u32) -> Option<u32> {
        let slot = self.nearest_free(near)?;
        self.free.retain(|&other| other != slot);
        Some(slot)
    }

    #[inline]
    fn index(&self, slot: u32) -> Option<usize> {
        match self.current {
            // As a rule it is this one, and no more need be read from memory.
            Some((current, index)) if current == slot => Some(index),
            _ => Some(self.log_of[slot as usize].checked_sub(1)? as usize),
        }
    }

    /// The log in a slot.
    #[inline]
    pub fn log(&self, slot: u32) -> Option<&Log> {
        self.logs.get(self.index(slot)?)
    }

    /// Sectors written in the log in a slot.
    #[inline]
    pub fn written(&self, slot: u32) -> u32 {
        self.log(slot).map_or(0, |log| log.written)
    }

    /// Whether the log in a slot has room.
    #[inline]
    pub fn has_room(&self, slot: u32) -> bool {
        self.written(slot) < self.band
    }

    /// Makes a slot that was taken a log.
    pub fn open(&mut self, slot: u32, opened: u64) {
        self.logs.push_back(Log { slot, opened, written: 0, live: 0, records: Vec::new(), first: 0 });
        self.log_of[slot as usize] = self.logs.len() as u32;
    }

    /// Appends to a log as much of a run of host sectors as it has room for: how much that is, and where.
    pub fn append(&mut self, slot: u32, lba: u32, len: u64) -> Option<(u32, u32)> {
        let index = self.index(slot)?;
        let log = &mut self.logs[index];
        let offset = log.written;
        let here = len.min((self.band - offset).into()) as u32;
        log.written += here;
        log.live += here;
        match log.records.last_mut() {
            Some(last) if last.lba + last.len == lba && last.offset + last.len == offset => last.len += here,
            _ => log.records.push(Record { lba, offset, len: here }),
        }
        if log.written == self.band {
            log.records.shrink_to_fit();
        }
        Some((offset, here))
    }

    /// Something was found live in a log.
    pub fn take_up(&mut self, slot: u32, record: Record) {
        let end = (record.offset + record.len).next_multiple_of(BLOCK_SECTORS as u32).min(self.band);
        if let Some(index) = self.index(slot) {
            let log = &mut self.logs[index];
            log.written = log.written.max(end);
            log.live += record.len;
            log.records.push(record);
        }
    }

    /// Where the next block of a log begins; the end of the log if there is no room for one.
    #[inline]
    pub fn next_block(&self, slot: u32) -> u32 {
        self.written(slot).next_multiple_of(BLOCK_SECTORS as u32).min(self.band)
    }

    /// The next write to a log begins with a block.
    pub fn pad(&mut self, slot: u32) {
        let next = self.next_block(slot);
        if let Some(index) = self.index(slot) {
            self.logs[index].written = next;
        }
    }

    /// So many sectors of a log are not found there any more; whether it is empty now.
    pub fn release(&mut self, slot: u32, sectors: u64) -> bool {
        let Some(index) = self.index(slot) else {
            debug_assert!(false, "an exception points into slot {slot}, which is no log");
            return false;
        };
        self.logs[index].live -= sectors as u32;
        self.logs[index].live == 0
    }

    /// Logs without a live sector are free bands again.
    pub fn reap(&mut self) {
        let empty = |zone: &Self| zone.logs.iter().find(|log| log.live == 0).map(|log| log.slot);
        while let Some(slot) = empty(self) {
            self.close(slot);
            self.free.push(slot);
        }
    }

    /// A slot is no log any more.
    pub fn close(&mut self, slot: u32) {
        let Some(index) = self.index(slot) else {
            return;
        };
        self.logs.remove(index);
        self.log_of[slot as usize] = 0;
        for (index, log) in self.logs.iter().enumerate().skip(index) {
            self.log_of[log.slot as usize] = index as u32 + 1;
        }
        self.current = self.current.filter(|&(current, _)| current != slot).map(|(current, at)| {
            let closed_before = usize::from(index < at);
            (current, at - closed_before)
        });
        self.streams.retain(|stream| stream.slot != slot);
        self.spares.retain(|&spare| spare != slot);
    }

    /// The slot that a logical band is streamed to.
    #[inline]
    pub fn stream(&self, band: u32) -> Option<u32> {
        self.streams.iter().find(|stream| stream.band == band).map(|stream| stream.slot)
    }

    /// A stream will not be the whole band: what is there stays, and the room behind it is for any write.
    pub fn break_stream(&mut self, band: u32) {
        if let Some(index) = self.streams.iter().position(|stream| stream.band == band) {
            let Stream { slot, .. } = self.streams.remove(index);
            self.pad(slot);
            if self.has_room(slot) {
                self.spares.push_back(slot);
            }
        }
    }

    /// Whether a band may be streamed: to a free band that cleaning does not need, and not while what other
    /// streams left is still unused.
    pub fn may_stream(&self, threshold: usize) -> bool {
        self.free.len() > threshold && self.spares.is_empty()
    }

    /// Begins to stream a band to a slot that was taken.
    pub fn begin_stream(&mut self, stream: Stream, opened: u64) {
        if self.streams.len() == STREAMS {
            self.break_stream(self.streams[0].band);
        }
        self.open(stream.slot, opened);
        self.streams.push(stream);
    }

    /// A stream was continued: it is the last to be given up for another one.
    pub fn touch_stream(&mut self, band: u32) {
        if self.streams.last().is_some_and(|last| last.band != band)
            && let Some(index) = self.streams.iter().position(|stream| stream.band == band)
        {
            self.streams[index..].rotate_left(1);
        }
    }

    /// The log that writes are appended to.
    #[inline]
    pub fn current(&self) -> Option<u32> {
        self.current.map(|(slot, _)| slot)
    }

    /// The same, if it has room.
    #[inline]
    pub fn current_with_room(&self) -> Option<u32> {
        self.current().filter(|&slot| self.has_room(slot))
    }

    /// Where the next write that is no stream goes, if that needs no cleaning, and whether it is free yet.
    pub fn next_room(&self, near: u32, threshold: usize) -> Option<(u32, bool)> {
        if let Some(slot) = self.current_with_room() {
            return Some((slot, false));
        }
        if let Some(&slot) = self.spares.front() {
            return Some((slot, false));
        }
        if self.free.len() > threshold {
            return self.nearest_free(near).map(|slot| (slot, true));
        }
        let streamed = self.streams.iter().find(|stream| self.next_block(stream.slot) < self.band);
        streamed.map(|stream| (stream.slot, false))
    }

    /// Makes the slot that [`Zone::next_room`] found the log that writes are appended to; logs that this opens.
    pub fn append_next_to(&mut self, slot: u32, free: bool, opened: u64) -> u64 {
        if self.current() == Some(slot) {
            return 0;
        }
        if let Some(stream) = self.streams.iter().find(|stream| stream.slot == slot) {
            self.break_stream(stream.band);
        }
        self.spares.retain(|&spare| spare != slot);
        if free {
            self.free.retain(|&other| other != slot);
            self.open(slot, opened);
        }
        self.current = self.index(slot).map(|index| (slot, index));
        free.into()
    }
}
