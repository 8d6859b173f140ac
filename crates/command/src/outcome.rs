//! What a host gets back for a command.

use std::io::ErrorKind;

use skylight_disk::Lba;

/// How a command ended: its status, with what the completion carries beside the data.
///
/// The data of a read goes through the host's buffer. Which sectors of a read failed is in the steps of its plan
/// (`layer/plan.rs`); one that failed makes the command fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    /// Done.
    Done,
    /// An append is done; its data begins here.
    Appended(Lba),
    /// It failed.
    Failed(Failure),
}

impl Outcome {
    /// The status without the payload.
    ///
    /// # Errors
    /// When the command failed.
    pub const fn status(self) -> Result<(), Failure> {
        match self {
            Self::Done | Self::Appended(_) => Ok(()),
            Self::Failed(failure) => Err(failure),
        }
    }
}

impl From<Result<(), Failure>> for Outcome {
    /// Of a command whose completion has no payload.
    fn from(status: Result<(), Failure>) -> Self {
        status.map_or_else(Self::Failed, |()| Self::Done)
    }
}

/// Why a command failed. Numbers are additional sense codes of SPC-5, annex F; those of zones are the ones that ZBC-2 names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Failure {
    /// The drive has no such command.
    #[error("unsupported")]
    Unsupported,
    /// A write to an earlier track destroyed the sectors.
    #[error("overwritten")]
    Overwritten,
    /// These sectors of the medium cannot be read or written; others can.
    #[error("medium error")]
    Medium,
    /// The medium has no space left.
    #[error("no space")]
    NoSpace,
    /// The medium may not be changed.
    #[error("not permitted")]
    NotPermitted,
    /// There is no memory to do it.
    #[error("no memory")]
    NoMemory,
    /// A write that does not begin at the write pointer of its zone (21h/04h).
    #[error("unaligned write command")]
    UnalignedWrite,
    /// A write beyond the end of its zone, or of the capacity of its zone (21h/05h).
    #[error("write boundary violation")]
    WriteBoundary,
    /// A read of sectors beyond a write pointer, or of zones of several types (21h/06h).
    #[error("attempt to read invalid data")]
    ReadInvalidData,
    /// A read beyond the end of its zone (21h/07h).
    #[error("read boundary violation")]
    ReadBoundary,
    /// More zones would be open or active than the drive can have (55h/0Eh).
    #[error("insufficient zone resources")]
    InsufficientZoneResources,
    /// The zone may not be changed any more (27h/08h).
    #[error("zone is read only")]
    ZoneReadOnly,
    /// The zone can neither be read nor written any more (2Ch/0Eh).
    #[error("zone is offline")]
    ZoneOffline,
    /// The extent is no zone, not one that the command is for, or full (24h/00h).
    #[error("invalid field in CDB")]
    InvalidField,
    /// The drive itself failed, not some sectors of its medium (44h/00h).
    #[error("internal target failure")]
    Internal,
    /// The drive was shut down, or its host is gone, before the command was done (sense key Bh).
    #[error("aborted command")]
    Aborted,
    /// There are no such sectors (21h/00h).
    #[error("logical block address out of range")]
    OutOfRange,
}

impl Failure {
    /// Every failure, in the order of their numbers.
    pub const ALL: [Self; 17] = [
        Self::Unsupported,
        Self::Overwritten,
        Self::Medium,
        Self::NoSpace,
        Self::NotPermitted,
        Self::NoMemory,
        Self::UnalignedWrite,
        Self::WriteBoundary,
        Self::ReadInvalidData,
        Self::ReadBoundary,
        Self::InsufficientZoneResources,
        Self::ZoneReadOnly,
        Self::ZoneOffline,
        Self::InvalidField,
        Self::Internal,
        Self::Aborted,
        Self::OutOfRange,
    ];

    /// The number in the column `result` of a log, from 1 on (`skylight/evidence.py`).
    #[inline]
    pub const fn code(self) -> u8 {
        self as u8 + 1
    }
}

impl From<ErrorKind> for Failure {
    /// What an error of the file or device under a drive is to a command.
    fn from(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => Self::NoSpace,
            ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => Self::NotPermitted,
            ErrorKind::OutOfMemory => Self::NoMemory,
            ErrorKind::Unsupported => Self::Unsupported,
            _ => Self::Medium,
        }
    }
}
