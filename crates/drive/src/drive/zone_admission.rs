//! What a drive does for zones: a write that the volatile cache accepts is admitted by the layer, and a batch keeps what
//! became of its commands beside their times.

use skylight_command::{Command, Failure, Op};
use skylight_disk::{LbaExtent, Time};
use skylight_layer::{Layer, Preparation, ZoneLayout};

use super::Drive;
use crate::events::{ExecutionResult, Observer, Origin};
use crate::submitter::{BatchResult, Host};

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
        if command.op != Op::Write {
            return (time, Ok(()));
        }
        self.plan.clear();
        let Some(zoned) = self.layer.zoned() else { return (time, Ok(())) };
        let preparation = zoned.prepare(command, time, &mut self.plan);
        if let Preparation::Time(busy) = preparation
            && self.plan.steps().is_empty()
        {
            let admitted = zoned.admit(command);
            return (if admitted.is_ok() { time + busy } else { time }, admitted);
        }
        let prepared = self.prepare(command, (time, preparation), host);
        let admitted = prepared.and_then(|time| match self.layer.zoned() {
            Some(zoned) => zoned.admit(command).map(|()| time),
            None => Ok(time),
        });
        (admitted.unwrap_or(time), admitted.map(|_| ()))
    }

    /// Does what the layer needs before it takes on a write, which it has said: destages what is cached of a zone that is closed,
    /// and the steps of opening another one. Returns the end.
    fn prepare(
        &mut self,
        command: &Command,
        (time, mut preparation): (Time, Preparation),
        host: &mut impl Observer,
    ) -> Result<Time, Failure> {
        let mut at = time;
        loop {
            match preparation {
                Preparation::Destage(extent) => {
                    self.busy_until = self.busy_until.max(at);
                    self.destage_extent(extent, host)?;
                    at = at.max(self.busy_until);
                }
                Preparation::DestageZones(zones) => {
                    self.busy_until = self.busy_until.max(at);
                    self.destage_zones(zones, host)?;
                    at = at.max(self.busy_until);
                }
                Preparation::Time(busy) => {
                    if !self.plan.steps().is_empty() {
                        at = self.do_background_plan(at, host)?;
                    }
                    return Ok(at + busy);
                }
            }
            self.plan.clear();
            let Some(zoned) = self.layer.zoned() else { return Ok(at) };
            preparation = zoned.prepare(command, at, &mut self.plan);
        }
    }

    /// Destages all cached writes to an extent.
    fn destage_extent(&mut self, extent: LbaExtent, host: &mut impl Observer) -> Result<(), Failure> {
        self.finish_destaging();
        while let Some(first) = self.cache.first_to_destage(extent) {
            let start = self.busy_until;
            self.destage_from(first, false, host);
            if self.refused_until > start {
                return Err(self.refused_by);
            }
            self.finish_destaging();
        }
        Ok(())
    }

    /// Destages the cached writes to this many zones that may be closed, in passes.
    fn destage_zones(&mut self, zones: usize, host: &mut impl Observer) -> Result<(), Failure> {
        self.finish_destaging();
        for _ in 0..zones {
            let start = self.busy_until;
            if !self.destage_to_close(host) {
                break;
            }
            if self.refused_until > start {
                return Err(self.refused_by);
            }
            self.finish_destaging();
        }
        Ok(())
    }

    /// Whether a zone may be closed to open another one.
    pub(super) fn may_close(&mut self, zone: u32) -> bool {
        self.layer.zoned().is_some_and(|zoned| zoned.may_close(zone))
    }

    /// Executes the steps of a plan that completes no command; returns the end.
    fn do_background_plan(&mut self, at: Time, host: &mut impl Observer) -> Result<Time, Failure> {
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
