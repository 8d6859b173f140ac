//! Mechanics against a simulator that goes sector by sector: move, wait, read one sector, and so on.
//!
//! The simulator has arithmetic of its own (floating point, times short enough that it is exact to a
//! thousandth of a nanosecond) and asks the geometry only where a sector lies.

use proptest::prelude::*;
use skylight_disk::layout::segments;
use skylight_disk::{
    AccessTiming, Angle, Direction, Disk, Geometry, Head, Layout, Mechanics, Nanos, Pba, PbaExtent,
    RecordingZone, Rotation, Sectors, SeekCurve, Skews, Time,
};

/// A sector that begins this little before the head is there is caught; the model allows 4 ns.
const CAUGHT_NS: f64 = 2.5;
/// Between this and what is caught the simulator does not say what happens.
const UNCLEAR_NS: f64 = 8.0;

/// A disk and the numbers it was made from.
#[derive(Clone, Debug)]
struct Case {
    disk: Disk,
    turn_ns: f64,
    seek_ns: [u64; 2],
    head_switch_ns: u64,
    write_settle_ns: u64,
}

/// The course of an access by the simulator, in nanoseconds from the access's start.
#[derive(Debug)]
struct Course {
    arrived: f64,
    transfer_start: f64,
    end: f64,
    head: Head,
    crossings: u64,
}

impl Case {
    /// Seek time is constant + linear * distance, so that the simulator needs no rounding of roots.
    fn move_ns(&self, from: Head, to: Head, way: Direction) -> u64 {
        if from == to {
            return 0;
        }
        let distance = u64::from(from.track.abs_diff(to.track));
        let seek = if distance == 0 { 0 } else { self.seek_ns[0] + self.seek_ns[1] * distance };
        let switch = if from.surface == to.surface { 0 } else { self.head_switch_ns };
        seek.max(switch) + if way == Direction::Write { self.write_settle_ns } else { 0 }
    }

    /// How long from the instant `at` until `angle` comes, negative where it has just gone by and is caught;
    /// `None` when it is too close to tell.
    fn wait_ns(&self, at: f64, angle: Angle) -> Option<f64> {
        let ahead = (angle.as_turns() - at / self.turn_ns).rem_euclid(1.0) * self.turn_ns;
        let behind = self.turn_ns - ahead;
        match behind {
            b if b < CAUGHT_NS => Some(-behind),
            b if b < UNCLEAR_NS => None,
            _ => Some(ahead),
        }
    }

    fn simulate(&self, head: Head, start: u64, extent: PbaExtent, way: Direction) -> Option<Course> {
        let (mut head, mut at, mut crossings) = (head, start as f64, 0);
        let (mut arrived, mut transfer_start) = (0.0, 0.0);
        for pba in extent.start.get()..extent.end().get() {
            let place = self.disk.geometry().place(Pba(pba));
            let to = Head { surface: place.surface, track: place.track };
            crossings += u64::from(to != head);
            at += self.move_ns(head, to, way) as f64;
            head = to;
            let here = at;
            at += self.wait_ns(at, place.angle)?;
            if pba == extent.start.get() {
                (arrived, transfer_start) = (here, at.max(here));
            }
            at += self.turn_ns / f64::from(place.sectors_per_track);
        }
        Some(Course { arrived, transfer_start, end: at, head, crossings })
    }
}

fn agrees(timing: AccessTiming, course: &Course) -> Result<(), TestCaseError> {
    let far = |time: Time, expected: f64| (time.get() as f64 - expected).abs();
    let slack = 3.0 + 2.0 * course.crossings as f64;
    prop_assert!(far(timing.arrived, course.arrived) < 0.5, "{timing:?} {course:?}");
    prop_assert!(far(timing.transfer_start, course.transfer_start) < 3.0, "{timing:?} {course:?}");
    prop_assert!(far(timing.end, course.end) < slack, "{timing:?} {course:?}");
    prop_assert_eq!(timing.head, course.head);
    Ok(())
}

fn any_layout() -> impl Strategy<Value = Layout> {
    prop_oneof![
        Just(Layout::Cylinder),
        Just(Layout::CylinderSerpentine),
        Just(Layout::SurfaceSerpentine),
        (1u32..9).prop_map(|group_tracks| Layout::HybridSerpentine { group_tracks }),
        Just(Layout::HorizontalZones),
    ]
}

