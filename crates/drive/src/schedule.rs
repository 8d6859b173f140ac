//! Which of the commands that wait the heads reach first: shortest positioning first.
//!
//! Where the commands begin that were looked up lies in rows, in no order. A choice goes through all of them at
//! once, several at a time and without a branch that could be guessed wrong: it notes how far the platters turn until
//! each passes the heads, if the arm may be there in time. Of these the first is looked at closely, then the next, until
//! one is reached: what passes later comes no earlier. Where a command lies is kept until a change of the map could
//! have moved it; a layer says which parts of the drive move apart from each other
//! ([`Layer::place_group`]), so that a write forgets a few places and not all.
//!
//! Invariants: a place that is kept is the one that the layer would name now; the choice is that of comparing
//! the positioning times of all, the oldest where several are equal.
//! Source: shortest positioning time first after Jacobson and Wilkes, "Disk scheduling algorithms based on
//! rotational position" (HPL-CSP-91-7).

use std::ops::RangeInclusive;

use skylight_disk::{Angle, Beginning, Direction, Head, Nanos, Pba, Time, TurnFloor};
use skylight_layer::{Command, HostOp, Layer, Medium, Plan, Step};

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
    way: Direction,
    /// Where on the platters; else the heads need not move: it is on flash, or nowhere.
    begins: Option<(Pba, Beginning)>,
}

/// Where the heads have to be, and at which angle.
#[inline]
fn at((_, begins): &(Pba, Beginning)) -> (Head, Angle) {
    let place = begins.place();
    (Head { surface: place.surface, track: place.track }, place.angle)
}

impl Spot {
    /// How long the heads take that are in time for it when it passes; none if they are not. Apart from the rows:
    /// few get here.
    #[inline(never)]
    fn reached(
        &self,
        media: &Media,
        now: Time,
        (head, angle): (Head, Angle),
        passes: Nanos,
    ) -> Option<Nanos> {
        let waits = self.ready.max(now) - now;
        let moved = media.disk.move_time(media.head, head, self.way);
        if (waits + moved).get() > passes.get() + ROUNDING_NS {
            return None;
        }
        let rotation = media.disk.mechanics().rotation;
        let takes = waits + moved + rotation.wait_for(angle, now + waits + moved);
        (takes.get() <= passes.get() + 2 * ROUNDING_NS).then_some(takes)
    }

    fn positioning(&self, media: &Media, now: Time) -> Nanos {
        let waits = self.ready.max(now) - now;
        let takes = |begins: &(Pba, Beginning)| {
            media.disk.positioning(media.head, now + waits, begins.1.place(), self.way)
        };
        waits + self.begins.as_ref().map_or(Nanos(0), takes)
    }
}

/// The best so far: how long the heads take, and the command's age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    takes: Nanos,
    age: u64,
}

const NONE_YET: Best = Best { takes: Nanos(u64::MAX), age: u64::MAX };

/// As many spots are looked at together: what a processor does to several numbers at a time needs rows of one length.
const LANES: usize = 8;

/// What a choice looks at of some spots.
#[derive(Clone, Copy)]
struct Row {
    /// The upper half of the angle.
    angle: [u32; LANES],
    /// The track; one out of reach where the spot is not on the platters, or not in use.
    track: [f32; LANES],
    /// What is added for a write: see [`TurnFloor::settle`].
    settle: [f32; LANES],
    /// Room for the choice: how far the platters turn until the spot passes, in 31 bits of a turn, the lowest of which
    /// are the spot's number; [`LATE`] where the arm is not in time.
    round: [i32; LANES],
}

const LATE: i32 = i32::MAX;

/// Of no spot.
const EMPTY: Row = Row {
    angle: [0; LANES],
    track: [TurnFloor::OUT_OF_REACH; LANES],
    settle: [0.0; LANES],
    round: [LATE; LANES],
};

/// The rows of all spots.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    /// The bits of a round that are a number.
    numbers: i32,
}

impl Rows {
    /// Where a spot passes the heads, and what is added for a write.
    #[inline]
    fn set(&mut self, number: usize, angle: Angle, track: f32, settle: f32) {
        if number / LANES >= self.rows.len() {
            self.rows.resize(number / LANES + 1, EMPTY);
            self.numbers = ((self.rows.len() * LANES).next_power_of_two() - 1) as i32;
        }
        let (row, lane) = (&mut self.rows[number / LANES], number % LANES);
        row.angle[lane] = (angle.0 >> 32) as u32;
        row.track[lane] = track;
        row.settle[lane] = settle;
    }

    /// A spot does not pass any more.
    #[inline]
    fn clear(&mut self, number: usize) {
        self.rows[number / LANES].track[number % LANES] = TurnFloor::OUT_OF_REACH;
    }

