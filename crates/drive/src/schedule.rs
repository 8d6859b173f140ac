//! The SPTF queue: finds the waiting command that the heads reach first (shortest positioning time first).
//!
//! Of all located candidates a choice computes first when they pass the heads, provided that the arm can be there in
//! time (`rotational_delays.rs`). It then examines the candidates exactly, in
//! the order in which they pass, until the heads reach one: a later one cannot be reached earlier. A location
//! stays valid until a change of the map may have moved it. The layer divides the drive into groups that
//! change independently ([`Layer::location_group`]), so that a write invalidates few locations.
//!
//! Invariants: a stored location is the one that the layer would return now; the choice is the same as
//! comparing the positioning times of all candidates, the oldest of equals.
//! Source: shortest positioning time first after Jacobson and Wilkes, "Disk scheduling algorithms based on
//! rotational position" (HPL-CSP-91-7).

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use skylight_command::{Command, Op};
use skylight_disk::{AccessStart, Angle, Direction, Head, Nanos, Pba, Time};
use skylight_layer::{Layer, Medium, Plan, Step};

use crate::media_timing::Media;
use crate::rotational_delays::Rotations;

/// Margin between angles and times, each rounded to nanoseconds.
const ROUNDING_NS: u64 = 8;

/// If more candidates than this are located for each command of a choice, the choice examines its own instead of all.
/// Chosen: between 1 and 16 no difference is seen. A cache that is full of writes to 100 zones, of which a choice is among 12
/// anywhere, takes four times longer without this.
const FEW: usize = 4;

/// A waiting command and its candidate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Target {
    /// Sequence number of admission: the lower, the older.
    age: u64,
    /// The group whose map changes move it.
    group: u32,
    /// Index of its candidate, or [`UNKNOWN`] until it is located.
    candidate: u32,
}

const UNKNOWN: u32 = u32::MAX;

/// A located command.
#[derive(Clone, Copy, Debug)]
struct Candidate {
    age: u64,
    /// When the heads may start to move for it.
    ready: Time,
    direction: Direction,
    /// Start of its access on the platters; `None` if the heads need not move, for flash or no access at all.
    start: Option<(Pba, AccessStart)>,
}

/// The required head position and angle.
#[inline]
fn target_position((_, start): &(Pba, AccessStart)) -> (Head, Angle) {
    let position = start.position();
    (Head { surface: position.surface, track: position.track }, position.angle)
}

impl Candidate {
    /// Time until the heads are at the candidate if they catch its next pass; `None` if not. Kept out of line
    /// because few candidates get here.
    #[inline(never)]
    fn time_if_caught(
        &self,
        media: &Media,
        now: Time,
        (head, angle): (Head, Angle),
        passes: Nanos,
    ) -> Option<Nanos> {
        let waits = self.ready.max(now) - now;
        let moved = media.disk.move_time(media.head, head, self.direction);
        if (waits + moved).get() > passes.get() + ROUNDING_NS {
            return None;
        }
        let rotation = media.disk.mechanics().rotation;
        let duration = waits + moved + rotation.wait_for(angle, now + waits + moved);
        (duration.get() <= passes.get() + 2 * ROUNDING_NS).then_some(duration)
    }

    fn positioning(&self, media: &Media, now: Time) -> Nanos {
        let waits = self.ready.max(now) - now;
        let duration = |start: &(Pba, AccessStart)| {
            media.disk.positioning(media.head, now + waits, start.1.position(), self.direction)
        };
        waits + self.start.as_ref().map_or(Nanos(0), duration)
    }
}

/// The best candidate so far: the time to reach it, and its age.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Best {
    duration: Nanos,
    age: u64,
}

const NONE_YET: Best = Best { duration: Nanos(u64::MAX), age: u64::MAX };

