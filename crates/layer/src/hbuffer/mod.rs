//! H-Buffer: a host makes an ordinary block device of a drive with zones.
//!
//! A [`policy`] decides for each write which way it goes: directly to its home zone, to the persistent cache of a host-aware
//! drive, or to a circular log in some zones of the drive.
//!
//! * [`policy`]: what a policy sees and answers; the static ones. [`streams`]: the sequential streams that it sees.
//! * [`policies`]: the others, by name.
//! * [`spec`]: the sizes, and which zones of the drive are for what.
//! * [`format`]: the log's entries and the checkpoints of the map, as bytes.
//!
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), sections 4 and 5.

pub mod format;
pub mod policies;
pub mod policy;
pub mod spec;
pub mod streams;
