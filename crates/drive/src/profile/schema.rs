//! The one schema of a drive profile. Its types, defaults, ranges and doc comments are what a file is
//! checked against, and what the JSON schema and the reference page are generated from.
//!
//! Invariants: every key of a profile is a field here and nowhere else; a range that one key alone can
//! break stands in its attribute (`range` for numbers, `x-range` for sizes and durations) and is enforced
//! by `check.rs`; what keys mean together is in `rules.rs`.
//! Sources: the mechanics after Ruemmler and Wilkes' model of a drive; layouts after Skylight (FAST'15),
//! section 4.9; the layer after its section 3.1.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::diagnose::Source;
use super::layer::Layer;
use super::quantity::{Bytes, Duration};

/// The version of the profile format that this skylight reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Defaults of the keys that may be left out, in one place.
mod default {
    use super::{Bytes, Duration, Schedule};

    pub(super) const fn no_time() -> Duration {
        Duration::ZERO
    }

    pub(super) const fn schedule() -> Schedule {
        Schedule::Fifo
    }

    pub(super) const fn positioning_window() -> u32 {
        32
    }

    pub(super) const fn off() -> bool {
        false
    }

    pub(super) const fn no_memory() -> Bytes {
        Bytes(0)
    }

    pub(super) const fn read_buffer() -> Bytes {
        Bytes(16 << 20)
    }

    pub(super) const fn nothing() -> f64 {
        0.0
    }
}

/// A drive: what it is called, what it holds, and what it is made of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1), extend("examples" = [1]))]
    pub schema: u32,
    /// Name of the drive: letters, digits, `.`, `_` and `-`.
    #[schemars(length(min = 1, max = 64), extend("examples" = ["emulated-smr-1"]))]
    pub name: String,
    /// The drive in one line.
    #[serde(default)]
    #[schemars(length(max = 200), extend("examples" = ["SMR drive with a disk cache at the ID"]))]
    pub summary: String,
    /// Where the numbers come from.
    #[serde(default)]
    #[schemars(length(max = 100), extend("examples" = [["Skylight (FAST'15), section 3.1, Table 1"]]))]
    pub sources: Vec<String>,
    /// Bytes the host sees. Whole 4 KiB blocks: a figure with a decimal point or an SI unit is rounded down
    /// to them, any other must be a multiple.
    #[schemars(extend("x-range" = ["64 MiB", "100 TB"], "examples" = ["3.9 TB"]))]
    pub capacity: Bytes,
    /// How the platters turn and the arm moves.
    pub mechanics: Mechanics,
    /// Where sectors lie on the platters.
    pub geometry: Geometry,
    /// The drive as the host meets it: queue, order, overhead.
    pub interface: Interface,
    /// The translation layer: how the drive maps what the host names to where it lies.
    pub layer: Layer,
    /// Speed of the flash memory. Needed for a flash cache, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<Flash>,
    /// Random variation of latency, drawn from the run's seed. All zero when left out.
    #[serde(default)]
    pub jitter: Jitter,
    /// Where each key stood in the file, so that errors found later can say so.
    #[serde(skip)]
    pub(super) source: Source,
}

/// How the platters turn and the arm moves.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["rotation"]}, {"required": ["rpm"]}]))]
pub struct Mechanics {
    /// Time of one turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["3.75 ms", "17 ms"], "examples" = ["10.17 ms"]))]
    pub rotation: Option<Duration>,
    /// Turns a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3_600, max = 16_000), extend("examples" = [5900]))]
    pub rpm: Option<f64>,
    /// Time to switch to another head without moving the arm.
    #[schemars(extend("x-range" = ["0 ms", "50 ms"], "examples" = ["0.6 ms"]))]
    pub head_switch: Duration,
    /// Time a write waits after the arm has arrived, beyond what a read does.
    #[serde(default = "default::no_time")]
    #[schemars(extend("x-range" = ["0 ms", "50 ms"], "examples" = ["0.1 ms"]))]
    pub write_settle: Duration,
    /// Whether an access within one track may begin at any of its sectors, instead of the first.
    #[serde(default = "default::off")]
    #[schemars(extend("examples" = [false]))]
    pub zero_latency: bool,
    /// Time of a seek against its distance.
    pub seek: Seek,
}

