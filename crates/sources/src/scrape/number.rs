//! Numbers of a page.

/// The number that a text begins with, and what follows it: up to the next white space. `None` when it is none.
///
/// Takes what Go's `strconv.ParseFloat` takes, except hexadecimal numbers and underscores, which no page has.
pub(super) fn number(text: &[u8]) -> Option<(f64, &[u8])> {
    plain(text).or_else(|| any(text))
}

/// Powers of ten that a double has exactly.
const POWERS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// Digits with at most one point, few enough that their number and a power of ten are exact: then so is their quotient,
/// rounded once. That is nearly every value there is.
fn plain(text: &[u8]) -> Option<(f64, &[u8])> {
    let (is_negative, digits) = match text.first()? {
        b'-' => (true, &text[1..]),
        _ => (false, text),
    };
    let (mut mantissa, mut at, mut point) = (0_u64, 0, None);
    while let Some(byte) = digits.get(at) {
        match byte {
            b'0'..=b'9' => mantissa = mantissa * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() => point = Some(at),
            b' ' | b'\t' | b'\n' | b'\r' => break,
            _ => return None,
        }
        at += 1;
        // Sixteen characters: fifteen digits and a point, or sixteen digits that may be too many.
        if at > 16 {
            return None;
        }
    }
    let decimals = point.map_or(0, |point| at - point - 1);
    if at == 0 || (at == 1 && point.is_some()) || mantissa > 1 << 53 {
        return None;
    }
    #[expect(clippy::cast_precision_loss, reason = "at most 2^53")]
    let value = mantissa as f64 / POWERS[decimals];
    Some((if is_negative { -value } else { value }, &digits[at..]))
}

fn any(text: &[u8]) -> Option<(f64, &[u8])> {
    let end = text.iter().position(u8::is_ascii_whitespace).unwrap_or(text.len());
    let value: f64 = std::str::from_utf8(&text[..end]).ok()?.parse().ok()?;
    let is_too_large = value.is_infinite() && text[..end].iter().any(u8::is_ascii_digit);
    (!is_too_large).then_some((value, &text[end..]))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn value(text: &str) -> Option<f64> {
        number(text.as_bytes()).map(|(value, _)| value)
    }

    #[test]
    fn every_form_is_read() {
        for (text, expected) in [
            ("0", 0.0),
            ("-0", -0.0),
            ("42", 42.0),
            ("-1.5", -1.5),
            ("1.", 1.0),
            (".5", 0.5),
            ("+3", 3.0),
            ("1e3", 1000.0),
            ("1.7976931348623157e+308", f64::MAX),
            ("9007199254740993", 9_007_199_254_740_992.0),
            ("18446744073709551615", 18_446_744_073_709_551_615.0),
            ("0.30000000000000004", 0.300_000_000_000_000_04),
            ("+Inf", f64::INFINITY),
            ("-inf", f64::NEG_INFINITY),
        ] {
            assert_eq!(value(text).map(f64::to_bits), Some(expected.to_bits()), "{text}");
        }
        assert!(value("NaN").unwrap().is_nan());
        for none in ["", "-", ".", "-.", "1.2.3", "1x", "0x1p3", "1_000", "one", "1e400", "-1e400"] {
            assert_eq!(value(none), None, "{none}");
        }
        assert_eq!(number(b"1.5 17"), Some((1.5, &b" 17"[..])));
        assert_eq!(number(b"1e5\t17"), Some((1e5, &b"\t17"[..])));
    }

    proptest! {
        #[test]
        fn it_is_what_the_standard_library_reads(text in r"-?[0-9]{0,18}\.?[0-9]{0,18}(e[+-]?[0-9]{1,2})?") {
            let expected = text.parse::<f64>().ok().map(f64::to_bits);
            prop_assert_eq!(value(&text).map(f64::to_bits), expected);
        }
    }
}
