//! The bindings of `skylight_drive::hbuffer_host`, `BufferedDrive`, and of `skylight_drive::hbuffer_power_cuts`.
//!
//! Invariants: no logic; columns are copied before the interpreter is released.

use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skylight_command::code::Code;
use skylight_disk::{Direction, SECTOR_BYTES, Sectors};
use skylight_drive::hbuffer_host::{BufferedError, BufferedHost};
use skylight_drive::hbuffer_power_cuts::{self, CutsError, Plan};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, Drive};
use skylight_layer::hbuffer::policy::Policy;
use skylight_layer::hbuffer::{Counters, policies};

use crate::profile::profile_error;
use crate::sim::with_drive;

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(buffer_cuts, module)?)?;
    module.add_class::<BufferedDrive>()
}

fn policy_of(name: &str) -> PyResult<Box<dyn Policy>> {
    policies::by_name(name).ok_or_else(|| {
        PyValueError::new_err(format!(
            "no policy is called {name:?}; name one of {}",
            policies::NAMES.join(", ")
        ))
    })
}

fn value_error(error: BufferedError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// Cuts the power of an emulated drive with a buffer of so many zones, at so many random commands, while a host writes
/// `write_bytes` at a time, and recovers: what came of it. Raises ProfileError, and ValueError for a drive that cannot
/// have the buffer, or a recovery that finds none.
#[pyfunction]
fn buffer_cuts<'py>(
    py: Python<'py>,
    profile_toml: &str,
    origin: &str,
    buffer_zones: u32,
    write_bytes: u64,
    cuts: u32,
    seed: u64,
) -> PyResult<Bound<'py, PyDict>> {
    let plan =
        Plan { zones: buffer_zones, write: Sectors(write_bytes / SECTOR_BYTES), rounds: 1, cuts, seed };
    let run = || hbuffer_power_cuts::run(&Profile::from_toml(profile_toml, origin)?, plan);
    let made = py.detach(run).map_err(|error| match error {
        CutsError::Profile(error) => profile_error(&error),
        other => PyValueError::new_err(other.to_string()),
    })?;
    let dict = PyDict::new(py);
    dict.set_item("log_bytes", made.log.bytes())?;
    dict.set_item("recoveries", made.recoveries)?;
    dict.set_item("looked_up", made.looked_up)?;
    dict.set_item("wrong", made.wrong)?;
    dict.set_item("cleaned_zones", made.cleaned_zones)?;
    dict.set_item("longest_ns", made.longest.get())?;
    dict.set_item("checkpoint_bytes", made.found.checkpoint.bytes())?;
    dict.set_item("scanned_bytes", made.found.scanned.bytes())?;
    dict.set_item("entries", made.found.entries)?;
    Ok(dict)
}

/// A host with an H-Buffer before an emulated drive with zones, in virtual time.
#[pyclass(frozen, module = "skylight._native")]
pub struct BufferedDrive {
    host: Mutex<BufferedHost>,
}

impl BufferedDrive {
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut BufferedHost) -> T + Send) -> PyResult<T> {
        with_drive(py, &self.host, work)
    }
}

