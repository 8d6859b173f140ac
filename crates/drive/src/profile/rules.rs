//! Rules between the keys of a profile, and rounding of its sizes to blocks.
//!
//! Invariants: the profile has passed `check.rs`, so every value is in its range; nothing here needs the
//! geometry (the builder of the drive checks whether the platters are large enough).

use super::check::not_whole;
use super::diagnose::{Faults, Rank};
use super::quantity::{Bytes, Duration};
use super::schema::{Fitted, Geometry, Layout, Profile};

/// A block, the unit of a drive's capacity.
pub(super) const BLOCK: Bytes = Bytes(4096);
/// Chosen, because every real drive seeks in well under a second.
const MAX_SEEK: Duration = Duration::from_ns(1e9);

/// Maximum number of tracks on a surface, over all recording zones.
const MAX_TRACKS: u64 = 10_000_000;

/// Checks `profile` as a whole; rounds its capacity to blocks and its cache to bands.
pub(super) fn apply(profile: &mut Profile) -> Faults {
    let mut rules = Rules { profile, faults: Faults::default() };
    rules.name();
    rules.capacity();
    rules.seek();
    rules.geometry();
    rules.horizontal_zones();
    rules.skews();
    rules.interface();
    rules.layer();
    rules.jitter();
    rules.faults
}

/// A profile being checked, and the faults found.
pub(super) struct Rules<'a> {
    pub(super) profile: &'a mut Profile,
    faults: Faults,
}

