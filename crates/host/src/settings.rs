//! The drive's volatile write cache: switch it for a test, and put it back whatever happens.
//!
//! Invariants: what a drive had is noted on disk before it is changed, so that a later run can put it
//! back after this process was killed; a note that is already there wins over what the drive has now,
//! which may be what the killed run left; a [`CacheSwitch`] puts back once, at the latest on drop.
//! `queue/write_cache` is read but never written: it changes the kernel's view, not the drive.
//!
//! Source: Linux `drivers/scsi/sd.c` (`cache_type`), `Documentation/ABI/testing/sysfs-block`.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::device::{Access, Device};
use crate::error::{HostError, NotPutBack, Refusal};
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
    /// Nothing tells.
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
        let declared = disk
            .cache_type_file()
            .and_then(|file| read_setting(&file).ok())
            .or_else(|| disk.text("queue/write_cache"));
        declared.map_or(Self::Unknown, |setting| Self::of_setting(&setting))
    }
}

/// What a later run needs to put a drive's setting back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreNote {
    /// Which drive, the [`crate::Identity`]'s `key`.
    pub drive: String,
    /// What its `cache_type` was.
    pub cache_type: String,
}

impl RestoreNote {
    /// Reads a note; `None` when there is none.
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

    /// Writes the note, and the folder it lies in, so that it survives a crash right after.
    fn keep(&self, path: &Path) -> io::Result<()> {
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

/// A write cache that was switched, or the reason why it was not.
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
    /// The state that the cache has now.
    pub fn achieved(&self) -> WriteCache {
        self.achieved
    }

    /// Why it is not what was asked for; `None` when it is.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Puts back what the drive had, and removes the note. Does nothing the second time.
    pub fn restore(&mut self) -> Result<(), HostError> {
        let Some(undo) = self.undo.take() else {
            return Ok(());
        };
        put_back(&self.path, &undo)
    }
}

impl Drop for CacheSwitch {
    fn drop(&mut self) {
        // Nobody is left to tell; the note stays when this fails, and the next run tries again.
        let _ = self.restore();
    }
}

impl Device {
    /// The state of the target's volatile write cache, as declared.
    pub fn write_cache(&self) -> WriteCache {
        self.node().map_or(WriteCache::Unknown, WriteCache::of_node)
    }

    /// Switches the volatile write cache. A drive that cannot is no error: the answer says so.
    /// `note` is where the restore note is kept while the switch lasts.
    pub fn switch_write_cache(&self, on: bool, note: Option<&Path>) -> Result<CacheSwitch, HostError> {
        self.subject().switch(on, note)
    }

    /// Puts back what a run that was killed left switched. Answers the setting that was put back.
    /// A target that was opened read-only is left as it is: another run may have it in its hands.
    pub fn put_back_from(&self, note: &Path) -> Result<Option<String>, HostError> {
        self.subject().put_back_from(note)
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
    /// What its restore note is kept under; `None` for a target without settings of its own.
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
        let setting = match self.noted(note)? {
            Some(earlier) => earlier,
            None => self.keep_note(&file, note)?,
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

    fn put_back_from(&self, note: &Path) -> Result<Option<String>, HostError> {
        if self.access == Access::ReadOnly {
            return Ok(None);
        }
        let Some(setting) = self.noted(Some(note))? else {
            return Ok(None);
        };
        let Some(file) = self.cache_type_file() else {
            return Err(bad_note(note, "names a drive whose write cache cannot be set here"));
        };
        let undo = Undo { file, setting, note: Some(note.to_owned()) };
        put_back(self.path, &undo)?;
        Ok(Some(undo.setting))
    }

    /// The setting in an earlier run's note for this drive.
    fn noted(&self, note: Option<&Path>) -> Result<Option<String>, HostError> {
        let Some(path) = note else { return Ok(None) };
        let Some(found) = RestoreNote::read(path)? else {
            return Ok(None);
        };
        if Some(&found.drive) != self.drive.as_ref() {
            return Err(bad_note(path, "belongs to another drive"));
        }
        Ok(Some(found.cache_type))
    }

    /// Notes what `file` holds now, and answers it.
    fn keep_note(&self, file: &Path, note: Option<&Path>) -> Result<String, HostError> {
        let cache_type = read_setting(file).map_err(|source| Refusal::Io {
            path: self.path.to_owned(),
            doing: "reading its cache setting",
            source,
        })?;
        if let (Some(note), Some(drive)) = (note, &self.drive) {
            let noted = RestoreNote { drive: drive.clone(), cache_type: cache_type.clone() };
            noted.keep(note).map_err(|source| note_error(note, source))?;
        }
        Ok(cache_type)
    }
}

fn put_back(path: &str, undo: &Undo) -> Result<(), HostError> {
    let unchanged = read_setting(&undo.file).is_ok_and(|now| now == undo.setting);
    if !unchanged {
        write_setting(&undo.file, &undo.setting).map_err(|source| NotPutBack {
            path: path.to_owned(),
            setting: undo.setting.clone(),
            source,
        })?;
    }
    match undo.note.as_deref().map(fs::remove_file) {
        Some(Err(source)) if source.kind() != io::ErrorKind::NotFound => {
            let note = undo.note.clone().unwrap_or_default();
            Err(Refusal::Note { note, source }.into())
        }
        _ => Ok(()),
    }
}

fn read_setting(file: &Path) -> io::Result<String> {
    fs::read_to_string(file).map(|text| text.trim().to_owned())
}

/// Writes an attribute that is there; one that is gone is an error, never a new file.
fn write_setting(file: &Path, setting: &str) -> io::Result<()> {
    File::options().write(true).truncate(true).open(file)?.write_all(setting.as_bytes())
}

fn note_error(note: &Path, source: io::Error) -> HostError {
    let note = note.to_owned();
    Refusal::Note { note, source }.into()
}

fn bad_note(note: &Path, why: &str) -> HostError {
    let (note, why) = (note.to_owned(), why.to_owned());
    Refusal::BadNote { note, why }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    /// What most tests need: a SATA disk with its cache on, and where its setting lies.
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
    fn the_cache_is_switched_noted_and_put_back_on_drop() -> Result<(), HostError> {
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
    fn what_a_killed_run_left_is_put_back_by_the_next() -> Result<(), HostError> {
        let tree = Tree::new("killed");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(false, Some(&note))?);
        let put_back = subject(&node).put_back_from(&note)?;
        assert_eq!(put_back.as_deref(), Some(CACHE_ON));
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_ON));
        assert_eq!(subject(&node).put_back_from(&note)?, None);
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
        assert!(matches!(error, Some(HostError::NotPutBack(_))), "{error:?}");
        let line = error.map(|error| error.to_string()).unwrap_or_default();
        assert!(line.starts_with("/dev/sdq: its write cache could not be set to 'write back'"), "{line}");
        assert!(!file.exists(), "nothing is made in its place");
        assert!(note.exists());
        Ok(())
    }

    #[test]
    fn an_earlier_note_wins_over_what_the_drive_has_now() -> Result<(), HostError> {
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
        let error = other.put_back_from(&note).err().map(|e| e.to_string());
        assert!(error.is_some_and(|line| line.contains("belongs to another drive")));
        tree.file("note", "skylight restore");
        let error = subject(&node).put_back_from(&note).err();
        assert!(error.is_some_and(|e| e.to_string().contains("not a restore note")));
        assert_eq!(read_setting(&file).ok().as_deref(), Some(CACHE_OFF));
        Ok(())
    }

    #[test]
    fn what_cannot_be_switched_is_said_and_not_changed() -> Result<(), HostError> {
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
    fn no_note_no_change() {
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
