//! What a drive offers, how an erase is begun, and how far it is.
//!
//! Of the methods of a sanitize the one is taken that says most of the state after it: BLOCK ERASE, then OVERWRITE,
//! then a change of the key, which need not move what a cache holds.

use std::io;

use super::ata::{self, Features, SanitizeState, registers, sanitize_state};
use super::scsi::{self, Action, Sensed, sensed};
use super::{Command, Erase, Fault, Offer, Progress};
use crate::caching::{Caching, Dialect};
use crate::error::system_words;
use crate::sg_io::{CommandFault, Exchange, Reply, TIMEOUT, Transfer};

/// Unit attention conditions that may wait before a command is taken (SAM-6): a reset, changed parameters, changed
/// data.
const MOST_ATTENTIONS: usize = 4;
const NOT_READY: u8 = 2;
const UNIT_ATTENTION: u8 = 6;
const ABORTED_COMMAND: u8 = 0x0b;
/// Additional sense code of a unit that is not ready: becoming ready, in a self-test, in some other operation.
const LOGICAL_UNIT_NOT_READY: u8 = 0x04;
/// Looks in a row that may say nothing before an erase is given up as one that cannot be followed. Chosen: at one
/// every five seconds minutes, which a kernel may take to reset an adapter, of the hours of an erase.
pub const MOST_UNCLEAR_LOOKS: u32 = 60;
const ANOTHER: &str = "choose another --reset";

/// The erasing of a drive.
pub struct Eraser<L> {
    /// The drive, and how it is asked.
    pub caching: Caching<L>,
}

impl<L: Exchange> Eraser<L> {
    /// What an erase would be.
    pub fn offer(&self, erase: Erase) -> Result<Offer, Fault> {
        if let Some(share) = self.running() {
            let share = share.map(|share| format!(", {:.0} % done", 100.0 * share)).unwrap_or_default();
            return refused(&format!("it is being erased already{share}; wait until that has ended"));
        }
        match (self.caching.dialect, erase) {
            (Dialect::Ata, Erase::Sanitize) => self.offer_ata_sanitize(),
            (Dialect::Ata, Erase::SecureErase) => {
                let has = self.identified()?;
                if let Some(why) = has.forbids_password() {
                    return refused(why);
                }
                Ok(Offer::of(Command::Security, has.erase_minutes.map(|minutes| 60 * u64::from(minutes))))
            }
            (Dialect::Ata, Erase::Format) => refused(
                "FORMAT UNIT is of SCSI disks, and this is an ATA disk; choose --reset sanitize or secure-erase",
            ),
            (Dialect::Scsi, Erase::Sanitize) => {
                let order = [Action::BlockErase, Action::Overwrite, Action::CryptographicErase];
                match order.into_iter().find(|&action| self.has(scsi::SANITIZE, Some(action)) == Some(true)) {
                    Some(action) => Ok(Offer::of(Command::Action(action), None)),
                    None => refused(&format!("it does not declare SANITIZE; {ANOTHER}")),
                }
            }
            (Dialect::Scsi, Erase::SecureErase) => refused(
                "SECURITY ERASE UNIT is of ATA disks, and this is a SCSI disk; choose --reset sanitize or format",
            ),
            (Dialect::Scsi, Erase::Format) => self.offer_format(),
        }
    }

    fn offer_ata_sanitize(&self) -> Result<Offer, Fault> {
        let has = self.identified()?;
        let order = [
            (has.block_erase, ata::Sanitize::BlockErase),
            (has.overwrite, ata::Sanitize::Overwrite),
            (has.crypto_scramble, ata::Sanitize::CryptoScramble),
        ];
        let Some((_, which)) = order.into_iter().find(|(is_there, _)| *is_there) else {
            return refused(&format!("it does not have SANITIZE DEVICE; {ANOTHER}"));
        };
        match self.sanitize(ata::Sanitize::Status) {
            Ok(SanitizeState::Frozen) => refused("its sanitizing is frozen until it is switched off and on"),
            Ok(
                SanitizeState::Idle
                | SanitizeState::Done
                | SanitizeState::DidNotSucceed
                | SanitizeState::Refused(_),
            ) => Ok(Offer::of(Command::Sanitize(which), None)),
            Ok(SanitizeState::Running(_)) => refused("it is being erased already; wait until that has ended"),
            Err(fault) => refused(&format!("it does not say how a sanitize goes: {fault}; {ANOTHER}")),
        }
    }

