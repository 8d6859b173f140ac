//! The section `[layer.host_aware]`: what a host-aware drive does besides the standard (`docs/zoned.md`).
//!
//! Imports both ways with `layer`: this is a section of a section, and shares the choices of the other layers.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::layer::{CacheLocation, CleaningType};
use super::quantity::{Bytes, Duration};

/// Defaults of optional keys.
mod default {
    use super::{Bytes, CacheLocation, Duration};

    pub(super) const fn whole() -> f64 {
        1.0
    }

    pub(super) const fn od() -> CacheLocation {
        CacheLocation::Od
    }

    pub(super) const fn one_block() -> Bytes {
        Bytes(4096)
    }

    pub(super) const fn chunk() -> Bytes {
        Bytes(2 << 20)
    }

    pub(super) const fn one() -> u32 {
        1
    }

    pub(super) const fn in_cache() -> super::MetadataLocation {
        super::MetadataLocation::Cache
    }

    pub(super) const fn hundred() -> u32 {
        100
    }

    pub(super) const fn zero() -> Duration {
        Duration::ZERO
    }
}

/// Where a host-aware drive writes the metadata of a zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum MetadataLocation {
    /// Beside the persistent cache, those of all zones at one place.
    Cache,
    /// Before each zone.
    Zone,
}

// More than 15 fields: one per key of the section, which TOML keeps flat.
/// What a host-aware drive does with writes that do not continue their zone, and what open zones cost it. Without this section
/// every write goes to its place.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct HostAware {
    /// Zones that can be written in order without closing another one; `max_open_zones` if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535), extend("examples" = [127]))]
    pub open_zones: Option<u32>,
    /// Time to open a zone, besides the media.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["0.1 ms"]))]
    pub open_time: Duration,
    /// Time for which the drive works on the metadata of a zone after it has written them.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["5 ms"]))]
    pub settle: Duration,
    /// How much longer a write takes that the volatile cache accepts in that time.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["0.2 ms"]))]
    pub settle_per_write: Duration,
    /// Time after which the drive goes through all its open zones again, which holds up a write that the volatile cache
    /// would accept meanwhile. Never if left out.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["18.4 ms"]))]
    pub scan_every: Duration,
    /// How long that takes for each open zone.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "100 ms"], "examples" = ["0.026 ms"]))]
    pub scan_per_zone: Duration,
    /// Zones that are closed at a time when one more is opened. One is drawn at random. Several are those nearest to the zone
    /// that is opened; the write that opens it waits until what is cached of them is on the media.
    #[serde(default = "default::one")]
    #[schemars(range(min = 1, max = 65_535), extend("examples" = [7]))]
    pub close_together: u32,
    /// Size of the metadata that the drive writes when a zone is closed or cleaned.
    #[serde(default = "default::one_block")]
    #[schemars(extend("x-range" = ["4 KiB", "64 MiB"], "x-multiple" = "4 KiB"))]
    pub zone_metadata: Bytes,
    /// How often it writes them, one after another.
    #[serde(default = "default::one")]
    #[schemars(range(min = 1, max = 8), extend("examples" = [2]))]
    pub zone_metadata_copies: u32,
    /// Whether the last of these is of the zone that was closed for the one that is opened.
    #[serde(default)]
    pub zone_metadata_of_closed: bool,
    /// Neighbouring zones whose metadata lie together, before the first of them. Only where they lie beside zones.
    #[serde(default = "default::one")]
    #[schemars(range(min = 1, max = 65_535), extend("examples" = [32]))]
    pub zone_metadata_together: u32,
    /// Where it writes them.
    #[serde(default = "default::in_cache")]
    #[schemars(extend("examples" = ["zone"]))]
    pub zone_metadata_location: MetadataLocation,
    /// Where on the platters the persistent cache and its map lie.
    #[serde(default = "default::od")]
    #[schemars(extend("examples" = ["od"]))]
    pub cache_location: CacheLocation,
    /// Host data in a quantum of the persistent cache. An entry is one or more whole quanta, and a quantum occupies one slot.
    #[schemars(extend("x-range" = ["4 KiB", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["864 KiB"]))]
    pub quantum: Bytes,
    /// Unused space after each entry.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 B", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["1880 KiB"]))]
    pub entry_gap: Bytes,
    /// Maximum host data in an entry: waiting writes that fit are packed into one. At least a quantum.
    #[schemars(extend("x-range" = ["4 KiB", "1 GiB"], "x-multiple" = "4 KiB", "examples" = ["12 MiB"]))]
    pub entry_max: Bytes,
    /// Slots of the persistent cache, one per quantum. The largest entry must need fewer slots than the watermark allows.
    #[schemars(range(min = 2, max = 1_000_000_000), extend("examples" = [37_163]))]
    pub places: u64,
    /// The fraction of the slots that may be in use before writes wait for cleaning; the others are a reserve for writes
    /// that have waited for `throttle`.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.94]))]
    pub place_watermark: f64,
    /// Maximum number of extents in the map of the cache. No limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000_000), extend("examples" = [250_000]))]
    pub map_entries: Option<u64>,
    /// The fraction of the map's extents that may be in use before a write has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.91]))]
    pub map_watermark: f64,
    /// Number of entries between two merges of the map. No merges if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [240]))]
    pub map_merge_every: Option<u64>,
    /// Size of the write of a merge. Required with `map_merge_every`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["4 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["72 MiB"]))]
    pub map_merge: Option<Bytes>,
    /// Copies of the map that a merge writes, each before an entry of its own.
    #[serde(default = "default::one")]
    #[schemars(range(min = 1, max = 8), extend("examples" = [2]))]
    pub map_copies: u32,
    /// How much of a zone is merged in memory at a time; each chunk goes through the staging area.
    #[serde(default = "default::chunk")]
    #[schemars(extend("x-range" = ["4 KiB", "2 GiB"], "x-multiple" = "4 KiB", "examples" = ["2 MiB"]))]
    pub chunk: Bytes,
    /// When zones are cleaned: only when the cache is full, or also in idle time.
    #[schemars(extend("examples" = ["aggressive"]))]
    pub cleaning: CleaningType,
    /// Idle time before the drive cleans. Required for aggressive cleaning, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "3600 s"], "examples" = ["1.24 s"]))]
    pub idle: Option<Duration>,
    /// Time of cleaning, as the drive estimates it, for which a write waits before it takes a slot of the reserve.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "60 s"], "examples" = ["2 s"]))]
    pub throttle: Duration,
    /// How much longer writes wait each time that cleaning has not got ahead.
    #[serde(default = "default::zero")]
    #[schemars(extend("x-range" = ["0 ms", "60 s"], "examples" = ["1 s"]))]
    pub throttle_step: Duration,
    /// How long a write waits at most; at least `throttle`, which it is if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "600 s"], "examples" = ["5 s"]))]
    pub throttle_most: Option<Duration>,
    /// After this number of writes that waited the drive looks whether cleaning has got ahead.
    #[serde(default = "default::hundred")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [46]))]
    pub throttle_writes: u32,
    /// Cleaning has got ahead if meanwhile it has cleaned one zone in this number of those that were written out of order.
    #[serde(default = "default::hundred")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [100]))]
    pub throttle_one_in: u32,
}
