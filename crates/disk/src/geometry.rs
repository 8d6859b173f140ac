//! Geometry: from a physical block address to surface, track and angle, and back.
//!
//! A disk is a table of [`SegmentSpec`]s in PBA order. A segment is a run of tracks with one number of
//! sectors, walked in one of the known orders: `group_tracks` tracks on one surface, the same tracks on
//! the next surface, and after the last surface the next group. With a group of one track that is the
//! cylinder layout, with a group of the whole recording zone the surface layout, and with one surface a
//! horizontal zone (Skylight, section 4.9). A look-up is a table look-up and arithmetic; nothing loops
//! over sectors or tracks.
//!
//! Invariants: segments follow each other without a gap in PBA; no two segments hold the same sector of
//! the same track; [`Geometry::pba_of`] is the inverse of [`Geometry::place`].
//! Sources: layouts as classified by Krevat, Tucek and Ganger, "Disks are like snowflakes" (HotOS'11);
//! skew and slipped sectors as in DiskSim's layout module, checked on its output.

use crate::divisor::Divisor;
use crate::units::{Angle, Pba, Sectors};

/// What a segment of the disk looks like; see the module page for the order of its tracks.
#[derive(Clone, Debug, PartialEq)]
pub struct SegmentSpec {
    /// Sectors in the segment, or `None` for all that its tracks hold after `first_sector`.
    pub sectors: Option<Sectors>,
    /// Sectors on each of its tracks.
    pub sectors_per_track: u32,
    /// The track (radial position counted from the OD) where the walk starts.
    pub first_track: u32,
    /// How many tracks on each surface.
    pub tracks: u32,
    /// Whether the walk goes towards the ID.
    pub inward: bool,
    /// The lowest surface of the segment.
    pub first_surface: u16,
    /// How many surfaces.
    pub surfaces: u16,
    /// Tracks on one surface before the walk changes to the next.
    pub group_tracks: u32,
    /// Whether the first group goes through the surfaces from the highest to the lowest.
    pub surfaces_descend: bool,
    /// Whether every other group goes through the surfaces in the opposite order.
    pub surfaces_alternate: bool,
    /// Whether every other pass over a group goes in the opposite radial direction.
    pub strokes_alternate: bool,
    /// The first sector used on the first track: those before it are spares or defects.
    pub first_sector: u32,
    /// How far the next track of a pass starts after the end of the one before.
    pub track_skew: Angle,
    /// The same for the next surface of a group.
    pub head_skew: Angle,
    /// The same for the next group.
    pub group_skew: Angle,
    /// Angle of sector 0 of the first track; `None` continues the segment before with its skew.
    pub start_angle: Option<Angle>,
}

/// Where a sector lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
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

/// A track as one segment has it: all of it, or the sectors that the segment uses of it.
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
    /// The first past those that it uses.
    pub end_sector: u32,
    /// Where the first used sector lies.
    pub start: Pba,
    /// Whether the walk over it goes towards the ID; for a track that is walked alone, as a track between two
    /// of other surfaces is, whether that of the segment does.
    pub inward: bool,
    /// Whole tracks that the walk goes on to from it, each beside the one before.
    pub tracks_ahead: u32,
}

impl Track {
    /// The first address past the track.
    #[inline]
    pub fn end(&self) -> Pba {
        self.start + Sectors((self.end_sector - self.first_sector).into())
    }
}

/// Why a table of segments is no disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeometryError {
    /// There is no segment.
    Empty,
    /// A segment has a zero where it needs a number.
    ZeroSize {
        /// The number of the segment.
        segment: usize,
    },
    /// A segment claims more sectors than its tracks hold, or a walk past the first track.
    TooLarge {
        /// The number of the segment.
        segment: usize,
    },
    /// Two segments share a track.
    Overlap {
        /// The surface that both claim.
        surface: u16,
        /// The first track that both claim.
        track: u32,
    },
}

