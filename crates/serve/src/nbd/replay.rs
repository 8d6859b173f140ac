//! A client that is a row of bytes, for tests and fuzzing: what it says is fixed, what it hears is kept.
//!
//! Invariant: the conversation ends when the bytes do; nothing waits.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use crate::core::connection::Connection;
use crate::core::counters::Counters;
use crate::core::{Backend, Shape};
use crate::nbd::channel::Channel;
use crate::nbd::handshake::{Export, TlsPolicy, negotiate};
use crate::nbd::transmission::transmit;

/// What is kept of what the server says, bytes; the rest is only counted.
const MOST_KEPT: usize = 1 << 20;

#[derive(Default)]
struct Tape {
    said: Vec<u8>,
    at: usize,
    heard: Vec<u8>,
    heard_bytes: u64,
}

struct Replay {
    tape: Mutex<Tape>,
    /// Bytes that come at once.
    part: usize,
}

impl Channel for Replay {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let count = buffer.len().min(tape.said.len() - tape.at).min(self.part);
        buffer[..count].copy_from_slice(&tape.said[tape.at..tape.at + count]);
        tape.at += count;
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut tape = self.tape.lock().unwrap_or_else(PoisonError::into_inner);
        let room = MOST_KEPT - tape.heard.len();
        tape.heard.extend_from_slice(&bytes[..bytes.len().min(room)]);
        tape.heard_bytes += bytes.len() as u64;
        Ok(())
    }
}

struct Replayed<'a>(&'a dyn Backend);

impl Export for Replayed<'_> {
    fn shape(&self) -> &Shape {
        self.0.shape()
    }

    fn description(&self) -> String {
        "replayed".to_owned()
    }

    fn tls(&self) -> &TlsPolicy {
        &TlsPolicy::Off
    }
}

/// What a server says to a client that says these bytes, `part` at a time: the first MiB of it, and how much it
/// was in all.
pub fn replay(said: &[u8], part: usize, backend: &dyn Backend) -> (Vec<u8>, u64) {
    let tape = Mutex::new(Tape { said: said.to_vec(), ..Tape::default() });
    let replay = Arc::new(Replay { tape, part: part.max(1) });
    // That it ends is no fault: how it ends is not of interest here.
    if let Ok(Some(agreed)) = negotiate(replay.clone(), &Replayed(backend)) {
        let _ = transmit(agreed, backend, &Counters::default(), Arc::new(Connection::new(Arc::default())));
    }
    let mut tape = replay.tape.lock().unwrap_or_else(PoisonError::into_inner);
    (std::mem::take(&mut tape.heard), tape.heard_bytes)
}
