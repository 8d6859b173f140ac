//! Filters: backends over a backend, each with a single purpose.
//!
//! * [`delay`]: adds latency.
//! * [`error`]: injects faults.
//! * [`log`]: logs commands and their results.
//!
//! Invariant: a filter changes only what it is for; everything else passes through.
//! Source of the idea: the filters of nbdkit.

pub mod delay;
pub mod error;
pub mod log;

use serde_json::Value;

use crate::core::{Backend, Command, Extent, Failure, Job, Setting, Shape, StatusQuery, ZonePage};

/// A backend over a backend: what a filter does not override passes through. Batched writes
/// ([`Backend::execute_writes`]) are split into single ones unless a filter overrides that.
pub trait Filter: Send + Sync {
    /// The backend underneath.
    fn inner(&self) -> &dyn Backend;

    /// As [`Backend::execute_while`].
    ///
    /// # Errors
    /// As the command fails.
    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        self.inner().execute_while(command, data, keep_going)
    }

    /// As [`Backend::execute_writes`].
    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Failure>>) {
        results.extend(writes.iter_mut().map(|(command, data)| self.execute_while(command, data, &|| true)));
    }

    /// As [`Backend::is_async`].
    fn is_async(&self) -> bool {
        self.inner().is_async()
    }

    /// As [`Backend::submit`].
    fn submit(&self, job: Job);

    /// Changes the filter if the setting belongs to it, and returns the new value in words.
    fn set(&self, _setting: &Setting) -> Option<String> {
        None
    }

    /// The state of the filter for the status: a key and a value.
    fn status(&self) -> Option<(&'static str, Value)> {
        None
    }

    /// Called after the backend underneath was closed.
    fn closed(&self) {}
}

impl<F: Filter> Backend for F {
    fn shape(&self) -> &Shape {
        self.inner().shape()
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        Filter::execute_while(self, command, data, &|| true)
    }

    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        Filter::execute_while(self, command, data, keep_going)
    }

    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Failure>>) {
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
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        self.inner().block_status(offset, len, query, limit, extents)
    }

    fn zones(&self, first: u32, most: usize) -> Result<Option<ZonePage>, Failure> {
        self.inner().zones(first, most)
    }

    fn is_async(&self) -> bool {
        Filter::is_async(self)
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
