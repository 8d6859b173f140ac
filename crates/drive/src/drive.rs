//! A drive in virtual time: the clock's interpretation of a layer's plans.
//!
//! The host keeps a number of commands outstanding; the drive sees those that have arrived, up to its queue
//! depth, lets the layer take some, and gives every step of the plan its duration. Command overhead runs
//! beside the media where commands queue, and delays them where they come one by one: that is why a
//! synchronous write to the next block of a log waits a whole turn (Skylight, section 4.3).
//!
//! Invariants: time never goes back; a command completes after it was submitted; the same commands from the
//! same start give the same times to the nanosecond, in one batch or in several.

use skylight_disk::{Direction, Disk, Head, LbaExtent, Nanos, Pba, Sectors, Time};
use skylight_layer::{CacheUse, Command, CommandId, HostOp, Idle, Layer, Medium, Plan, Purpose, Queue, Step};

use crate::batch::{Batch, BatchError};
use crate::jitter::Jitter;
use crate::ledger::Ledger;
use crate::profile::Schedule;
use crate::trace::HeadTrace;

/// How many commands ahead the layer is told of: enough for memory to answer meanwhile.
const HINT_COMMANDS: usize = 6;

/// The drive as the host meets it.
#[derive(Clone, Copy, Debug)]
pub struct HostInterface {
    /// Most commands the drive holds.
    pub queue_depth: usize,
    /// In which order it serves them.
    pub schedule: Schedule,
    /// From the arrival of a command until the heads may move for it.
    pub command_overhead: Nanos,
    /// From a completion until the host submits the next command.
    pub host_gap: Nanos,
}

/// How fast flash is.
#[derive(Clone, Copy, Debug)]
pub struct FlashSpeed {
    /// Before the first byte of a read and of a write.
    latency: [Nanos; 2],
    /// Nanoseconds a sector in 32.32 fixed point.
    sector_fixed: u64,
}

impl FlashSpeed {
    /// Latencies, and bytes a second.
    pub fn new(read: Nanos, write: Nanos, bandwidth: u64) -> Self {
        let sector_fixed = ((512u128 * 1_000_000_000) << 32) / u128::from(bandwidth.max(1));
        Self { latency: [read, write], sector_fixed: sector_fixed as u64 }
    }

    fn time(self, way: Direction, sectors: Sectors) -> Nanos {
        let transfer = (u128::from(self.sector_fixed) * u128::from(sectors.get())) >> 32;
        self.latency[way as usize] + Nanos(transfer as u64)
    }
}

/// See the module page.
pub struct Drive {
    disk: Disk,
    flash: Option<FlashSpeed>,
    layer: Box<dyn Layer>,
    interface: HostInterface,
    jitter: Option<Jitter>,
    /// Until when the drive is busy.
    now: Time,
    head: Head,
    /// Outstanding commands, oldest first, and beside them when each was submitted.
    waiting: Vec<Command>,
    submitted: Vec<Time>,
    plan: Plan,
    ledger: Ledger,
    trace: Option<HeadTrace>,
}

/// Where the completions of a batch go.
struct Completions<'a> {
    complete_ns: &'a mut [u64],
    /// When the slots that completed become free, in order.
    freed: &'a mut Vec<Time>,
}

impl Drive {
    pub(crate) fn assemble(
        disk: Disk,
        flash: Option<FlashSpeed>,
        layer: Box<dyn Layer>,
        interface: HostInterface,
        jitter: Option<Jitter>,
    ) -> Self {
        // Heads are parked at the inner diameter (Skylight, figure 3).
        let head = Head { surface: 0, track: disk.geometry().tracks() - 1 };
        Self {
            disk,
            flash,
            layer,
            interface,
            jitter,
            now: Time(0),
            head,
            waiting: Vec::new(),
            submitted: Vec::new(),
            plan: Plan::default(),
            ledger: Ledger::default(),
            trace: None,
        }
    }

