//! The only schema of a drive profile. Files are checked against its types, defaults, ranges and doc
//! comments; the JSON schema and the reference page are generated from them.
//!
//! Invariants: every key of a profile is a field here, in `layer.rs` or in `conditions.rs` and nowhere else; the range of a
//! single key is in its attribute (`range` for numbers, `x-range` for sizes and durations) and enforced by
//! `check.rs`; rules between keys are in `rules.rs`.
//! Sources: the mechanics after Ruemmler and Wilkes' model of a drive; layouts after Skylight (FAST'15),
//! section 4.9; the layer after its section 3.1.

use std::borrow::Cow;
use std::sync::LazyLock;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::conditions::Conditions;
use super::diagnose::Source;
use super::layer::Layer;
use super::quantity::{Bytes, Duration};
use super::schema_view::schema_of;

/// The version of the profile format that this version of Skylight reads.
pub const SCHEMA_VERSION: u32 = 1;

/// Defaults of optional keys.
mod default {
    use super::Bytes;

    pub(super) const fn positioning_window() -> u32 {
        32
    }

    pub(super) const fn write_back_pass() -> u32 {
        1
    }

    pub(super) const fn read_buffer() -> Bytes {
        Bytes(16 << 20)
    }
}

/// The JSON schema of a profile in draft 7, which TOML editors support. To generate it takes longer than to check a
/// profile by it, so it is kept.
pub(super) fn root() -> &'static Value {
    static ROOT: LazyLock<Value> = LazyLock::new(|| {
        let mut schema = schema_of::<Profile>();
        schema["title"] = json!("Skylight drive profile");
        schema
    });
    &ROOT
}

/// A drive: its name, its capacity, and its components.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Profile {
    /// Version of this format.
    #[schemars(range(min = 1, max = 1), extend("examples" = [1]))]
    pub schema: u32,
    /// Name of the drive: letters, digits, `.`, `_` and `-`.
    #[schemars(length(min = 1, max = 64), extend("examples" = ["emulated-smr-1"]))]
    pub name: String,
    /// A one-line description of the drive.
    #[serde(default)]
    #[schemars(length(max = 200), extend("examples" = ["SMR drive with a disk cache at the ID"]))]
    pub summary: String,
    /// Sources of the numbers.
    #[serde(default)]
    #[schemars(length(max = 100), extend("examples" = [["Skylight (FAST'15), section 3.1, Table 1"]]))]
    pub sources: Vec<String>,
    /// Host-visible capacity in whole 4 KiB blocks. A figure with a decimal point or an SI unit is rounded
    /// down; any other must be a multiple of 4 KiB.
    #[schemars(extend("x-range" = ["64 MiB", "100 TB"], "examples" = ["3.9 TB"]))]
    pub capacity: Bytes,
    /// Rotation of the platters and motion of the arm.
    pub mechanics: Mechanics,
    /// Location of the sectors on the platters.
    pub geometry: Geometry,
    /// The host interface: queue, scheduling, overhead.
    pub interface: Interface,
    /// The translation layer: how the drive maps host addresses to physical addresses.
    pub layer: Layer,
    /// Speed of the flash memory. Required for a flash cache, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flash: Option<Flash>,
    /// Random variation of latency, drawn from the run's seed. All zero if left out.
    #[serde(default)]
    pub jitter: Jitter,
    /// What a host meets besides the drive when it is probed; a served drive has none of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub conditions: Option<Conditions>,
    /// The location of each key in the file, for errors that are found later.
    #[serde(skip)]
    pub(super) source: Source,
}

/// Rotation of the platters and motion of the arm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["rotation"]}, {"required": ["rpm"]}]))]
pub struct Mechanics {
    /// Time of one revolution.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["3.75 ms", "17 ms"], "examples" = ["10.17 ms"]))]
    pub rotation: Option<Duration>,
    /// Revolutions per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 3_600, max = 16_000), extend("examples" = [5900]))]
    pub rpm: Option<f64>,
    /// Time to switch to another head without moving the arm.
    #[schemars(extend("x-range" = ["0 ms", "50 ms"], "examples" = ["0.6 ms"]))]
    pub head_switch: Duration,
    /// Additional settling time of a write after the arm has arrived.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 ms", "50 ms"], "examples" = ["0.1 ms"]))]
    pub write_settle: Duration,
    /// Whether an access within one track may start at any of its sectors instead of the first.
    #[serde(default)]
    #[schemars(extend("examples" = [false]))]
    pub zero_latency: bool,
    /// Seek time by distance.
    pub seek: Seek,
}

impl Mechanics {
    /// Time of one revolution, from `rotation` or `rpm`, whichever the profile has.
    pub fn rotation(&self) -> Duration {
        match (self.rotation, self.rpm) {
            (Some(rotation), _) => rotation,
            (None, Some(rpm)) => Duration::from_ns(60e9 / rpm),
            (None, None) => Duration::ZERO,
        }
    }
}

