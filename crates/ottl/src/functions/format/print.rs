//! Values by a verb.

use std::borrow::Cow;

use super::quote;
use super::spec::Spec;
use crate::value::text::{check_growing, to_hex};
use crate::value::time::{Civil, Time};
use crate::value::{Failure, List, Map, Value};

/// Appends a value. A verb that is not for its type is written with it.
pub(super) fn value(value: &Value<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    match value {
        Value::Nil if matches!(verb, 'v' | 'T') => spec.pad("<nil>", out),
        _ if verb == 'T' => spec.pad(spec.truncated(type_name(value)?), out),
        Value::Bool(value) if matches!(verb, 't' | 'v') => spec.pad(if *value { "true" } else { "false" }, out),
        Value::Double(_) if matches!(verb, 'b' | 'x' | 'X') => return Err(no_text(value, verb)),
        Value::Double(double) => match spec.float(*double, verb, out) {
            Some(()) => {}
            None => return wrong(value, verb, spec, out),
        },
        Value::Int(int) => return integer(*int, value, verb, spec, out),
        Value::Duration(nanos) if !is_for_text(verb) => return integer(*nanos, value, verb, spec, out),
        Value::String(text) => return string(text, value, verb, spec, out),
        Value::Bytes(bytes) => return self::bytes(bytes, verb, spec, out),
        Value::List(list) => return self::list(list, verb, spec, out),
        Value::Map(map) => return self::map(map, verb, spec, out),
        Value::Nil | Value::Bool(_) => return wrong(value, verb, spec, out),
        Value::Messages(_) | Value::Unreadable => return Err(no_text(value, verb)),
        Value::Time(_) | Value::Duration(_) | Value::TraceId(_) | Value::SpanId(_) | Value::ProfileId(_) => {
            if !is_for_text(verb) || spec.go {
                return Err(no_text(value, verb));
            }
            return string(&stringer(value), value, verb, spec, out);
        }
    }
    Ok(())
}

/// Appends a value after its type.
pub(super) fn with_type(value: &Value<'_>, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    if !value.is_nil() {
        out.push_str(type_name(value)?);
        out.push('=');
    }
    self::value(value, 'v', spec, out)
}

/// Says that a verb is not for a value, and appends it with the flags of the verb.
fn wrong(value: &Value<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    out.push_str(&format!("%!{verb}("));
    match value {
        Value::Nil => out.push_str("<nil>"),
        value => {
            out.push_str(type_name(value)?);
            out.push('=');
            match value {
                Value::Duration(nanos) => integer(*nanos, value, 'v', spec, out)?,
                value => self::value(value, 'v', spec, out)?,
            }
        }
    }
    out.push(')');
    Ok(())
}

fn no_text(value: &Value<'_>, verb: char) -> Failure {
    Failure::new(format!("a {} cannot be formatted with %{verb}", value.type_name()))
}

/// Verbs that ask a value for its text.
fn is_for_text(verb: char) -> bool {
    matches!(verb, 'v' | 's' | 'x' | 'X' | 'q')
}

/// What the type is called in the reference.
fn type_name(value: &Value<'_>) -> Result<&'static str, Failure> {
    Ok(match value {
        Value::Nil => "<nil>",
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Double(_) => "float64",
        Value::String(_) => "string",
        Value::Bytes(_) => "[]uint8",
        Value::Map(_) => "pcommon.Map",
        Value::List(_) => "pcommon.Slice",
        Value::Time(_) => "time.Time",
        Value::Duration(_) => "time.Duration",
        Value::TraceId(_) => "pcommon.TraceID",
        Value::SpanId(_) => "pcommon.SpanID",
        Value::ProfileId(_) => "pprofile.ProfileID",
        Value::Messages(_) | Value::Unreadable => return Err(no_text(value, 'T')),
    })
}

fn integer(int: i64, value: &Value<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    let char = u32::try_from(int).ok().and_then(char::from_u32).unwrap_or(char::REPLACEMENT_CHARACTER);
    match verb {
        'v' | 'd' | 'b' | 'o' | 'O' | 'x' | 'X' => spec.integer(int.into(), verb, out),
        'c' => spec.pad(char.encode_utf8(&mut [0; 4]), out),
        'q' => spec.pad(&quote::char(char, spec.plus), out),
        'U' => {
            let digits = format!("{:X}", int.cast_unsigned());
            let zeros = spec.precision.unwrap_or_default().max(4).saturating_sub(digits.len());
            let code = format!("U+{}{digits}", "0".repeat(zeros));
            let shown = spec.sharp
                && char::from_u32(u32::try_from(int).unwrap_or(u32::MAX))
                    .is_some_and(|char| (' '..='~').contains(&char) || (!char.is_ascii() && quote::is_printable(char)));
            spec.pad_with_spaces(&if shown { format!("{code} '{char}'") } else { code }, out);
        }
        _ => return wrong(value, verb, spec, out),
    }
    Ok(())
}

fn string(text: &str, value: &Value<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    let quotes = verb == 'q' || (verb == 'v' && spec.go);
    match verb {
        's' | 'v' if !quotes => spec.append(spec.truncated(text), out),
        'q' | 'v' => spec.append(&quoted(spec.truncated(text), spec)?, out),
        'x' | 'X' => spec.hex(text.as_bytes(), verb, out),
        _ => wrong(value, verb, spec, out),
    }
}

fn quoted(text: &str, spec: &Spec) -> Result<String, Failure> {
    check_growing(text.len(), spec.room)?;
    if spec.sharp && quote::is_raw(text) { Ok(format!("`{text}`")) } else { quote::text(text, spec.plus, spec.room) }
}

fn bytes(bytes: &[u8], verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    match verb {
        'x' | 'X' => return spec.hex(bytes, verb, out),
        's' | 'q' => {
            // What is no UTF-8 could not be stored. Each such byte becomes three.
            check_growing(bytes.len(), spec.room / 3)?;
            let text = String::from_utf8_lossy(bytes);
            let text = spec.truncated(&text);
            return if verb == 's' { spec.append(text, out) } else { spec.append(&quoted(text, spec)?, out) };
        }
        'v' | 'd' if spec.go => return Err(no_text(&Value::Bytes(bytes.into()), verb)),
        _ => {
            out.push('[');
            for (index, byte) in bytes.iter().enumerate() {
                check_growing(out.len(), spec.room)?;
                if index > 0 {
                    out.push(' ');
                }
                let int = i64::from(*byte);
                match verb {
                    'v' | 'd' | 'b' | 'o' | 'O' | 'c' | 'U' => integer(int, &Value::Int(int), verb, spec, out)?,
                    _ => {
                        out.push_str(&format!("%!{verb}(uint8="));
                        spec.integer(int.into(), 'd', out);
                        out.push(')');
                    }
                }
            }
            out.push(']');
        }
    }
    Ok(())
}

fn list(list: &List<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    out.push('[');
    for (index, value) in list.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        element(&value, verb, spec, out)?;
    }
    out.push(']');
    Ok(())
}

