//! What the volatile cache owes to the persistent one: writes that find no room in their part of it until bands are cleaned.
//!
//! A full part is emptied in one go, in minutes; a full journal has a band cleaned for each write, in seconds, and there are
//! thousands of writes. A drive that took any number of them would let one FLUSH wait for hours, and no host is as patient.
//! So once it has taken a write for which a host would wait too long ([`Layer::room`]), it takes no other before that has
//! left: what a FLUSH waits for is one part, or as many bands as fit a host's patience, and the writes themselves.
//!
//! A drive with zones has room for a write in order whatever its persistent cache holds. Which writes are in order is known
//! when they are admitted, so those that take no room are remembered until they leave. Writes to a zone leave in the order in
//! which they came, so of two that begin at one sector the one in order is gone before the other.
//!
//! Invariant: of the parts with cached writes, at most one lacks room for them, but for a write that extends over several.
//! Source: chosen; the layer of Skylight (FAST'15), section 3.1, has no volatile cache, and its section 4 says nothing of
//! what the drives' volatile caches hold.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use skylight_disk::{BLOCK_SECTORS, Lba, LbaExtent, Sectors};
use skylight_layer::{Layer, Room};

/// See the module documentation.
#[derive(Clone, Debug, Default)]
pub(crate) struct OwedCleaning {
    /// The cached writes of part 0, which is all of a cache without parts, and of each other one that has any. A write
    /// counts where it begins.
    first: Cached,
    others: BTreeMap<u32, Cached>,
    /// A part that lacks room for them.
    owing: Option<u32>,
    /// Where those begin that take no room, and how many do so there.
    in_order: BTreeMap<Lba, u32>,
}

/// The cached writes of a part.
#[derive(Clone, Copy, Debug, Default)]
struct Cached {
    sectors: Sectors,
    writes: u64,
}

impl Cached {
    fn fits(self, room: Option<Room>) -> bool {
        room.is_none_or(|room| self.sectors <= room.sectors && self.writes <= room.writes)
    }
}

impl OwedCleaning {
    /// For a layer that cleans for a write.
    pub(crate) fn of(layer: &dyn Layer) -> Option<Self> {
        layer.room(Lba(0)).map(|_| Self::default())
    }

    /// Whether a part lacks room for its cached writes.
    #[inline]
    pub(crate) fn is_owing(&self) -> bool {
        self.owing.is_some()
    }

    #[inline]
    fn part(&mut self, part: u32) -> &mut Cached {
        if part == 0 { &mut self.first } else { self.others.entry(part).or_default() }
    }

    /// A write is cached, which takes room or does not ([`Layer::takes_room`]).
    pub(crate) fn accepted(&mut self, extent: LbaExtent, takes_room: bool, layer: &dyn Layer) {
        if !takes_room {
            *self.in_order.entry(extent.start).or_default() += 1;
            return;
        }
        let part = layer.location_group(extent.start);
        let cached = self.part(part);
        cached.sectors += space(extent);
        cached.writes += 1;
        if !cached.fits(layer.room(extent.start)) {
            self.owing = Some(part);
        }
    }

