//! The tracks of a profile's platters.
//!
//! Invariant: [`Tracks`] match the geometry: contiguous runs in PBA order, each of tracks of equal size.

use skylight_disk::layout::{HorizontalZone, RecordingZone, Skews, Walk, horizontal_segments, segments};
use skylight_disk::{Angle, Geometry, Layout, Mechanics, Nanos, Sectors, SegmentSpec};
use skylight_layer::MAX_ADDRESS;

use crate::profile::{self, Profile, ProfileError};

/// A size for display, rounded up to whole MiB from 64 MiB.
pub(super) fn about(size: Sectors) -> profile::Bytes {
    let (bytes, mib) = (size.bytes(), 1 << 20);
    profile::Bytes(if bytes < 64 * mib { bytes } else { bytes.next_multiple_of(mib) })
}

/// A contiguous part of the platters with tracks of equal size: one pass, or a recording zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Its first sector, at the start of a track.
    pub(super) start: u64,
    /// The first sector after it.
    pub(super) end: u64,
    /// Sectors in a track.
    pub(super) track: u64,
    /// Number of surfaces.
    pub(super) surfaces: u64,
    /// Tracks on one surface before the run continues on the next.
    pub(super) group_tracks: u64,
}

impl Run {
    /// Sectors between two radially adjacent tracks of a surface: a track, or a cylinder.
    pub(super) fn radial_step(&self) -> u64 {
        self.track * if self.group_tracks == 1 { self.surfaces } else { 1 }
    }

    /// Splits the run into parts in which radial and address order agree: passes over one surface, or the
    /// whole run if it goes by cylinders.
    pub(super) fn passes(self) -> impl Iterator<Item = Self> {
        let one = self.surfaces == 1 || self.group_tracks == 1;
        let tracks = (self.end - self.start) / self.track;
        let group = if one { tracks } else { self.group_tracks * self.surfaces };
        (0..tracks.div_ceil(group)).flat_map(move |number| {
            let first = number * group;
            let tracks = group.min(tracks - first);
            let passes = if one { 1 } else { self.surfaces };
            (0..passes).map(move |pass| {
                let at = |tracks: u64| self.start + (first + tracks) * self.track;
                let (start, end) = (at(tracks / passes * pass), at(tracks / passes * (pass + 1)));
                let surfaces = if one { self.surfaces } else { 1 };
                Self { start, end, surfaces, ..self }
            })
        })
    }

    /// How many pieces of `len` sectors fit.
    pub(super) fn pieces(&self, len: u64) -> u64 {
        (self.end - self.start) / len
    }
}

/// All tracks in PBA order.
#[derive(Clone, Debug)]
pub(super) struct Tracks {
    pub(super) runs: Vec<Run>,
    /// Sectors on the platters.
    pub(super) sectors: u64,
    /// Sectors that one more track on each surface would add at the ID.
    pub(super) sectors_per_added_track: u64,
    /// Whether every run uses a single surface.
    pub(super) single_surface: bool,
}

impl Tracks {
    fn new(specs: &[SegmentSpec], surfaces: u16) -> Self {
        let mut runs: Vec<Run> = Vec::with_capacity(specs.len());
        for spec in specs {
            let start = runs.last().map_or(0, |before| before.end);
            let track = u64::from(spec.sectors_per_track);
            let end = start + u64::from(spec.tracks) * u64::from(spec.surfaces) * track;
            let group_tracks = spec.group_tracks.min(spec.tracks).into();
            runs.push(Run { start, end, track, surfaces: spec.surfaces.into(), group_tracks });
        }
        let (sectors, track) = runs.last().map_or((0, 0), |run| (run.end, run.track));
        let single_surface = specs.iter().all(|spec| spec.surfaces == 1);
        Self { runs, sectors, sectors_per_added_track: track * u64::from(surfaces), single_surface }
    }

