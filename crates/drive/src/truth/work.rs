//! What cleaning and map merges take: a quiet twin of the drive does them, and its ledger and clock say it.
//!
//! * `cleaning_start_ns`: time without commands before cleaning begins.
//! * `cleaning_band_ns`: media time of cleaning one band, the mean over bands at even distances in the address
//!   space: `one_block`, in which one block was written; `half`, in which every other [`CHUNK`] was, in one
//!   pass at the drive's queue depth. For a set-associative drive, which cleans a whole cache band at a time,
//!   what one data band more adds to that.
//! * `map_merge_ns`: how much longer a lone write with a merge takes than one without, on average; out of reach
//!   where merges differ among themselves by more than counts as right (standard deviation).

use skylight_disk::{Direction, Nanos, Sectors};
use skylight_layer::{Medium, Purpose};

use super::cache::{band_at, lone_writes, usable};
use super::finding::{Right, TrueFinding};
use super::quiet;
use crate::batch::{Batch, op};
use crate::drive::Drive;
use crate::profile::{CleaningType, Duration, Journaled, Layer, Profile, ProfileError, SetAssociative};

const BLOCK: u64 = 4096;
/// What "every other" counts in half a band.
pub const CHUNK: u64 = 64 << 10;
/// Bands over which a mean goes.
const BANDS_ONE_BLOCK: u64 = 9;
const BANDS_HALF: u64 = 3;
/// Merges over which a mean goes, and how near to it counts as right.
const MERGES: u64 = 16;
const MERGE_RIGHT: f64 = 0.1;
/// How long the twin waits before it cleans, which no test of it needs to be other.
const TWIN_IDLE_NS: f64 = 1e9;
/// Fewest merges before cleaning starts in which a period shows.
const MERGES_TO_SEE: u64 = 3;

/// Writes `size` bytes at each of these addresses; the latency of each.
fn write(drive: &mut Drive, addresses: &[u64], size: u64, depth: usize) -> Vec<u64> {
    let count = addresses.len();
    let (ops, sizes) = (vec![op::WRITE; count], vec![size as u32; count]);
    let (mut submit, mut complete) = (vec![0; count], vec![0; count]);
    let batch = Batch { op: &ops, offset: addresses, size: &sizes };
    let done = drive.run(&batch, depth, &mut submit, &mut complete);
    debug_assert!(done.is_ok(), "{done:?}");
    complete.iter().zip(&submit).map(|(complete, submit)| complete - submit).collect()
}

/// Media time of cleaning so far, and bands that it wrote.
fn cleaned(drive: &Drive) -> (u64, u64) {
    let (mut time, mut bands) = (0, 0);
    for purpose in [Purpose::CleanRead, Purpose::CleanStage, Purpose::CleanWrite, Purpose::MapUpdate] {
        for way in [Direction::Read, Direction::Write] {
            for medium in [Medium::Platter, Medium::Flash] {
                let account = drive.ledger().account(purpose, way, medium);
                time += account.time.get();
                bands += if purpose == Purpose::CleanWrite { account.accesses } else { 0 };
            }
        }
    }
    (time, bands)
}

/// A quiet twin that cleans when left alone, whatever the drive does.
fn twin(profile: &Profile) -> Profile {
    let mut twin = quiet(profile);
    let idle = Some(Duration::from_ns(TWIN_IDLE_NS));
    match &mut twin.layer {
        Layer::Journaled(keys) => (keys.cleaning, keys.idle) = (CleaningType::Aggressive, idle),
        Layer::FullyAssociative(keys) => (keys.cleaning, keys.idle) = (CleaningType::Aggressive, idle),
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) | Layer::SetAssociative(_) => {}
    }
    twin
}

/// Addresses at even distances, each in the middle of its share of the drive.
fn spread(capacity: u64, count: u64) -> impl Iterator<Item = u64> {
    (0..count).map(move |index| (2 * index + 1) * (capacity / (2 * count)))
}

/// Every other chunk of a band, beginning with the second: a write of its start may be the start of a stream.
fn half(band: (u64, u64)) -> Vec<u64> {
    let (start, size) = band;
    (1..size / CHUNK).step_by(2).map(|chunk| start + chunk * CHUNK).collect()
}

