//! The form of a true finding, and the tolerance for reported values.
//!
//! Invariant: an interval has the tolerance of its finding, independent of the drive.

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

/// A value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
pub enum Value {
    /// One of several words.
    Word(&'static str),
    /// A number in the finding's unit.
    Number(u64),
    /// Numbers by name.
    Table(#[serde(serialize_with = "named")] Vec<(&'static str, u64)>),
    /// Steps in the speed of a sequential read.
    Plateaus {
        /// Number of steps before they repeat in the opposite order.
        count: u64,
        /// Whether they repeat in the opposite order, as they always do.
        mirrored: bool,
        /// Host bytes in the first step.
        first_bytes: u64,
        /// Host bytes in the last step.
        last_bytes: u64,
    },
}

/// When a reported value counts as right.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Right {
    /// If it is equal.
    Equal,
    /// Within a fraction of the value.
    Within(f64),
    /// Within a number of the finding's units.
    Off(u64),
}

impl Right {
    fn interval(self, value: u64) -> [u64; 2] {
        let off = match self {
            Self::Equal => 0,
            Self::Within(part) => (value as f64 * part) as u64,
            Self::Off(units) => units,
        };
        [value.saturating_sub(off), value + off]
    }
}

/// A true finding.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueFinding {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// The unit of its numbers.
    pub unit: Option<&'static str>,
    /// When a reported value is right.
    pub right: Right,
    /// The origin of the value, or why no test can measure it.
    pub why: String,
    /// Whether a test can measure it; otherwise *unknown* is the right answer.
    pub measurable: bool,
}

impl TrueFinding {
    /// A finding whose value is a word.
    pub(super) fn word(name: &'static str, value: &'static str, why: impl Into<String>) -> Self {
        Self {
            name,
            value: Value::Word(value),
            unit: None,
            right: Right::Equal,
            why: why.into(),
            measurable: true,
        }
    }

    /// A finding with one number.
    pub(super) fn number(
        name: &'static str,
        (value, unit): (u64, &'static str),
        right: Right,
        why: impl Into<String>,
    ) -> Self {
        Self { value: Value::Number(value), unit: Some(unit), right, ..Self::word(name, "", why) }
    }

    /// A finding with several numbers.
    pub(super) fn table(
        name: &'static str,
        (values, unit): (Vec<(&'static str, u64)>, &'static str),
        right: Right,
        why: impl Into<String>,
    ) -> Self {
        Self { value: Value::Table(values), unit: Some(unit), right, ..Self::word(name, "", why) }
    }

    /// Marks the finding as not measurable if there is a reason.
    pub(super) fn unless(mut self, reason: Option<String>) -> Self {
        if let Some(reason) = reason {
            self.measurable = false;
            self.why = reason;
        }
        self
    }
}

/// Numbers by name, as JSON.
fn named<T: Serialize, S: Serializer>(
    numbers: &[(&'static str, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(numbers.iter().map(|(name, value)| (name, value)))
}

/// The interval of a finding, as JSON.
struct Interval<'a>(&'a TrueFinding);

impl Serialize for Interval<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let TrueFinding { value, right, .. } = self.0;
        match value {
            Value::Word(_) => serializer.serialize_none(),
            Value::Number(value) => right.interval(*value).serialize(serializer),
            Value::Table(values) => {
                let intervals: Vec<_> =
                    values.iter().map(|&(name, value)| (name, right.interval(value))).collect();
                named(&intervals, serializer)
            }
            Value::Plateaus { count, first_bytes, last_bytes, .. } => {
                let intervals = [
                    ("count", Right::Equal.interval(*count)),
                    ("first_bytes", right.interval(*first_bytes)),
                    ("last_bytes", right.interval(*last_bytes)),
                ];
                named(&intervals, serializer)
            }
        }
    }
}

impl Serialize for TrueFinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(6))?;
        map.serialize_entry("value", &self.value)?;
        map.serialize_entry("unit", &self.unit)?;
        map.serialize_entry("interval", &Interval(self))?;
        map.serialize_entry("confidence", &1.0)?;
        map.serialize_entry("why", &self.why)?;
        map.serialize_entry("measurable", &self.measurable)?;
        map.end()
    }
}
