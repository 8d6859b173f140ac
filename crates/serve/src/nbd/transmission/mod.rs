//! The transmission phase of one connection: requests in, replies out.
//!
//! Requests are processed in batches: all complete requests that one `receive` returned are executed in
//! order, adjacent writes together, and their replies are sent in one `send`. An asynchronous backend
//! ([`Backend::is_async`]) gets the requests as they arrive and completes them later; a thread of its own
//! then sends the replies, so that a client that does not read its replies blocks no other.
//!
//! `execution.rs` handles commands whose data is held in memory whole, `pipelined_writes.rs` executes long writes of this kind beside
//! the next receive, `large_transfers.rs` handles longer reads and writes, and `block_status.rs` block status.
//!
//! Invariants: memory per connection is bounded, whatever a client sends or leaves unread
//! ([`crate::core::PIECE_BYTES`] of input, twice that of a client that queues long writes, a little more of output,
//! more of both with an asynchronous backend): longer requests are executed piece by piece. Every request that was received completely is
//! answered once, unless the connection breaks.
//! Source: the NBD protocol, "Transmission phase", "Structured reply".

mod block_status;
mod execution;
mod large_transfers;
mod pipelined_writes;

use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::core::connection::{Connection, Phase};
use crate::core::counters::Counters;
use crate::core::{Backend, Failure};
use crate::nbd::Session;
use crate::nbd::handshake::Negotiated;
use crate::nbd::reply_buffer::ReplyBuffer;
use crate::nbd::reply_queue::ReplyQueue;
use crate::nbd::splice_pipe::SplicePipe;
use crate::nbd::transmission::pipelined_writes::{LongWrite, Overlap};
use crate::nbd::transport::{Channel, Input};
use crate::nbd::wire::{self, CHUNK_BYTES, RawRequest, SIMPLE_REPLY_BYTES};

/// Buffered replies are sent from this size on, bytes.
const SEND_BYTES: usize = 128 << 10;
/// Longest time that a buffered reply waits for further replies.
const MAX_REPLY_DELAY: Duration = Duration::from_micros(200);
/// Maximum number of requests in a batch.
const MAX_BATCH: usize = 256;
/// Largest transfer of a batch after which the thread polls for the next request, bytes.
const BUSY_POLL_BYTES: usize = 256 << 10;
/// Input buffer outside the shared budget, bytes: a queue of 32 blocks of 4 KiB. Together with the reply
/// buffer a connection has at most 384 KiB of its own.
const INPUT_BYTES: usize = 192 << 10;
/// How often to check whether the client is connected, and for shutdown, while requests execute.
const CHECK_INTERVAL: Duration = Duration::from_millis(10);

/// A complete request in the input buffer, with the range of its payload.
#[derive(Clone, Copy, Debug)]
struct BufferedRequest {
    raw: RawRequest,
    payload: (usize, usize),
}

/// What the input buffer starts with.
enum Parsed {
    /// Complete requests, and their length in bytes.
    Requests(usize),
    /// A write that is executed piece by piece while its payload arrives.
    Streamed(RawRequest),
    /// An incomplete request, with its total length in bytes.
    Incomplete(usize),
}

/// One connection in its transmission phase.
///
/// More than 15 fields: each of the files of this folder has its own, and all are needed while requests execute.
struct Transmission<'a> {
    channel: Arc<dyn Channel>,
    connection: Arc<Connection>,
    session: Session,
    backend: &'a dyn Backend,
    counters: &'a Counters,
    input: Input,
    out: ReplyBuffer,
    requests: Vec<BufferedRequest>,
    results: Vec<Result<(), Failure>>,
    sent_at: Instant,
    /// Whether the last batch was small, so that a wake-up would dominate its cost.
    small_batch: bool,
    /// For an asynchronous backend.
    reply_queue: Option<Arc<ReplyQueue>>,
    /// For zero-copy reads.
    pipe: SplicePipe,
    /// When the client connection was last checked.
    checked_at: Instant,
    /// Bytes reserved from the shared budget for requests and for replies.
    reserved: (usize, usize),
    /// With the thread that executes a long write, if any.
    overlap: Arc<Overlap>,
    /// The client has disconnected, or the connection has failed.
    ended: bool,
}