impl Mechanics {
    /// Time of one turn, from whichever of `rotation` and `rpm` the profile gives.
    pub fn rotation(&self) -> Duration {
        match (self.rotation, self.rpm) {
            (Some(rotation), _) => rotation,
            (None, Some(rpm)) => Duration::from_ns(60e9 / rpm),
            (None, None) => Duration::ZERO,
        }
    }
}

/// Time of a seek against its distance in tracks: a fitted curve or a table of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["fitted"]}, {"required": ["points"]}]))]
pub struct Seek {
    /// The curve `constant + root * sqrt(d) + linear * d` over a distance of `d` tracks, `d` at least 1. It may
    /// not fall below zero on the drive's tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Fitted>,
    /// Measured points `[distance in tracks, time]`, distances rising. A seek between two points lies on the
    /// line through them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100_000))]
    #[schemars(extend("examples" = [[[1, "0.9 ms"], [1000, "2.1 ms"], [300_000, "16 ms"]]]))]
    pub points: Vec<SeekPoint>,
}

/// A fitted seek curve: `constant + root * sqrt(d) + linear * d`, never below zero on the drive's tracks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The part every seek has.
    #[schemars(extend("x-range" = ["-1 s", "1 s"], "examples" = ["0.8 ms"]))]
    pub constant: Duration,
    /// The part that grows with the square root of the distance, while the arm speeds up and slows down.
    #[schemars(extend("x-range" = ["-1 s", "1 s"], "examples" = ["0.012 ms"]))]
    pub root: Duration,
    /// The part that grows with the distance, while the arm coasts.
    #[schemars(extend("x-range" = ["-1 s", "1 s"], "examples" = ["0.00002 ms"]))]
    pub linear: Duration,
}

impl Fitted {
    /// Time of a seek over `distance_tracks`, at least 1, in nanoseconds.
    pub fn time_ns(&self, distance_tracks: f64) -> f64 {
        self.constant.ns() + self.root.ns() * distance_tracks.sqrt() + self.linear.ns() * distance_tracks
    }
}

/// One measured point of a seek curve, in the file `[distance in tracks, time]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "(u64, Duration)", into = "(u64, Duration)")]
pub struct SeekPoint {
    /// Distance in tracks.
    pub tracks: u64,
    /// Time of the seek.
    pub time: Duration,
}

impl From<(u64, Duration)> for SeekPoint {
    fn from((tracks, time): (u64, Duration)) -> Self {
        Self { tracks, time }
    }
}

impl From<SeekPoint> for (u64, Duration) {
    fn from(point: SeekPoint) -> Self {
        (point.tracks, point.time)
    }
}

impl JsonSchema for SeekPoint {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "SeekPoint".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut time = generator.subschema_for::<Duration>();
        time.insert("x-range".to_owned(), json!(["0 ms", "1 s"]));
        json_schema!({
            "type": "array",
            "prefixItems": [{ "type": "integer", "minimum": 1, "maximum": 10_000_000 }, time],
            "minItems": 2,
            "maxItems": 2,
        })
    }
}

