//! The front door for status and settings: a Unix socket of its own, whatever protocol carries the data.
//!
//! Each request and each answer is one line that holds a JSON object:
//!
//! ```text
//! {"request": "status"}
//! {"ok": true, "status": {"schema": 1, "name": "st5000as0011", ...}}
//! {"request": "set", "setting": "read-mode", "value": "performance"}
//! {"ok": true, "now": "read mode performance"}
//! {"request": "zones", "first": 0, "count": 2}
//! {"ok": true, "zones": {"layout": {"model": "host-managed", ...}, "columns": {"start_bytes": [0, 268435456], ...}}}
//! {"request": "zone", "action": "reset", "zone": 268435456}
//! {"ok": true, "now": "reset the zone at 268435456"}
//! {"request": "dance"}
//! {"ok": false, "error": "dance: unknown request; use status, set, zones or zone"}
//! ```
//!
//! * [`server`]: the socket and its clients. [`client`]: the other side, for `skylight status`, `skylight control` and
//!   `skylight zones`. [`zones`]: requests about zones.
//!
//! Invariant: every line gets an answer of one line, whatever it holds.

pub mod client;
pub mod server;
pub mod zones;

use serde_json::{Value, json};

use crate::core::{Service, Setting};
use zones::PendingAction;

/// The longest request, bytes without the newline: several times what a setting needs.
pub const MAX_REQUEST_BYTES: usize = 4096;
/// The longest quotation of an invalid request in its answer, characters.
const MAX_QUOTED: usize = 64;

/// Truncates client input for quotation in an answer.
fn quoted(text: &str) -> String {
    text.chars().take(MAX_QUOTED).collect()
}

fn failed(error: &str) -> Value {
    json!({ "ok": false, "error": error.replace('\n', " ") })
}

fn text<'a>(request: &'a Value, key: &str) -> Result<&'a str, String> {
    request.get(key).and_then(Value::as_str).ok_or_else(|| format!("{key}: missing or not a string"))
}

fn set(request: &Value, service: &Service) -> Result<Value, String> {
    let (name, value) = (text(request, "setting")?, text(request, "value")?);
    let setting = Setting::parse(&quoted(name), value).map_err(|error| quoted_error(&error))?;
    Ok(json!({ "ok": true, "now": service.set(&setting)? }))
}

/// Truncates an error message that may quote a long value.
fn quoted_error(error: &str) -> String {
    const MAX_CHARS: usize = 4 * MAX_QUOTED;
    match error.chars().count() {
        0..=MAX_CHARS => error.to_owned(),
        all => error.chars().skip(all - MAX_CHARS).collect(),
    }
}

/// The answer to a request: now, or when an action is done.
pub enum Answer {
    /// This.
    Now(Value),
    /// That of the action.
    Later(PendingAction),
}

/// Begins to execute the request on one line.
pub fn begin(line: &[u8], service: &Service) -> Answer {
    let Ok(request) = serde_json::from_slice::<Value>(line) else {
        let error = "not a request; send one JSON object per line, such as {\"request\": \"status\"}";
        return Answer::Now(failed(error));
    };
    let answered = match text(&request, "request") {
        Ok("status") => Ok(Answer::Now(json!({ "ok": true, "status": service.status() }))),
        Ok("set") => set(&request, service).map(Answer::Now),
        Ok("zones") => zones::report(&request, service).map(Answer::Now),
        Ok("zone") => zones::act(&request, service).map(Answer::Later),
        Ok(other) => Err(format!("{}: unknown request; use status, set, zones or zone", quoted(other))),
        Err(error) => Err(error),
    };
    answered.unwrap_or_else(|error| Answer::Now(failed(&error)))
}

/// Executes the request on one line and returns the answer.
pub fn answer(line: &[u8], service: &Service) -> Value {
    match begin(line, service) {
        Answer::Now(answer) => answer,
        Answer::Later(action) => action.wait(),
    }
}
