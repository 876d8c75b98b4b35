//! Text to tokens with byte positions.
//!
//! The tokens are those of the reference lexer (`buildLexer` in `pkg/ottl/grammar.go`), with one difference: a name is
//! one token whatever its case, so that `Is Match` is not a name.

use std::ops::Range;

use crate::error::Fault;

/// What a token is.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Token {
    /// A bytes literal.
    Bytes(Vec<u8>),
    /// A floating point literal.
    Float(f64),
    /// An integer literal, without a sign.
    Int(i64),
    /// A string literal with its escapes resolved.
    String(String),
    /// A name or a keyword.
    Name,
    /// An operator or a punctuation mark, as it is written.
    Mark(&'static str),
    /// The end of the text.
    End,
}

/// A token and where it stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Spanned {
    pub(crate) token: Token,
    pub(crate) range: Range<usize>,
}

/// Operators and punctuation, longer ones first.
pub(crate) const MARKS: &[&str] =
    &["==", "!=", ">=", "<=", "=>", ">", "<", "+", "-", "/", "*", "=", "(", ")", "{", "}", ":", ",", ".", "[", "]"];

/// All tokens of a text; the last one is [`Token::End`].
pub(crate) fn tokens(text: &str) -> Result<Vec<Spanned>, Fault> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while let Some(first) = text[at..].chars().next() {
        if first.is_ascii_whitespace() {
            at += 1;
            continue;
        }
        let (token, length) = next(&text[at..], first, at)?;
        tokens.push(Spanned { token, range: at..at + length });
        at += length;
    }
    tokens.push(Spanned { token: Token::End, range: text.len()..text.len() });
    Ok(tokens)
}

fn next(rest: &str, first: char, at: usize) -> Result<(Token, usize), Fault> {
    if let Some(found) = bytes(rest, at)? {
        return Ok(found);
    }
    let fraction = first == '.' && rest[1..].starts_with(|next: char| next.is_ascii_digit());
    if first.is_ascii_digit() || fraction {
        return number(rest, at);
    }
    if first == '"' {
        return string(rest, at);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let length = span_of(rest, |byte| byte.is_ascii_alphanumeric() || byte == b'_');
        return Ok((Token::Name, length));
    }
    match MARKS.iter().find(|mark| rest.starts_with(**mark)) {
        Some(mark) => Ok((Token::Mark(mark), mark.len())),
        None => Err(unexpected(first, at)),
    }
}

fn unexpected(char: char, at: usize) -> Fault {
    let fault = Fault::new(at..at + char.len_utf8(), format!("unexpected character {char:?}"));
    match char {
        '\'' | '`' | '“' | '”' => fault.help("strings stand in double quotes"),
        '&' => fault.help("write \"and\""),
        '|' => fault.help("write \"or\""),
        '!' => fault.help("write \"not\""),
        _ => fault,
    }
}

fn span_of(text: &str, belongs: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|byte| belongs(*byte)).count()
}

fn bytes(rest: &str, at: usize) -> Result<Option<(Token, usize)>, Fault> {
    let Some(digits) = rest.strip_prefix("0x") else { return Ok(None) };
    let digits = &digits[..span_of(digits, |byte| byte.is_ascii_hexdigit())];
    if digits.is_empty() {
        return Ok(None);
    }
    let length = digits.len() + 2;
    let value = crate::value::text::from_hex(digits.as_bytes())
        .ok_or_else(|| Fault::new(at..at + length, "bytes literal with an odd number of digits"))?;
    Ok(Some((Token::Bytes(value), length)))
}

