//! Random conditions: what a host meets besides the drive, one draw per seed.
//!
//! The [`Choice`]s, [`CONDITION_RANGES`] and [`CONDITION_CHANCES`] are the whole table; `docs/conditions.md` explains it.
//!
//! Invariants: as for random drives, each condition has its own stream of random numbers; a drive and the conditions of
//! the same seed are independent.

use super::draw::Draws;
use super::ranges::{Chance, Range, Scale};
use crate::profile::{
    BackgroundScan, Bytes, Conditions, Duration, Erase, LookAhead, PriorUse, Rest, VolatileCache,
};

/// The values of conditions that are words or steps, with the fraction of hosts that have each.
#[derive(Clone, Copy, Debug)]
pub struct Choice<T: 'static> {
    /// The condition, which also names its stream of random numbers.
    pub name: &'static str,
    /// Each value and its fraction; the fractions add up to 1.
    pub values: &'static [(T, f64)],
}

impl<T: Copy> Choice<T> {
    fn drawn(&self, draws: Draws) -> Option<T> {
        let mut at = draws.unit(&format!("conditions.{}", self.name));
        for &(value, part) in self.values {
            at -= part;
            if at < 0.0 {
                return Some(value);
            }
        }
        // The fractions add up to 1 but for rounding.
        self.values.last().map(|&(value, _)| value)
    }
}

/// How the target can be erased: half of all targets cannot.
pub const ERASE: Choice<Erase> =
    Choice { name: "erase", values: &[(Erase::None, 0.5), (Erase::Trim, 0.25), (Erase::Sanitize, 0.25)] };
/// Look-ahead.
pub const LOOK_AHEAD: Choice<LookAhead> =
    Choice { name: "look_ahead", values: &[(LookAhead::Obeys, 0.5), (LookAhead::StaysOn, 0.5)] };
/// The depth of the queue: that of USB, of a small controller, of SATA.
pub const QUEUE_DEPTH: Choice<u32> =
    Choice { name: "queue_depth", values: &[(1, 1.0 / 3.0), (4, 1.0 / 3.0), (31, 1.0 / 3.0)] };
/// The volatile cache.
pub const VOLATILE_CACHE: Choice<VolatileCache> = Choice {
    name: "volatile_cache",
    values: &[
        (VolatileCache::Off, 0.25),
        (VolatileCache::On, 0.25),
        (VolatileCache::SaidOff, 0.25),
        (VolatileCache::IgnoresFlush, 0.25),
    ],
};
/// What the drive was used for before.
pub const PRIOR_USE: Choice<PriorUse> = Choice {
    name: "prior_use",
    values: &[
        (PriorUse::New, 0.25),
        (PriorUse::HalfFull, 0.25),
        (PriorUse::Full, 0.25),
        (PriorUse::WholeDrive, 0.25),
    ],
};
/// The granularity of the host's clock, us.
pub const CLOCK_US: Choice<u32> = Choice { name: "clock", values: &[(1, 0.5), (1000, 0.5)] };

const PROMISED: &str = "promised: docs/conditions.md, Ranges";
const TIMERS: &str = "chosen: timers and times that data sheets of disks name";

const fn range(
    name: &'static str,
    (low, high): (f64, f64),
    scale: Scale,
    digits: usize,
    source: &'static str,
) -> Range {
    Range { name, low, high, scale, digits, source }
}

const HOST_GAP_US: Range = range("conditions.host_gap_us", (0.0, 500.0), Scale::Linear, 3, PROMISED);
const HOST_GAP_JITTER: Range = range(
    "conditions.host_gap_jitter",
    (0.0, 0.5),
    Scale::Linear,
    2,
    "chosen: a thread that wakes up on time, or on a busy core",
);
const TRANSPORT_US: Range = range("conditions.transport_us", (0.0, 2_000.0), Scale::Linear, 3, PROMISED);
const VOLATILE_CACHE_MIB: Range = range(
    "conditions.volatile_cache_mib",
    (8.0, 256.0),
    Scale::Log,
    2,
    "chosen: as the caches of random drives; used where the profile has none",
);
const SPIN_DOWN_AFTER_S: Range =
    range("conditions.spin_down_after_s", (10.0, 1_800.0), Scale::Log, 2, TIMERS);
const SPIN_UP_S: Range = range("conditions.spin_up_s", (4.0, 20.0), Scale::Linear, 2, TIMERS);
const UNLOAD_AFTER_S: Range = range("conditions.unload_after_s", (0.3, 120.0), Scale::Log, 2, TIMERS);
const LOAD_S: Range = range("conditions.load_s", (0.2, 1.5), Scale::Linear, 2, TIMERS);
const SCAN_AFTER_S: Range = range("conditions.scan_after_s", (0.2, 5.0), Scale::Log, 2, TIMERS);
const SCAN_EVERY_MS: Range = range("conditions.scan_every_ms", (50.0, 2_000.0), Scale::Log, 2, TIMERS);
const SCAN_KIB: Range =
    range("conditions.scan_kib", (64.0, 2_048.0), Scale::Log, 2, "chosen: part of a track to a few");

