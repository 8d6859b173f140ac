//! One segment of the disk: from a sector to its track and angle in closed form, and back.
//!
//! Invariants: as in the parent module; `ordinal_of` is the inverse of `walked`.

use super::{GeometryError, SectorPosition, SegmentSpec, Track};
use crate::divisor::Divisor;
use crate::units::{Angle, Pba, Sectors};

/// A segment prepared for look-ups.
///
/// More than 15 fields: the fields of [`SegmentSpec`] and what look-ups precompute from them, flat, since the hot path
/// reads most of them together.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(super) first_sector: u64,
    pub(crate) sectors_per_track: u32,
    track_divisor: Divisor,
    /// The angle of one sector.
    pub(crate) sector_width: Angle,
    first_track: u32,
    pub(super) tracks: u32,
    inward: bool,
    pub(super) first_surface: u16,
    pub(super) surfaces: u16,
    /// Whether the segment is a single group, as it always is on one surface.
    is_one_group: bool,
    group_divisor: Divisor,
    passes: Passes,
    /// Number of the last group if it is shorter than the others; it has passes of its own.
    tail_group: u64,
    tail_passes: Passes,
    surfaces_descend: bool,
    surfaces_alternate: bool,
    passes_alternate: bool,
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

/// How many steps of each kind precede a track of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Crossings {
    pub(crate) tracks: u64,
    pub(crate) heads: u64,
    pub(crate) groups: u64,
}

/// A track of a segment: its number in address order, and its location.
#[derive(Clone, Copy, Debug)]
struct WalkedTrack {
    surface: u16,
    track: u32,
    crossings: Crossings,
    remainder: PassRemainder,
}

/// The rest of a pass after one of its tracks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PassRemainder {
    /// Tracks left before the surface or the direction changes, used or not.
    pub(crate) tracks_ahead: u64,
    /// Whether the pass runs towards the ID.
    pub(crate) inward: bool,
}

impl Segment {
    pub(super) fn new(
        spec: &SegmentSpec,
        number: usize,
        start: u64,
        angle: Angle,
    ) -> Result<Self, GeometryError> {
        let zero = [spec.sectors_per_track, spec.tracks, spec.group_tracks, spec.surfaces.into()];
        if zero.contains(&0) {
            return Err(GeometryError::ZeroSize { segment: number });
        }
        let sectors_per_track = u64::from(spec.sectors_per_track);
        let available = (u64::from(spec.tracks) * u64::from(spec.surfaces) * sectors_per_track)
            .checked_sub(u64::from(spec.first_sector))
            .ok_or(GeometryError::TooLarge { segment: number })?;
        let sectors = spec.sectors.map_or(available, Sectors::get);
        if sectors == 0 {
            return Err(GeometryError::ZeroSize { segment: number });
        }
        let fits_radially = spec.inward || spec.tracks <= spec.first_track + 1;
        if sectors > available || u64::from(spec.first_sector) >= sectors_per_track || !fits_radially {
            return Err(GeometryError::TooLarge { segment: number });
        }
        let group_tracks = if spec.surfaces == 1 { spec.tracks } else { spec.group_tracks.min(spec.tracks) };
        let group_tracks = u64::from(group_tracks);
        Ok(Self {
            start,
            end: start + sectors,
            first_sector: spec.first_sector.into(),
            sectors_per_track: spec.sectors_per_track,
            track_divisor: Divisor::new(sectors_per_track),
            sector_width: Angle(u64::MAX / sectors_per_track),
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
            passes_alternate: spec.passes_alternate,
            track_skew: spec.track_skew,
            head_skew: spec.head_skew,
            group_skew: spec.group_skew,
            start_angle: spec.start_angle.unwrap_or(angle),
        })
    }

    /// The track's number in address order, and the sector on it.
    #[inline]
    pub(super) fn ordinal(&self, pba: Pba) -> (u64, u64) {
        self.track_divisor.div_rem(pba.0 - self.start + self.first_sector)
    }

    #[inline]
    fn reversed_surfaces(&self, group: u64) -> bool {
        self.surfaces_descend ^ (self.surfaces_alternate && group & 1 == 1)
    }

    #[inline]
    fn reversed_pass(&self, pass: u64) -> bool {
        self.passes_alternate && pass & 1 == 1
    }

    #[inline]
    fn walked(&self, ordinal: u64) -> WalkedTrack {
        if self.is_one_group {
            return self.walked_in_group(ordinal, 0, ordinal, &self.passes);
        }
        self.walked_in_groups(ordinal)
    }

    // Not inlined, which keeps the common case, a segment of one group, short.
    #[inline(never)]
    fn walked_in_groups(&self, ordinal: u64) -> WalkedTrack {
        let (group, in_group) = self.group_divisor.div_rem(ordinal);
        let passes = if group == self.tail_group { &self.tail_passes } else { &self.passes };
        self.walked_in_group(ordinal, group, in_group, passes)
    }

