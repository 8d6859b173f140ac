//! Who else uses a target: what makes a test destroy somebody's data, or disturb its times.
//!
//! Invariants: the questions are answered from sysfs and procfs before the target is opened for
//! writing; partitions of the target count as the target. What these do not show (another mount
//! namespace, an exclusive opener) the kernel answers at the open with `O_EXCL`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::Refusal;
use crate::sysfs::{DevNumber, Node, Sysfs, block_device_number};

/// The first use of a block device by others, as the refusal that it would be.
pub fn of_block_device(path: &str, node: &Node, sysfs: &Sysfs) -> Option<Refusal> {
    let partitions = node.partitions();
    let mut parts = vec![node.clone()];
    parts.extend(partitions.iter().cloned());
    mounted(path, &parts, sysfs)
        .or_else(|| swapped(path, &parts, sysfs))
        .or_else(|| held(path, &parts))
        .or_else(|| {
            let numbers: Vec<DevNumber> = parts.iter().filter_map(Node::number).collect();
            let is_it =
                |file: &Path| block_device_number(file).is_some_and(|number| numbers.contains(&number));
            behind_loop(path, sysfs, is_it)
        })
        .or_else(|| partitioned(path, &partitions))
}

/// The first use of a regular file by others, as the refusal that it would be.
pub fn of_file(path: &str, metadata: &fs::Metadata, sysfs: &Sysfs) -> Option<Refusal> {
    let is_it = |file: &Path| {
        fs::metadata(file).is_ok_and(|other| other.dev() == metadata.dev() && other.ino() == metadata.ino())
    };
    if sysfs.swaps().iter().any(|swap| is_it(swap)) {
        return Some(in_use(path, " as swap space".into()));
    }
    behind_loop(path, sysfs, is_it)
}

fn in_use(path: &str, by: String) -> Refusal {
    Refusal::InUse { path: path.to_owned(), by }
}

fn mounted(path: &str, parts: &[Node], sysfs: &Sysfs) -> Option<Refusal> {
    for mount in sysfs.mounts() {
        let by_source = block_device_number(Path::new(&mount.source));
        for part in parts {
            let name = part.name();
            let number = part.number();
            let is_it = number == Some(mount.number)
                || (number.is_some() && number == by_source)
                || mount.source == format!("/dev/{name}");
            if is_it {
                return Some(Refusal::Mounted {
                    path: path.to_owned(),
                    what: name,
                    mount_point: mount.point,
                });
            }
        }
    }
    None
}

fn swapped(path: &str, parts: &[Node], sysfs: &Sysfs) -> Option<Refusal> {
    let swaps = sysfs.swaps();
    parts.iter().find_map(|part| {
        let name = part.name();
        let by_name = Path::new("/dev").join(&name);
        swaps
            .iter()
            .any(|swap| {
                *swap == by_name || block_device_number(swap).is_some_and(|n| Some(n) == part.number())
            })
            .then(|| in_use(path, format!(" as swap space ({name})")))
    })
}

fn held(path: &str, parts: &[Node]) -> Option<Refusal> {
    parts.iter().find_map(|part| {
        let holder = part.holders().into_iter().next()?;
        Some(in_use(path, format!(" by {holder} (RAID, LVM or dm-crypt)")))
    })
}

fn behind_loop(path: &str, sysfs: &Sysfs, is_it: impl Fn(&Path) -> bool) -> Option<Refusal> {
    sysfs.disks().into_iter().find_map(|disk| {
        let backing = disk.text("loop/backing_file")?;
        is_it(Path::new(&backing))
            .then(|| in_use(path, format!(" as the backing file of /dev/{}", disk.name())))
    })
}

