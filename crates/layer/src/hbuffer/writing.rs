//! Writes: which way each goes, and what goes to the drive together.
//!
//! Writes to the log that wait together share an entry; writes that continue each other in a home zone are one write there.
//!
//! Invariant: writes that conflict take effect in the order in which they wait.

use skylight_command::{Command, CommandId, Failure, Op};
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::below::{Aim, Data};
use super::format::{EXTENTS, HEADER, Kind};
use super::policy::{Occasion, Path, WritePart};
use crate::capabilities::zoned::ZoneModel;
use crate::leaf::ENTRY_MAX_SECTORS;
use crate::plan::{MapChange, Plan, Queue, Step};

/// Parts of writes that will be the next entry of the log, and the writes that this plan takes.
#[derive(Default)]
pub(super) struct Batch {
    parts: Vec<LbaExtent>,
    data: Sectors,
    taken: Vec<(CommandId, Result<(), Failure>)>,
    fua: bool,
}

impl Batch {
    fn take(&mut self, command: &Command, result: Result<(), Failure>) {
        self.taken.push((command.id, result));
        self.fua |= command.flags.fua;
    }
}

impl HBuffer {
    /// Takes the next write. If that goes to the log, so do the other waiting writes that fit in its entry, oldest first, up to one
    /// that does not go there; if it goes home, those that continue it.
    pub(super) fn take_writes(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let next = queue.next_command();
        let mut batch = Batch::default();
        if let Err(failure) = self.start(plan) {
            return plan.fail(next.id, failure);
        }
        let mut paths = self.paths(next.extent);
        if let [(zone, part, Path::Direct | Path::DriveCache)] = paths[..]
            && part == next.extent
        {
            self.write_run(zone, queue, &mut batch, plan);
        } else {
            let result = self.place(&paths, &mut batch, plan);
            batch.take(&next, result);
            let others = queue.waiting.iter().enumerate().filter(|&(index, _)| index != queue.next);
            for command in others.map(|(_, command)| command).filter(|command| command.op == Op::Write) {
                // A part more than the zones that it touches, of those longer than an entry.
                let parts = 2 + command.extent.len.get() / self.contents.places.home.get();
                let full = batch.data + command.extent.len > self.spec.entry_max
                    || batch.parts.len() as u64 + parts > EXTENTS as u64;
                if full || batch.parts.is_empty() {
                    break;
                }
                paths = self.paths(command.extent);
                if paths.iter().any(|&(.., path)| path != Path::Buffer) {
                    break;
                }
                let result = self.place(&paths, &mut batch, plan);
                batch.take(command, result);
            }
        }
        if let Err(failure) = self.write_entry(&mut batch, plan) {
            batch.taken.iter_mut().for_each(|(_, result)| *result = result.and(Err(failure)));
        }
        if batch.fua {
            self.flush();
        }
        self.clean_behind(plan);
        for (id, result) in batch.taken {
            match result {
                Ok(()) => plan.complete(id),
                Err(failure) => plan.fail(id, failure),
            }
        }
    }

    /// The home zones of a write, with the part in each and its way.
    fn paths(&mut self, write: LbaExtent) -> Vec<(u32, LbaExtent, Path)> {
        let in_stream = self.streams.run_before(write.start) > 0;
        let mut parts = Vec::with_capacity(1);
        self.contents.visit_homes(write, |zone, part| parts.push((zone, part, Path::Direct)));
        for (zone, extent, path) in &mut parts {
            if !self.contents.is_conventional(*zone) {
                let part = WritePart { extent: *extent, zone: *zone, in_stream };
                *path = self.ask(|policy, state| policy.path(&part, state));
                *path = self.allowed(&part, *path);
            }
        }
        parts
    }

    /// The way itself where that is safe, otherwise the log.
    fn allowed(&self, part: &WritePart, path: Path) -> Path {
        let zone = self.contents.homes[part.zone as usize].zone;
        let (_, offset) = self.contents.place_of(part.extent.start);
        let in_order = self.below.written(zone) == offset && !self.below.zone(zone).non_sequential;
        let safe = match path {
            Path::Buffer => false,
            Path::Direct => in_order,
            Path::DriveCache => in_order || self.below.layout().model == ZoneModel::HostAware,
        };
        let cleaning = self.cleaning.as_ref().is_some_and(|cleaning| cleaning.home == part.zone);
        if safe && !cleaning && !self.contents.has(part.extent) { path } else { Path::Buffer }
    }