/// See the module documentation.
#[derive(Default)]
pub(crate) struct SptfQueue {
    /// Whether the commands are writes that the layer has admitted: none of them fails.
    admitted_writes: bool,
    /// Commands admitted so far.
    admitted: u64,
    /// Commands still to be located.
    unknown: usize,
    candidates: Vec<Candidate>,
    rotations: Rotations,
    /// Indices of unused candidates.
    free: Vec<u32>,
    /// Candidates that are not on the platters, oldest first. As `ready` does not decrease with age, the oldest is the best.
    off_platter: VecDeque<OffPlatter>,
    /// The last address that was located for a write, and its location.
    latest: Option<(Pba, AccessStart)>,
    /// Number of located commands in each group, with groups hashed by their low bits. A plan usually changes
    /// a group without any.
    group_counts: GroupCounts,
}

/// See [`SptfQueue::off_platter`].
#[derive(Clone, Copy, Debug)]
struct OffPlatter {
    age: u64,
    ready: Time,
}

/// See [`SptfQueue::group_counts`].
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

impl SptfQueue {
    /// A queue of writes that the layer has admitted.
    pub(crate) fn of_admitted_writes() -> Self {
        Self { admitted_writes: true, ..Self::default() }
    }

    /// Admits a command that arrives now.
    #[inline]
    pub(crate) fn admit(&mut self) -> Target {
        self.admitted += 1;
        self.unknown += 1;
        Target { age: self.admitted, group: 0, candidate: UNKNOWN }
    }

    /// Index of the command that the heads reach first; `ready` gives when they may start to move for each, and does not
    /// decrease from one command to the next.
    pub(crate) fn nearest(
        &mut self,
        parts: (&dyn Layer, &Media),
        now: Time,
        (commands, targets): (&[Command], &mut [Target]),
        ready: impl Fn(usize) -> Time,
    ) -> usize {
        if commands.is_empty() || parts.0.all_go_to_log(commands) {
            debug_assert!(are_equal(parts.0, commands, &ready), "a log's writes of one length are equals");
            // The oldest of equals starts first, and is there no later; none has to be located.
            return 0;
        }
        // Usually only the newest.
        for (index, target) in targets.iter_mut().enumerate().rev() {
            if self.unknown == 0 {
                break;
            }
            if target.candidate == UNKNOWN {
                self.locate(parts, &commands[index], ready(index), target);
            }
        }
        let (Some(oldest), Some(newest)) = (targets.first(), targets.last()) else {
            return 0;
        };
        if self.rotations.len() > FEW * targets.len() {
            return self.nearest_by_comparison(parts.1, now, targets);
        }
        // Other located commands are not part of this choice.
        let ages = oldest.age..=newest.age;
        let first = self.off_platter.get(self.off_platter_from(oldest.age));
        let mut best = match first.filter(|first| first.age <= newest.age) {
            Some(&OffPlatter { age, ready }) => Best { duration: ready.max(now) - now, age },
            None => NONE_YET,
        };
        best = self.best_within_revolution(parts.1, now, &ages, best);
        if best == NONE_YET {
            return self.nearest_by_comparison(parts.1, now, targets);
        }
        targets.partition_point(|target| target.age < best.age).min(targets.len() - 1)
    }

    /// The same by examining each: where they are few among many that are located, or none passes within a revolution.
    fn nearest_by_comparison(&self, media: &Media, now: Time, targets: &[Target]) -> usize {
        let duration =
            |index: &usize| self.candidates[targets[*index].candidate as usize].positioning(media, now);
        (0..targets.len()).min_by_key(duration).unwrap_or(0)
    }

