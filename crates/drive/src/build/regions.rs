//! Placement of caches, maps and bands on the platters.
//!
//! A persistent cache on the disk and the home location of a map are *reserved*: extents that start on a
//! track at the OD, MD or ID. Bands fill the remaining runs in address order.
//!
//! A head that is wider than a track overwrites data beside the track that it writes, so bands need guards. A
//! band may end anywhere in a track. After a guard of `k` tracks, the next band starts at the same position
//! of the track `k` tracks further, so that `k - 1` whole tracks lie between them, as a head of `k` tracks
//! requires. Fewer are not enough, even if the next band starts after the angle at which the previous one
//! ended: the last track of a band is written from its start, and because of the skew that start lies beside
//! the end of the next track. A band lies within one pass over a surface, and a pass begins with a guard for
//! data beyond its edge. Reserved extents contain no guards: the layer decides how they are written.
//!
//! Invariants: reserved extents and bands share no sector; a band with a guard lies in one run, together with
//! the guard after it; a head as wide as the guard can write a band, or a reserved extent, without
//! overwriting any other.

use skylight_disk::{BLOCK_SECTORS, Pba, PbaExtent, Sectors};
use skylight_layer::StretchSpec;

use super::geometry::{Run, Tracks, about};
use crate::profile::{CacheLocation, Profile, ProfileError};

/// Rejects a region unless the platters have at least `needed` sectors.
pub(super) fn fits(
    profile: &Profile,
    key: &str,
    needed: Sectors,
    tracks: &Tracks,
) -> Result<(), ProfileError> {
    let short = needed.get().saturating_sub(tracks.sectors);
    if short == 0 {
        return Ok(());
    }
    let message = format!(
        "needs {} on the platters, and the tracks of [geometry] hold {}; \
         give each surface {} more, or the drive less",
        about(needed),
        about(Sectors(tracks.sectors)),
        tracks_for(short, tracks),
    );
    Err(profile.error_at(key, &message))
}

/// In words, how many more tracks at the ID would hold `sectors` sectors.
pub(super) fn tracks_for(sectors: u64, tracks: &Tracks) -> String {
    counted(sectors.div_ceil(tracks.sectors_per_added_track.max(1)))
}

fn counted(tracks: u64) -> String {
    match tracks {
        1 => "1 track".to_owned(),
        count => format!("{count} tracks"),
    }
}

/// In words, how many more tracks at the ID would hold `short` host sectors in bands of this size with their
/// guards. `None` if no run is large enough for a band.
pub(super) fn tracks_for_bands(
    short: Sectors,
    band: Sectors,
    free: &[Run],
    guard_tracks: f64,
    tracks: &Tracks,
) -> Option<String> {
    let Some(last) = tracks.runs.last().filter(|_| guard_tracks > 0.0) else {
        return Some(tracks_for(short.get(), tracks));
    };
    let pitch = |run: &Run| band.get() + guard(*run, guard_tracks);
    if free.iter().all(|run| run.pieces(pitch(run)) == 0) {
        return None;
    }
    // One band per surface at a time, or one after the other where a run covers all surfaces at a radius.
    let at_once = tracks.sectors_per_added_track / last.radial_step();
    let bands = short.get().div_ceil(band.get()).div_ceil(at_once.max(1));
    Some(counted(bands * pitch(last).div_ceil(last.radial_step())))
}

/// Places extents of these lengths at these locations, in the same order; the platters hold them all. Extents
/// at the same location are contiguous.
pub(super) fn reserve(wanted: &[(CacheLocation, Sectors)], tracks: &Tracks) -> Vec<PbaExtent> {
    let total =
        |location| -> u64 { wanted.iter().filter(|(at, _)| *at == location).map(|(_, len)| len.get()).sum() };
    let (at_od, at_id) = (total(CacheLocation::Od), total(CacheLocation::Id));
    let id = tracks.track_start(tracks.sectors - at_id);
    // The middle of the addresses is close to the middle of the sectors; large reservations at the OD or ID
    // shift it.
    let md =
        tracks.track_start((tracks.sectors / 2).max(at_od).min(id.saturating_sub(total(CacheLocation::Md))));
    let mut next = [0, md.max(at_od), id];
    wanted
        .iter()
        .map(|&(location, len)| {
            let start = &mut next[location as usize];
            let extent = PbaExtent::new(Pba(*start), len);
            *start += len.get();
            extent
        })
        .collect()
}

