//! NBD over sockets: listeners, one thread per client, eviction of clients, and shutdown.
//!
//! Invariants:
//! * A new handshake is always accepted: the oldest of [`MAX_HANDSHAKES`] is dropped for it, and one that
//!   exceeds its timeout is dropped.
//! * When the transmission phase has too many clients, one that the server is not working for is dropped:
//!   first one that has never sent a request, then one that has stalled for [`Options::stall_timeout`], then
//!   the one that has been idle longest.
//! * When memory is short, clients that leave a request incomplete or replies unread are dropped after
//!   [`Options::stall_timeout`].
//! * During shutdown every received request is answered, with its result or with ESHUTDOWN; clients get a
//!   grace period to read the replies, and every thread has ended before [`NbdServer::stop`] returns. No step
//!   waits for clients longer than [`Options::grace`].

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
use crate::nbd::handshake::{Export, TlsPolicy, negotiate};
use crate::nbd::transmission::transmit;
use crate::nbd::transport::Channel;

/// Concurrent handshakes.
pub const MAX_HANDSHAKES: usize = 64;
/// How often a listener checks for timeouts and shutdown, ns.
const POLL_INTERVAL_NS: i64 = 100_000_000;

/// Limits and policies of the front door.
#[derive(Clone)]
pub struct Options {
    /// TLS policy.
    pub tls: TlsPolicy,
    /// Allow addresses other than loopback.
    pub remote: bool,
    /// Maximum number of clients in the transmission phase.
    pub max_connections: usize,
    /// Time limit of a handshake.
    pub handshake_timeout: Duration,
    /// Time limit for completing received requests during shutdown, and again for clients to read their
    /// replies.
    pub grace: Duration,
    /// How long a client may leave a request incomplete or replies unread while others need its resources.
    pub stall_timeout: Duration,
    /// Log connections and disconnections on standard error.
    pub log: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            tls: TlsPolicy::Off,
            remote: false,
            max_connections: 256,
            handshake_timeout: Duration::from_secs(10),
            grace: Duration::from_secs(2),
            stall_timeout: Duration::from_secs(1),
            log: false,
        }
    }
}

/// A client, as the server tracks it.
struct Client {
    socket: Socket,
    /// Deadline of the handshake; `None` in the transmission phase.
    handshake_deadline: Option<Instant>,
    connection: Arc<Connection>,
}

impl Client {
    /// Whether it is connected and in its handshake.
    fn is_in_handshake(&self) -> bool {
        self.handshake_deadline.is_some() && !self.connection.is_disconnected()
    }

    /// Whether it is connected and in its transmission phase.
    fn in_transmission(&self) -> bool {
        self.handshake_deadline.is_none() && !self.connection.is_disconnected()
    }

    fn disconnect(&self) {
        self.connection.disconnect();
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
    /// A client was removed from the list.
    client_removed: Condvar,
    stopping: AtomicBool,
}

/// See the module page.
pub struct NbdServer {
    inner: Arc<Inner>,
    endpoints: Vec<Endpoint>,
    listening: Vec<JoinHandle<()>>,
}

impl NbdServer {
    /// Starts serving on these endpoints.
    ///
    /// # Errors
    /// When the server cannot listen on one of them.
    pub fn start(
        service: Arc<Service>,
        endpoints: &[Endpoint],
        options: Options,
    ) -> Result<Self, EndpointError> {
        let mut listeners = Vec::new();
        for endpoint in endpoints {
            listeners.push(Listener::bind(endpoint, options.remote)?);
        }
        let endpoints = listeners.iter().map(|listener| listener.endpoint().clone()).collect();
        let (clients, client_removed, stopping) = (Mutex::default(), Condvar::new(), AtomicBool::new(false));
        let inner = Arc::new(Inner { service, options, clients, client_removed, stopping });
        let mut server = Self { inner: inner.clone(), endpoints, listening: Vec::new() };
        for listener in listeners {
            let (inner, name) = (inner.clone(), listener.endpoint().to_string());
            let thread = std::thread::Builder::new().name("nbd-listen".to_owned());
            let handle = thread.spawn(move || inner.listen(&listener));
            server.listening.push(handle.map_err(|error| EndpointError::System(name, error))?);
        }
        Ok(server)
    }