fn number(rest: &str, at: usize) -> Result<(Token, usize), Fault> {
    let whole = span_of(rest, |byte| byte.is_ascii_digit());
    let Some(fraction) = rest[whole..].strip_prefix('.') else {
        let value = rest[..whole].parse();
        let value = value.map_err(|_| Fault::new(at..at + whole, "integer that does not fit 64 bits"))?;
        return Ok((Token::Int(value), whole));
    };
    let mut length = whole + 1 + span_of(fraction, |byte| byte.is_ascii_digit());
    if let Some(exponent) = rest[length..].strip_prefix(['e', 'E']) {
        let sign = usize::from(exponent.starts_with(['+', '-']));
        let digits = span_of(&exponent[sign..], |byte| byte.is_ascii_digit());
        if digits > 0 {
            length += 1 + sign + digits;
        }
    }
    let value = rest[..length].parse().ok().filter(|value: &f64| value.is_finite());
    let value = value.ok_or_else(|| Fault::new(at..at + length, "number that is out of range"))?;
    Ok((Token::Float(value), length))
}

/// A string literal with Go's escapes, which are what the reference resolves.
fn string(rest: &str, at: usize) -> Result<(Token, usize), Fault> {
    let mut value = Vec::new();
    let mut index = 1;
    loop {
        let plain = span_of(&rest[index..], |byte| !matches!(byte, b'"' | b'\\' | b'\n'));
        value.extend_from_slice(&rest.as_bytes()[index..index + plain]);
        index += plain;
        match rest.as_bytes().get(index) {
            Some(b'"') => break,
            Some(b'\\') => match escape(&rest[index + 1..], &mut value) {
                Some(length) => index += 1 + length,
                None => {
                    let letter = rest[index + 1..].chars().next().map_or(0, char::len_utf8);
                    let range = at + index..at + index + 1 + letter;
                    return Err(Fault::new(range, "unknown escape in a string").help("a backslash is written \\\\"));
                }
            },
            Some(_) => {
                let range = at + index..at + index;
                return Err(Fault::new(range, "line break in a string").help("write \\n"));
            }
            None => {
                let fault = Fault::new(at..at + 1, "string without an end");
                return Err(fault.help("a string ends with a double quote"));
            }
        }
    }
    let range = at..at + index + 1;
    let value = String::from_utf8(value).map_err(|_| Fault::new(range, "string whose escapes are not UTF-8"))?;
    Ok((Token::String(value), index + 1))
}

/// Resolves what follows a backslash. Returns how many bytes that was.
fn escape(rest: &str, value: &mut Vec<u8>) -> Option<usize> {
    let code = |start: usize, digits: usize, radix| u32::from_str_radix(rest.get(start..start + digits)?, radix).ok();
    let simple = match rest.bytes().next()? {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        byte @ (b'\\' | b'"') => byte,
        b'x' => {
            value.push(u8::try_from(code(1, 2, 16)?).ok()?);
            return Some(3);
        }
        b'0'..=b'7' => {
            value.push(u8::try_from(code(0, 3, 8)?).ok()?);
            return Some(3);
        }
        unicode @ (b'u' | b'U') => {
            let digits = if unicode == b'u' { 4 } else { 8 };
            let char = char::from_u32(code(1, digits, 16)?)?;
            value.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            return Some(1 + digits);
        }
        _ => return None,
    };
    value.push(simple);
    Some(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Token> {
        tokens(text).unwrap().into_iter().map(|spanned| spanned.token).collect()
    }

    #[test]
    fn numbers_strings_and_bytes() {
        let string = |text: &str| Token::String(text.to_owned());
        assert_eq!(
            kinds("1 2.5 .5 3."),
            [Token::Int(1), Token::Float(2.5), Token::Float(0.5), Token::Float(3.0), Token::End]
        );
        assert_eq!(kinds("1.5e-3 0xA0ff"), [Token::Float(0.0015), Token::Bytes(vec![0xa0, 0xff]), Token::End]);
        assert_eq!(kinds(r#""a\\\"\n\u00e9\x41\101é""#), [string("a\\\"\néAAé"), Token::End]);
    }

    #[test]
    fn what_is_not_a_token_is_pointed_at() {
        let fails = |text: &str, range: Range<usize>| assert_eq!(tokens(text).unwrap_err().range, range, "{text}");
        fails("a 'b'", 2..3);
        fails("\"a\\qb\"", 2..4);
        fails("\"abc", 0..1);
        fails("99999999999999999999", 0..20);
        fails("0xabc", 0..5);
        fails("\"\\xff\"", 0..6);
    }
}
