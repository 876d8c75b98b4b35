//! Sizes and durations of the command line, and what is said when a text is none.

use std::time::Duration;

use crate::quantity::{self, Wrong};

/// No setting makes sense beyond this, and sums of times must not overflow.
const LONGEST: Duration = Duration::from_secs(365 * 24 * 3600);

/// Reads a size such as `512MiB`, `1.5Gi` or `1000000`, in bytes.
///
/// # Errors
/// Says what is wrong with the text and what would be right.
pub fn parse_size(text: &str) -> Result<u64, String> {
    quantity::size(text).map_err(|wrong| match wrong {
        Wrong::Form => format!("{text:?} is not a size; write for example 512MiB, 1.5GiB or 1000000"),
        Wrong::Large => format!("cannot use size {text:?}: it is larger than 2^64 bytes; write for example 512MiB"),
    })
}

/// Reads a size above nothing.
///
/// # Errors
/// As [`parse_size`], and for zero.
pub fn parse_positive_size(text: &str) -> Result<u64, String> {
    match parse_size(text)? {
        0 => Err(format!("cannot use size {text:?}: it must be larger than nothing; write for example 512MiB")),
        bytes => Ok(bytes),
    }
}

/// Reads a duration such as `250ms`, `20s` or `1h30m`. A plain number is seconds.
///
/// # Errors
/// Says what is wrong with the text and what would be right.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let is_plain = text.trim().chars().all(|c| c.is_ascii_digit() || c == '.');
    let read = if is_plain { quantity::duration(&format!("{}s", text.trim())) } else { quantity::duration(text) };
    match read {
        Ok(duration) if duration <= LONGEST => Ok(duration),
        Ok(_) | Err(Wrong::Large) => Err(format!("cannot use duration {text:?}: it is longer than a year (365d)")),
        Err(Wrong::Form) => Err(format!("{text:?} is not a duration; write for example 250ms, 20s or 1h30m")),
    }
}

/// Reads a duration longer than nothing.
///
/// # Errors
/// As [`parse_duration`], and for zero.
pub fn parse_positive_duration(text: &str) -> Result<Duration, String> {
    match parse_duration(text)? {
        Duration::ZERO => {
            Err(format!("cannot use duration {text:?}: it must be longer than nothing; write for example 250ms"))
        }
        duration => Ok(duration),
    }
}

/// A size as people type it: in the largest unit that leaves no fraction.
pub fn typed_size(bytes: u64) -> String {
    let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1_000_000, "MB"), (1_000, "KB")];
    match units.iter().find(|(unit, _)| bytes > 0 && bytes.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", bytes / unit),
        None => bytes.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("512MiB", 512 << 20),
            ("1Gi", 1 << 30),
            ("2 kb", 2_000),
            ("1.5GiB", 3 << 29),
            ("1.5KiB", 1536),
            ("77", 77),
            ("0", 0),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
        }
        for wrong in ["", "MiB", "-1", "1TiBs"] {
            let said = parse_size(wrong).unwrap_err();
            assert_eq!(said, format!("{wrong:?} is not a size; write for example 512MiB, 1.5GiB or 1000000"));
        }
        for large in ["99999999999999999999", "99999999999GiB"] {
            assert!(parse_size(large).unwrap_err().contains("larger than 2^64 bytes"), "{large:?}");
        }
    }

    #[test]
    fn a_size_is_said_as_it_was_typed() {
        for text in ["1MiB", "3GiB", "1536MiB", "1KiB", "5MB", "1500KB", "1000001", "0"] {
            assert_eq!(typed_size(parse_size(text).unwrap()), text);
        }
        let typed = [1 << 40, 1_500_000_000, 2 << 10].map(typed_size);
        assert_eq!(typed, ["1024GiB", "1500MB", "2KiB"]);
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("250ms", 250),
            ("0s", 0),
            ("1.5m", 90_000),
            ("1h30m", 5_400_000),
            ("1d", 86_400_000),
            ("365d", 31_536_000_000),
            ("60", 60_000),
            (" 1.5 ", 1_500),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
        for wrong in ["", "s", "soon", "-1s", "1e3s", "1h30", "1.2.3", "1 h"] {
            let said = parse_duration(wrong).unwrap_err();
            assert_eq!(said, format!("{wrong:?} is not a duration; write for example 250ms, 20s or 1h30m"));
        }
        for long in ["9000h", "365d1ns", "999999999d", "99999999999"] {
            assert!(parse_duration(long).unwrap_err().contains("longer than a year"), "{long:?}");
        }
    }

    #[test]
    fn nothing_is_refused_where_something_is_needed() {
        for text in ["0", "0.0Gi"] {
            assert!(parse_positive_size(text).unwrap_err().contains("larger than nothing"), "{text:?}");
        }
        for text in ["0", "0s"] {
            assert!(parse_positive_duration(text).unwrap_err().contains("longer than nothing"), "{text:?}");
        }
        assert_eq!(parse_positive_size("1"), Ok(1));
        assert_eq!(parse_positive_duration("1ms"), Ok(Duration::from_millis(1)));
    }
}
