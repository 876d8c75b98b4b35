//! Sizes and durations as people write them: Kubernetes quantities, units of bytes, Go durations.
//!
//! This is exact arithmetic on text. It knows neither what a quantity is for nor which quantities are sensible.

use std::time::Duration;

/// Units of size. Upper and lower case are the same: nobody means thousandths of a byte by `10gib`.
const SIZE_UNITS: &[(&str, u128)] = &[
    ("", 1),
    ("B", 1),
    ("K", 1_000),
    ("KB", 1_000),
    ("Ki", 1 << 10),
    ("KiB", 1 << 10),
    ("M", 1_000_000),
    ("MB", 1_000_000),
    ("Mi", 1 << 20),
    ("MiB", 1 << 20),
    ("G", 1_000_000_000),
    ("GB", 1_000_000_000),
    ("Gi", 1 << 30),
    ("GiB", 1 << 30),
    ("T", 1_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("Ti", 1 << 40),
    ("TiB", 1 << 40),
    ("P", 1_000_000_000_000_000),
    ("PB", 1_000_000_000_000_000),
    ("Pi", 1 << 50),
    ("PiB", 1 << 50),
    ("E", 1_000_000_000_000_000_000),
    ("EB", 1_000_000_000_000_000_000),
    ("Ei", 1 << 60),
    ("EiB", 1 << 60),
];

/// Units of time, in nanoseconds.
const DURATION_UNITS: &[(&str, u128)] = &[
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
    ("d", 86_400_000_000_000),
];

/// A text that is not the quantity asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wrong {
    /// It is none.
    Form,
    /// It is one, beyond what can be represented.
    Large,
}

/// Reads a size such as `10Gi`, `1.5GiB`, `500MB`, `2e9` or `1073741824`, in bytes, rounded up as Kubernetes does.
///
/// # Errors
/// When it is none, or too large for 64 bits.
pub fn size(text: &str) -> Result<u64, Wrong> {
    let (number, unit) = Decimal::take(text.trim())?;
    let unit = unit.trim_start();
    // A thousandth to Kubernetes, a million to everybody else.
    if unit == "m" {
        return Err(Wrong::Form);
    }
    let factor = match exponent(unit) {
        Some(digits) => power_of_ten(digits)?,
        None => factor(SIZE_UNITS, |name| name.eq_ignore_ascii_case(unit))?,
    };
    u64::try_from(number.times(factor)?).map_err(|_| Wrong::Large)
}

/// What Kubernetes writes behind amounts of anything. Here upper and lower case differ.
const AMOUNT_UNITS: &[(&str, u128, u128)] = &[
    ("", 1_000, 1),
    ("n", 1, 1_000_000),
    ("u", 1, 1_000),
    ("m", 1, 1),
    ("k", 1_000_000, 1),
    ("M", 1_000_000_000, 1),
    ("G", 1_000_000_000_000, 1),
    ("T", 1_000_000_000_000_000, 1),
    ("P", 1_000_000_000_000_000_000, 1),
    ("E", 1_000_000_000_000_000_000_000, 1),
    ("Ki", 1_000 << 10, 1),
    ("Mi", 1_000 << 20, 1),
    ("Gi", 1_000 << 30, 1),
    ("Ti", 1_000 << 40, 1),
    ("Pi", 1_000 << 50, 1),
    ("Ei", 1_000 << 60, 1),
];

/// Reads an amount as Kubernetes writes it, such as `500m`, `2`, `128Mi` or `1e3`, in thousandths, rounded up.
///
/// # Errors
/// When it is none, or too large for 128 bits.
pub fn thousandths(text: &str) -> Result<u128, Wrong> {
    let (mut number, unit) = Decimal::take(text)?;
    let (factor, divisor) = match exponent(unit) {
        Some(digits) => (power_of_ten(digits)?.checked_mul(1_000).ok_or(Wrong::Large)?, 1),
        None => {
            let found = AMOUNT_UNITS.iter().find(|(name, ..)| *name == unit);
            found.map(|(_, factor, divisor)| (*factor, *divisor)).ok_or(Wrong::Form)?
        }
    };
    number.scale = number.scale.checked_mul(divisor).ok_or(Wrong::Large)?;
    number.times(factor)
}

/// Reads a duration such as `24h`, `90m`, `1h30m` or `1.5d`.
///
/// # Errors
/// When it is none, or too long for 64 bits of nanoseconds.
pub fn duration(text: &str) -> Result<Duration, Wrong> {
    let mut rest = text.trim();
    let mut nanos: u128 = 0;
    loop {
        let (number, after) = Decimal::take(rest)?;
        let end = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, next) = after.split_at(end);
        let part = number.times(factor(DURATION_UNITS, |name| name == unit)?)?;
        nanos = nanos.checked_add(part).ok_or(Wrong::Large)?;
        if next.is_empty() {
            return u64::try_from(nanos).map(Duration::from_nanos).map_err(|_| Wrong::Large);
        }
        rest = next;
    }
}

