//! A block device as a store, past the page cache (`O_DIRECT`) and for one process alone (`O_EXCL`).
//!
//! Direct I/O requires buffers, offsets and lengths that are aligned to the device's logical blocks. Data goes through an
//! aligned buffer; a partial block is read, modified and written.

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use skylight_host::Claim;

use super::file::lock;
use super::{Access, Reads, Store, Syncs, check_range, check_within, write_zeros};
use crate::error::ImageError;

/// Alignment, bytes: no device has larger logical blocks.
const BLOCK: u64 = 4096;
/// Size of the aligned buffer, bytes.
const BUFFER: usize = 1 << 20;

/// See the module page.
pub struct DeviceStore {
    path: PathBuf,
    claim: Arc<Claimed>,
    buffer: Aligned,
}

/// The open device of a store.
struct Claimed {
    claim: Claim,
    len: u64,
}

/// Whether a path is a block device.
pub fn is_block_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// An aligned buffer.
struct Aligned {
    bytes: Vec<u8>,
    from: usize,
}

impl Aligned {
    /// A buffer of `len` bytes, at most [`BUFFER`].
    fn new(len: usize) -> Self {
        let bytes = vec![0; len.min(BUFFER) + 2 * BLOCK as usize];
        let from = bytes.as_ptr().align_offset(BLOCK as usize).min(BLOCK as usize);
        Self { bytes, from }
    }

    fn get(&self, len: usize) -> &[u8] {
        &self.bytes[self.from..self.from + len]
    }

    fn get_mut(&mut self, len: usize) -> &mut [u8] {
        &mut self.bytes[self.from..self.from + len]
    }
}

impl DeviceStore {
    /// Opens a device exclusively; tests open a file in its place.
    ///
    /// # Errors
    /// When it is in use, or a system call fails.
    pub fn open(path: &Path, access: Access) -> Result<Self, ImageError> {
        let claim = match (is_block_device(path), access) {
            (true, Access::Use) => Claim::new(path)?,
            (true, Access::Look) => Claim::read_only(path)?,
            (false, _) => as_device(path, access)?,
        };
        lock(&claim.file, path, access)?;
        let len = claim.size_bytes / BLOCK * BLOCK;
        let claim = Arc::new(Claimed { claim, len });
        Ok(Self { path: path.to_owned(), claim, buffer: Aligned::new(BUFFER) })
    }

    /// A description of a foreign signature on the device, if there is one.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn signature(&self) -> io::Result<Option<String>> {
        self.claim.claim.signature()
    }
}

fn as_device(path: &Path, access: Access) -> Result<Claim, ImageError> {
    let failed = |source| ImageError::io(path.display(), "open it", source);
    let mut options = OpenOptions::new();
    options.read(true).write(access == Access::Use).custom_flags(OFlags::DIRECT.bits() as i32);
    let mut file = options.open(path).map_err(failed)?;
    let size_bytes = file.seek(SeekFrom::End(0)).map_err(failed)?;
    Ok(Claim { file, size_bytes })
}

/// The aligned pieces of a range: start, length, the requested part of the piece, and its offset in the caller's buffer.
fn pieces(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>, usize)> {
    let (mut at, end) = (offset, offset + len);
    std::iter::from_fn(move || {
        if at >= end {
            return None;
        }
        let start = at / BLOCK * BLOCK;
        let stop = end.min(start + BUFFER as u64);
        let piece = (stop - start).next_multiple_of(BLOCK) as usize;
        let inside = (at - start) as usize..(stop - start) as usize;
        let found = (start, piece, inside, (at - offset) as usize);
        at = stop;
        Some(found)
    })
}

impl Claimed {
    fn file(&self) -> &File {
        &self.claim.file
    }
}

impl Reads for Claimed {
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        check_within(self.len, offset, buffer.len() as u64)?;
        // A buffer of its own, because reads are concurrent; small reads need little memory.
        let mut own = Aligned::new(buffer.len() + BLOCK as usize);
        for (start, len, inside, at) in pieces(offset, buffer.len() as u64) {
            self.file().read_exact_at(own.get_mut(len), start)?;
            let count = inside.len();
            buffer[at..at + count].copy_from_slice(&own.get(len)[inside]);
        }
        Ok(())
    }
}

impl Syncs for Claimed {
    fn sync(&self) -> io::Result<()> {
        self.file().sync_data()
    }
}

impl Store for DeviceStore {
    fn name(&self) -> String {
        self.path.display().to_string()
    }

    fn len_bytes(&self) -> u64 {
        self.claim.len
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
        self.claim.read_at(offset, buffer)
    }

    fn reader(&self) -> Option<Arc<dyn Reads>> {
        Some(self.claim.clone())
    }

    fn write_at(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        check_range(self, offset, data.len() as u64)?;
        for (start, len, inside, at) in pieces(offset, data.len() as u64) {
            let into = self.buffer.get_mut(len);
            if inside.len() < len {
                self.claim.file().read_exact_at(into, start)?;
            }
            let count = inside.len();
            into[inside].copy_from_slice(&data[at..at + count]);
            self.claim.file().write_all_at(self.buffer.get(len), start)?;
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        self.claim.sync()
    }

    fn syncer(&self) -> Option<Arc<dyn Syncs>> {
        Some(self.claim.clone())
    }

    fn can_discard(&self) -> bool {
        false
    }

    fn is_write_dear(&self) -> bool {
        true
    }

    fn discard(&mut self, offset: u64, len: u64) -> io::Result<()> {
        // A discard of a device need not give zeros, so zeros are written.
        write_zeros(self, offset, len)
    }
}
