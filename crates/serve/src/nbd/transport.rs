//! Transport for one client, a plain socket or TLS, and the input buffer behind it.
//!
//! Invariants: one thread receives, any thread may send; the bytes of one `send` are not interleaved with
//! those of another; bytes received before the TLS handshake are never treated as part of the TLS session.
//! Source: the NBD protocol, "TLS support"; rustls implements TLS itself.
//!
//! Imports both ways with `busy_poll`: an `Input` polls before it sleeps, by a `BusyPoll`, which polls a `Channel`.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags};
use rustls::{ServerConfig, ServerConnection};

use crate::nbd::busy_poll::BusyPoll;
use crate::nbd::wire::REQUEST_BYTES;

/// A byte stream to and from one client.
pub trait Channel: Send + Sync {
    /// Blocks until bytes arrive; returns 0 at the end of the stream.
    ///
    /// # Errors
    /// When the connection has failed.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Receives without blocking; returns `None` if no bytes are available. A channel without a non-blocking
    /// mode blocks.
    ///
    /// # Errors
    /// When the connection has failed.
    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer).map(Some)
    }

    /// The socket, if the channel adds no framing or encryption to it.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Shuts down both directions, which wakes threads blocked on the channel.
    fn shut_down(&self) {}

    /// Whether the client is known to have disconnected. Does not block.
    fn is_disconnected(&self) -> bool {
        false
    }

    /// Whether bytes are known to have arrived. Does not block.
    fn has_input(&self) -> bool {
        false
    }

    /// Sends all bytes.
    ///
    /// # Errors
    /// When the connection has failed.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Sends without blocking; returns the number of bytes sent.
    ///
    /// # Errors
    /// When the connection has failed.
    fn try_send(&self, _bytes: &[u8]) -> io::Result<usize> {
        Ok(0)
    }
}

/// A plain socket.
impl<S> Channel for S
where
    S: AsFd + Send + Sync,
    for<'a> &'a S: Read + Write,
{
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self;
        stream.read(buffer)
    }

    fn try_receive(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn shut_down(&self) {
        // Failure means that the client has disconnected already.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Both);
    }

    fn is_disconnected(&self) -> bool {
        let mut polled = [PollFd::new(self, PollFlags::RDHUP)];
        let result = poll(&mut polled, Some(&Timespec::default()));
        let events = polled[0].revents();
        if result.is_err() || events.is_empty() {
            return false;
        }
        // POLLHUP on a Unix socket means that the peer has closed it. Over TCP, POLLRDHUP is the only sign
        // that the peer has gone.
        let hung_up = events.intersects(PollFlags::HUP | PollFlags::ERR);
        hung_up || rustix::net::sockopt::socket_domain(self).is_ok_and(|domain| domain != AddressFamily::UNIX)
    }

    fn has_input(&self) -> bool {
        let mut polled = [PollFd::new(self, PollFlags::IN)];
        poll(&mut polled, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self;
        stream.write_all(bytes)
    }

    fn try_send(&self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// Size of the ciphertext buffer.
const TLS_BYTES: usize = 64 << 10;

/// TLS over another channel.
pub struct Tls {
    transport: Arc<dyn Channel>,
    connection: Mutex<ServerConnection>,
    /// Received ciphertext that rustls has not accepted yet: it accepts no more while it holds unread
    /// plaintext. Only one thread receives, so the lock is never contended.
    ciphertext: Mutex<Ciphertext>,
}

struct Ciphertext {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Tls {
    /// Performs the TLS handshake.
    ///
    /// # Errors
    /// When the handshake fails.
    pub fn accept(transport: Arc<dyn Channel>, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        let ciphertext = Mutex::new(Ciphertext { bytes: vec![0; TLS_BYTES], start: 0, end: 0 });
        let tls = Self { transport, connection: Mutex::new(connection), ciphertext };
        while tls.connection().is_handshaking() {
            if !tls.process_input()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(tls)
    }

    // The lock stays usable when its holder panics: rustls leaves no partial state.
    fn connection(&self) -> MutexGuard<'_, ServerConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds received ciphertext to rustls and sends what rustls wants to send. Returns false at the end of
    /// the stream.
    fn process_input(&self) -> io::Result<bool> {
        let mut ciphertext = self.ciphertext.lock().unwrap_or_else(PoisonError::into_inner);
        if ciphertext.start == ciphertext.end {
            (ciphertext.start, ciphertext.end) = (0, self.transport.receive(&mut ciphertext.bytes)?);
            if ciphertext.end == 0 {
                return Ok(false);
            }
        }
        let mut connection = self.connection();
        let mut rest = &ciphertext.bytes[ciphertext.start..ciphertext.end];
        connection.read_tls(&mut rest)?;
        ciphertext.start = ciphertext.end - rest.len();
        let result = connection.process_new_packets();
        self.flush_ciphertext(&mut connection)?;
        result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(true)
    }

    fn flush_ciphertext(&self, connection: &mut ServerConnection) -> io::Result<()> {
        let mut ciphertext = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut ciphertext)?;
        }
        if ciphertext.is_empty() { Ok(()) } else { self.transport.send(&ciphertext) }
    }
}

impl Channel for Tls {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.connection().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            if !self.process_input()? {
                return Ok(0);
            }
        }
    }

    fn shut_down(&self) {
        self.transport.shut_down();
    }

    fn is_disconnected(&self) -> bool {
        self.transport.is_disconnected()
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut connection = self.connection();
        for part in bytes.chunks(TLS_BYTES) {
            connection.writer().write_all(part)?;
            self.flush_ciphertext(&mut connection)?;
        }
        Ok(())
    }
}

/// Payloads are page-aligned like the page cache, so that the kernel copies whole pages.
pub const PAGE_BYTES: usize = 4096;

/// The input buffer of one client.
#[derive(Debug, Default)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    poller: BusyPoll,
    /// Whether to poll for the next bytes before sleeping.
    polls: bool,
}