/// All ranges.
pub const CONDITION_RANGES: &[Range] = &[
    HOST_GAP_US,
    HOST_GAP_JITTER,
    TRANSPORT_US,
    VOLATILE_CACHE_MIB,
    SPIN_DOWN_AFTER_S,
    SPIN_UP_S,
    UNLOAD_AFTER_S,
    LOAD_S,
    SCAN_AFTER_S,
    SCAN_EVERY_MS,
    SCAN_KIB,
];

const OFTEN: &str = "chosen: often enough to be tried, with and without";

const fn chance(name: &'static str, source: &'static str) -> Chance {
    Chance { name, part: 0.5, source }
}

const SPIN_DOWN: Chance = chance("conditions.spin_down", OFTEN);
const HEAD_UNLOAD: Chance = chance("conditions.head_unload", OFTEN);
const BACKGROUND_SCAN: Chance = chance("conditions.background_scan", OFTEN);
const BUSY: Chance = chance("conditions.busy", OFTEN);

/// All probabilities.
pub const CONDITION_CHANCES: &[Chance] = &[SPIN_DOWN, HEAD_UNLOAD, BACKGROUND_SCAN, BUSY];

/// Fraction of the accesses of a busy disk that wait for other clients: promised.
pub const BUSY_SHARE: f64 = 0.1;

/// The conditions of a seed.
pub fn random_conditions(seed: u64) -> Conditions {
    let draws = Draws { seed };
    let seconds = |range: &Range| Duration::from_ns(draws.number(range) * 1e9);
    let us = |range: &Range| Duration::from_ns((draws.number(range) * 1e3).round());
    let rest = |has: &Chance, after: &Range, wake: &Range| {
        draws.chance(has).then(|| Rest { after: seconds(after), wake: seconds(wake) })
    };
    let ideal = Conditions::default();
    Conditions {
        erase: ERASE.drawn(draws).unwrap_or_default(),
        look_ahead: LOOK_AHEAD.drawn(draws).unwrap_or_default(),
        queue_depth: QUEUE_DEPTH.drawn(draws).unwrap_or(ideal.queue_depth),
        volatile_cache: VOLATILE_CACHE.drawn(draws).unwrap_or_default(),
        volatile_cache_size: Bytes((draws.number(&VOLATILE_CACHE_MIB) as u64) << 20),
        prior_use: PRIOR_USE.drawn(draws).unwrap_or_default(),
        host_gap: us(&HOST_GAP_US),
        host_gap_jitter: draws.number(&HOST_GAP_JITTER),
        clock: Duration::from_ns(f64::from(CLOCK_US.drawn(draws).unwrap_or(1)) * 1e3),
        transport: us(&TRANSPORT_US),
        spin_down: rest(&SPIN_DOWN, &SPIN_DOWN_AFTER_S, &SPIN_UP_S),
        head_unload: rest(&HEAD_UNLOAD, &UNLOAD_AFTER_S, &LOAD_S),
        background_scan: draws.chance(&BACKGROUND_SCAN).then(|| BackgroundScan {
            after: seconds(&SCAN_AFTER_S),
            every: Duration::from_ns(draws.number(&SCAN_EVERY_MS) * 1e6),
            size: Bytes((draws.number(&SCAN_KIB) / 4.0).round().max(1.0) as u64 * 4096),
        }),
        busy_share: if draws.chance(&BUSY) { BUSY_SHARE } else { 0.0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drawn_conditions_are_valid_and_of_their_seed() {
        for seed in 0..200 {
            let drawn = random_conditions(seed);
            assert_eq!(Conditions::from_text(&drawn.to_toml(), "drawn"), Ok(drawn.clone()), "seed {seed}");
            assert_eq!(drawn, random_conditions(seed), "seed {seed}");
        }
        assert_ne!(random_conditions(1), random_conditions(2));
    }

    #[test]
    fn values_come_in_their_fractions() {
        let drawn: Vec<_> = (0..4000).map(random_conditions).collect();
        let part = |holds: &dyn Fn(&Conditions) -> bool| {
            drawn.iter().filter(|each| holds(each)).count() as f64 / drawn.len() as f64
        };
        let near = |found: f64, part: f64| assert!((found - part).abs() < 0.03, "{found} is not {part}");
        near(part(&|each| each.erase == Erase::None), 0.5);
        near(part(&|each| each.queue_depth == 1), 1.0 / 3.0);
        near(part(&|each| each.volatile_cache == VolatileCache::IgnoresFlush), 0.25);
        near(part(&|each| each.prior_use == PriorUse::WholeDrive), 0.25);
        near(part(&|each| each.spin_down.is_some()), 0.5);
        near(part(&|each| each.host_gap.ns() < 250e3), 0.5);
    }

    #[test]
    fn the_page_has_every_range() {
        let page = include_str!("../../../../docs/conditions.md");
        for range in CONDITION_RANGES {
            let name = range.name.trim_start_matches("conditions.");
            let row = format!("| `{name}` | {} | {} |", range.low, range.high);
            assert!(page.contains(&row), "no row {row}");
        }
        for chance in CONDITION_CHANCES {
            let name = chance.name.trim_start_matches("conditions.");
            assert!(page.contains(&format!("| `{name}`")), "{name}");
        }
    }
}
