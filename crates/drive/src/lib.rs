//! A drive: profile, mechanics, translation layer and queue in virtual time.
//!
//! * [`profile`]: a drive as TOML; the one schema.
//! * [`build`]: from profile to drive.
//! * [`drive`]: the host's queue, volatile write cache, look-ahead, idle time. [`batch`]: what the host asks,
//!   [`stop`]: when it stops asking.
//! * [`media`]: the clock that gives a plan's steps their durations.
//! * [`online`]: the same drive fed one command at a time.
//! * [`ledger`], [`trace`]: what every media access was for, and where the head was.
//! * [`jitter`]: seeded variation of latency.
//! * [`random`], [`truth`]: drives that nobody tuned to, and what is true of a drive.
//!
//! Invariants: time is virtual; no clock, file, thread, hash order or unseeded randomness; the same profile,
//! seed and commands give the same nanoseconds (idea 2 of `docs/architecture.md`).

mod footprint;
mod host;
mod pending;
mod planted;
mod schedule;
mod write_cache;

pub mod batch;
pub mod build;
pub mod drive;
pub mod jitter;
pub mod ledger;
pub mod media;
pub mod online;
pub mod profile;
pub mod random;
pub mod stop;
pub mod trace;
pub mod truth;

pub use batch::{Batch, BatchError};
pub use drive::Drive;
pub use ledger::{Account, Ledger};
pub use online::Online;
pub use stop::Stop;
pub use trace::{HeadTrace, TraceRow};