fn partitioned(path: &str, partitions: &[Node]) -> Option<Refusal> {
    let first = partitions.first()?;
    let what = match partitions.len() {
        1 => format!("a partition ({})", first.name()),
        n => format!("{n} partitions ({}, ...)", first.name()),
    };
    Some(Refusal::Partitioned { path: path.to_owned(), what })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;

    fn refusal(tree: &Tree, node: &Node) -> String {
        of_block_device("/dev/sdq", node, &tree.sysfs())
            .map(|refusal| refusal.to_string())
            .unwrap_or_default()
    }

    fn assert_says(tree: &Tree, node: &Node, part: &str) {
        let line = refusal(tree, node);
        assert!(line.contains(part), "{line:?} does not say {part:?}");
    }

    #[test]
    fn a_free_disk_is_free() {
        let tree = Tree::new("free");
        let node = tree.disk("sdq", (8, 256));
        tree.file("proc/self/mountinfo", "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n");
        tree.disk("sda", (8, 0));
        assert_eq!(refusal(&tree, &node), "");
    }

    #[test]
    fn a_mounted_disk_or_partition_is_found_by_number_and_by_source() {
        let tree = Tree::new("mounted");
        let node = tree.disk("sdq", (8, 256));
        tree.partition("sdq", 1, (8, 257));
        tree.file("proc/self/mountinfo", "9 1 8:257 / /mnt/a\\040b rw - ext4 /dev/root rw\n");
        assert_says(&tree, &node, "sdq1 is mounted at /mnt/a b; run umount");
        tree.file("proc/self/mountinfo", "9 1 0:44 / /mnt rw - btrfs /dev/sdq1 rw\n");
        assert_says(&tree, &node, "sdq1 is mounted at /mnt");
        tree.file("proc/self/mountinfo", "9 1 8:256 / /mnt rw - xfs /dev/sdq rw\n");
        assert_says(&tree, &node, "/dev/sdq: sdq is mounted at /mnt");
    }

    #[test]
    fn swap_holders_and_partitions_are_found() {
        let tree = Tree::new("others");
        let node = tree.disk("sdq", (8, 256));
        tree.partition("sdq", 1, (8, 257));
        tree.partition("sdq", 2, (8, 258));
        assert_says(&tree, &node, "holds 2 partitions (sdq1, ...)");
        tree.file("sys/devices/sdq/sdq2/holders/dm-3/dev", "253:3");
        assert_says(&tree, &node, "in use by dm-3 (RAID, LVM or dm-crypt)");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sdq1 partition 1 0 -2\n");
        assert_says(&tree, &node, "in use as swap space (sdq1)");
    }

    #[test]
    fn a_partition_as_the_target_is_judged_alone() {
        let tree = Tree::new("part");
        tree.disk("sdq", (8, 256));
        let part = tree.partition("sdq", 1, (8, 257));
        tree.partition("sdq", 2, (8, 258));
        tree.file("proc/self/mountinfo", "9 1 8:258 / /mnt rw - ext4 /dev/sdq2 rw\n");
        assert_eq!(refusal(&tree, &part), "");
        assert_eq!(part.disk().name(), "sdq");
    }

    #[test]
    fn a_file_behind_a_loop_device_or_in_swap_is_in_use() -> std::io::Result<()> {
        let tree = Tree::new("loop");
        let file = tree.file("disk image", "x");
        let metadata = fs::metadata(&file)?;
        let line = |tree: &Tree| {
            of_file("disk image", &metadata, &tree.sysfs())
                .map(|refusal| refusal.to_string())
                .unwrap_or_default()
        };
        assert_eq!(line(&tree), "");
        tree.disk("loop3", (7, 3));
        let path = file.to_string_lossy().into_owned();
        tree.file("sys/devices/loop3/loop/backing_file", &format!("{path}\n"));
        assert!(line(&tree).contains("backing file of /dev/loop3"));
        let escaped = path.replace(' ', "\\040");
        tree.file("proc/swaps", &format!("Filename\n{escaped} file 1 0 -2\n"));
        assert!(line(&tree).contains("as swap space"));
        Ok(())
    }
}
