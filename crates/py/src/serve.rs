//! The binding of `skylight-serve`: `DriveServer`, status and settings of a running server, and maintenance
//! of images that are not being served.
//!
//! Invariants: no logic; an error is a `ServeError` with the one-line message of the Rust crate and its kind:
//! "refused" (wrong use), "failed" (the image or the system), or "unkept" (an image, a socket or a log cannot be where it
//! was asked for: no permission, no space, no such folder).

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::prelude::*;
use skylight_drive::profile::Profile;
use skylight_image::ImageError;
use skylight_image::offline_tools;
use skylight_image::scrub;
use skylight_serve::control::client::{self, ControlError};
use skylight_serve::core::faults::Faults;
use skylight_serve::core::filters::delay::Delays;
use skylight_serve::core::hbuffer::HBufferPlan;
use skylight_serve::core::open::{NewFiles, OpenError, Opened, Plan, open};
use skylight_serve::diagnostics::Writer;
use skylight_serve::endpoint::{Endpoint, EndpointError};
use skylight_serve::nbd::handshake::TlsPolicy;
use skylight_serve::nbd::server::{Options, uri_of};
use skylight_serve::nbd::tls::server_config;
use skylight_serve::server::Server;

use crate::object_of;
use crate::profile::profile_error;

create_exception!(
    skylight._native,
    ServeError,
    PyException,
    "A drive cannot be served, or its server failed. str() is one line; `kind` is \"refused\", \"failed\" or \"unkept\"."
);

fn error_of(py: Python<'_>, kind: &str, line: &dyn std::fmt::Display) -> PyErr {
    let error = ServeError::new_err(line.to_string());
    // If the attribute cannot be set, the message remains.
    let _ = error.value(py).setattr("kind", kind);
    error
}

fn refused(py: Python<'_>, line: impl std::fmt::Display) -> PyErr {
    error_of(py, "refused", &line)
}

/// The kind of an error of the system: whether a file cannot be where it was asked for, or something failed.
fn kind_of(error: &std::io::Error) -> &'static str {
    match error.kind() {
        ErrorKind::NotFound
        | ErrorKind::NotADirectory
        | ErrorKind::IsADirectory
        | ErrorKind::PermissionDenied
        | ErrorKind::ReadOnlyFilesystem
        | ErrorKind::StorageFull
        | ErrorKind::QuotaExceeded => "unkept",
        _ => "failed",
    }
}

fn image_error(py: Python<'_>, error: &ImageError) -> PyErr {
    let kind = match error {
        ImageError::Io { source, .. } if source.kind() == ErrorKind::NotFound => "refused",
        ImageError::Io { source, .. } => kind_of(source),
        ImageError::Stopped(_) | ImageError::Inconsistent(_) => "failed",
        _ => "refused",
    };
    error_of(py, kind, error)
}

fn open_error(py: Python<'_>, error: &OpenError) -> PyErr {
    match error {
        OpenError::Profile(error) => profile_error(error),
        OpenError::Image(error) => image_error(py, error),
        OpenError::System(_) => error_of(py, "failed", error),
        OpenError::HBuffer { source, .. } => {
            error_of(py, if source.is_failure() { "failed" } else { "refused" }, error)
        }
        OpenError::NoDrive(_)
        | OpenError::NotShingled(_)
        | OpenError::WidthOfImage
        | OpenError::LookAheadUntimed
        | OpenError::NoReadBuffer(_)
        | OpenError::ChecksumsFixed { .. } => refused(py, error),
    }
}

fn endpoint_error(py: Python<'_>, error: &EndpointError) -> PyErr {
    let kind = match error {
        EndpointError::System(_, source) => kind_of(source),
        _ => "refused",
    };
    error_of(py, kind, error)
}

/// What to serve: `_ServedDrive` in the stub, which describes the keys.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ServedDrive {
    profile_toml: Option<String>,
    origin: String,
    image: PathBuf,
    cache_on: Option<PathBuf>,
    overwrite: bool,
    write_cache: Option<bool>,
    look_ahead: Option<bool>,
    checksums: Option<bool>,
    read_mode: Option<String>,
    shingle_width: Option<u32>,
    hbuffer: Option<String>,
    hbuffer_zones: Option<u32>,
}

/// Timing and filters: `_Answers` in the stub.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct Answers {
    timing: String,
    seed: u64,
    delays_ns: Option<(u64, u64)>,
    fail: Option<String>,
    log: Option<PathBuf>,
}

/// Where clients connect: `_FrontDoors` in the stub.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct FrontDoors {
    nbd: Vec<String>,
    tls: Option<TlsFiles>,
    remote: bool,
    verbose: bool,
    control: PathBuf,
    control_required: bool,
}