    /// Notes the rounds from an angle on, with the heads on a track.
    #[inline]
    fn note(&mut self, floor: TurnFloor, from: Angle, track: u32) {
        let (from, track, numbers) = ((from.0 >> 32) as u32, track as f32, self.numbers);
        let mut first = 0;
        for row in &mut self.rows {
            for lane in 0..LANES {
                let ahead = row.angle[lane].wrapping_sub(from);
                let in_time =
                    (ahead >> 8) as i32 as f32 >= floor.between(track, row.track[lane], row.settle[lane]);
                let round = ((ahead >> 1) as i32 & !numbers) | (first + lane as i32);
                row.round[lane] = if in_time { round } else { LATE };
            }
            first += LANES as i32;
        }
    }

    /// The spot that passes first of those noted, and the turn until then, which the halves of the angles make a little
    /// less or next to nothing more; it is noted no more.
    #[inline]
    fn next(&mut self) -> Option<(usize, Angle)> {
        let mut firsts = [LATE; LANES];
        for row in &self.rows {
            for (first, &round) in firsts.iter_mut().zip(&row.round) {
                *first = round.min(*first);
            }
        }
        let first = firsts.into_iter().fold(LATE, i32::min);
        if first == LATE {
            return None;
        }
        let number = (first & self.numbers) as usize;
        self.rows[number / LANES].round[number % LANES] = LATE;
        Some((number, Angle(u64::from((first & !self.numbers) as u32) << 33)))
    }
}

