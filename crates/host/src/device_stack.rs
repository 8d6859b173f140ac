//! The device stack of a target: everything that shares its bytes, so that a write to the target changes it.
//!
//! Invariants: a partition shares bytes with the whole disk, not with its siblings; a whole disk with all its
//! partitions; a loop device with its backing file or device and with every other loop device over the same;
//! a device-mapper or MD device with its components. The stack is followed to the bottom.
//!
//! Sources: Linux `Documentation/ABI/stable/sysfs-block`, `losetup(8)`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sysfs::{DevNumber, Node, Sysfs, Unreadable, block_device_number};

/// A file, by device and inode number.
pub type FileKey = (u64, u64);

/// The file at a path.
pub fn file_key(path: &Path) -> Option<FileKey> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Devices and files that share bytes with a target.
#[derive(Debug, Default)]
pub struct DeviceStack {
    /// Devices that overlap the target, which comes first.
    pub devices: Vec<Node>,
    /// Backing files of loop devices among them.
    pub files: Vec<FileKey>,
    /// Other loop devices over the same backing file or device.
    pub aliases: Vec<Node>,
    /// The target, the disk that it is a partition of, and what they are built on: their use of each other is
    /// not use by others.
    chain: Vec<Node>,
}

impl DeviceStack {
    /// The stack of a block device.
    pub fn of(node: &Node, sysfs: &Sysfs) -> Result<Self, Unreadable> {
        let loops = sysfs.loops()?;
        let mut stack = Self::default();
        let mut to_visit = vec![(node.clone(), true)];
        while let Some((node, whole)) = to_visit.pop() {
            if stack.chain.contains(&node) {
                continue;
            }
            stack.chain.push(node.clone());
            stack.add(&node, whole);
            let disk = node.disk();
            if disk != node {
                // Siblings of a partition do not share its bytes, so do not add the whole disk.
                to_visit.push((disk, false));
                continue;
            }
            to_visit.extend(node.slaves().into_iter().map(|slave| (slave, true)));
            let Some(backing) = node.backing() else { continue };
            match block_device_number(&backing).and_then(|number| sysfs.node(number)) {
                Some(below) => to_visit.push((below, true)),
                None => stack.files.extend(file_key(&backing)),
            }
            for (alias, other) in &loops {
                if *alias != node && same_backing(&backing, other) {
                    stack.add(alias, true);
                    stack.aliases.push(alias.clone());
                }
            }
        }
        Ok(stack)
    }

    /// The stack of a regular file.
    pub fn of_file(file: FileKey) -> Self {
        Self { files: vec![file], ..Self::default() }
    }

    /// Whether a device is the target or one that it is built on.
    pub fn is_below(&self, node: &Node) -> bool {
        self.chain.contains(node)
    }

    /// The device numbers of all devices.
    pub fn numbers(&self) -> Vec<DevNumber> {
        self.devices.iter().filter_map(Node::number).collect()
    }

    fn add(&mut self, node: &Node, whole: bool) {
        let partitions = if whole { node.partitions() } else { vec![] };
        for device in std::iter::once(node.clone()).chain(partitions) {
            if !self.devices.contains(&device) {
                self.devices.push(device);
            }
        }
    }
}

/// Whether two backing paths denote the same file or device. For a deleted file (`... (deleted)`) only the
/// text can be compared.
fn same_backing(one: &Path, other: &Path) -> bool {
    let number = block_device_number(one);
    one == other
        || (number.is_some() && number == block_device_number(other))
        || file_key(one).is_some_and(|key| file_key(other) == Some(key))
}