    /// FORMAT UNIT is mandatory (SBC-4), so only a drive that says that it has none is believed.
    fn offer_format(&self) -> Result<Offer, Fault> {
        if self.has(scsi::FORMAT_UNIT, None) == Some(false) {
            return refused(&format!("it declares no FORMAT UNIT; {ANOTHER}"));
        }
        let mut capacity = [0; scsi::CAPACITY_BYTES];
        let is_protected = match self.send(&scsi::read_capacity(), Transfer::In(&mut capacity)) {
            Ok(got) => scsi::is_protected(&capacity[..got.transferred]),
            // A drive without this command knows of no protection information.
            Err(INVALID_OPERATION_CODE) => Some(false),
            Err(_) => None,
        };
        match is_protected {
            Some(false) => Ok(Offer::of(Command::Format, None)),
            Some(true) => refused(&format!(
                "it is formatted with protection information, which a format without would take away; {ANOTHER}"
            )),
            None => refused(&format!(
                "it does not say whether it is formatted with protection information; try again, or {ANOTHER}"
            )),
        }
    }

    /// Begins a sanitize or a format.
    pub fn begin(&self, which: Command) -> Result<(), Fault> {
        let begun = match which {
            Command::Sanitize(subcommand) => match self.sanitize(subcommand) {
                Ok(SanitizeState::DidNotSucceed) => Err(DID_NOT_SUCCEED.to_owned()),
                Ok(SanitizeState::Refused(why)) => Err(why.to_owned()),
                Ok(SanitizeState::Frozen) => Err("it is frozen".to_owned()),
                Ok(_) => Ok(()),
                Err(fault) => Err(fault.to_string()),
            },
            Command::Action(action) => {
                let list: &[u8] = if action == Action::Overwrite { &scsi::OVERWRITE_LIST } else { &[] };
                self.send(&scsi::sanitize(action), Transfer::Out(list)).map(drop).map_err(|f| f.to_string())
            }
            Command::Format => {
                let list = Transfer::Out(&scsi::FORMAT_LIST);
                self.send(&scsi::FORMAT, list).map(drop).map_err(|fault| fault.to_string())
            }
            Command::Security => Err("it has a way of its own".to_owned()),
        };
        begun.map_err(|why| Fault::Failed(format!("{} was not begun: {why}; {ANOTHER}", which.words())))
    }

    /// How far the erase is that was begun last. A look that fails says nothing of the erase: so many of them in a
    /// row count as one that goes on, and `unclear_looks` counts them.
    pub fn progress(&self, unclear_looks: &mut u32) -> Result<Progress, Fault> {
        let look = match self.caching.dialect {
            Dialect::Ata => self.look_ata(),
            Dialect::Scsi => self.look_scsi(),
        };
        match look? {
            Look::Clear(progress) => {
                *unclear_looks = 0;
                Ok(progress)
            }
            Look::Unclear(_) if *unclear_looks < MOST_UNCLEAR_LOOKS => {
                *unclear_looks += 1;
                Ok(Progress::Running(None))
            }
            Look::Unclear(why) => Err(Fault::Failed(format!(
                "its erase cannot be followed: {why}; it goes on in the drive while that has power; check the cables and look again with another run"
            ))),
        }
    }

    fn look_ata(&self) -> Result<Look, Fault> {
        match self.sanitize(ata::Sanitize::Status) {
            Ok(SanitizeState::Running(share)) => Ok(Look::Clear(Progress::Running(Some(share)))),
            Ok(SanitizeState::Done) => Ok(Look::Clear(Progress::Done)),
            Ok(SanitizeState::Idle) => {
                failed("the drive says neither that it goes on nor that it was completed")
            }
            Ok(SanitizeState::Frozen) => failed("the drive is frozen"),
            Ok(SanitizeState::DidNotSucceed) => {
                let is_ended = matches!(
                    self.sanitize(ata::Sanitize::ClearFailed),
                    Ok(SanitizeState::Idle | SanitizeState::Done)
                );
                failed(&format!("{DID_NOT_SUCCEED}{}", ended(is_ended)))
            }
            Ok(SanitizeState::Refused(why)) => Ok(Look::Unclear(why.to_owned())),
            Err(fault) => Ok(Look::Unclear(fault.to_string())),
        }
    }

    fn look_scsi(&self) -> Result<Look, Fault> {
        let mut sense = [0; scsi::SENSE_BYTES];
        let got = match self.send(&scsi::REQUEST_SENSE, Transfer::In(&mut sense)) {
            Ok(reply) => reply.transferred,
            Err(fault) => return self.unclear_or_failed(fault),
        };
        match sensed(&sense[..got]) {
            Sensed::Running(share) => Ok(Look::Clear(Progress::Running(share))),
            Sensed::Failed(fault) => self.unclear_or_failed(fault),
            Sensed::Nothing => match self.exchange(&scsi::TEST_UNIT_READY, Transfer::None) {
                Ok(reply) => match (reply.fault(), sensed(&reply.sense)) {
                    (None, _) => Ok(Look::Clear(Progress::Done)),
                    (Some(_), Sensed::Running(share)) => Ok(Look::Clear(Progress::Running(share))),
                    (Some(fault), _) => self.unclear_or_failed(fault),
                },
                Err(fault) => self.unclear_or_failed(fault),
            },
        }
    }

