//! What a host-aware drive does besides the standard, and that it loses nothing: zones are of 64 sectors, the first one
//! conventional, eight in all.
//!
//! The shadow keeps what the host wrote and the sectors of the media, and learns where data is from the steps of plans alone.

use std::collections::BTreeMap;

use skylight_command::{Command, CommandId, Op, Outcome, ZoneAction};
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors, splitmix64};

use super::throttle::{Estimate, ThrottleSpec};
use super::{AwareSpec, Bookkeeping, ZoneLog};
use crate::capabilities::zoned::{Preparation, ZoneCondition, ZoneLayout, ZoneModel, Zoned};
use crate::journaled::JournalSpec;
use crate::plan::{Idle, Layer, MapChange, Plan, Purpose, Queue, Room, Source, Step};
use crate::zoned::tests::of_zone;
use crate::zoned::{ZonedLayer, ZonedSpec};

const ZONE: u64 = 64;
const ZONES: u64 = 8;
/// Sectors before the zones: the cache, the staging area, the map and the metadata.
const RESERVED: u64 = 400;

/// Space before each zone for its metadata, where it is not beside the cache.
const BEFORE: u64 = 2;

fn drive(places: u64, watermark: u64, map_limit: Option<u64>, is_beside_zones: bool) -> ZonedLayer {
    ZonedLayer::new(spec(places, watermark, map_limit, is_beside_zones))
}

fn spec(places: u64, watermark: u64, map_limit: Option<u64>, is_beside_zones: bool) -> ZonedSpec {
    let mut layout = ZoneLayout::new(ZoneModel::HostAware, Sectors(ZONE * ZONES), Sectors(ZONE));
    layout.conventional = 1;
    layout.max_open = Some(3);
    let at = |start, len| PbaExtent::new(Pba(start), Sectors(len));
    let journal = JournalSpec {
        region: at(0, 300),
        quantum: Sectors(8),
        out_of_band: Sectors(0),
        gap: Sectors(2),
        entry_max: Sectors(24),
        entry_writes: 4,
        slots: places,
    };
    assert!(journal.region_sectors() <= 300);
    let (first, step, most) = (Nanos(20_000_000), Nanos(0), Nanos(20_000_000));
    let aware = AwareSpec {
        open_zones: 3,
        seed: 1,
        bookkeeping: Bookkeeping { open: Nanos(7), ..Bookkeeping::default() },
        close_together: if is_beside_zones { 2 } else { 1 },
        zone_log: match is_beside_zones {
            true => ZoneLog::BeforeZones { each: Sectors(BEFORE), together: 1 },
            false => ZoneLog::At(at(390, 8)),
        },
        zone_log_copies: if is_beside_zones { 2 } else { 1 },
        zone_log_of_closed: false,
        journal,
        watermark,
        map_limit,
        map_merge_every: Some(5),
        map_copies: 2,
        map_merge: at(370, 16),
        staging: at(300, ZONE),
        chunk: Sectors(16),
        idle_after: Some(Nanos(1)),
        throttle: ThrottleSpec { first, step, most, writes: 10, one_in: 10 },
        estimate: Estimate {
            revolution: Nanos(10_000_000),
            seek: Nanos(2_000_000),
            stroke: Nanos(14_000_000),
            platters: RESERVED + ZONE * ZONES,
            track: 100,
        },
        zones_for_one_command: 1,
    };
    ZonedSpec { layout, start: Pba(RESERVED), aware: Some(aware) }
}

/// The platters and what the host knows; see the module documentation.
struct Shadow {
    drive: ZonedLayer,
    /// The version of each sector that the host wrote last, 0 for none.
    host: Vec<u64>,
    media: Vec<u64>,
    cached: BTreeMap<u64, u64>,
    version: u64,
    /// Sectors of the platters before each zone with a write pointer.
    before: u64,
    /// Extents that have moved within the cache.
    moved: u64,
}

impl Shadow {
    fn new(places: u64, watermark: u64) -> Self {
        Self::with_map(places, watermark, Some(40))
    }