    /// Sectors that the host sees.
    pub fn capacity(&self) -> Sectors {
        self.layer.capacity()
    }

    /// Virtual time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Counters since the start.
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// How full the persistent cache is.
    pub fn cache_use(&self) -> CacheUse {
        self.layer.cache_use()
    }

    /// The platters and the arm.
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// The translation layer, for the oracle and for pictures.
    pub fn layer(&self) -> &dyn Layer {
        self.layer.as_ref()
    }

    /// Keeps the next accesses of the platters, up to `rows`.
    pub fn start_trace(&mut self, rows: usize) {
        self.trace = Some(HeadTrace::new(rows));
    }

    /// Ends the trace and hands it out.
    pub fn take_trace(&mut self) -> Option<HeadTrace> {
        self.trace.take()
    }

    /// Secure erase: what was written is forgotten. It takes no time and moves no head.
    pub fn erase(&mut self) {
        self.layer.erase();
    }

    /// Leaves the drive alone for a time, in which the layer may work.
    pub fn pause(&mut self, duration: Nanos) {
        let until = self.now + duration;
        while self.now < until {
            self.plan.clear();
            if self.layer.idle(&mut self.plan) == Idle::Nothing {
                break;
            }
            self.now = self.execute(self.now, None);
        }
        self.now = self.now.max(until);
    }

    /// Runs a batch with `depth` commands outstanding. `submit_ns` and `complete_ns` are as long as the batch
    /// and take the times of each command; the host submits the next one when one completes.
    ///
    /// # Errors
    /// When a command is not of this drive; then nothing was done.
    pub fn run(
        &mut self,
        batch: &Batch<'_>,
        depth: usize,
        submit_ns: &mut [u64],
        complete_ns: &mut [u64],
    ) -> Result<(), BatchError> {
        batch.check(self.capacity(), depth, submit_ns.len(), complete_ns.len())?;
        let mut freed: Vec<Time> = Vec::with_capacity(depth.min(batch.len()));
        freed.resize(depth.min(batch.len()), self.now);
        self.waiting.reserve(depth);
        self.submitted.reserve(depth);
        let mut next = 0;
        loop {
            let submitting = freed.len().min(batch.len() - next);
            for &at in &freed[..submitting] {
                self.submit(batch, next, at);
                submit_ns[next] = at.get();
                next += 1;
            }
            freed.clear();
            let Some(&oldest) = self.submitted.first() else {
                return Ok(());
            };
            self.now = self.now.max(oldest);
            self.serve(&mut Completions { complete_ns, freed: &mut freed });
        }
    }

    #[inline]
    fn submit(&mut self, batch: &Batch<'_>, index: usize, at: Time) {
        if let Some(ahead) = batch.extent(index + HINT_COMMANDS) {
            self.layer.hint(ahead.start);
        }
        self.waiting.push(batch.command(index));
        self.submitted.push(at);
    }

    /// Lets the layer take from the commands that have arrived, and executes its plan.
    #[inline]
    fn serve(&mut self, completions: &mut Completions<'_>) {
        let window = self.waiting.len().min(self.interface.queue_depth);
        let arrived = match window {
            1 => 1,
            _ => self.submitted[..window].partition_point(|&at| at <= self.now).max(1),
        };
        let next = self.choose(arrived);
        let ready = self.submitted[next] + self.interface.command_overhead;
        self.plan.clear();
        self.layer.take(Queue { waiting: &self.waiting[..arrived], next }, &mut self.plan);
        let start = self.now.max(ready);
        self.now = self.execute(start, Some(completions));
    }

    /// The command to serve next, by the drive's schedule.
    #[inline]
    fn choose(&self, arrived: usize) -> usize {
        if arrived == 1 || self.interface.schedule == Schedule::Fifo {
            return 0;
        }
        let cost = |index: usize| {
            let ready = self.now.max(self.submitted[index] + self.interface.command_overhead);
            (ready - self.now) + self.positioning(&self.waiting[index], ready)
        };
        (0..arrived).min_by_key(|&index| cost(index)).unwrap_or(0)
    }

