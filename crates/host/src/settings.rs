//! The settings of a drive, and of the kernel for it, that change what a test measures: the volatile write cache,
//! read look-ahead, and whether the kernel reorders and merges commands. Switched for a test, read back, and
//! restored in every case.
//!
//! Invariants: the original setting is recorded on disk before it is changed, so that a later run can restore
//! it after this process was killed; an existing note takes precedence over the current setting, which may be
//! what the killed run left; a [`Switch`] restores once, at the latest on drop. A setting is in force if the
//! drive says so: what the kernel keeps of it counts where the drive is not asked. The write cache is switched by
//! the kernel, which decides by it whether it sends flushes. `queue/write_cache` is read but never written: it
//! changes what the kernel assumes, not the drive.
//!
//! Sources: Linux `drivers/scsi/sd.c` (`cache_type`), `Documentation/ABI/testing/sysfs-block`,
//! `Documentation/ABI/stable/sysfs-block` (`queue/scheduler`).

mod knob;
mod note;

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use crate::caching::Caching;
use crate::device::{Access, Device, io_refusal};
use crate::error::{HostError, NotRestored, system_words};
use crate::sg_io::SgIo;
use crate::sysfs::Node;
use knob::{Attribute, Knob};
pub use note::RestoreNote;
use note::{bad_note, note_error};

const CACHE_ON: &str = "write back";
const CACHE_OFF: &str = "write through";
/// The scheduler that passes commands on as they come.
const NO_SCHEDULER: &str = "none";

/// What can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The volatile write cache of the drive.
    WriteCache,
    /// Read look-ahead of the drive.
    LookAhead,
    /// The kernel's I/O scheduler, which reorders and merges commands; off is `none`.
    Scheduler,
}

impl Setting {
    /// Its name in a note.
    const fn key(self) -> &'static str {
        match self {
            Self::WriteCache => "cache_type",
            Self::LookAhead => "look_ahead",
            Self::Scheduler => "scheduler",
        }
    }

    /// Its name in a message.
    const fn words(self) -> &'static str {
        match self {
            Self::WriteCache => "write cache",
            Self::LookAhead => "read look-ahead",
            Self::Scheduler => "I/O scheduler",
        }
    }

    fn of_key(key: &str) -> Option<Self> {
        [Self::WriteCache, Self::LookAhead, Self::Scheduler].into_iter().find(|setting| setting.key() == key)
    }

    /// The value to write for on or off; `None` for a scheduler that is to be on, of which there are several.
    const fn value(self, on: bool) -> Option<&'static str> {
        match (self, on) {
            (Self::WriteCache, true) => Some(CACHE_ON),
            (Self::WriteCache, false) => Some(CACHE_OFF),
            (Self::LookAhead, _) => Some(State::of_flag(Some(on)).as_str()),
            (Self::Scheduler, true) => None,
            (Self::Scheduler, false) => Some(NO_SCHEDULER),
        }
    }

    /// The state that a value means.
    fn state_of(self, value: &str) -> State {
        match self {
            Self::WriteCache if value.starts_with(CACHE_ON) => State::On,
            Self::WriteCache if value == CACHE_OFF || value == "none" => State::Off,
            Self::WriteCache => State::Unknown,
            Self::LookAhead if value == State::On.as_str() => State::On,
            Self::LookAhead if value == State::Off.as_str() => State::Off,
            Self::LookAhead => State::Unknown,
            Self::Scheduler => State::of_flag(Some(value != NO_SCHEDULER)),
        }
    }
}

/// The state of a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// On.
    On,
    /// Off.
    Off,
    /// Not reported.
    Unknown,
}

impl State {
    /// "on", "off" or "unknown".
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::On => "on",
            Self::Off => "off",
            Self::Unknown => "unknown",
        }
    }

    const fn of_flag(on: Option<bool>) -> Self {
        match on {
            Some(true) => Self::On,
            Some(false) => Self::Off,
            None => Self::Unknown,
        }
    }
}

/// A switched setting, or the reason why it was not switched.
#[derive(Debug)]
pub struct Switch {
    path: String,
    achieved: State,
    why: Option<String>,
    undo: Option<Undo>,
}

