//! The life of a drive with zones in sessions, and a cut after every effect of each.

use std::time::Duration;

use crate::media::fault::{FaultStore, Medium, Random};
use crate::media::ram::RamStore;
use skylight_disk::{Nanos, Pba, PbaExtent, Sectors};
use skylight_image::planted_bugs::{Planted, Plants};
use skylight_image::store::checksummed::SumOptions;
use skylight_image::{Image, ImageError, Options, Write};
use skylight_layer::capabilities::zoned::{ZoneAccess, ZoneCondition, ZoneLayout, ZoneModel};
use skylight_layer::journaled::JournalSpec;
use skylight_layer::zoned::host_aware::throttle::{Estimate, ThrottleSpec};
use skylight_layer::zoned::host_aware::{AwareSpec, Bookkeeping, ZoneLog};
use skylight_layer::{Layer, ZoneAction, ZonedLayer, ZonedSpec};

use crate::common::{Event, Lives, Session};
use crate::oracle::{FULL, Found, OFFLINE, Op, Oracle, READ_ONLY, Said, Shape, bytes_of};
use crate::pending_flush::PendingFlush;

/// Commands of a session, at most.
const SESSION: u64 = 40;
/// Bytes of a region of the checksums, so that the drive has some.
const REGION: u64 = 32 << 10;
/// Sectors of the platters that nothing uses, from their start.
const START: u64 = 8;

/// What came up, to be sure that it did.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub cuts: u64,
    pub checkpoints: u64,
    pub clean_starts: u64,
    pub refused_tags: u64,
    pub refused_commands: u64,
    pub resets: u64,
    pub flushes_beside: u64,
    pub cuts_in_recovery: u64,
}

/// How a drive of the test is.
#[derive(Clone, Copy, Debug)]
pub struct Drive {
    pub name: &'static str,
    pub shape: Shape,
}

pub const DRIVES: [Drive; 5] = [
    Drive { name: "host-managed", shape: shape(8, 24, 1) },
    Drive { name: "host-managed, short capacity", shape: shape(7, 17, 0) },
    Drive { name: "host-aware", shape: Shape { host_aware: true, ..shape(6, 24, 1) } },
    Drive {
        name: "host-aware, with a persistent cache",
        shape: Shape { host_aware: true, cleans: true, ..shape(6, 24, 1) },
    },
    Drive {
        name: "host-aware, with a persistent cache that is full",
        shape: Shape { host_aware: true, cleans: true, is_lazy: true, ..shape(16, 24, 0) },
    },
];

const fn shape(zones: u64, capacity: u64, conventional: u64) -> Shape {
    Shape {
        zones,
        zone_sectors: 24,
        capacity,
        conventional,
        host_aware: false,
        cleans: false,
        is_lazy: false,
    }
}

/// A persistent cache that some ten writes fill, and what cleans it, in idle time or not; where zones begin behind it.
fn aware(zone: Sectors, is_lazy: bool) -> (AwareSpec, Pba) {
    let mut journal = JournalSpec {
        region: PbaExtent::default(),
        quantum: Sectors(8),
        out_of_band: Sectors(0),
        gap: Sectors(0),
        entry_max: Sectors(16),
        entry_writes: 4,
        slots: if is_lazy { 10 } else { 14 },
    };
    let mut at = Pba(START);
    let [region, staging, map_merge, zone_log] =
        [Sectors(journal.region_sectors()), zone, Sectors(8), Sectors(8)].map(|len| {
            let extent = PbaExtent::new(at, len);
            at += len;
            extent
        });
    journal.region = region;
    let (none, second) = (Nanos(0), Nanos(1_000_000_000));
    let spec = AwareSpec {
        open_zones: 3,
        seed: 1,
        bookkeeping: Bookkeeping::default(),
        close_together: if is_lazy { 2 } else { 1 },
        zone_log: match is_lazy {
            true => ZoneLog::BeforeZones { each: Sectors(8), together: 3 },
            false => ZoneLog::At(zone_log),
        },
        zone_log_copies: if is_lazy { 2 } else { 1 },
        zone_log_of_closed: is_lazy,
        journal,
        watermark: if is_lazy { 4 } else { 10 },
        map_limit: (!is_lazy).then_some(24),
        map_merge_every: Some(7),
        map_copies: 1,
        map_merge,
        staging,
        chunk: Sectors(10),
        idle_after: (!is_lazy).then_some(Nanos(1)),
        throttle: ThrottleSpec { first: second, step: none, most: second, writes: 8, one_in: 1 },
        estimate: Estimate { revolution: second, seek: none, stroke: none, platters: 1_000, track: 100 },
        zones_for_one_command: 1,
    };
    (spec, at)
}