impl Input {
    /// A buffer with an initial capacity in bytes.
    pub fn new(capacity: usize) -> Self {
        let mut input = Self { bytes: vec![0; capacity + PAGE_BYTES], ..Self::default() };
        input.align();
        input
    }

    /// Empties the buffer and positions it so that the payload behind the next request header is
    /// page-aligned.
    pub fn align(&mut self) {
        let start = (self.bytes.as_ptr().align_offset(PAGE_BYTES) + PAGE_BYTES - REQUEST_BYTES) % PAGE_BYTES;
        (self.start, self.end) = (start, start);
    }

    /// Replaces what is in the buffer, and positions it as [`Input::align`] does.
    pub fn start_with(&mut self, bytes: &[u8]) {
        self.align();
        let end = self.start + bytes.len();
        if self.bytes.len() < end {
            self.bytes.resize(end, 0);
        }
        self.bytes[self.start..end].copy_from_slice(bytes);
        self.end = end;
    }

    /// Releases memory beyond a capacity, if the buffer is empty.
    pub fn shrink(&mut self, capacity: usize) {
        if self.start == self.end && self.bytes.len() > capacity + PAGE_BYTES {
            self.bytes = vec![0; capacity + PAGE_BYTES];
            self.align();
        }
    }

    /// Sets whether to poll before sleeping: worthwhile for a client that sends its next request soon, not
    /// during long transfers.
    pub fn set_busy_poll(&mut self, polls: bool) {
        self.polls = polls;
    }

    /// The unread bytes.
    pub fn available(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// The unread bytes, mutable.
    pub fn available_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Discards the first bytes.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Receives more bytes, after making space for `needed` bytes in total. Returns false at the end of the
    /// stream.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn fill(&mut self, channel: &dyn Channel, needed: usize) -> io::Result<bool> {
        if self.bytes.len() < needed + PAGE_BYTES {
            self.bytes.resize(needed + PAGE_BYTES, 0);
        }
        let empty = self.start == self.end;
        if empty || self.bytes.len() - self.start < needed || self.end == self.bytes.len() {
            // Move the bytes down by whole pages, which keeps page-aligned data aligned.
            let back = self.start - self.start % PAGE_BYTES;
            self.bytes.copy_within(self.start..self.end, self.start - back);
            (self.start, self.end) = (self.start - back, self.end - back);
        }
        loop {
            let free = &mut self.bytes[self.end..];
            let received =
                if self.polls { self.poller.receive(channel, free) } else { channel.receive(free) };
            match received {
                Ok(count) => {
                    self.end += count;
                    return Ok(count > 0);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Blocks until `count` bytes are available; returns `None` if the stream ends before.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn read_at_least(&mut self, channel: &dyn Channel, count: usize) -> io::Result<Option<&[u8]>> {
        while self.available().len() < count {
            if !self.fill(channel, count)? {
                return Ok(None);
            }
        }
        Ok(Some(&self.available()[..count]))
    }

    /// Reads and discards bytes; returns false if the stream ends before.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn discard(&mut self, channel: &dyn Channel, mut count: usize) -> io::Result<bool> {
        loop {
            let available = self.available().len().min(count);
            self.consume(available);
            count -= available;
            if count == 0 {
                return Ok(true);
            }
            if !self.fill(channel, 1)? {
                return Ok(false);
            }
        }
    }
}
