//! The `[layer]` section: which translation layer a drive has, and the keys of each kind.
//!
//! To add a kind: a struct for its keys, a variant of [`Layer`], an arm in `rules.rs` for what its keys
//! mean together. The check of keys, the JSON schema and the reference page follow from the struct.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::quantity::Bytes;

/// The translation layer: how the drive maps what the host names to where it lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Layer {
    /// No translation: a block stays where its address puts it, as on every conventional drive.
    Conventional(Conventional),
    /// The set-associative layer of the Skylight paper (section 3.1): data band `a` may be cached only in
    /// cache band `a mod n`; a cache band that is full is merged back into its data bands.
    SetAssociative(SetAssociative),
}

/// The keys of a conventional drive: none but the kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Conventional {}

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
