//! The volatile write cache of the drive: switched for a test, and restored in every case.
//!
//! Invariants: the original setting is recorded on disk before it is changed, so that a later run can restore
//! it after this process was killed; an existing note takes precedence over the current setting, which may be
//! what the killed run left; a [`CacheSwitch`] restores once, at the latest on drop. `queue/write_cache` is
//! read but never written: it changes what the kernel assumes, not the drive.
//!
//! Source: Linux `drivers/scsi/sd.c` (`cache_type`), `Documentation/ABI/testing/sysfs-block`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::device::{Access, Device, io_refusal};
use crate::error::{HostError, NotRestored, RefusalReason};
use crate::sysfs::Node;

const NOTE_TITLE: &str = "skylight restore note 1";
const CACHE_ON: &str = "write back";
const CACHE_OFF: &str = "write through";

/// The state of a volatile write cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteCache {
    /// Writes may complete before they are on the medium.
    On,
    /// Writes complete when they are on the medium.
    Off,
    /// Not reported.
    Unknown,
}

impl WriteCache {
    /// "on", "off" or "unknown".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Unknown => "unknown",
        }
    }

    fn of_setting(setting: &str) -> Self {
        if setting.starts_with(CACHE_ON) {
            Self::On
        } else if setting == CACHE_OFF || setting == "none" {
            Self::Off
        } else {
            Self::Unknown
        }
    }

    fn of_node(node: &Node) -> Self {
        let disk = node.disk();
        let declared = disk.cache_type().or_else(|| disk.text("queue/write_cache"));
        declared.map_or(Self::Unknown, |setting| Self::of_setting(&setting))
    }
}

/// What a later run needs to restore a setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreNote {
    /// The drive, by the `key` of its [`crate::Identity`].
    pub drive: String,
    /// Its original `cache_type`.
    pub cache_type: String,
}

impl RestoreNote {
    /// Reads a note; `None` if there is none.
    pub fn read(path: &Path) -> Result<Option<Self>, HostError> {
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(note_error(path, source)),
        };
        let mut lines = text.lines();
        let title = lines.next();
        let drive = lines.next().and_then(|line| line.strip_prefix("drive = "));
        let cache = lines.next().and_then(|line| line.strip_prefix("cache_type = "));
        match (title, drive, cache) {
            (Some(NOTE_TITLE), Some(drive), Some(cache)) => {
                Ok(Some(Self { drive: drive.to_owned(), cache_type: cache.to_owned() }))
            }
            _ => Err(bad_note(path, "is not a restore note that this version reads")),
        }
    }

    /// Writes the note and its directory durably.
    fn write(&self, path: &Path) -> io::Result<()> {
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let text = format!("{NOTE_TITLE}\ndrive = {}\ncache_type = {}\n", self.drive, self.cache_type);
        let draft = path.with_extension("draft");
        let mut file = File::create(&draft)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&draft, path)?;
        File::open(dir)?.sync_all()
    }
}

/// A switched write cache, or the reason why it was not switched.
#[derive(Debug)]
pub struct CacheSwitch {
    path: String,
    achieved: WriteCache,
    why: Option<String>,
    undo: Option<Undo>,
}

#[derive(Debug)]
struct Undo {
    file: PathBuf,
    setting: String,
    note: Option<PathBuf>,
}

impl CacheSwitch {
    /// The current state of the cache.
    pub fn achieved(&self) -> WriteCache {
        self.achieved
    }

    /// Why it is not in the requested state; `None` if it is.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Restores the original setting and removes the note. Idempotent.
    pub fn restore(&mut self) -> Result<(), HostError> {
        let Some(undo) = self.undo.take() else {
            return Ok(());
        };
        restore(&self.path, &undo)
    }
}

impl Drop for CacheSwitch {
    fn drop(&mut self) {
        // The error cannot be reported from here. The note stays, and the next run tries again.
        let _ = self.restore();
    }
}

impl Device {
    /// The state of the target's volatile write cache, as declared.
    pub fn write_cache(&self) -> WriteCache {
        self.node().map_or(WriteCache::Unknown, WriteCache::of_node)
    }

    /// Switches the volatile write cache. A drive that cannot switch it is not an error; the result says why.
    /// `note` is the path of the restore note while the setting is changed.
    pub fn switch_write_cache(&self, on: bool, note: Option<&Path>) -> Result<CacheSwitch, HostError> {
        self.subject().switch(on, note)
    }

    /// Restores a setting that a killed run left changed, and returns it. A target opened read-only is left
    /// alone, because another run may be using it.
    pub fn restore_from(&self, note: &Path) -> Result<Option<String>, HostError> {
        self.subject().restore_from(note)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.identity().path,
            drive: self.identity().key.clone(),
            access: self.access(),
            node: self.node(),
        }
    }
}

