//! What a drive with zones declares of them: its model, and the size and capacity of its zones.

use super::finding::{Right, TrueFinding};
use crate::profile::{Layer, Profile, ZoneModel};

/// The findings of a drive with zones; none for any other.
pub(super) fn findings(profile: &Profile) -> Vec<TrueFinding> {
    let Layer::Zoned(keys) = &profile.layer else { return Vec::new() };
    let model = match keys.model {
        ZoneModel::HostManaged => "host-managed",
        ZoneModel::HostAware => "host-aware",
    };
    let zones = profile.capacity.get().div_ceil(keys.zone_size.get());
    let capacity = keys.zone_capacity.unwrap_or(keys.zone_size);
    let none = (u64::from(keys.conventional_zones) >= zones)
        .then(|| "no zone of the drive has a write pointer".to_owned());
    let bytes = |name, bytes, why| TrueFinding::number(name, (bytes, "bytes"), Right::Equal, why);
    vec![
        TrueFinding::word("zone_model", model, "the drive declares it"),
        bytes("zone_bytes", keys.zone_size.get(), "the report of zones has it"),
        bytes("zone_capacity_bytes", capacity.get(), "the report of zones has it").unless(none),
    ]
}
