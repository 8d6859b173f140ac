//! A server: listeners, a thread for each connection, and the end.
//!
//! Invariants: a client that does not finish its handshake in time is dropped; so are those beyond the most;
//! when the server ends, what was taken is answered, clients get a moment to read it, and every thread is gone
//! before `stop` returns.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;

use crate::backend::{Backend, Op, Shape};
use crate::counters::Counters;
use crate::endpoint::{Endpoint, EndpointError, Listener, Socket};
use crate::nbd::handshake::{House, TlsPolicy, haggle};
use crate::nbd::transmission::transmit;

/// How often a listener looks up from its socket, ns.
const LOOK_UP_NS: i64 = 100_000_000;

/// What a server allows.
#[derive(Clone)]
pub struct Options {
    /// TLS.
    pub tls: TlsPolicy,
    /// Listen on more than loopback.
    pub remote: bool,
    /// Connections at a time.
    pub most_connections: usize,
    /// How long a handshake may take.
    pub handshake: Duration,
    /// How long clients may take to read what they are still owed, at the end.
    pub grace: Duration,
    /// Say on standard error who came and why who went.
    pub log: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: TlsPolicy::Off,
            remote: false,
            most_connections: 256,
            handshake: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            log: false,
        }
    }
}

/// A connection as the server sees it.
struct Client {
    socket: Socket,
    /// By when it must have chosen an export; none once it has.
    haggles_until: Option<Instant>,
}

#[derive(Default)]
struct Clients {
    by_number: HashMap<u64, Client>,
    next: u64,
}

struct Inner {
    backend: Arc<dyn Backend>,
    options: Options,
    counters: Counters,
    clients: Mutex<Clients>,
    /// A client has gone.
    gone: Condvar,
    ending: AtomicBool,
    began: Instant,
}

/// See the module page.
pub struct Server {
    inner: Arc<Inner>,
    endpoints: Vec<Endpoint>,
    listening: Vec<JoinHandle<()>>,
}

impl Server {
    /// Serves a backend at these places, until it is stopped.
    ///
    /// # Errors
    /// When one of the places cannot be had.
    pub fn start(
        backend: Arc<dyn Backend>,
        places: &[Endpoint],
        options: Options,
    ) -> Result<Self, EndpointError> {
        let mut listeners = Vec::new();
        for place in places {
            listeners.push(Listener::bind(place, options.remote)?);
        }
        let endpoints = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
        let inner = Arc::new(Inner {
            backend,
            options,
            counters: Counters::default(),
            clients: Mutex::default(),
            gone: Condvar::new(),
            ending: AtomicBool::new(false),
            began: Instant::now(),
        });
        let mut server = Self { inner: inner.clone(), endpoints, listening: Vec::new() };
        for listener in listeners {
            let (inner, name) = (inner.clone(), listener.endpoint().to_string());
            let thread = std::thread::Builder::new().name("nbd-listen".to_owned());
            let handle = thread.spawn(move || inner.listen(&listener));
            server.listening.push(handle.map_err(|error| EndpointError::System(name, error))?);
        }
        Ok(server)
    }

    /// Where it listens.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// How it does, as JSON.
    pub fn status(&self) -> String {
        self.inner.status()
    }

    /// The same in a sentence.
    pub fn description(&self) -> String {
        self.inner.description()
    }

    /// Takes no more clients, lets those that are here finish, closes the backend.
    ///
    /// # Errors
    /// One line, when the backend cannot keep what was written.
    pub fn stop(mut self) -> Result<(), String> {
        self.end();
        self.inner.backend.close()
    }

