//! JSON as RFC 8259 has it, read without a tree.
//!
//! It is stricter than the tailer's reader of attributes, because members are sent on as they were written: one that a
//! backend could not read would spoil the whole request.

use std::borrow::Cow;

use memchr::{memchr, memchr2};

use crate::sink::first_escape;

/// The text is not JSON, or deeper than [`DEEPEST`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Objects and arrays in each other.
const DEEPEST: u32 = 64;

/// A number of so many digits is no larger than the largest double, 1.8e308.
const LONGEST_SMALL: usize = 308;

/// A value with values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Nested {
    Object,
    Array,
}

/// A value without values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scalar<'t> {
    Null,
    Bool(bool),
    /// As it was written.
    Number(&'t str),
    /// As it was written, without quotation marks: see [`unescape`].
    Text(&'t str),
}

/// Is told what is in a value, in the order of the text.
pub(crate) trait Visitor {
    /// An object or array begins at this place of the text.
    fn open(&mut self, nested: Nested, at: usize);
    /// It ended before this place.
    fn close(&mut self, nested: Nested, end: usize);
    /// A name, as it was written.
    fn key(&mut self, raw: &str);
    fn scalar(&mut self, scalar: Scalar<'_>);
}

/// Looks for nothing but mistakes.
impl Visitor for () {
    fn open(&mut self, _: Nested, _: usize) {}
    fn close(&mut self, _: Nested, _: usize) {}
    fn key(&mut self, _: &str) {}
    fn scalar(&mut self, _: Scalar<'_>) {}
}

/// A position in a text.
#[derive(Debug)]
pub(crate) struct Lexer<'t> {
    text: &'t str,
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn at(&self) -> usize {
        self.at
    }

    /// The next byte that is not a space, which stays to be read.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.as_bytes().get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }

    /// Takes the byte if it is the next one that is not a space.
    pub(crate) fn take(&mut self, byte: u8) -> bool {
        let is_it = self.peek() == Some(byte);
        self.at += usize::from(is_it);
        is_it
    }

    /// Takes the byte, or there is no JSON.
    pub(crate) fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.take(byte) { Ok(()) } else { Err(NotJson) }
    }

    /// Takes a string, as it was written.
    pub(crate) fn string(&mut self) -> Result<&'t str, NotJson> {
        self.expect(b'"')?;
        let start = self.at;
        loop {
            let rest = &self.text.as_bytes()[self.at..];
            let end = first_escape(rest).ok_or(NotJson)?;
            self.at += end + 1;
            match rest[end] {
                b'"' => return Ok(&self.text[start..self.at - 1]),
                b'\\' => self.escape()?,
                _ => return Err(NotJson),
            }
        }
    }

    /// Takes what follows a backslash. Half of a surrogate is no text, and many readers refuse it.
    fn escape(&mut self) -> Result<(), NotJson> {
        let byte = *self.text.as_bytes().get(self.at).ok_or(NotJson)?;
        self.at += 1;
        match byte {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => Ok(()),
            b'u' => match self.hex()? {
                0xd800..0xdc00 => {
                    let is_pair = self.text.as_bytes()[self.at..].starts_with(b"\\u");
                    self.at += 2;
                    if is_pair && (0xdc00..0xe000).contains(&self.hex()?) { Ok(()) } else { Err(NotJson) }
                }
                0xdc00..0xe000 => Err(NotJson),
                _ => Ok(()),
            },
            _ => Err(NotJson),
        }
    }

    fn hex(&mut self) -> Result<u32, NotJson> {
        let digits = self.text.as_bytes().get(self.at..self.at + 4).ok_or(NotJson)?;
        self.at += 4;
        digits.iter().try_fold(0, |number, digit| Ok(number << 4 | char::from(*digit).to_digit(16).ok_or(NotJson)?))
    }

    /// Takes a value whose objects and arrays are in `depth` others.
    pub(crate) fn value(&mut self, visitor: &mut impl Visitor, depth: u32) -> Result<(), NotJson> {
        let scalar = match self.peek().ok_or(NotJson)? {
            b'"' => Scalar::Text(self.string()?),
            b'{' => return self.nested(Nested::Object, visitor, depth),
            b'[' => return self.nested(Nested::Array, visitor, depth),
            b't' => self.literal("true", Scalar::Bool(true))?,
            b'f' => self.literal("false", Scalar::Bool(false))?,
            b'n' => self.literal("null", Scalar::Null)?,
            _ => Scalar::Number(self.number()?),
        };
        visitor.scalar(scalar);
        Ok(())
    }

    fn nested(&mut self, nested: Nested, visitor: &mut impl Visitor, depth: u32) -> Result<(), NotJson> {
        if depth >= DEEPEST {
            return Err(NotJson);
        }
        visitor.open(nested, self.at);
        self.at += 1;
        let end = if nested == Nested::Object { b'}' } else { b']' };
        if !self.take(end) {
            loop {
                if nested == Nested::Object {
                    self.peek();
                    visitor.key(self.string()?);
                    self.expect(b':')?;
                }
                self.value(visitor, depth + 1)?;
                if self.take(end) {
                    break;
                }
                self.expect(b',')?;
            }
        }
        visitor.close(nested, self.at);
        Ok(())
    }

    fn literal(&mut self, word: &str, value: Scalar<'static>) -> Result<Scalar<'t>, NotJson> {
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return Err(NotJson);
        }
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<&'t str, NotJson> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        let zero = self.byte() == Some(b'0');
        if self.digits()? > 1 && zero {
            return Err(NotJson);
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let number = &self.text[start..self.at];
        // Most readers make a double of it, and refuse the whole text if there is none.
        let may_be_large = number.len() > LONGEST_SMALL || memchr2(b'e', b'E', number.as_bytes()).is_some();
        if may_be_large && !number.parse().is_ok_and(f64::is_finite) {
            return Err(NotJson);
        }
        Ok(number)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Takes at least one digit; how many there are.
    fn digits(&mut self) -> Result<usize, NotJson> {
        let count = self.text.as_bytes()[self.at..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        if count > 0 { Ok(count) } else { Err(NotJson) }
    }
}

/// What a valid string means.
pub(crate) fn unescape(raw: &str) -> Cow<'_, str> {
    let Some(first) = memchr(b'\\', raw.as_bytes()) else { return Cow::Borrowed(raw) };
    let mut out = String::with_capacity(raw.len());
    out.push_str(&raw[..first]);
    let mut letters = raw[first..].chars();
    while let Some(letter) = letters.next() {
        out.push(if letter == '\\' { escaped(&mut letters) } else { letter });
    }
    Cow::Owned(out)
}

fn escaped(letters: &mut std::str::Chars<'_>) -> char {
    match letters.next().unwrap_or_default() {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let mut half =
                || letters.by_ref().take(4).fold(0, |number, digit| number << 4 | digit.to_digit(16).unwrap_or(0));
            let first = half();
            if !(0xd800..0xdc00).contains(&first) {
                return char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER);
            }
            letters.by_ref().take(2).for_each(drop);
            let mut half =
                || letters.by_ref().take(4).fold(0, |number, digit| number << 4 | digit.to_digit(16).unwrap_or(0));
            let second: u32 = half();
            let number = 0x1_0000 + ((first - 0xd800) << 10) + second.saturating_sub(0xdc00);
            char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER)
        }
        letter => letter,
    }
}
