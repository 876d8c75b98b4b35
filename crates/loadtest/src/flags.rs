//! Values of flags that are also JSON: percentages, lengths of time, and windows of time.
//!
//! It knows text only; what a value means is the business of the option that holds it.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use weir_units::parse_duration;

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

/// A length of time, written `250ms`, `1h30m` or as a number of seconds.
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
