//! Access to real devices: finding them, opening them safely, identifying them, timed I/O, their zones, and
//! switching their settings and restoring them, and erasing them.
//!
//! Invariants:
//! * With [`Access::ReadOnly`] the descriptor is `O_RDONLY`, so that the kernel itself guarantees that
//!   nothing is written; no device setting is changed either. Other users of the device are allowed; they are
//!   recorded in [`Identity::also_used`], because their I/O affects the measured times.
//! * With [`Access::DestroyData`] a device that is in use (mounted, partitioned, swap, held by RAID or LVM,
//!   behind a loop device, or open in a process visible to this one) is refused before it is opened for
//!   writing; so is one whose use sysfs and procfs do not show. Everything that shares its bytes counts as
//!   the device: partitions, the disk underneath, and the backing file of a loop device. A device that holds
//!   a signature known to libblkid is refused, and so is one that cannot be examined.
//! * A batch is checked completely before its first I/O. Completed rows are kept, however the batch ends.
//! * I/O bypasses the page cache (`O_DIRECT`). Times are `CLOCK_MONOTONIC` nanoseconds, taken just before the
//!   system call that submits (one time for all I/O that it submits) and just after the completion was seen.
//! * A changed setting is restored on drop; a restore note on disk covers a killed process.
//! * A drive is erased only by a call that names the command, and never left with a password that is not noted.
//! * Zones change only by an action that names them, on a target opened with [`Access::DestroyData`].
//!
//! Sources: Linux `Documentation/ABI/stable/sysfs-block`, `Documentation/scsi/sd-parameters.rst`,
//! `proc_pid_mountinfo(5)`, `io_uring_enter(2)`, `wipefs(8)`.

mod arena;
mod batch_runner;
mod bus;
mod caching;
mod claim;
mod columns;
mod device;
mod device_stack;
mod engine;
mod erase;
mod error;
#[cfg(test)]
#[path = "../tests/common/fake_sysfs.rs"]
mod fake_sysfs;
mod identity;
mod openers;
mod settings;
mod sg_io;
mod signatures;
mod survey;
mod sysfs;
mod usage;
mod zone_failure;
mod zones;

pub use claim::Claim;
pub use columns::{Columns, MAX_BUFFERS_BYTES, MAX_DEPTH, MAX_IO_BYTES};
pub use device::{Access, Counters, Device, MIN_SIZE_BYTES, now_ns};
pub use engine::{End, Log, POLL_NS};
pub use erase::{Erase, Offer, Progress, Unfinished, unfinished};
pub use error::{ColumnError, EraseFailure, Failure, HostError, NotRestored, Reason, Refusal, RefusalReason};
pub use identity::{Declared, Identity, Kind};
pub use settings::{RestoreNote, Setting, State, Switch};
pub use sg_io::{CommandFault, ask};
pub use survey::{Probe, Surveyed, survey};
pub use sysfs::Sysfs;
pub use zone_failure::{ZoneFailure, ZoneFault};
pub use zones::{Zone, ZoneLayout, ZoneModel, ZoneScope};
