//! The form of a true finding. Its unit and how near a reported value must come are declared with the test that finds
//! it (`skylight.findings`), and added where a truth is read (`skylight.truth`).

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

/// A true finding.
#[derive(Clone, Debug, PartialEq)]
pub struct TrueFinding {
    /// Its name.
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// The least and the most that is true, of a number that differs from place to place; else `value` alone is.
    pub range: Option<(u64, u64)>,
    /// The origin of the value, or why no test can measure it.
    pub why: String,
    /// Whether a test can measure it; otherwise *unknown* is the right answer.
    pub measurable: bool,
}

impl TrueFinding {
    /// A finding that can be measured.
    pub(super) fn new(name: &'static str, value: Value, why: impl Into<String>) -> Self {
        Self { name, value, range: None, why: why.into(), measurable: true }
    }

    /// A finding whose value is a word.
    pub(super) fn word(name: &'static str, value: &'static str, why: impl Into<String>) -> Self {
        Self::new(name, Value::Word(value), why)
    }

    /// A finding with one number.
    pub(super) fn number(name: &'static str, value: u64, why: impl Into<String>) -> Self {
        Self::new(name, Value::Number(value), why)
    }

    /// A finding with several numbers.
    pub(super) fn table(
        name: &'static str,
        values: Vec<(&'static str, u64)>,
        why: impl Into<String>,
    ) -> Self {
        Self::new(name, Value::Table(values), why)
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
fn named<S: Serializer>(numbers: &[(&'static str, u64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(numbers.iter().map(|(name, value)| (name, value)))
}

impl Serialize for TrueFinding {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(4 + usize::from(self.range.is_some())))?;
        map.serialize_entry("value", &self.value)?;
        if let Some(range) = self.range {
            map.serialize_entry("range", &range)?;
        }
        map.serialize_entry("confidence", &1.0)?;
        map.serialize_entry("why", &self.why)?;
        map.serialize_entry("measurable", &self.measurable)?;
        map.end()
    }
}
