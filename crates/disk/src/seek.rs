//! Seek time by distance: the curve as given, and a table for repeated look-ups.
//!
//! Invariant: the table and [`SeekCurve::time`] give the same nanosecond for every distance.
//! Source: the form of a fitted curve after Ruemmler and Wilkes, "An introduction to disk drive modeling"
//! (IEEE Computer, 1994).

use crate::seek_floor::SeekFloor;
use crate::units::Nanos;

/// Seek time by distance in tracks.
#[derive(Clone, Debug)]
pub enum SeekCurve {
    /// `constant + root * sqrt(d) + linear * d`, in nanoseconds, for a distance `d` of 1 or more.
    Fitted {
        /// Nanoseconds that every seek takes.
        constant_ns: f64,
        /// Nanoseconds per square root of the distance in tracks.
        root_ns: f64,
        /// Nanoseconds per track.
        linear_ns: f64,
    },
    /// Measured points `(tracks, ns)` with increasing distance, joined by straight lines.
    Points(Vec<(u32, u32)>),
}

impl SeekCurve {
    /// Seek time over `distance` tracks; zero for zero tracks.
    #[inline]
    pub fn time(&self, distance: u32) -> Nanos {
        if distance == 0 {
            return Nanos(0);
        }
        match self {
            Self::Fitted { constant_ns, root_ns, linear_ns } => {
                let d = f64::from(distance);
                Nanos((constant_ns + root_ns * d.sqrt() + linear_ns * d) as u64)
            }
            Self::Points(points) => {
                let after = points.partition_point(|&(d, _)| d < distance);
                Line::to(points, after).map_or(Nanos(0), |line| line.time(distance))
            }
        }
    }
}

/// A straight segment of a measured curve.
#[derive(Clone, Copy, Debug)]
struct Line {
    from: u32,
    from_ns: f64,
    slope_ns: f64,
}

impl Line {
    /// The segment that ends at point `after`: constant before the first point and beyond the last.
    fn to(points: &[(u32, u32)], after: usize) -> Option<Self> {
        let &(far, far_ns) = points.get(after).or(points.last())?;
        let before = after.checked_sub(1).and_then(|index| points.get(index));
        Some(match before {
            Some(&(near, near_ns)) if near < far => {
                let rise_ns = f64::from(far_ns) - f64::from(near_ns);
                Self { from: near, from_ns: near_ns.into(), slope_ns: rise_ns / f64::from(far - near) }
            }
            _ => Self { from: 0, from_ns: far_ns.into(), slope_ns: 0.0 },
        })
    }

    // The result fits in 32 bits, and the narrower conversion is cheaper.
    #[inline]
    fn time(&self, distance: u32) -> Nanos {
        let seek_ns = (self.from_ns + self.slope_ns * f64::from(distance - self.from)) as u32;
        Nanos(seek_ns.into())
    }
}

/// A straight segment and the last distance on it.
#[derive(Clone, Copy, Debug)]
struct Piece {
    end: u32,
    line: Line,
}

/// A curve prepared for look-ups: the segments of a measured curve, indexed by buckets of distances.
#[derive(Clone, Debug)]
pub(crate) struct SeekTable {
    curve: SeekCurve,
    /// The first covers distance 0 and takes no time; the last has no upper limit.
    pieces: Vec<Piece>,
    /// The first segment of each bucket; empty for a fitted curve.
    hints: Vec<u32>,
    /// The segment of each distance in the first bucket, where segments are short.
    close: Vec<u32>,
    buckets: u32,
    hint_shift: u32,
}

/// Buckets of a table. Chosen, because no measured curve has more points that matter.
const BUCKETS: u32 = 1024;

