//! What zones cost, beside a conventional drive: simulated commands per second of CPU time, the memory of 120,000 zones, the start of a drive of 30 TB:
//! `cargo run --release --example zone_rates`.
//!
//! CPU time is that of this thread, the best of several rounds, so that other load affects it little.

use std::error::Error;

use skylight_command::code::Code;
use skylight_disk::{Pba, Sectors};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};
use skylight_layer::{ZoneLayout, ZoneModel, ZonedLayer, ZonedSpec};

const BLOCK: u64 = 4096;
const ZONE: u64 = 256 << 20;
const COMMANDS: u64 = 1_000_000;
const ROUNDS: usize = 3;
/// Zones written in turn.
const STREAMS: u64 = 100;

/// CPU time of this thread in seconds, from Linux's accounting.
fn cpu_seconds() -> Result<f64, Box<dyn Error>> {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat")?;
    let ns: u64 = stat.split_whitespace().next().ok_or("schedstat is empty")?.parse()?;
    Ok(ns as f64 / 1e9)
}

/// Resident memory, bytes.
fn resident_bytes() -> Result<u64, Box<dyn Error>> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().nth(1).ok_or("statm is empty")?.parse()?;
    Ok(pages * 4096)
}

/// A drive of 30 TB: conventional, or with zones of 256 MiB.
fn profile(model: &str) -> Result<Profile, Box<dyn Error>> {
    let zones = "zone_size = \"256 MiB\"\nconventional_zones = 500\nmax_open_zones = 128";
    let layer = match model {
        "conventional" => "kind = \"conventional\"".to_owned(),
        model => format!("kind = \"zoned\"\nmodel = \"{model}\"\n{zones}"),
    };
    let text = format!(
        r#"
schema = 1
name = "zones"
capacity = "30 TB"
[mechanics]
rpm = 7200
head_switch = "0.6 ms"
seek = {{ points = [[1, "1 ms"], [500_000, "15 ms"]] }}
[geometry]
surfaces = 20
layout = "surface-serpentine"
track_skew = "1 ms"
head_skew = "1 ms"
[geometry.taper]
zones = 30
tracks = 700_000
outer_sectors_per_track = 5_600
inner_sectors_per_track = 2_900
[interface]
queue_depth = 32
schedule = "shortest-positioning-first"
command_overhead = "0.1 ms"
write_cache = "256 MiB"
[layer]
{layer}
"#
    );
    Ok(Profile::from_toml(&text, "zones")?)
}

/// Writes to some zones in turn, each in order.
fn in_order() -> Vec<u64> {
    (0..COMMANDS).map(|at| (1_000 + at % STREAMS) * ZONE + at / STREAMS * BLOCK).collect()
}

/// Blocks anywhere.
fn anywhere(bytes: u64) -> Vec<u64> {
    let mut state = 88_172_645_463_325_252_u64;
    let next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % (bytes / BLOCK) * BLOCK
    };
    std::iter::repeat_with(next).take(COMMANDS as usize).collect()
}

/// Million commands a second.
fn rate(
    profile: &Profile,
    (kind, depth, cached): (Code, usize, bool),
    offset: &[u64],
) -> Result<f64, Box<dyn Error>> {
    let (op, size) = (vec![kind; offset.len()], vec![BLOCK as u32; offset.len()]);
    let (mut submit, mut complete) = (vec![0; offset.len()], vec![0; offset.len()]);
    let batch = Batch { op: &op, offset, size: &size };
    let mut best = f64::MAX;
    for _ in 0..ROUNDS {
        let mut drive = Drive::new(profile, 1)?;
        drive.set_write_cache(cached);
        let start = cpu_seconds()?;
        drive.run(&batch, depth, &mut submit, &mut complete)?;
        best = best.min(cpu_seconds()? - start);
    }
    Ok(COMMANDS as f64 / best / 1e6)
}

/// Memory of a host-aware drive of 30 TB whose volatile cache is full of writes anywhere, MiB.
fn full_cache_mib() -> Result<f64, Box<dyn Error>> {
    let profile = profile("host-aware")?;
    let offset = anywhere(30_000_000_000_000);
    let offset = &offset[..2 * (256 << 20) / BLOCK as usize];
    let (op, size) = (vec![Code::Write; offset.len()], vec![BLOCK as u32; offset.len()]);
    let (mut submit, mut complete) = (vec![1; offset.len()], vec![1; offset.len()]);
    let before = resident_bytes()?;
    let mut drive = Drive::new(&profile, 1)?;
    drive.run(&Batch { op: &op, offset, size: &size }, 1, &mut submit, &mut complete)?;
    Ok((resident_bytes()? - before) as f64 / f64::from(1 << 20))
}

fn main() -> Result<(), Box<dyn Error>> {
    let before = resident_bytes()?;
    let layout = ZoneLayout::new(ZoneModel::HostManaged, Sectors(120_000 * ZONE / 512), Sectors(ZONE / 512));
    let layer = ZonedLayer::new(ZonedSpec { layout, start: Pba(0), aware: None });
    println!("120,000 zones: {:.2} MiB", (resident_bytes()? - before) as f64 / f64::from(1 << 20));
    drop(layer);
    println!("host-aware, 30 TB, a full volatile cache: {:.2} MiB", full_cache_mib()?);
    for model in ["conventional", "host-managed", "host-aware"] {
        let profile = profile(model)?;
        let start = cpu_seconds()?;
        let drive = Drive::new(&profile, 1)?;
        println!("{model}, 30 TB: built in {:.2} ms", (cpu_seconds()? - start) * 1e3);
        let bytes = drive.capacity().bytes();
        println!("million commands a second of CPU: depth 1, depth 31");
        // A host-managed drive refuses writes anywhere.
        for (name, kind, offset) in
            [("writes in order", Code::Write, in_order()), ("writes anywhere", Code::Write, anywhere(bytes))]
        {
            for cached in [false, true] {
                let [one, many] = [1, 31].map(|depth| rate(&profile, (kind, depth, cached), &offset));
                println!("  {name}, volatile cache {cached}: {:.2}, {:.2}", one?, many?);
            }
        }
    }
    Ok(())
}
