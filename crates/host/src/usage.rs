//! Detection of other users of a target: their data would be destroyed, or their I/O would affect the
//! measured times.
//!
//! Invariants: sysfs and procfs are checked before the target is opened for writing; everything that shares
//! its bytes counts as the target (see `device_stack`); a table that cannot be read is an error, not
//! "unused". What these do not show (another mount namespace, an exclusive opener), the kernel reports at the
//! open with `O_EXCL`.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::device_stack::{DeviceStack, FileKey, file_key};
use crate::error::{Refusal, RefusalReason, printable};
use crate::openers::{self, Targets};
use crate::sysfs::{Node, Sysfs, Unreadable, block_device_number};

/// The first use of a block device by others, as the refusal for writing.
pub fn of_block_device(path: &str, node: &Node, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let stack = DeviceStack::of(node, sysfs)?;
    let (devices, files) = (stack.numbers(), stack.files.clone());
    Ok(mounted(path, &stack, sysfs)?
        .or(swapped(path, &stack, sysfs)?)
        .or_else(|| holder(path, &stack))
        .or(behind_loop(path, &stack, sysfs)?)
        .or_else(|| alias(path, &stack))
        .or_else(|| opened(path, &Targets { devices, files }, sysfs))
        // Last, because what is put back is allowed to have partitions, and no other user.
        .or_else(|| partitioned(path, &node.partitions())))
}

/// The first use of a regular file by others, as the refusal for writing.
pub fn of_file(path: &str, metadata: &fs::Metadata, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let file: FileKey = (metadata.dev(), metadata.ino());
    let stack = DeviceStack::of_file(file);
    let targets = Targets { devices: vec![], files: vec![file] };
    Ok(swapped(path, &stack, sysfs)?
        .or(behind_loop(path, &stack, sysfs)?)
        .or_else(|| opened(path, &targets, sysfs)))
}

fn in_use(path: &str, by: String) -> Refusal {
    RefusalReason::InUse(by).of(path)
}

/// Whether a path refers to the device, also by its kernel name.
fn refers_to(path: &Path, device: &Node) -> bool {
    path == Path::new("/dev").join(device.name())
        || block_device_number(path).is_some_and(|number| device.number() == Some(number))
}

fn mounted(path: &str, stack: &DeviceStack, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    for mount in sysfs.mounts()? {
        let is_it =
            |part: &&Node| part.number() == Some(mount.number) || refers_to(Path::new(&mount.source), part);
        if let Some(part) = stack.devices.iter().find(is_it) {
            let (what, mount_point) = (part.name(), mount.point);
            return Ok(Some(RefusalReason::Mounted { what, mount_point }.of(path)));
        }
    }
    Ok(None)
}

fn swapped(path: &str, stack: &DeviceStack, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let swaps = sysfs.swaps()?;
    let device = stack.devices.iter().find(|device| swaps.iter().any(|swap| refers_to(swap, device)));
    if let Some(device) = device {
        return Ok(Some(in_use(path, format!(" as swap space ({})", device.name()))));
    }
    let is_file = |swap: &&std::path::PathBuf| file_key(swap).is_some_and(|key| stack.files.contains(&key));
    let file = swaps.iter().find(is_file);
    Ok(file.map(|swap| in_use(path, format!(" as swap space ({})", printable(swap)))))
}

/// The first device that is built on the target or on something that shares its bytes.
fn holder(path: &str, stack: &DeviceStack) -> Option<Refusal> {
    stack.devices.iter().enumerate().find_map(|(at, device)| {
        // LVM volumes have separate extents: two of them share a disk but no bytes.
        let under_a_volume = at > 0 && stack.devices.first().is_some_and(is_lvm);
        let mut others = device.holders().into_iter().filter(|holder| !stack.is_below(holder));
        let holder = others.find(|holder| !(under_a_volume && is_lvm(holder)))?;
        let (name, device) = (holder.name(), device.name());
        Some(in_use(path, format!(" by {name} (RAID, LVM or dm-crypt), built on {device}")))
    })
}