    /// A drive with the metadata of each zone before it, which closes two zones at a time.
    fn beside_zones(places: u64, watermark: u64) -> Self {
        let drive = drive(places, watermark, Some(40), true);
        let media = vec![0; (RESERVED + (ZONE + BEFORE) * ZONES) as usize];
        Self { drive, media, before: BEFORE, ..Self::new(places, watermark) }
    }

    fn with_map(places: u64, watermark: u64, map_limit: Option<u64>) -> Self {
        let sectors = (ZONE * ZONES) as usize;
        let media = vec![0; sectors + RESERVED as usize];
        Self {
            drive: drive(places, watermark, map_limit, false),
            host: vec![0; sectors],
            media,
            cached: BTreeMap::new(),
            version: 0,
            before: 0,
            moved: 0,
        }
    }

    fn zone(&self, zone: u32) -> crate::capabilities::zoned::ZoneDescriptor {
        self.drive.descriptor(zone)
    }

    /// Runs commands that wait together; returns their plan.
    fn destage(&mut self, commands: &[Command]) -> Plan {
        let mut plan = Plan::default();
        let of_zone = of_zone(self.drive.table.layout(), commands, 0);
        self.drive.destage(Queue { waiting: commands, next: 0 }, &mut of_zone.into_iter(), &mut plan);
        self.execute(&plan);
        plan
    }

    fn run(&mut self, op: Op, start: u64, len: u64) -> Plan {
        let extent = LbaExtent::new(Lba(start), Sectors(len));
        if op == Op::Write {
            self.write(extent);
        }
        let command = Command::new(CommandId(1), op, extent);
        let mut plan = Plan::default();
        self.drive.take(Queue { waiting: &[command], next: 0 }, &mut plan);
        let ends: Vec<_> = plan.completions().collect();
        assert_eq!(ends, [(CommandId(1), Outcome::Done)], "{command:?}");
        match op {
            Op::Read => self.check(extent, &plan),
            _ => self.execute(&plan),
        }
        if op == Op::Zone(ZoneAction::Reset) {
            self.host[start as usize..(start + len) as usize].fill(0);
            self.cached.retain(|&lba, _| !(start..start + len).contains(&lba));
            // What keeps bytes discards those of the zone: what cleaning synthesizes later reads as never written.
            let first = self.home(start);
            self.media[first..first + len as usize].fill(0);
        }
        plan
    }

    fn write(&mut self, extent: LbaExtent) {
        self.version += 1;
        self.host[extent.start.get() as usize..extent.end().get() as usize].fill(self.version);
    }

    fn idle(&mut self) -> Idle {
        let mut plan = Plan::default();
        let idle = self.drive.idle(&mut plan);
        self.execute(&plan);
        idle
    }

    /// Cleans all; returns the steps.
    fn clean(&mut self) -> Plan {
        let mut all = Plan::default();
        loop {
            let mut plan = Plan::default();
            if self.drive.idle(&mut plan) == Idle::Nothing {
                return all;
            }
            self.execute(&plan);
            plan.steps().iter().for_each(|&step| all.push(step));
        }
    }

    /// Where a host sector is at home; zone 0 is conventional.
    fn home(&self, lba: u64) -> usize {
        (RESERVED + lba + lba / ZONE * self.before) as usize
    }

    /// What is at a host sector.
    fn stored(&self, lba: u64) -> u64 {
        self.media[self.cached.get(&lba).map_or_else(|| self.home(lba), |&pba| pba as usize)]
    }