    /// What a fault says: those of the transport and of a drive that is not ready yet nothing of the erase.
    fn unclear_or_failed(&self, fault: CommandFault) -> Result<Look, Fault> {
        match fault {
            CommandFault::Errno(_)
            | CommandFault::Status(_)
            | CommandFault::Sense(UNIT_ATTENTION | ABORTED_COMMAND, _, _)
            | CommandFault::Sense(NOT_READY, LOGICAL_UNIT_NOT_READY, _) => {
                Ok(Look::Unclear(fault.to_string()))
            }
            CommandFault::Sense(..) => Err(self.given_up(fault)),
        }
    }

    /// The failure of an operation; a sanitize is given up, so that the drive takes reads and writes again.
    fn given_up(&self, fault: CommandFault) -> Fault {
        const SANITIZE_COMMAND_FAILED: CommandFault = CommandFault::Sense(3, 0x31, 0x03);
        let words = if fault == SANITIZE_COMMAND_FAILED {
            ended(self.send(&scsi::sanitize(Action::ExitFailureMode), Transfer::None).is_ok())
        } else {
            ""
        };
        Fault::Failed(format!("its erase failed: {fault}{words}; {HEALTH}"))
    }

    /// The share that is done of an erase that goes on, where the drive says one; `None` where none goes on.
    pub fn running(&self) -> Option<Option<f64>> {
        match self.caching.dialect {
            Dialect::Ata => {
                match self.features().ok()?.sanitizes.then(|| self.sanitize(ata::Sanitize::Status))? {
                    Ok(SanitizeState::Running(share)) => Some(Some(share)),
                    _ => None,
                }
            }
            Dialect::Scsi => {
                let mut sense = [0; scsi::SENSE_BYTES];
                let got = self.send(&scsi::REQUEST_SENSE, Transfer::In(&mut sense)).ok()?.transferred;
                match sensed(&sense[..got]) {
                    Sensed::Running(share) => Some(share),
                    _ => None,
                }
            }
        }
    }

    /// The feature sets of an ATA disk.
    pub fn features(&self) -> io::Result<Features> {
        Ok(ata::features(&self.caching.identify()?))
    }

    fn identified(&self) -> Result<Features, Fault> {
        self.features().or_else(|error| refused(&format!("{}; {ANOTHER}", system_words(&error))))
    }

    /// A SANITIZE DEVICE command, and its answer, which comes as sense data in every case.
    fn sanitize(&self, which: ata::Sanitize) -> Result<SanitizeState, CommandFault> {
        let reply = self.exchange(&ata::sanitize(which), Transfer::None)?;
        match (registers(&reply.sense), reply.fault()) {
            (Some(answer), _) => Ok(sanitize_state(answer)),
            (None, Some(fault)) => Err(fault),
            (None, None) => Err(CommandFault::Errno(libc::EIO)),
        }
    }

    /// Whether a SCSI disk has a command; `None` where it does not say.
    fn has(&self, code: u8, action: Option<Action>) -> Option<bool> {
        let mut answer = [0; scsi::SUPPORT_BYTES];
        let got = self.send(&scsi::report_support(code, action), Transfer::In(&mut answer)).ok()?.transferred;
        scsi::is_supported(&answer[..got])
    }

    fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<Reply, CommandFault> {
        let reply = self.exchange(command, data)?;
        reply.fault().map_or(Ok(reply), Err)
    }

    /// Sends a command again where the drive had something else to report first.
    fn exchange(&self, command: &[u8], mut data: Transfer<'_>) -> Result<Reply, CommandFault> {
        let mut reply = Reply::default();
        for _ in 0..=MOST_ATTENTIONS {
            let again = match &mut data {
                Transfer::None => Transfer::None,
                Transfer::In(buffer) => Transfer::In(buffer),
                Transfer::Out(bytes) => Transfer::Out(bytes),
            };
            reply = self.caching.link.exchange(command, again, TIMEOUT)?;
            if !matches!(reply.fault(), Some(CommandFault::Sense(UNIT_ATTENTION, _, _))) {
                break;
            }
        }
        Ok(reply)
    }
}

/// What one look at an erase says.
enum Look {
    Clear(Progress),
    /// Nothing, for this reason.
    Unclear(String),
}

/// INVALID COMMAND OPERATION CODE (SPC-5).
const INVALID_OPERATION_CODE: CommandFault = CommandFault::Sense(5, 0x20, 0);
const DID_NOT_SUCCEED: &str = "the last sanitize did not succeed";
const HEALTH: &str = "what it holds is not known; check its health (smartctl -a)";

fn refused<T>(why: &str) -> Result<T, Fault> {
    Err(Fault::Refused(format!("cannot be erased: {why}")))
}

fn failed<T>(why: &str) -> Result<T, Fault> {
    Err(Fault::Failed(format!("its erase failed: {why}; {HEALTH}")))
}

/// What became of a drive whose sanitize failed.
const fn ended(is_ended: bool) -> &'static str {
    if is_ended {
        "; it takes reads and writes again"
    } else {
        "; it takes no reads or writes until a sanitize succeeds"
    }
}
