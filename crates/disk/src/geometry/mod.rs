//! Geometry: maps a physical block address to surface, track and angle, and back.
//!
//! A disk is a table of [`SegmentSpec`]s in PBA order. A segment is a run of tracks with the same number of
//! sectors. Addresses cover `group_tracks` tracks on one surface, then the same tracks on the next surface,
//! and after the last surface the next group. A group of one track gives the cylinder layout, a group of the
//! whole recording zone the surface layout, and a single surface a horizontal zone (Skylight, section 4.9). A
//! look-up takes one table access and arithmetic; nothing loops over sectors or tracks.
//!
//! Invariants: segments are contiguous in PBA; no two segments contain the same sector of the same track;
//! [`Geometry::visit_track`] finds every sector on the track that [`Geometry::position_of`] gives it.
//! Sources: layouts as classified by Krevat, Tucek and Ganger, "Disks are like snowflakes" (HotOS'11); skew
//! and slipped sectors as in DiskSim's layout module, checked against its output.

mod segment;

use crate::units::{Angle, Pba, Sectors};

pub(crate) use segment::{PassRemainder, Segment};

/// Specification of a segment; the module documentation describes the order of its tracks.
///
/// More than 15 fields: each is one independent property of the layout, and callers override them one by one.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentSpec {
    /// Sectors in the segment, or `None` for all sectors of its tracks from `first_sector` on.
    pub sectors: Option<Sectors>,
    /// Sectors on each track.
    pub sectors_per_track: u32,
    /// Where the address order starts: a radial position counted from the OD.
    pub first_track: u32,
    /// Tracks on each surface.
    pub tracks: u32,
    /// Whether addresses grow towards the ID.
    pub inward: bool,
    /// The lowest surface of the segment.
    pub first_surface: u16,
    /// Number of surfaces.
    pub surfaces: u16,
    /// Tracks on one surface before the addresses continue on the next.
    pub group_tracks: u32,
    /// Whether the first group uses the surfaces from the highest to the lowest.
    pub surfaces_descend: bool,
    /// Whether every other group uses the surfaces in the opposite order.
    pub surfaces_alternate: bool,
    /// Whether every other pass over a group runs in the opposite radial direction.
    pub passes_alternate: bool,
    /// The first sector used on the first track; the sectors before it are spares or defects.
    pub first_sector: u32,
    /// Angle from the end of one track of a pass to the start of the next.
    pub track_skew: Angle,
    /// The same for the next surface of a group.
    pub head_skew: Angle,
    /// The same for the next group.
    pub group_skew: Angle,
    /// Angle of sector 0 of the first track; `None` continues from the previous segment with its skew.
    pub start_angle: Option<Angle>,
}

/// Physical location of a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SectorPosition {
    /// The surface (head).
    pub surface: u16,
    /// The track: radial position counted from the OD.
    pub track: u32,
    /// The sector's number on its track.
    pub sector: u32,
    /// Sectors on that track.
    pub sectors_per_track: u32,
    /// Angle at which the sector starts.
    pub angle: Angle,
}

/// A track as one segment uses it: all of its sectors, or some.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Track {
    /// The surface (head).
    pub surface: u16,
    /// Radial position counted from the OD.
    pub track: u32,
    /// Sectors on the whole track.
    pub sectors_per_track: u32,
    /// Angle at which sector 0 starts, used or not.
    pub angle: Angle,
    /// The first sector that the segment uses.
    pub first_sector: u32,
    /// The first sector after those that the segment uses.
    pub end_sector: u32,
    /// Address of the first used sector.
    pub start: Pba,
    /// Whether the pass over this track runs towards the ID. A pass of a single track, such as a track of a
    /// cylinder, takes the direction of the segment.
    pub inward: bool,
    /// Whole tracks after this one in the same pass, each adjacent to its predecessor.
    pub tracks_ahead: u32,
}

impl Track {
    /// The first address after the track.
    #[inline]
    pub fn end(&self) -> Pba {
        self.start + Sectors((self.end_sector - self.first_sector).into())
    }
}

