//! Attributes on the wire: found without reading all of them, and encoded.

use weir_otlp::build::Encoder;
use weir_otlp::common::{AnyValue, KeyValue, Message};
use weir_otlp::cursor::{Field, WireType};
use weir_otlp::field::{any_value, key_value, log_record, resource, short_key, span};

/// Field of a `Resource` that holds an attribute.
pub(crate) const OF_RESOURCE: u32 = resource::ATTRIBUTES;
/// Field of a `Span` that holds an attribute.
pub(crate) const OF_SPAN: u32 = span::ATTRIBUTES;
/// Field of a `LogRecord` that holds an attribute.
pub(crate) const OF_LOG_RECORD: u32 = log_record::ATTRIBUTES;

/// Key byte of `KeyValue.key`.
const KEY: u8 = short_key(key_value::KEY, WireType::Len);

/// The string attributes with these keys in field `number` of a message; empty where there is none. If several
/// attributes have one key, the first counts, as in the Collector.
pub(crate) fn texts<'a, const N: usize>(message: Message<'a>, number: u32, keys: [&str; N]) -> [&'a str; N] {
    let mut found = [None; N];
    for field in message.fields().filter(|field| field.number == number) {
        let of_field = |(key, found): (&&str, &Option<_>)| found.is_none() && is_key(message, &field, key);
        let index = keys.iter().zip(&found).position(of_field);
        if let (Some(index), Some(attribute)) = (index, message.inner(&field)) {
            found[index] = Some(text(KeyValue(attribute).value()));
        }
    }
    found.map(Option::unwrap_or_default)
}

/// The value of the first attribute `key` in field `number` of a message.
pub(crate) fn first<'a>(message: Message<'a>, number: u32, key: &str) -> Option<AnyValue<'a>> {
    let mut fields = message.fields().filter(|field| field.number == number);
    let field = fields.find(|field| is_key(message, field, key))?;
    Some(KeyValue(message.inner(&field)?).value())
}

/// Whether the attribute in this field has this string for its value.
pub(crate) fn is_text<'a>(message: Message<'a>, field: &Field<'a>, value: &str) -> bool {
    message.inner(field).is_some_and(|attribute| text(KeyValue(attribute).value()) == value)
}

/// Whether this field of a message is an attribute with this key.
///
/// Most attributes are not the one that is looked for, so their keys are compared where every encoder puts them, as
/// the first field; what looks different is read as protobuf wants it.
#[inline]
pub(crate) fn is_key<'a>(message: Message<'a>, field: &Field<'a>, key: &str) -> bool {
    match field.body() {
        Some([KEY, length, rest @ ..]) if *length < 0x80 => {
            usize::from(*length) == key.len() && rest.starts_with(key.as_bytes())
        }
        Some(_) => message.inner(field).is_some_and(|attribute| KeyValue(attribute).key() == key),
        None => false,
    }
}

/// The value, when it is a string; empty otherwise.
pub(crate) fn text(value: AnyValue<'_>) -> &str {
    if let AnyValue::String(text) = value { text } else { "" }
}

/// Whether a value says nothing.
pub(crate) fn is_empty(value: AnyValue<'_>) -> bool {
    matches!(value, AnyValue::Empty | AnyValue::String("") | AnyValue::Bytes([]))
}

/// Writes a string attribute as field `number` of the message under construction.
pub(crate) fn write(out: &mut Encoder, number: u32, key: &str, value: &str) {
    let attribute = out.open(number, key.len() + value.len() + 6);
    out.bytes(key_value::KEY, key.as_bytes());
    let any_value = out.open(key_value::VALUE, value.len() + 2);
    out.bytes(any_value::STRING_VALUE, value.as_bytes());
    out.close(any_value);
    out.close(attribute);
}
