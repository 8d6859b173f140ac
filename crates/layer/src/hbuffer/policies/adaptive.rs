//! The path that costs least, now and later.
//!
//! *Now* is what a write takes, *later* what cleaning it will: the host's for data in the buffer, the drive's for data in its
//! persistent cache. Both come from [`super::costs`].
//!
//! * **In order**, a write goes directly while no more zones are written than the drive can have open, less a few for the log and
//!   for cleaning. With more, closing one zone for another costs some seeks a write, and streams go to the buffer, all of them: those that
//!   stayed direct would share the drive's volatile cache with the log, and their runs would be short. Long
//!   writes go directly all the same where reopening costs less than moving the data twice. A zone that a drive has once opened
//!   costs it time for as long as it is open, so new streams go to the buffer first, until no further one has come for
//!   a while; if they are few they are cleaned then, which is little, and go on directly. Where even too many would go directly, there
//!   is nothing to wait for.
//! * **Out of order**, the first write to a zone brings on a rewrite, each further one little. The drive rewrites what lies behind
//!   the first piece, in steps and through a staging area, and seeks for each piece; the host rewrites the whole zone, once, from
//!   memory. So the drive gets what is near the end of a zone, if zones get one write each; what it costs to be wrong about
//!   that is a seek for each further write, so until zones are known to get few the buffer gets all.
//! * **In idle time** a zone that has to be rewritten waits until the host has probably done with it ([`super::hot_zones`]), while less
//!   than half of the log and of the map is used. What idle time is left unused goes, up to a share of all time, to those that have been silent longest. A zone that was only ever appended to is moved once, whenever that is, and does not
//!   wait; one that was overwritten before waits also when it only has to be appended to.
//!
//! Invariant: a zone of which the buffer has data stays with the buffer until it is clean.

use std::collections::{BTreeMap, VecDeque};

use skylight_disk::{Nanos, Sectors, Time};

use super::super::policy::{Cleaned, HomeZone, Occasion, Path, Policy, State, WritePart};
use super::super::streams::WINDOW_WRITES;
use super::costs::{Costs, POSITION_NS, Way};
use super::hot_zones::{Allowance, Silences};
use crate::capabilities::zoned::ZoneModel;

/// One in so many open zones is not for streams. Chosen: the log and zones that are cleaned take two, and one number may be meant
/// with or without its end.
const NOT_FOR_STREAMS: u32 = 32;
/// What it is taken to cost that a host-aware drive closes a zone, until that was seen, ns: the heads go to the zone, to where the
/// drive notes that it is closed, and back. "Such resource deallocation operation will synchronize the zone meta-data,
/// incurring expensive disk persistence operation" (section 2).
const CLOSING_NS: f64 = 2.0 * POSITION_NS;
/// How often it is looked which zones are still written, in writes. Chosen: so that looking costs nothing.
const LOOK_WRITES: u64 = 64;
/// New streams go to the buffer until none was new for so many writes. Chosen: as many as a drive has open zones; if so many writes
/// in a row go to known zones, there are hardly more zones than that.
const PROBATION_WRITES: u64 = 128;
/// How often the drive moves a sector when it cleans, for each time that the host does: it reads, stages, reads and writes.
const STAGED: f64 = 2.0;
/// By what factor the drive's cleaning has to cost less, since it is a guess: how a drive goes about it is not seen. Chosen: a drive
/// with little memory seeks between each two of its four moves.
const UNSEEN: f64 = 1.5;
/// Writes out of order before it is known how many a zone gets. Chosen: a sixteenth of the window.
const LEARNT_WRITES: usize = 256;
/// A zone gets one write, if zones get fewer on average. Chosen: half of them get no second one.
const LONE: f64 = 1.5;

/// How many writes out of order a zone gets, over the last [`WINDOW_WRITES`] of them.
#[derive(Clone, Debug, Default)]
struct Scatter {
    zones: VecDeque<u32>,
    writes: BTreeMap<u32, u32>,
}

impl Scatter {
    fn note(&mut self, zone: u32) {
        self.zones.push_back(zone);
        *self.writes.entry(zone).or_default() += 1;
        if self.zones.len() as u64 > WINDOW_WRITES
            && let Some(oldest) = self.zones.pop_front()
            && let Some(writes) = self.writes.get_mut(&oldest)
        {
            *writes -= 1;
            if *writes == 0 {
                self.writes.remove(&oldest);
            }
        }
    }

