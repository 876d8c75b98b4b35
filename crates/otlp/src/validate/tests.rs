//! Fields that one loop checks at once: they are judged rightly, and nearly all items are made of them.

use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::{common::v1 as common, logs::v1 as logs, metrics::v1 as metrics, trace::v1 as trace};
use proptest::collection::vec;
use proptest::prelude::*;

use super::after_plain_fields;
use crate::build::Encoder;
use crate::schema::{Kind, Message};
use crate::signal::Signal;

/// The message that these field numbers lead to.
fn message(signal: Signal, path: &[u32]) -> &'static Message {
    path.iter().fold(signal.schema(), |message, number| match message.field(*number).map(|field| field.kind) {
        Some(Kind::Message(inner)) => inner,
        other => panic!("{number} of {path:?} is {other:?}"),
    })
}

fn attribute(item: &mut Encoder, number: u32, key: &str, value: &str) {
    let attribute = item.open(number, 0);
    item.bytes(1, key.as_bytes());
    let any = item.open(2, 0);
    item.bytes(1, value.as_bytes());
    item.close(any);
    item.close(attribute);
}

fn span() -> Vec<u8> {
    let mut span = Encoder::default();
    span.bytes(1, &[0xff; 16]);
    span.bytes(2, &[0xff; 8]);
    span.bytes(5, b"GET /cart");
    span.varint(6, 2);
    span.fixed64(7, u64::MAX);
    span.fixed64(8, 1);
    attribute(&mut span, 9, "http.route", "/cart");
    span.varint(10, 1);
    span.into_bytes()
}

fn after(bytes: &[u8]) -> usize {
    after_plain_fields(message(Signal::Traces, &[1, 2, 2]), bytes, 0, true)
}

#[test]
fn all_of_a_usual_span_is_gone_over_but_for_attributes_that_may_be_nested_too_deep() {
    let span = span();
    assert_eq!(after(&span), span.len());
    let before = after_plain_fields(message(Signal::Traces, &[1, 2, 2]), &span, 0, false);
    assert_eq!((before, span[before]), (span.len() - 2 - 23, 9 << 3 | 2));
}

/// Wherever it is cut, and whatever else is in its place.
#[test]
fn what_is_not_plain_is_left_to_be_judged() {
    let span = span();
    let other: [&[u8]; 10] = [
        &[5 << 3 | 2, 1, 0x80],
        &[5 << 3 | 2, 0x81, 0, b'a'],
        &[6 << 3, 0x82, 0],
        &[6 << 3 | 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[6 << 3 | 3, 0],
        &[15 << 3 | 2, 0],
        &[0x85, 1, 0, 0, 0, 0],
        // Attributes: text that is not ASCII, a value that ends early, no value.
        &[9 << 3 | 2, 8, 0x0a, 1, b'k', 0x12, 3, 0x0a, 1, 0xff],
        &[9 << 3 | 2, 8, 0x0a, 1, b'k', 0x12, 3, 0x0a, 2, b'v'],
        &[9 << 3 | 2, 3, 0x0a, 1, b'k'],
    ];
    for other in other {
        assert_eq!(after(&[&span, other, &span].concat()), span.len(), "{other:?}");
    }
    let borders: Vec<usize> = (0..=span.len()).filter(|end| after(&span[..*end]) == *end).collect();
    assert_eq!(borders.len(), 9, "{borders:?}");
}

/// Bytes that begin as fields do, some of them right.
fn fields() -> impl Strategy<Value = Vec<u8>> {
    let key = (1..20u8, prop::sample::select(vec![0u8, 1, 2, 2, 2, 5])).prop_map(|(number, wire)| number << 3 | wire);
    let text = prop_oneof![4 => vec(b' '..=b'~', 0..40), 1 => vec(any::<u8>(), 0..140)];
    let attribute = (text.clone(), text.clone(), 0..3usize).prop_map(|(key, value, number)| {
        let mut out = Encoder::default();
        out.bytes(1, &key);
        let any = out.open(2, 0);
        out.bytes(1, &value);
        out.close(any);
        let mut field = Encoder::default();
        field.bytes([9, 6, 7][number], &out.into_bytes());
        field.into_bytes()
    });
    let field = prop_oneof![
        (key.clone(), text).prop_map(|(key, text)| {
            let length = u8::try_from(text.len()).unwrap();
            let length = if key & 7 == 2 { vec![length] } else { Vec::new() };
            [&[key][..], &length, &text].concat()
        }),
        (key, any::<[u8; 8]>()).prop_map(|(key, value)| [&[key][..], &value].concat()),
        attribute,
    ];
    (vec(field, 0..6), 0..4usize).prop_map(|(fields, cut)| {
        let mut bytes = fields.concat();
        bytes.truncate(bytes.len().saturating_sub(cut));
        bytes
    })
}

fn decodes<T: prost::Message + Default>(signal: Signal, path: &[u32], bytes: &[u8]) -> Result<(), TestCaseError> {
    let plain = &bytes[..after_plain_fields(message(signal, path), bytes, 0, true)];
    prop_assert!(T::decode(plain).is_ok(), "{path:?}: {plain:?}");
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4096))]

    /// WIRE-4 of what is gone over at once.
    #[test]
    fn what_is_plain_decodes(bytes in fields()) {
        decodes::<Resource>(Signal::Traces, &[1, 1], &bytes)?;
        decodes::<common::KeyValue>(Signal::Traces, &[1, 1, 1], &bytes)?;
        decodes::<common::AnyValue>(Signal::Traces, &[1, 1, 1, 2], &bytes)?;
        decodes::<trace::Span>(Signal::Traces, &[1, 2, 2], &bytes)?;
        decodes::<logs::LogRecord>(Signal::Logs, &[1, 2, 2], &bytes)?;
        decodes::<metrics::Metric>(Signal::Metrics, &[1, 2, 2], &bytes)?;
        decodes::<metrics::NumberDataPoint>(Signal::Metrics, &[1, 2, 2, 5, 1], &bytes)?;
        decodes::<metrics::HistogramDataPoint>(Signal::Metrics, &[1, 2, 2, 9, 1], &bytes)?;
    }
}
