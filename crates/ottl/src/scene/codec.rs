//! Fields on the wire to values, and back.

use std::borrow::Cow;

use weir_otlp::build::Encoder;
use weir_otlp::cursor::{Cursor, Fields};

use crate::draft::Scalar;
use crate::paths::Codec;
use crate::value::math::clamped;
use crate::value::text::{from_hex, to_hex};
use crate::value::{Failure, Messages, Time, Value};

/// Words for `SpanKind`, and the names in the `.proto` file.
const SPAN_KINDS: [(&str, &str); 6] = [
    ("Unspecified", "SPAN_KIND_UNSPECIFIED"),
    ("Internal", "SPAN_KIND_INTERNAL"),
    ("Server", "SPAN_KIND_SERVER"),
    ("Client", "SPAN_KIND_CLIENT"),
    ("Producer", "SPAN_KIND_PRODUCER"),
    ("Consumer", "SPAN_KIND_CONSUMER"),
];

/// The value of a field. An absent field has the default of its type.
pub(super) fn decode<'a>(codec: Codec, scalar: Option<Scalar<'a>>) -> Value<'a> {
    match codec {
        Codec::Text | Codec::TraceState => Value::String(text(scalar)),
        Codec::Bool => Value::Bool(bits(scalar) != 0),
        Codec::Int32 => Value::Int(i64::from(low32(bits(scalar)).cast_signed())),
        Codec::Uint32 | Codec::Fixed32 => Value::Int(i64::from(low32(bits(scalar)))),
        Codec::Sint32 => {
            let raw = low32(bits(scalar));
            Value::Int(i64::from((raw >> 1).cast_signed() ^ -(raw & 1).cast_signed()))
        }
        Codec::Fixed64 | Codec::UnixNano | Codec::ValueInt(_) => Value::Int(bits(scalar).cast_signed()),
        Codec::Time => Value::Time(Time::utc(i128::from(bits(scalar).cast_signed()))),
        Codec::OptionalDouble | Codec::ValueDouble(_) => Value::Double(f64::from_bits(bits(scalar))),
        Codec::TraceId => id(scalar).map_or(Value::Nil, Value::TraceId),
        Codec::SpanId => id(scalar).map_or(Value::Nil, Value::SpanId),
        Codec::TraceIdText => Value::text(to_hex(&id::<16>(scalar).unwrap_or_default())),
        Codec::SpanIdText => Value::text(to_hex(&id::<8>(scalar).unwrap_or_default())),
        Codec::SpanKind => Value::text(span_kind(bits(scalar)).map_or("", |(word, _)| word)),
        Codec::SpanKindName => Value::text(span_kind(bits(scalar)).map_or("", |(_, name)| name)),
        Codec::Fixed64List | Codec::Uint64List | Codec::DoubleList | Codec::Message(_) | Codec::Messages(_) => {
            Value::Nil
        }
    }
}

fn span_kind(number: u64) -> Option<&'static (&'static str, &'static str)> {
    usize::try_from(number).ok().and_then(|number| SPAN_KINDS.get(number))
}

