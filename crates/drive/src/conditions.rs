//! The environment around a drive in virtual time: what [`Conditions`] do inside the event loop.
//!
//! * The host's gaps, its clock and the link ([`Link`]) change when commands are submitted and what the log says.
//! * Other clients, background scans and states of rest ([`Environment::woken`]) occupy the media and move the head.
//! * A volatile cache, look-ahead or FLUSH that does not obey changes what the drive does.
//!
//! What a target refuses or misreports without the drive noticing (an erase, the reported state of a switch) is not
//! here: the engine that stands in for the target does it.
//!
//! Invariants: a drive without an environment behaves as if this module did not exist; each kind of random event has
//! its own substream, so that one condition does not change the draws of another.
//!
//! Imports both ways with `drive`: a drive has an environment, and what that does to its events is a part of the drive.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use skylight_command::Op;
use skylight_disk::{Nanos, Pba, Sectors, Time};

use crate::drive::Drive;
use crate::jitter::substream;
use crate::link::Link;
use crate::media_timing::Media;
use crate::profile::{Bytes, Conditions, Layer, LookAhead, Profile, VolatileCache};

/// Most reads of other clients that one access waits for. Chosen: a busy disk has short queues of strangers.
const MAX_OTHER_READS: u64 = 4;
/// Size of a read of another client. Chosen: a page of a database, or a block of a small file.
const OTHER_READ: Sectors = Sectors(128);

/// What the drive did while nobody used it, which the next command meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Met {
    /// Nothing.
    Rested,
    /// The heads are off the platters and take this long to come back.
    Parked(Nanos),
    /// A scan, of which this many reads have begun, the last one at that time, each of this size.
    Scanned(u64, Time, Bytes),
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Environment {
    /// The drive has platters and an arm.
    platters: bool,
    link: Link,
    /// Without platters, no state of rest and no scan.
    conditions: Conditions,
    gaps: Pcg64Mcg,
    others: Pcg64Mcg,
    /// Where the background scan goes on.
    next_scanned: Pba,
    /// The media have had no work since then, commands aside.
    media_quiet_since: Time,
}

impl Environment {
    fn new(conditions: &Conditions, platters: bool, seed: u64) -> Self {
        let transport = conditions.transport.nanos();
        let out = Nanos(transport.get() / 2);
        let back = Nanos(transport.get() - out.get());
        Self {
            platters,
            link: Link { out, back, clock: conditions.clock.nanos() },
            conditions: Conditions {
                spin_down: conditions.spin_down.filter(|_| platters),
                head_unload: conditions.head_unload.filter(|_| platters),
                background_scan: conditions.background_scan.filter(|_| platters),
                ..conditions.clone()
            },
            gaps: substream(seed, "world.host-gap"),
            others: substream(seed, "world.other-clients"),
            next_scanned: Pba(0),
            media_quiet_since: Time(0),
        }
    }

    /// The next gap of the host between a completion and a submission.
    fn next_gap(&mut self) -> Nanos {
        let mean_ns = self.conditions.host_gap.ns();
        if mean_ns <= 0.0 {
            return Nanos(0);
        }
        let off = self.conditions.host_gap_jitter * (2.0 * unit(&mut self.gaps) - 1.0);
        Nanos((mean_ns * (1.0 + off)) as u64)
    }

    /// What a command finds that arrives at `at` after nobody used the drive since `since`.
    fn woken(&self, since: Time, at: Time) -> Met {
        let Conditions { spin_down, head_unload, background_scan, .. } = &self.conditions;
        let idle = Nanos(at.get().saturating_sub(since.get()));
        let rests = [spin_down, head_unload].into_iter().flatten();
        let ended = rests.filter(|rest| idle >= rest.after.nanos());
        if let Some(wake) = ended.map(|rest| rest.wake.nanos()).max() {
            return Met::Parked(wake);
        }
        match background_scan {
            Some(scan) if idle >= scan.after.nanos() => {
                let (after, every) = (scan.after.nanos(), scan.every.nanos());
                let begun = (idle.get() - after.get()) / every.get().max(1);
                Met::Scanned(begun + 1, since + after + Nanos(begun * every.get()), scan.size)
            }
            _ => Met::Rested,
        }
    }

    /// How many reads of other clients come before the next access; mostly none.
    fn others_ahead(&mut self) -> u64 {
        let busy_share = self.conditions.busy_share;
        if busy_share <= 0.0 || unit(&mut self.others) >= busy_share {
            return 0;
        }
        1 + below(&mut self.others, MAX_OTHER_READS)
    }
}

