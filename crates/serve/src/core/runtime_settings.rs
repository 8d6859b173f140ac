//! What can be changed while a drive is served.
//!
//! Names and values are those of the options of `skylight serve`. Text becomes a [`Setting`] once, at the control socket;
//! a backend or filter takes those that are its own and hands on the others.

use std::time::Duration;

use super::faults::Faults;
use super::read_mode_name::ReadModeName;
use super::zone_settings::ZoneChange;

/// The longest delay that can be set, ms: an hour. A longer one is a slip of the keyboard.
const MAX_DELAY_MS: f64 = 3_600_000.0;

/// A setting with its new value.
#[derive(Clone, Debug, PartialEq)]
pub enum Setting {
    /// What reads of overwritten sectors give.
    ReadMode(ReadModeName),
    /// Added latency of reads.
    ReadDelay(Duration),
    /// Added latency of all other commands.
    WriteDelay(Duration),
    /// Which commands fail; none without faults.
    Faults(Option<Faults>),
    /// What becomes of a zone.
    Zone(ZoneChange),
}

fn delay(value: &str) -> Result<Duration, String> {
    match value.parse() {
        Ok(ms) if (0.0..=MAX_DELAY_MS).contains(&ms) => Ok(Duration::from_secs_f64(ms / 1000.0)),
        _ => Err(format!("{value}: not a delay; use milliseconds from 0 to {MAX_DELAY_MS}")),
    }
}

impl Setting {
    /// The names of all settings.
    pub const NAMES: [&str; 5] = ["read-mode", "delay-read", "delay-write", "fail", "zone"];

    /// Reads a setting.
    ///
    /// # Errors
    /// One line, when there is no such setting or value.
    pub fn parse(name: &str, value: &str) -> Result<Self, String> {
        Ok(match name {
            "read-mode" => Self::ReadMode(value.parse()?),
            "delay-read" => Self::ReadDelay(delay(value)?),
            "delay-write" => Self::WriteDelay(delay(value)?),
            "fail" if value == "off" => Self::Faults(None),
            "fail" => Self::Faults(Some(value.parse()?)),
            "zone" => Self::Zone(value.parse()?),
            _ => return Err(format!("{name}: no such setting; use one of {}", Self::NAMES.join(", "))),
        })
    }

    /// The error of a drive that has nothing of the kind.
    pub fn unavailable(&self) -> String {
        match self {
            Self::ReadMode(_) => "read-mode: only a raw shingled disk has one; serve one such as swd-160gb",
            Self::ReadDelay(_) | Self::WriteDelay(_) => {
                "delay-read, delay-write: this server was started without delays; start it with --delay-read 0"
            }
            Self::Zone(_) => "zone: this drive has no zones; serve a host-managed or host-aware one",
            Self::Faults(_) => "fail: this server was started without faults; start it with --fail rate=0",
        }
        .to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_and_wrong_ones_named() {
        assert_eq!(Setting::parse("delay-read", "1.5"), Ok(Setting::ReadDelay(Duration::from_micros(1500))));
        assert_eq!(
            Setting::parse("read-mode", "development"),
            Ok(Setting::ReadMode(ReadModeName::Development))
        );
        assert_eq!(Setting::parse("fail", "off"), Ok(Setting::Faults(None)));
        let offline = Setting::parse("zone", "5:offline").map(|setting| match setting {
            Setting::Zone(change) => change.to_string(),
            _ => String::new(),
        });
        assert_eq!(offline, Ok("zone 5 offline".to_owned()));
        for (name, value) in [
            ("read-mode", "errors"),
            ("delay-read", "-1"),
            ("delay-write", "NaN"),
            ("delay-write", "1e30"),
            ("fail", "rate=2"),
            ("zone", "5"),
            ("zone", "-1:offline"),
            ("zone", "5:gone"),
            ("nothing", "1"),
        ] {
            let error = Setting::parse(name, value).expect_err(value);
            assert!(!error.contains('\n') && error.contains("use"), "{error}");
        }
    }
}