/// Why a table of segments does not describe a disk.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GeometryError {
    /// The table is empty.
    #[error("the geometry has no tracks")]
    Empty,
    /// A segment has a zero where a positive number is required.
    #[error("segment {segment} of the geometry has no tracks, surfaces or sectors")]
    ZeroSize {
        /// The number of the segment.
        segment: usize,
    },
    /// A segment claims more sectors than its tracks have, or extends past track 0.
    #[error("segment {segment} of the geometry needs more sectors than its tracks have")]
    TooLarge {
        /// The number of the segment.
        segment: usize,
    },
    /// Two segments share a track.
    #[error("two segments of the geometry claim track {track} of surface {surface}")]
    Overlap {
        /// The surface that both claim.
        surface: u16,
        /// The first track that both claim.
        track: u32,
    },
}

/// Where a segment starts on a surface. The first sector distinguishes pieces of one track (slipped sectors).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct TrackIndex {
    surface: u16,
    lowest_track: u32,
    first_sector: u32,
    segment: u32,
}

/// The tracks of a disk in PBA order.
#[derive(Clone, Debug)]
pub struct Geometry {
    segments: Vec<Segment>,
    /// The segment of the first sector of each run of 2^`hint_shift` sectors.
    hints: Vec<u32>,
    hint_shift: u32,
    /// The inverse look-up, sorted by track.
    by_track: Vec<TrackIndex>,
    tracks: u32,
    surfaces: u16,
}

impl Geometry {
    /// Builds the look-up tables from segments in PBA order.
    pub fn new(specs: &[SegmentSpec]) -> Result<Self, GeometryError> {
        let mut segments: Vec<Segment> = Vec::with_capacity(specs.len());
        for (number, spec) in specs.iter().enumerate() {
            let (start, angle) =
                segments.last().map_or((0, Angle(0)), |before| (before.end, angle_after(before, spec)));
            segments.push(Segment::new(spec, number, start, angle)?);
        }
        let capacity = segments.last().ok_or(GeometryError::Empty)?.end;
        let mut hint_shift = 0;
        while (capacity >> hint_shift) > 4 * segments.len() as u64 + 64 {
            hint_shift += 1;
        }
        let hints = (0..=(capacity >> hint_shift))
            .map(|bucket| segments.partition_point(|s| s.end <= bucket << hint_shift) as u32)
            .collect();
        let by_track = index_by_track(&segments)?;
        let tracks = segments.iter().map(|s| s.lowest_track() + s.tracks).max().unwrap_or(0);
        let surfaces = segments.iter().map(|s| s.first_surface + s.surfaces).max().unwrap_or(0);
        Ok(Self { segments, hints, hint_shift, by_track, tracks, surfaces })
    }

    /// Sectors on the disk.
    pub fn capacity(&self) -> Sectors {
        Sectors(self.segments.last().map_or(0, |s| s.end))
    }

    /// Tracks on a surface.
    pub fn tracks(&self) -> u32 {
        self.tracks
    }

    /// Surfaces of the disk.
    pub fn surfaces(&self) -> u16 {
        self.surfaces
    }

    #[inline]
    pub(crate) fn segment_index(&self, pba: Pba) -> usize {
        let mut index = self.hints[(pba.0 >> self.hint_shift) as usize] as usize;
        while self.segments[index].end <= pba.0 {
            index += 1;
        }
        index
    }

    pub(crate) fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Location of a sector.
    ///
    /// # Panics
    /// If `pba` is past the end of the disk: callers check their extents once, on arrival.
    #[inline]
    pub fn position_of(&self, pba: Pba) -> SectorPosition {
        self.segments[self.segment_index(pba)].position_of(pba).0
    }

    /// The location, the segment, and the rest of the pass, which a transfer needs.
    #[inline(always)]
    pub(crate) fn position_in_segment(&self, pba: Pba) -> (SectorPosition, usize, PassRemainder) {
        let index = self.segment_index(pba);
        let (position, remainder) = self.segments[index].position_of(pba);
        (position, index, remainder)
    }

    /// Sectors on the track that contains a sector.
    ///
    /// # Panics
    /// If `pba` is past the end of the disk.
    #[inline]
    pub fn sectors_per_track(&self, pba: Pba) -> u32 {
        self.segments[self.segment_index(pba)].sectors_per_track
    }