impl std::fmt::Display for GeometryError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Empty => write!(f, "the geometry has no tracks"),
            Self::ZeroSize { segment } => {
                write!(f, "segment {segment} of the geometry has no tracks, surfaces or sectors")
            }
            Self::TooLarge { segment } => {
                write!(f, "segment {segment} of the geometry needs more room than its tracks have")
            }
            Self::Overlap { surface, track } => {
                write!(f, "two segments of the geometry claim track {track} of surface {surface}")
            }
        }
    }
}

impl std::error::Error for GeometryError {}

/// A segment made ready for look-ups.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    first_sector: u64,
    pub(crate) sectors_per_track: u32,
    track_divisor: Divisor,
    /// The width of a sector.
    pub(crate) sector_width: Angle,
    first_track: u32,
    tracks: u32,
    inward: bool,
    first_surface: u16,
    surfaces: u16,
    /// Whether it is one group: always where it has one surface.
    is_one_group: bool,
    group_divisor: Divisor,
    passes: Passes,
    /// The last group when it is shorter than the others, which has passes of its own.
    tail_group: u64,
    tail_passes: Passes,
    surfaces_descend: bool,
    surfaces_alternate: bool,
    strokes_alternate: bool,
    pub(crate) track_skew: Angle,
    pub(crate) head_skew: Angle,
    pub(crate) group_skew: Angle,
    start_angle: Angle,
}

/// The passes over a group, one on each surface.
#[derive(Clone, Copy, Debug)]
struct Passes {
    tracks: u64,
    divisor: Divisor,
}

impl Passes {
    fn new(tracks: u64) -> Self {
        Self { tracks, divisor: Divisor::new(tracks.max(1)) }
    }
}

/// How many steps of each kind lie before a track of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossings {
    pub(crate) tracks: u64,
    pub(crate) heads: u64,
    pub(crate) groups: u64,
}

/// A track of a segment: which one it is in the walk, and where that is.
#[derive(Clone, Copy, Debug)]
struct WalkedTrack {
    surface: u16,
    track: u32,
    crossings: Crossings,
    stroke: Stroke,
}

/// How the walk goes on from a track on its surface.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stroke {
    /// Tracks that the walk goes on to before it changes the surface or turns, be they used or not.
    pub(crate) ahead: u64,
    /// Whether it goes towards the ID.
    pub(crate) inward: bool,
}

impl Segment {
    fn new(spec: &SegmentSpec, number: usize, start: u64, angle: Angle) -> Result<Self, GeometryError> {
        let zero = [spec.sectors_per_track, spec.tracks, spec.group_tracks, spec.surfaces.into()];
        if zero.contains(&0) {
            return Err(GeometryError::ZeroSize { segment: number });
        }
        let spt = u64::from(spec.sectors_per_track);
        let room = (u64::from(spec.tracks) * u64::from(spec.surfaces) * spt)
            .checked_sub(u64::from(spec.first_sector))
            .ok_or(GeometryError::TooLarge { segment: number })?;
        let sectors = spec.sectors.map_or(room, Sectors::get);
        if sectors == 0 {
            return Err(GeometryError::ZeroSize { segment: number });
        }
        let fits_radially = spec.inward || spec.tracks <= spec.first_track + 1;
        if sectors > room || u64::from(spec.first_sector) >= spt || !fits_radially {
            return Err(GeometryError::TooLarge { segment: number });
        }
        let group_tracks = if spec.surfaces == 1 { spec.tracks } else { spec.group_tracks.min(spec.tracks) };
        let group_tracks = u64::from(group_tracks);
        Ok(Self {
            start,
            end: start + sectors,
            first_sector: spec.first_sector.into(),
            sectors_per_track: spec.sectors_per_track,
            track_divisor: Divisor::new(spt),
            sector_width: Angle(u64::MAX / spt),
            first_track: spec.first_track,
            tracks: spec.tracks,
            inward: spec.inward,
            first_surface: spec.first_surface,
            surfaces: spec.surfaces,
            is_one_group: group_tracks == u64::from(spec.tracks),
            group_divisor: Divisor::new(group_tracks * u64::from(spec.surfaces)),
            passes: Passes::new(group_tracks),
            tail_group: u64::from(spec.tracks) / group_tracks,
            tail_passes: Passes::new(u64::from(spec.tracks) % group_tracks),
            surfaces_descend: spec.surfaces_descend,
            surfaces_alternate: spec.surfaces_alternate,
            strokes_alternate: spec.strokes_alternate,
            track_skew: spec.track_skew,
            head_skew: spec.head_skew,
            group_skew: spec.group_skew,
            start_angle: spec.start_angle.unwrap_or(angle),
        })
    }

