//! Times to text.

use super::{DAYS, Format, Length, MONTHS, Offset, Pad, Piece};
use crate::value::time::{Civil, Time};

impl Format {
    /// The time as the format says.
    pub(crate) fn print(&self, time: &Time) -> String {
        let civil = time.civil();
        let mut out = String::new();
        for piece in &self.0 {
            piece.print(&civil, time, &mut out);
        }
        out
    }
}

impl Piece {
    fn print(&self, civil: &Civil, time: &Time, out: &mut String) {
        match self {
            Self::Text(text) => out.push_str(text),
            Self::Year | Self::AnyYear => {
                let sign = if civil.year < 0 { "-" } else { "" };
                out.push_str(&format!("{sign}{:04}", civil.year.abs()));
            }
            Self::ShortYear => number(civil.year.abs() % 100, Pad::Zero, out),
            Self::Month(pad) => number(civil.month, *pad, out),
            Self::MonthName(length) => out.push_str(name(&MONTHS, civil.month - 1, *length)),
            Self::Day(pad) => number(civil.day, *pad, out),
            Self::DayName(length) => out.push_str(name(&DAYS, civil.weekday, *length)),
            Self::Hour => number(civil.hour, Pad::Zero, out),
            Self::HalfHour(pad) => number((civil.hour + 11) % 12 + 1, *pad, out),
            Self::Half { upper } => out.push_str(match (civil.hour < 12, upper) {
                (true, true) => "AM",
                (true, false) => "am",
                (false, true) => "PM",
                (false, false) => "pm",
            }),
            Self::Minute => number(civil.minute, Pad::Zero, out),
            Self::Second => number(civil.second, Pad::Zero, out),
            Self::Fraction { separator, digits } => {
                let all = format!("{:09}", civil.nanosecond);
                let fraction = all[..*digits].trim_end_matches('0');
                if !fraction.is_empty() {
                    out.push(*separator);
                    out.push_str(fraction);
                }
            }
            Self::ZoneName => match time.zone.abbreviation_at(time.unix_seconds()) {
                Some(name) => out.push_str(&name),
                None => {
                    let (sign, minutes) = (sign(civil.offset), civil.offset.abs() / 60);
                    out.push_str(&format!("{sign}{:02}{:02}", minutes / 60, minutes % 60));
                }
            },
            Self::Offset(form) => form.print(civil.offset, out),
        }
    }
}

impl Offset {
    fn print(self, offset: i64, out: &mut String) {
        let (sign, seconds) = (sign(offset), offset.abs());
        let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        out.push_str(&match self {
            Self::Iso if offset == 0 => "Z".to_owned(),
            Self::Iso => format!("{sign}{hours:02}{minutes:02}"),
            Self::Hours => format!("{sign}{hours:02}"),
            Self::Minutes => format!("{sign}{hours:02}:{minutes:02}"),
            Self::Seconds => format!("{sign}{hours:02}:{minutes:02}:{seconds:02}"),
            Self::Digits => format!("{sign}{hours:02}{minutes:02}{seconds:02}"),
        });
    }
}

fn sign(offset: i64) -> char {
    if offset < 0 { '-' } else { '+' }
}

fn number(number: i64, pad: Pad, out: &mut String) {
    out.push_str(&match pad {
        Pad::Zero => format!("{number:02}"),
        Pad::Space => format!("{number:2}"),
        Pad::Underscore => format!("_{number}"),
        Pad::None => number.to_string(),
    });
}

fn name(names: &[&'static str], index: i64, length: Length) -> &'static str {
    let name = usize::try_from(index).ok().and_then(|index| names.get(index)).copied().unwrap_or_default();
    match length {
        Length::Short => &name[..name.len().min(3)],
        Length::Long => name,
    }
}
