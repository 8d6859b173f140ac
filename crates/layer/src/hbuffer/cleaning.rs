//! Cleaning: what the log has of home zones goes home, in chunks between which commands may come.
//!
//! A *pass* takes the home zones that have to go, and in idle time others with data in the oldest zones of the log, as far as the host's
//! memory holds their data. It gathers that in the order of the log, so that streams that were written in turn are read as one.
//! Where all of a home zone's data lies at the write pointer or behind, it is *appended* to what the zone has, with zeros between.
//! Otherwise the zone is *rewritten* to a spare zone, merged from its old place and from what was gathered, and the old place becomes
//! a spare. Either way the data is made durable before the record that takes it out of the log. Data that comes to the
//! log after the pass began stays there.
//!
//! The log is cleaned *ahead* of need too: as the free part of it shrinks, each entry pays for its share of the home zones that have data in
//! the oldest zone, so that no write waits for all of them.
//!
//! A home zone that cannot be cleaned at home stays as it was, and its data in the log; the pass goes on with the others, and fails at its
//! end. What of the log cannot be read is lost, and the pass goes on without it (`unreadable_sectors.rs`); a read that fails otherwise ends the
//! pass for all that has no record yet.
//!
//! Invariants: only a record changes where anything is; a trim of a home zone before that ends its cleaning; while a home zone
//! is cleaned, nothing is written to it directly.

use std::collections::{BTreeSet, VecDeque};
use std::iter;

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors, Time};

use super::HBuffer;
use super::device::{Action, Data, Executor};
use super::format::{HEADER, Kind, Position};
use super::policy::{Cleaned, Moved};

/// Most home zones of a pass, so that its lists stay small.
pub(super) const HOMES: usize = 1_024;
/// The log is cleaned ahead when less than one in so many of its zones is free. Chosen: late, because what waits may be written
/// again, and early enough to spread the cleaning of a zone over the writing of several.
const AHEAD: u32 = 8;
/// The map is cleaned ahead when less than one in so many of its entries is free. As [`AHEAD`].
const MAP_AHEAD: u64 = 8;

/// A home zone of a pass.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    pub home: u32,
    /// It is written on where it is; otherwise it is rewritten.
    pub appends: bool,
    /// The zone of the drive that is written: where the home zone is, or a spare once there is one.
    pub target: Option<u32>,
    /// Sectors of the home zone that the target has.
    pub done: Sectors,
    /// Sectors of the home zone that the target will have.
    pub end: Sectors,
    /// The log got newer data of the home zone since the pass began, so the zone has to be cleaned again.
    pub overwritten: bool,
}

impl Member {
    /// The spare zone that it took.
    fn spare(&self) -> Option<u32> {
        self.target.filter(|_| !self.appends)
    }

    /// It is written on where it is, or a spare zone has a part of it.
    fn is_begun(&self) -> bool {
        self.target.is_some()
    }
}

/// Home zones that are cleaned together.
#[derive(Debug)]
pub(super) struct Pass {
    /// What the log has from here on stays there.
    pub before: Position,
    /// Reads of the log that are still to do.
    pub gathers: VecDeque<Action>,
    /// The data of the only member is more than the memory, and is gathered chunk by chunk.
    pub by_chunk: bool,
    /// Home zones that are still to be written, those that are appended to first.
    pub members: VecDeque<Member>,
    /// Home zones that were appended to, and not recorded yet.
    pub appended: Vec<Member>,
    /// How much of a home zone a step is, on average.
    pub share: f64,
    pub cost: Cleaned,
    /// Why a home zone was left out.
    pub failed: Option<Failure>,
}

impl Pass {
    /// Whether it cleans a home zone.
    pub fn has(&self, home: u32) -> bool {
        self.members.iter().chain(&self.appended).any(|member| member.home == home)
    }

    /// Home zones that have no record yet.
    pub fn homes(&self) -> usize {
        self.members.len() + self.appended.len()
    }
}

/// Adds what was moved since a time.
fn note(moved: &mut Moved, sectors: Sectors, began: Option<Time>, drive: &dyn Executor) {
    moved.sectors += sectors;
    if let (Some(began), Some(now)) = (began, drive.now()) {
        moved.time += now - began;
    }
}

