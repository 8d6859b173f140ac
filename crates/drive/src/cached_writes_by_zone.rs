//! The cached writes of each zone, so that whatever concerns a zone visits no write of another.
//!
//! The oldest write of a zone is in its entry, as most zones that are written to anywhere have no other; the others are linked behind it. The
//! links lie together, and one that is free serves the next write, so nothing is allocated as long as no more writes are cached.
//! A write over several zones is one of each. The newest write of a zone is known with its run, which what continues it
//! joins ([`crate::write_cache`]); when it has left, nothing continues the zone.
//!
//! Zones lie in a table, in half a cache line each: a host that writes anywhere meets another zone with each command, and
//! the cost is that of the memory. So what a command needs of it is prefetched: the zone, and when that is there the links that it
//! leads to. 120,000 zones take 3.7 MiB, from the first cached write on.
//!
//! Invariants: a zone has an oldest write exactly while a write of it is cached; its writes are in the order of acceptance.

use skylight_command::{Command, CommandId, Op};
use skylight_disk::{Lba, LbaExtent, Sectors};
use skylight_layer::capabilities::zoned::Part;
use skylight_layer::extent_map::prefetch;
use skylight_layer::{ZoneLayout, ZoneSet};

/// The cached writes of one zone.
#[derive(Clone, Copy)]
#[repr(align(32))]
struct OfZone {
    /// The oldest one: its extent, which is empty if there is none, and its number.
    start: Lba,
    len: u32,
    id: CommandId,
    /// The links of the next one and of the newest one; [`END`] if there is only one.
    younger: u32,
    newest: u32,
    /// Where the newest one ends, in sectors from the start of the zone, and its run: while it is cached and ends in the
    /// zone, else 0.
    end: u32,
    run: u32,
}

const _: () = assert!(size_of::<OfZone>() == 32);

/// A zone without cached writes.
const EMPTY: OfZone =
    OfZone { start: Lba(0), len: 0, id: CommandId(0), younger: END, newest: END, end: 0, run: 0 };

impl OfZone {
    #[inline]
    fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The oldest write, if there is one.
    #[inline]
    fn oldest(&self) -> Option<Command> {
        let extent = LbaExtent::new(self.start, Sectors(self.len.into()));
        (!self.is_empty()).then(|| Command::new(self.id, Op::Write, extent))
    }

    #[inline]
    fn set_oldest(&mut self, write: Command) {
        debug_assert!(
            write.extent.len.get() <= u32::MAX.into(),
            "a batch counts the bytes of a command in 32 bits"
        );
        (self.start, self.len, self.id) = (write.extent.start, write.extent.len.get() as u32, write.id);
    }

    /// The run of the newest write, if it ends here.
    #[inline]
    fn continued_at(&self, offset: Sectors) -> Option<u32> {
        (self.end != 0 && u64::from(self.end) == offset.get()).then_some(self.run)
    }
}

/// A cached write that is not the oldest one of its zone, or a free link, whose `next` is the next free one.
#[derive(Clone, Copy)]
struct Link {
    write: Command,
    /// The next younger write of the zone, or [`END`].
    next: u32,
}

/// Behind the last link, and no link of a write.
const END: u32 = 0;

/// After how many more hints what a hint prefetched is in the processor's cache. Chosen: a sixth of the time that a drive
/// gives them ahead, some microseconds.
const HINTS: usize = 8;

/// The writes of a zone, oldest first.
pub(crate) struct Writes<'a> {
    oldest: Option<Command>,
    links: &'a [Link],
    next: u32,
}

impl Writes<'_> {
    /// None.
    pub(crate) const NONE: Self = Writes { oldest: None, links: &[], next: END };
}

impl Iterator for Writes<'_> {
    type Item = Command;

    #[inline]
    fn next(&mut self) -> Option<Command> {
        if let Some(oldest) = self.oldest.take() {
            return Some(oldest);
        }
        if self.next == END {
            return None;
        }
        let link = self.links.get(self.next as usize)?;
        self.next = link.next;
        Some(link.write)
    }
}

/// See the module documentation.
pub(crate) struct ZoneWrites {
    layout: ZoneLayout,
    /// All zones, from the first write on.
    zones: Vec<OfZone>,
    /// Those that have writes.
    occupied: ZoneSet,
    links: Vec<Link>,
    /// The first free link, or [`END`].
    free: u32,
    /// The last zones that were hinted, as a ring.
    hinted: [u32; HINTS],
    hint: usize,
}

impl ZoneWrites {
    pub(crate) fn new(layout: ZoneLayout) -> Self {
        let end = Link { write: Command::new(CommandId(0), Op::Write, LbaExtent::default()), next: END };
        let (zones, occupied, links) = (Vec::new(), ZoneSet::new(0), vec![end]);
        Self { layout, zones, occupied, links, free: END, hinted: [0; HINTS], hint: 0 }
    }

