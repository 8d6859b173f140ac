//! Commands that are done in one go, here and now or by a backend that takes its time.

use std::cell::Cell;
use std::io;
use std::time::Instant;

use super::{Conversation, LOOK_UP, Whole, look_for};
use crate::core::connection::Phase;
use crate::core::{Command, Errno, Job, Op, PIECE_BYTES};
use crate::nbd::decode::{Asked, decode};
use crate::nbd::outbox::{Entered, Outbox};
use crate::nbd::output::{push_error, push_read_header, push_reply};
use crate::nbd::wire::{self, RawRequest};

/// Room for replies before more has to be lent, bytes: a queue of 32 reads of 4 KiB, with a long one.
const OWN_OUTPUT_BYTES: usize = 192 << 10;

impl Conversation<'_> {
    /// Does the whole requests that were found; whether the client stays.
    pub(super) fn do_whole(&mut self) -> io::Result<bool> {
        let mut index = 0;
        while index < self.whole.len() {
            if !self.is_there() {
                return Ok(false);
            }
            let Whole { raw, payload } = self.whole[index];
            index += 1;
            let refuses = raw.kind != wire::command::DISC && self.refuses();
            let asked = match decode(&raw, &self.session, self.backend.shape()) {
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
            if let Asked::Command(command) = &asked {
                self.counters.count(command);
            }
            match asked {
                Asked::Disconnect => return Ok(false),
                Asked::BlockStatus { offset, len, one } => self.block_status(&raw, (offset, len), one)?,
                Asked::Command(command) if self.read_lent(&raw, &command)? => {}
                Asked::Command(command) if command.data_bytes() > PIECE_BYTES as u64 => {
                    self.read_in_pieces(&raw, &command)?;
                }
                Asked::Command(command) if self.outbox.is_some() => self.submit(raw, command, payload)?,
                Asked::Command(command) if command.op == Op::Write => {
                    index = self.do_writes(index - 1, command)
                }
                Asked::Command(command) => self.do_command(&raw, &command)?,
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
    fn do_command(&mut self, raw: &RawRequest, command: &Command) -> io::Result<()> {
        let structured = self.session.structured;
        if command.op != Op::Read {
            let result = self.do_long(command);
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
        if let Err(errno) = self.backend.execute(command, self.out.room(raw.len as usize)) {
            self.out.truncate(before);
            let at = self.backend.refused_at(raw.offset, raw.len.into());
            push_error(&mut self.out, structured, raw.cookie, errno, at);
        }
        Ok(())
    }

    /// A command without data, for as long as the client is there and the server does not end.
    fn do_long(&self, command: &Command) -> Result<(), Errno> {
        let (channel, connection, looked_at) = (&self.channel, &self.connection, Cell::new(self.looked_at));
        let goes_on = || {
            if looked_at.get().elapsed() >= LOOK_UP {
                looked_at.set(Instant::now());
                look_for(connection, channel.as_ref());
            }
            !connection.is_gone() && !connection.shared.has_reached(Phase::Finishes)
        };
        self.backend.execute_while(command, &mut [], &goes_on)
    }

    /// The write at `first`, and those right behind it; the place of the first request that is none of them.
    fn do_writes(&mut self, first: usize, command: Command) -> usize {
        let mut commands = vec![command];
        let behind = self.whole[first + 1..].iter().map_while(|whole| {
            match decode(&whole.raw, &self.session, self.backend.shape()) {
                Ok(Asked::Command(command)) if command.op == Op::Write => Some(command),
                _ => None,
            }
        });
        commands.extend(behind);
        commands[1..].iter().for_each(|command| self.counters.count(command));
        let next = first + commands.len();
        let mut writes = Vec::with_capacity(commands.len());
        let (mut rest, mut passed) = (self.input.available_mut(), 0);
        for (command, whole) in commands.into_iter().zip(&self.whole[first..next]) {
            let (start, end) = whole.payload;
            let (_, from) = rest.split_at_mut(start - passed);
            let (data, behind) = from.split_at_mut(end - start);
            (rest, passed) = (behind, end);
            writes.push((command, data));
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
    fn submit(&mut self, raw: RawRequest, command: Command, payload: (usize, usize)) -> io::Result<()> {
        let Some(outbox) = self.outbox.clone() else {
            return Ok(());
        };
        // Errors of what came before go out before it waits for room.
        self.send()?;
        let len = command.data_bytes() as usize;
        let room = Outbox::room_of(len);
        if let Entered::Refused = outbox.enter(room)? {
            self.refuse(&raw);
            return Ok(());
        }
        let ticket = outbox.begin(&raw, room);
        let data = match command.op {
            Op::Write => self.input.available()[payload.0..payload.1].to_vec(),
            _ => vec![0; len],
        };
        let answer = move |completion| outbox.answer(ticket, &completion);
        let job = Job::new(command, data, Box::new(answer));
        self.backend.submit(job.unless_gone(Some(self.connection.gone())));
        Ok(())
    }
}
