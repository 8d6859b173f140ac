//! Executes a long write of a client that queues while the request behind it is received.
//!
//! Two threads take turns. The one that has received a long write passes the connection on and executes the write, with
//! the payload where it lies: in the processor's cache, and in the buffer that the next request would need. The other one
//! receives meanwhile. A client that waits for each reply keeps one thread, because passing the connection on would only
//! add wake-ups.
//!
//! Invariants: one command executes at a time, in the order in which they were received, and the reply to a long write is
//! sent whole before the next command begins; both buffers are within the memory budget, and a long write that finds too
//! little of it executes on the thread that received it.

use std::io;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::Scope;

use super::{INPUT_BYTES, Transmission};
use crate::core::{Backend, Command, Op};
use crate::nbd::decode::{Decoded, decode};
use crate::nbd::reply_buffer::{ReplyBuffer, push_reply};
use crate::nbd::transport::{Channel, Input};
use crate::nbd::wire::RawRequest;

/// Shortest write that is worth passing a connection on, bytes. Chosen: it takes 60 us and more, several times a wake-up.
const MIN_BYTES: usize = 256 << 10;

/// An input buffer, with the bytes reserved for it from the shared budget beyond `INPUT_BYTES`; these are reserved, too,
/// for as long as a connection has a second buffer.
type Buffer = (Input, usize);

/// A long write that was received.
pub(super) struct LongWrite {
    raw: RawRequest,
    command: Command,
    payload: (usize, usize),
    buffer: Buffer,
}

#[derive(Default)]
struct State {
    /// A long write executes beside the thread that receives.
    executing: bool,
    /// The buffer that the next request is received into while a long write executes.
    spare: Option<Buffer>,
    /// Whether the client sent its last request before the long write in front of it was answered.
    queues: bool,
    /// Why the second thread ended.
    failed: Option<io::Error>,
}

/// What the threads of a connection share besides its [`Transmission`].
#[derive(Default)]
pub(super) struct Overlap {
    state: Mutex<State>,
    executed: Condvar,
}

impl Overlap {
    // No statement that can panic leaves the state inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the long write that executes, if any.
    pub(super) fn wait(&self) {
        let executed = self.executed.wait_while(self.state(), |state| state.executing);
        drop(executed.unwrap_or_else(PoisonError::into_inner));
    }

    /// Notes that the next request begins to arrive.
    pub(super) fn note_request(&self) {
        let mut state = self.state();
        state.queues = state.executing;
    }

    /// Why the second thread ended, if it failed.
    pub(super) fn failure(&self) -> io::Result<()> {
        self.state().failed.take().map_or(Ok(()), Err)
    }

    /// Gives up the spare buffer; returns the bytes that were reserved for it.
    pub(super) fn shrink(&self) -> usize {
        self.state().spare.take().map_or(0, |(_, reserved)| reserved + INPUT_BYTES)
    }
}

/// A long write that executes, until it is dropped. A panic ends the connection, as one of the receiving thread does.
struct Executing<'a> {
    overlap: &'a Overlap,
    channel: &'a dyn Channel,
}

impl Drop for Executing<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.channel.shut_down();
        }
        self.overlap.state().executing = false;
        self.overlap.executed.notify_all();
    }
}

impl Transmission<'_> {
    /// Takes the received batch of `bytes` out of the input if it is one long write and the client has more to send.
    pub(super) fn take_long_write(&mut self, bytes: usize) -> Option<LongWrite> {
        let &[request] = self.requests.as_slice() else { return None };
        if self.reply_queue.is_some() {
            return None;
        }
        let raw = request.raw;
        if raw.payload() < MIN_BYTES || self.is_refusing() || !self.is_connected() {
            return None;
        }
        let queues = self.overlap.state().queues;
        if !queues && !self.has_received_more(bytes) {
            return None;
        }
        let command = match decode(&raw, &self.session, self.backend.shape()) {
            Ok(Decoded::Command(command)) if command.op == Op::Write => command,
            _ => return None,
        };
        let (mut next, reserved) = self.spare_buffer()?;
        self.counters.count(&command);
        next.start_with(&self.input.available()[bytes..]);
        let input = std::mem::replace(&mut self.input, next);
        let buffer = (input, std::mem::replace(&mut self.reserved.0, reserved));
        self.overlap.state().executing = true;
        self.small_batch = false;
        self.connection.set_busy(true);
        Some(LongWrite { raw, command, payload: request.payload, buffer })
    }

    /// After the requests in the first `bytes` of the input have executed and before their replies are sent: notes whether
    /// a client of long writes has sent more meanwhile.
    pub(super) fn note_queueing(&self, bytes: usize) {
        if bytes >= MIN_BYTES && self.reply_queue.is_none() {
            let queues = self.has_received_more(bytes);
            self.overlap.state().queues = queues;
        }
    }

    fn has_received_more(&self, bytes: usize) -> bool {
        self.input.available().len() > bytes || self.channel.has_input()
    }

    /// A buffer as large as the present one, if there is memory for it.
    fn spare_buffer(&self) -> Option<Buffer> {
        if let Some(spare) = self.overlap.state().spare.take() {
            return Some(spare);
        }
        let reserved = self.reserved.0;
        let granted = self.connection.shared.budget.reserve(reserved + INPUT_BYTES, || false);
        granted.then(|| (Input::new(INPUT_BYTES + reserved), reserved))
    }
}

/// Serves a client until it disconnects; the first of its threads starts the second when there is work for it.
pub(super) fn serve<'scope, 'a: 'scope>(
    transmission: &'scope Mutex<Transmission<'a>>,
    scope: &'scope Scope<'scope, '_>,
    mut is_first: bool,
) -> io::Result<()> {
    loop {
        // If the other thread panicked, the connection has ended.
        let Ok(mut turn) = transmission.lock() else { return Ok(()) };
        if turn.ended {
            return Ok(());
        }
        let write = match turn.run() {
            Ok(Some(write)) => write,
            ended => {
                turn.ended = true;
                return ended.map(drop);
            }
        };
        let (channel, connection) = (turn.channel.clone(), turn.connection.clone());
        let (backend, overlap) = (turn.backend, turn.overlap.clone());
        drop(turn);
        if std::mem::take(&mut is_first) {
            let (thread, overlap) = (std::thread::Builder::new(), overlap.clone());
            let second = move || overlap.state().failed = serve(transmission, scope, false).err();
            // Without a second thread, this one does both.
            let _ = thread.name("nbd-client-2".to_owned()).spawn_scoped(scope, second);
        }
        let executing = Executing { overlap: &overlap, channel: channel.as_ref() };
        let out = &mut ReplyBuffer::default();
        let buffer = write.execute(backend, out);
        connection.set_sending(true);
        let sent = out.send(channel.as_ref());
        connection.set_sending(false);
        connection.set_busy(false);
        overlap.state().spare = Some(buffer);
        drop(executing);
        if sent.is_err() {
            connection.disconnect();
            channel.shut_down();
            return sent;
        }
    }
}

impl LongWrite {
    /// Executes the write and encodes its reply; returns the buffer, empty.
    fn execute(self, backend: &dyn Backend, out: &mut ReplyBuffer) -> Buffer {
        let Self { raw, command, payload: (start, end), mut buffer } = self;
        let mut results = Vec::with_capacity(1);
        backend.execute_writes(&mut [(command, &mut buffer.0.available_mut()[start..end])], &mut results);
        results.into_iter().for_each(|result| push_reply(out, false, &raw, result, &[], None));
        buffer.0.align();
        buffer
    }
}
