//! Mechanics against a simulator that proceeds sector by sector: move, wait, read one sector, and so on.
//!
//! The simulator has arithmetic of its own (floating point, with times short enough to be exact to a
//! thousandth of a nanosecond) and uses the geometry only for the locations of sectors.

use proptest::prelude::*;
use skylight_disk::layout::segments;
use skylight_disk::{
    AccessTiming, Angle, Direction, Disk, Geometry, Head, Layout, Mechanics, Nanos, Pba, PbaExtent,
    RecordingZone, Rotation, Sectors, SeekCurve, Skews, Time,
};

/// The simulator catches a sector that begins this long before the head arrives; the model allows 4 ns.
const CAUGHT_NS: f64 = 2.5;
/// Between [`CAUGHT_NS`] and this the outcome depends on rounding, and the simulator gives none.
const UNCLEAR_NS: f64 = 8.0;

/// A disk and the parameters it was made from.
#[derive(Clone, Debug)]
struct Case {
    disk: Disk,
    revolution_ns: f64,
    seek_ns: [u64; 2],
    head_switch_ns: u64,
    write_settle_ns: u64,
}

/// Timing of an access in the simulator, in nanoseconds from the start of the access.
#[derive(Debug)]
struct Simulated {
    arrived: f64,
    transfer_start: f64,
    end: f64,
    head: Head,
    crossings: u64,
}

impl Case {
    /// Seek time is constant + linear * distance, so that the simulator need not round square roots.
    fn move_ns(&self, from: Head, to: Head, direction: Direction) -> u64 {
        if from == to {
            return 0;
        }
        let distance = u64::from(from.track.abs_diff(to.track));
        let seek = if distance == 0 { 0 } else { self.seek_ns[0] + self.seek_ns[1] * distance };
        let switch = if from.surface == to.surface { 0 } else { self.head_switch_ns };
        seek.max(switch) + if direction == Direction::Write { self.write_settle_ns } else { 0 }
    }

    /// Time from `at` until `angle` comes, negative if it has just passed and is caught; `None` if rounding
    /// decides.
    fn wait_ns(&self, at: f64, angle: Angle) -> Option<f64> {
        let ahead = (angle.as_revolutions() - at / self.revolution_ns).rem_euclid(1.0) * self.revolution_ns;
        let behind = self.revolution_ns - ahead;
        match behind {
            b if b < CAUGHT_NS => Some(-behind),
            b if b < UNCLEAR_NS => None,
            _ => Some(ahead),
        }
    }

    fn simulate(&self, head: Head, start: u64, extent: PbaExtent, direction: Direction) -> Option<Simulated> {
        let (mut head, mut at, mut crossings) = (head, start as f64, 0);
        let (mut arrived, mut transfer_start) = (0.0, 0.0);
        for pba in extent.start.get()..extent.end().get() {
            let place = self.disk.geometry().position_of(Pba(pba));
            let to = Head { surface: place.surface, track: place.track };
            crossings += u64::from(to != head);
            at += self.move_ns(head, to, direction) as f64;
            head = to;
            let here = at;
            at += self.wait_ns(at, place.angle)?;
            if pba == extent.start.get() {
                (arrived, transfer_start) = (here, at.max(here));
            }
            at += self.revolution_ns / f64::from(place.sectors_per_track);
        }
        Some(Simulated { arrived, transfer_start, end: at, head, crossings })
    }
}

