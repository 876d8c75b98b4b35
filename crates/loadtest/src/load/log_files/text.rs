//! Lines as bytes: prebuilt texts that are stamped, and what the runtime writes around them.

use anyhow::ensure;
use jiff::Timestamp;

use super::args::{Format, LineShape, LookArgs};
use crate::lines::{self, LineId, Stream};

/// Texts of one length that differ in everything but their message.
#[derive(Debug, Clone)]
pub(super) struct Texts {
    variants: Vec<Vec<u8>>,
    /// Where the message lies in each of them.
    message: (usize, usize),
}

/// Longest line that can be asked for.
const LONGEST: u64 = 256 << 20;
/// So many different objects, unless they are long.
const VARIANTS: usize = 16;
const VARIANTS_BYTES: usize = 1 << 20;
/// What flog is told to write before it begins again, and as many objects as have different numbers.
const FLOG_BYTES: usize = 10 << 20;
const FLOG_VARIANTS: usize = 100_000;

impl Texts {
    /// Builds the texts.
    ///
    /// # Errors
    /// The line is too short for what must stand in it, or longer than a program writes.
    pub(super) fn new(look: &LookArgs) -> anyhow::Result<Self> {
        let wanted = look.length();
        ensure!(wanted <= LONGEST, "cannot write lines of {wanted} bytes: the most is {LONGEST}");
        let length = usize::try_from(wanted)?;
        let (before, after) = look.shape.around(0);
        let around = before.len() + after.len();
        let shortest = around + lines::SHORTEST;
        ensure!(
            length >= shortest,
            "cannot write lines of {length} bytes: with this shape they have at least {shortest}"
        );
        let message = lines::text(length - around);
        let count = match look.shape {
            LineShape::Plain => 1,
            LineShape::Json => (VARIANTS_BYTES / length).clamp(1, VARIANTS),
            LineShape::Flog => (FLOG_BYTES / length).clamp(1, FLOG_VARIANTS),
        };
        let variant = |number| {
            let (before, after) = look.shape.around(number);
            [before.as_bytes(), &message, after.as_bytes()].concat()
        };
        let end = before.len() + message.len();
        Ok(Self { variants: (0..count).map(variant).collect(), message: (before.len(), end) })
    }

    /// The text of a line.
    pub(super) fn stamped(&mut self, id: LineId) -> &[u8] {
        let count = self.variants.len();
        // The variant is a function of the line: its parts, written one by one, are of the same text.
        let number = usize::try_from(id.sequence).unwrap_or(0) % count;
        let text = &mut self.variants[number];
        lines::stamp(&mut text[self.message.0..self.message.1], id);
        text
    }

    /// Bytes of each text.
    pub(super) fn length(&self) -> usize {
        self.variants[0].len()
    }
}

impl LineShape {
    /// What stands before and after the message of variant `number`.
    fn around(self, number: usize) -> (String, String) {
        match self {
            Self::Plain => (String::new(), String::new()),
            Self::Json => json(number),
            Self::Flog => flog(number),
        }
    }
}

/// The same for one of flog's objects: the message stands in the path of the request.
fn flog(number: usize) -> (String, String) {
    let method = ["POST", "HEAD"][number % 2];
    let status = [200, 201, 404, 500][number / 2 % 4];
    let before = format!(
        r#"{{"host":"10.{:03}.30.40","user-identifier":"user{number:05}","datetime":"23/Nov/2026:12:00:00 +0000","method":"{method}","request":""#,
        100 + number % 100,
    );
    let after = format!(
        r#"","protocol":"HTTP/2.0","status":{status},"bytes":{},"referer":"https://www.example.org/{number:05}"}}"#,
        10_000 + number % 90_000,
    );
    (before, after)
}

/// What stands before and after the message of an object of ten fields. All have the same lengths.
fn json(number: usize) -> (String, String) {
    let method = ["POST", "HEAD"][number % 2];
    let status = [200, 201, 404, 500][number % 4];
    let level = ["info", "warn"][number / 8 % 2];
    let before = format!(
        r#"{{"host":"10.20.30.{}","user":"user-{number:04}","level":"{level}","method":"{method}","request":"/api/v1/items/{number:04}","message":""#,
        100 + number,
    );
    let after = format!(
        r#"","protocol":"HTTP/1.1","status":{status},"bytes":{},"referer":"https://shop.example.com/item?id={number:04}"}}"#,
        10_000 + number * 97,
    );
    (before, after)
}

/// The time of a line, as text.
#[derive(Debug)]
pub(super) struct Clock {
    second: i64,
    text: [u8; TIME],
    last: i128,
}

/// Length of `2026-11-23T12:00:00.000000000Z`.
const TIME: usize = 30;
const NANOS: i128 = 1_000_000_000;

impl Default for Clock {
    fn default() -> Self {
        Self { second: i64::MIN, text: *b"1970-01-01T00:00:00.000000000Z", last: 0 }
    }
}

impl Clock {
    /// Moves to `now`; times never repeat and never go back.
    pub(super) fn set(&mut self, now: Timestamp) {
        self.last = self.last.max(now.as_nanosecond());
    }

    /// The time of the next line: a nanosecond after the one before, or what was set.
    fn tick(&mut self) -> &[u8; TIME] {
        self.last += 1;
        let second = i64::try_from(self.last.div_euclid(NANOS)).unwrap_or(i64::MAX);
        if second != self.second {
            self.second = second;
            let text = Timestamp::from_second(second).map(|time| time.strftime("%Y-%m-%dT%H:%M:%S").to_string());
            if let Some(date) = text.ok().filter(|text| text.len() == 19) {
                self.text[..19].copy_from_slice(date.as_bytes());
            }
        }
        let mut nanos = u32::try_from(self.last.rem_euclid(NANOS)).unwrap_or(0);
        for digit in self.text[20..29].iter_mut().rev() {
            *digit = b"0123456789"[(nanos % 10) as usize];
            nanos /= 10;
        }
        &self.text
    }
}

