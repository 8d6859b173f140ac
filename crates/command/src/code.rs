//! The numbers of operations in the column `op` of a batch, and of results in the column `result` of a log: a contract
//! with Python (`skylight/evidence.py`).
//!
//! Invariant: a column of numbers becomes operations once, where it comes in ([`Code::column`]); behind that none is
//! unknown.

use bytemuck::CheckedBitPattern;
use skylight_disk::SECTOR_BYTES;

use crate::{Flags, Op, Outcome, ZoneAction};

/// An operation in the column `op` of a batch: the value is its number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, CheckedBitPattern)]
#[repr(u8)]
pub enum Code {
    /// Read.
    Read = 0,
    /// Write.
    Write,
    /// Make all completed writes durable; offset and size are ignored.
    Flush,
    /// Discard an extent.
    Trim,
    /// Write that completes when durable (FUA).
    WriteFua,
    /// Open the zone that is the extent; a size of 0 means all zones, here and in the other zone actions.
    OpenZone,
    /// Close a zone.
    CloseZone,
    /// Finish a zone.
    FinishZone,
    /// Reset the write pointer of a zone.
    ResetZone,
    /// Append to the zone that begins at the offset.
    Append,
}

/// A number in a column that is no operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("row {row}: {code} is the number of no operation")]
pub struct UnknownCode {
    /// The first row that has one.
    pub row: usize,
    /// The number.
    pub code: u8,
}

impl Code {
    /// Every operation, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Read,
        Self::Write,
        Self::Flush,
        Self::Trim,
        Self::WriteFua,
        Self::OpenZone,
        Self::CloseZone,
        Self::FinishZone,
        Self::ResetZone,
        Self::Append,
    ];

    /// The operations of a column of numbers, without a copy.
    ///
    /// # Errors
    /// When a number is that of no operation.
    pub fn column(numbers: &[u8]) -> Result<&[Self], UnknownCode> {
        bytemuck::checked::try_cast_slice(numbers).map_err(|_| {
            let row = numbers.iter().take_while(|number| Self::is_valid_bit_pattern(number)).count();
            UnknownCode { row, code: numbers[row] }
        })
    }

    /// What a command of this code does, and how.
    #[inline]
    pub const fn operation(self) -> (Op, Flags) {
        match self {
            Self::Read => (Op::Read, Flags::NONE),
            Self::Write => (Op::Write, Flags::NONE),
            Self::Flush => (Op::Flush, Flags::NONE),
            Self::Trim => (Op::Trim, Flags::NONE),
            Self::WriteFua => (Op::Write, Flags { fua: true, ..Flags::NONE }),
            Self::OpenZone => (Op::Zone(ZoneAction::Open), Flags::NONE),
            Self::CloseZone => (Op::Zone(ZoneAction::Close), Flags::NONE),
            Self::FinishZone => (Op::Zone(ZoneAction::Finish), Flags::NONE),
            Self::ResetZone => (Op::Zone(ZoneAction::Reset), Flags::NONE),
            Self::Append => (Op::Append, Flags::NONE),
        }
    }
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

    /// The half of the contract that Python has.
    const PYTHON: &str = include_str!("../../../python/skylight/evidence.py");

    /// The lines of Python's source behind the one that begins so, up to the next that is not as far in.
    fn block(begins: &str) -> Vec<&'static str> {
        let behind = PYTHON.lines().skip_while(|line| !line.starts_with(begins)).skip(1);
        behind.take_while(|line| line.is_empty() || line.starts_with("    ")).map(str::trim).collect()
    }

    #[test]
    fn python_has_the_same_operations() {
        let members = block("class Op(IntEnum):").into_iter().filter_map(|line| line.split_once(" = "));
        let python: Vec<(String, u8)> = members
            .map(|(name, number)| (name.replace('_', "").to_lowercase(), number.parse().expect("a number")))
            .collect();
        let ours = Code::ALL.map(|code| (format!("{code:?}").to_lowercase(), code as u8));
        assert_eq!(python, ours);
    }

    #[test]
    fn python_has_the_same_failures() {
        let entries = block("FAILURES: dict[int, str] = {").into_iter();
        let python: Vec<String> = entries.take_while(|line| !line.is_empty()).map(str::to_owned).collect();
        let ours = Failure::ALL.map(|failure| format!("{}: \"{failure}\",", failure.code()));
        assert_eq!(python, ours);
    }

    #[test]
    fn a_column_has_the_operations_of_its_numbers_or_the_first_that_is_unknown() {
        let numbers: Vec<u8> = (0..10).collect();
        assert_eq!(Code::column(&numbers), Ok(&Code::ALL[..]));
        assert_eq!(Code::column(&[]), Ok(&[][..]));
        for code in 10..=u8::MAX {
            assert_eq!(Code::column(&[1, code, 0, 99]), Err(UnknownCode { row: 1, code }));
        }
    }

    #[test]
    fn each_code_is_an_operation_of_its_own() {
        for (index, code) in Code::ALL.into_iter().enumerate() {
            assert!(Code::ALL[..index].iter().all(|other| other.operation() != code.operation()), "{code:?}");
        }
        let forced: Vec<_> = Code::ALL.into_iter().filter(|code| code.operation().1 != Flags::NONE).collect();
        assert_eq!(forced, [Code::WriteFua]);
        assert_eq!(Code::WriteFua.operation(), (Op::Write, Flags { fua: true, ..Flags::NONE }));
    }

    #[test]
    fn a_result_is_a_sector_or_a_failure() {
        let failures = Failure::ALL.map(|failure| result(Outcome::Failed(failure)));
        assert!(failures.iter().all(|&code| (1..SECTOR_BYTES).contains(&code)), "{failures:?}");
        assert!(failures.windows(2).all(|pair| pair[0] + 1 == pair[1]), "numbered in order: {failures:?}");
        assert_eq!(result(Outcome::Appended(skylight_disk::Lba(3))), 3 * SECTOR_BYTES);
        assert_eq!(result(Outcome::Done), 0);
    }
}
