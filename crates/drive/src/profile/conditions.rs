//! The conditions that a host meets a drive under: the only schema of the section `[conditions]`.
//!
//! A simulated drive alone is ideal: it erases in no time, obeys every switch and answers a host that never hesitates.
//! The conditions describe what stands between a measurement and a real drive: what the target refuses and
//! misreports, what its former owner left on it, and how the host and the link delay commands. They are a file of
//! their own, or a section of a profile; `docs/conditions.md` explains each key.
//!
//! Invariants: every condition is a field here and nowhere else; the defaults are the ideal conditions, under which a
//! drive behaves as if it had none.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::diagnose::ProfileError;
use super::quantity::{Bytes, Duration};
use super::schema_view;

/// How the target can be brought to a known state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Erase {
    /// Not at all: every command that discards data is refused.
    None,
    /// It obeys TRIM of an extent and has no command that erases the whole drive.
    Trim,
    /// It obeys a command that erases the whole drive, and TRIM.
    #[default]
    Sanitize,
}

/// What happens when the host switches look-ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LookAhead {
    /// It is switched, and reported as it is.
    #[default]
    Obeys,
    /// It is on and stays on; the host cannot read its state.
    StaysOn,
}

/// The volatile write cache as the host meets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum VolatileCache {
    /// As in the profile: it is switched, reported as it is, and obeys FLUSH.
    #[default]
    Obeys,
    /// Off, and stays off.
    Off,
    /// On, and stays on; reported as on; obeys FLUSH.
    On,
    /// On, and stays on; reported as off; obeys FLUSH.
    SaidOff,
    /// On, and stays on; reported as on; FLUSH completes at once and makes nothing durable.
    IgnoresFlush,
}

impl VolatileCache {
    /// The state that it keeps whatever the host asks for; `None` if it obeys.
    pub fn fixed(self) -> Option<bool> {
        match self {
            Self::Obeys => None,
            Self::Off => Some(false),
            Self::On | Self::SaidOff | Self::IgnoresFlush => Some(true),
        }
    }
}

/// What was written to the drive before the measurement, right before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PriorUse {
    /// Nothing.
    #[default]
    New,
    /// Random writes that fill half of the persistent cache.
    HalfFull,
    /// Random writes until the drive begins to clean.
    Full,
    /// The whole drive once, in order.
    WholeDrive,
}

/// The largest queue of a profile, so a limit that limits nothing.
pub const MAX_QUEUE_DEPTH: u32 = 32;

/// What a host meets besides the drive. Ideal conditions if left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Conditions {
    /// How the target can be brought to a known state.
    #[schemars(extend("examples" = ["none"]))]
    pub erase: Erase,
    /// What happens when the host switches look-ahead.
    #[schemars(extend("examples" = ["stays-on"]))]
    pub look_ahead: LookAhead,
    /// Maximum number of commands that the link lets the drive queue; the host holds back the rest.
    #[schemars(range(min = 1, max = 32), extend("examples" = [1]))]
    pub queue_depth: u32,
    /// The volatile write cache as the host meets it.
    #[schemars(extend("examples" = ["said-off"]))]
    pub volatile_cache: VolatileCache,
    /// Size of a volatile cache that is on although the profile has none: that of a bridge or controller.
    #[schemars(extend("x-range" = ["1 MiB", "16 GiB"], "x-multiple" = "4 KiB", "examples" = ["64 MiB"]))]
    pub volatile_cache_size: Bytes,
    /// What was written to the drive right before the measurement.
    #[schemars(extend("examples" = ["half-full"]))]
    pub prior_use: PriorUse,
    /// Mean time from a completion until the host submits its next command, in addition to that of the profile.
    #[schemars(extend("x-range" = ["0 ms", "1 s"], "examples" = ["120 us"]))]
    pub host_gap: Duration,
    /// Variation of the host gap: each is drawn uniformly from the mean less this fraction of it to the mean plus it.
    #[schemars(range(min = 0, max = 1), extend("examples" = [0.3]))]
    pub host_gap_jitter: f64,
    /// Granularity of the host's clock; times are rounded down to it.
    #[schemars(extend("x-range" = ["1 ns", "100 ms"], "examples" = ["1 us"]))]
    pub clock: Duration,
    /// Time that the link adds to a command, half of it before the drive has the command and half after its completion.
    #[schemars(extend("x-range" = ["0 ms", "100 ms"], "examples" = ["0.5 ms"]))]
    pub transport: Duration,
    /// The spindle stops when the drive is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spin_down: Option<Rest>,
    /// The heads leave the platters when the drive is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub head_unload: Option<Rest>,
    /// The drive reads its media when it is idle.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub background_scan: Option<BackgroundScan>,
    /// Fraction of the media accesses that wait for reads of another client, up to four of them, which move the head.
    #[schemars(range(min = 0, max = 1), extend("examples" = [0.1]))]
    pub busy_share: f64,
}

