//! A drive in memory, for tests of the server by itself.
//!
//! Invariant: bytes that were never written are zero.
// Each test file uses only some of this.
#![allow(dead_code)]

use std::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use skylight_serve::core::{
    Backend, BlockState, Command, Extent, Failure, Op, Shape, StatusQuery, push_extent,
};

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

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        let (offset, len) = (command.offset_bytes() as usize, command.len_bytes() as usize);
        let range = offset..offset + len;
        match command.op {
            Op::Read => data.copy_from_slice(self.bytes().get(range).ok_or(Failure::OutOfRange)?),
            Op::Write => self.bytes_mut().get_mut(range).ok_or(Failure::NoSpace)?.copy_from_slice(data),
            Op::WriteZeroes | Op::Trim => self.bytes_mut().get_mut(range).ok_or(Failure::OutOfRange)?.fill(0),
            Op::Flush | Op::Cache => {}
            Op::Append | Op::Zone(_) => {
                return Err(Failure::Unsupported);
            }
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
    ) -> Result<(), Failure> {
        push_extent(extents, len, BlockState::Ordinary);
        Ok(())
    }
}
