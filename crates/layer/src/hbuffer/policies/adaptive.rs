//! The path that costs least, now and later.
//!
//! *Now* is what a write takes, *later* what cleaning it will: the host's for data in the buffer, the drive's for data in its
//! persistent cache. Both come from [`super::costs`].
//!
//! * **In order**, a write goes directly while its zone is one of those that the drive can have open; the policy keeps a list of them,
//!   which leaves an eighth of the drive's number to the log, to cleaning and to what is not a stream. Where the paper's policy
//!   moves all streams to the buffer, this one moves those beyond the list: the others lose nothing by it, and only a part
//!   of the data moves twice. A zone beyond the list is reopened instead where that costs less, as with long writes.
//! * **Out of order**, the first write to a zone brings on a rewrite, each further one little: in the buffer a read of the log in
//!   its order, in the drive's cache a seek. Neither knows how many writes a zone will get. So the drive keeps a zone until
//!   it has cost as much as the host's rewrite would, and then the buffer gets it: at most twice what was best, whatever comes.
//!   The drive rewrites only what lies behind the first piece, the host the whole zone, so few writes near the end of a zone stay
//!   with the drive.
//!
//! Invariant: a zone of which the buffer has data stays with the buffer until it is clean.

use std::collections::BTreeMap;

use skylight_disk::{Nanos, Sectors};

use super::super::policy::{Cleaned, HomeZone, Path, Policy, State, WritePart};
use super::super::streams::WINDOW_WRITES;
use super::costs::{Costs, POSITION_NS, Way};
use super::non_sequential::UNREPORTED_WRITES;
use crate::capabilities::zoned::ZoneModel;

/// One in so many open zones is not for streams. Chosen: the log and a zone that is cleaned take two; with random choices a drive
/// closes zones that are in use once its number is near.
const NOT_FOR_STREAMS: u32 = 8;
/// How much less the buffer has to cost before a stream leaves its open zone, as a factor. Chosen: what leaves has to be cleaned
/// before it can come back.
const MARGIN: f64 = 1.25;
/// How often the drive moves a sector when it cleans: it reads, stages, reads and writes, where a rewrite of the host
/// reads and writes.
const STAGED: f64 = 2.0;

/// What a zone has cost in the drive's cache.
#[derive(Clone, Copy, Debug, Default)]
struct InDrive {
    spent_ns: f64,
    /// The number of the last write.
    last: u64,
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    costs: Costs,
    writes: u64,
    /// Zones with a stream, with the number of the last write of each.
    open: BTreeMap<u32, u64>,
    in_drive: BTreeMap<u32, InDrive>,
    /// How the last part in order gets to its zone, if directly.
    way: Option<Way>,
}

impl Adaptive {
    fn in_order(&mut self, part: &WritePart, state: &State<'_>) -> Path {
        let way = self.open_way(part.zone, state);
        let len = part.extent.len;
        let direct = self.costs.write(way, len);
        let buffer = self.costs.write(Way::Buffer, len) + self.costs.gather(len) + self.costs.append(len);
        let margin = if way == Way::Open { MARGIN } else { 1.0 };
        if direct <= buffer * margin {
            self.way = Some(way);
            return Path::Direct;
        }
        self.open.remove(&part.zone);
        Path::Buffer
    }

    /// Whether the drive has a zone open, or may open it.
    fn open_way(&mut self, zone: u32, state: &State<'_>) -> Way {
        let Some(most) = state.layout.max_open else {
            return Way::Open;
        };
        let most = most.saturating_sub((most / NOT_FOR_STREAMS).max(1)) as usize;
        if !self.open.contains_key(&zone) && self.open.len() >= most {
            let writes = self.writes;
            self.open.retain(|&zone, last| {
                let home = state.homes.zone(zone);
                *last + WINDOW_WRITES > writes && home.written < home.extent.len
            });
            if self.open.len() >= most {
                return Way::Reopened;
            }
        }
        self.open.insert(zone, self.writes);
        Way::Open
    }

    fn out_of_order(&mut self, part: &WritePart, home: &HomeZone) -> Path {
        let writes = self.writes;
        let known = self.in_drive.entry(part.zone).or_default();
        let is_there = home.non_sequential || (known.last > 0 && known.last + UNREPORTED_WRITES > writes);
        if !is_there {
            *known = InDrive::default();
        }
        let spent = known.spent_ns;
        let (drive_later, buffer_later) = self.later(part, home, is_there);
        let len = part.extent.len;
        let drive = self.costs.write(Way::DriveCache, len) + drive_later;
        // What the drive has spent is lost if the zone is rewritten by the host, and is what waiting has cost so far.
        let buffer = self.costs.write(Way::Buffer, len) + self.costs.gather(len).max(buffer_later - spent);
        if buffer < drive {
            self.in_drive.remove(&part.zone);
            return Path::Buffer;
        }
        self.in_drive.insert(part.zone, InDrive { spent_ns: spent + drive_later, last: writes });
        Path::DriveCache
    }