/// A state of rest that a drive enters when it is idle, and that the next command has to end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rest {
    /// Idle time, without commands and background work of the layer, after which the drive enters it.
    #[schemars(extend("x-range" = ["10 ms", "36000 s"], "examples" = ["60 s"]))]
    pub after: Duration,
    /// Time that the first command waits for its end.
    #[schemars(extend("x-range" = ["1 ms", "60 s"], "examples" = ["8 s"]))]
    pub wake: Duration,
}

/// Reads of the drive's own, one after the other in the order of the tracks, to find defects early.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackgroundScan {
    /// Idle time, without commands and background work of the layer, after which the reads begin.
    #[schemars(extend("x-range" = ["10 ms", "36000 s"], "examples" = ["0.5 s"]))]
    pub after: Duration,
    /// Time from the start of a read to that of the next.
    #[schemars(extend("x-range" = ["1 ms", "3600 s"], "examples" = ["100 ms"]))]
    pub every: Duration,
    /// Size of a read.
    #[schemars(extend("x-range" = ["4 KiB", "64 MiB"], "x-multiple" = "4 KiB", "examples" = ["1 MiB"]))]
    pub size: Bytes,
}

impl Default for Conditions {
    /// The ideal conditions.
    fn default() -> Self {
        Self {
            erase: Erase::default(),
            look_ahead: LookAhead::default(),
            queue_depth: MAX_QUEUE_DEPTH,
            volatile_cache: VolatileCache::default(),
            volatile_cache_size: Bytes(64 << 20),
            prior_use: PriorUse::default(),
            host_gap: Duration::ZERO,
            host_gap_jitter: 0.0,
            clock: Duration::from_ns(1.0),
            transport: Duration::ZERO,
            spin_down: None,
            head_unload: None,
            background_scan: None,
            busy_share: 0.0,
        }
    }
}

/// A file of conditions: the section alone.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
struct ConditionsFile {
    /// The conditions.
    conditions: Conditions,
}

impl Conditions {
    /// Parses and checks a file of conditions: TOML with the section `[conditions]`, or JSON with an object
    /// `conditions`. Errors call the file `origin`.
    ///
    /// # Errors
    /// The first fault, in one line.
    pub fn from_text(text: &str, origin: &str) -> Result<Self, ProfileError> {
        if !text.trim_start().starts_with('{') {
            return Self::from_toml(text, origin);
        }
        let refused = |line, what: &dyn std::fmt::Display| {
            ProfileError::new(origin, line, &format!("is not JSON of conditions: {what}"))
        };
        let json: toml::Table = serde_json::from_str(text).map_err(|error| refused(error.line(), &error))?;
        let toml = toml::to_string(&json).map_err(|error| refused(1, &error))?;
        Self::from_toml(&toml, origin)
    }

    fn from_toml(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let schema = schema_view::schema_of::<ConditionsFile>();
        let (file, _): (ConditionsFile, _) = super::read(text, origin, &schema, |_, _| Ok(()))?;
        Ok(file.conditions)
    }

    /// The section `[conditions]` as TOML, which may be a file or the end of a profile.
    pub fn to_toml(&self) -> String {
        // Words, numbers and tables of them always serialize.
        toml::to_string(&ConditionsFile { conditions: self.clone() }).unwrap_or_default()
    }

    /// All conditions as JSON: durations as text, sizes in bytes.
    pub fn to_json(&self) -> String {
        // As above.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// Whether a drive behaves as without conditions.
    pub fn is_ideal(&self) -> bool {
        *self == Self { volatile_cache_size: self.volatile_cache_size, ..Self::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_is_read_again() {
        let conditions = Conditions {
            erase: Erase::None,
            volatile_cache: VolatileCache::SaidOff,
            clock: Duration::from_ns(1e6),
            host_gap_jitter: 0.25,
            spin_down: Some(Rest { after: Duration::from_ns(60e9), wake: Duration::from_ns(8e9) }),
            ..Conditions::default()
        };
        assert_eq!(Conditions::from_text(&conditions.to_toml(), "c.toml"), Ok(conditions.clone()));
        let json = format!("{{\"conditions\": {}}}", conditions.to_json());
        assert_eq!(Conditions::from_text(&json, "c.json"), Ok(conditions));
        assert_eq!(Conditions::from_text("[conditions]\n", "c.toml"), Ok(Conditions::default()));
    }

    #[test]
    fn a_fault_is_one_line_with_its_place_and_remedy() {
        let line = |text: &str| Conditions::from_text(text, "c.toml").unwrap_err().to_string();
        assert_eq!(
            line("[conditions]\nerase = \"trym\""),
            "c.toml:2: conditions.erase = \"trym\" is not a choice; did you mean \"trim\"?"
        );
        assert_eq!(
            line("[conditions]\n\nbusy_share = 2"),
            "c.toml:3: conditions.busy_share = 2 is out of range 0 to 1"
        );
        assert!(line("erase = \"none\"").starts_with("c.toml:1: erase is not a key here"));
        assert!(line("{\"conditions\": {\"erase\": }}").starts_with("c.toml:1: is not JSON"));
    }
}
