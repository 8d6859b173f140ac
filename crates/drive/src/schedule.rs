//! Which of the commands that wait the heads reach first: shortest positioning first.
//!
//! Commands that were looked up are kept in the order of the angles at which they begin. The choice walks them
//! in the order in which they pass the heads, and the first that the arm reaches in time is the one: nothing
//! behind it on the track's round comes earlier. Where a command lies is kept until a change of the map could
//! have moved it; a layer says which parts of the drive move apart from each other ([`Layer::place_group`]), so
//! that a write forgets a few places and not all.
//!
//! Invariants: a place that is kept is the one that the layer would name now; the choice is that of comparing
//! the positioning times of all, the oldest where several are equal.
//! Source: shortest positioning time first after Jacobson and Wilkes, "Disk scheduling algorithms based on
//! rotational position" (HPL-CSP-91-7).

use std::ops::RangeInclusive;

use skylight_disk::{Angle, Direction, Head, Nanos, Time};
use skylight_layer::{Command, HostOp, Layer, Plan, Step};

use crate::media::Media;

/// Angles and times may miss each other by the rounding to nanoseconds of both.
const ROUNDING_NS: u64 = 8;

/// A command that waits, as the sweep knows it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Its number among all that came: the lower, the older.
    age: u64,
    /// Which changes of the map move it.
    group: u32,
    /// Its number among the spots, or [`UNKNOWN`] where it has to be looked up.
    spot: u32,
}

const UNKNOWN: u32 = u32::MAX;

/// Where a command that was looked up begins.
#[derive(Clone, Copy, Debug)]
struct Spot {
    age: u64,
    /// When the heads may begin to move for it.
    ready: Time,
    angle: Angle,
    head: Head,
    way: Direction,
    /// Whether it lies on the platters; else the heads need not move: it is on flash, or nowhere.
    passes: bool,
}

/// A spot on the platters: what a walk looks at of all of them.
#[derive(Clone, Copy, Debug)]
struct Passing {
    key: u64,
    track: u32,
    way: Direction,
}

impl Passing {
    /// The angle of the spot.
    #[inline]
    fn angle(self) -> u64 {
        self.key & !SPOT_BITS
    }

    /// The number of the spot.
    #[inline]
    fn spot(self) -> usize {
        (self.key & SPOT_BITS) as usize
    }
}

/// The bits of a key that are the number of a spot: as many as no queue has commands. The bits of an angle that
/// they leave are far less than a nanosecond.
const SPOT_BITS: u64 = 0xffff;

impl Spot {
    /// What sorts spots by their angles and names them, in one word.
    #[inline]
    fn key(&self, number: u32) -> u64 {
        (self.angle.0 & !SPOT_BITS) | u64::from(number)
    }

    /// How long the heads take that are in time for it when it passes; none if they are not. Apart from the walk: few
    /// get here.
    #[inline(never)]
    fn reached(&self, media: &Media, now: Time, passes: Nanos) -> Option<Nanos> {
        let waits = self.ready.max(now) - now;
        let moved = media.disk.move_time(media.head, self.head, self.way);
        if (waits + moved).get() > passes.get() + ROUNDING_NS {
            return None;
        }
        let rotation = media.disk.mechanics().rotation;
        let takes = waits + moved + rotation.wait_for(self.angle, now + waits + moved);
        (takes.get() <= passes.get() + 2 * ROUNDING_NS).then_some(takes)
    }

    fn positioning(&self, media: &Media, begin: Time) -> Nanos {
        let moved = media.disk.move_time(media.head, self.head, self.way);
        moved + media.disk.mechanics().rotation.wait_for(self.angle, begin + moved)
    }
}

/// The best so far: how long the heads take, and the command's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    takes: Nanos,
    age: u64,
}

const NONE_YET: Best = Best { takes: Nanos(u64::MAX), age: u64::MAX };

/// See the module page.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Commands that ever came.
    came: u64,
    /// Those that have to be looked up.
    unknown: usize,
    spots: Vec<Spot>,
    /// Numbers of spots that are not in use.
    free: Vec<u32>,
    /// Those on the platters, their keys rising.
    passing: Vec<Passing>,
    /// The numbers of the others.
    still: Vec<u32>,
    /// How many that were looked up are of each group, groups taken together by their last bits: as a rule none is
    /// of the group that a plan changes.
    of_groups: GroupCounts,
}

/// See [`Sweep::of_groups`].
struct GroupCounts([u32; Self::COUNTS]);

impl GroupCounts {
    const COUNTS: usize = 128;

    #[inline]
    fn of(&mut self, group: u32) -> &mut u32 {
        &mut self.0[group as usize % Self::COUNTS]
    }
}

impl Default for GroupCounts {
    fn default() -> Self {
        Self([0; Self::COUNTS])
    }
}

impl Sweep {
    /// A command that comes now.
    #[inline]
    pub(crate) fn admit(&mut self) -> Target {
        self.came += 1;
        self.unknown += 1;
        Target { age: self.came, group: 0, spot: UNKNOWN }
    }

