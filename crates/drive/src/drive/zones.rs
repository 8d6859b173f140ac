//! What a drive does for zones: a write that the volatile cache accepts is admitted by the layer, and a batch keeps what
//! became of its commands beside their times.

use std::collections::BTreeSet;

use skylight_command::{Command, Failure, Op};
use skylight_disk::{Direction, LbaExtent, Nanos, Time};
use skylight_layer::{Layer, Preparation, ZoneLayout};

use super::Drive;
use crate::submitter::{BatchResult, ExecutionResult, Host, Observer, Origin};

/// The zones of a layer that has them.
pub(super) fn of(layer: &mut dyn Layer) -> Option<ZoneLayout> {
    layer.zoned().map(|zoned| *zoned.layout())
}

impl Drive {
    /// The commands of the last batch that failed or were appends, in the order of the batch.
    pub fn results(&self) -> &[BatchResult] {
        &self.results
    }

    /// Keeps the results of a batch that is done; returns the number of its commands that ran.
    pub(super) fn finish(&mut self, host: Host<'_>) -> usize {
        let (submitted, results) = host.finish();
        self.results = results;
        submitted
    }

    /// Has the layer take on a write that the volatile cache accepts at `time`. Returns when the cache has it.
    ///
    /// # Errors
    /// Why a drive with zones refuses it.
    #[inline]
    pub(super) fn admit(
        &mut self,
        command: &Command,
        time: Time,
        host: &mut impl Observer,
    ) -> (Time, Result<(), Failure>) {
        if command.op != Op::Write || self.layer.zoned().is_none() {
            return (time, Ok(()));
        }
        let prepared = self.prepare(command, time, host);
        let admitted = prepared.and_then(|time| match self.layer.zoned() {
            Some(zoned) => zoned.admit(command).map(|()| time),
            None => Ok(time),
        });
        (admitted.unwrap_or(time), admitted.map(|_| ()))
    }

    /// Does what the layer needs before it takes on a write: destages what is cached of a zone that is closed, and the steps
    /// of opening another one. Returns the end.
    fn prepare(&mut self, command: &Command, time: Time, host: &mut impl Observer) -> Result<Time, Failure> {
        let mut at = time;
        loop {
            self.plan.clear();
            let Some(zoned) = self.layer.zoned() else { return Ok(at) };
            match zoned.prepare(command, at, &mut self.plan) {
                Preparation::Destage(extent) => {
                    self.busy_until = self.busy_until.max(at);
                    self.destage_extent(extent, host)?;
                    at = at.max(self.busy_until);
                }
                Preparation::DestageNearest(zones) => {
                    self.busy_until = self.busy_until.max(at);
                    self.destage_nearest(zones, host)?;
                    at = at.max(self.busy_until);
                }
                Preparation::Time(busy) => {
                    if !self.plan.steps().is_empty() {
                        at = self.write_metadata(command.extent, at, host)?;
                    }
                    return Ok(at + busy);
                }
            }
        }
    }

    /// Destages all cached writes to an extent.
    fn destage_extent(&mut self, extent: LbaExtent, host: &mut impl Observer) -> Result<(), Failure> {
        self.finish_destaging();
        while let Some(first) = self.cache.first_to_destage(extent) {
            self.destage_run(first, Nanos(0), host)?;
        }
        Ok(())
    }

    /// Destages the cached write at an index with those that go with it, once the heads are `late`.
    pub(super) fn destage_run(
        &mut self,
        index: usize,
        late: Nanos,
        host: &mut impl Observer,
    ) -> Result<(), Failure> {
        let start = self.busy_until;
        self.busy_until += late;
        self.destage_from(index, false, host);
        if self.refused_until > start {
            return Err(self.refused_by);
        }
        self.finish_destaging();
        Ok(())
    }

    /// Destages the cached writes to this many zones that may be closed, each time to the one that the heads reach first.
    fn destage_nearest(&mut self, zones: usize, host: &mut impl Observer) -> Result<(), Failure> {
        self.finish_destaging();
        for _ in 0..zones {
            let Some(next) = self.nearest_to_close() else { break };
            let late = self.positioning_error(next);
            self.destage_run(next, late, host)?;
        }
        Ok(())
    }

    /// The oldest cached write of the zone that the heads reach first, of those that may be closed. The choice allows for
    /// seeks that last longer than expected, as long as they do in the mean: a revolution lost costs several zones.
    fn nearest_to_close(&mut self) -> Option<usize> {
        let layout = of(self.layer.as_mut())?;
        let zones: Vec<u32> =
            self.cache.dirty().iter().map(|command| layout.zone_of(command.extent.start)).collect();
        let mut seen = BTreeSet::new();
        let oldest = (0..zones.len()).filter(|&index| seen.insert(zones[index]));
        let closable: Vec<usize> = match self.layer.zoned() {
            Some(zoned) => oldest.filter(|&index| zoned.may_close(zones[index])).collect(),
            None => return None,
        };
        closable.into_iter().min_by_key(|&index| {
            let (expected, position) = self.expected_move(index);
            let late = Nanos((expected.get() as f64 * self.interface.positioning_error / 2.0) as u64);
            let start = self.busy_until + late;
            late + self.media.disk.positioning(self.media.head, start, &position, Direction::Write)
        })
    }

    /// Executes the steps of a plan that completes no command; returns the end.
    pub(super) fn do_background_plan(&mut self, at: Time, host: &mut impl Observer) -> Result<Time, Failure> {
        self.ahead = None;
        let moved = host.executed(Origin::Idle, &self.plan, self.layer.as_mut());
        if let ExecutionResult::Failed(failure) | ExecutionResult::Refused(failure) = moved {
            self.invalidate_all_locations();
            return Err(failure);
        }
        self.answered.clear();
        self.busy_until = self.media.execute(&self.plan, self.busy_until.max(at), &mut self.answered);
        self.note_media_work();
        Ok(self.busy_until)
    }
}
