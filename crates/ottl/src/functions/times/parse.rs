//! Times from text, by a format of strptime directives.

use crate::value::Time;

const SECOND: i128 = 1_000_000_000;
const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

/// The directives that are supported: letters, and what they stand for when that is several others.
const DIRECTIVES: &str = "YymbhBdeaAHIpPMSLfszZ%nt";

fn expanded(directive: char) -> Option<&'static str> {
    Some(match directive {
        'F' => "%Y-%m-%d",
        'T' => "%H:%M:%S",
        'R' => "%H:%M",
        'D' => "%m/%d/%y",
        _ => return None,
    })
}

/// The format without directives that stand for several others.
///
/// # Errors
/// When it is empty or has a directive that is not supported.
pub(super) fn checked(format: &str) -> Result<String, String> {
    if format.is_empty() {
        return Err("the format must not be empty".to_owned());
    }
    let mut out = String::with_capacity(format.len());
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        let directive = if char == '%' { chars.next().ok_or("the format ends with %")? } else { char };
        match (char, expanded(directive)) {
            ('%', Some(several)) => out.push_str(several),
            ('%', None) if !DIRECTIVES.contains(directive) => {
                return Err(format!("the directive %{directive} is not supported"));
            }
            ('%', None) => out.extend(['%', directive]),
            _ => out.push(char),
        }
    }
    Ok(out)
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
    nanos: i64,
    offset: i64,
    afternoon: Option<bool>,
}

/// The time in a text; UTC when the text has no offset. None when it does not fit the format.
pub(super) fn time(text: &str, format: &str) -> Option<Time> {
    let (year, month, day) = (0, 1, 1);
    let (hour, minute, second, nanos, offset) = (0, 0, 0, 0, 0);
    let mut reading = Reading { rest: text, year, month, day, hour, minute, second, nanos, offset, afternoon: None };
    let mut chars = format.chars();
    while let Some(char) = chars.next() {
        match char {
            '%' => reading.directive(chars.next()?)?,
            literal => reading.rest = reading.rest.strip_prefix(literal)?,
        }
    }
    reading.finish()
}

impl Reading<'_> {
    fn directive(&mut self, directive: char) -> Option<()> {
        match directive {
            'Y' => self.year = self.number(4, 4)?,
            'y' => {
                let short = self.number(2, 2)?;
                self.year = if short >= 69 { 1900 + short } else { 2000 + short };
            }
            'm' => self.month = self.number(2, 2)?,
            'b' | 'h' => self.month = self.name(&MONTHS, Some(3))? + 1,
            'B' => self.month = self.name(&MONTHS, None)? + 1,
            'd' => self.day = self.number(2, 2)?,
            'e' => {
                self.rest = self.rest.trim_start_matches(' ');
                self.day = self.number(1, 2)?;
            }
            'a' => drop(self.name(&DAYS, Some(3))?),
            'A' => drop(self.name(&DAYS, None)?),
            'H' | 'I' => self.hour = self.number(2, 2)?,
            'p' | 'P' => self.afternoon = Some(self.name(&["AM", "PM"], None)? == 1),
            'M' => self.minute = self.number(2, 2)?,
            'S' => self.second = self.number(2, 2)?,
            'L' => self.nanos = self.number(3, 3)? * 1_000_000,
            'f' => self.nanos = self.number(6, 6)? * 1_000,
            's' => self.nanos = self.number(9, 9)?,
            'z' => self.offset = self.offset()?,
            'Z' => drop(self.name(&["UTC", "GMT", "Z"], None)?),
            '%' => self.rest = self.rest.strip_prefix('%')?,
            'n' => self.rest = self.rest.strip_prefix('\n')?,
            't' => self.rest = self.rest.strip_prefix('\t')?,
            _ => return None,
        }
        Some(())
    }

    fn number(&mut self, least: usize, most: usize) -> Option<i64> {
        let digits = self.rest.bytes().take(most).take_while(u8::is_ascii_digit).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        (digits >= least).then(|| number.parse().ok())?
    }

    /// The place of a name, or of its first letters, in a list; upper and lower case are the same.
    fn name(&mut self, names: &[&str], letters: Option<usize>) -> Option<i64> {
        let short = |name: &str| letters.unwrap_or(name.len());
        let starts = |name: &str| {
            self.rest.get(..short(name)).is_some_and(|start| start.eq_ignore_ascii_case(&name[..short(name)]))
        };
        let index = names.iter().position(|name| starts(name))?;
        self.rest = &self.rest[short(names[index])..];
        i64::try_from(index).ok()
    }

    /// `Z`, `+hhmm` or `+hh:mm`, in seconds.
    fn offset(&mut self) -> Option<i64> {
        if let Some(rest) = self.rest.strip_prefix('Z') {
            self.rest = rest;
            return Some(0);
        }
        let sign = match self.rest.bytes().next()? {
            b'+' => 1,
            b'-' => -1,
            _ => return None,
        };
        self.rest = &self.rest[1..];
        let hours = self.number(2, 2)?;
        self.rest = self.rest.strip_prefix(':').unwrap_or(self.rest);
        let minutes = self.number(2, 2)?;
        (hours < 24 && minutes < 60).then_some(sign * (hours * 3600 + minutes * 60))
    }

    fn finish(self) -> Option<Time> {
        let hour = match self.afternoon {
            None => self.hour,
            Some(_) if !(1..=12).contains(&self.hour) => return None,
            Some(afternoon) => self.hour % 12 + if afternoon { 12 } else { 0 },
        };
        let days = days_from_civil(self.year, self.month, self.day);
        let is_date =
            (1..=12).contains(&self.month) && crate::value::text::civil(days) == (self.year, self.month, self.day);
        if !self.rest.is_empty() || !is_date || hour > 23 || self.minute > 59 || self.second > 59 {
            return None;
        }
        let seconds = days * 86_400 + hour * 3600 + self.minute * 60 + self.second - self.offset;
        let offset = i32::try_from(self.offset).ok()?;
        Some(Time { unix_nano: i128::from(seconds) * SECOND + i128::from(self.nanos), offset })
    }
}

/// Days since the Unix epoch of a date in the Gregorian calendar.
fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // As the way back: years start in March, an era has 400 of them.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nanos(text: &str, format: &str) -> Option<i128> {
        time(text, &checked(format).unwrap()).map(|time| time.unix_nano)
    }

    #[test]
    fn times_are_read_as_the_format_says() {
        assert_eq!(nanos("2024-02-29T12:34:56.789Z", "%Y-%m-%dT%H:%M:%S.%L%z"), Some(1_709_210_096_789_000_000));
        assert_eq!(nanos("29/Feb/2024:13:34:56 +0100", "%d/%b/%Y:%T %z"), Some(1_709_210_096_000_000_000));
        assert_eq!(
            nanos("Thursday, february 29 2024 12:34 pm", "%A, %B %e %Y %I:%M %p"),
            Some(1_709_210_040_000_000_000)
        );
        assert_eq!(nanos("1969-12-31 23:59:59", "%F %T"), Some(-1_000_000_000));
        assert_eq!(nanos("2023-02-29", "%F"), None);
        assert_eq!(nanos("2023-02-28x", "%F"), None);
        assert_eq!(nanos("é", "%Z"), None);
        assert_eq!(checked("%Y-%Q").unwrap_err(), "the directive %Q is not supported");
    }
}
