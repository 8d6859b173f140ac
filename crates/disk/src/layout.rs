//! Layouts: how the common kinds of disk walk their tracks, as segments for [`Geometry`].
//!
//! Recording zones are given from the OD to the ID, each with the tracks of one surface; the layout says
//! in what order surfaces and tracks are used. Skews are angles, since that is what is recorded on disk.
//!
//! [`Geometry`]: crate::geometry::Geometry
//! Sources: Krevat, Tucek and Ganger (HotOS'11) for the serpentines; Skylight, section 4.9, for horizontal zones.

use crate::geometry::SegmentSpec;
use crate::units::Angle;

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

/// The segments of a disk of `surfaces` surfaces, in PBA order.
pub fn segments(layout: Layout, zones: &[RecordingZone], surfaces: u16, skews: Skews) -> Vec<SegmentSpec> {
    let mut specs = Vec::new();
    let mut first_track = 0;
    for (number, zone) in zones.iter().enumerate() {
        let odd = number % 2 == 1;
        let whole = SegmentSpec {
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
        };
        match layout {
            Layout::Cylinder => specs.push(whole),
            Layout::CylinderSerpentine => {
                specs.push(SegmentSpec { surfaces_alternate: true, ..whole });
            }
            Layout::SurfaceSerpentine => specs.push(SegmentSpec {
                group_tracks: zone.tracks,
                surfaces_descend: odd,
                strokes_alternate: true,
                ..whole
            }),
            Layout::HybridSerpentine { group_tracks } => specs.push(SegmentSpec {
                group_tracks,
                surfaces_alternate: true,
                strokes_alternate: true,
                group_skew: skews.group,
                ..whole
            }),
            Layout::HorizontalZones => specs.extend((0..surfaces).map(|pass| SegmentSpec {
                group_tracks: zone.tracks,
                first_surface: if odd { surfaces - 1 - pass } else { pass },
                surfaces: 1,
                ..whole.clone()
            })),
        }
        first_track += zone.tracks;
    }
    specs
}