/// Flags that make segments of no layout: directions, orders, groups.
type Twist = Option<([bool; 4], u32)>;

#[derive(Clone, Debug)]
struct Numbers {
    layout: Layout,
    zones: Vec<(u32, u32)>,
    surfaces: u16,
    twist: Twist,
    turn_ns: f64,
    seek_ns: [u64; 2],
    head_switch_ns: u64,
    write_settle_ns: u64,
    /// Skew beyond the move it is for, in nanoseconds: negative ones lose turns, 0 fits just.
    spare_ns: [i64; 3],
    zero_latency: bool,
}

impl Numbers {
    fn case(&self) -> Case {
        let rotation = Rotation::new(self.turn_ns);
        let settle = self.write_settle_ns as i64;
        let step = (self.seek_ns[0] + self.seek_ns[1]) as i64;
        let switch = self.head_switch_ns as i64;
        let skew = |needed: i64, spare: i64| {
            rotation.angle_in(Nanos((needed + settle + spare).clamp(0, self.turn_ns as i64 - 1) as u64))
        };
        let skews = Skews {
            track: skew(step, self.spare_ns[0]),
            head: skew(switch, self.spare_ns[1]),
            group: skew(step.max(switch), self.spare_ns[2]),
        };
        let zones: Vec<RecordingZone> = self
            .zones
            .iter()
            .map(|&(tracks, sectors_per_track)| RecordingZone { tracks, sectors_per_track })
            .collect();
        let mut specs = segments(self.layout, &zones, self.surfaces, skews);
        if let Some(([inward, descend, alternate, strokes], group_tracks)) = self.twist {
            for spec in specs.iter_mut().filter(|spec| spec.surfaces > 1) {
                spec.inward = inward;
                spec.first_track += if inward { 0 } else { spec.tracks - 1 };
                spec.surfaces_descend = descend;
                spec.surfaces_alternate = alternate;
                spec.strokes_alternate = strokes;
                spec.group_tracks = group_tracks;
                spec.group_skew = skews.group;
            }
        }
        let mechanics = Mechanics {
            rotation,
            seek: SeekCurve::Fitted {
                constant_ns: self.seek_ns[0] as f64,
                root_ns: 0.0,
                linear_ns: self.seek_ns[1] as f64,
            },
            head_switch: Nanos(self.head_switch_ns),
            write_settle: Nanos(self.write_settle_ns),
            zero_latency: self.zero_latency,
        };
        let geometry = Geometry::new(&specs).expect("a disk");
        Case {
            disk: Disk::new(geometry, mechanics),
            turn_ns: self.turn_ns,
            seek_ns: self.seek_ns,
            head_switch_ns: self.head_switch_ns,
            write_settle_ns: self.write_settle_ns,
        }
    }
}

fn any_numbers() -> impl Strategy<Value = Numbers> {
    let zones = prop::collection::vec((1u32..14, 3u32..40), 1..4);
    let spare = prop_oneof![
        3 => Just(0i64),
        3 => 20i64..2_000_000,
        2 => -2_000_000i64..-20,
    ];
    let twist = prop::option::of((any::<[bool; 4]>(), 1u32..8));
    let times = (2_000_000u32..14_000_000, 0u64..1_500_000, 0u64..200_000, 0u64..1_500_000, 0u64..300_000);
    ((any_layout(), zones, 1u16..5, twist), times, [spare.clone(), spare.clone(), spare]).prop_map(
        |((layout, zones, surfaces, twist), times, spare_ns)| {
            let (turn_ns, constant, linear, head_switch_ns, write_settle_ns) = times;
            // A third of a nanosecond: turns are no whole number of them.
            let turn_ns = f64::from(turn_ns) + 1.0 / 3.0;
            let seek_ns = [constant, linear];
            let zero_latency = false;
            Numbers {
                layout,
                zones,
                surfaces,
                twist,
                turn_ns,
                seek_ns,
                head_switch_ns,
                write_settle_ns,
                spare_ns,
                zero_latency,
            }
        },
    )
}

