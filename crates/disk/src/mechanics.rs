//! Mechanics: how long an access takes and where it leaves the head.
//!
//! An access is a move (seek, head switch, settling), a wait for the first sector, and a transfer that
//! crosses any number of tracks in closed form. The rotational position is a 0.64 fixed-point fraction of a
//! revolution. It is computed from the absolute time, so no error accumulates from one access to the next.
//!
//! Invariants: an access never starts before the head has arrived; back-to-back accesses of adjacent extents
//! lose no revolution; the same access at the same time takes the same time.
//! Sources: Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994); checked
//! against a validated simulator, request by request, in `crates/disk/tests/atlas10k.rs`.

use crate::geometry::{Geometry, PassRemainder, SectorPosition, Segment};
use crate::seek::{SeekCurve, SeekTable};
use crate::seek_floor::SeekFloor;
use crate::units::{Angle, Nanos, Pba, PbaExtent, Sectors, Time};

/// How late the head may be for the start of a sector and still catch it: allows for two times that are
/// rounded to nanoseconds.
const CATCH_NS: u64 = 4;

/// Rotation of the platters.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Nanoseconds per revolution in 32.32 fixed point.
    revolution_ns_fixed: u64,
    /// Revolutions per nanosecond in 0.64 fixed point.
    rate: u64,
    /// `CATCH_NS` as an angle.
    catch: u64,
}

impl Rotation {
    /// A rotation of `revolution_ns` nanoseconds per revolution (1,000 to 2^31).
    pub fn new(revolution_ns: f64) -> Self {
        let revolution_ns_fixed = (revolution_ns * 4_294_967_296.0) as u64;
        let rate = ((1u128 << 96) / u128::from(revolution_ns_fixed)) as u64;
        Self { revolution_ns_fixed, rate, catch: rate.saturating_mul(CATCH_NS) }
    }

    /// Time of one revolution.
    pub fn revolution(self) -> Nanos {
        Nanos((self.revolution_ns_fixed + (1 << 31)) >> 32)
    }

    /// Rotational position: the angle under the heads.
    #[inline]
    pub fn phase(self, at: Time) -> Angle {
        Angle(at.0.wrapping_mul(self.rate))
    }

    /// Time to rotate by `angle`, rounded to the nearest nanosecond.
    #[inline]
    pub fn time_for(self, angle: Angle) -> Nanos {
        self.time_for_revolutions(0, angle)
    }

    /// Time for a number of whole revolutions and a fraction.
    #[inline]
    pub fn time_for_revolutions(self, whole: u64, fraction: Angle) -> Nanos {
        let part = (u128::from(self.revolution_ns_fixed) * u128::from(fraction.0)) >> 64;
        let sum = u128::from(self.revolution_ns_fixed) * u128::from(whole) + part + (1 << 31);
        Nanos((sum >> 32) as u64)
    }

    /// Time from `start`, close to when `angle` passes the heads, until the platters are `rotation` (2^64 per
    /// revolution, below 2^127) past that angle. This compensates for the rounding of `start`, so that
    /// rounding errors do not add up.
    #[inline]
    fn time_from(self, start: Time, angle: Angle, rotation: u128) -> Nanos {
        let late = i128::from(self.phase(start).since(angle).0 as i64);
        let left = (rotation.cast_signed() - late).max(0).cast_unsigned();
        self.time_for_revolutions((left >> 64) as u64, Angle(left as u64))
    }

    /// The angle of rotation in a duration shorter than a revolution.
    pub fn angle_in(self, duration: Nanos) -> Angle {
        self.phase(Time(duration.0))
    }

    /// The angle of rotation in any duration, saturating at one revolution.
    #[inline]
    pub fn rotation_in(self, duration: Nanos) -> Angle {
        if duration < self.revolution() { self.angle_in(duration) } else { Angle(u64::MAX) }
    }

    /// Wait from `at` until `angle` comes under the heads.
    #[inline]
    pub fn wait_for(self, angle: Angle, at: Time) -> Nanos {
        let ahead = angle.since(self.phase(at));
        if ahead.0 > u64::MAX - self.catch { Nanos(0) } else { self.time_for(ahead) }
    }
}

/// The moving parts of a disk.
#[derive(Clone, Debug)]
pub struct Mechanics {
    /// The spindle.
    pub rotation: Rotation,
    /// The arm.
    pub seek: SeekCurve,
    /// Time to switch heads. It overlaps with a seek: the longer of the two counts.
    pub head_switch: Nanos,
    /// Additional settling time of a write after a move.
    pub write_settle: Nanos,
    /// Whether a transfer within a track may start at any of its sectors (zero-latency access).
    pub zero_latency: bool,
}

/// Direction of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From the medium.
    Read,
    /// To the medium.
    Write,
}

/// Where the heads are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The surface whose head is in use.
    pub surface: u16,
    /// The track, counted from the OD.
    pub track: u32,
}

/// Timing of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTiming {
    /// When the head had arrived on the track and settled.
    pub arrived: Time,
    /// When the first sector reached the head.
    pub transfer_start: Time,
    /// When the last sector had passed the head.
    pub end: Time,
    /// Where the head is at the end.
    pub head: Head,
}

