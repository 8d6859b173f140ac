//! Timed I/O with io_uring: runs a batch at a queue depth and records the submit and completion time of every
//! I/O.
//!
//! Invariants: the loop does not allocate; a buffer slot belongs to one I/O from submission to completion;
//! `interrupted` is called at least every [`POLL_NS`] plus its own duration, also while an I/O hangs; after
//! an interrupt, I/O in flight has [`DRAIN_NS`] to complete, and buffers that the kernel may still use after
//! that are never freed.
//!
//! Source: `io_uring_enter(2)` (`IORING_ENTER_EXT_ARG`, Linux 5.11).

use std::io;
use std::os::fd::RawFd;

use io_uring::types::{Fd, FsyncFlags, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue};
use serde::Serialize;
use skylight_command::Op;
use skylight_command::code::Code;

use crate::arena::Arena;
use crate::columns::{Columns, Needs};
use crate::error::{Failure, Reason};

/// Longest time between two checks for an interrupt, ns.
pub const POLL_NS: u64 = 20_000_000;
/// Time that I/O in flight has to complete after an interrupt, ns.
const DRAIN_NS: u64 = 1_000_000_000;

/// What was submitted since the target was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes of these writes.
    pub write_bytes: u64,
    /// Flushes.
    pub flushes: u64,
}

/// The clock of the log, `CLOCK_MONOTONIC` ns.
#[inline]
pub fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// When each I/O of a batch was submitted and completed, `CLOCK_MONOTONIC` ns; row by row as the
/// batch. A row that did not complete has 0 in both.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Log {
    /// Just before the system call that submitted the I/O; the same for all I/O of that call.
    pub submit_ns: Vec<u64>,
    /// Just after its completion was seen.
    pub complete_ns: Vec<u64>,
    /// Rows that a device refused or that are appends, and the result of each as
    /// [`skylight_command::code::result`] has it.
    pub results: Vec<(usize, u64)>,
}

impl Log {
    /// The log of so many rows of which none has completed.
    pub fn pending(rows: usize) -> Self {
        Self { submit_ns: vec![0; rows], complete_ns: vec![0; rows], results: vec![] }
    }

    /// The log of one command.
    pub(crate) fn one(submit_ns: u64, complete_ns: u64, result: u64) -> Self {
        let results = if result == 0 { vec![] } else { vec![(0, result)] };
        Self { submit_ns: vec![submit_ns], complete_ns: vec![complete_ns], results }
    }

    /// Adds the rows of another log behind its own.
    pub(crate) fn extend(&mut self, other: Self) {
        let first = self.submit_ns.len();
        self.submit_ns.extend(other.submit_ns);
        self.complete_ns.extend(other.complete_ns);
        self.results.extend(other.results.into_iter().map(|(row, result)| (first + row, result)));
    }
}

/// How a batch ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every row completed.
    Complete,
    /// The caller asked to stop.
    Interrupted,
    /// An I/O failed; nothing was submitted after that was seen.
    Failed(Failure),
}

/// A batch to run.
pub struct Batch<'a> {
    /// The open target.
    pub fd: RawFd,
    /// Its name, for messages.
    pub path: &'a str,
    /// What is to be done: reads, writes and flushes.
    pub rows: Columns<'a>,
    /// Counters since the target was opened.
    pub counters: &'a mut Counters,
    /// The current size of the target if it has shrunk, bytes.
    pub shrunk: &'a dyn Fn() -> Option<u64>,
    /// The logical block of a block device, bytes; `None` of a file.
    pub block_bytes: Option<u32>,
}

/// An io_uring and its buffers.
pub struct Engine {
    ring: IoUring,
    reads: Arena,
    writes: Arena,
    /// Whether the arenas are registered with the ring, which saves pinning pages at every I/O.
    fixed: bool,
    /// Slots without an I/O in flight.
    free: Vec<usize>,
    /// The row in flight in each slot.
    row_of: Vec<usize>,
}

/// The state of one run.
struct Progress {
    log: Log,
    next: usize,
    in_flight: usize,
    end: Option<End>,
    deadline_ns: Option<u64>,
    polled_ns: u64,
}

const READ_BUFFERS: u16 = 0;
const WRITE_BUFFERS: u16 = 1;

impl Engine {
    /// Creates a ring and buffers for batches with these needs.
    pub fn new(needs: &Needs) -> io::Result<Self> {
        let slots = needs.slots.max(1);
        let entries = slots.next_power_of_two() as u32;
        let ring =
            IoUring::builder().setup_coop_taskrun().build(entries).or_else(|_| IoUring::new(entries))?;
        if !ring.params().is_feature_ext_arg() {
            return Err(io::Error::new(io::ErrorKind::Unsupported, "the kernel is older than 5.11"));
        }
        let reads = Arena::new(slots, needs.read_bytes as usize)?;
        let mut writes = Arena::new(slots, needs.write_bytes as usize)?;
        writes.fill();
        let mut engine = Self {
            ring,
            reads,
            writes,
            fixed: false,
            free: Vec::with_capacity(slots),
            row_of: vec![0; slots],
        };
        engine.fixed = engine.register();
        Ok(engine)
    }

