//! Mechanics: how long an access takes and where it leaves the head.
//!
//! An access is a move (seek, head switch, settling), a wait for the first sector, and a transfer that
//! crosses any number of tracks in closed form. Where the platters stand is a 0.64 fixed-point fraction of a
//! turn, computed from the time anew, so nothing accumulates from one access to the next.
//!
//! Invariants: an access never starts before the head is there; two accesses that follow each other on
//! the medium without a pause lose no turn; the same access at the same time takes the same time.
//! Sources: Ruemmler and Wilkes, "An introduction to disk drive modeling" (IEEE Computer, 1994); checked
//! against a validated simulator, request by request, in `crates/disk/tests/atlas10k.rs`.

use crate::geometry::{Geometry, Place, Segment, Stroke};
use crate::seek::{SeekCurve, SeekTable};
use crate::turn_floor::TurnFloor;
use crate::units::{Angle, Nanos, Pba, PbaExtent, Sectors, Time};

/// How far past its start a sector may be and still be caught: the rounding of two times to nanoseconds.
const CATCH_NS: u64 = 4;

/// How fast the platters turn.
#[derive(Clone, Copy, Debug)]
pub struct Rotation {
    /// Nanoseconds a turn in 32.32 fixed point.
    turn_fixed: u64,
    /// Turns a nanosecond in 0.64 fixed point.
    rate: u64,
    /// `CATCH_NS` as an angle.
    catch: u64,
}

impl Rotation {
    /// A rotation of `turn_ns` nanoseconds a turn (1,000 to 2^31).
    pub fn new(turn_ns: f64) -> Self {
        let turn_fixed = (turn_ns * 4_294_967_296.0) as u64;
        let rate = ((1u128 << 96) / u128::from(turn_fixed)) as u64;
        Self { turn_fixed, rate, catch: rate.saturating_mul(CATCH_NS) }
    }

    /// Time of one turn.
    pub fn turn(self) -> Nanos {
        Nanos((self.turn_fixed + (1 << 31)) >> 32)
    }

    /// Where the platters stand: the angle under the heads.
    #[inline]
    pub fn phase(self, at: Time) -> Angle {
        Angle(at.0.wrapping_mul(self.rate))
    }

    /// Time to turn by `angle`, rounded to the nearest nanosecond.
    #[inline]
    pub fn time_for(self, angle: Angle) -> Nanos {
        self.time_for_turns(0, angle)
    }

    /// Time for a number of whole turns and a fraction.
    #[inline]
    pub fn time_for_turns(self, whole: u64, fraction: Angle) -> Nanos {
        let part = (u128::from(self.turn_fixed) * u128::from(fraction.0)) >> 64;
        let sum = u128::from(self.turn_fixed) * u128::from(whole) + part + (1 << 31);
        Nanos((sum >> 32) as u64)
    }

    /// Time from `start`, close to when `angle` passes, until `turns` (2^64 a turn, below 2^127) past that angle:
    /// what rounding made early or late is made up for, so that it does not add up.
    #[inline]
    fn time_from(self, start: Time, angle: Angle, turns: u128) -> Nanos {
        let late = i128::from(self.phase(start).since(angle).0 as i64);
        let left = (turns.cast_signed() - late).max(0).cast_unsigned();
        self.time_for_turns((left >> 64) as u64, Angle(left as u64))
    }

    /// The angle turned in a duration shorter than a turn.
    pub fn angle_in(self, duration: Nanos) -> Angle {
        self.phase(Time(duration.0))
    }

    /// The angle turned in any duration; the most there is for a turn or more.
    #[inline]
    pub fn turned_in(self, duration: Nanos) -> Angle {
        if duration < self.turn() { self.angle_in(duration) } else { Angle(u64::MAX) }
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
    /// Time to change the surface; it runs beside a seek, and the longer counts.
    pub head_switch: Nanos,
    /// What a write waits longer than a read after a move.
    pub write_settle: Nanos,
    /// Whether a track may be read or written from any of the wanted sectors on (zero-latency access).
    pub zero_latency: bool,
}

/// Reading or writing.
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

/// The course of one access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AccessTiming {
    /// When the head was on the track, settled.
    pub arrived: Time,
    /// When the first sector came under the head.
    pub transfer_start: Time,
    /// When the last sector had passed.
    pub end: Time,
    /// Where the head is then.
    pub head: Head,
}

/// Where an access begins: see [`Disk::beginning`].
#[derive(Clone, Copy, Debug)]
pub struct Beginning {
    place: Place,
    segment: usize,
    stroke: Stroke,
}

impl Beginning {
    /// The place of the first sector.
    #[inline]
    pub fn place(&self) -> &Place {
        &self.place
    }
}

