//! A target opened for a test: refused with a reason, or identified and ready for I/O.
//!
//! Invariants: see the crate documentation. The checks are ordered by the cost of a wrong result: what the
//! target is, whether it is in use, whether it can be opened, whether it is large enough, whether it holds a
//! partition table or a file system. Nothing is written meanwhile.

use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags};

use crate::caching::Dialect;
use crate::columns::{Columns, Limits, Needs};
use crate::engine::{Batch, End, Engine, Log};
pub use crate::engine::{Counters, now_ns};
use crate::error::{HostError, Reason, Refusal, RefusalReason, printable};
use crate::identity::{Identity, Kind};
use crate::signatures;
use crate::sysfs::{Node, Sysfs, dev_number};
use crate::usage;

/// The smallest accepted target, bytes.
pub const MIN_SIZE_BYTES: u64 = 64 << 20;

/// Size of the buffer that is allocated at open, so that a kernel without io_uring is detected then.
const FIRST_BUFFER_BYTES: u32 = 8192;

/// How long a device that another program holds is tried again. Chosen: the guard of an ended run opens the
/// drive for milliseconds to put its settings back, on a busy machine for tenths of a second, and the run after
/// it is not to be refused for that; a user who is refused in earnest waits no longer than a second.
const HELD_PATIENCE: Duration = Duration::from_secs(1);
const HELD_PAUSE: Duration = Duration::from_millis(10);

/// What the caller may do to a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Reads only; the descriptor is `O_RDONLY`.
    ReadOnly,
    /// Reads and writes; the data on the target is lost.
    DestroyData,
}

/// What becomes of what a target holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// It is lost where it is written.
    Lost,
    /// The caller puts back what it overwrites.
    Kept,
}

/// The erase that was begun last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Followed {
    /// How it was begun. An ATA disk that fails IDENTIFY DEVICE once would else be asked as a SCSI disk, whose
    /// translation layer knows of no sanitize and reports a ready drive.
    pub dialect: Dialect,
    /// Looks in a row, up to now, that say nothing.
    pub unclear_looks: u32,
}

/// An open target.
pub struct Device {
    file: File,
    access: Access,
    identity: Identity,
    node: Option<Node>,
    boot: Option<String>,
    pub(crate) followed: Option<Followed>,
    engine: Option<Engine>,
    counters: Counters,
}

impl Device {
    /// Opens the block device or regular file at `path`.
    pub fn open(path: &Path, access: Access) -> Result<Self, HostError> {
        Self::open_with(path, access, &Sysfs::default())
    }

    /// The same, with another view of sysfs and procfs.
    pub fn open_with(path: &Path, access: Access, sysfs: &Sysfs) -> Result<Self, HostError> {
        let mut device = Self::open_unexamined(path, access, Content::Lost, sysfs)?;
        if access == Access::DestroyData {
            device.check_signatures()?;
        }
        device.prepare_first()?;
        Ok(device)
    }

    /// Opens it for writes that the caller puts back: partitions and signatures are no reason to refuse it, its use
    /// by others is.
    pub fn open_kept(path: &Path, sysfs: &Sysfs) -> Result<Self, HostError> {
        let mut device = Self::open_unexamined(path, Access::DestroyData, Content::Kept, sysfs)?;
        device.prepare_first()?;
        Ok(device)
    }

    /// Opens it with every check but that of what it holds, which is not read.
    pub(crate) fn open_unexamined(
        path: &Path,
        access: Access,
        content: Content,
        sysfs: &Sysfs,
    ) -> Result<Self, HostError> {
        let name = printable(path);
        let metadata = metadata_of(path, &name)?;
        let kind = kind_of(&metadata, &name)?;
        let node = match kind {
            Kind::BlockDevice => sysfs.node(dev_number(metadata.rdev())),
            Kind::File => None,
        };
        let mut used = user_of(&name, kind, &metadata, node.as_ref(), sysfs);
        if let (Content::Kept, Ok(Some(Refusal { reason: RefusalReason::Partitioned(_), .. }))) =
            (content, &used)
        {
            used = Ok(None);
        }
        let protected = node.as_ref().is_some_and(is_protected);
        let refusal = match (access, protected, used) {
            (Access::DestroyData, true, _) => return Err(RefusalReason::ReadOnly.of(&name).into()),
            (Access::DestroyData, false, Err(refusal) | Ok(Some(refusal))) => return Err(refusal.into()),
            (Access::DestroyData, false, Ok(None)) | (Access::ReadOnly, _, Err(_)) => None,
            (Access::ReadOnly, _, Ok(used)) => used,
        };
        let file = open_file(path, &name, (kind, &metadata), access)?;
        let block = block_bytes(&file, kind, &name)?;
        let size_bytes =
            current_size(&file).map_err(|source| io_refusal(&name, "reading its size", source))?;
        let size = size_bytes - size_bytes % u64::from(block);
        if size < MIN_SIZE_BYTES {
            return Err(RefusalReason::TooSmall(size_bytes).of(&name).into());
        }
        let mut identity = match kind {
            Kind::BlockDevice => Identity::of_block_device(&name, node.as_ref(), sysfs, size, block),
            Kind::File => Identity::of_file(&name, &metadata, sysfs, size, block),
        };
        if let Some(refusal) = refusal {
            identity.note_use(&refusal);
        }
        let (boot, counters) = (sysfs.boot_id(), Counters::default());
        Ok(Self { file, access, identity, node, boot, followed: None, engine: None, counters })
    }

