//! Drives in each timing mode, as a host meets them without a socket between.

use crate::media::fault::Random;
use skylight_disk::{Nanos, Sectors, Time};
use skylight_drive::Drive as ModelledDrive;
use skylight_drive::profile::Profile;
use skylight_image::Image;
use skylight_serve::core::planted_bugs::Planted;
use skylight_serve::core::timed::TimedDrive;
use skylight_serve::core::timed::model::{Done, ModelDrive};
use skylight_serve::core::timed::wake_latency::WakeLatency;
use skylight_serve::core::untimed::ServedImage;
use skylight_serve::core::{Backend, Job, Op, Shape};
use skylight_serve::diagnostics::Writer;

use crate::Timing;
use crate::host::Target;

/// Parts in which zeroes are written: many of them on a drive of 1 MiB.
const ZEROES: Sectors = Sectors(32);

/// What differs between drives of one layer in model time.
#[derive(Clone, Copy, Debug)]
pub struct Interface {
    pub write_cache: bool,
    /// Bytes of the volatile cache, and runs that it holds.
    pub cache_kib: u32,
    pub cache_runs: u32,
    pub in_order: bool,
    pub look_ahead: bool,
}

impl Interface {
    pub fn draw(random: &mut Random, write_cache: bool) -> Self {
        Self {
            write_cache,
            cache_kib: [16, 64, 512][random.below(3) as usize],
            cache_runs: [2, 7, 127][random.below(3) as usize],
            in_order: random.below(4) == 0,
            look_ahead: random.below(2) == 0,
        }
    }

