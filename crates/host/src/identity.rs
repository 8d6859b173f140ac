//! What a target declares about itself.
//!
//! Invariants: nothing here is measured, and no other part relies on what a drive declares: the tests measure
//! for themselves (many shingled drives declare themselves conventional). What the kernel does not report is
//! `None`.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde::Serialize;

use crate::error::{Refusal, RefusalReason};
use crate::sysfs::{Node, Sysfs, dev_number};

/// The kind of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A block device: a disk or a partition.
    #[serde(rename = "device")]
    BlockDevice,
    /// A regular file.
    File,
}

/// What a target is and what it declares about itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Block device or file.
    pub kind: Kind,
    /// The path as given.
    pub path: String,
    /// A key for the drive whose settings may be changed, made of letters, digits, `.`, `_` and `-` only, so
    /// that it can be part of a file name: model and serial number, or, without a serial number, something
    /// that is unique until the next boot. `None` for a file, which has no settings.
    #[serde(skip)]
    pub key: Option<String>,
    /// Whether the key is that of a serial number, so that a note under it is found after the next boot.
    #[serde(skip)]
    pub key_outlives_boot: bool,
    /// The inode number of a file.
    pub inode: Option<u64>,
    /// The kernel's name of the device; of the one below, for a file.
    pub kernel_name: Option<String>,
    /// Size in bytes, a multiple of the logical block.
    pub size_bytes: u64,
    /// Logical block in bytes: the unit of offsets and sizes.
    pub block_bytes: u32,
    /// What the disk declares about itself.
    #[serde(flatten)]
    pub declared: Declared,
    /// What it is stored on: the backing file of a loop device, the file system of a file.
    pub below: Option<String>,
    /// Other users of the target when it was opened; their I/O affects the times.
    pub also_used: Option<String>,
}

/// What a disk declares about itself. Of a file only whether the disk below is rotational is known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Declared {
    /// Manufacturer's model string.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Firmware revision.
    pub firmware: Option<String>,
    /// Whether the kernel considers it rotational.
    pub rotational: Option<bool>,
    /// Rotation rate, rpm.
    pub rotation_rpm: Option<u16>,
    /// Physical block in bytes.
    pub physical_block_bytes: Option<u32>,
    /// Zone model: `none`, `host-aware` or `host-managed`.
    pub zoned: Option<String>,
    /// The kernel's view of the write cache: `write back` or `write through`.
    pub write_cache: Option<String>,
    /// The cache setting of the drive itself, where it can be read.
    pub cache_type: Option<String>,
    /// Commands that the kernel has outstanding at the drive at most.
    pub queue_depth: Option<u32>,
    /// The I/O scheduler of the kernel.
    pub scheduler: Option<String>,
}

impl Declared {
    /// Whether sequential zones take writes at their write pointers only.
    pub(crate) fn is_host_managed(&self) -> bool {
        self.zoned.as_deref() == Some("host-managed")
    }
}

impl Identity {
    /// Identifies a block device from sysfs.
    pub fn of_block_device(
        path: &str,
        node: Option<&Node>,
        sysfs: &Sysfs,
        size_bytes: u64,
        block: u32,
    ) -> Self {
        let disk = node.map(Node::disk);
        let text = |names: &[&str]| {
            let disk = disk.as_ref()?;
            names.iter().find_map(|name| disk.text(name))
        };
        let model = text(&["device/model"]);
        let serial = text(&["serial", "device/serial"]).or_else(|| disk.as_ref().and_then(unit_serial));
        let key = match &serial {
            Some(serial) => {
                let parts: Vec<&str> = [model.as_deref(), Some(serial)].into_iter().flatten().collect();
                sanitized(&parts.join("-"))
            }
            None => boot_key(path, disk.as_ref(), sysfs),
        };
        let key_outlives_boot = serial.is_some();
        let declared = Declared {
            model,
            serial,
            firmware: text(&["device/firmware_rev", "device/rev"]),
            rotational: disk.as_ref().and_then(|d| d.flag("queue/rotational")),
            rotation_rpm: disk.as_ref().and_then(rotation_rpm),
            physical_block_bytes: text(&["queue/physical_block_size"]).and_then(|size| size.parse().ok()),
            zoned: text(&["queue/zoned"]),
            write_cache: text(&["queue/write_cache"]),
            cache_type: disk.as_ref().and_then(Node::cache_type),
            queue_depth: text(&["device/queue_depth"]).and_then(|depth| depth.parse().ok()),
            scheduler: text(&["queue/scheduler"]).and_then(|text| chosen(&text)),
        };
        Self {
            path: path.to_owned(),
            kind: Kind::BlockDevice,
            key: Some(key),
            key_outlives_boot,
            inode: None,
            kernel_name: node.map(Node::name),
            size_bytes,
            block_bytes: block,
            declared,
            below: text(&["loop/backing_file", "dm/name"]),
            also_used: None,
        }
    }

