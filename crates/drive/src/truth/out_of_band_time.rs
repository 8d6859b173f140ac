//! `out_of_band_ns`: how long the out-of-band data of a journal's entry takes, from its first sector on.
//!
//! It is as many tracks as its bytes need, and a switch to another track at the end of each. Where an erase puts the log
//! back to its start, it is that of the first entry, which is the same whenever it is looked at. Where none does, a host
//! meets the log wherever it has come to, and moves it on by every write: on tracks of other lengths, with entries that begin
//! anywhere on one. Then the value is the mean over the region that the log goes round in, and the range are the means of
//! the shortest and of the longest tracks there.
//!
//! Source: Skylight (FAST '15) section 4.3.1; docs/random-drives.md, "The truth".

use skylight_disk::{Direction, Head, Lba, LbaExtent, Pba, PbaExtent, Sectors, Time};

use super::finding::TrueFinding;
use crate::build;
use crate::drive::Drive;
use crate::profile::{CacheMedium, Conditions, Erase, Journaled, Profile, ProfileError};

/// Stretches of the log, and entries in each of which the mean is taken. Chosen: tracks of a stretch are as good as alike,
/// and its entries begin everywhere on them.
const STRETCHES: u64 = 512;
const ENTRIES: u64 = 64;
/// Of the distance from one entry to the next, how much further each begins: the golden ratio spreads them most evenly,
/// whatever the distance is of a track.
const FURTHER: f64 = 0.618_033_988_75;

/// The finding under these conditions, of a drive whose quiet, new copy is `new`.
pub(super) fn finding(
    new: &Drive,
    profile: &Profile,
    keys: &Journaled,
    conditions: &Conditions,
) -> Result<TrueFinding, ProfileError> {
    let sectors = Sectors(keys.out_of_band.get() / 512);
    let number = |ns, words: &str| {
        let why = format!("time of {} before {words}", keys.out_of_band);
        TrueFinding::number("out_of_band_ns", ns, why)
    };
    if sectors.get() == 0 {
        return Ok(number(0, "an entry").unless(Some("the drive writes no out-of-band data".to_owned())));
    }
    if keys.cache_medium == CacheMedium::Flash {
        return Ok(number(flash_ns(profile, keys), "an entry, on flash"));
    }
    if conditions.erase == Erase::Sanitize {
        let (_, start) = new.layer().locate_first(LbaExtent::new(Lba(0), Sectors(8)), true);
        return Ok(number(transfer_ns(new, start, sectors), "the first entry, track by track at the cache"));
    }
    let means = along(new, build::journal_region(profile, keys)?, sectors);
    let (least, most) = means.iter().fold((u64::MAX, 0), |(least, most), &ns| (least.min(ns), most.max(ns)));
    let mean = means.iter().sum::<u64>() / means.len() as u64;
    let finding = number(mean, "an entry, in the mean of all along the log, which no erase puts back");
    Ok(TrueFinding { range: Some((least, most)), ..finding })
}

/// Time of the write to flash.
fn flash_ns(profile: &Profile, keys: &Journaled) -> u64 {
    profile.flash.as_ref().map_or(0, |flash| {
        flash.write.nanos().get()
            + (keys.out_of_band.get() as f64 * 1e9 / flash.bandwidth.get() as f64) as u64
    })
}

/// The mean time of entries in each stretch of the log.
fn along(drive: &Drive, region: PbaExtent, sectors: Sectors) -> Vec<u64> {
    let last = region.len.get() - sectors.get();
    let apart = last as f64 / (STRETCHES * ENTRIES) as f64;
    let start = |index: u64| {
        region.start + Sectors(((index as f64 + (index as f64 * FURTHER).fract()) * apart) as u64)
    };
    let mean = |stretch: u64| {
        let entries = stretch * ENTRIES..(stretch + 1) * ENTRIES;
        entries.map(|index| transfer_ns(drive, start(index), sectors)).sum::<u64>() / ENTRIES
    };
    (0..STRETCHES).map(mean).collect()
}

/// Time to write this data from its first sector on, at which the head is. Starting there matters because a zero-latency
/// drive that arrives inside the extent takes a whole revolution.
fn transfer_ns(drive: &Drive, start: Pba, sectors: Sectors) -> u64 {
    let disk = drive.disk();
    let position = disk.geometry().position_of(start);
    let there = Head { surface: position.surface, track: position.track };
    let begin = Time(disk.mechanics().rotation.wait_for(position.angle, Time(0)).get());
    let timing = disk.access(there, begin, PbaExtent::new(start, sectors), Direction::Write);
    (timing.end - timing.transfer_start).get()
}
