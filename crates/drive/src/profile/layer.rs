//! The `[layer]` section: the kind of translation layer, and the keys of each kind.
//!
//! To add a kind: a struct for its keys, a variant of [`Layer`], and an arm in `layer_rules.rs` for the rules
//! between its keys. The check of keys, the JSON schema and the reference page follow from the struct.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::host_aware::HostAware;
use super::quantity::{Bytes, Duration};

/// Defaults of optional keys.
mod default {
    use super::{Bytes, CacheLocation};

    pub(super) const fn one_block() -> Bytes {
        Bytes(4096)
    }

    pub(super) const fn whole() -> f64 {
        1.0
    }

    pub(super) const fn md() -> CacheLocation {
        CacheLocation::Md
    }

    pub(super) const fn one() -> u32 {
        1
    }

    pub(super) const fn on() -> bool {
        true
    }
}

/// The translation layer: how the drive maps host addresses to physical addresses.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// No translation: every block has a fixed location, as on every conventional drive.
    Conventional(Conventional),
    /// No platters in use: all data is on flash at its own address. The speed of the flash is in `[flash]`.
    Ssd(Ssd),
    /// A raw shingled disk: no translation, and a write destroys the data at its angles on the following
    /// tracks ("Shingled Write Disk Emulator", UCSC-SSRC-12-05). Reads detect destroyed sectors.
    Swd(Swd),
    /// The set-associative layer of the Skylight paper (section 3.1): data band `a` can be cached only in
    /// cache band `a mod n`; a full cache band is merged back into its data bands. Where that takes longer than a host
    /// waits for a write, three minutes, the write goes home with its own data band and the next ones go on.
    SetAssociative(SetAssociative),
    /// The fully-associative layer of the Skylight paper (section 3.1): independent zones, each with free
    /// bands that take the writes to its other bands and become the new locations of merged bands.
    FullyAssociative(FullyAssociative),
    /// The layer of the two Seagate drives of the Skylight paper (sections 4.3 to 4.6): a journal that packs
    /// writes into entries, an extent map, and bands at fixed locations that are cleaned one by one. Where as many bands
    /// as are cleaned while a host waits for a write, three minutes, make no room for it, it goes home with its own band.
    Journaled(Box<Journaled>),
    /// Zones with write pointers, after the standards ZBC and ZAC: host-managed, where the host must write each zone
    /// in order, or host-aware, where it may write anywhere.
    Zoned(Zoned),
}

/// The keys of a conventional drive: only the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conventional {}

/// The keys of an all-flash drive: only the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ssd {}

/// The keys of a raw shingled disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swd {
    /// Tracks that a write covers, its own included: the paper's k. The others lie towards the inner diameter
    /// where a recording zone runs inwards, and towards the outer diameter where it runs outwards.
    #[schemars(range(min = 1, max = 16), extend("examples" = [4]))]
    pub width_tracks: u32,
    /// What a read of an overwritten sector returns.
    #[serde(default)]
    #[schemars(extend("examples" = ["data"]))]
    pub read: OverwrittenRead,
    /// The byte for `read = "pattern"`; only for that mode, 0 if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub pattern: Option<u8>,
    /// Whether a read of an overwritten sector also fails with an error for that sector, with a record of the
    /// write that destroyed it (development-centric).
    #[serde(default = "default::on")]
    #[schemars(extend("examples" = [true]))]
    pub errors: bool,
    /// Tracks in a band. Each band has a guard of `width_tracks` - 1 tracks after it, so that bands do not
    /// overwrite each other. No bands if left out. Not for layouts that change surfaces within a recording
    /// zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [64]))]
    pub band_tracks: Option<u32>,
}

/// What a read of an overwritten sector returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverwrittenRead {
    /// The data that overwrote it (data-centric): a single read becomes several.
    #[default]
    Data,
    /// The same byte for every sector (performance-centric): the read runs as if nothing were overwritten.
    Pattern,
}

/// The keys of a set-associative drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAssociative {
    /// Size of a data band and of a cache band; the tracks of a band are rewritten together.
    #[schemars(extend("x-range" = ["64 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["40 MiB"]))]
    pub band: Bytes,
    /// Size of the persistent cache, rounded down to whole bands. At least one band, less than the drive.
    #[schemars(extend("x-range" = ["64 KiB", "10 TB"], "examples" = ["37.2 GiB"]))]
    pub cache: Bytes,
    /// What the persistent cache is made of.
    #[schemars(extend("examples" = ["disk"]))]
    pub cache_medium: CacheMedium,
    /// Where on the platters the cache lies. Required for a disk cache; not allowed for a flash cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["id"]))]
    pub cache_location: Option<CacheLocation>,
    /// The fraction of a cache band that may be in use before a write to it has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.95]))]
    pub watermark: f64,
    /// When cache bands are cleaned: only when full, or also in idle time.
    #[serde(default)]
    #[schemars(extend("examples" = ["lazy"]))]
    pub cleaning: CleaningType,
    /// Idle time before the drive cleans. Required for aggressive cleaning, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "3600 s"]))]
    pub idle: Option<Duration>,
}