    /// What cleaning costs the drive and the host if this write is in the one's cache or in the other's buffer, ns.
    fn later(&self, part: &WritePart, home: &HomeZone, is_there: bool) -> (f64, f64) {
        let offset = part.extent.start - home.extent.start;
        let end = offset + part.extent.len;
        let pointer = home.written;
        let (drive, host) = if offset >= pointer {
            // What lies between is filled.
            let filled = end - pointer;
            (STAGED * self.costs.append(filled), self.costs.append(filled))
        } else {
            let behind = Sectors(pointer.get().max(end.get()) - offset.get());
            (STAGED * self.costs.rewrite(behind), self.costs.rewrite(pointer))
        };
        let first = if is_there { 0.0 } else { drive };
        (first + POSITION_NS, host + self.costs.gather(part.extent.len))
    }
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn path(&mut self, part: &WritePart, state: &State<'_>) -> Path {
        self.writes += 1;
        self.way = None;
        let home = state.homes.zone(part.zone);
        if home.buffered.get() > 0 || home.cleaning {
            return Path::Buffer;
        }
        if home.continues(part.extent) {
            return self.in_order(part, state);
        }
        if state.layout.model == ZoneModel::HostManaged {
            return Path::Buffer;
        }
        self.out_of_order(part, &home)
    }

    fn took(&mut self, path: Path, part: &WritePart, time: Nanos) {
        let way = match path {
            Path::Buffer => Some(Way::Buffer),
            Path::DriveCache => Some(Way::DriveCache),
            Path::Direct => self.way,
        };
        if let Some(way) = way {
            self.costs.took(way, part.extent.len, time);
        }
    }

    fn cleaned(&mut self, cleaned: &Cleaned) {
        self.costs.cleaned(cleaned);
    }
}

#[cfg(test)]
mod tests {
    use skylight_disk::splitmix64;

    use super::super::fake::{Fake, ZONE};
    use super::*;

    /// Paths of the last of some rounds over streams, a write of `len` sectors each.
    fn last_round(fake: &mut Fake, policy: &mut Adaptive, streams: usize, len: u64) -> Vec<Path> {
        let mut round = |at| (0..streams).map(|zone| fake.write(policy, zone, at * len, len)).collect();
        (0..5).map(&mut round).last().unwrap_or_default()
    }

    fn share(paths: &[Path], path: Path) -> usize {
        paths.iter().filter(|&&one| one == path).count()
    }

    #[test]
    fn few_streams_are_direct_and_too_many_are_divided() {
        for (streams, direct) in [(20, 20), (112, 112), (200, 112)] {
            let paths = last_round(&mut Fake::host_aware(300), &mut Adaptive::default(), streams, 8);
            assert_eq!(share(&paths, Path::Direct), direct, "{streams} streams");
            assert_eq!(share(&paths, Path::Buffer), streams - direct);
        }
    }

    #[test]
    fn long_writes_reopen_zones() {
        let paths = last_round(&mut Fake::host_aware(300), &mut Adaptive::default(), 200, 16 << 10);
        assert_eq!(share(&paths, Path::Direct), 200);
    }

    #[test]
    fn a_stream_that_ended_gives_its_zone_to_another() {
        let (mut fake, mut policy) = (Fake::host_aware(400), Adaptive::default());
        last_round(&mut fake, &mut policy, 112, 8);
        (0..WINDOW_WRITES).for_each(|i| drop(fake.write(&mut policy, 0, 40 + i * 8, 8)));
        assert_eq!(fake.write(&mut policy, 300, 0, 8), Path::Direct);
    }

    #[test]
    fn what_direct_writes_are_seen_to_take_counts() {
        let (mut fake, mut policy) = (Fake::host_aware(300), Adaptive::default());
        for at in 0..100 {
            let path = fake.write(&mut policy, 0, at * 8, 8);
            let part = WritePart { extent: skylight_disk::LbaExtent::default(), zone: 0, in_stream: true };
            let part =
                WritePart { extent: skylight_disk::LbaExtent::new(part.extent.start, Sectors(8)), ..part };
            policy.took(path, &part, Nanos(50_000_000));
        }
        assert_eq!(
            fake.write(&mut policy, 0, 800, 8),
            Path::Buffer,
            "50 ms a write are more than the buffer costs"
        );
    }

    #[test]
    fn zones_that_are_written_at_random_end_up_in_the_buffer() {
        let (mut fake, mut policy) = (Fake::host_aware(8).full(), Adaptive::default());
        let paths: Vec<Path> = (0..20_000)
            .map(|i| {
                let drawn = splitmix64(5, i);
                fake.write(&mut policy, (drawn % 8) as usize, (drawn >> 32) % (ZONE / 8) * 8, 8)
            })
            .collect();
        assert_eq!(share(&paths[10_000..], Path::Buffer), 10_000, "seed 5");
    }

    #[test]
    fn a_write_near_the_end_of_a_full_zone_is_left_to_the_drive() {
        let mut fake = Fake::host_aware(8).full();
        assert_eq!(fake.write(&mut Adaptive::default(), 0, ZONE - 800, 8), Path::DriveCache);
        assert_eq!(fake.write(&mut Adaptive::default(), 1, 8, 8), Path::Buffer);
    }

    #[test]
    fn a_host_managed_drive_gets_nothing_out_of_order() {
        let (mut fake, mut policy) = (Fake::host_managed(8).full(), Adaptive::default());
        assert_eq!(fake.write(&mut policy, 0, ZONE - 800, 8), Path::Buffer);
    }
}
