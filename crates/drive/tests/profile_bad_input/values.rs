//! Values of the wrong type, out of range, or of sizes that are not whole blocks.

use super::{FITTED, TAPER, check};

#[test]
fn wrong_types() {
    check(&[
        (
            "surfaces = 8",
            "surfaces = \"8\"",
            "f.toml:17: geometry.surfaces = \"8\" is text; it takes a whole number such as 8",
        ),
        (
            "surfaces = 8",
            "surfaces = 8.5",
            "f.toml:17: geometry.surfaces = 8.5 is a number with a fraction; it takes a whole number such \
             as 8",
        ),
        (
            "surfaces = 8",
            "surfaces = [8]",
            "f.toml:17: geometry.surfaces is a list; it takes a whole number such as 8",
        ),
        (
            "zero_latency = false",
            "zero_latency = \"off\"",
            "f.toml:11: mechanics.zero_latency = \"off\" is text; it takes true or false such as false",
        ),
        (
            "name = \"emulated-smr-1\"",
            "name = 1979-05-27",
            "f.toml:2: name = 1979-05-27 is a date or time; it takes text in quotes such as \
             \"emulated-smr-1\"",
        ),
        (
            "[geometry.taper]",
            "[[geometry.taper]]",
            "f.toml:22: geometry.taper is a list; it takes a section [geometry.taper]",
        ),
        (
            TAPER,
            "[geometry.zone]\ntracks = 5\nsectors_per_track = 900",
            "f.toml:22: geometry.zone is a table; it takes sections [[geometry.zone]]",
        ),
        (
            "command_overhead = \"0.1 ms\"",
            "command_overhead = 0.1",
            "f.toml:31: interface.command_overhead = 0.1 has no unit; write a text such as \"10.17 ms\", \
             \"100 us\" or \"1.2 s\"",
        ),
        (
            "capacity = \"3.9 TB\"",
            "capacity = 3.9e12",
            "f.toml:5: capacity = 3.9e12 is a number with a fraction; it takes a size such as \"3.9 TB\"",
        ),
        (
            "[\"Skylight (FAST'15), section 3.1, Table 1\"]",
            "[\"a\", 2]",
            "f.toml:4: sources[1] = 2 is a whole number; it takes text in quotes",
        ),
        (
            FITTED,
            "points = [[1, \"1 ms\"], 7]",
            "f.toml:14: mechanics.seek.points[1] = 7 is a whole number; it takes a list",
        ),
    ]);
}

#[test]
fn quantities() {
    check(&[
        (
            "band = \"40 MiB\"",
            "band = \"40 Mib/s\"",
            "f.toml:36: layer.band = \"40 Mib/s\" has the unknown unit \"Mib/s\"; use B, KiB, MiB, GiB, \
             TiB (binary), k, M, G, T (binary too) or KB, MB, GB, TB (SI)",
        ),
        (
            "band = \"40 MiB\"",
            "band = \"some\"",
            "f.toml:36: layer.band = \"some\" is not a size; write a number and a unit such as \"40 MiB\", \
             \"3.9 TB\" or \"4k\", or whole bytes",
        ),
        (
            "band = \"40 MiB\"",
            "band = -4096",
            "f.toml:36: layer.band = -4096 is negative; a size is zero or more bytes",
        ),
        (
            "band = \"40 MiB\"",
            "band = \"-4k\"",
            "f.toml:36: layer.band = \"-4k\" is negative; a size is zero or more bytes",
        ),
        (
            "head_switch = \"0.6 ms\"",
            "head_switch = \"0.6\"",
            "f.toml:9: mechanics.head_switch = \"0.6\" has no unit; write a number and a unit such as \
             \"10.17 ms\", \"100 us\" or \"1.2 s\"",
        ),
        (
            "head_switch = \"0.6 ms\"",
            "head_switch = \"0.6 min\"",
            "f.toml:9: mechanics.head_switch = \"0.6 min\" has the unknown unit \"min\"; use ns, us, ms \
             or s",
        ),
        (
            "head_switch = \"0.6 ms\"",
            "head_switch = \"nan ms\"",
            "f.toml:9: mechanics.head_switch = \"nan ms\" is not a duration; write a number and a unit \
             such as \"10.17 ms\", \"100 us\" or \"1.2 s\"",
        ),
        (
            "head_switch = \"0.6 ms\"",
            "head_switch = \"inf s\"",
            "f.toml:9: mechanics.head_switch = \"inf s\" is not a duration; write a number and a unit \
             such as \"10.17 ms\", \"100 us\" or \"1.2 s\"",
        ),
        (
            "head_switch = \"0.6 ms\"",
            "head_switch = \"-1 ms\"",
            "f.toml:9: mechanics.head_switch = \"-1 ms\" is out of range 0 ms to 50 ms",
        ),
        (
            "capacity = \"3.9 TB\"",
            "capacity = \"123456789012345678901234 B\"",
            "f.toml:5: capacity = \"123456789012345678901234 B\" has too many digits",
        ),
    ]);
}

