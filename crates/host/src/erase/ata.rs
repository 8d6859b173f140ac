//! The ATA commands that erase a disk, and the decoding of its answers: no state, no I/O.
//!
//! Sources: SAT-4, ATA PASS-THROUGH (16) command, ATA Status Return sense data descriptor, and its fixed format;
//! ACS-4, SANITIZE DEVICE (subcommands SANITIZE STATUS EXT, CRYPTO SCRAMBLE EXT, BLOCK ERASE EXT, OVERWRITE EXT),
//! SECURITY SET PASSWORD, SECURITY UNLOCK, SECURITY ERASE PREPARE, SECURITY ERASE UNIT, SECURITY DISABLE PASSWORD,
//! IDENTIFY DEVICE (words 59, 89 and 128).

use crate::caching::{ATA_PASS_THROUGH_16, IDENTITY_BYTES};

/// The only password that is ever set: anyone who finds the drive locked finds it in the note, and here.
pub const PASSWORD: &str = "skylight";

/// Data of the commands of the SECURITY feature set, bytes.
pub const SECURITY_BYTES: usize = 512;

const SANITIZE_DEVICE: u8 = 0xb4;
/// FAILURE MODE, bit 4 of COUNT: a sanitize that failed may be given up, else only another one ends that state.
const FAILURE_MODE: u16 = 1 << 4;
/// CLEAR SANITIZE OPERATION FAILED, bit 0 of COUNT of SANITIZE STATUS EXT.
const CLEAR_FAILED: u16 = 1;

/// A command of the SECURITY feature set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Security {
    SetPassword = 0xf1,
    Unlock = 0xf2,
    ErasePrepare = 0xf3,
    EraseUnit = 0xf4,
    DisablePassword = 0xf6,
}

/// A subcommand of SANITIZE DEVICE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sanitize {
    Status,
    /// SANITIZE STATUS EXT that ends the failed state.
    ClearFailed,
    CryptoScramble,
    BlockErase,
    /// One pass of zeros.
    Overwrite,
}

impl Sanitize {
    /// FEATURE, COUNT and LBA. The keys are letters: "Cryp", "BkEr", "OW" before the pattern.
    const fn fields(self) -> (u16, u16, u64) {
        match self {
            Self::Status => (0x0000, 0, 0),
            Self::ClearFailed => (0x0000, CLEAR_FAILED, 0),
            Self::CryptoScramble => (0x0011, FAILURE_MODE, 0x4372_7970),
            Self::BlockErase => (0x0012, FAILURE_MODE, 0x426b_4572),
            Self::Overwrite => (0x0014, FAILURE_MODE | 1, 0x4f57_0000_0000),
        }
    }
}

/// SANITIZE DEVICE by ATA PASS-THROUGH (16), with the registers asked back.
pub fn sanitize(what: Sanitize) -> [u8; 16] {
    /// PROTOCOL (bits 4 to 1) non-data, EXTEND.
    const NON_DATA_EXT: u8 = 3 << 1 | 1;
    /// CK_COND: the registers come back as sense data, also after success.
    const CK_COND: u8 = 1 << 5;
    let (feature, count, lba) = what.fields();
    let (feature, count, lba) = (feature.to_be_bytes(), count.to_be_bytes(), lba.to_le_bytes());
    let mut command = [0; 16];
    (command[0], command[1], command[2]) = (ATA_PASS_THROUGH_16, NON_DATA_EXT, CK_COND);
    command[3..5].copy_from_slice(&feature);
    command[5..7].copy_from_slice(&count);
    for (at, byte) in [(8, 0), (10, 1), (12, 2), (7, 3), (9, 4), (11, 5)] {
        command[at] = lba[byte];
    }
    command[14] = SANITIZE_DEVICE;
    command
}

