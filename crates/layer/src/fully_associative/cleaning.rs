//! Cleaning of the fully-associative layer: a band and its exceptions are merged into a free band.
//!
//! The steps of a band are read, gather, write, commit: the band is read where it lies; what logs have of it
//! is gathered, in whatever order the heads reach it; the merged band is written to a free band; the map has
//! the band there, and the place it had is free. Only the last step changes what reads see, and nothing that
//! reads see is written over, so a command may come between two steps; a change in the band starts it over.
//!
//! Next is the band of the oldest exception in the oldest log, of the zone when a write needs room and of the
//! drive when it is idle, so that logs become empty in the order in which they were opened. A write that has
//! no room waits for one band of its zone.
//!
//! Invariant: a band is committed only if nothing in it changed since it was gathered.
//! Source: Skylight (FAST'15), section 3.1; the order is ours, the paper does not give one.

use skylight_disk::{Lba, LbaExtent, Pba, PbaExtent, Sectors};

use crate::extent_map::ExtentMap;
use crate::plan::{Medium, Plan, Purpose, Source, Step};

use super::FullyAssociative;
use super::layout::BandAt;
use super::zone::{Log, Record};

/// What is left to do for a band.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Read,
    Gather,
    Write,
    Commit {
        /// The slot that holds the merged band.
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
    /// The slot that is neither free nor in use for as long as this goes on.
    pub fn held(&self) -> Option<u32> {
        match self.phase {
            Phase::Commit { merged } => Some(merged),
            _ => None,
        }
    }
}

impl FullyAssociative {
    /// One step of cleaning; what is left of it.
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
                let band = PbaExtent::new(self.layout.place(at.zone, merged), at.lba.len);
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

    /// Reads a band where it lies.
    pub(super) fn read_band(&self, at: BandAt, plan: &mut Plan) {
        let band = PbaExtent::new(self.layout.place(at.zone, self.slot(at)), at.lba.len);
        plan.read(Medium::Platter, band, Purpose::CleanRead);
    }

    /// Reads what logs have of a band.
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

    /// One step of cleaning in idle time; `false` when there is nothing to clean.
    pub(super) fn clean_idle(&mut self, plan: &mut Plan) -> bool {
        let Some(cleaning) = self.cleaning.take().or_else(|| self.next_of_drive()) else {
            return false;
        };
        self.cleaning = self.clean_step(cleaning, plan);
        true
    }

    /// All steps of one band of a zone; `false` when there is nothing to clean.
    pub(super) fn clean_band(&mut self, zone: usize, plan: &mut Plan) -> bool {
        let begun = self.cleaning.take_if(|cleaning| cleaning.at.zone == zone);
        let mut cleaning = begun.or_else(|| self.next_of_zone(zone));
        let any = cleaning.is_some();
        while let Some(step) = cleaning {
            cleaning = self.clean_step(step, plan);
        }
        any
    }

    /// A change in a band that is being cleaned: what was gathered is old.
    pub(super) fn cancel_cleaning_of(&mut self, extent: LbaExtent) {
        let touched = |lba: LbaExtent| extent.start < lba.end() && lba.start < extent.end();
        if let Some(cleaning) = self.cleaning.take_if(|cleaning| touched(cleaning.at.lba))
            && let Some(held) = cleaning.held()
            && let Some(zone) = &mut self.zones[cleaning.at.zone]
        {
            zone.free.push(held);
        }
    }

    /// The band to clean next when the drive is idle. Zones are few, and this is asked once a band.
    fn next_of_drive(&mut self) -> Option<Cleaning> {
        let oldest = |(number, zone): (usize, &Option<Box<super::Zone>>)| {
            Some((zone.as_ref()?.logs.front()?.opened, number))
        };
        let (_, zone) = self.zones.iter().enumerate().filter_map(oldest).min()?;
        self.next_of_zone(zone)
    }

    fn next_of_zone(&mut self, zone: usize) -> Option<Cleaning> {
        let first = self.layout.zone_extent(zone).start;
        let log = self.zones[zone].as_mut()?.logs.front_mut()?;
        let place = self.layout.place(zone, log.slot);
        let oldest = oldest_live(&self.exceptions, log, first, place)?;
        Some(Cleaning { at: self.layout.of(oldest), phase: Phase::Read })
    }
}

/// The first sector that is live of the oldest record of a log that has one.
fn oldest_live(exceptions: &ExtentMap, log: &mut Log, zone: Lba, place: Pba) -> Option<Lba> {
    while let Some(&Record { lba, offset, len }) = log.records.get(log.first) {
        let lba = LbaExtent::new(zone + Sectors(lba.into()), Sectors(len.into()));
        let pba = place + Sectors(offset.into());
        let mut found = exceptions.overlapping(lba);
        if let Some(live) = found.find(|found| found.pba == pba + (found.lba.start - lba.start)) {
            return Some(live.lba.start);
        }
        log.first += 1;
    }
    None
}