    fn execute(&mut self, plan: &Plan) {
        for step in plan.steps() {
            match *step {
                Step::Access { direction: Direction::Write, extent, source, .. } => {
                    let (start, len) = (extent.start.get() as usize, extent.len.get());
                    let data: Vec<u64> = match source {
                        Source::Host(lba) => {
                            let lba = Lba::from(lba).get();
                            self.host[lba as usize..(lba + len) as usize].to_vec()
                        }
                        Source::Merged(lba) => {
                            (0..len).map(|sector| self.stored(Lba::from(lba).get() + sector)).collect()
                        }
                        // Staged data and entries that no commit names are not data of the host.
                        Source::Internal | Source::ToCache | Source::Medium => {
                            vec![u64::MAX; len as usize]
                        }
                    };
                    self.media[start..start + len as usize].copy_from_slice(&data);
                }
                Step::Commit(MapChange::Cached { lba, pba }) => {
                    for sector in 0..lba.len.get() {
                        let (from, to) = (lba.start.get() + sector, Pba::from(pba).get() + sector);
                        self.media[to as usize] = self.host[from as usize];
                        self.cached.insert(from, to);
                    }
                }
                Step::Commit(MapChange::Relocated { lba, pba }) => {
                    self.moved += 1;
                    for sector in 0..lba.len.get() {
                        let (from, to) = (lba.start.get() + sector, Pba::from(pba).get() + sector);
                        self.media[to as usize] = self.stored(from);
                        self.cached.insert(from, to);
                    }
                }
                Step::Commit(MapChange::Native { lba }) => {
                    self.cached.retain(|&at, _| !(lba.start.get()..lba.end().get()).contains(&at));
                }
                _ => {}
            }
        }
    }

    /// Whether a read returns what the host wrote.
    fn check(&self, extent: LbaExtent, plan: &Plan) {
        let mut read: Vec<u64> = Vec::new();
        for step in plan.steps() {
            match *step {
                Step::Access { direction: Direction::Read, extent, .. } => {
                    let start = extent.start.get() as usize;
                    read.extend(&self.media[start..start + extent.len.get() as usize]);
                }
                Step::Fill { extent, .. } => read.extend(std::iter::repeat_n(0, extent.len.get() as usize)),
                _ => {}
            }
        }
        assert_eq!(read, self.host[extent.start.get() as usize..extent.end().get() as usize], "{extent:?}");
    }

    fn check_all(&mut self) {
        self.run(Op::Read, 0, ZONE * ZONES);
    }
}

/// The extents that a plan writes for a purpose, from the start of the zones.
fn written(plan: &Plan, of: Purpose) -> Vec<(u64, u64)> {
    let write = |step: &Step| match *step {
        Step::Access { direction: Direction::Write, extent, purpose, .. } if purpose == of => {
            Some((extent.start.get().saturating_sub(RESERVED), extent.len.get()))
        }
        _ => None,
    };
    plan.steps().iter().filter_map(write).collect()
}

fn write(id: u32, start: u64, len: u64) -> Command {
    Command::new(CommandId(id), Op::Write, LbaExtent::new(Lba(start), Sectors(len)))
}

#[test]
fn in_an_empty_zone_cleaning_synthesizes_what_is_before_the_data_and_the_pointer_ends_behind_it() {
    let mut shadow = Shadow::new(20, 18);
    shadow.run(Op::Write, 2 * ZONE + 20, 8);
    let zone = shadow.zone(2);
    assert_eq!((zone.non_sequential, zone.write_pointer), (true, Some(Lba(2 * ZONE))));
    let cleaned = shadow.clean();
    assert_eq!(written(&cleaned, Purpose::CleanWrite), [(2 * ZONE, 16), (2 * ZONE + 16, 12)]);
    let zone = shadow.zone(2);
    assert_eq!((zone.non_sequential, zone.write_pointer), (false, Some(Lba(2 * ZONE + 28))));
    shadow.check_all();
}

#[test]
fn in_a_full_zone_cleaning_rewrites_what_follows_the_first_update_and_nothing_before_it() {
    let mut shadow = Shadow::new(20, 18);
    shadow.run(Op::Write, 2 * ZONE, ZONE);
    shadow.run(Op::Write, 2 * ZONE + 40, 4);
    let cleaned = shadow.clean();
    assert_eq!(written(&cleaned, Purpose::CleanWrite), [(2 * ZONE + 40, 16), (2 * ZONE + 56, 8)]);
    assert_eq!((shadow.zone(2).non_sequential, shadow.zone(2).condition), (false, ZoneCondition::Full));
    shadow.check_all();
}

