//! The numbers of operations in the column `op` of a batch, and of results in the column `result` of a log: a contract
//! with Python (`skylight/evidence.py`).

use skylight_disk::SECTOR_BYTES;

use crate::{Flags, Op, Outcome, ZoneAction};

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
/// Open the zone that is the extent; a size of 0 means all zones, here and in the other zone actions.
pub const OPEN_ZONE: u8 = 5;
/// Close a zone.
pub const CLOSE_ZONE: u8 = 6;
/// Finish a zone.
pub const FINISH_ZONE: u8 = 7;
/// Reset the write pointer of a zone.
pub const RESET_ZONE: u8 = 8;
/// Append to the zone that begins at the offset.
pub const APPEND: u8 = 9;

/// The operation of a code, and its flags; `None` for an unknown code.
#[inline]
pub const fn decode(code: u8) -> Option<(Op, Flags)> {
    Some(match code {
        READ => (Op::Read, Flags::NONE),
        WRITE => (Op::Write, Flags::NONE),
        FLUSH => (Op::Flush, Flags::NONE),
        TRIM => (Op::Trim, Flags::NONE),
        WRITE_FUA => (Op::Write, Flags { fua: true, ..Flags::NONE }),
        OPEN_ZONE => (Op::Zone(ZoneAction::Open), Flags::NONE),
        CLOSE_ZONE => (Op::Zone(ZoneAction::Close), Flags::NONE),
        FINISH_ZONE => (Op::Zone(ZoneAction::Finish), Flags::NONE),
        RESET_ZONE => (Op::Zone(ZoneAction::Reset), Flags::NONE),
        APPEND => (Op::Append, Flags::NONE),
        _ => return None,
    })
}

/// The result of a command in the column `result` of a log: 0 when it is done, [`Failure::code`](crate::Failure::code) when
/// it failed, and for an append the byte at which its data begins. Failures are numbers below 512, and data begins at
/// whole sectors.
#[inline]
pub const fn result(outcome: Outcome) -> u64 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Appended(at) => at.0 * SECTOR_BYTES,
        Outcome::Failed(failure) => failure.code() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    #[test]
    fn a_result_is_a_sector_or_a_failure() {
        let failures = Failure::ALL.map(|failure| result(Outcome::Failed(failure)));
        assert!(failures.iter().all(|&code| (1..SECTOR_BYTES).contains(&code)), "{failures:?}");
        assert!(failures.windows(2).all(|pair| pair[0] + 1 == pair[1]), "numbered in order: {failures:?}");
        assert_eq!(result(Outcome::Appended(skylight_disk::Lba(3))), 3 * SECTOR_BYTES);
        assert_eq!(result(Outcome::Done), 0);
    }
}
