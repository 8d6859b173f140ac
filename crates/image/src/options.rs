//! Options for creating and opening images.

use std::path::PathBuf;

use skylight_drive::profile::Profile;

use crate::planted_bugs::Plants;
use crate::store::checksummed::SumOptions;

/// Options for creating and opening images.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Whether the volatile write cache is on: writes complete before they are durable.
    pub write_cache: bool,
    /// Whether a new image may replace existing data.
    pub overwrite: bool,
    /// The file or device of the flash, if it is separate.
    pub cache_on: Option<PathBuf>,
    /// The drive that an existing image must be of.
    pub profile: Option<Profile>,
    /// Size of the tag log, bytes, if not the default for the cache.
    pub log_bytes: Option<u64>,
    /// Whether accesses of the drive without data in the image (out-of-band data, map merges, staged bands) are executed
    /// too, for a raw disk underneath that sets the time.
    pub every_access: bool,
    /// Whether data lies where plans put it even without such a disk: for tests.
    #[doc(hidden)]
    pub planned: bool,
    /// Entries in a piece of a checkpoint, if not the default: for tests.
    #[doc(hidden)]
    pub piece: Option<u64>,
    /// Size of each file of a new image, bytes, if not what the file system supports: for tests.
    #[doc(hidden)]
    pub part_bytes: Option<u64>,
    /// Bytes that are preallocated, if not the default: for tests.
    #[doc(hidden)]
    pub ahead: Option<u64>,
    /// Whether a new image has checksums of its data.
    pub checksums: bool,
    /// How checksums are kept, if not the default: for tests.
    #[doc(hidden)]
    pub sums: SumOptions,
    /// Bugs planted for tests of the tests.
    #[doc(hidden)]
    pub plants: Plants,
}