/// The runs left for bands after removing the reserved extents. With guards, each is part of a pass and
/// starts on a track with a guard before it; without, runs are as long as possible.
pub(super) fn free_runs(tracks: &Tracks, reserved: &[PbaExtent], guard_tracks: f64) -> Vec<Run> {
    let mut reserved: Vec<_> = reserved.iter().filter(|extent| !extent.is_empty()).collect();
    reserved.sort_by_key(|extent| extent.start);
    let mut free = Vec::new();
    let mut take_out = |run: Run, guard: u64| {
        let mut start = run.start + guard;
        for extent in &reserved {
            if extent.start.0 < run.end && run.start < extent.end().0 {
                free.push(Run { start, end: extent.start.0, ..run });
                let behind = (extent.end().0 - run.start).next_multiple_of(run.track);
                start = run.start + behind + guard;
            }
        }
        free.push(Run { start, ..run });
    };
    for run in &tracks.runs {
        if guard_tracks == 0.0 {
            take_out(*run, 0);
            continue;
        }
        run.passes().for_each(|pass| take_out(pass, guard_tracks.ceil() as u64 * pass.radial_step()));
    }
    free.retain(|run| run.start < run.end);
    if guard_tracks == 0.0 { merged(&free) } else { free }
}

/// Merges contiguous runs. A merged run has no track size.
fn merged(runs: &[Run]) -> Vec<Run> {
    let mut merged: Vec<Run> = Vec::new();
    for run in runs {
        match merged.last_mut() {
            Some(before) if before.end == run.start => before.end = run.end,
            _ => merged.push(Run { track: 1, ..*run }),
        }
    }
    merged
}

/// Places bands on free runs, in order. `sizes` lists host sectors and the size of their bands;
/// `guard_tracks` tracks are left unused after each band. When bands of one size have filled a run, those of
/// the next size start in the next run.
///
/// # Errors
/// The number of host sectors that do not fit.
pub(super) fn bands(
    sizes: &[(Sectors, Sectors)],
    runs: &[Run],
    guard_tracks: f64,
) -> Result<Vec<StretchSpec>, Sectors> {
    let mut stretches = Vec::new();
    let mut left: u64 = sizes.iter().map(|(total, _)| total.get()).sum();
    let mut runs = runs.iter().copied();
    let mut here = runs.next();
    for &(total, band) in sizes {
        let mut rest = total.get();
        while let (Some(run), true) = (here, rest > 0) {
            let guard = guard(run, guard_tracks);
            let (bands, start) = (run.pieces(band.get() + guard), Pba(run.start));
            // The very last band may be short, and then needs less.
            let last_fits = rest < band.get() && run.pieces(rest + guard) > 0;
            let take = if bands == 0 && last_fits { rest } else { rest.min(bands * band.get()) };
            if take > 0 {
                stretches.push(StretchSpec { sectors: Sectors(take), band, guard: Sectors(guard), start });
            }
            let used = take + take.div_ceil(band.get()) * guard;
            let after = Run { start: run.start + used, ..run };
            here = if after.pieces(band.get() + guard) > 0 { Some(after) } else { runs.next() };
            rest -= take;
            left -= take;
        }
    }
    if left == 0 { Ok(stretches) } else { Err(Sectors(left)) }
}