/// What is written for a value; nothing if it is the default of the field.
pub(super) fn encode<'a>(codec: Codec, value: Value<'a>) -> Result<Option<Scalar<'a>>, Failure> {
    Ok(match (codec, value) {
        (_, Value::Nil)
            if !matches!(codec, Codec::Messages(_) | Codec::Fixed64List | Codec::Uint64List | Codec::DoubleList) =>
        {
            return Err(Failure::text("this cannot be set to nil"));
        }
        (Codec::Fixed64List | Codec::Uint64List | Codec::DoubleList | Codec::Messages(_), Value::Nil) => None,
        (Codec::Text | Codec::TraceState, value) => bytes(match value.into_text()? {
            Cow::Borrowed(text) => Cow::Borrowed(text.as_bytes()),
            Cow::Owned(text) => Cow::Owned(text.into_bytes()),
        }),
        (Codec::Bool, value) => varint(u64::from(value.into_bool()?)),
        (Codec::Int32, value) => varint(i64::from(int::<i32>(value)?).cast_unsigned()),
        (Codec::Uint32, value) => varint(u64::from(int::<u32>(value)?)),
        (Codec::Sint32, value) => {
            let value = int::<i32>(value)?;
            varint(u64::from((value << 1 ^ value >> 31).cast_unsigned()))
        }
        (Codec::Fixed32, value) => Some(int::<u32>(value)?).filter(|value| *value != 0).map(Scalar::Fixed32),
        (Codec::Fixed64 | Codec::UnixNano, value) => fixed64(value.into_int()?.cast_unsigned()),
        (Codec::Time, value) => fixed64(clamped(value.into_time()?.unix_nano).cast_unsigned()),
        (Codec::OptionalDouble | Codec::ValueDouble(_), value) => Some(Scalar::Fixed64(value.into_double()?.to_bits())),
        (Codec::ValueInt(_), value) => Some(Scalar::Fixed64(value.into_int()?.cast_unsigned())),
        (Codec::TraceId, Value::TraceId(id)) => set_id(&id),
        (Codec::SpanId, Value::SpanId(id)) => set_id(&id),
        (Codec::TraceIdText, value) => set_id(&id_from_hex::<16>(&value.into_text()?)?),
        (Codec::SpanIdText, value) => set_id(&id_from_hex::<8>(&value.into_text()?)?),
        (Codec::SpanKind | Codec::SpanKindName, value) => {
            let text = value.into_text()?;
            let matches = |kind: &(&str, &str)| text == if codec == Codec::SpanKind { kind.0 } else { kind.1 };
            let number = SPAN_KINDS.iter().position(matches);
            varint(number.ok_or_else(|| Failure::about(&text, "is no kind of span"))? as u64)
        }
        (Codec::Fixed64List | Codec::Uint64List | Codec::DoubleList, value) => packed(codec, value)?,
        (Codec::Message(kind) | Codec::Messages(kind), Value::Messages(messages)) if messages.kind == kind => {
            let Messages { mut bodies, repeated, .. } = *messages;
            if repeated { Some(Scalar::Repeated(bodies)) } else { bodies.pop().map(Scalar::Len) }
        }
        (codec, value) => {
            return Err(Failure::new(format!("expected a {} but got a {}", codec.type_name(), value.type_name())));
        }
    })
}

fn varint<'a>(value: u64) -> Option<Scalar<'a>> {
    (value != 0).then_some(Scalar::Varint(value))
}

fn fixed64<'a>(bits: u64) -> Option<Scalar<'a>> {
    (bits != 0).then_some(Scalar::Fixed64(bits))
}

