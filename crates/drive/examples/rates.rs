//! Simulated commands per second of CPU time, by layer, depth and operation: `cargo run --release --example
//! rates [-- PROFILE.toml ...]`.
//!
//! Without arguments it runs the packaged profiles and an all-flash drive. The commands are random blocks of
//! 4 KiB, with enough writes to fill the cache of each drive and clean it (blocking cleaning) repeatedly. The
//! last column is a sequential read of the whole drive. Figures are CPU time of this thread, the best of
//! several rounds, so that other load affects them little.

use std::error::Error;
use std::path::Path;

use skylight_command::code::Code;
use skylight_drive::profile::Profile;
use skylight_drive::random::{Kind, random_profile};
use skylight_drive::{Batch, Drive};

const BLOCK: u32 = 4096;
const MIB: u32 = 1 << 20;
const COMMANDS: usize = 2_000_000;
const ROUNDS: usize = 3;

/// CPU time of this thread in seconds, from Linux's accounting.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: u64 = stat.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
    Ok(ns as f64 / 1e9)
}

fn random_blocks(blocks: u64) -> Vec<u64> {
    let mut state = 88_172_645_463_325_252u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % blocks * u64::from(BLOCK)
    };
    std::iter::repeat_with(next).take(COMMANDS).collect()
}

/// Parameters of a run: operation, depth, and whether the drive's volatile cache and look-ahead are on.
#[derive(Clone, Copy)]
struct Mode {
    kind: Code,
    depth: usize,
    cached: bool,
}

/// CPU seconds of a run on a new drive, the best of several rounds.
fn best(profile: &Profile, mode: Mode, offset: &[u64], size: u32) -> Result<f64, Box<dyn Error>> {
    let (op, size) = (vec![mode.kind; offset.len()], vec![size; offset.len()]);
    let (mut submit, mut complete) = (vec![0; offset.len()], vec![0; offset.len()]);
    let batch = Batch { op: &op, offset, size: &size };
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let mut drive = Drive::new(profile, 1)?;
        drive.set_write_cache(mode.cached);
        drive.set_look_ahead(mode.cached);
        let start = cpu_seconds()?;
        drive.run(&batch, mode.depth, &mut submit, &mut complete)?;
        best = best.min(cpu_seconds()? - start);
    }
    Ok(best)
}

fn table_of(profile: &Profile) -> Result<(), Box<dyn Error>> {
    let drive = Drive::new(profile, 1)?;
    let bytes = drive.capacity().bytes();
    let has_cache = { drive }.set_write_cache(true);
    let offset = random_blocks(bytes / u64::from(BLOCK));
    let mut rates = Vec::new();
    for cached in [false, true].into_iter().filter(|&cached| has_cache || !cached) {
        for kind in [Code::Read, Code::Write] {
            for depth in [1, 31] {
                let seconds = best(profile, Mode { kind, depth, cached }, &offset, BLOCK)?;
                rates.push(format!("{:10.2}", COMMANDS as f64 / seconds / 1e6));
            }
        }
    }
    let whole: Vec<u64> = (0..bytes / u64::from(MIB)).map(|at| at * u64::from(MIB)).collect();
    let mode = Mode { kind: Code::Read, depth: 1, cached: true };
    let sequential = best(profile, mode, &whole, MIB)?;
    println!("{:<18}{} | {sequential:.2} s", profile.name, rates.join(""));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut paths: Vec<_> = std::env::args().skip(1).map(Into::into).collect();
    let packaged = paths.is_empty();
    if packaged {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles");
        let files = std::fs::read_dir(&folder)?.map(|file| file.map(|file| file.path()));
        paths = files.collect::<Result<_, _>>()?;
        paths.retain(|path: &std::path::PathBuf| path.extension().is_some_and(|end| end == "toml"));
        paths.sort();
    }
    println!("million commands a second of CPU, random 4 KiB; the last four with the volatile cache on");
    let columns = ["read 1", "read 31", "write 1", "write 31"].map(|name| format!("{name:>10}")).concat();
    println!("{:<18}{columns}{columns} | the whole drive read in order, 1 MiB, depth 1", "");
    for path in &paths {
        let name = path.display().to_string();
        table_of(&Profile::from_toml(&std::fs::read_to_string(path)?, &name)?)?;
    }
    if packaged {
        // All packaged profiles are disks.
        let text = random_profile(1, Some(Kind::Ssd))?;
        table_of(&Profile::from_toml(&text, "a random ssd")?)?;
    }
    Ok(())
}
