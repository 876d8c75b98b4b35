//! Times from text.

use super::{DAYS, Format, Length, MONTHS, Offset, Piece};
use crate::value::time::{Time, days_from_civil, is_date};
use crate::value::zone::Zone;

const SECOND: i128 = 1_000_000_000;
const WEEK: i64 = 7 * 86_400;

impl Format {
    /// The time in a text, in this zone unless the text names another; none when it does not fit the format.
    ///
    /// Without a year the time is in the year before `now`, nanoseconds since the Unix epoch, or in the week after it.
    pub(crate) fn parse(&self, text: &str, zone: &Zone, now: i128) -> Option<Time> {
        let (year, month, day) = (0, 1, 1);
        let (hour, minute, second, nanosecond) = (0, 0, 0, 0);
        let (half, offset, zone_name) = (None, None, None);
        let rest = text;
        let mut reading = Reading { rest, year, month, day, hour, minute, second, nanosecond, half, offset, zone_name };
        let mut pieces = self.0.iter();
        while let Some(piece) = pieces.next() {
            reading.piece(piece)?;
            let mut others = pieces.clone().filter(|piece| !matches!(piece, Piece::Text(_)));
            if *piece == Piece::Second && !matches!(others.next(), Some(Piece::Fraction { .. })) {
                reading.fraction();
            }
        }
        reading.finish(zone, now)
    }
}

/// What was read so far.
struct Reading<'t> {
    rest: &'t str,
    year: i64,
    month: i64,
    day: i64,
    hour: i64,
    minute: i64,
    second: i64,
    nanosecond: i64,
    /// Whether it is after noon, when the text says so.
    half: Option<bool>,
    offset: Option<Written>,
    zone_name: Option<&'t str>,
}

/// An offset from UTC in a text.
#[derive(Clone, Copy)]
enum Written {
    /// The letter `Z`, or UTC by name.
    Utc,
    /// Seconds east.
    Seconds(i64),
}

impl<'t> Reading<'t> {
    fn piece(&mut self, piece: &Piece) -> Option<()> {
        match piece {
            Piece::Text(text) => self.text(text)?,
            Piece::Year => self.year = self.digits(4)?,
            Piece::ShortYear => self.year = self.short_year()?,
            Piece::AnyYear => {
                let is_long = self.rest.bytes().take(4).filter(u8::is_ascii_digit).count() == 4;
                self.year = if is_long { self.digits(4)? } else { self.short_year()? };
            }
            Piece::Month(_) => self.month = self.number(1, 12)?,
            Piece::MonthName(length) => self.month = self.name(&MONTHS, *length)? + 1,
            Piece::Day(_) => self.day = self.number(0, 99)?,
            Piece::DayName(length) => drop(self.name(&DAYS, *length)?),
            Piece::Hour => self.hour = self.number(0, 23)?,
            Piece::HalfHour(_) => self.hour = self.number(0, 12)?,
            Piece::Half { upper } => self.half = Some(self.half(*upper)?),
            Piece::Minute => self.minute = self.number(0, 59)?,
            Piece::Second => self.second = self.number(0, 59)?,
            Piece::Fraction { .. } => self.fraction(),
            Piece::ZoneName => self.zone_name()?,
            Piece::Offset(form) => self.offset = Some(self.offset(*form)?),
        }
        Some(())
    }

    /// Literal text. A space stands for any number of spaces, and for none at the end.
    fn text(&mut self, text: &str) -> Option<()> {
        let mut text = text;
        while let Some(char) = text.chars().next() {
            if char == ' ' {
                if !self.rest.is_empty() && !self.rest.starts_with(' ') {
                    return None;
                }
                (text, self.rest) = (text.trim_start_matches(' '), self.rest.trim_start_matches(' '));
            } else {
                self.rest = self.rest.strip_prefix(char)?;
                text = &text[char.len_utf8()..];
            }
        }
        Some(())
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r', '\u{c}']);
    }

