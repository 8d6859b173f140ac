//! Shingling: which sectors of the following tracks a write overwrites.
//!
//! A head that is `k` tracks wide writes its own track and, at the same angles, the next `k - 1` tracks of
//! the surface. These lie towards the ID where the pass runs inwards and towards the OD where it runs
//! outwards, so that data written in address order overlaps like shingles. A sector is destroyed if any part
//! of it is under the head during the write. It then contains the data of the last written sector beside it,
//! so the result does not depend on whether one command or several wrote the sectors.
//!
//! For a pair of tracks this is arithmetic (`Facing`). Tracks of different recording zones differ in their
//! number of sectors, and skew is the difference of their angles. Nothing loops over sectors.
//!
//! Invariants: the sectors that a write destroys on a track are one run of angles, and at most two runs of
//! addresses for each segment that uses the track; within a run of angles, later sectors have later sources.
//!
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), sections 3.1 and 3.2.2. Its formulas
//! miss a position equal to the track's size or to its skew (`>` and `<` where `>=` and `<=` are meant) and
//! partially covered sectors; here any shared angle counts.

use crate::geometry::{Geometry, Track};
use crate::units::{Pba, PbaExtent, Sectors};

/// The maximum width of a head.
pub const MAX_WIDTH_TRACKS: u32 = 16;

/// Two sectors that share at most this angle, 2^-32 of a revolution, do not overlap: it covers the rounding
/// of angles. A skew given as a time is an angle with an error of up to 2^-41 of a revolution, because a
/// revolution is whole nanoseconds; the narrowest sector is 2^-22.
const TOUCHING: u64 = 1 << 32;

/// The width of the write head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shingling {
    width_tracks: u32,
}

/// Sectors that a write destroyed, and the written sectors whose data they contain now.
///
/// [`Sources`] gives the sources of the sectors between the first and the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Destroyed {
    /// The destroyed sectors, all on one track.
    pub extent: PbaExtent,
    /// The source of its first sector.
    pub first_source: Pba,
    /// The source of its last sector.
    pub last_source: Pba,
}

impl Shingling {
    /// A head that writes `width_tracks` tracks, its own included: 1 (no shingling) to [`MAX_WIDTH_TRACKS`].
    pub fn new(width_tracks: u32) -> Option<Self> {
        (1..=MAX_WIDTH_TRACKS).contains(&width_tracks).then_some(Self { width_tracks })
    }

    /// Tracks under the head, the written one included.
    pub fn width_tracks(self) -> u32 {
        self.width_tracks
    }

    /// Visits the tracks that a write of `of` also covers, nearest first. A radius without a track on this
    /// surface counts but is not visited.
    pub fn visit_behind(self, geometry: &Geometry, of: &Track, visit: &mut impl FnMut(Track)) {
        for distance in 1..self.width_tracks {
            let Some(track) = track_behind(of, distance) else { return };
            geometry.visit_track(of.surface, track, visit);
        }
    }

    /// Visits the last of those tracks.
    pub fn visit_last_behind(self, geometry: &Geometry, of: &Track, visit: &mut impl FnMut(Track)) {
        let distance = self.width_tracks - 1;
        if let Some(track) = track_behind(of, distance).filter(|_| distance > 0) {
            geometry.visit_track(of.surface, track, visit);
        }
    }
}

/// The number of the track `distance` tracks after `of` in the direction of its pass.
fn track_behind(of: &Track, distance: u32) -> Option<u32> {
    if of.inward { of.track.checked_add(distance) } else { of.track.checked_sub(distance) }
}

/// The track on which a write starts, the part of the write on that track, and the rest.
pub fn split_at_track(geometry: &Geometry, extent: PbaExtent) -> (Track, PbaExtent, PbaExtent) {
    let track = geometry.track_of(extent.start);
    let here = extent.len.min(track.end() - extent.start);
    let written = PbaExtent::new(extent.start, here);
    (track, written, PbaExtent::new(written.end(), extent.len - here))
}

/// A written track and one that it overlaps, prepared for many writes of the former.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// The track that is written.
    pub on: Track,
    /// The track that the write overlaps.
    pub behind: Track,
    facing: Facing,
}

impl Pair {
    /// Prepares a written track and one that it overlaps.
    pub fn new(on: &Track, behind: &Track) -> Self {
        Self { on: *on, behind: *behind, facing: Facing::new(on, behind) }
    }