    /// A disk of a tree of plain files, with a file as its medium.
    #[cfg(test)]
    pub(crate) fn fake(file: File, node: Node, sysfs: &Sysfs) -> Self {
        let identity = Identity::of_block_device("/dev/sdq", Some(&node), sysfs, MIN_SIZE_BYTES, 512);
        let (access, node, counters) = (Access::DestroyData, Some(node), Counters::default());
        Self { file, access, identity, node, boot: None, followed: None, engine: None, counters }
    }

    /// The identity of the target.
    pub fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The access mode.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Its directory in sysfs, for block devices.
    pub fn node(&self) -> Option<&Node> {
        self.node.as_ref()
    }

    /// The boot ID of the kernel that runs.
    pub(crate) fn boot(&self) -> Option<&str> {
        self.boot.as_deref()
    }

    /// Discards a part of a block device, in bytes: `BLKDISCARD` of the open target, whatever its path names by
    /// now.
    ///
    /// # Errors
    /// Those of the kernel; `EOPNOTSUPP`, `ENOTTY` or `EINVAL` where the target cannot do it.
    pub fn discard(&self, start_bytes: u64, length_bytes: u64) -> io::Result<()> {
        const BLKDISCARD: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 119);
        if self.access == Access::ReadOnly || self.identity.kind == Kind::File {
            return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP));
        }
        let mut range = [start_bytes, length_bytes];
        // SAFETY: BLKDISCARD reads two u64 from its argument, and nothing else.
        unsafe {
            let discard = rustix::ioctl::Updater::<BLKDISCARD, [u64; 2]>::new(&mut range);
            rustix::ioctl::ioctl(self.file.as_fd(), discard)?;
        }
        Ok(())
    }

    /// The open target.
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// I/O submitted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Runs the I/O of a checked batch, reads, writes and flushes, at a queue depth; `needs` are those of the batch.
    pub(crate) fn run_io(
        &mut self,
        rows: Columns<'_>,
        needs: &Needs,
        depth: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> Result<(Log, End), HostError> {
        let path = self.identity.path.clone();
        if rows.is_empty() {
            return Ok((Log::default(), End::Complete));
        }
        self.prepare(needs)?;
        let Some(mut engine) = self.engine.take() else {
            return Ok((Log::default(), End::Complete));
        };
        let (file, expected) = (&self.file, self.identity.size_bytes);
        let shrunk = || current_size(file).ok().filter(|&size| size < expected);
        let mut batch = Batch {
            fd: self.file.as_raw_fd(),
            path: &path,
            rows,
            counters: &mut self.counters,
            shrunk: &shrunk,
            block_bytes: (self.identity.kind == Kind::BlockDevice).then_some(self.identity.block_bytes),
        };
        if let Some(size) = shrunk() {
            let failure = batch.failure(0, Reason::Shrunk(size));
            let log = Log::pending(rows.len());
            self.engine = Some(engine);
            return Ok((log, End::Failed(failure)));
        }
        let (log, mut end, drained) = engine.run(&mut batch, depth, interrupted);
        if let (End::Complete, Some(size)) = (&end, shrunk()) {
            end = End::Failed(batch.failure(rows.len() - 1, Reason::Shrunk(size)));
        }
        if drained {
            self.engine = Some(engine);
        } else {
            // The kernel may still write to these buffers, so they must stay mapped for good.
            std::mem::forget(engine);
        }
        Ok((log, end))
    }

    /// What a batch is checked against.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            size_bytes: self.identity.size_bytes,
            block_bytes: self.identity.block_bytes,
            can_write: self.access == Access::DestroyData,
        }
    }

    /// Ensures that the ring and buffers cover these needs.
    pub(crate) fn prepare(&mut self, needs: &Needs) -> Result<(), HostError> {
        if self.engine.as_ref().is_some_and(|engine| engine.fits(needs)) {
            return Ok(());
        }
        // Free the old buffers first, so that both never count against a memory limit together.
        let needs = self.engine.take().map_or(*needs, |old| needs.joined(&old.needs()));
        let engine = Engine::new(&needs).map_err(|error| {
            let reason = match error.kind() {
                io::ErrorKind::OutOfMemory => RefusalReason::NoBuffers(error.to_string()),
                _ => RefusalReason::NoIoUring(error.to_string()),
            };
            reason.of(&self.identity.path)
        })?;
        self.engine = Some(engine);
        Ok(())
    }

    /// Allocates the ring and its first buffer.
    fn prepare_first(&mut self) -> Result<(), HostError> {
        let block = self.identity.block_bytes;
        self.prepare(&Needs { slots: 1, read_bytes: block.max(FIRST_BUFFER_BYTES), write_bytes: 0 })
    }

    /// Refuses a target that holds a foreign signature.
    fn check_signatures(&self) -> Result<(), HostError> {
        let found = signatures::find(&self.file)
            .map_err(|error| RefusalReason::CannotExamine(error.to_string()).of(&self.identity.path))?;
        let Some(what) = found else { return Ok(()) };
        let mend = match self.identity.kind {
            // In a sequential zone nothing can be overwritten.
            Kind::BlockDevice if self.identity.declared.is_host_managed() => {
                "if nothing on it is needed, remove it with wipefs -a, or in a sequential zone with blkzone reset, and try again"
            }
            Kind::BlockDevice => "if nothing on it is needed, remove it with wipefs -a and try again",
            Kind::File => {
                "use an empty file, or, if nothing in it is needed, remove it with wipefs -a and try again"
            }
        };
        Err(RefusalReason::Signature { what, mend }.of(&self.identity.path).into())
    }
}

