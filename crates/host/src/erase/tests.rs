//! The erases against drives that keep the states of the standards: frozen, locked, in progress, failed half way,
//! switched off in between.

use std::cell::{Cell, RefCell};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use super::ata::PASSWORD;
use super::flow::MOST_UNCLEAR_LOOKS;
use super::*;
use crate::caching::ATA_PASS_THROUGH_16;
use crate::fake_sysfs::Tree;
use crate::sg_io::{CommandFault, Exchange, Link, Reply, TIMEOUT, Transfer};

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trouble {
    None,
    /// The sanitize or format fails half way.
    HalfWay,
    /// The drive fails this command, by its code.
    Fails(u8),
    /// The run ends, and the power with it, after this command.
    PowerCut(u8),
    /// The password stays whatever the drive answers.
    KeepsPassword,
}

/// A drive with the SECURITY and SANITIZE feature sets, or with SANITIZE and FORMAT UNIT of SCSI.
///
/// More than 15 fields: what the standards let a drive remember between commands, each on its own.
#[derive(Debug)]
struct FakeDrive {
    word_59: u16,
    frozen: Cell<bool>,
    password: RefCell<Option<Vec<u8>>>,
    locked: Cell<bool>,
    prepared: Cell<bool>,
    erased: Cell<bool>,
    /// Polls until the sanitize or format is complete; `None` where none goes on.
    left: Cell<Option<u32>>,
    failed: Cell<bool>,
    done: Cell<bool>,
    gone: Cell<bool>,
    trouble: Trouble,
    attentions: Cell<usize>,
    /// What the next looks at a sanitize or format are answered, whatever the drive does.
    odd_looks: RefCell<Vec<Result<Reply, CommandFault>>>,
    /// The answer to READ CAPACITY (16): its bytes and PROT_EN, or a sense key and code.
    capacity: Result<(usize, bool), (u8, u8)>,
    sent: RefCell<Vec<u8>>,
    waited: Cell<Duration>,
}

const POLLS: u32 = 4;

impl FakeDrive {
    fn new(trouble: Trouble) -> Self {
        Self {
            word_59: 0xf000,
            frozen: Cell::default(),
            password: RefCell::default(),
            locked: Cell::default(),
            prepared: Cell::default(),
            erased: Cell::default(),
            left: Cell::default(),
            failed: Cell::default(),
            done: Cell::default(),
            gone: Cell::default(),
            trouble,
            attentions: Cell::default(),
            odd_looks: RefCell::default(),
            capacity: Ok((32, false)),
            sent: RefCell::default(),
            waited: Cell::default(),
        }
    }

    /// Power off and on: a password locks it, a freeze ends, a sanitize goes on.
    fn power_on(&mut self) {
        self.gone.set(false);
        self.trouble = Trouble::None;
        self.locked.set(self.password.borrow().is_some());
        self.frozen.set(false);
    }

    fn identity(&self) -> Vec<u8> {
        let mut words = [0_u16; 256];
        (words[59], words[89]) = (self.word_59, 60);
        let flags = [self.password.borrow().is_some(), self.locked.get(), self.frozen.get()];
        words[128] = flags.iter().zip([2, 4, 8]).fold(1, |word, (&on, bit)| word | if on { bit } else { 0 });
        let mut data: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        data[510] = 0xa5;
        data[511] = data.iter().fold(0, |sum: u8, &byte| sum.wrapping_sub(byte));
        data
    }

    fn poll(&self) {
        let Some(left) = self.left.get() else { return };
        let fails = self.trouble == Trouble::HalfWay && left == POLLS / 2;
        self.failed.set(fails);
        self.done.set(!fails && left == 1);
        self.left.set((!fails && left > 1).then(|| left - 1));
    }

    /// COUNT and LBA of the answer, or the reason of an error.
    fn sanitize(&self, feature: u8, count: u8, lba: u64) -> Result<(u16, u64), u64> {
        let keys = [(0x11, 0x4372_7970), (0x12, 0x426b_4572), (0x14, 0x4f57_0000_0000)];
        if feature == 0 {
            self.poll();
            if self.failed.get() {
                if count & 1 == 0 {
                    return Err(1);
                }
                self.failed.set(false);
            }
        } else if self.frozen.get() {
            return Err(3);
        } else if keys.contains(&(feature, lba)) && count & 0x10 != 0 {
            self.left.set(Some(POLLS));
            self.done.set(false);
        } else {
            return Err(2);
        }
        let flags = [self.done.get(), self.left.get().is_some(), self.frozen.get()];
        let count = flags
            .iter()
            .zip([1 << 15, 1 << 14, 1 << 13])
            .fold(0, |c, (&on, bit)| c | if on { bit } else { 0 });
        Ok((
            count,
            self.left.get().map_or(0xffff, |left| u64::from(POLLS - left) * 0x10000 / u64::from(POLLS)),
        ))
    }