impl HBuffer {
    /// Begins a pass with a home zone and with those of `others` that are not it, in idle time.
    ///
    /// # Errors
    /// When the drive refuses what has to be done for that.
    pub(super) fn begin_pass(
        &mut self,
        first: u32,
        others: Vec<u32>,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        let mut homes = vec![first];
        homes.extend(others.into_iter().filter(|&home| home != first));
        // The records that end it: those that do not fit are a checkpoint.
        let records = (homes.len() as u64).min(self.contents.places.home.get() / 4);
        self.make_space(Sectors(records.max(1)), 0, drive)?;
        self.plan_pass(homes, drive)
    }

    /// Home zones by the age of their oldest data, as many as a pass may have.
    pub(super) fn oldest_homes(&self) -> Vec<u32> {
        let zones = self.contents.zones.len() as u32;
        let mut homes: Vec<u32> = Vec::new();
        for step in 0..zones {
            let zone = &self.contents.zones[((self.log.next() + step) % zones) as usize];
            if zone.live > 0 {
                homes.extend(&zone.homes);
            }
            if homes.len() >= HOMES {
                break;
            }
        }
        homes
    }

    /// Cleans home zones, after the one that is being cleaned; those of a pass that were not begun wait.
    pub(super) fn clean_now(&mut self, homes: Vec<u32>, drive: &mut dyn Executor) -> Result<(), Failure> {
        self.leave_out_unbegun(drive);
        let had_pass = self.pass.is_some();
        // What of that one cannot be cleaned need not be among these.
        let _ = self.finish_cleaning(drive);
        self.plan_pass(homes, drive)?;
        // Nothing to clean, and still no space: the map or the log contradicts itself.
        if self.pass.is_none() && !had_pass {
            return Err(Failure::NoSpace);
        }
        self.finish_cleaning(drive)
    }

    /// All further steps of the pass, if there is one.
    fn finish_cleaning(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        while self.pass.is_some() {
            self.clean_step(drive)?;
        }
        Ok(())
    }

    /// The log got newer data of a home zone.
    pub(super) fn note_overwritten(&mut self, home: u32) {
        let member =
            self.pass.iter_mut().flat_map(|pass| &mut pass.members).find(|member| member.home == home);
        if let Some(member) = member {
            member.overwritten = true;
        }
    }

    /// Leaves out home zones that the pass has not begun to write, since others cannot wait for them.
    fn leave_out_unbegun(&mut self, drive: &mut dyn Executor) {
        let Some(pass) = &mut self.pass else { return };
        pass.members.retain(Member::is_begun);
        if !pass.gathers.is_empty() || pass.homes() == 0 {
            self.cancel_pass(drive);
        }
    }

    /// Leaves out home zones that the pass has not begun to write and that the host wrote to since: rewriting them now would be for
    /// nothing. The others go on: a host that comes back before all is gathered would otherwise keep the log from ever being cleaned.
    pub(super) fn leave_out_overwritten(&mut self, drive: &mut dyn Executor) {
        let Some(pass) = &mut self.pass else { return };
        let before = pass.homes();
        pass.members.retain(|member| member.is_begun() || !member.overwritten);
        if pass.homes() == before {
            return;
        }
        if pass.homes() == 0 {
            return self.cancel_pass(drive);
        }
        let (contents, log, until) = (&self.contents, &self.log, pass.before);
        let needed: BTreeSet<Lba> = pass
            .members
            .iter()
            .flat_map(|member| contents.older(contents.extent_of(member.home), until, log))
            .map(|(_, place)| place.start)
            .collect();
        // Of a place that was overwritten in part, the rest begins further on.
        let is_needed = |place: &LbaExtent| needed.range(place.start..place.end()).next().is_some();
        pass.gathers
            .retain(|action| matches!(action, Action::Gather { keep, .. } if keep.iter().any(is_needed)));
    }

    /// A home zone changes, so what was read of it may be stale.
    pub(super) fn cancel_cleaning_of(&mut self, home: u32) {
        let Some(pass) = &mut self.pass else { return };
        let spares = &mut self.spares;
        pass.appended.retain(|member| member.home != home);
        pass.members.retain(|member| {
            let stays = member.home != home;
            if !stays {
                spares.free.extend(member.spare());
            }
            stays
        });
    }

    /// The log is about to go on in a zone: nothing there is read for a pass any more, and what it takes from the log cannot end there.
    pub(super) fn leave_zone(&mut self, zone: u32, drive: &mut dyn Executor) {
        let place = self.view.layout.extent_of(self.log.zone_of(zone));
        let Some(pass) = &mut self.pass else { return };
        if pass.before.zone == zone {
            return self.cancel_pass(drive);
        }
        pass.gathers.retain(|action| {
            !matches!(action, Action::Gather { from, .. } if place.start <= from.start && from.start < place.end())
        });
    }