/// The drive whose cache is switched.
struct Subject<'a> {
    path: &'a str,
    /// The key of its restore note; `None` for a target without settings.
    drive: Option<String>,
    access: Access,
    node: Option<&'a Node>,
}

impl Subject<'_> {
    fn state(&self) -> WriteCache {
        self.node.map_or(WriteCache::Unknown, WriteCache::of_node)
    }

    fn cache_type_file(&self) -> Option<PathBuf> {
        self.node.and_then(|node| node.disk().cache_type_file())
    }

    fn switch(&self, on: bool, note: Option<&Path>) -> Result<CacheSwitch, HostError> {
        let wanted = if on { WriteCache::On } else { WriteCache::Off };
        let mut switch =
            CacheSwitch { path: self.path.to_owned(), achieved: self.state(), why: None, undo: None };
        if switch.achieved == wanted {
            return Ok(switch);
        }
        if self.access == Access::ReadOnly {
            switch.why = Some("not changed, because the target was opened read-only".into());
            return Ok(switch);
        }
        let Some(file) = self.cache_type_file() else {
            switch.why = Some("this target has no switch for it".into());
            return Ok(switch);
        };
        let setting = match self.recorded(note)? {
            Some(earlier) => earlier,
            None => self.record_setting(&file, note)?,
        };
        let asked = write_setting(&file, if on { CACHE_ON } else { CACHE_OFF });
        switch.achieved = self.state();
        if switch.achieved != wanted {
            let reason = asked.err().map_or("it kept its setting".into(), |error| error.to_string());
            switch.why = Some(format!("the drive refused to switch it: {reason}"));
        }
        switch.undo = Some(Undo { file, setting, note: note.map(Path::to_owned) });
        Ok(switch)
    }

    fn restore_from(&self, note: &Path) -> Result<Option<String>, HostError> {
        if self.access == Access::ReadOnly {
            return Ok(None);
        }
        let Some(setting) = self.recorded(Some(note))? else {
            return Ok(None);
        };
        let Some(file) = self.cache_type_file() else {
            return Err(bad_note(note, "is for a drive whose write cache cannot be switched here"));
        };
        let undo = Undo { file, setting, note: Some(note.to_owned()) };
        restore(self.path, &undo)?;
        Ok(Some(undo.setting))
    }

    /// The setting recorded by an earlier run for this drive.
    fn recorded(&self, note: Option<&Path>) -> Result<Option<String>, HostError> {
        let Some(path) = note else { return Ok(None) };
        let Some(found) = RestoreNote::read(path)? else {
            return Ok(None);
        };
        if Some(&found.drive) != self.drive.as_ref() {
            return Err(bad_note(path, "belongs to another drive"));
        }
        Ok(Some(found.cache_type))
    }

    /// Records the current setting, and returns it.
    fn record_setting(&self, file: &Path, note: Option<&Path>) -> Result<String, HostError> {
        let cache_type = read_setting(file)
            .map_err(|source| io_refusal(self.path, "reading its cache setting", source))?;
        if let (Some(note), Some(drive)) = (note, &self.drive) {
            let noted = RestoreNote { drive: drive.clone(), cache_type: cache_type.clone() };
            noted.write(note).map_err(|source| note_error(note, source))?;
        }
        Ok(cache_type)
    }
}

fn restore(path: &str, undo: &Undo) -> Result<(), HostError> {
    let unchanged = read_setting(&undo.file).is_ok_and(|now| now == undo.setting);
    if !unchanged {
        write_setting(&undo.file, &undo.setting).map_err(|source| NotRestored {
            path: path.to_owned(),
            setting: undo.setting.clone(),
            source,
        })?;
    }
    match undo.note.as_deref().map(fs::remove_file) {
        Some(Err(source)) if source.kind() != io::ErrorKind::NotFound => {
            Err(note_error(undo.note.as_deref().unwrap_or(Path::new("")), source))
        }
        _ => Ok(()),
    }
}