/// See the module page.
pub struct Life {
    options: Options,
    random: Random,
    oracle: Oracle,
    next_number: u64,
    flush: PendingFlush,
    pub seen: Seen,
}

impl Life {
    pub fn new(
        drive: Drive,
        (write_cache, checksums): (bool, bool),
        seed: u64,
        planted: Option<Planted>,
    ) -> Self {
        Self {
            options: Options {
                write_cache,
                plants: planted.into(),
                // Small, so that many checkpoints come up.
                log_bytes: Some(8192),
                checksums,
                sums: SumOptions {
                    boot_id: Some([0; 16]),
                    region_bytes: Some(REGION),
                    clears_after: Some(Duration::ZERO),
                    plants: Plants::NONE,
                },
                ..Options::default()
            },
            random: Random(seed),
            oracle: Oracle::new(drive.shape, write_cache),
            next_number: 1,
            flush: PendingFlush::None,
            seen: Seen::default(),
        }
    }

    /// A zone that is written in order: not one that has failed.
    fn draw_zone(&mut self) -> Option<u64> {
        let Shape { zones, .. } = self.oracle.shape;
        let zone = self.random.below(zones);
        (!self.oracle.has_failed(zone)).then_some(zone)
    }

    /// Writes that the drive takes, of which each goes on from the one before or is in another zone.
    fn draw_writes(&mut self) -> Vec<(u64, u64, u64, u64)> {
        let Shape { capacity, host_aware, .. } = self.oracle.shape;
        let (mut writes, mut oracle) = (Vec::new(), self.oracle.clone());
        let count = if self.random.below(4) == 0 { 2 + self.random.below(4) } else { 1 };
        for _ in 0..count {
            let Some(zone) = self.draw_zone() else { continue };
            let said = oracle.now(zone).said;
            let anywhere = oracle.is_conventional(zone) || host_aware && self.random.below(2) == 0;
            let from = match (anywhere, said.condition) {
                (true, _) => self.random.below(capacity),
                (false, 0) => said.end,
                _ => continue,
            };
            let most = [1, 3, 8, capacity][self.random.below(4) as usize].min(capacity - from);
            let write = (zone, from, 1 + self.random.below(most), self.next_number);
            self.next_number += 1;
            oracle.begin(&Op::Write(vec![write], false));
            writes.push(write);
        }
        writes
    }

    fn draw(&mut self) -> Op {
        if !matches!(self.flush, PendingFlush::None) && self.random.below(3) == 0 {
            return if matches!(self.flush, PendingFlush::Begun(_)) { Op::Sync } else { Op::EndFlush };
        }
        match self.random.below(48) {
            0..=25 => match self.draw_writes() {
                writes if writes.is_empty() => Op::Idle,
                writes => Op::Write(writes, self.random.below(8) == 0),
            },
            26..=33 => match self.draw_zone().filter(|&zone| !self.oracle.is_conventional(zone)) {
                Some(zone) => Op::Reset(Some(zone)),
                None => Op::Idle,
            },
            34 | 35 => match self.draw_zone().filter(|&zone| !self.oracle.is_conventional(zone)) {
                Some(zone) => Op::Finish(Some(zone)),
                None => Op::Idle,
            },
            36 => Op::Reset(None),
            37 if self.random.below(3) == 0 => Op::Finish(None),
            38 if self.random.below(12) == 0 => match self.draw_zone() {
                Some(zone) if !self.oracle.is_conventional(zone) => {
                    Op::Fail(zone, [READ_ONLY, OFFLINE][self.random.below(2) as usize])
                }
                _ => Op::Idle,
            },
            // An empty zone that is open is finished with all others, and is not open behind a cut.
            39 | 40 => match self.draw_zone().filter(|&zone| self.oracle.now(zone).said.end > 0) {
                Some(zone) => Op::Touch(zone, self.random.below(2) == 0),
                None => Op::Idle,
            },
            41..=43 => Op::Flush,
            44 | 45 if matches!(self.flush, PendingFlush::None) => Op::BeginFlush,
            _ => Op::Idle,
        }
    }

