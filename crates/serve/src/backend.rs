//! What every server asks of what it serves: commands on a range of bytes.
//!
//! One trait. A backend does a command when it is called ([`Backend::execute`]), or takes it and answers later
//! ([`Backend::submit`]): a drive in model time answers when the model says so. Filters (`filters/`) are
//! backends over a backend.
//!
//! Invariants: a command that reaches a backend was checked against its [`Shape`] (`nbd/validate.rs`): it is on
//! the drive, whole blocks, allowed. A [`Job`] is answered exactly once, also when it is dropped.
//! Source: the NBD protocol, "Request types" and "Error values", for the commands and what may fail.

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Why a command failed: the errors that the NBD protocol knows, by its names and numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u32)]
pub enum Errno {
    /// Not allowed: a write on what is read-only.
    #[error("EPERM")]
    NotPermitted = 1,
    /// The medium failed.
    #[error("EIO")]
    Io = 5,
    /// No memory.
    #[error("ENOMEM")]
    NoMemory = 12,
    /// A command that makes no sense here.
    #[error("EINVAL")]
    Invalid = 22,
    /// No room, or a write past the end.
    #[error("ENOSPC")]
    NoSpace = 28,
    /// Too large for one reply.
    #[error("EOVERFLOW")]
    Overflow = 75,
    /// Zeroes cannot be had faster than by writing them.
    #[error("ENOTSUP")]
    NotSupported = 95,
    /// The server is going down.
    #[error("ESHUTDOWN")]
    Shutdown = 108,
}

impl Errno {
    /// Every error, in the order of their numbers.
    pub const ALL: [Self; 8] = [
        Self::NotPermitted,
        Self::Io,
        Self::NoMemory,
        Self::Invalid,
        Self::NoSpace,
        Self::Overflow,
        Self::NotSupported,
        Self::Shutdown,
    ];

    /// The number on the wire.
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// The error of a name such as `EIO`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|errno| errno.to_string().eq_ignore_ascii_case(name))
    }
}

impl From<&std::io::Error> for Errno {
    fn from(error: &std::io::Error) -> Self {
        use std::io::ErrorKind as Kind;
        match error.kind() {
            Kind::StorageFull | Kind::QuotaExceeded | Kind::FileTooLarge => Self::NoSpace,
            Kind::PermissionDenied | Kind::ReadOnlyFilesystem => Self::NotPermitted,
            Kind::OutOfMemory => Self::NoMemory,
            Kind::Unsupported => Self::NotSupported,
            _ => Self::Io,
        }
    }
}

/// What a command does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Gives bytes.
    Read,
    /// Takes bytes.
    Write,
    /// Makes durable all that was answered before.
    Flush,
    /// Forgets an extent.
    Trim,
    /// Writes zeroes.
    WriteZeroes,
    /// Fetches what will be read soon.
    Cache,
}

impl Op {
    /// Every operation.
    pub const ALL: [Self; 6] =
        [Self::Read, Self::Write, Self::Flush, Self::Trim, Self::WriteZeroes, Self::Cache];

    /// The name in logs and options.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Trim => "trim",
            Self::WriteZeroes => "write_zeroes",
            Self::Cache => "cache",
        }
    }
}

/// A command that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// What is asked.
    pub op: Op,
    /// Bytes from the start.
    pub offset: u64,
    /// Bytes; nothing for a flush.
    pub len: u64,
    /// Answered only when durable.
    pub fua: bool,
    /// Zeroes: room must stay reserved, so no hole may be made.
    pub no_hole: bool,
    /// Zeroes: fail at once with [`Errno::NotSupported`] rather than be slow.
    pub fast: bool,
}

impl Request {
    /// A command without flags.
    pub const fn new(op: Op, offset: u64, len: u64) -> Self {
        Self { op, offset, len, fua: false, no_hole: false, fast: false }
    }

    /// Whether it changes the bytes of its extent.
    const fn changes_bytes(&self) -> bool {
        matches!(self.op, Op::Write | Op::Trim | Op::WriteZeroes)
    }

