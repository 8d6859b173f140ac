//! Cleaning: what the log has of a home zone goes home, in chunks between which commands may come.
//!
//! Where all of it lies at the write pointer or behind, it is *appended* to what the zone has, with zeros between. Otherwise the
//! zone is *rewritten* to a spare zone, merged from its old place and from the log, and the old place becomes a spare. Either
//! way the data is made durable before the record that takes the home zone out of the log.
//!
//! Invariants: only the last step changes where anything is; a write or trim of the zone before that ends its cleaning; while
//! a zone is cleaned, nothing is written to it directly.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::HBuffer;
use super::below::{Aim, Data, ReadAim};
use super::format::{HEADER, Kind};
use crate::capabilities::zoned::ZoneModel;
use crate::plan::{MapChange, Plan, Step};

/// A home zone that is being cleaned.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cleaning {
    pub home: u32,
    /// The zone of the drive that is written: where the home zone is, or a spare.
    target: u32,
    /// Sectors of the home zone that the target has.
    done: Sectors,
    /// Sectors of the home zone that the target will have.
    end: Sectors,
}

impl HBuffer {
    /// Begins to clean a home zone; without effect if the log has nothing of it, or another one is being cleaned.
    ///
    /// # Errors
    /// When the drive refuses what has to be done for that.
    pub(super) fn begin_cleaning(&mut self, home: u32, plan: &mut Plan) -> Result<(), Failure> {
        // The record that ends it.
        self.make_space(HEADER, 0, plan)?;
        let is_dirty = self.contents.homes.get(home as usize).is_some_and(|home| home.buffered > 0);
        if is_dirty && self.cleaning.is_none() { self.choose_target(home, plan) } else { Ok(()) }
    }

    /// Cleans a home zone, after the one that is being cleaned.
    pub(super) fn clean_now(&mut self, home: u32, plan: &mut Plan) -> Result<(), Failure> {
        self.finish_cleaning(plan)?;
        if self.contents.homes[home as usize].buffered > 0 {
            self.choose_target(home, plan)?;
        }
        self.finish_cleaning(plan)
    }

    /// All further steps of the zone that is being cleaned, if there is one.
    pub(super) fn finish_cleaning(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        while self.cleaning.is_some() {
            self.clean_step(plan)?;
        }
        Ok(())
    }

    /// A home zone changes, so what was read of it may be stale.
    pub(super) fn cancel_cleaning_of(&mut self, home: u32) {
        if self.cleaning.is_some_and(|cleaning| cleaning.home == home) {
            self.cancel_cleaning();
        }
    }

    fn cancel_cleaning(&mut self) {
        if let Some(cleaning) = self.cleaning.take()
            && self.contents.homes[cleaning.home as usize].zone != cleaning.target
        {
            self.spares.free.push_front(cleaning.target);
        }
    }

    fn choose_target(&mut self, home: u32, plan: &mut Plan) -> Result<(), Failure> {
        let extent = self.contents.extent_of(home);
        let zone = self.contents.homes[home as usize].zone;
        let (mut first, mut last) = (extent.end(), extent.start);
        for mapped in self.contents.map.overlapping(extent) {
            first = first.min(mapped.lba.start);
            last = last.max(mapped.lba.end());
        }
        let (written, buffered) = (self.below.written(zone), last - extent.start);
        let descriptor = self.below.zone(zone);
        let is_writable = descriptor.write_pointer.is_some();
        self.cleaning =
            Some(if is_writable && !descriptor.non_sequential && extent.start + written <= first {
                Cleaning { home, target: zone, done: written, end: buffered }
            } else {
                // Where the drive's cache has data of the zone, its write pointer does not say where data ends.
                let written = if descriptor.non_sequential { extent.len } else { written };
                let target = self.take_spare(plan)?;
                Cleaning { home, target, done: Sectors(0), end: buffered.max(written) }
            });
        Ok(())
    }

