//! A layer that is taken away and made again from what its plans have said finds every sector where it was, and
//! goes on without writing over any of them. And accesses name where their bytes come from: an image moves what they name.

use std::collections::BTreeMap;

use proptest::prelude::*;
use skylight_disk::{Direction, Lba, LbaExtent, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, CachedExtent, Command, CommandId, FullyAssociative, FullyAssociativeSpec, Journaled,
    JournaledSpec, Layer, MapChange, Medium, Op, Plan, Queue, Recovered, SetAssociative, SetAssociativeSpec,
    Source, Step, StretchSpec,
};

const CAPACITY: u64 = 1024;

fn layer(kind: u8) -> Box<dyn Layer> {
    match kind {
        0 => Box::new(SetAssociative::new(SetAssociativeSpec {
            capacity: Sectors(CAPACITY),
            band: Sectors(64),
            cache_bands: 3,
            cache_medium: Medium::Platter,
            cache_start: Pba(512),
            usable: Sectors(64),
            bands_for_one_write: 1,
            idle_after: Some(Nanos(1)),
        })),
        1 => Box::new(FullyAssociative::new(FullyAssociativeSpec {
            capacity: Sectors(CAPACITY),
            band: Sectors(64),
            zone: Sectors(500),
            free_bands: 3,
            clean_threshold: 1,
            idle_after: Some(Nanos(1)),
            start: Pba(16),
        })),
        _ => Box::new(journaled(match kind {
            2 => CleaningOrder::Fifo,
            3 => CleaningOrder::Lifo,
            _ => CleaningOrder::Greedy,
        })),
    }
}

fn journaled(order: CleaningOrder) -> Journaled {
    let mut journal = JournalSpec {
        region: PbaExtent::default(),
        quantum: Sectors(16),
        out_of_band: Sectors(8),
        gap: Sectors(2),
        entry_max: Sectors(64),
        entry_writes: 4,
        slots: 30,
    };
    journal.region.len = Sectors(journal.region_sectors());
    let staging = PbaExtent::new(journal.region.end(), Sectors(64));
    let home = PbaExtent::new(staging.end(), Sectors(8));
    let stretch =
        StretchSpec { sectors: Sectors(CAPACITY), band: Sectors(64), guard: Sectors(8), start: home.end() };
    Journaled::new(JournaledSpec {
        bands: Bands::new(&[stretch]),
        journal,
        cache_medium: Medium::Platter,
        map_limit: Some(30),
        map_merge_every: None,
        map_merge: PbaExtent::default(),
        cleaning: CleaningSpec { order, idle_after: Some(Nanos(1)), staging, map_update: home },
        whole_bands_bypass: true,
        bands_for_one_command: 2,
    })
}

/// What plans have said: by sector where it is cached, and by whom; by first sector of a band where it went.
#[derive(Default)]
struct Said {
    cached: BTreeMap<u64, CachedExtent>,
    moved: BTreeMap<u64, (LbaExtent, Pba)>,
    access: PbaExtent,
    before: u64,
    taken: u64,
    /// By sector, where accesses have brought its bytes: where a host's write put them, and where merges of which the map
    /// has not changed yet, and may never change, have put them since.
    brought: BTreeMap<u64, Vec<u64>>,
    /// By sector, where the last plan has said that it is native, by the accesses that brought its bytes.
    native: BTreeMap<u64, u64>,
}

impl Said {
    fn follow(&mut self, plan: &Plan) {
        for step in plan.steps() {
            match *step {
                // As an image counts them: what goes to its place takes no room in the cache.
                Step::Access { direction: Direction::Write, extent, source: Source::ToCache, .. } => {
                    (self.access, self.before) = (extent, self.taken);
                    self.taken += extent.len.get();
                }
                Step::Commit(MapChange::Cached { lba, pba }) => {
                    for at in 0..lba.len.get() {
                        let sector = LbaExtent::new(lba.start + Sectors(at), Sectors(1));
                        let (access, taken) = (self.access, self.before);
                        let pba = Pba::from(pba) + Sectors(at);
                        let found = CachedExtent { lba: sector, pba, access, taken };
                        self.cached.insert(sector.start.get(), found);
                    }
                }
                Step::Commit(MapChange::Native { lba }) => self.forget(lba),
                Step::Commit(MapChange::Remapped { lba, pba }) => {
                    self.forget(lba);
                    self.moved.insert(lba.start.get(), (lba, pba.into()));
                }
                _ => {}
            }
        }
    }