/// A SECURITY command by ATA PASS-THROUGH (16).
pub fn security(what: Security) -> [u8; 16] {
    /// PROTOCOL (bits 4 to 1) non-data, and PIO data-out.
    const NON_DATA: u8 = 3 << 1;
    const PIO_OUT: u8 = 5 << 1;
    /// T_DIR to the device, BYT_BLOK in blocks, T_LENGTH in the COUNT field.
    const BLOCKS_OUT_COUNT: u8 = 1 << 2 | 2;
    let mut command = [0; 16];
    (command[0], command[1], command[14]) = (ATA_PASS_THROUGH_16, NON_DATA, what as u8);
    if what != Security::ErasePrepare {
        (command[1], command[2], command[6]) = (PIO_OUT, BLOCKS_OUT_COUNT, 1);
    }
    command
}

/// The data of a SECURITY command: word 0 zero, which is the user password, the capability "high" of the master
/// password (which then unlocks too), and an erase in normal mode; the password in words 1 to 16.
pub fn security_data() -> [u8; SECURITY_BYTES] {
    let mut data = [0; SECURITY_BYTES];
    data[2..2 + PASSWORD.len()].copy_from_slice(PASSWORD.as_bytes());
    data
}

/// What identification data says of the two feature sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Features {
    /// Word 59: SANITIZE DEVICE, and its BLOCK ERASE EXT, OVERWRITE EXT and CRYPTO SCRAMBLE EXT.
    pub sanitizes: bool,
    pub block_erase: bool,
    pub overwrite: bool,
    pub crypto_scramble: bool,
    /// Word 128: the SECURITY feature set, a user password that is set, a drive locked by it, a drive frozen, and
    /// too many wrong passwords.
    pub security: bool,
    pub password_set: bool,
    pub locked: bool,
    pub frozen: bool,
    pub count_expired: bool,
    /// Word 89: how long SECURITY ERASE UNIT takes in normal mode, minutes; at least, if it takes longer than can be
    /// said. `None` where it is not said.
    pub erase_minutes: Option<u32>,
}

impl Features {
    /// Why a drive is not given a password.
    pub fn forbids_password(&self) -> Option<&'static str> {
        if !self.security {
            Some("it does not have the SECURITY feature set; choose another --reset")
        } else if self.locked || self.password_set {
            Some("it has a password already, which is not ours; remove it first (hdparm --security-disable)")
        } else if self.count_expired {
            Some("it takes no password after too many wrong ones; switch it off and on")
        } else if self.frozen {
            Some(
                "its security is frozen, as the firmware of most machines leaves it; suspend and wake the machine, or plug the disk in again while it runs",
            )
        } else {
            None
        }
    }
}

/// Decodes the words.
pub fn features(identity: &[u8; IDENTITY_BYTES]) -> Features {
    let word = |number: usize| u16::from_le_bytes([identity[2 * number], identity[2 * number + 1]]);
    let has = |number: usize, bit: u32| word(number) != u16::MAX && word(number) >> bit & 1 == 1;
    // Bit 15 says that bits 14 to 0 count, else bits 7 to 0, in two minutes each.
    let extended = word(89) >> 15 == 1;
    let minutes = 2 * u32::from(word(89) & if extended { 0x7fff } else { 0xff });
    let sanitizes = has(59, 12);
    Features {
        sanitizes,
        block_erase: sanitizes && has(59, 15),
        overwrite: sanitizes && has(59, 14),
        crypto_scramble: sanitizes && has(59, 13),
        security: has(128, 0),
        password_set: has(128, 1),
        locked: has(128, 2),
        frozen: has(128, 3),
        count_expired: has(128, 4),
        erase_minutes: (minutes != 0).then_some(minutes),
    }
}

/// ERROR, bit 0 of STATUS.
const ERROR: u8 = 1;

/// Registers of an ATA disk after a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    pub error: u8,
    pub status: u8,
    pub count: u16,
    pub lba: u64,
}