#[test]
fn rotation_out_of_range() {
    check(&[
        (
            "rotation = \"10.17 ms\"",
            "rpm = 99",
            "f.toml:8: mechanics.rpm = 99 is out of range 3,600 to 16,000",
        ),
        (
            "rotation = \"10.17 ms\"",
            "rpm = nan",
            "f.toml:8: mechanics.rpm = nan is out of range 3,600 to 16,000",
        ),
        (
            "rotation = \"10.17 ms\"",
            "rpm = inf",
            "f.toml:8: mechanics.rpm = inf is out of range 3,600 to 16,000",
        ),
        (
            "rotation = \"10.17 ms\"",
            "rotation = \"1 s\"",
            "f.toml:8: mechanics.rotation = \"1 s\" is out of range 3.75 ms to 17 ms",
        ),
    ]);
}

#[test]
fn numbers_out_of_range() {
    check(&[
        ("surfaces = 8", "surfaces = 0", "f.toml:17: geometry.surfaces = 0 is out of range 1 to 32"),
        ("surfaces = 8", "surfaces = -3", "f.toml:17: geometry.surfaces = -3 is out of range 1 to 32"),
        (
            "surfaces = 8",
            "surfaces = 99999999999999999999",
            "f.toml:17: geometry.surfaces = 99999999999999999999 is out of range 1 to 32",
        ),
        ("zones = 24", "zones = 1001", "f.toml:23: geometry.taper.zones = 1001 is out of range 1 to 1,000"),
        (
            "tracks = 369000",
            "tracks = 0",
            "f.toml:24: geometry.taper.tracks = 0 is out of range 1 to 10,000,000",
        ),
        (
            "outer_sectors_per_track = 3576",
            "outer_sectors_per_track = 200_000",
            "f.toml:25: geometry.taper.outer_sectors_per_track = 200_000 is out of range 16 to 100,000",
        ),
        (
            "queue_depth = 31",
            "queue_depth = 33",
            "f.toml:29: interface.queue_depth = 33 is out of range 1 to 32",
        ),
        (
            "host_gap = \"0.007 ms\"",
            "host_gap = \"2 s\"",
            "f.toml:32: interface.host_gap = \"2 s\" is out of range 0 ms to 1 s",
        ),
        (
            "capacity = \"3.9 TB\"",
            "capacity = \"63 MiB\"",
            "f.toml:5: capacity = \"63 MiB\" is out of range 64 MiB to 100 TB",
        ),
        (
            "capacity = \"3.9 TB\"",
            "capacity = \"1 PB\"",
            "f.toml:5: capacity = \"1 PB\" is out of range 64 MiB to 100 TB",
        ),
        (
            "cache_location = \"id\"",
            "cache_location = \"id\"\n[jitter]\nrelative = 0.5",
            "f.toml:41: jitter.relative = 0.5 is out of range 0 to 0.03",
        ),
        (
            "cache_location = \"id\"",
            "cache_location = \"id\"\n[jitter]\nrelative = -0.01",
            "f.toml:41: jitter.relative = -0.01 is out of range 0 to 0.03",
        ),
        (FITTED, "points = []", "f.toml:14: mechanics.seek.points has 0 entries; it takes 1 to 100,000"),
        (
            FITTED,
            "points = [[1, \"1 ms\", 2]]",
            "f.toml:14: mechanics.seek.points[0] has 3 entries; it takes exactly 2",
        ),
        (
            FITTED,
            "points = [\n  [1, \"1 ms\"],\n  [0, \"2 ms\"]]",
            "f.toml:16: mechanics.seek.points[1][0] = 0 is out of range 1 to 10,000,000",
        ),
    ]);
}

#[test]
fn sizes_that_do_not_divide() {
    check(&[
        (
            "band = \"40 MiB\"",
            "band = 99999999999999999999999",
            "f.toml:36: layer.band = 99999999999999999999999 has too many digits",
        ),
        (
            "band = \"40 MiB\"",
            "band = \"40 MB\"",
            "f.toml:36: layer.band = \"40 MB\" is not a whole number of 4 KiB blocks; \"39060 KiB\" or \
             \"39064 KiB\" would do",
        ),
        (
            "band = \"40 MiB\"",
            "band = 100_000",
            "f.toml:36: layer.band = 100_000 is not a whole number of 4 KiB blocks; \"96 KiB\" or \"100 \
             KiB\" would do",
        ),
        (
            "capacity = \"3.9 TB\"",
            "capacity = 4000000000001",
            "f.toml:5: capacity = 4000000000001 is not a whole number of 4 KiB blocks; \"4 TB\" or \
             \"4000000004096 B\" would do",
        ),
        (
            "cache = \"37.2 GiB\"",
            "cache = \"39 MiB\"",
            "f.toml:37: layer.cache = \"39 MiB\" is less than one band of 40 MiB",
        ),
        (
            "cache = \"37.2 GiB\"",
            "cache = \"4 TB\"",
            "f.toml:37: layer.cache = \"4 TB\" is not smaller than the drive; capacity = \"3.9 TB\"",
        ),
        (
            "capacity = \"3.9 TB\"",
            "capacity = \"64 MiB\"",
            "f.toml:37: layer.cache = \"37.2 GiB\" is not smaller than the drive; capacity = \"64 MiB\"",
        ),
        (
            "band = \"40 MiB\"",
            "band = \"17 GiB\"",
            "f.toml:36: layer.band = \"17 GiB\" is out of range 64 KiB to 16 GiB",
        ),
    ]);
}
