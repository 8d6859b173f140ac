//! All disks of a machine: what each declares, and what a probe may do to it.
//!
//! Invariants: nothing is written and no device is opened exclusively; only a disk that nobody uses is searched
//! for signatures. The checks of what is on a disk and who uses it are those of
//! [`Device::open`](crate::Device::open), in the order of what they say about a disk, so that a disk which may
//! be written here is refused there only for what happened since, for a user that the kernel alone knows
//! (another mount namespace, an exclusive opener), or for want of what is not looked at here (permission to
//! write, io_uring, memory). Disks without capacity (an empty card reader, an unattached loop device) and optical
//! drives are left out. A reason is a fact without advice: what to do about it is the reader's.
//!
//! Source: Linux `Documentation/ABI/stable/sysfs-block`.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::bus::bus_of;
use crate::device::{MIN_SIZE_BYTES, is_protected, is_root};
use crate::error::{HostError, RefusalReason, system_words};
use crate::identity::Identity;
use crate::signatures;
use crate::sysfs::{Node, Sysfs};
use crate::usage;

/// The unit of `size` in sysfs, bytes.
const SECTOR_BYTES: u64 = 512;
/// The smallest logical block, for disks that do not report one, bytes.
const LEAST_BLOCK_BYTES: u32 = 512;

/// What a probe may do to a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Probe {
    /// The whole probe, which destroys its data.
    Writes,
    /// Reads only.
    Reads,
    /// Nothing.
    No,
}

/// A disk of the machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Surveyed {
    /// What it is and declares.
    #[serde(flatten)]
    pub identity: Identity,
    /// What it is connected by: `ata`, `sas`, `scsi`, `usb`, `nvme`, `virtio` ..., `loop`, `dm`, `md`.
    pub bus: Option<&'static str>,
    /// What a probe may do to it.
    pub probe: Probe,
    /// Why no more than that.
    pub why: Option<String>,
}

/// All disks with a capacity but optical ones, in the order of their names.
///
/// # Errors
/// When sysfs cannot be read.
pub fn survey(sysfs: &Sysfs) -> Result<Vec<Surveyed>, HostError> {
    let disks = sysfs.disks().map_err(|unreadable| {
        RefusalReason::Io { doing: "listing the disks", source: unreadable.source }
            .of(&unreadable.what.display().to_string())
    })?;
    Ok(disks.iter().filter_map(|disk| surveyed(disk, sysfs, &examined)).collect())
}

fn surveyed(disk: &Node, sysfs: &Sysfs, examine: &Examine<'_>) -> Option<Surveyed> {
    let size_bytes = disk.text("size")?.parse::<u64>().ok()?.saturating_mul(SECTOR_BYTES);
    if size_bytes == 0 || is_optical(&disk.name()) {
        return None;
    }
    let block = disk.text("queue/logical_block_size").and_then(|text| text.parse().ok());
    let path = PathBuf::from("/dev").join(disk.name());
    let name = path.display().to_string();
    let block_bytes = block.unwrap_or(LEAST_BLOCK_BYTES);
    let mut identity = Identity::of_block_device(&name, Some(disk), sysfs, size_bytes, block_bytes);
    let (probe, why) = verdict(&path, disk, sysfs, &mut identity, examine);
    Some(Surveyed { identity, bus: bus_of(disk), probe, why })
}

/// Whether a disk is a drive for optical media, by its name (Linux `drivers/scsi/sr.c`): none has magnetic tracks,
/// and to look for signatures would close its tray (`CDO_AUTO_CLOSE` in `drivers/cdrom/cdrom.c`).
fn is_optical(name: &str) -> bool {
    name.strip_prefix("sr").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// Opens a disk for reading; what that gives describes a foreign signature on it.
type Examine<'a> = dyn Fn(&Path) -> io::Result<Box<Search>> + 'a;
type Search = dyn FnOnce() -> io::Result<Option<String>>;

fn examined(path: &Path) -> io::Result<Box<Search>> {
    // The open waits for no medium, and an empty drive is no error of it (open(2), O_NONBLOCK).
    let file = OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path)?;
    Ok(Box::new(move || signatures::find(&file)))
}

fn verdict(
    path: &Path,
    disk: &Node,
    sysfs: &Sysfs,
    identity: &mut Identity,
    examine: &Examine<'_>,
) -> (Probe, Option<String>) {
    let used = usage::of_block_device(&identity.path, disk, sysfs);
    if let Ok(Some(refusal)) = &used {
        identity.note_use(refusal);
    }
    if identity.size_bytes < MIN_SIZE_BYTES {
        return (Probe::No, Some(format!("smaller than {} MiB", MIN_SIZE_BYTES >> 20)));
    }
    let search = match examine(path) {
        Ok(search) => search,
        Err(error) => return (Probe::No, Some(unopened(&error))),
    };
    let reads = |why: String| (Probe::Reads, Some(why));
    match used {
        Err(unreadable) => {
            return reads(format!("who uses it is unknown: {} cannot be read", unreadable.what.display()));
        }
        Ok(Some(refusal)) => {
            let words = identity.also_used.clone();
            return reads(words.unwrap_or_else(|| refusal.reason.to_string()));
        }
        Ok(None) => {}
    }
    if is_protected(disk) {
        return reads("write-protected".into());
    }
    match search() {
        Ok(None) => (Probe::Writes, None),
        Ok(Some(what)) => reads(format!("holds {what}")),
        Err(error) => reads(format!("its content cannot be examined: {}", system_words(&error))),
    }
}

