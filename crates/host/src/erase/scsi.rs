//! The SCSI commands that erase a disk, and the decoding of its answers: no state, no I/O.
//!
//! Sources: SBC-4, FORMAT UNIT (parameter list, short header), SANITIZE (service actions, OVERWRITE parameter list),
//! READ CAPACITY (16) (PROT_EN); SPC-5, REPORT SUPPORTED OPERATION CODES (one command format), REQUEST SENSE, TEST
//! UNIT READY, sense data (progress indication); SBC-4, sanitize operations and formatting: what REQUEST SENSE
//! returns meanwhile.

use crate::sg_io::{CommandFault, sense_of};

/// Bytes asked of REPORT SUPPORTED OPERATION CODES, READ CAPACITY (16) and REQUEST SENSE.
pub const SUPPORT_BYTES: usize = 20;
pub const CAPACITY_BYTES: usize = 32;
pub const SENSE_BYTES: usize = 252;

pub const FORMAT_UNIT: u8 = 0x04;
pub const SANITIZE: u8 = 0x48;
pub const TEST_UNIT_READY: [u8; 6] = [0; 6];
pub const REQUEST_SENSE: [u8; 6] = [0x03, 0, 0, 0, SENSE_BYTES as u8, 0];

/// A service action of SANITIZE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Overwrite = 0x01,
    BlockErase = 0x02,
    CryptographicErase = 0x03,
    ExitFailureMode = 0x1f,
}

/// The parameter list of OVERWRITE: one pass (OVERWRITE COUNT) of a pattern of four zeros.
pub const OVERWRITE_LIST: [u8; 8] = [1, 0, 0, 4, 0, 0, 0, 0];

/// SANITIZE, which goes on after it has answered (IMMED) and, if it fails, may be given up (AUSE).
pub fn sanitize(action: Action) -> [u8; 10] {
    const IMMED: u8 = 1 << 7;
    const AUSE: u8 = 1 << 5;
    let mut command = [0; 10];
    let flags = if action == Action::ExitFailureMode { 0 } else { IMMED | AUSE };
    (command[0], command[1]) = (SANITIZE, flags | action as u8);
    if action == Action::Overwrite {
        command[8] = OVERWRITE_LIST.len() as u8;
    }
    command
}

/// FORMAT UNIT with a parameter list (FMTDATA), without protection information (FMTPINFO zero), and with the defects
/// that the drive knows: neither CMPLST nor a defect list.
pub const FORMAT: [u8; 6] = [FORMAT_UNIT, 1 << 4, 0, 0, 0, 0];

/// Its parameter list, a short header: FOV is zero, so the drive's own options hold; IMMED.
pub const FORMAT_LIST: [u8; 4] = [0, 1 << 1, 0, 0];

/// REPORT SUPPORTED OPERATION CODES of one operation code, and of its service action, if it has any.
pub fn report_support(code: u8, action: Option<Action>) -> [u8; 12] {
    const MAINTENANCE_IN: u8 = 0xa3;
    const REPORT_SUPPORTED_OPERATION_CODES: u8 = 0x0c;
    let mut command = [0; 12];
    (command[0], command[1]) = (MAINTENANCE_IN, REPORT_SUPPORTED_OPERATION_CODES);
    // REPORTING OPTIONS: 001b without, 010b with a service action.
    (command[2], command[3]) = (if action.is_some() { 2 } else { 1 }, code);
    command[5] = action.map_or(0, |action| action as u8);
    command[9] = SUPPORT_BYTES as u8;
    command
}

/// Whether the answer is that the command is there: SUPPORT 011b as the standard has it, 101b in a vendor's way of
/// the same format, and 001b that it is not. The others, as 000b, say that this is not known now.
pub fn is_supported(answer: &[u8]) -> Option<bool> {
    match answer.get(1)? & 7 {
        3 | 5 => Some(true),
        1 => Some(false),
        _ => None,
    }
}

/// READ CAPACITY (16).
pub fn read_capacity() -> [u8; 16] {
    const SERVICE_ACTION_IN_16: u8 = 0x9e;
    const READ_CAPACITY_16: u8 = 0x10;
    let mut command = [0; 16];
    (command[0], command[1], command[13]) = (SERVICE_ACTION_IN_16, READ_CAPACITY_16, CAPACITY_BYTES as u8);
    command
}

/// Whether a capacity answer says that the medium has protection information (PROT_EN); `None` where it is too short.
pub fn is_protected(answer: &[u8]) -> Option<bool> {
    answer.get(12).map(|byte| byte & 1 != 0)
}

/// What sense data says of a format or sanitize.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sensed {
    /// It runs; the share that is done, if it says so.
    Running(Option<f64>),
    /// Nothing is wrong, and nothing runs.
    Nothing,
    /// The operation, or something else, failed.
    Failed(CommandFault),
}

