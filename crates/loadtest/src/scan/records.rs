//! Reads log records as Fluent Bit's output `http` sends them: JSON objects in an array, one in each line, or one behind
//! the other; or events of MessagePack.
//!
//! Every byte is checked to be JSON, since a backend refuses a whole request for a single record that is not.

use jiff::Timestamp;
use memchr::{memchr2, memmem};
use serde::de::IgnoredAny;

use super::{Malformed, Scan, msgpack};
use crate::lines::{Finding, find_all_within};

/// What a body is said to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Notation {
    /// JSON: an array (`json`), objects one behind the other (`json_stream`), or an object in each line (`gelf`).
    Json,
    /// JSON, an object in each line.
    Lines,
    /// Events.
    MsgPack,
}

/// What stands between the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Between {
    /// All are in one array.
    Array,
    /// Each is a line.
    Lines,
    Nothing,
}

/// The time of a record, which is its last field unless the line has a field of this name. In GELF, only letters, digits
/// and `_` are in names.
const TIMES: [&[u8]; 2] = [b"\"@timestamp\":\"", b"\"__timestamp\":\""];

/// The line as the application wrote it.
const ORIGINAL: &[u8] = b"\"log\":\"";

/// Walks the records of a body.
///
/// # Errors
/// The body is not JSON, or not of this notation.
pub(crate) fn scan(body: &[u8], notation: Notation, wants_lines: bool) -> Result<Scan, Malformed> {
    match notation {
        Notation::Json if body.first() != Some(&b'{') => objects(body, Between::Array, wants_lines),
        Notation::Json if body.last() == Some(&b'}') => objects(body, Between::Nothing, wants_lines),
        Notation::Json | Notation::Lines => objects(body, Between::Lines, wants_lines),
        Notation::MsgPack => msgpack::scan(body, wants_lines),
    }
}

fn objects(body: &[u8], between: Between, wants_lines: bool) -> Result<Scan, Malformed> {
    let mut scan = Scan::default();
    let mut rest = std::str::from_utf8(body).map_err(|error| Malformed::Record(error.to_string()))?;
    if between == Between::Array {
        rest = after(rest, '[')?;
        if let Ok(end) = after(rest, ']') {
            return ended(end).map(|()| scan);
        }
    }
    loop {
        let (record, more) = object(rest)?;
        scan.items += 1;
        scan.without_id += 1;
        scan.times.extend(time(record.as_bytes()).map(|nanos| (nanos, 1)));
        if wants_lines {
            scan.lines.push(line(record.as_bytes()));
        }
        rest = match between {
            Between::Lines => after(more, '\n')?,
            Between::Nothing => more,
            Between::Array => match after(more, ',') {
                Ok(next) => next,
                Err(_) => return ended(after(more, ']')?).map(|()| scan),
            },
        };
        if between != Between::Array && rest.is_empty() {
            return Ok(scan);
        }
    }
}

/// The object that a text begins with, and what comes after it.
fn object(text: &str) -> Result<(&str, &str), Malformed> {
    if !text.starts_with('{') {
        return Err(expected("an object", text));
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<IgnoredAny>();
    match values.next() {
        Some(Ok(IgnoredAny)) => Ok(text.split_at(values.byte_offset())),
        Some(Err(error)) => Err(Malformed::Record(error.to_string())),
        None => Err(expected("an object", text)),
    }
}

fn after(text: &str, wanted: char) -> Result<&str, Malformed> {
    text.strip_prefix(wanted).ok_or_else(|| expected(&format!("{wanted:?}"), text))
}

fn ended(rest: &str) -> Result<(), Malformed> {
    if rest.is_empty() { Ok(()) } else { Err(expected("the end", rest)) }
}

fn expected(wanted: &str, found: &str) -> Malformed {
    let found: String = found.chars().take(20).collect();
    Malformed::Record(format!("expected {wanted} at {found:?}"))
}

/// The line in a record. An object that was cut is no line, even if the text in it is whole.
fn line(record: &[u8]) -> Finding {
    match find_all_within(record) {
        Finding::Line(_)
            if original(record).is_some_and(|text| text.first() == Some(&b'{') && text.last() != Some(&b'}')) =>
        {
            Finding::Damaged
        }
        finding => finding,
    }
}

/// The text of the line as a record repeats it, with its escapes.
fn original(record: &[u8]) -> Option<&[u8]> {
    let text = &record[memmem::find(record, ORIGINAL)? + ORIGINAL.len()..];
    let mut end = 0;
    while *text.get(end)? != b'"' {
        end += memchr2(b'"', b'\\', &text[end..])?;
        end += if text[end] == b'\\' { 2 } else { 0 };
    }
    Some(&text[..end])
}

/// In nanoseconds since the epoch; none where it is not said.
fn time(record: &[u8]) -> Option<u64> {
    let begins = |name: &&[u8]| Some(memmem::rfind(record, name)? + name.len());
    let text = &record[TIMES.iter().find_map(begins)?..];
    let text = std::str::from_utf8(text.split(|byte| *byte == b'"').next()?).ok()?;
    u64::try_from(text.parse::<Timestamp>().ok()?.as_nanosecond()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::example::{ID, line};

    fn record(log: &str) -> String {
        serde_json::json!({"log": log, "@timestamp": "1970-01-01T00:00:01.000000002Z"}).to_string()
    }

    #[test]
    fn records_are_found_in_both_notations() {
        let records = [
            record(&line()),
            record(&format!(r#"{{"request":"{}","bytes":1}}"#, line())),
            record("hello"),
            record(&line()[..100]),
            format!(r#"{{"log":"{}","request":"{}"}}"#, line(), line().replace("000099", "000098")),
            r#"{"time":7}"#.to_owned(),
            record(&format!(r#"{{"a":"\\","request":"{}","bytes":1"#, line())),
        ];
        let line = Finding::Line(ID);
        let (damaged, unmarked) = (Finding::Damaged, Finding::Unmarked);
        let expected = [line, line, unmarked, damaged, damaged, unmarked, damaged];
        let array = format!("[{}]", records.join(","));
        let lines = records.join("\n") + "\n";
        let gelf = lines.replace("@timestamp", "__timestamp");
        let (json, stream) = (Notation::Json, records.concat());
        for (body, notation) in [(array, json), (stream, json), (gelf, json), (lines, Notation::Lines)] {
            let found = scan(body.as_bytes(), notation, true).unwrap();
            assert_eq!((found.items, found.lines.as_slice()), (7, &expected[..]), "{body}");
            assert_eq!(found.times, [(1_000_000_002, 1); 5]);
        }
        assert_eq!(scan(b"[]", Notation::Json, true).unwrap(), Scan::default());
    }

    #[test]
    fn what_a_backend_could_not_read_is_refused() {
        for body in [
            "",
            "[",
            "[{}",
            "[{},]",
            "[{}{}]",
            "{}\n{}",
            "{},{}",
            "[{}]x",
            "[1]",
            r#"[{"a":"\x"}]"#,
            r#"[{"a":01}]"#,
            "[{},\n{}]",
        ] {
            assert!(scan(body.as_bytes(), Notation::Json, true).is_err(), "{body}");
        }
        for body in ["", "{}", "{}{}\n", "{}\n\n", "[{}]\n", "{\n", "7\n"] {
            assert!(scan(body.as_bytes(), Notation::Lines, true).is_err(), "{body}");
        }
        assert!(scan(b"[{\"a\":\"\xff\"}]", Notation::Json, true).is_err());
    }
}
