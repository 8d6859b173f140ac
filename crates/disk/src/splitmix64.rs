//! SplitMix64: pseudorandom numbers by seed and index.
//!
//! Invariant: a pure function; the same seed and index give the same number on every machine.
//! Source: SplitMix64 of Steele, Lea and Flood, "Fast splittable pseudorandom number generators" (OOPSLA
//! 2014).

/// The increment of SplitMix64's state for each number.
pub const SPLITMIX64_STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The number at `index`, counted from 0, of the sequence of `seed`.
///
/// ```
/// use skylight_disk::{SPLITMIX64_STEP, splitmix64};
/// assert_eq!(splitmix64(0, 0), 0xe220_a839_7b1d_cdaf);
/// assert_eq!(splitmix64(7, 1), splitmix64(SPLITMIX64_STEP.wrapping_add(7), 0));
/// ```
#[inline]
pub fn splitmix64(seed: u64, index: u64) -> u64 {
    let mixed = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(SPLITMIX64_STEP));
    let mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
