//! Errors of images, each one line: the place, the problem, the remedy.

use std::fmt;
use std::io;
use std::path::PathBuf;

use skylight_drive::profile::ProfileError;
use skylight_host::Refusal;
use skylight_layer::Failure;

use crate::mismatch::mismatch_of;

/// The location of a checksum mismatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Byte offset in the image.
    pub at: u64,
    /// Bytes.
    pub len: u64,
    /// The first host sector, where known.
    pub first: Option<u64>,
}

impl fmt::Display for Wrong {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(first) = self.first {
            let last = first + self.len.div_ceil(skylight_disk::SECTOR_BYTES).max(1) - 1;
            write!(out, "sectors {first} to {last}, ")?;
        }
        write!(out, "{} bytes at byte {} of the image", self.len, self.at)
    }
}

/// Why an image was refused, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    /// A system call failed.
    #[error("{place}: cannot {action}: {source}")]
    Io {
        /// The file or device.
        place: String,
        /// The failed action.
        action: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Data differs from its checksum.
    #[error(
        "{place}: checksum mismatch: {wrong}: the file system or the medium has changed them; write these sectors \
         anew, or restore the image from a copy"
    )]
    Checksum {
        /// The file or device.
        place: String,
        /// Where.
        wrong: Wrong,
    },
    /// Checksums were requested on a block device.
    #[error(
        "{0}: checksums need a file, whose holes are zeros; leave out --checksums on, and put the image on \
         dm-integrity, or in a file"
    )]
    ChecksumsOnDevice(PathBuf),
    /// A scrub of an image without checksums.
    #[error(
        "{0}: was made without checksums, so its data cannot be checked; make an image with --checksums on"
    )]
    NoChecksums(String),
    /// Another process has locked it.
    #[error(
        "{0}: is in use: another skylight process serves or checks this image; stop that one, then try again"
    )]
    Locked(PathBuf),
    /// It exists and may not be overwritten.
    #[error("{0}: is not empty; name another file, or give --destroy-data to overwrite it")]
    NotEmpty(PathBuf),
    /// It is a block device, and overwriting its content was not requested.
    #[error(
        "{0}: holds no image of this drive; --destroy-data makes one there, and all that it holds is lost"
    )]
    NoConsent(PathBuf),
    /// The block device was refused.
    #[error(transparent)]
    Device(#[from] Refusal),
    /// The drive has no flash that could be stored separately.
    #[error("{0}: the drive has no flash cache to keep there; leave out --cache-on")]
    NoFlash(PathBuf),
    /// Its flash is stored separately.
    #[error("{0}: keeps its flash on another file or device; name that with --cache-on")]
    FlashApart(String),
    /// Its flash is not stored separately.
    #[error("{0}: keeps no flash on another file or device; leave out --cache-on")]
    FlashWithin(String),
    /// The flash is that of another image.
    #[error("{place}: is not the flash of {image}; name what --cache-on named when that was made")]
    OtherFlash {
        /// The file or device.
        place: String,
        /// Of the image.
        image: String,
    },
    /// A part of the image is not the one that belongs there.
    #[error("{place}: is not the part that {image} goes on in: {what}; put the right file there")]
    WrongPart {
        /// The file or device.
        place: String,
        /// Of the image.
        image: String,
        /// What it is instead.
        what: String,
    },
    /// It is not an image.
    #[error(
        "{0}: is not a skylight image; name one, or a file that does not exist yet and the drive to be made in it"
    )]
    Foreign(String),
    /// It has a later format version.
    #[error("{place}: has image format {found}; this skylight reads {known}: use a newer skylight")]
    Newer {
        /// The file or device.
        place: String,
        /// Its version.
        found: u32,
        /// The newest version that can be read.
        known: u32,
    },
    /// It is damaged.
    #[error("{place}: is damaged: {what}; restore it from a copy")]
    Damaged {
        /// The file or device.
        place: String,
        /// What is inconsistent, and where.
        what: String,
    },
    /// It is the image of another drive.
    #[error("{place}: is an image of drive {found}, not of {asked}; open it as {found} or create another")]
    OtherProfile {
        /// The file or device.
        place: String,
        /// The drive in the image.
        found: String,
        /// The drive that was asked for.
        asked: String,
    },
    /// The store is too small.
    #[error(
        "{place}: has {found_bytes} bytes and an image of this drive needs {needed_bytes}; use a larger one"
    )]
    TooSmall {
        /// The file or device.
        place: String,
        /// Its size.
        found_bytes: u64,
        /// The size of the image.
        needed_bytes: u64,
    },
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The range of a command is invalid for the drive.
    #[error("offset {offset} and length {length} are not whole sectors of a drive of {capacity_bytes} bytes")]
    OutOfRange {
        /// First byte.
        offset: u64,
        /// Bytes.
        length: u64,
        /// Bytes of the drive.
        capacity_bytes: u64,
    },
    /// The drive cannot read the sectors.
    #[error("sectors {first} to {last} cannot be read: {reason}; write them anew")]
    Unreadable {
        /// The first of them.
        first: u64,
        /// The last of them.
        last: u64,
        /// Why.
        reason: Failure,
    },
    /// The drive refused a command.
    #[error("the drive refused the command: {0}; use another drive, or another command")]
    Refused(Failure),
    /// An error in the middle of a change, after which the media are not reliable.
    #[error(
        "the image takes no more changes after an error ({0}); mend that, then stop the server and start it again"
    )]
    Stopped(String),
    /// The plan of a drive and the commands that it is for do not agree: a fault of this program.
    #[error("a fault of skylight: {0}; report it, then stop the server and start it again")]
    Inconsistent(String),
    /// Its creation was interrupted.
    #[error(
        "{0}: is half made: what made it was interrupted; serve it with the name of a drive to make it anew"
    )]
    HalfMade(String),
}

impl From<&ImageError> for Failure {
    /// The failure of the command that had this error.
    fn from(error: &ImageError) -> Self {
        match error {
            ImageError::Io { source, .. } => source.kind().into(),
            ImageError::Unreadable { reason, .. } | ImageError::Refused(reason) => *reason,
            // A host that learns of sectors that cannot be read may give them up: these can, once the image goes on.
            ImageError::Stopped(_) | ImageError::Inconsistent(_) => Self::Internal,
            _ => Self::Medium,
        }
    }
}

impl ImageError {
    /// Whether the store lacked space for it: a file system or a quota is full.
    pub fn is_no_space(&self) -> bool {
        matches!(self, Self::Io { .. }) && Failure::from(self) == Failure::NoSpace
    }

    /// The system refused an action on a file or device.
    pub(crate) fn io(place: impl fmt::Display, action: &'static str, source: io::Error) -> Self {
        Self::Io { place: place.to_string(), action, source }
    }

    /// The error of an action on a store; `read` is the byte offset that was read, and its host sector.
    pub(crate) fn of_store(
        place: String,
        action: &'static str,
        source: io::Error,
        read: Option<(u64, u64)>,
    ) -> Self {
        let Some(found) = mismatch_of(&source) else {
            return Self::Io { place, action, source };
        };
        let first = read.and_then(|(from, first)| {
            Some(first + found.at.checked_sub(from)? / skylight_disk::SECTOR_BYTES)
        });
        Self::Checksum { place, wrong: Wrong { at: found.at, len: found.len, first } }
    }
}