/// Maps are in the order of their keys.
fn map(map: &Map<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    let (entries, room) = map.sorted(spec.room)?;
    let spec = &Spec { room, ..*spec };
    out.push_str("map[");
    for (index, (key, value)) in entries.iter().enumerate() {
        if index > 0 {
            out.push(' ');
        }
        element(&Value::String(Cow::Borrowed(key)), verb, spec, out)?;
        out.push(':');
        element(value, verb, spec, out)?;
    }
    out.push(']');
    Ok(())
}

/// A value inside a list or a map. There, nil is written, whatever the verb is.
fn element(value: &Value<'_>, verb: char, spec: &Spec, out: &mut String) -> Result<(), Failure> {
    match value {
        _ if spec.go => Err(Failure::text("a list or a map cannot be formatted with %#v")),
        Value::Nil => {
            out.push_str("<nil>");
            Ok(())
        }
        value => self::value(value, verb, spec, out),
    }?;
    check_growing(out.len(), spec.room)
}

/// What the `String` method of the type in the reference says.
fn stringer(value: &Value<'_>) -> String {
    let id = |id: &[u8]| if id.iter().all(|byte| *byte == 0) { String::new() } else { to_hex(id) };
    match value {
        Value::Time(time) => self::time(time),
        Value::Duration(nanos) => duration(*nanos),
        Value::TraceId(bytes) | Value::ProfileId(bytes) => id(bytes),
        Value::SpanId(bytes) => id(bytes),
        _ => String::new(),
    }
}

fn time(time: &Time) -> String {
    let Civil { year, month, day, hour, minute, second, nanosecond, offset, .. } = time.civil();
    let fraction = match nanosecond {
        0 => String::new(),
        _ => format!(".{nanosecond:09}").trim_end_matches('0').to_owned(),
    };
    let offset =
        format!("{}{:02}{:02}", if offset < 0 { '-' } else { '+' }, offset.abs() / 3600, offset.abs() / 60 % 60);
    let name = time.zone.abbreviation_at(time.unix_seconds()).unwrap_or_else(|| offset.clone());
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction} {offset} {name}")
}

/// Hours, minutes and seconds; less than a second in the largest unit that fits.
fn duration(nanos: i64) -> String {
    let size = nanos.unsigned_abs();
    let in_unit = |unit: u64, digits: usize| {
        let fraction = format!(".{:0digits$}", size % unit);
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        format!("{}{fraction}", size / unit)
    };
    let text = match size {
        0 => "0s".to_owned(),
        1..1_000 => format!("{size}ns"),
        1_000..1_000_000 => format!("{}\u{b5}s", in_unit(1_000, 3)),
        1_000_000..1_000_000_000 => format!("{}ms", in_unit(1_000_000, 6)),
        _ => {
            let fraction = format!("{}.{:09}", (size / 1_000_000_000) % 60, size % 1_000_000_000);
            let seconds = fraction.trim_end_matches('0').trim_end_matches('.');
            let minutes = size / 60_000_000_000;
            match (minutes / 60, minutes % 60) {
                (0, 0) => format!("{seconds}s"),
                (0, minutes) => format!("{minutes}m{seconds}s"),
                (hours, minutes) => format!("{hours}h{minutes}m{seconds}s"),
            }
        }
    };
    if nanos < 0 { format!("-{text}") } else { text }
}