#[test]
fn the_flag_lives_until_the_zone_is_cleaned_or_reset() {
    let mut shadow = Shadow::new(20, 18);
    shadow.run(Op::Write, 2 * ZONE + 8, 8);
    shadow.run(Op::Write, 3 * ZONE + 8, 8);
    shadow.run(Op::Write, 2 * ZONE, 8);
    assert!(shadow.zone(2).non_sequential, "a write in order does not end it");
    shadow.run(Op::Zone(ZoneAction::Reset), 2 * ZONE, ZONE);
    assert_eq!((shadow.zone(2).non_sequential, shadow.zone(2).condition), (false, ZoneCondition::Empty));
    assert!(shadow.zone(3).non_sequential);
    shadow.clean();
    assert_eq!(shadow.drive.counts().non_sequential, 0);
    shadow.check_all();
}

#[test]
fn what_was_reset_fills_the_cache_no_longer() {
    let mut shadow = Shadow::new(20, 18);
    for zone in 2..=3 {
        shadow.run(Op::Write, zone * ZONE + 8, 8);
    }
    let filled = shadow.drive.cache_use().filled_sectors;
    shadow.run(Op::Zone(ZoneAction::Reset), 2 * ZONE, ZONE);
    assert_eq!(shadow.drive.cache_use().filled_sectors, filled / 2);
    shadow.run(Op::Zone(ZoneAction::Reset), 3 * ZONE, ZONE);
    assert_eq!(shadow.drive.cache_use().filled_sectors, 0);
}

#[test]
fn writing_in_order_needs_resources_and_writing_out_of_order_none() {
    let mut shadow = Shadow::new(20, 18);
    for zone in 1..=3 {
        assert!(written(&shadow.run(Op::Write, zone * ZONE, 8), Purpose::MapUpdate).is_empty());
    }
    assert!(written(&shadow.run(Op::Write, 5 * ZONE + 8, 8), Purpose::MapUpdate).is_empty());
    assert_eq!(written(&shadow.run(Op::Write, 4 * ZONE, 8), Purpose::MapUpdate).len(), 1);
    shadow.run(Op::Zone(ZoneAction::Close), 4 * ZONE, ZONE);
    let again =
        (1..=4).map(|zone| written(&shadow.run(Op::Write, zone * ZONE + 8, 8), Purpose::MapUpdate).len());
    assert_eq!(again.sum::<usize>(), 1, "closing a zone freed its resource");
}

#[test]
fn a_zone_loses_its_resource_only_after_its_cached_writes_are_on_the_media() {
    let mut shadow = Shadow::new(20, 18);
    let writes: Vec<Command> = (1..=4).map(|zone| write(zone, u64::from(zone) * ZONE, 8)).collect();
    let mut plan = Plan::default();
    let now = skylight_disk::Time(0);
    for command in &writes[..3] {
        assert_eq!(shadow.drive.prepare(command, now, &mut plan), Preparation::Time(Nanos(7)));
        assert_eq!(shadow.drive.admit(command), Ok(()));
        shadow.write(command.extent);
    }
    let Preparation::Destage(zone) = shadow.drive.prepare(&writes[3], now, &mut plan) else {
        panic!("all zones with resources have cached writes");
    };
    assert!(plan.steps().is_empty());
    let victim = writes.iter().find(|command| command.extent.start == zone.start).copied();
    shadow.destage(&[victim.unwrap()]);
    assert_eq!(shadow.drive.prepare(&writes[3], now, &mut plan), Preparation::Time(Nanos(7)));
    assert_eq!(written(&plan, Purpose::MapUpdate).len(), 1);
}

/// Writes in order to the start of each of these zones, as a volatile cache takes them on.
fn admit(shadow: &mut Shadow, zones: std::ops::RangeInclusive<u32>) -> Vec<Command> {
    let writes: Vec<Command> = zones.map(|zone| write(zone, u64::from(zone) * ZONE, 8)).collect();
    for command in &writes {
        assert_eq!(shadow.drive.admit(command), Ok(()));
        shadow.write(command.extent);
    }
    writes
}