impl SeekTable {
    /// Prepares a curve for distances up to `tracks`.
    pub(crate) fn new(curve: SeekCurve, tracks: u32) -> Self {
        let points: &[(u32, u32)] = match &curve {
            SeekCurve::Points(points) => points,
            SeekCurve::Fitted { .. } => &[],
        };
        let zero = Piece { end: 0, line: Line { from: 0, from_ns: 0.0, slope_ns: 0.0 } };
        let ends = points.iter().map(|&(distance, _)| distance).chain([u32::MAX]);
        let lines = (0..=points.len()).filter_map(|after| Line::to(points, after));
        let measured = ends.zip(lines).map(|(end, line)| Piece { end, line });
        let pieces: Vec<Piece> = std::iter::once(zero).chain(measured).collect();
        let hint_shift = tracks.div_ceil(BUCKETS).max(1).next_power_of_two().trailing_zeros();
        let buckets = (tracks >> hint_shift) + 1;
        let first_in = |bucket: u32| pieces.partition_point(|piece| piece.end < bucket << hint_shift) as u32;
        let hints = if points.is_empty() { Vec::new() } else { (0..buckets).map(first_in).collect() };
        let piece_of = |distance: u32| pieces.partition_point(|piece| piece.end < distance) as u32;
        let close = if points.is_empty() { Vec::new() } else { (0..1 << hint_shift).map(piece_of).collect() };
        Self { curve, pieces, hints, close, buckets, hint_shift }
    }

    /// The minimum over a bucket. Straight segments and concave curves have it at their ends; for a convex
    /// curve this returns 0, which is a valid lower bound.
    fn floor(&self, bucket: u32) -> Nanos {
        let (first, last) = (bucket << self.hint_shift, ((bucket + 1) << self.hint_shift) - 1);
        let is_convex = matches!(self.curve, SeekCurve::Fitted { root_ns, .. } if root_ns < 0.0);
        if first == 0 || is_convex {
            return Nanos(0);
        }
        let inside = self.pieces.iter().map(|piece| piece.end).filter(|&end| first <= end && end < last);
        let ends = inside.flat_map(|end| [end, end + 1]).chain([first, last]);
        ends.map(|distance| self.curve.time(distance)).min().unwrap_or(Nanos(0))
    }

    /// The bucket of a distance.
    #[inline]
    fn bucket(&self, distance: u32) -> usize {
        (distance >> self.hint_shift) as usize
    }

    /// Lower bound on the rotation during a seek.
    pub(crate) fn seek_floor(&self, write_settle: Nanos, revolution: Nanos) -> SeekFloor {
        let minima: Vec<Nanos> = (0..self.buckets).map(|bucket| self.floor(bucket)).collect();
        let bucket_tracks = 1 << self.hint_shift;
        let close: Vec<Nanos> = (1..=bucket_tracks).map(|distance| self.curve.time(distance)).collect();
        SeekFloor::new(&close, &minima, bucket_tracks, write_settle, revolution)
    }

    /// Seek time over `distance` tracks; zero for zero tracks.
    #[inline]
    pub(crate) fn time(&self, distance: u32) -> Nanos {
        if let Some(&piece) = self.close.get(distance as usize) {
            return self.pieces[piece as usize].line.time(distance);
        }
        let Some(&hint) = self.hints.get(self.bucket(distance)) else {
            return self.curve.time(distance);
        };
        let mut piece = hint as usize;
        while self.pieces[piece].end < distance {
            piece += 1;
        }
        self.pieces[piece].line.time(distance)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_table_agrees_with_its_curve(
            steps in prop::collection::vec((1u32..5000, 0u32..20_000_000), 1..60),
            tracks in 1u32..300_000,
            at in 0.0f64..=1.0,
        ) {
            let mut distance = 0;
            let points = steps.iter().map(|&(step, ns)| {
                distance += step;
                (distance, ns)
            });
            let curve = SeekCurve::Points(points.collect());
            let table = SeekTable::new(curve.clone(), tracks);
            let distance = (f64::from(tracks) * at) as u32;
            prop_assert_eq!(table.time(distance), curve.time(distance));
            prop_assert!(table.floor(table.bucket(distance) as u32) <= curve.time(distance));
        }
    }
}
