//! Media for tests: memory, and one that fails.
//!
//! * [`ram`]: memory, sparse; a copy costs little.
//! * [`fault`]: a medium that loses, tears and reorders what was not synced, and fails on demand.
// Each test file uses only some of this.
#![allow(dead_code)]

pub mod fault;
pub mod ram;
