//! A batch of host commands as columns, validated as a whole before the first command runs.
//!
//! Invariant: every command of an accepted batch is valid for the drive.

use skylight_disk::{Lba, LbaExtent, SECTOR_BYTES, Sectors};
use skylight_layer::{Command, CommandId, HostOp};

/// Codes of the operations in the column `op`.
pub mod op {
    /// Read.
    pub const READ: u8 = 0;
    /// Write.
    pub const WRITE: u8 = 1;
    /// Make all completed writes durable; offset and size are ignored.
    pub const FLUSH: u8 = 2;
    /// Discard an extent.
    pub const TRIM: u8 = 3;
    /// Write that completes when durable (FUA).
    pub const WRITE_FUA: u8 = 4;
}

/// Columns of equal length: operation, offset in bytes, size in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The operations; see [`op`].
    pub op: &'a [u8],
    /// Bytes from the start of the drive.
    pub offset: &'a [u64],
    /// Size in bytes.
    pub size: &'a [u32],
}

/// Why a batch is invalid for this drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// The columns differ in length.
    #[error("the columns are not of one length: op {0}, offset {1}, size {2}, submit {3}, complete {4}")]
    Lengths(usize, usize, usize, usize, usize),
    /// A depth of zero, or above the limit.
    #[error("depth {0} is out of range 1 to 65,536")]
    Depth(usize),
    /// An unknown operation code.
    #[error(
        "command {0}: operation {1} is not known; use 0 read, 1 write, 2 flush, 3 trim, 4 write with FUA"
    )]
    Operation(usize, u8),
    /// An offset or size that is not whole sectors.
    #[error("command {0}: offset {1} and size {2} are not whole sectors of 512 bytes")]
    Alignment(usize, u64, u32),
    /// A read, write or trim of no sectors.
    #[error("command {0}: size is 0")]
    Empty(usize),
    /// An extent past the end of the drive.
    #[error("command {0}: offset {1} and size {2} pass the end of the drive at {3}")]
    Range(usize, u64, u32, u64),
    /// A stop condition that cannot hold or cannot be tracked.
    #[error(
        "a stop after {0} slow commands of the last {1} is out of range; the count is 1 to {1}, and the window at most 64"
    )]
    Stop(u32, u32),
    /// More commands than a command number can count.
    #[error("{0} commands are too many for one batch; split it below 2^32")]
    TooMany(usize),
}

impl Batch<'_> {
    /// Commands in the batch.
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether the batch is empty.
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    #[inline]
    pub(crate) fn extent(&self, index: usize) -> Option<LbaExtent> {
        Some(extent_of(*self.offset.get(index)?, *self.size.get(index)?))
    }

    /// Whether the command is a FUA write.
    #[inline]
    pub(crate) fn is_fua(&self, index: usize) -> bool {
        self.op[index] == op::WRITE_FUA
    }

    #[inline]
    pub(crate) fn command(&self, index: usize) -> Command {
        let op = match self.op[index] {
            op::READ => HostOp::Read,
            op::WRITE | op::WRITE_FUA => HostOp::Write,
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
    let in_range = offset < end && u64::from(size) <= end - offset;
    let transfers = matches!(op, op::READ | op::WRITE | op::TRIM | op::WRITE_FUA);
    if transfers && aligned && in_range && size > 0 {
        return Ok(());
    }
    match op {
        op::FLUSH => Ok(()),
        _ if !transfers => Err(BatchError::Operation(index, op)),
        _ if size == 0 => Err(BatchError::Empty(index)),
        _ if !aligned => Err(BatchError::Alignment(index, offset, size)),
        _ => Err(BatchError::Range(index, offset, size, end)),
    }
}

/// The extent of a command from its byte offset and size.
fn extent_of(offset: u64, size: u32) -> LbaExtent {
    let start = Lba(offset / SECTOR_BYTES);
    LbaExtent::new(start, Sectors(u64::from(size) / SECTOR_BYTES))
}
