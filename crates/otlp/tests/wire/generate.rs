//! Strategies: requests as prost structures, and ways to damage their bytes.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use opentelemetry_proto::tonic::trace::v1::span::{Event, Link};
use opentelemetry_proto::tonic::trace::v1::{ResourceSpans, ScopeSpans, Span, Status};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;

/// Short strings, now and then long or far from ASCII.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![8 => "[a-z.]{0,12}", 1 => "\\PC{0,8}", 1 => "[a-z]{120,140}", 1 => "é[a-z]{15,40}"]
}

fn any_value() -> impl Strategy<Value = AnyValue> {
    let leaf = prop_oneof![
        4 => text().prop_map(Value::StringValue),
        1 => any::<bool>().prop_map(Value::BoolValue),
        1 => any::<i64>().prop_map(Value::IntValue),
        1 => any::<f64>().prop_map(Value::DoubleValue),
        1 => vec(any::<u8>(), 0..20).prop_map(Value::BytesValue),
    ];
    let value = leaf.prop_recursive(3, 8, 3, |inner| {
        let values = vec(inner.clone().prop_map(|value| AnyValue { value: Some(value) }), 0..3);
        let pairs = vec((text(), inner), 0..3);
        prop_oneof![
            values.prop_map(|values| Value::ArrayValue(ArrayValue { values })),
            pairs.prop_map(|pairs| Value::KvlistValue(KeyValueList {
                values: pairs.into_iter().map(|(key, value)| key_value(key, Some(value))).collect()
            })),
        ]
    });
    option::weighted(0.95, value).prop_map(|value| AnyValue { value })
}

fn key_value(key: String, value: Option<Value>) -> KeyValue {
    KeyValue { key, value: Some(AnyValue { value }), key_strindex: 0 }
}

fn attribute() -> impl Strategy<Value = KeyValue> {
    (text(), option::weighted(0.95, any_value()), prop_oneof![9 => Just(0), 1 => any::<i32>()])
        .prop_map(|(key, value, key_strindex)| KeyValue { key, value, key_strindex })
}

fn attributes() -> impl Strategy<Value = Vec<KeyValue>> {
    vec(attribute(), 0..4)
}

fn id(length: usize) -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![9 => vec(any::<u8>(), length), 1 => vec(any::<u8>(), 0..20)]
}

fn event() -> impl Strategy<Value = Event> {
    (any::<u64>(), text(), attributes(), any::<u32>()).prop_map(
        |(time_unix_nano, name, attributes, dropped_attributes_count)| Event {
            time_unix_nano,
            name,
            attributes,
            dropped_attributes_count,
        },
    )
}

fn link() -> impl Strategy<Value = Link> {
    (id(16), id(8), text(), attributes(), any::<u32>()).prop_map(|(trace_id, span_id, trace_state, attributes, n)| {
        Link { trace_id, span_id, trace_state, attributes, dropped_attributes_count: n, flags: n }
    })
}

fn span() -> impl Strategy<Value = Span> {
    let ids = (id(16), id(8), prop_oneof![Just(Vec::new()), id(8)]);
    let status = (text(), 0..4).prop_map(|(message, code)| Status { message, code });
    let parts = (attributes(), vec(event(), 0..2), vec(link(), 0..2), option::of(status));
    let scalars = (any::<u64>(), any::<u64>(), any::<u32>(), -1..7);
    (ids, text(), text(), parts, scalars).prop_map(|(ids, name, trace_state, parts, scalars)| Span {
        trace_id: ids.0,
        span_id: ids.1,
        trace_state,
        parent_span_id: ids.2,
        flags: scalars.2,
        name,
        kind: scalars.3,
        start_time_unix_nano: scalars.0,
        end_time_unix_nano: scalars.1,
        attributes: parts.0,
        dropped_attributes_count: scalars.2 & 1,
        events: parts.1,
        dropped_events_count: scalars.2,
        links: parts.2,
        dropped_links_count: scalars.2 & 0xff,
        status: parts.3,
    })
}

fn scope_spans() -> impl Strategy<Value = ScopeSpans> {
    let scope = (text(), text(), attributes(), any::<u32>()).prop_map(|(name, version, attributes, n)| {
        InstrumentationScope { name, version, attributes, dropped_attributes_count: n }
    });
    (option::of(scope), vec(span(), 0..5), text()).prop_map(|(scope, spans, schema_url)| ScopeSpans {
        scope,
        spans,
        schema_url,
    })
}

fn resource_spans() -> impl Strategy<Value = ResourceSpans> {
    let entity = (text(), text(), vec(text(), 0..3)).prop_map(|(schema_url, r#type, keys)| EntityRef {
        schema_url,
        r#type,
        id_keys: keys.clone(),
        description_keys: keys,
    });
    let resource = (attributes(), any::<u32>(), vec(entity, 0..2)).prop_map(|(attributes, n, entity_refs)| Resource {
        attributes,
        dropped_attributes_count: n,
        entity_refs,
    });
    (option::of(resource), vec(scope_spans(), 0..4), text())
        .prop_map(|(resource, scope_spans, schema_url)| ResourceSpans { resource, scope_spans, schema_url })
}

/// A whole request.
pub(crate) fn request() -> impl Strategy<Value = ExportTraceServiceRequest> {
    vec(resource_spans(), 0..4).prop_map(|resource_spans| ExportTraceServiceRequest { resource_spans })
}

/// One way to damage bytes; positions are taken modulo the length.
#[derive(Debug, Clone)]
pub(crate) enum Damage {
    Flip(usize, u8),
    Set(usize, u8),
    Remove(usize, usize),
    Insert(usize, Vec<u8>),
    Truncate(usize),
    Repeat(usize, usize),
}

impl Damage {
    fn apply(&self, bytes: &mut Vec<u8>) {
        if bytes.is_empty() {
            return;
        }
        let len = bytes.len();
        match self {
            Self::Flip(at, bit) => bytes[at % len] ^= 1 << (bit % 8),
            Self::Set(at, byte) => bytes[at % len] = *byte,
            Self::Remove(at, count) => drop(bytes.drain(at % len..(at % len + count).min(len))),
            Self::Insert(at, new) => drop(bytes.splice(at % len..at % len, new.iter().copied())),
            Self::Truncate(at) => bytes.truncate(at % len),
            Self::Repeat(at, count) => {
                let copy = bytes[at % len..(at % len + count).min(len)].to_vec();
                drop(bytes.splice(at % len..at % len, copy));
            }
        }
    }
}

/// Some damage to some bytes.
pub(crate) fn damaged(bytes: impl Strategy<Value = Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let at = any::<usize>();
    // Bytes that mean something: keys, lengths, continuation bits, group markers.
    let byte = prop_oneof![any::<u8>(), prop::sample::select(vec![0, 1, 2, 0x0a, 0x12, 0x13, 0x14, 0x7f, 0x80, 0xff])];
    let damage = prop_oneof![
        (at, any::<u8>()).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        (at, byte.clone()).prop_map(|(at, byte)| Damage::Set(at, byte)),
        (at, 1..4usize).prop_map(|(at, count)| Damage::Remove(at, count)),
        (at, vec(byte, 1..4)).prop_map(|(at, new)| Damage::Insert(at, new)),
        at.prop_map(Damage::Truncate),
        (at, 1..40usize).prop_map(|(at, count)| Damage::Repeat(at, count)),
    ];
    (bytes, vec(damage, 1..4)).prop_map(|(mut bytes, damages)| {
        damages.iter().for_each(|damage| damage.apply(&mut bytes));
        bytes
    })
}