    /// The best of the candidates that pass within one revolution and are reached in time, if it improves on
    /// `best`.
    #[inline]
    fn best_within_revolution(
        &mut self,
        media: &Media,
        now: Time,
        ages: &RangeInclusive<u64>,
        mut best: Best,
    ) -> Best {
        let rotation = media.disk.mechanics().rotation;
        // A candidate that has just passed may still be caught.
        let caught = rotation.angle_in(Nanos(ROUNDING_NS));
        let last = |best: Best| {
            let duration = Nanos(best.duration.get().saturating_add(2 * ROUNDING_NS));
            rotation.rotation_in(duration).0.saturating_add(caught.0)
        };
        let from = rotation.phase(now).since(caught);
        let [mut first, second] = self.rotations.compute(media.disk.seek_floor(), from, media.head.track);
        let mut second = Some(second);
        let mut until = last(best);
        while let Some((index, until_pass)) =
            self.rotations.candidate_at(first).filter(|&(_, until_pass)| until_pass.0 <= until)
        {
            first = second.take().unwrap_or_else(|| self.rotations.first_after(first));
            let candidate = &self.candidates[index];
            let Some((head, angle)) = candidate.start.as_ref().map(target_position) else {
                continue;
            };
            let exact = angle.since(from);
            debug_assert!(
                until_pass.0 <= exact.0.saturating_add(1 << 32),
                "the truncation of angles is within its bound"
            );
            let passes = rotation.time_for(Angle(exact.0.saturating_sub(caught.0)));
            let duration = candidate.time_if_caught(media, now, (head, angle), passes);
            if let Some(duration) = duration.filter(|_| ages.contains(&candidate.age)) {
                best = best.min(Best { duration, age: candidate.age });
                until = last(best);
            }
        }
        best
    }

    /// Locates the start of a command's access.
    fn locate(
        &mut self,
        (layer, media): (&dyn Layer, &Media),
        command: &Command,
        ready: Time,
        target: &mut Target,
    ) {
        let direction = if command.op == Op::Write { Direction::Write } else { Direction::Read };
        let mut start = None;
        target.group = 0;
        if matches!(command.op, Op::Read | Op::Write) && (self.admitted_writes || layer.needs_medium(command))
        {
            let (medium, first) = layer.locate_first(command.extent, direction == Direction::Write);
            start = (medium == Medium::Platter).then(|| (first, self.locate_start(media, first, direction)));
            target.group = layer.location_group(command.extent.start);
        }
        self.unknown -= 1;
        *self.group_counts.of(target.group) += 1;
        target.candidate = self.insert(Candidate { age: target.age, ready, direction, start });
        if let Some((head, angle)) = start.as_ref().map(target_position) {
            let settle = media.disk.seek_floor().settle(direction == Direction::Write);
            self.rotations.set(target.candidate as usize, angle, head.track as f32, settle);
        } else {
            let at = match self.off_platter.back() {
                Some(back) if back.age > target.age => self.off_platter_from(target.age),
                _ => self.off_platter.len(),
            };
            self.off_platter.insert(at, OffPlatter { age: target.age, ready });
        }
    }

    /// Location of an address. Many consecutive writes have the same one: the end of a log.
    #[inline]
    fn locate_start(&mut self, media: &Media, first: Pba, direction: Direction) -> AccessStart {
        match self.latest {
            Some((latest, start)) if latest == first => start,
            _ => {
                let start = media.disk.access_start(first);
                if direction == Direction::Write {
                    self.latest = Some((first, start));
                }
                start
            }
        }
    }

    /// Start of a command's access on the platters, if it is located and has one.
    #[inline]
    pub(crate) fn start_of(&self, target: Target) -> &Option<(Pba, AccessStart)> {
        self.candidates.get(target.candidate as usize).map_or(&None, |candidate| &candidate.start)
    }

    /// Stores a candidate and returns its index.
    #[inline]
    fn insert(&mut self, candidate: Candidate) -> u32 {
        if let Some(index) = self.free.pop() {
            self.candidates[index as usize] = candidate;
            return index;
        }
        self.candidates.push(candidate);
        self.candidates.len() as u32 - 1
    }

    /// Removes a completed command.
    #[inline]
    pub(crate) fn remove(&mut self, target: Target) {
        let Some(candidate) = self.candidates.get(target.candidate as usize) else {
            self.unknown -= 1;
            return;
        };
        self.free.push(target.candidate);
        *self.group_counts.of(target.group) -= 1;
        if candidate.start.is_some() {
            self.rotations.clear(target.candidate as usize);
        } else {
            let at = self.off_platter_from(target.age);
            self.off_platter.remove(at);
        }
    }

