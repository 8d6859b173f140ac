//! The transmission phase of one connection: requests in, replies out.
//!
//! What came is looked at in one go: all whole requests that one `receive` brought are done one after the other,
//! writes that wait together together, and their replies go out in one `send`. A backend that takes its time
//! ([`Backend::waits`]) gets the requests as they come and answers when it likes; replies then go out by a thread
//! of their own, so that a client that does not read holds up nobody else.
//!
//! Commands that fit in memory are done in `commands.rs`, longer reads and writes in `pieces.rs`; `block_status.rs` answers
//! about blocks.
//!
//! Invariants: bytes in memory are bounded for each connection, whatever a client says or leaves unread
//! ([`crate::core::PIECE_BYTES`] in, a little more out, more of both with a backend that waits): longer requests are
//! done piece by piece. Every request that came whole is answered once, unless the connection breaks.
//! Source: the NBD protocol, "Transmission phase", "Structured reply".

mod block_status;
mod commands;
mod pieces;

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::core::connection::{Connection, Phase};
use crate::core::counters::Counters;
use crate::core::{Backend, Errno};
use crate::nbd::Session;
use crate::nbd::channel::{Channel, Input};
use crate::nbd::conduit::Conduit;
use crate::nbd::handshake::Agreed;
use crate::nbd::outbox::Outbox;
use crate::nbd::output::Output;
use crate::nbd::wire::{self, CHUNK_BYTES, RawRequest, SIMPLE_REPLY_BYTES};

/// Replies that go out at once.
const SEND_BYTES: usize = 128 << 10;
/// No reply is held back longer than this for another one to go with it.
const HOLD_BACK: Duration = Duration::from_micros(200);
/// Requests that are looked at together.
const MOST_TOGETHER: usize = 256;
/// Bytes that were asked for together, up to which the next request is looked for.
const LIGHT_BYTES: usize = 256 << 10;
/// Room for requests to begin with, bytes: a queue of 32 blocks of 4 KiB. With this and the room for replies each
/// connection has at most 384 KiB of its own.
const INPUT_BYTES: usize = 192 << 10;
/// How often a client is looked for while its requests are done, and a server's end by who waits for an answer.
const LOOK_UP: Duration = Duration::from_millis(10);

/// A whole request in the input: the request, and where its payload lies.
#[derive(Clone, Copy, Debug)]
struct Whole {
    raw: RawRequest,
    payload: (usize, usize),
}

/// What the bytes that came begin with.
enum Ahead {
    /// So many whole requests, of so many bytes.
    Requests(usize),
    /// A request that is done piece by piece as its payload comes.
    Long(RawRequest),
    /// Part of a request, which has so many bytes.
    Part(usize),
}

/// One connection in its transmission phase.
struct Conversation<'a> {
    channel: Arc<dyn Channel>,
    connection: Arc<Connection>,
    session: Session,
    backend: &'a dyn Backend,
    counters: &'a Counters,
    input: Input,
    out: Output,
    whole: Vec<Whole>,
    results: Vec<Result<(), Errno>>,
    sent_at: Instant,
    /// What was asked last was little: then a wake-up is much beside it.
    light: bool,
    /// For a backend that waits.
    outbox: Option<Arc<Outbox>>,
    /// For long reads.
    conduit: Conduit,
    /// When it was last looked whether the client is there.
    looked_at: Instant,
    /// Bytes that were lent for requests, and for replies.
    lent: (usize, usize),
}

/// Answers a client until it goes.
///
/// # Errors
/// When it cannot be reached any more, or does not speak the protocol.
pub fn transmit(
    agreed: Agreed,
    backend: &dyn Backend,
    counters: &Counters,
    connection: Arc<Connection>,
) -> io::Result<()> {
    let Agreed { session, channel, mut input } = agreed;
    if input.available().is_empty() {
        input = Input::new(INPUT_BYTES);
    }
    let out = Output::of(session.structured);
    let mut conversation = Conversation {
        channel,
        connection,
        session,
        backend,
        counters,
        input,
        out,
        whole: Vec::new(),
        results: Vec::new(),
        sent_at: Instant::now(),
        light: true,
        outbox: None,
        conduit: Conduit::default(),
        looked_at: Instant::now(),
        lent: (0, 0),
    };
    if !backend.waits() {
        let result = conversation.run();
        conversation.leave();
        return result;
    }
    let structured = conversation.session.structured;
    let (channel, connection) = (conversation.channel.clone(), conversation.connection.clone());
    let outbox = Arc::new(Outbox::new(channel, structured, connection));
    conversation.outbox = Some(outbox.clone());
    std::thread::scope(|scope| {
        let sender = std::thread::Builder::new().name("nbd-send".to_owned());
        sender.spawn_scoped(scope, || outbox.send_all())?;
        let result = conversation.run();
        if result.is_ok() {
            outbox.drain();
        }
        conversation.leave();
        outbox.end();
        // A reply that the client does not take would hold the thread that sends.
        conversation.channel.hang_up();
        result
    })
}

/// Looks whether the client has hung up. At the end the server itself has ended one direction, and nothing is told by it.
fn look_for(connection: &Connection, channel: &dyn Channel) {
    if !connection.shared.has_reached(Phase::Finishes) && channel.is_gone() {
        connection.leave();
    }
}

