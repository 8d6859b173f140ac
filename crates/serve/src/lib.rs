//! Serves a drive to any program, through any number of front doors.
//!
//! * [`core`]: what is served, independent of a protocol.
//! * [`nbd`]: the front door for data: the NBD protocol, its sockets and clients.
//! * [`control`]: the front door for status and settings: lines of JSON on a Unix socket of its own.
//! * [`server`]: a service with its front doors, from start to shutdown.
//! * [`endpoint`]: listening sockets. [`diagnostics`]: asynchronous messages on standard error.
//!
//! Invariants: front doors depend on the core and never on each other; no client can terminate the server or
//! make it use unbounded memory, whatever it sends or leaves unread; every complete request is answered once
//! or its connection is closed.

pub mod control;
pub mod core;
pub mod diagnostics;
pub mod endpoint;
pub mod nbd;
pub mod server;
