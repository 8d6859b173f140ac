//! What a drive does between two copies of a zone's metadata, one of which is written right after the other at the same place.
//!
//! The heads have a whole revolution until that place comes round again. A drive whose volatile cache is full has a use for it:
//! it looks for a run of cached writes from which the heads are back in time. Neighbouring zones are near enough
//! for that, zones all over the drive seldom are (`docs/zoned.md`). The choice is that of any run that leaves the cache: among as many
//! writes, at the same place, with the same error of positioning; so some runs come back too late and cost a revolution.
//!
//! A cache with space has no need of it: its writes wait for more of their zone. So small writes, which do not fill it, find the
//! drive as it was.
//!
//! Invariant: copies and runs are executed in the order in which they reach the media.

use std::collections::BTreeSet;

use skylight_command::Failure;
use skylight_disk::{Direction, LbaExtent, Nanos, Pba, PbaExtent, Time};
use skylight_layer::Step;

use super::{Drive, zones};
use crate::submitter::Observer;

impl Drive {
    /// Executes the plan of what opening zones needs before `write`, and cached runs between its copies; returns the end.
    pub(super) fn write_metadata(
        &mut self,
        write: LbaExtent,
        at: Time,
        host: &mut impl Observer,
    ) -> Result<Time, Failure> {
        let another = LbaExtent::new(write.start, write.len + write.len);
        if !self.interface.write_back_between_copies || self.cache.has_space(another) {
            return self.do_background_plan(at, host);
        }
        let steps = self.plan.steps().to_vec();
        let mut end = at;
        for (index, &step) in steps.iter().enumerate() {
            if let Step::Access { extent, .. } = step
                && index > 0
                && steps[index - 1] == step
                && let Some((run, expected)) = self.run_before(extent.start)
            {
                let late = self.positioning_error(expected);
                self.destage_run(run, late, host)?;
            }
            self.plan.clear();
            self.plan.push(step);
            end = self.do_background_plan(end, host)?;
        }
        Ok(end)
    }

    /// The first write of the cached run that is done first, of those from which the drive expects the heads to be back at `place`
    /// no later than if they wait there, and how long it expects the move there to last.
    fn run_before(&mut self, place: Pba) -> Option<(usize, Nanos)> {
        let layout = zones::of(self.layer.as_mut())?;
        let window = self.write_back_window(self.cache.dirty().len());
        let writes = self.cache.dirty()[window].iter();
        let zones: BTreeSet<u32> = writes.map(|command| layout.zone_of(command.extent.start)).collect();
        let disk = &self.media.disk;
        let back = *disk.access_start(place).position();
        let waited = disk.positioning(self.media.head, self.busy_until, &back, Direction::Write);
        // The place passes once a revolution.
        let latest = self.busy_until + waited + Nanos(disk.mechanics().rotation.revolution().get() / 2);
        let in_time = zones.into_iter().filter_map(|zone| {
            let (first, run) = self.run_of(zone)?;
            let expected = self.expected_move(disk.access_start(run.start).position());
            let start = self.busy_until + self.mean_positioning_error(expected);
            let done = disk.access(self.media.head, start, run, Direction::Write);
            let returned = done.end + disk.positioning(done.head, done.end, &back, Direction::Write);
            (returned < latest).then_some((done.end, first, expected))
        });
        in_time.min().map(|(_, first, expected)| (first, expected))
    }

    /// The oldest cached write of a zone, and the place of the run that begins with it.
    fn run_of(&self, zone: u32) -> Option<(usize, PbaExtent)> {
        let oldest = self.cache.oldest_in_zone(zone)?;
        let (first, begin) = (self.cache.index_of(oldest.id), oldest.extent.start);
        let mut end = begin;
        for command in self.cache.of_zone_of(first) {
            if command.extent.start == end {
                end = command.extent.end();
            }
        }
        let (_, place) = self.layer.locate_first(oldest.extent, true);
        Some((first, PbaExtent::new(place, end - begin)))
    }
}
