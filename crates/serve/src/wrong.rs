//! Sectors whose data is not what was written, as a server tells of them: a line for each read that met one.
//!
//! Invariant: a read that was refused for its checksum has a line that names its sectors.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use skylight_disk::SECTOR_BYTES;
use skylight_image::ImageError;
use skylight_image::store::summed::SumState;

use crate::filters::log::Sink;

/// See the module page.
#[derive(Default)]
pub struct WrongSectors {
    sink: Mutex<Option<Sink>>,
}

impl WrongSectors {
    /// Lines go there.
    pub fn tell(&self, sink: Sink) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }

    /// A read failed; if that is for a checksum, it is told.
    pub fn note(&self, error: &ImageError) {
        if !matches!(error, ImageError::Checksum { .. }) {
            return;
        }
        if let Some(sink) = self.sink.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            sink(&format!("read error: {error}"));
        }
    }
}

/// The first byte, as the host counts, of what a read was refused for its checksum.
pub fn wrong_byte(error: &ImageError) -> Option<u64> {
    match error {
        ImageError::Checksum { wrong, .. } => wrong.first.map(|first| first * SECTOR_BYTES),
        _ => None,
    }
}

/// What checksums have found, for the status.
pub fn sums_json(sums: Option<&SumState>) -> Value {
    sums.map_or(Value::Null, |sums| {
        json!({
            "mismatches": sums.mismatches,
            "unsure_regions": sums.unsure_regions,
            "region_bytes": sums.region_bytes,
            "accepted_sectors": sums.accepted,
            "mended_sectors": sums.mended,
        })
    })
}
