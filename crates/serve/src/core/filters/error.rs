//! Injects faults: by rate, byte range, operation and error, with seeded random numbers.
//!
//! Invariant: a failed command does not reach the backend; the same seed and commands give the same failures.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use serde_json::Value;
use skylight_disk::splitmix64;

use crate::core::faults::Faults;
use crate::core::{Backend, Command, Errno, Failure, Job, Outcome, Setting};

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

    fn check(&self, command: &Command) -> Result<(), Failure> {
        // Faults are replaced as a whole, also if a writer panics.
        let faults = self.faults.read().unwrap_or_else(PoisonError::into_inner);
        let Some(Faults { rate, range, ops, failure, seed }) = &*faults else {
            return Ok(());
        };
        let (offset, len) = (command.offset_bytes(), command.len_bytes());
        let overlaps = offset < range.end && range.start < offset + len.max(1);
        if !overlaps || !(ops.is_empty() || ops.contains(&command.op)) {
            return Ok(());
        }
        let index = self.drawn.fetch_add(1, Ordering::Relaxed);
        if draw(*seed, index) < *rate { Err(*failure) } else { Ok(()) }
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
    ) -> Result<(), Failure> {
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
            |faults| format!("commands fail at rate {} with {}", faults.rate, Errno::from(faults.failure)),
        ))
    }

    fn status(&self) -> Option<(&'static str, Value)> {
        let faults = self.faults.read().unwrap_or_else(PoisonError::into_inner);
        Some(("faults", faults.as_ref().map_or(Value::Null, Faults::to_json)))
    }

    fn submit(&self, job: Job) {
        match self.check(&job.command) {
            Ok(()) => self.inner.submit(job),
            Err(failure) => job.finish(Outcome::Failed(failure)),
        }
    }
}
