//! What keys of a profile mean together: rules that no single key can break, and sizes rounded to blocks.
//!
//! Invariants: it runs on a profile that has passed `check.rs`, so every value is in its range; it needs no
//! arithmetic of the geometry (whether the platters hold the capacity is for the builder of the drive).

use super::check::not_whole;
use super::diagnose::{Faults, Rank};
use super::layer::{CacheMedium, Layer, SetAssociative};
use super::quantity::{Bytes, Duration};
use super::schema::{Fitted, Geometry, Layout, Profile};

/// A block, the unit of a drive's capacity.
const BLOCK: Bytes = Bytes(4096);

/// Checks `profile` as a whole; rounds its capacity to blocks and its cache to bands.
pub(super) fn apply(profile: &mut Profile) -> Faults {
    let mut rules = Rules { profile, faults: Faults::default() };
    rules.name();
    rules.capacity();
    rules.seek();
    rules.geometry();
    rules.skews();
    rules.layer();
    rules.jitter();
    rules.faults
}

struct Rules<'a> {
    profile: &'a mut Profile,
    faults: Faults,
}

impl Rules<'_> {
    fn wrong(&mut self, path: &str, message: &str) {
        let source = &self.profile.source;
        self.faults.add(Rank::Value, source.line(path), format!("{} {message}", source.named(path)));
    }

    fn missing(&mut self, section: &str, message: &str) {
        let line = self.profile.source.line(section);
        self.faults.add(Rank::Missing, line, message.to_owned());
    }

    fn name(&mut self) {
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let name = &self.profile.name;
        if !name.chars().all(plain) || !name.starts_with(|c: char| c.is_ascii_alphanumeric()) {
            let message =
                "is not a name; it takes letters, digits, \".\", \"_\" and \"-\", a letter or digit first";
            self.wrong("name", message);
        }
    }

    fn capacity(&mut self) {
        let capacity = self.profile.capacity;
        let whole = capacity.floor_to(BLOCK);
        let written = self.profile.source.written("capacity").unwrap_or_default();
        if whole != capacity && !Bytes::is_round_figure(written.trim_matches(['"', '\''])) {
            self.wrong("capacity", &not_whole(capacity, BLOCK, "4 KiB blocks"));
        }
        self.profile.capacity = whole;
    }

    fn seek(&mut self) {
        let fall =
            self.profile.mechanics.seek.points.windows(2).position(|pair| pair[0].tracks >= pair[1].tracks);
        if let Some(before) = fall {
            let path = format!("mechanics.seek.points[{}]", before + 1);
            self.wrong(&path, "is not farther than the point before it; distances must rise");
        }
        let tracks = self.profile.geometry.tracks();
        let fitted = self.profile.mechanics.seek.fitted.as_ref();
        let below = fitted.and_then(|fitted| negative_at(fitted, tracks as f64));
        if let Some((distance, time)) = below {
            self.wrong(
                "mechanics.seek.fitted",
                &format!("gives {time} at d = {distance:.0}; no seek takes less than no time"),
            );
        }
    }

    fn geometry(&mut self) {
        let Geometry { layout, group_tracks, taper, .. } = self.profile.geometry.clone();
        let tracks = self.profile.geometry.tracks();
        match (layout == Layout::HybridSerpentine, group_tracks) {
            (true, None) => self.missing(
                "geometry",
                "[geometry] group_tracks is missing; \
                 layout = \"hybrid-serpentine\" needs it, say, group_tracks = 200",
            ),
            (false, Some(_)) => {
                self.wrong(
                    "geometry.group_tracks",
                    "is only for layout = \"hybrid-serpentine\"; leave it out",
                );
            }
            (true, Some(group)) if group > tracks => {
                let message = format!("is more than the {tracks} tracks of a surface");
                self.wrong("geometry.group_tracks", &message);
            }
            _ => {}
        }
        let Some(taper) = taper else { return };
        if taper.inner_sectors_per_track > taper.outer_sectors_per_track {
            let message = format!(
                "is more than outer_sectors_per_track = {}; inner tracks hold no more than outer ones",
                taper.outer_sectors_per_track
            );
            self.wrong("geometry.taper.inner_sectors_per_track", &message);
        }
        if u64::from(taper.zones) > taper.tracks {
            let message = format!("is more than tracks = {}; a zone has at least one track", taper.tracks);
            self.wrong("geometry.taper.zones", &message);
        }
    }

    fn skews(&mut self) {
        let rotation = self.profile.mechanics.rotation();
        let Geometry { track_skew, head_skew, .. } = self.profile.geometry;
        for (key, skew) in [("geometry.track_skew", track_skew), ("geometry.head_skew", head_skew)] {
            if skew >= rotation {
                let ms = rotation.ns() / 1e6;
                self.wrong(key, &format!("is not less than one rotation, which takes {ms:.3} ms"));
            }
        }
    }

    fn layer(&mut self) {
        let mut layer = self.profile.layer.clone();
        let flash_used = match &mut layer {
            Layer::Conventional(_) => false,
            Layer::SetAssociative(keys) => self.set_associative(keys),
        };
        self.profile.layer = layer;
        match (flash_used, self.profile.flash.is_some()) {
            (true, false) => self.missing(
                "layer.cache_medium",
                "the section [flash] is missing; \
                 cache_medium = \"flash\" needs its read, write and bandwidth",
            ),
            (false, true) => {
                self.wrong("flash", "is here but the drive has no flash cache; leave the section out");
            }
            _ => {}
        }
    }

    /// Checks the keys of a set-associative layer; true when its cache is flash.
    fn set_associative(&mut self, keys: &mut SetAssociative) -> bool {
        let capacity = self.profile.capacity;
        let drive = format!("the drive; {}", self.profile.source.named("capacity"));
        if keys.band > capacity {
            self.wrong("layer.band", &format!("is larger than {drive}"));
        } else if keys.cache < keys.band {
            self.wrong("layer.cache", &format!("is less than one band of {}", keys.band));
        } else if keys.cache >= capacity {
            self.wrong("layer.cache", &format!("is not smaller than {drive}"));
        }
        keys.cache = keys.cache.floor_to(keys.band);
        match (keys.cache_medium, keys.cache_location) {
            (CacheMedium::Disk, None) => self.missing(
                "layer",
                "[layer] cache_location is missing; a cache on the disk is at \"od\", \"md\" or \"id\"",
            ),
            (CacheMedium::Flash, Some(_)) => {
                self.wrong("layer.cache_location", "is only for a cache on the disk; leave it out for flash");
            }
            _ => {}
        }
        keys.cache_medium == CacheMedium::Flash
    }

    fn jitter(&mut self) {
        let jitter = &self.profile.jitter;
        if jitter.outlier_rate > 0.0 && jitter.outlier == Duration::ZERO {
            self.wrong("jitter.outlier_rate", "makes outliers of no length; add, say, outlier = \"50 ms\"");
        }
    }
}

/// A distance up to `tracks` at which the curve lies below zero, and how far, when there is one. The curve is
/// least at an end or where its slope is zero, `sqrt(d) = -root / (2 linear)`.
fn negative_at(fitted: &Fitted, tracks: f64) -> Option<(f64, Duration)> {
    let far = (tracks - 1.0).max(1.0);
    let turn = (fitted.root.ns() / (-2.0 * fitted.linear.ns())).powi(2);
    let turn = if turn.is_finite() { turn.clamp(1.0, far) } else { 1.0 };
    let distance = [1.0, turn.round(), far].into_iter().find(|distance| fitted.time_ns(*distance) < 0.0)?;
    Some((distance, Duration::from_ns(fitted.time_ns(distance).round())))
}