pub(crate) fn io_refusal(path: &str, doing: &'static str, source: io::Error) -> Refusal {
    RefusalReason::Io { doing, source }.of(path)
}

pub(crate) fn metadata_of(path: &Path, name: &str) -> Result<fs::Metadata, Refusal> {
    fs::metadata(path).map_err(|error| match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR) => RefusalReason::NoSuchPath.of(name),
        Some(libc::EACCES | libc::EPERM) => RefusalReason::no_permission("reading", is_root()).of(name),
        _ => io_refusal(name, "looking it up", error),
    })
}

pub(crate) fn kind_of(metadata: &fs::Metadata, name: &str) -> Result<Kind, Refusal> {
    let file_type = metadata.file_type();
    if file_type.is_block_device() {
        Ok(Kind::BlockDevice)
    } else if file_type.is_file() {
        Ok(Kind::File)
    } else if file_type.is_dir() {
        Err(RefusalReason::Directory.of(name))
    } else {
        Err(RefusalReason::WrongKind.of(name))
    }
}

/// The first other user of the target; an error if that cannot be determined.
pub(crate) fn user_of(
    name: &str,
    kind: Kind,
    metadata: &fs::Metadata,
    node: Option<&Node>,
    sysfs: &Sysfs,
) -> Result<Option<Refusal>, Refusal> {
    let answer = match (node, kind) {
        (Some(node), _) => usage::of_block_device(name, node, sysfs),
        (None, Kind::File) => usage::of_file(name, metadata, sysfs),
        (None, Kind::BlockDevice) => Err(sysfs.without_node(dev_number(metadata.rdev()))),
    };
    answer.map_err(|unreadable| {
        let mount = if sysfs.is_proc(&unreadable.what) { "proc at /proc" } else { "sysfs at /sys" };
        let (what, reason) = (printable(&unreadable.what), unreadable.source.to_string());
        RefusalReason::UsersUnknown { what, reason, mount }.of(name)
    })
}

/// Whether sysfs reports a disk, or the disk of a partition, as write-protected.
pub(crate) fn is_protected(node: &Node) -> bool {
    node.flag("ro") == Some(true) || node.disk().flag("ro") == Some(true)
}

