//! A batch of I/O as columns, and its validation.
//!
//! Invariants: a batch that passes [`Columns::check`] can be submitted without further checks; every row is
//! checked before the first I/O, so an invalid last row costs no I/O.

use skylight_command::Op;
use skylight_command::code::Code;

use crate::error::ColumnError;

/// The largest supported queue depth.
pub const MAX_DEPTH: usize = 1024;
/// The largest single I/O, bytes.
pub const MAX_IO_BYTES: u32 = 32 << 20;
/// The most memory for the buffers of one direction, bytes.
pub const MAX_BUFFERS_BYTES: usize = 512 << 20;

/// The limits of a target that a batch is checked against.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// The target's size, bytes.
    pub size_bytes: u64,
    /// Its logical block, bytes.
    pub block_bytes: u32,
    /// Whether it was opened for writing.
    pub can_write: bool,
}

/// A batch of I/O as columns, one row per I/O, submitted in this order.
#[derive(Clone, Copy, Debug)]
pub struct Columns<'a> {
    /// The operations, of a column of numbers by [`Code::column`].
    pub op: &'a [Code],
    /// Byte offsets.
    pub offset: &'a [u64],
    /// Sizes in bytes.
    pub size: &'a [u32],
}

/// The buffers that a checked batch needs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// I/Os in flight at once: the queue depth, or the number of rows if that is less.
    pub slots: usize,
    /// The largest read, bytes.
    pub read_bytes: u32,
    /// The largest write, bytes.
    pub write_bytes: u32,
}

impl Needs {
    /// The needs that cover both, or `self` alone if both together would take too much memory.
    pub fn joined(&self, other: &Self) -> Self {
        let both = Self {
            slots: self.slots.max(other.slots),
            read_bytes: self.read_bytes.max(other.read_bytes),
            write_bytes: self.write_bytes.max(other.write_bytes),
        };
        let largest = both.read_bytes.max(both.write_bytes) as usize;
        if both.slots.saturating_mul(largest) > MAX_BUFFERS_BYTES { *self } else { both }
    }
}

