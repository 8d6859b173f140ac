//! A drive that is served, with what all its front doors share: the counters, the limits, the status and the settings.
//!
//! A front door (`nbd`, `control`) holds a [`Service`] and brings only its protocol and its sockets.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use serde_json::{Value, json};

use super::connection::Shared;
use super::counters::Counters;
use super::{Backend, Op, Setting};

/// See the module page.
pub struct Service {
    /// What is served.
    pub backend: Arc<dyn Backend>,
    /// What was done.
    pub counters: Counters,
    /// Memory and phases of all connections.
    pub shared: Arc<Shared>,
    connections: AtomicUsize,
    began: Instant,
}

impl Service {
    /// Serves a backend.
    pub fn new(backend: Arc<dyn Backend>) -> Self {
        let (counters, shared) = (Counters::default(), Arc::default());
        Self { backend, counters, shared, connections: AtomicUsize::new(0), began: Instant::now() }
    }

    /// A client of a front door came.
    pub fn connected(&self) {
        self.connections.fetch_add(1, Ordering::Relaxed);
    }

    /// A client of a front door went.
    pub fn disconnected(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }

    /// A sentence about the drive and what it did.
    pub fn description(&self) -> String {
        let clients = self.connections.load(Ordering::Relaxed);
        let done = |op| self.counters.commands(op);
        let did = format!(
            "{clients} connected, {} reads, {} writes, {} flushes",
            done(Op::Read),
            done(Op::Write),
            done(Op::Flush)
        );
        match self.backend.shape().description.as_str() {
            "" => did,
            what => format!("{what}; {did}"),
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

    /// Changes how the drive is served; what it is then, in words.
    ///
    /// # Errors
    /// One line, when it has nothing of the kind.
    pub fn set(&self, setting: &Setting) -> Result<String, String> {
        self.backend.set(setting)
    }
}