/// An extent of a disk from two fractions.
fn extent_at(disk: &Disk, start: f64, len: f64) -> PbaExtent {
    let capacity = disk.geometry().capacity().get();
    let first = (capacity as f64 * start) as u64;
    let sectors = 1 + ((capacity - first - 1) as f64 * len) as u64;
    PbaExtent::new(Pba(first), Sectors(sectors))
}

fn head_at(disk: &Disk, at: f64) -> Head {
    let place = disk.geometry().place(extent_at(disk, at, 0.0).start);
    Head { surface: place.surface, track: place.track }
}

fn any_way() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Read), Just(Direction::Write)]
}

fn any_length() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..0.02f64, 0.0..1.0f64, Just(1.0)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_access_goes_as_sector_by_sector(
        numbers in any_numbers(),
        (from, to, len) in (0.0..1.0f64, 0.0..1.0f64, any_length()),
        start in 0u64..20_000_000_000,
        way in any_way(),
    ) {
        let case = numbers.case();
        let (head, extent) = (head_at(&case.disk, from), extent_at(&case.disk, to, len));
        let Some(course) = case.simulate(head, start, extent, way) else { return Ok(()) };
        let timing = case.disk.access(head, Time(start), extent, way);
        agrees(timing, &course)?;
        prop_assert!(start <= timing.arrived.get() && timing.arrived <= timing.transfer_start);
        prop_assert!(timing.transfer_start < timing.end);
        prop_assert_eq!(case.disk.access(head, Time(start), extent, way), timing);
        let positioned = case.disk.positioning(head, Time(start), &case.disk.geometry().place(extent.start), way);
        prop_assert_eq!(Time(start) + positioned, timing.transfer_start);
    }

    /// Accesses that follow each other end when one access of all of them does.
    #[test]
    fn contiguous_accesses_lose_no_turn(
        numbers in any_numbers(), start in 0u64..20_000_000_000, step in 1u64..30, way in any_way(),
    ) {
        let case = numbers.case();
        let disk = &case.disk;
        let capacity = disk.geometry().capacity().get();
        let head = head_at(disk, 0.0);
        let (mut at, mut now, mut here) = (0, Time(start), head);
        while at < capacity {
            let len = step.min(capacity - at);
            let part = disk.access(here, now, PbaExtent::new(Pba(at), Sectors(len)), way);
            prop_assert!(part.end > now);
            (at, now, here) = (at + len, part.end, part.head);
            let Some(whole) = case.simulate(head, start, PbaExtent::new(Pba(0), Sectors(at)), way) else {
                return Ok(());
            };
            let far = (now.get() as f64 - whole.end).abs();
            prop_assert!(far < 6.0, "after {at} sectors in steps of {step}: {far} ns from the course");
            if at > 2_000 {
                break;
            }
        }
    }

    /// A disk that starts anywhere is never slower, and by as much faster as it began late in the extent.
    #[test]
    fn zero_latency_takes_a_turn_at_most(
        numbers in any_numbers(), to in 0.0..1.0f64, len in 1u32..40, start in 0u64..20_000_000_000,
        way in any_way(),
    ) {
        let plain = numbers.case();
        let eager = Numbers { zero_latency: true, ..numbers }.case();
        let first = extent_at(&plain.disk, to, 0.0).start;
        let place = plain.disk.geometry().place(first);
        let len = len.min(place.sectors_per_track - place.sector);
        let extent = PbaExtent::new(first, Sectors(len.into()));
        let head = Head { surface: place.surface, track: place.track };
        let slow = plain.disk.access(head, Time(start), extent, way);
        let fast = eager.disk.access(head, Time(start), extent, way);
        prop_assert!(fast.arrived <= fast.transfer_start && fast.transfer_start < fast.end);
        prop_assert!(fast.end <= slow.end && fast.transfer_start <= slow.transfer_start);
        let into = (start as f64 / plain.turn_ns - place.angle.as_turns()).rem_euclid(1.0);
        let width = f64::from(len) / f64::from(place.sectors_per_track);
        let sector_ns = plain.turn_ns / f64::from(place.sectors_per_track);
        if into * plain.turn_ns > UNCLEAR_NS && into < width - 1e-6 {
            // The sector under the head at arrival must come again; the model may take it in two parts.
            let turn_and_rest = plain.turn_ns + (sector_ns - (into * plain.turn_ns) % sector_ns);
            let spent = (fast.end.get() - start) as f64;
            prop_assert!(spent > plain.turn_ns - 3.0 && spent < turn_and_rest + 3.0, "{spent}");
        } else if into > width + 1e-6 {
            prop_assert_eq!(fast, slow);
        }
    }

    #[test]
    fn a_wait_ends_at_the_angle(
        turn in 2_000_000.0..60_000_000.0f64, at in 0u64..1_000_000_000_000_000, angle in any::<u64>(),
    ) {
        let rotation = Rotation::new(turn);
        let waited = rotation.wait_for(Angle(angle), Time(at));
        prop_assert!(waited.get() as f64 <= turn + 1.0);
        let there = rotation.phase(Time(at) + waited);
        let off = (there.since(Angle(angle)).get() as i64).unsigned_abs() as f64 / 2f64.powi(64) * turn;
        prop_assert!(off < 5.0, "{off} ns off after a wait of {waited}");
        // A turn later it is there again, and just before it is not yet.
        let turn_later = rotation.phase(Time(at) + waited + rotation.turn());
        let drift = (turn_later.since(there).get() as i64).unsigned_abs() as f64 / 2f64.powi(64) * turn;
        prop_assert!(drift < 1.0, "{drift} ns in a turn");
        if waited.get() > 10 {
            let rest = rotation.wait_for(Angle(angle), Time(at) + Nanos(waited.get() - 10));
            prop_assert!((9..=11).contains(&rest.get()), "{rest} of 10 ns left");
        }
    }

    /// Phase is proportional to time: as many turns as the longest command takes, rounded to a nanosecond,
    /// come back to their start.
    #[test]
    fn whole_turns_return(turn in 2_000_000.0..60_000_000.0f64, turns in 0u64..4_000) {
        let rotation = Rotation::new(turn);
        let spent = rotation.time_for_turns(turns, Angle(0));
        prop_assert!((spent.get() as f64 - turn * turns as f64).abs() < 2.0);
        let off = (rotation.phase(Time(spent.get())).get() as i64).unsigned_abs() as f64 / 2f64.powi(64);
        prop_assert!(off * turn < 2.0, "{} ns off", off * turn);
    }
}