    /// Registers the buffers with the ring. Failure (the memory lock limit) only loses the optimisation.
    fn register(&self) -> bool {
        let vector = |arena: &Arena| libc::iovec {
            iov_base: if arena.total_bytes() == 0 { std::ptr::null_mut() } else { arena.slot(0).cast() },
            iov_len: arena.total_bytes(),
        };
        let vectors = [vector(&self.reads), vector(&self.writes)];
        // SAFETY: both vectors name mappings that live as long as the ring: they are dropped with it,
        // or leaked with it.
        unsafe { self.ring.submitter().register_buffers(&vectors) }.is_ok()
    }

    /// The needs that this engine covers.
    pub fn needs(&self) -> Needs {
        Needs {
            slots: self.row_of.len(),
            read_bytes: self.reads.slot_bytes() as u32,
            write_bytes: self.writes.slot_bytes() as u32,
        }
    }

    /// Whether this engine covers these needs.
    pub fn fits(&self, needs: &Needs) -> bool {
        needs.slots <= self.row_of.len()
            && needs.read_bytes as usize <= self.reads.slot_bytes()
            && needs.write_bytes as usize <= self.writes.slot_bytes()
    }

    /// Runs a batch. The last value is false when I/O is still in flight: then this engine must be
    /// leaked, not dropped or used again.
    pub fn run(
        &mut self,
        batch: &mut Batch<'_>,
        depth: usize,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> (Log, End, bool) {
        let rows = batch.rows.len();
        self.free.clear();
        self.free.extend((0..depth.min(self.row_of.len())).rev());
        let mut progress = Progress {
            log: Log::pending(rows),
            next: 0,
            in_flight: 0,
            end: None,
            deadline_ns: None,
            polled_ns: now_ns(),
        };
        let drained = self.drive(batch, &mut progress, interrupted);
        for row in 0..rows {
            if progress.log.complete_ns[row] == 0 {
                progress.log.submit_ns[row] = 0;
            }
        }
        let end = progress.end.unwrap_or(End::Complete);
        (progress.log, end, drained)
    }

    fn drive(
        &mut self,
        batch: &mut Batch<'_>,
        progress: &mut Progress,
        interrupted: &mut dyn FnMut() -> bool,
    ) -> bool {
        let timeout = Timespec::new().nsec(POLL_NS as u32);
        let wait = SubmitArgs::new().timespec(&timeout);
        loop {
            if progress.end.is_none() {
                let first = progress.next;
                self.fill_queue(batch, progress);
                // Taken once all entries are ready, so that filling one buffer does not add to the latency of
                // another.
                progress.log.submit_ns[first..progress.next].fill(now_ns());
            }
            if progress.in_flight == 0 {
                return true;
            }
            let signalled = match self.ring.submitter().submit_with_args(1, &wait) {
                Ok(_) => false,
                Err(error) => match error.raw_os_error() {
                    Some(libc::ETIME | libc::EBUSY | libc::EAGAIN) => false,
                    Some(libc::EINTR) => true,
                    number => {
                        let reason = Reason::Errno(number.unwrap_or(libc::EIO));
                        progress.fail(batch, progress.next.saturating_sub(1), reason, None);
                        return false;
                    }
                },
            };
            let now = now_ns();
            self.reap(batch, progress, now);
            if signalled || now.saturating_sub(progress.polled_ns) >= POLL_NS {
                progress.poll(batch, now, interrupted);
            }
            if progress.deadline_ns.is_some_and(|deadline| now > deadline) && progress.in_flight > 0 {
                return false;
            }
        }
    }

    fn fill_queue(&mut self, batch: &mut Batch<'_>, progress: &mut Progress) {
        while progress.next < batch.rows.len() {
            let Some(slot) = self.free.pop() else { return };
            let row = progress.next;
            let Some(entry) = self.prepare(batch, row, slot) else {
                self.free.push(slot);
                return progress.fail(batch, row, Reason::Errno(libc::EOPNOTSUPP), None);
            };
            let entry = entry.user_data(slot as u64);
            // SAFETY: the buffer is this slot's, which is not reused before its completion; the ring
            // and the arenas are leaked together when an I/O never completes.
            let pushed = unsafe { self.ring.submission().push(&entry) };
            if pushed.is_err() {
                // The ring has an entry for every slot, so this cannot happen; the row would be retried.
                self.free.push(slot);
                return;
            }
            self.row_of[slot] = row;
            progress.next += 1;
            progress.in_flight += 1;
        }
    }

    /// The entry for a row; `None` if io_uring has no such operation.
    fn prepare(&mut self, batch: &mut Batch<'_>, row: usize, slot: usize) -> Option<squeue::Entry> {
        let fd = Fd(batch.fd);
        let (offset, size) = (batch.rows.offset[row], batch.rows.size[row]);
        let (op, flags) = batch.rows.op[row].operation();
        Some(match op {
            Op::Write => {
                // The kernel sends FUA where the device has it, and a FLUSH behind the write where not.
                let force = if flags.fua { libc::RWF_DSYNC } else { 0 };
                batch.counters.writes += 1;
                batch.counters.write_bytes += u64::from(size);
                self.writes.stamp(slot, offset, size as usize);
                let buffer = self.writes.slot(slot);
                if self.fixed {
                    opcode::WriteFixed::new(fd, buffer, size, WRITE_BUFFERS)
                        .offset(offset)
                        .rw_flags(force)
                        .build()
                } else {
                    opcode::Write::new(fd, buffer, size).offset(offset).rw_flags(force).build()
                }
            }
            Op::Flush => {
                batch.counters.flushes += 1;
                opcode::Fsync::new(fd).flags(FsyncFlags::DATASYNC).build()
            }
            Op::Read => {
                batch.counters.reads += 1;
                let buffer = self.reads.slot(slot);
                if self.fixed {
                    opcode::ReadFixed::new(fd, buffer, size, READ_BUFFERS).offset(offset).build()
                } else {
                    opcode::Read::new(fd, buffer, size).offset(offset).build()
                }
            }
            // `batch_runner.rs` does these; a host asks for none of the others here.
            Op::Append | Op::Zone(_) | Op::Trim | Op::WriteZeroes | Op::Cache => return None,
        })
    }

    fn reap(&mut self, batch: &Batch<'_>, progress: &mut Progress, now: u64) {
        for completion in self.ring.completion() {
            let slot = completion.user_data() as usize;
            let row = self.row_of[slot];
            self.free.push(slot);
            progress.in_flight -= 1;
            match failed(batch, row, completion.result()) {
                Some(reason) => {
                    let took_ns = now.saturating_sub(progress.log.submit_ns[row]);
                    progress.fail(batch, row, reason, Some(took_ns));
                }
                None => progress.log.complete_ns[row] = now,
            }
        }
    }
}

impl Progress {
    /// Records the first failure, which takes precedence over an interrupt.
    fn fail(&mut self, batch: &Batch<'_>, row: usize, reason: Reason, took_ns: Option<u64>) {
        if !matches!(self.end, Some(End::Failed(_))) {
            self.end = Some(End::Failed(Failure { took_ns, ..batch.failure(row, reason) }));
        }
    }

