//! The translation layer of a random drive.
//!
//! Limits of physics and of the kinds, and what is adjusted to meet them:
//! * *Cache size*: a cache has space for at least two bands, or three of its largest entries; the small cache
//!   of a small drive grows.
//! * *Cache location*: a journal with its out-of-band data takes at most [`MAX_REGION_FRACTION`] of the
//!   platters, or it would not be at one diameter; otherwise its cache shrinks within its range.
//! * *Guards* are as wide as the head (`build/regions.rs`). They require bands several times longer than a
//!   guard, in passes that contain several bands; otherwise there are none, as with a head as wide as its
//!   track.
//! * *Map merges* take at least the seeks to the map and back, and a revolution.
//! * A cache at several locations and dynamic mapping belong to fully-associative layers only. A map limit,
//!   quanta, out-of-band data, a maximum entry size, merges, bands by zone, and the cleaning order belong to
//!   journaled layers only.

use super::draw::rounded;
use super::hardware::{Body, Size};
use super::ranges as range;
use super::text::{Text, blocks, mebibytes};
use crate::profile::Bytes;

/// Maximum fraction of the platters for a journal.
const MAX_REGION_FRACTION: f64 = 0.25;
/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;
const LOCATIONS: [&str; 3] = ["od", "md", "id"];

/// The text of a layer, and what the layer requires.
#[derive(Clone, Debug, Default)]
pub(super) struct LayerText {
    pub text: Text,
    /// Bytes on the platters, including host data.
    pub platters: f64,
    /// Whether the layer uses flash.
    pub flash: bool,
    /// Maximum number of runs in the volatile write cache, where the drive has one; without a limit if `None`.
    pub write_cache_runs: Option<f64>,
}

pub(super) fn begin(kind: &str) -> Text {
    let mut text = Text::default();
    text.section("[layer]");
    text.word("kind", kind);
    text
}

/// `conventional`: no keys.
pub(super) fn conventional(body: &Body) -> LayerText {
    let platters = body.capacity.get() as f64;
    LayerText { text: begin("conventional"), platters, ..LayerText::default() }
}

/// `ssd`: no keys.
pub(super) fn ssd() -> LayerText {
    LayerText { text: begin("ssd"), platters: 0.0, flash: true, ..LayerText::default() }
}

/// The size in bytes of a cache, at least `least`.
fn cache(body: &Body, flash: bool, least: f64) -> f64 {
    let capacity = body.capacity.get() as f64;
    let drawn = if flash {
        body.draws.number(&range::FLASH_CACHE_MIB) * MIB
    } else {
        body.draws.number(&range::DISK_CACHE_PART) * capacity
    };
    drawn.max(least)
}

/// Draws the location of a cache and writes it; returns whether it is flash, and its location if on disk.
fn cache_location(body: &Body, text: &mut Text) -> (bool, &'static str) {
    let flash = body.draws.chance(&range::FLASH_CACHE);
    let location = body.draws.choice("cache_location", &LOCATIONS);
    text.word("cache_medium", if flash { "flash" } else { "disk" });
    if !flash {
        text.word("cache_location", location);
    }
    (flash, location)
}

/// The size of a band at the OD.
fn band(body: &Body) -> f64 {
    body.draws.number(&range::BAND_MIB) * MIB
}

/// `set-associative`.
pub(super) fn set_associative(body: &Body) -> LayerText {
    let mut text = begin("set-associative");
    let band = band(body);
    text.word("band", mebibytes(band));
    let (flash, _) = cache_location(body, &mut text);
    let cache = rounded(cache(body, flash, 2.0 * band) / MIB, 3).max(2.0 * band / MIB) * MIB;
    text.word("cache", mebibytes(cache));
    text.key("watermark", body.draws.number(&range::BAND_WATERMARK));
    cleaning(body, &mut text);
    let on_disk = if flash { 0.0 } else { cache };
    let platters = body.capacity.get() as f64 + on_disk + 2.0 * band;
    LayerText { text, platters, flash, ..LayerText::default() }
}

/// When the layer cleans.
pub(super) fn cleaning(body: &Body, text: &mut Text) {
    let lazy = body.draws.chance(&range::LAZY);
    text.word("cleaning", if lazy { "lazy" } else { "aggressive" });
    if !lazy {
        text.time("idle", body.draws.number(&range::IDLE_S) * 1e9);
    }
}

