//! How a full cache holds back its host.
//!
//! With a full cache the oldest entries have to go, and a log frees space only at its tail. With writes spread over `n`
//! zones the tail moves a few slots for each zone cleaned, until the last of the `n` zones is clean and all of it is free. A
//! host that waited for a free slot would wait for minutes. So the drive keeps a reserve, and lets each write
//! wait for a fixed time of cleaning before it takes a slot of the reserve: 2 s on the recorded drive, and by steps of a
//! second up to 5 s when cleaning does not get ahead of the host (`docs/zoned.md`).
//!
//! A layer has no clock while it plans, so the time is an estimate of what the steps take ([`Estimate`]).
//!
//! Source: the recordings in `docs/zoned.md`.

use skylight_disk::{Nanos, PbaExtent};

use crate::plan::Step;

/// How writes wait for cleaning.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThrottleSpec {
    /// How long a write waits at first.
    pub first: Nanos,
    /// How much longer it waits each time that cleaning has not got ahead.
    pub step: Nanos,
    /// How long it waits at most.
    pub most: Nanos,
    /// After so many writes the drive looks whether cleaning has got ahead.
    pub writes: u32,
    /// Cleaning has got ahead if it has cleaned at least one of so many zones that were written out of order.
    pub one_in: u32,
}

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Throttle {
    spec: ThrottleSpec,
    now: Nanos,
    writes: u32,
    /// Zones cleaned so far, and when the writes were counted from.
    pub(super) cleaned: u64,
    cleaned_before: u64,
}

impl Throttle {
    pub(super) fn new(spec: ThrottleSpec) -> Self {
        Self { spec, now: spec.first, writes: 0, cleaned: 0, cleaned_before: 0 }
    }

    /// How long the next write waits.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// A write has waited, with so many zones that are written out of order.
    pub(super) fn waited(&mut self, non_sequential: u32) {
        self.writes += 1;
        if self.writes < self.spec.writes {
            return;
        }
        let cleaned = self.cleaned - self.cleaned_before;
        let ahead = cleaned * u64::from(self.spec.one_in) >= u64::from(non_sequential);
        self.now = if ahead { self.spec.first } else { self.spec.most.min(self.now + self.spec.step) };
        (self.writes, self.cleaned_before) = (0, self.cleaned);
    }

    /// A write found a free slot.
    pub(super) fn found_space(&mut self) {
        (self.now, self.writes, self.cleaned_before) = (self.spec.first, 0, self.cleaned);
    }
}

/// What the drive takes its own steps to cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// One revolution.
    pub revolution: Nanos,
    /// A seek over no distance, and what the full stroke takes more.
    pub seek: Nanos,
    /// See [`Estimate::seek`].
    pub stroke: Nanos,
    /// Sectors of all platters.
    pub platters: u64,
    /// Sectors of a track where the cache and the staging area are.
    pub track: u64,
}

impl Estimate {
    /// The time of the accesses of a plan.
    pub(super) fn of(&self, steps: &[Step]) -> Nanos {
        let mut at = None;
        let mut total = 0;
        for step in steps {
            if let Step::Access { extent, .. } = step {
                total += self.access(at, *extent);
                at = Some(extent.end().get());
            }
        }
        Nanos(total)
    }

    /// The time of an access with the heads at `at`, ns.
    fn access(&self, at: Option<u64>, extent: PbaExtent) -> u64 {
        let revolution = self.revolution.get();
        let transfer = extent.len.get() * revolution / self.track.max(1);
        let start = extent.start.get();
        let distance = at.unwrap_or(start).abs_diff(start);
        match at {
            Some(at) if at == start => transfer,
            _ => {
                let stroke =
                    u128::from(self.stroke.get()) * u128::from(distance) / u128::from(self.platters.max(1));
                self.seek.get() + stroke as u64 + revolution / 2 + transfer
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = Nanos(1_000_000_000);

    fn throttle() -> Throttle {
        let (first, step, most) = (Nanos(2 * SECOND.get()), SECOND, Nanos(5 * SECOND.get()));
        Throttle::new(ThrottleSpec { first, step, most, writes: 10, one_in: 100 })
    }

    #[test]
    fn writes_wait_longer_while_cleaning_falls_behind() {
        let mut throttle = throttle();
        (0..25).for_each(|_| throttle.waited(1_000));
        assert_eq!(throttle.now(), Nanos(4 * SECOND.get()));
        (0..100).for_each(|_| throttle.waited(1_000));
        assert_eq!(throttle.now(), Nanos(5 * SECOND.get()), "no longer than that");
    }

    #[test]
    fn writes_wait_the_first_time_while_cleaning_gets_ahead() {
        let mut throttle = throttle();
        for _ in 0..100 {
            throttle.cleaned += 1;
            throttle.waited(1_000);
        }
        assert_eq!(throttle.now(), Nanos(2 * SECOND.get()));
    }
}
