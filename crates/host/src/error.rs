//! The ways in which work on a device ends early, each as one line: what, where, and the mend.
//!
//! Invariants: no message holds a line break; a [`Refusal`] means that nothing was written; a
//! [`Failure`] names the path, the operation, the byte offset and the kernel's own words.

use std::io;
use std::path::{Path, PathBuf};

use skylight_command::Op;

/// Why a device was not taken. Nothing was written to it.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The path names nothing.
    #[error("{path}: no such device or file; check the name, for example with lsblk")]
    NoSuchPath {
        /// The path as given.
        path: String,
    },
    /// The path is a directory.
    #[error("{path}: is a directory; name a block device or a file")]
    Directory {
        /// The path as given.
        path: String,
    },
    /// The path is a character device, a pipe or a socket.
    #[error("{path}: is neither a block device nor a regular file; name one of those")]
    WrongKind {
        /// The path as given.
        path: String,
    },
    /// The kernel denied the open.
    #[error("{path}: no permission to open it for {purpose}; {mend}")]
    NoPermission {
        /// The path as given.
        path: String,
        /// "reading" or "writing".
        purpose: &'static str,
        /// The mend, which is another one for root.
        mend: &'static str,
    },
    /// The device or its file system is write-protected.
    #[error("{path}: is read-only; clear it with blockdev --setrw, or probe without --destroy-data")]
    ReadOnly {
        /// The path as given.
        path: String,
    },
    /// A file system on the device or on one of its partitions is mounted.
    #[error("{path}: {what} is mounted at {mount_point}; run umount {mount_point}, or take another drive")]
    Mounted {
        /// The path as given.
        path: String,
        /// The device or partition that is mounted.
        what: String,
        /// Where it is mounted.
        mount_point: String,
    },
    /// The device holds partitions.
    #[error("{path}: holds {what}; if nothing on it is needed, remove it with wipefs -a and try again")]
    Partitioned {
        /// The path as given.
        path: String,
        /// What was found.
        what: String,
    },
    /// The medium holds the signature of somebody's data.
    #[error("{path}: holds {what}; {mend}")]
    Signature {
        /// The path as given.
        path: String,
        /// What was found.
        what: String,
        /// What to do.
        mend: &'static str,
    },
    /// Something else uses the device.
    #[error("{path}: is in use{by}; stop that use, or take another drive")]
    InUse {
        /// The path as given.
        path: String,
        /// By whom, as far as it is known, with a leading space.
        by: String,
    },
    /// Who uses the device cannot be found out.
    #[error(
        "{path}: cannot be written to, because who uses it is not known: {what} cannot be read ({reason}); mount {mount}"
    )]
    CannotTell {
        /// The path as given.
        path: String,
        /// What would tell.
        what: String,
        /// Why it does not.
        reason: String,
        /// The mend: what to mount where.
        mount: &'static str,
    },
    /// What the medium holds cannot be found out.
    #[error("{path}: cannot be written to, because what it holds is not known: {reason}")]
    CannotExamine {
        /// The path as given.
        path: String,
        /// Why not, and the mend.
        reason: String,
    },
    /// The device is smaller than any test can use.
    #[error("{path}: has {size_bytes} bytes, too small to measure; take one of at least 64 MiB")]
    TooSmall {
        /// The path as given.
        path: String,
        /// Its size in bytes.
        size_bytes: u64,
    },
    /// The file system cannot bypass its page cache, so times would be those of memory.
    #[error(
        "{path}: cannot be opened past the page cache (O_DIRECT); put it on ext4 or xfs, or name a device"
    )]
    NoDirectIo {
        /// The path as given.
        path: String,
    },
    /// The kernel has no usable io_uring.
    #[error(
        "{path}: io_uring is not to be had here ({reason}); allow it (sysctl kernel.io_uring_disabled=0) on Linux 5.11 or newer"
    )]
    NoIoUring {
        /// The device that was to be opened.
        path: String,
        /// The kernel's reason.
        reason: String,
    },
    /// The kernel gave no memory for the ring or its buffers.
    #[error("{path}: no memory for I/O buffers ({reason}); lower the queue depth, or raise ulimit -l")]
    NoBuffers {
        /// The device that was to be used.
        path: String,
        /// The kernel's reason.
        reason: String,
    },
    /// Any other error of opening or inspecting the target.
    #[error("{path}: {doing} failed: {source}; check that the target is present and works")]
    Io {
        /// The path as given.
        path: String,
        /// What was being done.
        doing: &'static str,
        /// The kernel's answer.
        source: io::Error,
    },
    /// The restore note could not be written, so no setting was changed.
    #[error(
        "{note}: cannot keep the restore note: {source}; make its folder writable, or set SKYLIGHT_STATE to another"
    )]
    Note {
        /// The note's path.
        note: PathBuf,
        /// The kernel's answer.
        source: io::Error,
    },
    /// A restore note that is damaged or belongs to another drive.
    #[error("{note}: {why}; delete it if the write cache is as you want it")]
    BadNote {
        /// The note's path.
        note: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Columns that cannot be run.
    #[error("{path}: {error}")]
    Columns {
        /// The device they were for.
        path: String,
        /// The first thing wrong with them.
        error: ColumnError,
    },
}

