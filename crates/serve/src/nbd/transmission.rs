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

use std::io;
use std::sync::Arc;
use std::sync::mpsc::channel as handover;
use std::time::{Duration, Instant};

use crate::backend::{Backend, Errno, Extent, Job, Op, Request, Told};
use crate::counters::Counters;
use crate::nbd::channel::{Channel, Input, PAGE};
use crate::nbd::conduit::Conduit;
use crate::nbd::handshake::Agreed;
use crate::nbd::outbox::Outbox;
use crate::nbd::output::{Output, push_error, push_read_header, push_reply};
use crate::nbd::validate::{Asked, PIECE_BYTES, validate};
use crate::nbd::wire::{self, CHUNK_BYTES, RawRequest, SIMPLE_REPLY_BYTES, chunk};
use crate::nbd::{Session, context_id};

/// Replies that go out at once.
const SEND_BYTES: usize = 256 << 10;
/// No reply is held back longer than this for another one to go with it.
const HOLD_BACK: Duration = Duration::from_micros(200);
/// Requests that are looked at together.
const MOST_TOGETHER: usize = 256;
/// Bytes that were asked for together, up to which the next request is looked for.
const LIGHT_BYTES: usize = 256 << 10;
/// Runs of blocks in one reply.
const MOST_EXTENTS: usize = 1024;
/// Room for requests to begin with.
const INPUT_BYTES: usize = 256 << 10;
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
struct Connection<'a> {
    channel: Arc<dyn Channel>,
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
}

/// Answers a client until it goes.
///
/// # Errors
/// When it cannot be reached any more, or does not speak the protocol.
pub fn transmit(agreed: Agreed, backend: &dyn Backend, counters: &Counters) -> io::Result<()> {
    let Agreed { session, channel, mut input } = agreed;
    if input.available().is_empty() {
        input = Input::new(INPUT_BYTES);
    }
    let out = Output::of(session.structured);
    let mut connection = Connection {
        channel,
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
    };
    if !backend.waits() {
        return connection.run();
    }
    let structured = connection.session.structured;
    let outbox = Arc::new(Outbox::new(connection.channel.clone(), structured));
    connection.outbox = Some(outbox.clone());
    std::thread::scope(|scope| {
        let sender = std::thread::Builder::new().name("nbd-send".to_owned());
        sender.spawn_scoped(scope, || outbox.send_all())?;
        let result = connection.run();
        outbox.drain();
        outbox.end();
        result
    })
}

