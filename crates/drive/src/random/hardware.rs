//! The physical part of a random drive: capacity, mechanics, geometry, interface, jitter.
//!
//! Physical limits, and what is adjusted to meet them:
//! * *Tracks per surface*: a full arm travel of about 25 mm crosses at most [`MAX_TRACKS`] tracks of 10 nm,
//!   the width of a grain. A capacity that needs more gets longer tracks, and then more surfaces than were drawn.
//! * *Tracks*: enough for what is drawn, and a few more.
//! * *Skew*: slightly longer than the mechanics need for the step, as on real drives.

use super::draw::{Draws, rounded, rounded_up};
use super::ranges as range;
use super::text::Text;
use crate::profile::Bytes;

/// See the module documentation.
const MAX_TRACKS: f64 = 2_500_000.0;
/// Upper bound of a layer's platter space as a multiple of the capacity, which limits the length of tracks.
const MAX_PLATTER_FACTOR: f64 = 1.8;
/// Two surfaces on each of ten platters.
const MAX_SURFACES: f64 = 20.0;

/// The layouts of a profile.
const LAYOUTS: [&str; 5] =
    ["cylinder", "cylinder-serpentine", "surface-serpentine", "hybrid-serpentine", "horizontal-zones"];

/// The quantities that determine the rest of a drive.
#[derive(Clone, Debug)]
pub(super) struct Body {
    pub draws: Draws,
    pub capacity: Bytes,
    pub rotation_ns: f64,
    /// Seek to the next track and over the full arm travel.
    pub track_seek_ns: f64,
    pub full_seek_ns: f64,
    /// Sectors per track at the OD and the ID.
    pub outer: f64,
    pub inner: f64,
    pub zones: f64,
    pub layout: &'static str,
    /// As drawn; the capacity may need more.
    surfaces: f64,
}

/// A sufficient number of tracks and surfaces.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub surfaces: f64,
    pub tracks: f64,
}

impl Body {
    /// Draws the quantities.
    pub fn draw(draws: Draws) -> Self {
        let capacity = draws.number(&range::CAPACITY_BYTES);
        let ratio = draws.number(&range::OUTER_TO_INNER);
        let drawn = draws.number(&range::OUTER_TRACK_MIB) * f64::from(1 << 20) / 512.0;
        let least = capacity * MAX_PLATTER_FACTOR / 512.0 / (MAX_SURFACES * MAX_TRACKS);
        let outer = drawn.max(least * 2.0 / (1.0 + 1.0 / ratio));
        let eights = |sectors: f64| (sectors / 8.0).round() * 8.0;
        Self {
            draws,
            capacity: Bytes(capacity as u64),
            rotation_ns: 60e9 / draws.number(&range::SPEED_RPM),
            track_seek_ns: draws.number(&range::TRACK_SEEK_MS) * 1e6,
            full_seek_ns: draws.number(&range::FULL_SEEK_MS) * 1e6,
            outer: eights(outer),
            inner: eights(outer / ratio),
            zones: draws.number(&range::RECORDING_ZONES),
            layout: draws.choice("layout", &LAYOUTS),
            surfaces: draws.number(&range::SURFACES),
        }
    }

    /// Sectors per track on average.
    pub fn mean_track(&self) -> f64 {
        f64::midpoint(self.outer, self.inner)
    }

    /// Surfaces and tracks for `bytes` on the platters.
    pub fn size_for(&self, bytes: f64) -> Size {
        let tracks = bytes / 512.0 / self.mean_track();
        let surfaces = self.surfaces.max((tracks / MAX_TRACKS).ceil()).min(MAX_SURFACES);
        let spare = 1.0 + self.draws.number(&range::SPARE_PART);
        Size { surfaces, tracks: rounded_up(tracks * spare / surfaces, 4).max(self.zones).ceil() }
    }

