//! The TOML text of a random drive, written key by key.
//!
//! Invariant: sizes are whole 4 KiB blocks or round figures, durations have a unit, as profiles want them.

use std::fmt::Display;

use crate::profile::{Bytes, Duration};

/// A block, the unit of every size in a profile.
const BLOCK: u64 = 4096;

/// A TOML file that grows.
#[derive(Clone, Debug, Default)]
pub(super) struct Text(String);

impl Text {
    /// A comment line.
    pub fn comment(&mut self, words: &str) {
        self.0.push_str(&format!("# {words}\n"));
    }

    /// Begins a section, such as `[layer]`.
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

    /// A key whose value is a duration in nanoseconds.
    pub fn time(&mut self, key: &str, ns: f64) {
        self.word(key, Duration::from_ns(ns));
    }

    /// Another text behind this one.
    pub fn append(&mut self, other: &Self) {
        self.0.push_str(&other.0);
    }

    /// The whole of it.
    pub fn into_string(self) -> String {
        self.0
    }
}

/// Whole blocks, at least one, nearest to so many bytes.
pub(super) fn blocks(bytes: f64) -> Bytes {
    let whole = (bytes / BLOCK as f64).round().max(1.0) as u64;
    Bytes(whole * BLOCK)
}

/// Whole MiB, at least one, nearest to so many bytes.
pub(super) fn mebibytes(bytes: f64) -> Bytes {
    Bytes(((bytes / f64::from(1 << 20)).round().max(1.0) as u64) << 20)
}
