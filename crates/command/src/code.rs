//! The numbers of operations in the column `op` of a batch: a contract with Python (`skylight/evidence.py`).

use crate::{Flags, Op};

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

/// The operation of a code, and its flags; `None` for an unknown code.
#[inline]
pub const fn decode(code: u8) -> Option<(Op, Flags)> {
    Some(match code {
        READ => (Op::Read, Flags::NONE),
        WRITE => (Op::Write, Flags::NONE),
        FLUSH => (Op::Flush, Flags::NONE),
        TRIM => (Op::Trim, Flags::NONE),
        WRITE_FUA => (Op::Write, Flags { fua: true, ..Flags::NONE }),
        _ => return None,
    })
}
