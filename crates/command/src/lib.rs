//! Commands and completions: what a host asks of a drive, and what it gets back.
//!
//! * [`Command`]: an operation, its flags and its extent; [`Command::conflicts_with`] is the rule of order
//!   that needs no zones.
//! * [`Outcome`]: the status of a completion with its payload; [`Failure`] is why a command failed.
//! * [`code`]: the operations in the column of a batch by their numbers, and the numbers of results in its log.
//!
//! Each edge converts once: the NBD decoder (`nbd/decode.rs`) into commands, the numbers that Python has in a column into
//! operations ([`code::Code::column`]) and their rows into commands (`drive/batch.rs`), io_uring (`host/engine.rs`) out of
//! them. In between, sectors are the unit.
//!
//! # Zones
//!
//! A [`ZoneAction`] (open, close, finish, reset) is an [`Op`] whose extent is its zone, or the whole drive, so it conflicts with
//! every command in that zone. A report of zones is no command here: what a drive with zones knows of them is asked of its
//! layer (`layer/capabilities/zoned.rs`). Writes and appends to one zone move its write pointer, so their order matters
//! though they share no sector; a command does not know the zones, so the rule that adds this is beside their layout
//! (`Order` in `layer/capabilities/zoned.rs`), for all places where commands wait.
//!
//! Invariants: a command carries no bytes and owns no memory; no clock, no file, no thread.

pub mod code;
mod command;
mod outcome;

pub use command::{Command, CommandId, Flags, Op, ZoneAction};
pub use outcome::{Failure, Outcome};
