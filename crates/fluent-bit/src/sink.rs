//! Where bytes go: into a buffer, or nowhere, to learn how many there are.

use std::ops::Range;

/// Takes bytes.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    /// Bytes so far.
    fn len(&self) -> usize;

    /// Puts bytes once more that were put before.
    fn repeat(&mut self, range: Range<usize>);

    /// Replaces bytes that were put before.
    fn set(&mut self, at: usize, bytes: [u8; 4]);

    /// Puts a string with the escapes that JSON wants, without quotation marks.
    fn put_escaped(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        while let Some(at) = first_escape(rest) {
            self.put(&rest[..at]);
            put_escape(self, rest[at]);
            rest = &rest[at + 1..];
        }
        self.put(rest);
    }
}

/// What stands for a byte that cannot stand in a string of JSON.
fn put_escape(out: &mut (impl Sink + ?Sized), byte: u8) {
    match byte {
        b'\n' => out.put(b"\\n"),
        b'\r' => out.put(b"\\r"),
        b'\t' => out.put(b"\\t"),
        b'"' | b'\\' => out.put(&[b'\\', byte]),
        _ => out.put(&[b'\\', b'u', b'0', b'0', hex(byte >> 4), hex(byte & 15)]),
    }
}

fn hex(digit: u8) -> u8 {
    if digit < 10 { b'0' + digit } else { b'a' + digit - 10 }
}

fn is_escape(byte: u8) -> bool {
    byte < 0x20 || byte == b'"' || byte == b'\\'
}

/// Bytes that are looked at in one step: what is between the quotation marks of a JSON line is short.
const WORD: usize = size_of::<u64>();

/// Where the first byte is that cannot stand in a string of JSON.
pub(crate) fn first_escape(text: &[u8]) -> Option<usize> {
    let (words, rest) = text.as_chunks::<WORD>();
    let found = words.iter().enumerate().find_map(|(index, word)| Some(index * WORD + first_in(*word)?));
    found.or_else(|| Some(words.len() * WORD + rest.iter().position(|byte| is_escape(*byte))?))
}

/// The same in eight bytes, without a look at each: a byte with such a property gets its highest bit, and what a borrow
/// does to the bytes after the first one does not matter.
fn first_in(word: [u8; WORD]) -> Option<usize> {
    const ONES: u64 = u64::MAX / 255;
    const HIGHS: u64 = ONES << 7;
    let word = u64::from_le_bytes(word);
    let is_below = |word: u64, limit: u8| word.wrapping_sub(ONES * u64::from(limit)) & !word;
    let is = |byte: u8| is_below(word ^ (ONES * u64::from(byte)), 1);
    let found = (is_below(word, 0x20) | is(b'"') | is(b'\\')) & HIGHS;
    (found != 0).then_some(found.trailing_zeros() as usize / 8)
}

/// Bytes that escapes add to a text.
fn escapes(text: &[u8]) -> usize {
    let is_long = |byte: u8| byte < 0x20 && !matches!(byte, b'\n' | b'\r' | b'\t');
    count(text, is_escape) + 4 * count(text, is_long)
}

/// Blocks have as many bytes as a byte can count, so that many are counted at once.
fn count(text: &[u8], is_it: impl Fn(u8) -> bool) -> usize {
    text.chunks(255).map(|block| usize::from(block.iter().fold(0, |sum: u8, byte| sum + u8::from(is_it(*byte))))).sum()
}

/// Counts.
#[derive(Debug, Default)]
pub(crate) struct Length(pub(crate) usize);

impl Sink for Length {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }

    fn len(&self) -> usize {
        self.0
    }

    fn repeat(&mut self, range: Range<usize>) {
        self.0 += range.len();
    }

    fn set(&mut self, _: usize, _: [u8; 4]) {}

    fn put_escaped(&mut self, text: &str) {
        self.0 += text.len() + escapes(text.as_bytes());
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }

    fn len(&self) -> usize {
        Self::len(self)
    }

    fn repeat(&mut self, range: Range<usize>) {
        self.extend_from_within(range);
    }

    fn set(&mut self, at: usize, bytes: [u8; 4]) {
        self[at..at + 4].copy_from_slice(&bytes);
    }

    fn put_escaped(&mut self, text: &str) {
        let mut rest = text.as_bytes();
        while let Some(word) = rest.first_chunk::<WORD>() {
            // A copy of a fixed length is cheap. What is too much of it makes room for the escape.
            self.extend_from_slice(word);
            let Some(at) = first_in(*word) else {
                rest = &rest[WORD..];
                continue;
            };
            self.truncate(Self::len(self) - WORD + at);
            put_escape(self, word[at]);
            rest = &rest[at + 1..];
        }
        for byte in rest {
            if is_escape(*byte) { put_escape(self, *byte) } else { self.push(*byte) }
        }
    }
}

impl<S: Sink> Sink for &mut S {
    fn put(&mut self, bytes: &[u8]) {
        (**self).put(bytes);
    }

    fn len(&self) -> usize {
        (**self).len()
    }

    fn repeat(&mut self, range: Range<usize>) {
        (**self).repeat(range);
    }

    fn set(&mut self, at: usize, bytes: [u8; 4]) {
        (**self).set(at, bytes);
    }

    fn put_escaped(&mut self, text: &str) {
        (**self).put_escaped(text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every byte at every place, beside others that are to be escaped and that look like them.
    #[test]
    fn escapes_are_found_wherever_they_are() {
        for byte in 0..=u8::MAX {
            for around in [b'a', 0x7f, 0xa2, 0xdc, 0x9f, 0xff, b'"'] {
                for place in 0..20 {
                    let mut text = [around; 20];
                    text[place] = byte;
                    let expected = text.iter().position(|byte| is_escape(*byte));
                    assert_eq!(first_escape(&text), expected, "{byte} at {place} among {around}");
                    assert_eq!(first_escape(&text[place..]), text[place..].iter().position(|byte| is_escape(*byte)));
                }
            }
        }
    }

    #[test]
    fn what_is_escaped_is_json_and_as_long_as_it_was_said() {
        let mut rng = fastrand::Rng::with_seed(5);
        for _ in 0..20_000 {
            let letters = ['a', '"', '\\', '\n', '\t', '\r', '\u{1}', '\u{1f}', ' ', 'ä', '漢', '\u{7f}'];
            let text: String = (0..rng.usize(..40)).map(|_| letters[rng.usize(..letters.len())]).collect();
            let (mut out, mut length) = (Vec::new(), Length::default());
            out.put_escaped(&text);
            length.put_escaped(&text);
            assert_eq!(out.len(), length.0, "{text:?}");
            let quoted = [b"\"", out.as_slice(), b"\""].concat();
            assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
        }
        let mut length = Length::default();
        length.put_escaped(&"\u{1}".repeat(1000));
        assert_eq!(length.0, 6000);
    }
}
