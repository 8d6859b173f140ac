//! From a profile to a drive: what needs the arithmetic of the geometry.
//!
//! Invariants: every sector that the host sees and every cache band has a place on the platters (or on
//! flash); what does not fit is refused with the key to change.

use skylight_disk::layout::{RecordingZone, Skews, segments};
use skylight_disk::{
    Angle, Disk, Geometry, Layout, Mechanics, Nanos, Pba, Rotation, SECTOR_BYTES, Sectors, SeekCurve,
};
use skylight_layer::{Conventional, Layer, Medium, SetAssociative, SetAssociativeSpec};

use crate::drive::{Drive, FlashSpeed, HostInterface};
use crate::jitter::{Jitter, JitterSpec};
use crate::profile::{self, CacheLocation, CacheMedium, Profile, ProfileError};

impl Drive {
    /// Builds the drive of a profile; `seed` is that of its jitter.
    ///
    /// # Errors
    /// When the platters do not hold the capacity and the cache, or the geometry is no disk.
    pub fn new(profile: &Profile, seed: u64) -> Result<Self, ProfileError> {
        let mechanics = mechanics(profile);
        let geometry = geometry(profile, &mechanics)?;
        let layer = layer(profile, geometry.capacity())?;
        let jitter = jitter(profile);
        let interface = HostInterface {
            queue_depth: profile.interface.queue_depth as usize,
            schedule: profile.interface.schedule,
            command_overhead: profile.interface.command_overhead.nanos(),
            host_gap: profile.interface.host_gap.nanos(),
        };
        let flash = profile
            .flash
            .as_ref()
            .map(|flash| FlashSpeed::new(flash.read.nanos(), flash.write.nanos(), flash.bandwidth.0));
        let jitter = (!jitter.is_none()).then(|| Jitter::new(jitter, seed));
        Ok(Self::assemble(Disk::new(geometry, mechanics), flash, layer, interface, jitter))
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
            given.seek.points.iter().map(|p| (p.tracks as u32, p.time.nanos().get() as u32)).collect(),
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

/// The recording zones of a taper: equal widths, sectors falling evenly with the radius.
fn taper_zones(taper: &profile::Taper) -> Vec<RecordingZone> {
    let zones = u64::from(taper.zones);
    let (outer, inner) = (f64::from(taper.outer_sectors_per_track), f64::from(taper.inner_sectors_per_track));
    let last = f64::from(taper.zones.max(2) - 1);
    (0..zones)
        .map(|zone| RecordingZone {
            tracks: ((zone + 1) * taper.tracks / zones - zone * taper.tracks / zones) as u32,
            sectors_per_track: (outer + (inner - outer) * zone as f64 / last).round() as u32,
        })
        .collect()
}

fn geometry(profile: &Profile, mechanics: &Mechanics) -> Result<Geometry, ProfileError> {
    let given = &profile.geometry;
    let zones = match &given.taper {
        Some(taper) => taper_zones(taper),
        None => given
            .zone
            .iter()
            .map(|z| RecordingZone { tracks: z.tracks as u32, sectors_per_track: z.sectors_per_track })
            .collect(),
    };
    let surfaces = given.surfaces as u16;
    let group_tracks = given.group_tracks.unwrap_or(1) as u32;
    let layout = match given.layout {
        profile::Layout::Cylinder => Layout::Cylinder,
        profile::Layout::CylinderSerpentine => Layout::CylinderSerpentine,
        profile::Layout::SurfaceSerpentine => Layout::SurfaceSerpentine,
        profile::Layout::HybridSerpentine => Layout::HybridSerpentine { group_tracks },
        profile::Layout::HorizontalZones => Layout::HorizontalZones,
    };
    let as_angle = |time: Nanos| mechanics.rotation.angle_in(time);
    let skews = Skews {
        track: as_angle(given.track_skew.nanos()),
        head: as_angle(given.head_skew.nanos()),
        group: group_skew(profile, mechanics, group_tracks, surfaces),
    };
    let place = if given.taper.is_some() { "geometry.taper" } else { "geometry.zone" };
    Geometry::new(&segments(layout, &zones, surfaces, skews))
        .map_err(|error| profile.error_at(place, &error.to_string()))
}

/// Skew to the next group of a hybrid serpentine: what the arm needs for it, as a drive maker would choose.
fn group_skew(profile: &Profile, mechanics: &Mechanics, group_tracks: u32, surfaces: u16) -> Angle {
    let jump = if surfaces.is_multiple_of(2) { group_tracks } else { 1 };
    let needed = mechanics.seek.time(jump) + mechanics.write_settle;
    let turn = mechanics.rotation.turn();
    let skew = needed.get().max(profile.geometry.track_skew.nanos().get()) % turn.get();
    mechanics.rotation.angle_in(Nanos(skew))
}

fn layer(profile: &Profile, platters: Sectors) -> Result<Box<dyn Layer>, ProfileError> {
    let capacity = Sectors(profile.capacity.0 / SECTOR_BYTES);
    match &profile.layer {
        profile::Layer::Conventional(_) => {
            fits(profile, "capacity", capacity, platters)?;
            Ok(Box::new(Conventional::new(capacity)))
        }
        profile::Layer::SetAssociative(keys) => {
            let spec = set_associative(profile, keys, capacity, platters)?;
            Ok(Box::new(SetAssociative::new(spec)))
        }
    }
}

fn set_associative(
    profile: &Profile,
    keys: &profile::SetAssociative,
    capacity: Sectors,
    platters: Sectors,
) -> Result<SetAssociativeSpec, ProfileError> {
    let band = Sectors(keys.band.0 / SECTOR_BYTES);
    let cache_bands = keys.cache.0 / keys.band.0;
    let cache = Sectors(cache_bands * band.get());
    let on_disk = keys.cache_medium == CacheMedium::Disk;
    let needed = if on_disk { capacity + cache } else { capacity };
    fits(profile, if on_disk { "layer.cache" } else { "capacity" }, needed, platters)?;
    // Native data lies around the cache, so a cache in the middle begins between two bands.
    let band_at = |sectors: u64| sectors / band.get() * band.get();
    let cache_start = match keys.cache_location {
        None | Some(CacheLocation::Od) => 0,
        Some(CacheLocation::Md) => band_at(capacity.get() / 2),
        Some(CacheLocation::Id) => platters.get() - cache.get(),
    };
    Ok(SetAssociativeSpec {
        capacity,
        band,
        cache_bands,
        cache_medium: if on_disk { Medium::Platter } else { Medium::Flash },
        cache_start: Pba(cache_start),
    })
}

fn fits(profile: &Profile, key: &str, needed: Sectors, platters: Sectors) -> Result<(), ProfileError> {
    if needed <= platters {
        return Ok(());
    }
    let message = format!(
        "needs {} on the platters, and the tracks of [geometry] hold {}; give them more, or the drive less",
        profile::Bytes(needed.bytes()),
        profile::Bytes(platters.bytes())
    );
    Err(profile.error_at(key, &message))
}
