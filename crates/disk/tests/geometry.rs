//! Geometry against a generator that visits every track and sector in nested loops.
//!
//! Disks are small and irregular: all layouts, explicit segments that begin or end in the middle of a track,
//! groups that do not divide the tracks, outward passes, segments that use part of their tracks, several
//! pieces of one track.

use std::collections::HashMap;

use proptest::prelude::*;
use skylight_disk::layout::segments;
use skylight_disk::{
    Angle, Geometry, GeometryError, Layout, Pba, RecordingZone, SectorPosition, Sectors, SegmentSpec, Skews,
};

/// One sector in address order, from the nested loops.
#[derive(Clone, Copy, Debug)]
struct Naive {
    surface: u16,
    track: u32,
    sector: u32,
    sectors_per_track: u32,
    /// Revolutions * 2^64, wrapped.
    angle: u64,
}

/// The step that leads to a track.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Start,
    Track,
    Head,
    Group,
}

/// The tracks of a segment in address order.
fn walk(spec: &SegmentSpec) -> Vec<(u16, u32, Step)> {
    let mut tracks = Vec::new();
    // One surface is a single group: after the last track of a group comes the next track anyway.
    let group_tracks = if spec.surfaces == 1 { spec.tracks } else { spec.group_tracks };
    let radii: Vec<u32> = (0..spec.tracks).collect();
    for (group, radii) in radii.chunks(group_tracks as usize).enumerate() {
        let mut surfaces: Vec<u16> = (spec.first_surface..spec.first_surface + spec.surfaces).collect();
        if spec.surfaces_descend != (spec.surfaces_alternate && group % 2 == 1) {
            surfaces.reverse();
        }
        for (pass, &surface) in surfaces.iter().enumerate() {
            let mut radii = radii.to_vec();
            if spec.passes_alternate && pass % 2 == 1 {
                radii.reverse();
            }
            for (position, radius) in radii.into_iter().enumerate() {
                let step = match (position, pass, group) {
                    (0, 0, 0) => Step::Start,
                    (0, 0, _) => Step::Group,
                    (0, _, _) => Step::Head,
                    _ => Step::Track,
                };
                let track = if spec.inward { spec.first_track + radius } else { spec.first_track - radius };
                tracks.push((surface, track, step));
            }
        }
    }
    tracks
}

/// All sectors of a disk in address order.
fn naive_disk(specs: &[SegmentSpec]) -> Vec<Naive> {
    let mut sectors: Vec<Naive> = Vec::new();
    let mut last_track: Option<(u16, u64, &SegmentSpec)> = None;
    for spec in specs {
        let mut left = spec.sectors.map_or(u64::MAX, Sectors::get);
        let mut start = 0u64;
        for (surface, track, step) in walk(spec) {
            if left == 0 {
                break;
            }
            start = match (step, last_track, spec.start_angle) {
                (Step::Start, _, Some(angle)) => angle.get(),
                (Step::Start, None, None) => 0,
                (Step::Start, Some((from, angle, before)), None) => angle
                    .wrapping_add(if from == surface { before.track_skew } else { before.head_skew }.get()),
                (Step::Track, ..) => start.wrapping_add(spec.track_skew.get()),
                (Step::Head, ..) => start.wrapping_add(spec.head_skew.get()),
                (Step::Group, ..) => start.wrapping_add(spec.group_skew.get()),
            };
            last_track = Some((surface, start, spec));
            let first = if step == Step::Start { spec.first_sector } else { 0 };
            for sector in first..spec.sectors_per_track {
                if left == 0 {
                    break;
                }
                left -= 1;
                let into = (u128::from(sector) << 64) / u128::from(spec.sectors_per_track);
                let angle = start.wrapping_add(into as u64);
                let sectors_per_track = spec.sectors_per_track;
                sectors.push(Naive { surface, track, sector, sectors_per_track, angle });
            }
        }
    }
    sectors
}

