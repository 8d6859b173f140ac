//! A batch of host commands as columns, checked whole before any of it is done.
//!
//! Invariant: a batch that was accepted has only commands that the drive can do.

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{Command, CommandId, HostOp};

/// Numbers of the operations in the column `op`.
pub mod op {
    /// Read.
    pub const READ: u8 = 0;
    /// Write.
    pub const WRITE: u8 = 1;
    /// Make durable all that was written; offset and size are not looked at.
    pub const FLUSH: u8 = 2;
    /// Forget an extent.
    pub const TRIM: u8 = 3;
    /// Write, answered when durable (FUA).
    pub const WRITE_THROUGH: u8 = 4;
}

/// Columns of one length: operation, offset in bytes, size in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The operations: see [`op`].
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
    #[error("command {0}: operation {1} is not known; use 0 read, 1 write, 2 flush, 3 trim, 4 write through")]
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
    /// A condition that can never, or not be, followed.
    #[error("a stop after {0} slow commands among {1} is out of range: 1 to that many, among 64 at most")]
    Stop(u32, u32),
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

    /// Whether a write is answered only when durable.
    #[inline]
    pub(crate) fn is_through(&self, index: usize) -> bool {
        self.op[index] == op::WRITE_THROUGH
    }

    #[inline]
    pub(crate) fn command(&self, index: usize) -> Command {
        let op = match self.op[index] {
            op::READ => HostOp::Read,
            op::WRITE | op::WRITE_THROUGH => HostOp::Write,
            op::TRIM => HostOp::Trim,
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
    let moves = matches!(op, op::READ | op::WRITE | op::TRIM | op::WRITE_THROUGH);
    if moves && aligned && inside && size > 0 {
        return Ok(());
    }
    match op {
        op::FLUSH => Ok(()),
        _ if !moves => Err(BatchError::Operation(index, op)),
        _ if size == 0 => Err(BatchError::Empty(index)),
        _ if !aligned => Err(BatchError::Alignment(index, offset, size)),
        _ => Err(BatchError::Range(index, offset, size, end)),
    }
}

/// The extent of a command in bytes of the host.
fn extent_of(offset: u64, size: u32) -> LbaExtent {
    let start = Lba(offset / SECTOR_BYTES);
    LbaExtent::new(start, Sectors(u64::from(size) / SECTOR_BYTES))
}
