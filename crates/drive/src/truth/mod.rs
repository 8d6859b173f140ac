//! The truth about a drive: the findings that a correct test reports.
//!
//! Definitions, which tests follow too (`docs/random-drives.md`):
//! * `drive_kind`: the kind of drive, from the profile.
//! * `platters`: rotation, tracks, seeks, plateaus, from the geometry and mechanics of the built drive.
//! * `cache`: sizes of the persistent cache and of its journal.
//! * `out_of_band_time`: the time of a journal's out-of-band data, where its log stands.
//! * `measurability`: what the conditions of a measurement put out of reach.
//! * `zones`: what a drive declares of its zones.
//! * `cleaning_costs`: costs of cleaning and map merges, measured on a quiet copy of the drive.
//!
//! Invariants: every value comes from the profile or from the built drive, never from a constant here;
//! properties that the drive cannot have are absent; properties that no test can measure are marked so.

mod cache;
mod cleaning_costs;
mod collected_writes;
mod drive_kind;
mod finding;
mod measurability;
mod out_of_band_time;
mod platters;
mod watermarks;
mod zones;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};
use serde_json::json;

use crate::drive::Drive;
use crate::profile::{Conditions, Layer, Profile, ProfileError, Zoned};
pub(crate) use cache::CacheFill;
pub use finding::{TrueFinding, Value};

/// The truth about one drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Truth {
    /// The drive's name.
    pub name: String,
    /// Its capacity.
    pub size_bytes: u64,
    /// The findings, in the order of the table of findings.
    pub findings: Vec<TrueFinding>,
}

impl Truth {
    /// Determines the truth about the drive of a profile that is measured under these conditions.
    ///
    /// # Errors
    /// If no drive can be built from the profile.
    pub fn under(profile: &Profile, conditions: &Conditions) -> Result<Self, ProfileError> {
        let drive = Drive::new(&quiet(profile), 0)?;
        let mut findings = drive_kind::findings(profile);
        let collected = collected_writes::in_a_slot(profile, conditions)?;
        findings.extend(cache::findings(profile, measurability::sharing(conditions, profile), collected));
        findings.extend(cache::bands(profile));
        if !matches!(profile.layer, Layer::Ssd(_)) {
            findings.extend(platters::findings(profile, &drive));
        }
        if let Layer::Journaled(keys) = &profile.layer {
            findings.extend(cache::journal(&drive, profile, keys, conditions)?);
        }
        if let Layer::Zoned(Zoned { host_aware: Some(keys), .. }) = &profile.layer {
            // Waiting writes share an entry in the volatile cache alone, but a larger write takes another one.
            findings.extend([cache::quantum(keys.quantum), cache::entry_max(keys.entry_max)]);
        }
        findings.extend(cleaning_costs::map_merges(profile)?);
        findings.extend(cleaning_costs::cleaning(profile, conditions)?);
        findings.extend(platters::plateaus(profile, &drive));
        findings.extend(zones::findings(profile));
        measurability::apply(conditions, profile, &mut findings);
        Ok(Self { name: profile.name.clone(), size_bytes: profile.capacity.get(), findings })
    }

    /// The finding called `name`.
    pub fn finding(&self, name: &str) -> Option<&TrueFinding> {
        self.findings.iter().find(|finding| finding.name == name)
    }

    /// As JSON in the form of a probe's findings without unit and interval, with the additional key `measurable`.
    pub fn to_json(&self) -> String {
        // Text, numbers and tables of them always serialize.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

struct ByName<'a>(&'a [TrueFinding]);

impl Serialize for ByName<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|finding| (finding.name, finding)))
    }
}

impl Serialize for Truth {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(3))?;
        map.serialize_entry("schema", &1)?;
        let target = json!({
            "kind": "profile", "name": self.name, "size_bytes": self.size_bytes, "block_bytes": 512
        });
        map.serialize_entry("target", &target)?;
        map.serialize_entry("findings", &ByName(&self.findings))?;
        map.end()
    }
}

/// The same drive without noise: no jitter, volatile cache and look-ahead off.
fn quiet(profile: &Profile) -> Profile {
    let mut quiet = profile.clone();
    quiet.jitter = crate::profile::Jitter::default();
    quiet.interface.write_cache_on = false;
    quiet.interface.look_ahead = false;
    quiet
}