    /// The track's number in the walk and the sector on it.
    #[inline]
    fn ordinal(&self, pba: Pba) -> (u64, u64) {
        self.track_divisor.div_rem(pba.0 - self.start + self.first_sector)
    }

    #[inline]
    fn reversed_surfaces(&self, group: u64) -> bool {
        self.surfaces_descend ^ (self.surfaces_alternate && group & 1 == 1)
    }

    #[inline]
    fn reversed_stroke(&self, pass: u64) -> bool {
        self.strokes_alternate && pass & 1 == 1
    }

    #[inline]
    fn walked(&self, ordinal: u64) -> WalkedTrack {
        if self.is_one_group {
            return self.walked_in_group(ordinal, 0, ordinal, &self.passes);
        }
        self.walked_in_groups(ordinal)
    }

    // Not inlined: what looks up places of segments of one group, as most are, is short without it.
    #[inline(never)]
    fn walked_in_groups(&self, ordinal: u64) -> WalkedTrack {
        let (group, in_group) = self.group_divisor.div_rem(ordinal);
        let passes = if group == self.tail_group { &self.tail_passes } else { &self.passes };
        self.walked_in_group(ordinal, group, in_group, passes)
    }

    // Inlined always: little is left of it for the first group.
    #[inline(always)]
    fn walked_in_group(&self, ordinal: u64, group: u64, in_group: u64, passes: &Passes) -> WalkedTrack {
        let (pass, position) = passes.divisor.div_rem(in_group);
        let surfaces = u64::from(self.surfaces);
        let surface = if self.reversed_surfaces(group) { surfaces - 1 - pass } else { pass };
        let ahead = passes.tracks - 1 - position;
        let reversed = self.reversed_stroke(pass);
        let radial = group * self.passes.tracks + if reversed { ahead } else { position };
        let track =
            if self.inward { self.first_track + radial as u32 } else { self.first_track - radial as u32 };
        let heads = group * (surfaces - 1) + pass;
        WalkedTrack {
            surface: self.first_surface + surface as u16,
            track,
            crossings: Crossings { tracks: ordinal - heads - group, heads, groups: group },
            stroke: Stroke { ahead, inward: self.inward ^ (reversed && passes.tracks > 1) },
        }
    }

    /// Angle of sector 0 of a track, from the steps before it.
    #[inline]
    fn track_angle(&self, crossings: Crossings) -> Angle {
        let turned = crossings
            .tracks
            .wrapping_mul(self.track_skew.0)
            .wrapping_add(crossings.heads.wrapping_mul(self.head_skew.0))
            .wrapping_add(crossings.groups.wrapping_mul(self.group_skew.0));
        self.start_angle.advanced(Angle(turned))
    }

    // Inlined always: else the result goes through memory and is read back in other widths than it was written,
    // for which processors wait until all stores before are done.
    #[inline(always)]
    fn place(&self, pba: Pba) -> (Place, Stroke) {
        let (ordinal, sector) = self.ordinal(pba);
        let walked = self.walked(ordinal);
        let angle = self.track_angle(walked.crossings);
        let place = Place {
            surface: walked.surface,
            track: walked.track,
            sector: sector as u32,
            sectors_per_track: self.sectors_per_track,
            angle: angle.advanced(Angle(self.sector_width.0.wrapping_mul(sector))),
        };
        (place, walked.stroke)
    }

