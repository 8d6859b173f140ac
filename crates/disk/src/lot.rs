//! Numbers drawn from a seed, by their place in the sequence.
//!
//! Invariant: a pure function; the same seed and place give the same number on every machine.
//! Source: SplitMix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA 2014).

/// By how much SplitMix64's state moves on with each number.
pub const LOT_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number at a place, from 0, of the sequence of a seed.
///
/// ```
/// use skylight_disk::{LOT_STEP, lot};
/// assert_eq!(lot(0, 0), 0xe220_a839_7b1d_cdaf);
/// assert_eq!(lot(7, 1), lot(LOT_STEP.wrapping_add(7), 0));
/// ```
#[inline]
pub fn lot(seed: u64, place: u64) -> u64 {
    let mixed = seed.wrapping_add(place.wrapping_add(1).wrapping_mul(LOT_STEP));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