/// PEM files: `_TlsFiles` in the stub.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct TlsFiles {
    cert: PathBuf,
    key: PathBuf,
    clients: Option<PathBuf>,
    required: bool,
}

/// All options of a server: `_ServeOptions` in the stub.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct ServeOptions {
    drive: ServedDrive,
    answers: Answers,
    doors: FrontDoors,
}

/// Parses the options into a plan.
fn plan_of(py: Python<'_>, drive: ServedDrive, answers: Answers) -> PyResult<Plan> {
    let profile = drive.profile_toml.map(|toml| Profile::from_toml(&toml, &drive.origin)).transpose();
    let timing = answers.timing.parse().map_err(|error: String| refused(py, error))?;
    let read_mode = drive.read_mode.map(|name| name.parse()).transpose();
    let faults = answers.fail.map(|text| text.parse::<Faults>()).transpose();
    Ok(Plan {
        profile: profile.map_err(|error| profile_error(&error))?,
        image: drive.image,
        cache_on: drive.cache_on,
        timing,
        write_cache: drive.write_cache,
        look_ahead: drive.look_ahead,
        checksums: drive.checksums,
        overwrite: drive.overwrite,
        seed: answers.seed,
        delays: answers.delays_ns.map(|(read, write)| Delays {
            read: Duration::from_nanos(read),
            write: Duration::from_nanos(write),
        }),
        faults: faults.map_err(|error| refused(py, format!("--fail: {error}")))?,
        read_mode: read_mode.map_err(|error: String| refused(py, error))?,
        width_tracks: drive.shingle_width,
        hbuffer: drive.hbuffer.map(|policy| HBufferPlan { policy, zones: drive.hbuffer_zones }),
        refused: answers.log.as_ref().map(|path| log_to(py, path)).transpose()?,
        log: answers.log.map(|path| log_to(py, &path)).transpose()?,
    })
}

fn tls_policy(py: Python<'_>, files: Option<TlsFiles>) -> PyResult<TlsPolicy> {
    let Some(TlsFiles { cert, key, clients, required }) = files else {
        return Ok(TlsPolicy::Off);
    };
    let config = server_config(&cert, &key, clients.as_deref()).map_err(|error| refused(py, error))?;
    Ok(if required { TlsPolicy::Required(config) } else { TlsPolicy::Offered(config) })
}

/// Opens the control socket. If the default path cannot be used, the drive is served without it, and the
/// message is returned.
fn open_control(server: &mut Server, path: &Path, required: bool) -> Result<Option<String>, EndpointError> {
    match server.open_control(path) {
        Err(error @ EndpointError::System(..)) if !required => Ok(Some(error.to_string())),
        opened => opened.map(|()| None),
    }
}

/// A sink that appends lines to a file.
fn log_to(py: Python<'_>, path: &Path) -> PyResult<Writer> {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.map_err(|error| {
        let line = format!("{}: cannot write the log: {error}; choose another --log", path.display());
        error_of(py, kind_of(&error), &line)
    })?;
    Ok(Box::new(move |line| {
        // A full disk must not stop the drive.
        let _ = file.write_all(format!("{line}\n").as_bytes());
    }))
}

/// A served drive, until it is stopped.
#[pyclass(frozen, module = "skylight._native")]
pub struct DriveServer {
    server: Mutex<Option<Server>>,
    new_files: NewFiles,
    /// The endpoints: unix:PATH, tcp:HOST:PORT.
    #[pyo3(get)]
    endpoints: Vec<String>,
    /// The NBD URIs for clients.
    #[pyo3(get)]
    uris: Vec<String>,
    /// The control socket, or None.
    #[pyo3(get)]
    control: Option<PathBuf>,
    /// Why there is no control socket, in one line; None if there is one.
    #[pyo3(get)]
    control_error: Option<String>,
    /// The name of the drive.
    #[pyo3(get)]
    name: String,
    /// Size in bytes.
    #[pyo3(get)]
    size_bytes: u64,
    /// Whether the image was created just now.
    #[pyo3(get)]
    created: bool,
    /// Whether the image had been closed cleanly.
    #[pyo3(get)]
    clean: bool,
    /// Redundant structures that were damaged and have been repaired, a line each.
    #[pyo3(get)]
    mended: Vec<String>,
    /// Whether the volatile write cache is on.
    #[pyo3(get)]
    write_cache: bool,
}

