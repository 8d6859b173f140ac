//! A batch of I/O as columns, and its validation, which also decodes the operations: behind it no code is known.
//!
//! Invariants: a batch that passes [`Columns::check`] can be submitted without further checks; every row is
//! checked before the first I/O, so an invalid last row costs no I/O.

use skylight_command::{Flags, Op, code};

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
    /// Operation codes, see [`code`].
    pub op: &'a [u8],
    /// Byte offsets.
    pub offset: &'a [u64],
    /// Sizes in bytes.
    pub size: &'a [u32],
}

/// The operations of a checked batch, row by row, and the buffers that it needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The operations, with their flags.
    pub op: Vec<(Op, Flags)>,
    /// The buffers.
    pub needs: Needs,
}

/// Rows of a checked batch.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// The operations, with their flags.
    pub op: &'a [(Op, Flags)],
    /// Byte offsets.
    pub offset: &'a [u64],
    /// Sizes in bytes.
    pub size: &'a [u32],
}

impl Rows<'_> {
    /// Rows `first` to `last` (exclusive).
    pub fn part(&self, first: usize, last: usize) -> Self {
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
    /// Checks every row against the target's limits, and decodes the operations.
    pub fn check(&self, depth: usize, limits: &Limits) -> Result<Checked, ColumnError> {
        let rows = self.op.len();
        if self.offset.len() != rows || self.size.len() != rows {
            return Err(ColumnError::Length { op: rows, offset: self.offset.len(), size: self.size.len() });
        }
        if !(1..=MAX_DEPTH).contains(&depth) {
            return Err(ColumnError::Depth { depth });
        }
        let mut needs = Needs { slots: depth.min(rows), ..Needs::default() };
        let mut ops = Vec::with_capacity(rows);
        for row in 0..rows {
            let (op, flags) = self.check_row(row, limits)?;
            ops.push((op, flags));
            let largest = match op {
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
        Ok(Checked { op: ops, needs })
    }

    fn check_row(&self, row: usize, limits: &Limits) -> Result<(Op, Flags), ColumnError> {
        let (code, offset, size) = (self.op[row], self.offset[row], self.size[row]);
        let (op, flags) = match code::decode(code) {
            Some((op @ (Op::Read | Op::Flush | Op::Append), Flags { fua: false, .. })) => (op, Flags::NONE),
            Some((Op::Write, flags)) => (Op::Write, flags),
            Some((op, _)) if op.is_zone_action() => (op, Flags::NONE),
            Some((Op::Trim, _)) => return Err(ColumnError::Trim { row }),
            _ => return Err(ColumnError::UnknownOp { row, code }),
        };
        if op != Op::Read && !limits.can_write {
            return Err(ColumnError::NotWritable { row, op });
        }
        // A zone action without a size is for all zones.
        if op == Op::Flush || (op.is_zone_action() && size == 0) {
            return Ok((op, flags));
        }
        if size == 0 || (size > MAX_IO_BYTES && !op.is_zone_action()) {
            return Err(ColumnError::Size { row, size });
        }
        let block = limits.block_bytes;
        if offset % u64::from(block) != 0 || size % block != 0 {
            return Err(ColumnError::Misaligned { row, offset, size, block });
        }
        match offset.checked_add(u64::from(size)) {
            Some(end) if end <= limits.size_bytes => Ok((op, flags)),
            _ => Err(ColumnError::OutOfRange { row, offset, size, capacity: limits.size_bytes }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { size_bytes: 1 << 30, block_bytes: 512, can_write: true };

    fn check(op: u8, offset: u64, size: u32) -> Result<Needs, ColumnError> {
        let columns = Columns { op: &[0, op], offset: &[0, offset], size: &[512, size] };
        columns.check(4, &LIMITS).map(|checked| checked.needs)
    }

    #[test]
    fn the_last_block_is_in_range_and_the_next_is_not() {
        assert!(check(0, (1 << 30) - 512, 512).is_ok());
        let error = check(1, (1 << 30) - 512, 1024);
        assert!(matches!(error, Err(ColumnError::OutOfRange { row: 1, .. })));
        let error = check(1, u64::MAX - 511, 512);
        assert!(matches!(error, Err(ColumnError::OutOfRange { row: 1, .. })));
    }

    #[test]
    fn each_bad_row_is_named() {
        assert!(matches!(check(0, 100, 512), Err(ColumnError::Misaligned { row: 1, .. })));
        assert!(matches!(check(0, 512, 513), Err(ColumnError::Misaligned { row: 1, .. })));
        assert_eq!(check(0, 0, 0), Err(ColumnError::Size { row: 1, size: 0 }));
        assert!(matches!(check(1, 0, MAX_IO_BYTES + 512), Err(ColumnError::Size { row: 1, .. })));
        assert_eq!(check(3, 0, 512), Err(ColumnError::Trim { row: 1 }));
        assert_eq!(check(code::WRITE_FUA, 0, 512), check(code::WRITE, 0, 512));
        let code = u8::MAX;
        assert_eq!(check(code, 0, 512), Err(ColumnError::UnknownOp { row: 1, code }));
    }

    #[test]
    fn zone_actions_are_for_a_zone_or_for_all() {
        for op in [code::OPEN_ZONE, code::CLOSE_ZONE, code::FINISH_ZONE, code::RESET_ZONE] {
            assert_eq!(check(op, 0, 0), check(code::FLUSH, 0, 0), "needs no buffer");
            assert_eq!(check(op, 256 << 20, 256 << 20), check(code::FLUSH, 0, 0));
            assert!(matches!(check(op, 100, 512), Err(ColumnError::Misaligned { row: 1, .. })));
            assert!(matches!(check(op, 1 << 30, 512), Err(ColumnError::OutOfRange { row: 1, .. })));
            let columns = Columns { op: &[op], offset: &[0], size: &[0] };
            let reader = Limits { can_write: false, ..LIMITS };
            assert!(matches!(columns.check(1, &reader), Err(ColumnError::NotWritable { row: 0, .. })));
        }
        assert_eq!(check(code::APPEND, 0, 4096), check(code::WRITE, 0, 4096));
        assert!(matches!(check(code::APPEND, 0, 0), Err(ColumnError::Size { row: 1, .. })));
    }

    #[test]
    fn a_read_only_target_rejects_writes_and_flushes() {
        let limits = Limits { can_write: false, ..LIMITS };
        for (op, code) in [(Op::Write, code::WRITE), (Op::Flush, code::FLUSH)] {
            let columns = Columns { op: &[code], offset: &[0], size: &[512] };
            assert_eq!(columns.check(1, &limits), Err(ColumnError::NotWritable { row: 0, op }));
        }
    }

    #[test]
    fn the_check_decodes_what_a_device_can_do_and_nothing_else() {
        for code in 0..=u8::MAX {
            let columns = Columns { op: &[code], offset: &[0], size: &[512] };
            let decoded = code::decode(code).filter(|(op, _)| *op != Op::Trim);
            assert_eq!(columns.check(1, &LIMITS).ok().map(|checked| checked.op[0]), decoded, "{code}");
        }
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
        let columns = Columns { op: &[0], offset: &[0], size: &[512] };
        for depth in [0, MAX_DEPTH + 1] {
            assert_eq!(columns.check(depth, &LIMITS), Err(ColumnError::Depth { depth }));
        }
        let uneven = Columns { size: &[], ..columns };
        assert!(matches!(uneven.check(1, &LIMITS), Err(ColumnError::Length { .. })));
        let many = vec![0_u8; MAX_DEPTH];
        let large = Columns { op: &many, offset: &vec![0; MAX_DEPTH], size: &vec![4 << 20; MAX_DEPTH] };
        assert!(matches!(large.check(MAX_DEPTH, &LIMITS), Err(ColumnError::Buffers { .. })));
        let needs = large.check(16, &LIMITS).map(|checked| checked.needs);
        assert_eq!(needs, Ok(Needs { slots: 16, read_bytes: 4 << 20, write_bytes: 0 }));
    }
}