/// Turns lost beyond the skew at each kind of step, for one segment and direction.
#[derive(Clone, Copy, Debug, Default)]
struct LostTurns {
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
    turn_floor: TurnFloor,
    /// By segment: for reads and for writes.
    lost: Vec<[LostTurns; 2]>,
}

impl Disk {
    /// Joins the two and works out where skew is too short for the mechanics.
    pub fn new(geometry: Geometry, mechanics: Mechanics) -> Self {
        let lost = geometry
            .segments()
            .iter()
            .map(|s| [Direction::Read, Direction::Write].map(|way| lost_turns(&mechanics, s, way)))
            .collect();
        let seek = SeekTable::new(mechanics.seek.clone(), geometry.tracks());
        let turn_floor = seek.turn_floor(mechanics.write_settle, mechanics.rotation.turn());
        Self { geometry, mechanics, seek, turn_floor, lost }
    }

    /// The tracks.
    pub fn geometry(&self) -> &Geometry {
        &self.geometry
    }

    /// The moving parts.
    pub fn mechanics(&self) -> &Mechanics {
        &self.mechanics
    }

    /// Time to bring the heads to a track: the longer of seek and head switch, then settling.
    #[inline]
    pub fn move_time(&self, from: Head, to: Head, way: Direction) -> Nanos {
        if from == to {
            return Nanos(0);
        }
        let sought = self.seek.time(from.track.abs_diff(to.track));
        self.mechanics.move_time(sought, from.surface != to.surface, way)
    }

    /// How far the platters turn at least while the arm goes some way.
    pub fn turn_floor(&self) -> TurnFloor {
        self.turn_floor
    }

    /// Time from `start` until the sector at a place is under the head: what a scheduler compares.
    #[inline]
    pub fn positioning(&self, head: Head, start: Time, place: &Place, way: Direction) -> Nanos {
        let to = Head { surface: place.surface, track: place.track };
        let moved = self.move_time(head, to, way);
        moved + self.mechanics.rotation.wait_for(place.angle, start + moved)
    }

    /// The course of an access that starts at `start` with the head at `head`.
    ///
    /// # Panics
    /// When the extent is empty or not on the disk: callers check once, on arrival of a command.
    #[inline]
    pub fn access(&self, head: Head, start: Time, extent: PbaExtent, way: Direction) -> AccessTiming {
        self.access_from(&self.beginning(extent.start), head, start, extent, way)
    }

    /// Where an access begins that has this first sector: what is accessed again and again is looked up once.
    ///
    /// # Panics
    /// When the sector is not on the disk.
    #[inline(always)]
    pub fn beginning(&self, first: Pba) -> Beginning {
        let (place, segment, stroke) = self.geometry.place_in_segment(first);
        Beginning { place, segment, stroke }
    }

    /// [`Disk::access`] of an extent of which it is known where it begins.
    ///
    /// # Panics
    /// As [`Disk::access`].
    #[inline(always)]
    pub fn access_from(
        &self,
        begin: &Beginning,
        head: Head,
        start: Time,
        extent: PbaExtent,
        way: Direction,
    ) -> AccessTiming {
        let place = &begin.place;
        let segment = &self.geometry.segments()[begin.segment];
        let rotation = self.mechanics.rotation;
        let at = Head { surface: place.surface, track: place.track };
        let arrived = start + self.move_time(head, at, way);
        let sectors = extent.len.get();
        if u64::from(place.sector) + sectors <= u64::from(place.sectors_per_track) {
            let width = Angle(segment.sector_width.0 * sectors);
            let (transfer_start, end) = self.transfer_in_track(place.angle, width, arrived);
            return AccessTiming { arrived, transfer_start, end, head: at };
        }
        let transfer_start = arrived + rotation.wait_for(place.angle, arrived);
        let here = sectors.min(segment.end - extent.start.0);
        let first = PbaExtent::new(extent.start, Sectors(here));
        let (mut end, mut head) = self.stream(begin, first, transfer_start, way);
        let mut done = here;
        while done < sectors {
            let rest = PbaExtent::new(Pba(extent.start.0 + done), Sectors(sectors - done));
            let (next, more) = self.access_in_segment(head, end, rest, way);
            (end, head) = (next.end, next.head);
            done += more;
        }
        AccessTiming { arrived, transfer_start, end, head }
    }

    /// The course of the part of an access that lies in one segment, and how many sectors that is.
    fn access_in_segment(
        &self,
        head: Head,
        start: Time,
        extent: PbaExtent,
        way: Direction,
    ) -> (AccessTiming, u64) {
        let segment = &self.geometry.segments()[self.geometry.segment_index(extent.start)];
        let here = extent.len.get().min(segment.end - extent.start.0);
        (self.access(head, start, PbaExtent::new(extent.start, Sectors(here)), way), here)
    }

