//! Requests about zones: pages of a report, and actions.
//!
//! An action is a command of the drive, in order with data commands that touch its zone, and may wait for these: its answer
//! comes later ([`PendingAction`]), and other clients are answered meanwhile.

use std::sync::mpsc::{Receiver, TryRecvError};

use serde_json::{Value, json};

use super::{failed, quoted, text};
use crate::core::ZoneAction;
use crate::core::{Completion, Service};

/// Most zones of a page: some 300 KiB of an answer.
pub const PAGE_ZONES: u64 = 4096;

/// An action on zones that is not done.
pub struct PendingAction {
    receiver: Receiver<Completion>,
    action: String,
}

impl PendingAction {
    /// The answer, if the action is done.
    pub fn poll(&self) -> Option<Value> {
        match self.receiver.try_recv() {
            Ok(completion) => Some(self.answer(&completion)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(failed("the server is shutting down")),
        }
    }

    /// Waits for the answer.
    pub fn wait(self) -> Value {
        match self.receiver.recv() {
            Ok(completion) => self.answer(&completion),
            Err(_) => failed("the server is shutting down"),
        }
    }

    fn answer(&self, completion: &Completion) -> Value {
        match completion.outcome.status() {
            Ok(()) => json!({ "ok": true, "now": self.action }),
            Err(failure) => failed(&format!("{}: {failure}", self.action)),
        }
    }
}

/// A number of a request, or what it is when it is not given.
fn number(request: &Value, key: &str, otherwise: u64) -> Result<u64, String> {
    match request.get(key) {
        None | Some(Value::Null) => Ok(otherwise),
        Some(value) => value.as_u64().ok_or_else(|| format!("{key}: not a whole number")),
    }
}

/// Answers a request for a page of zones.
pub(super) fn report(request: &Value, service: &Service) -> Result<Value, String> {
    let first = number(request, "first", 0)?;
    let most = number(request, "count", PAGE_ZONES)?.min(PAGE_ZONES);
    let first = u32::try_from(first).map_err(|_| format!("first: {first} is more than any drive has"))?;
    let page = service.backend.zones(first, most as usize).map_err(|failure| format!("zones: {failure}"))?;
    let page = page.map_or_else(|| json!({ "layout": null, "columns": {} }), |page| page.to_json());
    Ok(json!({ "ok": true, "zones": page }))
}

/// Begins an action on zones.
pub(super) fn act(request: &Value, service: &Service) -> Result<PendingAction, String> {
    let name = text(request, "action")?;
    let Some(action) = ZoneAction::ALL.into_iter().find(|known| known.as_str() == name) else {
        return Err(format!("{}: unknown action; use open, close, finish or reset", quoted(name)));
    };
    let zone = match request.get("zone") {
        Some(Value::String(all)) if all == "all" => None,
        Some(zone) => Some(zone.as_u64().ok_or("zone: neither \"all\" nor the byte at which a zone begins")?),
        None => return Err("zone: missing; give \"all\" or the byte at which a zone begins".to_owned()),
    };
    let receiver = service.act_on_zones(action, zone)?;
    let action =
        zone.map_or_else(|| format!("{action} all zones"), |start| format!("{action} the zone at {start}"));
    Ok(PendingAction { receiver, action })
}
