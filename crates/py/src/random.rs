//! Random drives and the truth about drives for Python.
//!
//! Invariants: no logic; a refused profile is a `ProfileError`, an unknown kind a `ValueError`, each with the
//! one line that the Rust crate gives.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skylight_drive::profile::Profile;
use skylight_drive::random::{self, Kind};
use skylight_drive::truth::Truth;

use crate::profile::profile_error;

/// The profile of a random drive, as TOML; without a kind, one is drawn. Raises ValueError for an unknown kind.
#[pyfunction]
#[pyo3(signature = (seed, kind=None))]
fn random_profile(py: Python<'_>, seed: u64, kind: Option<&str>) -> PyResult<String> {
    let kind: Option<Kind> = kind
        .map(str::parse)
        .transpose()
        .map_err(|error: random::UnknownKind| PyValueError::new_err(error.to_string()))?;
    py.detach(|| random::random_profile(seed, kind)).map_err(|error| profile_error(&error))
}

/// The expected findings of a profile, as JSON. `origin` is what errors call the file. Raises ProfileError.
#[pyfunction]
fn profile_truth(py: Python<'_>, toml: &str, origin: &str) -> PyResult<String> {
    py.detach(|| Profile::from_toml(toml, origin).and_then(|profile| Truth::of(&profile)))
        .map(|truth| truth.to_json())
        .map_err(|error| profile_error(&error))
}

/// Adds this part to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(random_profile, module)?)?;
    module.add_function(wrap_pyfunction!(profile_truth, module)?)
}