    /// Whether a SECURITY command is obeyed.
    fn security(&self, code: u8, given: &[u8]) -> bool {
        let given = given.get(2..34).unwrap_or_default();
        let is_it = self.password.borrow().as_deref() == Some(given);
        let prepared = self.prepared.replace(code == 0xf3);
        if self.frozen.get() || (self.locked.get() && code != 0xf2 && code != 0xf4 && code != 0xf3) {
            return false;
        }
        let forget = || {
            if self.trouble != Trouble::KeepsPassword {
                self.password.replace(None);
                self.locked.set(false);
            }
            true
        };
        match code {
            0xf1 => self.password.replace(Some(given.to_vec())).is_none(),
            0xf2 if is_it => {
                self.locked.set(false);
                true
            }
            0xf3 => true,
            // The power goes in the middle of it: nothing is erased as a whole, and the password stays.
            0xf4 if is_it && prepared && self.trouble == Trouble::PowerCut(0xf4) => true,
            0xf4 if is_it && prepared => {
                self.erased.set(true);
                forget()
            }
            0xf6 if is_it => forget(),
            _ => false,
        }
    }

    fn ata(&self, command: &[u8], data: Transfer<'_>) -> Reply {
        let good = Reply::default();
        let aborted = Reply { status: 2, sense: descriptor(0x51, 0, 0), ..Reply::default() };
        match (command[14], data) {
            (0xec, Transfer::In(buffer)) => {
                buffer.copy_from_slice(&self.identity());
                Reply { transferred: buffer.len(), ..good }
            }
            (0xb4, _) => {
                let lba =
                    [8, 10, 12, 7, 9, 11].iter().rev().fold(0, |lba, &at| lba << 8 | u64::from(command[at]));
                let sense = match self.sanitize(command[4], command[6], lba) {
                    Ok((count, lba)) => descriptor(0x50, count, lba),
                    Err(reason) => descriptor(0x51, 0, reason),
                };
                Reply { status: 2, sense, ..good }
            }
            (code @ 0xf1..=0xf6, data) => {
                let given = if let Transfer::Out(bytes) = data { bytes.to_vec() } else { vec![] };
                let is_obeyed = self.trouble != Trouble::Fails(code) && self.security(code, &given);
                if is_obeyed { good } else { aborted }
            }
            _ => aborted,
        }
    }

    fn scsi(&self, command: &[u8], data: Transfer<'_>) -> Reply {
        let failing = |key, code, qualifier| Reply {
            status: 2,
            sense: fixed(key, code, qualifier, None),
            ..Reply::default()
        };
        let kind = if self.sent.borrow().contains(&0x04) { 0x04 } else { 0x1b };
        let share = self.left.get().map(|left| ((POLLS - left) * 0x10000 / POLLS) as u16);
        match (command[0], data) {
            (0xa3, Transfer::In(buffer)) => {
                let is_there = command[3] == 0x04 || self.word_59 >> (16 - u16::from(command[5])) & 1 == 1;
                buffer[1] = if is_there { 3 } else { 1 };
                Reply { transferred: buffer.len(), ..Reply::default() }
            }
            (0x9e, Transfer::In(buffer)) => {
                let (transferred, is_protected) = match self.capacity {
                    Ok(answer) => answer,
                    Err((key, code)) => return failing(key, code, 0),
                };
                buffer[12] = u8::from(is_protected);
                Reply { transferred, ..Reply::default() }
            }
            (0x48, _) if command[1] == 0x1f => {
                self.failed.set(false);
                Reply::default()
            }
            (0x04, Transfer::Out(&[0, 2, 0, 0])) | (0x48, Transfer::Out(_)) => {
                self.left.set(Some(POLLS));
                Reply::default()
            }
            (0x03, Transfer::In(buffer)) => {
                self.poll();
                let sense = match (self.failed.get(), share) {
                    (true, _) => fixed(3, 0x31, if kind == 4 { 1 } else { 3 }, None),
                    (_, Some(share)) => fixed(2, 4, kind, Some(share)),
                    _ => fixed(0, 0, 0, None),
                };
                buffer[..sense.len()].copy_from_slice(&sense);
                Reply { transferred: sense.len(), ..Reply::default() }
            }
            (0x00, _) if self.failed.get() => failing(3, 0x31, 3),
            (0x00, _) if share.is_some() => failing(2, 4, kind),
            (0x00, _) => Reply::default(),
            _ => failing(5, 0x20, 0),
        }
    }
}