#[derive(Debug)]
struct Undo {
    setting: Setting,
    knob: Box<dyn Knob>,
    value: String,
    note: Option<PathBuf>,
}

impl Switch {
    /// The current state of the setting.
    pub fn achieved(&self) -> State {
        self.achieved
    }

    /// Why it is not in the requested state; `None` if it is.
    pub fn why(&self) -> Option<&str> {
        self.why.as_deref()
    }

    /// Restores the original setting and removes it from the note. Idempotent.
    ///
    /// # Errors
    /// When the drive cannot be restored; the note stays.
    pub fn restore(&mut self) -> Result<(), HostError> {
        let Some(undo) = self.undo.take() else {
            return Ok(());
        };
        restore(&self.path, &undo)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        // The error cannot be reported from here. The note stays, and the next run tries again.
        let _ = self.restore();
    }
}

impl Device {
    /// The state of a setting: as the drive says, else as the kernel does.
    pub fn state(&self, setting: Setting) -> State {
        self.subject().state(setting)
    }

    /// Switches a setting. A target that cannot switch it is not an error; the result says why. `note` is the
    /// path of the restore note while the setting is changed.
    ///
    /// # Errors
    /// When the current setting cannot be read or noted; then nothing was changed.
    pub fn switch(&self, setting: Setting, on: bool, note: Option<&Path>) -> Result<Switch, HostError> {
        self.subject().switch(setting, on, note)
    }

    /// Restores the settings that a killed run left changed, and returns their values. A target opened read-only
    /// is left alone, because another run may be using it.
    ///
    /// # Errors
    /// When the note is of another drive or damaged, or a setting cannot be restored; the others then are.
    pub fn restore_from(&self, note: &Path) -> Result<Vec<String>, HostError> {
        self.subject().restore_from(note)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.identity().path,
            drive: self.identity().key.clone(),
            access: self.access(),
            node: self.node(),
            file: Some(self.file()),
        }
    }
}

/// The drive whose settings are switched.
struct Subject<'a> {
    path: &'a str,
    /// The key of its restore note; `None` for a target without settings.
    drive: Option<String>,
    access: Access,
    node: Option<&'a Node>,
    /// The way to the drive itself.
    file: Option<&'a File>,
}