#[test]
fn zones_that_are_closed_together_are_destaged_first_and_each_zone_opened_for_one_costs_its_metadata() {
    let mut shadow = Shadow::beside_zones(20, 18);
    let now = skylight_disk::Time(0);
    let prepare = |shadow: &mut Shadow, zone: u32| {
        let mut plan = Plan::default();
        let first = shadow.drive.prepare(&write(zone, u64::from(zone) * ZONE, 8), now, &mut plan);
        (first, written(&plan, Purpose::MapUpdate))
    };
    let opened = Preparation::Time(Nanos(7));
    let mut cached = Vec::new();
    let metadata = |zone: u64| vec![(zone * ZONE + (zone - 1) * BEFORE, BEFORE); 2];
    for (zone, written) in [(1, Vec::new()), (2, Vec::new()), (3, metadata(3))] {
        assert_eq!(prepare(&mut shadow, zone), (opened, written), "the last one costs its metadata");
        cached.extend(admit(&mut shadow, zone..=zone));
    }
    assert_eq!(prepare(&mut shadow, 4), (Preparation::DestageZones(2), Vec::new()));
    assert!((1..=3).all(|zone| shadow.drive.may_close(zone)) && !shadow.drive.may_close(4));
    (0..2).for_each(|index| drop(shadow.destage(&cached[index..=index])));
    assert_eq!(prepare(&mut shadow, 4), (opened, metadata(4)));
    assert_eq!([1, 2, 3, 4].map(|zone| shadow.drive.may_close(zone)), [false, false, true, true]);
    admit(&mut shadow, 4..=4);
    assert_eq!(prepare(&mut shadow, 5), (opened, metadata(5)), "the other resource is free");
    admit(&mut shadow, 5..=5);
    assert_eq!(prepare(&mut shadow, 6), (Preparation::DestageZones(2), Vec::new()));
    let few = prepare(&mut shadow, 6);
    assert!(
        matches!(few, (Preparation::Destage(_), _)),
        "nothing could be destaged, so one zone goes: {few:?}"
    );
}

/// Three zones have their metadata together before the first of them, and a zone that takes a resource is written with the one
/// that gave it up, in the order in which they were closed.
#[test]
fn the_metadata_of_neighbours_lie_together_and_are_written_of_the_zone_that_is_closed_too() {
    let mut spec = spec(20, 18, Some(40), true);
    let aware = spec.aware.as_mut().unwrap();
    aware.zone_log = ZoneLog::BeforeZones { each: Sectors(BEFORE), together: 3 };
    aware.zone_log_of_closed = true;
    let mut drive = ZonedLayer::new(spec);
    let group = |zone: u64| (zone - 1) / 3 * 3 * (ZONE + BEFORE);
    let starts: Vec<u64> = (1..ZONES)
        .map(|zone| drive.locate_first(LbaExtent::new(Lba(zone * ZONE), Sectors(8)), true).1.get())
        .collect();
    let data = |zone: u64| RESERVED + ZONE + group(zone) + 3 * BEFORE + (zone - 1) % 3 * ZONE;
    assert_eq!(starts, (1..ZONES).map(data).collect::<Vec<_>>());
    let mut opened = |zone: u32| {
        let mut plan = Plan::default();
        drive.prepare(&write(zone, u64::from(zone) * ZONE, 8), skylight_disk::Time(0), &mut plan);
        written(&plan, Purpose::MapUpdate)
    };
    let metadata =
        |zones: [u64; 2]| zones.map(|zone| (ZONE + group(zone) + (zone - 1) % 3 * BEFORE, BEFORE)).to_vec();
    assert_eq!([opened(1), opened(2)], [Vec::new(), Vec::new()]);
    assert_eq!(opened(3), metadata([3, 3]), "the last resource was no other zone's");
    assert_eq!(opened(4), metadata([4, 3]), "the nearest is closed first");
    assert_eq!(opened(5), metadata([5, 2]));
}

