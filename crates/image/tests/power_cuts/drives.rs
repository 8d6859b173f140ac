//! Small drives of every layer: caches fill, cleaning runs, logs and journals wrap within a few hundred writes.

use skylight_disk::{Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, Conventional, FullyAssociative, FullyAssociativeSpec, Journaled, JournaledSpec, Layer, Medium,
    SetAssociative, SetAssociativeSpec, StretchSpec,
};

/// Host sectors of each drive.
pub const SECTORS: u64 = 2048;

/// A drive by name.
#[derive(Clone, Copy)]
pub struct Drive {
    pub name: &'static str,
    pub layer: fn() -> Box<dyn Layer>,
}

pub const DRIVES: [Drive; 10] = [
    Drive { name: "conventional", layer: || Box::new(Conventional::new(Medium::Platter, Sectors(SECTORS))) },
    Drive { name: "ssd", layer: || Box::new(Conventional::new(Medium::Flash, Sectors(SECTORS))) },
    Drive { name: "set-associative, lazy", layer: || set_associative(Medium::Platter, None) },
    Drive { name: "set-associative, aggressive", layer: || set_associative(Medium::Platter, Some(Nanos(1))) },
    Drive { name: "set-associative, flash", layer: || set_associative(Medium::Flash, Some(Nanos(1))) },
    Drive { name: "journaled, fifo", layer: || journaled(Medium::Platter, CleaningOrder::Fifo, 24, 8) },
    Drive { name: "journaled, lifo, flash", layer: || journaled(Medium::Flash, CleaningOrder::Lifo, 0, 0) },
    Drive { name: "journaled, greedy", layer: || journaled(Medium::Platter, CleaningOrder::Greedy, 8, 0) },
    Drive { name: "fully-associative, lazy", layer: || fully_associative(None) },
    Drive { name: "fully-associative, aggressive", layer: || fully_associative(Some(Nanos(1))) },
];

fn set_associative(cache_medium: Medium, idle_after: Option<Nanos>) -> Box<dyn Layer> {
    Box::new(SetAssociative::new(SetAssociativeSpec {
        capacity: Sectors(SECTORS),
        band: Sectors(96),
        cache_bands: 5,
        cache_medium,
        cache_start: Pba(if cache_medium == Medium::Flash { 0 } else { 960 }),
        usable: Sectors(80),
        bands_for_one_write: 1,
        idle_after,
    }))
}

fn journaled(cache_medium: Medium, order: CleaningOrder, out_of_band: u64, gap: u64) -> Box<dyn Layer> {
    let mut journal = JournalSpec {
        region: PbaExtent::default(),
        quantum: Sectors(16),
        out_of_band: Sectors(out_of_band),
        gap: Sectors(gap),
        entry_max: Sectors(72),
        entry_writes: 6,
        slots: 40,
    };
    let len = Sectors(journal.region_sectors());
    journal.region = PbaExtent::new(Pba(8), len);
    let staging = PbaExtent::new(journal.region.end(), Sectors(96));
    let native = if cache_medium == Medium::Flash { Pba(0) } else { staging.end() };
    let half = SECTORS / 2;
    let stretch = |band, guard, start| StretchSpec { sectors: Sectors(half), band, guard, start };
    let bands = Bands::new(&[
        stretch(Sectors(96), Sectors(8), native),
        stretch(Sectors(64), Sectors(0), native + Sectors(half + half.div_ceil(96) * 8 + 100)),
    ]);
    let home = PbaExtent::new(bands.platter_end(), Sectors(16));
    Box::new(Journaled::new(JournaledSpec {
        bands,
        journal,
        cache_medium,
        map_limit: Some(48),
        map_merge_every: Some(7),
        map_merge: home,
        cleaning: CleaningSpec { order, idle_after: Some(Nanos(1)), staging, map_update: home },
        whole_bands_bypass: true,
        bands_for_one_command: 2,
    }))
}

fn fully_associative(idle_after: Option<Nanos>) -> Box<dyn Layer> {
    Box::new(FullyAssociative::new(FullyAssociativeSpec {
        capacity: Sectors(SECTORS),
        band: Sectors(64),
        zone: Sectors(700),
        free_bands: 4,
        clean_threshold: 1,
        idle_after,
        start: Pba(24),
    }))
}
