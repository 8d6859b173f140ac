//! Sizes of the persistent cache, of its map and of its journal.
//!
//! * `cache_fill_bytes`: host data that the cache takes before cleaning starts, in writes that waste nothing;
//!   `cache_bytes`: the same with the watermark divided out.
//! * `cache_raw_bytes`: what lone 4 KiB writes put on the cache's medium until cleaning starts, out-of-band
//!   data with it; merges of the map are not in the cache.
//!
//! Two limits end a journal's patience, places and map entries; which test meets which depends on the size of
//! its writes. A limit that no writes of a host can meet before the other is out of reach.
//!
//! Flash has a latency and a bandwidth, and an entry is two writes, of out-of-band data and of quanta. What
//! entries take gives the bandwidth (from entries of few and of many quanta) and the sum of two latencies
//! and the transfer of the out-of-band data, in which latency and bytes cannot be told apart, however many
//! entries are timed. They are measurable all the same, and `out_of_band_ns` and `cache_raw_bytes` are: a
//! band that is cleaned is staged in the cache in one write of known length, so that the stage takes one
//! latency and a transfer that is known. Where the drive can be made to clean, and each drive of this layer
//! can, commands that arrive meanwhile wait for the end of a step, or of all steps, which moves by a whole
//! turn when what comes before the write misses its angle. Two drives of one layout that differ in the
//! latency alone so differ in something that a host sees. A suite that looks at entries only answers
//! *unknown*, and is scored so.

use skylight_disk::{Direction, Head, Lba, LbaExtent, Pba, PbaExtent, Sectors, Time};
use skylight_layer::Medium;

use super::finding::{Right, TrueFinding};
use crate::drive::Drive;
use crate::profile::{CacheMedium, Journaled, Layer, Profile};

/// How far below a limit the reach of a test must stay for a limit to count as out of reach.
const REACH: f64 = 0.95;
/// A block, which lone writes write.
const BLOCK: u64 = 4096;
/// The granularity of the band test (Skylight, section 4.7: a = 1 MiB).
const BAND_STEP: u64 = 1 << 20;

/// The sizes of a cache in bytes.
struct Sizes {
    cache: u64,
    fill: u64,
    raw: u64,
    why: &'static str,
}

/// What is below a watermark.
pub(super) fn usable(count: u64, watermark: f64) -> u64 {
    (count as f64 * watermark) as u64
}

/// Places that may be in use.
pub(super) fn usable_places(keys: &Journaled) -> u64 {
    usable(keys.places, keys.place_watermark)
}

/// Map entries that may be in use.
fn usable_entries(keys: &Journaled) -> Option<u64> {
    keys.map_entries.map(|entries| usable(entries, keys.map_watermark))
}

/// Lone writes of a block until cleaning starts.
pub(super) fn lone_writes(keys: &Journaled) -> u64 {
    usable_places(keys).min(usable_entries(keys).unwrap_or(u64::MAX))
}

fn sizes(profile: &Profile) -> Option<Sizes> {
    Some(match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => return None,
        Layer::SetAssociative(keys) => {
            let (cache, band) = (keys.cache.get(), keys.band.get());
            let fill = cache / band * usable(band, keys.watermark);
            Sizes { cache, fill, raw: fill, why: "all cache bands, each filled to its watermark" }
        }
        Layer::FullyAssociative(keys) => {
            let zones = profile.capacity.get().div_ceil(keys.zone.get());
            let bytes = |bands: u32| zones * u64::from(bands) * keys.band.get();
            let fill = bytes(keys.free_bands - keys.clean_threshold);
            Sizes { cache: bytes(keys.free_bands), fill, raw: fill, why: "the free bands of all zones" }
        }
        Layer::Journaled(keys) => Sizes {
            cache: keys.places * keys.quantum.get(),
            fill: usable_places(keys) * keys.quantum.get(),
            raw: lone_writes(keys) * (keys.quantum.get() + keys.out_of_band.get()),
            why: "the places of the journal, a quantum each",
        },
    })
}

/// Map entries of which writes of one block can make the most before places run out: those that wait together
/// share an entry of the journal, as many as a queue holds.
fn reachable_entries(profile: &Profile, keys: &Journaled) -> u64 {
    let waiting = u64::from(profile.interface.queue_depth);
    let together = |writes: u64| {
        let quanta = (writes * BLOCK).div_ceil(keys.quantum.get()).max(1);
        usable_places(keys) / quanta * writes
    };
    let most = waiting.min(keys.entry_max.get() / BLOCK).max(1);
    together(most).max(together(most.min(keys.quantum.get() / BLOCK).max(1)))
}

/// Map entries that the largest writes need to fill all places: one for each entry of whole quanta.
fn needed_entries(keys: &Journaled) -> u64 {
    let quanta = (keys.entry_max.get() / keys.quantum.get()).max(1);
    usable_places(keys).div_ceil(quanta)
}

