//! The record of reads of overwritten sectors: which write destroyed them, and when.
//!
//! Invariant: records are in the order of the reads; no more than [`Log::ROOM`] wait to be taken, and the
//! oldest give way.

use std::collections::VecDeque;
use std::fmt;

use skylight_disk::{LbaExtent, Pba, Time};

use super::stamps::Stamp;

/// Sectors that a read asked for and that one write had destroyed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LostRead {
    /// When they were read.
    pub read_at: Time,
    /// What the host calls them.
    pub lba: LbaExtent,
    /// Where they lie.
    pub place: Pba,
    /// Where the data comes from that lies there now.
    pub source: Pba,
    /// The write that did it.
    pub by: Stamp,
}

impl fmt::Display for LostRead {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { read_at, lba, place, source, by } = self;
        write!(
            f,
            "read of {} sectors at LBA {} at {:.6} s: overwritten at PBA {place} by write {} to PBA {source} \
             at {:.6} s",
            lba.len,
            lba.start,
            read_at.get() as f64 / 1e9,
            by.write,
            by.at.get() as f64 / 1e9,
        )
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub struct Log {
    records: VecDeque<LostRead>,
    dropped: u64,
}

impl Log {
    /// Records that wait, at most.
    pub const ROOM: usize = 4096;

    /// Records that wait, oldest first.
    pub fn records(&self) -> impl ExactSizeIterator<Item = &LostRead> {
        self.records.iter()
    }

    /// Records that gave way to newer ones.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// Takes the records that wait.
    pub fn drain(&mut self) -> impl Iterator<Item = LostRead> + '_ {
        self.records.drain(..)
    }

    pub(super) fn push(&mut self, record: LostRead) {
        if self.records.len() == Self::ROOM {
            self.records.pop_front();
            self.dropped += 1;
        }
        self.records.push_back(record);
    }
}
