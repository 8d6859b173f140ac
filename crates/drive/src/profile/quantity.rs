//! Sizes and durations in human notation: `"37.2 GiB"`, `"4k"`, `"10.17 ms"`.
//!
//! Invariants: [`Bytes`] and [`Duration`] parse what they print back to the same value; parsing is exact
//! decimal arithmetic, so `"10.17 ms"` is 10,170,000 ns and not the nearest float; nothing here panics.
//! `KiB`, `MiB`, ... and the bare `k`, `M`, ... (as in fio) are binary; `KB`, `MB`, ... are SI.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};
use skylight_disk::Nanos;

/// Why a text is not a quantity. Each message continues a sentence that starts with `key = value`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// The text does not start with a number.
    #[error("is not {0}; write {1}")]
    NotANumber(&'static str, &'static str),
    /// A number without the required unit.
    #[error("has no unit; write {0}")]
    NoUnit(&'static str),
    /// An unknown unit.
    #[error("has the unknown unit \"{0}\"; use {1}")]
    UnknownUnit(String, &'static str),
    /// A negative size.
    #[error("is negative; a size is zero or more bytes")]
    Negative,
    /// More than 64 bits of bytes, or more digits than any quantity needs.
    #[error("has too many digits")]
    TooLong,
}

const BYTES_HOW: &str = "a number and a unit such as \"40 MiB\", \"3.9 TB\" or \"4k\", or whole bytes";
const BYTES_UNITS: &str = "B, KiB, MiB, GiB, TiB (binary), k, M, G, T (binary too) or KB, MB, GB, TB (SI)";
const DURATION_HOW: &str = "a number and a unit such as \"10.17 ms\", \"100 us\" or \"1.2 s\"";
const DURATION_UNITS: &str = "ns, us, ms or s";

/// Maximum number of digits: beyond the precision of `u64` and `f64`.
const MAX_DIGITS: usize = 20;
/// Maximum number of decimal places: even in seconds far below a nanosecond.
const MAX_PLACES: usize = 40;

/// A decimal number: `digits` x 10^-`places`.
struct Decimal {
    negative: bool,
    /// Without decimal point and leading zeros.
    digits: String,
    places: usize,
}

/// Splits `"-37.2 GiB"` into number and unit; `what` it is and `how` to write it go into the refusal.
fn split<'t>(
    text: &'t str,
    what: &'static str,
    how: &'static str,
) -> Result<(Decimal, &'t str), QuantityError> {
    let text = text.trim();
    let (negative, unsigned) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, unit) = unsigned.split_at(end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let pointless = number.contains('.') && fraction.is_empty();
    if whole.is_empty() || pointless || fraction.contains('.') {
        return Err(QuantityError::NotANumber(what, how));
    }
    let digits = format!("{whole}{fraction}").trim_start_matches('0').to_owned();
    if digits.len() > MAX_DIGITS || fraction.len() > MAX_PLACES {
        return Err(QuantityError::TooLong);
    }
    Ok((Decimal { negative, digits, places: fraction.len() }, unit.trim()))
}

/// A number of bytes.
///
/// ```
/// use skylight_drive::profile::Bytes;
/// assert_eq!("4k".parse(), Ok(Bytes(4096)));
/// assert_eq!("3.9 TB".parse(), Ok(Bytes(3_900_000_000_000)));
/// assert_eq!(Bytes(40 << 20).to_string(), "40 MiB");
/// ```
///
/// It is serialized as a plain number, which needs no parsing; profiles accept that too.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "Written")]
#[schemars(try_from = "String", inline, description = "")]
#[schemars(extend("type" = ["string", "integer"], "x-quantity" = "bytes"))]
#[schemars(extend("pattern" = r"^\s*[0-9]+(\.[0-9]+)?\s*([kKmMgGtTpP]([iI]?[bB])?|[bB])?\s*$"))]
pub struct Bytes(pub u64);