#[pymethods]
impl DriveServer {
    /// Opens or creates an image and serves it. `options` is a dict of dicts, typed in the stub. Raises
    /// ServeError and ProfileError.
    #[new]
    fn new(py: Python<'_>, options: ServeOptions) -> PyResult<Self> {
        let ServeOptions { drive, answers, doors } = options;
        let plan = plan_of(py, drive, answers)?;
        let endpoints: Vec<Endpoint> = doors
            .nbd
            .iter()
            .map(|endpoint| endpoint.parse())
            .collect::<Result<_, _>>()
            .map_err(|error| endpoint_error(py, &error))?;
        let tls = tls_policy(py, doors.tls)?;
        let secure = !matches!(tls, TlsPolicy::Off);
        let opened: Opened = py.detach(|| open(plan)).map_err(|error| open_error(py, &error))?;
        let size_bytes = opened.backend.shape().size;
        let options = Options { tls, remote: doors.remote, log: doors.verbose, ..Options::default() };
        let mut server = Server::new(opened.backend);
        let control_error = py
            .detach(|| {
                let error = open_control(&mut server, &doors.control, doors.control_required)?;
                server.open_nbd(&endpoints, options)?;
                Ok(error)
            })
            .map_err(|error| {
                opened.new_files.remove();
                endpoint_error(py, &error)
            })?;
        Ok(Self {
            endpoints: server.endpoints().map(ToString::to_string).collect(),
            uris: server.endpoints().map(|endpoint| uri_of(endpoint, secure)).collect(),
            control: server.control().map(Path::to_owned),
            control_error,
            name: opened.profile.name,
            size_bytes,
            created: opened.created,
            clean: opened.clean,
            mended: opened.mended,
            write_cache: opened.write_cache,
            new_files: opened.new_files,
            server: Mutex::new(Some(server)),
        })
    }

    /// The status as JSON; empty once the server is stopped.
    fn status(&self, py: Python<'_>) -> String {
        py.detach(|| {
            let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
            server.as_ref().map(Server::status).unwrap_or_default()
        })
    }

    /// Stops accepting clients, completes received requests and makes all writes durable. Idempotent. Raises
    /// ServeError when completed writes cannot be made durable.
    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        py.detach(|| {
            let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
            server.map_or(Ok(()), Server::stop)
        })
        .map_err(|line| error_of(py, "failed", &line))
    }

    /// Stops, and removes the image if this server created it: for a start that fails after this.
    fn abandon(&self, py: Python<'_>) -> PyResult<()> {
        let stopped = self.stop(py);
        self.new_files.remove();
        stopped
    }
}

/// The status of the server with this control socket, as JSON. If `trusted` is given, the server must run as
/// one of these users. Raises ServeError.
#[pyfunction]
#[pyo3(signature = (control, trusted=None))]
fn serve_status(py: Python<'_>, control: PathBuf, trusted: Option<Vec<u32>>) -> PyResult<String> {
    let status = py.detach(|| client::status(&control, trusted.as_deref()));
    status.map(|status| status.to_string()).map_err(|error: ControlError| refused(py, error))
}

/// Changes a setting of the server with this control socket: "read-mode", "delay-read", "delay-write", "fail" or
/// "zone"; returns its new value in words. If `trusted` is given, the server must run as one of these users.
/// Raises ServeError.
#[pyfunction]
#[pyo3(signature = (control, setting, value, trusted=None))]
fn serve_control(
    py: Python<'_>,
    control: PathBuf,
    setting: &str,
    value: &str,
    trusted: Option<Vec<u32>>,
) -> PyResult<String> {
    let now = py.detach(|| client::set(&control, setting, value, trusted.as_deref()));
    now.map_err(|error: ControlError| refused(py, error))
}

/// The layout and zones of the server with this control socket, from a number on, as JSON. If `trusted` is given, the
/// server must run as one of these users. Raises ServeError.
#[pyfunction]
#[pyo3(signature = (control, first, count, trusted=None))]
fn serve_zones(
    py: Python<'_>,
    control: PathBuf,
    first: u32,
    count: u32,
    trusted: Option<Vec<u32>>,
) -> PyResult<String> {
    let zones = py.detach(|| client::zones(&control, first, count, trusted.as_deref()));
    zones.map(|zones| zones.to_string()).map_err(|error: ControlError| refused(py, error))
}

/// Has the server with this control socket "open", "close", "finish" or "reset" the zone that begins at a byte, or all
/// zones; returns what was done in words. If `trusted` is given, the server must run as one of these users. Raises ServeError.
#[pyfunction]
#[pyo3(signature = (control, action, zone, trusted=None))]
fn serve_zone_action(
    py: Python<'_>,
    control: PathBuf,
    action: &str,
    zone: Option<u64>,
    trusted: Option<Vec<u32>>,
) -> PyResult<String> {
    let done = py.detach(|| client::act_on_zones(&control, action, zone, trusted.as_deref()));
    done.map_err(|error: ControlError| refused(py, error))
}

