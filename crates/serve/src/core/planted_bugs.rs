//! Bugs planted for tests of the tests: one in each place of a served drive where commands wait.
//!
//! Invariant: without the feature `planted` none takes effect ([`skylight_drive::planted_bugs`]).

/// A bug, by the place where it is planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Planted {
    /// No command waits for zeroes.
    ZeroesAnyTime,
    /// Cached data is overlaid newest first.
    OldestOnTop,
    /// Writes that the one thread for writes takes together are made newest first.
    BatchNewestFirst,
    /// One of the drive's.
    Drive(skylight_drive::drive::Planted),
}

/// The bug that is planted, if any.
pub type Plants = skylight_drive::planted_bugs::Plants<Planted>;
