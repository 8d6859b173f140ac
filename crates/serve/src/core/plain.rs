//! Backends without a drive: memory, and a file.
//!
//! They serve to measure and test the server by itself.
//!
//! Invariants: bytes that were never written are zero; flush and FUA make a file durable.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt;
use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use rustix::fs::{FallocateFlags, SeekFrom, fallocate, fdatasync, seek};

use super::{Backend, BlockState, Command, Errno, Extent, Failure, Op, Shape, StatusQuery, push_extent};

/// A drive in memory.
pub struct Memory {
    shape: Shape,
    bytes: RwLock<Vec<u8>>,
}

impl Memory {
    /// A drive of `size` zero bytes.
    pub fn new(size: usize) -> Self {
        Self { shape: Shape::drive("memory", size as u64), bytes: RwLock::new(vec![0; size]) }
    }

    /// A drive with the given shape, including its size.
    pub fn shaped(shape: Shape) -> Self {
        let bytes = RwLock::new(vec![0; shape.size as usize]);
        Self { shape, bytes }
    }

    // A panic while bytes are copied leaves a state that is as good as any.
    fn bytes(&self) -> RwLockReadGuard<'_, Vec<u8>> {
        self.bytes.read().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn bytes_mut(&self) -> RwLockWriteGuard<'_, Vec<u8>> {
        self.bytes.write().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Backend for Memory {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Errno> {
        let (offset, len) = (command.offset_bytes() as usize, command.len_bytes() as usize);
        let range = offset..offset + len;
        match command.op {
            Op::Read => data.copy_from_slice(self.bytes().get(range).ok_or(Errno::Invalid)?),
            Op::Write => self.bytes_mut().get_mut(range).ok_or(Errno::NoSpace)?.copy_from_slice(data),
            Op::WriteZeroes | Op::Trim => self.bytes_mut().get_mut(range).ok_or(Errno::Invalid)?.fill(0),
            Op::Flush | Op::Cache => {}
            Op::Append => return Err(Errno::NotSupported),
        }
        Ok(())
    }

    fn block_status(
        &self,
        _offset: u64,
        len: u64,
        _query: StatusQuery,
        _limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        push_extent(extents, len, BlockState::Ordinary);
        Ok(())
    }
}

/// A file or block device.
pub struct PlainFile {
    shape: Shape,
    file: File,
}

impl PlainFile {
    /// Serves an open file of `size` bytes.
    pub fn new(file: File, name: &str, size: u64) -> Self {
        Self { shape: Shape::drive(name, size), file }
    }

    fn zero(&self, command: &Command) -> Result<(), Errno> {
        let (mut at, len) = (command.offset_bytes(), command.len_bytes());
        let flags = match command.flags.no_hole {
            true => FallocateFlags::ZERO_RANGE,
            false => FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE,
        };
        if fallocate(&self.file, flags, at, len).is_ok() {
            return Ok(());
        }
        if command.flags.fast_zero {
            return Err(Errno::NotSupported);
        }
        let (zeroes, end) = (vec![0; len.min(1 << 20) as usize], at + len);
        while at < end {
            let part = (end - at).min(zeroes.len() as u64);
            self.file
                .write_all_at(&zeroes[..part as usize], at)
                .map_err(|error| Failure::from(error.kind()))?;
            at += part;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), Errno> {
        fdatasync(&self.file).map_err(|_| Errno::Io)
    }
}

impl Backend for PlainFile {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Errno> {
        let offset = command.offset_bytes();
        match command.op {
            Op::Read => self.file.read_exact_at(data, offset).map_err(|error| Failure::from(error.kind()))?,
            Op::Write => self.file.write_all_at(data, offset).map_err(|error| Failure::from(error.kind()))?,
            Op::Flush => self.sync()?,
            Op::WriteZeroes => self.zero(command)?,
            Op::Trim => {
                let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                // Trim is a hint: a file system without hole punching keeps the bytes.
                let _ = fallocate(&self.file, flags, offset, command.len_bytes());
            }
            Op::Cache => {}
            Op::Append => return Err(Errno::NotSupported),
        }
        if command.flags.fua { self.sync() } else { Ok(()) }
    }

    fn file_at(&self, offset: u64, _len: u64, visit: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        visit(self.file.as_fd(), offset);
        true
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        if query != StatusQuery::Allocation {
            push_extent(extents, len, BlockState::Ordinary);
            return Ok(());
        }
        let (mut at, end) = (offset, offset + len);
        while at < end && extents.len() < limit {
            // Beyond the last data the seek fails with ENXIO.
            let data = seek(&self.file, SeekFrom::Data(at)).map_or(end, |data| data.min(end));
            push_extent(extents, data - at, BlockState::Hole);
            if data < end {
                let hole =
                    seek(&self.file, SeekFrom::Hole(data)).map_or(end, |hole| hole.clamp(data + 1, end));
                push_extent(extents, hole - data, BlockState::Ordinary);
                at = hole;
            } else {
                at = end;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparse_file_reports_holes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let file = File::options().read(true).write(true).create_new(true).open(path).unwrap();
        file.set_len(1 << 20).unwrap();
        let plain = PlainFile::new(file, "disk", 1 << 20);
        plain.execute(&Command::of_bytes(Op::Write, 64 << 10, 4096), &mut [7; 4096]).unwrap();
        let mut extents = Vec::new();
        plain.block_status(0, 1 << 20, StatusQuery::Allocation, 100, &mut extents).unwrap();
        assert_eq!(extents.iter().map(|extent| extent.len).sum::<u64>(), 1 << 20);
        assert_eq!(extents[0], Extent { len: 64 << 10, state: BlockState::Hole });
        assert_eq!(extents[1].state, BlockState::Ordinary);
        let mut data = [1; 8192];
        plain.execute(&Command::of_bytes(Op::Read, (64 << 10) - 4096, 8192), &mut data).unwrap();
        assert_eq!((data[..4096].to_vec(), data[4096..].to_vec()), (vec![0; 4096], vec![7; 4096]));
    }
}