    /// The command that the heads reach first; `ready` is when they may begin to move for each.
    pub(crate) fn nearest(
        &mut self,
        (layer, media): (&dyn Layer, &Media),
        now: Time,
        (commands, targets): (&[Command], &mut [Target]),
        ready: impl Fn(usize) -> Time,
    ) -> usize {
        // As a rule that is the newest alone.
        for (index, target) in targets.iter_mut().enumerate().rev() {
            if self.unknown == 0 {
                break;
            }
            if target.spot == UNKNOWN {
                self.find((layer, media), &commands[index], ready(index), target);
            }
        }
        let (Some(oldest), Some(newest)) = (targets.first(), targets.last()) else {
            return 0;
        };
        // Others that were looked up are not among these.
        let ages = oldest.age..=newest.age;
        let mut best = NONE_YET;
        for &number in &self.still {
            let Spot { age, ready, .. } = self.spots[number as usize];
            if ages.contains(&age) {
                best = best.min(Best { takes: ready.max(now) - now, age });
            }
        }
        best = self.walk(media, now, &ages, best);
        if best == NONE_YET {
            let passing = self.passing.iter().map(|passing| &self.spots[passing.spot()]);
            for spot in passing.filter(|spot| ages.contains(&spot.age)) {
                let begin = spot.ready.max(now);
                best = best.min(Best { takes: begin - now + spot.positioning(media, begin), age: spot.age });
            }
        }
        targets.partition_point(|target| target.age < best.age).min(targets.len() - 1)
    }

    /// Of what passes the heads within a turn, what they are in time for, if it is better than the best so far.
    #[inline]
    fn walk(&self, media: &Media, now: Time, ages: &RangeInclusive<u64>, mut best: Best) -> Best {
        let rotation = media.disk.mechanics().rotation;
        // What passed a moment ago may still be caught.
        let caught = rotation.angle_in(Nanos(ROUNDING_NS));
        let from = rotation.phase(now).since(caught).0 & !SPOT_BITS;
        let last = |best: Best| {
            let takes = Nanos(best.takes.get().saturating_add(2 * ROUNDING_NS));
            rotation.turned_in(takes).0.saturating_add(caught.0)
        };
        let mut until = last(best);
        let middle = self.passing.partition_point(|passing| passing.key < from);
        let (behind, ahead) = self.passing.split_at(middle);
        for part in [ahead, behind] {
            for passing in part {
                let round = passing.angle().wrapping_sub(from);
                if round > until {
                    return best;
                }
                if round < media.disk.turned_at_least(media.head.track, passing.track, passing.way).0 {
                    continue;
                }
                let spot = &self.spots[passing.spot()];
                let passes = rotation.time_for(Angle(round.saturating_sub(caught.0)));
                if let Some(takes) = spot.reached(media, now, passes).filter(|_| ages.contains(&spot.age)) {
                    best = best.min(Best { takes, age: spot.age });
                    until = last(best);
                }
            }
        }
        best
    }

    /// Looks up where a command begins.
    fn find(
        &mut self,
        (layer, media): (&dyn Layer, &Media),
        command: &Command,
        ready: Time,
        target: &mut Target,
    ) {
        let way = if command.op == HostOp::Write { Direction::Write } else { Direction::Read };
        let mut place = None;
        target.group = 0;
        if matches!(command.op, HostOp::Read | HostOp::Write) {
            let (medium, first) = layer.locate_first(command.extent, way == Direction::Write);
            place = media.place(medium, first);
            target.group = layer.place_group(command.extent.start);
        }
        let head = place.map_or(media.head, |place| Head { surface: place.surface, track: place.track });
        let angle = place.map_or(Angle(0), |place| place.angle);
        let spot = Spot { age: target.age, ready, angle, head, way, passes: place.is_some() };
        self.unknown -= 1;
        *self.of_groups.of(target.group) += 1;
        target.spot = self.free.pop().unwrap_or(self.spots.len() as u32);
        match self.spots.get_mut(target.spot as usize) {
            Some(free) => *free = spot,
            None => self.spots.push(spot),
        }
        if spot.passes {
            let key = spot.key(target.spot);
            let at = self.passing.partition_point(|other| other.key < key);
            self.passing.insert(at, Passing { key, track: head.track, way });
        } else {
            self.still.push(target.spot);
        }
    }

    /// Forgets a command that is answered.
    #[inline]
    pub(crate) fn remove(&mut self, target: Target) {
        let Some(spot) = self.spots.get(target.spot as usize) else {
            self.unknown -= 1;
            return;
        };
        self.free.push(target.spot);
        *self.of_groups.of(target.group) -= 1;
        if spot.passes {
            let key = spot.key(target.spot);
            let at = self.passing.partition_point(|other| other.key < key);
            self.passing.remove(at);
        } else {
            self.still.retain(|&other| other != target.spot);
        }
    }

    /// Forgets what the changes of a plan may have moved; those of a trim reach over many groups.
    pub(crate) fn forget(&mut self, layer: &dyn Layer, plan: &Plan, trim: bool, targets: &mut [Target]) {
        let mut done = None;
        for step in plan.steps() {
            let Step::Commit(change) = step else {
                continue;
            };
            let group = layer.place_group(change.extent().start);
            if done == Some(group) {
                continue;
            }
            done = Some(group);
            if !trim && *self.of_groups.of(group) == 0 {
                continue;
            }
            let moves = |target: &Target| (trim || target.group == group) && target.spot != UNKNOWN;
            for target in targets.iter_mut().filter(|target| moves(target)) {
                self.remove(*target);
                self.unknown += 1;
                target.spot = UNKNOWN;
            }
        }
    }
}
