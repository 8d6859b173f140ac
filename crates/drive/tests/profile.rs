//! Valid profiles: the example, defaults, quantities that parse back, generated pages.

use proptest::prelude::*;
use skylight_drive::profile::{
    Bytes, CacheLocation, CacheMedium, Duration, EXAMPLE, Layer, Layout, Profile, Schedule, SeekPoint,
    json_schema, reference,
};

fn read(text: &str) -> Profile {
    Profile::from_toml(text, "f.toml").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

#[test]
fn the_example_has_its_values() {
    let profile = read(EXAMPLE);
    assert_eq!(profile.name, "emulated-smr-1");
    assert_eq!(profile.capacity, Bytes(3_899_999_997_952), "3.9 TB in whole 4 KiB blocks");
    assert_eq!(profile.mechanics.rotation(), Duration::from_ns(10_170_000.0));
    assert_eq!(profile.mechanics.write_settle.nanos().get(), 100_000);
    assert_eq!(profile.geometry.layout, Layout::CylinderSerpentine);
    assert_eq!(profile.geometry.tracks(), 369_000);
    assert_eq!(profile.interface.schedule, Schedule::ShortestPositioningFirst);
    let fitted = profile.mechanics.seek.fitted.as_ref().map(|fitted| fitted.time_ns(10_000.0));
    assert_eq!(fitted, Some(800_000.0 + 1_200_000.0 + 200_000.0));
    let Layer::SetAssociative(layer) = &profile.layer else { panic!("{:?}", profile.layer) };
    assert_eq!(
        (layer.band, layer.cache),
        (Bytes(40 << 20), Bytes(952 * (40 << 20))),
        "whole bands of 37.2 GiB"
    );
    assert_eq!((layer.cache_medium, layer.cache_location), (CacheMedium::Disk, Some(CacheLocation::Id)));
}

/// The minimum that a profile requires.
const MINIMAL: &str = r#"
schema = 1
name = "least"
capacity = "100 GB"
mechanics = { rpm = 7200, head_switch = "1 ms", seek = { points = [[1, "1.245 ms"], [2, "1.157 ms"]] } }
[geometry]
surfaces = 2
layout = "hybrid-serpentine"
group_tracks = 7
track_skew = "1 ms"
head_skew = "1 ms"
[[geometry.zone]]
tracks = 100
sectors_per_track = 500
[[geometry.zone]]
tracks = 50
sectors_per_track = 400
[interface]
queue_depth = 1
command_overhead = "100 us"
[layer]
kind = "conventional"
"#;

#[test]
fn defaults_fill_in() {
    let profile = read(MINIMAL);
    assert_eq!(profile.interface.schedule, Schedule::Fifo);
    assert_eq!(profile.interface.host_gap, Duration::ZERO);
    assert_eq!(profile.mechanics.write_settle, Duration::ZERO);
    assert!(!profile.mechanics.zero_latency);
    assert_eq!(profile.jitter.relative, 0.0);
    assert_eq!(profile.geometry.tracks(), 150);
    assert_eq!(profile.capacity, Bytes(99_999_997_952), "an SI figure is rounded down to blocks");
    assert_eq!(profile.mechanics.rotation().ns(), 60e9 / 7200.0);
    let fall = SeekPoint(2, Duration::from_ns(1_157_000.0));
    assert_eq!(profile.mechanics.seek.points[1], fall, "a measured curve may fall, as the Atlas 10K's does");
    let json = profile.to_json();
    for filled in
        [r#""schedule": "fifo""#, r#""host_gap": "0 ms""#, r#""relative": 0.0"#, r#""capacity": 99999997952"#]
    {
        assert!(json.contains(filled), "{filled} in {json}");
    }
    assert!(!json.contains("null") && !json.contains("flash"), "{json}");
}

/// The example with a flash cache.
fn flash() -> String {
    let disk = "cache_medium = \"disk\"\ncache_location = \"id\"";
    let flash =
        "cache_medium = \"flash\"\n[flash]\nread = \"90 us\"\nwrite = \"0.2 ms\"\nbandwidth = \"400 MB\"";
    assert!(EXAMPLE.contains(disk));
    EXAMPLE.replace(disk, flash)
}

#[test]
fn a_flash_cache_has_a_speed() {
    let flash = read(&flash()).flash.map(|flash| (flash.read.ns(), flash.write.ns(), flash.bandwidth));
    assert_eq!(flash, Some((90_000.0, 200_000.0, Bytes(400_000_000))));
}

#[test]
fn json_has_the_whole_profile() {
    for text in [EXAMPLE, MINIMAL, &flash()] {
        let json = read(text).to_json();
        let table: toml::Table =
            serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
        assert_eq!(read(&table.to_string()).to_json(), json);
    }
}

#[test]
fn quantities_in_human_notation() {
    for (text, bytes) in [
        ("4k", 4096),
        ("4K", 4096),
        ("4 KiB", 4096),
        ("4kb", 4000),
        ("37.2 GiB", 39_943_195_852),
        ("37.2GiB", 39_943_195_852),
        ("40 MiB", 40 << 20),
        ("3.9 TB", 3_900_000_000_000),
        ("1.5T", 3 << 39),
        ("512", 512),
        ("512 B", 512),
        ("0", 0),
        ("18446744073709551615", u64::MAX),
    ] {
        assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
    }
    for (text, ns) in [
        ("10.17 ms", 10_170_000.0),
        ("10.17ms", 10_170_000.0),
        ("5.985037406 ms", 5_985_037.406),
        ("100 us", 100_000.0),
        ("100 µs", 100_000.0),
        ("1.2 s", 1.2e9),
        ("250 ns", 250.0),
        ("0 s", 0.0),
        ("-0.5 ms", -500_000.0),
    ] {
        assert_eq!(text.parse(), Ok(Duration::from_ns(ns)), "{text}");
    }
    for text in
        ["", " ", "k", "ms", ".5 ms", "5. ms", "1.2.3 ms", "1e3 ms", "0x10", "--1 s", "١ ms", "1 \u{212a}"]
    {
        assert!(text.parse::<Bytes>().is_err(), "{text:?} is no size");
        assert!(text.parse::<Duration>().is_err(), "{text:?} is no duration");
    }
    for (printed, bytes) in
        [("40 MiB", 40 << 20), ("3.9 TB", 3_900_000_000_000), ("512 B", 512), ("2 GiB", 2 << 30)]
    {
        assert_eq!(Bytes(bytes).to_string(), printed);
    }
    for (printed, ns) in
        [("10.17 ms", 10_170_000.0), ("100 us", 1e5), ("1.2 s", 1.2e9), ("0 ms", 0.0), ("0.25 ns", 0.25)]
    {
        assert_eq!(Duration::from_ns(ns).to_string(), printed);
    }
}

/// Values of every type, many of them wrong for their key.
const VALUES: &str =
    r#"-?[1-9][0-9]{0,25}(\.[0-9]{1,5})?|"[0-9.]{1,6} ?(ms|us|KiB|TB)"|"fifo"|\[\]|\[1\]|\{\}|nan|inf|true"#;

proptest! {
    #[test]
    fn sizes_parse_back(bytes in any::<u64>(), shift in 0_u32..64) {
        for size in [Bytes(bytes >> shift), Bytes((bytes >> shift) / 1000 * 1000)] {
            prop_assert_eq!(size.to_string().parse(), Ok(size));
        }
    }

    #[test]
    fn durations_parse_back(ns in -1e13..1e13_f64, digits in 0_u32..9) {
        let step = 10_f64.powi(digits as i32);
        for ns in [ns, (ns / step).round() * step, 1.0 / ns] {
            let duration = Duration::from_ns(ns);
            prop_assert_eq!(duration.to_string().parse(), Ok(duration));
        }
    }

    #[test]
    fn any_text_is_accepted_or_rejected_in_one_line(
        text in any::<String>(),
        at in 0..EXAMPLE.len(),
        cut in 0_usize..20,
    ) {
        let end = (at + cut).min(EXAMPLE.len());
        let (before, after) = (EXAMPLE.get(..at).unwrap_or(""), EXAMPLE.get(end..).unwrap_or(""));
        for text in [text.clone(), format!("{before}{text}{after}"), format!("{before}{after}")] {
            if let Err(error) = Profile::from_toml(&text, "f.toml") {
                let line = error.to_string();
                prop_assert!(!line.contains(char::is_control), "{line:?}");
                let number = line.split(':').nth(1).and_then(|number| number.parse::<usize>().ok());
                let within = |number| (1..=text.lines().count() + 1).contains(&number);
                prop_assert!(number.is_some_and(within), "{line:?}");
            }
        }
        // For text that is not a quantity, the only requirement is that nothing panics.
        let _ = (text.parse::<Bytes>(), text.parse::<Duration>());
    }

    #[test]
    fn any_value_is_accepted_or_rejected(key in 0_usize..64, value in VALUES) {
        let lines: Vec<&str> = EXAMPLE.lines().collect();
        let keys: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].contains(" = ")).collect();
        let at = keys[key % keys.len()];
        let name = lines[at].split(" = ").next().unwrap_or_default();
        let changed = format!("{name} = {value}");
        let mut text = lines.clone();
        text[at] = &changed;
        if let Err(error) = Profile::from_toml(&text.join("\n"), "f.toml") {
            let line = error.to_string();
            prop_assert!(!line.contains(char::is_control), "{line}");
            prop_assert!(!line.contains("expected"), "serde found what the check had missed: {line}");
        }
    }
}

/// The generated files match the schema.
#[test]
fn generated_pages_are_up_to_date() {
    let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
    for (name, text) in [("profile-reference.md", reference()), ("profile.schema.json", json_schema())] {
        let kept = std::fs::read_to_string(docs.join(name)).unwrap_or_default();
        assert!(
            kept == text,
            "docs/{name} is stale: run `cargo run -p skylight-drive --example profile_docs -- --write`"
        );
    }
}
