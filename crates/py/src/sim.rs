//! The binding of `skylight-drive`: `SimDrive`.
//!
//! Invariants: no logic; columns are copied before the interpreter is released, so that Python cannot change
//! a checked batch.

use std::sync::Mutex;

use numpy::{PyArray1, PyReadonlyArray1};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use skylight_command::code::Code;
use skylight_disk::{Direction, Nanos};
use skylight_drive::profile::Profile;
use skylight_drive::{Batch, BatchError, Drive, Stop, TraceRow};
use skylight_layer::{Medium, Op, Purpose};

use crate::profile::profile_error;
use crate::random::conditions_of;
use crate::zones;

/// Adds the class to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<SimDrive>()
}

type Times<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);
type Results<'py> = (Bound<'py, PyArray1<u64>>, Bound<'py, PyArray1<u64>>);

/// An emulated drive in virtual time.
#[pyclass(frozen, module = "skylight._native")]
pub struct SimDrive {
    drive: Mutex<Drive>,
    /// The conditions under which the drive is used, as JSON.
    #[pyo3(get)]
    conditions: String,
}

/// Does something with a drive; a thread that comes while another runs a batch waits for it with the interpreter
/// released. A drive in which a fault of ours stopped a batch is not used again.
pub(crate) fn with_drive<D: Send, T: Send>(
    py: Python<'_>,
    drive: &Mutex<D>,
    work: impl FnOnce(&mut D) -> T + Send,
) -> PyResult<T> {
    py.detach(|| {
        let mut drive = drive.lock().map_err(|_| {
            PyRuntimeError::new_err("this drive failed before; make a new one from its profile")
        })?;
        Ok(work(&mut drive))
    })
}

fn batch_error(error: BatchError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

impl SimDrive {
    fn with<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&mut Drive) -> T + Send) -> PyResult<T> {
        with_drive(py, &self.drive, work)
    }
}

#[pymethods]
impl SimDrive {
    /// Builds the drive of the profile text `profile_toml`; `origin` is what errors call it, `seed` that of its
    /// jitter. `conditions` is the text of a file of conditions, in place of those of the profile. Raises ProfileError.
    #[new]
    #[pyo3(signature = (profile_toml, origin, seed, conditions=None))]
    fn new(
        py: Python<'_>,
        profile_toml: &str,
        origin: &str,
        seed: u64,
        conditions: Option<&str>,
    ) -> PyResult<Self> {
        let built = || {
            let profile = Profile::from_toml(profile_toml, origin)?;
            let conditions = conditions_of(&profile, conditions)?;
            let drive = Drive::in_conditions(&profile, &conditions, seed)?;
            Ok((drive, conditions.to_json()))
        };
        let (drive, conditions) = py.detach(built).map_err(|error| profile_error(&error))?;
        Ok(Self { drive: Mutex::new(drive), conditions })
    }

