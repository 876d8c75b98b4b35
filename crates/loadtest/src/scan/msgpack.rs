//! Reads log records as Fluent Bit's output `http` sends them in MessagePack: `[[time, {}], {record}]`, one behind the
//! other. Every byte is checked.

use super::{Malformed, Scan};
use crate::lines::{Finding, find};

/// Nothing is deeper.
const DEEPEST: u32 = 128;

/// Walks the events of a body.
///
/// # Errors
/// The body is not MessagePack, or not of events.
pub(crate) fn scan(body: &[u8], wants_lines: bool) -> Result<Scan, Malformed> {
    let mut scan = Scan::default();
    let mut events = Walk { rest: body, line: Finding::Unmarked };
    while !events.rest.is_empty() {
        events.line = Finding::Unmarked;
        let nanos = events.event()?;
        scan.items += 1;
        scan.without_id += 1;
        scan.times.push((nanos, 1));
        if wants_lines {
            scan.lines.push(events.line);
        }
    }
    Ok(scan)
}

struct Walk<'a> {
    rest: &'a [u8],
    /// What the texts so far turned out to be.
    line: Finding,
}

impl<'a> Walk<'a> {
    /// Returns its time in nanoseconds since the epoch.
    fn event(&mut self) -> Result<u64, Malformed> {
        // Of two: the time with what is known of the event, and the record. A time is an extension of type 0 in eight bytes.
        if self.take(4)? != [0x92, 0x92, 0xd7, 0x00] {
            return Err(malformed("an event does not begin with its time"));
        }
        let (seconds, nanos) = (self.number(4)?, self.number(4)?);
        self.map_alone()?;
        self.map_alone()?;
        Ok(seconds * 1_000_000_000 + nanos)
    }

    fn map_alone(&mut self) -> Result<(), Malformed> {
        match self.rest.first() {
            Some(0x80..=0x8f | 0xde | 0xdf) => self.value(0),
            _ => Err(malformed("a map is missing")),
        }
    }

    fn value(&mut self, depth: u32) -> Result<(), Malformed> {
        if depth > DEEPEST {
            return Err(malformed("it is too deep"));
        }
        let first = self.take(1)?[0];
        match first {
            0x00..=0x7f | 0xc0 | 0xc2 | 0xc3 | 0xe0..=0xff => Ok(()),
            0x80..=0x8f => self.map(u64::from(first & 15), depth),
            0x90..=0x9f => self.array(u64::from(first & 15), depth),
            0xa0..=0xbf => self.text(u64::from(first & 31)),
            0xc1 => Err(malformed("no value begins with c1")),
            // Bytes, and extensions with a byte for their type.
            0xc4..=0xc6 => self.number(1 << (first - 0xc4)).and_then(|length| self.skip(length)),
            0xc7..=0xc9 => self.number(1 << (first - 0xc7)).and_then(|length| self.skip(1 + length)),
            0xca | 0xcb => self.skip(4 << (first - 0xca)),
            0xcc..=0xcf => self.skip(1 << (first - 0xcc)),
            0xd0..=0xd3 => self.skip(1 << (first - 0xd0)),
            0xd4..=0xd8 => self.skip(1 + (1 << (first - 0xd4))),
            0xd9..=0xdb => self.number(1 << (first - 0xd9)).and_then(|length| self.text(length)),
            0xdc | 0xdd => self.number(2 << (first - 0xdc)).and_then(|length| self.array(length, depth)),
            0xde | 0xdf => self.number(2 << (first - 0xde)).and_then(|length| self.map(length, depth)),
        }
    }

    fn array(&mut self, length: u64, depth: u32) -> Result<(), Malformed> {
        (0..length).try_for_each(|_| self.value(depth + 1))
    }

    fn map(&mut self, length: u64, depth: u32) -> Result<(), Malformed> {
        (0..length).try_for_each(|_| {
            if !matches!(self.rest.first(), Some(0xa0..=0xbf | 0xd9..=0xdb)) {
                return Err(malformed("a key is no text"));
            }
            self.value(depth + 1)?;
            self.value(depth + 1)
        })
    }

