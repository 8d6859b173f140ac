//! The state of one client connection, and what all connections of a server share.
//!
//! Invariants: the flags and times that other threads read are hints and may be slightly out of date. A
//! disconnected connection stays disconnected; commands that it sent and that have not started are dropped.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::memory_budget::MemoryBudget;

/// Memory that all connections share beyond the buffers that each has of its own, bytes. With 256
/// connections, each with full buffers of its own (384 KiB), this keeps a server below 256 MiB.
pub const BUDGET_BYTES: usize = 64 << 20;
/// Commands outstanding in an asynchronous backend for all connections together when several are busy: four
/// times the queue depth of a disk, so that no connection runs dry and none is far ahead of the others.
const SHARED_DEPTH: usize = 128;
/// The same for a connection that is the only busy one: the deepest queue that benchmarks usually ask for.
const SOLE_DEPTH: usize = 256;

/// How far a server has shut down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// Normal operation.
    Serving,
    /// Received requests are completed, except those that take long.
    Draining,
    /// Requests that have not completed are answered with `ESHUTDOWN`.
    Refusing,
}

/// What all connections of a server share.
#[derive(Debug)]
pub struct ServerState {
    /// Memory for requests and replies beyond what each connection has of its own.
    pub budget: MemoryBudget,
    phase: AtomicU8,
    /// Connections with commands outstanding in an asynchronous backend.
    busy_connections: AtomicUsize,
    /// Commands outstanding in such a backend.
    outstanding: AtomicUsize,
    began: Instant,
}

impl Default for ServerState {
    fn default() -> Self {
        Self {
            budget: MemoryBudget::new(BUDGET_BYTES),
            phase: AtomicU8::new(Phase::Serving as u8),
            busy_connections: AtomicUsize::new(0),
            outstanding: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }
}

impl ServerState {
    /// Sets the shutdown phase.
    pub fn set_phase(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether shutdown has reached a phase.
    pub fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) >= phase as u8
    }

    /// Whether a connection with `own` commands outstanding may start another one. Commands of disconnected
    /// connections count, because the backend still holds them.
    pub fn may_start(&self, own: usize) -> bool {
        let all = self.outstanding.load(Ordering::Relaxed);
        let busy = self.busy_connections.load(Ordering::Relaxed);
        own == 0
            || (all <= own && own < SOLE_DEPTH)
            || (all < SHARED_DEPTH && own < SHARED_DEPTH / busy.max(1))
    }

    /// Counts a command that an asynchronous backend has received.
    pub fn command_started(&self) {
        self.outstanding.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a command that an asynchronous backend has completed.
    pub fn command_finished(&self) {
        self.outstanding.fetch_sub(1, Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// The server is not waiting on the client.
const NEVER: u64 = u64::MAX;

/// See the module page.
#[derive(Debug)]
pub struct Connection {
    /// The state that it shares with the other connections.
    pub shared: Arc<ServerState>,
    disconnected: Arc<AtomicBool>,
    /// When the last request completed, or when the client connected.
    active_ms: AtomicU64,
    /// Whether it has sent a request.
    has_requested: AtomicBool,
    /// Whether received requests are being executed.
    busy: AtomicBool,
    /// Whether it has commands outstanding in an asynchronous backend.
    has_outstanding: AtomicBool,
    /// Since when the server has been waiting for the rest of a request, or for what the receiving thread sends to be read.
    waiting_since_ms: AtomicU64,
    /// Since when another thread has been waiting for a reply to be read.
    sending_since_ms: AtomicU64,
}

impl Connection {
    /// A client that has just connected.
    pub fn new(shared: Arc<ServerState>) -> Self {
        let active_ms = AtomicU64::new(shared.now_ms());
        Self {
            shared,
            disconnected: Arc::default(),
            active_ms,
            has_requested: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            has_outstanding: AtomicBool::new(false),
            waiting_since_ms: AtomicU64::new(NEVER),
            sending_since_ms: AtomicU64::new(NEVER),
        }
    }

    /// The flag that cancels its outstanding commands once it has disconnected.
    pub fn cancellation(&self) -> Arc<AtomicBool> {
        self.disconnected.clone()
    }

    /// Whether it has disconnected.
    pub fn is_disconnected(&self) -> bool {
        self.disconnected.load(Ordering::Relaxed)
    }

    /// Marks it as disconnected.
    pub fn disconnect(&self) {
        self.disconnected.store(true, Ordering::Relaxed);
    }

    /// Records whether received requests are being executed.
    pub fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Relaxed);
        if busy {
            self.has_requested.store(true, Ordering::Relaxed);
        } else {
            self.active_ms.store(self.shared.now_ms(), Ordering::Relaxed);
        }
    }

    /// Records whether commands are outstanding in an asynchronous backend; calls alternate between true and
    /// false.
    pub fn set_outstanding(&self, outstanding: bool) {
        self.has_outstanding.store(outstanding, Ordering::Relaxed);
        if outstanding {
            self.shared.busy_connections.fetch_add(1, Ordering::Relaxed);
        } else {
            self.shared.busy_connections.fetch_sub(1, Ordering::Relaxed);
            self.active_ms.store(self.shared.now_ms(), Ordering::Relaxed);
        }
    }

    /// Records whether the receiving thread is waiting for the client in the middle of a request or reply.
    pub fn set_waiting_on_client(&self, waiting: bool) {
        self.record_wait(&self.waiting_since_ms, waiting);
    }

    /// Records whether another thread is sending a reply.
    pub fn set_sending(&self, sending: bool) {
        self.record_wait(&self.sending_since_ms, sending);
    }

    fn record_wait(&self, since_ms: &AtomicU64, waits: bool) {
        since_ms.store(if waits { self.shared.now_ms() } else { NEVER }, Ordering::Relaxed);
    }

    /// Whether the server has been waiting for the client for at least this long.
    pub fn has_stalled(&self, time: Duration) -> bool {
        let waits =
            [&self.waiting_since_ms, &self.sending_since_ms].map(|since| since.load(Ordering::Relaxed));
        let since = waits[0].min(waits[1]);
        since != NEVER && u128::from(self.shared.now_ms().saturating_sub(since)) >= time.as_millis()
    }

    /// Rank for eviction, lowest first; `None` while the server is working for the client. Clients that have
    /// never sent a request rank first, then those that have stalled for `stall_timeout`, then the one that
    /// has been idle longest.
    pub fn eviction_rank(&self, stall_timeout: Duration) -> Option<(u8, u64)> {
        let active_ms = self.active_ms.load(Ordering::Relaxed);
        if self.has_stalled(stall_timeout) {
            return Some((1, active_ms));
        }
        let idle = !self.busy.load(Ordering::Relaxed) && !self.has_outstanding.load(Ordering::Relaxed);
        idle.then(|| (if self.has_requested.load(Ordering::Relaxed) { 2 } else { 0 }, active_ms))
    }
}