impl Conversation<'_> {
    /// Nothing more is done for it.
    fn leave(&mut self) {
        self.connection.leave();
        let (input, out) = std::mem::take(&mut self.lent);
        self.connection.shared.budget.give(input);
        self.connection.shared.budget.give(out);
    }

    /// Whether the client is still there, or the server ends: looked at in a while.
    fn is_there(&mut self) -> bool {
        if self.looked_at.elapsed() >= LOOK_UP {
            self.looked_at = Instant::now();
            look_for(&self.connection, self.channel.as_ref());
        }
        !self.connection.is_gone()
    }

    /// Whether what comes now is to be answered by ESHUTDOWN.
    fn refuses(&self) -> bool {
        self.connection.shared.has_reached(Phase::Refuses)
    }

    /// Gets room for so many bytes of requests, or of replies; none if the server ends first.
    fn lend(&mut self, input: usize, out: usize) -> bool {
        let lacks = (input.saturating_sub(INPUT_BYTES + self.lent.0), out.saturating_sub(self.lent.1));
        if lacks == (0, 0) {
            return true;
        }
        let connection = &self.connection;
        let goes_on = || !connection.shared.has_reached(Phase::Finishes) && !connection.is_gone();
        if !connection.shared.budget.take(lacks.0 + lacks.1, goes_on) {
            return false;
        }
        (self.lent.0, self.lent.1) = (self.lent.0 + lacks.0, self.lent.1 + lacks.1);
        true
    }

    /// Between two requests: gives back what was lent if others may need it.
    fn relax(&mut self) {
        if self.lent == (0, 0) || !self.connection.shared.budget.is_short() {
            return;
        }
        if self.out.len() == 0 {
            self.out.shrink();
            self.connection.shared.budget.give(std::mem::take(&mut self.lent.1));
        }
        if self.input.available().is_empty() {
            self.input.shrink(INPUT_BYTES);
            self.connection.shared.budget.give(std::mem::take(&mut self.lent.0));
        }
    }

    fn run(&mut self) -> io::Result<()> {
        loop {
            match self.look_ahead()? {
                Ahead::Requests(bytes) => {
                    self.connection.is_asking(true);
                    let asked: usize = self.whole.iter().map(|whole| whole.raw.len as usize).sum();
                    self.light = asked <= LIGHT_BYTES;
                    let goes_on = self.do_whole()?;
                    self.send()?;
                    self.connection.is_asking(false);
                    if !goes_on {
                        return Ok(());
                    }
                    self.input.consume(bytes);
                }
                Ahead::Long(raw) => {
                    self.light = false;
                    self.connection.is_asking(true);
                    self.input.looks(false);
                    self.input.consume(wire::REQUEST_BYTES);
                    if !self.write_in_pieces(&raw)? {
                        return Ok(());
                    }
                    self.connection.is_asking(false);
                }
                Ahead::Part(bytes) => {
                    let between = self.input.available().is_empty();
                    if between {
                        self.relax();
                        self.input.rewind();
                    }
                    self.input.looks(between && self.light);
                    if !self.lend(bytes, 0) {
                        return Ok(());
                    }
                    // One that is between two requests owes nothing.
                    if !between {
                        self.connection.owes(true);
                    }
                    let filled = self.input.fill(self.channel.as_ref(), bytes)?;
                    self.connection.owes(false);
                    if !filled {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Finds the whole requests that came.
    fn look_ahead(&mut self) -> io::Result<Ahead> {
        self.whole.clear();
        let came = self.input.available();
        let mut at = 0;
        while self.whole.len() < MOST_TOGETHER {
            let Some(header) = came.get(at..at + wire::REQUEST_BYTES) else {
                return Ok(self.ahead(at, wire::REQUEST_BYTES));
            };
            let Some(raw) = RawRequest::parse(header) else {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "no request magic"));
            };
            let payload = raw.payload();
            if payload > self.backend.shape().write_piece {
                return Ok(if at == 0 { Ahead::Long(raw) } else { Ahead::Requests(at) });
            }
            let start = at + wire::REQUEST_BYTES;
            if came.len() < start + payload {
                return Ok(self.ahead(at, wire::REQUEST_BYTES + payload));
            }
            self.whole.push(Whole { raw, payload: (start, start + payload) });
            at = start + payload;
        }
        Ok(Ahead::Requests(at))
    }

    fn ahead(&self, at: usize, next: usize) -> Ahead {
        if at == 0 { Ahead::Part(next) } else { Ahead::Requests(at) }
    }

    fn send(&mut self) -> io::Result<()> {
        self.sent_at = Instant::now();
        let Some(outbox) = &self.outbox else {
            self.connection.owes(true);
            let sent = self.out.send(self.channel.as_ref());
            self.connection.owes(false);
            return sent;
        };
        if self.out.len() > 0 {
            let bytes = self.out.take();
            let room = Outbox::room_of(bytes.len());
            outbox.enter_reply(room)?;
            outbox.push(bytes, room);
        }
        Ok(())
    }

    /// Sends what waits if it is much, or waited long.
    fn send_some(&mut self) -> io::Result<()> {
        let due = self.out.len() >= SEND_BYTES || self.sent_at.elapsed() >= HOLD_BACK;
        if due { self.send() } else { Ok(()) }
    }
}

const _: () = assert!(SIMPLE_REPLY_BYTES < CHUNK_BYTES && CHUNK_BYTES < wire::REQUEST_BYTES);
