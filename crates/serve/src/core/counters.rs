//! Commands and bytes since the server started, by operation.
//!
//! Invariant: counters only grow; each can be read at any time, independently of the others.

use std::sync::atomic::{AtomicU64, Ordering};

use super::{Command, OFFERED, Op};

/// See the module documentation.
#[derive(Debug, Default)]
pub struct Counters {
    commands: [AtomicU64; Op::COUNT],
    bytes: [AtomicU64; Op::COUNT],
    refused: AtomicU64,
}

impl Counters {
    /// Counts an accepted command.
    pub fn count(&self, command: &Command) {
        self.commands[command.op.index()].fetch_add(1, Ordering::Relaxed);
        self.bytes[command.op.index()].fetch_add(command.len_bytes(), Ordering::Relaxed);
    }

    /// Counts an invalid request.
    pub fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// The number of commands of one kind.
    pub fn commands(&self, op: Op) -> u64 {
        self.commands[op.index()].load(Ordering::Relaxed)
    }

    /// All counters, for the status.
    pub fn to_json(&self) -> serde_json::Value {
        let of = |numbers: &[AtomicU64; Op::COUNT]| -> serde_json::Map<String, serde_json::Value> {
            OFFERED
                .into_iter()
                .map(|op| (op.to_string(), numbers[op.index()].load(Ordering::Relaxed).into()))
                .collect()
        };
        serde_json::json!({
            "commands": of(&self.commands),
            "bytes": of(&self.bytes),
            "refused": self.refused.load(Ordering::Relaxed),
        })
    }
}
