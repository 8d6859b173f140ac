//! A sparse file as a store, locked for as long as it is open.
//!
//! Where the file system does not allow a file of the required length (ext4: 16 TiB), the image continues in parts beside
//! it: `NAME`, `NAME.1`, `NAME.2`, each as long as the first. Each part but the first begins with a head, which does not
//! count as content of the store; parts of images of version 1 have no head.
//!
//! A new file is accessible only to its owner (mode 0600, regardless of the umask). Until the image is complete, its first
//! block marks it as unfinished ([`Begun`]): after an interruption the next attempt creates it anew.
//!
//! Invariants: an image is in parts only if its superblock says so, and then each part has the length that it was created
//! with; creating an image removes the parts of an older one in its place; a store opened for looking writes nothing, and
//! any number of processes may open one.

use std::ffi::OsString;
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{FallocateFlags, FlockOperation, OFlags, SeekFrom};
use rustix::io::ReadWriteFlags;

use super::{Access, PartInfo, Reads, Store, Syncs, check_range, check_within, no_head, write_zeros};
use crate::error::ImageError;
use crate::format::BLOCK;
use crate::format::creation_mark::Begun;
use crate::format::part_head::{HEAD_BYTES, PartHead, START};

/// Length of a part where one file is not enough: half of what ext4 allows.
pub const PART_BYTES: u64 = 8 << 40;
/// Permissions of a new file: only its owner, as for the socket.
const PRIVATE: u32 = 0o600;
/// Maximum number of parts.
const PARTS_MAX: u64 = 1024;

/// See the module page.
pub struct FileStore {
    path: PathBuf,
    access: Access,
    files: Arc<Files>,
}

/// The open files of a store.
struct Files {
    files: Vec<File>,
    /// Bytes of each file but the last.
    part: u64,
    /// Bytes of the head of each file but the first.
    head: u64,
    len: u64,
}

/// What exists at the path of a new file.
struct Before {
    /// It may be overwritten, whatever it is.
    overwrite: bool,
    /// It may have parts.
    split: bool,
    /// It is an unfinished image, whose creation was interrupted.
    begun: Option<Begun>,
}

impl Before {
    /// Removes files that would be mistaken for parts of the image: its own parts, and those of an older image.
    fn remove_parts(&self, path: &Path) -> Result<(), ImageError> {
        for name in existing_parts(path) {
            let ours = |begun: &Begun| is_hole(&name) || is_part_of(&name, begun);
            if !self.begun.as_ref().is_some_and(ours) {
                FileStore::check_free(&name, self.overwrite)?;
            }
            std::fs::remove_file(&name).map_err(|source| {
                ImageError::io(name.display(), "remove it, an old part of the image", source)
            })?;
        }
        Ok(())
    }
}

impl FileStore {
    /// Checks that a file may be created: it does not exist, is empty, holds an unfinished image, or may be overwritten.
    ///
    /// # Errors
    /// When it may not be created.
    pub fn check_free(path: &Path, overwrite: bool) -> Result<(), ImageError> {
        if overwrite || std::fs::metadata(path).map_or(true, |found| found.len() == 0) {
            return Ok(());
        }
        match File::open(path).is_ok_and(|file| begun_in(&file).is_some()) {
            true => Ok(()),
            false => Err(ImageError::NotEmpty(path.to_owned())),
        }
    }

    /// The files that exist where a store at this path has, or would have, its own.
    pub fn existing(path: &Path) -> impl Iterator<Item = PathBuf> {
        let parts = (1..PARTS_MAX).map(|number| part_path(path, number));
        std::iter::once(path.to_owned()).chain(parts).filter(|name| name.exists())
    }

    /// Creates and locks a store of this length, all zeros.
    ///
    /// # Errors
    /// When the file, or a part that it needs, exists and is not empty, unless it may be overwritten; when another
    /// process has locked it; when a system call fails. A file created by the failed call is removed.
    pub fn create(path: &Path, len_bytes: u64, overwrite: bool) -> Result<Self, ImageError> {
        Self::create_in_parts(path, len_bytes, overwrite, None)
    }

    /// The same in parts of `part_bytes`; [`FileStore::create`] uses parts only where one file cannot hold everything.
    ///
    /// # Errors
    /// As [`FileStore::create`].
    pub fn create_in_parts(
        path: &Path,
        len_bytes: u64,
        overwrite: bool,
        part_bytes: Option<u64>,
    ) -> Result<Self, ImageError> {
        let failed = |action| move |source| ImageError::io(path.display(), action, source);
        let first = open_private(path).map_err(failed("create it"))?;
        lock(&first, path, Access::Use)?;
        let held = first.metadata().map_err(failed("look at it"))?.len();
        let before =
            Before { overwrite, split: held == part_bytes.unwrap_or(PART_BYTES), begun: begun_in(&first) };
        if held > 0 && !overwrite && before.begun.is_none() {
            return Err(ImageError::NotEmpty(path.to_owned()));
        }
        let made = Self::fill(path, first, len_bytes, &before, part_bytes);
        if made.is_err() && held == 0 {
            // It was nothing before, and nobody else has it: a file of zeros would be in the way of the next try.
            let _ = std::fs::remove_file(path);
        }
        made
    }