/// Sense data with the ATA registers.
fn descriptor(status: u8, count: u16, lba: u64) -> Vec<u8> {
    let (count, lba) = (count.to_be_bytes(), lba.to_le_bytes());
    let mut sense = vec![0x72, 1, 0, 0x1d, 0, 0, 0, 14, 0x09, 12, 1, 4, count[0], count[1]];
    sense.extend([lba[3], lba[0], lba[4], lba[1], lba[5], lba[2], 0x40, status]);
    if status & 1 != 0 {
        (sense[1], sense[2], sense[3]) = (0x0b, 0, 0);
    }
    sense
}

fn fixed(key: u8, code: u8, qualifier: u8, share: Option<u16>) -> Vec<u8> {
    let mut sense = vec![0; 18];
    (sense[0], sense[2], sense[7], sense[12], sense[13]) = (0x70, key, 10, code, qualifier);
    if let Some(share) = share {
        sense[15] = 0x80;
        sense[16..18].copy_from_slice(&share.to_be_bytes());
    }
    sense
}

impl Link for &FakeDrive {
    fn send(&self, command: &[u8], data: Transfer<'_>) -> Result<usize, CommandFault> {
        let reply = self.exchange(command, data, TIMEOUT)?;
        reply.fault().map_or(Ok(reply.transferred), Err)
    }
}

impl Exchange for &FakeDrive {
    fn exchange(&self, command: &[u8], data: Transfer<'_>, timeout: Duration) -> Result<Reply, CommandFault> {
        if self.gone.get() {
            return Err(CommandFault::Errno(libc::ENODEV));
        }
        if self.attentions.get() > 0 {
            self.attentions.set(self.attentions.get() - 1);
            return Ok(Reply { status: 2, sense: fixed(6, 0x29, 0, None), ..Reply::default() });
        }
        let is_ata = command[0] == ATA_PASS_THROUGH_16;
        let code = if is_ata { command[14] } else { command[0] };
        self.sent.borrow_mut().push(code);
        self.waited.set(self.waited.get().max(timeout));
        let is_look = code == 0x03 || (code == 0xb4 && command[4] == 0);
        if let Some(odd) = is_look.then(|| self.odd_looks.borrow_mut().pop()).flatten() {
            return odd;
        }
        let reply = if is_ata { self.ata(command, data) } else { self.scsi(command, data) };
        self.gone.set(self.trouble == Trouble::PowerCut(code));
        Ok(reply)
    }
}

fn eraser(drive: &FakeDrive, dialect: Dialect) -> Eraser<&FakeDrive> {
    Eraser { caching: Caching { link: drive, dialect } }
}

fn note_in(tree: &Tree) -> PathBuf {
    tree.path("drive.erase")
}

fn note(path: &Path) -> Note<'_> {
    Note { path, drive: "MODEL-1", device: "/dev/sdq" }
}

/// All that a sanitize or format says until it ends.
fn followed(eraser: &Eraser<&FakeDrive>, which: Command) -> (Vec<f64>, Result<(), Fault>) {
    let mut shares = vec![];
    if let Err(fault) = eraser.begin(which) {
        return (shares, Err(fault));
    }
    let mut unclear_looks = 0;
    loop {
        match eraser.progress(&mut unclear_looks) {
            Ok(Progress::Running(share)) => shares.push(share.unwrap_or(-1.0)),
            Ok(Progress::Done) => return (shares, Ok(())),
            Err(fault) => return (shares, Err(fault)),
        }
        assert!(shares.len() < 100, "it ends");
    }
}

fn words(fault: Fault) -> String {
    fault.of("/dev/sdq").to_string()
}