    pub(crate) fn layout(&self) -> &ZoneLayout {
        &self.layout
    }

    /// Prefetches what is known of a zone in which a write is accepted or leaves soon: the zone, and the links of the zone that was
    /// hinted some hints ago, which is there by now.
    #[inline]
    pub(crate) fn prefetch(&mut self, lba: Lba) {
        let zone = self.layout.zone_of(lba);
        let before = std::mem::replace(&mut self.hinted[self.hint], zone);
        self.hint = (self.hint + 1) % HINTS;
        let (Some(zone), Some(before)) = (self.zones.get(zone as usize), self.zones.get(before as usize))
        else {
            return;
        };
        prefetch(zone, size_of::<OfZone>());
        for link in [before.younger, before.newest] {
            prefetch(&self.links[link as usize], size_of::<Link>());
        }
    }

    /// All writes of a zone, oldest first.
    #[inline]
    fn writes(&self, zone: u32) -> Writes<'_> {
        let of_zone = self.zones.get(zone as usize).unwrap_or(&EMPTY);
        Writes { oldest: of_zone.oldest(), links: &self.links, next: of_zone.younger }
    }

    /// The run of the newest write of a zone, if a write continues that.
    #[inline]
    pub(crate) fn continued_run(&self, extent: LbaExtent) -> Option<u32> {
        let (zone, offset) = self.layout.place_of(extent.start);
        self.zones.get(zone as usize)?.continued_at(offset)
    }

    /// The zones of a write, which is not empty.
    #[inline]
    fn zones_of(&self, extent: LbaExtent) -> impl Iterator<Item = u32> + use<> {
        self.layout.parts(extent).map(|part| part.zone)
    }

    /// A write was accepted. It belongs to the run that `run_of` gives, of the run that it continues in its zone; returns that.
    #[inline]
    pub(crate) fn accept(&mut self, write: Command, run_of: impl FnOnce(Option<u32>) -> u32) -> u32 {
        if self.zones.is_empty() {
            self.zones = vec![EMPTY; self.layout.zones as usize];
            self.occupied = ZoneSet::new(self.layout.zones);
        }
        let mut parts = self.layout.parts(write.extent);
        let Some(Part { zone, offset, .. }) = parts.next() else { return run_of(None) };
        let of_zone = &mut self.zones[zone as usize];
        let run = run_of(of_zone.continued_at(offset));
        (of_zone.end, of_zone.run) = (end_in(&self.layout, offset, write.extent), run);
        self.append(zone, write);
        parts.for_each(|part| self.append(part.zone, write));
        run
    }

    /// Appends a write to those of a zone.
    #[inline]
    fn append(&mut self, zone: u32, write: Command) {
        let of_zone = &mut self.zones[zone as usize];
        if of_zone.is_empty() {
            of_zone.set_oldest(write);
            return self.occupied.insert(zone);
        }
        let link = Link { write, next: END };
        let at = if self.free == END {
            self.links.push(link);
            self.links.len() as u32 - 1
        } else {
            let at = self.free;
            self.free = std::mem::replace(&mut self.links[at as usize], link).next;
            at
        };
        match std::mem::replace(&mut of_zone.newest, at) {
            END => of_zone.younger = at,
            before => self.links[before as usize].next = at,
        }
    }

    /// A write that belongs to a run has left.
    #[inline]
    pub(crate) fn remove(&mut self, write: Command, run: u32) {
        let mut parts = self.layout.parts(write.extent);
        let Some(Part { zone, offset, .. }) = parts.next() else { return };
        let end = end_in(&self.layout, offset, write.extent);
        if let Some(of_zone) = self.zones.get_mut(zone as usize)
            && (of_zone.end, of_zone.run) == (end, run)
        {
            of_zone.end = 0;
        }
        self.unlink(zone, write.id);
        parts.for_each(|part| self.unlink(part.zone, write.id));
    }

    /// Removes a write from those of a zone.
    #[inline]
    fn unlink(&mut self, zone: u32, id: CommandId) {
        let Some(of_zone) = self.zones.get_mut(zone as usize).filter(|of_zone| !of_zone.is_empty()) else {
            return;
        };
        let (mut before, mut at) = (END, of_zone.younger);
        if of_zone.id != id {
            while at != END && self.links[at as usize].write.id != id {
                (before, at) = (at, self.links[at as usize].next);
            }
            if at == END {
                return;
            }
        } else if at == END {
            *of_zone = EMPTY;
            return self.occupied.remove(zone);
        } else {
            of_zone.set_oldest(self.links[at as usize].write);
        }
        let next = std::mem::replace(&mut self.links[at as usize].next, self.free);
        self.free = at;
        match before {
            END => of_zone.younger = next,
            before => self.links[before as usize].next = next,
        }
        if next == END {
            of_zone.newest = before;
        }
    }

    /// The cached writes of the zone of a sector, oldest first.
    #[inline]
    pub(crate) fn of_zone(&self, lba: Lba) -> Writes<'_> {
        self.writes(self.layout.zone_of(lba))
    }

    /// The oldest cached write that is older than this one and has to leave before it: one to the same zone with a write
    /// pointer, or one that overlaps it.
    #[inline]
    pub(crate) fn oldest_before(&self, write: Command) -> Option<CommandId> {
        let age = |other: &Command| write.id.0.wrapping_sub(other.id.0);
        let with_older = self.zones_of(write.extent).filter(|&zone| {
            let of_zone = self.zones.get(zone as usize);
            of_zone.is_some_and(|of_zone| of_zone.id != write.id)
        });
        let older = with_older.filter_map(|zone| {
            let touched = self.layout.touched(&write);
            let mut older = self.writes(zone).take_while(|other| other.id != write.id);
            older.find(|other| touched.overlaps(other.extent))
        });
        older.max_by_key(age).map(|other| other.id)
    }

    /// The oldest cached write that begins in each zone, in the order of zones.
    pub(crate) fn oldest_of_each(&self) -> impl Iterator<Item = (u32, Command)> {
        self.occupied.iter().filter_map(|zone| Some((zone, self.oldest_in(zone)?)))
    }

    /// The oldest cached write that begins in a zone.
    pub(crate) fn oldest_in(&self, zone: u32) -> Option<Command> {
        let start = self.layout.start_of(zone);
        self.writes(zone).find(|write| write.extent.start >= start)
    }
}

