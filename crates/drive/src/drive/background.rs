//! What a drive does without a command: destaging of the volatile cache, and background work of the layer.
//!
//! Invariant: a step that has started runs to its end; work that the media refused for lack of space is retried later.

use std::ops::Range;

use skylight_command::Command;
use skylight_disk::{Direction, Head, LbaExtent, Nanos, SectorPosition, Time, splitmix64};
use skylight_layer::{Idle, MapChange, Queue, Step};

use super::{Drive, Event, HINT_WRITES, Planted};
use crate::events::{ExecutionResult, NoHost, Observer, Origin};
use crate::profile::{Schedule, WriteBack};

/// Delay before the drive retries background work for which the media had no space. A try costs as much as
/// restoring the layer, a tenth of a second for a large cache, and only a person can free space.
const RETRY: Nanos = Nanos(1_000_000_000);

/// The seed of the choice among cached writes: a constant of the model, as all drives of a profile are one drive.
const WRITE_BACK_SEED: u64 = 0x5eed_cac4e;

impl Drive {
    /// Work of the drive until a command arrives at `until`; a step that has started runs to its end.
    pub(super) fn work_until(&mut self, until: Time, observer: &mut impl Observer) {
        while let Some((_, event)) = self.next_event().filter(|&(time, _)| time < until) {
            match event {
                Event::Destaged => self.finish_destaging(),
                Event::Media => self.destage(self.cache.dirty().len(), observer),
                Event::CacheCompletion(_) => debug_assert!(false, "no command is outstanding"),
            }
        }
        self.idle_until(until, observer);
    }

    /// Background work of the layer until a command arrives at `until`.
    pub(crate) fn idle_until(&mut self, until: Time, observer: &mut impl Observer) -> Idle {
        let Some(after) = self.layer.idle_after() else {
            return Idle::Nothing;
        };
        let begin = self.busy_until.max(self.idle_since + after).max(self.idle_refused_until);
        if begin >= until {
            return Idle::Worked;
        }
        self.busy_until = begin;
        while self.busy_until < until {
            self.ahead = None;
            self.plan.clear();
            if self.layer.idle(&mut self.plan) == Idle::Nothing {
                if self.interface.park_when_idle {
                    self.media.park();
                }
                return Idle::Nothing;
            }
            let moved = observer.executed(Origin::Idle, &self.plan, self.layer.as_mut());
            if let ExecutionResult::Refused(failure) = moved {
                self.refused_by = failure;
                self.idle_refused_until = self.busy_until + RETRY;
                self.invalidate_all_locations();
                return Idle::Worked;
            }
            self.answered.clear();
            self.busy_until = self.media.execute(&self.plan, self.busy_until, &mut self.answered);
            self.note_media_work();
        }
        Idle::Worked
    }

    /// Destages some of the `oldest` writes in the volatile cache.
    pub(super) fn destage(&mut self, oldest: usize, observer: &mut impl Observer) {
        if self.interface.write_back_pass > 1 && self.cache.knows_zones() {
            return self.destage_in_pass(oldest, observer);
        }
        let window = self.write_back_window(oldest);
        let start = self.busy_until.max(self.cache.nonempty_since());
        let parts = (self.layer.as_ref(), &self.media);
        let next = self.cache.next_to_destage(window.clone(), parts, start);
        if window.len() > 1 && self.interface.positioning_error > 0.0 {
            let expected = self.expected_move(&self.start_of_write(self.cache.dirty()[next].extent));
            self.busy_until = start + self.positioning_error(expected);
        }
        if let Some(start) = self.cache.hint_leaving(window.end + HINT_WRITES) {
            self.layer.hint(start);
        }
        self.destage_from(next, false, observer);
    }

    /// The indexes of the cached writes among which the next one to leave is chosen, of the `oldest` ones.
    fn write_back_window(&mut self, oldest: usize) -> Range<usize> {
        let window = self.write_back_choice(oldest);
        let from = match self.interface.write_back {
            WriteBack::Oldest => 0,
            WriteBack::Any => self.draw_below(oldest - window + 1),
        };
        from..from + window
    }

    /// Among how many of the `oldest` cached writes, or their zones, the next one to leave is chosen.
    pub(super) fn write_back_choice(&self, oldest: usize) -> usize {
        let most = match self.interface.schedule {
            Schedule::Fifo => 1,
            Schedule::ShortestPositioningFirst => {
                self.interface.queue_depth.min(self.interface.positioning_window)
            }
        };
        most.min(oldest)
    }

    /// How much longer than expected a move of the heads to a write lasts.
    pub(super) fn positioning_error(&mut self, expected: Nanos) -> Nanos {
        self.share_of(expected, self.interface.positioning_error)
    }