/// Seek time by distance in tracks: a fitted curve or a table of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["fitted"]}, {"required": ["points"]}]))]
pub struct Seek {
    /// The curve `constant + root * sqrt(d) + linear * d` over a distance of `d` tracks, `d` at least 1. It
    /// must not be negative on the drive's tracks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fitted: Option<Fitted>,
    /// Measured points `[distance in tracks, time]` with increasing distances, joined by straight lines.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 100_000))]
    #[schemars(extend("examples" = [[[1, "0.9 ms"], [1000, "2.1 ms"], [300_000, "16 ms"]]]))]
    pub points: Vec<SeekPoint>,
}

/// A fitted seek curve: `constant + root * sqrt(d) + linear * d`, not negative on the drive's tracks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fitted {
    /// The part that is the same for every seek.
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
pub struct SeekPoint(pub u64, pub Duration);

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

/// Location of the sectors on the platters: surfaces, recording zones, the order of tracks, skew.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(extend("oneOf" = [{"required": ["zone"]}, {"required": ["taper"]}]))]
pub struct Geometry {
    /// Recording surfaces, each with its head.
    #[schemars(range(min = 1, max = 32), extend("examples" = [8]))]
    pub surfaces: u32,
    /// The order in which addresses cover tracks and surfaces.
    #[schemars(extend("examples" = ["hybrid-serpentine"]))]
    pub layout: Layout,
    /// Tracks on a surface before the next surface. Required for `hybrid-serpentine`, and only then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [200]))]
    pub group_tracks: Option<u64>,
    /// How much later the next track on the same surface starts. Less than one revolution.
    #[schemars(extend("x-range" = ["0 ms", "60 ms"], "examples" = ["0.45 ms"]))]
    pub track_skew: Duration,
    /// How much later the next track starts if it is on another surface. Less than one revolution.
    #[schemars(extend("x-range" = ["0 ms", "60 ms"], "examples" = ["0.6 ms"]))]
    pub head_skew: Duration,
    /// Sectors per track of each surface as a fraction of the recording zone's figure, from the first surface
    /// on: heads differ, and in passes of thousands of tracks the difference is measurable. Each 0.5 to 1.5.
    /// Only for `horizontal-zones`, where it applies to zones without `group_tracks`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 32), inner(range(min = 0.5, max = 1.5)))]
    pub surface_density: Vec<f64>,
    /// The recording zones one by one, from the outer to the inner diameter.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(min = 1, max = 1_000))]
    pub zone: Vec<RecordingZone>,
    /// The recording zones as a linear taper from the outer to the inner diameter.
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

/// The order in which addresses cover tracks and surfaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Layout {
    /// All surfaces of a cylinder from the first head on, then the next cylinder.
    Cylinder,
    /// All surfaces of a cylinder, then the next cylinder from the head at which the last one ended.
    CylinderSerpentine,
    /// All tracks of a surface towards the inner diameter, then the next surface back towards the outer.
    SurfaceSerpentine,
    /// A group of tracks on each surface, reversing direction with each surface.
    HybridSerpentine,
    /// A pass of thousands of tracks on one surface, then on the next, and back in reverse order.
    HorizontalZones,
}

/// A recording zone: tracks with the same number of sectors. One `[[geometry.zone]]` each, from the outermost
/// on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecordingZone {
    /// Tracks of the zone on one surface.
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [10_000]))]
    pub tracks: u64,
    /// Sectors of 512 bytes on each track.
    #[schemars(range(min = 16, max = 100_000), extend("examples" = [3576]))]
    pub sectors_per_track: u32,
    /// In a `horizontal-zones` layout, makes this zone a serpentine: this number of tracks on a surface, back
    /// on the next surface, and after the last surface the next group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000))]
    pub group_tracks: Option<u64>,
    /// In a `horizontal-zones` layout, whether the passes of this zone run from its inner to its outer edge.
    #[serde(default)]
    pub outward: bool,
}

/// Recording zones of equal width whose sectors per track decrease linearly from the outer to the inner
/// diameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Taper {
    /// Number of recording zones, at most the number of tracks.
    #[schemars(range(min = 1, max = 1_000), extend("examples" = [24]))]
    pub zones: u32,
    /// Tracks of one surface, all zones together.
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [369_000]))]
    pub tracks: u64,
    /// Sectors of 512 bytes on each track of the outermost zone.
    #[schemars(range(min = 16, max = 100_000), extend("examples" = [3576]))]
    pub outer_sectors_per_track: u32,
    /// Sectors of 512 bytes on each track of the innermost zone, at most those of the outermost.
    #[schemars(range(min = 16, max = 100_000), extend("examples" = [1700]))]
    pub inner_sectors_per_track: u32,
}

