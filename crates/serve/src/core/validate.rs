//! Validation of commands, for every front door and protocol.
//!
//! A front door decodes its request, checks the flags of its protocol, and calls [`validate`], which builds the [`Command`].
//! Only here do bytes become sectors. A backend does not validate again.
//!
//! Invariant: the extent of a validated command lies on the drive and is whole blocks, with at most
//! [`MAX_TRANSFER_BYTES`] of data; on a read-only drive the command changes no data.
//! Source of the errors: Linux block devices. A write past the end fails with ENOSPC, any other command past the end with
//! EINVAL, a change of a read-only device with EPERM.

use super::{Command, Errno, Flags, Op, Shape};

/// The longest read or write, bytes: what the NBD protocol allows clients that negotiate no limit, and more than Linux
/// puts into one request of a block device.
pub const MAX_TRANSFER_BYTES: u32 = 32 << 20;

/// The operations that front doors decode.
pub const OFFERED: [Op; 6] = [Op::Read, Op::Write, Op::Flush, Op::Trim, Op::WriteZeroes, Op::Cache];

/// Why an extent is invalid for a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadExtent {
    /// It ends past the end of the drive.
    PastEnd,
    /// It is empty or not whole blocks.
    NotBlocks,
}

/// Checks that an extent is whole blocks and lies on the drive.
///
/// # Errors
/// See [`BadExtent`].
pub fn validate_extent(offset: u64, len: u64, shape: &Shape) -> Result<(), BadExtent> {
    if offset > shape.size || len > shape.size - offset {
        return Err(BadExtent::PastEnd);
    }
    if len == 0 || !(offset | len).is_multiple_of(u64::from(shape.block)) {
        return Err(BadExtent::NotBlocks);
    }
    Ok(())
}

/// Validates and builds a command; drops FUA if it changes no data.
///
/// # Errors
/// The error with which the command fails.
pub fn validate(op: Op, flags: Flags, offset: u64, len: u64, shape: &Shape) -> Result<Command, Errno> {
    if op == Op::Flush {
        let empty = offset == 0 && len == 0;
        return if empty { Ok(Command::FLUSH) } else { Err(Errno::Invalid) };
    }
    if op == Op::Append {
        // No protocol asks for one, and no served drive does it: the bytes go where a plan says, at a write pointer that
        // is known only then.
        return Err(Errno::NotSupported);
    }
    if op.changes_data() && shape.read_only {
        return Err(Errno::NotPermitted);
    }
    match validate_extent(offset, len, shape) {
        Err(BadExtent::PastEnd) if op.changes_data() && op != Op::Trim => return Err(Errno::NoSpace),
        Err(BadExtent::PastEnd | BadExtent::NotBlocks) => return Err(Errno::Invalid),
        Ok(()) => {}
    }
    let command = Command { flags, ..Command::of_bytes(op, offset, len) };
    if command.data_bytes() > u64::from(MAX_TRANSFER_BYTES) {
        return Err(Errno::Invalid);
    }
    Ok(command.with_fua(flags.fua && op.changes_data()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_has_its_error() {
        const SIZE: u64 = 1 << 40;
        let shape = Shape::drive("d", SIZE);
        let read_only = Shape { read_only: true, ..shape.clone() };
        let most = u64::from(MAX_TRANSFER_BYTES);
        for (op, offset, len, error) in [
            (Op::Read, 0, most, None),
            (Op::Read, 0, most + 512, Some(Errno::Invalid)),
            (Op::Trim, 0, most + 512, None),
            (Op::Write, SIZE - 512, 1024, Some(Errno::NoSpace)),
            (Op::WriteZeroes, SIZE, 512, Some(Errno::NoSpace)),
            (Op::Trim, u64::MAX - 511, 512, Some(Errno::Invalid)),
            (Op::Cache, SIZE - 512, u64::MAX, Some(Errno::Invalid)),
            (Op::Write, 1, 512, Some(Errno::Invalid)),
            (Op::Read, 0, 0, Some(Errno::Invalid)),
            (Op::Flush, 0, 0, None),
            (Op::Flush, 0, 512, Some(Errno::Invalid)),
            (Op::Append, 0, 4096, Some(Errno::NotSupported)),
        ] {
            let refused = validate(op, Flags::NONE, offset, len, &shape).err();
            assert_eq!(refused, error, "{op} {offset} {len}");
        }
        let on_read_only = |op| validate(op, Flags::NONE, 0, 512, &read_only);
        assert_eq!(on_read_only(Op::Write), Err(Errno::NotPermitted));
        assert!(on_read_only(Op::Read).is_ok());
    }

    #[test]
    fn fua_counts_where_something_is_written() {
        let shape = Shape::drive("d", 1 << 20);
        for (op, counts) in [(Op::Write, true), (Op::Trim, true), (Op::WriteZeroes, true), (Op::Read, false)]
        {
            let flags = Flags { fua: true, ..Flags::NONE };
            let command = validate(op, flags, 0, 512, &shape);
            assert_eq!(command.map(|command| command.flags.fua), Ok(counts), "{op}");
        }
    }
}
