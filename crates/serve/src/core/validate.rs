//! Which commands reach what is served: the checks that every front door needs, whatever protocol it speaks.
//!
//! A front door turns its own request into a [`Request`], checks its own flags, and calls [`validate`]. A backend checks
//! nothing again.
//!
//! Invariant: a request that passes lies on the drive, is whole blocks, at most [`MAX_TRANSFER_BYTES`] long if it carries
//! data, and changes nothing on a drive that is read-only.
//! Source of the errors: what Linux block devices give. A write past the end is ENOSPC, anything else past the end EINVAL,
//! a change of what is read-only EPERM.

use super::{Errno, Op, Request, Shape};

/// The longest read or write, bytes: what the NBD protocol allows clients that negotiate no limit, and more than Linux
/// puts into one request of a block device.
pub const MAX_TRANSFER_BYTES: u32 = 32 << 20;

/// Why an extent is none of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadExtent {
    /// It ends past the end of the drive.
    PastEnd,
    /// It is empty, or not whole blocks.
    NotBlocks,
}

/// Checks that an extent is whole blocks of a drive.
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

/// Checks a command; FUA of one that writes nothing is dropped.
///
/// # Errors
/// The error with which the command fails.
pub fn validate(request: Request, shape: &Shape) -> Result<Request, Errno> {
    let Request { op, offset, len, .. } = request;
    if op == Op::Flush {
        let empty = offset == 0 && len == 0;
        return if empty { Ok(Request::new(Op::Flush, 0, 0)) } else { Err(Errno::Invalid) };
    }
    let changes = request.changes_bytes();
    if changes && shape.read_only {
        return Err(Errno::NotPermitted);
    }
    match validate_extent(offset, len, shape) {
        Err(BadExtent::PastEnd) if matches!(op, Op::Write | Op::WriteZeroes) => return Err(Errno::NoSpace),
        Err(BadExtent::PastEnd | BadExtent::NotBlocks) => return Err(Errno::Invalid),
        Ok(()) => {}
    }
    if request.data_len() > u64::from(MAX_TRANSFER_BYTES) {
        return Err(Errno::Invalid);
    }
    Ok(Request { fua: request.fua && changes, ..request })
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
        ] {
            let request = Request::new(op, offset, len);
            assert_eq!(validate(request, &shape).err(), error, "{request:?}");
        }
        let write = Request::new(Op::Write, 0, 512);
        assert_eq!(validate(write, &read_only), Err(Errno::NotPermitted));
        assert!(validate(Request::new(Op::Read, 0, 512), &read_only).is_ok());
    }

    #[test]
    fn fua_counts_where_something_is_written() {
        let shape = Shape::drive("d", 1 << 20);
        for (op, counts) in [(Op::Write, true), (Op::Trim, true), (Op::WriteZeroes, true), (Op::Read, false)]
        {
            let request = Request { fua: true, ..Request::new(op, 0, 512) };
            assert_eq!(validate(request, &shape).map(|request| request.fua), Ok(counts), "{op:?}");
        }
    }
}
