//! A backend with everything that its front doors share: counters, limits, status and settings.
//!
//! A front door (`nbd`, `control`) holds a [`Service`] and adds only its protocol and its sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

use serde_json::{Value, json};

use super::connection::ServerState;
use super::counters::Counters;
use super::{Backend, Completion, Flags, Job, Op, Setting, ZoneAction, ZonePage, validate};

/// Why a drive without zones has no report of them.
const NO_ZONES: &str = "the drive has no zones; serve a drive with zones (skylight drives list)";

/// See the module page.
pub struct Service {
    /// The drive.
    pub backend: Arc<dyn Backend>,
    /// Commands and bytes since the start.
    pub counters: Counters,
    /// Memory budget, queue limits and shutdown phase.
    pub shared: Arc<ServerState>,
    connections: AtomicUsize,
    began: Instant,
}

impl Service {
    /// Serves a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let (counters, shared) = (Counters::default(), Arc::default());
        Self { backend, counters, shared, connections: AtomicUsize::new(0), began: Instant::now() }
    }

    /// Counts a client that has connected.
    pub fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a client that has disconnected.
    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// One sentence about the drive and its activity.
    pub fn description(&self) -> String {
        let clients = self.connections.load(Ordering::Relaxed);
        let count = |op| self.counters.commands(op);
        let activity = format!(
            "{clients} connected, {} reads, {} writes, {} flushes",
            count(Op::Read),
            count(Op::Write),
            count(Op::Flush)
        );
        match self.backend.shape().description.as_str() {
            "" => activity,
            drive => format!("{drive}; {activity}"),
        }
    }

    /// The status as JSON.
    pub fn status(&self) -> Value {
        let shape = self.backend.shape();
        json!({
            "schema": 1,
            "name": shape.name,
            "size_bytes": shape.size,
            "up_s": self.began.elapsed().as_secs(),
            "connections": self.connections.load(Ordering::Relaxed),
            "requests": self.counters.to_json(),
            "drive": self.backend.status(),
        })
    }

    /// Acts on the zone from a byte on, or on all zones; what completes the action.
    ///
    /// # Errors
    /// One line, when the drive has no zones, or there can be no such zone.
    pub fn act_on_zones(
        &self,
        action: ZoneAction,
        zone: Option<u64>,
    ) -> Result<Receiver<Completion>, String> {
        let failed = |failure| format!("cannot act on zones: {failure}");
        let Some(ZonePage { layout, .. }) = self.backend.zones(0, 0).map_err(failed)? else {
            return Err(NO_ZONES.to_owned());
        };
        let shape = self.backend.shape();
        // Whether a zone begins there, the drive says.
        let (offset, len) = match zone {
            Some(start) => (start, layout.zone.bytes().min(shape.size.saturating_sub(start))),
            None => (0, shape.size),
        };
        let command = validate(Op::Zone(action), Flags::NONE, offset, len, shape).map_err(|_| {
            format!("{offset}: no zone begins at this byte; skylight zones lists where they begin")
        })?;
        let (sender, receiver) = channel();
        self.backend.submit(Job::new(
            command,
            Vec::new(),
            Box::new(move |completion| {
                // A client that is gone does not wait for it.
                let _ = sender.send(completion);
            }),
        ));
        Ok(receiver)
    }

    /// Changes a setting and returns its new value in words.
    ///
    /// # Errors One line, when the drive does not have the setting.
    pub fn set(&self, setting: &Setting) -> Result<String, String> {
        self.backend.set(setting)
    }
}