/// Uniform in [0, 1).
fn unit(stream: &mut Pcg64Mcg) -> f64 {
    (stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Uniform below `bound`.
fn below(stream: &mut Pcg64Mcg, bound: u64) -> u64 {
    ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u64
}

impl Media {
    /// Executes the reads of other clients from `at` on; returns their end.
    fn read_for_others(&mut self, reads: u64, environment: &mut Environment, at: Time) -> Time {
        let mut at = at;
        for _ in 0..reads {
            at = if environment.platters {
                let place = below(&mut environment.others, self.platter_sectors().get());
                self.read_aside(Pba(place), OTHER_READ, at)
            } else {
                self.read_flash_aside(OTHER_READ, at)
            };
        }
        at
    }
}

impl Drive {
    /// The same drive under conditions: from now on it meets `conditions`, whose random events are drawn from `seed`.
    /// Commands that are outstanding stay as they are. What was written before is not done here; see
    /// [`Drive::in_conditions`].
    pub(crate) fn meet(&mut self, profile: &Profile, conditions: &Conditions, seed: u64) {
        if conditions.is_ideal() {
            return;
        }
        let platters = !matches!(profile.layer, Layer::Ssd(_));
        let mut environment = Environment::new(conditions, platters, seed);
        environment.media_quiet_since = self.now();
        if let Some(on) = conditions.volatile_cache.fixed() {
            self.fix_write_cache(on, Sectors(conditions.volatile_cache_size.get() / 512));
        }
        if conditions.look_ahead == LookAhead::StaysOn {
            self.set_look_ahead(true);
        }
        self.limit_queue(conditions.queue_depth as usize, environment.link.back + environment.link.out);
        self.environment = Some(Box::new(environment));
    }

    /// The state of the volatile cache that no switch changes, if any.
    pub(crate) fn fixed_write_cache(&self) -> Option<bool> {
        self.environment.as_ref()?.conditions.volatile_cache.fixed()
    }

    /// Whether no switch changes look-ahead.
    pub(crate) fn look_ahead_is_fixed(&self) -> bool {
        self.environment
            .as_ref()
            .is_some_and(|environment| environment.conditions.look_ahead == LookAhead::StaysOn)
    }

    /// Whether the target completes this command without doing it.
    #[inline]
    pub(crate) fn swallows(&self, op: Op) -> bool {
        op == Op::Flush
            && self.environment.as_ref().is_some_and(|environment| {
                environment.conditions.volatile_cache == VolatileCache::IgnoresFlush
            })
    }

    /// How the host's log differs from what the drive sees.
    pub(crate) fn link(&self) -> Link {
        self.environment.as_ref().map_or_else(Link::default, |environment| environment.link)
    }

    /// When the host sees a completion at `at`, and when it can submit its next command.
    #[inline]
    pub(crate) fn seen_by_host(&mut self, at: Time, gap: Nanos) -> (Time, Time) {
        match &mut self.environment {
            None => (at, at + gap),
            Some(environment) => {
                let seen = at + environment.link.back;
                (seen, seen + gap + environment.next_gap())
            }
        }
    }

    /// A command comes at `at` to a drive without others: ends what the drive did meanwhile.
    #[inline]
    pub(crate) fn wake(&mut self, at: Time) {
        let Some(environment) = &mut self.environment else { return };
        let since = environment.media_quiet_since.max(self.idle_since);
        match environment.woken(since, at) {
            Met::Rested => {}
            Met::Parked(wake) => {
                self.media.park();
                self.ahead = None;
                self.busy_until = self.busy_until.max(at + wake);
            }
            Met::Scanned(begun, last, size) => {
                let size = Sectors(size.get() / 512);
                let all = self.media.platter_sectors().get();
                let place = Pba((environment.next_scanned.get() + (begun - 1) * size.get()) % all);
                environment.next_scanned = Pba((place.get() + size.get()) % all);
                self.ahead = None;
                // The reads before it left the head where this one begins.
                self.media.move_aside(place);
                let end = self.media.read_aside(place, size, last);
                self.busy_until = self.busy_until.max(end);
            }
        }
    }

    /// The media are about to begin with an access at `at`: other clients may come first.
    #[inline]
    pub(crate) fn give_way(&mut self, at: Time) {
        let Some(environment) = &mut self.environment else { return };
        let reads = environment.others_ahead();
        if reads > 0 {
            self.ahead = None;
            self.busy_until = self.media.read_for_others(reads, environment, at);
        }
    }

    /// The media have had work until now.
    #[inline]
    pub(crate) fn note_media_work(&mut self) {
        if let Some(environment) = &mut self.environment {
            environment.media_quiet_since = environment.media_quiet_since.max(self.busy_until);
        }
    }
}
