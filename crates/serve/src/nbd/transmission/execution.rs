//! Execution of commands whose data fits in memory, synchronously or by an asynchronous backend.

use std::cell::Cell;
use std::io;
use std::time::Instant;

use super::{BufferedRequest, CHECK_INTERVAL, Transmission, check_client};
use crate::core::connection::Phase;
use crate::core::{Command, Errno, Failure, Job, Op, PIECE_BYTES};
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
            if let Decoded::Command(command) = &decoded {
                self.counters.count(command);
            }
            match decoded {
                Decoded::Disconnect => return Ok(false),
                Decoded::BlockStatus { offset, len, one } => self.block_status(&raw, (offset, len), one)?,
                Decoded::Command(command) if self.read_spliced(&raw, &command)? => {}
                Decoded::Command(command) if command.data_bytes() > PIECE_BYTES as u64 => {
                    self.read_in_pieces(&raw, &command)?;
                }
                Decoded::Command(command) if self.reply_queue.is_some() => {
                    self.submit(raw, command, payload)?
                }
                Decoded::Command(command) if command.op == Op::Write => {
                    index = self.execute_writes_from(index - 1, command)
                }
                Decoded::Command(command) => self.execute_now(&raw, &command)?,
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
    fn execute_now(&mut self, raw: &RawRequest, command: &Command) -> io::Result<()> {
        let structured = self.session.structured;
        if command.op != Op::Read {
            let result = self.execute_interruptible(command);
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
        if let Err(failure) = self.backend.execute(command, self.out.extend(raw.len as usize)) {
            self.out.truncate(before);
            let at = self.backend.refused_at(raw.offset, raw.len.into());
            push_error(&mut self.out, structured, raw.cookie, failure.into(), at);
        }
        Ok(())
    }

    /// Executes a command without data; it stops early on disconnection or shutdown.
    fn execute_interruptible(&self, command: &Command) -> Result<(), Failure> {
        let (channel, connection, checked_at) = (&self.channel, &self.connection, Cell::new(self.checked_at));
        let keep_going = || {
            if checked_at.get().elapsed() >= CHECK_INTERVAL {
                checked_at.set(Instant::now());
                check_client(connection, channel.as_ref());
            }
            !connection.is_disconnected() && !connection.shared.has_reached(Phase::Draining)
        };
        self.backend.execute_while(command, &mut [], &keep_going)
    }

    /// Executes the write at `first` together with the writes right behind it; returns the index of the next
    /// request.
    fn execute_writes_from(&mut self, first: usize, command: Command) -> usize {
        let mut commands = vec![command];
        let following = self.requests[first + 1..].iter().map_while(|buffered| {
            match decode(&buffered.raw, &self.session, self.backend.shape()) {
                Ok(Decoded::Command(command)) if command.op == Op::Write => Some(command),
                _ => None,
            }
        });
        commands.extend(following);
        commands[1..].iter().for_each(|command| self.counters.count(command));
        let next = first + commands.len();
        let mut writes = Vec::with_capacity(commands.len());
        let (mut rest, mut passed) = (self.input.available_mut(), 0);
        for (command, buffered) in commands.into_iter().zip(&self.requests[first..next]) {
            let (start, end) = buffered.payload;
            let (_, from) = rest.split_at_mut(start - passed);
            let (data, remaining) = from.split_at_mut(end - start);
            (rest, passed) = (remaining, end);
            writes.push((command, data));
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
    fn submit(&mut self, raw: RawRequest, command: Command, payload: (usize, usize)) -> io::Result<()> {
        let Some(reply_queue) = self.reply_queue.clone() else {
            return Ok(());
        };
        // Send buffered error replies before waiting for space.
        self.send()?;
        let len = command.data_bytes() as usize;
        let footprint = ReplyQueue::footprint_of(len);
        if let Reservation::Refused = reply_queue.reserve(footprint)? {
            self.reply_shutdown(&raw);
            return Ok(());
        }
        let ticket = reply_queue.start(&raw, footprint);
        let data = match command.op {
            Op::Write => self.input.available()[payload.0..payload.1].to_vec(),
            _ => vec![0; len],
        };
        let on_complete = move |completion| reply_queue.complete(ticket, &completion);
        let job = Job::new(command, data, Box::new(on_complete));
        self.backend.submit(job.cancelled_by(Some(self.connection.cancellation())));
        Ok(())
    }
}
