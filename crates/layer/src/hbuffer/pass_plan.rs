//! Which home zones a pass of cleaning takes, and what of the log.
//!
//! A pass takes all that the log has of some home zones, as far as the memory holds it. Where not all of them fit and the host wrote
//! each in order, it may also take the oldest part of the log with what that has of all of them: streams that were written in turn lie side
//! by side in the log, so that a pass over a few of them reads, or skips, the data of the others, and the next pass does so
//! again. To take a part of each zone costs moves of the heads to write it instead. What costs less per sector is taken.
//!
//! Invariants: the place where a pass ends lies between two pieces of the map, also of one that a recovery makes from the log; of a
//! home zone of which the log has data behind that place, what is before it lies before it in the home zone too.

use std::collections::{BTreeSet, VecDeque};

use skylight_command::Failure;
use skylight_disk::{LbaExtent, Sectors};

use super::HBuffer;
use super::cleaning::{HOMES, Member, Pass};
use super::device::{Action, Executor};
use super::format::Position;
use super::policy::Cleaned;

/// Gaps in the log that are read along. Chosen: a quarter of a revolution at the OD, less than a seek there and back.
const READ_ALONG: Sectors = Sectors(1_024);
/// What passes under the heads while they move somewhere else, as a part of a chunk. Chunks are chosen so that two moves are a tenth of
/// the time in which one is read and written.
const MOVE: u64 = 10;

/// Parts of zones are taken where they cost a tenth less. Chosen: the costs are rough, and whole zones are clean afterwards.
const WORTH: (u64, u64) = (10, 9);

/// Home zones that are cleaned together, with the places in the log of their data before a position.
struct Choice {
    before: Position,
    members: Vec<Member>,
    places: Vec<LbaExtent>,
    data: Sectors,
}

impl HBuffer {
    /// Plans a pass over the first of these home zones, and over the next ones as far as the memory holds their data.
    pub(super) fn plan_pass(&mut self, homes: Vec<u32>, drive: &mut dyn Executor) -> Result<(), Failure> {
        let mut seen = BTreeSet::new();
        let mut distinct: Vec<u32> = homes
            .into_iter()
            .filter(|&home| self.contents.dirty.contains(&home) && seen.insert(home))
            .collect();
        distinct.truncate(HOMES);
        for &home in &distinct {
            let zone = self.contents.homes[home as usize].zone;
            if self.view.of(zone).non_sequential {
                self.refresh(zone..zone + 1, drive)?;
            }
        }
        let (choice, is_all) = self.whole_homes(&distinct);
        let choice = if is_all { choice } else { self.in_log_order(&distinct).unwrap_or(choice) };
        if !choice.members.is_empty() {
            self.set_pass(choice);
        }
        Ok(())
    }

    /// All data of the first home zones, and whether the memory holds that of all.
    fn whole_homes(&self, homes: &[u32]) -> (Choice, bool) {
        let before = self.log.position();
        let mut choice = Choice { before, members: Vec::new(), places: Vec::new(), data: Sectors(0) };
        for &home in homes {
            let Some((member, pieces)) = self.member(home, before) else { continue };
            let more = Sectors(pieces.iter().map(|place| place.len.get()).sum());
            if !choice.members.is_empty() && choice.data + more > self.tuning.memory {
                return (choice, false);
            }
            choice.data += more;
            choice.members.push(member);
            choice.places.extend(pieces);
        }
        (choice, true)
    }

    /// The oldest data of all home zones that were written in order, if the first one was and if that is cheaper than all data of some
    /// of these.
    fn in_log_order(&self, homes: &[u32]) -> Option<Choice> {
        let now = self.log.position();
        let mut in_order = Vec::with_capacity(homes.len());
        let mut places = Vec::new();
        for &home in homes {
            let Some((member, pieces)) = self.member(home, now) else { continue };
            if member.appends && pieces.is_sorted_by_key(|&place| self.age(place)) {
                in_order.push(home);
                places.extend(pieces);
            } else if in_order.is_empty() {
                return None;
            }
        }
        let before = self.end_of_memory(places)?;
        let (whole, is_all) = self.whole_homes(&in_order);
        if is_all {
            return None;
        }
        let mut part = Choice { before, members: Vec::new(), places: Vec::new(), data: Sectors(0) };
        for home in in_order {
            let Some((member, pieces)) = self.member(home, before) else { continue };
            part.data += Sectors(pieces.iter().map(|place| place.len.get()).sum());
            part.members.push(member);
            part.places.extend(pieces);
        }
        let (part_cost, whole_cost) =
            (self.cost(&part) * whole.data.get(), self.cost(&whole) * part.data.get());
        (WORTH.0 * part_cost < WORTH.1 * whole_cost).then_some(part)
    }