/// The registers in the sense data of an ATA PASS-THROUGH command; `None` where there are none. The fixed format has
/// no space for the high halves of COUNT and LBA, and counts after an error alone, whose reason is in the low ones.
pub fn registers(sense: &[u8]) -> Option<Registers> {
    const DESCRIPTOR: u8 = 0x09;
    match sense.first()? & 0x7f {
        0x72 | 0x73 => {
            let mut rest = sense.get(8..8 + usize::from(*sense.get(7)?)).or(sense.get(8..))?;
            while let [kind, length, ..] = *rest {
                let whole = rest.get(..usize::from(length) + 2)?;
                if kind == DESCRIPTOR && whole.len() >= 14 {
                    let lba = [whole[7], whole[9], whole[11], whole[6], whole[8], whole[10], 0, 0];
                    return Some(Registers {
                        error: whole[3],
                        status: whole[13],
                        count: u16::from_be_bytes([whole[4], whole[5]]),
                        lba: u64::from_le_bytes(lba),
                    });
                }
                rest = &rest[whole.len()..];
            }
            None
        }
        0x70 | 0x71 => {
            let [error, status, _, count] = *sense.get(3..7)?.first_chunk()?;
            let [low, middle, high] = *sense.get(9..12)?.first_chunk()?;
            let lba = u64::from_le_bytes([low, middle, high, 0, 0, 0, 0, 0]);
            (status & ERROR != 0).then_some(Registers { error, status, count: u16::from(count), lba })
        }
        _ => None,
    }
}

/// What a disk says of sanitizing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SanitizeState {
    /// None was done, or what was done is not remembered.
    Idle,
    /// Done, by so much of one.
    Running(f64),
    /// The last one was completed without an error.
    Done,
    /// No sanitize is taken until the next power cycle.
    Frozen,
    /// The last one did not succeed, and is not given up.
    DidNotSucceed,
    /// Why the command was refused; SANITIZE DEVICE ERROR REASON where there is one.
    Refused(&'static str),
}