fn read_setting(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

/// Writes an existing attribute; a missing one is an error, never a new file.
fn write_setting(file: &Path, setting: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(file)?.write_all(setting.as_bytes())
}

fn note_error(note: &Path, source: io::Error) -> HostError {
    RefusalReason::Note(source).of(&note.display().to_string()).into()
}

fn bad_note(note: &Path, why: &'static str) -> HostError {
    RefusalReason::BadNote(why).of(&note.display().to_string()).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    /// A SATA disk with its cache on, and the path of its setting.
    fn disk(tree: &Tree) -> (Node, PathBuf) {
        let node = tree.disk("sdq", (8, 256));
        tree.file("sys/devices/sdq/queue/write_cache", "write back");
        let file = tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", "write back\n");
        (node, file)
    }

    fn subject(node: &Node) -> Subject<'_> {
        Subject {
            path: "/dev/sdq",
            drive: Some("Model-1".into()),
            access: Access::DestroyData,
            node: Some(node),
        }
    }

    #[test]
    fn the_cache_is_switched_and_restored_on_drop() -> Result<(), HostError> {
        let tree = Tree::new("switch");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        {
            let switch = subject(&node).switch(false, Some(&note))?;
            assert_eq!((switch.achieved(), switch.why()), (WriteCache::Off, None), "{switch:?}");
            assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_OFF));
            let kept = RestoreNote::read(&note)?;
            assert_eq!(kept.map(|note| note.cache_type).as_deref(), Some(CACHE_ON));
        }
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_ON));
        assert!(!note.exists());
        Ok(())
    }

    #[test]
    fn the_next_run_restores_what_a_killed_run_left() -> Result<(), HostError> {
        let tree = Tree::new("killed");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(false, Some(&note))?);
        let restore = subject(&node).restore_from(&note)?;
        assert_eq!(restore.as_deref(), Some(CACHE_ON));
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_ON));
        assert_eq!(subject(&node).restore_from(&note)?, None);
        Ok(())
    }

    #[test]
    fn a_drive_that_vanished_is_a_failure_and_its_note_stays() -> Result<(), HostError> {
        let tree = Tree::new("vanished");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        let mut switch = subject(&node).switch(false, Some(&note))?;
        let _ = fs::remove_file(&file);
        let error = switch.restore().err();
        assert!(matches!(error, Some(HostError::NotRestored(_))), "{error:?}");
        let line = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(line.starts_with("/dev/sdq: its write cache could not be set to 'write back'"), "{line}");
        assert!(!file.exists(), "no file is created in its place");
        assert!(note.exists());
        Ok(())
    }

    #[test]
    fn an_earlier_note_takes_precedence_over_the_current_setting() -> Result<(), HostError> {
        let tree = Tree::new("earlier");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(false, Some(&note))?);
        // Now the cache is off, which the killed run left; turning it on must not note "off".
        drop(subject(&node).switch(true, Some(&note))?);
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_ON));
        assert!(!note.exists());
        Ok(())
    }

    #[test]
    fn a_note_of_another_drive_or_a_damaged_one_is_not_used() -> Result<(), HostError> {
        let tree = Tree::new("foreign");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(false, Some(&note))?);
        let mut other = subject(&node);
        other.drive = Some("Model-2".into());
        let error = other.restore_from(&note).err().map(|e| e.to_string());
        assert!(error.is_some_and(|line| line.contains("belongs to another drive")));
        tree.file("note", "skylight restore");
        let error = subject(&node).restore_from(&note).err();
        assert!(error.is_some_and(|e| e.to_string().contains("not a restore note")));
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_OFF));
        Ok(())
    }

    #[test]
    fn a_cache_that_cannot_be_switched_is_reported_and_not_changed() -> Result<(), HostError> {
        let tree = Tree::new("cannot");
        let (node, file) = disk(&tree);
        let mut read_only = subject(&node);
        read_only.access = Access::ReadOnly;
        let switch = read_only.switch(false, None)?;
        assert_eq!(switch.achieved(), WriteCache::On);
        assert!(switch.why().is_some_and(|why| why.contains("read-only")));
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_ON));

        let bare = tree.disk("sdr", (8, 272));
        tree.file("sys/devices/sdr/queue/write_cache", "write back");
        let switch = subject(&bare).switch(false, None)?;
        assert_eq!(switch.achieved(), WriteCache::On);
        assert!(switch.why().is_some_and(|why| why.contains("no switch")));
        Ok(())
    }

    #[test]
    fn without_a_note_nothing_is_changed() {
        let tree = Tree::new("nonote");
        let (node, file) = disk(&tree);
        tree.file("taken", "a file where the folder should be");
        let nowhere = tree.path("taken/note");
        let error = subject(&node).switch(false, Some(&nowhere)).err();
        assert!(error.is_some_and(|e| e.to_string().contains("cannot keep the restore note")));
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_ON));
    }

    #[test]
    fn the_declared_state_is_read_from_either_attribute() {
        let tree = Tree::new("state");
        let node = tree.disk("sdq", (8, 256));
        assert_eq!(WriteCache::of_node(&node), WriteCache::Unknown);
        tree.file("sys/devices/sdq/queue/write_cache", "write through");
        assert_eq!(WriteCache::of_node(&node), WriteCache::Off);
        let mode_page = "sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type";
        tree.file(mode_page, "write back, no read (daft)");
        assert_eq!(WriteCache::of_node(&node), WriteCache::On);
        tree.file(mode_page, "none");
        assert_eq!(WriteCache::of_node(&node), WriteCache::Off);
    }
}
