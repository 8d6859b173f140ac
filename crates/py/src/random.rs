//! Random drives and the truth about drives for Python.
//!
//! Invariants: no logic; a refused profile is a `ProfileError`, an unknown kind a `ValueError`, each with the
//! one line that the Rust crate gives.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skylight_drive::profile::{Conditions, Profile, ProfileError};
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

/// The expected findings of a profile, as JSON. `origin` is what errors call the file; `conditions` is the text of a
/// file of conditions, in place of those of the profile. Raises ProfileError.
#[pyfunction]
#[pyo3(signature = (toml, origin, conditions=None))]
fn profile_truth(py: Python<'_>, toml: &str, origin: &str, conditions: Option<&str>) -> PyResult<String> {
    let truth = || {
        let profile = Profile::from_toml(toml, origin)?;
        let conditions = conditions_of(&profile, conditions)?;
        Truth::under(&profile, &conditions)
    };
    py.detach(truth).map(|truth| truth.to_json()).map_err(|error| profile_error(&error))
}

/// The conditions of a text, or those of the profile, or the ideal ones.
pub fn conditions_of(profile: &Profile, text: Option<&str>) -> Result<Conditions, ProfileError> {
    match text {
        Some(text) => Conditions::from_text(text, "conditions"),
        None => Ok(profile.conditions.clone().unwrap_or_default()),
    }
}

/// The conditions of a seed, as TOML.
#[pyfunction]
fn random_conditions(seed: u64) -> String {
    random::random_conditions(seed).to_toml()
}

/// The conditions of a text (TOML or JSON) as TOML, which may end a profile. Raises ProfileError.
#[pyfunction]
fn conditions_toml(text: &str) -> PyResult<String> {
    let read = Conditions::from_text(text, "conditions").map_err(|error| profile_error(&error))?;
    Ok(read.to_toml())
}

/// Checks a file of conditions, TOML or JSON, and gives all of them as JSON. `origin` is what errors call the file.
/// Raises ProfileError.
#[pyfunction]
fn conditions_check(text: &str, origin: &str) -> PyResult<String> {
    let checked = Conditions::from_text(text, origin).map_err(|error| profile_error(&error))?;
    Ok(checked.to_json())
}

/// Adds this part to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(random_profile, module)?)?;
    module.add_function(wrap_pyfunction!(profile_truth, module)?)?;
    module.add_function(wrap_pyfunction!(random_conditions, module)?)?;
    module.add_function(wrap_pyfunction!(conditions_toml, module)?)?;
    module.add_function(wrap_pyfunction!(conditions_check, module)?)
}
