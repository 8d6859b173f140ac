//! Sizes of the persistent cache, of its map and of its journal.
//!
//! * `cache_fill_bytes`: host data that the cache takes before cleaning starts, with writes that waste no
//!   space; `cache_bytes`: the same divided by the watermark.
//! * `cache_raw_bytes`: what isolated 4 KiB writes put on the cache's medium until cleaning starts, including
//!   out-of-band data; map merges are not in the cache.
//!
//! A journal starts cleaning at either of two limits, slots and map entries; the size of its writes decides
//! which one a test meets. A limit that no host workload can reach before the other is not measurable.
//!
//! Flash has a latency and a bandwidth, and an entry is two writes, one of out-of-band data and one of
//! quanta. The times of entries with few and with many quanta give the bandwidth, and the sum of two
//! latencies and the out-of-band transfer. Entries alone cannot separate this sum into latency and bytes.
//! Nevertheless `out_of_band_ns` and `cache_raw_bytes` are measurable: cleaning stages a band in the cache
//! with a single write of known length, so staging takes one latency and a known transfer time. A host can
//! make every drive with this layer clean. Commands that arrive meanwhile wait for the end of one step, or of
//! all steps, and this end moves by a whole revolution when the work before the write misses its angle. So
//! two drives of the same layout that differ only in the latency differ in what a host observes. A suite that
//! considers only entries reports *unknown*, and is scored accordingly.

use super::finding::TrueFinding;
use super::out_of_band_time;
use super::watermarks::{self, isolated_writes, usable_entries, usable_slots};
use super::zones;
use crate::drive::Drive;
use crate::profile::{Bytes, Conditions, Journaled, Layer, Profile, ProfileError, Zoned};

/// A limit is measurable only if it is below this fraction of what a test can reach before the other limit.
const REACHABLE_FRACTION: f64 = 0.95;
/// The size of an isolated write.
const BLOCK: u64 = 4096;

/// Where the sizes of a journal are from.
const WHY_SLOTS: &str = "the slots of the journal, one quantum each";

/// The sizes of a cache in bytes.
struct Sizes {
    cache: u64,
    fill: u64,
    raw: u64,
    why: &'static str,
}

fn sizes(profile: &Profile) -> Option<Sizes> {
    Some(match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => return None,
        Layer::Zoned(zoned) => {
            let keys = zoned.host_aware.as_deref()?;
            let quantum = keys.quantum.get();
            Sizes {
                cache: keys.places * quantum,
                fill: watermarks::slots(keys) * quantum,
                raw: watermarks::lone_writes(keys, 1, 1) * quantum,
                why: WHY_SLOTS,
            }
        }
        Layer::SetAssociative(keys) => {
            let (cache, band) = (keys.cache.get(), keys.band.get());
            let fill = cache / band * watermarks::usable(band, keys.watermark);
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
            fill: usable_slots(keys) * keys.quantum.get(),
            raw: isolated_writes(keys) * (keys.quantum.get() + keys.out_of_band.get()),
            why: WHY_SLOTS,
        },
    })
}

/// What fills a persistent cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheFill {
    /// Host data that it takes before cleaning starts.
    pub(crate) bytes: u64,
    /// Map entries that may be in use, if limited.
    pub(crate) map_entries: Option<u64>,
    /// The smallest band, which a write must not cover.
    pub(crate) band_bytes: u64,
}

impl CacheFill {
    /// Of a drive with a persistent cache that takes writes to any address: that of a host-aware one takes what is not at
    /// the write pointer of a zone.
    pub(crate) fn of(profile: &Profile) -> Option<Self> {
        if matches!(profile.layer, Layer::Zoned(_)) {
            return None;
        }
        let Sizes { fill, .. } = sizes(profile)?;
        let map_entries = match &profile.layer {
            Layer::Journaled(keys) => usable_entries(keys),
            _ => None,
        };
        let capacity = profile.capacity.get();
        let places = [0, capacity / 2, capacity - 1];
        let smallest =
            places.into_iter().filter_map(|address| band_at(profile, address)).map(|(_, size)| size);
        Some(Self { bytes: fill, map_entries, band_bytes: smallest.min()? })
    }
}

/// The slots of a journal that writes may use, and the bytes of one and of the largest entry.
struct Slots {
    usable: u64,
    quantum: u64,
    entry_max: u64,
}

impl Slots {
    /// The maximum number of map entries that writes of one block can create before the slots run out, if so many share an
    /// entry of the journal.
    fn reachable_entries(&self, sharing: u64) -> u64 {
        let together = |writes: u64| {
            let quanta = (writes * BLOCK).div_ceil(self.quantum).max(1);
            self.usable / quanta * writes
        };
        let most = sharing.min(self.entry_max / BLOCK).max(1);
        together(most).max(together(most.min(self.quantum / BLOCK).max(1)))
    }

    /// Map entries that the largest writes need to fill all slots: one per entry of whole quanta.
    fn needed_entries(&self) -> u64 {
        let quanta = (self.entry_max / self.quantum).max(1);
        self.usable.div_ceil(quanta)
    }
}

