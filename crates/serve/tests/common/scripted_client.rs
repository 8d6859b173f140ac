//! A scripted client for tests and fuzzing: it sends fixed bytes and records the replies.
//!
//! Invariant: the session ends when the bytes do; nothing blocks.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use skylight_serve::core::connection::Connection;
use skylight_serve::core::counters::Counters;
use skylight_serve::core::{Backend, Shape};
use skylight_serve::nbd::handshake::{Export, TlsPolicy, negotiate};
use skylight_serve::nbd::transmission::transmit;
use skylight_serve::nbd::transport::Channel;

/// Replies that are recorded, bytes; the rest is only counted.
const MAX_RECORDED_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Transcript {
    input: Vec<u8>,
    position: usize,
    output: Vec<u8>,
    output_bytes: u64,
}

struct Replay {
    transcript: Mutex<Transcript>,
    /// Bytes per receive.
    chunk: usize,
}

impl Channel for Replay {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut transcript = self.transcript.lock().unwrap_or_else(PoisonError::into_inner);
        let count = buffer.len().min(transcript.input.len() - transcript.position).min(self.chunk);
        buffer[..count].copy_from_slice(&transcript.input[transcript.position..transcript.position + count]);
        transcript.position += count;
        Ok(count)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut transcript = self.transcript.lock().unwrap_or_else(PoisonError::into_inner);
        let free = MAX_RECORDED_BYTES - transcript.output.len();
        transcript.output.extend_from_slice(&bytes[..bytes.len().min(free)]);
        transcript.output_bytes += bytes.len() as u64;
        Ok(())
    }
}

struct ReplayExport<'a>(&'a dyn Backend);

impl Export for ReplayExport<'_> {
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

/// Sends `input` to a server, `chunk` bytes at a time. Returns the first MiB of the replies, and their total
/// length in bytes.
pub fn replay(input: &[u8], chunk: usize, backend: &dyn Backend) -> (Vec<u8>, u64) {
    let transcript = Mutex::new(Transcript { input: input.to_vec(), ..Transcript::default() });
    let replay = Arc::new(Replay { transcript, chunk: chunk.max(1) });
    // A failed session is an expected result.
    if let Ok(Some(negotiated)) = negotiate(replay.clone(), &ReplayExport(backend)) {
        let _ =
            transmit(negotiated, backend, &Counters::default(), Arc::new(Connection::new(Arc::default())));
    }
    let mut transcript = replay.transcript.lock().unwrap_or_else(PoisonError::into_inner);
    (std::mem::take(&mut transcript.output), transcript.output_bytes)
}
