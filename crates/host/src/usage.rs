//! Who else uses a target: what makes a test destroy somebody's data, or disturb its times.
//!
//! Invariants: the questions are answered from sysfs and procfs before the target is opened for
//! writing; what shares its bytes counts as the target (see `reach`); a table that cannot be read is an
//! error, not a "nobody". What these do not show (another mount namespace, an exclusive opener) the
//! kernel answers at the open with `O_EXCL`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::error::{Refusal, one_line};
use crate::openers::{self, Wanted};
use crate::reach::{FileKey, Reach, file_key};
use crate::sysfs::{Node, Sysfs, Unreadable, block_device_number};

/// The first use of a block device by others, as the refusal that it would be.
pub fn of_block_device(path: &str, node: &Node, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let reach = Reach::of(node, sysfs)?;
    let (devices, files) = (reach.numbers(), reach.files.clone());
    Ok(mounted(path, &reach, sysfs)?
        .or(swapped(path, &reach, sysfs)?)
        .or_else(|| held(path, &reach))
        .or(behind_loop(path, &reach, sysfs)?)
        .or_else(|| twin(path, &reach))
        .or_else(|| partitioned(path, &node.partitions()))
        .or_else(|| opened(path, &Wanted { devices, files }, sysfs)))
}

/// The first use of a regular file by others, as the refusal that it would be.
pub fn of_file(path: &str, metadata: &fs::Metadata, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let file: FileKey = (metadata.dev(), metadata.ino());
    let reach = Reach::of_file(file);
    let wanted = Wanted { devices: vec![], files: vec![file] };
    Ok(swapped(path, &reach, sysfs)?
        .or(behind_loop(path, &reach, sysfs)?)
        .or_else(|| opened(path, &wanted, sysfs)))
}

fn in_use(path: &str, by: String) -> Refusal {
    Refusal::InUse { path: path.to_owned(), by }
}

/// Whether a path names the device or, by the kernel's name, would.
fn names(path: &Path, device: &Node) -> bool {
    path == Path::new("/dev").join(device.name())
        || block_device_number(path).is_some_and(|number| device.number() == Some(number))
}

fn mounted(path: &str, reach: &Reach, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    for mount in sysfs.mounts()? {
        let is_it =
            |part: &&Node| part.number() == Some(mount.number) || names(Path::new(&mount.source), part);
        if let Some(part) = reach.devices.iter().find(is_it) {
            let (path, what, mount_point) = (path.to_owned(), part.name(), mount.point);
            return Ok(Some(Refusal::Mounted { path, what, mount_point }));
        }
    }
    Ok(None)
}

fn swapped(path: &str, reach: &Reach, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let swaps = sysfs.swaps()?;
    let device = reach.devices.iter().find(|device| swaps.iter().any(|swap| names(swap, device)));
    if let Some(device) = device {
        return Ok(Some(in_use(path, format!(" as swap space ({})", device.name()))));
    }
    let is_file = |swap: &&std::path::PathBuf| file_key(swap).is_some_and(|key| reach.files.contains(&key));
    let file = swaps.iter().find(is_file);
    Ok(file.map(|swap| in_use(path, format!(" as swap space ({})", one_line(swap)))))
}

/// The first device that is built on the target or on what the target shares.
fn held(path: &str, reach: &Reach) -> Option<Refusal> {
    reach.devices.iter().enumerate().find_map(|(at, device)| {
        // LVM gives each volume extents of its own, so that two of them share a disk but no bytes.
        let below_a_volume = at > 0 && reach.devices.first().is_some_and(is_lvm);
        let mut others = device.holders().into_iter().filter(|holder| !reach.is_below(holder));
        let holder = others.find(|holder| !(below_a_volume && is_lvm(holder)))?;
        let (name, device) = (holder.name(), device.name());
        Some(in_use(path, format!(" by {name} (RAID, LVM or dm-crypt), which lies on {device}")))
    })
}

fn is_lvm(device: &Node) -> bool {
    device.text("dm/uuid").is_some_and(|uuid| uuid.starts_with("LVM-"))
}

fn behind_loop(path: &str, reach: &Reach, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let lies_on_it = |file: &Path| {
        reach.devices.iter().any(|device| names(file, device))
            || file_key(file).is_some_and(|key| reach.files.contains(&key))
    };
    let found = sysfs
        .loops()?
        .into_iter()
        .find(|(disk, backing)| !reach.is_below(disk) && !reach.twins.contains(disk) && lies_on_it(backing));
    Ok(found.map(|(disk, _)| in_use(path, format!(" as the backing file of /dev/{}", disk.name()))))
}

fn twin(path: &str, reach: &Reach) -> Option<Refusal> {
    let twin = reach.twins.first()?;
    Some(in_use(path, format!(" through /dev/{}, a loop device over the same file or device", twin.name())))
}

