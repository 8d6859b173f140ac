//! A histogram of completion lateness: how long after the time of the model replies are sent.

use std::time::Duration;

/// Lateness histogram with buckets at powers of two of a microsecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Completions less than 1 us late, then less than 2 us, 4 us and so on; the last bucket takes the rest.
    pub buckets: [u64; 24],
    /// The maximum lateness.
    pub worst: Duration,
}

impl Lateness {
    /// Records a completion.
    pub fn count(&mut self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bucket.min(self.buckets.len() - 1)] += 1;
        self.worst = self.worst.max(late);
    }

    /// The number of completions.
    pub fn answers(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// An upper bound of a quantile, us; `None` without completions.
    pub fn quantile_us(&self, quantile: f64) -> Option<u64> {
        let wanted = (self.answers() as f64 * quantile).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().enumerate().find_map(|(bucket, count)| {
            seen += count;
            (seen >= wanted).then_some(1 << bucket)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_powers_of_two() {
        let mut lateness = Lateness::default();
        for us in [0, 1, 3, 3, 900] {
            lateness.count(Duration::from_micros(us));
        }
        assert_eq!(&lateness.buckets[..3], &[1, 1, 2]);
        assert_eq!(lateness.quantile_us(0.5), Some(4));
        assert_eq!(lateness.quantile_us(1.0), Some(1024));
        assert_eq!(lateness.worst, Duration::from_micros(900));
        assert_eq!(Lateness::default().quantile_us(0.5), None);
    }
}
