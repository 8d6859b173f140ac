//! NBD: the newstyle fixed handshake and the transmission phase, on the server's side.
//!
//! * [`wire`]: magics, numbers and headers.
//! * [`channel`]: the bytes to and from a client, plain or TLS. [`watch`]: waiting for them.
//! * [`handshake`]: option haggling; ends in a [`Session`].
//! * [`validate`]: the one place that decides whether a request is a command.
//! * [`transmission`]: requests in, replies out. [`output`]: replies as bytes. [`outbox`]: those that a backend
//!   gives later. [`conduit`]: long reads, without a copy.
//! * [`replay`]: a client for tests.
//!
//! Source: the NBD protocol as published by the NBD project (doc/proto.md); sections are named where used.
//! Left out: oldstyle, `NBD_OPT_EXTENDED_HEADERS` (the libnbd that Debian 12 ships does not speak it, so there
//! is no peer to show it with), `NBD_CMD_RESIZE`.

pub mod channel;
pub mod conduit;
pub mod handshake;
pub mod outbox;
pub mod output;
pub mod replay;
pub mod transmission;
pub mod validate;
pub mod watch;
pub mod wire;

use crate::backend::Context;

/// What a client and the server agreed upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Replies are structured.
    pub structured: bool,
    /// The contexts that block status answers in, by their numbers on the wire.
    pub contexts: Vec<Context>,
    /// The bytes are encrypted.
    pub tls: bool,
}

/// The number of a context on the wire.
pub const fn context_id(context: Context) -> u32 {
    match context {
        Context::Allocation => 1,
        Context::Place => 2,
        Context::Overwritten => 3,
    }
}

/// The name of a context.
pub const fn context_name(context: Context) -> &'static str {
    match context {
        Context::Allocation => "base:allocation",
        Context::Place => "x-skylight:place",
        Context::Overwritten => "x-skylight:overwritten",
    }
}