    /// An empty zone.
    fn take_spare(&mut self, plan: &mut Plan) -> Result<u32, Failure> {
        if self.spares.free.is_empty() {
            self.flush();
        }
        let zone = self.spares.free.pop_front().ok_or(Failure::NoSpace)?;
        let emptied = self.below.reset(zone, plan);
        if emptied.is_err() {
            self.spares.free.push_back(zone);
        }
        emptied.map(|()| zone)
    }

    /// One chunk, or the end.
    pub(super) fn clean_step(&mut self, plan: &mut Plan) -> Result<(), Failure> {
        let Some(cleaning) = self.cleaning else { return Ok(()) };
        let step = match cleaning.done < cleaning.end {
            true => self.move_chunk(cleaning, plan),
            false => self.end_cleaning(cleaning, plan),
        };
        if step.is_err() {
            self.cancel_cleaning();
        }
        step
    }

    fn move_chunk(&mut self, cleaning: Cleaning, plan: &mut Plan) -> Result<(), Failure> {
        let Cleaning { home, target, done, end } = cleaning;
        let host =
            LbaExtent::new(self.contents.extent_of(home).start + done, (end - done).min(self.spec.chunk));
        let mut pieces = Vec::new();
        self.contents.visit_pieces(host, |piece, place| pieces.push((piece, place)));
        let mut moved = Vec::with_capacity(pieces.len());
        for (piece, place) in pieces {
            let len = place.map_or_else(|| self.readable(cleaning, piece), |_| piece.len);
            if len > Sectors(0) {
                let start = place.unwrap_or_else(|| self.contents.home_place(piece.start));
                self.below.read(LbaExtent::new(start, len), ReadAim::Clean, plan)?;
                moved.push((Some(start), len));
            }
            if len < piece.len {
                moved.push((None, piece.len - len));
            }
        }
        let at: Lba = self.below.layout().start_of(target) + done;
        let write = (Aim::Clean(host.start), || Data::Moved(moved));
        self.below.write(LbaExtent::new(at, host.len), write, plan)?;
        self.counters.cleaned += host.len.get();
        self.cleaning = Some(Cleaning { done: done + host.len, ..cleaning });
        Ok(())
    }

    /// How much of a part of a home zone that the log has not was ever written at home.
    fn readable(&self, cleaning: Cleaning, part: LbaExtent) -> Sectors {
        let zone = self.contents.homes[cleaning.home as usize].zone;
        // What is appended goes behind what was written.
        if zone == cleaning.target {
            return Sectors(0);
        }
        let non_sequential = self.below.zone(zone).non_sequential;
        if non_sequential && self.below.layout().model == ZoneModel::HostAware {
            return part.len;
        }
        let (_, offset) = self.contents.place_of(part.start);
        Sectors(self.below.written(zone).get().saturating_sub(offset.get())).min(part.len)
    }

    /// Makes what was moved durable, and then takes the home zone out of the log.
    fn end_cleaning(&mut self, cleaning: Cleaning, plan: &mut Plan) -> Result<(), Failure> {
        let Cleaning { home, target, .. } = cleaning;
        let extent = self.contents.extent_of(home);
        let old = self.contents.homes[home as usize].zone;
        self.flush();
        let change = |buffer: &mut Self| {
            buffer.contents.remove(extent);
            buffer.contents.homes[home as usize].zone = target;
            if old != target {
                buffer.spares.given_up.push(old);
            }
        };
        self.record(Kind::Home { home, zone: target }, change, plan)?;
        self.cleaning = None;
        plan.push(Step::Commit(if old == target {
            self.counters.appended_zones += 1;
            MapChange::Native { lba: extent }
        } else {
            self.below.set_owner(old, None);
            self.below.set_owner(target, Some(home));
            self.counters.rewritten_zones += 1;
            let pba = self.below.place(self.contents.home_place(extent.start)).into();
            MapChange::Remapped { lba: extent, pba }
        }));
        Ok(())
    }
}
