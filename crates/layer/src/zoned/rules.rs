//! The rules of zones: conditions, write pointers, and the resources of open and active zones.
//!
//! The zone that the drive closes to open another one is the implicitly open one that was written least recently. The
//! standard leaves the choice to the drive.
//!
//! A write has two parts. *Admission* ([`ZoneTable::admit`]) checks it, opens zones and moves write pointers; *placement*
//! ([`ZoneTable::place`]) is when a plan writes its data. Without a volatile cache in between they are one.
//!
//! Which failure a command gets that has several, in this order: the condition of its first zone (offline, read-only, and
//! full for a write to a zone that requires order), its end (boundary), its start (unaligned), resources. The standard
//! gives no order.
//!
//! Invariants: a command that fails changes nothing; a zone is empty exactly if its write pointer is at its start and it
//! was not written out of order, and full exactly if its write pointer is at its capacity.
//! Sources: ZBC (INCITS 536), 4.4.3.5 (state machine) and 4.4.3.4 (what may be read and written); implicit closing and the
//! resources that a FINISH ZONE needs: 4.4.3.5.2 to 4.4.3.5.5.

use skylight_command::Failure;
use skylight_disk::{Lba, LbaExtent, Sectors};

use super::states::{FINISHED, NON_SEQUENTIAL, RESET_RECOMMENDED, States, Zone};
use crate::capabilities::zoned::{
    Part, ZoneAccess, ZoneCondition, ZoneCounts, ZoneDescriptor, ZoneKind, ZoneLayout, ZoneModel, ZoneRecord,
};

/// When a write that is out of order moves the write pointer of a zone that only prefers order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PointerMoves {
    /// With the write, to its end.
    AtOnce,
    /// When the zone is cleaned ([`ZoneTable::cleaned`]).
    AtCleaning,
}

/// A write's part in one zone, as it is placed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The zone.
    pub zone: u32,
    /// The part of the write.
    pub extent: LbaExtent,
    /// Whether it begins where the zone was written to; always so in a conventional zone.
    pub sequential: bool,
}

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct ZoneTable {
    layout: ZoneLayout,
    pointer_moves: PointerMoves,
    states: States,
}

impl ZoneTable {
    /// Zones as of a new drive: empty.
    pub fn new(layout: ZoneLayout, pointer_moves: PointerMoves) -> Self {
        Self { layout, pointer_moves, states: States::new(&layout) }
    }

    /// The layout.
    #[inline]
    pub fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    /// A command to the zone of a sector comes soon.
    #[inline]
    pub fn hint(&mut self, address: Lba) {
        self.states.hint(self.layout.zone_of(address));
    }

    /// The condition of a zone.
    #[inline]
    pub fn condition(&self, zone: u32) -> ZoneCondition {
        self.states.of(zone).condition
    }

    /// How far executed plans have written a zone, sectors from its start.
    #[inline]
    pub fn written(&self, zone: u32) -> Sectors {
        Sectors(self.states.of(zone).written.into())
    }

    /// Whether a write that begins here continues what plans have written of its zone, or the zone has no write pointer.
    #[inline]
    pub fn is_in_order(&self, start: Lba) -> bool {
        let (zone, offset) = self.layout.place_of(start);
        self.continues(zone, offset)
    }

    /// The same for a write that begins this far into a zone.
    #[inline]
    pub fn continues(&self, zone: u32, offset: Sectors) -> bool {
        self.layout.is_conventional(zone) || offset == self.written(zone)
    }

    /// Whether a write at an offset, in sectors from the start of the zone, continues what was written.
    #[inline]
    pub fn may_continue(&self, zone: u32, offset: Sectors) -> bool {
        let Zone { pointer, condition, .. } = *self.states.of(zone);
        condition != ZoneCondition::Full && offset.get() == u64::from(pointer)
    }

    /// Visits the records of the zones that changed since the last call.
    pub fn take_changed(&mut self, visit: &mut dyn FnMut(ZoneRecord)) {
        for zone in self.states.take_changed() {
            visit(self.record(zone));
        }
    }

    /// Whether writes that continue a zone were admitted and not placed yet.
    pub fn has_admitted(&self, zone: u32) -> bool {
        let Zone { pointer, written, .. } = *self.states.of(zone);
        pointer != written
    }

