//! The media and their clock: what a plan's steps take.
//!
//! Platters and arm for the disk, a latency and a bandwidth for flash. Steps happen one after the other; a
//! group that may be done in any order is done shortest positioning first, as a drive's own firmware would.
//!
//! Invariants: time never goes back; every access is in the ledger, every platter access in the trace.

use skylight_disk::{
    AccessTiming, Beginning, Direction, Disk, Head, Nanos, Pba, PbaExtent, Place, Sectors, Time,
};
use skylight_layer::{CommandId, Medium, Plan, Purpose, Step};

use crate::ledger::Ledger;
use crate::trace::HeadTrace;

/// How fast flash is.
#[derive(Clone, Copy, Debug)]
pub struct FlashSpeed {
    /// Before the first byte of a read and of a write.
    latency: [Nanos; 2],
    /// Nanoseconds a sector in 32.32 fixed point.
    sector_fixed: u64,
}

impl FlashSpeed {
    /// Latencies, and bytes a second.
    pub fn new(read: Nanos, write: Nanos, bandwidth: u64) -> Self {
        let sector_fixed = ((512u128 * 1_000_000_000) << 32) / u128::from(bandwidth.max(1));
        Self { latency: [read, write], sector_fixed: sector_fixed as u64 }
    }

    fn time(self, way: Direction, sectors: Sectors) -> Nanos {
        let transfer = (u128::from(self.sector_fixed) * u128::from(sectors.get())) >> 32;
        self.latency[way as usize] + Nanos(transfer as u64)
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

/// See the module page.
pub(crate) struct Media {
    pub(crate) disk: Disk,
    pub(crate) flash: Option<FlashSpeed>,
    pub(crate) head: Head,
    pub(crate) ledger: Ledger,
    pub(crate) trace: Option<HeadTrace>,
    /// Where accesses begin that cleaning comes back to: of its band, of the staging area, of the map.
    known: [Option<(Pba, Beginning)>; 3],
    /// Where the command that is served next begins, or what is gathered next, if that is known.
    pub(crate) next: Option<(Pba, Beginning)>,
    /// Accesses among which the next one of a group is chosen.
    window: usize,
    /// Accesses of a group, while they are being ordered, and where those of the platters begin.
    group: Vec<(Access, Option<Beginning>)>,
}

impl Media {
    pub(crate) fn new(disk: Disk, flash: Option<FlashSpeed>, window: usize) -> Self {
        let head = parked(&disk);
        Self {
            disk,
            flash,
            head,
            ledger: Ledger::default(),
            trace: None,
            known: [None; 3],
            next: None,
            window,
            group: Vec::new(),
        }
    }

    /// Gives the plan's steps their durations from `start` on. Notes in `answered` when each command is
    /// complete; returns the end.
    #[inline]
    pub(crate) fn execute(
        &mut self,
        plan: &Plan,
        start: Time,
        answered: &mut Vec<(CommandId, Time)>,
    ) -> Time {
        let mut at = start;
        let mut unordered = 0;
        for &step in plan.steps() {
            match step {
                Step::Access { medium, direction, extent, purpose, source: _ } => {
                    let access = Access { medium, direction, extent, purpose };
                    if unordered == 0 {
                        at = self.access(access, at);
                        continue;
                    }
                    let platter = medium == Medium::Platter;
                    let begin = platter.then(|| self.disk.beginning(extent.start));
                    self.group.push((access, begin));
                    unordered -= 1;
                    if unordered == 0 {
                        at = self.access_group(at);
                    }
                }
                // One of its own is in order.
                Step::AnyOrder { accesses: 1 } => {}
                Step::AnyOrder { accesses } => unordered = accesses,
                Step::Commit(_) | Step::Fill { .. } | Step::Fail { .. } => {}
                Step::Complete(id) => answered.push((id, at)),
            }
        }
        debug_assert!(unordered == 0 && self.group.is_empty(), "a group has as many accesses as it says");
        at
    }

    /// Does the group in the order of the medium, within a window shortest positioning first.
    fn access_group(&mut self, start: Time) -> Time {
        let mut at = start;
        let mut group = std::mem::take(&mut self.group);
        group.sort_unstable_by_key(|(access, _)| access.extent.start);
        while !group.is_empty() {
            let cost = |(access, begin): &(Access, Option<Beginning>)| {
                self.positioning(begin.as_ref().map(Beginning::place), access.direction, at)
            };
            let nearest = match group.len().min(self.window) {
                1 => 0,
                window => (0..window).min_by_key(|&index| cost(&group[index])).unwrap_or(0),
            };
            let (access, begin) = group.remove(nearest);
            self.next = begin.map(|begin| (access.extent.start, begin));
            at = self.access(access, at);
        }
        self.group = group;
        at
    }

    /// Time to transfer so many sectors at the outer diameter.
    pub(crate) fn outer_transfer_time(&self, sectors: Sectors) -> Nanos {
        let sectors_per_track = u64::from(self.disk.geometry().place(Pba(0)).sectors_per_track);
        Nanos(sectors.get() * self.disk.mechanics().rotation.turn().get() / sectors_per_track)
    }

    /// Time until the medium could begin.
    #[inline]
    pub(crate) fn positioning(&self, place: Option<&Place>, way: Direction, at: Time) -> Nanos {
        place.map_or(Nanos(0), |place| self.disk.positioning(self.head, at, place, way))
    }

    #[inline]
    fn access(&mut self, access: Access, at: Time) -> Time {
        let Access { medium, direction, extent, purpose } = access;
        let end = match medium {
            Medium::Platter => {
                let timing = self.course(access, at);
                if let Some(trace) = &mut self.trace {
                    let place = self.disk.geometry().place(extent.start);
                    let arrival = Head { surface: place.surface, track: place.track };
                    trace.record(at, arrival, &timing, purpose);
                }
                self.head = timing.head;
                timing.end
            }
            Medium::Flash => at + self.flash.map_or(Nanos(0), |flash| flash.time(direction, extent.len)),
        };
        self.ledger.access(purpose, direction, medium, extent.len, end - at);
        end
    }

    /// The course of an access to the platters.
    #[inline]
    fn course(&mut self, access: Access, at: Time) -> AccessTiming {
        let Access { direction, extent, purpose, .. } = access;
        let Self { disk, known, next, head, .. } = self;
        let once;
        let begin = match place_among_known(purpose, extent).map(|among| &mut known[among]) {
            None => match next {
                Some((first, begin)) if *first == extent.start => &*begin,
                _ => {
                    once = disk.beginning(extent.start);
                    &once
                }
            },
            Some(Some(known)) if known.0 == extent.start => &known.1,
            Some(unknown) => &unknown.insert((extent.start, disk.beginning(extent.start))).1,
        };
        disk.access_from(begin, *head, at, extent, direction)
    }

    /// Parks the heads at the inner diameter (Skylight, figure 3), where no data is read or written.
    pub(crate) fn park(&mut self) {
        self.head = parked(&self.disk);
    }
}

/// Longer reads of cleaning are of a band; others are pieces of it that the cache has.
const BAND_AT_LEAST: Sectors = Sectors(2048);

/// Among which beginnings that of an access is kept: a band that was read is written next, and the staging area and
/// the map are where they were; none for what the heads hardly come back to.
#[inline]
fn place_among_known(purpose: Purpose, extent: PbaExtent) -> Option<usize> {
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