    fn end(&mut self) {
        self.inner.ending.store(true, Ordering::Release);
        for thread in self.listening.drain(..) {
            // A listener that panicked listens no more, which is what is wanted.
            let _ = thread.join();
        }
        self.inner.shutdown(Shutdown::Read);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.shutdown(Shutdown::Both);
        self.inner.wait_for_clients(Duration::MAX);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl House for Inner {
    fn shape(&self) -> &Shape {
        self.backend.shape()
    }

    fn control(&self, key: &str, value: &str) -> Result<String, String> {
        self.backend.control(key, value)
    }

    fn description(&self) -> String {
        let shape = self.backend.shape();
        let clients = self.clients().by_number.len();
        let done = |op| self.counters.commands(op);
        let did = format!(
            "{clients} connected, {} reads, {} writes, {} flushes",
            done(Op::Read),
            done(Op::Write),
            done(Op::Flush)
        );
        match shape.description.as_str() {
            "" => did,
            what => format!("{what}; {did}"),
        }
    }

    fn status(&self) -> String {
        let shape = self.backend.shape();
        json!({
            "schema": 1,
            "name": shape.name,
            "size_bytes": shape.size,
            "up_s": self.began.elapsed().as_secs(),
            "connections": self.clients().by_number.len(),
            "requests": self.counters.to_json(),
            "drive": self.backend.status(),
        })
        .to_string()
    }

    fn tls(&self) -> &TlsPolicy {
        &self.options.tls
    }
}

impl Inner {
    // A list of clients is whole between any two statements.
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: &str) {
        if self.options.log {
            eprintln!("skylight: {text}");
        }
    }

    fn shutdown(&self, how: Shutdown) {
        self.clients().by_number.values().for_each(|client| client.socket.shutdown(how));
    }

    fn wait_for_clients(&self, most: Duration) {
        let here = |clients: &mut Clients| !clients.by_number.is_empty();
        drop(self.gone.wait_timeout_while(self.clients(), most, here));
    }

    /// Takes clients until the end.
    fn listen(self: &Arc<Self>, listener: &Listener) {
        let pause = Timespec { tv_sec: 0, tv_nsec: LOOK_UP_NS };
        while !self.ending.load(Ordering::Acquire) {
            let fd = listener.as_fd();
            let mut waits = [PollFd::new(&fd, PollFlags::IN)];
            // Interrupted or not, it looks whether somebody came.
            let _ = poll(&mut waits, Some(&pause));
            self.drop_slow();
            match listener.accept() {
                Ok(Some(socket)) => {
                    if let Err(error) = self.take(socket) {
                        self.say(&format!("a client was turned away: {error}"));
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    self.say(&format!("{}: {error}", listener.endpoint()));
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Ends connections that did not get through their handshake in time.
    fn drop_slow(&self) {
        let now = Instant::now();
        for client in self.clients().by_number.values() {
            if client.haggles_until.is_some_and(|until| until < now) {
                client.socket.shutdown(Shutdown::Both);
            }
        }
    }

    fn take(self: &Arc<Self>, socket: Socket) -> io::Result<()> {
        let channel = socket.channel()?;
        let mut clients = self.clients();
        if clients.by_number.len() >= self.options.most_connections {
            return Err(io::Error::other("too many connections"));
        }
        let number = clients.next;
        clients.next += 1;
        let haggles_until = Some(Instant::now() + self.options.handshake);
        clients.by_number.insert(number, Client { socket, haggles_until });
        drop(clients);
        let here = Here { inner: self.clone(), number };
        let thread = std::thread::Builder::new().name("nbd-client".to_owned());
        thread.spawn(move || here.inner.serve(here.number, channel)).map(|_| ())
    }

    fn serve(&self, number: u64, channel: Arc<dyn crate::nbd::channel::Channel>) {
        self.say(&format!("client {number} came"));
        let why = match self.converse(number, channel) {
            Ok(()) => "went".to_owned(),
            Err(error) => format!("was dropped: {error}"),
        };
        self.say(&format!("client {number} {why}"));
    }

    fn converse(&self, number: u64, channel: Arc<dyn crate::nbd::channel::Channel>) -> io::Result<()> {
        let Some(agreed) = haggle(channel, self)? else {
            return Ok(());
        };
        if let Some(client) = self.clients().by_number.get_mut(&number) {
            client.haggles_until = None;
        }
        transmit(agreed, self.backend.as_ref(), &self.counters)
    }
}

/// A client's place in the list, given up when its thread ends, however it ends.
struct Here {
    inner: Arc<Inner>,
    number: u64,
}

impl Drop for Here {
    fn drop(&mut self) {
        self.inner.clients().by_number.remove(&self.number);
        self.inner.gone.notify_all();
    }
}
