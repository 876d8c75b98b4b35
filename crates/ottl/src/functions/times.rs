//! Converters of times.

use super::{Function, INT, Kind, STRING, Type, function, optional, required};
use crate::program::Arguments;
use crate::scene::Scene;
use crate::value::math::clamped;
use crate::value::time::Civil;
use crate::value::{Failure, Time, Value};

const TIME: &[super::Parameter] = &[required("time", Kind::Typed(Type::Time))];
const DURATION: &[super::Parameter] = &[required("duration", Kind::Typed(Type::Duration))];
const SECOND: i128 = 1_000_000_000;

pub(super) const FUNCTIONS: &[Function] = &[
    function("Now", &[], |_, scene| Ok(Value::Time(Time::utc(scene.now)))),
    function("Unix", &[required("seconds", INT), optional("nanoseconds", INT)], |arguments, scene| {
        let seconds = i128::from(arguments.int(0, scene)?);
        let nanoseconds = if arguments.has(1) { arguments.int(1, scene)? } else { 0 };
        Ok(Value::Time(Time::utc(seconds * SECOND + i128::from(nanoseconds))))
    }),
    function("Duration", &[required("duration", STRING)], |arguments, scene| {
        let text = arguments.text(0, scene)?;
        let duration = duration(&text).ok_or_else(|| Failure::about(&text, "is not a duration"))?;
        Ok(Value::Duration(duration))
    }),
    function("Hours", DURATION, |arguments, scene| in_fractions(arguments, scene, 3_600_000_000_000.0)),
    function("Minutes", DURATION, |arguments, scene| in_fractions(arguments, scene, 60_000_000_000.0)),
    function("Seconds", DURATION, |arguments, scene| in_fractions(arguments, scene, 1_000_000_000.0)),
    function("Milliseconds", DURATION, |arguments, scene| in_whole(arguments, scene, 1_000_000)),
    function("Microseconds", DURATION, |arguments, scene| in_whole(arguments, scene, 1_000)),
    function("Nanoseconds", DURATION, |arguments, scene| in_whole(arguments, scene, 1)),
    function("Day", TIME, |arguments, scene| part(arguments, scene, |civil| civil.day)),
    function("Hour", TIME, |arguments, scene| part(arguments, scene, |civil| civil.hour)),
    function("Minute", TIME, |arguments, scene| part(arguments, scene, |civil| civil.minute)),
    function("Month", TIME, |arguments, scene| part(arguments, scene, |civil| civil.month)),
    function("Nanosecond", TIME, |arguments, scene| part(arguments, scene, |civil| civil.nanosecond)),
    function("Second", TIME, |arguments, scene| part(arguments, scene, |civil| civil.second)),
    function("Weekday", TIME, |arguments, scene| part(arguments, scene, |civil| civil.weekday)),
    function("Year", TIME, |arguments, scene| part(arguments, scene, |civil| civil.year)),
    function(
        "FormatTime",
        &[required("time", Kind::Typed(Type::Time)), required("format", Kind::TimeFormat)],
        |arguments, scene| Ok(Value::text(arguments.time_format(1)?.print(&arguments.time(0, scene)?))),
    ),
    function(
        "Time",
        &[
            required("time", STRING),
            required("format", Kind::TimeFormat),
            optional("location", Kind::Zone),
            optional("locale", Kind::OneOf(&["en"])),
        ],
        |arguments, scene| {
            let text = arguments.text(0, scene)?;
            let time = arguments.time_format(1)?.parse(&text, &arguments.zone(2), scene.now);
            time.map(Value::Time).ok_or_else(|| Failure::about(&text, "does not fit the format"))
        },
    ),
    function(
        "TruncateTime",
        &[required("time", Kind::Typed(Type::Time)), required("duration", Kind::Typed(Type::Duration))],
        truncate_time,
    ),
    function("UnixSeconds", TIME, |arguments, scene| Ok(in_units(arguments.time(0, scene)?, SECOND))),
    function("UnixMilli", TIME, |arguments, scene| Ok(in_units(arguments.time(0, scene)?, 1_000_000))),
    function("UnixMicro", TIME, |arguments, scene| Ok(in_units(arguments.time(0, scene)?, 1_000))),
    function("UnixNano", TIME, |arguments, scene| Ok(in_units(arguments.time(0, scene)?, 1))),
];

fn part<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, part: fn(Civil) -> i64) -> Result<Value<'a>, Failure> {
    Ok(Value::Int(part(arguments.time(0, scene)?.civil())))
}

/// The last multiple of a duration since the year 1 that is not after the time.
fn truncate_time<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>) -> Result<Value<'a>, Failure> {
    const YEAR_1: i128 = -62_135_596_800 * SECOND;
    let Time { unix_nano, zone } = arguments.time(0, scene)?;
    let unix_nano = match i128::from(arguments.value(1, scene)?.into_duration()?) {
        duration if duration > 0 => unix_nano - (unix_nano - YEAR_1).rem_euclid(duration),
        _ => unix_nano,
    };
    Ok(Value::Time(Time { unix_nano, zone }))
}

fn in_units<'a>(time: Time, nanoseconds: i128) -> Value<'a> {
    Value::Int(clamped(time.unix_nano.div_euclid(nanoseconds)))
}

#[expect(clippy::cast_precision_loss, reason = "a fraction is what is asked for")]
fn in_fractions<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, unit: f64) -> Result<Value<'a>, Failure> {
    Ok(Value::Double(arguments.value(0, scene)?.into_duration()? as f64 / unit))
}

fn in_whole<'a>(arguments: &'a Arguments, scene: &mut Scene<'a>, unit: i64) -> Result<Value<'a>, Failure> {
    Ok(Value::Int(arguments.value(0, scene)?.into_duration()? / unit))
}

/// Nanoseconds of a duration in Go's notation: `1h30m`, `-1.5s`, `0`.
fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    let mut total: i128 = 0;
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        let number = rest.find(|char: char| !char.is_ascii_digit() && char != '.').filter(|length| *length > 0)?;
        let (whole, fraction) = rest[..number].split_once('.').unwrap_or((&rest[..number], ""));
        let unit_length = rest[number..].find(|char: char| char.is_ascii_digit() || char == '.');
        let end = unit_length.map_or(rest.len(), |length| number + length);
        let unit = unit(&rest[number..end])?;
        let digits = |digits: &str| if digits.is_empty() { Some(0) } else { digits.parse::<i64>().ok() };
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        total += i128::from(digits(whole)?) * unit;
        // More digits than a nanosecond has would not change anything.
        let fraction = &fraction[..fraction.len().min(15)];
        let scale = 10i128.pow(u32::try_from(fraction.len()).ok()?);
        total += i128::from(digits(fraction)?) * unit / scale;
        rest = &rest[end..];
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

/// Nanoseconds of a unit.
fn unit(name: &str) -> Option<i128> {
    Some(match name {
        "ns" => 1,
        "us" | "µs" | "μs" => 1_000,
        "ms" => 1_000_000,
        "s" => SECOND,
        "m" => 60 * SECOND,
        "h" => 3_600 * SECOND,
        _ => return None,
    })
}