    /// Whether the tracks of two sectors have the same number of sectors.
    ///
    /// # Panics
    /// If either is past the end of the disk.
    #[inline]
    pub fn are_alike(&self, one: Pba, other: Pba) -> bool {
        let segment = &self.segments[self.segment_index(one)];
        let same = segment.start <= other.0 && other.0 < segment.end;
        same || segment.sectors_per_track == self.sectors_per_track(other)
    }

    /// The track that contains a sector.
    ///
    /// # Panics
    /// If `pba` is past the end of the disk.
    #[inline]
    pub fn track_of(&self, pba: Pba) -> Track {
        let segment = &self.segments[self.segment_index(pba)];
        segment.track(segment.ordinal(pba).0)
    }

    /// The first address after the track that contains a sector.
    ///
    /// # Panics
    /// If `pba` is past the end of the disk.
    #[inline]
    pub fn track_end(&self, pba: Pba) -> Pba {
        let segment = &self.segments[self.segment_index(pba)];
        let (_, sector) = segment.ordinal(pba);
        Pba((pba.0 + (u64::from(segment.sectors_per_track) - sector)).min(segment.end))
    }

    /// Visits the used pieces of a track: none if no segment covers it, several if segments share it.
    pub fn visit_track(&self, surface: u16, track: u32, visit: &mut impl FnMut(Track)) {
        let after = self.by_track.partition_point(|i| (i.surface, i.lowest_track) <= (surface, track));
        for found in self.by_track[..after].iter().rev() {
            let segment = &self.segments[found.segment as usize];
            if found.surface != surface || track >= found.lowest_track + segment.tracks {
                return;
            }
            let piece = segment.track(segment.ordinal_of(surface, track));
            if piece.first_sector < piece.end_sector {
                visit(piece);
            }
            if found.lowest_track != track {
                return;
            }
        }
    }
}

/// Start angle of the next segment if it follows `before` as its next track would.
fn angle_after(before: &Segment, next: &SegmentSpec) -> Angle {
    let (last, _) = before.position_of(Pba(before.end - 1));
    let descended = if next.surfaces_descend { next.surfaces.saturating_sub(1) } else { 0 };
    let shared = next.first_surface + descended == last.surface;
    let skew = if shared { before.track_skew } else { before.head_skew };
    let track_start =
        Angle(last.angle.0.wrapping_sub(before.sector_width.0.wrapping_mul(last.sector.into())));
    track_start.advanced(skew)
}

fn index_by_track(segments: &[Segment]) -> Result<Vec<TrackIndex>, GeometryError> {
    let mut index: Vec<TrackIndex> = Vec::new();
    for (number, segment) in segments.iter().enumerate() {
        let first_sector =
            if segment.tracks == 1 && segment.surfaces == 1 { segment.first_sector as u32 } else { 0 };
        for surface in segment.first_surface..segment.first_surface + segment.surfaces {
            let (lowest_track, segment) = (segment.lowest_track(), number as u32);
            index.push(TrackIndex { surface, lowest_track, first_sector, segment });
        }
    }
    index.sort_unstable();
    for pair in index.windows(2) {
        let (this, next) = (pair[0], pair[1]);
        let segment = &segments[this.segment as usize];
        let shares_track = next.lowest_track < this.lowest_track + segment.tracks;
        if this.surface == next.surface && shares_track && !pieces_of_a_track(segments, this, next) {
            return Err(GeometryError::Overlap { surface: next.surface, track: next.lowest_track });
        }
    }
    Ok(index)
}

/// Whether two segments are single tracks that use different sectors of the same track.
fn pieces_of_a_track(segments: &[Segment], this: TrackIndex, next: TrackIndex) -> bool {
    let (first, second) = (&segments[this.segment as usize], &segments[next.segment as usize]);
    let used = u64::from(this.first_sector) + first.end - first.start;
    let single = first.tracks == 1 && second.tracks == 1 && first.surfaces == 1 && second.surfaces == 1;
    single && used <= next.first_sector.into()
}