/// Location where an access starts: see [`Disk::access_start`].
#[derive(Clone, Copy, Debug)]
pub struct AccessStart {
    position: SectorPosition,
    segment: usize,
    remainder: PassRemainder,
}

impl AccessStart {
    /// The location of the first sector.
    #[inline]
    pub fn position(&self) -> &SectorPosition {
        &self.position
    }
}

/// Revolutions lost beyond the skew at each kind of step, for one segment and direction.
#[derive(Clone, Copy, Debug, Default)]
struct LostRevolutions {
    track: u64,
    head: u64,
    tail_head: u64,
    group: u64,
}

/// A disk: geometry and mechanics.
#[derive(Clone, Debug)]
pub struct Disk {
    geometry: Geometry,
    mechanics: Mechanics,
    seek: SeekTable,
    seek_floor: SeekFloor,
    /// By segment: for reads and for writes.
    lost: Vec<[LostRevolutions; 2]>,
}

impl Disk {
    /// Combines the two and finds where the skew is too short for the mechanics.
    pub fn new(geometry: Geometry, mechanics: Mechanics) -> Self {
        let lost = geometry
            .segments()
            .iter()
            .map(|s| {
                [Direction::Read, Direction::Write]
                    .map(|direction| lost_revolutions(&mechanics, s, direction))
            })
            .collect();
        let seek = SeekTable::new(mechanics.seek.clone(), geometry.tracks());
        let seek_floor = seek.seek_floor(mechanics.write_settle, mechanics.rotation.revolution());
        Self { geometry, mechanics, seek, seek_floor, lost }
    }

    /// The geometry.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The moving parts.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// Time to move the heads to a track: the longer of seek and head switch, then settling.
    #[inline]
    pub fn move_time(&self, from: Head, to: Head, direction: Direction) -> Nanos {
        if from == to {
            return Nanos(0);
        }
        let seek = self.seek.time(from.track.abs_diff(to.track));
        self.mechanics.move_time(seek, from.surface != to.surface, direction)
    }

    /// Lower bound on the rotation during a seek.
    pub fn seek_floor(&self) -> SeekFloor {
        self.seek_floor
    }

    /// Time from `start` until the sector at a location is under the head: the cost that a scheduler
    /// compares.
    #[inline]
    pub fn positioning(&self, head: Head, start: Time, to: &SectorPosition, direction: Direction) -> Nanos {
        let track = Head { surface: to.surface, track: to.track };
        let moved = self.move_time(head, track, direction);
        moved + self.mechanics.rotation.wait_for(to.angle, start + moved)
    }

    /// Timing of an access that starts at `start` with the head at `head`.
    ///
    /// # Panics
    /// If the extent is empty or not on the disk: callers check once, on arrival of a command.
    #[inline]
    pub fn access(&self, head: Head, start: Time, extent: PbaExtent, direction: Direction) -> AccessTiming {
        self.access_from(&self.access_start(extent.start), head, start, extent, direction)
    }

    /// Locates the start of an access, so that repeated accesses need only one look-up.
    ///
    /// # Panics
    /// If the sector is not on the disk.
    #[inline(always)]
    pub fn access_start(&self, first: Pba) -> AccessStart {
        let (position, segment, remainder) = self.geometry.position_in_segment(first);
        AccessStart { position, segment, remainder }
    }

    /// [`Disk::access`] with its start already located.
    ///
    /// # Panics
    /// As [`Disk::access`].
    #[inline(always)]
    pub fn access_from(
        &self,
        begin: &AccessStart,
        head: Head,
        start: Time,
        extent: PbaExtent,
        direction: Direction,
    ) -> AccessTiming {
        let position = &begin.position;
        let segment = &self.geometry.segments()[begin.segment];
        let rotation = self.mechanics.rotation;
        let at = Head { surface: position.surface, track: position.track };
        let arrived = start + self.move_time(head, at, direction);
        let sectors = extent.len.get();
        if u64::from(position.sector) + sectors <= u64::from(position.sectors_per_track) {
            let width = Angle(segment.sector_width.0 * sectors);
            let (transfer_start, end) = self.transfer_in_track(position.angle, width, arrived);
            return AccessTiming { arrived, transfer_start, end, head: at };
        }
        let transfer_start = arrived + rotation.wait_for(position.angle, arrived);
        let here = sectors.min(segment.end - extent.start.0);
        let first = PbaExtent::new(extent.start, Sectors(here));
        let (mut end, mut head) = self.stream(begin, first, transfer_start, direction);
        let mut done = here;
        while done < sectors {
            let rest = PbaExtent::new(Pba(extent.start.0 + done), Sectors(sectors - done));
            let (next, more) = self.access_in_segment(head, end, rest, direction);
            (end, head) = (next.end, next.head);
            done += more;
        }
        AccessTiming { arrived, transfer_start, end, head }
    }

