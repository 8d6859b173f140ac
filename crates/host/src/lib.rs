//! What a host does to a real device: open it safely, know what it is, run timed I/O on it, switch
//! its write cache, and put everything back.
//!
//! Invariants:
//! - With [`Access::ReadOnly`] the descriptor is `O_RDONLY`, so that the kernel itself guarantees
//!   that nothing is written; no setting of the device is changed either. Who else uses the device
//!   does not matter then; it is kept in [`Identity::also_used`], as it disturbs the times.
//! - With [`Access::DestroyData`] a device that anyone else uses (mounted, partitioned, swap, held,
//!   opened exclusively, behind a loop device) is refused before it is opened for writing.
//! - A batch is checked whole before its first I/O. What completed is kept, whatever ends the batch.
//! - I/O bypasses the page cache (`O_DIRECT`); times are `CLOCK_MONOTONIC` nanoseconds, taken just
//!   before the submission and just after the completion was seen.
//! - A setting that was changed is put back on drop; a restore note on disk covers a killed process.
//!
//! Sources: Linux `Documentation/ABI/stable/sysfs-block`, `Documentation/scsi/sd-parameters.rst`,
//! `proc_pid_mountinfo(5)`, `io_uring_enter(2)`; UEFI specification 2.10, section 5 (MBR, GPT).

mod arena;
mod columns;
mod device;
mod engine;
mod error;
#[cfg(test)]
mod fake;
mod identity;
mod partition_table;
mod settings;
mod sysfs;
mod usage;

pub use columns::{Columns, MAX_BUFFERS_BYTES, MAX_DEPTH, MAX_IO_BYTES, Op};
pub use device::{Access, Counters, Device, MIN_SIZE_BYTES, now_ns};
pub use engine::{End, Log, POLL_NS};
pub use error::{ColumnError, Failure, HostError, Reason, Refusal};
pub use identity::{Identity, Kind};
pub use settings::{CacheSwitch, RestoreNote, WriteCache};
pub use sysfs::Sysfs;
