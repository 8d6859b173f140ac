//! Which writes of a host are of sequential streams, and how many streams there are at once.
//!
//! A write that begins where an earlier one ended continues it. A stream is a run of at least [`STREAM_WRITES`] such writes,
//! and is there for as long as one of the last [`WINDOW_WRITES`] writes was of it: a host says neither when it begins a file
//! nor when it is done with it. Runs are forgotten by the number of writes since, not by the number of runs, so random writes
//! push no stream out.
//!
//! Invariants: no two runs end at the same sector; a run is forgotten once the window is past it; a write costs a look-up in a
//! tree of at most [`WINDOW_WRITES`] runs, whatever the drive's size.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), section 5, whose policy "detects concurrent sequential write streams
//! from the workload", but not how.

use std::collections::{BTreeMap, VecDeque};

use skylight_disk::{Lba, LbaExtent};

/// Writes after which a run is a stream. Chosen: two neighbours happen by chance, a third does not.
pub const STREAM_WRITES: u32 = 3;
/// Writes after which a run that was not continued is over. Chosen: 32 times the 128 zones that drives recommend to
/// have open, so that streams of which one is 32 times slower than the others are still seen.
pub const WINDOW_WRITES: u64 = 4096;

#[derive(Clone, Copy, Debug)]
struct Run {
    /// Its writes.
    writes: u32,
    /// The number of its last write.
    last: u64,
}

impl Run {
    fn is_stream(self) -> bool {
        self.writes >= STREAM_WRITES
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    /// Runs by the sector after their last.
    runs: BTreeMap<Lba, Run>,
    /// Ends of writes with the number of each, oldest first.
    ends: VecDeque<(u64, Lba)>,
    writes: u64,
    streams: usize,
}

impl Streams {
    /// Streams of which one of the last [`WINDOW_WRITES`] writes was.
    pub fn count(&self) -> usize {
        self.streams
    }

    /// How many writes in a row one that starts here would continue; 0 if it continues none.
    pub fn run_before(&self, start: Lba) -> u32 {
        self.runs.get(&start).map_or(0, |run| run.writes)
    }

    /// Notes a write; whether it went on where an earlier one ended.
    pub fn note(&mut self, write: LbaExtent) -> bool {
        self.writes += 1;
        let before = self.take(write.start).map_or(0, |run| run.writes);
        // What ended here before was written over, or is the same run again.
        self.take(write.end());
        let run = Run { writes: before.saturating_add(1), last: self.writes };
        self.streams += usize::from(run.is_stream());
        self.runs.insert(write.end(), run);
        self.ends.push_back((self.writes, write.end()));
        self.forget();
        before > 0
    }

    fn take(&mut self, end: Lba) -> Option<Run> {
        let run = self.runs.remove(&end)?;
        self.streams -= usize::from(run.is_stream());
        Some(run)
    }

    /// Forgets the runs that the window is past.
    fn forget(&mut self) {
        while let Some(&(number, end)) =
            self.ends.front().filter(|(number, _)| number + WINDOW_WRITES <= self.writes)
        {
            self.ends.pop_front();
            if self.runs.get(&end).is_some_and(|run| run.last == number) {
                self.take(end);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use skylight_disk::{Sectors, splitmix64};

    use super::*;

    const LEN: Sectors = Sectors(8);

    fn write(at: u64) -> LbaExtent {
        LbaExtent::new(Lba(at), LEN)
    }

    /// The detector without a window's bookkeeping: all writes, looked through backwards.
    #[derive(Default)]
    struct Oracle {
        /// Extents with the length of their runs, and whether a later write took the run's end.
        writes: Vec<(LbaExtent, u32, bool)>,
    }

    impl Oracle {
        fn observe(&mut self, write: LbaExtent) -> u32 {
            let from = self.writes.len().saturating_sub(WINDOW_WRITES as usize);
            let live = |end: Lba, writes: &[(LbaExtent, u32, bool)]| {
                (from..writes.len()).rev().find(|&i| !writes[i].2 && writes[i].0.end() == end)
            };
            let mut run = 1;
            for (continues, end) in [(true, write.start), (false, write.end())] {
                if let Some(at) = live(end, &self.writes) {
                    self.writes[at].2 = true;
                    run += if continues { self.writes[at].1 } else { 0 };
                }
            }
            self.writes.push((write, run, false));
            run
        }

        fn concurrent(&self) -> usize {
            let from = self.writes.len().saturating_sub(WINDOW_WRITES as usize);
            self.writes[from..].iter().filter(|(_, run, over)| !over && *run >= STREAM_WRITES).count()
        }
    }

    /// The detector's and the oracle's count after each write.
    fn agree(writes: impl Iterator<Item = LbaExtent>, what: &str) -> usize {
        let (mut streams, mut oracle) = (Streams::default(), Oracle::default());
        for (number, write) in writes.enumerate() {
            let run = streams.run_before(write.start) + 1;
            assert_eq!(
                (run, streams.note(write)),
                (oracle.observe(write), run > 1),
                "{what}: write {number}"
            );
            assert_eq!(streams.count(), oracle.concurrent(), "{what}: after write {number}");
        }
        streams.count()
    }

    /// Rounds over streams a mebisector apart.
    fn rounds(count: u64, rounds: u64) -> impl Iterator<Item = LbaExtent> {
        (0..rounds).flat_map(move |round| (0..count).map(move |s| write((s << 20) + round * LEN.get())))
    }

    #[test]
    fn interleaved_streams_are_counted() {
        for count in [1, 20, 127, 200, 1000] {
            assert_eq!(agree(rounds(count, 5), "interleaved"), count as usize);
        }
    }

    #[test]
    fn random_writes_are_no_streams_and_hide_none() {
        let seed = 7;
        let noise = |i: u64| write((1 << 30) + splitmix64(seed, i) % (1 << 30) * LEN.get());
        assert_eq!(agree((0..10_000).map(noise), "noise, seed 7"), 0);
        let mixed = rounds(50, 200).enumerate().flat_map(|(i, w)| [w, noise(i as u64)]);
        assert_eq!(agree(mixed, "mixed, seed 7"), 50);
    }

    #[test]
    fn streams_that_go_on_elsewhere_are_not_counted_twice_for_long() {
        let moved = rounds(20, 5).chain(rounds(20, 500).map(|w| write(w.start.get() + (1 << 40))));
        assert_eq!(agree(moved, "moved"), 20);
    }

    #[test]
    fn a_stream_that_starts_again_is_one() {
        let again = (0..4).flat_map(|_| rounds(1, 100));
        assert_eq!(agree(again, "again"), 1);
    }

    #[test]
    fn few_sectors_and_many_collisions_agree_with_the_oracle() {
        for seed in 1..=4 {
            let collide = (0..20_000).map(|i| {
                let drawn = splitmix64(seed, i);
                LbaExtent::new(Lba(drawn % 512), Sectors(1 + (drawn >> 32) % 16))
            });
            agree(collide, &format!("collisions, seed {seed}"));
        }
    }

    #[test]
    fn memory_is_bounded_by_the_window() {
        let mut streams = Streams::default();
        for i in 0..100_000 {
            streams.note(write(splitmix64(3, i) >> 24));
        }
        assert!(streams.runs.len() as u64 <= WINDOW_WRITES && streams.ends.len() as u64 <= WINDOW_WRITES);
    }
}
