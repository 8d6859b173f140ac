//! Filters: backends over a backend, each with one thing to do.
//!
//! * [`delay`]: answers later.
//! * [`error`]: fails some commands.
//! * [`log`]: says what was asked and how it went.
//!
//! Invariant: a filter changes only what it is for; everything else goes through.
//! Source of the idea: the filters of nbdkit.

pub mod delay;
pub mod error;
pub mod log;

use serde_json::Value;

use crate::core::{Backend, Command, Errno, Extent, Job, Setting, Shape, StatusQuery};

/// A backend over a backend: what it does not do itself goes through. As for [`Backend::execute_writes`], writes
/// that wait together come one by one unless a filter says otherwise, for each is looked at.
pub trait Filter: Send + Sync {
    /// What is below.
    fn inner(&self) -> &dyn Backend;

    /// As [`Backend::execute_while`].
    ///
    /// # Errors
    /// As the command fails.
    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.inner().execute_while(command, data, goes_on)
    }

    /// As [`Backend::execute_writes`].
    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        results.extend(writes.iter_mut().map(|(command, data)| self.execute_while(command, data, &|| true)));
    }

    /// As [`Backend::waits`].
    fn waits(&self) -> bool {
        self.inner().waits()
    }

    /// As [`Backend::submit`].
    fn submit(&self, job: Job);

    /// Changes the filter, if the setting is one of its own; then what it is, in words.
    fn set(&self, _setting: &Setting) -> Option<String> {
        None
    }

    /// What the filter does now, for the status: a name, and a value.
    fn status(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// What it filters is closed.
    fn closed(&self) {}
}

impl<F: Filter> Backend for F {
    fn shape(&self) -> &Shape {
        self.inner().shape()
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Errno> {
        Filter::execute_while(self, command, data, &|| true)
    }

    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        Filter::execute_while(self, command, data, goes_on)
    }

    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        Filter::execute_writes(self, writes, results);
    }

    fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.inner().refused_at(offset, len)
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        self.inner().block_status(offset, len, query, most, extents)
    }

    fn waits(&self) -> bool {
        Filter::waits(self)
    }

    fn submit(&self, job: Job) {
        Filter::submit(self, job);
    }

    fn status(&self) -> Value {
        let mut status = self.inner().status();
        if let (Value::Object(entries), Some((name, value))) = (&mut status, Filter::status(self)) {
            entries.insert(name.to_owned(), value);
        }
        status
    }

    fn set(&self, setting: &Setting) -> Result<String, String> {
        Filter::set(self, setting).map_or_else(|| self.inner().set(setting), Ok)
    }

    fn close(&self) -> Result<(), String> {
        let closed = self.inner().close();
        self.closed();
        closed
    }
}
