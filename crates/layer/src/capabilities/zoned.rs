//! Drives whose address space consists of zones with write pointers (ZBC-2 and ZAC-2): their layout, their report, and
//! what an image has to keep of a zone.
//!
//! Zones are numbered from the start of the drive; all have one size, but the last one may be smaller. The first ones are
//! conventional, the others are all *sequential write required* (host-managed) or *sequential write preferred*
//! (host-aware). A zone may have less capacity than its size, as in the Zoned Namespace Command Set of NVMe; its last
//! sectors then hold no data.
//!
//! A write that the volatile cache accepts is *admitted* first ([`Zoned::admit`]): its place is checked and the write
//! pointer moves, so that the next command sees it. Its data reaches the medium later ([`crate::Layer::destage`]), in
//! the order of admission within a zone. How far the data of a zone is in executed plans is [`ZoneRecord::written`],
//! which an image keeps; a write pointer of which that is not true yet is lost with the cache.
//!
//! Imports both ways with `plan`: a layer offers this, and what a write needs before a volatile cache can take it is a plan.
//!
//! Invariants: a command that fails changes nothing; nothing but a report and an action on all zones costs more than the
//! zones that it touches, and such an action no more than the zones that it changes.
//! Sources: ZBC (INCITS 536), 4.4.3, and ZBC-2 (INCITS 550) for the model, conditions and errors; Zoned Namespace
//! Command Set Specification 1.1 for capacity, active zones and append.

use skylight_command::{Command, Failure, Op};
use skylight_disk::{Divisor, Lba, LbaExtent, Nanos, Sectors, Time};

use crate::plan::Plan;

/// Who is in charge of writing a drive's zones in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneModel {
    /// The host: other writes fail.
    HostManaged,
    /// The drive: it takes writes anywhere, and is best written in order.
    HostAware,
}

impl ZoneModel {
    /// The name in profiles and reports.
    pub const fn name(self) -> &'static str {
        match self {
            Self::HostManaged => "host-managed",
            Self::HostAware => "host-aware",
        }
    }

    /// The type of the zones that have a write pointer.
    pub const fn sequential(self) -> ZoneKind {
        match self {
            Self::HostManaged => ZoneKind::SequentialWriteRequired,
            Self::HostAware => ZoneKind::SequentialWritePreferred,
        }
    }
}

/// The type of a zone, with the numbers of the zone descriptor (ZBC-2, REPORT ZONES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ZoneKind {
    /// Without a write pointer: written anywhere.
    Conventional = 1,
    /// Written at the write pointer only.
    SequentialWriteRequired = 2,
    /// Best written at the write pointer.
    SequentialWritePreferred = 3,
}

/// The condition of a zone, with the numbers of the zone descriptor (ZBC-2, REPORT ZONES).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ZoneCondition {
    /// The zone has no write pointer: it is conventional.
    NotWritePointer = 0,
    /// Nothing was written since it was reset.
    Empty = 1,
    /// A write opened it.
    ImplicitOpen = 2,
    /// The host opened it.
    ExplicitOpen = 3,
    /// Partly written, and not open.
    Closed = 4,
    /// Cannot be written any more.
    ReadOnly = 0xd,
    /// Written to its capacity, or finished.
    Full = 0xe,
    /// Can neither be read nor written any more.
    Offline = 0xf,
}

impl ZoneCondition {
    /// Every condition, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::NotWritePointer,
        Self::Empty,
        Self::ImplicitOpen,
        Self::ExplicitOpen,
        Self::Closed,
        Self::ReadOnly,
        Self::Full,
        Self::Offline,
    ];

    /// Whether it takes one of the resources for open zones.
    #[inline]
    pub const fn is_open(self) -> bool {
        matches!(self, Self::ImplicitOpen | Self::ExplicitOpen)
    }

    /// Whether it takes one of the resources for active zones.
    #[inline]
    pub const fn is_active(self) -> bool {
        self.is_open() || matches!(self, Self::Closed)
    }
}

/// What is the same for as long as the drive lives.
#[derive(Clone, Copy, Debug)]
pub struct ZoneLayout {
    /// The model.
    pub model: ZoneModel,
    /// Host sectors of the drive.
    pub sectors: Sectors,
    /// Sectors of a zone.
    pub zone: Sectors,
    /// Sectors of a zone that hold data; conventional zones have as many as sectors.
    pub capacity: Sectors,
    /// Zones; at least two.
    pub zones: u32,
    /// Conventional zones, from the start of the drive on.
    pub conventional: u32,
    /// Most zones that can be open at once, `None` for no limit. For a host-managed drive a limit, for a host-aware one a
    /// recommendation (OPTIMAL NUMBER OF OPEN SEQUENTIAL WRITE PREFERRED ZONES).
    pub max_open: Option<u32>,
    /// Most zones that can be open or closed at once, `None` for no limit.
    pub max_active: Option<u32>,
    /// Recommended number of zones that are written out of order, of a host-aware drive.
    pub recommended_non_sequential: Option<u32>,
    /// Whether reads beyond a write pointer and across zones succeed (URSWRZ); a host-aware drive always lets them.
    pub unrestricted_reads: bool,
    by_zone: Divisor,
}

