//! Cleaning of the fully-associative layer: merges a band with its exceptions into a free band.
//!
//! The steps are read, gather, write, commit. *Read* reads the band at its current location; *gather* reads
//! its exceptions from the logs, in the order in which the heads reach them; *write* writes the merged band
//! to a free band; *commit* remaps the band and frees its former slot. Only the commit changes what reads
//! return, and no step overwrites data that reads return, so commands may run between steps. A change in the
//! band makes cleaning start over.
//!
//! The next band is that of the oldest exception in the oldest log: of the zone if a write needs space, of
//! the drive if it is idle. Thus logs become empty in the order in which they were opened. A write without
//! space waits for one band of its zone.
//!
//! Invariant: a band is committed only if nothing in it has changed since the gather step.
//! Source: Skylight (FAST'15), section 3.1; the order is ours, since the paper does not give one.

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

use crate::extent_map::ExtentMap;
use crate::plan::{Medium, Plan, Purpose, Source, Step};

use super::FullyAssociative;
use super::layout::BandAt;
use super::slots::{Log, LogRecord};

/// The next step for a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    Gather,
    Write,
    Commit {
        /// The slot that contains the merged band.
        merged: u32,
    },
}

/// A band that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    pub at: BandAt,
    phase: Phase,
}

impl Cleaning {
    /// The slot of the merged band until it is committed: neither free nor in use.
    pub fn merged(&self) -> Option<u32> {
        match self.phase {
            Phase::Commit { merged } => Some(merged),
            _ => None,
        }
    }
}

impl FullyAssociative {
    /// Performs one step and returns the rest of the cleaning.
    fn clean_step(&mut self, Cleaning { at, phase }: Cleaning, plan: &mut Plan) -> Option<Cleaning> {
        let slot = self.slot(at);
        let phase = match phase {
            Phase::Read => {
                self.read_band(at, plan);
                Phase::Gather
            }
            Phase::Gather => {
                self.gather(at, plan);
                Phase::Write
            }
            Phase::Write => {
                let merged = self.zones[at.zone].as_mut()?.take_free(slot)?;
                let band = PbaExtent::new(self.layout.slot_start(at.zone, merged), at.lba.len);
                plan.write(Medium::Platter, band, Purpose::CleanWrite, Source::Merged(at.lba.start.into()));
                Phase::Commit { merged }
            }
            Phase::Commit { merged } => {
                self.remap(at, merged, plan);
                return None;
            }
        };
        Some(Cleaning { at, phase })
    }

    /// Reads a band at its current location.
    pub(super) fn read_band(&self, at: BandAt, plan: &mut Plan) {
        let band = PbaExtent::new(self.layout.slot_start(at.zone, self.slot(at)), at.lba.len);
        plan.read(Medium::Platter, band, Purpose::CleanRead);
    }

    /// Reads the exceptions of a band.
    pub(super) fn gather(&self, at: BandAt, plan: &mut Plan) {
        let accesses = self.exceptions.overlapping(at.lba).count() as u32;
        if accesses > 0 {
            plan.push(Step::AnyOrder { accesses });
        }
        for mapped in self.exceptions.overlapping(at.lba) {
            let extent = PbaExtent::new(mapped.pba, mapped.lba.len);
            plan.read(Medium::Platter, extent, Purpose::CleanRead);
        }
    }

    /// One step of cleaning in idle time; `false` if there is nothing to clean.
    pub(super) fn clean_idle(&mut self, plan: &mut Plan) -> bool {
        let Some(cleaning) = self.cleaning.take().or_else(|| self.next_of_drive()) else {
            return false;
        };
        self.cleaning = self.clean_step(cleaning, plan);
        true
    }

    /// All steps of one band of a zone; `false` if there is nothing to clean.
    pub(super) fn clean_band(&mut self, zone: usize, plan: &mut Plan) -> bool {
        let started = self.cleaning.take_if(|cleaning| cleaning.at.zone == zone);
        let mut cleaning = started.or_else(|| self.next_of_zone(zone));
        let any = cleaning.is_some();
        while let Some(step) = cleaning {
            cleaning = self.clean_step(step, plan);
        }
        any
    }

    /// Cancels the cleaning of a band that changes: the data that was read is stale.
    pub(super) fn cancel_cleaning_of(&mut self, extent: LbaExtent) {
        if let Some(cleaning) = self.cleaning.take_if(|cleaning| cleaning.at.lba.overlaps(extent))
            && let Some(merged) = cleaning.merged()
            && let Some(zone) = &mut self.zones[cleaning.at.zone]
        {
            zone.free.push(merged);
        }
    }

    /// The band to clean next when the drive is idle.
    fn next_of_drive(&mut self) -> Option<Cleaning> {
        let zone = self.zone_of_oldest_log()?;
        self.next_of_zone(zone)
    }

    /// The zone of the oldest log of the drive. A drive may have tens of thousands of zones, and as many bands
    /// to clean, so not every band searches all of them: the logs found are kept in order of age, and serve
    /// until none of them is left. Those opened since are younger than all of these, and a log is still there
    /// if it is the front one of its zone, because the older logs of the zone precede it in the order.
    fn zone_of_oldest_log(&mut self) -> Option<usize> {
        let zones = &self.zones;
        let front = |zone: usize| Some(zones[zone].as_ref()?.logs.front()?.opened);
        let still_there = |&(opened, zone): &(u64, usize)| front(zone) == Some(opened);
        while self.by_age.last().is_some_and(|log| !still_there(log)) {
            self.by_age.pop();
        }
        if self.by_age.is_empty() {
            for (number, zone) in zones.iter().enumerate() {
                self.by_age.extend(zone.iter().flat_map(|zone| &zone.logs).map(|log| (log.opened, number)));
            }
            self.by_age.sort_unstable_by(|one, other| other.cmp(one));
        }
        self.by_age.last().map(|&(_, zone)| zone)
    }

    fn next_of_zone(&mut self, zone: usize) -> Option<Cleaning> {
        let first = self.layout.zone_extent(zone).start;
        let log = self.zones[zone].as_mut()?.logs.front_mut()?;
        let start = self.layout.slot_start(zone, log.slot);
        let oldest = oldest_live(&self.exceptions, log, first, start)?;
        Some(Cleaning { at: self.layout.of(oldest), phase: Phase::Read })
    }
}

/// The first live sector of the oldest record of a log that has one.
fn oldest_live(exceptions: &ExtentMap, log: &mut Log, zone: Lba, log_start: Pba) -> Option<Lba> {
    while let Some(&LogRecord { lba, offset, len }) = log.records.get(log.first) {
        let lba = LbaExtent::new(zone + Sectors(lba.into()), Sectors(len.into()));
        let pba = log_start + Sectors(offset.into());
        let mut found = exceptions.overlapping(lba);
        if let Some(live) = found.find(|found| found.pba == pba + (found.lba.start - lba.start)) {
            return Some(live.lba.start);
        }
        log.first += 1;
    }
    None
}
