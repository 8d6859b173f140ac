//! The volatile write cache and the read look-ahead of a drive, asked of the drive itself.
//!
//! An ATA disk behind a SCSI/ATA translation layer gets IDENTIFY DEVICE and SET FEATURES by ATA PASS-THROUGH
//! (16): a translated mode page shows what the layer keeps, not what the disk has, and none known translates a
//! change of look-ahead. A SCSI disk gets MODE SENSE (10) and MODE SELECT (10) of its Caching mode page.
//!
//! Invariants: only these four commands are sent from here, and only [`Caching::set_look_ahead`] changes anything. A change
//! is of the current values alone (SP is zero), so that switching the drive off undoes it. The write cache is
//! read here and never switched: the kernel has to know of it, because it decides by it whether to send flushes.
//! A USB adapter that declares no translation is sent nothing: the kernel does not ask such adapters for the
//! page either, since some stop working (`skip_ms_page_8` in Linux `drivers/usb/storage/scsiglue.c`).
//!
//! Sources: SAT-4, ATA PASS-THROUGH (16) command, ATA Information VPD page (89h); ACS-4, IDENTIFY DEVICE (words
//! 82, 83, 85, 87 and 255), SET FEATURES (subcommands 55h and AAh); SPC-5, MODE SENSE (10), MODE SELECT (10), mode
//! parameter header (10); SBC-4, Caching mode page (08h): WCE, DRA.

use std::io;

use crate::bus::bus_of;
use crate::sg_io::{CommandFault, Link, Transfer};
use crate::sysfs::Node;

/// The operation code of ATA PASS-THROUGH (16).
pub const ATA_PASS_THROUGH_16: u8 = 0x85;
const MODE_SELECT_10: u8 = 0x55;
const MODE_SENSE_10: u8 = 0x5a;
const IDENTIFY_DEVICE: u8 = 0xec;
const SET_FEATURES: u8 = 0xef;
const ENABLE_LOOK_AHEAD: u8 = 0xaa;
const DISABLE_LOOK_AHEAD: u8 = 0x55;
const CACHING_PAGE: u8 = 0x08;
/// Identification data (ACS-4, IDENTIFY DEVICE), bytes.
pub const IDENTITY_BYTES: usize = 512;
/// The header before the pages (SPC-5, mode parameter header (10)), bytes.
const HEADER_BYTES: usize = 8;
/// Header, one long block descriptor and the page with space to spare, bytes.
const MODE_BYTES: usize = 64;
/// The Caching mode page as SBC-4 has it, bytes.
const PAGE_BYTES: usize = 20;
/// Byte and bit of WCE, and of DRA, in the Caching mode page.
const WCE: (usize, u8) = (2, 1 << 2);
const DRA: (usize, u8) = (12, 1 << 5);
/// Bits of words 82 and 85: volatile write cache, read look-ahead.
const WRITE_CACHE_BIT: u16 = 1 << 5;
const LOOK_AHEAD_BIT: u16 = 1 << 6;

/// How a drive is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// ATA commands through a translation layer.
    Ata,
    /// SCSI commands.
    Scsi,
}

impl Dialect {
    /// That of a disk, from what the kernel knows of it; `None` where it takes no such commands.
    pub fn of(disk: &Node) -> Option<Self> {
        if !disk.dir().join("device/scsi_disk").exists() {
            return None;
        }
        let is_ata = disk.text("device/vendor").as_deref() == Some("ATA")
            || disk.dir().join("device/vpd_pg89").exists();
        match (is_ata, bus_of(disk)) {
            (true, _) => Some(Self::Ata),
            (false, Some("usb")) => None,
            (false, _) => Some(Self::Scsi),
        }
    }
}

/// The settings in force; `None` is unknown, or not there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InForce {
    /// Whether the volatile write cache is on.
    pub write_cache: Option<bool>,
    /// Whether read look-ahead is on.
    pub look_ahead: Option<bool>,
}

/// The caching of a drive.
#[derive(Debug)]
pub struct Caching<L> {
    /// The way to the drive.
    pub link: L,
    /// How it is asked.
    pub dialect: Dialect,
}

impl<L: Link> Caching<L> {
    /// The caching of a disk; `None` where it cannot be asked. A disk that declares a translation and takes no ATA
    /// command, as the kernel's `scsi_debug` does, is asked as a SCSI disk.
    pub fn of(disk: &Node, link: L) -> Option<Self> {
        let mut caching = Self { link, dialect: Dialect::of(disk)? };
        if caching.dialect == Dialect::Ata && bus_of(disk) != Some("usb") && caching.identify().is_err() {
            caching.dialect = Dialect::Scsi;
        }
        Some(caching)
    }

