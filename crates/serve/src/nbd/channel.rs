//! The bytes to and from one client: a socket, plain or under TLS, and what came and was not looked at yet.
//!
//! Invariants: one thread receives, any may send, and what one `send` was given goes out in one piece; nothing
//! that came before TLS is taken for something that came under it.
//! Source: the NBD protocol, "TLS support"; TLS itself is rustls.
//!
//! Imports both ways with `watch`: an `Input` looks before it sleeps, by a `Watch`, which looks at a `Channel`.

use std::io::{self, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags};
use rustls::{ServerConfig, ServerConnection};

use crate::nbd::watch::Watch;
use crate::nbd::wire::REQUEST_BYTES;

/// The bytes to and from one client.
pub trait Channel: Send + Sync {
    /// Waits for bytes; 0 when there will be no more.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize>;

    /// Takes what is there without waiting; none if nothing is. A channel that cannot tell waits.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        self.receive(buffer).map(Some)
    }

    /// The socket, if bytes that came are to be had from it and from nowhere else.
    fn socket(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Ends both directions: who sends or receives is woken.
    fn hang_up(&self) {}

    /// Whether the client has hung up, as far as can be told without waiting.
    fn is_gone(&self) -> bool {
        false
    }

    /// Sends all of it.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    fn send(&self, bytes: &[u8]) -> io::Result<()>;

    /// Sends as much as can be sent without waiting; how much that was.
    ///
    /// # Errors
    /// When the client cannot be reached any more.
    fn send_now(&self, _bytes: &[u8]) -> io::Result<usize> {
        Ok(0)
    }
}

