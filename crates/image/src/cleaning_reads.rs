//! What cleanings have read and not written yet, where a raw disk takes its time for every access: so that it is
//! read once.
//!
//! Invariant: what is held is what lies there; what is written over is forgotten.

use std::collections::VecDeque;

use skylight_disk::{Pba, PbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::Medium;

/// The most that is held, bytes: a few bands.
const MOST: usize = 128 << 20;
/// The most runs, since all are looked at.
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
    /// Holds what was read; the oldest goes if that is too much.
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

    /// Something else lies there now.
    pub fn forget(&mut self, medium: Medium, extent: PbaExtent) {
        self.runs.retain(|run| {
            let kept =
                run.medium != medium || run.extent.end() <= extent.start || extent.end() <= run.extent.start;
            self.bytes -= if kept { 0 } else { run.bytes.len() };
            kept
        });
    }

    /// What lies from an address on, if all of it is held.
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