    /// Whether zones are known to get one write each, by and large.
    fn is_lone(&self) -> bool {
        let per_zone = self.zones.len() as f64 / self.writes.len().max(1) as f64;
        self.zones.len() >= LEARNT_WRITES && per_zone < LONE
    }
}

/// See the module page.
#[derive(Clone, Debug, Default)]
pub struct Adaptive {
    costs: Costs,
    writes: u64,
    /// Zones that are written in order, with the number of the last write of each.
    in_order: BTreeMap<u32, u64>,
    /// The most of these of late, when there were so many for the first time, and when last.
    most_in_order: usize,
    grown_at: u64,
    reached_at: u64,
    /// New zones whose data is in the buffer until it is known how many there are.
    probation: Vec<u32>,
    /// How the latest part in order would get to its zone, and how long it was.
    latest: (Way, Sectors),
    scatter: Scatter,
    silences: Silences,
    allowance: Allowance,
    /// A zone that has not waited to the end is being cleaned, at the expense of the allowance.
    is_early: bool,
    /// How the last part in order gets to its zone, if directly.
    way: Option<Way>,
}

impl Adaptive {
    /// Notes that a zone is written in order. Whether the drive has it open, or may open it.
    fn open_way(&mut self, zone: u32, state: &State<'_>) -> Way {
        let Some(most) = state.layout.max_open else {
            return Way::Open;
        };
        let most = most.saturating_sub((most / NOT_FOR_STREAMS).max(1)) as usize;
        self.in_order.insert(zone, self.writes);
        if self.writes.is_multiple_of(LOOK_WRITES) {
            let writes = self.writes;
            self.in_order.retain(|&zone, last| {
                let home = state.homes.zone(zone);
                *last + WINDOW_WRITES > writes && home.written < home.extent.len
            });
        }
        self.note_growth();
        if self.in_order.len() > most { Way::Reopened } else { Way::Open }
    }

    /// Notes whether more zones are written in order than at any time in the window.
    fn note_growth(&mut self) {
        let zones = self.in_order.len();
        if zones > self.most_in_order {
            self.grown_at = self.writes;
        }
        if zones >= self.most_in_order || self.writes - self.reached_at > WINDOW_WRITES {
            (self.most_in_order, self.reached_at) = (zones, self.writes);
        }
    }

    /// Whether it is not known yet how many streams there are.
    fn is_growing(&self) -> bool {
        self.writes - self.grown_at < PROBATION_WRITES
    }

    /// Whether the way of writes of this length depends on how many streams there are.
    fn number_matters(&self, len: Sectors) -> bool {
        !self.is_direct_cheaper(Way::Reopened, len)
    }

    fn is_direct_cheaper(&self, way: Way, len: Sectors) -> bool {
        let moved = self.costs.gather(len) + self.costs.append(len);
        self.costs.write(way, len) <= self.costs.write(Way::Buffer, len) + moved
    }

    fn path_in_order(&mut self, part: &WritePart, home: &HomeZone, way: Way) -> Path {
        if home.written.get() == 0 && self.is_growing() && self.number_matters(part.extent.len) {
            self.probation.push(part.zone);
            return Path::Buffer;
        }
        if !self.is_direct_cheaper(way, part.extent.len) {
            return Path::Buffer;
        }
        self.way = Some(way);
        Path::Direct
    }

    fn rewriting(&self, home: &HomeZone) -> Nanos {
        Nanos(self.costs.rewrite(home.written) as u64)
    }

    /// Notes that a zone will have to be rewritten, if the write does not lie behind what it has.
    fn note_overwrite(&mut self, part: &WritePart, home: &HomeZone, now: Option<Time>) {
        if let Some(now) = now.filter(|_| part.extent.start - home.extent.start < home.written) {
            let rewriting = self.rewriting(home);
            self.silences.note(part.zone, now, rewriting);
        }
    }

