//! The Python module `skylight._native`: numpy columns in and out, the interpreter released while Rust works.
//!
//! Invariants: no logic lives here; what Python may call is typed in `python/skylight/_native.pyi`, and a test
//! compares the two.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use serde::Serialize;

mod hbuffer;
mod host;
mod infer;
mod profile;
mod random;
mod serve;
mod sim;
mod zones;

/// A report as Python objects, by way of JSON.
fn object_of<'py>(py: Python<'py>, report: &impl Serialize) -> PyResult<Bound<'py, PyAny>> {
    let text = serde_json::to_string(report).map_err(|error| PyRuntimeError::new_err(error.to_string()))?;
    py.import("json")?.call_method1("loads", (text,))
}

/// Simulated drives, real devices, profiles, served drives, loops of the inference.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    // A fault of ours reaches Python as an exception; its own lines are for those who ask.
    if std::env::var_os("SKYLIGHT_DEBUG").is_none() {
        std::panic::set_hook(Box::new(|_| {}));
    }
    sim::register(module)?;
    hbuffer::register(module)?;
    host::register(module)?;
    infer::register(module)?;
    profile::register(module)?;
    random::register(module)?;
    serve::register(module)
}
