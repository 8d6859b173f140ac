//! The binding of `skylight-host`: `HostDevice`, `HostSwitch` and `HostError`.
//!
//! Invariants: no logic; the columns are copied before the interpreter is released, so that Python cannot
//! change a checked batch; Python signal handlers run while I/O is in flight, and an exception that they
//! raise becomes the cause of a `HostError` of kind `interrupted`; the binding never blocks on a lock while
//! it holds the interpreter.

use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyException, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use skylight_command::code::Code;
use skylight_host::{
    Access, ColumnError, Columns, Device, End, Erase, HostError as Error, Identity, Log, Progress, Refusal,
    RefusalReason, Setting, Switch, Sysfs, Unfinished, Zone,
};

use crate::object_of;
use crate::zones::NO_POINTER;

pyo3::create_exception!(
    skylight._native,
    HostError,
    PyException,
    "A device was refused, failed, or was interrupted. `kind` is \"refused\", \"failed\", \"interrupted\" or \
     \"unkept\" (the restore note); `times` holds (submit_ns, complete_ns) of the batch so far, 0 where a row \
     did not complete, or None."
);

/// Two columns of whole numbers: the times that a run returns, or rows and results.
type Pair<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

/// Columns of one type, read-only.
type Column<'py, T> = PyReadonlyArray1<'py, T>;

/// Adds the classes to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<HostDevice>()?;
    module.add_class::<HostSwitch>()?;
    module.add_function(wrap_pyfunction!(host_ask, module)?)?;
    module.add_function(wrap_pyfunction!(host_survey, module)?)?;
    module.add_function(wrap_pyfunction!(host_unfinished, module)?)?;
    module.add("HostError", module.py().get_type::<HostError>())
}

fn error_of(py: Python<'_>, kind: &str, line: String, times: Option<Pair<'_>>) -> PyErr {
    let error = HostError::new_err(line);
    let value = error.value(py);
    let set = value.setattr("kind", kind).and_then(|()| value.setattr("times", times));
    match set {
        Ok(()) => error,
        Err(other) => other,
    }
}

fn host_error(py: Python<'_>, error: &Error) -> PyErr {
    let kind = match error {
        Error::Refused(Refusal { reason: RefusalReason::Note(_), .. }) => "unkept",
        Error::Refused(_) => "refused",
        Error::Failed(_) | Error::NotRestored(_) | Error::Zone(_) | Error::Erase(_) => "failed",
    };
    error_of(py, kind, error.to_string(), None)
}

/// All disks of this machine, a dict each; `root` replaces the root of `sys` and `proc` in tests.
#[pyfunction]
#[pyo3(signature = (root=None))]
fn host_survey(py: Python<'_>, root: Option<PathBuf>) -> PyResult<Bound<'_, PyAny>> {
    let sysfs = root.map_or_else(Sysfs::default, |root| Sysfs::at(&root));
    let disks = py.detach(|| skylight_host::survey(&sysfs)).map_err(|error| host_error(py, &error))?;
    object_of(py, &disks)
}

/// What a disk returns to a SCSI command that only asks, at most so many bytes. Raises OSError.
#[pyfunction]
fn host_ask(py: Python<'_>, path: PathBuf, command: Vec<u8>, length: usize) -> PyResult<Bound<'_, PyBytes>> {
    let data = py.detach(|| skylight_host::ask(&path, &command, length))?;
    Ok(PyBytes::new(py, &data))
}

/// What an earlier erase left on a device, by the notes in a folder: "released", "running", or None; with the share
/// that is done.
#[pyfunction]
#[pyo3(signature = (path, notes, root=None))]
fn host_unfinished(
    py: Python<'_>,
    path: PathBuf,
    notes: PathBuf,
    root: Option<PathBuf>,
) -> PyResult<Option<(&'static str, Option<f64>)>> {
    let sysfs = root.map_or_else(Sysfs::default, |root| Sysfs::at(&root));
    let left = py
        .detach(|| skylight_host::unfinished(&path, &notes, &sysfs))
        .map_err(|error| host_error(py, &error))?;
    Ok(left.map(|left| match left {
        Unfinished::Released => ("released", None),
        Unfinished::Running(share) => ("running", share),
    }))
}

/// A block device or regular file, opened for a test.
#[pyclass(frozen, module = "skylight._native")]
pub struct HostDevice {
    identity: Identity,
    device: Mutex<Option<Device>>,
    /// Of the last batch.
    results: Mutex<Vec<(usize, u64)>>,
}

impl HostDevice {
    /// Runs `work` with the device, unless it is closed or another thread runs I/O on it.
    fn with<T>(&self, py: Python<'_>, work: impl FnOnce(&mut Device) -> Result<T, Error>) -> PyResult<T> {
        let refused = |why: &str| error_of(py, "refused", format!("{}: {why}", self.identity.path), None);
        let mut guard = match self.device.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(refused("already runs a batch; wait for it to end"));
            }
        };
        let device = guard.as_mut().ok_or_else(|| refused("was closed; open it again"))?;
        work(device).map_err(|error| host_error(py, &error))
    }

    /// The times of a log; its results are kept for `results`.
    fn kept<'py>(&self, py: Python<'py>, log: Log) -> Pair<'py> {
        *self.results.lock().unwrap_or_else(PoisonError::into_inner) = log.results;
        (PyArray1::from_vec(py, log.submit_ns), PyArray1::from_vec(py, log.complete_ns))
    }
}

