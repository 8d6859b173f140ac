//! NBD over sockets: listeners, a thread for each client, who is dropped where there are too many, and the end.
//!
//! Invariants:
//! * There is always a place for one more handshake: the oldest of [`MOST_HANDSHAKES`] is dropped for it, and one that is
//!   not finished in time is dropped.
//! * Of the clients beyond the most for requests, one is dropped for which nothing is being done: first one that never
//!   asked for anything, then one that owes something for [`Options::debt`], then the one that is idle longest.
//! * Where memory is short, clients that owe the rest of a request, or do not read their replies, are dropped after
//!   [`Options::debt`].
//! * When the server ends, what came is answered, by its result or by ESHUTDOWN; clients get a moment to read it, and
//!   every thread is gone before [`NbdServer::end`] returns. No part of that waits for a client longer than [`Options::grace`].

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::core::connection::{Connection, Phase};
use crate::core::{Service, Shape};
use crate::diagnostics;
use crate::endpoint::{Endpoint, EndpointError, Listener, Socket};
use crate::nbd::channel::Channel;
use crate::nbd::handshake::{Export, TlsPolicy, negotiate};
use crate::nbd::transmission::transmit;

/// Handshakes at a time.
pub const MOST_HANDSHAKES: usize = 64;
/// How often a listener looks up from its socket, ns.
const LOOK_UP_NS: i64 = 100_000_000;

/// What the front door allows.
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
    /// Log connections and disconnections on standard error.
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
    handshake_until: Option<Instant>,
    connection: Arc<Connection>,
}

impl Client {
    /// Whether it is in its handshake, and was not dropped.
    fn is_in_handshake(&self) -> bool {
        self.handshake_until.is_some() && !self.connection.is_gone()
    }

    /// Whether it is in its transmission phase, and was not dropped.
    fn stays(&self) -> bool {
        self.handshake_until.is_none() && !self.connection.is_gone()
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
    service: Arc<Service>,
    options: Options,
    clients: Mutex<Clients>,
    /// A client has gone.
    gone: Condvar,
    ending: AtomicBool,
}

/// See the module page.
pub struct NbdServer {
    inner: Arc<Inner>,
    endpoints: Vec<Endpoint>,
    listening: Vec<JoinHandle<()>>,
}

impl NbdServer {
    /// Serves at these places, until it ends.
    ///
    /// # Errors
    /// When one of the places cannot be had.
    pub fn start(
        service: Arc<Service>,
        places: &[Endpoint],
        options: Options,
    ) -> Result<Self, EndpointError> {
        let mut listeners = Vec::new();
        for place in places {
            listeners.push(Listener::bind(place, options.remote)?);
        }
        let endpoints = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
        let (clients, gone, ending) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        let inner = Arc::new(Inner { service, options, clients, gone, ending });
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

    /// Takes no more clients, and lets those that are here finish. Does nothing the second time.
    pub fn end(&mut self) {
        self.inner.ending.store(true, Ordering::Release);
        self.inner.service.shared.enter(Phase::Finishes);
        for thread in self.listening.drain(..) {
            // A listener that panicked listens no more, which is what is wanted.
            let _ = thread.join();
        }
        self.inner.shutdown(Shutdown::Read);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.service.shared.enter(Phase::Refuses);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.clients().by_number.values().for_each(Client::drop_it);
        self.inner.wait_for_clients(Duration::MAX);
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.end();
    }
}

impl Clients {
    /// The oldest handshake goes, if there are too many.
    fn drop_for_handshake(&self) {
        let handshakes = || self.by_number.iter().filter(|(_, client)| client.is_in_handshake());
        if handshakes().count() >= MOST_HANDSHAKES
            && let Some((_, oldest)) = handshakes().min_by_key(|(number, _)| **number)
        {
            oldest.drop_it();
        }
    }

    /// One that can be done without goes, if there are too many; whether there is room then.
    fn drop_for_requests(&self, most: usize, debt: Duration) -> bool {
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

/// The export, as one client sees it during the handshake.
struct ExportTo<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Export for ExportTo<'_> {
    fn shape(&self) -> &Shape {
        self.inner.service.backend.shape()
    }

    fn description(&self) -> String {
        self.inner.service.description()
    }

    fn tls(&self) -> &TlsPolicy {
        &self.inner.options.tls
    }

    fn admits(&self) -> bool {
        self.inner.admits(self.number)
    }
}

impl Inner {
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
        let short = self.service.shared.budget.is_waited_for();
        for client in self.clients().by_number.values() {
            let late = client.handshake_until.is_some_and(|until| until < now);
            if late || (short && client.connection.has_owed(self.options.debt)) {
                client.drop_it();
            }
        }
    }

    fn take(self: &Arc<Self>, socket: Socket) -> io::Result<()> {
        let channel = channel_of(&socket)?;
        let mut clients = self.clients();
        clients.drop_for_handshake();
        let number = clients.next;
        clients.next += 1;
        let handshake_until = Some(Instant::now() + self.options.handshake);
        let connection = Arc::new(Connection::new(self.service.shared.clone()));
        clients.by_number.insert(number, Client { socket, handshake_until, connection });
        self.service.connected();
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
            if clients.drop_for_requests(most_connections, debt) {
                if let Some(client) = clients.by_number.get_mut(&number) {
                    client.handshake_until = None;
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

    fn serve(&self, number: u64, channel: Arc<dyn Channel>) {
        self.say(format!("client {number} came"));
        let why = match self.converse(number, channel) {
            Ok(()) => "went".to_owned(),
            Err(error) => format!("was dropped: {error}"),
        };
        self.say(format!("client {number} {why}"));
    }

    fn converse(&self, number: u64, channel: Arc<dyn Channel>) -> io::Result<()> {
        let Some(agreed) = negotiate(channel, &ExportTo { inner: self, number })? else {
            return Ok(());
        };
        let connection = self.clients().by_number.get(&number).map(|client| client.connection.clone());
        match connection {
            Some(connection) => {
                transmit(agreed, self.service.backend.as_ref(), &self.service.counters, connection)
            }
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
        self.inner.service.disconnected();
        self.inner.gone.notify_all();
    }
}

/// A socket once more, as a channel.
fn channel_of(socket: &Socket) -> io::Result<Arc<dyn Channel>> {
    Ok(match socket {
        Socket::Unix(stream) => Arc::new(stream.try_clone()?),
        Socket::Tcp(stream) => Arc::new(stream.try_clone()?),
    })
}

/// The URI by which clients of any folder know an endpoint (NBD URI specification).
pub fn uri_of(endpoint: &Endpoint, tls: bool) -> String {
    let scheme = if tls { "nbds" } else { "nbd" };
    match endpoint {
        Endpoint::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{scheme}+unix:///?socket={}", path.display())
        }
        Endpoint::Tcp(place) => format!("{scheme}://{place}/"),
    }
}