/// Bands of whole tracks with guards of whole tracks, for `host` sectors: the stretches, one per run, and the
/// number of sectors that do not fit. Tracks at the end of a run that are too few for a band with its guard
/// remain unused.
pub(super) fn track_bands(
    tracks: &Tracks,
    band_tracks: u64,
    guard_tracks: u64,
    host: u64,
) -> (Vec<StretchSpec>, u64) {
    let (mut stretches, mut left) = (Vec::new(), host);
    for run in &tracks.runs {
        let (band, guard) = (Sectors(band_tracks * run.track), Sectors(guard_tracks * run.track));
        let take = (run.pieces((band + guard).get()) * band.get()).min(left);
        if take > 0 {
            stretches.push(StretchSpec { sectors: Sectors(take), band, guard, start: Pba(run.start) });
        }
        left -= take;
    }
    (stretches, left)
}

/// The guard after each band of a run: whole blocks, and at least `guard_tracks` tracks of each surface.
fn guard(run: Run, guard_tracks: f64) -> u64 {
    ((run.radial_step() as f64 * guard_tracks).ceil() as u64).next_multiple_of(BLOCK_SECTORS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Platters of runs, each given as tracks and sectors per track.
    fn tracks(runs: &[(u64, u64)]) -> Tracks {
        let mut end = 0;
        let runs = runs.iter().map(|&(count, track)| {
            let start = end;
            end += count * track;
            Run { start, end, track, surfaces: 1, group_tracks: count }
        });
        let runs: Vec<Run> = runs.collect();
        Tracks { runs, sectors: end, sectors_per_added_track: 1, single_surface: true }
    }

    fn reserved_sizes() -> impl Strategy<Value = Vec<(CacheLocation, Sectors)>> {
        let location = prop_oneof![Just(CacheLocation::Od), Just(CacheLocation::Md), Just(CacheLocation::Id)];
        prop::collection::vec((location, (0_u64..300).prop_map(Sectors)), 1..3)
    }

    proptest! {
        #[test]
        fn no_regions_overlap_and_everything_that_fits_is_placed(
            runs in prop::collection::vec((20_u64..60, 8_u64..40), 1..8),
            wanted in reserved_sizes(),
            sizes in prop::collection::vec((0_u64..600, 8_u64..90), 1..4),
            guard_tracks in prop_oneof![Just(0.0), 0.1..2.5_f64],
        ) {
            let tracks = tracks(&runs);
            let total: u64 = wanted.iter().map(|(_, len)| len.get()).sum();
            prop_assume!(total * 2 < tracks.sectors);
            let reserved = reserve(&wanted, &tracks);
            prop_assert!(reserved.iter().zip(&wanted).all(|(extent, (_, len))| extent.len == *len));
            let free = free_runs(&tracks, &reserved, guard_tracks);
            let sizes: Vec<_> = sizes.iter().map(|&(total, band)| (Sectors(total), Sectors(band))).collect();
            let placed = bands(&sizes, &free, guard_tracks);
            let stretches = placed.as_deref().unwrap_or_default();

            let mut taken: Vec<(u64, u64)> = reserved.iter().map(|e| (e.start.0, e.end().0)).collect();
            for stretch in stretches {
                let count = stretch.sectors.get().div_ceil(stretch.band.get());
                let end = stretch.start.0 + stretch.sectors.get() + count * stretch.guard.get();
                let run = free.iter().find(|run| run.start <= stretch.start.0 && end <= run.end);
                let track = run.map(|run| run.track);
                prop_assert!(track.is_some(), "{stretch:?} lies in one run");
                let guard = track.map_or(0.0, |track| track as f64 * guard_tracks);
                prop_assert!(stretch.guard.get() as f64 >= guard);
                taken.push((stretch.start.0, end));
            }
            taken.retain(|(start, end)| start < end);
            taken.sort_unstable();
            prop_assert!(taken.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{taken:?}");
            prop_assert!(taken.last().is_none_or(|last| last.1 <= tracks.sectors));
            if placed.is_ok() {
                let host: u64 = stretches.iter().map(|stretch| stretch.sectors.get()).sum();
                prop_assert_eq!(host, sizes.iter().map(|(total, _)| total.get()).sum::<u64>());
            }
        }
    }
}
