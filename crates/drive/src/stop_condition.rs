//! The stop condition of the host: enough of the latest commands were slow, or one of them very slow.
//!
//! A test that fills a cache needs the moment when cleaning starts, without writing on after it.
//!
//! Invariant: the condition considers at most 64 completions, in the order in which the drive reports them.

use skylight_disk::Nanos;

/// Maximum number of completions that a condition considers.
pub const LONGEST_LOOK_BACK: u32 = 64;

/// The host stops submitting once `count` of the last `within` completions took `latency` or longer, or one took `alone`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// The latency from which a command counts as slow.
    pub latency: Nanos,
    /// The number of slow commands that ends the batch; at least 1.
    pub count: u32,
    /// The number of completions considered; `count` to 64.
    pub within: u32,
    /// The latency from which a single command ends the batch.
    pub alone: Option<Nanos>,
}

impl Stop {
    /// Whether the condition can hold.
    pub(crate) fn is_valid(&self) -> bool {
        (1..=self.within).contains(&self.count) && self.within <= LONGEST_LOOK_BACK
    }
}

/// Tracks completions, with one bit for each of the last 64.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StopWatch {
    stop: Option<Stop>,
    slow: u64,
    reached: bool,
}

impl StopWatch {
    pub(crate) fn new(stop: Option<Stop>) -> Self {
        Self { stop, slow: 0, reached: false }
    }

    /// Records the latency of a completed command.
    #[inline]
    pub(crate) fn completed(&mut self, latency: Nanos) {
        if let Some(stop) = self.stop {
            let mask = u64::MAX >> (LONGEST_LOOK_BACK - stop.within);
            self.slow = ((self.slow << 1) | u64::from(latency >= stop.latency)) & mask;
            self.reached |=
                self.slow.count_ones() >= stop.count || stop.alone.is_some_and(|alone| latency >= alone);
        }
    }

    /// Whether the condition has been met.
    #[inline]
    pub(crate) fn reached(&self) -> bool {
        self.reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_exactly_when_enough_recent_commands_were_slow() {
        let stop = Stop { latency: Nanos(10), count: 2, within: 3, alone: None };
        let mut watch = StopWatch::new(Some(stop));
        let mut after = Vec::new();
        for latency in [10, 9, 9, 12, 1, 10, 1] {
            watch.completed(Nanos(latency));
            after.push(watch.reached());
        }
        assert_eq!(after, [false, false, false, false, false, true, true]);
    }

    #[test]
    fn one_very_slow_command_is_enough() {
        let stop = Stop { latency: Nanos(10), count: 2, within: 3, alone: Some(Nanos(50)) };
        let mut watch = StopWatch::new(Some(stop));
        watch.completed(Nanos(49));
        assert!(!watch.reached());
        watch.completed(Nanos(1));
        watch.completed(Nanos(1));
        watch.completed(Nanos(50));
        assert!(watch.reached());
    }

    #[test]
    fn without_a_condition_the_host_never_stops() {
        let mut watch = StopWatch::new(None);
        watch.completed(Nanos(u64::MAX));
        assert!(!watch.reached());
    }

    #[test]
    fn the_window_is_at_most_64() {
        let stop = |count, within| Stop { latency: Nanos(1), count, within, alone: None };
        assert!(stop(1, 1).is_valid() && stop(64, 64).is_valid());
        assert!(!stop(0, 1).is_valid() && !stop(2, 1).is_valid() && !stop(1, 65).is_valid());
    }
}
