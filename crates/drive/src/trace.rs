//! The head trace: head positions and the purpose of each access.
//!
//! Invariant: rows are in order of time and do not overlap. The capacity is allocated in advance, so that
//! tracing allocates nothing; rows beyond it are only counted.

use skylight_disk::{AccessTiming, Head, Time};
use skylight_layer::Purpose;

/// One access of the platters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceRow {
    /// When the head began to move.
    pub start: Time,
    /// When it arrived.
    pub arrived: Time,
    /// When the first sector reached the head.
    pub transfer_start: Time,
    /// When the last sector had passed the head.
    pub end: Time,
    /// The track on arrival.
    pub track: u32,
    /// The track at the end.
    pub end_track: u32,
    /// The head at the end.
    pub surface: u16,
    /// The purpose of the access.
    pub purpose: Purpose,
}

/// A head trace of limited capacity.
#[derive(Clone, Debug)]
pub struct HeadTrace {
    rows: Vec<TraceRow>,
    capacity: usize,
    lost: u64,
}

impl HeadTrace {
    /// A trace of up to `capacity` rows.
    pub fn new(capacity: usize) -> Self {
        Self { rows: Vec::with_capacity(capacity), capacity, lost: 0 }
    }

    /// The recorded rows.
    pub fn rows(&self) -> &[TraceRow] {
        &self.rows
    }

    /// Number of accesses beyond the capacity.
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
