//! Layouts: how the common kinds of disk walk their tracks, as segments for [`Geometry`].
//!
//! Recording zones are given from the OD to the ID, each with the tracks of one surface; the layout says
//! in what order surfaces and tracks are used. Skews are angles, since that is what is recorded on disk.
//!
//! Horizontal zones have options of their own ([`HorizontalZone`]): a zone may be walked outwards, as shingles
//! that lie towards the MD from both sides need it, or as a serpentine; and surfaces may differ in density, which
//! shows as plateaus in the speed of a sequential read.
//!
//! Invariant: every track of a zone is in exactly one segment.
//!
//! [`Geometry`]: crate::geometry::Geometry
//! Sources: Krevat, Tucek and Ganger (HotOS'11) for the serpentines; Skylight, section 4.9, for horizontal zones.

use crate::geometry::SegmentSpec;
use crate::units::{Angle, BLOCK_SECTORS};

/// In what order a disk uses its tracks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// All surfaces of a cylinder, always from the first to the last.
    Cylinder,
    /// All surfaces of a cylinder, forwards and backwards in turn.
    CylinderSerpentine,
    /// A whole recording zone on one surface, back on the next.
    SurfaceSerpentine,
    /// A group of tracks on one surface, back on the next; after the last surface the next group.
    HybridSerpentine {
        /// Tracks in a group.
        group_tracks: u32,
    },
    /// A whole recording zone on one surface, then jump back and the same on the next; the next zone
    /// takes the surfaces in the opposite order.
    HorizontalZones,
}

/// Tracks with one number of sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordingZone {
    /// Tracks on each surface.
    pub tracks: u32,
    /// Sectors on each track.
    pub sectors_per_track: u32,
}

/// How much later the next track starts, by the kind of step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skews {
    /// To the next track on the surface.
    pub track: Angle,
    /// To another surface.
    pub head: Angle,
    /// To the next group of a hybrid serpentine, which is a jump of a whole group where the number of
    /// surfaces is even.
    pub group: Angle,
}

/// How a zone of a layout of horizontal zones is walked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// A stroke from the outer to the inner edge on each surface.
    Inward,
    /// A stroke from the inner to the outer edge on each surface.
    Outward,
    /// Groups of tracks, back and forth over the surfaces.
    Serpentine {
        /// Tracks in a group.
        group_tracks: u32,
        /// Skew to the next group.
        group_skew: Angle,
    },
}

/// A zone of a layout of horizontal zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HorizontalZone {
    /// Its tracks.
    pub zone: RecordingZone,
    /// Their order.
    pub walk: Walk,
}

/// A zone walked over all surfaces, track by track; layouts change what they do otherwise.
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
        strokes_alternate: false,
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
            // From the last surface of a cylinder to the first of the next: another head, another track.
            Layout::Cylinder if surfaces > 1 => {
                SegmentSpec { group_skew: skews.track.max(skews.head), ..whole }
            }
            Layout::Cylinder | Layout::HorizontalZones => whole,
            Layout::CylinderSerpentine => SegmentSpec { surfaces_alternate: true, ..whole },
            Layout::SurfaceSerpentine => SegmentSpec {
                group_tracks: zone.tracks,
                surfaces_descend: number % 2 == 1,
                strokes_alternate: true,
                ..whole
            },
            Layout::HybridSerpentine { group_tracks } => serpentine(whole, group_tracks, skews.group),
        });
        first_track += zone.tracks;
    }
    specs
}

/// The segments of a layout of horizontal zones. `density` has the sectors a track of each surface as parts of
/// what its zone says, rounded to whole blocks, and is empty where surfaces are alike; a serpentine goes over
/// surfaces of one density. Zones of strokes take the surfaces in one order and in the other in turn.
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

/// The nearest whole number of blocks, in sectors, and not none.
fn whole_blocks(sectors: f64) -> u32 {
    let block = BLOCK_SECTORS as f64;
    ((sectors / block).round().max(1.0) * block) as u32
}

/// A zone as a hybrid serpentine.
fn serpentine(whole: SegmentSpec, group_tracks: u32, group_skew: Angle) -> SegmentSpec {
    SegmentSpec { group_tracks, surfaces_alternate: true, strokes_alternate: true, group_skew, ..whole }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::geometry::Geometry;
    use crate::units::Pba;

    const ZONE: RecordingZone = RecordingZone { tracks: 5, sectors_per_track: 800 };

    /// Surface, track and sectors of each track in the order of addresses.
    fn walk(zones: &[HorizontalZone], density: &[f64]) -> Vec<(u16, u32, u32)> {
        let specs = horizontal_segments(zones, density, 2, Skews::default());
        let geometry = Geometry::new(&specs).unwrap_or_else(|error| panic!("{error}"));
        let mut walk = Vec::new();
        let mut at = 0;
        while at < geometry.capacity().get() {
            let place = geometry.place(Pba(at));
            assert_eq!(geometry.pba_of(place.surface, place.track, 0), Some(Pba(at)));
            walk.push((place.surface, place.track, place.sectors_per_track));
            at += u64::from(place.sectors_per_track);
        }
        walk
    }

    fn tracks(walk: &[(u16, u32, u32)]) -> Vec<(u16, u32)> {
        walk.iter().map(|&(surface, track, _)| (surface, track)).collect()
    }

    #[test]
    fn strokes_go_towards_the_middle_and_surfaces_down_and_up() {
        let zones = [Walk::Inward, Walk::Outward].map(|walk| HorizontalZone { zone: ZONE, walk });
        let down = [0, 1].into_iter().flat_map(|surface| (0..5).map(move |track| (surface, track)));
        let up = [1, 0].into_iter().flat_map(|surface| (5..10).rev().map(move |track| (surface, track)));
        assert_eq!(tracks(&walk(&zones, &[])), down.chain(up).collect::<Vec<_>>());
    }

    #[test]
    fn surfaces_differ_in_density_but_in_a_serpentine() {
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
        assert_eq!(walk[20].0, 1, "the serpentine does not change whose turn it is");
    }
}
