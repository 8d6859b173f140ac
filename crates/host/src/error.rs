//! Errors of device access, each one line: the place, the problem, the mend.
//!
//! Invariants: no message has a line break; after a [`Refusal`] nothing was written; a [`Failure`] names the
//! path, the operation, the byte offset and the error of the kernel.
//!
//! Imports both ways with `columns`: a message says the limit that a column broke.

use std::io;
use std::path::{Path, PathBuf};

use skylight_command::Op;
use skylight_command::code::UnknownCode;

use crate::zone_failure::{ZoneFailure, ZoneFault};

/// Why a device was refused. Nothing was written to it.
#[derive(Debug, thiserror::Error)]
#[error("{path}: {reason}")]
pub struct Refusal {
    /// The path as given, or that of the restore note.
    pub path: String,
    /// The reason, and the mend.
    pub reason: RefusalReason,
}

/// The reason of a [`Refusal`].
#[derive(Debug, thiserror::Error)]
pub enum RefusalReason {
    /// The path does not exist.
    #[error("no such device or file; check the name, for example with lsblk")]
    NoSuchPath,
    /// The path is a directory.
    #[error("is a directory; name a block device or a file")]
    Directory,
    /// The path is a character device, a pipe or a socket.
    #[error("is neither a block device nor a regular file; name one of those")]
    WrongKind,
    /// The kernel denied the open.
    #[error("no permission to open it for {purpose}; {mend}")]
    NoPermission {
        /// "reading" or "writing".
        purpose: &'static str,
        /// The mend, which differs for root.
        mend: &'static str,
    },
    /// The device or its file system is write-protected.
    #[error("is read-only; clear it with blockdev --setrw, or probe without --destroy-data")]
    ReadOnly,
    /// A file system on the device or on one of its partitions is mounted.
    #[error("{what} is mounted at {mount_point}; {mend}", mend = mount_mend(mount_point))]
    Mounted {
        /// The device or partition that is mounted.
        what: String,
        /// Where it is mounted.
        mount_point: String,
    },
    /// The device holds these partitions.
    #[error("holds {0}; if nothing on it is needed, remove it with wipefs -a and try again")]
    Partitioned(String),
    /// The medium holds a foreign signature.
    #[error("holds {what}; {mend}")]
    Signature {
        /// What was found.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// Something else uses the device: the user, as far as it is known, with a leading space.
    #[error("is in use{0}; stop that use, or take another drive")]
    InUse(String),
    /// The users of the device cannot be determined.
    #[error(
        "refusing to write, because {what}, which lists its users, cannot be read ({reason}); mount {mount}"
    )]
    UsersUnknown {
        /// The table that cannot be read.
        what: String,
        /// The error of the kernel.
        reason: String,
        /// The mend: what to mount where.
        mount: &'static str,
    },
    /// The medium cannot be examined: the reason, and the mend.
    #[error("refusing to write, because its content cannot be examined: {0}")]
    CannotExamine(String),
    /// The device, of this many bytes, is too small for every test.
    #[error("has {0} bytes, too small to measure; take one of at least 64 MiB")]
    TooSmall(u64),
    /// The file system does not support direct I/O, so times would be those of the page cache.
    #[error("the file system does not support direct I/O (O_DIRECT); use ext4 or xfs, or name a device")]
    NoDirectIo,
    /// The kernel has no usable io_uring, for this reason.
    #[error(
        "io_uring is not available ({0}); enable it (sysctl kernel.io_uring_disabled=0) on Linux 5.11 or newer"
    )]
    NoIoUring(String),
    /// The kernel has no memory for the ring or its buffers, for this reason.
    #[error("no memory for I/O buffers ({0}); lower the queue depth, or raise ulimit -l")]
    NoBuffers(String),
    /// Any other error of opening or inspecting the target.
    #[error("{doing} failed: {source}; check that the target is present and works")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The restore note could not be written, so no setting was changed.
    #[error(
        "cannot keep the restore note: {0}; make its directory writable, or set SKYLIGHT_STATE to another one"
    )]
    Note(io::Error),
    /// What is wrong with a restore note that is damaged or belongs to another drive.
    #[error("{0}; delete it if the settings of the drive are as you want them")]
    BadNote(&'static str),
    /// What is not as it was before a run that an earlier boot saw killed.
    #[error(
        "a killed run left it before the last boot, and somebody may have changed the settings since: {0}; set them by hand, or delete it to leave them as they are"
    )]
    OldNote(String),
    /// Why the drive cannot be erased as asked, and the mend.
    #[error("{0}")]
    NotErasable(String),
    /// The first thing wrong with the columns of a batch.
    #[error(transparent)]
    Columns(ColumnError),
    /// The device reports no zones.
    #[error("has no zones; name a host-managed or host-aware disk, and the whole of it")]
    NotZoned,
    /// What contradicts itself in a report of zones.
    #[error("its report of zones contradicts itself: {0}; update its firmware, or the kernel")]
    BadZoneReport(String),
    /// A zone action on a device that was opened for reading only.
    #[error(
        "a zone {0} is not allowed because the target was opened read-only; give --destroy-data to allow it"
    )]
    ZoneActionReadOnly(&'static str),
}

