//! Servers: a drive for any program, over one backend trait.
//!
//! * [`backend`]: what is served: commands on bytes, done at once or answered later.
//! * [`served`]: an image, as fast as it goes; [`timed`]: an image behind a drive in model time, whose answers
//!   leave ahead of their time by what the [`way`] to a client takes.
//! * [`shingled`]: read modes of a raw shingled disk, and the line for each read that was refused.
//! * [`open`]: from a profile and a path to a backend.
//! * [`plain`]: bytes in memory and in a file.
//! * `crew`: threads that do commands beside each other; `order`: which of these commands wait for which.
//! * [`wrong`]: sectors that are not what was written.
//! * [`diagnostics`]: lines on standard error, which nobody waits for.
//! * [`filters`]: delay, error and log, each a backend over a backend.
//! * [`nbd`]: the NBD protocol. [`server`]: sockets, connections, the end.
//! * [`connection`]: what is known of a connection, and what all share; [`budget`]: their memory.
//! * [`turns`]: who waits longest is next.
//! * [`counters`]: what was done.
//!
//! Invariants: a client can neither end the server nor make it hold memory without bound, whatever it sends or
//! leaves unread; every whole request is answered once or its connection ends.

pub mod backend;
pub mod budget;
pub mod client;
pub mod connection;
pub mod counters;
mod crew;
pub mod diagnostics;
pub mod endpoint;
pub mod filters;
pub mod nbd;
pub mod open;
mod order;
pub mod plain;
pub mod served;
pub mod server;
pub mod shingled;
pub mod timed;
pub mod tls;
pub mod turns;
pub mod way;
pub mod wrong;