    /// Where in `off_platter` those begin that are of this age or younger; it is the oldest that is asked for most.
    #[inline]
    fn off_platter_from(&self, age: u64) -> usize {
        match self.off_platter.front() {
            Some(front) if front.age < age => self.off_platter.partition_point(|each| each.age < age),
            _ => 0,
        }
    }

    /// Invalidates all locations.
    pub(crate) fn invalidate_all(&mut self, targets: &mut [Target]) {
        for target in targets.iter_mut().filter(|target| target.candidate != UNKNOWN) {
            self.remove(*target);
            self.unknown += 1;
            target.candidate = UNKNOWN;
        }
    }

    /// Invalidates the locations that a plan may have changed; a trim spans many groups.
    pub(crate) fn invalidate(&mut self, layer: &dyn Layer, plan: &Plan, trim: bool, targets: &mut [Target]) {
        if self.free.len() == self.candidates.len() {
            // No command is located.
            return;
        }
        let mut done = None;
        for step in plan.steps() {
            let Step::Commit(change) = step else {
                continue;
            };
            let group = layer.location_group(change.extent().start);
            if done == Some(group) {
                continue;
            }
            done = Some(group);
            if !trim && *self.group_counts.of(group) == 0 {
                continue;
            }
            let moves = |target: &Target| (trim || target.group == group) && target.candidate != UNKNOWN;
            for target in targets.iter_mut().filter(|target| moves(target)) {
                self.remove(*target);
                self.unknown += 1;
                target.candidate = UNKNOWN;
            }
        }
    }
}

