//! The profiles that come with Skylight: each builds a drive, and its tracks, zones, bands and regions are
//! consistent.

use std::path::Path;
use std::time::{Duration, Instant};

use skylight_command::code::Code;
use skylight_disk::{Lba, LbaExtent, SectorPosition, Sectors};
use skylight_drive::profile::{Journaled, Layer, Profile};
use skylight_drive::{Batch, Drive};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/skylight/profiles")
}

fn profile(name: &str) -> Profile {
    let path = folder().join(format!("{name}.toml"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Profile::from_toml(&text, name).unwrap_or_else(|error| panic!("{error}"))
}

fn drive(name: &str) -> Drive {
    Drive::new(&profile(name), 1).unwrap_or_else(|error| panic!("{error}"))
}

fn journaled(profile: &Profile) -> &Journaled {
    let Layer::Journaled(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
    keys
}

/// Native location of a host byte.
fn native(drive: &Drive, byte: u64) -> SectorPosition {
    let mut pieces = Vec::new();
    drive.layer().locate(LbaExtent::new(Lba(byte / 512), Sectors(1)), &mut pieces);
    drive.disk().geometry().position_of(pieces[0].extent.start)
}

/// Bytes from `start` on that are contiguous on the platters: the rest of a band.
fn contiguous(drive: &Drive, start: u64) -> u64 {
    let mut pieces = Vec::new();
    let most = Sectors(256 * MIB / 512).min(drive.capacity() - Sectors(start / 512));
    drive.layer().locate(LbaExtent::new(Lba(start / 512), most), &mut pieces);
    pieces[0].extent.len.bytes()
}

/// A pass as the host sees it: a run of addresses on one surface with a constant number of sectors per track.
struct Pass {
    surface: u16,
    sectors_per_track: u32,
    bytes: u64,
}

/// The first passes from a host byte on.
fn passes(drive: &Drive, from: u64, count: usize) -> Vec<Pass> {
    let mut passes: Vec<Pass> = Vec::new();
    let mut at = from;
    while at < drive.capacity().bytes() {
        let SectorPosition { surface, sectors_per_track, .. } = native(drive, at);
        let same =
            passes.last().is_some_and(|s| (s.surface, s.sectors_per_track) == (surface, sectors_per_track));
        if !same && passes.len() == count {
            break;
        }
        if !same {
            passes.push(Pass { surface, sectors_per_track, bytes: 0 });
        }
        let left = contiguous(drive, at);
        passes.last_mut().expect("just pushed").bytes += left;
        at += left;
    }
    passes
}

#[test]
fn every_profile_builds_a_drive_quickly() {
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("the profiles")
        .map(|entry| {
            entry.expect("a file").path().file_stem().expect("a name").to_string_lossy().into_owned()
        })
        .collect();
    names.sort();
    assert_eq!(
        names,
        [
            "emulated-smr-1",
            "emulated-smr-2",
            "emulated-smr-3",
            "st4000nc001",
            "st5000as0011",
            "st8000as0011",
            "st8000as0022",
            "swd-160gb",
            "wsh722020al"
        ]
    );
    for name in names {
        let profile = profile(&name);
        assert_eq!(profile.name, name);
        let begun = Instant::now();
        let drive = Drive::new(&profile, 1).unwrap_or_else(|error| panic!("{error}"));
        assert!(begun.elapsed() < Duration::from_millis(500), "{name} took {:?}", begun.elapsed());
        assert_eq!(drive.capacity().bytes(), profile.capacity.get(), "{name}");
        let last = native(&drive, profile.capacity.get() - 512);
        assert!(last.track < drive.disk().geometry().tracks(), "{name}");
    }
}

#[test]
fn the_cache_occupies_the_first_zone_and_host_data_starts_with_a_pass() {
    for name in ["st5000as0011", "st8000as0011"] {
        let (profile, drive) = (profile(name), drive(name));
        let zone = &profile.geometry.zone[0];
        let bytes =
            zone.tracks * u64::from(zone.sectors_per_track) * u64::from(profile.geometry.surfaces) * 512;
        assert_eq!(journaled(&profile).cache_region.map(|region| region.get()), Some(bytes), "{name}");
        let first = native(&drive, 0);
        let behind = zone.tracks + journaled(&profile).guard_tracks as u64;
        assert_eq!((u64::from(first.track), first.sector, first.surface), (behind, 0, 0), "{name}");
    }
}

/// S9a: 36, 30 and 17 MiB at the OD, 2.5 TB and the ID; a run of bands ends where a zone does.
#[test]
fn bands_have_their_sizes_and_change_between_zones() {
    for (name, sizes) in [("st5000as0011", [36, 30, 17]), ("st8000as0011", [40, 31, 15])] {
        let (profile, drive) = (profile(name), drive(name));
        let capacity = profile.capacity.get();
        let mut start = 0;
        for run in &journaled(&profile).bands {
            assert!(run.band.get().is_multiple_of(MIB), "{name}: {} is whole MiB", run.band);
            let place = native(&drive, start);
            assert_eq!(place.sector, 0, "{name}: bands of {} begin a zone", run.band);
            assert_eq!(
                contiguous(&drive, start),
                run.band.get(),
                "{name}: a band and its guard from {start} on"
            );
            start = run.until.map_or(capacity, |until| until.get());
            assert!(start == capacity || start.is_multiple_of(MIB));
        }
        let band_at = |offset: u64| {
            let runs = &journaled(&profile).bands;
            let run = runs.iter().find(|run| run.until.is_none_or(|until| offset < until.get()));
            run.map(|run| run.band.get() / MIB)
        };
        let found = [0, capacity / 2, capacity - 1].map(band_at);
        assert_eq!(found, sizes.map(Some), "{name}");
    }
}

/// S11a: eight plateaus, then the same eight in reverse, of 18 to 20 GiB at the start and of 4 GiB at the
/// end; S11b: the direction of the passes.
#[test]
fn x() {
    let (profile, drive) = (profile("st5000as0011"), drive("st5000as0011"));
    let capacity = profile.capacity.get();
    let first = passes(&drive, 0, 16);
    let surfaces: Vec<u16> = first.iter().map(|pass| pass.surface).collect();
    assert_eq!(surfaces, [0, 1, 2, 3, 4, 5, 6, 7, 7, 6, 5, 4, 3, 2, 1, 0]);
    for (down, up) in first[..8].iter().zip(first[8..].iter().rev()) {
        let (down, up) = (f64::from(down.sectors_per_track), f64::from(up.sectors_per_track));
        assert!(
            up < down && up > 0.98 * down,
            "mirrored and slightly lower: {down} and {up} sectors a track"
        );
    }
    for (at, Pass { sectors_per_track: sectors, bytes, .. }) in first[..8].iter().enumerate() {
        let gib = *bytes as f64 / GIB as f64;
        assert!((17.9..=20.1).contains(&gib), "pass {at} has {gib:.2} GiB");
        let near = first[..8]
            .iter()
            .filter(|other| other.sectors_per_track.abs_diff(*sectors) * 100 < *sectors)
            .count();
        assert_eq!(near, 1, "pass {at} is 1 % from all others");
    }
    let last = passes(&drive, capacity - 31 * GIB, 8);
    for pass in &last[1..7] {
        let gib = pass.bytes as f64 / GIB as f64;
        assert!((3.8..=4.3).contains(&gib), "a pass at the end has {gib:.2} GiB");
    }
    let inwards = |byte: u64| native(&drive, byte + GIB).track > native(&drive, byte).track;
    assert!(inwards(0) && !inwards(capacity - 3 * GIB), "towards the MD from both sides");
    // A serpentine at the MD: one pass inwards, the next outwards.
    let directions: Vec<bool> = (0..60).map(|step| inwards(2_340_000_000_000 + step * 2 * GIB)).collect();
    let changes = directions.windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!((6..=9).contains(&changes), "passes of 14 GiB: {directions:?}");
}

/// The paper's drives have so few data bands that a host waits for all of a cache band, as the paper has it.
#[test]
fn one_write_empties_a_full_cache_band_of_the_papers_drives() {
    for name in ["emulated-smr-1", "emulated-smr-2"] {
        let profile = profile(name);
        let Layer::SetAssociative(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
        let (band, parts) = (keys.band.get(), keys.cache.get() / keys.band.get());
        let mut drive = drive(name);
        drive.set_write_cache(false);
        // A block of each data band of the first cache band, long writes until it is full, and one more.
        let data_bands = (profile.capacity.get() / band).div_ceil(parts) - 1;
        let blocks = (0..data_bands).map(|index| (index * parts * band, 4096));
        let rest = (band - data_bands * 4096) / MIB;
        let long = std::iter::repeat_n((0, MIB as u32), rest as usize + 1);
        let (offset, size): (Vec<u64>, Vec<u32>) = blocks.chain(long).unzip();
        let op = vec![Code::Write; offset.len()];
        let (mut submit, mut complete) = (vec![0; op.len()], vec![0; op.len()]);
        drive
            .run(&Batch { op: &op, offset: &offset, size: &size }, 1, &mut submit, &mut complete)
            .expect("it is valid");
        let last_s = (complete[op.len() - 1] - submit[op.len() - 1]) as f64 / 1e9;
        let in_use = drive.cache_use();
        assert_eq!(
            (in_use.live_sectors, in_use.filled_sectors),
            (MIB / 512, MIB / 512),
            "{name}: {data_bands}"
        );
        println!("{name}: {data_bands} data bands in {last_s:.0} s");
        assert!(last_s > 0.2 * data_bands as f64, "{name}: {last_s} s for {data_bands} data bands");
    }
}
