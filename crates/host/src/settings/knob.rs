//! Where a setting is kept: an attribute in sysfs, or the drive.
//!
//! Invariants: a value that was read can be written again; a missing attribute is an error, never a new file.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::PathBuf;

use super::State;
use crate::caching::Caching;
use crate::identity::chosen;
use crate::sg_io::Link;

/// The value of a setting, where it is kept.
pub trait Knob: std::fmt::Debug + Send {
    /// The value in force.
    fn read(&self) -> io::Result<String>;

    /// Asks for a value.
    fn write(&self, value: &str) -> io::Result<()>;
}

/// An attribute in sysfs: a value, or the one in brackets of a list.
#[derive(Debug)]
pub struct Attribute(pub PathBuf);

impl Knob for Attribute {
    fn read(&self) -> io::Result<String> {
        let text = fs::read_to_string(&self.0)?;
        Ok(chosen(text.trim()).unwrap_or_else(|| text.trim().to_owned()))
    }

    /// Writes an existing attribute; a missing one is an error, never a new file.
    fn write(&self, value: &str) -> io::Result<()> {
        File::options().write(true).truncate(true).open(&self.0)?.write_all(value.as_bytes())
    }
}

impl<L: Link + Send> Knob for Caching<L> {
    fn read(&self) -> io::Result<String> {
        Ok(State::of_flag(Caching::read(self)?.look_ahead).as_str().to_owned())
    }

    fn write(&self, value: &str) -> io::Result<()> {
        self.set_look_ahead(value == State::On.as_str())
    }
}
