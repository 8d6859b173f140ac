//! Builds what a host-aware drive has besides its zones, and places it on the platters.
//!
//! The persistent cache, the staging area, its map and the metadata of zones lie together at the OD, before the first zone,
//! or at the ID, behind the last one; each starts where the one before ends. The metadata may lie before each zone instead.
//!
//! Invariant: these extents and the zones share no sector.

use skylight_disk::{Mechanics, Nanos, Pba, PbaExtent, Sectors};
use skylight_layer::ZonedSpec;
use skylight_layer::journaled::JournalSpec;
use skylight_layer::zoned::host_aware::throttle::{Estimate, ThrottleSpec};
use skylight_layer::zoned::host_aware::{AwareSpec, Bookkeeping, ZoneLog};

use super::geometry::Tracks;
use super::patience::within_patience;
use super::regions::fits;
use super::{idle_after, sectors};
use crate::profile::{CacheLocation, HostAware, MetadataLocation, Profile, ProfileError};

/// The seed of the choice of the zone that loses its resource: a constant of the drive, as its other choices are.
const CHOICE_SEED: u64 = 0x5ca1_ab1e;

/// The share of the full stroke by which the seek of no distance is taken, so that settling is in it and travel is not.
const SHORT_STROKES: u32 = 200;

/// Adds to a zoned drive what a host-aware one has.
///
/// # Errors
/// When the platters do not hold it.
pub(super) fn add(
    zones: &mut ZonedSpec,
    (profile, keys): (&Profile, &HostAware),
    mechanics: &Mechanics,
    tracks: &Tracks,
) -> Result<(), ProfileError> {
    let mut journal = JournalSpec {
        region: PbaExtent::default(),
        quantum: sectors(keys.quantum),
        out_of_band: Sectors(0),
        gap: sectors(keys.entry_gap),
        entry_max: sectors(keys.entry_max),
        entry_writes: profile.interface.write_cache_runs.map_or(usize::MAX, |runs| runs as usize),
        slots: keys.places,
    };
    let metadata = sectors(keys.zone_metadata);
    let (at_cache, before_zone) = match keys.zone_metadata_location {
        MetadataLocation::Cache => (metadata, Sectors(0)),
        MetadataLocation::Zone => (Sectors(0), metadata),
    };
    let lengths = [
        Sectors(journal.region_sectors()),
        zones.layout.zone,
        sectors(keys.map_merge.unwrap_or_default()),
        at_cache,
    ];
    let reserved = Sectors(lengths.iter().map(|len| len.get()).sum());
    let together = keys.zone_metadata_together.max(1);
    let capacity = sectors(profile.capacity) + between_zones(zones.layout.zones, before_zone, together);
    fits(profile, "capacity", capacity, tracks)?;
    fits(profile, "layer.host_aware.places", capacity + reserved, tracks)?;
    let mut at = match keys.cache_location {
        CacheLocation::Id => Pba(tracks.sectors - reserved.get()),
        CacheLocation::Od | CacheLocation::Md => Pba(0),
    };
    if keys.cache_location != CacheLocation::Id {
        zones.start = Pba(reserved.get());
    }
    let [region, staging, map_merge, zone_log] = lengths.map(|len| {
        let extent = PbaExtent::new(at, len);
        at += len;
        extent
    });
    journal.region = region;
    zones.aware = Some(AwareSpec {
        open_zones: keys.open_zones.or(zones.layout.max_open).unwrap_or(u32::from(u16::MAX)) as usize,
        seed: CHOICE_SEED,
        bookkeeping: bookkeeping(keys),
        close_together: keys.close_together as usize,
        zone_log: zone_log_at(keys, zone_log, before_zone),
        zone_log_copies: keys.zone_metadata_copies,
        zone_log_of_closed: keys.zone_metadata_of_closed,
        journal,
        watermark: (keys.places as f64 * keys.place_watermark) as u64,
        map_limit: keys.map_entries.map(|entries| (entries as f64 * keys.map_watermark) as u64),
        map_merge_every: keys.map_merge_every,
        map_copies: keys.map_copies.into(),
        map_merge,
        staging,
        chunk: sectors(keys.chunk),
        idle_after: idle_after(keys.cleaning, keys.idle),
        throttle: throttle(keys),
        estimate: estimate(mechanics, tracks, region.start),
        // A zone is read, staged, read again and written home.
        zones_for_one_command: within_patience(4, profile, mechanics, zones.layout.zone, tracks),
    });
    Ok(())
}

fn zone_log_at(keys: &HostAware, at_cache: PbaExtent, each: Sectors) -> ZoneLog {
    match keys.zone_metadata_location {
        MetadataLocation::Cache => ZoneLog::At(at_cache),
        MetadataLocation::Zone => ZoneLog::BeforeZones { each, together: keys.zone_metadata_together.max(1) },
    }
}

/// The space that the metadata of zones take between them: that of whole groups of neighbours.
fn between_zones(zones: u32, each: Sectors, together: u32) -> Sectors {
    Sectors(u64::from(zones.div_ceil(together)) * u64::from(together) * each.get())
}

fn bookkeeping(keys: &HostAware) -> Bookkeeping {
    Bookkeeping {
        open: keys.open_time.nanos(),
        settle: keys.settle.nanos(),
        settle_per_write: keys.settle_per_write.nanos(),
        scan_every: keys.scan_every.nanos(),
        scan_per_zone: keys.scan_per_zone.nanos(),
    }
}

fn throttle(keys: &HostAware) -> ThrottleSpec {
    ThrottleSpec {
        first: keys.throttle.nanos(),
        step: keys.throttle_step.nanos(),
        most: keys.throttle_most.unwrap_or(keys.throttle).nanos(),
        writes: keys.throttle_writes,
        one_in: keys.throttle_one_in,
    }
}

fn estimate(mechanics: &Mechanics, tracks: &Tracks, cache: Pba) -> Estimate {
    let at_cache = tracks.runs.iter().find(|run| (run.start..run.end).contains(&cache.get()));
    let count: u64 = tracks.runs.iter().map(|run| (run.end - run.start) / run.track).sum();
    let surfaces = tracks.runs.iter().map(|run| run.surfaces).max().unwrap_or(1).max(1);
    let full = (count / surfaces).saturating_sub(1).max(1) as u32;
    let seek = mechanics.seek.time(full / SHORT_STROKES);
    Estimate {
        revolution: mechanics.rotation.revolution(),
        seek,
        stroke: Nanos(mechanics.seek.time(full).get().saturating_sub(seek.get())),
        platters: tracks.sectors,
        track: at_cache.map_or(tracks.sectors / count.max(1), |run| run.track).max(1),
    }
}
