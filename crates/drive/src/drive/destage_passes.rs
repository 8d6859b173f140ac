//! Passes: several runs of cached writes that a drive with zones chooses at a time, all from where its heads are then.
//!
//! A run is what the volatile cache has of one zone. The drive draws zones, and the pass is those that the heads reach first, in
//! that order. Only the first is really near: the place of the second has often just gone by when the first is written, and
//! comes round again a revolution or two later. So a short wait is followed by a long one, as on a real drive
//! (`docs/zoned.md`).
//!
//! * A run leaves when a write needs its space; the second one of a pass no sooner than a pause after the first.
//! * A write that waits for a run that is not the first of its pass gets its space a moment after the run is written.
//! * Writes that go to a log have one place for all, so there is nothing to choose: they make no pass.
//!
//! Invariants: a pass names zones, not writes, so a zone whose writes left for another reason is passed over; drawing costs
//! the same for any number of zones.

use skylight_command::Command;
use skylight_disk::{Direction, Nanos, Time};

use super::{Drive, zone_admission};
use crate::events::Observer;

/// Draws for each zone that is wanted: only the oldest write of a zone stands for it, so that each zone is as likely, and a zone
/// has few writes. Fewer zones are chosen from where these do not suffice.
const DRAWS_PER_ZONE: usize = 8;

/// The runs of a pass that are still to be written.
#[derive(Default)]
pub(super) struct Pass {
    /// Their zones, the next one last.
    zones: Vec<u32>,
    /// The next one starts no sooner.
    next_at: Time,
    /// The zones of a draw, with the time that the heads need to reach them.
    drawn: Vec<(Nanos, u32)>,
}

impl Drive {
    /// Destages the next run of a pass, which is chosen among the `oldest` cached writes if none is left.
    pub(super) fn destage_in_pass(&mut self, oldest: usize, observer: &mut impl Observer) {
        let going_on = self.going_on(false);
        let write = going_on.or_else(|| self.choose_pass(oldest, false));
        self.destage_of_pass(oldest, write, going_on.is_some(), observer);
    }

    /// Destages the next run of a pass whose zones may be closed; whether there was one.
    pub(super) fn destage_to_close(&mut self, observer: &mut impl Observer) -> bool {
        let oldest = self.cache.dirty().len();
        let going_on = self.going_on(true);
        let drawn = going_on.or_else(|| self.choose_pass(oldest, true));
        let Some(write) = drawn.or_else(|| self.oldest_to_close()) else { return false };
        self.destage_of_pass(oldest, Some(write), going_on.is_some(), observer);
        true
    }

    /// The oldest cached write that is the first of a zone that may be closed: for a draw that found none.
    fn oldest_to_close(&mut self) -> Option<Command> {
        let zoned = self.layer.zoned()?;
        let closable = self.cache.oldest_of_each_zone().filter(|&(zone, _)| zoned.may_close(zone));
        closable.map(|(_, write)| write).min_by_key(|write| self.cache.age_of(write.id))
    }

    /// The oldest write of the pass's next zone, if one is left; of one that may be closed, if it is `to_close`.
    fn going_on(&mut self, to_close: bool) -> Option<Command> {
        while let Some(zone) = self.pass.zones.pop() {
            let write = self.cache.oldest_in_zone(zone).filter(|_| !to_close || self.may_close(zone));
            if write.is_some() {
                return write;
            }
        }
        None
    }

    /// Destages the run of a write, or of the oldest one.
    fn destage_of_pass(
        &mut self,
        oldest: usize,
        write: Option<Command>,
        goes_on: bool,
        observer: &mut impl Observer,
    ) {
        let now = self.busy_until.max(self.cache.nonempty_since());
        let start = if goes_on { now.max(self.pass.next_at) } else { now };
        let next = self.cache.oldest_overlapping(write.map_or(0, |write| self.cache.index_of(write.id)));
        self.busy_until = start;
        if self.write_back_choice(oldest) > 1 && self.interface.write_back_error > 0.0 {
            let expected = self.expected_move(&self.start_of_write(self.cache.dirty()[next].extent));
            self.busy_until = start + self.share_of(expected, self.interface.write_back_error);
        }
        let waits = goes_on
            && self
                .pending
                .outlook(self.cache_busy_until, &self.cache)
                .full
                .is_some_and(|came| came <= start);
        self.destage_from(next, false, observer);
        if waits && self.cache.destaged_at().is_some() {
            self.busy_until += self.interface.write_back_hand_over;
            self.cache.begin_destaging(std::iter::empty(), self.busy_until);
        }
        self.pass.next_at = self.busy_until + self.interface.write_back_pause;
    }

    /// Chooses the zones of a pass, of those that may be closed if it is `to_close`; returns the oldest write of the first one.
    fn choose_pass(&mut self, oldest: usize, to_close: bool) -> Option<Command> {
        let now = self.busy_until.max(self.cache.nonempty_since());
        let layout = zone_admission::of(self.layer.as_mut())?;
        let wanted = self.write_back_choice(oldest);
        let mut drawn = std::mem::take(&mut self.pass.drawn);
        drawn.clear();
        for _ in 0..wanted * DRAWS_PER_ZONE {
            let index = self.draw_below(oldest);
            let write = self.cache.dirty()[index];
            let zone = layout.zone_of(write.extent.start);
            let stands_for_it = self.cache.oldest_in_zone(zone).is_some_and(|first| first.id == write.id);
            let is_new = stands_for_it && !drawn.iter().any(|&(_, other)| other == zone);
            if is_new && (!to_close || self.may_close(zone)) {
                let place = self.start_of_write(write.extent);
                drawn.push((
                    self.media.disk.positioning(self.media.head, now, &place, Direction::Write),
                    zone,
                ));
            }
            if drawn.len() == wanted {
                break;
            }
        }
        drawn.sort_unstable();
        let zones = drawn.iter().take(self.interface.write_back_pass).rev();
        self.pass.zones.extend(zones.map(|&(_, zone)| zone));
        self.pass.drawn = drawn;
        let first = self.cache.oldest_in_zone(self.pass.zones.pop()?)?;
        if self.layer.all_go_to_log(&[first]) {
            self.pass.zones.clear();
        }
        Some(first)
    }
}