    /// Identifies a regular file: its file system, and the device below.
    pub fn of_file(path: &str, metadata: &fs::Metadata, sysfs: &Sysfs, size_bytes: u64, block: u32) -> Self {
        let number = dev_number(metadata.dev());
        let mounts = sysfs.mounts().unwrap_or_default();
        let mount = mounts.into_iter().find(|mount| mount.number == number);
        let node = sysfs.node(number);
        let disk = node.as_ref().map(Node::disk);
        Self {
            path: path.to_owned(),
            kind: Kind::File,
            key: None,
            key_outlives_boot: false,
            inode: Some(metadata.ino()),
            kernel_name: node.as_ref().map(Node::name),
            size_bytes,
            block_bytes: block,
            declared: Declared {
                rotational: disk.and_then(|disk| disk.flag("queue/rotational")),
                ..Declared::default()
            },
            below: mount.map(|mount| format!("{} on {}", mount.file_system, mount.source)),
            also_used: None,
        }
    }

    /// Records another use of the target, in the words of the refusal that writing would have caused.
    pub fn note_use(&mut self, refusal: &Refusal) {
        self.also_used = match &refusal.reason {
            RefusalReason::Mounted { what, mount_point } => {
                Some(format!("{what} is mounted at {mount_point}"))
            }
            RefusalReason::InUse(by) => Some(format!("in use{by}")),
            RefusalReason::Partitioned(what) => Some(format!("holds {what}")),
            _ => None,
        };
    }
}

/// The key of a drive without a serial number. After the next boot or hot plug the kernel may give its name
/// to another drive, so the key includes everything else that is known.
fn boot_key(path: &str, disk: Option<&Node>, sysfs: &Sysfs) -> String {
    let of_disk = |attribute: &str| disk.and_then(|disk| disk.text(attribute));
    let name = disk.map_or_else(|| path.to_owned(), Node::name);
    let parts = [Some(name), of_disk("device/model"), of_disk("size"), sysfs.boot_id()];
    sanitized(&parts.into_iter().flatten().collect::<Vec<_>>().join("-"))
}

/// The chosen one of a list in sysfs, which is in brackets: `none [mq-deadline]`. A list of one may have none.
pub(crate) fn chosen(list: &str) -> Option<String> {
    let inner = list.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    inner.map_or_else(|| (!list.contains(' ')).then_some(list), |(name, _)| Some(name)).map(str::to_owned)
}

/// Replaces everything that is awkward in a file name.
fn sanitized(text: &str) -> String {
    let is_safe = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    text.chars().map(|c| if is_safe(c) { c } else { '_' }).collect()
}

/// The serial number in a SCSI disk's unit serial number page (SPC-4, 7.8.15): four bytes of header,
/// then ASCII.
fn unit_serial(disk: &Node) -> Option<String> {
    let page = fs::read(disk.dir().join("device/vpd_pg80")).ok()?;
    let serial = String::from_utf8_lossy(page.get(4..)?).trim().to_owned();
    (!serial.is_empty()).then_some(serial)
}

/// The medium rotation rate in a disk's block device characteristics page, as the kernel keeps it; ATA disks
/// declare the same through the kernel's translation.
fn rotation_rpm(disk: &Node) -> Option<u16> {
    nominal_rpm(&fs::read(disk.dir().join("device/vpd_pgb1")).ok()?)
}

