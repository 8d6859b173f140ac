//! What every front door asks of what is served.
//!
//! A backend does a command when it is called ([`Backend::execute`]), or takes it and answers later
//! ([`Backend::submit`]): a drive in model time answers when the model says so. Filters (`filters/`) are backends over a
//! backend.
//!
//! Invariant: a command that reaches a backend was checked against its [`Shape`] (`validate.rs`).

use std::os::fd::BorrowedFd;

use super::{Command, Errno, Extent, Job, Setting, Shape, StatusQuery};

/// What is served. Called from any number of threads.
pub trait Backend: Send + Sync {
    /// What it is like; it does not change.
    fn shape(&self) -> &Shape;

    /// Does a command. `data` is as long as [`Command::data_bytes`]: filled by a read, read by a write.
    ///
    /// # Errors
    /// As the command fails; then nothing is known of the bytes that it was to change.
    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Errno>;

    /// The same for a command that may take long: it may end with [`Errno::Shutdown`], done in part, once `keep_going` says
    /// no.
    ///
    /// # Errors
    /// As [`Backend::execute`].
    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        _keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.execute(command, data)
    }

    /// Does writes that wait at the same time; what they are worth together is the backend's affair. `results`
    /// takes one result for each.
    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        results.extend(writes.iter_mut().map(|(command, data)| self.execute(command, data)));
    }

    /// Gives `take` the file in which a stretch lies, and where in it, while nothing is being changed; whether it did. Only
    /// what lies at its place for good is lent, for its bytes may be looked at when the call is over.
    fn file_at(&self, _offset: u64, _len: u64, _take: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        false
    }

    /// The states of the blocks of an extent: runs from `offset` on, at most `most`; those beyond are left out.
    ///
    /// # Errors
    /// When the blocks cannot be looked up.
    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno>;

    /// The first byte of an extent that a read refuses, of which [`Backend::execute`] says only that it failed.
    fn refused_at(&self, _offset: u64, _len: u64) -> Option<u64> {
        None
    }

    /// Whether commands take their time, so that others should be taken meanwhile: then they come by
    /// [`Backend::submit`].
    fn is_async(&self) -> bool {
        false
    }

    /// Takes a command that is answered at some time.
    fn submit(&self, job: Job) {
        job.execute_with(
            |command, data, keep_going| self.execute_while(command, data, keep_going),
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
    /// One line, when it has nothing of the kind.
    fn set(&self, setting: &Setting) -> Result<String, String> {
        Err(setting.unavailable())
    }

    /// Ends in order, when nobody asks any more: all is durable.
    ///
    /// # Errors
    /// One line that says what failed.
    fn close(&self) -> Result<(), String> {
        self.execute(&Command::FLUSH, &mut []).map_err(|errno| format!("cannot flush: {errno}"))
    }
}
