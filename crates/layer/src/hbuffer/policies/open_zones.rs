//! The paper's policy: "If there are more streams than the recommended number, the policy will switch all the streams into
//! H-Buffer and perform migration later."
//!
//! What is out of order goes to the drive, which the paper leaves alone. A zone of which the buffer has data stays with the buffer
//! until it is clean: its write pointer is behind the stream.
//! Source: Evaluating Host Aware SMR Drives (HotStorage '16), section 5.

use super::super::policy::{Path, Policy, State, WritePart};

/// See the module page.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenZones;

impl Policy for OpenZones {
    fn name(&self) -> &'static str {
        "open-zones"
    }

    fn path(&mut self, part: &WritePart, state: &State<'_>) -> Path {
        let home = state.homes.zone(part.zone);
        if home.buffered.get() > 0 {
            return Path::Buffer;
        }
        if !home.continues(part.extent) {
            return Path::DriveCache;
        }
        let most = state.layout.max_open.map_or(usize::MAX, |zones| zones as usize);
        if part.in_stream && state.streams.count() > most { Path::Buffer } else { Path::Direct }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn streams_go_to_the_buffer_when_there_are_too_many() {
        for (streams, expected) in [(128, Path::Direct), (129, Path::Buffer)] {
            let mut fake = Fake::host_aware(300);
            let mut last = Vec::new();
            for round in 0..4 {
                last = (0..streams).map(|zone| fake.write(&mut OpenZones, zone, round * 8, 8)).collect();
            }
            assert!(last.iter().all(|&path| path == expected), "{streams} streams: {last:?}");
        }
    }

    #[test]
    fn what_is_out_of_order_is_left_to_the_drive() {
        let mut fake = Fake::host_aware(300);
        assert_eq!(fake.write(&mut OpenZones, 3, 800, 8), Path::DriveCache);
    }

    #[test]
    fn a_zone_with_buffered_data_stays_with_the_buffer() {
        let mut fake = Fake::host_aware(300);
        fake.homes[5].buffered = skylight_disk::Sectors(8);
        assert_eq!(fake.write(&mut OpenZones, 5, 0, 8), Path::Buffer);
    }
}
