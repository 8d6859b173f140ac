//! The ranges and probabilities that random drives are drawn from, in one table each.
//!
//! Ranges cover at least those that the suite is scored on (`docs/random-drives.md`); for others, the row
//! gives the reason. Draws are independent except where `hardware.rs` and `layers.rs` state a physical limit.
//!
//! Invariant: a draw lies in its range, both ends included, and is rounded to a human-readable number.

/// The distribution of draws over a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Uniform.
    Linear,
    /// Uniform in the logarithm: every doubling is equally likely.
    Log,
    /// Uniform over the integers.
    Whole,
}

/// The range of a property.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    /// The property, which also names its stream of random numbers.
    pub name: &'static str,
    /// The minimum.
    pub low: f64,
    /// The maximum.
    pub high: f64,
    /// The distribution.
    pub scale: Scale,
    /// Number of significant digits.
    pub digits: usize,
    /// The origin of the range.
    pub source: &'static str,
}

/// A property that a fraction of the drives has.
#[derive(Clone, Copy, Debug)]
pub struct Chance {
    /// The property, which also names its stream of random numbers.
    pub name: &'static str,
    /// The fraction of drives that have it.
    pub part: f64,
    /// The origin of the fraction.
    pub source: &'static str,
}

macro_rules! ranges {
    ($($name:ident = $low:expr, $high:expr, $scale:ident, $digits:expr, $source:expr;)*) => {
        $(
            #[doc = concat!("Range of `", stringify!($name), "`; see the table of this module.")]
            pub const $name: Range = Range {
                name: stringify!($name),
                low: $low,
                high: $high,
                scale: Scale::$scale,
                digits: $digits,
                source: $source,
            };
        )*
        /// All ranges.
        pub const RANGES: &[Range] = &[$($name),*];
    };
}

macro_rules! chances {
    ($($name:ident = $part:expr, $source:expr;)*) => {
        $(
            #[doc = concat!("Probability of `", stringify!($name), "`; see the table of this module.")]
            pub const $name: Chance = Chance { name: stringify!($name), part: $part, source: $source };
        )*
        /// All probabilities.
        pub const CHANCES: &[Chance] = &[$($name),*];
    };
}

/// So that a score means the same from version to version, some ranges may widen and never narrow.
const PROMISED: &str = "promised: docs/random-drives.md, Ranges";
const FLASH: &str = "chosen: from a fast SSD to a slow card";

