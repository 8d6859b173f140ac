//! What a host does to a real device: open it safely, know what it is, run timed I/O on it, switch
//! its write cache, and put everything back.
//!
//! Invariants:
//! - With [`Access::ReadOnly`] the descriptor is `O_RDONLY`, so that the kernel itself guarantees
//!   that nothing is written; no setting of the device is changed either. Who else uses the device
//!   does not matter then; it is kept in [`Identity::also_used`], as it disturbs the times.
//! - With [`Access::DestroyData`] a device that anyone else uses (mounted, partitioned, swap, held by
//!   RAID or LVM, behind a loop device, opened by a process that this one may look into) is refused
//!   before it is opened for writing; so is one of which sysfs and procfs do not tell. What shares its
//!   bytes counts as the device: partitions, the disk below, what a loop device lies on. So is one that holds a
//!   signature which libblkid knows, or of which that cannot be found out.
//! - A batch is checked whole before its first I/O. What completed is kept, whatever ends the batch.
//! - I/O bypasses the page cache (`O_DIRECT`); times are `CLOCK_MONOTONIC` nanoseconds, taken just
//!   before the system call that submits (one time for all that go with it) and just after the
//!   completion was seen.
//! - A setting that was changed is put back on drop; a restore note on disk covers a killed process.
//!
//! Sources: Linux `Documentation/ABI/stable/sysfs-block`, `Documentation/scsi/sd-parameters.rst`,
//! `proc_pid_mountinfo(5)`, `io_uring_enter(2)`, `wipefs(8)`.

mod arena;
mod claim;
mod columns;
mod device;
mod engine;
mod error;
#[cfg(test)]
mod fake;
mod identity;
mod openers;
mod reach;
mod settings;
mod signatures;
mod sysfs;
mod usage;

pub use claim::Claim;
pub use columns::{Columns, MAX_BUFFERS_BYTES, MAX_DEPTH, MAX_IO_BYTES};
pub use device::{Access, Counters, Device, MIN_SIZE_BYTES, now_ns};
pub use engine::{End, Log, POLL_NS};
pub use error::{ColumnError, Failure, HostError, NotPutBack, Reason, Refusal};
pub use identity::{Identity, Kind};
pub use settings::{CacheSwitch, RestoreNote, WriteCache};
pub use sysfs::Sysfs;
