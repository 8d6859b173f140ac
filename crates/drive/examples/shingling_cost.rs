//! The cost of shingling on a real backing device: the raw shingled disk against the conventional layer, with
//! the accesses of each plan made to a file. `skylight reproduce swd` runs it:
//! `cargo run --release --example shingling_cost -- compare PROFILE.toml FILE WORKLOAD K BLOCK BANDS OPERATIONS
//! ROUNDS` prints a line of JSON with the median time of an operation in each round, and the mean CPU time.
//! It measures the conventional layer twice, so that the difference of the two shows the noise, and the
//! shingled disk.
//! `-- count PROFILE.toml FILE WORKLOAD K BLOCK BANDS OPERATIONS` runs the operations of one layer once, for
//! counting instructions (K is 0 for the conventional layer).
//!
//! `-- states PROFILE.toml` makes the writes on standard input, one "first sector, sectors" per line, and
//! prints the overwritten sectors: "first sector, sectors, source of the first, overwriting write" per line.
//! `-- bands PROFILE.toml` prints the location of each band of a banded disk: "first sector on the disk,
//! sectors".
//! `-- layout PROFILE.toml K` reports what rewriting the bands of a drive-managed drive in place would
//! overwrite in other bands with a head of K tracks: bands examined, bands that overwrite others, and
//! sectors.
//!
//! WORKLOAD is `write-sequential`, `read-sequential`, `write-random`, `read-random` or `write-banded` (BANDS
//! logs; each write continues any of them). Accesses use direct I/O (O_DIRECT), as the paper's do, if the
//! file system supports it; the output reports whether they did. Reads are of data written sequentially.

use std::error::Error;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use skylight_disk::{Direction, Lba, LbaExtent, Sectors, Shingling};
use skylight_drive::profile::{self, Profile};
use skylight_drive::{Drive, build};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode, SectorState};
use skylight_layer::{Command, CommandId, Layer, Op, Overwriting, Plan, Queue, Step, Swd, SwdSpec};

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: shingled compare|count PROFILE.toml FILE WORKLOAD K BLOCK BANDS OPERATIONS [ROUNDS], \
                     or shingled states|bands PROFILE.toml, or shingled layout PROFILE.toml K";
const NO_SWD: &str = "the profile is not a raw shingled disk; use one with kind = \"swd\"";
/// Linux's flag for direct I/O, which differs between architectures.
const O_DIRECT: i32 =
    if cfg!(any(target_arch = "aarch64", target_arch = "arm")) { 0o200_000 } else { 0o40_000 };
/// The buffer alignment that direct I/O requires.
const ALIGNMENT: usize = 4096;
/// Bytes of the file that the workloads use.
const AREA_BYTES: u64 = 256 << 20;

/// A file, and an aligned buffer.
struct Backing {
    file: File,
    direct: bool,
    buffer: Vec<u8>,
    skip: usize,
    plan: Plan,
}

impl Backing {
    fn open(path: &Path, block: usize) -> Outcome<Self> {
        let open = |flags| {
            OpenOptions::new()
                .read(true)
                .write(true)
                .create(true)
                .truncate(false)
                .custom_flags(flags)
                .open(path)
        };
        let (file, direct) = match open(O_DIRECT) {
            Ok(file) => (file, true),
            Err(_) => (open(0)?, false),
        };
        let buffer = vec![0xa5; block + ALIGNMENT];
        let skip = buffer.as_ptr().align_offset(ALIGNMENT);
        Ok(Self { file, direct, buffer, skip, plan: Plan::default() })
    }

    /// Has the layer take a command, and makes the accesses of its plan.
    fn run(&mut self, layer: &mut dyn Layer, op: Op, extent: LbaExtent) -> Outcome<()> {
        self.plan.clear();
        layer.take(Queue { waiting: &[Command::new(CommandId(0), op, extent)], next: 0 }, &mut self.plan);
        let mut at = self.skip;
        for step in self.plan.steps() {
            let Step::Access { direction, extent, .. } = *step else { continue };
            let part = at..at + extent.len.bytes() as usize;
            let offset = Sectors(extent.start.get()).bytes();
            match direction {
                Direction::Read => self.file.read_exact_at(&mut self.buffer[part.clone()], offset)?,
                Direction::Write => self.file.write_all_at(&self.buffer[part.clone()], offset)?,
            }
            at = part.end;
        }
        Ok(())
    }
}

/// Generates the extents of the operations.
struct Workload {
    op: Op,
    kind: String,
    block: u64,
    blocks: u64,
    bands: u64,
    next: Vec<u64>,
    state: u64,
}

