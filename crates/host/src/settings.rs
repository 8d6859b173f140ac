//! The settings of a drive, and of the kernel for it, that change what a test measures: the volatile write cache,
//! read look-ahead, whether the kernel reorders and merges commands, and how many of them wait in the drive.
//! Switched for a test, read back, and restored in every case.
//!
//! Invariants: the original setting is recorded on disk before it is changed, so that a later run can restore
//! it after this process was killed; an existing note takes precedence over the current setting, which may be
//! what the killed run left; a note of an earlier boot restores nothing, because boot scripts and people have had
//! the drive since, and only counts as settled where the settings are the original ones; a [`Switch`] restores
//! once, at the latest on drop. A setting is in force if the
//! drive says so: what the kernel keeps of it counts where the drive is not asked. The write cache is switched by
//! the kernel, which decides by it whether it sends flushes; where the two disagree before a change, nothing is
//! changed, because one note cannot restore both. `queue/write_cache` is read but never written: it changes what
//! the kernel assumes, not the drive. Through a partition nothing is changed: others use the rest of its disk.
//!
//! Sources: Linux `drivers/scsi/sd.c` (`cache_type`), `Documentation/ABI/testing/sysfs-block`,
//! `Documentation/ABI/stable/sysfs-block` (`queue/scheduler`), `Documentation/scsi/scsi_mid_low_api.rst`
//! (`change_queue_depth`).

mod knob;
mod note;

use std::io;
use std::path::{Path, PathBuf};

use crate::caching::Caching;
use crate::device::{Access, Device, io_refusal};
use crate::error::{HostError, NotRestored, RefusalReason, system_words};
use crate::sg_io::{Link, SgIo};
use crate::sysfs::Node;
use knob::{Attribute, Knob};
pub use note::{RestoreNote, write_durably};
use note::{bad_note, note_error};

const CACHE_ON: &str = "write back";
const CACHE_OFF: &str = "write through";
/// The scheduler that passes commands on as they come.
const NO_SCHEDULER: &str = "none";

/// Commands that wait in the drive at once, if the setting is on: the depth of the tests, which is that of the
/// papers, the most that an ATA disk queues less one.
const DEEP: u32 = 31;

/// The way to a drive, of its own: a switch may outlive the device.
type Line = Box<dyn Link + Send>;

/// What can be switched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// The volatile write cache of the drive.
    WriteCache,
    /// Read look-ahead of the drive.
    LookAhead,
    /// The kernel's I/O scheduler, which reorders and merges commands; off is `none`.
    Scheduler,
    /// How many commands the kernel has in the drive at once; on is as many as the tests send, or more.
    QueueDepth,
}