    /// The mechanics of a drive of the paper, with this interface.
    pub fn profile(&self) -> Profile {
        let name = "emulated-smr-2";
        let path = format!("{}/../../python/skylight/profiles/{name}.toml", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&path).expect("a profile");
        let Self { cache_kib, cache_runs, write_cache, in_order, look_ahead } = *self;
        let schedule = if in_order { "fifo" } else { "shortest-positioning-first" };
        let interface = format!(
            "[interface]\nwrite_cache = \"{cache_kib} KiB\"\nwrite_cache_runs = {cache_runs}\n\
             write_cache_on = {write_cache}\nlook_ahead = {look_ahead}"
        );
        let text = text.replace("[interface]", &interface);
        let text =
            text.replace("schedule = \"shortest-positioning-first\"", &format!("schedule = \"{schedule}\""));
        Profile::from_toml(&text, name).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// A drive in model time, whose clock the test turns.
pub struct Model {
    drive: ModelDrive,
    interface: Interface,
    now: Time,
    done: Vec<Done>,
}

impl Model {
    pub fn new(image: Image, interface: Interface, seed: u64) -> Self {
        let (layer, interpreter) = image.into_parts();
        let drive = ModelledDrive::with_layer(&interface.profile(), layer, seed).expect("a drive");
        let mut drive = ModelDrive::new(drive, interpreter, WakeLatency::none());
        drive.write_zeroes_in(ZEROES);
        Self { now: drive.clock(), drive, interface, done: Vec::new() }
    }

    pub fn drive(&mut self) -> &mut ModelDrive {
        &mut self.drive
    }

    pub fn close(self) -> Result<(), String> {
        self.drive.close()
    }
}

impl Target for Model {
    fn submit(&mut self, job: Job) {
        self.drive.submit(job, self.now);
    }

    fn pass(&mut self, random: &mut Random) {
        let ns = match random.below(64) {
            // Long enough for what a drive does left alone.
            0 => 3_000_000_000,
            1..=15 => random.below(20_000_000),
            16..=47 => random.below(1_000_000),
            _ => random.below(200_000),
        };
        self.now += Nanos(ns);
        self.drive.run_to(self.now, &mut self.done);
        self.done.drain(..).for_each(Done::finish);
    }
}

/// The backend that a server has of an image, without or in model time; lines about its errors go to `sink`.
pub fn alone(image: Image, timing: Timing, interface: Interface, sink: Writer) -> Box<dyn Backend> {
    let shape = Shape::drive("disk", 0);
    if timing == Timing::Model {
        let (layer, interpreter) = image.into_parts();
        let drive = ModelledDrive::with_layer(&interface.profile(), layer, 1).expect("a drive");
        let timed = TimedDrive::new(drive, interpreter, shape).expect("a thread");
        timed.image_errors().report_to(sink);
        return Box::new(timed);
    }
    let served = ServedImage::new(image, shape, "none").expect("a thread");
    served.image_errors().report_to(sink);
    Box::new(served)
}

/// A drive as fast as it goes, or over a disk that sets the time.
pub struct Served {
    served: ServedImage,
    native: bool,
    /// Writes that came in one go and are done together, as those of one connection are.
    together: Vec<Job>,
}

impl Served {
    pub fn new(image: Image, native: bool) -> Self {
        let served = Self::unstarted(image);
        let served = if native { served.concurrent() } else { served };
        Self { served, native, together: Vec::new() }
    }

    /// Over a disk that sets the time, with a bug.
    pub fn planted(image: Image, planted: Planted) -> Self {
        let served = Self::unstarted(image).concurrent_with(planted);
        Self { served, native: true, together: Vec::new() }
    }

    fn unstarted(image: Image) -> ServedImage {
        ServedImage::new(image, Shape::drive("disk", 0), "none").expect("a thread")
    }

    pub fn close(self) -> Result<(), String> {
        self.served.close()
    }

    fn write_together(&mut self) {
        let mut jobs = std::mem::take(&mut self.together);
        let mut writes: Vec<_> = jobs.iter_mut().map(|job| (job.command, job.data.as_mut_slice())).collect();
        let mut results = Vec::new();
        if !writes.is_empty() {
            self.served.execute_writes(&mut writes, &mut results);
        }
        drop(writes);
        jobs.into_iter().zip(results).for_each(|(job, result)| job.finish(result));
    }
}

impl Target for Served {
    fn submit(&mut self, job: Job) {
        if self.native {
            return self.served.submit(job);
        }
        if job.command.op == Op::Write {
            return self.together.push(job);
        }
        self.write_together();
        self.served.submit(job);
    }

    fn pass(&mut self, _random: &mut Random) {
        if self.native {
            std::thread::yield_now();
        }
        self.write_together();
    }
}

/// A drive in any timing mode.
pub enum AnyTarget {
    Model(Box<Model>),
    Served(Served),
}

impl AnyTarget {
    /// In model time its interface is drawn; `seed` is the modelled drive's.
    pub fn new(image: Image, timing: Timing, write_cache: bool, random: &mut Random, seed: u64) -> Self {
        match timing {
            Timing::Model => {
                Self::Model(Box::new(Model::new(image, Interface::draw(random, write_cache), seed)))
            }
            Timing::None | Timing::Native => Self::Served(Served::new(image, timing == Timing::Native)),
        }
    }

    /// The drive in model time, if it is one.
    pub fn model(&mut self) -> Option<&mut Model> {
        match self {
            Self::Model(model) => Some(model),
            Self::Served(_) => None,
        }
    }

    /// What was drawn.
    pub fn interface(&self) -> Option<Interface> {
        match self {
            Self::Model(model) => Some(model.interface),
            Self::Served(_) => None,
        }
    }

    pub fn close(self) -> Result<(), String> {
        match self {
            Self::Model(model) => model.close(),
            Self::Served(served) => served.close(),
        }
    }
}

impl Target for AnyTarget {
    fn submit(&mut self, job: Job) {
        match self {
            Self::Model(model) => model.submit(job),
            Self::Served(served) => served.submit(job),
        }
    }

    fn pass(&mut self, random: &mut Random) {
        match self {
            Self::Model(model) => model.pass(random),
            Self::Served(served) => served.pass(random),
        }
    }
}