ranges! {
    // Name = minimum, maximum, distribution, digits, source. Units last in the name.
    CAPACITY_BYTES = 100e9, 30e12, Log, 3, PROMISED;
    SPEED_RPM = 4_200.0, 15_000.0, Log, 3, PROMISED;
    SURFACES = 1.0, 20.0, Whole, 2, PROMISED;
    OUTER_TRACK_MIB = 0.3, 3.0, Log, 3, PROMISED;
    OUTER_TO_INNER = 1.5, 2.5, Linear, 3, PROMISED;
    RECORDING_ZONES = 4.0, 60.0, Whole, 2, PROMISED;
    TRACK_SEEK_MS = 0.5, 2.0, Linear, 3, PROMISED;
    FULL_SEEK_MS = 8.0, 25.0, Linear, 3, PROMISED;
    COMMAND_OVERHEAD_US = 20.0, 500.0, Log, 2, PROMISED;
    SEEK_ROOT_PART = 0.2, 0.8, Linear, 2, "chosen: measured drives have 0.3 to 0.7 (docs/calibration.md)";
    HEAD_SWITCH_MS = 0.3, 1.5, Linear, 2, "chosen: about the seek to a track";
    WRITE_SETTLE_US = 0.0, 300.0, Linear, 2, "chosen: docs/calibration.md bounds one drive's at 0.1 ms";
    SKEW_SLACK_US = 10.0, 200.0, Linear, 2, "chosen: skew that is just enough, or generous";
    GROUP_TRACKS = 50.0, 2_000.0, Log, 2, "chosen: serpentine passes of megabytes to gigabytes";
    SURFACE_DENSITY = 0.95, 1.05, Linear, 3, "chosen: Skylight, figure 18, has plateaus some % apart";
    SPARE_PART = 0.001, 0.02, Log, 2, "chosen: tracks beyond what the drive needs";
    HOST_GAP_US = 0.0, 20.0, Linear, 2, "chosen: what a host's interrupt takes";
    READ_BUFFER_MIB = 2.0, 64.0, Log, 2, "chosen: drives of the last decades";

    BAND_MIB = 4.0, 256.0, Log, 2, PROMISED;
    BAND_INNER_PART = 0.4, 1.0, Linear, 2, "Skylight, table 3: 36 to 17 and 40 to 15 MiB; bands by zone";
    BAND_RUNS = 2.0, 12.0, Whole, 2, "chosen: bands by zone, sizes from the OD to the ID";
    GUARD_TRACKS = 0.0, 2.0, Whole, 1, "chosen: whole tracks between bands, of heads up to three tracks wide";
    DISK_CACHE_PART = 0.001, 0.1, Log, 2, PROMISED;
    FLASH_CACHE_MIB = 64.0, 65_536.0, Log, 3, PROMISED;
    MAP_ENTRIES = 10_000.0, 2_000_000.0, Log, 2, PROMISED;
    QUANTUM_TRACKS = 0.2, 1.0, Linear, 3, PROMISED;
    OUT_OF_BAND_TRACKS = 0.0, 3.0, Linear, 3, PROMISED;
    ENTRY_QUANTA = 1.0, 16.0, Linear, 3, PROMISED;
    ENTRY_GAP_KIB = 0.0, 128.0, Linear, 3, "chosen: an isolated write catches the next slot, or misses it";
    MAP_MERGE_EVERY = 50.0, 2_000.0, Log, 3, PROMISED;
    MAP_MERGE_MS = 20.0, 800.0, Log, 3, PROMISED;
    MAP_UPDATE_KIB = 4.0, 256.0, Log, 2, "chosen: a block of the map, or its neighbourhood";
    PLACE_WATERMARK = 0.8, 1.0, Linear, 2, PROMISED;
    MAP_WATERMARK = 0.8, 1.0, Linear, 2, PROMISED;
    BAND_WATERMARK = 0.8, 1.0, Linear, 2, PROMISED;
    ZONE_WATERMARK = 0.8, 1.0, Linear, 2, PROMISED;
    IDLE_S = 0.2, 120.0, Log, 2, PROMISED;
    CLEANING_SEED = 0.0, 999_999.0, Whole, 6, "chosen: seeds of the random cleaning order";
    FREE_BANDS = 5.0, 200.0, Log, 2, "chosen: emulated-smr-3 has 21; a watermark of 0.8 needs 5";

    ZONE_MIB = 16.0, 2_048.0, Log, 3, PROMISED;
    ZONE_CAPACITY_PART = 0.5, 0.99, Linear, 2, "chosen: drives of flash have 0.5 to 1; none is known of platters";
    CONVENTIONAL_PART = 0.001, 1.0, Log, 2, PROMISED;
    OPEN_ZONES = 8.0, 4_096.0, Log, 2, PROMISED;
    ACTIVE_TO_OPEN = 1.0, 4.0, Linear, 2, "chosen: as many active zones as open ones, or some more";
    NON_SEQUENTIAL_ZONES = 8.0, 4_096.0, Log, 2, PROMISED;

    JITTER_PART = 0.0, 0.03, Linear, 2, PROMISED;
    JITTER_US = 0.0, 200.0, Linear, 2, PROMISED;
    OUTLIER_PART = 0.0, 0.005, Linear, 2, PROMISED;
    OUTLIER_MS = 5.0, 200.0, Log, 2, PROMISED;
    WRITE_CACHE_MIB = 0.0, 256.0, Linear, 3, PROMISED;
    WRITE_CACHE_RUNS = 16.0, 4_096.0, Log, 3, "docs/zoned.md: the ST8000AS0022 packs 127 writes into an entry; chosen: around it";
    FLASH_READ_US = 40.0, 200.0, Log, 2, FLASH;
    FLASH_WRITE_US = 20.0, 500.0, Log, 2, FLASH;
    FLASH_BANDWIDTH_MB = 100.0, 3_000.0, Log, 2, FLASH;
}

const CHOSEN: &str = "chosen: often enough to be tried, with and without";

chances! {
    KIND_CONVENTIONAL = 0.2, PROMISED;
    KIND_SSD = 0.1, PROMISED;
    WRITE_CACHE_ABSENT = 0.1, "promised: a write cache from 0 MiB on, as drives without one have";
    WRITE_CACHE_ON = 0.5, "promised: on or off at start";
    WRITE_CACHE_RUNS_UNLIMITED = 0.3, CHOSEN;
    OUTLIERS_ABSENT = 0.2, CHOSEN;
    FLASH_CACHE = 0.2, CHOSEN;
    MAP_UNLIMITED = 0.3, "promised: a map without a limit";
    MAP_NEVER_MERGED = 0.2, "promised: a map that is never merged";
    NO_OUT_OF_BAND = 0.1, "docs/figures.md, row R3: the ST8000AS0022 writes none";
    LAZY = 0.25, "promised: an idle threshold, or lazy";
    BANDS_BY_ZONE = 0.5, "promised: bands fixed or by zone";
    WHOLE_BANDS_BYPASS = 0.5, CHOSEN;
    SCHEDULE_FIFO = 0.3, CHOSEN;
    LOOK_AHEAD = 0.5, CHOSEN;
    PARKS = 0.5, CHOSEN;
    ZERO_LATENCY = 0.25, CHOSEN;
    ZONES_POWER_OF_TWO = 0.5, CHOSEN;
    ZONE_CAPACITY_BELOW_SIZE = 0.25, CHOSEN;
    CONVENTIONAL_ZONES_ABSENT = 0.3, "promised: a conventional share from 0 % on";
    OPEN_ZONES_UNLIMITED = 0.1, CHOSEN;
    ACTIVE_ZONES_LIMITED = 0.25, CHOSEN;
    UNRESTRICTED_READS = 0.5, CHOSEN;
    SURFACES_DIFFER = 0.5, CHOSEN;
    SHINGLED_TOWARDS_MD = 0.5, "Skylight, section 4.9: the one drive seen does";
}
