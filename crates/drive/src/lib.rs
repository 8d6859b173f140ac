//! A drive: profile, mechanics, translation layer and queue in virtual time.
//!
//! * [`profile`]: a drive as TOML; the one schema.
//! * [`build`]: from profile to drive.
//! * [`drive`]: the clock that interprets plans, and the host's queue. [`batch`]: what the host asks.
//! * [`ledger`], [`trace`]: what every media access was for, and where the head was.
//! * [`jitter`]: seeded variation of latency.
//!
//! Invariants: time is virtual; no clock, file, thread, hash order or unseeded randomness; the same profile,
//! seed and commands give the same nanoseconds (DESIGN idea 2).

pub mod batch;
pub mod build;
pub mod drive;
pub mod jitter;
pub mod ledger;
pub mod profile;
pub mod trace;

pub use batch::{Batch, BatchError};
pub use drive::Drive;
pub use ledger::{Account, Ledger};
pub use trace::{HeadTrace, TraceRow};