    pub(super) fn cancel_pass(&mut self, drive: &mut dyn Executor) {
        if let Some(pass) = self.pass.take() {
            let zones = &self.contents.homes;
            let unused = pass.members.iter().filter_map(|member| {
                member.target.filter(|&target| zones[member.home as usize].zone != target)
            });
            self.spares.free.extend(unused);
            // It only gives memory back.
            let _ = drive.execute(&Action::Forget);
        }
    }

    /// The next step of the pass, if there is one. If it fails, the home zones of the pass that have no record stay as they were.
    pub(super) fn clean_step(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        let Some(mut pass) = self.pass.take() else { return Ok(()) };
        let mut done = self.step(&mut pass, drive);
        let is_over = pass.homes() == 0;
        if is_over {
            done = done.and(pass.failed.map_or(Ok(()), Err));
        }
        self.pass = Some(pass);
        if done.is_err() || is_over {
            let cost = self.pass.as_ref().map(|pass| pass.cost);
            self.cancel_pass(drive);
            if let (Ok(()), Some(cost), Some(_)) = (done, cost, drive.now()) {
                self.policy.cleaned(&cost);
            }
        }
        done
    }

    fn step(&mut self, pass: &mut Pass, drive: &mut dyn Executor) -> Result<(), Failure> {
        self.start(drive)?;
        let began = drive.now();
        if let Some(action) = pass.gathers.pop_front() {
            let Action::Gather { keep, .. } = &action else { return Ok(()) };
            let sectors = Sectors(keep.iter().map(|place| place.len.get()).sum());
            self.gather(&action, pass.members.iter().map(|member| member.home), pass.before, drive)?;
            note(&mut pass.cost.gathered, sectors, began, drive);
            return Ok(());
        }
        let appending = pass.members.front().is_some_and(|member| member.appends);
        if !appending && !pass.appended.is_empty() {
            self.record_appended(pass, drive)?;
            note(&mut pass.cost.appended, Sectors(0), began, drive);
            return Ok(());
        }
        let Some(mut member) = pass.members.front().copied() else { return Ok(()) };
        let target = match member.target {
            Some(target) => target,
            None => self.take_spare(drive)?,
        };
        member.target = Some(target);
        pass.members[0] = member;
        if member.done < member.end {
            let moved = match self.move_chunk(pass, member, target, drive) {
                // A fault of this home zone alone, which the log goes on without.
                Err(failure) if !self.needs_checkpoint => {
                    pass.failed = Some(failure);
                    self.spares.free.extend(pass.members.pop_front().and_then(|member| member.spare()));
                    return Ok(());
                }
                moved => moved?,
            };
            pass.members[0].done += moved;
            let cost = if member.appends { &mut pass.cost.appended } else { &mut pass.cost.rewritten };
            note(cost, moved, began, drive);
        } else if member.appends {
            pass.appended.push(member);
            pass.members.pop_front();
        } else {
            self.flush(drive)?;
            self.record_home(member, target, pass.before, drive)?;
            pass.members.pop_front();
            pass.cost.rewritten_zones += 1;
            note(&mut pass.cost.rewritten, Sectors(0), began, drive);
        }
        Ok(())
    }

    /// An empty zone.
    fn take_spare(&mut self, drive: &mut dyn Executor) -> Result<u32, Failure> {
        if self.spares.free.is_empty() {
            self.flush(drive)?;
        }
        let zone = self.spares.free.pop_front().ok_or(Failure::NoSpace)?;
        let emptied = self.reset(zone, drive);
        if emptied.is_err() {
            self.spares.free.push_back(zone);
        }
        emptied.map(|()| zone)
    }

