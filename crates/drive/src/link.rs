//! What is between a host and its drive: the link, and the clock that the host reads.
//!
//! Invariant: what the host's clock shows is never later than the time.

use skylight_disk::{Nanos, Time};

/// How the log differs from what the drive sees.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    /// Time from the submission of a command until the drive has it.
    pub(crate) out: Nanos,
    /// Time from a completion in the drive until the host sees it.
    pub(crate) back: Nanos,
    /// Granularity of the host's clock.
    pub(crate) clock: Nanos,
}

impl Default for Link {
    /// The host is at the drive, with a clock of a nanosecond.
    fn default() -> Self {
        Self { out: Nanos(0), back: Nanos(0), clock: Nanos(1) }
    }
}

impl Link {
    /// What the host's clock shows at `time`, ns.
    #[inline]
    pub(crate) fn read_clock(self, time: Time) -> u64 {
        match self.clock.get() {
            0 | 1 => time.get(),
            step => time.get() - time.get() % step,
        }
    }
}