#[test]
fn of_zones_with_nothing_in_the_cache_the_nearest_are_closed() {
    let mut shadow = Shadow::beside_zones(20, 18);
    let metadata =
        [2, 4, 7].map(|zone| written(&shadow.run(Op::Write, zone * ZONE, 8), Purpose::MapUpdate).len());
    assert_eq!(metadata, [0, 0, 2]);
    assert_eq!(written(&shadow.run(Op::Write, 5 * ZONE, 8), Purpose::MapUpdate).len(), 2);
    assert_eq!([2, 4, 5, 7].map(|zone| shadow.drive.may_close(zone)), [true, false, true, false]);
    shadow.check_all();
}

#[test]
fn what_leaves_the_cache_together_is_a_run_of_one_zone_or_one_journal_entry() {
    let mut shadow = Shadow::new(20, 18);
    let in_order = [write(1, ZONE, 8), write(2, 2 * ZONE, 8), write(3, ZONE + 8, 8)];
    for command in in_order {
        assert_eq!(shadow.drive.admit(&command), Ok(()));
        shadow.write(command.extent);
    }
    let run = shadow.destage(&in_order);
    assert_eq!(written(&run, Purpose::Host), [(ZONE, 16)]);
    assert_eq!(run.completions().map(|(id, _)| id.0).collect::<Vec<_>>(), [1, 3]);
    shadow.destage(&in_order[1..2]);
    let others = [write(4, 3 * ZONE + 8, 8), write(5, 2 * ZONE + 8, 8), write(6, 4 * ZONE + 8, 8)];
    for command in others {
        assert_eq!(shadow.drive.admit(&command), Ok(()));
        shadow.write(command.extent);
    }
    let entry = shadow.destage(&others);
    assert_eq!(written(&entry, Purpose::Cache).len(), 1);
    assert_eq!(entry.completions().map(|(id, _)| id.0).collect::<Vec<_>>(), [4, 6], "5 continues its zone");
    shadow.destage(&others[1..2]);
    shadow.check_all();
}

#[test]
fn an_entry_takes_no_more_writes_than_the_map_has_entries_for() {
    let mut shadow = Shadow::new(20, 18);
    // Of the map's 40 entries 38 are in use: single sectors, four of them in a slot, and none beside another.
    let sectors = (0..38).map(|index| {
        write(index + 1, (2 + u64::from(index / 16)) * ZONE + u64::from(2 * (index % 16) + 1), 1)
    });
    let filling: Vec<Command> = sectors.collect();
    for group in filling.chunks(4) {
        for command in group {
            assert_eq!(shadow.drive.admit(command), Ok(()));
            shadow.write(command.extent);
        }
        assert_eq!(shadow.destage(group).completions().count(), group.len());
    }
    let waiting = [write(1, 5 * ZONE + 8, 1), write(2, 6 * ZONE + 8, 1), write(3, 7 * ZONE + 8, 1)];
    for command in waiting {
        assert_eq!(shadow.drive.admit(&command), Ok(()));
        shadow.write(command.extent);
    }
    let first = shadow.destage(&waiting);
    assert_eq!(first.completions().map(|(id, _)| id.0).collect::<Vec<_>>(), [1]);
    assert!(written(&first, Purpose::CleanStage).is_empty(), "there is an entry for it");
    let second = shadow.destage(&waiting[1..]);
    assert!(second.completions().any(|(id, _)| id.0 == 2));
    shadow.destage(&waiting[2..]);
    shadow.check_all();
}

#[test]
fn a_full_cache_holds_writes_back_and_lets_them_into_the_reserve() {
    let mut shadow = Shadow::new(20, 4);
    // The oldest entries are of four zones, so no zone alone frees more than a slot.
    for zone in 1..=4 {
        let free = shadow.run(Op::Write, zone * ZONE + 8, 8);
        assert!(written(&free, Purpose::CleanStage).is_empty());
    }
    let held = shadow.run(Op::Write, 5 * ZONE + 8, 8);
    assert!(!written(&held, Purpose::CleanStage).is_empty());
    assert_eq!(written(&held, Purpose::Cache).len(), 1);
    shadow.check_all();
}