/// A socket.
impl<S> Channel for S
where
    S: AsFd + Send + Sync,
    for<'a> &'a S: Read + Write,
{
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut stream = self;
        stream.read(buffer)
    }

    fn receive_now(&self, buffer: &mut [u8]) -> io::Result<Option<usize>> {
        match rustix::net::recv(self, &mut *buffer, RecvFlags::DONTWAIT) {
            Ok((count, _)) => Ok(Some(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn socket(&self) -> Option<BorrowedFd<'_>> {
        Some(self.as_fd())
    }

    fn hang_up(&self) {
        // It fails when the client is gone, which is as good.
        let _ = rustix::net::shutdown(self, rustix::net::Shutdown::Both);
    }

    fn is_gone(&self) -> bool {
        let mut looks = [PollFd::new(self, PollFlags::RDHUP)];
        let found = poll(&mut looks, Some(&Timespec::default()));
        let [look] = looks;
        let events = look.revents();
        if found.is_err() || events.is_empty() {
            return false;
        }
        // The other end of a Unix socket that is closed hangs up; over TCP all that is known of it is that it sends no
        // more.
        let hung_up = events.intersects(PollFlags::HUP | PollFlags::ERR);
        hung_up || rustix::net::sockopt::socket_domain(self).is_ok_and(|domain| domain != AddressFamily::UNIX)
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut stream = self;
        stream.write_all(bytes)
    }

    fn send_now(&self, bytes: &[u8]) -> io::Result<usize> {
        match rustix::net::send(self, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => Ok(count),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// Ciphertext that is taken at once.
const TLS_BYTES: usize = 64 << 10;

/// TLS over another channel.
pub struct Tls {
    below: Arc<dyn Channel>,
    connection: Mutex<ServerConnection>,
    /// Ciphertext that came: rustls takes no more once it holds plaintext that nobody has read. One thread
    /// receives, so nobody waits for this lock.
    came: Mutex<Came>,
}

struct Came {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
}

impl Tls {
    /// Does the TLS handshake.
    ///
    /// # Errors
    /// When it fails.
    pub fn accept(below: Arc<dyn Channel>, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut connection = ServerConnection::new(config).map_err(io::Error::other)?;
        connection.set_buffer_limit(None);
        let came = Mutex::new(Came { bytes: vec![0; TLS_BYTES], start: 0, end: 0 });
        let tls = Self { below, connection: Mutex::new(connection), came };
        while tls.held().is_handshaking() {
            if !tls.take()? {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        Ok(tls)
    }

    // Nothing is left half done by a thread that ended while it held it.
    fn held(&self) -> MutexGuard<'_, ServerConnection> {
        self.connection.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes some ciphertext, and answers what TLS itself has to answer; whether there was any.
    fn take(&self) -> io::Result<bool> {
        let mut came = self.came.lock().unwrap_or_else(PoisonError::into_inner);
        if came.start == came.end {
            (came.start, came.end) = (0, self.below.receive(&mut came.bytes)?);
            if came.end == 0 {
                return Ok(false);
            }
        }
        let mut connection = self.held();
        let mut rest = &came.bytes[came.start..came.end];
        connection.read_tls(&mut rest)?;
        came.start = came.end - rest.len();
        let result = connection.process_new_packets();
        self.send_cipher(&mut connection)?;
        result.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
        Ok(true)
    }

    fn send_cipher(&self, connection: &mut ServerConnection) -> io::Result<()> {
        let mut cipher = Vec::new();
        while connection.wants_write() {
            connection.write_tls(&mut cipher)?;
        }
        if cipher.is_empty() { Ok(()) } else { self.below.send(&cipher) }
    }
}

impl Channel for Tls {
    fn receive(&self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.held().reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
            if !self.take()? {
                return Ok(0);
            }
        }
    }

    fn hang_up(&self) {
        self.below.hang_up();
    }

    fn is_gone(&self) -> bool {
        self.below.is_gone()
    }

    fn send(&self, bytes: &[u8]) -> io::Result<()> {
        let mut connection = self.held();
        for part in bytes.chunks(TLS_BYTES) {
            connection.writer().write_all(part)?;
            self.send_cipher(&mut connection)?;
        }
        Ok(())
    }
}

/// Payloads lie on pages of memory as they do in the system's cache, so that copies are of whole pages.
pub const PAGE: usize = 4096;

/// What came from a client and was not looked at yet.
#[derive(Debug)]
pub struct Input {
    bytes: Vec<u8>,
    start: usize,
    end: usize,
    watch: Watch,
    /// Whether it is worth looking for what comes next before sleeping.
    looks: bool,
}

impl Input {
    /// Room for so many bytes to begin with.
    pub fn new(room: usize) -> Self {
        let mut input =
            Self { bytes: vec![0; room + PAGE], start: 0, end: 0, watch: Watch::default(), looks: false };
        input.rewind();
        input
    }

    /// With nothing in it: what comes next begins so that the payload behind a request's header begins a page.
    pub fn rewind(&mut self) {
        let first = self.bytes.as_ptr().align_offset(PAGE) % PAGE;
        let start = (first + PAGE - REQUEST_BYTES) % PAGE;
        (self.start, self.end) = (start, start);
    }

    /// Gives up the memory that it took beyond so much; nothing may be in it.
    pub fn shrink(&mut self, room: usize) {
        if self.start == self.end && self.bytes.len() > room + PAGE {
            self.bytes = vec![0; room + PAGE];
            self.rewind();
        }
    }

    /// Whether what comes next is looked for, or slept on: worth it for a client that has little to do before it asks
    /// again, not while long payloads move.
    pub fn looks(&mut self, looks: bool) {
        self.looks = looks;
    }

    /// What came.
    pub fn available(&self) -> &[u8] {
        &self.bytes[self.start..self.end]
    }

    /// What came, to be changed in place.
    pub fn available_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[self.start..self.end]
    }

    /// Forgets the first bytes.
    pub fn consume(&mut self, count: usize) {
        self.start = (self.start + count).min(self.end);
    }

    /// Waits for more, with room for `whole` bytes in all; whether there was more.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn fill(&mut self, channel: &dyn Channel, whole: usize) -> io::Result<bool> {
        if self.bytes.len() < whole + PAGE {
            self.bytes.resize(whole + PAGE, 0);
        }
        let empty = self.start == self.end;
        if empty || self.bytes.len() - self.start < whole || self.end == self.bytes.len() {
            // Whole pages are given up, so that what lies on a page goes on to.
            let back = self.start - self.start % PAGE;
            self.bytes.copy_within(self.start..self.end, self.start - back);
            (self.start, self.end) = (self.start - back, self.end - back);
        }
        loop {
            let room = &mut self.bytes[self.end..];
            let received = if self.looks { self.watch.receive(channel, room) } else { channel.receive(room) };
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

    /// Waits until so many bytes came; none if the client goes before.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn need(&mut self, channel: &dyn Channel, count: usize) -> io::Result<Option<&[u8]>> {
        while self.available().len() < count {
            if !self.fill(channel, count)? {
                return Ok(None);
            }
        }
        Ok(Some(&self.available()[..count]))
    }

    /// Throws away the next bytes, as they come; whether they all came.
    ///
    /// # Errors
    /// As [`Channel::receive`].
    pub fn discard(&mut self, channel: &dyn Channel, mut count: usize) -> io::Result<bool> {
        loop {
            let here = self.available().len().min(count);
            self.consume(here);
            count -= here;
            if count == 0 {
                return Ok(true);
            }
            if !self.fill(channel, 1)? {
                return Ok(false);
            }
        }
    }
}