    /// Up to a share of a time, drawn anew each time.
    pub(super) fn share_of(&mut self, time: Nanos, most: f64) -> Nanos {
        Nanos(self.draw_below((time.get() as f64 * most) as usize) as u64)
    }

    /// Where a cached write begins on the platters.
    pub(super) fn start_of_write(&self, extent: LbaExtent) -> SectorPosition {
        let (_, first) = self.layer.locate_first(extent, true);
        *self.media.disk.access_start(first).position()
    }

    /// How long the drive expects the heads to move to a place for a write.
    pub(super) fn expected_move(&self, position: &SectorPosition) -> Nanos {
        let there = Head { surface: position.surface, track: position.track };
        self.media.disk.move_time(self.media.head, there, Direction::Write)
    }

    /// A number below `count`, the next of those that belong to the drive.
    pub(super) fn draw_below(&mut self, count: usize) -> usize {
        self.draws += 1;
        (splitmix64(WRITE_BACK_SEED, self.draws) % count.max(1) as u64) as usize
    }

    /// Destages the cached write at index `next`: alone, or with others that the layer takes in the same
    /// plan.
    pub(super) fn destage_from(&mut self, next: usize, alone: bool, observer: &mut impl Observer) {
        let start = self.busy_until.max(self.cache.nonempty_since());
        self.ahead = None;
        self.plan.clear();
        self.layer.clock(start + self.epoch);
        self.plan_destaging(next, alone);
        let moved = observer.executed(Origin::Cache, &self.plan, self.layer.as_mut());
        if let ExecutionResult::Refused(failure) = moved {
            self.refused_by = failure;
            self.refused_until = start + RETRY;
            self.idle_refused_until = self.refused_until;
            return self.invalidate_all_locations();
        }
        self.answered.clear();
        let gathered = start + self.time_to_gather();
        self.busy_until = self.media.execute(&self.plan, gathered, &mut self.answered);
        self.idle_since = self.idle_since.max(self.busy_until);
        self.note_media_work();
        self.cache.begin_destaging(self.answered.iter().map(|answer| answer.id), self.busy_until);
        self.invalidate_locations(false);
    }

    /// The time in which the drive puts the cached writes of a plan into entries of its log.
    fn time_to_gather(&self) -> Nanos {
        let each = self.interface.write_back_gather;
        if each == Nanos(0) {
            return each;
        }
        let is_put = |step: &&Step| matches!(step, Step::Commit(MapChange::Cached { .. }));
        let writes = self.plan.steps().iter().filter(is_put).count() as u64;
        Nanos(each.get() * writes.saturating_sub(1))
    }

    /// Has the layer plan how the cached write at index `next` is destaged.
    fn plan_destaging(&mut self, next: usize, alone: bool) {
        let dirty = self.cache.dirty();
        let queue = match alone {
            true => Queue { waiting: &dirty[next..=next], next: 0 },
            false => Queue { waiting: dirty, next },
        };
        let (mut itself, mut in_zone) = (std::iter::once(dirty[next]), self.cache.of_zone_of(next));
        let of_zone: &mut dyn Iterator<Item = Command> = if alone { &mut itself } else { &mut in_zone };
        if self.plants.has(Planted::NewestFirst) {
            let waiting: Vec<Command> = queue.waiting.iter().rev().copied().collect();
            let of_zone: Vec<Command> = of_zone.collect();
            let queue = Queue { waiting: &waiting, next: waiting.len() - 1 - queue.next };
            self.layer.destage(queue, &mut of_zone.into_iter().rev(), &mut self.plan);
        } else {
            self.layer.destage(queue, of_zone, &mut self.plan);
        }
        debug_assert!(queue.is_kept_by(&self.plan), "overlapping writes leave in the order of acceptance");
    }

    /// The layer was restored, so no location is valid any more.
    pub(super) fn invalidate_all_locations(&mut self) {
        self.ahead = None;
        self.pending.invalidate_all_locations();
        self.cache.invalidate_all_locations();
    }

    /// Retries immediately what the media had no space for.
    pub fn retry(&mut self) {
        self.refused_until = Time(0);
        self.idle_refused_until = Time(0);
    }

    /// The writes being destaged have reached the media.
    pub(super) fn finish_destaging(&mut self) {
        let Self { cache, pending, destaged, layer, .. } = self;
        cache.finish_destaging(|extent| destaged.push(extent));
        for extent in destaged.drain(..) {
            cache.note_destaged(extent, layer.as_ref());
            pending.reconsider(extent, cache);
        }
    }

    pub(crate) fn destage_all(&mut self) {
        self.finish_destaging();
        while !self.cache.is_empty() {
            self.destage(self.cache.dirty().len(), &mut NoHost);
            self.finish_destaging();
        }
    }
}
