//! A backend that serves an image as fast as possible (`--timing none`), or at the speed of a disk underneath
//! (`native`).
//!
//! `image_locking.rs` synchronises access to the image and runs its idle work; `long_commands.rs` has long trims and
//! zeroes. Over a disk that sets the time, commands execute concurrently ([`ServedImage::concurrent`]):
//! reads on several threads, writes on one thread in order of arrival and in batches, trims, zeroes and
//! flushes on several threads (`thread_pool.rs`). Commands whose order matters keep it (`command_order.rs`).

mod activity;
mod command_order;
mod fair_lock;
mod image_locking;
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

use self::command_order::{CommandOrder, Lane};
use self::image_locking::Access;
use self::thread_pool::ThreadPool;
use super::image_errors::ImageErrors;
use super::planted_bugs::{Planted, Plants};
use super::read_modes::{Shingles, push_overwritten};
use super::zone_reports::counts_json;
use super::{Backend, Command, Extent, Failure, Job, Setting, Shape, StatusQuery, ZonePage};

pub(crate) use self::status::{push_places, status_json};

/// Step of a block status look-up, bytes: it takes about a millisecond where every block is mapped elsewhere.
const STATUS_STEP_BYTES: u64 = 1 << 20;
/// Threads for reads: the queue depth of a disk with command queueing.
const READ_THREADS: usize = 32;
/// Threads for long commands: they take turns, and each flush waits for one sync.
const LONG_COMMAND_THREADS: usize = 8;
/// Idle time before checksum maintenance of a drive without idle work: longer than the interval at which file
/// systems flush.
const CHECKSUMS_IDLE_AFTER: Duration = Duration::from_secs(6);
/// Maximum number of writes in a batch.
const WRITE_BATCH: usize = 256;

/// See the module page.
pub struct ServedImage {
    access: Arc<Access>,
    idle_thread: Option<JoinHandle<()>>,
    pools: Option<(Arc<Pools>, Arc<CommandOrder>)>,
}

/// The threads that execute commands concurrently.
struct Pools {
    reads: ThreadPool,
    writes: ThreadPool,
    /// Trims, zeroes and flushes, which would delay other commands.
    long: ThreadPool,
}

impl Pools {
    /// Executes queued commands and joins the threads. Not in `drop`: the last command may hold the last
    /// reference to the pools.
    fn shut_down(&self) {
        self.reads.shut_down();
        self.writes.shut_down();
        self.long.shut_down();
    }
}

impl ServedImage {
    /// Serves an image with the given shape, except for its size. `timing` is its name in the status.
    ///
    /// # Errors
    /// When the system has no more threads.
    pub fn new(image: Image, shape: Shape, timing: &'static str) -> std::io::Result<Self> {
        let idle_after = image.layer().idle_after().map(|after| Duration::from_nanos(after.get()));
        let idle_after = idle_after.or(image.has_checksums().then_some(CHECKSUMS_IDLE_AFTER));
        let access = Arc::new(Access::new(image, shape, timing));
        let idle_thread = match idle_after {
            None => None,
            Some(idle_after) => {
                let access = access.clone();
                let thread = std::thread::Builder::new().name("image-idle".to_owned());
                Some(thread.spawn(move || access.run_idle_work(idle_after))?)
            }
        };
        Ok(Self { access, idle_thread, pools: None })
    }

    /// Executes the commands of each client concurrently, as suits a disk underneath.
    pub fn concurrent(self) -> Self {
        self.with_threads(Plants::NONE)
    }

    /// The same, with a bug.
    #[cfg(feature = "planted")]
    #[doc(hidden)]
    pub fn concurrent_with(self, planted: Planted) -> Self {
        self.with_threads(Some(planted).into())
    }

    fn with_threads(mut self, plants: Plants) -> Self {
        let (reads, writes, long) = (self.access.clone(), self.access.clone(), self.access.clone());
        let pools = Arc::new(Pools {
            reads: ThreadPool::new("image-read", READ_THREADS, 1, move |jobs| {
                jobs.into_iter().for_each(|job| reads.execute_job(job));
            }),
            writes: ThreadPool::new("image-write", 1, WRITE_BATCH, move |mut jobs| {
                if plants.has(Planted::BatchNewestFirst) {
                    jobs.reverse();
                }
                writes.execute_in_order(jobs);
            }),
            long: ThreadPool::new("image-long", LONG_COMMAND_THREADS, 1, move |jobs| {
                jobs.into_iter().for_each(|job| long.execute_job(job));
            }),
        });
        let lanes = pools.clone();
        let order = CommandOrder::new(self.access.zones, move |lane, job| match lane {
            Lane::Reads => lanes.reads.submit(job),
            Lane::Writes => lanes.writes.submit(job),
            Lane::Long => lanes.long.submit(job),
        });
        self.pools = Some((pools, order));
        self
    }

