//! Tests of the guards: the bands of a profile on a raw shingled disk with the profile's own tracks and a
//! head as wide as the guards. Rewriting a band, or a cache or map, must not overwrite any other.
//!
//! Invariant: every check also has a layout with too small a guard, which it detects.
//! Source: Skylight (FAST'15), section 2: guards separate bands so that each can be rewritten on its own.

use rand_core::Rng;
use skylight_disk::{Geometry, Lba, LbaExtent, Pba, PbaExtent, Sectors, Shingling, Track};
use skylight_layer::capabilities::overwriting::{ReadData, ReadMode, SectorState};
use skylight_layer::{
    Command, CommandId, Layer as _, Op, Overwriting as _, Plan, Queue, StretchSpec, Swd, SwdSpec,
};

use super::{geometry, layers, mechanics};
use crate::jitter::substream;
use crate::profile::{Layer, Profile};
use crate::random::{Kind, random_drive};

/// The placement of bands and reserved extents, in address order.
struct Placement {
    geometry: Geometry,
    stretches: Vec<StretchSpec>,
    reserved: Vec<PbaExtent>,
}

impl Placement {
    fn of(profile: &Profile) -> Self {
        let Layer::Journaled(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
        let mechanics = mechanics(profile);
        let (geometry, tracks) = geometry::build(profile, &mechanics).expect("tracks");
        let spec = layers::journaled(profile, keys, &mechanics, &tracks).expect("a layer");
        let home = PbaExtent::new(spec.map_merge.start, spec.map_merge.len.max(spec.cleaning.map_update.len));
        let cache =
            PbaExtent::new(spec.journal.region.start, spec.journal.region.len + spec.cleaning.staging.len);
        let on_disk = keys.cache_location.is_some();
        let reserved: Vec<_> = if on_disk { vec![cache, home] } else { vec![home] };
        let stretches = layers::stretches(profile, keys, &tracks, &reserved).expect("bands");
        Self { geometry, stretches, reserved }
    }

    fn band(stretch: &StretchSpec, number: u64) -> PbaExtent {
        let before = Sectors(stretch.band.get() * number);
        let guards = Sectors(stretch.guard.get() * number);
        let start = stretch.start + before + guards;
        PbaExtent::new(start, stretch.band.min(stretch.sectors - before))
    }

    fn count(stretch: &StretchSpec) -> u64 {
        stretch.sectors.get().div_ceil(stretch.band.get())
    }

    /// The band or reserved extent that contains a sector.
    fn owner(&self, at: Pba) -> Option<PbaExtent> {
        let within = |extent: &PbaExtent| extent.start <= at && at < extent.end();
        let reserved = self.reserved.iter().copied().find(within);
        reserved.or_else(|| {
            let stretch =
                &self.stretches[self.stretches.partition_point(|s| s.start <= at).checked_sub(1)?];
            let number = (at - stretch.start).get() / (stretch.band + stretch.guard).get();
            (number < Self::count(stretch)).then(|| Self::band(stretch, number)).filter(within)
        })
    }

    /// The first and the last bands of some stretches, and some in between.
    fn some_bands(&self, seed: u64, most: usize) -> Vec<PbaExtent> {
        let mut random = substream(seed, "shingled");
        let mut below = |end: u64| random.next_u64() % end;
        let mut bands = Vec::new();
        // Neighbouring bands lie in consecutive stretches, or in the next zone.
        let from = below(self.stretches.len().saturating_sub(most).max(1) as u64) as usize;
        for stretch in self.stretches.iter().skip(from).take(most) {
            let count = Self::count(stretch);
            let mut numbers = vec![0, 1, count / 2, count - 1, count.saturating_sub(2), below(count)];
            numbers.retain(|number| *number < count);
            bands.extend(numbers.into_iter().map(|number| Self::band(stretch, number)));
        }
        for at in (1..bands.len()).rev() {
            bands.swap(at, below(at as u64 + 1) as usize);
        }
        bands
    }

    /// Writes these extents one after the other; returns how many writes overwrote sectors of others.
    fn harmful(&self, written: &[PbaExtent], width_tracks: u32) -> usize {
        let shingling = Shingling::new(width_tracks).expect("a width");
        let mut disk = Swd::new(SwdSpec {
            capacity: self.geometry.capacity(),
            geometry: self.geometry.clone(),
            shingling,
            bands: None,
            mode: ReadMode { data: ReadData::Overwriting, fail: true },
            pattern: 0,
        });
        let mut harmful = 0;
        for &unit in written {
            write(&mut disk, unit);
            let mut harm = 0;
            self.visit_tracks(unit, &mut |track| {
                shingling.visit_behind(&self.geometry, track, &mut |behind| {
                    harm += self.lost_of_others(&mut disk, &behind, unit);
                });
            });
            harmful += usize::from(harm > 0);
        }
        // At the end every band is intact.
        let overwritten = |unit: &&PbaExtent| !self.reserved.contains(unit) && lost(&mut disk, **unit) > 0;
        let overwritten = written.iter().filter(overwritten).count();
        assert!(
            harmful > 0 || overwritten == 0,
            "{overwritten} bands were overwritten without a harmful write"
        );
        harmful
    }

    fn visit_tracks(&self, unit: PbaExtent, visit: &mut impl FnMut(&Track)) {
        let mut at = unit.start;
        while at < unit.end() {
            let track = self.geometry.track_of(at);
            visit(&track);
            at = track.end();
        }
    }

    /// Number of sectors of a track that are overwritten and belong to a band or reserved extent other than
    /// `unit`. Each of these spans several tracks, so it includes the start or the end of the track, or none
    /// of it.
    fn lost_of_others(&self, disk: &mut Swd, track: &Track, unit: PbaExtent) -> u64 {
        let last = Pba(track.end().get() - 1);
        let mut others: Vec<_> = [track.start, last].into_iter().filter_map(|at| self.owner(at)).collect();
        others.retain(|other| *other != unit);
        others.dedup();
        others
            .iter()
            .map(|other| {
                let (start, end) = (other.start.max(track.start), other.end().min(track.end()));
                lost(disk, PbaExtent::new(start, end - start))
            })
            .sum()
    }
}

fn write(disk: &mut Swd, extent: PbaExtent) {
    let extent = LbaExtent::new(Lba(extent.start.get()), extent.len);
    let waiting = [Command::new(CommandId(0), Op::Write, extent)];
    disk.take(Queue { waiting: &waiting, next: 0 }, &mut Plan::default());
}

/// Number of overwritten sectors.
fn lost(disk: &mut Swd, extent: PbaExtent) -> u64 {
    let mut lost = Sectors(0);
    disk.visit_state(LbaExtent::new(Lba(extent.start.get()), extent.len), &mut |part, state| {
        if state != SectorState::Native {
            lost += part.len;
        }
    });
    lost.get()
}

fn guard_tracks(profile: &Profile) -> f64 {
    let Layer::Journaled(keys) = &profile.layer else { panic!("{:?}", profile.layer) };
    keys.guard_tracks
}

/// The profile with a different guard.
fn with_guard(profile: &Profile, guard_tracks: f64) -> Profile {
    let mut changed = profile.clone();
    let Layer::Journaled(keys) = &mut changed.layer else { panic!("{:?}", profile.layer) };
    keys.guard_tracks = guard_tracks;
    changed
}

/// The journaled profiles that come with Skylight.
const PACKAGED: [(&str, &str); 2] = [
    ("st5000as0011", include_str!("../../../../python/skylight/profiles/st5000as0011.toml")),
    ("st8000as0011", include_str!("../../../../python/skylight/profiles/st8000as0011.toml")),
];

/// The drive-managed drives that come with Skylight. The emulated ones are bands of a conventional disk.
#[test]
fn rewriting_packaged_bands_overwrites_no_other_band() {
    for (name, text) in PACKAGED {
        let profile = Profile::from_toml(text, name).unwrap_or_else(|error| panic!("{error}"));
        let placement = Placement::of(&profile);
        let mut written = placement.reserved.clone();
        written.extend(placement.some_bands(1, usize::MAX));
        written.extend(&placement.reserved);
        assert_eq!(guard_tracks(&profile), 2.0, "{name}: a head two tracks wide");
        assert_eq!(placement.harmful(&written, 2), 0, "{name}: of {} rewrites", written.len());
        println!("{name}: {} rewrites", written.len());
        // One track is not enough, nor is one track plus the skew.
        for less in [1.0, 1.05] {
            let placement = Placement::of(&with_guard(&profile, less));
            let bands = placement.some_bands(1, 100);
            let harmful = placement.harmful(&bands, 2);
            assert!(harmful * 2 > bands.len(), "{name}, {less}: {harmful} of {}", bands.len());
        }
    }
}

/// Random journaled drives of these seeds that have guards.
#[test]
fn rewriting_random_bands_overwrites_no_other_band() {
    const SEEDS: std::ops::RangeInclusive<u64> = 1..=200;
    let (mut guarded, mut rewrites) = (0, 0);
    for seed in SEEDS {
        let random = random_drive(seed, Some(Kind::Journaled)).unwrap_or_else(|error| panic!("{error}"));
        let guard = guard_tracks(&random.profile);
        if guard == 0.0 {
            // The head of this drive is as wide as its tracks.
            continue;
        }
        let placement = Placement::of(&random.profile);
        let mut written = placement.some_bands(seed, 200);
        written.extend(placement.reserved.last());
        rewrites += written.len();
        assert_eq!(placement.harmful(&written, guard as u32), 0, "seed {seed}, {guard} tracks");
        let less = Placement::of(&with_guard(&random.profile, guard - 1.0));
        assert!(less.harmful(&less.some_bands(seed, 200), guard as u32) > 0, "seed {seed}, {guard} tracks");
        guarded += 1;
    }
    println!("{guarded} of 200 drives have guards: {rewrites} rewrites");
    assert!(guarded > 20, "only {guarded} drives have guards");
}