    /// Follows where the bytes of accesses come from; which sectors a plan that is no trim has said to be native or
    /// remapped without an access that brings their bytes there.
    fn follow_sources(&mut self, plan: &Plan) -> Vec<u64> {
        let (mut missing, mut native) = (Vec::new(), BTreeMap::new());
        for step in plan.steps() {
            match *step {
                Step::Access { extent, source: Source::Host(lba), .. } => {
                    let lba = Lba::from(lba).get();
                    let places = (0..extent.len.get()).map(|at| (lba + at, vec![extent.start.get() + at]));
                    self.brought.extend(places);
                }
                Step::Access { extent, source: Source::Merged(lba), .. } => {
                    let lba = Lba::from(lba).get();
                    for at in 0..extent.len.get() {
                        self.brought.entry(lba + at).or_default().push(extent.start.get() + at);
                    }
                }
                // A stream is remapped where it was written as a log.
                Step::Commit(MapChange::Cached { lba, pba }) => {
                    let (lba_start, pba) = (lba.start.get(), Pba::from(pba).get());
                    self.brought.extend((0..lba.len.get()).map(|at| (lba_start + at, vec![pba + at])));
                    native.retain(|at, _| *at < lba_start || lba.end().get() <= *at);
                }
                Step::Commit(MapChange::Native { lba }) => {
                    for at in lba.start.get()..lba.end().get() {
                        match self.brought.remove(&at).and_then(|places| places.last().copied()) {
                            Some(place) => _ = native.insert(at, place),
                            None => missing.push(at),
                        }
                    }
                }
                Step::Commit(MapChange::Remapped { lba, pba }) => {
                    for at in 0..lba.len.get() {
                        let (sector, place) = (lba.start.get() + at, Pba::from(pba).get() + at);
                        match self.brought.remove(&sector) {
                            Some(places) if places.contains(&place) => _ = native.insert(sector, place),
                            _ => missing.push(sector),
                        }
                    }
                }
                _ => {}
            }
        }
        self.native = native;
        missing
    }

    fn forget(&mut self, lba: LbaExtent) {
        self.cached.retain(|&at, _| at < lba.start.get() || lba.end().get() <= at);
    }

    fn restore(&mut self, layer: &mut dyn Layer) {
        let mut cached: Vec<CachedExtent> = self.cached.values().copied().collect();
        cached.sort_by_key(CachedExtent::order);
        let moved: Vec<_> = self.moved.values().copied().collect();
        layer.restore(&Recovered { cached: &cached, moved: &moved }).expect("what this layer said");
        self.taken = cached.iter().map(|found| found.taken + found.access.len.get()).max().unwrap_or(0);
    }
}

fn places(layer: &dyn Layer) -> Vec<u64> {
    let mut pieces = Vec::new();
    layer.locate(LbaExtent::new(Lba(0), Sectors(CAPACITY)), &mut pieces);
    pieces.iter().flat_map(|piece| piece.extent.start.get()..piece.extent.end().get()).collect()
}

#[derive(Clone, Debug)]
enum Act {
    Write(u64, u64),
    Trim(u64, u64),
    Idle(u8),
    Restore,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let extent =
        || (0..CAPACITY / 8, prop_oneof![4 => Just(8), 2 => 1..40_u64, 1 => Just(64), 1 => 64..200_u64]);
    let act = prop_oneof![
        12 => extent().prop_map(|(at, len)| Act::Write(at * 8, len)),
        2 => (0..CAPACITY / 64).prop_map(|band| Act::Write(band * 64, 64)),
        1 => extent().prop_map(|(at, len)| Act::Trim(at * 8, len)),
        3 => (1..6_u8).prop_map(Act::Idle),
        2 => Just(Act::Restore),
    ];
    prop::collection::vec(act, 1..120)
}

