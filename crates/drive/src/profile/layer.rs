//! The `[layer]` section: which translation layer a drive has, and the keys of each kind.
//!
//! To add a kind: a struct for its keys, a variant of [`Layer`], an arm in `rules.rs` for what its keys
//! mean together. The check of keys, the JSON schema and the reference page follow from the struct.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::{Bytes, Duration};

/// Defaults of the keys that may be left out, in one place.
mod default {
    use super::{Bytes, CacheLocation, CleaningOrder, CleaningType};

    pub(super) const fn nothing() -> Bytes {
        Bytes(0)
    }

    pub(super) const fn one_block() -> Bytes {
        Bytes(4096)
    }

    pub(super) const fn whole() -> f64 {
        1.0
    }

    pub(super) const fn middle() -> CacheLocation {
        CacheLocation::Md
    }

    pub(super) const fn fifo() -> CleaningOrder {
        CleaningOrder::Fifo
    }

    pub(super) const fn off() -> bool {
        false
    }

    pub(super) const fn lazy() -> CleaningType {
        CleaningType::Lazy
    }

    pub(super) const fn one_band() -> u32 {
        1
    }

    pub(super) const fn nothing_of_a_track() -> f64 {
        0.0
    }

    pub(super) const fn data() -> super::OverwrittenRead {
        super::OverwrittenRead::Data
    }

    pub(super) const fn on() -> bool {
        true
    }
}

/// The translation layer: how the drive maps what the host names to where it lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// No translation: a block stays where its address puts it, as on every conventional drive.
    Conventional(Conventional),
    /// No platters in use: everything lies on flash, whose speed is in `[flash]`, at its own address.
    Ssd(Ssd),
    /// A raw shingled disk: no translation, and a write destroys what lies at its angles on the next tracks
    /// ("Shingled Write Disk Emulator", UCSC-SSRC-12-05). What was destroyed is found out when it is read.
    Swd(Swd),
    /// The set-associative layer of the Skylight paper (section 3.1): data band `a` may be cached only in
    /// cache band `a mod n`; a cache band that is full is merged back into its data bands.
    SetAssociative(SetAssociative),
    /// The fully-associative layer of the Skylight paper (section 3.1): zones managed on their own, in each of
    /// them free bands that take the writes to its other bands and become new homes of merged bands.
    FullyAssociative(FullyAssociative),
    /// The layer of the two Seagate drives of the Skylight paper (sections 4.3 to 4.6): a journal that packs
    /// writes into entries, an extent map, bands of static place that are cleaned one by one.
    Journaled(Box<Journaled>),
}

/// The keys of a conventional drive: none but the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conventional {}

/// The keys of a drive that is all flash: none but the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Ssd {}

/// The keys of a raw shingled disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Swd {
    /// Tracks that a write covers, its own with them: the paper's k. Where the walk of a recording zone goes
    /// inwards they are those towards the inner diameter, where it goes outwards those towards the outer.
    #[schemars(range(min = 1, max = 16), extend("examples" = [4]))]
    pub width_tracks: u32,
    /// What a read of an overwritten sector gives.
    #[serde(default = "default::data")]
    #[schemars(extend("examples" = ["data"]))]
    pub read: OverwrittenRead,
    /// The byte that `read = "pattern"` gives, and only that: 0 when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 255))]
    pub pattern: Option<u8>,
    /// Whether a read of an overwritten sector is an error for that sector as well, with a record of the write
    /// that destroyed it (development-centric).
    #[serde(default = "default::on")]
    #[schemars(extend("examples" = [true]))]
    pub errors: bool,
    /// Tracks in a band, each with a guard of one track less than `width_tracks` behind it, so that bands do
    /// each other no harm. No bands when left out. Not where a layout changes surfaces within a recording zone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [64]))]
    pub band_tracks: Option<u32>,
}

/// What a read of an overwritten sector gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum OverwrittenRead {
    /// The data that overwrote it (data-centric): one read becomes several.
    Data,
    /// The same byte everywhere (performance-centric): the read is made as if nothing was overwritten.
    Pattern,
}

