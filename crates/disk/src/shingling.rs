//! Shingling: which sectors of the tracks behind a track a write of it destroys.
//!
//! A head that writes `k` tracks wide writes its track and, at the same angles, the next `k - 1` tracks of the
//! surface, towards the ID where the stroke is walked inwards and towards the OD where it is walked outwards, so
//! that what is written in the order of addresses lies on each other as shingles do. A sector is destroyed when any part of it lies under the head while the head writes; what is left
//! there is what the head wrote last: of several written sectors that a destroyed one lies beside, the last.
//! So it makes no difference whether sectors are written by one command or by several.
//!
//! For a pair of tracks this is arithmetic ([`Facing`]); tracks of other recording zones differ in their number
//! of sectors, and skew is the difference of their angles. Nothing loops over sectors.
//!
//! Invariants: the sectors that a write destroys on a track are one run of angles, at most two runs of
//! addresses for each segment that uses the track; their sources rise with them within a run of angles.
//!
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), sections 3.1 and 3.2.2. Its formulas
//! miss a position that is equal to the track's size or to its skew (`>` and `<` where `>=` and `<=` are meant)
//! and sectors that are covered in part; here any angle that two sectors share counts.

use crate::geometry::{Geometry, Track};
use crate::units::{Pba, PbaExtent, Sectors};

/// The widest head.
pub const MAX_WIDTH_TRACKS: u32 = 16;

/// Angles that two sectors share by no more than this are the rounding of angles, not an overlap: 2^-32 of a
/// turn. A skew that is given as a time is an angle to 2^-41 of a turn, since a turn is whole nanoseconds; the
/// narrowest sector is 2^-22.
const TOUCHING: u64 = 1 << 32;

/// How many tracks a write covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shingling {
    width_tracks: u32,
}

/// Sectors that a write destroyed, and the written sectors whose data lies there now.
///
/// The source of the first sector is `first_source`, that of the last is `last_source`, and those between rise
/// as [`Sources`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destroyed {
    /// What was destroyed: on one track.
    pub extent: PbaExtent,
    /// The source of its first sector.
    pub first_source: Pba,
    /// The source of its last sector.
    pub last_source: Pba,
}

impl Shingling {
    /// A head that writes this many tracks, its own with them: 1 (no shingling) to [`MAX_WIDTH_TRACKS`].
    pub fn new(width_tracks: u32) -> Option<Self> {
        (1..=MAX_WIDTH_TRACKS).contains(&width_tracks).then_some(Self { width_tracks })
    }

    /// Tracks under the head, the written one with them.
    pub fn width_tracks(self) -> u32 {
        self.width_tracks
    }

    /// The tracks behind a track, nearest first; a radius at which the surface has no track counts too, but
    /// there is nothing to visit.
    pub fn visit_behind(self, geometry: &Geometry, of: &Track, visit: &mut impl FnMut(Track)) {
        for distance in 1..self.width_tracks {
            let Some(track) = track_behind(of, distance) else { return };
            geometry.visit_track(of.surface, track, visit);
        }
    }

    /// The last of those tracks.
    pub fn visit_last_behind(self, geometry: &Geometry, of: &Track, visit: &mut impl FnMut(Track)) {
        let distance = self.width_tracks - 1;
        if let Some(track) = track_behind(of, distance).filter(|_| distance > 0) {
            geometry.visit_track(of.surface, track, visit);
        }
    }
}

/// The number of the track so far behind one.
fn track_behind(of: &Track, distance: u32) -> Option<u32> {
    if of.inward { of.track.checked_add(distance) } else { of.track.checked_sub(distance) }
}

/// The track that a write begins on, the written part of it, and the rest of the write.
pub fn split_at_track(geometry: &Geometry, extent: PbaExtent) -> (Track, PbaExtent, PbaExtent) {
    let track = geometry.track_of(extent.start);
    let here = extent.len.min(track.end() - extent.start);
    let written = PbaExtent::new(extent.start, here);
    (track, written, PbaExtent::new(written.end(), extent.len - here))
}

