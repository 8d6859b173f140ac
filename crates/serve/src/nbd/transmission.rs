//! The transmission phase of one connection: requests in, replies out.
//!
//! What came is looked at in one go: all whole requests that one `receive` brought are done one after the other,
//! writes that wait together together, and their replies go out in one `send`. A backend that takes its time
//! ([`Backend::waits`]) gets the requests as they come and answers when it likes; replies then go out by a thread
//! of their own, so that a client that does not read holds up nobody else.
//!
//! Invariants: bytes in memory are bounded for each connection, whatever a client says or leaves unread
//! ([`PIECE_BYTES`] in, a little more out, more of both with a backend that waits): longer requests are
//! done piece by piece. Every request that came whole is answered once, unless the connection breaks.
//! Source: the NBD protocol, "Transmission phase", "Structured reply".

use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel as handover};
use std::time::{Duration, Instant};

use crate::backend::{Backend, Context, Errno, Extent, Job, Op, Request, Told};
use crate::connection::{Connection, Phase};
use crate::counters::Counters;
use crate::nbd::channel::{Channel, Input, PAGE};
use crate::nbd::conduit::Conduit;
use crate::nbd::handshake::Agreed;
use crate::nbd::outbox::{Entered, Outbox};
use crate::nbd::output::{Output, push_error, push_read_header, push_reply};
use crate::nbd::validate::{Asked, PIECE_BYTES, validate};
use crate::nbd::wire::{self, CHUNK_BYTES, RawRequest, SIMPLE_REPLY_BYTES, chunk};
use crate::nbd::{Session, context_id};

