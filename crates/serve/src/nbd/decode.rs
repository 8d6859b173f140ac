//! Decodes requests on the wire into commands of the core.
//!
//! This module checks what is specific to NBD: the request type, the flags, what was negotiated, and the size
//! of single-chunk replies. [`core::validate`](crate::core::validate) checks the rest. All checks precede
//! execution.
//!
//! Source: the NBD protocol, "Request types", "Command flags", "Block sizes" and "Error values": a type or
//! flag that is unknown or was not negotiated is EINVAL.

use crate::core::{BadExtent, Command, Errno, Flags, Op, PIECE_BYTES, Shape, validate, validate_extent};
use crate::nbd::Session;
use crate::nbd::wire::command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
use crate::nbd::wire::{RawRequest, command};

/// A valid request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded {
    /// A command for the backend.
    Command(Command),
    /// The status of the blocks of an extent.
    BlockStatus {
        /// Offset, bytes.
        offset: u64,
        /// Length, bytes.
        len: u64,
        /// Report only one extent per context.
        one: bool,
    },
    /// The client disconnects.
    Disconnect,
}

/// The backend operation, if any, and the flags that a request type allows; `None` for unknown types.
fn op_and_flags(kind: u16) -> Option<(Option<Op>, u16)> {
    Some(match kind {
        command::READ => (Some(Op::Read), DF),
        command::WRITE => (Some(Op::Write), 0),
        command::FLUSH => (Some(Op::Flush), 0),
        command::TRIM => (Some(Op::Trim), 0),
        command::CACHE => (Some(Op::Cache), 0),
        command::WRITE_ZEROES => (Some(Op::WriteZeroes), NO_HOLE | FAST_ZERO),
        command::BLOCK_STATUS => (None, REQ_ONE),
        command::DISC => (None, 0),
        _ => return None,
    })
    // FUA is valid on every command; most ignore it.
    .map(|(op, flags)| (op, flags | FUA))
}

/// Decodes and validates a request.
///
/// # Errors
/// The error of the reply to it.
pub fn decode(raw: &RawRequest, session: &Session, shape: &Shape) -> Result<Decoded, Errno> {
    if raw.kind == command::DISC {
        // The client disconnects whatever the other fields hold.
        return Ok(Decoded::Disconnect);
    }
    let (op, flags) = op_and_flags(raw.kind).ok_or(Errno::Invalid)?;
    let has = |flag| raw.flags & flag != 0;
    if raw.flags & !flags != 0 || (has(DF) && !session.structured) {
        return Err(Errno::Invalid);
    }
    let (offset, len) = (raw.offset, u64::from(raw.len));
    let Some(op) = op else {
        validate_extent(offset, len, shape)
            .map_err(|(BadExtent::PastEnd | BadExtent::NotBlocks)| Errno::Invalid)?;
        let one = has(REQ_ONE);
        let negotiated = session.structured && !session.contexts.is_empty();
        return if negotiated { Ok(Decoded::BlockStatus { offset, len, one }) } else { Err(Errno::Invalid) };
    };
    let flags = Flags { fua: has(FUA), no_hole: has(NO_HOLE), fast_zero: has(FAST_ZERO) };
    let decoded = validate(op, flags, offset, len, shape)?;
    if has(DF) && raw.len as usize > PIECE_BYTES {
        return Err(Errno::Overflow);
    }
    Ok(Decoded::Command(decoded))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::{MAX_TRANSFER_BYTES, StatusQuery};
    use crate::nbd::wire::command_flag;

    const SIZE: u64 = 1 << 20;

    fn raw(kind: u16, flags: u16, offset: u64, len: u32) -> RawRequest {
        RawRequest { flags, kind, cookie: 1, offset, len }
    }

    fn check(raw: &RawRequest) -> Result<Decoded, Errno> {
        let session = Session { structured: true, contexts: vec![StatusQuery::Allocation], tls: false };
        decode(raw, &session, &Shape::drive("d", SIZE))
    }

    #[test]
    fn invalid_requests_fail_with_the_errors_of_the_protocol() {
        use command::{BLOCK_STATUS, CACHE, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
        for (kind, flags, offset, len, errno) in [
            (READ, 0, SIZE, 512, Errno::Invalid),
            (READ, 0, SIZE - 512, 1024, Errno::Invalid),
            (WRITE, 0, SIZE - 512, 1024, Errno::NoSpace),
            (WRITE_ZEROES, 0, 512, SIZE as u32, Errno::NoSpace),
            (TRIM, 0, u64::MAX - 511, 512, Errno::Invalid),
            (CACHE, 0, u64::MAX, u32::MAX, Errno::Invalid),
            (BLOCK_STATUS, 0, 0, SIZE as u32 + 512, Errno::Invalid),
            (READ, 0, 0, 0, Errno::Invalid),
            (WRITE, 0, 1, 512, Errno::Invalid),
            (WRITE, 0, 0, 100, Errno::Invalid),
            (READ, command_flag::NO_HOLE, 0, 512, Errno::Invalid),
            (WRITE, 1 << 9, 0, 512, Errno::Invalid),
            (FLUSH, 0, 0, 512, Errno::Invalid),
            (8, 0, 0, 512, Errno::Invalid),
            (u16::MAX, 0, 0, 512, Errno::Invalid),
        ] {
            assert_eq!(check(&raw(kind, flags, offset, len)), Err(errno), "{kind} {flags} {offset} {len}");
        }
    }

    #[test]
    fn features_that_were_not_negotiated_are_refused() {
        let shape = Shape::drive("d", SIZE);
        let plain = Session::default();
        let (df, status) =
            (raw(command::READ, command_flag::DF, 0, 512), raw(command::BLOCK_STATUS, 0, 0, 512));
        assert_eq!(decode(&df, &plain, &shape), Err(Errno::Invalid));
        assert_eq!(decode(&status, &plain, &shape), Err(Errno::Invalid));
        assert!(check(&df).is_ok() && check(&status).is_ok());
        let read_only = Shape { read_only: true, ..shape };
        let write = raw(command::WRITE, 0, 0, 512);
        assert_eq!(decode(&write, &plain, &read_only), Err(Errno::NotPermitted));
    }

    #[test]
    fn a_single_chunk_read_is_bounded() {
        let session = Session { structured: true, ..Session::default() };
        let shape = Shape::drive("d", 1 << 40);
        let read = |flags, len| decode(&raw(command::READ, flags, 0, len), &session, &shape);
        assert_eq!(read(command_flag::DF, (1 << 20) + 512), Err(Errno::Overflow));
        assert!(read(command_flag::DF, 1 << 20).is_ok() && read(0, MAX_TRANSFER_BYTES).is_ok());
        assert_eq!(read(0, MAX_TRANSFER_BYTES + 512), Err(Errno::Invalid));
    }

    #[test]
    fn fua_is_kept_only_for_commands_that_write() {
        let fua = |kind| match check(&raw(kind, command_flag::FUA, 0, 512)) {
            Ok(Decoded::Command(decoded)) => decoded.flags.fua,
            other => panic!("{other:?}"),
        };
        assert!(fua(command::WRITE) && fua(command::TRIM) && fua(command::WRITE_ZEROES));
        assert!(!fua(command::READ));
    }
}
