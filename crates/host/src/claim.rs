//! A block device to keep data on: for this process alone, past the page cache, and with what is known of what it
//! holds.
//!
//! Invariants: the questions of [`Device::open`](crate::Device::open) for writing are asked, in the same order and
//! with the same words; nothing is written. What is on the medium is told and not judged: the caller knows whether
//! it is its own.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::device::{
    Access, check_same, current_size, io_refusal, ioctl_read_only, is_protected, kind_of, look, open_file,
    used_by,
};
use crate::error::{Refusal, one_line};
use crate::identity::Kind;
use crate::signatures;
use crate::sysfs::{Sysfs, dev_number};

/// A block device that nobody else uses, open for reading and writing, or for reading alone.
#[derive(Debug)]
pub struct Claim {
    /// Open with `O_DIRECT`, and for writing with `O_EXCL`.
    pub file: File,
    /// Size in bytes.
    pub size_bytes: u64,
}

impl Claim {
    /// Opens a block device, or says why not.
    ///
    /// # Errors
    /// When it is none, is in use, is read-only, or the system says no.
    pub fn new(path: &Path) -> Result<Self, Refusal> {
        let (name, sysfs) = (one_line(path), Sysfs::default());
        let metadata = look(path, &name)?;
        if kind_of(&metadata, &name)? != Kind::BlockDevice {
            return Err(Refusal::WrongKind { path: name });
        }
        let node = sysfs.node(dev_number(metadata.rdev()));
        if node.as_ref().is_some_and(is_protected) {
            return Err(Refusal::ReadOnly { path: name });
        }
        if let Some(used) = used_by(&name, Kind::BlockDevice, &metadata, node.as_ref(), &sysfs)? {
            return Err(used);
        }
        let file = open_file(path, &name, Kind::BlockDevice, Access::DestroyData)?;
        check_same(&file, &metadata, &name)?;
        if ioctl_read_only(&file) {
            return Err(Refusal::ReadOnly { path: name });
        }
        let size = current_size(&file).map_err(|source| io_refusal(&name, "reading its size", source))?;
        Ok(Self { file, size_bytes: size })
    }

    /// Opens a block device to look at it: read-only, beside others that look, and even if it is write-protected. What
    /// the kernel or another program uses is refused as for writing, since it may change while it is read.
    ///
    /// # Errors
    /// When it is none, is in use, or the system says no.
    pub fn to_look_at(path: &Path) -> Result<Self, Refusal> {
        let (name, sysfs) = (one_line(path), Sysfs::default());
        let metadata = look(path, &name)?;
        if kind_of(&metadata, &name)? != Kind::BlockDevice {
            return Err(Refusal::WrongKind { path: name });
        }
        let node = sysfs.node(dev_number(metadata.rdev()));
        if let Some(used) = used_by(&name, Kind::BlockDevice, &metadata, node.as_ref(), &sysfs)? {
            return Err(used);
        }
        let file = open_file(path, &name, Kind::BlockDevice, Access::ReadOnly)?;
        check_same(&file, &metadata, &name)?;
        let size = current_size(&file).map_err(|source| io_refusal(&name, "reading its size", source))?;
        Ok(Self { file, size_bytes: size })
    }

    /// What somebody's data on it is, if it has the signature of any.
    ///
    /// # Errors
    /// When that cannot be found out.
    pub fn signature(&self) -> std::io::Result<Option<String>> {
        signatures::find(&self.file)
    }
}
