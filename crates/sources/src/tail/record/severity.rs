//! What a level means.
//!
//! Names are those of the default mapping of the Collector's severity parser, in any case: `trace`, `debug`, `info`,
//! `warn` or `warning`, `error` or `err`, `fatal`; each may end in 2, 3 or 4; and the numbers 1 to 24 are OTLP's own.
//! Anything else, such as `critical` or the 30 of pino, is a text without a number.

use std::io::Write;

use weir_otlp::common::AnyValue;

/// The text of a severity that was written as a number.
const DIGITS: usize = 24;

/// Severity as a record has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Severity<'a> {
    /// 0 when the text has no meaning.
    pub(super) number: u8,
    text: Text<'a>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text<'a> {
    Written(&'a str),
    Number { digits: [u8; DIGITS], length: usize },
}

impl<'a> Severity<'a> {
    /// The severity that a level says; `None` when a level cannot be such a value: a truth value, a list, a map, a
    /// number with a fraction or beyond 64 bits.
    pub(super) fn of(level: AnyValue<'a>) -> Option<Self> {
        let text = match level {
            AnyValue::String(text) => Text::Written(text),
            AnyValue::Double(number) => whole(number)?,
            _ => return None,
        };
        let severity = Self { number: 0, text };
        Some(Self { number: number(severity.text()), ..severity })
    }

    /// The level as it was written, of numbers only the whole part.
    pub(super) fn text(&self) -> &[u8] {
        match &self.text {
            Text::Written(text) => text.as_bytes(),
            Text::Number { digits, length } => &digits[..*length],
        }
    }
}

fn whole<'a>(number: f64) -> Option<Text<'a>> {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if number.trunc() != number || !(-END..END).contains(&number) {
        return None;
    }
    let mut digits = [0; DIGITS];
    let mut rest = &mut digits[..];
    // Zero has no sign here.
    write!(rest, "{:.0}", number + 0.0).ok()?;
    let length = DIGITS - rest.len();
    Some(Text::Number { digits, length })
}

/// The severity number of a level, 0 for one that has none.
fn number(text: &[u8]) -> u8 {
    let mut lower = [0; 8];
    let Some(lower) = lower.get_mut(..text.len()) else { return 0 };
    lower.copy_from_slice(text);
    lower.make_ascii_lowercase();
    match *lower {
        [digit @ b'1'..=b'9'] => digit - b'0',
        [tens @ b'1'..=b'2', ones @ b'0'..=b'9'] => {
            let number = (tens - b'0') * 10 + ones - b'0';
            if number <= 24 { number } else { 0 }
        }
        [ref name @ .., step @ b'2'..=b'4'] => base(name).map_or(0, |base| base + step - b'1'),
        ref name => base(name).unwrap_or(0),
    }
}

fn base(name: &[u8]) -> Option<u8> {
    Some(match name {
        b"trace" => 1,
        b"debug" => 5,
        b"info" => 9,
        b"warn" | b"warning" => 13,
        b"error" | b"err" => 17,
        b"fatal" => 21,
        _ => return None,
    })
}
