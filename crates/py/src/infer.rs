//! Numerical kernels of the inference for Python.
//!
//! Invariants: no logic; invalid columns raise `ValueError` with one line.

use numpy::{IntoPyArray, PyArray1, PyReadonlyArray1, PyReadonlyArray2};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use skylight_infer::segmentation::{self, Segmentation};

fn refused(error: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(error.to_string())
}

fn segment(cosines: &[f64], sines: &[f64], firsts: &[u64], penalty: f64) -> PyResult<Segmentation> {
    let firsts: Vec<usize> =
        firsts.iter().map(|&row| usize::try_from(row)).collect::<Result<_, _>>().map_err(refused)?;
    segmentation::segment(cosines, sines, &firsts, penalty).map_err(refused)
}

/// The first rows of the segments whose phases, by cosines and sines, are most coherent. Raises ValueError.
#[pyfunction]
fn cut_pieces<'py>(
    py: Python<'py>,
    cosines: PyReadonlyArray1<'py, f64>,
    sines: PyReadonlyArray1<'py, f64>,
    firsts: PyReadonlyArray1<'py, u64>,
    penalty: f64,
) -> PyResult<Bound<'py, PyArray1<u64>>> {
    let (cosines, sines, firsts) = (cosines.as_slice()?, sines.as_slice()?, firsts.as_slice()?);
    let found = py.detach(|| segment(cosines, sines, firsts, penalty))?;
    Ok(found.starts.into_iter().map(|row| row as u64).collect::<Vec<_>>().into_pyarray(py))
}

/// The score of the best segmentation of each row of a table. Raises ValueError.
#[pyfunction]
fn agreed_pieces<'py>(
    py: Python<'py>,
    cosines: PyReadonlyArray2<'py, f64>,
    sines: PyReadonlyArray2<'py, f64>,
    firsts: PyReadonlyArray1<'py, u64>,
    penalty: f64,
) -> PyResult<Bound<'py, PyArray1<f64>>> {
    let (cosines, sines, firsts) = (cosines.as_slice()?, sines.as_slice()?, firsts.as_slice()?);
    let columns = firsts.len().max(1);
    let found: PyResult<Vec<f64>> = py.detach(|| {
        let rows = cosines.chunks(columns).zip(sines.chunks(columns));
        rows.map(|(cosines, sines)| segment(cosines, sines, firsts, penalty).map(|found| found.score))
            .collect()
    });
    Ok(found?.into_pyarray(py))
}

/// Adds this part to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(cut_pieces, module)?)?;
    module.add_function(wrap_pyfunction!(agreed_pieces, module)?)
}
