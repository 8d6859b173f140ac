//! Drive profiles: a drive as a TOML file, with its parser, its rules and its reference.
//!
//! A profile defines an emulated drive completely; no parameter of a drive is in code. The Rust types of
//! `schema.rs` and `layer.rs` are the only schema. The check of a file, the defaults, the JSON schema for
//! editors and the reference page (`docs/profile.schema.json`, `docs/profile-reference.md`) derive from them.
//!
//! Invariants: a [`Profile`] satisfies every rule that needs no arithmetic of the geometry; a rejected file
//! gives one line with the file, the line, the key and the remedy; no input panics.
//!
//! ```
//! use skylight_drive::profile::{EXAMPLE, Profile};
//! let profile = Profile::from_toml(EXAMPLE, "example.toml")?;
//! assert_eq!(profile.mechanics.rotation().to_string(), "10.17 ms");
//!
//! let error = Profile::from_toml(&EXAMPLE.replace("surfaces", "surfces"), "bad.toml").unwrap_err();
//! let line = "bad.toml:17: [geometry] surfces is not a key here; did you mean \"surfaces\"?";
//! assert_eq!(error.to_string(), line);
//! # Ok::<(), skylight_drive::profile::ProfileError>(())
//! ```

mod check;
mod conditions;
mod diagnose;
mod host_aware;
mod layer;
mod layer_rules;
mod quantity;
mod reference;
mod rules;
mod schema;
mod schema_view;

use serde::de::DeserializeOwned;
use serde_json::Value;
use toml::de::{DeTable, DeValue};

pub use conditions::{
    BackgroundScan, Conditions, Erase, LookAhead, MAX_QUEUE_DEPTH, PriorUse, Rest, VolatileCache,
};
pub use diagnose::{ProfileError, Source};
pub use host_aware::{HostAware, MetadataLocation};
pub use layer::{
    BandRun, CacheLocation, CacheMedium, CleaningOrder, CleaningType, Conventional, FullyAssociative,
    Journaled, Layer, OverwrittenRead, SetAssociative, Ssd, Swd, ZoneModel, Zoned,
};
pub use quantity::{Bytes, Duration, QuantityError};
pub use reference::{json_schema, reference};
pub use schema::{
    Fitted, Flash, Geometry, Interface, Jitter, Layout, Mechanics, Profile, RecordingZone, SCHEMA_VERSION,
    Schedule, Seek, SeekPoint, Taper, WriteBack,
};

use diagnose::{Lines, snippet};

/// A complete profile with the most common keys, shown on the reference page.
pub const EXAMPLE: &str = include_str!("example.toml");

impl Profile {
    /// Parses and checks the profile `text`. Errors call it `origin`, usually the file name.
    ///
    /// Rounds the capacity down to whole 4 KiB blocks and a cache down to whole bands, where the schema says
    /// so.
    ///
    /// # Errors
    /// The first fault, in one line: invalid TOML, an unknown or missing key, a value of the wrong type or
    /// out of range, or contradictory keys.
    pub fn from_toml(text: &str, origin: &str) -> Result<Self, ProfileError> {
        let version = |table: &DeTable<'_>, lines: &Lines| check_version(table, text, lines, origin);
        let (mut profile, source): (Self, _) = read(text, origin, schema::root(), version)?;
        profile.source = source;
        rules::apply(&mut profile).into_result(origin)?;
        Ok(profile)
    }

    /// The complete profile as JSON with defaults: sizes in bytes, durations as in the file.
    pub fn to_json(&self) -> String {
        // Text, numbers and lists of them always serialize.
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The TOML text of the profile.
    pub fn text(&self) -> &str {
        &self.source.text
    }

    /// The same disk with a head of a different width and a matching name; `None` unless it is a raw shingled
    /// disk.
    ///
    /// # Errors
    /// If no such disk can be built.
    pub fn with_width_tracks(&self, width_tracks: u32) -> Result<Option<Self>, ProfileError> {
        let Layer::Swd(keys) = &self.layer else { return Ok(None) };
        if keys.width_tracks == width_tracks {
            return Ok(Some(self.clone()));
        }
        let origin = &self.source.origin;
        let mut table: toml::Table = toml::from_str(&self.source.text)
            .map_err(|error| ProfileError::new(origin, 1, error.message()))?;
        let name = format!("{}-k{width_tracks}", self.name);
        table.insert("name".to_owned(), toml::Value::String(name));
        if let Some(toml::Value::Table(layer)) = table.get_mut("layer") {
            layer.insert("width_tracks".to_owned(), toml::Value::Integer(width_tracks.into()));
        }
        Self::from_toml(&table.to_string(), origin).map(Some)
    }

    /// Tracks of a band, for a raw shingled disk that is banded.
    pub fn band_tracks(&self) -> Option<u32> {
        if let Layer::Swd(keys) = &self.layer { keys.band_tracks } else { None }
    }

    /// An error about the key at `path`, such as `geometry.taper.tracks`, in the usual form: file and line of
    /// the key, the key and its value as written, then `message`.
    pub fn error_at(&self, path: &str, message: &str) -> ProfileError {
        self.source.error_at(path, message)
    }
}

/// Parses a file and checks it against a schema; `check_first` comes before the check of its keys.
fn read<T: DeserializeOwned>(
    text: &str,
    origin: &str,
    schema: &Value,
    check_first: impl FnOnce(&DeTable<'_>, &Lines) -> Result<(), ProfileError>,
) -> Result<(T, Source), ProfileError> {
    let lines = Lines::new(text);
    let table = DeTable::parse(text).map_err(|error| syntax_error(&error, text, &lines, origin))?;
    check_first(table.get_ref(), &lines)?;
    let mut source = Source { origin: origin.to_owned(), text: text.to_owned(), ..Source::default() };
    let mut check = check::Check::new(text, &lines, schema, &mut source);
    check.file(table.get_ref());
    check.faults.into_result(origin)?;
    let read = toml::from_str(text).map_err(|error: toml::de::Error| {
        let line = error.span().map_or(1, |span| lines.at(span.start));
        ProfileError::new(origin, line, error.message())
    })?;
    Ok((read, source))
}

/// Converts a TOML error; for a duplicate key it names the key.
fn syntax_error(error: &toml::de::Error, text: &str, lines: &Lines, origin: &str) -> ProfileError {
    let span = error.span().unwrap_or(0..0);
    let line = lines.at(span.start);
    let what = error.message();
    let message = match what {
        "duplicate key" => format!("{} is given twice; keep one of them", snippet(text, span)),
        _ => format!("is not TOML: {what}"),
    };
    ProfileError::new(origin, line, &message)
}

/// Checks the version first, because the keys of another version are not faults of the file.
fn check_version(table: &DeTable<'_>, text: &str, lines: &Lines, origin: &str) -> Result<(), ProfileError> {
    let Some((key, value)) = table.iter().find(|(key, _)| key.get_ref() == "schema") else {
        return Ok(());
    };
    let DeValue::Integer(number) = value.get_ref() else { return Ok(()) };
    if number.as_str() == SCHEMA_VERSION.to_string() {
        return Ok(());
    }
    let found = snippet(text, value.span());
    let message = format!("this file has schema {found}; this skylight reads {SCHEMA_VERSION}");
    Err(ProfileError::new(origin, lines.at(key.span().start), &message))
}
