//! Tables for people, and what stands in them.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::termios::{Winsize, tcgetwinsize};

/// Prints an empty line and rows in columns: the first to the left, the others to the right.
pub(crate) fn table<const N: usize>(
    out: &mut impl Write,
    head: [&str; N],
    rows: impl Iterator<Item = [String; N]>,
) -> io::Result<()> {
    let rows: Vec<[String; N]> = std::iter::once(head.map(str::to_uppercase)).chain(rows).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; N] = std::array::from_fn(width);
    writeln!(out)?;
    for row in &rows {
        write!(out, "{:<1$}", row[0], widths[0])?;
        for (cell, width) in row.iter().zip(widths).skip(1) {
            write!(out, "  {cell:>width$}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// A text of others in one line, without what a terminal obeys or is led astray by.
pub(crate) fn legible(text: &str) -> String {
    text.chars().map(|char| if is_obeyed(char) { ' ' } else { char }).collect()
}

/// How wide the terminal is that standard output is; `None` if it is none.
pub(crate) fn columns_of_terminal() -> Option<usize> {
    size_of_terminal().map(|size| usize::from(size.ws_col)).filter(|columns| *columns > 0)
}

/// How many lines it has; the same.
pub(crate) fn rows_of_terminal() -> Option<usize> {
    size_of_terminal().map(|size| usize::from(size.ws_row)).filter(|rows| *rows > 0)
}

fn size_of_terminal() -> Option<Winsize> {
    io::stdout().is_terminal().then(|| tcgetwinsize(io::stdout()).ok()).flatten()
}

/// The line, or as much of it as has room.
pub(crate) fn cut(line: String, columns: Option<usize>) -> String {
    let Some(columns) = columns.filter(|columns| line.chars().nth(*columns).is_some()) else { return line };
    line.chars().take(columns.saturating_sub(1)).chain(['…']).collect()
}

/// JSON that a terminal can be shown: the same document, with such characters escaped.
pub(crate) fn legible_json(document: &str) -> String {
    let mut shown = String::with_capacity(document.len());
    for char in document.chars() {
        if is_obeyed(char) {
            // All of them have four digits.
            shown.push_str(&format!("\\u{:04x}", u32::from(char)));
        } else {
            shown.push(char);
        }
    }
    shown
}

/// Control characters, and those that change the direction of writing.
fn is_obeyed(char: char) -> bool {
    char.is_control() || matches!(char, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// A number of things.
pub(crate) fn count(number: impl TryInto<u64>, noun: &str) -> String {
    let number = number.try_into().unwrap_or(u64::MAX);
    match (number, noun.strip_suffix('y')) {
        (1, _) => format!("1 {noun}"),
        (_, Some(stem)) => format!("{number} {stem}ies"),
        (_, None) => format!("{number} {noun}s"),
    }
}

/// A size as people read it.
pub(crate) fn bytes(bytes: u64) -> String {
    let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
    match units.iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / *unit as f64),
        None => format!("{bytes} B"),
    }
}

/// How many a second. Few are not none.
pub(crate) fn rate(per_second: f64) -> String {
    match per_second {
        many if many >= 10.0 => format!("{many:.0}"),
        some if some >= 0.1 => format!("{some:.1}"),
        few => format!("{few:.3}"),
    }
}

/// How long ago a time was, in the two largest units.
pub(crate) fn age(written_ms: Option<u64>, now_ms: u64) -> String {
    written_ms.map_or_else(|| "-".to_owned(), |written_ms| time(now_ms.saturating_sub(written_ms) / 1000))
}

/// Whole seconds of what a process said. What is no time is none.
pub(crate) fn whole_seconds(seconds: f64) -> u64 {
    Duration::try_from_secs_f64(seconds).unwrap_or_default().as_secs()
}

/// A number of seconds, in the two largest units.
pub(crate) fn time(seconds: u64) -> String {
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{minutes:02}m"),
        _ => format!("{days}d{hours:02}h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units() {
        let ago = |seconds: u64| age(Some(1_000_000), 1_000_999 + seconds * 1000);
        assert_eq!([ago(0), ago(59), ago(60), ago(3_599)], ["0s", "59s", "1m00s", "59m59s"]);
        assert_eq!([ago(3_600), ago(86_399), ago(86_400), ago(900_000)], ["1h00m", "23h59m", "1d00h", "10d10h"]);
        assert_eq!(age(Some(5), 4), "0s", "a clock that went back");
        assert_eq!(age(None, 4), "-");
    }

    #[test]
    fn what_a_terminal_obeys_is_not_shown() {
        let text = "a\u{1b}[1m\nb\u{9b}c\u{202e}d";
        assert_eq!(legible(text), "a [1m b c d");
        let document = serde_json::json!({"a": text}).to_string();
        let shown = legible_json(&document);
        assert!(!shown.chars().any(is_obeyed), "{shown}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["a"], text);
    }

    #[test]
    fn sizes_and_numbers() {
        assert_eq!([rate(12_345.6), rate(9.96), rate(0.2), rate(0.04)], ["12346", "10.0", "0.2", "0.040"]);
        assert_eq!([bytes(0), bytes(1023), bytes(1024), bytes(32 << 20)], ["0 B", "1023 B", "1.0 KiB", "32.0 MiB"]);
        assert_eq!([bytes(3 << 29), bytes(u64::MAX)], ["1.5 GiB", "16777216.0 TiB"]);
        assert_eq!(
            [count(1u64, "entry"), count(0u64, "entry"), count(2u64, "byte")],
            ["1 entry", "0 entries", "2 bytes"]
        );
    }
}