/// The units for printing, in increasing order; bare suffixes are only parsed.
const PRINTED: [(&str, u64); 9] = [
    ("B", 1),
    ("KB", 1_000),
    ("KiB", 1 << 10),
    ("MB", 1_000_000),
    ("MiB", 1 << 20),
    ("GB", 1_000_000_000),
    ("GiB", 1 << 30),
    ("TB", 1_000_000_000_000),
    ("TiB", 1 << 40),
];

/// Maximum number of decimal places in a printed size.
const PRINTED_PLACES: u32 = 2;
/// Maximum number of characters in a printed number.
const PRINTED_CHARS: usize = 6;

impl Bytes {
    /// The number of bytes.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The largest multiple of `unit` up to this size.
    pub const fn floor_to(self, unit: Self) -> Self {
        Self(self.0 - self.0 % unit.0)
    }

    /// Whether `text` is a round figure, such as `"3.9 TB"` or `"37.2 GiB"`: it has a decimal point or an SI
    /// unit. A round figure may be rounded down to whole blocks; `"40 MiB"` is exact.
    pub fn is_round_figure(text: &str) -> bool {
        let lower = text.trim().to_ascii_lowercase();
        let si = lower.ends_with('b') && !lower.ends_with("ib");
        text.contains('.') || (si && lower.trim_end_matches('b').ends_with(char::is_alphabetic))
    }

    fn unit(name: &str) -> Option<u64> {
        let lower = name.to_ascii_lowercase();
        if lower.is_empty() || lower == "b" {
            return Some(1);
        }
        let power = "kmgtp".find(lower.get(..1)?)? as u32 + 1;
        match lower.get(1..)? {
            "" | "ib" => Some(1024_u64.pow(power)),
            "b" => Some(1000_u64.pow(power)),
            _ => None,
        }
    }
}

impl FromStr for Bytes {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = split(text, "a size", BYTES_HOW)?;
        if number.negative {
            return Err(QuantityError::Negative);
        }
        let scale =
            Self::unit(unit).ok_or_else(|| QuantityError::UnknownUnit(unit.to_owned(), BYTES_UNITS))?;
        if number.digits.is_empty() {
            return Ok(Self(0));
        }
        // 20 digits times 2^50 stay below 2^117, and 10^38 is the largest power of ten in 128 bits.
        let digits: u128 = number.digits.parse().map_err(|_| QuantityError::TooLong)?;
        let divisor = 10_u128.checked_pow(number.places as u32).ok_or(QuantityError::TooLong)?;
        let bytes = digits * u128::from(scale) / divisor;
        u64::try_from(bytes).map(Self).map_err(|_| QuantityError::TooLong)
    }
}

impl fmt::Display for Bytes {
    /// Prints the size exactly and as short as possible; in bytes if no unit is short.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let short = PRINTED
            .iter()
            .rev()
            .filter(|(_, size)| self.0 >= *size)
            .filter_map(|(unit, size)| Some((exact(self.0, *size)?, unit)))
            .filter(|(number, _)| number.len() <= PRINTED_CHARS)
            .min_by_key(|(number, unit)| number.len() + unit.len());
        match short {
            Some((number, unit)) => write!(f, "{number} {unit}"),
            None => write!(f, "{} B", self.0),
        }
    }
}

/// `value / size` with the fewest decimal places that are exact; `None` if two are not enough.
fn exact(value: u64, size: u64) -> Option<String> {
    let (value, size) = (u128::from(value), u128::from(size));
    let places = (0..=PRINTED_PLACES).find(|p| (value * 10_u128.pow(*p)).is_multiple_of(size))?;
    let scaled = value * 10_u128.pow(places) / size;
    let (whole, part) = (scaled / 10_u128.pow(places), scaled % 10_u128.pow(places));
    Some(match places as usize {
        0 => whole.to_string(),
        width => format!("{whole}.{part:0width$}"),
    })
}

/// A size as a profile may have it.
#[derive(Deserialize)]
#[serde(untagged)]
enum Written {
    Number(i64),
    Text(String),
}

impl TryFrom<Written> for Bytes {
    type Error = QuantityError;

