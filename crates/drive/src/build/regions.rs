//! Where caches, maps and bands lie on the platters.
//!
//! A persistent cache on the disk and the home of a map are *reserved*: extents that start on a track at the
//! OD, MD or ID. Bands fill what is left, run by run, from the first sector to the last.
//!
//! A head that is wider than a track destroys what lies beside the track that it writes, so bands need guards.
//! A band ends anywhere in a track. Behind a guard of `k` tracks the next begins at the same place of the track
//! `k` further on, so that `k - 1` whole tracks lie between them: what a head `k` tracks wide needs. Less is not
//! enough, even where the next band begins behind the angle at which the last one ended: the last track of a
//! band is written from its start, which by the skew lies beside the end of the next track. A band lies in one
//! pass over a surface, and a pass begins with a guard for what may lie behind its edge.
//! Inside a reserved extent nothing is guarded: how it is written is the layer's business.
//!
//! Invariants: reserved extents and bands share no sector; a band with a guard lies in one run, with the guard
//! behind it; a head as wide as the guard writes a band, or a reserved extent, and destroys nothing of others.

use skylight_disk::{BLOCK_SECTORS, Pba, PbaExtent, Sectors};
use skylight_layer::StretchSpec;

use super::geometry::{Run, Tracks};
use crate::profile::{self, CacheLocation, Profile, ProfileError};

/// The refusal of a region, unless the platters hold `needed` sectors.
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

/// A size for people: in whole MiB where that is near enough.
pub(super) fn about(size: Sectors) -> profile::Bytes {
    let (bytes, mib) = (size.bytes(), 1 << 20);
    profile::Bytes(if bytes < 64 * mib { bytes } else { bytes.next_multiple_of(mib) })
}

/// How many more tracks at the ID hold so many sectors, in words.
pub(super) fn tracks_for(sectors: u64, tracks: &Tracks) -> String {
    counted(sectors.div_ceil(tracks.sectors_a_track.max(1)))
}

fn counted(tracks: u64) -> String {
    match tracks {
        1 => "1 track".to_owned(),
        count => format!("{count} tracks"),
    }
}

/// How many more tracks at the ID hold so many host sectors in bands of this size with their guards, in words.
/// None where no run holds a band.
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
    if free.iter().all(|run| run.room(pitch(run)) == 0) {
        return None;
    }
    // As many on each surface, or one after the other where a radius is walked on all surfaces at once.
    let at_once = tracks.sectors_a_track / last.radial_step();
    let bands = short.get().div_ceil(band.get()).div_ceil(at_once.max(1));
    Some(counted(bands * pitch(last).div_ceil(last.radial_step())))
}

/// Extents of these lengths at these places, in the same order; the lengths together fit the platters.
/// Several at one place follow each other.
pub(super) fn reserve(wanted: &[(CacheLocation, Sectors)], tracks: &Tracks) -> Vec<PbaExtent> {
    let total =
        |location| -> u64 { wanted.iter().filter(|(at, _)| *at == location).map(|(_, len)| len.get()).sum() };
    let (at_od, at_id) = (total(CacheLocation::Od), total(CacheLocation::Id));
    let id = tracks.track_start(tracks.sectors - at_id);
    // The middle of the addresses is near the middle of the sectors. Where much is reserved it gives way.
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

/// The runs that are left for bands when these extents are taken out. With guards each is part of a pass, and
/// begins on a track that has a guard before it; without, they are as long as they can be.
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
    if guard_tracks == 0.0 { joined(&free) } else { free }
}

/// Runs joined where nothing lies between them, as one run without tracks.
fn joined(runs: &[Run]) -> Vec<Run> {
    let mut joined: Vec<Run> = Vec::new();
    for run in runs {
        match joined.last_mut() {
            Some(before) if before.end == run.start => before.end = run.end,
            _ => joined.push(Run { track: 1, ..*run }),
        }
    }
    joined
}

/// Bands on free runs, in order: `sizes` are host sectors and the size of their bands, `guard_tracks` what is
/// left unused behind each. Where bands of one size have filled a run, those of the next size begin in the run
/// behind it.
///
/// # Errors
/// The host sectors that found no place.
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
            let (bands, start) = (run.room(band.get() + guard), Pba(run.start));
            // The last band of all may be short, and then needs less.
            let last_fits = rest < band.get() && run.room(rest + guard) > 0;
            let take = if bands == 0 && last_fits { rest } else { rest.min(bands * band.get()) };
            if take > 0 {
                stretches.push(StretchSpec { sectors: Sectors(take), band, guard: Sectors(guard), start });
            }
            let used = take + take.div_ceil(band.get()) * guard;
            let after = Run { start: run.start + used, ..run };
            here = if after.room(band.get() + guard) > 0 { Some(after) } else { runs.next() };
            rest -= take;
            left -= take;
        }
    }
    if left == 0 { Ok(stretches) } else { Err(Sectors(left)) }
}

/// Bands of whole tracks with whole tracks behind each, for `host` sectors: the stretches, one a run, and the
/// sectors that found no place. Tracks at the end of a run that are no whole band with its guard stay unused.
pub(super) fn track_bands(
    tracks: &Tracks,
    band_tracks: u64,
    guard_tracks: u64,
    host: u64,
) -> (Vec<StretchSpec>, u64) {
    let (mut stretches, mut left) = (Vec::new(), host);
    for run in &tracks.runs {
        let (band, guard) = (Sectors(band_tracks * run.track), Sectors(guard_tracks * run.track));
        let take = (run.room((band + guard).get()) * band.get()).min(left);
        if take > 0 {
            stretches.push(StretchSpec { sectors: Sectors(take), band, guard, start: Pba(run.start) });
        }
        left -= take;
    }
    (stretches, left)
}

/// The guard behind each band of a run: whole blocks, at least so many tracks of each surface.
fn guard(run: Run, guard_tracks: f64) -> u64 {
    ((run.radial_step() as f64 * guard_tracks).ceil() as u64).next_multiple_of(BLOCK_SECTORS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Platters of runs: tracks, and sectors a track.
    fn tracks(runs: &[(u64, u64)]) -> Tracks {
        let mut end = 0;
        let runs = runs.iter().map(|&(count, track)| {
            let start = end;
            end += count * track;
            Run { start, end, track, surfaces: 1, group_tracks: count }
        });
        let runs: Vec<Run> = runs.collect();
        Tracks { runs, sectors: end, sectors_a_track: 1, strokes: true }
    }

    fn reserved_sizes() -> impl Strategy<Value = Vec<(CacheLocation, Sectors)>> {
        let place = prop_oneof![Just(CacheLocation::Od), Just(CacheLocation::Md), Just(CacheLocation::Id)];
        prop::collection::vec((place, (0_u64..300).prop_map(Sectors)), 1..3)
    }

    proptest! {
        #[test]
        fn nothing_shares_a_sector_and_all_that_fits_is_placed(
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
