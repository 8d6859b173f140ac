//! A fake sysfs and procfs of plain files, for tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::sysfs::{DevNumber, Node, Sysfs};

/// A directory that is removed with this value.
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// A machine without disks, mounts and swap; `name` distinguishes the tests of a process.
    pub fn new(name: &str) -> Self {
        let root = std::env::temp_dir().join(format!("skylight-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&root);
        must(fs::create_dir_all(root.join("sys/block")), &root);
        let tree = Self { root };
        tree.file("proc/self/mountinfo", "");
        tree.file("proc/swaps", "Filename Type Size Used Priority\n");
        tree
    }

    pub fn path(&self, relative: &str) -> PathBuf {
        self.root.join(relative)
    }

    pub fn sysfs(&self) -> Sysfs {
        Sysfs::at(&self.root)
    }

    /// Writes a file and the directories above it.
    pub fn file(&self, relative: &str, content: &str) -> PathBuf {
        let path = self.path(relative);
        if let Some(dir) = path.parent() {
            must(fs::create_dir_all(dir), dir);
        }
        must(fs::write(&path, content), &path);
        path
    }

    /// A disk with its links, as the kernel lays them out.
    pub fn disk(&self, name: &str, number: DevNumber) -> Node {
        let (major, minor) = number;
        let dir = format!("sys/devices/{name}");
        self.file(&format!("{dir}/dev"), &format!("{major}:{minor}\n"));
        self.link(&format!("sys/block/{name}"), &format!("../devices/{name}"));
        self.numbered(number, &format!("../../devices/{name}"))
    }

    /// An attached loop device.
    pub fn loop_device(&self, index: u32, backing: &str) -> Node {
        let node = self.disk(&format!("loop{index}"), (7, index));
        self.file(&format!("sys/devices/loop{index}/loop/backing_file"), &format!("{backing}\n"));
        node
    }

    /// A partition of a disk.
    pub fn partition(&self, disk: &str, index: u32, number: DevNumber) -> Node {
        let (major, minor) = number;
        let dir = format!("sys/devices/{disk}/{disk}{index}");
        self.file(&format!("{dir}/partition"), &format!("{index}\n"));
        self.file(&format!("{dir}/dev"), &format!("{major}:{minor}\n"));
        self.numbered(number, &format!("../../devices/{disk}/{disk}{index}"))
    }

    fn numbered(&self, number: DevNumber, target: &str) -> Node {
        self.link(&format!("sys/dev/block/{}:{}", number.0, number.1), target);
        self.sysfs().node(number).expect("the link was just made")
    }

    pub fn link(&self, relative: &str, target: &str) {
        let path = self.path(relative);
        if let Some(dir) = path.parent() {
            must(fs::create_dir_all(dir), dir);
        }
        must(std::os::unix::fs::symlink(target, &path), &path);
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.root);
    }
}

fn must<T>(result: std::io::Result<T>, path: &Path) {
    if let Err(error) = result {
        panic!("{}: {error}", path.display());
    }
}
