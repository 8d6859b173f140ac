//! From a request on the wire to a command that the core takes.
//!
//! What is NBD's own is looked at here: the type, the flags, what was negotiated, replies in one chunk. The rest is
//! [`core::validate`](crate::core::validate). Everything is decided before anything is dispatched.
//!
//! Source: the NBD protocol, "Request types", "Command flags", "Block sizes" and "Error values": what is unknown or was not
//! negotiated is EINVAL.

use crate::core::{BadExtent, Command, Errno, Flags, Op, PIECE_BYTES, Shape, validate, validate_extent};
use crate::nbd::Session;
use crate::nbd::wire::command_flag::{DF, FAST_ZERO, FUA, NO_HOLE, REQ_ONE};
use crate::nbd::wire::{RawRequest, command};

/// A request that makes sense.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asked {
    /// A command for the backend.
    Command(Command),
    /// What the blocks of an extent are like; one run of each context is enough if so asked.
    BlockStatus {
        /// Bytes.
        offset: u64,
        /// Bytes.
        len: u64,
        /// One run is enough.
        one: bool,
    },
    /// The client goes.
    Disconnect,
}

/// The command of the backend and the flags that may come with it; none for other requests.
fn known(kind: u16) -> Option<(Option<Op>, u16)> {
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
    // FUA is valid on every command; most do nothing with it.
    .map(|(op, flags)| (op, flags | FUA))
}

/// Decides what a request is.
///
/// # Errors
/// The error of the reply to it.
pub fn decode(raw: &RawRequest, session: &Session, shape: &Shape) -> Result<Asked, Errno> {
    if raw.kind == command::DISC {
        // The client is gone whatever it filled in.
        return Ok(Asked::Disconnect);
    }
    let (op, flags) = known(raw.kind).ok_or(Errno::Invalid)?;
    let has = |flag| raw.flags & flag != 0;
    if raw.flags & !flags != 0 || (has(DF) && !session.structured) {
        return Err(Errno::Invalid);
    }
    let (offset, len) = (raw.offset, u64::from(raw.len));
    let Some(op) = op else {
        validate_extent(offset, len, shape)
            .map_err(|(BadExtent::PastEnd | BadExtent::NotBlocks)| Errno::Invalid)?;
        let one = has(REQ_ONE);
        let agreed = session.structured && !session.contexts.is_empty();
        return if agreed { Ok(Asked::BlockStatus { offset, len, one }) } else { Err(Errno::Invalid) };
    };
    let flags = Flags { fua: has(FUA), no_hole: has(NO_HOLE), fast_zero: has(FAST_ZERO) };
    let asked = validate(op, flags, offset, len, shape)?;
    if has(DF) && raw.len as usize > PIECE_BYTES {
        return Err(Errno::Overflow);
    }
    Ok(Asked::Command(asked))
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

    fn check(raw: &RawRequest) -> Result<Asked, Errno> {
        let session = Session { structured: true, contexts: vec![StatusQuery::Allocation], tls: false };
        decode(raw, &session, &Shape::drive("d", SIZE))
    }

    #[test]
    fn each_fault_has_its_error() {
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
    fn what_was_not_agreed_upon_is_refused() {
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
    fn a_read_in_one_chunk_is_bounded() {
        let session = Session { structured: true, ..Session::default() };
        let shape = Shape::drive("d", 1 << 40);
        let read = |flags, len| decode(&raw(command::READ, flags, 0, len), &session, &shape);
        assert_eq!(read(command_flag::DF, (1 << 20) + 512), Err(Errno::Overflow));
        assert!(read(command_flag::DF, 1 << 20).is_ok() && read(0, MAX_TRANSFER_BYTES).is_ok());
        assert_eq!(read(0, MAX_TRANSFER_BYTES + 512), Err(Errno::Invalid));
    }

    #[test]
    fn fua_counts_where_something_is_written() {
        let fua = |kind| match check(&raw(kind, command_flag::FUA, 0, 512)) {
            Ok(Asked::Command(asked)) => asked.flags.fua,
            other => panic!("{other:?}"),
        };
        assert!(fua(command::WRITE) && fua(command::TRIM) && fua(command::WRITE_ZEROES));
        assert!(!fua(command::READ));
    }
}