    /// Time until the medium could begin a command.
    fn positioning(&self, command: &Command, at: Time) -> Nanos {
        let write = match command.op {
            HostOp::Read => false,
            HostOp::Write => true,
            HostOp::Flush => return Nanos(0),
        };
        let way = if write { Direction::Write } else { Direction::Read };
        match self.layer.locate_first(command.extent, write) {
            (Medium::Platter, pba) => self.disk.positioning(self.head, at, pba, way),
            (Medium::Flash, _) => Nanos(0),
        }
    }

    /// Gives the plan's steps their durations from `start` on; returns the end.
    fn execute(&mut self, start: Time, mut completions: Option<&mut Completions<'_>>) -> Time {
        let plan = std::mem::take(&mut self.plan);
        let mut at = start;
        for &step in plan.steps() {
            match step {
                Step::Access { medium: Medium::Platter, direction, extent, purpose } => {
                    let timing = self.disk.access(self.head, at, extent, direction);
                    if let Some(trace) = &mut self.trace {
                        let place = self.disk.geometry().place(extent.start);
                        let arrival = Head { surface: place.surface, track: place.track };
                        trace.record(at, arrival, &timing, purpose);
                    }
                    self.ledger.access(purpose, direction, Medium::Platter, extent.len, timing.end - at);
                    self.head = timing.head;
                    at = timing.end;
                }
                Step::Access { medium: Medium::Flash, direction, extent, purpose } => {
                    let spent = self.flash_time(direction, extent.len);
                    self.ledger.access(purpose, direction, Medium::Flash, extent.len, spent);
                    at += spent;
                }
                Step::Commit(_) => {}
                Step::Complete(id) => {
                    if let Some(completions) = completions.as_deref_mut() {
                        at = self.complete(id, start, at, completions);
                    }
                }
            }
        }
        self.plan = plan;
        at
    }

    fn flash_time(&self, way: Direction, sectors: Sectors) -> Nanos {
        self.flash.map_or(Nanos(0), |flash| flash.time(way, sectors))
    }

    /// Answers the host; returns when the drive is free again.
    #[inline]
    fn complete(&mut self, id: CommandId, start: Time, at: Time, completions: &mut Completions<'_>) -> Time {
        let extra = self.jitter.as_mut().map_or(Nanos(0), |jitter| jitter.extra(at - start));
        let done = at + extra;
        completions.complete_ns[id.0 as usize] = done.get();
        completions.freed.push(done + self.interface.host_gap);
        let index = match self.waiting.as_slice() {
            [_] => 0,
            several => several.iter().position(|command| command.id == id).unwrap_or(0),
        };
        let command = self.waiting.remove(index);
        self.submitted.remove(index);
        self.ledger.complete(command.op, command.extent.len);
        done
    }
}

/// What a plan's access is counted as, for readers of the trace.
pub fn purpose_names() -> [&'static str; Purpose::ALL.len()] {
    Purpose::ALL.map(Purpose::name)
}

/// The extent of a command in bytes of the host, checked by the batch.
pub(crate) fn extent_of(offset: u64, size: u32) -> LbaExtent {
    let start = skylight_disk::Lba(offset / skylight_disk::SECTOR_BYTES);
    LbaExtent::new(start, Sectors(u64::from(size) / skylight_disk::SECTOR_BYTES))
}

/// Where a host sector lies natively on an empty drive: for pictures.
pub fn native_place(drive: &Drive, lba: skylight_disk::Lba) -> Option<Pba> {
    let mut pieces = Vec::new();
    drive.layer.locate(LbaExtent::new(lba, Sectors(1)), &mut pieces);
    pieces.first().filter(|piece| !piece.cached).map(|piece| piece.extent.start)
}
