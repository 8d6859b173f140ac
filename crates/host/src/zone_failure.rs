//! Failures of zone commands, each one line: the device, the zone, the reason, the mend.
//!
//! Sources: SPC-5 (sense keys, additional sense codes); Linux `block/blk-core.c` (`blk_errors`: the error numbers
//! of a zone resource that is used up).

use std::fmt;
use std::io;

use skylight_command::Failure;

use crate::sg_io::CommandFault;

/// Why a zone command failed: the fault of a command, read as zones have it. The kernel's error numbers are also those
/// of its ioctls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneFault(pub CommandFault);

impl From<CommandFault> for ZoneFault {
    fn from(fault: CommandFault) -> Self {
        Self(fault)
    }
}

/// Additional sense codes and qualifiers with which drives refuse commands of zones (SPC-5, annex F).
const REFUSALS: [(u8, u8, Failure); 9] = [
    (0x20, 0x00, Failure::Unsupported),
    (0x21, 0x04, Failure::UnalignedWrite),
    (0x21, 0x05, Failure::WriteBoundary),
    (0x21, 0x06, Failure::ReadInvalidData),
    (0x21, 0x07, Failure::ReadBoundary),
    (0x24, 0x00, Failure::InvalidField),
    (0x27, 0x08, Failure::ZoneReadOnly),
    (0x2c, 0x0e, Failure::ZoneOffline),
    (0x55, 0x0e, Failure::InsufficientZoneResources),
];

impl fmt::Display for ZoneFault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // The two that Linux keeps for zones (blk_errors in block/blk-core.c).
            CommandFault::Errno(libc::ETOOMANYREFS) => out.write_str("too many open zones"),
            CommandFault::Errno(libc::EOVERFLOW) => out.write_str("too many active zones"),
            CommandFault::Sense(key, code, qualifier) => {
                let words = self.refused().map_or("check condition".into(), |refused| refused.to_string());
                write!(out, "{words} (sense {key:X}h, {code:02X}h/{qualifier:02X}h)")
            }
            other => write!(out, "{other}"),
        }
    }
}

impl ZoneFault {
    /// The fault of an operating system error.
    pub(crate) fn of(error: &io::Error) -> Self {
        Self(CommandFault::Errno(error.raw_os_error().unwrap_or(libc::EIO)))
    }

    /// Why the drive refused the command, where that is a reason of ZBC-2: then the drive is sound. The kernel keeps
    /// of them only that zone resources are used up.
    pub fn refused(self) -> Option<Failure> {
        match self.0 {
            CommandFault::Errno(libc::ETOOMANYREFS | libc::EOVERFLOW) => {
                Some(Failure::InsufficientZoneResources)
            }
            CommandFault::Sense(_, code, qualifier) => {
                let found = REFUSALS.iter().find(|&&(a, b, _)| (a, b) == (code, qualifier));
                found.map(|&(_, _, refused)| refused)
            }
            _ => None,
        }
    }

    /// What can be done.
    pub(crate) fn mend(self) -> &'static str {
        match (self.0, self.refused()) {
            (CommandFault::Errno(libc::EPERM | libc::EACCES), _) => "run as root",
            (_, Some(Failure::InsufficientZoneResources)) => "close, finish or reset another zone first",
            _ => "see its condition with skylight zones TARGET report",
        }
    }
}

/// A zone command that failed: the fault of the target or of who asked, never silent.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{path}: {what} failed: {fault}; {mend}", mend = fault.mend())]
pub struct ZoneFailure {
    /// The device.
    pub path: String,
    /// What was done, to which zone.
    pub what: String,
    /// Why it failed.
    pub fault: ZoneFault,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_names_the_device_the_zone_the_reason_and_the_mend() {
        let line = |fault| {
            let (path, what) = ("/dev/sdq".into(), "open of the zone at byte 512".into());
            ZoneFailure { path, what, fault: ZoneFault(fault) }.to_string()
        };
        assert_eq!(
            line(CommandFault::Sense(7, 0x55, 0x0e)),
            "/dev/sdq: open of the zone at byte 512 failed: insufficient zone resources (sense 7h, 55h/0Eh); \
             close, finish or reset another zone first"
        );
        assert!(line(CommandFault::Errno(libc::ETOOMANYREFS)).contains("too many open zones; close, finish"));
        assert!(line(CommandFault::Errno(libc::EOVERFLOW)).contains("too many active zones; close, finish"));
        assert!(line(CommandFault::Errno(libc::EPERM)).ends_with("; run as root"));
        assert!(
            line(CommandFault::Sense(5, 0x24, 0)).contains("invalid field in CDB (sense 5h, 24h/00h); see")
        );
        assert!(line(CommandFault::Sense(4, 0x44, 0)).contains("check condition (sense 4h, 44h/00h)"));
    }
}