/// A track and one behind it, made ready for many writes of the first.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The track that is written.
    pub on: Track,
    /// The track behind it.
    pub behind: Track,
    facing: Facing,
}

impl Pair {
    /// A track and one behind it.
    pub fn new(on: &Track, behind: &Track) -> Self {
        Self { on: *on, behind: *behind, facing: Facing::new(on, behind) }
    }

    /// Whether both have as many sectors.
    #[inline]
    pub fn is_alike(&self) -> bool {
        self.on.sectors_per_track == self.behind.sectors_per_track
    }

    /// What a write of `written`, which is not empty and lies on the first track, destroys of the second.
    #[inline]
    pub fn destroyed(&self, written: PbaExtent, visit: &mut impl FnMut(Destroyed)) {
        let Self { on, behind, facing } = self;
        let first = u64::from(on.first_sector) + (written.start - on.start).get();
        let end = first + written.len.get();
        let (mut from, to) = facing.covered(first, end);
        let turn = u64::from(behind.sectors_per_track);
        // A write that comes round to the sector where it began leaves its end there.
        from = from.max(to.saturating_sub(turn));
        let source = |sector: u64| {
            let last = facing.last_beside(sector).min(end - 1);
            on.start + Sectors(last - u64::from(on.first_sector))
        };
        for turn_start in [0, turn] {
            let start = from.max(turn_start + u64::from(behind.first_sector));
            let end = to.min(turn_start + u64::from(behind.end_sector));
            if start < end {
                let at = behind.start + Sectors(start - turn_start - u64::from(behind.first_sector));
                visit(Destroyed {
                    extent: PbaExtent::new(at, Sectors(end - start)),
                    first_source: source(start),
                    last_source: source(end - 1),
                });
            }
        }
    }

    /// The last sector of the first track that lies beside a sector of the second: its source, unless the write
    /// ended before.
    pub fn natural_source(&self, sector: Pba) -> Pba {
        let Self { on, behind, facing } = self;
        let number = u64::from(behind.first_sector) + (sector - behind.start).get();
        let last = facing.last_beside(facing.in_first_turn(number));
        Pba((on.start.get() + last).wrapping_sub(on.first_sector.into()))
    }
}

/// A written track and one behind it: which sectors lie side by side.
///
/// Sectors behind are numbered on from the turn in which sector 0 of the written track begins, so that they
/// rise with the angle. The written track begins an *offset* behind sector 0 of the other; angles are counted in
/// 2^-64 turns, times the sectors of a track. Numbers are below 2^22 and angles below 2^65, so that nothing
/// overflows 2^128.
#[derive(Clone, Copy, Debug)]
struct Facing {
    /// Sectors of the written track.
    written: u64,
    /// Sectors of the track behind.
    behind: u64,
    /// The offset, times the sectors of the written track.
    offset: u128,
    /// What counts as no overlap, times the same.
    touching: u128,
    /// Both, times the sectors of the track behind.
    begun: u128,
    /// Between tracks of one size, as most are, numbers differ by as much everywhere.
    alike: Option<Shift>,
}

/// What to add to the number of a written sector for the first that it covers behind, and for the last; and to the
/// number of that for the last written sector beside it, as a difference that wraps.
#[derive(Clone, Copy, Debug)]
struct Shift {
    first: u64,
    last: u64,
    beside: u64,
}

impl Facing {
    fn new(on: &Track, behind: &Track) -> Self {
        let offset = u128::from(on.angle.since(behind.angle).0);
        let (written, behind) = (u64::from(on.sectors_per_track), u64::from(behind.sectors_per_track));
        let mut facing = Self {
            written,
            behind,
            offset: offset * u128::from(written),
            touching: u128::from(TOUCHING) * u128::from(written),
            begun: (offset + u128::from(TOUCHING)) * u128::from(behind),
            alike: None,
        };
        if written == behind {
            let (first, end) = facing.covered(0, 1);
            // Of the second turn, which is behind the start of the written track in any case.
            let beside = facing.last_beside(2 * behind).wrapping_sub(2 * behind);
            facing.alike = Some(Shift { first, last: end - 1, beside });
        }
        facing
    }

