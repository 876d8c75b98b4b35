//! Strategies: requests of any signal as prost structures, their bytes, and those bytes damaged or spelled otherwise.

mod damage;
mod logs;
mod metrics;
mod respell;
mod traces;

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{
    AnyValue, ArrayValue, EntityRef, InstrumentationScope, KeyValue, KeyValueList,
};
use opentelemetry_proto::tonic::resource::v1::Resource;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use weir_otlp::Signal;

use crate::model::Request;

pub(crate) use damage::damaged;

/// A whole request of any signal.
pub(crate) fn request() -> impl Strategy<Value = Request> {
    any_signal().prop_flat_map(request_of)
}

/// A whole request of this signal.
pub(crate) fn request_of(signal: Signal) -> BoxedStrategy<Request> {
    match signal {
        Signal::Traces => traces::request().prop_map(Request::Traces).boxed(),
        Signal::Metrics => metrics::request().prop_map(Request::Metrics).boxed(),
        Signal::Logs => logs::request().prop_map(Request::Logs).boxed(),
    }
}

/// A signal.
pub(crate) fn any_signal() -> impl Strategy<Value = Signal> {
    prop::sample::select(Signal::ALL.to_vec())
}

/// Bytes of a whole request of any signal.
pub(crate) fn request_bytes() -> impl Strategy<Value = (Signal, Vec<u8>)> {
    request().prop_map(|request| (request.signal(), request.encode()))
}

/// The same, damaged.
pub(crate) fn damaged_request() -> impl Strategy<Value = (Signal, Vec<u8>)> {
    any_signal().prop_flat_map(|signal| {
        let bytes = request_of(signal).prop_map(|request| request.encode());
        (Just(signal), damaged(bytes))
    })
}

/// A request and other bytes that mean the same, though no encoder would write them like this: numbers one by one and
/// in packs, fields that occur twice, several members of a oneof, fields of a later OTLP.
pub(crate) fn respelled_request() -> impl Strategy<Value = (Request, Vec<u8>)> {
    (request(), any::<u64>()).prop_map(|(request, seed)| {
        let bytes = respell::request(request.signal(), &request.encode(), seed);
        (request, bytes)
    })
}

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

fn scope() -> impl Strategy<Value = InstrumentationScope> {
    (text(), text(), attributes(), any::<u32>()).prop_map(|(name, version, attributes, n)| InstrumentationScope {
        name,
        version,
        attributes,
        dropped_attributes_count: n,
    })
}

fn resource() -> impl Strategy<Value = Resource> {
    let entity = (text(), text(), vec(text(), 0..3)).prop_map(|(schema_url, r#type, keys)| EntityRef {
        schema_url,
        r#type,
        id_keys: keys.clone(),
        description_keys: keys,
    });
    (attributes(), any::<u32>(), vec(entity, 0..2)).prop_map(|(attributes, n, entity_refs)| Resource {
        attributes,
        dropped_attributes_count: n,
        entity_refs,
    })
}