/// `fully-associative`: the size of the zones follows from the free bands and the cache size.
pub(super) fn fully_associative(body: &Body) -> LayerText {
    const SMALLEST_ZONE: f64 = 1024.0 * MIB;
    const LARGEST_ZONE: f64 = 512.0 * SMALLEST_ZONE;
    let draws = body.draws;
    let mut text = begin("fully-associative");
    let (band, capacity) = (band(body), body.capacity.get() as f64);
    let part = draws.number(&range::DISK_CACHE_PART);
    let wanted = draws.number(&range::FREE_BANDS).round() * band / part;
    let zone = wanted.clamp(SMALLEST_ZONE.max(8.0 * band), LARGEST_ZONE.min(capacity / 2.0));
    let zone = ((rounded(zone, 3) / band).round() * band).max(8.0 * band);
    let free = (part * zone / band).round().max(range::FREE_BANDS.low);
    let threshold = (free * (1.0 - draws.number(&range::ZONE_WATERMARK))).floor().clamp(1.0, free - 1.0);
    text.word("band", mebibytes(band));
    text.word("zone", mebibytes(zone));
    text.key("free_bands", free);
    text.key("clean_threshold", threshold);
    cleaning(body, &mut text);
    let zones = (capacity / zone).ceil();
    let platters = capacity + zones * (free + 1.0) * band;
    LayerText { text, platters, ..LayerText::default() }
}

/// The journal of a `journaled` layer or of a host-aware drive, in bytes.
pub(super) struct Journal {
    flash: bool,
    quantum: Bytes,
    /// A host-aware drive has none.
    pub out_of_band: Bytes,
    gap: Bytes,
    entry_max: Bytes,
    places: f64,
    /// Bytes on the platters.
    pub region: f64,
}

impl Journal {
    pub fn draw(body: &Body, flash: bool, location: &str) -> Self {
        let draws = body.draws;
        let track = 512.0
            * match location {
                "od" => body.outer,
                "md" => body.mean_track(),
                _ => body.inner,
            };
        let quantum = blocks(draws.number(&range::QUANTUM_TRACKS) * track);
        let out_of_band = match draws.chance(&range::NO_OUT_OF_BAND) {
            true => Bytes(0),
            false => floor_blocks(draws.number(&range::OUT_OF_BAND_TRACKS) * track),
        };
        let gap = floor_blocks(draws.number(&range::ENTRY_GAP_KIB) * 1024.0);
        let quanta = draws.number(&range::ENTRY_QUANTA);
        let entry_max = blocks(quanta * quantum.get() as f64).max(quantum);
        let (quantum_bytes, one) =
            (quantum.get() as f64, (quantum.get() + out_of_band.get() + gap.get()) as f64);
        let largest = quanta.ceil() + 1.0;
        let entry = largest * quantum_bytes + (one - quantum_bytes);
        let mut places = cache(body, flash, 0.0) / quantum_bytes;
        if !flash {
            places = places.min(MAX_REGION_FRACTION * body.capacity.get() as f64 / one);
        }
        let places = rounded(places, 4).max((3.0 * largest / draws.number(&range::PLACE_WATERMARK)).ceil());
        let places = places.round();
        let region = if flash { 0.0 } else { places * one + 2.0 * entry };
        Self { flash, quantum, out_of_band, gap, entry_max, places, region }
    }

    pub fn write(&self, body: &Body, text: &mut Text) {
        text.word("quantum", self.quantum);
        if self.out_of_band.get() > 0 {
            text.word("out_of_band", self.out_of_band);
        }
        if self.gap.get() > 0 {
            text.word("entry_gap", self.gap);
        }
        text.word("entry_max", self.entry_max);
        text.key("places", self.places);
        text.key("place_watermark", body.draws.number(&range::PLACE_WATERMARK));
    }
}

/// The number of bytes in whole blocks, rounded down, possibly zero.
fn floor_blocks(bytes: f64) -> Bytes {
    Bytes((bytes / 4096.0) as u64 * 4096)
}

