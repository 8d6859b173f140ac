//! The numbers of a drive's host interface, and how long a command takes to pass it.

use skylight_command::{Command, Op};
use skylight_disk::{Nanos, Sectors};

use crate::profile::{Schedule, WriteBack};

/// The drive's host interface.
///
/// More than 15 fields: one for each key of the profile's section.
#[derive(Clone, Copy, Debug)]
pub struct HostInterface {
    /// Maximum number of commands in the drive's queue.
    pub queue_depth: usize,
    /// The order in which the drive serves them.
    pub schedule: Schedule,
    /// Number of accesses among which the drive chooses the nearest where the order is up to it.
    pub positioning_window: usize,
    /// Time from the arrival of a command until the heads may move for it.
    pub command_overhead: Nanos,
    /// Time from a completion until the host submits the next command.
    pub host_gap: Nanos,
    /// Size of the volatile write cache; zero for a drive without one.
    pub write_cache: Sectors,
    /// Maximum number of runs in the write cache; `None` if only its size limits it.
    pub write_cache_runs: Option<usize>,
    /// Whether the write cache is on at power-on.
    pub write_cache_on: bool,
    /// Which cached writes leave first.
    pub write_back: WriteBack,
    /// By which share of the expected time the seek to a cached write that was chosen by position lasts longer at most.
    pub positioning_error: f64,
    /// Time without a write after which the cache is destaged; until then only as far as a command needs it. `None`: at once.
    pub write_back_after: Option<Nanos>,
    /// How many runs of cached writes a drive with zones chooses at a time.
    pub write_back_pass: usize,
    /// By which share of the expected time the seek to such a run lasts longer at most.
    pub write_back_error: f64,
    /// Time between two runs of such a pass.
    pub write_back_pause: Nanos,
    /// How much later a write that waits gets the space of such a run, unless it is the first of its pass.
    pub write_back_hand_over: Nanos,
    /// How much later an entry of the log is written for each cached write in it beyond the first.
    pub write_back_gather: Nanos,
    /// Bytes per second from the host to the drive; `None` if that is no limit.
    pub transfer_rate: Option<u64>,
    /// How far a read continues into the drive's buffer.
    pub read_buffer: Sectors,
    /// Whether look-ahead is on at power-on.
    pub look_ahead: bool,
    /// Whether the drive parks its heads when it is idle and has no background work.
    pub park_when_idle: bool,
}

impl HostInterface {
    /// Time from the arrival of a command until the heads may move for it, or the volatile cache has it.
    #[inline]
    pub(super) fn overhead(&self, command: &Command) -> Nanos {
        match self.transfer_rate {
            Some(rate) if matches!(command.op, Op::Write | Op::Append) => {
                let ns = u128::from(command.extent.len.bytes()) * 1_000_000_000 / u128::from(rate.max(1));
                self.command_overhead + Nanos(ns as u64)
            }
            _ => self.command_overhead,
        }
    }
}