    /// How many tracks behind that of a sector the last of so many sectors from it on lies.
    #[inline]
    pub(crate) fn tracks_crossed(&self, sector: u32, sectors: Sectors) -> u64 {
        self.track_divisor.div_rem(u64::from(sector) + sectors.get() - 1).0
    }

    /// The surface and the track of a sector, and the steps before that track.
    pub(crate) fn steps_to(&self, pba: Pba) -> (u16, u32, Crossings) {
        let walked = self.walked(self.ordinal(pba).0);
        (walked.surface, walked.track, walked.crossings)
    }

    /// A track by its number in the walk: what the segment uses of it.
    fn track(&self, ordinal: u64) -> Track {
        let walked = self.walked(ordinal);
        let spt = u64::from(self.sectors_per_track);
        let before = ordinal * spt;
        let first = self.first_sector.saturating_sub(before).min(spt);
        let used = (self.first_sector + self.end - self.start).saturating_sub(before);
        let (end, unwalked) = (used.min(spt), used.saturating_sub(spt));
        Track {
            surface: walked.surface,
            track: walked.track,
            sectors_per_track: self.sectors_per_track,
            angle: self.track_angle(walked.crossings),
            first_sector: first as u32,
            end_sector: end as u32,
            start: Pba(self.start + (before + first).saturating_sub(self.first_sector)),
            inward: walked.stroke.inward,
            tracks_ahead: walked.stroke.ahead.min(unwalked / spt) as u32,
        }
    }

    /// How far the arm moves when the walk changes the surface within a group.
    pub(crate) fn head_step_tracks(&self) -> u32 {
        if self.strokes_alternate { 0 } else { self.passes.tracks as u32 - 1 }
    }

    /// The same in the last group when it is shorter, and how many head steps lie before that group.
    pub(crate) fn tail_head_step(&self) -> (u32, u64) {
        let tracks =
            if self.strokes_alternate { 0 } else { self.tail_passes.tracks.saturating_sub(1) as u32 };
        (tracks, self.tail_group * (u64::from(self.surfaces) - 1))
    }

    /// How far the arm moves from one group to the next, and whether the surface changes too.
    pub(crate) fn group_step(&self) -> (u32, bool) {
        if self.is_one_group {
            return (0, false);
        }
        let per_group = self.passes.tracks * u64::from(self.surfaces);
        let (last, next) = (self.walked(per_group - 1), self.walked(per_group));
        (last.track.abs_diff(next.track), last.surface != next.surface)
    }

    /// The lowest track of the segment.
    fn lowest_track(&self) -> u32 {
        if self.inward { self.first_track } else { self.first_track + 1 - self.tracks }
    }

    /// The inverse of [`Segment::walked`]: the number in the walk of a track that the segment holds.
    fn ordinal_of(&self, surface: u16, track: u32) -> u64 {
        let radial = u64::from(if self.inward { track - self.first_track } else { self.first_track - track });
        let (group, within) = self.passes.divisor.div_rem(radial);
        let tracks = if group == self.tail_group { self.tail_passes.tracks } else { self.passes.tracks };
        let surface = u64::from(surface - self.first_surface);
        let surfaces = u64::from(self.surfaces);
        let pass = if self.reversed_surfaces(group) { surfaces - 1 - surface } else { surface };
        let position = if self.reversed_stroke(pass) { tracks - 1 - within } else { within };
        group * self.passes.tracks * surfaces + pass * tracks + position
    }
}

/// Where a segment begins on a surface; the first sector tells apart pieces of one track (slipped sectors).
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
    /// For each 2^`hint_shift` sectors the segment that holds the first of them.
    hints: Vec<u32>,
    hint_shift: u32,
    /// The way back from a track, sorted.
    by_track: Vec<TrackIndex>,
    tracks: u32,
    surfaces: u16,
}