#[pymethods]
impl HostDevice {
    /// Opens `path`, with `preserve` for writes that the caller puts back; `root` replaces the root of `sys` and
    /// `proc` in tests.
    #[new]
    #[pyo3(signature = (path, destroy_data, root=None, preserve=false))]
    fn new(
        py: Python<'_>,
        path: PathBuf,
        destroy_data: bool,
        root: Option<PathBuf>,
        preserve: bool,
    ) -> PyResult<Self> {
        let access = match destroy_data {
            true => Access::DestroyData,
            false => Access::ReadOnly,
        };
        let sysfs = root.map_or_else(Sysfs::default, |root| Sysfs::at(&root));
        let opened = py.detach(|| {
            if preserve { Device::open_kept(&path, &sysfs) } else { Device::open_with(&path, access, &sysfs) }
        });
        let device = opened.map_err(|error| host_error(py, &error))?;
        Ok(Self {
            identity: device.identity().clone(),
            device: Mutex::new(Some(device)),
            results: Mutex::default(),
        })
    }

    /// Size in bytes.
    #[getter]
    fn size_bytes(&self) -> u64 {
        self.identity.size_bytes
    }

    /// Logical block in bytes.
    #[getter]
    fn block_bytes(&self) -> u32 {
        self.identity.block_bytes
    }

    /// A key for the drive that can be part of a file name; None for a regular file.
    #[getter]
    fn key(&self) -> Option<&str> {
        self.identity.key.as_deref()
    }

    /// The clock of the log, ns.
    #[getter]
    fn now_ns(&self) -> u64 {
        skylight_host::now_ns()
    }

