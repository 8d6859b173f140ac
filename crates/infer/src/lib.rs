//! Loops of the inference that have no form as operations on whole columns: each step needs the one before.
//!
//! Invariant: pure functions of numbers; no clock, file, thread or randomness, and no knowledge of drives.

pub mod pieces;