/// A piece of a line: all of it, or a part.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a [u8],
    pub(super) stream: Stream,
    /// The line ends with it.
    pub(super) last: bool,
}

impl Format {
    /// Appends what the runtime writes for `piece`.
    pub(super) fn write(self, block: &mut Vec<u8>, clock: &mut Clock, piece: Piece<'_>) {
        match self {
            Self::Cri => {
                block.extend_from_slice(clock.tick());
                block.extend_from_slice(match (piece.stream, piece.last) {
                    (Stream::Stdout, true) => b" stdout F ",
                    (Stream::Stdout, false) => b" stdout P ",
                    (Stream::Stderr, true) => b" stderr F ",
                    (Stream::Stderr, false) => b" stderr P ",
                });
                block.extend_from_slice(piece.text);
                block.push(b'\n');
            }
            Self::DockerJson => {
                block.extend_from_slice(br#"{"log":""#);
                escape(block, piece.text);
                block.extend_from_slice(if piece.last { br#"\n","stream":""# } else { br#"","stream":""# });
                block.extend_from_slice(piece.stream.name().as_bytes());
                block.extend_from_slice(br#"","time":""#);
                block.extend_from_slice(clock.tick());
                block.extend_from_slice(b"\"}\n");
            }
            Self::Plain => {
                block.extend_from_slice(piece.text);
                block.push(b'\n');
            }
        }
    }
}

/// Quotes are all that has to be escaped in these texts.
fn escape(block: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(at) = memchr::memchr(b'"', rest) {
        block.extend_from_slice(&rest[..at]);
        block.extend_from_slice(br#"\""#);
        rest = &rest[at + 1..];
    }
    block.extend_from_slice(rest);
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::Value;

    use super::*;
    use crate::lines::{Finding, find};

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        look: LookArgs,
    }

    fn look(flags: &str) -> LookArgs {
        Cli::parse_from(["cli"].into_iter().chain(flags.split_whitespace())).look
    }

    fn id(sequence: u64) -> LineId {
        LineId { container: 1, stream: Stream::Stdout, sequence }
    }

    #[test]
    fn json_lines_have_ten_fields_one_length_and_the_mark_as_message() {
        let mut texts = Texts::new(&look("--shape json --line-size 400")).unwrap();
        for sequence in 1..=40 {
            let text = texts.stamped(id(sequence));
            assert_eq!(text.len(), 400);
            let object: serde_json::Map<String, Value> = serde_json::from_slice(text).unwrap();
            assert_eq!(object.len(), 10);
            assert_eq!(find(object["message"].as_str().unwrap().as_bytes()), Finding::Line(id(sequence)));
            assert_eq!(find(text), Finding::Line(id(sequence)));
        }
    }

    #[test]
    fn flog_loops_over_ten_mebibytes_of_objects_of_nine_fields() {
        let mut texts = Texts::new(&look("--shape flog")).unwrap();
        let count = texts.variants.len();
        assert_eq!(count, (10 << 20) / 300);
        for sequence in [1, 2, 34_951, 34_952, 34_953] {
            let text = texts.stamped(id(sequence));
            assert_eq!(text.len(), 300);
            let object: serde_json::Map<String, Value> = serde_json::from_slice(text).unwrap();
            assert_eq!(object.len(), 9);
            assert_eq!(find(text), Finding::Line(id(sequence)));
        }
    }

    #[test]
    fn a_line_that_is_too_short_is_refused_with_the_shortest() {
        let error = Texts::new(&look("--line-size 54")).unwrap_err().to_string();
        assert!(error.ends_with("at least 55"), "{error}");
        assert_eq!(Texts::new(&look("--line-size 55")).unwrap().length(), 55);
        assert!(Texts::new(&look("--shape json --line-size 200")).is_err());
        assert!(Texts::new(&look("--line-size 1GiB")).is_err());
    }

    #[test]
    fn times_do_not_repeat_and_cross_a_second() {
        let mut clock = Clock::default();
        let mut block = Vec::new();
        clock.set(Timestamp::from_nanosecond(1_795_435_199_999_999_997).unwrap());
        for last in [false, true, true] {
            let piece = Piece { text: b"a\"b", stream: Stream::Stderr, last };
            Format::Cri.write(&mut block, &mut clock, piece);
            clock.set(Timestamp::from_second(1).unwrap());
        }
        let expected = "2026-11-23T11:59:59.999999998Z stderr P a\"b\n\
                        2026-11-23T11:59:59.999999999Z stderr F a\"b\n\
                        2026-11-23T12:00:00.000000000Z stderr F a\"b\n";
        assert_eq!(String::from_utf8(block).unwrap(), expected);
    }

    #[test]
    fn docker_json_ends_a_line_with_a_newline_inside() {
        let mut block = Vec::new();
        for last in [false, true] {
            let piece = Piece { text: br#"{"a":"b"}"#, stream: Stream::Stdout, last };
            Format::DockerJson.write(&mut block, &mut Clock::default(), piece);
        }
        let logs: Vec<String> = block
            .split(|byte| *byte == b'\n')
            .filter(|line| !line.is_empty())
            .map(|line| serde_json::from_slice::<Value>(line).unwrap()["log"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(logs, [r#"{"a":"b"}"#, "{\"a\":\"b\"}\n"]);
    }
}