impl Workload {
    fn new(name: &str, block: u64, bands: u64) -> Outcome<Self> {
        let (op, kind) = match name.split_once('-') {
            Some(("write", kind @ ("sequential" | "random" | "banded"))) => (Op::Write, kind),
            Some(("read", kind @ ("sequential" | "random"))) => (Op::Read, kind),
            _ => return Err(USAGE.into()),
        };
        let blocks = AREA_BYTES / block;
        let bands = if kind == "banded" { bands.clamp(1, blocks) } else { 1 };
        let next = vec![0; bands as usize];
        Ok(Self { op, kind: kind.to_owned(), block, blocks, bands, next, state: 88_172_645_463_325_252 })
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % bound
    }

    fn next(&mut self) -> LbaExtent {
        let number = if self.kind == "random" {
            self.below(self.blocks)
        } else {
            let band = if self.bands == 1 { 0 } else { self.below(self.bands) };
            let in_band = self.blocks / self.bands;
            let next = &mut self.next[band as usize];
            let number = band * in_band + *next;
            *next = (*next + 1) % in_band;
            number
        };
        LbaExtent::new(Lba(number * self.block / 512), Sectors(self.block / 512))
    }
}

/// A layer and its workload.
struct Side {
    layer: Box<dyn Layer>,
    workload: Workload,
}

impl Side {
    /// The layer for a head width: 0 gives the conventional layer. Reads find the area written sequentially.
    fn new(profile: &Profile, width_tracks: u32, workload: Workload) -> Outcome<Self> {
        let mut profile = profile.clone();
        profile.layer = match (&profile.layer, width_tracks) {
            (_, 0) => profile::Layer::Conventional(profile::Conventional::default()),
            (profile::Layer::Swd(keys), _) => {
                profile::Layer::Swd(profile::Swd { width_tracks, ..keys.clone() })
            }
            _ => return Err(NO_SWD.into()),
        };
        let mut layer = build::layer(&profile).map_err(|error| error.to_string())?;
        if workload.op == Op::Read {
            let mut plan = Plan::default();
            for start in (0..AREA_BYTES / 512).step_by(2048) {
                plan.clear();
                let extent = LbaExtent::new(Lba(start), Sectors(2048));
                let write = Command::new(CommandId(0), Op::Write, extent);
                layer.take(Queue { waiting: &[write], next: 0 }, &mut plan);
            }
        }
        Ok(Self { layer, workload })
    }

    fn step(&mut self, backing: &mut Backing) -> Outcome<()> {
        let extent = self.workload.next();
        backing.run(self.layer.as_mut(), self.workload.op, extent)
    }

    /// Runs operations; returns the median of their times, which other load affects less than their sum.
    fn median_ns(&mut self, backing: &mut Backing, operations: u64) -> Outcome<u64> {
        let mut times_ns = Vec::with_capacity(operations as usize);
        for _ in 0..operations {
            let begin = Instant::now();
            self.step(backing)?;
            times_ns.push(begin.elapsed().as_nanos() as u64);
        }
        times_ns.sort_unstable();
        Ok(times_ns.get(times_ns.len() / 2).copied().unwrap_or_default())
    }
}

/// CPU time of this thread: the first number of Linux's schedstat, which the kernel updates when the thread
/// yields, and otherwise only at a tick of several milliseconds.
fn cpu_ns() -> Outcome<u64> {
    std::thread::yield_now();
    let text = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    Ok(text.split_whitespace().next().ok_or("schedstat is empty")?.parse()?)
}

/// Allocates all blocks of the file before anything is timed.
fn fill(backing: &Backing) -> Outcome<()> {
    if backing.file.metadata()?.len() >= AREA_BYTES {
        return Ok(());
    }
    let chunk = vec![0x5a; (1 << 20) + ALIGNMENT];
    let skip = chunk.as_ptr().align_offset(ALIGNMENT);
    for at in (0..AREA_BYTES).step_by(1 << 20) {
        backing.file.write_all_at(&chunk[skip..skip + (1 << 20)], at)?;
    }
    Ok(backing.file.sync_all()?)
}

/// Prints the overwritten sectors after the writes on standard input.
fn states(layer: &mut dyn Layer) -> Outcome<()> {
    let mut plan = Plan::default();
    for line in std::io::stdin().lines() {
        let line = line?;
        let (start, len) = line.split_once(' ').ok_or("a line is \"first sector, sectors\"")?;
        let extent = LbaExtent::new(Lba(start.parse()?), Sectors(len.parse()?));
        plan.clear();
        let write = Command::new(CommandId(0), Op::Write, extent);
        layer.take(Queue { waiting: &[write], next: 0 }, &mut plan);
    }
    let all = LbaExtent::new(Lba(0), layer.capacity());
    layer.overwriting().ok_or(NO_SWD)?.visit_state(all, &mut |part, state| {
        if let SectorState::Overwritten { source, by } = state {
            println!("{} {} {source} {}", part.start, part.len, by.write);
        }
    });
    Ok(())
}

