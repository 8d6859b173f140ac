//! The bytes of a drive in model time: what is on the media, in the volatile cache, and on its way.
//!
//! Each plan that the drive executes moves its bytes at that moment. A read gets the media, and over them what the
//! volatile cache holds, at the moment at which it is decided.
//!
//! Invariants: a write is in `cached` from the moment that the drive's cache takes it until a plan has moved its bytes to
//! the media, and what is cached lies in the order in which the drive took it. The drive lets writes that overlap
//! leave in that order (`drive/write_cache.rs`), so what is cached is never older than what the media have: laid over them
//! in its order it gives the newest bytes of every sector. What fails, fails the commands whose bytes it was about.
//!
//! Where the file system is full, what the cache holds stays in it, and the drive tries again later. Of such a write some
//! bytes may be on the media already: the cache still has all of them, and lies over these.

use std::sync::Arc;

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors, Time};
use skylight_drive::online::{Moved, Mover, Origin};
use skylight_image::{HostWrite, ImageError, Interpreter};
use skylight_layer::{CommandId, Layer, Plan, Step};

use crate::backend::{Errno, Job, Op, Request};
use crate::served::errno_of;
use crate::shingled::Shingles;
use crate::wrong::{WrongSectors, wrong_byte};

pub(super) fn extent_of(request: &Request) -> LbaExtent {
    LbaExtent::new(Lba(request.offset / SECTOR_BYTES), Sectors(request.len / SECTOR_BYTES))
}

/// What is left of an extent without another one.
fn without(part: LbaExtent, other: LbaExtent) -> impl Iterator<Item = LbaExtent> {
    let before = LbaExtent::new(part.start, other.start.clamp(part.start, part.end()) - part.start);
    let from = other.end().clamp(part.start, part.end()).max(before.end());
    let behind = LbaExtent::new(from, part.end() - from);
    [before, behind].into_iter().filter(|part| !part.is_empty())
}

/// Reads the media. A sector of them that is wrong is no error where the volatile cache holds a newer one.
fn read_media(
    interpreter: &Interpreter,
    cached: &[Cached],
    extent: LbaExtent,
    buffer: &mut [u8],
    layer: &dyn Layer,
) -> Result<(), ImageError> {
    let whole = interpreter.read(extent, buffer, layer);
    let Err(ImageError::Checksum { .. }) = whole else {
        return whole;
    };
    let mut rest = vec![extent];
    for write in cached {
        rest = rest.into_iter().flat_map(|part| without(part, write.extent)).collect();
    }
    rest.into_iter().try_for_each(|part| {
        let from = (part.start - extent.start).bytes() as usize;
        interpreter.read(part, &mut buffer[from..from + part.len.bytes() as usize], layer)
    })
}

/// A command between its arrival and its answer.
pub(super) struct InFlight {
    pub(super) job: Job,
    pub(super) came: Time,
    pub(super) result: Result<(), Errno>,
    /// The zeroes of which it is a part.
    pub(super) part_of: Option<u32>,
    /// Of a raw shingled disk: what its layer's plan has read, and which parts of it are errors.
    planned: Option<Vec<LbaExtent>>,
}

/// A write that the volatile cache holds.
pub(super) struct Cached {
    id: CommandId,
    extent: LbaExtent,
    data: Vec<u8>,
}

/// The bytes: what is on the media, in the volatile cache, and on its way.
pub(super) struct Bytes {
    pub(super) interpreter: Interpreter,
    in_flight: Vec<Option<InFlight>>,
    free: Vec<u32>,
    /// In the order in which they came.
    pub(super) cached: Vec<Cached>,
    /// Whether writes that are not answered from the volatile cache are durable when answered.
    write_cache: bool,
    pub(super) last_error: Option<String>,
    /// Why what the volatile cache holds could not be written.
    refused_by: Option<Errno>,
    /// Whether a plan of the host's commands was refused since somebody looked.
    pub(super) refused_host: bool,
    /// For a raw shingled disk.
    pub(super) shingles: Option<Arc<Shingles>>,
    pub(super) wrong: Arc<WrongSectors>,
    /// A planted fault: see [`super::model::Planted`].
    pub(super) oldest_on_top: bool,
}