    /// What is in force.
    ///
    /// # Errors
    /// When the drive does not answer, or with something else.
    pub fn read(&self) -> io::Result<InForce> {
        match self.dialect {
            Dialect::Ata => Ok(identified(&self.identify()?)),
            Dialect::Scsi => {
                let (_, page) = self.page()?;
                let is_set = |(byte, bit): (usize, u8)| page[byte] & bit != 0;
                Ok(InForce { write_cache: Some(is_set(WCE)), look_ahead: Some(!is_set(DRA)) })
            }
        }
    }

    /// Asks for read look-ahead on or off; what came of it, [`Caching::read`] tells.
    ///
    /// # Errors
    /// When the drive refuses it or does not answer.
    pub fn set_look_ahead(&self, on: bool) -> io::Result<()> {
        match self.dialect {
            Dialect::Ata => {
                let feature = if on { ENABLE_LOOK_AHEAD } else { DISABLE_LOOK_AHEAD };
                self.patiently(|| self.link.send(&set_features(feature), Transfer::None))?;
            }
            Dialect::Scsi => {
                let (header, mut page) = self.page()?;
                let (byte, bit) = DRA;
                page[byte] = if on { page[byte] & !bit } else { page[byte] | bit };
                let list = [header, page].concat();
                self.patiently(|| self.link.send(&mode_select(list.len()), Transfer::Out(&list)))?;
            }
        }
        Ok(())
    }

    /// Sends a command again where the drive had something else to report first: a unit attention condition is
    /// cleared by being reported (SAM-6, unit attention conditions), and a command before may have caused one.
    fn patiently(&self, mut send: impl FnMut() -> Result<usize, CommandFault>) -> io::Result<usize> {
        /// Conditions that wait at once: a reset, changed parameters, changed data.
        const MOST_ATTENTIONS: usize = 4;
        const UNIT_ATTENTION: u8 = 6;
        let mut answer = send();
        for _ in 0..MOST_ATTENTIONS {
            if !matches!(answer, Err(CommandFault::Sense(UNIT_ATTENTION, _, _))) {
                break;
            }
            answer = send();
        }
        Ok(answer?)
    }

    /// The identification data of an ATA disk.
    ///
    /// # Errors
    /// When the disk does not answer, or with something else.
    pub fn identify(&self) -> io::Result<[u8; IDENTITY_BYTES]> {
        let mut data = [0; IDENTITY_BYTES];
        let got = self.patiently(|| self.link.send(&identify_device(), Transfer::In(&mut data)))?;
        if got == IDENTITY_BYTES && is_sound(&data) { Ok(data) } else { Err(nonsense("identification data")) }
    }

    /// The Caching mode page, and the header for sending it back. What a drive reserves in a MODE SELECT is zero:
    /// the length, the device-specific parameter and PS (SPC-5, MODE SELECT (10); SBC-4, mode parameter header).
    fn page(&self) -> io::Result<(Vec<u8>, Vec<u8>)> {
        let mut data = [0; MODE_BYTES];
        let got = self.patiently(|| self.link.send(&mode_sense(MODE_BYTES), Transfer::In(&mut data)))?;
        let data = &data[..got];
        let descriptors = data.get(6..HEADER_BYTES).map(|n| usize::from(n[0]) << 8 | usize::from(n[1]));
        let page = descriptors.and_then(|length| data.get(HEADER_BYTES + length..));
        let whole = page.and_then(|page| page.get(..usize::from(*page.get(1)?) + 2));
        match whole {
            Some(page) if page[0] & 0x7f == CACHING_PAGE && page.len() >= PAGE_BYTES => {
                let mut page = page.to_vec();
                page[0] &= 0x3f;
                Ok((vec![0; HEADER_BYTES], page))
            }
            _ => Err(nonsense("caching page")),
        }
    }
}

fn nonsense(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the drive's {what} cannot be read"))
}