    /// Writes the next chunk of a home zone; how much that was.
    fn move_chunk(
        &mut self,
        pass: &Pass,
        member: Member,
        target: u32,
        drive: &mut dyn Executor,
    ) -> Result<Sectors, Failure> {
        let Member { home, done, end, .. } = member;
        let host =
            LbaExtent::new(self.contents.extent_of(home).start + done, (end - done).min(self.tuning.chunk));
        if pass.by_chunk {
            let found = self.contents.older(host, pass.before, &self.log);
            for action in self.gathers(found.into_iter().map(|(_, place)| place).collect()) {
                self.gather(&action, iter::once(home), pass.before, drive)?;
            }
        }
        let found = self.contents.older(host, pass.before, &self.log);
        let pieces: Vec<_> = found.into_iter().map(|(lba, place)| (lba.start - host.start, place)).collect();
        let readable = if member.appends { Sectors(0) } else { self.written_home(home, host) };
        let native = LbaExtent::new(self.contents.home_place(host.start), readable);
        let at: Lba = self.view.layout.start_of(target) + done;
        let extent = LbaExtent::new(at, host.len);
        let write = Action::Write { extent, data: Data::Merged { native, pieces: pieces.clone() } };
        if let Err(failure) = self.act(&write, drive) {
            if native.is_empty() || self.view.written(target) != done {
                return Err(failure);
            }
            let pieces = self.read_around(host.start, native, failure, drive)?.chain(pieces).collect();
            let native = LbaExtent::new(native.start, Sectors(0));
            self.act(&Action::Write { extent, data: Data::Merged { native, pieces } }, drive)?;
        }
        if pass.by_chunk {
            self.act(&Action::Forget, drive)?;
        }
        self.counters.cleaned += host.len.get();
        Ok(host.len)
    }

    /// Makes durable what was appended, and then takes it out of the log.
    fn record_appended(&mut self, pass: &mut Pass, drive: &mut dyn Executor) -> Result<(), Failure> {
        self.flush(drive)?;
        let members = std::mem::take(&mut pass.appended);
        pass.cost.appended_zones += members.len() as u32;
        // One checkpoint for all of them rather than for each that does not fit.
        if self.log.space() < Sectors(HEADER.get() * members.len() as u64) {
            for member in members {
                self.went_home(member, None, pass.before);
            }
            return self.record_by_checkpoint(drive);
        }
        for member in members {
            let zone = self.contents.homes[member.home as usize].zone;
            self.record_home(member, zone, pass.before, drive)?;
        }
        Ok(())
    }

    /// Records that a home zone is in a zone of the drive.
    fn record_home(
        &mut self,
        member: Member,
        zone: u32,
        before: Position,
        drive: &mut dyn Executor,
    ) -> Result<(), Failure> {
        let kind = Kind::Home { home: member.home, zone, before };
        let target = (!member.appends).then_some(zone);
        self.record(kind, |buffer| buffer.went_home(member, target, before), drive)
    }

    /// What the log had of a home zone is home, at another place if one is named.
    fn went_home(&mut self, member: Member, target: Option<u32>, before: Position) {
        self.contents.remove_older(member.home, before, &self.log);
        match target {
            None => self.counters.appended_zones += 1,
            Some(target) => {
                let home = &mut self.contents.homes[member.home as usize];
                self.spares.given_up.push(std::mem::replace(&mut home.zone, target));
                self.counters.rewritten_zones += 1;
            }
        }
    }

    /// An entry of the log has to pay for its share of cleaning.
    pub(super) fn owe(&mut self, sectors: Sectors, entries: u64) {
        let fill = self.fill();
        if fill.free_zones < (fill.zones / AHEAD).max(1) {
            let space =
                fill.space_in_zone.get() + u64::from(fill.free_zones) * self.contents.places.home.get();
            let oldest = (self.log.next() + fill.free_zones) % fill.zones;
            let homes = self.contents.zones[oldest as usize].homes.len() as f64;
            self.owed += homes * sectors.get() as f64 / space.max(1) as f64;
        }
        let limit = self.contents.places.map_limit;
        let free = self.contents.map_space();
        if free < limit / MAP_AHEAD {
            self.owed += f64::from(fill.dirty_zones) * entries as f64 / free.max(1) as f64;
        }
    }

    /// Cleans what is owed.
    pub(super) fn clean_ahead(&mut self, drive: &mut dyn Executor) -> Result<(), Failure> {
        // Never more than was in the log at all.
        self.owed = self.owed.min(self.contents.dirty.len() as f64);
        while self.owed > 0.0 {
            if self.pass.is_none() {
                self.plan_pass(self.oldest_homes(), drive)?;
            }
            let Some(share) = self.pass.as_ref().map(|pass| pass.share) else { return Ok(()) };
            self.owed -= share;
            self.clean_step(drive)?;
        }
        Ok(())
    }
}