/// The mend for a mounted target. A running system is never told to let go of what it runs from.
fn mount_mend(point: &str) -> String {
    /// File systems that a running system may need as a whole (Filesystem Hierarchy Standard 3.0, sections 3 and
    /// 5, and `/home`); what is mounted below them is data.
    const ROOTS: [&str; 4] = ["/", "/home", "/opt", "/var"];
    /// Folders of programs, libraries, settings and the boot loader, needed with all below (the same, section 3);
    /// `/nix` is the store of Nix, which holds what the others do.
    const TREES: [&str; 10] =
        ["/bin", "/boot", "/etc", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/sbin", "/usr"];
    let is_within = |folder: &str| {
        point.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if ROOTS.contains(&point) || TREES.into_iter().any(is_within) {
        "this system runs from it: take another drive".into()
    } else {
        format!("run umount {point}, or take another drive")
    }
}

impl RefusalReason {
    /// Access denied for `purpose`, to root or another user.
    pub(crate) fn no_permission(purpose: &'static str, root: bool) -> Self {
        let mend = if root {
            "access is denied even to root: by a container (allow the device in it), an immutable file (chattr -i) or a network file system"
        } else {
            "run as root, or get access to it"
        };
        Self::NoPermission { purpose, mend }
    }

    /// The refusal of a path for this reason.
    pub fn of(self, path: &str) -> Refusal {
        Refusal { path: path.to_owned(), reason: self }
    }
}

/// The first thing wrong with the columns of a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The columns differ in length.
    #[error("columns differ in length (op {op}, offset {offset}, size {size}); give one row per I/O")]
    Length {
        /// Rows of `op`.
        op: usize,
        /// Rows of `offset`.
        offset: usize,
        /// Rows of `size`.
        size: usize,
    },
    /// Unsupported queue depth.
    #[error("queue depth {depth} is out of range; take 1 to {max}", max = crate::MAX_DEPTH)]
    Depth {
        /// The depth asked for.
        depth: usize,
    },
    /// The number of no operation in the column that `op` was made of.
    #[error(
        "row {row}: unknown operation {code}; take a code of READ, WRITE, FLUSH, APPEND or a zone action",
        row = .0.row, code = .0.code
    )]
    UnknownOp(#[from] UnknownCode),
    /// TRIM, which is not supported.
    #[error("row {row}: TRIM is not supported on real devices; leave it out")]
    Trim {
        /// The row.
        row: usize,
    },
    /// A write or a flush on a device that was opened for reading only.
    #[error(
        "row {row}: a {op} is not allowed because the target was opened read-only; give --destroy-data to allow it"
    )]
    NotWritable {
        /// The row.
        row: usize,
        /// What was asked for.
        op: Op,
    },
    /// An offset or size that is not whole logical blocks.
    #[error("row {row}: offset {offset} and size {size} must be whole blocks of {block} bytes")]
    Misaligned {
        /// The row.
        row: usize,
        /// Byte offset.
        offset: u64,
        /// Size in bytes.
        size: u32,
        /// The logical block in bytes.
        block: u32,
    },
    /// A size of zero, or more than one I/O can transfer.
    #[error("row {row}: size {size} is out of range; take 1 to {max} bytes", max = crate::MAX_IO_BYTES)]
    Size {
        /// The row.
        row: usize,
        /// Size in bytes.
        size: u32,
    },
    /// An extent that ends beyond the device.
    #[error("row {row}: {size} bytes at offset {offset} end beyond the target's {capacity} bytes")]
    OutOfRange {
        /// The row.
        row: usize,
        /// Byte offset.
        offset: u64,
        /// Size in bytes.
        size: u32,
        /// The target's size in bytes.
        capacity: u64,
    },
    /// Depth times size exceeds the buffer limit.
    #[error("depth {depth} of {size} bytes each needs more than {max} bytes of buffers; lower one of the two", max = crate::MAX_BUFFERS_BYTES)]
    Buffers {
        /// The queue depth.
        depth: usize,
        /// The largest I/O of the batch in bytes.
        size: u32,
    },
}

/// Why an I/O or the whole target failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// The kernel returned this error number.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    Errno(i32),
    /// Fewer bytes were transferred than requested.
    #[error("only {0} bytes were transferred")]
    Short(u32),
    /// The target has shrunk to this many bytes.
    #[error("the target has shrunk to {0} bytes")]
    Shrunk(u64),
    /// A zone command failed.
    #[error("{0}")]
    Zone(ZoneFault),
    /// The kernel returned this error number for a write to a host-managed disk: it does not say whether the
    /// disk refused the place or failed.
    #[error("{}", io::Error::from_raw_os_error(*.0))]
    ZonedWrite(i32),
}

