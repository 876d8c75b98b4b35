//! What people are told, in the log, on pages and in statuses: in which words, and how often.
//!
//! Words are why something failed, what a backend says, what a client's data holds, and when something was. How much is
//! kept of a text is for those to say who keep it. What looks like a secret in it is hidden by [`without_secrets`], and
//! in words of others, who may quote data of a person, that as well by [`without_private`]. And whoever reads a log
//! wants to know what is wrong, and how much it is about; not the same line a thousand times. A condition that lasts
//! has a line now and then: [`Seldom`]. Of many things that are in the same trouble so many are named: [`Warnings`].
//! What comes and goes has a few lines: [`Unsteady`]. What comes again with each list has a line when it is new:
//! [`Recurring`].
//!
//! This crate must not know what is told, by whom, nor any other crate of this workspace, and reads no clock.
//!
//! Invariants:
//! - **LEGIBLE-1** A line has no control characters: nothing in it looks like another line of the log.
//! - **LEGIBLE-2** No cause is said twice.
//! - **LEGIBLE-3** Times of one precision have one length, so that their order is that of their texts.
//! - **LEGIBLE-4** However often something comes, there is no more than one line of it in half a minute ([`Seldom`]), or
//!   fifty in a period of a minute for each reason ([`Warnings`]), or four changes in a period of the caller's
//!   ([`Unsteady`], but for what is worse), or one in half a day as long as each list has it ([`Recurring`]).
//! - **LEGIBLE-5** What had no line is counted, and the count is handed out once; but not what comes again with a list.

#![forbid(unsafe_code)]

mod recurring;
mod redaction;
mod seldom;
mod unsteady;
mod warnings;

use std::error::Error;
use std::fmt;
use std::iter::successors;

use jiff::Timestamp;

pub use recurring::Recurring;
pub use redaction::{REDACTED, is_name_of_secret, without_private, without_secrets};
pub use seldom::Seldom;
pub use unsteady::Unsteady;
pub use warnings::{LeftOut, Warnings};

/// So many names are in a line of the log.
const MOST_NAMED: usize = 10;

/// The beginning of a text, in one line and without what a terminal obeys.
pub fn line(text: &str, most_chars: usize) -> String {
    text.chars().take(most_chars).map(|char| if char.is_control() { ' ' } else { char }).collect()
}

/// The first few of many names, and how many more there are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names {
    /// The first.
    pub named: Vec<String>,
    /// How many follow them.
    pub more: u64,
}

impl Names {
    /// So many of them at most.
    pub fn first(most: usize, names: impl IntoIterator<Item = impl fmt::Display>) -> Self {
        let mut names = names.into_iter();
        let named = names.by_ref().take(most).map(|name| name.to_string()).collect();
        Self { named, more: names.count() as u64 }
    }
}

impl fmt::Display for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.named.join(", "))?;
        match self.more {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

/// The first few of many names, for a line of the log.
pub fn names(names: impl IntoIterator<Item = impl fmt::Display>) -> String {
    Names::first(MOST_NAMED, names).to_string()
}

/// An error and its causes, of any length: for errors of which others can cause little. Some errors repeat their cause
/// in their own text, for programs that show nothing else; it is not added to that.
pub fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    for cause in successors(error.source(), |&cause| cause.source()) {
        let cause = cause.to_string();
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

/// The beginning of the same, in one line: for errors that quote others, or that a network can cause.
pub fn line_with_causes(error: &dyn Error, most_chars: usize) -> String {
    line(&with_causes(error), most_chars)
}

/// A time in seconds since the Unix epoch as people and programs read it: RFC 3339, in UTC. Empty after the year 9999.
pub fn rfc3339_seconds(unix_seconds: u64) -> String {
    let time = i64::try_from(unix_seconds).ok().and_then(|seconds| Timestamp::from_second(seconds).ok());
    time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()).unwrap_or_default()
}

/// The same of milliseconds since the Unix epoch, with three digits of the second.
pub fn rfc3339_millis(unix_ms: u64) -> String {
    let time = i64::try_from(unix_ms).ok().and_then(|ms| Timestamp::from_millisecond(ms).ok());
    time.map(|time| time.strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_are_a_few_and_a_number() {
        assert_eq!(names(0..2), "0, 1");
        assert!(names(0..12).ends_with(", 9 and 2 more"), "{}", names(0..12));
        assert_eq!(Names::first(1, 3..6), Names { named: vec!["3".to_owned()], more: 2 });
    }

    /// What it says, and its cause.
    #[derive(Debug)]
    struct Failed(String, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(&self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|cause| cause as _)
        }
    }

    /// The first is the error, and each has the next as its cause.
    fn failed(texts: &[&str]) -> Failed {
        let cause = texts[1..].first().map(|_| Box::new(failed(&texts[1..])));
        Failed(texts[0].to_owned(), cause)
    }

    #[test]
    fn control_characters_become_spaces() {
        assert_eq!(line("no\r\nlevel=error \x1b[31mgré\u{9b}1m\0\x7f", 100), "no  level=error  [31mgré 1m  ");
        assert_eq!(line("déjà vu", 4), "déjà");
    }

    #[test]
    fn every_cause_is_said_once() {
        let cases: [(&[&str], &str); 5] = [
            (&["stopped"], "stopped"),
            (&["stopped", "cannot open", "no disk"], "stopped: cannot open: no disk"),
            (&["cannot open: no disk; free some", "no disk"], "cannot open: no disk; free some"),
            (&["stopped", "cannot open: no disk", "no disk"], "stopped: cannot open: no disk"),
            // One that says nothing new does not hide its own cause.
            (&["stopped", "stopped", "", "no disk"], "stopped: no disk"),
        ];
        for (texts, expected) in cases {
            assert_eq!(with_causes(&failed(texts)), expected);
        }
    }

    #[test]
    fn what_others_cause_is_one_line_and_short() {
        let long = "x".repeat(100_000);
        let error = failed(&["no answer", "HTTP/1.1 200\r\n", &long]);
        assert_eq!(line_with_causes(&error, 30), format!("no answer: HTTP/1.1 200  : {}", "x".repeat(3)));
    }
    #[test]
    fn times_are_in_utc() {
        assert_eq!(rfc3339_seconds(0), "1970-01-01T00:00:00Z");
        assert_eq!(rfc3339_seconds(1_790_000_050), "2026-09-21T14:14:10Z");
        assert_eq!(rfc3339_millis(1_790_000_050_000), "2026-09-21T14:14:10.000Z");
        assert_eq!(rfc3339_millis(1_790_000_050_020), "2026-09-21T14:14:10.020Z");
        assert_eq!((rfc3339_seconds(u64::MAX), rfc3339_millis(u64::MAX)), (String::new(), String::new()));
    }
}