/// Decodes sense data: FORMAT IN PROGRESS (04h/04h) and SANITIZE IN PROGRESS (04h/1Bh) with NOT READY or NO SENSE.
pub fn sensed(sense: &[u8]) -> Sensed {
    const IN_PROGRESS: [(u8, u8); 2] = [(0x04, 0x04), (0x04, 0x1b)];
    match sense_of(sense) {
        Some(CommandFault::Sense(0 | 2, code, qualifier)) if IN_PROGRESS.contains(&(code, qualifier)) => {
            Sensed::Running(progress(sense))
        }
        Some(CommandFault::Sense(0, _, _)) | None => Sensed::Nothing,
        Some(fault) => Sensed::Failed(fault),
    }
}

/// The progress indication, in 65536ths: bytes 15 to 17 of the fixed format with SKSV, or the sense-key specific
/// descriptor (02h), its bytes 4 to 6.
fn progress(sense: &[u8]) -> Option<f64> {
    const SKSV: u8 = 1 << 7;
    const DESCRIPTOR: u8 = 0x02;
    let specific: &[u8] = match sense.first()? & 0x7f {
        0x70 | 0x71 => sense.get(15..18)?,
        _ => {
            let mut rest = sense.get(8..)?;
            loop {
                let [kind, length, ..] = *rest else { return None };
                let whole = rest.get(..usize::from(length) + 2)?;
                if kind == DESCRIPTOR {
                    break whole.get(4..7)?;
                }
                rest = &rest[whole.len()..];
            }
        }
    };
    let of = f64::from(u16::from_be_bytes([specific[1], specific[2]])) / 65_536.0;
    (specific[0] & SKSV != 0).then_some(of)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of SBC-4, SANITIZE and FORMAT UNIT, and of SPC-5.
    #[test]
    fn commands_are_laid_out_as_the_standards_say() {
        assert_eq!(sanitize(Action::Overwrite), [0x48, 0xa1, 0, 0, 0, 0, 0, 0, 8, 0]);
        assert_eq!(sanitize(Action::BlockErase), [0x48, 0xa2, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sanitize(Action::CryptographicErase), [0x48, 0xa3, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(sanitize(Action::ExitFailureMode), [0x48, 0x1f, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!((FORMAT, FORMAT_LIST), ([4, 0x10, 0, 0, 0, 0], [0, 2, 0, 0]));
        let asked = report_support(SANITIZE, Some(Action::BlockErase));
        assert_eq!(asked, [0xa3, 0x0c, 2, 0x48, 0, 2, 0, 0, 0, 20, 0, 0]);
        assert_eq!(report_support(FORMAT_UNIT, None), [0xa3, 0x0c, 1, 4, 0, 0, 0, 0, 0, 20, 0, 0]);
        assert_eq!(read_capacity()[..2], [0x9e, 0x10]);
        assert_eq!(read_capacity()[13], 32);
    }

    #[test]
    fn answers_are_decoded() {
        let support = |byte| is_supported(&[0, byte, 0, 10]);
        assert_eq!([1, 3, 5, 0].map(support), [Some(false), Some(true), Some(true), None]);
        let mut capacity = [0; CAPACITY_BYTES];
        assert_eq!((is_supported(&[]), is_protected(&capacity[..12])), (None, None));
        assert_eq!(is_protected(&capacity), Some(false));
        capacity[12] = 0x03;
        assert_eq!(is_protected(&capacity), Some(true));
    }

    #[test]
    fn progress_is_found_in_both_formats() {
        let mut fixed = [0; 18];
        (fixed[0], fixed[2], fixed[7], fixed[12], fixed[13]) = (0x70, 2, 10, 4, 0x1b);
        assert_eq!(sensed(&fixed), Sensed::Running(None));
        (fixed[15], fixed[16]) = (0x80, 0x40);
        assert_eq!(sensed(&fixed), Sensed::Running(Some(0.25)));
        (fixed[2], fixed[13]) = (0, 4);
        assert_eq!(sensed(&fixed), Sensed::Running(Some(0.25)), "with NO SENSE as with NOT READY");
        let descriptor = [0x72, 2, 4, 4, 0, 0, 0, 12, 0, 2, 9, 9, 2, 6, 0, 0, 0x80, 0x80, 0, 0];
        assert_eq!(sensed(&descriptor), Sensed::Running(Some(0.5)));
    }

    #[test]
    fn the_end_and_a_failure_are_told_apart() {
        assert_eq!(sensed(&[0x70; 1]), Sensed::Nothing);
        let fixed = |key, code, qualifier| {
            let mut sense = [0; 18];
            (sense[0], sense[2], sense[12], sense[13]) = (0x70, key, code, qualifier);
            sensed(&sense)
        };
        assert_eq!(fixed(0, 0, 0), Sensed::Nothing);
        assert_eq!(fixed(3, 0x31, 0x03), Sensed::Failed(CommandFault::Sense(3, 0x31, 0x03)));
        assert_eq!(fixed(3, 0x31, 0x01), Sensed::Failed(CommandFault::Sense(3, 0x31, 0x01)));
        assert_eq!(fixed(2, 0x3a, 0), Sensed::Failed(CommandFault::Sense(2, 0x3a, 0)));
    }
}