impl Reason {
    /// The mend.
    fn mend(&self) -> &'static str {
        match self {
            Self::Errno(libc::ENOSPC | libc::EDQUOT) => {
                "free space on the file system that holds it, or use a file that is not sparse"
            }
            Self::Zone(fault) => fault.mend(),
            Self::ZonedWrite(_) => {
                "check that it began at the write pointer of its zone (skylight zones), or its health (smartctl -a)"
            }
            _ => "check cables and health (smartctl -a)",
        }
    }
}

/// A failed I/O: the fault of the target, not of the caller.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}: {op} of {size} bytes at offset {offset}{lba} failed{after}: {reason}; {mend}, then resume",
    lba = lba_words(*lba), after = time_words(*took_ns), mend = reason.mend()
)]
pub struct Failure {
    /// The device.
    pub path: String,
    /// The operation.
    pub op: Op,
    /// Byte offset.
    pub offset: u64,
    /// Size in bytes.
    pub size: u32,
    /// The logical block at that offset, of a block device.
    pub lba: Option<u64>,
    /// From its submission to the error, ns; `None` for what was not timed.
    pub took_ns: Option<u64>,
    /// The reason.
    pub reason: Reason,
}

fn lba_words(lba: Option<u64>) -> String {
    lba.map_or_else(String::new, |lba| format!(" (LBA {lba})"))
}

/// Errors after a shorter time are not those of a command that the kernel gave up: it waits whole seconds for one
/// (`device/timeout` of a SCSI disk, `io_timeout` of a request queue).
const GIVEN_UP_NS: u64 = 1_000_000_000;

/// How long a command took that failed: a timeout has the same error number as a medium error.
fn time_words(took_ns: Option<u64>) -> String {
    let took = took_ns.filter(|&took| took >= GIVEN_UP_NS);
    took.map_or_else(String::new, |took| format!(" after {:.1} s", took as f64 / 1e9))
}

/// A setting that could not be restored.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path}: its {what} could not be set to '{setting}' again: {source}; {mend}", mend = restore_mend(note.as_deref())
)]
pub struct NotRestored {
    /// The device.
    pub path: String,
    /// What could not be set.
    pub what: &'static str,
    /// The original setting.
    pub setting: String,
    /// The kernel's answer.
    pub source: io::Error,
    /// The restore note, which stays; `None` where none was kept.
    pub note: Option<PathBuf>,
}

/// The mend for a setting that was not restored. As long as its note is there, no run may write to the drive.
fn restore_mend(note: Option<&Path>) -> String {
    note.map_or("set it by hand".into(), |note| {
        let note = printable(note);
        format!(
            "the next run with --destroy-data tries again, or delete {note} to leave the setting as it is"
        )
    })
}

/// An erase that was begun and failed, with the mend.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what}")]
pub struct EraseFailure {
    /// The device.
    pub path: String,
    /// What failed, what became of the drive, and what to do.
    pub what: String,
}

/// Any error of this crate.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The device or the batch was refused; nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// A setting of the device could not be restored.
    #[error(transparent)]
    NotRestored(#[from] NotRestored),
    /// A zone command failed.
    #[error(transparent)]
    Zone(#[from] ZoneFailure),
    /// An erase failed.
    #[error(transparent)]
    Erase(#[from] EraseFailure),
}

/// An error of the system in its words, without its number.
pub fn system_words(error: &io::Error) -> String {
    let line = error.to_string();
    line.split_once(" (os error ").map_or(line.clone(), |(words, _)| words.to_owned())
}

/// A path as one printable line.
pub fn printable(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_advised_to_unmount_the_system() {
        let line = |point: &str| {
            let mount_point = point.to_owned();
            RefusalReason::Mounted { what: "sda1".into(), mount_point }.of("/dev/sda").to_string()
        };
        for point in ["/", "/home", "/var", "/opt", "/boot/efi", "/usr", "/usr/local", "/lib64", "/nix/store"]
        {
            let said = line(point);
            assert!(!said.contains("umount") && said.ends_with("take another drive"), "{said}");
        }
        for point in ["/mnt", "/mnt/usr", "/data", "/variable", "/home/a/disk", "/var/lib/docker", "/library"]
        {
            assert!(line(point).contains(&format!("run umount {point}, or")), "{point}");
        }
    }

    #[test]
    fn root_is_not_advised_to_become_root() {
        let line = |root| RefusalReason::no_permission("reading", root).of("/dev/sdx").to_string();
        assert_eq!(
            line(false),
            "/dev/sdx: no permission to open it for reading; run as root, or get access to it"
        );
        assert!(
            line(true)
                .starts_with("/dev/sdx: no permission to open it for reading; access is denied even to root")
        );
        assert!(!line(true).contains("run as root") && !line(true).contains('\n'));
    }
}
