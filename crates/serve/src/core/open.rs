//! From a drive and a place to a backend: makes or opens the image, and puts the clock and the filters before it.
//!
//! Invariant: an image that exists is opened, never made again; what is on a device is overwritten only if that
//! was asked for.

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use skylight_drive::Drive;
use skylight_drive::profile::{Layer, Profile, ProfileError};
use skylight_image::store::device::is_block_device;
use skylight_image::{Image, ImageError, Options};

use super::checksum_errors::ChecksumErrors;
use super::filters::delay::{Delay, Delays};
use super::filters::error::{Failing, Faults};
use super::filters::log::{Log, Sink};
use super::served::ServedImage;
use super::shingled::{ReadModeName, Shingles};
use super::timed::TimedDrive;
use super::{Backend, PIECE_BYTES, Shape};

/// Small enough that what was received is still in the cache of the processor when it is written.
const SMALL_PIECE: usize = 128 << 10;

/// Who says when a command is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Timing {
    /// Nobody: as fast as it goes.
    None,
    /// The model of the drive.
    Model,
    /// The medium underneath: a raw conventional disk.
    Native,
}

impl Timing {
    /// The timing of a name.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "none" => Some(Self::None),
            "model" => Some(Self::Model),
            "native" => Some(Self::Native),
            _ => None,
        }
    }

    /// What it means for a client, for the description of the drive.
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

/// What is to be served, and how.
pub struct Plan {
    /// The drive; none for the one in the image.
    pub profile: Option<Profile>,
    /// The file or block device of the image.
    pub image: PathBuf,
    /// Where the flash lies, if not with the rest.
    pub cache_on: Option<PathBuf>,
    /// Who says when.
    pub timing: Timing,
    /// Whether writes are answered before they are durable; as the profile says if none.
    pub write_cache: Option<bool>,
    /// Whether the image has checksums of its data, which is fixed when it is made; where they cost little if none: in a
    /// file, in model time.
    pub checksums: Option<bool>,
    /// What is on a device may be lost.
    pub overwrite: bool,
    /// Of the drive's jitter.
    pub seed: u64,
    /// Filter: answers later; delays of zero may be raised while it runs.
    pub delays: Option<Delays>,
    /// Filter: fails some.
    pub faults: Option<Faults>,
    /// Filter: says what was asked.
    pub log: Option<Sink>,
    /// What reads of overwritten sectors of a raw shingled disk give, if not what the profile says.
    pub read_mode: Option<ReadModeName>,
    /// Tracks that a write of a raw shingled disk covers, if not what the profile says.
    pub width_tracks: Option<u32>,
    /// Takes the lines of reads that were refused, beside standard error, and of data that is not what was written.
    pub refused: Option<Sink>,
}

/// Why nothing can be served, as one line.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The image.
    #[error(transparent)]
    Image(#[from] ImageError),
    /// The drive.
    #[error(transparent)]
    Profile(#[from] ProfileError),
    /// Neither an image nor a drive to make one of.
    #[error("{0}: does not exist; name the drive that it is to be")]
    NoDrive(String),
    /// A raw shingled disk was asked for, and it is none.
    #[error("{0}: --read-mode and --shingle-width need a raw shingled drive; serve one such as swd-160gb")]
    NotShingled(String),
    /// A width for a disk that is named by its image alone.
    #[error("a shingle width needs the name of the drive: it is fixed when an image is made")]
    WidthOfImage,
    /// An image that is there has checksums, or has not, for good.
    #[error(
        "{image}: was made {found} checksums, for good; leave out --checksums, or name a file that does not exist yet"
    )]
    ChecksumsFixed {
        /// The image.
        image: String,
        /// "with" or "without".
        found: &'static str,
    },
    /// What the system says.
    #[error("cannot begin to serve: {0}; try again when less is running")]
    System(#[from] io::Error),
}

/// A drive that is open, and what there is to say about it.
pub struct Opened {
    /// What to serve.
    pub backend: Arc<dyn Backend>,
    /// Its profile.
    pub profile: Profile,
    /// The image was made just now.
    pub created: bool,
    /// The image had been closed in order, or is new.
    pub clean: bool,
    /// What of the image was damaged, was there twice, and was mended: a line each.
    pub mended: Vec<String>,
    /// Whether writes are answered before they are durable.
    pub write_cache: bool,
}

/// Whether no part of an image lies on a block device.
fn in_files(plan: &Plan) -> bool {
    !is_block_device(&plan.image) && !plan.cache_on.as_deref().is_some_and(is_block_device)
}