impl ZoneLayout {
    /// Zones of `zone` sectors on a drive of `sectors`, without conventional zones and limits.
    pub fn new(model: ZoneModel, sectors: Sectors, zone: Sectors) -> Self {
        Self {
            model,
            sectors,
            zone,
            capacity: zone,
            zones: sectors.get().div_ceil(zone.get()) as u32,
            conventional: 0,
            max_open: None,
            max_active: None,
            recommended_non_sequential: None,
            unrestricted_reads: model == ZoneModel::HostAware,
            by_zone: Divisor::new(zone.get()),
        }
    }

    /// The zone that contains a sector.
    #[inline]
    pub fn zone_of(&self, lba: Lba) -> u32 {
        self.by_zone.div_rem(lba.get()).0 as u32
    }

    /// The zone that contains a sector, and how far into it the sector lies.
    #[inline]
    pub fn place_of(&self, lba: Lba) -> (u32, Sectors) {
        let (zone, offset) = self.by_zone.div_rem(lba.get());
        (zone as u32, Sectors(offset))
    }

    /// The parts of an extent, zone by zone.
    #[inline]
    pub fn parts(&self, extent: LbaExtent) -> Parts {
        let (zone, offset) = self.place_of(extent.start);
        Parts { zone, offset, rest: extent, size: self.zone }
    }

    /// The first sector of a zone.
    #[inline]
    pub fn start_of(&self, zone: u32) -> Lba {
        Lba(u64::from(zone) * self.zone.get())
    }

    /// All sectors of a zone.
    #[inline]
    pub fn extent_of(&self, zone: u32) -> LbaExtent {
        let start = self.start_of(zone);
        LbaExtent::new(start, Sectors(self.zone.get().min(self.sectors.get() - start.get())))
    }

    /// Sectors of a zone that hold data.
    #[inline]
    pub fn capacity_of(&self, zone: u32) -> Sectors {
        // Only the last zone may be smaller.
        let len = if zone + 1 < self.zones { self.zone } else { self.extent_of(zone).len };
        if self.is_conventional(zone) { len } else { len.min(self.capacity) }
    }

    /// Whether a zone has no write pointer.
    #[inline]
    pub fn is_conventional(&self, zone: u32) -> bool {
        zone < self.conventional
    }

    /// The type of a zone.
    #[inline]
    pub fn kind_of(&self, zone: u32) -> ZoneKind {
        if self.is_conventional(zone) { ZoneKind::Conventional } else { self.model.sequential() }
    }

    /// The sectors whose state a command may depend on or change: for a write, zeroes or an append in zones with a write pointer
    /// all of these zones, for any other command its extent.
    #[inline]
    pub fn touched(&self, command: &Command) -> LbaExtent {
        let LbaExtent { start, len } = command.extent;
        if !moves_pointers(command.op) || len.get() == 0 || start >= Lba(self.sectors.get()) {
            return command.extent;
        }
        let (first, last) = (self.zone_of(start), self.zone_of(Lba(command.extent.end().get() - 1)));
        let from = if self.is_conventional(first) { start } else { self.start_of(first) };
        let end = if self.is_conventional(last) {
            command.extent.end()
        } else {
            self.extent_of(last.min(self.zones - 1)).end()
        };
        LbaExtent::new(from, end - from)
    }
}

/// The part of an extent in one zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The zone.
    pub zone: u32,
    /// How far into the zone the part begins.
    pub offset: Sectors,
    /// The part.
    pub extent: LbaExtent,
}

/// The parts of an extent ([`ZoneLayout::parts`]). They cost one division, which the first one has had.
#[derive(Clone, Copy, Debug)]
pub struct Parts {
    zone: u32,
    offset: Sectors,
    rest: LbaExtent,
    size: Sectors,
}

impl Iterator for Parts {
    type Item = Part;

    #[inline]
    fn next(&mut self) -> Option<Part> {
        let LbaExtent { start, len } = self.rest;
        if len == Sectors(0) {
            return None;
        }
        let here = len.min(self.size - self.offset);
        let part = Part { zone: self.zone, offset: self.offset, extent: LbaExtent::new(start, here) };
        (self.zone, self.offset) = (self.zone + 1, Sectors(0));
        self.rest = LbaExtent::new(start + here, len - here);
        Some(part)
    }
}