    /// Whether the order of the two matters: they share bytes, and one of them changes these.
    pub const fn conflicts_with(&self, other: &Self) -> bool {
        self.offset < other.offset + other.len
            && other.offset < self.offset + self.len
            && (self.changes_bytes() || other.changes_bytes())
    }

    /// Bytes that it carries one way or the other.
    pub const fn data_len(&self) -> u64 {
        match self.op {
            Op::Read | Op::Write => self.len,
            _ => 0,
        }
    }
}

/// What is asked about the blocks of an extent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Context {
    /// `base:allocation`: holes, and what reads as zeroes.
    Allocation,
    /// `x-skylight:place`: at its native location, or in the persistent cache.
    Place,
    /// `x-skylight:overwritten`: of a raw shingled disk, native or overwritten by a write to another track.
    Overwritten,
}

impl Context {
    /// Every context.
    pub const ALL: [Self; 3] = [Self::Allocation, Self::Place, Self::Overwritten];
}

/// Flags of an extent in [`Context::Allocation`]: nothing is allocated, and it reads as zeroes.
pub const HOLE_AND_ZERO: u32 = 0b11;
/// Flag of an extent in [`Context::Place`]: it lies in the persistent cache.
pub const IN_CACHE: u32 = 0b1;
/// Flag of an extent in [`Context::Overwritten`]: what was written there is gone.
pub const OVERWRITTEN: u32 = 0b1;

/// A run of blocks of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Bytes.
    pub len: u64,
    /// By context.
    pub flags: u32,
}

/// Appends a run of blocks, to the one before it if that is of the same kind.
pub fn push_extent(extents: &mut Vec<Extent>, len: u64, flags: u32) {
    match extents.last_mut() {
        Some(last) if last.flags == flags => last.len += len,
        _ if len > 0 => extents.push(Extent { len, flags }),
        _ => {}
    }
}

/// Most bytes of a read that must come in one chunk, and of a piece of any other command.
pub const PIECE_BYTES: usize = 1 << 20;

/// What a backend is like, for its clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The name of the export.
    pub name: String,
    /// A sentence about it.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Every offset and length is a multiple of this: a power of two, bytes.
    pub block: u32,
    /// What is done without loss: a power of two, bytes.
    pub preferred: u32,
    /// Refuses to change.
    pub read_only: bool,
    /// Seeks cost something.
    pub rotational: bool,
    /// A flush on one connection is one for all.
    pub multi_conn: bool,
    /// Can say where blocks lie ([`Context::Place`]).
    pub places: bool,
    /// Is a raw shingled disk ([`Context::Overwritten`]).
    pub shingled: bool,
    /// Bytes of a long write that are done at once: whole preferred blocks, at most [`PIECE_BYTES`]. Small where a
    /// write costs the same in one or in parts: then it is done while the processor still has what came.
    pub write_piece: usize,
}

impl Shape {
    /// A drive of so many bytes with sectors of 512 bytes and blocks of 4 KiB.
    pub fn drive(name: impl Into<String>, size: u64) -> Self {
        let (name, description) = (name.into(), String::new());
        let (block, preferred) = (512, 4096);
        Self {
            name,
            description,
            size,
            block,
            preferred,
            read_only: false,
            rotational: false,
            multi_conn: true,
            places: false,
            shingled: false,
            write_piece: PIECE_BYTES,
        }
    }
}

/// What answers a [`Job`]: the result, and the buffer with what was read.
pub type Answer = Box<dyn FnOnce(Result<(), Errno>, Vec<u8>) + Send>;

/// A number that whoever answers a command says of it beside the answer, for whoever wants to know.
#[derive(Clone, Debug)]
pub struct Told(Arc<AtomicU64>);

impl Default for Told {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(u64::MAX)))
    }
}

impl Told {
    /// The number; none before the answer, and where there is none to say.
    pub fn get(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed)).filter(|&number| number != u64::MAX)
    }

    fn set(&self, number: u64) {
        self.0.store(number, Ordering::Relaxed);
    }
}

