//! Appends protobuf fields and remembers which bytes are filled in for each request.

use prost::encoding::{WireType, encode_key, encode_varint};

/// What is written into a request before it is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stamped {
    /// First half of a trace id: the same for all traces of a run.
    TraceSeed,
    /// The id of an item as the eight bytes of a span id.
    SpanId,
    /// The id of a point as the time it started.
    StartTime,
    /// When the item was due.
    Time,
    /// When a span ended.
    EndTime,
    /// Whether a filter is to drop the item: one character.
    Drop,
}

impl Stamped {
    fn length(self) -> usize {
        if self == Self::Drop { 1 } else { 8 }
    }
}

/// A place in a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Mark {
    pub(crate) at: usize,
    pub(crate) what: Stamped,
    /// Position in the request of the item whose id it is about.
    pub(crate) item: u32,
}

/// An encoded message and its marks.
#[derive(Debug, Default)]
pub(crate) struct Writer {
    pub(crate) bytes: Vec<u8>,
    pub(crate) marks: Vec<Mark>,
}

impl Writer {
    /// A message in a field, filled by `fill`.
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        let mut inner = Self::default();
        fill(&mut inner);
        self.header(field, inner.bytes.len());
        let offset = self.bytes.len();
        self.marks.extend(inner.marks.into_iter().map(|mark| Mark { at: mark.at + offset, ..mark }));
        self.bytes.extend_from_slice(&inner.bytes);
    }

    /// Tag and length of a length-delimited field.
    pub(crate) fn header(&mut self, field: u32, length: usize) {
        encode_key(field, WireType::LengthDelimited, &mut self.bytes);
        encode_varint(length as u64, &mut self.bytes);
    }

    pub(crate) fn text(&mut self, field: u32, value: &str) {
        self.header(field, value.len());
        self.bytes.extend_from_slice(value.as_bytes());
    }

    pub(crate) fn varint(&mut self, field: u32, value: u64) {
        encode_key(field, WireType::Varint, &mut self.bytes);
        encode_varint(value, &mut self.bytes);
    }

    pub(crate) fn fixed64(&mut self, field: u32, value: u64) {
        encode_key(field, WireType::SixtyFourBit, &mut self.bytes);
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn double(&mut self, field: u32, value: f64) {
        self.fixed64(field, value.to_bits());
    }

    /// A packed field of eight-byte values.
    pub(crate) fn packed_fixed64(&mut self, field: u32, values: &[u64]) {
        self.header(field, values.len() * 8);
        for value in values {
            self.bytes.extend_from_slice(&value.to_le_bytes());
        }
    }

    /// A `KeyValue` with a string.
    pub(crate) fn attribute(&mut self, field: u32, key: &str, value: &str) {
        self.message(field, |pair| {
            pair.text(1, key);
            pair.message(2, |any| any.text(1, value));
        });
    }

    /// A `KeyValue` with a string that is filled in later.
    pub(crate) fn stamped_attribute(&mut self, field: u32, key: &str, what: Stamped, item: u32) {
        self.message(field, |pair| {
            pair.text(1, key);
            pair.message(2, |any| any.stamped_bytes(1, &[(what, item)]));
        });
    }

    /// A fixed64 that is filled in later.
    pub(crate) fn stamped_fixed64(&mut self, field: u32, what: Stamped, item: u32) {
        encode_key(field, WireType::SixtyFourBit, &mut self.bytes);
        self.place(what, item);
    }

    /// Bytes that are filled in later, one part after the other.
    pub(crate) fn stamped_bytes(&mut self, field: u32, parts: &[(Stamped, u32)]) {
        self.header(field, parts.iter().map(|(what, _)| what.length()).sum());
        for &(what, item) in parts {
            self.place(what, item);
        }
    }

    fn place(&mut self, what: Stamped, item: u32) {
        let at = self.bytes.len();
        self.marks.push(Mark { at, what, item });
        self.bytes.resize(at + what.length(), 0);
    }
}
