//! The zones of a random drive.
//!
//! Limits of the kinds, and what is adjusted to meet them:
//! * *Zones*: half of the drives have zones of a power of two, as all drives on the market have; the others show whether a
//!   test relies on that.
//! * *Cache*: a host-aware drive has a persistent cache at the OD or the ID, with the limits of a journaled drive's, and no
//!   out-of-band data.
//! * *Limits*: a drive can have as many active zones as open ones, at least. Less capacity than the size, a limit of active
//!   zones and restricted reads belong to host-managed drives only; a recommended number of zones that are written out of
//!   order to host-aware ones.
//! * *Runs*: the volatile cache of a host-aware drive has at least as many runs as the drive recommends open zones: writes in
//!   turn to that many zones are as many runs, and a recommendation is what a drive serves at full speed.

use super::hardware::Body;
use super::layers::{Journal, LayerText, begin, cleaning, map_merges};
use super::ranges as range;
use super::text::{Text, blocks, mebibytes};
use crate::profile::Bytes;

/// Bytes in a MiB.
const MIB: f64 = 1_048_576.0;

/// Bytes of a zone, whole MiB.
fn zone_size(body: &Body) -> Bytes {
    let drawn = mebibytes(body.draws.number(&range::ZONE_MIB) * MIB);
    if !body.draws.chance(&range::ZONES_POWER_OF_TWO) {
        return drawn;
    }
    let below = Bytes(1 << drawn.get().ilog2());
    // The nearer one in the logarithm, so that both ends of the range are as likely as any other power.
    let above = Bytes((below.get() * 2).min((range::ZONE_MIB.high * MIB) as u64));
    if (drawn.get() as f64 / below.get() as f64).powi(2) < 2.0 { below } else { above }
}

/// `zoned`, host-managed or host-aware.
pub(super) fn zoned(body: &Body, model: &'static str) -> LayerText {
    let draws = body.draws;
    let managed = model == "host-managed";
    let mut text = begin("zoned");
    text.word("model", model);
    let zone = zone_size(body);
    text.word("zone_size", zone);
    if managed && draws.chance(&range::ZONE_CAPACITY_BELOW_SIZE) {
        let part = draws.number(&range::ZONE_CAPACITY_PART);
        text.word("zone_capacity", mebibytes(zone.get() as f64 * part));
    }
    let zones = body.capacity.get().div_ceil(zone.get());
    if !draws.chance(&range::CONVENTIONAL_ZONES_ABSENT) {
        let part = draws.number(&range::CONVENTIONAL_PART);
        text.key("conventional_zones", (zones as f64 * part).round());
    }
    let open = draws.number(&range::OPEN_ZONES).round();
    if !managed || !draws.chance(&range::OPEN_ZONES_UNLIMITED) {
        text.key("max_open_zones", open);
        if managed && draws.chance(&range::ACTIVE_ZONES_LIMITED) {
            text.key("max_active_zones", (open * draws.number(&range::ACTIVE_TO_OPEN)).round());
        }
    }
    if managed {
        text.key("unrestricted_reads", draws.chance(&range::UNRESTRICTED_READS));
    } else {
        let recommended = draws.number(&range::NON_SEQUENTIAL_ZONES).round();
        text.key("recommended_non_sequential_zones", recommended);
    }
    let reserved = if managed { 0.0 } else { zone.get() as f64 + host_aware(body, &mut text) };
    let write_cache_runs = (!managed && !draws.chance(&range::WRITE_CACHE_RUNS_UNLIMITED))
        .then(|| draws.number(&range::WRITE_CACHE_RUNS).round().max(open));
    let platters = body.capacity.get() as f64 + reserved;
    LayerText { text, platters, write_cache_runs, ..LayerText::default() }
}

/// The persistent cache of a host-aware drive, drawn as that of a journaled one; returns the bytes that it takes on the
/// platters.
fn host_aware(body: &Body, text: &mut Text) -> f64 {
    let draws = body.draws;
    let location = draws.choice("host_aware.cache_location", &["od", "id"]);
    let mut journal = Journal::draw(body, false, location);
    journal.out_of_band = Bytes(0);
    text.section("[layer.host_aware]");
    text.word("cache_location", location);
    journal.write(body, text);
    let merge = map_merges(body, text);
    let metadata = blocks(draws.number(&range::MAP_UPDATE_KIB) * 1024.0);
    text.word("zone_metadata", metadata);
    cleaning(body, text);
    // A few tracks more, for the rounding of each region.
    journal.region + merge + metadata.get() as f64 + 8.0 * body.outer * 512.0
}