    fn poll(&mut self, batch: &Batch<'_>, now: u64, interrupted: &mut dyn FnMut() -> bool) {
        self.polled_ns = now;
        if self.deadline_ns.is_none() && interrupted() {
            self.end.get_or_insert(End::Interrupted);
            self.deadline_ns = Some(now + DRAIN_NS);
        }
        if self.end.is_none()
            && let Some(size_bytes) = (batch.shrunk)()
        {
            self.fail(batch, self.next.saturating_sub(1), Reason::Shrunk(size_bytes), None);
        }
    }
}

impl Batch<'_> {
    /// The complete failure report of a row, without a time.
    pub fn failure(&self, row: usize, reason: Reason) -> Failure {
        Failure {
            path: self.path.to_owned(),
            op: self.rows.op[row].operation().0,
            offset: self.rows.offset[row],
            size: self.rows.size[row],
            lba: self.block_bytes.map(|block| self.rows.offset[row] / u64::from(block)),
            took_ns: None,
            reason,
        }
    }
}

/// The reason why a completion is a failure, if it is.
fn failed(batch: &Batch<'_>, row: usize, result: i32) -> Option<Reason> {
    let Ok(bytes) = u32::try_from(result) else {
        return Some(Reason::Errno(-result));
    };
    let is_flush = batch.rows.op[row] == Code::Flush;
    if is_flush || bytes == batch.rows.size[row] {
        return None;
    }
    Some((batch.shrunk)().map_or(Reason::Short(bytes), Reason::Shrunk))
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn what_io_uring_does_not_have_fails_and_is_no_read() {
        let file = File::open("/dev/zero").expect("it exists");
        let needs = Needs { slots: 1, read_bytes: 512, write_bytes: 0 };
        let mut engine = Engine::new(&needs).expect("io_uring");
        for code in [Code::Trim, Code::Append, Code::ResetZone] {
            let mut counters = Counters::default();
            let (op, _) = code.operation();
            let mut batch = Batch {
                fd: file.as_raw_fd(),
                path: "zero",
                rows: Columns { op: &[Code::Read, code], offset: &[0, 0], size: &[512, 512] },
                counters: &mut counters,
                shrunk: &|| None,
                block_bytes: None,
            };
            let (log, end, drained) = engine.run(&mut batch, 1, &mut || false);
            let End::Failed(failure) = end else { panic!("{op}: {end:?}") };
            assert_eq!((failure.op, failure.reason), (op, Reason::Errno(libc::EOPNOTSUPP)));
            assert!(drained && log.complete_ns[0] > 0 && log.complete_ns[1] == 0, "{op}: {log:?}");
            assert_eq!(counters.reads, 1, "{op}");
        }
    }
}
