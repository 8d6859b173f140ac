//! Opens or creates an image and builds the backend that serves it: timing, then a host buffer, then filters.
//!
//! Invariant: an existing image is opened, never recreated; data on a device is overwritten only if that was
//! requested.

use std::io;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};

use skylight_drive::Drive;
use skylight_drive::profile::{Layer, Profile, ProfileError};
use skylight_image::store::device::is_block_device;
use skylight_image::store::file::FileStore;
use skylight_image::{Image, ImageError, Options};

use super::faults::Faults;
use super::filters::delay::{Delay, Delays};
use super::filters::error::FaultInjector;
use super::filters::log::Log;
use super::hbuffer::{HBufferError, HBufferPlan, HBuffered};
use super::image_errors::ImageErrors;
use super::read_mode_name::ReadModeName;
use super::read_modes::Shingles;
use super::timed::TimedDrive;
use super::untimed::ServedImage;
use super::{Backend, PIECE_BYTES, Shape};
use crate::diagnostics::Writer;

/// Small enough for received data to be still in the processor cache when it is written, bytes.
const SMALL_PIECE_BYTES: usize = 128 << 10;

/// What determines when a command completes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Nothing: commands complete as fast as possible.
    None,
    /// The model of the drive.
    Model,
    /// The disk underneath: a raw conventional disk.
    Native,
}

impl FromStr for Timing {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = [Self::None, Self::Model, Self::Native].into_iter().find(|timing| timing.name() == name);
        found.ok_or_else(|| format!("{name}: not a timing; use none, model or native"))
    }
}

impl Timing {
    /// One sentence for the description of the drive.
    pub const fn sentence(self) -> &'static str {
        match self {
            Self::None => "answers as fast as this machine can",
            Self::Model => "answers when the model of the drive says so",
            Self::Native => "answers when the disk underneath has done it",
        }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Model => "model",
            Self::Native => "native",
        }
    }
}

/// What to serve, and how.
///
/// More than 15 fields: one per option of the command line, each independent of the others.
pub struct Plan {
    /// The drive; `None` for the one that the image holds.
    pub profile: Option<Profile>,
    /// The file or block device of the image.
    pub image: PathBuf,
    /// A separate file or device for the flash cache.
    pub cache_on: Option<PathBuf>,
    /// What determines when commands complete.
    pub timing: Timing,
    /// Whether the volatile write cache is on; `None` for the setting of the profile.
    pub write_cache: Option<bool>,
    /// Whether reads go on into the buffer of the drive; `None` for the setting of the profile. In model time only.
    pub look_ahead: Option<bool>,
    /// Whether a new image has checksums of its data. `None` for the default: on where they cost little, for
    /// a file in model time.
    pub checksums: Option<bool>,
    /// Whether data on a device may be overwritten.
    pub overwrite: bool,
    /// Seed for the jitter of the drive.
    pub seed: u64,
    /// Filter: added latency; zero delays can be changed while the server runs.
    pub delays: Option<Delays>,
    /// Filter: fault injection.
    pub faults: Option<Faults>,
    /// Filter: a log of all commands.
    pub log: Option<Writer>,
    /// Read mode of a drive whose sectors can be overwritten, if not that of the profile.
    pub read_mode: Option<ReadModeName>,
    /// Shingle width of such a drive, tracks, if not that of the profile.
    pub width_tracks: Option<u32>,
    /// A host buffer that makes an ordinary block device of a drive with zones.
    pub hbuffer: Option<HBufferPlan>,
    /// Receives the lines about refused reads and a stopped image, in addition to standard error, and about checksum
    /// mismatches.
    pub refused: Option<Writer>,
}

/// Why a drive cannot be served, as one line.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The image cannot be opened or created.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The profile is invalid.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// The image does not exist and no drive is given.
    #[error("{0}: does not exist; name the drive to create it with")]
    NoDrive(String),
    /// An option needs a drive whose sectors can be overwritten.
    #[error("{0}: --read-mode and --shingle-width need a raw shingled drive; serve one such as swd-160gb")]
    NotShingled(String),
    /// A shingle width without the name of a drive.
    #[error("a shingle width needs the name of the drive: it is fixed when an image is made")]
    WidthOfImage,
    /// The image exists and its checksums differ from those requested.
    #[error(
        "{image}: was created {found} checksums, which cannot be changed; leave out --checksums, or create another image"
    )]
    ChecksumsFixed {
        /// The image.
        image: String,
        /// "with" or "without".
        found: &'static str,
    },
    /// The host buffer cannot be put before the drive.
    #[error("{image}: {source}")]
    HBuffer {
        /// The image.
        image: String,
        /// Why.
        source: HBufferError,
    },
    /// Look-ahead without a model of the drive.
    #[error(
        "--look-ahead needs --timing model: otherwise nothing reads ahead; add it, or leave out --look-ahead"
    )]
    LookAheadUntimed,
    /// Look-ahead of a drive without a read buffer.
    #[error("{0}: has no read buffer, so no look-ahead; leave out --look-ahead on")]
    NoReadBuffer(String),
    /// A system call failed.
    #[error("cannot start the server: {0}; try again when fewer programs run")]
    System(#[from] io::Error),
}

