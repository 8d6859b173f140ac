//! Writes: which way each goes, and what goes to the drive together.
//!
//! Writes to the log that wait together share an entry; writes that continue each other in a home zone are one write there.
//!
//! Invariant: writes that conflict take effect in the order in which they wait.

use skylight_command::{Command, CommandId, Failure, Op, Outcome};
use skylight_disk::{LbaExtent, Nanos, Sectors};

use super::HBuffer;
use super::device::{Action, Data, Executor, HostPart};
use super::format::{EXTENTS, HEADER, Kind};
use super::policy::{Occasion, Path, WritePart};
use crate::capabilities::zoned::ZoneModel;
use crate::extent_map::ENTRY_MAX_SECTORS;
use crate::plan::Queue;

/// Parts of writes that will be the next entry of the log, and the writes that are taken together.
#[derive(Default)]
struct Batch {
    parts: Vec<(WritePart, HostPart)>,
    data: Sectors,
    taken: Vec<(CommandId, Result<(), Failure>)>,
    fua: bool,
}

impl Batch {
    fn take(&mut self, command: &Command, result: Result<(), Failure>) {
        self.taken.push((command.id, result));
        self.fua |= command.flags.fua;
    }

    /// All that were taken fail.
    fn fail(&mut self, failure: Failure) {
        self.taken.iter_mut().for_each(|(_, result)| *result = result.and(Err(failure)));
    }
}

impl HBuffer {
    /// Takes the next write. If that goes to the log, so do the other waiting writes that fit in its entry, oldest first, up to one
    /// that does not go there; if it goes home, those that continue it.
    pub(super) fn take_writes(&mut self, queue: Queue<'_>, drive: &mut dyn Executor) {
        let next = queue.next_command();
        let mut batch = Batch::default();
        if let Err(failure) = self.start(drive) {
            return drive.complete(next.id, Outcome::Failed(failure));
        }
        let paths = self.paths(next.extent, drive);
        if let [(part, Path::Direct | Path::DriveCache)] = paths[..]
            && part.extent == next.extent
        {
            self.write_run(&part, queue, &mut batch, drive);
        } else {
            self.write_together(&paths, queue, &mut batch, drive);
        }
        if let Err(failure) = self.write_entry(&mut batch, drive) {
            batch.fail(failure);
        }
        if batch.fua
            && let Err(failure) = self.flush_fua(drive)
        {
            batch.fail(failure);
        }
        // What cannot be cleaned stays in the log: that is no fault of these writes.
        let _ = self.clean_behind(drive).and_then(|()| self.clean_ahead(drive));
        for (id, result) in batch.taken {
            drive.complete(id, result.map_or_else(Outcome::Failed, |()| Outcome::Done));
        }
    }

    /// Takes the next write and those whose data fits in one entry of the log with it.
    fn write_together(
        &mut self,
        paths: &[(WritePart, Path)],
        queue: Queue<'_>,
        batch: &mut Batch,
        drive: &mut dyn Executor,
    ) {
        let next = queue.next_command();
        let result = self.place(&next, paths, batch, drive);
        batch.take(&next, result);
        let others = queue.waiting.iter().enumerate().filter(|&(index, _)| index != queue.next);
        for command in others.map(|(_, command)| command).filter(|command| command.op == Op::Write) {
            // A part more than the zones that it touches, of those longer than an entry.
            let parts = 2 + command.extent.len.get() / self.contents.places.home.get();
            let full = batch.data + command.extent.len > self.tuning.entry_max
                || batch.parts.len() as u64 + parts > EXTENTS as u64;
            if full || batch.parts.is_empty() {
                break;
            }
            let paths = self.paths(command.extent, drive);
            if paths.iter().any(|&(_, path)| path != Path::Buffer) {
                break;
            }
            let result = self.place(command, &paths, batch, drive);
            batch.take(command, result);
        }
    }

    /// The parts of a write by home zone, each with its way.
    fn paths(&mut self, write: LbaExtent, drive: &dyn Executor) -> Vec<(WritePart, Path)> {
        let in_stream = self.streams.run_before(write.start) > 0;
        let mut parts = Vec::with_capacity(1);
        self.contents.visit_homes(write, |zone, extent| {
            parts.push((WritePart { extent, zone, in_stream }, Path::Direct));
        });
        for (part, path) in &mut parts {
            if !self.contents.is_conventional(part.zone) {
                *path = self.ask(drive.now(), |policy, state| policy.path(part, state));
                *path = self.allowed(part, *path);
            }
        }
        parts
    }

    /// The way itself where that is safe, otherwise the log.
    fn allowed(&self, part: &WritePart, path: Path) -> Path {
        let zone = self.view.of(self.contents.homes[part.zone as usize].zone);
        let (_, offset) = self.contents.place_of(part.extent.start);
        let in_order = zone.written == offset && !zone.non_sequential;
        let safe = match path {
            Path::Buffer => false,
            Path::Direct => in_order,
            Path::DriveCache => in_order || self.view.layout.model == ZoneModel::HostAware,
        };
        let cleaning = self.pass.as_ref().is_some_and(|pass| pass.has(part.zone));
        if safe && zone.is_writable() && !cleaning && !self.contents.has(part.extent) {
            path
        } else {
            Path::Buffer
        }
    }

