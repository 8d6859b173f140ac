//! Rotation, tracks, seeks and plateaus, from the geometry and mechanics of the built drive.
//!
//! OD, MD and ID are the locations of the first, middle and last host address on a new drive. Distances are
//! between the outermost and the innermost track that the host can reach.

use skylight_disk::{Lba, LbaExtent, SectorPosition, Sectors};
use skylight_layer::Medium;

use super::finding::{TrueFinding, Value};
use crate::drive::Drive;
use crate::profile::{Layer, Profile};

/// Number of addresses sampled to find the tracks that the host can reach.
const SAMPLES: u64 = 4096;
/// Minimum relative difference of two speeds that averages over a pass can resolve, with latencies that vary
/// by 3 %.
const MIN_SPEED_STEP: f64 = 0.003;
/// Minimum host data in a pass for such an average.
const MIN_PASS_BYTES: u64 = 32 << 20;

/// Physical location of a host sector.
fn location(drive: &Drive, lba: u64) -> Option<SectorPosition> {
    let mut pieces = Vec::new();
    drive.layer().locate(LbaExtent::new(Lba(lba), Sectors(1)), &mut pieces);
    let piece = pieces.first().filter(|piece| piece.medium == Medium::Platter)?;
    Some(drive.disk().geometry().position_of(piece.extent.start))
}

/// Physical location of a host sector, or of the last one before it in its zone, which may hold less than its size.
fn location_in_zone(profile: &Profile, drive: &Drive, lba: u64) -> Option<SectorPosition> {
    let held = || match &profile.layer {
        Layer::Zoned(keys) => {
            let (zone, capacity) = (keys.zone_size.get() / 512, keys.zone_capacity?.get() / 512);
            location(drive, lba - (lba % zone).saturating_sub(capacity.saturating_sub(1)))
        }
        _ => None,
    };
    location(drive, lba).or_else(held)
}

/// Bytes of the tracks at the OD, MD and ID.
fn track_bytes(profile: &Profile, drive: &Drive) -> Option<Vec<(&'static str, u64)>> {
    let capacity = drive.capacity().get();
    let bytes = |lba| location_in_zone(profile, drive, lba).map(|at| u64::from(at.sectors_per_track) * 512);
    Some(vec![("od", bytes(0)?), ("md", bytes(capacity / 2)?), ("id", bytes(capacity - 1)?)])
}

/// Tracks between the outermost and the innermost track that the host can reach.
fn arm_travel(drive: &Drive) -> u32 {
    let capacity = drive.capacity().get();
    let tracks = (0..=SAMPLES).filter_map(|sample| {
        let lba = (u128::from(capacity - 1) * u128::from(sample) / u128::from(SAMPLES)) as u64;
        location(drive, lba).map(|at| at.track)
    });
    let (least, most) = tracks.fold((u32::MAX, 0), |(least, most), t| (least.min(t), most.max(t)));
    most.saturating_sub(least)
}

/// Rotation, tracks and seeks.
pub(super) fn findings(profile: &Profile, drive: &Drive) -> Vec<TrueFinding> {
    let mechanics = drive.disk().mechanics();
    let revolution_ns = mechanics.rotation.revolution().get();
    let mut findings = vec![TrueFinding::number("rotation_ns", revolution_ns, "the profile's rotation")];
    findings.extend(track_bytes(profile, drive).map(|tracks| {
        let why = "tracks of the first, middle and last address of the host";
        TrueFinding::table("track_bytes", tracks, why)
    }));
    let travel = arm_travel(drive);
    let seek = |tracks: u32| mechanics.seek.time(tracks.max(1)).get();
    let seeks = vec![("track", seek(1)), ("third", seek(travel / 3)), ("full", seek(travel))];
    let why =
        format!("seek curve over 1, {} and {travel} tracks, within those of host addresses", travel / 3);
    findings.push(TrueFinding::table("seek_ns", seeks, why));
    findings
}

/// Number of host sectors from either end of the address space that lie on one surface and in one recording
/// zone.
fn pass_sectors(drive: &Drive, backward: bool) -> Option<u64> {
    let capacity = drive.capacity().get();
    let key = |sector: u64| {
        let lba = if backward { capacity - 1 - sector } else { sector };
        location(drive, lba).map(|at| (at.surface, at.sectors_per_track))
    };
    let first = key(0)?;
    let mut inside = 0;
    let mut step = 1 << 11;
    while inside + step < capacity && key(inside + step) == Some(first) {
        inside += step;
        step *= 2;
    }
    // The pass ends between `inside` and `inside + step`.
    let mut outside = (inside + step).min(capacity);
    while outside - inside > 1 {
        let middle = inside.midpoint(outside);
        if key(middle) == Some(first) { inside = middle } else { outside = middle }
    }
    Some(outside)
}

/// Steps in the speed of a sequential read: passes over surfaces of different density, in one order and back.
pub(super) fn plateaus(profile: &Profile, drive: &Drive) -> Option<TrueFinding> {
    let density = &profile.geometry.surface_density;
    if density.len() < 2 {
        return None;
    }
    let [first_bytes, last_bytes] =
        [false, true].map(|backward| pass_sectors(drive, backward).map(|n| n * 512));
    let (first_bytes, last_bytes) = (first_bytes?, last_bytes?);
    let close = density.windows(2).any(|pair| (pair[0] - pair[1]).abs() < MIN_SPEED_STEP);
    let reason = if close {
        Some(format!("surfaces that follow each other differ by less than {} %", MIN_SPEED_STEP * 100.0))
    } else if first_bytes.min(last_bytes) < MIN_PASS_BYTES {
        Some(format!("a pass of {} MiB is too short to measure its speed", first_bytes.min(last_bytes) >> 20))
    } else {
        None
    };
    let value = Value::Plateaus { count: density.len() as u64, mirrored: true, first_bytes, last_bytes };
    let why = "one pass over each surface, then the surfaces in the opposite order; they differ in density";
    Some(TrueFinding::new("plateaus", value, why).unless(reason))
}