    /// The endpoints that it listens on.
    pub fn endpoints(&self) -> &[Endpoint] {
        &self.endpoints
    }

    /// Accepts no more clients, and completes the requests of those that are connected. Idempotent.
    pub fn stop(&mut self) {
        self.inner.stopping.store(true, Ordering::Release);
        self.inner.service.shared.set_phase(Phase::Draining);
        for thread in self.listening.drain(..) {
            // A listener that panicked has stopped, too.
            let _ = thread.join();
        }
        self.inner.shutdown(Shutdown::Read);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.service.shared.set_phase(Phase::Refusing);
        self.inner.wait_for_clients(self.inner.options.grace);
        self.inner.clients().by_number.values().for_each(Client::disconnect);
        self.inner.wait_for_clients(Duration::MAX);
    }
}

impl Drop for NbdServer {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Clients {
    /// Drops the oldest handshake if there are too many.
    fn evict_handshake(&self) {
        let handshakes = || self.by_number.iter().filter(|(_, client)| client.is_in_handshake());
        if handshakes().count() >= MAX_HANDSHAKES
            && let Some((_, oldest)) = handshakes().min_by_key(|(number, _)| **number)
        {
            oldest.disconnect();
        }
    }

    /// Drops a dispensable client if there are too many; returns whether there is space for one more.
    fn evict_for_transmission(&self, max_clients: usize, stall_timeout: Duration) -> bool {
        let clients = || self.by_number.values().filter(|client| client.in_transmission());
        if clients().count() < max_clients {
            return true;
        }
        let ranked =
            clients().filter_map(|client| Some((client.connection.eviction_rank(stall_timeout)?, client)));
        match ranked.min_by_key(|(rank, _)| *rank) {
            Some((_, client)) => {
                client.disconnect();
                true
            }
            None => false,
        }
    }
}

/// The export, as one client sees it during the handshake.
struct ClientExport<'a> {
    inner: &'a Inner,
    number: u64,
}

impl Export for ClientExport<'_> {
    fn shape(&self) -> &Shape {
        self.inner.service.backend.shape()
    }

    fn description(&self) -> String {
        self.inner.service.description()
    }

    fn tls(&self) -> &TlsPolicy {
        &self.inner.options.tls
    }

    fn admit(&self) -> bool {
        self.inner.admit(self.number)
    }
}