/// Prints what rewriting bands would overwrite in the bands after them.
fn layout(profile: &Profile, width_tracks: u32) -> Outcome<()> {
    const PLACES: u64 = 64;
    let drive = Drive::new(profile, 0).map_err(|error| error.to_string())?;
    let (geometry, capacity) = (drive.disk().geometry(), drive.capacity().get());
    let shingling = Shingling::new(width_tracks).ok_or("K is 1 to 16")?;
    let mut swd = Swd::new(SwdSpec {
        geometry: geometry.clone(),
        shingling,
        capacity: geometry.capacity(),
        bands: None,
        mode: ReadMode { data: ReadData::Overwriting, fail: true },
        pattern: 0,
    });
    let (mut looked_at, mut harmful, mut sectors) = (0, 0, 0);
    for place in 0..PLACES {
        let extent = LbaExtent::new(Lba(place * (capacity / PLACES) / 8 * 8), Sectors(1 << 20));
        let mut pieces = Vec::new();
        drive.layer().locate(extent, &mut pieces);
        for pair in pieces.windows(2) {
            let [band, behind] = [&pair[0], &pair[1]]
                .map(|piece| LbaExtent::new(Lba(piece.extent.start.get()), piece.extent.len));
            swd.erase();
            let write = Command::new(CommandId(0), Op::Write, band);
            swd.take(Queue { waiting: &[write], next: 0 }, &mut Plan::default());
            let mut destroyed = 0;
            swd.visit_state(behind, &mut |part, state| {
                destroyed += if state == SectorState::Native { 0 } else { part.len.get() };
            });
            looked_at += 1;
            harmful += u64::from(destroyed > 0);
            sectors += destroyed;
        }
    }
    println!("{looked_at} bands, {harmful} destroy something of the next one, {sectors} sectors in all");
    Ok(())
}

/// Prints the locations of the bands.
fn bands(layer: &mut dyn Layer) -> Outcome<()> {
    let capacity = layer.capacity().get();
    let disk = layer.overwriting().ok_or(NO_SWD)?;
    let bands = disk.bands().ok_or("the disk has no bands; give it band_tracks")?;
    let mut at = Lba(0);
    while at.get() < capacity {
        let band = bands.of(at);
        println!("{} {}", band.native.start, band.native.len);
        at = band.lba.end();
    }
    Ok(())
}

/// The rounds of the three sides as members of a JSON object.
fn listed(of: &str, rounds_ns: &[Vec<u64>; 3]) -> String {
    let [conventional, again, shingled] = rounds_ns;
    format!(
        "\"conventional_{of}ns\": {conventional:?}, \"again_{of}ns\": {again:?}, \"shingled_{of}ns\": {shingled:?}"
    )
}

fn main() -> Outcome<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [mode @ ("states" | "bands"), toml] = args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        let profile = Profile::from_toml(&std::fs::read_to_string(toml)?, toml).map_err(|e| e.to_string())?;
        let mut layer = build::layer(&profile).map_err(|error| error.to_string())?;
        let layer = layer.as_mut();
        return if mode == "states" { states(layer) } else { bands(layer) };
    }
    if let [mode, toml, width] = args.as_slice()
        && mode == "layout"
    {
        let profile = Profile::from_toml(&std::fs::read_to_string(toml)?, toml).map_err(|e| e.to_string())?;
        return layout(&profile, width.parse()?);
    }
    let [mode, toml, file, workload, width, block, bands, operations, ..] = args.as_slice() else {
        return Err(USAGE.into());
    };
    let profile = Profile::from_toml(&std::fs::read_to_string(toml)?, toml).map_err(|e| e.to_string())?;
    let (width, block, operations): (u32, u64, u64) = (width.parse()?, block.parse()?, operations.parse()?);
    let bands = bands.parse()?;
    let mut backing = Backing::open(Path::new(file), block as usize)?;
    fill(&backing)?;
    let side = |width| Side::new(&profile, width, Workload::new(workload, block, bands)?);
    if mode == "count" {
        let mut side = side(width)?;
        return (0..operations).try_for_each(|_| side.step(&mut backing));
    }
    let rounds: usize = args.get(8).ok_or(USAGE)?.parse()?;
    let mut sides = [side(0)?, side(0)?, side(width)?];
    let mut medians_ns: [Vec<u64>; 3] = Default::default();
    let mut cpu_means_ns: [Vec<u64>; 3] = Default::default();
    for round in 0..=rounds {
        // The order rotates from round to round; the first round is a warm-up.
        for position in 0..3 {
            let which = (position + round) % 3;
            let begin = cpu_ns()?;
            let median_ns = sides[which].median_ns(&mut backing, operations)?;
            let worked_ns = cpu_ns()? - begin;
            if round > 0 {
                medians_ns[which].push(median_ns);
                cpu_means_ns[which].push(worked_ns / operations.max(1));
            }
        }
    }
    println!(
        "{{\"workload\": \"{workload}\", \"k\": {width}, \"block_bytes\": {block}, \"bands\": {bands}, \
         \"operations\": {operations}, \"direct\": {}, {}, {}}}",
        backing.direct,
        listed("", &medians_ns),
        listed("processor_", &cpu_means_ns),
    );
    Ok(())
}
