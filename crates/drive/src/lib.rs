//! A drive: profile, mechanics, translation layer and queue in virtual time.
//!
//! * [`profile`]: a drive as TOML, with a single schema.
//! * [`build`]: builds a drive from a profile.
//! * [`drive`]: host queue, volatile write cache, look-ahead, idle time. [`batch`]: the host's commands,
//!   [`stop_condition`]: when the host stops submitting.
//! * [`media_timing`]: gives the steps of a plan their durations.
//! * [`online`]: the same drive, fed one command at a time.
//! * [`hbuffer_host`]: a host with an H-Buffer before a zoned drive, for what policies cost. [`hbuffer_power_cuts`]: the same without
//!   power now and then, for what recoveries find and cost.
//! * [`drive_counters`], [`trace`]: the purpose of every media access, and the head positions.
//! * `conditions`: what a host meets besides the drive. `prior_use`: a drive under conditions, after the use that it had before.
//! * [`jitter`]: seeded variation of latency.
//! * [`random`], [`truth`]: random drives that no test is tuned to, and the correct findings of a drive.
//!
//! Invariants: time is virtual; no clock, file, thread, hash order or unseeded randomness; the same profile,
//! seed and commands give the same nanoseconds.

mod cached_writes_by_zone;
mod conditions;
mod conflict_filter;
mod events;
mod link;
mod owed_cleaning;
mod pending;
mod prior_use;
mod rotational_delays;
mod schedule;
mod submitter;
mod write_cache;

pub mod batch;
pub mod build;
pub mod drive;
pub mod drive_counters;
pub mod hbuffer_host;
pub mod hbuffer_power_cuts;
pub mod jitter;
pub mod media_timing;
pub mod online;
#[doc(hidden)]
pub mod planted_bugs;
pub mod profile;
pub mod random;
pub mod stop_condition;
pub mod trace;
pub mod truth;

pub use batch::{Batch, BatchError};
pub use drive::Drive;
pub use drive_counters::{Account, DriveCounters};
pub use online::Online;
pub use stop_condition::Stop;
pub use trace::{HeadTrace, TraceRow};
