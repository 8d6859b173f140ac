//! A sparse file as a store, locked for as long as it is open.
//!
//! Where the file system allows no file of the length asked (ext4: 16 TiB), the image goes on in parts beside it:
//! `NAME`, `NAME.1`, `NAME.2`, each as long as the first.
//!
//! Invariant: a file whose length is not that of a part has none beside it; parts of an older image go when a new
//! one is made in its place.

use std::ffi::OsString;
use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, SeekFrom};
use rustix::io::ReadWriteFlags;

use super::{Reads, Store, check_range, check_within, write_zeros};
use crate::error::ImageError;

/// A part where one file is not enough: half of what ext4 allows.
const PART_BYTES: u64 = 8 << 40;
/// The most parts that are looked for.
const PARTS_MAX: u64 = 1024;

/// See the module page.
pub struct FileStore {
    path: PathBuf,
    files: Arc<Files>,
}

/// The open files of a store.
struct Files {
    files: Vec<File>,
    /// Bytes of each file but the last.
    part: u64,
    len: u64,
}

impl FileStore {
    /// Whether a file may be made: it is not there, is empty, or may be overwritten.
    ///
    /// # Errors
    /// When it may not.
    pub fn check_free(path: &Path, overwrite: bool) -> Result<(), ImageError> {
        if !overwrite && std::fs::metadata(path).is_ok_and(|found| found.len() > 0) {
            return Err(ImageError::NotEmpty(path.to_owned()));
        }
        Ok(())
    }

    /// Makes a file that holds so much, all zeros, and takes its lock.
    ///
    /// # Errors
    /// When it, or a part that it needs, exists and is not empty, unless that is to be overwritten; when another
    /// process has it; when the system says no. What was made just now is removed again.
    pub fn create(path: &Path, len_bytes: u64, overwrite: bool) -> Result<Self, ImageError> {
        let failed =
            |action| move |source| ImageError::Io { place: path.display().to_string(), action, source };
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let first = options.open(path).map_err(failed("create it"))?;
        lock(&first, path)?;
        let held = first.metadata().map_err(failed("look at it"))?.len();
        if held > 0 && !overwrite {
            return Err(ImageError::NotEmpty(path.to_owned()));
        }
        let made = Self::fill(path, first, len_bytes, overwrite, held == PART_BYTES);
        if made.is_err() && held == 0 {
            // It was nothing before, and nobody else has it: a file of zeros would be in the way of the next try.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Makes `first` and the parts behind it as long as they have to be; `split` if it had parts before.
    fn fill(
        path: &Path,
        first: File,
        len_bytes: u64,
        overwrite: bool,
        split: bool,
    ) -> Result<Self, ImageError> {
        let failed =
            |action| move |source| ImageError::Io { place: path.display().to_string(), action, source };
        first.set_len(0).map_err(failed("empty it"))?;
        // A longer file than the file system allows is refused with EFBIG, which std has no name for yet.
        let whole = first.set_len(len_bytes);
        let splits = len_bytes > PART_BYTES && whole.is_err();
        if !splits {
            whole.map_err(failed("make it as long as the drive"))?;
        }
        let part = if splits { PART_BYTES } else { len_bytes.max(1) };
        let count = len_bytes.div_ceil(part).max(1);
        // Parts that would be taken for this image's: its own ones, and what follows on those of an older image.
        let last = if splits || split { PARTS_MAX } else { 1 };
        let stale = (1..last).map(|number| part_path(path, number)).take_while(|name| name.exists());
        for name in stale {
            Self::check_free(&name, overwrite)?;
            std::fs::remove_file(name).map_err(failed("remove an old part of it"))?;
        }
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut files = vec![first];
        for number in 1..count {
            files.push(options.open(part_path(path, number)).map_err(failed("create a part of it"))?);
        }
        for (number, file) in files.iter().enumerate() {
            let here = part.min(len_bytes - number as u64 * part);
            file.set_len(here).map_err(failed("make it as long as the drive; choose another file system"))?;
        }
        sync_folder(path).map_err(failed("sync its folder"))?;
        Ok(Self { path: path.to_owned(), files: Arc::new(Files { files, part, len: len_bytes }) })
    }

    /// Opens a file and its parts, and takes its lock.
    ///
    /// # Errors
    /// When another process has it, or the system says no.
    pub fn open(path: &Path) -> Result<Self, ImageError> {
        let failed = |source| ImageError::Io { place: path.display().to_string(), action: "open it", source };
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        let first = options.open(path).map_err(failed)?;
        lock(&first, path)?;
        let part = first.metadata().map_err(failed)?.len().max(1);
        let (mut files, mut len) = (vec![first], part);
        for number in 1..PARTS_MAX {
            let name = part_path(path, number);
            if part != PART_BYTES || !name.exists() {
                break;
            }
            let file = options.open(name).map_err(failed)?;
            len += file.metadata().map_err(failed)?.len();
            files.push(file);
        }
        Ok(Self { path: path.to_owned(), files: Arc::new(Files { files, part, len }) })
    }
}

impl Files {
    /// The file of an offset, the offset in it, and bytes up to its end.
    fn place(&self, offset: u64) -> (usize, u64, u64) {
        let (file, within) = ((offset / self.part) as usize, offset % self.part);
        (file.min(self.files.len() - 1), within, self.part - within)
    }

    fn each_file(
        &self,
        offset: u64,
        len: u64,
        mut act: impl FnMut(&File, u64, std::ops::Range<usize>) -> io::Result<()>,
    ) -> io::Result<()> {
        check_within(self.len, offset, len)?;
        let mut at = 0;
        while at < len {
            let (file, within, left) = self.place(offset + at);
            let here = left.min(len - at);
            act(&self.files[file], within, at as usize..(at + here) as usize)?;
            at += here;
        }
        Ok(())
    }
}

fn part_path(path: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(format!(".{number}"));
    name.into()
}

/// Takes a file for this process; others are refused until it is closed.
pub(crate) fn lock(file: &File, path: &Path) -> Result<(), ImageError> {
    match rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ImageError::Locked(path.to_owned())),
        Err(error) => {
            let place = path.display().to_string();
            Err(ImageError::Io { place, action: "lock it", source: error.into() })
        }
    }
}

