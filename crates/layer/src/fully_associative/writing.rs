//! Where host writes go: whole bands, streams, and the log.
//!
//! * Writes that wait and cover a whole band, in order, and the part of a write that does: to a free band, and
//!   the band is remapped. It takes and gives back one band, so it needs no cleaning.
//! * A write from a band's first sector on, and what continues it exactly: to a free band of its own.
//! * Any other: to the log of the zone, which goes on into the next one where it has no room.
//! * If no log has room and the free bands that writes may take are used up, one band is merged, that of the
//!   zone's oldest exception. A log is free again when all bands that it has something of are merged, which
//!   may be nearly all of the zone's. No host waits for that: a write that still has no room is merged with
//!   its own band. So a write waits for two merges at most in each band that it touches, and logs become
//!   empty one after the other while writes go on.
//!
//! The host's data is accounted for as [`Purpose::Host`] where it stays: in the first two cases, if the stream
//! does not break, and in the last.
//!
//! Invariant: a stream's log holds the band from its first sector on, in order, and reads find it there.

use skylight_command::{Command, Op};
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};

use crate::plan::{MapChange, Medium, Plan, Purpose, Queue, Source, Step};

use super::FullyAssociative;
use super::layout::{BandAt, Layout};
use super::zone::{Stream, Zone};

impl FullyAssociative {
    /// Takes the chosen write, or the writes that should go before it.
    #[inline]
    pub(super) fn take_write(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let chosen = queue.next_command();
        // Others that are taken begin in the band of the chosen one.
        let at = self.layout.of(chosen.extent.start);
        let taken = if queue.waiting.len() > 1 { self.run(queue, at) } else { &queue.waiting[..1] };
        let (first, last) = match taken {
            [first, .., last] => (first, last),
            [only] => (only, only),
            [] => (&chosen, &chosen),
        };
        self.write(at, LbaExtent::new(first.extent.start, last.extent.end() - first.extent.start), plan);
        for command in taken {
            plan.complete(command.id);
        }
    }