/// Whether an operation moves the write pointers of the zones that it writes to. Zeroes do, because a drive with zones writes
/// them like other data.
#[inline]
const fn moves_pointers(op: Op) -> bool {
    matches!(op, Op::Write | Op::WriteZeroes | Op::Append)
}

/// Whose order with a command matters: what conflicts with it ([`Command::conflicts_with`]), or moves the write pointer of a
/// zone as it does. The one rule of order, for all places where commands wait.
pub struct Order<'a> {
    command: &'a Command,
    /// What it touches of zones, found once and not for each of the others; nothing where it moves no write pointer.
    touched: Option<LbaExtent>,
}

impl<'a> Order<'a> {
    /// For a command on a drive with these zones, or without zones.
    #[inline]
    pub fn of(zones: Option<&ZoneLayout>, command: &'a Command) -> Self {
        let touched = zones.filter(|_| moves_pointers(command.op)).map(|zones| zones.touched(command));
        Self { command, touched }
    }

    /// Whether its order with another command matters. Two appends have none.
    #[inline]
    pub fn matters_to(&self, other: &Command) -> bool {
        // What is touched of a zone is all of it, or in a conventional zone what the command has of it.
        let moves_same_pointer = |touched: LbaExtent| {
            touched.overlaps(other.extent)
                && moves_pointers(other.op)
                && !(self.command.op == Op::Append && other.op == Op::Append)
        };
        self.command.conflicts_with(other) || self.touched.is_some_and(moves_same_pointer)
    }

    /// Whether its order with any of several commands matters.
    #[inline]
    pub fn matters_to_any<'b>(&self, others: impl IntoIterator<Item = &'b Command>) -> bool {
        others.into_iter().any(|other| self.matters_to(other))
    }
}

/// One zone, as a report has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneDescriptor {
    /// Its first sector, which is its name (zone ID).
    pub start: Lba,
    /// Its sectors.
    pub len: Sectors,
    /// Its sectors that hold data.
    pub capacity: Sectors,
    /// Where the next write is due. For a full zone its end; `None` where the condition has none (conventional, read-only,
    /// offline).
    pub write_pointer: Option<Lba>,
    /// Its type.
    pub kind: ZoneKind,
    /// Its condition.
    pub condition: ZoneCondition,
    /// The drive recommends to reset it (RWP Recommended).
    pub reset_recommended: bool,
    /// It was written out of order (Non-Sequential Write Resources Active).
    pub non_sequential: bool,
}

/// The zones that a report lists (REPORTING OPTIONS of ZBC-2), with their numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum ZoneFilter {
    /// All zones.
    All = 0,
    /// Those in the condition empty.
    Empty = 1,
    /// Implicitly open.
    ImplicitOpen = 2,
    /// Explicitly open.
    ExplicitOpen = 3,
    /// Closed.
    Closed = 4,
    /// Full.
    Full = 5,
    /// Read-only.
    ReadOnly = 6,
    /// Offline.
    Offline = 7,
    /// Those whose reset the drive recommends.
    ResetRecommended = 0x10,
    /// Those that were written out of order.
    NonSequential = 0x11,
    /// Those without a write pointer.
    NotWritePointer = 0x3f,
}

impl ZoneFilter {
    /// Every filter, in the order of their numbers.
    pub const ALL: [Self; 11] = [
        Self::All,
        Self::Empty,
        Self::ImplicitOpen,
        Self::ExplicitOpen,
        Self::Closed,
        Self::Full,
        Self::ReadOnly,
        Self::Offline,
        Self::ResetRecommended,
        Self::NonSequential,
        Self::NotWritePointer,
    ];

    /// The filter of a number; `None` for the reserved ones.
    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|filter| *filter as u8 == code)
    }

    /// Whether it lists a zone.
    pub fn lists(self, zone: &ZoneDescriptor) -> bool {
        let condition = match self {
            Self::All => return true,
            Self::ResetRecommended => return zone.reset_recommended,
            Self::NonSequential => return zone.non_sequential,
            Self::Empty => ZoneCondition::Empty,
            Self::ImplicitOpen => ZoneCondition::ImplicitOpen,
            Self::ExplicitOpen => ZoneCondition::ExplicitOpen,
            Self::Closed => ZoneCondition::Closed,
            Self::Full => ZoneCondition::Full,
            Self::ReadOnly => ZoneCondition::ReadOnly,
            Self::Offline => ZoneCondition::Offline,
            Self::NotWritePointer => ZoneCondition::NotWritePointer,
        };
        zone.condition == condition
    }
}

