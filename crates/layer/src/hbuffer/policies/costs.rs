//! What the paths of a drive cost, as seen so far, and a guess at what was not seen.
//!
//! What a write takes is averaged by its way and by the power of two of its length. What moving data takes is the ratio of the
//! sums of late. Until something was seen, the guess is that of a plain disk ([`GUESSED_SECTOR_NS`], [`POSITION_NS`]).
//!
//! Invariant: one slow write, or one slow pass of cleaning, changes an average by no more than its share of those that it is of.

use skylight_disk::{Nanos, Sectors};

use super::super::policy::{Cleaned, Moved};

/// Time to move a sector to or from the media, before any was seen to move. Chosen: 100 MB/s, half or twice of which any disk of
/// zones has.
pub const GUESSED_SECTOR_NS: f64 = 5120.0;
/// Time of a command without its data, before one was seen. Chosen: what disks take for a small write that their cache takes.
const GUESSED_COMMAND_NS: f64 = 200_000.0;
/// Time to move the heads somewhere and wait for the sector. Chosen: a third of a stroke and half a revolution of a disk.
pub const POSITION_NS: f64 = 12_000_000.0;
/// Writes over which an average goes. Chosen: as many as the detector of streams looks back; a volatile cache lets one
/// in hundreds wait for all others.
const WINDOW: f64 = 4096.0;
/// Powers of two of a write's sectors that are told apart.
const CLASSES: usize = 20;
/// How much the sums of what was moved shrink with each pass of cleaning. Chosen: three passes back count half.
const KEPT: f64 = 0.8;

/// How a write gets to the media.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Way {
    /// In order, to a zone that the drive has open.
    #[default]
    Open,
    /// In order, to a zone for which the drive has to close another.
    Reopened,
    /// To the drive's persistent cache.
    DriveCache,
    /// To the host's log.
    Buffer,
}

#[derive(Clone, Copy, Debug, Default)]
struct Average {
    mean: f64,
    count: f64,
}

impl Average {
    fn add(&mut self, value: f64) {
        self.count = (self.count + 1.0).min(WINDOW);
        self.mean += (value - self.mean) / self.count;
    }
}

/// Sums of what was moved.
#[derive(Clone, Copy, Debug, Default)]
struct Rate {
    sectors: f64,
    time_ns: f64,
}

impl Rate {
    fn add(&mut self, moved: Moved) {
        if moved.sectors.get() > 0 {
            self.sectors = KEPT * self.sectors + moved.sectors.get() as f64;
            self.time_ns = KEPT * self.time_ns + moved.time.get() as f64;
        }
    }

    fn of(&self, sectors: Sectors, guessed_sector_ns: f64) -> f64 {
        let per_sector = if self.sectors > 0.0 { self.time_ns / self.sectors } else { guessed_sector_ns };
        per_sector * sectors.get() as f64
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub struct Costs {
    /// What it is taken to cost that a drive closes a zone, ns, until that was seen.
    pub closing_ns: f64,
    writes: [[Average; CLASSES]; 4],
    gathered: Rate,
    appended: Rate,
    rewritten: Rate,
}

fn class(len: Sectors) -> usize {
    (len.get().max(1).ilog2() as usize).min(CLASSES - 1)
}

impl Costs {
    /// Notes what a write took.
    pub fn took(&mut self, way: Way, len: Sectors, time: Nanos) {
        self.writes[way as usize][class(len)].add(time.get() as f64);
    }

    /// Notes what cleaning took.
    pub fn cleaned(&mut self, cleaned: &Cleaned) {
        self.gathered.add(cleaned.gathered);
        self.appended.add(cleaned.appended);
        self.rewritten.add(cleaned.rewritten);
    }

    /// What a write takes at once, ns.
    pub fn write(&self, way: Way, len: Sectors) -> f64 {
        let seen = self.writes[way as usize][class(len)];
        if seen.count > 0.0 {
            return seen.mean;
        }
        match way {
            Way::Reopened => self.write(Way::Open, len) + self.closing_ns,
            _ => GUESSED_COMMAND_NS + GUESSED_SECTOR_NS * len.get() as f64,
        }
    }

    /// What it takes to read so much data from the log, ns.
    pub fn gather(&self, len: Sectors) -> f64 {
        self.gathered.of(len, GUESSED_SECTOR_NS)
    }

    /// What it takes to write so much behind write pointers, ns.
    pub fn append(&self, len: Sectors) -> f64 {
        self.appended.of(len, GUESSED_SECTOR_NS)
    }

    /// What it takes to rewrite a zone that has so much, ns.
    pub fn rewrite(&self, len: Sectors) -> f64 {
        self.rewritten.of(len, 2.0 * GUESSED_SECTOR_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_seen_replaces_the_guess_by_length_and_way() {
        let mut costs = Costs { closing_ns: 2e7, ..Costs::default() };
        let guess = costs.write(Way::Buffer, Sectors(8));
        costs.took(Way::Buffer, Sectors(1024), Nanos(7_000_000));
        assert!((costs.write(Way::Buffer, Sectors(1024)) - 7e6).abs() < 1.0);
        assert!((costs.write(Way::Buffer, Sectors(8)) - guess).abs() < 1.0);
        assert!(costs.write(Way::Reopened, Sectors(8)) > costs.write(Way::Open, Sectors(8)) + 1e7);
    }

    #[test]
    fn an_average_forgets_at_the_pace_of_its_window() {
        let mut costs = Costs::default();
        let mut took = |time, times: u32| {
            (0..times).for_each(|_| costs.took(Way::Open, Sectors(8), Nanos(time)));
            costs.write(Way::Open, Sectors(8))
        };
        assert!((took(100, 10_000) - 100.0).abs() < 0.1);
        assert!(took(1_000_000, 1) < 400.0, "one slow write");
        assert!(took(1_000, 20_000) > 980.0, "what it always takes now");
    }

    #[test]
    fn moving_costs_what_it_cost() {
        let mut costs = Costs::default();
        let moved = Moved { sectors: Sectors(1000), time: Nanos(3_000_000) };
        costs.cleaned(&Cleaned { rewritten: moved, ..Cleaned::default() });
        assert!((costs.rewrite(Sectors(10)) - 30_000.0).abs() < 1.0);
        assert!((costs.append(Sectors(10)) - 10.0 * GUESSED_SECTOR_NS).abs() < 1.0);
    }
}
