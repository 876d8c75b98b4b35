//! Messages that all signals share, from views to prost.

use opentelemetry_proto::tonic::common::v1 as pb;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::resource::v1 as resource;
use weir_otlp::common::{AnyValue, KeyValue, Message, Resource, Scope};

pub(super) fn resource(view: Resource<'_>) -> resource::Resource {
    resource::Resource {
        attributes: attributes(view.attributes()),
        dropped_attributes_count: view.dropped_attributes_count(),
        entity_refs: view.0.messages(3).map(entity_ref).collect(),
    }
}

fn entity_ref(view: Message<'_>) -> pb::EntityRef {
    let strings = |number| {
        let bodies = view.fields().filter(move |field| field.number == number).filter_map(|field| field.body());
        bodies.map(|body| String::from_utf8_lossy(body).into_owned()).collect()
    };
    pb::EntityRef {
        schema_url: view.string(1).to_owned(),
        r#type: view.string(2).to_owned(),
        id_keys: strings(3),
        description_keys: strings(4),
    }
}

pub(super) fn scope(view: Scope<'_>) -> pb::InstrumentationScope {
    pb::InstrumentationScope {
        name: view.name().to_owned(),
        version: view.version().to_owned(),
        attributes: attributes(view.attributes()),
        dropped_attributes_count: low_u32(view.0.varint(4)),
    }
}

pub(super) fn attributes<'a>(views: impl Iterator<Item = KeyValue<'a>>) -> Vec<pb::KeyValue> {
    views.map(key_value).collect()
}

fn key_value(view: KeyValue<'_>) -> pb::KeyValue {
    pb::KeyValue {
        key: view.key().to_owned(),
        value: view.0.message(2).map(|value| any_value(AnyValue::of(value))),
        key_strindex: low_u32(view.0.varint(3)).cast_signed(),
    }
}

pub(super) fn any_value(view: AnyValue<'_>) -> pb::AnyValue {
    let value = match view {
        AnyValue::Empty => None,
        AnyValue::String(text) => Some(Value::StringValue(text.to_owned())),
        AnyValue::Bool(value) => Some(Value::BoolValue(value)),
        AnyValue::Int(value) => Some(Value::IntValue(value)),
        AnyValue::Double(value) => Some(Value::DoubleValue(value)),
        AnyValue::Array(array) => {
            Some(Value::ArrayValue(pb::ArrayValue { values: array.values().map(any_value).collect() }))
        }
        AnyValue::KeyValueList(list) => {
            Some(Value::KvlistValue(pb::KeyValueList { values: list.values().map(key_value).collect() }))
        }
        AnyValue::Bytes(bytes) => Some(Value::BytesValue(bytes.to_vec())),
        AnyValue::StringIndex(index) => Some(Value::StringValueStrindex(index)),
    };
    pb::AnyValue { value }
}

pub(super) fn low_u32(value: u64) -> u32 {
    u32::try_from(value & u64::from(u32::MAX)).unwrap()
}
