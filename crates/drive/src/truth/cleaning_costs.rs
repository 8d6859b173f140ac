//! Costs of cleaning and map merges: a quiet copy of the drive performs them, and its counters and clock give
//! the times.
//!
//! * `cleaning_start_ns`: time without commands before cleaning starts.
//! * `cleaning_band_ns`: media time of cleaning one band, averaged over bands at equal distances in the
//!   address space. `one_block`: one block of the band was written; `half`: every other [`CHUNK`] was, in one
//!   pass at the drive's queue depth, or through a volatile cache that stays on, as fast as the host's link lets
//!   it. A set-associative drive cleans a whole cache band at a time; for it,
//!   the cost of each additional data band.
//! * `map_merge_ns`: how much longer an isolated write takes with a merge than without, on average. A write with a copy
//!   of the map before it is one with a merge, also where each merge writes several copies. Not measurable if the standard
//!   deviation of the merges exceeds the tolerance. Its range reaches to the same with the drive's jitter, for that decides
//!   which accesses of a merge just miss their revolution.

use skylight_disk::{Direction, Nanos, Sectors};
use skylight_layer::{Medium, Purpose};

use super::cache::band_at;
use super::finding::TrueFinding;
use super::measurability;
use super::quiet;
use super::watermarks::{isolated_writes, lone_writes, usable};
use crate::batch::Batch;
use crate::drive::Drive;
use crate::profile::{
    CleaningType, Conditions, Duration, Jitter, Layer, Profile, ProfileError, SetAssociative, VolatileCache,
    Zoned,
};
use skylight_command::code::Code;

const BLOCK: u64 = 4096;
/// The unit of "every other" in half a band.
pub const CHUNK: u64 = 64 << 10;
/// Number of bands in each average.
const BANDS_ONE_BLOCK: u64 = 9;
const BANDS_HALF: u64 = 3;
/// Number of merges in the average.
const MERGES: u64 = 64;
/// Merges that differ by more from their mean have no length of their own: as near as an answer must come.
const MERGE_TOLERANCE: f64 = 0.1;
/// Idle time before the copy cleans. Chosen, because no measurement on it depends on the value.
const COPY_IDLE_NS: f64 = 1e9;
/// Minimum number of merges before cleaning starts for their period to be measurable.
const MIN_MERGES: u64 = 3;

/// Writes `size` bytes at each address; returns the latencies.
pub(super) fn write(drive: &mut Drive, addresses: &[u64], size: u64, depth: usize) -> Vec<u64> {
    let count = addresses.len();
    let (ops, sizes) = (vec![Code::Write; count], vec![size as u32; count]);
    let (mut submit, mut complete) = (vec![0; count], vec![0; count]);
    let batch = Batch { op: &ops, offset: addresses, size: &sizes };
    let done = drive.run(&batch, depth, &mut submit, &mut complete);
    debug_assert!(done.is_ok(), "{done:?}");
    complete.iter().zip(&submit).map(|(complete, submit)| complete - submit).collect()
}

/// Media time of cleaning so far, and the number of bands that it wrote.
fn cleaned(drive: &Drive) -> (u64, u64) {
    let (mut time, mut bands) = (0, 0);
    for purpose in [Purpose::CleanRead, Purpose::CleanStage, Purpose::CleanWrite, Purpose::MapUpdate] {
        for direction in [Direction::Read, Direction::Write] {
            for medium in [Medium::Platter, Medium::Flash] {
                let account = drive.counters().account(purpose, direction, medium);
                time += account.time.get();
                bands += if purpose == Purpose::CleanWrite { account.accesses } else { 0 };
            }
        }
    }
    (time, bands)
}

