//! Replies of an asynchronous backend on their way to the client.
//!
//! Invariants: replies are sent whole and in the order in which they were queued; every command that was
//! started is answered once: by the backend, or with ESHUTDOWN during shutdown, whichever comes first.
//! Pending commands and replies are bounded per connection ([`MAX_PENDING_BYTES`], [`MAX_PENDING`]) and for
//! all connections together (`core/memory_budget.rs`): a client that does not read its replies blocks only
//! itself, and no more of its commands start while `MAX_UNSENT` replies wait. The thread that completes a
//! command never waits for a client.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::core::connection::{Connection, Phase};
use crate::core::{Completion, Errno};
use crate::nbd::reply_buffer::{ReplyBuffer, push_reply};
use crate::nbd::transport::Channel;
use crate::nbd::wire::RawRequest;

/// Bytes of pending commands at which a connection stops reading requests.
pub const MAX_PENDING_BYTES: usize = 8 << 20;
/// Pending commands at which a connection stops reading requests.
pub const MAX_PENDING: usize = 1024;
/// Unsent replies, and their bytes, at which no more commands of a client start. Many short replies are
/// allowed, because a client may send many requests before it reads, and a socket buffers only some hundred
/// replies.
const MAX_UNSENT: (usize, usize) = (MAX_PENDING, 2 << 20);
/// Memory of each connection outside the shared budget, bytes.
const UNBUDGETED_BYTES: usize = 64 << 10;
/// Bookkeeping for one command in all parts of the server, bytes.
const COMMAND_OVERHEAD_BYTES: usize = 256;
/// How often a waiting thread checks for shutdown.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A reply that waits for the sender thread.
struct QueuedReply {
    bytes: Vec<u8>,
    /// Bytes already sent.
    sent: usize,
    /// Bytes that it releases once sent.
    footprint: usize,
}

#[derive(Default)]
struct State {
    queue: VecDeque<QueuedReply>,
    /// Bytes of the queued replies.
    queued_bytes: usize,
    /// Commands in the backend, by ticket, with their footprints.
    outstanding: HashMap<u64, (RawRequest, usize)>,
    last_ticket: u64,
    /// Commands started and not yet fully answered, and their bytes.
    pending: usize,
    pending_bytes: usize,
    /// Bytes reserved from the shared budget.
    reserved: usize,
    /// The sender thread is sending a reply.
    sending: bool,
    /// The queue is closed: no more replies follow, or the connection has failed.
    closed: bool,
}

/// Replies of an asynchronous backend. The completing thread sends what the socket accepts without blocking;
/// a sender thread sends the rest.
pub(crate) struct ReplyQueue {
    channel: Arc<dyn Channel>,
    connection: Arc<Connection>,
    structured: bool,
    state: Mutex<State>,
    /// Signals freed space or the end. Usually no thread waits on it, and then it wakes none: when a reply is
    /// sent the processors are left to the client.
    space_freed: Condvar,
    /// Signals the sender thread.
    reply_queued: Condvar,
}

/// How a wait for space ended.
pub(crate) enum Reservation {
    /// The space is reserved.
    Granted,
    /// The server is shutting down.
    Refused,
}

impl ReplyQueue {
    /// An empty queue for a connection.
    pub(crate) fn new(channel: Arc<dyn Channel>, structured: bool, connection: Arc<Connection>) -> Self {
        let (state, space_freed, reply_queued) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self { channel, connection, structured, state, space_freed, reply_queued }
    }