    /// A cached write has left.
    pub(crate) fn destaged(&mut self, extent: LbaExtent, layer: &dyn Layer) {
        if let Entry::Occupied(mut entry) = self.in_order.entry(extent.start) {
            *entry.get_mut() -= 1;
            if *entry.get() == 0 {
                entry.remove();
            }
            return;
        }
        let part = layer.location_group(extent.start);
        let cached = self.part(part);
        cached.sectors = cached.sectors - space(extent);
        cached.writes -= 1;
        let left = *cached;
        if left.writes == 0 && part > 0 {
            self.others.remove(&part);
        }
        if self.owing == Some(part) && left.fits(layer.room(extent.start)) {
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

    fn drive_of(text: &str) -> Drive {
        let profile = Profile::from_toml(text, "test").unwrap_or_else(|error| panic!("{error}"));
        Drive::new(&profile, 7).expect("it is a drive")
    }

    /// A journaled drive whose bands take some ten seconds to clean: 32 blocks that waited together share a place, so that one place is
    /// freed by 32 bands. Its commands of 1 MiB need five places.
    fn journaled_drive() -> Drive {
        let text = include_str!("../../../python/skylight/profiles/st5000as0011.toml");
        let text: Vec<&str> =
            text.lines().filter(|line| !line.trim_start().starts_with("{ band =")).collect();
        let text = (text.join("\n").replace("bands = [", "bands = [{ band = \"300 MiB\" },"))
            .replace("places = 24272", "places = 60")
            .replace("quantum = \"864 KiB\"", "quantum = \"216 KiB\"")
            .replace("write_cache_runs = 127", "");
        drive_of(&text)
    }

    #[test]
    fn no_command_waits_for_hundreds_of_bands_of_a_full_journal() {
        let mut drive = journaled_drive();
        let blocks = drive.capacity().get() / 8;
        let mut at = 0;
        let mut extent = |blocks_long: u64| {
            at = (at + 0x9E37_79B9) % (blocks - 256);
            LbaExtent::new(Lba(at * 8), Sectors(blocks_long * 8))
        };
        // Blocks that wait together, all over the drive, until the journal is full.
        for _ in 0..60 {
            for _ in 0..31 {
                took(&mut drive, Op::Write, extent(1));
            }
            took(&mut drive, Op::Flush, LbaExtent::default());
        }
        let mut longest = 0;
        for _ in 0..48 {
            longest = longest.max(took(&mut drive, Op::Write, extent(256)));
        }
        longest = longest.max(took(&mut drive, Op::Flush, LbaExtent::default()));
        assert!(longest > 20_000_000_000, "no command waited for bands: {longest} ns");
        // Three minutes, and what is done beside that.
        assert!(longest < 2 * 180_000_000_000, "a command waited {longest} ns");
    }

    /// A host-aware drive without a throttle, whose journal of 60 slots is full soon.
    fn host_aware_drive() -> Drive {
        let text = include_str!("../../../python/skylight/profiles/st8000as0022.toml");
        let text: Vec<&str> = text.lines().filter(|line| !line.starts_with("throttle")).collect();
        let text = (text.join("\n").replace("places = 37163", "places = 60"))
            .replace("zone_size = \"256 MiB\"", "zone_size = \"1 GiB\"")
            .replace("map_entries = 250000", "map_entries = 100000");
        drive_of(&text)
    }

    #[test]
    fn no_command_waits_for_dozens_of_zones_of_a_host_aware_drive() {
        const ZONE: u64 = (1 << 30) / 512;
        let mut drive = host_aware_drive();
        let first = drive.capacity().get() / ZONE / 2;
        let block = |zone: u64| LbaExtent::new(Lba((first + zone) * ZONE + ZONE / 2), Sectors(8));
        // Alone, each takes a slot.
        for zone in 0..60 {
            took(&mut drive, Op::Write, block(zone));
            took(&mut drive, Op::Flush, LbaExtent::default());
        }
        let mut longest = 0;
        for zone in 60..160 {
            longest = longest.max(took(&mut drive, Op::Write, block(zone)));
        }
        longest = longest.max(took(&mut drive, Op::Flush, LbaExtent::default()));
        assert!(longest > 10_000_000_000, "no command waited for a zone: {longest} ns");
        assert!(longest < 2 * 180_000_000_000, "a command waited {longest} ns");
    }

    #[test]
    fn a_reserve_takes_as_much_of_large_writes_as_it_has_slots() {
        let text = include_str!("../../../python/skylight/profiles/st8000as0022.toml");
        let text = text
            .replace("places = 37163", "places = 600")
            .replace("place_watermark = 0.94", "place_watermark = 0.5");
        let drive = drive_of(&text);
        let room = drive.layer().room(Lba(0)).expect("it cleans for a write");
        let slots = room.sectors.bytes() / (864 << 10);
        // Each zone that is cleaned while a host has patience, in seven seconds or so, lets an entry of 15 slots in.
        assert!(slots > 500, "as many are free or in the reserve, but room for {slots}");
        assert!(slots < 600 + 30 * 15, "room for {slots} slots of 600");
    }

    #[test]
    fn writes_in_order_take_no_room() {
        let drive = host_aware_drive();
        let layer = drive.layer();
        let mut owed = OwedCleaning::of(layer).expect("it cleans for a write");
        let extent = LbaExtent::new(Lba(0), Sectors(1 << 21));
        owed.accepted(extent, false, layer);
        owed.accepted(extent, false, layer);
        assert!(!owed.is_owing());
        owed.accepted(extent, true, layer);
        assert!(owed.is_owing(), "a GiB out of order is more than it has slots for");
        (0..3).for_each(|_| owed.destaged(extent, layer));
        assert!(!owed.is_owing());
        assert!(owed.in_order.is_empty());
    }
}
