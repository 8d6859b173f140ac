//! Servers: a drive for any program, through any number of front doors.
//!
//! * [`core`]: what is served, without a protocol.
//! * [`nbd`]: the front door for data: the NBD protocol, its sockets and clients.
//! * [`control`]: the front door for status and settings: lines of JSON on a Unix socket of its own.
//! * [`server`]: a service with its front doors, from the first client to the end.
//! * [`endpoint`]: sockets that are listened on. [`diagnostics`]: lines on standard error, which nobody waits for.
//!
//! Invariants: front doors know the core and never each other; a client can neither end the server nor make it hold memory
//! without bound, whatever it sends or leaves unread; every whole request is answered once or its connection ends.

pub mod control;
pub mod core;
pub mod diagnostics;
pub mod endpoint;
pub mod nbd;
pub mod server;
