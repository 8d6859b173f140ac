//! The core of a server: a drive for any front door, independent of protocols.
//!
//! * [`Backend`]: what is served; it executes commands synchronously or completes them later ([`Job`]).
//!   [`Shape`]: its size and capabilities.
//! * [`validate()`]: which commands are allowed. [`Errno`]: what a front door makes of a [`Failure`].
//! * [`Service`]: a backend with what all front doors share: [`counters`], limits ([`connection`],
//!   [`memory_budget`]), status and [`Setting`]s.
//! * [`open`]: from a profile and a path to a backend.
//! * [`untimed`]: an image as fast as possible. [`timed`]: an image behind a drive in model time.
//! * [`hbuffer`]: a host buffer before a drive with zones.
//! * [`read_modes`], with their names ([`read_mode_name`]): reports about refused reads. [`image_errors`]: reports about
//!   those with a checksum mismatch, and about an image that stopped. [`zone_reports`]: about zones;
//!   [`zone_settings`]: what becomes of them.
//! * [`filters`]: delays, fault injection ([`faults`]) and the log, each a backend over a backend.
//!
//! Invariant: nothing here depends on a front door.

mod backend;
mod block_status;
mod command_in_flight;
pub mod connection;
pub mod counters;
mod errno;
mod export_limits;
pub mod faults;
pub mod filters;
pub mod hbuffer;
pub mod image_errors;
pub mod memory_budget;
pub mod open;
#[doc(hidden)]
pub mod planted_bugs;
pub mod read_mode_name;
pub mod read_modes;
mod runtime_settings;
mod service;
pub mod timed;
pub mod untimed;
mod validate;
pub mod zone_reports;
pub mod zone_settings;

pub use backend::Backend;
pub use block_status::{BlockState, Extent, StatusQuery, push_extent, reported_bytes};
pub use command_in_flight::{Completion, Job, OnComplete, execute_by};
pub use errno::Errno;
pub use export_limits::{PIECE_BYTES, Shape};
pub use runtime_settings::Setting;
pub use service::Service;
pub use skylight_command::{Command, Failure, Flags, Op, Outcome, ZoneAction};
pub use validate::{BadExtent, MAX_TRANSFER_BYTES, OFFERED, validate, validate_extent};
pub use zone_reports::ZonePage;
