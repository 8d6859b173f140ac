//! Erasing a drive as a whole by a command of its own: SANITIZE of ATA and SCSI disks, SECURITY ERASE UNIT of ATA
//! disks, FORMAT UNIT of SCSI disks.
//!
//! Invariants: nothing here is done unless a caller names the command, on a whole disk opened with
//! [`Access::DestroyData`], which is neither in use nor holds a signature. A sanitize and a format go on in the drive
//! when the caller is gone, a sanitize also after a power cut, which leaves a medium that is being formatted unusable
//! until it is formatted again. A sanitize is begun so that a failed one can be given up. The password that SECURITY
//! ERASE UNIT needs is always the same, is noted durably before it is set, under a name that outlives a boot, and its
//! note is removed only when IDENTIFY DEVICE says that no password is set.
//!
//! Sources: ACS-4 and SBC-4, as in `erase/ata.rs` and `erase/scsi.rs`.

mod ata;
mod flow;
mod scsi;
mod security;

use std::fs::File;
use std::path::Path;

use serde::Serialize;

use crate::bus::bus_of;
use crate::caching::{Caching, Dialect};
use crate::device::{Access, Content, Device, Followed};
use crate::error::{EraseFailure, HostError, RefusalReason, printable, system_words};
use crate::sg_io::SgIo;
use crate::sysfs::Sysfs;
use flow::Eraser;
use security::Note;

/// What a person may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Erase {
    /// SANITIZE, by the method of the drive that says most of the state after it.
    Sanitize,
    /// SECURITY ERASE UNIT in normal mode.
    SecureErase,
    /// FORMAT UNIT with the drive's own options.
    Format,
}

impl Erase {
    /// The one of that name in `--reset`.
    pub fn of_word(word: &str) -> Option<Self> {
        [Self::Sanitize, Self::SecureErase, Self::Format].into_iter().find(|one| one.word() == word)
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Sanitize => "sanitize",
            Self::SecureErase => "secure-erase",
            Self::Format => "format",
        }
    }
}

/// A command by which a drive can be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Command {
    /// SANITIZE DEVICE of an ATA disk.
    Sanitize(ata::Sanitize),
    /// SANITIZE of a SCSI disk.
    Action(scsi::Action),
    /// SECURITY ERASE UNIT.
    Security,
    /// FORMAT UNIT.
    Format,
}

impl Command {
    const fn words(self) -> &'static str {
        match self {
            Self::Sanitize(ata::Sanitize::BlockErase) => "SANITIZE DEVICE, BLOCK ERASE EXT",
            Self::Sanitize(ata::Sanitize::CryptoScramble) => "SANITIZE DEVICE, CRYPTO SCRAMBLE EXT",
            Self::Sanitize(_) => "SANITIZE DEVICE, OVERWRITE EXT",
            Self::Action(scsi::Action::BlockErase) => "SANITIZE, BLOCK ERASE",
            Self::Action(scsi::Action::CryptographicErase) => "SANITIZE, CRYPTOGRAPHIC ERASE",
            Self::Action(_) => "SANITIZE, OVERWRITE",
            Self::Security => "SECURITY ERASE UNIT",
            Self::Format => "FORMAT UNIT",
        }
    }

    /// Whether only the key of the data is changed: what a cache holds need not move.
    const fn is_key_change(self) -> bool {
        matches!(
            self,
            Self::Sanitize(ata::Sanitize::CryptoScramble) | Self::Action(scsi::Action::CryptographicErase)
        )
    }

    /// Whether the whole medium is written.
    const fn writes_all(self) -> bool {
        matches!(
            self,
            Self::Sanitize(ata::Sanitize::Overwrite)
                | Self::Action(scsi::Action::Overwrite)
                | Self::Security
                | Self::Format
        )
    }
}

/// What an erase of a drive would be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Offer {
    /// The command, in the words of its standard.
    pub command: &'static str,
    /// How long it takes, s, as the drive declares; `None` where it does not.
    pub seconds: Option<u64>,
    /// Whether only the key of the data is changed.
    pub key_change: bool,
    /// Whether the whole medium is written, which takes hours where it is a disk.
    pub writes_all: bool,
    /// The command itself.
    #[serde(skip)]
    pub(crate) which: Command,
}

impl Offer {
    const fn of(which: Command, seconds: Option<u64>) -> Self {
        let (key_change, writes_all) = (which.is_key_change(), which.writes_all());
        Self { command: which.words(), seconds, key_change, writes_all, which }
    }
}

/// How far an erase is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Progress {
    /// It goes on; the share that is done, where the drive says so.
    Running(Option<f64>),
    /// The drive has completed it.
    Done,
}

/// What an earlier erase left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Unfinished {
    /// Its password was on the drive, and was removed.
    Released,
    /// It goes on; the share that is done, where the drive says so.
    Running(Option<f64>),
}

/// Why an erase was not done: refused before it was begun, or failed; with the mend.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    Refused(String),
    Failed(String),
}