#[test]
fn a_sanitize_takes_the_method_that_says_most_and_is_followed_to_its_end() {
    for (dialect, word, command) in [
        (Dialect::Ata, 0xf000, "SANITIZE DEVICE, BLOCK ERASE EXT"),
        (Dialect::Ata, 0x7000, "SANITIZE DEVICE, OVERWRITE EXT"),
        (Dialect::Ata, 0x3000, "SANITIZE DEVICE, CRYPTO SCRAMBLE EXT"),
        // Of a SCSI disk the fake has service action n if bit 16 - n is set.
        (Dialect::Scsi, 0xe000, "SANITIZE, BLOCK ERASE"),
        (Dialect::Scsi, 0xa000, "SANITIZE, OVERWRITE"),
        (Dialect::Scsi, 0x2000, "SANITIZE, CRYPTOGRAPHIC ERASE"),
    ] {
        let mut drive = FakeDrive::new(Trouble::None);
        drive.word_59 = word;
        let eraser = eraser(&drive, dialect);
        let offer = eraser.offer(Erase::Sanitize).expect("it has the command");
        assert_eq!(offer.command, command);
        assert_eq!(offer.key_change, command.contains("CRYPTO"));
        assert_eq!(drive.left.get(), None, "nothing is begun by an offer");
        drive.attentions.set(if dialect == Dialect::Scsi { 2 } else { 0 });
        let (shares, end) = followed(&eraser, offer.which);
        assert_eq!(end, Ok(()), "{command}");
        assert!(shares.len() >= 3 && shares.is_sorted() && shares.iter().any(|&s| s > 0.4), "{shares:?}");
    }
}

#[test]
fn a_sanitize_that_fails_half_way_is_given_up_and_said() {
    for dialect in [Dialect::Ata, Dialect::Scsi] {
        let drive = FakeDrive::new(Trouble::HalfWay);
        let eraser = eraser(&drive, dialect);
        let offer = eraser.offer(Erase::Sanitize).expect("it has the command");
        let (shares, end) = followed(&eraser, offer.which);
        let line = words(end.expect_err("it failed"));
        assert!(!shares.is_empty() && line.contains("it takes reads and writes again"), "{line}");
        assert!(line.contains("smartctl") && !line.contains('\n'), "{line}");
        assert!(!drive.failed.get(), "the drive is no longer in that state");
    }
}

#[test]
fn a_format_is_followed_and_its_failure_said() {
    for (trouble, fails) in [(Trouble::None, false), (Trouble::HalfWay, true)] {
        let drive = FakeDrive::new(trouble);
        let eraser = eraser(&drive, Dialect::Scsi);
        let offer = eraser.offer(Erase::Format).expect("it has the command");
        assert_eq!((offer.command, offer.writes_all), ("FORMAT UNIT", true));
        let (_, end) = followed(&eraser, offer.which);
        assert_eq!(end.is_err(), fails, "{end:?}");
        if let Err(fault) = end {
            let line = words(fault);
            assert!(line.contains("31h/01h") && line.contains("sg_format --format"), "{line}");
        }
    }
}

#[test]
fn a_format_is_refused_unless_it_takes_no_protection_information_away() {
    for (capacity, why) in [
        (Ok((32, true)), Some("would take away")),
        (Ok((12, false)), Some("does not say whether")),
        (Err((2, 0x04)), Some("does not say whether")),
        (Err((5, 0x24)), Some("does not say whether")),
        (Err((5, 0x20)), None),
        (Ok((13, false)), None),
    ] {
        let drive = FakeDrive { capacity, ..FakeDrive::new(Trouble::None) };
        let refused = eraser(&drive, Dialect::Scsi).offer(Erase::Format).err().map(words);
        assert_eq!(refused.is_some(), why.is_some(), "{capacity:?}");
        assert!(refused.iter().all(|line| line.contains(why.unwrap_or_default())), "{refused:?}");
    }
}