impl Setting {
    /// Its name in a note.
    const fn key(self) -> &'static str {
        match self {
            Self::WriteCache => "cache_type",
            Self::LookAhead => "look_ahead",
            Self::Scheduler => "scheduler",
            Self::QueueDepth => "queue_depth",
        }
    }

    /// Its name in a message.
    const fn words(self) -> &'static str {
        match self {
            Self::WriteCache => "write cache",
            Self::LookAhead => "read look-ahead",
            Self::Scheduler => "I/O scheduler",
            Self::QueueDepth => "queue depth",
        }
    }

    fn of_key(key: &str) -> Option<Self> {
        let all = [Self::WriteCache, Self::LookAhead, Self::Scheduler, Self::QueueDepth];
        all.into_iter().find(|setting| setting.key() == key)
    }

    /// The value to write for on or off; `None` for a scheduler that is to be on, of which there are several.
    fn value(self, on: bool) -> Option<String> {
        match (self, on) {
            (Self::WriteCache, true) => Some(CACHE_ON.into()),
            (Self::WriteCache, false) => Some(CACHE_OFF.into()),
            (Self::LookAhead, _) => Some(State::of_flag(Some(on)).as_str().into()),
            (Self::Scheduler, true) => None,
            (Self::Scheduler, false) => Some(NO_SCHEDULER.into()),
            (Self::QueueDepth, _) => Some(if on { DEEP } else { 1 }.to_string()),
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
            Self::QueueDepth => State::of_flag(value.parse::<u32>().ok().map(|depth| depth >= DEEP)),
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
    /// The drive, where what it has of the setting is checked beside the knob.
    drive: Option<Caching<Line>>,
    value: String,
    note: Option<PathBuf>,
}

impl Undo {
    /// Whether the original setting is in force: where it is switched, and at the drive, if that says anything.
    fn is_back(&self) -> bool {
        let (wanted, drive) = (self.setting.state_of(&self.value), write_cache(self.drive.as_ref()));
        self.knob.read().is_ok_and(|now| now == self.value) && !differ(drive, wanted)
    }
}

/// The write cache, as the drive says.
fn write_cache(drive: Option<&Caching<Line>>) -> State {
    State::of_flag(drive.and_then(|caching| Caching::read(caching).ok()?.write_cache))
}

/// Whether both are known and not the same.
fn differ(one: State, other: State) -> bool {
    one != State::Unknown && other != State::Unknown && one != other
}

impl Switch {
    /// The current state of the setting.
    pub fn achieved(&self) -> State {
        self.achieved
    }

    /// Why it is not, or not for sure, in the requested state; `None` if it is.
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

    /// The value of a setting where it is switched, in the words of that place; `None` without one.
    pub fn value(&self, setting: Setting) -> Option<String> {
        self.subject().knob(setting)?.read().ok()
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
    /// is left alone, because another run may be using it. A note of an earlier boot is removed if its settings
    /// are in force.
    ///
    /// # Errors
    /// When the note is of another drive or damaged, or of an earlier boot and not in force, or a setting cannot
    /// be restored; the others then are.
    pub fn restore_from(&self, note: &Path) -> Result<Vec<String>, HostError> {
        self.subject().restore_from(note)
    }

    fn subject(&self) -> Subject<'_> {
        Subject {
            path: &self.identity().path,
            drive: self.identity().key.clone(),
            access: self.access(),
            node: self.node(),
            boot: self.boot().map(str::to_owned),
            line: Box::new(|| Some(Box::new(SgIo { file: self.file().try_clone().ok()? }))),
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
    /// The boot ID of the kernel that runs.
    boot: Option<String>,
    /// Opens a way to the drive itself.
    line: Box<dyn Fn() -> Option<Line> + 'a>,
}

impl Subject<'_> {
    /// The caching of the drive itself, where it can be asked.
    fn caching(&self) -> Option<Caching<Line>> {
        Caching::of(&self.node?.disk(), (self.line)()?)
    }

    /// The drive, for a setting of which it is asked beside the knob.
    fn asked(&self, setting: Setting) -> Option<Caching<Line>> {
        if setting == Setting::WriteCache { self.caching() } else { None }
    }

    /// Where a setting is switched.
    fn knob(&self, setting: Setting) -> Option<Box<dyn Knob>> {
        let disk = self.node?.disk();
        match setting {
            Setting::WriteCache => Some(Box::new(Attribute(disk.cache_type_file()?))),
            Setting::LookAhead => Some(Box::new(self.caching()?)),
            Setting::Scheduler => attribute(disk.dir().join("queue/scheduler")),
            Setting::QueueDepth => attribute(disk.dir().join("device/queue_depth")),
        }
    }

    fn state(&self, setting: Setting) -> State {
        match write_cache(self.asked(setting).as_ref()) {
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
        if let Some(why) = self.forbids(setting, &*knob, switch.achieved) {
            switch.why = Some(why);
            return Ok(switch);
        }
        let before = match self.recorded(setting, note)? {
            Some(earlier) => earlier,
            None => self.record(setting, &*knob, note)?,
        };
        let asked = knob.write(&value);
        switch.achieved = self.state(setting);
        if switch.achieved != wanted {
            let reason = asked.err().map_or("it kept its setting".into(), |error| system_words(&error));
            let of_kernel = matches!(setting, Setting::Scheduler | Setting::QueueDepth);
            let who = if of_kernel { "kernel" } else { "drive" };
            switch.why = Some(format!("the {who} refused to switch it: {reason}"));
        }
        let (drive, note) = (self.asked(setting), note.map(Path::to_owned));
        switch.undo = Some(Undo { setting, knob, drive, value: before, note });
        Ok(switch)
    }

    /// Why a setting that has a switch is left alone.
    fn forbids(&self, setting: Setting, knob: &dyn Knob, now: State) -> Option<String> {
        if self.node.is_some_and(|node| node.disk() != *node) {
            return Some("a partition: its disk is shared".into());
        }
        match setting {
            // `now` is what the drive says, if it says anything.
            Setting::WriteCache if differ(now, self.kept(setting)) => {
                Some("drive and kernel disagree about the write cache; rescan the device".into())
            }
            // What cannot be read cannot be restored either.
            Setting::LookAhead if now == State::Unknown => {
                let reason =
                    knob.read().err().map_or("it does not declare one".into(), |error| system_words(&error));
                Some(format!("the drive cannot be asked for it: {reason}"))
            }
            _ => None,
        }
    }

    fn restore_from(&self, note: &Path) -> Result<Vec<String>, HostError> {
        if self.access == Access::ReadOnly {
            return Ok(vec![]);
        }
        let Some(found) = self.note(note)? else { return Ok(vec![]) };
        if found.boot.is_some() && found.boot != self.boot {
            return self.settle(&found, note);
        }
        let (mut restored, mut failed) = (vec![], None);
        for (setting, value) in found.settings {
            let Some(knob) = self.knob(setting) else {
                failed = Some(bad_note(note, "is for a drive with a setting that cannot be switched here"));
                continue;
            };
            let drive = self.asked(setting);
            let undo = Undo { setting, knob, drive, value: value.clone(), note: Some(note.to_owned()) };
            match restore(self.path, &undo) {
                Ok(()) => restored.push(value),
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(restored), Err)
    }

    /// Removes the note of an earlier boot whose settings are in force; the values of these are not restored.
    fn settle(&self, found: &RestoreNote, note: &Path) -> Result<Vec<String>, HostError> {
        let differs = |(setting, value): &(Setting, String)| {
            let now = self.state(*setting);
            let found = self.knob(*setting).and_then(|knob| knob.read().ok());
            let is_back = found.as_ref() == Some(value) && !differ(now, setting.state_of(value));
            let present = found.filter(|found| found != value); // else the drive itself says otherwise
            let present = present.map_or_else(|| now.as_str().to_owned(), |found| format!("'{found}'"));
            let words = || format!("its {} was '{value}' and is now {present}", setting.words());
            (!is_back).then(words)
        };
        let changed: Vec<String> = found.settings.iter().filter_map(differs).collect();
        if changed.is_empty() {
            let nothing = RestoreNote { settings: vec![], ..found.clone() };
            nothing.write(note).map_err(|source| note_error(note, source))?;
            return Ok(vec![]);
        }
        Err(RefusalReason::OldNote(changed.join("; ")).of(&note.display().to_string()).into())
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
            let boot = self.boot.clone();
            let mut noted = found.unwrap_or(RestoreNote { drive: drive.clone(), boot, settings: vec![] });
            noted.settings.push((setting, value.clone()));
            noted.write(path).map_err(|source| note_error(path, source))?;
        }
        Ok(value)
    }
}

/// An attribute that is there.
fn attribute(file: PathBuf) -> Option<Box<dyn Knob>> {
    file.exists().then(|| Box::new(Attribute(file)) as Box<dyn Knob>)
}

/// Writes a setting back, reads it back, and takes it off the note.
fn restore(path: &str, undo: &Undo) -> Result<(), HostError> {
    if !undo.is_back() {
        let written = undo.knob.write(&undo.value);
        // A write that failed may have been obeyed all the same.
        if !undo.is_back() {
            let source = written.err().unwrap_or_else(|| io::Error::other("it kept another setting"));
            let (what, setting) = (undo.setting.words(), undo.value.clone());
            let (path, note) = (path.to_owned(), undo.note.clone());
            return Err(NotRestored { path, what, setting, source, note }.into());
        }
    }
    let Some(note) = undo.note.as_deref() else { return Ok(()) };
    let Some(mut found) = RestoreNote::read(note)? else { return Ok(()) };
    found.settings.retain(|(setting, _)| *setting != undo.setting);
    found.write(note).map_err(|source| note_error(note, source))
}

#[cfg(test)]
mod tests;
