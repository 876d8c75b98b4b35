//! Times as text.

use jiff::Timestamp;
use weir_plan::DateFormat;

/// A time to the nanosecond: `2026-11-23T12:00:00.123456789Z`.
const LENGTH: usize = 30;
/// Where the digits of the fraction begin.
const FRACTION: usize = 20;

/// Writes times. Most records are of the same second as the one before.
#[derive(Debug)]
pub(crate) struct Clock {
    second: Option<u64>,
    unix_nanos: Option<u64>,
    text: [u8; LENGTH],
    cut: [u8; LENGTH],
    number: String,
}

impl Clock {
    pub(crate) fn new() -> Self {
        let text = *b"1970-01-01T00:00:00.000000000Z";
        Self { second: None, unix_nanos: None, text, cut: text, number: String::new() }
    }

    /// With all nine digits of its fraction.
    pub(crate) fn nanos(&mut self, unix_nanos: u64) -> &str {
        self.set(unix_nanos);
        as_text(&self.text)
    }

    /// As a date; and whether it is a text, and not a number.
    pub(crate) fn date(&mut self, unix_nanos: u64, format: DateFormat) -> (&str, bool) {
        const MICROS: usize = FRACTION + 6;
        if let DateFormat::Iso8601 | DateFormat::JavaSql = format {
            self.set(unix_nanos);
            self.cut = self.text;
            if format == DateFormat::Iso8601 {
                self.cut[MICROS] = b'Z';
                return (as_text(&self.cut[..=MICROS]), true);
            }
            self.cut[10] = b' ';
            return (as_text(&self.cut[..MICROS]), true);
        }
        self.number = match format {
            DateFormat::Double => format!("{}.{:06}", unix_nanos / 1_000_000_000, unix_nanos % 1_000_000_000 / 1000),
            DateFormat::EpochMillis => (unix_nanos / 1_000_000).to_string(),
            _ => (unix_nanos / 1_000_000_000).to_string(),
        };
        (&self.number, false)
    }

    fn set(&mut self, unix_nanos: u64) {
        if self.unix_nanos.replace(unix_nanos) == Some(unix_nanos) {
            return;
        }
        let (second, mut fraction) = (unix_nanos / 1_000_000_000, unix_nanos % 1_000_000_000);
        if self.second.replace(second) != Some(second) {
            let date = i64::try_from(second).ok().and_then(|second| Timestamp::from_second(second).ok());
            let date = date.unwrap_or_default().to_string();
            let seconds = date.as_bytes().get(..FRACTION - 1).unwrap_or(b"1970-01-01T00:00:00");
            self.text[..FRACTION - 1].copy_from_slice(seconds);
        }
        for digit in self.text[FRACTION..LENGTH - 1].iter_mut().rev() {
            *digit = b'0' + u8::try_from(fraction % 10).unwrap_or_default();
            fraction /= 10;
        }
    }
}

fn as_text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap_or_default()
}
