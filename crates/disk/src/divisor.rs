//! Division by a divisor known in advance, as one multiplication.
//!
//! Invariant: exact for every numerator `n` with `n * d < 2^64`. Every caller satisfies this: a medium has
//! fewer than 2^42 sectors and a divisor (sectors per track, sectors per band) is below 2^22, or below 2^26
//! on a medium of fewer than 2^38 sectors; tracks and passes are fewer still.
//! Source: Granlund and Montgomery, "Division by invariant integers using multiplication" (PLDI'94).

/// A divisor and its reciprocal.
///
/// ```
/// use skylight_disk::Divisor;
/// assert_eq!(Divisor::new(3).div_rem(11), (3, 2));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Divisor {
    divisor: u64,
    /// Ceiling of 2^64 / divisor; 0 represents 2^64 (divisor 1).
    reciprocal: u64,
}

impl Divisor {
    /// Prepares the division by `divisor`, which must not be zero.
    pub const fn new(divisor: u64) -> Self {
        assert!(divisor != 0);
        let reciprocal = if divisor == 1 { 0 } else { u64::MAX / divisor + 1 };
        Self { divisor, reciprocal }
    }

    /// Quotient and remainder of `n`.
    #[inline]
    pub const fn div_rem(self, n: u64) -> (u64, u64) {
        let quotient =
            if self.reciprocal == 0 { n } else { ((n as u128 * self.reciprocal as u128) >> 64) as u64 };
        (quotient, n - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::Divisor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn agrees_with_hardware_division(n in 0u64..1 << 42, d in 1u64..1 << 22) {
            prop_assert_eq!(Divisor::new(d).div_rem(n), (n / d, n % d));
        }

        #[test]
        fn agrees_next_to_multiples(q in 0u64..1 << 20, d in 1u64..1 << 22, off in 0u64..3) {
            let n = (q * d + off).saturating_sub(1);
            prop_assert_eq!(Divisor::new(d).div_rem(n), (n / d, n % d));
        }
    }
}
