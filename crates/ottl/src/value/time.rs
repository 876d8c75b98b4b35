//! Points in time, and what calendars and clocks show at them.

use super::math::clamped;
use super::zone::Zone;

const SECOND: i128 = 1_000_000_000;
const DAY: i64 = 86_400;

/// A point in time.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Time {
    /// Nanoseconds since the Unix epoch. Years 1 to 9999 do not fit 64 bits.
    pub(crate) unix_nano: i128,
    /// Where calendars and clocks are looked at.
    pub(crate) zone: Zone,
}

/// What calendars and clocks show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Civil {
    pub(crate) year: i64,
    /// 1 to 12.
    pub(crate) month: i64,
    /// 1 to 31.
    pub(crate) day: i64,
    /// 0 to 6, Sunday is 0.
    pub(crate) weekday: i64,
    pub(crate) hour: i64,
    pub(crate) minute: i64,
    pub(crate) second: i64,
    pub(crate) nanosecond: i64,
    /// Seconds east of UTC.
    pub(crate) offset: i64,
}

impl Time {
    /// A time in UTC.
    pub(crate) fn utc(unix_nano: i128) -> Self {
        Self { unix_nano, zone: Zone::utc() }
    }

    /// Whether RFC 3339 has a way to write it: the years 0 to 9999.
    pub(crate) fn is_rfc3339(&self) -> bool {
        (0..=9999).contains(&self.civil().year)
    }

    /// Whole seconds since the Unix epoch.
    pub(crate) fn unix_seconds(&self) -> i64 {
        clamped(self.unix_nano.div_euclid(SECOND))
    }

    /// What calendars and clocks show in the zone of the time, in the Gregorian calendar.
    pub(crate) fn civil(&self) -> Civil {
        let offset = self.zone.offset_at(self.unix_seconds());
        let local = self.unix_nano + i128::from(offset) * SECOND;
        let seconds = clamped(local.div_euclid(SECOND));
        let (days, rest) = (seconds.div_euclid(DAY), seconds.rem_euclid(DAY));
        let (year, month, day) = civil(days);
        Civil {
            year,
            month,
            day,
            // The first day of the Unix epoch was a Thursday.
            weekday: (days + 4).rem_euclid(7),
            hour: rest / 3600,
            minute: rest / 60 % 60,
            second: rest % 60,
            nanosecond: clamped(local.rem_euclid(SECOND)),
            offset,
        }
    }

    /// As RFC 3339 with as many digits of a second as the time has.
    pub(crate) fn rfc3339(&self) -> String {
        let Civil { year, month, day, hour, minute, second, nanosecond, offset, .. } = self.civil();
        let mut text = format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}");
        if nanosecond != 0 {
            text.push_str(format!(".{nanosecond:09}").trim_end_matches('0'));
        }
        match offset {
            0 => text.push('Z'),
            offset => {
                let minutes = offset.abs() / 60;
                text.push_str(&format!(
                    "{}{:02}:{:02}",
                    if offset < 0 { '-' } else { '+' },
                    minutes / 60,
                    minutes % 60
                ));
            }
        }
        text
    }
}

/// Year, month and day of a number of days since the Unix epoch, in the Gregorian calendar.
fn civil(days: i64) -> (i64, i64, i64) {
    // Years start in March here, so that the leap day is the last of its year; an era has 400 years.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// Days since the Unix epoch of a date in the Gregorian calendar. Days that a month does not have are days of the next
/// month.
pub(crate) fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    // As the way back: years start in March, an era has 400 of them.
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

/// Whether a month has that day.
pub(crate) fn is_date(year: i64, month: i64, day: i64) -> bool {
    (1..=12).contains(&month) && civil(days_from_civil(year, month, day)) == (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_gregorian() {
        assert_eq!(civil(-719_468), (0, 3, 1));
        assert_eq!(civil(59), (1970, 3, 1));
        assert_eq!(civil(2_932_896), (9999, 12, 31));
        assert_eq!(days_from_civil(2023, 2, 29), days_from_civil(2023, 3, 1));
        assert!(is_date(2024, 2, 29) && !is_date(2023, 2, 29) && !is_date(2023, 13, 1) && !is_date(2023, 1, 0));
        assert_eq!(Time::utc(1_709_210_096_789_000_000).rfc3339(), "2024-02-29T12:34:56.789Z");
        assert_eq!(Time { unix_nano: 0, zone: Zone::fixed(-5400) }.rfc3339(), "1969-12-31T22:30:00-01:30");
        assert_eq!(Time::utc(i128::MAX).civil().year, 292_277_026_596);
    }
}