impl Subject<'_> {
    /// The caching of the drive itself, where it can be asked. A descriptor of its own, because a switch may
    /// outlive the device.
    fn caching(&self) -> Option<Caching<SgIo<File>>> {
        Caching::of(&self.node?.disk(), SgIo { file: self.file?.try_clone().ok()? })
    }

    /// Where a setting is switched.
    fn knob(&self, setting: Setting) -> Option<Box<dyn Knob>> {
        let disk = self.node?.disk();
        match setting {
            Setting::WriteCache => Some(Box::new(Attribute(disk.cache_type_file()?))),
            Setting::LookAhead => Some(Box::new(self.caching()?)),
            Setting::Scheduler => {
                let file = disk.dir().join("queue/scheduler");
                file.exists().then(|| Box::new(Attribute(file)) as Box<dyn Knob>)
            }
        }
    }

    fn state(&self, setting: Setting) -> State {
        let drive = match setting {
            Setting::WriteCache => {
                self.caching().and_then(|caching| Caching::read(&caching).ok()?.write_cache)
            }
            _ => None,
        };
        match State::of_flag(drive) {
            State::Unknown => self.kept(setting),
            known => known,
        }
    }

    /// The state where a setting is switched, or as the kernel assumes it.
    fn kept(&self, setting: Setting) -> State {
        let assumed = || match setting {
            Setting::WriteCache => self.node?.disk().text("queue/write_cache"),
            _ => None,
        };
        let value = self.knob(setting).and_then(|knob| knob.read().ok()).or_else(assumed);
        value.map_or(State::Unknown, |value| setting.state_of(&value))
    }

    fn switch(&self, setting: Setting, on: bool, note: Option<&Path>) -> Result<Switch, HostError> {
        let wanted = State::of_flag(Some(on));
        let mut switch =
            Switch { path: self.path.to_owned(), achieved: self.state(setting), why: None, undo: None };
        if switch.achieved == wanted && self.kept(setting) == wanted {
            return Ok(switch);
        }
        if self.access == Access::ReadOnly {
            switch.why = Some("not changed, because the target was opened read-only".into());
            return Ok(switch);
        }
        let (Some(knob), Some(value)) = (self.knob(setting), setting.value(on)) else {
            switch.why = Some("this target has no switch for it".into());
            return Ok(switch);
        };
        if setting == Setting::LookAhead && switch.achieved == State::Unknown {
            // What cannot be read cannot be restored either.
            let reason =
                knob.read().err().map_or("it does not declare one".into(), |error| system_words(&error));
            switch.why = Some(format!("the drive cannot be asked for it: {reason}"));
            return Ok(switch);
        }
        let before = match self.recorded(setting, note)? {
            Some(earlier) => earlier,
            None => self.record(setting, &*knob, note)?,
        };
        let asked = knob.write(value);
        switch.achieved = self.state(setting);
        if switch.achieved != wanted {
            let reason = asked.err().map_or("it kept its setting".into(), |error| system_words(&error));
            let who = if setting == Setting::Scheduler { "kernel" } else { "drive" };
            switch.why = Some(format!("the {who} refused to switch it: {reason}"));
        }
        switch.undo = Some(Undo { setting, knob, value: before, note: note.map(Path::to_owned) });
        Ok(switch)
    }

    fn restore_from(&self, note: &Path) -> Result<Vec<String>, HostError> {
        if self.access == Access::ReadOnly {
            return Ok(vec![]);
        }
        let Some(found) = self.note(note)? else { return Ok(vec![]) };
        let (mut restored, mut failed) = (vec![], None);
        for (setting, value) in found.settings {
            let Some(knob) = self.knob(setting) else {
                failed = Some(bad_note(note, "is for a drive with a setting that cannot be switched here"));
                continue;
            };
            let undo = Undo { setting, knob, value: value.clone(), note: Some(note.to_owned()) };
            match restore(self.path, &undo) {
                Ok(()) => restored.push(value),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(restored), Err)
    }

    /// The note of this drive.
    fn note(&self, path: &Path) -> Result<Option<RestoreNote>, HostError> {
        let found = RestoreNote::read(path)?;
        if found.as_ref().is_some_and(|found| Some(&found.drive) != self.drive.as_ref()) {
            return Err(bad_note(path, "belongs to another drive"));
        }
        Ok(found)
    }

    /// The setting recorded by an earlier run for this drive.
    fn recorded(&self, setting: Setting, note: Option<&Path>) -> Result<Option<String>, HostError> {
        let Some(path) = note else { return Ok(None) };
        let found = self.note(path)?;
        Ok(found.and_then(|found| found.value(setting).map(str::to_owned)))
    }

    /// Records the current setting, and returns it.
    fn record(&self, setting: Setting, knob: &dyn Knob, note: Option<&Path>) -> Result<String, HostError> {
        let value =
            knob.read().map_err(|source| io_refusal(self.path, "reading its current settings", source))?;
        if let (Some(path), Some(drive)) = (note, &self.drive) {
            let found = self.note(path)?;
            let mut noted = found.unwrap_or(RestoreNote { drive: drive.clone(), settings: vec![] });
            noted.settings.push((setting, value.clone()));
            noted.write(path).map_err(|source| note_error(path, source))?;
        }
        Ok(value)
    }
}