/// Where sectors lie on the platters: surfaces, recording zones, the order of tracks, skew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["zone"]}, {"required": ["taper"]}]))]
pub struct Geometry {
    /// Recording surfaces, each with its head.
    #[schemars(range(min = 1, max = 32), extend("examples" = [8]))]
    pub surfaces: u32,
    /// The order in which addresses go over tracks and surfaces.
    #[schemars(extend("examples" = ["hybrid-serpentine"]))]
    pub layout: Layout,
    /// Tracks on a surface before the next surface. Needed for `hybrid-serpentine`, and only there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [200]))]
    pub group_tracks: Option<u64>,
    /// How much later the next track on the same surface starts. Less than one rotation.
    #[schemars(extend("x-range" = ["0 ms", "60 ms"], "examples" = ["0.45 ms"]))]
    pub track_skew: Duration,
    /// How much later the next track starts when it is on another surface. Less than one rotation.
    #[schemars(extend("x-range" = ["0 ms", "60 ms"], "examples" = ["0.6 ms"]))]
    pub head_skew: Duration,
    /// Sectors a track of each surface, as parts of what a recording zone says, the first surface first: heads
    /// differ, and with strokes of thousands of tracks it shows. Each 0.5 to 1.5. Only for `horizontal-zones`,
    /// where it counts for zones without `group_tracks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), inner(range(min = 0.5, max = 1.5)))]
    pub surface_density: Vec<f64>,
    /// The recording zones one by one, from the outer to the inner diameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1_000))]
    pub zone: Vec<RecordingZone>,
    /// The recording zones as an even taper from the outer to the inner diameter.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taper: Option<Taper>,
}

impl Geometry {
    /// Tracks of one surface, all recording zones together.
    pub fn tracks(&self) -> u64 {
        let zones: u64 = self.zone.iter().map(|zone| zone.tracks).sum();
        zones + self.taper.as_ref().map_or(0, |taper| taper.tracks)
    }
}

/// The order in which addresses go over tracks and surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// All surfaces of a cylinder, each from the first head, then the next cylinder.
    Cylinder,
    /// All surfaces of a cylinder, then the next cylinder beginning with the head where the last one ended.
    CylinderSerpentine,
    /// All tracks of a surface towards the inner diameter, then the next surface back towards the outer.
    SurfaceSerpentine,
    /// A group of tracks on each surface in turn, the direction turning with each surface.
    HybridSerpentine,
    /// A stroke of thousands of tracks on one surface, then on the next, and back in reverse order.
    HorizontalZones,
}

impl Layout {
    /// The name in profiles.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Cylinder => "cylinder",
            Self::CylinderSerpentine => "cylinder-serpentine",
            Self::SurfaceSerpentine => "surface-serpentine",
            Self::HybridSerpentine => "hybrid-serpentine",
            Self::HorizontalZones => "horizontal-zones",
        }
    }
}

/// A recording zone: tracks with one number of sectors. One `[[geometry.zone]]` each, the outermost first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingZone {
    /// Tracks of the zone on one surface.
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [10_000]))]
    pub tracks: u64,
    /// Sectors of 512 bytes on a track.
    #[schemars(range(min = 16, max = 100_000), extend("examples" = [3576]))]
    pub sectors_per_track: u32,
    /// In a layout of `horizontal-zones`, walk this zone as a serpentine: so many tracks on a surface, back on
    /// the next, and after the last surface the next so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub group_tracks: Option<u64>,
    /// In a layout of `horizontal-zones`, whether the strokes of this zone go from its inner to its outer edge.
    #[serde(default = "default::off")]
    pub outward: bool,
}

/// Recording zones of equal width whose sectors a track fall evenly from the outer to the inner diameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Taper {
    /// Recording zones. Not more than there are tracks.
    #[schemars(range(min = 1, max = 1_000), extend("examples" = [24]))]
    pub zones: u32,
    /// Tracks of one surface, all zones together.
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [369_000]))]
    pub tracks: u64,
    /// Sectors of 512 bytes on a track of the outermost zone.
    #[schemars(range(min = 16, max = 100_000), extend("examples" = [3576]))]
    pub outer_sectors_per_track: u32,
    /// Sectors of 512 bytes on a track of the innermost zone. Not more than on the outermost.
    #[schemars(range(min = 16, max = 100_000), extend("examples" = [1700]))]
    pub inner_sectors_per_track: u32,
}

