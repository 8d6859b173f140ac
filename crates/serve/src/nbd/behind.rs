//! Long writes written behind: a thread of the connection's own writes what came while the rest is received.
//!
//! Receiving copies from the socket and writing copies to the file, and a thread does one or the other; with two, a
//! client that sends long writes one behind the other keeps both busy. Buffers go round: the one that was filled is
//! handed over as it is, and an empty one takes its place.
//!
//! Invariants: pieces are written, and requests answered, in the order in which they came; a request is answered
//! when all its pieces are written, and durable if it asked for that; there are [`BUFFERS`] buffers, so a client
//! that sends faster than can be written waits. While anything is under way, the connection sends nothing itself:
//! it settles first.

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel as handover};
use std::thread::Scope;

use crate::backend::{Backend, Op, Request};
use crate::nbd::channel::Channel;
use crate::nbd::wire;

/// Buffers on their way, beside the one that is being filled.
pub const BUFFERS: usize = 4;

enum Work {
    /// Bytes of a buffer, to be written at an offset.
    Piece { bytes: Vec<u8>, range: Range<usize>, offset: u64 },
    /// All pieces of a request are there.
    End { cookie: u64, fua: bool },
    /// Somebody waits until all before is done.
    Settle(Sender<()>),
}

/// See the module page.
pub struct Behind {
    work: Sender<Work>,
    empty: Receiver<Vec<u8>>,
    /// Buffers that were not made yet.
    unmade: usize,
    room: usize,
    settled: bool,
}

fn gone<T>(_: T) -> io::Error {
    io::ErrorKind::BrokenPipe.into()
}

impl Behind {
    /// Starts the thread; it ends when this is dropped. Buffers have room for so many bytes.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn start<'scope, 'env: 'scope>(
        scope: &'scope Scope<'scope, 'env>,
        channel: Arc<dyn Channel>,
        backend: &'env dyn Backend,
        room: usize,
    ) -> io::Result<Self> {
        let ((work, works), (empties, empty)) = (handover(), handover());
        let thread = std::thread::Builder::new().name("nbd-write".to_owned());
        thread.spawn_scoped(scope, move || write_all(&works, &empties, channel.as_ref(), backend))?;
        Ok(Self { work, empty, unmade: BUFFERS, room, settled: true })
    }

    /// An empty buffer, as soon as there is one.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub fn buffer(&mut self) -> io::Result<Vec<u8>> {
        match self.empty.try_recv() {
            Ok(buffer) => Ok(buffer),
            Err(_) if self.unmade > 0 => {
                self.unmade -= 1;
                Ok(vec![0; self.room])
            }
            Err(_) => self.empty.recv().map_err(gone),
        }
    }

    /// Has bytes of a buffer written; the buffer comes back empty.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub fn write(&mut self, (bytes, range): (Vec<u8>, Range<usize>), offset: u64) -> io::Result<()> {
        self.settled = false;
        self.work.send(Work::Piece { bytes, range, offset }).map_err(gone)
    }

    /// Has the request answered whose pieces were given.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub fn end(&mut self, cookie: u64, fua: bool) -> io::Result<()> {
        self.work.send(Work::End { cookie, fua }).map_err(gone)
    }

    /// Waits until all is written and answered.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    pub fn settle(&mut self) -> io::Result<()> {
        if self.settled {
            return Ok(());
        }
        let (sender, receiver) = handover();
        self.work.send(Work::Settle(sender)).map_err(gone)?;
        receiver.recv().map_err(gone)?;
        self.settled = true;
        Ok(())
    }
}

/// Does what comes until nothing more does, or the client cannot be reached.
fn write_all(
    works: &Receiver<Work>,
    empties: &Sender<Vec<u8>>,
    channel: &dyn Channel,
    backend: &dyn Backend,
) {
    let mut result = Ok(());
    for work in works {
        match work {
            Work::Piece { mut bytes, range, offset } => {
                if result.is_ok() {
                    let request = Request::new(Op::Write, offset, range.len() as u64);
                    result = backend.execute(&request, &mut bytes[range]);
                }
                // A connection that is over needs no buffers.
                let _ = empties.send(bytes);
            }
            Work::End { cookie, fua } => {
                if fua && result.is_ok() {
                    result = backend.execute(&Request::new(Op::Flush, 0, 0), &mut []);
                }
                let errno = result.err().map_or(0, |errno| errno.number());
                if channel.send(&wire::simple_reply(errno, cookie)).is_err() {
                    return;
                }
                result = Ok(());
            }
            Work::Settle(sender) => drop(sender.send(())),
        }
    }
}