impl Bytes {
    /// Nothing on its way, nothing cached.
    pub(super) fn new(interpreter: Interpreter, write_cache: bool, shingles: Option<Arc<Shingles>>) -> Self {
        let (in_flight, free, cached) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            interpreter,
            in_flight,
            free,
            cached,
            write_cache,
            last_error: None,
            refused_by: None,
            refused_host: false,
            shingles,
            wrong: Arc::default(),
            oldest_on_top: false,
        }
    }

    /// Whether a write is answered only when its bytes are on the media.
    pub(super) fn waits_for_media(&self, request: &Request) -> bool {
        matches!(request.op, Op::Write | Op::WriteZeroes) && (request.fua || !self.write_cache)
    }

    /// Bytes that were answered and are not on the media.
    pub(super) fn unwritten_bytes(&self) -> u64 {
        self.cached.iter().map(|cached| cached.data.len() as u64).sum()
    }

    /// A command is on its way; the number that the drive knows it by.
    pub(super) fn start(&mut self, job: Job, came: Time, part_of: Option<u32>) -> u32 {
        let in_flight = Some(InFlight { job, came, result: Ok(()), part_of, planned: None });
        match self.free.pop() {
            Some(id) => {
                self.in_flight[id as usize] = in_flight;
                id
            }
            None => {
                self.in_flight.push(in_flight);
                self.in_flight.len() as u32 - 1
            }
        }
    }

    /// A command is answered: its number is free.
    pub(super) fn finish(&mut self, id: u32) -> Option<InFlight> {
        let in_flight = self.in_flight.get_mut(id as usize)?.take()?;
        self.free.push(id);
        Some(in_flight)
    }

    pub(super) fn in_flight(&self, id: CommandId) -> Option<&InFlight> {
        self.in_flight.get(id.0 as usize)?.as_ref()
    }

    fn in_flight_mut(&mut self, id: CommandId) -> Option<&mut InFlight> {
        self.in_flight.get_mut(id.0 as usize)?.as_mut()
    }

    fn note(&mut self, error: &ImageError) -> Errno {
        self.last_error = Some(error.to_string());
        self.wrong.note(error);
        errno_of(error)
    }

    fn fail(&mut self, ids: &[CommandId], error: &ImageError) {
        let errno = self.note(error);
        for &id in ids {
            if let Some(in_flight) = self.in_flight_mut(id) {
                in_flight.result = Err(errno);
            }
        }
    }

    /// Moves the bytes of a plan of the host's commands; whether they have to be durable when these are answered.
    fn host_plan(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        ids: &[CommandId],
    ) -> Result<bool, ImageError> {
        let (mut writes, mut trim, mut durable) = (Vec::new(), None, false);
        let Self { interpreter, in_flight, write_cache, .. } = self;
        for &id in ids {
            let Some(Some(InFlight { job, .. })) = in_flight.get(id.0 as usize) else {
                continue;
            };
            let extent = extent_of(&job.request);
            match job.request.op {
                Op::Write => {
                    writes.push(HostWrite { id, extent, data: &job.data });
                    durable |= job.request.fua || !*write_cache;
                }
                Op::Trim => {
                    trim = Some(extent);
                    durable |= job.request.fua;
                }
                _ => {}
            }
        }
        match trim {
            Some(extent) => interpreter.apply_trim(plan, layer, extent)?,
            None => interpreter.apply(plan, layer, &writes)?,
        }
        Ok(durable)
    }

    /// Moves the bytes of a plan of the volatile cache's writes. If that fails they stay: they were answered.
    fn cache_plan(
        &mut self,
        plan: &Plan,
        layer: &mut dyn Layer,
        ids: &[CommandId],
    ) -> Result<(), ImageError> {
        let writes: Vec<HostWrite<'_>> = self
            .cached
            .iter()
            .filter(|cached| ids.contains(&cached.id))
            .map(|cached| HostWrite { id: cached.id, extent: cached.extent, data: &cached.data })
            .collect();
        self.interpreter.apply(plan, layer, &writes)?;
        self.cached.retain(|cached| !ids.contains(&cached.id));
        Ok(())
    }

    /// What a read gets now: the media, and over it what the volatile cache holds.
    fn read(&mut self, id: CommandId, layer: &dyn Layer) {
        let Some(in_flight) = self.in_flight.get_mut(id.0 as usize).and_then(Option::as_mut) else {
            return;
        };
        let extent = extent_of(&in_flight.job.request);
        let result = match in_flight.planned {
            Some(_) => Ok(()),
            None => read_media(&self.interpreter, &self.cached, extent, &mut in_flight.job.data, layer),
        };
        for index in 0..self.cached.len() {
            let cached = match self.oldest_on_top {
                true => &self.cached[self.cached.len() - 1 - index],
                false => &self.cached[index],
            };
            let (start, end) = (extent.start.max(cached.extent.start), extent.end().min(cached.extent.end()));
            if start < end {
                let len = (end - start).bytes() as usize;
                let (to, from) =
                    ((start - extent.start).bytes() as usize, (start - cached.extent.start).bytes() as usize);
                in_flight.job.data[to..to + len].copy_from_slice(&cached.data[from..from + len]);
            }
        }
        let refused = in_flight.planned.take().unwrap_or_default();
        if let Err(error) = result {
            wrong_byte(&error).into_iter().for_each(|at| in_flight.job.fails_at(at));
            self.fail(&[id], &error);
        }
        self.refuse(id, &refused);
    }

    /// Fails a read some parts of which are errors, unless the volatile cache has these.
    fn refuse(&mut self, id: CommandId, parts: &[LbaExtent]) {
        let mut losses = Vec::new();
        for &part in parts {
            let mut rest = vec![part];
            for cached in &self.cached {
                rest = rest.into_iter().flat_map(|part| without(part, cached.extent)).collect();
            }
            rest.into_iter().for_each(|part| losses.extend(self.interpreter.losses(part)));
        }
        if let (Some(loss), Some(shingles)) = (losses.first(), &self.shingles) {
            shingles.tell(&losses);
            let error = skylight_image::image::unreadable(loss.lba);
            self.fail(&[id], &error);
            if let Some(in_flight) = self.in_flight_mut(id) {
                in_flight.job.fails_at(Sectors(loss.lba.start.get()).bytes());
            }
        }
    }

    /// Reads what the plan of a read of a raw shingled disk says.
    fn planned_read(&mut self, plan: &Plan, ids: &[CommandId]) -> Result<(), ImageError> {
        for &id in ids {
            let Some(Some(InFlight { job, planned, .. })) = self.in_flight.get_mut(id.0 as usize) else {
                continue;
            };
            if job.request.op == Op::Read {
                let extent = extent_of(&job.request);
                *planned = Some(self.interpreter.read_plan(plan, id, extent, &mut job.data)?);
            }
        }
        Ok(())
    }
}

