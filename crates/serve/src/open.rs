//! From a drive and a place to a backend: makes or opens the image, and puts the clock and the filters before it.
//!
//! Invariant: an image that exists is opened, never made again; what is on a device is overwritten only if that
//! was asked for.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use skylight_drive::Drive;
use skylight_drive::profile::{Layer, Profile, ProfileError};
use skylight_image::{Image, ImageError, Options};

use crate::backend::{Backend, Shape};
use crate::filters::delay::{Delay, Delays};
use crate::filters::error::{Failing, Faults};
use crate::filters::log::{Log, Sink};
use crate::served::ServedImage;
use crate::timed::TimedDrive;

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
    /// What is on a device may be lost.
    pub overwrite: bool,
    /// Of the drive's jitter.
    pub seed: u64,
    /// Filter: answers later.
    pub delays: Delays,
    /// Filter: fails some.
    pub faults: Option<Faults>,
    /// Filter: says what was asked.
    pub log: Option<Sink>,
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
    /// Whether writes are answered before they are durable.
    pub write_cache: bool,
}

fn open_image(plan: &Plan) -> Result<(Image, bool), OpenError> {
    let options = Options {
        write_cache: plan.write_cache.unwrap_or_else(|| plan.profile.as_ref().is_some_and(has_write_cache)),
        overwrite: plan.overwrite,
        cache_on: plan.cache_on.clone(),
        profile: plan.profile.clone(),
        ..Options::default()
    };
    let there = plan.image.try_exists()?;
    let opened = if there {
        Image::open(&plan.image, &options)
    } else {
        Err(ImageError::NotEmpty(plan.image.clone()))
    };
    match (opened, &plan.profile) {
        (Ok(image), _) => Ok((image, false)),
        (Err(ImageError::Foreign(_)), Some(profile)) if plan.overwrite => {
            Ok((Image::create(&plan.image, profile, &options)?, true))
        }
        (Err(_), Some(profile)) if !there => Ok((Image::create(&plan.image, profile, &options)?, true)),
        (Err(_), None) if !there => Err(OpenError::NoDrive(plan.image.display().to_string())),
        (Err(error), _) => Err(error.into()),
    }
}

fn has_write_cache(profile: &Profile) -> bool {
    profile.interface.write_cache_on
}

/// Opens what a plan says.
///
/// # Errors
/// See [`OpenError`].
pub fn open(mut plan: Plan) -> Result<Opened, OpenError> {
    let (mut image, created) = open_image(&plan)?;
    let clean = image.status().recovery.clean;
    let profile = match plan.profile.take() {
        Some(profile) => profile,
        None => Profile::from_toml(image.profile_text(), &plan.image.display().to_string())?,
    };
    let write_cache = plan.write_cache.unwrap_or_else(|| has_write_cache(&profile));
    image.set_write_cache(write_cache)?;
    let rotational = !matches!(profile.layer, Layer::Ssd(_));
    let description = format!("{}, {} timing", profile.summary, plan.timing.name());
    let shape =
        Shape { rotational, description, ..Shape::drive(profile.name.clone(), image.capacity_bytes()) };
    let (backend, write_cache): (Arc<dyn Backend>, bool) = match plan.timing {
        Timing::None | Timing::Native => {
            (Arc::new(ServedImage::new(image, shape, plan.timing.name())?), write_cache)
        }
        Timing::Model => {
            let (layer, interpreter) = image.into_parts();
            let mut drive = Drive::with_layer(&profile, layer, plan.seed)?;
            let write_cache = drive.set_write_cache(write_cache);
            (Arc::new(TimedDrive::new(drive, interpreter, shape)?), write_cache)
        }
    };
    let backend = filtered(backend, plan)?;
    Ok(Opened { backend, profile, created, clean, write_cache })
}

fn filtered(mut backend: Arc<dyn Backend>, plan: Plan) -> io::Result<Arc<dyn Backend>> {
    if let Some(faults) = plan.faults {
        backend = Arc::new(Failing::new(backend, faults));
    }
    if plan.delays != Delays::default() {
        backend = Arc::new(Delay::new(backend, plan.delays)?);
    }
    if let Some(sink) = plan.log {
        backend = Arc::new(Log::new(backend, sink));
    }
    Ok(backend)
}