/// Checks every address of a disk, and every sector without an address.
fn check(specs: &[SegmentSpec]) -> Result<(), TestCaseError> {
    let geometry = Geometry::new(specs).map_err(|error| TestCaseError::fail(error.to_string()))?;
    let sectors = naive_disk(specs);
    prop_assert_eq!(geometry.capacity(), Sectors(sectors.len() as u64));
    let mut used: HashMap<(u16, u32, u32), u64> = HashMap::new();
    for (pba, naive) in sectors.iter().enumerate() {
        let pba = pba as u64;
        let SectorPosition { surface, track, sector, sectors_per_track, angle } =
            geometry.position_of(Pba(pba));
        prop_assert_eq!(
            (surface, track, sector, sectors_per_track),
            (naive.surface, naive.track, naive.sector, naive.sectors_per_track),
            "location of {}",
            pba
        );
        // A sector's width is rounded down, so the start of sector n may be up to n units short.
        let short = naive.angle.wrapping_sub(angle.get());
        prop_assert!(short <= u64::from(sector) + 1, "angle of {pba} is {short} of 2^64 short");
        prop_assert_eq!(used.insert((surface, track, sector), pba), None, "{} is used twice", pba);
    }
    let widest = specs.iter().map(|s| s.sectors_per_track).max().unwrap_or(0);
    for surface in 0..=geometry.surfaces() {
        for track in 0..=geometry.tracks() {
            for sector in 0..=widest {
                let expected = used.get(&(surface, track, sector)).map(|&pba| Pba(pba));
                let found = pba_of(&geometry, surface, track, sector);
                prop_assert_eq!(found, expected, "surface {}, track {}, sector {}", surface, track, sector);
            }
        }
    }
    Ok(())
}