/// A command on its way, with its bytes.
pub struct Job {
    /// The command.
    pub request: Request,
    /// Room for what is read, or what is written; [`Request::data_len`] bytes.
    pub data: Vec<u8>,
    answer: Option<Answer>,
    /// What the model says it takes, from the arrival to the answer, ns.
    model_ns: Option<Told>,
    /// The first byte of a read that could not be had.
    failed_at: Option<Told>,
    /// Set when the client is gone.
    gone: Option<Arc<AtomicBool>>,
}

impl Job {
    /// A command that is answered through `answer`.
    pub fn new(request: Request, data: Vec<u8>, answer: Answer) -> Self {
        Self { request, data, answer: Some(answer), model_ns: None, failed_at: None, gone: None }
    }

    /// Answers it.
    pub fn finish(mut self, result: Result<(), Errno>) {
        if let Some(answer) = self.answer.take() {
            answer(result, std::mem::take(&mut self.data));
        }
    }

    /// Has it done here and now, by what executes commands and by what knows the byte at which a read is refused.
    pub fn done_by(
        mut self,
        execute: impl FnOnce(&Request, &mut [u8], &dyn Fn() -> bool) -> Result<(), Errno>,
        refused_at: impl FnOnce(u64, u64) -> Option<u64>,
    ) {
        let gone = self.gone.clone();
        let goes_on = || gone.as_ref().is_none_or(|gone| !gone.load(Ordering::Relaxed));
        let result = match goes_on() {
            true => execute(&self.request, &mut self.data, &goes_on),
            false => Err(Errno::Shutdown),
        };
        let Request { op, offset, len, .. } = self.request;
        if result.is_err() && op == Op::Read {
            refused_at(offset, len).into_iter().for_each(|at| self.fails_at(at));
        }
        self.finish(result);
    }

    /// Wants to know what the model says it takes.
    pub fn timed(mut self, model_ns: Told) -> Self {
        self.model_ns = Some(model_ns);
        self
    }

    /// Wants to know where it failed, if it does.
    pub fn located(mut self, failed_at: Told) -> Self {
        self.failed_at = Some(failed_at);
        self
    }

    /// Need not be done once the client is gone.
    pub fn unless_gone(mut self, gone: Option<Arc<AtomicBool>>) -> Self {
        self.gone = gone;
        self
    }

    /// Set when the client is gone, for commands that are parts of this one.
    pub fn gone(&self) -> Option<Arc<AtomicBool>> {
        self.gone.clone()
    }

    /// Whether nobody waits for it any more.
    pub fn is_abandoned(&self) -> bool {
        self.gone.as_ref().is_some_and(|gone| gone.load(Ordering::Relaxed))
    }

    /// Says where it failed, before it is answered.
    pub fn fails_at(&self, offset: u64) {
        if let Some(failed_at) = &self.failed_at {
            failed_at.set(offset);
        }
    }

    /// Says what the model says it takes, before it is answered.
    pub fn takes_ns(&self, time_ns: u64) {
        if let Some(model_ns) = &self.model_ns {
            model_ns.set(time_ns);
        }
    }

    /// Puts something between the command and its answer.
    pub fn intercept(
        mut self,
        between: impl FnOnce(Result<(), Errno>, Vec<u8>, Answer) + Send + 'static,
    ) -> Self {
        if let Some(answer) = self.answer.take() {
            self.answer = Some(Box::new(move |result, data| between(result, data, answer)));
        }
        self
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            answer(Err(Errno::Shutdown), std::mem::take(&mut self.data));
        }
    }
}

/// What is served. Called from any number of threads.
pub trait Backend: Send + Sync {
    /// What it is like; it does not change.
    fn shape(&self) -> &Shape;

    /// Does a command. `data` is as long as [`Request::data_len`]: filled by a read, read by a write.
    ///
    /// # Errors
    /// As the command fails; then nothing is known of the bytes that it was to change.
    fn execute(&self, request: &Request, data: &mut [u8]) -> Result<(), Errno>;

