//! The thread that lets virtual time run with the wall clock: it feeds commands to the drive as they come, and sends
//! answers when they are due.
//!
//! Invariants: the lock of the drive is not held while answers are sent; whoever asks takes the lock of the inbox for
//! as long as it takes to push a command; at the end what was not fed is answered by ESHUTDOWN.

use std::num::NonZeroU64;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use skylight_disk::{Nanos, Time};

use super::lateness::Lateness;
use super::model::{Done, ModelDrive};
use crate::core::{Errno, Job};

/// What came and was not fed yet.
#[derive(Default)]
pub(super) struct Inbox {
    pub(super) jobs: Vec<(Job, Instant)>,
    pub(super) over: bool,
}

/// What the pacer has to itself, and what looks at the drive.
pub(super) struct State {
    pub(super) model: ModelDrive,
    pub(super) lateness: Lateness,
}

pub(super) struct Shared {
    pub(super) inbox: Mutex<Inbox>,
    pub(super) came: Condvar,
    pub(super) state: Mutex<State>,
    /// When virtual time was `base`.
    pub(super) origin: Instant,
    pub(super) base: Time,
}

/// How much longer than asked for this machine lets a thread sleep: measured, for it is 5 us on one machine and 100
/// on the next. So long before something is due, the clock is watched and no more slept.
struct Sleep {
    overshoot: Duration,
}

/// What nothing is known of yet, and what is watched at most: a sleep on a machine that is overloaded ends when it ends.
const OVERSHOOT: [Duration; 2] = [Duration::from_micros(50), Duration::from_micros(200)];

impl Default for Sleep {
    fn default() -> Self {
        Self { overshoot: OVERSHOOT[0] }
    }
}

impl Sleep {
    /// Decaying maximum of recent overshoot: the next sleep should not be too long either.
    fn learn(&mut self, over: Duration) {
        let faded = self.overshoot - self.overshoot / 128;
        self.overshoot = faded.max(over + over / 4).min(OVERSHOOT[1]);
    }
}

impl Shared {
    // A panic while bytes move leaves a state that nobody should use; the pacer is gone then, and what it held
    // was answered as it was dropped.
    pub(super) fn state(&self) -> Result<MutexGuard<'_, State>, Errno> {
        self.state.lock().map_err(|_| Errno::Io)
    }

    pub(super) fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn virtual_at(&self, instant: Instant) -> Time {
        let passed = instant.saturating_duration_since(self.origin).as_nanos();
        self.base + Nanos(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    fn wall_at(&self, time: Time) -> Instant {
        self.origin + Duration::from_nanos((time - self.base).get())
    }

    /// Waits until a command comes or something is due; the commands that came, none at the end.
    fn wait(&self, due: Option<Instant>, sleep: &mut Sleep) -> Option<Vec<(Job, Instant)>> {
        let mut inbox = self.inbox();
        loop {
            if !inbox.jobs.is_empty() {
                return Some(std::mem::take(&mut inbox.jobs));
            }
            if inbox.over {
                return None;
            }
            let Some(due) = due else {
                inbox = self.came.wait(inbox).unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            let left = due.saturating_duration_since(now);
            inbox = if left.is_zero() {
                return Some(Vec::new());
            } else if left <= sleep.overshoot {
                drop(inbox);
                std::hint::spin_loop();
                self.inbox()
            } else {
                let nap = left - sleep.overshoot;
                let (inbox, end) = self.came.wait_timeout(inbox, nap).unwrap_or_else(PoisonError::into_inner);
                if end.timed_out() {
                    sleep.learn(now.elapsed().saturating_sub(nap));
                }
                inbox
            };
        }
    }

    pub(super) fn pace(&self) {
        // The kernel wakes a thread up to 50 us late unless asked not to; it is as well without.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        let (mut done, mut sleep) = (Vec::new(), Sleep::default());
        let mut due = self.state().ok().and_then(|state| state.model.next());
        while let Some(mut jobs) = self.wait(due.map(|time| self.wall_at(time)), &mut sleep) {
            // Dropped, they are answered: nobody waits for them.
            jobs.retain(|(job, _)| !job.is_cancelled());
            let Ok(mut guard) = self.state() else {
                return;
            };
            let State { model, lateness } = &mut *guard;
            for (job, came) in jobs {
                model.submit(job, self.virtual_at(came));
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
