//! What shares its bytes with a target: a write to the target changes these too.
//!
//! Invariants: a partition shares its bytes with the whole disk, not with its siblings; a whole disk with
//! all its partitions; a loop device with what it lies on and with every other loop device on the same;
//! a device of the device mapper or MD with what it is built on. All of that is followed to the end.
//!
//! Sources: Linux `Documentation/ABI/stable/sysfs-block`, `losetup(8)`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::sysfs::{DevNumber, Node, Sysfs, Unreadable, block_device_number};

/// A file, by the number of its file system and its own in there.
pub type FileKey = (u64, u64);

/// The file at a path.
pub fn file_key(path: &Path) -> Option<FileKey> {
    fs::metadata(path).ok().map(|metadata| (metadata.dev(), metadata.ino()))
}

/// Devices and files that hold a target's bytes.
#[derive(Debug, Default)]
pub struct Reach {
    /// Devices of which at least a part is the target's; the target itself comes first.
    pub devices: Vec<Node>,
    /// Files that loop devices among them lie on.
    pub files: Vec<FileKey>,
    /// Other loop devices on what one of these lies on.
    pub twins: Vec<Node>,
    /// The target, the disk it is a partition of, and what they are built on: that one of these uses
    /// another is no use by others.
    chain: Vec<Node>,
}

impl Reach {
    /// What shares its bytes with a block device.
    pub fn of(node: &Node, sysfs: &Sysfs) -> Result<Self, Unreadable> {
        let loops = sysfs.loops()?;
        let mut reach = Self::default();
        let mut to_visit = vec![(node.clone(), true)];
        while let Some((node, whole)) = to_visit.pop() {
            if reach.chain.contains(&node) {
                continue;
            }
            reach.chain.push(node.clone());
            reach.add(&node, whole);
            let disk = node.disk();
            if disk != node {
                // The siblings of a partition are none of its business, so not the whole of the disk.
                to_visit.push((disk, false));
                continue;
            }
            to_visit.extend(node.slaves().into_iter().map(|slave| (slave, true)));
            let Some(backing) = node.backing() else { continue };
            match block_device_number(&backing).and_then(|number| sysfs.node(number)) {
                Some(below) => to_visit.push((below, true)),
                None => reach.files.extend(file_key(&backing)),
            }
            for (twin, other) in &loops {
                if *twin != node && same_place(&backing, other) {
                    reach.add(twin, true);
                    reach.twins.push(twin.clone());
                }
            }
        }
        Ok(reach)
    }

    /// What shares its bytes with a regular file.
    pub fn of_file(file: FileKey) -> Self {
        Self { files: vec![file], ..Self::default() }
    }

    /// Whether a device is the target or something it is built on.
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

/// Whether two paths of backing files mean one file or device. The kernel's text alone decides where the
/// file is gone (`... (deleted)`).
fn same_place(one: &Path, other: &Path) -> bool {
    let number = block_device_number(one);
    one == other
        || (number.is_some() && number == block_device_number(other))
        || file_key(one).is_some_and(|key| file_key(other) == Some(key))
}