/// Writes a setting back, reads it back, and takes it off the note.
fn restore(path: &str, undo: &Undo) -> Result<(), HostError> {
    let is_back = || undo.knob.read().is_ok_and(|now| now == undo.value);
    if !is_back() {
        let written = undo.knob.write(&undo.value);
        let failed = match written {
            Ok(()) if is_back() => None,
            Ok(()) => Some(io::Error::other("it kept another setting")),
            Err(error) => Some(error),
        };
        if let Some(source) = failed {
            let (what, setting) = (undo.setting.words(), undo.value.clone());
            return Err(NotRestored { path: path.to_owned(), what, setting, source }.into());
        }
    }
    let Some(note) = undo.note.as_deref() else { return Ok(()) };
    let Some(mut found) = RestoreNote::read(note)? else { return Ok(()) };
    found.settings.retain(|(setting, _)| *setting != undo.setting);
    found.write(note).map_err(|source| note_error(note, source))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::fake::Tree;

    /// A SATA disk with its cache on, and the path of its setting.
    fn disk(tree: &Tree) -> (Node, PathBuf) {
        let node = tree.disk("sdq", (8, 256));
        tree.file("sys/devices/sdq/queue/write_cache", "write back");
        let file = tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", "write back\n");
        (node, file)
    }

    fn read(file: &Path) -> Option<String> {
        Attribute(file.to_owned()).read().ok()
    }

    fn subject(node: &Node) -> Subject<'_> {
        Subject {
            path: "/dev/sdq",
            drive: Some("Model-1".into()),
            access: Access::DestroyData,
            node: Some(node),
            file: None,
        }
    }

    #[test]
    fn the_cache_is_switched_and_restored_on_drop() -> Result<(), HostError> {
        let tree = Tree::new("switch");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        {
            let switch = subject(&node).switch(Setting::WriteCache, false, Some(&note))?;
            assert_eq!((switch.achieved(), switch.why()), (State::Off, None), "{switch:?}");
            assert_eq!(read(&file).as_deref(), Some(CACHE_OFF));
            let kept = RestoreNote::read(&note)?;
            assert_eq!(
                kept.and_then(|note| note.value(Setting::WriteCache).map(str::to_owned)).as_deref(),
                Some(CACHE_ON)
            );
        }
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
        assert!(!note.exists());
        Ok(())
    }

    #[test]
    fn the_next_run_restores_what_a_killed_run_left() -> Result<(), HostError> {
        let tree = Tree::new("killed");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
        let restore = subject(&node).restore_from(&note)?;
        assert_eq!(restore, [CACHE_ON]);
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
        assert_eq!(subject(&node).restore_from(&note)?, Vec::<String>::new());
        Ok(())
    }

    #[test]
    fn a_drive_that_vanished_is_a_failure_and_its_note_stays() -> Result<(), HostError> {
        let tree = Tree::new("vanished");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        let mut switch = subject(&node).switch(Setting::WriteCache, false, Some(&note))?;
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
        std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
        // Now the cache is off, which the killed run left; turning it on must not note "off".
        drop(subject(&node).switch(Setting::WriteCache, true, Some(&note))?);
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
        assert!(!note.exists());
        Ok(())
    }

    #[test]
    fn a_note_of_another_drive_or_a_damaged_one_is_not_used() -> Result<(), HostError> {
        let tree = Tree::new("foreign");
        let (node, file) = disk(&tree);
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
        let mut other = subject(&node);
        other.drive = Some("Model-2".into());
        let error = other.restore_from(&note).err().map(|e| e.to_string());
        assert!(error.is_some_and(|line| line.contains("belongs to another drive")));
        tree.file("note", "skylight restore");
        let error = subject(&node).restore_from(&note).err();
        assert!(error.is_some_and(|e| e.to_string().contains("not a restore note")));
        assert_eq!(read(&file).as_deref(), Some(CACHE_OFF));
        Ok(())
    }

    #[test]
    fn settings_share_a_note_until_the_last_is_restored() -> Result<(), HostError> {
        let tree = Tree::new("shared");
        let (node, file) = disk(&tree);
        // Sysfs shows a list, so what was written is not what is read; here it is.
        let scheduler = tree.file("sys/devices/sdq/queue/scheduler", "none [mq-deadline] kyber\n");
        let note = tree.path("note");
        let subject = subject(&node);
        let cache = subject.switch(Setting::WriteCache, false, Some(&note))?;
        let order = subject.switch(Setting::Scheduler, false, Some(&note))?;
        assert_eq!((order.achieved(), order.why()), (State::Off, None), "{order:?}");
        let settings = RestoreNote::read(&note)?.map(|note| note.settings);
        let expected = [(Setting::WriteCache, CACHE_ON.into()), (Setting::Scheduler, "mq-deadline".into())];
        assert_eq!(settings.as_deref(), Some(&expected[..]));
        drop(cache);
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
        let settings = RestoreNote::read(&note)?.map(|note| note.settings);
        assert_eq!(settings.as_deref(), Some(&expected[1..]));
        std::mem::forget(order);
        assert_eq!(subject.restore_from(&note)?, ["mq-deadline"]);
        assert_eq!(read(&scheduler).as_deref(), Some("mq-deadline"));
        assert!(!note.exists());
        Ok(())
    }

    #[test]
    fn one_setting_that_fails_keeps_no_other_from_being_restored() -> Result<(), HostError> {
        let tree = Tree::new("partly");
        let (node, file) = disk(&tree);
        let scheduler = tree.file("sys/devices/sdq/queue/scheduler", "none [mq-deadline] kyber\n");
        let note = tree.path("note");
        std::mem::forget(subject(&node).switch(Setting::WriteCache, false, Some(&note))?);
        std::mem::forget(subject(&node).switch(Setting::Scheduler, false, Some(&note))?);
        let _ = fs::remove_file(&file);
        let error = subject(&node).restore_from(&note).err().map(|error| error.to_string());
        assert!(error.is_some_and(|line| line.contains("cannot be switched here")));
        assert_eq!(read(&scheduler).as_deref(), Some("mq-deadline"));
        let left = RestoreNote::read(&note)?.map(|note| note.settings);
        assert_eq!(left, Some(vec![(Setting::WriteCache, CACHE_ON.to_owned())]));
        Ok(())
    }

    #[test]
    fn look_ahead_that_cannot_be_read_is_not_switched() -> Result<(), HostError> {
        let tree = Tree::new("ahead");
        let (node, _) = disk(&tree);
        let taken = tree.file("plain", "no disk");
        let file = File::options().read(true).write(true).open(taken).ok();
        let switch =
            Subject { file: file.as_ref(), ..subject(&node) }.switch(Setting::LookAhead, false, None)?;
        assert_eq!(switch.achieved(), State::Unknown);
        assert!(
            switch.why().is_some_and(|why| why.starts_with("the drive cannot be asked for it: ")),
            "{switch:?}"
        );
        assert!(switch.undo.is_none());
        Ok(())
    }

    #[test]
    fn a_cache_that_cannot_be_switched_is_reported_and_not_changed() -> Result<(), HostError> {
        let tree = Tree::new("cannot");
        let (node, file) = disk(&tree);
        let mut read_only = subject(&node);
        read_only.access = Access::ReadOnly;
        let switch = read_only.switch(Setting::WriteCache, false, None)?;
        assert_eq!(switch.achieved(), State::On);
        assert!(switch.why().is_some_and(|why| why.contains("read-only")));
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));

        let bare = tree.disk("sdr", (8, 272));
        tree.file("sys/devices/sdr/queue/write_cache", "write back");
        let switch = subject(&bare).switch(Setting::WriteCache, false, None)?;
        assert_eq!(switch.achieved(), State::On);
        assert!(switch.why().is_some_and(|why| why.contains("no switch")));
        Ok(())
    }

    #[test]
    fn without_a_note_nothing_is_changed() {
        let tree = Tree::new("nonote");
        let (node, file) = disk(&tree);
        tree.file("taken", "a file where the folder should be");
        let nowhere = tree.path("taken/note");
        let error = subject(&node).switch(Setting::WriteCache, false, Some(&nowhere)).err();
        assert!(error.is_some_and(|e| e.to_string().contains("cannot keep the restore note")));
        assert_eq!(read(&file).as_deref(), Some(CACHE_ON));
    }

    #[test]
    fn the_declared_state_is_read_from_either_attribute() {
        let tree = Tree::new("state");
        let node = tree.disk("sdq", (8, 256));
        assert_eq!(subject(&node).state(Setting::WriteCache), State::Unknown);
        tree.file("sys/devices/sdq/queue/write_cache", "write through");
        assert_eq!(subject(&node).state(Setting::WriteCache), State::Off);
        let mode_page = "sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type";
        tree.file(mode_page, "write back, no read (daft)");
        assert_eq!(subject(&node).state(Setting::WriteCache), State::On);
        tree.file(mode_page, "none");
        assert_eq!(subject(&node).state(Setting::WriteCache), State::Off);
    }
}