/// See the module page.
#[derive(Default)]
pub(crate) struct Sweep {
    /// Commands that ever came.
    came: u64,
    /// Those that have to be looked up.
    unknown: usize,
    spots: Vec<Spot>,
    rows: Rows,
    /// Numbers of spots that are not in use.
    free: Vec<u32>,
    /// The numbers of those that are not on the platters.
    still: Vec<u32>,
    /// The address that was looked up last, and where it is.
    latest: Option<(Pba, Beginning)>,
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
        parts: (&dyn Layer, &Media),
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
                self.find(parts, &commands[index], ready(index), target);
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
        best = self.pass(parts.1, now, &ages, best);
        if best == NONE_YET {
            let spots = targets.iter().map(|target| &self.spots[target.spot as usize]);
            let takes = spots.map(|spot| Best { takes: spot.positioning(parts.1, now), age: spot.age });
            best = takes.min().unwrap_or(best);
        }
        targets.partition_point(|target| target.age < best.age).min(targets.len() - 1)
    }

    /// Of what passes the heads within a turn, what they are in time for, if it is better than the best so far.
    #[inline]
    fn pass(&mut self, media: &Media, now: Time, ages: &RangeInclusive<u64>, mut best: Best) -> Best {
        let rotation = media.disk.mechanics().rotation;
        // What passed a moment ago may still be caught.
        let caught = rotation.angle_in(Nanos(ROUNDING_NS));
        let last = |best: Best| {
            let takes = Nanos(best.takes.get().saturating_add(2 * ROUNDING_NS));
            rotation.turned_in(takes).0.saturating_add(caught.0)
        };
        let from = rotation.phase(now).since(caught);
        self.rows.note(media.disk.turn_floor(), from, media.head.track);
        let mut until = last(best);
        while let Some((number, turned)) = self.rows.next().filter(|&(_, turned)| turned.0 <= until) {
            let spot = &self.spots[number];
            let Some((head, angle)) = spot.begins.as_ref().map(at) else {
                continue;
            };
            let round = angle.since(from);
            debug_assert!(turned.0 <= round.0.saturating_add(1 << 32), "no more than the rounding more");
            let passes = rotation.time_for(Angle(round.0.saturating_sub(caught.0)));
            let takes = spot.reached(media, now, (head, angle), passes);
            if let Some(takes) = takes.filter(|_| ages.contains(&spot.age)) {
                best = best.min(Best { takes, age: spot.age });
                until = last(best);
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
        let mut begins = None;
        target.group = 0;
        if matches!(command.op, HostOp::Read | HostOp::Write) {
            let (medium, first) = layer.locate_first(command.extent, way == Direction::Write);
            begins = (medium == Medium::Platter).then(|| (first, self.beginning(media, first)));
            target.group = layer.place_group(command.extent.start);
        }
        self.unknown -= 1;
        *self.of_groups.of(target.group) += 1;
        target.spot = self.put(Spot { age: target.age, ready, way, begins });
        if let Some((head, angle)) = begins.as_ref().map(at) {
            let settle = media.disk.turn_floor().settle(way == Direction::Write);
            self.rows.set(target.spot as usize, angle, head.track as f32, settle);
        } else {
            self.still.push(target.spot);
        }
    }

    /// Where an address is. Many writes in a row go to the same one: the end of a log.
    #[inline]
    fn beginning(&mut self, media: &Media, first: Pba) -> Beginning {
        match self.latest {
            Some((latest, begins)) if latest == first => begins,
            _ => {
                let begins = media.disk.beginning(first);
                self.latest = Some((first, begins));
                begins
            }
        }
    }

    /// Where a command begins on the platters, if it was looked up and does.
    #[inline]
    pub(crate) fn begins(&self, target: Target) -> Option<(Pba, Beginning)> {
        self.spots.get(target.spot as usize)?.begins
    }

    /// Gives a spot a number.
    #[inline]
    fn put(&mut self, spot: Spot) -> u32 {
        if let Some(number) = self.free.pop() {
            self.spots[number as usize] = spot;
            return number;
        }
        self.spots.push(spot);
        self.spots.len() as u32 - 1
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
        if spot.begins.is_some() {
            self.rows.clear(target.spot as usize);
        } else {
            self.still.retain(|&other| other != target.spot);
        }
    }

    /// Forgets where anything is.
    pub(crate) fn forget_all(&mut self, targets: &mut [Target]) {
        for target in targets.iter_mut().filter(|target| target.spot != UNKNOWN) {
            self.remove(*target);
            self.unknown += 1;
            target.spot = UNKNOWN;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::random::{Kind, random_profile};
    use proptest::prelude::*;
    use skylight_disk::{BLOCK_SECTORS, Lba, LbaExtent, Sectors};
    use skylight_layer::{CommandId, Conventional};

    /// How long the heads take for a command, and what is chosen where it takes no longer: all of them compared.
    fn least(media: &Media, now: Time, commands: &[Command], ready: &[Time]) -> (Nanos, usize) {
        let takes = commands.iter().zip(ready).map(|(command, &ready)| {
            let way = if command.op == HostOp::Write { Direction::Write } else { Direction::Read };
            let place = media.disk.geometry().place(Pba(command.extent.start.get()));
            let begin = ready.max(now);
            begin - now + media.disk.positioning(media.head, begin, &place, way)
        });
        takes.enumerate().map(|(index, takes)| (takes, index)).min().expect("something waits")
    }

    proptest! {
        #[test]
        fn the_choice_is_that_of_comparing_all(
            seed in 0u64..200,
            commands in prop::collection::vec((any::<bool>(), 0.0f64..1.0, 0u64..200_000), 1..70),
            gone in prop::collection::vec(0usize..70, 0..40),
            at_ns in 0u64..100_000_000,
        ) {
            let text = random_profile(seed, Some(Kind::Conventional)).unwrap();
            let drive = crate::Drive::new(&Profile::from_toml(&text, "random").unwrap(), seed).unwrap();
            let blocks = drive.capacity().0 / BLOCK_SECTORS;
            let layer = Conventional::new(Medium::Platter, drive.capacity());
            let media = Media::new(drive.disk().clone(), None, 1);
            let ready: Vec<Time> = commands.iter().map(|&(_, _, ready_ns)| Time(at_ns + ready_ns)).collect();
            let commands: Vec<Command> = (0..).zip(&commands).map(|(id, &(write, at, _))| Command {
                id: CommandId(id),
                op: if write { HostOp::Write } else { HostOp::Read },
                extent: LbaExtent::new(Lba((at * blocks as f64) as u64 * BLOCK_SECTORS), Sectors(BLOCK_SECTORS)),
            }).collect();
            let mut sweep = Sweep::default();
            let targets = commands.iter().map(|_| sweep.admit());
            let mut waiting: Vec<(Command, Time, Target)> =
                commands.iter().zip(&ready).zip(targets).map(|((&c, &r), t)| (c, r, t)).collect();
            let mut now = Time(at_ns);
            for gone in std::iter::once(usize::MAX).chain(gone) {
                if gone < waiting.len() {
                    sweep.remove(waiting.remove(gone).2);
                }
                if waiting.is_empty() {
                    break;
                }
                let commands: Vec<Command> = waiting.iter().map(|w| w.0).collect();
                let ready: Vec<Time> = waiting.iter().map(|w| w.1).collect();
                let mut targets: Vec<Target> = waiting.iter().map(|w| w.2).collect();
                let chosen = sweep.nearest((&layer, &media), now, (&commands, &mut targets), |index| ready[index]);
                prop_assert_eq!(chosen, least(&media, now, &commands, &ready).1);
                for (waits, target) in waiting.iter_mut().zip(targets) {
                    waits.2 = target;
                }
                now += Nanos(123_457);
            }
        }
    }
}
