//! The interface between front doors and what is served.
//!
//! A backend executes a command synchronously ([`Backend::execute`]), or accepts it and completes it later
//! ([`Backend::submit`]): a drive in model time completes commands when the model says so. Filters (`filters/`) are
//! backends over a backend.
//!
//! Invariants: a command that reaches a backend was validated against its [`Shape`] (`validate.rs`); what fails has the
//! drive's reason, of which a front door makes the error of its protocol.

use std::os::fd::BorrowedFd;

use super::{Command, Extent, Failure, Job, Setting, Shape, StatusQuery, ZonePage};

/// What is served; called from any number of threads.
pub trait Backend: Send + Sync {
    /// Its size and capabilities; they do not change.
    fn shape(&self) -> &Shape;

    /// Executes a command. `data` has [`Command::data_bytes`] bytes: a read fills it, a write reads it.
    ///
    /// # Errors
    /// As the command fails; the content of the extent that it was to change is then undefined.
    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure>;

    /// The same for a command that may take long: once `keep_going` returns false it may fail with
    /// [`Failure::Aborted`], partly done.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        _keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        self.execute(command, data)
    }

    /// Executes writes that are pending at the same time; the backend decides whether to batch them. Appends one result
    /// per write to `results`.
    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Failure>>) {
        results.extend(writes.iter_mut().map(|(command, data)| self.execute(command, data)));
    }

    /// Calls `visit` with the file that holds an extent, and the offset in it, while nothing changes; returns whether there
    /// is one. Only for extents at a fixed location, because the bytes may be read after the call.
    fn file_at(&self, _offset: u64, _len: u64, _visit: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        false
    }

    /// Appends the states of the blocks of an extent: runs from `offset` on, at most about `limit` of them. They may end before
    /// the extent does, and the first is merged with the last of `extents` where they are alike: only the sum of all lengths
    /// says how far they reach.
    ///
    /// # Errors
    /// When the blocks cannot be looked up.
    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure>;

    /// The first byte of an extent that cannot be read, after [`Backend::execute`] has failed a read of it.
    fn refused_at(&self, _offset: u64, _len: u64) -> Option<u64> {
        None
    }

    /// Whether commands complete later, so that front doors use [`Backend::submit`] and accept others meanwhile.
    fn is_async(&self) -> bool {
        false
    }

    /// Accepts a command that completes later.
    fn submit(&self, job: Job) {
        job.execute_with(
            |command, data, keep_going| self.execute_while(command, data, keep_going),
            |offset, len| self.refused_at(offset, len),
        );
    }

    /// The zones from a number on, `most` at most, and their layout; `None` if it has no zones.
    ///
    /// # Errors
    /// When it has failed.
    fn zones(&self, _first: u32, _most: usize) -> Result<Option<ZonePage>, Failure> {
        Ok(None)
    }

    /// Counters as JSON, for `skylight status`.
    fn status(&self) -> serde_json::Value {
        serde_json::Value::Null
    }

    /// Changes a setting; returns its new value in words.
    ///
    /// # Errors
    /// One line, when it does not have the setting.
    fn set(&self, setting: &Setting) -> Result<String, String> {
        Err(setting.unavailable())
    }

    /// Shuts down in order, after the last command: all writes become durable.
    ///
    /// # Errors
    /// One line that names what failed.
    fn close(&self) -> Result<(), String> {
        self.execute(&Command::FLUSH, &mut []).map_err(|failure| format!("cannot flush: {failure}"))
    }
}
