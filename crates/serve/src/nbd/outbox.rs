//! Replies on their way from a backend that waits.
//!
//! Invariants: a reply goes out in one piece, after those that were given before it; a command that was taken is
//! answered once: by the backend, or by ESHUTDOWN at the end, whichever comes first. What waits is bounded
//! ([`MOST_WAITING_BYTES`], [`MOST_WAITING`]), for all connections together too (`core/memory_budget.rs`): a client that does not
//! read holds up itself alone, and nothing more is done for it while `MOST_UNREAD` replies wait. Who answers never
//! waits for a client.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::core::connection::{Connection, Phase};
use crate::core::{Completion, Errno};
use crate::nbd::channel::Channel;
use crate::nbd::output::{Output, push_reply};
use crate::nbd::wire::RawRequest;

/// Bytes of requests with a backend that waits, before no more are taken.
pub const MOST_WAITING_BYTES: usize = 8 << 20;
/// Requests with a backend that waits, before no more are taken.
pub const MOST_WAITING: usize = 1024;
/// Replies that a client has not read, and their bytes, before nothing more is done for it. Many short ones, because a
/// client may ask a great deal before it reads, and a socket takes only some hundred of them.
const MOST_UNREAD: (usize, usize) = (MOST_WAITING, 2 << 20);
/// Bytes that a connection has without asking for them.
const OWN_BYTES: usize = 64 << 10;
/// Bytes that a command takes beside its data: what the parts of the server note of it, all together.
const COMMAND_BYTES: usize = 256;
/// How often who waits looks whether the server ends.
const LOOK_UP: Duration = Duration::from_millis(50);

/// A reply that waits to be sent by the thread that sends.
struct Outgoing {
    bytes: Vec<u8>,
    /// Those that were sent already.
    sent: usize,
    /// What it gives back of the room for commands.
    room: usize,
}

#[derive(Default)]
struct Waiting {
    queue: VecDeque<Outgoing>,
    /// Bytes of the queue.
    unread: usize,
    /// Commands that are with the backend, by their tickets, and their room.
    outstanding: HashMap<u64, (RawRequest, usize)>,
    tickets: u64,
    /// Commands that were taken and whose replies are not out, and their bytes.
    commands: usize,
    bytes: usize,
    /// Bytes that the budget has lent.
    lent: usize,
    /// A reply is being sent.
    sending: bool,
    /// Nothing more comes, or can be sent.
    over: bool,
}

/// Replies on their way from a backend that waits. Who answers sends at once what can be sent without waiting;
/// the rest goes out by a thread of its own.
pub(crate) struct Outbox {
    channel: Arc<dyn Channel>,
    connection: Arc<Connection>,
    structured: bool,
    waiting: Mutex<Waiting>,
    /// Room came back, or the end. Nobody waits for it mostly, and then it wakes nobody: at an answer the processors
    /// belong to the client.
    room: Condvar,
    /// There is something to send for the thread that sends.
    queued: Condvar,
}

/// How a wait for room ended.
pub(crate) enum Entered {
    /// With room for the command.
    Room,
    /// The server ends, and takes no more.
    Refused,
}

impl Outbox {
    /// Of a connection.
    pub(crate) fn new(channel: Arc<dyn Channel>, structured: bool, connection: Arc<Connection>) -> Self {
        let (waiting, room, queued) = (Mutex::default(), Condvar::new(), Condvar::new());
        Self { channel, connection, structured, waiting, room, queued }
    }

