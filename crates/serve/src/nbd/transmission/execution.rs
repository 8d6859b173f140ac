//! Execution of commands whose data fits in memory, synchronously or by an asynchronous backend.

use std::cell::Cell;
use std::io;
use std::time::Instant;

use super::{BufferedRequest, CHECK_INTERVAL, Transmission, check_client};
use crate::core::connection::Phase;
use crate::core::{Errno, Job, Metadata, Op, PIECE_BYTES, Request};
use crate::nbd::decode::{Decoded, decode};
use crate::nbd::reply_buffer::{push_error, push_read_header, push_reply};
use crate::nbd::reply_queue::{ReplyQueue, Reservation};
use crate::nbd::wire::{self, RawRequest};

/// Reply buffer outside the shared budget, bytes: a queue of 32 reads of 4 KiB, and one longer read.
const UNBUDGETED_REPLY_BYTES: usize = 192 << 10;

impl Transmission<'_> {
    /// Executes the batch of parsed requests; returns false when the client has disconnected.
    pub(super) fn execute_batch(&mut self) -> io::Result<bool> {
        let mut index = 0;
        while index < self.requests.len() {
            if !self.is_connected() {
                return Ok(false);
            }
            let BufferedRequest { raw, payload } = self.requests[index];
            index += 1;
            let refused = raw.kind != wire::command::DISC && self.is_refusing();
            let decoded = match decode(&raw, &self.session, self.backend.shape()) {
                Ok(_) if refused => {
                    self.reply_shutdown(&raw);
                    continue;
                }
                Ok(decoded) => decoded,
                Err(errno) => {
                    self.counters.count_refused();
                    let structured = self.session.structured && raw.kind != wire::command::WRITE;
                    push_error(&mut self.out, structured, raw.cookie, errno, None);
                    continue;
                }
            };
            if let Decoded::Command(request) = &decoded {
                self.counters.count(request);
            }
            match decoded {
                Decoded::Disconnect => return Ok(false),
                Decoded::BlockStatus { offset, len, one } => self.block_status(&raw, (offset, len), one)?,
                Decoded::Command(request) if self.read_spliced(&raw, &request)? => {}
                Decoded::Command(request) if request.data_len() > PIECE_BYTES as u64 => {
                    self.read_in_pieces(&raw, &request)?;
                }
                Decoded::Command(request) if self.reply_queue.is_some() => {
                    self.submit(raw, request, payload)?
                }
                Decoded::Command(request) if request.op == Op::Write => {
                    index = self.execute_writes_from(index - 1, request)
                }
                Decoded::Command(request) => self.execute_now(&raw, &request)?,
            }
            self.send_some()?;
        }
        Ok(true)
    }

    /// Refuses a request during shutdown.
    fn reply_shutdown(&mut self, raw: &RawRequest) {
        let structured = self.session.structured && raw.kind != wire::command::WRITE;
        push_error(&mut self.out, structured, raw.cookie, Errno::Shutdown, None);
    }

    /// Executes a command other than a write on this thread.
    fn execute_now(&mut self, raw: &RawRequest, request: &Request) -> io::Result<()> {
        let structured = self.session.structured;
        if request.op != Op::Read {
            let result = self.execute_interruptible(request);
            push_reply(&mut self.out, structured, raw, result, &[], None);
            return Ok(());
        }
        if self.out.len() + raw.len as usize > UNBUDGETED_REPLY_BYTES {
            // Send buffered replies before waiting for memory, so that their space is free.
            self.send()?;
            self.release_idle();
            if !self.reserve(0, raw.len as usize) {
                self.reply_shutdown(raw);
                return Ok(());
            }
        }
        let before = self.out.len();
        push_read_header(&mut self.out, structured, raw, (raw.offset, raw.len as usize), true);
        if let Err(errno) = self.backend.execute(request, self.out.extend(raw.len as usize)) {
            self.out.truncate(before);
            let at = self.backend.refused_at(raw.offset, raw.len.into());
            push_error(&mut self.out, structured, raw.cookie, errno, at);
        }
        Ok(())
    }

    /// Executes a command without data; it stops early on disconnection or shutdown.
    fn execute_interruptible(&self, request: &Request) -> Result<(), Errno> {
        let (channel, connection, checked_at) = (&self.channel, &self.connection, Cell::new(self.checked_at));
        let keep_going = || {
            if checked_at.get().elapsed() >= CHECK_INTERVAL {
                checked_at.set(Instant::now());
                check_client(connection, channel.as_ref());
            }
            !connection.is_disconnected() && !connection.shared.has_reached(Phase::Draining)
        };
        self.backend.execute_while(request, &mut [], &keep_going)
    }

    /// Executes the write at `first` together with the writes right behind it; returns the index of the next
    /// request.
    fn execute_writes_from(&mut self, first: usize, request: Request) -> usize {
        let mut requests = vec![request];
        let following = self.requests[first + 1..].iter().map_while(|buffered| {
            match decode(&buffered.raw, &self.session, self.backend.shape()) {
                Ok(Decoded::Command(request)) if request.op == Op::Write => Some(request),
                _ => None,
            }
        });
        requests.extend(following);
        requests[1..].iter().for_each(|request| self.counters.count(request));
        let next = first + requests.len();
        let mut writes = Vec::with_capacity(requests.len());
        let (mut rest, mut passed) = (self.input.available_mut(), 0);
        for (request, buffered) in requests.into_iter().zip(&self.requests[first..next]) {
            let (start, end) = buffered.payload;
            let (_, from) = rest.split_at_mut(start - passed);
            let (data, remaining) = from.split_at_mut(end - start);
            (rest, passed) = (remaining, end);
            writes.push((request, data));
        }
        self.results.clear();
        self.backend.execute_writes(&mut writes, &mut self.results);
        drop(writes);
        for (buffered, &result) in self.requests[first..next].iter().zip(&self.results) {
            push_reply(&mut self.out, false, &buffered.raw, result, &[], None);
        }
        next
    }

    /// Submits a command to an asynchronous backend.
    fn submit(&mut self, raw: RawRequest, request: Request, payload: (usize, usize)) -> io::Result<()> {
        let Some(reply_queue) = self.reply_queue.clone() else {
            return Ok(());
        };
        // Send buffered error replies before waiting for space.
        self.send()?;
        let len = request.data_len() as usize;
        let footprint = ReplyQueue::footprint_of(len);
        if let Reservation::Refused = reply_queue.reserve(footprint)? {
            self.reply_shutdown(&raw);
            return Ok(());
        }
        let ticket = reply_queue.start(&raw, footprint);
        let data = match request.op {
            Op::Write => self.input.available()[payload.0..payload.1].to_vec(),
            _ => vec![0; len],
        };
        let failed_at = Metadata::default();
        let read_failed_at = failed_at.clone();
        let on_complete = move |result, data: Vec<u8>| {
            reply_queue.complete(ticket, result, &data, read_failed_at.get());
        };
        let job = Job::new(request, data, Box::new(on_complete)).with_failed_at(failed_at);
        self.backend.submit(job.cancelled_by(Some(self.connection.cancellation())));
        Ok(())
    }
}
