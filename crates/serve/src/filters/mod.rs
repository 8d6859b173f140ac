//! Filters: backends over a backend, each with one thing to do.
//!
//! * [`delay`]: answers later.
//! * [`error`]: fails some commands.
//! * [`log`]: says what was asked and how it went.
//!
//! Invariant: a filter changes only what it is for; everything else goes through.
//! Source of the idea: the filters of nbdkit.

pub mod delay;
pub mod error;
pub mod log;