    /// What the target is and declares about itself.
    fn identity<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object_of(py, &self.identity)
    }

    /// I/O submitted so far.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        object_of(py, &self.with(py, |device| Ok(device.counters()))?)
    }

    /// Runs a batch; returns when each I/O was submitted and completed, ns.
    fn run<'py>(
        &self,
        py: Python<'py>,
        op: Column<'py, u8>,
        offset: Column<'py, u64>,
        size: Column<'py, u32>,
        depth: usize,
    ) -> PyResult<Pair<'py>> {
        let op = op.as_array().to_vec();
        let offset = offset.as_array().to_vec();
        let size = size.as_array().to_vec();
        let mut raised = None;
        let mut interrupted = || {
            raised = Python::attach(|py| py.check_signals()).err();
            raised.is_some()
        };
        let (log, end) = self.with(py, |device| {
            let op = Code::column(&op).map_err(|unknown| {
                RefusalReason::Columns(ColumnError::from(unknown)).of(&self.identity.path)
            })?;
            let columns = Columns { op, offset: &offset, size: &size };
            py.detach(|| device.run(columns, depth, &mut interrupted))
        })?;
        let times = self.kept(py, log);
        let error = match end {
            End::Complete => return Ok(times),
            End::Failed(failure) => error_of(py, "failed", failure.to_string(), Some(times)),
            End::Interrupted => {
                let line = format!("{}: interrupted", self.identity.path);
                error_of(py, "interrupted", line, Some(times))
            }
        };
        error.set_cause(py, raised);
        Err(error)
    }

    /// The rows of the last batch that the device refused or that were appends, and the result of each, as
    /// `SimDrive.results` has them.
    fn results<'py>(&self, py: Python<'py>) -> Pair<'py> {
        let results = self.results.lock().unwrap_or_else(PoisonError::into_inner);
        let rows = PyArray1::from_iter(py, results.iter().map(|&(row, _)| row as u64));
        (rows, PyArray1::from_iter(py, results.iter().map(|&(_, result)| result)))
    }

    /// The layout of the zones; None where there are none.
    fn zone_layout<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let layout = self.with(py, |device| py.detach(move || device.zone_layout()))?;
        layout.map(|layout| object_of(py, &layout)).transpose()
    }

    /// At most `most` zones from the one that contains a byte on: columns by name.
    fn report_zones<'py>(
        &self,
        py: Python<'py>,
        from_bytes: u64,
        most: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let zones = self.with(py, |device| py.detach(move || device.report_zones(from_bytes, most)))?;
        let columns = PyDict::new(py);
        let bytes = |of: fn(&Zone) -> u64| PyArray1::from_iter(py, zones.iter().map(of));
        columns.set_item("start_bytes", bytes(|zone| zone.start_bytes))?;
        columns.set_item("size_bytes", bytes(|zone| zone.size_bytes))?;
        columns.set_item("capacity_bytes", bytes(|zone| zone.capacity_bytes))?;
        columns
            .set_item("write_pointer_bytes", bytes(|zone| zone.write_pointer_bytes.unwrap_or(NO_POINTER)))?;
        columns.set_item("kind", PyArray1::from_iter(py, zones.iter().map(|zone| zone.kind)))?;
        columns.set_item("condition", PyArray1::from_iter(py, zones.iter().map(|zone| zone.condition)))?;
        let flags = |of: fn(&Zone) -> bool| PyArray1::from_iter(py, zones.iter().map(of));
        columns.set_item("reset_recommended", flags(|zone| zone.reset_recommended))?;
        columns.set_item("non_sequential", flags(|zone| zone.non_sequential))?;
        Ok(columns)
    }

    /// How many zones have non-sequential data.
    fn non_sequential_zones(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |device| py.detach(move || device.non_sequential_zones()))
    }

    /// The state of a setting, as reported: "on", "off" or "unknown".
    fn state(&self, py: Python<'_>, setting: &str) -> PyResult<&'static str> {
        let setting = setting_of(setting)?;
        self.with(py, |device| Ok(py.detach(move || device.state(setting)).as_str()))
    }

    /// The value of a setting in the words of the place where it is switched; None without one.
    fn value(&self, py: Python<'_>, setting: &str) -> PyResult<Option<String>> {
        let setting = setting_of(setting)?;
        self.with(py, |device| Ok(py.detach(move || device.value(setting))))
    }

    /// Discards a part of a block device, bytes. An OSError says why not.
    fn discard(&self, py: Python<'_>, start_bytes: u64, length_bytes: u64) -> PyResult<()> {
        let done =
            self.with(py, |device| Ok(py.detach(move || device.discard(start_bytes, length_bytes))))?;
        // The conversion of an io::Error leaves its number out.
        done.map_err(|error| PyOSError::new_err((error.raw_os_error(), error.to_string())))
    }

    /// What an erase would be, as a dict; nothing is changed.
    fn erase_offer<'py>(&self, py: Python<'py>, erase: &str) -> PyResult<Bound<'py, PyAny>> {
        let erase = erase_of(erase)?;
        object_of(py, &self.with(py, |device| py.detach(move || device.erase_offer(erase)))?)
    }

    /// Erases the drive, or begins it; `note` is the path of the erase note meanwhile.
    fn erase<'py>(&self, py: Python<'py>, erase: &str, note: PathBuf) -> PyResult<Bound<'py, PyAny>> {
        let erase = erase_of(erase)?;
        object_of(py, &self.with(py, |device| py.detach(move || device.erase(erase, &note)))?)
    }

    /// Whether the erase that was begun is complete, and the share that is done, where the drive says one.
    fn erase_progress(&self, py: Python<'_>, erase: &str) -> PyResult<(bool, Option<f64>)> {
        let erase = erase_of(erase)?;
        Ok(match self.with(py, |device| py.detach(move || device.erase_progress(erase)))? {
            Progress::Running(share) => (false, share),
            Progress::Done => (true, None),
        })
    }

    /// Switches a setting; `note` is the path of the restore note meanwhile.
    #[pyo3(signature = (setting, on, note=None))]
    fn switch(&self, py: Python<'_>, setting: &str, on: bool, note: Option<PathBuf>) -> PyResult<HostSwitch> {
        let setting = setting_of(setting)?;
        let switch =
            self.with(py, |device| py.detach(move || device.switch(setting, on, note.as_deref())))?;
        Ok(HostSwitch { switch: Mutex::new(switch) })
    }

    /// Restores settings that a killed run left changed; returns their values, none without a note.
    fn put_back(&self, py: Python<'_>, note: PathBuf) -> PyResult<Vec<String>> {
        self.with(py, |device| py.detach(move || device.restore_from(&note)))
    }

    /// Closes the device.
    fn close(&self) {
        if let Ok(mut guard) = self.device.try_lock() {
            *guard = None;
        }
    }
}

/// An erase by its name in Python.
fn erase_of(name: &str) -> PyResult<Erase> {
    Erase::of_word(name).ok_or_else(|| PyValueError::new_err(format!("{name}: is no erase")))
}

/// A setting by its name in Python.
fn setting_of(name: &str) -> PyResult<Setting> {
    match name {
        "write cache" => Ok(Setting::WriteCache),
        "look-ahead" => Ok(Setting::LookAhead),
        "scheduler" => Ok(Setting::Scheduler),
        "queue depth" => Ok(Setting::QueueDepth),
        _ => Err(PyValueError::new_err(format!("{name}: is no setting"))),
    }
}

/// A switched setting, until it is restored.
#[pyclass(frozen, module = "skylight._native")]
pub struct HostSwitch {
    switch: Mutex<Switch>,
}

impl HostSwitch {
    fn switch(&self) -> MutexGuard<'_, Switch> {
        self.switch.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl HostSwitch {
    /// The current state: "on", "off" or "unknown".
    #[getter]
    fn achieved(&self, py: Python<'_>) -> &'static str {
        py.detach(|| self.switch().achieved().as_str())
    }

    /// Why the state is not the requested one, or None.
    #[getter]
    fn why(&self, py: Python<'_>) -> Option<String> {
        py.detach(|| self.switch().why().map(str::to_owned))
    }

    /// Restores the original setting. Idempotent.
    fn restore(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| self.switch().restore()).map_err(|error| host_error(py, &error))
    }
}
