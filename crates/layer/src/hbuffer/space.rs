//! Space in the log and in the map, records, and checkpoints.
//!
//! Invariants: a zone of the log is emptied when it has no live data, no recovery would scan it, and a flush has made all records
//! durable; the map has no more entries than a checkpoint holds.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::below::{Aim, Data};
use super::format::{Checkpoint, HEADER, Kind};
use crate::plan::Plan;

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
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        loop {
            let next = self.log.next();
            if self.contents.map.entries() + entries > self.contents.places.map_limit
                && let Some(home) = self.contents.oldest_from(next)
            {
                self.clean_now(home, plan)?;
            } else if self.log.fits(sectors, &self.contents) {
                return Ok(());
            } else if self.contents.zones[next as usize].live == 0 {
                self.go_on(plan)?;
            } else {
                match self.contents.zones[next as usize].homes.first().copied() {
                    Some(home) => self.clean_now(home, plan)?,
                    None => return Err(Failure::NoSpace),
                }
            }
        }
    }

    /// The log goes on in its next zone, which has no live data.
    fn go_on(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        let next = self.log.next();
        if next == self.log.scan_from {
            self.checkpoint(plan)?;
        }
        self.flush();
        self.below.reset(self.log.zone_of(next), plan)?;
        self.contents.zones[next as usize].homes.clear();
        (self.log.head, self.log.at) = (next, Sectors(0));
        let size = self.checkpoint_sectors().get();
        let due = (LOG_PER_CHECKPOINT * size).max(self.contents.places.home.get());
        if self.log.since_checkpoint.get() >= due { self.checkpoint(plan) } else { Ok(()) }
    }

    fn checkpoint_sectors(&self) -> Sectors {
        let pool = self.contents.homes.len() - self.contents.places.conventional as usize;
        Checkpoint::sectors(pool, self.contents.map.entries())
    }

    /// Writes a record of a change and makes it, by a checkpoint where the zone of the log has no space for a record.
    pub(super) fn record(
        &mut self,
        kind: Kind,
        change: impl FnOnce(&mut Self),
        plan: &mut Plan,
    ) -> Result<(), Failure> {
        if self.log.space() < HEADER {
            change(self);
            return self.checkpoint(plan);
        }
        let header = self.log.header(kind);
        let extent = self.log.entry(self.below.layout(), &header);
        self.below.write(extent, (Aim::Entry, || Data::Entry(header)), plan)?;
        self.log.advance(HEADER);
        self.counters.headers += HEADER.get();
        change(self);
        Ok(())
    }

    /// Writes all that the log says up to now; a recovery goes on from there.
    pub(super) fn checkpoint(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        let places = self.contents.places;
        let generation = self.log.generation + 1;
        let place = places.checkpoints[(generation % 2) as usize];
        let extent = LbaExtent::new(place.start, self.checkpoint_sectors());
        self.flush();
        if places.checkpoints_in_order {
            self.below.reset(self.below.layout().zone_of(place.start), plan)?;
        }
        let Self { log, contents, below, .. } = self;
        let head = (log.zone_of(log.head), log.at);
        let bytes = || {
            let all = LbaExtent::new(Lba(0), Sectors(u64::from(places.homes) * places.home.get()));
            let mapped = contents.map.overlapping(all);
            let homes = contents.homes.iter().skip(places.conventional as usize);
            let checkpoint = Checkpoint {
                generation,
                sequence: log.sequence,
                head,
                homes: homes.map(|home| home.zone).collect(),
                map: mapped.map(|mapped| (mapped.lba, Lba(mapped.pba.get()))).collect(),
            };
            Data::Bytes(checkpoint.encode())
        };
        below.write(extent, (Aim::Checkpoint, bytes), plan)?;
        self.flush();
        self.log.generation = generation;
        (self.log.scan_from, self.log.since_checkpoint) = (self.log.head, Sectors(0));
        self.counters.checkpoints += 1;
        self.counters.checkpointed += extent.len.get();
        Ok(())
    }
}