    fn try_from(written: Written) -> Result<Self, QuantityError> {
        match written {
            Written::Number(bytes) => u64::try_from(bytes).map(Self).map_err(|_| QuantityError::Negative),
            Written::Text(text) => text.parse(),
        }
    }
}

/// A duration in nanoseconds. It keeps fractions, because rotations are not whole nanoseconds.
///
/// ```
/// use skylight_drive::profile::Duration;
/// assert_eq!("10.17 ms".parse(), Ok(Duration::from_ns(10_170_000.0)));
/// assert_eq!(Duration::from_ns(250.0).to_string(), "250 ns");
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Deserialize, JsonSchema)]
#[serde(try_from = "String")]
#[schemars(inline, description = "", extend("x-quantity" = "duration"))]
#[schemars(extend("pattern" = r"^\s*[-+]?[0-9]+(\.[0-9]+)?\s*(ns|us|µs|μs|ms|s)\s*$"))]
pub struct Duration(f64);

/// Units with their powers of ten in nanoseconds, in decreasing order.
const DURATION_POWERS: [(&str, i32); 4] = [("s", 9), ("ms", 6), ("us", 3), ("ns", 0)];

impl Duration {
    /// Zero.
    pub const ZERO: Self = Self(0.0);

    /// The duration of `ns` nanoseconds. Non-finite values become zero, so that every value can be printed.
    pub const fn from_ns(ns: f64) -> Self {
        if ns.is_finite() { Self(ns) } else { Self::ZERO }
    }

    /// The duration in nanoseconds, including its fraction.
    pub const fn ns(self) -> f64 {
        self.0
    }

    /// The duration on the model's clock, rounded to a whole nanosecond; negative values become zero.
    pub fn nanos(self) -> Nanos {
        Nanos(self.0.round() as u64)
    }
}

impl FromStr for Duration {
    type Err = QuantityError;

    fn from_str(text: &str) -> Result<Self, QuantityError> {
        let (number, unit) = split(text, "a duration", DURATION_HOW)?;
        if unit.is_empty() {
            return Err(QuantityError::NoUnit(DURATION_HOW));
        }
        let power = match unit {
            "us" | "µs" | "μs" => 3,
            _ => DURATION_POWERS
                .iter()
                .find(|(name, _)| *name == unit)
                .map(|(_, power)| *power)
                .ok_or_else(|| QuantityError::UnknownUnit(unit.to_owned(), DURATION_UNITS))?,
        };
        if number.digits.is_empty() {
            return Ok(Self::ZERO);
        }
        // A single, correctly rounded conversion from decimal to binary, instead of a rounded product.
        let sign = if number.negative { "-" } else { "" };
        let decimal = format!("{sign}{}e{}", number.digits, power - number.places as i32);
        decimal.parse().map(Self::from_ns).map_err(|_| QuantityError::TooLong)
    }
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0.0 {
            return f.write_str("0 ms");
        }
        // `{:e}` gives the shortest digits that identify this float: "1.017e7". Moving the point keeps them.
        let text = format!("{:e}", self.0.abs());
        let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let (unit, power) =
            DURATION_POWERS.iter().find(|(_, power)| exponent >= *power).unwrap_or(&("ns", 0));
        let sign = if self.0 < 0.0 { "-" } else { "" };
        write!(f, "{sign}{} {unit}", shift(&mantissa.replace('.', ""), exponent - power))
    }
}

/// The decimal number with these digits whose first digit counts 10^`exponent`.
fn shift(digits: &str, exponent: i32) -> String {
    if exponent < 0 {
        return format!("0.{}{digits}", "0".repeat(exponent.unsigned_abs() as usize - 1));
    }
    let whole = exponent as usize + 1;
    match digits.split_at_checked(whole) {
        Some((before, after)) if !after.is_empty() => format!("{before}.{after}"),
        _ => format!("{digits:0<whole$}"),
    }
}

impl Serialize for Duration {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl TryFrom<String> for Duration {
    type Error = QuantityError;

    fn try_from(text: String) -> Result<Self, QuantityError> {
        text.parse()
    }
}
