//! What becomes of a zone by itself on a real drive, and on ours when a person says so: it fails, or its reset is
//! recommended.
//!
//! Invariant: a state that is refused changes nothing; one that is set is kept like the zone's write pointer, but for
//! a recommendation, which a drive makes anew after it was switched off.
//!
//! Source: ZBC-2 (INCITS 550), 4.4.3.5.9 and 4.4.3.5.10 (read-only and offline zones), and REPORT ZONES (RWP RECOMMENDED).

use std::fmt;
use std::str::FromStr;

use skylight_layer::Zoned;
use skylight_layer::capabilities::zoned::ZoneAccess;

/// A state that a zone gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZoneState {
    /// What can still be done with it.
    Access(ZoneAccess),
    /// Whether the drive recommends to reset it.
    ResetRecommended(bool),
}

/// All states by their names.
const STATES: [(&str, ZoneState); 5] = [
    ("writable", ZoneState::Access(ZoneAccess::Writable)),
    ("read-only", ZoneState::Access(ZoneAccess::ReadOnly)),
    ("offline", ZoneState::Access(ZoneAccess::Offline)),
    ("reset-recommended", ZoneState::ResetRecommended(true)),
    ("reset-not-recommended", ZoneState::ResetRecommended(false)),
];

/// The state that a zone is to get, as `5:offline`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneChange {
    /// The zone; the first is 0.
    pub zone: u32,
    /// Its state.
    pub state: ZoneState,
}

impl FromStr for ZoneChange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once(':').and_then(|(zone, name)| {
            let state = STATES.iter().find(|state| state.0 == name)?.1;
            Some(Self { zone: zone.parse().ok()?, state })
        });
        parts.ok_or_else(|| {
            let names = STATES.map(|state| state.0).join(", ");
            format!("{text}: not a zone and a state; use N:STATE with one of {names}")
        })
    }
}

impl fmt::Display for ZoneChange {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = STATES.iter().find(|state| state.1 == self.state).map_or("", |state| state.0);
        write!(out, "zone {} {name}", self.zone)
    }
}

impl ZoneChange {
    /// Brings the zone into the state; says so in words.
    ///
    /// # Errors
    /// One line, when the drive has no such zone, or the zone no write pointer to reset.
    pub fn apply(self, zoned: &mut dyn Zoned) -> Result<String, String> {
        let (zone, zones) = (self.zone, zoned.layout().zones);
        if zone >= zones {
            return Err(format!("zone {zone}: this drive has {zones} zones; use 0 to {}", zones - 1));
        }
        match self.state {
            ZoneState::Access(access) => zoned.set_access(zone, access),
            ZoneState::ResetRecommended(_) if zoned.layout().is_conventional(zone) => {
                return Err(format!("zone {zone}: a conventional zone is never reset; use another one"));
            }
            ZoneState::ResetRecommended(recommended) => zoned.recommend_reset(zone, recommended),
        }
        Ok(self.to_string())
    }
}
