//! The tracks of a profile's platters.
//!
//! Invariant: [`Tracks`] are the geometry's own: runs in PBA order, without a gap, each of tracks of one size.

use skylight_disk::layout::{HorizontalZone, RecordingZone, Skews, Walk, horizontal_segments, segments};
use skylight_disk::{Angle, Geometry, Layout, Mechanics, Nanos, Sectors, SegmentSpec};
use skylight_layer::MAX_ADDRESS;

use super::regions::about;
use crate::profile::{self, Profile, ProfileError};

/// A stretch of the platters with tracks of one size: a stroke, or a recording zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Its first sector, which begins a track.
    pub(super) start: u64,
    /// The first sector past it.
    pub(super) end: u64,
    /// Sectors in a track.
    pub(super) track: u64,
    /// Surfaces that it goes over.
    pub(super) surfaces: u64,
    /// Tracks that it takes on one surface before it goes on to the next.
    pub(super) group_tracks: u64,
}

impl Run {
    /// Sectors between two tracks of a surface that lie beside each other: those of a track, or of a cylinder.
    pub(super) fn radial_step(&self) -> u64 {
        self.track * if self.group_tracks == 1 { self.surfaces } else { 1 }
    }

    /// Its parts in which no two tracks lie beside each other but in the order of addresses: passes over one
    /// surface, or all of it where it is walked by cylinders.
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

    /// How many pieces of `len` sectors it holds.
    pub(super) fn room(&self, len: u64) -> u64 {
        (self.end - self.start) / len
    }
}

/// All tracks in PBA order.
#[derive(Clone, Debug)]
pub(super) struct Tracks {
    pub(super) runs: Vec<Run>,
    /// Sectors on the platters.
    pub(super) sectors: u64,
    /// Sectors that one more track a surface would add at the ID.
    pub(super) sectors_a_track: u64,
    /// Whether every run lies on one surface.
    pub(super) strokes: bool,
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
        let strokes = specs.iter().all(|spec| spec.surfaces == 1);
        Self { runs, sectors, sectors_a_track: track * u64::from(surfaces), strokes }
    }

    /// The last start of a track at or before a sector.
    pub(super) fn track_start(&self, sector: u64) -> u64 {
        let run = self.runs.iter().find(|run| run.end > sector);
        run.map_or(sector, |run| sector - (sector - run.start) % run.track)
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

/// The geometry, and its tracks for those who lay out regions.
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
    let place = if given.taper.is_some() { "geometry.taper" } else { "geometry.zone" };
    let geometry = Geometry::new(&specs).map_err(|error| profile.error_at(place, &error.to_string()))?;
    if geometry.capacity().get() > MAX_ADDRESS.get() {
        let most = about(Sectors(MAX_ADDRESS.get()));
        let message = format!("holds {} on all surfaces; {most} is the most", about(geometry.capacity()));
        return Err(profile.error_at(place, &message));
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

/// Skew to the next group of a hybrid serpentine: what the arm needs for it, as a drive maker would choose.
fn group_skew(profile: &Profile, mechanics: &Mechanics, group_tracks: u32) -> Angle {
    let jump = if profile.geometry.surfaces.is_multiple_of(2) { group_tracks } else { 1 };
    let needed = mechanics.seek.time(jump) + mechanics.write_settle;
    let turn = mechanics.rotation.turn();
    let skew = needed.get().max(profile.geometry.track_skew.nanos().get()) % turn.get();
    mechanics.rotation.angle_in(Nanos(skew))
}
