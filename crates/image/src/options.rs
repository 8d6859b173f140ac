//! How an image is made and opened.

use std::path::PathBuf;

use skylight_drive::profile::Profile;

use crate::planted::Plants;
use crate::store::checksummed::SumOptions;

/// How an image is made and opened.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether writes are answered before they are durable.
    pub write_cache: bool,
    /// Whether what is there already may be lost, when an image is made.
    pub overwrite: bool,
    /// Where the flash lies, if not with the rest.
    pub cache_on: Option<PathBuf>,
    /// The drive that it must be, when an image is opened.
    pub profile: Option<Profile>,
    /// Bytes of the tag log, if not what the cache suggests.
    pub log_bytes: Option<u64>,
    /// Whether what a drive writes and reads that has no bytes here (out-of-band data, map merges, staged bands) is
    /// written and read all the same: where a raw disk underneath sets the time.
    pub every_access: bool,
    /// Whether bytes lie where plans put them, also where no disk underneath sets the time: for tests.
    #[doc(hidden)]
    pub planned: bool,
    /// Entries of a checkpoint that are written behind a command, if not as many as suit a large drive: for tests.
    #[doc(hidden)]
    pub piece: Option<u64>,
    /// Bytes of each file of a new image, if not as many as the file system takes: for tests.
    #[doc(hidden)]
    pub part_bytes: Option<u64>,
    /// Bytes that are allocated ahead of need, if not as many as suit a large drive: for tests.
    #[doc(hidden)]
    pub ahead: Option<u64>,
    /// Whether an image gets checksums of its data when it is made.
    pub checksums: bool,
    /// How checksums are kept, if not as suits a large drive: for tests.
    #[doc(hidden)]
    pub sums: SumOptions,
    /// For tests of the tests.
    #[doc(hidden)]
    pub plants: Plants,
}