#[pymethods]
impl BufferedDrive {
    /// The names of all policies, the static ones first.
    #[classattr]
    const POLICIES: [&'static str; 6] = policies::NAMES;

    /// A buffer of so many zones before a new drive of the profile text `profile_toml`; cleaning may use
    /// `memory_bytes` of the host. Raises ProfileError, and ValueError for a drive or policy that cannot be used.
    #[new]
    fn new(
        py: Python<'_>,
        profile_toml: &str,
        origin: &str,
        policy: &str,
        buffer_zones: u32,
        memory_bytes: u64,
    ) -> PyResult<Self> {
        let policy = policy_of(policy)?;
        let built = || Drive::new(&Profile::from_toml(profile_toml, origin)?, 1);
        let drive = py.detach(built).map_err(|error| profile_error(&error))?;
        let memory = Sectors(memory_bytes / SECTOR_BYTES);
        let host = BufferedHost::new(drive, policy, buffer_zones, memory).map_err(value_error)?;
        Ok(Self { host: Mutex::new(host) })
    }

    /// Bytes of the host's address space.
    #[getter]
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |host| host.capacity().bytes())
    }

    /// Bytes of a home zone.
    #[getter]
    fn zone_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |host| host.home_len().bytes())
    }

    /// Another policy from now on, with fresh accounts; data stays where it is. Raises ValueError.
    fn start_over(&self, py: Python<'_>, policy: &str) -> PyResult<()> {
        let policy = policy_of(policy)?;
        self.with(py, |host| host.start_over(policy))
    }

    /// Runs reads and writes one after the other, none before its `arrive_ns` after the first; gives how long each took,
    /// ns. Raises ValueError.
    fn run<'py>(
        &self,
        py: Python<'py>,
        op: PyReadonlyArray1<'py, u8>,
        offset: PyReadonlyArray1<'py, u64>,
        size: PyReadonlyArray1<'py, u32>,
        arrive_ns: PyReadonlyArray1<'py, u64>,
    ) -> PyResult<Bound<'py, PyArray1<u64>>> {
        let (op, offset, size, arrive_ns) = (
            op.as_slice()?.to_vec(),
            offset.as_slice()?.to_vec(),
            size.as_slice()?.to_vec(),
            arrive_ns.as_slice()?.to_vec(),
        );
        if [offset.len(), size.len(), arrive_ns.len()].iter().any(|&len| len != op.len()) {
            return Err(PyValueError::new_err("the columns are not of one length"));
        }
        let bytes = self.size_bytes(py)?;
        let op =
            Code::column(&op).map_err(|unknown| value_error(BufferedError::Command(unknown.row, bytes)))?;
        let mut took_ns = vec![0; op.len()];
        let batch = Batch { op, offset: &offset, size: &size };
        self.with(py, |host| host.run(&batch, &arrive_ns, &mut took_ns))?.map_err(value_error)?;
        Ok(PyArray1::from_vec(py, took_ns))
    }

    /// Cleans until nothing is in the buffer nor in the drive's persistent cache; gives the time, ns. Raises ValueError.
    fn finish(&self, py: Python<'_>) -> PyResult<u64> {
        let took = self.with(py, BufferedHost::finish)?.map_err(value_error)?;
        Ok(took.get())
    }

    /// The accounts since the last start: bytes by path, of the log's headers, of checkpoints and of what cleaning wrote; times;
    /// zones cleaned. And bytes that were written to the media since the drive was made.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (account, now, before, media) = self.with(py, |host| {
            let (now, before) = host.counters();
            (host.account(), *now, *before, host.drive().counters().media_bytes(Direction::Write))
        })?;
        let dict = PyDict::new(py);
        for ((name, now), (_, before)) in sectors(&now).into_iter().zip(sectors(&before)) {
            dict.set_item(format!("{name}_bytes"), Sectors(now - before).bytes())?;
        }
        dict.set_item("foreground_ns", account.foreground.get())?;
        dict.set_item("idle_cleaning_ns", account.idle_cleaning.get())?;
        dict.set_item("cleaning_after_ns", account.cleaning_after.get())?;
        dict.set_item("appended_zones", now.appended_zones - before.appended_zones)?;
        dict.set_item("rewritten_zones", now.rewritten_zones - before.rewritten_zones)?;
        dict.set_item("media_written_bytes", media)?;
        Ok(dict)
    }
}

/// The counters of a buffer that are sectors, by name.
fn sectors(counters: &Counters) -> [(&'static str, u64); 6] {
    [
        ("direct", counters.direct),
        ("drive_cache", counters.drive_cache),
        ("buffer", counters.buffered),
        ("headers", counters.headers),
        ("checkpoints", counters.checkpointed),
        ("cleaned", counters.cleaned),
    ]
}
