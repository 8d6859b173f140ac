//! The front door for data: the NBD protocol, its newstyle fixed handshake and its transmission phase, on the server's
//! side.
//!
//! * [`wire`]: magics, numbers and headers.
//! * [`channel`]: the bytes to and from a client, plain or TLS. [`watch`]: waiting for them.
//! * [`server`]: sockets, a thread for each client, who is dropped where there are too many. [`tls`]: certificates.
//! * [`handshake`]: option negotiation; ends in a [`Session`].
//! * [`decode`]: from a request on the wire to a command that the core takes.
//! * [`transmission`]: requests in, replies out. [`output`]: replies as bytes. [`outbox`]: those that a backend
//!   gives later. [`conduit`]: long reads, without a copy.
//! * [`replay`]: a client for tests.
//!
//! Source: the NBD protocol as published by the NBD project (doc/proto.md); sections are named where used.
//! Left out: oldstyle, `NBD_OPT_EXTENDED_HEADERS` (the libnbd that Debian 12 ships does not speak it, so there
//! is no peer to show it with), `NBD_CMD_RESIZE`.

pub mod channel;
pub mod conduit;
pub mod decode;
pub mod handshake;
pub mod outbox;
pub mod output;
pub mod replay;
pub mod server;
pub mod tls;
pub mod transmission;
pub mod watch;
pub mod wire;

use crate::core::{BlockState, StatusQuery};

/// What a client and the server agreed upon.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Replies are structured.
    pub structured: bool,
    /// What block status answers: the metadata contexts that were chosen.
    pub contexts: Vec<StatusQuery>,
    /// The bytes are encrypted.
    pub tls: bool,
}

/// The number of a metadata context on the wire.
pub const fn context_id(query: StatusQuery) -> u32 {
    match query {
        StatusQuery::Allocation => 1,
        StatusQuery::Cached => 2,
        StatusQuery::Overwritten => 3,
    }
}

/// The name of a metadata context.
pub const fn context_name(query: StatusQuery) -> &'static str {
    match query {
        StatusQuery::Allocation => "base:allocation",
        StatusQuery::Cached => "x-skylight:place",
        StatusQuery::Overwritten => "x-skylight:overwritten",
    }
}

/// The flags of a run of blocks on the wire: a hole that reads as zeroes has two, any other state one.
pub const fn status_flags(state: BlockState) -> u32 {
    match state {
        BlockState::Ordinary => 0,
        BlockState::Hole => 0b11,
        BlockState::Cached | BlockState::Overwritten => 0b1,
    }
}
