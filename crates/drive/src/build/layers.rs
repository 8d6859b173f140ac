//! Builds the translation layers of profiles and places their regions on the platters.

use skylight_disk::{Geometry, Mechanics, Pba, PbaExtent, Sectors, Shingling};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};
use skylight_layer::journaled::{CleaningOrder, CleaningSpec, JournalSpec};
use skylight_layer::{
    Bands, Conventional, FullyAssociative, FullyAssociativeSpec, Journaled, JournaledSpec, Layer, Medium,
    SetAssociative, SetAssociativeSpec, StretchSpec, Swd, SwdSpec, ZoneLayout, ZoneModel, ZonedLayer,
    ZonedSpec,
};

use super::geometry::{Tracks, about};
use super::patience::within_patience;
use super::regions::{bands, fits, free_runs, reserve, track_bands, tracks_for, tracks_for_bands};
use super::{host_aware, idle_after, sectors};
use crate::profile::{self, BandRun, CacheLocation, CacheMedium, Profile, ProfileError};

/// The layer of a profile.
pub(super) fn build(
    profile: &Profile,
    mechanics: &Mechanics,
    geometry: &Geometry,
    tracks: &Tracks,
) -> Result<Box<dyn Layer>, ProfileError> {
    let capacity = sectors(profile.capacity);
    match &profile.layer {
        profile::Layer::Conventional(_) => {
            fits(profile, "capacity", capacity, tracks)?;
            Ok(Box::new(Conventional::new(Medium::Platter, capacity)))
        }
        profile::Layer::Ssd(_) => Ok(Box::new(Conventional::new(Medium::Flash, capacity))),
        profile::Layer::Swd(keys) => Ok(Box::new(Swd::new(swd(profile, keys, geometry, tracks)?))),
        profile::Layer::SetAssociative(keys) => {
            let spec = set_associative(profile, keys, mechanics, tracks)?;
            Ok(Box::new(SetAssociative::new(spec)))
        }
        profile::Layer::FullyAssociative(keys) => {
            let spec = fully_associative(profile, keys, tracks)?;
            Ok(Box::new(FullyAssociative::new(spec)))
        }
        profile::Layer::Journaled(keys) => {
            Ok(Box::new(Journaled::new(journaled(profile, keys, mechanics, tracks)?)))
        }
        profile::Layer::Zoned(keys) => {
            Ok(Box::new(ZonedLayer::new(zoned(profile, keys, mechanics, tracks)?)))
        }
    }
}

fn zoned(
    profile: &Profile,
    keys: &profile::Zoned,
    mechanics: &Mechanics,
    tracks: &Tracks,
) -> Result<ZonedSpec, ProfileError> {
    let model = match keys.model {
        profile::ZoneModel::HostManaged => ZoneModel::HostManaged,
        profile::ZoneModel::HostAware => ZoneModel::HostAware,
    };
    let mut layout = ZoneLayout::new(model, sectors(profile.capacity), sectors(keys.zone_size));
    layout.capacity = sectors(keys.zone_capacity.unwrap_or(keys.zone_size));
    layout.conventional = keys.conventional_zones;
    layout.max_open = keys.max_open_zones;
    layout.max_active = keys.max_active_zones;
    layout.recommended_non_sequential = keys.recommended_non_sequential_zones;
    layout.unrestricted_reads |= keys.unrestricted_reads;
    let mut spec = ZonedSpec { layout, start: Pba(0), aware: None };
    match &keys.host_aware {
        Some(aware) => host_aware::add(&mut spec, (profile, aware), mechanics, tracks)?,
        None => fits(profile, "capacity", ZonedLayer::new(spec.clone()).media_use().platter, tracks)?,
    }
    Ok(spec)
}

