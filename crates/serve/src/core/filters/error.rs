//! Injects faults: by rate, byte range, operation and error, with seeded random numbers.
//!
//! Invariant: a failed command does not reach the backend; the same seed and commands give the same failures.

use std::ops::Range;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::{Value, json};
use skylight_disk::splitmix64;

use crate::core::{Backend, Command, Errno, Job, OFFERED, Op, Setting};

/// Which commands fail, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Fraction of the matching commands that fail, 0 to 1.
    pub rate: f64,
    /// Only commands that overlap these bytes.
    pub range: Range<u64>,
    /// Only these operations; empty for all.
    pub ops: Vec<Op>,
    /// The error.
    pub errno: Errno,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { rate: 1.0, range: 0..u64::MAX, ops: Vec::new(), errno: Errno::Io, seed: 1 }
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
                    faults.errno = errno.ok_or_else(|| expected("EIO, ENOSPC, EPERM, EINVAL or ENOMEM"))?;
                }
                "seed" => faults.seed = value.parse().map_err(|_| expected("a number from 0"))?,
                _ => return Err(format!("{key}: unknown; use rate, op, range (bytes A-B), error or seed")),
            }
        }
        Ok(faults)
    }
}

impl Faults {
    fn to_json(&self) -> Value {
        let ops: Vec<_> = self.ops.iter().map(Op::to_string).collect();
        json!({
            "rate": self.rate,
            "range": [self.range.start, self.range.end],
            "ops": ops,
            "error": self.errno.to_string(),
            "seed": self.seed,
        })
    }
}

/// See the module page.
pub struct FaultInjector {
    inner: Arc<dyn Backend>,
    faults: RwLock<Option<Faults>>,
    /// Random numbers drawn since the faults were set.
    drawn: AtomicU64,
}

/// The random number of a command, from 0 to 1.
fn draw(seed: u64, index: u64) -> f64 {
    (splitmix64(seed, index) >> 11) as f64 / (1u64 << 53) as f64
}

impl FaultInjector {
    /// Injects the given faults.
    pub fn new(inner: Arc<dyn Backend>, faults: Faults) -> Self {
        Self { inner, faults: RwLock::new(Some(faults)), drawn: AtomicU64::new(0) }
    }

    fn check(&self, command: &Command) -> Result<(), Errno> {
        // Faults are replaced as a whole, also if a writer panics.
        let faults = self.faults.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Faults { rate, range, ops, errno, seed }) = &*faults else {
            return Ok(());
        };
        let (offset, len) = (command.offset_bytes(), command.len_bytes());
        let overlaps = offset < range.end && range.start < offset + len.max(1);
        if !overlaps || !(ops.is_empty() || ops.contains(&command.op)) {
            return Ok(());
        }
        let index = self.drawn.fetch_add(1, Ordering::Relaxed);
        if draw(*seed, index) < *rate { Err(*errno) } else { Ok(()) }
    }
}

impl super::Filter for FaultInjector {
    fn inner(&self) -> &dyn Backend {
        self.inner.as_ref()
    }

    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.check(command)?;
        self.inner.execute_while(command, data, keep_going)
    }

    fn set(&self, setting: &Setting) -> Option<String> {
        let Setting::Faults(faults) = setting else {
            return None;
        };
        let mut current = self.faults.write().unwrap_or_else(PoisonError::into_inner);
        current.clone_from(faults);
        self.drawn.store(0, Ordering::Relaxed);
        Some(faults.as_ref().map_or_else(
            || "no commands fail".to_owned(),
            |faults| format!("commands fail at rate {} with {}", faults.rate, faults.errno),
        ))
    }

    fn status(&self) -> Option<(&'static str, Value)> {
        let faults = self.faults.read().unwrap_or_else(PoisonError::into_inner);
        Some(("faults", faults.as_ref().map_or(Value::Null, Faults::to_json)))
    }

    fn submit(&self, job: Job) {
        match self.check(&job.command) {
            Ok(()) => self.inner.submit(job),
            Err(errno) => job.finish(Err(errno)),
        }
    }
}
