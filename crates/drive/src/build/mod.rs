//! Builds drives from profiles: everything that needs the arithmetic of the geometry.
//!
//! * `geometry`: the tracks.
//! * `regions`: placement of caches, maps and bands on the tracks.
//! * `patience`: how much a drive cleans while a host waits.
//! * `layers`: the translation layers; `host_aware`, what host-aware drives have besides their zones.
//!
//! Invariants: every host sector and every part of a cache has a location on the platters or on flash, and no
//! two share one; what does not fit is rejected with the key to change.

mod geometry;
#[cfg(test)]
mod guard_track_tests;
mod host_aware;
mod layers;
mod patience;
mod regions;

use skylight_disk::layout::RecordingZone;
use skylight_disk::{Disk, Mechanics, Nanos, PbaExtent, Rotation, SECTOR_BYTES, Sectors, SeekCurve};
use skylight_layer::Layer;

use crate::drive::{Drive, HostInterface};
use crate::jitter::{Jitter, JitterSpec};
use crate::media_timing::FlashSpeed;
use crate::profile::{self, Profile, ProfileError};

impl Drive {
    /// Builds the drive of a profile; `seed` is for its jitter.
    ///
    /// # Errors
    /// If the platters are too small for the capacity and the cache, or the geometry is invalid.
    pub fn new(profile: &Profile, seed: u64) -> Result<Self, ProfileError> {
        Self::with_layer(profile, layer(profile)?, seed)
    }

    /// Builds the drive of a profile around an existing layer of the same profile.
    ///
    /// # Errors
    /// If the geometry is invalid.
    pub fn with_layer(profile: &Profile, layer: Box<dyn Layer>, seed: u64) -> Result<Self, ProfileError> {
        let mechanics = mechanics(profile);
        let (geometry, _) = geometry::build(profile, &mechanics)?;
        let jitter = jitter(profile);
        let flash = profile
            .flash
            .as_ref()
            .map(|flash| FlashSpeed::new(flash.read.nanos(), flash.write.nanos(), flash.bandwidth.0));
        let jitter = (!jitter.is_none()).then(|| Jitter::new(jitter, seed));
        Ok(Self::assemble(Disk::new(geometry, mechanics), flash, layer, interface(profile), jitter))
    }
}

/// Builds only the translation layer of a profile.
///
/// # Errors
/// As [`Drive::new`].
pub fn layer(profile: &Profile) -> Result<Box<dyn Layer>, ProfileError> {
    let mechanics = mechanics(profile);
    let (geometry, tracks) = geometry::build(profile, &mechanics)?;
    layers::build(profile, &mechanics, &geometry, &tracks)
}

/// The region of the medium that the log of a journaled drive goes round in.
pub(crate) fn journal_region(
    profile: &Profile,
    keys: &profile::Journaled,
) -> Result<PbaExtent, ProfileError> {
    let mechanics = mechanics(profile);
    let (_, tracks) = geometry::build(profile, &mechanics)?;
    Ok(layers::journaled(profile, keys, &mechanics, &tracks)?.journal.region)
}

/// The recording zones of a profile, from the outer diameter inwards, with the tracks of each surface.
pub fn recording_zones(profile: &Profile) -> Vec<RecordingZone> {
    geometry::recording_zones(profile)
}

/// Converts a size, which the profile check guarantees to be whole blocks.
fn sectors(size: profile::Bytes) -> Sectors {
    Sectors(size.get() / SECTOR_BYTES)
}

/// The idle time before a drive cleans.
fn idle_after(cleaning: profile::CleaningType, idle: Option<profile::Duration>) -> Option<Nanos> {
    idle.filter(|_| cleaning == profile::CleaningType::Aggressive).map(profile::Duration::nanos)
}

fn interface(profile: &Profile) -> HostInterface {
    let given = &profile.interface;
    HostInterface {
        positioning_window: profile.interface.positioning_window as usize,
        queue_depth: given.queue_depth as usize,
        schedule: given.schedule,
        command_overhead: given.command_overhead.nanos(),
        host_gap: given.host_gap.nanos(),
        write_cache: sectors(given.write_cache),
        write_cache_runs: given.write_cache_runs.map(|runs| runs as usize),
        write_cache_on: given.write_cache_on,
        write_back: given.write_back,
        positioning_error: given.positioning_error,
        write_back_after: given.write_back_after.map(profile::Duration::nanos),
        write_back_pass: given.write_back_pass as usize,
        write_back_error: given.write_back_error,
        write_back_pause: given.write_back_pause.nanos(),
        write_back_hand_over: given.write_back_hand_over.nanos(),
        write_back_gather: given.write_back_gather.nanos(),
        transfer_rate: given.transfer_rate.map(|rate| rate.0),
        read_buffer: sectors(given.read_buffer),
        look_ahead: given.look_ahead,
        park_when_idle: given.park_when_idle,
    }
}

fn jitter(profile: &Profile) -> JitterSpec {
    JitterSpec {
        relative: profile.jitter.relative,
        absolute_ns: profile.jitter.absolute.nanos().get(),
        outlier_rate: profile.jitter.outlier_rate,
        outlier_ns: profile.jitter.outlier.nanos().get(),
    }
}

fn mechanics(profile: &Profile) -> Mechanics {
    let given = &profile.mechanics;
    let seek = match &given.seek.fitted {
        Some(fitted) => SeekCurve::Fitted {
            constant_ns: fitted.constant.ns(),
            root_ns: fitted.root.ns(),
            linear_ns: fitted.linear.ns(),
        },
        None => SeekCurve::Points(
            given.seek.points.iter().map(|p| (p.0 as u32, p.1.nanos().get() as u32)).collect(),
        ),
    };
    Mechanics {
        rotation: Rotation::new(given.rotation().ns()),
        seek,
        head_switch: given.head_switch.nanos(),
        write_settle: given.write_settle.nanos(),
        zero_latency: given.zero_latency,
    }
}
