//! The read modes of a drive whose sectors can be overwritten, by the names of the command line.
//!
//! Source: Pitchumani, "Shingled Write Disk Emulator" (UCSC-SSRC-12-05), section 3.2.3.

use std::str::FromStr;

use skylight_layer::capabilities::overwriting::{ReadData, ReadMode};

/// What a read gives for an overwritten sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadModeName {
    /// Data-centric: the data that overwrote it.
    Data,
    /// Performance-centric: a pattern.
    Performance,
    /// Development-centric: an error; the read is made as in [`ReadModeName::Data`].
    Development,
    /// The same, made as in [`ReadModeName::Performance`].
    DevelopmentPerformance,
}

impl ReadModeName {
    /// Every mode.
    pub const ALL: [Self; 4] =
        [Self::Data, Self::Performance, Self::Development, Self::DevelopmentPerformance];

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Data => "data",
            Self::Performance => "performance",
            Self::Development => "development",
            Self::DevelopmentPerformance => "development-performance",
        }
    }

    /// What the layer calls it.
    pub fn mode(self) -> ReadMode {
        let (data, fail) = match self {
            Self::Data => (ReadData::Overwriting, false),
            Self::Performance => (ReadData::Pattern, false),
            Self::Development => (ReadData::Overwriting, true),
            Self::DevelopmentPerformance => (ReadData::Pattern, true),
        };
        ReadMode { data, fail }
    }

    /// The name of what a layer has.
    pub fn of(mode: ReadMode) -> Self {
        match (mode.data, mode.fail) {
            (ReadData::Overwriting, false) => Self::Data,
            (ReadData::Pattern, false) => Self::Performance,
            (ReadData::Overwriting, true) => Self::Development,
            (ReadData::Pattern, true) => Self::DevelopmentPerformance,
        }
    }
}

impl FromStr for ReadModeName {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|mode| mode.name() == name);
        found.ok_or_else(|| format!("{name}: not a read mode; use one of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_names_both_ways() {
        for mode in ReadModeName::ALL {
            assert_eq!(mode.name().parse(), Ok(mode));
            assert_eq!(ReadModeName::of(mode.mode()), mode);
        }
        assert!("errors".parse::<ReadModeName>().is_err());
    }
}