/// Looks that say nothing of the erase: a host that resets, unit attentions, a drive that becomes ready, a bad cable.
#[test]
fn a_look_that_fails_is_no_failure_of_the_erase() {
    let sense = |key, code, qualifier| {
        Ok(Reply { status: 2, sense: fixed(key, code, qualifier, None), ..Reply::default() })
    };
    let crc = Ok(Reply { status: 2, sense: descriptor(0x51, 0, 0), ..Reply::default() });
    for (dialect, odd) in [
        (Dialect::Ata, Err(CommandFault::Errno(libc::EIO))),
        (Dialect::Ata, Ok(Reply { status: 0x300, ..Reply::default() })),
        (Dialect::Ata, crc),
        (Dialect::Scsi, Err(CommandFault::Errno(libc::EIO))),
        (Dialect::Scsi, Ok(Reply { status: 0x300, ..Reply::default() })),
        (Dialect::Scsi, sense(6, 0x29, 0)),
        (Dialect::Scsi, sense(2, 0x04, 0x01)),
        (Dialect::Scsi, sense(2, 0x04, 0x09)),
        (Dialect::Scsi, sense(0x0b, 0x47, 0)),
    ] {
        let run = |times: u32| {
            let drive = FakeDrive::new(Trouble::None);
            let eraser = eraser(&drive, dialect);
            let which = eraser.offer(Erase::Sanitize).expect("it has the command").which;
            eraser.begin(which).expect("it is begun");
            drive.odd_looks.replace(vec![odd.clone(); times as usize]);
            let mut unclear_looks = 0;
            loop {
                match eraser.progress(&mut unclear_looks) {
                    Ok(Progress::Running(_)) => {}
                    other => break other,
                }
            }
        };
        assert_eq!(run(1), Ok(Progress::Done), "{dialect:?} {odd:?}");
        assert_eq!(run(MOST_UNCLEAR_LOOKS), Ok(Progress::Done), "{dialect:?} {odd:?}");
        // Of unit attentions each look takes several before it gives up.
        let line = words(run(10 * MOST_UNCLEAR_LOOKS).expect_err("it cannot be followed"));
        assert!(line.contains("cannot be followed") && line.contains("goes on in the drive"), "{line}");
    }
}

#[test]
fn what_a_drive_cannot_do_is_refused_before_anything_is_sent_that_changes_it() {
    let reads = [0xec, 0xb4, 0xa3, 0x9e, 0x03, 0x00];
    let refused = |drive: FakeDrive, dialect, erase| {
        let line = words(eraser(&drive, dialect).offer(erase).expect_err("it cannot"));
        assert!(drive.sent.borrow().iter().all(|code| reads.contains(code)), "{:02x?}", drive.sent);
        assert!(line.starts_with("/dev/sdq: cannot be erased: ") && line.contains(';'), "{line}");
        line
    };
    let new = || FakeDrive::new(Trouble::None);
    assert!(refused(new(), Dialect::Ata, Erase::Format).contains("SCSI disks"));
    assert!(refused(new(), Dialect::Scsi, Erase::SecureErase).contains("ATA disks"));
    let without = || FakeDrive { word_59: 0, ..new() };
    assert!(refused(without(), Dialect::Ata, Erase::Sanitize).contains("does not have SANITIZE"));
    assert!(refused(without(), Dialect::Scsi, Erase::Sanitize).contains("does not declare SANITIZE"));
    let frozen = || {
        let drive = new();
        drive.frozen.set(true);
        drive
    };
    refused_frozen(&refused(frozen(), Dialect::Ata, Erase::SecureErase));
    let line = words(eraser(&frozen(), Dialect::Ata).offer(Erase::Sanitize).expect_err("frozen"));
    assert!(line.contains("frozen until it is switched off and on"), "{line}");
    let running = || {
        let drive = new();
        drive.left.set(Some(3));
        drive
    };
    for dialect in [Dialect::Ata, Dialect::Scsi] {
        assert!(refused(running(), dialect, Erase::Sanitize).contains("being erased already"));
    }
    let theirs = new();
    theirs.password.replace(Some(b"theirs".to_vec()));
    assert!(refused(theirs, Dialect::Ata, Erase::SecureErase).contains("a password already"));
}

fn refused_frozen(line: &str) {
    assert!(line.contains("frozen") && line.contains("suspend and wake"), "{line}");
}

fn erased_securely(drive: &FakeDrive, path: &Path) -> Result<(), Fault> {
    let eraser = eraser(drive, Dialect::Ata);
    let offer = eraser.offer(Erase::SecureErase)?;
    assert_eq!(offer.seconds, Some(7200));
    eraser.secure_erase(&note(path), offer.seconds)
}

#[test]
fn a_secure_erase_leaves_neither_password_nor_note() {
    let tree = Tree::new("erase");
    let (drive, path) = (FakeDrive::new(Trouble::None), note_in(&tree));
    assert_eq!(erased_securely(&drive, &path), Ok(()));
    assert!(drive.erased.get() && drive.password.borrow().is_none() && !path.exists());
    assert!(drive.waited.get() >= Duration::from_secs(86_400), "a timeout would leave it locked");
}

