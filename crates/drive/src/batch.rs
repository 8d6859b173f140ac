//! A batch of host commands as columns, checked whole before any of it is done.
//!
//! Invariant: a batch that was accepted has only commands that the drive can do.

use skylight_disk::{LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{Command, CommandId, HostOp};

use crate::drive::extent_of;

/// Numbers of the operations in the column `op`.
pub const OPS: [(u8, HostOp); 3] = [(0, HostOp::Read), (1, HostOp::Write), (2, HostOp::Flush)];

/// Columns of one length: operation, offset in bytes, size in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// 0 read, 1 write, 2 flush.
    pub op: &'a [u8],
    /// Bytes from the start of the drive.
    pub offset: &'a [u64],
    /// Bytes.
    pub size: &'a [u32],
}

/// Why a batch is not one of this drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Columns are not of one length.
    #[error("the columns are not of one length: op {0}, offset {1}, size {2}, submit {3}, complete {4}")]
    Lengths(usize, usize, usize, usize, usize),
    /// Nothing outstanding, or more than the host can number.
    #[error("depth {0} is out of range 1 to 65,536")]
    Depth(usize),
    /// An operation without meaning.
    #[error("command {0}: operation {1} is not known; use 0 read, 1 write, 2 flush")]
    Operation(usize, u8),
    /// Not whole sectors.
    #[error("command {0}: offset {1} and size {2} are not whole sectors of 512 bytes")]
    Alignment(usize, u64, u32),
    /// Nothing to read or write.
    #[error("command {0}: size is 0")]
    Empty(usize),
    /// Past the end.
    #[error("command {0}: offset {1} and size {2} pass the end of the drive at {3}")]
    Range(usize, u64, u32, u64),
    /// More commands than can be numbered.
    #[error("{0} commands are too many for one batch; split it below 2^32")]
    TooMany(usize),
}

impl Batch<'_> {
    /// Commands in the batch.
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    #[inline]
    pub(crate) fn extent(&self, index: usize) -> Option<LbaExtent> {
        Some(extent_of(*self.offset.get(index)?, *self.size.get(index)?))
    }

    #[inline]
    pub(crate) fn command(&self, index: usize) -> Command {
        let op = match self.op[index] {
            0 => HostOp::Read,
            1 => HostOp::Write,
            _ => HostOp::Flush,
        };
        Command { id: CommandId(index as u32), op, extent: extent_of(self.offset[index], self.size[index]) }
    }

    pub(crate) fn check(
        &self,
        capacity: Sectors,
        depth: usize,
        submits: usize,
        completes: usize,
    ) -> Result<(), BatchError> {
        let lengths = [self.op.len(), self.offset.len(), self.size.len(), submits, completes];
        if lengths.iter().any(|&len| len != lengths[0]) {
            let [op, offset, size, submit, complete] = lengths;
            return Err(BatchError::Lengths(op, offset, size, submit, complete));
        }
        if u32::try_from(self.len()).is_err() {
            return Err(BatchError::TooMany(self.len()));
        }
        if !(1..=65_536).contains(&depth) {
            return Err(BatchError::Depth(depth));
        }
        let end = capacity.bytes();
        let commands = self.op.iter().zip(self.offset).zip(self.size).enumerate();
        for (index, ((&op, &offset), &size)) in commands {
            check_command(index, op, offset, size, end)?;
        }
        Ok(())
    }
}

#[inline]
fn check_command(index: usize, op: u8, offset: u64, size: u32, end: u64) -> Result<(), BatchError> {
    let aligned = (offset | u64::from(size)).is_multiple_of(SECTOR_BYTES);
    let inside = offset < end && u64::from(size) <= end - offset;
    if op < 2 && aligned && inside && size > 0 {
        return Ok(());
    }
    match op {
        2 => Ok(()),
        0 | 1 if size == 0 => Err(BatchError::Empty(index)),
        0 | 1 if !aligned => Err(BatchError::Alignment(index, offset, size)),
        0 | 1 => Err(BatchError::Range(index, offset, size, end)),
        _ => Err(BatchError::Operation(index, op)),
    }
}
