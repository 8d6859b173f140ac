//! Placement of host writes: whole bands, streams, and the log.
//!
//! * Waiting writes that cover a whole band in order, or a part of one write that does, go to a free band, to
//!   which the band is remapped. This takes one band and frees one, so it needs no cleaning.
//! * A write at the first sector of a band, and writes that continue it exactly, go to a free band of their
//!   own.
//! * Other writes go to the log of the zone, and from a full log to the next one.
//! * If no log has space and writes may take no more free bands, one band is merged: that of the zone's
//!   oldest exception. A log is free only after all bands with exceptions in it are merged, which may be
//!   nearly all bands of the zone. To avoid that wait, a write that still has no space is merged with its own
//!   band. Thus a write waits for at most two merges in each band that it overlaps, and logs become empty one
//!   by one.
//!
//! Host data is accounted for as [`Purpose::Host`] if it is written to its final location: in the first case,
//! in the second unless the stream breaks, and in the last.
//!
//! Invariant: the log of a stream contains its band from the first sector on, in order, and the map points to
//! it.

use skylight_command::{Command, Op};
use skylight_disk::{LbaExtent, Pba, PbaExtent, Sectors};

use crate::plan::{MapChange, Medium, Plan, Purpose, Queue, Source, Step};

use super::FullyAssociative;
use super::layout::{BandAt, Layout};
use super::slots::{Stream, Zone};

impl FullyAssociative {
    /// Takes the chosen write, or older writes that should precede it.
    #[inline]
    pub(super) fn take_write(&mut self, queue: Queue<'_>, plan: &mut Plan) {
        let chosen = queue.next_command();
        // Older writes that are taken start in the band of the chosen one.
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

    /// The waiting writes to take. If some cover the band of the chosen write in order, or complete its
    /// stream, all of these. Otherwise the one that continues or starts the stream, if it is older than the
    /// chosen one. Otherwise the chosen one.
    fn run<'a>(&self, queue: Queue<'a>, at: BandAt) -> &'a [Command] {
        let waiting = queue.waiting;
        let streamed = self.zones[at.zone].as_ref().and_then(|zone| {
            let slot = zone.stream(at.band)?;
            Some(at.lba.start + Sectors(zone.written(slot).into()))
        });
        let head = streamed.unwrap_or(at.lba.start);
        let starts_here = |command: &Command| command.extent.start == head && command.op == Op::Write;
        // Never a later one: if a host wrote the same band over and over, the chosen one would starve.
        let Some(first) = waiting[..=queue.next].iter().position(starts_here) else {
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
        // The start of the stream may be older than the chosen write, but must not overtake a conflicting
        // one.
        if queue.keeps_order(&taken) { &waiting[taken] } else { &waiting[queue.next..=queue.next] }
    }

    /// Writes an extent that starts in band `at`.
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

    /// A zone, allocated on first use.
    #[inline]
    pub(super) fn zone_mut(&mut self, zone: usize) -> &mut Zone {
        let (layout, band) = (&self.layout, self.spec.band);
        self.zones[zone].get_or_insert_with(|| new_zone(layout, zone, band))
    }

    /// Writes a whole band to a free one, even the last; `false` if idle cleaning has allocated that.
    fn write_whole(&mut self, at: BandAt, plan: &mut Plan) -> bool {
        let near = self.slot(at);
        let Some(slot) = self.zone_mut(at.zone).take_free(near) else {
            return false;
        };
        let extent = PbaExtent::new(self.layout.slot_start(at.zone, slot), at.lba.len);
        plan.write(Medium::Platter, extent, Purpose::Host, Source::Host(at.lba.start.into()));
        self.remap(at, slot, plan);
        true
    }

    /// The log of the band's stream if the write continues it; otherwise the stream breaks.
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

