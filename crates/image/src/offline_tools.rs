//! Maintenance of an image that is not in use: describe, check, repair, compact.
//!
//! Invariants: describing and checking write nothing, and open nothing for writing; each problem is one line, and does
//! not keep the rest from being checked; a repair loses data only with permission, and keeps a copy of all structures that
//! it may change; compacting does not change what any sector reads as.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;
use skylight_drive::profile::Profile;
use skylight_layer::Idle;

use crate::creation::summed;
use crate::error::ImageError;
use crate::format::part_head::HEAD_BYTES;
use crate::format::superblock::Superblock;
use crate::image::Image;
use crate::image_files::reach;
use crate::options::Options;
use crate::overwrite_records::ShingledInfo;
use crate::recovery::{Accept, bad_superblock, look};
use crate::store::device::is_block_device;
use crate::store::{Access, Store};
use crate::structure_reader::Reader;

/// Bytes that are copied per read.
const COPY_BYTES: usize = 1 << 20;
/// Mode of a file that only its owner can read: the text of a profile and host addresses are private.
const PRIVATE: u32 = 0o600;

/// The description of an image.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Info {
    /// Version of its format.
    pub format: u32,
    /// The name of its drive.
    pub drive: String,
    /// Capacity, bytes.
    pub capacity_bytes: u64,
    /// Bytes allocated for it.
    pub stored_bytes: u64,
    /// Its length in bytes, holes included.
    pub len_bytes: u64,
    /// Whether it was closed cleanly.
    pub clean: bool,
    /// Checkpoints so far.
    pub generation: u32,
    /// Extents in the persistent cache.
    pub cached_extents: u64,
    /// Bytes in the persistent cache.
    pub cached_bytes: u64,
    /// Bands that are remapped, compared with a new drive.
    pub moved_bands: u64,
    /// Tags since the newest checkpoint.
    pub tags: u64,
    /// Of those, the ones refused because a power cut lost their data.
    pub refused_tags: u64,
    /// Whether its data has checksums.
    pub checksums: bool,
    /// The tracks of a drive whose sectors can be overwritten.
    pub shingled: Option<ShingledInfo>,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// The description of the image, if it could be read.
    pub info: Option<Info>,
    /// A line per problem.
    pub problems: Vec<String>,
}

/// Describes an image.
///
/// # Errors
/// When it is in use, is not an image, or cannot be read.
pub fn info(path: &Path, options: &Options) -> Result<Info, ImageError> {
    examine(path, options).map(|(info, _)| info)
}

/// Checks an image: both superblocks, the newest checkpoint, every block of the log, and that no two sectors are
/// mapped to the same address.
///
/// # Errors
/// When it is in use, is not an image, or cannot be read at all; damage is in the report.
pub fn check(path: &Path, options: &Options) -> Result<Report, ImageError> {
    match examine(path, options) {
        Ok((info, problems)) => Ok(Report { info: Some(info), problems }),
        Err(error @ (ImageError::Damaged { .. } | ImageError::WrongPart { .. })) => {
            Ok(Report { info: None, problems: vec![error.to_string()] })
        }
        Err(error) => Err(error),
    }
}

