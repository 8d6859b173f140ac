//! Drive profiles for Python: check a file's text, give the JSON schema and the reference page.
//!
//! Invariants: no logic; a refused profile is a `ProfileError`, whose text is the one line that the Rust
//! crate gives.

use pyo3::create_exception;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skylight_drive::Drive;
use skylight_drive::profile::{self, Profile};

create_exception!(
    skylight._native,
    ProfileError,
    PyValueError,
    "A drive profile that cannot be used. str() is one line: FILE:LINE: what is wrong; what would do."
);

/// The Python exception of a refused profile.
pub fn profile_error(error: &profile::ProfileError) -> PyErr {
    ProfileError::new_err(error.to_string())
}

/// Checks the profile `toml`, also that its drive can be built, and gives the whole of it as JSON, defaults
/// filled in: sizes in bytes, durations as text with a unit. `origin` is what errors call the file. Raises
/// ProfileError.
#[pyfunction]
fn profile_check(py: Python<'_>, toml: &str, origin: &str) -> PyResult<String> {
    let checked = || {
        let profile = Profile::from_toml(toml, origin)?;
        Drive::new(&profile, 0)?;
        Ok(profile.to_json())
    };
    py.detach(checked).map_err(|error: profile::ProfileError| profile_error(&error))
}

/// The JSON schema (draft 7) of a profile, as text.
#[pyfunction]
fn profile_schema() -> String {
    profile::json_schema()
}

/// The reference page of profiles, as Markdown.
#[pyfunction]
fn profile_reference() -> String {
    profile::reference()
}

/// Adds this part to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ProfileError", module.py().get_type::<ProfileError>())?;
    module.add_function(wrap_pyfunction!(profile_check, module)?)?;
    module.add_function(wrap_pyfunction!(profile_schema, module)?)?;
    module.add_function(wrap_pyfunction!(profile_reference, module)?)
}
