//! Records as events of MessagePack: `[[time, {}], {record}]`, as Fluent Bit writes them since version 2.1.
//!
//! The length of a map or an array is known when it ends, so it always takes four bytes.

use std::ops::Range;

use weir_plan::Date;

use crate::json::{Lexer, Nested, Scalar, Visitor, unescape};
use crate::members::Member;
use crate::record::{Notation, Record};
use crate::sink::Sink;
use crate::time::Clock;

const MAP32: u8 = 0xdf;
const ARRAY32: u8 = 0xdd;

/// Writes events.
pub(crate) struct MsgPack<S> {
    out: S,
    /// Of what is open, the innermost last.
    open: Vec<Open>,
}

/// A map or an array whose length is not known yet.
#[derive(Debug)]
struct Open {
    /// Where the length goes.
    at: usize,
    length: u32,
    nested: Nested,
}

impl<S: Sink> MsgPack<S> {
    pub(crate) fn new(out: S) -> Self {
        Self { out, open: Vec::new() }
    }

    /// A value, or the key of one, is added to what is open. Entries of a map are counted by their keys.
    fn count(&mut self, counts_in: Nested) {
        if let Some(open) = self.open.last_mut().filter(|open| open.nested == counts_in) {
            open.length += 1;
        }
    }

    fn key_of_map(&mut self, key: &str) {
        self.count(Nested::Object);
        self.string(key);
    }

    fn string(&mut self, text: &str) {
        let bytes = text.len().to_be_bytes();
        match text.len() {
            0..32 => self.out.put(&[0xa0 | bytes[7]]),
            32..0x100 => self.out.put(&[0xd9, bytes[7]]),
            0x100..0x1_0000 => self.out.put(&[0xda, bytes[6], bytes[7]]),
            _ => self.out.put(&[0xdb, bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
        self.out.put(text.as_bytes());
    }

    fn begin_nested(&mut self, nested: Nested) {
        self.out.put(&[if nested == Nested::Object { MAP32 } else { ARRAY32 }]);
        self.open.push(Open { at: self.out.len(), length: 0, nested });
        self.out.put(&[0; 4]);
    }

    fn end_nested(&mut self) {
        if let Some(open) = self.open.pop() {
            self.out.set(open.at, open.length.to_be_bytes());
        }
    }

    fn number(&mut self, digits: &str) {
        if let Ok(number) = digits.parse::<u64>() {
            match u8::try_from(number) {
                Ok(small) if small < 0x80 => self.out.put(&[small]),
                _ => {
                    self.out.put(&[0xcf]);
                    self.out.put(&number.to_be_bytes());
                }
            }
        } else if let Ok(number) = digits.parse::<i64>() {
            self.out.put(&[0xd3]);
            self.out.put(&number.to_be_bytes());
        } else {
            self.out.put(&[0xcb]);
            self.out.put(&digits.parse::<f64>().unwrap_or_default().to_be_bytes());
        }
    }
}

impl<S: Sink> Notation for MsgPack<S> {
    fn start(&mut self) {}

    fn finish(&mut self) {}

    fn begin(&mut self, record: &Record<'_>, _: &Date, _: &mut Clock) {
        // An event time: seconds and nanoseconds, 32 bits each.
        let (second, nanos) = (record.unix_nanos / 1_000_000_000, record.unix_nanos % 1_000_000_000);
        self.out.put(&[0x92, 0x92, 0xd7, 0x00]);
        self.out.put(&second.to_be_bytes()[4..]);
        self.out.put(&nanos.to_be_bytes()[4..]);
        self.out.put(&[0x80]);
        self.begin_nested(Nested::Object);
    }

    fn end(&mut self) {
        self.end_nested();
    }

    fn text(&mut self, key: &str, value: &str) {
        self.key_of_map(key);
        self.string(value);
    }

    fn member(&mut self, member: Member<'_>) {
        self.key(member.key);
        // It was read before.
        let _ = Lexer::new(member.value).value(self, 1);
    }

    fn open(&mut self, key: &str) {
        self.key_of_map(key);
        self.begin_nested(Nested::Object);
    }

    fn close(&mut self) {
        self.end_nested();
    }

    fn len(&self) -> usize {
        self.out.len()
    }

    fn repeat(&mut self, field: Range<usize>) {
        self.count(Nested::Object);
        self.out.repeat(field);
    }
}

impl<S: Sink> Visitor for MsgPack<S> {
    fn open(&mut self, nested: Nested, _: usize) {
        self.count(Nested::Array);
        self.begin_nested(nested);
    }

    fn close(&mut self, _: Nested, _: usize) {
        self.end_nested();
    }

    fn key(&mut self, raw: &str) {
        self.key_of_map(&unescape(raw));
    }

    fn scalar(&mut self, scalar: Scalar<'_>) {
        self.count(Nested::Array);
        match scalar {
            Scalar::Null => self.out.put(&[0xc0]),
            Scalar::Bool(value) => self.out.put(&[0xc2 | u8::from(value)]),
            Scalar::Number(digits) => self.number(digits),
            Scalar::Text(raw) => self.string(&unescape(raw)),
        }
    }
}
