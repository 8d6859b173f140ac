//! Commands and bytes since the server started, by operation.
//!
//! Invariant: counters only grow; each can be read at any time, independently of the others.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Op, Request};

/// See the module page.
#[derive(Debug, Default)]
pub struct Counters {
    commands: [AtomicU64; Op::ALL.len()],
    bytes: [AtomicU64; Op::ALL.len()],
    refused: AtomicU64,
}

impl Counters {
    /// Counts an accepted command.
    pub fn count(&self, request: &Request) {
        self.commands[request.op as usize].fetch_add(1, Ordering::Relaxed);
        self.bytes[request.op as usize].fetch_add(request.len, Ordering::Relaxed);
    }

    /// Counts an invalid request.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of commands of one kind.
    pub fn commands(&self, op: Op) -> u64 {
        self.commands[op as usize].load(Ordering::Relaxed)
    }

    /// All counters, for the status.
    pub fn to_json(&self) -> serde_json::Value {
        let of = |numbers: &[AtomicU64; Op::ALL.len()]| -> serde_json::Map<String, serde_json::Value> {
            Op::ALL
                .into_iter()
                .map(|op| (op.name().to_owned(), numbers[op as usize].load(Ordering::Relaxed).into()))
                .collect()
        };
        serde_json::json!({
            "commands": of(&self.commands),
            "bytes": of(&self.bytes),
            "refused": self.refused.load(Ordering::Relaxed),
        })
    }
}
