//! Creating and opening images.
//!
//! Invariants: an interrupted creation leaves no valid image, and is recognised as unfinished; anything but an image of the
//! drive is overwritten only on request; an image that was not closed is recovered when it is opened.

use std::path::Path;

use skylight_drive::profile::Profile;
use skylight_layer::{Layer, Plan};

use crate::checkpoints::write_part_heads;
use crate::cleaning_buffers::Held;
use crate::error::ImageError;
use crate::format::checkpoint::Head;
use crate::format::log_end::Mark;
use crate::format::superblock::{COPY, Superblock, TEXT};
use crate::format::{BLOCK, checksum, drawn};
use crate::image::Image;
use crate::image_files;
use crate::in_place_image;
use crate::options::Options;
use crate::recovery::{Accept, Judgement, Recovered, bad_superblock, check_room, mend_superblock, recover};
use crate::store::checksummed::SummedStore;
use crate::store::device::is_block_device;
use crate::store::{Access, Store};
use crate::store_errors::{AHEAD_BYTES, reserve_new};
use crate::structure_reader::Reader;

impl Image {
    /// Creates the image of a drive in a file, or on a block device, and opens it.
    ///
    /// # Errors
    /// When the drive cannot be built, when the file has content already, when a system call fails.
    pub fn create(path: &Path, profile: &Profile, options: &Options) -> Result<Self, ImageError> {
        Self::create_at(path, skylight_drive::build::layer(profile)?, profile.text(), options)
    }

    /// The same for a drive with this layer; `text` is its profile.
    ///
    /// # Errors
    /// As [`Image::create`].
    pub fn create_at(
        path: &Path,
        layer: Box<dyn Layer>,
        text: &str,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let mut superblock = superblock(layer.as_ref(), text, options);
        let before = image_files::existing(path, options.cache_on.as_deref());
        let mut store = image_files::make(path, &mut superblock, layer.media_use().gap, (options, &before))?;
        // While the store holds their locks: a half-made image would be in the way of everything but another try.
        Self::format(store.as_mut(), &superblock, layer.as_ref(), options)
            .inspect_err(|_| image_files::remove_new(path, options.cache_on.as_deref(), &before))?;
        Self::start(store, (superblock, None), layer, options, Accept::Nothing)
    }

