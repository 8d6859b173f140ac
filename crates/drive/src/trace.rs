//! The head trace: where the head was and what for, as columns.
//!
//! Invariant: rows are in the order of time and do not overlap; the room is given beforehand, so that tracing
//! allocates nothing, and rows that find no room are counted.

use skylight_disk::{AccessTiming, Head, Time};
use skylight_layer::Purpose;

/// One access of the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When the head began to move.
    pub start: Time,
    /// When it had arrived.
    pub arrived: Time,
    /// When the first sector came.
    pub transfer_start: Time,
    /// When the last sector had passed.
    pub end: Time,
    /// Where it arrived.
    pub track: u32,
    /// Where it was at the end.
    pub end_track: u32,
    /// Which head, at the end.
    pub surface: u16,
    /// What for.
    pub purpose: Purpose,
}

/// A trace with a bound.
#[derive(Clone, Debug)]
pub struct HeadTrace {
    rows: Vec<TraceRow>,
    capacity: usize,
    lost: u64,
}

impl HeadTrace {
    /// Room for so many rows.
    pub fn new(capacity: usize) -> Self {
        Self { rows: Vec::with_capacity(capacity), capacity, lost: 0 }
    }

    /// The rows.
    pub fn rows(&self) -> &[TraceRow] {
        &self.rows
    }

    /// Accesses that found no room.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    pub(crate) fn record(&mut self, start: Time, arrival: Head, timing: &AccessTiming, purpose: Purpose) {
        if self.rows.len() == self.capacity {
            self.lost += 1;
            return;
        }
        self.rows.push(TraceRow {
            start,
            arrived: timing.arrived,
            transfer_start: timing.transfer_start,
            end: timing.end,
            track: arrival.track,
            end_track: timing.head.track,
            surface: timing.head.surface,
            purpose,
        });
    }
}