impl Columns<'_> {
    /// Rows `first` to `last` (exclusive).
    pub(crate) fn part(&self, first: usize, last: usize) -> Self {
        Self { op: &self.op[first..last], offset: &self.offset[first..last], size: &self.size[first..last] }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.op.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.op.is_empty()
    }

    /// Checks every row against the target's limits; gives the buffers that they need.
    pub(crate) fn check(&self, depth: usize, limits: &Limits) -> Result<Needs, ColumnError> {
        let rows = self.op.len();
        if self.offset.len() != rows || self.size.len() != rows {
            return Err(ColumnError::Length { op: rows, offset: self.offset.len(), size: self.size.len() });
        }
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(ColumnError::Depth { depth });
        }
        let mut needs = Needs { slots: depth.min(rows), ..Needs::default() };
        for row in 0..rows {
            let largest = match self.check_row(row, limits)? {
                Op::Read => &mut needs.read_bytes,
                Op::Write | Op::Append => &mut needs.write_bytes,
                _ => continue,
            };
            *largest = (*largest).max(self.size[row]);
        }
        let size = needs.read_bytes.max(needs.write_bytes);
        if needs.slots.saturating_mul(size as usize) > MAX_BUFFERS_BYTES {
            return Err(ColumnError::Buffers { depth: needs.slots, size });
        }
        Ok(needs)
    }

    /// Checks a row; gives its operation.
    fn check_row(&self, row: usize, limits: &Limits) -> Result<Op, ColumnError> {
        let ((op, _), offset, size) = (self.op[row].operation(), self.offset[row], self.size[row]);
        if op == Op::Trim {
            return Err(ColumnError::Trim { row });
        }
        if op != Op::Read && !limits.can_write {
            return Err(ColumnError::NotWritable { row, op });
        }
        // A zone action without a size is for all zones.
        if op == Op::Flush || (op.is_zone_action() && size == 0) {
            return Ok(op);
        }
        if size == 0 || (size > MAX_IO_BYTES && !op.is_zone_action()) {
            return Err(ColumnError::Size { row, size });
        }
        let block = limits.block_bytes;
        if offset % u64::from(block) != 0 || size % block != 0 {
            return Err(ColumnError::Misaligned { row, offset, size, block });
        }
        match offset.checked_add(u64::from(size)) {
            Some(end) if end <= limits.size_bytes => Ok(op),
            _ => Err(ColumnError::OutOfRange { row, offset, size, capacity: limits.size_bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { size_bytes: 1 << 30, block_bytes: 512, can_write: true };

    fn check(op: Code, offset: u64, size: u32) -> Result<Needs, ColumnError> {
        let columns = Columns { op: &[Code::Read, op], offset: &[0, offset], size: &[512, size] };
        columns.check(4, &LIMITS)
    }

    #[test]
    fn the_last_block_is_in_range_and_the_next_is_not() {
        assert!(check(Code::Read, (1 << 30) - 512, 512).is_ok());
        let error = check(Code::Write, (1 << 30) - 512, 1024);
        assert!(matches!(error, Err(ColumnError::OutOfRange { row: 1, .. })));
        let error = check(Code::Write, u64::MAX - 511, 512);
        assert!(matches!(error, Err(ColumnError::OutOfRange { row: 1, .. })));
    }

    #[test]
    fn each_bad_row_is_named() {
        assert!(matches!(check(Code::Read, 100, 512), Err(ColumnError::Misaligned { row: 1, .. })));
        assert!(matches!(check(Code::Read, 512, 513), Err(ColumnError::Misaligned { row: 1, .. })));
        assert_eq!(check(Code::Read, 0, 0), Err(ColumnError::Size { row: 1, size: 0 }));
        assert!(matches!(check(Code::Write, 0, MAX_IO_BYTES + 512), Err(ColumnError::Size { row: 1, .. })));
        assert_eq!(check(Code::Trim, 0, 512), Err(ColumnError::Trim { row: 1 }));
        assert_eq!(check(Code::WriteFua, 0, 512), check(Code::Write, 0, 512));
    }

    #[test]
    fn zone_actions_are_for_a_zone_or_for_all() {
        for op in [Code::OpenZone, Code::CloseZone, Code::FinishZone, Code::ResetZone] {
            assert_eq!(check(op, 0, 0), check(Code::Flush, 0, 0), "needs no buffer");
            assert_eq!(check(op, 256 << 20, 256 << 20), check(Code::Flush, 0, 0));
            assert!(matches!(check(op, 100, 512), Err(ColumnError::Misaligned { row: 1, .. })));
            assert!(matches!(check(op, 1 << 30, 512), Err(ColumnError::OutOfRange { row: 1, .. })));
            let columns = Columns { op: &[op], offset: &[0], size: &[0] };
            let reader = Limits { can_write: false, ..LIMITS };
            assert!(matches!(columns.check(1, &reader), Err(ColumnError::NotWritable { row: 0, .. })));
        }
        assert_eq!(check(Code::Append, 0, 4096), check(Code::Write, 0, 4096));
        assert!(matches!(check(Code::Append, 0, 0), Err(ColumnError::Size { row: 1, .. })));
    }

    #[test]
    fn a_read_only_target_rejects_writes_and_flushes() {
        let limits = Limits { can_write: false, ..LIMITS };
        for (op, code) in [(Op::Write, Code::Write), (Op::Flush, Code::Flush)] {
            let columns = Columns { op: &[code], offset: &[0], size: &[512] };
            assert_eq!(columns.check(1, &limits), Err(ColumnError::NotWritable { row: 0, op }));
        }
    }

    #[test]
    fn a_device_does_all_but_trim() {
        let refused: Vec<_> = Code::ALL.into_iter().filter(|&op| check(op, 0, 512).is_err()).collect();
        assert_eq!(refused, [Code::Trim]);
    }

    #[test]
    fn an_unknown_operation_is_named_in_one_line() {
        let error = ColumnError::from(Code::column(&[0, 99]).expect_err("a number of no operation"));
        let line = "row 1: unknown operation 99; take a code of READ, WRITE, FLUSH, APPEND or a zone action";
        assert_eq!(error.to_string(), line);
    }

    #[test]
    fn joined_needs_cover_both_while_memory_lasts() {
        let reads = Needs { slots: 1, read_bytes: 8192, write_bytes: 0 };
        let writes = Needs { slots: 32, read_bytes: 0, write_bytes: 4096 };
        let both = Needs { slots: 32, read_bytes: 8192, write_bytes: 4096 };
        assert_eq!(reads.joined(&writes), both);
        let deep = Needs { slots: MAX_DEPTH, read_bytes: 512, write_bytes: 0 };
        let large = Needs { slots: 1, read_bytes: MAX_IO_BYTES, write_bytes: 0 };
        assert_eq!(large.joined(&deep), large);
    }

    #[test]
    fn depth_length_and_buffers_are_bounded() {
        let columns = Columns { op: &[Code::Read], offset: &[0], size: &[512] };
        for depth in [0, MAX_DEPTH + 1] {
            assert_eq!(columns.check(depth, &LIMITS), Err(ColumnError::Depth { depth }));
        }
        let uneven = Columns { size: &[], ..columns };
        assert!(matches!(uneven.check(1, &LIMITS), Err(ColumnError::Length { .. })));
        let many = vec![Code::Read; MAX_DEPTH];
        let large = Columns { op: &many, offset: &vec![0; MAX_DEPTH], size: &vec![4 << 20; MAX_DEPTH] };
        assert!(matches!(large.check(MAX_DEPTH, &LIMITS), Err(ColumnError::Buffers { .. })));
        assert_eq!(large.check(16, &LIMITS), Ok(Needs { slots: 16, read_bytes: 4 << 20, write_bytes: 0 }));
    }
}
