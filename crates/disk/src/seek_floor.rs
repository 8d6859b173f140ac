//! A lower bound on the rotation during a seek: a few straight lines below the seek curve.
//!
//! A scheduler evaluates this bound for every candidate, so it uses only arithmetic that the compiler can
//! vectorize: no table look-ups and no branches.
//!
//! Invariant: the bound never exceeds the rotation in the actual seek time, at any distance.

use crate::units::Nanos;

/// Lines beyond the shortest distances. They are closer together where the curve bends more.
const PIECES: usize = 4;

/// Lines over the first bucket of distances, in equal ratios of distance. Without them nothing rules out a candidate that is near
/// and passes in the next millisecond or two, and a choice among neighbouring zones examines each of these.
const CLOSE_PIECES: usize = 2;

/// Margin in units of 1 / [`SeekFloor::REVOLUTION`], many times the error from rounding times to nanoseconds
/// and numbers to 24 bits.
const SLACK: f32 = 256.0;

#[derive(Clone, Copy, Debug, Default)]
struct Bound {
    at_zero: f32,
    per_track: f32,
}

impl Bound {
    #[inline]
    fn at(self, distance: f32) -> f32 {
        self.at_zero + self.per_track * distance
    }
}

/// See the module documentation.
#[derive(Clone, Copy, Debug)]
pub struct SeekFloor {
    /// From the shortest distances to the longest.
    lines: [Bound; CLOSE_PIECES + PIECES],
    write_settle: f32,
}

/// A line below the seek time over the distances from `first` to `last`; `times` are those from 1 on.
fn line_below(times: &[Nanos], first: usize, last: usize, rotation: impl Fn(Nanos) -> f32) -> Bound {
    let time =
        |distance: usize| rotation(times.get(distance - 1).or(times.last()).copied().unwrap_or_default());
    let per_track = ((time(last) - time(first)) / (last - first).max(1) as f32).max(1e-6);
    let at_zero = (first..=last).map(|distance| time(distance) - per_track * distance as f32);
    Bound { at_zero: at_zero.fold(f32::INFINITY, min) - SLACK, per_track }
}