    /// Sets the lengths of `first` and of the parts after it.
    fn fill(
        path: &Path,
        first: File,
        len_bytes: u64,
        before: &Before,
        part_bytes: Option<u64>,
    ) -> Result<Self, ImageError> {
        let failed = |action| move |source| ImageError::io(path.display(), action, source);
        // While the mark of what was begun is there: it tells which parts are its own.
        if before.split || before.begun.is_some() {
            before.remove_parts(path)?;
        }
        first.set_len(0).map_err(failed("empty it"))?;
        let begun = first.write_all_at(&Begun::default().encode(), 0).and_then(|()| first.sync_all());
        begun.and_then(|()| sync_folder(path)).map_err(failed("begin it"))?;
        // A longer file than the file system allows is refused with EFBIG, which std has no name for yet.
        let whole = first.set_len(len_bytes);
        let asked = part_bytes.is_some_and(|part| part < len_bytes);
        let splits = asked || len_bytes > PART_BYTES && whole.is_err();
        if !splits {
            whole.map_err(failed("make it as long as the drive"))?;
        }
        let part = if splits { part_bytes.unwrap_or(PART_BYTES) } else { len_bytes.max(1) };
        let lens = file_lens(len_bytes, part, START);
        let count = lens.len() as u64;
        if splits {
            before.remove_parts(path)?;
        }
        let mut files = vec![first];
        for number in 1..count {
            files.push(open_private(&part_path(path, number)).map_err(failed("create a part of it"))?);
        }
        for (file, &len) in files.iter().zip(&lens) {
            file.set_len(len).map_err(failed("make it as long as the drive; choose another file system"))?;
        }
        sync_folder(path).map_err(failed("sync its folder"))?;
        let files = Arc::new(Files { files, part, head: START, len: len_bytes });
        Ok(Self { path: path.to_owned(), access: Access::Use, files })
    }

    /// Opens a file without its further parts, and locks it: exclusively for use, shared for looking.
    ///
    /// # Errors
    /// When another process has locked it, or a system call fails.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        let failed = |source| ImageError::io(path.display(), "open it", source);
        let first = open_file(path, access).map_err(failed)?;
        let found = first.metadata().map_err(failed)?;
        if !found.is_file() {
            return Err(ImageError::Foreign(path.display().to_string()));
        }
        lock(&first, path, access)?;
        let len = found.len();
        let files = Arc::new(Files { files: vec![first], part: len.max(1), head: 0, len });
        Ok(Self { path: path.to_owned(), access, files })
    }

    /// Opens the further parts, of `part` bytes with a head of `head` bytes each; the whole store has `len` bytes.
    ///
    /// # Errors
    /// When a part is missing or has another length than it was created with, when there is one too many, when a system
    /// call fails.
    pub fn with_parts(self, part: u64, head: u64, len: u64) -> Result<Self, ImageError> {
        let (path, image) = (&self.path, self.path.display().to_string());
        let wrong = |place: &Path, what: String| ImageError::WrongPart {
            place: place.display().to_string(),
            image: image.clone(),
            what,
        };
        let lens = file_lens(len, part, head);
        let mut files = Vec::new();
        for (number, &len) in lens.iter().enumerate() {
            let name = if number == 0 { path.clone() } else { part_path(path, number as u64) };
            let failed = |source| ImageError::io(name.display(), "open it", source);
            let file = match number {
                0 => self.files.files[0].try_clone(),
                _ => open_file(&name, self.access),
            };
            let file = match file {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(wrong(&name, "there is no such file".to_owned()));
                }
                other => other.map_err(failed)?,
            };
            let found = file.metadata().map_err(failed)?.len();
            if found != len {
                return Err(wrong(&name, format!("it is {found} bytes long and was made with {len}")));
            }
            files.push(file);
        }
        let behind = part_path(path, lens.len() as u64);
        if head > 0 && is_part(&behind) {
            return Err(wrong(&behind, "it is one part more than the image has".to_owned()));
        }
        let files = Arc::new(Files { files, part, head, len });
        Ok(Self { path: self.path.clone(), access: self.access, files })
    }
}

/// Whether a file begins with the head of a part of an image.
fn is_part(path: &Path) -> bool {
    let mut head = [0; HEAD_BYTES];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut head, 0));
    read.is_ok() && PartHead::decode(&head).is_some()
}

/// The lengths of the files of a store of `len` bytes: `part` bytes each, except the last.
fn file_lens(len: u64, part: u64, head: u64) -> Vec<u64> {
    let mut lens = vec![len.min(part)];
    let (mut rest, most) = (len - lens[0], part.saturating_sub(head).max(1));
    while rest > 0 && lens.len() < PARTS_MAX as usize {
        let here = rest.min(most);
        lens.push(head + here);
        rest -= here;
    }
    lens
}