    fn ask(&mut self, image: &mut Image, op: &Op) -> Result<(), String> {
        let Shape { zones, zone_sectors, .. } = self.oracle.shape;
        let all = (0, zones * zone_sectors * 512);
        let range = |of: &Option<u64>| of.map_or(all, |zone| (zone * zone_sectors * 512, zone_sectors * 512));
        let done = match op {
            Op::Write(writes, fua) => {
                let first = |zone: u64, from: u64| zone * zone_sectors + from;
                let data: Vec<_> = writes
                    .iter()
                    .map(|&(zone, from, len, number)| bytes_of(first(zone, from), len, number))
                    .collect();
                let writes: Vec<_> = writes
                    .iter()
                    .zip(&data)
                    .map(|(&(zone, from, ..), data)| Write {
                        offset: first(zone, from) * 512,
                        data,
                        fua: *fua,
                    })
                    .collect();
                image.write_many(&writes)
            }
            Op::Reset(of) => {
                self.seen.resets += 1;
                image.act_on_zones(ZoneAction::Reset, range(of).0, range(of).1)
            }
            Op::Finish(of) => image.act_on_zones(ZoneAction::Finish, range(of).0, range(of).1),
            Op::Touch(zone, open) => {
                let action = if *open { ZoneAction::Open } else { ZoneAction::Close };
                image.act_on_zones(action, range(&Some(*zone)).0, range(&Some(*zone)).1)
            }
            Op::Fail(zone, condition) => {
                let access = if *condition == OFFLINE { ZoneAccess::Offline } else { ZoneAccess::ReadOnly };
                if let Some(zoned) = image.zoned() {
                    zoned.set_access(*zone as u32, access);
                }
                image.idle().map(drop)
            }
            Op::Flush => image.flush(),
            Op::BeginFlush => {
                self.flush.begin(image).map(|beside| self.seen.flushes_beside += u64::from(beside))
            }
            Op::Sync => return self.flush.sync(),
            Op::EndFlush => self.flush.end(image),
            Op::Idle => image.idle().map(drop),
            Op::Close => Ok(()),
        };
        done.map_err(|error| error.to_string())
    }

    /// A command that no drive takes: it fails, and changes nothing.
    fn ask_wrong(&mut self, image: &mut Image) -> Result<(), String> {
        let Shape { zones, zone_sectors, capacity, host_aware, .. } = self.oracle.shape;
        // Not the last one: a command beyond the drive does not reach it.
        let right = |zone: &u64| !self.oracle.is_conventional(*zone) && *zone + 1 < zones;
        let zone = self.random.below(zones);
        if !right(&zone) || self.oracle.has_failed(zone) {
            return Ok(());
        }
        let said = self.oracle.now(zone).said;
        let at = zone * zone_sectors;
        let wrong = match self.random.below(3) {
            0 => image.act_on_zones(ZoneAction::Reset, (at + 1) * 512, 512),
            _ if host_aware => return Ok(()),
            1 => image.write(at * 512, &vec![1; (capacity + 1) as usize * 512], false),
            _ if said.condition == 0 => {
                let other = if said.end == 0 { 1 } else { 0 };
                image.write((at + other) * 512, &[1; 512], false)
            }
            _ => image.write(at * 512, &[1; 512], false),
        };
        self.seen.refused_commands += 1;
        match wrong {
            Err(ImageError::Refused(_)) => Ok(()),
            other => Err(format!("zone {zone}, {said:?}: a command that is wrong gives {other:?}")),
        }
    }
}

impl Lives for Life {
    type Op = Op;
    type Found = Found;
    type Oracle = Oracle;

    fn layer(&self) -> Box<dyn Layer> {
        let Shape { zones, zone_sectors, capacity, conventional, host_aware, cleans, is_lazy } =
            self.oracle.shape;
        let model = if host_aware { ZoneModel::HostAware } else { ZoneModel::HostManaged };
        let mut layout = ZoneLayout::new(model, Sectors(zones * zone_sectors), Sectors(zone_sectors));
        layout.capacity = Sectors(capacity);
        layout.conventional = conventional as u32;
        layout.unrestricted_reads = true;
        let (spec, behind) = aware(Sectors(zone_sectors), is_lazy);
        let (aware, start) = if cleans { (Some(spec), behind) } else { (None, Pba(START)) };
        Box::new(ZonedLayer::new(ZonedSpec { layout, start, aware }))
    }

