//! SECURITY ERASE UNIT: a password, the erase, and the password off again, in every case.
//!
//! The note is a few lines: the drive, the password, and how to remove it by hand. What ends a run between the
//! password and its removal (a kill, a power cut) leaves the note, which the next run that may write applies
//! ([`super::unfinished`]).
//!
//! Source: ACS-4, SECURITY feature set: states SEC1 (disabled), SEC5 (unlocked), SEC4 (locked, after a power cycle);
//! SECURITY ERASE UNIT disables the password where it succeeds.

use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

use super::Fault;
use super::ata::{Features, PASSWORD, Security, security, security_data};
use super::flow::Eraser;
use crate::caching::Dialect;
use crate::error::{printable, system_words};
use crate::settings::write_durably;
use crate::sg_io::{CommandFault, Exchange, TIMEOUT, Transfer};

const TITLE: &str = "skylight erase note 1";
/// Least time that the erase may take, and times the declared one. A command that is given up is followed by a reset,
/// which a drive may answer by staying locked, so both are generous; a drive that vanishes ends it at once.
const LEAST_TIMEOUT: Duration = Duration::from_secs(86_400);
const TIMES_DECLARED: u64 = 4;

/// The note of a password.
pub struct Note<'a> {
    pub path: &'a Path,
    /// The key of the drive's identity.
    pub drive: &'a str,
    /// The path of the device, for the commands in it.
    pub device: &'a str,
}

impl Note<'_> {
    /// Whether there is one, of this drive.
    pub fn is_there(&self) -> Result<bool, Fault> {
        match fs::read_to_string(self.path) {
            Ok(text) => {
                let mut lines = text.lines();
                let is_ours = lines.next() == Some(TITLE)
                    && lines.next().and_then(|line| line.strip_prefix("drive = ")) == Some(self.drive);
                if is_ours { Ok(true) } else { Err(self.odd()) }
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(self.unkept("read", &error)),
        }
    }

    fn write(&self) -> Result<(), Fault> {
        let text = format!(
            "{TITLE}\ndrive = {}\npassword = {PASSWORD}\n# To remove the password by hand, where the drive is locked:\n# {}\n",
            self.drive,
            self.by_hand(),
        );
        write_durably(self.path, &text).map_err(|error| self.unkept("kept", &error))
    }

    fn remove(&self) -> Result<(), Fault> {
        match fs::remove_file(self.path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.unkept("removed", &error)),
            _ => Ok(()),
        }
    }

    fn by_hand(&self) -> String {
        let each = |what| format!("hdparm --user-master u --security-{what} {PASSWORD} {}", self.device);
        format!("{} && {}", each("unlock"), each("disable"))
    }

    fn odd(&self) -> Fault {
        let note = printable(self.path);
        Fault::Refused(format!(
            "{note} is no erase note of this drive; delete it if the drive has no password"
        ))
    }

    fn unkept(&self, what: &str, error: &io::Error) -> Fault {
        let (note, why) = (printable(self.path), system_words(error));
        Fault::Refused(format!(
            "its erase note {note} cannot be {what}: {why}; make it accessible, or set SKYLIGHT_STATE to another folder"
        ))
    }
}

impl<L: Exchange> Eraser<L> {
    /// Erases; `seconds` is what the drive declares. The password is off when this returns, or the error names the
    /// note.
    pub fn secure_erase(&self, note: &Note<'_>, seconds: Option<u64>) -> Result<(), Fault> {
        note.write()?;
        let declared = Duration::from_secs(seconds.unwrap_or(0).saturating_mul(TIMES_DECLARED));
        let done = self.security(Security::SetPassword, TIMEOUT).and_then(|()| {
            self.security(Security::ErasePrepare, TIMEOUT)?;
            self.security(Security::EraseUnit, declared.max(LEAST_TIMEOUT))
        });
        self.release(note)?;
        done.map_err(|(which, fault)| {
            Fault::Failed(format!(
                "{which} failed: {fault}; no password is left on it; check its health (smartctl -a), or choose another --reset"
            ))
        })
    }

    /// Removes the password of a note, if it is set, and then the note.
    pub fn release(&self, note: &Note<'_>) -> Result<(), Fault> {
        let is_free = |has: &Features| !has.password_set && !has.locked;
        let left = |why: String| {
            Fault::Failed(format!(
                "the password '{PASSWORD}' of an erase may still be on it: {why}; switch the drive off and on and run again with --destroy-data, or run {}; noted in {}",
                note.by_hand(),
                printable(note.path),
            ))
        };
        let has = self.features().map_err(|error| left(system_words(&error)))?;
        if is_free(&has) {
            return note.remove();
        }
        let freed = if has.locked { self.security(Security::Unlock, TIMEOUT) } else { Ok(()) }
            .and_then(|()| self.security(Security::DisablePassword, TIMEOUT));
        match (self.features(), freed) {
            (Ok(has), _) if is_free(&has) => note.remove(),
            (Ok(_), Err((which, fault))) => Err(left(format!("{which}: {fault}"))),
            (Ok(_), Ok(())) => Err(left("the drive kept it".into())),
            (Err(error), _) => Err(left(system_words(&error))),
        }
    }

    /// Sends a command; its name and the fault where it fails.
    fn security(&self, which: Security, timeout: Duration) -> Result<(), (&'static str, CommandFault)> {
        let (name, data) = match which {
            Security::SetPassword => ("SECURITY SET PASSWORD", Some(security_data())),
            Security::Unlock => ("SECURITY UNLOCK", Some(security_data())),
            Security::ErasePrepare => ("SECURITY ERASE PREPARE", None),
            Security::EraseUnit => ("SECURITY ERASE UNIT", Some(security_data())),
            Security::DisablePassword => ("SECURITY DISABLE PASSWORD", Some(security_data())),
        };
        let data = data.as_ref().map_or(Transfer::None, |data| Transfer::Out(data));
        debug_assert_eq!(self.caching.dialect, Dialect::Ata);
        let reply =
            self.caching.link.exchange(&security(which), data, timeout).map_err(|fault| (name, fault))?;
        reply.fault().map_or(Ok(()), |fault| Err((name, fault)))
    }
}