/// An image is as it was asked for.
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
        // A raw disk takes its time for all that the drive would do.
        every_access: plan.timing == Timing::Native,
        ..Options::default()
    };
    match &plan.profile {
        Some(profile) => Ok(Image::open_or_create(&plan.image, profile, &options)?),
        None if !plan.image.try_exists()? => Err(OpenError::NoDrive(plan.image.display().to_string())),
        None => Ok((Image::open(&plan.image, &options)?, false)),
    }
}

/// Bytes of a long write that are done at once. Where every sector is written at its own place and nothing is
/// durable before a flush, parts are as good as the whole; a journal makes one entry of what comes at once, and
/// filters are to see whole commands.
fn write_piece(plan: &Plan, profile: &Profile, write_cache: bool) -> usize {
    let in_place = matches!(profile.layer, Layer::Conventional(_) | Layer::Ssd(_));
    let filters = plan.faults.is_some() || plan.log.is_some() || plan.delays.is_some();
    // A model, and a disk underneath, mind how long a command is.
    let timed = plan.timing != Timing::None;
    if in_place && write_cache && !filters && !timed { SMALL_PIECE } else { PIECE_BYTES }
}

fn has_write_cache(profile: &Profile) -> bool {
    profile.interface.write_cache_on
}

/// Puts the shingle width into the profile: it is the image's then.
fn widen(plan: &mut Plan) -> Result<(), OpenError> {
    let Some(width_tracks) = plan.width_tracks else { return Ok(()) };
    let profile = plan.profile.as_ref().ok_or(OpenError::WidthOfImage)?;
    let wider = profile.with_width_tracks(width_tracks)?;
    plan.profile = Some(wider.ok_or_else(|| OpenError::NotShingled(profile.name.clone()))?);
    Ok(())
}

fn set_read_mode(plan: &Plan, profile: &Profile, image: &mut Image) -> Result<(), OpenError> {
    let Some(name) = plan.read_mode else { return Ok(()) };
    let disk = image.overwriting().ok_or_else(|| OpenError::NotShingled(profile.name.clone()))?;
    disk.set_mode(name.mode(profile.overwritten_pattern()));
    Ok(())
}

/// Reports refused reads, of overwritten sectors and for checksums, there too.
fn report_also(shingles: Option<Arc<Shingles>>, checksum_errors: &ChecksumErrors, plan: &mut Plan) {
    let Some(sink) = plan.refused.take() else { return };
    let sink = Arc::new(Mutex::new(sink));
    let shared = |sink: Arc<Mutex<Sink>>| -> Sink {
        Box::new(move |line| sink.lock().unwrap_or_else(PoisonError::into_inner)(line))
    };
    checksum_errors.report_to(shared(sink.clone()));
    if let Some(shingles) = shingles {
        shingles.tell_also(shared(sink));
    }
}

/// Opens what a plan says.
///
/// # Errors
/// See [`OpenError`].
pub fn open(mut plan: Plan) -> Result<Opened, OpenError> {
    widen(&mut plan)?;
    if plan.checksums == Some(true) && !in_files(&plan) {
        return Err(ImageError::ChecksumsOnDevice(plan.image).into());
    }
    let (mut image, created) = open_image(&plan)?;
    check_checksums(&plan, &image)?;
    let clean = image.status().recovery.clean;
    let mended = image.mended().to_vec();
    let profile = match plan.profile.take() {
        Some(profile) => profile,
        None => Profile::from_toml(image.profile_text(), &plan.image.display().to_string())?,
    };
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
            let served = if plan.timing == Timing::Native { served.beside() } else { served };
            report_also(served.shingles(), served.checksum_errors(), &mut plan);
            (Arc::new(served), write_cache)
        }
        Timing::Model => {
            let (layer, interpreter) = image.into_parts();
            let mut drive = Drive::with_layer(&profile, layer, plan.seed)?;
            let write_cache = drive.set_write_cache(write_cache);
            let timed = TimedDrive::new(drive, interpreter, shape)?;
            report_also(timed.shingles(), timed.checksum_errors(), &mut plan);
            (Arc::new(timed), write_cache)
        }
    };
    let backend = filtered(backend, plan)?;
    Ok(Opened { backend, profile, created, clean, mended, write_cache })
}

fn filtered(mut backend: Arc<dyn Backend>, plan: Plan) -> io::Result<Arc<dyn Backend>> {
    if let Some(faults) = plan.faults {
        backend = Arc::new(Failing::new(backend, faults));
    }
    if let Some(delays) = plan.delays {
        backend = Arc::new(Delay::new(backend, delays)?);
    }
    if let Some(sink) = plan.log {
        backend = Arc::new(Log::new(backend, sink)?);
    }
    Ok(backend)
}
