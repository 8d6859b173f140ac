//! The description of block devices by the kernel, from sysfs and procfs.
//!
//! Invariants: both roots can be injected, so that everything that depends on them can be tested with a tree
//! of plain files; a missing or unreadable attribute is `None`, never a guess; a table that cannot be read is
//! an error with its path, never an empty table.
//!
//! Source: Linux `Documentation/ABI/stable/sysfs-block`, `proc_pid_mountinfo(5)`.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A device number, as sysfs writes it: major and minor.
pub type DevNumber = (u32, u32);

/// Splits a raw device number.
pub fn dev_number(raw: u64) -> DevNumber {
    (rustix::fs::major(raw), rustix::fs::minor(raw))
}

/// The roots of sysfs and procfs.
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
        let dir = fs::canonicalize(self.link(number)).ok()?;
        Some(Node { dir })
    }

    /// The error for a block device without a node.
    pub fn without_node(&self, number: DevNumber) -> Unreadable {
        Unreadable { what: self.link(number), source: io::ErrorKind::NotFound.into() }
    }

    /// Whether a path is one of procfs.
    pub fn is_proc(&self, path: &Path) -> bool {
        path.starts_with(&self.proc)
    }

    fn link(&self, number: DevNumber) -> PathBuf {
        self.sys.join(format!("dev/block/{}:{}", number.0, number.1))
    }

    /// Every whole disk that sysfs lists, in name order.
    pub fn disks(&self) -> Result<Vec<Node>, Unreadable> {
        let dir = self.sys.join("block");
        let paths = entries(&dir).map_err(|source| Unreadable { what: dir, source })?;
        Ok(paths.into_iter().filter_map(|path| fs::canonicalize(path).ok()).map(|dir| Node { dir }).collect())
    }

    /// Every attached loop device, with the path of its backing file or device.
    pub fn loops(&self) -> Result<Vec<(Node, PathBuf)>, Unreadable> {
        let disks = self.disks()?;
        Ok(disks.into_iter().filter_map(|disk| disk.backing().map(|path| (disk, path))).collect())
    }

    /// The mounts visible to this process.
    pub fn mounts(&self) -> Result<Vec<Mount>, Unreadable> {
        let text = self.table("self/mountinfo")?;
        Ok(text.lines().filter_map(Mount::parse).collect())
    }

    /// Paths of the active swap devices and files.
    pub fn swaps(&self) -> Result<Vec<PathBuf>, Unreadable> {
        let text = self.table("swaps")?;
        Ok(text
            .lines()
            .skip(1)
            .filter_map(|line| line.split_whitespace().next())
            .map(|field| PathBuf::from(unescape(field)))
            .collect())
    }

    /// Other visible processes: ID and directory.
    pub fn processes(&self) -> Vec<(u32, PathBuf)> {
        let own = fs::read_link(self.proc.join("self")).unwrap_or_default();
        children(&self.proc)
            .into_iter()
            .filter(|dir| dir.file_name() != Some(own.as_os_str()))
            .filter_map(|dir| Some((dir.file_name()?.to_str()?.parse().ok()?, dir)))
            .collect()
    }

    /// The boot ID.
    pub fn boot_id(&self) -> Option<String> {
        let text = fs::read_to_string(self.proc.join("sys/kernel/random/boot_id")).ok()?;
        Some(text.trim().to_owned())
    }

    fn table(&self, name: &str) -> Result<String, Unreadable> {
        let what = self.proc.join(name);
        fs::read(&what)
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .map_err(|source| Unreadable { what, source })
    }
}

/// A kernel table that cannot be read, so that its content is unknown.
#[derive(Debug)]
pub struct Unreadable {
    /// Its path.
    pub what: PathBuf,
    /// Why.
    pub source: io::Error,
}

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The device number of its files; for some file systems not that of the underlying device.
    pub number: DevNumber,
    /// The mount point.
    pub point: String,
    /// The file system's type.
    pub file_system: String,
    /// The source of the mount: for a block device its path.
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

    /// Devices built on top of this one (device mapper, MD).
    pub fn holders(&self) -> Vec<Self> {
        self.linked("holders")
    }

    /// Devices that this one is built on (device mapper, MD).
    pub fn slaves(&self) -> Vec<Self> {
        self.linked("slaves")
    }

    fn linked(&self, folder: &str) -> Vec<Self> {
        let links = children(&self.dir.join(folder)).into_iter();
        links.map(|link| Self { dir: fs::canonicalize(&link).unwrap_or(link) }).collect()
    }

    /// The backing file or device of an attached loop device.
    pub fn backing(&self) -> Option<PathBuf> {
        self.text("loop/backing_file").map(PathBuf::from)
    }

    /// The attribute that switches the write cache of the drive itself, if there is one: the mode page of a
    /// SCSI or ATA disk (`sd`), or the switch of a virtio disk.
    pub fn cache_type_file(&self) -> Option<PathBuf> {
        let scsi = children(&self.dir.join("device/scsi_disk")).into_iter().map(|dir| dir.join("cache_type"));
        scsi.chain([self.dir.join("cache_type")]).find(|path| path.exists())
    }

    /// The cache setting of the drive itself, where it can be read.
    pub fn cache_type(&self) -> Option<String> {
        Some(fs::read_to_string(self.cache_type_file()?).ok()?.trim().to_owned())
    }
}

/// Entries of a directory in name order.
fn entries(dir: &Path) -> io::Result<Vec<PathBuf>> {
    let mut paths: Vec<PathBuf> =
        fs::read_dir(dir)?.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    Ok(paths)
}

/// Entries of a directory in name order; empty if it cannot be read.
pub fn children(dir: &Path) -> Vec<PathBuf> {
    entries(dir).unwrap_or_default()
}

fn parse_number(text: &str) -> Option<DevNumber> {
    let (major, minor) = text.split_once(':')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

/// Decodes the octal escapes (`\040`) of procfs.
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
