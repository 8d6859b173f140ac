//! Errors with which commands fail, for every front door: a subset of the errno values of Linux, by name and
//! number.
//!
//! A [`Failure`] of the drive, its image or a file becomes one of them here.
//!
//! Invariant: a front door maps these to the errors of its protocol and uses no others.
//! Source: errno(3).

use skylight_command::Failure;

/// Why a command failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum Errno {
    /// Not allowed: a write on what is read-only.
    #[error("EPERM")]
    NotPermitted = 1,
    /// The medium failed.
    #[error("EIO")]
    Io = 5,
    /// No memory.
    #[error("ENOMEM")]
    NoMemory = 12,
    /// The command is invalid.
    #[error("EINVAL")]
    Invalid = 22,
    /// No space left, or a write past the end.
    #[error("ENOSPC")]
    NoSpace = 28,
    /// Too large for one reply.
    #[error("EOVERFLOW")]
    Overflow = 75,
    /// Zeroing is not faster than writing zeroes.
    #[error("ENOTSUP")]
    NotSupported = 95,
    /// The server is going down.
    #[error("ESHUTDOWN")]
    Shutdown = 108,
}

impl Errno {
    /// Every error, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::NotPermitted,
        Self::Io,
        Self::NoMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::Shutdown,
    ];

    /// The number that Linux has for it.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The error of a name such as `EIO`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|errno| errno.to_string().eq_ignore_ascii_case(name))
    }
}

impl From<Failure> for Errno {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Unsupported => Self::NotSupported,
            Failure::Overwritten | Failure::Medium => Self::Io,
            // As the null_blk driver of Linux has it for whatever a zone refuses.
            Failure::UnalignedWrite
            | Failure::WriteBoundary
            | Failure::ReadInvalidData
            | Failure::ReadBoundary
            | Failure::InsufficientZoneResources
            | Failure::ZoneReadOnly
            | Failure::ZoneOffline
            | Failure::InvalidField
            | Failure::Internal => Self::Io,
            Failure::OutOfRange => Self::Invalid,
            Failure::Aborted => Self::Shutdown,
            Failure::NoSpace => Self::NoSpace,
            Failure::NotPermitted => Self::NotPermitted,
            Failure::NoMemory => Self::NoMemory,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_have_names() {
        assert_eq!(Errno::named("eio"), Some(Errno::Io));
        assert_eq!(Errno::named("EAGAIN"), None);
    }
}
