//! What a front door knows of a connection that asks for commands, and what all of them share.
//!
//! Invariants: numbers that the server looks at from another thread are hints: each is right at some time lately.
//! A connection that is gone is gone for good; what was asked over it is not begun any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use super::memory_budget::Budget;

/// Bytes that all connections together may hold beyond what each has of its own. With 256 connections, each with full
/// buffers of its own (384 KiB), this keeps a server below 256 MiB.
pub const BUDGET_BYTES: usize = 64 << 20;
/// Commands of all connections together that are with a backend that takes its time, once there are several: four times
/// what a disk's queue takes, so that none is idle and none is ahead of the others by much.
const TOGETHER: usize = 128;
/// The same of a connection that is the only one: the depth of queue that a benchmark asks for at most.
const ALONE: usize = 256;

/// How far a server is with its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum Phase {
    /// It serves.
    Serves,
    /// What came is done, but for what takes long.
    Finishes,
    /// What is not done is answered by ESHUTDOWN.
    Refuses,
}

/// What all connections of a server share.
#[derive(Debug)]
pub struct Shared {
    /// Memory.
    pub budget: Budget,
    phase: AtomicU8,
    /// Connections with commands in a backend that takes its time.
    busy: AtomicUsize,
    /// Commands in such a backend.
    commands: AtomicUsize,
    began: Instant,
}

impl Default for Shared {
    fn default() -> Self {
        Self {
            budget: Budget::new(BUDGET_BYTES),
            phase: AtomicU8::new(Phase::Serves as u8),
            busy: AtomicUsize::new(0),
            commands: AtomicUsize::new(0),
            began: Instant::now(),
        }
    }
}

impl Shared {
    /// The end goes on.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Release);
    }

    /// Whether the end is so far.
    pub fn has_reached(&self, phase: Phase) -> bool {
        self.phase.load(Ordering::Acquire) >= phase as u8
    }

    /// Whether a connection that has `own` commands in a backend that takes its time may have one more. Commands of
    /// connections that are gone count: they are still with the backend.
    pub fn may_submit(&self, own: usize) -> bool {
        let (all, busy) = (self.commands.load(Ordering::Relaxed), self.busy.load(Ordering::Relaxed));
        own == 0 || (all <= own && own < ALONE) || (all < TOGETHER && own < TOGETHER / busy.max(1))
    }

    /// A command is with such a backend.
    pub fn begin_command(&self) {
        self.commands.fetch_add(1, Ordering::Relaxed);
    }

    /// Such a backend has answered one.
    pub fn end_command(&self) {
        self.commands.fetch_sub(1, Ordering::Relaxed);
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// Nothing is owed.
const NEVER: u64 = u64::MAX;

/// See the module page.
#[derive(Debug)]
pub struct Connection {
    /// Of the server.
    pub shared: Arc<Shared>,
    gone: Arc<AtomicBool>,
    /// When it asked last, or came.
    active_ms: AtomicU64,
    /// Whether it ever asked for anything.
    asked: AtomicBool,
    /// Whether requests that came are being done.
    busy: AtomicBool,
    /// Whether commands of it are with a backend that takes its time.
    waits: AtomicBool,
    /// Since when it is waited for, in the middle of a request or of a reply.
    owes_since_ms: AtomicU64,
}

impl Connection {
    /// One that has just come.
    pub fn new(shared: Arc<Shared>) -> Self {
        let active_ms = AtomicU64::new(shared.now_ms());
        Self {
            shared,
            gone: Arc::default(),
            active_ms,
            asked: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            waits: AtomicBool::new(false),
            owes_since_ms: AtomicU64::new(NEVER),
        }
    }

    /// Whether it is gone, for those who do what it asked.
    pub fn gone(&self) -> Arc<AtomicBool> {
        self.gone.clone()
    }

    /// Whether it is gone.
    pub fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }

    /// It is gone.
    pub fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    /// Requests came, or all that came were done.
    pub fn is_asking(&self, asking: bool) {
        self.busy.store(asking, Ordering::Relaxed);
        if asking {
            self.asked.store(true, Ordering::Relaxed);
        } else {
            self.active_ms.store(self.shared.now_ms(), Ordering::Relaxed);
        }
    }

    /// Commands of it are with a backend that takes its time, or none any more: said in turns.
    pub fn waits(&self, waits: bool) {
        self.waits.store(waits, Ordering::Relaxed);
        if waits {
            self.shared.busy.fetch_add(1, Ordering::Relaxed);
        } else {
            self.shared.busy.fetch_sub(1, Ordering::Relaxed);
            self.active_ms.store(self.shared.now_ms(), Ordering::Relaxed);
        }
    }

    /// It is waited for in the middle of a request or a reply, or no more.
    pub fn owes(&self, owes: bool) {
        let since = if owes { self.shared.now_ms() } else { NEVER };
        self.owes_since_ms.store(since, Ordering::Relaxed);
    }

    /// Whether it is waited for so long.
    pub fn has_owed(&self, time: Duration) -> bool {
        let since = self.owes_since_ms.load(Ordering::Relaxed);
        since != NEVER && u128::from(self.shared.now_ms().saturating_sub(since)) >= time.as_millis()
    }

    /// How well it can be done without, least first; none while something is being done for it. One that never asked for
    /// anything, then one that has owed the rest of a request or does not read its replies for so long, then the one
    /// that is idle longest.
    pub fn idle_rank(&self, debt: Duration) -> Option<(u8, u64)> {
        let active_ms = self.active_ms.load(Ordering::Relaxed);
        if self.has_owed(debt) {
            return Some((1, active_ms));
        }
        let idle = !self.busy.load(Ordering::Relaxed) && !self.waits.load(Ordering::Relaxed);
        idle.then(|| (if self.asked.load(Ordering::Relaxed) { 2 } else { 0 }, active_ms))
    }
}
