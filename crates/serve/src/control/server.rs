//! The control socket: one thread that waits for nobody.
//!
//! Every client is looked at when it can be read or written, and each has its turn: one request, one answer, and no
//! further request before the answer is taken.
//!
//! Invariants: a client holds at most one request of [`MAX_REQUEST_BYTES`] and one answer; there are at most
//! [`MAX_CLIENTS`], and the one that was quiet longest is dropped for the next, which is served at once if it asks at once;
//! one that completes no request, or does not take its answer, in [`PATIENCE`] is dropped. The socket is removed at the
//! end; that of a server that was killed is replaced.

use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{MAX_REQUEST_BYTES, answer};
use crate::core::Service;
use crate::endpoint::{EndpointError, Listener, Socket};

/// Clients at a time: chosen, because a person and a few monitors ask.
pub const MAX_CLIENTS: usize = 32;
/// How long a client may take for a request, or to read an answer.
pub const PATIENCE: Duration = Duration::from_secs(10);
/// How often the thread looks whether the server ends, ns.
const LOOK_UP_NS: i64 = 100_000_000;
/// How long the thread rests when the system refuses a client, which it does again at once.
const REFUSED_PAUSE: Duration = Duration::from_millis(50);

/// See the module page.
pub struct ControlServer {
    path: PathBuf,
    ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    /// Listens at a path.
    ///
    /// # Errors
    /// When the path cannot be had.
    pub fn start(service: Arc<Service>, path: &Path) -> Result<Self, EndpointError> {
        let listener = Listener::bind_path(path)?;
        let ending = Arc::new(AtomicBool::new(false));
        let ends = ending.clone();
        let thread = Builder::new().name("control".to_owned());
        let thread = thread.spawn(move || serve(&listener, &service, &ends));
        let thread = thread.map_err(|error| EndpointError::System(path.display().to_string(), error))?;
        Ok(Self { path: path.to_owned(), ending, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.ending.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // If it panicked it answers no more, which is what is wanted.
            let _ = thread.join();
        }
    }
}

struct Client {
    stream: UnixStream,
    input: Vec<u8>,
    /// The answer, and how much of it was sent.
    output: Vec<u8>,
    sent: usize,
    /// When it came, or took its last answer.
    since: Instant,
    /// It is dropped once it has its answer.
    leaves: bool,
}

impl Client {
    fn new(stream: UnixStream) -> io::Result<Self> {
        stream.set_nonblocking(true)?;
        let (input, output) = (Vec::new(), Vec::new());
        Ok(Self { stream, input, output, sent: 0, since: Instant::now(), leaves: false })
    }

    fn owes_answer(&self) -> bool {
        self.sent < self.output.len()
    }

    /// Whether there is something to do for it now.
    fn is_ready(&self) -> bool {
        !self.owes_answer() && self.input.contains(&b'\n')
    }

    /// Sends, receives and answers as far as that goes without waiting; whether it stays.
    fn serve(&mut self, service: &Service) -> bool {
        let stays = match self.send() {
            Ok(()) if self.owes_answer() => Ok(true),
            Ok(()) if self.leaves => Ok(false),
            Ok(()) => self.receive(),
            Err(error) => Err(error),
        };
        match stays {
            Ok(true) if !self.owes_answer() && self.take_request(service) => {
                // A client that cannot take it now is looked at when it can.
                self.send().is_ok() && (self.owes_answer() || !self.leaves)
            }
            Ok(stays) => stays && self.since.elapsed() < PATIENCE,
            Err(_) => false,
        }
    }

    /// Sends what can be sent.
    fn send(&mut self) -> io::Result<()> {
        while self.owes_answer() {
            match self.stream.write(&self.output[self.sent..]) {
                Ok(count) => self.sent += count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        if !self.output.is_empty() {
            // What a long answer took is given back.
            (self.output, self.sent) = (Vec::new(), 0);
            self.since = Instant::now();
        }
        Ok(())
    }

    /// Receives up to a whole request; whether the client may still want something.
    fn receive(&mut self) -> io::Result<bool> {
        let mut part = [0; MAX_REQUEST_BYTES + 1];
        while !self.input.contains(&b'\n') && self.input.len() <= MAX_REQUEST_BYTES {
            let room = part.len() - self.input.len();
            match self.stream.read(&mut part[..room]) {
                Ok(0) => return Ok(false),
                Ok(count) => self.input.extend_from_slice(&part[..count]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(true),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Answers the first request that came whole; whether there was one.
    fn take_request(&mut self, service: &Service) -> bool {
        let answer = match self.input.iter().position(|&byte| byte == b'\n') {
            Some(end) => {
                let answer = answer(&self.input[..end], service);
                self.input.drain(..=end);
                answer
            }
            None if self.input.len() > MAX_REQUEST_BYTES => {
                self.leaves = true;
                super::failed(&format!("a request is a line of at most {MAX_REQUEST_BYTES} bytes"))
            }
            None => return false,
        };
        self.output = format!("{answer}\n").into_bytes();
        self.sent = 0;
        true
    }
}

/// Serves clients until the end.
fn serve(listener: &Listener, service: &Service, ending: &AtomicBool) {
    let mut clients: Vec<Client> = Vec::new();
    while !ending.load(Ordering::Acquire) {
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
            Err(_) => std::thread::sleep(REFUSED_PAUSE),
        }
    }
}

/// Waits until there is something to do, or for a while.
fn wait(listener: &Listener, clients: &[Client]) {
    let ready = clients.iter().any(Client::is_ready);
    let pause = Timespec { tv_sec: 0, tv_nsec: if ready { 0 } else { LOOK_UP_NS } };
    let fd = listener.as_fd();
    let mut waits = vec![PollFd::new(&fd, PollFlags::IN)];
    waits.extend(clients.iter().map(|client| {
        let flags = if client.owes_answer() { PollFlags::OUT } else { PollFlags::IN };
        PollFd::new(&client.stream, flags)
    }));
    // Interrupted or not, it looks at every client.
    let _ = poll(&mut waits, Some(&pause));
}

/// Makes room for a client.
fn drop_quietest(clients: &mut Vec<Client>) {
    let quietest = (0..clients.len()).min_by_key(|&index| clients[index].since);
    if clients.len() >= MAX_CLIENTS
        && let Some(index) = quietest
    {
        clients.remove(index);
    }
}