/// The digits after an `e` that starts an exponent and not a unit.
fn exponent(unit: &str) -> Option<&str> {
    let digits = unit.strip_prefix(['e', 'E'])?;
    let digits = digits.strip_prefix('+').unwrap_or(digits);
    digits.starts_with(|c: char| c.is_ascii_digit()).then_some(digits)
}

fn power_of_ten(digits: &str) -> Result<u128, Wrong> {
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(Wrong::Form);
    }
    digits.parse().ok().and_then(|exponent| 10_u128.checked_pow(exponent)).ok_or(Wrong::Large)
}

fn factor(units: &[(&str, u128)], is: impl Fn(&str) -> bool) -> Result<u128, Wrong> {
    units.iter().find(|(name, _)| is(name)).map(|(_, factor)| *factor).ok_or(Wrong::Form)
}

/// `digits / scale`, exactly.
struct Decimal {
    digits: u128,
    scale: u128,
}

impl Decimal {
    /// Takes the number that a text starts with. There is no sign: nothing here can be negative.
    fn take(text: &str) -> Result<(Self, &str), Wrong> {
        let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, rest) = text.split_at(end);
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if fraction.contains('.') || (whole.is_empty() && fraction.is_empty()) {
            return Err(Wrong::Form);
        }
        let places = u32::try_from(fraction.len()).map_err(|_| Wrong::Large)?;
        let scale = 10_u128.checked_pow(places).ok_or(Wrong::Large)?;
        let digits = format!("{whole}{fraction}").parse().map_err(|_| Wrong::Large)?;
        Ok((Self { digits, scale }, rest))
    }

    /// The product, rounded up.
    fn times(&self, factor: u128) -> Result<u128, Wrong> {
        let product = self.digits.checked_mul(factor).ok_or(Wrong::Large)?;
        Ok(product.div_ceil(self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in [
            ("1073741824", 1 << 30),
            ("10Gi", 10 << 30),
            ("10GiB", 10 << 30),
            (" 10 gib ", 10 << 30),
            ("500MB", 500_000_000),
            ("500M", 500_000_000),
            ("64k", 64_000),
            ("1.5Ki", 1536),
            (".5K", 500),
            ("1.0001Ki", 1025),
            ("2e9", 2_000_000_000),
            ("2E+3", 2_000),
            ("1.5e1", 15),
            ("2E", 2_000_000_000_000_000_000),
            ("15Ei", 15 << 60),
            ("0", 0),
        ] {
            assert_eq!(size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn not_sizes() {
        for text in ["", " ", ".", "Gi", "-1", "+1", "1..2", "1.2.3Gi", "10GiBs", "10m", "1e3Gi", "1e-3", "ten"] {
            assert_eq!(size(text), Err(Wrong::Form), "{text:?}");
        }
        let long = "9".repeat(1000);
        let fraction = format!("0.{long}");
        for text in ["16Ei", "1e30", "1e99999999999", long.as_str(), fraction.as_str()] {
            assert_eq!(size(text), Err(Wrong::Large), "{text:?}");
        }
    }

    #[test]
    fn amounts() {
        for (text, wanted) in [
            ("2", 2_000),
            ("0", 0),
            ("500m", 500),
            ("0.1", 100),
            ("1.5", 1_500),
            ("100u", 1),
            ("2500000n", 3),
            ("1k", 1_000_000),
            ("128Mi", 128_000 << 20),
            ("1.5Gi", 1_500 << 30),
            ("129M", 129_000_000_000),
            ("1e3", 1_000_000),
            ("2E", 2_000_000_000_000_000_000_000),
            ("16Ei", 16_000 << 60),
        ] {
            assert_eq!(thousandths(text), Ok(wanted), "{text:?}");
        }
        for text in ["", "m", "-1", "1K", "1GB", "1 Gi", "1gi", "ten", "1e-3"] {
            assert_eq!(thousandths(text), Err(Wrong::Form), "{text:?}");
        }
        assert_eq!(thousandths("1e40"), Err(Wrong::Large));
    }

    #[test]
    fn durations() {
        for (text, millis) in [
            ("24h", 86_400_000),
            ("90m", 5_400_000),
            ("1h30m", 5_400_000),
            ("1d12h", 129_600_000),
            (" 1.5s ", 1_500),
            ("1m0.5s", 60_500),
            ("500ms", 500),
            ("1s500000us", 1_500),
            ("2000000ns", 2),
            ("3000µs", 3),
            ("0s", 0),
        ] {
            assert_eq!(duration(text), Ok(Duration::from_millis(millis)), "{text:?}");
        }
    }

    #[test]
    fn not_durations() {
        for text in ["", "24", "h", "-1h", "1h30", "1 h", "24H", "1y", "1h 30m", "1.h.", "."] {
            assert_eq!(duration(text), Err(Wrong::Form), "{text:?}");
        }
        let long = "9".repeat(1000) + "h";
        for text in ["999999999d", long.as_str()] {
            assert_eq!(duration(text), Err(Wrong::Large), "{text:?}");
        }
    }
}