    /// The last position in the log at which a pass over all before it can end and the memory holds that.
    fn end_of_memory(&self, mut places: Vec<LbaExtent>) -> Option<Position> {
        places.sort_unstable_by_key(|&place| self.age(place));
        let (mut data, mut end) = (Sectors(0), None);
        for pair in places.windows(2) {
            data += pair[0].len;
            if data > self.tuning.memory {
                return end;
            }
            // Where two places touch, one piece of the map may be across.
            if pair[0].end() != pair[1].start {
                end = Some(self.contents.position_of(pair[1].start));
            }
        }
        end
    }

    /// What a pass costs but for moving the data home, in sectors that could be read meanwhile.
    fn cost(&self, choice: &Choice) -> u64 {
        let (mut sectors, mut moves) = (0, choice.members.len() as u64);
        for read in self.gathers(choice.places.clone()) {
            if let Action::Gather { from, .. } = read {
                sectors += from.len.get();
                moves += 1;
            }
        }
        sectors + moves * (self.tuning.chunk.get() / MOVE).max(1)
    }

    fn set_pass(&mut self, choice: Choice) {
        let Choice { before, mut members, places, data } = choice;
        members
            .sort_unstable_by_key(|member| (!member.appends, self.contents.homes[member.home as usize].zone));
        let by_chunk = data > self.tuning.memory;
        let gathers = if by_chunk { VecDeque::new() } else { self.gathers(places) };
        let chunk = self.tuning.chunk.get();
        let writes = members.iter().map(|member| 1 + (member.end - member.done).get().div_ceil(chunk));
        let steps = gathers.len() as u64 + writes.sum::<u64>();
        let share = members.len() as f64 / steps as f64;
        let (appended, cost) = (Vec::new(), Cleaned::default());
        let members = members.into();
        self.pass = Some(Pass { before, gathers, by_chunk, members, appended, share, cost, failed: None });
    }

    /// Places in the log in its order, the oldest zone first.
    fn age(&self, place: LbaExtent) -> (u32, Sectors) {
        let Position { zone, at } = self.contents.position_of(place.start);
        ((zone + self.sizes.zones - self.log.next()) % self.sizes.zones, at)
    }

    /// How a home zone is cleaned of what the log has before a place, and where in the log that is; `None` if there is nothing.
    fn member(&self, home: u32, before: Position) -> Option<(Member, Vec<LbaExtent>)> {
        let extent = self.contents.extent_of(home);
        let pieces = self.contents.older(extent, before, &self.log);
        let (first, last) = (pieces.first()?.0.start, pieces.last()?.0.end());
        let zone = self.contents.homes[home as usize].zone;
        let known = *self.view.of(zone);
        let buffered = last - extent.start;
        let appends = known.is_writable() && !known.non_sequential && extent.start + known.written <= first;
        let member = if appends {
            Member {
                home,
                appends,
                target: Some(zone),
                done: known.written,
                end: buffered,
                overwritten: false,
            }
        } else {
            // Where the drive's cache has data of the zone, its write pointer does not say where data ends.
            let written = if known.non_sequential { extent.len } else { known.written };
            Member {
                home,
                appends,
                target: None,
                done: Sectors(0),
                end: buffered.max(written),
                overwritten: false,
            }
        };
        Some((member, pieces.into_iter().map(|(_, place)| place).collect()))
    }

    /// Reads for places in the log, in its order.
    pub(super) fn gathers(&self, mut places: Vec<LbaExtent>) -> VecDeque<Action> {
        places.sort_unstable_by_key(|&place| self.age(place));
        let mut reads: Vec<(LbaExtent, Vec<LbaExtent>)> = Vec::new();
        for place in places {
            match reads.last_mut() {
                Some((from, keep))
                    if place.start >= from.end()
                        && place.start - from.end() <= READ_ALONG
                        && place.end() - from.start <= self.tuning.chunk
                        && self.view.layout.zone_of(from.start) == self.view.layout.zone_of(place.start) =>
                {
                    from.len = place.end() - from.start;
                    keep.push(place);
                }
                _ => reads.push((place, vec![place])),
            }
        }
        reads.into_iter().map(|(from, keep)| Action::Gather { from, keep }).collect()
    }
}