#[test]
fn a_measured_seek_curve_is_met_at_its_points_and_between() {
    let curve = SeekCurve::Points(vec![(1, 1_245_000), (2, 1_157_000), (10, 2_000_000), (100, 5_600_000)]);
    for (distance, ns) in [
        (0, 0),
        (1, 1_245_000),
        (2, 1_157_000),
        (6, 1_578_500),
        (10, 2_000_000),
        (55, 3_800_000),
        (100, 5_600_000),
        (5_000, 5_600_000),
    ] {
        assert_eq!(curve.time(distance), Nanos(ns), "{distance} tracks");
    }
    assert_eq!(SeekCurve::Points(vec![(5, 700)]).time(2), Nanos(700), "the first point holds below it");
    let fitted = SeekCurve::Fitted { constant_ns: 100.0, root_ns: 30.0, linear_ns: 2.0 };
    assert_eq!((fitted.time(0), fitted.time(16)), (Nanos(0), Nanos(100 + 120 + 32)));
}

#[test]
fn a_seek_and_a_head_switch_run_side_by_side_and_a_write_settles() {
    let numbers = Numbers {
        layout: Layout::Cylinder,
        zones: vec![(10, 8)],
        surfaces: 2,
        twist: None,
        turn_ns: 8e6,
        seek_ns: [1_000, 100],
        head_switch_ns: 1_250,
        write_settle_ns: 7,
        spare_ns: [0; 3],
        zero_latency: false,
    };
    let disk = numbers.case().disk;
    let head = |surface, track| Head { surface, track };
    let ns = |to, way| disk.move_time(head(0, 0), to, way).get();
    assert_eq!(ns(head(0, 0), Direction::Write), 0);
    assert_eq!(ns(head(1, 0), Direction::Read), 1_250);
    assert_eq!(ns(head(0, 9), Direction::Read), 1_900);
    assert_eq!(ns(head(1, 2), Direction::Read), 1_250, "the switch takes longer");
    assert_eq!(ns(head(1, 9), Direction::Write), 1_907, "the seek takes longer");
}
