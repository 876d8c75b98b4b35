//! An append-only protobuf encoder with lengths filled in afterwards.
//!
//! It is for data we create (JSON input, status messages, edited messages). It knows no schema: the caller names field
//! numbers and wire types.

use std::ops::Range;

use crate::cursor::WireType;

/// Bytes under construction.
#[derive(Debug, Default)]
pub struct Encoder {
    out: Vec<u8>,
}

/// A length-delimited field that is still open; hand it back to [`Encoder::close`].
#[derive(Debug)]
#[must_use = "an open message has no length yet"]
pub struct Open {
    body: usize,
    width: usize,
}

/// An encoder that goes on behind these bytes.
impl From<Vec<u8>> for Encoder {
    fn from(out: Vec<u8>) -> Self {
        Self { out }
    }
}

impl Encoder {
    /// An encoder with room for `capacity` bytes.
    pub fn with_capacity(capacity: usize) -> Self {
        Self { out: Vec::with_capacity(capacity) }
    }

    /// Bytes written so far.
    pub fn len(&self) -> usize {
        self.out.len()
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.out.is_empty()
    }

    /// Bytes that there is place for.
    pub fn capacity(&self) -> usize {
        self.out.capacity()
    }

    /// Makes place for so many bytes more, and no others.
    pub fn reserve_exact(&mut self, more: usize) {
        self.out.reserve_exact(more);
    }

    /// Forgets what was written after the first `length` bytes.
    pub fn truncate(&mut self, length: usize) {
        self.out.truncate(length);
    }

    /// What was written so far. The lengths of open messages are not in it yet.
    pub fn written(&self) -> &[u8] {
        &self.out
    }

    /// Forgets what was written from `start` on, but for these ranges of it, which are in order and do not overlap.
    /// What is left closes up; no message may have been opened in it that is still open.
    pub fn retain(&mut self, start: usize, ranges: impl IntoIterator<Item = Range<usize>>) {
        let mut end = start;
        for range in ranges {
            let length = range.len();
            self.out.copy_within(range, end);
            end += length;
        }
        self.out.truncate(end);
    }

    /// The finished bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Appends bytes that are encoded already: whole fields, or the value of a key just written.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.out.extend_from_slice(bytes);
    }

    /// Lets `write` append bytes that are encoded already.
    pub fn append<T>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        write(&mut self.out)
    }

    /// A `int32`, `int64`, `uint32`, `bool` or enum field; signed values as their two's complement.
    pub fn varint(&mut self, number: u32, value: u64) {
        self.key(number, WireType::Varint);
        self.put_varint(value);
    }

    /// A `sint32` field.
    pub fn sint32(&mut self, number: u32, value: i32) {
        self.varint(number, u64::from((value << 1 ^ value >> 31).cast_unsigned()));
    }

    /// A `fixed64`, `sfixed64` or `double` field.
    pub fn fixed64(&mut self, number: u32, bits: u64) {
        self.key(number, WireType::Fixed64);
        self.raw(&bits.to_le_bytes());
    }

    /// A `fixed32`, `sfixed32` or `float` field.
    pub fn fixed32(&mut self, number: u32, bits: u32) {
        self.key(number, WireType::Fixed32);
        self.raw(&bits.to_le_bytes());
    }

    /// A `string` or `bytes` field, or a message that is encoded already.
    pub fn bytes(&mut self, number: u32, body: &[u8]) {
        self.header(number, body.len());
        self.raw(body);
    }

    /// A `bytes` field of at most `most` bytes, which `fill` writes over zeros. `fill` returns how many there are.
    pub(crate) fn fill(
        &mut self,
        number: u32,
        most: usize,
        fill: impl FnOnce(&mut [u8]) -> Option<usize>,
    ) -> Option<()> {
        let open = self.open(number, most);
        self.out.resize(open.body + most, 0);
        let filled = fill(&mut self.out[open.body..])?;
        self.out.truncate(open.body + filled);
        self.close(open);
        Some(())
    }

    /// Key and length of a message field whose body, of `length` bytes, is written next.
    pub fn header(&mut self, number: u32, length: usize) {
        self.key(number, WireType::Len);
        self.put_varint(length as u64);
    }

    /// A varint without a key: an element of a packed repeated field.
    pub fn element(&mut self, value: u64) {
        self.put_varint(value);
    }

    /// Opens a message field whose body will be about `expected` bytes long; a good guess saves moving the body.
    pub fn open(&mut self, number: u32, expected: usize) -> Open {
        self.key(number, WireType::Len);
        let width = varint_len(expected as u64);
        self.out.resize(self.out.len() + width, 0);
        Open { body: self.out.len(), width }
    }

    /// Ends the message field: writes its length, in as few bytes as it needs.
    pub fn close(&mut self, open: Open) {
        self.close_before(open, 0);
    }

    /// Ends the message field as [`close`](Self::close) does, while its last `rest` bytes come from elsewhere: they
    /// must directly follow everything that was written.
    pub fn close_before(&mut self, open: Open, rest: usize) {
        let length = self.out.len() - open.body + rest;
        self.set_length(open.body - open.width, open.width, length as u64);
    }

    /// Writes a length over a length of `before` bytes that begins at `start`. Returns by how many bytes the new one is
    /// longer.
    pub(crate) fn set_length(&mut self, start: usize, before: usize, length: u64) -> isize {
        let (width, end) = (varint_len(length), self.out.len());
        if width > before {
            self.out.resize(end + width - before, 0);
            self.out.copy_within(start + before..end, start + width);
        } else if width < before {
            self.out.drain(start + width..start + before);
        }
        let mut rest = length;
        for byte in &mut self.out[start..start + width] {
            *byte = low_bits(rest) | 0x80;
            rest >>= 7;
        }
        self.out[start + width - 1] &= 0x7f;
        width.cast_signed() - before.cast_signed()
    }

    fn key(&mut self, number: u32, wire: WireType) {
        self.put_varint(u64::from(number) << 3 | u64::from(wire.tag()));
    }

    fn put_varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.out.push(low_bits(value) | 0x80);
            value >>= 7;
        }
        self.out.push(low_bits(value));
    }
}

/// Bytes that `value` takes as a varint.
pub fn varint_len(value: u64) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

fn low_bits(value: u64) -> u8 {
    (value & 0x7f).to_le_bytes()[0]
}