    /// Opens the image of a drive, or creates it if there is none, or only an unfinished one in a file; returns whether it
    /// was created. With `overwrite` any content of a block device is overwritten, but of a file only what is not an image.
    ///
    /// # Errors
    /// As [`Image::open`] and [`Image::create`].
    pub fn open_or_create(
        path: &Path,
        profile: &Profile,
        options: &Options,
    ) -> Result<(Self, bool), ImageError> {
        let empty = || std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() == 0);
        if path.try_exists().is_ok_and(|there| !there) || empty() {
            return Ok((Self::create(path, profile, options)?, true));
        }
        let options = Options { profile: Some(profile.clone()), ..options.clone() };
        let error = match Self::open(path, &options) {
            Ok(image) => return Ok((image, false)),
            Err(error) => error,
        };
        let device = is_block_device(path);
        let replaced = match &error {
            // In a file, what was made of it is ours: on a device consent is for each time.
            ImageError::HalfMade(_) if !device => return Ok((Self::create(path, profile, &options)?, true)),
            ImageError::Foreign(_) | ImageError::HalfMade(_) => true,
            ImageError::OtherProfile { .. } | ImageError::Newer { .. } | ImageError::Damaged { .. } => device,
            _ => false,
        };
        match (replaced, options.overwrite) {
            (true, true) => Ok((Self::create(path, profile, &options)?, true)),
            (true, false) if device && matches!(error, ImageError::Foreign(_) | ImageError::HalfMade(_)) => {
                Err(ImageError::NoConsent(path.to_owned()))
            }
            _ => Err(error),
        }
    }

    /// Creates the image of a drive with this layer on a store, and opens it; `text` is its profile.
    ///
    /// # Errors
    /// When the store is too small or fails.
    pub fn create_on(
        mut store: Box<dyn Store>,
        layer: Box<dyn Layer>,
        text: &str,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let mut superblock = superblock(layer.as_ref(), text, options);
        image_files::note_parts(store.as_ref(), &mut superblock);
        Self::format(store.as_mut(), &superblock, layer.as_ref(), options)?;
        Self::start(store, (superblock, None), layer, options, Accept::Nothing)
    }

    /// Size of a store for the image of a drive with this layer, bytes.
    pub fn bytes_needed(layer: &dyn Layer, options: &Options) -> u64 {
        superblock(layer, "", options).len_bytes()
    }

    fn format(
        store: &mut dyn Store,
        superblock: &Superblock,
        layer: &dyn Layer,
        options: &Options,
    ) -> Result<(), ImageError> {
        Reader(store).check_size(superblock.len_bytes())?;
        let place = store.name();
        let failed = |source| ImageError::io(&place, "format it", source);
        // The superblocks last: what is cut short is no image, and known for what it is.
        image_files::erase(store, superblock.identity)?;
        if superblock.sums.len > 0 {
            // No checksum stands for zeros.
            let from = superblock.sums.start;
            store.discard(from, superblock.len_bytes() - from).map_err(failed)?;
        }
        let reserved = reserve_new(store, superblock, options.ahead.unwrap_or(AHEAD_BYTES));
        reserved.map_err(|source| ImageError::io(&place, "allocate its log", source))?;
        let salt = superblock.salt;
        let in_place = in_place_image::is_wanted(superblock, &layer.media_use(), options);
        let head = Head { entries_crc: checksum(salt, &[]), clean: true, in_place, ..Head::default() };
        for copy in [0, BLOCK as u64] {
            let at = superblock.checkpoints[0].start + copy;
            store.write_at(at, &head.encode(salt)).map_err(failed)?;
        }
        for slot in superblock.mark_slots().into_iter().flatten() {
            store.write_at(slot, &Mark::default().encode(salt)).map_err(failed)?;
        }
        write_part_heads(store, superblock.identity, head.generation, true).map_err(failed)?;
        let mut text = superblock.text.clone().into_bytes();
        text.resize(text.len().next_multiple_of(BLOCK), 0);
        for at in [0, COPY] {
            store.write_at(at + TEXT, &text).map_err(failed)?;
        }
        store.sync().map_err(failed)?;
        // The first one in place of the mark that the image is half made: where it is, all else is too.
        for at in [COPY, 0] {
            store.write_at(at, &superblock.encode()).map_err(failed)?;
            store.sync().map_err(failed)?;
        }
        Ok(())
    }

    /// Opens, locks and recovers an image.
    ///
    /// # Errors
    /// When another process has locked it; when it is not an image, has a later version, is damaged, or belongs to another
    /// drive; when a system call fails.
    pub fn open(path: &Path, options: &Options) -> Result<Self, ImageError> {
        Self::open_judged(path, options, Accept::Nothing)
    }

    /// The same; with permission also for an image that lost durable changes, as far as it is readable.
    pub(crate) fn open_judged(path: &Path, options: &Options, accept: Accept) -> Result<Self, ImageError> {
        let store = image_files::reach(path, options, Access::Use)?;
        let found = Reader(store.as_ref()).superblock()?;
        let place = store.name();
        let profile = Profile::from_toml(&found.0.text, &place)?;
        if let Some(asked) = options.profile.as_ref().filter(|asked| asked.to_json() != profile.to_json()) {
            let (found, asked) = (profile.name.clone(), asked.name.clone());
            return Err(ImageError::OtherProfile { place, found, asked });
        }
        let layer = skylight_drive::build::layer(&profile)?;
        Self::start(store, found, layer, options, accept)
    }

    /// Opens and recovers an image for a drive with this layer, regardless of its profile.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_at(path: &Path, layer: Box<dyn Layer>, options: &Options) -> Result<Self, ImageError> {
        Self::open_on(image_files::reach(path, options, Access::Use)?, layer, options)
    }

    /// Opens and recovers an image on a store, for a drive with this layer.
    ///
    /// # Errors
    /// As [`Image::open`].
    pub fn open_on(
        store: Box<dyn Store>,
        layer: Box<dyn Layer>,
        options: &Options,
    ) -> Result<Self, ImageError> {
        let found = Reader(store.as_ref()).superblock()?;
        Self::start(store, found, layer, options, Accept::Nothing)
    }

    /// Recovers the image on a store; `bad` is the offset of a damaged copy of the superblock.
    fn start(
        store: Box<dyn Store>,
        (superblock, bad): (Superblock, Option<u64>),
        mut layer: Box<dyn Layer>,
        options: &Options,
        accept: Accept,
    ) -> Result<Self, ImageError> {
        check_room(store.name(), &superblock, layer.capacity(), &layer.media_use())?;
        let store = summed(store, &superblock, options)?;
        let capacity = superblock.capacity;
        let judgement = Judgement { accept, plants: options.plants };
        let Recovered { mut interpreter, recovery, mut mended } =
            recover(store, superblock, layer.as_mut(), (judgement, options))?;
        if let Some(bad) = bad {
            mend_superblock(interpreter.store.as_mut(), &interpreter.superblock, bad)?;
            mended.push(bad_superblock(bad));
        }
        interpreter.held = options.every_access.then(Held::default);
        interpreter.checkpoint.piece = options.piece.unwrap_or(interpreter.checkpoint.piece);
        interpreter.record_first(!options.write_cache);
        Ok(Self {
            overwrites: layer.overwriting().is_some(),
            zoned: layer.zoned().is_some(),
            layer,
            interpreter,
            capacity,
            write_cache: options.write_cache,
            recovery,
            mended,
            plan: Plan::default(),
            waiting: Vec::new(),
        })
    }
}

/// The superblock of a new image.
fn superblock(layer: &dyn Layer, text: &str, options: &Options) -> Superblock {
    let salt = drawn() as u32;
    let (capacity, room) = (layer.capacity().bytes(), layer.media_use());
    let mut superblock = match options.log_bytes {
        Some(bytes) => Superblock::with_log(salt, capacity, &room, text, bytes),
        None => Superblock::new(salt, capacity, &room, text),
    };
    superblock.identity = u128::from(drawn()) << 64 | u128::from(drawn());
    if options.checksums {
        superblock.add_sums();
    }
    superblock
}

/// The store of an image, with its checksums if it has them.
pub(crate) fn summed(
    store: Box<dyn Store>,
    superblock: &Superblock,
    options: &Options,
) -> Result<Box<dyn Store>, ImageError> {
    if superblock.sums.len == 0 {
        return Ok(store);
    }
    let place = store.name();
    let over = SummedStore::new(store, superblock, &options.sums);
    Ok(Box::new(over.map_err(|source| ImageError::io(place, "read its checksums", source))?))
}
