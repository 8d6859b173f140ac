//! Where an image lies: a file or a block device, and for its flash another one if that was asked for.
//!
//! Invariants: everything that may refuse is asked before anything is written; a block device is written to only
//! if it holds the image that was asked for, or its data was given up in so many words, and never while anybody
//! else uses it; of two places each knows that it belongs to the other.

use std::path::{Path, PathBuf};

use skylight_disk::PbaExtent;
use skylight_host::RefusalReason;

use crate::error::ImageError;
use crate::format::BLOCK;
use crate::format::creation_mark::Begun;
use crate::format::part_head::{HEAD_BYTES, PartHead, START};
use crate::format::part_head_v1;
use crate::format::superblock::{COPY, Part as Extent, Superblock};
use crate::options::Options;
use crate::store::concatenated::{Part, PartsStore};
use crate::store::device::{DeviceStore, is_block_device};
use crate::store::file::{FileStore, PART_BYTES, begun_in, is_part_of};
use crate::store::{Access, Store};
use crate::structure_reader::Reader;

/// The first version whose parts have heads with the number of the image.
const HEADS_SINCE: u32 = 2;

/// Somewhere that a store may be made, with nothing written to it yet.
enum Ground<'a> {
    /// A file, bytes, and whether what is in it may go.
    File(&'a Path, u64, bool),
    Device(DeviceStore),
}

impl<'a> Ground<'a> {
    fn take(path: &'a Path, needed_bytes: u64, options: &Options) -> Result<Self, ImageError> {
        if !is_block_device(path) {
            FileStore::check_free(path, options.overwrite)?;
            return Ok(Self::File(path, needed_bytes, options.overwrite));
        }
        let store = DeviceStore::open(path, Access::Use)?;
        if !options.overwrite {
            return Err(ImageError::NoConsent(path.to_owned()));
        }
        let name = store.name();
        let signature = store.signature().map_err(|source| ImageError::io(&name, "look at it", source))?;
        if let Some(what) = signature {
            let mend = "if nothing on it is needed, remove it with wipefs -a and try again";
            return Err(RefusalReason::Signature { what, mend }.of(&name).into());
        }
        Reader(&store).check_size(needed_bytes)?;
        Ok(Self::Device(store))
    }

    fn make(self, part_bytes: Option<u64>) -> Result<Box<dyn Store>, ImageError> {
        Ok(match self {
            Self::File(path, len, overwrite) => {
                Box::new(FileStore::create_in_parts(path, len, overwrite, part_bytes)?)
            }
            Self::Device(store) => Box::new(store),
        })
    }
}

/// Makes where an image is to lie; what is left of an older image there is none any more. A file has holes; a
/// device leaves out `gap`, where nothing of the drive lies. Of one that fails no file is left that was not there `before`.
pub(crate) fn make(
    path: &Path,
    superblock: &mut Superblock,
    gap: PbaExtent,
    (options, before): (&Options, &[PathBuf]),
) -> Result<Box<dyn Store>, ImageError> {
    if is_block_device(path) {
        superblock.leave_out(gap);
    }
    let left_out = superblock.gap;
    let devices = [Some(path), options.cache_on.as_deref()];
    let device = devices.into_iter().flatten().find(|place| is_block_device(place));
    if let Some(device) = device.filter(|_| superblock.sums.len > 0) {
        return Err(ImageError::ChecksumsOnDevice(device.to_owned()));
    }
    let Some(apart) = &options.cache_on else {
        let store = Ground::take(path, superblock.len_bytes() - left_out.len, options)?;
        let store = store.make(options.part_bytes)?;
        note_parts(store.as_ref(), superblock);
        return Ok(folded(store, left_out));
    };
    if superblock.flash.len == 0 {
        return Err(ImageError::NoFlash(apart.clone()));
    }
    superblock.flash_apart = true;
    let (main, flash) = (superblock.platter.end(), superblock.flash.len);
    let main = Ground::take(path, main - left_out.len, options)?;
    let ours = half_made_with(path, apart);
    let apart = Ground::take(
        apart,
        START + flash,
        &Options { overwrite: options.overwrite || ours, ..options.clone() },
    )?;
    let main = main.make(options.part_bytes)?;
    note_parts(main.as_ref(), superblock);
    // While the store holds its lock. The flash removes what it made itself.
    let apart = apart.make(options.part_bytes).inspect_err(|_| remove_new(path, None, before))?;
    Ok(join(folded(main, left_out), apart, superblock))
}

/// The files that exist where an image has, or would have, its own.
pub(crate) fn existing(path: &Path, apart: Option<&Path>) -> Vec<PathBuf> {
    let places = [Some(path), apart];
    let files = places.into_iter().flatten().filter(|place| !is_block_device(place));
    files.flat_map(FileStore::existing).collect()
}

/// Removes the files of an image that cannot be finished, but none that was there `before`.
pub(crate) fn remove_new(path: &Path, apart: Option<&Path>, before: &[PathBuf]) {
    for file in existing(path, apart).iter().filter(|file| !before.contains(file)) {
        // The error to report is the one that the image was not finished for.
        let _ = std::fs::remove_file(file);
    }
}

