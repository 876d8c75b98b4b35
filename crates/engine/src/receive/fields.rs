//! What compressed heads leave in the table of an HTTP/2 connection (RFC 7541).
//!
//! The library copies what goes into that table, but not what a request is sent to: of `:path`, `:authority` and `:scheme`
//! it keeps the whole buffer in which the head came. A hundred small ones, each in a large head, would keep megabytes. So
//! this follows the fields and counts those; it decodes none.

/// Names that the library keeps with their buffer, in the table that every connection begins with.
const STATIC_TARGETS: std::ops::RangeInclusive<usize> = 1..=7;
/// Before the first field that was added; the newest is next.
const STATIC_FIELDS: usize = 61;
/// First bytes of a name that begins with a colon, Huffman coded: seven bits are the colon's.
const HUFFMAN_COLON: [u8; 2] = [0xb8, 0xb9];

/// The fields of one connection, as far as they were read.
#[derive(Debug, Default)]
pub(super) struct Fields {
    place: Place,
    /// The field that is being read goes into the table.
    is_added: bool,
    /// It says where a request is sent to.
    is_target: bool,
    /// Which of those that were added say that: the lowest bit is the newest. A table of 4 KiB has no more than 128.
    targets: u128,
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
    /// Of a field without texts, or the size of the table: nothing follows from it.
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
    pub(super) fn read(&mut self, mut bytes: &[u8]) {
        while let Some(first) = bytes.first() {
            let mut step = 1;
            self.place = match self.place {
                Place::Field => self.field(*first),
                Place::Number { of, value, shift } => {
                    let more = usize::from(first & 0x7f).checked_shl(shift).unwrap_or(usize::MAX);
                    let value = value.saturating_add(more);
                    // What is longer is no number for the library, which ends the connection.
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

    /// The head is complete. At most how many buffers the table keeps.
    pub(super) fn end(&mut self) -> usize {
        self.place = Place::Field;
        self.targets.count_ones() as usize
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
                let added = value.checked_sub(STATIC_FIELDS + 1).and_then(|back| u32::try_from(back).ok());
                let is_known = |back| self.targets.checked_shr(back).is_some_and(|targets| targets & 1 > 0);
                self.is_target = STATIC_TARGETS.contains(&value) || added.is_some_and(is_known);
                Place::Length(Text::Value)
            }
            Number::Length(text, is_huffman) => self.text(text, value, is_huffman, true),
        }
    }

    fn text(&mut self, of: Text, left: usize, is_huffman: bool, is_first: bool) -> Place {
        match of {
            _ if left > 0 => Place::Text { of, left, is_huffman, is_first },
            Text::Name => Place::Length(Text::Value),
            Text::Value => {
                if self.is_added {
                    self.targets = self.targets << 1 | u128::from(self.is_target);
                }
                Place::Field
            }
        }
    }
}

fn begins_with_colon(first: u8, is_huffman: bool) -> bool {
    if is_huffman { HUFFMAN_COLON.contains(&first) } else { first == b':' }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a head, however it is cut.
    fn kept(head: &[u8]) -> usize {
        let counts = [1, 3, 1000].map(|piece| {
            let mut fields = Fields::default();
            head.chunks(piece).for_each(|piece| fields.read(piece));
            fields.end()
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
        assert_eq!(kept(&other), 0);
        assert_eq!(kept(&literal(&[0x44], b"/a")), 1, ":path by its number");
        assert_eq!(kept(&literal(&[0x04], b"/a")), 0, "not added");
        assert_eq!(kept(&literal(&[0x40, 5, b':', b'p', b'a', b't', b'h'], b"/a")), 1, ":path in letters");
        assert_eq!(kept(&literal(&[0x40, 0x84, 0xb9, 0x58, 0xd3, 0x3f], b"/a")), 1, "the same, Huffman coded");
        // 62 is what was added last, 63 what was added before.
        assert_eq!(
            kept(&[literal(&[0x44], b"/a"), other, literal(&[0x7f, 0], b"/b"), literal(&[0x7f, 1], b"")].concat()),
            3,
            "by its place"
        );
        // Size of the table, a whole field of the table, and a field that is never added.
        let rest = [&[0x3f, 0xe1, 0x1f, 0x82][..], &literal(&[0x1f, 1], b"/a")].concat();
        assert_eq!(kept(&[&rest[..], &literal(&[0x41], b"host")].concat()), 1);
    }

    #[test]
    fn what_was_added_long_ago_is_not_there_any_more() {
        let mut head = literal(&[0x44], b"/a");
        (0..128).for_each(|_| head.extend(literal(&[0x40, 1, b'x'], b"")));
        assert_eq!(kept(&head), 0);
    }
}
