//! Seeded variation of latency, and the named substreams of random numbers that it uses.
//!
//! Invariants: a command draws the same numbers regardless of other drive activity, as long as the preceding
//! commands are the same; only integers and correctly rounded floating-point operations are used, so that a
//! seed gives the same bytes on every machine.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use skylight_disk::Nanos;

/// An independent stream of random numbers for each purpose, derived from one seed.
///
/// ```
/// use rand_core::Rng;
/// use skylight_drive::jitter::substream;
/// assert_eq!(substream(7, "jitter").next_u64(), substream(7, "jitter").next_u64());
/// assert_ne!(substream(7, "jitter").next_u64(), substream(7, "profile").next_u64());
/// ```
pub fn substream(seed: u64, name: &str) -> Pcg64Mcg {
    // FNV-1a suffices for short names.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |h, byte| (h ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    Pcg64Mcg::seed_from_u64(seed ^ hash.rotate_left(17))
}

/// Parameters of the latency variation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct JitterSpec {
    /// Standard deviation of a normal draw, as a fraction of a command's media time. Its absolute value is
    /// added, since nothing is faster than the mechanics.
    pub relative: f64,
    /// Upper bound of a uniform extra time of every command.
    pub absolute_ns: u64,
    /// Fraction of commands that are slow outliers.
    pub outlier_rate: f64,
    /// Upper bound of a uniform extra time of an outlier.
    pub outlier_ns: u64,
}

impl JitterSpec {
    /// Whether all variation is off.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

/// Draws the extra time of each command.
#[derive(Clone, Debug)]
pub struct Jitter {
    spec: JitterSpec,
    stream: Pcg64Mcg,
}

impl Jitter {
    /// The jitter of one run.
    pub fn new(spec: JitterSpec, seed: u64) -> Self {
        Self { spec, stream: substream(seed, "jitter") }
    }

    /// Extra time of the next command beyond the modelled `media_time`.
    pub fn extra(&mut self, media_time: Nanos) -> Nanos {
        let deviation = self.normal().abs() * self.spec.relative * media_time.get() as f64;
        let mut extra = deviation as u64 + self.below(self.spec.absolute_ns);
        let outlier = self.unit() < self.spec.outlier_rate;
        if outlier {
            extra += self.below(self.spec.outlier_ns);
        }
        Nanos(extra)
    }

    /// Uniform in [0, 1).
    fn unit(&mut self) -> f64 {
        (self.stream.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Uniform below `bound`.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.stream.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Approximately standard normal: the number of set bits among 64 is binomial with a standard deviation
    /// of 4, and a uniform part smooths the steps.
    fn normal(&mut self) -> f64 {
        let bits = f64::from(self.stream.next_u64().count_ones());
        (bits - 32.0 + self.unit() - 0.5) / 4.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normal_has_mean_zero_and_deviation_one() {
        let mut jitter = Jitter::new(JitterSpec::default(), 1);
        let draws: Vec<f64> = (0..200_000).map(|_| jitter.normal()).collect();
        let mean = draws.iter().sum::<f64>() / draws.len() as f64;
        let variance = draws.iter().map(|d| (d - mean).powi(2)).sum::<f64>() / draws.len() as f64;
        assert!(mean.abs() < 0.01 && (variance.sqrt() - 1.0).abs() < 0.02, "{mean} {variance}");
    }

    #[test]
    fn outliers_occur_at_their_rate_and_within_their_bound() {
        let spec = JitterSpec { outlier_rate: 0.01, outlier_ns: 1_000_000, ..JitterSpec::default() };
        let mut jitter = Jitter::new(spec, 2);
        let extras: Vec<u64> = (0..100_000).map(|_| jitter.extra(Nanos(5_000)).get()).collect();
        let slow = extras.iter().filter(|&&e| e > 0).count();
        assert!((900..1100).contains(&slow), "{slow} outliers of 1,000 expected");
        assert!(extras.iter().all(|&e| e < 1_000_000));
    }
}
