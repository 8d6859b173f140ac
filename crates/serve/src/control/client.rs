//! The client side of the control socket, for `skylight status` and `skylight control`.
//!
//! Invariant: answers are bounded in size and time, whatever process listens there.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};

use crate::endpoint::connect_to;

/// Time limit of any other request.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Time limit of an action on zones: it waits for the data commands before it, and a drive whose cache is full may need
/// seconds for each.
const ACTION_TIMEOUT: Duration = Duration::from_secs(60);
/// The longest accepted answer, bytes; a status has a few thousand.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Why a request has failed, as one line.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// No server listens there, or it is not a skylight server.
    #[error("{0}: no skylight server answers ({1}); start one with skylight serve")]
    NoServer(String, io::Error),
    /// The server runs as a user whom the caller does not trust.
    #[error("{0}: the server belongs to user {1}, neither you nor the image's owner; check who started it")]
    Untrusted(String, u32),
    /// The server rejected the request.
    #[error("{0}: {1}")]
    Refused(String, String),
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Requests the status of the server at a control socket. If `trusted` is given, the server must run as one
/// of these users.
///
/// # Errors
/// See [`ControlError`].
pub fn status(path: &Path, trusted: Option<&[u32]>) -> Result<Value, ControlError> {
    query(path, &json!({ "request": "status" }), "status", trusted)
}

/// Requests zones of the server: from a number on, `most` at most, with the layout (`core/zone_reports.rs`).
///
/// # Errors
/// See [`ControlError`].
pub fn zones(path: &Path, first: u32, most: u32, trusted: Option<&[u32]>) -> Result<Value, ControlError> {
    query(path, &json!({ "request": "zones", "first": first, "count": most }), "zones", trusted)
}

/// Has the server act on the zone that begins at a byte, or on all zones; returns what was done in words.
///
/// # Errors
/// See [`ControlError`].
pub fn act_on_zones(
    path: &Path,
    action: &str,
    zone: Option<u64>,
    trusted: Option<&[u32]>,
) -> Result<String, ControlError> {
    let zone = zone.map_or_else(|| json!("all"), |start| json!(start));
    let request = json!({ "request": "zone", "action": action, "zone": zone });
    let now = query_within(ACTION_TIMEOUT, path, &request, "now", trusted)?;
    Ok(now.as_str().unwrap_or_default().to_owned())
}

/// Changes a setting of the server and returns its new value in words.
///
/// # Errors
/// See [`ControlError`].
pub fn set(path: &Path, setting: &str, value: &str, trusted: Option<&[u32]>) -> Result<String, ControlError> {
    let request = json!({ "request": "set", "setting": setting, "value": value });
    Ok(query(path, &request, "now", trusted)?.as_str().unwrap_or_default().to_owned())
}

/// Sends a request and returns the value of `key` in the answer.
fn query(path: &Path, request: &Value, key: &str, trusted: Option<&[u32]>) -> Result<Value, ControlError> {
    query_within(TIMEOUT, path, request, key, trusted)
}

fn query_within(
    timeout: Duration,
    path: &Path,
    request: &Value,
    key: &str,
    trusted: Option<&[u32]>,
) -> Result<Value, ControlError> {
    let name = path.display().to_string();
    let no_server = |error| ControlError::NoServer(name.clone(), error);
    let mut stream = connect_to(path, timeout).map_err(no_server)?;
    let server = socket_peercred(&stream).map_err(|error| no_server(error.into()))?.uid.as_raw();
    if trusted.is_some_and(|trusted| !trusted.contains(&server)) {
        return Err(ControlError::Untrusted(name, server));
    }
    let line =
        stream.write_all(format!("{request}\n").as_bytes()).and_then(|()| read_line(&mut stream, timeout));
    let mut answer: Value = line
        .and_then(|line| serde_json::from_slice(&line).map_err(|_| invalid("not a skylight server")))
        .map_err(no_server)?;
    match (&answer["ok"], answer["error"].as_str()) {
        (Value::Bool(true), _) if answer.get(key).is_some() => Ok(answer[key].take()),
        (Value::Bool(false), Some(error)) => Err(ControlError::Refused(name, error.to_owned())),
        _ => Err(no_server(invalid("not a skylight server"))),
    }
}

/// Reads a line, without its newline.
fn read_line(from: &mut impl Read, timeout: Duration) -> io::Result<Vec<u8>> {
    let deadline = Instant::now() + timeout;
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = from.read(&mut part)?;
        let end = part[..count].iter().position(|&byte| byte == b'\n');
        line.extend_from_slice(&part[..end.unwrap_or(count)]);
        if end.is_some() {
            return Ok(line);
        }
        if count == 0 || line.len() > MAX_ANSWER_BYTES {
            return Err(invalid("not a skylight server"));
        }
        if Instant::now() >= deadline {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