impl Fault {
    fn of(self, path: &str) -> HostError {
        match self {
            Self::Refused(why) => RefusalReason::NotErasable(why).of(path).into(),
            Self::Failed(what) => EraseFailure { path: path.to_owned(), what }.into(),
        }
    }
}

impl Device {
    /// What an erase would be; nothing is changed.
    ///
    /// # Errors
    /// When the target cannot be erased so.
    pub fn erase_offer(&self, erase: Erase) -> Result<Offer, HostError> {
        let eraser = self.eraser(erase, None)?;
        eraser.offer(erase).map_err(|fault| fault.of(&self.identity().path))
    }

    /// Erases the drive. A sanitize or format is begun, and [`Device::erase_progress`] follows it; SECURITY ERASE
    /// UNIT is done when this returns, which may take hours, and keeps `note` meanwhile.
    ///
    /// # Errors
    /// When the target cannot be erased so, or fails.
    pub fn erase(&mut self, erase: Erase, note: &Path) -> Result<Offer, HostError> {
        let eraser = self.eraser(erase, None)?;
        self.followed = Some(Followed { dialect: eraser.caching.dialect, unclear_looks: 0 });
        let path = &self.identity().path;
        let done = eraser.offer(erase).and_then(|offer| {
            match (offer.which, &self.identity().key) {
                (Command::Security, Some(key)) => {
                    eraser.secure_erase(&Note { path: note, drive: key, device: path }, offer.seconds)?;
                }
                (Command::Security, None) => return Err(Fault::Refused(NO_NAME.into())),
                (which, _) => eraser.begin(which)?,
            }
            Ok(offer)
        });
        done.map_err(|fault| fault.of(path))
    }

    /// How far the erase is that was begun last.
    ///
    /// # Errors
    /// When it failed, or cannot be followed any more.
    pub fn erase_progress(&mut self, erase: Erase) -> Result<Progress, HostError> {
        let followed = self.followed;
        let eraser = self.eraser(erase, followed.map(|followed| followed.dialect))?;
        let mut unclear_looks = followed.map_or(0, |followed| followed.unclear_looks);
        let progress = eraser.progress(&mut unclear_looks);
        self.followed = Some(Followed { dialect: eraser.caching.dialect, unclear_looks });
        progress.map_err(|fault| fault.of(&self.identity().path))
    }

    /// `dialect` is how the drive is asked, where that is known.
    fn eraser(&self, erase: Erase, dialect: Option<Dialect>) -> Result<Eraser<SgIo<File>>, HostError> {
        let path = &self.identity().path;
        let refused = |why: &str| Err(Fault::Refused(format!("cannot be erased: {why}")).of(path));
        if self.access() == Access::ReadOnly {
            return refused("it was opened read-only; give --destroy-data");
        }
        let Some(node) = self.node() else { return refused("it is a file; choose another --reset") };
        let disk = node.disk();
        if disk != *node {
            return refused("it is a partition, and an erase is of the whole disk; name the disk");
        }
        if erase == Erase::SecureErase && !self.identity().key_outlives_boot {
            return Err(Fault::Refused(NO_NAME.into()).of(path));
        }
        let is_usb = bus_of(&disk) == Some("usb");
        if erase == Erase::SecureErase && is_usb {
            return refused(
                "it is behind a USB adapter, and some end a command that takes long, which leaves the disk locked; connect it to a SATA port",
            );
        }
        let file = self.file().try_clone().map_err(|error| {
            Fault::Refused(format!("cannot be erased: {}; try again", system_words(&error))).of(path)
        })?;
        let link = SgIo { file };
        let caching = match dialect {
            Some(dialect) => Some(Caching { link, dialect }),
            None => Caching::of(&disk, link),
        };
        match caching {
            Some(caching) => Ok(Eraser { caching }),
            None => refused("it takes neither ATA nor SCSI commands; choose another --reset"),
        }
    }
}

const NO_NAME: &str = "cannot be erased: it declares no serial number, and after a power cut the note of its password would not be found; choose another --reset";

/// What an earlier erase left on a drive; `notes` is the folder of the notes. A password that its note names is
/// removed; nothing is written to the medium. `None` where nothing is left, or nothing can be asked.
///
/// # Errors
/// When the device is in use, or the password cannot be removed.
pub fn unfinished(path: &Path, notes: &Path, sysfs: &Sysfs) -> Result<Option<Unfinished>, HostError> {
    let device = Device::open_unexamined(path, Access::DestroyData, Content::Kept, sysfs)?;
    let Ok(eraser) = device.eraser(Erase::Sanitize, None) else { return Ok(None) };
    let name = printable(path);
    if let Some(key) = &device.identity().key {
        let file = notes.join(format!("{key}.erase"));
        let note = Note { path: &file, drive: key, device: &name };
        if note.is_there().map_err(|fault| fault.of(&name))? {
            eraser.release(&note).map_err(|fault| fault.of(&name))?;
            return Ok(Some(Unfinished::Released));
        }
    }
    match eraser.running() {
        Some(share) => Ok(Some(Unfinished::Running(share))),
        None => Ok(None),
    }
}

#[cfg(test)]
mod tests;
