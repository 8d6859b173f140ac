//! Where an image lies: a file or a block device, and for its flash another one if that was asked for.
//!
//! Invariants: everything that may refuse is asked before anything is written; a block device is written to only
//! if it holds the image that was asked for, or its data was given up in so many words, and never while anybody
//! else uses it; of two places each knows that it belongs to the other.

use std::path::Path;

use skylight_disk::PbaExtent;
use skylight_host::Refusal;

use crate::error::ImageError;
use crate::format::BLOCK;
use crate::format::flash::{FlashHead, START};
use crate::format::superblock::{COPY, Part as Extent, Superblock};
use crate::image::Options;
use crate::recovery::Reader;
use crate::store::Store;
use crate::store::device::{DeviceStore, is_block_device};
use crate::store::file::FileStore;
use crate::store::fold::FoldedStore;
use crate::store::parts::{Part, PartsStore};

/// Somewhere that a store may be made, with nothing written to it yet.
enum Ground<'a> {
    File(&'a Path, u64),
    Device(DeviceStore),
}

impl<'a> Ground<'a> {
    fn take(path: &'a Path, needed_bytes: u64, options: &Options) -> Result<Self, ImageError> {
        if !is_block_device(path) {
            FileStore::check_free(path, options.overwrite)?;
            return Ok(Self::File(path, needed_bytes));
        }
        let store = DeviceStore::open(path)?;
        if !options.overwrite {
            return Err(ImageError::NoConsent(path.to_owned()));
        }
        let name = store.name();
        let signature = store.signature().map_err(|source| io(&name, "look at it", source))?;
        if let Some(what) = signature {
            let mend = "if nothing on it is needed, remove it with wipefs -a and try again";
            return Err(Refusal::Signature { path: name, what, mend }.into());
        }
        check_size(&store, needed_bytes)?;
        Ok(Self::Device(store))
    }

    fn make(self, overwrite: bool) -> Result<Box<dyn Store>, ImageError> {
        Ok(match self {
            Self::File(path, len) => Box::new(FileStore::create(path, len, overwrite)?),
            Self::Device(store) => Box::new(store),
        })
    }
}

fn io(place: &str, action: &'static str, source: std::io::Error) -> ImageError {
    ImageError::Io { place: place.to_owned(), action, source }
}

fn check_size(store: &dyn Store, needed_bytes: u64) -> Result<(), ImageError> {
    let (place, found_bytes) = (store.name(), store.len_bytes());
    if found_bytes < needed_bytes {
        return Err(ImageError::TooSmall { place, found_bytes, needed_bytes });
    }
    Ok(())
}

/// Makes where an image is to lie; what is left of an older image there is none any more. A file has holes; a
/// device leaves out `gap`, where nothing of the drive lies.
pub(crate) fn make(
    path: &Path,
    superblock: &mut Superblock,
    gap: PbaExtent,
    options: &Options,
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
        return Ok(folded(store.make(options.overwrite)?, left_out));
    };
    if superblock.flash.len == 0 {
        return Err(ImageError::NoFlash(apart.clone()));
    }
    superblock.flash_apart = true;
    let (main, flash) = (superblock.platter.end(), superblock.flash.len);
    let main = Ground::take(path, main - left_out.len, options)?;
    let apart = Ground::take(apart, START + flash, options)?;
    let mut main = folded(main.make(options.overwrite)?, left_out);
    let mut apart = apart.make(options.overwrite)?;
    erase(main.as_mut())?;
    let head = FlashHead { salt: superblock.salt, len: flash };
    let place = apart.name();
    let written = apart.write_at(0, &head.encode()).and_then(|()| apart.sync());
    written.map_err(|source| io(&place, "format it", source))?;
    Ok(join(main, apart, superblock))
}

/// Makes an image that may be there none.
pub(crate) fn erase(store: &mut dyn Store) -> Result<(), ImageError> {
    let mut erase = || {
        store.write_at(0, &[0; BLOCK])?;
        store.write_at(COPY, &[0; BLOCK])?;
        store.sync()
    };
    erase().map_err(|source| io(&store.name(), "format it", source))
}

/// Opens the file or device of an image, and the one of its flash.
pub(crate) fn reach(path: &Path, options: &Options) -> Result<Box<dyn Store>, ImageError> {
    let main = reach_one(path)?;
    let (found, _) = Reader(main.as_ref()).superblock_of_parts()?;
    let apart = match &options.cache_on {
        None if found.flash_apart => return Err(ImageError::FlashApart(main.name())),
        Some(_) if !found.flash_apart => return Err(ImageError::FlashWithin(main.name())),
        None => return Ok(folded(main, found.gap)),
        Some(apart) => reach_one(apart)?,
    };
    let main = folded(main, found.gap);
    check_size(main.as_ref(), found.platter.end())?;
    let mut block = [0; BLOCK];
    let read = if apart.len_bytes() < START { Ok(()) } else { apart.read_at(0, &mut block) };
    read.map_err(|source| io(&apart.name(), "read", source))?;
    let head = FlashHead { salt: found.salt, len: found.flash.len };
    if FlashHead::decode(&block) != Some(head) {
        return Err(ImageError::OtherFlash { place: apart.name(), image: main.name() });
    }
    check_size(apart.as_ref(), START + found.flash.len)?;
    Ok(join(main, apart, &found))
}

fn folded(store: Box<dyn Store>, gap: Extent) -> Box<dyn Store> {
    if gap.len == 0 { store } else { Box::new(FoldedStore::new(store, gap)) }
}

fn reach_one(path: &Path) -> Result<Box<dyn Store>, ImageError> {
    Ok(if is_block_device(path) {
        Box::new(DeviceStore::open(path)?)
    } else {
        Box::new(FileStore::open(path)?)
    })
}

fn join(main: Box<dyn Store>, apart: Box<dyn Store>, superblock: &Superblock) -> Box<dyn Store> {
    let main = Part { from: 0, len: superblock.platter.end(), store: main };
    let apart = Part { from: START, len: superblock.flash.len, store: apart };
    Box::new(PartsStore::new(vec![main, apart]))
}