    // No statement that can panic leaves the lists inconsistent.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait_for_space<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.space_freed.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    fn is_refusing(&self) -> bool {
        self.connection.shared.has_reached(Phase::Refusing)
    }

    /// The footprint of a command with `len` bytes of data.
    pub(crate) fn footprint_of(len: usize) -> usize {
        len + COMMAND_OVERHEAD_BYTES
    }

    /// Reserves space for a command or a reply, waiting for it if necessary.
    ///
    /// # Errors
    /// When the client has disconnected.
    pub(crate) fn reserve(&self, footprint: usize) -> io::Result<Reservation> {
        let mut state = self.state();
        loop {
            if state.closed || self.connection.is_disconnected() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.is_refusing() {
                return Ok(Reservation::Refused);
            }
            let may_start = self.connection.shared.may_start(state.outstanding.len());
            let congested = state.queue.len() >= MAX_UNSENT.0 || state.queued_bytes >= MAX_UNSENT.1;
            let full = state.pending_bytes + footprint > MAX_PENDING_BYTES;
            if state.pending > 0 && (full || congested || !may_start || state.pending >= MAX_PENDING) {
                state = self.wait_for_space(state);
                continue;
            }
            let missing = (state.pending_bytes + footprint).saturating_sub(UNBUDGETED_BYTES + state.reserved);
            if missing == 0 {
                state.pending += 1;
                state.pending_bytes += footprint;
                return Ok(Reservation::Granted);
            }
            drop(state);
            let keep_waiting = || !self.is_refusing() && !self.connection.is_disconnected();
            let granted = self.connection.shared.budget.reserve(missing, keep_waiting);
            state = self.state();
            state.reserved += if granted { missing } else { 0 };
        }
    }

    /// Reserves space for replies that the transmission loop writes itself; during shutdown they are sent
    /// without a reservation.
    ///
    /// # Errors
    /// When the client has disconnected.
    pub(crate) fn reserve_reply(&self, footprint: usize) -> io::Result<()> {
        if let Reservation::Refused = self.reserve(footprint)? {
            let mut state = self.state();
            state.pending += 1;
            state.pending_bytes += footprint;
        }
        Ok(())
    }

    /// Registers a command for which space is reserved; returns the ticket that completes it.
    pub(crate) fn start(&self, raw: &RawRequest, footprint: usize) -> u64 {
        let mut state = self.state();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        if state.outstanding.is_empty() {
            self.connection.set_outstanding(true);
        }
        state.outstanding.insert(ticket, (*raw, footprint));
        self.connection.shared.command_started();
        ticket
    }

    /// Completes a command; does nothing if the command has been answered already.
    pub(crate) fn complete(&self, ticket: u64, completion: &Completion) {
        self.connection.shared.command_finished();
        self.reply(
            ticket,
            completion.outcome.status().map_err(Errno::from),
            &completion.data,
            completion.failed_at,
        );
    }

    fn reply(&self, ticket: u64, result: Result<(), Errno>, data: &[u8], at: Option<u64>) {
        let mut state = self.state();
        let Some((raw, footprint)) = state.outstanding.remove(&ticket) else {
            return;
        };
        if state.outstanding.is_empty() {
            self.connection.set_outstanding(false);
        }
        drop(state);
        let mut out = ReplyBuffer::default();
        push_reply(&mut out, self.structured, &raw, result, data, at);
        self.push(out.into_bytes(), footprint);
    }

    /// Answers all outstanding commands with ESHUTDOWN.
    fn fail_outstanding(&self) {
        let tickets: Vec<u64> = self.state().outstanding.keys().copied().collect();
        for ticket in tickets {
            self.reply(ticket, Err(Errno::Shutdown), &[], None);
        }
    }

    /// Sends an encoded reply, at once if possible, otherwise after those before it.
    pub(crate) fn push(&self, bytes: Vec<u8>, footprint: usize) {
        let mut state = self.state();
        let mut sent = 0;
        if state.queue.is_empty() && !state.sending && !state.closed {
            // The sender thread will see the error again.
            sent = self.channel.try_send(&bytes).unwrap_or(0);
        }
        if sent == bytes.len() || state.closed {
            self.release(&mut state, footprint);
        } else {
            state.queued_bytes += bytes.len();
            state.queue.push_back(QueuedReply { bytes, sent, footprint });
            self.reply_queued.notify_one();
        }
        drop(state);
        self.space_freed.notify_all();
    }

    /// Releases the space of a reply that was sent or dropped.
    fn release(&self, state: &mut State, footprint: usize) {
        state.pending -= 1;
        state.pending_bytes -= footprint;
        let reserved = state.reserved.min(state.pending_bytes.saturating_sub(UNBUDGETED_BYTES));
        self.connection.shared.budget.release(state.reserved - reserved);
        state.reserved = reserved;
    }

    /// Closes the queue.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.closed = true;
        // Commands still in the backend keep their buffers until the backend drops them.
        self.connection.shared.budget.release(std::mem::take(&mut state.reserved));
        if !std::mem::take(&mut state.outstanding).is_empty() {
            self.connection.set_outstanding(false);
        }
        drop(state);
        self.space_freed.notify_all();
        self.reply_queued.notify_all();
    }

    /// Waits until every reply is sent or the client has disconnected.
    pub(crate) fn drain(&self) {
        let mut state = self.state();
        while !state.closed && state.pending > 0 && !self.connection.is_disconnected() {
            state = self.wait_for_space(state);
            if self.is_refusing() && !state.outstanding.is_empty() {
                drop(state);
                self.fail_outstanding();
                state = self.state();
            }
            // During shutdown the server itself has shut down one direction of the socket.
            if !self.connection.shared.has_reached(Phase::Draining) && self.channel.is_disconnected() {
                self.connection.disconnect();
            }
        }
    }

    /// Sender thread: sends queued replies until the queue is closed.
    pub(crate) fn run_sender(&self) {
        loop {
            let idle = |state: &mut State| !state.closed && state.queue.is_empty();
            let guard = self.reply_queued.wait_while(self.state(), idle);
            let mut state = guard.unwrap_or_else(PoisonError::into_inner);
            if state.closed {
                return;
            }
            let Some(QueuedReply { bytes, sent, footprint }) = state.queue.pop_front() else {
                return;
            };
            state.sending = true;
            drop(state);
            self.connection.set_sending(true);
            let failed = self.channel.send(&bytes[sent..]).is_err();
            self.connection.set_sending(false);
            let mut state = self.state();
            state.sending = false;
            state.queued_bytes -= bytes.len();
            self.release(&mut state, footprint);
            state.closed |= failed;
            if failed {
                self.connection.disconnect();
                state.queue.clear();
            }
            drop(state);
            self.space_freed.notify_all();
            if failed {
                return;
            }
        }
    }
}
