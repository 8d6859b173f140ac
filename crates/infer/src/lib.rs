//! Numerical kernels of the inference that cannot be vectorised: each step depends on the previous one.
//!
//! Invariant: pure functions of numbers; no clock, file, thread or randomness, and no knowledge of drives.

pub mod segmentation;