    /// Number of tracks at one radius that are consecutive in address order; guards are wider by this factor.
    pub fn tracks_side_by_side(&self, size: Size) -> f64 {
        if self.layout.starts_with("cylinder") { size.surfaces } else { 1.0 }
    }

    /// The shortest run of tracks that a band with a guard may not cross, in sectors, on a drive of this
    /// size: a recording zone if the layout goes by cylinders, otherwise a pass over one surface.
    pub fn smallest_pass(&self, size: Size) -> f64 {
        let zone = (size.tracks / self.zones).floor();
        let grouped = match self.layout {
            "hybrid-serpentine" => true,
            "horizontal-zones" => self.draws.chance(&range::SHINGLED_TOWARDS_MD),
            _ => false,
        };
        let tracks = if grouped { zone.min(self.draws.number(&range::GROUP_TRACKS)) } else { zone };
        tracks * self.tracks_side_by_side(size) * self.inner
    }

    /// Writes all sections except the layer.
    pub fn write(&self, size: Size, shingled: bool, text: &mut Text) {
        self.mechanics(size, text);
        self.geometry(size, shingled, text);
    }

    fn mechanics(&self, size: Size, text: &mut Text) {
        let draws = self.draws;
        text.section("[mechanics]");
        text.key("rpm", draws.number(&range::SPEED_RPM));
        text.time("head_switch", draws.number(&range::HEAD_SWITCH_MS) * 1e6);
        text.time("write_settle", draws.number(&range::WRITE_SETTLE_US) * 1e3);
        text.key("zero_latency", draws.chance(&range::ZERO_LATENCY));
        // constant + root * sqrt(d) + linear * d, between the next track and the far end.
        let far = (size.tracks - 1.0).max(2.0);
        let rise = self.full_seek_ns - self.track_seek_ns;
        let part = draws.number(&range::SEEK_ROOT_PART);
        let root = rounded(part * rise / (far.sqrt() - 1.0), 5);
        let linear = rounded((rise - root * (far.sqrt() - 1.0)) / (far - 1.0), 5);
        let constant = (self.track_seek_ns - root - linear).round();
        text.section("[mechanics.seek.fitted]");
        text.time("constant", constant);
        text.time("root", root);
        text.time("linear", linear);
    }

    fn geometry(&self, size: Size, shingled: bool, text: &mut Text) {
        let draws = self.draws;
        let head_switch = draws.number(&range::HEAD_SWITCH_MS) * 1e6;
        let settle = draws.number(&range::WRITE_SETTLE_US) * 1e3;
        let slack = draws.number(&range::SKEW_SLACK_US) * 1e3;
        // A step to another surface may include a step to the next track, and on cylinders always does at
        // their end.
        let to_surface = head_switch.max(self.track_seek_ns);
        let to_track = if self.layout == "cylinder" { to_surface } else { self.track_seek_ns };
        let skew = |step: f64| ((step + settle + slack) / 10e3).ceil() * 10e3;
        text.section("[geometry]");
        text.key("surfaces", size.surfaces);
        text.word("layout", self.layout);
        if self.layout == "hybrid-serpentine" {
            text.key("group_tracks", draws.number(&range::GROUP_TRACKS).min(size.tracks));
        }
        text.time("track_skew", skew(to_track));
        text.time("head_skew", skew(to_surface));
        if self.layout == "horizontal-zones" {
            self.horizontal_zones(size, shingled, text);
            return;
        }
        text.section("[geometry.taper]");
        text.key("zones", self.zones);
        text.key("tracks", size.tracks);
        text.key("outer_sectors_per_track", self.outer);
        text.key("inner_sectors_per_track", self.inner);
    }

