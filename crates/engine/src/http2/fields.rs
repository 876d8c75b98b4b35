//! What compressed heads leave in the table of an HTTP/2 connection (RFC 7541).
//!
//! The library copies most fields into that table. But of `:path`, `:authority` and `:scheme`, which say where a
//! request goes, it keeps the whole buffer in which the head came, or in which it decoded the text. A hundred small
//! fields, each in a large buffer, would keep megabytes. So this module follows the fields and adds up what they keep.
//! It decodes none.

use std::collections::VecDeque;

/// Names in the table that every connection begins with which the library keeps with their buffer.
const STATIC_TARGETS: std::ops::RangeInclusive<usize> = 1..=7;
/// The number of fields before the first one that was added; the newest comes next.
const STATIC_FIELDS: usize = 61;
/// First bytes of a name that begins with a colon, Huffman coded: seven bits are the colon's.
const HUFFMAN_COLON: [u8; 2] = [0xb8, 0xb9];

/// A table of 4 KiB has no more fields than this.
const MOST_ADDED: usize = 128;
/// The library decodes texts into a buffer of this size, and takes a new buffer when the next text may not fit.
pub(crate) const TEXT_BUFFER_BYTES: usize = 4 * 1024;
/// If the coded texts of one head are no longer than this, one new buffer of that size is enough.
const FEW_CODED_BYTES: usize = TEXT_BUFFER_BYTES / 2;
/// The library makes room for twice a coded text, in a buffer that may have doubled to become so large.
const ROOM_PER_CODED_BYTE: usize = 4;

/// The fields of one connection, as far as they were read.
#[derive(Debug, Default)]
pub(crate) struct Fields {
    place: Place,
    /// The field that is being read goes into the table.
    is_added: bool,
    /// It says where a request is sent to.
    is_target: bool,
    /// Those that were added, the newest first.
    added: VecDeque<Added>,
    /// Which of the fields of this head is the last that says so.
    target: Option<usize>,
    /// Coded bytes of this head, and the most of any head.
    coded: usize,
    most_coded: usize,
    /// What heads keep, all together.
    kept: usize,
}

/// A field in the table.
#[derive(Debug)]
struct Added {
    is_target: bool,
    /// What its head keeps. The last such field of a head has it, because it stays the longest.
    keeps: usize,
}

/// What the next byte is.
#[derive(Debug, Clone, Copy, Default)]
enum Place {
    /// The first of a field.
    #[default]
    Field,
    /// More of a number.
    Number { of: Number, value: usize, shift: u32 },
    /// The length of a text.
    Length(Text),
    /// In a text that has so many bytes more.
    Text { of: Text, left: usize, is_huffman: bool, is_first: bool },
}

#[derive(Debug, Clone, Copy)]
enum Number {
    /// A field without texts, or a size of the table: nothing follows from it.
    Other,
    /// The name of a field, which is in the table.
    Name,
    Length(Text, bool),
}

#[derive(Debug, Clone, Copy)]
enum Text {
    Name,
    Value,
}

impl Fields {
    /// Goes over a part of a head.
    pub(crate) fn read(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            let mut step = 1;
            self.place = match self.place {
                Place::Field => self.field(*first),
                Place::Number { of, value, shift } => {
                    let more = usize::from(first & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
                    let value = value.saturating_add(more);
                    // The library takes no longer number, and ends the connection.
                    if first & 0x80 > 0 {
                        Place::Number { of, value, shift: shift + 7 }
                    } else {
                        self.number(of, value)
                    }
                }
                Place::Length(text) => {
                    let is_huffman = first & 0x80 > 0;
                    self.begin(*first, 7, Number::Length(text, is_huffman))
                }
                Place::Text { of, left, is_huffman, is_first } => {
                    step = left.min(bytes.len());
                    if is_first && matches!(of, Text::Name) {
                        self.is_target = begins_with_colon(*first, is_huffman);
                    }
                    self.text(of, left - step, is_huffman, false)
                }
            };
            bytes = &bytes[step..];
        }
    }

    /// How many fields in the table say where a request goes, if this head has added one.
    pub(crate) fn targets(&self) -> usize {
        self.target.map_or(0, |_| self.added.iter().filter(|added| added.is_target).count())
    }

    /// The head is complete, and came in a buffer of this size. Returns at most how many bytes of buffers are kept now.
    pub(crate) fn end(&mut self, buffer: usize) -> usize {
        self.place = Place::Field;
        self.most_coded = self.most_coded.max(std::mem::take(&mut self.coded));
        let decoded = self.text_buffer();
        if let Some(target) = self.target.take().and_then(|at| self.added.get_mut(at)) {
            target.keeps = buffer + decoded;
            self.kept += target.keeps;
        }
        // The one that is in use stays.
        self.kept + decoded
    }

    /// The most that the library may have for the coded texts of one head.
    fn text_buffer(&self) -> usize {
        let many = if self.most_coded > FEW_CODED_BYTES { ROOM_PER_CODED_BYTE * self.most_coded } else { 0 };
        TEXT_BUFFER_BYTES + many
    }

    fn field(&mut self, first: u8) -> Place {
        self.is_added = first & 0xc0 == 0x40;
        self.is_target = false;
        match first {
            0x80.. => self.begin(first, 7, Number::Other),
            0x40.. => self.begin(first, 6, Number::Name),
            0x20.. => self.begin(first, 5, Number::Other),
            _ => self.begin(first, 4, Number::Name),
        }
    }