    /// Whether both tracks have the same number of sectors.
    #[inline]
    pub fn is_alike(&self) -> bool {
        self.on.sectors_per_track == self.behind.sectors_per_track
    }

    /// Visits what a write of `written`, a non-empty extent of the first track, destroys on the second.
    #[inline]
    pub fn destroyed(&self, written: PbaExtent, visit: &mut impl FnMut(Destroyed)) {
        let Self { on, behind, facing } = self;
        let first = u64::from(on.first_sector) + (written.start - on.start).get();
        let end = first + written.len.get();
        let (mut from, to) = facing.covered(first, end);
        let revolution = u64::from(behind.sectors_per_track);
        // A write that returns to the sector where it began leaves its last data there.
        from = from.max(to.saturating_sub(revolution));
        let source = |sector: u64| {
            let last = facing.last_beside(sector).min(end - 1);
            on.start + Sectors(last - u64::from(on.first_sector))
        };
        for revolution_start in [0, revolution] {
            let start = from.max(revolution_start + u64::from(behind.first_sector));
            let end = to.min(revolution_start + u64::from(behind.end_sector));
            if start < end {
                let at = behind.start + Sectors(start - revolution_start - u64::from(behind.first_sector));
                visit(Destroyed {
                    extent: PbaExtent::new(at, Sectors(end - start)),
                    first_source: source(start),
                    last_source: source(end - 1),
                });
            }
        }
    }

    /// The last sector of the first track beside a sector of the second: its source, unless the write ended
    /// earlier.
    pub fn natural_source(&self, sector: Pba) -> Pba {
        let Self { on, behind, facing } = self;
        let number = u64::from(behind.first_sector) + (sector - behind.start).get();
        let last = facing.last_beside(facing.in_first_revolution(number));
        Pba((on.start.get() + last).wrapping_sub(on.first_sector.into()))
    }
}

/// A written track and one that it overlaps: which sectors lie beside each other.
///
/// Sectors of the overlapped track are numbered from the revolution in which sector 0 of the written track
/// starts, so that numbers increase with the angle. The written track starts an *offset* after sector 0 of
/// the other. Angles are counted in 2^-64 revolutions, times the sectors of a track. Numbers are below 2^22
/// and angles below 2^65, so that no product overflows 2^128.
#[derive(Clone, Copy, Debug)]
struct Facing {
    /// Sectors of the written track.
    written: u64,
    /// Sectors of the overlapped track.
    behind: u64,
    /// The offset, times the sectors of the written track.
    offset: u128,
    /// [`TOUCHING`], times the sectors of the written track.
    touching: u128,
    /// The sum of offset and [`TOUCHING`], times the sectors of the overlapped track.
    begun: u128,
    /// Tracks of equal size, the common case: sector numbers differ by constants.
    alike: Option<Shift>,
}

/// What to add to the number of a written sector to get the first and the last overlapped sector that it
/// covers, and to the number of an overlapped sector to get the last written sector beside it (a wrapping
/// difference).
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
            // In the second revolution, which is always after the start of the written track.
            let beside = facing.last_beside(2 * behind).wrapping_sub(2 * behind);
            facing.alike = Some(Shift { first, last: end - 1, beside });
        }
        facing
    }

    /// The overlapped sectors that the written sectors `first..end` cover: the first, and the first after the
    /// last.
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

    /// The last written sector beside an overlapped sector that follows the start of the written track.
    #[inline]
    fn last_beside(&self, behind: u64) -> u64 {
        if let Some(shift) = &self.alike {
            return behind.wrapping_add(shift.beside);
        }
        let end = (u128::from(behind + 1) << 64) - self.begun;
        ((end * u128::from(self.written) - 1) >> 64) as u64 / self.behind
    }

    /// The same sector, numbered in the revolution in which its last neighbour is on the written track.
    #[inline]
    fn in_first_revolution(&self, sector: u64) -> u64 {
        if u128::from(sector + 1) << 64 > self.begun { sector } else { sector + self.behind }
    }
}

/// The sources of a run of destroyed sectors, given those of its first and last sector.
#[derive(Clone, Copy, Debug)]
pub struct Sources {
    first_source: u64,
    last_source: u64,
    /// For tracks of different sizes: their [`Facing`], the number of the first destroyed sector, and what to
    /// add to a sector's number on the written track to get its address.
    of_different_sizes: Option<(Facing, u64, u64)>,
}