    /// Size in bytes.
    #[getter]
    fn size_bytes(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |drive| drive.capacity().bytes())
    }

    /// Logical block in bytes.
    #[getter]
    fn block_bytes(&self) -> u32 {
        skylight_disk::SECTOR_BYTES as u32
    }

    /// Virtual time, ns.
    #[getter]
    fn now_ns(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |drive| drive.now().get())
    }

    /// Runs a batch with `depth` commands outstanding; gives (submit_ns, complete_ns). With a stop (latency_ns,
    /// count, within, alone_ns) nothing more is submitted once `count` of the last `within` completions took that
    /// long, or one took `alone_ns`: the columns are then those of the commands that were done. Raises ValueError with one line when a
    /// column, command or stop is not of this drive.
    #[pyo3(signature = (op, offset, size, depth, stop=None))]
    fn run<'py>(
        &self,
        py: Python<'py>,
        op: PyReadonlyArray1<'py, u8>,
        offset: PyReadonlyArray1<'py, u64>,
        size: PyReadonlyArray1<'py, u32>,
        depth: usize,
        stop: Option<(u64, u32, u32, Option<u64>)>,
    ) -> PyResult<Times<'py>> {
        let (op, offset, size) =
            (op.as_slice()?.to_vec(), offset.as_slice()?.to_vec(), size.as_slice()?.to_vec());
        let op = Code::column(&op).map_err(|unknown| batch_error(unknown.into()))?;
        let mut submit_ns = vec![0; op.len()];
        let mut complete_ns = vec![0; op.len()];
        let batch = Batch { op, offset: &offset, size: &size };
        let stop = stop.map(|(latency_ns, count, within, alone_ns)| Stop {
            latency: Nanos(latency_ns),
            count,
            within,
            alone: alone_ns.map(Nanos),
        });
        let done = self
            .with(py, |drive| drive.run_until(&batch, depth, stop, &mut submit_ns, &mut complete_ns))?
            .map_err(batch_error)?;
        submit_ns.truncate(done);
        complete_ns.truncate(done);
        Ok((PyArray1::from_vec(py, submit_ns), PyArray1::from_vec(py, complete_ns)))
    }

    /// The rows of the last batch that failed or were appends, and the result of each: a number below 512 is a failure
    /// (`skylight.evidence.FAILURES`), any other the byte at which the data of an append begins.
    fn results<'py>(&self, py: Python<'py>) -> PyResult<Results<'py>> {
        let results = self.with(py, |drive| drive.results().to_vec())?;
        let rows = PyArray1::from_iter(py, results.iter().map(|result| result.row as u64));
        let values = PyArray1::from_iter(py, results.iter().map(|result| result.code()));
        Ok((rows, values))
    }

    /// What is fixed about the zones of the drive, by name; None for a drive without zones.
    fn zone_layout<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        let layout = self.with(py, |drive| drive.layer_mut().zoned().map(|zoned| *zoned.layout()))?;
        layout.map(|layout| zones::layout(py, &layout)).transpose()
    }

    /// The state of all zones, as columns by name. Raises ValueError for a drive without zones.
    fn report_zones<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.with(py, |drive| drive.layer_mut().zoned().map(|zoned| zones::all(zoned)))?;
        let report = report.ok_or_else(|| PyValueError::new_err("this drive has no zones"))?;
        zones::columns(py, &report)
    }

    /// How many zones have non-sequential data.
    fn non_sequential_zones(&self, py: Python<'_>) -> PyResult<u32> {
        let counts = self.with(py, |drive| drive.layer_mut().zoned().map(|zoned| zoned.counts()))?;
        Ok(counts.ok_or_else(|| PyValueError::new_err("this drive has no zones"))?.non_sequential)
    }

    /// Lets virtual time pass, in which the drive may clean.
    fn pause(&self, py: Python<'_>, duration_ns: u64) -> PyResult<()> {
        self.with(py, |drive| drive.pause(Nanos(duration_ns)))
    }

    /// Whether the volatile write cache is on.
    #[getter]
    fn write_cache(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |drive| drive.write_cache())
    }

    /// Switches the volatile write cache, after destaging what it holds; gives its state then (a drive without
    /// one stays off).
    fn set_write_cache(&self, py: Python<'_>, on: bool) -> PyResult<bool> {
        self.with(py, |drive| drive.set_write_cache(on))
    }

    /// Whether reads go on into the drive's buffer.
    #[getter]
    fn look_ahead(&self, py: Python<'_>) -> PyResult<bool> {
        self.with(py, |drive| drive.look_ahead())
    }

    /// Switches look-ahead; gives its state then (a drive without a read buffer stays off).
    fn set_look_ahead(&self, py: Python<'_>, on: bool) -> PyResult<bool> {
        self.with(py, |drive| drive.set_look_ahead(on))
    }

    /// Secure erase: the drive is as new. Takes no virtual time.
    fn erase(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, Drive::erase)
    }

    /// Counters since the drive was made: host and media bytes, accesses and time by purpose, the cache's use.
    fn counters<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let (counters, cache) = self.with(py, |drive| (drive.counters().clone(), drive.cache_use()))?;
        let dict = PyDict::new(py);
        for (name, op) in [("reads", Op::Read), ("writes", Op::Write), ("flushes", Op::Flush)] {
            dict.set_item(name, counters.host_commands(op))?;
        }
        for (way, name) in [(Direction::Read, "read"), (Direction::Write, "written")] {
            dict.set_item(format!("host_{name}_bytes"), counters.host_bytes(way))?;
            dict.set_item(format!("media_{name}_bytes"), counters.media_bytes(way))?;
            for (purpose, medium) in
                Purpose::ALL.into_iter().flat_map(|p| [(p, Medium::Platter), (p, Medium::Flash)])
            {
                let account = counters.account(purpose, way, medium);
                let place = if medium == Medium::Platter { "platter" } else { "flash" };
                let key = format!("{}_{place}_{name}", purpose.name());
                dict.set_item(format!("{key}_bytes"), skylight_disk::Sectors(account.sectors).bytes())?;
                dict.set_item(format!("{key}_accesses"), account.accesses)?;
                dict.set_item(format!("{key}_ns"), account.time.get())?;
            }
        }
        dict.set_item("cache_live_bytes", skylight_disk::Sectors(cache.live_sectors).bytes())?;
        dict.set_item("cache_map_entries", cache.map_entries)?;
        dict.set_item("cache_map_bytes", cache.map_bytes)?;
        Ok(dict)
    }

    /// Keeps the next platter accesses, up to `rows`.
    fn start_trace(&self, py: Python<'_>, rows: usize) -> PyResult<()> {
        self.with(py, |drive| drive.start_trace(rows))
    }

    /// Ends the trace: columns start_ns, arrived_ns, transfer_ns, end_ns, track, end_track, surface, purpose
    /// (an index into `purposes`), and lost, the accesses that found no room. Empty when none was started.
    fn take_trace<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        let Some(trace) = self.with(py, Drive::take_trace)? else {
            return Ok(dict);
        };
        let rows = trace.rows();
        let column = |get: fn(&TraceRow) -> u64| PyArray1::from_iter(py, rows.iter().map(get));
        dict.set_item("start_ns", column(|row| row.start.get()))?;
        dict.set_item("arrived_ns", column(|row| row.arrived.get()))?;
        dict.set_item("transfer_ns", column(|row| row.transfer_start.get()))?;
        dict.set_item("end_ns", column(|row| row.end.get()))?;
        dict.set_item("track", PyArray1::from_iter(py, rows.iter().map(|row| row.track)))?;
        dict.set_item("end_track", PyArray1::from_iter(py, rows.iter().map(|row| row.end_track)))?;
        dict.set_item("surface", PyArray1::from_iter(py, rows.iter().map(|row| row.surface)))?;
        dict.set_item("purpose", PyArray1::from_iter(py, rows.iter().map(|row| row.purpose as u8)))?;
        dict.set_item("purposes", Purpose::ALL.map(Purpose::name).to_vec())?;
        dict.set_item("lost", trace.lost())?;
        Ok(dict)
    }
}