fn agrees(timing: AccessTiming, simulated: &Simulated) -> Result<(), TestCaseError> {
    let far = |time: Time, expected: f64| (time.get() as f64 - expected).abs();
    let slack = 3.0 + 2.0 * simulated.crossings as f64;
    prop_assert!(far(timing.arrived, simulated.arrived) < 0.5, "{timing:?} {simulated:?}");
    prop_assert!(far(timing.transfer_start, simulated.transfer_start) < 3.0, "{timing:?} {simulated:?}");
    prop_assert!(far(timing.end, simulated.end) < slack, "{timing:?} {simulated:?}");
    prop_assert_eq!(timing.head, simulated.head);
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

/// Flags that give segments of no standard layout: directions, orders, groups.
type Variation = Option<([bool; 4], u32)>;

#[derive(Clone, Debug)]
struct Parameters {
    layout: Layout,
    zones: Vec<(u32, u32)>,
    surfaces: u16,
    variation: Variation,
    revolution_ns: f64,
    seek_ns: [u64; 2],
    head_switch_ns: u64,
    write_settle_ns: u64,
    /// Skew beyond the move it covers, in nanoseconds: negative values lose revolutions, 0 is just enough.
    spare_ns: [i64; 3],
    zero_latency: bool,
}

impl Parameters {
    fn case(&self) -> Case {
        let rotation = Rotation::new(self.revolution_ns);
        let settle = self.write_settle_ns as i64;
        let step = (self.seek_ns[0] + self.seek_ns[1]) as i64;
        let switch = self.head_switch_ns as i64;
        let skew = |needed: i64, spare: i64| {
            rotation.angle_in(Nanos((needed + settle + spare).clamp(0, self.revolution_ns as i64 - 1) as u64))
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
        if let Some(([inward, descend, alternate, strokes], group_tracks)) = self.variation {
            for spec in specs.iter_mut().filter(|spec| spec.surfaces > 1) {
                spec.inward = inward;
                spec.first_track += if inward { 0 } else { spec.tracks - 1 };
                spec.surfaces_descend = descend;
                spec.surfaces_alternate = alternate;
                spec.passes_alternate = strokes;
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
            revolution_ns: self.revolution_ns,
            seek_ns: self.seek_ns,
            head_switch_ns: self.head_switch_ns,
            write_settle_ns: self.write_settle_ns,
        }
    }
}

fn any_parameters() -> impl Strategy<Value = Parameters> {
    let zones = prop::collection::vec((1u32..14, 3u32..40), 1..4);
    let spare = prop_oneof![
        3 => Just(0i64),
        3 => 20i64..2_000_000,
        2 => -2_000_000i64..-20,
    ];
    let variation = prop::option::of((any::<[bool; 4]>(), 1u32..8));
    let times = (2_000_000u32..14_000_000, 0u64..1_500_000, 0u64..200_000, 0u64..1_500_000, 0u64..300_000);
    ((any_layout(), zones, 1u16..5, variation), times, [spare.clone(), spare.clone(), spare]).prop_map(
        |((layout, zones, surfaces, variation), times, spare_ns)| {
            let (revolution_ns, constant, linear, head_switch_ns, write_settle_ns) = times;
            // A third of a nanosecond, because a revolution is not a whole number of nanoseconds.
            let revolution_ns = f64::from(revolution_ns) + 1.0 / 3.0;
            let seek_ns = [constant, linear];
            let zero_latency = false;
            Parameters {
                layout,
                zones,
                surfaces,
                variation,
                revolution_ns,
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
    let place = disk.geometry().position_of(extent_at(disk, at, 0.0).start);
    Head { surface: place.surface, track: place.track }
}

fn any_direction() -> impl Strategy<Value = Direction> {
    prop_oneof![Just(Direction::Read), Just(Direction::Write)]
}

fn any_length() -> impl Strategy<Value = f64> {
    prop_oneof![Just(0.0), 0.0..0.02f64, 0.0..1.0f64, Just(1.0)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_access_agrees_with_the_simulator(
        parameters in any_parameters(),
        (from, to, len) in (0.0..1.0f64, 0.0..1.0f64, any_length()),
        start in 0u64..20_000_000_000,
        direction in any_direction(),
    ) {
        let case = parameters.case();
        let (head, extent) = (head_at(&case.disk, from), extent_at(&case.disk, to, len));
        let Some(simulated) = case.simulate(head, start, extent, direction) else { return Ok(()) };
        let timing = case.disk.access(head, Time(start), extent, direction);
        agrees(timing, &simulated)?;
        prop_assert!(start <= timing.arrived.get() && timing.arrived <= timing.transfer_start);
        prop_assert!(timing.transfer_start < timing.end);
        prop_assert_eq!(case.disk.access(head, Time(start), extent, direction), timing);
        let positioned = case.disk.positioning(head, Time(start), &case.disk.geometry().position_of(extent.start), direction);
        prop_assert_eq!(Time(start) + positioned, timing.transfer_start);
    }

    /// Back-to-back accesses end when a single access of their union does.
    #[test]
    fn contiguous_accesses_lose_no_revolution(
        parameters in any_parameters(), start in 0u64..20_000_000_000, step in 1u64..30, direction in any_direction(),
    ) {
        let case = parameters.case();
        let disk = &case.disk;
        let capacity = disk.geometry().capacity().get();
        let head = head_at(disk, 0.0);
        let (mut at, mut now, mut here) = (0, Time(start), head);
        while at < capacity {
            let len = step.min(capacity - at);
            let part = disk.access(here, now, PbaExtent::new(Pba(at), Sectors(len)), direction);
            prop_assert!(part.end > now);
            (at, now, here) = (at + len, part.end, part.head);
            let Some(whole) = case.simulate(head, start, PbaExtent::new(Pba(0), Sectors(at)), direction) else {
                return Ok(());
            };
            let far = (now.get() as f64 - whole.end).abs();
            prop_assert!(far < 6.0, "after {at} sectors in steps of {step}: {far} ns from the simulator");
            if at > 2_000 {
                break;
            }
        }
    }

    /// A zero-latency disk is never slower; if the head arrives inside the extent, it takes one revolution.
    #[test]
    fn zero_latency_takes_one_revolution_at_most(
        parameters in any_parameters(), to in 0.0..1.0f64, len in 1u32..40, start in 0u64..20_000_000_000,
        direction in any_direction(),
    ) {
        let in_order = parameters.case();
        let zero_latency = Parameters { zero_latency: true, ..parameters }.case();
        let first = extent_at(&in_order.disk, to, 0.0).start;
        let place = in_order.disk.geometry().position_of(first);
        let len = len.min(place.sectors_per_track - place.sector);
        let extent = PbaExtent::new(first, Sectors(len.into()));
        let head = Head { surface: place.surface, track: place.track };
        let slow = in_order.disk.access(head, Time(start), extent, direction);
        let fast = zero_latency.disk.access(head, Time(start), extent, direction);
        prop_assert!(fast.arrived <= fast.transfer_start && fast.transfer_start < fast.end);
        prop_assert!(fast.end <= slow.end && fast.transfer_start <= slow.transfer_start);
        let into = (start as f64 / in_order.revolution_ns - place.angle.as_revolutions()).rem_euclid(1.0);
        let width = f64::from(len) / f64::from(place.sectors_per_track);
        let sector_ns = in_order.revolution_ns / f64::from(place.sectors_per_track);
        if into * in_order.revolution_ns > UNCLEAR_NS && into < width - 1e-6 {
            // The sector under the head on arrival must come again; the model may transfer it in two parts.
            let revolution_and_rest = in_order.revolution_ns + (sector_ns - (into * in_order.revolution_ns) % sector_ns);
            let spent = (fast.end.get() - start) as f64;
            prop_assert!(spent > in_order.revolution_ns - 3.0 && spent < revolution_and_rest + 3.0, "{spent}");
        } else if into > width + 1e-6 {
            prop_assert_eq!(fast, slow);
        }
    }

    #[test]
    fn a_wait_ends_at_the_angle(
        revolution in 2_000_000.0..60_000_000.0f64, at in 0u64..1_000_000_000_000_000, angle in any::<u64>(),
    ) {
        let rotation = Rotation::new(revolution);
        let waited = rotation.wait_for(Angle(angle), Time(at));
        prop_assert!(waited.get() as f64 <= revolution + 1.0);
        let there = rotation.phase(Time(at) + waited);
        let off = (there.since(Angle(angle)).get() as i64).unsigned_abs() as f64 / 2f64.powi(64) * revolution;
        prop_assert!(off < 5.0, "{off} ns off after a wait of {waited}");
        // One revolution later the angle is there again, and just before it is not there yet.
        let revolution_later = rotation.phase(Time(at) + waited + rotation.revolution());
        let drift = (revolution_later.since(there).get() as i64).unsigned_abs() as f64 / 2f64.powi(64) * revolution;
        prop_assert!(drift < 1.0, "{drift} ns in a revolution");
        if waited.get() > 10 {
            let rest = rotation.wait_for(Angle(angle), Time(at) + Nanos(waited.get() - 10));
            prop_assert!((9..=11).contains(&rest.get()), "{rest} of 10 ns left");
        }
    }

    /// The rotational position is proportional to time: after whole revolutions, up to the duration of the
    /// longest command and rounded to a nanosecond, the platters are back at their start.
    #[test]
    fn whole_revolutions_return_to_the_start(revolution in 2_000_000.0..60_000_000.0f64, revolutions in 0u64..4_000) {
        let rotation = Rotation::new(revolution);
        let spent = rotation.time_for_revolutions(revolutions, Angle(0));
        prop_assert!((spent.get() as f64 - revolution * revolutions as f64).abs() < 2.0);
        let off = (rotation.phase(Time(spent.get())).get() as i64).unsigned_abs() as f64 / 2f64.powi(64);
        prop_assert!(off * revolution < 2.0, "{} ns off", off * revolution);
    }
}

#[test]
fn a_measured_seek_curve_is_exact_at_its_points_and_linear_between() {
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
    assert_eq!(SeekCurve::Points(vec![(5, 700)]).time(2), Nanos(700), "constant below the first point");
    let fitted = SeekCurve::Fitted { constant_ns: 100.0, root_ns: 30.0, linear_ns: 2.0 };
    assert_eq!((fitted.time(0), fitted.time(16)), (Nanos(0), Nanos(100 + 120 + 32)));
}

#[test]
fn a_seek_overlaps_with_a_head_switch_and_a_write_settles() {
    let parameters = Parameters {
        layout: Layout::Cylinder,
        zones: vec![(10, 8)],
        surfaces: 2,
        variation: None,
        revolution_ns: 8e6,
        seek_ns: [1_000, 100],
        head_switch_ns: 1_250,
        write_settle_ns: 7,
        spare_ns: [0; 3],
        zero_latency: false,
    };
    let disk = parameters.case().disk;
    let head = |surface, track| Head { surface, track };
    let ns = |to, direction| disk.move_time(head(0, 0), to, direction).get();
    assert_eq!(ns(head(0, 0), Direction::Write), 0);
    assert_eq!(ns(head(1, 0), Direction::Read), 1_250);
    assert_eq!(ns(head(0, 9), Direction::Read), 1_900);
    assert_eq!(ns(head(1, 2), Direction::Read), 1_250, "the switch takes longer");
    assert_eq!(ns(head(1, 9), Direction::Write), 1_907, "the seek takes longer");
}