impl Connection<'_> {
    fn run(&mut self) -> io::Result<()> {
        loop {
            match self.look_ahead()? {
                Ahead::Requests(bytes) => {
                    let asked: usize = self.whole.iter().map(|whole| whole.raw.len as usize).sum();
                    self.light = asked <= LIGHT_BYTES;
                    let goes_on = self.do_whole()?;
                    self.send()?;
                    if !goes_on {
                        return Ok(());
                    }
                    self.input.consume(bytes);
                }
                Ahead::Long(raw) => {
                    self.light = false;
                    self.input.looks(false);
                    self.input.consume(wire::REQUEST_BYTES);
                    if !self.write_in_pieces(&raw)? {
                        return Ok(());
                    }
                }
                Ahead::Part(bytes) => {
                    let between = self.input.available().is_empty();
                    if between {
                        self.input.rewind();
                    }
                    self.input.looks(between && self.light);
                    if !self.input.fill(self.channel.as_ref(), bytes)? {
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
            return self.out.send(self.channel.as_ref());
        };
        if self.out.len() > 0 {
            let bytes = self.out.take();
            outbox.enter(bytes.len())?;
            let room = bytes.len();
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
            let Whole { raw, payload } = self.whole[index];
            index += 1;
            let asked = match validate(&raw, &self.session, self.backend.shape()) {
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
                Asked::BlockStatus { offset, len, one } => self.block_status(&raw, (offset, len), one),
                Asked::Command(request) if self.read_lent(&raw, &request)? => {}
                Asked::Command(request) if request.data_len() > PIECE_BYTES as u64 => {
                    self.read_in_pieces(&raw, &request)?;
                }
                Asked::Command(request) if self.outbox.is_some() => self.submit(raw, request, payload)?,
                Asked::Command(request) if request.op == Op::Write => {
                    index = self.do_writes(index - 1, request)
                }
                Asked::Command(request) => self.do_command(&raw, &request),
            }
            self.send_some()?;
        }
        Ok(true)
    }

    /// A command that is no write, done here and now.
    fn do_command(&mut self, raw: &RawRequest, request: &Request) {
        let structured = self.session.structured;
        if request.op != Op::Read {
            let result = self.backend.execute(request, &mut []);
            return push_reply(&mut self.out, structured, raw, result, &[], None);
        }
        let before = self.out.len();
        push_read_header(&mut self.out, structured, raw, (raw.offset, raw.len as usize), true);
        if let Err(errno) = self.backend.execute(request, self.out.room(raw.len as usize)) {
            self.out.truncate(before);
            let at = self.backend.refused_at(raw.offset, raw.len.into());
            push_error(&mut self.out, structured, raw.cookie, errno, at);
        }
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
        outbox.enter(len)?;
        let data = match request.op {
            Op::Write => self.input.available()[payload.0..payload.1].to_vec(),
            _ => vec![0; len],
        };
        let failed_at = Told::default();
        let told = failed_at.clone();
        let answer = move |result, data: Vec<u8>| {
            outbox.answer(&raw, result, &data, told.get(), len);
        };
        self.backend.submit(Job::new(request, data, Box::new(answer)).located(failed_at));
        Ok(())
    }

    /// Does a piece of a long command and waits for it; the buffer comes back. `failed_at` learns where a read failed.
    fn do_piece(&self, request: Request, data: Vec<u8>, failed_at: &Told) -> (Result<(), Errno>, Vec<u8>) {
        let (sender, receiver) = handover();
        let answer = move |result, data| {
            // Nobody waits any more when the connection broke.
            let _ = sender.send((result, data));
        };
        self.backend.submit(Job::new(request, data, Box::new(answer)).located(failed_at.clone()));
        receiver.recv().unwrap_or((Err(Errno::Shutdown), Vec::new()))
    }

    /// A write longer than a piece: done as its bytes come, answered at the end; whether the client stays.
    fn write_in_pieces(&mut self, raw: &RawRequest) -> io::Result<bool> {
        let asked = validate(raw, &self.session, self.backend.shape());
        match &asked {
            Ok(Asked::Command(request)) => self.counters.count(request),
            _ => self.counters.refuse(),
        }
        let fua = raw.flags & wire::command_flag::FUA != 0;
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
        let Some(_) = self.input.need(self.channel.as_ref(), least.min(left))? else {
            return Ok(None);
        };
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
            Some(socket) => self.conduit.pour(socket, len),
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
        let mut data = Vec::new();
        while at < end {
            let len = (end - at).min(PIECE_BYTES as u64) as usize;
            if self.borrow(at, len) {
                self.send_borrowed(raw, (at, len), at + len as u64 == end)?;
                at += len as u64;
                continue;
            }
            data.resize(len, 0);
            let failed_at = Told::default();
            let piece = Request::new(Op::Read, at, len as u64);
            let (result, buffer) = self.do_piece(piece, data, &failed_at);
            data = buffer;
            match result {
                Err(errno) if structured || at == request.offset => {
                    push_error(&mut self.out, structured, raw.cookie, errno, failed_at.get());
                    return Ok(());
                }
                Err(errno) => return Err(io::Error::other(format!("a long read failed half way: {errno}"))),
                Ok(()) => {}
            }
            push_read_header(&mut self.out, structured, raw, (at, len), at + len as u64 == end);
            self.out.push(&data);
            self.send()?;
            at += len as u64;
        }
        Ok(())
    }

    fn block_status(&mut self, raw: &RawRequest, (offset, len): (u64, u64), one: bool) {
        let most = if one { 1 } else { MOST_EXTENTS };
        let before = self.out.len();
        for (number, &context) in self.session.contexts.iter().enumerate() {
            let mut extents: Vec<Extent> = Vec::new();
            let told = self.backend.block_status(offset, len, context, most, &mut extents);
            extents.truncate(most);
            if told.is_err() || extents.is_empty() {
                self.out.truncate(before);
                let errno = told.err().unwrap_or(Errno::Io);
                return push_error(&mut self.out, true, raw.cookie, errno, None);
            }
            let last = number + 1 == self.session.contexts.len();
            let flags = if last { chunk::DONE } else { 0 };
            let bytes = 4 + 8 * extents.len() as u32;
            self.out.push(&wire::chunk_header(flags, chunk::BLOCK_STATUS, raw.cookie, bytes));
            self.out.push(&context_id(context).to_be_bytes());
            for extent in extents {
                self.out.push(&(extent.len as u32).to_be_bytes());
                self.out.push(&extent.flags.to_be_bytes());
            }
        }
    }
}

const _: () = assert!(SIMPLE_REPLY_BYTES < CHUNK_BYTES && CHUNK_BYTES < wire::REQUEST_BYTES);