impl Refusal {
    /// The kernel denied `purpose` to this process, which may be root's.
    pub(crate) fn no_permission(path: String, purpose: &'static str, root: bool) -> Self {
        let mend = if root {
            "root is kept out as well: by a container (allow the device in it), an immutable file (chattr -i) or a network file system"
        } else {
            "run as root, or get access to it"
        };
        Self::NoPermission { path, purpose, mend }
    }
}

/// The first thing wrong with the columns of a batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ColumnError {
    /// The columns differ in length.
    #[error("columns differ in length (op {op}, offset {offset}, size {size}); give one row an I/O")]
    Length {
        /// Rows of `op`.
        op: usize,
        /// Rows of `offset`.
        offset: usize,
        /// Rows of `size`.
        size: usize,
    },
    /// A queue depth that is not offered.
    #[error("queue depth {depth} is out of range; take 1 to {max}", max = crate::MAX_DEPTH)]
    Depth {
        /// The depth asked for.
        depth: usize,
    },
    /// An unknown operation code.
    #[error("row {row}: unknown operation {code}; take 0 read, 1 write or 2 flush")]
    UnknownOp {
        /// The row.
        row: usize,
        /// The code.
        code: u8,
    },
    /// TRIM, which this engine does not send.
    #[error("row {row}: TRIM is not sent to real devices by this version; leave it out")]
    Trim {
        /// The row.
        row: usize,
    },
    /// A write or a flush on a device that was opened for reading only.
    #[error(
        "row {row}: a {op} is not allowed, the target was opened read-only; give --destroy-data to allow it"
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
    /// A size of nothing, or more than one I/O can carry.
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
    /// Depth times size exceeds the buffers that are set aside.
    #[error("depth {depth} of {size} bytes each needs more than {max} bytes of buffers; lower one of the two", max = crate::MAX_BUFFERS_BYTES)]
    Buffers {
        /// The queue depth.
        depth: usize,
        /// The largest I/O of the batch in bytes.
        size: u32,
    },
}

/// Why an I/O, or the whole target, failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The kernel answered with this error number.
    Errno(i32),
    /// Fewer bytes came or went than asked for.
    Short(u32),
    /// The target is now this many bytes, less than when it was opened.
    Shrunk(u64),
}

impl Reason {
    /// What to do about it.
    fn mend(&self) -> &'static str {
        match self {
            Self::Errno(libc::ENOSPC | libc::EDQUOT) => {
                "free space on the file system that holds it, or use a file that is not sparse"
            }
            _ => "check cables and health (smartctl -a)",
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Errno(number) => io::Error::from_raw_os_error(*number).fmt(f),
            Self::Short(bytes) => write!(f, "only {bytes} bytes were transferred"),
            Self::Shrunk(bytes) => write!(f, "the target has shrunk to {bytes} bytes"),
        }
    }
}

/// An I/O that failed: the target's fault, not the caller's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{path}: {op} of {size} bytes at offset {offset} failed: {reason}; {mend}, then resume",
    mend = reason.mend()
)]
pub struct Failure {
    /// The device.
    pub path: String,
    /// What was asked of it.
    pub op: Op,
    /// Byte offset.
    pub offset: u64,
    /// Size in bytes.
    pub size: u32,
    /// What it answered.
    pub reason: Reason,
}

/// A setting that could not be put back: the target's fault, as far as we know. The restore note stays.
#[derive(Debug, thiserror::Error)]
#[error(
    "{path}: its write cache could not be set to '{setting}' again: {source}; the next run with --destroy-data tries again"
)]
pub struct NotPutBack {
    /// The device.
    pub path: String,
    /// What it had before.
    pub setting: String,
    /// The kernel's answer.
    pub source: io::Error,
}

/// Anything that this crate reports instead of a result.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// The device or the request was not taken; nothing was done.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The device failed.
    #[error(transparent)]
    Failed(#[from] Failure),
    /// The device failed to take back what it had.
    #[error(transparent)]
    NotPutBack(#[from] NotPutBack),
}

/// A path as one printable line.
pub fn one_line(path: &Path) -> String {
    path.to_string_lossy().chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_not_told_to_become_root() {
        let line = |root| Refusal::no_permission("/dev/sdx".into(), "reading", root).to_string();
        assert_eq!(
            line(false),
            "/dev/sdx: no permission to open it for reading; run as root, or get access to it"
        );
        assert!(
            line(true)
                .starts_with("/dev/sdx: no permission to open it for reading; root is kept out as well")
        );
        assert!(!line(true).contains("run as root") && !line(true).contains('\n'));
    }
}