    /// A number whose first bits end a byte.
    fn begin(&mut self, first: u8, bits: u32, of: Number) -> Place {
        let most = (1_u8 << bits) - 1;
        let value = usize::from(first & most);
        if first & most == most { Place::Number { of, value, shift: 0 } } else { self.number(of, value) }
    }

    fn number(&mut self, of: Number, value: usize) -> Place {
        match of {
            Number::Other => Place::Field,
            Number::Name if value == 0 => Place::Length(Text::Name),
            Number::Name => {
                let added = value.checked_sub(STATIC_FIELDS + 1).and_then(|back| self.added.get(back));
                self.is_target = STATIC_TARGETS.contains(&value) || added.is_some_and(|added| added.is_target);
                Place::Length(Text::Value)
            }
            Number::Length(text, is_huffman) => {
                self.coded = self.coded.saturating_add(if is_huffman { value } else { 0 });
                self.text(text, value, is_huffman, true)
            }
        }
    }

    fn text(&mut self, of: Text, left: usize, is_huffman: bool, is_first: bool) -> Place {
        match of {
            _ if left > 0 => Place::Text { of, left, is_huffman, is_first },
            Text::Name => Place::Length(Text::Value),
            Text::Value => {
                if self.is_added {
                    self.add();
                }
                Place::Field
            }
        }
    }

    fn add(&mut self) {
        if self.added.len() == MOST_ADDED {
            self.kept -= self.added.pop_back().map_or(0, |oldest| oldest.keeps);
        }
        self.added.push_front(Added { is_target: self.is_target, keeps: 0 });
        self.target = if self.is_target { Some(0) } else { self.target.map(|at| at + 1) };
    }
}

fn begins_with_colon(first: u8, is_huffman: bool) -> bool {
    if is_huffman { HUFFMAN_COLON.contains(&first) } else { first == b':' }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUFFER: usize = 8 * 1024;

    /// How many of these heads keep their buffers, however they are cut.
    fn kept(heads: &[&[u8]]) -> usize {
        let counts = [1, 3, 1000].map(|piece| {
            let mut fields = Fields::default();
            for head in heads {
                head.chunks(piece).for_each(|piece| fields.read(piece));
                fields.end(BUFFER);
            }
            fields.kept / (BUFFER + TEXT_BUFFER_BYTES)
        });
        assert!(counts.iter().all(|count| *count == counts[0]), "{counts:?}");
        counts[0]
    }

    /// A literal with this first byte (or bytes) and this value.
    fn literal(first: &[u8], value: &[u8]) -> Vec<u8> {
        let length = u8::try_from(value.len()).unwrap();
        let length = if length < 127 { vec![length] } else { vec![127, length - 127] };
        [first, &length, value].concat()
    }

    #[test]
    fn where_requests_are_sent_to_counts_when_it_is_added() {
        let other = literal(&[0x40, 1, b'x'], &[b'y'; 200]);
        let path = literal(&[0x44], b"/a");
        assert_eq!(kept(&[&other]), 0);
        assert_eq!(kept(&[&path]), 1, ":path by its number");
        assert_eq!(kept(&[&literal(&[0x04], b"/a")]), 0, "not added");
        assert_eq!(kept(&[&literal(&[0x40, 5, b':', b'p', b'a', b't', b'h'], b"/a")]), 1, ":path in letters");
        assert_eq!(kept(&[&literal(&[0x40, 0x84, 0xb9, 0x58, 0xd3, 0x3f], b"/a")]), 1, "the same, Huffman coded");
        // 62 is what was added last, 63 what was added before.
        let again = [&other[..], &literal(&[0x7f, 0], b"z"), &literal(&[0x7f, 2], b"/b")].concat();
        assert_eq!(kept(&[&path, &again, &other]), 2, "by its place");
        // Size of the table, a whole field of the table, and a field that is never added.
        let rest = [&[0x3f, 0xe1, 0x1f, 0x82][..], &literal(&[0x1f, 1], b"/a")].concat();
        assert_eq!(kept(&[&[&rest[..], &literal(&[0x41], b"host")].concat()]), 1);
    }

    #[test]
    fn what_one_head_says_is_in_one_buffer() {
        let head = [literal(&[0x44], b"/a"), literal(&[0x41], b"host"), literal(&[0x40, 1, b'x'], b"y")].concat();
        assert_eq!(kept(&[&head]), 1);
        assert_eq!(kept(&[&head, &head]), 2);
    }

    #[test]
    fn what_was_added_long_ago_is_not_there_any_more() {
        let mut head = literal(&[0x44], b"/a");
        (0..MOST_ADDED - 1).for_each(|_| head.extend(literal(&[0x40, 1, b'x'], b"")));
        let one_more = literal(&[0x40, 1, b'x'], b"");
        assert_eq!((kept(&[&head]), kept(&[&head, &one_more])), (1, 0));
        head.extend(one_more);
        assert_eq!(kept(&[&head]), 0);
    }

    /// A field added after it keeps the buffer that was made for it.
    #[test]
    fn a_long_coded_text_takes_its_buffer() {
        let mut fields = Fields::default();
        // A user agent of 127 and 3,969 bytes.
        fields.read(&[&[0x0f, 0x2b, 0xff, 0x81, 0x1f][..], &[0; 4096]].concat());
        let long = TEXT_BUFFER_BYTES + 4 * 4096;
        assert_eq!(fields.end(BUFFER), long);
        fields.read(&literal(&[0x44], b"/a"));
        assert_eq!(fields.end(BUFFER), BUFFER + 2 * long);
    }
}