    /// A new log for a stream, if the write may start one.
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
        zone.start_stream(Stream { band: at.band, slot }, opened);
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
            let Some(slot) = self.log_after_cleaning(at, plan) else {
                return self.write_merged(at, rest, plan);
            };
            let written = self.append(at, slot, rest, Purpose::Cache, plan);
            rest = LbaExtent::new(rest.start + written, rest.len - written);
            self.zone_mut(at.zone).pad(slot);
        }
    }

    /// A log of the zone with space, after the merge of one band if necessary; `None` if that is not enough.
    fn log_after_cleaning(&mut self, at: BandAt, plan: &mut Plan) -> Option<u32> {
        self.log_with_space(at).or_else(|| {
            self.clean_band(at.zone, plan);
            self.log_with_space(at)
        })
    }

    /// A log of the zone with space, which may be newly opened.
    fn log_with_space(&mut self, at: BandAt) -> Option<u32> {
        let current = self.zones[at.zone].as_ref().and_then(|zone| zone.current_with_space());
        if current.is_some() {
            return current;
        }
        let threshold = self.spec.clean_threshold as usize;
        let (near, opened) = (self.slot(at), self.opened);
        let zone = self.zone_mut(at.zone);
        let (slot, free) = zone.next_log(near, threshold)?;
        self.opened += zone.append_next_to(slot, free, opened);
        Some(slot)
    }

    /// Merges a write for which no log has space with the rest of its band into the remaining free band, and
    /// remaps the band: one sequential write of the band, with the host's data between the data that was
    /// read.
    fn write_merged(&mut self, at: BandAt, lba: LbaExtent, plan: &mut Plan) {
        self.read_band(at, plan);
        self.gather(at, plan);
        let near = self.slot(at);
        let Some(merged) = self.zone_mut(at.zone).take_free(near) else {
            unreachable!("zone {} has no free band to merge into", at.zone);
        };
        let start = self.layout.slot_start(at.zone, merged);
        let into = lba.start - at.lba.start;
        let parts = [
            (Sectors(0), into, Purpose::CleanWrite, Source::Merged(at.lba.start.into())),
            (into, lba.len, Purpose::Host, Source::Host(lba.start.into())),
            (into + lba.len, at.lba.end() - lba.end(), Purpose::CleanWrite, Source::Merged(lba.end().into())),
        ];
        for (from, len, purpose, source) in parts {
            if len > Sectors(0) {
                let extent = PbaExtent::new(start + from, len);
                plan.write(Medium::Platter, extent, purpose, source);
            }
        }
        self.remap(at, merged, plan);
    }

    /// Appends as much of an extent as fits in a log. Returns the number of sectors.
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
        let pba = self.layout.slot_start(at.zone, slot) + Sectors(offset.into());
        let lba = LbaExtent::new(lba.start, Sectors(len.into()));
        plan.write(Medium::Platter, PbaExtent::new(pba, lba.len), purpose, Source::ToCache);
        let replaces = !self.exceptions.insert_if_clear(lba, pba);
        let emptied = replaces && self.release(at.zone, lba);
        if replaces {
            self.exceptions.insert(lba, pba);
        }
        plan.push(Step::Commit(MapChange::Cached { lba, pba: pba.into() }));
        if emptied {
            self.free_empty_logs(at.zone);
        }
        lba.len
    }

    /// The first location to which a write would go, as an estimate for the scheduler: if the write has to
    /// wait for cleaning, the log that cleaning would empty; and the destination of an idle merge that the
    /// write would cancel does not count as free.
    pub(super) fn write_location(&self, at: BandAt, extent: LbaExtent) -> Pba {
        let start = |slot| self.layout.slot_start(at.zone, slot);
        let Some(zone) = &self.zones[at.zone] else {
            return start(self.layout.nearest_free_slot(at.zone, at.band));
        };
        let into = extent.start - at.lba.start;
        // The common case: the write does not start a band, and the band has no stream.
        if into.get() > 0
            && zone.stream(at.band).is_none()
            && let Some(slot) = zone.current_with_space()
        {
            return start(slot) + Sectors(zone.next_block(slot).into());
        }
        let whole = into.get() == 0 && extent.end() >= at.lba.end();
        let threshold = self.spec.clean_threshold as usize;
        let mut stream = zone.stream(at.band).filter(|_| !whole);
        if let Some(slot) = stream.filter(|&slot| u64::from(zone.written(slot)) == into.get()) {
            return start(slot) + into;
        }
        // The write breaks the stream of its band, whose log may become a spare one.
        stream = stream.filter(|&slot| u64::from(zone.next_block(slot)) < self.spec.band.get());
        let starts_stream = whole || into.get() == 0 && stream.is_none() && zone.may_stream(threshold);
        if starts_stream && let Some(slot) = zone.nearest_free(self.slot(at)) {
            return start(slot);
        }
        let spare = stream.filter(|_| zone.spares.is_empty());
        if let Some(slot) = zone.current_with_space().or(spare) {
            return start(slot) + Sectors(zone.next_block(slot).into());
        }
        let near = self.slot(at);
        match zone.next_log(near, threshold) {
            Some((slot, _)) => start(slot) + Sectors(zone.next_block(slot).into()),
            None => zone.logs.front().map_or(start(near), |log| start(log.slot)),
        }
    }
}

/// Separate from [`FullyAssociative::zone_mut`], which is called often, while this runs once per zone.
#[cold]
fn new_zone(layout: &Layout, zone: usize, band: Sectors) -> Box<Zone> {
    Box::new(Zone::new(layout, zone, band.get() as u32))
}
