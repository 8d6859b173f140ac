//! The tools of the paper's tests: drives, commands and their times, random addresses, statistics.
//!
//! Invariant: every drive has its shipped profile and is new, with its heads parked; volatile cache and
//! look-ahead are off unless a test switches them on, as in the paper (Skylight, section 4.2).

use std::path::Path;

use skylight_command::code::Code;
use skylight_disk::{Lba, LbaExtent, Nanos, Sectors};
use skylight_drive::profile::{Layer, Profile};
use skylight_drive::{Batch, Drive};

pub const KIB: u64 = 1024;
pub const MIB: u64 = 1024 * KIB;
pub const GIB: u64 = 1024 * MIB;
/// The block size of the paper's tests.
pub const BLOCK: u64 = 4 * KIB;

/// A shipped profile.
pub fn profile(name: &str) -> Profile {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles");
    let path = folder.join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Profile::from_toml(&text, name).unwrap_or_else(|error| panic!("{error}"))
}

/// A new drive of a shipped profile, with volatile cache and look-ahead off.
pub fn drive(name: &str) -> Drive {
    let mut drive = Drive::new(&profile(name), 1).unwrap_or_else(|error| panic!("{error}"));
    assert!(!drive.set_write_cache(false) && !drive.set_look_ahead(false));
    drive
}

/// The drive of most rows.
pub fn st5000() -> Drive {
    drive("st5000as0011")
}

/// Start of the band of st5000as0011 that contains a byte.
pub fn band_start(offset: u64) -> u64 {
    let profile = profile("st5000as0011");
    let Layer::Journaled(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
    let mut start = 0;
    for run in &keys.bands {
        if run.until.is_none_or(|until| offset < until.get()) {
            return start + (offset - start) / run.band.get() * run.band.get();
        }
        start = run.until.map_or(start, |until| until.get());
    }
    start
}

/// Pseudorandom numbers from a seed (xorshift).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    pub fn shuffle(&mut self, offsets: &mut [u64]) {
        for index in (1..offsets.len()).rev() {
            offsets.swap(index, self.below(index as u64 + 1) as usize);
        }
    }

    /// Distinct offsets of blocks of `size` bytes below `end`.
    pub fn offsets(&mut self, count: usize, size: u64, end: u64) -> Vec<u64> {
        let mut offsets: Vec<u64> = (0..count * 5 / 4).map(|_| self.below(end / size) * size).collect();
        offsets.sort_unstable();
        offsets.dedup();
        self.shuffle(&mut offsets);
        offsets.truncate(count);
        assert_eq!(offsets.len(), count, "the region has room for so many");
        offsets
    }
}

/// Submit and complete times of commands of one kind and size.
pub struct Log {
    pub submit_ns: Vec<u64>,
    pub complete_ns: Vec<u64>,
}

impl Log {
    pub fn latencies_ms(&self) -> Vec<f64> {
        self.submit_ns.iter().zip(&self.complete_ns).map(|(s, c)| (c - s) as f64 / 1e6).collect()
    }

    /// Time from the first submission to the last completion.
    pub fn took_ms(&self) -> f64 {
        let first = self.submit_ns.iter().min().expect("commands were run");
        let last = self.complete_ns.iter().max().expect("commands were run");
        (last - first) as f64 / 1e6
    }
}

fn run(drive: &mut Drive, kind: Code, offsets: &[u64], size: u64, depth: usize) -> Log {
    let count = offsets.len();
    let (kinds, sizes) = (vec![kind; count], vec![size as u32; count]);
    let batch = Batch { op: &kinds, offset: offsets, size: &sizes };
    let mut log = Log { submit_ns: vec![0; count], complete_ns: vec![0; count] };
    drive.run(&batch, depth, &mut log.submit_ns, &mut log.complete_ns).expect("commands of this drive");
    log
}

pub fn writes(drive: &mut Drive, offsets: &[u64], size: u64, depth: usize) -> Log {
    run(drive, Code::Write, offsets, size, depth)
}

pub fn reads(drive: &mut Drive, offsets: &[u64], size: u64) -> Log {
    run(drive, Code::Read, offsets, size, 1)
}

/// Waits until all written data is on a medium.
pub fn flush(drive: &mut Drive) {
    run(drive, Code::Flush, &[0], 0, 1);
}

pub fn pause_s(drive: &mut Drive, seconds: f64) {
    drive.pause(Nanos((seconds * 1e9) as u64));
}

/// Whether the newest data of a block is in the persistent cache.
pub fn is_cached(drive: &Drive, offset: u64) -> bool {
    let extent = LbaExtent::new(Lba(offset / 512), Sectors(BLOCK / 512));
    let mut pieces = Vec::new();
    drive.layer().locate(extent, &mut pieces);
    pieces.iter().any(|piece| piece.cached)
}

/// A quantile of the values.
pub fn quantile(values: &[f64], part: f64) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted[((sorted.len() as f64 * part) as usize).min(sorted.len() - 1)]
}

pub fn median(values: &[f64]) -> f64 {
    quantile(values, 0.5)
}

pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

pub fn most(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Interquartile range as a fraction of the median.
pub fn spread(values: &[f64]) -> f64 {
    (quantile(values, 0.75) - quantile(values, 0.25)) / median(values)
}

/// Fraction of the values within 5 % of their median: near 1 if latency is constant.
pub fn steadiness(values: &[f64]) -> f64 {
    let middle = median(values);
    let near = |value: &&f64| (**value - middle).abs() <= 0.05 * middle;
    values.iter().filter(near).count() as f64 / values.len() as f64
}
