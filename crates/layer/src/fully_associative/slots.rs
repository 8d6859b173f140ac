//! A zone of a fully-associative drive: the use of each slot.
//!
//! Invariants: a slot is exactly one of these: the location of a logical band, a log, free, or the
//! destination of the current merge; between commands, every log has a live sector; `current`, `streams` and
//! `spares` refer to different logs; a log is written sequentially from its start and is never overwritten.

use std::collections::VecDeque;

use skylight_disk::BLOCK_SECTORS;

use super::layout::Layout;

/// A host write in a log. Kept small, since there is one for every write.
#[derive(Clone, Copy, Debug)]
pub(super) struct LogRecord {
    /// The first sector, counted from the start of the zone.
    pub lba: u32,
    /// The offset in the log, in sectors.
    pub offset: u32,
    /// Number of sectors.
    pub len: u32,
}

/// A free band that serves as a log.
#[derive(Clone, Debug)]
pub(super) struct Log {
    /// The slot.
    pub slot: u32,
    /// The number of logs that the drive had opened before.
    pub opened: u64,
    /// Sectors written.
    pub written: u32,
    /// Sectors in it to which the map points.
    pub live: u32,
    /// The writes, in order.
    pub records: Vec<LogRecord>,
    /// The first record that may have live sectors.
    pub first: usize,
}

/// A log that contains only the beginning of one logical band, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stream {
    /// The logical band.
    pub band: u32,
    /// The slot of the log.
    pub slot: u32,
}

/// Maximum number of streams in a zone.
const STREAMS: usize = 4;

/// See the module documentation.
#[derive(Clone, Debug)]
pub(super) struct Zone {
    /// Sectors of a slot.
    band: u32,
    /// By logical band: its slot plus one, or 0 for its native one. Empty until a band is remapped.
    remapped: Vec<u32>,
    /// By slot: the index of its log plus one, or 0 if it is not a log.
    log_of: Vec<u32>,
    /// Free slots.
    pub free: Vec<u32>,
    /// The logs, oldest first.
    pub logs: VecDeque<Log>,
    /// The slot and the index of the log to which writes are appended.
    current: Option<(u32, usize)>,
    /// The streams, the least recently continued first.
    pub streams: Vec<Stream>,
    /// Logs of broken streams that still have space, oldest first: the next to append to.
    pub spares: VecDeque<u32>,
}

impl Zone {
    pub fn new(layout: &Layout, zone: usize, band: u32) -> Self {
        Self {
            band,
            remapped: Vec::new(),
            log_of: vec![0; layout.slots(zone) as usize],
            free: layout.free_slots(zone).collect(),
            logs: VecDeque::new(),
            current: None,
            streams: Vec::new(),
            spares: VecDeque::new(),
        }
    }

    /// The slot of a logical band, if it was remapped.
    #[inline]
    pub fn remapped(&self, band: u32) -> Option<u32> {
        self.remapped.get(band as usize)?.checked_sub(1)
    }

    /// Remaps a logical band of a zone of `bands` bands.
    pub fn remap(&mut self, band: u32, bands: u32, slot: u32) {
        if self.remapped.is_empty() {
            self.remapped = vec![0; bands as usize];
        }
        self.remapped[band as usize] = slot + 1;
    }

    /// The free slot nearest to another slot.
    pub fn nearest_free(&self, near: u32) -> Option<u32> {
        self.free.iter().copied().min_by_key(|&slot| (slot.abs_diff(near), slot))
    }

    /// Allocates the free slot nearest to another slot.
    pub fn take_free(&mut self, near: u32) -> Option<u32> {
        let slot = self.nearest_free(near)?;
        self.free.retain(|&other| other != slot);
        Some(slot)
    }

    #[inline]
    fn index(&self, slot: u32) -> Option<usize> {
        match self.current {
            // The common case, without a memory access.
            Some((current, index)) if current == slot => Some(index),
            _ => Some(self.log_of[slot as usize].checked_sub(1)? as usize),
        }
    }

    /// The log in a slot.
    #[inline]
    pub fn log(&self, slot: u32) -> Option<&Log> {
        self.logs.get(self.index(slot)?)
    }

    /// Sectors written to the log in a slot.
    #[inline]
    pub fn written(&self, slot: u32) -> u32 {
        self.log(slot).map_or(0, |log| log.written)
    }

    /// Whether the log in a slot has space.
    #[inline]
    pub fn has_space(&self, slot: u32) -> bool {
        self.written(slot) < self.band
    }

    /// Makes an allocated slot a log.
    pub fn open(&mut self, slot: u32, opened: u64) {
        self.logs.push_back(Log { slot, opened, written: 0, live: 0, records: Vec::new(), first: 0 });
        self.log_of[slot as usize] = self.logs.len() as u32;
    }

