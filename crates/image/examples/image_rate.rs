//! How fast an image writes, reads and recovers, over memory and over a sparse file, without checksums and with.
//!
//! `cargo run --release -p skylight-image --example image_rate [FOLDER]`

#[path = "../tests/media/mod.rs"]
mod media;

use std::path::{Path, PathBuf};
use std::time::Instant;

use media::ram::RamStore;
use skylight_disk::{Nanos, Pba, PbaExtent, Sectors};
use skylight_image::store::Access;
use skylight_image::store::file::FileStore;
use skylight_image::{Image, Options, Store};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, Conventional, FullyAssociative, FullyAssociativeSpec, Journaled, JournaledSpec, Layer, Medium,
    SetAssociative, SetAssociativeSpec, StretchSpec,
};

const GIB: u64 = 1 << 21;
const CAPACITY: u64 = 64 * GIB;
const BLOCK: usize = 4096;

fn layers() -> [(&'static str, Box<dyn Layer>); 4] {
    let band = Sectors(32 << 11);
    let set = SetAssociativeSpec {
        capacity: Sectors(CAPACITY),
        band,
        cache_bands: 128,
        cache_medium: Medium::Platter,
        cache_start: Pba(CAPACITY / 2),
        usable: band,
        bands_for_one_write: u64::MAX,
        idle_after: None,
    };
    let full = FullyAssociativeSpec {
        capacity: Sectors(CAPACITY),
        band,
        zone: Sectors(CAPACITY / 4),
        free_bands: 40,
        clean_threshold: 1,
        idle_after: None,
        start: Pba(0),
    };
    [
        ("conventional", Box::new(Conventional::new(Medium::Platter, Sectors(CAPACITY)))),
        ("set-associative", Box::new(SetAssociative::new(set))),
        ("fully-associative", Box::new(FullyAssociative::new(full))),
        ("journaled", Box::new(journaled())),
    ]
}

fn journaled() -> Journaled {
    let mut journal = JournalSpec {
        region: PbaExtent::default(),
        quantum: Sectors(1728),
        out_of_band: Sectors(0),
        gap: Sectors(80),
        entry_max: Sectors(7800),
        entry_writes: 31,
        slots: 24_000,
    };
    journal.region.len = Sectors(journal.region_sectors());
    let staging = PbaExtent::new(journal.region.end(), Sectors(72 << 10));
    let stretch = StretchSpec {
        sectors: Sectors(CAPACITY),
        band: Sectors(72 << 10),
        guard: Sectors(0),
        start: staging.end(),
    };
    Journaled::new(JournaledSpec {
        bands: Bands::new(&[stretch]),
        journal,
        cache_medium: Medium::Platter,
        map_limit: None,
        map_merge_every: None,
        map_merge: PbaExtent::default(),
        cleaning: CleaningSpec {
            order: CleaningOrder::Fifo,
            idle_after: Some(Nanos(1)),
            staging,
            map_update: PbaExtent::default(),
        },
        whole_bands_bypass: true,
        bands_for_one_command: 100,
    })
}

/// Offsets of blocks, spread over the drive.
fn offsets(count: u64) -> impl Iterator<Item = u64> {
    let blocks = CAPACITY * 512 / BLOCK as u64;
    (0..count).map(move |k| k.wrapping_mul(0x9e37_79b9_7f4a_7c15) % blocks * BLOCK as u64)
}

fn measure(name: &str, (on, checksums): (&str, bool), layer: Box<dyn Layer>, file: Option<PathBuf>) {
    let options = Options { write_cache: true, checksums, ..Options::default() };
    let bytes = Image::bytes_needed(layer.as_ref(), &options);
    let made: Box<dyn Store> = match &file {
        Some(path) => Box::new(FileStore::create(path, bytes, true).expect("a file")),
        None => Box::new(RamStore::new(bytes)),
    };
    let mut image = Image::create_on(made, layer, "", &options).expect("an image");
    let mut block = [0x5a; BLOCK];
    let count = 1 << 17;
    let begun = Instant::now();
    for at in offsets(count) {
        image.write(at, &block, false).expect("a write");
    }
    let written = begun.elapsed();
    let begun = Instant::now();
    image.flush().expect("a flush");
    let flushed = begun.elapsed();
    let begun = Instant::now();
    for at in offsets(count) {
        image.read(at, &mut block).expect("a read");
    }
    let read = begun.elapsed();
    let rate = |time: std::time::Duration| count as f64 / time.as_secs_f64() / 1e3;
    let (w, r) = (rate(written), rate(read));
    let sums = if checksums { "sums" } else { "" };
    print!("{name:18} {on:6} {sums:4} write {w:7.1} k/s, flush {flushed:8.1?}, read {r:7.1} k/s");
    let amplification = image.status().write_amplification().unwrap_or_default();
    print!(", {amplification:.2} bytes written a byte");
    drop(image);
    if let Some(path) = file {
        for how in ["after a kill", "again"] {
            let begun = Instant::now();
            let store = FileStore::open(&path, Access::Use).expect("the file");
            let fresh = fresh(name);
            let image = Image::open_on(Box::new(store), fresh, &options).expect("a recovery");
            let took = begun.elapsed();
            let cached = image.status().cache.live_sectors as f64 * 512.0 / (1u64 << 30) as f64;
            print!("; open {how} {took:.1?} with {cached:.2} GiB cached");
        }
    }
    println!();
}

fn fresh(name: &str) -> Box<dyn Layer> {
    layers().into_iter().find(|(known, _)| *known == name).map(|(_, layer)| layer).expect("a known layer")
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    for (name, layer) in layers() {
        measure(name, ("memory", false), layer, None);
        for checksums in [false, true] {
            let path = Path::new(&folder).join(format!("image-rate-{name}.img"));
            measure(name, ("file", checksums), fresh(name), Some(path.clone()));
            std::fs::remove_file(path).expect("its file");
        }
    }
}