/// Where a write ends that begins this far into a zone, in sectors from the start of the zone; 0 if beyond it.
#[inline]
fn end_in(layout: &ZoneLayout, offset: Sectors, extent: LbaExtent) -> u32 {
    let end = offset + extent.len;
    if end < layout.zone { end.get() as u32 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use skylight_command::Op;
    use skylight_disk::Sectors;
    use skylight_layer::ZoneModel;

    const ZONE: u64 = 80;

    /// The same of a list of all cached writes.
    fn oldest_before(layout: &ZoneLayout, cached: &[(Command, u32)], write: &Command) -> Option<CommandId> {
        let older = cached.iter().map(|(other, _)| other).take_while(|other| other.id != write.id);
        let mut ordered = older.filter(|other| layout.touched(other).overlaps(layout.touched(write)));
        ordered.next().map(|other| other.id)
    }

    proptest! {
        #[test]
        fn it_finds_what_a_search_of_all_cached_writes_finds(
            writes in prop::collection::vec((0u64..720, 1u64..200, 0u32..4, any::<prop::sample::Index>()), 1..60),
            leaves in prop::collection::vec(any::<bool>(), 60),
        ) {
            let mut layout = ZoneLayout::new(ZoneModel::HostAware, Sectors(10 * ZONE), Sectors(ZONE));
            layout.conventional = 3;
            let mut zones = ZoneWrites::new(layout);
            let mut cached: Vec<(Command, u32)> = Vec::new();
            // Write numbers wrap around.
            let ids = (0..).map(|id: u32| CommandId(id.wrapping_sub(7)));
            for ((id, &(start, len, run, index)), &leaves) in ids.zip(&writes).zip(&leaves) {
                let extent = LbaExtent::new(Lba(start), Sectors(len.min(10 * ZONE - start)));
                let write = Command::new(id, Op::Write, extent);
                zones.accept(write, |_| run);
                cached.push((write, run));
                if leaves {
                    let (gone, run) = cached.remove(index.index(cached.len()));
                    zones.remove(gone, run);
                }
                for (write, _) in &cached {
                    prop_assert_eq!(zones.oldest_before(*write), oldest_before(&layout, &cached, write));
                }
                let mut each: Vec<_> = zones.oldest_of_each().collect();
                each.sort_unstable_by_key(|&(zone, _)| zone);
                let expected = (0..10).filter_map(|zone| {
                    let begins = |write: &&Command| layout.zone_of(write.extent.start) == zone;
                    Some((zone, *cached.iter().map(|(write, _)| write).find(begins)?))
                });
                prop_assert_eq!(each, expected.collect::<Vec<_>>());
                for zone in 0..10 {
                    let start = layout.start_of(zone);
                    let in_zone = |write: &Command| write.extent.overlaps(layout.extent_of(zone));
                    let expected: Vec<_> = cached.iter().map(|&(write, _)| write).filter(in_zone).collect();
                    prop_assert_eq!(zones.of_zone(start).collect::<Vec<_>>(), expected);
                }
            }
        }
    }
}
