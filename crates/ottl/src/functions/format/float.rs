//! Floating point numbers, as `strconv.FormatFloat` of Go writes them.

use super::spec::Spec;

/// The most digits that a number can have behind its point, in either notation: the smallest number is 2^-1074. Further
/// digits are zeros, which `format!` would not write for a precision of any size.
const MAX_DIGITS: usize = 1074;

impl Spec {
    /// Appends a number; none when the verb is not for decimal numbers.
    pub(super) fn float(&self, value: f64, verb: char, out: &mut String) -> Option<()> {
        let number = self.digits(value.abs(), verb)?;
        let sign = match value.is_sign_negative() && !value.is_nan() {
            true => "-",
            false if self.plus => "+",
            false if self.space => " ",
            false => "",
        };
        // Infinities are always signed in Go, but a plus is only shown when asked for.
        if !value.is_finite() {
            let sign = if value == f64::INFINITY && sign.is_empty() { "+" } else { sign };
            self.pad_with_spaces(&format!("{sign}{number}"), out);
            return Some(());
        }
        let width = self.width.map(|width| width.saturating_sub(sign.len()));
        match self.zero && !self.minus {
            true => {
                out.push_str(sign);
                Self { width, ..*self }.pad(&number, out);
            }
            false => self.pad(&format!("{sign}{number}"), out),
        }
        Some(())
    }

    /// The number without its sign.
    fn digits(&self, value: f64, verb: char) -> Option<String> {
        if value.is_nan() {
            return Some("NaN".to_owned());
        }
        if value.is_infinite() {
            return Some("Inf".to_owned());
        }
        let text = match verb {
            'f' | 'F' => fixed(value, self.precision.unwrap_or(6)),
            'e' | 'E' => exponent(&scientific(value, self.precision.unwrap_or(6))),
            'g' | 'G' | 'v' => self.shortest(value),
            _ => return None,
        };
        let text = if self.sharp { self.with_point(text, verb) } else { text };
        Some(if matches!(verb, 'E' | 'G') { text.to_uppercase() } else { text })
    }

    /// With an exponent when it is large or very small, and with only as many digits as matter.
    fn shortest(&self, value: f64) -> String {
        let precision = self.precision.map(|precision| precision.max(1));
        let scientific = match precision {
            Some(precision) => scientific(value, (precision - 1).min(MAX_DIGITS)),
            None => format!("{value:e}"),
        };
        let (mantissa, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let power: i32 = power.parse().unwrap_or_default();
        let mantissa = if mantissa.contains('.') { mantissa.trim_end_matches('0') } else { mantissa };
        let mantissa = mantissa.trim_end_matches('.');
        let decimals = i32::try_from(mantissa.len().saturating_sub(2)).unwrap_or(i32::MAX);
        let most = match precision.map(|precision| i32::try_from(precision).unwrap_or(i32::MAX)) {
            None => 6,
            // Digits that are all there is decide, when they reach to the point.
            Some(most) if most > decimals + 1 && decimals >= power => decimals + 1,
            Some(most) => most,
        };
        if power < -4 || power >= most {
            return exponent(&format!("{mantissa}e{power}"));
        }
        fixed(value, usize::try_from(decimals - power).unwrap_or_default())
    }

    /// With a point, and with the zeros at the end that `g` leaves out.
    fn with_point(&self, text: String, verb: char) -> String {
        let (number, tail) = match text.find('e') {
            Some(at) => text.split_at(at),
            None => (text.as_str(), ""),
        };
        let mut number = number.to_owned();
        if !number.contains('.') {
            number.push('.');
        }
        if matches!(verb, 'g' | 'G' | 'v') {
            let digits = number.trim_start_matches(['0', '.']).bytes().filter(u8::is_ascii_digit).count();
            // A zero before the point counts when nothing else does.
            let digits = if digits == 0 { 1 } else { digits };
            let zeros = self.precision.unwrap_or(6).saturating_sub(digits);
            number.extend(std::iter::repeat_n('0', zeros));
        }
        number + tail
    }
}

/// A number with so many digits behind its point.
fn fixed(value: f64, digits: usize) -> String {
    let mut text = format!("{value:.*}", digits.min(MAX_DIGITS));
    text.extend(zeros(digits));
    text
}

/// A number with one digit before its point, so many behind it, and an exponent.
fn scientific(value: f64, digits: usize) -> String {
    let mut text = format!("{value:.*e}", digits.min(MAX_DIGITS));
    let end = text.find('e').unwrap_or(text.len());
    text.insert_str(end, &zeros(digits).collect::<String>());
    text
}

/// The digits beyond those that a number can have.
fn zeros(digits: usize) -> impl Iterator<Item = char> {
    std::iter::repeat_n('0', digits.saturating_sub(MAX_DIGITS))
}

/// The exponent with a sign and at least two digits.
fn exponent(text: &str) -> String {
    let (mantissa, power) = text.split_once('e').unwrap_or((text, "0"));
    let (sign, digits) = match power.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', power),
    };
    format!("{mantissa}e{sign}{digits:0>2}")
}