    /// Appends as many of `len` host sectors to a log as fit. Returns their offset in the log and their
    /// number.
    pub fn append(&mut self, slot: u32, lba: u32, len: u64) -> Option<(u32, u32)> {
        let index = self.index(slot)?;
        let log = &mut self.logs[index];
        let offset = log.written;
        let here = len.min((self.band - offset).into()) as u32;
        log.written += here;
        log.live += here;
        match log.records.last_mut() {
            Some(last) if last.lba + last.len == lba && last.offset + last.len == offset => last.len += here,
            _ => log.records.push(LogRecord { lba, offset, len: here }),
        }
        if log.written == self.band {
            log.records.shrink_to_fit();
        }
        Some((offset, here))
    }

    /// Adds a recovered record to a log.
    pub fn recover_record(&mut self, slot: u32, record: LogRecord) {
        let end = (record.offset + record.len).next_multiple_of(BLOCK_SECTORS as u32).min(self.band);
        if let Some(index) = self.index(slot) {
            let log = &mut self.logs[index];
            log.written = log.written.max(end);
            log.live += record.len;
            log.records.push(record);
        }
    }

    /// The offset of the next block of a log; the end of the log if it is full.
    #[inline]
    pub fn next_block(&self, slot: u32) -> u32 {
        self.written(slot).next_multiple_of(BLOCK_SECTORS as u32).min(self.band)
    }

    /// Pads a log, so that its next write starts at a block boundary.
    pub fn pad(&mut self, slot: u32) {
        let next = self.next_block(slot);
        if let Some(index) = self.index(slot) {
            self.logs[index].written = next;
        }
    }

    /// Releases live sectors of a log. Returns whether it is now empty.
    pub fn release(&mut self, slot: u32, sectors: u64) -> bool {
        let Some(index) = self.index(slot) else {
            debug_assert!(false, "an exception points to slot {slot}, which is not a log");
            return false;
        };
        self.logs[index].live -= sectors as u32;
        self.logs[index].live == 0
    }

    /// Frees the logs without a live sector.
    pub fn free_empty_logs(&mut self) {
        let empty = |zone: &Self| zone.logs.iter().find(|log| log.live == 0).map(|log| log.slot);
        while let Some(slot) = empty(self) {
            self.close(slot);
            self.free.push(slot);
        }
    }

    /// Ends the use of a slot as a log.
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

    /// The slot to which a logical band is streamed.
    #[inline]
    pub fn stream(&self, band: u32) -> Option<u32> {
        self.streams.iter().find(|stream| stream.band == band).map(|stream| stream.slot)
    }

    /// Breaks a stream that cannot complete its band: its data stays, and other writes may use the space
    /// after it.
    pub fn break_stream(&mut self, band: u32) {
        if let Some(index) = self.streams.iter().position(|stream| stream.band == band) {
            let Stream { slot, .. } = self.streams.remove(index);
            self.pad(slot);
            if self.has_space(slot) {
                self.spares.push_back(slot);
            }
        }
    }

    /// Whether a stream may start: there must be a free band that cleaning does not need, and no unused space
    /// of broken streams.
    pub fn may_stream(&self, threshold: usize) -> bool {
        self.free.len() > threshold && self.spares.is_empty()
    }

    /// Starts a stream to an allocated slot.
    pub fn start_stream(&mut self, stream: Stream, opened: u64) {
        if self.streams.len() == STREAMS {
            self.break_stream(self.streams[0].band);
        }
        self.open(stream.slot, opened);
        self.streams.push(stream);
    }

    /// Marks a stream as the most recently continued: the last to be broken for another one.
    pub fn touch_stream(&mut self, band: u32) {
        if self.streams.last().is_some_and(|last| last.band != band)
            && let Some(index) = self.streams.iter().position(|stream| stream.band == band)
        {
            self.streams[index..].rotate_left(1);
        }
    }

    /// The log to which writes are appended.
    #[inline]
    pub fn current(&self) -> Option<u32> {
        self.current.map(|(slot, _)| slot)
    }

    /// The same, if it has space.
    #[inline]
    pub fn current_with_space(&self) -> Option<u32> {
        self.current().filter(|&slot| self.has_space(slot))
    }

    /// The slot for the next write outside streams, and whether it is still free; `None` if that needs
    /// cleaning.
    pub fn next_log(&self, near: u32, threshold: usize) -> Option<(u32, bool)> {
        if let Some(slot) = self.current_with_space() {
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

    /// Appends further writes to the slot that [`Zone::next_log`] returned. Returns the number of logs
    /// opened.
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