/// The keys of a set-associative drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SetAssociative {
    /// Size of a band, of data and of cache alike; tracks in a band are rewritten as one.
    #[schemars(extend("x-range" = ["64 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["40 MiB"]))]
    pub band: Bytes,
    /// Size of the persistent cache, rounded down to whole bands. At least one band, less than the drive.
    #[schemars(extend("x-range" = ["64 KiB", "10 TB"], "examples" = ["37.2 GiB"]))]
    pub cache: Bytes,
    /// What the persistent cache is made of.
    #[schemars(extend("examples" = ["disk"]))]
    pub cache_medium: CacheMedium,
    /// Where on the platters the cache lies. Needed for a cache on the disk; a flash cache has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["id"]))]
    pub cache_location: Option<CacheLocation>,
    /// The part of a cache band that may be in use before a write to it has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.95]))]
    pub watermark: f64,
    /// When cache bands are cleaned: only when they are full, or in idle time too.
    #[serde(default = "default::lazy")]
    #[schemars(extend("examples" = ["lazy"]))]
    pub cleaning: CleaningType,
    /// How long the drive is left alone before it cleans. Needed for aggressive cleaning, and only then.
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
    /// At the middle diameter, amid the addresses.
    Md,
    /// At the inner diameter, after the last address.
    Id,
}

/// The keys of a fully-associative drive. Its persistent cache is the free bands of all zones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FullyAssociative {
    /// Size of a band; tracks in a band are rewritten as one.
    #[schemars(extend("x-range" = ["64 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["20 MiB"]))]
    pub band: Bytes,
    /// Host data of a zone, which is managed on its own, rounded down to whole bands. At least one band; the
    /// last zone may be smaller.
    #[schemars(extend("x-range" = ["64 KiB", "1000 GiB"], "examples" = ["40 GiB"]))]
    pub zone: Bytes,
    /// Free bands that a zone has beside those that hold its data: the logs of its dirty bands, and the new
    /// homes of merged ones. No more than `zone` has of them.
    #[schemars(range(min = 2, max = 1_000_000), extend("examples" = [21]))]
    pub free_bands: u32,
    /// When bands are merged: only when free bands run out, or in idle time too.
    #[schemars(extend("examples" = ["aggressive"]))]
    pub cleaning: CleaningType,
    /// Free bands that writes leave: when a zone has no more, a write that needs one waits until bands are
    /// merged. Less than `free_bands`.
    #[serde(default = "default::one_band")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [1]))]
    pub clean_threshold: u32,
    /// How long the drive is left alone before it merges bands. Needed for aggressive cleaning, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "3600 s"], "examples" = ["1.2 s"]))]
    pub idle: Option<Duration>,
}

