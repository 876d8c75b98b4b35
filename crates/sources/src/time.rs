//! Times as texts have them.

/// Nanoseconds since the Unix epoch of a time in the form of RFC 3339, from 1970 until they do not fit an `i64`, in 2262.
pub(crate) fn parse_rfc3339_nanos(time: &[u8]) -> Option<u64> {
    let (date_and_time, rest) = time.split_first_chunk()?;
    let (nanos, zone) = fraction(rest)?;
    let seconds = seconds(date_and_time)? - offset_seconds(zone)?;
    let nanos = seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    u64::try_from(nanos).ok()
}

/// Seconds since the Unix epoch of `2026-11-23T12:00:00`. A leap second is the first one of the next minute.
fn seconds(text: &[u8; 19]) -> Option<i64> {
    let [y0, y1, y2, y3, b'-', m0, m1, b'-', d0, d1, b'T' | b't', rest @ ..] = text else { return None };
    let [h0, h1, b':', n0, n1, b':', s0, s1] = rest else { return None };
    let year = pair(*y0, *y1)? * 100 + pair(*y2, *y3)?;
    let days = days(year, pair(*m0, *m1)?, pair(*d0, *d1)?)?;
    let (hour, minute, second) = (pair(*h0, *h1)?, pair(*n0, *n1)?, pair(*s0, *s1)?);
    let is_time = hour < 24 && minute < 60 && second <= 60;
    is_time.then_some(((days * 24 + hour) * 60 + minute) * 60 + second)
}

/// Days of a year that is not a leap year before its months.
const DAYS_BEFORE: [i64; 13] = [0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365];

/// Leap days before 1970, if the calendar had always been this one.
const LEAP_DAYS_BEFORE_1970: i64 = 477;

/// Days from the Unix epoch to a date.
fn days(year: i64, month: i64, day: i64) -> Option<i64> {
    let index = usize::try_from(month).ok()?.checked_sub(1)?;
    let (before, until) = (DAYS_BEFORE.get(index)?, DAYS_BEFORE.get(index + 1)?);
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    let leap_day = i64::from(is_leap && month == 2);
    if day < 1 || day > until - before + leap_day {
        return None;
    }
    let past = year - 1;
    let leap_days = past / 4 - past / 100 + past / 400 - LEAP_DAYS_BEFORE_1970 + i64::from(is_leap && month > 2);
    Some((year - 1970) * 365 + leap_days + before + day - 1)
}

/// The nanoseconds of `.123`, and what comes behind them.
fn fraction(text: &[u8]) -> Option<(i64, &[u8])> {
    let Some(text) = text.strip_prefix(b".") else { return Some((0, text)) };
    let digits = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (fraction, rest) = text.split_at(digits);
    let missing = 9_u32.checked_sub(u32::try_from(digits).ok()?)?;
    let value = fraction.iter().fold(0, |value, digit| value * 10 + i64::from(digit - b'0'));
    (digits > 0).then_some((value * 10_i64.pow(missing), rest))
}

/// How far a zone is before UTC: `Z`, `+01:00`.
fn offset_seconds(zone: &[u8]) -> Option<i64> {
    let (sign, hours, minutes) = match zone {
        b"Z" | b"z" => return Some(0),
        [b'+', h0, h1, b':', m0, m1] => (1, pair(*h0, *h1)?, pair(*m0, *m1)?),
        [b'-', h0, h1, b':', m0, m1] => (-1, pair(*h0, *h1)?, pair(*m0, *m1)?),
        _ => return None,
    };
    (hours < 24 && minutes < 60).then_some(sign * (hours * 60 + minutes) * 60)
}

/// The number that two digits are.
fn pair(tens: u8, ones: u8) -> Option<i64> {
    let are_digits = tens.is_ascii_digit() && ones.is_ascii_digit();
    are_digits.then(|| i64::from(tens - b'0') * 10 + i64::from(ones - b'0'))
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use proptest::prelude::*;

    use super::*;

    /// A time in all the ways RFC 3339 has for it.
    fn written_time() -> impl Strategy<Value = (i64, usize, Option<i64>)> {
        (0..i64::MAX, 0..=9_usize, proptest::option::of(-1439..=1439_i64))
    }

    proptest! {
        #[test]
        fn times_are_what_another_library_takes_them_for((nanos, digits, zone) in written_time()) {
            let unit = 10_i64.pow(9 - u32::try_from(digits).unwrap());
            let nanos = nanos / unit * unit;
            let zone_minutes = zone.unwrap_or(0);
            let shown = i128::from(nanos) + i128::from(zone_minutes) * 60_000_000_000;
            let mut text = format!("{:.*}", digits, Timestamp::from_nanosecond(shown).unwrap());
            if zone.is_some() {
                let sign = if zone_minutes < 0 { '-' } else { '+' };
                let (hours, minutes) = (zone_minutes.abs() / 60, zone_minutes.abs() % 60);
                text.truncate(text.len() - 1);
                text += &format!("{sign}{hours:02}:{minutes:02}");
            }
            prop_assume!(shown >= 0);
            prop_assert_eq!(parse_rfc3339_nanos(text.as_bytes()), u64::try_from(nanos).ok(), "{}", text);
        }

        #[test]
        fn every_day_is_known(day in 0..106_700_i64, change in 0..3_usize) {
            // The digits of a day that exists, and of one that may not.
            let text = Timestamp::from_second(day * 86_400).unwrap().to_string();
            prop_assert_eq!(parse_rfc3339_nanos(text.as_bytes()), u64::try_from(day * 86_400_000_000_000).ok());
            let changed = format!("{}3{change}{}", &text[..8], &text[10..]);
            let expected = changed.parse::<Timestamp>().ok().and_then(|time| u64::try_from(time.as_nanosecond()).ok());
            prop_assert_eq!(parse_rfc3339_nanos(changed.as_bytes()), expected, "{}", changed);
        }
    }
}
