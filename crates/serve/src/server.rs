//! A server: listeners, a thread for each connection, and the end.
//!
//! Invariants:
//! * There is always a place for one more handshake, and so for `skylight status`: the oldest of [`MOST_HANDSHAKES`]
//!   makes room, and one that is not finished in time is dropped.
//! * Of the clients beyond the most for requests, one makes room for which nothing is being done: first one that never
//!   asked for anything, then one that owes something for [`Options::debt`], then the one that is idle longest.
//! * Where memory is short, clients that owe the rest of a request, or do not read their replies, are dropped after
//!   [`Options::debt`].
//! * When the server ends, what came is answered, by its result or by ESHUTDOWN; clients get a moment to read it, and
//!   every thread is gone before `stop` returns. No part of that waits for a client longer than [`Options::grace`].

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
use crate::connection::{Connection, Phase, Shared};
use crate::counters::Counters;
use crate::diagnostics;
use crate::endpoint::{Endpoint, EndpointError, Listener, Socket};
use crate::nbd::handshake::{House, TlsPolicy, haggle};
use crate::nbd::transmission::transmit;

/// Handshakes at a time.
pub const MOST_HANDSHAKES: usize = 64;
/// How long the last lines may take at the end.
const LINES_TIME: Duration = Duration::from_millis(200);
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
    /// How long what came is done at the end; and then, how long clients may take to read what they are still owed.
    pub grace: Duration,
    /// How long a client may owe something while others wait for memory.
    pub debt: Duration,
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
            debt: Duration::from_secs(1),
            log: false,
        }
    }
}

/// A connection as the server sees it.
struct Client {
    socket: Socket,
    /// By when it must have chosen an export; none once it has.
    haggles_until: Option<Instant>,
    connection: Arc<Connection>,
}

impl Client {
    /// Whether it is in its handshake, and was not dropped.
    fn haggles(&self) -> bool {
        self.haggles_until.is_some() && !self.connection.is_gone()
    }

    /// Whether it is in its transmission phase, and was not dropped.
    fn stays(&self) -> bool {
        self.haggles_until.is_none() && !self.connection.is_gone()
    }

    fn drop_it(&self) {
        self.connection.leave();
        self.socket.shutdown(Shutdown::Both);
    }
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
    shared: Arc<Shared>,
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
            shared: Arc::default(),
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
        let closed = self.inner.backend.close();
        diagnostics::drain(LINES_TIME);
        closed
    }

    fn end(&mut self) {
        self.inner.ending.store(true, Ordering::Release);
        self.inner.shared.enter(Phase::Finishes);
        for thread in self.listening.drain(..) {
            // A listener that panicked listens no more, which is what is wanted.
            let _ = thread.join();
        }
        self.inner.shutdown(Shutdown::Read);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.shared.enter(Phase::Refuses);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.clients().by_number.values().for_each(Client::drop_it);
        self.inner.wait_for_clients(Duration::MAX);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

impl Clients {
    /// The oldest handshake goes, if there are too many.
    fn make_room_for_handshake(&self) {
        let haggling = || self.by_number.iter().filter(|(_, client)| client.haggles());
        if haggling().count() >= MOST_HANDSHAKES
            && let Some((_, oldest)) = haggling().min_by_key(|(number, _)| **number)
        {
            oldest.drop_it();
        }
    }

    /// One that can be done without goes, if there are too many; whether there is room then.
    fn make_room(&self, most: usize, debt: Duration) -> bool {
        let staying = || self.by_number.values().filter(|client| client.stays());
        if staying().count() < most {
            return true;
        }
        let ranked = staying().filter_map(|client| Some((client.connection.idle_rank(debt)?, client)));
        match ranked.min_by_key(|(rank, _)| *rank) {
            Some((_, client)) => {
                client.drop_it();
                true
            }
            None => false,
        }
    }
}

/// The server, as one client sees it while it haggles.
struct Door<'a> {
    inner: &'a Inner,
    number: u64,
}

impl House for Door<'_> {
    fn shape(&self) -> &Shape {
        self.inner.backend.shape()
    }

    fn control(&self, key: &str, value: &str) -> Result<String, String> {
        self.inner.backend.control(key, value)
    }

    fn description(&self) -> String {
        self.inner.description()
    }

    fn status(&self) -> String {
        self.inner.status()
    }

    fn tls(&self) -> &TlsPolicy {
        &self.inner.options.tls
    }

    fn admits(&self) -> bool {
        self.inner.admits(self.number)
    }
}

impl Inner {
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

    // A list of clients is whole between any two statements.
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn say(&self, text: String) {
        if self.options.log {
            diagnostics::say(text);
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
                        self.say(format!("a client was turned away: {error}"));
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    self.say(format!("{}: {error}", listener.endpoint()));
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Ends connections that did not get through their handshake in time, and, where memory is short, those that owe
    /// something.
    fn drop_slow(&self) {
        let now = Instant::now();
        let short = self.shared.budget.is_waited_for();
        for client in self.clients().by_number.values() {
            let late = client.haggles_until.is_some_and(|until| until < now);
            if late || (short && client.connection.has_owed(self.options.debt)) {
                client.drop_it();
            }
        }
    }

    fn take(self: &Arc<Self>, socket: Socket) -> io::Result<()> {
        let channel = socket.channel()?;
        let mut clients = self.clients();
        clients.make_room_for_handshake();
        let number = clients.next;
        clients.next += 1;
        let haggles_until = Some(Instant::now() + self.options.handshake);
        let connection = Arc::new(Connection::new(self.shared.clone()));
        clients.by_number.insert(number, Client { socket, haggles_until, connection });
        drop(clients);
        let here = Here { inner: self.clone(), number };
        let thread = std::thread::Builder::new().name("nbd-client".to_owned());
        thread.spawn(move || here.inner.serve(here.number, channel)).map(|_| ())
    }

    /// Whether there is a place for the requests of a client, or somebody makes room before long.
    fn admits(&self, number: u64) -> bool {
        let Options { most_connections, debt, .. } = self.options;
        let until = Instant::now() + debt + Duration::from_nanos(LOOK_UP_NS as u64);
        loop {
            let mut clients = self.clients();
            if clients.make_room(most_connections, debt) {
                if let Some(client) = clients.by_number.get_mut(&number) {
                    client.haggles_until = None;
                }
                return true;
            }
            let late = Instant::now() >= until || self.ending.load(Ordering::Acquire);
            if late {
                return false;
            }
            // Somebody who goes makes room.
            drop(self.gone.wait_timeout(clients, Duration::from_millis(50)));
        }
    }

    fn serve(&self, number: u64, channel: Arc<dyn crate::nbd::channel::Channel>) {
        self.say(format!("client {number} came"));
        let why = match self.converse(number, channel) {
            Ok(()) => "went".to_owned(),
            Err(error) => format!("was dropped: {error}"),
        };
        self.say(format!("client {number} {why}"));
    }

    fn converse(&self, number: u64, channel: Arc<dyn crate::nbd::channel::Channel>) -> io::Result<()> {
        let Some(agreed) = haggle(channel, &Door { inner: self, number })? else {
            return Ok(());
        };
        let connection = self.clients().by_number.get(&number).map(|client| client.connection.clone());
        match connection {
            Some(connection) => transmit(agreed, self.backend.as_ref(), &self.counters, connection),
            None => Ok(()),
        }
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
