//! An image as a backend, as fast as it goes (`--timing none`, and `native`, where the medium sets the time).
//!
//! Access to the image, with its locks and the idle work, is in `access.rs`, long trims and zeroes in `long_commands.rs`. Where a disk underneath sets the time, the commands of one client are done in parallel
//! ([`ServedImage::beside`]): reads by as many threads as ask, writes by one thread in the order in which they came, those
//! that wait together, trims, zeroes and flushes by some (`thread_pool.rs`). Commands that conflict keep their order
//! (`command_order.rs`).

mod access;
mod activity;
mod command_order;
mod fair_lock;
mod long_commands;
mod status;
mod thread_pool;

use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use skylight_image::Image;

use self::access::Access;
use self::command_order::{CommandOrder, Lane};
use self::thread_pool::ThreadPool;
use super::checksum_errors::ChecksumErrors;
use super::shingled::{Shingles, push_overwritten};
use super::{Backend, Command, Errno, Extent, Job, Setting, Shape, StatusQuery};

pub(crate) use self::status::{push_places, status_json};

/// What is looked at in one go for block status, bytes: a millisecond where every block lies elsewhere.
const STATUS_STEP: u64 = 1 << 20;
/// Threads that read at a time: as many commands as a disk with a queue of its own takes.
const READERS: usize = 32;
/// Threads for commands that take long at a time: they take turns, and each flush has one sync to wait for.
const LONG_COMMANDS: usize = 8;
/// How long a drive that does nothing when left alone is left alone before its checksums are looked after: longer than
/// file systems wait between two flushes of what they wrote.
const CHECKSUMS_PATIENCE: Duration = Duration::from_secs(6);
/// Changes that are taken together.
const CHANGES: usize = 256;

/// See the module page.
pub struct ServedImage {
    access: Arc<Access>,
    idles: Option<JoinHandle<()>>,
    pools: Option<(Arc<Pools>, Arc<CommandOrder>)>,
}

/// The threads that do commands in parallel.
struct Pools {
    reads: ThreadPool,
    changes: ThreadPool,
    /// What others should not wait for: trims, zeroes and flushes.
    long: ThreadPool,
}

impl Pools {
    /// Does what was taken, and ends the threads: here, for the last command may hold the last reference to the pools.
    fn end(&self) {
        self.reads.end();
        self.changes.end();
        self.long.end();
    }
}

impl ServedImage {
    /// Serves an image under this shape; its size is the image's. `timing` is what the status calls it.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(image: Image, shape: Shape, timing: &'static str) -> std::io::Result<Self> {
        let patience = image.layer().idle_after().map(|after| Duration::from_nanos(after.get()));
        let patience = patience.or(image.has_checksums().then_some(CHECKSUMS_PATIENCE));
        let access = Arc::new(Access::new(image, shape, timing));
        let idles = match patience {
            None => None,
            Some(patience) => {
                let access = access.clone();
                let thread = std::thread::Builder::new().name("image-idle".to_owned());
                Some(thread.spawn(move || access.idle(patience))?)
            }
        };
        Ok(Self { access, idles, pools: None })
    }

    /// Does the commands of each client beside each other, as a disk underneath likes it best: reads by up to
    /// `READERS` threads.
    pub fn beside(self) -> Self {
        self.beside_arranged(|_| {})
    }

    /// The same with changes that are taken together put into another order: for tests of the tests.
    #[doc(hidden)]
    pub fn beside_arranged(mut self, arrange: fn(&mut Vec<Job>)) -> Self {
        let (reads, changes, long) = (self.access.clone(), self.access.clone(), self.access.clone());
        let pools = Arc::new(Pools {
            reads: ThreadPool::new("image-read", READERS, 1, move |jobs| {
                jobs.into_iter().for_each(|job| reads.do_one(job));
            }),
            changes: ThreadPool::new("image-change", 1, CHANGES, move |mut jobs| {
                arrange(&mut jobs);
                changes.do_in_order(jobs);
            }),
            long: ThreadPool::new("image-long", LONG_COMMANDS, 1, move |jobs| {
                jobs.into_iter().for_each(|job| long.do_one(job));
            }),
        });
        let lanes = pools.clone();
        let order = CommandOrder::new(move |lane, job| match lane {
            Lane::Reads => lanes.reads.submit(job),
            Lane::Writes => lanes.changes.submit(job),
            Lane::Long => lanes.long.submit(job),
        });
        self.pools = Some((pools, order));
        self
    }

    /// The read mode and refused reads of a raw shingled disk.
    pub fn shingles(&self) -> Option<Arc<Shingles>> {
        self.access.shingles.clone()
    }

    /// Reads that were refused for their checksums.
    pub fn checksum_errors(&self) -> &ChecksumErrors {
        &self.access.checksum_errors
    }

    /// Does what was taken, and takes no more.
    fn stop_work(&self) {
        self.access.ending.begin();
        if let Some((pools, _)) = &self.pools {
            pools.end();
        }
    }

    fn end(&mut self) {
        self.stop_work();
        if let Some(thread) = self.idles.take() {
            // If it panicked, the image says so itself.
            let _ = thread.join();
        }
    }
}

impl Drop for ServedImage {
    fn drop(&mut self) {
        self.end();
    }
}

impl Backend for ServedImage {
    fn shape(&self) -> &Shape {
        &self.access.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Errno> {
        self.access.execute(command, data, &|| true)
    }

    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), Errno> {
        self.access.execute(command, data, goes_on)
    }

    fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.access.refused_at(offset, len)
    }

    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Errno>>) {
        self.access.execute_writes(writes, results);
    }

    fn lend(&self, offset: u64, len: u64, take: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        self.access.lend(offset, len, take)
    }

    fn waits(&self) -> bool {
        self.pools.is_some()
    }

    fn submit(&self, job: Job) {
        match &self.pools {
            None => self.access.do_one(job),
            Some((_, order)) => order.submit(job),
        }
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        most: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Errno> {
        let (mut at, end) = (offset, offset + len);
        while at < end && extents.len() <= most {
            let here = (end - at).min(STATUS_STEP);
            if query == StatusQuery::Overwritten {
                let push = |image: &mut Image| {
                    push_overwritten(image.overwriting(), (at, here), extents);
                    Ok(())
                };
                self.access.with(push)?;
                at += here;
                continue;
            }
            let places = self.access.with(|image| image.locate(at, here))?;
            push_places(&places, query, extents);
            at += here;
        }
        Ok(())
    }

    fn status(&self) -> Value {
        let status = self.access.with(|image| Ok(status_json(&image.status()))).unwrap_or(Value::Null);
        let shingled = self.access.shingles.as_ref().and_then(|shingles| {
            let status = |image: &mut Image| Ok(image.overwriting().map(|disk| shingles.status(disk)));
            self.access.with(status).ok().flatten()
        });
        json!({
            "timing": self.access.timing,
            "image": status,
            "shingled": shingled,
            "idle_units": self.access.idle_units.load(Ordering::Relaxed),
            "last_error": self.access.last_error(),
        })
    }

    fn set(&self, setting: &Setting) -> Result<String, String> {
        let set = |image: &mut Image| {
            Ok(match (&self.access.shingles, image.overwriting()) {
                (Some(shingles), Some(disk)) => shingles.set(disk, setting),
                _ => Err(setting.unavailable()),
            })
        };
        self.access.change(set).map_err(|errno| format!("cannot be set: {errno}"))?
    }

    fn close(&self) -> Result<(), String> {
        self.stop_work();
        if let Some(shingles) = &self.access.shingles {
            shingles.drain();
        }
        self.access.close()
    }
}