/// Puts into the superblock how long the first file is, if the image goes on in others.
pub(crate) fn note_parts(store: &dyn Store, superblock: &mut Superblock) {
    if let [first, _, ..] = store.parts().as_slice() {
        superblock.first_file_bytes = first.len;
    }
}

/// Whether a file has the flash of the image that is half made in another: written just before that was interrupted.
fn half_made_with(main: &Path, apart: &Path) -> bool {
    let begun = std::fs::File::open(main).ok().and_then(|file| begun_in(&file));
    !is_block_device(apart) && begun.is_some_and(|begun| is_part_of(apart, &begun))
}

/// Makes an image that may be there none, but the mark of one that is begun.
pub(crate) fn erase(store: &mut dyn Store, identity: u128) -> Result<(), ImageError> {
    let mut erase = || {
        store.write_at(0, &Begun { identity }.encode())?;
        store.write_at(COPY, &[0; BLOCK])?;
        store.sync()
    };
    erase().map_err(|source| ImageError::io(store.name(), "format it", source))
}

/// Opens the files or devices of an image, and those of its flash.
pub(crate) fn reach(path: &Path, options: &Options, access: Access) -> Result<Box<dyn Store>, ImageError> {
    let main = Reached::open(path, access)?;
    let (found, _) = Reader(main.store()).superblock_of_parts()?;
    let (platters, all) = (found.platter.end(), found.len_bytes());
    let main = main.with_parts(&found, if found.flash_apart { platters } else { all })?;
    let apart = match &options.cache_on {
        None if found.flash_apart => return Err(ImageError::FlashApart(main.name())),
        Some(_) if !found.flash_apart => return Err(ImageError::FlashWithin(main.name())),
        None => return Ok(folded(main, found.gap)),
        Some(apart) => Reached::open(apart, access)?,
    };
    let parts = main.parts().len();
    let main = folded(main, found.gap);
    Reader(main.as_ref()).check_size(platters)?;
    let apart = flash_apart(apart, &found, parts, main.as_ref())?;
    Reader(apart.as_ref()).check_size(START + found.flash.len)?;
    Ok(join(main, apart, &found))
}

/// A flash that lies apart, with the parts that it goes on in; it must be that of the image, and part `number` of it.
fn flash_apart(
    apart: Reached,
    superblock: &Superblock,
    number: usize,
    main: &dyn Store,
) -> Result<Box<dyn Store>, ImageError> {
    let store = apart.store();
    let other = || ImageError::OtherFlash { place: store.name(), image: main.name() };
    let mut head = [0; HEAD_BYTES];
    let read = if store.len_bytes() < START { Ok(()) } else { store.read_at(0, &mut head) };
    read.map_err(|source| ImageError::io(store.name(), "read", source))?;
    if superblock.version < HEADS_SINCE {
        let mut block = [0; BLOCK];
        block.copy_from_slice(&head[..BLOCK]);
        let known = part_head_v1::is_head(&block, superblock.salt, superblock.flash.len);
        return if known { Ok(apart.into_store()) } else { Err(other()) };
    }
    let ours =
        |head: &PartHead| head.identity == superblock.identity && u64::from(head.number) == number as u64;
    let head = PartHead::decode(&head).filter(ours).ok_or_else(other)?;
    match apart {
        Reached::File(file) if head.len < superblock.flash.len => {
            let first = START.saturating_add(head.len);
            Ok(Box::new(file.with_parts(first, START, START + superblock.flash.len)?))
        }
        other => Ok(other.into_store()),
    }
}

fn folded(store: Box<dyn Store>, gap: Extent) -> Box<dyn Store> {
    if gap.len == 0 { store } else { Box::new(PartsStore::with_gap(store, gap)) }
}

/// A file or device that was opened.
enum Reached {
    File(FileStore),
    Device(DeviceStore),
}

impl Reached {
    fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        Ok(if is_block_device(path) {
            Self::Device(DeviceStore::open(path, access)?)
        } else {
            Self::File(FileStore::open(path, access)?)
        })
    }

    fn store(&self) -> &dyn Store {
        match self {
            Self::File(store) => store,
            Self::Device(store) => store,
        }
    }

    fn into_store(self) -> Box<dyn Store> {
        match self {
            Self::File(store) => Box::new(store),
            Self::Device(store) => Box::new(store),
        }
    }

    /// With the parts that an image of `len` bytes goes on in.
    fn with_parts(self, superblock: &Superblock, len: u64) -> Result<Box<dyn Store>, ImageError> {
        let Self::File(file) = self else { return Ok(self.into_store()) };
        let (first, head) = match superblock.version {
            // Parts had no heads, and one length.
            ..HEADS_SINCE if file.len_bytes() == PART_BYTES && len > PART_BYTES => (PART_BYTES, 0),
            ..HEADS_SINCE => (0, 0),
            _ => (superblock.first_file_bytes, START),
        };
        Ok(if first == 0 { Box::new(file) } else { Box::new(file.with_parts(first, head, len)?) })
    }
}

fn join(main: Box<dyn Store>, apart: Box<dyn Store>, superblock: &Superblock) -> Box<dyn Store> {
    let headed = superblock.version >= HEADS_SINCE;
    let main = Part { from: 0, len: superblock.platter.end(), store: main, headed: false };
    let apart = Part { from: START, len: superblock.flash.len, store: apart, headed };
    Box::new(PartsStore::new(vec![main, apart]))
}
