//! A batch of host commands as columns, validated as a whole before the first command runs.
//!
//! Invariant: every command of an accepted batch is valid for the drive.

use skylight_command::code::{Code, UnknownCode};
use skylight_command::{Command, CommandId, Op};
use skylight_disk::{Lba, SECTOR_BYTES, Sectors};

/// Columns of equal length: operation, offset in bytes, size in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a> {
    /// The operations, of a column of numbers by [`Code::column`].
    pub op: &'a [Code],
    /// Bytes from the start of the drive.
    pub offset: &'a [u64],
    /// Size in bytes; 0 for a zone action on all zones.
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
    /// The number of no operation in the column that `op` was made of.
    #[error(
        "command {row}: operation {code} is not known; use 0 read, 1 write, 2 flush, 3 trim, 4 write with FUA, \
         5 open zone, 6 close zone, 7 finish zone, 8 reset zone, 9 append",
        row = .0.row, code = .0.code
    )]
    Operation(#[from] UnknownCode),
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

    /// Where a command begins; `None` behind the last one.
    #[inline]
    pub(crate) fn start(&self, index: usize) -> Option<Lba> {
        Some(Lba(*self.offset.get(index)? / SECTOR_BYTES))
    }

    /// The command of a row, on a drive of `capacity`.
    #[inline]
    pub(crate) fn command(&self, index: usize, capacity: impl Fn() -> Sectors) -> Command {
        let id = CommandId(index as u32);
        match self.op[index].operation() {
            // Its offset and size are ignored.
            (Op::Flush, _) => Command { id, ..Command::FLUSH },
            (op, flags) => {
                let all = op.is_zone_action() && self.size[index] == 0;
                let (offset, size) = match all {
                    true => (0, capacity().bytes()),
                    false => (self.offset[index], self.size[index].into()),
                };
                Command { id, flags, ..Command::of_bytes(op, offset, size) }
            }
        }
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
        for (index, ((&code, &offset), &size)) in commands {
            check_command(index, code, offset, size, end)?;
        }
        Ok(())
    }
}

#[inline]
fn check_command(index: usize, code: Code, offset: u64, size: u32, end: u64) -> Result<(), BatchError> {
    let (op, _) = code.operation();
    let aligned = (offset | u64::from(size)).is_multiple_of(SECTOR_BYTES);
    let in_range = offset < end && u64::from(size) <= end - offset;
    let sized = size > 0 || op.is_zone_action();
    if op == Op::Flush || (aligned && in_range && sized) {
        return Ok(());
    }
    Err(if !sized {
        BatchError::Empty(index)
    } else if !aligned {
        BatchError::Alignment(index, offset, size)
    } else {
        BatchError::Range(index, offset, size, end)
    })
}