/// A quiet copy that always cleans when idle.
fn copy(profile: &Profile) -> Profile {
    let mut copy = quiet(profile);
    let idle = Some(Duration::from_ns(COPY_IDLE_NS));
    match &mut copy.layer {
        Layer::Journaled(keys) => (keys.cleaning, keys.idle) = (CleaningType::Aggressive, idle),
        Layer::FullyAssociative(keys) => (keys.cleaning, keys.idle) = (CleaningType::Aggressive, idle),
        Layer::Conventional(_)
        | Layer::Ssd(_)
        | Layer::Swd(_)
        | Layer::SetAssociative(_)
        | Layer::Zoned(_) => {}
    }
    copy
}

/// Addresses at equal distances, each in the middle of its share of the drive.
pub(super) fn spread(capacity: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |index| (2 * index + 1) * (capacity / (2 * count)))
}

/// Every other chunk of a band, starting with the second: a write at its start might begin a stream.
fn half(band: (u64, u64)) -> Vec<u64> {
    let (start, size) = band;
    (1..size / CHUNK).step_by(2).map(|chunk| start + chunk * CHUNK).collect()
}

/// Of the conditions those that decide how many writes leave a volatile cache together, where it stays on: the first leave
/// as soon as they come, and the next ones collect while those are written, which over a slow link are few. Ideal ones
/// where it does not: then the host decides.
pub(super) fn collecting(conditions: &Conditions) -> Conditions {
    if conditions.volatile_cache.fixed() != Some(true) {
        return Conditions::default();
    }
    Conditions {
        volatile_cache: VolatileCache::On,
        volatile_cache_size: conditions.volatile_cache_size,
        queue_depth: conditions.queue_depth,
        host_gap: conditions.host_gap,
        transport: conditions.transport,
        ..Conditions::default()
    }
}

/// Mean media time of cleaning a band after these writes; `None` if the writes do not fit in the cache.
fn idle_cleaning(
    profile: &Profile,
    bands: u64,
    conditions: &Conditions,
    writes: impl Fn((u64, u64)) -> (Vec<u64>, u64),
) -> Result<Option<u64>, ProfileError> {
    let depth = profile.interface.queue_depth.min(measurability::depth(conditions)) as usize;
    let mut drive = Drive::new(&copy(profile), 0)?;
    drive.meet(profile, &collecting(conditions), 0);
    let mut total = 0;
    for address in spread(profile.capacity.get(), bands) {
        let Some(band) = band_at(profile, address) else { return Ok(None) };
        let (addresses, size) = writes(band);
        let before = cleaned(&drive);
        write(&mut drive, &addresses, size, depth);
        if cleaned(&drive) != before {
            return Ok(None);
        }
        drive.pause(Nanos(3_600_000_000_000));
        let after = cleaned(&drive);
        if after.1 != before.1 + 1 {
            return Ok(None);
        }
        total += after.0 - before.0;
    }
    Ok(Some(total / bands))
}

/// Additional cost of each data band in the cleaning of a set-associative cache band: the cost with blocks of
/// several data bands less the cost with one, per additional band.
fn lazy_cleaning(profile: &Profile, keys: &SetAssociative) -> Result<Option<u64>, ProfileError> {
    let (capacity, band) = (profile.capacity.get(), keys.band.get());
    let cache_bands = keys.cache.get() / band;
    let whole = capacity / band;
    // A cache band in the middle, and the data bands that map to it.
    let first = cache_bands / 2;
    let all: Vec<u64> = (first..whole).step_by(cache_bands as usize).collect();
    let step = all.len().div_ceil(BANDS_ONE_BLOCK as usize).max(1);
    let several: Vec<u64> = all.iter().copied().skip(step / 2).step_by(step).collect();
    let cost = |bands: &[u64]| -> Result<u64, ProfileError> {
        let mut drive = Drive::new(&quiet(profile), 0)?;
        // One write more than fits in the cache band.
        let blocks = usable(band, keys.watermark) / BLOCK + 1;
        let address = |index: u64| bands[(index % bands.len() as u64) as usize] * band;
        let addresses: Vec<u64> = (0..blocks).map(address).collect();
        write(&mut drive, &addresses, BLOCK, 1);
        Ok(cleaned(&drive).0)
    };
    let one = match several.first() {
        Some(&first) => cost(&[first])?,
        None => return Ok(None),
    };
    if several.len() < 2 {
        return Ok(Some(one));
    }
    let more = several.len() as u64 - 1;
    Ok(Some(cost(&several)?.saturating_sub(one) / more))
}