    fn options(&self) -> &Options {
        &self.options
    }

    fn random(&mut self) -> &mut Random {
        &mut self.random
    }

    fn oracle(&mut self) -> &mut Oracle {
        &mut self.oracle
    }

    fn cuts(&mut self) -> &mut u64 {
        &mut self.seen.cuts
    }

    fn session(&mut self, store: RamStore) -> Result<Session<Op, Found>, String> {
        self.power_is_back();
        let start = Medium::new(store.clone());
        let store = FaultStore::new(store);
        self.flush = PendingFlush::None;
        let before = self.oracle.clone();
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        self.oracle.check_cut(&found)?;
        self.oracle.found(&found);
        let mut events = vec![(store.effects(), Event::Found(found))];
        self.seen.clean_starts += u64::from(image.status().recovery.clean);
        self.seen.refused_tags += image.status().recovery.refused;
        for _ in 0..1 + self.random.below(SESSION) {
            let op = self.draw();
            events.push((store.effects(), Event::Begin(op.clone())));
            self.oracle.begin(&op);
            self.ask(&mut image, &op).map_err(|why| format!("{op:?}: {why}"))?;
            events.push((store.effects(), Event::End(op.clone())));
            self.oracle.end(&op);
            if self.random.below(6) == 0 {
                self.ask_wrong(&mut image)?;
                let found = self.look_at(&mut image)?;
                self.oracle.check_now(&found).map_err(|why| format!("in a session, {op:?}: {why}"))?;
            }
        }
        let found = self.look_at(&mut image)?;
        self.oracle.check_now(&found).map_err(|why| format!("at its end: {why}"))?;
        self.seen.checkpoints += image.status().counters.checkpoints;
        if self.random.below(3) == 0 {
            events.push((store.effects(), Event::Begin(Op::Close)));
            image.close().map_err(|error| error.to_string())?;
            events.push((store.effects(), Event::End(Op::Close)));
        }
        self.oracle = before;
        Ok(Session { start, effects: store.take_effects(), events })
    }

    fn happen(&mut self, event: Event<Op, Found>) {
        match event {
            Event::Begin(op) => self.oracle.begin(&op),
            Event::End(op) => self.oracle.end(&op),
            Event::Found(found) => self.oracle.found(&found),
        }
    }

    fn power_is_back(&mut self) {
        self.options.sums.boot_id = Some((u128::from(self.random.below(u64::MAX)) + 1).to_le_bytes());
    }

    fn cut(&mut self, medium: &Medium) -> Result<(), String> {
        self.power_is_back();
        let left = medium.cut(&mut self.random);
        let store = FaultStore::new(left.clone());
        let mut image = self.open(&store)?;
        let found = self.look_at(&mut image)?;
        self.oracle.check_cut(&found)?;
        let effects = store.take_effects();
        if !effects.is_empty() && self.random.below(3) == 0 {
            self.cut_in_recovery(left, &effects, &found)?;
            self.seen.cuts_in_recovery += 1;
        }
        Ok(())
    }

    /// What the drive says of every zone, and gives for its sectors.
    fn look_at(&mut self, image: &mut Image) -> Result<Found, String> {
        let Shape { zones, zone_sectors, .. } = self.oracle.shape;
        let mut found = Found { zones: Vec::new(), bytes: vec![0; (zones * zone_sectors * 512) as usize] };
        for zone in 0..zones {
            let descriptor = image.zoned().ok_or("it has no zones")?.descriptor(zone as u32);
            let condition = match descriptor.condition {
                ZoneCondition::ReadOnly => READ_ONLY,
                ZoneCondition::Full => FULL,
                ZoneCondition::Offline => OFFLINE,
                _ => 0,
            };
            let pointer = descriptor.write_pointer.filter(|_| condition == 0);
            let end = pointer.map_or(0, |pointer| (pointer - descriptor.start).get());
            found.zones.push(Said { end, condition, non_sequential: descriptor.non_sequential });
            let at = (zone * zone_sectors * 512) as usize;
            let bytes = &mut found.bytes[at..at + zone_sectors as usize * 512];
            if condition != OFFLINE {
                image.read(at as u64, bytes).map_err(|error| format!("zone {zone}: {error}"))?;
            }
        }
        Ok(found)
    }
}
