//! What people do with an image that is not in use: look at it, check it, make it small.
//!
//! Invariants: looking and checking write nothing; what is wrong is said in one line each, and the rest is looked
//! at all the same; making an image small leaves every sector as it reads.

use std::path::Path;

use skylight_drive::profile::Profile;
use skylight_layer::Idle;

use crate::error::ImageError;
use crate::format::VERSION;
use crate::image::{Image, Options, summed};
use crate::place::reach;
use crate::recovery::{Reader, look};
use crate::shingled::ShingledInfo;

/// An image in short.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Info {
    /// The version of its formats.
    pub format: u32,
    /// The name of its drive.
    pub drive: String,
    /// Bytes that the host sees.
    pub capacity_bytes: u64,
    /// Bytes that it takes where it lies.
    pub stored_bytes: u64,
    /// Bytes that it would take if nothing of it were holes.
    pub len_bytes: u64,
    /// Whether it was switched off in order.
    pub clean: bool,
    /// Checkpoints so far.
    pub generation: u32,
    /// Extents in the persistent cache.
    pub cached_extents: u64,
    /// Bytes in the persistent cache.
    pub cached_bytes: u64,
    /// Bands that lie elsewhere than on a new drive.
    pub moved_bands: u64,
    /// Tags behind the newest checkpoint.
    pub tags: u64,
    /// Of those, how many a power cut has left without their data.
    pub refused_tags: u64,
    /// Whether its data has checksums.
    pub checksums: bool,
    /// What a raw shingled disk has besides.
    pub shingled: Option<ShingledInfo>,
}

/// What a check found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The image in short, if it could be read.
    pub info: Option<Info>,
    /// What is wrong, one line each; empty if all is well.
    pub problems: Vec<String>,
}

/// Looks at an image.
///
/// # Errors
/// When it is in use, is none, or cannot be read.
pub fn info(path: &Path, options: &Options) -> Result<Info, ImageError> {
    examine(path, options).map(|(info, _)| info)
}

/// Checks an image: both superblocks, the newest checkpoint, every block of the log, and that no two sectors lie
/// at one place.
///
/// # Errors
/// When it is in use, is none, or cannot be read at all; what is damaged is in the report.
pub fn check(path: &Path, options: &Options) -> Result<Report, ImageError> {
    match examine(path, options) {
        Ok((info, problems)) => Ok(Report { info: Some(info), problems }),
        Err(error @ ImageError::Damaged { .. }) => {
            Ok(Report { info: None, problems: vec![error.to_string()] })
        }
        Err(error) => Err(error),
    }
}

/// What there is to say of an image, and what is wrong with it.
fn examine(path: &Path, options: &Options) -> Result<(Info, Vec<String>), ImageError> {
    let store = reach(path, options)?;
    let (superblock, both) = Reader(store.as_ref()).superblock()?;
    let store = summed(store, &superblock, options)?;
    let reader = Reader(store.as_ref());
    let profile = Profile::from_toml(&superblock.text, &store.name())?;
    let mut layer = skylight_drive::build::layer(&profile)?;
    let found = look(&reader, &superblock, layer.as_mut())?;
    let mut problems = Vec::new();
    if !both {
        let place = store.name();
        problems.push(format!(
            "{place}: one of its superblocks, at 0 and at 1 MiB, is damaged; the other is used"
        ));
    }
    if found.recovery.lost > 0 {
        let lost = found.recovery.lost;
        problems.push(
            reader.damaged(format!("{lost} tags of its log that were durable are not there")).to_string(),
        );
    }
    if let Some(misplaced) = found.misplaced {
        problems.push(reader.damaged(misplaced).to_string());
    }
    let failed = |source| ImageError::Io { place: store.name(), action: "look at it", source };
    let info = Info {
        format: VERSION,
        drive: profile.name.clone(),
        capacity_bytes: superblock.capacity,
        stored_bytes: store.stored_bytes().map_err(failed)?,
        len_bytes: store.len_bytes(),
        clean: found.recovery.clean,
        generation: found.generation,
        cached_extents: found.cached_extents,
        cached_bytes: layer.cache_use().live_sectors * skylight_disk::SECTOR_BYTES,
        moved_bands: found.moved_bands,
        tags: found.recovery.tags,
        refused_tags: found.recovery.refused,
        checksums: superblock.sums.len > 0,
        shingled: ShingledInfo::of(&profile, layer.as_mut()),
    };
    Ok((info, problems))
}

/// Makes an image small: cleans what the drive would clean when it is left alone, and gives back the room of what
/// nothing reads any more. Bytes that it took before and takes now.
///
/// # Errors
/// When it is in use, is none, or the system says no.
pub fn compact(path: &Path, options: &Options) -> Result<(u64, u64), ImageError> {
    let mut image = Image::open(path, options)?;
    let (before, _) = image.stored_bytes()?;
    while image.idle()? == Idle::Worked {}
    image.discard_dead()?;
    let (after, _) = image.stored_bytes()?;
    image.close()?;
    Ok((before, after))
}
