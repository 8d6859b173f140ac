//! Reads and writes that are longer than a piece, and reads that are lent from the file.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel as handover};

use super::{Conversation, LOOK_UP, look_for};
use crate::core::{Command, Completion, Errno, Job, Op, PIECE_BYTES};
use crate::nbd::channel::PAGE;
use crate::nbd::decode::{Asked, decode};
use crate::nbd::outbox::{Entered, Outbox};
use crate::nbd::output::{push_error, push_read_header, push_reply};
use crate::nbd::wire::{self, RawRequest};

/// Reads from this length on go from the file to the socket where they can: below, a copy costs less than lending
/// pages, bytes.
const LENT_LEAST: usize = 64 << 10;

impl Conversation<'_> {
    /// Does a piece of a long command and waits for it; the buffer comes back.
    fn do_piece(&self, command: Command, data: Vec<u8>) -> Completion {
        let (sender, receiver) = handover();
        let answer = move |completion| {
            // Nobody waits any more when the connection broke.
            let _ = sender.send(completion);
        };
        let job = Job::new(command, data, Box::new(answer));
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
        Completion::failed(Errno::Shutdown)
    }

    /// A write longer than a piece: done as its bytes come, answered at the end; whether the client stays.
    pub(super) fn write_in_pieces(&mut self, raw: &RawRequest) -> io::Result<bool> {
        let asked = decode(raw, &self.session, self.backend.shape());
        match &asked {
            Ok(Asked::Command(command)) => self.counters.count(command),
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
            let command = Command::of_bytes(Op::Write, at, len as u64).with_fua(fua);
            (left, at) = (left - len, at + len as u64);
            result = self.write_piece(command);
            self.input.consume(len);
        }
        if !self.input.discard(self.channel.as_ref(), left)? {
            return Ok(false);
        }
        if fua && self.outbox.is_none() && result.is_ok() {
            result = self.backend.execute(&Command::FLUSH, &mut []);
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
    fn write_piece(&mut self, command: Command) -> Result<(), Errno> {
        let len = command.len_bytes() as usize;
        if self.outbox.is_some() {
            let data = self.input.available()[..len].to_vec();
            return self.do_piece(command, data).result;
        }
        let backend = self.backend;
        backend.execute(&command.with_fua(false), &mut self.input.available_mut()[..len])
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
    pub(super) fn read_lent(&mut self, raw: &RawRequest, command: &Command) -> io::Result<bool> {
        let len = command.len_bytes() as usize;
        let at = command.offset_bytes();
        let lent = command.op == Op::Read && len <= PIECE_BYTES && self.borrow(at, len);
        if lent {
            self.send_borrowed(raw, (at, len), true)?;
        }
        Ok(lent)
    }

    /// A read longer than a piece: a chunk for each piece, or, without structured replies, one reply whose
    /// header has to promise what is not read yet; then an error breaks the connection, as the protocol says.
    pub(super) fn read_in_pieces(&mut self, raw: &RawRequest, command: &Command) -> io::Result<()> {
        let structured = self.session.structured;
        let offset = command.offset_bytes();
        let (mut at, end) = (offset, offset + command.len_bytes());
        while at < end {
            let len = (end - at).min(PIECE_BYTES as u64) as usize;
            if self.borrow(at, len) {
                self.send_borrowed(raw, (at, len), at + len as u64 == end)?;
                at += len as u64;
                continue;
            }
            self.send()?;
            let room = self.enter_piece(len)?;
            let piece = Command::of_bytes(Op::Read, at, len as u64);
            let Completion { result, data, failed_at, .. } = match room {
                Some(_) => self.do_piece(piece, vec![0; len]),
                None => Completion::failed(Errno::Shutdown),
            };
            match result {
                Err(errno) if structured || at == offset => {
                    push_error(&mut self.out, structured, raw.cookie, errno, failed_at);
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
}
