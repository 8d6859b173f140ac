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

use crate::backend::{Backend, Context, Errno, Extent, Job, Request, Shape};

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
        request: &Request,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.inner().execute_while(request, data, goes_on)
    }

    /// As [`Backend::execute_writes`].
    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        results.extend(writes.iter_mut().map(|(request, data)| self.execute_while(request, data, &|| true)));
    }

    /// As [`Backend::waits`].
    fn waits(&self) -> bool {
        self.inner().waits()
    }

    /// As [`Backend::submit`].
    fn submit(&self, job: Job);

    /// What it filters is closed.
    fn closed(&self) {}
}

impl<F: Filter> Backend for F {
    fn shape(&self) -> &Shape {
        self.inner().shape()
    }

    fn execute(&self, request: &Request, data: &mut [u8]) -> Result<(), Errno> {
        Filter::execute_while(self, request, data, &|| true)
    }

    fn execute_while(
        &self,
        request: &Request,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        Filter::execute_while(self, request, data, goes_on)
    }

    fn execute_writes(&self, writes: &mut [(Request, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        Filter::execute_writes(self, writes, results);
    }

    fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.inner().refused_at(offset, len)
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        context: Context,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        self.inner().block_status(offset, len, context, most, extents)
    }

    fn waits(&self) -> bool {
        Filter::waits(self)
    }

    fn submit(&self, job: Job) {
        Filter::submit(self, job);
    }

    fn status(&self) -> serde_json::Value {
        self.inner().status()
    }

    fn control(&self, key: &str, value: &str) -> Result<String, String> {
        self.inner().control(key, value)
    }

    fn close(&self) -> Result<(), String> {
        let closed = self.inner().close();
        self.closed();
        closed
    }
}
