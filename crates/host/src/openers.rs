//! Processes that have a target open.
//!
//! Invariants: what this process may not look into (another user's, when not run as root; another PID
//! namespace) is not found; nothing is opened and no file system is asked anew (`AT_STATX_DONT_SYNC`), so a
//! dead network mount in somebody's table of descriptors does not hang the search.
//!
//! Source: `proc_pid_fd(5)`, `statx(2)`.

use std::fs;
use std::path::Path;
use std::thread;
use std::time::Duration;

use rustix::fs::{AtFlags, CWD, StatxFlags, statx};

use crate::reach::FileKey;
use crate::sysfs::{DevNumber, Sysfs, children};

/// Device managers look into every new or changed device for a moment: an opener counts if it stays.
const LOOKS: u32 = 8;
const BETWEEN_LOOKS: Duration = Duration::from_millis(150);

/// What a descriptor may be open on.
pub struct Wanted {
    /// Block devices.
    pub devices: Vec<DevNumber>,
    /// Regular files.
    pub files: Vec<FileKey>,
}

/// The first process that has one of these open and keeps it so: its name and number in words.
pub fn find(wanted: &Wanted, sysfs: &Sysfs) -> Option<String> {
    for look in 1..=LOOKS {
        let (number, dir) = sysfs.processes().into_iter().find(|(_, dir)| has_open(dir, wanted))?;
        if look == LOOKS {
            let name = fs::read_to_string(dir.join("comm")).unwrap_or_default();
            let name: String = name.trim().chars().map(|c| if c.is_control() { '?' } else { c }).collect();
            return Some(format!("{name} (process {number})"));
        }
        thread::sleep(BETWEEN_LOOKS);
    }
    None
}

fn has_open(process: &Path, wanted: &Wanted) -> bool {
    children(&process.join("fd")).iter().any(|link| is_wanted(link, wanted))
}

fn is_wanted(link: &Path, wanted: &Wanted) -> bool {
    let Ok(stat) = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE | StatxFlags::INO) else {
        return false;
    };
    match rustix::fs::FileType::from_raw_mode(u32::from(stat.stx_mode)) {
        rustix::fs::FileType::BlockDevice => {
            wanted.devices.contains(&(stat.stx_rdev_major, stat.stx_rdev_minor))
        }
        rustix::fs::FileType::RegularFile => {
            let device = rustix::fs::makedev(stat.stx_dev_major, stat.stx_dev_minor);
            wanted.files.contains(&(device, stat.stx_ino))
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::Tree;
    use crate::reach::file_key;

    #[test]
    fn a_process_with_the_file_open_is_named() {
        let tree = Tree::new("openers");
        let image = tree.file("image", "x");
        let wanted = Wanted { devices: vec![], files: file_key(&image).into_iter().collect() };
        tree.file("proc/17/comm", "ba\nd\n");
        tree.link("proc/17/fd/3", "../../../other");
        tree.link("proc/17/fd/4", "/nowhere");
        assert_eq!(find(&wanted, &tree.sysfs()), None);
        tree.link("proc/17/fd/5", "../../../image");
        assert_eq!(find(&wanted, &tree.sysfs()).as_deref(), Some("ba?d (process 17)"));
    }

    #[test]
    fn one_that_only_looks_in_does_not_count() {
        let tree = Tree::new("glance");
        let image = tree.file("image", "x");
        let wanted = Wanted { devices: vec![], files: file_key(&image).into_iter().collect() };
        tree.file("proc/17/comm", "udev");
        tree.link("proc/17/fd/5", "../../../image");
        let link = tree.path("proc/17/fd/5");
        let closing = thread::spawn(move || {
            thread::sleep(2 * BETWEEN_LOOKS);
            fs::remove_file(link)
        });
        assert_eq!(find(&wanted, &tree.sysfs()), None);
        assert!(closing.join().is_ok_and(|closed| closed.is_ok()));
    }
}
