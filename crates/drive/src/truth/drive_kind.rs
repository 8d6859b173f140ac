//! The kind of a drive: findings that are words.

use super::finding::TrueFinding;
use crate::profile::{CacheLocation, CacheMedium, CleaningOrder, CleaningType, Layer, Profile, ZoneModel};

/// Type, cache, cleaning and mapping.
pub(super) fn findings(profile: &Profile) -> Vec<TrueFinding> {
    let word = TrueFinding::word;
    let kind = match &profile.layer {
        Layer::Conventional(_) => ("cmr", "the layer is conventional"),
        Layer::Ssd(_) => ("not-rotating", "all data is on flash"),
        Layer::Swd(_) => ("cmr", "a raw shingled disk has no translation layer"),
        Layer::Zoned(keys) if keys.model == ZoneModel::HostAware && keys.host_aware.is_none() => {
            ("cmr", "every write goes to its place, in order or not")
        }
        Layer::Zoned(_) => ("smr", "zones are written in order because tracks overlap"),
        _ => ("smr", "writes go through a translation layer for shingled bands"),
    };
    let in_order = match &profile.layer {
        Layer::Zoned(keys) if keys.model == ZoneModel::HostManaged => Some(
            "types are distinguished by writes out of order, which a host-managed drive refuses".to_owned(),
        ),
        _ => None,
    };
    let mut findings = vec![word("drive_type", kind.0, kind.1).unless(in_order)];
    let (medium, location) = match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => (None, None),
        Layer::Zoned(keys) => match &keys.host_aware {
            None => (None, None),
            Some(cache) => (Some(CacheMedium::Disk), Some(cache.cache_location)),
        },
        Layer::SetAssociative(keys) => (Some(keys.cache_medium), keys.cache_location),
        Layer::Journaled(keys) => (Some(keys.cache_medium), keys.cache_location),
        Layer::FullyAssociative(_) => (Some(CacheMedium::Disk), None),
    };
    let many = matches!(profile.layer, Layer::FullyAssociative(_));
    let (medium, location, why) = match (medium, location) {
        (None, _) => ("none", "none", "the drive has no persistent cache"),
        (Some(CacheMedium::Flash), _) => ("flash", "none", "the persistent cache is flash, at no diameter"),
        (Some(CacheMedium::Disk), _) if many => ("disk", "many", "every zone has free bands of its own"),
        (Some(CacheMedium::Disk), Some(CacheLocation::Od)) => ("disk", "od", "the cache lies at the OD"),
        (Some(CacheMedium::Disk), Some(CacheLocation::Md)) => ("disk", "md", "the cache lies at the MD"),
        (Some(CacheMedium::Disk), _) => ("disk", "id", "the cache lies at the ID"),
    };
    findings.push(word("cache_medium", medium, why));
    findings.push(word("cache_location", location, why));
    findings.extend(cleaning(&profile.layer));
    let mapping = match &profile.layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => None,
        Layer::Zoned(keys) if keys.host_aware.is_none() => None,
        Layer::FullyAssociative(_) => Some(("dynamic", "a cleaned band moves to another location")),
        _ => Some(("static", "a cleaned band is rewritten at its location")),
    };
    findings.extend(mapping.map(|(value, why)| word("mapping", value, why)));
    findings
}

fn cleaning(layer: &Layer) -> Vec<TrueFinding> {
    let (cleaning, order) = match layer {
        Layer::Conventional(_) | Layer::Ssd(_) | Layer::Swd(_) => return Vec::new(),
        Layer::Zoned(keys) => match &keys.host_aware {
            None => return Vec::new(),
            Some(cache) => (cache.cleaning, Some("fifo")),
        },
        Layer::SetAssociative(keys) => (keys.cleaning, Some("fifo")),
        Layer::FullyAssociative(keys) => (keys.cleaning, Some("fifo")),
        Layer::Journaled(keys) if keys.cleaning_order == CleaningOrder::Fifo => (keys.cleaning, Some("fifo")),
        Layer::Journaled(keys) => (keys.cleaning, Some("other")),
    };
    let lazy = cleaning == CleaningType::Lazy;
    let (value, why) = match lazy {
        true => ("lazy", "the drive cleans only when a write does not fit in the cache"),
        false => ("aggressive", "the drive also cleans when it is idle"),
    };
    let mut findings = vec![TrueFinding::word("cleaning_type", value, why)];
    findings.extend(order.map(|order| {
        let hidden =
            lazy.then(|| "a lazy drive cleans until the write fits, which shows no order".to_owned());
        TrueFinding::word("cleaning_order", order, "the order of the layer").unless(hidden)
    }));
    findings
}
