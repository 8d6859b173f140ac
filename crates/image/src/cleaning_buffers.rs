//! Data that cleanings have read and not written yet. On a raw disk, where every access takes time, it is read only once.
//!
//! Invariant: the buffers equal the data on the medium; overwriting an address drops its buffers.

use std::collections::VecDeque;

use skylight_disk::{Pba, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::Medium;

/// Maximum size of all buffers, bytes: a few bands.
const MOST: usize = 128 << 20;
/// Maximum number of runs, because look-ups are linear.
const MOST_RUNS: usize = 4096;

struct Run {
    medium: Medium,
    extent: PbaExtent,
    bytes: Vec<u8>,
}

/// See the module page.
#[derive(Default)]
pub(crate) struct Held {
    runs: VecDeque<Run>,
    bytes: usize,
}

impl Held {
    /// Keeps data that was read, and drops the oldest beyond the limits.
    pub fn add(&mut self, (medium, start): (Medium, Pba), bytes: Vec<u8>) {
        let extent = PbaExtent::new(start, Sectors(bytes.len() as u64 / SECTOR_BYTES));
        self.forget(medium, extent);
        self.bytes += bytes.len();
        self.runs.push_back(Run { medium, extent, bytes });
        while (self.bytes > MOST || self.runs.len() > MOST_RUNS)
            && let Some(oldest) = self.runs.pop_front()
        {
            self.bytes -= oldest.bytes.len();
        }
    }

    /// Drops data that was overwritten.
    pub fn forget(&mut self, medium: Medium, extent: PbaExtent) {
        self.runs.retain(|run| {
            let kept =
                run.medium != medium || run.extent.end() <= extent.start || extent.end() <= run.extent.start;
            self.bytes -= if kept { 0 } else { run.bytes.len() };
            kept
        });
    }

    /// Copies the data at an address, if all of it is buffered.
    pub fn read(&self, (medium, start): (Medium, Pba), into: &mut [u8]) -> bool {
        let mut done = 0;
        while done < into.len() {
            let at = start + Sectors(done as u64 / SECTOR_BYTES);
            let holds = |run: &&Run| run.medium == medium && run.extent.start <= at && at < run.extent.end();
            let Some(run) = self.runs.iter().find(holds) else {
                return false;
            };
            let from = (at - run.extent.start).bytes() as usize;
            let here = (run.bytes.len() - from).min(into.len() - done);
            into[done..done + here].copy_from_slice(&run.bytes[from..from + here]);
            done += here;
        }
        true
    }
}