    /// The sectors behind that the written sectors from `first` to before `end` cover: the first, and the first
    /// not covered.
    #[inline]
    fn covered(&self, first: u64, end: u64) -> (u64, u64) {
        if let Some(shift) = &self.alike {
            return (first + shift.first, end + shift.last);
        }
        let begin = self.offset + (u128::from(first) << 64) + self.touching;
        let stop = self.offset + (u128::from(end) << 64) - self.touching;
        let from = ((u128::from(self.behind) * begin) >> 64) as u64 / self.written;
        let last = ((u128::from(self.behind) * stop - 1) >> 64) as u64 / self.written;
        (from, last + 1)
    }

    /// The last written sector beside a sector behind, which lies behind the start of the written track.
    #[inline]
    fn last_beside(&self, behind: u64) -> u64 {
        if let Some(shift) = &self.alike {
            return behind.wrapping_add(shift.beside);
        }
        let end = (u128::from(behind + 1) << 64) - self.begun;
        ((end * u128::from(self.written) - 1) >> 64) as u64 / self.behind
    }

    /// The same sector in the turn in which one written sector from the start of the written track to its end
    /// is the last beside it.
    #[inline]
    fn in_first_turn(&self, sector: u64) -> u64 {
        if u128::from(sector + 1) << 64 > self.begun { sector } else { sector + self.behind }
    }
}

/// The sources of a run of destroyed sectors: from the place of the first sector, its source and the last one.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    first_source: u64,
    last_source: u64,
    /// Between tracks of unlike sizes: how they face each other, the number of the first sector, and what to add
    /// to a sector's number on the written track for its address.
    unlike: Option<(Facing, u64, u64)>,
}

impl Sources {
    /// The sources of the sectors from `start` on, which lie on one track.
    #[inline]
    pub fn new(geometry: &Geometry, start: Pba, first_source: Pba, last_source: Pba) -> Self {
        let alike = Self { first_source: first_source.get(), last_source: last_source.get(), unlike: None };
        if first_source == last_source || geometry.are_alike(first_source, start) {
            return alike;
        }
        alike.between(&geometry.track_of(first_source), &geometry.track_of(start), start)
    }

    /// The same between tracks of unlike sizes.
    #[cold]
    fn between(self, on: &Track, behind: &Track, start: Pba) -> Self {
        let facing = Facing::new(on, behind);
        let sector = u64::from(behind.first_sector) + (start - behind.start).get();
        let add = on.start.get().wrapping_sub(on.first_sector.into());
        Self { unlike: Some((facing, facing.in_first_turn(sector), add)), ..self }
    }

    /// The source of the sector `offset` behind the first.
    #[inline]
    pub fn at(&self, offset: u64) -> Pba {
        let natural = match self.unlike {
            _ if self.first_source == self.last_source => self.last_source,
            None => self.first_source + offset,
            Some((facing, first, add)) => facing.last_beside(first + offset).wrapping_add(add),
        };
        Pba(natural.min(self.last_source))
    }