fn open_file(path: &Path, access: Access) -> io::Result<File> {
    // To open a FIFO would wait for whoever opens its other end.
    let flags = OFlags::NONBLOCK.bits() as i32;
    OpenOptions::new().read(true).write(access == Access::Use).custom_flags(flags).open(path)
}

impl Files {
    /// The file of an offset, the offset in it, and bytes up to its end.
    fn place(&self, offset: u64) -> (usize, u64, u64) {
        let Some(behind) = offset.checked_sub(self.part) else {
            return (0, offset, self.part - offset);
        };
        let held = self.part - self.head;
        let (file, within) = (1 + (behind / held) as usize, behind % held);
        (file.min(self.files.len() - 1), self.head + within, held - within)
    }

    fn headed(&self, part: usize) -> io::Result<&File> {
        let headed = part > 0 && self.head > 0;
        self.files.get(part).filter(|_| headed).ok_or_else(no_head)
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

/// Creates a file that only its owner may read and write, or opens an existing one unchanged. A dangling symbolic link is
/// not followed.
fn open_private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true);
    match options.clone().create_new(true).mode(PRIVATE).open(path) {
        Ok(file) => {
            // The umask may have taken away what the owner needs.
            file.set_permissions(Permissions::from_mode(PRIVATE))?;
            Ok(file)
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => options.open(path),
        Err(error) => Err(error),
    }
}

/// The mark of an unfinished image in a file, if it has one.
pub(crate) fn begun_in(file: &File) -> Option<Begun> {
    let mut block = [0; BLOCK];
    file.read_exact_at(&mut block, 0).ok().and_then(|()| Begun::decode(&block))
}

/// Whether a file is a further part of an unfinished image: one with its identity.
pub(crate) fn is_part_of(path: &Path, begun: &Begun) -> bool {
    let mut heads = [0; HEAD_BYTES];
    let read = File::open(path).and_then(|file| file.read_exact_at(&mut heads, 0));
    let head = read.ok().and_then(|()| PartHead::decode(&heads));
    begun.identity != 0 && head.is_some_and(|head| head.identity == begun.identity)
}

/// Whether a file has no data, whatever its length: such a part of an unfinished image can be removed without loss.
fn is_hole(path: &Path) -> bool {
    let found = File::open(path).map(|file| rustix::fs::seek(file, SeekFrom::Data(0)));
    matches!(found, Ok(Err(rustix::io::Errno::NXIO)))
}

/// The files behind the first that exist.
fn existing_parts(path: &Path) -> impl Iterator<Item = PathBuf> {
    (1..PARTS_MAX).map(|number| part_path(path, number)).take_while(|name| name.exists())
}

fn part_path(path: &Path, number: u64) -> PathBuf {
    let mut name = OsString::from(path.as_os_str());
    name.push(format!(".{number}"));
    name.into()
}

/// Locks a file until it is closed: exclusively for use, shared for looking. Others are refused meanwhile.
pub(crate) fn lock(file: &File, path: &Path, access: Access) -> Result<(), ImageError> {
    let how = match access {
        Access::Use => FlockOperation::NonBlockingLockExclusive,
        Access::Look => FlockOperation::NonBlockingLockShared,
    };
    match rustix::fs::flock(file, how) {
        Ok(()) => Ok(()),
        Err(rustix::io::Errno::WOULDBLOCK) => Err(ImageError::Locked(path.to_owned())),
        Err(error) => Err(ImageError::io(path.display(), "lock it", error.into())),
    }
}

/// Syncs the directory: a new name is durable only with it.
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

impl Syncs for Files {
    fn sync(&self) -> io::Result<()> {
        self.files.iter().try_for_each(File::sync_data)
    }
}

impl Store for FileStore {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn parts(&self) -> Vec<PartInfo> {
        let Files { files, part, head, len } = self.files.as_ref();
        let lens = if files.len() > 1 { file_lens(*len, *part, *head) } else { vec![*len] };
        let of = |(number, len): (usize, u64)| match number {
            0 => PartInfo { name: self.name(), len, headed: false },
            _ => PartInfo {
                name: part_path(&self.path, number as u64).display().to_string(),
                len: len - head,
                headed: *head > 0,
            },
        };
        lens.into_iter().enumerate().map(of).collect()
    }

    fn read_head(&self, part: usize, head: &mut [u8; HEAD_BYTES]) -> io::Result<()> {
        self.files.headed(part)?.read_exact_at(head, 0)
    }

    fn write_head(&mut self, part: usize, head: &[u8; HEAD_BYTES]) -> io::Result<()> {
        self.files.headed(part)?.write_all_at(head, 0)
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
        self.files.sync()
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        Some(self.files.clone())
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

    fn reserve(&mut self, offset: u64, len: u64) -> io::Result<()> {
        let reserved = self.files.each_file(offset, len, |file, at, range| {
            Ok(rustix::fs::fallocate(file, FallocateFlags::KEEP_SIZE, at, (range.end - range.start) as u64)?)
        });
        // A file system without allocation ahead has the space at the moment of the write, or has not.
        match reserved {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => Ok(()),
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
