//! Which home zones a host overwrites again and again, so that rewriting one now would be for nothing.
//!
//! A zone that is rewritten between two writes of a host is rewritten again after the second, and each time the host's commands find
//! the heads elsewhere. So a zone waits until it has been silent for twice the longest of its late pauses. Before a pause was
//! seen it waits for as long as its rewriting takes, the wait that costs at most twice the best one whatever the host does; only
//! pauses longer than that are distinguished from the host's writing.
//!
//! A host that stops or gets busy while zones wait pays for their rewriting then. So idle time that would pass unused is spent on the
//! zones that have been silent longest ([`Silences::pause`]), as far as an [`Allowance`] goes: what is rewritten for nothing takes a
//! known share of the time. Which of two zones will be written first is not known, but the one that was silent for longer rarely is.
//!
//! Invariants: a zone that was never overwritten never waits, nor does any for longer than [`MOST_WAIT`].
//! Source: the wait at first is the classical break-even rule of renting or buying (Karlin et al., "Competitive Snoopy Caching",
//! Algorithmica 3, 1988).

use std::collections::BTreeMap;

use skylight_disk::{Nanos, Time};

/// The longest wait. Chosen: one rewrite of a zone in an hour disturbs nobody, and what is in the log makes recovery longer.
pub const MOST_WAIT: Nanos = Nanos(3_600_000_000_000);
/// How much of its longest pause a zone keeps with each further one. Chosen: as far as the fourth back counts a third.
const KEPT: (u64, u64) = (3, 4);

/// What of the time may go to zones that have not waited to the end. Chosen: the heads are where the host left them for at least
/// three quarters of it.
const ALLOWED: f64 = 0.25;
/// Most that is saved up, ns. Chosen: some ten zones, so that a host that comes back after a night does not find an hour of cleaning.
const MOST_SAVED_NS: f64 = 30e9;

/// Time that may be spent on zones that have not waited to the end: a share of the time that passes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Allowance {
    saved_ns: f64,
    at: Option<Time>,
}

impl Allowance {
    /// Whether there is any now.
    pub fn is_left(&mut self, now: Time) -> bool {
        let passed = self.at.map_or(Nanos(0), |at| now - at);
        self.at = Some(now);
        self.saved_ns = (self.saved_ns + ALLOWED * passed.get() as f64).min(MOST_SAVED_NS);
        self.saved_ns > 0.0
    }

    /// Takes what was spent, which may be more than there was.
    pub fn spend(&mut self, spent: Nanos) {
        self.saved_ns -= spent.get() as f64;
    }
}

#[derive(Clone, Copy, Debug)]
struct Silence {
    last_write: Time,
    longest_pause: Nanos,
}

impl Silence {
    fn wait(&self, rewriting: Nanos) -> Nanos {
        rewriting.max(Nanos(self.longest_pause.get().saturating_mul(2))).min(MOST_WAIT)
    }
}

/// See the module page. A zone that was written costs an entry of a tree, for good.
#[derive(Clone, Debug, Default)]
pub struct Silences {
    zones: BTreeMap<u32, Silence>,
}

impl Silences {
    /// Notes an overwrite in a zone whose rewriting takes so long.
    pub fn note(&mut self, zone: u32, now: Time, rewriting: Nanos) {
        let new = Silence { last_write: now, longest_pause: Nanos(0) };
        let silence = self.zones.entry(zone).or_insert(new);
        let pause = now - silence.last_write;
        if pause >= rewriting {
            let kept = Nanos(silence.longest_pause.get() / KEPT.1 * KEPT.0);
            silence.longest_pause = pause.max(kept);
        }
        silence.last_write = now;
    }

    /// Whether it has been silent for so long that it will probably stay so.
    pub fn is_over(&self, zone: u32, now: Time, rewriting: Nanos) -> bool {
        self.zones.get(&zone).is_none_or(|silence| now - silence.last_write >= silence.wait(rewriting))
    }

    /// For how long it has been silent, if that is a pause; a zone that was never overwritten, for ever.
    pub fn pause(&self, zone: u32, now: Time, rewriting: Nanos) -> Option<Nanos> {
        let silent = self.zones.get(&zone).map_or(Nanos(u64::MAX), |silence| now - silence.last_write);
        (silent >= rewriting).then_some(silent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const REWRITING: Nanos = Nanos(3_000_000_000);

    fn at(seconds: u64) -> Time {
        Time(seconds * 1_000_000_000)
    }

    /// Seconds from a zone's last write until its silence is over.
    fn wait_s(silences: &Silences, last: u64) -> u64 {
        (0..10_000).find(|&wait| silences.is_over(7, at(last + wait), REWRITING)).expect("it ends")
    }

    #[test]
    fn a_zone_waits_for_its_rewriting_and_then_for_twice_its_pauses() {
        let mut silences = Silences::default();
        assert!(silences.is_over(7, at(0), REWRITING), "never written");
        silences.note(7, at(0), REWRITING);
        assert_eq!(wait_s(&silences, 0), 3);
        silences.note(7, at(2), REWRITING);
        assert_eq!(wait_s(&silences, 2), 3, "2 s are no pause");
        silences.note(7, at(62), REWRITING);
        assert_eq!(wait_s(&silences, 62), 120);
    }

    #[test]
    fn an_allowance_is_a_share_of_the_time_and_not_saved_up_for_ever() {
        let mut allowance = Allowance::default();
        assert!(!allowance.is_left(at(1000)), "nothing has passed");
        assert!(allowance.is_left(at(1010)));
        allowance.spend(Nanos(8_000_000_000));
        assert!(!allowance.is_left(at(1020)), "5.5 s were owed, and 2.5 s came");
        assert!(allowance.is_left(at(1033)));
        assert!(allowance.is_left(at(100_000)));
        allowance.spend(Nanos(31_000_000_000));
        assert!(!allowance.is_left(at(100_001)));
    }

    #[test]
    fn a_pause_is_longer_than_rewriting() {
        let mut silences = Silences::default();
        silences.note(7, at(0), REWRITING);
        silences.note(7, at(50), REWRITING);
        assert_eq!(silences.pause(7, at(52), REWRITING), None);
        assert_eq!(silences.pause(7, at(60), REWRITING), Some(Nanos(10_000_000_000)));
        assert!(
            silences.pause(8, at(60), REWRITING) > silences.pause(7, at(60), REWRITING),
            "never overwritten"
        );
    }

    #[test]
    fn long_pauses_are_forgotten_with_time_and_no_wait_is_endless() {
        let mut silences = Silences::default();
        let mut last = 0;
        for pause in [0, 100_000, 10, 10, 10, 10, 10, 10] {
            last += pause;
            silences.note(7, at(last), REWRITING);
            assert!(wait_s(&silences, last) <= 3600);
        }
        for _ in 0..40 {
            last += 10;
            silences.note(7, at(last), REWRITING);
        }
        assert_eq!(wait_s(&silences, last), 20);
    }
}