#[inline]
fn min(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

impl SeekFloor {
    /// One revolution, in the unit of all results.
    pub const REVOLUTION: f32 = 16_777_216.0;
    /// A track number that the arm never reaches in time.
    pub const OUT_OF_REACH: f32 = 1e30;

    /// Builds the bound from the seek times of the distances from 1 to `bucket_tracks`, the minimum in each bucket of as many
    /// distances, and the additional settling time of a write after a move.
    pub(crate) fn new(
        close: &[Nanos],
        minima: &[Nanos],
        bucket_tracks: u32,
        write_settle: Nanos,
        revolution: Nanos,
    ) -> Self {
        let rotation =
            |time: Nanos| (time.get() as f64 / revolution.get() as f64 * f64::from(Self::REVOLUTION)) as f32;
        let knot = |piece: usize| 1 + (minima.len().saturating_sub(2)) * piece * piece / (PIECES * PIECES);
        let far: [Bound; PIECES] = std::array::from_fn(|piece| {
            let (first, last) = (knot(piece), knot(piece + 1).min(minima.len() - 1));
            let tracks = |bucket: usize| bucket as f32 * bucket_tracks as f32;
            let floor = |bucket: usize| rotation(minima[bucket.min(minima.len() - 1)]);
            // Never flat, so that [`SeekFloor::OUT_OF_REACH`] is beyond every bound.
            let per_track = ((floor(last) - floor(first)) / tracks(last - first).max(1.0)).max(1e-6);
            let below = |bucket| floor(bucket) - per_track * tracks(bucket + 1);
            let at_zero = (first..=last).map(below).fold(f32::INFINITY, min);
            Bound { at_zero: at_zero - SLACK, per_track }
        });
        let ends: [usize; CLOSE_PIECES + 1] = std::array::from_fn(|piece| {
            f64::from(bucket_tracks).powf(piece as f64 / CLOSE_PIECES as f64) as usize
        });
        let lines = std::array::from_fn(|piece| match piece.checked_sub(CLOSE_PIECES) {
            Some(piece) => far[piece],
            None => line_below(close, ends[piece], ends[piece + 1], rotation),
        });
        Self { lines, write_settle: rotation(write_settle) }
    }

    /// The settling of a write, to be passed to [`SeekFloor::between`]; zero for a read.
    pub fn settle(&self, write: bool) -> f32 {
        if write { self.write_settle } else { 0.0 }
    }

    /// Lower bound on the rotation while the arm moves from one track to another and settles.
    #[inline]
    pub fn between(&self, from: f32, to: f32, settle: f32) -> f32 {
        let distance = (to - from).abs();
        let [first, rest @ ..] = self.lines;
        let least = rest.iter().fold(first.at(distance), |least, bound| min(least, bound.at(distance)));
        // No seek takes no time; from one track on this is above all lines.
        min(Self::REVOLUTION * distance, least + settle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seek::{SeekCurve, SeekTable};
    use proptest::prelude::*;

    /// Mean distance of the curve above the bound, as a fraction of a revolution.
    fn looseness(curve: &SeekCurve, tracks: u32, revolution: Nanos) -> f32 {
        let table = SeekTable::new(curve.clone(), tracks);
        let floor = table.seek_floor(Nanos(0), revolution);
        let distances = (0..1000).map(|step| tracks / 1000 * step);
        let above = distances.map(|distance| {
            let rotation = curve.time(distance).get() as f32 / revolution.get() as f32;
            rotation - floor.between(0.0, distance as f32, 0.0).max(0.0) / SeekFloor::REVOLUTION
        });
        above.sum::<f32>() / 1000.0
    }

    proptest! {
        #[test]
        fn the_bound_never_exceeds_the_seek(
            steps in prop::collection::vec((1u32..5000, 0u32..20_000_000), 1..60),
            tracks in 1u32..300_000,
            (from, to) in (0.0f64..1.0, 0.0f64..1.0),
            settle_ns in 0u64..2_000_000,
            revolution_ns in 4_000_000u64..15_000_000,
        ) {
            let mut distance = 0;
            let points = steps.iter().map(|&(step, ns)| {
                distance += step;
                (distance, ns)
            });
            let curve = SeekCurve::Points(points.collect());
            let floor = SeekTable::new(curve.clone(), tracks).seek_floor(Nanos(settle_ns), Nanos(revolution_ns));
            let (from, to) = ((from * f64::from(tracks)) as u32, (to * f64::from(tracks)) as u32);
            for write in [false, true] {
                let least = floor.between(from as f32, to as f32, floor.settle(write));
                let settles = if write && from != to { settle_ns } else { 0 };
                let takes_ns = curve.time(from.abs_diff(to)).get() + settles;
                prop_assert!(f64::from(least) <= takes_ns as f64 / revolution_ns as f64 * f64::from(SeekFloor::REVOLUTION));
            }
            let never = floor.between(from as f32, SeekFloor::OUT_OF_REACH, 0.0);
            prop_assert!(never > SeekFloor::REVOLUTION, "{}", never);
        }
    }

    #[test]
    fn the_bound_is_close_at_short_distances() {
        // The arm of wsh722020al, whose first bucket has 1,024 distances.
        let points =
            [(1, 340_000), (35, 1_106_000), (673, 1_873_000), (1494, 1_991_000), (674_199, 15_380_000)];
        let curve = SeekCurve::Points(points.to_vec());
        let revolution = Nanos(8_333_333);
        let floor = SeekTable::new(curve.clone(), 674_200).seek_floor(Nanos(0), revolution);
        let above = (1..1024).map(|distance| {
            let rotation = curve.time(distance).get() as f32 / revolution.get() as f32;
            rotation - floor.between(0.0, distance as f32, 0.0).max(0.0) / SeekFloor::REVOLUTION
        });
        let loose = above.sum::<f32>() / 1023.0;
        assert!((0.0..0.03).contains(&loose), "{loose}");
        assert_eq!(floor.between(7.0, 7.0, floor.settle(true)), 0.0, "no move takes no time");
    }

    #[test]
    fn the_bound_is_close_to_a_fitted_curve() {
        let curve = SeekCurve::Fitted { constant_ns: 1e6, root_ns: 30e3, linear_ns: 10.0 };
        let loose = looseness(&curve, 200_000, Nanos(10_000_000));
        assert!((0.0..0.03).contains(&loose), "{loose}");
    }
}