/// Describes an image and its problems.
fn examine(path: &Path, options: &Options) -> Result<(Info, Vec<String>), ImageError> {
    let store = reach(path, options, Access::Look)?;
    let (superblock, bad) = Reader(store.as_ref()).superblock()?;
    let store = summed(store, &superblock, options)?;
    let reader = Reader(store.as_ref());
    let profile = Profile::from_toml(&superblock.text, &store.name())?;
    let mut layer = skylight_drive::build::layer(&profile)?;
    let found = look(&reader, &superblock, layer.as_mut())?;
    let place = store.name();
    let copies = bad.map(bad_superblock).into_iter().chain(found.mended);
    let mendable =
        |what| format!("{place}: {what}; what is whole serves, and the next use of the image mends it");
    let mut problems: Vec<String> = copies.map(mendable).collect();
    problems.extend(found.faults.iter().map(|fault| reader.faulty(fault).to_string()));
    let failed = |source| ImageError::io(store.name(), "look at it", source);
    let info = Info {
        format: superblock.version,
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

/// What a repair did, in lines.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Repair {
    /// Damage that was repaired.
    pub mended: Vec<String>,
    /// Losses.
    pub lost: Vec<String>,
    /// The file with a copy of the original structures, if anything was lost.
    pub kept: Option<PathBuf>,
}

/// Repairs an image: without `accept_loss` only redundant structures with one intact copy; with it, the changes of missing
/// durable tags are given up, and the image continues from the rest.
///
/// # Errors
/// When it is in use, is not an image, cannot be repaired, or a system call fails; when something was lost and that is
/// not accepted.
pub fn repair(path: &Path, options: &Options, accept_loss: bool) -> Result<Repair, ImageError> {
    let mut repair = Repair::default();
    if accept_loss {
        (repair.lost, repair.kept) = keep_if_lost(path, options)?;
    }
    let image = match repair.kept {
        None => Image::open(path, options)?,
        // Tags behind a lost one may contradict what it would have changed.
        Some(_) => match Image::open_judged(path, options, Accept::Lost) {
            Err(ImageError::Damaged { .. }) => Image::open_judged(path, options, Accept::AllSince)?,
            other => other?,
        },
    };
    repair.mended = image.mended().to_vec();
    image.close()?;
    Ok(repair)
}

/// Keeps a copy of the structures of an image with losses; returns the losses and the file.
fn keep_if_lost(path: &Path, options: &Options) -> Result<(Vec<String>, Option<PathBuf>), ImageError> {
    let store = reach(path, options, Access::Look)?;
    let reader = Reader(store.as_ref());
    let (superblock, _) = reader.superblock()?;
    let profile = Profile::from_toml(&superblock.text, &store.name())?;
    let mut layer = skylight_drive::build::layer(&profile)?;
    let found = look(&reader, &superblock, layer.as_mut())?;
    if found.faults.is_empty() {
        return Ok((Vec::new(), None));
    }
    let kept = keep(path, store.as_ref(), &superblock)?;
    let mut lost = found.faults;
    lost.push(format!(
        "what was written since checkpoint {} may read as older data: which sectors that are is not known",
        found.generation
    ));
    Ok((lost, Some(kept)))
}

/// Copies everything except the data of an image into a new file beside it: the bytes before the platters, then the head
/// of each part. Holes stay holes.
fn keep(path: &Path, store: &dyn Store, superblock: &Superblock) -> Result<PathBuf, ImageError> {
    let (kept, file) = new_beside(path)?;
    let failed = |source| ImageError::io(kept.display(), "keep a copy in it", source);
    let end = superblock.platter.start;
    let mut buffer = vec![0; COPY_BYTES];
    let mut at = 0;
    while at < end {
        let (data, len) = store.is_data(at, end - at).map_err(failed)?;
        if !data {
            at += len;
            continue;
        }
        let here = &mut buffer[..len.min(COPY_BYTES as u64) as usize];
        store.read_at(at, here).and_then(|()| file.write_all_at(here, at)).map_err(failed)?;
        at += here.len() as u64;
    }
    let mut len = end;
    for (number, _) in store.parts().iter().enumerate().filter(|(_, part)| part.headed) {
        let mut head = [0; HEAD_BYTES];
        let read = store.read_head(number, &mut head);
        read.and_then(|()| file.write_all_at(&head, len)).map_err(failed)?;
        len += HEAD_BYTES as u64;
    }
    file.set_len(len).and_then(|()| file.sync_all()).map_err(failed)?;
    Ok(kept)
}

/// Creates a file `NAME.damaged-N` beside an image; in the current directory, if the image is a device.
fn new_beside(path: &Path) -> Result<(PathBuf, File), ImageError> {
    let base = if is_block_device(path) { Path::new(path.file_name().unwrap_or_default()) } else { path };
    let mut number = 1;
    loop {
        let mut name = OsString::from(base.as_os_str());
        name.push(format!(".damaged-{number}"));
        let made = File::options().write(true).create_new(true).mode(PRIVATE).open(&name);
        match made {
            Ok(file) => return Ok((name.into(), file)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
            Err(source) => return Err(ImageError::io(name.display(), "create it", source)),
        }
    }
}

/// Compacts an image: cleans what the drive would clean when idle, and discards data that can no longer be read. Returns
/// the allocated bytes before and after.
///
/// # Errors
/// When it is in use, is not an image, or a system call fails.
pub fn compact(path: &Path, options: &Options) -> Result<(u64, u64), ImageError> {
    let mut image = Image::open(path, options)?;
    let (before, _) = image.stored_bytes()?;
    while image.idle()? == Idle::Worked {}
    image.discard_dead()?;
    let (after, _) = image.stored_bytes()?;
    image.close()?;
    Ok((before, after))
}
