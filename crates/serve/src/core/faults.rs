//! Faults that are injected, as the command line and the control socket name them.
//!
//! Invariant: rates are from 0 to 1, and ranges are not empty.

use std::ops::Range;
use std::str::FromStr;

use serde_json::{Value, json};

use super::{Errno, Failure, OFFERED, Op};

/// The failures that can be injected, each named by the error that clients get for it. EIO is that of a medium: a host that
/// reads it takes the sectors for unreadable.
pub const INJECTED: [Failure; 7] = [
    Failure::Medium,
    Failure::NoSpace,
    Failure::NotPermitted,
    Failure::OutOfRange,
    Failure::NoMemory,
    Failure::Unsupported,
    Failure::Aborted,
];

/// Which commands fail, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Fraction of the matching commands that fail, 0 to 1.
    pub rate: f64,
    /// Only commands that overlap these bytes.
    pub range: Range<u64>,
    /// Only these operations; empty for all.
    pub ops: Vec<Op>,
    /// Why they fail: one of [`INJECTED`].
    pub failure: Failure,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { rate: 1.0, range: 0..u64::MAX, ops: Vec::new(), failure: Failure::Medium, seed: 1 }
    }
}

/// Parses a byte address, also in the form `1e9`.
fn byte(text: &str) -> Option<u64> {
    let whole = |number: f64| (0.0..u64::MAX as f64).contains(&number).then_some(number as u64);
    text.parse().ok().or_else(|| text.parse().ok().and_then(whole))
}

fn operation(name: &str) -> Result<Op, String> {
    OFFERED.into_iter().find(|op| op.to_string() == name).ok_or_else(|| {
        format!("{name}: not an operation; use read, write, flush, trim, write_zeroes or cache")
    })
}

impl FromStr for Faults {
    type Err = String;

    /// `rate=0.01,op=read+write,range=A-B,error=EIO,seed=1`; every part is optional.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut faults = Self::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            let expected = |what: &str| format!("{key} {value}: use {what}");
            match key {
                "rate" => {
                    let rate = value.parse().ok().filter(|rate| (0.0..=1.0).contains(rate));
                    faults.rate = rate.ok_or_else(|| expected("a number from 0 to 1"))?;
                }
                "op" => {
                    let ops: Result<Vec<_>, _> = value.split('+').map(operation).collect();
                    faults.ops.extend(ops?);
                }
                "range" => {
                    let ends = value.split_once('-').and_then(|(from, to)| Some(byte(from)?..byte(to)?));
                    let ends = ends.filter(|range| !range.is_empty());
                    faults.range = ends.ok_or_else(|| expected("bytes A-B with A below B"))?;
                }
                "error" => {
                    let errno = Errno::named(value);
                    let failure = INJECTED.into_iter().find(|&failure| Some(failure.into()) == errno);
                    faults.failure =
                        failure.ok_or_else(|| expected("EIO, ENOSPC, EPERM, EINVAL or ENOMEM"))?;
                }
                "seed" => faults.seed = value.parse().map_err(|_| expected("a number from 0"))?,
                _ => return Err(format!("{key}: unknown; use rate, op, range (bytes A-B), error or seed")),
            }
        }
        Ok(faults)
    }
}

impl Faults {
    /// As the status shows them.
    pub fn to_json(&self) -> Value {
        let ops: Vec<_> = self.ops.iter().map(Op::to_string).collect();
        json!({
            "rate": self.rate,
            "range": [self.range.start, self.range.end],
            "ops": ops,
            "error": Errno::from(self.failure).to_string(),
            "seed": self.seed,
        })
    }
}
