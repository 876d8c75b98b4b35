//! The tokens of a JSON text.
//!
//! It takes what the JSON parser of the OpenTelemetry Collector 0.158 takes, which is more than JSON where log libraries
//! are careless: control characters in strings (but not NUL), surrogates without their other half (each reads as
//! U+FFFD), numbers with leading zeros or nothing behind the point. Everything else is as in JSON.

use memchr::memchr2;

/// The text is not JSON, or more than we take of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NotJson;

/// What a value is, or begins with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Token<'a> {
    Nested(Nested),
    Scalar(Scalar<'a>),
}

/// A value with values in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nested {
    Object,
    Array,
}

/// A value without values in it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Scalar<'a> {
    Null,
    Bool(bool),
    Number(f64),
    /// UTF-8, because the text is.
    Text(&'a [u8]),
}

/// A position in a text.
#[derive(Debug)]
pub(super) struct Lexer<'t> {
    text: &'t [u8],
    at: usize,
}

impl<'t> Lexer<'t> {
    pub(super) fn new(text: &'t str) -> Self {
        Self { text: text.as_bytes(), at: 0 }
    }

    /// The next byte that is not a space.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            self.at += 1;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
        }
    }

    /// Takes the byte if it is the next one that is not a space.
    pub(super) fn take(&mut self, byte: u8) -> bool {
        let before = self.at;
        let is_it = self.next() == Some(byte);
        if !is_it {
            self.at = before;
        }
        is_it
    }

    /// Takes this byte, or there is no JSON.
    #[inline]
    pub(super) fn expect(&mut self, byte: u8) -> Result<(), NotJson> {
        if self.next() == Some(byte) { Ok(()) } else { Err(NotJson) }
    }

    /// Takes a value; of an object or an array only its first byte. `buffer` is for a string that has escapes.
    #[inline]
    pub(super) fn value<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<Token<'b>, NotJson>
    where
        't: 'b,
    {
        let scalar = match self.next().ok_or(NotJson)? {
            b'"' => Scalar::Text(self.string(buffer)?),
            b'{' => return Ok(Token::Nested(Nested::Object)),
            b'[' => return Ok(Token::Nested(Nested::Array)),
            b't' => self.literal(b"rue", Scalar::Bool(true))?,
            b'f' => self.literal(b"alse", Scalar::Bool(false))?,
            b'n' => self.literal(b"ull", Scalar::Null)?,
            b'-' | b'0'..=b'9' => Scalar::Number(self.number()?),
            _ => return Err(NotJson),
        };
        Ok(Token::Scalar(scalar))
    }

    /// Takes the rest of a string whose quotation mark was taken. With escapes, it is in `buffer`.
    #[inline]
    pub(super) fn string<'b>(&mut self, buffer: &'b mut Vec<u8>) -> Result<&'b [u8], NotJson>
    where
        't: 'b,
    {
        let rest = &self.text[self.at..];
        let end = memchr2(b'"', b'\\', rest).ok_or(NotJson)?;
        self.at += end;
        if rest[end] == b'"' {
            self.at += 1;
            return Ok(&rest[..end]);
        }
        buffer.clear();
        buffer.extend_from_slice(&rest[..end]);
        self.escaped(buffer)?;
        Ok(buffer)
    }

    /// Takes the rest of a string, from a backslash on.
    fn escaped(&mut self, out: &mut Vec<u8>) -> Result<(), NotJson> {
        loop {
            let rest = &self.text[self.at..];
            let end = memchr2(b'"', b'\\', rest).ok_or(NotJson)?;
            out.extend_from_slice(&rest[..end]);
            self.at += end + 1;
            if rest[end] == b'"' {
                return Ok(());
            }
            self.escape(out)?;
        }
    }

    /// Takes what follows a backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), NotJson> {
        let byte = *self.text.get(self.at).ok_or(NotJson)?;
        self.at += 1;
        out.push(match byte {
            b'"' | b'\\' | b'/' => byte,
            b'b' => 0x08,
            b'f' => 0x0c,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => {
                let letter = self.letter()?;
                out.extend_from_slice(letter.encode_utf8(&mut [0; 4]).as_bytes());
                return Ok(());
            }
            _ => return Err(NotJson),
        });
        Ok(())
    }

    /// Takes what follows `\u`, and the other half of a surrogate.
    fn letter(&mut self) -> Result<char, NotJson> {
        let first = self.hex()?;
        if !(0xd800..0xdc00).contains(&first) || !self.text[self.at..].starts_with(b"\\u") {
            return Ok(char::from_u32(first).unwrap_or(char::REPLACEMENT_CHARACTER));
        }
        let after = self.at;
        self.at += 2;
        let second = self.hex()?;
        if !(0xdc00..0xe000).contains(&second) {
            self.at = after;
            return Ok(char::REPLACEMENT_CHARACTER);
        }
        let number = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
        Ok(char::from_u32(number).unwrap_or(char::REPLACEMENT_CHARACTER))
    }

    fn hex(&mut self) -> Result<u32, NotJson> {
        let digits = self.text.get(self.at..self.at + 4).ok_or(NotJson)?;
        self.at += 4;
        digits.iter().try_fold(0, |number, digit| Ok(number << 4 | char::from(*digit).to_digit(16).ok_or(NotJson)?))
    }

    /// Takes the rest of a word.
    fn literal<'b>(&mut self, rest: &[u8], value: Scalar<'b>) -> Result<Scalar<'b>, NotJson> {
        if !self.text[self.at..].starts_with(rest) {
            return Err(NotJson);
        }
        self.at += rest.len();
        Ok(value)
    }

    /// Takes a number whose first byte was taken.
    fn number(&mut self) -> Result<f64, NotJson> {
        let from = self.at - 1;
        let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'+' | b'-' | b'.' | b'e' | b'E');
        let length = self.text[from..].iter().position(|byte| !is_part(byte)).ok_or(NotJson)?;
        self.at = from + length;
        let digits = &self.text[from..self.at];
        if length <= SHORT && digits.iter().all(u8::is_ascii_digit) {
            let number = digits.iter().fold(0u64, |number, digit| number * 10 + u64::from(digit - b'0'));
            return Ok(number as f64);
        }
        let number: f64 = std::str::from_utf8(digits).map_err(|_| NotJson)?.parse().map_err(|_| NotJson)?;
        if number.is_finite() { Ok(number) } else { Err(NotJson) }
    }
}

/// Integers of so many digits are exact as a double.
const SHORT: usize = 15;
