//! The pacer: the thread that runs virtual time at the rate of the wall clock. It submits commands to the
//! drive as they arrive and completes them when they are due.
//!
//! Invariants: the lock of the drive is not held while replies are sent; submitters hold the lock of the
//! submission queue only to push a command; at shutdown, commands still in the queue are aborted.

use std::num::NonZeroU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skylight_disk::{Nanos, Time};

use super::lateness::Lateness;
use super::model::{Done, ModelDrive};
use crate::core::{Failure, Job};

/// Commands that have arrived and are not submitted to the drive yet.
#[derive(Default)]
pub(super) struct SubmissionQueue {
    pub(super) jobs: Vec<(Job, Instant)>,
    pub(super) closed: bool,
}

/// The state of the pacer, which status and block status also read.
pub(super) struct State {
    pub(super) model: ModelDrive,
    pub(super) lateness: Lateness,
}

pub(super) struct Shared {
    pub(super) submissions: Mutex<SubmissionQueue>,
    pub(super) arrived: Condvar,
    pub(super) state: Mutex<State>,
    /// The wall-clock time at virtual time `base`.
    pub(super) origin: Instant,
    pub(super) base: Time,
}

/// The overshoot of sleeps on this machine, measured because it is 5 us on one machine and 100 us on another.
/// The thread stops sleeping this long before a completion is due, and spins.
struct SleepOvershoot {
    overshoot: Duration,
}

/// Initial and maximum overshoot: on an overloaded machine spinning for longer would not help.
const OVERSHOOT_BOUNDS: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(200)];

impl Default for SleepOvershoot {
    fn default() -> Self {
        Self { overshoot: OVERSHOOT_BOUNDS[0] }
    }
}

impl SleepOvershoot {
    /// Decaying maximum of recent overshoot, with a margin of a quarter.
    fn record(&mut self, excess: Duration) {
        let decayed = self.overshoot - self.overshoot / 128;
        self.overshoot = decayed.max(excess + excess / 4).min(OVERSHOOT_BOUNDS[1]);
    }
}

impl Shared {
    // A panic while data moves leaves an unknown state, so the lock stays poisoned. The pacer has ended then,
    // and dropping its commands has completed them.
    pub(super) fn state(&self) -> Result<MutexGuard<'_, State>, Failure> {
        self.state.lock().map_err(|_| Failure::Internal)
    }

    pub(super) fn submissions(&self) -> MutexGuard<'_, SubmissionQueue> {
        self.submissions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn virtual_at(&self, instant: Instant) -> Time {
        let passed = instant.saturating_duration_since(self.origin).as_nanos();
        self.base + Nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn wall_at(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos((time - self.base).get())
    }

    /// Waits until commands arrive or a completion is due. Returns the commands that arrived, or `None` at
    /// shutdown.
    fn wait(&self, due: Option<Instant>, sleep: &mut SleepOvershoot) -> Option<Vec<(Job, Instant)>> {
        let mut submissions = self.submissions();
        loop {
            if !submissions.jobs.is_empty() {
                return Some(std::mem::take(&mut submissions.jobs));
            }
            if submissions.closed {
                return None;
            }
            let Some(due) = due else {
                submissions = self.arrived.wait(submissions).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            let left = due.saturating_duration_since(now);
            submissions = if left.is_zero() {
                return Some(Vec::new());
            } else if left <= sleep.overshoot {
                drop(submissions);
                std::hint::spin_loop();
                self.submissions()
            } else {
                let duration = left - sleep.overshoot;
                let (submissions, end) =
                    self.arrived.wait_timeout(submissions, duration).unwrap_or_else(PoisonError::into_inner);
                if end.timed_out() {
                    sleep.record(now.elapsed().saturating_sub(duration));
                }
                submissions
            };
        }
    }

    pub(super) fn pace(&self) {
        // The default timer slack of the kernel is 50 us. A failure to reduce it is harmless.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (mut done, mut sleep) = (Vec::new(), SleepOvershoot::default());
        let mut due = self.state().ok().and_then(|state| state.model.next());
        while let Some(mut jobs) = self.wait(due.map(|time| self.wall_at(time)), &mut sleep) {
            // Dropping a cancelled command completes it.
            jobs.retain(|(job, _)| !job.is_cancelled());
            let Ok(mut guard) = self.state() else {
                return;
            };
            let State { model, lateness } = &mut *guard;
            for (job, arrived) in jobs {
                model.submit(job, self.virtual_at(arrived));
            }
            model.pass(self.virtual_at(Instant::now()), &mut done);
            due = model.next().map(|time| time + Nanos(1));
            let now = Instant::now();
            for answer in &done {
                lateness.count(now.saturating_duration_since(self.wall_at(answer.due)));
            }
            drop(guard);
            done.drain(..).for_each(Done::finish);
        }
    }
}
