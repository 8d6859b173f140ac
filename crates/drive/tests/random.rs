//! Random drives: they parse, build and run; their properties reach both ends of their ranges and are
//! independent of each other; the same seed gives the same text.
//!
//! `PROPTEST_CASES` asks for as many times more seeds as it is more than its 256. A failure names the seed.

use std::panic::catch_unwind;
use std::sync::OnceLock;

use skylight_command::code::Code;
use skylight_disk::Nanos;
use skylight_drive::jitter::substream;
use skylight_drive::profile::{CleaningType, Layer, Profile};
use skylight_drive::random::ranges::{self, Range, Scale};
use skylight_drive::random::{Kind, RandomDrive, random_drive, random_profile};
use skylight_drive::{Batch, Drive};

use proptest::prelude::ProptestConfig;
use rand_core::Rng;

/// Seeds of each kind in the default run: the fewest hundreds of which every property has a hundred drives.
const SEEDS: u64 = 600;

fn seeds() -> u64 {
    SEEDS * u64::from(ProptestConfig::default().cases / 256).max(1)
}

/// The drives of all seeds of a kind, generated once.
fn drives(kind: Kind) -> &'static [RandomDrive] {
    static DRAWN: [OnceLock<Vec<RandomDrive>>; Kind::ALL.len()] =
        [const { OnceLock::new() }; Kind::ALL.len()];
    let draw =
        |seed| random_drive(seed, Some(kind)).unwrap_or_else(|error| panic!("seed {seed} {kind:?}: {error}"));
    DRAWN[kind as usize].get_or_init(|| (0..seeds()).map(draw).collect())
}

fn profiles(kind: Kind) -> impl Iterator<Item = &'static Profile> {
    drives(kind).iter().map(|drive| &drive.profile)
}

/// Random commands of all kinds at some depth, and a pause.
fn exercise(drive: &mut Drive, seed: u64) {
    let mut stream = substream(seed, "exercise");
    let mut below = |bound: u64| ((u128::from(stream.next_u64()) * u128::from(bound)) >> 64) as u64;
    let capacity = drive.capacity().get();
    for depth in [1, 31] {
        let (mut op, mut offset, mut size) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..100 {
            let sectors = [1, 8, 8, 64, 512, 2048][below(6) as usize];
            op.push(match below(9) {
                0 | 1 => Code::Read,
                2..6 => Code::Write,
                6 => Code::Flush,
                7 => Code::Trim,
                _ => Code::WriteFua,
            });
            // Half of them are close together, so that commands overlap.
            let window = if below(2) == 0 { 1 << 18 } else { capacity };
            offset.push(below(window.min(capacity - sectors)) * 512);
            size.push(sectors as u32 * 512);
        }
        let (mut submit, mut complete) = (vec![0; 100], vec![0; 100]);
        let batch = Batch { op: &op, offset: &offset, size: &size };
        drive
            .run(&batch, depth, &mut submit, &mut complete)
            .unwrap_or_else(|error| panic!("{seed}: {error}"));
        assert!(submit.iter().zip(&complete).all(|(s, c)| s < c), "seed {seed}: a command took no time");
        drive.pause(Nanos(20_000_000_000));
    }
}

