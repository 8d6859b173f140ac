//! Raw shingled disks and drives with zones.

use crate::{JOURNALED, check, outcome};

fn swd() -> String {
    let (before, _) = JOURNALED.split_once("[layer]\n").expect("a layer");
    let strokes = before.replace(", group_tracks = 80", "").replace(", group_tracks = 40", "");
    format!("{strokes}[layer]\nkind = \"swd\"\nwidth_tracks = 4\nband_tracks = 16\n")
}

#[test]
fn raw_shingled_disks() {
    let good = outcome(&swd()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(good.capacity().bytes(), 1 << 30);
    check(
        &swd(),
        &[
            (
                "width_tracks = 4",
                "width_tracks = 17",
                "f.toml:27: layer.width_tracks = 17 is out of range 1 to 16",
            ),
            (
                "width_tracks = 4",
                "width_tracks = 4\npattern = 7",
                "f.toml:28: layer.pattern = 7 is only for read = \"pattern\"; leave it out",
            ),
            (
                "{ tracks = 80, sectors_per_track = 2048 }",
                "{ tracks = 80, sectors_per_track = 2048, group_tracks = 80 }",
                "f.toml:28: layer.band_tracks = 16 needs recording zones that use one surface at a \
                 time; use layout = \"horizontal-zones\" or one surface, or leave it out",
            ),
            (
                "band_tracks = 16",
                "band_tracks = 1",
                "f.toml:3: capacity = \"1 GiB\" has no space for its last 457 MiB in bands with \
                 band_tracks = 1 and a guard of 3 after each; give each surface 935 tracks more, or the drive less",
            ),
        ],
    );
}

fn zoned(keys: &str) -> String {
    let (before, _) = JOURNALED.split_once("[layer]\n").expect("a layer");
    format!("{before}[layer]\nkind = \"zoned\"\n{keys}")
}

#[test]
fn drives_with_zones() {
    let managed = zoned(
        "model = \"host-managed\"\nzone_size = \"16 MiB\"\nconventional_zones = 2\nmax_open_zones = 8\n",
    );
    let good = outcome(&managed).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(good.capacity().bytes(), 1 << 30);
    check(
        &managed,
        &[
            (
                "zone_size = \"16 MiB\"",
                "zone_size = \"1 GiB\"",
                "f.toml:28: layer.zone_size = \"1 GiB\" leaves one zone of the drive; capacity = \"1 GiB\"",
            ),
            (
                "conventional_zones = 2",
                "conventional_zones = 65",
                "f.toml:29: layer.conventional_zones = 65 is more than the 64 zones of 16 MiB on the drive",
            ),
            (
                "conventional_zones = 2",
                "zone_capacity = \"17 MiB\"",
                "f.toml:29: layer.zone_capacity = \"17 MiB\" is more than zone_size = 16 MiB",
            ),
            (
                "conventional_zones = 2",
                "max_active_zones = 7",
                "f.toml:29: layer.max_active_zones = 7 is less than max_open_zones = 8; open zones are active",
            ),
            (
                "conventional_zones = 2",
                "recommended_non_sequential_zones = 8",
                "f.toml:29: layer.recommended_non_sequential_zones = 8 is only for model = \"host-aware\"; \
                 leave it out",
            ),
            (
                "host-managed",
                "host-mangled",
                "f.toml:27: layer.model = \"host-mangled\" is not a choice; did you mean \"host-managed\"?",
            ),
        ],
    );
    check(
        &zoned("model = \"host-aware\"\nzone_size = \"16 MiB\"\n"),
        &[(
            "zone_size = \"16 MiB\"\n",
            "zone_size = \"16 MiB\"\nunrestricted_reads = true\n",
            "f.toml:29: layer.unrestricted_reads = true is only for model = \"host-managed\"; leave it out",
        )],
    );
    let large = managed.replace("capacity = \"1 GiB\"", "capacity = \"4 GiB\"");
    let refused = outcome(&large).map(|_| ()).unwrap_err().to_string();
    assert!(refused.starts_with("f.toml:3: capacity = \"4 GiB\" needs 4 GiB on the platters"), "{refused}");
}
