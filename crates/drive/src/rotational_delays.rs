//! The rotations of the SPTF queue: how far the platters turn until each of many candidates passes the heads, if the
//! arm can be there in time.
//!
//! Candidates are stored in rows of [`LANES`], in no order. All rows are processed, several candidates at a time and
//! without branches that could be mispredicted.
//!
//! Invariants: a rotation is the exact one, truncated to 29 bits of a revolution; it is [`TOO_LATE`] only if the arm
//! cannot be there ([`SeekFloor`] is never above the exact time); no two rotations are equal.

use skylight_disk::{Angle, SeekFloor};

/// Candidates per row: a fixed length, so that the compiler can use SIMD instructions.
const LANES: usize = 8;

/// The data of some candidates that a choice processes.
#[derive(Clone, Copy)]
struct Row {
    /// The upper half of the angle.
    angle: [u32; LANES],
    /// The track; [`SeekFloor::OUT_OF_REACH`] for a candidate that is unused or not on the platters.
    track: [f32; LANES],
    /// The settling of a write: see [`SeekFloor::settle`].
    settle: [f32; LANES],
    /// Output of a choice: the rotation until the candidate passes, in 29 bits of a revolution, with the
    /// candidate's index in the low bits; [`TOO_LATE`] if the arm is not there in time. They are the bits of a
    /// float: positive floats are in the order of their bits, and all of x86-64 has an instruction for the
    /// lesser of floats, but not for that of integers.
    rotation: [f32; LANES],
}

/// Set in all bits of `rotation`, so that none is a denormal float, which a processor may take for zero.
const NORMAL: u32 = 1 << 29;

/// Above all others: the bits of 2.0 are 2^30.
const TOO_LATE: f32 = 2.0;

#[inline]
fn lesser(a: f32, b: f32) -> f32 {
    if a < b { a } else { b }
}

#[inline]
fn greater(a: f32, b: f32) -> f32 {
    if a > b { a } else { b }
}

/// The rotation, with the heads at an angle and on a track, of a candidate at a place (angle, track, settling), with its
/// index in the bits of the mask.
#[inline(always)]
fn rotation(
    floor: SeekFloor,
    (from, track): (u32, f32),
    (angle, to, settle): (u32, f32, f32),
    (index_mask, index): (u32, u32),
) -> f32 {
    let ahead = angle.wrapping_sub(from);
    let in_time = (ahead >> 8) as i32 as f32 >= floor.between(track, to, settle);
    let rotation = f32::from_bits(((ahead >> 3) & !index_mask) | (NORMAL + index));
    if in_time { rotation } else { TOO_LATE }
}

/// The least of the lanes. They are halved, since in a chain each comparison would wait for the one before.
#[inline]
fn least(mut lanes: [f32; LANES]) -> f32 {
    let mut width = LANES;
    while width > 1 {
        width /= 2;
        for lane in 0..width {
            lanes[lane] = lesser(lanes[lane + width], lanes[lane]);
        }
    }
    lanes[0]
}

/// A row without candidates.
const EMPTY: Row = Row {
    angle: [0; LANES],
    track: [SeekFloor::OUT_OF_REACH; LANES],
    settle: [0.0; LANES],
    rotation: [TOO_LATE; LANES],
};

/// A candidate that came since the last choice.
#[derive(Clone, Copy)]
struct Newest {
    index: usize,
    angle: u32,
    track: f32,
    settle: f32,
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Rotations {
    rows: Vec<Row>,
    /// Not in its row yet: a choice reads rows in wider words than one lane is written in, which waits for the write.
    newest: Option<Newest>,
    /// Mask of the bits of `rotation` that contain the index.
    index_mask: u32,
}

impl Rotations {
    /// Stores where a candidate passes the heads, and the settling of a write.
    #[inline]
    pub(crate) fn set(&mut self, index: usize, angle: Angle, track: f32, settle: f32) {
        if let Some(before) =
            self.newest.replace(Newest { index, angle: (angle.0 >> 32) as u32, track, settle })
        {
            self.store(before);
        }
        if index / LANES >= self.rows.len() {
            self.rows.resize(index / LANES + 1, EMPTY);
            self.index_mask = ((self.rows.len() * LANES).next_power_of_two() - 1) as u32;
        }
    }

    #[inline]
    fn store(&mut self, Newest { index, angle, track, settle }: Newest) {
        let (row, lane) = (&mut self.rows[index / LANES], index % LANES);
        row.angle[lane] = angle;
        row.track[lane] = track;
        row.settle[lane] = settle;
    }

    /// How many candidates there is space for.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.rows.len() * LANES
    }

    /// Removes a candidate.
    #[inline]
    pub(crate) fn clear(&mut self, index: usize) {
        if self.newest.is_some_and(|newest| newest.index == index) {
            self.newest = None;
            return;
        }
        self.rows[index / LANES].track[index % LANES] = SeekFloor::OUT_OF_REACH;
    }

