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

use skylight_disk::{Angle, Direction, Head, Nanos, Time};
use skylight_layer::{Command, CommandId, HostOp, Layer, Plan, Step};

use crate::media::Media;

/// Angles and times may miss each other by the rounding to nanoseconds of both.
const ROUNDING_NS: u64 = 8;

/// What is known of where a command's first sector lies.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Target {
    known: bool,
    /// Which changes of the map move it.
    group: u32,
}

/// A command with a place on the platters.
#[derive(Clone, Copy, Debug)]
struct Passing {
    angle: Angle,
    /// When the heads may begin to move for it.
    ready: Time,
    head: Head,
    id: CommandId,
    way: Direction,
    group: u32,
}

/// A command for which the heads need not move: on flash, or nowhere.
#[derive(Clone, Copy, Debug)]
struct Still {
    ready: Time,
    id: CommandId,
    group: u32,
}

/// The best so far: how long the heads take, and the place in the queue.
type Best = Option<(Nanos, usize)>;

/// See the module page.
#[derive(Default)]
pub(crate) struct Sweep {
    /// In the order of their angles.
    passing: Vec<Passing>,
    still: Vec<Still>,
}

impl Sweep {
    /// The command that the heads reach first; `ready` is when they may begin to move for each.
    pub(crate) fn nearest(
        &mut self,
        (layer, media): (&dyn Layer, &Media),
        now: Time,
        (commands, targets): (&[Command], &mut [Target]),
        ready: impl Fn(usize) -> Time,
    ) -> usize {
        for (index, target) in targets.iter_mut().enumerate().filter(|(_, target)| !target.known) {
            *target = self.find(layer, media, &commands[index], ready(index));
        }
        let place_of = |id: CommandId| commands.iter().position(|command| command.id == id);
        let mut best = None;
        for still in &self.still {
            if let Some(index) = place_of(still.id) {
                better(&mut best, still.ready.max(now) - now, index);
            }
        }
        self.walk(media, now, place_of, &mut best);
        if best.is_none() {
            for passing in &self.passing {
                if let Some(index) = place_of(passing.id) {
                    let begin = passing.ready.max(now);
                    better(&mut best, begin - now + passing.positioning(media, begin), index);
                }
            }
        }
        best.map_or(0, |(_, index)| index)
    }

    /// Of what passes the heads within a turn, what they are in time for.
    fn walk(&self, media: &Media, now: Time, place_of: impl Fn(CommandId) -> Option<usize>, best: &mut Best) {
        let rotation = media.disk.mechanics().rotation;
        let phase = rotation.phase(now);
        // What passed a moment ago may still be caught.
        let caught = rotation.angle_in(Nanos(ROUNDING_NS));
        let from = phase.since(caught);
        let middle = self.passing.partition_point(|passing| passing.angle < from);
        let (behind, ahead) = self.passing.split_at(middle);
        for passing in ahead.iter().chain(behind) {
            let round = passing.angle.since(from);
            let passes = rotation.time_for(Angle(round.0.saturating_sub(caught.0)));
            if best.is_some_and(|(least, _)| passes.get() > least.get() + ROUNDING_NS) {
                return;
            }
            let begin = passing.ready.max(now);
            let least = begin - now + media.disk.move_at_least(media.head, passing.head);
            if least.get() > passes.get() + ROUNDING_NS {
                continue;
            }
            let moved = media.disk.move_time(media.head, passing.head, passing.way);
            if (begin - now + moved).get() > passes.get() + ROUNDING_NS {
                continue;
            }
            let takes = begin - now + moved + rotation.wait_for(passing.angle, begin + moved);
            if takes.get() > passes.get() + 2 * ROUNDING_NS {
                continue;
            }
            if let Some(index) = place_of(passing.id) {
                better(best, takes, index);
            }
        }
    }

    fn find(&mut self, layer: &dyn Layer, media: &Media, command: &Command, ready: Time) -> Target {
        let id = command.id;
        if !matches!(command.op, HostOp::Read | HostOp::Write) {
            self.still.push(Still { ready, id, group: 0 });
            return Target { known: true, group: 0 };
        }
        let way = if command.op == HostOp::Write { Direction::Write } else { Direction::Read };
        let group = layer.place_group(command.extent.start);
        let (medium, first) = layer.locate_first(command.extent, way == Direction::Write);
        match media.place(medium, first) {
            None => self.still.push(Still { ready, id, group }),
            Some(place) => {
                let head = Head { surface: place.surface, track: place.track };
                let passing = Passing { angle: place.angle, ready, head, id, way, group };
                let at = self.passing.partition_point(|other| other.angle < place.angle);
                self.passing.insert(at, passing);
            }
        }
        Target { known: true, group }
    }

    /// Forgets a command that is answered.
    #[inline]
    pub(crate) fn remove(&mut self, id: CommandId) {
        if let Some(index) = self.passing.iter().position(|passing| passing.id == id) {
            self.passing.remove(index);
        } else if let Some(index) = self.still.iter().position(|still| still.id == id) {
            self.still.remove(index);
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
            let mut any = false;
            for target in targets.iter_mut().filter(|target| trim || target.group == group) {
                any |= target.known;
                target.known = false;
            }
            if any {
                self.passing.retain(|passing| !trim && passing.group != group);
                self.still.retain(|still| !trim && still.group != group);
            }
        }
    }
}

impl Passing {
    fn positioning(&self, media: &Media, begin: Time) -> Nanos {
        let moved = media.disk.move_time(media.head, self.head, self.way);
        moved + media.disk.mechanics().rotation.wait_for(self.angle, begin + moved)
    }
}

#[inline]
fn better(best: &mut Best, takes: Nanos, index: usize) {
    if best.is_none_or(|least| (takes, index) < least) {
        *best = Some((takes, index));
    }
}