/// A new name is durable only with its folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

impl Reads for Files {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.each_file(offset, buffer.len() as u64, |file, at, range| {
            file.read_exact_at(&mut buffer[range], at)
        })
    }

    fn file_of(&self, offset: u64, len: u64) -> Option<(BorrowedFd<'_>, u64)> {
        check_within(self.len, offset, len).ok()?;
        let (file, within, left) = self.place(offset);
        (len <= left).then(|| (self.files[file].as_fd(), within))
    }
}

impl Store for FileStore {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn len_bytes(&self) -> u64 {
        self.files.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.files.read_at(offset, buffer)
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        Some(self.files.clone())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.files.each_file(offset, data.len() as u64, |file, at, range| file.write_all_at(&data[range], at))
    }

    fn write_durably(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        // These bytes alone: a sync of the file would wait for all that is on its way to the disk.
        let written = self.files.each_file(offset, data.len() as u64, |file, at, range| {
            let (wanted, part) = (range.len(), &[IoSlice::new(&data[range])]);
            match rustix::io::pwritev2(file, part, at, ReadWriteFlags::DSYNC)? == wanted {
                true => Ok(()),
                false => Err(io::ErrorKind::Unsupported.into()),
            }
        });
        match written {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                self.write_at(offset, data)?;
                self.sync()
            }
            other => other,
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.files.files.iter().try_for_each(File::sync_data)
    }

    fn begin_sync(&mut self, offset: u64, len: u64) {
        // What is not needed in memory any more goes to the disk; it is advice, so nothing is made of an error.
        let _ = self.files.each_file(offset, len, |file, at, range| {
            let len = std::num::NonZeroU64::new((range.end - range.start) as u64);
            Ok(rustix::fs::fadvise(file, at, len, rustix::fs::Advice::DontNeed)?)
        });
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let punched = self.files.each_file(offset, len, |file, at, range| {
            Ok(rustix::fs::fallocate(file, punch, at, (range.end - range.start) as u64)?)
        });
        match punched {
            Err(error) if error.raw_os_error() == Some(rustix::io::Errno::OPNOTSUPP.raw_os_error()) => {
                write_zeros(self, offset, len)
            }
            other => other,
        }
    }

    fn stored_bytes(&self) -> io::Result<u64> {
        self.files.files.iter().map(|file| file.metadata().map(|found| found.blocks() * 512)).sum()
    }

    fn is_data(&self, offset: u64, len: u64) -> io::Result<(bool, u64)> {
        check_range(self, offset, len)?;
        let (file, within, left) = self.files.place(offset);
        let (file, most) = (&self.files.files[file], left.min(len));
        let next = match rustix::fs::seek(file, SeekFrom::Data(within)) {
            Ok(next) => next,
            Err(rustix::io::Errno::NXIO) => return Ok((false, most)),
            Err(error) => return Err(error.into()),
        };
        if next > within {
            return Ok((false, most.min(next - within)));
        }
        let hole = rustix::fs::seek(file, SeekFrom::Hole(within))?;
        Ok((true, most.min(hole - within)))
    }
}
