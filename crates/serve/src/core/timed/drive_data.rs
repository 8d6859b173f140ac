//! The data of a drive in model time: on the media, in the volatile cache (`volatile_data.rs`) and in flight
//! (`in_flight.rs`).
//!
//! When the drive executes a plan, the data of the plan moves. When the outcome of a read is decided, its data is read
//! from the media and overlaid with that of the volatile cache.
//!
//! Invariants: a write is in `cached` from the moment at which the drive's cache accepts it until a plan has moved its data
//! to the media. The drive destages overlapping writes in the order in which it accepted them (`drive/write_cache.rs`), so
//! cached data is never older than that of the media: the media overlaid with the newest cached data have the newest data
//! of every sector. An error fails the commands whose data it concerns.
//!
//! When the file system is full, writes stay in the cache and the drive retries later. Some data of such a write may be on
//! the media already; the cache still has all of it, and covers it.

use std::sync::Arc;

use skylight_disk::{LbaExtent, Sectors};
use skylight_drive::online::{ExecutionResult, Origin, PlanExecutor};
use skylight_image::{HostWrite, ImageError, Interpreter};
use skylight_layer::{CommandId, Failure, Layer, Outcome, Plan, ZoneLayout};

use super::in_flight::{CommandTable, InFlight};
use super::volatile_data::VolatileData;
use crate::core::image_errors::{ImageErrors, first_mismatch};
use crate::core::read_modes::Shingles;
use crate::core::{Command, Op, ZoneAction};

/// Reads the media. A checksum mismatch is no error where the volatile cache has newer data.
fn read_media(
    interpreter: &Interpreter,
    cached: &VolatileData,
    extent: LbaExtent,
    buffer: &mut [u8],
    layer: &dyn Layer,
) -> Result<(), ImageError> {
    let whole = interpreter.read(extent, buffer, layer);
    let Err(ImageError::Checksum { .. }) = whole else {
        return whole;
    };
    cached.uncovered(extent).into_iter().try_for_each(|part| {
        let from = (part.start - extent.start).bytes() as usize;
        interpreter.read(part, &mut buffer[from..from + part.len.bytes() as usize], layer)
    })
}

/// See the module documentation.
pub(super) struct Bytes {
    pub(super) interpreter: Interpreter,
    pub(super) commands: CommandTable,
    pub(super) cached: VolatileData,
    /// Whether writes complete before they are durable.
    write_cache: bool,
    pub(super) last_error: Option<String>,
    /// Whether a plan of host commands was refused since the flag was last taken.
    pub(super) refused_host: bool,
    /// For a drive whose sectors can be overwritten.
    pub(super) shingles: Option<Arc<Shingles>>,
    /// The zones of the drive, if it has any: writes to one are ordered, and the layer has to plan each read.
    pub(super) zones: Option<ZoneLayout>,
    pub(super) image_errors: Arc<ImageErrors>,
}

impl Bytes {
    /// Without commands in flight and cached writes.
    pub(super) fn new(
        interpreter: Interpreter,
        write_cache: bool,
        shingles: Option<Arc<Shingles>>,
        zones: Option<ZoneLayout>,
    ) -> Self {
        Self {
            interpreter,
            commands: CommandTable::default(),
            cached: VolatileData::default(),
            write_cache,
            last_error: None,
            refused_host: false,
            shingles,
            zones,
            image_errors: Arc::default(),
        }
    }

    /// Whether a command completes only when its data is on the media.
    pub(super) fn waits_for_media(&self, command: &Command) -> bool {
        matches!(command.op, Op::Write | Op::WriteZeroes) && (command.flags.fua || !self.write_cache)
    }

    fn note(&mut self, error: &ImageError) -> Failure {
        self.last_error = Some(error.to_string());
        self.image_errors.note(error);
        Failure::from(error)
    }

    /// Makes zones durable that changed without a command.
    pub(super) fn keep_zones(&mut self, layer: &mut dyn Layer) -> Result<(), Failure> {
        let kept =
            self.interpreter.apply(&Plan::default(), layer, &[]).and_then(|()| self.interpreter.flush());
        kept.map_err(|error| self.note(&error))
    }

    /// Moves the data of a plan of host commands; returns whether it must be durable when they complete.
    fn host_plan(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        ids: &[CommandId],
    ) -> Result<bool, ImageError> {
        let (mut writes, mut trim, mut durable) = (Vec::new(), None, false);
        let Self { interpreter, commands, write_cache, .. } = self;
        for &id in ids {
            let Some(InFlight { job, .. }) = commands.get(id) else {
                continue;
            };
            let Command { op, flags, extent, .. } = job.command;
            match op {
                Op::Write => {
                    writes.push(HostWrite { id, extent, data: &job.data });
                    durable |= flags.fua || !*write_cache;
                }
                Op::Trim => {
                    trim = Some(extent);
                    durable |= flags.fua;
                }
                Op::Zone(ZoneAction::Finish | ZoneAction::Reset) => durable |= !*write_cache,
                _ => {}
            }
        }
        match trim {
            Some(extent) => interpreter.apply_trim(plan, layer, extent, false)?,
            None => interpreter.apply(plan, layer, &writes)?,
        }
        Ok(durable)
    }