    /// Read mode and refused reads of a drive whose sectors can be overwritten.
    pub fn shingles(&self) -> Option<Arc<Shingles>> {
        self.access.shingles.clone()
    }

    /// Reads refused because of checksum mismatches.
    pub fn image_errors(&self) -> &ImageErrors {
        &self.access.image_errors
    }

    /// Executes queued commands and accepts no more.
    fn shut_down(&self) {
        self.access.shutdown.begin();
        if let Some((pools, _)) = &self.pools {
            pools.shut_down();
        }
    }
}

impl Drop for ServedImage {
    fn drop(&mut self) {
        self.shut_down();
        if let Some(thread) = self.idle_thread.take() {
            // If the thread panicked, the poisoned lock of the image reports it.
            let _ = thread.join();
        }
    }
}

impl Backend for ServedImage {
    fn shape(&self) -> &Shape {
        &self.access.shape
    }

    fn execute(&self, command: &Command, data: &mut [u8]) -> Result<(), Failure> {
        self.access.execute(command, data, &|| true)
    }

    fn execute_while(
        &self,
        command: &Command,
        data: &mut [u8],
        keep_going: &dyn Fn() -> bool,
    ) -> Result<(), Failure> {
        self.access.execute(command, data, keep_going)
    }

    fn refused_at(&self, offset: u64, len: u64) -> Option<u64> {
        self.access.refused_at(offset, len)
    }

    fn execute_writes(&self, writes: &mut [(Command, &mut [u8])], results: &mut Vec<Result<(), Failure>>) {
        self.access.execute_writes(writes, results);
    }

    fn file_at(&self, offset: u64, len: u64, visit: &mut dyn FnMut(BorrowedFd<'_>, u64)) -> bool {
        self.access.file_at(offset, len, visit)
    }

    fn zones(&self, first: u32, most: usize) -> Result<Option<ZonePage>, Failure> {
        self.access.with(|image| Ok(image.zoned().map(|zoned| ZonePage::of(zoned, first, most))))
    }

    fn is_async(&self) -> bool {
        self.pools.is_some()
    }

    fn submit(&self, job: Job) {
        match &self.pools {
            None => self.access.execute_job(job),
            Some((_, order)) => order.submit(job),
        }
    }

    fn block_status(
        &self,
        offset: u64,
        len: u64,
        query: StatusQuery,
        limit: usize,
        extents: &mut Vec<Extent>,
    ) -> Result<(), Failure> {
        let (mut at, end) = (offset, offset + len);
        while at < end && extents.len() <= limit {
            let step = (end - at).min(STATUS_STEP_BYTES);
            if query == StatusQuery::Overwritten {
                let push = |image: &mut Image| {
                    push_overwritten(image.overwriting(), (at, step), extents);
                    Ok(())
                };
                self.access.with(push)?;
                at += step;
                continue;
            }
            let places = self.access.with(|image| image.locate(at, step))?;
            push_places(&places, query, extents);
            at += step;
        }
        Ok(())
    }

    fn status(&self) -> Value {
        let status = self.access.with(|image| Ok(status_json(&image.status()))).unwrap_or(Value::Null);
        let shingled = self.access.shingles.as_ref().and_then(|shingles| {
            let status = |image: &mut Image| Ok(image.overwriting().map(|disk| shingles.status(disk)));
            self.access.with(status).ok().flatten()
        });
        let zones =
            self.access.with(|image| Ok(image.zoned().map(|zoned| counts_json(zoned)))).ok().flatten();
        json!({
            "timing": self.access.timing,
            "image": status,
            "shingled": shingled,
            "zones": zones,
            "idle_units": self.access.idle_units.load(Ordering::Relaxed),
            "last_error": self.access.last_error(),
        })
    }

    fn set(&self, setting: &Setting) -> Result<String, String> {
        let set = |image: &mut Image| {
            if let Setting::Zone(change) = *setting {
                let done = image.change_zones(|zoned| change.apply(zoned))?;
                return Ok(done.unwrap_or_else(|| Err(setting.unavailable())));
            }
            Ok(match (&self.access.shingles, image.overwriting()) {
                (Some(shingles), Some(disk)) => shingles.set(disk, setting),
                _ => Err(setting.unavailable()),
            })
        };
        self.access.change(set).map_err(|failure| format!("cannot change the setting: {failure}"))?
    }

    fn close(&self) -> Result<(), String> {
        self.shut_down();
        if let Some(shingles) = &self.access.shingles {
            shingles.drain();
        }
        self.access.close()
    }
}