/// When the drive cleans and how long it takes, for a host under these conditions.
pub(super) fn cleaning(profile: &Profile, conditions: &Conditions) -> Result<Vec<TrueFinding>, ProfileError> {
    let idle = match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => return Ok(Vec::new()),
        Layer::Zoned(keys) => keys.host_aware.as_ref().and_then(|cache| cache.idle),
        Layer::SetAssociative(keys) => keys.idle,
        Layer::FullyAssociative(keys) => keys.idle,
        Layer::Journaled(keys) => keys.idle,
    };
    let mut findings = Vec::new();
    findings.extend(idle.map(|idle| {
        let why = "idle time before the drive cleans";
        TrueFinding::number("cleaning_start_ns", idle.nanos().get(), why)
    }));
    let (one, half, why) = match &profile.layer {
        // What a zone costs depends on where in it the writes lie (`docs/tests/zone-cleaning.md`).
        Layer::Zoned(_) => return Ok(findings),
        Layer::SetAssociative(keys) => {
            let cost = lazy_cleaning(profile, keys)?;
            (
                cost,
                cost,
                "cost of each additional data band when a cache band is cleaned, however much of it is dirty",
            )
        }
        _ => {
            let one = |(start, _): (u64, u64)| (vec![start + CHUNK / 2], BLOCK);
            (
                idle_cleaning(profile, BANDS_ONE_BLOCK, conditions, one)?,
                idle_cleaning(profile, BANDS_HALF, conditions, |band| (half(band), CHUNK))?,
                "mean media time over bands spread over the drive; half is every other 64 KiB",
            )
        }
    };
    let table: Vec<_> =
        [("one_block", one), ("half", half)].into_iter().filter_map(|(name, ns)| Some((name, ns?))).collect();
    if !table.is_empty() {
        findings.push(TrueFinding::table("cleaning_band_ns", table, why));
    }
    Ok(findings)
}

/// The log of a drive that merges a map: the period of merges, entries; lone writes until cleaning starts; and the first
/// address from which on all writes out of order go to the log, bytes.
struct Log {
    every: u64,
    isolated: u64,
    base: u64,
}

impl Log {
    fn of(profile: &Profile) -> Option<Self> {
        match &profile.layer {
            Layer::Journaled(keys) => {
                Some(Self { every: keys.map_merge_every?, isolated: isolated_writes(keys), base: 0 })
            }
            Layer::Zoned(zoned) => {
                let keys = zoned.host_aware.as_ref()?;
                Some(Self {
                    every: keys.map_merge_every?,
                    isolated: lone_writes(keys, 1, 1),
                    // A block behind the write pointer of the first zone that has one.
                    base: u64::from(zoned.conventional_zones) * zoned.zone_size.get() + BLOCK,
                })
            }
            _ => None,
        }
    }
}