/// The rate in a block device characteristics page (SBC-4, VPD page B1h): bytes 4 and 5, the higher first.
/// 0000h means not reported, 0001h non-rotating, and 0401h to FFFEh the rate in rpm.
fn nominal_rpm(page: &[u8]) -> Option<u16> {
    let [_, 0xb1, _, _, high, low, ..] = *page else { return None };
    let rate = u16::from_be_bytes([high, low]);
    (0x0401..=0xfffe).contains(&rate).then_some(rate)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_sysfs::Tree;

    #[test]
    fn a_sata_disk_is_known_by_its_attributes() {
        let tree = Tree::new("sata");
        let node = tree.disk("sdq", (8, 256));
        let set = |name: &str, value: &str| {
            tree.file(&format!("sys/devices/sdq/{name}"), value);
        };
        set("device/model", "ST5000AS0011-1BG\n");
        set("device/vpd_pg80", "\0\u{1}\0\u{8}Z8  1234  ");
        let page = tree.file("sys/devices/sdq/device/vpd_pgb1", "");
        fs::write(page, b"\0\xb1\0\x3c\x17\x0c\0\x02").expect("a page of bytes");
        set("device/rev", "AR13");
        set("device/scsi_disk/2:0:0:0/cache_type", "write back\n");
        set("queue/rotational", "1\n");
        set("queue/physical_block_size", "4096\n");
        set("queue/zoned", "none\n");
        set("queue/write_cache", "write back\n");
        set("queue/scheduler", "none [mq-deadline] bfq\n");
        set("device/queue_depth", "32\n");
        let part = tree.partition("sdq", 1, (8, 257));
        for node in [node, part] {
            let it = Identity::of_block_device("/dev/sdq", Some(&node), &tree.sysfs(), 5 << 40, 512);
            assert_eq!(it.kernel_name, Some(node.name()));
            assert_eq!(it.declared.model.as_deref(), Some("ST5000AS0011-1BG"));
            assert_eq!(it.declared.serial.as_deref(), Some("Z8  1234"));
            assert_eq!(it.declared.firmware.as_deref(), Some("AR13"));
            assert_eq!((it.declared.rotational, it.declared.rotation_rpm), (Some(true), Some(5900)));
            assert_eq!(it.declared.physical_block_bytes, Some(4096));
            assert_eq!(it.declared.zoned.as_deref(), Some("none"));
            assert_eq!(it.declared.write_cache.as_deref(), Some("write back"));
            assert_eq!(it.declared.cache_type.as_deref(), Some("write back"));
            assert_eq!(it.declared.queue_depth, Some(32));
            assert_eq!(it.declared.scheduler.as_deref(), Some("mq-deadline"));
            assert_eq!(it.key.as_deref(), Some("ST5000AS0011-1BG-Z8__1234"));
            assert!(it.key_outlives_boot);
        }
    }

    #[test]
    fn a_rotation_rate_is_parsed_or_none() {
        let page = |rate: [u8; 2]| [&[0, 0xb1, 0, 0x3c][..], &rate, &[0; 58]].concat();
        for (rate, rpm) in [
            ([0x1c, 0x20], Some(7200)),
            ([0x17, 0x0c], Some(5900)),
            ([0x04, 0x01], Some(1025)),
            ([0xff, 0xfe], Some(65534)),
            ([0x00, 0x00], None),
            ([0x00, 0x01], None),
            ([0x04, 0x00], None),
            ([0xff, 0xff], None),
        ] {
            assert_eq!(nominal_rpm(&page(rate)), rpm, "{rate:02x?}");
        }
        let short = page([0x17, 0x0c]);
        assert_eq!(
            (nominal_rpm(&short[..6]), nominal_rpm(&short[..5]), nominal_rpm(&[])),
            (Some(5900), None, None)
        );
        let other = [0, 0xb0, 0, 0x3c, 0x17, 0x0c];
        assert_eq!(nominal_rpm(&other), None, "another page");
    }

    #[test]
    fn what_the_kernel_does_not_report_is_none() {
        let tree = Tree::new("untold");
        let it = Identity::of_block_device("/dev/x y", None, &tree.sysfs(), 1 << 30, 512);
        assert_eq!((it.declared.model.as_ref(), it.declared.rotational), (None, None));
        assert_eq!(it.key.as_deref(), Some("_dev_x_y"));
    }

    #[test]
    fn without_a_serial_number_the_key_is_valid_until_the_next_boot() {
        let tree = Tree::new("keys");
        let key = |node: &Node| {
            let identity = Identity::of_block_device("/dev/sdq", Some(node), &tree.sysfs(), 1 << 30, 512);
            assert!(!identity.key_outlives_boot);
            identity.key.unwrap_or_default()
        };
        let node = tree.disk("sdq", (8, 256));
        let part = tree.partition("sdq", 1, (8, 257));
        tree.file("sys/devices/sdq/device/model", "USB Disk");
        tree.file("sys/devices/sdq/size", "2048\n");
        tree.file("proc/sys/kernel/random/boot_id", "b007\n");
        assert_eq!(key(&node), "sdq-USB_Disk-2048-b007");
        assert_eq!(key(&part), key(&node), "a partition shares the cache of its disk");
        tree.file("proc/sys/kernel/random/boot_id", "b008\n");
        assert_eq!(key(&node), "sdq-USB_Disk-2048-b008");
    }

    #[test]
    fn a_file_has_an_inode_and_no_key() -> std::io::Result<()> {
        let tree = Tree::new("file-key");
        let metadata = fs::metadata(tree.file("image", "x"))?;
        let it = Identity::of_file("image", &metadata, &tree.sysfs(), 1 << 30, 512);
        assert_eq!((it.key, it.inode), (None, Some(metadata.ino())));
        Ok(())
    }
}
