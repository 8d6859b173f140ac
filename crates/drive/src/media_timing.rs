//! The media: how long the steps of a plan take.
//!
//! Platters and arm for the disk, a latency and a bandwidth for flash. Steps run one after the other; a group
//! without a required order runs shortest positioning time first, as drive firmware would.
//!
//! Invariants: time never goes back; every access is counted, every platter access in the trace.

use std::cmp::Reverse;

use skylight_disk::{
    AccessStart, AccessTiming, Direction, Disk, Head, Nanos, Pba, PbaExtent, SectorPosition, Sectors, Time,
};
use skylight_layer::{Medium, Plan, Purpose, Step};

use crate::drive_counters::DriveCounters;
use crate::events::Answered;
use crate::trace::HeadTrace;

/// Speed of flash.
#[derive(Clone, Copy, Debug)]
pub struct FlashSpeed {
    /// Time before the first byte of a read and of a write.
    latency: [Nanos; 2],
    /// Nanoseconds per sector in 32.32 fixed point.
    sector_fixed: u64,
}

impl FlashSpeed {
    /// From the latencies, and the bandwidth in bytes per second.
    pub fn new(read: Nanos, write: Nanos, bandwidth: u64) -> Self {
        let sector_fixed = ((512u128 * 1_000_000_000) << 32) / u128::from(bandwidth.max(1));
        Self { latency: [read, write], sector_fixed: sector_fixed as u64 }
    }

    fn time(self, direction: Direction, sectors: Sectors) -> Nanos {
        let transfer = (u128::from(self.sector_fixed) * u128::from(sectors.get())) >> 32;
        self.latency[direction as usize] + Nanos(transfer as u64)
    }
}

/// One access of a plan.
#[derive(Clone, Copy, Debug)]
struct Access {
    medium: Medium,
    direction: Direction,
    extent: PbaExtent,
    purpose: Purpose,
}

/// See the module documentation.
pub(crate) struct Media {
    pub(crate) disk: Disk,
    pub(crate) flash: Option<FlashSpeed>,
    pub(crate) head: Head,
    pub(crate) counters: DriveCounters,
    pub(crate) trace: Option<HeadTrace>,
    /// Starts of accesses that cleaning repeats: of its band, of the staging area, of the map.
    cached_starts: [Option<(Pba, AccessStart)>; 3],
    /// Start of the next command's access, or of the next access of a group, if already located.
    pub(crate) next: Option<(Pba, AccessStart)>,
    /// Number of accesses among which the next one of a group is chosen.
    window: usize,
    /// Accesses of a group while they are being ordered, with the starts of platter accesses.
    group: Vec<(Access, Option<AccessStart>)>,
}

impl Media {
    pub(crate) fn new(disk: Disk, flash: Option<FlashSpeed>, window: usize) -> Self {
        let head = parked(&disk);
        Self {
            disk,
            flash,
            head,
            counters: DriveCounters::default(),
            trace: None,
            cached_starts: [None; 3],
            next: None,
            window,
            group: Vec::new(),
        }
    }

    /// Executes the steps of a plan from `start` on. Records in `answered` when each command completes;
    /// returns the end.
    #[inline]
    pub(crate) fn execute(&mut self, plan: &Plan, start: Time, answered: &mut Vec<Answered>) -> Time {
        let mut at = start;
        let mut unordered = 0;
        for step in plan.steps() {
            match *step {
                Step::Access { medium, direction, extent, purpose, source: _ } => {
                    if unordered == 0 {
                        at = self.access((medium, direction, purpose), extent, at);
                        continue;
                    }
                    let access = Access { medium, direction, extent, purpose };
                    let platter = medium == Medium::Platter;
                    let begin = platter.then(|| self.disk.access_start(extent.start));
                    self.group.push((access, begin));
                    unordered -= 1;
                    if unordered == 0 {
                        at = self.access_group(at);
                    }
                }
                // A group of one is already in order.
                Step::AnyOrder { accesses: 1 } => {}
                Step::AnyOrder { accesses } => unordered = accesses,
                Step::Commit(_) | Step::Fill { .. } | Step::Fail { .. } => {}
                Step::Complete { command: id, outcome } => answered.push(Answered { at, id, outcome }),
            }
        }
        debug_assert!(unordered == 0 && self.group.is_empty(), "a group has the declared number of accesses");
        at
    }

    /// Executes the group in address order, and within a window shortest positioning time first.
    fn access_group(&mut self, start: Time) -> Time {
        let mut at = start;
        let mut group = std::mem::take(&mut self.group);
        // Descending, so that what leaves is near the end: a gather of a band of single blocks has thousands.
        group.sort_unstable_by_key(|(access, _)| Reverse(access.extent.start));
        while !group.is_empty() {
            let cost = |(access, begin): &(Access, Option<AccessStart>)| {
                self.positioning(begin.as_ref().map(AccessStart::position), access.direction, at)
            };
            let last = group.len() - 1;
            let nearest = match group.len().min(self.window) {
                1 => last,
                window => {
                    (0..window).map(|back| last - back).min_by_key(|&at| cost(&group[at])).unwrap_or(last)
                }
            };
            let (access, begin) = group.remove(nearest);
            self.next = begin.map(|begin| (access.extent.start, begin));
            let Access { medium, direction, extent, purpose } = access;
            at = self.access((medium, direction, purpose), extent, at);
        }
        self.group = group;
        at
    }