fn opened(path: &str, wanted: &Wanted, sysfs: &Sysfs) -> Option<Refusal> {
    openers::find(wanted, sysfs).map(|process| in_use(path, format!(" by {process}, which has it open")))
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
        match of_block_device("/dev/sdq", node, &tree.sysfs()) {
            Ok(refusal) => refusal.map(|refusal| refusal.to_string()).unwrap_or_default(),
            Err(unreadable) => panic!("{}: {}", unreadable.what.display(), unreadable.source),
        }
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
        assert_says(&tree, &node, "in use by dm-3 (RAID, LVM or dm-crypt), which lies on sdq2");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sdq1 partition 1 0 -2\n");
        assert_says(&tree, &node, "in use as swap space (sdq1)");
    }

    #[test]
    fn the_siblings_of_a_partition_do_not_matter_but_its_disk_does() {
        let tree = Tree::new("part");
        let disk = tree.disk("sdq", (8, 256));
        let part = tree.partition("sdq", 1, (8, 257));
        tree.partition("sdq", 2, (8, 258));
        tree.file("proc/self/mountinfo", "9 1 8:258 / /mnt rw - ext4 /dev/sdq2 rw\n");
        assert_eq!(refusal(&tree, &part), "");
        assert_eq!(part.disk(), disk);
        tree.file("proc/self/mountinfo", "9 1 8:256 / /mnt rw - ext4 /dev/sdq rw\n");
        assert_says(&tree, &part, "sdq is mounted at /mnt");
        tree.file("proc/self/mountinfo", "");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sdq partition 1 0 -2\n");
        assert_says(&tree, &part, "as swap space (sdq)");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n");
        tree.loop_device(3, "/dev/sdq");
        assert_says(&tree, &part, "as the backing file of /dev/loop3");
        let _ = fs::remove_file(tree.path("sys/block/loop3"));
        assert_eq!(refusal(&tree, &part), "");
        tree.file("sys/devices/sdq/holders/md0/dev", "9:0");
        assert_says(&tree, &part, "in use by md0 (RAID, LVM or dm-crypt), which lies on sdq");
    }

    #[test]
    fn two_loop_devices_over_one_file_are_one() {
        let tree = Tree::new("twins");
        let image = tree.file("disk.img", "x").to_string_lossy().into_owned();
        let hard_link = tree.path("same.img");
        assert!(fs::hard_link(&image, &hard_link).is_ok());
        let first = tree.loop_device(1, &image);
        assert_eq!(refusal(&tree, &first), "");
        let second = tree.loop_device(2, &hard_link.to_string_lossy());
        for node in [&first, &second] {
            let other = if *node == first { "loop2" } else { "loop1" };
            assert_says(&tree, node, &format!("through /dev/{other}, a loop device over the same file"));
        }
        tree.partition("loop2", 1, (259, 7));
        tree.file("proc/self/mountinfo", "9 1 259:7 / /mnt rw - ext4 /dev/loop2p1 rw\n");
        assert_says(&tree, &first, "loop21 is mounted at /mnt");
        tree.file("proc/self/mountinfo", "");
        tree.file("proc/swaps", &format!("Filename\n{image} file 1 0 -2\n"));
        assert_says(&tree, &first, "as swap space");
    }

    #[test]
    fn a_loop_device_over_a_deleted_file_has_twins_too() {
        let tree = Tree::new("deleted");
        let first = tree.loop_device(1, "/gone.img (deleted)");
        assert_eq!(refusal(&tree, &first), "");
        tree.loop_device(2, "/gone.img (deleted)");
        assert_says(&tree, &first, "through /dev/loop2");
    }

    #[test]
    fn what_a_mapped_device_lies_on_is_followed() {
        let tree = Tree::new("mapped");
        let disk = tree.disk("sdq", (8, 256));
        tree.partition("sdq", 1, (8, 257));
        let volume = tree.disk("dm-1", (253, 1));
        let other = tree.disk("dm-2", (253, 2));
        tree.link("sys/devices/dm-1/slaves/sdq", "../../sdq");
        for holder in ["dm-1", "dm-2"] {
            tree.link(&format!("sys/devices/sdq/holders/{holder}"), &format!("../../{holder}"));
        }
        assert_says(&tree, &volume, "in use by dm-2 (RAID, LVM or dm-crypt), which lies on sdq");
        for name in ["dm-1", "dm-2"] {
            tree.file(&format!("sys/devices/{name}/dm/uuid"), "LVM-abc\n");
        }
        assert_eq!(refusal(&tree, &volume), "", "volumes of LVM share no bytes");
        assert_says(&tree, &disk, "in use by dm-1");
        tree.link("sys/devices/dm-1/holders/dm-2", "../../dm-2");
        assert_says(&tree, &volume, "in use by dm-2 (RAID, LVM or dm-crypt), which lies on dm-1");
        let _ = fs::remove_file(tree.path("sys/devices/dm-1/holders/dm-2"));
        tree.file("proc/self/mountinfo", "9 1 8:257 / /mnt rw - ext4 /dev/sdq1 rw\n");
        assert_says(&tree, &volume, "sdq1 is mounted at /mnt");
        assert_eq!(other.name(), "dm-2");
    }

    #[test]
    fn a_table_that_cannot_be_read_is_no_answer() {
        for table in ["proc/self/mountinfo", "proc/swaps", "sys/block"] {
            let tree = Tree::new("blind");
            let node = tree.disk("sdq", (8, 256));
            let path = tree.path(table);
            let gone = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            assert!(gone.is_ok());
            let answer = of_block_device("/dev/sdq", &node, &tree.sysfs());
            assert!(answer.is_err_and(|unreadable| unreadable.what == path), "{table}");
        }
    }

    #[test]
    fn a_file_behind_a_loop_device_or_in_swap_is_in_use() -> std::io::Result<()> {
        let tree = Tree::new("loop");
        let file = tree.file("disk image", "x");
        let metadata = fs::metadata(&file)?;
        let line = |tree: &Tree| match of_file("disk image", &metadata, &tree.sysfs()) {
            Ok(refusal) => refusal.map(|refusal| refusal.to_string()).unwrap_or_default(),
            Err(unreadable) => panic!("{}: {}", unreadable.what.display(), unreadable.source),
        };
        assert_eq!(line(&tree), "");
        let path = file.to_string_lossy().into_owned();
        tree.loop_device(3, &path);
        assert!(line(&tree).contains("backing file of /dev/loop3"));
        let escaped = path.replace(' ', "\\040");
        tree.file("proc/swaps", &format!("Filename\n{escaped} file 1 0 -2\n"));
        assert!(line(&tree).contains("as swap space"));
        Ok(())
    }
}