/// How many zones there are by condition, in the order of [`ZoneCondition::ALL`], and by flag.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ZoneCounts {
    /// By condition.
    pub by_condition: [u32; ZoneCondition::ALL.len()],
    /// Written out of order.
    pub non_sequential: u32,
    /// Reset recommended.
    pub reset_recommended: u32,
}

impl ZoneCounts {
    /// Zones in a condition.
    pub fn of(&self, condition: ZoneCondition) -> u32 {
        let index = ZoneCondition::ALL.iter().position(|&other| other == condition);
        index.map_or(0, |index| self.by_condition[index])
    }
}

/// What can still be done with a zone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneAccess {
    /// Reading and writing.
    #[default]
    Writable,
    /// Reading.
    ReadOnly,
    /// Nothing.
    Offline,
}

/// What an image keeps of a zone. A zone that was never written has that of [`ZoneRecord::empty`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneRecord {
    /// The number of the zone.
    pub zone: u32,
    /// Sectors from its start that executed plans have written: the write pointer, without what only a volatile cache has.
    pub written: Sectors,
    /// It is full whatever was written: it was finished.
    pub finished: bool,
    /// It was written out of order.
    pub non_sequential: bool,
    /// What can still be done with it.
    pub access: ZoneAccess,
}

impl ZoneRecord {
    /// The record of a zone that was reset.
    pub const fn empty(zone: u32) -> Self {
        let access = ZoneAccess::Writable;
        Self { zone, written: Sectors(0), finished: false, non_sequential: false, access }
    }
}

/// What a write needs before a volatile cache can take it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Preparation {
    /// The cached writes to this extent, a zone, on the media: the zone is about to be closed.
    Destage(LbaExtent),
    /// The cached writes to this many zones of those that [`Zoned::may_close`] allows, as they leave the cache at any other
    /// time: zones are about to be closed together. Fewer where fewer have cached writes.
    DestageZones(usize),
    /// The steps of the plan, if there are any, and then this time.
    Time(Nanos),
}

/// See the module page.
pub trait Zoned {
    /// The layout.
    fn layout(&self) -> &ZoneLayout;

    /// One zone.
    fn descriptor(&self, zone: u32) -> ZoneDescriptor;

    /// Appends to `out` the zones that the filter lists, in order, from the one that contains `from` on, `most` at most.
    ///
    /// # Errors
    /// [`Failure::InvalidField`] when `from` is beyond the drive.
    fn report(
        &self,
        from: Lba,
        filter: ZoneFilter,
        most: usize,
        out: &mut Vec<ZoneDescriptor>,
    ) -> Result<(), Failure>;

    /// How many zones there are by condition and flag.
    fn counts(&self) -> ZoneCounts;

    /// Takes on a write that a volatile cache accepts: checks it and moves write pointers. Its data comes by
    /// [`crate::Layer::destage`].
    ///
    /// # Errors
    /// Why the write fails, which then changed nothing.
    fn admit(&mut self, write: &Command) -> Result<(), Failure>;

    /// Prepares for a write that a volatile cache is about to take at `now`, before it is admitted: what a drive does when it
    /// opens zones. Asked again after [`Preparation::Destage`] or [`Preparation::DestageZones`] was done.
    fn prepare(&mut self, _write: &Command, _now: Time, _plan: &mut Plan) -> Preparation {
        Preparation::Time(Nanos(0))
    }

    /// Whether the drive may close a zone to open another one, once its cached writes are on the media.
    fn may_close(&self, _zone: u32) -> bool {
        false
    }

    /// Makes a zone read-only or offline, as a drive does whose head or medium fails, or writable again.
    fn set_access(&mut self, zone: u32, access: ZoneAccess);

    /// Has the drive recommend to reset a zone, or no longer (RWP Recommended): the standard leaves it to the drive when it
    /// does, and none of ours does by itself.
    fn recommend_reset(&mut self, zone: u32, recommended: bool);

    /// What an image keeps of a zone.
    fn record(&self, zone: u32) -> ZoneRecord;

    /// Visits the records of the zones that changed since the last call, each once, in no order. An image calls it after
    /// each plan; who never does pays nothing for it.
    fn take_changed(&mut self, visit: &mut dyn FnMut(ZoneRecord));

    /// Brings a zone into the state of a record, as after power-on: what was open is closed (ZBC, 4.4.3.5). Whether the
    /// record can be one of this drive; if not, nothing changed.
    fn restore_zone(&mut self, record: ZoneRecord) -> bool;
}
