//! The sequential streams of a host: writes that go on where an earlier one ended.
//!
//! Invariant: at most [`REMEMBERED`] ends are kept, so a look-up costs O(log n) and a random workload no memory.

use std::collections::BTreeMap;

use skylight_disk::{Lba, LbaExtent};

/// Ends of writes that are remembered. Chosen: several times the open zones that a drive recommends (128), so that a policy sees
/// how many streams too many there are.
const REMEMBERED: usize = 1024;

/// What is known of the write that ended at a sector.
#[derive(Clone, Copy, Debug)]
struct End {
    /// The number of the write.
    written: u64,
    /// How many writes before it each went on where the one before ended.
    continued: u32,
}

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub struct Streams {
    ends: BTreeMap<Lba, End>,
    /// The ends by the number of their writes.
    by_age: BTreeMap<u64, Lba>,
    writes: u64,
    /// Ends of streams: of writes that continued another one.
    streams: usize,
}

impl Streams {
    /// The number of streams among the last [`REMEMBERED`] ends of writes: of ends of writes that continued another one.
    pub fn count(&self) -> usize {
        self.streams
    }

    /// How many writes in a row the one that starts here would continue; 0 if it continues none.
    pub fn run_before(&self, start: Lba) -> u32 {
        self.ends.get(&start).map_or(0, |end| end.continued + 1)
    }

    /// Notes a write; whether it went on where an earlier one ended.
    pub fn note(&mut self, write: LbaExtent) -> bool {
        let continued = self.run_before(write.start);
        if continued > 0 {
            self.forget(write.start);
        }
        self.forget(write.end());
        self.writes += 1;
        self.ends.insert(write.end(), End { written: self.writes, continued });
        self.by_age.insert(self.writes, write.end());
        self.streams += usize::from(continued > 0);
        if self.ends.len() > REMEMBERED
            && let Some((_, &oldest)) = self.by_age.first_key_value()
        {
            self.forget(oldest);
        }
        continued > 0
    }

    fn forget(&mut self, end: Lba) {
        if let Some(end) = self.ends.remove(&end) {
            self.by_age.remove(&end.written);
            self.streams -= usize::from(end.continued > 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use skylight_disk::Sectors;

    #[test]
    fn streams_are_counted_once_and_forgotten_in_order() {
        let mut streams = Streams::default();
        let write = |stream: u64, round: u64| LbaExtent::new(Lba(stream * 10_000 + round * 8), Sectors(8));
        for round in 0..3 {
            for stream in 0..200 {
                assert_eq!(streams.note(write(stream, round)), round > 0);
            }
        }
        assert_eq!(streams.count(), 200);
        assert_eq!(streams.run_before(write(7, 3).start), 3);
        for lone in 0..REMEMBERED as u64 {
            streams.note(write(1_000 + lone, 0));
        }
        assert_eq!(streams.count(), 0);
    }
}