    // The lists are whole between any two statements that can panic.
    fn held(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn refuses(&self) -> bool {
        self.connection.shared.has_reached(Phase::Refuses)
    }

    /// What a command of so many bytes takes.
    pub(crate) fn room_of(len: usize) -> usize {
        len + COMMAND_BYTES
    }

    /// Waits for room for a command, or for a reply.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub(crate) fn enter(&self, room: usize) -> io::Result<Entered> {
        let mut waiting = self.held();
        loop {
            if waiting.over || self.connection.is_gone() {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            if self.refuses() {
                return Ok(Entered::Refused);
            }
            let turn = self.connection.shared.may_submit(waiting.outstanding.len());
            let unread = waiting.queue.len() >= MOST_UNREAD.0 || waiting.unread >= MOST_UNREAD.1;
            let bytes = waiting.bytes + room > MOST_WAITING_BYTES;
            if waiting.commands > 0 && (bytes || unread || !turn || waiting.commands >= MOST_WAITING) {
                waiting = self.room.wait_timeout(waiting, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            let lacks = (waiting.bytes + room).saturating_sub(OWN_BYTES + waiting.lent);
            if lacks == 0 {
                waiting.commands += 1;
                waiting.bytes += room;
                return Ok(Entered::Room);
            }
            drop(waiting);
            let goes_on = || !self.refuses() && !self.connection.is_gone();
            let lent = self.connection.shared.budget.take(lacks, goes_on);
            waiting = self.held();
            waiting.lent += if lent { lacks } else { 0 };
        }
    }

    /// Waits for room for replies that nobody else gives; at the end they go out without.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub(crate) fn enter_reply(&self, room: usize) -> io::Result<()> {
        if let Entered::Refused = self.enter(room)? {
            let mut waiting = self.held();
            waiting.commands += 1;
            waiting.bytes += room;
        }
        Ok(())
    }

    /// A command that entered goes to the backend; the ticket by which it is answered.
    pub(crate) fn begin(&self, raw: &RawRequest, room: usize) -> u64 {
        let mut waiting = self.held();
        waiting.tickets += 1;
        let ticket = waiting.tickets;
        if waiting.outstanding.is_empty() {
            self.connection.waits(true);
        }
        waiting.outstanding.insert(ticket, (*raw, room));
        self.connection.shared.begin_command();
        ticket
    }

    /// Takes the answer of a command. It is forgotten if the command was answered already.
    pub(crate) fn answer(&self, ticket: u64, completion: &Completion) {
        self.connection.shared.end_command();
        self.reply(ticket, completion.result, &completion.data, completion.failed_at);
    }

    fn reply(&self, ticket: u64, result: Result<(), Errno>, data: &[u8], at: Option<u64>) {
        let mut waiting = self.held();
        let Some((raw, room)) = waiting.outstanding.remove(&ticket) else {
            return;
        };
        if waiting.outstanding.is_empty() {
            self.connection.waits(false);
        }
        drop(waiting);
        let mut out = Output::default();
        push_reply(&mut out, self.structured, &raw, result, data, at);
        self.push(out.into_bytes(), room);
    }

    /// Answers all that is with the backend by ESHUTDOWN.
    fn refuse_all(&self) {
        let tickets: Vec<u64> = self.held().outstanding.keys().copied().collect();
        for ticket in tickets {
            self.reply(ticket, Err(Errno::Shutdown), &[], None);
        }
    }

    /// Sends bytes, now or when those before are out.
    pub(crate) fn push(&self, bytes: Vec<u8>, room: usize) {
        let mut waiting = self.held();
        let mut sent = 0;
        if waiting.queue.is_empty() && !waiting.sending && !waiting.over {
            // An error is met again by the thread that sends.
            sent = self.channel.send_now(&bytes).unwrap_or(0);
        }
        if sent == bytes.len() || waiting.over {
            self.give_back(&mut waiting, room);
        } else {
            waiting.unread += bytes.len();
            waiting.queue.push_back(Outgoing { bytes, sent, room });
            self.queued.notify_one();
        }
        drop(waiting);
        self.room.notify_all();
    }

    /// A reply is out, or never will be.
    fn give_back(&self, waiting: &mut Waiting, room: usize) {
        waiting.commands -= 1;
        waiting.bytes -= room;
        let lent = waiting.lent.min(waiting.bytes.saturating_sub(OWN_BYTES));
        self.connection.shared.budget.give(waiting.lent - lent);
        waiting.lent = lent;
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        let mut waiting = self.held();
        waiting.over = true;
        // What was lent for commands that are still with the backend is free when these are: it drops them.
        self.connection.shared.budget.give(std::mem::take(&mut waiting.lent));
        if !std::mem::take(&mut waiting.outstanding).is_empty() {
            self.connection.waits(false);
        }
        drop(waiting);
        self.room.notify_all();
        self.queued.notify_all();
    }

    /// Waits until every reply is out, or the client is gone.
    pub(crate) fn drain(&self) {
        let mut waiting = self.held();
        while !waiting.over && waiting.commands > 0 && !self.connection.is_gone() {
            waiting = self.room.wait_timeout(waiting, LOOK_UP).unwrap_or_else(PoisonError::into_inner).0;
            if self.refuses() && !waiting.outstanding.is_empty() {
                drop(waiting);
                self.refuse_all();
                waiting = self.held();
            }
            // At the end the server itself has ended one direction.
            if !self.connection.shared.has_reached(Phase::Finishes) && self.channel.is_gone() {
                self.connection.leave();
            }
        }
    }

    /// Sends what could not be sent at once, until the end.
    pub(crate) fn send_all(&self) {
        loop {
            let idle = |waiting: &mut Waiting| !waiting.over && waiting.queue.is_empty();
            let guard = self.queued.wait_while(self.held(), idle);
            let mut waiting = guard.unwrap_or_else(PoisonError::into_inner);
            if waiting.over {
                return;
            }
            let Some(Outgoing { bytes, sent, room }) = waiting.queue.pop_front() else {
                return;
            };
            waiting.sending = true;
            drop(waiting);
            self.connection.owes(true);
            let failed = self.channel.send(&bytes[sent..]).is_err();
            self.connection.owes(false);
            let mut waiting = self.held();
            waiting.sending = false;
            waiting.unread -= bytes.len();
            self.give_back(&mut waiting, room);
            waiting.over |= failed;
            if failed {
                self.connection.leave();
                waiting.queue.clear();
            }
            drop(waiting);
            self.room.notify_all();
            if failed {
                return;
            }
        }
    }
}
