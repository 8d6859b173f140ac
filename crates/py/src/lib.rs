//! The Python module `skylight._native`: numpy columns in and out, the interpreter released while Rust works.
//!
//! Invariants: no logic lives here; what Python may call is typed in `python/skylight/_native.pyi`, and a test
//! compares the two.

use pyo3::prelude::*;

mod host;
mod profile;
mod sim;

/// Simulated drives, real devices, profiles.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    sim::register(module)?;
    host::register(module)?;
    profile::register(module)
}