/// Does something with an image that is not being served, with the interpreter released.
fn with_image<T: Send>(
    py: Python<'_>,
    cache_on: Option<PathBuf>,
    work: impl FnOnce(&skylight_image::Options) -> Result<T, ImageError> + Send,
) -> PyResult<T> {
    let options = skylight_image::Options { cache_on, ..skylight_image::Options::default() };
    py.detach(|| work(&options)).map_err(|error| image_error(py, &error))
}

/// Describes an image: version, drive, sizes, cache use, clean shutdown. Raises ServeError.
#[pyfunction]
#[pyo3(signature = (path, cache_on=None))]
fn image_info(py: Python<'_>, path: PathBuf, cache_on: Option<PathBuf>) -> PyResult<Bound<'_, PyAny>> {
    object_of(py, &with_image(py, cache_on, |options| offline_tools::info(&path, options))?)
}

/// Checks an image without changing it: returns what `image_info` gives, or None, and a line per problem.
/// Raises ServeError.
#[pyfunction]
#[pyo3(signature = (path, cache_on=None))]
fn image_check(
    py: Python<'_>,
    path: PathBuf,
    cache_on: Option<PathBuf>,
) -> PyResult<(Option<Bound<'_, PyAny>>, Vec<String>)> {
    let report = with_image(py, cache_on, |options| offline_tools::check(&path, options))?;
    Ok((report.info.map(|info| object_of(py, &info)).transpose()?, report.problems))
}

/// Verifies all data of an image against its checksums, without changing it. `progress` is called with the
/// bytes verified and the total; an exception that it raises stops the scrub. Raises ServeError, also for an
/// image without checksums.
#[pyfunction]
#[pyo3(signature = (path, cache_on=None, progress=None))]
fn image_scrub(
    py: Python<'_>,
    path: PathBuf,
    cache_on: Option<PathBuf>,
    progress: Option<Py<PyAny>>,
) -> PyResult<Bound<'_, PyAny>> {
    let mut raised = None;
    let found = with_image(py, cache_on, |options| {
        scrub::scrub(&path, options, &mut |done, all| {
            let Some(progress) = &progress else { return true };
            let outcome = Python::attach(|py| {
                py.check_signals()?;
                progress.call1(py, (done, all)).map(drop)
            });
            raised = outcome.err();
            raised.is_none()
        })
    });
    match raised {
        Some(raised) => Err(raised),
        None => object_of(py, &found?),
    }
}

/// Cleans an image and frees unused space; returns the allocated bytes before and after. Raises ServeError.
#[pyfunction]
#[pyo3(signature = (path, cache_on=None))]
fn image_compact(py: Python<'_>, path: PathBuf, cache_on: Option<PathBuf>) -> PyResult<(u64, u64)> {
    with_image(py, cache_on, |options| offline_tools::compact(&path, options))
}

/// Repairs an image: returns lines about repairs, lines about losses, and the file that keeps the original
/// structures, or None. Durable data that cannot be recovered is given up only with `accept_loss`. Raises
/// ServeError.
#[pyfunction]
#[pyo3(signature = (path, cache_on=None, accept_loss=false))]
fn image_repair(
    py: Python<'_>,
    path: PathBuf,
    cache_on: Option<PathBuf>,
    accept_loss: bool,
) -> PyResult<(Vec<String>, Vec<String>, Option<PathBuf>)> {
    let repair = with_image(py, cache_on, |options| offline_tools::repair(&path, options, accept_loss))?;
    Ok((repair.mended, repair.lost, repair.kept))
}

/// Adds this part to the module.
pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("ServeError", module.py().get_type::<ServeError>())?;
    module.add_class::<DriveServer>()?;
    module.add_function(wrap_pyfunction!(serve_status, module)?)?;
    module.add_function(wrap_pyfunction!(serve_control, module)?)?;
    module.add_function(wrap_pyfunction!(serve_zones, module)?)?;
    module.add_function(wrap_pyfunction!(serve_zone_action, module)?)?;
    module.add_function(wrap_pyfunction!(image_info, module)?)?;
    module.add_function(wrap_pyfunction!(image_check, module)?)?;
    module.add_function(wrap_pyfunction!(image_repair, module)?)?;
    module.add_function(wrap_pyfunction!(image_scrub, module)?)?;
    module.add_function(wrap_pyfunction!(image_compact, module)?)
}