fn swd(
    profile: &Profile,
    keys: &profile::Swd,
    geometry: &Geometry,
    tracks: &Tracks,
) -> Result<SwdSpec, ProfileError> {
    let capacity = sectors(profile.capacity);
    let shingling = Shingling::new(keys.width_tracks)
        .ok_or_else(|| profile.error_at("layer.width_tracks", "is not a valid head width in tracks"))?;
    let bands = match keys.band_tracks {
        None => {
            fits(profile, "capacity", capacity, tracks)?;
            None
        }
        Some(band_tracks) => {
            if !tracks.single_surface {
                let message = "needs recording zones that use one surface at a time; \
                               use layout = \"horizontal-zones\" or one surface, or leave it out";
                return Err(profile.error_at("layer.band_tracks", message));
            }
            let guard_tracks = u64::from(keys.width_tracks - 1);
            let (stretches, left) = track_bands(tracks, u64::from(band_tracks), guard_tracks, capacity.get());
            if left > 0 {
                let message = format!(
                    "has no space for its last {} in bands with band_tracks = {band_tracks} and a guard \
                     of {guard_tracks} after each; give each surface {} more, or the drive less",
                    about(Sectors(left)),
                    tracks_for(left + left * guard_tracks / u64::from(band_tracks), tracks),
                );
                return Err(profile.error_at("capacity", &message));
            }
            Some(Bands::new(&stretches))
        }
    };
    let data = match keys.read {
        profile::OverwrittenRead::Data => ReadData::Overwriting,
        profile::OverwrittenRead::Pattern => ReadData::Pattern,
    };
    let mode = ReadMode { data, fail: keys.errors };
    let pattern = keys.pattern.unwrap_or(0);
    Ok(SwdSpec { geometry: geometry.clone(), shingling, capacity, bands, mode, pattern })
}

fn medium(medium: CacheMedium) -> Medium {
    match medium {
        CacheMedium::Disk => Medium::Platter,
        CacheMedium::Flash => Medium::Flash,
    }
}

fn set_associative(
    profile: &Profile,
    keys: &profile::SetAssociative,
    mechanics: &Mechanics,
    tracks: &Tracks,
) -> Result<SetAssociativeSpec, ProfileError> {
    let (capacity, band) = (sectors(profile.capacity), sectors(keys.band));
    let cache_bands = keys.cache.0 / keys.band.0;
    let cache = Sectors(cache_bands * band.get());
    let on_disk = keys.cache_medium == CacheMedium::Disk;
    fits(profile, "capacity", capacity, tracks)?;
    if on_disk {
        fits(profile, "layer.cache", capacity + cache, tracks)?;
    }
    // Native data surrounds the cache, so a cache in the middle starts between two bands.
    let band_at = |sectors: u64| sectors / band.get() * band.get();
    let cache_start = match keys.cache_location {
        None | Some(CacheLocation::Od) => 0,
        Some(CacheLocation::Md) => band_at(capacity.get() / 2),
        Some(CacheLocation::Id) => tracks.sectors - cache.get(),
    };
    let (cache_medium, cache_start) = (medium(keys.cache_medium), Pba(cache_start));
    let usable = Sectors((band.get() as f64 * keys.watermark) as u64);
    Ok(SetAssociativeSpec {
        capacity,
        band,
        cache_bands,
        cache_medium,
        cache_start,
        usable,
        bands_for_one_write: within_patience(2, profile, mechanics, band, tracks),
        idle_after: idle_after(keys.cleaning, keys.idle),
    })
}

fn fully_associative(
    profile: &Profile,
    keys: &profile::FullyAssociative,
    tracks: &Tracks,
) -> Result<FullyAssociativeSpec, ProfileError> {
    let spec = FullyAssociativeSpec {
        capacity: sectors(profile.capacity),
        band: sectors(keys.band),
        zone: sectors(keys.zone),
        free_bands: keys.free_bands,
        clean_threshold: keys.clean_threshold,
        idle_after: idle_after(keys.cleaning, keys.idle),
        start: Pba(0),
    };
    fits(profile, "capacity", spec.capacity, tracks)?;
    fits(profile, "layer.free_bands", spec.platter_sectors(), tracks)?;
    Ok(spec)
}