    /// What an image keeps of a zone.
    pub fn record(&self, zone: u32) -> ZoneRecord {
        let entry = self.states.of(zone);
        let access = match entry.condition {
            ZoneCondition::ReadOnly => ZoneAccess::ReadOnly,
            ZoneCondition::Offline => ZoneAccess::Offline,
            _ => ZoneAccess::Writable,
        };
        ZoneRecord {
            zone,
            written: Sectors(entry.written.into()),
            finished: entry.has(FINISHED),
            non_sequential: entry.has(NON_SEQUENTIAL),
            access,
        }
    }

    /// The condition of a zone that can be written and is not open.
    fn resting(&self, zone: u32) -> ZoneCondition {
        let entry = self.states.of(zone);
        match u64::from(entry.pointer) {
            _ if self.layout.is_conventional(zone) => ZoneCondition::NotWritePointer,
            pointer if pointer == self.layout.capacity_of(zone).get() => ZoneCondition::Full,
            0 if !entry.has(NON_SEQUENTIAL) => ZoneCondition::Empty,
            _ => ZoneCondition::Closed,
        }
    }

    /// Restores a zone from its record; whether the record can be one of this drive.
    pub fn restore(&mut self, record: ZoneRecord) -> bool {
        let ZoneRecord { zone, written, finished, non_sequential, access } = record;
        let fits = zone < self.layout.zones && written <= self.layout.capacity_of(zone);
        let has_state = written.get() > 0 || finished || non_sequential;
        if !fits || has_state && self.layout.is_conventional(zone) {
            return false;
        }
        let pointer = if finished { self.layout.capacity_of(zone) } else { written };
        let entry = self.states.of_mut(zone);
        (entry.pointer, entry.written) = (pointer.get() as u32, written.get() as u32);
        self.states.set_flag(zone, FINISHED, finished);
        self.states.set_flag(zone, NON_SEQUENTIAL, non_sequential);
        self.states.set_condition(zone, self.with_access(zone, access));
        true
    }

    /// Makes a zone read-only or offline, or writable again and then not open.
    pub fn set_access(&mut self, zone: u32, access: ZoneAccess) {
        self.states.set_condition(zone, self.with_access(zone, access));
        self.states.note_change(zone);
    }

    /// The condition of a zone that is not open.
    fn with_access(&self, zone: u32, access: ZoneAccess) -> ZoneCondition {
        match access {
            ZoneAccess::Writable => self.resting(zone),
            ZoneAccess::ReadOnly => ZoneCondition::ReadOnly,
            ZoneAccess::Offline => ZoneCondition::Offline,
        }
    }

    /// Whether a zone can be written to.
    ///
    /// # Errors
    /// When it is offline or read-only.
    fn writable(&self, zone: u32) -> Result<(), Failure> {
        match self.condition(zone) {
            ZoneCondition::Offline => Err(Failure::ZoneOffline),
            ZoneCondition::ReadOnly => Err(Failure::ZoneReadOnly),
            _ => Ok(()),
        }
    }

    /// The zone that the drive closes to open this one, if it has to.
    ///
    /// # Errors
    /// When a host-managed drive has no resources left; a host-aware one goes beyond its recommendation.
    fn resources_for(&self, zone: u32) -> Result<Option<u32>, Failure> {
        let condition = self.condition(zone);
        if condition.is_open() {
            return Ok(None);
        }
        let managed = self.layout.model == ZoneModel::HostManaged;
        let active = self.states.open() + self.states.count(ZoneCondition::Closed);
        if managed && !condition.is_active() && self.layout.max_active.is_some_and(|most| active >= most) {
            return Err(Failure::InsufficientZoneResources);
        }
        self.room_for_open(managed)
    }

    /// The zone that the drive closes to have one open zone more, if it has to.
    fn room_for_open(&self, managed: bool) -> Result<Option<u32>, Failure> {
        if self.layout.max_open.is_none_or(|most| self.states.open() < most) {
            return Ok(None);
        }
        match self.states.first(ZoneCondition::ImplicitOpen) {
            None if managed => Err(Failure::InsufficientZoneResources),
            oldest => Ok(oldest),
        }
    }

    /// Closes an open zone; one that was never written becomes empty.
    fn close_now(&mut self, zone: u32) {
        self.states.set_condition(zone, self.resting(zone));
    }

    /// Opens a zone that is empty or closed, and before that closes another one.
    fn open_now(&mut self, zone: u32, closed: Option<u32>, condition: ZoneCondition) {
        if let Some(oldest) = closed {
            self.close_now(oldest);
        }
        self.states.set_condition(zone, condition);
    }

