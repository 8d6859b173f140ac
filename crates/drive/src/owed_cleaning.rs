//! What the volatile cache owes to a persistent cache in parts: writes that find no room in their part until it is cleaned.
//!
//! A full part is emptied in one go, in minutes. A drive that took any number of writes would let one FLUSH wait for every
//! part, hours in all, and no host is as patient. So once it has taken a write for which a part must be cleaned, it takes
//! no other before that has left: what a FLUSH waits for is one part, and the writes themselves.
//!
//! Invariant: of the parts with cached writes, at most one lacks room for them, but for a write that extends over several.
//! Source: chosen; the layer of Skylight (FAST'15), section 3.1, has no volatile cache.

use std::collections::BTreeMap;

use skylight_disk::{BLOCK_SECTORS, Lba, LbaExtent, Sectors};
use skylight_layer::Layer;

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwedCleaning {
    /// Sectors of the cached writes of each part that has any: a write counts where it begins.
    cached: BTreeMap<u32, Sectors>,
    /// A part that lacks room for them.
    owing: Option<u32>,
}

impl OwedCleaning {
    /// For a layer whose cache has parts.
    pub(crate) fn of(layer: &dyn Layer) -> Option<Self> {
        layer.room(Lba(0)).map(|_| Self::default())
    }

    /// Whether a part lacks room for its cached writes.
    #[inline]
    pub(crate) fn is_owing(&self) -> bool {
        self.owing.is_some()
    }

    /// A write is cached.
    pub(crate) fn accepted(&mut self, extent: LbaExtent, layer: &dyn Layer) {
        let part = layer.location_group(extent.start);
        let cached = self.cached.entry(part).or_default();
        *cached += space(extent);
        if layer.room(extent.start).is_some_and(|room| room < *cached) {
            self.owing = Some(part);
        }
    }

    /// A cached write has left.
    pub(crate) fn destaged(&mut self, extent: LbaExtent, layer: &dyn Layer) {
        let part = layer.location_group(extent.start);
        let cached = self.cached.entry(part).or_default();
        *cached = *cached - space(extent);
        let left = *cached;
        if left == Sectors(0) {
            self.cached.remove(&part);
        }
        if self.owing == Some(part) && layer.room(extent.start).is_none_or(|room| left <= room) {
            self.owing = None;
        }
    }
}

/// What a write takes of a part: whole blocks.
fn space(extent: LbaExtent) -> Sectors {
    Sectors(extent.len.get().next_multiple_of(BLOCK_SECTORS))
}

#[cfg(test)]
mod tests {
    use skylight_command::{Command, CommandId, Op, Outcome};
    use skylight_disk::Time;

    use super::*;
    use crate::Drive;
    use crate::profile::Profile;

    const BAND: u64 = (40 << 20) / 512;
    const PARTS: u64 = 4;
    /// Data bands of a part that have one cached block and more.
    const DATA_BANDS: u64 = 50;

    /// Emulated-SMR-1 with a cache of four bands.
    fn drive() -> Drive {
        let text = include_str!("../../../python/skylight/profiles/emulated-smr-1.toml")
            .replace("37.2 GiB", "160 MiB")
            .replace("queue_depth = 31", "queue_depth = 31\nwrite_cache = \"64 MiB\"");
        let profile = Profile::from_toml(&text, "test").unwrap_or_else(|error| panic!("{error}"));
        Drive::new(&profile, 7).expect("it is a drive")
    }

    /// Runs a command and returns what it takes.
    fn took(drive: &mut Drive, op: Op, extent: LbaExtent) -> u64 {
        let before = drive.now();
        assert_eq!(drive.run_command(Command::new(CommandId(0), op, extent)), Outcome::Done);
        (drive.now() - before).get()
    }

    /// The block `index` of what is written to a part: in turns to its data bands.
    fn block(part: u64, index: u64) -> LbaExtent {
        let band = part + PARTS * (index % DATA_BANDS);
        LbaExtent::new(Lba(band * BAND + index / DATA_BANDS * 8), Sectors(8))
    }

    #[test]
    fn a_flush_waits_for_one_part_however_many_lack_room() {
        let mut drive = drive();
        let blocks = BAND / 8;
        drive.set_write_cache(false);
        for part in 0..PARTS {
            for index in 0..blocks - 1 {
                took(&mut drive, Op::Write, block(part, index));
            }
        }
        drive.set_write_cache(true);
        let began: Time = drive.now();
        let mut longest = 0;
        for index in blocks - 1..blocks + 2 {
            for part in 0..PARTS {
                longest = longest.max(took(&mut drive, Op::Write, block(part, index)));
            }
        }
        longest = longest.max(took(&mut drive, Op::Flush, LbaExtent::default()));
        // Each part is emptied once, and takes more than a hundred times as long as all else.
        let all = (drive.now() - began).get();
        assert!(all > 4 * 20_000_000_000, "no part was cleaned: {all} ns");
        assert!(longest < all * 2 / 5, "one command waited {longest} of {all} ns");
    }
}
