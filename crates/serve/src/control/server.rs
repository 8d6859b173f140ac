//! The control socket: one thread serves all clients with non-blocking I/O.
//!
//! Each client is served in turn: one request, one answer, and no further request before the client has read
//! the answer.
//!
//! Invariants: a client holds at most one request of [`MAX_REQUEST_BYTES`] and one answer; there are at most
//! [`MAX_CLIENTS`] clients; a new one replaces the one that has been quiet longest, and is answered at once
//! if its request is there; a client that does not complete a request or read its answer within
//! [`CLIENT_TIMEOUT`] is dropped. The socket is removed at shutdown; the stale socket of a killed server is
//! replaced.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::zones::PendingAction;
use super::{Answer, MAX_REQUEST_BYTES, begin};
use crate::core::Service;
use crate::endpoint::{EndpointError, Listener, Socket};

/// Maximum number of clients: chosen, because only a person and a few monitors connect.
pub const MAX_CLIENTS: usize = 32;
/// Time limit for a client to complete a request or read an answer.
pub const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often the thread checks for shutdown, ns.
const POLL_INTERVAL_NS: i64 = 100_000_000;
/// The same while an action on zones is under way, whose end is polled for, ns.
const ACTION_INTERVAL_NS: i64 = 1_000_000;
/// Delay after a failed accept, which would fail again at once.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

/// See the module page.
pub struct ControlServer {
    path: PathBuf,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens at a path.
    ///
    /// # Errors
    /// When the server cannot listen there.
    pub fn start(service: Arc<Service>, path: &Path) -> Result<Self, EndpointError> {
        let listener = Listener::bind_path(path)?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || serve(&listener, &service, &stop));
        let thread = thread.map_err(|error| EndpointError::System(path.display().to_string(), error))?;
        Ok(Self { path: path.to_owned(), stopping, thread: Some(thread) })
    }

    /// The path of the socket.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stopping.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has stopped, too.
            let _ = thread.join();
        }
    }
}

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// The current answer, and how much of it was sent.
    output: Vec<u8>,
    sent: usize,
    /// The action whose end is the next answer.
    action: Option<PendingAction>,
    /// When the client connected or finished reading its last answer.
    since: Instant,
    /// The client is dropped once it has read its answer.
    drop_after_answer: bool,
}

impl Client {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (input, output) = (Vec::new(), Vec::new());
        let since = Instant::now();
        Ok(Self { stream, input, output, sent: 0, action: None, since, drop_after_answer: false })
    }

    fn has_unsent_answer(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Whether a complete request is buffered.
    fn is_ready(&self) -> bool {
        !self.has_unsent_answer() && self.action.is_none() && self.input.contains(&b'\n')
    }

    /// Sends, receives and answers as far as possible without blocking; returns whether to keep the client.
    fn serve(&mut self, service: &Service) -> bool {
        if let Some(action) = &self.action {
            let Some(answer) = action.poll() else { return true };
            self.action = None;
            self.put(&answer);
        }
        let keep = match self.send() {
            Ok(()) if self.has_unsent_answer() => Ok(true),
            Ok(()) if self.drop_after_answer => Ok(false),
            Ok(()) => self.receive(),
            Err(error) => Err(error),
        };
        match keep {
            Ok(true) if !self.has_unsent_answer() && self.take_request(service) => {
                // The rest is sent when the socket is writable, or when there is an answer.
                self.send().is_ok() && (self.has_unsent_answer() || !self.drop_after_answer)
            }
            Ok(keep) => keep && self.since.elapsed() < CLIENT_TIMEOUT,
            Err(_) => false,
        }
    }

    /// Sends as much of the answer as the socket accepts.
    fn send(&mut self) -> io::Result<()> {
        while self.has_unsent_answer() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if !self.output.is_empty() {
            // Releases the memory of a long answer.
            (self.output, self.sent) = (Vec::new(), 0);
            self.since = Instant::now();
        }
        Ok(())
    }

    /// Receives until a complete request is buffered; returns false at the end of the stream.
    fn receive(&mut self) -> io::Result<bool> {
        let mut part = [0; MAX_REQUEST_BYTES + 1];
        while !self.input.contains(&b'\n') && self.input.len() <= MAX_REQUEST_BYTES {
            let free = part.len() - self.input.len();
            match self.stream.read(&mut part[..free]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.input.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Answers the first complete request; returns whether there was one.
    fn take_request(&mut self, service: &Service) -> bool {
        let answer = match self.input.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                let answer = begin(&self.input[..end], service);
                self.input.drain(..=end);
                match answer {
                    Answer::Now(answer) => answer,
                    Answer::Later(action) => {
                        self.action = Some(action);
                        return true;
                    }
                }
            }
            None if self.input.len() > MAX_REQUEST_BYTES => {
                self.drop_after_answer = true;
                super::failed(&format!("the request exceeds {MAX_REQUEST_BYTES} bytes; send a shorter line"))
            }
            None => return false,
        };
        self.put(&answer);
        true
    }

    /// The answer that is sent next.
    fn put(&mut self, answer: &serde_json::Value) {
        (self.output, self.sent) = (format!("{answer}\n").into_bytes(), 0);
        self.since = Instant::now();
    }
}

/// Serves clients until shutdown.
fn serve(listener: &Listener, service: &Service, stopping: &AtomicBool) {
    let mut clients: Vec<Client> = Vec::new();
    while !stopping.load(Ordering::Acquire) {
        wait(listener, &clients);
        clients.retain_mut(|client| client.serve(service));
        match listener.accept() {
            Ok(Some(Socket::Unix(stream))) => {
                if let Ok(mut client) = Client::new(stream)
                    && client.serve(service)
                {
                    drop_quietest(&mut clients);
                    clients.push(client);
                }
            }
            Ok(_) => {}
            Err(_) => std::thread::sleep(ACCEPT_RETRY_DELAY),
        }
    }
}

/// Waits for activity or the polling interval.
fn wait(listener: &Listener, clients: &[Client]) {
    let ready = clients.iter().any(Client::is_ready);
    let acts = clients.iter().any(|client| client.action.is_some());
    let interval = if acts { ACTION_INTERVAL_NS } else { POLL_INTERVAL_NS };
    let pause = Timespec { tv_sec: 0, tv_nsec: if ready { 0 } else { interval } };
    let fd = listener.as_fd();
    let mut waits = vec![PollFd::new(&fd, PollFlags::IN)];
    waits.extend(clients.iter().map(|client| {
        let flags = if client.has_unsent_answer() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&client.stream, flags)
    }));
    // Every client is checked anyway.
    let _ = poll(&mut waits, Some(&pause));
}

/// Drops the client that has been quiet longest if there are too many.
fn drop_quietest(clients: &mut Vec<Client>) {
    let quietest = (0..clients.len()).min_by_key(|&index| clients[index].since);
    if clients.len() >= MAX_CLIENTS
        && let Some(index) = quietest
    {
        clients.remove(index);
    }
}