/// Decodes the answer to a SANITIZE DEVICE command: COUNT and LBA (15:0) where it succeeded, LBA (7:0) where not.
pub fn sanitize_state(answer: Registers) -> SanitizeState {
    const DONE: u16 = 1 << 15;
    const RUNNING: u16 = 1 << 14;
    const FROZEN: u16 = 1 << 13;
    if answer.status & ERROR != 0 {
        return match answer.lba & 0xff {
            1 => SanitizeState::DidNotSucceed,
            2 => SanitizeState::Refused("it does not have this subcommand"),
            3 => SanitizeState::Frozen,
            4 => SanitizeState::Refused("it may not be frozen"),
            _ => SanitizeState::Refused("it gives no reason"),
        };
    }
    match answer.count {
        count if count & RUNNING != 0 => {
            SanitizeState::Running(f64::from((answer.lba & 0xffff) as u16) / 65_536.0)
        }
        count if count & FROZEN != 0 => SanitizeState::Frozen,
        count if count & DONE != 0 => SanitizeState::Done,
        _ => SanitizeState::Idle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bytes of SAT-4, ATA PASS-THROUGH (16), around the fields of ACS-4, SANITIZE DEVICE.
    #[test]
    fn sanitize_commands_are_laid_out_as_the_standards_say() {
        let with = |middle: [u8; 10]| {
            let mut command = [0x85, 0x07, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xb4, 0];
            command[3..13].copy_from_slice(&middle);
            command
        };
        assert_eq!(sanitize(Sanitize::Status), with([0; 10]));
        assert_eq!(sanitize(Sanitize::ClearFailed), with([0, 0, 0, 1, 0, 0, 0, 0, 0, 0]));
        let letters = |word: &[u8; 4]| [word[0], word[3], 0, word[2], 0, word[1]];
        for (what, feature, word) in
            [(Sanitize::CryptoScramble, 0x11, b"Cryp"), (Sanitize::BlockErase, 0x12, b"BkEr")]
        {
            let [a, b, c, d, e, f] = letters(word);
            assert_eq!(sanitize(what), with([0, feature, 0, 0x10, a, b, c, d, e, f]));
        }
        assert_eq!(sanitize(Sanitize::Overwrite), with([0, 0x14, 0, 0x11, 0, 0, b'W', 0, b'O', 0]));
    }

    #[test]
    fn security_commands_are_laid_out_as_the_standards_say() {
        let with = |code| [0x85, 0x0a, 0x06, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, code, 0];
        assert_eq!(security(Security::SetPassword), with(0xf1));
        assert_eq!(security(Security::Unlock), with(0xf2));
        assert_eq!(security(Security::EraseUnit), with(0xf4));
        assert_eq!(security(Security::DisablePassword), with(0xf6));
        let prepare = [0x85, 0x06, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xf3, 0];
        assert_eq!(security(Security::ErasePrepare), prepare);
        let data = security_data();
        assert_eq!((&data[..12], data[12..].iter().all(|&b| b == 0)), (&b"\0\0skylight\0\0"[..], true));
    }

    #[test]
    fn words_of_the_identification_are_decoded() {
        let mut identity = [0; IDENTITY_BYTES];
        let mut set = |number: usize, word: u16| {
            identity[2 * number..2 * number + 2].copy_from_slice(&word.to_le_bytes());
        };
        set(59, 0x5000);
        set(89, 0x8100);
        set(128, 0x0009);
        let found = features(&identity);
        assert_eq!((found.block_erase, found.overwrite, found.crypto_scramble), (false, true, false));
        assert_eq!(
            (found.security, found.frozen, found.locked, found.password_set),
            (true, true, false, false)
        );
        assert_eq!(found.erase_minutes, Some(512));
        let mut set = |number: usize, word: u16| {
            identity[2 * number..2 * number + 2].copy_from_slice(&word.to_le_bytes());
        };
        set(59, 0xe000);
        set(89, 0x0005);
        set(128, 0x0017);
        let found = features(&identity);
        assert!(!found.block_erase && !found.overwrite && !found.crypto_scramble, "bit 12 is not set");
        assert!(found.password_set && found.locked && found.count_expired && !found.frozen);
        assert_eq!(found.erase_minutes, Some(10));
        identity[2 * 59..2 * 60].copy_from_slice(&[0xff; 2]);
        assert!(!features(&identity).block_erase, "a word of ones is no answer");
    }

    /// SAT-4, ATA Status Return sense data descriptor; sense key RECOVERED ERROR, 00h/1Dh.
    fn descriptor(status: u8, count: u16, lba: u64) -> Vec<u8> {
        let (count, lba) = (count.to_be_bytes(), lba.to_le_bytes());
        let mut sense = vec![0x72, 1, 0, 0x1d, 0, 0, 0, 14, 0x09, 12, 1, 4, count[0], count[1]];
        sense.extend([lba[3], lba[0], lba[4], lba[1], lba[5], lba[2], 0x40, status]);
        sense
    }

    #[test]
    fn registers_come_back_in_both_formats() {
        let sense = descriptor(0x51, 0xc1d2, 0x0607_0809_0a0b);
        let found = Registers { error: 4, status: 0x51, count: 0xc1d2, lba: 0x0607_0809_0a0b };
        assert_eq!(registers(&sense), Some(found));
        let mut fixed = [0; 18];
        (fixed[0], fixed[3], fixed[4], fixed[6], fixed[9]) = (0x70, 4, 0x51, 7, 3);
        let found = Registers { error: 4, status: 0x51, count: 7, lba: 3 };
        assert_eq!(registers(&fixed), Some(found));
        fixed[4] = 0x50;
        assert_eq!(registers(&fixed), None, "half of the answer is none");
        for odd in
            [&sense[..7], &sense[..9], &sense[..20], &fixed[..11], &[], &[0x72, 0, 0, 0, 0, 0, 0, 4, 9, 0]]
        {
            assert_eq!(registers(odd), None, "{odd:02x?}");
        }
    }

    #[test]
    fn sanitize_states_are_decoded() {
        let state = |status, count, lba| sanitize_state(Registers { error: 0, status, count, lba });
        assert_eq!(state(0x50, 0, 0xffff), SanitizeState::Idle);
        assert_eq!(state(0x50, 0x4000, 0x8000), SanitizeState::Running(0.5));
        assert_eq!(state(0x50, 0xc000, 0), SanitizeState::Running(0.0), "the last one was completed");
        assert_eq!(state(0x50, 0x8000, 0xffff), SanitizeState::Done);
        assert_eq!(state(0x50, 0xa000, 0xffff), SanitizeState::Frozen);
        assert_eq!(state(0x51, 0, 3), SanitizeState::Frozen);
        assert_eq!(state(0x51, 0x8000, 1), SanitizeState::DidNotSucceed);
    }
}
