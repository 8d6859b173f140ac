//! Reports errors of the image that a client sees as EIO alone: reads that fail because of a checksum mismatch, one line
//! each, and that the image stopped, one line in all, since all that follows fails for the same reason.
//!
//! Invariants: every read with a checksum mismatch has a line that names its sectors; where a command fails because the
//! image stopped, a line says why.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};
use skylight_disk::SECTOR_BYTES;
use skylight_image::ImageError;
use skylight_image::store::checksummed::SumState;

use crate::diagnostics::{self, Writer};

/// See the module page.
#[derive(Default)]
pub struct ImageErrors {
    sink: Mutex<Option<Writer>>,
    /// Whether it was reported that the image stopped.
    stopped: AtomicBool,
}

impl ImageErrors {
    /// Sends the lines to `sink`; that the image stopped goes to standard error too.
    pub fn report_to(&self, sink: Writer) {
        *self.sink.lock().unwrap_or_else(PoisonError::into_inner) = Some(sink);
    }

    /// Reports the error of a command, if it is one of those of the module page.
    pub fn note(&self, error: &ImageError) {
        let line = match error {
            ImageError::Checksum { .. } => format!("read error: {error}"),
            ImageError::Stopped(_) | ImageError::Inconsistent(_) => {
                if self.stopped.swap(true, Ordering::Relaxed) {
                    return;
                }
                let line = format!("image error: {error}");
                diagnostics::log(line.clone());
                line
            }
            _ => return,
        };
        if let Some(sink) = self.sink.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
            sink(&line);
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