/// Replies that go out at once.
const SEND_BYTES: usize = 128 << 10;
/// No reply is held back longer than this for another one to go with it.
const HOLD_BACK: Duration = Duration::from_micros(200);
/// Requests that are looked at together.
const MOST_TOGETHER: usize = 256;
/// Bytes that were asked for together, up to which the next request is looked for.
const LIGHT_BYTES: usize = 256 << 10;
/// Runs of blocks in one reply.
const MOST_EXTENTS: usize = 1024;
/// Room for requests to begin with, and for replies before more has to be lent, bytes: a queue of 32 blocks of 4 KiB,
/// with a long reply. With this each connection has at most 384 KiB of its own.
const INPUT_BYTES: usize = 192 << 10;
const OWN_OUTPUT_BYTES: usize = 192 << 10;
/// How often a client is looked for while its requests are done, and a server's end by who waits for an answer.
const LOOK_UP: Duration = Duration::from_millis(10);
/// Block status is looked up in steps of this length and more, bytes: a millisecond where every block lies elsewhere.
const STATUS_STEP: u64 = 1 << 20;
/// Reads from this length on go from the file to the socket where they can: below, a copy costs less than lending
/// pages, bytes.
const LENT_LEAST: usize = 64 << 10;

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

    /// Does the whole requests that were found; whether the client stays.
    fn do_whole(&mut self) -> io::Result<bool> {
        let mut index = 0;
        while index < self.whole.len() {
            if !self.is_there() {
                return Ok(false);
            }
            let Whole { raw, payload } = self.whole[index];
            index += 1;
            let refuses = raw.kind != wire::command::DISC && self.refuses();
            let asked = match validate(&raw, &self.session, self.backend.shape()) {
                Ok(_) if refuses => {
                    self.refuse(&raw);
                    continue;
                }
                Ok(asked) => asked,
                Err(errno) => {
                    self.counters.refuse();
                    let structured = self.session.structured && raw.kind != wire::command::WRITE;
                    push_error(&mut self.out, structured, raw.cookie, errno, None);
                    continue;
                }
            };
            if let Asked::Command(request) = &asked {
                self.counters.count(request);
            }
            match asked {
                Asked::Disconnect => return Ok(false),
                Asked::BlockStatus { offset, len, one } => self.block_status(&raw, (offset, len), one)?,
                Asked::Command(request) if self.read_lent(&raw, &request)? => {}
                Asked::Command(request) if request.data_len() > PIECE_BYTES as u64 => {
                    self.read_in_pieces(&raw, &request)?;
                }
                Asked::Command(request) if self.outbox.is_some() => self.submit(raw, request, payload)?,
                Asked::Command(request) if request.op == Op::Write => {
                    index = self.do_writes(index - 1, request)
                }
                Asked::Command(request) => self.do_command(&raw, &request)?,
            }
            self.send_some()?;
        }
        Ok(true)
    }

    /// The server ends, and does no more.
    fn refuse(&mut self, raw: &RawRequest) {
        let structured = self.session.structured && raw.kind != wire::command::WRITE;
        push_error(&mut self.out, structured, raw.cookie, Errno::Shutdown, None);
    }

    /// A command that is no write, done here and now.
    fn do_command(&mut self, raw: &RawRequest, request: &Request) -> io::Result<()> {
        let structured = self.session.structured;
        if request.op != Op::Read {
            let result = self.do_long(request);
            push_reply(&mut self.out, structured, raw, result, &[], None);
            return Ok(());
        }
        let room = self.out.len() + raw.len as usize;
        if room > OWN_OUTPUT_BYTES {
            // What waits goes out first: who waits for memory has little itself.
            self.send()?;
            self.relax();
            if !self.lend(0, raw.len as usize) {
                self.refuse(raw);
                return Ok(());
            }
        }
        let before = self.out.len();
        push_read_header(&mut self.out, structured, raw, (raw.offset, raw.len as usize), true);
        if let Err(errno) = self.backend.execute(request, self.out.room(raw.len as usize)) {
            self.out.truncate(before);
            let at = self.backend.refused_at(raw.offset, raw.len.into());
            push_error(&mut self.out, structured, raw.cookie, errno, at);
        }
        Ok(())
    }

    /// A command without data, for as long as the client is there and the server does not end.
    fn do_long(&self, request: &Request) -> Result<(), Errno> {
        let (channel, connection, looked_at) = (&self.channel, &self.connection, Cell::new(self.looked_at));
        let goes_on = || {
            if looked_at.get().elapsed() >= LOOK_UP {
                looked_at.set(Instant::now());
                look_for(connection, channel.as_ref());
            }
            !connection.is_gone() && !connection.shared.has_reached(Phase::Finishes)
        };
        self.backend.execute_while(request, &mut [], &goes_on)
    }

    /// The write at `first`, and those right behind it; the place of the first request that is none of them.
    fn do_writes(&mut self, first: usize, request: Request) -> usize {
        let mut requests = vec![request];
        let behind = self.whole[first + 1..].iter().map_while(|whole| {
            match validate(&whole.raw, &self.session, self.backend.shape()) {
                Ok(Asked::Command(request)) if request.op == Op::Write => Some(request),
                _ => None,
            }
        });
        requests.extend(behind);
        requests[1..].iter().for_each(|request| self.counters.count(request));
        let next = first + requests.len();
        let mut writes = Vec::with_capacity(requests.len());
        let (mut rest, mut passed) = (self.input.available_mut(), 0);
        for (request, whole) in requests.into_iter().zip(&self.whole[first..next]) {
            let (start, end) = whole.payload;
            let (_, from) = rest.split_at_mut(start - passed);
            let (data, behind) = from.split_at_mut(end - start);
            (rest, passed) = (behind, end);
            writes.push((request, data));
        }
        self.results.clear();
        self.backend.execute_writes(&mut writes, &mut self.results);
        drop(writes);
        for (whole, &result) in self.whole[first..next].iter().zip(&self.results) {
            push_reply(&mut self.out, false, &whole.raw, result, &[], None);
        }
        next
    }

    /// Hands a command to a backend that waits.
    fn submit(&mut self, raw: RawRequest, request: Request, payload: (usize, usize)) -> io::Result<()> {
        let Some(outbox) = self.outbox.clone() else {
            return Ok(());
        };
        // Errors of what came before go out before it waits for room.
        self.send()?;
        let len = request.data_len() as usize;
        let room = Outbox::room_of(len);
        if let Entered::Refused = outbox.enter(room)? {
            self.refuse(&raw);
            return Ok(());
        }
        let ticket = outbox.begin(&raw, room);
        let data = match request.op {
            Op::Write => self.input.available()[payload.0..payload.1].to_vec(),
            _ => vec![0; len],
        };
        let failed_at = Told::default();
        let told = failed_at.clone();
        let answer = move |result, data: Vec<u8>| {
            outbox.answer(ticket, result, &data, told.get());
        };
        let job = Job::new(request, data, Box::new(answer)).located(failed_at);
        self.backend.submit(job.unless_gone(Some(self.connection.gone())));
        Ok(())
    }

    /// Does a piece of a long command and waits for it; the buffer comes back. `failed_at` learns where a read failed.
    fn do_piece(&self, request: Request, data: Vec<u8>, failed_at: &Told) -> (Result<(), Errno>, Vec<u8>) {
        let (sender, receiver) = handover();
        let answer = move |result, data| {
            // Nobody waits any more when the connection broke.
            let _ = sender.send((result, data));
        };
        let job = Job::new(request, data, Box::new(answer)).located(failed_at.clone());
        self.backend.submit(job.unless_gone(Some(self.connection.gone())));
        loop {
            match receiver.recv_timeout(LOOK_UP) {
                Ok(answered) => return answered,
                Err(RecvTimeoutError::Timeout) if self.refuses() => break,
                Err(RecvTimeoutError::Timeout) => {
                    look_for(&self.connection, self.channel.as_ref());
                    if self.connection.is_gone() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        (Err(Errno::Shutdown), Vec::new())
    }

    /// A write longer than a piece: done as its bytes come, answered at the end; whether the client stays.
    fn write_in_pieces(&mut self, raw: &RawRequest) -> io::Result<bool> {
        let asked = validate(raw, &self.session, self.backend.shape());
        match &asked {
            Ok(Asked::Command(request)) => self.counters.count(request),
            _ => self.counters.refuse(),
        }
        let fua = raw.flags & wire::command_flag::FUA != 0;
        let piece = self.backend.shape().write_piece;
        let asked = match asked {
            Ok(_) if self.refuses() || !self.lend(piece + wire::REQUEST_BYTES, 0) => Err(Errno::Shutdown),
            asked => asked,
        };
        let (mut left, mut at, mut result) = (raw.len as usize, raw.offset, asked.map(|_| ()));
        while left > 0 && result.is_ok() {
            let Some(len) = self.next_piece(left)? else {
                return Ok(false);
            };
            let request = Request { fua, ..Request::new(Op::Write, at, len as u64) };
            (left, at) = (left - len, at + len as u64);
            result = self.write_piece(request);
            self.input.consume(len);
        }
        if !self.input.discard(self.channel.as_ref(), left)? {
            return Ok(false);
        }
        if fua && self.outbox.is_none() && result.is_ok() {
            result = self.backend.execute(&Request::new(Op::Flush, 0, 0), &mut []);
        }
        push_reply(&mut self.out, false, raw, result, &[], None);
        self.send()?;
        Ok(true)
    }

    /// Waits for the next bytes of a write of which so many are missing: a whole piece, or, where small ones do, what
    /// came from half a piece on; how many these are, none if the client goes.
    fn next_piece(&mut self, left: usize) -> io::Result<Option<usize>> {
        let shape = self.backend.shape();
        let piece = shape.write_piece;
        let least = if piece < PIECE_BYTES { piece / 2 } else { piece };
        self.connection.owes(true);
        let came = self.input.need(self.channel.as_ref(), least.min(left))?.is_some();
        self.connection.owes(false);
        if !came {
            return Ok(None);
        }
        let came = self.input.available().len().min(piece);
        let whole = came - came % shape.preferred as usize;
        Ok(Some(if came < left { whole } else { left }))
    }

    /// Writes the first bytes of the input. What is done at once is made durable by the flush at the end, not piece by
    /// piece.
    fn write_piece(&mut self, request: Request) -> Result<(), Errno> {
        let len = request.len as usize;
        if self.outbox.is_some() {
            let data = self.input.available()[..len].to_vec();
            return self.do_piece(request, data, &Told::default()).0;
        }
        let backend = self.backend;
        backend.execute(&Request { fua: false, ..request }, &mut self.input.available_mut()[..len])
    }

    /// Fills the conduit with what lies at a place, if it is lent.
    fn borrow(&mut self, at: u64, len: usize) -> bool {
        let pages = at.is_multiple_of(PAGE as u64) && len.is_multiple_of(PAGE);
        if len < LENT_LEAST || !pages || self.outbox.is_some() || self.channel.socket().is_none() {
            return false;
        }
        let (conduit, mut filled) = (&mut self.conduit, false);
        self.backend.lend(at, len as u64, &mut |file, offset| filled = conduit.fill(file, offset, len));
        filled
    }

    /// Sends what was borrowed.
    fn send_borrowed(&mut self, raw: &RawRequest, (at, len): (u64, usize), last: bool) -> io::Result<()> {
        push_read_header(&mut self.out, self.session.structured, raw, (at, len), last);
        self.send()?;
        match self.channel.socket() {
            Some(socket) => {
                self.connection.owes(true);
                let poured = self.conduit.pour(socket, len);
                self.connection.owes(false);
                poured
            }
            None => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// A read of one piece from a file that is lent; whether it was one.
    fn read_lent(&mut self, raw: &RawRequest, request: &Request) -> io::Result<bool> {
        let len = request.len as usize;
        let lent = request.op == Op::Read && len <= PIECE_BYTES && self.borrow(request.offset, len);
        if lent {
            self.send_borrowed(raw, (request.offset, len), true)?;
        }
        Ok(lent)
    }

    /// A read longer than a piece: a chunk for each piece, or, without structured replies, one reply whose
    /// header has to promise what is not read yet; then an error breaks the connection, as the protocol says.
    fn read_in_pieces(&mut self, raw: &RawRequest, request: &Request) -> io::Result<()> {
        let structured = self.session.structured;
        let (mut at, end) = (request.offset, request.offset + request.len);
        while at < end {
            let len = (end - at).min(PIECE_BYTES as u64) as usize;
            if self.borrow(at, len) {
                self.send_borrowed(raw, (at, len), at + len as u64 == end)?;
                at += len as u64;
                continue;
            }
            self.send()?;
            let room = self.enter_piece(len)?;
            let failed_at = Told::default();
            let piece = Request::new(Op::Read, at, len as u64);
            let (result, data) = match room {
                Some(_) => self.do_piece(piece, vec![0; len], &failed_at),
                None => (Err(Errno::Shutdown), Vec::new()),
            };
            match result {
                Err(errno) if structured || at == request.offset => {
                    push_error(&mut self.out, structured, raw.cookie, errno, failed_at.get());
                    return self.send_piece(room);
                }
                Err(errno) => return Err(io::Error::other(format!("a long read failed half way: {errno}"))),
                Ok(()) => {}
            }
            push_read_header(&mut self.out, structured, raw, (at, len), at + len as u64 == end);
            self.out.push(&data);
            self.send_piece(room)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Gets room for a piece of a long read: how much, none if the server ends.
    fn enter_piece(&mut self, len: usize) -> io::Result<Option<usize>> {
        match self.outbox.clone() {
            // The piece as it is read, and as it goes out.
            None => Ok(self.lend(0, 2 * len).then_some(0)),
            Some(outbox) => {
                let room = Outbox::room_of(2 * len);
                Ok(match outbox.enter(room)? {
                    Entered::Room => Some(room),
                    Entered::Refused => None,
                })
            }
        }
    }

    /// Sends what is gathered of a piece, in the room that it entered with.
    fn send_piece(&mut self, room: Option<usize>) -> io::Result<()> {
        match (&self.outbox, room) {
            (Some(outbox), Some(room)) => {
                outbox.push(self.out.take(), room);
                self.out.shrink();
                Ok(())
            }
            _ => {
                self.send()?;
                self.relax();
                Ok(())
            }
        }
    }

    fn block_status(&mut self, raw: &RawRequest, extent: (u64, u64), one: bool) -> io::Result<()> {
        let most = if one { 1 } else { MOST_EXTENTS };
        let before = self.out.len();
        let contexts = self.session.contexts.clone();
        for (number, &context) in contexts.iter().enumerate() {
            let mut extents: Vec<Extent> = Vec::new();
            let told = self.find_status(extent, context, most, &mut extents);
            if !self.is_there() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            extents.truncate(most);
            if told.is_err() || extents.is_empty() {
                self.out.truncate(before);
                let errno = told.err().unwrap_or(Errno::Io);
                push_error(&mut self.out, true, raw.cookie, errno, None);
                return Ok(());
            }
            let last = number + 1 == contexts.len();
            let flags = if last { chunk::DONE } else { 0 };
            let bytes = 4 + 8 * extents.len() as u32;
            self.out.push(&wire::chunk_header(flags, chunk::BLOCK_STATUS, raw.cookie, bytes));
            self.out.push(&context_id(context).to_be_bytes());
            for extent in extents {
                self.out.push(&(extent.len as u32).to_be_bytes());
                self.out.push(&extent.flags.to_be_bytes());
            }
        }
        Ok(())
    }

    /// Looks up runs of blocks, in steps that others do not have to wait for: longer ones where runs are long.
    fn find_status(
        &self,
        (offset, len): (u64, u64),
        context: Context,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        let (mut at, end, mut step) = (offset, offset + len, STATUS_STEP);
        while at < end && extents.len() <= most {
            let (here, before) = (step.min(end - at), extents.len());
            self.backend.block_status(at, here, context, most, extents)?;
            at += here;
            step = if extents.len() <= before + 1 { step * 2 } else { STATUS_STEP };
        }
        Ok(())
    }
}

const _: () = assert!(SIMPLE_REPLY_BYTES < CHUNK_BYTES && CHUNK_BYTES < wire::REQUEST_BYTES);