    /// Timing of the part of an access that lies in one segment, and its number of sectors.
    fn access_in_segment(
        &self,
        head: Head,
        start: Time,
        extent: PbaExtent,
        direction: Direction,
    ) -> (AccessTiming, u64) {
        let segment = &self.geometry.segments()[self.geometry.segment_index(extent.start)];
        let here = extent.len.get().min(segment.end - extent.start.0);
        (self.access(head, start, PbaExtent::new(extent.start, Sectors(here)), direction), here)
    }

    /// Start and end of a transfer within one track. A zero-latency disk starts at any wanted sector.
    #[inline]
    fn transfer_in_track(&self, angle: Angle, width: Angle, arrived: Time) -> (Time, Time) {
        let rotation = self.mechanics.rotation;
        if self.mechanics.zero_latency {
            let into = rotation.phase(arrived).since(angle);
            if into.0 < width.0 && into.0 > rotation.catch {
                return (arrived, arrived + rotation.revolution());
            }
        }
        let start = arrived + rotation.wait_for(angle, arrived);
        (start, start + rotation.time_from(start, angle, width.0.into()))
    }

    /// End of a transfer across tracks of one segment and the final head position; counts all steps at once.
    #[inline(always)]
    fn stream(
        &self,
        begin: &AccessStart,
        extent: PbaExtent,
        start: Time,
        direction: Direction,
    ) -> (Time, Head) {
        let AccessStart { ref position, segment: index, remainder } = *begin;
        let segment = &self.geometry.segments()[index];
        let width = u128::from(extent.len.get()) * u128::from(segment.sector_width.0);
        let lost = &self.lost[index][direction as usize];
        let crossed = segment.tracks_crossed(position.sector, extent.len);
        let (rotation, head) = if crossed <= remainder.tracks_ahead {
            // Within one pass: the common case, and the cheapest.
            let (on, tracks) = (position.track, crossed as u32);
            let track = if remainder.inward { on + tracks } else { on - tracks };
            (
                rotation_of_steps(crossed, segment.track_skew, lost.track),
                Head { surface: position.surface, track },
            )
        } else {
            steps_across_passes(segment, extent, lost)
        };
        let spent = self.mechanics.rotation.time_from(start, position.angle, width + rotation);
        (start + spent, head)
    }
}

/// Rotation, in 2^-64 revolutions, of steps with a skew that lose whole revolutions each.
#[inline]
fn rotation_of_steps(steps: u64, skew: Angle, lost_revolutions: u64) -> u128 {
    u128::from(steps) * u128::from(skew.0) + (u128::from(steps * lost_revolutions) << 64)
}

/// Rotation that a segment's steps add between the track of the first sector and that of the last, and the
/// final head position.
#[cold]
fn steps_across_passes(segment: &Segment, extent: PbaExtent, lost: &LostRevolutions) -> (u128, Head) {
    let (_, _, before) = segment.steps_to(extent.start);
    let (surface, track, after) = segment.steps_to(Pba(extent.end().0 - 1));
    let (_, heads_before_tail) = segment.tail_head_step();
    let in_tail =
        after.heads.saturating_sub(heads_before_tail) - before.heads.saturating_sub(heads_before_tail);
    let heads = after.heads - before.heads;
    let rotation = rotation_of_steps(after.tracks - before.tracks, segment.track_skew, lost.track)
        + rotation_of_steps(heads - in_tail, segment.head_skew, lost.head)
        + rotation_of_steps(in_tail, segment.head_skew, lost.tail_head)
        + rotation_of_steps(after.groups - before.groups, segment.group_skew, lost.group);
    (rotation, Head { surface, track })
}

impl Mechanics {
    #[inline]
    fn move_time(&self, seek: Nanos, other_surface: bool, direction: Direction) -> Nanos {
        let mut moved = seek;
        if other_surface {
            moved = moved.max(self.head_switch);
        }
        if direction == Direction::Write {
            moved += self.write_settle;
        }
        moved
    }

    /// Whole revolutions that a step costs beyond its skew.
    fn revolutions_lost(&self, moved: Nanos, skew: Angle) -> u64 {
        let skew_ns = self.rotation.time_for(skew).get() + CATCH_NS;
        moved.get().saturating_sub(skew_ns).div_ceil(self.rotation.revolution().get())
    }
}

fn lost_revolutions(mechanics: &Mechanics, segment: &Segment, direction: Direction) -> LostRevolutions {
    let moved = |tracks: u32, other_surface: bool| {
        mechanics.move_time(mechanics.seek.time(tracks), other_surface, direction)
    };
    let track = moved(1, false);
    let head = moved(segment.head_step_tracks(), true);
    let (group_tracks, other_surface) = segment.group_step();
    let group = moved(group_tracks, other_surface);
    LostRevolutions {
        track: mechanics.revolutions_lost(track, segment.track_skew),
        head: mechanics.revolutions_lost(head, segment.head_skew),
        tail_head: mechanics.revolutions_lost(moved(segment.tail_head_step().0, true), segment.head_skew),
        group: mechanics.revolutions_lost(group, segment.group_skew),
    }
}