    fn path_out_of_order(&mut self, part: &WritePart, home: &HomeZone) -> Path {
        self.scatter.note(part.zone);
        if !self.scatter.is_lone() {
            return Path::Buffer;
        }
        let len = part.extent.len;
        let (drive_later, buffer_later) = self.later(part, home);
        let drive = self.costs.write(Way::DriveCache, len) + UNSEEN * drive_later;
        let buffer = self.costs.write(Way::Buffer, len) + self.costs.gather(len) + buffer_later;
        if buffer < drive { Path::Buffer } else { Path::DriveCache }
    }

    /// The zone with the oldest data if it may go, or another that may, or one that may go early.
    fn idle_zone(&mut self, state: &State<'_>) -> Option<u32> {
        let oldest = state.homes.oldest()?;
        self.is_early = false;
        if self.may_go(oldest, state) {
            return Some(oldest);
        }
        dirty(state).find(|&zone| self.may_go(zone, state)).or_else(|| {
            let early = state
                .now
                .filter(|&now| self.allowance.is_left(now))
                .and_then(|now| self.early_zone(now, state));
            self.is_early = early.is_some();
            early
        })
    }

    /// Of the zones in which the host has paused, the one where it has for longest.
    fn early_zone(&self, now: Time, state: &State<'_>) -> Option<u32> {
        let pause = |zone| self.silences.pause(zone, now, self.rewriting(&state.homes.zone(zone)));
        dirty(state).filter_map(|zone| Some((pause(zone)?, zone))).max().map(|(_, zone)| zone)
    }

    /// What cleaning the zone costs the drive and the host if this write is the only one, ns.
    fn later(&self, part: &WritePart, home: &HomeZone) -> (f64, f64) {
        let offset = part.extent.start - home.extent.start;
        let end = offset + part.extent.len;
        if offset >= home.written {
            // What lies between is filled.
            let filled = self.costs.append(end - home.written);
            return (POSITION_NS + STAGED * filled, filled);
        }
        let behind = Sectors(home.written.max(end).get() - offset.get());
        (POSITION_NS + STAGED * self.costs.rewrite(behind), self.costs.rewrite(home.written))
    }
}

/// Zones of which the buffer has data.
fn dirty<'a>(state: &'a State<'_>) -> impl Iterator<Item = u32> + use<'a> {
    std::iter::successors(state.homes.next_dirty(0), |&zone| state.homes.next_dirty(zone + 1))
}

impl Policy for Adaptive {
    fn name(&self) -> &'static str {
        "adaptive"
    }

    fn path(&mut self, part: &WritePart, state: &State<'_>) -> Path {
        self.writes += 1;
        self.way = None;
        self.costs.closing_ns = match state.layout.model {
            ZoneModel::HostAware => CLOSING_NS,
            // A guess that is too low is found out; one that is too high never is.
            ZoneModel::HostManaged => 0.0,
        };
        let home = state.homes.zone(part.zone);
        self.note_overwrite(part, &home, state.now);
        let is_buffered = home.buffered.get() > 0 || home.cleaning;
        if home.continues(part.extent) || (is_buffered && part.in_stream) {
            let way = self.open_way(part.zone, state);
            self.latest = (way, part.extent.len);
            return if is_buffered { Path::Buffer } else { self.path_in_order(part, &home, way) };
        }
        if is_buffered || state.layout.model == ZoneModel::HostManaged {
            self.scatter.note(part.zone);
            return Path::Buffer;
        }
        self.path_out_of_order(part, &home)
    }

    fn clean(&mut self, occasion: Occasion, state: &State<'_>) -> Option<u32> {
        if occasion == Occasion::Idle {
            return self.idle_zone(state);
        }
        if self.probation.is_empty() || self.is_growing() {
            return None;
        }
        if !self.is_direct_cheaper(self.latest.0, self.latest.1) {
            self.probation.clear();
        }
        self.probation.pop()
    }

    fn may_go(&self, home: u32, state: &State<'_>) -> bool {
        let Some(now) = state.now.filter(|_| !state.fill.is_over_half()) else {
            return true;
        };
        self.silences.is_over(home, now, self.rewriting(&state.homes.zone(home)))
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
        if std::mem::take(&mut self.is_early) {
            let parts = [cleaned.gathered, cleaned.appended, cleaned.rewritten];
            self.allowance.spend(Nanos(parts.iter().map(|moved| moved.time.get()).sum()));
        }
    }
}

