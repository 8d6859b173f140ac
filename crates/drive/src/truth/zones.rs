//! What a drive with zones declares of them, its model and the size and capacity of its zones; how many it serves at full
//! speed; what a host-aware one takes out of order before it blocks.

use super::finding::TrueFinding;
use super::watermarks::lone_writes;
use crate::profile::{HostAware, Layer, Profile, ZoneModel, Zoned};

/// Size of the writes that fill the persistent cache (`docs/tests/non-sequential.md`).
const WRITE_BYTES: u64 = 512 << 10;
/// Fewer neighbouring zones with a write pointer the test of open zones leaves alone (`docs/tests/open-zones.md`).
const FEWEST_ZONES: u64 = 8;

/// The findings of a drive with zones; none for any other.
pub(super) fn findings(profile: &Profile) -> Vec<TrueFinding> {
    let Layer::Zoned(keys) = &profile.layer else { return Vec::new() };
    let model = match keys.model {
        ZoneModel::HostManaged => "host-managed",
        ZoneModel::HostAware => "host-aware",
    };
    let capacity = keys.zone_capacity.unwrap_or(keys.zone_size);
    let bytes = |name, bytes, why| TrueFinding::number(name, bytes, why);
    let mut findings = vec![
        TrueFinding::word("zone_model", model, "the drive declares it"),
        bytes("zone_bytes", keys.zone_size.get(), "the report of zones has it"),
        bytes("zone_capacity_bytes", capacity.get(), "the report of zones has it")
            .unless(without_pointers(profile)),
    ];
    // The last zone may be smaller, and the test leaves it out.
    let whole =
        (profile.capacity.get() / keys.zone_size.get()).saturating_sub(keys.conventional_zones.into());
    findings.extend(open_zones(keys, whole));
    findings.extend(keys.host_aware.as_deref().map(|cache| non_sequential(cache, whole, capacity.get())));
    findings
}

/// Why nothing shows on a drive with zones none of which has a write pointer; `None` for any other drive.
pub(super) fn without_pointers(profile: &Profile) -> Option<String> {
    let Layer::Zoned(keys) = &profile.layer else { return None };
    let zones = profile.capacity.get().div_ceil(keys.zone_size.get());
    (u64::from(keys.conventional_zones) >= zones)
        .then(|| "no zone of the drive has a write pointer".to_owned())
}

/// How many zones can be written to at full speed, of a drive whose open zones have a limit or cost something; `whole`
/// zones of the full size have a write pointer.
fn open_zones(keys: &Zoned, whole: u64) -> Option<TrueFinding> {
    let limited = keys.model == ZoneModel::HostManaged || keys.host_aware.is_some();
    let most = u64::from(keys.max_open_zones.filter(|_| limited)?);
    let few = whole < FEWEST_ZONES || whole <= most;
    let few = few.then(|| format!("the drive has only {whole} zones with a write pointer"));
    let why = "the drive has resources for this number of open zones";
    Some(TrueFinding::number("open_zones_edge", most, why).unless(few))
}

/// Bytes that lone writes to random places put into the persistent cache before one of them waits. What is overwritten
/// takes no slot any more, so that no more than the `whole` zones hold can be in the cache.
fn non_sequential(keys: &HostAware, whole: u64, capacity: u64) -> TrueFinding {
    let why = "slots of the cache until a write waits, or extents of its map up to the watermark";
    let few = (whole < 2).then(|| format!("the drive has only {whole} zones with a write pointer"));
    // A write goes into entries as large as they may be, and each takes whole slots.
    let (entry, quantum) = (keys.entry_max.get(), keys.quantum.get());
    let slots_each = WRITE_BYTES / entry * entry.div_ceil(quantum) + (WRITE_BYTES % entry).div_ceil(quantum);
    // Entries that follow each other without a gap are one extent.
    let is_one_extent = keys.entry_gap.get() == 0 && entry % quantum == 0;
    let extents_each = if is_one_extent { 1 } else { WRITE_BYTES.div_ceil(entry) };
    let writes = lone_writes(keys, slots_each, extents_each);
    // All but the write at the write pointer of each empty zone, which is in order.
    let places = whole * (capacity / WRITE_BYTES).saturating_sub(1);
    let few = few.or_else(|| {
        (places < writes)
            .then(|| format!("all zones hold {places} such writes, and the cache takes {writes}"))
    });
    let bytes = writes * WRITE_BYTES;
    TrueFinding::number("non_sequential_cache_bytes", bytes, why).unless(few)
}
