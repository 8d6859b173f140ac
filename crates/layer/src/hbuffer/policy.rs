//! Policies: what decides for every write which way it goes, and which zone is cleaned when.
//!
//! The mechanism asks for each part of a write that lies in one home zone, and does what is answered where that is safe; where it
//! is not, the write goes to the buffer: *direct* and *drive cache* while the buffer has sectors of the extent or its zone is
//! being cleaned, *direct* away from the write pointer, *drive cache* on a host-managed drive. So a policy
//! cannot lose data, only time.
//!
//! Invariant: the same questions get the same answers; a policy has no clock and no randomness of its own.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), section 4: three data paths, and policy apart from mechanism.

use skylight_disk::{LbaExtent, Nanos, Sectors, Time};

use super::streams::Streams;
use crate::capabilities::zoned::{ZoneCondition, ZoneCounts, ZoneLayout};

/// The way of a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Path {
    /// To its home zone, at the write pointer.
    Direct,
    /// To its home zone wherever it is: what is out of order goes to the persistent cache of a host-aware drive.
    DriveCache,
    /// To the log of the host.
    Buffer,
}

/// A zone of the host's address space, with the zone of the drive that has its data at present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HomeZone {
    /// Its host sectors.
    pub extent: LbaExtent,
    /// The condition of the drive's zone.
    pub condition: ZoneCondition,
    /// Sectors from its start to the write pointer; all of them where there is none.
    pub written: Sectors,
    /// The drive's persistent cache has data of it (Non-Sequential Write Resources Active).
    pub non_sequential: bool,
    /// Sectors that the buffer has of it.
    pub buffered: Sectors,
    /// It is being cleaned.
    pub cleaning: bool,
}

impl HomeZone {
    /// Whether a write begins where the drive's zone was written to.
    pub fn continues(&self, write: LbaExtent) -> bool {
        self.condition == ZoneCondition::NotWritePointer || write.start == self.extent.start + self.written
    }
}

/// The zones of the host's address space, by number.
pub trait HomeZones {
    /// Their number.
    fn count(&self) -> u32;
    /// One of them. O(1).
    fn zone(&self, zone: u32) -> HomeZone;
    /// The zone that contains a host sector.
    fn zone_of(&self, lba: skylight_disk::Lba) -> u32;
    /// The lowest zone from `from` on of which the buffer has data.
    fn next_dirty(&self, from: u32) -> Option<u32>;
    /// The zone of the oldest data in the buffer, or of data not much newer.
    fn oldest(&self) -> Option<u32>;
}

/// How full the buffer is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fill {
    /// Zones of the log.
    pub zones: u32,
    /// Of these, zones without live data that can be written again; the one being written is not among them.
    pub free_zones: u32,
    /// Sectors that can still be written to the zone that the log is in.
    pub space_in_zone: Sectors,
    /// Sectors of the host that only the log has.
    pub live: Sectors,
    /// Home zones of which the buffer has data.
    pub dirty_zones: u32,
    /// Entries of the map.
    pub map_entries: u64,
    /// Free entries of the map.
    pub map_space: u64,
}

impl Fill {
    /// Whether less than half of the log or of the map is free.
    pub fn is_over_half(&self) -> bool {
        self.free_zones < self.zones / 2 || self.map_space < self.map_entries
    }
}

/// What a policy sees of the drive and of the buffer. It costs nothing to make.
pub struct State<'a> {
    /// The time, if there is a clock.
    pub now: Option<Time>,
    /// Time since the host's last command; 0 without a clock.
    pub idle: Nanos,
    /// The drive's zones and its recommended numbers.
    pub layout: &'a ZoneLayout,
    /// The drive's zones by condition, with the number of non-sequential ones. Those of the buffer are among them.
    pub counts: ZoneCounts,
    /// The buffer.
    pub fill: Fill,
    /// The sequential streams of late.
    pub streams: &'a Streams,
    /// The zones of the host's address space.
    pub homes: &'a dyn HomeZones,
}

/// A part of a write in one home zone.
#[derive(Clone, Copy, Debug)]
pub struct WritePart {
    /// Host sectors.
    pub extent: LbaExtent,
    /// The number of its home zone.
    pub zone: u32,
    /// The whole write goes on where an earlier one ended.
    pub in_stream: bool,
}

/// When a policy is asked for a zone to clean. Where the log needs its next zone, or the map an entry, the mechanism cleans what has
/// to go, oldest first, without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// The host has been silent for the idle time. The zone is cleaned in steps, between which the host may come, together with others
    /// that may go. Asked again after a while when the answer is `None`.
    Idle,
    /// After a host write, which waits until the zone is clean. Asked again until the answer is `None` or one that was named; they are
    /// cleaned together.
    Write,
}

/// Sectors that were moved, and the time that it took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved {
    /// Sectors.
    pub sectors: Sectors,
    /// The drive's time.
    pub time: Nanos,
}

/// What cleaning of some home zones together cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cleaned {
    /// Data read from the log.
    pub gathered: Moved,
    /// Zones that were written on from their write pointers, and what was written.
    pub appended_zones: u32,
    /// See `appended_zones`.
    pub appended: Moved,
    /// Zones that were rewritten, and what was written; the time is also that of reading them.
    pub rewritten_zones: u32,
    /// See `rewritten_zones`.
    pub rewritten: Moved,
}

/// See the module page.
pub trait Policy: Send {
    /// The name in options and tables.
    fn name(&self) -> &'static str;

    /// The way of a part of a write.
    fn path(&mut self, part: &WritePart, state: &State<'_>) -> Path;

    /// The home zone to clean now, if any. One of which the buffer has nothing is left alone, and ends the questions.
    fn clean(&mut self, occasion: Occasion, state: &State<'_>) -> Option<u32> {
        (occasion == Occasion::Idle).then(|| state.homes.oldest()).flatten()
    }

    /// Whether a home zone of which the buffer has data may be cleaned along with the one that was named in idle time.
    fn may_go(&self, _home: u32, _state: &State<'_>) -> bool {
        true
    }

    /// A part of a write took so long on this path, cleaning that it waited for not included; of writes that went to the drive
    /// together, each an equal part of the time. Without a clock it is not called.
    fn took(&mut self, _path: Path, _part: &WritePart, _time: Nanos) {}

    /// Home zones were cleaned together. As [`Policy::took`].
    fn cleaned(&mut self, _cleaned: &Cleaned) {}
}

/// One path for every write: direct with the buffer for what is out of order, the drive alone, or the buffer alone.
#[derive(Clone, Copy, Debug)]
pub struct Static(pub Path);

impl Policy for Static {
    fn name(&self) -> &'static str {
        match self.0 {
            Path::Direct => "direct",
            Path::DriveCache => "drive-cache",
            Path::Buffer => "buffer",
        }
    }

    fn path(&mut self, _part: &WritePart, _state: &State<'_>) -> Path {
        self.0
    }
}