#[cfg(test)]
mod tests {
    use skylight_disk::{Lba, LbaExtent, splitmix64};

    use super::super::super::policy::{Fill, Moved};
    use super::super::fake::{Fake, ZONE};
    use super::*;

    /// Paths of the last of some rounds over streams, a write of `len` sectors each. What the policy wants clean is.
    fn last_round(fake: &mut Fake, policy: &mut Adaptive, streams: usize, len: u64) -> Vec<Path> {
        let mut last = Vec::new();
        for at in 0..5 + 2 * PROBATION_WRITES / streams as u64 {
            last = (0..streams).map(|zone| fake.write(policy, zone, at * len, len)).collect();
        }
        last
    }

    fn share(paths: &[Path], path: Path) -> usize {
        paths.iter().filter(|&&one| one == path).count()
    }

    #[test]
    fn few_streams_are_direct_and_too_many_are_buffered() {
        for (streams, direct) in [(20, 20), (124, 124), (125, 0), (200, 0)] {
            let paths = last_round(&mut Fake::host_aware(300), &mut Adaptive::default(), streams, 8);
            assert_eq!(share(&paths, Path::Direct), direct, "{streams} streams");
            assert_eq!(share(&paths, Path::Buffer), streams - direct);
        }
    }

    #[test]
    fn new_streams_are_buffered_until_they_are_counted() {
        let (mut fake, mut policy) = (Fake::host_aware(300), Adaptive::default());
        let early: Vec<Path> = (0..20).map(|zone| fake.write(&mut policy, zone, 0, 8)).collect();
        assert_eq!(share(&early, Path::Buffer), 20);
        for at in 1..=PROBATION_WRITES {
            fake.write(&mut policy, 0, at * 8, 8);
        }
        assert_eq!(fake.homes[3].buffered, Sectors(0), "they are clean when they are known to be few");
        assert_eq!(fake.write(&mut policy, 3, 8, 8), Path::Direct);
    }

    #[test]
    fn new_streams_are_direct_where_their_number_does_not_matter() {
        for (mut fake, len) in [(Fake::host_managed(300), 8), (Fake::host_aware(300), 16 << 10)] {
            let mut policy = Adaptive::default();
            let first: Vec<Path> = (0..200).map(|zone| fake.write(&mut policy, zone, 0, len)).collect();
            assert_eq!(share(&first, Path::Direct), 200, "{len} sectors");
        }
    }

    #[test]
    fn long_writes_reopen_zones() {
        let paths = last_round(&mut Fake::host_aware(300), &mut Adaptive::default(), 200, 16 << 10);
        assert_eq!(share(&paths, Path::Direct), 200);
    }

    #[test]
    fn streams_that_ended_make_room_for_others() {
        let (mut fake, mut policy) = (Fake::host_aware(400), Adaptive::default());
        last_round(&mut fake, &mut policy, 200, 8);
        for at in 0..2 * WINDOW_WRITES {
            fake.write(&mut policy, 0, (100 + at) * 8, 8);
        }
        fake.write(&mut policy, 300, 0, 8);
        for at in 0..PROBATION_WRITES {
            fake.write(&mut policy, 0, (100 + 2 * WINDOW_WRITES + at) * 8, 8);
        }
        assert_eq!(fake.write(&mut policy, 300, 8, 8), Path::Direct);
    }

    #[test]
    fn what_direct_writes_are_seen_to_take_counts() {
        let (mut fake, mut policy) = (Fake::host_aware(300), Adaptive::default());
        fake.homes[0].written = Sectors(80);
        for at in 10..110 {
            let path = fake.write(&mut policy, 0, at * 8, 8);
            // A zone that was written before is on no probation.
            let extent = LbaExtent::new(Lba(at * 8), Sectors(8));
            let part = WritePart { extent, zone: 0, in_stream: true };
            policy.took(path, &part, Nanos(50_000_000));
        }
        assert_eq!(
            fake.write(&mut policy, 0, 800, 8),
            Path::Buffer,
            "50 ms a write are more than the buffer costs"
        );
    }