/// The drive as the host meets it: queue, order, overhead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Most commands the drive holds at a time; 1 for a drive without a queue.
    #[schemars(range(min = 1, max = 32), extend("examples" = [31]))]
    pub queue_depth: u32,
    /// The order in which the drive serves the commands that wait.
    #[serde(default = "default::schedule")]
    #[schemars(extend("examples" = ["shortest-positioning-first"]))]
    pub schedule: Schedule,
    /// Accesses among which the firmware takes the one that the heads reach first, where their order is its
    /// own, as in cleaning.
    #[serde(default = "default::positioning_window")]
    #[schemars(range(min = 1, max = 4096), extend("examples" = [32]))]
    pub positioning_window: u32,
    /// Time the drive itself takes for a command, before the arm moves.
    #[schemars(extend("x-range" = ["0 ms", "100 ms"], "examples" = ["0.1 ms"]))]
    pub command_overhead: Duration,
    /// Time the host takes between a completion and its next command.
    #[serde(default = "default::no_time")]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["0.007 ms"]))]
    pub host_gap: Duration,
    /// Size of the volatile write cache; zero for a drive without one.
    #[serde(default = "default::no_memory")]
    #[schemars(extend("x-range" = ["0 B", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["64 MiB"]))]
    pub write_cache: Bytes,
    /// Most runs of writes that the volatile write cache holds, a run being writes that continue each other.
    /// Left out, only its size limits it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [4096]))]
    pub write_cache_runs: Option<u32>,
    /// Whether the volatile write cache is on when the drive is switched on.
    #[serde(default = "default::off")]
    #[schemars(extend("examples" = [false]))]
    pub write_cache_on: bool,
    /// Memory for what the drive reads ahead of the host's sequential reads.
    #[serde(default = "default::read_buffer")]
    #[schemars(extend("x-range" = ["0 B", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["16 MiB"]))]
    pub read_buffer: Bytes,
    /// Whether look-ahead is on when the drive is switched on.
    #[serde(default = "default::off")]
    #[schemars(extend("examples" = [false]))]
    pub look_ahead: bool,
    /// Whether the drive parks its heads at the inner diameter when it has been left alone and has no more to
    /// do.
    #[serde(default = "default::off")]
    #[schemars(extend("examples" = [false]))]
    pub park_when_idle: bool,
}

/// The order in which a drive serves the commands that wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// As they came.
    Fifo,
    /// The one that the head reaches first, seek and rotation together.
    ShortestPositioningFirst,
}

/// Speed of the flash memory of a flash cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Flash {
    /// Time before the first byte of a read.
    #[schemars(extend("x-range" = ["0 ms", "100 ms"], "examples" = ["0.09 ms"]))]
    pub read: Duration,
    /// Time before the first byte of a write.
    #[schemars(extend("x-range" = ["0 ms", "100 ms"], "examples" = ["0.2 ms"]))]
    pub write: Duration,
    /// Bytes a second.
    #[schemars(extend("x-range" = ["1 MB", "100 GB"], "examples" = ["400 MB"]))]
    pub bandwidth: Bytes,
}

/// Random variation of latency, drawn from the run's seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Jitter {
    /// Scale of what a command's media time is longer, as a part of it: the size of a normal draw of this
    /// deviation, for nothing is faster than the mechanics.
    #[serde(default = "default::nothing")]
    #[schemars(range(min = 0, max = 0.03), extend("examples" = [0.01]))]
    pub relative: f64,
    /// Upper bound of an extra time that every command has, uniform from zero.
    #[serde(default = "default::no_time")]
    #[schemars(extend("x-range" = ["0 ms", "10 ms"], "examples" = ["0.05 ms"]))]
    pub absolute: Duration,
    /// Part of the commands that are outliers.
    #[serde(default = "default::nothing")]
    #[schemars(range(min = 0, max = 1), extend("examples" = [0.001]))]
    pub outlier_rate: f64,
    /// Upper bound of an outlier's extra time. Above zero where there are outliers.
    #[serde(default = "default::no_time")]
    #[schemars(extend("x-range" = ["0 ms", "10 s"], "examples" = ["50 ms"]))]
    pub outlier: Duration,
}