    /// Sends the parts of a write on their ways: home now, to the log with the batch. The log first: what follows may conflict.
    fn place(
        &mut self,
        parts: &[(u32, LbaExtent, Path)],
        batch: &mut Batch,
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        for &(zone, part, path) in parts {
            self.streams.note(part);
            if path != Path::Buffer {
                self.write_entry(batch, plan)?;
                // Cleaning for that entry may have begun with this zone, or the entry have taken the extent.
                let ask = WritePart { extent: part, zone, in_stream: false };
                let path = if self.contents.is_conventional(zone) { path } else { self.allowed(&ask, path) };
                if path != Path::Buffer {
                    self.write_home(zone, part, plan)?;
                    continue;
                }
            }
            let mut rest = part;
            while !rest.is_empty() {
                let full = batch.parts.len() == EXTENTS || batch.data == self.spec.entry_max;
                if full {
                    self.write_entry(batch, plan)?;
                }
                let here = rest.len.min(self.spec.entry_max - batch.data);
                batch.parts.push(LbaExtent::new(rest.start, here));
                batch.data += here;
                rest = LbaExtent::new(rest.start + here, rest.len - here);
            }
        }
        Ok(())
    }

    /// Writes the next write home, as one with the waiting ones that continue it in its zone and do not overtake another there.
    fn write_run(&mut self, zone: u32, queue: Queue<'_>, batch: &mut Batch, plan: &mut Plan) {
        let home = self.contents.extent_of(zone);
        let touches = |other: &Command| other.extent.start < home.end() && home.start < other.extent.end();
        let next = queue.next_command();
        let alone = queue.waiting[..queue.next].iter().any(touches);
        let mut run = LbaExtent::new(next.extent.start, Sectors(0));
        for command in queue.waiting[queue.next..].iter().filter(|command| touches(command)) {
            let LbaExtent { start, len } = command.extent;
            let continues = command.op == Op::Write && start == run.end() && start + len <= home.end();
            let free = run.is_empty() || (!alone && !self.contents.has(command.extent));
            if !continues || !free {
                break;
            }
            run.len += len;
            self.streams.note(command.extent);
            batch.take(command, Ok(()));
        }
        if let Err(failure) = self.write_home(zone, run, plan) {
            batch.taken.iter_mut().for_each(|(_, result)| *result = Err(failure));
        }
    }

    fn write_home(&mut self, zone: u32, part: LbaExtent, plan: &mut Plan) -> Result<(), Failure> {
        let place = LbaExtent::new(self.contents.home_place(part.start), part.len);
        let drive_zone = self.contents.homes[zone as usize].zone;
        let (_, offset) = self.contents.place_of(part.start);
        let in_order = self.contents.is_conventional(zone) || self.below.written(drive_zone) == offset;
        self.below.write(place, (Aim::Home(part.start), || Data::Host(part)), plan)?;
        let counter = if in_order { &mut self.counters.direct } else { &mut self.counters.drive_cache };
        *counter += part.len.get();
        Ok(())
    }

    /// Writes the batch as an entry of the log, if there is anything in it.
    fn write_entry(&mut self, batch: &mut Batch, plan: &mut Plan) -> Result<(), Failure> {
        if batch.parts.is_empty() {
            return Ok(());
        }
        let parts = std::mem::take(&mut batch.parts);
        let sectors = HEADER + std::mem::take(&mut batch.data);
        // Each part splits at most one extent of the map.
        let entries = parts.iter().map(|part| part.len.get().div_ceil(ENTRY_MAX_SECTORS) + 1).sum();
        self.make_space(sectors, entries, plan)?;
        let header = self.log.header(Kind::Data(parts.clone()));
        let extent = self.log.entry(self.below.layout(), &header);
        self.below.write(extent, (Aim::Entry, || Data::Entry(header)), plan)?;
        self.log.advance(sectors);
        self.counters.headers += HEADER.get();
        self.counters.buffered += (sectors - HEADER).get();
        let mut place: Lba = extent.start + HEADER;
        for lba in parts {
            self.cancel_cleaning_of(self.contents.place_of(lba.start).0);
            self.contents.insert(lba, place);
            plan.push(Step::Commit(MapChange::Cached { lba, pba: self.below.place(place).into() }));
            place += lba.len;
        }
        Ok(())
    }

    /// Cleans what the policy wants cleaned behind a write.
    fn clean_behind(&mut self, plan: &mut Plan) {
        while let Some(home) = self.ask(|policy, state| policy.clean(Occasion::Write, state)) {
            let had = self.contents.homes.get(home as usize).is_some_and(|home| home.buffered > 0);
            if !had || self.begin_cleaning(home, plan).is_err() || self.finish_cleaning(plan).is_err() {
                return;
            }
        }
    }
}
