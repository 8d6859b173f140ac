//! Commands and completions: what a host asks of a drive, and what it gets back.
//!
//! * [`Command`]: an operation, its flags and its extent; [`Command::conflicts_with`] is the one rule of order.
//! * [`Outcome`]: the status of a completion with its payload; [`Failure`] is why a command failed.
//! * [`code`]: the numbers of operations in the column `op` of a batch.
//!
//! Each edge converts once: the NBD decoder (`nbd/decode.rs`) and the columns of a batch (`drive/batch.rs`,
//! `host/columns.rs`) into commands, io_uring (`host/engine.rs`) out of them. In between, sectors are the unit.
//!
//! # Zones
//!
//! No drive has zones yet, so zone commands are not here: nothing could test them. Their place is as follows. A zone
//! action (open, close, finish, reset) becomes an [`Op`] that changes the data of its extent, its zone, so it conflicts
//! with every command in that zone. A report of zones becomes an [`Op`] that carries data to the host as a read does and
//! conflicts as a read does, because writes move the write pointers that it reports. The matches over [`Op`] have no
//! wildcard arm where they decide what is done, so the compiler names each place that has to take a side. An
//! append is here already: layers refuse it with [`Failure::Unsupported`]. Before a drive with zones takes one, its
//! volatile cache has to destage what it holds of the zone first (`drive/pending.rs`).
//!
//! Invariants: a command carries no bytes and owns no memory; no clock, no file, no thread.

pub mod code;
mod command;
mod outcome;

pub use command::{Command, CommandId, Flags, Op};
pub use outcome::{Failure, Outcome};
