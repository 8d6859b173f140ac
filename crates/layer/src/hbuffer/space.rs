//! Space in the log and in the map, records, and checkpoints.
//!
//! Invariants: a zone of the log is emptied when it has no live data, no recovery would scan it, and a flush has made all records
//! durable; the map has no more entries than a checkpoint holds.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::device::{Action, Data, Executor, HostPart};
use super::format::{Checkpoint, HEADER, Header, Kind, UNREADABLE};

/// Between two checkpoints the log grows by so many times their size, or a zone if that is more. Chosen: checkpoints are a fifth of
/// what is written at most, and a scan is a few times as long as the reading of a checkpoint.
const LOG_PER_CHECKPOINT: u64 = 4;

impl HBuffer {
    /// Makes sure that an entry of so many sectors fits in the log, and so many more entries in the map.
    ///
    /// # Errors
    /// When the drive refuses what has to be done for that.
    pub(super) fn make_space(
        &mut self,
        sectors: Sectors,
        entries: u64,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        loop {
            self.start(drive)?;
            let next = self.log.next();
            let cleaning = self.pass.as_ref().map_or(0, |pass| pass.homes());
            let records = self.contents.zones[next as usize].homes.len() + cleaning + 1;
            if entries > self.contents.map_space()
                && let Some(home) = self.contents.oldest_from(next)
            {
                self.clean_now(vec![home], drive)?;
            } else if self.log.fits(sectors, records) {
                return Ok(());
            } else if self.contents.zones[next as usize].live == 0 {
                self.go_on(drive)?;
            } else {
                let homes = self.contents.zones[next as usize].homes.iter().copied().collect();
                self.clean_now(homes, drive)?;
            }
        }
    }

    /// The log goes on in its next zone, which has no live data.
    fn go_on(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let next = self.log.next();
        self.leave_zone(next, drive);
        if next == self.log.scan_from {
            self.checkpoint(drive)?;
        }
        self.flush(drive)?;
        self.reset(self.log.zone_of(next), drive)?;
        self.contents.zones[next as usize].homes.clear();
        (self.log.head, self.log.at) = (next, Sectors(0));
        let size = self.checkpoint_sectors().get();
        let due = (LOG_PER_CHECKPOINT * size).max(self.contents.places.home.get());
        if self.log.since_checkpoint.get() >= due { self.checkpoint(drive) } else { Ok(()) }
    }

    fn checkpoint_sectors(&self) -> Sectors {
        let pool = self.contents.homes.len() - self.contents.places.conventional as usize;
        Checkpoint::sectors(pool, self.contents.entries())
    }

    /// Writes an entry or a record where the log is. One that fails may be there all the same, whole or in part: what the log says
    /// goes on from a checkpoint then, behind it, and not with the number that would follow on it either, so that a recovery from
    /// the checkpoint before that sees that it does not know all.
    pub(super) fn write_log(
        &mut self,
        header: Header,
        parts: Vec<HostPart>,
        drive: &mut dyn Executor,
    ) -> Result<LbaExtent, Failure> {
        let extent = self.log.entry(&self.view.layout, &header);
        let written = self.act(&Action::Write { extent, data: Data::Entry(header, parts) }, drive);
        if let Err(failure) = written {
            self.needs_checkpoint = true;
            self.log.sequence += 2;
            let head = self.log.zone_of(self.log.head);
            self.log.at = self.view.written(head).min(self.contents.places.home);
            return Err(failure);
        }
        self.log.advance(extent.len);
        self.counters.headers += HEADER.get();
        Ok(extent)
    }

    /// Writes the record of a change and makes it.
    pub(super) fn record(
        &mut self,
        kind: Kind,
        change: impl FnOnce(&mut Self),
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        if self.log.space() < HEADER {
            change(self);
            return self.record_by_checkpoint(drive);
        }
        let header = self.log.header(self.identity, kind);
        self.write_log(header, Vec::new(), drive)?;
        change(self);
        Ok(())
    }

    /// Writes a checkpoint for changes of which there is no record. It takes a number of the log, so that a recovery from the
    /// checkpoint before it sees that it does not know all.
    pub(super) fn record_by_checkpoint(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        self.needs_checkpoint = true;
        self.log.sequence += 1;
        self.checkpoint(drive)
    }

    /// Writes all that the log says up to now; a recovery goes on from there.
    pub(super) fn checkpoint(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let places = self.contents.places;
        let generation = self.log.generation + 1;
        let place = places.checkpoints[(generation % 2) as usize];
        let extent = LbaExtent::new(place.start, self.checkpoint_sectors());
        self.flush(drive)?;
        if places.checkpoints_in_order {
            self.reset(self.view.layout.zone_of(place.start), drive)?;
        }
        let data = Data::Bytes(self.checkpoint_of(generation).encode());
        self.act(&Action::Write { extent, data }, drive)?;
        self.flush_drive(drive)?;
        // It is durable, and all that it says.
        self.needs_checkpoint = false;
        self.spares.free.extend(self.spares.given_up.drain(..));
        self.log.generation = generation;
        (self.log.scan_from, self.log.since_checkpoint) = (self.log.head, Sectors(0));
        self.counters.checkpoints += 1;
        self.counters.checkpointed += extent.len.get();
        Ok(())
    }

    fn checkpoint_of(&self, generation: u64) -> Checkpoint {
        let Self { log, contents, sizes, identity, .. } = self;
        let all = LbaExtent::new(Lba(0), self.capacity());
        let homes = contents.homes.iter().skip(contents.places.conventional as usize);
        let mapped = contents.map.overlapping(all).map(|mapped| (mapped.lba, Lba(mapped.pba.get())));
        let unreadable = contents.unreadable().overlapping(all).map(|mapped| (mapped.lba, UNREADABLE));
        Checkpoint {
            identity: *identity,
            sizes: *sizes,
            generation,
            sequence: log.sequence,
            head: (log.zone_of(log.head), log.at),
            homes: homes.map(|home| home.zone).collect(),
            map: mapped.chain(unreadable).collect(),
        }
    }
}