/// Mean media time of cleaning a band that these writes were made in; `None` if a band has no room in the cache.
fn idle_cleaning(
    profile: &Profile,
    bands: u64,
    writes: impl Fn((u64, u64)) -> (Vec<u64>, u64),
) -> Result<Option<u64>, ProfileError> {
    let mut drive = Drive::new(&twin(profile), 0)?;
    let depth = profile.interface.queue_depth as usize;
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

/// What a data band more adds to the cleaning of a set-associative cache band: the cost of one that holds
/// blocks of several data bands, less that of one with blocks of one, for each more.
fn lazy_cleaning(profile: &Profile, keys: &SetAssociative) -> Result<Option<u64>, ProfileError> {
    let (capacity, band) = (profile.capacity.get(), keys.band.get());
    let cache_bands = keys.cache.get() / band;
    let whole = capacity / band;
    // A cache band in the middle, and the data bands that are cached there.
    let first = cache_bands / 2;
    let all: Vec<u64> = (first..whole).step_by(cache_bands as usize).collect();
    let step = all.len().div_ceil(BANDS_ONE_BLOCK as usize).max(1);
    let several: Vec<u64> = all.iter().copied().skip(step / 2).step_by(step).collect();
    let cost = |bands: &[u64]| -> Result<u64, ProfileError> {
        let mut drive = Drive::new(&quiet(profile), 0)?;
        // One write more than the cache band takes.
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

/// When and how long the drive cleans.
pub(super) fn cleaning(profile: &Profile) -> Result<Vec<TrueFinding>, ProfileError> {
    let idle = match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => return Ok(Vec::new()),
        Layer::SetAssociative(keys) => keys.idle,
        Layer::FullyAssociative(keys) => keys.idle,
        Layer::Journaled(keys) => keys.idle,
    };
    let mut findings = Vec::new();
    findings.extend(idle.map(|idle| {
        let why = "how long the drive must be left alone";
        TrueFinding::number("cleaning_start_ns", (idle.nanos().get(), "ns"), Right::Within(0.2), why)
    }));
    let (one, half, why) = match &profile.layer {
        Layer::SetAssociative(keys) => {
            let cost = lazy_cleaning(profile, keys)?;
            (cost, cost, "what one data band more adds to the cleaning of a cache band, whatever is dirty")
        }
        _ => (
            idle_cleaning(profile, BANDS_ONE_BLOCK, |(start, _)| (vec![start + CHUNK / 2], BLOCK))?,
            idle_cleaning(profile, BANDS_HALF, |band| (half(band), CHUNK))?,
            "mean media time over bands spread over the drive; half is every other 64 KiB",
        ),
    };
    let table: Vec<_> =
        [("one_block", one), ("half", half)].into_iter().filter_map(|(name, ns)| Some((name, ns?))).collect();
    if !table.is_empty() {
        findings.push(TrueFinding::table("cleaning_band_ns", (table, "ns"), Right::Within(0.15), why));
    }
    Ok(findings)
}

/// Period and cost of map merges.
pub(super) fn map_merges(profile: &Profile, keys: &Journaled) -> Result<Vec<TrueFinding>, ProfileError> {
    let Some(every) = keys.map_merge_every else { return Ok(Vec::new()) };
    let lone = lone_writes(keys);
    let few = (lone < MERGES_TO_SEE * every)
        .then(|| format!("cleaning starts after {lone} lone writes, too few for a period of {every}"));
    let mut findings = vec![
        TrueFinding::number(
            "map_merge_every",
            (every, "writes"),
            Right::Equal,
            "entries of the journal from merge to merge",
        )
        .unless(few.clone()),
    ];
    findings.extend(merge_ns(profile, keys)?.map(|(ns, apart)| {
        let why = format!("how much longer a lone write with a merge takes, mean over {MERGES} merges");
        let reason = few.or_else(|| {
            let apart_percent = 100.0 * apart;
            let unlike =
                format!("merges take different numbers of turns: {apart_percent:.0} % off their mean");
            (apart > MERGE_RIGHT).then_some(unlike)
        });
        TrueFinding::number("map_merge_ns", (ns, "ns"), Right::Within(MERGE_RIGHT), why).unless(reason)
    }));
    Ok(findings)
}

/// The mean extra time of the first merges, on a twin that merges at the drive's own period, and their standard
/// deviation as a part of it. A merge waits for its turn there and back, so its time depends on where the
/// journal is when it comes: no other period would do.
fn merge_ns(profile: &Profile, keys: &Journaled) -> Result<Option<(u64, f64)>, ProfileError> {
    let Some(every) = keys.map_merge_every else { return Ok(None) };
    let mut twin = quiet(profile);
    if let Layer::Journaled(keys) = &mut twin.layer {
        keys.idle = None;
        keys.cleaning = CleaningType::Lazy;
    }
    let mut drive = Drive::new(&twin, 0)?;
    let count = (MERGES * every).min(lone_writes(keys).saturating_sub(1));
    let blocks = Sectors(drive.capacity().get()).bytes() / BLOCK;
    let addresses: Vec<u64> = (0..count).map(|index| index * (blocks / (count + 1)) * BLOCK).collect();
    let latency = write(&mut drive, &addresses, BLOCK, 1);
    // The first write finds the head anywhere.
    let (merges, plain): (Vec<_>, Vec<_>) = latency
        .into_iter()
        .zip(1..)
        .skip(1)
        .partition(|&(_, number): &(u64, u64)| number.is_multiple_of(every));
    if merges.is_empty() || plain.is_empty() {
        return Ok(None);
    }
    let mean = |of: &[(u64, u64)]| of.iter().map(|&(ns, _)| ns as f64).sum::<f64>() / of.len() as f64;
    let without = mean(&plain);
    let extra = mean(&merges) - without;
    let squares: f64 = merges.iter().map(|&(ns, _)| (ns as f64 - without - extra).powi(2)).sum();
    let apart = (squares / merges.len() as f64).sqrt();
    Ok(Some((extra.max(0.0) as u64, apart / extra.max(1.0))))
}
