//! The restore note: what a later run needs to restore the settings that a killed run left changed.
//!
//! Invariants: a note is on disk, durably, before the setting in it is changed, and never half written; it has the
//! settings that are changed at the moment, and is removed with the last of them.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::Path;

use super::Setting;
use crate::error::{HostError, RefusalReason};

const NOTE_TITLE: &str = "skylight restore note 1";
const BOOT: &str = "boot = ";

/// What a later run needs to restore settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreNote {
    /// The drive, by the `key` of its [`crate::Identity`].
    pub drive: String,
    /// The boot ID of the kernel under which they were changed; `None` in a note of an earlier version.
    pub boot: Option<String>,
    /// Settings that were changed, in the order of their change, with their original values.
    pub settings: Vec<(Setting, String)>,
}

impl RestoreNote {
    /// Reads a note; `None` if there is none.
    ///
    /// # Errors
    /// When it cannot be read, or is damaged.
    pub fn read(path: &Path) -> Result<Option<Self>, HostError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(note_error(path, source)),
        };
        let mut lines = text.lines();
        let title = lines.next();
        let drive = lines.next().and_then(|line| line.strip_prefix("drive = "));
        let setting = |line: &str| {
            let (key, value) = line.split_once(" = ")?;
            Some((Setting::of_key(key)?, value.to_owned()))
        };
        let mut lines = lines.peekable();
        let boot = lines.next_if(|line| line.starts_with(BOOT));
        let boot = boot.and_then(|line| line.strip_prefix(BOOT)).map(str::to_owned);
        let settings: Option<Vec<_>> = lines.map(setting).collect();
        match (title, drive, settings) {
            (Some(NOTE_TITLE), Some(drive), Some(settings)) if !settings.is_empty() => {
                Ok(Some(Self { drive: drive.to_owned(), boot, settings }))
            }
            _ => Err(bad_note(path, "is not a restore note that this version reads")),
        }
    }

    /// The original value of a setting that was changed.
    pub(super) fn value(&self, setting: Setting) -> Option<&str> {
        self.settings.iter().find(|(known, _)| *known == setting).map(|(_, value)| value.as_str())
    }

    /// Writes the note and its directory durably; a note of nothing is removed.
    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        if self.settings.is_empty() {
            return match fs::remove_file(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            };
        }
        let lines = self.settings.iter().map(|(setting, value)| format!("{} = {value}\n", setting.key()));
        let boot = self.boot.as_ref().map(|boot| format!("{BOOT}{boot}\n")).unwrap_or_default();
        let text = format!("{NOTE_TITLE}\ndrive = {}\n{boot}{}", self.drive, lines.collect::<String>());
        write_durably(path, &text)
    }
}

/// Writes a file and its directory durably: the whole text, or what was there before.
pub fn write_durably(path: &Path, text: &str) -> io::Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    fs::create_dir_all(dir)?;
    let draft = path.with_extension("draft");
    let mut file = File::create(&draft)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&draft, path)?;
    File::open(dir)?.sync_all()
}

pub(super) fn note_error(note: &Path, source: io::Error) -> HostError {
    RefusalReason::Note(source).of(&note.display().to_string()).into()
}

pub(super) fn bad_note(note: &Path, why: &'static str) -> HostError {
    RefusalReason::BadNote(why).of(&note.display().to_string()).into()
}
