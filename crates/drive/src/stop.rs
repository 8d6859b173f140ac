//! When the host stops: as soon as enough of the last commands were slow.
//!
//! A test that fills a cache wants to know when cleaning begins, and not to write on through it.
//!
//! Invariant: the condition looks at completions in the order the drive answers them, at most 64 of them.

use skylight_disk::Nanos;

/// Most completions that a stop can look back on.
pub const LONGEST_LOOK_BACK: u32 = 64;

/// The host submits nothing more once `count` of the last `within` completions took `latency` or longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stop {
    /// What counts as slow.
    pub latency: Nanos,
    /// So many slow ones end it; at least 1.
    pub count: u32,
    /// Among so many; `count` to 64.
    pub within: u32,
}

impl Stop {
    /// Whether the numbers make sense.
    pub(crate) fn is_sound(&self) -> bool {
        (1..=self.within).contains(&self.count) && self.within <= LONGEST_LOOK_BACK
    }
}

/// Follows completions; one bit for each of the last 64.
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

    /// Takes the latency of a completed command.
    #[inline]
    pub(crate) fn completed(&mut self, latency: Nanos) {
        if let Some(stop) = self.stop {
            let mask = u64::MAX >> (LONGEST_LOOK_BACK - stop.within);
            self.slow = ((self.slow << 1) | u64::from(latency >= stop.latency)) & mask;
            self.reached |= self.slow.count_ones() >= stop.count;
        }
    }

    /// Whether the host has stopped.
    #[inline]
    pub(crate) fn reached(&self) -> bool {
        self.reached
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stops_at_the_count_within_the_last_and_not_before() {
        let stop = Stop { latency: Nanos(10), count: 2, within: 3 };
        let mut watch = StopWatch::new(Some(stop));
        let mut after = Vec::new();
        for latency in [10, 9, 9, 12, 1, 10, 1] {
            watch.completed(Nanos(latency));
            after.push(watch.reached());
        }
        assert_eq!(after, [false, false, false, false, false, true, true]);
    }

    #[test]
    fn without_a_condition_nothing_stops() {
        let mut watch = StopWatch::new(None);
        watch.completed(Nanos(u64::MAX));
        assert!(!watch.reached());
    }

    #[test]
    fn looks_back_on_64_at_most() {
        let stop = |count, within| Stop { latency: Nanos(1), count, within };
        assert!(stop(1, 1).is_sound() && stop(64, 64).is_sound());
        assert!(!stop(0, 1).is_sound() && !stop(2, 1).is_sound() && !stop(1, 65).is_sound());
    }
}
