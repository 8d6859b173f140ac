//! The packaged drives.

use std::fs;
use std::path::Path;

use skylight_drive::profile::Profile;

/// A packaged profile.
pub fn profile(name: &str) -> Profile {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../python/skylight/profiles/{name}.toml"));
    let text = fs::read_to_string(&path).expect("a profile");
    Profile::from_toml(&text, name).expect("a drive")
}