    /// Writes the zones one by one, since their directions differ.
    fn horizontal_zones(&self, size: Size, shingled: bool, text: &mut Text) {
        let draws = self.draws;
        if size.surfaces > 1.0 && draws.chance(&range::SURFACES_DIFFER) {
            let parts: Vec<f64> =
                (0..size.surfaces as u32).map(|index| draws.nth(&range::SURFACE_DENSITY, index)).collect();
            let mean = parts.iter().sum::<f64>() / parts.len() as f64;
            let parts: Vec<String> = parts.iter().map(|part| rounded(part / mean, 3).to_string()).collect();
            text.key("surface_density", format!("[{}]", parts.join(", ")));
        }
        let towards_md = shingled && draws.chance(&range::SHINGLED_TOWARDS_MD);
        let (zones, tracks) = (self.zones as u64, size.tracks as u64);
        let mut rows = String::new();
        for zone in 0..zones {
            let share = (zone + 1) * tracks / zones - zone * tracks / zones;
            let part = zone as f64 / (self.zones - 1.0);
            let sectors = (self.outer + (self.inner - self.outer) * part).round();
            let direction = match zone.cmp(&(zones / 2)) {
                _ if !towards_md => String::new(),
                std::cmp::Ordering::Less => String::new(),
                std::cmp::Ordering::Equal => {
                    format!(", group_tracks = {}", (draws.number(&range::GROUP_TRACKS) as u64).min(share))
                }
                std::cmp::Ordering::Greater => ", outward = true".to_owned(),
            };
            rows.push_str(&format!(
                "    {{ tracks = {share}, sectors_per_track = {sectors}{direction} }},\n"
            ));
        }
        text.key("zone", format!("[\n{rows}]"));
    }

    /// Writes the sections that every drive has; a volatile write cache has at most so many runs.
    pub fn write_interface(&self, write_cache_runs: Option<f64>, text: &mut Text) {
        let draws = self.draws;
        text.section("[interface]");
        // SATA queues: 32 by the standard, of which hosts use 31.
        text.key("queue_depth", draws.choice("queue_depth", &[31, 32]));
        let fifo = draws.chance(&range::SCHEDULE_FIFO);
        text.word("schedule", if fifo { "fifo" } else { "shortest-positioning-first" });
        text.time("command_overhead", draws.number(&range::COMMAND_OVERHEAD_US) * 1e3);
        text.time("host_gap", draws.number(&range::HOST_GAP_US) * 1e3);
        let cache = draws.number(&range::WRITE_CACHE_MIB).round();
        if cache > 0.0 && !draws.chance(&range::WRITE_CACHE_ABSENT) {
            text.word("write_cache", format!("{cache} MiB"));
            if let Some(runs) = write_cache_runs {
                text.key("write_cache_runs", runs);
            }
            text.key("write_cache_on", draws.chance(&range::WRITE_CACHE_ON));
        }
        text.word("read_buffer", format!("{} MiB", draws.number(&range::READ_BUFFER_MIB).round()));
        text.key("look_ahead", draws.chance(&range::LOOK_AHEAD));
        text.key("park_when_idle", draws.chance(&range::PARKS));
    }

    /// The variation of latency.
    pub fn write_jitter(&self, text: &mut Text) {
        let draws = self.draws;
        text.section("[jitter]");
        text.key("relative", draws.number(&range::JITTER_PART));
        text.time("absolute", draws.number(&range::JITTER_US) * 1e3);
        let rate = draws.number(&range::OUTLIER_PART);
        if rate > 0.0 && !draws.chance(&range::OUTLIERS_ABSENT) {
            text.key("outlier_rate", rate);
            text.time("outlier", draws.number(&range::OUTLIER_MS) * 1e6);
        }
    }

    /// The speed of flash.
    pub fn write_flash(&self, text: &mut Text) {
        let draws = self.draws;
        text.section("[flash]");
        text.time("read", draws.number(&range::FLASH_READ_US) * 1e3);
        text.time("write", draws.number(&range::FLASH_WRITE_US) * 1e3);
        text.word("bandwidth", format!("{} MB", draws.number(&range::FLASH_BANDWIDTH_MB)));
    }
}