/// The address of a sector of a track, or `None` if no segment covers it.
fn pba_of(geometry: &Geometry, surface: u16, track: u32, sector: u32) -> Option<Pba> {
    let mut found = None;
    geometry.visit_track(surface, track, &mut |piece| {
        if (piece.first_sector..piece.end_sector).contains(&sector) {
            found = Some(piece.start + Sectors((sector - piece.first_sector).into()));
        }
    });
    found
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

fn any_zones() -> impl Strategy<Value = Vec<RecordingZone>> {
    let zone = (1u32..12, 1u32..20)
        .prop_map(|(tracks, sectors_per_track)| RecordingZone { tracks, sectors_per_track });
    prop::collection::vec(zone, 1..5)
}

fn any_skews() -> impl Strategy<Value = Skews> {
    (any::<u64>(), any::<u64>(), any::<u64>()).prop_map(|(track, head, group)| Skews {
        track: Angle(track),
        head: Angle(head),
        group: Angle(group),
    })
}

/// An explicit segment without its position; fractions select among the possible values.
#[derive(Clone, Debug)]
struct Shape {
    tracks: u32,
    sectors_per_track: u32,
    group_tracks: u32,
    flags: [bool; 4],
    skews: Skews,
    start_angle: Option<u64>,
    first_sector: u32,
    part: Option<f64>,
    /// One segment for all surfaces, one per surface, or pieces of single tracks.
    kind: u8,
}

fn any_shape() -> impl Strategy<Value = Shape> {
    let part = prop::option::of(0.0..1.0f64);
    let numbers = (1u32..9, 1u32..14, 1u32..7, 0u32..14, 0u8..4);
    (numbers, any::<[bool; 4]>(), any_skews(), prop::option::of(any::<u64>()), part).prop_map(
        |((tracks, sectors_per_track, group_tracks, first, kind), flags, skews, start_angle, part)| Shape {
            tracks,
            sectors_per_track,
            group_tracks,
            flags,
            skews,
            start_angle,
            first_sector: first % sectors_per_track,
            part,
            kind,
        },
    )
}

fn spec(shape: &Shape, lowest_track: u32, first_surface: u16, surfaces: u16) -> SegmentSpec {
    let [inward, surfaces_descend, surfaces_alternate, passes_alternate] = shape.flags;
    let available = u64::from(shape.tracks) * u64::from(surfaces) * u64::from(shape.sectors_per_track);
    let available = available - u64::from(shape.first_sector);
    SegmentSpec {
        sectors: shape.part.map(|part| Sectors(((available as f64 * part) as u64).max(1))),
        sectors_per_track: shape.sectors_per_track,
        first_track: if inward { lowest_track } else { lowest_track + shape.tracks - 1 },
        tracks: shape.tracks,
        inward,
        first_surface,
        surfaces,
        group_tracks: shape.group_tracks,
        surfaces_descend,
        surfaces_alternate,
        passes_alternate,
        first_sector: shape.first_sector,
        track_skew: shape.skews.track,
        head_skew: shape.skews.head,
        group_skew: shape.skews.group,
        start_angle: shape.start_angle.map(Angle),
    }
}

/// Two pieces of the track on each surface, with a spare sector between them if possible.
fn pieces(shape: &Shape, track: u32, surface: u16) -> Vec<SegmentSpec> {
    let whole = spec(&Shape { tracks: 1, part: None, first_sector: 0, ..shape.clone() }, track, surface, 1);
    let cut = shape.sectors_per_track / 2;
    let first = SegmentSpec { sectors: Some(Sectors(cut.into())), ..whole.clone() };
    let second = SegmentSpec { first_sector: (cut + 1).min(shape.sectors_per_track - 1), ..whole };
    if cut == 0 { vec![second] } else { vec![first, second] }
}

/// Adjacent segments from the OD to the ID, in random address order.
fn any_specs() -> impl Strategy<Value = Vec<SegmentSpec>> {
    let specs = (prop::collection::vec(any_shape(), 1..5), 1u16..5).prop_map(|(shapes, surfaces)| {
        let (mut specs, mut track) = (Vec::new(), 0);
        for shape in &shapes {
            match shape.kind {
                0 | 1 => specs.push(spec(shape, track, 0, surfaces)),
                2 => specs.extend((0..surfaces).map(|surface| spec(shape, track, surface, 1))),
                _ => specs.extend((0..surfaces).flat_map(|surface| pieces(shape, track, surface))),
            }
            track += shape.tracks;
        }
        specs
    });
    specs.prop_shuffle()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layouts_agree_with_nested_loops(
        layout in any_layout(), zones in any_zones(), surfaces in 1u16..6, skews in any_skews(),
    ) {
        check(&segments(layout, &zones, surfaces, skews))?;
    }

    #[test]
    fn explicit_segments_agree_with_nested_loops(specs in any_specs()) {
        check(&specs)?;
    }

    /// Disks of realistic size, at random addresses and next to their ends.
    #[test]
    fn large_disks_map_addresses_back(
        layout in any_layout(),
        (tracks, group) in (1_000u32..400_000, 1u32..5_000),
        (spt, zones, surfaces) in (500u32..6_000, 1u32..30, 1u16..20),
        at in prop::collection::vec(0.0..1.0f64, 50),
    ) {
        let layout = match layout {
            Layout::HybridSerpentine { .. } => Layout::HybridSerpentine { group_tracks: group },
            other => other,
        };
        let zones: Vec<RecordingZone> = (0..zones)
            .map(|z| RecordingZone { tracks: tracks / zones + z, sectors_per_track: spt - z * 7 })
            .collect();
        let geometry = Geometry::new(&segments(layout, &zones, surfaces, Skews::default())).unwrap();
        let sectors: u64 =
            zones.iter().map(|z| u64::from(z.tracks) * u64::from(z.sectors_per_track)).sum();
        prop_assert_eq!(geometry.capacity().get(), sectors * u64::from(surfaces));
        let last = geometry.capacity().get() - 1;
        let near_ends = [0, 1, last / 2, last - 1, last].into_iter();
        for pba in at.into_iter().map(|part| (last as f64 * part) as u64).chain(near_ends) {
            let SectorPosition { surface, track, sector, .. } = geometry.position_of(Pba(pba));
            prop_assert_eq!(pba_of(&geometry, surface, track, sector), Some(Pba(pba)));
        }
    }
}

fn plain(lowest_track: u32, tracks: u32) -> SegmentSpec {
    let [zone] = [RecordingZone { tracks, sectors_per_track: 10 }];
    let spec = segments(Layout::Cylinder, &[zone], 2, Skews::default()).remove(0);
    SegmentSpec { first_track: lowest_track, ..spec }
}

#[test]
fn a_table_that_describes_no_disk_is_rejected() {
    let rejected = |specs: &[SegmentSpec]| Geometry::new(specs).expect_err("invalid table");
    assert_eq!(rejected(&[]), GeometryError::Empty);
    let good = plain(0, 4);
    for zero in [
        SegmentSpec { sectors_per_track: 0, ..good.clone() },
        SegmentSpec { tracks: 0, ..good.clone() },
        SegmentSpec { surfaces: 0, ..good.clone() },
        SegmentSpec { group_tracks: 0, ..good.clone() },
        SegmentSpec { sectors: Some(Sectors(0)), ..good.clone() },
    ] {
        let second = SegmentSpec { first_track: 9, ..zero };
        assert_eq!(rejected(&[good.clone(), second]), GeometryError::ZeroSize { segment: 1 });
    }
    for large in [
        SegmentSpec { sectors: Some(Sectors(81)), ..good.clone() },
        SegmentSpec { sectors: Some(Sectors(71)), first_sector: 10, ..good.clone() },
        SegmentSpec { first_sector: 10, ..good.clone() },
        SegmentSpec { inward: false, first_track: 2, ..good.clone() },
    ] {
        assert_eq!(rejected(&[large]), GeometryError::TooLarge { segment: 0 });
    }
    assert_eq!(rejected(&[good, plain(3, 2)]), GeometryError::Overlap { surface: 0, track: 3 });
    let text = GeometryError::Overlap { surface: 0, track: 3 }.to_string();
    assert_eq!(text, "two segments of the geometry claim track 3 of surface 0");
}