#[test]
fn every_seed_of_every_kind_builds_and_runs() {
    for kind in Kind::ALL {
        for (seed, profile) in (0..).zip(profiles(kind)) {
            let run = || {
                let mut drive = Drive::new(profile, seed).unwrap_or_else(|error| panic!("{error}"));
                assert_eq!(drive.capacity().bytes(), profile.capacity.get());
                exercise(&mut drive, seed);
            };
            assert!(catch_unwind(run).is_ok(), "seed {seed} --kind {} fails; see above", kind.name());
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_whether_the_kind_is_drawn_or_requested() {
    let mut counts = [0u32; Kind::ALL.len()];
    for seed in 0..seeds() {
        let text = random_profile(seed, None).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
        let kind = Kind::ALL.iter().position(|kind| text.contains(&format!("kind = \"{}\"\n", kind.name())));
        let kind = kind.unwrap_or_else(|| panic!("seed {seed} has no kind\n{text}"));
        counts[kind] += 1;
        assert_eq!(text, drives(Kind::ALL[kind])[seed as usize].text, "seed {seed}");
    }
    // Conventional 20 %, SSD 10 %, the others a third of the rest each; tolerance of 4 standard deviations of
    // the count.
    for (count, part) in counts.iter().zip([0.2, 0.1, 0.7 / 3.0, 0.7 / 3.0, 0.7 / 3.0]) {
        let (mean, deviation) = (seeds() as f64 * part, (seeds() as f64 * part * (1.0 - part)).sqrt());
        assert!((f64::from(*count) - mean).abs() < 4.0 * deviation, "{counts:?}");
    }
}

/// The relative position of a value in its range, 0 to 1.
fn relative_position(range: &Range, value: f64) -> f64 {
    match range.scale {
        Scale::Log => (value / range.low).ln() / (range.high / range.low).ln(),
        _ => (value - range.low) / (range.high - range.low),
    }
}

/// A property of a drive, read from its profile; `None` for a drive without it.
type Property = (&'static Range, Kind, fn(&Profile) -> Option<f64>);

const MIB: f64 = 1_048_576.0;

fn track_mib(sectors: u32) -> f64 {
    f64::from(sectors) * 512.0 / MIB
}

/// Sectors of the outermost and innermost tracks.
fn ends(p: &Profile) -> (u32, u32) {
    match (&p.geometry.taper, p.geometry.zone.as_slice()) {
        (Some(taper), _) => (taper.outer_sectors_per_track, taper.inner_sectors_per_track),
        (None, [first, .., last]) => (first.sectors_per_track, last.sectors_per_track),
        (None, zones) => panic!("{} zones", zones.len()),
    }
}

fn zones(p: &Profile) -> f64 {
    p.geometry.taper.as_ref().map_or(p.geometry.zone.len() as f64, |taper| f64::from(taper.zones))
}

fn seek_ms(p: &Profile, distance: f64) -> Option<f64> {
    p.mechanics.seek.fitted.as_ref().map(|fitted| fitted.time_ns(distance) / 1e6)
}

macro_rules! of_layer {
    ($kind:ident, |$keys:ident| $value:expr) => {
        |p| match &p.layer {
            Layer::$kind($keys) => $value,
            _ => None,
        }
    };
}

fn fully_associative_part(p: &Profile) -> Option<f64> {
    let Layer::FullyAssociative(keys) = &p.layer else { return None };
    Some(keys.free_bands as f64 * keys.band.get() as f64 / keys.zone.get() as f64)
}

/// Size in tracks of a part of a journaled drive with its cache at the OD.
fn tracks_at_od(p: &Profile, bytes: impl Fn(&skylight_drive::profile::Journaled) -> u64) -> Option<f64> {
    let Layer::Journaled(keys) = &p.layer else { return None };
    let at_od = keys.cache_location == Some(skylight_drive::profile::CacheLocation::Od);
    at_od.then(|| bytes(keys) as f64 / 512.0 / f64::from(ends(p).0))
}

const PROPERTIES: &[Property] = &[
    (&ranges::CAPACITY_BYTES, Kind::Conventional, |p| Some(p.capacity.get() as f64)),
    (&ranges::SPEED_RPM, Kind::Conventional, |p| p.mechanics.rpm),
    (&ranges::SURFACES, Kind::Conventional, |p| Some(f64::from(p.geometry.surfaces))),
    (&ranges::OUTER_TRACK_MIB, Kind::Conventional, |p| Some(track_mib(ends(p).0))),
    (&ranges::OUTER_TO_INNER, Kind::Conventional, |p| Some(f64::from(ends(p).0) / f64::from(ends(p).1))),
    (&ranges::RECORDING_ZONES, Kind::Conventional, |p| Some(zones(p))),
    (&ranges::TRACK_SEEK_MS, Kind::Conventional, |p| seek_ms(p, 1.0)),
    (&ranges::FULL_SEEK_MS, Kind::Conventional, |p| seek_ms(p, p.geometry.tracks() as f64 - 1.0)),
    (&ranges::COMMAND_OVERHEAD_US, Kind::Ssd, |p| Some(p.interface.command_overhead.ns() / 1e3)),
    (&ranges::WRITE_CACHE_MIB, Kind::Ssd, |p| Some(p.interface.write_cache.get() as f64 / MIB)),
    (&ranges::JITTER_PART, Kind::Ssd, |p| Some(p.jitter.relative)),
    (&ranges::JITTER_US, Kind::Ssd, |p| Some(p.jitter.absolute.ns() / 1e3)),
    (&ranges::OUTLIER_PART, Kind::Ssd, |p| Some(p.jitter.outlier_rate)),
    (&ranges::OUTLIER_MS, Kind::Ssd, |p| (p.jitter.outlier.ns() > 0.0).then(|| p.jitter.outlier.ns() / 1e6)),
    (&ranges::BAND_MIB, Kind::SetAssociative, of_layer!(SetAssociative, |k| Some(k.band.get() as f64 / MIB))),
    (
        &ranges::BAND_MIB,
        Kind::FullyAssociative,
        of_layer!(FullyAssociative, |k| Some(k.band.get() as f64 / MIB)),
    ),
    (&ranges::BAND_MIB, Kind::Journaled, of_layer!(Journaled, |k| Some(k.bands[0].band.get() as f64 / MIB))),
    (&ranges::BAND_WATERMARK, Kind::SetAssociative, of_layer!(SetAssociative, |k| Some(k.watermark))),
    (
        &ranges::IDLE_S,
        Kind::SetAssociative,
        of_layer!(SetAssociative, |k| k.idle.map(|idle| idle.ns() / 1e9)),
    ),
    (&ranges::DISK_CACHE_PART, Kind::SetAssociative, |p| match &p.layer {
        Layer::SetAssociative(k) if k.cache_location.is_some() => {
            Some(k.cache.get() as f64 / p.capacity.get() as f64)
        }
        _ => None,
    }),
    (&ranges::FLASH_CACHE_MIB, Kind::SetAssociative, |p| match &p.layer {
        Layer::SetAssociative(k) if k.cache_location.is_none() => Some(k.cache.get() as f64 / MIB),
        _ => None,
    }),
    (&ranges::DISK_CACHE_PART, Kind::FullyAssociative, fully_associative_part),
    (
        &ranges::ZONE_WATERMARK,
        Kind::FullyAssociative,
        of_layer!(FullyAssociative, |k| { Some(1.0 - k.clean_threshold as f64 / k.free_bands as f64) }),
    ),
    (&ranges::DISK_CACHE_PART, Kind::Journaled, |p| match &p.layer {
        Layer::Journaled(k) if k.cache_location.is_some() => {
            Some(k.places as f64 * k.quantum.get() as f64 / p.capacity.get() as f64)
        }
        _ => None,
    }),
    (&ranges::MAP_ENTRIES, Kind::Journaled, of_layer!(Journaled, |k| k.map_entries.map(|n| n as f64))),
    (&ranges::QUANTUM_TRACKS, Kind::Journaled, |p| tracks_at_od(p, |k| k.quantum.get())),
    (&ranges::OUT_OF_BAND_TRACKS, Kind::Journaled, |p| tracks_at_od(p, |k| k.out_of_band.get())),
    (
        &ranges::ENTRY_QUANTA,
        Kind::Journaled,
        of_layer!(Journaled, |k| { Some(k.entry_max.get() as f64 / k.quantum.get() as f64) }),
    ),
    (
        &ranges::MAP_MERGE_EVERY,
        Kind::Journaled,
        of_layer!(Journaled, |k| k.map_merge_every.map(|n| n as f64)),
    ),
    (&ranges::PLACE_WATERMARK, Kind::Journaled, of_layer!(Journaled, |k| Some(k.place_watermark))),
    (
        &ranges::MAP_WATERMARK,
        Kind::Journaled,
        of_layer!(Journaled, |k| k.map_entries.map(|_| k.map_watermark)),
    ),
    (&ranges::IDLE_S, Kind::Journaled, of_layer!(Journaled, |k| k.idle.map(|idle| idle.ns() / 1e9))),
    (&ranges::ZONE_MIB, Kind::HostManaged, of_layer!(Zoned, |k| Some(k.zone_size.get() as f64 / MIB))),
    (&ranges::OPEN_ZONES, Kind::HostManaged, of_layer!(Zoned, |k| k.max_open_zones.map(f64::from))),
    (&ranges::ZONE_MIB, Kind::HostAware, of_layer!(Zoned, |k| Some(k.zone_size.get() as f64 / MIB))),
    (&ranges::OPEN_ZONES, Kind::HostAware, of_layer!(Zoned, |k| k.max_open_zones.map(f64::from))),
    (
        &ranges::NON_SEQUENTIAL_ZONES,
        Kind::HostAware,
        of_layer!(Zoned, |k| k.recommended_non_sequential_zones.map(f64::from)),
    ),
    (
        &ranges::IDLE_S,
        Kind::FullyAssociative,
        of_layer!(FullyAssociative, |k| k.idle.map(|idle| idle.ns() / 1e9)),
    ),
];

#[test]
fn properties_reach_both_ends_of_their_ranges() {
    for kind in Kind::ALL {
        for (range, _, value) in PROPERTIES.iter().filter(|(_, of, _)| *of == kind) {
            let places: Vec<f64> =
                profiles(kind).filter_map(value).map(|value| relative_position(range, value)).collect();
            let least = places.iter().copied().fold(f64::INFINITY, f64::min);
            let most = places.iter().copied().fold(f64::NEG_INFINITY, f64::max);
            println!("{kind:?} {}: {} drives, {least:.3} to {most:.3}", range.name, places.len());
            assert!(places.len() >= 100, "{} of {kind:?}: {} drives", range.name, places.len());
            assert!(least <= 0.05 && most >= 0.95, "{} of {kind:?}: {least:.3} to {most:.3}", range.name);
        }
    }
}

#[test]
fn zones_are_of_all_kinds() {
    let keys = profiles(Kind::HostManaged).map(|profile| match &profile.layer {
        Layer::Zoned(keys) => (keys, profile.capacity.get().div_ceil(keys.zone_size.get())),
        layer => panic!("{}: {layer:?}", profile.name),
    });
    let (mut none, mut all, mut powers, mut smaller, mut active, mut unlimited) = (0, 0, 0, 0, 0, 0);
    for (keys, zones) in keys {
        none += usize::from(keys.conventional_zones == 0);
        all += usize::from(u64::from(keys.conventional_zones) * 20 >= zones * 19);
        powers += usize::from(keys.zone_size.get().is_power_of_two());
        smaller += usize::from(keys.zone_capacity.is_some());
        active += usize::from(keys.max_active_zones.is_some());
        unlimited += usize::from(keys.max_open_zones.is_none());
    }
    let counts = [none, all, powers, smaller, active, unlimited];
    let least = [0.2, 0.002, 0.45, 0.2, 0.15, 0.05].map(|part| (part * seeds() as f64) as usize);
    assert!(counts.iter().zip(least).all(|(&count, least)| count >= least), "{counts:?} of {}", seeds());
}

#[test]
fn volatile_caches_of_host_aware_drives_have_a_run_for_each_open_zone() {
    let (mut limited, mut unlimited) = (0, 0);
    for profile in profiles(Kind::HostAware).filter(|p| p.interface.write_cache.get() > 0) {
        let Layer::Zoned(keys) = &profile.layer else { panic!("{}: {:?}", profile.name, profile.layer) };
        match profile.interface.write_cache_runs {
            Some(runs) => {
                limited += 1;
                assert!(Some(runs) >= keys.max_open_zones, "{}: {runs}", profile.name);
            }
            None => unlimited += 1,
        }
    }
    assert!(limited > unlimited && unlimited > 100, "{limited} with a limit, {unlimited} without");
    for kind in Kind::ALL.into_iter().filter(|&kind| kind != Kind::HostAware) {
        assert!(profiles(kind).all(|p| p.interface.write_cache_runs.is_none()), "{}", kind.name());
    }
}

fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    for (rank, &index) in order.iter().enumerate() {
        ranks[index] = rank as f64;
    }
    ranks
}

/// Spearman's rank correlation.
fn correlation(a: &[f64], b: &[f64]) -> f64 {
    let (a, b) = (ranks(a), ranks(b));
    let mean = (a.len() as f64 - 1.0) / 2.0;
    let sum: f64 = a.iter().zip(&b).map(|(a, b)| (a - mean) * (b - mean)).sum();
    sum / a.iter().map(|a| (a - mean).powi(2)).sum::<f64>()
}

#[test]
fn properties_are_independent_except_for_physical_limits() {
    // Large drives need surfaces and long tracks; properties derived from those depend on the capacity.
    let bound = ["CAPACITY_BYTES", "SURFACES", "OUTER_TRACK_MIB", "DISK_CACHE_PART", "FREE_BANDS"];
    // A journal with much out-of-band data and small quanta has a smaller cache (`layers`).
    let bound_to_cache =
        ["QUANTUM_TRACKS", "OUT_OF_BAND_TRACKS", "DISK_CACHE_PART", "BAND_MIB", "ZONE_WATERMARK"];
    for kind in Kind::ALL {
        let of_kind: Vec<_> = PROPERTIES.iter().filter(|(_, of, _)| *of == kind).collect();
        for (number, (first, _, a)) in of_kind.iter().enumerate() {
            for (second, _, b) in &of_kind[number + 1..] {
                let names = [first.name, second.name];
                if names.iter().all(|n| bound.contains(n)) || names.iter().all(|n| bound_to_cache.contains(n))
                {
                    continue;
                }
                let both = profiles(kind).filter_map(|p| Some((a(p)?, b(p)?)));
                let (left, right): (Vec<f64>, Vec<f64>) = both.unzip();
                if left.is_empty() {
                    continue; // A cache is on the disk or on flash.
                }
                // 4.5 standard deviations of the correlation of independent values.
                let most = 4.5 / (left.len() as f64 - 1.0).sqrt();
                let found = correlation(&left, &right);
                assert!(found.abs() < most, "{kind:?}: {names:?} correlate, {found:.3} over {}", left.len());
            }
        }
    }
}

#[test]
fn every_choice_is_drawn() {
    let drawn = &drives(Kind::Journaled)[..400];
    let words = [
        "layout = \"cylinder\"",
        "layout = \"cylinder-serpentine\"",
        "layout = \"surface-serpentine\"",
        "layout = \"hybrid-serpentine\"",
        "layout = \"horizontal-zones\"",
        "surface_density",
        "outward = true",
        "cache_medium = \"flash\"",
        "cache_location = \"od\"",
        "cache_location = \"md\"",
        "cache_location = \"id\"",
        "cleaning = \"lazy\"",
        "cleaning = \"aggressive\"",
        "cleaning_order = \"fifo\"",
        "cleaning_order = \"lifo\"",
        "cleaning_order = \"greedy\"",
        "cleaning_order = \"random\"\ncleaning_seed = ",
        "whole_bands_bypass = true",
        "guard_tracks",
        "write_cache_on = true",
        "write_cache_on = false",
        "zero_latency = true",
        "schedule = \"fifo\"",
    ];
    for word in words {
        let count = drawn.iter().filter(|drive| drive.text.contains(word)).count();
        assert!((4..400).contains(&count), "{word}: in {count} of 400");
    }
    let lazy = profiles(Kind::Journaled)
        .take(drawn.len())
        .filter(|p| matches!(&p.layer, Layer::Journaled(keys) if keys.cleaning == CleaningType::Lazy));
    assert!((60..140).contains(&lazy.count()));
}

#[test]
fn ranges_are_at_least_those_promised() {
    // docs/random-drives.md, "Ranges".
    let wanted = [
        (&ranges::CAPACITY_BYTES, 100e9, 30e12),
        (&ranges::SPEED_RPM, 4_200.0, 15_000.0),
        (&ranges::SURFACES, 1.0, 20.0),
        (&ranges::OUTER_TRACK_MIB, 0.3, 3.0),
        (&ranges::OUTER_TO_INNER, 1.5, 2.5),
        (&ranges::RECORDING_ZONES, 4.0, 60.0),
        (&ranges::TRACK_SEEK_MS, 0.5, 2.0),
        (&ranges::FULL_SEEK_MS, 8.0, 25.0),
        (&ranges::COMMAND_OVERHEAD_US, 20.0, 500.0),
        (&ranges::BAND_MIB, 4.0, 256.0),
        (&ranges::DISK_CACHE_PART, 0.001, 0.1),
        (&ranges::FLASH_CACHE_MIB, 64.0, 65_536.0),
        (&ranges::MAP_ENTRIES, 1e4, 2e6),
        (&ranges::QUANTUM_TRACKS, 0.2, 1.0),
        (&ranges::OUT_OF_BAND_TRACKS, 0.0, 3.0),
        (&ranges::ENTRY_QUANTA, 1.0, 16.0),
        (&ranges::MAP_MERGE_EVERY, 50.0, 2_000.0),
        (&ranges::MAP_MERGE_MS, 20.0, 800.0),
        (&ranges::PLACE_WATERMARK, 0.8, 1.0),
        (&ranges::MAP_WATERMARK, 0.8, 1.0),
        (&ranges::IDLE_S, 0.2, 120.0),
        (&ranges::JITTER_PART, 0.0, 0.03),
        (&ranges::JITTER_US, 0.0, 200.0),
        (&ranges::OUTLIER_PART, 0.0, 0.005),
        (&ranges::OUTLIER_MS, 5.0, 200.0),
        (&ranges::WRITE_CACHE_MIB, 0.0, 256.0),
    ];
    for (range, low, high) in wanted {
        assert!(range.low <= low && high <= range.high, "{} is {} to {}", range.name, range.low, range.high);
    }
    for range in ranges::RANGES {
        assert!(range.low < range.high && range.digits > 0 && !range.source.is_empty(), "{}", range.name);
    }
    for chance in ranges::CHANCES {
        assert!(0.0 < chance.part && chance.part < 1.0 && !chance.source.is_empty(), "{}", chance.name);
    }
}