/// Why a disk cannot be opened for reading.
fn unopened(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if !is_root() => "no permission to read it (run as root)".into(),
        Some(libc::EACCES | libc::EPERM) => "no permission to read it, even as root".into(),
        Some(libc::ENOENT) => "it has no file below /dev".into(),
        Some(libc::ENOMEDIUM) => "no medium in it".into(),
        _ => format!("it cannot be opened: {}", system_words(error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_sysfs::Tree;

    fn disk(tree: &Tree, sectors: u64) -> Node {
        let node = tree.disk("sdq", (8, 256));
        tree.file("sys/devices/sdq/size", &format!("{sectors}\n"));
        tree.file("sys/devices/sdq/queue/logical_block_size", "4096\n");
        node
    }

    fn judged(tree: &Tree, node: &Node, examine: &Examine<'_>) -> Option<(Probe, String)> {
        let found = surveyed(node, &tree.sysfs(), examine)?;
        Some((found.probe, found.why.unwrap_or_default()))
    }

    const FREE: &Examine<'static> = &|_| Ok(Box::new(|| Ok(None)));

    #[test]
    fn a_free_disk_may_be_written() {
        let tree = Tree::new("survey-free");
        let node = disk(&tree, 1 << 30);
        assert_eq!(judged(&tree, &node, FREE), Some((Probe::Writes, String::new())));
        let found = surveyed(&node, &tree.sysfs(), FREE).map(|found| found.identity);
        let facts = found.map(|identity| (identity.path, identity.size_bytes, identity.block_bytes));
        assert_eq!(facts, Some(("/dev/sdq".into(), 1 << 39, 4096)));
    }

    #[test]
    fn a_disk_without_capacity_is_left_out() {
        let tree = Tree::new("survey-empty");
        let node = disk(&tree, 0);
        assert_eq!(judged(&tree, &node, FREE), None);
    }

    #[test]
    fn what_forbids_a_probe_or_its_writes_is_said_without_advice() {
        let tree = Tree::new("survey-why");
        let node = disk(&tree, 1 << 30);
        let reads = |why: &str| Some((Probe::Reads, why.to_owned()));
        let signed: &Examine<'_> = &|_| Ok(Box::new(|| Ok(Some("a file system (ext4)".into()))));
        assert_eq!(judged(&tree, &node, signed), reads("holds a file system (ext4)"));
        let blind: &Examine<'_> = &|_| Ok(Box::new(|| Err(io::Error::other("no tool"))));
        assert_eq!(judged(&tree, &node, blind), reads("its content cannot be examined: no tool"));
        tree.file("sys/devices/sdq/ro", "1\n");
        assert_eq!(judged(&tree, &node, FREE), reads("write-protected"));
        tree.partition("sdq", 1, (8, 257));
        tree.file("proc/self/mountinfo", "9 1 8:257 / / rw - ext4 /dev/root rw\n");
        assert_eq!(judged(&tree, &node, FREE), reads("sdq1 is mounted at /"));
        let shut: &Examine<'_> = &|_| Err(io::Error::from_raw_os_error(libc::ENOMEDIUM));
        assert_eq!(judged(&tree, &node, shut), Some((Probe::No, "no medium in it".into())));
        tree.file("sys/devices/sdq/size", "2048");
        assert_eq!(judged(&tree, &node, FREE), Some((Probe::No, "smaller than 64 MiB".into())));
    }

    #[test]
    fn a_disk_in_use_is_not_searched_and_an_optical_one_is_not_opened() {
        let tree = Tree::new("survey-quiet");
        let node = disk(&tree, 1 << 30);
        tree.file("proc/self/mountinfo", "9 1 8:256 / /mnt rw - ext4 /dev/root rw\n");
        let searched: &Examine<'_> = &|_| Ok(Box::new(|| panic!("a disk in use was searched")));
        assert_eq!(judged(&tree, &node, searched), Some((Probe::Reads, "sdq is mounted at /mnt".into())));
        tree.file("proc/self/mountinfo", "");
        tree.file("sys/devices/sdq/ro", "1\n");
        assert_eq!(judged(&tree, &node, searched), Some((Probe::Reads, "write-protected".into())));
        let optical = tree.disk("sr0", (11, 0));
        tree.file("sys/devices/sr0/size", "8388608\n");
        let opened: &Examine<'_> = &|_| panic!("an optical drive was opened");
        assert_eq!(judged(&tree, &optical, opened), None);
    }

    #[test]
    fn users_that_cannot_be_read_allow_no_writes() {
        let tree = Tree::new("survey-blind");
        let node = disk(&tree, 1 << 30);
        let _ = std::fs::remove_file(tree.path("proc/swaps"));
        let answer = judged(&tree, &node, FREE);
        assert!(
            answer.as_ref().is_some_and(|(probe, why)| *probe == Probe::Reads && why.contains("proc/swaps")),
            "{answer:?}"
        );
    }
}