/// The limit of a map and its merges; returns the bytes of a merge.
pub(super) fn map_merges(body: &Body, text: &mut Text) -> f64 {
    let draws = body.draws;
    if !draws.chance(&range::MAP_UNLIMITED) {
        text.key("map_entries", draws.number(&range::MAP_ENTRIES));
        text.key("map_watermark", draws.number(&range::MAP_WATERMARK));
    }
    let mut home = 0.0;
    if !draws.chance(&range::MAP_NEVER_MERGED) {
        // A merge includes half of the full arm travel there and back, and about a revolution of rotational delay.
        let moves = 2.0 * f64::midpoint(body.track_seek_ns, body.full_seek_ns) + body.rotation_ns;
        let writing = (draws.number(&range::MAP_MERGE_MS) * 1e6 - moves).max(0.0);
        home = rounded(writing / body.rotation_ns * body.mean_track() * 512.0, 3);
        text.key("map_merge_every", draws.number(&range::MAP_MERGE_EVERY).round());
        text.word("map_merge", blocks(home));
    }
    home
}

/// The map of a `journaled` layer; returns the bytes at its home location.
fn map(body: &Body, text: &mut Text) -> f64 {
    let draws = body.draws;
    let home = map_merges(body, text);
    text.word("map_location", draws.choice("map_location", &LOCATIONS));
    text.word("map_update", blocks(draws.number(&range::MAP_UPDATE_KIB) * 1024.0));
    home.max(f64::from(1 << 20))
}

/// The band sizes of a `journaled` layer in bytes, from the outermost inwards.
fn band_sizes(body: &Body) -> Vec<f64> {
    let draws = body.draws;
    let outer = band(body);
    if !draws.chance(&range::BANDS_BY_ZONE) {
        return vec![outer];
    }
    let runs = draws.number(&range::BAND_RUNS) as u32;
    let inner = (draws.number(&range::BAND_INNER_PART) * outer).max(range::BAND_MIB.low * MIB);
    let size = |run| outer + (inner - outer) * f64::from(run) / f64::from(runs - 1);
    let mut sizes: Vec<f64> = (0..runs).map(|run| mebibytes(size(run)).get() as f64).collect();
    sizes.dedup();
    sizes
}

fn write_bands(body: &Body, sizes: &[f64], text: &mut Text) {
    let capacity = body.capacity.get() as f64;
    for (number, &size) in sizes.iter().enumerate() {
        text.section("[[layer.bands]]");
        text.word("band", mebibytes(size));
        if number + 1 < sizes.len() {
            let until = capacity * (number + 1) as f64 / sizes.len() as f64;
            text.word("until", Bytes(rounded(until, 3) as u64));
        }
    }
}

/// `journaled`; `size` gives the size of a drive without guards, which decides whether guards are possible.
pub(super) fn journaled(body: &Body, size: impl Fn(f64) -> Size) -> LayerText {
    let draws = body.draws;
    let mut text = begin("journaled");
    let (flash, location) = cache_location(body, &mut text);
    let journal = Journal::draw(body, flash, location);
    journal.write(body, &mut text);
    let home = map(body, &mut text);
    cleaning(body, &mut text);
    let order = draws.choice("cleaning_order", &["fifo", "lifo", "greedy", "random"]);
    text.word("cleaning_order", order);
    if order == "random" {
        text.key("cleaning_seed", draws.number(&range::CLEANING_SEED));
    }
    text.key("whole_bands_bypass", draws.chance(&range::WHOLE_BANDS_BYPASS));

    let sizes = band_sizes(body);
    let (largest, smallest) = (sizes[0], sizes[sizes.len() - 1]);
    let capacity = body.capacity.get() as f64;
    let staged = if journal.flash { 0.0 } else { largest };
    let track = body.outer * 512.0;
    let reserved = journal.region + staged + home + 8.0 * track;
    let width = 1.0 + draws.number(&range::GUARD_TRACKS);
    let size = size(capacity + reserved);
    let guard = width * track * body.tracks_side_by_side(size);
    let pitch = |band: f64| band + guard;
    let run = body.smallest_pass(size) * 512.0;
    let guarded = width > 1.0 && smallest >= 4.0 * guard && run >= 8.0 * pitch(largest);
    let mut platters = capacity + reserved;
    if guarded {
        text.key("guard_tracks", width);
        platters = capacity * pitch(smallest) / smallest + reserved;
    }
    write_bands(body, &sizes, &mut text);
    LayerText { text, platters, flash, ..LayerText::default() }
}