/// What identification data says is in force. Words count only where bits 15 and 14 of the last of their group
/// (83, 87) are 01b, and a setting only where the drive has what is set.
fn identified(data: &[u8; IDENTITY_BYTES]) -> InForce {
    let word = |number: usize| u16::from_le_bytes([data[2 * number], data[2 * number + 1]]);
    let is_valid = |number| word(number) >> 14 == 1;
    let setting = |bit: u16| {
        let is_there = is_valid(83) && is_valid(87) && word(82) & bit != 0;
        is_there.then(|| word(85) & bit != 0)
    };
    InForce { write_cache: setting(WRITE_CACHE_BIT), look_ahead: setting(LOOK_AHEAD_BIT) }
}

/// Whether the checksum holds: with the signature A5h in the first byte of word 255 all bytes add up to zero.
fn is_sound(data: &[u8; IDENTITY_BYTES]) -> bool {
    const SIGNATURE: u8 = 0xa5;
    data[IDENTITY_BYTES - 2] != SIGNATURE || data.iter().fold(0_u8, |sum, &byte| sum.wrapping_add(byte)) == 0
}

/// IDENTIFY DEVICE by ATA PASS-THROUGH (16).
fn identify_device() -> [u8; 16] {
    /// PROTOCOL (bits 4 to 1) PIO data-in.
    const PIO_IN: u8 = 4 << 1;
    /// T_DIR from the device, BYT_BLOK in blocks, T_LENGTH in the COUNT field.
    const BLOCKS_IN_COUNT: u8 = 1 << 3 | 1 << 2 | 2;
    let mut command = [0; 16];
    (command[0], command[1], command[2]) = (ATA_PASS_THROUGH_16, PIO_IN, BLOCKS_IN_COUNT);
    (command[6], command[14]) = (1, IDENTIFY_DEVICE);
    command
}

/// SET FEATURES by ATA PASS-THROUGH (16).
fn set_features(subcommand: u8) -> [u8; 16] {
    /// PROTOCOL (bits 4 to 1) non-data.
    const NON_DATA: u8 = 3 << 1;
    let mut command = [0; 16];
    (command[0], command[1]) = (ATA_PASS_THROUGH_16, NON_DATA);
    (command[4], command[14]) = (subcommand, SET_FEATURES);
    command
}

/// MODE SENSE (10) of the current values of the Caching mode page, without block descriptors.
fn mode_sense(buffer_bytes: usize) -> [u8; 10] {
    /// Disable block descriptors.
    const DBD: u8 = 1 << 3;
    let mut command = [0; 10];
    (command[0], command[1], command[2]) = (MODE_SENSE_10, DBD, CACHING_PAGE);
    command[7..9].copy_from_slice(&(buffer_bytes as u16).to_be_bytes());
    command
}

/// MODE SELECT (10) of pages in the format of SPC-5, not to be saved.
fn mode_select(list_bytes: usize) -> [u8; 10] {
    /// Page format; SP, bit 0, is zero.
    const PF: u8 = 1 << 4;
    let mut command = [0; 10];
    (command[0], command[1]) = (MODE_SELECT_10, PF);
    command[7..9].copy_from_slice(&(list_bytes as u16).to_be_bytes());
    command
}

#[cfg(test)]
pub mod tests {
    use std::cell::RefCell;

    use super::*;
    use crate::fake_sysfs::Tree;

    /// A drive that keeps its settings, answers as the standards say, and keeps what it was sent.
    #[derive(Debug)]
    pub struct FakeDrive {
        pub write_cache: RefCell<bool>,
        pub look_ahead: RefCell<bool>,
        /// Takes a change of look-ahead and does not obey.
        pub is_stubborn: bool,
        /// Behind no translation layer.
        pub is_scsi: bool,
        /// Unit attention conditions to report first.
        pub attentions: RefCell<usize>,
        /// Bytes of block descriptors, sent although not asked for.
        pub descriptors: u8,
        pub sent: RefCell<Vec<(Vec<u8>, Vec<u8>)>>,
    }

    impl FakeDrive {
        pub fn new() -> Self {
            Self {
                write_cache: true.into(),
                look_ahead: true.into(),
                is_stubborn: false,
                is_scsi: false,
                attentions: 0.into(),
                descriptors: 0,
                sent: RefCell::default(),
            }
        }

        fn identity(&self) -> Vec<u8> {
            let mut words = [0_u16; 256];
            words[82] = 0x4000 | WRITE_CACHE_BIT | LOOK_AHEAD_BIT;
            (words[83], words[87]) = (0x4000, 0x4000);
            words[85] =
                u16::from(*self.write_cache.borrow()) << 5 | u16::from(*self.look_ahead.borrow()) << 6;
            let mut data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            data[510] = 0xa5;
            data[511] = data.iter().fold(0, |sum: u8, &byte| sum.wrapping_sub(byte));
            data
        }

