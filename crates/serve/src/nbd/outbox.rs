//! Replies on their way from a backend that waits.
//!
//! Invariants: a reply goes out in one piece, after those that were given before it; what waits is bounded
//! ([`MOST_WAITING_BYTES`], [`MOST_WAITING`]): a client that does not read holds up itself alone.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use crate::backend::Errno;
use crate::nbd::channel::Channel;
use crate::nbd::output::{Output, push_reply};
use crate::nbd::wire::RawRequest;

/// Bytes of requests with a backend that waits, before no more are taken.
pub const MOST_WAITING_BYTES: usize = 8 << 20;
/// Requests with a backend that waits, before no more are taken.
pub const MOST_WAITING: usize = 1024;

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
    /// Commands that were taken and whose replies are not out, and their bytes.
    commands: usize,
    bytes: usize,
    /// A reply is being sent.
    sending: bool,
    /// Nothing more comes, or can be sent.
    over: bool,
}

/// Replies on their way from a backend that waits. Who answers sends at once what can be sent without waiting;
/// the rest goes out by a thread of its own.
pub(crate) struct Outbox {
    channel: Arc<dyn Channel>,
    structured: bool,
    waiting: Mutex<Waiting>,
    /// Room came back, or the end. Nobody waits for it mostly, and then it wakes nobody: at an answer the processors
    /// belong to the client.
    room: Condvar,
    /// There is something to send for the thread that sends.
    queued: Condvar,
}

impl Outbox {
    /// Of a connection.
    pub(crate) fn new(channel: Arc<dyn Channel>, structured: bool) -> Self {
        Self { channel, structured, waiting: Mutex::default(), room: Condvar::new(), queued: Condvar::new() }
    }

    // The lists are whole between any two statements that can panic.
    fn held(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for room for a command.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub(crate) fn enter(&self, bytes: usize) -> io::Result<()> {
        let full = |waiting: &mut Waiting| {
            !waiting.over
                && waiting.commands > 0
                && (waiting.bytes + bytes > MOST_WAITING_BYTES || waiting.commands >= MOST_WAITING)
        };
        let guard = self.room.wait_while(self.held(), full);
        let mut waiting = guard.unwrap_or_else(PoisonError::into_inner);
        if waiting.over {
            return Err(io::ErrorKind::BrokenPipe.into());
        }
        waiting.commands += 1;
        waiting.bytes += bytes;
        Ok(())
    }

    /// Takes the answer of a command that entered with so much room; of a read that failed, at which byte if known.
    pub(crate) fn answer(
        &self,
        raw: &RawRequest,
        result: Result<(), Errno>,
        data: &[u8],
        at: Option<u64>,
        room: usize,
    ) {
        let mut out = Output::default();
        push_reply(&mut out, self.structured, raw, result, data, at);
        self.push(out.into_bytes(), room);
    }

    /// Sends bytes, now or when those before are out.
    pub(crate) fn push(&self, bytes: Vec<u8>, room: usize) {
        let mut waiting = self.held();
        let mut sent = 0;
        if waiting.queue.is_empty() && !waiting.sending && !waiting.over {
            // An error is met again by the thread that sends.
            sent = self.channel.send_now(&bytes).unwrap_or(0);
        }
        if sent == bytes.len() {
            waiting.commands -= 1;
            waiting.bytes -= room;
        } else {
            waiting.queue.push_back(Outgoing { bytes, sent, room });
            self.queued.notify_one();
        }
        drop(waiting);
        self.room.notify_all();
    }

    /// Nothing more comes.
    pub(crate) fn end(&self) {
        self.held().over = true;
        self.room.notify_all();
        self.queued.notify_all();
    }

    /// Waits until every reply is out.
    pub(crate) fn drain(&self) {
        let busy = |waiting: &mut Waiting| !waiting.over && waiting.commands > 0;
        drop(self.room.wait_while(self.held(), busy));
    }

    /// Sends what could not be sent at once, until the end.
    pub(crate) fn send_all(&self) {
        loop {
            let idle = |waiting: &mut Waiting| !waiting.over && waiting.queue.is_empty();
            let guard = self.queued.wait_while(self.held(), idle);
            let mut waiting = guard.unwrap_or_else(PoisonError::into_inner);
            let Some(Outgoing { bytes, sent, room }) = waiting.queue.pop_front() else {
                return;
            };
            waiting.sending = true;
            drop(waiting);
            let failed = self.channel.send(&bytes[sent..]).is_err();
            let mut waiting = self.held();
            waiting.sending = false;
            waiting.commands -= 1;
            waiting.bytes -= room;
            waiting.over |= failed;
            self.room.notify_all();
            if failed {
                waiting.queue.clear();
                return;
            }
        }
    }
}