/// The keys of a journaled drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Journaled {
    /// What the persistent cache is made of.
    #[schemars(extend("examples" = ["disk"]))]
    pub cache_medium: CacheMedium,
    /// Where on the platters the cache lies. Needed for a cache on the disk; a flash cache has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["od"]))]
    pub cache_location: Option<CacheLocation>,
    /// Medium set aside for the journal and, behind it, the place where a merged band is staged. When left
    /// out, as much as all places take if each is an entry of its own. Only for a cache on the disk.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["64 KiB", "10 TB"], "x-multiple" = "4 KiB", "examples" = ["110 GiB"]))]
    pub cache_region: Option<Bytes>,
    /// Host data in a quantum: an entry is one or more whole quanta, and a quantum takes one place.
    #[schemars(extend("x-range" = ["4 KiB", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["864 KiB"]))]
    pub quantum: Bytes,
    /// What is written before the data of each entry.
    #[serde(default = "default::nothing")]
    #[schemars(extend("x-range" = ["0 B", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["3808 KiB"]))]
    pub out_of_band: Bytes,
    /// Medium left unused behind each entry. If the head passes it in less time than a command's overhead,
    /// lone writes miss the next place and wait for a whole turn.
    #[serde(default = "default::nothing")]
    #[schemars(extend("x-range" = ["0 B", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["40 KiB"]))]
    pub entry_gap: Bytes,
    /// Most host data in an entry: writes that wait and fit are packed into one. At least a quantum.
    #[schemars(extend("x-range" = ["4 KiB", "1 GiB"], "x-multiple" = "4 KiB", "examples" = ["3900 KiB"]))]
    pub entry_max: Bytes,
    /// Places of the journal, one a quantum. Those of the largest entry must be fewer than the watermark.
    #[schemars(range(min = 2, max = 1_000_000_000), extend("examples" = [24_272]))]
    pub places: u64,
    /// The part of the places that may be in use before a write has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.94]))]
    pub place_watermark: f64,
    /// Extents that the map of the cache can hold. No limit when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1_000_000_000), extend("examples" = [200_000]))]
    pub map_entries: Option<u64>,
    /// The part of the map's extents that may be in use before a write has to wait for cleaning.
    #[serde(default = "default::whole")]
    #[schemars(range(min = 0.1, max = 1), extend("examples" = [0.91]))]
    pub map_watermark: f64,
    /// Entries from one merge of the map to the next. No merges when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 1_000_000), extend("examples" = [240]))]
    pub map_merge_every: Option<u64>,
    /// What a merge of the map writes at the map's home. Needed with `map_merge_every`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["4 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["43 MiB"]))]
    pub map_merge: Option<Bytes>,
    /// Where on the platters the map has its home.
    #[serde(default = "default::middle")]
    #[schemars(extend("examples" = ["md"]))]
    pub map_location: CacheLocation,
    /// What is written at the map's home when a band has been cleaned.
    #[serde(default = "default::one_block")]
    #[schemars(extend("x-range" = ["4 KiB", "1 GiB"], "x-multiple" = "4 KiB", "examples" = ["64 KiB"]))]
    pub map_update: Bytes,
    /// When bands are cleaned: only when the cache is full, or in idle time too.
    #[schemars(extend("examples" = ["aggressive"]))]
    pub cleaning: CleaningType,
    /// Which band is cleaned first.
    #[serde(default = "default::fifo")]
    #[schemars(extend("examples" = ["random"]))]
    pub cleaning_order: CleaningOrder,
    /// Where the random order begins: another number, another order. Only for cleaning_order = "random".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 4_294_967_295_u32), extend("examples" = [7]))]
    pub cleaning_seed: Option<u32>,
    /// How long the drive is left alone before it cleans. Needed for aggressive cleaning, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "3600 s"], "examples" = ["1.24 s"]))]
    pub idle: Option<Duration>,
    /// Whether waiting writes that cover a band from its start to its end go straight to its native place.
    #[serde(default = "default::off")]
    #[schemars(extend("examples" = [true]))]
    pub whole_bands_bypass: bool,
    /// Tracks left unused behind each band, on each surface that it lies on. A head that writes `k` tracks wide
    /// destroys `k - 1` tracks behind the last track of a band, and bands end anywhere in a track: it takes `k`.
    /// With any, no band crosses the edge of a stroke, of a recording zone or of a pass over a surface, and each
    /// of these begins with as many; with none, bands follow each other without a gap.
    #[serde(default = "default::nothing_of_a_track")]
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
    /// Size of a band; tracks in a band are rewritten as one.
    #[schemars(extend("x-range" = ["64 KiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["36 MiB"]))]
    pub band: Bytes,
    /// The address at which bands of this size end, rounded down to whole bands. Left out where they go on to
    /// the end of the drive, in the last entry.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["64 KiB", "100 TB"]))]
    pub until: Option<Bytes>,
}

/// When a drive cleans its persistent cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CleaningType {
    /// Only when a write finds it full.
    Lazy,
    /// Also when the drive has been left alone for the time `idle`.
    Aggressive,
}

/// Which band is cleaned first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CleaningOrder {
    /// That of the oldest write in the cache.
    Fifo,
    /// That of the newest.
    Lifo,
    /// The one with the most to gain: that of which most lies in the cache, of those the first.
    Greedy,
    /// Any that has something in the cache, each as likely as any other.
    Random,
}
