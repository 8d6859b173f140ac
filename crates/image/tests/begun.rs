//! Images whose making was interrupted: made again by the next try, and nobody else's file with them.

#[path = "common/packaged.rs"]
mod packaged;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;

use packaged::profile;
use skylight_image::store::file::FileStore;
use skylight_image::{Image, ImageError, Options, Store};

/// A file whose writes and syncs succeed so many times.
struct Interrupted {
    file: FileStore,
    left: u64,
}

impl Interrupted {
    fn step(&mut self) -> io::Result<()> {
        self.left = self.left.checked_sub(1).ok_or_else(|| io::Error::other("interrupted"))?;
        Ok(())
    }
}

impl Store for Interrupted {
    fn name(&self) -> String {
        self.file.name()
    }

    fn len_bytes(&self) -> u64 {
        self.file.len_bytes()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.file.read_at(offset, buffer)
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.step()?;
        self.file.write_at(offset, data)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.step()?;
        self.file.sync()
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.file.discard(offset, len)
    }

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        self.step()?;
        self.file.reserve(offset, len)
    }
}

#[test]
fn an_image_whose_making_ends_after_any_step_is_made_again() {
    let (drive, options) = (profile("st5000as0011"), Options::default());
    let folder = tempfile::tempdir().expect("a folder");
    let (mut half_made, mut steps) = (0, 0);
    loop {
        let path = folder.path().join(format!("drive{steps}.img"));
        let layer = skylight_drive::build::layer(&drive).expect("a layer");
        let bytes = Image::bytes_needed(layer.as_ref(), &options) + (1 << 20);
        let file = FileStore::create(&path, bytes, false).expect("a file");
        let made =
            Image::create_on(Box::new(Interrupted { file, left: steps }), layer, drive.text(), &options);
        let done = made.is_ok();
        drop(made);
        let opened = Image::open(&path, &options).map(drop);
        let whole = opened.is_ok();
        if let Err(error) = opened {
            assert!(matches!(error, ImageError::HalfMade(_)), "after {steps} steps: {error}");
            half_made += 1;
        }
        let (mut image, new) = Image::open_or_create(&path, &drive, &options).expect("an image");
        assert_eq!(new, !whole, "after {steps} steps");
        image.write(0, &[7; 4096], true).expect("a write");
        drop(image);
        let (mut image, new) = Image::open_or_create(&path, &drive, &options).expect("the image");
        let mut data = [0; 4096];
        image.read(0, &mut data).expect("a read");
        assert!(!new && data == [7; 4096], "an image that was served is never made again");
        if done {
            break;
        }
        steps += 1;
    }
    assert!(half_made >= 10 && steps > half_made, "{half_made} {steps}");
}

#[test]
fn a_file_that_was_only_begun_is_made_again_and_a_foreign_one_is_not() {
    let (drive, options) = (profile("emulated-smr-1"), Options::default());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("drive.img");
    File::create(&path).expect("an empty file");
    assert!(Image::open_or_create(&path, &drive, &options).expect("nothing was in it").1);
    let foreign: [&[u8]; 3] = [b"mine", &[0; 8192], &[7; 2 << 20]];
    for bytes in foreign {
        fs::write(&path, bytes).expect("a file");
        let error = Image::open_or_create(&path, &drive, &options).map(drop).expect_err("somebody's");
        assert!(matches!(error, ImageError::Foreign(_)), "{error}");
        assert!(Image::create(&path, &drive, &options).is_err());
        assert_eq!(fs::read(&path).expect("the file"), bytes);
    }
    fs::remove_file(&path).expect("the file");
    drop(FileStore::create(&path, 1 << 20, false).expect("a file that is begun"));
    let file = File::options().write(true).open(&path).expect("the file");
    file.set_len(512).expect("as it was before it became long");
    let error = Image::open(&path, &options).map(drop).expect_err("half made").to_string();
    assert!(error.contains("is half made") && error.contains("make it anew"), "{error}");
    assert!(Image::open_or_create(&path, &drive, &options).expect("ours").1);
}

/// The flash lies in a file of its own: both are half made, or one already has its head.
#[test]
fn a_flash_apart_that_was_begun_with_its_image_is_made_again() {
    let drive = profile("emulated-smr-2");
    let folder = tempfile::tempdir().expect("a folder");
    let [path, flash] = ["drive.img", "flash.img"].map(|name| folder.path().join(name));
    let options = Options { cache_on: Some(flash.clone()), ..Options::default() };
    let made = || Image::open_or_create(&path, &drive, &options).map(|(_, new)| new);
    match made() {
        Err(ImageError::NoFlash(_)) => panic!("emulated-smr-2 has a flash"),
        other => assert!(other.expect("an image")),
    }
    assert!(!made().expect("the image"));
    // As it was before the superblock came: the mark of a begun image, with its number.
    let mut superblock = [0; 512];
    let file = File::options().read(true).write(true).open(&path).expect("the file");
    file.read_exact_at(&mut superblock, 0).expect("the superblock");
    let identity = u128::from_le_bytes(superblock[176..192].try_into().expect("16 bytes"));
    let begun = |identity| skylight_image::format::creation_mark::Begun { identity }.encode();
    file.write_all_at(&begun(identity), 0).expect("a change");
    assert!(made().expect("both are ours"));
    file.write_all_at(&begun(identity.wrapping_add(1)), 0).expect("a change");
    let error = made().expect_err("the flash of another image");
    assert!(matches!(&error, ImageError::NotEmpty(found) if *found == flash), "{error}");
}

#[test]
fn a_new_image_is_its_owners_alone_and_an_old_file_keeps_its_mode() {
    let drive = profile("emulated-smr-2");
    let folder = tempfile::tempdir().expect("a folder");
    let [path, flash, old] = ["drive.img", "flash.img", "old.img"].map(|name| folder.path().join(name));
    let mode = |path: &Path| fs::metadata(path).expect("a file").permissions().mode() & 0o777;
    let options = Options { cache_on: Some(flash.clone()), ..Options::default() };
    drop(Image::create(&path, &drive, &options).expect("an image"));
    assert_eq!([mode(&path), mode(&flash)], [0o600; 2]);
    File::create(&old).expect("a file");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).expect("its mode");
    drop(Image::create(&old, &drive, &Options::default()).expect("an image"));
    assert_eq!(mode(&old), 0o640, "somebody chose that");
}

#[test]
fn a_link_to_nothing_is_not_followed() {
    let folder = tempfile::tempdir().expect("a folder");
    let [path, target] = ["drive.img", "target"].map(|name| folder.path().join(name));
    symlink(&target, &path).expect("a link");
    let refused = Image::open_or_create(&path, &profile("emulated-smr-1"), &Options::default());
    assert!(refused.is_err() && !target.exists());
}
