//! Draws: one named stream of random numbers for each property, and rounding to human-readable numbers.
//!
//! Invariants: the draw of one property does not depend on the other properties, so that adding a property
//! changes nothing else in the drive of a seed; only correctly rounded arithmetic is used, so that a seed
//! gives the same text on every machine.

use rand_core::Rng;

use super::ranges::{Chance, Range, Scale};
use crate::jitter::substream;

/// The draws of one seed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draws {
    pub seed: u64,
}

impl Draws {
    /// Uniform in [0, 1).
    pub fn unit(&self, name: &str) -> f64 {
        let bits = substream(self.seed, &format!("random.{name}")).next_u64();
        (bits >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A value from a range.
    pub fn number(&self, range: &Range) -> f64 {
        at(range, self.unit(range.name))
    }

    /// A value from a range for the property with this index, if a drive has several.
    pub fn nth(&self, range: &Range, index: u32) -> f64 {
        at(range, self.unit(&format!("{}.{index}", range.name)))
    }

    /// Whether the drive has a property.
    pub fn chance(&self, chance: &Chance) -> bool {
        self.unit(chance.name) < chance.part
    }

    /// One of several values, all equally likely.
    pub fn choice<T: Copy>(&self, name: &str, from: &[T]) -> T {
        let index = (self.unit(name) * from.len() as f64) as usize;
        from[index.min(from.len() - 1)]
    }
}

fn at(range: &Range, unit: f64) -> f64 {
    let Range { low, high, .. } = *range;
    let drawn = match range.scale {
        Scale::Linear => low + (high - low) * unit,
        Scale::Log => low * power(high / low, unit),
        Scale::Whole => (low + (high - low + 1.0) * unit).floor(),
    };
    rounded(drawn, range.digits).clamp(low, high)
}

/// `base` to the power of `unit`, 0 to 1, using only square roots: the library's power function may differ in
/// the last bit between machines.
fn power(base: f64, unit: f64) -> f64 {
    let (mut result, mut root, mut rest) = (1.0, base, unit);
    for _ in 0..40 {
        root = root.sqrt();
        rest *= 2.0;
        if rest >= 1.0 {
            rest -= 1.0;
            result *= root;
        }
    }
    result
}

/// Rounds to `digits` significant digits.
pub(super) fn rounded(value: f64, digits: usize) -> f64 {
    format!("{value:.*e}", digits.saturating_sub(1)).parse().unwrap_or(value)
}

/// Rounds up to `digits` significant digits.
pub(super) fn rounded_up(value: f64, digits: usize) -> f64 {
    let nearest = rounded(value, digits);
    if nearest >= value {
        return nearest;
    }
    let scientific = format!("{nearest:e}");
    let exponent: i32 = scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or(0);
    rounded(nearest + 10f64.powi(exponent + 1 - digits as i32), digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn powers_are_powers() {
        for unit in [0.0, 0.1, 0.25, 0.5, 0.77, 0.999_999] {
            let (ours, theirs) = (power(300.0, unit), 300f64.powf(unit));
            assert!((ours / theirs - 1.0).abs() < 1e-9, "{unit}: {ours} {theirs}");
        }
    }

    #[test]
    fn rounding_keeps_digits_and_never_rounds_up_down() {
        assert_eq!(rounded(3_941_234.0, 3), 3_940_000.0);
        assert_eq!(rounded_up(3_941_234.0, 3), 3_950_000.0);
        assert_eq!(rounded_up(3_940_000.0, 3), 3_940_000.0);
        for step in 0..10_000 {
            let value = 1000.0 + 7.77 * f64::from(step);
            let up = rounded_up(value, 3);
            assert!(up >= value && up <= value * 1.02, "{value} {up}");
        }
    }
}
