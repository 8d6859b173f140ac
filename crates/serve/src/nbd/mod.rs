//! The front door for data: the server side of the NBD protocol, with fixed newstyle negotiation.
//!
//! * [`wire`]: magic numbers, constants and headers.
//! * [`transport`]: the transport, plain or TLS. [`busy_poll`]: polling before sleeping.
//! * [`server`]: listeners, one thread per client, eviction. [`tls`]: certificates.
//! * [`handshake`]: option negotiation, which produces a [`Session`].
//! * [`decode`]: from a request on the wire to a command of the core.
//! * [`transmission`]: the transmission phase. [`reply_buffer`]: encodes replies. [`reply_queue`]: replies of
//!   an asynchronous backend. [`splice_pipe`]: zero-copy reads.
//!
//! Source: the NBD protocol as published by the NBD project (doc/proto.md); modules name the sections that
//! they implement.
//! Not implemented: oldstyle negotiation, `NBD_CMD_RESIZE`, and `NBD_OPT_EXTENDED_HEADERS`, which the libnbd
//! of Debian 12 does not support, so that no client is available to test it with.

pub mod busy_poll;
pub mod decode;
pub mod handshake;
pub mod reply_buffer;
pub mod reply_queue;
pub mod server;
pub mod splice_pipe;
pub mod tls;
pub mod transmission;
pub mod transport;
pub mod wire;

use crate::core::{BlockState, StatusQuery};

/// What the client and the server negotiated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Session {
    /// Whether replies are structured.
    pub structured: bool,
    /// The negotiated metadata contexts, which block status reports.
    pub contexts: Vec<StatusQuery>,
    /// Whether TLS is active.
    pub tls: bool,
}

/// The ID of a metadata context.
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

/// The status flags of an extent: a hole that reads as zeroes has two, any other state at most one.
pub const fn status_flags(state: BlockState) -> u32 {
    match state {
        BlockState::Ordinary => 0,
        BlockState::Hole => 0b11,
        BlockState::Cached | BlockState::Overwritten => 0b1,
    }
}