/// Period and cost of map merges.
pub(super) fn map_merges(profile: &Profile) -> Result<Vec<TrueFinding>, ProfileError> {
    let Some(log) = Log::of(profile) else { return Ok(Vec::new()) };
    let Log { every, isolated, .. } = log;
    let few = (isolated < MIN_MERGES * every).then(|| {
        format!("cleaning starts after {isolated} isolated writes, too few for a period of {every}")
    });
    let mut findings = vec![
        TrueFinding::number("map_merge_every", every, "entries of the journal from merge to merge")
            .unless(few.clone()),
    ];
    let with_jitter = merges(profile, &log, Jitter { outlier_rate: 0.0, ..profile.jitter.clone() })?;
    findings.extend(merges(profile, &log, Jitter::default())?.map(|Merges { extra_ns, apart, count }| {
        let why = format!("how much longer an isolated write with a merge takes, mean over {count} merges");
        let reason = few.or_else(|| {
            let apart_percent = 100.0 * apart;
            let unlike =
                format!("merges take different numbers of revolutions: {apart_percent:.0} % off their mean");
            (apart > MERGE_TOLERANCE).then_some(unlike)
        });
        let range = with_jitter.map(|other| (extra_ns.min(other.extra_ns), extra_ns.max(other.extra_ns)));
        TrueFinding { range, ..TrueFinding::number("map_merge_ns", extra_ns, why) }.unless(reason)
    }));
    Ok(findings)
}

/// The first merges of a drive: how much longer a write with one takes on average, their standard deviation as a fraction
/// of that, and their number.
struct Merges {
    extra_ns: u64,
    apart: f64,
    count: usize,
}

/// Accesses to the media so far for merges of the map and for entries of the log.
fn log_accesses(drive: &Drive) -> (u64, u64) {
    let of = |purpose| -> u64 {
        let media = [Medium::Platter, Medium::Flash];
        media.map(|medium| drive.counters().account(purpose, Direction::Write, medium).accesses).iter().sum()
    };
    (of(Purpose::MapMerge), of(Purpose::Cache))
}

/// Latencies of isolated writes to the log: of those with a merge, and of those without one, ns.
///
/// The drive's own account shows which are which: a merge may write several copies of the map, each before another entry,
/// and a write that happens to continue its zone is no entry.
fn with_and_without(drive: &mut Drive, addresses: &[u64]) -> (Vec<f64>, Vec<f64>) {
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for (number, &address) in addresses.iter().enumerate() {
        let before = log_accesses(drive);
        let latency_ns: u64 = write(drive, &[address], BLOCK, 1).iter().sum();
        let after = log_accesses(drive);
        // The head position before the first write is arbitrary.
        if number == 0 || after.1 == before.1 {
            continue;
        }
        let has_merged = after.0 > before.0;
        if has_merged { &mut with } else { &mut without }.push(latency_ns as f64);
    }
    (with, without)
}

/// The first merges on a copy with this jitter that merges at the drive's own period. A merge includes rotational delays there
/// and back, so its time depends on the position of the journal at that moment; any other period would change the result.
fn merges(profile: &Profile, log: &Log, jitter: Jitter) -> Result<Option<Merges>, ProfileError> {
    let mut copy = quiet(profile);
    copy.jitter = jitter;
    match &mut copy.layer {
        Layer::Journaled(keys) => (keys.idle, keys.cleaning) = (None, CleaningType::Lazy),
        Layer::Zoned(Zoned { host_aware: Some(keys), .. }) => {
            (keys.idle, keys.cleaning) = (None, CleaningType::Lazy);
        }
        _ => {}
    }
    let mut drive = Drive::new(&copy, 0)?;
    let count = (MERGES * log.every).min(log.isolated.saturating_sub(1));
    let blocks = (Sectors(drive.capacity().get()).bytes().saturating_sub(log.base)) / BLOCK;
    if blocks <= count {
        return Ok(None);
    }
    let addresses: Vec<u64> =
        (0..count).map(|index| log.base + index * (blocks / (count + 1)) * BLOCK).collect();
    let (with, without) = with_and_without(&mut drive, &addresses);
    if with.is_empty() || without.is_empty() {
        return Ok(None);
    }
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let plain = mean(&without);
    let extra = mean(&with) - plain;
    let squares: f64 = with.iter().map(|ns| (ns - plain - extra).powi(2)).sum();
    let apart = (squares / with.len() as f64).sqrt() / extra.max(1.0);
    Ok(Some(Merges { extra_ns: extra.max(0.0) as u64, apart, count: with.len() }))
}
