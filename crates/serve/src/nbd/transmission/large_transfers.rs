//! Reads and writes that are longer than one piece, and zero-copy reads.

use std::io;
use std::sync::mpsc::{RecvTimeoutError, channel};

use super::{CHECK_INTERVAL, Transmission, check_client};
use crate::core::{Command, Completion, Errno, Failure, Job, Op, PIECE_BYTES};
use crate::nbd::decode::{Decoded, decode};
use crate::nbd::reply_buffer::{push_error, push_read_header, push_reply};
use crate::nbd::reply_queue::{ReplyQueue, Reservation};
use crate::nbd::transport::PAGE_BYTES;
use crate::nbd::wire::{self, RawRequest};

/// Minimum length of a zero-copy read, bytes: below it a copy costs less than splicing pages.
const MIN_SPLICE_BYTES: usize = 64 << 10;

impl Transmission<'_> {
    /// Executes one piece of a long command and waits for it.
    fn execute_piece(&self, command: Command, data: Vec<u8>) -> Completion {
        let (sender, receiver) = channel();
        let on_complete = move |completion| {
            // The receiver has gone if the connection broke.
            let _ = sender.send(completion);
        };
        let job = Job::new(command, data, Box::new(on_complete));
        self.backend.submit(job.cancelled_by(Some(self.connection.cancellation())));
        loop {
            match receiver.recv_timeout(CHECK_INTERVAL) {
                Ok(completed) => return completed,
                Err(RecvTimeoutError::Timeout) if self.is_refusing() => break,
                Err(RecvTimeoutError::Timeout) => {
                    check_client(&self.connection, self.channel.as_ref());
                    if self.connection.is_disconnected() {
                        break;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        Completion::failed(Failure::Aborted)
    }

    /// Executes a long write as its payload arrives, and answers at the end; returns false when the client
    /// has disconnected.
    pub(super) fn write_in_pieces(&mut self, raw: &RawRequest) -> io::Result<bool> {
        let decoded = decode(raw, &self.session, self.backend.shape());
        match &decoded {
            Ok(Decoded::Command(command)) => self.counters.count(command),
            _ => self.counters.count_refused(),
        }
        let fua = raw.flags & wire::command_flag::FUA != 0;
        let piece = self.backend.shape().write_piece;
        let decoded = match decoded {
            Ok(_) if self.is_refusing() || !self.reserve(piece + wire::REQUEST_BYTES, 0) => {
                Err(Errno::Shutdown)
            }
            decoded => decoded,
        };
        let (mut left, mut at, mut result) = (raw.len as usize, raw.offset, decoded.map(|_| ()));
        while left > 0 && result.is_ok() {
            let Some(len) = self.receive_piece(left)? else {
                return Ok(false);
            };
            let command = Command::of_bytes(Op::Write, at, len as u64).with_fua(fua);
            (left, at) = (left - len, at + len as u64);
            result = self.write_piece(command).map_err(Errno::from);
            self.input.consume(len);
        }
        if !self.input.discard(self.channel.as_ref(), left)? {
            return Ok(false);
        }
        if fua && self.reply_queue.is_none() && result.is_ok() {
            result = self.backend.execute(&Command::FLUSH, &mut []).map_err(Errno::from);
        }
        push_reply(&mut self.out, false, raw, result, &[], None);
        self.send()?;
        Ok(true)
    }

    /// Waits for the next piece of a write with `left` bytes to go and returns its length, or `None` if the
    /// client disconnects. A piece is full-sized or, where the backend prefers small pieces, whatever has
    /// arrived beyond half a piece.
    fn receive_piece(&mut self, left: usize) -> io::Result<Option<usize>> {
        let shape = self.backend.shape();
        let piece = shape.write_piece;
        let min = if piece < PIECE_BYTES { piece / 2 } else { piece };
        self.connection.set_waiting_on_client(true);
        let received = self.input.read_at_least(self.channel.as_ref(), min.min(left))?.is_some();
        self.connection.set_waiting_on_client(false);
        if !received {
            return Ok(None);
        }
        let received = self.input.available().len().min(piece);
        let blocks = received - received % shape.preferred as usize;
        Ok(Some(if received < left { blocks } else { left }))
    }

    /// Writes the first bytes of the input. In a synchronous backend the flush at the end of the command
    /// makes them durable, not FUA on each piece.
    fn write_piece(&mut self, command: Command) -> Result<(), Failure> {
        let len = command.len_bytes() as usize;
        if self.reply_queue.is_some() {
            let data = self.input.available()[..len].to_vec();
            return self.execute_piece(command, data).outcome.status();
        }
        let backend = self.backend;
        backend.execute(&command.with_fua(false), &mut self.input.available_mut()[..len])
    }

    /// Fills the pipe with file data, if the extent can be spliced.
    fn fill_pipe(&mut self, at: u64, len: usize) -> bool {
        let pages = at.is_multiple_of(PAGE_BYTES as u64) && len.is_multiple_of(PAGE_BYTES);
        if len < MIN_SPLICE_BYTES || !pages || self.reply_queue.is_some() || self.channel.socket().is_none() {
            return false;
        }
        let (pipe, mut filled) = (&mut self.pipe, false);
        self.backend.file_at(at, len as u64, &mut |file, offset| filled = pipe.fill(file, offset, len));
        filled
    }

    /// Sends a read reply whose payload is in the pipe.
    fn send_spliced(&mut self, raw: &RawRequest, (at, len): (u64, usize), last: bool) -> io::Result<()> {
        push_read_header(&mut self.out, self.session.structured, raw, (at, len), last);
        self.send()?;
        let socket = self.channel.socket().ok_or(io::ErrorKind::BrokenPipe)?;
        self.connection.set_waiting_on_client(true);
        let sent = self.pipe.drain_to(socket, len);
        self.connection.set_waiting_on_client(false);
        sent
    }

    /// Executes a read of at most one piece without copying; returns false if that is not possible.
    pub(super) fn read_spliced(&mut self, raw: &RawRequest, command: &Command) -> io::Result<bool> {
        let len = command.len_bytes() as usize;
        let at = command.offset_bytes();
        let spliced = command.op == Op::Read && len <= PIECE_BYTES && self.fill_pipe(at, len);
        if spliced {
            self.send_spliced(raw, (at, len), true)?;
        }
        Ok(spliced)
    }

    /// Executes a long read: one chunk per piece, or, without structured replies, one reply whose header
    /// precedes data not yet read; an error after that closes the connection, as the protocol requires.
    pub(super) fn read_in_pieces(&mut self, raw: &RawRequest, command: &Command) -> io::Result<()> {
        let structured = self.session.structured;
        let offset = command.offset_bytes();
        let (mut at, end) = (offset, offset + command.len_bytes());
        while at < end {
            let len = (end - at).min(PIECE_BYTES as u64) as usize;
            if self.fill_pipe(at, len) {
                self.send_spliced(raw, (at, len), at + len as u64 == end)?;
                at += len as u64;
                continue;
            }
            self.send()?;
            let footprint = self.reserve_piece(len)?;
            let piece = Command::of_bytes(Op::Read, at, len as u64);
            let Completion { outcome, data, failed_at, .. } = match footprint {
                Some(_) => self.execute_piece(piece, vec![0; len]),
                None => Completion::failed(Failure::Aborted),
            };
            match outcome.status().map_err(Errno::from) {
                Err(errno) if structured || at == offset => {
                    push_error(&mut self.out, structured, raw.cookie, errno, failed_at);
                    return self.send_piece(footprint);
                }
                Err(errno) => {
                    return Err(io::Error::other(format!(
                        "a long read failed after its header was sent: {errno}"
                    )));
                }
                Ok(()) => {}
            }
            push_read_header(&mut self.out, structured, raw, (at, len), at + len as u64 == end);
            self.out.push(&data);
            self.send_piece(footprint)?;
            at += len as u64;
        }
        Ok(())
    }

    /// Reserves space for a piece of a long read; `None` if the server shuts down.
    fn reserve_piece(&mut self, len: usize) -> io::Result<Option<usize>> {
        match self.reply_queue.clone() {
            // The piece in memory, and in the reply buffer.
            None => Ok(self.reserve(0, 2 * len).then_some(0)),
            Some(reply_queue) => {
                let footprint = ReplyQueue::footprint_of(2 * len);
                Ok(match reply_queue.reserve(footprint)? {
                    Reservation::Granted => Some(footprint),
                    Reservation::Refused => None,
                })
            }
        }
    }

    /// Sends the buffered reply of a piece, in the space reserved for it.
    fn send_piece(&mut self, footprint: Option<usize>) -> io::Result<()> {
        match (&self.reply_queue, footprint) {
            (Some(reply_queue), Some(footprint)) => {
                reply_queue.push(self.out.take(), footprint);
                self.out.shrink();
            }
            _ => {
                self.send()?;
                self.release_idle();
            }
        }
        Ok(())
    }
}
