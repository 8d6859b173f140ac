//! The kernel's own description of block devices, read from sysfs and procfs.
//!
//! Invariants: both roots can be injected, so that everything that rests on them is tested with a
//! tree of plain files; an attribute that is missing or unreadable is `None`, never a guess.
//!
//! Source: Linux `Documentation/ABI/stable/sysfs-block`, `proc_pid_mountinfo(5)`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A device number, as sysfs writes it: major and minor.
pub type DevNumber = (u32, u32);

/// Splits a raw device number.
pub fn dev_number(raw: u64) -> DevNumber {
    (rustix::fs::major(raw), rustix::fs::minor(raw))
}

/// Where sysfs and procfs are.
#[derive(Clone, Debug)]
pub struct Sysfs {
    sys: PathBuf,
    proc: PathBuf,
}

impl Default for Sysfs {
    fn default() -> Self {
        Self::at(Path::new("/"))
    }
}

impl Sysfs {
    /// `sys` and `proc` below `root`.
    pub fn at(root: &Path) -> Self {
        Self { sys: root.join("sys"), proc: root.join("proc") }
    }

    /// The node of a block device, if sysfs has one.
    pub fn node(&self, number: DevNumber) -> Option<Node> {
        let link = self.sys.join(format!("dev/block/{}:{}", number.0, number.1));
        let dir = fs::canonicalize(link).ok()?;
        Some(Node { dir })
    }

    /// Every whole disk that sysfs lists, in name order.
    pub fn disks(&self) -> Vec<Node> {
        children(&self.sys.join("block"))
            .into_iter()
            .filter_map(|path| fs::canonicalize(path).ok())
            .map(|dir| Node { dir })
            .collect()
    }

    /// What is mounted in this process's view.
    pub fn mounts(&self) -> Vec<Mount> {
        let text = fs::read_to_string(self.proc.join("self/mountinfo")).unwrap_or_default();
        text.lines().filter_map(Mount::parse).collect()
    }

    /// Paths of the active swap devices and files.
    pub fn swaps(&self) -> Vec<PathBuf> {
        let text = fs::read_to_string(self.proc.join("swaps")).unwrap_or_default();
        text.lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .map(|field| PathBuf::from(unescape(field)))
            .collect()
    }
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device number of its files; for some file systems not that of the device below.
    pub number: DevNumber,
    /// Where it is mounted.
    pub point: String,
    /// The file system's type.
    pub file_system: String,
    /// What is mounted: for a block device its path.
    pub source: String,
}

impl Mount {
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let mut before = before.split(' ').skip(2);
        let number = parse_number(before.next()?)?;
        let point = unescape(before.nth(1)?);
        let mut after = after.split(' ');
        Some(Self { number, point, file_system: unescape(after.next()?), source: unescape(after.next()?) })
    }
}

/// The directory of one disk or partition in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    dir: PathBuf,
}

impl Node {
    /// The kernel's name of the device, such as `sda1`.
    pub fn name(&self) -> String {
        self.dir.file_name().map(|name| name.to_string_lossy().replace('!', "/")).unwrap_or_default()
    }

    /// The directory itself.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The device number.
    pub fn number(&self) -> Option<DevNumber> {
        parse_number(&self.text("dev")?)
    }

    /// An attribute, trimmed; `None` when it is missing, unreadable or empty.
    pub fn text(&self, attribute: &str) -> Option<String> {
        let bytes = fs::read(self.dir.join(attribute)).ok()?;
        let text = String::from_utf8_lossy(&bytes);
        let text = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!text.is_empty()).then(|| text.to_owned())
    }

    /// An attribute of 0 or 1.
    pub fn flag(&self, attribute: &str) -> Option<bool> {
        match self.text(attribute)?.as_str() {
            "0" => Some(false),
            "1" => Some(true),
            _ => None,
        }
    }

    /// The whole disk: this node, or the one that this partition lies on.
    pub fn disk(&self) -> Self {
        let is_partition = self.dir.join("partition").exists();
        match self.dir.parent() {
            Some(parent) if is_partition => Self { dir: parent.to_owned() },
            _ => self.clone(),
        }
    }

    /// The partitions that the kernel knows on this disk, in name order.
    pub fn partitions(&self) -> Vec<Self> {
        children(&self.dir)
            .into_iter()
            .filter(|dir| dir.join("partition").exists())
            .map(|dir| Self { dir })
            .collect()
    }

    /// Devices built on top of this one (device mapper, MD), by name.
    pub fn holders(&self) -> Vec<String> {
        children(&self.dir.join("holders"))
            .iter()
            .filter_map(|path| path.file_name())
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    /// The file that sets the drive's own write cache, where there is one: a SCSI or ATA disk's mode
    /// page (`sd`), or a virtio disk's switch.
    pub fn cache_type_file(&self) -> Option<PathBuf> {
        let scsi = children(&self.dir.join("device/scsi_disk")).into_iter().map(|dir| dir.join("cache_type"));
        scsi.chain([self.dir.join("cache_type")]).find(|path| path.exists())
    }
}

/// Entries of a directory in name order; none when it cannot be read.
fn children(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<PathBuf> = fs::read_dir(dir)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .collect();
    paths.sort();
    paths
}

fn parse_number(text: &str) -> Option<DevNumber> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Undoes the octal escapes (`\040`) of procfs.
fn unescape(field: &str) -> String {
    let bytes = field.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while at < bytes.len() {
        let code = bytes
            .get(at + 1..at + 4)
            .filter(|_| bytes[at] == b'\\')
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(code.unwrap_or(bytes[at]));
        at += if code.is_some() { 4 } else { 1 };
    }
    String::from_utf8_lossy(&out).into_owned()
}

/// The device number of the block device at `path`, `None` for anything else.
pub fn block_device_number(path: &Path) -> Option<DevNumber> {
    use std::os::unix::fs::FileTypeExt;
    let metadata = fs::metadata(path).ok()?;
    metadata.file_type().is_block_device().then(|| dev_number(metadata.rdev()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_line_with_optional_fields_and_escapes() {
        let line = "42 27 8:1 / /mnt/my\\040disk rw,relatime shared:7 master:2 - ext4 /dev/sda1 rw,x=1";
        assert_eq!(
            Mount::parse(line),
            Some(Mount {
                number: (8, 1),
                point: "/mnt/my disk".into(),
                file_system: "ext4".into(),
                source: "/dev/sda1".into(),
            })
        );
        assert_eq!(Mount::parse("nonsense"), None);
    }

    #[test]
    fn escapes_are_undone_and_odd_ones_are_kept() {
        assert_eq!(unescape("a\\040b\\134"), "a b\\");
        assert_eq!(unescape("tail\\04"), "tail\\04");
        assert_eq!(unescape("no\\zzz"), "no\\zzz");
    }
}
