//! Rules between the keys of a `[layer]` section, and rounding of its sizes.
//!
//! Invariants: as in `rules.rs`, values are in their ranges, and nothing here needs the geometry. Afterwards
//! a cache is whole bands, and the runs of bands of a journaled drive are increasing and end where the drive
//! ends.

use super::host_aware::HostAware;
use super::layer::{
    BandRun, CacheLocation, CacheMedium, CleaningOrder, CleaningType, FullyAssociative, Journaled, Layer,
    OverwrittenRead, SetAssociative, Swd, ZoneModel, Zoned,
};
use super::quantity::{Bytes, Duration};
use super::rules::{BLOCK, Rules};

impl Rules<'_> {
    pub(super) fn layer(&mut self) {
        let mut layer = self.profile.layer.clone();
        let flash_used = match &mut layer {
            Layer::Conventional(_) => false,
            Layer::Ssd(_) => true,
            Layer::Swd(keys) => {
                self.swd(keys);
                false
            }
            Layer::SetAssociative(keys) => self.set_associative(keys),
            Layer::FullyAssociative(keys) => {
                self.fully_associative(keys);
                false
            }
            Layer::Journaled(keys) => self.journaled(keys),
            Layer::Zoned(keys) => {
                self.zoned(keys);
                false
            }
        };
        self.profile.layer = layer;
        self.only_where_needed(
            (flash_used, self.profile.flash.is_some()),
            (
                "layer.cache_medium",
                "the section [flash] is missing; \
                 cache_medium = \"flash\" needs its read, write and bandwidth",
            ),
            ("flash", "is here but the drive has no flash cache; leave the section out"),
        );
    }

    /// The drive in messages about keys that exceed it.
    fn drive(&self) -> String {
        format!("the drive; {}", self.profile.source.named("capacity"))
    }

    fn swd(&mut self, keys: &Swd) {
        if keys.pattern.is_some() && keys.read != OverwrittenRead::Pattern {
            self.wrong("layer.pattern", "is only for read = \"pattern\"; leave it out");
        }
    }

    fn zoned(&mut self, keys: &Zoned) {
        let capacity = self.profile.capacity;
        if capacity.get() <= keys.zone_size.get() {
            self.wrong("layer.zone_size", &format!("leaves one zone of {}", self.drive()));
        }
        let zones = capacity.get().div_ceil(keys.zone_size.get());
        if u64::from(keys.conventional_zones) > zones {
            let message = format!("is more than the {zones} zones of {} on the drive", keys.zone_size);
            self.wrong("layer.conventional_zones", &message);
        }
        if keys.zone_capacity.is_some_and(|capacity| capacity > keys.zone_size) {
            self.wrong("layer.zone_capacity", &format!("is more than zone_size = {}", keys.zone_size));
        }
        if let (Some(active), Some(open)) = (keys.max_active_zones, keys.max_open_zones)
            && active < open
        {
            let message = format!("is less than max_open_zones = {open}; open zones are active");
            self.wrong("layer.max_active_zones", &message);
        }
        let aware = keys.model == ZoneModel::HostAware;
        for (key, given) in [
            ("layer.zone_capacity", keys.zone_capacity.is_some()),
            ("layer.max_active_zones", keys.max_active_zones.is_some()),
            ("layer.unrestricted_reads", keys.unrestricted_reads),
        ] {
            if aware && given {
                self.wrong(key, "is only for model = \"host-managed\"; leave it out");
            }
        }
        if !aware && keys.recommended_non_sequential_zones.is_some() {
            let message = "is only for model = \"host-aware\"; leave it out";
            self.wrong("layer.recommended_non_sequential_zones", message);
        }
        match &keys.host_aware {
            Some(_) if !aware => {
                self.wrong("layer.host_aware", "is only for model = \"host-aware\"; leave it out");
            }
            Some(host_aware) => self.host_aware(host_aware, keys.zone_size),
            None => {}
        }
    }

    fn host_aware(&mut self, keys: &HostAware, zone: Bytes) {
        self.only_where_needed(
            (keys.cleaning == CleaningType::Aggressive, keys.idle.is_some()),
            (
                "layer.host_aware",
                "idle is missing; cleaning = \"aggressive\" needs it, say, idle = \"1.2 s\"",
            ),
            ("layer.host_aware.idle", "is only for cleaning = \"aggressive\"; leave it out"),
        );
        if keys.cache_location == CacheLocation::Md {
            let message = "is between the zones, which are contiguous; use \"od\" or \"id\"";
            self.wrong("layer.host_aware.cache_location", message);
        }
        if keys.entry_max < keys.quantum {
            let message = format!("is less than a quantum of {}", keys.quantum);
            self.wrong("layer.host_aware.entry_max", &message);
        }
        let largest = keys.entry_max.get().div_ceil(keys.quantum.get().max(1));
        if ((keys.places as f64 * keys.place_watermark) as u64) < largest {
            let message =
                format!("gives fewer at the watermark than the {largest} of an entry of {}", keys.entry_max);
            self.wrong("layer.host_aware.places", &message);
        }
        if keys.map_merge_every.is_some() != keys.map_merge.is_some() {
            let message = "needs map_merge, the size of a merge, and map_merge needs map_merge_every";
            self.wrong("layer.host_aware", message);
        }
        if keys.chunk > zone {
            self.wrong("layer.host_aware.chunk", &format!("is more than zone_size = {zone}"));
        }
        if keys.throttle_most.is_some_and(|most| most.ns() < keys.throttle.ns()) {
            let message = format!("is less than throttle = {}", keys.throttle);
            self.wrong("layer.host_aware.throttle_most", &message);
        }
    }

    /// Checks the keys of a set-associative layer; returns whether its cache is flash.
    fn set_associative(&mut self, keys: &mut SetAssociative) -> bool {
        let capacity = self.profile.capacity;
        if keys.band > capacity {
            self.wrong("layer.band", &format!("is larger than {}", self.drive()));
        } else if keys.cache < keys.band {
            self.wrong("layer.cache", &format!("is less than one band of {}", keys.band));
        } else if keys.cache >= capacity {
            self.wrong("layer.cache", &format!("is not smaller than {}", self.drive()));
        }
        keys.cache = keys.cache.floor_to(keys.band);
        self.cleaning(keys.cleaning, keys.idle);
        self.cache_location(keys.cache_medium, keys.cache_location)
    }

    /// Checks that a disk cache has a location and a flash cache has none; returns whether it is flash.
    fn cache_location(&mut self, medium: CacheMedium, location: Option<CacheLocation>) -> bool {
        self.only_where_needed(
            (medium == CacheMedium::Disk, location.is_some()),
            (
                "layer",
                "[layer] cache_location is missing; a cache on the disk is at \"od\", \"md\" or \"id\"",
            ),
            ("layer.cache_location", "is only for a cache on the disk; leave it out for flash"),
        );
        medium == CacheMedium::Flash
    }

    fn cleaning(&mut self, cleaning: CleaningType, idle: Option<Duration>) {
        self.only_where_needed(
            (cleaning == CleaningType::Aggressive, idle.is_some()),
            ("layer", "[layer] idle is missing; cleaning = \"aggressive\" needs it, say, idle = \"1.2 s\""),
            ("layer.idle", "is only for cleaning = \"aggressive\"; leave it out"),
        );
    }

    fn fully_associative(&mut self, keys: &mut FullyAssociative) {
        let capacity = self.profile.capacity;
        if keys.band > capacity {
            self.wrong("layer.band", &format!("is larger than {}", self.drive()));
        } else if keys.zone < keys.band {
            self.wrong("layer.zone", &format!("is less than one band of {}", keys.band));
        }
        keys.zone = keys.zone.floor_to(keys.band);
        if keys.clean_threshold >= keys.free_bands {
            let message =
                format!("is not less than free_bands = {}; no write would get a band", keys.free_bands);
            self.wrong("layer.clean_threshold", &message);
        }
        let zone_bands = keys.zone.get() / keys.band.get().max(1);
        if u64::from(keys.free_bands) > zone_bands.max(2) {
            let message = format!("is more than the {zone_bands} bands of {} in a zone", keys.band);
            self.wrong("layer.free_bands", &message);
        }
        self.cleaning(keys.cleaning, keys.idle);
    }

    /// Checks the keys of a journaled layer; returns whether its cache is flash.
    fn journaled(&mut self, keys: &mut Journaled) -> bool {
        self.journal(keys);
        self.map(keys);
        self.bands(&mut keys.bands);
        self.cleaning(keys.cleaning, keys.idle);
        if keys.cleaning_seed.is_some() && keys.cleaning_order != CleaningOrder::Random {
            self.wrong("layer.cleaning_seed", "is only for cleaning_order = \"random\"; leave it out");
        }
        if keys.cache_medium == CacheMedium::Flash && keys.cache_region.is_some() {
            self.wrong("layer.cache_region", "is only for a cache on the disk; leave it out for flash");
        }
        self.cache_location(keys.cache_medium, keys.cache_location)
    }

    fn journal(&mut self, keys: &Journaled) {
        if keys.quantum > keys.entry_max {
            let message =
                format!("is more than entry_max = {}; an entry has at least one quantum", keys.entry_max);
            self.wrong("layer.quantum", &message);
        }
        let largest = keys.entry_max.get().div_ceil(keys.quantum.get().max(1));
        let usable = (keys.places as f64 * keys.place_watermark) as u64;
        if usable < largest {
            let needed = (largest as f64 / keys.place_watermark).ceil();
            let message = format!(
                "gives {usable} at the watermark, and an entry of entry_max = {} takes {largest}; \
                 {needed} would do",
                keys.entry_max
            );
            self.wrong("layer.places", &message);
        }
        let cache = u128::from(keys.places) * u128::from(keys.quantum.get());
        if cache >= u128::from(self.profile.capacity.get()) {
            let message = format!("of {} each are not smaller than {}", keys.quantum, self.drive());
            self.wrong("layer.places", &message);
        }
    }

    fn map(&mut self, keys: &Journaled) {
        match (keys.map_merge_every, keys.map_merge) {
            (Some(_), None) => self.missing(
                "layer.map_merge_every",
                "[layer] map_merge is missing; map_merge_every needs the size of a merge, say, \
                 map_merge = \"43 MiB\"",
            ),
            (None, Some(_)) => self.missing(
                "layer.map_merge",
                "[layer] map_merge_every is missing; map_merge needs a period, say, map_merge_every = 240",
            ),
            _ => {}
        }
        if keys.map_entries.is_none() && self.profile.source.written("layer.map_watermark").is_some() {
            self.wrong("layer.map_watermark", "needs a map limit; add map_entries or leave it out");
        }
    }

    /// Checks that the runs of bands increase and end where the drive ends, and rounds them to whole bands.
    fn bands(&mut self, runs: &mut [BandRun]) {
        let capacity = self.profile.capacity;
        let count = runs.len();
        let mut start = Bytes(0);
        for (number, run) in runs.iter_mut().enumerate() {
            let at = |key: &str| format!("layer.bands[{number}].{key}");
            let last = number + 1 == count;
            let end = match run.until {
                None if last => capacity,
                None => {
                    let message = "[[layer.bands]] until is missing; only the last entry extends to the end of the drive";
                    self.missing(&format!("layer.bands[{number}]"), message);
                    return;
                }
                Some(until) if last => until.floor_to(BLOCK),
                Some(until) => Bytes(
                    start.get() + until.get().saturating_sub(start.get()) / run.band.get() * run.band.get(),
                ),
            };
            if last && end != capacity {
                let message = format!("is not the end of {}; leave it out of the last entry", self.drive());
                self.wrong(&at("until"), &message);
            } else if end > capacity || (!last && end == capacity) {
                let message =
                    format!("leaves no space for the entries after it; the drive ends at {capacity}");
                self.wrong(&at("until"), &message);
            } else if end <= start || end.get() - start.get() < run.band.get().min(capacity.get()) && !last {
                let message = format!("leaves no space for a band of {} from {start} on", run.band);
                self.wrong(&at("until"), &message);
            } else if run.band > capacity {
                self.wrong(&at("band"), &format!("is larger than {}", self.drive()));
            }
            run.until = (!last).then_some(end);
            start = end;
        }
    }
}
