//! Errors with which commands fail, for every front door: a subset of the errno values of Linux, by name and
//! number.
//!
//! Invariant: a front door maps these to the errors of its protocol and uses no others.
//! Source: errno(3).

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

impl From<&std::io::Error> for Errno {
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::NoSpace,
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::NotPermitted,
            Kind::OutOfMemory => Self::NoMemory,
            Kind::Unsupported => Self::NotSupported,
            _ => Self::Io,
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
