//! A folder for the files of a test, which goes with it, and the parts of an image in it.

use std::path::{Path, PathBuf};

pub struct Folder(tempfile::TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(tempfile::tempdir().expect("a folder"))
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }
}

/// A part of an image that is in several files.
pub fn beside(path: &Path, number: u64) -> PathBuf {
    PathBuf::from(format!("{}.{number}", path.display()))
}