fn bytes(bytes: Cow<'_, [u8]>) -> Option<Scalar<'_>> {
    (!bytes.is_empty()).then_some(Scalar::Len(bytes))
}

fn int<T: TryFrom<i64>>(value: Value<'_>) -> Result<T, Failure> {
    T::try_from(value.into_int()?).map_err(|_| Failure::text("the int is out of range for this field"))
}

fn set_id<'a>(id: &[u8]) -> Option<Scalar<'a>> {
    id.iter().any(|byte| *byte != 0).then(|| Scalar::Len(Cow::Owned(id.to_vec())))
}

/// An id from its hexadecimal digits.
pub(crate) fn id_from_hex<const N: usize>(text: &str) -> Result<[u8; N], Failure> {
    let bytes = from_hex(text.as_bytes()).and_then(|bytes| <[u8; N]>::try_from(bytes).ok());
    bytes.ok_or_else(|| Failure::new(format!("an id must have {} hexadecimal digits", N * 2)))
}

fn id<const N: usize>(scalar: Option<Scalar<'_>>) -> Option<[u8; N]> {
    match body_ref(scalar.as_ref()) {
        [] => Some([0; N]),
        bytes => bytes.try_into().ok(),
    }
}

fn body_ref<'s>(scalar: Option<&'s Scalar<'_>>) -> &'s [u8] {
    match scalar {
        Some(Scalar::Len(body)) => body,
        _ => &[],
    }
}

/// The body of a length-delimited field.
pub(super) fn body(scalar: Scalar<'_>) -> Option<Cow<'_, [u8]>> {
    match scalar {
        Scalar::Len(body) => Some(body),
        _ => None,
    }
}

fn bits(scalar: Option<Scalar<'_>>) -> u64 {
    match scalar {
        Some(Scalar::Varint(value) | Scalar::Fixed64(value)) => value,
        Some(Scalar::Fixed32(value)) => u64::from(value),
        _ => 0,
    }
}

fn low32(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

fn text(scalar: Option<Scalar<'_>>) -> Cow<'_, str> {
    match scalar {
        Some(Scalar::Len(Cow::Borrowed(text))) => Cow::Borrowed(std::str::from_utf8(text).unwrap_or_default()),
        Some(Scalar::Len(Cow::Owned(text))) => Cow::Owned(String::from_utf8(text).unwrap_or_default()),
        _ => Cow::Borrowed(""),
    }
}

/// The fields with a number inside the message that a field is.
pub(super) fn inner<'a>(outer: Option<Scalar<'a>>, number: u32) -> Vec<Scalar<'a>> {
    match outer {
        Some(Scalar::Len(Cow::Borrowed(body))) => {
            Fields::new(body).filter(|field| field.number == number).map(|field| Scalar::of(field.value)).collect()
        }
        Some(Scalar::Len(Cow::Owned(body))) => {
            let found = Fields::new(&body).filter(|field| field.number == number);
            found.map(|field| own(Scalar::of(field.value))).collect()
        }
        _ => Vec::new(),
    }
}

fn own<'a>(scalar: Scalar<'_>) -> Scalar<'a> {
    match scalar {
        Scalar::Varint(value) => Scalar::Varint(value),
        Scalar::Fixed64(bits) => Scalar::Fixed64(bits),
        Scalar::Fixed32(bits) => Scalar::Fixed32(bits),
        Scalar::Len(body) => Scalar::Len(Cow::Owned(body.into_owned())),
        Scalar::Repeated(bodies) => {
            Scalar::Repeated(bodies.into_iter().map(|body| Cow::Owned(body.into_owned())).collect())
        }
    }
}

/// The body of a message in which a field has another value; its other fields are as they were.
pub(super) fn with_inner(body: &[u8], number: u32, scalar: Option<&Scalar<'_>>) -> Vec<u8> {
    let mut out = Encoder::with_capacity(body.len() + 16);
    for field in Fields::new(body).filter(|field| field.number != number) {
        out.raw(&body[field.start..field.end]);
    }
    if let Some(scalar) = scalar {
        scalar.encode(number, &mut out);
    }
    out.into_bytes()
}

/// The numbers in a repeated field, packed or not.
pub(super) fn list<'a>(codec: Codec, scalars: &[Scalar<'_>]) -> Value<'a> {
    let mut values = Vec::new();
    let mut push = |bits: u64| {
        values.push(if codec == Codec::DoubleList {
            Value::Double(f64::from_bits(bits))
        } else {
            Value::Int(bits.cast_signed())
        });
    };
    for scalar in scalars {
        match scalar {
            Scalar::Varint(bits) | Scalar::Fixed64(bits) => push(*bits),
            Scalar::Len(body) if codec == Codec::Uint64List => {
                let mut cursor = Cursor::new(body);
                while cursor.offset() < body.len()
                    && let Ok(value) = cursor.varint()
                {
                    push(value);
                }
            }
            Scalar::Len(body) => body.as_chunks().0.iter().for_each(|chunk| push(u64::from_le_bytes(*chunk))),
            Scalar::Fixed32(_) | Scalar::Repeated(_) => {}
        }
    }
    Value::list(values)
}

fn packed<'a>(codec: Codec, value: Value<'_>) -> Result<Option<Scalar<'a>>, Failure> {
    let mut out = Encoder::default();
    for value in value.into_list()?.into_values() {
        match codec {
            Codec::DoubleList => out.raw(&value.into_double()?.to_le_bytes()),
            Codec::Fixed64List => out.raw(&value.into_int()?.to_le_bytes()),
            _ => crate::patch::raw_varint(value.into_int()?.cast_unsigned(), &mut out),
        }
    }
    Ok(bytes(Cow::Owned(out.into_bytes())))
}