    /// The runs of the first `len` sectors whose sources follow each other: offset, length, and the source of the
    /// first. Between tracks of one size that is one run; at the edge of a recording zone one for each sector
    /// by which the tracks differ.
    pub fn visit_runs(&self, len: u64, visit: &mut impl FnMut(u64, u64, Pba)) {
        let mut offset = 0;
        while offset < len {
            let source = self.at(offset);
            let mut run = 1;
            if self.unlike.is_none() && source.get() < self.last_source {
                run = (self.last_source - source.get() + 1).min(len - offset);
            } else {
                while offset + run < len && self.at(offset + run).get() == source.get() + run {
                    run += 1;
                }
            }
            visit(offset, run, source);
            offset += run;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::layout::{Layout, RecordingZone, Skews, segments};
    use crate::units::Angle;

    /// Tracks of so many sectors one behind the other on one surface.
    fn disk(sizes: &[u32], skew: f64) -> Geometry {
        let zones: Vec<_> =
            sizes.iter().map(|&sectors_per_track| RecordingZone { tracks: 1, sectors_per_track }).collect();
        let skews = Skews { track: Angle::from_turns(skew), ..Skews::default() };
        Geometry::new(&segments(Layout::Cylinder, &zones, 1, skews)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What a write destroys on the second track: (first sector, sectors, first source, last source).
    fn destroyed_by(geometry: &Geometry, first: u64, len: u64) -> Vec<(u64, u64, u64, u64)> {
        let on = geometry.track_of(Pba(0));
        let behind = geometry.track_of(on.end());
        let mut found = Vec::new();
        let written = PbaExtent::new(Pba(first), Sectors(len));
        Pair::new(&on, &behind).destroyed(written, &mut |one| {
            let first = (one.extent.start - behind.start).get();
            found.push((first, one.extent.len.get(), one.first_source.get(), one.last_source.get()));
        });
        found
    }

    #[test]
    fn a_position_equal_to_the_skew_is_the_next_tracks_first_sector() {
        let geometry = disk(&[10, 10], 0.3);
        assert_eq!(destroyed_by(&geometry, 3, 1), [(0, 1, 3, 3)]);
        assert_eq!(destroyed_by(&geometry, 2, 1), [(9, 1, 2, 2)]);
        assert_eq!(destroyed_by(&geometry, 0, 10), [(7, 3, 0, 2), (0, 7, 3, 9)]);
    }

    #[test]
    fn any_shared_angle_destroys_and_the_last_written_sector_is_the_source() {
        let geometry = disk(&[10, 10], 0.05);
        assert_eq!(destroyed_by(&geometry, 3, 1), [(2, 2, 3, 3)]);
        assert_eq!(destroyed_by(&geometry, 3, 2), [(2, 3, 3, 4)]);
        // The sector beside the first and the last one is the last one's.
        assert_eq!(destroyed_by(&geometry, 0, 10), [(0, 10, 1, 9)]);
    }

    #[test]
    fn tracks_of_other_sizes_are_covered_by_angle() {
        assert_eq!(destroyed_by(&disk(&[10, 5], 0.0), 3, 1), [(1, 1, 3, 3)]);
        assert_eq!(destroyed_by(&disk(&[5, 10], 0.0), 1, 2), [(2, 4, 1, 2)]);
        assert_eq!(destroyed_by(&disk(&[4, 3], 0.0), 1, 1), [(0, 2, 1, 1)]);
    }

    proptest! {
        /// Between tracks of one size numbers are shifted; the rule for any two tracks says the same.
        #[test]
        fn tracks_of_one_size_are_shifted(
            sectors in 1_u32..1 << 22, skew in any::<u64>(), whole in any::<bool>(), at in any::<[u32; 3]>(),
        ) {
            let sector = u64::MAX / u64::from(sectors);
            let angle = Angle(if whole { skew / sector * sector } else { skew });
            let zone = [RecordingZone { tracks: 1, sectors_per_track: sectors }];
            let zones = segments(Layout::Cylinder, &zone, 1, Skews::default());
            let on = Geometry::new(&zones).unwrap_or_else(|error| panic!("{error}")).track_of(Pba(0));
            let shifted = Facing::new(&on, &Track { angle, ..on });
            let general = Facing { alike: None, ..shifted };
            let [first, len, behind] = at.map(|at| u64::from(at % sectors));
            prop_assert_eq!(shifted.covered(first, first + len + 1), general.covered(first, first + len + 1));
            let number = general.in_first_turn(behind);
            prop_assert_eq!(shifted.last_beside(number), general.last_beside(number));
        }
    }
}
