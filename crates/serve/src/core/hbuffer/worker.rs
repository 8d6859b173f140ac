//! The thread that has a host buffer.
//!
//! It takes the commands that have come, has the buffer do the next of them, and looks again; when none comes for the idle time,
//! it has the buffer clean, a step at a time. Where the policy leaves zones for later, it asks again
//! ([`HBuffer::idle_again_after`]).
//!
//! Invariant: a command waits for one step of idle cleaning at most. The first step of a pass also makes space in the log for the records
//! of the pass, which may take a checkpoint, or the cleaning of what a full log has to give up.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::hbuffer::HBuffer;
use skylight_layer::hbuffer::device::Bytes;
use skylight_layer::{Idle, Queue};

use super::Seen;
use super::device::ServedZones;
use super::waiting::Waiting;
use crate::core::{Command, Completion, Failure, Job};

/// See [`HBuffer::locate`].
pub(super) type Located = Vec<(Sectors, Option<Lba>)>;

/// What the thread is asked.
pub(super) enum Message {
    /// To do a command.
    Job(Job),
    /// Where an extent lies, about `limit` runs of it.
    Locate { extent: LbaExtent, limit: usize, answer: Sender<Located> },
    /// To do what was asked before, flush, and end.
    Close(Sender<Result<(), Failure>>),
}

/// See the module page.
pub(super) struct Worker {
    buffer: HBuffer,
    work: Bytes<ServedZones, Waiting>,
    shown: Vec<Command>,
    last_command: Instant,
    seen: Arc<Mutex<Seen>>,
    closing: Option<Sender<Result<(), Failure>>>,
}

impl Worker {
    /// `seen` is kept up to date with the buffer.
    pub fn new(buffer: HBuffer, work: Bytes<ServedZones, Waiting>, seen: Arc<Mutex<Seen>>) -> Self {
        let (shown, closing) = (Vec::new(), None);
        let worker = Self { buffer, work, shown, last_command: Instant::now(), seen, closing };
        worker.publish();
        worker
    }

    /// Until it is asked to end, or there is nobody to ask.
    pub fn run(mut self, messages: &Receiver<Message>) {
        let mut idle_for = self.idle_after();
        while self.closing.is_none() {
            let received = match (self.work.host.is_empty(), idle_for) {
                (false, _) => messages.recv_timeout(Duration::ZERO),
                (true, None) => messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
                (true, Some(idle)) => messages.recv_timeout(idle.saturating_sub(self.last_command.elapsed())),
            };
            match received {
                Ok(message) => {
                    self.take(message);
                    messages.try_iter().for_each(|message| self.take(message));
                    idle_for = self.idle_after();
                }
                Err(RecvTimeoutError::Timeout) if self.work.host.is_empty() => idle_for = self.idle(idle_for),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            self.serve();
        }
        self.close();
    }

    fn idle_after(&self) -> Option<Duration> {
        self.buffer.idle_after().map(|idle| Duration::from_nanos(idle.get()))
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Job(job) => self.work.host.push(job),
            Message::Locate { extent, limit, answer } => {
                // A client that is gone does not wait for it.
                let _ = answer.send(self.buffer.locate(extent, limit));
            }
            Message::Close(answer) => self.closing = Some(answer),
        }
    }

    /// Has the buffer do one command, and those that go with it.
    fn serve(&mut self) {
        self.work.host.drop_cancelled();
        self.work.host.show(&mut self.shown);
        if !self.shown.is_empty() {
            self.buffer.take(Queue { waiting: &self.shown, next: 0 }, &mut self.work);
            self.last_command = Instant::now();
            self.publish();
        }
    }

    /// Does a step in idle time; how long after the last command the next one may be, `None` for not before the next command.
    fn idle(&mut self, after: Option<Duration>) -> Option<Duration> {
        let worked = self.buffer.idle(&mut self.work);
        self.publish();
        match worked {
            Ok(Idle::Worked) => after,
            Ok(Idle::Nothing) => {
                let again = self.buffer.idle_again_after()?;
                Some(self.last_command.elapsed() + Duration::from_nanos(again.get()))
            }
            // A drive that failed may do so again.
            Err(_) => None,
        }
    }

    /// All that can be done at once, then a flush.
    fn close(mut self) {
        self.work.host.drop_partial();
        while !self.work.host.is_empty() {
            self.serve();
        }
        let (sender, receiver) = channel();
        let answer = move |completion: Completion| {
            // It is received below.
            let _ = sender.send(completion.outcome.status());
        };
        self.work.host.push(Job::new(Command::FLUSH, Vec::new(), Box::new(answer)));
        self.serve();
        if let Some(closing) = self.closing {
            // Who asked waits for it.
            let _ = closing.send(receiver.try_recv().unwrap_or(Err(Failure::Internal)));
        }
    }

    fn publish(&self) {
        let seen = Seen {
            counters: *self.buffer.counters(),
            fill: self.buffer.fill(),
            is_cleaning: self.buffer.is_cleaning(),
            waiting: self.work.host.len(),
            last_error: self.buffer.last_error(),
        };
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = seen;
    }
}