#[test]
fn room_is_what_is_free_and_what_a_host_has_patience_for() {
    let mut shadow = Shadow::with_map(20, 4, None);
    let room = |shadow: &Shadow| shadow.drive.room(Lba(0)).expect("it has a persistent cache");
    // Four slots of four writes each, ten of the reserve, which is all but two of the largest entries, of three slots, and
    // one zone, for which one such entry is written.
    assert_eq!(room(&shadow), Room { sectors: Sectors((4 + 10 + 3) * 8), writes: 4 * 4 + 10 + 1 });
    for zone in 1..=4 {
        shadow.run(Op::Write, zone * ZONE + 8, 8);
    }
    assert_eq!(room(&shadow), Room { sectors: Sectors((10 + 3) * 8), writes: 10 + 1 }, "no slot is free");
    let extent = |start| LbaExtent::new(Lba(start), Sectors(8));
    assert!(shadow.drive.takes_room(extent(5 * ZONE + 8)));
    assert!(!shadow.drive.takes_room(extent(5 * ZONE)), "it is in order");
    assert!(!shadow.drive.takes_room(extent(0)), "the zone has no write pointer");
}

#[test]
fn a_write_waits_for_one_zone_though_the_oldest_entries_are_of_many() {
    let mut shadow = Shadow::with_map(20, 13, None);
    let mut longest = 0;
    for round in 0..40 {
        let zones = (0..4).map(|index| 1 + (round + index) % (ZONES - 1));
        let at = |zone| zone * ZONE + 8 + 2 * (round % 20);
        let writes: Vec<Command> = (1..).zip(zones).map(|(id, zone)| write(id, at(zone), 1)).collect();
        for command in &writes {
            assert_eq!(shadow.drive.admit(command), Ok(()));
            shadow.write(command.extent);
        }
        let mut rest = writes;
        while !rest.is_empty() {
            let plan = shadow.destage(&rest);
            let cleaned = |step: &&Step| matches!(step, Step::Commit(MapChange::Native { .. }));
            longest = longest.max(plan.steps().iter().filter(cleaned).count());
            rest.retain(|command| !plan.completions().any(|(id, _)| id == command.id));
        }
        shadow.check_all();
    }
    assert!(shadow.moved > 0);
    assert_eq!(longest, 1, "the oldest entry is of four zones");
}

/// Random writes in and out of order, resets, reads, and idle steps; returns how many extents moved within the cache.
fn lose_nothing(mut shadow: Shadow, seed: u64) -> u64 {
    let mut draws = 0;
    let mut draw = |below: u64| {
        draws += 1;
        splitmix64(seed, draws) % below
    };
    for _ in 0..400 {
        let zone = 1 + draw(ZONES - 1);
        match draw(20) {
            0 => drop(shadow.run(Op::Zone(ZoneAction::Reset), zone * ZONE, ZONE)),
            1..=4 => drop(shadow.idle()),
            5..=8 => {
                let descriptor = shadow.zone(zone as u32);
                let at = descriptor.write_pointer.map_or(zone * ZONE, |pointer| pointer.get());
                let left = (zone + 1) * ZONE - at;
                if left > 0 {
                    shadow.run(Op::Write, at, (1 + draw(12)).min(left));
                }
            }
            9 => {
                let start = draw(ZONE * ZONES - 1);
                shadow.run(Op::Read, start, 1 + draw(ZONE * ZONES - start));
            }
            _ => {
                let start = draw(ZONE * ZONES - 30);
                shadow.run(Op::Write, start, 1 + draw(30));
            }
        }
        shadow.check_all();
    }
    shadow.clean();
    assert_eq!(shadow.drive.cache_use().map_entries, 0);
    assert_eq!(shadow.drive.counts().non_sequential, 0);
    shadow.check_all();
    shadow.moved
}

#[test]
fn nothing_is_lost() {
    let moved = (0..200).map(|seed| {
        println!("seed {seed}");
        let watermark = 8 + seed % 8;
        lose_nothing(Shadow::beside_zones(20, watermark), seed);
        lose_nothing(Shadow::new(20, watermark), seed)
    });
    let drives = moved.filter(|&moved| moved > 0).count();
    assert!(drives > 20, "moving is tested too: on {drives} drives");
}