    /// The last start of a track at or before `sector`.
    pub(super) fn track_start(&self, sector: u64) -> u64 {
        let run = self.runs.iter().find(|run| run.end > sector);
        run.map_or(sector, |run| sector - (sector - run.start) % run.track)
    }
}

/// The recording zones of a taper: equal widths, and sectors per track that decrease linearly with the
/// radius.
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

/// The geometry, and its tracks for the placement of regions.
pub(super) fn build(profile: &Profile, mechanics: &Mechanics) -> Result<(Geometry, Tracks), ProfileError> {
    let given = &profile.geometry;
    let surfaces = given.surfaces as u16;
    let group_tracks = given.group_tracks.unwrap_or(1) as u32;
    let as_angle = |time: Nanos| mechanics.rotation.angle_in(time);
    let skews = Skews {
        track: as_angle(given.track_skew.nanos()),
        head: as_angle(given.head_skew.nanos()),
        group: group_skew(profile, mechanics, group_tracks),
    };
    let layout = match given.layout {
        profile::Layout::Cylinder => Layout::Cylinder,
        profile::Layout::CylinderSerpentine => Layout::CylinderSerpentine,
        profile::Layout::SurfaceSerpentine => Layout::SurfaceSerpentine,
        profile::Layout::HybridSerpentine => Layout::HybridSerpentine { group_tracks },
        profile::Layout::HorizontalZones => Layout::HorizontalZones,
    };
    let specs = match layout {
        Layout::HorizontalZones => {
            let zones = horizontal_zones(profile, mechanics);
            horizontal_segments(&zones, &given.surface_density, surfaces, skews)
        }
        _ => segments(layout, &recording_zones(profile), surfaces, skews),
    };
    let section = if given.taper.is_some() { "geometry.taper" } else { "geometry.zone" };
    let geometry = Geometry::new(&specs).map_err(|error| profile.error_at(section, &error.to_string()))?;
    if geometry.capacity().get() > MAX_ADDRESS.get() {
        let most = about(Sectors(MAX_ADDRESS.get()));
        let message = format!("holds {} on all surfaces; {most} is the most", about(geometry.capacity()));
        return Err(profile.error_at(section, &message));
    }
    Ok((geometry, Tracks::new(&specs, surfaces)))
}

pub(super) fn recording_zones(profile: &Profile) -> Vec<RecordingZone> {
    let zone = |zone: &profile::RecordingZone| RecordingZone {
        tracks: zone.tracks as u32,
        sectors_per_track: zone.sectors_per_track,
    };
    match &profile.geometry.taper {
        Some(taper) => taper_zones(taper),
        None => profile.geometry.zone.iter().map(zone).collect(),
    }
}

fn horizontal_zones(profile: &Profile, mechanics: &Mechanics) -> Vec<HorizontalZone> {
    let given = &profile.geometry.zone;
    let walk = |number: usize| match given.get(number) {
        Some(profile::RecordingZone { group_tracks: Some(group), .. }) => {
            let group_tracks = *group as u32;
            Walk::Serpentine { group_tracks, group_skew: group_skew(profile, mechanics, group_tracks) }
        }
        Some(profile::RecordingZone { outward: true, .. }) => Walk::Outward,
        _ => Walk::Inward,
    };
    let zones = recording_zones(profile).into_iter().enumerate();
    zones.map(|(number, zone)| HorizontalZone { zone, walk: walk(number) }).collect()
}

/// Skew to the next group of a hybrid serpentine: the time that the arm needs for the step.
fn group_skew(profile: &Profile, mechanics: &Mechanics, group_tracks: u32) -> Angle {
    let jump = if profile.geometry.surfaces.is_multiple_of(2) { group_tracks } else { 1 };
    let needed = mechanics.seek.time(jump) + mechanics.write_settle;
    let revolution = mechanics.rotation.revolution();
    let skew = needed.get().max(profile.geometry.track_skew.nanos().get()) % revolution.get();
    mechanics.rotation.angle_in(Nanos(skew))
}
