//! Random drives: plausible profiles, one per seed, that no test is tuned to.
//!
//! The suite is scored on them (`docs/random-drives.md`), and [`crate::truth`] gives the correct findings. A
//! random profile is TOML like any other: it can be stored, read and changed.
//!
//! * [`ranges`]: the table of all ranges and probabilities.
//! * [`conditions`]: what a host meets besides the drive, with a table of its own.
//! * `draw`: a named stream of random numbers for each property.
//! * `hardware`, `layers`, `zoned`: the drive, within physical limits; `text` writes it.
//!
//! Invariants: the same seed and kind give the same bytes; every returned text builds a drive; a seed with a
//! drawn kind gives the same text as with this kind requested.
//!
//! ```
//! use skylight_drive::random::{Kind, random_profile};
//! let text = random_profile(7, Some(Kind::Journaled))?;
//! assert!(text.starts_with("# skylight drives random --seed 7 --kind journaled\n"));
//! assert_eq!(text, random_profile(7, Some(Kind::Journaled))?);
//! # Ok::<(), skylight_drive::profile::ProfileError>(())
//! ```

pub mod conditions;
mod draw;
mod hardware;
mod layers;
pub mod ranges;
mod text;
mod zoned;

use std::str::FromStr;

use crate::drive::Drive;
use crate::profile::{Profile, ProfileError};
pub use conditions::random_conditions;
use draw::Draws;
use hardware::Body;
use text::Text;

/// Maximum number of times that the platters grow when the layer does not fit.
const TRIES: u32 = 12;
/// Growth factor of each try.
const GROWTH: f64 = 1.04;

/// The kinds of random drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A disk without a translation layer.
    Conventional,
    /// Flash only.
    Ssd,
    /// Emulated-SMR-1 and -2 of the paper.
    SetAssociative,
    /// Emulated-SMR-3 of the paper.
    FullyAssociative,
    /// The Seagate drives of the paper.
    Journaled,
    /// Zones that the host writes in order.
    HostManaged,
    /// Zones that the host may write anywhere.
    HostAware,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Conventional,
        Self::Ssd,
        Self::SetAssociative,
        Self::FullyAssociative,
        Self::Journaled,
        Self::HostManaged,
        Self::HostAware,
    ];

    /// The name, as in `layer.kind`, or of drives with zones as in `layer.model`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Conventional => "conventional",
            Self::Ssd => "ssd",
            Self::SetAssociative => "set-associative",
            Self::FullyAssociative => "fully-associative",
            Self::Journaled => "journaled",
            Self::HostManaged => "host-managed",
            Self::HostAware => "host-aware",
        }
    }

    /// Draws the kind for a seed. Drives with zones have to be asked for: they came later, and a seed keeps its drive.
    fn drawn(draws: Draws) -> Self {
        let at = draws.unit("kind");
        let (conventional, ssd) = (ranges::KIND_CONVENTIONAL.part, ranges::KIND_SSD.part);
        if at < conventional {
            return Self::Conventional;
        }
        if at < conventional + ssd {
            return Self::Ssd;
        }
        draws.choice("kind.shingled", &[Self::SetAssociative, Self::FullyAssociative, Self::Journaled])
    }
}

/// A word that is not a kind of drive.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not a kind of drive; use conventional, ssd, set-associative, fully-associative, journaled, \
     host-managed or host-aware"
)]
pub struct UnknownKind(String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(|| UnknownKind(name.to_owned()))
    }
}

/// The profile of a seed as text, with the requested kind or a drawn one.
///
/// # Errors
/// If no such drive can be built; no such seed is known.
pub fn random_profile(seed: u64, kind: Option<Kind>) -> Result<String, ProfileError> {
    random_drive(seed, kind).map(|random| random.text)
}

/// A random profile, as text and as read from it.
#[derive(Clone, Debug)]
pub struct RandomDrive {
    /// The TOML text.
    pub text: String,
    /// The parsed profile.
    pub profile: Profile,
}

/// The profile of a seed, with the requested kind or a drawn one.
///
/// # Errors
/// As [`random_profile`].
pub fn random_drive(seed: u64, kind: Option<Kind>) -> Result<RandomDrive, ProfileError> {
    let draws = Draws { seed };
    let kind = kind.unwrap_or_else(|| Kind::drawn(draws));
    let body = Body::draw(draws);
    let mut scale = 1.0;
    let mut tries = 0;
    loop {
        let text = written(&body, kind, scale);
        // Only the builder knows where bands, guards and regions lie; if it rejects a profile, the platters
        // grow.
        let read = Profile::from_toml(&text, &format!("seed {seed}"));
        match read.and_then(|profile| Drive::new(&profile, 0).map(|_| profile)) {
            Ok(profile) => return Ok(RandomDrive { text, profile }),
            Err(error) if tries == TRIES => return Err(error),
            Err(_) => {}
        }
        tries += 1;
        scale *= GROWTH;
    }
}

fn written(body: &Body, kind: Kind, scale: f64) -> String {
    let layer = match kind {
        Kind::Conventional => layers::conventional(body),
        Kind::Ssd => layers::ssd(),
        Kind::SetAssociative => layers::set_associative(body),
        Kind::FullyAssociative => layers::fully_associative(body),
        Kind::Journaled => layers::journaled(body, |bytes| body.size_for(bytes)),
        Kind::HostManaged | Kind::HostAware => zoned::zoned(body, kind.name()),
    };
    let seed = body.draws.seed;
    let mut text = Text::default();
    text.comment(&format!("skylight drives random --seed {seed} --kind {}", kind.name()));
    text.key("schema", 1);
    text.word("name", format!("random-{seed}-{}", kind.name()));
    text.word("summary", format!("random drive, seed {seed}: {}", kind.name()));
    text.word("capacity", body.capacity);
    if kind == Kind::Ssd {
        write_no_platters(&mut text);
    } else {
        body.write(body.size_for(layer.platters * scale), kind != Kind::Conventional, &mut text);
    }
    body.write_interface(layer.write_cache_runs, &mut text);
    if layer.flash {
        body.write_flash(&mut text);
    }
    body.write_jitter(&mut text);
    text.append(&layer.text);
    text.into_string()
}

/// The schema requires platters; an SSD gets the smallest possible.
fn write_no_platters(text: &mut Text) {
    text.section("[mechanics]");
    text.comment("A profile has platters; no command of this drive reaches them.");
    text.key("rpm", 5400);
    text.word("head_switch", "0 ms");
    text.key("seek", "{ points = [[1, \"1 ms\"]] }");
    text.section("[geometry]");
    text.key("surfaces", 1);
    text.word("layout", "cylinder");
    text.word("track_skew", "0 ms");
    text.word("head_skew", "0 ms");
    text.key("zone", "[{ tracks = 1, sectors_per_track = 1024 }]");
}