/// What a persistent cache is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheMedium {
    /// Tracks on the platters.
    Disk,
    /// Flash memory; its speed is in `[flash]`.
    Flash,
}

/// Where on the platters a persistent cache lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CacheLocation {
    /// At the outer diameter, before the first address.
    Od,
    /// At the middle diameter, between the addresses.
    Md,
    /// At the inner diameter, after the last address.
    Id,
}

/// The keys of a fully-associative drive. Its persistent cache is formed by the free bands of all zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullyAssociative {
    /// Size of a band; the tracks of a band are rewritten together.
    #[schemars(extend("x-range" = ["64 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["20 MiB"]))]
    pub band: Bytes,
    /// Host data of a zone, rounded down to whole bands. Zones are managed independently. At least one band;
    /// the last zone may be smaller.
    #[schemars(extend("x-range" = ["64 KiB", "1000 GiB"], "examples" = ["40 GiB"]))]
    pub zone: Bytes,
    /// Free bands of a zone, in addition to those with its data: they serve as logs of its dirty bands and as
    /// new locations of merged bands. At most the number of bands in `zone`.
    #[schemars(range(min = 2, max = 1_000_000), extend("examples" = [21]))]
    pub free_bands: u32,
    /// When bands are merged: only when free bands run out, or also in idle time.
    #[schemars(extend("examples" = ["aggressive"]))]
    pub cleaning: CleaningType,
    /// Free bands that writes must leave unused: if a zone has no more than these, a write that needs one
    /// waits until bands are merged. Less than `free_bands`.
    #[serde(default = "default::one")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [1]))]
    pub clean_threshold: u32,
    /// Idle time before the drive merges bands. Required for aggressive cleaning, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "3600 s"], "examples" = ["1.2 s"]))]
    pub idle: Option<Duration>,
}

// More than 15 fields: one per key of the section, which TOML keeps flat.
/// The keys of a journaled drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journaled {
    /// What the persistent cache is made of.
    #[schemars(extend("examples" = ["disk"]))]
    pub cache_medium: CacheMedium,
    /// Where on the platters the cache lies. Required for a disk cache; not allowed for a flash cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["od"]))]
    pub cache_location: Option<CacheLocation>,
    /// Capacity reserved for the journal and, after it, the staging area for merged bands. If left out,
    /// enough for all slots if each is an entry of its own. Only for a disk cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["64 KiB", "10 TB"], "x-multiple" = "4 KiB", "examples" = ["110 GiB"]))]
    pub cache_region: Option<Bytes>,
    /// Host data in a quantum. An entry is one or more whole quanta, and a quantum occupies one slot.
    #[schemars(extend("x-range" = ["4 KiB", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["864 KiB"]))]
    pub quantum: Bytes,
    /// Data written before the data of each entry.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 B", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["3728 KiB"]))]
    pub out_of_band: Bytes,
    /// Unused space after each entry. If the head passes it in less time than the command overhead and the
    /// host's pause before its next command, isolated
    /// writes miss the next slot and wait for a whole revolution.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 B", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["120 KiB"]))]
    pub entry_gap: Bytes,
    /// Maximum host data in an entry: waiting writes that fit are packed into one. At least a quantum.
    #[schemars(extend("x-range" = ["4 KiB", "1 GiB"], "x-multiple" = "4 KiB", "examples" = ["3900 KiB"]))]
    pub entry_max: Bytes,
    /// Slots of the journal, one per quantum. The largest entry must need fewer slots than the watermark
    /// allows.
    #[schemars(range(min = 2, max = 1_000_000_000), extend("examples" = [24_272]))]
    pub places: u64,
    /// The fraction of the slots that may be in use before a write has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.94]))]
    pub place_watermark: f64,
    /// Maximum number of extents in the map of the cache. No limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000_000), extend("examples" = [200_000]))]
    pub map_entries: Option<u64>,
    /// The fraction of the map's extents that may be in use before a write has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.91]))]
    pub map_watermark: f64,
    /// Number of entries between two merges of the map. No merges if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [240]))]
    pub map_merge_every: Option<u64>,
    /// Size of the write at the map's home location in a merge. Required with `map_merge_every`, and only
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["4 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["43 MiB"]))]
    pub map_merge: Option<Bytes>,
    /// Where on the platters the map's home location lies.
    #[serde(default = "default::md")]
    #[schemars(extend("examples" = ["md"]))]
    pub map_location: CacheLocation,
    /// Size of the write at the map's home location after a band is cleaned.
    #[serde(default = "default::one_block")]
    #[schemars(extend("x-range" = ["4 KiB", "1 GiB"], "x-multiple" = "4 KiB", "examples" = ["64 KiB"]))]
    pub map_update: Bytes,
    /// When bands are cleaned: only when the cache is full, or also in idle time.
    #[schemars(extend("examples" = ["aggressive"]))]
    pub cleaning: CleaningType,
    /// Which band is cleaned first.
    #[serde(default)]
    #[schemars(extend("examples" = ["random"]))]
    pub cleaning_order: CleaningOrder,
    /// Seed of the random order. Only for cleaning_order = "random".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32), extend("examples" = [7]))]
    pub cleaning_seed: Option<u32>,
    /// Idle time before the drive cleans. Required for aggressive cleaning, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "3600 s"], "examples" = ["1.24 s"]))]
    pub idle: Option<Duration>,
    /// Whether waiting writes that cover a whole band bypass the cache and go to the band's native location.
    #[serde(default)]
    #[schemars(extend("examples" = [true]))]
    pub whole_bands_bypass: bool,
    /// Unused tracks after each band, on each surface of the band. A head that is `k` tracks wide
    /// destroys `k - 1` tracks after the last track of a band, and bands may end anywhere in a track, so `k`
    /// are needed. With guards, no band crosses the edge of a recording zone or of a pass over a surface, and
    /// each of these starts with a guard; without, bands are contiguous.
    #[serde(default)]
    #[schemars(range(min = 0, max = 64), extend("examples" = [2]))]
    pub guard_tracks: f64,
    /// The sizes of bands, from the first address to the last.
    #[schemars(length(min = 1, max = 1_000))]
    pub bands: Vec<BandRun>,
}

