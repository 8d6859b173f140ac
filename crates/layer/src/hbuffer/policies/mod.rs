//! The policies besides the static ones, and all of them by name.
//!
//! * [`open_zones`]: the paper's: more sequential streams than open zones go to the buffer.
//! * [`non_sequential_zone_limit`]: few zones are out of order in the drive at any time.
//! * [`adaptive`]: the path that costs least, now and later; [`costs`] are what it has seen of the drive,
//!   [`hot_zones`] which zones the host overwrites again and again, and how long they wait for their rewriting.

pub mod adaptive;
pub mod costs;
pub mod hot_zones;
pub mod non_sequential_zone_limit;
pub mod open_zones;

#[cfg(test)]
pub(crate) mod fake;

use super::policy::{Path, Policy, Static};
use adaptive::Adaptive;
use non_sequential_zone_limit::NonSequential;
use open_zones::OpenZones;

/// The names of all policies, the static ones first.
pub const NAMES: [&str; 6] = ["direct", "drive-cache", "buffer", "open-zones", "non-sequential", "adaptive"];

/// A new policy by its name; `None` if there is no such policy.
pub fn by_name(name: &str) -> Option<Box<dyn Policy>> {
    Some(match name {
        "direct" => Box::new(Static(Path::Direct)),
        "drive-cache" => Box::new(Static(Path::DriveCache)),
        "buffer" => Box::new(Static(Path::Buffer)),
        "open-zones" => Box::new(OpenZones),
        "non-sequential" => Box::new(NonSequential::default()),
        "adaptive" => Box::new(Adaptive::default()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn policies_have_their_names() {
        for name in NAMES {
            assert_eq!(by_name(name).map(|policy| policy.name()), Some(name));
        }
        assert!(by_name("").is_none());
    }
}