/// The slots of a drive whose map has a limit; that limit, and how many entries may be in use.
fn limited_map(profile: &Profile) -> Option<(Slots, u64, u64)> {
    let (usable, quantum, entry_max, entries, watermark) = match &profile.layer {
        Layer::Journaled(keys) => {
            (usable_slots(keys), keys.quantum, keys.entry_max, keys.map_entries?, keys.map_watermark)
        }
        Layer::Zoned(Zoned { host_aware: Some(keys), .. }) => {
            (watermarks::slots(keys), keys.quantum, keys.entry_max, keys.map_entries?, keys.map_watermark)
        }
        _ => return None,
    };
    let slots = Slots { usable, quantum: quantum.get(), entry_max: entry_max.get() };
    Some((slots, entries, watermarks::usable(entries, watermark)))
}

/// Sizes of the cache and of its map, for a host of which up to `sharing` writes can share an entry of a journal; `collected`
/// is how many writes take a slot if that is what a volatile cache collects.
pub(super) fn findings(profile: &Profile, sharing: u64, collected: Option<f64>) -> Vec<TrueFinding> {
    let Some(Sizes { cache, fill, raw, why }) = sizes(profile) else { return Vec::new() };
    let (mut map, mut full_map) = (None, None);
    if let Some((slots, entries, usable)) = limited_map(profile) {
        let (reach, needed) = (slots.reachable_entries(sharing), slots.needed_entries());
        let reach = collected.map_or(reach, |writes| reach.min((slots.usable as f64 * writes) as u64));
        let far = (usable as f64 >= REACHABLE_FRACTION * reach as f64)
            .then(|| format!("slots run out at {reach} map entries at most, and {usable} may be in use"));
        let finding = TrueFinding::number(
            "cache_map_entries",
            entries,
            format!("the map's limit, of which {usable} may be in use"),
        );
        map = Some(finding.unless(far));
        full_map = (needed as f64 >= REACHABLE_FRACTION * usable as f64)
            .then(|| format!("the map is full at {usable} entries, and all slots need {needed}"));
    }
    let number = |name, bytes| TrueFinding::number(name, bytes, why);
    let mut findings = vec![
        number("cache_bytes", cache).unless(full_map.clone()),
        number("cache_fill_bytes", fill).unless(full_map),
        TrueFinding {
            why: "what isolated 4 KiB writes put into the cache".into(),
            ..number("cache_raw_bytes", raw)
        },
    ];
    findings.extend(map);
    let unused = zones::without_pointers(profile);
    findings.into_iter().map(|finding| finding.unless(unused.clone())).collect()
}

/// The band that contains an address: first byte and size.
pub(super) fn band_at(profile: &Profile, address: u64) -> Option<(u64, u64)> {
    match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => None,
        // A zone is what goes home as a whole.
        Layer::Zoned(keys) => {
            let zone = keys.zone_size.get();
            keys.host_aware.as_ref().map(|_| (address - address % zone, zone))
        }
        Layer::SetAssociative(keys) => Some((address - address % keys.band.get(), keys.band.get())),
        Layer::FullyAssociative(keys) => Some((address - address % keys.band.get(), keys.band.get())),
        Layer::Journaled(keys) => {
            let mut start = 0;
            for run in &keys.bands {
                let end = run.until.map_or(profile.capacity.get(), Bytes::get);
                if address < end {
                    return Some((address - (address - start) % run.band.get(), run.band.get()));
                }
                start = end;
            }
            None
        }
    }
}

/// The sizes of the bands at the first, middle and last address.
pub(super) fn bands(profile: &Profile) -> Option<TrueFinding> {
    let capacity = profile.capacity.get();
    let size = |address| band_at(profile, address).map(|(_, size)| size);
    let bands = vec![("od", size(0)?), ("md", size(capacity / 2)?), ("id", size(capacity - 1)?)];
    let why = "bands of the first, middle and last address of the host";
    Some(TrueFinding::table("band_bytes", bands, why))
}

/// Quantum, entry and out-of-band data.
pub(super) fn journal(
    drive: &Drive,
    profile: &Profile,
    keys: &Journaled,
    conditions: &Conditions,
) -> Result<Vec<TrueFinding>, ProfileError> {
    let out_of_band = out_of_band_time::finding(drive, profile, keys, conditions)?;
    Ok(vec![quantum(keys.quantum), entry_max(keys.entry_max), out_of_band])
}

/// Quantum of a journal.
pub(super) fn quantum(bytes: Bytes) -> TrueFinding {
    let why = "host data in a slot of the journal";
    TrueFinding::number("journal_quantum_bytes", bytes.get(), why)
}

/// Largest entry of a journal.
pub(super) fn entry_max(bytes: Bytes) -> TrueFinding {
    let why = "most host data in an entry of the journal";
    TrueFinding::number("journal_entry_max_bytes", bytes.get(), why)
}