/// The specification of a journaled layer.
pub(super) fn journaled(
    profile: &Profile,
    keys: &profile::Journaled,
    mechanics: &Mechanics,
    tracks: &Tracks,
) -> Result<JournaledSpec, ProfileError> {
    let largest_band = keys.bands.iter().map(|run| run.band).max().unwrap_or_default();
    let staged = sectors(largest_band.min(profile.capacity));
    let map_merge = keys.map_merge.map_or(Sectors(0), sectors);
    let map_update = sectors(keys.map_update);
    let mut journal = journal(profile, keys);
    journal.region.len = journal_sectors(profile, keys, &journal, staged)?;

    let home = map_merge.max(map_update);
    let mut wanted = vec![(keys.map_location, home)];
    let cache = journal.region.len + staged;
    if let Some(location) = keys.cache_location {
        wanted.insert(0, (location, cache));
    }
    let reserved_len: u64 = wanted.iter().map(|(_, len)| len.get()).sum();
    let key = match (home > cache || keys.cache_location.is_none(), keys.cache_region) {
        (true, _) => "layer.map_merge",
        (false, Some(_)) => "layer.cache_region",
        (false, None) => "layer.places",
    };
    fits(profile, "capacity", sectors(profile.capacity), tracks)?;
    fits(profile, key, sectors(profile.capacity) + Sectors(reserved_len), tracks)?;
    let reserved = reserve(&wanted, tracks);
    if let [cache, _] = reserved[..] {
        journal.region.start = cache.start;
    }
    let map_home = reserved.last().copied().unwrap_or_default();
    let staging = PbaExtent::new(journal.region.end(), staged);

    Ok(JournaledSpec {
        bands: Bands::new(&stretches(profile, keys, tracks, &reserved)?),
        journal,
        cache_medium: medium(keys.cache_medium),
        map_limit: keys.map_entries.map(|entries| (entries as f64 * keys.map_watermark) as u64),
        map_merge_every: keys.map_merge_every,
        map_merge: PbaExtent::new(map_home.start, map_merge),
        cleaning: CleaningSpec {
            order: match keys.cleaning_order {
                profile::CleaningOrder::Fifo => CleaningOrder::Fifo,
                profile::CleaningOrder::Lifo => CleaningOrder::Lifo,
                profile::CleaningOrder::Greedy => CleaningOrder::Greedy,
                profile::CleaningOrder::Random => {
                    CleaningOrder::Random { seed: keys.cleaning_seed.unwrap_or_default().into() }
                }
            },
            idle_after: idle_after(keys.cleaning, keys.idle),
            staging,
            map_update: PbaExtent::new(map_home.start, map_update),
        },
        whole_bands_bypass: keys.whole_bands_bypass,
        // It reads a band, stages it and writes it.
        bands_for_one_command: within_patience(3, profile, mechanics, staged, tracks),
    })
}

/// The journal, not yet placed.
fn journal(profile: &Profile, keys: &profile::Journaled) -> JournalSpec {
    JournalSpec {
        region: PbaExtent::default(),
        quantum: sectors(keys.quantum),
        out_of_band: sectors(keys.out_of_band),
        gap: sectors(keys.entry_gap),
        entry_max: sectors(keys.entry_max),
        entry_writes: profile.interface.queue_depth as usize,
        slots: (keys.places as f64 * keys.place_watermark) as u64,
    }
}

/// Sectors for the journal: the region less the staging area at its end, or what its slots can take at most.
fn journal_sectors(
    profile: &Profile,
    keys: &profile::Journaled,
    journal: &JournalSpec,
    staged: Sectors,
) -> Result<Sectors, ProfileError> {
    let least = Sectors(journal.region_sectors());
    let Some(given) = keys.cache_region.map(sectors) else { return Ok(least) };
    if given >= least + staged {
        return Ok(given - staged);
    }
    let message = format!(
        "is less than the {} that places = {} may take and the {} of the staging area; {} would do",
        profile::Bytes(least.bytes()),
        keys.places,
        profile::Bytes(staged.bytes()),
        profile::Bytes((least + staged).bytes().next_multiple_of(4096)),
    );
    Err(profile.error_at("layer.cache_region", &message))
}

/// Bands on all unreserved sectors.
pub(super) fn stretches(
    profile: &Profile,
    keys: &profile::Journaled,
    tracks: &Tracks,
    reserved: &[PbaExtent],
) -> Result<Vec<StretchSpec>, ProfileError> {
    let mut start = 0;
    let size = |run: &BandRun| {
        let end = run.until.unwrap_or(profile.capacity).get();
        let size = (sectors(profile::Bytes(end - start)), sectors(run.band));
        start = end;
        size
    };
    let sizes: Vec<_> = keys.bands.iter().map(size).collect();
    let free = free_runs(tracks, reserved, keys.guard_tracks);
    let band = sizes.last().map_or(Sectors(0), |&(_, band)| band);
    bands(&sizes, &free, keys.guard_tracks).map_err(|short| {
        let Some(more) = tracks_for_bands(short, band, &free, keys.guard_tracks, tracks) else {
            let message = format!(
                "leaves no space for a band of {} in a pass over a surface; \
                 give fewer, or smaller bands, or passes of more tracks",
                about(band)
            );
            return profile.error_at("layer.guard_tracks", &message);
        };
        let message = format!(
            "has no space for its last {} in bands with their guards; \
             give each surface {more} more, or the drive less",
            about(short),
        );
        profile.error_at("capacity", &message)
    })
}
