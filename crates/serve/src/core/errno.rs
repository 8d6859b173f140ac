//! Why a command fails, for every front door: a few errors of Linux, by their names and numbers.
//!
//! What failed in the drive, its image or a file is a [`Failure`], and becomes an error here.
//!
//! Invariant: a front door turns these into the errors of its own protocol and knows no others.
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
    /// A command that makes no sense here.
    #[error("EINVAL")]
    Invalid = 22,
    /// No space left, or a write past the end.
    #[error("ENOSPC")]
    NoSpace = 28,
    /// Too large for one reply.
    #[error("EOVERFLOW")]
    Overflow = 75,
    /// Zeroes cannot be had faster than by writing them.
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
