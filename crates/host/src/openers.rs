//! Processes that have a target open.
//!
//! Invariants: processes that this one may not inspect (those of other users unless it runs as root, and
//! those in other PID namespaces) are not found; nothing is opened, and no network file system is queried
//! (`AT_STATX_DONT_SYNC`), so a dead network mount in the descriptor table of a process does not block the
//! search.
//!
//! Source: `proc_pid_fd(5)`, `statx(2)`.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::device_stack::FileKey;
use crate::sysfs::{DevNumber, Sysfs, children};

/// Device managers briefly open every new or changed device, so an opener counts only if it is seen in every
/// scan.
const SCANS: u32 = 8;
const SCAN_INTERVAL: Duration = Duration::from_millis(150);

/// The devices and files to search for.
pub struct Targets {
    /// Block devices.
    pub devices: Vec<DevNumber>,
    /// Regular files.
    pub files: Vec<FileKey>,
}

/// The name and ID of the first process that keeps one of these open.
pub fn find(targets: &Targets, sysfs: &Sysfs) -> Option<String> {
    for scan in 1..=SCANS {
        let (number, dir) = sysfs.processes().into_iter().find(|(_, dir)| has_open(dir, targets))?;
        if scan == SCANS {
            let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            return Some(format!("{name} (process {number})"));
        }
        thread::sleep(SCAN_INTERVAL);
    }
    None
}

fn has_open(process: &Path, targets: &Targets) -> bool {
    children(&process.join("fd")).iter().any(|link| is_target(link, targets))
}

fn is_target(link: &Path, targets: &Targets) -> bool {
    let Ok(stat) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO) else {
        return false;
    };
    match rustix::fs::FileType::from_raw_mode(u32::from(stat.stx_mode)) {
        rustix::fs::FileType::BlockDevice => {
            targets.devices.contains(&(stat.stx_rdev_major, stat.stx_rdev_minor))
        }
        rustix::fs::FileType::RegularFile => {
            let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
            targets.files.contains(&(device, stat.stx_ino))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device_stack::file_key;
    use crate::fake_sysfs::Tree;

    #[test]
    fn a_process_with_the_file_open_is_named() {
        let tree = Tree::new("openers");
        let image = tree.file("image", "x");
        let targets = Targets { devices: vec![], files: file_key(&image).into_iter().collect() };
        tree.file("proc/17/comm", "ba\nd\n");
        tree.link("proc/17/fd/3", "../../../other");
        tree.link("proc/17/fd/4", "/nowhere");
        assert_eq!(find(&targets, &tree.sysfs()), None);
        tree.link("proc/17/fd/5", "../../../image");
        assert_eq!(find(&targets, &tree.sysfs()).as_deref(), Some("ba?d (process 17)"));
    }

    #[test]
    fn a_brief_opener_does_not_count() {
        let tree = Tree::new("glance");
        let image = tree.file("image", "x");
        let targets = Targets { devices: vec![], files: file_key(&image).into_iter().collect() };
        tree.file("proc/17/comm", "udev");
        tree.link("proc/17/fd/5", "../../../image");
        let link = tree.path("proc/17/fd/5");
        let closing = thread::spawn(move || {
            thread::sleep(2 * SCAN_INTERVAL);
            fs::remove_file(link)
        });
        assert_eq!(find(&targets, &tree.sysfs()), None);
        assert!(closing.join().is_ok_and(|closed| closed.is_ok()));
    }
}
