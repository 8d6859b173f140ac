//! Fails some commands: a rate, a range, a kind and an error, drawn with a seed.
//!
//! Invariant: a command that fails does not reach the backend; the same seed and commands fail alike.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use skylight_disk::lot;

use crate::backend::{Backend, Errno, Job, Op, Request};

/// Which commands fail, and how.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// Part of those that match; 0 to 1.
    pub rate: f64,
    /// Only what touches these bytes.
    pub range: Range<u64>,
    /// Only these; none stands for all.
    pub ops: Vec<Op>,
    /// How.
    pub errno: Errno,
    /// Of the draw.
    pub seed: u64,
}

impl Default for Faults {
    fn default() -> Self {
        Self { rate: 1.0, range: 0..u64::MAX, ops: Vec::new(), errno: Errno::Io, seed: 1 }
    }
}

/// See the module page.
pub struct Failing {
    inner: Arc<dyn Backend>,
    faults: Faults,
    drawn: AtomicU64,
}

/// A number from 0 to 1 for each `index`.
fn draw(seed: u64, index: u64) -> f64 {
    (lot(seed, index) >> 11) as f64 / (1u64 << 53) as f64
}

impl Failing {
    /// Fails what `faults` says.
    pub fn new(inner: Arc<dyn Backend>, faults: Faults) -> Self {
        Self { inner, faults, drawn: AtomicU64::new(0) }
    }

    fn fails(&self, request: &Request) -> Result<(), Errno> {
        let Faults { rate, range, ops, errno, seed } = &self.faults;
        let touched = request.offset < range.end && range.start < request.offset + request.len.max(1);
        if !touched || !(ops.is_empty() || ops.contains(&request.op)) {
            return Ok(());
        }
        let index = self.drawn.fetch_add(1, Ordering::Relaxed);
        if draw(*seed, index) < *rate { Err(*errno) } else { Ok(()) }
    }
}

impl super::Filter for Failing {
    fn inner(&self) -> &dyn Backend {
        self.inner.as_ref()
    }

    fn execute_while(
        &self,
        request: &Request,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.fails(request)?;
        self.inner.execute_while(request, data, goes_on)
    }

    fn submit(&self, job: Job) {
        match self.fails(&job.request) {
            Ok(()) => self.inner.submit(job),
            Err(errno) => job.finish(Err(errno)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plain::Memory;

    fn failing(faults: Faults) -> Failing {
        Failing::new(Arc::new(Memory::new(1 << 20)), faults)
    }

    #[test]
    fn range_and_kind_choose() {
        let some = failing(Faults { range: 4096..8192, ops: vec![Op::Read], ..Faults::default() });
        let mut data = [0; 4096];
        assert_eq!(some.execute(&Request::new(Op::Read, 0, 4096), &mut data), Ok(()));
        assert_eq!(some.execute(&Request::new(Op::Read, 7680, 512), &mut data[..512]), Err(Errno::Io));
        assert_eq!(some.execute(&Request::new(Op::Read, 8192, 512), &mut data[..512]), Ok(()));
        assert_eq!(some.execute(&Request::new(Op::Write, 4096, 4096), &mut data), Ok(()));
    }

    #[test]
    fn a_rate_is_met_and_a_seed_repeats_it() {
        let fails = |seed| -> Vec<bool> {
            let some = failing(Faults { rate: 0.25, seed, ..Faults::default() });
            (0..4000).map(|_| some.execute(&Request::new(Op::Read, 0, 512), &mut [0; 512]).is_err()).collect()
        };
        let (first, again, other) = (fails(7), fails(7), fails(8));
        assert_eq!(first, again);
        assert_ne!(first, other);
        let count = first.iter().filter(|&&failed| failed).count();
        // 1000 expected, a standard deviation of 27.
        assert!((860..1140).contains(&count), "{count}");
    }
}