    /// Opens a zone explicitly.
    ///
    /// # Errors
    /// When it cannot be written, or there are no resources.
    pub fn open_zone(&mut self, zone: u32) -> Result<(), Failure> {
        self.writable(zone)?;
        match self.condition(zone) {
            ZoneCondition::Full | ZoneCondition::ExplicitOpen => {}
            _ => {
                let closed = self.resources_for(zone)?;
                self.open_now(zone, closed, ZoneCondition::ExplicitOpen);
            }
        }
        Ok(())
    }

    /// Opens all closed zones explicitly, or none.
    ///
    /// # Errors
    /// When there are not resources for all of them.
    pub fn open_all(&mut self) -> Result<(), Failure> {
        let closed = self.states.count(ZoneCondition::Closed);
        let managed = self.layout.model == ZoneModel::HostManaged;
        let explicit = self.states.count(ZoneCondition::ExplicitOpen) + closed;
        if managed && self.layout.max_open.is_some_and(|most| explicit > most) {
            return Err(Failure::InsufficientZoneResources);
        }
        // Not those that the drive closes meanwhile.
        let closed: Vec<u32> = self.states.closed().collect();
        for zone in closed {
            let oldest = self.room_for_open(false)?;
            self.open_now(zone, oldest, ZoneCondition::ExplicitOpen);
        }
        Ok(())
    }

