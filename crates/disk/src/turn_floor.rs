//! How far the platters turn at least while the arm goes some way: a few straight lines below the seek curve.
//!
//! A scheduler that chooses among many asks this of each of them, so the answer is made of what a processor does to
//! several numbers at a time: no table is looked up, and nothing is decided.
//!
//! Invariant: never more than the turn in the time that the arm takes, whatever the distance.

use crate::units::Nanos;

/// Straight pieces behind the first, shortest distances. They lie closer where the curve bends more.
const PIECES: usize = 4;

/// Of a turn in units of [`TurnFloor::TURN`]: what the rounding of times to nanoseconds and of numbers to 24 bits may
/// make of it, many times over.
const SLACK: f32 = 256.0;

#[derive(Clone, Copy, Debug, Default)]
struct Line {
    at_none: f32,
    by_track: f32,
}

impl Line {
    #[inline]
    fn at(self, distance: f32) -> f32 {
        self.at_none + self.by_track * distance
    }
}

/// See the module page.
#[derive(Clone, Copy, Debug)]
pub struct TurnFloor {
    /// Of the first distances, which no time is assumed for: beyond them it is far above the others.
    near: Line,
    far: [Line; PIECES],
    write_settle: f32,
}

#[inline]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

impl TurnFloor {
    /// A turn, in the units of what this gives.
    pub const TURN: f32 = 16_777_216.0;
    /// Where a track would be that the arm never reaches in time.
    pub const OUT_OF_REACH: f32 = 1e30;

    /// From the least time of any distance in each of some buckets, so many tracks wide, and the time that a write
    /// waits longer once the arm has moved.
    pub(crate) fn new(least: &[Nanos], bucket_tracks: u32, write_settle: Nanos, turn: Nanos) -> Self {
        let turns = |time: Nanos| (time.get() as f64 / turn.get() as f64 * f64::from(Self::TURN)) as f32;
        let near = Line { at_none: -Self::TURN * bucket_tracks as f32, by_track: Self::TURN };
        let knot = |piece: usize| 1 + (least.len().saturating_sub(2)) * piece * piece / (PIECES * PIECES);
        let far = std::array::from_fn(|piece| {
            let (first, last) = (knot(piece), knot(piece + 1).min(least.len() - 1));
            let tracks = |bucket: usize| bucket as f32 * bucket_tracks as f32;
            let floor = |bucket: usize| turns(least[bucket.min(least.len() - 1)]);
            // Never flat, so that nothing is near the track that is out of reach.
            let by_track = ((floor(last) - floor(first)) / tracks(last - first).max(1.0)).max(1e-6);
            let below = |bucket| floor(bucket) - by_track * tracks(bucket + 1);
            let at_none = (first..=last).map(below).fold(f32::INFINITY, lesser);
            Line { at_none: at_none - SLACK, by_track }
        });
        Self { near, far, write_settle: turns(write_settle) }
    }

    /// What a write settles, to be added to the way of the arm; nothing for a read.
    pub fn settle(&self, write: bool) -> f32 {
        if write { self.write_settle } else { 0.0 }
    }

    /// The least turn while the arm goes from one track to another and settles.
    #[inline]
    pub fn between(&self, from: f32, to: f32, settle: f32) -> f32 {
        let distance = (to - from).abs();
        let [first, rest @ ..] = self.far;
        let far = rest.iter().fold(first.at(distance), |least, line| lesser(least, line.at(distance)));
        lesser(self.near.at(distance), far + settle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seek::{SeekCurve, SeekTable};
    use proptest::prelude::*;

    /// How much the curve lies above the floor on average, as a share of a turn.
    fn looseness(curve: &SeekCurve, tracks: u32, turn: Nanos) -> f32 {
        let table = SeekTable::new(curve.clone(), tracks);
        let floor = table.turn_floor(Nanos(0), turn);
        let distances = (0..1000).map(|step| tracks / 1000 * step);
        let above = distances.map(|distance| {
            let turned = curve.time(distance).get() as f32 / turn.get() as f32;
            turned - floor.between(0.0, distance as f32, 0.0).max(0.0) / TurnFloor::TURN
        });
        above.sum::<f32>() / 1000.0
    }

    proptest! {
        #[test]
        fn the_arm_is_never_faster(
            steps in prop::collection::vec((1u32..5000, 0u32..20_000_000), 1..60),
            tracks in 1u32..300_000,
            (from, to) in (0.0f64..1.0, 0.0f64..1.0),
            settle_ns in 0u64..2_000_000,
            turn_ns in 4_000_000u64..15_000_000,
        ) {
            let mut distance = 0;
            let points = steps.iter().map(|&(step, ns)| {
                distance += step;
                (distance, ns)
            });
            let curve = SeekCurve::Points(points.collect());
            let floor = SeekTable::new(curve.clone(), tracks).turn_floor(Nanos(settle_ns), Nanos(turn_ns));
            let (from, to) = ((from * f64::from(tracks)) as u32, (to * f64::from(tracks)) as u32);
            for write in [false, true] {
                let least = floor.between(from as f32, to as f32, floor.settle(write));
                let settles = if write && from != to { settle_ns } else { 0 };
                let takes_ns = curve.time(from.abs_diff(to)).get() + settles;
                prop_assert!(f64::from(least) <= takes_ns as f64 / turn_ns as f64 * f64::from(TurnFloor::TURN));
            }
            let never = floor.between(from as f32, TurnFloor::OUT_OF_REACH, 0.0);
            prop_assert!(never > TurnFloor::TURN, "{}", never);
        }
    }

    #[test]
    fn it_is_close_to_a_curve_of_the_usual_form() {
        let curve = SeekCurve::Fitted { constant_ns: 1e6, root_ns: 30e3, linear_ns: 10.0 };
        let loose = looseness(&curve, 200_000, Nanos(10_000_000));
        assert!((0.0..0.03).contains(&loose), "{loose}");
    }
}
