//! Verifies all data of an image that is not being served against its checksums.
//!
//! It reads the data that the host can read, in the order of host addresses; obsolete data in a cache is not verified.
//! Holes are skipped where neither data nor checksums were ever written.
//!
//! Invariants: nothing is written; a sector that cannot be read counts as a mismatch, and the scrub continues.

use std::ops::Range;
use std::path::Path;

use serde::Serialize;
use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_drive::profile::Profile;
use skylight_layer::Layer;

use crate::creation::summed;
use crate::error::ImageError;
use crate::image_files::reach;
use crate::interpreter::Interpreter;
use crate::options::Options;
use crate::recovery::look_into;
use crate::store::{Access, Store};
use crate::structure_reader::Reader;

/// Size of a read, bytes.
const CHUNK: u64 = 1 << 20;
/// Size of a read where a larger one fails, bytes: a page of the page cache.
const PAGE: usize = 4096;
/// Host sectors per look-up: 1 GiB.
const WINDOW: u64 = 1 << 21;
/// Maximum number of wrong extents in the report.
const NAMED: usize = 100;

/// The result of a scrub.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Scrubbed {
    /// Bytes verified.
    pub data_bytes: u64,
    /// The first wrong extents: first host sector, and sectors.
    pub wrong: Vec<(u64, u64)>,
    /// Wrong extents, in the report or not.
    pub wrong_extents: u64,
    /// Sectors in them.
    pub wrong_sectors: u64,
    /// Sectors that differ from their checksums where a power cut explains it; they are valid.
    pub unsure_sectors: u64,
    /// Host sector after the last wrong one.
    #[serde(skip)]
    wrong_end: Option<u64>,
}

impl Scrubbed {
    /// Adds a wrong extent, in increasing order.
    fn note(&mut self, first: u64, sectors: u64) {
        self.wrong_sectors += sectors;
        if self.wrong_end.replace(first + sectors) != Some(first) {
            self.wrong_extents += 1;
            if self.wrong.len() < NAMED {
                self.wrong.push((first, sectors));
            }
        } else if let Some(last) = self.wrong.last_mut().filter(|last| last.0 + last.1 == first) {
            last.1 += sectors;
        }
    }
}

/// A contiguous extent of host sectors.
struct Run {
    first: u64,
    at: u64,
    len: u64,
}

/// Scrubs an image; `progress` gets the bytes verified and the total, and returns whether to continue.
///
/// # Errors
/// When the image is in use, is not an image, has no checksums, or its structures are damaged.
pub fn scrub(
    path: &Path,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Scrubbed, ImageError> {
    let store = reach(path, options, Access::Look)?;
    let (superblock, _) = Reader(store.as_ref()).superblock()?;
    let profile = Profile::from_toml(&superblock.text, &store.name())?;
    let layer = skylight_drive::build::layer(&profile)?;
    scrub_on(store, layer, options, progress)
}

/// Scrubs an image on a store, for a drive with this layer.
///
/// # Errors
/// As [`scrub`].
pub fn scrub_on(
    store: Box<dyn Store>,
    mut layer: Box<dyn Layer>,
    options: &Options,
    progress: &mut dyn FnMut(u64, u64) -> bool,
) -> Result<Scrubbed, ImageError> {
    let (superblock, _) = Reader(store.as_ref()).superblock()?;
    if superblock.sums.len == 0 {
        return Err(ImageError::NoChecksums(store.name()));
    }
    let store = summed(store, &superblock, options)?;
    let interpreter = look_into(store, superblock, layer.as_mut())?;
    let runs = runs_of(&interpreter, layer.as_ref())?;
    let total = runs.iter().map(|run| run.len).sum();
    let mut found = Scrubbed::default();
    let (mut buffer, mut bad) = (vec![0; CHUNK as usize], Vec::new());
    let (store, _) = interpreter.at(skylight_layer::Medium::Platter, skylight_disk::Pba(0));
    for run in &runs {
        let mut done = 0;
        while done < run.len {
            if !progress(found.data_bytes, total) {
                return Ok(found);
            }
            let here = (run.len - done).min(CHUNK);
            bad.clear();
            compare(store, run.at + done, &mut buffer[..here as usize], &mut bad);
            for part in &bad {
                let first = run.first + (done + part.start as u64) / SECTOR_BYTES;
                found.note(first, part.len() as u64 / SECTOR_BYTES);
            }
            done += here;
            found.data_bytes += here;
        }
    }
    found.unsure_sectors = interpreter.sums().map_or(0, |sums| sums.accepted);
    progress(total, total);
    Ok(found)
}

/// The wrong parts of an extent, as ranges of the buffer.
fn compare(store: &dyn Store, at: u64, buffer: &mut [u8], bad: &mut Vec<Range<usize>>) {
    if store.read_to_move(at, buffer, bad).is_ok() {
        return;
    }
    bad.clear();
    for (index, page) in buffer.chunks_mut(PAGE).enumerate() {
        let (from, mut wrong) = (index * PAGE, Vec::new());
        match store.read_to_move(at + from as u64, page, &mut wrong) {
            Ok(()) => bad.extend(wrong.into_iter().map(|part| from + part.start..from + part.end)),
            Err(_) => bad.push(from..from + page.len()),
        }
    }
}

/// All data that the host can read and that was ever written, in the order of host addresses.
fn runs_of(interpreter: &Interpreter, layer: &dyn Layer) -> Result<Vec<Run>, ImageError> {
    let (mut runs, capacity): (Vec<Run>, u64) = (Vec::new(), layer.capacity().get());
    for start in (0..capacity).step_by(WINDOW as usize) {
        let window = LbaExtent::new(Lba(start), Sectors(WINDOW.min(capacity - start)));
        let mut pieces = Vec::new();
        interpreter.pieces(window, layer, &mut |medium, piece| pieces.push((medium, piece)));
        let mut first = start;
        for (medium, piece) in pieces {
            let (_, at) = interpreter.at(medium, piece.start);
            let mut done = 0;
            while done < piece.len.bytes() {
                let (is_data, len) = interpreter.allocated(medium, piece, done)?;
                let next = Run { first: first + done / SECTOR_BYTES, at: at + done, len };
                match runs.last_mut() {
                    _ if !is_data => {}
                    Some(last) if goes_on(last, &next) => last.len += len,
                    _ => runs.push(next),
                }
                done += len;
            }
            first += piece.len.get();
        }
    }
    Ok(runs)
}

fn goes_on(last: &Run, next: &Run) -> bool {
    last.at + last.len == next.at && last.first + last.len / SECTOR_BYTES == next.first
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extents_that_go_on_are_one_and_the_first_are_named() {
        let mut found = Scrubbed::default();
        (0..300).for_each(|k| found.note(k * 10, 1));
        found.note(2991, 4);
        assert_eq!((found.wrong_extents, found.wrong_sectors, found.wrong.len()), (300, 304, NAMED));
        assert_eq!(found.wrong[99], (990, 1));
        let mut found = Scrubbed::default();
        found.note(8, 2);
        found.note(10, 6);
        assert_eq!((found.wrong, found.wrong_extents), (vec![(8, 8)], 1));
    }
}
