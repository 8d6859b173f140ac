//! A block device that holds an image: opened exclusively with direct I/O, and examined for signatures.
//!
//! Invariants: the checks are those of [`Device::open`](crate::Device::open) for writing, in the same order
//! and with the same messages; nothing is written. Signatures are reported but not judged, because only the
//! caller knows whether they are its own.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::device::{
    Access, current_size, io_refusal, is_protected, kind_of, metadata_of, open_file, user_of,
};
use crate::error::{Refusal, RefusalReason, printable};
use crate::identity::Kind;
use crate::signatures;
use crate::sysfs::{Sysfs, dev_number};

/// An unused block device, open for reading and writing or for reading only.
#[derive(Debug)]
pub struct Claim {
    /// Open with `O_DIRECT`, and for writing with `O_EXCL`.
    pub file: File,
    /// Size in bytes.
    pub size_bytes: u64,
}

impl Claim {
    /// Opens a block device for reading and writing.
    ///
    /// # Errors
    /// When the path is not a block device, the device is in use or read-only, or a system call fails.
    pub fn new(path: &Path) -> Result<Self, Refusal> {
        Self::open(path, Access::DestroyData)
    }

    /// Opens a block device read-only, shared with other readers, and even if it is write-protected. A device
    /// that the kernel or another program uses is refused as for writing, because it may change while it is
    /// read.
    ///
    /// # Errors
    /// When the path is not a block device, the device is in use, or a system call fails.
    pub fn read_only(path: &Path) -> Result<Self, Refusal> {
        Self::open(path, Access::ReadOnly)
    }

    fn open(path: &Path, access: Access) -> Result<Self, Refusal> {
        let (name, sysfs, writes) = (printable(path), Sysfs::default(), access == Access::DestroyData);
        let metadata = metadata_of(path, &name)?;
        if kind_of(&metadata, &name)? != Kind::BlockDevice {
            return Err(RefusalReason::WrongKind.of(&name));
        }
        let node = sysfs.node(dev_number(metadata.rdev()));
        if writes && node.as_ref().is_some_and(is_protected) {
            return Err(RefusalReason::ReadOnly.of(&name));
        }
        if let Some(used) = user_of(&name, Kind::BlockDevice, &metadata, node.as_ref(), &sysfs)? {
            return Err(used);
        }
        let file = open_file(path, &name, (Kind::BlockDevice, &metadata), access)?;
        let size = current_size(&file).map_err(|source| io_refusal(&name, "reading its size", source))?;
        Ok(Self { file, size_bytes: size })
    }

    /// A description of a foreign signature on the device, if there is one.
    ///
    /// # Errors
    /// When the device cannot be examined.
    pub fn signature(&self) -> std::io::Result<Option<String>> {
        signatures::find(&self.file)
    }
}
