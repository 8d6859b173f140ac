//! Invalid profiles and the error line of each: location, key, and remedy.
//!
//! Every case is the example profile with one piece replaced, so that the line numbers are those of the
//! example; the whole line is compared.

mod values;

use skylight_drive::profile::{EXAMPLE, Profile};

/// A case: the piece of the example to replace, its replacement, and the expected line.
type Case = (&'static str, &'static str, &'static str);

const FITTED: &str = r#"fitted = { constant = "0.8 ms", root = "0.012 ms", linear = "0.00002 ms" }"#;
const TAPER: &str = "[geometry.taper]
zones = 24
tracks = 369000
outer_sectors_per_track = 3576
inner_sectors_per_track = 1700";

/// Runs each case; reports all that differ, not only the first.
fn check(cases: &[Case]) {
    let mut wrong = Vec::new();
    for (from, to, expected) in cases {
        assert_eq!(EXAMPLE.matches(from).count(), 1, "{from:?} must stand in the example once");
        let got = match Profile::from_toml(&EXAMPLE.replace(from, to), "f.toml") {
            Ok(_) => "accepted".to_owned(),
            Err(error) => error.to_string(),
        };
        if got != *expected {
            wrong.push(format!("{from:?} -> {to:?}\n  want {expected}\n  got  {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn text_that_is_not_toml() {
    check(&[
        (
            "surfaces = 8",
            "surfaces = ",
            "f.toml:17: is not TOML: string values must be quoted, expected literal string",
        ),
        ("[geometry]", "[geometry", "f.toml:16: is not TOML: unclosed table, expected `]`"),
        (
            "surfaces = 8",
            "surfaces = 8\nsurfaces = 9",
            "f.toml:18: surfaces is given twice; keep one of them",
        ),
        (
            "surfaces = 8",
            "surfaces = 8 heads",
            "f.toml:17: is not TOML: string values must be quoted, expected literal string",
        ),
    ]);
}

#[test]
fn versions() {
    check(&[
        ("schema = 1", "schema = 2\nrings = 3", "f.toml:1: this file has schema 2; this skylight reads 1"),
        ("schema = 1", "# later", "f.toml:1: schema is missing; add, say, schema = 1"),
        (
            "schema = 1",
            "schema = \"1\"",
            "f.toml:1: schema = \"1\" is text; it takes a whole number such as 1",
        ),
    ]);
}

#[test]
fn unknown_keys() {
    check(&[
        (
            "surfaces = 8",
            "surfces = 8",
            "f.toml:17: [geometry] surfces is not a key here; did you mean \"surfaces\"?",
        ),
        (
            "head_switch =",
            "head-switch =",
            "f.toml:9: [mechanics] head-switch is not a key here; did you mean \"head_switch\"?",
        ),
        ("[geometry]", "[geomtry]", "f.toml:16: geomtry is not a key here; did you mean \"geometry\"?"),
        ("name =", "Nmae =", "f.toml:2: Nmae is not a key here; did you mean \"name\"?"),
        (
            "zones = 24",
            "zones = 24\nwobble = 1",
            "f.toml:24: [geometry.taper] wobble is not a key here; the keys are \"zones\", \"tracks\", \
             \"outer_sectors_per_track\" and \"inner_sectors_per_track\"",
        ),
        (
            "zero_latency = false",
            "queue_depth = 4",
            "f.toml:11: [mechanics] queue_depth is not a key here; it belongs in [interface] or [conditions]",
        ),
        (
            "kind = \"set-associative\"",
            "kind = \"conventional\"",
            "f.toml:36: [layer] band is not a key here; it belongs in [layer] of kind \"set-associative\" \
             or [layer] of kind \"fully-associative\" or [[layer.bands]] of kind \"journaled\"",
        ),
        (
            "root = ",
            "rot = ",
            "f.toml:14: [mechanics.seek.fitted] rot is not a key here; did you mean \"root\"?",
        ),
        (
            TAPER,
            "[[geometry.zone]]\ntracks = 5\nsectors_per_track = 900\n\n[[geometry.zone]]\ntrack = 5",
            "f.toml:27: [[geometry.zone]] track is not a key here; did you mean \"tracks\"?",
        ),
        (
            "cache_location = \"id\"",
            "[jitter]\nrelativ = 0",
            "f.toml:40: [jitter] relativ is not a key here; did you mean \"relative\"?",
        ),
    ]);
}

#[test]
fn missing_keys_and_sections() {
    check(&[
        (
            "head_switch = \"0.6 ms\"",
            "",
            "f.toml:7: [mechanics] head_switch is missing; add, say, head_switch = \"0.6 ms\"",
        ),
        ("name = \"emulated-smr-1\"", "", "f.toml:1: name is missing; add, say, name = \"emulated-smr-1\""),
        (
            "kind = \"set-associative\"",
            "",
            "f.toml:34: [layer] kind is missing; it is one of \"conventional\", \"ssd\", \"swd\", \
             \"set-associative\", \"fully-associative\", \"journaled\" or \"zoned\"",
        ),
        (
            "[mechanics.seek]\nfitted = { constant = \"0.8 ms\", root = \"0.012 ms\", linear = \"0.00002 \
             ms\" }",
            "",
            "f.toml:7: the section [mechanics.seek] is missing; add it",
        ),
        (
            "root = \"0.012 ms\", ",
            "",
            "f.toml:14: [mechanics.seek.fitted] root is missing; add, say, root = \"0.012 ms\"",
        ),
        (
            TAPER,
            "[[geometry.zone]]\ntracks = 5\nsectors_per_track = 900\n\n[[geometry.zone]]\ntracks = 5",
            "f.toml:26: [[geometry.zone]] sectors_per_track is missing; add, say, sectors_per_track = 3576",
        ),
        (
            "cache_location = \"id\"",
            "",
            "f.toml:34: [layer] cache_location is missing; a cache on the disk is at \"od\", \"md\" or \
             \"id\"",
        ),
        (
            "cache_medium = \"disk\"\ncache_location = \"id\"",
            "cache_medium = \"flash\"",
            "f.toml:38: the section [flash] is missing; cache_medium = \"flash\" needs its read, write and \
             bandwidth",
        ),
        (
            "layout = \"cylinder-serpentine\"",
            "layout = \"hybrid-serpentine\"",
            "f.toml:16: [geometry] group_tracks is missing; layout = \"hybrid-serpentine\" needs it, say, \
             group_tracks = 200",
        ),
    ]);
}

#[test]
fn keys_that_exclude_each_other() {
    check(&[
        (
            "rotation = \"10.17 ms\"",
            "rotation = \"10.17 ms\"\nrpm = 5900",
            "f.toml:9: [mechanics] gives \"rotation\" and \"rpm\"; keep one of them",
        ),
        (
            "rotation = \"10.17 ms\"",
            "",
            "f.toml:7: [mechanics] gives none of \"rotation\" and \"rpm\"; add one of them",
        ),
        (
            FITTED,
            "",
            "f.toml:13: [mechanics.seek] gives none of \"fitted\" and \"points\"; add one of \
         them",
        ),
        (
            FITTED,
            "fitted = { constant = \"0.8 ms\", root = \"0 ms\", linear = \"0 ms\" }\npoints = [[1, \"1 \
             ms\"]]",
            "f.toml:15: [mechanics.seek] gives \"fitted\" and \"points\"; keep one of them",
        ),
        (TAPER, "", "f.toml:16: [geometry] gives none of \"zone\" and \"taper\"; add one of them"),
        (
            "[interface]",
            "[[geometry.zone]]\ntracks = 5\nsectors_per_track = 900\n[interface]",
            "f.toml:28: [geometry] gives \"zone\" and \"taper\"; keep one of them",
        ),
        (
            "zones = 24",
            "zones = 24\n[flash]\nread = \"1 ms\"\nwrite = \"1 ms\"\nbandwidth = \"1 GB\"\n[x]",
            "f.toml:28: x is not a key here; the keys are \"schema\", \"name\", \"capacity\", \
             \"mechanics\", \"geometry\", \
             \"interface\", \"layer\", \"conditions\", \"flash\", \"jitter\", \"sources\" and \"summary\"",
        ),
        (
            "[layer]",
            "[flash]\nread = \"1 ms\"\nwrite = \"1 ms\"\nbandwidth = \"1 GB\"\n[layer]",
            "f.toml:34: flash is here but the drive has no flash cache; leave the section out",
        ),
        (
            "cache_medium = \"disk\"",
            "cache_medium = \"flash\"\n[flash]\nread = \"1 ms\"\nwrite = \"1 ms\"\nbandwidth = \"1 \
             GB\"\n[jitter]",
            "f.toml:44: [jitter] cache_location is not a key here; it belongs in [layer] of kind \
             \"set-associative\" or [layer] of kind \"journaled\" or [layer.host_aware] of kind \"zoned\"",
        ),
        (
            "cache_medium = \"disk\"\ncache_location = \"id\"",
            "cache_medium = \"flash\"\ncache_location = \"id\"\n[flash]\nread = \"1 ms\"\nwrite = \"1 \
             ms\"\nbandwidth = \"1 GB\"",
            "f.toml:39: layer.cache_location = \"id\" is only for a cache on the disk; leave it out for \
             flash",
        ),
    ]);
}

#[test]
fn words() {
    check(&[
        (
            "layout = \"cylinder-serpentine\"",
            "layout = \"cylinder_serpentin\"",
            "f.toml:18: geometry.layout = \"cylinder_serpentin\" is not a choice; did you mean \
             \"cylinder-serpentine\"?",
        ),
        (
            "schedule = \"shortest-positioning-first\"",
            "schedule = \"elevator\"",
            "f.toml:30: interface.schedule = \"elevator\" is not a choice; the choices are \"fifo\" and \
             \"shortest-positioning-first\"",
        ),
        (
            "kind = \"set-associative\"",
            "kind = \"set-asociative\"",
            "f.toml:35: layer.kind = \"set-asociative\" is not a kind of layer; did you mean \
             \"set-associative\"?",
        ),
        (
            "kind = \"set-associative\"",
            "kind = 3",
            "f.toml:35: layer.kind = 3 is not a kind of layer; the kinds are \"conventional\", \"ssd\", \
             \"swd\", \"set-associative\", \"fully-associative\", \"journaled\" and \"zoned\"",
        ),
        ("name = \"emulated-smr-1\"", "name = \"\"", "f.toml:2: name = \"\" is empty"),
        (
            "name = \"emulated-smr-1\"",
            "name = \"my drive\"",
            "f.toml:2: name = \"my drive\" is not a name; it takes letters, digits, \".\", \"_\" and \
             \"-\", a letter or digit first",
        ),
        (
            "name = \"emulated-smr-1\"",
            "name = \"\"\"a\nb\"\"\"",
            "f.toml:2: name = \"\"\"a\\nb\"\"\" contains a line break or control character; keep it to one \
             line",
        ),
    ]);
}

#[test]
fn keys_that_do_not_agree() {
    check(&[
        (
            "track_skew = \"0.45 ms\"",
            "track_skew = \"10.17 ms\"",
            "f.toml:19: geometry.track_skew = \"10.17 ms\" is not less than one rotation, which takes \
             10.170 ms",
        ),
        (
            "inner_sectors_per_track = 1700",
            "inner_sectors_per_track = 4000",
            "f.toml:26: geometry.taper.inner_sectors_per_track = 4000 is more than \
             outer_sectors_per_track = 3576; inner tracks hold \
             no more than outer ones",
        ),
        (
            "tracks = 369000",
            "tracks = 5",
            "f.toml:23: geometry.taper.zones = 24 is more than tracks = 5; a zone has at least one track",
        ),
        (
            "surfaces = 8",
            "surfaces = 8\ngroup_tracks = 9",
            "f.toml:18: geometry.group_tracks = 9 is only for layout = \"hybrid-serpentine\"; leave it out",
        ),
        (
            "layout = \"cylinder-serpentine\"",
            "layout = \"hybrid-serpentine\"\ngroup_tracks = 400_000",
            "f.toml:19: geometry.group_tracks = 400_000 is more than the 369000 tracks of a surface",
        ),
        (
            FITTED,
            "points = [[1, \"1 ms\"],\n[9, \"2 ms\"],\n[9, \"3 ms\"]]",
            "f.toml:16: mechanics.seek.points[2] is not farther than the point before it; distances must \
             rise",
        ),
        (
            "constant = \"0.8 ms\"",
            "constant = \"-0.8 ms\"",
            "f.toml:14: mechanics.seek.fitted gives -787.98 us at d = 1; a seek time cannot be negative",
        ),
        (
            "root = \"0.012 ms\", linear = \"0.00002 ms\"",
            "root = \"-0.1 ms\", linear = \"0.001 ms\"",
            "f.toml:14: mechanics.seek.fitted gives -1.7 ms at d = 2500; a seek time cannot be negative",
        ),
        (
            "cache_location = \"id\"",
            "cache_location = \"id\"\n[jitter]\noutlier_rate = 0.01",
            "f.toml:41: jitter.outlier_rate = 0.01 makes outliers of no length; add, say, outlier = \"50 \
             ms\"",
        ),
    ]);
}

#[test]
fn hostile_names_and_values_stay_on_one_line() {
    for text in
        ["a = \"\u{7}\n", "\"x\\ny\" = 1", "schema = 1\nname = \"a\\nb\"", "\u{feff}schema = 3", "\0", ""]
    {
        let error = Profile::from_toml(text, "a\nb\u{1b}[31m").map(|_| ()).unwrap_err().to_string();
        assert!(!error.contains(char::is_control), "{error:?}");
    }
}

#[test]
fn later_errors_look_the_same() {
    let profile = Profile::from_toml(EXAMPLE, "f.toml").unwrap_or_else(|error| panic!("{error}"));
    let at = |path: &str| profile.error_at(path, "will not do").to_string();
    assert_eq!(at("geometry.taper.tracks"), "f.toml:24: geometry.taper.tracks = 369000 will not do");
    assert_eq!(at("geometry.taper"), "f.toml:22: geometry.taper will not do");
    assert_eq!(at("jitter.relative"), "f.toml:1: jitter.relative will not do");
    assert_eq!(at("geometry.zone[3].tracks"), "f.toml:16: geometry.zone[3].tracks will not do");
}