// More than 15 fields: one per key of the section, which TOML keeps flat.
/// The host interface: queue, scheduling, overhead.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Interface {
    /// Maximum number of queued commands; 1 for a drive without a queue.
    #[schemars(range(min = 1, max = 32), extend("examples" = [31]))]
    pub queue_depth: u32,
    /// The order in which the drive serves waiting commands.
    #[serde(default)]
    #[schemars(extend("examples" = ["shortest-positioning-first"]))]
    pub schedule: Schedule,
    /// Number of accesses among which the firmware chooses the one that the heads reach first, where the
    /// order is up to it, as in cleaning.
    #[serde(default = "default::positioning_window")]
    #[schemars(range(min = 1, max = 4096), extend("examples" = [32]))]
    pub positioning_window: u32,
    /// Processing time of a command in the drive before the arm moves.
    #[schemars(extend("x-range" = ["0 ms", "100 ms"], "examples" = ["0.1 ms"]))]
    pub command_overhead: Duration,
    /// Time from a completion to the host's next command.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["0.007 ms"]))]
    pub host_gap: Duration,
    /// Size of the volatile write cache; zero for a drive without one.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 B", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["64 MiB"]))]
    pub write_cache: Bytes,
    /// Maximum number of runs in the volatile write cache; a run is a sequence of writes that continue each
    /// other. If left out, only the size limits the cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10_000_000), extend("examples" = [4096]))]
    pub write_cache_runs: Option<u32>,
    /// Which writes leave the volatile cache first; among those, the drive chooses as `schedule` and `positioning_window` say.
    #[serde(default)]
    #[schemars(extend("examples" = ["any"]))]
    pub write_back: WriteBack,
    /// By which share of the expected time the seek to a cached write, chosen as the nearest, lasts longer at most. It is drawn
    /// uniformly each time; where the choice has less to spare, that costs a revolution.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1), extend("examples" = [0.5]))]
    pub positioning_error: f64,
    /// Time without a write after which the drive writes the volatile cache to its media; before that only when the cache is
    /// full or a command needs it. At once if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["0 ms", "60 s"], "examples" = ["50 ms"]))]
    pub write_back_after: Option<Duration>,
    /// How many runs of cached writes a drive with zones chooses at a time, all from where its heads are then; a run is what it
    /// has of one zone. With more than one, `positioning_window` counts zones, which are drawn among all.
    #[serde(default = "default::write_back_pass")]
    #[schemars(range(min = 1, max = 256), extend("examples" = [2]))]
    pub write_back_pass: u32,
    /// As `positioning_error`, for the runs of such a choice.
    #[serde(default)]
    #[schemars(range(min = 0, max = 1), extend("examples" = [0.12]))]
    pub write_back_error: f64,
    /// Time between the end of a run and the start of the next one of the same choice.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["4.6 ms"]))]
    pub write_back_pause: Duration,
    /// How much later than the run is written a write that waits gets its space, unless the run is the first of its choice.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["2 ms"]))]
    pub write_back_hand_over: Duration,
    /// How much later an entry of the log is written for each cached write in it beyond the first: what the drive needs to put
    /// them together.
    #[serde(default)]
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["0.05 ms"]))]
    pub write_back_gather: Duration,
    /// Bytes per second between host and drive, which writes take before they reach the media or are taken by the volatile
    /// cache. Not a limit if left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-range" = ["1 MB", "100 GB"], "examples" = ["238 MB"]))]
    pub transfer_rate: Option<Bytes>,
    /// Whether the volatile write cache is on at power-on.
    #[serde(default)]
    #[schemars(extend("examples" = [false]))]
    pub write_cache_on: bool,
    /// Memory for look-ahead on the host's sequential reads.
    #[serde(default = "default::read_buffer")]
    #[schemars(extend("x-range" = ["0 B", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["16 MiB"]))]
    pub read_buffer: Bytes,
    /// Whether look-ahead is on at power-on.
    #[serde(default)]
    #[schemars(extend("examples" = [false]))]
    pub look_ahead: bool,
    /// Whether the drive parks its heads at the inner diameter when it is idle and has no background work.
    #[serde(default)]
    #[schemars(extend("examples" = [false]))]
    pub park_when_idle: bool,
}

/// The order in which a drive serves waiting commands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Schedule {
    /// In order of arrival.
    #[default]
    Fifo,
    /// The command that the heads reach first, with seek and rotation taken together.
    ShortestPositioningFirst,
}

/// Which writes leave a volatile cache first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum WriteBack {
    /// The oldest ones.
    #[default]
    Oldest,
    /// Any, as a hash table has them.
    Any,
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
    /// Bytes per second.
    #[schemars(extend("x-range" = ["1 MB", "100 GB"], "examples" = ["400 MB"]))]
    pub bandwidth: Bytes,
}

/// Random variation of latency, drawn from the run's seed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Jitter {
    /// Standard deviation of a normal draw, as a fraction of a command's media time. Its absolute value is
    /// added, since nothing is faster than the mechanics.
    #[schemars(range(min = 0, max = 0.03), extend("examples" = [0.01]))]
    pub relative: f64,
    /// Upper bound of a uniform extra time of every command.
    #[schemars(extend("x-range" = ["0 ms", "10 ms"], "examples" = ["0.05 ms"]))]
    pub absolute: Duration,
    /// Fraction of the commands that are outliers.
    #[schemars(range(min = 0, max = 1), extend("examples" = [0.001]))]
    pub outlier_rate: f64,
    /// Upper bound of a uniform extra time of an outlier. Above zero if there are outliers.
    #[schemars(extend("x-range" = ["0 ms", "10 s"], "examples" = ["50 ms"]))]
    pub outlier: Duration,
}