    /// A number of so many digits.
    fn digits(&mut self, count: usize) -> Option<i64> {
        self.skip_space();
        let (number, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        number.bytes().all(|byte| byte.is_ascii_digit()).then(|| number.parse().ok())?
    }

    fn short_year(&mut self) -> Option<i64> {
        let short = self.digits(2)?;
        Some(if short >= 69 { 1900 + short } else { 2000 + short })
    }

    /// A number of one or two digits within bounds.
    fn number(&mut self, least: i64, most: i64) -> Option<i64> {
        self.skip_space();
        let count = self.rest.bytes().take(2).take_while(u8::is_ascii_digit).count();
        let number = self.digits(count.max(1))?;
        (least..=most).contains(&number).then_some(number)
    }

    /// The place of a name, or of its first letters, in a list. Case does not matter.
    fn name(&mut self, names: &[&str], length: Length) -> Option<i64> {
        let letters = |name: &str| if length == Length::Short { 3 } else { name.len() };
        let starts = |name: &str| {
            let letters = letters(name);
            self.rest.get(..letters).is_some_and(|start| start.eq_ignore_ascii_case(&name[..letters]))
        };
        let index = names.iter().position(|name| starts(name))?;
        self.rest = &self.rest[letters(names[index])..];
        i64::try_from(index).ok()
    }

    fn half(&mut self, upper: bool) -> Option<bool> {
        let [am, pm] = if upper { ["AM", "PM"] } else { ["am", "pm"] };
        let half = self.rest.get(..2).filter(|half| *half == am || *half == pm)?;
        self.rest = &self.rest[2..];
        Some(half == pm)
    }

    /// A point or a comma and digits of a second, if they are there. Digits after the ninth change nothing.
    fn fraction(&mut self) {
        let Some(rest) = self.rest.strip_prefix(['.', ',']) else { return };
        let count = rest.bytes().take_while(u8::is_ascii_digit).count();
        if count > 0 {
            self.nanosecond = rest
                .bytes()
                .take(count)
                .chain(std::iter::repeat(b'0'))
                .take(9)
                .fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
            self.rest = &rest[count..];
        }
    }

    fn zone_name(&mut self) -> Option<()> {
        if let Some(rest) = self.rest.strip_prefix("UTC") {
            self.offset = Some(Written::Utc);
            self.rest = rest;
            return Some(());
        }
        let (name, rest) = self.rest.split_at_checked(zone_name_length(self.rest)?)?;
        (self.zone_name, self.rest) = (Some(name), rest);
        Some(())
    }

    fn offset(&mut self, form: Offset) -> Option<Written> {
        let forms: &[&str] = match form {
            Offset::Iso => &["hhmm", "hh:mm", "hh"],
            Offset::Hours => &["hh"],
            Offset::Minutes => &["hh:mm"],
            Offset::Seconds => &["hh:mm:ss"],
            Offset::Digits => &["hhmmss"],
        };
        if form == Offset::Iso {
            self.skip_space();
            if let Some(rest) = self.rest.strip_prefix('Z') {
                self.rest = rest;
                return Some(Written::Utc);
            }
        }
        let sign = match self.rest.bytes().next()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        let rest = &self.rest[1..];
        let (seconds, length) = forms.iter().find_map(|form| Some((offset_seconds(rest, form)?, form.len())))?;
        self.rest = &rest[length..];
        Some(Written::Seconds(sign * seconds))
    }

    fn finish(mut self, zone: &Zone, now: i128) -> Option<Time> {
        match self.half {
            Some(true) if self.hour < 12 => self.hour += 12,
            Some(false) if self.hour == 12 => self.hour = 0,
            _ => {}
        }
        if !self.rest.is_empty() || !is_date(self.year, self.month, self.day) {
            return None;
        }
        if self.year > 0 {
            return self.in_zone(zone);
        }
        let now = Time::utc(now);
        self.year = now.civil().year;
        let time = self.in_zone(zone)?;
        if time.unix_seconds() <= now.unix_seconds() + WEEK {
            return Some(time);
        }
        self.year -= 1;
        self.in_zone(zone)
    }

    /// The time in the zone that the text names, or in the one given.
    fn in_zone(&self, given: &Zone) -> Option<Time> {
        let days = days_from_civil(self.year, self.month, self.day);
        let local = days * 86_400 + self.hour * 3600 + self.minute * 60 + self.second;
        let (mut unix, mut zone, unknown) = self.resolved(local, given);
        // Without an offset to go by, the name may be the one of a zone.
        if let Some(name) = unknown.filter(|_| zone.offset_at(unix) == 0) {
            (unix, zone, _) = self.resolved(local, &Zone::named(name)?);
        }
        Some(Time { unix_nano: i128::from(unix) * SECOND + i128::from(self.nanosecond), zone })
    }

    /// Seconds since the Unix epoch, the zone, and its name when the given zone does not know it.
    fn resolved(&self, local: i64, given: &Zone) -> (i64, Zone, Option<&'t str>) {
        match (self.offset, self.zone_name) {
            (Some(Written::Utc), _) => (local, Zone::utc(), None),
            (Some(Written::Seconds(offset)), name) => {
                let unix = local - offset;
                let is_given = given.offset_at(unix) == offset && name.is_none_or(|name| given.is_called(name, unix));
                match is_given {
                    true => (unix, given.clone(), None),
                    false => (unix, Zone::fixed(offset), Some(name.unwrap_or_default())),
                }
            }
            (None, Some(name)) => match given.offset_of(name, local) {
                Some(offset) => (local - offset, given.clone(), None),
                None => {
                    // Go's `time` package moves the clock by these hours, but not the time.
                    let hours: i64 = name.strip_prefix("GMT").and_then(|hours| hours.parse().ok()).unwrap_or_default();
                    (local, Zone::fixed(hours * 3600), Some(name))
                }
            },
            (None, None) => (given.unix(local), given.clone(), None),
        }
    }
}

/// The seconds of an offset without its sign, in a form like `hh:mm`.
fn offset_seconds(text: &str, form: &str) -> Option<i64> {
    let mut numbers = [0; 3];
    let mut digits = 0;
    let mut bytes = text.bytes();
    for expected in form.bytes() {
        let byte = bytes.next()?;
        if expected == b':' {
            (byte == b':').then_some(())?;
            continue;
        }
        byte.is_ascii_digit().then_some(())?;
        let number = numbers.get_mut(digits / 2)?;
        *number = *number * 10 + i64::from(byte - b'0');
        digits += 1;
    }
    // Some write the end of a day as 24 hours.
    let [hours, minutes, seconds] = numbers;
    (hours <= 24 && minutes <= 60 && seconds <= 60).then_some(hours * 3600 + minutes * 60 + seconds)
}

/// How much of a text Go's `time` package takes for the name of a zone.
fn zone_name_length(text: &str) -> Option<usize> {
    let signed = |text: &str| {
        let digits = text.strip_prefix(['+', '-'])?.bytes().take_while(u8::is_ascii_digit).count();
        let hours: Option<u8> = text.get(1..1 + digits)?.parse().ok();
        hours.filter(|hours| *hours < 24).map(|_| 1 + digits)
    };
    if text.starts_with("ChST") || text.starts_with("MeST") {
        return Some(4);
    }
    if let Some(rest) = text.strip_prefix("GMT") {
        return Some(3 + signed(rest).unwrap_or_default());
    }
    if text.len() >= 3 && text.starts_with(['+', '-']) {
        return signed(text);
    }
    let letters = text.bytes().take(6).take_while(u8::is_ascii_uppercase).count();
    let is_name = match letters {
        3 => true,
        4 => text[..4].ends_with('T') || text.starts_with("WITA"),
        5 => text[..5].ends_with('T'),
        _ => false,
    };
    is_name.then_some(letters)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: i128 = 1_700_000_000 * SECOND;

    fn seconds(text: &str, format: &str) -> Option<i64> {
        let format = Format::compile(format).unwrap();
        format.parse(text, &Zone::utc(), NOW).map(|time| time.unix_seconds())
    }

    #[test]
    fn times_are_read_as_the_format_says() {
        assert_eq!(seconds("29/Feb/2024:13:34:56 +0100", "%d/%b/%Y:%T %z"), Some(1_709_210_096));
        assert_eq!(seconds("Thursday, february 29 2024 12:34 PM", "%A, %B %e %Y %I:%M %p"), Some(1_709_210_040));
        assert_eq!(seconds("1969-12-31 23:59:59", "%F %T"), Some(-1));
        assert_eq!(seconds("2023-02-29", "%F"), None);
        assert_eq!(seconds("2023-02-28x", "%F"), None);
        assert_eq!(seconds("\u{e9}", "%Z"), None);
        assert_eq!(seconds("\u{e9}\u{e9}", "%Y"), None);
    }

    proptest::proptest! {
        #[test]
        fn no_text_makes_a_format_panic(format in "(%?[\\PC&&[^0-9]]|[.,]%[Lfs]|%[YmdHMSzZpbjwDcr]){1,12}", text in "\\PC*", at: i64) {
            let zone = Zone::named("America/New_York").unwrap();
            if let Ok(format) = Format::compile(&format) {
                let printed = format.print(&Time { unix_nano: i128::from(at), zone: zone.clone() });
                format.parse(&printed, &zone, NOW);
                format.parse(&text, &zone, NOW);
            }
        }

        #[test]
        fn what_is_written_is_read_again(at in -62_135_596_800_i64..253_402_300_800, offset in -12_i64..=14) {
            let time = Time { unix_nano: i128::from(at) * SECOND + 5, zone: Zone::fixed(offset * 3600) };
            let format = Format::compile("%c.%s %j").unwrap();
            let read = format.parse(&format.print(&time), &Zone::utc(), NOW).unwrap();
            proptest::prop_assert_eq!(read.unix_nano, time.unix_nano);
        }
    }

    #[test]
    fn a_time_without_a_year_is_not_long_after_now() {
        // Now is the 14th of November 2023.
        assert_eq!(seconds("Nov 14", "%b %d"), Some(1_699_920_000));
        assert_eq!(seconds("Nov 21", "%b %d"), Some(1_700_524_800));
        assert_eq!(seconds("Nov 22", "%b %d"), Some(1_669_075_200));
        assert_eq!(seconds("Feb 29", "%b %d"), seconds("2023-03-01", "%F"));
    }

    #[test]
    fn names_of_zones_are_found_as_in_go() {
        let length = |text| zone_name_length(text);
        assert_eq!([length("EST 1"), length("CEST"), length("ChST"), length("WITA")], [3, 4, 4, 4].map(Some));
        assert_eq!([length("GMT+3"), length("GMT"), length("GMT+24"), length("-03 ")], [5, 3, 3, 3].map(Some));
        assert_eq!([length("AEDTX"), length("est"), length("ABCD"), length("+99"), length("+")], [None; 5]);
    }
}