/// A drive that is ready to be served.
pub struct Opened {
    /// The backend.
    pub backend: Arc<dyn Backend>,
    /// Its profile.
    pub profile: Profile,
    /// The image was created just now.
    pub created: bool,
    /// The image was closed cleanly, or is new.
    pub clean: bool,
    /// Redundant structures of the image that were damaged and have been repaired, a line each.
    pub mended: Vec<String>,
    /// Whether the volatile write cache is on.
    pub write_cache: bool,
    /// The files that were created.
    pub new_files: NewFiles,
}

/// The files that a server created for its image, so that a start that fails can leave none behind.
#[derive(Clone, Default)]
pub struct NewFiles(Vec<PathBuf>);

impl NewFiles {
    /// The files that exist in the places of a plan.
    fn existing(plan: &Plan) -> Vec<PathBuf> {
        let places = [Some(&plan.image), plan.cache_on.as_ref()];
        places.into_iter().flatten().flat_map(|path| FileStore::existing(path)).collect()
    }

    /// Those that have come since `before`.
    fn since(before: &[PathBuf], plan: &Plan) -> Self {
        Self(Self::existing(plan).into_iter().filter(|path| !before.contains(path)).collect())
    }

    /// Removes them.
    pub fn remove(&self) {
        for path in &self.0 {
            // The error to report is that of the start.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Whether no part of an image is on a block device.
fn in_files(plan: &Plan) -> bool {
    !is_block_device(&plan.image) && !plan.cache_on.as_deref().is_some_and(is_block_device)
}

/// Checks that the image has checksums as requested.
fn check_checksums(plan: &Plan, image: &Image) -> Result<(), OpenError> {
    let has = image.has_checksums();
    if plan.checksums.is_none_or(|asked| asked == has) {
        return Ok(());
    }
    let found = if has { "with" } else { "without" };
    Err(OpenError::ChecksumsFixed { image: plan.image.display().to_string(), found })
}

fn open_image(plan: &Plan) -> Result<(Image, bool), OpenError> {
    let options = Options {
        write_cache: plan.write_cache.unwrap_or_else(|| plan.profile.as_ref().is_some_and(has_write_cache)),
        overwrite: plan.overwrite,
        cache_on: plan.cache_on.clone(),
        checksums: plan.checksums.unwrap_or(plan.timing == Timing::Model && in_files(plan)),
        // Over a raw disk every access takes the time that it takes in the drive.
        every_access: plan.timing == Timing::Native,
        ..Options::default()
    };
    match &plan.profile {
        Some(profile) => Ok(Image::open_or_create(&plan.image, profile, &options)?),
        None if !plan.image.try_exists()? => Err(OpenError::NoDrive(plan.image.display().to_string())),
        None => Ok((Image::open(&plan.image, &options)?, false)),
    }
}

/// Piece size of long writes, bytes. Where every sector is written in place and nothing is durable before a
/// flush, pieces may be small. A journal writes one entry per piece, and filters must see whole commands.
fn write_piece(plan: &Plan, profile: &Profile, write_cache: bool) -> usize {
    let in_place = matches!(profile.layer, Layer::Conventional(_) | Layer::Ssd(_));
    let filters = plan.faults.is_some() || plan.log.is_some() || plan.delays.is_some();
    // A model and a disk underneath depend on the length of commands.
    let timed = plan.timing != Timing::None;
    if in_place && write_cache && !filters && !timed { SMALL_PIECE_BYTES } else { PIECE_BYTES }
}

fn has_write_cache(profile: &Profile) -> bool {
    profile.interface.write_cache_on
}

/// Applies the requested shingle width to the profile, which becomes part of the image.
fn apply_shingle_width(plan: &mut Plan) -> Result<(), OpenError> {
    let Some(width_tracks) = plan.width_tracks else { return Ok(()) };
    let profile = plan.profile.as_ref().ok_or(OpenError::WidthOfImage)?;
    let wider = profile.with_width_tracks(width_tracks)?;
    plan.profile = Some(wider.ok_or_else(|| OpenError::NotShingled(profile.name.clone()))?);
    Ok(())
}

fn set_read_mode(plan: &Plan, profile: &Profile, image: &mut Image) -> Result<(), OpenError> {
    let Some(name) = plan.read_mode else { return Ok(()) };
    let disk = image.overwriting().ok_or_else(|| OpenError::NotShingled(profile.name.clone()))?;
    disk.set_mode(name.mode());
    Ok(())
}

/// Also sends reports about overwritten sectors, checksum mismatches and a stopped image to the sink of the plan.
fn report_errors(shingles: Option<Arc<Shingles>>, image_errors: &ImageErrors, plan: &mut Plan) {
    let Some(sink) = plan.refused.take() else { return };
    let sink = Arc::new(Mutex::new(sink));
    let shared = |sink: Arc<Mutex<Writer>>| -> Writer {
        Box::new(move |line| sink.lock().unwrap_or_else(PoisonError::into_inner)(line))
    };
    image_errors.report_to(shared(sink.clone()));
    if let Some(shingles) = shingles {
        shingles.tell_also(shared(sink));
    }
}

/// Checks that the drive can have look-ahead as requested, as far as its profile is known.
fn check_look_ahead(plan: &Plan, profile: Option<&Profile>) -> Result<(), OpenError> {
    if plan.look_ahead.is_some() && plan.timing != Timing::Model {
        return Err(OpenError::LookAheadUntimed);
    }
    match profile {
        Some(profile) if plan.look_ahead == Some(true) && profile.interface.read_buffer.get() == 0 => {
            Err(OpenError::NoReadBuffer(profile.name.clone()))
        }
        _ => Ok(()),
    }
}

/// Opens the drive that a plan describes.
///
/// # Errors
/// See [`OpenError`].
pub fn open(mut plan: Plan) -> Result<Opened, OpenError> {
    apply_shingle_width(&mut plan)?;
    if plan.checksums == Some(true) && !in_files(&plan) {
        return Err(ImageError::ChecksumsOnDevice(plan.image).into());
    }
    check_look_ahead(&plan, plan.profile.as_ref())?;
    let before = NewFiles::existing(&plan);
    let (image, created) = open_image(&plan)?;
    // What another server has created meanwhile is not ours.
    let new_files = if created { NewFiles::since(&before, &plan) } else { NewFiles::default() };
    let opened = served(plan, image, created);
    opened.map(|opened| Opened { new_files: new_files.clone(), ..opened }).inspect_err(|_| new_files.remove())
}

/// The drive of an image that was opened.
fn served(mut plan: Plan, mut image: Image, created: bool) -> Result<Opened, OpenError> {
    check_checksums(&plan, &image)?;
    let clean = image.status().recovery.clean;
    let mended = image.mended().to_vec();
    let profile = match plan.profile.take() {
        Some(profile) => profile,
        None => Profile::from_toml(image.profile_text(), &plan.image.display().to_string())?,
    };
    check_look_ahead(&plan, Some(&profile))?;
    let write_cache = plan.write_cache.unwrap_or_else(|| has_write_cache(&profile));
    image.set_write_cache(write_cache)?;
    set_read_mode(&plan, &profile, &mut image)?;
    let rotational = !matches!(profile.layer, Layer::Ssd(_));
    let description = format!("{}; {}", profile.summary, plan.timing.sentence());
    let write_piece = write_piece(&plan, &profile, write_cache);
    let shape = Shape {
        rotational,
        description,
        write_piece,
        ..Shape::drive(profile.name.clone(), image.capacity_bytes())
    };
    let (backend, write_cache): (Arc<dyn Backend>, bool) = match plan.timing {
        Timing::None | Timing::Native => {
            let served = ServedImage::new(image, shape, plan.timing.name())?;
            let served = if plan.timing == Timing::Native { served.concurrent() } else { served };
            report_errors(served.shingles(), served.image_errors(), &mut plan);
            (Arc::new(served), write_cache)
        }
        Timing::Model => {
            let (layer, interpreter) = image.into_parts();
            let mut drive = Drive::with_layer(&profile, layer, plan.seed)?;
            let write_cache = drive.set_write_cache(write_cache);
            if let Some(on) = plan.look_ahead {
                drive.set_look_ahead(on);
            }
            let timed = TimedDrive::new(drive, interpreter, shape)?;
            report_errors(timed.shingles(), timed.image_errors(), &mut plan);
            (Arc::new(timed), write_cache)
        }
    };
    let backend = buffered(backend, &plan)?;
    let backend = filtered(backend, plan)?;
    Ok(Opened { backend, profile, created, clean, mended, write_cache, new_files: NewFiles::default() })
}

fn buffered(drive: Arc<dyn Backend>, plan: &Plan) -> Result<Arc<dyn Backend>, OpenError> {
    let Some(hbuffer) = &plan.hbuffer else { return Ok(drive) };
    let buffered = HBuffered::new(drive, hbuffer);
    let error = |source| OpenError::HBuffer { image: plan.image.display().to_string(), source };
    Ok(Arc::new(buffered.map_err(error)?))
}

fn filtered(mut backend: Arc<dyn Backend>, plan: Plan) -> io::Result<Arc<dyn Backend>> {
    if let Some(faults) = plan.faults {
        backend = Arc::new(FaultInjector::new(backend, faults));
    }
    if let Some(delays) = plan.delays {
        backend = Arc::new(Delay::new(backend, delays)?);
    }
    if let Some(sink) = plan.log {
        backend = Arc::new(Log::new(backend, sink)?);
    }
    Ok(backend)
}
