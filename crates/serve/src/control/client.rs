//! The side of `skylight status` and `skylight control`.
//!
//! Invariant: an answer is bounded in bytes and in time, whatever listens there.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use serde_json::{Value, json};

use crate::endpoint::connect_to;

/// How long a server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest answer that is taken, bytes: a status has a few thousand.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// Why there is no answer, as one line.
#[derive(Debug, thiserror::Error)]
pub enum ControlError {
    /// Nobody listens there, or what listens is no server of ours.
    #[error("{0}: no skylight server answers there ({1}); start one with skylight serve")]
    NoServer(String, io::Error),
    /// A server of a user whom the caller does not trust.
    #[error("{0}: the server there belongs to user {1}, who neither owns the image nor is you")]
    Stranger(String, u32),
    /// The server refused.
    #[error("{0}: {1}")]
    Refused(String, String),
}

fn wrong(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// The status of the server whose control socket is at a path; it must belong to one of the `trusted` users, if any are
/// given.
///
/// # Errors
/// See [`ControlError`].
pub fn status(path: &Path, trusted: Option<&[u32]>) -> Result<Value, ControlError> {
    ask(path, &json!({ "request": "status" }), "status", trusted)
}

/// Changes a setting of such a server; what it is then, in words.
///
/// # Errors
/// See [`ControlError`].
pub fn set(path: &Path, setting: &str, value: &str, trusted: Option<&[u32]>) -> Result<String, ControlError> {
    let request = json!({ "request": "set", "setting": setting, "value": value });
    Ok(ask(path, &request, "now", trusted)?.as_str().unwrap_or_default().to_owned())
}

/// What the answer to a request has under a key.
fn ask(path: &Path, request: &Value, key: &str, trusted: Option<&[u32]>) -> Result<Value, ControlError> {
    let name = path.display().to_string();
    let none = |error| ControlError::NoServer(name.clone(), error);
    let mut stream = connect_to(path, PATIENCE).map_err(none)?;
    let server = socket_peercred(&stream).map_err(|error| none(error.into()))?.uid.as_raw();
    if trusted.is_some_and(|trusted| !trusted.contains(&server)) {
        return Err(ControlError::Stranger(name, server));
    }
    let line = stream.write_all(format!("{request}\n").as_bytes()).and_then(|()| read_line(&mut stream));
    let mut answer: Value = line
        .and_then(|line| serde_json::from_slice(&line).map_err(|_| wrong("not a server of skylight")))
        .map_err(none)?;
    match (&answer["ok"], answer["error"].as_str()) {
        (Value::Bool(true), _) if answer.get(key).is_some() => Ok(answer[key].take()),
        (Value::Bool(false), Some(error)) => Err(ControlError::Refused(name, error.to_owned())),
        _ => Err(none(wrong("not a server of skylight"))),
    }
}

/// A line without its end.
fn read_line(from: &mut impl Read) -> io::Result<Vec<u8>> {
    let until = Instant::now() + PATIENCE;
    let (mut line, mut part) = (Vec::new(), [0; 4096]);
    loop {
        let count = from.read(&mut part)?;
        let end = part[..count].iter().position(|&byte| byte == b'\n');
        line.extend_from_slice(&part[..end.unwrap_or(count)]);
        if end.is_some() {
            return Ok(line);
        }
        if count == 0 || line.len() > MAX_ANSWER_BYTES {
            return Err(wrong("not a server of skylight"));
        }
        if Instant::now() >= until {
            return Err(io::ErrorKind::TimedOut.into());
        }
    }
}