    fn text(&mut self, length: u64) -> Result<(), Malformed> {
        let text = self.bytes(length)?;
        std::str::from_utf8(text).map_err(|error| Malformed::Record(error.to_string()))?;
        self.line = match (self.line, find(text)) {
            (line, Finding::Unmarked) => line,
            (Finding::Unmarked, found) => found,
            (line, found) if line == found => line,
            _ => Finding::Damaged,
        };
        Ok(())
    }

    fn number(&mut self, width: usize) -> Result<u64, Malformed> {
        Ok(self.take(width)?.iter().fold(0, |number, byte| number << 8 | u64::from(*byte)))
    }

    fn skip(&mut self, length: u64) -> Result<(), Malformed> {
        self.bytes(length).map(drop)
    }

    fn bytes(&mut self, length: u64) -> Result<&'a [u8], Malformed> {
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| malformed("it ends too early"))?;
        self.rest = rest;
        Ok(taken)
    }
}

fn malformed(reason: &str) -> Malformed {
    Malformed::Record(format!("no MessagePack of events: {reason}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lines::{LineId, Stream, stamp, text};

    const ID: LineId = LineId { container: 3, stream: Stream::Stdout, sequence: 99 };

    /// With a record of one value of each kind, and a text.
    fn event(line: &[u8]) -> Vec<u8> {
        let mut event = b"\x92\x92\xd7\x00\0\0\0\x01\0\0\0\x02\x80\x83\xa1a\xdd\0\0\0\x0f".to_vec();
        event.extend(b"\x07\xff\xc0\xc2\xc3\xcb\0\0\0\0\0\0\0\0\xca\0\0\0\0\xcf\0\0\0\0\0\0\0\0\xd1\0\0");
        event.extend(b"\xc4\x01\xfe\xc7\x01\x05\xfe\xd4\x05\xfe\x91\x90\xdc\0\x01\x01\xde\0\x01\xa1k\x80");
        event.extend(b"\xd9\x01b\xda\0\x01c\xa3log\xda");
        event.extend(u16::try_from(line.len()).unwrap().to_be_bytes());
        event.extend(line);
        event
    }

    fn line() -> Vec<u8> {
        let mut text = text(120);
        stamp(&mut text, ID);
        text
    }

    #[test]
    fn events_are_read_to_their_last_byte() {
        let object = [br#"{"request":""#, &line()[..], br#"","bytes":1}"#].concat();
        let bodies = [event(&line()), event(&object), event(b"hello"), event(&line()[..100])];
        let found = scan(&bodies.concat(), true).unwrap();
        let line = Finding::Line(ID);
        assert_eq!(found.lines, [line, line, Finding::Unmarked, Finding::Damaged]);
        assert_eq!((found.items, found.times), (4, vec![(1_000_000_002, 1); 4]));
        for length in 1..bodies[0].len() {
            assert!(scan(&bodies[0][..length], true).is_err(), "{length}");
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        let nested = [b"\x92\x92\xd7\x00\0\0\0\x01\0\0\0\x02\x80\x81\xa1a".to_vec(), vec![0x91; 200], vec![7]].concat();
        let no_key = b"\x92\x92\xd7\x00\0\0\0\x01\0\0\0\x02\x80\x81\x07\x07";
        let no_text = b"\x92\x92\xd7\x00\0\0\0\x01\0\0\0\x02\x80\x81\xa1\xff\x07";
        let no_value = b"\x92\x92\xd7\x00\0\0\0\x01\0\0\0\x02\x80\x81\xa1a\xc1";
        let no_record = b"\x92\x92\xd7\x00\0\0\0\x01\0\0\0\x02\x80\x90";
        for body in [&b"{}"[..], b"\x92\x01\x80", &nested, no_key, no_text, no_value, no_record] {
            assert!(scan(body, true).is_err(), "{body:?}");
        }
        assert_eq!(scan(b"", true).unwrap(), Scan::default());
    }
}