        fn mode_data(&self) -> Vec<u8> {
            let mut data = vec![0; 8 + usize::from(self.descriptors)];
            (data[3], data[7]) = (0x10, self.descriptors);
            let mut page = [0; 20];
            (page[0], page[1], page[3]) = (0x80 | CACHING_PAGE, 18, 0x33);
            page[2] = u8::from(*self.write_cache.borrow()) << 2;
            page[12] = 0x80 | u8::from(!*self.look_ahead.borrow()) << 5;
            data.extend(page);
            let length = data.len() as u16 - 2;
            data[..2].copy_from_slice(&length.to_be_bytes());
            data
        }

        fn look_ahead_asked(&self, on: bool) {
            if !self.is_stubborn {
                self.look_ahead.replace(on);
            }
        }
    }

    impl Link for &FakeDrive {
        fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
            if *self.attentions.borrow() > 0 {
                *self.attentions.borrow_mut() -= 1;
                return Err(CommandFault::Sense(6, 0x2a, 0x01));
            }
            if self.is_scsi && command[0] == ATA_PASS_THROUGH_16 {
                return Err(CommandFault::Sense(5, 0x20, 0));
            }
            let given = if let Transfer::Out(bytes) = &data { bytes.to_vec() } else { vec![] };
            self.sent.borrow_mut().push((command.to_vec(), given.clone()));
            let reply = match (command[0], command.get(14)) {
                (ATA_PASS_THROUGH_16, Some(&IDENTIFY_DEVICE)) => self.identity(),
                (ATA_PASS_THROUGH_16, Some(&SET_FEATURES)) => {
                    self.look_ahead_asked(command[4] == ENABLE_LOOK_AHEAD);
                    vec![]
                }
                (MODE_SENSE_10, _) => self.mode_data(),
                (MODE_SELECT_10, _) => {
                    self.look_ahead_asked(given[8 + 12] & 0x20 == 0);
                    vec![]
                }
                _ => return Err(CommandFault::Sense(5, 0x20, 0)),
            };
            if let Transfer::In(buffer) = data {
                let got = reply.len().min(buffer.len());
                buffer[..got].copy_from_slice(&reply[..got]);
                return Ok(got);
            }
            Ok(0)
        }
    }

    fn caching(drive: &FakeDrive, dialect: Dialect) -> Caching<&FakeDrive> {
        Caching { link: drive, dialect }
    }

    #[test]
    fn both_settings_are_read_and_look_ahead_is_switched() {
        for dialect in [Dialect::Ata, Dialect::Scsi] {
            let mut drive = FakeDrive::new();
            drive.descriptors = 8;
            let both = |write_cache: bool, look_ahead: bool| InForce {
                write_cache: Some(write_cache),
                look_ahead: Some(look_ahead),
            };
            assert_eq!(caching(&drive, dialect).read().ok(), Some(both(true, true)), "{dialect:?}");
            assert!(caching(&drive, dialect).set_look_ahead(false).is_ok());
            drive.write_cache.replace(false);
            assert_eq!(caching(&drive, dialect).read().ok(), Some(both(false, false)), "{dialect:?}");
            assert!(caching(&drive, dialect).set_look_ahead(true).is_ok());
            assert_eq!(caching(&drive, dialect).read().ok(), Some(both(false, true)), "{dialect:?}");
        }
    }

    #[test]
    fn a_command_is_sent_again_after_a_unit_attention_but_not_for_ever() {
        for dialect in [Dialect::Ata, Dialect::Scsi] {
            let drive = FakeDrive::new();
            drive.attentions.replace(2);
            assert!(caching(&drive, dialect).set_look_ahead(false).is_ok());
            assert!(!*drive.look_ahead.borrow());
            drive.attentions.replace(usize::MAX);
            assert!(caching(&drive, dialect).read().is_err());
        }
    }

    /// The bytes of SAT-4, ATA PASS-THROUGH (16), for the two ATA commands.
    #[test]
    fn ata_commands_are_laid_out_as_the_standard_says() {
        let drive = FakeDrive::new();
        let ata = caching(&drive, Dialect::Ata);
        assert!(ata.read().is_ok() && ata.set_look_ahead(false).is_ok() && ata.set_look_ahead(true).is_ok());
        let sent: Vec<Vec<u8>> = drive.sent.borrow().iter().map(|(command, _)| command.clone()).collect();
        assert_eq!(
            sent,
            [
                [0x85, 0x08, 0x0e, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0xec, 0],
                [0x85, 0x06, 0x00, 0, 0x55, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xef, 0],
                [0x85, 0x06, 0x00, 0, 0xaa, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xef, 0],
            ]
        );
    }

    /// The bytes of SPC-5, MODE SENSE (10) and MODE SELECT (10); the page goes back as it came but for DRA and PS.
    #[test]
    fn scsi_commands_are_laid_out_as_the_standard_says() {
        let drive = FakeDrive::new();
        assert!(caching(&drive, Dialect::Scsi).set_look_ahead(false).is_ok());
        let mut list = vec![0; 8];
        list.extend([0x08, 18, 0x04, 0x33, 0, 0, 0, 0, 0, 0, 0, 0, 0xa0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(
            *drive.sent.borrow(),
            [
                (vec![0x5a, 0x08, 0x08, 0, 0, 0, 0, 0, 64, 0], vec![]),
                (vec![0x55, 0x10, 0, 0, 0, 0, 0, 0, 28, 0], list),
            ]
        );
    }

    #[test]
    fn what_a_disk_does_not_have_or_does_not_say_is_unknown() {
        let drive = FakeDrive::new();
        let mut data: [u8; IDENTITY_BYTES] = drive.identity().try_into().expect("512 bytes");
        let all = InForce { write_cache: Some(true), look_ahead: Some(true) };
        assert_eq!(identified(&data), all);
        data[2 * 82] &= !(LOOK_AHEAD_BIT as u8);
        assert_eq!(identified(&data), InForce { look_ahead: None, ..all });
        data[2 * 87 + 1] = 0xc0;
        assert_eq!(identified(&data), InForce::default());
        assert!(!is_sound(&data), "its checksum is that of what it was");
    }

    #[test]
    fn an_answer_that_is_none_is_an_error() {
        #[derive(Debug)]
        struct Odd(Vec<u8>);
        impl Link for Odd {
            fn send(&self, _: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
                if let Transfer::In(buffer) = data {
                    buffer[..self.0.len()].copy_from_slice(&self.0);
                }
                Ok(self.0.len())
            }
        }
        let mut other_page = FakeDrive::new().mode_data();
        other_page[8] = 0x0a;
        let mut far = FakeDrive::new().mode_data();
        far[6] = 0xff;
        for reply in [vec![], vec![0; 7], vec![0; 12], other_page, far] {
            for dialect in [Dialect::Ata, Dialect::Scsi] {
                let caching = Caching { link: Odd(reply.clone()), dialect };
                assert!(caching.read().is_err(), "{dialect:?} {reply:02x?}");
            }
        }
    }

    #[test]
    fn a_disk_is_asked_in_its_own_tongue_or_not_at_all() {
        let tree = Tree::new("dialect");
        let node = tree.disk("sdq", (8, 256));
        assert_eq!(Dialect::of(&node), None, "no disk of the SCSI layer");
        tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", "write back");
        assert_eq!(Dialect::of(&node), Some(Dialect::Scsi));
        tree.file("sys/devices/sdq/device/vendor", "ATA     \n");
        assert_eq!(Dialect::of(&node), Some(Dialect::Ata));
        let mut drive = FakeDrive::new();
        let dialect = |drive: &FakeDrive| Caching::of(&node, drive).map(|caching| caching.dialect);
        assert_eq!(dialect(&drive), Some(Dialect::Ata));
        drive.is_scsi = true;
        assert_eq!(dialect(&drive), Some(Dialect::Scsi), "whatever it declares");
        let usb = "pci0000:00/usb2/2-1/host6/block/sdr";
        tree.file(&format!("sys/devices/{usb}/dev"), "8:272");
        tree.file(&format!("sys/devices/{usb}/device/scsi_disk/6:0:0:0/cache_type"), "write back");
        tree.link("sys/dev/block/8:272", &format!("../../devices/{usb}"));
        let node = tree.sysfs().node((8, 272)).expect("the link was just made");
        assert_eq!(Dialect::of(&node), None);
        tree.file(&format!("sys/devices/{usb}/device/vpd_pg89"), "a page");
        assert_eq!(Dialect::of(&node), Some(Dialect::Ata));
    }
}