/// Sizes of the cache and of its map.
pub(super) fn findings(profile: &Profile) -> Vec<TrueFinding> {
    let Some(Sizes { cache, fill, raw, why }) = sizes(profile) else { return Vec::new() };
    let (mut map, mut full_map) = (None, None);
    if let Layer::Journaled(keys) = &profile.layer
        && let (Some(entries), Some(usable)) = (keys.map_entries, usable_entries(keys))
    {
        let (reach, needed) = (reachable_entries(profile, keys), needed_entries(keys));
        let far = (usable as f64 >= REACH * reach as f64)
            .then(|| format!("places run out at {reach} map entries at most, and {usable} may be in use"));
        let finding = TrueFinding::number(
            "cache_map_entries",
            (entries, "entries"),
            Right::Within(0.1),
            format!("the map's limit, of which {usable} may be in use"),
        );
        map = Some(finding.unless(far));
        full_map = (needed as f64 >= REACH * usable as f64)
            .then(|| format!("the map is full at {usable} entries, and all places need {needed}"));
    }
    let number = |name, bytes, part| TrueFinding::number(name, (bytes, "bytes"), Right::Within(part), why);
    let mut findings = vec![
        number("cache_bytes", cache, 0.1).unless(full_map.clone()),
        number("cache_fill_bytes", fill, 0.03).unless(full_map),
        TrueFinding {
            why: "what lone 4 KiB writes put into the cache".into(),
            ..number("cache_raw_bytes", raw, 0.1)
        },
    ];
    findings.extend(map);
    findings
}

/// The band that holds an address, at most its size: first byte and size.
pub(super) fn band_at(profile: &Profile, address: u64) -> Option<(u64, u64)> {
    match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => None,
        Layer::SetAssociative(keys) => Some((address - address % keys.band.get(), keys.band.get())),
        Layer::FullyAssociative(keys) => Some((address - address % keys.band.get(), keys.band.get())),
        Layer::Journaled(keys) => {
            let mut start = 0;
            for run in &keys.bands {
                let end = run.until.map_or(profile.capacity.get(), crate::profile::Bytes::get);
                if address < end {
                    return Some((address - (address - start) % run.band.get(), run.band.get()));
                }
                start = end;
            }
            None
        }
    }
}

/// Bands at the first, middle and last address.
pub(super) fn bands(profile: &Profile) -> Option<TrueFinding> {
    let capacity = profile.capacity.get();
    let size = |address| band_at(profile, address).map(|(_, size)| size);
    let bands = vec![("od", size(0)?), ("md", size(capacity / 2)?), ("id", size(capacity - 1)?)];
    let why = "bands of the first, middle and last address of the host";
    Some(TrueFinding::table("band_bytes", (bands, "bytes"), Right::Off(BAND_STEP), why))
}

/// Time that the first out-of-band data of a journal takes once the head is at its first sector: a drive that
/// can begin in the middle of an extent takes a whole turn for one that it arrives inside.
fn out_of_band_ns(drive: &Drive, profile: &Profile, keys: &Journaled) -> u64 {
    let sectors = Sectors(keys.out_of_band.get() / 512);
    let write = LbaExtent::new(Lba(0), Sectors(8));
    let (medium, start) = drive.layer().locate_first(write, true);
    match (medium, &profile.flash) {
        (Medium::Platter, _) => {
            let disk = drive.disk();
            let place = disk.geometry().place(Pba(start.get()));
            let there = Head { surface: place.surface, track: place.track };
            let begin = Time(disk.mechanics().rotation.wait_for(place.angle, Time(0)).get());
            let extent = PbaExtent::new(Pba(start.get()), sectors);
            let timing = disk.access(there, begin, extent, Direction::Write);
            (timing.end - timing.transfer_start).get()
        }
        (Medium::Flash, Some(flash)) => {
            let transfer = keys.out_of_band.get() as f64 * 1e9 / flash.bandwidth.get() as f64;
            flash.write.nanos().get() + transfer as u64
        }
        (Medium::Flash, None) => 0,
    }
}

/// Quantum, entry and out-of-band data.
pub(super) fn journal(drive: &Drive, profile: &Profile, keys: &Journaled) -> Vec<TrueFinding> {
    let turn = drive.disk().mechanics().rotation.turn().get();
    let none = keys.out_of_band.get() == 0;
    let out_of_band = if none { 0 } else { out_of_band_ns(drive, profile, keys) };
    let medium = match keys.cache_medium {
        CacheMedium::Disk => "track by track at the cache",
        CacheMedium::Flash => "on flash",
    };
    vec![
        TrueFinding::number(
            "journal_quantum_bytes",
            (keys.quantum.get(), "bytes"),
            Right::Within(0.05),
            "host data in a place of the journal",
        ),
        TrueFinding::number(
            "journal_entry_max_bytes",
            (keys.entry_max.get(), "bytes"),
            Right::Within(0.1),
            "most host data in an entry of the journal",
        ),
        TrueFinding::number(
            "out_of_band_ns",
            (out_of_band, "ns"),
            Right::Off(turn / 20),
            format!("time of {} before an entry, {medium}", keys.out_of_band),
        )
        .unless(none.then(|| "the drive writes no out-of-band data".to_owned())),
    ]
}