    /// The same for a command that may take long: it may end with [`Errno::Shutdown`], done in part, once `goes_on` says
    /// no.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn execute_while(
        &self,
        request: &Request,
        data: &mut [u8],
        _goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.execute(request, data)
    }

    /// Does writes that wait at the same time; what they are worth together is the backend's affair. `results`
    /// takes one result for each.
    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        results.extend(writes.iter_mut().map(|(request, data)| self.execute(request, data)));
    }

    /// Gives `take` the file in which a stretch lies, and where in it, while nothing is being changed; whether it did. Only
    /// what lies at its place for good is lent, for its bytes may be looked at when the call is over.
    fn lend(&self, _offset: u64, _len: u64, _take: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        false
    }

    /// What the blocks of an extent are like in a context: runs from `offset` on, at most `most`; those beyond
    /// are left out.
    ///
    /// # Errors
    /// When it cannot be told.
    fn block_status(
        &self,
        offset: u64,
        len: u64,
        context: Context,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno>;

    /// The first byte of an extent that a read refuses, of which [`Backend::execute`] says only that it failed.
    fn refused_at(&self, _offset: u64, _len: u64) -> Option<u64> {
        None
    }

    /// Whether commands take their time, so that others should be taken meanwhile: then they come by
    /// [`Backend::submit`].
    fn waits(&self) -> bool {
        false
    }

    /// Takes a command that is answered at some time.
    fn submit(&self, job: Job) {
        job.done_by(
            |request, data, goes_on| self.execute_while(request, data, goes_on),
            |offset, len| self.refused_at(offset, len),
        );
    }

    /// Counters as JSON, for `skylight status`.
    fn status(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Changes how it works; what it is then, in words.
    ///
    /// # Errors
    /// One line, when it knows no such key or value.
    fn control(&self, key: &str, _value: &str) -> Result<String, String> {
        Err(format!("{key}: this drive has nothing of that name to set"))
    }

    /// Ends in order, when nobody asks any more: all is durable.
    ///
    /// # Errors
    /// One line that says what failed.
    fn close(&self) -> Result<(), String> {
        self.execute(&Request::new(Op::Flush, 0, 0), &mut [])
            .map_err(|errno| format!("cannot flush: {errno}"))
    }
}

/// How late answers were against a model, in powers of two of a microsecond.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    /// Answers that were less than 1 us late, then 2 us, 4 us and so on; the last one takes the rest.
    pub buckets: [u64; 24],
    /// The latest.
    pub worst: Duration,
}

impl Lateness {
    /// Counts an answer.
    pub fn count(&mut self, late: Duration) {
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        let bucket = (u64::BITS - us.leading_zeros()) as usize;
        self.buckets[bucket.min(self.buckets.len() - 1)] += 1;
        self.worst = self.worst.max(late);
    }

    /// Answers.
    pub fn answers(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// A bound that so large a part of the answers was not later than, us; none without answers.
    pub fn quantile_us(&self, part: f64) -> Option<u64> {
        let wanted = (self.answers() as f64 * part).ceil().max(1.0) as u64;
        let mut seen = 0;
        self.buckets.iter().enumerate().find_map(|(bucket, count)| {
            seen += count;
            (seen >= wanted).then_some(1 << bucket)
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn a_job_that_is_dropped_is_answered() {
        let (sender, receiver) = channel();
        let answer: Answer = Box::new(move |result, _| sender.send(result).unwrap());
        drop(Job::new(Request::new(Op::Flush, 0, 0), Vec::new(), answer));
        assert_eq!(receiver.recv(), Ok(Err(Errno::Shutdown)));
    }

    #[test]
    fn lateness_is_counted_in_powers_of_two() {
        let mut lateness = Lateness::default();
        for us in [0, 1, 3, 3, 900] {
            lateness.count(Duration::from_micros(us));
        }
        assert_eq!(&lateness.buckets[..3], &[1, 1, 2]);
        assert_eq!(lateness.quantile_us(0.5), Some(4));
        assert_eq!(lateness.quantile_us(1.0), Some(1024));
        assert_eq!(lateness.worst, Duration::from_micros(900));
        assert_eq!(Lateness::default().quantile_us(0.5), None);
    }

    #[test]
    fn errors_have_names() {
        assert_eq!(Errno::named("eio"), Some(Errno::Io));
        assert_eq!(Errno::named("EAGAIN"), None);
    }
}