proptest! {
    #[test]
    fn a_restored_layer_finds_everything_and_goes_on(kind in 0..5_u8, acts in acts()) {
        let mut drive = layer(kind);
        let mut said = Said::default();
        let mut plan = Plan::default();
        for act in acts {
            let command = |op, at: u64, len: u64| {
                let extent = LbaExtent::new(Lba(at), Sectors(len.min(CAPACITY - at)));
                Command::new(CommandId(1), op, extent)
            };
            let waiting = match act {
                Act::Write(at, len) => command(Op::Write, at, len),
                Act::Trim(at, len) => command(Op::Trim, at, len),
                Act::Idle(units) => {
                    for _ in 0..units {
                        plan.clear();
                        drive.idle(&mut plan);
                        said.follow(&plan);
                    }
                    continue;
                }
                Act::Restore => {
                    let before = (places(drive.as_ref()), drive.cache_use().live_sectors);
                    drive = layer(kind);
                    said.restore(drive.as_mut());
                    prop_assert_eq!(&before, &(places(drive.as_ref()), drive.cache_use().live_sectors));
                    continue;
                }
            };
            plan.clear();
            drive.take(Queue { waiting: &[waiting], next: 0 }, &mut plan);
            said.follow(&plan);
            let mut all = places(drive.as_ref());
            prop_assert_eq!(all.len() as u64, CAPACITY);
            for (&at, found) in &said.cached {
                prop_assert_eq!(all[at as usize], found.pba.get(), "sector {}", at);
            }
            all.sort_unstable();
            prop_assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "two sectors lie at one place");
        }
    }
}

proptest! {
    #[test]
    fn accesses_name_where_their_bytes_come_from(kind in 0..5_u8, acts in acts()) {
        let mut drive = layer(kind);
        let (mut said, mut plan) = (Said::default(), Plan::default());
        for act in acts {
            plan.clear();
            let mut take = |op, at: u64, len: u64| {
                let extent = LbaExtent::new(Lba(at), Sectors(len.min(CAPACITY - at)));
                drive.take(Queue { waiting: &[Command::new(CommandId(1), op, extent)], next: 0 }, &mut plan);
                op == Op::Trim
            };
            let trims = match act {
                Act::Write(at, len) => take(Op::Write, at, len),
                Act::Trim(at, len) => take(Op::Trim, at, len),
                Act::Idle(_) | Act::Restore => {
                    drive.idle(&mut plan);
                    false
                }
            };
            let missing = said.follow_sources(&plan);
            prop_assert!(trims || missing.is_empty(), "nothing brings the bytes of {:?}", missing);
            let all = places(drive.as_ref());
            for (&at, &place) in &said.native {
                prop_assert!(trims || all[at as usize] == place, "sector {} was brought to {}", at, place);
            }
        }
    }
}

#[test]
fn what_a_drive_never_does_is_refused() {
    let found = |lba, len, pba, access: (u64, u64), taken| CachedExtent {
        lba: LbaExtent::new(Lba(lba), Sectors(len)),
        pba: Pba(pba),
        access: PbaExtent::new(Pba(access.0), Sectors(access.1)),
        taken,
    };
    // Another cache band's place; beyond the zone; amid two slots; no whole quanta; before the journal's region.
    let all = [
        (0, found(0, 8, 512 + 64, (512 + 64, 8), 0)),
        (0, found(60, 8, 512, (512, 8), 0)),
        (1, found(0, 8, 16 + 11 * 64, (16 + 11 * 64, 8), 0)),
        (1, found(0, 8, 16 + 60, (16 + 60, 8), 0)),
        (2, found(0, 8, 8, (8, 10), 0)),
        (2, found(0, 8, 8, (8, 16), 5)),
        (2, found(0, 8, 10_000, (10_000, 16), 0)),
    ];
    for (kind, cached) in all {
        let refused = layer(kind).restore(&Recovered { cached: &[cached], moved: &[] });
        assert!(refused.is_err(), "{kind} {cached:?}");
    }
    let band = LbaExtent::new(Lba(0), Sectors(64));
    for (lba, pba) in [(band, 16 + 32), (band, 16 + 64 * 11), (LbaExtent::new(Lba(8), Sectors(64)), 16)] {
        let refused = layer(1).restore(&Recovered { cached: &[], moved: &[(lba, Pba(pba))] });
        assert!(refused.is_err(), "{lba:?} {pba}");
    }
}