fn is_lvm(device: &Node) -> bool {
    device.text("dm/uuid").is_some_and(|uuid| uuid.starts_with("LVM-"))
}

fn behind_loop(path: &str, stack: &DeviceStack, sysfs: &Sysfs) -> Result<Option<Refusal>, Unreadable> {
    let is_backed_by_target = |file: &Path| {
        stack.devices.iter().any(|device| refers_to(file, device))
            || file_key(file).is_some_and(|key| stack.files.contains(&key))
    };
    let found = sysfs.loops()?.into_iter().find(|(disk, backing)| {
        !stack.is_below(disk) && !stack.aliases.contains(disk) && is_backed_by_target(backing)
    });
    Ok(found.map(|(disk, _)| in_use(path, format!(" as the backing file of /dev/{}", disk.name()))))
}

fn alias(path: &str, stack: &DeviceStack) -> Option<Refusal> {
    let alias = stack.aliases.first()?;
    Some(in_use(path, format!(" through /dev/{}, a loop device over the same file or device", alias.name())))
}

fn opened(path: &str, targets: &Targets, sysfs: &Sysfs) -> Option<Refusal> {
    openers::find(targets, sysfs).map(|process| in_use(path, format!(" by {process}, which has it open")))
}

fn partitioned(path: &str, partitions: &[Node]) -> Option<Refusal> {
    let first = partitions.first()?;
    let what = match partitions.len() {
        1 => format!("a partition ({})", first.name()),
        n => format!("{n} partitions ({}, ...)", first.name()),
    };
    Some(RefusalReason::Partitioned(what).of(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_sysfs::Tree;

    fn refusal(tree: &Tree, node: &Node) -> String {
        match of_block_device("/dev/sdq", node, &tree.sysfs()) {
            Ok(refusal) => refusal.map(|refusal| refusal.to_string()).unwrap_or_default(),
            Err(unreadable) => panic!("{}: {}", unreadable.what.display(), unreadable.source),
        }
    }

    fn assert_refused(tree: &Tree, node: &Node, part: &str) {
        let line = refusal(tree, node);
        assert!(line.contains(part), "{line:?} does not say {part:?}");
    }

    #[test]
    fn an_unused_disk_is_accepted() {
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
        assert_refused(&tree, &node, "sdq1 is mounted at /mnt/a b; run umount");
        tree.file("proc/self/mountinfo", "9 1 0:44 / /mnt rw - btrfs /dev/sdq1 rw\n");
        assert_refused(&tree, &node, "sdq1 is mounted at /mnt");
        tree.file("proc/self/mountinfo", "9 1 8:256 / /mnt rw - xfs /dev/sdq rw\n");
        assert_refused(&tree, &node, "/dev/sdq: sdq is mounted at /mnt");
    }

    #[test]
    fn swap_holders_and_partitions_are_found() {
        let tree = Tree::new("others");
        let node = tree.disk("sdq", (8, 256));
        tree.partition("sdq", 1, (8, 257));
        tree.partition("sdq", 2, (8, 258));
        assert_refused(&tree, &node, "holds 2 partitions (sdq1, ...)");
        tree.file("sys/devices/sdq/sdq2/holders/dm-3/dev", "253:3");
        assert_refused(&tree, &node, "in use by dm-3 (RAID, LVM or dm-crypt), built on sdq2");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sdq1 partition 1 0 -2\n");
        assert_refused(&tree, &node, "in use as swap space (sdq1)");
    }

    #[test]
    fn a_partition_is_in_use_with_its_disk_but_not_with_its_siblings() {
        let tree = Tree::new("part");
        let disk = tree.disk("sdq", (8, 256));
        let part = tree.partition("sdq", 1, (8, 257));
        tree.partition("sdq", 2, (8, 258));
        tree.file("proc/self/mountinfo", "9 1 8:258 / /mnt rw - ext4 /dev/sdq2 rw\n");
        assert_eq!(refusal(&tree, &part), "");
        assert_eq!(part.disk(), disk);
        tree.file("proc/self/mountinfo", "9 1 8:256 / /mnt rw - ext4 /dev/sdq rw\n");
        assert_refused(&tree, &part, "sdq is mounted at /mnt");
        tree.file("proc/self/mountinfo", "");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n/dev/sdq partition 1 0 -2\n");
        assert_refused(&tree, &part, "as swap space (sdq)");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n");
        tree.loop_device(3, "/dev/sdq");
        assert_refused(&tree, &part, "as the backing file of /dev/loop3");
        let _ = fs::remove_file(tree.path("sys/block/loop3"));
        assert_eq!(refusal(&tree, &part), "");
        tree.file("sys/devices/sdq/holders/md0/dev", "9:0");
        assert_refused(&tree, &part, "in use by md0 (RAID, LVM or dm-crypt), built on sdq");
    }

    #[test]
    fn two_loop_devices_over_one_file_share_their_bytes() {
        let tree = Tree::new("aliases");
        let image = tree.file("disk.img", "x").to_string_lossy().into_owned();
        let hard_link = tree.path("same.img");
        assert!(fs::hard_link(&image, &hard_link).is_ok());
        let first = tree.loop_device(1, &image);
        assert_eq!(refusal(&tree, &first), "");
        let second = tree.loop_device(2, &hard_link.to_string_lossy());
        for node in [&first, &second] {
            let other = if *node == first { "loop2" } else { "loop1" };
            assert_refused(&tree, node, &format!("through /dev/{other}, a loop device over the same file"));
        }
        tree.partition("loop2", 1, (259, 7));
        tree.file("proc/self/mountinfo", "9 1 259:7 / /mnt rw - ext4 /dev/loop2p1 rw\n");
        assert_refused(&tree, &first, "loop21 is mounted at /mnt");
        tree.file("proc/self/mountinfo", "");
        tree.file("proc/swaps", &format!("Filename\n{image} file 1 0 -2\n"));
        assert_refused(&tree, &first, "as swap space");
    }

    #[test]
    fn a_loop_device_over_a_deleted_file_has_aliases() {
        let tree = Tree::new("deleted");
        let first = tree.loop_device(1, "/gone.img (deleted)");
        assert_eq!(refusal(&tree, &first), "");
        tree.loop_device(2, "/gone.img (deleted)");
        assert_refused(&tree, &first, "through /dev/loop2");
    }

    #[test]
    fn the_devices_under_a_mapped_device_are_followed() {
        let tree = Tree::new("mapped");
        let disk = tree.disk("sdq", (8, 256));
        tree.partition("sdq", 1, (8, 257));
        let volume = tree.disk("dm-1", (253, 1));
        let other = tree.disk("dm-2", (253, 2));
        tree.link("sys/devices/dm-1/slaves/sdq", "../../sdq");
        for holder in ["dm-1", "dm-2"] {
            tree.link(&format!("sys/devices/sdq/holders/{holder}"), &format!("../../{holder}"));
        }
        assert_refused(&tree, &volume, "in use by dm-2 (RAID, LVM or dm-crypt), built on sdq");
        for name in ["dm-1", "dm-2"] {
            tree.file(&format!("sys/devices/{name}/dm/uuid"), "LVM-abc\n");
        }
        assert_eq!(refusal(&tree, &volume), "", "LVM volumes share no bytes");
        assert_refused(&tree, &disk, "in use by dm-1");
        tree.link("sys/devices/dm-1/holders/dm-2", "../../dm-2");
        assert_refused(&tree, &volume, "in use by dm-2 (RAID, LVM or dm-crypt), built on dm-1");
        let _ = fs::remove_file(tree.path("sys/devices/dm-1/holders/dm-2"));
        tree.file("proc/self/mountinfo", "9 1 8:257 / /mnt rw - ext4 /dev/sdq1 rw\n");
        assert_refused(&tree, &volume, "sdq1 is mounted at /mnt");
        assert_eq!(other.name(), "dm-2");
    }

    #[test]
    fn an_unreadable_table_is_an_error() {
        for table in ["proc/self/mountinfo", "proc/swaps", "sys/block"] {
            let tree = Tree::new("blind");
            let node = tree.disk("sdq", (8, 256));
            let path = tree.path(table);
            let removed = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            assert!(removed.is_ok());
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
