//! Status and block status of a served image.

use serde_json::{Value, json};
use skylight_image::{Place, Status};

use crate::core::image_errors::checksums_json;
use crate::core::{BlockState, Extent, StatusQuery, push_extent};

/// The status of an image as JSON.
pub(crate) fn status_json(status: &Status) -> Value {
    let cache = &status.cache;
    let fill = (cache.usable_sectors > 0).then(|| cache.filled_sectors as f64 / cache.usable_sectors as f64);
    json!({
        "cache_live_bytes": cache.live_sectors * skylight_disk::SECTOR_BYTES,
        "cache_fill": fill,
        "cache_map_entries": cache.map_entries,
        "cache_map_limit": cache.map_limit,
        "cleaning": cache.cleaning,
        "host_bytes": status.counters.host_bytes,
        "media_bytes": status.counters.media_bytes,
        "syncs": status.counters.syncs,
        "write_amplification": status.write_amplification(),
        "generation": status.generation,
        "checksums": checksums_json(status.sums.as_ref()),
    })
}

/// Appends extents from the locations of an image.
pub(crate) fn push_places(places: &[Place], query: StatusQuery, extents: &mut Vec<Extent>) {
    for place in places {
        let state = match query {
            StatusQuery::Allocation if !place.allocated => BlockState::Hole,
            StatusQuery::Cached if place.cached => BlockState::Cached,
            _ => BlockState::Ordinary,
        };
        push_extent(extents, place.len, state);
    }
}