    /// Computes the rotations from an angle on, with the heads on `track`; returns the first and the second, which nearly
    /// always shows that no other candidate is as near.
    #[inline]
    pub(crate) fn compute(&mut self, floor: SeekFloor, from: Angle, track: u32) -> [f32; 2] {
        let [first, second] = self.compute_rows(floor, from, track);
        let Some(newest) = self.newest.take() else {
            return [first, second];
        };
        self.store(newest);
        let index = newest.index;
        let heads = ((from.0 >> 32) as u32, track as f32);
        let place = (newest.angle, newest.track, newest.settle);
        let rotation = rotation(floor, heads, place, (self.index_mask, index as u32));
        self.rows[index / LANES].rotation[index % LANES] = rotation;
        [lesser(rotation, first), lesser(greater(first, rotation), second)]
    }

    #[inline]
    fn compute_rows(&mut self, floor: SeekFloor, from: Angle, track: u32) -> [f32; 2] {
        #[cfg(target_arch = "x86_64")]
        if std::arch::is_x86_feature_detected!("avx2") {
            // SAFETY: the processor has what the function is compiled for.
            return unsafe { self.compute_with_avx2(floor, from, track) };
        }
        self.compute_of_lanes(floor, from, track)
    }

    /// The same with a row's lanes in one register: a command at depth 31 takes 7 to 12 % fewer instructions than with
    /// what all of x86-64 has, and 2 to 4 % less time.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn compute_with_avx2(&mut self, floor: SeekFloor, from: Angle, track: u32) -> [f32; 2] {
        self.compute_of_lanes(floor, from, track)
    }

    #[inline(always)]
    fn compute_of_lanes(&mut self, floor: SeekFloor, from: Angle, track: u32) -> [f32; 2] {
        let (from, track, index_mask) = ((from.0 >> 32) as u32, track as f32, self.index_mask);
        let (mut first, mut firsts, mut seconds) = (0, [TOO_LATE; LANES], [TOO_LATE; LANES]);
        for row in &mut self.rows {
            for lane in 0..LANES {
                let place = (row.angle[lane], row.track[lane], row.settle[lane]);
                let rotation = rotation(floor, (from, track), place, (index_mask, first + lane as u32));
                row.rotation[lane] = rotation;
                seconds[lane] = lesser(greater(firsts[lane], rotation), seconds[lane]);
                firsts[lane] = lesser(rotation, firsts[lane]);
            }
            first += LANES as u32;
        }
        let first = least(firsts);
        for (second, of_lane) in seconds.iter_mut().zip(firsts) {
            *second = if of_lane == first { *second } else { of_lane };
        }
        [first, least(seconds)]
    }

    /// The first rotation after another one; no two are equal. To clear the one that was looked at would be slower: the
    /// rows are read in wider words, which waits for such a write.
    #[inline]
    pub(crate) fn first_after(&self, after: f32) -> f32 {
        let mut firsts = [TOO_LATE; LANES];
        for row in &self.rows {
            for (first, &rotation) in firsts.iter_mut().zip(&row.rotation) {
                *first = lesser(if rotation > after { rotation } else { TOO_LATE }, *first);
            }
        }
        least(firsts)
    }

    /// The candidate that has a rotation, and the angle until it passes: slightly too small, or very slightly too large.
    #[inline]
    pub(crate) fn candidate_at(&self, rotation: f32) -> Option<(usize, Angle)> {
        let (bits, mask) = (rotation.to_bits() - NORMAL, self.index_mask);
        (rotation != TOO_LATE).then_some(((bits & mask) as usize, Angle(u64::from(bits & !mask) << 35)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{Kind, random_profile};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_and_the_second_are_those_of_all_with_each_instruction_set(
            candidates in prop::collection::vec((any::<u64>(), 0.0f32..200_000.0, any::<bool>(), any::<bool>()), 0..70),
            from in any::<u64>(),
            track in 0u32..200_000,
        ) {
            let text = random_profile(1, Some(Kind::Conventional)).unwrap();
            let drive = crate::Drive::new(&crate::profile::Profile::from_toml(&text, "random").unwrap(), 1).unwrap();
            let floor = drive.disk().seek_floor();
            let mut rotations = Rotations::default();
            for (index, &(angle, track, write, gone)) in candidates.iter().enumerate() {
                rotations.set(index, Angle(angle), track, floor.settle(write));
                if gone {
                    rotations.clear(index);
                }
            }
            let found = rotations.compute(floor, Angle(from), track);
            let stored: Vec<f32> = rotations.rows.iter().flat_map(|row| row.rotation).collect();
            let mut sorted = stored.clone();
            sorted.extend([TOO_LATE; 2]);
            sorted.sort_by(f32::total_cmp);
            prop_assert_eq!(found, [sorted[0], sorted[1]]);
            prop_assert_eq!(rotations.first_after(found[0]), found[1]);
            for (index, _) in candidates.iter().enumerate().filter(|(_, candidate)| candidate.3) {
                prop_assert_eq!(stored[index], TOO_LATE);
            }
            prop_assert_eq!(rotations.compute_of_lanes(floor, Angle(from), track), found);
            let again: Vec<f32> = rotations.rows.iter().flat_map(|row| row.rotation).collect();
            prop_assert_eq!(again, stored);
        }
    }
}