    /// Time to transfer `sectors` at the outer diameter.
    pub(crate) fn outer_transfer_time(&self, sectors: Sectors) -> Nanos {
        let sectors_per_track = u64::from(self.disk.geometry().position_of(Pba(0)).sectors_per_track);
        Nanos(sectors.get() * self.disk.mechanics().rotation.revolution().get() / sectors_per_track)
    }

    /// Time until the medium can start to transfer.
    #[inline]
    pub(crate) fn positioning(&self, to: Option<&SectorPosition>, direction: Direction, at: Time) -> Nanos {
        to.map_or(Nanos(0), |to| self.disk.positioning(self.head, at, to, direction))
    }

    /// Executes one access; returns its end. Its parts come in registers: see `Drive::complete`.
    #[inline]
    fn access(
        &mut self,
        (medium, direction, purpose): (Medium, Direction, Purpose),
        extent: PbaExtent,
        at: Time,
    ) -> Time {
        let end = match medium {
            Medium::Platter => {
                let timing = self.platter_access((direction, purpose), extent, at);
                if let Some(trace) = &mut self.trace {
                    let position = self.disk.geometry().position_of(extent.start);
                    let arrival = Head { surface: position.surface, track: position.track };
                    trace.record(at, arrival, &timing, purpose);
                }
                self.head = timing.head;
                timing.end
            }
            Medium::Flash => at + self.flash.map_or(Nanos(0), |flash| flash.time(direction, extent.len)),
        };
        self.counters.access(purpose, direction, medium, extent.len, end - at);
        end
    }

    /// Timing of a platter access.
    #[inline]
    fn platter_access(
        &mut self,
        (direction, purpose): (Direction, Purpose),
        extent: PbaExtent,
        at: Time,
    ) -> AccessTiming {
        let Self { disk, cached_starts, next, head, .. } = self;
        let once;
        let begin = match cached_start_index(purpose, extent).map(|index| &mut cached_starts[index]) {
            None => match next {
                Some((first, begin)) if *first == extent.start => &*begin,
                _ => {
                    once = disk.access_start(extent.start);
                    &once
                }
            },
            Some(Some(cached)) if cached.0 == extent.start => &cached.1,
            Some(stale) => &stale.insert((extent.start, disk.access_start(extent.start))).1,
        };
        disk.access_from(begin, *head, at, extent, direction)
    }

    /// Sectors of the platters.
    pub(crate) fn platter_sectors(&self) -> Sectors {
        self.disk.geometry().capacity()
    }

    /// Moves the head to a sector in no time, for work that nobody saw.
    pub(crate) fn move_aside(&mut self, to: Pba) {
        let place = self.disk.geometry().position_of(to);
        self.head = Head { surface: place.surface, track: place.track };
    }

    /// Reads from the platters for nobody's command, up to the end of the disk; returns the end. It moves the head and
    /// is in no account: the counters are of the drive's work for its host.
    pub(crate) fn read_aside(&mut self, from: Pba, size: Sectors, at: Time) -> Time {
        let left = self.platter_sectors().get() - from.get();
        let extent = PbaExtent::new(from, Sectors(size.get().min(left)));
        let timing = self.disk.access(self.head, at, extent, Direction::Read);
        self.head = timing.head;
        timing.end
    }

    /// As [`Media::read_aside`], on a drive of flash.
    pub(crate) fn read_flash_aside(&mut self, size: Sectors, at: Time) -> Time {
        at + self.flash.map_or(Nanos(0), |flash| flash.time(Direction::Read, size))
    }

    /// Parks the heads at the inner diameter (Skylight, figure 3), where no data is read or written.
    pub(crate) fn park(&mut self) {
        self.head = parked(&self.disk);
    }
}

/// A longer read by cleaning covers a band; a shorter one reads cached pieces of it.
const BAND_AT_LEAST: Sectors = Sectors(2048);

/// The index among the cached starts, if the access is likely to repeat: cleaning reads a band and then
/// writes it; the staging area and the map stay in place.
#[inline]
fn cached_start_index(purpose: Purpose, extent: PbaExtent) -> Option<usize> {
    match purpose {
        Purpose::CleanRead if extent.len < BAND_AT_LEAST => None,
        Purpose::CleanRead | Purpose::CleanWrite => Some(0),
        Purpose::CleanStage => Some(1),
        Purpose::MapUpdate | Purpose::MapMerge => Some(2),
        Purpose::Host | Purpose::Cache | Purpose::OutOfBand => None,
    }
}

fn parked(disk: &Disk) -> Head {
    Head { surface: 0, track: disk.geometry().tracks() - 1 }
}