/// Opens a target and checks that it is the one that was examined, and writable if it is to be written.
pub(crate) fn open_file(
    path: &Path,
    name: &str,
    (kind, seen): (Kind, &fs::Metadata),
    access: Access,
) -> Result<File, Refusal> {
    let writes_device = access == Access::DestroyData && kind == Kind::BlockDevice;
    let (mut flags, purpose) = match access {
        Access::ReadOnly => (OFlags::RDONLY, "reading"),
        Access::DestroyData => (OFlags::RDWR, "writing"),
    };
    flags |= OFlags::DIRECT | OFlags::CLOEXEC;
    if writes_device {
        flags |= OFlags::EXCL;
    }
    let opened = open_when_free(path, flags).map_err(|errno| {
        let reason = match errno.raw_os_error() {
            libc::EACCES | libc::EPERM => RefusalReason::no_permission(purpose, is_root()),
            libc::EBUSY => RefusalReason::InUse(" by another program that holds it exclusively".into()),
            libc::ETXTBSY => RefusalReason::InUse(" by the kernel".into()),
            libc::EROFS => RefusalReason::ReadOnly,
            libc::EINVAL => RefusalReason::NoDirectIo,
            libc::ENOENT => RefusalReason::NoSuchPath,
            _ => RefusalReason::Io { doing: "opening it", source: errno.into() },
        };
        reason.of(name)
    });
    let file = opened?;
    check_same(&file, seen, name)?;
    if writes_device && ioctl_read_only(&file) {
        return Err(RefusalReason::ReadOnly.of(name));
    }
    Ok(file)
}

/// Opens a file; one that another program holds exclusively is tried again for [`HELD_PATIENCE`].
fn open_when_free(path: &Path, flags: OFlags) -> rustix::io::Result<File> {
    let begin = Instant::now();
    loop {
        match rustix::fs::open(path, flags, Mode::empty()) {
            Err(rustix::io::Errno::BUSY) if begin.elapsed() < HELD_PATIENCE => thread::sleep(HELD_PAUSE),
            other => return other.map(File::from),
        }
    }
}

/// Whether this process runs as root.
pub(crate) fn is_root() -> bool {
    // SAFETY: geteuid has no arguments and cannot fail.
    unsafe { libc::geteuid() == 0 }
}

/// Checks that the opened file is the one that was examined.
fn check_same(file: &File, seen: &fs::Metadata, name: &str) -> Result<(), Refusal> {
    let opened = file.metadata().map_err(|source| io_refusal(name, "looking it up", source))?;
    let key = |m: &fs::Metadata| (m.dev(), m.ino(), m.rdev());
    if key(&opened) == key(seen) {
        return Ok(());
    }
    let source = io::Error::other("it was replaced meanwhile");
    Err(io_refusal(name, "opening it", source))
}

/// The kernel's read-only flag of an open block device (`BLKROGET`).
fn ioctl_read_only(file: &File) -> bool {
    const BLKROGET: rustix::ioctl::Opcode = rustix::ioctl::opcode::none(0x12, 94);
    // SAFETY: BLKROGET writes one int to its argument, and to nothing else.
    let answer = unsafe {
        let get = rustix::ioctl::Getter::<BLKROGET, libc::c_int>::new();
        rustix::ioctl::ioctl(file.as_fd(), get)
    };
    answer.is_ok_and(|flag| flag != 0)
}

/// The unit of offsets and sizes: the logical block of a device, the direct I/O alignment of a file.
fn block_bytes(file: &File, kind: Kind, name: &str) -> Result<u32, Refusal> {
    use rustix::fs::{AtFlags, StatxFlags, ioctl_blksszget, statx};
    const SMALLEST: u32 = 512;
    const DEFAULT: u32 = 4096;
    if kind == Kind::BlockDevice {
        return ioctl_blksszget(file)
            .map(|bytes| bytes.max(SMALLEST))
            .map_err(|errno| io_refusal(name, "reading its block size", errno.into()));
    }
    // Kernels before 6.1 do not report it; 4096 suits every usual disk.
    let Ok(stat) = statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN) else {
        return Ok(DEFAULT);
    };
    if stat.stx_mask & StatxFlags::DIOALIGN.bits() == 0 {
        return Ok(DEFAULT);
    }
    match stat.stx_dio_offset_align {
        0 => Err(RefusalReason::NoDirectIo.of(name)),
        bytes if bytes.is_power_of_two() => Ok(bytes.max(SMALLEST)),
        _ => Ok(DEFAULT),
    }
}

/// The current size of a device or file, bytes.
pub(crate) fn current_size(mut file: &File) -> io::Result<u64> {
    file.seek(SeekFrom::End(0))
}