impl Mover for Bytes {
    fn executed(&mut self, origin: Origin, plan: &Plan, layer: &mut dyn Layer) -> Moved {
        let completes = plan.steps().iter().filter_map(|step| match step {
            Step::Complete(id) => Some(*id),
            _ => None,
        });
        let ids: Vec<CommandId> = completes.collect();
        let moved = match origin {
            Origin::Host => {
                if self.shingles.is_some()
                    && let Err(error) = self.planned_read(plan, &ids)
                {
                    self.fail(&ids, &error);
                    return Moved::Done;
                }
                self.host_plan(plan, layer, &ids)
            }
            Origin::Cache => self.cache_plan(plan, layer, &ids).map(|()| false),
            Origin::Idle => self.interpreter.apply(plan, layer, &[]).map(|()| false),
        };
        match moved {
            Ok(durable) => {
                // The plan is done whether or not it can be made durable.
                if durable && let Err(error) = self.interpreter.flush() {
                    self.fail(&ids, &error);
                }
                Moved::Done
            }
            Err(error) if origin == Origin::Host => {
                self.fail(&ids, &error);
                self.refused_host = true;
                Moved::Refused
            }
            Err(error) => {
                self.refused_by = Some(self.note(&error));
                Moved::Refused
            }
        }
    }

    fn refused(&mut self, id: CommandId) {
        let errno = self.refused_by.unwrap_or(Errno::NoSpace);
        if let Some(in_flight) = self.in_flight_mut(id) {
            in_flight.result = Err(errno);
        }
    }

    fn cached(&mut self, host: CommandId, cache: CommandId) {
        if let Some(in_flight) = self.in_flight_mut(host) {
            let data = std::mem::take(&mut in_flight.job.data);
            let extent = extent_of(&in_flight.job.request);
            self.cached.push(Cached { id: cache, extent, data });
        }
    }

    fn decided(&mut self, id: CommandId, layer: &dyn Layer) {
        match self.in_flight(id).map(|in_flight| in_flight.job.request.op) {
            Some(Op::Read) => self.read(id, layer),
            Some(Op::Flush) => {
                if let Err(error) = self.interpreter.flush() {
                    self.fail(&[id], &error);
                } else if let Err(error) = self.interpreter.rest() {
                    // Behind a flush is a good time for what checksums have to do; the flush is none the worse.
                    self.note(&error);
                }
            }
            _ => {}
        }
    }
}
