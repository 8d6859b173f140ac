//! Layouts: the track orders of common kinds of disk, as segments for [`Geometry`].
//!
//! Recording zones are given from the OD to the ID, each with the tracks of one surface; the layout defines
//! the order of surfaces and tracks. Skews are angles, because that is how a disk records them.
//!
//! Horizontal zones have options of their own ([`HorizontalZone`]). A zone may run outwards, as a drive needs
//! whose shingles overlap towards the MD from both sides, or as a serpentine. Surfaces may differ in density,
//! which appears as plateaus in the speed of a sequential read.
//!
//! Invariant: every track of a zone is in exactly one segment.
//!
//! [`Geometry`]: crate::geometry::Geometry
//! Sources: Krevat, Tucek and Ganger (HotOS'11) for the serpentines; Skylight, section 4.9, for horizontal
//! zones.

use crate::geometry::SegmentSpec;
use crate::units::{Angle, BLOCK_SECTORS};

/// The order in which a disk uses its tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All surfaces of a cylinder, always from the first to the last.
    Cylinder,
    /// All surfaces of a cylinder, in alternating directions.
    CylinderSerpentine,
    /// A whole recording zone on one surface, then back on the next surface.
    SurfaceSerpentine,
    /// A group of tracks on one surface, then back on the next; after the last surface the next group.
    HybridSerpentine {
        /// Tracks in a group.
        group_tracks: u32,
    },
    /// A whole recording zone on one surface, then from the start of the zone on the next; the next zone uses
    /// the surfaces in the opposite order.
    HorizontalZones,
}

/// Tracks with the same number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingZone {
    /// Tracks on each surface.
    pub tracks: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
}

/// How much later the next track starts, by kind of step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skews {
    /// To the next track on the surface.
    pub track: Angle,
    /// To another surface.
    pub head: Angle,
    /// To the next group of a hybrid serpentine. With an even number of surfaces this step spans a whole
    /// group.
    pub group: Angle,
}

/// The order of the tracks in a horizontal zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// One pass from the outer to the inner edge on each surface.
    Inward,
    /// One pass from the inner to the outer edge on each surface.
    Outward,
    /// Groups of tracks, back and forth over the surfaces.
    Serpentine {
        /// Tracks in a group.
        group_tracks: u32,
        /// Skew to the next group.
        group_skew: Angle,
    },
}

/// One zone of a horizontal-zones layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HorizontalZone {
    /// Its tracks.
    pub zone: RecordingZone,
    /// Their order.
    pub walk: Walk,
}

/// A zone that uses all surfaces, track by track; layouts override what they do differently.
fn plain(zone: RecordingZone, first_track: u32, surfaces: u16, skews: Skews) -> SegmentSpec {
    SegmentSpec {
        sectors: None,
        sectors_per_track: zone.sectors_per_track,
        first_track,
        tracks: zone.tracks,
        inward: true,
        first_surface: 0,
        surfaces,
        group_tracks: 1,
        surfaces_descend: false,
        surfaces_alternate: false,
        passes_alternate: false,
        first_sector: 0,
        track_skew: skews.track,
        head_skew: skews.head,
        group_skew: skews.track,
        start_angle: None,
    }
}

/// The segments of a disk of `surfaces` surfaces, in PBA order.
pub fn segments(layout: Layout, zones: &[RecordingZone], surfaces: u16, skews: Skews) -> Vec<SegmentSpec> {
    if layout == Layout::HorizontalZones {
        let zones: Vec<_> = zones.iter().map(|&zone| HorizontalZone { zone, walk: Walk::Inward }).collect();
        return horizontal_segments(&zones, &[], surfaces, skews);
    }
    let mut specs = Vec::new();
    let mut first_track = 0;
    for (number, &zone) in zones.iter().enumerate() {
        let whole = plain(zone, first_track, surfaces, skews);
        specs.push(match layout {
            // From the last surface of a cylinder to the first of the next: both the head and the track
            // change.
            Layout::Cylinder if surfaces > 1 => {
                SegmentSpec { group_skew: skews.track.max(skews.head), ..whole }
            }
            Layout::Cylinder | Layout::HorizontalZones => whole,
            Layout::CylinderSerpentine => SegmentSpec { surfaces_alternate: true, ..whole },
            Layout::SurfaceSerpentine => SegmentSpec {
                group_tracks: zone.tracks,
                surfaces_descend: number % 2 == 1,
                passes_alternate: true,
                ..whole
            },
            Layout::HybridSerpentine { group_tracks } => serpentine(whole, group_tracks, skews.group),
        });
        first_track += zone.tracks;
    }
    specs
}