    /// Moves the data of a plan of cached writes. If that fails they stay in the cache, because they have completed.
    fn cache_plan(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        ids: &[CommandId],
    ) -> Result<(), ImageError> {
        self.interpreter.apply(plan, layer, &self.cached.writes(ids))?;
        self.cached.remove(ids);
        Ok(())
    }

    /// Reads the media, overlaid with the volatile cache; returns the outcome of the read.
    fn read(&mut self, id: CommandId, outcome: Outcome, layer: &mut dyn Layer) -> Outcome {
        let Some(InFlight { job, planned, .. }) = self.commands.get_mut(id) else {
            return outcome;
        };
        let extent = job.command.extent;
        if let Some(failed) = planned.take() {
            self.cached.overlay(extent, &mut job.data);
            // The cache may have newer data for what the plan fails.
            let mendable = outcome == Outcome::Failed(Failure::Overwritten);
            return if mendable { self.check_uncovered(id, &failed, layer) } else { outcome };
        }
        let result = read_media(&self.interpreter, &self.cached, extent, &mut job.data, layer);
        self.cached.overlay(extent, &mut job.data);
        let Err(error) = result else {
            return outcome;
        };
        job.failed_at = first_mismatch(&error);
        Outcome::Failed(self.note(&error))
    }

    /// Fails a read if the volatile cache does not cover all `parts`, which cannot be read.
    fn check_uncovered(&mut self, id: CommandId, parts: &[LbaExtent], layer: &mut dyn Layer) -> Outcome {
        let Some(disk) = layer.overwriting() else { return Outcome::Done };
        let mut losses = Vec::new();
        for &part in parts {
            for part in self.cached.uncovered(part) {
                losses.extend(disk.losses(part));
            }
        }
        if let (Some(loss), Some(shingles)) = (losses.first(), &self.shingles) {
            shingles.tell(&losses);
            if let Some(in_flight) = self.commands.get_mut(id) {
                in_flight.job.failed_at = Some(Sectors(loss.lba.start.get()).bytes());
            }
            return Outcome::Failed(self.note(&skylight_image::image::unreadable(loss.lba)));
        }
        Outcome::Done
    }

    /// Executes the plan of reads of a drive with zones, or of one whose sectors can be overwritten.
    fn planned_read(&mut self, plan: &Plan, ids: &[CommandId], layer: &dyn Layer) -> Result<(), ImageError> {
        for &id in ids {
            let Some(InFlight { job, planned, .. }) = self.commands.get_mut(id) else {
                continue;
            };
            if job.command.op == Op::Read {
                let extent = job.command.extent;
                if self.zones.is_some() {
                    let read = self.interpreter.read_zones(plan, extent, &mut job.data, layer);
                    read.inspect_err(|error| job.failed_at = first_mismatch(error))?;
                    *planned = Some(Vec::new());
                    continue;
                }
                *planned = Some(self.interpreter.read_plan(plan, id, extent, &mut job.data)?);
            }
        }
        Ok(())
    }
}

impl PlanExecutor for Bytes {
    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &mut dyn Layer) -> ExecutionResult {
        let ids: Vec<CommandId> = plan.completions().map(|(id, _)| id).collect();
        let moved = match origin {
            Origin::Host => {
                if (self.shingles.is_some() || self.zones.is_some())
                    && let Err(error) = self.planned_read(plan, &ids, layer)
                {
                    return ExecutionResult::Failed(self.note(&error));
                }
                self.host_plan(plan, layer, &ids)
            }
            Origin::Cache => self.cache_plan(plan, layer, &ids).map(|()| false),
            Origin::Idle => self.interpreter.apply(plan, layer, &[]).map(|()| false),
        };
        match moved {
            Ok(durable) => {
                // The plan has been executed, whether or not it becomes durable.
                if durable && let Err(error) = self.interpreter.flush() {
                    return ExecutionResult::Failed(self.note(&error));
                }
                ExecutionResult::Done
            }
            Err(error) => {
                self.refused_host |= origin == Origin::Host;
                ExecutionResult::Refused(self.note(&error))
            }
        }
    }

    fn cached(&mut self, host: CommandId, cache: CommandId) {
        if let Some(in_flight) = self.commands.get_mut(host) {
            let data = std::mem::take(&mut in_flight.job.data);
            self.cached.insert(cache, in_flight.job.command.extent, data);
        }
    }

    fn decided(&mut self, id: CommandId, outcome: Outcome, layer: &mut dyn Layer) -> Outcome {
        match self.commands.get(id).map(|in_flight| in_flight.job.command.op) {
            Some(Op::Read) => self.read(id, outcome, layer),
            Some(Op::Flush) => {
                if let Err(error) = self.interpreter.flush() {
                    return Outcome::Failed(self.note(&error));
                }
                if let Err(error) = self.interpreter.rest() {
                    // Checksum maintenance runs after a flush; its errors do not fail the flush.
                    self.note(&error);
                }
                outcome
            }
            _ => outcome,
        }
    }
}
