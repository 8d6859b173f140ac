//! Small journaled drives of every shape, from one number each.

use skylight_disk::{Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{Bands, JournaledSpec, Medium, StretchSpec};

use crate::common::host::Stream;

/// A drive and what a shadow has to know of it.
#[derive(Clone, Debug)]
pub struct Shape {
    pub spec: JournaledSpec,
    pub stretches: Vec<StretchSpec>,
    /// Enough for either medium.
    pub media_sectors: u64,
}

impl Shape {
    /// A known drive: its bands, and sectors enough for either medium.
    pub fn of(spec: JournaledSpec, stretches: Vec<StretchSpec>, media_sectors: u64) -> Self {
        Self { spec, stretches, media_sectors }
    }

    /// Stretches of bands with the cache and the map before, between or behind them, or the cache on flash.
    /// A journal has few slots, or many; its region is no larger than it must be.
    pub fn random(seed: u64) -> Self {
        let mut stream = Stream(seed);
        let mut stretches: Vec<StretchSpec> =
            (0..1 + stream.below(4)).map(|_| stretch(&mut stream)).collect();
        let largest = stretches.iter().map(|s| s.band.min(s.sectors)).max().unwrap_or(Sectors(1));
        let mut journal = journal(&mut stream);
        let flash = stream.below(4) == 0;
        let count = stretches.len() as u64 + 1;
        let (cache_at, map_at) = (stream.below(count), stream.below(count));
        let mut pba = Pba(stream.below(5));
        let mut take = |len: u64, slop: u64| {
            let extent = PbaExtent::new(pba, Sectors(len));
            pba = extent.end() + Sectors(slop);
            extent
        };
        let [mut staging, mut merge, mut update] = [PbaExtent::default(); 3];
        for index in 0..count {
            if index == cache_at && !flash {
                journal.region = take(journal.region.len.get(), stream.below(4));
                staging = take(largest.get(), stream.below(4));
            }
            if index == map_at {
                merge = take(1 + stream.below(9), stream.below(2));
                update = take(1 + stream.below(3), stream.below(2));
            }
            if let Some(stretch) = stretches.get_mut(index as usize) {
                let bands = stretch.sectors.get().div_ceil(stretch.band.get());
                let room = stretch.sectors.get() + (bands - 1) * stretch.guard.get();
                stretch.start = take(room, stretch.guard.get() * stream.below(2)).start;
            }
        }
        let platters = pba.get();
        if flash {
            journal.region.start = Pba(stream.below(9));
            staging = PbaExtent::new(journal.region.end() + Sectors(stream.below(3)), largest);
        }
        let spec = JournaledSpec {
            bands: Bands::new(&stretches),
            journal,
            cache_medium: if flash { Medium::Flash } else { Medium::Platter },
            map_limit: (stream.below(2) == 0).then(|| 1 + stream.below(60)),
            map_merge_every: (stream.below(2) == 0).then(|| 1 + stream.below(20)),
            map_merge: merge,
            cleaning: CleaningSpec {
                order: match stream.below(5) {
                    0 | 1 => CleaningOrder::Fifo,
                    2 => CleaningOrder::Lifo,
                    3 => CleaningOrder::Greedy,
                    _ => CleaningOrder::Random { seed: stream.below(1_000) },
                },
                idle_after: (stream.below(3) > 0).then_some(Nanos(1_000_000)),
                staging,
                map_update: update,
            },
            whole_bands_bypass: stream.below(2) == 0,
            bands_for_one_command: 1 + stream.below(5),
        };
        Self { spec, stretches, media_sectors: platters.max(staging.end().get()) }
    }
}

fn stretch(stream: &mut Stream) -> StretchSpec {
    let band = match stream.below(3) {
        0 => 8 * (1 + stream.below(8)),
        _ => 1 + stream.below(60),
    };
    let bands = 1 + stream.below(12);
    StretchSpec {
        sectors: Sectors((bands - 1) * band + 1 + stream.below(band)),
        band: Sectors(band),
        guard: Sectors(if stream.below(2) == 0 { 0 } else { 1 + stream.below(8) }),
        start: Pba(0),
    }
}

fn journal(stream: &mut Stream) -> JournalSpec {
    let quantum = if stream.below(2) == 0 { 8 } else { 1 + stream.below(20) };
    let quanta = 1 + stream.below(6);
    let largest = if stream.below(2) == 0 {
        quanta * quantum
    } else {
        (quanta - 1) * quantum + 1 + stream.below(quantum)
    };
    let mut spec = JournalSpec {
        region: PbaExtent::default(),
        quantum: Sectors(quantum),
        out_of_band: Sectors(if stream.below(2) == 0 { 0 } else { 1 + stream.below(10) }),
        gap: Sectors(if stream.below(2) == 0 { 0 } else { 1 + stream.below(4) }),
        entry_max: Sectors(largest.max(quantum)),
        entry_writes: 1 + stream.below(40) as usize,
        slots: 0,
    };
    spec.slots =
        spec.quanta(spec.entry_max) + if stream.below(2) == 0 { stream.below(8) } else { stream.below(80) };
    spec.region.len = Sectors(spec.region_sectors());
    spec
}
