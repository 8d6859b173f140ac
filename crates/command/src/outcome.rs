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

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, thiserror::Error)]
pub enum Failure {
    /// The drive has no such command.
    #[error("unsupported")]
    Unsupported,
    /// A write to an earlier track destroyed the sectors.
    #[error("overwritten")]
    Overwritten,
    /// The medium cannot be read or written.
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