/// Whichever command fails: the drive is free at the end, or the note is there and the message names it.
#[test]
fn no_failure_leaves_a_password_that_is_not_noted() {
    for code in [0xf1, 0xf3, 0xf4] {
        let tree = Tree::new("erase-fails");
        let (drive, path) = (FakeDrive::new(Trouble::Fails(code)), note_in(&tree));
        let line = words(erased_securely(&drive, &path).expect_err("it failed"));
        assert!(line.contains("no password is left") && !line.contains('\n'), "{line}");
        assert!(drive.password.borrow().is_none() && !path.exists(), "{code:x}");
    }
    let tree = Tree::new("erase-keeps");
    let (drive, path) = (FakeDrive::new(Trouble::KeepsPassword), note_in(&tree));
    let line = words(erased_securely(&drive, &path).expect_err("the password stays"));
    assert!(path.exists() && line.contains(PASSWORD) && line.contains("hdparm"), "{line}");
    assert!(line.contains(&path.display().to_string()));
}

#[test]
fn after_a_power_cut_at_any_command_the_next_run_frees_the_drive() {
    for code in [0xf1, 0xf3, 0xf4] {
        let tree = Tree::new("erase-cut");
        let (mut drive, path) = (FakeDrive::new(Trouble::PowerCut(code)), note_in(&tree));
        assert!(erased_securely(&drive, &path).is_err());
        let text = fs::read_to_string(&path).expect("the note outlives the power cut");
        assert!(
            text.contains("drive = MODEL-1\npassword = skylight\n") && text.contains("/dev/sdq"),
            "{text}"
        );
        assert!(!drive.erased.get());
        drive.power_on();
        assert!(drive.locked.get(), "{code:x}: it is locked, and the note alone has its password");
        let other = Note { drive: "OTHER", ..note(&path) };
        assert!(other.is_there().is_err(), "the note is of this drive alone");
        assert_eq!(note(&path).is_there(), Ok(true));
        assert_eq!(eraser(&drive, Dialect::Ata).release(&note(&path)), Ok(()), "{code:x}");
        assert!(drive.password.borrow().is_none() && !drive.locked.get() && !path.exists(), "{code:x}");
    }
}

#[test]
fn a_password_cannot_be_set_without_its_note() {
    let tree = Tree::new("erase-no-note");
    tree.file("folder", "a file where the folder should be");
    let drive = FakeDrive::new(Trouble::None);
    assert!(erased_securely(&drive, &tree.path("folder/drive.erase")).is_err());
    assert!(!drive.sent.borrow().contains(&0xf1));
}

/// A SATA disk of a tree, over a file that takes no SG_IO; with a serial number, or without.
fn sata_disk(tree: &Tree, serial: bool) -> Device {
    let node = tree.disk("sdq", (8, 256));
    tree.file("sys/devices/sdq/device/scsi_disk/2:0:0:0/cache_type", "write back");
    tree.file("sys/devices/sdq/device/vendor", "ATA");
    tree.file("proc/sys/kernel/random/boot_id", "b007");
    if serial {
        tree.file("sys/devices/sdq/device/vpd_pg80", "\0\u{80}\0\u{4}1234");
    }
    let medium = tree.file("medium", "");
    Device::fake(File::open(medium).expect("it was just made"), node, &tree.sysfs())
}

#[test]
fn no_password_is_set_on_a_drive_whose_note_would_not_be_found_after_a_power_cut() {
    let (tree, named) = (Tree::new("erase-no-serial"), Tree::new("erase-serial"));
    let (mut device, file) = (sata_disk(&tree, false), note_in(&tree));
    assert!(device.identity().key.is_some(), "it has a key, until the next boot");
    for line in [
        device.erase_offer(Erase::SecureErase).expect_err("no name").to_string(),
        device.erase(Erase::SecureErase, &file).expect_err("no name").to_string(),
    ] {
        assert!(line.contains("declares no serial number"), "{line}");
    }
    assert!(!file.exists());
    let line = sata_disk(&named, true).erase_offer(Erase::SecureErase).expect_err("a file").to_string();
    assert!(!line.contains("serial"), "the control: {line}");
}

#[test]
fn an_erase_is_followed_as_it_was_begun_though_the_drive_does_not_identify_itself() {
    let tree = Tree::new("erase-dialect");
    let mut device = sata_disk(&tree, true);
    device.followed = Some(Followed { dialect: Dialect::Ata, unclear_looks: 0 });
    assert!(matches!(device.erase_progress(Erase::Sanitize), Ok(Progress::Running(None))));
    assert_eq!(device.followed, Some(Followed { dialect: Dialect::Ata, unclear_looks: 1 }));
}
