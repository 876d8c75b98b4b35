//! Values as people type them: durations, byte counts, percentages, and ranges of time.
//!
//! It knows text only; what a value means is the business of the option that holds it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Parses `250ms`, `1.5s`, `2m`, `1h`, or a plain number of seconds.
///
/// # Errors
/// Says what is wrong with the text and what would be valid.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = split_unit(text);
    let scale = match unit {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("cannot read duration \"{text}\": use a number with ms, s, m or h, such as 250ms")),
    };
    let seconds: f64 = number.parse().map_err(|_| format!("cannot read duration \"{text}\": use 250ms, 1s or 2m"))?;
    Duration::try_from_secs_f64(seconds * scale).map_err(|err| format!("cannot read duration \"{text}\": {err}"))
}

/// Parses a duration longer than nothing.
///
/// # Errors
/// As [`parse_duration`], and for zero.
pub fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => Err(format!("cannot use duration \"{text}\": it must be longer than nothing")),
        duration => Ok(duration),
    }
}

/// Parses a byte count: a plain number, or one with KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024).
///
/// # Errors
/// Says what is wrong with the text and what would be valid.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (number, unit) = split_unit(text);
    let scale: u64 = match unit {
        "" | "B" => 1,
        "KB" => 1000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" | "Ki" => 1 << 10,
        "MiB" | "Mi" => 1 << 20,
        "GiB" | "Gi" => 1 << 30,
        _ => return Err(format!("cannot read size \"{text}\": use bytes, or a number with KiB, MiB or GiB")),
    };
    let value: u64 = number.parse().map_err(|_| format!("cannot read size \"{text}\": use 4194304, 4MiB or 1GiB"))?;
    value.checked_mul(scale).ok_or_else(|| format!("cannot read size \"{text}\": larger than 2^64 bytes"))
}

fn split_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    (&text[..end], text[end..].trim())
}

/// A share of requests, 0 to 100.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Percent(f64);

impl Percent {
    /// The share as a fraction, 0 to 1.
    pub fn fraction(self) -> f64 {
        self.0 / 100.0
    }
}

impl FromStr for Percent {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let value: f64 = text
            .trim()
            .trim_end_matches('%')
            .parse()
            .map_err(|_| format!("cannot read percentage \"{text}\": use a number from 0 to 100"))?;
        if (0.0..=100.0).contains(&value) {
            Ok(Self(value))
        } else {
            Err(format!("cannot use percentage {value}: it must lie between 0 and 100"))
        }
    }
}

impl fmt::Display for Percent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// A length of time, written `250ms` or as a number of seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Interval(pub Duration);

impl FromStr for Interval {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        parse_duration(text).map(Self)
    }
}

impl fmt::Display for Interval {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s", self.0.as_secs_f64())
    }
}

/// A half-open window of time, written `START..END`, such as `10s..25s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// When it begins.
    pub start: Duration,
    /// When it is over.
    pub end: Duration,
}

impl Window {
    /// Whether `at` lies inside.
    pub fn contains(&self, at: Duration) -> bool {
        self.start <= at && at < self.end
    }
}

impl FromStr for Window {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (start, end) = text
            .split_once("..")
            .ok_or_else(|| format!("cannot read window \"{text}\": use START..END, as 10s..25s"))?;
        let window = Self { start: parse_duration(start)?, end: parse_duration(end)? };
        if window.start < window.end {
            Ok(window)
        } else {
            Err(format!("cannot use window \"{text}\": it must end after it starts"))
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}s..{}s", self.start.as_secs_f64(), self.end.as_secs_f64())
    }
}

/// JSON of a value that is also a flag: a string as on the command line, or a bare number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Typed {
    Number(f64),
    Text(String),
}

/// Reads a value the way its flag does, from a JSON string or number.
pub(crate) fn from_json<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: FromStr<Err = String>,
{
    let text = match Typed::deserialize(deserializer)? {
        Typed::Number(number) => number.to_string(),
        Typed::Text(text) => text,
    };
    text.parse().map_err(serde::de::Error::custom)
}

impl<'de> Deserialize<'de> for Percent {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_json(deserializer)
    }
}

impl Serialize for Percent {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Interval {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_json(deserializer)
    }
}

impl Serialize for Interval {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Window {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        from_json(deserializer)
    }
}

impl Serialize for Window {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_and_sizes_read_as_people_write_them() {
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        assert_eq!(parse_duration("0s"), Ok(Duration::ZERO));
        assert!(parse_positive_duration("0s").unwrap_err().contains("longer than nothing"));
        assert_eq!(parse_positive_duration("1ms"), Ok(Duration::from_millis(1)));
        assert_eq!(parse_duration("1.5"), Ok(Duration::from_millis(1500)));
        assert_eq!(parse_duration("2m"), Ok(Duration::from_secs(120)));
        assert!(parse_duration("soon").is_err());
        assert!(parse_duration("1e400h").is_err());
        assert_eq!(parse_bytes("4MiB"), Ok(4 << 20));
        assert_eq!(parse_bytes("1024"), Ok(1024));
        assert!(parse_bytes("99999999999GiB").is_err());
    }

    #[test]
    fn percentages_and_windows_refuse_what_makes_no_sense() {
        assert_eq!("70".parse::<Percent>().unwrap().fraction(), 0.7);
        assert!("101".parse::<Percent>().is_err());
        let window: Window = "10s..25s".parse().unwrap();
        assert!(window.contains(Duration::from_secs(10)));
        assert!(!window.contains(Duration::from_secs(25)));
        assert!("5s..5s".parse::<Window>().is_err());
        assert!("5s".parse::<Window>().is_err());
    }
}