/// Bands of one size. One `[[layer.bands]]` each, from the first address to the last.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BandRun {
    /// Size of a band; the tracks of a band are rewritten together.
    #[schemars(extend("x-range" = ["64 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["36 MiB"]))]
    pub band: Bytes,
    /// The address at which bands of this size end, rounded down to whole bands. Left out in the last entry,
    /// whose bands continue to the end of the drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["64 KiB", "100 TB"]))]
    pub until: Option<Bytes>,
}

/// The keys of a drive with zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Zoned {
    /// Who sees to the order of writes in the zones that have a write pointer.
    #[schemars(extend("examples" = ["host-managed"]))]
    pub model: ZoneModel,
    /// Size of a zone; the last zone may be smaller.
    #[schemars(extend("x-range" = ["1 MiB", "2 GiB"], "x-multiple" = "4 KiB", "examples" = ["256 MiB"]))]
    pub zone_size: Bytes,
    /// Data that a zone with a write pointer holds, if that is less than its size. Only for host-managed drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["4 KiB", "2 GiB"], "x-multiple" = "4 KiB"))]
    pub zone_capacity: Option<Bytes>,
    /// Conventional zones, from the start of the drive on; they have no write pointer.
    #[serde(default)]
    #[schemars(range(min = 0, max = 100_000_000), extend("examples" = [64]))]
    pub conventional_zones: u32,
    /// Most zones that can be open at once: a limit of a host-managed drive, a recommendation of a host-aware one. No limit
    /// if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [128]))]
    pub max_open_zones: Option<u32>,
    /// Most zones that can be open or closed at once. No limit if left out. At least `max_open_zones`. Only for
    /// host-managed drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub max_active_zones: Option<u32>,
    /// Recommended maximum of zones that are written out of order. Only for host-aware drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000))]
    pub recommended_non_sequential_zones: Option<u32>,
    /// Whether a host-managed drive lets the host read beyond a write pointer and across zones (URSWRZ). A host-aware drive
    /// always does.
    #[serde(default)]
    #[schemars(extend("examples" = [false]))]
    pub unrestricted_reads: bool,
    /// What a host-aware drive does besides the standard. Only for host-aware drives.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host_aware: Option<Box<HostAware>>,
}

/// Who sees to the order of writes in zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ZoneModel {
    /// The host: a write elsewhere than at the write pointer fails.
    HostManaged,
    /// The drive: it takes writes anywhere.
    HostAware,
}

/// When a drive cleans its persistent cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CleaningType {
    /// Only when a write finds it full.
    #[default]
    Lazy,
    /// Also after the idle time `idle`.
    Aggressive,
}

/// Which band is cleaned first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CleaningOrder {
    /// The band of the oldest write in the cache.
    #[default]
    Fifo,
    /// The band of the newest write.
    Lifo,
    /// The band with the most cached data; of equals, the first.
    Greedy,
    /// Any band with cached data, all equally likely.
    Random,
}