impl Rules<'_> {
    pub(super) fn wrong(&mut self, path: &str, message: &str) {
        let source = &self.profile.source;
        self.faults.add(Rank::Value, source.line(path), format!("{} {message}", source.named(path)));
    }

    pub(super) fn missing(&mut self, section: &str, message: &str) {
        let line = self.profile.source.line(section);
        self.faults.add(Rank::Missing, line, message.to_owned());
    }

    /// Checks a key that one choice of another key needs and no other may have: the section and the message if it is
    /// missing, the key and the message if it is there.
    pub(super) fn only_where_needed(
        &mut self,
        (needed, given): (bool, bool),
        missing: (&str, &str),
        wrong: (&str, &str),
    ) {
        match (needed, given) {
            (true, false) => self.missing(missing.0, missing.1),
            (false, true) => self.wrong(wrong.0, wrong.1),
            _ => {}
        }
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
        let decrease = self.profile.mechanics.seek.points.windows(2).position(|pair| pair[0].0 >= pair[1].0);
        if let Some(before) = decrease {
            let path = format!("mechanics.seek.points[{}]", before + 1);
            self.wrong(&path, "is not farther than the point before it; distances must rise");
        }
        let tracks = self.profile.geometry.tracks();
        let fitted = self.profile.mechanics.seek.fitted.as_ref();
        let below = fitted.and_then(|fitted| negative_at(fitted, tracks as f64));
        // A non-negative curve of this form has its maximum at an end or where its slope is zero.
        let slow =
            fitted.map(|fitted| highest(fitted, tracks as f64)).filter(|time| time.ns() > MAX_SEEK.ns());
        if let Some((distance, time)) = below {
            self.wrong(
                "mechanics.seek.fitted",
                &format!("gives {time} at d = {distance:.0}; a seek time cannot be negative"),
            );
        }
        if let Some(time) = slow {
            let message =
                format!("gives {time} within {tracks} tracks; no seek takes longer than {MAX_SEEK}");
            self.wrong("mechanics.seek.fitted", &message);
        }
    }

    fn geometry(&mut self) {
        let Geometry { layout, group_tracks, taper, .. } = self.profile.geometry.clone();
        let tracks = self.profile.geometry.tracks();
        if tracks > MAX_TRACKS {
            let message = format!("has {tracks} tracks in all; a surface has {MAX_TRACKS} at most");
            self.wrong("geometry.zone", &message);
        }
        let grouped = layout == Layout::HybridSerpentine;
        self.only_where_needed(
            (grouped, group_tracks.is_some()),
            (
                "geometry",
                "[geometry] group_tracks is missing; \
                 layout = \"hybrid-serpentine\" needs it, say, group_tracks = 200",
            ),
            ("geometry.group_tracks", "is only for layout = \"hybrid-serpentine\"; leave it out"),
        );
        if grouped && group_tracks.is_some_and(|group| group > tracks) {
            let message = format!("is more than the {tracks} tracks of a surface");
            self.wrong("geometry.group_tracks", &message);
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

    /// Checks the keys that only a horizontal-zones layout may have.
    fn horizontal_zones(&mut self) {
        let Geometry { layout, surfaces, surface_density, zone, .. } = self.profile.geometry.clone();
        let horizontal = layout == Layout::HorizontalZones;
        let elsewhere = "is only for layout = \"horizontal-zones\"; leave it out";
        if !horizontal && !surface_density.is_empty() {
            self.wrong("geometry.surface_density", elsewhere);
        } else if !surface_density.is_empty() && surface_density.len() != surfaces as usize {
            let message =
                format!("has {} numbers; surfaces = {surfaces} needs {surfaces}", surface_density.len());
            self.wrong("geometry.surface_density", &message);
        }
        for (number, zone) in zone.iter().enumerate() {
            let at = |key: &str| format!("geometry.zone[{number}].{key}");
            match (zone.group_tracks, zone.outward) {
                (Some(_), _) if !horizontal => self.wrong(&at("group_tracks"), elsewhere),
                (_, true) if !horizontal => self.wrong(&at("outward"), elsewhere),
                (Some(group), _) if group > zone.tracks => {
                    let message = format!("is more than the {} tracks of its zone", zone.tracks);
                    self.wrong(&at("group_tracks"), &message);
                }
                (Some(_), true) => {
                    self.wrong(&at("outward"), "excludes group_tracks; a serpentine goes both ways");
                }
                _ => {}
            }
        }
    }

    fn interface(&mut self) {
        let interface = &self.profile.interface;
        let (no_cache, no_buffer) = (interface.write_cache.get() == 0, interface.read_buffer.get() == 0);
        let (cache_on, look_ahead) = (interface.write_cache_on, interface.look_ahead);
        if interface.write_cache_runs.is_some() && no_cache {
            self.wrong("interface.write_cache_runs", "needs a write cache; leave it out");
        }
        if cache_on && no_cache {
            self.wrong("interface.write_cache_on", "needs a write cache; add, say, write_cache = \"64 MiB\"");
        }
        if look_ahead && no_buffer {
            self.wrong("interface.look_ahead", "needs a read buffer; add, say, read_buffer = \"16 MiB\"");
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

    fn jitter(&mut self) {
        let jitter = &self.profile.jitter;
        if jitter.outlier_rate > 0.0 && jitter.outlier == Duration::ZERO {
            self.wrong("jitter.outlier_rate", "makes outliers of no length; add, say, outlier = \"50 ms\"");
        }
    }
}

/// A distance up to `tracks` with a negative seek time, and that time, if there is one. The minimum of the
/// curve is at an end or where its slope is zero, `sqrt(d) = -root / (2 linear)`.
fn negative_at(fitted: &Fitted, tracks: f64) -> Option<(f64, Duration)> {
    let far = (tracks - 1.0).max(1.0);
    let minimum = (fitted.root.ns() / (-2.0 * fitted.linear.ns())).powi(2);
    let minimum = if minimum.is_finite() { minimum.clamp(1.0, far) } else { 1.0 };
    let distance =
        [1.0, minimum.round(), far].into_iter().find(|distance| fitted.time_ns(*distance) < 0.0)?;
    Some((distance, Duration::from_ns(fitted.time_ns(distance).round())))
}

/// The longest seek of a fitted curve over distances of 1 to `tracks`.
fn highest(fitted: &Fitted, tracks: f64) -> Duration {
    // d/dd (root * sqrt(d) + linear * d) = 0
    let extremum = fitted.root.ns() / (-2.0 * fitted.linear.ns());
    let extremum = (extremum * extremum).clamp(1.0, tracks.max(1.0));
    let times = [1.0, extremum, tracks].map(|d| fitted.time_ns(if d.is_finite() { d } else { 1.0 }));
    Duration::from_ns(times.into_iter().fold(0.0, f64::max))
}