/// The segments of a horizontal-zones layout. `density` scales the sectors per track of each surface, rounded
/// to whole blocks; it is empty if all surfaces are alike. A serpentine zone ignores it. Other zones
/// alternate the order of the surfaces.
pub fn horizontal_segments(
    zones: &[HorizontalZone],
    density: &[f64],
    surfaces: u16,
    skews: Skews,
) -> Vec<SegmentSpec> {
    let mut specs = Vec::new();
    let mut first_track = 0;
    let mut back = false;
    for &HorizontalZone { zone, walk } in zones {
        let whole = plain(zone, first_track, surfaces, skews);
        first_track += zone.tracks;
        if let Walk::Serpentine { group_tracks, group_skew } = walk {
            specs.push(serpentine(whole, group_tracks, group_skew));
            continue;
        }
        specs.extend((0..surfaces).map(|pass| {
            let surface = if back { surfaces - 1 - pass } else { pass };
            let sectors_per_track = match density.get(usize::from(surface)) {
                Some(part) => whole_blocks(f64::from(zone.sectors_per_track) * part),
                None => zone.sectors_per_track,
            };
            let outward = walk == Walk::Outward;
            SegmentSpec {
                sectors_per_track,
                first_track: if outward { first_track.saturating_sub(1) } else { whole.first_track },
                inward: !outward,
                group_tracks: zone.tracks,
                first_surface: surface,
                surfaces: 1,
                ..whole.clone()
            }
        }));
        back = !back;
    }
    specs
}

/// The nearest whole number of blocks, at least one, in sectors.
fn whole_blocks(sectors: f64) -> u32 {
    let block = BLOCK_SECTORS as f64;
    ((sectors / block).round().max(1.0) * block) as u32
}

/// A zone as a hybrid serpentine.
fn serpentine(whole: SegmentSpec, group_tracks: u32, group_skew: Angle) -> SegmentSpec {
    SegmentSpec { group_tracks, surfaces_alternate: true, passes_alternate: true, group_skew, ..whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::units::Pba;

    const ZONE: RecordingZone = RecordingZone { tracks: 5, sectors_per_track: 800 };

    /// Surface, track and sectors per track of each track in address order.
    fn walk(zones: &[HorizontalZone], density: &[f64]) -> Vec<(u16, u32, u32)> {
        let specs = horizontal_segments(zones, density, 2, Skews::default());
        let geometry = Geometry::new(&specs).unwrap_or_else(|error| panic!("{error}"));
        let mut walk = Vec::new();
        let mut at = 0;
        while at < geometry.capacity().get() {
            let position = geometry.position_of(Pba(at));
            let mut starts = Vec::new();
            geometry.visit_track(position.surface, position.track, &mut |track| starts.push(track.start));
            assert_eq!(starts, [Pba(at)]);
            walk.push((position.surface, position.track, position.sectors_per_track));
            at += u64::from(position.sectors_per_track);
        }
        walk
    }

    fn tracks(walk: &[(u16, u32, u32)]) -> Vec<(u16, u32)> {
        walk.iter().map(|&(surface, track, _)| (surface, track)).collect()
    }

    #[test]
    fn passes_run_towards_the_middle_and_the_surface_order_alternates() {
        let zones = [Walk::Inward, Walk::Outward].map(|walk| HorizontalZone { zone: ZONE, walk });
        let down = [0, 1].into_iter().flat_map(|surface| (0..5).map(move |track| (surface, track)));
        let up = [1, 0].into_iter().flat_map(|surface| (5..10).rev().map(move |track| (surface, track)));
        assert_eq!(tracks(&walk(&zones, &[])), down.chain(up).collect::<Vec<_>>());
    }

    #[test]
    fn surfaces_differ_in_density_except_in_a_serpentine() {
        let serpentine = Walk::Serpentine { group_tracks: 3, group_skew: Angle(0) };
        let zones = [Walk::Inward, serpentine, Walk::Inward].map(|walk| HorizontalZone { zone: ZONE, walk });
        let walk = walk(&zones, &[1.0, 0.951]);
        let sectors = |tracks: std::ops::Range<u32>, on: u16| {
            let found = walk.iter().filter(|(surface, track, _)| *surface == on && tracks.contains(track));
            let mut sectors: Vec<u32> = found.map(|(_, _, sectors)| *sectors).collect();
            assert_eq!(sectors.len(), 5);
            sectors.dedup();
            sectors
        };
        // 0.951 of 800 is 760.8: the nearest whole blocks are 760 sectors.
        assert_eq!((sectors(0..5, 0), sectors(0..5, 1)), (vec![800], vec![760]));
        assert_eq!((sectors(5..10, 0), sectors(5..10, 1)), (vec![800], vec![800]));
        assert_eq!(tracks(&walk[10..16]), [(0, 5), (0, 6), (0, 7), (1, 7), (1, 6), (1, 5)]);
        assert_eq!(walk[20].0, 1, "the serpentine does not change the surface order");
    }
}