    /// Closes a zone; without effect on one that is not open.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn close_zone(&mut self, zone: u32) -> Result<(), Failure> {
        self.writable(zone)?;
        if self.condition(zone).is_open() {
            self.close_now(zone);
        }
        Ok(())
    }

    /// Closes all open zones.
    pub fn close_all(&mut self) {
        for condition in [ZoneCondition::ImplicitOpen, ZoneCondition::ExplicitOpen] {
            while let Some(zone) = self.states.first(condition) {
                self.close_now(zone);
            }
        }
    }

    /// Makes a zone full. For that an empty or closed zone is opened.
    ///
    /// # Errors
    /// When it cannot be written, or there are no resources to open it.
    pub fn finish_zone(&mut self, zone: u32) -> Result<(), Failure> {
        self.writable(zone)?;
        if self.condition(zone) == ZoneCondition::Full {
            return Ok(());
        }
        let closed = if self.condition(zone).is_open() {
            None
        } else {
            self.room_for_open(self.layout.model == ZoneModel::HostManaged)?
        };
        if let Some(oldest) = closed {
            self.close_now(oldest);
        }
        self.finish_now(zone);
        Ok(())
    }

    fn finish_now(&mut self, zone: u32) {
        self.states.of_mut(zone).pointer = self.layout.capacity_of(zone).get() as u32;
        self.states.set_flag(zone, FINISHED, true);
        self.states.set_condition(zone, ZoneCondition::Full);
        self.states.note_change(zone);
    }

    /// Makes all open and closed zones full. Open ones are first, so there are resources for the closed ones.
    pub fn finish_all(&mut self) {
        for condition in [ZoneCondition::ImplicitOpen, ZoneCondition::ExplicitOpen, ZoneCondition::Closed] {
            while let Some(zone) = self.states.first(condition) {
                self.finish_now(zone);
            }
        }
    }

    /// Empties a zone; whether there was anything in it.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn reset_zone(&mut self, zone: u32) -> Result<bool, Failure> {
        self.writable(zone)?;
        let has_data = self.condition(zone) != ZoneCondition::Empty;
        if has_data {
            self.reset_now(zone);
        }
        Ok(has_data)
    }

    fn reset_now(&mut self, zone: u32) {
        let entry = self.states.of_mut(zone);
        (entry.pointer, entry.written) = (0, 0);
        for flag in [FINISHED, NON_SEQUENTIAL, RESET_RECOMMENDED] {
            self.states.set_flag(zone, flag, false);
        }
        self.states.set_condition(zone, ZoneCondition::Empty);
        self.states.note_change(zone);
    }

    /// Empties all zones that can be written, and visits those in which there was anything.
    pub fn reset_all(&mut self, mut visit: impl FnMut(u32)) {
        for condition in [
            ZoneCondition::ImplicitOpen,
            ZoneCondition::ExplicitOpen,
            ZoneCondition::Closed,
            ZoneCondition::Full,
        ] {
            while let Some(zone) = self.states.first(condition) {
                self.reset_now(zone);
                visit(zone);
            }
        }
    }

    /// Admits a write: checks it, opens its zones and moves their write pointers.
    ///
    /// # Errors
    /// Why it fails.
    pub fn admit(&mut self, extent: LbaExtent) -> Result<(), Failure> {
        let mut parts = self.layout.parts(extent);
        if self.layout.model == ZoneModel::HostManaged {
            let Some(first) = parts.next() else { return Ok(()) };
            if !self.layout.is_conventional(first.zone) {
                return self.admit_in_order(first.zone, first.offset, extent.len);
            }
            self.writable(first.zone)?;
            let last = parts.try_fold(first, |_, part| self.writable(part.zone).map(|()| part))?;
            // The conventional zones are the first ones.
            return if self.layout.is_conventional(last.zone) { Ok(()) } else { Err(Failure::WriteBoundary) };
        }
        parts.clone().try_for_each(|part| self.writable(part.zone))?;
        for part in parts {
            if !self.layout.is_conventional(part.zone) {
                self.admit_anywhere(part);
            }
        }
        Ok(())
    }

    /// Where a part begins and ends, sectors from the start of the zone; what is beyond its capacity is left out.
    #[inline]
    fn written_by(&self, Part { zone, offset, extent }: Part) -> (u32, u32) {
        let capacity = self.layout.capacity_of(zone);
        (offset.min(capacity).get() as u32, (offset + extent.len).min(capacity).get() as u32)
    }

    /// A write in a zone that requires order.
    #[inline]
    fn admit_in_order(&mut self, zone: u32, offset: Sectors, len: Sectors) -> Result<(), Failure> {
        self.writable(zone)?;
        let Zone { pointer, condition, .. } = *self.states.of(zone);
        let (end, capacity) = (offset + len, self.layout.capacity_of(zone));
        if condition == ZoneCondition::Full {
            return Err(Failure::InvalidField);
        }
        if end > capacity {
            return Err(Failure::WriteBoundary);
        }
        if offset.get() != u64::from(pointer) {
            return Err(Failure::UnalignedWrite);
        }
        let closed = self.resources_for(zone)?;
        self.opened_by_write(zone, closed);
        self.move_pointer(zone, end.get() as u32);
        Ok(())
    }

    /// A write in a zone that prefers order. Such a zone takes writes when it is full, and has no limits.
    fn admit_anywhere(&mut self, part: Part) {
        let (zone, (from, until)) = (part.zone, self.written_by(part));
        let Zone { pointer, condition, .. } = *self.states.of(zone);
        if from == until {
            return;
        }
        if condition != ZoneCondition::Full {
            let closed = self.resources_for(zone).unwrap_or(None);
            self.opened_by_write(zone, closed);
        }
        if from != pointer {
            self.states.set_flag(zone, NON_SEQUENTIAL, true);
            self.states.note_change(zone);
        }
        if until > pointer && (from == pointer || self.pointer_moves == PointerMoves::AtOnce) {
            self.move_pointer(zone, until);
        }
    }

    /// Opens a zone that is written to implicitly, or notes that it was written.
    #[inline]
    fn opened_by_write(&mut self, zone: u32, closed: Option<u32>) {
        match self.condition(zone) {
            ZoneCondition::ImplicitOpen => self.states.note_written(zone),
            ZoneCondition::ExplicitOpen => {}
            _ => self.open_now(zone, closed, ZoneCondition::ImplicitOpen),
        }
    }

    #[inline]
    fn move_pointer(&mut self, zone: u32, to: u32) {
        self.states.of_mut(zone).pointer = to;
        if u64::from(to) == self.layout.capacity_of(zone).get() {
            self.states.set_condition(zone, ZoneCondition::Full);
        }
    }

    /// Admits an append to a zone; returns where its data begins.
    ///
    /// # Errors
    /// When the extent does not begin with a zone that has a write pointer, and as for a write at that pointer.
    pub fn append(&mut self, extent: LbaExtent) -> Result<Lba, Failure> {
        let (zone, offset) = self.layout.place_of(extent.start);
        if offset.get() != 0 || self.layout.is_conventional(zone) {
            return Err(Failure::InvalidField);
        }
        let pointer = Sectors(self.states.of(zone).pointer.into());
        if self.layout.model == ZoneModel::HostManaged {
            self.admit_in_order(zone, pointer, extent.len)?;
            return Ok(extent.start + pointer);
        }
        self.writable(zone)?;
        let end = pointer + extent.len;
        match self.condition(zone) {
            ZoneCondition::Full => Err(Failure::InvalidField),
            _ if end > self.layout.capacity_of(zone) => Err(Failure::WriteBoundary),
            _ => {
                let at = extent.start + pointer;
                self.admit_anywhere(Part { zone, offset: pointer, extent: LbaExtent::new(at, extent.len) });
                Ok(at)
            }
        }
    }

    /// Places the data of an admitted write, zone by zone: a plan writes it now.
    #[inline]
    pub fn place(&mut self, extent: LbaExtent, mut visit: impl FnMut(&mut Self, Placed)) {
        for part in self.layout.parts(extent) {
            let Part { zone, extent, .. } = part;
            let sequential = self.layout.is_conventional(zone) || self.place_in(part);
            visit(self, Placed { zone, extent, sequential });
        }
    }

    /// Notes how far a zone is written; whether the write goes on from there.
    #[inline]
    fn place_in(&mut self, part: Part) -> bool {
        let (zone, (from, until)) = (part.zone, self.written_by(part));
        let entry = self.states.of_mut(zone);
        let sequential = from == entry.written;
        if until > entry.written && (sequential || self.pointer_moves == PointerMoves::AtOnce) {
            entry.written = until;
            self.states.note_change(zone);
        }
        sequential
    }

    /// A zone has data out of order: again, if it was cleaned after the write was admitted.
    pub fn note_out_of_order(&mut self, zone: u32) {
        self.states.set_flag(zone, NON_SEQUENTIAL, true);
        self.states.note_change(zone);
    }

    /// A zone was cleaned: what was written out of order is in its place, and `end` is behind the last valid sector, counted
    /// from the start of the zone.
    pub fn cleaned(&mut self, zone: u32, end: Sectors) {
        let end = end.min(self.layout.capacity_of(zone)).get() as u32;
        let Zone { pointer, written, condition, .. } = *self.states.of(zone);
        self.states.of_mut(zone).written = written.max(end);
        self.states.set_flag(zone, NON_SEQUENTIAL, false);
        match condition {
            _ if end <= pointer => {}
            ZoneCondition::Full => {}
            // A zone that failed stays so, however much of its data came home.
            ZoneCondition::ReadOnly | ZoneCondition::Offline => self.states.of_mut(zone).pointer = end,
            _ => self.move_pointer(zone, end),
        }
        self.states.note_change(zone);
    }

    /// The drive recommends to reset a zone, or no longer does.
    pub fn recommend_reset(&mut self, zone: u32, recommended: bool) {
        self.states.set_flag(zone, RESET_RECOMMENDED, recommended);
    }

    /// Whether an extent may be read.
    ///
    /// # Errors
    /// Why not.
    pub fn check_read(&self, extent: LbaExtent) -> Result<(), Failure> {
        let layout = &self.layout;
        let (first, last) = (layout.zone_of(extent.start), layout.zone_of(Lba(extent.end().get() - 1)));
        if (first..=last).any(|zone| self.condition(zone) == ZoneCondition::Offline) {
            return Err(Failure::ZoneOffline);
        }
        if layout.model == ZoneModel::HostAware {
            return Ok(());
        }
        match (layout.kind_of(first), layout.kind_of(last)) {
            (first, last) if first != last => Err(Failure::ReadInvalidData),
            (ZoneKind::Conventional, _) => Ok(()),
            _ if layout.unrestricted_reads => Ok(()),
            _ if first != last => Err(Failure::ReadBoundary),
            _ => {
                let readable = layout.start_of(first) + Sectors(self.states.of(first).pointer.into());
                if extent.end() > readable { Err(Failure::ReadInvalidData) } else { Ok(()) }
            }
        }
    }

    /// One zone, as a report has it.
    pub fn descriptor(&self, zone: u32) -> ZoneDescriptor {
        let entry = self.states.of(zone);
        let LbaExtent { start, len } = self.layout.extent_of(zone);
        let write_pointer = match entry.condition {
            ZoneCondition::NotWritePointer | ZoneCondition::ReadOnly | ZoneCondition::Offline => None,
            ZoneCondition::Full => Some(start + len),
            _ => Some(start + Sectors(entry.pointer.into())),
        };
        ZoneDescriptor {
            start,
            len,
            capacity: self.layout.capacity_of(zone),
            write_pointer,
            kind: self.layout.kind_of(zone),
            condition: entry.condition,
            reset_recommended: entry.has(RESET_RECOMMENDED),
            non_sequential: entry.has(NON_SEQUENTIAL),
        }
    }

    /// How many zones there are by condition and flag.
    pub fn counts(&self) -> ZoneCounts {
        ZoneCounts {
            by_condition: ZoneCondition::ALL.map(|condition| self.states.count(condition)),
            non_sequential: self.states.non_sequential,
            reset_recommended: self.states.reset_recommended,
        }
    }
}