    /// The waiting writes to take: all that cover the band of the chosen one in order, or what its stream lacks;
    /// otherwise the one that continues its stream, or begins it, if it came before the chosen one; otherwise
    /// the chosen one.
    fn run<'a>(&self, queue: Queue<'a>, at: BandAt) -> &'a [Command] {
        let waiting = queue.waiting;
        let streamed = self.zones[at.zone].as_ref().and_then(|zone| {
            let slot = zone.stream(at.band)?;
            Some(at.lba.start + Sectors(zone.written(slot).into()))
        });
        let head = streamed.unwrap_or(at.lba.start);
        let begins = |command: &Command| command.extent.start == head && command.op == Op::Write;
        // Never one that came later: the chosen one would wait for ever behind a host that writes the same
        // band again and again.
        let Some(first) = waiting[..=queue.next].iter().position(begins) else {
            return &waiting[queue.next..=queue.next];
        };
        let mut end = head;
        let covering = waiting[first..].iter().take_while(|command| {
            let continues = end < at.lba.end() && command.op == Op::Write && command.extent.start == end;
            if continues {
                end = command.extent.end();
            }
            continues
        });
        let count = covering.count();
        let taken = first..first + if end >= at.lba.end() { count } else { 1 };
        // The head of the stream may have come before the chosen one, but not behind what it overlaps.
        if queue.keeps_order(&taken) { &waiting[taken] } else { &waiting[queue.next..=queue.next] }
    }

    /// Writes an extent that begins in a band.
    fn write(&mut self, mut at: BandAt, extent: LbaExtent, plan: &mut Plan) {
        let mut rest = extent;
        loop {
            let end = rest.end().min(at.lba.end());
            self.write_in_band(at, LbaExtent::new(rest.start, end - rest.start), plan);
            rest = LbaExtent::new(end, rest.end() - end);
            if rest.is_empty() {
                return;
            }
            at = self.layout.of(rest.start);
        }
    }

    fn write_in_band(&mut self, at: BandAt, lba: LbaExtent, plan: &mut Plan) {
        self.cancel_cleaning_of(lba);
        self.zone_mut(at.zone);
        if lba == at.lba && self.write_whole(at, plan) {
            return;
        }
        match self.continued_stream(at, lba).or_else(|| self.new_stream(at, lba)) {
            Some(slot) => self.write_stream(at, slot, lba, plan),
            None => self.write_log(at, lba, plan),
        }
    }

    /// A zone, which has memory from now on.
    #[inline]
    pub(super) fn zone_mut(&mut self, zone: usize) -> &mut Zone {
        let (layout, band) = (&self.layout, self.spec.band);
        self.zones[zone].get_or_insert_with(|| new_zone(layout, zone, band))
    }

    /// Writes a whole band to a free one, which may be the last; `false` if idle cleaning holds that.
    fn write_whole(&mut self, at: BandAt, plan: &mut Plan) -> bool {
        let near = self.slot(at);
        let Some(slot) = self.zone_mut(at.zone).take_free(near) else {
            return false;
        };
        let place = PbaExtent::new(self.layout.place(at.zone, slot), at.lba.len);
        plan.write(Medium::Platter, place, Purpose::Host, Source::Host(at.lba.start));
        self.remap(at, slot, plan);
        true
    }

    /// The log that streams the band, if the write continues it; a stream that it does not continue breaks.
    fn continued_stream(&mut self, at: BandAt, lba: LbaExtent) -> Option<u32> {
        let zone = self.zone_mut(at.zone);
        let slot = zone.stream(at.band)?;
        if u64::from(zone.written(slot)) == (lba.start - at.lba.start).get() {
            zone.touch_stream(at.band);
            Some(slot)
        } else {
            zone.break_stream(at.band);
            None
        }
    }

    /// A new log for a stream, if the write may begin one.
    fn new_stream(&mut self, at: BandAt, lba: LbaExtent) -> Option<u32> {
        if lba.start != at.lba.start {
            return None;
        }
        let (near, threshold, opened) = (self.slot(at), self.spec.clean_threshold as usize, self.opened);
        let zone = self.zone_mut(at.zone);
        if !zone.may_stream(threshold) {
            return None;
        }
        let slot = zone.take_free(near)?;
        zone.begin_stream(Stream { band: at.band, slot }, opened);
        self.opened += 1;
        Some(slot)
    }

    fn write_stream(&mut self, at: BandAt, slot: u32, lba: LbaExtent, plan: &mut Plan) {
        let written = self.append(at, slot, lba, Purpose::Host, plan);
        debug_assert_eq!(written, lba.len, "a stream ends with its band");
        if u64::from(self.zone_mut(at.zone).written(slot)) == at.lba.len.get() {
            self.remap(at, slot, plan);
        }
    }

    fn write_log(&mut self, at: BandAt, lba: LbaExtent, plan: &mut Plan) {
        let mut rest = lba;
        while !rest.is_empty() {
            let Some(slot) = self.room(at, plan) else {
                return self.write_merged(at, rest, plan);
            };
            let written = self.append(at, slot, rest, Purpose::Cache, plan);
            rest = LbaExtent::new(rest.start + written, rest.len - written);
            self.zone_mut(at.zone).pad(slot);
        }
    }

    /// The zone's log, with room: after the merge of one band, if it takes that; none if one is not enough.
    fn room(&mut self, at: BandAt, plan: &mut Plan) -> Option<u32> {
        self.log_with_room(at).or_else(|| {
            self.clean_band(at.zone, plan);
            self.log_with_room(at)
        })
    }

    fn log_with_room(&mut self, at: BandAt) -> Option<u32> {
        let current = self.zones[at.zone].as_ref().and_then(|zone| zone.current_with_room());
        if current.is_some() {
            return current;
        }
        let threshold = self.spec.clean_threshold as usize;
        let (near, opened) = (self.slot(at), self.opened);
        let zone = self.zone_mut(at.zone);
        let (slot, free) = zone.next_room(near, threshold)?;
        self.opened += zone.append_next_to(slot, free, opened);
        Some(slot)
    }

    /// A write that no log has room for is merged with the rest of its band into the free one that is left,
    /// and the band is found there: a write of the band in order, the host's part of it amid what was read.
    fn write_merged(&mut self, at: BandAt, lba: LbaExtent, plan: &mut Plan) {
        self.read_band(at, plan);
        self.gather(at, plan);
        let near = self.slot(at);
        let Some(merged) = self.zone_mut(at.zone).take_free(near) else {
            unreachable!("zone {} has no free band to merge into", at.zone);
        };
        let place = self.layout.place(at.zone, merged);
        let into = lba.start - at.lba.start;
        let parts = [
            (Sectors(0), into, Purpose::CleanWrite, Source::Merged(at.lba.start)),
            (into, lba.len, Purpose::Host, Source::Host(lba.start)),
            (into + lba.len, at.lba.end() - lba.end(), Purpose::CleanWrite, Source::Merged(lba.end())),
        ];
        for (from, len, purpose, source) in parts {
            if len > Sectors(0) {
                let extent = PbaExtent::new(place + from, len);
                plan.write(Medium::Platter, extent, purpose, source);
            }
        }
        self.remap(at, merged, plan);
    }

    /// Appends as much of an extent as a log has room for; how much that is.
    fn append(
        &mut self,
        at: BandAt,
        slot: u32,
        lba: LbaExtent,
        purpose: Purpose,
        plan: &mut Plan,
    ) -> Sectors {
        let into = (lba.start - self.layout.zone_extent(at.zone).start).get() as u32;
        let Some((offset, len)) = self.zone_mut(at.zone).append(slot, into, lba.len.get()) else {
            return Sectors(0);
        };
        let pba = self.layout.place(at.zone, slot) + Sectors(offset.into());
        let lba = LbaExtent::new(lba.start, Sectors(len.into()));
        plan.write(Medium::Platter, PbaExtent::new(pba, lba.len), purpose, Source::HostToCache);
        let replaces = !self.exceptions.insert_if_clear(lba, pba);
        let emptied = replaces && self.release(at.zone, lba);
        if replaces {
            self.exceptions.insert(lba, pba);
        }
        plan.push(Step::Commit(MapChange::Cached { lba, pba }));
        if emptied {
            self.reap(at.zone);
        }
        lba.len
    }

    /// Where the data of a write would go first. When it had to wait for cleaning, that is the log that
    /// cleaning is to empty; when it ended an idle cleaning, its destination is not counted as free: near
    /// enough for a scheduler.
    pub(super) fn write_place(&self, at: BandAt, extent: LbaExtent) -> Pba {
        let place = |slot| self.layout.place(at.zone, slot);
        let Some(zone) = &self.zones[at.zone] else {
            return place(self.layout.nearest_free_slot(at.zone, at.band));
        };
        let into = extent.start - at.lba.start;
        // As a rule: it begins no band and continues no stream.
        if into.get() > 0
            && zone.stream(at.band).is_none()
            && let Some(slot) = zone.current_with_room()
        {
            return place(slot) + Sectors(zone.next_block(slot).into());
        }
        let whole = into.get() == 0 && extent.end() >= at.lba.end();
        let threshold = self.spec.clean_threshold as usize;
        let mut stream = zone.stream(at.band).filter(|_| !whole);
        if let Some(slot) = stream.filter(|&slot| u64::from(zone.written(slot)) == into.get()) {
            return place(slot) + into;
        }
        // The write breaks the stream of its band, which may leave a spare log.
        stream = stream.filter(|&slot| u64::from(zone.next_block(slot)) < self.spec.band.get());
        let begins = whole || into.get() == 0 && stream.is_none() && zone.may_stream(threshold);
        if begins && let Some(slot) = zone.nearest_free(self.slot(at)) {
            return place(slot);
        }
        let spare = stream.filter(|_| zone.spares.is_empty());
        if let Some(slot) = zone.current_with_room().or(spare) {
            return place(slot) + Sectors(zone.next_block(slot).into());
        }
        let near = self.slot(at);
        match zone.next_room(near, threshold) {
            Some((slot, _)) => place(slot) + Sectors(zone.next_block(slot).into()),
            None => zone.logs.front().map_or(place(near), |log| place(log.slot)),
        }
    }
}

/// Apart from where zones are asked for: that is often, and this once for each.
#[cold]
fn new_zone(layout: &Layout, zone: usize, band: Sectors) -> Box<Zone> {
    Box::new(Zone::new(layout, zone, band.get() as u32))
}