    // Always inlined: for the first group most of it folds away.
    #[inline(always)]
    fn walked_in_group(&self, ordinal: u64, group: u64, in_group: u64, passes: &Passes) -> WalkedTrack {
        let (pass, position) = passes.divisor.div_rem(in_group);
        let surfaces = u64::from(self.surfaces);
        let surface = if self.reversed_surfaces(group) { surfaces - 1 - pass } else { pass };
        let ahead = passes.tracks - 1 - position;
        let reversed = self.reversed_pass(pass);
        let radial = group * self.passes.tracks + if reversed { ahead } else { position };
        let track =
            if self.inward { self.first_track + radial as u32 } else { self.first_track - radial as u32 };
        let heads = group * (surfaces - 1) + pass;
        WalkedTrack {
            surface: self.first_surface + surface as u16,
            track,
            crossings: Crossings { tracks: ordinal - heads - group, heads, groups: group },
            remainder: PassRemainder {
                tracks_ahead: ahead,
                inward: self.inward ^ (reversed && passes.tracks > 1),
            },
        }
    }

    /// Angle of sector 0 of a track, computed from the steps before it.
    #[inline]
    fn track_angle(&self, crossings: Crossings) -> Angle {
        let skew = crossings
            .tracks
            .wrapping_mul(self.track_skew.0)
            .wrapping_add(crossings.heads.wrapping_mul(self.head_skew.0))
            .wrapping_add(crossings.groups.wrapping_mul(self.group_skew.0));
        self.start_angle.advanced(Angle(skew))
    }

    // Always inlined: otherwise the result is stored and reloaded with different widths, which defeats
    // store-to-load forwarding.
    #[inline(always)]
    pub(super) fn position_of(&self, pba: Pba) -> (SectorPosition, PassRemainder) {
        let (ordinal, sector) = self.ordinal(pba);
        let walked = self.walked(ordinal);
        let angle = self.track_angle(walked.crossings);
        let position = SectorPosition {
            surface: walked.surface,
            track: walked.track,
            sector: sector as u32,
            sectors_per_track: self.sectors_per_track,
            angle: angle.advanced(Angle(self.sector_width.0.wrapping_mul(sector))),
        };
        (position, walked.remainder)
    }

    /// How many tracks lie between `sector` and the last of `sectors` sectors that start there.
    #[inline]
    pub(crate) fn tracks_crossed(&self, sector: u32, sectors: Sectors) -> u64 {
        self.track_divisor.div_rem(u64::from(sector) + sectors.get() - 1).0
    }

    /// The surface and the track of a sector, and the steps before that track.
    pub(crate) fn steps_to(&self, pba: Pba) -> (u16, u32, Crossings) {
        let walked = self.walked(self.ordinal(pba).0);
        (walked.surface, walked.track, walked.crossings)
    }

    /// The part of a track that the segment uses; `ordinal` is the track's number in address order.
    pub(super) fn track(&self, ordinal: u64) -> Track {
        let walked = self.walked(ordinal);
        let sectors_per_track = u64::from(self.sectors_per_track);
        let before = ordinal * sectors_per_track;
        let first = self.first_sector.saturating_sub(before).min(sectors_per_track);
        let used = (self.first_sector + self.end - self.start).saturating_sub(before);
        let (end, unwalked) = (used.min(sectors_per_track), used.saturating_sub(sectors_per_track));
        Track {
            surface: walked.surface,
            track: walked.track,
            sectors_per_track: self.sectors_per_track,
            angle: self.track_angle(walked.crossings),
            first_sector: first as u32,
            end_sector: end as u32,
            start: Pba(self.start + (before + first).saturating_sub(self.first_sector)),
            inward: walked.remainder.inward,
            tracks_ahead: walked.remainder.tracks_ahead.min(unwalked / sectors_per_track) as u32,
        }
    }

    /// How far the arm moves when the surface changes within a group.
    pub(crate) fn head_step_tracks(&self) -> u32 {
        if self.passes_alternate { 0 } else { self.passes.tracks as u32 - 1 }
    }

    /// The same for a shorter last group, and the number of head steps before that group.
    pub(crate) fn tail_head_step(&self) -> (u32, u64) {
        let tracks = if self.passes_alternate { 0 } else { self.tail_passes.tracks.saturating_sub(1) as u32 };
        (tracks, self.tail_group * (u64::from(self.surfaces) - 1))
    }

    /// How far the arm moves from one group to the next, and whether the surface changes as well.
    pub(crate) fn group_step(&self) -> (u32, bool) {
        if self.is_one_group {
            return (0, false);
        }
        let per_group = self.passes.tracks * u64::from(self.surfaces);
        let (last, next) = (self.walked(per_group - 1), self.walked(per_group));
        (last.track.abs_diff(next.track), last.surface != next.surface)
    }

    /// The lowest track of the segment.
    pub(super) fn lowest_track(&self) -> u32 {
        if self.inward { self.first_track } else { self.first_track + 1 - self.tracks }
    }

    /// The inverse of [`Segment::walked`]: the number in address order of a track of this segment.
    pub(super) fn ordinal_of(&self, surface: u16, track: u32) -> u64 {
        let radial = u64::from(if self.inward { track - self.first_track } else { self.first_track - track });
        let (group, within) = self.passes.divisor.div_rem(radial);
        let tracks = if group == self.tail_group { self.tail_passes.tracks } else { self.passes.tracks };
        let surface = u64::from(surface - self.first_surface);
        let surfaces = u64::from(self.surfaces);
        let pass = if self.reversed_surfaces(group) { surfaces - 1 - surface } else { surface };
        let position = if self.reversed_pass(pass) { tracks - 1 - within } else { within };
        group * self.passes.tracks * surfaces + pass * tracks + position
    }
}