    #[test]
    fn zones_that_are_written_again_and_again_are_not_rewritten_between() {
        let (mut fake, mut policy) = (Fake::host_managed(8).full(), Adaptive::default());
        let idle = |fake: &Fake, policy: &mut Adaptive| fake.ask(|state| policy.clean(Occasion::Idle, state));
        for seconds in [0, 60, 120] {
            fake.now = Some(Time(seconds * 1_000_000_000));
            for zone in 0..2 {
                fake.write(&mut policy, zone, seconds * 8, 8);
            }
        }
        fake.now = Some(Time(180_000_000_000));
        fake.write(&mut policy, 1, 8, 8);
        assert_eq!(idle(&fake, &mut policy), None, "another write may come after a minute");
        fake.fill = Fill { zones: 10, free_zones: 4, ..Fill::default() };
        assert_eq!(idle(&fake, &mut policy), Some(0), "the log is filling");
        fake.fill = Fill::default();
        fake.now = Some(Time(240_000_000_000));
        assert_eq!(idle(&fake, &mut policy), Some(0));
        assert!(fake.ask(|state| policy.may_go(0, state) && !policy.may_go(1, state)));
        fake.now = None;
        assert!(fake.ask(|state| policy.may_go(1, state)), "without a clock nothing waits");
    }

    #[test]
    fn idle_time_that_is_left_goes_to_the_zone_that_was_silent_longest_as_far_as_it_is_allowed() {
        let (mut fake, mut policy) = (Fake::host_managed(8).full(), Adaptive::default());
        let idle = |fake: &mut Fake, policy: &mut Adaptive, seconds: u64| {
            fake.now = Some(Time(seconds * 1_000_000_000));
            fake.ask(|state| policy.clean(Occasion::Idle, state))
        };
        for seconds in [0, 60, 120] {
            fake.now = Some(Time(seconds * 1_000_000_000));
            (0..3).for_each(|zone| {
                fake.write(&mut policy, zone, seconds * 8, 8);
            });
        }
        fake.now = Some(Time(130_000_000_000));
        fake.write(&mut policy, 0, 8, 8);
        fake.write(&mut policy, 1, 8, 8);
        assert_eq!(idle(&mut fake, &mut policy, 130), None, "no time has passed yet");
        assert_eq!(idle(&mut fake, &mut policy, 140), Some(2), "the others were written 10 s later");
        policy.cleaned(&Cleaned {
            rewritten: Moved { sectors: Sectors(1 << 19), time: Nanos(3_000_000_000) },
            ..Cleaned::default()
        });
        fake.homes[2].buffered = Sectors(0);
        assert_eq!(idle(&mut fake, &mut policy, 141), None, "3 s were spent, and a quarter of 11 has come");
        assert!(idle(&mut fake, &mut policy, 150).is_some());
    }

    #[test]
    fn zones_that_are_written_at_random_go_to_the_buffer() {
        let (mut fake, mut policy) = (Fake::host_aware(8).full(), Adaptive::default());
        let paths: Vec<Path> = (0..20_000)
            .map(|i| {
                let drawn = splitmix64(5, i);
                fake.write(&mut policy, (drawn % 8) as usize, (drawn >> 32) % (ZONE / 8) * 8, 8)
            })
            .collect();
        assert_eq!(share(&paths, Path::Buffer), 20_000, "seed 5");
    }

    #[test]
    fn lone_writes_near_the_end_of_full_zones_are_left_to_the_drive() {
        let (mut fake, mut policy) = (Fake::host_aware(2000).full(), Adaptive::default());
        let mut paths = |at| (0..1000).map(|zone| fake.write(&mut policy, zone, at, 8)).collect::<Vec<_>>();
        let first = paths(ZONE - 800);
        assert_eq!(share(&first, Path::Buffer), LEARNT_WRITES - 1, "until it is known that they are lone");
        assert_eq!(share(&paths(8), Path::Buffer), 1000, "the drive would rewrite nearly all");
        // Each zone has got two writes by now.
        assert_eq!(fake.write(&mut policy, 1500, ZONE - 800, 8), Path::Buffer);
    }

    #[test]
    fn a_host_managed_drive_gets_nothing_out_of_order() {
        let (mut fake, mut policy) = (Fake::host_managed(8).full(), Adaptive::default());
        assert_eq!(fake.write(&mut policy, 0, ZONE - 800, 8), Path::Buffer);
    }
}