/// Serves a client until it disconnects.
///
/// # Errors
/// When the connection fails or the client violates the protocol.
pub fn transmit(
    negotiated: Negotiated,
    backend: &dyn Backend,
    counters: &Counters,
    connection: Arc<Connection>,
) -> io::Result<()> {
    let Negotiated { session, channel, mut input } = negotiated;
    if input.available().is_empty() {
        input = Input::new(INPUT_BYTES);
    }
    let out = ReplyBuffer::new(session.structured);
    let mut transmission = Transmission {
        channel,
        connection,
        session,
        backend,
        counters,
        input,
        out,
        requests: Vec::new(),
        results: Vec::new(),
        sent_at: Instant::now(),
        small_batch: true,
        reply_queue: None,
        pipe: SplicePipe::default(),
        checked_at: Instant::now(),
        reserved: (0, 0),
        overlap: Arc::default(),
        ended: false,
    };
    if !backend.is_async() {
        let transmission = Mutex::new(transmission);
        let result = std::thread::scope(|scope| pipelined_writes::serve(&transmission, scope, true));
        let mut transmission = transmission.into_inner().unwrap_or_else(PoisonError::into_inner);
        transmission.disconnect();
        return result.and(transmission.overlap.failure());
    }
    let structured = transmission.session.structured;
    let (channel, connection) = (transmission.channel.clone(), transmission.connection.clone());
    let reply_queue = Arc::new(ReplyQueue::new(channel, structured, connection));
    transmission.reply_queue = Some(reply_queue.clone());
    std::thread::scope(|scope| {
        let sender = std::thread::Builder::new().name("nbd-send".to_owned());
        sender.spawn_scoped(scope, || reply_queue.run_sender())?;
        let result = transmission.run().map(drop);
        if result.is_ok() {
            reply_queue.drain();
        }
        transmission.disconnect();
        reply_queue.close();
        // A reply that the client does not read would block the sender thread.
        transmission.channel.shut_down();
        result
    })
}

/// Checks whether the client has disconnected. During shutdown the server itself has shut down one direction,
/// and the check proves nothing.
fn check_client(connection: &Connection, channel: &dyn Channel) {
    if !connection.shared.has_reached(Phase::Draining) && channel.is_disconnected() {
        connection.disconnect();
    }
}

