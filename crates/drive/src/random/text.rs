//! The TOML text of a random drive, written key by key.
//!
//! Invariant: sizes are whole 4 KiB blocks or round figures and durations have a unit, as profiles require.

use std::fmt::Display;

use crate::profile::{Bytes, Duration};

/// A block, the unit of all sizes in a profile.
const BLOCK: u64 = 4096;

/// A TOML file under construction.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// A comment line.
    pub fn comment(&mut self, words: &str) {
        self.0.push_str(&format!("# {words}\n"));
    }

    /// Starts a section, such as `[layer]`.
    pub fn section(&mut self, heading: &str) {
        self.0.push_str(&format!("\n{heading}\n"));
    }

    /// A key whose value needs no quotes: a number, a list, `true`.
    pub fn key(&mut self, key: &str, value: impl Display) {
        self.0.push_str(&format!("{key} = {value}\n"));
    }

    /// A key whose value is text.
    pub fn word(&mut self, key: &str, value: impl Display) {
        self.key(key, format!("\"{value}\""));
    }

    /// A key with a duration in nanoseconds.
    pub fn time(&mut self, key: &str, ns: f64) {
        self.word(key, Duration::from_ns(ns));
    }

    /// Appends another text.
    pub fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// The complete text.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// The nearest whole number of blocks, at least one, in bytes.
pub(super) fn blocks(bytes: f64) -> Bytes {
    let whole = (bytes / BLOCK as f64).round().max(1.0) as u64;
    Bytes(whole * BLOCK)
}

/// The nearest whole number of MiB, at least one, in bytes.
pub(super) fn mebibytes(bytes: f64) -> Bytes {
    Bytes(((bytes / f64::from(1 << 20)).round().max(1.0) as u64) << 20)
}
