//! What may be in use in a persistent cache before a write waits for cleaning: slots and map entries below their watermarks.

use skylight_layer::zoned::host_aware::host_slots;

use crate::profile::{HostAware, Journaled};

/// The part of `count` below a watermark.
pub(super) fn usable(count: u64, watermark: f64) -> u64 {
    (count as f64 * watermark) as u64
}

/// Slots that may be in use.
pub(super) fn usable_slots(keys: &Journaled) -> u64 {
    usable(keys.places, keys.place_watermark)
}

/// Map entries that may be in use.
pub(super) fn usable_entries(keys: &Journaled) -> Option<u64> {
    keys.map_entries.map(|entries| usable(entries, keys.map_watermark))
}

/// Isolated writes of one block until cleaning starts.
pub(super) fn isolated_writes(keys: &Journaled) -> u64 {
    usable_slots(keys).min(usable_entries(keys).unwrap_or(u64::MAX))
}

/// Slots of the cache that lone writes take before one of them waits: those above the watermark are a reserve, for which a
/// write waits as long as `throttle` says.
pub(super) fn slots(keys: &HostAware) -> u64 {
    let watermark = usable(keys.places, keys.place_watermark);
    if keys.throttle.nanos().get() > 0 {
        return watermark;
    }
    host_slots(keys.places, watermark, keys.entry_max.get().div_ceil(keys.quantum.get()))
}

/// Lone writes that are not in order, to different places, each of so many slots and of so many extents of the map, until one
/// waits: all slots are in use, or all extents.
pub(super) fn lone_writes(keys: &HostAware, slots_each: u64, extents_each: u64) -> u64 {
    let extents = keys.map_entries.map_or(u64::MAX, |entries| usable(entries, keys.map_watermark));
    (slots(keys) / slots_each.max(1)).min(extents / extents_each.max(1))
}