impl Inner {
    // No statement leaves the list inconsistent.
    fn clients(&self) -> MutexGuard<'_, Clients> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, text: String) {
        if self.options.log {
            diagnostics::log(text);
        }
    }

    fn shutdown(&self, how: Shutdown) {
        self.clients().by_number.values().for_each(|client| client.socket.shutdown(how));
    }

    fn wait_for_clients(&self, timeout: Duration) {
        let connected = |clients: &mut Clients| !clients.by_number.is_empty();
        drop(self.client_removed.wait_timeout_while(self.clients(), timeout, connected));
    }

    /// Accepts clients until shutdown.
    fn listen(self: &Arc<Self>, listener: &Listener) {
        let pause = Timespec { tv_sec: 0, tv_nsec: POLL_INTERVAL_NS };
        while !self.stopping.load(Ordering::Acquire) {
            let fd = listener.as_fd();
            let mut waits = [PollFd::new(&fd, PollFlags::IN)];
            // On a timeout or signal it checks as well.
            let _ = poll(&mut waits, Some(&pause));
            self.drop_stalled();
            match listener.accept() {
                Ok(Some(socket)) => {
                    if let Err(error) = self.accept(socket) {
                        self.log(format!("cannot serve a client: {error}"));
                    }
                }
                Ok(None) => {}
                Err(error) => {
                    self.log(format!("{}: {error}", listener.endpoint()));
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
        }
    }

    /// Drops clients whose handshake has timed out and, when memory is short, clients that have stalled.
    fn drop_stalled(&self) {
        let now = Instant::now();
        let short = self.service.shared.budget.has_waiters();
        for client in self.clients().by_number.values() {
            let timed_out = client.handshake_deadline.is_some_and(|deadline| deadline < now);
            if timed_out || (short && client.connection.has_stalled(self.options.stall_timeout)) {
                client.disconnect();
            }
        }
    }

    fn accept(self: &Arc<Self>, socket: Socket) -> io::Result<()> {
        let channel = channel_of(&socket)?;
        let mut clients = self.clients();
        clients.evict_handshake();
        let number = clients.next;
        clients.next += 1;
        let handshake_deadline = Some(Instant::now() + self.options.handshake_timeout);
        let connection = Arc::new(Connection::new(self.service.shared.clone()));
        clients.by_number.insert(number, Client { socket, handshake_deadline, connection });
        self.service.connected();
        drop(clients);
        let guard = ClientGuard { inner: self.clone(), number };
        let thread = std::thread::Builder::new().name("nbd-client".to_owned());
        thread.spawn(move || guard.inner.serve(guard.number, channel)).map(|_| ())
    }

    /// Admits a client to the transmission phase, waiting shortly for space if there is none.
    fn admit(&self, number: u64) -> bool {
        let Options { max_connections, stall_timeout, .. } = self.options;
        let deadline = Instant::now() + stall_timeout + Duration::from_nanos(POLL_INTERVAL_NS as u64);
        loop {
            let mut clients = self.clients();
            if clients.evict_for_transmission(max_connections, stall_timeout) {
                if let Some(client) = clients.by_number.get_mut(&number) {
                    client.handshake_deadline = None;
                }
                return true;
            }
            if Instant::now() >= deadline || self.stopping.load(Ordering::Acquire) {
                return false;
            }
            // A client that disconnects makes space.
            drop(self.client_removed.wait_timeout(clients, Duration::from_millis(50)));
        }
    }

    fn serve(&self, number: u64, channel: Arc<dyn Channel>) {
        self.log(format!("client {number}: connected"));
        let outcome = match self.run_session(number, channel) {
            Ok(()) => "disconnected".to_owned(),
            Err(error) => format!("dropped: {error}"),
        };
        self.log(format!("client {number}: {outcome}"));
    }

    fn run_session(&self, number: u64, channel: Arc<dyn Channel>) -> io::Result<()> {
        let Some(negotiated) = negotiate(channel, &ClientExport { inner: self, number })? else {
            return Ok(());
        };
        let connection = self.clients().by_number.get(&number).map(|client| client.connection.clone());
        let Service { backend, counters, .. } = &*self.service;
        connection.map_or(Ok(()), |connection| transmit(negotiated, backend.as_ref(), counters, connection))
    }
}

/// Removes a client from the list when its thread ends, also by a panic.
struct ClientGuard {
    inner: Arc<Inner>,
    number: u64,
}

impl Drop for ClientGuard {
    fn drop(&mut self) {
        self.inner.clients().by_number.remove(&self.number);
        self.inner.service.disconnected();
        self.inner.client_removed.notify_all();
    }
}

/// A duplicate of a socket, as a channel.
fn channel_of(socket: &Socket) -> io::Result<Arc<dyn Channel>> {
    Ok(match socket {
        Socket::Unix(stream) => Arc::new(stream.try_clone()?),
        Socket::Tcp(stream) => Arc::new(stream.try_clone()?),
    })
}

/// The NBD URI of an endpoint, with an absolute path (NBD URI specification).
pub fn uri_of(endpoint: &Endpoint, tls: bool) -> String {
    let scheme = if tls { "nbds" } else { "nbd" };
    match endpoint {
        Endpoint::Unix(path) => {
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            format!("{scheme}+unix:///?socket={}", path.display())
        }
        Endpoint::Tcp(address) => format!("{scheme}://{address}/"),
    }
}