/// Whether the layer locates all writes at one sector, and no write may start before an older one.
fn are_equal(layer: &dyn Layer, commands: &[Command], ready: &impl Fn(usize) -> Time) -> bool {
    let mut locations = commands.iter().map(|command| layer.locate_first(command.extent, true));
    let first = locations.next();
    locations.all(|location| Some(location) == first)
        && (1..commands.len()).all(|index| ready(index - 1) <= ready(index))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::random::{Kind, random_profile};
    use proptest::prelude::*;
    use skylight_command::CommandId;
    use skylight_disk::{BLOCK_SECTORS, Lba, LbaExtent, PbaExtent, Sectors};
    use skylight_layer::plan::are_writes_of_one_length;
    use skylight_layer::{Conventional, MediaUse, Piece, Queue};

    /// A log that ends at a sector for each length of a write.
    struct Log(Conventional);

    impl Layer for Log {
        fn capacity(&self) -> Sectors {
            self.0.capacity()
        }

        fn take(&mut self, queue: Queue<'_>, plan: &mut Plan) {
            self.0.take(queue, plan);
        }

        fn locate(&self, extent: LbaExtent, pieces: &mut Vec<Piece>) {
            self.0.locate(extent, pieces);
        }

        fn locate_first(&self, extent: LbaExtent, write: bool) -> (Medium, Pba) {
            match write {
                true => (Medium::Platter, Pba(extent.len.get() * 12_345)),
                false => self.0.locate_first(extent, write),
            }
        }

        fn all_go_to_log(&self, commands: &[Command]) -> bool {
            are_writes_of_one_length(commands)
        }

        fn erase(&mut self) {}

        fn media_use(&self) -> MediaUse {
            self.0.media_use()
        }

        fn initial_locations(&self, extent: LbaExtent, visit: &mut dyn FnMut(PbaExtent)) {
            self.0.initial_locations(extent, visit);
        }
    }

    /// The minimum positioning time and the command chosen by comparing all.
    fn nearest_by_comparison(
        layer: &dyn Layer,
        media: &Media,
        now: Time,
        commands: &[Command],
        ready: &[Time],
    ) -> (Nanos, usize) {
        let duration = commands.iter().zip(ready).map(|(command, &ready)| {
            let direction = if command.op == Op::Write { Direction::Write } else { Direction::Read };
            let (_, first) = layer.locate_first(command.extent, command.op == Op::Write);
            let position = media.disk.geometry().position_of(first);
            let begin = ready.max(now);
            begin - now + media.disk.positioning(media.head, begin, &position, direction)
        });
        duration.enumerate().map(|(index, duration)| (duration, index)).min().expect("a waiting command")
    }

    proptest! {
        #[test]
        fn the_choice_agrees_with_comparing_all(
            seed in 0u64..200,
            commands in prop::collection::vec((any::<bool>(), 0.0f64..1.0, 0u64..200_000), 1..70),
            log in prop::option::of(prop::sample::select(vec![[8, 8], [8, 16]])),
            gone in prop::collection::vec(0usize..70, 0..40),
            at_ns in 0u64..100_000_000,
        ) {
            let text = random_profile(seed, Some(Kind::Conventional)).unwrap();
            let drive = crate::Drive::new(&Profile::from_toml(&text, "random").unwrap(), seed).unwrap();
            let blocks = drive.capacity().0 / BLOCK_SECTORS;
            let layer = Conventional::new(Medium::Platter, drive.capacity());
            let layer: Box<dyn Layer> = if log.is_some() { Box::new(Log(layer)) } else { Box::new(layer) };
            let layer = layer.as_ref();
            let media = Media::new(drive.disk().clone(), None, 1);
            let mut ready: Vec<Time> = commands.iter().map(|&(_, _, ready_ns)| Time(at_ns + ready_ns)).collect();
            ready.sort_unstable();
            let commands: Vec<Command> = (0..).zip(&commands).map(|(id, &(write, at, _))| {
                // To a log, writes of one or of two lengths, and one read where two lengths are.
                let len = log.map_or(BLOCK_SECTORS, |lengths| lengths[usize::from(write)]);
                let write = write || log.is_some_and(|[one, other]| one == other || id > 0);
                let at = Lba((at * (blocks - 1) as f64) as u64 * BLOCK_SECTORS);
                let op = if write { Op::Write } else { Op::Read };
                Command::new(CommandId(id), op, LbaExtent::new(at, Sectors(len)))
            }).collect();
            let mut queue = SptfQueue::default();
            let targets = commands.iter().map(|_| queue.admit());
            let mut waiting: Vec<(Command, Time, Target)> =
                commands.iter().zip(&ready).zip(targets).map(|((&c, &r), t)| (c, r, t)).collect();
            let mut now = Time(at_ns);
            let from = at_ns as usize;
            for gone in std::iter::once(usize::MAX).chain(gone) {
                if gone < waiting.len() {
                    queue.remove(waiting.remove(gone).2);
                }
                if waiting.is_empty() {
                    break;
                }
                let commands: Vec<Command> = waiting.iter().map(|w| w.0).collect();
                let ready: Vec<Time> = waiting.iter().map(|w| w.1).collect();
                let mut targets: Vec<Target> = waiting.iter().map(|w| w.2).collect();
                let chosen = queue.nearest((layer, &media), now, (&commands, &mut targets), |index| ready[index]);
                prop_assert_eq!(chosen, nearest_by_comparison(layer, &media, now, &commands, &ready).1);
                // A choice of few of those that are located.
                let few = from % waiting.len()..(from % waiting.len() + 2).min(waiting.len());
                let choice = (&commands[few.clone()], &mut targets[few.clone()]);
                let chosen = queue.nearest((layer, &media), now, choice, |index| ready[few.start + index]);
                let compared =
                    nearest_by_comparison(layer, &media, now, &commands[few.clone()], &ready[few.clone()]);
                prop_assert_eq!(chosen, compared.1);
                for (waits, target) in waiting.iter_mut().zip(targets) {
                    waits.2 = target;
                }
                now += Nanos(123_457);
            }
        }
    }
}