    /// Sends the parts of a write on their ways: home now, to the log with the batch. The log first: what follows may conflict.
    fn place(
        &mut self,
        command: &Command,
        parts: &[(WritePart, Path)],
        batch: &mut Batch,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        for &(part, path) in parts {
            self.streams.note(part.extent);
            let offset = part.extent.start - command.extent.start;
            if path != Path::Buffer {
                self.write_entry(batch, drive)?;
                // Cleaning for that entry may have begun with this zone, or the entry have taken the extent.
                let is_conventional = self.contents.is_conventional(part.zone);
                let path = if is_conventional { path } else { self.allowed(&part, path) };
                if path != Path::Buffer {
                    let data = vec![HostPart { command: command.id, offset, len: part.extent.len }];
                    self.write_home(&part, (part.extent, data), drive)?;
                    continue;
                }
            }
            let mut rest = part.extent;
            while !rest.is_empty() {
                if batch.parts.len() == EXTENTS || batch.data == self.tuning.entry_max {
                    self.write_entry(batch, drive)?;
                }
                let len = rest.len.min(self.tuning.entry_max - batch.data);
                let offset = rest.start - command.extent.start;
                let here = WritePart { extent: LbaExtent::new(rest.start, len), ..part };
                batch.parts.push((here, HostPart { command: command.id, offset, len }));
                batch.data += len;
                rest = LbaExtent::new(rest.start + len, rest.len - len);
            }
        }
        Ok(())
    }

    /// Writes the next write home, as one with the waiting ones that continue it in its zone and do not overtake another there.
    fn write_run(&mut self, part: &WritePart, queue: Queue<'_>, batch: &mut Batch, drive: &mut dyn Executor) {
        let home = self.contents.extent_of(part.zone);
        let touches = |other: &Command| other.extent.overlaps(home);
        let next = queue.next_command();
        let alone = queue.waiting[..queue.next].iter().any(touches);
        let mut run = LbaExtent::new(next.extent.start, Sectors(0));
        let mut data = Vec::with_capacity(1);
        for command in queue.waiting[queue.next..].iter().filter(|command| touches(command)) {
            let LbaExtent { start, len } = command.extent;
            let continues = command.op == Op::Write && start == run.end() && start + len <= home.end();
            let free = run.is_empty() || (!alone && !self.contents.has(command.extent));
            if !continues || !free {
                break;
            }
            run.len += len;
            data.push(HostPart { command: command.id, offset: Sectors(0), len });
            self.streams.note(command.extent);
            batch.take(command, Ok(()));
        }
        if let Err(failure) = self.write_home(part, (run, data), drive) {
            batch.fail(failure);
        }
    }

    /// Writes home; the part is the first, or only one, of what is written.
    fn write_home(
        &mut self,
        part: &WritePart,
        (extent, data): (LbaExtent, Vec<HostPart>),
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        let zone = self.contents.homes[part.zone as usize].zone;
        let (_, offset) = self.contents.place_of(extent.start);
        let is_conventional = self.contents.is_conventional(part.zone);
        let in_order = is_conventional || self.view.written(zone) == offset;
        let began = drive.now();
        let place = LbaExtent::new(self.contents.home_place(extent.start), extent.len);
        let writes = data.len() as u64;
        self.act(&Action::Write { extent: place, data: Data::Host(data) }, drive)?;
        let (counter, path) = match in_order {
            true => (&mut self.counters.direct, Path::Direct),
            false => (&mut self.counters.drive_cache, Path::DriveCache),
        };
        *counter += extent.len.get();
        if let (Some(began), Some(now), false) = (began, drive.now(), is_conventional) {
            self.policy.took(path, part, Nanos((now - began).get() / writes.max(1)));
        }
        Ok(())
    }

    /// Writes the batch as an entry of the log, if there is anything in it.
    fn write_entry(&mut self, batch: &mut Batch, drive: &mut dyn Executor) -> Result<(), Failure> {
        if batch.parts.is_empty() {
            return Ok(());
        }
        let (parts, data): (Vec<_>, Vec<_>) = std::mem::take(&mut batch.parts).into_iter().unzip();
        let sectors = HEADER + std::mem::take(&mut batch.data);
        // Each part splits at most one extent of the map.
        let entries = parts.iter().map(|part| part.extent.len.get().div_ceil(ENTRY_MAX_SECTORS) + 1).sum();
        self.make_space(sectors, entries, drive)?;
        let extents = parts.iter().map(|part| part.extent).collect();
        let header = self.log.header(self.identity, Kind::Data(extents));
        let began = drive.now();
        let mut place = self.write_log(header, data, drive)?.start + HEADER;
        self.counters.buffered += (sectors - HEADER).get();
        for part in &parts {
            self.contents.insert(part.extent, place);
            self.note_overwritten(part.zone);
            place += part.extent.len;
        }
        if let (Some(began), Some(now)) = (began, drive.now()) {
            let each = Nanos((now - began).get() / parts.len() as u64);
            parts.iter().for_each(|part| self.policy.took(Path::Buffer, part, each));
        }
        self.owe(sectors, entries);
        Ok(())
    }

    /// Cleans what the policy wants cleaned behind a write, all of it together.
    fn clean_behind(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let mut homes = Vec::new();
        while let Some(home) = self.ask(drive.now(), |policy, state| policy.clean(Occasion::Write, state)) {
            let had = self.contents.homes.get(home as usize).is_some_and(|home| home.buffered > 0);
            if !had || homes.contains(&home) {
                break;
            }
            homes.push(home);
        }
        if homes.is_empty() { Ok(()) } else { self.clean_now(homes, drive) }
    }
}