impl Sources {
    /// The sources of the sectors from `start` on, all on one track.
    #[inline]
    pub fn new(geometry: &Geometry, start: Pba, first_source: Pba, last_source: Pba) -> Self {
        let alike = Self {
            first_source: first_source.get(),
            last_source: last_source.get(),
            of_different_sizes: None,
        };
        if first_source == last_source || geometry.are_alike(first_source, start) {
            return alike;
        }
        alike.between(&geometry.track_of(first_source), &geometry.track_of(start), start)
    }

    /// The same between tracks of different sizes.
    #[cold]
    fn between(self, on: &Track, behind: &Track, start: Pba) -> Self {
        let facing = Facing::new(on, behind);
        let sector = u64::from(behind.first_sector) + (start - behind.start).get();
        let add = on.start.get().wrapping_sub(on.first_sector.into());
        Self { of_different_sizes: Some((facing, facing.in_first_revolution(sector), add)), ..self }
    }

    /// The source of the sector `offset` sectors after the first.
    #[inline]
    pub fn at(&self, offset: u64) -> Pba {
        let natural = match self.of_different_sizes {
            _ if self.first_source == self.last_source => self.last_source,
            None => self.first_source + offset,
            Some((facing, first, add)) => facing.last_beside(first + offset).wrapping_add(add),
        };
        Pba(natural.min(self.last_source))
    }

    /// Visits the runs of contiguous sources among the first `len` sectors: offset, length, and first source.
    /// Tracks of equal size give a single run; at the edge of a recording zone there is one run for each
    /// sector by which the tracks differ.
    pub fn visit_runs(&self, len: u64, visit: &mut impl FnMut(u64, u64, Pba)) {
        let mut offset = 0;
        while offset < len {
            let source = self.at(offset);
            let mut run = 1;
            if self.of_different_sizes.is_none() && source.get() < self.last_source {
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

    /// One surface with consecutive tracks of these sizes in sectors.
    fn disk(sizes: &[u32], skew: f64) -> Geometry {
        let zones: Vec<_> =
            sizes.iter().map(|&sectors_per_track| RecordingZone { tracks: 1, sectors_per_track }).collect();
        let skews = Skews { track: Angle::from_revolutions(skew), ..Skews::default() };
        Geometry::new(&segments(Layout::Cylinder, &zones, 1, skews)).unwrap_or_else(|error| panic!("{error}"))
    }

    /// What a write of the first track destroys on the second: (first sector, sectors, first source, last
    /// source).
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
    fn a_position_equal_to_the_skew_covers_the_first_sector_of_the_next_track() {
        let geometry = disk(&[10, 10], 0.3);
        assert_eq!(destroyed_by(&geometry, 3, 1), [(0, 1, 3, 3)]);
        assert_eq!(destroyed_by(&geometry, 2, 1), [(9, 1, 2, 2)]);
        assert_eq!(destroyed_by(&geometry, 0, 10), [(7, 3, 0, 2), (0, 7, 3, 9)]);
    }

    #[test]
    fn any_shared_angle_destroys_and_the_source_is_the_last_written_sector() {
        let geometry = disk(&[10, 10], 0.05);
        assert_eq!(destroyed_by(&geometry, 3, 1), [(2, 2, 3, 3)]);
        assert_eq!(destroyed_by(&geometry, 3, 2), [(2, 3, 3, 4)]);
        // The sector beside both the first and the last written sector gets the data of the last.
        assert_eq!(destroyed_by(&geometry, 0, 10), [(0, 10, 1, 9)]);
    }

    #[test]
    fn tracks_of_different_sizes_are_covered_by_angle() {
        assert_eq!(destroyed_by(&disk(&[10, 5], 0.0), 3, 1), [(1, 1, 3, 3)]);
        assert_eq!(destroyed_by(&disk(&[5, 10], 0.0), 1, 2), [(2, 4, 1, 2)]);
        assert_eq!(destroyed_by(&disk(&[4, 3], 0.0), 1, 1), [(0, 2, 1, 1)]);
    }

    proptest! {
        /// Between tracks of equal size, the constant shift agrees with the general rule.
        #[test]
        fn the_shift_agrees_with_the_general_rule(
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
            let number = general.in_first_revolution(behind);
            prop_assert_eq!(shifted.last_beside(number), general.last_beside(number));
        }
    }
}
