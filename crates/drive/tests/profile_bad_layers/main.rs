//! Invalid layers and the error line of each, from the check of the keys or from the builder, which knows the
//! geometry.
//!
//! Every case is a valid profile with one piece replaced; the whole line is compared.

mod not_cached;

use skylight_drive::Drive;
use skylight_drive::profile::{Layer, Profile};

/// A case: the piece to replace, its replacement, and the expected line.
type Case = (&'static str, &'static str, &'static str);

const JOURNALED: &str = r#"schema = 1
name = "small"
capacity = "1 GiB"
[mechanics]
rotation = "10 ms"
head_switch = "0.6 ms"
seek = { points = [[1, "0.5 ms"]] }
[geometry]
surfaces = 2
layout = "horizontal-zones"
track_skew = "0.6 ms"
head_skew = "0.9 ms"
surface_density = [1, 0.98]
zone = [
    { tracks = 80, sectors_per_track = 2048, group_tracks = 80 },
    { tracks = 500, sectors_per_track = 2048 },
    { tracks = 80, sectors_per_track = 2000, group_tracks = 40 },
    { tracks = 501, sectors_per_track = 2000, outward = true },
]
[interface]
queue_depth = 31
command_overhead = "0.1 ms"
write_cache = "8 MiB"
write_cache_on = true
[layer]
kind = "journaled"
cache_medium = "disk"
cache_location = "od"
cache_region = "160 MiB"
quantum = "256 KiB"
out_of_band = "1 MiB"
entry_gap = "32 KiB"
entry_max = "2 MiB"
places = 100
place_watermark = 0.9
map_entries = 1000
map_watermark = 0.91
map_merge_every = 50
map_merge = "8 MiB"
cleaning = "aggressive"
idle = "1 s"
guard_tracks = 1.1
bands = [
    { band = "20 MiB", until = "500 MiB" },
    { band = "16 MiB" },
]
"#;

fn fully_associative() -> String {
    let layer = "[layer]\nkind = \"fully-associative\"\nband = \"4 MiB\"\nzone = \"256 MiB\"\n\
                 free_bands = 3\ncleaning = \"aggressive\"\nidle = \"1 s\"\n";
    let (before, _) = JOURNALED.split_once("[layer]\n").expect("a layer");
    format!("{before}{layer}")
}

fn outcome(text: &str) -> Result<Drive, String> {
    let profile = Profile::from_toml(text, "f.toml").map_err(|error| error.to_string())?;
    Drive::new(&profile, 1).map_err(|error| error.to_string())
}

/// Runs each case; reports all that differ, not only the first.
fn check(base: &str, cases: &[Case]) {
    let mut wrong = Vec::new();
    for (from, to, expected) in cases {
        assert_eq!(base.matches(from).count(), 1, "{from:?} must stand in the profile once");
        let got = outcome(&base.replace(from, to)).err().unwrap_or_else(|| "accepted".to_owned());
        if got != *expected {
            wrong.push(format!("{from:?} -> {to:?}\n  want {expected}\n  got  {got}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} cases:\n{}", wrong.len(), cases.len(), wrong.join("\n"));
}

#[test]
fn the_unchanged_profiles_are_valid() {
    for text in [JOURNALED.to_owned(), fully_associative(), set_associative()] {
        let drive = outcome(&text).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(drive.capacity().bytes(), 1 << 30);
    }
}

#[test]
fn runs_of_bands_are_rounded_to_whole_bands() {
    let text = JOURNALED.replace("until = \"500 MiB\"", "until = \"519.9 MiB\"");
    let profile = Profile::from_toml(&text, "f.toml").unwrap_or_else(|error| panic!("{error}"));
    let Layer::Journaled(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
    assert_eq!(keys.bands[0].until.map(|until| until.get()), Some(500 << 20));
    let json = profile.to_json();
    let table: toml::Table = serde_json::from_str(&json).unwrap_or_else(|error| panic!("{error}\n{json}"));
    let again = Profile::from_toml(&table.to_string(), "f.toml").unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(again.to_json(), json);
}

#[test]
fn only_a_random_order_has_a_seed() {
    check(
        JOURNALED,
        &[(
            "guard_tracks = 1.1",
            "guard_tracks = 1.1\ncleaning_order = \"greedy\"\ncleaning_seed = 5",
            "f.toml:44: layer.cleaning_seed = 5 is only for cleaning_order = \"random\"; leave it out",
        )],
    );
    for order in ["greedy", "random", "lifo", "fifo"] {
        let text = JOURNALED.replace("guard_tracks", &format!("cleaning_order = \"{order}\"\nguard_tracks"));
        assert!(outcome(&text).is_ok(), "{order}");
    }
}

fn set_associative() -> String {
    let layer = "[layer]\nkind = \"set-associative\"\nband = \"4 MiB\"\ncache = \"64 MiB\"\n\
                 cache_medium = \"disk\"\ncache_location = \"id\"\ncleaning = \"aggressive\"\nidle = \"1 s\"\n\
                 watermark = 0.9\n";
    let (before, _) = JOURNALED.split_once("[layer]\n").expect("a layer");
    format!("{before}{layer}")
}

#[test]
fn bad_set_associative_cleaning() {
    check(
        &set_associative(),
        &[
            (
                "idle = \"1 s\"\n",
                "",
                "f.toml:25: [layer] idle is missing; cleaning = \"aggressive\" needs it, say, idle = \"1.2 s\"",
            ),
            (
                "cleaning = \"aggressive\"\n",
                "",
                "f.toml:31: layer.idle = \"1 s\" is only for cleaning = \"aggressive\"; leave it out",
            ),
            (
                "watermark = 0.9",
                "watermark = 1.01",
                "f.toml:33: layer.watermark = 1.01 is out of range 0.1 to 1",
            ),
        ],
    );
}

#[test]
fn what_does_not_fit() {
    check(
        JOURNALED,
        &[
            (
                "places = 100",
                "places = 4096",
                "f.toml:34: layer.places = 4096 of 256 KiB each are not smaller than the drive; capacity = \
                 \"1 GiB\"",
            ),
            (
                "cache_region = \"160 MiB\"",
                "cache_region = \"130 MiB\"",
                "f.toml:29: layer.cache_region = \"130 MiB\" is less than the 124288 KiB that places = 100 \
                 may take and the 20 MiB of the staging area; 144768 KiB would do",
            ),
            (
                "cache_region = \"160 MiB\"\n",
                "cache_region = \"2 GiB\"\n",
                "f.toml:29: layer.cache_region = \"2 GiB\" needs 3080 MiB on the platters, and the tracks \
                 of [geometry] hold 2276 MiB; give each surface 413 tracks more, or the drive less",
            ),
            (
                "map_merge = \"8 MiB\"",
                "map_merge = \"1200 MiB\"",
                "f.toml:39: layer.map_merge = \"1200 MiB\" needs 2384 MiB on the platters, and the tracks \
                 of [geometry] hold 2276 MiB; give each surface 56 tracks more, or the drive less",
            ),
            (
                "capacity = \"1 GiB\"",
                "capacity = \"3 GiB\"",
                "f.toml:3: capacity = \"3 GiB\" needs 3 GiB on the platters, and the tracks of [geometry] \
                 hold 2276 MiB; give each surface 408 tracks more, or the drive less",
            ),
            (
                "capacity = \"1 GiB\"",
                "capacity = \"2000 MiB\"",
                "f.toml:3: capacity = \"2000 MiB\" has no space for its last 76 MiB in bands with their \
                 guards; give each surface 54 tracks more, or the drive less",
            ),
        ],
    );
}

#[test]
fn journals() {
    check(
        JOURNALED,
        &[
            (
                "cache_location = \"od\"\n",
                "",
                "f.toml:25: [layer] cache_location is missing; a cache on the disk is at \"od\", \"md\" or \
                 \"id\"",
            ),
            (
                "cache_medium = \"disk\"\ncache_location = \"od\"",
                "cache_medium = \"flash\"",
                "f.toml:28: layer.cache_region = \"160 MiB\" is only for a cache on the disk; leave it out \
                 for flash",
            ),
            (
                "quantum = \"256 KiB\"",
                "quantum = \"4 MiB\"",
                "f.toml:30: layer.quantum = \"4 MiB\" is more than entry_max = 2 MiB; an entry has at \
                 least one quantum",
            ),
            (
                "places = 100",
                "places = 8",
                "f.toml:34: layer.places = 8 gives 7 at the watermark, and an entry of entry_max = 2 MiB \
                 takes 8; 9 would do",
            ),
            ("places = 100", "places = 0", "f.toml:34: layer.places = 0 is out of range 2 to 1,000,000,000"),
            (
                "place_watermark = 0.9",
                "place_watermark = 1.01",
                "f.toml:35: layer.place_watermark = 1.01 is out of range 0.1 to 1",
            ),
        ],
    );
}

#[test]
fn maps_and_cleaning() {
    check(
        JOURNALED,
        &[
            (
                "map_watermark = 0.91",
                "map_watermark = 2",
                "f.toml:37: layer.map_watermark = 2 is out of range 0.1 to 1",
            ),
            (
                "map_entries = 1000\n",
                "",
                "f.toml:36: layer.map_watermark = 0.91 needs a map limit; add map_entries or \
                 leave it out",
            ),
            (
                "map_entries = 1000",
                "map_entries = 7",
                "f.toml:36: layer.map_entries = 7 is out of range 100 to 1,000,000,000",
            ),
            (
                "map_merge_every = 50\n",
                "",
                "f.toml:38: [layer] map_merge_every is missing; map_merge needs a period, say, \
                 map_merge_every = 240",
            ),
            (
                "map_merge = \"8 MiB\"\n",
                "",
                "f.toml:38: [layer] map_merge is missing; map_merge_every needs the size of a merge, say, \
                 map_merge = \"43 MiB\"",
            ),
            (
                "entry_gap = \"32 KiB\"",
                "entry_gap = 1000",
                "f.toml:32: layer.entry_gap = 1000 is not a whole number of 4 KiB blocks; \"4 KiB\" would do",
            ),
            (
                "idle = \"1 s\"\n",
                "",
                "f.toml:25: [layer] idle is missing; cleaning = \"aggressive\" needs it, say, idle = \"1.2 \
                 s\"",
            ),
            (
                "cleaning = \"aggressive\"",
                "cleaning = \"lazy\"",
                "f.toml:41: layer.idle = \"1 s\" is only for cleaning = \"aggressive\"; leave it out",
            ),
            (
                "cleaning = \"aggressive\"",
                "cleaning = \"eager\"",
                "f.toml:40: layer.cleaning = \"eager\" is not a choice; the choices are \"lazy\" and \
                 \"aggressive\"",
            ),
        ],
    );
}

#[test]
fn bands_and_guards() {
    check(
        JOURNALED,
        &[
            (
                "band = \"20 MiB\"",
                "band = 20_000_000",
                "f.toml:44: layer.bands[0].band = 20_000_000 is not a whole number of 4 KiB blocks; \
                 \"19528 KiB\" or \"19532 KiB\" would do",
            ),
            (
                "band = \"20 MiB\"",
                "band = \"600 MiB\"",
                "f.toml:44: layer.bands[0].until = \"500 MiB\" leaves no space for a band of 600 MiB from 0 \
                 B on",
            ),
            (
                "{ band = \"16 MiB\" }",
                "{ band = \"2 GiB\" }",
                "f.toml:45: layer.bands[1].band = \"2 GiB\" is larger than the drive; capacity = \"1 GiB\"",
            ),
            (
                "{ band = \"16 MiB\" }",
                "{ band = \"16 MiB\", until = \"900 MiB\" }",
                "f.toml:45: layer.bands[1].until = \"900 MiB\" is not the end of the drive; capacity = \"1 \
                 GiB\"; leave it out of the last entry",
            ),
            (
                "until = \"500 MiB\"",
                "until = \"2 GiB\"",
                "f.toml:44: layer.bands[0].until = \"2 GiB\" leaves no space for the entries after it; the \
                 drive ends at 1 GiB",
            ),
            (
                ", until = \"500 MiB\"",
                "",
                "f.toml:44: [[layer.bands]] until is missing; only the last entry extends to the end of the drive",
            ),
            (
                "until = \"500 MiB\"",
                "untl = \"500 MiB\"",
                "f.toml:44: [[layer.bands]] untl is not a key here; did you mean \"until\"?",
            ),
            (
                "{ band = \"16 MiB\" }",
                "{ band = \"16 MiB\", until = \"400 MiB\" }, { band = \"8 MiB\" }",
                "f.toml:45: layer.bands[1].until = \"400 MiB\" leaves no space for a band of 16 MiB from \
                 500 MiB on",
            ),
            (
                "guard_tracks = 1.1",
                "guard_tracks = 65",
                "f.toml:42: layer.guard_tracks = 65 is out of range 0 to 64",
            ),
            (
                "guard_tracks = 1.1",
                "guard_tracks = 30",
                "f.toml:3: capacity = \"1 GiB\" has no space for its last 332 MiB in bands with their \
                 guards; give each surface 517 tracks more, or the drive less",
            ),
        ],
    );
}

/// The number of tracks in those messages is sufficient.
#[test]
fn bands_and_guards_fit_with_the_requested_tracks() {
    for (from, to, more) in [
        ("guard_tracks = 1.1", "guard_tracks = 30", 517),
        ("capacity = \"1 GiB\"", "capacity = \"2000 MiB\"", 54),
    ] {
        let larger = JOURNALED.replace(from, to).replace("tracks = 501", &format!("tracks = {}", 501 + more));
        assert_eq!(outcome(&larger).err(), None, "{to}");
    }
    let passes = JOURNALED
        .replace("layout = \"horizontal-zones\"", "layout = \"hybrid-serpentine\"\ngroup_tracks = 10");
    let zones = passes.replace(", group_tracks = 80", "").replace(", group_tracks = 40", "");
    let zones = zones.replace(", outward = true", "").replace("surface_density = [1, 0.98]\n", "");
    let line = "f.toml:42: layer.guard_tracks = 1.1 leaves no space for a band of 16 MiB in a pass over a surface; \
                give fewer, or smaller bands, or passes of more tracks";
    assert_eq!(outcome(&zones).err().as_deref(), Some(line));
}

#[test]
fn surfaces_and_passes() {
    check(
        JOURNALED,
        &[
            ("surfaces = 2", "surfaces = 0", "f.toml:9: geometry.surfaces = 0 is out of range 1 to 32"),
            (
                "surfaces = 2",
                "surfaces = 3",
                "f.toml:13: geometry.surface_density has 2 numbers; surfaces = 3 needs 3",
            ),
            (
                "surface_density = [1, 0.98]",
                "surface_density = [1, 0.2]",
                "f.toml:13: geometry.surface_density[1] = 0.2 is out of range 0.5 to 1.5",
            ),
            (
                "surface_density = [1, 0.98]",
                "surface_density = [1, 0.98, 1.02]",
                "f.toml:13: geometry.surface_density has 3 numbers; surfaces = 2 needs 2",
            ),
            (
                "layout = \"horizontal-zones\"",
                "layout = \"cylinder\"",
                "f.toml:13: geometry.surface_density is only for layout = \"horizontal-zones\"; leave it out",
            ),
            (
                "layout = \"horizontal-zones\"\n",
                "layout = \"cylinder\"\ngroup_tracks = 7\n",
                "f.toml:11: geometry.group_tracks = 7 is only for layout = \"hybrid-serpentine\"; leave it \
                 out",
            ),
            (
                "group_tracks = 40",
                "group_tracks = 81",
                "f.toml:17: geometry.zone[2].group_tracks = 81 is more than the 80 tracks of its zone",
            ),
            (
                "group_tracks = 40",
                "group_tracks = 40, outward = true",
                "f.toml:17: geometry.zone[2].outward = true excludes group_tracks; a serpentine goes \
                 both ways",
            ),
            (
                "surface_density = [1, 0.98]\n",
                "group_tracks = 3\n",
                "f.toml:13: geometry.group_tracks = 3 is only for layout = \"hybrid-serpentine\"; leave it \
                 out",
            ),
            (
                "tracks = 501",
                "tracks = 10_000_000",
                "f.toml:14: geometry.zone has 10000660 tracks in all; a surface has 10000000 at most",
            ),
        ],
    );
}

#[test]
fn interface_keys() {
    check(
        JOURNALED,
        &[
            (
                "write_cache = \"8 MiB\"\n",
                "",
                "f.toml:23: interface.write_cache_on = true needs a write cache; add, say, write_cache = \
                 \"64 MiB\"",
            ),
            (
                "write_cache = \"8 MiB\"\nwrite_cache_on = true\n",
                "write_cache_runs = 9\n",
                "f.toml:23: interface.write_cache_runs = 9 needs a write cache; leave it out",
            ),
            (
                "write_cache = \"8 MiB\"",
                "look_ahead = true\nread_buffer = 0\nwrite_cache = \"8 MiB\"",
                "f.toml:23: interface.look_ahead = true needs a read buffer; add, say, read_buffer = \
                 \"16 MiB\"",
            ),
        ],
    );
}

#[test]
fn fully_associative_keys() {
    check(
        &fully_associative(),
        &[
            (
                "zone = \"256 MiB\"",
                "zone = \"3 MiB\"",
                "f.toml:28: layer.zone = \"3 MiB\" is less than one band of 4 MiB",
            ),
            (
                "free_bands = 3",
                "free_bands = 1",
                "f.toml:29: layer.free_bands = 1 is out of range 2 to 1,000,000",
            ),
            (
                "free_bands = 3",
                "free_bands = 65",
                "f.toml:29: layer.free_bands = 65 is more than the 64 bands of 4 MiB in a zone",
            ),
            (
                "free_bands = 3",
                "free_bands = 3\nclean_threshold = 3",
                "f.toml:30: layer.clean_threshold = 3 is not less than free_bands = 3; no write would get \
                 a band",
            ),
            (
                "band = \"4 MiB\"",
                "band = \"4 MiB\"\ncache_location = \"od\"",
                "f.toml:28: [layer] cache_location is not a key here; it belongs in [layer] of kind \
                 \"set-associative\" or [layer] of kind \"journaled\" or [layer.host_aware] of kind \"zoned\"",
            ),
            (
                "idle = \"1 s\"\n",
                "",
                "f.toml:25: [layer] idle is missing; cleaning = \"aggressive\" needs it, say, idle = \"1.2 \
                 s\"",
            ),
            (
                "band = \"4 MiB\"",
                "band = \"2 GiB\"",
                "f.toml:27: layer.band = \"2 GiB\" is larger than the drive; capacity = \"1 GiB\"",
            ),
        ],
    );
}