impl Geometry {
    /// Builds the look-up tables for segments in PBA order.
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

    /// Tracks on a surface, counted from the OD.
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

    /// Where a sector lies.
    ///
    /// # Panics
    /// When `pba` is past the end of the disk: callers check their extents once, on arrival.
    #[inline]
    pub fn place(&self, pba: Pba) -> Place {
        self.segments[self.segment_index(pba)].place(pba).0
    }

    /// The place, and for the transfer the segment and how the walk goes on.
    #[inline(always)]
    pub(crate) fn place_in_segment(&self, pba: Pba) -> (Place, usize, Stroke) {
        let index = self.segment_index(pba);
        let (place, stroke) = self.segments[index].place(pba);
        (place, index, stroke)
    }

    /// How many sectors the track of a sector has.
    ///
    /// # Panics
    /// When `pba` is past the end of the disk.
    #[inline]
    pub fn sectors_per_track(&self, pba: Pba) -> u32 {
        self.segments[self.segment_index(pba)].sectors_per_track
    }

    /// Whether the tracks of two sectors have as many sectors.
    ///
    /// # Panics
    /// When one of them is past the end of the disk.
    #[inline]
    pub fn are_alike(&self, one: Pba, other: Pba) -> bool {
        let segment = &self.segments[self.segment_index(one)];
        let same = segment.start <= other.0 && other.0 < segment.end;
        same || segment.sectors_per_track == self.sectors_per_track(other)
    }

    /// The track that holds a sector.
    ///
    /// # Panics
    /// When `pba` is past the end of the disk.
    #[inline]
    pub fn track_of(&self, pba: Pba) -> Track {
        let segment = &self.segments[self.segment_index(pba)];
        segment.track(segment.ordinal(pba).0)
    }

    /// The first address past the track that holds a sector.
    ///
    /// # Panics
    /// When `pba` is past the end of the disk.
    #[inline]
    pub fn track_end(&self, pba: Pba) -> Pba {
        let segment = &self.segments[self.segment_index(pba)];
        let (_, sector) = segment.ordinal(pba);
        Pba((pba.0 + (u64::from(segment.sectors_per_track) - sector)).min(segment.end))
    }

    /// What is used of a track: nothing where no segment has it, more than one piece where several share it.
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

    /// The address of a sector, or `None` where no segment holds it.
    pub fn pba_of(&self, surface: u16, track: u32, sector: u32) -> Option<Pba> {
        let wanted = (surface, track, sector);
        let after = self.by_track.partition_point(|i| (i.surface, i.lowest_track, i.first_sector) <= wanted);
        let found = self.by_track.get(after.checked_sub(1)?)?;
        let segment = &self.segments[found.segment as usize];
        let beyond = track >= found.lowest_track + segment.tracks;
        if found.surface != surface || beyond || sector >= segment.sectors_per_track {
            return None;
        }
        let linear =
            segment.ordinal_of(surface, track) * u64::from(segment.sectors_per_track) + u64::from(sector);
        let pba = segment.start + linear.checked_sub(segment.first_sector)?;
        (pba < segment.end).then_some(Pba(pba))
    }
}

/// Where the walk would start if the next segment follows `before` as its next track would.
fn angle_after(before: &Segment, next: &SegmentSpec) -> Angle {
    let (last, _) = before.place(Pba(before.end - 1));
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

/// Whether two segments are single tracks that use different sectors of the same one.
fn pieces_of_a_track(segments: &[Segment], this: TrackIndex, next: TrackIndex) -> bool {
    let (first, second) = (&segments[this.segment as usize], &segments[next.segment as usize]);
    let used = u64::from(this.first_sector) + first.end - first.start;
    let single = first.tracks == 1 && second.tracks == 1 && first.surfaces == 1 && second.surfaces == 1;
    single && used <= next.first_sector.into()
}
