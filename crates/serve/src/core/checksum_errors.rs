//! Reports reads that fail because of a checksum mismatch, one line each.
//!
//! Invariant: every such read has a line that names its sectors.

use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use skylight_disk::SECTOR_BYTES;
use skylight_image::ImageError;
use skylight_image::store::checksummed::SumState;

use crate::diagnostics::Writer;

/// See the module page.
#[derive(Default)]
pub struct ChecksumErrors {
    sink: Mutex<Option<Writer>>,
}

impl ChecksumErrors {
    /// Sends the lines to `sink`.
    pub fn report_to(&self, sink: Writer) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }

    /// Reports a failed read, if the cause is a checksum mismatch.
    pub fn note(&self, error: &ImageError) {
        if !matches!(error, ImageError::Checksum { .. }) {
            return;
        }
        if let Some(sink) = self.sink.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            sink(&format!("read error: {error}"));
        }
    }
}

/// The first host byte of a read that has a checksum mismatch.
pub fn first_mismatch(error: &ImageError) -> Option<u64> {
    match error {
        ImageError::Checksum { wrong, .. } => wrong.first.map(|first| first * SECTOR_BYTES),
        _ => None,
    }
}

/// Checksum statistics for the status.
pub fn checksums_json(sums: Option<&SumState>) -> Value {
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