impl Transmission<'_> {
    /// Marks the connection as closed and releases its reservations.
    fn disconnect(&mut self) {
        self.connection.disconnect();
        let (input, out) = std::mem::take(&mut self.reserved);
        for bytes in [input, out, self.overlap.shrink()] {
            self.connection.shared.budget.release(bytes);
        }
    }

    /// Whether the client is still connected; checks the socket at intervals.
    fn is_connected(&mut self) -> bool {
        if self.checked_at.elapsed() >= CHECK_INTERVAL {
            self.checked_at = Instant::now();
            check_client(&self.connection, self.channel.as_ref());
        }
        !self.connection.is_disconnected()
    }

    /// Whether requests are answered with ESHUTDOWN.
    fn is_refusing(&self) -> bool {
        self.connection.shared.has_reached(Phase::Refusing)
    }

    /// Reserves buffer space for requests or replies; returns false if the server shuts down first.
    fn reserve(&mut self, input: usize, out: usize) -> bool {
        let need = (input.saturating_sub(INPUT_BYTES + self.reserved.0), out.saturating_sub(self.reserved.1));
        if need == (0, 0) {
            return true;
        }
        let connection = &self.connection;
        let proceed = || !connection.shared.has_reached(Phase::Draining) && !connection.is_disconnected();
        if !connection.shared.budget.reserve(need.0 + need.1, proceed) {
            return false;
        }
        (self.reserved.0, self.reserved.1) = (self.reserved.0 + need.0, self.reserved.1 + need.1);
        true
    }

    /// Between requests: releases reserved memory if other connections may need it.
    fn release_idle(&mut self) {
        if self.reserved == (0, 0) || !self.connection.shared.budget.is_low() {
            return;
        }
        self.connection.shared.budget.release(self.overlap.shrink());
        if self.out.len() == 0 {
            self.out.shrink();
            self.connection.shared.budget.release(std::mem::take(&mut self.reserved.1));
        }
        if self.input.available().is_empty() {
            self.input.shrink(INPUT_BYTES);
            self.connection.shared.budget.release(std::mem::take(&mut self.reserved.0));
        }
    }

    /// Serves the client until it disconnects, or until a long write is to execute while the next request is received.
    fn run(&mut self) -> io::Result<Option<LongWrite>> {
        loop {
            match self.parse_input()? {
                Parsed::Requests(bytes) => {
                    self.overlap.wait();
                    if let Some(write) = self.take_long_write(bytes) {
                        return Ok(Some(write));
                    }
                    self.connection.set_busy(true);
                    let requested: usize = self.requests.iter().map(|request| request.raw.len as usize).sum();
                    self.small_batch = requested <= BUSY_POLL_BYTES;
                    let connected = self.execute_batch()?;
                    self.note_queueing(bytes);
                    self.send()?;
                    self.connection.set_busy(false);
                    if !connected {
                        return Ok(None);
                    }
                    self.input.consume(bytes);
                }
                Parsed::Streamed(raw) => {
                    self.overlap.wait();
                    self.small_batch = false;
                    self.connection.set_busy(true);
                    self.input.set_busy_poll(false);
                    self.input.consume(wire::REQUEST_BYTES);
                    if !self.write_in_pieces(&raw)? {
                        return Ok(None);
                    }
                    self.connection.set_busy(false);
                }
                Parsed::Incomplete(bytes) => {
                    let between = self.input.available().is_empty();
                    if between {
                        self.release_idle();
                        self.input.align();
                    }
                    self.input.set_busy_poll(between && self.small_batch);
                    if !self.reserve(bytes, 0) {
                        return Ok(None);
                    }
                    // Between requests the client is not stalled.
                    if !between {
                        self.connection.set_waiting_on_client(true);
                    }
                    let filled = self.input.fill(self.channel.as_ref(), bytes)?;
                    self.connection.set_waiting_on_client(false);
                    if !filled {
                        return Ok(None);
                    }
                    if between {
                        self.overlap.note_request();
                    }
                }
            }
        }
    }

    /// Parses the complete requests at the start of the input buffer.
    fn parse_input(&mut self) -> io::Result<Parsed> {
        self.requests.clear();
        let received = self.input.available();
        let mut at = 0;
        while self.requests.len() < MAX_BATCH {
            let Some(header) = received.get(at..at + wire::REQUEST_BYTES) else {
                return Ok(self.parsed(at, wire::REQUEST_BYTES));
            };
            let Some(raw) = RawRequest::parse(header) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "missing request magic"));
            };
            let payload = raw.payload();
            if payload > self.backend.shape().write_piece {
                return Ok(if at == 0 { Parsed::Streamed(raw) } else { Parsed::Requests(at) });
            }
            let start = at + wire::REQUEST_BYTES;
            if received.len() < start + payload {
                return Ok(self.parsed(at, wire::REQUEST_BYTES + payload));
            }
            self.requests.push(BufferedRequest { raw, payload: (start, start + payload) });
            at = start + payload;
        }
        Ok(Parsed::Requests(at))
    }

    fn parsed(&self, at: usize, next: usize) -> Parsed {
        if at == 0 { Parsed::Incomplete(next) } else { Parsed::Requests(at) }
    }

    fn send(&mut self) -> io::Result<()> {
        self.sent_at = Instant::now();
        let Some(reply_queue) = &self.reply_queue else {
            self.connection.set_waiting_on_client(true);
            let sent = self.out.send(self.channel.as_ref());
            self.connection.set_waiting_on_client(false);
            return sent;
        };
        if self.out.len() > 0 {
            let bytes = self.out.take();
            let footprint = ReplyQueue::footprint_of(bytes.len());
            reply_queue.reserve_reply(footprint)?;
            reply_queue.push(bytes, footprint);
        }
        Ok(())
    }

    /// Sends the buffered replies if they are large or old enough.
    fn send_some(&mut self) -> io::Result<()> {
        let due = self.out.len() >= SEND_BYTES || self.sent_at.elapsed() >= MAX_REPLY_DELAY;
        if due { self.send() } else { Ok(()) }
    }
}

const _: () = assert!(SIMPLE_REPLY_BYTES < CHUNK_BYTES && CHUNK_BYTES < wire::REQUEST_BYTES);
