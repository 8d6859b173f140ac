//! Few zones are out of order in the drive: as many as it recommends; writes out of order to further zones go to the buffer.
//!
//! "Designers for HA-SMR systems should keep the number of non-sequential zones as few as possible to avoid this severe performance
//! degradation." What is in order goes directly to its zone. A drive that takes nothing out of order recommends no number, and
//! all of it goes to the buffer.
//!
//! Invariant: at most the recommended number of zones is sent to the drive's cache, and another zone only after the drive
//! reports one of them clean; a volatile cache hides that for [`UNREPORTED_WRITES`] writes.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), section 3.3.

use std::collections::BTreeMap;

use super::super::policy::{Path, Policy, State, WritePart};

/// Writes for which a zone counts as out of order though the drive does not report it: they may be in a volatile cache. Chosen:
/// more writes than such caches hold out of order (127 in the drive that was measured).
pub const UNREPORTED_WRITES: u64 = 1024;

/// See the module page.
#[derive(Clone, Debug, Default)]
pub struct NonSequential {
    /// Zones with data in the drive's cache, with the number of their last write.
    zones: BTreeMap<u32, u64>,
    writes: u64,
}

impl Policy for NonSequential {
    fn name(&self) -> &'static str {
        "non-sequential"
    }

    fn path(&mut self, part: &WritePart, state: &State<'_>) -> Path {
        self.writes += 1;
        let home = state.homes.zone(part.zone);
        if home.buffered.get() > 0 {
            return Path::Buffer;
        }
        if home.continues(part.extent) {
            return Path::Direct;
        }
        let most = state.layout.recommended_non_sequential.unwrap_or(0) as usize;
        if self.zones.len() >= most && !self.zones.contains_key(&part.zone) {
            let writes = self.writes;
            self.zones.retain(|&zone, last| {
                state.homes.zone(zone).non_sequential || *last + UNREPORTED_WRITES > writes
            });
            if self.zones.len() >= most {
                return Path::Buffer;
            }
        }
        self.zones.insert(part.zone, self.writes);
        Path::DriveCache
    }
}

#[cfg(test)]
mod tests {
    use skylight_disk::splitmix64;

    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn no_more_zones_than_recommended_are_out_of_order() {
        let (mut fake, mut policy) = (Fake::host_aware(256), NonSequential::default());
        for i in 0..10_000 {
            let drawn = splitmix64(11, i);
            fake.write(&mut policy, (drawn % 256) as usize, 1 + (drawn >> 32) % 4000 * 8, 8);
        }
        assert_eq!(fake.counts().non_sequential, 8, "seed 11");
    }

    #[test]
    fn a_clean_zone_makes_room_for_another() {
        let (mut fake, mut policy) = (Fake::host_aware(256), NonSequential::default());
        let first: Vec<Path> = (0..10).map(|zone| fake.write(&mut policy, zone, 80, 8)).collect();
        assert_eq!(first[7..], [Path::DriveCache, Path::Buffer, Path::Buffer]);
        fake.homes[0].non_sequential = false;
        assert_eq!(fake.write(&mut policy, 20, 80, 8), Path::Buffer, "it may be in the volatile cache still");
        for i in 0..UNREPORTED_WRITES {
            fake.write(&mut policy, 30, i * 8, 8);
        }
        assert_eq!(fake.write(&mut policy, 21, 80, 8), Path::DriveCache);
        assert_eq!(fake.write(&mut policy, 22, 80, 8), Path::Buffer);
    }

    #[test]
    fn order_is_direct_and_a_host_managed_drive_gets_nothing_else() {
        let (mut fake, mut policy) = (Fake::host_managed(256), NonSequential::default());
        assert_eq!(fake.write(&mut policy, 1, 0, 8), Path::Direct);
        assert_eq!(fake.write(&mut policy, 1, 800, 8), Path::Buffer);
    }
}