    /// Start and end of a transfer of less than a turn, from any wanted sector where the disk can.
    #[inline]
    fn transfer_in_track(&self, angle: Angle, width: Angle, arrived: Time) -> (Time, Time) {
        let rotation = self.mechanics.rotation;
        if self.mechanics.zero_latency {
            let into = rotation.phase(arrived).since(angle);
            if into.0 < width.0 && into.0 > rotation.catch {
                return (arrived, arrived + rotation.turn());
            }
        }
        let start = arrived + rotation.wait_for(angle, arrived);
        (start, start + rotation.time_from(start, angle, width.0.into()))
    }

    /// End of a transfer across tracks of one segment, and the head then: all steps counted at once.
    #[inline(always)]
    fn stream(&self, begin: &Beginning, extent: PbaExtent, start: Time, way: Direction) -> (Time, Head) {
        let Beginning { ref place, segment: index, stroke } = *begin;
        let segment = &self.geometry.segments()[index];
        let width = u128::from(extent.len.get()) * u128::from(segment.sector_width.0);
        let lost = &self.lost[index][way as usize];
        let crossed = segment.tracks_crossed(place.sector, extent.len);
        let (turns, head) = if crossed <= stroke.ahead {
            // Along one stroke: most, and the quickest to find.
            let (on, tracks) = (place.track, crossed as u32);
            let track = if stroke.inward { on + tracks } else { on - tracks };
            (turned(crossed, segment.track_skew, lost.track), Head { surface: place.surface, track })
        } else {
            steps_across_strokes(segment, extent, lost)
        };
        let spent = self.mechanics.rotation.time_from(start, place.angle, width + turns);
        (start + spent, head)
    }
}

/// How far the platters turn, in 2^-64 turns, beside so many steps with a skew that each lose whole turns.
#[inline]
fn turned(steps: u64, skew: Angle, lost_turns: u64) -> u128 {
    u128::from(steps) * u128::from(skew.0) + (u128::from(steps * lost_turns) << 64)
}

/// How far the platters turn beside the steps of a segment from the track of the first sector to that of the last,
/// and where the heads are then.
#[cold]
fn steps_across_strokes(segment: &Segment, extent: PbaExtent, lost: &LostTurns) -> (u128, Head) {
    let (_, _, before) = segment.steps_to(extent.start);
    let (surface, track, after) = segment.steps_to(Pba(extent.end().0 - 1));
    let (_, heads_before_tail) = segment.tail_head_step();
    let in_tail =
        after.heads.saturating_sub(heads_before_tail) - before.heads.saturating_sub(heads_before_tail);
    let heads = after.heads - before.heads;
    let turns = turned(after.tracks - before.tracks, segment.track_skew, lost.track)
        + turned(heads - in_tail, segment.head_skew, lost.head)
        + turned(in_tail, segment.head_skew, lost.tail_head)
        + turned(after.groups - before.groups, segment.group_skew, lost.group);
    (turns, Head { surface, track })
}

impl Mechanics {
    #[inline]
    fn move_time(&self, sought: Nanos, other_surface: bool, way: Direction) -> Nanos {
        let mut moved = sought;
        if other_surface {
            moved = moved.max(self.head_switch);
        }
        if way == Direction::Write {
            moved += self.write_settle;
        }
        moved
    }

    /// Whole turns that a step costs beyond its skew.
    fn turns_lost(&self, moved: Nanos, skew: Angle) -> u64 {
        let skew_ns = self.rotation.time_for(skew).get() + CATCH_NS;
        moved.get().saturating_sub(skew_ns).div_ceil(self.rotation.turn().get())
    }
}

fn lost_turns(mechanics: &Mechanics, segment: &Segment, way: Direction) -> LostTurns {
    let moved = |tracks: u32, other_surface: bool| {
        mechanics.move_time(mechanics.seek.time(tracks), other_surface, way)
    };
    let track = moved(1, false);
    let head = moved(segment.head_step_tracks(), true);
    let (group_tracks, other_surface) = segment.group_step();
    let group = moved(group_tracks, other_surface);
    LostTurns {
        track: mechanics.turns_lost(track, segment.track_skew),
        head: mechanics.turns_lost(head, segment.head_skew),
        tail_head: mechanics.turns_lost(moved(segment.tail_head_step().0, true), segment.head_skew),
        group: mechanics.turns_lost(group, segment.group_skew),
    }
}
